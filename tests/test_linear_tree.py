"""Trees of linear models against least squares by NumPy."""

import numpy as np
import pytest

import textbook_planning as textbook
from spaql.agents.tessera import linear_tree
from spaql.agents.tessera.linear_tree import LEAF, fit, predict, predict_all

ROWS = 120
CONSTANTS = {
    "bins": linear_tree._BINS,
    "floor": linear_tree._FLOOR,
    "root_ridge": linear_tree._ROOT_RIDGE,
    "child_ridge": linear_tree._CHILD_RIDGE,
}


def draw(seed, rows=ROWS, width=2):
    random = np.random.default_rng(seed)
    return random, random.normal(size=(rows, width))


def kinked(features):
    """Two outputs, one with a kink and one with a jump."""
    x, y = features[:, 0], features[:, 1]
    return np.column_stack([1.0 + np.abs(x) + 0.5 * y, 3.0 * (y > 0.3) - x])


def predict_rows(tree, features):
    outputs = np.empty((len(features), tree.offsets.shape[1]))
    predict_all(tree, features, outputs)
    return outputs


@pytest.mark.parametrize("seed", range(4))
def test_a_tree_equals_the_textbook(seed):
    random, features = draw(seed)
    outputs = kinked(features) + 0.02 * random.normal(size=(ROWS, 2))
    found = fit(features, outputs, random.permutation(ROWS), most=9)
    nodes = textbook.grow_linear_tree(features, outputs, 8, 9, **CONSTANTS)
    dims, cuts, children, offsets, slopes = zip(*nodes, strict=True)
    np.testing.assert_array_equal(found.tree.dims, dims)
    np.testing.assert_array_equal(found.tree.cuts, cuts)
    np.testing.assert_array_equal(found.tree.children, children)
    np.testing.assert_allclose(found.tree.offsets, offsets, rtol=0, atol=1e-8)
    np.testing.assert_allclose(found.tree.slopes, slopes, rtol=0, atol=1e-8)
    assert len(dims) > 1


@pytest.mark.parametrize("seed", range(3))
def test_residuals_and_rows_belong_to_leaves(seed):
    random, features = draw(seed)
    outputs = kinked(features) + 0.1 * random.normal(size=(ROWS, 2))
    order = random.permutation(ROWS)[:90]
    found = fit(features, outputs, order)
    np.testing.assert_array_equal(np.sort(found.rows), np.sort(order))
    expected = outputs[order] - predict_rows(found.tree, features[order])
    np.testing.assert_allclose(found.residuals[order], expected, rtol=0, atol=1e-9)
    for leaf in np.flatnonzero(found.tree.dims == LEAF):
        for row in found.rows[found.first[leaf] : found.last[leaf]]:
            assert textbook.find_leaf(found.tree, features[row]) == leaf


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("least", [5, 20])
def test_the_split_is_the_best_of_all_candidates(seed, least):
    random, features = draw(seed, width=3)
    residuals = np.column_stack([np.abs(features[:, seed % 3] - 0.2), random.normal(size=ROWS)])
    gain, dim, cut = linear_tree.find_split(features, residuals, np.arange(ROWS), features.mean(axis=0), least)
    expected = textbook.best_split(features, residuals, least, linear_tree._BINS, linear_tree._FLOOR)
    assert (dim, cut) == expected[1:]
    assert gain == pytest.approx(expected[0], rel=1e-3)


def test_cuts_separate_values_however_they_repeat():
    edges = np.empty(7)
    for values in ([0.0] * 50 + [1.0], [0.0, 1.0], [1.0, np.nextafter(1.0, 2.0)], [0, 0, 1, 1, 1, 2, 5, 5], [3.0] * 4):
        values = np.array(values, float)
        for gap in (0.0, 1.0):
            count = linear_tree.find_edges(values, edges, gap)
            assert edges[:count].tolist() == textbook.candidate_cuts(values, 7, gap)
        for edge in edges[:count]:
            assert 0 < (values >= edge).sum() < len(values)


def test_a_piecewise_linear_function_is_recovered():
    _, features = draw(1, rows=300)
    outputs = kinked(features)
    predicted = predict_rows(fit(features, outputs, np.arange(300)).tree, features)
    # cuts lie at quantiles, so that a leaf or two hold a kink or the jump
    assert np.median(np.abs(predicted - outputs)) < 0.02
    assert ((predicted - outputs) ** 2).mean() < 0.05 * outputs.var(axis=0).mean()


def test_a_linear_function_is_one_leaf():
    _, features = draw(2)
    outputs = features @ np.array([[1.0, 5.0], [-2.0, 0.0]]) + 7.0
    tree = fit(features, outputs, np.arange(ROWS)).tree
    assert len(tree.dims) == 1
    np.testing.assert_allclose(predict_rows(tree, features), outputs, rtol=0, atol=0.01)


@pytest.mark.parametrize("seed", range(10))
def test_noise_is_not_split(seed):
    random, features = draw(seed)
    outputs = features[:, :1] + random.normal(size=(ROWS, 1))
    assert len(fit(features, outputs, np.arange(ROWS)).tree.dims) == 1


@pytest.mark.parametrize("chosen", [[True, False], [True, True], [False, False]])
def test_quadratic_terms_are_recovered(chosen):
    _, features = draw(3)
    x, y = features.T
    outputs = np.column_stack([2.0 * x * x - x * y + 0.5 * y + 1.0, 4.0 * x - 2.0])
    tree = fit(features, outputs, np.arange(ROWS), np.array(chosen)).tree
    if not any(chosen):
        assert tree.curvature.shape == (0, 0)
        return
    np.testing.assert_allclose(tree.curvature, [[2.0, -1.0, 0.0], [0.0, 0.0, 0.0]], atol=0.02)
    assert not tree.curvature[1].any() or chosen[1]
    np.testing.assert_allclose(predict_rows(tree, features), outputs, atol=0.05)
    y = np.empty(2)
    for z in features[:5]:
        assert predict(tree, z, y) == textbook.find_leaf(tree, z)
        np.testing.assert_allclose(y, textbook.predict(tree, z), rtol=0, atol=1e-12)


def test_units_of_the_outputs_do_not_matter():
    random, features = draw(4)
    outputs = kinked(features) + 0.1 * random.normal(size=(ROWS, 2))
    scaled = fit(features, 1e6 * outputs - 1e8, np.arange(ROWS)).tree
    plain = fit(features, outputs, np.arange(ROWS)).tree
    np.testing.assert_array_equal(scaled.dims, plain.dims)
    np.testing.assert_allclose(scaled.slopes, 1e6 * plain.slopes, rtol=1e-4, atol=1.0)


def test_constant_and_repeated_data_are_fitted():
    features = np.repeat([[1.0, 2.0], [3.0, 2.0]], 20, axis=0)
    outputs = np.column_stack([features[:, 0] ** 2, np.full(40, 5.0)])
    tree = fit(features, outputs, np.arange(40)).tree
    np.testing.assert_allclose(predict_rows(tree, features), outputs, atol=0.05)
    assert predict_rows(linear_tree.constant(2, 4.5), features).tolist() == [[4.5]] * 40


def test_factors_solve_linear_systems():
    random = np.random.default_rng(5)
    half = random.normal(size=(4, 4))
    matrix, b = half @ half.T + np.eye(4), random.normal(size=4)
    factor, x = matrix.copy(), b.copy()
    linear_tree.factorise(factor, 4)
    np.testing.assert_allclose(np.tril(factor), np.linalg.cholesky(matrix), atol=1e-12)
    linear_tree.solve(factor, 4, x)
    np.testing.assert_allclose(x, np.linalg.solve(matrix, b), atol=1e-12)
