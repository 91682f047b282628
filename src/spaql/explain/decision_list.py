"""Few boxes for a decision tree: a list of which the first box that holds a state decides as the tree does.

The leaves of a tree are boxes, often many for one choice.  A list of boxes in order says the same with fewer: where an
earlier box has decided already, a later one may lie over it.  A leaf is *open* until it lies wholly inside a box of the
list, and a box may go into the list if all open leaves that it meets have its own choice.  So whatever holds a state
first decides right: had the state's leaf been closed before, an earlier box would hold the state.  When all that is
open has one choice, that is what is done otherwise.

Finding the fewest boxes is hard, so this is done greedily: a box begins as an open leaf and grows, side by side, as far
as it meets no open leaf of another choice; of several orders of the sides the one that closes most leaves is kept.
Which choices come first, and which leaf is next, are tried in several ways, `spaql.explain.raster` tries it from the other
end, and the shortest list wins.

All is in the unit cube.  A number that comes round may have a box that goes on at the other end: its high is then
above 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spaql.explain.raster import Easel, painted
from spaql.partition.jit import kernel
from spaql.partition.kernels import NONE
from spaql.partition.spaces import Floats
from spaql.partition.tree import Tree

MIXED = -2


class Scene(NamedTuple):
    """A tree with a box for every node, and what is open below it; leaves have no children."""

    low: Floats  # [nodes, states]
    high: Floats  # [nodes, states]
    children: NDArray[np.int32]  # [nodes, 2]
    parent: NDArray[np.int32]  # [nodes]
    choice: NDArray[np.int32]  # [nodes] of all that is open, NONE where nothing is, or MIXED
    open: NDArray[np.int32]  # [nodes] leaves that are
    turns: NDArray[np.bool_]  # [states] whether it comes round
    stack: NDArray[np.int32]  # [nodes + 1] for walks


@kernel()
def meets(scene, node, low, high, but):
    """Whether a node's box meets a box in all dimensions but one."""
    for d in range(low.shape[0]):
        a, b = scene.low[node, d], scene.high[node, d]
        if d != but and not ((a < high[d] and b > low[d]) or a + 1.0 < high[d]):
            return False
    return True


@kernel()
def inside(scene, node, low, high):
    """Whether a node's box lies in a box."""
    for d in range(low.shape[0]):
        a, b = scene.low[node, d], scene.high[node, d]
        if not ((low[d] <= a and b <= high[d]) or (low[d] <= a + 1.0 and b + 1.0 <= high[d])):
            return False
    return True


@kernel()
def nearest(scene, low, high, choice, dim, sign, start, limit):
    """How far a side can go: from `start` up (sign 1) or down (-1) along `dim`, at most to `limit`."""
    start, limit = sign * start, sign * limit
    stack = scene.stack
    stack[0] = 0
    waiting = 1
    while waiting > 0:
        waiting -= 1
        node = stack[waiting]
        near, far = scene.low[node, dim], scene.high[node, dim]
        if sign < 0:
            near, far = -far, -near
        if scene.choice[node] == NONE or scene.choice[node] == choice or far <= start or near >= limit:
            continue
        if not meets(scene, node, low, high, dim):
            continue
        left = scene.children[node, 0]
        if left < 0:
            limit = max(near, start)
            continue
        right = scene.children[node, 1]
        if sign < 0:
            left, right = right, left
        stack[waiting] = right
        stack[waiting + 1] = left
        waiting += 2
    return sign * limit


@kernel()
def grow(scene, low, high, choice, dim, sign):
    """Move one side of a box as far out as it can go; a number that comes round may pass its end."""
    if high[dim] - low[dim] >= 1.0:
        return
    wrapped = high[dim] > 1.0
    if sign > 0:
        if not wrapped:
            high[dim] = nearest(scene, low, high, choice, dim, 1, high[dim], 1.0)
        if scene.turns[dim] and high[dim] >= 1.0 and low[dim] > 0.0:
            high[dim] = 1.0 + nearest(scene, low, high, choice, dim, 1, high[dim] - 1.0, low[dim])
    else:
        if not wrapped:
            low[dim] = nearest(scene, low, high, choice, dim, -1, low[dim], 0.0)
            if scene.turns[dim] and low[dim] == 0.0 and high[dim] < 1.0:
                low[dim] = nearest(scene, low, high, choice, dim, -1, 1.0, high[dim])
                high[dim] += 1.0
                if low[dim] == 1.0:
                    low[dim], high[dim] = 0.0, high[dim] - 1.0
        else:
            low[dim] = nearest(scene, low, high, choice, dim, -1, low[dim], high[dim] - 1.0)
    if high[dim] - low[dim] >= 1.0:
        low[dim], high[dim] = 0.0, 1.0


@kernel()
def gain(scene, low, high):
    """Open leaves inside a box."""
    total = 0
    scene.stack[0] = 0
    waiting = 1
    while waiting > 0:
        waiting -= 1
        node = scene.stack[waiting]
        if scene.open[node] == 0 or not meets(scene, node, low, high, -1):
            continue
        if inside(scene, node, low, high):
            total += scene.open[node]
        elif scene.children[node, 0] >= 0:
            scene.stack[waiting] = scene.children[node, 0]
            scene.stack[waiting + 1] = scene.children[node, 1]
            waiting += 2
    return total


@kernel()
def close(scene, low, high):
    """Close all leaves inside a box."""
    scene.stack[0] = 0
    waiting = 1
    while waiting > 0:
        waiting -= 1
        node = scene.stack[waiting]
        if scene.open[node] == 0 or not meets(scene, node, low, high, -1):
            continue
        if scene.children[node, 0] >= 0:
            scene.stack[waiting] = scene.children[node, 0]
            scene.stack[waiting + 1] = scene.children[node, 1]
            waiting += 2
        elif inside(scene, node, low, high):
            scene.open[node] = 0
            scene.choice[node] = NONE
            above = scene.parent[node]
            while above >= 0:
                scene.open[above] -= 1
                one, two = scene.choice[scene.children[above, 0]], scene.choice[scene.children[above, 1]]
                scene.choice[above] = one if two == NONE else two if one == NONE else one if one == two else MIXED
                above = scene.parent[above]


@kernel()
def grown(scene, leaf, orders, low, high):
    """The best box around an open leaf, into `low` and `high`; how many leaves it closes, and its conditions."""
    states = low.shape[0]
    one, two = np.empty(states), np.empty(states)
    most, fewest, largest = 0, 0, 0.0
    for order in range(orders.shape[0]):
        one[:] = scene.low[leaf]
        two[:] = scene.high[leaf]
        for side in orders[order]:
            grow(scene, one, two, scene.choice[leaf], side // 2, 1 - 2 * (side % 2))
        closed = gain(scene, one, two)
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
def listed(scene, seeds, rank, look, orders, lows, highs, choices):
    """Boxes until only one choice is open; how many.

    Seeds are leaves in the order of `rank`, of which the first `look` open ones of one rank are tried for each box.
    """
    low, high = np.empty(lows.shape[1]), np.empty(lows.shape[1])
    count, first = 0, 0
    while scene.choice[0] == MIXED:
        while scene.choice[seeds[first]] == NONE:
            first += 1
        looked, at = 0, first
        most, fewest = 0, 0
        while at < seeds.shape[0] and looked < look and rank[at] == rank[first]:
            leaf = seeds[at]
            at += 1
            if scene.choice[leaf] == NONE:
                continue
            looked += 1
            closed, conditions = grown(scene, leaf, orders, low, high)
            if closed > most or (closed == most and conditions < fewest):
                most, fewest = closed, conditions
                lows[count] = low
                highs[count] = high
                choices[count] = scene.choice[leaf]
        close(scene, lows[count], highs[count])
        count += 1
    return count


@kernel()
def is_spared(scene, colour, lows, highs, choices, kept, rule, otherwise):
    """Whether all is decided as before without one of the kept boxes; `colour` [nodes] are the leaves' choices."""
    stack = scene.stack
    stack[0] = 0
    waiting = 1
    while waiting > 0:
        waiting -= 1
        node = stack[waiting]
        if not meets(scene, node, lows[rule], highs[rule], -1):
            continue
        if scene.children[node, 0] >= 0:
            stack[waiting] = scene.children[node, 0]
            stack[waiting + 1] = scene.children[node, 1]
            waiting += 2
            continue
        if colour[node] == NONE:
            continue
        decided = otherwise
        for other in range(choices.shape[0]):
            if other == rule or not kept[other] or not meets(scene, node, lows[other], highs[other], -1):
                continue
            if choices[other] != colour[node]:
                return False
            if inside(scene, node, lows[other], highs[other]):
                decided = choices[other]
                break
        if decided != colour[node]:
            return False
    return True


@kernel()
def spare(scene, colour, lows, highs, choices, otherwise, kept):
    """Take out of `kept` [rules] every box that nothing needs, the last first."""
    for rule in range(choices.shape[0] - 1, -1, -1):
        kept[rule] = not is_spared(scene, colour, lows, highs, choices, kept, rule, otherwise)


@kernel()
def hold(scene, leaves, lows, highs, holders):
    """Which box holds each leaf first, into `holders` [leaves]; one more than the last where none does."""
    for k in range(leaves.shape[0]):
        box = 0
        while box < lows.shape[0] and not inside(scene, leaves[k], lows[box], highs[box]):
            box += 1
        holders[k] = box


class Cover(NamedTuple):
    """Boxes of which the first that holds a state decides, and what is done where none does."""

    low: Floats  # [boxes, states]
    high: Floats  # [boxes, states] above 1 where a box goes on at the other end
    choices: NDArray[np.int64]  # [boxes]
    otherwise: int

    @property
    def conditions(self) -> int:
        """Comparisons in all."""
        bounded = self.high - self.low < 1.0
        return int((bounded & (self.low > 0.0)).sum() + (bounded & (self.high != 1.0)).sum())


PAINTED, THOROUGH, BRISK = 1_000, 3_000, 20_000  # leaves up to which it is painted too, many ways are tried, a few
_LOOK = 32  # leaves that are tried for each box, where that is done


def cover(tree: Tree, step: int, whole: NDArray[np.bool_]) -> Cover:
    """A short list of boxes that decides as a tree does at a time step; see the module's docstring.

    `whole` [states] tells which numbers are whole; where a leaf has none of these, anything may be decided.

    Up to 3,000 leaves many ways to build it are tried, up to 1,000 painting too, up to 20,000 a few; beyond that one,
    and the list is longer than it would have to be.
    """
    scene = _laid_out(tree, step, whole)
    leaves = np.flatnonzero((scene.children[:, 0] == NONE) & (scene.open > 0))
    found = [_built(scene, leaves, way) for way in _ways(scene, leaves)]
    if len(leaves) <= PAINTED:
        found += _strokes(scene, leaves, most=min(len(one.choices) for one in found))
    best = min(found, key=lambda one: (len(one.choices), one.conditions))
    return _tight(scene, leaves, best) if len(leaves) <= BRISK else best


def ordered(cover: Cover, weights: Floats) -> Cover:
    """The same boxes with the weightiest [boxes] first, as far as nothing changes by it.

    Two boxes keep their order where they meet and differ in choice.  Very long lists stay as they are.
    """
    count = len(cover.choices)
    if count > THOROUGH:
        return cover
    before = np.zeros((count, count), np.bool_)  # whether the one must stand before the other
    for rule in range(count):
        low, high = cover.low[rule], cover.high[rule]
        meet = (cover.low < high) & (cover.high > low)
        meet |= (cover.low + 1.0 < high) | (cover.high - 1.0 > low)
        before[rule, rule + 1 :] = (meet.all(axis=1) & (cover.choices != cover.choices[rule]))[rule + 1 :]
    urgent = weights.copy()
    for rule in range(count - 1, -1, -1):
        urgent[rule] = max(urgent[rule], urgent[before[rule]].max(initial=0.0))
    blocked, order = before.sum(axis=0), []
    for _ in range(count):
        rule = int(np.argmax(np.where(blocked == 0, urgent, -1.0)))
        order.append(rule)
        blocked[rule] = -1
        blocked[before[rule]] -= 1
    return cover._replace(low=cover.low[order], high=cover.high[order], choices=cover.choices[order])


class _Way(NamedTuple):
    """How a list is built."""

    rank: NDArray[np.int64]  # [choices] which choices come first
    key: Floats  # [leaves] which leaf of a rank comes first
    look: int
    orders: int  # of sides to grow


def _ways(scene: Scene, leaves: NDArray[np.int64]) -> list[_Way]:
    """Ways to try: small choices first and the largest otherwise, by several meanings of small; or along a line."""
    low, high, choice = scene.low[leaves], scene.high[leaves], scene.choice[leaves]
    volume = np.prod(high - low, axis=1)
    leaves_of, room_of = np.bincount(choice), np.bincount(choice, volume)
    by_leaves, by_room = (np.argsort(np.argsort(size, kind="stable")) for size in (leaves_of, room_of))
    states = low.shape[1]
    if len(leaves) > BRISK:
        return [_Way(by_leaves, -volume, 1, 2 * states)]
    ways = [_Way(by_leaves, -volume, 1, 2 * states), _Way(by_room, -volume, 1, 2 * states)]
    if len(leaves) > THOROUGH:
        return ways
    ways += [_Way(by_leaves, volume, 1, 2 * states)]
    for otherwise in np.argsort(-leaves_of, kind="stable")[:3]:
        last = np.where(np.arange(len(leaves_of)) == otherwise, len(leaves_of), by_leaves)
        ways += [_Way(last, -volume, _LOOK, 4 * states)]
    for d in range(states):  # from one end to the other, whatever the choices
        end = choice[np.argmax(high[:, d])]
        line = (np.arange(len(leaves_of)) == end).astype(np.int64)
        ways += [_Way(line, low[:, d], 1, 2 * states)]
    return ways


def _strokes(scene: Scene, leaves: NDArray[np.int64], most: int) -> list[Cover]:
    """Lists of at most so many boxes that `spaql.explain.raster` finds, beginning with one of the two commonest choices."""
    colours = scene.choice[leaves].astype(np.int64)
    rooms = (np.empty(len(leaves)) for _ in range(3))
    easel = Easel(scene.low[leaves], scene.high[leaves], colours, np.empty_like(colours), *rooms)
    covers = []
    for otherwise in np.argsort(-np.bincount(colours), kind="stable")[:2]:
        for penalty in (1.0, 2.0):
            boxes, choices = np.empty((2, most, scene.low.shape[1])), np.empty(most, np.int64)
            easel.paint[:] = otherwise
            count = painted(easel, penalty, _LOOK // 2, boxes[0], boxes[1], choices)
            if count >= 0:
                low, high = boxes[:, count - 1 :: -1] if count else boxes[:, :0]
                covers.append(_spared(scene, low, high, choices[:count][::-1], int(otherwise)))
    return covers


def _spared(scene: Scene, low: Floats, high: Floats, choices: NDArray[np.int64], otherwise: int) -> Cover:
    """A list without what it does not need; `scene` with all leaves open."""
    low, high = np.ascontiguousarray(low), np.ascontiguousarray(high)
    choices = np.ascontiguousarray(choices)
    kept = np.ones(len(choices), np.bool_)
    spare(scene, scene.choice, low, high, choices, otherwise, kept)
    return Cover(low[kept], high[kept], choices[kept], otherwise)


def _tight(scene: Scene, leaves: NDArray[np.int64], cover: Cover) -> Cover:
    """The same list with its sides drawn in to the leaves that each box is the first to hold; ends of ranges stay."""
    holders = np.empty(len(leaves), np.int64)
    hold(scene, leaves, cover.low, cover.high, holders)
    held = holders < len(cover.choices)
    low, high = np.full_like(cover.low, np.inf), np.full_like(cover.high, -np.inf)
    np.minimum.at(low, holders[held], scene.low[leaves[held]])
    np.maximum.at(high, holders[held], scene.high[leaves[held]])
    round_ = cover.high > 1.0  # at both ends
    low = np.where(round_ | (cover.low == 0.0), cover.low, low)
    high = np.where(round_ | (cover.high == 1.0), cover.high, high)
    return cover._replace(low=low, high=high)


def _built(base: Scene, leaves: NDArray[np.int64], way: _Way) -> Cover:
    """The list that is built in one way, without what it does not need."""
    states = base.low.shape[1]
    scene = base._replace(choice=base.choice.copy(), open=base.open.copy())
    rank = way.rank[base.choice[leaves]]
    order = np.lexsort((way.key, rank))
    low, high = np.empty((len(leaves), states)), np.empty((len(leaves), states))
    choices = np.empty(len(leaves), np.int64)
    count = listed(scene, leaves[order], rank[order], way.look, _orders(states, way.orders), low, high, choices)
    low, high, choices = low[:count], high[:count], choices[:count]
    if len(leaves) <= BRISK:
        return _spared(base, low, high, choices, int(scene.choice[0]))
    return Cover(low, high, choices, int(scene.choice[0]))


def _orders(states: int, count: int) -> NDArray[np.int64]:
    """Orders in which to grow the sides, `[count, 2 * states]`: side 2 d is the upper along d, 2 d + 1 the lower."""
    random = np.random.default_rng(0)  # always the same
    rows = []
    for way in range(count):
        first = way % states
        others = [d for d in range(states) if d != first]
        if way >= 2 * states:
            rows.append(random.permutation(2 * states))
        else:
            dims = [first, *(others if way < states else others[::-1])]
            rows.append(np.array([side for d in dims for side in (2 * d, 2 * d + 1)]))
    return np.array(rows)


def _laid_out(tree: Tree, step: int, whole: NDArray[np.bool_]) -> Scene:
    """The part of a tree that decides at a time step, level by level; a node stands behind its parent."""
    states = tree.states.dimensions
    references, parents = [tree.roots[step : step + 1].astype(np.int64)], [np.array([NONE])]
    lows, highs, children_of = [np.zeros((1, states))], [np.ones((1, states))], []
    size = 1
    while len(references[-1]):
        here, first = references[-1], size - len(references[-1])
        inner = np.flatnonzero(here >= 0)
        nodes, rows = here[inner], np.arange(len(inner))
        places = np.full((len(here), 2), NONE)
        places[inner, 0] = size + 2 * rows
        places[inner, 1] = size + 2 * rows + 1
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
    choice[(reference < 0) & _is_void(tree, low, high, whole)] = NONE
    count = ((reference < 0) & (choice != NONE)).astype(np.int32)
    ends = np.cumsum([0, *(len(level) for level in references)])
    for first, after in zip(ends[-2::-1], ends[:0:-1], strict=True):  # from the last level up
        inner = np.arange(first, after)[reference[first:after] >= 0]
        one, two = choice[children[inner, 0]], choice[children[inner, 1]]
        choice[inner] = np.where((one == NONE) | (one == two), two, np.where(two == NONE, one, MIXED))
        count[inner] = count[children[inner]].sum(axis=1)
    turns = np.zeros(states, np.bool_)
    turns[list(tree.periodic)] = True
    stack = np.zeros(size + 1, np.int32)
    return Scene(low, high, children.astype(np.int32), parent, choice.astype(np.int32), count, turns, stack)


def _is_void(tree: Tree, low: Floats, high: Floats, whole: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which boxes hold none of the whole numbers of a dimension that has no others, `[boxes]`."""
    void = np.zeros(len(low), np.bool_)
    for d in np.flatnonzero(whole):
        first, after = (tree.first_whole(int(d), side[:, d]) for side in (low, high))
        void |= (first >= after) & (low[:, d] > 0.0) & (high[:, d] < 1.0)
    return void
