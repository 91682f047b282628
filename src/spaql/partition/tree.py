"""The greedy policy as a decision tree: thresholds and actions.

The cell of largest Q among those relevant to a state decides, and the action is the middle of that cell's action box,
as the environment takes it.  Following every path of the state tree to its leaf, and joining neighbouring leaves of the
same action, leaves a small binary tree that agrees with `predict` and has far fewer numbers: `agent.rules` lists it,
`agent.export` ships it and the inspector draws it.

Two coordinates are in use.  `cuts` are thresholds in the unit cube, where partitions live.
`thresholds` are in the observation's own units, and exact: for every double x,

    x >= threshold    if and only if    (x - low) / (high - low) >= cut     as computed in double precision,

which bisection over all doubles finds, as the right side is monotone in x.  So comparing x itself decides as `predict`
does, to the last bit, without arithmetic.  A periodic number has no such threshold: it is first wrapped into the unit
interval, and compared with the cut.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spaql.partition.kernels import NONE
from spaql.partition.partition import Partition, group_by_level
from spaql.partition.spaces import Box, Floats


@dataclass(frozen=True, eq=False)
class Tree:
    """A decision tree over states, one root for each time step of a policy that changes with it.

    Time steps that decide alike have the same root.

    A *reference* is the number of an inner node, or for a leaf ~k, which is -1 - k, with k the number of its choice.

    Examples
    --------
    >>> import numpy as np
    >>> import spaql
    >>> agent = spaql.SPAQL("oil", seed=0).learn(iterations=50)
    >>> tree = agent.tree()
    >>> tree.decide(np.array([[0.1], [0.9]]))
    array([0, 2])
    """

    states: Box  #: ranges of the observed numbers
    periodic: tuple[int, ...]  #: places of the periodic ones
    roots: NDArray[np.int32]  #: reference where each time step begins, `[steps]`
    dims: NDArray[np.int16]  #: of inner nodes: which number is compared, `[nodes]`; a child stands behind its parent
    cuts: Floats  #: and with what, in the unit cube
    children: NDArray[np.int32]  #: references for below the cut, and for the cut itself and above, `[nodes, 2]`
    boxes: Floats  #: action boxes of each choice's first cell, in the unit cube or as numbers `[choices, 2, actions]`
    middles: Floats  #: middles of these boxes in the units of the problem's actions, `[choices, actions]`
    actions: NDArray[Any]  #: the same as the environment takes it, `[choices, ...]`; no two are equal

    @cached_property
    def thresholds(self) -> Floats:
        """Of inner nodes in the observation's own units, exact; the cut where the number is periodic, `[nodes]`."""
        return np.where(np.isin(self.dims, self.periodic), self.cuts, self.find_thresholds(self.dims, self.cuts))

    def find_thresholds(self, dims: NDArray[Any], cuts: Floats, turns: Floats | float = 0.0) -> Floats:
        """Return the least numbers in the observation's own units that reach cuts `[n]`; `turns` counts periods."""
        return _find_least(cuts, self.states.low[dims], (self.states.high - self.states.low)[dims], turns)

    def to_units(self, dim: int, cuts: Floats, turns: Floats | float = 0.0) -> Floats:
        """Return cuts `[n]` in the observation's own units, rounded for display; ends of the range are exact."""
        width = self.states.high[dim] - self.states.low[dim]
        places = turns + cuts
        values = np.where(places == 1.0, self.states.high[dim], self.states.low[dim] + places * width)
        return np.where(np.abs(values) < 1e-12 * width, 0.0, values)  # not -2.8e-17

    def to_integers(self, dim: int, cuts: Floats) -> Floats:
        """Return the first integer from each cut `[n]` on; infinite cuts stay infinite."""
        if dim in self.periodic:
            return np.asarray(np.ceil(self.to_units(dim, cuts)))
        integers = cuts.copy()
        finite = np.isfinite(cuts)
        integers[finite] = np.ceil(self.find_thresholds(np.full(finite.sum(), dim), cuts[finite]))
        return integers

    @property
    def depth(self) -> int:
        """The most comparisons that a decision takes."""
        depth = np.zeros(len(self.dims), np.int64)
        for node in range(len(self.dims)):
            inner = self.children[node][self.children[node] >= 0]
            depth[inner] = depth[node] + 1
        return int(depth.max()) + 1 if len(depth) else 0

    def decide(self, points: Floats, steps: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """Return the choice at each row of `points` [n, states] (unit cube), at time steps [n] or the first.

        Parameters
        ----------
        points
            Of the unit cube, `[n, states]`.
        steps
            Time step of each, `[n]`; None takes the first.

        Returns
        -------
        ndarray
            Numbers of choices, `[n]`.
        """
        at = np.full(len(points), self.roots[0], np.int64) if steps is None else self.roots[steps].astype(np.int64)
        while (inner := np.flatnonzero(at >= 0)).size:
            node = at[inner]
            at[inner] = self.children[node, (points[inner, self.dims[node]] >= self.cuts[node]).astype(int)]
        return ~at

    def leaves(self, step: int = 0) -> tuple[Floats, Floats, NDArray[np.int64]]:
        """Return boxes in the unit cube, low and high, each `[leaves, states]`, and their choices, `[leaves]`.

        Parameters
        ----------
        step
            Time step, from 0.

        Returns
        -------
        low, high : ndarray
            Boxes in the unit cube, `[leaves, states]`.
        choices : ndarray
            The choice in each.
        """
        size = self.states.dimensions
        low, high, choices = [], [], []
        waiting = [(int(self.roots[step]), np.zeros(size), np.ones(size))]
        while waiting:
            at, lower, upper = waiting.pop()
            if at < 0:
                low.append(lower)
                high.append(upper)
                choices.append(~at)
                continue
            dim, cut = self.dims[at], self.cuts[at]
            below, above = upper.copy(), lower.copy()
            below[dim] = above[dim] = cut
            waiting.append((int(self.children[at, 1]), above, upper))
            waiting.append((int(self.children[at, 0]), lower, below))
        return np.array(low), np.array(high), np.array(choices)


def decision_tree(partition: Partition, play: Callable[[Floats, bool], Any], periodic: Iterable[int] = ()) -> Tree:
    """Build the tree of a partition's greedy policy; `play` is `Problem.decode`, `periodic` as in `Tree`."""
    chosen = find_greedy_cells(partition)
    nodes = partition.forest.nodes[: len(chosen)]
    is_leaf = nodes["child"] == NONE
    cells, first = np.unique(chosen[is_leaf], return_inverse=True)
    boxes = partition.forest.boxes[cells]
    middles = partition.actions.from_unit(boxes[:, 0] + 0.5 * (boxes[:, 1] - boxes[:, 0]))
    played = np.asarray(play(middles, False))
    _, kept, choice = np.unique(played.reshape(len(played), -1), axis=0, return_index=True, return_inverse=True)
    at = np.zeros(len(chosen), np.int64)  # references; of inner nodes, to where cuts between equals are left out
    at[is_leaf] = ~choice.reshape(-1)[first.reshape(-1)]
    child = nodes["child"].astype(np.int64)
    needed = np.zeros(len(at), bool)
    for here in reversed(group_by_level(nodes["level"])):
        inner = here[child[here] != NONE]
        below, above = at[child[inner]], at[child[inner] + 1]
        needed[inner] = (below != above) | (below >= 0) | (above >= 0)
        at[inner] = np.where(needed[inner], inner, below)
    at[: partition.steps] = _share_roots(at, nodes, child, needed, partition.steps)
    needed &= _find_reached(at, child, partition.steps)
    reached = np.flatnonzero(needed)  # children stay behind their parents
    number = np.zeros(len(at), np.int64)
    number[reached] = np.arange(len(reached))

    def renumber(references: NDArray[np.int64]) -> NDArray[np.int32]:
        return np.where(references < 0, references, number[references]).astype(np.int32)

    below, above = renumber(at[child[reached]]), renumber(at[child[reached] + 1])
    return Tree(
        states=partition.states,
        periodic=tuple(periodic),
        roots=renumber(at[: partition.steps]),
        dims=nodes["dim"][reached].astype(np.int16),
        cuts=nodes["cut"][reached].copy(),
        children=np.stack([below, above], axis=1),
        boxes=boxes[kept],
        middles=middles[kept],
        actions=played[kept],
    )


def _share_roots(
    at: NDArray[np.int64], nodes: NDArray[np.void], child: NDArray[np.int64], needed: NDArray[np.bool_], steps: int
) -> list[int]:
    """Return the reference of each time step; steps that decide alike have that of the first of them.

    Level by level from below, inner nodes that compare the same and lead to the same receive the same number.
    """
    if steps == 1:
        return [int(at[0])]
    number, used = np.zeros(len(at), np.int64), 0

    def name(references: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.where(references < 0, references, number[references])

    for here in reversed(group_by_level(nodes["level"])):
        inner = here[needed[here]]
        cuts = nodes["cut"][inner].view(np.int64)
        keys = np.stack([nodes["dim"][inner], cuts, name(at[child[inner]]), name(at[child[inner] + 1])], axis=1)
        distinct, places = np.unique(keys, axis=0, return_inverse=True)
        number[inner] = used + places.reshape(-1)
        used += len(distinct)
    first: dict[int, int] = {}
    pairs = zip(name(at[:steps]).tolist(), at[:steps].tolist(), strict=True)
    return [first.setdefault(same, reference) for same, reference in pairs]


def _find_reached(at: NDArray[np.int64], child: NDArray[np.int64], steps: int) -> NDArray[np.bool_]:
    """Return which nodes references lead to from the roots, `[nodes]`."""
    reached = np.zeros(len(at), bool)
    waiting = np.unique(at[:steps])
    while (waiting := waiting[waiting >= 0]).size:
        reached[waiting] = True
        waiting = np.concatenate([at[child[waiting]], at[child[waiting] + 1]])
    return reached


def find_greedy_cells(partition: Partition) -> NDArray[np.int32]:
    """Return the cell of largest Q on the path to each node, `[nodes]`; ties as in `spaql.partition.kernels`."""
    count = int(partition.forest.used[0])
    nodes, parent = partition.forest.nodes[:count], partition.forest.links["parent"][:count]
    value, chosen = nodes["top_q"].copy(), nodes["top"].copy()
    for here in group_by_level(nodes["level"])[1:]:
        above = parent[here]
        better = value[here] > value[above]
        value[here] = np.where(better, value[here], value[above])
        chosen[here] = np.where(better, chosen[here], chosen[above])
    return chosen


def _find_least(cuts: Floats, low: Floats, width: Floats, turns: Floats | float = 0.0) -> Floats:
    """Return the least double x with (x - low) / width - turns >= cut, for each of the arrays' entries."""
    reached = np.full_like(low, np.inf).view(np.int64)
    below = _swap_ranks(np.full_like(low, -np.inf).view(np.int64))
    for _ in range(64):  # as many bits as there are
        middle = (below >> 1) + (reached >> 1) + (below & reached & 1)  # their sum may overflow
        with np.errstate(over="ignore"):
            there = (_swap_ranks(middle).view(np.float64) - low) / width - turns >= cuts
        below, reached = np.where(there, below, middle), np.where(there, middle, reached)
    return _swap_ranks(reached).view(np.float64)


def _swap_ranks(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the ranks of doubles among all, given their bits; or the bits, given the ranks."""
    return numbers ^ ((numbers >> 63) & np.iinfo(np.int64).max)
