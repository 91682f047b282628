"""What an agent has lived through, and where it is filed.

Every experience (x, a, r, x') is kept, and chained to the others of its cell.  Whenever there are enough new ones, all
are *revised*: V is found anew (`spaql.agents.tessera.value_iteration`), then cells are split by what their experiences say
(`spaql.agents.tessera.split_tests`).  Nothing is stale, and a cell that splits hands its experiences to its halves instead of a guess.

Memory grows without shifting: experience i of the arrays below is the i-th that is still remembered; the experiences of
one cell are chained in that order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spaql.partition.jit import kernel, unreferenced
from spaql.partition.kernels import GRID, GRID_LEVELS, NONE, Forest

# experiences; when to revise; whether splitting waits for room; splits; and those of them that a history row tells of
USED, NEXT, PENDING, SPLITS, TOLD = 0, 1, 2, 3, 4


class Memory(NamedTuple):
    """Experiences, in the order they were made; `allocate` makes it."""

    counts: NDArray[np.int64]  # [5] see the names above
    facts: NDArray[np.float64]  # [m, 2 states + actions + 1] state, action, reward, following state; in unit cubes
    files: NDArray[np.int32]  # [m, 5] where it is filed: see the names below
    targets: NDArray[np.float64]  # [m] as of the last revision
    rivals: NDArray[np.float64]  # [m] likewise: Q at its state of the best cell but its own, or the target itself


CODE, CELL, ORIGIN, PLACE, LATER = 0, 1, 2, 3, 4
# CODE    two bits per side: which quarter of its cell it lies in
# CELL    the cell that holds state and action
# ORIGIN  a node that holds the state, the leaf when last looked
# PLACE   the same for the state that followed, or NONE where the episode ended
# LATER   the next experience in the same cell, or NONE

SPREAD, LOWEST, HIGHEST, LEAST, MOST = 0, 1, 2, 3, 4


class Ledger(NamedTuple):
    """What is summed up per cell and per node of the forest."""

    ends: NDArray[np.int32]  # [cells, 2] first and last of its experiences
    # [cells, 2 bins] experiences per quarter of each side and per quadrant of each pair of sides; targets minus the
    # plane of the cell, likewise
    tally: NDArray[np.float64]
    duels: NDArray[np.float64]  # [cells, 2 states] targets minus rivals, per half of each state side
    squares: NDArray[np.float64]  # [cells, 3] around their means: of targets, of targets minus plane, of duels
    # [cells, 2 states + 2] the plane of Q over each cell: mean state and slope; lowest and highest target, minus Q
    planes: NDArray[np.float64]
    drafts: NDArray[np.float64]  # likewise: the planes of the revision under way, which begin to count at its end
    edges: NDArray[np.float64]  # [nodes, 2, states] low and high of each node's state box
    value: NDArray[np.float64]  # [nodes] V where the state's leaf is that node
    greedy: NDArray[np.int32]  # [nodes] the cell whose Q that is
    second: NDArray[np.int32]  # [nodes] of leaves: the best cell but that one, or NONE
    marks: NDArray[np.float64]  # [nodes, states] of leaves: the mean state of the experiences there, or the middle
    spots: NDArray[np.int32]  # [GRID] for one state dimension: where in the tree to look for a leaf, by place
    # [5] spread of targets over the space; smallest and largest V of a leaf; least and most that rewards can add up to
    scale: NDArray[np.float64]


PER_NODE = ("edges", "value", "greedy", "second", "marks")
PER_CELL = ("ends", "tally", "duels", "squares", "planes", "drafts")
PER_EXPERIENCE = ("facts", "files", "targets", "rivals")
TARGETS, RESIDUALS, DUELS = 0, 1, 2


class Rule(NamedTuple):
    """Constants of a revision."""

    states: int
    actions: int
    sides: int  # that may be cut: all states, and the actions unless they are finite
    discount: float
    z_threshold: float
    tolerance: float
    min_samples: (
        int  # experiences that each group of a contrast needs, and a cell to be promising; a split needs 4 times it
    )
    growth: float  # of the memory until the next revision
    planned: bool  # whether V is iterated until it settles, else once
    sloped: bool  # whether Q is a plane over its cell, else a level
    middles: bool  # whether middle halves are tested against outer quarters
    diagonals: bool  # whether diagonals of quadrants are
    duelling: bool  # whether halves are compared by what they gain on the next best cell
    promising: bool  # whether only promising cells are split


def bins(rule: Rule) -> int:
    """Quarters of every side, and quadrants of every pair of a state side and an action side."""
    return 4 * rule.sides + 4 * rule.states * (rule.sides - rule.states)


def allocate(rule: Rule, size: int) -> Memory:
    """An empty memory for so many experiences."""
    facts = np.zeros((size, 2 * rule.states + rule.actions + 1))
    files = np.zeros((size, 5), np.int32)
    return Memory(np.array([0, 4 * rule.min_samples, 0, 0, 0]), facts, files, np.zeros(size), np.zeros(size))


def open_ledger(rule: Rule, nodes: int, cells: int) -> Ledger:
    """An empty ledger for a forest with room for so many nodes and cells."""
    edges = np.zeros((nodes, 2, rule.states))
    edges[:, 1] = 1.0
    return Ledger(
        ends=np.full((cells, 2), NONE, np.int32),
        tally=np.zeros((cells, 2 * bins(rule))),
        duels=np.zeros((cells, 2 * rule.states)),
        squares=np.zeros((cells, 3)),
        planes=np.zeros((cells, 2 * rule.states + 2)),
        drafts=np.zeros((cells, 2 * rule.states + 2)),
        edges=edges,
        value=np.zeros(nodes),
        greedy=np.zeros(nodes, np.int32),
        second=np.full(nodes, NONE, np.int32),
        marks=np.full((nodes, rule.states), 0.5),
        spots=np.zeros(GRID, np.int32),
        scale=np.zeros(5),
    )


def longer_memory(memory: Memory, size: int) -> Memory:
    """The same memory with room for so many experiences."""
    return memory._replace(**{name: _prolonged(getattr(memory, name), size) for name in PER_EXPERIENCE})


def longer_ledger(ledger: Ledger, nodes: int, cells: int) -> Ledger:
    """The same ledger for a forest with room for so many nodes and cells."""
    grown = {name: _prolonged(getattr(ledger, name), nodes) for name in PER_NODE}
    grown |= {name: _prolonged(getattr(ledger, name), cells) for name in PER_CELL}
    return ledger._replace(**grown)


def check_memory(
    forest: Forest, memory: Memory, ledger: Ledger, rule: Rule, choices: int, boxes: tuple[NDArray[Any], NDArray[Any]]
) -> None:
    """Raise a ValueError where a kernel would follow an index out of its array, or for ever.

    `choices` is the number of finite actions, or 0; `boxes` are those of the nodes.
    """
    nodes, cells, used = int(forest.used[0]), int(forest.used[1]), int(memory.counts[USED])
    facts, reward = memory.facts[:used], rule.states + rule.actions
    seen, done = np.delete(facts, np.s_[rule.states : reward + 1], axis=1), facts[:, rule.states : reward]
    most = choices - 1 if choices else 1.0
    files = memory.files[:used]
    leaves = forest.nodes["child"][:nodes] == NONE
    numbers = (*memory, *ledger._replace(value=ledger.value[:nodes][leaves]))  # above them may be no cell, so no value
    within = [
        _within(files[:, CELL], 0, cells),
        _within(files[:, ORIGIN], 0, nodes),
        _within(files[:, PLACE], NONE, nodes),
        _within(ledger.greedy[:nodes][leaves], 0, cells),
        _within(ledger.second[:nodes], NONE, cells),
        _within(ledger.spots, 0, nodes),
        bool(((seen >= 0.0) & (seen <= 1.0)).all()),
        bool(((done >= 0.0) & (done <= most)).all()) and (not choices or np.array_equal(done, np.floor(done))),
        bool(np.isfinite(facts[:, reward]).all()),
        all(np.array_equal(ledger.edges[:nodes, k], boxes[k]) for k in range(2)),
        all(bool(np.isfinite(array).all()) for array in numbers if array.dtype.kind == "f"),
        0 <= memory.counts[NEXT] <= scheduled(used, rule) and memory.counts[PENDING] in (0, 1),
        0 <= memory.counts[TOLD] <= memory.counts[SPLITS],
    ]
    if not all(within) or not _chained(files, forest.cells["visits"][:cells], ledger.ends[:cells]):
        raise ValueError("a memory whose files lead nowhere")
    if not _coded(forest, memory, ledger, rule, boxes):
        raise ValueError("a memory that is not counted as it is")


def _coded(
    forest: Forest, memory: Memory, ledger: Ledger, rule: Rule, boxes: tuple[NDArray[Any], NDArray[Any]]
) -> bool:
    """Whether the quarters that experiences lie in, and how many in each, are those of their cells' boxes."""
    used, cells = int(memory.counts[USED]), int(forest.used[1])
    cell = memory.files[:used, CELL]
    node = forest.cells["node"][:cells][cell]
    codes, tally, at = np.zeros(used, np.int64), np.zeros((cells, bins(rule))), 0
    quarters = []
    for d in range(rule.sides):
        a = d - rule.states
        low, high = (ends[node, d] if a < 0 else forest.boxes[cell, k, a] for k, ends in enumerate(boxes))
        width, x = high - low, memory.facts[:used, d]
        part = sum((x >= low + share * width).astype(np.int64) for share in (0.25, 0.5, 0.75))
        quarters.append(part)
        codes |= part << (2 * d)
        np.add.at(tally, (cell, at + part), 1.0)
        at += 4
    for s in range(rule.states):
        for d in range(rule.states, rule.sides):
            np.add.at(tally, (cell, at + (quarters[s] & 2) + (quarters[d] >> 1)), 1.0)
            at += 4
    same = np.array_equal(np.where(codes < 1 << 31, codes, codes - (1 << 32)), memory.files[:used, CODE])
    return same and np.array_equal(tally, ledger.tally[:cells, : bins(rule)])


def _within(numbers: NDArray[np.int32], least: int, above: int) -> bool:
    """Whether all numbers are at least `least` and below `above`."""
    return bool(((numbers >= least) & (numbers < above)).all())


def _chained(files: NDArray[np.int32], visits: NDArray[np.int32], ends: NDArray[np.int32]) -> bool:
    """Whether the experiences of every cell are counted and chained in their order."""
    order = np.argsort(files[:, CELL], kind="stable")
    cell = files[order, CELL]
    last = np.append(cell[1:] != cell[:-1], True)[: len(cell)]
    later = np.where(last, NONE, np.append(order[1:], NONE)[: len(cell)])
    first = np.append(True, last[:-1])[: len(cell)]
    where = np.full(ends.shape, NONE)
    where[cell[first], 0], where[cell[last], 1] = order[first], order[last]
    counted = np.array_equal(np.bincount(cell, minlength=len(visits)), visits)
    return counted and np.array_equal(files[order, LATER], later) and np.array_equal(ends, where)


def _prolonged(array: NDArray[Any], size: int) -> NDArray[Any]:
    longer = np.zeros((size, *array.shape[1:]), array.dtype)  # untouched until it is used
    longer[: len(array)] = array
    return longer


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
    return code if code < 1 << 31 else code - (1 << 32)  # as 32 bits with a sign; 16 sides fill them


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


@kernel()
def sort(f, m):
    """Experiences in the order of their cells, and where in it each cell begins, `[cells + 1]`; as they are chained."""
    f, m = unreferenced(f), unreferenced(m)
    starts = np.zeros(f.used[1] + 1, np.int64)
    for cell in range(f.used[1]):
        starts[cell + 1] = starts[cell] + f.cells[cell].visits
    place = starts.copy()
    order = np.empty(m.counts[USED], np.int32)
    for i in range(m.counts[USED]):
        cell = m.files[i, CELL]
        order[place[cell]] = i
        place[cell] += 1
    return starts, order


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
def origin(f, m, i):
    """The leaf that holds the state of experience i."""
    node = leaf(f, m.files[i, ORIGIN], m.facts, i, 0)
    m.files[i, ORIGIN] = node
    return node


@kernel(inline=True)
def bend(g, cell, points, row, first):
    """What the plane of a cell adds to its Q at the point in `points[row]` from column `first` on."""
    states = g.edges.shape[2]
    total = 0.0
    for d in range(states):
        total += g.planes[cell, states + d] * (points[row, first + d] - g.planes[cell, d])
    return total


@kernel()
def mark(f, m, g):
    """Find the mean state of the experiences of every leaf, or its middle where there are none."""
    f, m, g = unreferenced(f), unreferenced(m), unreferenced(g)
    states = g.edges.shape[2]
    count = np.zeros(f.used[0])
    for node in range(f.used[0]):
        for d in range(states):
            g.marks[node, d] = 0.0
    for i in range(m.counts[USED]):
        node = origin(f, m, i)
        count[node] += 1.0
        for d in range(states):
            g.marks[node, d] += m.facts[i, d]
    for node in range(f.used[0]):
        for d in range(states):
            middle = 0.5 * (g.edges[node, 0, d] + g.edges[node, 1, d])
            g.marks[node, d] = g.marks[node, d] / count[node] if count[node] > 0.0 else middle


@kernel(inline=True)
def choose(f, g, leaf):
    """Find the cells whose planes are largest and second largest at the mark of a leaf; ties as in `spaql.partition.kernels`."""
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
            q = f.cells[cell].q + bend(g, cell, g.marks, leaf, 0)
            if q > best:
                second = first
                runner_up = best
                first = cell
                best = q
            elif q > runner_up:
                second = cell
                runner_up = q
            cell = f.cells[cell].next
    g.value[leaf] = f.cells[first].q
    g.greedy[leaf] = first
    g.second[leaf] = second


@kernel(inline=True)
def limit(g, rule, reward, ended):
    """Widen the range of what rewards can add up to by one of them; what is forgotten still counts."""
    total = reward if ended else reward / (1.0 - rule.discount)
    g.scale[LEAST] = min(g.scale[LEAST], total)
    g.scale[MOST] = max(g.scale[MOST], total)


@kernel()
def survey(f, g):
    """V and greedy cell of every node, and where on the grid its leaves are; a child stands behind its parent."""
    f, g = unreferenced(f), unreferenced(g)
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
            choose(f, g, node)
            value = g.value[node]
            g.scale[LOWEST] = min(g.scale[LOWEST], value)
            g.scale[HIGHEST] = max(g.scale[HIGHEST], value)
        level = f.nodes[node].level
        if level <= GRID_LEVELS and (f.nodes[node].child < 0 or level == GRID_LEVELS):
            first = int(g.edges[node, 0, 0] * GRID)
            for k in range(first, first + (GRID >> level)):
                g.spots[k] = node


@kernel(inline=True)
def frame_children(f, g, node, side):
    """Give the two children of a node, fresh from a cut along a side, their boxes and for now its value."""
    left = f.nodes[node].child
    for child in range(left, left + 2):
        g.value[child] = g.value[node]
        g.greedy[child] = g.greedy[node]
        g.second[child] = g.second[node]
        for d in range(g.edges.shape[2]):
            g.marks[child, d] = g.marks[node, d]
            g.edges[child, 0, d] = g.edges[node, 0, d]
            g.edges[child, 1, d] = g.edges[node, 1, d]
    g.edges[left, 1, side] = f.nodes[node].cut
    g.edges[left + 1, 0, side] = f.nodes[node].cut


@kernel()
def visited(f, m):
    """Which nodes are leaves that an experience began in, `[nodes]`."""
    f, m = unreferenced(f), unreferenced(m)
    seen = np.zeros(f.used[0], np.bool_)
    for i in range(m.counts[USED]):
        seen[origin(f, m, i)] = True
    return seen


@kernel()
def forget(f, m, g, rule):
    """Forget every second experience, the older of each two, and file the others anew."""
    f, m, g = unreferenced(f), unreferenced(m), unreferenced(g)
    kept = m.counts[USED] // 2
    for cell in range(f.used[1]):
        f.cells[cell].visits = 0
        g.ends[cell, 0] = NONE
        g.ends[cell, 1] = NONE
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
    m.counts[NEXT] = scheduled(m.counts[USED], rule)


@kernel(inline=True)
def scheduled(used, rule):
    """At how many experiences the next revision falls due after one, or after forgetting, with so many."""
    return used + max(4 * rule.min_samples, int(rule.growth * used))


def all_revised(memory: Memory, rule: Rule) -> bool:
    """Whether nothing is remembered that no revision has seen."""
    return bool(memory.counts[NEXT] == scheduled(memory.counts[USED], rule))
