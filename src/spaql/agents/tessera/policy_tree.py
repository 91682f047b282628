"""The policy: a binary tree over states with one constant action in each leaf, grown on regrets.

The regret of playing candidate action a_j in state s_i is max_k Q(s_i, a_k) - Q(s_i, a_j).  A leaf plays the action of
least total regret.  The tree grows best first, by the cut that saves most regret; a tenth of the saved impurity
(Gini's, of the best actions, weighted by what is at stake) counts too, as two cuts are sometimes needed before either
saves any regret.  The order of growth is kept: `truncate` gives all smaller trees.

In signatures: t a `PolicyTree`; states [n, d], q [n, J], actions [J, k].
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spaql.agents.tessera.linear_tree import LEAF, divide_rows, find_edges, find_node
from spaql.partition.jit import kernel
from spaql.partition.partition import fill_array
from spaql.partition.spaces import Actions, Discrete, Floats

DEEPEST = 24
MOST_LEAVES = 1024
_MOST_NODES = 2 * MOST_LEAVES  # of a tree in a file
_CUTS = 24  # candidates per dimension
_SAMPLE = 400  # rows whose quantiles are the candidates
_LEAST = 3  # states on either side of a cut
_IMPURITY = 0.1
_GAP = 1e-4  # states this close, in standard deviations, are not told apart: a model is not exact either


class PolicyTree(NamedTuple):
    """The arrays of one tree; children stand behind their parents."""

    dims: NDArray[np.int32]  # [nodes] state that is compared, LEAF at leaves
    cuts: Floats  # [nodes] x[dim] >= cut goes to the upper child
    children: NDArray[np.int32]  # [nodes] the lower child; the upper one follows it
    actions: Floats  # [nodes, k] in the unit cube, or the number of a discrete action
    born: NDArray[np.int32]  # [nodes] leaves of the tree when the node was made


@kernel(hot=False)
def score_action_sums(totals):
    """Return the index of the largest of `totals` [J]."""
    best = 0
    for j in range(1, totals.shape[0]):
        if totals[j] > totals[best]:
            best = j
    return best


@kernel(hot=False)
def gini(weights):
    """Return the impurity of weighted classes, times their weight."""
    total = 0.0
    squares = 0.0
    for j in range(weights.shape[0]):
        total += weights[j]
        squares += weights[j] * weights[j]
    return total - squares / total if total > 0.0 else 0.0


@kernel()
def find_cut(states, advantages, labels, stakes, rows):
    """Return gain, dimension and cut of the best split of `rows`, and the best action of all of them."""
    size, count = rows.shape[0], advantages.shape[1]
    totals, classes = np.zeros(count), np.zeros(count)
    for k in range(size):
        q = rows[k]
        for j in range(count):
            totals[j] += advantages[q, j]
        classes[labels[q]] += stakes[q]
    action = score_action_sums(totals)
    best, dim, cut = 0.0, LEAF, 0.0
    impurity = gini(classes)
    if size < 2 * _LEAST or not impurity > 1e-12:
        return best, dim, cut, action
    take = min(size, _SAMPLE)
    values, edges = np.empty(take), np.empty(_CUTS)
    sums, weights, counts = np.zeros((_CUTS + 1, count)), np.zeros((_CUTS + 1, count)), np.zeros(_CUTS + 1)
    rest, others = np.zeros(count), np.zeros(count)
    for f in range(states.shape[1]):
        for k in range(take):
            values[k] = states[rows[(k * size) // take], f]
        values.sort()
        cuts = find_edges(values, edges, _GAP)
        if cuts == 0:
            continue
        sums[:] = 0.0
        weights[:] = 0.0
        counts[:] = 0.0
        for k in range(size):
            q = rows[k]
            at = np.searchsorted(edges[:cuts], states[q, f], side="right")
            counts[at] += 1.0
            for j in range(count):
                sums[at, j] += advantages[q, j]
            weights[at, labels[q]] += stakes[q]
        for at in range(cuts):
            if at > 0:
                sums[at] += sums[at - 1]
                weights[at] += weights[at - 1]
                counts[at] += counts[at - 1]
            if counts[at] < _LEAST or size - counts[at] < _LEAST:
                continue
            lower, upper = -np.inf, -np.inf
            for j in range(count):
                rest[j] = totals[j] - sums[at, j]
                others[j] = classes[j] - weights[at, j]
                lower = max(lower, sums[at, j])
                upper = max(upper, rest[j])
            gain = lower + upper - totals[action] + _IMPURITY * (impurity - gini(weights[at]) - gini(others))
            if gain > best:
                best, dim, cut = gain, f, edges[at]
    return best, dim, cut, action


@kernel(hot=False)
def grow_policy(states, q, actions, leaves):
    """Grow a tree of at most `leaves` leaves."""
    size, count = q.shape
    most = 2 * leaves
    advantages, labels, stakes = np.empty((size, count)), np.zeros(size, np.int32), np.zeros(size)
    for i in range(size):
        best = score_action_sums(q[i])
        worst = q[i, 0]
        for j in range(count):
            worst = min(worst, q[i, j])
            advantages[i, j] = q[i, j] - q[i, best]
        labels[i] = best
        stakes[i] = q[i, best] - worst
    dims, cuts, children = np.full(most, LEAF, np.int32), np.zeros(most), np.zeros(most, np.int32)
    played, born, depth = np.zeros((most, actions.shape[1])), np.zeros(most, np.int32), np.zeros(most, np.int32)
    first, last = np.zeros(most, np.int64), np.zeros(most, np.int64)
    gains, best_dims, best_cuts = np.zeros(most), np.full(most, LEAF, np.int32), np.zeros(most)
    rows = np.arange(size)
    last[0] = size
    used, examined, grown = 1, 0, 1
    while True:
        while examined < used:
            gain, dim, cut, action = find_cut(
                states, advantages, labels, stakes, rows[first[examined] : last[examined]]
            )
            gains[examined], best_dims[examined], best_cuts[examined] = gain, dim, cut
            played[examined] = actions[action]
            examined += 1
        node = LEAF
        for k in range(used):
            grows = dims[k] == LEAF and best_dims[k] != LEAF and depth[k] < DEEPEST
            if grows and (node == LEAF or gains[k] > gains[node]):
                node = k
        if node == LEAF or grown >= leaves:
            break
        dim = best_dims[node]
        below = divide_rows(states[:, dim], rows[first[node] : last[node]], best_cuts[node])
        dims[node], cuts[node], children[node] = dim, best_cuts[node], used
        grown += 1
        for child in range(used, used + 2):
            born[child] = grown
            depth[child] = depth[node] + 1
        first[used], last[used] = first[node], first[node] + below
        first[used + 1], last[used + 1] = first[node] + below, last[node]
        used += 2
    return PolicyTree(
        dims[:used].copy(), cuts[:used].copy(), children[:used].copy(), played[:used].copy(), born[:used].copy()
    )


@kernel(hot=False)
def truncate(t, leaves):
    """Return the tree as it was with `leaves` leaves, without cuts between equal actions."""
    nodes = t.dims.shape[0]
    dims, actions = t.dims.copy(), t.actions.copy()
    for node in range(nodes):
        if dims[node] != LEAF and t.born[t.children[node]] > leaves:
            dims[node] = LEAF
    for node in range(nodes - 1, -1, -1):
        if dims[node] != LEAF:
            child = t.children[node]
            if dims[child] == LEAF and dims[child + 1] == LEAF:
                same = True
                for k in range(actions.shape[1]):
                    same = same and actions[child, k] == actions[child + 1, k]
                if same:
                    dims[node] = LEAF
                    actions[node] = actions[child]
    place = np.full(nodes, LEAF, np.int32)  # of each node that is reached
    order = np.zeros(nodes, np.int32)
    place[0] = 0
    used, at = 1, 0
    while at < used:
        node = order[at]
        if dims[node] != LEAF:
            for side in range(2):
                order[used + side] = t.children[node] + side
                place[t.children[node] + side] = used + side
            used += 2
        at += 1
    small = PolicyTree(
        np.empty(used, np.int32),
        np.zeros(used),
        np.zeros(used, np.int32),
        np.zeros((used, actions.shape[1])),
        np.zeros(used, np.int32),
    )
    for k in range(used):
        node = order[k]
        small.dims[k], small.born[k] = dims[node], t.born[node]
        small.actions[k] = actions[node]
        if dims[node] != LEAF:
            small.cuts[k], small.children[k] = t.cuts[node], place[t.children[node]]
    return small


@kernel()
def find_leaves(t, states, leaves):
    """Fill `leaves` [n] with the leaf of each state."""
    for i in range(states.shape[0]):
        leaves[i] = find_node(t.dims, t.cuts, t.children, states[i])


def count_leaves(tree: PolicyTree) -> int:
    """Return the number of leaves."""
    return int((tree.dims == LEAF).sum())


def single_leaf(action: Floats) -> PolicyTree:
    """Return the tree that plays one action everywhere."""
    return PolicyTree(
        np.full(1, LEAF, np.int32),
        np.zeros(1),
        np.zeros(1, np.int32),
        action.reshape(1, -1).copy(),
        np.ones(1, np.int32),
    )


def simplify(tree: PolicyTree, upper: Floats) -> PolicyTree:
    """Return a tree without cuts that no state passes, or whose leaves play the same action.

    States are from 0 to `upper` [d].
    """
    dims, cuts, children, actions = [], [], [], []

    def find(node: int, low: Floats, high: Floats) -> Any:
        """Return what is left of a node: an action, or a dimension, a cut, and two such."""
        dim, cut = int(tree.dims[node]), float(tree.cuts[node])
        if dim == LEAF:
            return tuple(tree.actions[node].tolist())
        if cut <= low[dim] or cut >= high[dim]:
            return find(int(tree.children[node]) + (cut <= low[dim]), low, high)
        below, above = high.copy(), low.copy()
        below[dim] = above[dim] = cut
        child = int(tree.children[node])
        pair = find(child, low, below), find(child + 1, above, high)
        return pair[0] if pair[0] == pair[1] else [dim, cut, *pair]

    waiting = [find(0, np.zeros(len(upper)), upper)]
    for part in waiting:  # grows
        inner = isinstance(part, list)
        dims.append(part[0] if inner else LEAF)
        cuts.append(part[1] if inner else 0.0)
        children.append(len(waiting) if inner else 0)
        actions.append(np.zeros(tree.actions.shape[1]) if inner else np.array(part))
        if inner:
            waiting += part[2:]
    numbers = np.array(dims, np.int32), np.array(cuts), np.array(children, np.int32), np.array(actions)
    return PolicyTree(*numbers, np.zeros(len(dims), np.int32))


def has_clock(tree: PolicyTree, states: int) -> bool:
    """Whether a tree compares the time step, which is the number behind `states` others."""
    return bool((tree.dims == states).any())


def round_clock(tree: PolicyTree, states: int) -> PolicyTree:
    """Return a tree that compares the time step with whole numbers, and decides as the given one."""
    return tree._replace(cuts=np.where(tree.dims == states, np.ceil(tree.cuts), tree.cuts))


def unroll(tree: PolicyTree, states: int, steps: int) -> tuple[PolicyTree, NDArray[np.int64]]:
    """Return a tree for each time step, without the clock, and which node of the given tree each node is.

    The roots come first.
    """

    def find(node: int, step: int) -> int:
        """Return the first node at or below another that does not compare the time step."""
        while tree.dims[node] == states:
            node = int(tree.children[node]) + (step >= tree.cuts[node])
        return node

    waiting = [(find(0, step), step) for step in range(steps)]
    children = []
    for node, step in waiting:  # grows
        inner = tree.dims[node] != LEAF
        children.append(len(waiting) if inner else 0)
        if inner:
            child = int(tree.children[node])
            waiting += [(find(child, step), step), (find(child + 1, step), step)]
    nodes = np.array([node for node, _ in waiting])
    return tree._replace(
        dims=tree.dims[nodes],
        cuts=tree.cuts[nodes],
        children=np.array(children, np.int32),
        actions=tree.actions[nodes],
        born=tree.born[nodes],
    ), nodes


def rescale(tree: PolicyTree, mean: Floats, scale: Floats) -> PolicyTree:
    """Return a tree over x = mean + scale * z from a tree over z."""
    cuts = tree.cuts.copy()
    inner = tree.dims != LEAF
    cuts[inner] = mean[tree.dims[inner]] + scale[tree.dims[inner]] * cuts[inner]
    return tree._replace(cuts=cuts)


def restore_tree(arrays: Mapping[str, NDArray[Any]], states: int, space: Actions) -> PolicyTree:
    """Return the tree whose arrays a file holds; ValueError where they are not those of a tree."""
    nodes = len(arrays["dims"])
    if nodes > _MOST_NODES:
        raise ValueError("a policy tree of too many nodes")
    tree = PolicyTree(
        np.empty(nodes, np.int32),
        np.empty(nodes),
        np.empty(nodes, np.int32),
        np.empty((nodes, space.dimensions)),
        np.empty(nodes, np.int32),
    )
    for name, array in tree._asdict().items():
        fill_array(array, arrays[name], name)
    inner = np.flatnonzero(tree.dims != LEAF)
    children = tree.children[inner].astype(np.int64)
    below = np.sort(np.concatenate([children, children + 1]))
    depth = np.zeros(nodes, np.int64)
    if not nodes or (tree.dims < LEAF).any() or (tree.dims >= states).any() or (children <= inner).any():
        raise ValueError("corrupt links of a policy tree")
    if not np.array_equal(below, np.arange(1, nodes)) or not np.isfinite(tree.cuts).all():
        raise ValueError("corrupt links or cuts of a policy tree")
    for node, child in zip(inner.tolist(), children.tolist(), strict=True):
        depth[child : child + 2] = depth[node] + 1
    if depth.max() > DEEPEST:
        raise ValueError("a policy tree that is too deep")
    check_actions(tree.actions, space)
    return tree


def check_actions(actions: Floats, space: Actions) -> None:
    """Raise a ValueError where `actions` [n, k] are not in the unit cube, or not numbers of discrete actions."""
    most = space.count - 1 if isinstance(space, Discrete) else 1.0
    valid = ((actions >= 0.0) & (actions <= most)).all()
    if not valid or (isinstance(space, Discrete) and not np.array_equal(actions, np.floor(actions))):
        raise ValueError("actions outside their space")
