"""The replay buffer, and the episodes that fill it."""

import gymnasium
import numpy as np
import pytest
from numba.core import config

from problems_for_tests import box_world, finite_world
from spaql.agents import Tessera
from spaql.agents.rollouts import TRAINING
from spaql.agents.tessera.policy_tree import PolicyTree, single_leaf
from spaql.agents.tessera.replay import (
    DUE,
    FLAT,
    PLANNED,
    POLICY,
    UNPLANNED,
    USED,
    Exploration,
    draw_exploratory_action,
    drop_half,
    grow_buffer,
    make_buffer,
    number_episodes,
    restore_buffer,
)
from spaql.partition.rng import stream
from spaql.partition.spaces import Box, Discrete
from spaql.problems import oil

EPISODES = 10 if config.DISABLE_JIT else 80


class Logged(gymnasium.Env):
    """Keeps all that it returned, and ends in one of three ways."""

    observation_space = gymnasium.spaces.Box(-3.0, 5.0, (2,), np.float64)

    def __init__(self, discrete=False):
        self.action_space = gymnasium.spaces.Box(-2.0, 2.0, (1,), np.float64)
        if discrete:
            self.action_space = gymnasium.spaces.Discrete(4, start=-1)
        self.rows = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seen, self.time, self.left = self.np_random.uniform(-1.0, 1.0, 2), 0, self.np_random.integers(1, 12)
        return self.seen, {}

    def step(self, action):
        before, self.seen = self.seen, self.np_random.uniform(-3.0, 5.0, 2)
        reward, over = float(self.np_random.normal()), self.time + 1 == self.left
        terminated = over and self.left % 2 == 0
        self.rows.append((before, float(np.ravel(action)[0]), reward, self.seen, terminated, self.time))
        self.time += 1
        return self.seen, reward, terminated, over and not terminated, {}


@pytest.mark.compiled_only
@pytest.mark.parametrize("discrete", [False, True])
def test_transitions_are_those_that_were_played(discrete):
    env = Logged(discrete)
    agent = Tessera(env, horizon=8, seed=2).learn(iterations=EPISODES)
    past, states = agent._past(), agent.problem.states
    before, actions, rewards, following, ended, times = map(np.array, zip(*env.rows, strict=True))
    assert len(past.rewards) == len(rewards) == agent.training_steps
    np.testing.assert_allclose(states.from_unit(past.points), before, rtol=0, atol=1e-12)
    np.testing.assert_allclose(states.from_unit(past.following), following, rtol=0, atol=1e-12)
    own = past.actions[:, 0] - 1.0 if discrete else -2.0 + 4.0 * past.actions[:, 0]
    np.testing.assert_allclose(own, actions, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(past.rewards, rewards)
    np.testing.assert_array_equal(past.ended, ended)
    np.testing.assert_array_equal(past.times, times)
    assert set(times) == set(range(8))
    assert 0 < ended.sum() < (times == 0).sum()


def test_episodes_are_recorded_one_after_the_other():
    for problem in (oil(), box_world()[0], finite_world()[0]):
        agent = Tessera(problem, seed=1).learn(iterations=EPISODES)
        past = agent._past()
        assert len(past.rewards) == agent.training_steps == agent._buffer.counts[USED]
        starts = np.flatnonzero(past.times == 0)
        assert len(starts) == EPISODES
        np.testing.assert_array_equal(np.add.reduceat(past.rewards, starts).round(9), agent.history["score"].round(9))
        inside = past.times[1:] > 0
        np.testing.assert_array_equal(past.times[1:][inside], past.times[:-1][inside] + 1)
        np.testing.assert_array_equal(past.points[1:][inside], past.following[:-1][inside])
        assert not past.ended[:-1][inside].any()
        lengths, last = np.diff(starts, append=len(past.rewards)), np.append(starts[1:], len(past.rewards)) - 1
        assert past.ended[last[lengths < problem.horizon]].all()


def filled(used=7, room=8):
    buffer = make_buffer(2, 1, room)
    for array in buffer[:-1]:
        array[:used] = np.arange(used).reshape(-1, *[1] * (array.ndim - 1))
    buffer.counts[:] = used, 500, POLICY
    return buffer


@pytest.mark.parametrize(
    ("lengths", "kept"),
    [([7], range(7)), ([1, 1, 1, 1, 1], [0, 2, 4]), ([2, 2, 2], [0, 1, 4, 5]), ([1, 3, 2], [0, 4, 5])],
)
def test_every_second_episode_is_dropped(lengths, kept):
    buffer, kept = filled(sum(lengths)), list(kept)
    times = np.concatenate([np.arange(length) for length in lengths])
    buffer.times[: len(times)] = times
    drop_half(buffer)
    assert buffer.times[: len(kept)].tolist() == times[kept].tolist()
    buffer.times[: len(kept)] = kept
    assert buffer.counts.tolist() == [len(kept), 500, POLICY]
    for array in buffer[:-1]:
        assert array[: len(kept)].reshape(len(kept), -1)[:, 0].tolist() == kept


def test_a_buffer_grows_with_all_it_holds():
    small = filled()
    large = grow_buffer(small, 20)
    assert len(large.points) == 20
    for before, after in zip(small[:-1], large[:-1], strict=True):
        np.testing.assert_array_equal(after[:8], before)
        assert not after[8:].any()
    assert large.counts.tolist() == small.counts.tolist()


def test_a_full_buffer_keeps_whole_transitions():
    agent, whole = (Tessera(oil(), seed=1, buffer_size=size) for size in (40, 10_000))
    agent.learn(iterations=30)
    assert agent.training_steps == 150
    assert agent._buffer.counts[USED] <= len(agent._buffer.points) <= 40
    whole.learn(iterations=30)
    rows = {tuple(row) for row in zip(*(c.ravel() for c in whole._past()), strict=True)}
    assert {tuple(row) for row in zip(*(c.ravel() for c in agent._past()), strict=True)} <= rows


def restore(buffer, actions=None, **changes):
    used = int(buffer.counts[USED])
    arrays = {name: array if name == "counts" else array[:used] for name, array in buffer._asdict().items()}
    return restore_buffer(arrays | changes, 2, actions or Box(0, 1), 10)


def valid():
    buffer = filled()
    for array in (buffer.points, buffer.actions, buffer.rewards, buffer.following):
        array /= 8.0
    buffer.ended[:] = buffer.ended > 5
    return buffer


def test_a_buffer_is_restored():
    buffer = valid()
    again = restore(buffer)
    assert len(again.points) == 20  # room for two episodes
    for before, after in zip(buffer[:-1], again[:-1], strict=True):
        np.testing.assert_array_equal(after[:7], before[:7])
    assert again.counts.tolist() == [7, 500, POLICY]
    outside = valid()
    outside.following[6] = 2.0, -1.0  # a last state may lie outside
    assert restore(outside).following[6].tolist() == [2.0, -1.0]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("points", 1.5),
        ("points", np.nan),
        ("following", 2.5),
        ("following", np.nan),
        ("actions", 1.5),
        ("rewards", np.nan),
        ("ended", 2),
        ("times", -1),
        ("times", 10),
    ],
)
def test_invalid_transitions_are_refused(name, value):
    buffer = valid()
    getattr(buffer, name)[3] = value
    with pytest.raises(ValueError, match=r"."):
        restore(buffer)


@pytest.mark.parametrize("counts", [[6, 500, 0], [8, 500, 0], [7, 0, 0], [7, 500, -1], [7, 500, 3]])
def test_invalid_counts_are_refused(counts):
    with pytest.raises(ValueError, match="invalid transitions"):
        restore(valid(), counts=np.array(counts))


def test_invalid_discrete_actions_are_refused():
    buffer = valid()
    buffer.actions[:] = 2.0
    restore(buffer, Discrete(3))
    with pytest.raises(ValueError, match="actions outside their space"):
        restore(buffer, Discrete(2))


# Exploration ----------------------------------------------------------------------------------------------------------


def settings(**more):
    given = {"horizon": 5, "exploration": 0.5, "explored": 0, "greedy": 0.5, "novelty": 0.5, "repeats": True}
    return Exploration(**given | more)


def test_exploratory_actions_stay_in_their_space():
    random, action, drawn = stream(0, 0), np.zeros(2), []
    for elites in (np.zeros((0, 2)), np.array([[0.0, 0.5], [1.0, 0.5]])):
        for _ in range(200):
            draw_exploratory_action(settings(choices=0), elites, np.array([0.25, 0.25]), random, action)
            drawn.append(action.copy())
    drawn = np.array(drawn)
    assert ((drawn >= 0.0) & (drawn <= 1.0)).all()
    assert (np.isin(drawn, (0.0, 1.0)).all(axis=1)).mean() > 0.08  # ends of the range
    assert (np.abs(drawn - 0.25).max(axis=1) < 0.05).mean() > 0.1  # near the policy
    one = np.zeros(1)
    counts = np.zeros(3)
    for _ in range(300):
        draw_exploratory_action(settings(choices=3), np.zeros((0, 1)), np.zeros(1), random, one)
        counts[int(one[0])] += 1
    assert counts.min() > 60


def planned(kind, **more):
    """An agent that was given policies: 0 or 1 by the state, and 2 for novelty."""
    agent = Tessera(finite_world()[0], seed=1)
    dims, children = np.array([0, -1, -1], np.int32), np.array([1, 0, 0], np.int32)
    actions, born = np.array([[0.0], [0.0], [1.0]]), np.ones(3, np.int32)
    agent._tree = PolicyTree(dims, np.array([0.4, 0.0, 0.0]), children, actions, born)
    agent._novelty = single_leaf(np.array([2.0]))
    agent._buffer.counts[PLANNED], agent._buffer.counts[DUE] = kind, 10**6
    agent._settings = agent._settings._replace(**{"explored": 0} | more)
    return agent.learn(iterations=EPISODES)._past()


def test_every_episode_follows_a_policy():
    past = planned(POLICY, greedy=1.0)
    np.testing.assert_array_equal(past.actions[:, 0], past.points[:, 0] >= 0.4)
    past = planned(POLICY, greedy=0.0, novelty=1.0, exploration=1e-12)
    assert (past.actions == 2.0).all()
    past = planned(POLICY, greedy=0.0, novelty=0.0, exploration=1e-12)
    np.testing.assert_array_equal(past.actions[:, 0], past.points[:, 0] >= 0.4)
    past = planned(FLAT, greedy=1.0, exploration=1e-12)
    assert (past.actions == 2.0).all()
    past = planned(POLICY, explored=5, greedy=1.0, novelty=1.0, exploration=1e-12)
    first = number_episodes(past.times) < 5
    assert (past.actions[first] == 2.0).all()
    np.testing.assert_array_equal(past.actions[~first, 0], past.points[~first, 0] >= 0.4)
    past = planned(UNPLANNED, greedy=1.0)
    assert (np.bincount(past.actions[:, 0].astype(int)) > len(past.rewards) / 9).all()


@pytest.mark.compiled_only
def test_half_of_the_episodes_explore():
    past = planned(POLICY, novelty=0.0, exploration=1.0)
    greedy = past.actions[:, 0] == (past.points[:, 0] >= 0.4)
    episodes = greedy.reshape(-1, 5).all(axis=1)
    assert abs(episodes.mean() - 0.5) < 0.2


@pytest.mark.compiled_only
@pytest.mark.parametrize("disable", [(), ("repeats",)])
def test_exploratory_actions_are_repeated(disable):
    """At least twice in a row with probability 1/2."""
    past = Tessera(oil(), seed=4, disable=disable).learn(iterations=95)._past()
    assert len(past.rewards) == 475  # before the first plan
    actions = past.actions[:, 0].reshape(-1, 5)
    again = (actions[:, 1] == actions[:, 0]).mean()
    assert abs(again - 0.5) < 0.17 if not disable else again < 0.2


def test_a_budget_ends_between_episodes():
    agent = Tessera(oil(), seed=1).learn(total_timesteps=23)
    assert agent._counts[TRAINING] == agent._buffer.counts[USED] == 20
