"""Problems whose state is not what the agent sees."""

import math
import os
import subprocess
import sys
from functools import cache

import numpy as np
import pytest
from numba.core import config

import spaql
from spaql.agents import resolve
from spaql.errors import ParameterError, ProblemError
from spaql.gym.environments import ProblemEnvironment
from spaql.partition.rng import Purpose, stream, uniform
from spaql.problems import Box, Discrete, Problem
from spaql.problems.base import BAD_STATE, NO_STATE

SLOW = config.DISABLE_JIT

# Hidden states of one's own -------------------------------------------------------------------------------------------


def _fuse_reset(parameters, random, state):
    """A fuse of random length, shown in every number that can be seen."""
    state[0] = uniform(random)
    for d in range(1, state.shape[0]):
        state[d] = 0.0


def _fuse_show(state, parameters, observation):
    for d in range(observation.shape[0]):
        observation[d] = state[0]


def _fuse_step(state, action, parameters, random, next_state):
    """Burns down by a quarter; pays 1 less what the action is off what was shown.  Numbers behind the first count."""
    for d in range(1, state.shape[0]):
        next_state[d] = state[d] + d
        if state[d] != d * round(state[d] / d):
            return -100.0, True
    next_state[0] = state[0] - 0.25
    off = 0.0
    for d in range(action.shape[0]):
        off += abs(action[d] - state[0])
    return 1.0 - off, next_state[0] < 0.0


@cache
def fuse(hidden, shown):
    return Problem(
        name="fuse",
        step=_fuse_step,
        reset=_fuse_reset,
        observe=_fuse_show,
        hidden=hidden,
        states=Box([0.0] * shown, [1.0] * shown),
        actions=Box([0.0] * shown, [1.0] * shown),
        horizon=10,
    )


@pytest.mark.parametrize(("hidden", "shown"), [(1, 3), (5, 1), (2, 2), (4, 2)])
@pytest.mark.parametrize("episodes", [7, 200])
def test_rows_of_unequal_width_move_up_together(hidden, shown, episodes):
    """Episodes side by side end early; those that go on keep their own hidden numbers and their own points.

    Playing what is seen pays exactly 1 per step, and the fuse's length is the number of steps.
    """
    if SLOW:
        episodes = 7
    result = resolve("no-movement").make(fuse(hidden, shown), seed=3).evaluate(episodes)
    random = stream(3, Purpose.EVALUATION_ENVIRONMENT)
    lengths = [math.floor(uniform(random) / 0.25) + 1 for _ in range(episodes)]
    assert len(set(lengths)) > 1
    assert result.returns.tolist() == lengths
    assert result.steps == sum(lengths)


@pytest.mark.parametrize("agent", [spaql.Tessera, spaql.SPAQL, spaql.AQL, spaql.Random])
def test_every_agent_learns_with_hidden_states(agent):
    trained = agent(fuse(5, 1), seed=1).learn(iterations=5 if SLOW else 300)
    assert 1.0 <= trained.evaluate(20).steps / 20 <= 4.0
    again = agent(fuse(5, 1), seed=1).learn(iterations=5 if SLOW else 300)
    np.testing.assert_array_equal(trained.evaluate(20).returns, again.evaluate(20).returns)
    action, _ = trained.predict([0.5])
    assert action.shape == (1,)


def test_what_is_hidden_is_not_shown_and_what_is_shown_is_remembered():
    environment = ProblemEnvironment(fuse(5, 1))
    observation, _ = environment.reset(seed=0)
    assert observation.shape == (1,)
    observation[:] = 0.0  # not ours to change the state with
    rewards = 0.0
    steps, over = 0, False
    while not over:
        shown = environment._state[0]
        observation, reward, over, _, _ = environment.step([shown])
        rewards += reward
        steps += 1
    assert rewards == steps
    assert observation[0] == 0.0  # burnt down to below the space, shown at its border


def _plain_step(state, action, parameters, random, next_state):
    for d in range(next_state.shape[0]):
        next_state[d] = state[d] + parameters[0]
    return 0.0, False


def _plain_reset(parameters, random, state):
    for d in range(state.shape[0]):
        state[d] = 0.5


def _plain_show(state, parameters, observation):
    observation[0] = state[0]


def _forgetful_show(state, parameters, observation):
    pass


def _reaching_show(state, parameters, observation):
    observation[0] = state[3]


def _raising_show(state, parameters, observation):
    raise ValueError("dark")


def _lost_show(state, parameters, observation):
    observation[0] = 7.0


def _two(state, observation):
    pass


def _writing_show(state, parameters, observation):
    parameters[0] = 9.0
    observation[0] = 0.5


def plain(**changes):
    given = {"observe": _plain_show, "hidden": 2, "parameters": [0.1], "horizon": 8, "clip": False} | changes
    return Problem(name="plain", step=_plain_step, reset=_plain_reset, states=Box(0, 1), actions=Discrete(2), **given)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"observe": None}, "problem 'plain': hidden states need an observe function"),
        ({"hidden": 0}, "hidden: expected a whole number of at least 1"),
        ({"hidden": -3}, "hidden: expected a whole number of at least 1"),
        ({"hidden": 2.0}, "hidden: expected a whole number of at least 1"),
        ({"hidden": True}, "hidden: expected a whole number of at least 1"),
        ({"hidden": "two"}, "hidden: expected a whole number of at least 1"),
        ({"hidden": 10**9}, "hidden: expected a whole number of at least 1 and at most 10000"),
        ({"observe": 3}, r"problem 'plain': observe must be a plain function \(def\), got 3"),
        ({"observe": len}, r"problem 'plain': observe must be a plain function"),
        ({"observe": _two}, "problem 'plain': observe must take 3 arguments, it takes 2"),
        ({"observe": _forgetful_show}, "problem 'plain' gave a state that is not a number, or did not fill it"),
        ({"observe": _reaching_show}, "problem 'plain': observe reads or writes past the end .*2 hidden numbers"),
        ({"observe": _raising_show}, "problem 'plain' raised an exception in its first observes: ValueError"),
        ({"observe": _lost_show}, "problem 'plain' left its state space"),
        ({"observe": _writing_show}, "problem 'plain' wrote to its parameters"),
        ({"clip": "no"}, "problem 'plain': clip must be True or False, got 'no'"),
        ({"clip": 2}, "problem 'plain': clip must be True or False, got 2"),
        ({"clip": None}, "problem 'plain': clip must be True or False, got None"),
        ({"clip": np.array([True, False])}, "problem 'plain': clip must be True or False, got array"),
    ],
)
def test_bad_observe_hidden_and_clip_are_refused(changes, says):
    if SLOW and changes.get("observe") in (_reaching_show, _raising_show):
        pytest.skip("plain Python has messages of its own")
    with pytest.raises((ParameterError, ProblemError), match=rf"^{says}") as caught:
        plain(**changes)
    assert "\n" not in str(caught.value)


def test_observe_without_hidden_has_as_many_numbers_as_are_shown():
    assert plain(hidden=None).hidden == 1
    assert plain(clip=np.True_).clip is True


def test_clip_forgives_what_is_a_fault_without_it():
    """Eight steps of 0.1 from 0.5 leave [0, 1]."""
    with pytest.raises(ProblemError, match=r"problem 'plain' left its state space, .* while it was evaluated"):
        spaql.Random(plain()).evaluate(2)
    assert spaql.Random(plain(clip=True)).evaluate(2).steps == 16
    bare, kind = (ProblemEnvironment(plain(clip=clip)) for clip in (False, True))
    for environment in (bare, kind):
        environment.reset(seed=0)
        for _ in range(5):
            observation = environment.step(0)[0]
        assert observation[0] == pytest.approx(1.0)
    with pytest.raises(ProblemError, match=r"left its state space, which is .* in step 6 of an episode"):
        bare.step(0)
    assert kind.step(0)[0].tolist() == [1.0]
    assert kind._state[0] == pytest.approx(1.1)  # the state itself goes on
    trained = spaql.Tessera(plain(clip=True)).learn(iterations=10)
    assert trained.predict([33.0])[0] == trained.predict([1.0])[0]


def test_clip_without_observe():
    problem = plain(clip=True, observe=None, hidden=None)
    assert spaql.Random(problem).evaluate(2).steps == 16
    environment = ProblemEnvironment(problem)
    environment.reset(seed=0)
    shown = [environment.step(0)[0][0] for _ in range(8)]
    np.testing.assert_allclose(shown, np.minimum(0.5 + 0.1 * np.arange(1, 9), 1.0))


def _late_nan(state, parameters, observation):
    observation[0] = 0.5 if state[1] < 0.85 else np.nan


@pytest.mark.parametrize("clip", [False, True])
def test_no_number_is_a_fault_with_clip_too(clip):
    problem = plain(observe=_late_nan, clip=clip)
    with pytest.raises(ProblemError, match=r"gave a state that is not a number, .* while it was evaluated"):
        spaql.Random(problem).evaluate(2)
    environment = ProblemEnvironment(problem)
    environment.reset(seed=0)
    for _ in range(3):
        environment.step(0)
    with pytest.raises(ProblemError, match=r"gave a state that is not a number, .* in step 4 of an episode"):
        environment.step(0)
    assert (BAD_STATE, NO_STATE) == (4, 16)


@pytest.mark.compiled_only
def test_all_of_it_works_without_the_compiler(tmp_path):
    """The same steps in plain Python, in a process of its own."""
    code = """
import numpy as np, spaql, sys

for name in ("cartpole", "mountaincar", "mountaincar-continuous", "acrobot", "pendulum"):
    problem = spaql.problems.PROBLEMS[name](horizon=5)
    agent = spaql.Tessera(problem, seed=0).learn(iterations=3)
    print(name, agent.training_steps, *agent.history["score"].tolist(), *spaql.Random(problem).evaluate(2).returns)
"""
    said = []
    for off in ("1", "0"):
        run = subprocess.run(
            [sys.executable, "-W", "error", "-W", "ignore:overflow encountered in scalar:RuntimeWarning", "-c", code],
            env=os.environ | {"NUMBA_DISABLE_JIT": off},
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, run.stderr
        said.append([line.split() for line in run.stdout.splitlines()])
    for plain_words, compiled_words in zip(*said, strict=True):
        assert plain_words[0] == compiled_words[0]
        np.testing.assert_allclose(
            [float(word) for word in plain_words[1:]], [float(word) for word in compiled_words[1:]], rtol=1e-9
        )
