"""Value iteration on a partition, from all transitions of the replay buffer.

Each transition (x, a, r, x') has the target

    t = r + discount V(x')                                                        (V = 0 where the episode ended)

and each cell B the plane that fits the targets of its transitions,

    Q_B(x) = Q_B + slope_B (x - mean_B),      Q_B = mean of t,  mean_B = mean of x,

by least squares, with a ridge worth `min_samples` further transitions, spread evenly over the cell, of slope 0.  The
*greedy* cell of a leaf of the state tree has the largest Q_B(x) at the leaf's *anchor*, the mean state of the
transitions there: cells of all sizes, fitted to transitions from different places, are compared at the same state.  The
policy is constant on a leaf; the value is not: V(x) = Q_B(x) of the greedy cell.  A constant would hide the effect of
an action within a cell, which is nearly all of it where steps are short, as in control.  Q and V stay within the range
of possible returns: a reward that ended an episode counts once, others 1 / (1 - discount) times, and 0 is possible.

*Planning.*  An update first sums up, per cell and leaf of the next state, how many transitions lead there, and the
moments that fitting planes takes.  From these sums, which cost a fraction of a pass over the transitions, it iterates Q
and slopes of every cell in place, with new greedy cells after every round, until they converge or the rounds are used
up; the next update continues from there.  In these rounds a slope is limited to the range of all V over the cell, or of
the cell's targets if that is larger.  One pass over the transitions then computes their targets, which stand until the
next update, and the planes.  A cell without transitions moves by the average change of the others.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spaql.agents.tessera.replay import (
    ADVANTAGES,
    CELL,
    CODE,
    NEXT_NODE,
    RESIDUALS,
    RETURN_HIGH,
    RETURN_LOW,
    SPREAD,
    TARGETS,
    USED,
    VALUE_HIGH,
    VALUE_LOW,
    accumulate,
    descend,
    find_origin,
    slope_term,
    update_greedy,
)
from spaql.partition.jit import kernel, unreferenced
from spaql.partition.kernels import NONE, rebuild_index

_ROUNDS = 30
_CONVERGED = 1e-2  # of the spread: smaller changes of Q have converged


class Model(NamedTuple):
    """Where the transitions of each cell lead: pairs of a cell and a leaf that holds next states of it."""

    starts: NDArray[np.int64]  # [cells + 1] of its pairs in the arrays below
    rewards: NDArray[np.float64]  # [cells] mean reward
    reward_slopes: NDArray[np.float64]  # [cells, states] slope of the rewards
    leaves: NDArray[np.int32]  # [pairs]
    shares: NDArray[np.float64]  # [pairs] of the cell's transitions
    means: NDArray[np.float64]  # [pairs, states] mean of the next states
    value_weights: NDArray[np.float64]  # [pairs, states] weight of V there in the slope of the cell
    slope_weights: NDArray[np.float64]  # [pairs, states, states] weight of the slope of V there in it


@kernel(inline=True)
def compute_value(stats, node, points, row, first):
    """Return V at a point whose leaf is `node`."""
    return clip_value(stats, stats.value[node] + slope_term(stats, stats.greedy[node], points, row, first))


@kernel(inline=True)
def compute_target(f, buffer, stats, hyper, i):
    """Return the target r + discount V(x') of transition i with the current values."""
    reward = buffer.transitions[i, hyper.states + hyper.actions]
    node = buffer.links[i, NEXT_NODE]
    if node < 0:
        return reward
    first = hyper.states + hyper.actions + 1
    node = descend(f, node, buffer.transitions, i, first)
    buffer.links[i, NEXT_NODE] = node
    return reward + hyper.discount * compute_value(stats, node, buffer.transitions, i, first)


@kernel(inline=True)
def compute_alternative(f, buffer, stats, i):
    """Return Q at the state of transition i of the best cell but its own; its target without another."""
    node = find_origin(f, buffer, i)
    cell = stats.greedy[node]
    if cell == buffer.links[i, CELL]:
        cell = stats.second[node]
    return buffer.targets[i] if cell < 0 else f.cells[cell].q + slope_term(stats, cell, buffer.transitions, i, 0)


@kernel()
def find_pairs(f, buffer, stats, hyper, firsts, order):
    """Look up the leaf of every next state; return the pairs of a cell and a leaf, as starts and leaves."""
    f, buffer, stats = unreferenced(f), unreferenced(buffer), unreferenced(stats)
    cells = f.used[1]
    first = hyper.states + hyper.actions + 1
    starts = np.empty(cells + 1, np.int64)
    leaves = np.empty(buffer.counts[USED], np.int32)
    last = np.full(f.used[0], NONE, np.int64)  # the cell that met the leaf last
    pairs = 0
    for cell in range(cells):
        starts[cell] = pairs
        for place in range(firsts[cell], firsts[cell + 1]):
            i = order[place]
            node = buffer.links[i, NEXT_NODE]
            if node >= 0:
                node = descend(f, node, buffer.transitions, i, first)
                buffer.links[i, NEXT_NODE] = node
                if last[node] != cell:
                    last[node] = cell
                    leaves[pairs] = node
                    pairs += 1
    starts[cells] = pairs
    return starts, leaves


@kernel()
def build_model(f, buffer, stats, hyper, firsts, order):
    """Return the model of all transitions; update the mean states of the planes."""
    f, buffer, stats = unreferenced(f), unreferenced(buffer), unreferenced(stats)
    starts, leaves = find_pairs(f, buffer, stats, hyper, firsts, order)
    cells, pairs, states = f.used[1], starts[-1], hyper.states
    first = states + hyper.actions + 1
    rewards = np.zeros(cells)
    reward_slopes = np.zeros((cells, states))
    shares = np.zeros(pairs)
    means = np.zeros((pairs, states))
    value_weights = np.zeros((pairs, states))
    slope_weights = np.zeros((pairs, states, states))
    of = np.empty(f.used[0], np.int64)  # the pair of a leaf
    moments = np.empty(count_moments(hyper))
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
            reward = buffer.transitions[i, first - 1]
            total += reward
            if hyper.slopes:
                add_moments(buffer, stats, hyper, i, node, reward, moments)
            if buffer.links[i, NEXT_NODE] >= 0:
                k = of[buffer.links[i, NEXT_NODE]]
                shares[k] += 1.0
                for d in range(states):
                    means[k, d] += buffer.transitions[i, first + d]
                    if hyper.slopes:
                        x = buffer.transitions[i, d] - stats.node_boxes[node, 0, d]
                        value_weights[k, d] += x
                        for e in range(states):
                            slope_weights[k, d, e] += x * buffer.transitions[i, first + e]
        rewards[cell] = total / visits
        if hyper.slopes:
            for d in range(states):
                stats.planes[cell, d] = stats.node_boxes[node, 0, d] + moments[d] / visits
                column[d] = moments[states + d] - moments[d] * rewards[cell]
            factor_scatter(f, stats, hyper, cell, moments)
            solve_slope(hyper, moments, column)
            for d in range(states):
                reward_slopes[cell, d] = column[d]
        for k in range(starts[cell], starts[cell + 1]):
            if hyper.slopes:
                # around the mean states of the cell and of its next states, where V stands for all of them
                for e in range(states):
                    for d in range(states):
                        column[d] = slope_weights[k, d, e] - value_weights[k, d] * means[k, e] / shares[k]
                    solve_slope(hyper, moments, column)
                    for d in range(states):
                        slope_weights[k, d, e] = column[d]
                for d in range(states):
                    column[d] = value_weights[k, d] - moments[d] * shares[k] / visits
                solve_slope(hyper, moments, column)
                for d in range(states):
                    value_weights[k, d] = column[d]
            for d in range(states):
                means[k, d] /= shares[k]
            shares[k] /= visits
    return Model(starts, rewards, reward_slopes, leaves, shares, means, value_weights, slope_weights)


@kernel(inline=True)
def back_up_cells(f, stats, hyper, model, q, backwards):
    """Back up Q and slope of every cell, one after the other; return the largest change of Q."""
    cells, states = f.used[1], hyper.states
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
            other = stats.greedy[model.leaves[k]]
            there = q[other]
            if hyper.slopes:
                there += slope_term(stats, other, model.means, k, 0)
                for d in range(states):
                    slope[d] += model.value_weights[k, d] * there
                    for e in range(states):
                        slope[d] += model.slope_weights[k, d, e] * stats.planes[other, states + e]
            value += model.shares[k] * there
        value = clip_value(stats, model.rewards[cell] + hyper.discount * value)
        change = value - q[cell]
        largest = max(largest, abs(change))
        total += visits * change
        weight += visits
        q[cell] = value
        if hyper.slopes:
            for d in range(states):
                slope[d] = model.reward_slopes[cell, d] + hyper.discount * slope[d]
            set_slope(f, stats, cell, slope)
    for cell in range(cells):
        if f.cells[cell].visits == 0:
            q[cell] = clip_value(stats, q[cell] + total / weight)
    return largest


@kernel(inline=True)
def set_slope(f, stats, cell, slope):
    """Give a cell its slope, at most that which spans the range of all V, or of the cell's targets if larger."""
    states = slope.shape[0]
    node = f.cells[cell].node
    rise = 0.0
    for d in range(states):
        rise += abs(slope[d]) * (stats.node_boxes[node, 1, d] - stats.node_boxes[node, 0, d])
    most = max(
        stats.scale[VALUE_HIGH] - stats.scale[VALUE_LOW],
        stats.planes[cell, 2 * states + 1] - stats.planes[cell, 2 * states],
    )
    part = most / rise if rise > most else 1.0
    for d in range(states):
        stats.planes[cell, states + d] = part * slope[d]


@kernel()
def iterate_values(f, buffer, stats, hyper, firsts, order):
    """Iterate Q, slopes and the policy on the model of all transitions."""
    f, buffer, stats = unreferenced(f), unreferenced(buffer), unreferenced(stats)
    model = build_model(f, buffer, stats, hyper, firsts, order)
    cells = f.used[1]
    q = np.empty(cells)
    before = np.empty(f.used[0], np.int32)
    for cell in range(cells):
        q[cell] = f.cells[cell].q
    still = _CONVERGED * stats.scale[SPREAD]
    for turn in range(_ROUNDS):
        change = back_up_cells(f, stats, hyper, model, q, turn % 2 == 0)
        for cell in range(cells):
            f.cells[cell].q = q[cell]
        for node in range(f.used[0]):
            before[node] = stats.greedy[node]
        rebuild_index(f)
        update_greedy(f, stats)
        improved = False
        for node in range(f.used[0]):
            improved = improved or (f.nodes[node].child < 0 and stats.greedy[node] != before[node])
        if not improved and change <= still:
            break


@kernel(inline=True)
def clip_value(stats, value):
    """Clip a value to the range of possible returns."""
    return min(max(value, stats.scale[RETURN_LOW]), stats.scale[RETURN_HIGH])


@kernel()
def fit_targets(f, buffer, stats, hyper, firsts, order):
    """Compute the target of every transition, and mean, plane and tallies of every cell."""
    f, buffer, stats = unreferenced(f), unreferenced(buffer), unreferenced(stats)
    cells = f.used[1]
    changes = np.zeros(cells)
    moments = np.empty(count_moments(hyper))
    residual = 0.0
    for i in range(buffer.counts[USED]):
        buffer.targets[i] = compute_target(f, buffer, stats, hyper, i)
        if hyper.advantage:
            buffer.alternatives[i] = compute_alternative(f, buffer, stats, i)
    for cell in range(cells):
        visits = f.cells[cell].visits
        if visits > 0:
            total = fit_cell(
                f, buffer, stats, hyper, cell, f.cells[cell].q, moments, order[firsts[cell] : firsts[cell + 1]]
            )
            residual += total
            changes[cell] = total / visits
    residual /= buffer.counts[USED]
    for cell in range(cells):
        f.cells[cell].q += changes[cell] if f.cells[cell].visits > 0 else residual
    adopt_planes(f, stats)


@kernel(inline=True)
def adopt_planes(f, stats):
    """Replace the planes by the new ones."""
    for cell in range(f.used[1]):
        for k in range(stats.planes.shape[1]):
            stats.planes[cell, k] = stats.new_planes[cell, k]


@kernel(inline=True)
def count_moments(hyper):
    """Count the sums `fit_cell` needs: of states, of states times targets, and of products of states."""
    return 2 * hyper.states + hyper.states * (hyper.states + 1) // 2


@kernel(inline=True)
def fit_cell(f, buffer, stats, hyper, cell, q, moments, own):
    """Fit a plane to a cell's targets and accumulate residuals and advantages; return the sum of targets minus q.

    `own` lists its transitions; `moments` is scratch.
    """
    states = hyper.states
    node = f.cells[cell].node
    visits = f.cells[cell].visits
    for k in range(moments.shape[0]):
        moments[k] = 0.0
    total = 0.0
    squares = 0.0
    low = np.inf
    high = -np.inf
    for i in own:
        deviation = buffer.targets[i] - q
        total += deviation
        squares += deviation * deviation
        low = min(low, deviation)
        high = max(high, deviation)
        if hyper.slopes:
            add_moments(buffer, stats, hyper, i, node, deviation, moments)
    mean = total / visits
    for k in range(stats.new_planes.shape[1]):
        stats.new_planes[cell, k] = 0.0
    if hyper.slopes:
        stats.new_planes[cell, 2 * states] = low - mean
        stats.new_planes[cell, 2 * states + 1] = high - mean
        column = np.empty(states)
        for d in range(states):
            stats.new_planes[cell, d] = stats.node_boxes[node, 0, d] + moments[d] / visits
            column[d] = moments[states + d] - moments[d] * mean
        factor_scatter(f, stats, hyper, cell, moments)
        solve_slope(hyper, moments, column)
        for d in range(states):
            stats.new_planes[cell, states + d] = column[d]
    accumulate_residuals(buffer, stats, hyper, cell, q + mean, own)
    stats.squares[cell, TARGETS] = max(0.0, squares - visits * mean * mean)
    return total


@kernel(inline=True)
def accumulate_residuals(buffer, stats, hyper, cell, q, own):
    """Accumulate a cell's targets minus its new plane around q, and minus their alternatives."""
    states = hyper.states
    bins = stats.tally.shape[1] // 2
    for k in range(bins, 2 * bins):
        stats.tally[cell, k] = 0.0
    for k in range(2 * states):
        stats.advantages[cell, k] = 0.0
    residuals = 0.0
    lead = 0.0
    leads = 0.0
    for i in own:
        residual = buffer.targets[i] - q
        for d in range(states):
            residual -= stats.new_planes[cell, states + d] * (buffer.transitions[i, d] - stats.new_planes[cell, d])
        residuals += residual * residual
        accumulate(stats.tally, cell, bins, residual, buffer.links[i, CODE], hyper)
        if hyper.advantage:
            gain = buffer.targets[i] - buffer.alternatives[i]
            lead += gain
            leads += gain * gain
            for d in range(states):
                stats.advantages[cell, 2 * d + ((buffer.links[i, CODE] >> (2 * d + 1)) & 1)] += gain
    stats.squares[cell, RESIDUALS] = residuals
    stats.squares[cell, ADVANTAGES] = max(0.0, leads - lead * lead / len(own))


@kernel(inline=True)
def add_moments(buffer, stats, hyper, i, node, amount, moments):
    """Add transition i to sums of states, of states times an amount, and of products of states (lower half).

    States are counted from the lower corner of a node.
    """
    states = hyper.states
    at = 2 * states
    for d in range(states):
        x = buffer.transitions[i, d] - stats.node_boxes[node, 0, d]
        moments[d] += x
        moments[states + d] += x * amount
        for e in range(d + 1):
            moments[at] += x * (buffer.transitions[i, e] - stats.node_boxes[node, 0, e])
            at += 1


@kernel(inline=True)
def factor_scatter(f, stats, hyper, cell, moments):
    """Turn sums of products into the Cholesky factor of the scatter of a cell's states, with the ridge."""
    states = hyper.states
    node = f.cells[cell].node
    visits = f.cells[cell].visits
    row = 2 * states
    for d in range(states):
        for e in range(d + 1):
            entry = moments[row + e] - moments[d] * moments[e] / visits
            if e == d:
                width = stats.node_boxes[node, 1, d] - stats.node_boxes[node, 0, d]
                entry += hyper.min_samples * width * width / 12.0
            other = 2 * states + e * (e + 1) // 2
            for k in range(e):
                entry -= moments[row + k] * moments[other + k]
            moments[row + e] = np.sqrt(entry) if e == d else entry / moments[other + e]
        row += d + 1


@kernel(inline=True)
def solve_slope(hyper, moments, column):
    """Solve for a column with the factor in `moments`, in place."""
    states = hyper.states
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
