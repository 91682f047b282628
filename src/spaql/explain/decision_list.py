"""A decision list of few boxes for a decision tree: the first box that contains a state decides as the tree does.

The leaves of a tree are boxes, often many for one choice.  A list of boxes in order needs fewer: where an earlier box
has decided already, a later one may overlap it.  Finding the fewest is hard, so candidates are built greedily in
several ways, from the front (`spaql.explain.forward_search`) and from the back (`spaql.explain.backward_search`); boxes
that are not needed are dropped, and the shortest list wins.

Everything is in the unit cube.  A box may wrap around along a periodic dimension: its high is then above 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spaql.explain.backward_search import Leaves, search_backward
from spaql.explain.forward_search import BoxTree, contains, make_box_tree, overlaps, push_children, search_forward
from spaql.partition.jit import kernel
from spaql.partition.kernels import NONE
from spaql.partition.spaces import Floats
from spaql.partition.tree import Tree

# Leaves up to which the backward search runs too, many strategies are tried, or a few.
BACKWARD, MANY, FEW = 1_000, 3_000, 20_000
_TRIES = 32  # leaves tried for each box, by the strategies that try several


class DecisionList(NamedTuple):
    """Boxes of which the first that contains a state decides, and the choice where none does."""

    low: Floats  # [boxes, states]
    high: Floats  # [boxes, states] above 1 where a box wraps around
    choices: NDArray[np.int64]  # [boxes]
    default: int

    @property
    def conditions(self) -> int:
        """Comparisons in all."""
        bounded = self.high - self.low < 1.0
        return int((bounded & (self.low > 0.0)).sum() + (bounded & (self.high != 1.0)).sum())


def make_decision_list(tree: Tree, step: int, whole: NDArray[np.bool_]) -> DecisionList:
    """Find a short list of boxes that decides as a tree does at a time step.

    `whole` [states] marks integer dimensions; leaves without any integer may get any choice.  Up to 3,000 leaves many
    strategies are tried, up to 1,000 also the backward search, up to 20,000 a few, and above that one, so that the list
    is longer than necessary.
    """
    boxes = make_box_tree(tree, step, whole)
    leaves = np.flatnonzero((boxes.children[:, 0] == NONE) & (boxes.open > 0))
    candidates = [_build_forward(boxes, leaves, strategy) for strategy in _make_strategies(boxes, leaves)]
    if len(leaves) <= BACKWARD:
        candidates += _build_backward(boxes, leaves, most=min(len(each.choices) for each in candidates))
    best = min(candidates, key=lambda each: (len(each.choices), each.conditions))
    return _tighten(boxes, leaves, best) if len(leaves) <= FEW else best


def sort_by_weight(boxes: DecisionList, weights: Floats) -> DecisionList:
    """Move the boxes of largest weight [boxes] to the front, as far as no decision changes.

    Two boxes keep their order where they overlap and differ in choice.  Very long lists stay as they are.
    """
    count = len(boxes.choices)
    if count > MANY:
        return boxes
    before = np.zeros((count, count), np.bool_)  # [first, second] whether this order must stay
    for rule in range(count):
        low, high = boxes.low[rule], boxes.high[rule]
        overlap = (boxes.low < high) & (boxes.high > low)
        overlap |= (boxes.low + 1.0 < high) | (boxes.high - 1.0 > low)
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


class _Strategy(NamedTuple):
    """Settings of a forward search."""

    rank: NDArray[np.int64]  # [choices] which choices come first
    key: Floats  # [leaves] which leaf of a rank comes first
    tries: int
    orders: int  # of sides to grow


def _make_strategies(boxes: BoxTree, leaves: NDArray[np.int64]) -> list[_Strategy]:
    """Return strategies to try: small choices first, by several meanings of small; or along one dimension."""
    low, high, choice = boxes.low[leaves], boxes.high[leaves], boxes.choice[leaves]
    volume = np.prod(high - low, axis=1)
    counts, volumes = np.bincount(choice), np.bincount(choice, volume)
    by_count, by_volume = (np.argsort(np.argsort(size, kind="stable")) for size in (counts, volumes))
    states = low.shape[1]
    strategies = [_Strategy(by_count, -volume, 1, 2 * states), _Strategy(by_volume, -volume, 1, 2 * states)]
    if len(leaves) > MANY:
        return strategies if len(leaves) <= FEW else strategies[:1]
    strategies += [_Strategy(by_count, volume, 1, 2 * states)]
    for default in np.argsort(-counts, kind="stable")[:3]:
        last = np.where(np.arange(len(counts)) == default, len(counts), by_count)
        strategies += [_Strategy(last, -volume, _TRIES, 4 * states)]
    for d in range(states):  # from one end to the other, whatever the choices
        end = choice[np.argmax(high[:, d])]
        strategies += [_Strategy((np.arange(len(counts)) == end).astype(np.int64), low[:, d], 1, 2 * states)]
    return strategies


def _build_forward(base: BoxTree, leaves: NDArray[np.int64], strategy: _Strategy) -> DecisionList:
    states = base.low.shape[1]
    boxes = base._replace(choice=base.choice.copy(), open=base.open.copy())
    rank = strategy.rank[base.choice[leaves]]
    order = np.lexsort((strategy.key, rank))
    low, high = np.empty((2, len(leaves), states))
    choices = np.empty(len(leaves), np.int64)
    sides = _make_orders(states, strategy.orders)
    count = search_forward(boxes, leaves[order], rank[order], strategy.tries, sides, low, high, choices)
    result = DecisionList(low[:count], high[:count], choices[:count], int(boxes.choice[0]))
    return _prune(base, result) if len(leaves) <= FEW else result


def _build_backward(boxes: BoxTree, leaves: NDArray[np.int64], most: int) -> list[DecisionList]:
    """Return lists of at most `most` boxes, with one of the two commonest choices as default."""
    target = boxes.choice[leaves].astype(np.int64)
    scratch = (np.empty(len(leaves)) for _ in range(3))
    state = Leaves(boxes.low[leaves], boxes.high[leaves], target, np.empty_like(target), *scratch)
    lists = []
    for default in np.argsort(-np.bincount(target), kind="stable")[:2]:
        for penalty in (1.0, 2.0):
            low, high = np.empty((2, most, boxes.low.shape[1]))
            choices = np.empty(most, np.int64)
            state.current[:] = default
            count = search_backward(state, penalty, _TRIES // 2, low, high, choices)
            if count >= 0:
                low, high, choices = low[:count][::-1], high[:count][::-1], choices[:count][::-1]
                lists.append(_prune(boxes, DecisionList(low, high, choices, int(default))))
    return lists


def _make_orders(states: int, count: int) -> NDArray[np.int64]:
    """Return orders in which sides grow, `[count, 2 * states]`: side 2 d is the upper along d, 2 d + 1 the lower."""
    random = np.random.default_rng(0)  # always the same
    rows = []
    for row in range(count):
        first = row % states
        others = [d for d in range(states) if d != first]
        dims = [first, *(others if row < states else others[::-1])]
        fixed = np.array([side for d in dims for side in (2 * d, 2 * d + 1)])
        rows.append(fixed if row < 2 * states else random.permutation(2 * states))
    return np.array(rows)


@kernel()
def is_redundant(tree, lows, highs, choices, kept, rule, default):
    """Return whether all leaves are decided as before without one of the kept boxes; all leaves must be open."""
    tree.stack[0] = 0
    waiting = 1
    while waiting > 0:
        waiting -= 1
        node = tree.stack[waiting]
        if not overlaps(tree, node, lows[rule], highs[rule], -1):
            continue
        if tree.children[node, 0] >= 0:
            waiting = push_children(tree, node, waiting, True)
            continue
        if tree.choice[node] == NONE:
            continue
        decision = default
        for other in range(choices.shape[0]):
            if other == rule or not kept[other] or not overlaps(tree, node, lows[other], highs[other], -1):
                continue
            if choices[other] != tree.choice[node]:
                return False
            if contains(tree, node, lows[other], highs[other]):
                decision = choices[other]
                break
        if decision != tree.choice[node]:
            return False
    return True


@kernel()
def find_needed(tree, lows, highs, choices, default, kept):
    """Clear `kept` [boxes] for every box that is not needed, the last first."""
    for rule in range(choices.shape[0] - 1, -1, -1):
        kept[rule] = not is_redundant(tree, lows, highs, choices, kept, rule, default)


@kernel()
def find_holders(tree, leaves, lows, highs, holders):
    """Find the first box that contains each leaf, into `holders` [leaves]; the number of boxes where none does."""
    for k in range(leaves.shape[0]):
        box = 0
        while box < lows.shape[0] and not contains(tree, leaves[k], lows[box], highs[box]):
            box += 1
        holders[k] = box


def _prune(boxes: BoxTree, result: DecisionList) -> DecisionList:
    """Drop boxes that are not needed."""
    low, high = np.ascontiguousarray(result.low), np.ascontiguousarray(result.high)
    choices = np.ascontiguousarray(result.choices)
    kept = np.ones(len(choices), np.bool_)
    find_needed(boxes, low, high, choices, result.default, kept)
    return DecisionList(low[kept], high[kept], choices[kept], result.default)


def _tighten(boxes: BoxTree, leaves: NDArray[np.int64], result: DecisionList) -> DecisionList:
    """Shrink every box to the leaves that it is the first to contain; sides at the end of a range stay."""
    holders = np.empty(len(leaves), np.int64)
    find_holders(boxes, leaves, result.low, result.high, holders)
    held = holders < len(result.choices)
    low, high = np.full_like(result.low, np.inf), np.full_like(result.high, -np.inf)
    np.minimum.at(low, holders[held], boxes.low[leaves[held]])
    np.maximum.at(high, holders[held], boxes.high[leaves[held]])
    wraps = result.high > 1.0
    low = np.where(wraps | (result.low == 0.0), result.low, low)
    high = np.where(wraps | (result.high == 1.0), result.high, high)
    return result._replace(low=low, high=high)
