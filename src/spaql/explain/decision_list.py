"""A decision list of few boxes for a decision tree: the first box that contains a state decides as the tree does.

The leaves of a tree are boxes, often many for one choice.  A list of boxes in order needs fewer, because an earlier box
may be an exception to a later one.  Finding the fewest is hard.  Here lists are built from the last box back: all
leaves start with one choice, and each new box overwrites the choice of the leaves inside it.  A box is worth the leaves
that it sets right, less a penalty for each that it sets wrong.  It starts as one wrong leaf, and its sides move
outwards as long as that makes it worth more.  The shortest of several such lists wins.

Lists are in the unit cube.  A box may wrap around along a periodic dimension: its low is then above its high.  Only
the order of borders matters, so the search replaces each by its rank: cuts may be anywhere, and adding a period, where
a box wraps around, does not round.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spaql.partition.jit import kernel
from spaql.partition.spaces import Floats
from spaql.partition.tree import Tree

MOST = 1_000  # leaves that are searched together; larger trees are cut into subtrees
_SORTED = 3_000  # boxes up to which they are sorted by weight
_RANKS = 2.0**32  # more than there are borders
# Effort for trees of up to so many leaves: wrong leaves tried for each box, number of defaults tried, and penalties.
_EFFORTS: tuple[tuple[float, int, int, tuple[float, ...]], ...] = (
    (500, 32, 3, (1.0, 2.0)),
    (3_000, 16, 3, (1.0, 2.0)),
    (20_000, 16, 1, (1.0,)),
    (np.inf, 4, 1, (1.0,)),
)
_PARTLY = -2  # the choice of a leaf that was overwritten in part only
_APART, _ACROSS, _INSIDE = range(3)


class DecisionList(NamedTuple):
    """Boxes of which the first that contains a state decides, and the choice where none does."""

    low: Floats  # [boxes, states]
    high: Floats  # [boxes, states] below low where a box wraps around; in the search, above 1 there
    choices: NDArray[np.int64]  # [boxes]
    default: int

    @property
    def conditions(self) -> int:
        """Comparisons in all."""
        bounded = self.high - self.low < 1.0
        return int((bounded & (self.low > 0.0)).sum() + (bounded & (self.high != 1.0)).sum())


class Leaves(NamedTuple):
    """Leaves of a tree, the box that all of them fill, and scratch arrays."""

    low: Floats  # [n, states]
    high: Floats  # [n, states]
    target: NDArray[np.int64]  # [n] the choice of the tree
    first: Floats  # [states] low corner of the box
    last: Floats  # [states] high corner
    wraps: NDArray[np.bool_]  # [states] whether boxes may wrap around
    current: NDArray[np.int64]  # [n] the choice of the list so far
    weights: Floats  # [n] worth of reaching each leaf
    places: Floats  # [n] where a moving side reaches a leaf
    worths: Floats  # [n] the weight of that leaf


def make_decision_list(tree: Tree, step: int, whole: NDArray[np.bool_]) -> DecisionList:
    """Find a short list of boxes that decides as a tree does at a time step.

    `whole` [states] marks integer dimensions; leaves without any integer may get any choice.  Above 1,000 leaves the
    lists of subtrees are joined, each with a box for its default, so that the result is longer than necessary.
    """
    low, high, target = tree.leaves(step)
    kept = np.ones(len(low), np.bool_)
    for d in np.flatnonzero(whole):
        first, after = (tree.to_integers(int(d), side[:, d]) for side in (low, high))
        kept &= (first < after) | (low[:, d] == 0.0) | (high[:, d] == 1.0)
    edges = [np.append(np.unique(side), 1.0) for side in low.T]
    low, high = (np.stack([_rank(*pair) for pair in zip(edges, side.T, strict=True)], axis=1) for side in (low, high))
    lists: list[DecisionList] = []
    for part in _cut_into_parts(tree, step):
        first, last, here = low[part].min(axis=0), high[part].max(axis=0), kept[part]
        wraps = (last - first == 1.0) & np.isin(np.arange(len(first)), tree.periodic)
        corners, choices = (low[part][here], high[part][here]), target[part][here]
        if len(choices):
            scratch = np.empty_like(choices), *np.empty((3, len(choices)))
            found = _find_shortest(Leaves(*corners, choices, first, last, wraps, *scratch), len(target))
            lists += [found, DecisionList(first[None], last[None], np.array([found.default]), found.default)]
    low, high, choices = (np.concatenate(column) for column in list(zip(*lists[:-1], strict=True))[:3])
    high = np.where(high > 1.0, high - 1.0, high)
    low, high = (np.stack([_unrank(*pair) for pair in zip(edges, side.T, strict=True)], axis=1) for side in (low, high))
    return DecisionList(low, high, choices, lists[-1].default)


def _rank(edges: Floats, values: Floats) -> Floats:
    """Return small binary fractions in the order of values, all of which are edges; 0 and 1 stay."""
    return np.where(values == 1.0, 1.0, np.searchsorted(edges, values) / _RANKS)


def _unrank(edges: Floats, ranks: Floats) -> Floats:
    """Return the values that have these ranks."""
    return edges[np.where(ranks == 1.0, len(edges) - 1, ranks * _RANKS).astype(np.int64)]


def sort_by_weight(boxes: DecisionList, weights: Floats) -> DecisionList:
    """Move the boxes of largest weight [boxes] to the front, as far as no decision changes.

    Two boxes keep their order where they overlap and differ in choice.  Very long lists stay as they are.
    """
    count = len(boxes.choices)
    if count > _SORTED:
        return boxes
    before = np.zeros((count, count), np.bool_)  # [first, second] whether this order must stay
    wraps = (boxes.low > boxes.high).astype(int)
    for rule in range(count):
        # Two intervals overlap where each begins before the other ends; where one wraps around, either suffices.
        ends = np.stack([boxes.low < boxes.high[rule], boxes.high > boxes.low[rule]]).sum(axis=0)
        overlap = ends + wraps + wraps[rule] >= 2
        before[rule, rule + 1 :] = (overlap.all(axis=1) & (boxes.choices != boxes.choices[rule]))[rule + 1 :]
    urgency = weights.copy()
    for rule in range(count - 1, -1, -1):
        urgency[rule] = max(urgency[rule], urgency[before[rule]].max(initial=0.0))
    blocked, order = before.sum(axis=0), []
    for _ in range(count):
        rule = int(np.argmax(np.where(blocked == 0, urgency, -1.0)))
        order.append(rule)
        blocked[rule] = -1
        blocked[before[rule]] -= 1
    return boxes._replace(low=boxes.low[order], high=boxes.high[order], choices=boxes.choices[order])


def _cut_into_parts(tree: Tree, step: int) -> Iterator[slice]:
    """Yield the places in `tree.leaves` of subtrees of at most `MOST` leaves."""
    counts = np.ones(len(tree.dims) + 1, np.int64)  # of leaves below each node; the last is for references to leaves
    for node in range(len(tree.dims) - 1, -1, -1):
        counts[node] = counts[np.maximum(tree.children[node], -1)].sum()
    waiting, place = [int(tree.roots[step])], 0
    while waiting:
        at = waiting.pop()
        count = int(counts[max(at, -1)])
        if count <= MOST:
            yield slice(place, place + count)
            place += count
        else:
            waiting += [int(tree.children[at, 1]), int(tree.children[at, 0])]


def _find_shortest(leaves: Leaves, size: int) -> DecisionList:
    """Return the shortest of a few lists, with one of the commonest choices as default, for a tree of this size."""
    lists: list[tuple[Any, ...]] = []
    _, tries, defaults, penalties = next(effort for effort in _EFFORTS if size <= effort[0])
    for default in np.argsort(-np.bincount(leaves.target), kind="stable")[:defaults]:
        for penalty in penalties:
            leaves.current[:] = default
            low, high, choices = np.empty_like(leaves.low), np.empty_like(leaves.low), np.empty_like(leaves.target)
            holders = np.full_like(choices, -1)
            search(leaves, penalty, tries, low, high, choices, holders)
            held = holders >= 0
            used, places = np.unique(holders[held], return_inverse=True)  # a box that is first for no leaf is dropped
            boxes = DecisionList(low[used], high[used], choices[used], int(default))
            lists.append((len(used), boxes.conditions, len(lists), boxes, held, places))
    *_, boxes, held, places = min(lists)
    # Shrink every box to the leaves that it is the first to contain; sides at the end of a range stay.
    low, high = np.full_like(boxes.low, np.inf), np.full_like(boxes.high, -np.inf)
    np.minimum.at(low, places, leaves.low[held])
    np.maximum.at(high, places, leaves.high[held])
    wraps = boxes.high > 1.0
    low = np.where(wraps | (boxes.low == 0.0), boxes.low, low)
    high = np.where(wraps | (boxes.high == 1.0), boxes.high, high)
    return boxes._replace(low=low, high=high)


@kernel()
def relate(e, leaf, low, high, skip):
    """Return whether a leaf is apart from a box, across its border or inside, in all dimensions but one."""
    relation = _INSIDE
    for d in range(low.shape[0]):
        if d == skip or high[d] - low[d] >= 1.0:
            continue
        a, b = e.low[leaf, d], e.high[leaf, d]
        if b <= low[d]:  # in the next period, should the box wrap around
            a, b = a + 1.0, b + 1.0
        if a >= high[d]:
            return _APART
        if a < low[d] or b > high[d]:
            relation = _ACROSS
    return relation


@kernel()
def find_end(e, low, high, dim, sign):
    """Find how far one side of a box is best moved: the end, and what that adds to its worth."""
    # A leaf that becomes right (weight 1) counts once it is inside, one that becomes wrong (below 0) once touched.
    start, limit = (high[dim], e.last[dim]) if sign > 0 else (low[dim], e.first[dim])
    if e.wraps[dim]:
        limit = low[dim] + 1.0 if sign > 0 else high[dim] - 1.0
    count = 0
    for k in range(e.low.shape[0]):
        if e.weights[k] == 0.0:
            continue
        near, far = e.low[k, dim], e.high[k, dim]
        if far <= low[dim] and (sign > 0 or near + 1.0 < high[dim]):
            near, far = near + 1.0, far + 1.0
        elif sign < 0 and near >= high[dim]:
            near, far = near - 1.0, far - 1.0
        across = near < low[dim] if sign > 0 else far > high[dim]  # the other side
        if sign < 0:
            near, far = far, near
        if e.weights[k] > 0.0:
            counts = (far - start) * sign > 0.0 and (limit - far) * sign >= 0.0 and not across
            counts = counts and relate(e, k, low, high, dim) == _INSIDE
        else:
            counts = (near - start) * sign >= 0.0 and (limit - near) * sign > 0.0
            counts = counts and relate(e, k, low, high, dim) != _APART
        if counts:
            e.places[count] = far if e.weights[k] > 0.0 else near
            e.worths[count] = e.weights[k]
            count += 1
    end, best = start, 0.0
    for k in range(-1, count):  # candidates: the limit, and the ends of leaves that become right
        to = e.places[k] if k >= 0 else limit
        if k >= 0 and e.worths[k] < 0.0:
            continue
        worth = 0.0
        for m in range(count):
            beyond = (to - e.places[m]) * sign
            if beyond > 0.0 or (beyond == 0.0 and e.worths[m] > 0.0):
                worth += e.worths[m]
        if worth > best or (worth == best and (to - end) * sign > 0.0):
            end, best = to, worth
    return end, best


@kernel()
def widen(e, low, high):
    """Move the sides of a box outwards, always the one that adds most, while none loses; returns the worth added."""
    total = 0.0
    while True:
        most, side, to = -1.0, -1, 0.0
        for k in range(2 * low.shape[0]):
            if high[k // 2] - low[k // 2] >= 1.0:
                continue
            sign = 1 - 2 * (k % 2)
            end, worth = find_end(e, low, high, k // 2, sign)
            if worth > most and end != (high[k // 2] if sign > 0 else low[k // 2]):
                most, side, to = worth, k, end
        if side < 0:
            return total
        total += most
        d = side // 2
        if side % 2:
            low[d] = to
        else:
            high[d] = to
        if high[d] - low[d] >= 1.0:
            low[d], high[d] = 0.0, 1.0
        elif low[d] < 0.0:
            low[d], high[d] = low[d] + 1.0, high[d] + 1.0


@kernel()
def search(e, penalty, tries, lows, highs, choices, holders):
    """Fill `lows`, `highs` and `choices` with boxes, the last first, until all leaves are right.

    Up to `tries` wrong leaves are tried for each box.  `holders` [leaves] become the first box that contains each leaf.
    """
    low, high = np.empty(lows.shape[1]), np.empty(lows.shape[1])
    place = choices.shape[0]
    while True:
        wrong = (e.current != e.target).sum()
        if wrong == 0:
            return
        place -= 1
        most, seen = -1.0, 0
        for k in range(e.current.shape[0]):
            if e.current[k] == e.target[k]:
                continue
            seen += 1
            if wrong > tries and seen * tries // wrong == (seen - 1) * tries // wrong:
                continue
            for m in range(e.current.shape[0]):
                right, same = e.current[m] == e.target[m], e.target[m] == e.target[k]
                e.weights[m] = (0.0 if same else -penalty) if right else (1.0 if same else 0.0)
            low[:] = e.low[k]
            high[:] = e.high[k]
            worth = widen(e, low, high)
            if worth >= most:
                most = worth
                lows[place] = low
                highs[place] = high
                choices[place] = e.target[k]
        for k in range(e.current.shape[0]):
            relation = relate(e, k, lows[place], highs[place], -1)
            if relation == _INSIDE:
                e.current[k] = choices[place]
                holders[k] = place
            elif relation == _ACROSS and e.current[k] != choices[place]:
                e.current[k] = _PARTLY
