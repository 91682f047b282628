"""Statistical tests that decide which cells to split, and along which side.

In a cell of n transitions every side is divided into quarters.  Four kinds of contrasts are tested.  Three are of
residuals, targets minus the plane of the cell, since what the plane explains needs no split:

* lower half against upper half, of each side;
* *curvature*: middle half against outer quarters, of each side: a peak in the middle leaves the two halves alike;
* *diagonals*: for each state side and action side, the two diagonals of their four quadrants: where the better action
  depends on the state, neither side alone need matter.

The fourth compares policies, since two planes that fit may yet cross, and a leaf has but one action:

* *advantage*: lower half against upper half, of each state side, of target minus the Q of the best other cell at the
  same state.

The groups must have `min_samples` transitions each (so must the halves of a side whose curvature is tested, and each of
the four quadrants), and the cell four times as many.  A contrast of group means m0 and m1 counts where it is
significant, |m0 - m1| > z_threshold * its standard error; where its effect size is relevant,

    |m0 - m1| n > tolerance * spread * sqrt(N),      N transitions in all;

and where the cell is promising (*optimism*): `min_samples` of its transitions reached at least the value of the state
they began in, t >= V(x).  `spread` is the deviation, over the whole space, of the loss against the best action, Q - V,
and of the targets within cells, each cell weighted by its volume.  It makes the rule indifferent to the unit and the
zero of the rewards; spread * sqrt(N) is the standard deviation of the sum of N rewards, and |m0 - m1| n is what the
difference was worth in that time.  The more transitions, the finer the partition.  Of the contrasts that count the most
significant one decides along which side the cell is cut (the state side for diagonals; the side of its node's cut where
another cell had the node cut before), and its halves are tested in turn.
"""

import numpy as np

from spaql.agents.tessera.replay import (
    ADVANTAGES,
    CODE,
    NEXT,
    PENDING,
    RESIDUALS,
    SPLITS,
    SPREAD,
    TARGETS,
    USED,
    find_origin,
    link,
    set_child_boxes,
    sort_by_cell,
    update_anchors,
    update_greedy,
)
from spaql.agents.tessera.value_iteration import (
    adopt_planes,
    compute_value,
    count_moments,
    fit_cell,
    fit_targets,
    iterate_values,
)
from spaql.partition.jit import kernel, unreferenced
from spaql.partition.kernels import MAX_DEPTH, NONE, rebuild_index, split_side

_ROUNDING = 1e-12  # of Q: a smaller spread is rounding error
_NARROW = 2.0 ** (1 - MAX_DEPTH)  # a side that is not cut any more


@kernel(inline=True)
def compute_volume(f, stats, cell):
    """Return the share of the whole space that a cell takes up."""
    node = f.cells[cell].node
    share = 1.0
    for d in range(stats.node_boxes.shape[2]):
        share *= stats.node_boxes[node, 1, d] - stats.node_boxes[node, 0, d]
    for d in range(f.boxes.shape[2]):
        if f.boxes[cell, 1, d] > f.boxes[cell, 0, d]:
            share *= f.boxes[cell, 1, d] - f.boxes[cell, 0, d]
    return share


@kernel(inline=True)
def update_spread(f, stats):
    """Update the spread: the deviation of losses, and of targets within cells, over the whole space."""
    weight = 0.0
    mean = 0.0
    scatter = 0.0
    largest = 0.0
    for cell in range(f.used[1]):
        visits = f.cells[cell].visits
        if visits > 0:
            largest = max(largest, abs(f.cells[cell].q))
            share = compute_volume(f, stats, cell)
            weight += share
            loss = f.cells[cell].q - stats.value[f.cells[cell].node]
            step = loss - mean
            mean += step * share / weight
            scatter += share * (step * (loss - mean) + stats.squares[cell, TARGETS] / visits)
    spread = np.sqrt(max(scatter, 0.0) / weight)
    stats.scale[SPREAD] = spread if spread > _ROUNDING * largest else 0.0


@kernel(inline=True)
def compute_contrast(low_count, low_sum, high_count, high_sum, squares, hyper):
    """Return the squared difference of the means of two groups, and the same over its squared standard error.

    Minus ones if there are too few of one.  `squares` around the common mean are those around the groups' own
    means, and what the difference adds.
    """
    if low_count < hyper.min_samples or high_count < hyper.min_samples:
        return -1.0, -1.0
    difference = high_sum / high_count - low_sum / low_count
    square = difference * difference
    weight = 1.0 / low_count + 1.0 / high_count
    within = squares - square / weight
    error = max(within, 0.0) / (low_count + high_count - 2) * weight
    return square, square / error if error > 0.0 else np.inf


@kernel(inline=True)
def contrast_bins(stats, cell, at, first, second, hyper):
    """Contrast the residuals of bins `first` and `second` with the two others of the four from column `at` on."""
    tally = stats.tally
    sums = tally.shape[1] // 2
    third = 1 if first + second != 1 else 2  # of 0, 1, 2, 3 with first 0, and second 1, 2 or 3
    fourth = 6 - first - second - third
    return compute_contrast(
        tally[cell, at + first] + tally[cell, at + second],
        tally[cell, sums + at + first] + tally[cell, sums + at + second],
        tally[cell, at + third] + tally[cell, at + fourth],
        tally[cell, sums + at + third] + tally[cell, sums + at + fourth],
        stats.squares[cell, RESIDUALS],
        hyper,
    )


@kernel()
def find_split_side(f, buffer, stats, hyper, cell):
    """Return the side of the most significant contrast that is also relevant, or NONE."""
    f, buffer, stats = unreferenced(f), unreferenced(buffer), unreferenced(stats)
    visits = f.cells[cell].visits
    if visits < 4 * hyper.min_samples or not stats.scale[SPREAD] > 0.0:
        return NONE
    relevant = (hyper.tolerance * stats.scale[SPREAD] * np.sqrt(float(buffer.counts[USED])) / visits) ** 2
    best = hyper.z_threshold * hyper.z_threshold
    side = NONE
    for d in range(hyper.sides):
        size, strength = contrast_bins(stats, cell, 4 * d, 0, 1, hyper)
        if strength > best and size > relevant:
            best = strength
            side = d
        if hyper.curvature and strength >= 0.0:
            size, strength = contrast_bins(stats, cell, 4 * d, 0, 3, hyper)
            if strength > best and size > relevant:
                best = strength
                side = d
    if hyper.advantage:
        for d in range(hyper.states):
            size, strength = compute_contrast(
                stats.tally[cell, 4 * d] + stats.tally[cell, 4 * d + 1],
                stats.advantages[cell, 2 * d],
                stats.tally[cell, 4 * d + 2] + stats.tally[cell, 4 * d + 3],
                stats.advantages[cell, 2 * d + 1],
                stats.squares[cell, ADVANTAGES],
                hyper,
            )
            if strength > best and size > relevant:
                best = strength
                side = d
    at = 4 * hyper.sides
    for s in range(hyper.states):
        for _ in range(hyper.states, hyper.sides):
            enough = hyper.diagonals
            for corner in range(4):
                enough = enough and stats.tally[cell, at + corner] >= hyper.min_samples
            if enough:
                size, strength = contrast_bins(stats, cell, at, 0, 3, hyper)
                if strength > best and size > relevant:
                    best = strength
                    side = s
            at += 4
    return side


@kernel()
def is_promising(f, buffer, stats, hyper, cell):
    """Whether `min_samples` transitions of the cell reached at least the value of the state they began in."""
    f, buffer, stats = unreferenced(f), unreferenced(buffer), unreferenced(stats)
    reached = 0
    i = stats.ends[cell, 0]
    while i >= 0:
        if buffer.targets[i] >= compute_value(stats, find_origin(f, buffer, i), buffer.transitions, i, 0):
            reached += 1
            if reached == hyper.min_samples:
                return True
        i = buffer.links[i, NEXT]
    return False


@kernel()
def split_and_refit(f, buffer, stats, hyper, cell, side):
    """Cut a cell along a side, hand its transitions to the halves and fit these to the targets of this update."""
    f, buffer, stats = unreferenced(f), unreferenced(buffer), unreferenced(stats)
    node = f.cells[cell].node
    fresh = side < hyper.states and f.nodes[node].child < 0
    q = f.cells[cell].q
    i = stats.ends[cell, 0]
    upper = split_side(f, cell, side)
    if fresh:
        set_child_boxes(f, stats, node, side)
    for k in range(stats.new_planes.shape[1]):
        stats.new_planes[upper, k] = stats.new_planes[cell, k]
    for half in (cell, upper):
        f.cells[half].visits = 0
        stats.ends[half, 0] = NONE
        stats.ends[half, 1] = NONE
        for k in range(stats.tally.shape[1]):
            stats.tally[half, k] = 0.0
    while i >= 0:
        later = buffer.links[i, NEXT]
        half = upper if (buffer.links[i, CODE] >> (2 * side + 1)) & 1 else cell
        link(f, buffer, stats, hyper, i, half)
        i = later
    moments = np.empty(count_moments(hyper))
    for half in (cell, upper):
        visits = f.cells[half].visits
        if visits > 0:  # an empty half keeps Q and plane
            own = np.empty(visits, np.int32)
            i = stats.ends[half, 0]
            for k in range(visits):
                own[k] = i
                i = buffer.links[i, NEXT]
            f.cells[half].q = q + fit_cell(f, buffer, stats, hyper, half, q, moments, own) / visits
    buffer.counts[SPLITS] += 1


@kernel(inline=True)
def is_narrow(f, stats, cell, side):
    """Whether a cell's side is too narrow to be cut."""
    states = f.used[2]
    node = f.cells[cell].node
    if side < states:
        return (
            f.nodes[node].level >= MAX_DEPTH * states
            or stats.node_boxes[node, 1, side] - stats.node_boxes[node, 0, side] < _NARROW
        )
    return f.boxes[cell, 1, side - states] - f.boxes[cell, 0, side - states] < _NARROW


@kernel(inline=True)
def has_room(f, stats):
    """Whether forest and statistics have room for one more split."""
    nodes, cells = min(f.nodes.shape[0], stats.value.shape[0]), min(f.cells.shape[0], stats.ends.shape[0])
    return f.used[0] + 2 <= nodes and f.used[1] + 1 <= cells


@kernel(inline=True)
def split_cells(f, buffer, stats, hyper):
    """Split every cell that the tests say, and its halves; return False where the arrays have no room left."""
    cell = 0
    while cell < f.used[1]:
        side = find_split_side(f, buffer, stats, hyper, cell)
        if 0 <= side < hyper.states and f.nodes[f.cells[cell].node].child >= 0:
            side = f.nodes[f.cells[cell].node].dim  # the node was cut before, for another cell
        barred = side == NONE or is_narrow(f, stats, cell, side)
        if barred or (hyper.optimism and not is_promising(f, buffer, stats, hyper, cell)):
            cell += 1
        elif not has_room(f, stats):
            return False
        else:
            split_and_refit(f, buffer, stats, hyper, cell, side)
    return True


@kernel()
def update(f, buffer, stats, hyper):
    """Update all values and split cells; return False where it must be called again with more room."""
    f, buffer, stats = unreferenced(f), unreferenced(buffer), unreferenced(stats)
    if buffer.counts[PENDING] == 0:
        starts, order = sort_by_cell(f, buffer)
        if hyper.planning:
            iterate_values(f, buffer, stats, hyper, starts, order)
        fit_targets(f, buffer, stats, hyper, starts, order)
        rebuild_index(f)
        update_greedy(f, stats)
        update_spread(f, stats)
    done = split_cells(f, buffer, stats, hyper)
    buffer.counts[PENDING] = 0 if done else 1
    if done:  # not before: all cells are tested with the same values, however often room ran out
        adopt_planes(f, stats)
        update_anchors(f, buffer, stats)
        rebuild_index(f)
        update_greedy(f, stats)
    return done
