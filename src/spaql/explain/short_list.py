"""Small trees that decide about as a policy does, from a sample of states, with axis-aligned and oblique cuts.

There are states x_i and the cost c_ij >= 0 of action a_j in each: whether the policy plays another one, or how much
smaller its Q is.  A leaf plays the action of least total cost.  A tree grows best first, by the cut that saves most
cost; a tenth of the saved impurity (Gini's, of the best actions, weighted by what is at stake) counts too, as two cuts
are sometimes needed before either saves anything.  All earlier sizes of a tree are candidates, among which
`spaql.agents.rule_search` chooses by episodes.

A cut may compare an oblique feature, x_p + w x_q, the same in all cuts of a tree.  Two are tried: the one that saves
most with a single cut, for the shortest lists, and the one with which trees of all sizes cost least.

Coefficients have two significant digits, and cuts are the roundest of the numbers that divide the sample equally: the
list that is measured is one that people can read.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from spaql.partition.spaces import Box, Floats
from spaql.partition.tree import Tree

_IMPURITY = 0.1
_LEAST = 3  # states on either side of a cut
_DEEPEST = 12
_FINEST = 2000  # cuts that are tried of a feature
_COMMON = 0.05  # share of states at either end that do not count for the scale of a feature
_ANGLES = 24  # directions that are tried of a pair of numbers
_FLAT = 0.05  # slope below which a direction is too near an axis, in scales of both numbers
_COARSE = 32  # cuts that are tried of each
_PAIRS = 8  # pairs that are tried in whole trees
_FEW = 1500  # states by which directions are compared


class Oblique(NamedTuple):
    """The number x[first] + coefficient * x[second]."""

    first: int
    second: int
    coefficient: float


class Sample(NamedTuple):
    """States, what each action costs there, and what may be compared."""

    numbers: Floats  # [n, states] in the problem's units; of a periodic number the fraction of its period
    costs: Floats  # [n, actions]
    box: Box  # ranges of the numbers; of a fraction from 0 to 1
    whole: NDArray[np.bool_]  # [states] integers
    periodic: tuple[int, ...]  # fractions, which are in no oblique feature


class Choices(NamedTuple):
    """Actions among which leaves choose."""

    points: Floats  # [actions, k] in the unit cube, or numbers of discrete actions
    values: Floats  # [actions, k] in the units of the problem's actions
    played: NDArray[Any]  # [actions, ...] as the environment takes them


@dataclass(frozen=True, eq=False)
class Growth:
    """A tree in the order of its growth: its first s - 1 cuts make the tree of s leaves."""

    features: tuple[Oblique, ...]
    dims: list[int] = field(default_factory=list)  # of cut k: the number that is compared; features stand behind states
    cuts: list[float] = field(default_factory=list)  # least value of the upper side
    nodes: list[int] = field(default_factory=list)  # the node that is divided, into 2k + 1 and 2k + 2
    actions: list[int] = field(default_factory=list)  # of each node
    costs: list[float] = field(default_factory=list)  # of the trees of 1, 2, ... leaves


@dataclass(frozen=True, eq=False)
class FeatureTree(Tree):
    """A tree that compares observed numbers and, behind them, oblique features of them.

    Its cuts are exact in their own units, and observed numbers outside the range are not clipped to it.
    """

    features: tuple[Oblique, ...] = ()
    exact: Mapping[tuple[int, float], float] = field(default_factory=dict)  # of a dimension and a cut in the unit cube

    @classmethod
    def from_tree(cls, tree: Tree) -> Self:
        """Return a tree without features that decides as a given one."""
        parts = {name: getattr(tree, name) for name in Tree.__dataclass_fields__}
        pairs = zip(tree.dims.tolist(), tree.cuts.tolist(), strict=True)
        return cls(**parts, exact=dict(zip(pairs, tree.thresholds.tolist(), strict=True)))

    def find_thresholds(self, dims: NDArray[Any], cuts: Floats, turns: Floats | float = 0.0) -> Floats:
        """Return cuts `[n]` in their own units, as they were chosen."""
        ends = {0.0: self.states.low, 1.0: self.states.high}
        pairs = zip(np.asarray(dims).tolist(), np.asarray(cuts).tolist(), strict=True)
        return np.array([self.exact[d, cut] if (d, cut) in self.exact else ends[cut][d] for d, cut in pairs])

    def to_units(self, dim: int, cuts: Floats, turns: Floats | float = 0.0) -> Floats:
        """Return cuts `[n]` in their own units; those of periodic numbers are rounded for display."""
        if dim in self.periodic:
            return super().to_units(dim, cuts, turns)
        return self.find_thresholds(np.full(len(cuts), dim), cuts)

    @cached_property
    def _columns(self) -> tuple[list[int], list[float], list[list[int]]]:
        return self.dims.tolist(), self.thresholds.tolist(), self.children.tolist()

    def extend(self, numbers: Floats) -> Floats:
        """Return what is compared, `[n, states + features]`: fractions of periods, other numbers, features."""
        size, periodic = self.states.dimensions - len(self.features), list(self.periodic)
        values = np.array(numbers, dtype=float)
        if periodic:
            box = Box(self.states.low[:size], self.states.high[:size])
            values[:, periodic] = box.project(values, periodic)[:, periodic]
        return add_features(values, self.features)

    def find_choices(self, numbers: Floats) -> NDArray[np.int64]:
        """Return the choice for each row of observed numbers `[n, states]`."""
        if len(numbers) == 1 and not self.periodic:  # NumPy takes longer for a single row
            row = numbers[0].tolist()
            row += [row[p] + coefficient * row[q] for p, q, coefficient in self.features]
            dims, edges, children = self._columns
            node = int(self.roots[0])
            while node >= 0:
                node = children[node][row[dims[node]] >= edges[node]]
            return np.array([~node])
        values, thresholds = self.extend(numbers), self.thresholds
        at = np.full(len(values), self.roots[0], np.int64)
        while (inner := np.flatnonzero(at >= 0)).size:
            nodes = at[inner]
            at[inner] = self.children[nodes, (values[inner, self.dims[nodes]] >= thresholds[nodes]).astype(int)]
        return ~at


def add_features(numbers: Floats, features: Sequence[Oblique]) -> Floats:
    """Return numbers `[n, states]` with features behind them."""
    return np.column_stack([numbers, *(numbers[:, p] + coefficient * numbers[:, q] for p, q, coefficient in features)])


def extend_box(box: Box, features: Sequence[Oblique]) -> Box:
    """Return the ranges of numbers and of features of them."""
    low, high = box.low.tolist(), box.high.tolist()
    for p, q, coefficient in features:
        ends = sorted((coefficient * box.low[q], coefficient * box.high[q]))
        low.append(box.low[p] + ends[0])
        high.append(box.high[p] + ends[1])
    return Box(low, high)


def grow(sample: Sample, features: Sequence[Oblique], most: int) -> Growth:
    """Grow a tree of at most `most` leaves that compares numbers and features."""
    table = _Table(sample, features)
    total = sample.costs.sum(axis=0)
    growth = Growth(tuple(features), actions=[int(total.argmin())], costs=[float(total.min())])
    masks, depths = [np.ones(len(sample.costs), np.bool_)], [0]
    splits = [table.find_split(masks[0])]
    while len(growth.cuts) + 1 < most:
        node = max(range(len(splits)), key=lambda k: splits[k][0])
        gain, dim, cut = splits[node]
        if gain <= 0.0:
            break
        splits[node] = _NO_SPLIT
        upper, cost = table.values[:, dim] >= cut, growth.costs[-1] - sample.costs[masks[node]].sum(axis=0).min()
        for mask in (masks[node] & ~upper, masks[node] & upper):
            total = sample.costs[mask].sum(axis=0)
            cost += total.min()
            growth.actions.append(int(total.argmin()))
            masks.append(mask)
            depths.append(depths[node] + 1)
            splits.append(table.find_split(mask) if depths[-1] < _DEEPEST else _NO_SPLIT)
        growth.dims.append(dim)
        growth.cuts.append(cut)
        growth.nodes.append(node)
        growth.costs.append(float(cost))
    return growth


_NO_SPLIT = (-1.0, 0, 0.0)  # gain, number that is compared, cut


class _Table:
    """A sample with its features, prepared for the search of cuts."""

    def __init__(self, sample: Sample, features: Sequence[Oblique]) -> None:
        self.values, self.costs = add_features(sample.numbers, features), sample.costs
        self.orders = [np.argsort(column, kind="stable") for column in self.values.T]
        box, whole = extend_box(sample.box, features), np.append(sample.whole, np.zeros(len(features), np.bool_))
        ranges = zip(self.values.T, box.low.tolist(), box.high.tolist(), whole.tolist(), strict=True)
        self.edges = [_list_cuts(*limits) for limits in ranges]
        self.stakes = np.zeros_like(self.costs)
        self.stakes[np.arange(len(self.costs)), self.costs.argmin(axis=1)] = np.ptp(self.costs, axis=1)

    def find_split(self, mask: NDArray[np.bool_]) -> tuple[float, int, float]:
        """Return the best split of the rows in a mask, and a negative gain where there is none."""
        size, best, saved = int(mask.sum()), _NO_SPLIT, 1e-12
        total, classes = self.costs[mask].sum(axis=0), self.stakes[mask].sum(axis=0)
        impurity = _measure_impurity(classes[None])[0]
        if size < 2 * _LEAST or not impurity > saved:
            return best
        for dim, (order, edges) in enumerate(zip(self.orders, self.edges, strict=True)):
            rows = order[mask[order]]
            column = self.values[rows, dim]
            counts = np.unique(np.searchsorted(column, edges))
            counts = counts[(counts >= _LEAST) & (counts <= size - _LEAST)]
            if not len(counts):
                continue
            lower, below = (np.cumsum(table[rows], axis=0)[counts - 1] for table in (self.costs, self.stakes))
            gains = total.min() - lower.min(axis=1) - (total - lower).min(axis=1)
            gains += _IMPURITY * (impurity - _measure_impurity(below) - _measure_impurity(classes - below))
            at = int(gains.argmax())
            if gains[at] > saved:
                count, saved = counts[at], gains[at] * (1.0 + 1e-9)  # of equal ones the first
                best = float(gains[at]), dim, _choose_round(edges, column[count - 1], column[count])
        return best


def _measure_impurity(classes: Floats) -> Floats:
    """Return Gini's impurity of weighted classes `[n, actions]`, times their weight."""
    total = np.maximum(classes.sum(axis=1), 1e-300)
    impurity: Floats = np.maximum(total - (np.maximum(classes, 0.0) ** 2).sum(axis=1) / total, 0.0)
    return impurity


def _choose_round(edges: Floats, below: float, above: float) -> float:
    """Return the edge of fewest digits above one number and up to another; of several the one nearest the middle."""
    between = edges[(edges > below) & (edges <= above)]
    digits = np.array([len(f"{abs(edge):.6g}".replace(".", "").strip("0")) for edge in between.tolist()])
    shortest = between[digits == digits.min()]
    return float(shortest[np.abs(shortest - 0.5 * (between[0] + between[-1])).argmin()])


def _list_cuts(values: Floats, low: float, high: float, whole: bool) -> Floats:
    """Return decimal numbers inside a range at which a feature `[n]` may be cut: about a thousand over its spread."""
    first, last = np.quantile(values, [_COMMON, 1.0 - _COMMON])
    spread = last - first if last > first else np.ptp(values)
    least, most = max(low, values.min()), min(high, values.max())
    if not spread > 0.0 or not most > least:
        return np.empty(0)
    places = 3 - math.ceil(math.log10(spread))  # decimals; negative for tens, hundreds, ...
    if whole:
        places = min(places, 0)
    while (most - least) * 10.0**places > _FINEST:
        places -= 1
    steps = np.arange(math.floor(least * 10.0**places), math.ceil(most * 10.0**places) + 1)
    cuts = np.array([float(f"{step:.0f}e{-places}") for step in steps.tolist()]) + 0.0
    return cuts[(cuts > low) & (cuts < high)]


def find_directions(sample: Sample, most: int) -> list[Oblique]:
    """Return the oblique feature that saves most with one cut, and the one with which trees of all sizes cost least.

    `most` is the largest size.  There is one feature where they are the same, and none where there is no pair.
    """
    rows = np.linspace(0, len(sample.costs) - 1, min(_FEW, len(sample.costs))).astype(np.int64)
    few = sample._replace(numbers=sample.numbers[rows], costs=sample.costs[rows])
    scales = np.ptp(np.quantile(few.numbers, [_COMMON, 1.0 - _COMMON], axis=0), axis=0)
    usable = [d for d in np.flatnonzero(scales > 0.0).tolist() if d not in sample.periodic]
    rated = sorted((_rate_pair(few, scales, p, q) for p, q in combinations(usable, 2)), reverse=True)
    if not rated:
        return []

    def rate(feature: Oblique) -> float:
        costs = grow(few, [feature], most).costs
        return sum(costs) + (most - len(costs)) * costs[-1]

    best = min((feature for _, feature in rated[:_PAIRS]), key=rate)
    return list(dict.fromkeys([rated[0][1], min(_list_near(best, scales), key=rate)]))


def _rate_pair(sample: Sample, scales: Floats, p: int, q: int) -> tuple[float, Oblique]:
    """Return what a single cut saves in the best direction of a pair of numbers, and this direction."""
    features = [Oblique(p, q, each) for each in _list_coefficients(np.arange(_ANGLES) + 0.5, scales, p, q)]
    columns = [sample.numbers[:, p] + feature.coefficient * sample.numbers[:, q] for feature in features]
    return max((_rate_cut(column, sample.costs), feature) for column, feature in zip(columns, features, strict=True))


def _list_coefficients(places: NDArray[Any], scales: Floats, p: int, q: int) -> list[float]:
    """Return coefficients of two digits for directions `places` of a pair, 24 to the half turn, but for the axes."""
    slopes = np.tan(places * math.pi / _ANGLES)
    slopes = slopes[(np.abs(slopes) > _FLAT) & (np.abs(slopes) < 1.0 / _FLAT)] * scales[p] / scales[q]
    return [float(f"{slope:.1e}") for slope in slopes.tolist()]


def _list_near(feature: Oblique, scales: Floats) -> list[Oblique]:
    """Return a direction, others near it, and one of a single digit."""
    p, q, coefficient = feature
    place = math.atan2(coefficient * scales[q], scales[p]) * _ANGLES / math.pi
    near = _list_coefficients(place + np.array([-0.5, -0.25, 0.25, 0.5]), scales, p, q)
    return [Oblique(p, q, each) for each in dict.fromkeys([float(f"{coefficient:.0e}"), coefficient, *near])]


def _rate_cut(column: Floats, costs: Floats) -> float:
    """Return what the best cut of a feature `[n]` saves, of a few."""
    sums = np.cumsum(costs[np.argsort(column, kind="stable")], axis=0)
    at = np.linspace(0, len(column) - 1, _COARSE + 2).astype(np.int64)[1:-1]
    return float(sums[-1].min() - (sums[at].min(axis=1) + (sums[-1] - sums[at]).min(axis=1)).min())


def make_tree(growth: Growth, leaves: int, states: Box, periodic: Sequence[int], choices: Choices) -> FeatureTree:
    """Return a tree as it was with `leaves` leaves, without cuts between equal actions and without unused features."""
    cut_of = {node: k for k, node in enumerate(growth.nodes[: leaves - 1])}

    def find(node: int) -> Any:
        """Return what is left of a node: an action, or a dimension, a cut, and two such."""
        if node not in cut_of:
            return growth.actions[node]
        k = cut_of[node]
        below, above = find(2 * k + 1), find(2 * k + 2)
        return below if below == above and isinstance(below, int) else [growth.dims[k], growth.cuts[k], below, above]

    waiting: list[Any] = [find(0)]
    for part in waiting:  # grows
        waiting += part[2:] if isinstance(part, list) else []
    inner = [part for part in waiting if isinstance(part, list)]
    played = sorted({part for part in waiting if isinstance(part, int)})
    number = {id(part): k for k, part in enumerate(inner)}

    def refer(part: Any) -> int:
        return ~played.index(part) if isinstance(part, int) else number[id(part)]

    size = states.dimensions
    used = sorted({part[0] for part in inner if part[0] >= size})
    features = tuple(growth.features[dim - size] for dim in used)
    space = extend_box(states, features)
    dims = [size + used.index(part[0]) if part[0] >= size else part[0] for part in inner]
    cuts = [
        part[1] if d in periodic else float((part[1] - space.low[d]) / (space.high[d] - space.low[d]))
        for d, part in zip(dims, inner, strict=True)
    ]
    return FeatureTree(
        states=space,
        periodic=tuple(periodic),
        roots=np.array([refer(waiting[0])], np.int32),
        dims=np.array(dims, np.int16),
        cuts=np.array(cuts, dtype=float),
        children=np.array([[refer(part[2]), refer(part[3])] for part in inner], np.int32).reshape(-1, 2),
        boxes=np.repeat(choices.points[played][:, None], 2, axis=1),
        middles=choices.values[played],
        actions=choices.played[played],
        features=features,
        exact={(d, cut): part[1] for d, cut, part in zip(dims, cuts, inner, strict=True)},
    )
