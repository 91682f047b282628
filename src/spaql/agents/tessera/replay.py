"""Replay buffer and per-cell statistics.

Every transition (x, a, r, x') is kept, and linked to the others of its cell.  Whenever there are enough new ones, an
*update* computes V anew from all of them (`spaql.agents.tessera.value_iteration`) and then splits cells where their
transitions differ (`spaql.agents.tessera.split_tests`).  No estimate is stale, and a cell that splits hands its
transitions to its halves.

Row i of the buffer is the i-th transition that is still kept; the transitions of a cell are linked in that order.

In the signatures of Tessera's kernels: f a `Forest`, buffer a `ReplayBuffer`, stats a `CellStats`, hyper its
`Hyperparameters`, i the number of a transition; `points` [rows, ...] states in the unit cube, of which row `row` is
meant, from column `first` on.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spaql.partition.jit import kernel, unreferenced
from spaql.partition.kernels import GRID, GRID_LEVELS, NONE, Forest

# transitions; how many of them the next update waits for; whether splitting waits for room; splits; and those of them
# that a history row has reported
USED, DUE, PENDING, SPLITS, REPORTED = 0, 1, 2, 3, 4


class ReplayBuffer(NamedTuple):
    """Transitions in the order they were made; see `make_buffer`."""

    counts: NDArray[np.int64]  # [5] see the names above
    transitions: NDArray[np.float64]  # [m, 2 states + actions + 1] x, a, r, x', in unit cubes
    links: NDArray[np.int32]  # [m, 5] see the names below
    targets: NDArray[np.float64]  # [m] as of the last update
    alternatives: NDArray[np.float64]  # [m] likewise: Q at x of the best cell but its own, or the target without one


CODE, CELL, NODE, NEXT_NODE, NEXT = 0, 1, 2, 3, 4
# CODE       two bits per side: the quarter of its cell that holds it
# CELL       the cell that holds x and a
# NODE       a node that holds x, the leaf when last looked up
# NEXT_NODE  the same for x', or NONE where the episode ended
# NEXT       the next transition of the same cell, or NONE

SPREAD, VALUE_LOW, VALUE_HIGH, RETURN_LOW, RETURN_HIGH = 0, 1, 2, 3, 4


class CellStats(NamedTuple):
    """Sums per cell and per node of the forest; see `make_stats`."""

    ends: NDArray[np.int32]  # [cells, 2] first and last of its transitions
    # [cells, 2 bins] transitions per quarter of each side and per quadrant of each pair of sides; and the sums of
    # their targets minus the plane of the cell
    tally: NDArray[np.float64]
    advantages: NDArray[np.float64]  # [cells, 2 states] targets minus alternatives, per half of each state side
    squares: NDArray[np.float64]  # [cells, 3] around their means: of targets, of targets minus plane, of advantages
    # [cells, 2 states + 2] the plane of Q over each cell: mean state and slope; lowest and highest target, minus Q
    planes: NDArray[np.float64]
    new_planes: NDArray[np.float64]  # likewise, of the update under way; they count from its end on
    node_boxes: NDArray[np.float64]  # [nodes, 2, states] low and high of each node's state box
    value: NDArray[np.float64]  # [nodes] V where the state's leaf is that node
    greedy: NDArray[np.int32]  # [nodes] the cell whose Q it is
    second: NDArray[np.int32]  # [nodes] of leaves: the second best cell, or NONE
    anchors: NDArray[np.float64]  # [nodes, states] of leaves: the mean state of the transitions there, or the middle
    leaf_grid: NDArray[np.int32]  # [GRID] for one state dimension: the node from which to look for a leaf
    # [5] spread of targets over the space; smallest and largest V of a leaf; smallest and largest possible return
    scale: NDArray[np.float64]


PER_NODE = ("node_boxes", "value", "greedy", "second", "anchors")
PER_CELL = ("ends", "tally", "advantages", "squares", "planes", "new_planes")
PER_TRANSITION = ("transitions", "links", "targets", "alternatives")
TARGETS, RESIDUALS, ADVANTAGES = 0, 1, 2


class Hyperparameters(NamedTuple):
    """Constants of an update."""

    states: int
    actions: int
    sides: int  # that may be cut: all states, and the actions unless they are discrete
    discount: float
    z_threshold: float
    tolerance: float
    min_samples: int  # of each group of a contrast, and of a promising cell; a split needs 4 times as many
    growth: float  # of the buffer until the next update
    planning: bool  # whether V is iterated until it converges, else once
    slopes: bool  # whether Q is a plane over its cell, else constant
    curvature: bool  # whether middle halves are tested against outer quarters
    diagonals: bool  # whether diagonals of quadrants are
    advantage: bool  # whether halves are compared by their advantage over the best other cell
    optimism: bool  # whether only promising cells are split


def count_bins(hyper: Hyperparameters) -> int:
    """Count the quarters of every side and the quadrants of every pair of a state side and an action side."""
    return 4 * hyper.sides + 4 * hyper.states * (hyper.sides - hyper.states)


def make_buffer(hyper: Hyperparameters, size: int) -> ReplayBuffer:
    """Make an empty buffer for `size` transitions."""
    transitions = np.zeros((size, 2 * hyper.states + hyper.actions + 1))
    links = np.zeros((size, 5), np.int32)
    return ReplayBuffer(
        np.array([0, 4 * hyper.min_samples, 0, 0, 0]), transitions, links, np.zeros(size), np.zeros(size)
    )


def make_stats(hyper: Hyperparameters, nodes: int, cells: int) -> CellStats:
    """Make the statistics of a forest with room for `nodes` and `cells`."""
    node_boxes = np.zeros((nodes, 2, hyper.states))
    node_boxes[:, 1] = 1.0
    return CellStats(
        ends=np.full((cells, 2), NONE, np.int32),
        tally=np.zeros((cells, 2 * count_bins(hyper))),
        advantages=np.zeros((cells, 2 * hyper.states)),
        squares=np.zeros((cells, 3)),
        planes=np.zeros((cells, 2 * hyper.states + 2)),
        new_planes=np.zeros((cells, 2 * hyper.states + 2)),
        node_boxes=node_boxes,
        value=np.zeros(nodes),
        greedy=np.zeros(nodes, np.int32),
        second=np.full(nodes, NONE, np.int32),
        anchors=np.full((nodes, hyper.states), 0.5),
        leaf_grid=np.zeros(GRID, np.int32),
        scale=np.zeros(5),
    )


def grow_buffer(buffer: ReplayBuffer, size: int) -> ReplayBuffer:
    """Return the buffer with room for `size` transitions."""
    return buffer._replace(**{name: _extend(getattr(buffer, name), size) for name in PER_TRANSITION})


def grow_stats(stats: CellStats, nodes: int, cells: int) -> CellStats:
    """Return the statistics with room for `nodes` and `cells`."""
    grown = {name: _extend(getattr(stats, name), nodes) for name in PER_NODE}
    grown |= {name: _extend(getattr(stats, name), cells) for name in PER_CELL}
    return stats._replace(**grown)


def check_buffer(
    forest: Forest,
    buffer: ReplayBuffer,
    stats: CellStats,
    hyper: Hyperparameters,
    choices: int,
    boxes: tuple[NDArray[Any], NDArray[Any]],
) -> None:
    """Raise a ValueError where a kernel would follow an index out of its array, or for ever.

    `choices` is the number of discrete actions, or 0; `boxes` are those of the nodes.
    """
    nodes, cells, used = int(forest.used[0]), int(forest.used[1]), int(buffer.counts[USED])
    transitions, reward = buffer.transitions[:used], hyper.states + hyper.actions
    seen, done = np.delete(transitions, np.s_[hyper.states : reward + 1], axis=1), transitions[:, hyper.states : reward]
    most = choices - 1 if choices else 1.0
    links = buffer.links[:used]
    leaves = forest.nodes["child"][:nodes] == NONE
    numbers = (*buffer, *stats._replace(value=stats.value[:nodes][leaves]))  # above them may be no cell, so no value
    within = [
        _is_within(links[:, CELL], 0, cells),
        _is_within(links[:, NODE], 0, nodes),
        _is_within(links[:, NEXT_NODE], NONE, nodes),
        _is_within(stats.greedy[:nodes][leaves], 0, cells),
        _is_within(stats.second[:nodes], NONE, cells),
        _is_within(stats.leaf_grid, 0, nodes),
        bool(((seen >= 0.0) & (seen <= 1.0)).all()),
        bool(((done >= 0.0) & (done <= most)).all()) and (not choices or np.array_equal(done, np.floor(done))),
        bool(np.isfinite(transitions[:, reward]).all()),
        all(np.array_equal(stats.node_boxes[:nodes, k], boxes[k]) for k in range(2)),
        all(bool(np.isfinite(array).all()) for array in numbers if array.dtype.kind == "f"),
        0 <= buffer.counts[DUE] <= next_update(used, hyper) and buffer.counts[PENDING] in (0, 1),
        0 <= buffer.counts[REPORTED] <= buffer.counts[SPLITS],
    ]
    if not all(within) or not _is_linked(links, forest.cells["visits"][:cells], stats.ends[:cells]):
        raise ValueError("corrupt links of the replay buffer")
    if not _has_valid_codes(forest, buffer, stats, hyper, boxes):
        raise ValueError("corrupt tallies of the replay buffer")


def _has_valid_codes(
    forest: Forest,
    buffer: ReplayBuffer,
    stats: CellStats,
    hyper: Hyperparameters,
    boxes: tuple[NDArray[Any], NDArray[Any]],
) -> bool:
    """Whether codes and tallies are those of the cells' boxes."""
    used, cells = int(buffer.counts[USED]), int(forest.used[1])
    cell = buffer.links[:used, CELL]
    node = forest.cells["node"][:cells][cell]
    codes, tally, at = np.zeros(used, np.int64), np.zeros((cells, count_bins(hyper))), 0
    quarters = []
    for d in range(hyper.sides):
        a = d - hyper.states
        low, high = (ends[node, d] if a < 0 else forest.boxes[cell, k, a] for k, ends in enumerate(boxes))
        width, x = high - low, buffer.transitions[:used, d]
        part = sum((x >= low + share * width).astype(np.int64) for share in (0.25, 0.5, 0.75))
        quarters.append(part)
        codes |= part << (2 * d)
        np.add.at(tally, (cell, at + part), 1.0)
        at += 4
    for s in range(hyper.states):
        for d in range(hyper.states, hyper.sides):
            np.add.at(tally, (cell, at + (quarters[s] & 2) + (quarters[d] >> 1)), 1.0)
            at += 4
    same = np.array_equal(np.where(codes < 1 << 31, codes, codes - (1 << 32)), buffer.links[:used, CODE])
    return same and np.array_equal(tally, stats.tally[:cells, : count_bins(hyper)])


def _is_within(numbers: NDArray[np.int32], least: int, above: int) -> bool:
    """Whether all numbers are at least `least` and below `above`."""
    return bool(((numbers >= least) & (numbers < above)).all())


def _is_linked(links: NDArray[np.int32], visits: NDArray[np.int32], ends: NDArray[np.int32]) -> bool:
    """Whether the transitions of every cell are counted, and linked in their order."""
    order = np.argsort(links[:, CELL], kind="stable")
    cell = links[order, CELL]
    last = np.append(cell[1:] != cell[:-1], True)[: len(cell)]
    later = np.where(last, NONE, np.append(order[1:], NONE)[: len(cell)])
    first = np.append(True, last[:-1])[: len(cell)]
    where = np.full(ends.shape, NONE)
    where[cell[first], 0], where[cell[last], 1] = order[first], order[last]
    counted = np.array_equal(np.bincount(cell, minlength=len(visits)), visits)
    return counted and np.array_equal(links[order, NEXT], later) and np.array_equal(ends, where)


def _extend(array: NDArray[Any], size: int) -> NDArray[Any]:
    longer = np.zeros((size, *array.shape[1:]), array.dtype)  # untouched until it is used
    longer[: len(array)] = array
    return longer


@kernel(inline=True)
def find_quarter(x, low, high):
    """Return the quarter of an interval that holds x, 0 to 3."""
    width = high - low  # without branches: which quarter it is cannot be predicted
    return int(x >= low + 0.25 * width) + int(x >= low + 0.5 * width) + int(x >= low + 0.75 * width)


@kernel(inline=True)
def encode_quarters(f, buffer, stats, hyper, i, cell):
    """Return the quarters of the cell's sides that hold transition i, two bits each."""
    node = f.cells[cell].node
    code = 0
    for d in range(hyper.states):
        code |= find_quarter(buffer.transitions[i, d], stats.node_boxes[node, 0, d], stats.node_boxes[node, 1, d]) << (
            2 * d
        )
    for d in range(hyper.states, hyper.sides):
        a = d - hyper.states
        code |= find_quarter(buffer.transitions[i, d], f.boxes[cell, 0, a], f.boxes[cell, 1, a]) << (2 * d)
    return code if code < 1 << 31 else code - (1 << 32)  # as 32 bits with a sign; 16 sides fill them


@kernel(inline=True)
def accumulate(tally, cell, first, amount, code, hyper):
    """Add an amount to the bins, from column `first` on, of a transition's code."""
    if hyper.states == 1 and hyper.sides == 2:  # the same, unrolled
        x = code & 3
        a = (code >> 2) & 3
        tally[cell, first + x] += amount
        tally[cell, first + 4 + a] += amount
        tally[cell, first + 8 + (x & 2) + (a >> 1)] += amount
        return
    at = first
    for d in range(hyper.sides):
        tally[cell, at + ((code >> (2 * d)) & 3)] += amount
        at += 4
    for s in range(hyper.states):
        row = (code >> (2 * s)) & 2
        for d in range(hyper.states, hyper.sides):
            tally[cell, at + row + ((code >> (2 * d + 1)) & 1)] += amount
            at += 4


@kernel(inline=True)
def link(f, buffer, stats, hyper, i, cell):
    """Link transition i to a cell, behind the earlier ones; return its code."""
    code = encode_quarters(f, buffer, stats, hyper, i, cell)
    buffer.links[i, CODE] = code
    buffer.links[i, CELL] = cell
    buffer.links[i, NEXT] = NONE
    if stats.ends[cell, 0] < 0:
        stats.ends[cell, 0] = i
    else:
        buffer.links[stats.ends[cell, 1], NEXT] = i
    stats.ends[cell, 1] = i
    accumulate(stats.tally, cell, 0, 1.0, code, hyper)
    f.cells[cell].visits += 1
    return code


@kernel()
def sort_by_cell(f, buffer):
    """Return where each cell begins, `[cells + 1]`, in the transitions ordered by cell, and that order."""
    f, buffer = unreferenced(f), unreferenced(buffer)
    starts = np.zeros(f.used[1] + 1, np.int64)
    for cell in range(f.used[1]):
        starts[cell + 1] = starts[cell] + f.cells[cell].visits
    place = starts.copy()
    order = np.empty(buffer.counts[USED], np.int32)
    for i in range(buffer.counts[USED]):
        cell = buffer.links[i, CELL]
        order[place[cell]] = i
        place[cell] += 1
    return starts, order


@kernel(inline=True)
def descend(f, node, points, row, first):
    """Return the leaf below a node that holds a point."""
    while f.nodes[node].child >= 0:
        node = f.nodes[node].child + (points[row, first + f.nodes[node].dim] >= f.nodes[node].cut)
    return node


@kernel(inline=True)
def find_leaf(f, stats, points, row):
    """Return the leaf of the state tree that holds a point."""
    node = 0
    if points.shape[1] == 1:
        node = stats.leaf_grid[min(int(points[row, 0] * GRID), GRID - 1)]
    return descend(f, node, points, row, 0)


@kernel(inline=True)
def find_origin(f, buffer, i):
    """Return the leaf that holds the state of transition i."""
    node = descend(f, buffer.links[i, NODE], buffer.transitions, i, 0)
    buffer.links[i, NODE] = node
    return node


@kernel(inline=True)
def slope_term(stats, cell, points, row, first):
    """Return what the slope of a cell adds to its Q at a point."""
    states = stats.node_boxes.shape[2]
    total = 0.0
    for d in range(states):
        total += stats.planes[cell, states + d] * (points[row, first + d] - stats.planes[cell, d])
    return total


@kernel()
def update_anchors(f, buffer, stats):
    """Set the anchor of every leaf: the mean state of its transitions, or its middle without any."""
    f, buffer, stats = unreferenced(f), unreferenced(buffer), unreferenced(stats)
    states = stats.node_boxes.shape[2]
    count = np.zeros(f.used[0])
    for node in range(f.used[0]):
        for d in range(states):
            stats.anchors[node, d] = 0.0
    for i in range(buffer.counts[USED]):
        node = find_origin(f, buffer, i)
        count[node] += 1.0
        for d in range(states):
            stats.anchors[node, d] += buffer.transitions[i, d]
    for node in range(f.used[0]):
        for d in range(states):
            middle = 0.5 * (stats.node_boxes[node, 0, d] + stats.node_boxes[node, 1, d])
            stats.anchors[node, d] = stats.anchors[node, d] / count[node] if count[node] > 0.0 else middle


@kernel(inline=True)
def choose_greedy(f, stats, leaf):
    """Find the cells of largest and second largest Q at the anchor of a leaf; ties as in `find_best`."""
    node = leaf
    while node >= 0:
        f.path[f.nodes[node].level] = node
        node = f.links[node].parent
    first = NONE
    second = NONE
    best = -np.inf
    runner_up = -np.inf
    for level in range(f.nodes[leaf].level + 1):
        cell = f.nodes[f.path[level]].head
        while cell >= 0:
            q = f.cells[cell].q + slope_term(stats, cell, stats.anchors, leaf, 0)
            if q > best:
                second = first
                runner_up = best
                first = cell
                best = q
            elif q > runner_up:
                second = cell
                runner_up = q
            cell = f.cells[cell].next
    stats.value[leaf] = f.cells[first].q
    stats.greedy[leaf] = first
    stats.second[leaf] = second


@kernel(inline=True)
def extend_return_range(stats, hyper, reward, ended):
    """Widen the range of possible returns by one reward; rewards that were dropped still count."""
    total = reward if ended else reward / (1.0 - hyper.discount)
    stats.scale[RETURN_LOW] = min(stats.scale[RETURN_LOW], total)
    stats.scale[RETURN_HIGH] = max(stats.scale[RETURN_HIGH], total)


@kernel()
def update_greedy(f, stats):
    """Update V, the greedy cell and the place on the grid of every node; children come after their parents."""
    f, stats = unreferenced(f), unreferenced(stats)
    stats.scale[VALUE_LOW] = np.inf
    stats.scale[VALUE_HIGH] = -np.inf
    for node in range(f.used[0]):
        value = f.nodes[node].top_q
        cell = f.nodes[node].top
        parent = f.links[node].parent
        if parent >= 0 and not value > stats.value[parent]:
            value = stats.value[parent]
            cell = stats.greedy[parent]
        stats.value[node] = value
        stats.greedy[node] = cell
        if f.nodes[node].child < 0:
            choose_greedy(f, stats, node)
            value = stats.value[node]
            stats.scale[VALUE_LOW] = min(stats.scale[VALUE_LOW], value)
            stats.scale[VALUE_HIGH] = max(stats.scale[VALUE_HIGH], value)
        level = f.nodes[node].level
        if level <= GRID_LEVELS and (f.nodes[node].child < 0 or level == GRID_LEVELS):
            first = int(stats.node_boxes[node, 0, 0] * GRID)
            for k in range(first, first + (GRID >> level)):
                stats.leaf_grid[k] = node


@kernel(inline=True)
def set_child_boxes(f, stats, node, side):
    """Give the two new children of a node that was cut along a side their boxes, and its value for now."""
    left = f.nodes[node].child
    for child in range(left, left + 2):
        stats.value[child] = stats.value[node]
        stats.greedy[child] = stats.greedy[node]
        stats.second[child] = stats.second[node]
        for d in range(stats.node_boxes.shape[2]):
            stats.anchors[child, d] = stats.anchors[node, d]
            stats.node_boxes[child, 0, d] = stats.node_boxes[node, 0, d]
            stats.node_boxes[child, 1, d] = stats.node_boxes[node, 1, d]
    stats.node_boxes[left, 1, side] = f.nodes[node].cut
    stats.node_boxes[left + 1, 0, side] = f.nodes[node].cut


@kernel()
def find_visited_leaves(f, buffer):
    """Return which nodes are leaves that hold the state of a transition, `[nodes]`."""
    f, buffer = unreferenced(f), unreferenced(buffer)
    seen = np.zeros(f.used[0], np.bool_)
    for i in range(buffer.counts[USED]):
        seen[find_origin(f, buffer, i)] = True
    return seen


@kernel()
def drop_half(f, buffer, stats, hyper):
    """Drop every second transition, the older of each two, and link the others anew."""
    f, buffer, stats = unreferenced(f), unreferenced(buffer), unreferenced(stats)
    kept = buffer.counts[USED] // 2
    for cell in range(f.used[1]):
        f.cells[cell].visits = 0
        stats.ends[cell, 0] = NONE
        stats.ends[cell, 1] = NONE
        for k in range(stats.tally.shape[1]):
            stats.tally[cell, k] = 0.0
    for i in range(kept):
        old = 2 * i + 1
        for k in range(buffer.transitions.shape[1]):
            buffer.transitions[i, k] = buffer.transitions[old, k]
        for k in range(buffer.links.shape[1]):
            buffer.links[i, k] = buffer.links[old, k]
        link(f, buffer, stats, hyper, i, buffer.links[i, CELL])
    buffer.counts[USED] = kept
    schedule_update(buffer, hyper)


@kernel(inline=True)
def schedule_update(buffer, hyper):
    """Schedule the next update."""
    buffer.counts[DUE] = next_update(buffer.counts[USED], hyper)


@kernel(inline=True)
def next_update(used, hyper):
    """Return the number of transitions at which the next update falls due."""
    return used + max(4 * hyper.min_samples, int(hyper.growth * used))


def is_up_to_date(buffer: ReplayBuffer, hyper: Hyperparameters) -> bool:
    """Whether the last update has seen all transitions."""
    return bool(buffer.counts[DUE] == next_update(buffer.counts[USED], hyper))
