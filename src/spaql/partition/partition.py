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
from spaql.validation import LARGEST_NUMBER

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
        if not all(_check_tree(forest, steps, actions)):
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
        self._clear(forest)
        for step in range(self.steps):
            for action in range(count - 1, -1, -1):
                cell = int(forest.used[1])
                forest.used[1] += 1
                forest.boxes[cell, 0] = action
                forest.boxes[cell, 1] = action if isinstance(self.actions, Discrete) else 1.0
                kernels.insert_cell(forest, cell, step, initial, 0, 0, step)
        self._fill_grid(forest)

    def _clear(self, forest: Forest) -> None:
        """Make bare root nodes."""
        forest.nodes["cut"], forest.nodes["top_q"] = 0.5, -np.inf
        for records, names in ((forest.nodes, ("child", "head", "top")), (forest.links, ("parent", "above"))):
            for name in names:
                records[name] = NONE
        forest.used[:2] = self.steps, 0

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

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what a file needs; `restore` makes the rest of it."""
        forest, count = self.forest, len(self)
        child, order = forest.nodes["child"][: int(forest.used[0])], np.empty(count, np.int32)
        inner = np.flatnonzero(child != NONE)
        kernels.list_cells(forest, order)
        return {
            "splits": inner[np.argsort(child[inner])].astype(np.int32),  # in the order in which nodes were split
            "nodes": np.array(forest.cells["node"][:count]),
            "order": order,
            "actions": forest.boxes[:count, 0],
            "q": np.array(forest.cells["q"][:count]),
            "visits": np.array(forest.cells["visits"][:count]),
        }

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Grow the partition of a file, by the kernels that learning uses; ValueError where there is none."""
        cells, splits = len(arrays["q"]), len(arrays["splits"])
        forest = self._allocate(self.steps + 2 * splits, cells)
        lows = forest.boxes[:, 0]
        kinds = dict.fromkeys(("splits", "nodes", "order", "visits"), np.int32) | {"actions": float, "q": float}
        read = {}
        for name, kind in kinds.items():
            shape = (splits,) if name == "splits" else lows.shape if name == "actions" else (cells,)
            read[name] = np.empty(shape, kind)
            fill_array(read[name], arrays[name], name)
        check_numbers(read["q"], "q")
        if (read["visits"] < 0).any() or not np.array_equal(np.sort(read["order"]), np.arange(cells)):
            raise ValueError("invalid visits, or cells in no order")
        self._clear(forest)
        columns = (read[name] for name in ("splits", "order", "nodes", "q", "visits"))
        if not kernels.restore_forest(forest, *columns, np.empty(len(forest.nodes), np.int32)):
            raise ValueError("splits or cells that make no partition")
        lows[:] = read["actions"]
        self._fill_sides(forest)
        self._fill_grid(forest)
        self.forest = forest

    def _fill_sides(self, forest: Forest) -> None:
        """Fill the high ends of action boxes, which follow from the low ones; ValueError where these are invalid."""
        lows = forest.boxes[:, 0]
        if isinstance(self.actions, Discrete):
            places, count = lows, np.array([[float(self.actions.count)]])
        else:
            count = 2.0 ** forest.cells["depth"][:, None]
            places = lows * count
        if not ((places >= 0.0) & (places < count) & (places == np.floor(places))).all():
            raise ValueError("actions outside their space, or not those of their cells")
        forest.boxes[:, 1] = lows if isinstance(self.actions, Discrete) else lows + 1.0 / count

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


def check_numbers(array: NDArray[Any], what: str) -> None:
    """Raise a ValueError where numbers of a file are not finite, or so large that sums of them could overflow."""
    if not (np.abs(array) <= LARGEST_NUMBER).all():
        raise ValueError(f"{what}: numbers that are not finite, or beyond {LARGEST_NUMBER:g}")


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


def _check_tree(forest: Forest, roots: int, actions: Actions) -> Iterator[bool | np.bool_]:
    """Yield whether each law of `from_tree` holds; later ones can be checked only where the earlier ones hold."""
    number, nodes, parent = np.arange(len(forest.nodes)), forest.nodes, forest.links["parent"]
    inner = np.flatnonzero(nodes["child"] != NONE)
    child = nodes["child"][inner].astype(np.int64)
    yield np.array_equal(np.sort(np.concatenate([child, child + 1])), number[roots:]) and (child > inner).all()
    yield (parent[:roots] == NONE).all() and np.isfinite(nodes["cut"]).all()
    low, high = (corner[number, nodes["dim"]] for corner in _node_boxes(forest))
    yield ((low < nodes["cut"]) & (nodes["cut"] < high))[inner].all()
    yield np.isfinite(forest.cells["q"]).all() and (forest.cells["visits"] >= 0).all()
    played = forest.boxes[:, 0]
    most = actions.count - 1 if isinstance(actions, Discrete) else 1.0
    yield ((played >= 0.0) & (played <= most)).all()
    yield not isinstance(actions, Discrete) or np.array_equal(played, np.floor(played))
