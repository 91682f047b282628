"""Resume is exact: learning that was interrupted and saved anywhere ends with the same bytes as learning that was not.

The property is tested over algorithms, problems, options and random points of interruption.  SPAQL_SOAK=1 draws more.
"""

import copy
import os
import signal
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from numba.core import config

import spaql
from environments_for_tests import F64, Toy
from spaql.agents.callbacks import Checkpoint, Evaluate
from spaql.agents.files import to_bytes
from spaql.problems import Box, Discrete, Problem, uniform

pytestmark = [pytest.mark.tiny_planning, pytest.mark.usefixtures("plan_early")]

DRAWS = 20 if os.environ.get("SPAQL_SOAK") else 1
LENGTH = 24 if config.DISABLE_JIT else 60  # iterations


def walk(state, action, parameters, random, next_state):
    """Move at random, up to an end."""
    drift = (uniform(random) - 0.5) * 0.2
    next_state[0] = min(1.0, max(0.0, state[0] + drift + 0.1 * action[0]))
    return next_state[0], next_state[0] > 0.97


def anywhere(parameters, random, state):
    state[0] = 0.9 * uniform(random)


def compiled(actions):
    return Problem(name="walk", step=walk, reset=anywhere, states=Box(0, 1), actions=actions, horizon=6)


BOX, DISCRETE = (lambda: compiled(Box(0, 1))), (lambda: compiled(Discrete(3)))


def seen(env):
    return env.np_random.random(2)


def toy():
    """Everything random comes from `np_random`."""
    box = spaces.Box(0, 1, (2,), F64)
    twist = lambda env, outcome: (seen(env), *outcome[1:])  # noqa: E731
    env = Toy(box, spaces.Box(-1, 1, (1,), F64), length=5, ends=True, start=seen, twist=twist)
    return gymnasium.wrappers.TimeLimit(env, 6)


def wrapped():
    env = gymnasium.wrappers.TimeLimit(toy(), 4)
    env = gymnasium.wrappers.RescaleAction(gymnasium.wrappers.TransformReward(env, lambda reward: 2.0 * reward), -2, 2)
    return gymnasium.wrappers.RecordEpisodeStatistics(env)


class Own(gymnasium.Env):
    """Draws from a generator of its own, that every seed sets anew."""

    observation_space, action_space = spaces.Box(0, 1, (1,), F64), spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.random = np.random.default_rng(seed)
        self.elapsed = 0
        return self.random.random(1), {}

    def step(self, action):
        self.elapsed += 1
        return self.random.random(1), self.random.random(), False, self.elapsed == 5, {}


@dataclass(frozen=True)
class Case:
    """An agent, and how it is interrupted."""

    name: str
    make: Any  # the problem or environment, anew
    parameters: dict[str, Any] = field(default_factory=dict)
    callbacks: Any = None  # a function of a folder

    @property
    def id(self) -> str:
        options = "-".join(f"{key}={value}" for key, value in self.parameters.items() if key != "reference")
        making = self.make.__name__ if self.make not in (BOX, DISCRETE) else ("box" if self.make is BOX else "discrete")
        return f"{self.name}-{making}-{options}{'-watched' * (self.callbacks is not None)}"

    def agent(self) -> Any:
        return spaql.algorithms()[self.name].make(self.make(), seed=3, **self.parameters)

    def load(self, path: Any) -> Any:
        return spaql.load(path, self.make())


def watched(folder):
    return [Evaluate(11, episodes=2), Checkpoint(17, folder, keep=1)]


def restoring(folder):
    return [Evaluate(11, episodes=2, restore_best=True)]


SMALL = {"rollouts": 1}
LIPSCHITZ = {"lipschitz": 1.0}
COMPILED = [
    Case("spaql", BOX, SMALL),
    Case("spaql", DISCRETE, {"rollouts": 2, "splits_before_reset": 1}, watched),
    Case("spaql-ts", BOX, SMALL | {"reference": [0.5], "radius": 1.0}),
    Case("aql", BOX, {"rollouts": 0}),
    Case("q-learning", DISCRETE),
    Case("adamb", BOX, LIPSCHITZ),
    Case("zoomrl", BOX, LIPSCHITZ),
    Case("rlsvi", DISCRETE),
    Case("ucb-q", DISCRETE),
    Case("ucb-q-infinite", BOX),
    Case("nbql", BOX),
    Case("tessera", BOX, {"buffer_size": 40}),  # full many times
    Case("tessera", BOX, {"buffer_size": 12}),
    Case("tessera", DISCRETE, {"buffer_size": 100, "time_aware": True}),
    Case("tessera", DISCRETE, {}, watched),
    Case("tessera", BOX, {}, restoring),
]
ENVIRONMENTS = [
    Case("spaql", toy, SMALL, watched),
    Case("aql", wrapped, {"rollouts": 0}),
    Case("zoomrl", Own, LIPSCHITZ),
    Case("tessera", toy, {"buffer_size": 40}),
    Case("tessera", wrapped, {}, watched),
    Case("tessera", Own, {"buffer_size": 30}),
]


def random_of(case, number):
    return np.random.default_rng([number, *case.id.encode()])


@pytest.mark.parametrize("number", range(DRAWS))
@pytest.mark.parametrize("case", COMPILED + ENVIRONMENTS, ids=lambda case: case.id)
def test_interrupted_learning_ends_with_the_same_bytes(case, number, tmp_path):
    random = random_of(case, number)
    make = case.callbacks or (lambda folder: None)
    whole = case.agent().learn(iterations=LENGTH, callback=make(tmp_path / "whole"))
    agent, done = case.agent(), 0
    for stop in sorted(int(at) for at in random.integers(1, LENGTH, 2)):
        if stop > done:
            agent.learn(iterations=stop - done)
            if agent.iterations and random.random() < 0.5:
                agent.predict(agent.problem.unflatten(agent.problem.states.low))
        path, done = (
            agent._keep(tmp_path / f"{stop}") if random.random() < 0.5 else agent.save(tmp_path / f"{stop}"),
            stop,
        )
        agent = case.load(path)
    agent.learn(iterations=LENGTH - done, callback=make(tmp_path / "parts"))
    if case.callbacks is restoring:  # each has restored the best of its own evaluations
        whole._restored = agent._restored = None
        whole._forget_policy()
        agent._forget_policy()
    assert to_bytes(agent) == to_bytes(whole)


class Interrupted(gymnasium.Wrapper):
    """Sends Ctrl-C to this process in one step."""

    at = None

    def __init__(self, env):
        super().__init__(env)
        self.steps = 0

    def step(self, action):
        self.steps += 1
        if self.steps == self.at:
            signal.raise_signal(signal.SIGINT)
        return self.env.step(action)


@pytest.mark.parametrize("number", range(DRAWS))
@pytest.mark.parametrize("case", ENVIRONMENTS, ids=lambda case: case.id)
def test_ctrl_c_inside_an_episode_loses_nothing_that_a_file_does_not_hold(case, number, tmp_path):
    env = Interrupted(case.make())
    parameters = {name: value for name, value in case.parameters.items()}
    agent = spaql.algorithms()[case.name].make(env, seed=3, warm_up=10, **parameters)
    env.at = env.steps + int(random_of(case, number).integers(10, 150))
    with pytest.raises(KeyboardInterrupt):
        agent.learn(iterations=1000)
    path = agent._keep(tmp_path / "agent")
    resumed = spaql.load(path, Interrupted(case.make()))
    assert to_bytes(resumed.learn(iterations=LENGTH)) == to_bytes(agent.learn(iterations=LENGTH))


def test_a_quick_file_holds_no_policy_that_was_not_planned(tmp_path):
    agent = spaql.Tessera(BOX(), seed=0).learn(iterations=LENGTH)
    quick = spaql.load(agent._keep(tmp_path / "quick"), BOX())
    assert agent._last_plan is None  # nothing was planned to write it
    assert quick._returned is None
    assert quick.predict([0.5])[0] == agent.predict([0.5])[0]
    assert to_bytes(quick) == to_bytes(agent)


# Environments that cannot be resumed exactly --------------------------------------------------------------------------


class Remembers(Own):
    """Rewards depend on the number of all episodes so far."""

    resets = 0

    def reset(self, **options):
        self.resets += 1
        return super().reset(**options)

    def step(self, action):
        shown, reward, *rest = super().step(action)
        return shown, reward + self.resets, *rest


def remembered(env, **options):
    agent = spaql.SPAQL(env, rollouts=1, seed=0, **options)
    return [str(found) for found in agent.diagnose() if found.id == "environment-remembers"]


def test_what_an_environment_remembers_is_said_before_training():
    [sentence] = remembered(Remembers)
    assert "does not learn exactly what an uninterrupted one learns" in sentence
    assert remembered(Toy)  # it draws from its observation space
    assert remembered(lambda: gymnasium.wrappers.NormalizeObservation(toy()), bounds={0: (-3, 3), 1: (-3, 3)})
    for make in (toy, wrapped, Own):
        assert not remembered(make)
    assert not remembered("CartPole-v1")


# An environment that uses the agent that learns in it -----------------------------------------------------------------


class Calls(Toy):
    """Calls a function of itself in one step."""

    agent, at, act = None, None, None

    def step(self, action):
        if self.agent is not None and self.steps == self.at:
            self.act(self.agent)
        return super().step(action)


@pytest.mark.parametrize("name", ["tessera", "spaql", "aql"])
@pytest.mark.parametrize("what", ["learn", "prepare"])
def test_an_environment_cannot_let_its_agent_learn(name, what):
    env = Calls()
    agent = spaql.algorithms()[name].make(env, seed=0, **({} if name == "tessera" else SMALL))
    twin = spaql.algorithms()[name].make(Calls(), seed=0, **({} if name == "tessera" else SMALL))
    env.agent, env.at = agent, 40
    env.act = lambda agent: agent.learn(iterations=500) if what == "learn" else agent.prepare()
    with pytest.raises(spaql.ParameterError, match=f"^{what}: this agent is learning; "):
        agent.learn(iterations=50)
    env.agent = None
    agent.learn(iterations=5)  # it goes on
    assert twin.learn(iterations=3).iterations == 3


def test_a_policy_that_was_asked_for_inside_a_step_is_not_kept():
    env, fresh = Calls(length=6), spaql.Tessera(Calls(length=6), seed=0)
    agent = spaql.Tessera(env, seed=0)
    env.agent, env.act = agent, lambda agent: agent.predict([0.5])
    env.at = env.steps + 6 * LENGTH - 2  # in the last episode
    agent.learn(iterations=LENGTH)
    env.agent = None
    assert agent._last_plan is agent._returned is None
    assert to_bytes(agent) == to_bytes(fresh.learn(iterations=LENGTH))


def test_a_copy_made_inside_a_step_can_learn():
    env, copies = Calls(), []
    agent = spaql.SPAQL(env, rollouts=1, seed=0)
    env.agent, env.at, env.act = agent, env.steps + 10, lambda agent: copies.append(copy.deepcopy(agent))
    agent.learn(iterations=20)
    env.agent = None
    assert copies[0].learn(iterations=1).iterations
