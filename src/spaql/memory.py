"""What an agent has lived through, and what its cells make of it: targets, means, tests, splits.

Every experience (x, a, r, x') is kept.  Whenever there are a quarter more, all are *revised*: each gets its target

    t = r + discount V(x'),      V(x) = max Q over RELEVANT(x)       (V = 0 where the episode ended)

with the V of now, and Q of each cell becomes the mean target of the experiences in it; a cell without any moves by what
the others move by on average.  Nothing is stale, and a cell that splits hands its experiences to its halves instead of
a guess (an empty half keeps its Q).  One revision is one sweep of value iteration on the partition.  While the level of
V still rises or falls from sweep to sweep, which is the same for all cells and so no matter to the policy, targets that
are made after the sweep are ahead of the Q that were made by it: by the mean change of Q in the sweep, its *drift*,
which is taken off V again whenever cells are judged and split.

*Where to split.*  In a cell of n experiences every side is looked at in quarters.  Three kinds of contrasts are tested:

* lower half against upper half, of each side;
* middle half against outer quarters, of each side: a peak in the middle leaves the two halves alike;
* for each state side and action side, the two diagonals of their four quadrants: where the better action depends on
  the state, neither side alone need matter.

The groups must have `evidence` experiences each (so must the halves of a side whose middle is tested, and each of the
four quadrants), and the cell four times as many.  A contrast of group means m0 and m1 counts where it is *significant*,
|m0 - m1| > confidence * its standard error; where it is *relevant*,

    |m0 - m1| n > tolerance * spread * sqrt(N),      N experiences in all;

and where the cell is *promising*: `evidence` of its experiences reached at least the value of the state they began in,
t >= V(x).  `spread` is the deviation, over the whole space, of what is lost against the best action, Q - V, and of the
targets within cells, each cell weighing as much as its volume: what there is to win and to lose by acting.  It makes
the rule indifferent to the unit and the zero of the rewards; spread * sqrt(N) is how far chance alone moves the sum of
N rewards, and |m0 - m1| n is what the difference was worth in that time.  The more experiences, the finer the
partition.  Of the contrasts that count the most significant one says along which side the cell is cut (the state side
for diagonals; the side of its node's cut where another cell had the node cut before), and its halves are looked at in
turn.

Memory grows without shifting: experience i of the arrays below is the i-th that is still remembered; the experiences of
one cell are chained in that order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spaql.compiling import borrow, kernel
from spaql.kernels import GRID, GRID_LEVELS, MAX_DEPTH, NONE, halve, lend, refresh

# experiences; when to revise; whether splitting waits for room; splits; and those of them that a history row tells of
USED, NEXT, PENDING, SPLITS, TOLD = 0, 1, 2, 3, 4
_ROUNDING = 1e-12  # of Q; a smaller spread is none
_NARROW = 2.0 ** (1 - MAX_DEPTH)  # a side that is not cut any more


class Memory(NamedTuple):
    """Experiences, in the order they were made; `allocate` makes it."""

    counts: NDArray[np.int64]  # [5] see the names above
    facts: NDArray[np.float64]  # [m, 2 states + actions + 1] state, action, reward, following state; in unit cubes
    files: NDArray[np.int32]  # [m, 5] where it is filed: see the names below


CODE, CELL, ORIGIN, PLACE, LATER = 0, 1, 2, 3, 4
# CODE    two bits per side: which quarter of its cell it lies in
# CELL    the cell that holds state and action
# ORIGIN  a node that holds the state, the leaf when last looked
# PLACE   the same for the state that followed, or NONE where the episode ended
# LATER   the next experience in the same cell, or NONE

SPREAD, LOWEST, HIGHEST, DRIFT = 0, 1, 2, 3


class Ledger(NamedTuple):
    """What is summed up per cell and per node of the forest."""

    ends: NDArray[np.int32]  # [cells, 2] first and last of its experiences
    # [cells, 2 bins + 1] experiences per quarter of each side and per quadrant of each pair of sides; targets minus the
    # Q of the cell, likewise; squares of the targets around their mean
    tally: NDArray[np.float64]
    edges: NDArray[np.float64]  # [nodes, 2, states] low and high of each node's state box
    value: NDArray[np.float64]  # [nodes] V where the state's leaf is that node
    greedy: NDArray[np.int32]  # [nodes] the cell whose Q that is
    spots: NDArray[np.int32]  # [GRID] for one state dimension: where in the tree to look for a leaf, by place
    scale: NDArray[np.float64]  # [4] spread of targets over the space; smallest and largest V of a leaf; drift of all V


class Rule(NamedTuple):
    """Constants of a revision."""

    states: int
    actions: int
    sides: int  # that may be cut: all states, and the actions unless they are finite
    discount: float
    confidence: float
    tolerance: float
    evidence: (
        int  # experiences that each group of a contrast needs, and a cell to be promising; a split needs 4 times it
    )
    growth: float  # of the memory until the next revision
    settled: bool  # whether targets are compared with V as if its level had settled
    middles: bool  # whether middle halves are tested against outer quarters
    diagonals: bool  # whether diagonals of quadrants are
    promising: bool  # whether only promising cells are split


def bins(rule: Rule) -> int:
    """Quarters of every side, and quadrants of every pair of a state side and an action side."""
    return 4 * rule.sides + 4 * rule.states * (rule.sides - rule.states)


def allocate(rule: Rule, size: int) -> Memory:
    """An empty memory for so many experiences."""
    facts = np.zeros((size, 2 * rule.states + rule.actions + 1))
    return Memory(np.array([0, 4 * rule.evidence, 0, 0, 0]), facts, np.zeros((size, 5), np.int32))


def open_ledger(rule: Rule, nodes: int, cells: int) -> Ledger:
    """An empty ledger for a forest with room for so many nodes and cells."""
    edges = np.zeros((nodes, 2, rule.states))
    edges[:, 1] = 1.0
    return Ledger(
        ends=np.full((cells, 2), NONE, np.int32),
        tally=np.zeros((cells, 2 * bins(rule) + 1)),
        edges=edges,
        value=np.zeros(nodes),
        greedy=np.zeros(nodes, np.int32),
        spots=np.zeros(GRID, np.int32),
        scale=np.zeros(4),
    )


def longer_memory(memory: Memory, size: int) -> Memory:
    """The same memory with room for so many experiences."""
    return Memory(memory.counts, _prolonged(memory.facts, size), _prolonged(memory.files, size))


def longer_ledger(ledger: Ledger, nodes: int, cells: int) -> Ledger:
    """The same ledger for a forest with room for so many nodes and cells."""
    grown = {name: _prolonged(getattr(ledger, name), nodes) for name in ("edges", "value", "greedy")}
    grown |= {name: _prolonged(getattr(ledger, name), cells) for name in ("ends", "tally")}
    return ledger._replace(**grown)


def _prolonged(array: NDArray[Any], size: int) -> NDArray[Any]:
    longer = np.zeros((size, *array.shape[1:]), array.dtype)  # untouched until it is used
    longer[: len(array)] = array
    return longer


@kernel(inline=True)
def lend_memory(m):
    """The same memory without reference counts (see `spaql.compiling.borrow`)."""
    return Memory(borrow(m.counts), borrow(m.facts), borrow(m.files))


@kernel(inline=True)
def lend_ledger(g):
    """The same ledger without reference counts."""
    return Ledger(
        borrow(g.ends),
        borrow(g.tally),
        borrow(g.edges),
        borrow(g.value),
        borrow(g.greedy),
        borrow(g.spots),
        borrow(g.scale),
    )


@kernel(inline=True)
def quarter(x, low, high):
    """Which quarter of an interval x lies in, 0 to 3."""
    width = high - low  # without branches: which quarter it is cannot be foretold
    return int(x >= low + 0.25 * width) + int(x >= low + 0.5 * width) + int(x >= low + 0.75 * width)


@kernel(inline=True)
def encode(f, m, g, rule, i, cell):
    """The quarters of the cell's sides that experience i lies in, two bits each."""
    node = f.cells[cell].node
    code = 0
    for d in range(rule.states):
        code |= quarter(m.facts[i, d], g.edges[node, 0, d], g.edges[node, 1, d]) << (2 * d)
    for d in range(rule.states, rule.sides):
        a = d - rule.states
        code |= quarter(m.facts[i, d], f.boxes[cell, 0, a], f.boxes[cell, 1, a]) << (2 * d)
    return code


@kernel(inline=True)
def book(tally, cell, first, amount, code, rule):
    """Add an amount to the bins, from column `first` on, that an experience of this code belongs to."""
    if rule.states == 1 and rule.sides == 2:  # the same, unrolled
        x = code & 3
        a = (code >> 2) & 3
        tally[cell, first + x] += amount
        tally[cell, first + 4 + a] += amount
        tally[cell, first + 8 + (x & 2) + (a >> 1)] += amount
        return
    at = first
    for d in range(rule.sides):
        tally[cell, at + ((code >> (2 * d)) & 3)] += amount
        at += 4
    for s in range(rule.states):
        row = (code >> (2 * s)) & 2
        for d in range(rule.states, rule.sides):
            tally[cell, at + row + ((code >> (2 * d + 1)) & 1)] += amount
            at += 4


@kernel(inline=True)
def chain(f, m, g, rule, i, cell):
    """File experience i under a cell, behind those that came before it; its code."""
    code = encode(f, m, g, rule, i, cell)
    m.files[i, CODE] = code
    m.files[i, CELL] = cell
    m.files[i, LATER] = NONE
    if g.ends[cell, 0] < 0:
        g.ends[cell, 0] = i
    else:
        m.files[g.ends[cell, 1], LATER] = i
    g.ends[cell, 1] = i
    book(g.tally, cell, 0, 1.0, code, rule)
    f.cells[cell].visits += 1
    return code


@kernel(inline=True)
def leaf(f, node, points, row, first):
    """The leaf of the state tree below a node that holds the point in `points[row]` from column `first` on."""
    while f.nodes[node].child >= 0:
        node = f.nodes[node].child + (points[row, first + f.nodes[node].dim] >= f.nodes[node].cut)
    return node


@kernel(inline=True)
def spot(f, g, points, row):
    """The leaf of the state tree that holds a point."""
    node = 0
    if points.shape[1] == 1:
        node = g.spots[min(int(points[row, 0] * GRID), GRID - 1)]
    return leaf(f, node, points, row, 0)


@kernel(inline=True)
def target(f, m, g, rule, i):
    """Target r + discount V(x') of experience i with the values of now."""
    reward = m.facts[i, rule.states + rule.actions]
    node = m.files[i, PLACE]
    if node < 0:
        return reward
    node = leaf(f, node, m.facts, i, rule.states + rule.actions + 1)
    m.files[i, PLACE] = node
    return reward + rule.discount * (g.value[node] - g.scale[DRIFT])


@kernel(inline=True)
def origin(f, m, i):
    """The leaf that holds the state of experience i."""
    node = leaf(f, m.files[i, ORIGIN], m.facts, i, 0)
    m.files[i, ORIGIN] = node
    return node


@kernel()
def survey(f, g):
    """V and greedy cell of every node, and where on the grid its leaves are; a child stands behind its parent."""
    f, g = lend(f), lend_ledger(g)
    g.scale[LOWEST] = np.inf
    g.scale[HIGHEST] = -np.inf
    for node in range(f.used[0]):
        value = f.nodes[node].top_q
        cell = f.nodes[node].top
        parent = f.links[node].parent
        if parent >= 0 and not value > g.value[parent]:
            value = g.value[parent]
            cell = g.greedy[parent]
        g.value[node] = value
        g.greedy[node] = cell
        if f.nodes[node].child < 0:
            g.scale[LOWEST] = min(g.scale[LOWEST], value)
            g.scale[HIGHEST] = max(g.scale[HIGHEST], value)
        level = f.nodes[node].level
        if level <= GRID_LEVELS and (f.nodes[node].child < 0 or level == GRID_LEVELS):
            first = int(g.edges[node, 0, 0] * GRID)
            for k in range(first, first + (GRID >> level)):
                g.spots[k] = node


@kernel()
def sweep(f, m, g, rule):
    """Give every experience its target and every cell their mean."""
    f, m, g = lend(f), lend_memory(m), lend_ledger(g)
    cells = f.used[1]
    used = m.counts[USED]
    sums = g.tally.shape[1] // 2
    for cell in range(cells):
        for k in range(sums, g.tally.shape[1]):
            g.tally[cell, k] = 0.0
    total = 0.0
    g.scale[DRIFT] = 0.0
    for i in range(used):
        cell = m.files[i, CELL]
        deviation = target(f, m, g, rule, i) - f.cells[cell].q
        total += deviation
        g.tally[cell, 2 * sums] += deviation * deviation
        book(g.tally, cell, sums, deviation, m.files[i, CODE], rule)
    residual = total / used
    g.scale[DRIFT] = residual if rule.settled else 0.0
    for cell in range(cells):
        change = residual
        if f.cells[cell].visits > 0:
            change = centre(f, g, cell)
        f.cells[cell].q += change


@kernel(inline=True)
def centre(f, g, cell):
    """Mean of a cell's targets minus its Q; makes the squares, so far around Q, those around the mean."""
    sums = g.tally.shape[1] // 2
    visits = f.cells[cell].visits
    total = 0.0
    for k in range(sums, sums + 4):  # the quarters of its first side
        total += g.tally[cell, k]
    mean = total / visits
    g.tally[cell, 2 * sums] -= visits * mean * mean
    return mean


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
    """Find the spread: the deviation of what is lost, and of targets within cells, over the whole space."""
    weight = 0.0
    mean = 0.0
    scatter = 0.0
    largest = 0.0
    for cell in range(f.used[1]):
        visits = f.cells[cell].visits
        if visits > 0:
            largest = max(largest, abs(f.cells[cell].q))
            share = volume(f, g, cell)
            weight += share
            loss = f.cells[cell].q - g.value[f.cells[cell].node]
            step = loss - mean
            mean += step * share / weight
            scatter += share * (step * (loss - mean) + g.tally[cell, g.tally.shape[1] - 1] / visits)
    spread = np.sqrt(max(scatter, 0.0) / weight)
    g.scale[SPREAD] = spread if spread > _ROUNDING * largest else 0.0


@kernel(inline=True)
def contrast(low_count, low_sum, high_count, high_sum, squares, rule):
    """Squared difference of the means of a cell's two groups, and the same over its squared standard error.

    Minus ones if there are too few of one.  `squares` around the common mean are those around the groups' own
    means, and what the difference adds.
    """
    if low_count < rule.evidence or high_count < rule.evidence:
        return -1.0, -1.0
    difference = high_sum / high_count - low_sum / low_count
    square = difference * difference
    weight = 1.0 / low_count + 1.0 / high_count
    within = squares - square / weight
    error = max(within, 0.0) / (low_count + high_count - 2) * weight
    return square, square / error if error > 0.0 else np.inf


@kernel(inline=True)
def halves(tally, cell, at, first, second, rule):
    """The contrast of bins `first` and `second` with the two others of the four from column `at` on."""
    sums = tally.shape[1] // 2
    third = 1 if first + second != 1 else 2  # of 0, 1, 2, 3 with first 0, and second 1, 2 or 3
    fourth = 6 - first - second - third
    return contrast(
        tally[cell, at + first] + tally[cell, at + second],
        tally[cell, sums + at + first] + tally[cell, sums + at + second],
        tally[cell, at + third] + tally[cell, at + fourth],
        tally[cell, sums + at + third] + tally[cell, sums + at + fourth],
        tally[cell, 2 * sums],
        rule,
    )


@kernel()
def strongest(f, m, g, rule, cell):
    """The side along which a cell's experiences differ most, if significantly and relevantly, else NONE."""
    f, m, g = lend(f), lend_memory(m), lend_ledger(g)
    visits = f.cells[cell].visits
    if visits < 4 * rule.evidence or not g.scale[SPREAD] > 0.0:
        return NONE
    relevant = (rule.tolerance * g.scale[SPREAD] * np.sqrt(float(m.counts[USED])) / visits) ** 2
    best = rule.confidence * rule.confidence
    side = NONE
    for d in range(rule.sides):
        size, strength = halves(g.tally, cell, 4 * d, 0, 1, rule)
        if strength > best and size > relevant:
            best = strength
            side = d
        if rule.middles and strength >= 0.0:
            size, strength = halves(g.tally, cell, 4 * d, 0, 3, rule)
            if strength > best and size > relevant:
                best = strength
                side = d
    at = 4 * rule.sides
    for s in range(rule.states):
        for _ in range(rule.states, rule.sides):
            enough = rule.diagonals
            for corner in range(4):
                enough = enough and g.tally[cell, at + corner] >= rule.evidence
            if enough:
                size, strength = halves(g.tally, cell, at, 0, 3, rule)
                if strength > best and size > relevant:
                    best = strength
                    side = s
            at += 4
    return side


@kernel()
def promising(f, m, g, rule, cell):
    """Whether a few experiences of the cell reached at least the value of the state they began in."""
    f, m, g = lend(f), lend_memory(m), lend_ledger(g)
    found = 0
    i = g.ends[cell, 0]
    while i >= 0:
        if target(f, m, g, rule, i) >= g.value[origin(f, m, i)]:
            found += 1
            if found == rule.evidence:
                return True
        i = m.files[i, LATER]
    return False


@kernel()
def part(f, m, g, rule, cell, side):
    """Cut a cell along a side and hand its experiences to the halves, with fresh targets."""
    f, m, g = lend(f), lend_memory(m), lend_ledger(g)
    node = f.cells[cell].node
    fresh = side < rule.states and f.nodes[node].child < 0
    q = f.cells[cell].q
    i = g.ends[cell, 0]
    upper = halve(f, cell, side)
    if fresh:
        frame_children(f, g, node, side)
    sums = g.tally.shape[1] // 2
    for half in (cell, upper):
        f.cells[half].visits = 0
        g.ends[half, 0] = NONE
        for k in range(g.tally.shape[1]):
            g.tally[half, k] = 0.0
    while i >= 0:
        later = m.files[i, LATER]
        half = upper if (m.files[i, CODE] >> (2 * side + 1)) & 1 else cell
        code = chain(f, m, g, rule, i, half)
        deviation = target(f, m, g, rule, i) - q
        g.tally[half, 2 * sums] += deviation * deviation
        book(g.tally, half, sums, deviation, code, rule)
        i = later
    for half in (cell, upper):
        if f.cells[half].visits > 0:
            f.cells[half].q = q + centre(f, g, half)
    m.counts[SPLITS] += 1


@kernel(inline=True)
def frame_children(f, g, node, side):
    """Give the two children of a node, fresh from a cut along a side, their boxes and for now its value."""
    left = f.nodes[node].child
    for child in range(left, left + 2):
        g.value[child] = g.value[node]
        for d in range(g.edges.shape[2]):
            g.edges[child, 0, d] = g.edges[node, 0, d]
            g.edges[child, 1, d] = g.edges[node, 1, d]
    g.edges[left, 1, side] = f.nodes[node].cut
    g.edges[left + 1, 0, side] = f.nodes[node].cut


@kernel(inline=True)
def narrow(f, g, cell, side):
    """Whether a cell's side is too narrow to be cut."""
    states = f.used[2]
    node = f.cells[cell].node
    if side < states:
        return f.nodes[node].level >= MAX_DEPTH * states or g.edges[node, 1, side] - g.edges[node, 0, side] < _NARROW
    return f.boxes[cell, 1, side - states] - f.boxes[cell, 0, side - states] < _NARROW


@kernel(inline=True)
def roomy(f, g):
    """Whether forest and ledger have room for one more split."""
    nodes, cells = min(f.nodes.shape[0], g.value.shape[0]), min(f.cells.shape[0], g.ends.shape[0])
    return f.used[0] + 2 <= nodes and f.used[1] + 1 <= cells


@kernel(inline=True)
def refine(f, m, g, rule):
    """Split every cell that should be, and its halves; False where the arrays have no room left for it."""
    cell = 0
    while cell < f.used[1]:
        side = strongest(f, m, g, rule, cell)
        if 0 <= side < rule.states and f.nodes[f.cells[cell].node].child >= 0:
            side = f.nodes[f.cells[cell].node].dim  # the node was cut before, for another cell
        barred = side == NONE or narrow(f, g, cell, side)
        if barred or (rule.promising and not promising(f, m, g, rule, cell)):
            cell += 1
        elif not roomy(f, g):
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
    done = refine(f, m, g, rule)
    m.counts[PENDING] = 0 if done else 1
    if done:  # not before: all cells are to be judged by the same values, however often room ran out
        refresh(f)
        survey(f, g)
    return done


@kernel()
def visited(f, m):
    """Which nodes are leaves that an experience began in, `[nodes]`."""
    f, m = lend(f), lend_memory(m)
    seen = np.zeros(f.used[0], np.bool_)
    for i in range(m.counts[USED]):
        seen[origin(f, m, i)] = True
    return seen


@kernel()
def forget(f, m, g, rule):
    """Forget every second experience, the older of each two, and file the others anew."""
    f, m, g = lend(f), lend_memory(m), lend_ledger(g)
    kept = m.counts[USED] // 2
    for cell in range(f.used[1]):
        f.cells[cell].visits = 0
        g.ends[cell, 0] = NONE
        for k in range(g.tally.shape[1]):
            g.tally[cell, k] = 0.0
    for i in range(kept):
        old = 2 * i + 1
        for k in range(m.facts.shape[1]):
            m.facts[i, k] = m.facts[old, k]
        for k in range(m.files.shape[1]):
            m.files[i, k] = m.files[old, k]
        chain(f, m, g, rule, i, m.files[i, CELL])
    m.counts[USED] = kept
    schedule(m, rule)


@kernel(inline=True)
def schedule(m, rule):
    """Let the next revision fall due when the memory will have grown by its share, but not by too few."""
    m.counts[NEXT] = m.counts[USED] + max(4 * rule.evidence, int(rule.growth * m.counts[USED]))
