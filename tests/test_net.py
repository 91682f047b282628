"""Uniform nets: their cells tile the space, both ways to look a state up agree, and impossible ones are refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core import config

from spaql.errors import ParameterError
from spaql.partition import net
from spaql.partition.kernels import find_best
from spaql.partition.net import Net, find_leaf, rank_cell, read_bins, shape_net
from spaql.partition.partition import _check_tree
from spaql.partition.spaces import Box, Discrete

UNIT = [Box([0.0] * d, [1.0] * d) for d in (1, 2, 3)]


def made(state_bins, actions, action_bins=(), steps=1, initial=1.0):
    states = UNIT[len(state_bins) - 1]
    return Net(states, actions, shape_net(states, actions, [*state_bins, *action_bins], steps), initial=initial)


SHAPES = {
    "one cell": ([1], Box(0, 1), [1], 1),
    "halves": ([8], Box(0, 1), [4], 1),
    "any number": ([3, 5], Box([0, 0], [1, 1]), [2, 7], 3),
    "finite": ([7], Discrete(3), [], 2),
    "one action": ([2, 3, 1], Discrete(1), [], 4),
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_net_keeps_the_laws_of_a_partition(name):
    state_bins, actions, action_bins, steps = SHAPES[name]
    partition = made(state_bins, actions, action_bins, steps)
    assert all(_check_tree(partition.forest, steps, actions))
    count = np.prod(state_bins) * (actions.count if isinstance(actions, Discrete) else np.prod(action_bins))
    assert len(partition) == steps * count == partition.shape.cells


@pytest.mark.parametrize("name", SHAPES)
def test_cells_are_the_bins_in_the_order_of_an_array(name):
    state_bins, actions, action_bins, steps = SHAPES[name]
    cells = made(state_bins, actions, action_bins, steps).view()
    sizes = action_bins or [actions.count]
    places = np.stack(np.unravel_index(np.arange(len(cells)), (steps, *state_bins, *sizes)), axis=1)
    np.testing.assert_array_equal(cells.step, places[:, 0])
    at, counts = places[:, 1 : 1 + len(state_bins)], np.array(state_bins)
    np.testing.assert_array_equal(cells.state_low, at / counts)
    np.testing.assert_array_equal(cells.state_high, (at + 1) / counts)
    at = places[:, 1 + len(state_bins) :]
    if isinstance(actions, Discrete):
        np.testing.assert_array_equal(cells.action_low, at)
        np.testing.assert_array_equal(cells.action_high, at)
    else:
        np.testing.assert_array_equal(cells.action_low, at / np.array(sizes))
        np.testing.assert_array_equal(cells.action_high, (at + 1) / np.array(sizes))


@settings(max_examples=8 if config.DISABLE_JIT else 60, deadline=None)
@given(bins=st.lists(st.integers(1, 60), min_size=1, max_size=3), seed=st.integers(0, 1000))
def test_computing_a_bin_is_walking_to_it(bins, seed):
    """Also on the borders, one double beside them, and a rounding error outside the cube."""
    random = np.random.default_rng(seed)
    partition = made([min(n, 60 if len(bins) < 3 else 9) for n in bins], Discrete(2), steps=2)
    borders = [random.integers(0, n + 1, 12) / n for n in partition.shape.states]
    rows = np.stack(borders, axis=1)
    rows = np.concatenate([rows, np.nextafter(rows, 0.0), np.nextafter(rows, 1.0), random.random(rows.shape)])
    rows = np.concatenate([rows, [np.full(len(bins), -1e-10), np.full(len(bins), 1.0 + 1e-10)]])
    for row in range(len(rows)):
        for root in range(2):
            leaf = find_leaf(partition.lattice, root, rows, row)
            assert leaf == partition.forest.cells["node"][find_best(partition.forest, root, rows, row)]


def test_the_best_cell_is_the_first_of_the_largest():
    partition = made([2], Discrete(5), initial=0.0)
    forest, random = partition.forest, np.random.default_rng(0)
    for _ in range(300):
        leaf, q = int(partition.lattice.leaves[random.integers(2)]), float(random.integers(4))
        head = int(forest.nodes["head"][leaf])
        rank_cell(forest, leaf, 5, head + int(random.integers(5)), q)
        values = forest.cells["q"][head : head + 5]
        assert forest.nodes["top"][leaf] == head + np.argmax(values)
        assert forest.nodes["top_q"][leaf] == values.max()


def test_q_and_visits_are_restored_and_nothing_else_is_needed():
    first, second = (made([3, 2], Discrete(3), steps=2) for _ in range(2))
    random = np.random.default_rng(1)
    arrays = {"q": random.integers(0, 3, len(first)).astype(float), "visits": np.arange(len(first), dtype=np.int32)}
    first.restore(arrays)
    second.restore(first.arrays())
    for one, other in zip(first.forest, second.forest, strict=True):
        np.testing.assert_array_equal(one, other)
    points = random.random((50, 2))
    chosen = first.greedy(points, np.ones(50, np.int64))
    heads = chosen - chosen % 3
    np.testing.assert_array_equal(chosen, heads + np.argmax(arrays["q"].reshape(-1, 3)[heads // 3], axis=1))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda arrays: arrays | {"q": arrays["q"][:-1]},
        lambda arrays: arrays | {"q": np.full_like(arrays["q"], np.nan)},
        lambda arrays: arrays | {"visits": arrays["visits"] - 1},
        lambda arrays: arrays | {"visits": arrays["visits"].astype(float)},
    ],
)
def test_other_arrays_are_refused(spoil):
    partition = made([3], Discrete(3))
    with pytest.raises(ValueError, match=r"q|Q|visits"):
        partition.restore(spoil(partition.arrays()))


def test_a_net_that_is_left_to_itself_is_as_fine_as_it_may_be():
    for dimensions, actions, steps, expected in (
        (1, Box(0, 1), 5, 16),
        (2, Box([0, 0], [1, 1]), 1, 16),
        (2, Box([0, 0], [1, 1]), 5, 8),
        (3, Discrete(100), 5, 8),
        (3, Discrete(100_000), 100, 2),
    ):
        shape = shape_net(UNIT[dimensions - 1], actions, None, steps)
        assert set(shape.states) == {expected}
        assert shape.cells <= 1 << 18 or expected == 2


@pytest.mark.parametrize(
    ("bins", "sentence"),
    [
        (0, "bins: expected a whole number of at least 1 and at most 2147483647, got 0"),
        (2.5, "bins: expected a whole number of at least 1 and at most 2147483647, got 2.5"),
        (True, "bins: expected a whole number of at least 1"),
        ("8", "bins: expected a whole number of at least 1"),
        ([4, 4], r"bins: expected one number or 3 \(2 of states and 1 of actions\), got 2: \[4, 4\]"),
        ([4, 4, -1], "bins: expected a whole number of at least 1 and at most 2147483647, got -1"),
        (100_000, "bins: a net of 10,000,000,000 states x 100,000 actions has 1,000,000,000,000,000 cells and takes "),
    ],
)
def test_bins_are_checked_in_one_sentence(bins, sentence):
    with pytest.raises(ParameterError, match=f"^{sentence}") as caught:
        shape_net(UNIT[1], Box(0, 1), bins, 1)
    assert "\n" not in str(caught.value)


def test_memory_is_that_of_the_machine(monkeypatch):
    monkeypatch.setattr(net, "_find_memory", lambda: 50_000)
    assert shape_net(UNIT[0], Discrete(2), 300, 1).cells == 600
    with pytest.raises(ParameterError, match="give fewer bins, one number per dimension, and 1 for those that matter"):
        shape_net(UNIT[0], Discrete(2), 600, 1)
    monkeypatch.undo()
    monkeypatch.delattr("os.sysconf")
    assert net._find_memory() == 8 << 30


def test_bins_are_kept_in_plain_types():
    assert read_bins(None) is None
    assert read_bins(np.int64(3)) == 3
    assert read_bins((np.int32(3), 4)) == [3, 4]
    assert read_bins(np.array([3, 4])) == [3, 4]
    assert shape_net(UNIT[0], Box(0, 1), np.array([3, 4]), 1) == shape_net(UNIT[0], Box(0, 1), [3, 4], 1)


def test_discrete_actions_have_no_bins():
    with pytest.raises(ParameterError, match=r"2 of states\), got 3: \[4, 4, 3\]; discrete actions have one cell each"):
        shape_net(UNIT[1], Discrete(3), [4, 4, 3], 1)
