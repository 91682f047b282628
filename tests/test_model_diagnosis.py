"""Diagnoses by the learned model: each on a problem that has the defect, and on one that has not."""

import gymnasium
import numpy as np
import pytest
from numba.core import config

import spaql
from spaql.partition.rng import normal, uniform
from spaql.problems import Box, Discrete, Problem

STEPS = 600 if config.DISABLE_JIT else 3000


def reset(parameters, random, state):
    for d in range(len(state)):
        state[d] = 0.0
    state[0] = uniform(random) - 0.5


def move(state, action, parameters, random, next_state):
    """A mass with friction, pushed; or a place that the action before the last, or no action, moves; with noise."""
    delay, effect, noise = parameters[0], parameters[1], parameters[2]
    if delay > 0.0:
        next_state[1] = action[0]
        next_state[0] = state[0] + 0.2 * state[1]
    else:
        next_state[1] = 0.9 * state[1] + 0.2 * effect * action[0]
        next_state[0] = state[0] + 0.2 * next_state[1]
    next_state[0] = min(2.0, max(-2.0, next_state[0] + noise * normal(random)))
    return -abs(next_state[0]), False


def show(state, parameters, observation):
    """As much of the state as the observation has room for."""
    for d in range(len(observation)):
        observation[d] = state[d]


def make_mass(observed=2, delay=0.0, effect=1.0, noise=0.0, actions=None):
    states = Box([-2.0, -3.0][:observed], [2.0, 3.0][:observed])
    spaces = {"states": states, "actions": actions or Box(-1, 1), "horizon": 20}
    parameters = [delay, effect, noise]
    return Problem(name="mass", step=move, reset=reset, observe=show, hidden=2, parameters=parameters, **spaces)


def diagnose(problem, steps=STEPS, **options):
    return {found.id: found for found in spaql.Tessera(problem, seed=0, **options).learn(steps).diagnose()}


@pytest.mark.compiled_only
def test_whole_observations_have_no_hidden_state():
    assert diagnose(make_mass()) == {}
    assert not {"hidden-state", "action-delay"} & diagnose(make_mass(noise=0.05)).keys()


def test_hidden_state():
    found = diagnose(make_mass(observed=1))
    assert "action-delay" not in found
    assert "the model's squared error in 'observation[0]'" in found["hidden-state"].what
    assert "not observed" in found["hidden-state"].effect


@pytest.mark.compiled_only
def test_delayed_actions():
    found = diagnose(make_mass(observed=1, delay=1.0))
    assert "hidden-state" not in found
    assert "the actions of the last 3 steps explain" in found["action-delay"].what


@pytest.mark.compiled_only
def test_actions_without_effect():
    found = diagnose(make_mass(effect=0.0, noise=0.05))
    assert "do not depend on the actions" in found["action-without-effect"].what
    assert "action-without-effect" in diagnose(make_mass(effect=0.0, noise=0.1, actions=Discrete(3)))


@pytest.mark.compiled_only
def test_one_number_of_an_action_without_effect():
    found = diagnose(make_mass(actions=Box([-1, -1], [1, 1])))
    assert "do not depend on `action[1]` of the action" in found["action-without-effect"].what


def pay(state, action, parameters, random, next_state):
    """It ends where the action is small; otherwise the same reward in every step."""
    next_state[0] = uniform(random)
    return parameters[0], action[0] < parameters[1]


def test_constant_rewards():
    spaces = {"states": Box(0, 1), "actions": Box(0, 1), "horizon": 20}

    def find(reward, ends):
        return diagnose(Problem(name="pay", step=pay, reset=begin, **spaces, parameters=[reward, ends]))

    found = find(-1.0, 0.0)["reward-constant"]
    assert found.what.endswith("rewards were -1, and no episode terminated")
    assert "reward-constant" in find(0.0, 0.3)
    assert "reward-constant" not in find(1.0, 0.3)  # longer episodes are better


def begin(parameters, random, state):
    state[0] = uniform(random)


def approach(state, action, parameters, random, next_state):
    """A goal at about ten steps from the start, which pays for as long as the agent is there."""
    next_state[0] = min(1.0, max(0.0, state[0] + 0.1 * action[0]))
    return 1.0 if next_state[0] > 0.85 else 0.0, False


def from_zero(parameters, random, state):
    state[0] = 0.0


@pytest.mark.compiled_only
def test_horizon_too_short():
    spaces = {"states": Box(0, 1), "actions": Box(-1, 1)}
    short, enough = (
        diagnose(Problem(name="far", step=approach, reset=from_zero, **spaces, horizon=horizon)) for horizon in (11, 60)
    )
    assert "beyond the horizon of 11" in short["horizon-too-short"].what
    assert "horizon-too-short" not in enough


class Walk(gymnasium.Env):
    """A walk on a line that pays for being near 0, truncated after some steps."""

    observation_space = gymnasium.spaces.Box(-5.0, 5.0, (1,))
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))

    def __init__(self, limit=15, gain=1.0):
        self.limit, self.gain = limit, gain

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.steps = self.np_random.uniform(-1.0, 1.0), 0
        return np.array([self.place], np.float32), {}

    def step(self, action):
        self.place = float(np.clip(self.place + self.gain * action[0], -5.0, 5.0))
        self.steps += 1
        return np.array([self.place], np.float32), -abs(self.place), False, self.steps >= self.limit, {}


@pytest.mark.compiled_only
def test_terminated_episodes_say_nothing_about_the_horizon():
    assert "horizon-too-long" not in diagnose("CartPole-v1", max(STEPS, 1600))  # 1000 of them warm up


def test_horizon_too_long():
    found = diagnose(Walk(), horizon=100)
    assert "after at most 15 steps" in found["horizon-too-long"].what
    assert found["horizon-too-long"].advice == "Give horizon=15"
    assert diagnose(Walk(), horizon=15) == {}


@pytest.mark.compiled_only
def test_model_error_where_the_policy_goes():
    agent = spaql.Tessera(Walk(), seed=0, horizon=15).learn(STEPS)
    assert agent.diagnose() == []
    agent.set_env(Walk(gain=-1.0))  # another environment than the model's
    found = {each.id: each for each in agent.diagnose()}
    assert found["model-error"].what.startswith("where the policy goes, the root mean square of the model's errors")
    assert "in the learned model the policy earns" in found["model-optimistic"].what


@pytest.mark.compiled_only
def test_a_policy_that_earns_what_the_model_says_is_not_reported():
    for name, steps in (("pendulum", 4000), ("inventory", 5000)):
        agent = spaql.Tessera(name, seed=0).learn(steps)
        assert "model-optimistic" not in {finding.id for finding in agent.diagnose()}
