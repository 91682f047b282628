"""V of a partition, from all that is remembered.

Each experience (x, a, r, x') has the target

    t = r + discount V(x')                                                        (V = 0 where the episode ended)

and each cell B the plane that fits the targets of its experiences,

    Q_B(x) = Q_B + slope_B (x - mean_B),      Q_B = mean of t,  mean_B = mean of x,

by least squares, with `min_samples` experiences more, spread evenly over the cell, that say the slope is 0.  The *greedy*
cell of a leaf of the state tree is that of the largest Q_B(x) at its *mark*, the mean state of the experiences there:
cells of all sizes, made of experiences from different places, are compared at one and the same state.  The policy is
the same all over a leaf; the value is not: V(x) = Q_B(x) of the greedy cell.  A level would hide what an action does
within a cell, and where steps are short (in control they mostly are) that is nearly all it does.  Q and V stay within
what rewards can add up to: those that ended an episode count once, others 1 / (1 - discount) times, and 0 is possible.

*Planning.*  A revision first sums up, per cell and leaf of the following state, how many experiences lead there, and
all that is needed to fit planes.  From these sums, which cost a fraction of a pass over the experiences, it iterates Q
and slopes of every cell in place, with the greedy cells found anew after every round, until they settle or the rounds
are used up; the next revision goes on from there.  In these rounds a slope is limited to the range of all V over the
cell, or that of the cell's targets if it is larger.  One pass over the experiences then makes their targets, which
count until the next revision, and planes of them.  A cell without any experience moves by what the others move by on
average.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spaql.agents.tessera.replay import (
    CELL,
    CODE,
    DUELS,
    HIGHEST,
    LEAST,
    LOWEST,
    MOST,
    PLACE,
    RESIDUALS,
    SPREAD,
    TARGETS,
    USED,
    bend,
    book,
    leaf,
    origin,
    survey,
)
from spaql.partition.jit import kernel, unreferenced
from spaql.partition.kernels import NONE, refresh

_ROUNDS = 30
_SETTLED = 1e-2  # of the spread: a smaller change of Q is none


class Model(NamedTuple):
    """Where the experiences of each cell lead: by pairs of a cell and a leaf that states of it were followed by."""

    starts: NDArray[np.int64]  # [cells + 1] of its pairs in the arrays below
    rewards: NDArray[np.float64]  # [cells] mean reward
    grades: NDArray[np.float64]  # [cells, states] slope of the rewards
    leaves: NDArray[np.int32]  # [pairs]
    shares: NDArray[np.float64]  # [pairs] of the cell's experiences
    means: NDArray[np.float64]  # [pairs, states] mean of the states that followed
    lifts: NDArray[np.float64]  # [pairs, states] what V there adds to the slope of the cell
    turns: NDArray[np.float64]  # [pairs, states, states] what the slope of V there adds to it


@kernel(inline=True)
def worth(g, node, points, row, first):
    """V at the point in `points[row]` from column `first` on, whose leaf is `node`."""
    return possible(g, g.value[node] + bend(g, g.greedy[node], points, row, first))


@kernel(inline=True)
def target(f, m, g, rule, i):
    """Target r + discount V(x') of experience i with the values of now."""
    reward = m.facts[i, rule.states + rule.actions]
    node = m.files[i, PLACE]
    if node < 0:
        return reward
    first = rule.states + rule.actions + 1
    node = leaf(f, node, m.facts, i, first)
    m.files[i, PLACE] = node
    return reward + rule.discount * worth(g, node, m.facts, i, first)


@kernel(inline=True)
def rival(f, m, g, i):
    """Q at the state of experience i of the best cell but its own; its target where there is no other."""
    node = origin(f, m, i)
    cell = g.greedy[node]
    if cell == m.files[i, CELL]:
        cell = g.second[node]
    return m.targets[i] if cell < 0 else f.cells[cell].q + bend(g, cell, m.facts, i, 0)


@kernel()
def pair(f, m, g, rule, firsts, order):
    """Look up the leaf of every state that followed; the pairs of a cell and a leaf, as starts and leaves."""
    f, m, g = unreferenced(f), unreferenced(m), unreferenced(g)
    cells = f.used[1]
    first = rule.states + rule.actions + 1
    starts = np.empty(cells + 1, np.int64)
    leaves = np.empty(m.counts[USED], np.int32)
    last = np.full(f.used[0], NONE, np.int64)  # cell that the leaf was last met from
    pairs = 0
    for cell in range(cells):
        starts[cell] = pairs
        for place in range(firsts[cell], firsts[cell + 1]):
            i = order[place]
            node = m.files[i, PLACE]
            if node >= 0:
                node = leaf(f, node, m.facts, i, first)
                m.files[i, PLACE] = node
                if last[node] != cell:
                    last[node] = cell
                    leaves[pairs] = node
                    pairs += 1
    starts[cells] = pairs
    return starts, leaves


@kernel()
def summarize(f, m, g, rule, firsts, order):
    """The model of all that is remembered; mean states of the planes are brought up to date."""
    f, m, g = unreferenced(f), unreferenced(m), unreferenced(g)
    starts, leaves = pair(f, m, g, rule, firsts, order)
    cells, pairs, states = f.used[1], starts[-1], rule.states
    first = states + rule.actions + 1
    rewards = np.zeros(cells)
    grades = np.zeros((cells, states))
    shares = np.zeros(pairs)
    means = np.zeros((pairs, states))
    lifts = np.zeros((pairs, states))
    turns = np.zeros((pairs, states, states))
    of = np.empty(f.used[0], np.int64)  # the pair of a leaf
    moments = np.empty(scratch(rule))
    column = np.empty(states)
    for cell in range(cells):
        visits = f.cells[cell].visits
        if visits == 0:
            continue
        for k in range(starts[cell], starts[cell + 1]):
            of[leaves[k]] = k
        node = f.cells[cell].node
        for k in range(moments.shape[0]):
            moments[k] = 0.0
        total = 0.0
        for place in range(firsts[cell], firsts[cell + 1]):
            i = order[place]
            reward = m.facts[i, first - 1]
            total += reward
            if rule.sloped:
                gather(m, g, rule, i, node, reward, moments)
            if m.files[i, PLACE] >= 0:
                k = of[m.files[i, PLACE]]
                shares[k] += 1.0
                for d in range(states):
                    means[k, d] += m.facts[i, first + d]
                    if rule.sloped:
                        x = m.facts[i, d] - g.edges[node, 0, d]
                        lifts[k, d] += x
                        for e in range(states):
                            turns[k, d, e] += x * m.facts[i, first + e]
        rewards[cell] = total / visits
        if rule.sloped:
            for d in range(states):
                g.planes[cell, d] = g.edges[node, 0, d] + moments[d] / visits
                column[d] = moments[states + d] - moments[d] * rewards[cell]
            factor(f, g, rule, cell, moments)
            solve(rule, moments, column)
            for d in range(states):
                grades[cell, d] = column[d]
        for k in range(starts[cell], starts[cell + 1]):
            if rule.sloped:
                # Around the mean states of the cell and of those that followed; the V there counts for all of them.
                for e in range(states):
                    for d in range(states):
                        column[d] = turns[k, d, e] - lifts[k, d] * means[k, e] / shares[k]
                    solve(rule, moments, column)
                    for d in range(states):
                        turns[k, d, e] = column[d]
                for d in range(states):
                    column[d] = lifts[k, d] - moments[d] * shares[k] / visits
                solve(rule, moments, column)
                for d in range(states):
                    lifts[k, d] = column[d]
            for d in range(states):
                means[k, d] /= shares[k]
            shares[k] /= visits
    return Model(starts, rewards, grades, leaves, shares, means, lifts, turns)


@kernel(inline=True)
def round_trip(f, g, rule, model, q, backwards):
    """Q and slope of every cell anew, one after the other; the largest change of Q."""
    cells, states = f.used[1], rule.states
    slope = np.empty(states)
    largest = 0.0
    total = 0.0
    weight = 0.0
    for step in range(cells):
        cell = cells - 1 - step if backwards else step
        visits = f.cells[cell].visits
        if visits == 0:
            continue
        value = 0.0
        for d in range(states):
            slope[d] = 0.0
        for k in range(model.starts[cell], model.starts[cell + 1]):
            other = g.greedy[model.leaves[k]]
            there = q[other]
            if rule.sloped:
                there += bend(g, other, model.means, k, 0)
                for d in range(states):
                    slope[d] += model.lifts[k, d] * there
                    for e in range(states):
                        slope[d] += model.turns[k, d, e] * g.planes[other, states + e]
            value += model.shares[k] * there
        value = possible(g, model.rewards[cell] + rule.discount * value)
        change = value - q[cell]
        largest = max(largest, abs(change))
        total += visits * change
        weight += visits
        q[cell] = value
        if rule.sloped:
            for d in range(states):
                slope[d] = model.grades[cell, d] + rule.discount * slope[d]
            lean(f, g, cell, slope)
    for cell in range(cells):
        if f.cells[cell].visits == 0:
            q[cell] = possible(g, q[cell] + total / weight)
    return largest


@kernel(inline=True)
def lean(f, g, cell, slope):
    """Give a cell its slope, or as much of it as spans the range of all V, or of the cell's targets if larger."""
    states = slope.shape[0]
    node = f.cells[cell].node
    rise = 0.0
    for d in range(states):
        rise += abs(slope[d]) * (g.edges[node, 1, d] - g.edges[node, 0, d])
    most = max(g.scale[HIGHEST] - g.scale[LOWEST], g.planes[cell, 2 * states + 1] - g.planes[cell, 2 * states])
    part = most / rise if rise > most else 1.0
    for d in range(states):
        g.planes[cell, states + d] = part * slope[d]


@kernel()
def plan(f, m, g, rule, firsts, order):
    """Iterate Q, slopes and the policy on the model of all that is remembered."""
    f, m, g = unreferenced(f), unreferenced(m), unreferenced(g)
    model = summarize(f, m, g, rule, firsts, order)
    cells = f.used[1]
    q = np.empty(cells)
    before = np.empty(f.used[0], np.int32)
    for cell in range(cells):
        q[cell] = f.cells[cell].q
    still = _SETTLED * g.scale[SPREAD]
    for turn in range(_ROUNDS):
        change = round_trip(f, g, rule, model, q, turn % 2 == 0)
        for cell in range(cells):
            f.cells[cell].q = q[cell]
        for node in range(f.used[0]):
            before[node] = g.greedy[node]
        refresh(f)
        survey(f, g)
        improved = False
        for node in range(f.used[0]):
            improved = improved or (f.nodes[node].child < 0 and g.greedy[node] != before[node])
        if not improved and change <= still:
            break


@kernel(inline=True)
def possible(g, value):
    """A value within what rewards can add up to."""
    return min(max(value, g.scale[LEAST]), g.scale[MOST])


@kernel()
def sweep(f, m, g, rule, firsts, order):
    """Give every experience its target and every cell their mean, their plane and their tallies."""
    f, m, g = unreferenced(f), unreferenced(m), unreferenced(g)
    cells = f.used[1]
    changes = np.zeros(cells)
    moments = np.empty(scratch(rule))
    residual = 0.0
    for i in range(m.counts[USED]):
        m.targets[i] = target(f, m, g, rule, i)
        if rule.duelling:
            m.rivals[i] = rival(f, m, g, i)
    for cell in range(cells):
        visits = f.cells[cell].visits
        if visits > 0:
            total = measure(f, m, g, rule, cell, f.cells[cell].q, moments, order[firsts[cell] : firsts[cell + 1]])
            residual += total
            changes[cell] = total / visits
    residual /= m.counts[USED]
    for cell in range(cells):
        f.cells[cell].q += changes[cell] if f.cells[cell].visits > 0 else residual
    adopt(f, g)


@kernel(inline=True)
def adopt(f, g):
    """Let the planes that were drafted count."""
    for cell in range(f.used[1]):
        for k in range(g.planes.shape[1]):
            g.planes[cell, k] = g.drafts[cell, k]


@kernel(inline=True)
def scratch(rule):
    """Numbers that `measure` needs to work with: sums of states, of states times targets, and of their products."""
    return 2 * rule.states + rule.states * (rule.states + 1) // 2


@kernel(inline=True)
def measure(f, m, g, rule, cell, q, moments, own):
    """Draft the plane of a cell's targets and book how far they are from it, and from rivals; their sum, minus q.

    `own` lists its experiences; `moments` is scratch.
    """
    states = rule.states
    node = f.cells[cell].node
    visits = f.cells[cell].visits
    for k in range(moments.shape[0]):
        moments[k] = 0.0
    total = 0.0
    squares = 0.0
    low = np.inf
    high = -np.inf
    for i in own:
        deviation = m.targets[i] - q
        total += deviation
        squares += deviation * deviation
        low = min(low, deviation)
        high = max(high, deviation)
        if rule.sloped:
            gather(m, g, rule, i, node, deviation, moments)
    mean = total / visits
    for k in range(g.drafts.shape[1]):
        g.drafts[cell, k] = 0.0
    if rule.sloped:
        g.drafts[cell, 2 * states] = low - mean
        g.drafts[cell, 2 * states + 1] = high - mean
        column = np.empty(states)
        for d in range(states):
            g.drafts[cell, d] = g.edges[node, 0, d] + moments[d] / visits
            column[d] = moments[states + d] - moments[d] * mean
        factor(f, g, rule, cell, moments)
        solve(rule, moments, column)
        for d in range(states):
            g.drafts[cell, states + d] = column[d]
    compare(m, g, rule, cell, q + mean, own)
    g.squares[cell, TARGETS] = max(0.0, squares - visits * mean * mean)
    return total


@kernel(inline=True)
def compare(m, g, rule, cell, q, own):
    """Book a cell's targets minus the plane that was drafted around q, and minus their rivals."""
    states = rule.states
    bins = g.tally.shape[1] // 2
    for k in range(bins, 2 * bins):
        g.tally[cell, k] = 0.0
    for k in range(2 * states):
        g.duels[cell, k] = 0.0
    residuals = 0.0
    lead = 0.0
    leads = 0.0
    for i in own:
        residual = m.targets[i] - q
        for d in range(states):
            residual -= g.drafts[cell, states + d] * (m.facts[i, d] - g.drafts[cell, d])
        residuals += residual * residual
        book(g.tally, cell, bins, residual, m.files[i, CODE], rule)
        if rule.duelling:
            gain = m.targets[i] - m.rivals[i]
            lead += gain
            leads += gain * gain
            for d in range(states):
                g.duels[cell, 2 * d + ((m.files[i, CODE] >> (2 * d + 1)) & 1)] += gain
    g.squares[cell, RESIDUALS] = residuals
    g.squares[cell, DUELS] = max(0.0, leads - lead * lead / len(own))


@kernel(inline=True)
def gather(m, g, rule, i, node, amount, moments):
    """Add experience i to sums of states, of states times an amount, and of products of states (lower half).

    States are counted from the lower corner of a node.
    """
    states = rule.states
    at = 2 * states
    for d in range(states):
        x = m.facts[i, d] - g.edges[node, 0, d]
        moments[d] += x
        moments[states + d] += x * amount
        for e in range(d + 1):
            moments[at] += x * (m.facts[i, e] - g.edges[node, 0, e])
            at += 1


@kernel(inline=True)
def factor(f, g, rule, cell, moments):
    """Turn the sums of products into the Cholesky factor of the scatter of a cell's states, with `min_samples` more."""
    states = rule.states
    node = f.cells[cell].node
    visits = f.cells[cell].visits
    row = 2 * states
    for d in range(states):
        for e in range(d + 1):
            entry = moments[row + e] - moments[d] * moments[e] / visits
            if e == d:
                width = g.edges[node, 1, d] - g.edges[node, 0, d]
                entry += rule.min_samples * width * width / 12.0
            other = 2 * states + e * (e + 1) // 2
            for k in range(e):
                entry -= moments[row + k] * moments[other + k]
            moments[row + e] = np.sqrt(entry) if e == d else entry / moments[other + e]
        row += d + 1


@kernel(inline=True)
def solve(rule, moments, column):
    """Solve for a column with the factor in `moments`, in place."""
    states = rule.states
    first = 2 * states
    for d in range(states):
        row = first + d * (d + 1) // 2
        for k in range(d):
            column[d] -= moments[row + k] * column[k]
        column[d] /= moments[row + d]
    for back in range(states):
        d = states - 1 - back
        for k in range(d + 1, states):
            column[d] -= moments[first + k * (k + 1) // 2 + d] * column[k]
        column[d] /= moments[first + d * (d + 1) // 2 + d]
