"""Faults of environments, and Ctrl-C in all places."""

import functools
import os
import re
import signal
import threading
import time
from fractions import Fraction

import numpy as np
import pytest
from gymnasium import spaces

import spaql
from environments_for_tests import (
    ENDLESS,
    F64,
    LEARNERS,
    Broken,
    Toy,
    Watched,
    assert_one_sentence,
    breaks,
    every_learner,
)
from spaql.errors import EnvironmentFault, ParameterError
from spaql.gym.encoding import Observations
from spaql.gym.problem import GymnasiumProblem

pytestmark = pytest.mark.compiled_only  # but for the process of its own at the end


def at_step(count, change):
    """A twist that changes what a step returns once, `count` steps from now on."""

    def twist(env, outcome):
        return change(env, outcome) if env.steps == count else outcome

    return twist


@every_learner
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_observations_that_are_no_numbers_are_faults(name, value):
    shown = spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Box(0, 1, (2,), F64)})

    def broken(env, outcome):
        return {"a": 0, "b": np.array([0.5, value])}, *outcome[1:]

    env = Toy(shown, twist=at_step(22, broken))
    agent = LEARNERS[name](env, horizon=6)
    said = rf"^environment 'Toy' showed {value} as b\[1\] in step 4 of an episode, in iteration \d+; observations must"
    with pytest.raises(EnvironmentFault, match=said) as caught:
        agent.learn(iterations=20)
    assert_one_sentence(caught)
    done = agent.iterations
    agent.learn(iterations=5)
    assert agent.iterations == done + 5


@every_learner
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e101, None])
def test_rewards_that_are_no_numbers_are_faults(name, value):
    env = Toy(twist=at_step(23, lambda env, outcome: (outcome[0], value, *outcome[2:])))
    agent = LEARNERS[name](env, horizon=6)
    shown = re.escape(str(value))
    said = rf"^environment 'Toy' gave the reward {shown} in step 5 of an episode, in iteration \d+; rewards must be"
    with pytest.raises(EnvironmentFault, match=said) as caught:
        agent.learn(iterations=20)
    assert_one_sentence(caught)
    agent.learn(iterations=3)
    assert np.isfinite(agent.cells().q).all()
    assert np.isfinite(agent.history["score"]).all()


SOME_REWARDS = [
    *(0.25, 2, True, np.float32(0.25), np.float16(0.25), np.int8(3), np.bool_(True), np.array(0.25), Fraction(1, 4)),
    *(np.array([0.25]), np.array([[3]]), np.array([True]), [0.25], (2,)),
]


@pytest.mark.parametrize("value", SOME_REWARDS, ids=repr)
def test_rewards_of_one_number_in_any_wrapping(value):
    env = Toy(twist=lambda env, outcome: (outcome[0], value, *outcome[2:]))
    returns = spaql.Tessera(env, horizon=6).learn(iterations=2).evaluate(2).returns
    assert returns.tolist() == [6.0 * float(np.asarray(value, dtype=float).item())] * 2


@every_learner
@pytest.mark.parametrize(
    "value",
    [
        "much",
        "1.0",
        b"1",
        [],
        [1.0, 2.0],
        np.zeros(2),
        np.zeros((30, 2)),
        {"a": 1.0},
        1j,
        object,
        10**400,
        [[1], [2, 3]],
    ],
    ids=lambda value: repr(value)[:20],
)
def test_rewards_that_are_not_one_number_are_faults(name, value):
    env = Toy(twist=at_step(23, lambda env, outcome: (outcome[0], value, *outcome[2:])))
    agent = LEARNERS[name](env, horizon=6)
    said = r"^environment 'Toy' gave the reward .* in step 5 of an episode, in iteration \d+; rewards must be finite"
    with pytest.raises(EnvironmentFault, match=said) as caught:
        agent.learn(iterations=20)
    assert_one_sentence(caught)
    agent.learn(iterations=3)
    assert np.isfinite(agent.cells().q).all()


LINE, TABLE = spaces.Box(0, 1, (3,), F64), spaces.Box(0, 1, (2, 2), F64)

PAIR = spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Box(0, 1, (2,), F64)})

UNFIT = [
    *((LINE, value) for value in (0.5, np.array(0.5), [0.5], np.zeros(1), np.zeros(2), np.zeros(4), np.zeros((1, 3)))),
    *((LINE, value) for value in (np.zeros((3, 1)), np.zeros((3, 3)), "abc", None, {"a": 1}, [[0], [1, 2], [3]])),
    *((spaces.Box(0, 1, (1,), F64), value) for value in (0.5, np.zeros((1, 1)), np.zeros(2), "x", None)),
    *((spaces.Box(0, 1, (), F64), value) for value in ([0.5], np.zeros(1), np.zeros((1, 1)), "x")),
    *((TABLE, value) for value in (0.5, np.zeros(2), np.zeros((1, 2)), np.zeros((2, 1)), np.zeros((1, 2, 2)))),
    *((spaces.Discrete(3), value) for value in ([1], np.array([1]), "one")),
    *((PAIR, value) for value in ({"a": 0, "b": 0.5}, {"a": 0, "b": np.zeros((1, 2))}, {"a": [0], "b": np.zeros(2)})),
    *((PAIR, value) for value in ({"a": 0}, None, 0.5, [0, [0.0, 0.0]])),
]


@pytest.mark.parametrize(("space", "value"), UNFIT, ids=lambda each: repr(each).replace("\n", "")[:30])
def test_observations_of_another_shape_are_faults(space, value):
    said = r"^environment 'Toy' showed .* in step {} of an episode, {}; observations must be (numbers of shape|members)"
    broken = lambda env, outcome: (value, *outcome[1:])  # noqa: E731
    agent = spaql.Tessera(Toy(space, twist=at_step(23, broken)), horizon=6)
    with pytest.raises(EnvironmentFault, match=said.format(5, "in iteration 4")) as caught:
        agent.learn(iterations=20)
    assert_one_sentence(caught)
    shape = np.shape(value) if not isinstance(value, list | dict | str) and value is not None else None
    if shape is not None and space is not PAIR:
        assert f"showed shape {shape} in step" in str(caught.value)
        assert f"numbers of shape {space.shape}:" in str(caught.value)
    agent.learn(iterations=3)
    agent.problem.env.twist = at_step(agent.problem.env.steps + 2, broken)
    with pytest.raises(EnvironmentFault, match=said.format(2, "while it was evaluated")):
        agent.evaluate(3)
    env = Toy(space, start=lambda env: value if env.resets == 3 else env.observation_space.sample())
    with pytest.raises(EnvironmentFault, match=said.format(0, "in iteration 3")):
        spaql.Tessera(env, horizon=6).learn(iterations=5)


def test_the_part_of_another_shape_is_named():
    env = Toy(PAIR, twist=at_step(2, lambda env, outcome: ({"a": 0, "b": np.zeros(3)}, *outcome[1:])))
    said = r"showed shape \(3,\) as b in step 2 of an episode, in iteration 1; observations must be numbers of shape "
    with pytest.raises(EnvironmentFault, match=said + r"\(2,\) as b: mend its step or reset function$"):
        spaql.Tessera(env, horizon=6).learn(iterations=1)


def test_shapes_are_looked_at_in_the_warm_up():
    endless = spaces.Box(-np.inf, np.inf, (3,), F64)
    for step in (3, 6, 7):
        env = Toy(endless, twist=at_step(step, lambda env, outcome: (np.zeros(1), *outcome[1:])))
        with pytest.raises(EnvironmentFault, match=rf"showed shape \(1,\) in step {step} of the warm-up; .* \(3,\)"):
            spaql.Tessera(env)


@pytest.mark.parametrize(
    "value", [np.zeros((30, 3)), np.zeros((2, 3)), np.zeros(2), 0.5, None, [[1, 2], [3]], np.full((2, 2), "x"), {1}]
)
def test_predictions_for_another_shape_are_refused_in_a_sentence(value):
    agent = spaql.Tessera(Toy(TABLE), horizon=6).learn(iterations=2)
    with pytest.raises(ParameterError, match=r"^observation: expected (shape|numbers)") as caught:
        agent.predict(value)
    assert_one_sentence(caught)


def test_faults_in_resets_evaluations_and_warm_ups():
    env = Toy(start=lambda env: np.array([np.nan if env.resets == 3 else 0.5]))
    with pytest.raises(
        EnvironmentFault, match=r"showed nan as number 0 of the observation in step 0 of an episode, in iteration 3"
    ):
        spaql.Tessera(env, horizon=6).learn(iterations=5)
    env = Toy(twist=at_step(40, lambda env, outcome: (np.array([np.nan]), *outcome[1:])))
    agent = spaql.Tessera(env, horizon=6).learn(iterations=5)
    with pytest.raises(
        EnvironmentFault,
        match=r"showed nan as number 0 of the observation in step 4 of an episode, while it was evaluated",
    ):
        agent.evaluate(10)
    agent.learn(iterations=1)
    for step in (3, 6, 7):  # also the last of an episode, and the first of the next
        env = Toy(ENDLESS, twist=at_step(step, lambda env, outcome: (np.array([np.inf]), *outcome[1:])))
        with pytest.raises(
            EnvironmentFault,
            match=rf"showed inf as number 0 of the observation in step {step} of the warm-up; observations",
        ):
            spaql.Tessera(env)


def test_numbers_without_a_name_are_called_numbers():
    pair = spaces.Tuple([spaces.Discrete(2), spaces.Box(0, 1, (2,), F64)])
    for space, shown, called in (
        (spaces.Box(0, 1, (2,), F64), np.array([0.5, np.nan]), "number 1 of the observation"),
        (pair, (0, np.array([np.nan, 0.5])), r"part 1\[0\] of the observation"),
        (spaces.Dict({"3": spaces.Box(0, 1, (1,), F64)}), {"3": np.array([np.nan])}, "3"),
    ):
        env = Toy(space, twist=lambda env, outcome, shown=shown: (shown, *outcome[1:]))
        with pytest.raises(EnvironmentFault, match=rf"'Toy' showed nan as {called} in step 1 of an episode"):
            spaql.Tessera(env, horizon=6).learn(iterations=1)
    env = Toy(pair, twist=lambda env, outcome: ((0, np.zeros(3)), *outcome[1:]))
    with pytest.raises(
        EnvironmentFault, match=r"showed shape \(3,\) as part 1 in step 1 .* of shape \(2,\) as part 1:"
    ):
        spaql.Tessera(env, horizon=6).learn(iterations=1)
    with pytest.raises(ParameterError, match=r"^observation: number 1 is nan, not a finite number$"):
        Observations(spaces.Box(0, 1, (2,), F64)).rows([0.5, np.nan])


def old_step(env, outcome):
    observation, reward, terminated, truncated, info = outcome
    return observation, reward, terminated or truncated, info


class OldReset(Toy):
    """Shows its first observation and no more, as in old Gym."""

    def reset(self, **options):
        return super().reset(**options)[0]


class NoSeed(Toy):
    """Its reset takes nothing, as in old Gym."""

    def reset(self):
        return super().reset()


BETWEEN = {"bounded": spaces.Box(0, 1, (2,), F64), "endless": spaces.Box(-np.inf, np.inf, (2,), F64)}

OLD = [
    (lambda space: Toy(space, twist=old_step), r"returned 4 values from step in step 1 of .*; step must return five"),
    (
        lambda space: Toy(space, twist=lambda *_: None),
        r"returned no tuple from step in step 1 of .*; step must return five",
    ),
    (
        lambda space: Toy(space, twist=lambda *_: [0] * 6),
        r"returned more than five values from step in step 1 of .*; step",
    ),
    (OldReset, r"returned array\(.*\) from reset in step 0 of .*; reset must return two values"),
    (NoSeed, r"takes no seed in reset in step 0 of .*; reset must take seed"),
]


@pytest.mark.parametrize(("make", "says"), OLD)
def test_environments_of_old_gym_are_refused_in_a_sentence(make, says):
    for kind, where in (("bounded", "an episode, in iteration 1"), ("endless", "the warm-up")):
        with pytest.raises(EnvironmentFault, match=rf"^environment '\w+' {says}") as caught:
            spaql.Tessera(make(BETWEEN[kind]), horizon=6).learn(iterations=1)
        assert where in str(caught.value)
        assert_one_sentence(caught)
    with pytest.raises(EnvironmentFault, match=rf"^environment '\w+' {says}") as caught:
        spaql.Random(make(BETWEEN["bounded"]), horizon=6).evaluate(2)
    assert "while it was evaluated" in str(caught.value)


@pytest.mark.parametrize("where", ["reset", "step"])
@pytest.mark.parametrize("kind", BETWEEN)
@pytest.mark.parametrize("error", [TypeError("no 'seed'"), ValueError("not enough values to unpack")])
def test_type_errors_of_the_environment_itself_come_through(where, kind, error):
    def raises(*_):
        raise error

    env = Toy(BETWEEN[kind], **{"reset": {"start": raises}, "step": {"twist": raises}}[where])
    with pytest.raises(type(error)) as caught:
        spaql.Tessera(env, horizon=6).learn(iterations=1)
    assert caught.value is error


@pytest.mark.parametrize("missing", ["observation_space", "action_space"])
@pytest.mark.parametrize("wrap", [lambda env: env, Watched])
def test_environments_without_spaces_are_refused_in_a_sentence(missing, wrap):
    env = Toy()
    delattr(env, missing)
    with pytest.raises(
        ParameterError, match=rf"^environment: 'Toy' has no {missing}; set self\.{missing} to"
    ) as caught:
        spaql.Tessera(wrap(env))
    assert_one_sentence(caught)


def test_attribute_errors_of_a_space_come_through():
    class Lazy(Toy):
        action_space = property(lambda self: self.nowhere, lambda self, space: None)

    with pytest.raises(AttributeError, match="nowhere"):
        spaql.Tessera(Lazy())


def test_factories_that_need_arguments_are_refused_in_a_sentence():
    for make in (Watched, lambda length: Toy(length=length), functools.partial(Watched)):
        with pytest.raises(ParameterError, match=r"^environment: .* needs arguments; give a function") as caught:
            spaql.Tessera(make)
        assert_one_sentence(caught)
    with pytest.raises(TypeError, match="unexpected keyword"):
        spaql.Tessera(lambda: Toy(width=3))


@every_learner
@pytest.mark.parametrize("step", [1, 4, 25, 100])
def test_an_exception_of_the_environment_reaches_the_caller_as_it_is(name, step):
    env = Toy(twist=at_step(step, breaks))
    agent = LEARNERS[name](env, horizon=6)
    with pytest.raises(Broken) as caught:
        agent.learn(iterations=60)
    assert caught.value.args == ("out of order", step)
    assert any(entry.name == "breaks" for entry in caught.traceback)  # where it happened
    done = agent.iterations
    assert len(agent.history) == done
    agent.learn(iterations=20)
    assert agent.iterations == done + 20
    assert (agent.history["training_steps"][-1], agent.num_timesteps) == (agent.training_steps, agent.num_timesteps)
    assert not env.strangers


@pytest.mark.parametrize("error", [SystemExit(3), GeneratorExit(), StopIteration("no more"), AssertionError("no")])
def test_whatever_is_raised_comes_through(error):
    def raises(env, outcome):
        raise error

    agent = spaql.Tessera(Toy(twist=at_step(10, raises)), horizon=6)
    with pytest.raises(type(error)) as caught:
        agent.learn(iterations=10)
    assert caught.value is error
    agent.learn(iterations=10)


def test_exceptions_of_resets_and_evaluations():
    def start(env):
        if env.resets == 4:
            raise Broken("no start")
        return np.array([0.5])

    agent = spaql.Tessera(Toy(start=start), horizon=6)
    with pytest.raises(Broken, match=r"no start"):
        agent.learn(iterations=10)
    assert agent.iterations == 3
    agent.learn(iterations=10)
    agent.problem.env.twist = at_step(agent.problem.env.steps + 3, breaks)
    with pytest.raises(Broken):
        agent.evaluate(5)
    agent.problem.env.twist = None
    assert agent.evaluate(5).steps == 30


def test_a_failed_first_score_is_not_the_best_one():
    """Rewards are negative, so a sum that was cut short would beat every whole episode for ever."""

    def costly(env, outcome):
        if env.steps == 2:
            raise Broken
        return outcome[0], -1.0, *outcome[2:]

    agent = spaql.SPAQL(Toy(twist=costly), horizon=6, rollouts=3)
    with pytest.raises(Broken):
        agent.learn(iterations=3)
    assert agent.iterations == 0
    agent.learn(iterations=3)
    assert agent.history["best"].tolist() == [-6.0] * 3
    assert agent.selection_score == -6.0


def test_bad_returns_of_a_step_are_errors_not_crashes():
    for bad in ((1, 2), None, (np.zeros(3), 0.0, False, False, {}), (np.zeros(1), "much", False, False, {})):
        agent = spaql.Tessera(Toy(twist=at_step(5, lambda env, outcome, bad=bad: bad)), horizon=6)
        with pytest.raises((ValueError, TypeError)):
            agent.learn(iterations=3)
        agent.learn(iterations=3)


# Ctrl-C ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def default_handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler  # put back
    signal.signal(signal.SIGINT, before)


def interrupt_me():
    os.kill(os.getpid(), signal.SIGINT)


@every_learner
def test_ctrl_c_from_outside(name, default_handler):
    started = threading.Event()

    def slow(env, outcome):
        started.set()
        time.sleep(0.0005)
        return outcome

    env = Toy(twist=slow)
    agent = LEARNERS[name](env, horizon=6).prepare()

    def later():
        started.wait(10)
        time.sleep(0.1)
        interrupt_me()

    thread = threading.Thread(target=later)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        agent.learn(iterations=1_000_000)
    thread.join()
    done = agent.iterations
    assert 0 < done == len(agent.history) == agent.iterations
    env.twist = None
    agent.learn(iterations=4)
    assert agent.iterations == done + 4
    assert agent.evaluate(2).steps == 12
    assert not env.strangers


@every_learner
@pytest.mark.parametrize("step", [1, 17, 18, 19, 200])
def test_ctrl_c_from_within_a_step(name, step, default_handler):
    def interrupts(env, outcome):
        interrupt_me()
        return outcome

    for twist in (interrupts, lambda env, outcome: (_ for _ in ()).throw(KeyboardInterrupt)):
        env = Toy(twist=at_step(step, twist))
        agent = LEARNERS[name](env, horizon=6)
        with pytest.raises(KeyboardInterrupt):
            agent.learn(iterations=100)
        assert env.steps == step  # at once, not at the end of the episode
        assert len(agent.history) == agent.iterations
        agent.learn(iterations=100)
        assert agent.iterations >= 100
        assert agent.training_steps + agent.selection_steps + agent.monitoring_steps == env.steps


@pytest.mark.parametrize("options", [{"ends": True}, {"ends": False}, {"length": 10**9}])
def test_an_episode_that_ctrl_c_finds_finished_counts(options, default_handler):
    env = Toy(twist=at_step(18, lambda env, outcome: interrupt_me() or outcome), **options)
    agent = spaql.Tessera(env, horizon=6)
    with pytest.raises(KeyboardInterrupt):
        agent.learn(iterations=100)
    assert (agent.iterations, env.steps) == (3, 18)


def test_ctrl_c_in_an_evaluation(default_handler):
    env = Toy()
    agent = spaql.Tessera(env, horizon=6).learn(iterations=5)
    env.twist = at_step(40, lambda env, outcome: interrupt_me() or outcome)
    with pytest.raises(KeyboardInterrupt):
        agent.evaluate(1000)
    env.twist = None
    again, fresh = agent.evaluate(10), spaql.Tessera(Toy(), horizon=6).learn(iterations=5).evaluate(10)
    np.testing.assert_array_equal(again.returns, fresh.returns)


def test_ctrl_c_again_while_a_step_hangs(default_handler):
    """The first is kept until the step is done; the second gets out of the step."""

    def hangs(env, outcome):
        interrupt_me()
        time.sleep(0.01)
        interrupt_me()
        time.sleep(5.0)
        raise AssertionError("was not interrupted")

    agent = spaql.Tessera(Toy(twist=at_step(15, hangs)), horizon=6)
    start = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        agent.learn(iterations=10)
    assert time.perf_counter() - start < 4.0
    assert agent.learn(iterations=10).iterations == 12


def test_a_handler_of_one_s_own_stays_and_its_exception_comes_through():
    class Alarm(Exception):
        pass

    def handler(number, frame):
        raise Alarm

    before = signal.signal(signal.SIGINT, handler)
    try:
        agent = spaql.Tessera(Toy(twist=at_step(15, lambda env, outcome: interrupt_me() or outcome)), horizon=6)
        with pytest.raises(Alarm):
            agent.learn(iterations=10)
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert agent.learn(iterations=10).iterations == 12


def test_a_move_that_tells_nothing_is_an_interrupt():
    """An exception between two lines of the callback leaves no trace but a status of 0."""
    problem = GymnasiumProblem(Toy())
    with pytest.raises(KeyboardInterrupt):
        problem.check(0, "in iteration 1")
    problem.check(1, "in iteration 1")


def test_learning_in_another_thread():
    agents = [spaql.Tessera(Toy(), horizon=6, seed=seed) for seed in (1, 1)]
    thread = threading.Thread(target=agents[0].learn, kwargs={"iterations": 30})
    thread.start()
    thread.join()
    agents[1].learn(iterations=30)
    np.testing.assert_array_equal(agents[0].history, agents[1].history)
