"""A uniform net over states and actions: a partition that is fine from the start and never splits.

Each dimension of the unit cube is cut into a number of equal intervals, its *bins*; a cell is one bin in every
dimension.  With n bins its side is 1/n wide, so that in the maximum norm every point is within 1/(2n) of a centre: the
centres are an epsilon-net with epsilon = 1/(2n).  A discrete action is one cell.

The net is a `Partition` all of whose cells hang on the leaves of the state tree, so that everything that reads a policy
reads this one.  Bins need not be a power of two: a node with k bins in its widest dimension passes the lower floor(k/2)
to its lower child, and cuts lie at i/n.  Evaluations walk from the root, as in any partition (from the root always:
the flat table of one-dimensional partitions knows halves only); learning computes the bin, which is faster.

Cells are numbered like the entries of a C-ordered array `[steps, *state bins, *action bins]`: those of one state are
neighbours, and `forest.cells["q"]` is the Q table.  Ties go to the first action.
"""

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spaql.errors import ParameterError
from spaql.partition.jit import kernel
from spaql.partition.kernels import CELL, LINK, NODE, NONE
from spaql.partition.partition import Partition, check_numbers, fill_array
from spaql.partition.spaces import Actions, Box, Discrete, Floats
from spaql.validation import check_whole, show

Bins = int | Sequence[int] | None
_USUAL_BINS, _USUAL_CELLS = 16, 1 << 18  # at most, where bins are left to the net
_LARGEST = np.iinfo(np.int32).max  # the kernels' links are of 32 bits
_UNKNOWN_MEMORY = 8 << 30


class Lattice(NamedTuple):
    """What kernels need to compute the leaf of a state."""

    bins: Floats  # [states]
    leaves: NDArray[np.intp]  # [steps * leaves] node of each leaf, in the order of the cells


@kernel(inline=True)
def find_leaf(lattice, root, points, row):
    """Return the leaf that holds x; the same as walking from the root.

    x n can be rounded up to the next bin, or down, while the tree compares x with the double i/n.
    """
    place = root
    for d in range(lattice.bins.shape[0]):
        n = lattice.bins[d]
        x = points[row, d]
        i = min(int(x * n), int(n) - 1)
        if i > 0 and x < i / n:
            i -= 1
        elif i + 1 < n and x >= (i + 1) / n:
            i += 1
        place = place * int(n) + i
    return lattice.leaves[place]


@kernel(inline=True)
def rank_cell(f, leaf, choices, cell, q):
    """Give a cell of a leaf its new Q, and the leaf its best cell, the first of equals."""
    f.cells[cell].q = q
    before = f.nodes[leaf].top_q
    if q > before:
        f.nodes[leaf].top = cell
        f.nodes[leaf].top_q = q
    elif q == before or cell == f.nodes[leaf].top:
        top = f.nodes[leaf].head
        best = f.cells[top].q
        for other in range(top + 1, top + choices):
            value = f.cells[other].q
            top = other if value > best else top
            best = max(best, value)
        f.nodes[leaf].top = top
        f.nodes[leaf].top_q = best


class Shape(NamedTuple):
    """Size of a net."""

    states: tuple[int, ...]  # bins of each state dimension
    actions: tuple[int, ...]  # bins of each action dimension, or the number of discrete actions
    steps: int

    @property
    def leaves(self) -> int:
        """State boxes of a time step."""
        return math.prod(self.states)

    @property
    def choices(self) -> int:
        """Cells of a state."""
        return math.prod(self.actions)

    @property
    def cells(self) -> int:
        """Cells of all time steps."""
        return self.steps * self.leaves * self.choices


def read_bins(bins: Any) -> Bins:
    """Return bins that `shape_net` accepted in plain types."""
    if isinstance(bins, np.ndarray):
        bins = bins.tolist()
    return bins if bins is None else [int(each) for each in bins] if isinstance(bins, Sequence) else int(bins)


def shape_net(states: Box, actions: Actions, bins: Any, steps: int, name: str = "bins") -> Shape:
    """Return the shape of a net; a `ParameterError` where bins are invalid or the net is too large.

    Parameters
    ----------
    states, actions
        Spaces of the problem.
    bins
        One number for every dimension, or one for each: first those of states, then those of actions in a box.  None
        takes the largest power of two up to 16 with which the net has at most 262,144 cells, and at least 2.
    steps
        Number of time steps, each with a net of its own.
    name
        Parameter to blame in errors.
    """
    finite, boxed = isinstance(actions, Discrete), actions.dimensions if isinstance(actions, Box) else 0
    count = states.dimensions + boxed
    last = (actions.count,) if isinstance(actions, Discrete) else ()
    bins = bins.tolist() if isinstance(bins, np.ndarray) else bins
    if bins is None:
        each = _USUAL_BINS
        while each > 2 and steps * each**count * math.prod(last) > _USUAL_CELLS:
            each //= 2
        given = [each] * count
    elif isinstance(bins, Sequence) and not isinstance(bins, str):
        if len(bins) != count:
            parts = f"{states.dimensions} of states" + ("" if finite else f" and {boxed} of actions")
            note = "; discrete actions have one cell each" if finite else ""
            wanted = f"expected one number or {count} ({parts})"
            raise ParameterError(f"{name}: {wanted}, got {len(bins)}: {show(bins)}{note}")
        given = [check_whole(each, name, 1, _LARGEST) for each in bins]
    else:
        given = [check_whole(bins, name, 1, _LARGEST)] * count
    shape = Shape(tuple(given[: states.dimensions]), (*given[states.dimensions :], *last), steps)
    _check_size(shape, actions, name)
    return shape


def _check_size(shape: Shape, actions: Actions, name: str) -> None:
    nodes = 2 * shape.steps * shape.leaves
    size = shape.cells * (CELL.itemsize + 16 * actions.dimensions) + nodes * (NODE.itemsize + LINK.itemsize)
    memory = _find_memory()
    if size > memory or max(shape.cells, nodes) > _LARGEST:
        steps = f" x {shape.steps:,} steps" if shape.steps > 1 else ""
        most = min(memory, _LARGEST * CELL.itemsize) / 1e9
        remedy = "give fewer bins, one number per dimension, and 1 for those that matter least"
        remedy = remedy if name == "bins" else f"give a larger {name}"
        raise ParameterError(
            f"{name}: a net of {shape.leaves:,} states x {shape.choices:,} actions{steps} has {shape.cells:,} cells "
            f"and takes {size / 1e9:,.1f} GB of at most {most:,.1f} GB; {remedy}"
        )


def _find_memory() -> int:
    """Return the bytes of memory of this machine, or a guess."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not on Windows
        return _UNKNOWN_MEMORY


class Net(Partition):
    """One uniform net for each time step; `initial` is the Q of every cell at the start."""

    def __init__(self, states: Box, actions: Actions, shape: Shape, *, initial: float) -> None:
        self._set_spaces(states, actions, shape.steps)
        self.shape, self._halves = shape, False
        self._levels = sum((each - 1).bit_length() for each in shape.states)
        tree = _grow_tree(shape.states)
        self.forest = self._allocate(shape.steps * len(tree.dim), shape.cells)._replace(
            members=np.zeros(shape.choices, np.int32), weights=np.zeros(shape.choices)
        )
        self._fill_nodes(tree)
        self._fill_cells(tree, float(initial))
        self._fill_grid(self.forest)

    def _fill_nodes(self, tree: "_Tree") -> None:
        """Write one copy of the state tree for each time step: the roots first, as kernels expect."""
        count = len(tree.dim)
        for step in range(self.steps):
            place = np.append(step, self.steps + step * (count - 1) + np.arange(count - 1))  # of each of its nodes
            nodes, links = self.forest.nodes, self.forest.links
            for name, values in (("dim", tree.dim), ("cut", tree.cut), ("level", tree.level)):
                nodes[name][place] = values
            nodes["child"][place] = np.where(tree.child == NONE, NONE, place[tree.child])
            links["parent"][place] = np.where(tree.parent == NONE, NONE, place[tree.parent])
            leaves = place[tree.leaves]
            nodes["alone"][leaves] = self.shape.choices == 1
            nodes["top_q"][place], nodes["head"][place], nodes["top"][place] = -np.inf, NONE, NONE
            nodes["head"][leaves] = (step * self.shape.leaves + np.arange(self.shape.leaves)) * self.shape.choices
        self.forest.links["above"] = NONE
        self.forest.used[0] = len(self.forest.nodes)

    def _fill_cells(self, tree: "_Tree", initial: float) -> None:
        """Hang all cells on the leaves."""
        cells, choices, per_step = self.forest.cells, self.shape.choices, self.shape.leaves * self.shape.choices
        leaves = np.flatnonzero(self.forest.nodes["head"] != NONE)
        leaves = leaves[np.argsort(self.forest.nodes["head"][leaves])]
        self.lattice = Lattice(np.array(self.shape.states, float), leaves)
        cells["next"] = np.arange(1, len(cells) + 1)
        cells["next"][choices - 1 :: choices] = NONE
        cells["node"] = np.repeat(leaves, choices)
        cells["depth"] = self.forest.nodes["level"][cells["node"]]
        cells["root"] = np.repeat(np.arange(self.steps), per_step)
        boxes = _make_action_boxes(self.actions, self.shape.actions)
        self.forest.boxes[:] = np.tile(boxes, (self.steps * self.shape.leaves, 1, 1))
        self.forest.used[1] = len(cells)
        self._set_values(np.full(len(cells), initial), np.zeros(len(cells), np.int32))

    def _set_values(self, q: Floats, visits: NDArray[np.int32]) -> None:
        """Give every cell its Q and visits, and every leaf its best cell."""
        cells, nodes, leaves = self.forest.cells, self.forest.nodes, self.lattice.leaves
        cells["q"], cells["visits"] = q, visits
        best = np.argmax(q.reshape(-1, self.shape.choices), axis=1)  # the first of equals, as the kernels'
        nodes["top"][leaves] = nodes["head"][leaves] + best
        nodes["top_q"][leaves] = q[nodes["top"][leaves]]

    def _sort(self, nodes: int, cells: int) -> None:
        """Leave the arrays as they are: a net does not grow, and its order is fixed."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what a file needs: the shape says the rest."""
        return {name: np.array(self.forest.cells[name]) for name in ("q", "visits")}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over Q and visits of a net of the same shape; ValueError where they do not fit."""
        q, visits = np.empty(len(self)), np.empty(len(self), np.int32)
        fill_array(q, arrays["q"], "q")
        fill_array(visits, arrays["visits"], "visits")
        check_numbers(q, "q")
        if (visits < 0).any():
            raise ValueError("invalid visits")
        self._set_values(q, visits)


class _Tree(NamedTuple):
    """The state tree of one time step; children stand behind their parents, in pairs."""

    dim: NDArray[np.int64]  # [nodes]
    cut: Floats  # [nodes]
    child: NDArray[np.int64]  # [nodes] lower child, NONE at a leaf
    parent: NDArray[np.int64]  # [nodes]
    level: NDArray[np.int64]  # [nodes]
    leaves: NDArray[np.int64]  # [leaves] nodes, in the order of a C-ordered array of their bins


def _grow_tree(bins: tuple[int, ...]) -> _Tree:
    """Cut every node along the dimension in which it has most bins, level by level, until it has one in each."""
    low, high = np.zeros((1, len(bins)), np.int64), np.array([bins], np.int64)
    parent = np.array([NONE])
    levels: list[tuple[NDArray[Any], ...]] = []
    first = 0  # node of this level
    while len(low):
        width = high - low
        row, dim = np.arange(len(low)), np.argmax(width, axis=1)
        middle = low[row, dim] + width[row, dim] // 2
        inner = np.flatnonzero(width[row, dim] > 1)
        child = np.full(len(low), NONE)
        child[inner] = first + len(low) + 2 * np.arange(len(inner))
        cut = np.where(child == NONE, 0.5, middle / np.array(bins)[dim])
        corner = np.where(child == NONE, np.ravel_multi_index(tuple(low.T), bins), NONE)
        levels.append((dim, cut, child, parent, np.full(len(low), len(levels)), corner))
        parent = np.repeat(first + inner, 2)
        first += len(low)
        low, high = np.repeat(low[inner], 2, axis=0), np.repeat(high[inner], 2, axis=0)
        lower, upper = 2 * np.arange(len(inner)), 2 * np.arange(len(inner)) + 1
        high[lower, dim[inner]] = low[upper, dim[inner]] = middle[inner]
    dims, cuts, children, parents, depths, corners = (np.concatenate(column) for column in zip(*levels, strict=True))
    leaves = np.flatnonzero(corners != NONE)
    return _Tree(dims, cuts, children, parents, depths, leaves[np.argsort(corners[leaves])])


def _make_action_boxes(actions: Actions, bins: tuple[int, ...]) -> Floats:
    """Return the action boxes of one state's cells, `[choices, 2, actions]`."""
    places = np.stack(np.unravel_index(np.arange(math.prod(bins)), bins), axis=1)
    if isinstance(actions, Discrete):
        return np.stack([places, places], axis=1).astype(float)
    return np.stack([places / np.array(bins), (places + 1) / np.array(bins)], axis=1)
