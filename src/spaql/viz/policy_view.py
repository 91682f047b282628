"""Views of a policy on a plane, apart from who draws them.

The leaves of the state tree are boxes in which one cell decides.  A `PolicyView` holds them with the values that can be
coloured, and offers two views of many dimensions:

- a *slice* cuts through the leaves at fixed values of the other dimensions: exact, but only there;
- a *projection* looks through all of them.  Every cell's visits are spread evenly over its state box; a bin of the
  plane shows the mean over all leaves behind it, weighted by these visits, or the most visited of discrete actions.

The layers are `policy`, the greedy action; `q`, the value of the cell that decides; `visits`, their number relative to
an even spread over the whole space, so that 1 is the average; `depth`, how often that cell was halved; and
`uncertainty`, the bonus scaling / sqrt(visits) of agents that have one, else 1 / sqrt(visits).

`spaql.viz.policy_plot` draws the views with matplotlib; the page of `spaql.viz.inspector` computes the same sums in the
browser.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spaql.partition.kernels import NONE
from spaql.partition.partition import Partition, group_by_level
from spaql.partition.spaces import Discrete, Floats
from spaql.partition.tree import find_greedy_cells
from spaql.problems.base import Playable
from spaql.problems.labels import make_labels

LAYERS = ("policy", "q", "visits", "depth", "uncertainty")
BINS = 64  # of a projection, along each side
_SHUFFLED = 2000  # states from which the influence of each dimension is estimated


class Tiles(NamedTuple):
    """Boxes of a plane: their corners in the unit cube, and their values."""

    low: Floats  # [n, 2]
    high: Floats  # [n, 2]
    values: Floats  # [n]; for discrete actions the action's number; NaN for no value


class PolicyView:
    """A policy as pictures and pages need it.

    Parameters
    ----------
    problem, partition
        The problem, and the partition that decides.
    algorithm
        Label of the algorithm.
    scaling
        That of its bonus, or None where it has no bonus.
    names, actions
        Names of the observed dimensions, and of the actions or their dimensions; None for the usual ones.
    """

    def __init__(
        self,
        problem: Playable,
        partition: Partition,
        *,
        algorithm: str,
        scaling: float | None = None,
        names: Sequence[str] | None = None,
        actions: Sequence[str] | None = None,
    ) -> None:
        self.problem, self.partition, self.scaling = problem, partition, scaling
        self.algorithm = algorithm
        self.title = f"{algorithm} on {problem.name}"
        self.labels = make_labels(problem, names, actions)
        self.discrete = isinstance(problem.actions, Discrete)
        nodes, cells, _ = (int(n) for n in partition.forest.used)
        self._nodes, self._cells = partition.forest.nodes[:nodes], partition.forest.cells[:cells]
        self._low, self._high = partition.node_boxes()
        #: visits per volume of the unit cube at each leaf, of all cells that are relevant there, `[nodes]`
        volumes = np.prod(self._high - self._low, axis=1)
        self.density: Floats = np.bincount(self._cells["node"], self._cells["visits"], nodes) / volumes
        self._roots = np.arange(nodes)  # the time step of each node
        parents = partition.forest.links["parent"][:nodes]
        for here in group_by_level(self._nodes["level"])[1:]:
            self.density[here] += self.density[parents[here]]
            self._roots[here] = self._roots[parents[here]]
        self.chosen = find_greedy_cells(partition)  # the cell that decides at each node, `[nodes]`
        self._leaves = np.flatnonzero(self._nodes["child"] == NONE)
        self._mass = (self.density * volumes)[self._leaves]  # visits in each leaf

    @cached_property
    def influence(self) -> Floats:
        """Influence of each observed dimension on the action, `[states]`, from 0 to 1.

        States are drawn as they were visited, and one dimension of each is exchanged for that of another state: the
        share of decisions that then differ, or for continuous actions the mean change as a share of their range.
        """
        random = np.random.default_rng(0)
        total = self._mass.sum()
        shares = self._mass / total if total > 0.0 else np.full(len(self._mass), 1.0 / len(self._mass))
        leaves = self._leaves[random.choice(len(shares), _SHUFFLED, p=shares)]
        points = self._low[leaves] + random.random((_SHUFFLED, self._low.shape[1])) * (self._high - self._low)[leaves]
        roots, order = self._roots[leaves], random.permutation(_SHUFFLED)
        influence = np.zeros(points.shape[1])
        before = self._middles(points, roots)
        for d in range(points.shape[1]):
            mixed = points.copy()
            mixed[:, d] = points[order, d]
            after = self._middles(mixed, roots)
            influence[d] = np.mean(before != after) if self.discrete else np.mean(np.abs(before - after))
        return influence

    def _middles(self, points: Floats, steps: NDArray[np.int64]) -> Floats:
        """Return the actions at points, as unit coordinates or numbers of discrete actions, `[n, actions]`."""
        middles: Floats = self.partition.forest.boxes[self.partition.greedy(points, steps)].mean(axis=1)
        return middles

    def main_dims(self) -> list[int]:
        """Return the two observed dimensions with most influence, in order; or the only one."""
        return sorted(np.argsort(-self.influence, kind="stable")[:2].tolist())

    def median_state(self) -> Floats:
        """Return the median of each observed dimension over the visits, in the unit cube; of integers, the nearest."""
        low, high = self._low[self._leaves], self._high[self._leaves]
        middle = np.full(low.shape[1], 0.5)
        if self._mass.sum() > 0.0:
            middle = np.array([_median(low[:, d], high[:, d], self._mass) for d in range(low.shape[1])])
        states, whole = self.problem.states, self.problem.whole
        least, most = np.ceil(states.low), np.floor(states.high)
        nearest = states.to_unit(np.clip(np.rint(states.from_unit(middle)), least, most))
        return np.where(whole, nearest, middle)

    def cell_values(self, layer: str, cells: NDArray[np.integer], action_dim: int = 0) -> Floats:
        """Return the values of cells in a layer, `[n]`; not for `visits`, which belong to places.

        `action_dim` is the dimension of the action that `policy` shows; discrete actions have one, their number.
        """
        rows = self._cells[cells]
        if layer == "policy":
            boxes = self.partition.forest.boxes[cells]
            middles = self.problem.actions.from_unit(boxes[:, 0] + 0.5 * (boxes[:, 1] - boxes[:, 0]))
            return np.asarray(middles[:, action_dim], np.float64)
        if layer == "uncertainty":
            visits = np.where(rows["visits"] > 0, rows["visits"], np.nan)
            return np.asarray((1.0 if self.scaling is None else self.scaling) / np.sqrt(visits))
        return np.array(rows["q" if layer == "q" else "depth"], np.float64)

    def slice(
        self, dims: tuple[int, int], at: Floats, layer: str, *, step: int = 0, action_dim: int = 0
    ) -> tuple[Tiles, NDArray[np.int32]]:
        """Return the leaves at the point `at` [states] of the unit cube, but for `dims`, and the cells that decide."""
        leaves = self._leaves[self._roots[self._leaves] == step]
        hidden = [d for d in range(len(at)) if d not in dims]
        low, high = self._low[leaves][:, hidden], self._high[leaves][:, hidden]
        leaves = leaves[((low <= at[hidden]) & ((at[hidden] < high) | (high == 1.0))).all(axis=1)]
        if layer == "visits":
            values = self._relative(self.density[leaves], step)
        else:
            values = self.cell_values(layer, self.chosen[leaves], action_dim)
        plane = list(dims)
        return Tiles(self._low[leaves][:, plane], self._high[leaves][:, plane], values), self.chosen[leaves]

    def _relative(self, density: Floats, step: int) -> Floats:
        """Return density relative to the mean; NaN where nothing was visited."""
        mean = self._mass[self._roots[self._leaves] == step].sum()
        return np.where(density > 0.0, density / mean, np.nan) if mean > 0.0 else np.full(density.shape, np.nan)

    def projection(self, dims: tuple[int, int], layer: str, *, step: int = 0, action_dim: int = 0) -> Tiles:
        """Return the plane of `dims` in `BINS` by `BINS` tiles, each over all leaves behind it."""
        leaves = self._leaves[self._roots[self._leaves] == step]
        hidden = [d for d in range(self._low.shape[1]) if d not in dims]
        behind = self.density[leaves] * np.prod((self._high - self._low)[leaves][:, hidden], axis=1)
        low, high = self._low[leaves][:, list(dims)], self._high[leaves][:, list(dims)]
        total = _spread(low, high, behind)
        if layer == "visits":
            values = self._relative(total, step)
        elif layer == "policy" and self.discrete:
            actions = self.cell_values("policy", self.chosen[leaves])
            present = np.unique(actions)
            weights = [_spread(low[actions == a], high[actions == a], behind[actions == a]) for a in present]
            values = np.where(total > 0.0, present[np.argmax(weights, axis=0)], np.nan)
        else:
            cells = self.cell_values(layer, self.chosen[leaves], action_dim)
            weight = _spread(low, high, np.where(np.isnan(cells), 0.0, behind))
            with np.errstate(invalid="ignore", divide="ignore"):
                values = _spread(low, high, behind * np.nan_to_num(cells)) / weight
        x, y = np.meshgrid(np.arange(BINS), np.arange(BINS), indexing="ij")
        corners = np.stack([x.ravel(), y.ravel()], axis=1) / BINS
        return Tiles(corners, corners + 1 / BINS, values.ravel())

    def state_action_tiles(self, layer: str, *, step: int = 0, action_dim: int = 0) -> tuple[Tiles, Tiles]:
        """Return tiles over states and actions, for one observed dimension: all cells, and the greedy policy.

        Discrete actions are as high as 1 around their number.  Where an action has several dimensions, cells lie over
        each other, and only the greedy policy is shown.
        """
        mine = np.flatnonzero(self._cells["root"] == step)
        if self.partition.forest.boxes.shape[2] > 1:
            mine = mine[:0]
        nodes = self._cells["node"][mine]
        if layer == "visits":
            boxes = self.partition.forest.boxes[mine, :, 0]
            thick = np.ones(len(mine)) if self.discrete else boxes[:, 1] - boxes[:, 0]
            density = self._cells["visits"][mine] / ((self._high - self._low)[nodes, 0] * thick)
            values = self._relative(density, step)
        else:
            values = self.cell_values("q" if layer == "policy" else layer, mine, action_dim)
        leaves = self._leaves[self._roots[self._leaves] == step]
        leaves = leaves[np.argsort(self._low[leaves, 0])]
        played = self.cell_values("q" if layer in ("policy", "visits") else layer, self.chosen[leaves], action_dim)
        policy = self._tiles(leaves, self.chosen[leaves], played, action_dim)
        return self._tiles(nodes, mine, values, action_dim), policy

    def _tiles(self, nodes: NDArray[np.integer], cells: NDArray[np.integer], values: Floats, action_dim: int) -> Tiles:
        boxes = self.partition.forest.boxes[cells, :, action_dim]
        if self.discrete:
            boxes = boxes + np.array([-0.5, 0.5])
        low = np.stack([self._low[nodes, 0], boxes[:, 0]], axis=1)
        return Tiles(low, np.stack([self._high[nodes, 0], boxes[:, 1]], axis=1), values)


def _median(low: Floats, high: Floats, mass: Floats) -> float:
    """Return where half of the mass is below, each part of it evenly spread from its low to its high."""
    edges, at = np.unique(np.concatenate([low, high]), return_inverse=True)
    slope = np.cumsum(np.bincount(at.reshape(-1), np.tile(mass / (high - low), 2) * np.repeat([1, -1], len(low))))
    below = np.concatenate([[0.0], np.cumsum(slope[:-1] * np.diff(edges))])
    return float(np.interp(0.5 * below[-1], np.maximum.accumulate(below), edges))


def _spread(low: Floats, high: Floats, density: Floats) -> Floats:
    """Add boxes [n, 2] of given density up on a grid: the mean density of each tile, `[BINS, BINS]`."""
    bins = np.arange(BINS)
    share = np.minimum(high[..., None] * BINS, bins + 1) - np.maximum(low[..., None] * BINS, bins)  # [n, 2, BINS]
    share = share.clip(0.0)
    grid: Floats = (density[:, None] * share[:, 0]).T @ share[:, 1]
    return grid
