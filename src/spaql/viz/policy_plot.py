"""Views of a policy on a plane: what `agent.plot` draws; docs/how-to/inspect.md describes the layers.

The leaves of the state tree are boxes in which one cell decides.  Of many dimensions a `PolicyView` offers two views:

- a *slice* cuts through the leaves at fixed values of the other dimensions: exact, but only there;
- a *projection* looks through all of them.  Every cell's visits are spread evenly over its state box; a bin of the
  plane shows the mean over all leaves behind it, weighted by these visits, or the most visited of discrete actions.

The page of `spaql.viz.inspector` computes the same sums in the browser.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from spaql.errors import ParameterError
from spaql.explain.rules import spread_visits
from spaql.partition.kernels import NONE
from spaql.partition.partition import Partition
from spaql.partition.spaces import Box, Discrete, Floats
from spaql.partition.tree import find_greedy_cells
from spaql.problems.base import Playable
from spaql.problems.labels import Labels
from spaql.validation import check_number, check_whole
from spaql.viz import figures
from spaql.viz.charts import to_bands

LAYERS = ("policy", "q", "visits", "depth", "uncertainty")
BINS = 64  # of a projection, along each side
_SHUFFLED = 2000  # states from which the influence of each dimension is estimated


class Tiles(NamedTuple):
    """Boxes of a plane: their corners in the unit cube, and their values."""

    low: Floats  # [n, 2]
    high: Floats  # [n, 2]
    values: Floats  # [n]; for discrete actions the action's number; NaN for no value


class PolicyView:
    """A policy as pictures and pages need it; `algorithm` is a label, `scaling` that of its bonus, None without one."""

    def __init__(
        self, problem: Playable, partition: Partition, labels: Labels, algorithm: str, scaling: float | None = None
    ) -> None:
        self.problem, self.partition, self.labels = problem, partition, labels
        self.algorithm, self.scaling = algorithm, scaling
        self.title = f"{algorithm} on {problem.name}"
        self.discrete = isinstance(problem.actions, Discrete)
        self.chosen = find_greedy_cells(partition)  # the cell that decides at each node, `[nodes]`
        self._cells = partition.forest.cells[: len(partition)]
        self._low, self._high = partition.node_boxes()
        self.density, self._steps = spread_visits(partition, self._cells["visits"])
        self._leaves = np.flatnonzero(partition.forest.nodes["child"][: len(self.chosen)] == NONE)
        self._mass = (self.density * np.prod(self._high - self._low, axis=1))[self._leaves]  # visits in each leaf

    @cached_property
    def influence(self) -> Floats:
        """Influence of each observed dimension on the action, `[states]`, from 0 to 1.

        Where one dimension of visited states is exchanged for that of others: the share of decisions that then differ,
        or for continuous actions the mean change as a share of their range.
        """
        random = np.random.default_rng(0)
        total = self._mass.sum()
        shares = self._mass / total if total > 0.0 else np.full(len(self._mass), 1.0 / len(self._mass))
        leaves = self._leaves[random.choice(len(shares), _SHUFFLED, p=shares)]
        points = self._low[leaves] + random.random((_SHUFFLED, self._low.shape[1])) * (self._high - self._low)[leaves]
        steps, order = self._steps[leaves], random.permutation(_SHUFFLED)
        influence = np.zeros(points.shape[1])
        middles = self.partition.forest.boxes.mean(axis=1)  # of actions, in the unit cube or their numbers
        before = middles[self.partition.greedy(points, steps)]
        for d in range(points.shape[1]):
            mixed = points.copy()
            mixed[:, d] = points[order, d]
            after = middles[self.partition.greedy(mixed, steps)]
            influence[d] = np.mean(before != after) if self.discrete else np.mean(np.abs(before - after))
        return influence

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
        """Return the values of cells in a layer, `[n]`; not for `visits`, which belong to places."""
        rows = self._cells[cells]
        if layer == "policy":
            boxes = self.partition.forest.boxes[cells]
            middles = self.problem.actions.from_unit(boxes[:, 0] + 0.5 * (boxes[:, 1] - boxes[:, 0]))
            return np.asarray(middles[:, action_dim], np.float64)
        if layer == "uncertainty":
            visits = np.where(rows["visits"] > 0, rows["visits"], np.nan)
            return np.asarray((1.0 if self.scaling is None else self.scaling) / np.sqrt(visits))
        return np.array(rows["q" if layer == "q" else "depth"], np.float64)

    def _find_leaves(self, step: int) -> NDArray[np.integer]:
        leaves: NDArray[np.integer] = self._leaves[self._steps[self._leaves] == step]
        return leaves

    def slice(
        self, dims: Sequence[int], at: Floats, layer: str, *, step: int = 0, action_dim: int = 0
    ) -> tuple[Tiles, NDArray[np.int32]]:
        """Return the leaves at the point `at` [states] of the unit cube, but for `dims`, and the cells that decide."""
        leaves, plane = self._find_leaves(step), list(dims)
        hidden = [d for d in range(len(at)) if d not in dims]
        low, high = self._low[leaves][:, hidden], self._high[leaves][:, hidden]
        leaves = leaves[((low <= at[hidden]) & ((at[hidden] < high) | (high == 1.0))).all(axis=1)]
        if layer == "visits":
            values = self._relative(self.density[leaves], step)
        else:
            values = self.cell_values(layer, self.chosen[leaves], action_dim)
        return Tiles(self._low[leaves][:, plane], self._high[leaves][:, plane], values), self.chosen[leaves]

    def _relative(self, density: Floats, step: int) -> Floats:
        """Return density relative to the mean; NaN where nothing was visited."""
        mean = self._mass[self._steps[self._leaves] == step].sum()
        return np.where(density > 0.0, density / (mean or 1.0), np.nan)

    def projection(self, dims: Sequence[int], layer: str, *, step: int = 0, action_dim: int = 0) -> Tiles:
        """Return the plane of `dims` in `BINS` by `BINS` tiles, each over all leaves behind it."""
        leaves, plane = self._find_leaves(step), list(dims)
        hidden = [d for d in range(self._low.shape[1]) if d not in dims]
        behind = self.density[leaves] * np.prod((self._high - self._low)[leaves][:, hidden], axis=1)
        low, high = self._low[leaves][:, plane], self._high[leaves][:, plane]
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
        corners = np.stack(np.divmod(np.arange(BINS**2), BINS), axis=1) / BINS
        return Tiles(corners, corners + 1 / BINS, values.ravel())

    def plot(
        self, dims: Any, at: Any, layer: str, step: int, *, projection: bool, action_dim: int, axes: Any = None
    ) -> Any:
        """Draw the policy; the parameters are those of `Agent.plot`."""
        if axes is not None and not isinstance(axes, Axes):
            expected = "expected the matplotlib Axes of one picture, such as axes[0]"
            raise ParameterError(f"ax: {expected}, got {axes!r:.80}")
        if layer not in LAYERS:
            raise ParameterError(f"layer: expected one of {', '.join(LAYERS)}, got {layer!r:.80}")
        step = check_whole(step, "step", 0, self.partition.steps - 1)
        action_dim = check_whole(action_dim, "action_dim", 0, self.problem.actions.dimensions - 1)
        names, states, actions = self.labels.states, self.problem.states, self.problem.actions
        if len(names) == 1:
            return self.plot_states_and_actions(layer, step, action_dim, axes=axes)
        plane = self._check_dims(dims)
        hidden = [d for d in range(len(names)) if d not in plane]
        if projection:
            tiles = self.projection(plane, layer, step=step, action_dim=action_dim)
            note = f"over all of {', '.join(names[d] for d in hidden)}, by visits" if hidden else ""
        else:
            values = self._check_at(at)
            unit = states.to_unit(np.clip(values, states.low, states.high))
            tiles, _ = self.slice(plane, unit, layer, step=step, action_dim=action_dim)
            note = f"{len(tiles.values):,} boxes of states, {len(self.partition):,} cells"
            if hidden:
                note = "at " + ", ".join(f"{names[d]} = {values[d]:.3g}" for d in hidden)
        limits = None
        if layer == "policy" and isinstance(actions, Box):
            limits = float(actions.low[action_dim]), float(actions.high[action_dim])
        scale = (states.high - states.low)[plane]
        low, high = (states.low[plane] + corner * scale for corner in (tiles.low, tiles.high))
        return figures.cells(
            low,
            high,
            tiles.values,
            title=self._make_title(step),
            note=note,
            labels=(names[plane[0]], names[plane[1]]),
            value_label=self._name_layer(layer, action_dim, "that decides"),
            limits=limits,
            names=self.labels.actions if self.discrete and layer == "policy" else None,
            log=layer == "visits",
            borders=not projection,
            axes=axes,
        )

    def _make_title(self, step: int) -> str:
        return self.title + (f", step {step}" if self.partition.steps > 1 else "")

    def plot_states_and_actions(
        self,
        layer: str,
        step: int = 0,
        action_dim: int = 0,
        lines: Mapping[str, tuple[Any, Any]] | None = None,
        axes: Axes | None = None,
    ) -> Any:
        """Draw one observed dimension: states across, actions upwards, the greedy policy outlined, and more lines.

        Where an action has several dimensions, cells lie over each other, and only the greedy policy is shown.  A cell
        of a single action is a narrow band.
        """
        space, boxes = self.problem.actions, self.partition.forest.boxes[: len(self.partition)]
        bottom, top = space.from_unit(boxes)[:, :, action_dim].T
        y_range = -0.5, len(self.labels.actions) - 0.5
        if isinstance(space, Box):
            y_range = float(space.low[action_dim]), float(space.high[action_dim])
            bottom, top = to_bands(bottom, top, y_range)
        else:
            bottom, top = bottom - 0.5, top + 0.5

        def place(nodes: NDArray[np.integer], cells: NDArray[np.integer]) -> tuple[Floats, Floats]:
            """Return the low and the high corners of cells over nodes."""
            left, right = (self.problem.states.from_unit(corner[nodes])[:, 0] for corner in (self._low, self._high))
            return np.stack([left, bottom[cells]], axis=1), np.stack([right, top[cells]], axis=1)

        leaves = self._find_leaves(step)
        leaves = leaves[np.argsort(self._low[leaves, 0])]
        first, last = place(leaves, self.chosen[leaves])
        cells: NDArray[np.integer] = np.flatnonzero(self._cells["root"] == step)
        nodes, shown = self._cells["node"][cells], "q" if layer == "policy" else layer
        if boxes.shape[2] > 1:
            cells, nodes, shown = self.chosen[leaves], leaves, "q" if shown == "visits" else shown
        if shown == "visits":
            width = (boxes[:, 1] - boxes[:, 0])[cells, 0]
            thick = np.where(width > 0.0, width, 1.0)  # a single action shares with no other
            density = self._cells["visits"][cells] / ((self._high - self._low)[nodes, 0] * thick)
            values = self._relative(density, step)
        else:
            values = self.cell_values(shown, cells, action_dim)
        return figures.cells(
            *place(nodes, cells),
            values,
            title=self._make_title(step),
            note=f"{len(values):,} cells; outlined: the greedy policy",
            labels=(self.labels.states[0], "" if self.discrete else self.labels.actions[action_dim]),
            value_label=self._name_layer("q" if layer == "policy" else layer, action_dim, "itself"),
            log=layer == "visits",
            rows=self.labels.actions if self.discrete else None,
            policy=(np.append(first[:, 0], last[-1, 0]), first[:, 1], last[:, 1]),
            lines=lines,
            y_range=y_range,
            axes=axes,
        )

    def _name_layer(self, layer: str, action_dim: int, cell: str) -> str:
        """Return the meaning of the colours of a layer."""
        bonus = "1" if self.scaling is None else f"{self.scaling:g}"
        return {
            "policy": "greedy action" if self.discrete else self.labels.actions[action_dim],
            "q": f"Q of the cell {cell}",
            "visits": "visits relative to an even spread",
            "depth": f"depth of the cell {cell}",
            "uncertainty": f"{bonus} / sqrt(visits) of the cell {cell}",
        }[layer]

    def _find_dim(self, name: Any, what: str) -> int:
        """Return the index of an observed dimension, by its name or index."""
        names = self.labels.states
        if isinstance(name, str) and name in names:
            return names.index(name)
        if isinstance(name, int | np.integer) and not isinstance(name, bool) and 0 <= name < len(names):
            return int(name)
        raise ParameterError(
            f"{what}: expected an index from 0 to {len(names) - 1} or one of {', '.join(names)}, got {name!r:.80}"
        )

    def _check_dims(self, dims: Any) -> list[int]:
        if dims is None:
            return self.main_dims()
        if isinstance(dims, str) or not isinstance(dims, Sequence) or len(dims) != 2:
            raise ParameterError(f"dims: expected two observed dimensions, by index or name, got {dims!r:.80}")
        plane = [self._find_dim(name, "dims") for name in dims]
        if plane[0] == plane[1]:
            raise ParameterError(f"dims: expected two different observed dimensions, got {dims!r:.80}")
        return plane

    def _check_at(self, at: Any) -> Floats:
        """Return a state in the problem's units: the median of the visits, but for the values given."""
        values = self.problem.states.from_unit(self.median_state())
        if isinstance(at, Mapping):
            given = {self._find_dim(name, "at"): value for name, value in at.items()}
        elif at is None or (not isinstance(at, str) and np.ndim(at) == 1 and len(at) == len(values)):
            given = dict(enumerate(at if at is not None else ()))
        else:
            expected = f"{len(values)} numbers, or some of them by index or name"
            raise ParameterError(f"at: expected {expected}, got {at!r:.80}")
        for d, value in given.items():
            values[d] = check_number(value, f"at {self.labels.states[d]}")
        return values


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
