"""Diagnoses: each is made where it should be and not elsewhere, in plain words, and asking changes nothing."""

import json

import gymnasium
import numpy as np
import pytest
from numba.core import config

import spaql
from spaql import cli
from spaql.errors import EnvironmentFault, ParameterError, ProblemError
from spaql.problems import Box, Discrete, Problem, ambulance, oil, random_travel

FEW = 40 if config.DISABLE_JIT else 300
LEARNERS = {"SPAQL": spaql.Tessera, "published": spaql.SPAQL, "AQL": spaql.AQL}


def reset(parameters, random, state):
    state[0] = 0.5


def drift(state, action, parameters, random, next_state):
    """Pushed upwards until the border holds it."""
    next_state[0] = min(1.0, state[0] + 0.3)
    return parameters[0] * action[0] + parameters[1], False


def level(state, action, parameters, random, next_state):
    """Nothing matters."""
    next_state[0] = 0.5
    return 0.5, False


def choose(state, action, parameters, random, next_state):
    """One state, in which actions differ."""
    next_state[0] = 0.5
    return action[0], False


def stops(state, action, parameters, random, next_state):
    """Over after a step or two."""
    next_state[0] = 0.5
    return 0.5, action[0] > 0.5


def pushed(size=1.0, zero=0.0, **more):
    return Problem(
        name="drift",
        step=drift,
        reset=reset,
        states=Box(0, 1),
        actions=Box(0, 1),
        horizon=8,
        parameters=[size, zero],
        **more,
    )


def ids(agent, **planned):
    return [found.id for found in agent.diagnose(**planned)]


@pytest.mark.parametrize("name", LEARNERS)
def test_asking_changes_nothing(name):
    asked, silent = (LEARNERS[name](oil(), seed=3) for _ in range(2))
    asked.diagnose()
    asked.learn(iterations=5)
    first = [str(found) for found in asked.diagnose()]
    assert [str(found) for found in asked.diagnose()] == first
    asked.learn(iterations=5)
    silent.learn(iterations=10)
    np.testing.assert_array_equal(asked.history, silent.history)
    np.testing.assert_array_equal(asked.cells().q, silent.cells().q)
    assert asked.num_timesteps == silent.num_timesteps
    assert asked.evaluate(10).mean == silent.evaluate(10).mean


@pytest.mark.compiled_only  # with next to no effort for planning it is not a good agent
def test_a_good_agent_on_a_good_problem_is_left_alone():
    for problem in (oil(), ambulance()):
        agent = spaql.Tessera(problem, seed=0)
        assert agent.diagnose(iterations=300) == []
        assert agent.learn(iterations=300).diagnose() == []
    assert spaql.Random(oil()).diagnose() == []
    assert spaql.Random(oil()).diagnose(iterations=5) == []


def test_the_range_of_rewards():
    assert ids(spaql.Tessera(pushed(3.0))) == []  # takes rewards as they are
    (declared,) = spaql.Tessera(pushed(3.0, rewards=(0, 1))).diagnose()
    assert declared.id == "reward-outside-declared-range"
    assert "declares 0 to 1" in declared.what
    assert ids(spaql.Tessera(pushed(3.0, rewards=(0, 3)))) == []
    for size, zero, wrong in ((3.0, 0.0, True), (1.0, -0.5, True), (1.0, 0.0, False)):
        for make in (spaql.SPAQL, spaql.AQL):
            assert ("reward-outside-unit-range" in ids(make(pushed(size, zero)))) == wrong


@pytest.mark.parametrize("rewards", [(1, 0), (0, np.inf), "ab", 3, (0, 1, 2), (np.nan, 1)])
def test_a_declared_range_that_is_none(rewards):
    with pytest.raises(ProblemError, match="rewards must be the smallest and the largest one"):
        pushed(rewards=rewards)


def climb(state, action, parameters, random, next_state):
    """Leaves its range."""
    next_state[0] = state[0] + 0.3
    return action[0], False


def show(state, parameters, observation):
    observation[0] = state[0]


def test_clipped_states():
    spaces = {"states": Box(0, 1), "actions": Box(0, 1), "horizon": 8}
    for more in ({}, {"observe": show, "hidden": 1}):
        problem = Problem(name="climb", step=climb, reset=reset, clip=True, **spaces, **more)
        (found,) = spaql.Tessera(problem).diagnose()
        assert found.id == "states-clipped"
        assert "above the range of state 0, 1," in found.what
        assert "Widen `states`" in found.advice


def test_real_walls_are_no_clipped_states():
    assert ids(spaql.Tessera(pushed())) == []
    assert ids(spaql.Tessera(Odd(observation=(1.0, 0.0)), horizon=5)) == []
    assert ids(spaql.Tessera(Odd(observation=(np.float32(0.07), 0.5)), horizon=5, bounds={0: (0.0, 0.07)})) == []
    (found,) = spaql.Tessera(Odd(observation=(-2.0, 0.5)), horizon=5).diagnose()
    assert found.id == "states-clipped"
    assert "below the range of observed number '0', 0," in found.what


def test_a_saturated_value():
    before = spaql.SPAQL(oil(), seed=0)
    (found,) = before.diagnose()
    assert found.id == "value-saturated"
    assert "will stay there" in found.what
    (found, *_) = before.learn(iterations=FEW).diagnose()
    assert found.id == "value-saturated"
    assert "in every update" in found.what
    assert "value-saturated" not in ids(spaql.AQL(oil(), seed=0).learn(iterations=FEW))
    once = spaql.SPAQL(oil(horizon=1), seed=0)
    assert "value-saturated" not in ids(once) + ids(once.learn(iterations=FEW))  # nothing comes after the only step
    short = Problem(name="short", step=stops, reset=reset, states=Box(0, 1), actions=Box(0, 1), horizon=5)
    assert ids(spaql.SPAQL(short)) == []  # what ends is worth 0


@pytest.mark.parametrize("name", LEARNERS)
def test_a_budget_too_small(name):
    agent = LEARNERS[name](random_travel(family=1, number=3), seed=0)
    assert "budget-too-small" not in ids(agent)  # nobody said how long
    assert "budget-too-small" in ids(agent, total_timesteps=agent.steps_per_iteration)
    assert "budget-too-small" not in ids(agent, iterations=1000)
    with pytest.raises(ParameterError, match="either iterations or total_timesteps"):
        agent.diagnose(100, iterations=5)


def test_nothing_to_tell_apart():
    for actions in (Box(0, 1), Discrete(3)):
        flat = Problem(name="flat", step=level, reset=reset, states=Box(0, 1), actions=actions, horizon=5)
        found = spaql.Tessera(flat, seed=0).learn(iterations=FEW).diagnose()
        assert [each.id for each in found[:2]] == ["nothing-split", "reward-constant"]
        assert "no state and no action" in found[0].what
    agent = spaql.Tessera(oil(survey="quadratic", sharpness=1), seed=0, leaves=1).learn(iterations=FEW)
    assert len(agent.cells()) == 1
    assert "nothing-split" not in ids(agent)  # one action is the best everywhere
    bandit = Problem(name="bandit", step=choose, reset=reset, states=Box(0, 1), actions=Box(0, 1), horizon=5)
    assert "nothing-split" not in ids(spaql.Tessera(bandit, seed=0).learn(iterations=FEW))


def test_starved_cells():
    agent = spaql.AQL(oil(), seed=0).learn(iterations=6)
    assert "cells-starved" in ids(agent)
    assert "cells-starved" not in ids(agent.learn(iterations=20 * FEW))


@pytest.mark.parametrize("name", ["QLearning", "UCBQ", "RLSVI"])
def test_starved_cells_of_a_fixed_net(name):
    fine = getattr(spaql, name)(oil(), bins=64, seed=0).learn(iterations=3)
    (found,) = [one for one in fine.diagnose() if one.id == "cells-starved"]
    assert "Give fewer `bins`, or train longer" in str(found)
    coarse = getattr(spaql, name)(oil(), bins=1, seed=0).learn(iterations=6)
    assert "cells-starved" not in ids(coarse)


def test_a_memory_too_small():
    agent = spaql.Tessera(oil(), buffer_size=100, seed=0)
    assert ids(agent, iterations=10) == []
    assert "buffer-too-small" in ids(agent, iterations=FEW)
    assert "buffer-too-small" in ids(agent.learn(iterations=FEW))


def test_selection_by_luck():
    agent = spaql.SPAQL(ambulance(), seed=0).learn(iterations=FEW)
    (found,) = [found for found in agent.diagnose() if found.id == "selection-noise"]
    assert "20 rollouts" in found.what
    assert "too high" in found.effect
    quiet = spaql.SPAQL(pushed(), scaling=0.1, rollouts=1000, seed=0)
    if not config.DISABLE_JIT:
        assert "selection-noise" not in ids(quiet.learn(iterations=20))


def test_finite_actions():
    coin = Problem(name="coin", step=level, reset=reset, states=Box(0, 1), actions=Discrete(3), horizon=5)
    for make in LEARNERS.values():
        agent = make(coin, seed=0)
        assert "budget-too-small" in ids(agent, iterations=1) or agent.steps_to_split <= 5
        assert "reward-outside-unit-range" not in ids(agent.learn(iterations=3))


def test_words():
    (found,) = spaql.SPAQL(oil()).diagnose()
    assert str(found) == f"{found.what}: {found.effect}. {found.advice}."
    assert set(found.to_dict()) == {"id", "what", "effect", "advice"}


def test_train_says_it(capsys):
    command = ["train", "oil", "--iterations", "5", "--episodes", "10"]
    assert cli.main([*command, "--algorithm", "spaql"]) == 0
    shown = capsys.readouterr()
    assert "spaql: before training: no reward below 0 was met" in shown.err
    assert "diagnosis: V was at its cap 5 in every update: " in shown.out
    assert cli.main([*command, "--algorithm", "random", "--quiet"]) == 0
    shown = capsys.readouterr()
    assert "diagnosis: no problem found" in shown.out
    assert "before training" not in shown.err
    assert cli.main([*command, "--algorithm", "spaql", "--quiet", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["diagnosis"]
    assert found[0]["id"] == "value-saturated"


class Odd(gymnasium.Env):
    """Takes seeds as RandomState does, and does one thing wrong."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, reward=0.0, observation=(0.5, 0.5), begin=(0.5, 0.5)):
        self.reward, self.observation, self.begin = reward, observation, begin

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            np.random.RandomState(seed)
        return np.array(self.begin), {}

    def step(self, action):
        return np.array(self.observation), self.reward, False, False, {}


@pytest.mark.parametrize("seed", range(3))
def test_the_probe_takes_small_seeds(seed):
    assert isinstance(spaql.Tessera(Odd(), seed=seed, horizon=5).diagnose(), list)


def test_the_probe_takes_rewards_in_any_wrapping():
    wrapped = spaql.Tessera(Odd(reward=np.array([1.0])), horizon=5).diagnose()
    assert wrapped == spaql.Tessera(Odd(reward=1.0), horizon=5).diagnose()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (
            {"reward": "much"},
            r"environment 'Odd' gave the reward 'much' in step 1 of an episode, while it was diagnosed",
        ),
        ({"reward": np.nan}, "gave the reward nan in step 1 of an episode, while"),
        ({"reward": 1e300}, r"gave the reward 1e\+300 in step 1 of an episode, while"),
        ({"observation": (0.5,)}, "showed .* in step 1 of an episode, while"),
        ({"observation": (0.5, np.nan)}, "showed nan as .* in step 1 of an episode, while"),
        ({"begin": (np.inf, 0.5)}, "showed inf as .* in step 0 of an episode, while"),
    ],
)
def test_faults_in_the_probe_are_told_as_in_training(wrong, says):
    with pytest.raises(EnvironmentFault, match=says):
        spaql.Tessera(Odd(**wrong), horizon=5).diagnose()
