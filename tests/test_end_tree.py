"""Where episodes end: the tree against its definition, and a score where ends depend on several numbers at once."""

import numpy as np
import pytest

from spaql.agents.tessera import end_tree
from spaql.agents.tessera.end_tree import EndTree, fit_ends, grow_end_tree, predict_ends, score_end


def transitions(ends, count=1500, states=3, seed=0):
    """Inputs (x', u, x) of transitions, rows that went on and rows that ended, as `ends` [n] of x' says."""
    inputs = np.random.default_rng(seed).normal(size=(count, 2 * states + 1))
    ended = ends(inputs[:, :states])
    return inputs, np.flatnonzero(~ended), np.flatnonzero(ended)


def predict(tree, inputs, states=3):
    return predict_ends(tree, inputs[:, :states], inputs[:, states:-states], inputs[:, -states:])


def test_end_trees_split_where_the_likelihood_gains_most():
    random = np.random.default_rng(3)
    features = random.normal(size=(80, 2))
    ended = (features[:, 1] > 0.6).astype(float)
    dims, cuts, _children, shares = grow_end_tree(features, ended, 9)
    assert dims.tolist() == [1, -1, -1]
    below, above = features[ended == 0.0, 1].max(), features[ended == 1.0, 1].min()
    assert cuts[0] == 0.5 * (below + above)
    assert shares.tolist() == [ended.mean(), 0.0, 1.0]
    assert grow_end_tree(features, np.zeros(80), 9)[3].tolist() == [0.0]
    noise = [len(grow_end_tree(features, (random.random(80) < 0.5) * 1.0, 9)[0]) > 1 for _ in range(20)]
    assert sum(noise) < 8


def product(x):
    """Neither of the two numbers says anything alone."""
    return x[:, 0] * x[:, 1] + x[:, 2] > 1.0


def test_a_score_finds_ends_that_depend_on_products():
    inputs, going, over = transitions(product)
    tree = fit_ends(inputs, 3, going, over)
    assert len(tree.weights) == 1 + 3 + 6
    assert len(tree.dims) <= 5
    fresh, going, over = transitions(product, seed=1)
    assert ((predict(tree, fresh) > 0.5) == product(fresh)).mean() > 0.98
    assert score_end(tree.weights, fresh[0, :3]) == pytest.approx(end_tree._multiply(fresh[:1, :3])[0] @ tree.weights)


def test_ends_at_a_border_need_no_score():
    inputs, going, over = transitions(lambda x: np.abs(x[:, 1]) > 1.5)
    tree = fit_ends(inputs, 3, going, over)
    assert len(tree.weights) == 0
    assert score_end(tree.weights, inputs[0, :3]) == 0.0
    assert len(tree.dims) == 5
    assert (predict(tree, inputs) > 0.5).sum() == len(over)


def test_without_ends_none_are_predicted():
    inputs, going, over = transitions(lambda x: np.zeros(len(x), bool))
    tree = fit_ends(inputs, 3, going, over)
    assert tree.dims.tolist() == [-1]
    assert not predict(tree, inputs).any()


def test_shares_are_those_of_all_transitions_though_each_kind_is_sampled(monkeypatch):
    """Ends at random, one in ten: a sample of as many of either kind must not say one in two."""
    monkeypatch.setattr(end_tree, "_SAMPLE", 100)
    inputs, going, over = transitions(lambda x: np.arange(len(x)) % 10 == 0, count=3000)
    tree = fit_ends(inputs, 3, going, over)
    assert isinstance(tree, EndTree)
    assert predict(tree, inputs).mean() == pytest.approx(0.1, abs=0.03)
