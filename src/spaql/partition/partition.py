"""A partition of the state-action space: the arrays that kernels work on, their growth, and their check.

A `Partition` holds `steps` independent partitions of the same space in one forest (AQL keeps one per time step, SPAQL
a single one).  `view()` gives the cells in the user's own units, read-only.
"""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spaql.errors import ParameterError
from spaql.partition import kernels
from spaql.partition.jit import make_records
from spaql.partition.kernels import CELL, GRID, GRID_LEVELS, LINK, MAX_DEPTH, MAX_VISITS, NODE, NONE, Forest
from spaql.partition.spaces import Actions, Box, Discrete, Floats

MAX_DIMENSIONS = 16


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells of a partition in the user's units; all arrays are read-only.

    Examples
    --------
    >>> import spaql
    >>> agent = spaql.SPAQL("oil", seed=0).learn(iterations=50)
    >>> cells = agent.cells()
    >>> cells.state_low.shape == (len(cells), 1), cells.visits.sum() > 0
    (True, np.True_)
    """

    state_low: Floats  #: low end of the state box, `[n, states]`
    state_high: Floats  #: its high end, which belongs to the box only at the top of the space
    action_low: Floats  #: low end of the action box, `[n, actions]`; the action's number where actions are discrete
    action_high: Floats  #: its high end; the action's number again
    q: Floats  #: value estimate, `[n]`
    visits: NDArray[np.int32]  #: how often each was played, `[n]`
    depth: NDArray[np.int16]  #: number of splits above
    step: NDArray[np.int16]  #: time step of the partition

    def __post_init__(self) -> None:
        for field in fields(self):
            getattr(self, field.name).flags.writeable = False

    def __len__(self) -> int:
        return int(self.q.size)

    def __repr__(self) -> str:
        if not len(self):
            return "Cells(none)"
        depths, values = (self.depth.min(), self.depth.max()), (self.q.min(), self.q.max())
        return f"Cells({len(self)}, depth {depths[0]} to {depths[1]}, Q {values[0]:.4g} to {values[1]:.4g})"

    def at(self, step: int) -> Self:
        """Return the cells of one time step's partition.

        Parameters
        ----------
        step
            Time step, from 0.

        Returns
        -------
        Cells
            Those with this `step`.
        """
        chosen = self.step == step
        return replace(self, **{field.name: getattr(self, field.name)[chosen] for field in fields(self)})


class Partition:
    """One forest of `steps` partitions, grown as needed; `initial` is the Q of every cell at the start."""

    def __init__(self, states: Box, actions: Actions, *, initial: float, steps: int = 1) -> None:
        if states.dimensions + actions.dimensions > MAX_DIMENSIONS:
            raise ParameterError(
                f"partition: {states.dimensions} state and {actions.dimensions} action dimensions mean "
                f"2^{states.dimensions + actions.dimensions} children per split; at most {MAX_DIMENSIONS} together"
            )
        self._set_spaces(states, actions, steps)
        count = actions.count if isinstance(actions, Discrete) else 1
        self.forest = self._allocate(steps, steps * count)
        self._make_roots(float(initial), count)

    def _set_spaces(self, states: Box, actions: Actions, steps: int) -> None:
        self.states = states
        self.actions = actions
        self.steps = steps
        self._children = 2 ** (states.dimensions + (actions.dimensions if isinstance(actions, Box) else 0))
        self._halves = True  # whether cuts halve boxes, as splits do; those of `from_tree` are anywhere
        self._levels = MAX_DEPTH * states.dimensions  # of the deepest node that there may be

    @classmethod
    def from_tree(
        cls,
        states: Box,
        actions: Actions,
        *,
        dims: ArrayLike,
        cuts: ArrayLike,
        children: ArrayLike,
        played: ArrayLike,
        q: ArrayLike,
        visits: ArrayLike,
        steps: int = 1,
    ) -> Self:
        """Make a partition of a decision tree with one action per leaf; it cannot be split further.

        Every leaf becomes a cell whose action box has no width.  Children stand behind their parents, and the first
        `steps` nodes are the roots.

        Parameters
        ----------
        states, actions
            Spaces of the problem.
        dims, cuts
            State dimension that each inner node compares, and its threshold in the unit cube, `[nodes]`: a state goes
            to the upper child where `x[dim] >= cut`.  A cut lies inside its node's box, not on its border.
        children
            Lower child of each node, `[nodes]`; the upper one follows it; -1 at a leaf.
        played
            Action of each leaf in the unit cube, or its number where actions are discrete, `[nodes, actions]`.
        q, visits
            Value estimate and visits of each leaf, `[nodes]`.
        steps
            Number of time steps, each with a tree of its own.

        Raises
        ------
        ValueError
            Where the arrays are not such trees.
        """
        below = np.asarray(children, np.int64)
        count, leaves, inner = len(below), np.flatnonzero(below == NONE), np.flatnonzero(below != NONE)
        if any(np.shape(array) != (count,) for array in (dims, cuts, q, visits)):
            raise ValueError("arrays of different lengths")
        if np.shape(played) != (count, actions.dimensions):
            raise ValueError(f"played: expected shape {(count, actions.dimensions)}, got {np.shape(played)}")
        compared = np.asarray(dims)[inner]
        if not (((below > np.arange(count)) & (below < count - 1))[inner].all() and 0 < steps <= count):
            raise ValueError("corrupt node links")
        if not ((compared >= 0) & (compared < states.dimensions)).all():
            raise ValueError("dimensions that states do not have")
        parent, level, root = np.full(count, NONE), np.zeros(count, np.int64), np.arange(count)
        for node in inner:
            pair = slice(below[node], below[node] + 2)
            parent[pair], level[pair], root[pair] = node, level[node] + 1, root[node]
        partition = cls.__new__(cls)
        partition._set_spaces(states, actions, steps)
        partition._halves, partition._levels = False, int(level.max())
        partition.forest = forest = partition._allocate(count, len(leaves))
        forest.used[:2] = count, len(leaves)
        nodes, links, cells = forest.nodes, forest.links, forest.cells
        links["parent"], links["above"], nodes["child"], nodes["level"] = parent, NONE, below, level
        nodes["cut"], nodes["top_q"], nodes["head"], nodes["top"] = 0.5, -np.inf, NONE, NONE
        nodes["dim"][inner], nodes["cut"][inner] = compared, np.asarray(cuts)[inner]
        nodes["head"][leaves] = nodes["top"][leaves] = np.arange(len(leaves))
        nodes["top_q"][leaves], nodes["alone"][leaves] = np.asarray(q)[leaves], 1
        cells["q"], cells["visits"] = nodes["top_q"][leaves], np.minimum(np.asarray(visits)[leaves], MAX_VISITS)
        cells["next"], cells["node"], cells["depth"], cells["root"] = NONE, leaves, level[leaves], root[leaves]
        forest.boxes[:] = np.asarray(played)[leaves, None]
        partition._fill_grid(forest)
        if not all(_check_laws(forest, steps, actions, ranked=False, halves=False)):
            raise ValueError("corrupt tree: its links, cuts, actions, Q or visits")
        return partition

    def _allocate(self, nodes: int, cells: int) -> Forest:
        return Forest(
            used=np.array([0, 0, self.states.dimensions]),
            nodes=make_records(nodes, NODE),
            links=make_records(nodes, LINK),
            cells=make_records(cells, CELL),
            boxes=np.zeros((cells, 2, self.actions.dimensions)),
            grid=np.full((self.steps, GRID), NONE, np.int32),
            stack=np.zeros(GRID_LEVELS + 2, np.int32),
            path=np.zeros(self._levels + self.states.dimensions + 2, np.int32),
            members=np.zeros(cells, np.int32),
            weights=np.zeros(cells),
        )

    def _make_roots(self, initial: float, count: int) -> None:
        """Make the root nodes, and on each one cell that covers everything, or one per discrete action."""
        forest = self.forest
        forest.nodes["cut"], forest.nodes["top_q"] = 0.5, -np.inf
        for records, names in ((forest.nodes, ("child", "head", "top")), (forest.links, ("parent", "above"))):
            for name in names:
                records[name] = NONE
        forest.used[0] = self.steps
        for step in range(self.steps):
            for action in range(count - 1, -1, -1):
                cell = int(forest.used[1])
                forest.used[1] += 1
                forest.boxes[cell, 0] = action
                forest.boxes[cell, 1] = action if isinstance(self.actions, Discrete) else 1.0
                kernels.insert_cell(forest, cell, step, initial, 0, 0, step)
        self._fill_grid(forest)

    def _fill_grid(self, forest: Forest) -> None:
        """Fill the grid of one-dimensional states; it knows halves only, and else look-ups start at the root."""
        for step in range(self.steps):
            if self._halves:
                kernels.update_grid(forest, step, step, np.inf)
            else:
                forest.grid[step] = -1 - step

    def __len__(self) -> int:
        """Number of cells (the paper's arms), over all time steps."""
        return int(self.forest.used[1])

    def copy(self) -> Self:
        """Return an independent copy."""
        twin = copy.copy(self)
        twin.forest = Forest._make(array.copy() for array in self.forest)
        return twin

    @property
    def nbytes(self) -> int:
        """Bytes of the partition itself: nodes, cells and action boxes in use (not scratch or spare room)."""
        nodes, cells, _ = (int(n) for n in self.forest.used)
        return nodes * (NODE.itemsize + LINK.itemsize) + cells * (CELL.itemsize + int(self.forest.boxes[0].nbytes))

    @property
    def allocated(self) -> int:
        """Bytes of all its arrays, with scratch and spare room."""
        return sum(int(array.nbytes) for array in self.forest)

    def max_growth(self, splits: int) -> tuple[int, int]:
        """Return the nodes and cells that `splits` splits can add at most."""
        return 2 * splits * 2**self.states.dimensions, splits * self._children

    def reserve(self, splits: int) -> None:
        """Make room for `splits` more splits; the arrays grow by a quarter at least, and are sorted as they do."""
        more_nodes, more_cells = self.max_growth(splits)
        nodes, cells = int(self.forest.used[0]) + more_nodes, len(self) + more_cells
        old = len(self.forest.nodes), len(self.forest.cells)
        if nodes > old[0] or cells > old[1]:
            self._sort(max(64, nodes, 5 * old[0] // 4), max(64, cells, 5 * old[1] // 4))

    def sort(self) -> None:
        """Rewrite the arrays in the order of a walk, without spare room: equal partitions then have equal arrays."""
        self._sort(int(self.forest.used[0]), len(self))

    def _sort(self, nodes: int, cells: int) -> None:
        """Move to arrays of this room, in which neighbours in the tree are neighbours in memory."""
        old, new, (node_count, cell_count) = self.forest, self._allocate(nodes, cells), self.forest.used[:2]
        node_order, cell_order = np.empty(node_count, np.int64), np.empty(cell_count, np.int64)
        kernels.walk(old, node_order, cell_order)
        node_place, cell_place = np.full(node_count + 1, NONE), np.full(cell_count + 1, NONE)  # the last one is NONE's
        node_place[node_order], cell_place[cell_order] = np.arange(node_count), np.arange(cell_count)
        new.used[:] = old.used
        new.boxes[:cell_count] = old.boxes[cell_order]
        for records, given, order, references in (
            (new.nodes, old.nodes, node_order, {"child": node_place, "head": cell_place, "top": cell_place}),
            (new.links, old.links, node_order, {"parent": node_place, "above": cell_place}),
            (new.cells, old.cells, cell_order, {"next": cell_place, "node": node_place}),
        ):
            records[: len(order)] = given[order]
            for name, places in references.items():
                records[name][: len(order)] = places[given[name][order]]
        self._fill_grid(new)
        self.forest = new  # only now: an interrupt before must leave the old forest whole

    def ensure_room(self, nodes: int, cells: int) -> None:
        """Make room for `nodes` and `cells` in all, and leave those in use where they are in the arrays."""
        if nodes > len(self.forest.nodes) or cells > len(self.forest.cells):
            new = self._allocate(max(nodes, len(self.forest.nodes)), max(cells, len(self.forest.cells)))
            kernels.copy_forest(self.forest, new)
            self.forest = new

    def _lengths(self, nodes: int, cells: int) -> dict[str, int]:
        """Return the lengths of the arrays that go into a file."""
        return {"used": 3, "nodes": nodes, "links": nodes, "cells": cells, "boxes": cells, "grid": self.steps}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays in use, for a file."""
        lengths = self._lengths(int(self.forest.used[0]), len(self))
        return {name: getattr(self.forest, name)[:length] for name, length in lengths.items()}

    def restore(self, arrays: Mapping[str, NDArray[Any]], ranked: bool = True) -> None:
        """Take over arrays of a partition of the same spaces; ValueError where they do not fit.

        `ranked` says whether its index must be up to date.
        """
        nodes, cells, states = read_used(arrays["used"])
        if states != self.states.dimensions or nodes < self.steps or cells < 1:
            raise ValueError("partition of other spaces")
        lengths = self._lengths(nodes, cells)
        for name, length in lengths.items():
            if len(arrays[name]) != length:
                raise ValueError(f"{name} of another length")  # before room is made for them
        new = self._allocate(nodes, cells)
        for name in lengths:
            fill_array(getattr(new, name), arrays[name], name)
        if not all(_check_laws(new, self.steps, self.actions, ranked)):
            raise ValueError("corrupt node links")
        self.forest = new

    def node_boxes(self) -> tuple[Floats, Floats]:
        """Return the state boxes of all nodes in the unit cube, two arrays `[nodes, states]`."""
        return _node_boxes(self.forest)

    def view(self) -> Cells:
        """Return all cells in the user's units, ordered by time step, state and action."""
        cells, boxes = self.forest.cells[: len(self)], self.forest.boxes[: len(self)]
        low, high = (corner[cells["node"]] for corner in self.node_boxes())
        order = np.lexsort(np.column_stack([cells["root"], low, boxes[:, 0]]).T[::-1])
        corners: list[NDArray[Any]] = [self.states.from_unit(corner[order]) for corner in (low, high)]
        corners += [self.actions.from_unit(boxes[order, side]) for side in (0, 1)]
        return Cells(*corners, *(np.array(cells[name][order]) for name in ("q", "visits", "depth", "root")))

    def greedy(self, points: Floats, steps: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the greedy cell of each row of `points` [n, states] (unit cube) at its time step `steps` [n]."""
        cells = np.empty(len(points), np.int64)
        kernels.find_best_cells(self.forest, steps, points, cells)
        return cells


def fill_array(place: NDArray[Any], given: NDArray[Any], what: str) -> None:
    """Copy an array of a file into its place; ValueError where shape or type differ."""
    if given.shape != place.shape or given.dtype != place.dtype:
        raise ValueError(f"{what} has the wrong shape or type")
    place[...] = given


def read_used(given: NDArray[Any]) -> list[int]:
    """Return `Forest.used` of a file as integers; ValueError where shape or type differ."""
    used = np.zeros(3, np.int64)
    fill_array(used, given, "used")
    return [int(number) for number in used]


def group_by_level(level: NDArray[np.int16]) -> list[NDArray[np.int64]]:
    """Return the numbers of the nodes of each level, from the roots down."""
    order = np.argsort(level, kind="stable")
    return np.split(order, np.cumsum(np.bincount(level))[:-1])


def _node_boxes(forest: Forest) -> tuple[Floats, Floats]:
    count, states = int(forest.used[0]), int(forest.used[2])
    nodes, parents = forest.nodes[:count], forest.links["parent"][:count]
    low, high = np.zeros((count, states)), np.ones((count, states))
    for here in group_by_level(nodes["level"])[1:]:
        parent = parents[here]
        low[here], high[here] = low[parent], high[parent]
        dim, cut = nodes["dim"][parent], nodes["cut"][parent]
        upper = here == nodes["child"][parent] + 1
        low[here[upper], dim[upper]] = cut[upper]
        high[here[~upper], dim[~upper]] = cut[~upper]
    return low, high


def _check_laws(
    forest: Forest, roots: int, actions: Actions, ranked: bool, halves: bool = True
) -> Iterator[bool | np.bool_]:
    """Yield whether each law of a forest holds, without which kernels follow an index out of its array, or for ever.

    Later laws can be checked only where the earlier ones hold.  Without `halves` cuts may be anywhere in a box.
    """
    cells, number, dim = len(forest.cells), np.arange(len(forest.nodes)), forest.nodes["dim"]
    # Children come after their parents, each below one, a level deeper, and cut its box, in halves where they must.
    wide = (forest.nodes["child"], forest.links["parent"], forest.nodes["level"])
    child, parent, level = (numbers.astype(np.int64) for numbers in wide)  # or the largest + 1 overflows
    inner = np.flatnonzero(child != NONE)
    below = np.stack([child[inner], child[inner] + 1])
    yield np.array_equal(np.sort(below, axis=None), number[roots:]) and (child[inner] > inner).all()
    yield (parent[:roots] == NONE).all() and (parent[below] == inner).all()
    yield not level[:roots].any() and (level[below] == level[inner] + 1).all()
    yield (not halves or level.max() <= MAX_DEPTH * forest.used[2]) and ((dim >= 0) & (dim < forest.used[2])).all()
    yield np.isfinite(forest.nodes["cut"]).all()
    low, high = (corner[number, dim] for corner in _node_boxes(forest))
    cut = forest.nodes["cut"]
    yield np.array_equal(cut, 0.5 * (low + high)) if halves else ((low < cut) & (cut < high))[inner].all()
    # Every cell is once in the list of its own node, lists end, and each node's best cell is among them.
    head, top = forest.nodes["head"], forest.nodes["top"]
    node, following = forest.cells["node"], forest.cells["next"]
    for places in (head, top, forest.links["above"], following):
        yield ((places >= NONE) & (places < cells)).all()
    yield ((node >= 0) & (node < len(number))).all() and np.isfinite(forest.cells["q"]).all()
    depth = forest.cells["depth"].astype(np.int64)
    yield (forest.cells["visits"] >= 0).all()
    if halves:
        yield (depth <= MAX_DEPTH * MAX_DIMENSIONS).all() and (level[node] <= depth * forest.used[2]).all()
    hung, linked = head != NONE, following != NONE
    heads = np.flatnonzero(hung)
    yield np.array_equal(np.sort(np.concatenate([head[hung], following[linked]])), np.arange(cells))
    yield np.array_equal(node[head[hung]], heads) and np.array_equal(node[following[linked]], node[linked])
    yield np.array_equal(top != NONE, hung) and np.array_equal(node[top[hung]], heads)
    yield np.array_equal(forest.nodes["alone"] != 0, hung & ~linked[head])
    last, root = np.append(following, NONE), np.where(parent == NONE, number, parent)
    for _ in range(max(cells, len(number)).bit_length()):  # pointer doubling: a cycle never reaches the end
        last, root = last[last], root[root]
    yield (last == NONE).all() and np.array_equal(forest.cells["root"], root[node])
    if ranked:  # the index of best cells is the one that the cells imply
        fresh = Forest._make(array.copy() for array in forest)
        kernels.rebuild_index(fresh)
        yield all(np.array_equal(fresh.nodes[name], forest.nodes[name]) for name in ("top", "top_q"))
        yield np.array_equal(fresh.links["above"], forest.links["above"]) and np.array_equal(fresh.grid, forest.grid)
    yield ((forest.grid >= -len(number)) & (forest.grid < cells)).all()
    low, high = forest.boxes[:, 0], forest.boxes[:, 1]
    most = actions.count - 1 if isinstance(actions, Discrete) else 1.0
    yield ((low >= 0.0) & (low <= high) & (high <= most)).all()
    if isinstance(actions, Discrete):
        yield np.array_equal(low, high) and np.array_equal(low, np.floor(low))
