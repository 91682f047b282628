"""Cells: they tile the space, split, are found, sampled and played as in the textbook."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba.core import config

from partitions_for_tests import (
    INITIAL,
    OPERATIONS,
    QS,
    Twin,
    choices,
    grow,
    inside,
    make,
    properties,
    random_points,
    shapes,
)
from spaql.partition import kernels
from spaql.partition.jit import kernel
from spaql.partition.kernels import GRID_LEVELS, MAX_DEPTH, MAX_VISITS, NONE
from spaql.partition.rng import stream
from spaql.partition.spaces import Discrete


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
            found = kernels.find_cell(partition.forest, step, points, row, pairs)
            one = int(np.flatnonzero(held)[0])
            assert keys[twin.key(found)] == found
            corner = partition.states.to_unit(cells.state_low[one])
            np.testing.assert_allclose(twin.key(found)[: points.shape[1]], corner, atol=1e-12)
            assert partition.forest.cells["q"][found] == cells.q[one]
            assert partition.forest.cells["depth"][found] == cells.depth[one]


def test_locate_says_none_outside_the_actions():
    partition = make("1 state, 3 finite actions")
    assert kernels.find_cell(partition.forest, 0, np.array([[0.5]]), 0, np.array([[3.0]])) == NONE
    assert kernels.find_cell(partition.forest, 0, np.array([[0.5]]), 0, np.array([[0.5]])) == NONE


@shapes
def test_children_inherit_and_cover_their_parent(shape):
    partition = make(shape)
    before = len(partition)
    kernels.set_q(partition.forest, 0, 1.25)
    for _ in range(3):
        kernels.count_visit(partition.forest, 0)
    old = set(Twin(partition).keys())
    partition.reserve(1)
    kernels.split_cell(partition.forest, 0)
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
            assert bool(kernels.is_ready_to_split(partition.forest, 0)) is ready
    cells["depth"][0], cells["visits"][0] = MAX_DEPTH, MAX_VISITS
    assert not kernels.is_ready_to_split(partition.forest, 0)


def test_visits_stop_at_their_largest_value():
    partition = make("1 state, 1 action")
    partition.forest.cells["visits"][0] = MAX_VISITS - 1
    assert [int(kernels.count_visit(partition.forest, 0)) for _ in range(3)] == [MAX_VISITS] * 3


def test_a_cell_can_be_split_to_the_greatest_depth():
    """Sides of 2^-30 still tile: the smallest cells around a point are exact dyadic boxes."""
    twin = Twin(make("1 state, 1 action, 3 steps"))
    partition = twin.partition
    point, action = np.array([[1.0 / 3.0]]), np.array([[2.0 / 3.0]])
    for _ in range(MAX_DEPTH):
        twin.split(kernels.find_cell(partition.forest, 1, point, 0, action))
    cell = kernels.find_cell(partition.forest, 1, point, 0, action)
    low, low_action, high, high_action, _ = twin.key(cell)
    assert (high - low, high_action - low_action) == (2.0**-MAX_DEPTH, 2.0**-MAX_DEPTH)
    assert low <= point[0, 0] < high
    assert low_action <= action[0, 0] < high_action
    twin.check_cells()


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
        twin.split(kernels.find_cell(twin.partition.forest, 0, point, 0, action))
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
    assert twin.key(kernels.find_best(forest, 0, point, 0))[:4] == (0.0, 0.0, 0.5, 0.5)  # of siblings the lowest action
    lower = kernels.find_best(forest, 0, point, 0)
    twin.split(lower)
    assert twin.key(kernels.find_best(forest, 0, point, 0))[:4] == (0.0, 0.5, 0.5, 1.0)  # coarser before finer
    twin.assign(kernels.find_best(forest, 0, point, 0), INITIAL - 1.0)
    assert twin.key(kernels.find_best(forest, 0, point, 0))[:4] == (0.25, 0.0, 0.5, 0.25)


def test_finite_ties_go_to_the_lowest_action():
    partition = make("1 state, 3 finite actions")
    cell = kernels.find_best(partition.forest, 0, np.array([[0.4]]), 0)
    assert partition.forest.boxes[cell].tolist() == [[0.0], [0.0]]


@pytest.mark.parametrize("state", [-1e-10, 1.0 + 1e-10])
def test_a_state_within_the_slack_has_a_cell(state):
    twin = Twin(make("1 state, 1 action, 3 steps"))
    for _ in range(GRID_LEVELS + 2):
        twin.split(kernels.find_best(twin.partition.forest, 0, np.array([[state]]), 0))
    cell = kernels.find_best(twin.partition.forest, 0, np.array([[state]]), 0)
    assert twin.key(cell)[0 if state < 0 else 2] == (0.0 if state < 0 else 1.0)


@kernel()
def tally(forest, points, temperature, random, counts, draws):
    for _ in range(draws):
        counts[kernels.sample_cell(forest, 0, points, 0, temperature, random)] += 1


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
        kernels.set_q(partition.forest, cell, q)
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
                assert kernels.sample_cell(partition.forest, root, point[None], 0, temperature, random) in relevant


@pytest.mark.parametrize("temperature", [1e-300, 1e-12, 1e-3])
@pytest.mark.parametrize("values", [(3.0, 2.5, 1.0), (0.0, -1.0, -1e9), (-1.0, -1e9, -2.0), (1e-9, 0.0, -1.0)])
def test_very_low_temperature_is_greedy(values, temperature):
    partition = make("1 state, 3 finite actions")
    for cell, q in enumerate(values):
        kernels.set_q(partition.forest, cell, q)
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
    cell = kernels.sample_cell(partition.forest, 0, np.array([[0.5]]), 0, 1.0, random)
    assert partition.forest.boxes[cell].tolist() == [[2.0], [2.0]]


@shapes
def test_play_stays_inside_and_centre_is_the_middle(shape):
    partition = make(shape)
    partition.reserve(1)
    kernels.split_cell(partition.forest, 0)
    random, actions = stream(0, 0), np.zeros((2, partition.actions.dimensions))
    for cell in range(len(partition)):
        low, high = partition.forest.boxes[cell]
        for _ in range(5):
            kernels.draw_action(partition.forest, cell, random, actions, 1)
            assert (low <= actions[1]).all()
            assert ((actions[1] < high) | (low == high)).all()
        kernels.take_centre(partition.forest, cell, actions, 0)
        assert actions[0].tolist() == (0.5 * (low + high)).tolist()


def test_a_finite_action_draws_no_random_number():
    partition, random = make("1 state, 3 finite actions"), stream(0, 0)
    kernels.draw_action(partition.forest, 1, random, np.zeros((1, 1)), 0)
    np.testing.assert_array_equal(random, stream(0, 0))
