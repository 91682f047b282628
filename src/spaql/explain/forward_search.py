"""Decision lists built from the first box on.

A leaf of the tree is *open* until it lies inside a box of the list, and a box may be appended if all open leaves that
it overlaps have its own choice.  So the first box that contains a state decides right: had the state's leaf been closed
before, an earlier box would contain the state.  When all open leaves have one choice, that is the default.

A box starts as an open leaf and grows, side by side, as far as it overlaps no open leaf of another choice; of several
orders of the sides the one that closes most leaves is kept.

Everything is in the unit cube.  A box may wrap around along a periodic dimension: its high is then above 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spaql.partition.jit import kernel
from spaql.partition.kernels import NONE
from spaql.partition.spaces import Floats
from spaql.partition.tree import Tree

MIXED = -2


class BoxTree(NamedTuple):
    """A decision tree with a box for every node and the open leaves below it; leaves have no children."""

    low: Floats  # [nodes, states]
    high: Floats  # [nodes, states]
    children: NDArray[np.int32]  # [nodes, 2]
    parent: NDArray[np.int32]  # [nodes]
    choice: NDArray[np.int32]  # [nodes] of all open leaves below, NONE without any, or MIXED
    open: NDArray[np.int32]  # [nodes] number of open leaves below
    periodic: NDArray[np.bool_]  # [states]
    stack: NDArray[np.int32]  # [nodes + 1] for walks


@kernel()
def overlaps(tree, node, low, high, skip):
    """Return whether a node's box overlaps a box in all dimensions but one."""
    for d in range(low.shape[0]):
        a, b = tree.low[node, d], tree.high[node, d]
        if d != skip and not ((a < high[d] and b > low[d]) or a + 1.0 < high[d]):
            return False
    return True


@kernel()
def contains(tree, node, low, high):
    """Return whether a node's box lies inside a box."""
    for d in range(low.shape[0]):
        a, b = tree.low[node, d], tree.high[node, d]
        if not ((low[d] <= a and b <= high[d]) or (low[d] <= a + 1.0 and b + 1.0 <= high[d])):
            return False
    return True


@kernel()
def push_children(tree, node, waiting, flip):
    """Push the children of a node on the stack, the lower last or first; returns the new height."""
    tree.stack[waiting] = tree.children[node, 0 if flip else 1]
    tree.stack[waiting + 1] = tree.children[node, 1 if flip else 0]
    return waiting + 2


@kernel()
def find_limit(tree, low, high, choice, dim, sign, start, limit):
    """Find how far a side can move from `start`, up (sign 1) or down (-1) along `dim`, at most to `limit`."""
    start, limit = sign * start, sign * limit
    tree.stack[0] = 0
    waiting = 1
    while waiting > 0:
        waiting -= 1
        node = tree.stack[waiting]
        near, far = tree.low[node, dim], tree.high[node, dim]
        if sign < 0:
            near, far = -far, -near
        if tree.choice[node] == NONE or tree.choice[node] == choice or far <= start or near >= limit:
            continue
        if not overlaps(tree, node, low, high, dim):
            continue
        if tree.children[node, 0] < 0:
            limit = max(near, start)
        else:
            waiting = push_children(tree, node, waiting, sign < 0)
    return sign * limit


@kernel()
def grow_side(tree, low, high, choice, dim, sign):
    """Move one side of a box outwards as far as possible; along a periodic dimension it may wrap around."""
    if high[dim] - low[dim] >= 1.0:
        return
    wraps = high[dim] > 1.0
    if sign > 0:
        if not wraps:
            high[dim] = find_limit(tree, low, high, choice, dim, 1, high[dim], 1.0)
        if tree.periodic[dim] and high[dim] >= 1.0 and low[dim] > 0.0:
            high[dim] = 1.0 + find_limit(tree, low, high, choice, dim, 1, high[dim] - 1.0, low[dim])
    elif wraps:
        low[dim] = find_limit(tree, low, high, choice, dim, -1, low[dim], high[dim] - 1.0)
    else:
        low[dim] = find_limit(tree, low, high, choice, dim, -1, low[dim], 0.0)
        if tree.periodic[dim] and low[dim] == 0.0 and high[dim] < 1.0:
            low[dim] = find_limit(tree, low, high, choice, dim, -1, 1.0, high[dim])
            high[dim] += 1.0
            if low[dim] == 1.0:
                low[dim], high[dim] = 0.0, high[dim] - 1.0
    if high[dim] - low[dim] >= 1.0:
        low[dim], high[dim] = 0.0, 1.0


@kernel()
def count_open(tree, low, high, close):
    """Count the open leaves inside a box, and close them if asked to."""
    total = 0
    tree.stack[0] = 0
    waiting = 1
    while waiting > 0:
        waiting -= 1
        node = tree.stack[waiting]
        if tree.open[node] == 0 or not overlaps(tree, node, low, high, -1):
            continue
        is_leaf = tree.children[node, 0] < 0
        if (is_leaf or not close) and contains(tree, node, low, high):
            total += tree.open[node]
            if close:
                close_leaf(tree, node)
        elif not is_leaf:
            waiting = push_children(tree, node, waiting, True)
    return total


@kernel()
def close_leaf(tree, leaf):
    """Mark a leaf as closed, and update the nodes above it."""
    tree.open[leaf] = 0
    tree.choice[leaf] = NONE
    node = tree.parent[leaf]
    while node >= 0:
        tree.open[node] -= 1
        one, two = tree.choice[tree.children[node, 0]], tree.choice[tree.children[node, 1]]
        tree.choice[node] = one if two == NONE else two if one == NONE else one if one == two else MIXED
        node = tree.parent[node]


@kernel()
def grow_box(tree, leaf, orders, low, high):
    """Find the best box around an open leaf, into `low` and `high`; returns the leaves it closes and its conditions."""
    states = low.shape[0]
    one, two = np.empty(states), np.empty(states)
    most, fewest, largest = 0, 0, 0.0
    for order in range(orders.shape[0]):
        one[:] = tree.low[leaf]
        two[:] = tree.high[leaf]
        for side in orders[order]:
            grow_side(tree, one, two, tree.choice[leaf], side // 2, 1 - 2 * (side % 2))
        closed = count_open(tree, one, two, False)
        conditions, volume = 0, 1.0
        for d in range(states):
            volume *= two[d] - one[d]
            if two[d] - one[d] < 1.0:
                conditions += 2 if one[d] > 0.0 and two[d] != 1.0 else 1
        better = closed > most or (closed == most and conditions < fewest)
        if better or (closed == most and conditions == fewest and volume > largest):
            most, fewest, largest = closed, conditions, volume
            low[:] = one
            high[:] = two
    return most, fewest


@kernel()
def search_forward(tree, seeds, rank, tries, orders, lows, highs, choices):
    """Append boxes to `lows`, `highs`, `choices` until only one choice is open; returns their number.

    Seeds are leaves sorted by `rank`; for each box the first `tries` open ones of the first rank are tried.
    """
    low, high = np.empty(lows.shape[1]), np.empty(lows.shape[1])
    count, first = 0, 0
    while tree.choice[0] == MIXED:
        while tree.choice[seeds[first]] == NONE:
            first += 1
        tried, at = 0, first
        most, fewest = 0, 0
        while at < seeds.shape[0] and tried < tries and rank[at] == rank[first]:
            leaf = seeds[at]
            at += 1
            if tree.choice[leaf] == NONE:
                continue
            tried += 1
            closed, conditions = grow_box(tree, leaf, orders, low, high)
            if closed > most or (closed == most and conditions < fewest):
                most, fewest = closed, conditions
                lows[count] = low
                highs[count] = high
                choices[count] = tree.choice[leaf]
        count_open(tree, lows[count], highs[count], True)
        count += 1
    return count


def make_box_tree(tree: Tree, step: int, whole: NDArray[np.bool_]) -> BoxTree:
    """Lay out the tree of a time step level by level; a child stands behind its parent.

    `whole` [states] marks integer dimensions; leaves without any integer are not open.
    """
    states = tree.states.dimensions
    references, parents = [tree.roots[step : step + 1].astype(np.int64)], [np.array([NONE])]
    lows, highs, children_of = [np.zeros((1, states))], [np.ones((1, states))], []
    size = 1
    while len(references[-1]):
        here, first = references[-1], size - len(references[-1])
        inner = np.flatnonzero(here >= 0)
        nodes, rows = here[inner], np.arange(len(inner))
        places = np.full((len(here), 2), NONE)
        places[inner] = size + 2 * rows[:, None] + np.arange(2)
        children_of.append(places)
        low, high = np.repeat(lows[-1][inner], 2, axis=0), np.repeat(highs[-1][inner], 2, axis=0)
        high[2 * rows, tree.dims[nodes]] = tree.cuts[nodes]
        low[2 * rows + 1, tree.dims[nodes]] = tree.cuts[nodes]
        lows.append(low)
        highs.append(high)
        references.append(tree.children[nodes].astype(np.int64).reshape(-1))
        parents.append(np.repeat(first + inner, 2))
        size += 2 * len(inner)
    reference, parent = np.concatenate(references), np.concatenate(parents).astype(np.int32)
    low, high, children = np.concatenate(lows), np.concatenate(highs), np.concatenate(children_of)
    choice = np.where(reference < 0, ~reference, MIXED)
    choice[(reference < 0) & _has_no_integer(tree, low, high, whole)] = NONE
    count = ((reference < 0) & (choice != NONE)).astype(np.int32)
    ends = np.cumsum([0, *(len(level) for level in references)])
    for first, after in zip(ends[-2::-1], ends[:0:-1], strict=True):  # from the last level up
        inner = np.arange(first, after)[reference[first:after] >= 0]
        one, two = choice[children[inner, 0]], choice[children[inner, 1]]
        choice[inner] = np.where((one == NONE) | (one == two), two, np.where(two == NONE, one, MIXED))
        count[inner] = count[children[inner]].sum(axis=1)
    periodic = np.isin(np.arange(states), tree.periodic)
    stack = np.zeros(size + 1, np.int32)
    return BoxTree(low, high, children.astype(np.int32), parent, choice.astype(np.int32), count, periodic, stack)


def _has_no_integer(tree: Tree, low: Floats, high: Floats, whole: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which boxes contain no integer of some integer dimension, `[boxes]`."""
    empty = np.zeros(len(low), np.bool_)
    for d in np.flatnonzero(whole):
        first, after = (tree.to_integers(int(d), side[:, d]) for side in (low, high))
        empty |= (first >= after) & (low[:, d] > 0.0) & (high[:, d] < 1.0)
    return empty
