"""The contract of compiled problems, and what breaks it."""

import functools
import importlib
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import spaql
from contract_for_tests import MAKERS, assert_refused
from spaql.errors import ParameterError, ProblemError
from spaql.partition.rng import uniform
from spaql.problems import Box, Discrete, Problem, ambulance, oil

compiled_only = pytest.mark.compiled_only


def drift(state, action, parameters, random, next_state):
    next_state[0] = action[0]
    return 0.5, False


def start(parameters, random, state):
    state[0] = 0.5


def make(**changes):
    given = {"name": "mine", "step": drift, "reset": start, "states": Box(0, 1), "actions": Box(0, 1), "horizon": 4}
    return Problem(**(given | changes))


# The contract of a problem ------------------------------------------------------------------------------------


def four(state, action, parameters, random):
    return 0.5, False


def unknown_name(state, action, parameters, random, next_state):
    next_state[0] = no_such_function(action[0])  # noqa: F821
    return 0.5, False


def only_reward(state, action, parameters, random, next_state):
    next_state[0] = action[0]
    return 0.5


def text_reward(state, action, parameters, random, next_state):
    next_state[0] = action[0]
    return "much", False


@compiled_only
@pytest.mark.parametrize(
    ("step", "says"),
    [
        (four, "step must take 5 arguments, it takes 4"),
        (unknown_name, "step does not compile"),
        (only_reward, "step does not compile"),
        (text_reward, "step does not compile"),
        (3, "step must be a plain function (def), got 3"),
        (None, "step must be a plain function (def), got None"),
    ],
    ids=["arguments", "unknown name", "only a reward", "text", "a number", "none"],
)
def test_a_step_that_is_none_is_refused(step, says):
    assert_refused(ProblemError, lambda: make(step=step), "'mine'", says)


@compiled_only
def test_a_reset_of_the_wrong_kind_is_refused():
    assert_refused(ProblemError, lambda: make(reset=four), "'mine'", "reset must take 3 arguments, it takes 4")


@pytest.mark.parametrize("horizon", [0, -1, True, 5.0, "5", None, math.nan])
def test_bad_horizons_are_refused(horizon):
    for build in (make, oil, ambulance):
        assert_refused(
            ParameterError, lambda build=build: build(horizon=horizon), "horizon", "at least 1", repr(horizon)
        )


@pytest.mark.parametrize("parameters", [[math.nan], [1.0, math.inf], ["much"], [None], [object()]])
def test_bad_parameters_are_refused(parameters):
    assert_refused(ProblemError, lambda: make(parameters=parameters), "'mine'", "parameters must be")


@pytest.mark.parametrize("space", [None, 3, (0, 1), "box"])
def test_bad_spaces_are_refused(space):
    assert_refused(ProblemError, lambda: make(states=space), "'mine'", "states must be a Box")
    assert_refused(ProblemError, lambda: make(actions=space), "'mine'", "actions must be a Box or Discrete")


def test_finite_states_are_refused():
    assert_refused(ProblemError, lambda: make(states=Discrete(3)), "'mine'", "states must be a Box")


@pytest.mark.parametrize(
    ("low", "high"),
    [(0, 0), (1, 0), (math.nan, 1), (0, math.inf), ([0, 0], [1, 1, 1]), ("a", 1), ([], []), ([[0]], [[1]]), (None, 1)],
)
def test_bad_boxes_are_refused(low, high):
    assert_refused(ParameterError, lambda: Box(low, high), "box: bounds must be")


@pytest.mark.parametrize("count", [0, -1, True, 2.0, "3", None])
def test_bad_counts_of_actions_are_refused(count):
    assert_refused(ParameterError, lambda: Discrete(count), "actions", repr(count))


@pytest.mark.parametrize("place", [1.5, -0.1, math.nan, math.inf])
def test_a_start_outside_the_space_is_refused(place):
    def reset(parameters, random, state):
        state[0] = parameters[0] if parameters[1] == 0.0 else place

    says = "gave a state that is not a number" if math.isnan(place) else "left its state space"
    assert_refused(ProblemError, lambda: make(reset=reset, parameters=[0.0, 1.0]), f"'mine' {says}", "first reset")


# A step that fails in the end: at its first call, or after many.  `parameters` are the value and how rarely it comes.


def nan_reward(state, action, parameters, random, next_state):
    next_state[0] = action[0]
    return math.nan if uniform(random) >= parameters[0] else 0.5, False


def infinite_reward(state, action, parameters, random, next_state):
    next_state[0] = action[0]
    return -math.inf if uniform(random) >= parameters[0] else 0.5, False


def nan_state(state, action, parameters, random, next_state):
    next_state[0] = math.nan if uniform(random) >= parameters[0] else action[0]
    return 0.5, False


def state_above(state, action, parameters, random, next_state):
    next_state[0] = 1.0 + 1e-6 if uniform(random) >= parameters[0] else action[0]
    return 0.5, False


def state_below(state, action, parameters, random, next_state):
    next_state[0] = -1e-6 if uniform(random) >= parameters[0] else action[0]
    return 0.5, False


def division(state, action, parameters, random, next_state):
    next_state[0] = action[0]
    return 1.0 / (0.0 if uniform(random) >= parameters[0] else 2.0), False


LEFT, NOT_FINITE, RAISED = "left its state space", "gave a reward that is not a finite number", "raised an exception"

FAULTS = {
    "reward NaN": (nan_reward, NOT_FINITE),
    "reward infinite": (infinite_reward, NOT_FINITE),
    "state NaN": (nan_state, "gave a state that is not a number"),
    "state above": (state_above, LEFT),
    "state below": (state_below, LEFT),
    "ZeroDivisionError": (division, RAISED),
}

# Numba reports the exception of a callback as one that nobody can catch; the problem's own message follows it.
unraisable = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

faults = pytest.mark.parametrize(
    "fault", [pytest.param(name, marks=compiled_only if name == "ZeroDivisionError" else ()) for name in FAULTS]
)

LEARNERS = {
    "Tessera": lambda p: spaql.Tessera(p, seed=1),
    "published": lambda p: spaql.SPAQL(p, rollouts=1, seed=1),
    "AQL": lambda p: spaql.AQL(p, rollouts=0, seed=1),
}


@unraisable
@faults
def test_a_step_that_fails_at_once_is_refused(fault):
    step, says = FAULTS[fault]
    assert_refused(ProblemError, lambda: make(step=step, parameters=[0.0]), "'mine'", says, "in its first step", "mend")


@unraisable
@faults
@pytest.mark.parametrize("agent", LEARNERS)
def test_a_step_that_fails_later_stops_the_learning(fault, agent):
    step, says = FAULTS[fault]
    learner = LEARNERS[agent](make(step=step, parameters=[0.98]))
    message = assert_refused(ProblemError, lambda: learner.learn(iterations=2000), "'mine'", says, "in iteration ")
    iteration = int(message.split("in iteration ")[1].split(";")[0])
    assert 1 < iteration < 2000


@pytest.mark.parametrize("agent", LEARNERS)
def test_iterations_before_a_fault_stay_in_the_history(agent):
    learner = LEARNERS[agent](make(step=nan_reward, parameters=[0.98], horizon=1))
    message = assert_refused(ProblemError, lambda: learner.learn(iterations=2000), "in iteration ")
    assert learner.iterations == int(message.split("in iteration ")[1].split(";")[0]) - 1


@unraisable
@faults
def test_a_step_that_fails_stops_an_evaluation(fault):
    step, says = FAULTS[fault]
    agent = spaql.Random(make(step=step, parameters=[0.98]))
    assert_refused(ProblemError, lambda: agent.evaluate(500), "'mine'", says, "while it was evaluated")


def far_away(state, action, parameters, random, next_state):
    next_state[0] = parameters[1] if uniform(random) >= parameters[0] else action[0]
    return 0.5, False


def lost_reset(parameters, random, state):
    state[0] = 0.5 if uniform(random) < 0.9 else parameters[1]


def report_states_far_outside():
    """Learn on problems that leave their space by far; every one must be refused."""
    for learner in LEARNERS.values():
        for place in (-1e6, 1e12, -1e300, 1e300):
            for changes in ({"step": far_away}, {"reset": lost_reset}):
                agent = learner(make(parameters=[0.98, place], **changes))
                assert_refused(ProblemError, lambda agent=agent: agent.learn(iterations=2000), LEFT, "in iteration ")


@compiled_only
def test_states_far_outside_are_reported():
    """In a process of its own: compiled code that trusted such a state would take the whole test run with it."""
    code = "import test_problems; test_problems.report_states_far_outside()"
    ran = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parent, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-2000:]


def test_the_slack_of_the_state_space_is_forgiven():
    def step(state, action, parameters, random, next_state):
        next_state[0] = 1.0 + 1e-10 if uniform(random) < 0.5 else -1e-10
        return 0.5, False

    problem = make(step=step)
    for agent in (learner(problem) for learner in LEARNERS.values()):
        assert agent.learn(iterations=20).evaluate(10).mean == 2.0


def test_whole_numbers_and_no_parameters_will_do():
    def step(state, action, parameters, random, next_state):
        next_state[0] = 1
        return 1, False

    problem = make(step=step, parameters=())
    assert problem.parameters.size == 0
    assert spaql.Random(problem).evaluate(10).mean == 4.0


def test_parameters_cannot_be_changed():
    numbers = np.array([1.0, 2.0])
    problem = make(parameters=numbers)
    numbers[0] = 9.0
    assert problem.parameters.tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="read-only"):
        problem.parameters[0] = 3.0


def test_actions_and_states_arrive_in_the_problem_s_units():
    def step(state, action, parameters, random, next_state):
        next_state[0] = action[0] + 10.0
        next_state[1] = state[0]
        return action[0] + state[0], False

    def reset(parameters, random, state):
        state[0] = 12.0
        state[1] = 30.0

    problem = make(step=step, reset=reset, states=Box([10, 10], [14, 30]), actions=Box(0, 4), horizon=2)
    agent = spaql.Tessera(problem).learn(iterations=1)
    agent_first = float(agent.predict([12.0, 30.0])[0][0])
    agent_second = float(agent.predict([agent_first + 10.0, 12.0])[0][0])
    expected = (agent_first + 12.0) + (agent_second + agent_first + 10.0)
    np.testing.assert_allclose(agent.evaluate(5, deterministic=True).returns, expected, rtol=1e-12)


def past_the_end(state, action, parameters, random, next_state):
    next_state[0] = 0.5
    next_state[1] = 0.5
    return 0.5, False


def past_the_parameters(state, action, parameters, random, next_state):
    next_state[0] = 0.5
    return parameters[5], False


def own_random_numbers(state, action, parameters, random, next_state):
    next_state[0] = np.random.random()  # noqa: NPY002
    return 0.5, False


def writes_to_parameters(state, action, parameters, random, next_state):
    next_state[0] = 0.5
    parameters[0] += 1.0
    return 0.5, False


def huge_reward(state, action, parameters, random, next_state):
    next_state[0] = 0.5
    return -1e308, False


def forgets_to_fill(state, action, parameters, random, next_state):
    return 0.5, False


@pytest.mark.parametrize(
    ("step", "says"),
    [
        (past_the_end, "past the end of an array"),
        (past_the_parameters, "past the end of an array"),
        (own_random_numbers, "random numbers of its own"),
        (writes_to_parameters, "wrote to its parameters"),
        (huge_reward, "not a finite number of at most 1e+100"),
        (forgets_to_fill, "did not fill it"),
    ],
)
def test_a_step_that_breaks_the_contract_is_refused_when_the_problem_is_made(step, says):
    assert_refused(ProblemError, lambda: make(step=step, parameters=[0.5]), "'mine'", says)


@unraisable
def test_an_iteration_whose_rollouts_fail_does_not_count():
    """The step is sound in training's own states and fails in a rollout: the score of that iteration means nothing."""

    def step(state, action, parameters, random, next_state):
        next_state[0] = action[0]
        return (math.nan if uniform(random) < parameters[0] else 0.5), False

    agent = spaql.SPAQL(make(step=step, parameters=[0.002]), rollouts=50, seed=3)
    assert_refused(ProblemError, lambda: agent.learn(iterations=1000), "'mine'", NOT_FINITE)
    assert agent.iterations == len(agent.history)
    assert np.isfinite(agent.history["score"]).all()
    assert (agent.history["best"] == np.maximum.accumulate(agent.history["best"])).all()


def test_whatever_a_step_raises_is_told_in_one_sentence():
    def step(state, action, parameters, random, next_state):
        next_state[0] = 0.5
        if action[0] >= 0.0:
            raise ValueError("not today")
        return 0.5, False

    assert_refused(ProblemError, lambda: make(step=step), "'mine' raised an exception", "ValueError not today")


def test_a_step_may_leave_the_space_as_it_ends():
    def step(state, action, parameters, random, next_state):
        next_state[0] = 5.0
        return 1.0, True

    problem = make(step=step)
    for agent in (learner(problem) for learner in LEARNERS.values()):
        assert agent.learn(iterations=20).evaluate(10).mean == 1.0


@pytest.mark.parametrize("step", [len, functools.partial(print)])
def test_only_plain_functions_are_steps(step):
    assert_refused(ProblemError, lambda: make(step=step), "plain function")


@pytest.mark.parametrize(
    ("kind", "module", "copying"),
    [("Tessera", "spaql.agents.tessera.agent", "grow_buffer"), ("published", "spaql.partition.kernels", "walk")],
)
def test_an_interrupt_while_arrays_grow_leaves_the_agent_whole(monkeypatch, kind, module, copying):
    copy, calls_left = getattr(importlib.import_module(module), copying), [1 if kind == "published" else 2]
    more = {"rollouts": 2} if kind == "published" else {}

    def interrupted(*arguments):
        calls_left[0] -= 1
        if calls_left[0] == 0:
            raise KeyboardInterrupt
        return copy(*arguments)

    agent = MAKERS[kind](oil(), **more)
    with monkeypatch.context() as patch:
        patch.setattr(f"{module}.{copying}", interrupted)
        with pytest.raises(KeyboardInterrupt):
            agent.learn(iterations=50)
    agent.learn(iterations=50 - agent.iterations)
    other = MAKERS[kind](oil(), **more).learn(iterations=50)
    np.testing.assert_array_equal(agent.history["score"], other.history["score"])
    np.testing.assert_array_equal(agent.cells().q, other.cells().q)


# At the limits ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [2**64, 2**128 + 1])
def test_seeds_that_could_meet_other_streams_are_refused(seed):
    assert_refused(ParameterError, lambda: spaql.Random(oil(), seed=seed), "seed: expected")
    assert_refused(ParameterError, lambda: spaql.Random(oil()).evaluate(10, seed=seed), "seed: expected")
    assert spaql.Random(oil(), seed=2**64 - 1).evaluate(10).steps == 50


@pytest.mark.parametrize("shape", [(1e-300, 1e-300), (1e308, 1e308), (0.0, 1.0)])
def test_shapes_beyond_floating_point_are_refused(shape):
    assert_refused(ParameterError, lambda: ambulance(shape=shape), "shape: expected")


def test_numbers_in_quotes_are_refused():
    assert_refused(ParameterError, lambda: oil(sharpness="10"), "sharpness: expected")
    assert_refused(ParameterError, lambda: spaql.Tessera(oil(), exploration="0.5"), "exploration: expected")


@pytest.mark.parametrize("state", [[0.7], [float("nan")], ["now"]])
def test_time_steps_must_be_whole(state):
    agent = spaql.AQL(ambulance(), rollouts=1).learn(iterations=1)
    assert_refused(ParameterError, lambda: agent.predict([0.5], state=state), "state: expected")
