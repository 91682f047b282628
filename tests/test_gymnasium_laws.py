"""Laws of every agent on every kind of environment, and the same without the compiler."""

import copy
import functools
import os
import subprocess
import sys

import numpy as np
import pytest
from numba.core import config

from environments_for_tests import (
    ALL,
    ENVIRONMENTS,
    LEARNERS,
    applies,
    assert_member,
    made,
    stacked,
)
from test_laws import assert_same_cells

pytestmark = pytest.mark.compiled_only  # but for the process of its own at the end

every_law = pytest.mark.parametrize(
    ("name", "world"),
    [(name, world) for name in ALL for world in ENVIRONMENTS if applies(name, world)],
    ids=lambda each: each,
)


def some(env, count=7):
    space = copy.deepcopy(env.observation_space)  # the environment may draw from its own
    space.seed(5)
    return [space.sample() for _ in range(count)]


@functools.cache
def taught(name, world):
    """An agent that nothing is done to later."""
    agent, env = made(name, world)
    return agent.learn(iterations=8), env


@every_law
def test_steps_are_counted_and_actions_are_members(name, world):
    agent, env = taught(name, world)
    assert env.strangers == []
    if name == "Random":
        assert env.steps == agent.problem.warm_up_steps
    else:
        assert env.steps == agent.training_steps + agent.selection_steps + agent.monitoring_steps
        assert agent.iterations == len(agent.history) == 8
        assert (np.diff(agent.history["training_steps"]) <= 12).all()
        assert np.isfinite(agent.history["score"]).all()
        assert np.isfinite(agent.cells().q).all()
    problem = agent.problem
    assert (problem.states.low < problem.states.high).all()
    assert problem.clipped.shape == (problem.states.dimensions,)


@every_law
def test_evaluation_is_pure_and_adds_up(name, world):
    agent, env = taught(name, world)
    before = env.steps
    first, again = agent.evaluate(6), agent.evaluate(6)
    np.testing.assert_array_equal(first.returns, again.returns)
    assert (first.steps, first.mean) == (again.steps, again.mean)
    assert first.mean == pytest.approx(first.returns.mean())
    assert 6 <= first.steps <= 6 * 12
    assert env.steps == before  # played elsewhere
    agent.evaluate(6, seed=99, deterministic=False)


@every_law
def test_the_same_seed_is_the_same_agent_whatever_is_asked_of_it(name, world):
    agent, _ = taught(name, world)
    other, env = made(name, world)
    other.learn(iterations=3)
    if name != "Random":
        other.evaluate(3)
        other.predict(some(env)[0])
    other.learn(iterations=5)
    np.testing.assert_array_equal(other.history, agent.history)
    np.testing.assert_array_equal(other.evaluate(4).returns, agent.evaluate(4).returns)
    assert other.training_steps == agent.training_steps
    if name != "Random":
        assert_same_cells(other.cells(), agent.cells())


@every_law
def test_one_and_many_are_predicted_alike(name, world):
    agent, env = taught(name, world)
    seen = some(env)
    many, state = agent.predict(stacked(env.observation_space, seen))
    assert (state is None) is not agent.time_variant
    for observation, action in zip(seen, many, strict=True):
        assert_member(env.action_space, action)
        one, _ = agent.predict(observation)
        assert_member(env.action_space, one)
        assert one.dtype == action.dtype
        if name != "Random":
            np.testing.assert_array_equal(one, action)
    drawn, _ = agent.predict(stacked(env.observation_space, seen), deterministic=False)
    for action in drawn:
        assert_member(env.action_space, action)


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("world", ["CartPole-v1", "chase", "one step", "spaql/Oil-v0"])
def test_total_timesteps_are_never_passed(name, world):
    agent, env = made(name, world)
    before = 0  # the warm-up is part of the first budget
    for budget in (agent.problem.warm_up_steps + agent.steps_per_iteration, 5 * agent.steps_per_iteration + 3):
        agent.learn(total_timesteps=budget)
        assert before < agent.training_steps + agent.selection_steps <= before + budget
        before = agent.training_steps + agent.selection_steps
    assert env.strangers == []


@pytest.mark.parametrize("name", LEARNERS)
def test_different_seeds_are_different_agents(name):
    histories = [made(name, "chase", seed)[0].learn(iterations=5).history["score"].tolist() for seed in (0, 1)]
    assert histories[0] != histories[1]


@pytest.mark.parametrize("world", ["CartPole-v1", "Pendulum-v1", "chase"])
def test_a_compiled_agent_plays_the_environment_it_learned_on(world):
    """The loop that every tutorial has, from outside."""
    agent, env = taught("Tessera", world)
    env = copy.deepcopy(env)
    observation, _ = env.reset(seed=0)
    for _ in range(30):
        action, _ = agent.predict(observation)
        assert env.action_space.contains(action)
        observation, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            observation, _ = env.reset()


def test_all_of_it_works_without_the_compiler():
    code = """
import spaql
from planning_for_tests import tiny_plans
with tiny_plans():
    for entry in spaql.algorithms().values():
        if entry.required or not (entry.learns or entry.name == "random"):  # heuristics have a problem of their own
            continue
        few = {"rollouts": 1} if entry.accepts("rollouts") else {}
        for env, options in (("CartPole-v1", {"warm_up": 10}),
                             ("Pendulum-v1", {"bounds": {2: (-1, 1)}, "periodic": [2]})):
            agent = entry.make(env, seed=0, horizon=5, **few, **options).learn(iterations=3)
            print(agent.training_steps, *agent.history["score"].tolist(), *agent.evaluate(2).returns.tolist())
            print(*agent.predict(agent.problem.env.observation_space.sample() * 0)[0].reshape(-1) * 0.0)
"""
    said = []
    for off in ("1", "0"):
        run = subprocess.run(
            [sys.executable, "-W", "error", "-W", "ignore:overflow encountered in scalar:RuntimeWarning", "-c", code],
            env=os.environ | {"NUMBA_DISABLE_JIT": off, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, run.stderr
        said.append([float(word) for word in run.stdout.split()])
    np.testing.assert_allclose(*said, rtol=1e-9)


def test_the_compiler_is_on_here():
    assert not config.DISABLE_JIT
