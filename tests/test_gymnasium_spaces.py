"""Observation and action spaces of Gymnasium environments."""

import copy

import numpy as np
import pytest
from gymnasium import spaces

import spaql
from environments_for_tests import (
    F32,
    F64,
    NESTED,
    Toy,
    Watched,
    assert_member,
    assert_one_sentence,
    stacked,
)
from spaql.agents import resolve
from spaql.errors import ParameterError
from spaql.gym.encoding import MOST_NUMBERED, MOST_OBSERVED, Moves, Observations
from spaql.gym.problem import GymnasiumProblem
from spaql.partition.spaces import Box, Discrete

pytestmark = pytest.mark.compiled_only  # but for the process of its own at the end

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
    points, single = agent.problem.encode(stacked(space, seen))
    assert not single
    low, high = np.array(SEEN[kind][2], float), np.array(SEEN[kind][3], float)
    expected = (np.array([flat(space, each) for each in seen]) - low) / (high - low)
    np.testing.assert_allclose(points, expected, rtol=0.0, atol=1e-12)
    remembered = agent._past().points
    assert remembered.shape == (agent.training_steps, len(low))
    assert ((remembered >= 0.0) & (remembered <= 1.0)).all()
    many, _ = agent.predict(stacked(space, seen))
    assert many.tolist() == [agent.predict(each)[0] for each in seen]


GOOD = {"wind": [0, 0], "inner": {"gear": 2, "pair": [[0, 1], [1, 0]]}, "height": 1.0, "mode": [0, -1]}


@pytest.mark.parametrize(
    ("observation", "says"),
    [
        ({"wind": [0.0, 0.0]}, "'height' is missing; its parts are 'height', 'inner', 'mode', 'wind'$"),
        (None, "expected a mapping with the keys 'height', 'inner', 'mode', 'wind', got None$"),
        (3.0, "expected a mapping with the keys 'height', 'inner', 'mode', 'wind', got 3.0$"),
        ("windy", "expected a mapping with the keys .*, got 'windy'$"),
        (GOOD | {"moon": 1}, "'moon' is not one of its parts; its parts are 'height', "),
        (GOOD | {"inner": {"gear": 2}}, "'pair' is missing for 'inner'; its parts are 'gear', 'pair'$"),
        (GOOD | {"inner": 2}, "expected a mapping with the keys 'gear', 'pair' for 'inner', got 2$"),
        (GOOD | {"inner": {"gear": 2, "pair": [[0, 1]]}}, "1 is missing for 'inner.pair'; its parts are 0, 1$"),
        (GOOD | {"inner": {"gear": 2, "pair": 7}}, "expected a tuple of the parts 0, 1 for 'inner.pair', got 7$"),
        (GOOD | {"wind": [0.0]}, r"expected shape \(2,\) for 'wind', or \(n, ...\) for many, got \(1,\)$"),
        (GOOD | {"wind": ["a", "b"]}, r"expected numbers for 'wind', got \['a', 'b'\]$"),
        (GOOD | {"height": "3"}, "expected numbers for 'height', got '3'$"),
        (GOOD | {"height": 1j}, "expected numbers for 'height', got 1j$"),
        (GOOD | {"height": 10**400}, "expected numbers for 'height', got 1000"),
        (GOOD | {"height": np.nan}, "height is nan, not a finite number$"),
    ],
)
def test_observations_of_another_kind_are_refused(observation, says):
    Observations(NESTED).rows(GOOD)
    with pytest.raises(ParameterError, match=rf"^observation: {says}") as caught:
        Observations(NESTED).rows(observation)
    assert_one_sentence(caught)


ROOM = spaces.Dict({"room": spaces.Box(0, 30, (1,), F32), "tide": spaces.Discrete(2)})


def test_a_single_number_may_stand_for_a_part():
    """One observation or many, in prediction and where an environment shows it."""
    room = Observations(ROOM)
    for one in ({"room": 18.0, "tide": 1}, {"room": np.float32(18), "tide": np.int64(1)}, {"room": [18], "tide": 1}):
        rows, single = room.rows(one)
        assert (rows.tolist(), single) == ([[18.0, 1.0]], True)
    for many in ({"room": [18, 3], "tide": [1, 0]}, {"room": [[18], [3]], "tide": np.array([1, 0])}):
        rows, single = room.rows(many)
        assert (rows.tolist(), single) == ([[18.0, 1.0], [3.0, 0.0]], False)
    assert room.rows({"room": [18.0], "tide": [1]})[1] is False
    assert Observations(spaces.Box(0, 30, (1,), F32)).rows(18.0)[1] is True
    with pytest.raises(ParameterError, match=r"^observation: its parts are not equally many$"):
        room.rows({"room": [18, 3], "tide": 1})
    seen = {"room": 18.0, "tide": 1}
    agent = spaql.Random(Toy(ROOM, twist=lambda env, outcome: (seen, *outcome[1:]), start=lambda env: seen), horizon=6)
    assert agent.evaluate(2).steps == 12
    assert agent.predict(seen)[0] in (0, 1)
    assert agent.predict({"room": [18, 3], "tide": [1, 0]})[0].shape == (2,)


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
        (
            spaces.Box(2**60, 2**60 + 9, (1,), np.int64),
            f"observations: integers beyond {2**52}",
        ),
        (spaces.Discrete(4, start=-(2**60)), f"observations: integers beyond {2**52}"),
        (
            spaces.MultiDiscrete([3, 4], start=[0, 2**53]),
            f"observations: integers beyond {2**52}",
        ),
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
    points, _ = GymnasiumProblem(Toy(space)).encode(numbers[:, None])
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
    agent = resolve("no-movement").make(lambda: seen.append(copy.deepcopy(twin)) or seen[-1], horizon=6)
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
        (spaces.Box(np.array([0.0, 1.0]), np.array([1.0, 1.0]), dtype=F64), "actions: bounds must be finite"),
        (spaces.Box(0, 1, (0,), F64), "actions: bounds must be one number per dimension"),
        (spaces.Box(np.zeros((3, 3)), np.array([[1, 2, np.inf]] * 3), dtype=F64), "actions: .* has no bounds on some"),
        (spaces.Box(-1.7e308, 1.7e308, (1,), F64), "actions: bounds must be finite with low below high"),
        (spaces.Box(2**60, 2**60 + 9, (1,), np.int64), f"actions: integers beyond {2**52}"),
        (spaces.Discrete(5000, start=2**60), f"actions: integers beyond {2**52}"),
        (spaces.Dict({}), "actions: Dict spaces are not supported"),
        (spaces.Tuple([]), "actions: Tuple spaces are not supported"),
    ],
)
def test_actions_that_cannot_be_played_are_refused(space, says):
    with pytest.raises(ParameterError, match=rf"^{says}") as caught:
        spaql.Tessera(Toy(played=space))
    assert_one_sentence(caught)


def test_partitions_of_many_action_dimensions_are_refused():
    toy = Toy(played=spaces.Box(0, 1, (20,), F64))
    with pytest.raises(ParameterError, match=r"^partition: 1 state and 20 action dimensions mean") as caught:
        spaql.SPAQL(toy)
    assert_one_sentence(caught)
    agent = spaql.Tessera(toy, horizon=4).learn(iterations=5)  # which has none
    assert_member(toy.action_space, agent.predict(toy.observation_space.sample())[0])
