"""Bad input of the Python API: each case is accepted, or refused with one sentence of a class of spaql.

The tables cross a list of values with every place that takes one: parameters of all algorithms, spaces, problems,
calls of an agent, and what an environment returns.  SPAQL_SOAK=1 tries all values, else every place tries some.
"""

import os

import gymnasium
import numpy as np
import pytest
from numba.core import config

import spaql
from environments_for_tests import Toy
from spaql.errors import EnvironmentFault, ParameterError, ProblemError, SpaqlError
from spaql.problems import Box, Discrete, Problem, uniform
from spaql.validation import show

pytestmark = [pytest.mark.tiny_planning, pytest.mark.usefixtures("plan_early")]

SOAK = bool(os.environ.get("SPAQL_SOAK"))


class Odd:
    """An object of no use."""

    def __repr__(self):
        return "an odd\nthing"


def test_what_python_cannot_print_is_shown_in_words():
    nested = []
    for _ in range(100_000):
        nested = [nested]
    assert show(nested) == "a deeply nested list"
    assert show(10**5000) == "a very large int"
    with pytest.raises(ParameterError, match=r"^seed: .* got a deeply nested list$"):
        spaql.AQL("oil", seed=nested)


VALUES = {
    "huge": 10**400,
    "-huge": -(10**400),
    "unprintable": 10**5000,
    "2^63": 2**63,
    "2^64": 2**64,
    "-1": -1,
    "nan": float("nan"),
    "inf": float("inf"),
    "1e308": 1e308,
    "1e-320": 1e-320,
    "complex": 1j,
    "None": None,
    "text": "x",
    "empty text": "",
    "nul": "a\0b",
    "bytes": b"x",
    "True": True,
    "list": [1, "x", None],
    "empty list": [],
    "nested": [[1], [2, 3]],
    "dict": {"a": 1},
    "array": np.array([1.0, 2.0]),
    "empty array": np.zeros(0),
    "bools": np.array([True, False]),
    "texts": np.array(["a", "b"]),
    "objects": np.array([None, 10**400], object),
    "date": np.datetime64("2020-01-01"),
    "type": int,
    "function": lambda: None,
    "odd": Odd(),
}


def step(state, action, parameters, random, next_state):
    next_state[0] = state[0]
    return 1.0 - abs(state[0] - action[0]), False


def reset(parameters, random, state):
    state[0] = 0.5


def problem(**changed):
    given = {"name": "still", "step": step, "reset": reset, "states": Box(0, 1), "actions": Box(0, 1), "horizon": 4}
    return Problem(**given | changed)


@pytest.fixture(scope="module")
def still():
    return problem()


@pytest.fixture(scope="module")
def trained(still):
    from planning_for_tests import tiny_plans

    with tiny_plans():
        return {
            "tessera": spaql.Tessera(still, seed=0, time_aware=True).learn(iterations=20),
            "aql": spaql.AQL(still, rollouts=0, seed=0).learn(iterations=20),
            "gym": spaql.SPAQL(Toy(), rollouts=1, seed=0).learn(iterations=5),
        }


def chosen(place):
    """Return values to try at a place; others at every place, the same in every run."""
    names = list(VALUES)
    order = np.random.default_rng([*place.encode()]).permutation(len(names))
    return [names[at] for at in (order if SOAK else order[:8])]


def try_all(place, call):
    """Try values at a place; fail with those that raise what is not an error of spaql, in one sentence."""
    wrong = []
    for name in chosen(place):
        try:
            call(VALUES[name])
        except SpaqlError as error:
            text = str(error)
            if "\n" in text or len(text) > 600:
                wrong.append(f"{place} = {name}: {len(text)} characters: {text[:300]!r}")
        except Exception as error:  # what is wrong is collected
            wrong.append(f"{place} = {name}: {type(error).__name__}: {error!s:.200}")
    assert not wrong, "\n".join(wrong)


# Parameters -----------------------------------------------------------------------------------------------------------


def test_parameters_of_all_algorithms(still):
    for name, entry in spaql.algorithms().items():
        if entry.foreign or not entry.learns:
            continue
        needed = {parameter: 1.0 for parameter in entry.required if parameter != "reference"}
        needed |= {"reference": [0.5]} if "reference" in entry.required else {}
        for parameter in [*entry.parameters, "seed", "verbose", "no_such_parameter"]:
            try_all(
                f"{name}.{parameter}",
                lambda value, p=parameter, e=entry, n=needed: e.cls(still, **n | {p: value}),
            )
        try_all(f"{name}.problem", lambda value, e=entry, n=needed: e.cls(value, **n))


def test_a_large_parameter_is_refused_before_a_kernel_sees_it(still):
    with pytest.raises(
        ParameterError, match=r"^splits_before_reset: expected a whole number of at least 1 and at most"
    ):
        spaql.SPAQL(still, splits_before_reset=10**19)


PLACES = {
    "Box.low": lambda value: Box(value, 1),
    "Box.high": lambda value: Box([0, 0], value),
    "Discrete": Discrete,
    **{
        f"Problem.{name}": lambda value, name=name: problem(**{name: value})
        for name in ("name", "step", "reset", "states", "actions", "horizon", "parameters", "observe", "hidden", "clip")
    },
    **{
        f"Problem.{name}": lambda value, name=name: problem(**{name: value}) for name in ("rewards", "model", "optimum")
    },
    "Problem.rewards.high": lambda value: problem(rewards=(0.0, value)),
    **{
        f"environment.{name}": lambda value, name=name: spaql.GymnasiumProblem(Toy(), **{name: value})
        for name in ("bounds", "periodic", "horizon", "warm_up", "names", "action_names", "env_kwargs", "seed")
    },
    "environment.bounds.ends": lambda value: spaql.GymnasiumProblem(Toy(), bounds={0: value}),
    "environment.bounds.high": lambda value: spaql.GymnasiumProblem(Toy(), bounds={0: (0, value)}),
    "environment.periodic.name": lambda value: spaql.GymnasiumProblem(Toy(), periodic=[value]),
    "environment.names.name": lambda value: spaql.GymnasiumProblem(Toy(), names=[value]),
    "oil.survey": lambda value: spaql.problems.oil(survey=value),
    "oil.sharpness": lambda value: spaql.problems.oil(sharpness=value),
    "oil.horizon": lambda value: spaql.problems.oil(horizon=value),
    "load": spaql.load,
}


def learnable(value):
    """Not so large that learning for so long is what was asked for."""
    return not isinstance(value, int) or value in (True, -1)


CALLS = {
    "learn.total_timesteps": lambda agent, value: agent.learn(value) if learnable(value) else None,
    "learn.callback": lambda agent, value: agent.learn(iterations=1, callback=value) if value is not int else None,
    "learn.log_interval": lambda agent, value: agent.learn(iterations=1, log_interval=value),
    "learn.progress_bar": lambda agent, value: agent.learn(iterations=1, progress_bar=value),
    "set_params": lambda agent, value: agent.set_params(seed=value),
    "predict.observation": lambda agent, value: agent.predict(value),
    "predict.state": lambda agent, value: agent.predict([0.5], state=value),
    "predict.episode_start": lambda agent, value: agent.predict([0.5], episode_start=value),
    "predict.deterministic": lambda agent, value: agent.predict([0.5], deterministic=value),
    "explain.observation": lambda agent, value: agent.explain(value),
    "explain.names": lambda agent, value: agent.explain([0.5], names=value),
    "rules.names": lambda agent, value: agent.rules(names=value),
    "evaluate.episodes": lambda agent, value: agent.evaluate(value) if learnable(value) else None,
    "evaluate.seed": lambda agent, value: agent.evaluate(2, seed=value),
    "evaluate.deterministic": lambda agent, value: agent.evaluate(2, deterministic=value),
    "evaluate.progress_bar": lambda agent, value: agent.evaluate(2, progress_bar=value),
    "record_evaluation": lambda agent, value: agent.record_evaluation(value),
    "greedy_boxes.observations": lambda agent, value: agent.greedy_boxes(value),
    "greedy_boxes.step": lambda agent, value: agent.greedy_boxes([0.5], step=value),
}


@pytest.mark.parametrize("place", PLACES)
def test_spaces_problems_and_environments(place):
    try_all(place, PLACES[place])


@pytest.mark.parametrize("name", ["tessera", "aql", "gym"])
@pytest.mark.parametrize("place", CALLS)
def test_calls_of_an_agent(trained, name, place):
    try_all(f"{place} of {name}", lambda value: CALLS[place](trained[name], value))


@pytest.mark.parametrize("value", [10**400, 10**5000], ids=["long", "unprintable"])
def test_huge_integers_are_one_sentence(trained, value):
    agent = trained["tessera"]
    for call in (
        lambda: Box(0, value),
        lambda: problem(parameters=[value]),
        lambda: problem(rewards=(0, value)),
        lambda: agent.predict([value]),
        lambda: agent.explain(value),
        lambda: agent.learn(iterations=value),
        lambda: agent.learn(iterations=1, log_interval=value),
    ):
        with pytest.raises(SpaqlError) as caught:
            call()
        assert len(str(caught.value)) < 300


def test_an_array_is_no_flag(trained):
    agent, two = trained["aql"], np.array([True, False])
    for name, call in {
        "deterministic": lambda: agent.evaluate(2, deterministic=two),
        "progress_bar": lambda: agent.learn(iterations=1, progress_bar=two),
    }.items():
        with pytest.raises(ParameterError, match=f"^{name}: expected True or False, got array"):
            call()
    with pytest.raises(ParameterError, match=r"^deterministic: expected True or False"):
        agent.predict([0.5], deterministic=two)


def test_a_name_is_a_text():
    with pytest.raises(ProblemError, match="name must be a text, got 3"):
        problem(name=3)


# Environments ---------------------------------------------------------------------------------------------------------


def learn_on(twist):
    env = Toy(twist=lambda env, outcome: outcome if env.steps < 3 else twist(*outcome))
    return spaql.SPAQL(env, rollouts=1, horizon=6, seed=0).learn(iterations=2)


@pytest.mark.parametrize("part", ["observation", "reward", "terminated", "truncated", "outcome"])
def test_what_a_step_returns(part):
    def twist(value):
        def twisted(*outcome):
            parts = ("observation", "reward", "terminated", "truncated", "info")
            if part == "outcome":
                return value
            return tuple(value if name == part else kept for name, kept in zip(parts, outcome, strict=True))

        return learn_on(twisted)

    try_all(f"step.{part}", twist)


@pytest.mark.parametrize("place", [2, 3], ids=["terminated", "truncated"])
def test_an_array_as_terminated_is_a_fault_of_the_environment(place):
    def twisted(*outcome):
        return (*outcome[:place], np.array([True, False]), *outcome[place + 1 :])

    with pytest.raises(
        EnvironmentFault, match="returned an array as terminated or truncated from step in step 3 of an"
    ):
        learn_on(twisted)


def test_an_array_as_terminated_is_a_fault_in_the_warm_up_too():
    env = Toy(gymnasium.spaces.Box(-np.inf, np.inf, (1,)), twist=lambda env, out: (*out[:2], np.zeros(2), *out[3:]))
    with pytest.raises(
        EnvironmentFault, match="returned an array as terminated or truncated from step in step 1 of the"
    ):
        spaql.SPAQL(env, rollouts=1, horizon=6, seed=0)


@pytest.mark.parametrize(
    "error", [ZeroDivisionError("mine"), ValueError("The truth value of mine"), TypeError("unpack")]
)
def test_an_error_of_an_environment_reaches_the_caller_as_it_is(error):
    def twisted(*outcome):
        raise error

    with pytest.raises(type(error)) as caught:
        learn_on(twisted)
    assert caught.value is error


def late(state, action, parameters, random, next_state):
    next_state[0] = state[0]
    if uniform(random) < 0.01:
        raise ValueError("late")
    return 1.0, False


@pytest.mark.compiled_only
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_compiled_step_that_raises_is_one_sentence(capfd):
    with pytest.raises(ProblemError, match="'still' raised an exception in"):
        spaql.SPAQL(problem(step=late), rollouts=1, seed=0).learn(iterations=500)
    capfd.readouterr()


@pytest.mark.skipif(config.DISABLE_JIT, reason="takes long with the JIT off")
@pytest.mark.parametrize("name", ["tessera", "aql", "ucb-q"])
def test_a_hundred_thousand_actions_are_slow_but_no_hang(name, tmp_path):
    many = problem(actions=Discrete(100_000), horizon=1)
    entry = spaql.algorithms()[name]
    agent = entry.cls(many, seed=0, **({"rollouts": 0} if name == "aql" else {})).learn(iterations=2)
    assert 0 <= agent.predict([0.5])[0] < 100_000
    assert agent.explain([0.5]) is not None
