"""Partitions: cells tile the space, and the index by state always agrees with a plain list of balls."""

import math
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core import config

import textbook
from spaql.errors import ParameterError
from spaql.partition import kernels
from spaql.partition.jit import kernel
from spaql.partition.kernels import GRID_LEVELS, MAX_DEPTH, MAX_VISITS, NONE
from spaql.partition.partition import MAX_DIMENSIONS, Partition
from spaql.partition.rng import stream
from spaql.partition.spaces import Box, Discrete

INITIAL = 2.0
EXAMPLES = 5 if config.DISABLE_JIT else 25
OPERATIONS = 25 if config.DISABLE_JIT else 60
QS = (-1.0, 0.0, 1.0, 2.0, 2.5, 3.0)  # few values, so that ties abound


def box(*widths):
    """A box of so many dimensions, in odd units."""
    return Box([-3.0 * width for width in widths], [5.0 * width for width in widths])


# State space, action space, number of time steps.
SHAPES = {
    "1 state, 1 action": (box(1), box(2), 1),
    "1 state, 1 action, 3 steps": (Box(0, 1), Box(0, 1), 3),
    "1 state, 2 actions": (box(1), box(1, 4), 1),
    "1 state, 3 finite actions": (Box(0, 1), Discrete(3), 1),
    "1 state, 1 finite action": (Box(0, 1), Discrete(1), 2),
    "2 states, 1 action": (box(1, 8), box(1), 1),
    "2 states, 2 actions, 2 steps": (box(1, 2), box(1, 2), 2),
    "2 states, 2 finite actions": (box(1, 2), Discrete(2), 1),
    "3 states, 1 action": (box(1, 2, 4), box(1), 1),
}

shapes = pytest.mark.parametrize("shape", SHAPES)
properties = settings(max_examples=EXAMPLES, deadline=None, derandomize=True, database=None)


def make(shape, initial=INITIAL):
    """A fresh partition with room for a few splits; kernels trust that there is room."""
    states, actions, steps = SHAPES[shape]
    partition = Partition(states, actions, initial=initial, steps=steps)
    partition.reserve(8)
    return partition


def choices(partition):
    return partition.actions.count if isinstance(partition.actions, Discrete) else 0


class Twin:
    """A `Partition` and the textbook's lists of balls, changed together and compared."""

    def __init__(self, partition):
        self.partition = partition
        d = partition.states.dimensions, partition.actions.dimensions
        self.plain = [textbook.Partition(*d, INITIAL, choices(partition) or None) for _ in range(partition.steps)]

    def key(self, cell):
        """State box, action box and time step of a cell, in the unit cube."""
        record, action = self.partition.forest.cells[cell], self.partition.forest.boxes[cell]
        low, high = self.state_box(int(record["node"]))
        return (*low, *action[0], *high, *action[1], int(record["root"]))

    def state_box(self, node):
        """Climbed up from the node; `Partition.node_boxes` goes down from the roots."""
        nodes, links = (np.asarray(array) for array in (self.partition.forest.nodes, self.partition.forest.links))
        low, high = [0.0] * self.partition.states.dimensions, [1.0] * self.partition.states.dimensions
        while (parent := int(links[node]["parent"])) != NONE:
            dim, cut = int(nodes[parent]["dim"]), float(nodes[parent]["cut"])
            if node == nodes[parent]["child"] + 1:
                low[dim] = max(low[dim], cut)
            else:
                high[dim] = min(high[dim], cut)
            node = parent
        return low, high

    def keys(self):
        low, high = self.partition.node_boxes()
        count = len(self.partition)
        cells, action = self.partition.forest.cells[:count], self.partition.forest.boxes[:count]
        rows = np.hstack([low[cells["node"]], action[:, 0], high[cells["node"]], action[:, 1], cells["root"][:, None]])
        return {tuple(row): number for number, row in enumerate(rows.tolist())}

    @staticmethod
    def ball_key(ball, root):
        choice = () if ball.choice is None else (float(ball.choice),)
        return (*ball.low, *choice, *ball.high, *choice, root)

    def find(self, cell):
        """The textbook's ball of a cell."""
        key = self.key(cell)
        root = key[-1]
        return root, next(ball for ball in self.plain[root].balls if self.ball_key(ball, root) == key)

    def split(self, cell):
        key, forest = self.key(cell), self.partition.forest
        root, ball = self.find(cell)
        self.plain[root].split(ball)
        self.partition.reserve(1)
        moved = self.partition.forest is not forest  # growth lays the cells out anew
        kernels.split(self.partition.forest, self.keys()[key] if moved else cell)

    def assign(self, cell, q):
        self.find(cell)[1].q = q
        kernels.assign(self.partition.forest, cell, q)

    def visit(self, cell):
        self.find(cell)[1].n += 1
        kernels.visit(self.partition.forest, cell)

    def check_cells(self):
        """The same balls with the same Q, visits and depth."""
        cells = self.partition.forest.cells
        ours = {k: (cells["q"][i], cells["visits"][i], cells["depth"][i]) for k, i in self.keys().items()}
        plain = {self.ball_key(b, h): (b.q, b.n, b.depth) for h, p in enumerate(self.plain) for b in p.balls}
        assert ours == plain

    def check_greedy(self, points):
        """`best` and `greedy` give the argmax of the brute force, with its rule for ties."""
        forest = self.partition.forest
        keys = self.keys()
        for root, plain in enumerate(self.plain):
            expected = [keys[self.ball_key(plain.greedy(tuple(x)), root)] for x in points]
            assert [kernels.best(forest, root, points, row) for row in range(len(points))] == expected
            rooted = np.full(len(points), root)
            assert self.partition.greedy(points, rooted).tolist() == expected


def random_points(dimensions, count, rng, depth=4):
    """Points of the unit cube: half of them anywhere, half on dyadic borders, and the corners."""
    anywhere = rng.random((count, dimensions))
    dyadic = rng.integers(0, 2**depth + 1, (count, dimensions)) / 2**depth
    return np.vstack([anywhere, dyadic, np.zeros((1, dimensions)), np.ones((1, dimensions))])


def grow(twin, draw, operations=OPERATIONS, deepen=False):
    """Split, assign, visit and grow at random; `deepen` prefers young cells."""
    for _ in range(operations):
        count = len(twin.partition)
        lowest = max(0, count - 4) if deepen else 0
        cell = draw(st.integers(lowest, count - 1))
        action = draw(st.sampled_from(["split", "split", "assign", "assign", "assign", "visit", "grow"]))
        depth = twin.partition.forest.cells["depth"][cell]
        if action == "split" and depth < MAX_DEPTH and count < 600:
            twin.split(cell)
        elif action == "visit":
            twin.visit(cell)
        elif action == "grow" and len(twin.partition.forest.cells) < 5000:
            twin.partition.reserve(1 + len(twin.partition.forest.cells) // twin.partition.growth(1)[1])
        else:
            twin.assign(cell, draw(st.sampled_from(QS)))


def inside(value, low, high, top):
    """Half-open boxes, closed at the top of the space; a side of no width holds its own point."""
    return ((low <= value) & ((value < high) | ((value == high) & ((high == top) | (low == high))))).all(axis=1)


# Tiling -------------------------------------------------------------------------------------------------------


@shapes
@properties
@given(data=st.data())
def test_cells_tile_the_space(shape, data):
    twin = Twin(make(shape))
    grow(twin, data.draw)
    partition = twin.partition
    view = partition.view()
    states, actions = partition.states, partition.actions
    for step in range(partition.steps):
        cells = view.at(step)
        volume = ((cells.state_high - cells.state_low) / (states.high - states.low)).prod(axis=1)
        if isinstance(actions, Discrete):
            for action in range(actions.count):
                assert volume[cells.action_low[:, 0] == action].sum() == pytest.approx(1.0, abs=1e-12)
        else:
            width = ((cells.action_high - cells.action_low) / (actions.high - actions.low)).prod(axis=1)
            assert (volume * width).sum() == pytest.approx(1.0, abs=1e-12)


@shapes
@properties
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_every_pair_lies_in_exactly_one_cell(shape, data, seed):
    twin = Twin(make(shape))
    grow(twin, data.draw, OPERATIONS // 2)
    partition = twin.partition
    rng = np.random.default_rng(seed)
    points = random_points(partition.states.dimensions, 10, rng)
    finite = choices(partition)
    if finite:
        pairs = rng.integers(0, finite, (len(points), 1)).astype(float)
    else:
        pairs = random_points(partition.actions.dimensions, 10, rng)
    view = partition.view()
    x, a = partition.states.from_unit(points), partition.actions.from_unit(pairs)
    top = finite if finite else partition.actions.high
    keys = twin.keys()
    for step in range(partition.steps):
        cells = view.at(step)
        for row in range(len(points)):
            held = inside(x[row], cells.state_low, cells.state_high, partition.states.high)
            held &= inside(a[row], cells.action_low, cells.action_high, top)
            assert held.sum() == 1
            found = kernels.locate(partition.forest, step, points, row, pairs)
            one = int(np.flatnonzero(held)[0])
            assert keys[twin.key(found)] == found
            corner = partition.states.to_unit(cells.state_low[one])
            np.testing.assert_allclose(twin.key(found)[: points.shape[1]], corner, atol=1e-12)
            assert partition.forest.cells["q"][found] == cells.q[one]
            assert partition.forest.cells["depth"][found] == cells.depth[one]


def test_locate_says_none_outside_the_actions():
    partition = make("1 state, 3 finite actions")
    assert kernels.locate(partition.forest, 0, np.array([[0.5]]), 0, np.array([[3.0]])) == NONE
    assert kernels.locate(partition.forest, 0, np.array([[0.5]]), 0, np.array([[0.5]])) == NONE


# Splitting ----------------------------------------------------------------------------------------------------


@shapes
def test_children_inherit_and_cover_their_parent(shape):
    partition = make(shape)
    before = len(partition)
    kernels.assign(partition.forest, 0, 1.25)
    for _ in range(3):
        kernels.visit(partition.forest, 0)
    old = set(Twin(partition).keys())
    partition.reserve(1)
    kernels.split(partition.forest, 0)
    children = 2 ** (partition.states.dimensions + (0 if choices(partition) else partition.actions.dimensions))
    assert len(partition) == before + children - 1
    view = partition.view()
    young = view.depth == 1
    assert young.sum() == children
    assert (view.q[young] == 1.25).all()
    assert (view.visits[young] == 3).all()
    assert len(set(Twin(partition).keys()) - old) == children


@shapes
@properties
@given(data=st.data())
def test_any_history_leaves_the_textbook_s_cells(shape, data):
    twin = Twin(make(shape))
    grow(twin, data.draw)
    twin.check_cells()


def test_ready_to_split_is_the_paper_s_rule():
    partition = make("1 state, 1 action")
    cells = partition.forest.cells
    for depth in (0, 1, 2, 5, 15):
        cells["depth"][0] = depth
        for visits, ready in ((4**depth - 1, False), (4**depth, True)):
            cells["visits"][0] = visits
            assert bool(kernels.ready_to_split(partition.forest, 0)) is ready
    cells["depth"][0], cells["visits"][0] = MAX_DEPTH, MAX_VISITS
    assert not kernels.ready_to_split(partition.forest, 0)


def test_visits_stop_at_their_largest_value():
    partition = make("1 state, 1 action")
    partition.forest.cells["visits"][0] = MAX_VISITS - 1
    assert [int(kernels.visit(partition.forest, 0)) for _ in range(3)] == [MAX_VISITS] * 3


def test_a_cell_can_be_split_to_the_greatest_depth():
    """Sides of 2^-30 still tile: the smallest cells around a point are exact dyadic boxes."""
    twin = Twin(make("1 state, 1 action, 3 steps"))
    partition = twin.partition
    point, action = np.array([[1.0 / 3.0]]), np.array([[2.0 / 3.0]])
    for _ in range(MAX_DEPTH):
        twin.split(kernels.locate(partition.forest, 1, point, 0, action))
    cell = kernels.locate(partition.forest, 1, point, 0, action)
    low, low_action, high, high_action, _ = twin.key(cell)
    assert (high - low, high_action - low_action) == (2.0**-MAX_DEPTH, 2.0**-MAX_DEPTH)
    assert low <= point[0, 0] < high
    assert low_action <= action[0, 0] < high_action
    twin.check_cells()


# The greedy cell ----------------------------------------------------------------------------------------------


@shapes
@properties
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_best_equals_brute_force(shape, data, seed):
    twin = Twin(make(shape))
    points = random_points(twin.partition.states.dimensions, 8, np.random.default_rng(seed))
    for _ in range(3):
        grow(twin, data.draw, OPERATIONS // 3)
        twin.check_greedy(points)


@pytest.mark.parametrize("shape", ["1 state, 1 action", "1 state, 3 finite actions", "1 state, 1 action, 3 steps"])
@properties
@given(data=st.data(), place=st.sampled_from([0.0, 1.0 / 3.0, 0.5, 0.7, 1.0]))
def test_best_equals_brute_force_below_the_grid(shape, data, place):
    """Cells finer than the flat grid's levels, all around one state."""
    twin = Twin(make(shape))
    point, action = np.array([[place]]), np.array([[0.0]])
    near = place + np.arange(-6, 7)[:, None] * 2.0 ** -(GRID_LEVELS + 2)
    points = np.vstack([np.clip(near, 0.0, 1.0), random_points(1, 4, np.random.default_rng(0), GRID_LEVELS)])
    for _ in range(GRID_LEVELS + 3):
        twin.split(kernels.locate(twin.partition.forest, 0, point, 0, action))
        grow(twin, data.draw, 2, deepen=True)
        twin.check_greedy(points)
    assert twin.partition.forest.cells["depth"].max() > GRID_LEVELS
    for _ in range(OPERATIONS):
        cell = data.draw(st.integers(0, len(twin.partition) - 1))
        twin.assign(cell, data.draw(st.sampled_from(QS)))
    twin.check_greedy(points)


@shapes
def test_many_assignments_keep_the_index_true(shape):
    """The same cells go up, down and stay equal a thousand times."""
    twin = Twin(make(shape))
    rng = np.random.default_rng(5)
    for _ in range(8):
        twin.split(int(rng.integers(len(twin.partition))))
    points = random_points(twin.partition.states.dimensions, 6, rng, depth=3)
    for _ in range(6 if config.DISABLE_JIT else 40):
        for _ in range(10):
            twin.assign(int(rng.integers(len(twin.partition))), float(rng.choice(QS)))
        twin.check_greedy(points)


def test_ties_go_to_the_coarser_then_the_newer_then_the_lower_action():
    twin = Twin(make("1 state, 1 action, 3 steps"))
    forest, point = twin.partition.forest, np.array([[0.3]])
    twin.split(0)
    assert twin.key(kernels.best(forest, 0, point, 0))[:4] == (0.0, 0.0, 0.5, 0.5)  # of siblings the lowest action
    lower = kernels.best(forest, 0, point, 0)
    twin.split(lower)
    assert twin.key(kernels.best(forest, 0, point, 0))[:4] == (0.0, 0.5, 0.5, 1.0)  # coarser before finer
    twin.assign(kernels.best(forest, 0, point, 0), INITIAL - 1.0)
    assert twin.key(kernels.best(forest, 0, point, 0))[:4] == (0.25, 0.0, 0.5, 0.25)


def test_finite_ties_go_to_the_lowest_action():
    partition = make("1 state, 3 finite actions")
    cell = kernels.best(partition.forest, 0, np.array([[0.4]]), 0)
    assert partition.forest.boxes[cell].tolist() == [[0.0], [0.0]]


@pytest.mark.parametrize("state", [-1e-10, 1.0 + 1e-10])
def test_a_state_within_the_slack_has_a_cell(state):
    twin = Twin(make("1 state, 1 action, 3 steps"))
    for _ in range(GRID_LEVELS + 2):
        twin.split(kernels.best(twin.partition.forest, 0, np.array([[state]]), 0))
    cell = kernels.best(twin.partition.forest, 0, np.array([[state]]), 0)
    assert twin.key(cell)[0 if state < 0 else 2] == (0.0 if state < 0 else 1.0)


# Sampling -----------------------------------------------------------------------------------------------------


@kernel()
def tally(forest, points, temperature, random, counts, draws):
    for _ in range(draws):
        counts[kernels.sample(forest, 0, points, 0, temperature, random)] += 1


def sampled(partition, point, temperature, draws=2_000 if config.DISABLE_JIT else 100_000):
    counts = np.zeros(len(partition), np.int64)
    with np.errstate(over="ignore"):
        tally(partition.forest, np.array([point]), temperature, stream(1, 0), counts, draws)
    return counts / draws


@pytest.mark.parametrize("values", [(3.0, 2.5, 1.0), (-1.0, -2.0, -1.5), (0.0, -1.0, -0.5), (2.0, 2.0, 2.0)])
@pytest.mark.parametrize("temperature", [0.1, 1.0, 10.0])
def test_sample_follows_boltzmann(values, temperature):
    partition = make("1 state, 3 finite actions")
    for cell, q in enumerate(values):
        kernels.assign(partition.forest, cell, q)
    top = max(values)
    weights = np.exp((np.array(values) - top) / (temperature * (abs(top) or 1.0)))
    expected = weights / weights.sum()
    margin = 0.06 if config.DISABLE_JIT else 0.01
    np.testing.assert_allclose(sampled(partition, [0.3], temperature), expected, atol=margin)


@shapes
@properties
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_sample_gives_only_relevant_cells(shape, data, seed):
    twin = Twin(make(shape))
    grow(twin, data.draw, OPERATIONS // 2)
    partition = twin.partition
    keys = twin.keys()
    random = stream(seed, 0)
    for point in random_points(partition.states.dimensions, 2, np.random.default_rng(seed)):
        for root, plain in enumerate(twin.plain):
            relevant = {keys[twin.ball_key(ball, root)] for ball in plain.relevant(tuple(point))}
            for temperature in (0.01, 10.0):
                assert kernels.sample(partition.forest, root, point[None], 0, temperature, random) in relevant


@pytest.mark.parametrize("temperature", [1e-300, 1e-12, 1e-3])
@pytest.mark.parametrize("values", [(3.0, 2.5, 1.0), (0.0, -1.0, -1e9), (-1.0, -1e9, -2.0), (1e-9, 0.0, -1.0)])
def test_very_low_temperature_is_greedy(values, temperature):
    partition = make("1 state, 3 finite actions")
    for cell, q in enumerate(values):
        kernels.assign(partition.forest, cell, q)
    assert sampled(partition, [0.3], temperature, draws=50).tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("offset", [-1e12, 0.0, 1e12])
def test_all_equal_is_uniform_at_any_temperature(offset):
    partition = make("1 state, 3 finite actions", initial=offset)
    for temperature in (1e-300, 1.0, 1e300):
        np.testing.assert_allclose(sampled(partition, [0.9], temperature), 1.0 / 3.0, atol=0.06)


def test_the_last_cell_is_taken_when_rounding_leaves_none():
    """A uniform number at its very top picks the last cell of the walk, never one past the end."""
    partition = make("1 state, 3 finite actions")
    top = (1 << 64) - 1
    random = np.array([0, 1, 1, ((top << 41) & top) | (top >> 23)], np.uint64)
    cell = kernels.sample(partition.forest, 0, np.array([[0.5]]), 0, 1.0, random)
    assert partition.forest.boxes[cell].tolist() == [[2.0], [2.0]]


# Playing ------------------------------------------------------------------------------------------------------


@shapes
def test_play_stays_inside_and_centre_is_the_middle(shape):
    partition = make(shape)
    partition.reserve(1)
    kernels.split(partition.forest, 0)
    random, actions = stream(0, 0), np.zeros((2, partition.actions.dimensions))
    for cell in range(len(partition)):
        low, high = partition.forest.boxes[cell]
        for _ in range(5):
            kernels.play(partition.forest, cell, random, actions, 1)
            assert (low <= actions[1]).all()
            assert ((actions[1] < high) | (low == high)).all()
        kernels.play_centre(partition.forest, cell, actions, 0)
        assert actions[0].tolist() == (0.5 * (low + high)).tolist()


def test_a_finite_action_draws_no_random_number():
    partition, random = make("1 state, 3 finite actions"), stream(0, 0)
    kernels.play(partition.forest, 1, random, np.zeros((1, 1)), 0)
    np.testing.assert_array_equal(random, stream(0, 0))


# Copies, growth, views ----------------------------------------------------------------------------------------


def contents(partition):
    """Everything in use, as plain lists."""
    nodes, cells, _ = partition.forest.used
    forest = partition.forest
    return [
        forest.used.tolist(),
        forest.nodes[:nodes].tolist(),
        forest.links[:nodes].tolist(),
        forest.cells[:cells].tolist(),
        forest.boxes[:cells].tolist(),
        forest.grid.tolist(),
    ]


def grown(shape, splits=6, seed=0):
    partition, rng = make(shape), np.random.default_rng(seed)
    for _ in range(splits):
        partition.reserve(1)
        cell = int(rng.integers(len(partition)))
        kernels.assign(partition.forest, cell, float(rng.choice(QS)))
        kernels.split(partition.forest, cell)
    return partition


@shapes
def test_snapshots_are_exact_and_independent(shape):
    source, target = grown(shape), grown(shape, splits=3, seed=1)
    source.reserve(2)
    before = contents(source)
    target.match(source)
    kernels.snapshot(source.forest, target.forest)
    assert contents(target) == before
    kernels.assign(target.forest, 0, 99.0)
    kernels.split(target.forest, 0)
    assert contents(source) == before
    kernels.snapshot(source.forest, target.forest)
    assert contents(target) == before


@shapes
def test_copies_are_exact_and_independent(shape):
    source = grown(shape)
    before = contents(source)
    twin = source.copy()
    assert contents(twin) == before
    twin.reserve(1)
    kernels.split(twin.forest, 0)
    kernels.assign(twin.forest, 1, 99.0)
    assert contents(source) == before
    assert twin.states is source.states
    assert not any(np.shares_memory(a, b) for a, b in zip(source.forest, twin.forest, strict=True))


def answers(partition):
    """What a partition can be asked, whatever the places of its cells: the lists of all nodes, and greedy cells."""
    twin, cells = Twin(partition), partition.forest.cells
    lists = {}
    for number, key in sorted((number, key) for key, number in twin.keys().items()):
        node = int(cells["node"][number])
        if node not in lists:
            lists[node] = []
            cell = int(partition.forest.nodes["head"][node])
            while cell != NONE:
                lists[node].append((*twin.key(cell), *(float(cells[n][cell]) for n in ("q", "visits", "depth"))))
                cell = int(cells["next"][cell])
        assert key in {row[: len(key)] for row in lists[node]}
    points = random_points(partition.states.dimensions, 20, np.random.default_rng(0))
    greedy = [
        twin.key(cell) for h in range(partition.steps) for cell in partition.greedy(points, np.full(len(points), h))
    ]
    return sorted(lists.values()), greedy


@shapes
def test_growth_keeps_everything(shape):
    partition = grown(shape)
    before = answers(partition)
    splits = 2 * len(partition.forest.cells)
    partition.reserve(splits)
    assert answers(partition) == before
    nodes, cells = partition.growth(splits)
    assert len(partition.forest.nodes) >= partition.forest.used[0] + nodes
    assert len(partition.forest.cells) >= partition.forest.used[1] + cells
    assert len(partition.forest.members) == len(partition.forest.weights) == len(partition.forest.cells)
    roomy = partition.forest
    partition.reserve(1)
    assert partition.forest is roomy


@shapes
def test_growth_is_an_upper_bound(shape):
    partition = make(shape)
    for _ in range(5):
        nodes, cells = (int(n) for n in partition.forest.used[:2])
        more = partition.growth(1)
        partition.reserve(1)
        kernels.split(partition.forest, len(partition) - 1)
        assert partition.forest.used[0] <= nodes + more[0]
        assert partition.forest.used[1] <= cells + more[1]


@shapes
def test_view_is_read_only_and_ordered(shape):
    partition = grown(shape)
    view = partition.view()
    assert len(view) == len(partition)
    assert (np.diff(view.step) >= 0).all()
    assert sum(len(view.at(step)) for step in range(partition.steps)) == len(view)
    for field in fields(view):
        array = getattr(view, field.name)
        assert len(array) == len(view)
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
        with pytest.raises(ValueError, match="read-only"):
            getattr(view.at(0), field.name)[...] = 0


def test_view_is_a_copy_of_the_moment():
    partition = grown("1 state, 1 action")
    view, q = partition.view(), partition.view().q.copy()
    kernels.assign(partition.forest, 0, -7.0)
    np.testing.assert_array_equal(view.q, q)
    assert partition.view().q[0] == -7.0


def test_view_is_in_the_user_s_units():
    partition = make("1 state, 2 actions")
    kernels.split(partition.forest, 0)
    view = partition.view()
    assert sorted(set(view.state_low[:, 0]) | set(view.state_high[:, 0])) == [-3.0, 1.0, 5.0]
    assert sorted(set(view.action_low[:, 1]) | set(view.action_high[:, 1])) == [-12.0, 4.0, 20.0]


@shapes
def test_node_boxes_are_halves_of_their_parents(shape):
    partition = grown(shape)
    low, high = partition.node_boxes()
    nodes = partition.forest.nodes[: int(partition.forest.used[0])]
    states = partition.states.dimensions
    assert (low[: partition.steps] == 0.0).all()
    assert (high[: partition.steps] == 1.0).all()
    for node in range(len(nodes)):
        dim, level = int(nodes["dim"][node]), int(nodes["level"][node])
        assert dim == level % states
        assert nodes["cut"][node] == 0.5 * (low[node, dim] + high[node, dim])
        assert math.prod(high[node] - low[node]) == 0.5**level
        child = int(nodes["child"][node])
        if child != NONE:
            assert (low[child], high[child + 1]) == (pytest.approx(low[node], abs=0), pytest.approx(high[node], abs=0))
            assert high[child, dim] == low[child + 1, dim] == nodes["cut"][node]
            assert partition.forest.links["parent"][child : child + 2].tolist() == [node, node]


def test_nbytes_grows_with_the_cells():
    partition = make("1 state, 1 action")
    before = partition.nbytes
    partition.reserve(1000)
    assert partition.nbytes == before  # room is not content
    kernels.split(partition.forest, 0)
    assert partition.nbytes > before


def test_too_many_dimensions_are_refused():
    with pytest.raises(
        ParameterError, match=rf"^partition: 16 state and 1 action .* at most {MAX_DIMENSIONS} together$"
    ):
        Partition(Box(np.zeros(16), np.ones(16)), Box(0, 1), initial=1.0)
