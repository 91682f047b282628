"""Arrays of a partition: copies, growth, views and checks."""

import math
from dataclasses import fields

import numpy as np
import pytest

from partitions_for_tests import QS, Twin, make, random_points, shapes
from spaql.errors import ParameterError
from spaql.partition import kernels
from spaql.partition.kernels import NONE
from spaql.partition.partition import MAX_DIMENSIONS, Partition
from spaql.partition.spaces import Box


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
        kernels.set_q(partition.forest, cell, float(rng.choice(QS)))
        kernels.split_cell(partition.forest, cell)
    return partition


@shapes
def test_snapshots_are_exact_and_independent(shape):
    source, target = grown(shape), grown(shape, splits=3, seed=1)
    source.reserve(2)
    before = contents(source)
    target.ensure_room(len(source.forest.nodes), len(source.forest.cells))
    kernels.copy_forest(source.forest, target.forest)
    assert contents(target) == before
    kernels.set_q(target.forest, 0, 99.0)
    kernels.split_cell(target.forest, 0)
    assert contents(source) == before
    kernels.copy_forest(source.forest, target.forest)
    assert contents(target) == before


@shapes
def test_copies_are_exact_and_independent(shape):
    source = grown(shape)
    before = contents(source)
    twin = source.copy()
    assert contents(twin) == before
    twin.reserve(1)
    kernels.split_cell(twin.forest, 0)
    kernels.set_q(twin.forest, 1, 99.0)
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
    nodes, cells = partition.max_growth(splits)
    assert len(partition.forest.nodes) >= partition.forest.used[0] + nodes
    assert len(partition.forest.cells) >= partition.forest.used[1] + cells
    assert len(partition.forest.members) == len(partition.forest.weights) == len(partition.forest.cells)
    roomy = partition.forest
    partition.reserve(1)
    assert partition.forest is roomy


@shapes
def test_sorting_keeps_everything_and_forgets_the_way(shape):
    partition, detour = grown(shape), grown(shape)
    detour.reserve(3 * len(detour.forest.cells))
    before = answers(partition)
    for each in (partition, detour):
        each.sort()
    assert answers(partition) == before
    assert contents(partition) == contents(detour)


@shapes
def test_growth_is_an_upper_bound(shape):
    partition = make(shape)
    for _ in range(5):
        nodes, cells = (int(n) for n in partition.forest.used[:2])
        more = partition.max_growth(1)
        partition.reserve(1)
        kernels.split_cell(partition.forest, len(partition) - 1)
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
    kernels.set_q(partition.forest, 0, -7.0)
    np.testing.assert_array_equal(view.q, q)
    assert (partition.view().q == -7.0).sum() == 1


def test_view_is_in_the_user_s_units():
    partition = make("1 state, 2 actions")
    kernels.split_cell(partition.forest, 0)
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
    kernels.split_cell(partition.forest, 0)
    assert partition.nbytes > before


def test_too_many_dimensions_are_refused():
    with pytest.raises(
        ParameterError, match=rf"^partition: 16 state and 1 action .* at most {MAX_DIMENSIONS} together$"
    ):
        Partition(Box(np.zeros(16), np.ones(16)), Box(0, 1), initial=1.0)
