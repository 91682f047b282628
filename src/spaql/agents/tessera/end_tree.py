"""Where episodes end: a classification tree, with a quadratic function of the next state where that helps.

The tree compares the numbers of (x', u, x), and splits where the log likelihood of its data gains most.  An end that
depends on several numbers at once, such as a height that is a sum of cosines, would need many cuts.  A logistic
regression of the ends on the numbers of x' and their products finds it in one: its *score* is one more number for the
tree to compare, if the tree then predicts held-out ends better.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spaql.agents.tessera.linear_tree import LEAF, divide_rows
from spaql.partition.jit import kernel
from spaql.partition.spaces import Floats

_GAIN = 6.0  # least log likelihood gain of a split
_SAMPLE = 20_000  # transitions of either kind
_NODES = 401
_BETTER = 0.9  # held-out squared error with the score, relative to that without
_MOST_STATES = 16  # that may have products
_FEWEST = 20  # ends to fit a score to
_NEWTON_STEPS = 12
Rows = NDArray[np.int64]


class EndTree(NamedTuple):
    """The arrays of the tree."""

    dims: NDArray[np.int32]  # [nodes] place in (x', u, x, score), LEAF at leaves
    cuts: Floats
    children: NDArray[np.int32]
    shares: Floats  # [nodes] of terminated transitions
    weights: Floats  # [1 + d + d (d + 1) / 2] of the score, or [0]


@kernel(inline=True)
def score_end(weights, x):
    """Return the score of x; 0 without one."""
    if weights.shape[0] == 0:
        return 0.0
    total, p = weights[0], 1 + x.shape[0]
    for i in range(x.shape[0]):
        total += weights[1 + i] * x[i]
        for j in range(i + 1):
            total += weights[p] * x[i] * x[j]
            p += 1
    return total


@kernel(hot=False)
def binary_entropy(positive, count):
    """Return the negative log likelihood of `positive` of `count` draws at their own share."""
    if positive <= 0.0 or positive >= count:
        return 0.0
    share = positive / count
    return -(positive * math.log(share) + (count - positive) * math.log(1.0 - share))


@kernel(hot=False)
def grow_end_tree(features, ended, most):
    """Grow a classification tree by log likelihood; return dims, cuts, children and shares of ended rows."""
    size, width = features.shape
    dims, cuts, children = np.full(most, LEAF, np.int32), np.zeros(most), np.zeros(most, np.int32)
    shares = np.zeros(most)
    first, last = np.zeros(most, np.int64), np.zeros(most, np.int64)
    last[0] = size
    rows = np.arange(size)
    used = 1
    for node in range(most):
        if node == used:
            break
        here = rows[first[node] : last[node]]
        count = here.shape[0]
        positive = 0.0
        for k in range(count):
            positive += ended[here[k]]
        shares[node] = positive / max(count, 1)
        if positive == 0.0 or positive == count or used + 2 > most:
            continue
        best, dim, cut = _GAIN, LEAF, 0.0
        whole = binary_entropy(positive, float(count))
        values, over = np.empty(count), np.empty(int(positive))  # of all rows, and of those that ended
        for f in range(width):
            p = 0
            for k in range(count):
                values[k] = features[here[k], f]
                if ended[here[k]] > 0.0:
                    over[p] = values[k]
                    p += 1
            values.sort()
            over.sort()
            p = 0
            for k in range(count - 1):
                low, high = values[k], values[k + 1]
                if low == high:
                    continue
                while p < over.shape[0] and over[p] <= low:
                    p += 1
                below = float(p)
                gain = whole - binary_entropy(below, k + 1.0) - binary_entropy(positive - below, count - k - 1.0)
                if gain > best + 1e-9:
                    best, dim, cut = gain, f, 0.5 * (low + high)
                    if cut <= low:
                        cut = high
        if dim == LEAF:
            continue
        below_count = divide_rows(features[:, dim], here, cut)
        dims[node], cuts[node], children[node] = dim, cut, used
        first[used], last[used] = first[node], first[node] + below_count
        first[used + 1], last[used + 1] = first[node] + below_count, last[node]
        used += 2
    return dims[:used].copy(), cuts[:used].copy(), children[:used].copy(), shares[:used].copy()


def fit_ends(inputs: Floats, states: int, going: Rows, over: Rows) -> EndTree:
    """Fit a tree to transitions `inputs` [n, D], each (x', u, x) with the `states` numbers of x' first.

    Episodes went on in the rows `going`, and terminated in the rows `over`.
    """
    weights = np.zeros(0)
    if not len(over):
        return EndTree(np.full(1, LEAF, np.int32), np.zeros(1), np.zeros(1, np.int32), np.zeros(1), weights)
    rows = np.concatenate([over[:_SAMPLE], going[:_SAMPLE]])
    features, ended = inputs[rows], (np.arange(len(rows)) < min(len(over), _SAMPLE)).astype(np.float64)
    if len(over) >= _FEWEST and states <= _MOST_STATES and _separates(features, states, ended):
        weights = _fit_logistic(features[:, :states], ended)
        features = np.column_stack([features, _multiply(features[:, :states]) @ weights])
    dims, cuts, children, shares = grow_end_tree(features, ended, _NODES)
    ended = shares * max(1.0, len(over) / _SAMPLE)  # each class may have been sampled
    shares = ended / (ended + (1.0 - shares) * max(1.0, len(going) / _SAMPLE))
    return EndTree(dims, cuts, children, shares, weights)


def predict_ends(tree: EndTree, following: Floats, features: Floats, states: Floats) -> Floats:
    """Return the share of terminated transitions in the leaves of (x', u, x), `[n]`."""
    inputs = np.concatenate([following, features, states], axis=1)
    if len(tree.weights):
        inputs = np.column_stack([inputs, _multiply(following) @ tree.weights])
    return _predict(inputs, *tree[:4])


def _predict(
    inputs: Floats, dims: NDArray[np.int32], cuts: Floats, children: NDArray[np.int32], shares: Floats
) -> Floats:
    node, rows = np.zeros(len(inputs), np.int64), np.arange(len(inputs))
    while (inside := dims[node] >= 0).any():
        upper = inputs[rows, np.maximum(dims[node], 0)] >= cuts[node]
        node = np.where(inside, children[node] + upper, node)
    return shares[node]


def _separates(features: Floats, states: int, ended: Floats) -> bool:
    """Whether a tree predicts held-out transitions, every fourth, better with a score."""
    test = np.arange(len(ended)) % 4 == 0
    weights = _fit_logistic(features[~test, :states], ended[~test])
    more = np.column_stack([features, _multiply(features[:, :states]) @ weights])
    losses = []
    for inputs in (features, more):
        grown = grow_end_tree(inputs[~test], ended[~test], _NODES)
        losses.append(float(((_predict(inputs[test], *grown) - ended[test]) ** 2).mean()))
    return losses[1] < _BETTER * losses[0]


def _multiply(points: Floats) -> Floats:
    """Return 1, the numbers of each point and their products, `[n, 1 + d + d (d + 1) / 2]`."""
    pairs = [points[:, i] * points[:, j] for i in range(points.shape[1]) for j in range(i + 1)]
    return np.column_stack([np.ones(len(points)), points, *pairs])


def _fit_logistic(points: Floats, ended: Floats) -> Floats:
    """Return the weights of a quadratic logistic regression of ends on x', by Newton's method with a small ridge."""
    design = _multiply(points)
    weights = np.zeros(design.shape[1])
    ridge = 1e-3 * np.eye(len(weights))
    for _ in range(_NEWTON_STEPS):
        chance = 1.0 / (1.0 + np.exp(-np.clip(design @ weights, -30.0, 30.0)))
        slope = design.T @ (ended - chance) - ridge @ weights
        curvature = (design.T * (chance * (1.0 - chance))) @ design + ridge
        weights = weights + np.linalg.solve(curvature, slope)
    return weights
