"""The greedy policy as a decision tree: thresholds and actions, and nothing else.

What decides at a state is the cell of largest Q among those relevant to it, and what is done is the middle of that
cell's action box, as the environment takes it.  Following every path of the state tree to its leaf, and joining leaves
side by side that do the same, leaves a small binary tree that says the same as `predict` with far fewer numbers: it is
what `agent.rules` reads out, what `agent.export` ships and what a page draws.

Two coordinates are in use.  `cuts` are thresholds in the unit cube, where partitions live: dyadic fractions.
`thresholds` are in the observation's own units, and exact: for every double x,

    x >= threshold    if and only if    (x - low) / (high - low) >= cut     as computed in double precision,

which bisection over all doubles finds, as the right side never falls where x rises.  So whoever compares x itself
decides as `predict` does, to the last bit, without arithmetic.  A number that comes round has no such threshold: it is
first brought into the unit interval, and compared with the cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spaql.partition.kernels import NONE
from spaql.partition.partition import Partition, by_level
from spaql.partition.spaces import Box, Floats


@dataclass(frozen=True, eq=False)
class Tree:
    """A decision tree over states, one root for each time step of a policy that changes with it.

    A *reference* is the number of an inner node, or for a leaf ~k, which is -1 - k, with k the number of its choice.

    Attributes
    ----------
    states
        Ranges of the observed numbers.
    periodic
        Places of those that come round.
    roots
        Reference where each time step begins, `[steps]`.
    dims, cuts
        Of inner nodes: which number is compared, and with what, in the unit cube, `[nodes]`; a child stands behind its
        parent.
    children
        References for below the cut, and for the cut itself and above, `[nodes, 2]`.
    boxes
        Action boxes in the unit cube, or numbers of finite actions, of the cell that was found first for each choice,
        `[choices, 2, actions]`.
    middles
        What is played, in the units of the problem's actions, `[choices, actions]`.
    actions
        The same as the environment takes it, `[choices, ...]`; no two are equal.
    """

    states: Box
    periodic: tuple[int, ...]
    roots: NDArray[np.int32]
    dims: NDArray[np.int16]
    cuts: Floats
    children: NDArray[np.int32]
    boxes: Floats
    middles: Floats
    actions: NDArray[Any]

    @cached_property
    def thresholds(self) -> Floats:
        """Of inner nodes in the observation's own units, exact; the cut where the number comes round, `[nodes]`."""
        return np.where(np.isin(self.dims, self.periodic), self.cuts, self.reached(self.dims, self.cuts))

    def reached(self, dims: NDArray[Any], cuts: Floats, turns: Floats | float = 0.0) -> Floats:
        """The least numbers in the observation's own units that reach cuts `[n]`; in a turn of what comes round."""
        return _least(cuts, self.states.low[dims], (self.states.high - self.states.low)[dims], turns)

    def nominal(self, dim: int, cuts: Floats, turns: Floats | float = 0.0) -> Floats:
        """Cuts `[n]` in the observation's own units as a person would write them: rounded, no threshold to the bit."""
        width = self.states.high[dim] - self.states.low[dim]
        values = self.states.low[dim] + (turns + cuts) * width
        return np.where(np.abs(values) < 1e-12 * width, 0.0, values)  # not -2.8e-17

    def first_whole(self, dim: int, cuts: Floats) -> Floats:
        """The first whole number from each cut `[n]` on; infinite cuts stay so."""
        if dim in self.periodic:
            return np.asarray(np.ceil(self.nominal(dim, cuts)))
        found = cuts.copy()
        finite = np.isfinite(cuts)
        found[finite] = np.ceil(self.reached(np.full(finite.sum(), dim), cuts[finite]))
        return found

    @property
    def depth(self) -> int:
        """The most comparisons that a decision takes."""
        depth = np.zeros(len(self.dims), np.int64)
        for node in range(len(self.dims)):
            inner = self.children[node][self.children[node] >= 0]
            depth[inner] = depth[node] + 1
        return int(depth.max()) + 1 if len(depth) else 0

    def decide(self, points: Floats, steps: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """The choice at each row of `points` [n, states] (unit cube), at time steps [n] or the first."""
        at = np.full(len(points), self.roots[0], np.int64) if steps is None else self.roots[steps].astype(np.int64)
        while (inner := np.flatnonzero(at >= 0)).size:
            node = at[inner]
            at[inner] = self.children[node, (points[inner, self.dims[node]] >= self.cuts[node]).astype(int)]
        return ~at

    def leaves(self, step: int = 0) -> tuple[Floats, Floats, NDArray[np.int64]]:
        """Boxes in the unit cube, low and high, each `[leaves, states]`, and their choices, `[leaves]`."""
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
    """Build the tree of a partition's greedy policy.

    Parameters
    ----------
    partition
        The cells.
    play
        Turns actions `[n, actions]` in the problem's units into what the environment takes; `Problem.decode`.
    periodic
        Places of the observed numbers that come round.
    """
    chosen = chosen_cells(partition)
    nodes = partition.forest.nodes[: len(chosen)]
    is_leaf = nodes["child"] == NONE
    cells, first = np.unique(chosen[is_leaf], return_inverse=True)
    boxes = partition.forest.boxes[cells]
    middles = partition.actions.from_unit(boxes[:, 0] + 0.5 * (boxes[:, 1] - boxes[:, 0]))
    played = np.asarray(play(middles, False))
    _, kept, choice = np.unique(played.reshape(len(played), -1), axis=0, return_index=True, return_inverse=True)
    at = np.zeros(len(chosen), np.int64)
    at[is_leaf] = ~choice.reshape(-1)[first.reshape(-1)]
    return _pruned(partition, tuple(periodic), at, boxes[kept], middles[kept], played[kept])


def chosen_cells(partition: Partition) -> NDArray[np.int32]:
    """The cell of largest Q on the path from the root to each node, `[nodes]`; ties as in `spaql.partition.kernels`."""
    count = int(partition.forest.used[0])
    nodes, parent = partition.forest.nodes[:count], partition.forest.links["parent"][:count]
    value, chosen = nodes["top_q"].copy(), nodes["top"].copy()
    for here in by_level(nodes["level"])[1:]:
        above = parent[here]
        better = value[here] > value[above]
        value[here] = np.where(better, value[here], value[above])
        chosen[here] = np.where(better, chosen[here], chosen[above])
    return chosen


def _pruned(
    partition: Partition,
    periodic: tuple[int, ...],
    at: NDArray[np.int64],
    boxes: Floats,
    middles: Floats,
    actions: NDArray[Any],
) -> Tree:
    """The tree without cuts between equals.  `at` has the references of leaves, and is filled for inner nodes."""
    nodes = partition.forest.nodes[: len(at)]
    child = nodes["child"].astype(np.int64)
    needed = np.zeros(len(at), bool)
    for here in reversed(by_level(nodes["level"])):
        inner = here[child[here] != NONE]
        below, above = at[child[inner]], at[child[inner] + 1]
        needed[inner] = (below != above) | (below >= 0) | (above >= 0)
        at[inner] = np.where(needed[inner], inner, below)
    reached = np.flatnonzero(needed)  # a child stands behind its parent, and so it stays
    number = np.zeros(len(at), np.int64)
    number[reached] = np.arange(len(reached))

    def renumbered(references: NDArray[np.int64]) -> NDArray[np.int32]:
        return np.where(references < 0, references, number[references]).astype(np.int32)

    below, above = renumbered(at[child[reached]]), renumbered(at[child[reached] + 1])
    return Tree(
        states=partition.states,
        periodic=periodic,
        roots=renumbered(at[: partition.steps]),
        dims=nodes["dim"][reached].astype(np.int16),
        cuts=nodes["cut"][reached].copy(),
        children=np.stack([below, above], axis=1),
        boxes=boxes,
        middles=middles,
        actions=actions,
    )


def _least(cuts: Floats, low: Floats, width: Floats, turns: Floats | float = 0.0) -> Floats:
    """The least double x with (x - low) / width - turns >= cut, for each of the arrays' entries."""
    below, reached = _rank(np.full_like(low, -np.inf)), _rank(np.full_like(low, np.inf))
    for _ in range(64):  # as many bits as there are
        middle = below + (reached - below) // np.uint64(2)
        with np.errstate(over="ignore"):
            there = (_ranked(middle) - low) / width - turns >= cuts
        below, reached = np.where(there, below, middle), np.where(there, middle, reached)
    return _ranked(reached)


_SIGN = np.uint64(1 << 63)


def _rank(values: Floats) -> NDArray[np.uint64]:
    """Where doubles stand among all doubles."""
    bits = np.ascontiguousarray(values, np.float64).view(np.uint64)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def _ranked(ranks: NDArray[np.uint64]) -> Floats:
    """The doubles that stand there."""
    bits = np.where(ranks & _SIGN, ranks ^ _SIGN, ~ranks)
    return np.ascontiguousarray(bits).view(np.float64)
