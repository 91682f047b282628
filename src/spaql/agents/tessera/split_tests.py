"""Where a cell is worth two, by what its experiences say.

In a cell of n experiences every side is looked at in quarters.  Four kinds of contrasts are tested.  Three are of
residuals, targets minus the plane of the cell, since what the plane tells needs no split:

* lower half against upper half, of each side;
* middle half against outer quarters, of each side: a peak in the middle leaves the two halves alike;
* for each state side and action side, the two diagonals of their four quadrants: where the better action depends on
  the state, neither side alone need matter.

The fourth is a duel, since two planes that are true may yet cross, and a leaf has but one action:

* lower half against upper half, of each state side, of what each target is above its rival, the Q of the best other
  cell at the same state.

The groups must have `min_samples` experiences each (so must the halves of a side whose middle is tested, and each of the
four quadrants), and the cell four times as many.  A contrast of group means m0 and m1 counts where it is
*significant*, |m0 - m1| > z_threshold * its standard error; where it is *relevant*,

    |m0 - m1| n > tolerance * spread * sqrt(N),      N experiences in all;

and where the cell is *promising*: `min_samples` of its experiences reached at least the value of the state they began in,
t >= V(x).  `spread` is the deviation, over the whole space, of what is lost against the best action, Q - V, and of the
targets within cells, each cell weighing as much as its volume: what there is to win and to lose by acting.  It makes
the rule indifferent to the unit and the zero of the rewards; spread * sqrt(N) is how far chance alone moves the sum of
N rewards, and |m0 - m1| n is what the difference was worth in that time.  The more experiences, the finer the
partition.  Of the contrasts that count the most significant one says along which side the cell is cut (the state side
for diagonals; the side of its node's cut where another cell had the node cut before), and its halves are looked at in
turn.
"""

from __future__ import annotations

import numpy as np

from spaql.agents.tessera.replay import (
    CODE,
    DUELS,
    LATER,
    PENDING,
    RESIDUALS,
    SPLITS,
    SPREAD,
    TARGETS,
    USED,
    chain,
    frame_children,
    mark,
    origin,
    sort,
    survey,
)
from spaql.agents.tessera.value_iteration import adopt, measure, plan, scratch, sweep, worth
from spaql.partition.jit import kernel, unreferenced
from spaql.partition.kernels import MAX_DEPTH, NONE, halve, refresh

_ROUNDING = 1e-12  # of Q; a smaller spread is none
_NARROW = 2.0 ** (1 - MAX_DEPTH)  # a side that is not cut any more


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
            scatter += share * (step * (loss - mean) + g.squares[cell, TARGETS] / visits)
    spread = np.sqrt(max(scatter, 0.0) / weight)
    g.scale[SPREAD] = spread if spread > _ROUNDING * largest else 0.0


@kernel(inline=True)
def contrast(low_count, low_sum, high_count, high_sum, squares, rule):
    """Squared difference of the means of a cell's two groups, and the same over its squared standard error.

    Minus ones if there are too few of one.  `squares` around the common mean are those around the groups' own
    means, and what the difference adds.
    """
    if low_count < rule.min_samples or high_count < rule.min_samples:
        return -1.0, -1.0
    difference = high_sum / high_count - low_sum / low_count
    square = difference * difference
    weight = 1.0 / low_count + 1.0 / high_count
    within = squares - square / weight
    error = max(within, 0.0) / (low_count + high_count - 2) * weight
    return square, square / error if error > 0.0 else np.inf


@kernel(inline=True)
def halves(g, cell, at, first, second, rule):
    """The contrast of residuals of bins `first` and `second` with the two others of the four from column `at` on."""
    tally = g.tally
    sums = tally.shape[1] // 2
    third = 1 if first + second != 1 else 2  # of 0, 1, 2, 3 with first 0, and second 1, 2 or 3
    fourth = 6 - first - second - third
    return contrast(
        tally[cell, at + first] + tally[cell, at + second],
        tally[cell, sums + at + first] + tally[cell, sums + at + second],
        tally[cell, at + third] + tally[cell, at + fourth],
        tally[cell, sums + at + third] + tally[cell, sums + at + fourth],
        g.squares[cell, RESIDUALS],
        rule,
    )


@kernel()
def strongest(f, m, g, rule, cell):
    """The side along which a cell's experiences differ most, if significantly and relevantly, else NONE."""
    f, m, g = unreferenced(f), unreferenced(m), unreferenced(g)
    visits = f.cells[cell].visits
    if visits < 4 * rule.min_samples or not g.scale[SPREAD] > 0.0:
        return NONE
    relevant = (rule.tolerance * g.scale[SPREAD] * np.sqrt(float(m.counts[USED])) / visits) ** 2
    best = rule.z_threshold * rule.z_threshold
    side = NONE
    for d in range(rule.sides):
        size, strength = halves(g, cell, 4 * d, 0, 1, rule)
        if strength > best and size > relevant:
            best = strength
            side = d
        if rule.middles and strength >= 0.0:
            size, strength = halves(g, cell, 4 * d, 0, 3, rule)
            if strength > best and size > relevant:
                best = strength
                side = d
    if rule.duelling:
        for d in range(rule.states):
            size, strength = contrast(
                g.tally[cell, 4 * d] + g.tally[cell, 4 * d + 1],
                g.duels[cell, 2 * d],
                g.tally[cell, 4 * d + 2] + g.tally[cell, 4 * d + 3],
                g.duels[cell, 2 * d + 1],
                g.squares[cell, DUELS],
                rule,
            )
            if strength > best and size > relevant:
                best = strength
                side = d
    at = 4 * rule.sides
    for s in range(rule.states):
        for _ in range(rule.states, rule.sides):
            enough = rule.diagonals
            for corner in range(4):
                enough = enough and g.tally[cell, at + corner] >= rule.min_samples
            if enough:
                size, strength = halves(g, cell, at, 0, 3, rule)
                if strength > best and size > relevant:
                    best = strength
                    side = s
            at += 4
    return side


@kernel()
def promising(f, m, g, rule, cell):
    """Whether a few experiences of the cell reached at least the value of the state they began in."""
    f, m, g = unreferenced(f), unreferenced(m), unreferenced(g)
    found = 0
    i = g.ends[cell, 0]
    while i >= 0:
        if m.targets[i] >= worth(g, origin(f, m, i), m.facts, i, 0):
            found += 1
            if found == rule.min_samples:
                return True
        i = m.files[i, LATER]
    return False


@kernel()
def part(f, m, g, rule, cell, side):
    """Cut a cell along a side and hand its experiences to the halves, with the targets of this revision."""
    f, m, g = unreferenced(f), unreferenced(m), unreferenced(g)
    node = f.cells[cell].node
    fresh = side < rule.states and f.nodes[node].child < 0
    q = f.cells[cell].q
    i = g.ends[cell, 0]
    upper = halve(f, cell, side)
    if fresh:
        frame_children(f, g, node, side)
    for k in range(g.drafts.shape[1]):
        g.drafts[upper, k] = g.drafts[cell, k]
    for half in (cell, upper):
        f.cells[half].visits = 0
        g.ends[half, 0] = NONE
        g.ends[half, 1] = NONE
        for k in range(g.tally.shape[1]):
            g.tally[half, k] = 0.0
    while i >= 0:
        later = m.files[i, LATER]
        half = upper if (m.files[i, CODE] >> (2 * side + 1)) & 1 else cell
        chain(f, m, g, rule, i, half)
        i = later
    moments = np.empty(scratch(rule))
    for half in (cell, upper):
        visits = f.cells[half].visits
        if visits > 0:  # an empty half keeps Q and plane
            own = np.empty(visits, np.int32)
            i = g.ends[half, 0]
            for k in range(visits):
                own[k] = i
                i = m.files[i, LATER]
            f.cells[half].q = q + measure(f, m, g, rule, half, q, moments, own) / visits
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
    """Plan, and split where the experiences say so; False where it has to be called again with more room."""
    f, m, g = unreferenced(f), unreferenced(m), unreferenced(g)
    if m.counts[PENDING] == 0:
        starts, order = sort(f, m)
        if rule.planned:
            plan(f, m, g, rule, starts, order)
        sweep(f, m, g, rule, starts, order)
        refresh(f)
        survey(f, g)
        gauge(f, g)
    done = refine(f, m, g, rule)
    m.counts[PENDING] = 0 if done else 1
    if done:  # not before: all cells are to be judged by the same values, however often room ran out
        adopt(f, g)
        mark(f, m, g)
        refresh(f)
        survey(f, g)
    return done
