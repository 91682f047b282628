"""Fewer cells for the same policy: cells that turned out alike, or that decide nothing, become one.

A cell *decides* where it is the greedy one.  Two cells whose union is a box are merged where that changes what is
played in no leaf of the state tree that was ever visited:

* on the same node, with adjacent action boxes, if neither decides anywhere: the mean of two Q below V is below V;
* on the two children of a node, with the same action box, if their common Q, the mean by visits, is still the largest
  wherever one of the two decided, and still is not wherever another did.

The merged cells tile the space as before.  Only a policy is merged, never the partition that an agent learns with.
"""

from __future__ import annotations

import numpy as np

from spaql.compiling import kernel
from spaql.kernels import NONE, file_cell, lend, refresh


@kernel(inline=True)
def under(f, node, ancestor):
    """Whether a node is an ancestor's, or that ancestor itself; a child stands behind its parent."""
    while node > ancestor:
        node = f.links[node].parent
    return node == ancestor


@kernel()
def rival(f, alive, leaf, first, second):
    """The largest Q relevant to a leaf but for two cells."""
    best = -np.inf
    for cell in range(alive.shape[0]):
        if alive[cell] and cell != first and cell != second and under(f, leaf, f.cells[cell].node):
            best = max(best, f.cells[cell].q)
    return best


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
def same_policy(f, alive, visited, greedy, first, second, parent):
    """Whether nothing that is played in a visited leaf would change if two cells on sibling nodes became one."""
    q = common(f, first, second)
    for leaf in range(f.used[0]):
        if visited[leaf] and under(f, leaf, parent):
            if greedy[leaf] == first or greedy[leaf] == second:
                if not q > rival(f, alive, leaf, first, second):
                    return False
            elif not q < f.cells[greedy[leaf]].q:
                return False
    return True


@kernel(inline=True)
def unite(f, alive, greedy, first, second):
    """Make two cells one, in the place of the first."""
    f.cells[first].q = common(f, first, second)
    f.cells[first].visits += f.cells[second].visits
    f.cells[first].depth = max(0, min(f.cells[first].depth, f.cells[second].depth) - 1)
    for d in range(f.boxes.shape[2]):
        f.boxes[first, 0, d] = min(f.boxes[first, 0, d], f.boxes[second, 0, d])
        f.boxes[first, 1, d] = max(f.boxes[first, 1, d], f.boxes[second, 1, d])
    alive[second] = False
    for leaf in range(f.used[0]):
        if greedy[leaf] == second:
            greedy[leaf] = first


@kernel(inline=True)
def deciding(greedy, visited, cell):
    """Whether a cell is the greedy one of a visited leaf."""
    found = False
    for leaf in range(visited.shape[0]):
        found = found or (visited[leaf] and greedy[leaf] == cell)
    return found


@kernel()
def merge(f, visited, greedy):
    """Merge what can be; `visited` and `greedy` [nodes] tell of each leaf whether it was and its greedy cell."""
    f = lend(f)
    nodes = f.used[0]
    alive = np.ones(f.used[1], np.bool_)
    greedy = greedy[:nodes].copy()
    changed = True
    while changed:
        changed = False
        for first in range(alive.shape[0]):
            for second in range(first + 1, alive.shape[0]):
                if not (alive[first] and alive[second]):
                    continue
                here, there = f.cells[first].node, f.cells[second].node
                if here == there:
                    if adjacent(f, first, second) == NONE:
                        continue
                    if deciding(greedy, visited, first) or deciding(greedy, visited, second):
                        continue
                else:
                    parent = f.links[here].parent
                    if parent < 0 or parent != f.links[there].parent:
                        continue
                    if (f.boxes[first] != f.boxes[second]).any():
                        continue
                    if not same_policy(f, alive, visited, greedy, first, second, parent):
                        continue
                    f.cells[first].node = parent
                unite(f, alive, greedy, first, second)
                changed = True
    collect(f, alive)


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
