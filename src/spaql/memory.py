"""What an agent has lived through, and what its cells make of it: targets, means, tests, splits.

Every experience (x, a, r, x') is kept.  From time to time the whole memory is *revised*: each experience gets its target

    t = r + discount V(x'),      V(x) = max Q over RELEVANT(x)       (V = 0 where the episode ended)

with the V of now, and Q of each cell becomes the mean target of the experiences in it.  Nothing is stale, and a cell
that splits hands its experiences to its halves instead of a guess.  One revision is one sweep of value iteration on the
partition; as the level of V lags behind when rewards are far from zero, all Q are also moved by what the mean residual
adds up to over all later sweeps, discount / (1 - discount) times its size.

*Where to split.*  In a cell of n experiences every side is looked at in quarters.  Three kinds of contrasts are tested:

* lower half against upper half, of each side;
* middle half against outer quarters, of each side: a peak in the middle leaves the two halves alike;
* for each state side and action side, the two diagonals of their four quadrants: where the better action depends on
  the state, neither side alone need matter.

A contrast of group means m0 and m1 counts where it is *significant*, |m0 - m1| > confidence * its standard error; where
it is *relevant*, |m0 - m1| * (share of all experiences) > tolerance * spread; and where the cell is *promising*: a few
of its experiences reached at least the value of the state they began in, t >= V(x).  `spread` is the
deviation of targets over the whole space, each cell weighing as much as its volume: what there is to win and to lose.
It makes the rule indifferent to the unit and the zero of the rewards.  The cell is cut along the side of the largest contrast (the state side for
diagonals), and its halves are looked at in turn.

Memory grows without shifting: experience i of the arrays below is the i-th that is still remembered; the experiences of
one cell are chained in that order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spaql.compiling import borrow, kernel
from spaql.kernels import GRID, GRID_LEVELS, MAX_DEPTH, NONE, halve, lend, refresh

USED, NEXT, PENDING, SPLITS = 0, 1, 2, 3  # experiences; when to revise; whether splitting waits for room; splits so far
_FEWEST = 16  # experiences of a cell that may split
_NARROW = 2.0 ** (1 - MAX_DEPTH)  # a side that is not cut any more
_FEW = 4  # of each group in a contrast; and that make a cell promising


class Memory(NamedTuple):
    """Experiences, in the order they were made; `spaql.memory.allocate` makes it."""

    counts: NDArray[np.int64]  # [4]
    states: NDArray[np.float64]  # [m, states] unit cube
    actions: NDArray[np.float64]  # [m, actions] unit cube, or the number of a finite action
    rewards: NDArray[np.float64]  # [m]
    following: NDArray[np.float64]  # [m, states] the state that followed, unit cube
    ended: NDArray[np.uint8]  # [m] 1 where the episode ended with it
    codes: NDArray[np.int64]  # [m] two bits per side: the quarter of the cell
    cell: NDArray[np.int32]  # [m] the cell that holds state and action
    origin: NDArray[np.int32]  # [m] a node that holds the state, the leaf when last looked
    place: NDArray[np.int32]  # [m] the same for the state that followed
    later: NDArray[np.int32]  # [m] the next experience in the same cell, or NONE


class Ledger(NamedTuple):
    """What is summed up per cell and per node of the forest."""

    first: NDArray[np.int32]  # [cells] its experiences, chained
    last: NDArray[np.int32]  # [cells]
    counts: NDArray[np.int32]  # [cells, bins] experiences per quarter of each side, then per quadrant of each pair
    sums: NDArray[np.float64]  # [cells, bins] targets minus Q of the cell, likewise
    squares: NDArray[np.float64]  # [cells] of targets around their mean in the cell
    edges: NDArray[np.float64]  # [nodes, 2, states] low and high of each node's state box
    value: NDArray[np.float64]  # [nodes] V where the state's leaf is that node
    greedy: NDArray[np.int32]  # [nodes] the cell whose Q that is
    spots: NDArray[np.int32]  # [GRID] for one state dimension: where in the tree to look for a leaf, by place
    spread: NDArray[np.float64]  # [1] deviation of targets over the whole space


class Rule(NamedTuple):
    """Constants of a revision."""

    discount: float
    confidence: float
    tolerance: float
    sides: int  # that may split: all states, and the actions unless they are finite
    middles: bool
    diagonals: bool
    promising: bool


def bins(states: int, actions: int) -> int:
    """Quarters of every side, then quadrants of every pair of a state and an action; `actions` 0 for finite ones."""
    return 4 * (states + actions) + 4 * states * actions


def allocate(states: int, actions: int, size: int) -> Memory:
    """An empty memory for so many experiences."""
    return Memory(
        counts=np.array([0, 1, 0, 0]),
        states=np.zeros((size, states)),
        actions=np.zeros((size, actions)),
        rewards=np.zeros(size),
        following=np.zeros((size, states)),
        ended=np.zeros(size, np.uint8),
        codes=np.zeros(size, np.int64),
        cell=np.zeros(size, np.int32),
        origin=np.zeros(size, np.int32),
        place=np.zeros(size, np.int32),
        later=np.zeros(size, np.int32),
    )


def open_ledger(nodes: int, cells: int, states: int, count: int) -> Ledger:
    """An empty ledger for a forest of so many nodes and cells and `count` bins."""
    edges = np.zeros((nodes, 2, states))
    edges[:, 1] = 1.0
    return Ledger(
        first=np.full(cells, NONE, np.int32),
        last=np.full(cells, NONE, np.int32),
        counts=np.zeros((cells, count), np.int32),
        sums=np.zeros((cells, count)),
        squares=np.zeros(cells),
        edges=edges,
        value=np.zeros(nodes),
        greedy=np.zeros(nodes, np.int32),
        spots=np.zeros(GRID, np.int32),
        spread=np.zeros(1),
    )


def longer_memory(memory: Memory, size: int) -> Memory:
    """The same memory with room for so many experiences."""
    return Memory(memory.counts, *(_prolonged(array, size) for array in memory[1:]))


def longer_ledger(ledger: Ledger, nodes: int, cells: int) -> Ledger:
    """The same ledger for a forest with room for so many nodes and cells."""
    per_node = {name: _prolonged(getattr(ledger, name), nodes) for name in ("edges", "value", "greedy")}
    names = ("first", "last", "counts", "sums", "squares")
    per_cell = {name: _prolonged(getattr(ledger, name), cells) for name in names}
    return Ledger(**per_cell, **per_node, spots=ledger.spots, spread=ledger.spread)


def _prolonged(array: NDArray[Any], size: int) -> NDArray[Any]:
    return np.concatenate([array, np.zeros((size - len(array), *array.shape[1:]), array.dtype)])


@kernel(inline=True)
def lend_memory(m):
    """The same memory without reference counts (see `spaql.compiling.borrow`)."""
    return Memory(
        borrow(m.counts),
        borrow(m.states),
        borrow(m.actions),
        borrow(m.rewards),
        borrow(m.following),
        borrow(m.ended),
        borrow(m.codes),
        borrow(m.cell),
        borrow(m.origin),
        borrow(m.place),
        borrow(m.later),
    )


@kernel(inline=True)
def lend_ledger(g):
    """The same ledger without reference counts."""
    return Ledger(
        borrow(g.first),
        borrow(g.last),
        borrow(g.counts),
        borrow(g.sums),
        borrow(g.squares),
        borrow(g.edges),
        borrow(g.value),
        borrow(g.greedy),
        borrow(g.spots),
        borrow(g.spread),
    )


@kernel(inline=True)
def quarter(x, low, high):
    """Which quarter of an interval x lies in, 0 to 3; exact, as widths are powers of two."""
    return min(3, max(0, int((x - low) * (4.0 / (high - low)))))


@kernel(inline=True)
def encode(f, m, g, rule, i, cell):
    """The quarters of the cell's sides that experience i lies in, two bits each."""
    states = m.states.shape[1]
    node = f.cells[cell].node
    code = 0
    for d in range(states):
        code |= quarter(m.states[i, d], g.edges[node, 0, d], g.edges[node, 1, d]) << (2 * d)
    for d in range(rule.sides - states):
        code |= quarter(m.actions[i, d], f.boxes[cell, 0, d], f.boxes[cell, 1, d]) << (2 * (states + d))
    return code


@kernel(inline=True)
def book(bins_of_cell, amount, code, states, sides):
    """Add an amount to the bins that an experience of this code belongs to."""
    for d in range(sides):
        bins_of_cell[4 * d + ((code >> (2 * d)) & 3)] += amount
    at = 4 * sides
    for s in range(states):
        row = (code >> (2 * s + 1)) & 1
        for d in range(states, sides):
            bins_of_cell[at + 2 * row + ((code >> (2 * d + 1)) & 1)] += amount
            at += 4


@kernel(inline=True)
def chain(f, m, g, rule, i, cell):
    """File experience i under a cell, behind those that came before it."""
    code = encode(f, m, g, rule, i, cell)
    m.codes[i] = code
    m.cell[i] = cell
    m.later[i] = NONE
    if g.first[cell] < 0:
        g.first[cell] = i
    else:
        m.later[g.last[cell]] = i
    g.last[cell] = i
    book(g.counts[cell], np.int32(1), code, m.states.shape[1], rule.sides)
    f.cells[cell].visits += 1
    return code


@kernel(inline=True)
def leaf(f, node, points, row):
    """The leaf of the state tree below a node that holds a point."""
    while f.nodes[node].child >= 0:
        node = f.nodes[node].child + (points[row, f.nodes[node].dim] >= f.nodes[node].cut)
    return node


@kernel(inline=True)
def spot(f, g, points, row):
    """The leaf of the state tree that holds a point."""
    node = 0
    if points.shape[1] == 1:
        node = g.spots[min(int(points[row, 0] * GRID), GRID - 1)]
    return leaf(f, node, points, row)


@kernel(inline=True)
def target(f, m, g, rule, i):
    """r + discount V(x') of experience i with the values of now."""
    if m.ended[i]:
        return m.rewards[i]
    node = leaf(f, m.place[i], m.following, i)
    m.place[i] = node
    return m.rewards[i] + rule.discount * g.value[node]


@kernel()
def survey(f, g):
    """V and greedy cell of every node, and where on the grid its leaves are; a child stands behind its parent."""
    f, g = lend(f), lend_ledger(g)
    for node in range(f.used[0]):
        value = f.nodes[node].top_q
        cell = f.nodes[node].top
        parent = f.links[node].parent
        if parent >= 0 and not value > g.value[parent]:
            value = g.value[parent]
            cell = g.greedy[parent]
        g.value[node] = value
        g.greedy[node] = cell
        level = f.nodes[node].level
        if level <= GRID_LEVELS and (f.nodes[node].child < 0 or level == GRID_LEVELS):
            first = int(g.edges[node, 0, 0] * GRID)
            for k in range(first, first + (GRID >> level)):
                g.spots[k] = node


@kernel()
def sweep(f, m, g, rule):
    """Give every experience its target and every cell their mean; also the spread."""
    f, m, g = lend(f), lend_memory(m), lend_ledger(g)
    cells = f.used[1]
    states = m.states.shape[1]
    used = m.counts[USED]
    for cell in range(cells):
        g.squares[cell] = 0.0
        for k in range(g.sums.shape[1]):
            g.sums[cell, k] = 0.0
    total = 0.0
    ended = 0
    for i in range(used):
        cell = m.cell[i]
        deviation = target(f, m, g, rule, i) - f.cells[cell].q
        total += deviation
        g.squares[cell] += deviation * deviation
        book(g.sums[cell], deviation, m.codes[i], states, rule.sides)
        ended += m.ended[i]
    residual = total / used
    lasting = rule.discount * (1.0 - ended / used)
    lift = residual * lasting / (1.0 - lasting)
    for cell in range(cells):
        visits = f.cells[cell].visits
        change = residual
        if visits > 0:
            change = (g.sums[cell, 0] + g.sums[cell, 1] + g.sums[cell, 2] + g.sums[cell, 3]) / visits
            g.squares[cell] -= visits * change * change
        f.cells[cell].q += change + lift


@kernel(inline=True)
def volume(f, g, cell):
    """Share of the whole space that a cell takes up."""
    node = f.cells[cell].node
    share = 1.0
    for d in range(g.edges.shape[2]):
        share *= g.edges[node, 1, d] - g.edges[node, 0, d]
    for d in range(f.boxes.shape[2]):
        if f.boxes[cell, 1, d] > f.boxes[cell, 0, d]:
            share *= f.boxes[cell, 1, d] - f.boxes[cell, 0, d]
    return share


@kernel(inline=True)
def gauge(f, g):
    """Find the spread: the deviation of targets over the whole space."""
    weight = 0.0
    mean = 0.0
    scatter = 0.0
    for cell in range(f.used[1]):
        visits = f.cells[cell].visits
        if visits > 0:
            share = volume(f, g, cell)
            weight += share
            step = f.cells[cell].q - mean
            mean += step * share / weight
            scatter += share * (step * (f.cells[cell].q - mean) + g.squares[cell] / visits)
    g.spread[0] = np.sqrt(scatter / weight)


@kernel(inline=True)
def contrast(low_count, low_sum, high_count, high_sum, squares):
    """Squared difference of the means of a cell's two groups, and the same over its squared standard error.

    Zeros if there are too few of one.  `squares` around the common mean is what the groups scatter around their own
    means, and the difference's share.
    """
    if low_count < _FEW or high_count < _FEW:
        return 0.0, 0.0
    difference = high_sum / high_count - low_sum / low_count
    square = difference * difference
    weight = 1.0 / low_count + 1.0 / high_count
    within = squares - square / weight
    error = max(within, 0.0) / (low_count + high_count - 2) * weight
    return square, square / max(error, 1e-300)


@kernel()
def strongest(f, m, g, rule, cell):
    """The side along which a cell's experiences differ most, if significantly and relevantly, else NONE."""
    f, m, g = lend(f), lend_memory(m), lend_ledger(g)
    total = f.cells[cell].visits
    used = m.counts[USED]
    if total < _FEWEST or not g.spread[0] > 0.0:
        return NONE
    relevant = rule.tolerance * g.spread[0] * used / total
    relevant *= relevant
    states = m.states.shape[1]
    sums = g.sums[cell]
    counts = g.counts[cell]
    squares = g.squares[cell]
    best = rule.confidence * rule.confidence
    side = NONE
    for d in range(rule.sides):
        k = 4 * d
        below, above = counts[k] + counts[k + 1], counts[k + 2] + counts[k + 3]
        size, strength = contrast(below, sums[k] + sums[k + 1], above, sums[k + 2] + sums[k + 3], squares)
        if strength > best and size > relevant:
            best = strength
            side = d
        if rule.middles and below >= _FEW and above >= _FEW:
            size, strength = contrast(
                counts[k] + counts[k + 3],
                sums[k] + sums[k + 3],
                counts[k + 1] + counts[k + 2],
                sums[k + 1] + sums[k + 2],
                squares,
            )
            if strength > best and size > relevant:
                best = strength
                side = d
    k = 4 * rule.sides
    for s in range(states):
        for _ in range(states, rule.sides):
            enough = rule.diagonals
            for corner in range(4):
                enough = enough and counts[k + corner] >= _FEW
            if enough:
                size, strength = contrast(
                    counts[k] + counts[k + 3],
                    sums[k] + sums[k + 3],
                    counts[k + 1] + counts[k + 2],
                    sums[k + 1] + sums[k + 2],
                    squares,
                )
                if strength > best and size > relevant:
                    best = strength
                    side = s
            k += 4
    return side


@kernel()
def promising(f, m, g, rule, cell):
    """Whether a few experiences of the cell reached at least the value of the state they began in."""
    f, m, g = lend(f), lend_memory(m), lend_ledger(g)
    found = 0
    i = g.first[cell]
    while i >= 0:
        here = leaf(f, m.origin[i], m.states, i)
        m.origin[i] = here
        if target(f, m, g, rule, i) >= g.value[here]:
            found += 1
            if found == _FEW:
                return True
        i = m.later[i]
    return False


@kernel()
def part(f, m, g, rule, cell, side):
    """Cut a cell along a side and hand its experiences to the halves, with fresh targets."""
    f, m, g = lend(f), lend_memory(m), lend_ledger(g)
    states = m.states.shape[1]
    node = f.cells[cell].node
    if side < states and f.nodes[node].child >= 0:
        side = f.nodes[node].dim  # the node was cut before, for another cell
    fresh = side < states and f.nodes[node].child < 0
    q = f.cells[cell].q
    i = g.first[cell]
    upper = halve(f, cell, side)
    if fresh:
        left = f.nodes[node].child
        for child in range(left, left + 2):
            g.value[child] = g.value[node]
            for d in range(states):
                g.edges[child, 0, d] = g.edges[node, 0, d]
                g.edges[child, 1, d] = g.edges[node, 1, d]
        g.edges[left, 1, side] = f.nodes[node].cut
        g.edges[left + 1, 0, side] = f.nodes[node].cut
    for half in (cell, upper):
        f.cells[half].visits = 0
        g.first[half] = NONE
        g.last[half] = NONE
        g.squares[half] = 0.0
        for k in range(g.sums.shape[1]):
            g.counts[half, k] = 0
            g.sums[half, k] = 0.0
    bit = 2 * side + 1
    while i >= 0:
        later = m.later[i]
        half = upper if (m.codes[i] >> bit) & 1 else cell
        code = chain(f, m, g, rule, i, half)
        deviation = target(f, m, g, rule, i) - q
        g.squares[half] += deviation * deviation
        book(g.sums[half], deviation, code, states, rule.sides)
        i = later
    for half in (cell, upper):
        visits = f.cells[half].visits
        if visits > 0:
            change = (g.sums[half, 0] + g.sums[half, 1] + g.sums[half, 2] + g.sums[half, 3]) / visits
            f.cells[half].q = q + change
            g.squares[half] -= visits * change * change
    m.counts[SPLITS] += 1


@kernel(inline=True)
def narrow(f, g, cell, side):
    """Whether a cell's side is too narrow to be cut."""
    states = f.used[2]
    node = f.cells[cell].node
    if side < states:
        return f.nodes[node].level >= MAX_DEPTH * states or g.edges[node, 1, side] - g.edges[node, 0, side] < _NARROW
    return f.boxes[cell, 1, side - states] - f.boxes[cell, 0, side - states] < _NARROW


@kernel(inline=True)
def refine(f, m, g, rule):
    """Split every cell that should be, and its halves; False where the arrays have no room left for it."""
    cell = 0
    while cell < f.used[1]:
        side = strongest(f, m, g, rule, cell)
        if side == NONE or narrow(f, g, cell, side):
            cell += 1
        elif rule.promising and not promising(f, m, g, rule, cell):
            cell += 1
        elif f.used[0] + 2 > f.nodes.shape[0] or f.used[1] + 1 > f.cells.shape[0]:
            return False
        else:
            part(f, m, g, rule, cell, side)
    return True


@kernel()
def revise(f, m, g, rule):
    """Sweep once and split where the experiences say so; False where it has to be called again with more room."""
    f, m, g = lend(f), lend_memory(m), lend_ledger(g)
    if m.counts[PENDING] == 0:
        sweep(f, m, g, rule)
        refresh(f)
        survey(f, g)
        gauge(f, g)
    m.counts[PENDING] = 0 if refine(f, m, g, rule) else 1
    refresh(f)
    survey(f, g)
    return m.counts[PENDING] == 0


@kernel()
def visited(f, m, g):
    """Which nodes are leaves that an experience began in, `[nodes]`."""
    f, m, g = lend(f), lend_memory(m), lend_ledger(g)
    seen = np.zeros(f.used[0], np.bool_)
    for i in range(m.counts[USED]):
        seen[leaf(f, m.origin[i], m.states, i)] = True
    return seen
