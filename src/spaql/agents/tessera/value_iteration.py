"""Fitted value iteration in a learned model: V over states, with all candidate actions tried through the model.

On a support of states s_i and candidate actions a_j, held for one step or for several,

    V(s_i)  <-  (1 - soft) max_j Q(s_i, a_j)  +  soft mean_j Q(s_i, a_j),
    Q(s, a)  =  E[ r(s, a) + discount^n V(s') ],

the mean over actions that are held for one step, the expectation over draws of the model.  Over a short horizon H there
is one V for each time step, V_H = 0, and no discount: `induct` goes backwards through them, exactly once.  Over a long
one there is a single V, the fixed point with a discount, which `sweep` approaches by modified policy iteration
(Puterman and Shin, 1978): most rounds try only the action that was best in the last full round.

Between rounds V is regressed on the states: the mean of several trees of planes (`spaql.agents.tessera.linear_tree`
grows them), each with cuts from another half of the support.  One tree alone extrapolates, and what it extrapolates to
can grow from round to round; the mean of several is smoother.

In signatures: v a `ValueForest`, m a `WorldModel`; support [n, d], actions [J, actions].
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spaql.agents.tessera.linear_tree import factorise, grow_tree, solve
from spaql.agents.tessera.world_model import encode_action, imagine
from spaql.partition.jit import kernel, unreferenced
from spaql.partition.rng import scramble
from spaql.partition.spaces import Floats

_RIDGE = 2.0
_REPEATS = 3  # of growing trees and iterating values in them
_FULL = 8  # every so many rounds of a sweep try all actions


class ValueForest(NamedTuple):
    """V as the mean of trees of planes, whose nodes stand one tree behind the other."""

    roots: NDArray[np.int64]  # [trees]
    dims: NDArray[np.int32]
    cuts: Floats
    children: NDArray[np.int32]
    planes: Floats  # [steps, nodes, 1 + d] offset and slopes at each time step, or [1, ...] where all have the same
    bounds: Floats  # [2] what V is clamped to


class Successors(NamedTuple):
    """Where each candidate leads from each state of the support."""

    states: Floats  # [n, J, draws, d]
    rewards: Floats  # [n, J] expected, discounted
    discounts: Floats  # [n, J, draws] of the value there; 0 where the episode ended
    single: int  # candidates that are held for one step; they come first


class Regression(NamedTuple):
    """What is the same in every regression of values on a support."""

    leaves: NDArray[np.int32]  # [n, trees] of the states of the support
    counts: Floats  # [nodes] of them in each leaf
    centres: Floats  # [nodes, d] and their means
    inverses: Floats  # [nodes, d, d] of their scatter matrices


@kernel(inline=True)
def find_leaf(v, tree, x):
    """Return the leaf of a tree that holds x."""
    node = v.roots[tree]
    while v.dims[node] >= 0:
        node = v.children[node] + (x[v.dims[node]] >= v.cuts[node])
    return node


@kernel(inline=True)
def evaluate_value(v, step, x):
    """Return V(x) at a time step."""
    at = min(step, v.planes.shape[0] - 1)
    total = 0.0
    for tree in range(v.roots.shape[0]):
        node = find_leaf(v, tree, x)
        total += v.planes[at, node, 0]
        for d in range(x.shape[0]):
            total += v.planes[at, node, 1 + d] * x[d]
    return min(max(total / v.roots.shape[0], v.bounds[0]), v.bounds[1])


@kernel()
def evaluate_values(v, steps, points, values):
    """Fill `values` [n] with V of `points` [n, d] at time steps [n]."""
    v, points = unreferenced(v), unreferenced(points)
    for i in range(points.shape[0]):
        values[i] = evaluate_value(v, steps[i], points[i])


@kernel()
def find_successors(m, support, steps, actions, discount, hold, draws):
    """Play every action from every state of the support, at time steps [n], once and, if `hold` > 1, `hold` times."""
    support, actions = unreferenced(support), unreferenced(actions)
    size, states = support.shape
    count = actions.shape[0]
    width = m.dynamics.slopes.shape[2]
    z, u, following = np.zeros(width + states), np.zeros(width - states), np.zeros(states)
    every = count if hold == 1 else 2 * count
    reached, rewards = np.zeros((size, every, draws, states)), np.zeros((size, every))
    discounts = np.zeros((size, every, draws))
    for j in range(count):
        encode_action(m.table, actions[j], u)
        for i in range(size):
            for k in range(draws):
                for d in range(states):
                    z[d] = support[i, d]
                weight = 1.0
                total = 0.0
                for t in range(hold):
                    for d in range(states, width):
                        z[d] = u[d - states]
                    bits = scramble(1 + (i * hold + t) * draws + k) if draws > 1 else np.uint64(0)
                    reward, end = imagine(m, z, steps[i] + t, following, bits)
                    total += weight * reward
                    weight = 0.0 if end else weight * discount
                    for d in range(states):
                        z[d] = following[d]
                        if t == 0:
                            reached[i, j, k, d] = following[d]
                    if t == 0:
                        rewards[i, j] += total / draws
                        discounts[i, j, k] = weight
                    if end:
                        break
                if hold > 1:
                    for d in range(states):
                        reached[i, count + j, k, d] = z[d]
                    rewards[i, count + j] += total / draws
                    discounts[i, count + j, k] = weight
    return Successors(reached, rewards, discounts, count)


@kernel(hot=False)
def place(v, points):
    """Return the leaf of each of `points` [n, d] in each tree, `[n, trees]`."""
    leaves = np.empty((points.shape[0], v.roots.shape[0]), np.int32)
    for i in range(points.shape[0]):
        for tree in range(v.roots.shape[0]):
            leaves[i, tree] = find_leaf(v, tree, points[i])
    return leaves


@kernel(hot=False)
def prepare_regression(v, support):
    """Return what the regressions of values on a support share."""
    nodes, states = v.dims.shape[0], support.shape[1]
    trees = v.roots.shape[0]
    leaves = place(v, support)
    counts, centres = np.zeros(nodes), np.zeros((nodes, states))
    for i in range(support.shape[0]):
        for tree in range(trees):
            counts[leaves[i, tree]] += 1.0
            centres[leaves[i, tree]] += support[i]
    for node in range(nodes):
        centres[node] /= max(counts[node], 1.0)
    scatter, inverses = np.zeros((nodes, states, states)), np.zeros((nodes, states, states))
    for i in range(support.shape[0]):
        for tree in range(trees):
            node = leaves[i, tree]
            for d in range(states):
                for e in range(d + 1):
                    scatter[node, d, e] += (support[i, d] - centres[node, d]) * (support[i, e] - centres[node, e])
    for node in range(nodes):
        if counts[node] == 0.0:
            continue
        for d in range(states):
            scatter[node, d, d] += _RIDGE * scatter[node, d, d] / counts[node] + 1e-8
        factorise(scatter[node], states)
        for d in range(states):
            inverses[node, d, d] = 1.0
            solve(scatter[node], states, inverses[node, d])
    return Regression(leaves, counts, centres, inverses)


@kernel()
def fit_planes(regression, support, values, planes):
    """Regress `values` [n] on the support, leaf by leaf, into `planes` [nodes, 1 + d]."""
    leaves, counts, centres, inverses = unreferenced(regression)
    nodes, states = centres.shape
    trees = leaves.shape[1]
    planes[:] = 0.0
    for i in range(support.shape[0]):
        for tree in range(trees):
            planes[leaves[i, tree], 0] += values[i]
    for node in range(nodes):
        planes[node, 0] /= max(counts[node], 1.0)
    products = np.zeros((nodes, states))
    for i in range(support.shape[0]):
        for tree in range(trees):
            node = leaves[i, tree]
            above = values[i] - planes[node, 0]
            for d in range(states):
                products[node, d] += (support[i, d] - centres[node, d]) * above
    for node in range(nodes):
        if counts[node] == 0.0:
            continue
        for d in range(states):
            for e in range(states):
                planes[node, 1 + d] += inverses[node, d, e] * products[node, e]
        for d in range(states):
            planes[node, 0] -= planes[node, 1 + d] * centres[node, d]


@kernel(inline=True)
def evaluate_successor(v, step, s, there, i, j):
    """Return Q of candidate j in state i of the support, with the values of a time step."""
    trees = v.roots.shape[0]
    q = s.rewards[i, j]
    draws, states = s.states.shape[2:]
    for k in range(draws):
        if s.discounts[i, j, k] > 0.0:
            total = 0.0
            for tree in range(trees):
                node = there[i, j, k, tree]
                total += v.planes[step, node, 0]
                for d in range(states):
                    total += v.planes[step, node, 1 + d] * s.states[i, j, k, d]
            q += s.discounts[i, j, k] * min(max(total / trees, v.bounds[0]), v.bounds[1]) / draws
    return q


@kernel()
def back_up(v, step, s, there, i):
    """Return the best candidate in state i of the support, its Q, and the mean Q of those held for one step."""
    best, q, mean = 0, -np.inf, 0.0
    for j in range(s.rewards.shape[1]):
        other = evaluate_successor(v, step, s, there, i, j)
        if other > q:
            best, q = j, other
        if j < s.single:
            mean += other / s.single
    return best, q, mean


@kernel(hot=False)
def place_successors(v, s):
    """Return the leaves of all successors, `[n, J, draws, trees]`."""
    size, every, draws, states = s.states.shape
    leaves = place(v, s.states.reshape(size * every * draws, states))
    return leaves.reshape(size, every, draws, v.roots.shape[0])


@kernel()
def sweep(v, s, values, soft, most, tolerance, support):
    """Iterate to a fixed point, or `most` times; `values` [n] holds V of the support, and `v` its planes.

    Returns the number of rounds.
    """
    v, s, support, values = unreferenced(v), unreferenced(s), unreferenced(support), unreferenced(values)
    size = support.shape[0]
    regression, there = prepare_regression(v, support), place_successors(v, s)
    after, greedy, gaps = np.empty(size), np.zeros(size, np.int64), np.zeros(size)
    rounds, largest, settled = 0, np.inf, False
    while True:
        fit_planes(regression, support, values, v.planes[0])
        if rounds == most or settled:
            return rounds
        full = rounds % _FULL == 0 or largest < tolerance
        rounds += 1
        largest = 0.0
        for i in range(size):
            if full:
                greedy[i], q, mean = back_up(v, 0, s, there, i)
                gaps[i] = soft * (q - mean)
            else:
                q = evaluate_successor(v, 0, s, there, i, greedy[i])
            value = min(max(q - gaps[i], v.bounds[0]), v.bounds[1])
            largest = max(largest, abs(value - values[i]))
            after[i] = value
        values[:] = after
        settled = full and largest < tolerance


@kernel()
def step_back(v, step, s, there, regression, values, soft, support):
    """Fill `values` [n] with V of the support at a time step, from that at the next one, and its planes in `v`."""
    v, s, support, values = unreferenced(v), unreferenced(s), unreferenced(support), unreferenced(values)
    for i in range(support.shape[0]):
        _, q, mean = back_up(v, step + 1, s, there, i)
        values[i] = min(max(q - soft * (q - mean), v.bounds[0]), v.bounds[1])
    fit_planes(regression, support, values, v.planes[step])


def backward_induction(
    v: ValueForest,
    s: Successors,
    values: Floats,
    soft: float,
    support: Floats,
    successors_at: Callable[[int], Successors] | None = None,
) -> None:
    """Go backwards through the time steps; `values` [H + 1, n] receives V of the support, and `v` its planes.

    `successors_at` returns those at a time step where the model depends on it; elsewhere they are always `s`.
    """
    regression, there = prepare_regression(v, support), place_successors(v, s)
    last = len(values) - 1
    values[last] = 0.0
    v.planes[last] = 0.0
    for step in range(last - 1, -1, -1):
        if successors_at is not None:
            s = successors_at(step)
            there = place_successors(v, s)
        step_back(v, step, s, there, regression, values[step], soft, support)


@kernel()
def evaluate_actions(m, v, support, steps, actions, discount, draws, q):
    """Fill `q` [n, J] with Q of every action in every state, at time steps [n]."""
    v, support = unreferenced(v), unreferenced(support)
    size, states = support.shape
    width = m.dynamics.slopes.shape[2]
    z, u, following = np.zeros(width + states), np.zeros(width - states), np.zeros(states)
    for j in range(actions.shape[0]):
        encode_action(m.table, actions[j], u)
        for i in range(size):
            q[i, j] = expect(m, v, support[i], steps[i], u, discount, i * draws, draws, z, following)


@kernel()
def expect(m, v, x, step, u, discount, first, draws, z, following):
    """Return Q of the action with features u in state x; `z` and `following` are scratch.

    Random numbers are counted from `first`: actions of one state should share them, other states have others.
    """
    states = x.shape[0]
    width = states + u.shape[0]
    total = 0.0
    for k in range(draws):
        for d in range(width):
            z[d] = x[d] if d < states else u[d - states]
        reward, end = imagine(m, z, step, following, scramble(1 + first + k) if draws > 1 else np.uint64(0))
        total += reward
        if not end:
            total += discount * evaluate_value(v, step + 1, following)
    return total / draws


def grow_forest(
    support: Floats, outputs: Floats | None, bounds: Floats, trees: int, steps: int, random: np.random.Generator
) -> ValueForest:
    """Return trees whose planes can follow `outputs` [n, M], each grown on a half of them; None for unknown values.

    There is room for planes of `steps` time steps.
    """
    states = support.shape[1]
    outputs = support**2 if outputs is None else outputs
    scale = outputs.std(axis=0)
    outputs = (outputs - outputs.mean(axis=0)) / np.where(scale > 0.0, scale, 1.0)
    parts: list[list[NDArray[Any]]] = []
    roots = [0]
    for _ in range(trees):
        order = random.permutation(len(support))
        least = 3 * (states + 1)
        if trees > 1:
            order, least = order[: (len(order) + 1) // 2], least // 2
        most = 2 * max(1, len(order) // least) + 1
        dims, cuts, children, *_ = grow_tree(support, outputs.copy(), order, most, least)
        parts.append([dims, cuts, children + roots[-1]])
        roots.append(roots[-1] + len(dims))
    dims, cuts, children = (np.concatenate(column) for column in zip(*parts, strict=True))
    planes = np.zeros((steps, len(dims), 1 + states))
    return ValueForest(np.array(roots[:-1]), dims, cuts, children.astype(np.int32), planes, bounds)


def iterate_values(
    support: Floats,
    successors: Successors,
    bounds: Floats,
    values: Floats,
    random: np.random.Generator,
    *,
    soft: float,
    rounds: int,
    trees: int,
    successors_at: Callable[[int], Successors] | None = None,
) -> ValueForest:
    """Iterate values `[1, n]` to a fixed point, or `[H + 1, n]` backwards through all time steps.

    That is done several times, each with trees that are grown on the values of the last.  `successors_at` is for
    `backward_induction`, and used in the last of them.
    """
    steps = len(values)
    tolerance = 1e-5 * float(bounds[1] - bounds[0]) + 1e-300
    known = bool(np.ptp(values[0]) > 0.0)
    shown = sorted({0, (steps - 1) // 3, 2 * (steps - 1) // 3})  # time steps whose values the trees follow
    for repeat in range(_REPEATS - known):
        outputs = np.ascontiguousarray(values[shown].T) if repeat or known else None
        forest = grow_forest(support, outputs, bounds, trees, steps, random)
        if steps == 1:
            sweep(forest, successors, values[0], soft, rounds, tolerance, support)
        else:
            last = repeat == _REPEATS - known - 1
            backward_induction(forest, successors, values, soft, support, successors_at if last else None)
    return forest
