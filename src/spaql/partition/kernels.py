"""Every compiled function that touches cells: find, sample, update, split, copy.

The cells of the unit state-action cube are indexed by *state*.  A binary tree over the state cube has one node per
dyadic state box; a cell hangs on the node that equals its own state box, in a list, newest first.  The cells relevant
to a state x are those on the one path from the root to the leaf that holds x: RELEVANT(x) of the paper, and

    max_{B in RELEVANT(x)} Q(B)  =  the largest of the nodes' best cells along that path,

O(depth) however many actions there are.  Cells are half-open, closed only at the top of the cube: at a node with
threshold `cut`, `x[dim] >= cut` goes up.  Several partitions (AQL's, one per time step) live in one forest, partition
h at root node h.

For a one-dimensional state the top `GRID_LEVELS` levels are also laid out flat: `grid[root, floor(x * GRID)]` is the
best cell itself, or, where the tree is deeper, the node from which to walk on.  `set_q` and the splits update it.

Ties go to the coarser cell, then to the newer one; of the children of one split the one with the lowest action is
the newest.  Kernels trust their arguments; `spaql.partition.partition` checks them.

The published `split_cell` halves every side at once, so a cell of depth k hangs on a node of level k * states, and a
node of level l cuts dimension l mod states.  `split_side` cuts one side: of the cells that hang on a node, the first to
be cut along a state decides the node's dimension.  A discrete action is a cell whose action box has no width and never
splits.

In signatures: f a `Forest`; `points` [rows, states] states in the unit cube, of which row `row` is meant.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spaql.partition.jit import kernel, unreferenced
from spaql.partition.rng import uniform

NONE = -1
GRID_LEVELS = 8
GRID = 1 << GRID_LEVELS
MAX_DEPTH = 30
MAX_VISITS = np.iinfo(np.int32).max

NODE = np.dtype(
    [
        ("cut", np.float64),  # threshold along dim: the middle of the node's box, except in `Partition.from_tree`
        ("top_q", np.float64),  # Q of the best cell here, -inf where there is none
        ("child", np.int32),  # lower child; the upper one follows it; NONE at a leaf
        ("head", np.int32),  # newest cell here, or NONE
        ("top", np.int32),  # best cell here, or NONE
        ("dim", np.int8),
        ("alone", np.int8),  # 1 where exactly one cell hangs here: then top and top_q suffice
        ("level", np.int16),
    ],
    align=True,
)  # 32 bytes: two children fill a cache line
LINK = np.dtype(
    [
        ("parent", np.int32),
        ("above", np.int32),  # best cell strictly above, for nodes inside the grid's levels
    ]
)
CELL = np.dtype(
    [
        ("q", np.float64),
        ("visits", np.int32),
        ("next", np.int32),  # the next older cell on the same node, or NONE
        ("node", np.int32),
        ("depth", np.int16),
        ("root", np.int16),
    ],
    align=True,
)


class Forest(NamedTuple):
    """The arrays of one forest of partitions; `spaql.partition.partition` allocates and grows them."""

    used: NDArray[np.int64]  # [3] nodes in use, cells in use, state dimensions
    nodes: NDArray[np.void]  # [nodes] NODE
    links: NDArray[np.void]  # [nodes] LINK: fields that look-ups do not read
    cells: NDArray[np.void]  # [cells] CELL
    boxes: NDArray[np.float64]  # [cells, 2, actions] low and high of each cell's action box
    grid: NDArray[np.int32]  # [roots, GRID] best cell, or -1 - node to walk on from
    stack: NDArray[np.int32]  # scratch of `update_grid`
    path: NDArray[np.int32]  # scratch of `sample_cell`: the nodes from root to leaf
    members: NDArray[np.int32]  # [cells] scratch of `sample_cell`
    weights: NDArray[np.float64]  # [cells] scratch of `sample_cell`


@kernel(inline=True)
def find_best(f, root, points, row):
    """Return the cell of largest Q among those relevant to x: argmax over RELEVANT(x)."""
    nodes = f.nodes
    if f.used[2] == 1:
        entry = f.grid[root, min(int(points[row, 0] * GRID), GRID - 1)]
        if entry >= 0:
            return entry
        node = -entry - 1
        cell = f.links[node].above
        q = -np.inf
        if cell >= 0:
            q = f.cells[cell].q
    else:
        node = root
        cell = NONE
        q = -np.inf
    while True:
        if nodes[node].top_q > q:
            q = nodes[node].top_q
            cell = nodes[node].top
        left = nodes[node].child
        if left < 0:
            return cell
        node = left + (points[row, nodes[node].dim] >= nodes[node].cut)


@kernel(inline=True)
def find_leaf(f, root, points, row):
    """Return the leaf of the state tree that holds `points[row]`: the smallest state box that any cell has there."""
    node = root
    left = f.nodes[node].child
    while left >= 0:
        node = left + (points[row, f.nodes[node].dim] >= f.nodes[node].cut)
        left = f.nodes[node].child
    return node


@kernel(inline=True)
def sample_cell(f, root, points, row, temperature, random):
    """Sample a cell of RELEVANT(x) by its Boltzmann weight (algorithm 1): P(B) ~ exp(Q(B) / (temperature * |max Q|)).

    Taking max Q off every Q first changes no probability and cannot overflow.  A maximum of zero, or so near it that
    the product is zero, would make the paper's normalisation 0/0; there the Q are taken as they are.
    """
    nodes = f.nodes
    node = root
    length = 0
    top = -np.inf
    touched = 0
    while True:
        # First only the path.  The cells' cache lines are requested here, all at once, so that a large partition waits
        # for memory once and not once per node.
        f.path[length] = node
        length += 1
        top = max(top, nodes[node].top_q)
        if not nodes[node].alone and nodes[node].head >= 0:
            touched ^= f.cells[nodes[node].head].next
        left = nodes[node].child
        if left < 0:
            break
        node = left + (points[row, nodes[node].dim] >= nodes[node].cut)
    f.path[length] = touched
    scale = temperature * abs(top)
    if scale == 0.0:
        scale = temperature
    count = 0
    total = 0.0
    for i in range(length):
        node = f.path[i]
        if nodes[node].alone:
            total += math.exp((nodes[node].top_q - top) / scale)
            f.members[count] = nodes[node].top
            f.weights[count] = total
            count += 1
        else:
            cell = nodes[node].head
            while cell >= 0:
                total += math.exp((f.cells[cell].q - top) / scale)
                f.members[count] = cell
                f.weights[count] = total
                count += 1
                cell = f.cells[cell].next
    pick = uniform(random) * total
    i = 0
    while i < count - 1 and f.weights[i] <= pick:
        i += 1
    return f.members[i]


@kernel(inline=True)
def draw_action(f, cell, random, actions, row):
    """Draw an action uniformly inside the cell, into `actions[row]`; a side of no width draws nothing."""
    for d in range(f.boxes.shape[2]):
        low = f.boxes[cell, 0, d]
        high = f.boxes[cell, 1, d]
        actions[row, d] = low + uniform(random) * (high - low) if high > low else low


@kernel(inline=True)
def take_centre(f, cell, actions, row):
    """Write the middle of the cell's action box into `actions[row]`."""
    for d in range(f.boxes.shape[2]):
        actions[row, d] = 0.5 * (f.boxes[cell, 0, d] + f.boxes[cell, 1, d])


@kernel(inline=True)
def update_grid(f, root, node, ceiling):
    """Update the grid below one node.

    `ceiling` is the larger of the best Q at that node before and after the change: where a node further down has a
    better cell of its own, nothing changed below it.  Infinity updates everything.
    """
    nodes = f.nodes
    cells = f.cells
    grid = f.grid
    level = nodes[node].level
    if f.used[2] != 1 or level > GRID_LEVELS:
        return
    stack = f.stack
    stack[0] = node
    height = 1
    while height:
        height -= 1
        node = stack[height]
        cell = f.links[node].above
        if cell < 0 or nodes[node].top_q > cells[cell].q:
            cell = nodes[node].top
        level = nodes[node].level
        left = nodes[node].child
        if left < 0:
            span = GRID >> level
            start = int(nodes[node].cut * GRID) & ~(span - 1)
            for i in range(start, start + span):
                grid[root, i] = cell
        elif level == GRID_LEVELS:
            grid[root, int(nodes[node].cut * GRID)] = -node - 1
        else:
            for child in range(left, left + 2):
                f.links[child].above = cell
                if not nodes[child].top_q > ceiling:
                    stack[height] = child
                    height += 1


@kernel(inline=True)
def update_top(f, node):
    """Find the best cell of a node; the newest wins a tie."""
    cells = f.cells
    top = NONE
    q = -np.inf
    cell = f.nodes[node].head
    while cell >= 0:
        if cells[cell].q > q:
            q = cells[cell].q
            top = cell
        cell = cells[cell].next
    f.nodes[node].top = top
    f.nodes[node].top_q = q


@kernel(inline=True)
def set_q(f, cell, q):
    """Give a cell its new Q and update the index."""
    f.cells[cell].q = q
    node = f.cells[cell].node
    before = f.nodes[node].top_q
    if q > before:
        f.nodes[node].top = cell
        f.nodes[node].top_q = q
    elif cell == f.nodes[node].top or q == before:
        update_top(f, node)
    else:
        return
    above = f.links[node].above
    ceiling = max(before, f.nodes[node].top_q)
    if above < 0 or f.cells[above].q < ceiling:
        update_grid(f, f.cells[cell].root, node, ceiling)


@kernel()
def find_middle(f, node, dim):
    """Return the middle of a node's box along one dimension.

    After k halvings along that dimension the box is 2^-k wide; its middle lies half of that from the last threshold.
    """
    nodes = f.nodes
    halvings = 0
    last = NONE
    upper = False
    child = node
    parent = f.links[node].parent
    while parent >= 0:
        if nodes[parent].dim == dim:
            if halvings == 0:
                last = parent
                upper = child == nodes[parent].child + 1
            halvings += 1
        child = parent
        parent = f.links[parent].parent
    if halvings == 0:
        return 0.5
    half = 0.5 ** (halvings + 1)
    return nodes[last].cut + (half if upper else -half)


@kernel()
def split_node(f, parent, dim):
    """Give a leaf its two children, the halves of its box along one dimension."""
    nodes = f.nodes
    states = f.used[2]
    left = f.used[0]
    f.used[0] += 2
    nodes[parent].child = left
    if nodes[parent].dim != dim:
        nodes[parent].dim = dim
        nodes[parent].cut = find_middle(f, parent, dim)
    for node in range(left, left + 2):
        nodes[node].top_q = -np.inf
        nodes[node].child = NONE
        nodes[node].head = NONE
        nodes[node].top = NONE
        nodes[node].alone = 0
        f.links[node].above = NONE
        f.links[node].parent = parent
        nodes[node].level = nodes[parent].level + 1
        nodes[node].dim = nodes[node].level % states
        nodes[node].cut = find_middle(f, node, nodes[node].dim)


@kernel()
def remove_cell(f, cell):
    """Remove a cell from its node's list; return its node, Q, visits, depth and root."""
    node = f.cells[cell].node
    if f.nodes[node].head == cell:
        f.nodes[node].head = f.cells[cell].next
    else:
        before = f.nodes[node].head
        while f.cells[before].next != cell:
            before = f.cells[before].next
        f.cells[before].next = f.cells[cell].next
    head = f.nodes[node].head
    f.nodes[node].alone = 1 if head >= 0 and f.cells[head].next < 0 else 0
    if f.nodes[node].top == cell:
        update_top(f, node)
    return node, f.cells[cell].q, f.cells[cell].visits, f.cells[cell].depth, f.cells[cell].root


@kernel()
def insert_cell(f, cell, node, q, visits, depth, root):
    """Write a cell and insert it at the head of its node's list, where it wins ties."""
    cells = f.cells
    cells[cell].q = q
    cells[cell].visits = visits
    cells[cell].depth = depth
    cells[cell].root = root
    cells[cell].node = node
    cells[cell].next = f.nodes[node].head
    f.nodes[node].alone = 1 if f.nodes[node].head < 0 else 0
    f.nodes[node].head = cell
    if q >= f.nodes[node].top_q:
        f.nodes[node].top_q = q
        f.nodes[node].top = cell


@kernel()
def split_cell(f, cell):
    """Halve every side of a cell: 2^d children that inherit its Q and visits (algorithm 1, SPLIT BALL).

    The first child takes its parent's place in the arrays.  Children are inserted from the highest action to the
    lowest, so that the lowest is the newest.  The caller has made room (`Partition.reserve`).
    """
    states = f.used[2]
    actions = f.boxes.shape[2]
    node, q, visits, depth, root = remove_cell(f, cell)
    low = f.boxes[cell, 0].copy()
    high = f.boxes[cell, 1].copy()
    corners = 1 << actions if high[0] > low[0] else 1
    place = cell
    for s in range(1 << states):
        at = node
        for d in range(states):
            if f.nodes[at].child < 0:
                split_node(f, at, d)
            at = f.nodes[at].child + ((s >> d) & 1)
        for a in range(corners - 1, -1, -1):
            for d in range(actions):
                half = 0.5 * (low[d] + high[d])
                upper = (a >> d) & 1
                f.boxes[place, 0, d] = half if upper else low[d]
                f.boxes[place, 1, d] = high[d] if upper or corners == 1 else half
            insert_cell(f, place, at, q, visits, depth + 1, root)
            place = f.used[1]
            f.used[1] += 1
    f.used[1] -= 1
    update_grid(f, root, node, np.inf)


@kernel()
def split_side(f, cell, side):
    """Cut a cell in two along one side, a state dimension or `states` + an action dimension; return the upper half.

    Both halves inherit its Q and visits; the lower takes its place in the arrays.  A state box is cut once: a cell on
    a node that is open already can only be cut along that node's own dimension.  The caller has made room.
    """
    states = f.used[2]
    upper = f.used[1]
    f.used[1] += 1
    node, q, visits, depth, root = remove_cell(f, cell)
    for d in range(f.boxes.shape[2]):
        f.boxes[upper, 0, d] = f.boxes[cell, 0, d]
        f.boxes[upper, 1, d] = f.boxes[cell, 1, d]
    above = node
    below = node
    if side < states:
        if f.nodes[node].child < 0:
            split_node(f, node, side)
        below = f.nodes[node].child
        above = below + 1
    else:
        d = side - states
        half = 0.5 * (f.boxes[cell, 0, d] + f.boxes[cell, 1, d])
        f.boxes[cell, 1, d] = half
        f.boxes[upper, 0, d] = half
    insert_cell(f, upper, above, q, visits, depth + 1, root)
    insert_cell(f, cell, below, q, visits, depth + 1, root)
    update_grid(f, root, node, np.inf)
    return upper


@kernel()
def rebuild_index(f):
    """Rebuild the whole index after Q of many cells changed at once."""
    for node in range(f.used[0]):
        update_top(f, node)
    for root in range(f.grid.shape[0]):
        update_grid(f, root, root, np.inf)


@kernel(hot=False)
def list_cells(f, order):
    """Write the numbers of all cells node by node, of each node as in its list: what `restore_forest` takes."""
    listed = 0
    for node in range(f.used[0]):
        cell = f.nodes[node].head
        while cell >= 0:
            order[listed] = cell
            listed += 1
            cell = f.cells[cell].next


@kernel(hot=False)
def restore_forest(f, splits, order, places, q, visits, root_of):
    """Grow a forest of bare roots by the splits of a file, hang its cells, and return whether that is a partition.

    `splits` [n] are the nodes that were split, in this order; `places` [cells] the nodes of the cells, which have
    `q` and `visits` [cells]; `order` [cells] is that of `list_cells`; `root_of` [nodes] is scratch.  All numbers are
    checked before they are used.
    """
    states = f.used[2]
    for root in range(f.used[0]):
        root_of[root] = root
    for i in range(splits.shape[0]):
        node = np.int64(splits[i])
        if node < 0 or node >= f.used[0] or f.nodes[node].child >= 0 or f.nodes[node].level >= MAX_DEPTH * states:
            return False
        root_of[f.used[0]] = root_of[f.used[0] + 1] = root_of[node]
        split_node(f, node, f.nodes[node].level % states)
    for i in range(order.shape[0] - 1, -1, -1):
        cell = np.int64(order[i])
        node = np.int64(places[cell])
        if node < 0 or node >= f.used[0] or f.nodes[node].level % states != 0:
            return False
        depth = np.int64(f.nodes[node].level // states)
        insert_cell(f, cell, node, q[cell], visits[cell], depth, np.int16(root_of[node]))
        f.used[1] += 1
    for below in range(f.used[0]):  # parents come first: is there a cell on the path to each leaf?
        parent = f.links[below].parent
        if f.nodes[below].head >= 0 or (parent >= 0 and root_of[parent] < 0):
            root_of[below] = NONE
        elif f.nodes[below].child < 0:
            return False
    return True


@kernel(inline=True)
def is_ready_to_split(f, cell):
    """Whether n(B) >= (d_max / r(B))^2 = 4^depth: the paper's splitting rule, with the root's radius for d_max."""
    depth = f.cells[cell].depth
    return depth < MAX_DEPTH and f.cells[cell].visits >= np.int64(1) << (2 * np.int64(depth))


@kernel(inline=True)
def count_visit(f, cell):
    """Count a visit and return the number of visits, which never exceeds the largest integer."""
    visits = f.cells[cell].visits
    if visits < MAX_VISITS:
        visits += 1
        f.cells[cell].visits = visits
    return visits


@kernel(inline=True)
def update_cell(f, cell, outcome, horizon, scaling):
    """Learn from a visit (eq. 6, 7 and 9 of the paper); return 1 where the cell then split, else 0.

    `outcome` is r + V(x'); v visits give the rate (H + 1) / (H + v) and the bonus xi / sqrt(v).
    """
    v = count_visit(f, cell)
    alpha = (horizon + 1.0) / (horizon + v)
    target = outcome + scaling / math.sqrt(v)
    set_q(f, cell, (1.0 - alpha) * f.cells[cell].q + alpha * target)
    if is_ready_to_split(f, cell):
        split_cell(f, cell)
        return 1
    return 0


@kernel(inline=True)
def find_cell(f, root, points, row, actions):
    """Return the cell that holds `points[row]` and `actions[row]` [rows, actions], or NONE."""
    node = root
    while True:
        cell = f.nodes[node].head
        while cell >= 0:
            inside = True
            for d in range(f.boxes.shape[2]):
                low = f.boxes[cell, 0, d]
                high = f.boxes[cell, 1, d]
                a = actions[row, d]
                if not (low <= a < high or (a == high and (high == 1.0 or low == high))):
                    inside = False
            if inside:
                return cell
            cell = f.cells[cell].next
        left = f.nodes[node].child
        if left < 0:
            return NONE
        node = left + (points[row, f.nodes[node].dim] >= f.nodes[node].cut)


@kernel()
def walk(f, nodes, cells):
    """Write the numbers of all nodes and cells in depth-first order, siblings side by side."""
    f = unreferenced(f)
    roots = f.grid.shape[0]
    written = roots
    listed = 0
    height = roots
    stack = np.empty(f.used[0], np.int32)
    for root in range(roots):
        nodes[root] = root
        stack[root] = roots - 1 - root
    while height:
        height -= 1
        node = stack[height]
        cell = f.nodes[node].head
        while cell >= 0:
            cells[listed] = cell
            listed += 1
            cell = f.cells[cell].next
        left = f.nodes[node].child
        if left >= 0:
            for side in range(2):
                nodes[written + side] = left + side
                stack[height + 1 - side] = left + side
            height += 2
            written += 2


@kernel()
def find_best_cells(f, roots, points, cells):
    """Find the greedy cell of every row: `roots` [rows] names each row's partition; fills `cells` [rows]."""
    f = unreferenced(f)
    for row in range(points.shape[0]):
        cells[row] = find_best(f, roots[row], points, row)


@kernel()
def copy_forest(source, target):
    """Copy the used part of a forest into another of at least its size."""
    nodes = source.used[0]
    cells = source.used[1]
    target.used[:] = source.used
    for i in range(nodes):
        target.nodes[i] = source.nodes[i]
        target.links[i] = source.links[i]
    for i in range(cells):
        target.cells[i] = source.cells[i]
        for d in range(source.boxes.shape[2]):
            target.boxes[i, 0, d] = source.boxes[i, 0, d]
            target.boxes[i, 1, d] = source.boxes[i, 1, d]
    for root in range(source.grid.shape[0]):
        for i in range(GRID):
            target.grid[root, i] = source.grid[root, i]
