"""Piecewise linear regression: a binary tree of linear models, with a quadratic term where that helps.

Of features z [D] the tree predicts outputs y [M],

    y_m  =  offset_m + slope_m . z  +  sum over i >= j of curvature_m,ij z_i z_j,

with offset and slope of the leaf that holds z, and one curvature for the whole tree.  Each node's model is a ridge
regression on the residuals of its parent's: a child begins with what its parent knows and departs from it only as far
as its own data say.  A node splits at the cut that raises the Gaussian log likelihood of its data most,

    gain  =  sum over m of  (n log s_m - n_l log s_m,l - n_r log s_m,r) / 2,

with s the mean squared residuals (plus a floor) of linear fits to all of its data, to those below the cut and to those
above, provided that the gain exceeds (D + 1) (M + 3 sqrt M): without any true difference it has the mean (D + 1) M / 2.
Cuts lie between observed values, at quantiles of the data.

In signatures: features [n, D], outputs [n, M], t a `LinearTree`.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spaql.partition.jit import kernel

LEAF = -1
_BINS = 8  # candidate cuts per feature, and one
_SAMPLE = 2000  # rows of a node by which cuts are compared
_CURVATURE_SAMPLE = 10_000  # rows to which quadratic terms are fitted
_ROOT_RIDGE = 0.01  # in observations
_CHILD_RIDGE = 2.0
_FLOOR = 1e-6  # of the mean squared residual, in units of the output's variance


class LinearTree(NamedTuple):
    """The arrays of one tree."""

    dims: NDArray[np.int32]  # [nodes] feature that is compared, LEAF at leaves
    cuts: NDArray[np.float64]  # [nodes] z[dim] >= cut goes to the upper child
    children: NDArray[np.int32]  # [nodes] the lower child; the upper one follows it
    offsets: NDArray[np.float64]  # [nodes, M]
    slopes: NDArray[np.float64]  # [nodes, M, D]
    curvature: NDArray[np.float64]  # [M, D (D + 1) / 2], or [0, 0] where no output has a quadratic term


@kernel(inline=True)
def find_node(dims, cuts, children, z):
    """Return the leaf of a tree that holds `z`."""
    node = 0
    while dims[node] >= 0:
        node = children[node] + (z[dims[node]] >= cuts[node])
    return node


@kernel(inline=True)
def predict(t, z, y):
    """Write the outputs at features `z` [D] into `y` [M]; return the leaf."""
    node = find_node(t.dims, t.cuts, t.children, z)
    outputs, features = t.slopes.shape[1], t.slopes.shape[2]
    for m in range(outputs):
        total = t.offsets[node, m]
        for i in range(features):
            total += t.slopes[node, m, i] * z[i]
        y[m] = total
    if t.curvature.shape[0] > 0:
        p = 0
        for i in range(features):
            for j in range(i + 1):
                product = z[i] * z[j]
                for m in range(outputs):
                    y[m] += t.curvature[m, p] * product
                p += 1
    return node


@kernel()
def factorise(a, size):
    """Replace the lower triangle of a positive definite matrix by its Cholesky factor."""
    for i in range(size):
        for j in range(i + 1):
            total = a[i, j]
            for k in range(j):
                total -= a[i, k] * a[j, k]
            if i == j:
                a[i, i] = math.sqrt(max(total, 1e-18))
            else:
                a[i, j] = total / a[j, j]


@kernel()
def solve(factor, size, b):
    """Solve for `b` in place, by the factor of `factorise`."""
    for i in range(size):
        total = b[i]
        for k in range(i):
            total -= factor[i, k] * b[k]
        b[i] = total / factor[i, i]
    for i in range(size - 1, -1, -1):
        total = b[i]
        for k in range(i + 1, size):
            total -= factor[k, i] * b[k]
        b[i] = total / factor[i, i]


@kernel(hot=False)
def find_edges(values, edges, gap):
    """Write up to len(`edges`) distinct cuts between sorted `values`, near their quantiles; return how many.

    Neighbouring values that differ by at most `gap` are not separated.
    """
    count, size = 0, values.shape[0]
    for k in range(1, edges.shape[0] + 1):
        at = (k * size) // (edges.shape[0] + 1)
        above = at
        while above > 0 and values[above] - values[above - 1] <= gap:
            above -= 1
        if above == 0:
            above = at + 1
            while above < size and values[above] - values[above - 1] <= gap:
                above += 1
            if above >= size:
                return count
        edge = 0.5 * (values[above - 1] + values[above])
        if edge <= values[above - 1]:  # neighbouring doubles
            edge = values[above]
        if count == 0 or edge > edges[count - 1]:
            edges[count] = edge
            count += 1
    return count


@kernel()
def log_squares(moments, count, features, outputs, matrix, rhs):
    """Return half of n log s, summed over outputs, of the linear fit to data with these moments.

    `moments` [1 + D + M, 1 + D + M] are sums of products of (1, z, e), lower triangle, of `count` rows.
    """
    for i in range(features):
        for j in range(i + 1):
            matrix[i, j] = moments[1 + i, 1 + j] - moments[1 + i, 0] * moments[1 + j, 0] / count
        matrix[i, i] += 1e-7
    factorise(matrix, features)
    total = 0.0
    for m in range(outputs):
        row = 1 + features + m
        squares = moments[row, row] - moments[row, 0] * moments[row, 0] / count
        for i in range(features):
            value = moments[row, 1 + i] - moments[row, 0] * moments[1 + i, 0] / count
            for k in range(i):
                value -= matrix[i, k] * rhs[k]
            rhs[i] = value / matrix[i, i]
            squares -= rhs[i] * rhs[i]
        total += math.log(max(squares, 0.0) / count + _FLOOR)
    return 0.5 * count * total


@kernel()
def find_split(features, residuals, rows, centre, least):
    """Return gain, feature and cut of the best split of `rows`; the feature is LEAF where no cut leaves enough data."""
    size, width, outputs = rows.shape[0], features.shape[1], residuals.shape[1]
    every = 1 + width + outputs
    sums = np.zeros((_BINS, every, every))
    rest = np.zeros((every, every))
    matrix, rhs, row = np.zeros((width, width)), np.zeros(width), np.ones(every)
    values, edges = np.empty(size), np.empty(_BINS - 1)
    best, dim, cut = 0.0, LEAF, 0.0
    whole = np.inf
    for f in range(width):
        for k in range(size):
            values[k] = features[rows[k], f]
        values.sort()
        count = find_edges(values, edges, 0.0)
        if count == 0:
            continue
        sums[:] = 0.0
        for k in range(size):
            q = rows[k]
            at = 0
            while at < count and features[q, f] >= edges[at]:
                at += 1
            for i in range(width):
                row[1 + i] = features[q, i] - centre[i]
            for m in range(outputs):
                row[1 + width + m] = residuals[q, m]
            for i in range(every):
                for j in range(i + 1):
                    sums[at, i, j] += row[i] * row[j]
        for k in range(1, count + 1):
            sums[k] += sums[k - 1]
        if whole == np.inf:
            whole = log_squares(sums[count], float(size), width, outputs, matrix, rhs)
        for k in range(count):
            below = sums[k, 0, 0]
            if below < least or size - below < least:
                continue
            for i in range(every):
                for j in range(i + 1):
                    rest[i, j] = sums[count, i, j] - sums[k, i, j]
            gain = whole - log_squares(sums[k], below, width, outputs, matrix, rhs)
            gain -= log_squares(rest, size - below, width, outputs, matrix, rhs)
            if gain > best:
                best, dim, cut = gain, f, edges[k]
    return best, dim, cut


@kernel()
def fit_node(features, residuals, rows, ridge, centre, offset, slope):
    """Regress the residuals of `rows` on the features, subtract the fit, and add it to `offset` [M] and `slope` [M, D].

    `centre` [D] receives the means of the features.
    """
    size, width, outputs = rows.shape[0], features.shape[1], residuals.shape[1]
    centre[:] = 0.0
    for k in range(size):
        for i in range(width):
            centre[i] += features[rows[k], i]
    centre /= size
    matrix, products, means = np.zeros((width, width)), np.zeros((outputs, width)), np.zeros(outputs)
    z = np.empty(width)
    for k in range(size):
        q = rows[k]
        for i in range(width):
            z[i] = features[q, i] - centre[i]
            for j in range(i + 1):
                matrix[i, j] += z[i] * z[j]
        for m in range(outputs):
            means[m] += residuals[q, m]
            for i in range(width):
                products[m, i] += z[i] * residuals[q, m]
    for i in range(width):
        matrix[i, i] += ridge * matrix[i, i] / size + 1e-9
    factorise(matrix, width)
    means /= size
    for m in range(outputs):
        solve(matrix, width, products[m])
        offset[m] += means[m]
        for i in range(width):
            slope[m, i] += products[m, i]
            offset[m] -= products[m, i] * centre[i]
    for k in range(size):
        q = rows[k]
        for m in range(outputs):
            fitted = means[m]
            for i in range(width):
                fitted += products[m, i] * (features[q, i] - centre[i])
            residuals[q, m] -= fitted


@kernel(hot=False)
def divide_rows(values, rows, cut):
    """Reorder `rows` so that those with a value below the cut come first; return how many these are."""
    low, high = 0, rows.shape[0] - 1
    while low <= high:
        if values[rows[low]] < cut:
            low += 1
        else:
            rows[low], rows[high] = rows[high], rows[low]
            high -= 1
    return low


@kernel(hot=False)
def grow_tree(features, residuals, rows, most, least):
    """Grow a tree on standardised outputs, which `residuals` holds and loses what is explained.

    `rows` [n] is a random order of the data, and in the end lists them by leaf; a leaf's are `rows[first:last]`.  There
    are at most `most` nodes, and at least `least` rows on either side of a cut.  Returns dims, cuts, children, offsets,
    slopes, first and last.
    """
    size, width, outputs = rows.shape[0], features.shape[1], residuals.shape[1]
    dims, cuts, children = np.full(most, LEAF, np.int32), np.zeros(most), np.zeros(most, np.int32)
    offsets, slopes = np.zeros((most, outputs)), np.zeros((most, outputs, width))
    first, last = np.zeros(most, np.int64), np.zeros(most, np.int64)
    last[0] = size
    centre = np.zeros(width)
    used = 1
    for node in range(most):
        if node == used:
            break
        here = rows[first[node] : last[node]]
        if here.shape[0] == 0:
            continue
        fit_node(features, residuals, here, _CHILD_RIDGE if node else _ROOT_RIDGE, centre, offsets[node], slopes[node])
        if here.shape[0] < 2 * least or used + 2 > most:
            continue
        gain, dim, cut = find_split(features, residuals, here[:_SAMPLE], centre, least)
        if dim == LEAF or gain < (width + 1) * (outputs + 3.0 * math.sqrt(outputs)):
            continue
        below = divide_rows(features[:, dim], here, cut)
        dims[node], cuts[node], children[node] = dim, cut, used
        for child in range(used, used + 2):
            offsets[child] = offsets[node]
            slopes[child] = slopes[node]
        first[used], last[used] = first[node], first[node] + below
        first[used + 1], last[used + 1] = first[node] + below, last[node]
        used += 2
    return dims[:used], cuts[:used], children[:used], offsets[:used], slopes[:used], first[:used], last[:used]


@kernel(hot=False)
def fit_curvature(features, outputs, chosen, ridge):
    """Fit all products of features to outputs, beside a linear part; return curvature, offset and slope of each output.

    Outputs that are not `chosen` [M] have zeros.
    """
    size, width, count = features.shape[0], features.shape[1], outputs.shape[1]
    pairs = width * (width + 1) // 2
    every = 1 + width + pairs
    matrix, products = np.zeros((every, every)), np.zeros((count, every))
    row = np.ones(every)
    for q in range(size):
        p = 1 + width
        for i in range(width):
            row[1 + i] = features[q, i]
            for j in range(i + 1):
                row[p] = features[q, i] * features[q, j]
                p += 1
        for i in range(every):
            for j in range(i + 1):
                matrix[i, j] += row[i] * row[j]
            for m in range(count):
                products[m, i] += row[i] * outputs[q, m]
    for i in range(1, every):
        matrix[i, i] += ridge * matrix[i, i] / size + 1e-9
    factorise(matrix, every)
    for m in range(count):
        solve(matrix, every, products[m])
        if not chosen[m]:
            products[m] = 0.0
    return products[:, 1 + width :].copy(), products[:, 0].copy(), products[:, 1 : 1 + width].copy()


def subtract_curvature(
    features: NDArray[np.float64],
    outputs: NDArray[np.float64],
    curvature: NDArray[np.float64],
    offset: NDArray[np.float64],
    slope: NDArray[np.float64],
) -> None:
    """Subtract a quadratic fit from outputs, in place."""
    columns = features.T.copy()
    for m in range(outputs.shape[1]):
        fitted = np.full(len(features), offset[m])
        p = 0
        for i in range(len(columns)):
            fitted += slope[m, i] * columns[i]
            for j in range(i + 1):
                fitted += curvature[m, p] * columns[i] * columns[j]
                p += 1
        outputs[:, m] -= fitted


class Fit(NamedTuple):
    """A tree, and the data it was fitted to by leaf."""

    tree: LinearTree
    residuals: NDArray[np.float64]  # [n, M] in the outputs' own units
    rows: NDArray[np.int64]  # [n] by leaf
    first: NDArray[np.int64]  # [nodes] first and last of a leaf's rows
    last: NDArray[np.int64]


def fit(
    features: NDArray[np.float64],
    outputs: NDArray[np.float64],
    order: NDArray[np.int64],
    curved: NDArray[np.bool_] | None = None,
    most: int = 401,
) -> Fit:
    """Fit a tree to data.

    Parameters
    ----------
    features, outputs
        `[n, D]`, of about unit scale, and `[n, M]`.
    order
        A random order of the rows to fit to, `[at most n]`.
    curved
        Outputs that have a quadratic term, `[M]`; None for none.
    most
        Nodes of the tree at most.
    """
    width = features.shape[1]
    mean, scale = outputs[order].mean(axis=0), outputs[order].std(axis=0)
    scale = np.where(scale > 1e-12 * np.maximum(1.0, np.abs(mean)), scale, 1.0)
    residuals = (outputs - mean) / scale
    curvature, offset, slope = np.zeros((0, 0)), np.zeros(len(scale)), np.zeros((len(scale), width))
    if curved is not None and curved.any():
        some = order[:_CURVATURE_SAMPLE]
        curvature, offset, slope = fit_curvature(features[some], residuals[some], curved, _ROOT_RIDGE)
        subtract_curvature(features, residuals, curvature, offset, slope)
    rows = order.copy()
    least = 2 * (width + 1) + 2
    dims, cuts, children, offsets, slopes, first, last = grow_tree(features, residuals, rows, most, least)
    tree = LinearTree(
        dims.copy(),
        cuts.copy(),
        children.copy(),
        mean + scale * (offsets + offset),
        scale[:, None] * (slopes + slope),
        scale[:, None] * curvature if len(curvature) else curvature,
    )
    return Fit(tree, residuals * scale, rows, first, last)


def constant(features: int, value: float) -> LinearTree:
    """Return the tree that predicts one number everywhere."""
    return LinearTree(
        np.full(1, LEAF, np.int32),
        np.zeros(1),
        np.zeros(1, np.int32),
        np.full((1, 1), value),
        np.zeros((1, 1, features)),
        np.zeros((0, 0)),
    )


@kernel()
def predict_all(t, features, outputs):
    """Fill `outputs` [n, M] at `features` [n, D]."""
    for q in range(features.shape[0]):
        predict(t, features[q], outputs[q])
