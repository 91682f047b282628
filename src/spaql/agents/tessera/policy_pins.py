"""The greedy choices of all leaves, as a partition whose largest Q says the same.

While an agent learns, a leaf's greedy cell is that of the largest plane at the leaf's mark (`spaql.agents.tessera.value_iteration`).  Whoever
reads a policy has cells with one Q each, and looks for the largest.  Where that would not be the leaf's choice, the
chosen cell and every one that seems as good are cut down to the leaf, and what lies in the leaf gets its plane's Q at
the mark.  All that was elsewhere in these cells stays as it was.
"""

from __future__ import annotations

import numpy as np

from spaql.agents.tessera.replay import USED, bend, choose
from spaql.partition.jit import kernel, unreferenced
from spaql.partition.kernels import NONE, halve, locate, rank, refresh


@kernel(inline=True)
def cut_down(f, g, cell, leaf, q):
    """Cut a cell around a leaf until one part of it is the leaf's, and give that part a level Q."""
    while f.cells[cell].node != leaf:
        node = f.cells[cell].node
        below = leaf
        while f.links[below].parent != node:
            below = f.links[below].parent
        upper = halve(f, cell, f.nodes[node].dim)
        for k in range(g.planes.shape[1]):
            g.planes[upper, k] = g.planes[cell, k]
        if f.cells[upper].node == below:
            cell = upper
    f.cells[cell].q = q
    for k in range(g.planes.shape[1]):
        g.planes[cell, k] = 0.0
    return cell


@kernel(inline=True)
def foremost(f, leaf):
    """The cell of the largest Q among those relevant to a leaf."""
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
def seeming(f, g, leaf, cells, levels):
    """List a leaf's choice and all cells of at least its Q, with their Q at the mark; how many, and cuts they need."""
    chosen = g.greedy[leaf]
    cells[0] = chosen
    levels[0] = f.cells[chosen].q + bend(g, chosen, g.marks, leaf, 0)
    count = 1
    cuts = f.nodes[leaf].level - f.nodes[f.cells[chosen].node].level
    node = leaf
    while node >= 0:
        cell = f.nodes[node].head
        while cell >= 0:
            if cell != chosen and f.cells[cell].q >= levels[0]:
                q = f.cells[cell].q + bend(g, cell, g.marks, leaf, 0)
                cells[count] = cell
                levels[count] = q if q < levels[0] else np.nextafter(levels[0], -np.inf)
                count += 1
                cuts += f.nodes[leaf].level - f.nodes[node].level
            cell = f.cells[cell].next
        node = f.links[node].parent
    return count, cuts


@kernel()
def pin(f, m, g, rule, first):
    """Make the largest Q of every leaf from `first` on its choice; the leaf that needs more room, or all nodes."""
    f, m, g = unreferenced(f), unreferenced(m), unreferenced(g)
    room = min(f.cells.shape[0], g.ends.shape[0])
    cells = np.empty(f.cells.shape[0], np.int32)
    levels = np.empty(f.cells.shape[0])
    for leaf in range(first, f.used[0]):
        if f.nodes[leaf].child >= 0:
            continue
        choose(f, g, leaf)
        if foremost(f, leaf) == g.greedy[leaf]:
            continue
        count, cuts = seeming(f, g, leaf, cells, levels)
        if f.used[1] + cuts > room:
            return leaf
        for k in range(count):
            cut_down(f, g, cells[k], leaf, levels[k])
        rank(f, leaf)
    states = rule.states
    for cell in range(f.used[1]):
        f.cells[cell].visits = 0
    for i in range(m.counts[USED]):
        cell = locate(f, 0, m.facts[:, :states], i, m.facts[:, states : states + rule.actions])
        if cell >= 0:  # cells of a file that was tampered with may have gaps
            f.cells[cell].visits += 1
    refresh(f)
    return f.used[0]
