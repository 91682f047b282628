"""Every agent on any Gymnasium environment: spaces, ranges, ends, faults, interrupts, and laws over all of them."""

import copy
import functools
import math
import os
import re
import signal
import subprocess
import sys
import threading
import time
from fractions import Fraction

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from numba.core import config

import spaql
from spaql.errors import EnvironmentFault, ParameterError
from spaql.gym.encoding import MOST_NUMBERED, MOST_OBSERVED, Moves, Observations
from spaql.gym.problem import GymnasiumProblem
from spaql.partition.spaces import Box, Discrete
from test_laws import assert_same_cells

pytestmark = pytest.mark.compiled_only  # but for the process of its own at the end
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
SEEN = {
    "box": (spaces.Box(-2, 3, (3,), F64), ["0", "1", "2"], [-2] * 3, [3] * 3),
    "box of one": (spaces.Box(-2, 3, (1,), F32), ["0"], [-2], [3]),
    "box of no dimensions": (spaces.Box(-2, 3, (), F64), ["0"], [-2], [3]),
    "box of two by two": (spaces.Box(-2, 3, (2, 2), F32), list("0123"), [-2] * 4, [3] * 4),
    "box of whole numbers": (spaces.Box(0, 9, (2,), np.int64), ["0", "1"], [-0.5] * 2, [9.5] * 2),
    "box of bytes": (spaces.Box(0, 255, (1,), np.uint8), ["0"], [-0.5], [255.5]),
    "box of bool": (spaces.Box(0, 1, (2,), bool), ["0", "1"], [-0.5] * 2, [1.5] * 2),
    "box with a constant of whole numbers": (spaces.Box(3, 3, (1,), np.int8), ["0"], [2.5], [3.5]),
    "discrete": (spaces.Discrete(4), ["0"], [-0.5], [3.5]),
    "discrete from -3": (spaces.Discrete(4, start=-3), ["0"], [-3.5], [0.5]),
    "multi-discrete": (spaces.MultiDiscrete([2, 5]), ["0", "1"], [-0.5] * 2, [1.5, 4.5]),
    "multi-discrete by rows": (
        spaces.MultiDiscrete(np.array([[2, 3], [4, 5]])),
        list("0123"),
        [-0.5] * 4,
        [1.5, 2.5, 3.5, 4.5],
    ),
    "multi-binary": (spaces.MultiBinary(3), list("012"), [-0.5] * 3, [1.5] * 3),
    "multi-binary by rows": (spaces.MultiBinary((2, 2)), list("0123"), [-0.5] * 4, [1.5] * 4),
    "tuple": (
        spaces.Tuple([spaces.Discrete(2), spaces.Box(0, 1, (2,), F64)]),
        ["0", "1[0]", "1[1]"],
        [-0.5, 0, 0],
        [1.5, 1, 1],
    ),
    "dict of one": (spaces.Dict({"x": spaces.Box(0, 1, (1,), F64)}), ["x"], [0], [1]),
    "dict with nothing in a part": (
        spaces.Dict({"none": spaces.Box(0, 1, (0,), F64), "x": spaces.Discrete(2)}),
        ["x"],
        [-0.5],
        [1.5],
    ),
    "nested": (
        NESTED,
        [
            *("height", "inner.gear", "inner.pair.0[0]", "inner.pair.0[1]", "inner.pair.1[0]", "inner.pair.1[1]"),
            *("mode[0]", "mode[1]", "wind[0]", "wind[1]"),
        ],
        [0, 1.5, -0.5, -0.5, -0.5, -0.5, -0.5, -1.5, -1, -1],
        [5, 4.5, 1.5, 1.5, 1.5, 1.5, 1.5, 2.5, 2, 2],
    ),
}
every_seen = pytest.mark.parametrize("kind", SEEN)


def flat(space, sample):
    """An observation as a row of numbers, the slow way."""
    if isinstance(space, spaces.Dict):
        return [v for key in space.spaces for v in flat(space[key], sample[key])]
    if isinstance(space, spaces.Tuple):
        return [v for inner, part in zip(space.spaces, sample, strict=True) for v in flat(inner, part)]
    return [float(v) for v in np.asarray(sample, float).reshape(-1)]


def stacked(space, samples):
    """Many observations as vector environments stack them."""
    if isinstance(space, spaces.Dict):
        return {key: stacked(space[key], [sample[key] for sample in samples]) for key in space.spaces}
    if isinstance(space, spaces.Tuple):
        return tuple(stacked(inner, [s[i] for s in samples]) for i, inner in enumerate(space.spaces))
    return np.stack([np.asarray(sample) for sample in samples])


@every_seen
def test_observations_are_rows_with_names(kind):
    space, names, low, high = SEEN[kind]
    observations = Observations(space)
    assert observations.names == names
    assert observations.low.tolist() == low
    assert observations.high.tolist() == high
    space.seed(1)
    samples = [space.sample() for _ in range(20)]
    expected = np.array([flat(space, sample) for sample in samples])
    row = np.full(len(names), np.nan)
    write = observations.writer(row)
    for sample, numbers in zip(samples, expected, strict=True):
        write(sample)
        assert row.tolist() == numbers.tolist()
        rows, single = observations.rows(sample)
        assert single
        assert rows.tolist() == [numbers.tolist()]
    rows, single = observations.rows(stacked(space, samples))
    assert not single
    assert rows.tolist() == expected.tolist()
    rows, single = observations.rows(stacked(space, samples[:1]))
    assert (single, len(rows)) == (False, 1)


@every_seen
def test_agents_see_what_the_environment_shows(kind):
    """Training, prediction of one and of many: the same point of the unit cube."""
    env = Toy(SEEN[kind][0], length=4)
    agent = spaql.Tessera(env, seed=0, horizon=4).learn(iterations=10)
    assert not env.strangers
    space = env.observation_space
    seen = [space.sample() for _ in range(8)]
    points, single = agent.problem.observed(stacked(space, seen))
    assert not single
    low, high = np.array(SEEN[kind][2], float), np.array(SEEN[kind][3], float)
    expected = (np.array([flat(space, each) for each in seen]) - low) / (high - low)
    np.testing.assert_allclose(points, expected, rtol=0.0, atol=1e-12)
    remembered = agent._memory.facts[: agent.training_steps, : len(low)]
    assert ((remembered >= 0.0) & (remembered <= 1.0)).all()
    many, _ = agent.predict(stacked(space, seen))
    assert many.tolist() == [agent.predict(each)[0] for each in seen]


@pytest.mark.parametrize(
    ("observation", "says"),
    [
        ({"wind": [0.0, 0.0]}, "observation: expected a member of Dict"),
        (None, "observation: expected a member of Dict"),
        (3.0, "observation: expected a member of Dict"),
        ("windy", "observation: expected a member of Dict"),
    ],
)
def test_observations_of_another_kind_are_refused(observation, says):
    with pytest.raises(ParameterError, match=rf"^{says}"):
        Observations(NESTED).rows(observation)


def test_observations_of_another_shape_are_refused():
    plain = Observations(spaces.Box(0, 1, (3,), F64))
    for bad in (np.zeros(2), np.zeros((4, 2)), np.zeros((1, 1, 3)), 0.5):
        with pytest.raises(ParameterError, match=r"^observation: expected shape \(3,\), or \(n, \.\.\.\) for many"):
            plain.rows(bad)
    for bad in ([0, np.nan, 0], [[0, 0, 0], [0, -np.inf, 0]]):
        with pytest.raises(ParameterError, match=r"^observation: number 1 is (nan|-inf), not a finite number$"):
            plain.rows(bad)
    two = Observations(spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Box(0, 1, (2,), F64)}))
    with pytest.raises(ParameterError, match=r"^observation: its parts are not equally many$"):
        two.rows({"a": [0, 1], "b": np.zeros((3, 2))})
    with pytest.raises(ParameterError, match=r"^observation: its parts are not equally many$"):
        two.rows({"a": 0, "b": np.zeros((1, 2))})
    with pytest.raises(ParameterError, match=r"^observation: expected shape \(2,\) for 'b'"):
        two.rows({"a": 0, "b": np.zeros(3)})


@pytest.mark.parametrize(
    ("space", "says"),
    [
        (spaces.Box(0, 255, (84, 84, 3), np.uint8), r"observations: 21168 numbers are too many .*no images"),
        (spaces.Box(0, 1, (MOST_OBSERVED + 1,), F64), "observations: 16 numbers are too many"),
        (spaces.Text(5), "observations: Text spaces are not supported"),
        (spaces.Sequence(spaces.Discrete(2)), "observations: Sequence spaces are not supported"),
        (spaces.Dict({"a": spaces.Dict({"b": spaces.Text(5)})}), "observations: Text spaces in its part 'a.b' are not"),
        (spaces.Graph(spaces.Box(0, 1, (2,), F64), None), "observations: Graph spaces are not supported"),
        (spaces.Box(0, 1, (0,), F64), "observations: .* has no numbers to see"),
        (spaces.Dict({}), "observations: .* has no numbers to see"),
        (spaces.Tuple([]), r"observations: Tuple\(\) has no numbers to see"),
        (spaces.Dict({"a": spaces.Tuple([])}), "observations: .* has no numbers to see"),
        (spaces.Box(2**60, 2**60 + 9, (1,), np.int64), f"observations: whole numbers beyond {2**52} cannot be told"),
        (spaces.Discrete(4, start=-(2**60)), f"observations: whole numbers beyond {2**52} cannot be told from"),
        (spaces.MultiDiscrete([3, 4], start=[0, 2**53]), f"observations: whole numbers beyond {2**52} cannot be told"),
        (spaces.Box(1.7e308, 1.7e308, (1,), F64), "bounds: bounds must be finite with low below high"),
    ],
)
@pytest.mark.parametrize("agent", [spaql.Tessera, spaql.SPAQL, spaql.AQL, spaql.Random])
def test_spaces_that_cannot_be_seen_are_refused(space, says, agent):
    with pytest.raises(ParameterError, match=rf"^{says}") as caught:
        agent(Toy(space))
    assert_one_sentence(caught)


def parts_of_the_unit_interval(space):
    """Where the whole numbers of a space of one number are seen, and how many it has."""
    numbers = np.arange(int(space.low[0]), int(space.high[0]) + 1)
    points, _ = GymnasiumProblem(Toy(space)).observed(numbers[:, None])
    return points.ravel(), len(numbers)


@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [
        (0, 9, np.int64),
        (-3, 4, np.int32),
        (0, 255, np.uint8),
        (0, 1, bool),
        (2**51, 2**51 + 7, np.int64),
        (-(2**31), -(2**31) + 99_999, np.int64),
    ],
)
def test_whole_numbers_of_a_box_are_seen_in_the_middle_of_their_parts(low, high, dtype):
    points, count = parts_of_the_unit_interval(spaces.Box(low, high, (1,), dtype))
    np.testing.assert_allclose(points, (np.arange(count) + 0.5) / count, rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.int32, np.uint32])
def test_the_range_of_wide_whole_numbers_is_learned(dtype):
    limits = np.iinfo(dtype)
    offset = int(limits.max) // 2

    def shown(env):
        return np.array([offset + int(env.np_random.integers(10_000_000_000 if limits.bits == 64 else 10))], dtype)

    env = Toy(spaces.Box(limits.min, limits.max, (1,), dtype), twist=lambda e, o: (shown(e), *o[1:]), start=shown)
    agent = spaql.Tessera(env, horizon=6, warm_up=200).learn(iterations=5)
    low, high = agent.problem.states.low[0], agent.problem.states.high[0]
    assert low < offset < high
    if limits.bits == 32:  # halves on either side
        assert (low % 1.0, high % 1.0) == (0.5, 0.5)
        assert high - low < 30
    for extreme in (limits.min, limits.max):
        assert agent.predict(np.array([extreme], dtype))[0] in (0, 1)


# Action spaces --------------------------------------------------------------------------------------------------------

PLAYED = {
    "discrete": (spaces.Discrete(3), Discrete),
    "one action": (spaces.Discrete(1), Discrete),
    "discrete from -5": (spaces.Discrete(4, start=-5), Discrete),
    "discrete, huge": (spaces.Discrete(MOST_NUMBERED + 1, start=7), Box),
    "box": (spaces.Box(-1, 1, (1,), F32), Box),
    "box, odd units": (spaces.Box(np.array([-0.1, 3e5]), np.array([0.7, 7e5]), dtype=F64), Box),
    "box of two by two": (spaces.Box(-2, 3, (2, 2), F32), Box),
    "box of no dimensions": (spaces.Box(-2, 3, (), F64), Box),
    "box of halves": (spaces.Box(-3, 3, (2,), np.float16), Box),
    "box of whole numbers": (spaces.Box(-2, 3, (2,), np.int64), Box),
    "box of bytes": (spaces.Box(0, 255, (1,), np.uint8), Box),
    "box of bool": (spaces.Box(0, 1, (2,), bool), Box),
    "box of all whole numbers": (spaces.Box(-(2**63), 2**63 - 1, (1,), np.int64), Box),
    "box of all unsigned numbers": (spaces.Box(0, 2**64 - 1, (1,), np.uint64), Box),
    "box of all float32": (spaces.Box(-3.4e38, 3.4e38, (1,), F32), Box),
    "multi-discrete": (spaces.MultiDiscrete([2, 3]), Discrete),
    "multi-discrete, start": (spaces.MultiDiscrete([2, 3], start=[-1, 10]), Discrete),
    "multi-discrete by rows": (spaces.MultiDiscrete(np.array([[2, 3], [4, 5]])), Discrete),
    "multi-discrete, huge": (spaces.MultiDiscrete([5000, 7], start=[-3, 2]), Box),
    "multi-discrete by rows, huge": (spaces.MultiDiscrete(np.array([[20, 30], [40, 50]])), Box),
    "multi-binary": (spaces.MultiBinary(3), Discrete),
    "multi-binary by rows": (spaces.MultiBinary((2, 3)), Discrete),
    "multi-binary, huge": (spaces.MultiBinary(12), Box),
}
every_played = pytest.mark.parametrize("kind", PLAYED)


def each_of(space, many):
    """The actions of a batch one by one; a Box without dimensions has arrays without dimensions."""
    return [action if isinstance(space, spaces.Discrete) else np.asarray(action) for action in many]


def as_read(moves, unit):
    """What the environment is handed for an action of the unit cube, or the number of a finite one."""
    if isinstance(moves.actions, Discrete):
        return moves.reader(np.zeros(1))(int(unit[0]))
    return moves.reader(moves.actions.from_unit(np.array(unit, float)))(0)


def assert_member(space, action):
    """A member of the space, of its own shape and type."""
    assert space.contains(action), action
    if isinstance(space, spaces.Discrete):
        assert isinstance(action, int | np.int64)
    else:
        assert action.dtype == space.dtype
        assert np.shape(action) == space.shape


@every_played
def test_what_the_environment_receives_is_in_its_action_space(kind):
    space, sort = PLAYED[kind]
    moves = Moves(space)
    assert isinstance(moves.actions, sort)
    if sort is Discrete:
        units = np.arange(moves.actions.count, dtype=float)[:, None]
    else:
        draws = np.random.default_rng(0).random((200, moves.actions.dimensions))
        units = np.vstack([draws, np.zeros((1, draws.shape[1])), np.ones((1, draws.shape[1])), 0.5 + 0.0 * draws[:1]])
    one_by_one = [as_read(moves, unit) for unit in units]
    for action in one_by_one:
        assert_member(space, action)
    many = moves.many(moves.actions.from_unit(units))
    assert len(many) == len(units)
    for one, other in zip(one_by_one, each_of(space, many), strict=True):
        np.testing.assert_array_equal(one, other)
        assert_member(space, other)
    whole = not (isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating))
    distinct = {np.asarray(action).tobytes() for action in many}
    if sort is Discrete:
        assert len(distinct) == moves.actions.count  # every one, and each once
    elif whole and kind in ("box of whole numbers", "box of bytes", "box of bool"):
        counts = np.unique(np.asarray(many).reshape(len(units), -1)[:, 0], return_counts=True)[1]
        assert len(counts) > 1
        assert counts.max() < 4.0 * max(1.0, len(units) / len(counts))  # whole numbers have equal shares


def test_whole_numbers_at_the_ends_have_as_much_room_as_others():
    moves = Moves(spaces.Box(0, 3, (1,), np.int64))
    many = moves.many(moves.actions.from_unit(np.linspace(0.0, 1.0, 4001)[:, None]))
    assert np.bincount(many[:, 0])[1:3].tolist() == [1000, 1000]
    assert abs(np.bincount(many[:, 0])[[0, 3]] - 1000).max() <= 1


def test_an_action_handed_out_is_never_changed_later():
    for space in (spaces.MultiDiscrete([2, 3]), spaces.Box(0, 1, (2,), F64), spaces.Box(0, 1, (2, 2), F64)):
        moves = Moves(space)
        buffer = np.zeros(moves.actions.dimensions)
        read = moves.reader(buffer)
        first = read(0)
        before = first.copy()
        buffer[:] = 1.0
        first += 1
        again = read(0 if isinstance(moves.actions, Discrete) else 1)
        if isinstance(moves.actions, Discrete):
            np.testing.assert_array_equal(again, before)
        else:
            np.testing.assert_array_equal(first, before + 1)


@every_played
def test_agents_play_and_predict_members(kind):
    space, _ = PLAYED[kind]
    rows = np.linspace(0.0, 1.0, 9)[:, None]
    for make in (spaql.Tessera, spaql.Random):
        env = Toy(played=space, length=5)
        agent = make(env, seed=2, horizon=5).learn(iterations=8)
        agent.evaluate(2)
        assert not env.strangers
        for deterministic in (True, False):
            many, _ = agent.predict(rows, deterministic=deterministic)
            one, _ = agent.predict(rows[0], deterministic=deterministic)
            assert_member(space, one)
            assert many.dtype == one.dtype
            assert many.shape == (len(rows), *np.shape(one))
            for action in each_of(space, many):
                assert_member(space, action)
        if make is spaql.Tessera:
            many, _ = agent.predict(rows)
            for row, action in zip(rows, many, strict=True):
                np.testing.assert_array_equal(agent.predict(row)[0], action)
        none, _ = agent.predict(np.empty((0, 1)))
        assert len(none) == 0


def test_no_action_rounds_past_its_bound():
    low, high = -1.0, 0.1
    assert low + 1.0 * (high - low) > high
    space = spaces.Box(low, high, (1,), F64)
    env = Toy(spaces.Box(low, high, (1,), F64), space, start=lambda env: env.observation_space.high)
    twin = Watched(env)
    seen = []
    agent = spaql.NoMovement(lambda: seen.append(copy.deepcopy(twin)) or seen[-1], horizon=6)
    agent.evaluate(5)
    assert seen[-1].steps == 30
    assert not any(each.strangers for each in seen)


@pytest.mark.parametrize(
    ("space", "says"),
    [
        (spaces.Box(-np.inf, np.inf, (1,), F64), "actions: .* has no bounds on some side; wrap the environment"),
        (
            spaces.Box(np.array([0.0, 0.0]), np.array([1.0, np.inf]), dtype=F64),
            "actions: .* has no bounds on some side",
        ),
        (spaces.Dict({"a": spaces.Discrete(2)}), "actions: Dict spaces are not supported"),
        (spaces.Tuple([spaces.Discrete(2)]), "actions: Tuple spaces are not supported"),
        (spaces.Text(3), "actions: Text spaces are not supported"),
        (spaces.Box(0, 1, (20,), F64), "partition: 1 state and 20 action dimensions mean"),
        (spaces.Box(np.array([0.0, 1.0]), np.array([1.0, 1.0]), dtype=F64), "actions: bounds must be finite"),
        (spaces.Box(0, 1, (0,), F64), "actions: bounds must be one number per dimension"),
        (spaces.Box(np.zeros((3, 3)), np.array([[1, 2, np.inf]] * 3), dtype=F64), "actions: .* has no bounds on some"),
        (spaces.Box(-1.7e308, 1.7e308, (1,), F64), "actions: bounds must be finite with low below high"),
        (spaces.Box(2**60, 2**60 + 9, (1,), np.int64), f"actions: whole numbers beyond {2**52} cannot be told"),
        (spaces.Discrete(5000, start=2**60), f"actions: whole numbers beyond {2**52} cannot be told"),
        (spaces.Dict({}), "actions: Dict spaces are not supported"),
        (spaces.Tuple([]), "actions: Tuple spaces are not supported"),
    ],
)
def test_actions_that_cannot_be_played_are_refused(space, says):
    with pytest.raises(ParameterError, match=rf"^{says}") as caught:
        spaql.Tessera(Toy(played=space))
    assert_one_sentence(caught)


# What is an environment -----------------------------------------------------------------------------------------------


def test_ids_instances_and_factories_are_the_same_environment():
    options = {"seed": 4, "bounds": {1: (-3, 3), 3: (-3.5, 3.5)}}
    given = ["CartPole-v1", gymnasium.make("CartPole-v1"), lambda: gymnasium.make("CartPole-v1")]
    agents = [spaql.Tessera(each, **options).learn(iterations=15) for each in given]
    for agent in agents[1:]:
        np.testing.assert_array_equal(agent.history, agents[0].history)
        assert_same_cells(agent.cells(), agents[0].cells())
        np.testing.assert_array_equal(agent.evaluate(3).returns, agents[0].evaluate(3).returns)
    assert {agent.problem.name for agent in agents} == {"CartPole-v1"}
    assert {agent.problem.horizon for agent in agents} == {500}
    assert "'CartPole-v1'" in repr(agents[0])


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ("Nowhere-v0", "environment: 'Nowhere-v0' cannot be made: Environment `Nowhere` doesn't exist"),
        ("no_such_module:Thing-v0", "environment: 'no_such_module:Thing-v0' cannot be made: No module named"),
        ("CartPole-v99", "environment: 'CartPole-v99' cannot be made"),
        (None, "problem: expected a spaql Problem"),
        (3, "problem: expected a spaql Problem"),
        (lambda: 3, "environment: .* made 3, not a gymnasium.Env"),
    ],
)
def test_what_is_no_environment_is_refused(environment, says):
    with pytest.raises(ParameterError, match=rf"^{says}") as caught:
        spaql.Tessera(environment)
    assert_one_sentence(caught)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"bounds": {"x": (0, 1)}}, "bounds: 'x' is no observed number; there are 0, 1, 2, 3"),
        ({"bounds": {4: (0, 1)}}, "bounds: 4 is no observed number"),
        ({"bounds": {-1: (0, 1)}}, "bounds: -1 is no observed number"),
        ({"bounds": {True: (0, 1)}}, "bounds: True is no observed number"),
        ({"bounds": {0: (1, 0)}}, "bounds of 0: bounds must be finite with low below high"),
        ({"bounds": {0: (1, 1)}}, "bounds of 0: bounds must be finite with low below high"),
        ({"bounds": {0: (0, np.inf)}}, "bounds of 0: expected a finite number, got inf"),
        ({"bounds": {0: ("a", "b")}}, "bounds of 0: expected a finite number, got 'a'"),
        ({"bounds": {0: ([0, 1], [2, 3])}}, r"bounds of 0: expected a finite number, got \[0, 1\]"),
        ({"bounds": {0: 3}}, r"bounds: expected \(low, high\) for 0, got 3"),
        ({"bounds": [(0, 1)]}, "bounds: expected a mapping from names or places"),
        ({"periodic": "angle"}, "periodic: 'angle' is no observed number"),
        ({"periodic": [7]}, "periodic: 7 is no observed number"),
        ({"periodic": 2.5}, "periodic: 2.5 is no observed number"),
        ({"periodic": [1]}, r"periodic: 1 has no bounds, so no period; give bounds=\{'1': \(low, high\)\}"),
        ({"horizon": 0}, "horizon: expected a whole number of at least 1"),
        ({"horizon": 2.5}, "horizon: expected a whole number of at least 1"),
        ({"warm_up": 9}, "warm_up: expected a whole number of at least 10"),
        ({"warm_up": "long"}, "warm_up: expected a whole number of at least 10"),
        ({"wind": 3}, "wind: no agent has such a parameter, and environments have bounds, periodic, horizon, warm_up"),
        ({"seed": -1}, "seed: expected a whole number of at least 0"),
    ],
)
@pytest.mark.parametrize("agent", [spaql.Tessera, spaql.SPAQL, spaql.AQL, spaql.Random])
def test_bad_options_are_refused(options, says, agent):
    with pytest.raises(ParameterError, match=rf"^{says}") as caught:
        agent("CartPole-v1", **options)
    assert_one_sentence(caught)


def test_options_and_seeds_of_the_problem_itself():
    for name in ("bounds", "periodic", "horizon", "warm_up"):
        with pytest.raises(ParameterError, match=rf"^{name}: for Gymnasium environments only; 'oil laplace 10' has"):
            spaql.Tessera("oil", **{name: 3})
    for seed in (-1, 1.5, "0", 2**64):
        with pytest.raises(ParameterError, match=r"^seed: expected a whole number"):
            GymnasiumProblem("CartPole-v1", seed=seed)
    shared = GymnasiumProblem("Pendulum-v1", seed=3)
    assert spaql.Tessera(shared).problem is shared
    with pytest.raises(ParameterError, match=r"^horizon: for Gymnasium environments only; 'Pendulum-v1' has its own"):
        spaql.Tessera(shared, horizon=3)


def test_horizons():
    assert GymnasiumProblem("MountainCarContinuous-v0").horizon == 999
    assert GymnasiumProblem("MountainCarContinuous-v0", horizon=7).horizon == 7
    assert GymnasiumProblem(Toy()).horizon == 1000
    agent = spaql.Tessera(Toy(length=10**9), horizon=7).learn(iterations=3)
    assert agent.training_steps == 21
    assert agent.evaluate(4).steps == 28
    agent = spaql.Tessera(gymnasium.make("CartPole-v1", max_episode_steps=5), bounds={1: (-3, 3), 3: (-3, 3)}).learn(
        iterations=4
    )
    assert (agent.problem.horizon, agent.training_steps) == (5, 20)


def test_too_few_and_too_many_steps_are_refused_with_advice():
    for environment, options, advice in (
        (
            Toy(),
            {},
            "1000 steps; give at least 1000, or a shorter horizon=, as the environment has no limit of its own",
        ),
        (Toy(), {"horizon": 900}, "900 steps; give at least 900"),
        (
            Toy(ENDLESS),
            {"warm_up": 50},
            "1000 steps, after a warm-up of 50; give at least 1050, or a shorter horizon=.*",
        ),
        (gymnasium.wrappers.TimeLimit(Toy(), 700), {}, "700 steps; give at least 700"),
    ):
        agent = spaql.Tessera(environment, **options)
        with pytest.raises(
            ParameterError, match=rf"^total_timesteps: 6 is too few; one iteration takes up to {advice}$"
        ):
            agent.learn(total_timesteps=6)
    agent = spaql.Tessera(Toy(), horizon=6)
    for many in (2**62 + 1, 2**63, 10**30):
        with pytest.raises(
            ParameterError, match=r"^total_timesteps: expected a whole number of at least 1 and at most"
        ):
            agent.learn(total_timesteps=many)
    assert agent.learn(iterations=2).learn(total_timesteps=2**62, callback=lambda agent: False).iterations > 2


def test_the_horizon_is_that_of_the_wrappers_and_of_a_problem_inside():
    limited = gymnasium.wrappers.TimeLimit
    assert GymnasiumProblem(limited(Toy(), 7)).horizon == 7
    assert GymnasiumProblem(gymnasium.wrappers.FlattenObservation(limited(Toy(), 7))).horizon == 7
    assert GymnasiumProblem(limited(limited(Toy(), 7), 70)).horizon == 7
    assert GymnasiumProblem(limited(Toy(), 7), horizon=70).horizon == 70
    cart = limited(gymnasium.make("CartPole-v1"), 5000)  # whose inner limit is met first
    assert GymnasiumProblem(cart, bounds={1: (-3, 3), 3: (-3, 3)}).horizon == 500
    assert GymnasiumProblem("spaql/Oil-v0").horizon == GymnasiumProblem("spaql/Ambulance-v0").horizon == 5
    assert GymnasiumProblem(gymnasium.make("spaql/Ambulance-v0", horizon=9)).horizon == 9
    assert GymnasiumProblem(gymnasium.make("spaql/Oil-v0", horizon=9, max_episode_steps=4)).horizon == 4
    agent = spaql.Tessera("spaql/Oil-v0").learn(total_timesteps=50)
    assert (agent.iterations, agent.discount) == (10, spaql.Tessera("oil").discount)


# Ranges ---------------------------------------------------------------------------------------------------------------

ENDLESS = spaces.Box(-np.inf, np.inf, (1,), F64)


def drifting(env, outcome):
    """Observations from 10 to 20; the reward is what was seen."""
    value = 10.0 + 10.0 * env.np_random.random(1)
    return value, float(value[0]), *outcome[2:]


def test_unknown_ranges_are_learned_once_and_stay():
    env = Toy(ENDLESS, twist=drifting, start=lambda env: np.array([15.0]))
    problem = GymnasiumProblem(env, warm_up=500, seed=1)
    assert problem.warm_up_steps == env.steps == 500
    low, high = problem.states.low[0], problem.states.high[0]
    assert 5.0 <= low <= 5.5  # half as much again as from the 1st to the 99th percentile
    assert 24.5 <= high <= 25.0
    agent = spaql.Tessera(problem, seed=1).learn(iterations=20)
    env.twist = lambda env, outcome: (np.array([1e6]), *outcome[1:])
    agent.learn(iterations=20)
    assert (problem.states.low[0], problem.states.high[0]) == (low, high)
    assert problem.clipped[0] >= 20 * 6
    assert agent.predict([1e9])[0] == agent.predict([high])[0]


def test_only_unknown_sides_and_numbers_are_learned():
    space = spaces.Box(np.array([0.0, -np.inf, -3.0, -1e30]), np.array([np.inf, 2.0, 4.0, 1e30]), dtype=F64)

    def shown(env):
        return np.array([env.np_random.random(), 2.0 - env.np_random.random(), 0.0, 5.0])

    env = Toy(space, twist=lambda env, outcome: (shown(env), *outcome[1:]), start=shown)
    problem = GymnasiumProblem(env, warm_up=200)
    assert problem.states.low[0] == 0.0
    assert 1.2 < problem.states.high[0] < 1.6
    assert problem.states.high[1] == 2.0
    assert 0.4 < problem.states.low[1] < 0.8
    assert (problem.states.low[2], problem.states.high[2]) == (-3.0, 4.0)
    assert problem.states.low[3] < 5.0 < problem.states.high[3]  # a constant has a box around it
    assert GymnasiumProblem(env, bounds={0: (0, 1), 1: (0, 1), 3: (0, 9)}).warm_up_steps == 0


def test_a_constant_observation_will_do():
    env = Toy(spaces.Box(3, 3, (1,), F64), start=lambda env: np.array([3.0]))
    assert spaql.Tessera(env, horizon=6).learn(iterations=5).predict([3.0])[0] in (0, 1)
    for far in (1e12, 1e17, -3e38):
        states = GymnasiumProblem(Toy(spaces.Box(far, far, (1,), F64))).states
        assert states.low[0] < far < states.high[0]


def test_a_box_with_a_constant_among_others():
    space = spaces.Box(np.array([0.0, 1.0]), np.array([1.0, 1.0]), dtype=F64)
    agent = spaql.Tessera(Toy(space), horizon=6).learn(iterations=20)
    assert (agent.problem.states.low[0], agent.problem.states.high[0]) == (0.0, 1.0)
    assert not agent.problem.clipped.any()


@pytest.mark.parametrize(("low", "high"), [(0.0, np.inf), (-np.inf, 0.0), (0.0, 3.4e38), (-3.4e38, 3.4e38)])
@pytest.mark.parametrize("shown", [-5.0, 0.0, 5.0])
@pytest.mark.parametrize("shape", [(1,), ()])
def test_ranges_without_bounds_whatever_is_shown(low, high, shown, shape):
    """Also where it lies on the side that has a bound."""
    value = np.full(shape, shown, F32)
    env = Toy(
        spaces.Box(low, high, shape, F32),
        twist=lambda env, outcome: (value, *outcome[1:]),
        start=lambda env: value,
    )
    agent = spaql.Tessera(env, horizon=6, warm_up=20).learn(iterations=5)
    assert agent.problem.states.low[0] <= shown <= agent.problem.states.high[0]
    assert not agent.problem.clipped.any()
    assert agent.predict(value)[0] in (0, 1)


def test_warm_up_steps_count_as_training():
    for make in (spaql.Tessera, spaql.SPAQL, spaql.AQL):
        env = Toy(ENDLESS, twist=drifting, start=lambda env: np.array([15.0]))
        agent = make(env, warm_up=100, horizon=6)
        assert agent.training_steps == env.steps == 100
        agent.learn(iterations=2)
        assert agent.training_steps + agent.selection_steps + agent.monitoring_steps == env.steps


def test_warm_ups_are_the_seed_s():
    ranges = [spaql.Random("CartPole-v1", seed=seed, warm_up=100).problem.states for seed in (0, 0, 1)]
    assert ranges[0].high.tolist() == ranges[1].high.tolist()
    assert ranges[0].high.tolist() != ranges[2].high.tolist()


def test_bounds_by_name_and_by_place():
    named = GymnasiumProblem(Toy(NESTED), bounds={"wind[1]": (-9, 9), "inner.gear": (0, 10)})
    at = named.names.index("wind[1]")
    placed = GymnasiumProblem(Toy(NESTED), bounds={at: (-9, 9), np.int64(1): (0, 10)})
    for problem in (named, placed):
        assert (problem.states.low[at], problem.states.high[at]) == (-9.0, 9.0)
        assert (problem.states.low[1], problem.states.high[1]) == (0.0, 10.0)
        assert problem.states.high[at - 1] == 2.0


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


def test_an_angle_comes_round():
    problem = GymnasiumProblem(Dial(), bounds={0: (-math.pi, math.pi)}, periodic=0)
    for eps in (1e-9, 0.1, 1.0, 3.0):
        near = [[-math.pi + eps], [math.pi + eps], [5 * math.pi + eps], [-3 * math.pi + eps]]
        points, _ = problem.observed(near)
        np.testing.assert_allclose(points, np.full((4, 1), eps / (2 * math.pi)), atol=1e-12)
    inside, _ = problem.observed(np.random.default_rng(0).normal(0.0, 1e3, (500, 1)))
    assert ((inside >= 0.0) & (inside <= 1.0)).all()
    turning = spaql.Tessera(Dial, seed=0, horizon=50, bounds={"0": (-math.pi, math.pi)}, periodic=["0"])
    turning.learn(total_timesteps=4000)
    assert not turning.problem.clipped.any()
    assert turning.evaluate(10).mean > 45.0
    angles = np.linspace(-3.0, 3.0, 50)[:, None]
    for turns in (-2, 1, 7):
        np.testing.assert_array_equal(turning.predict(angles)[0], turning.predict(angles + 2 * math.pi * turns)[0])
    stuck = spaql.Tessera(Dial, seed=0, horizon=50, bounds={0: (-math.pi, math.pi)}).learn(total_timesteps=4000)
    assert stuck.problem.clipped[0] > 1000  # an angle that does not come round leaves its range for ever
    assert stuck.evaluate(10).mean < 40.0


def test_what_is_outside_is_counted_and_is_the_border():
    env = Toy(ENDLESS, twist=drifting, start=lambda env: np.array([15.0]))
    agent = spaql.Tessera(env, bounds={0: (10, 15)}, horizon=6, seed=0).learn(iterations=100)
    clipped = agent.problem.clipped
    assert clipped.shape == (1,)
    assert 0.4 < clipped[0] / agent.training_steps < 0.6
    facts = agent._memory.facts[: agent.training_steps]
    assert np.mean(facts[:, -1] == 1.0) == pytest.approx(clipped[0] / agent.training_steps)
    before = agent.problem.clipped[0]
    agent.evaluate(5)
    agent.predict([[99.0], [-99.0]])
    assert agent.problem.clipped[0] == before  # evaluations do not count
    clipped[:] = 0
    assert agent.problem.clipped[0] == before


@pytest.mark.parametrize("periodic", [(), (0,)])
def test_bounds_may_be_absurdly_narrow(periodic):
    env = Toy(twist=lambda env, outcome: (np.array([1e200]), *outcome[1:]))
    agent = spaql.Tessera(env, bounds={0: (-1e-200, 1e-200)}, periodic=periodic, horizon=6).learn(iterations=5)
    assert agent.training_steps == 30
    far, _ = agent.problem.observed([[1e200], [-1e200], [0.0]])
    assert far.ravel().tolist() == ([0.0, 0.0, 0.5] if periodic else [1.0, 0.0, 0.5])
    agent.predict([1e200])


# Faults ---------------------------------------------------------------------------------------------------------------

ALL = {
    "SPAQL": spaql.Tessera,
    "published": lambda problem, **options: spaql.SPAQL(problem, rollouts=2, **options),
    "AQL": lambda problem, **options: spaql.AQL(problem, rollouts=1, **options),
    "Random": spaql.Random,
}
LEARNERS = {name: make for name, make in ALL.items() if name != "Random"}
every_learner = pytest.mark.parametrize("name", LEARNERS)


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
    "value", [np.zeros((30, 3)), np.zeros((2, 3)), np.zeros(2), 0.5, None, [[1, 2], [3]], np.full((2, 2), "x"), {}]
)
def test_predictions_for_another_shape_are_refused_in_a_sentence(value):
    agent = spaql.Tessera(Toy(TABLE), horizon=6).learn(iterations=2)
    with pytest.raises(ParameterError, match=r"^observation: expected (shape|a member)") as caught:
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


class Broken(Exception):
    """What only this environment raises."""


def breaks(env, outcome):
    raise Broken("out of order", env.steps)


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
    assert 0 < done == len(agent.history) == agent._finished
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
        assert len(agent.history) == agent.iterations == agent._finished
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
    thread = threading.Thread(target=agents[0].learn, args=(30,))
    thread.start()
    thread.join()
    agents[1].learn(iterations=30)
    np.testing.assert_array_equal(agents[0].history, agents[1].history)


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


def values(agent):
    """Q of the cells that hold the two states."""
    cells = agent.cells()
    return [float(cells.q[((cells.state_low <= x) & (x <= cells.state_high)).all(axis=1)].max()) for x in (0.0, 1.0)]


# V(1) = 1 + V(0) / 2 and V(0) = V(1) / 2, where V(0) after the end is 0 if terminated.
ENDED, GOES_ON = [0.5, 1.0], [2.0 / 3.0, 4.0 / 3.0]


@pytest.mark.parametrize("scale", [1.0, -1.0, 1e-6, 1e6])
@pytest.mark.parametrize(
    ("end", "horizon", "expected"),
    [
        ("terminated", 10, ENDED),
        ("truncated", 10, GOES_ON),
        ("terminated and truncated", 10, ENDED),
        ("by the horizon", 2, GOES_ON),
        ("by the horizon", 7, GOES_ON),
        ("terminated", 2, ENDED),
    ],
)
def test_terminated_stops_the_bootstrap_and_truncated_does_not(end, horizon, expected, scale):
    agent = spaql.Tessera(Pair(end, scale), discount=0.5, horizon=horizon, disable=["slopes", "merging"])
    agent.learn(iterations=400)
    np.testing.assert_allclose(values(agent), scale * np.array(expected), rtol=0.02)
    lengths = np.diff(agent.history["training_steps"], prepend=0)
    assert set(lengths) == {2 if "t" in end[:1] else horizon}


def test_the_discount_of_a_long_horizon_sees_past_a_truncation():
    """With 1 - 1/H a state that pays 1 for ever is worth H, however short its episodes; one that ends, 1."""

    class One(Pair):
        def step(self, action):
            return 0, 1.0, self.end == "terminated", self.end == "truncated", {}

    for end, worth in (("terminated", 1.0), ("truncated", 20.0)):
        agent = spaql.Tessera(One(end), horizon=20).learn(iterations=2000)
        assert agent.training_steps == 2000
        np.testing.assert_allclose(agent.cells().q, worth, rtol=0.1)


@pytest.mark.parametrize("name", ["published", "AQL"])
def test_published_agents_stop_at_terminated_only(name):
    """The value of what follows is 0 after a termination; after a truncation it is not."""
    for end, ends in (("terminated", True), ("truncated", False), ("terminated and truncated", True)):
        agent = LEARNERS[name](Pair(end), horizon=10).learn(iterations=10)
        low = agent.history["value_low"]
        assert (low == 0.0).all() if ends else (low > 0.0).all()
        assert (agent.history["value_high"] > 0.0).all()
        assert set(np.diff(agent.history["training_steps"], prepend=0)) == {2}


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("ends", [True, False])
def test_environments_that_end_in_the_first_step(name, ends):
    env = Toy(length=1, ends=ends)
    agent = ALL[name](env, horizon=6).learn(iterations=30)
    result = agent.evaluate(20)
    assert result.steps == 20
    if name != "Random":
        assert agent.training_steps == agent.iterations == 30
        assert np.isfinite(agent.cells().q).all()
    agent.predict([0.5])


@pytest.mark.parametrize("scale", [1e-250, 1e-9, 1.0, 1e9, 1e99, -1e99])
@pytest.mark.parametrize("name", ALL)
def test_rewards_of_every_scale(name, scale):
    env = Toy(twist=lambda env, outcome: (outcome[0], scale * outcome[1], *outcome[2:]))
    agent = ALL[name](env, horizon=6, seed=1).learn(iterations=60)
    result = agent.evaluate(5)
    assert np.isfinite(result.returns).all()
    assert (np.sign(result.returns) == np.sign(scale)).all()
    if name != "Random":
        assert np.isfinite(agent.cells().q).all()


@pytest.mark.parametrize("scale", [1e-40, 1e40])
def test_the_unit_of_rewards_changes_nothing_for_spaql(scale):
    """Powers of two scale without rounding, so that everything else stays bit for bit."""
    factor = 2.0 ** round(math.log2(scale))
    agents = []
    for unit in (1.0, factor):
        env = Chase(unit)
        agents.append(spaql.Tessera(env, seed=0, horizon=20, warm_up=100).learn(iterations=60))
    np.testing.assert_array_equal(agents[0].history["score"] * factor, agents[1].history["score"])
    np.testing.assert_array_equal(agents[0].cells().state_low, agents[1].partition.state_low)
    np.testing.assert_array_equal(agents[0].cells().q * factor, agents[1].partition.q)


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


def test_spaql_does_much_better_than_random():
    agent = spaql.Tessera(Chase, seed=0, horizon=20).learn(total_timesteps=8000)
    assert agent.problem.names == ["body.at", "lamp"]
    assert agent.problem.warm_up_steps == 1000
    learned = agent.evaluate(100)
    random = spaql.Random(Chase, seed=0, horizon=20).evaluate(100)
    assert random.mean < 2.0
    assert learned.mean > 12.0
    right = agent.predict({"lamp": [0, 1, 0, 1], "body": {"at": [[-2.0], [-2.0], [2.0], [2.0]]}})[0]
    assert right[:, 1].tolist() == [0, 1, 0, 1]
    assert right[:, 0].tolist() == [2, 2, 0, 0]


class Stubborn(Toy):
    """Cannot be deep-copied, and is not registered."""

    def __init__(self, **options):
        super().__init__(**options)
        self.lock = threading.Lock()


NEITHER = r"^environment '\w+' can be neither made nor copied again, so evaluations .* give a function that makes a new"


def test_an_environment_that_cannot_be_copied():
    env = Stubborn()
    with pytest.raises(TypeError):
        copy.deepcopy(env)
    agent = spaql.Tessera(env, horizon=6, seed=3).learn(iterations=10)
    steps = env.steps
    with pytest.warns(UserWarning, match=NEITHER) as warned:
        first = agent.evaluate(5)
    assert len(warned) == 1
    assert warned[0].filename == __file__
    assert env.steps == steps + 30  # on itself, for want of another
    np.testing.assert_array_equal(agent.evaluate(5).returns, first.returns)  # and no other warning, which is an error
    assert agent.training_steps == 60
    agent.learn(iterations=10)
    assert agent.iterations == 20
    assert len(set(env.seeds)) == len(env.seeds) - 1  # of all seeds only that of the evaluation came twice
    again = spaql.Tessera(Stubborn(), horizon=6, seed=3).learn(iterations=10)
    with pytest.warns(UserWarning, match=NEITHER):
        again.evaluate(5)
    again.evaluate(5)
    np.testing.assert_array_equal(again.learn(iterations=10).history, agent.history)
    made = spaql.Tessera(Stubborn, horizon=6, seed=3).learn(iterations=10)  # a factory makes another
    steps = made.problem.env.steps
    made.evaluate(5)
    assert made.problem.env.steps == steps


@pytest.mark.parametrize("wrap", [lambda env: env, Watched])
def test_a_factory_that_makes_the_same_again(wrap):
    """As good as the environment itself: it is copied, or else there is a warning."""
    env, stubborn = Toy(), Stubborn()
    agent = spaql.Tessera(lambda: wrap(env), horizon=6).learn(iterations=10)
    assert agent.evaluate(5).steps == 30
    assert env.steps == 60
    with pytest.warns(UserWarning, match=NEITHER):
        spaql.Tessera(lambda: wrap(stubborn), horizon=6).learn(iterations=10).evaluate(5)
    assert stubborn.steps == 90


class Closing(Toy):
    """Tells who was made and closed."""

    made: list = []  # noqa: RUF012

    def __init__(self, **options):
        super().__init__(**options)
        self.closed = 0
        self.made.append(self)

    def close(self):
        self.closed += 1


def test_environments_made_for_evaluations_are_closed(monkeypatch):
    monkeypatch.setattr(Closing, "made", [])
    agent = spaql.Tessera(Closing, horizon=6).learn(
        iterations=10, callback=spaql.agents.callbacks.Evaluate(every=20, episodes=2)
    )
    agent.evaluate(3)
    agent.diagnose()
    assert len(Closing.made) > 5
    assert [env.closed for env in Closing.made] == [0] + [1] * (len(Closing.made) - 1)
    monkeypatch.setattr(Closing, "made", [])
    agent = spaql.Tessera(lambda: Closing(twist=None if len(Closing.made) == 0 else breaks), horizon=6).learn(
        iterations=1
    )
    with pytest.raises(Broken):
        agent.evaluate(3)
    assert [env.closed for env in Closing.made] == [0, 1]


def test_the_environment_of_the_user_is_never_closed(monkeypatch):
    monkeypatch.setattr(Closing, "made", [])
    env = Closing()
    spaql.Tessera(env, horizon=6).learn(iterations=2).evaluate(2)
    spaql.Tessera(lambda: env, horizon=6).learn(iterations=2).evaluate(2)
    env.lock = threading.Lock()  # cannot be copied
    with pytest.warns(UserWarning, match=NEITHER):
        spaql.Tessera(env, horizon=6).learn(iterations=2).evaluate(2)
    assert (Closing.made, env.closed) == ([env], 0)
    monkeypatch.setattr(Closing, "made", [])
    monkeypatch.setattr(Closing, "render_mode", "human")  # closing one of these closes the windows of all
    spaql.Tessera(Closing, horizon=6).learn(iterations=2).evaluate(2)
    assert [env.closed for env in Closing.made] == [0, 0]


@every_learner
@pytest.mark.parametrize("given", [Toy, lambda: Toy(), lambda: gymnasium.make("Acrobot-v1", max_episode_steps=6)])
def test_a_deep_copy_learns_the_same_on_an_environment_of_its_own(name, given):
    for environment in (given, given()):
        agent = LEARNERS[name](environment, horizon=6, seed=5).learn(iterations=10)
        other = copy.deepcopy(agent)
        assert other.problem.env is not agent.problem.env
        np.testing.assert_array_equal(other.problem.clipped, agent.problem.clipped)
        agent.learn(iterations=10)
        assert other.iterations == 10
        np.testing.assert_array_equal(other.learn(iterations=10).history, agent.history)
        assert_same_cells(other.cells(), agent.cells())
        np.testing.assert_array_equal(other.evaluate(3).returns, agent.evaluate(3).returns)


def test_deep_copies_where_the_environment_cannot_be_copied():
    agent = spaql.Tessera(Stubborn, horizon=6).learn(iterations=5)
    other = copy.deepcopy(agent).learn(iterations=5)
    assert (other.iterations, agent.iterations, agent.problem.env.steps) == (10, 5, 30)
    agent = spaql.Tessera(Stubborn(), horizon=6).learn(iterations=5)
    with pytest.warns(UserWarning, match=NEITHER):
        other = copy.deepcopy(agent)
    assert other.learn(iterations=5).iterations == 10


def test_agents_on_one_problem_do_not_disturb_each_other():
    problem = GymnasiumProblem(Toy(), horizon=6, seed=4)
    first, second = spaql.Tessera(problem), spaql.Tessera(problem)
    alone = spaql.Tessera(GymnasiumProblem(Toy(), horizon=6, seed=4)).learn(iterations=20)
    for _ in range(4):
        first.learn(iterations=5)
        second.learn(iterations=5)
    np.testing.assert_array_equal(first.history, alone.history)
    np.testing.assert_array_equal(second.history, alone.history)
    assert first.problem is problem
    assert second.problem.env is not problem.env
    first.set_env(Toy())
    assert spaql.Tessera(first.problem).problem is not first.problem
    lonely = GymnasiumProblem(Stubborn(), horizon=6)
    spaql.Tessera(lonely).learn(iterations=3)
    with pytest.warns(UserWarning, match=NEITHER):
        second = spaql.Tessera(lonely)
    assert second.learn(iterations=3).iterations == 3


def test_other_observations_and_actions_are_told_of_an_environment():
    night = spaces.Dict({"night": spaces.Box(0, 1, (1,), F64)})
    plane = spaces.Box(-1, 1, (1,), F32)
    agent = spaql.Tessera(Toy(night), horizon=6).learn(iterations=2)
    other = r"^env: 'Toy' has other observations or actions than 'Toy', on which was learned$"
    for env in (
        Toy(),
        Toy(spaces.Dict({"day": spaces.Box(0, 1, (1,), F64)})),
        lambda: Toy(night, spaces.Discrete(3)),
        Toy(night, plane),
    ):
        with pytest.raises(ParameterError, match=other):
            agent.set_env(env)
    flying = spaql.Tessera(Toy(played=plane), horizon=6).learn(iterations=2)
    for env in (Toy(), Toy(played=spaces.Box(-1, 2, (1,), F32)), Toy(played=spaces.Box(-1, 1, (2,), F32))):
        with pytest.raises(ParameterError, match=other):
            flying.set_env(env)
    calls = []
    agent.set_env(lambda: calls.append(1) or Toy(night)).learn(iterations=2)
    assert len(calls) == 1
    agent.evaluate(2)
    assert len(calls) == 2


class Counting(gymnasium.Wrapper):
    """Cannot be deep-copied, and does not tell how it was made."""

    def __init__(self, env):
        super().__init__(env)
        self.lock = threading.Lock()
        self.steps = 0

    def step(self, action):
        self.steps += 1
        return super().step(action)


def test_a_registered_environment_under_a_wrapper_that_cannot_be_made_again():
    env = Counting(gymnasium.make("CartPole-v1"))
    with pytest.raises(ValueError, match="cannot be recreated"):
        gymnasium.make(env.spec)
    agent = spaql.Random(env)
    before = env.steps
    with pytest.warns(UserWarning, match="CartPole-v1' can be neither made nor copied"):
        assert agent.evaluate(5).steps == env.steps - before


def test_evaluations_have_episodes_of_their_own():
    """Neither the first of training nor one another's."""
    agent = spaql.Random(lambda: Toy(spaces.Box(0, 1, (1,), F64), length=3), seed=0, horizon=3)
    returns = agent.evaluate(1500).returns
    assert len(np.unique(returns)) == 1500
    assert not np.isin(agent.evaluate(100, seed=1).returns, returns).any()
    training = spaql.Tessera(lambda: Toy(spaces.Box(0, 1, (1,), F64), length=3), seed=0, horizon=3).learn(
        iterations=500
    )
    assert not np.isin(training.history["score"], returns).any()


def test_diagnose_leaves_learning_alone():
    make = lambda: spaql.Tessera(Chase, seed=1, horizon=10, warm_up=50)  # noqa: E731
    asked, left = make(), make()
    for _ in range(2):
        asked.diagnose(total_timesteps=1000)
        asked.learn(iterations=20)
        left.learn(iterations=20)
    np.testing.assert_array_equal(asked.history, left.history)
    narrow = spaql.Tessera(Dial, horizon=20, bounds={0: (-1, 1)}).learn(iterations=20)
    assert "states-clipped" in [found.id for found in narrow.diagnose()]
    assert spaql.AQL(Chase, horizon=10, warm_up=50).learn(iterations=20).diagnose()


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
every_law = pytest.mark.parametrize(
    ("name", "world"), [(name, world) for name in ALL for world in ENVIRONMENTS], ids=lambda each: each
)


def made(name, world, seed=0):
    env = Watched(ENVIRONMENTS[world]())
    return ALL[name](env, seed=seed, horizon=12, warm_up=30), env


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
    agent, env = taught("SPAQL", world)
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
for make in (spaql.Tessera, lambda *a, **o: spaql.SPAQL(*a, rollouts=1, **o),
             lambda *a, **o: spaql.AQL(*a, rollouts=1, **o), spaql.Random):
    for env, options in (("CartPole-v1", {"warm_up": 10}), ("Pendulum-v1", {"bounds": {2: (-1, 1)}, "periodic": [2]})):
        agent = make(env, seed=0, horizon=5, **options).learn(iterations=3)
        print(agent.training_steps, *agent.history["score"].tolist(), *agent.evaluate(2).returns.tolist())
        print(*agent.predict(agent.problem.env.observation_space.sample() * 0)[0].reshape(-1) * 0.0)
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
        said.append([float(word) for word in run.stdout.split()])
    np.testing.assert_allclose(*said, rtol=1e-9)


def test_the_compiler_is_on_here():
    assert not config.DISABLE_JIT
