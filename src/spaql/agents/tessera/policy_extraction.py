"""The policy of a trained agent as a small partition: first flattened, then merged.

*Flattening.*  While an agent learns, a leaf's greedy cell is the one whose plane is largest at the leaf's anchor
(`spaql.agents.tessera.value_iteration`).  A policy has cells with one Q each, and plays the largest.  Where that would
not be the leaf's choice, the chosen cell and every contender of at least its Q are cut down to the leaf, and the parts
in the leaf get their planes' Q at the anchor.  The rest of these cells stays as it was.

*Merging.*  A cell *decides* where it is the greedy one.  Two cells whose union is a box are merged where that changes
the action in no leaf of the state tree that was ever visited:

* on the same node, with adjacent action boxes, if neither decides anywhere: the mean of two Q below V is below V;
* on the two children of a node, with the same action box, if their pooled Q, the mean by visits, is still the largest
  wherever one of the two decided, and still is not wherever another did.

The merged cells tile the space as before.  Only a policy is merged, never the partition that an agent learns with.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spaql.agents.tessera.replay import USED, choose_greedy, slope_term
from spaql.partition.jit import kernel, unreferenced
from spaql.partition.kernels import NONE, find_cell, insert_cell, rebuild_index, split_side, update_top


@kernel(inline=True)
def restrict_to_leaf(f, stats, cell, leaf, q):
    """Cut a cell around a leaf until one part of it is the leaf's, and give that part a constant Q."""
    while f.cells[cell].node != leaf:
        node = f.cells[cell].node
        below = leaf
        while f.links[below].parent != node:
            below = f.links[below].parent
        upper = split_side(f, cell, f.nodes[node].dim)
        for k in range(stats.planes.shape[1]):
            stats.planes[upper, k] = stats.planes[cell, k]
        if f.cells[upper].node == below:
            cell = upper
    f.cells[cell].q = q
    for k in range(stats.planes.shape[1]):
        stats.planes[cell, k] = 0.0
    return cell


@kernel(inline=True)
def find_top_cell(f, leaf):
    """Return the cell of largest Q among those relevant to a leaf."""
    cell = NONE
    q = -np.inf
    node = leaf
    while node >= 0:
        if f.nodes[node].top >= 0 and f.nodes[node].top_q >= q:  # the coarser cell wins a tie
            cell = f.nodes[node].top
            q = f.nodes[node].top_q
        node = f.links[node].parent
    return cell


@kernel(inline=True)
def list_contenders(f, stats, leaf, cells, levels):
    """List a leaf's choice and all cells of at least its Q, and their Q at the anchor; return their number and cuts."""
    chosen = stats.greedy[leaf]
    cells[0] = chosen
    levels[0] = f.cells[chosen].q + slope_term(stats, chosen, stats.anchors, leaf, 0)
    count = 1
    cuts = f.nodes[leaf].level - f.nodes[f.cells[chosen].node].level
    node = leaf
    while node >= 0:
        cell = f.nodes[node].head
        while cell >= 0:
            if cell != chosen and f.cells[cell].q >= levels[0]:
                q = f.cells[cell].q + slope_term(stats, cell, stats.anchors, leaf, 0)
                cells[count] = cell
                levels[count] = q if q < levels[0] else np.nextafter(levels[0], -np.inf)
                count += 1
                cuts += f.nodes[leaf].level - f.nodes[node].level
            cell = f.cells[cell].next
        node = f.links[node].parent
    return count, cuts


@kernel()
def flatten_policy(f, buffer, stats, hyper, first):
    """Make the choice of every leaf from `first` on its largest Q; return the leaf that needs room, or all nodes."""
    f, buffer, stats = unreferenced(f), unreferenced(buffer), unreferenced(stats)
    room = min(f.cells.shape[0], stats.ends.shape[0])
    cells = np.empty(f.cells.shape[0], np.int32)
    levels = np.empty(f.cells.shape[0])
    for leaf in range(first, f.used[0]):
        if f.nodes[leaf].child >= 0:
            continue
        choose_greedy(f, stats, leaf)
        if find_top_cell(f, leaf) == stats.greedy[leaf]:
            continue
        count, cuts = list_contenders(f, stats, leaf, cells, levels)
        if f.used[1] + cuts > room:
            return leaf
        for k in range(count):
            restrict_to_leaf(f, stats, cells[k], leaf, levels[k])
        update_top(f, leaf)
    states = hyper.states
    for cell in range(f.used[1]):
        f.cells[cell].visits = 0
    for i in range(buffer.counts[USED]):
        cell = find_cell(
            f, 0, buffer.transitions[:, :states], i, buffer.transitions[:, states : states + hyper.actions]
        )
        if cell >= 0:  # cells of a file that was tampered with may have gaps
            f.cells[cell].visits += 1
    rebuild_index(f)
    return f.used[0]


class CellLists(NamedTuple):
    """The cells that are left, by node."""

    head: NDArray[np.int32]  # [nodes] first cell of the node's list
    after: NDArray[np.int32]  # [cells] the next of the same list
    alive: NDArray[np.bool_]  # [cells]
    decides: NDArray[np.int64]  # [cells] visited leaves of which it is the greedy cell
    stack: NDArray[np.int32]  # [nodes + 1] for walks


@kernel(inline=True)
def remove_from_list(chain, f, cell):
    """Remove a cell from the list of its node."""
    node = f.cells[cell].node
    if chain.head[node] == cell:
        chain.head[node] = chain.after[cell]
        return
    at = chain.head[node]
    while chain.after[at] != cell:
        at = chain.after[at]
    chain.after[at] = chain.after[cell]


@kernel(inline=True)
def insert_into_list(chain, f, cell):
    """Insert a cell into the list of its node."""
    node = f.cells[cell].node
    chain.after[cell] = chain.head[node]
    chain.head[node] = cell


@kernel(inline=True)
def find_best_other(f, chain, leaf, first, second):
    """Return the largest Q relevant to a leaf but for two cells."""
    best = -np.inf
    node = leaf
    while node >= 0:
        cell = chain.head[node]
        while cell >= 0:
            if cell != first and cell != second:
                best = max(best, f.cells[cell].q)
            cell = chain.after[cell]
        node = f.links[node].parent
    return best


@kernel(inline=True)
def find_smallest(chain, node, least, best):
    """Return the smallest cell of a node's list from `least` on, if it is below `best`, else `best`."""
    cell = chain.head[node] if node >= 0 else NONE
    while cell >= 0:
        if least <= cell < best:
            best = cell
        cell = chain.after[cell]
    return best


@kernel(inline=True)
def find_sibling(f, node):
    """Return the other child of a node's parent, or NONE."""
    parent = f.links[node].parent
    if parent < 0:
        return NONE
    return 2 * f.nodes[parent].child + 1 - node


@kernel(inline=True)
def pool_q(f, first, second):
    """Return the mean Q of two cells by their visits; without visits the larger."""
    one, two = f.cells[first].visits, f.cells[second].visits
    if one + two == 0:
        return max(f.cells[first].q, f.cells[second].q)
    return (one * f.cells[first].q + two * f.cells[second].q) / (one + two)


@kernel(inline=True)
def find_adjacent_side(f, first, second):
    """Return the action dimension along which two boxes touch and otherwise agree, or NONE."""
    along = NONE
    for d in range(f.boxes.shape[2]):
        low, high = f.boxes[first, 0, d], f.boxes[first, 1, d]
        if low == f.boxes[second, 0, d] and high == f.boxes[second, 1, d]:
            continue
        if along >= 0 or not (high == f.boxes[second, 0, d] or low == f.boxes[second, 1, d]):
            return NONE
        along = d
    return along


@kernel()
def keeps_policy(f, chain, visited, greedy, first, second, parent):
    """Whether no action in a visited leaf would change if two cells on sibling nodes were merged."""
    q = pool_q(f, first, second)
    chain.stack[0] = parent
    waiting = 1
    while waiting > 0:
        waiting -= 1
        leaf = chain.stack[waiting]
        child = f.nodes[leaf].child
        if child >= 0:
            chain.stack[waiting] = child
            chain.stack[waiting + 1] = child + 1
            waiting += 2
        elif visited[leaf]:
            if greedy[leaf] == first or greedy[leaf] == second:
                if not q > find_best_other(f, chain, leaf, first, second):
                    return False
            elif not q < f.cells[greedy[leaf]].q:
                return False
    return True


@kernel(inline=True)
def merge_pair(f, chain, greedy, first, second, node):
    """Merge two cells into the first, on a node."""
    q = pool_q(f, first, second)
    remove_from_list(chain, f, first)
    remove_from_list(chain, f, second)
    f.cells[first].q = q
    f.cells[first].node = node
    f.cells[first].visits += f.cells[second].visits
    f.cells[first].depth = max(0, min(f.cells[first].depth, f.cells[second].depth) - 1)
    for d in range(f.boxes.shape[2]):
        f.boxes[first, 0, d] = min(f.boxes[first, 0, d], f.boxes[second, 0, d])
        f.boxes[first, 1, d] = max(f.boxes[first, 1, d], f.boxes[second, 1, d])
    insert_into_list(chain, f, first)
    chain.alive[second] = False
    if chain.decides[second] > 0:
        for leaf in range(f.used[0]):
            if greedy[leaf] == second:
                greedy[leaf] = first
        chain.decides[first] += chain.decides[second]


@kernel(inline=True)
def find_merge_node(f, chain, visited, greedy, first, second):
    """Return the node of two cells once merged, or NONE where they must stay two."""
    here, there = f.cells[first].node, f.cells[second].node
    if here == there:
        decided = chain.decides[first] > 0 or chain.decides[second] > 0
        return NONE if decided or find_adjacent_side(f, first, second) == NONE else here
    parent = f.links[here].parent
    for d in range(f.boxes.shape[2]):
        if f.boxes[first, 0, d] != f.boxes[second, 0, d] or f.boxes[first, 1, d] != f.boxes[second, 1, d]:
            return NONE
    return parent if keeps_policy(f, chain, visited, greedy, first, second, parent) else NONE


@kernel()
def merge_cells(f, visited):
    """Merge all cells that can be; `visited` [nodes] marks the visited leaves."""
    f = unreferenced(f)
    nodes, cells = f.used[0], f.used[1]
    greedy = np.full(nodes, NONE, np.int32)
    chain = CellLists(
        np.full(nodes, NONE, np.int32),
        np.full(cells, NONE, np.int32),
        np.ones(cells, np.bool_),
        np.zeros(cells, np.int64),
        np.zeros(nodes + 1, np.int32),
    )
    for cell in range(cells):
        insert_into_list(chain, f, cell)
    for leaf in range(nodes):
        if visited[leaf]:
            greedy[leaf] = find_top_cell(f, leaf)
            chain.decides[greedy[leaf]] += 1
    changed = True
    while changed:
        changed = False
        for first in range(cells):
            second = first
            while chain.alive[first]:
                here = f.cells[first].node
                following = find_smallest(chain, here, second + 1, cells)
                second = find_smallest(chain, find_sibling(f, here), second + 1, following)
                if second == cells:
                    break
                node = find_merge_node(f, chain, visited, greedy, first, second)
                if node != NONE:
                    merge_pair(f, chain, greedy, first, second, node)
                    changed = True
    compact_cells(f, chain.alive)


@kernel()
def compact_cells(f, alive):
    """Insert the cells that are left again, without gaps."""
    for node in range(f.used[0]):
        f.nodes[node].head = NONE
        f.nodes[node].top = NONE
        f.nodes[node].top_q = -np.inf
        f.nodes[node].alone = 0
    place = 0
    for cell in range(alive.shape[0]):
        if alive[cell]:
            old = f.cells[cell]
            node, q, visits, depth, root = old.node, old.q, old.visits, old.depth, old.root
            for d in range(f.boxes.shape[2]):
                f.boxes[place, 0, d] = f.boxes[cell, 0, d]
                f.boxes[place, 1, d] = f.boxes[cell, 1, d]
            insert_cell(f, place, node, q, visits, depth, root)
            place += 1
    f.used[1] = place
    rebuild_index(f)
