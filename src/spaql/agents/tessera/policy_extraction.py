"""Fewer cells for the same policy: cells that turned out alike, or that decide nothing, become one.

A cell *decides* where it is the greedy one.  Two cells whose union is a box are merged where that changes what is
played in no leaf of the state tree that was ever visited:

* on the same node, with adjacent action boxes, if neither decides anywhere: the mean of two Q below V is below V;
* on the two children of a node, with the same action box, if their common Q, the mean by visits, is still the largest
  wherever one of the two decided, and still is not wherever another did.

The merged cells tile the space as before.  Only a policy is merged, never the partition that an agent learns with.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spaql.agents.tessera.policy_pins import foremost
from spaql.partition.jit import kernel, unreferenced
from spaql.partition.kernels import NONE, file_cell, refresh


class Chain(NamedTuple):
    """Which cells are left, and on which nodes."""

    head: NDArray[np.int32]  # [nodes] first cell of the node's list
    after: NDArray[np.int32]  # [cells] the next of the same list
    alive: NDArray[np.bool_]  # [cells]
    decides: NDArray[np.int64]  # [cells] visited leaves of which it is the greedy cell
    stack: NDArray[np.int32]  # [nodes + 1] for walks


@kernel(inline=True)
def remove(chain, f, cell):
    """Take a cell out of the list of its node."""
    node = f.cells[cell].node
    if chain.head[node] == cell:
        chain.head[node] = chain.after[cell]
        return
    at = chain.head[node]
    while chain.after[at] != cell:
        at = chain.after[at]
    chain.after[at] = chain.after[cell]


@kernel(inline=True)
def insert(chain, f, cell):
    """Put a cell into the list of its node."""
    node = f.cells[cell].node
    chain.after[cell] = chain.head[node]
    chain.head[node] = cell


@kernel(inline=True)
def rival(f, chain, leaf, first, second):
    """The largest Q relevant to a leaf but for two cells."""
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
def smallest(chain, node, least, best):
    """The smallest cell of a node's list from `least` on, if it is below `best`, else `best`."""
    cell = chain.head[node] if node >= 0 else NONE
    while cell >= 0:
        if least <= cell < best:
            best = cell
        cell = chain.after[cell]
    return best


@kernel(inline=True)
def sibling(f, node):
    """The other child of a node's parent, or NONE."""
    parent = f.links[node].parent
    if parent < 0:
        return NONE
    return 2 * f.nodes[parent].child + 1 - node


@kernel(inline=True)
def common(f, first, second):
    """Mean Q of two cells by their visits; of two that were never visited, the larger."""
    one, two = f.cells[first].visits, f.cells[second].visits
    if one + two == 0:
        return max(f.cells[first].q, f.cells[second].q)
    return (one * f.cells[first].q + two * f.cells[second].q) / (one + two)


@kernel(inline=True)
def adjacent(f, first, second):
    """The action dimension along which two boxes touch and otherwise agree, or NONE."""
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
def same_policy(f, chain, visited, greedy, first, second, parent):
    """Whether nothing that is played in a visited leaf would change if two cells on sibling nodes became one."""
    q = common(f, first, second)
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
                if not q > rival(f, chain, leaf, first, second):
                    return False
            elif not q < f.cells[greedy[leaf]].q:
                return False
    return True


@kernel(inline=True)
def unite(f, chain, greedy, first, second, node):
    """Make two cells one, in the place of the first, on a node."""
    q = common(f, first, second)
    remove(chain, f, first)
    remove(chain, f, second)
    f.cells[first].q = q
    f.cells[first].node = node
    f.cells[first].visits += f.cells[second].visits
    f.cells[first].depth = max(0, min(f.cells[first].depth, f.cells[second].depth) - 1)
    for d in range(f.boxes.shape[2]):
        f.boxes[first, 0, d] = min(f.boxes[first, 0, d], f.boxes[second, 0, d])
        f.boxes[first, 1, d] = max(f.boxes[first, 1, d], f.boxes[second, 1, d])
    insert(chain, f, first)
    chain.alive[second] = False
    if chain.decides[second] > 0:
        for leaf in range(f.used[0]):
            if greedy[leaf] == second:
                greedy[leaf] = first
        chain.decides[first] += chain.decides[second]


@kernel(inline=True)
def mergeable(f, chain, visited, greedy, first, second):
    """The node that two cells would hang on as one, or NONE where they must stay two."""
    here, there = f.cells[first].node, f.cells[second].node
    if here == there:
        decided = chain.decides[first] > 0 or chain.decides[second] > 0
        return NONE if decided or adjacent(f, first, second) == NONE else here
    parent = f.links[here].parent
    for d in range(f.boxes.shape[2]):
        if f.boxes[first, 0, d] != f.boxes[second, 0, d] or f.boxes[first, 1, d] != f.boxes[second, 1, d]:
            return NONE
    return parent if same_policy(f, chain, visited, greedy, first, second, parent) else NONE


@kernel()
def merge(f, visited):
    """Merge what can be; `visited` [nodes] tells of each leaf whether it was."""
    f = unreferenced(f)
    nodes, cells = f.used[0], f.used[1]
    greedy = np.full(nodes, NONE, np.int32)
    chain = Chain(
        np.full(nodes, NONE, np.int32),
        np.full(cells, NONE, np.int32),
        np.ones(cells, np.bool_),
        np.zeros(cells, np.int64),
        np.zeros(nodes + 1, np.int32),
    )
    for cell in range(cells):
        insert(chain, f, cell)
    for leaf in range(nodes):
        if visited[leaf]:
            greedy[leaf] = foremost(f, leaf)
            chain.decides[greedy[leaf]] += 1
    changed = True
    while changed:
        changed = False
        for first in range(cells):
            second = first
            while chain.alive[first]:
                here = f.cells[first].node
                following = smallest(chain, here, second + 1, cells)
                second = smallest(chain, sibling(f, here), second + 1, following)
                if second == cells:
                    break
                node = mergeable(f, chain, visited, greedy, first, second)
                if node != NONE:
                    unite(f, chain, greedy, first, second, node)
                    changed = True
    collect(f, chain.alive)


@kernel()
def collect(f, alive):
    """File the cells that are left anew, without gaps."""
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
            file_cell(f, place, node, q, visits, depth, root)
            place += 1
    f.used[1] = place
    refresh(f)
