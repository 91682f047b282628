"""Environments and checks that the tests of Gymnasium share."""

import math

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from spaql.agents import algorithms
from spaql.agents.baselines import Heuristic
from spaql.agents.fixed_net import FixedNetAgent

F32, F64 = np.float32, np.float64


class Toy(gymnasium.Env):
    """Random observations, a random reward, an end after `length` steps; `twist` may change what a step returns."""

    def __init__(self, seen=None, played=None, *, length=6, twist=None, ends=False, start=None):
        self.observation_space = spaces.Box(0, 1, (1,), F64) if seen is None else seen
        self.action_space = spaces.Discrete(2) if played is None else played
        self.length, self.twist, self.ends, self.start = length, twist, ends, start
        self.elapsed = self.steps = self.resets = 0
        self.strangers = []
        self.seeds = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
            self.seeds.append(seed)
        self.elapsed = 0
        self.resets += 1
        return self.observation_space.sample() if self.start is None else self.start(self), {}

    def step(self, action):
        if not self.action_space.contains(action):
            self.strangers.append(action)
        self.elapsed += 1
        self.steps += 1
        over = self.elapsed >= self.length
        shown = self.observation_space.sample()
        outcome = shown, float(self.np_random.random()), over and self.ends, over and not self.ends, {}
        return outcome if self.twist is None else self.twist(self, outcome)


class Watched(gymnasium.Wrapper):
    """Counts steps and keeps actions that are no members of the action space."""

    def __init__(self, env):
        super().__init__(env)
        self.steps, self.strangers = 0, []

    def step(self, action):
        self.steps += 1
        if not self.action_space.contains(action):
            self.strangers.append(action)
        return self.env.step(action)


def assert_one_sentence(caught):
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


# Observation spaces ---------------------------------------------------------------------------------------------------

NESTED = spaces.Dict(
    {
        "wind": spaces.Box(-1, 2, (2,), F64),
        "inner": spaces.Dict({"gear": spaces.Discrete(3, start=2), "pair": spaces.Tuple([spaces.MultiBinary(2)] * 2)}),
        "height": spaces.Box(0, 5, (), F64),
        "mode": spaces.MultiDiscrete([2, 4], start=[0, -1]),
    }
)


def stacked(space, samples):
    """Many observations as vector environments stack them."""
    if isinstance(space, spaces.Dict):
        return {key: stacked(space[key], [sample[key] for sample in samples]) for key in space.spaces}
    if isinstance(space, spaces.Tuple):
        return tuple(stacked(inner, [s[i] for s in samples]) for i, inner in enumerate(space.spaces))
    return np.stack([np.asarray(sample) for sample in samples])


def assert_member(space, action):
    """A member of the space, of its own shape and type."""
    assert space.contains(action), action
    if isinstance(space, spaces.Discrete):
        assert isinstance(action, int | np.int64)
    else:
        assert action.dtype == space.dtype
        assert np.shape(action) == space.shape


# Ranges ---------------------------------------------------------------------------------------------------------------

ENDLESS = spaces.Box(-np.inf, np.inf, (1,), F64)


class Dial(gymnasium.Env):
    """An angle that grows without end by steps of 0.3; the reward is 1 where its sine is positive."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,), F64)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.angle = float(self.np_random.uniform(-math.pi, math.pi))
        return np.array([self.angle]), {}

    def step(self, action):
        reward = float((math.sin(self.angle) > 0.0) == bool(action))
        self.angle += 0.3
        return np.array([self.angle]), reward, False, False, {}


# Faults ---------------------------------------------------------------------------------------------------------------


def made_by(entry):
    """A function that makes the agents of one algorithm, with few rollouts."""
    few = {"rollouts": 2} if entry.accepts("rollouts") else {}
    return lambda problem, **options: entry.make(problem, **few | options)


# every algorithm for any problem: without parameters that must be given, and no heuristic of one problem
ENTRIES = {
    entry.label: entry
    for entry in algorithms().values()
    if entry.built_in and not entry.required and not issubclass(entry.cls, Heuristic)
}
ALL = {label: made_by(entry) for label, entry in ENTRIES.items()}
LEARNERS = {label: make for label, make in ALL.items() if ENTRIES[label].learns}

every_learner = pytest.mark.parametrize("name", LEARNERS)


class Broken(Exception):
    """What only this environment raises."""


def breaks(env, outcome):
    raise Broken("out of order", env.steps)


# Terminated and truncated ---------------------------------------------------------------------------------------------


class Pair(gymnasium.Env):
    """From state 0 to state 1 for nothing, from 1 to 0 for 1; `end` says how the second step ends the episode."""

    observation_space = spaces.Discrete(2)
    action_space = spaces.Discrete(1)

    def __init__(self, end, reward=1.0):
        self.end, self.reward = end, reward

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0
        return 0, {}

    def step(self, action):
        self.place = 1 - self.place
        over = self.place == 0
        terminated, truncated = over and "terminated" in self.end, over and "truncated" in self.end
        return self.place, self.reward * over, terminated, truncated, {}


# Seeds and evaluation -------------------------------------------------------------------------------------------------


class Chase(gymnasium.Env):
    """Follow a walk without bounds, and answer a lamp: a wrong answer ends the episode.

    The action is a step of -1, 0 or 1 and the answer; the reward is 1 near the origin and falls off.
    """

    observation_space = spaces.Dict(
        {"lamp": spaces.Discrete(2), "body": spaces.Dict({"at": spaces.Box(-np.inf, np.inf, (1,), F64)})}
    )
    action_space = spaces.MultiDiscrete([3, 2])

    def __init__(self, unit=1.0):
        self.unit = unit

    def seen(self):
        return {"lamp": self.lamp, "body": {"at": np.array([self.at])}}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.lamp = float(self.np_random.uniform(-4, 4)), int(self.np_random.integers(2))
        return self.seen(), {}

    def step(self, action):
        right = int(action[1]) == self.lamp
        self.at += float(action[0]) - 1.0 + float(self.np_random.normal(0.0, 0.1))
        self.lamp = int(self.np_random.integers(2))
        reward = self.unit * math.exp(-(self.at**2)) if right else 0.0
        return self.seen(), reward, not right, False, {}


# Laws -----------------------------------------------------------------------------------------------------------------

ENVIRONMENTS = {
    "CartPole-v1": lambda: gymnasium.make("CartPole-v1"),
    "MountainCar-v0": lambda: gymnasium.make("MountainCar-v0"),
    "Pendulum-v1": lambda: gymnasium.make("Pendulum-v1"),
    "Acrobot-v1": lambda: gymnasium.make("Acrobot-v1"),
    "MountainCarContinuous-v0": lambda: gymnasium.make("MountainCarContinuous-v0"),
    "spaql/Oil-v0": lambda: gymnasium.make("spaql/Oil-v0"),
    "spaql/Ambulance-v0": lambda: gymnasium.make("spaql/Ambulance-v0", cost=0.25),
    "chase": Chase,
    "dial": Dial,
    "pair": lambda: Pair("terminated"),
    "one step": lambda: Toy(length=1, ends=True),
    "nested": lambda: Toy(spaces.Dict({"a": spaces.Discrete(3), "b": spaces.Box(0, 1, (2,), F64)}), length=9),
    "two by two": lambda: Toy(played=spaces.Box(-2, 3, (2, 2), F32)),
    "many buttons": lambda: Toy(spaces.MultiBinary(2), spaces.MultiBinary(11)),
    "far start": lambda: Toy(spaces.Tuple([spaces.Discrete(3, start=4)]), spaces.Discrete(3, start=-9), ends=True),
}


# of finite and of continuous actions, without bounds, of several parts, and with thousands of actions
DIFFERENT = ["CartPole-v1", "Pendulum-v1", "chase", "nested", "many buttons"]


def applies(name, world):
    """Whether an agent is tried in an environment: one on a fixed net in environments that differ in kind."""
    return world in DIFFERENT or not issubclass(ENTRIES[name].cls, FixedNetAgent)


def made(name, world, seed=0):
    env = Watched(ENVIRONMENTS[world]())
    return ALL[name](env, seed=seed, horizon=12, warm_up=30), env
