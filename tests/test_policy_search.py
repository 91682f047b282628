"""Rollouts in models against plain ones, and what is improved by them."""

import numpy as np
import pytest

import textbook_planning as textbook
from models_for_tests import deadline_models, drift_models, walk_models
from spaql.agents.tessera import policy_search
from spaql.agents.tessera.policy_search import (
    climb,
    combine_returns,
    play_randomly,
    prune,
    record_rollouts,
    refine_actions,
    replay,
    score_policy,
    visit_greedily,
    visit_states,
)
from spaql.agents.tessera.policy_tree import PolicyTree, count_leaves, grow_policy, truncate
from spaql.agents.tessera.value_iteration import evaluate_actions, grow_forest
from spaql.partition.rng import stream

HORIZON, ROLLOUTS = 6, 8
BEGIN = np.zeros(4, np.int64)  # time steps of the starts
ACTIONS = {
    drift_models: np.linspace(0.0, 1.0, 4)[:, None],
    walk_models: np.arange(3.0)[:, None],
    deadline_models: np.linspace(0.0, 1.0, 4)[:, None],
}
every_model = pytest.mark.parametrize("make", list(ACTIONS))


def policy_of(make, leaves=5, seed=0, clock=False):
    """A policy that was grown on random numbers; with a clock, one that compares the time step."""
    _, starts = make()
    random = np.random.default_rng(seed)
    states = random.normal(size=(40, starts.shape[1]))
    if clock:
        states = np.column_stack([states, random.integers(0, HORIZON, 40)])
    return grow_policy(states, random.random((40, len(ACTIONS[make]))), ACTIONS[make], leaves)


def copy(tree):
    return PolicyTree(*(array.copy() for array in tree))


def score(make, tree, models=None):
    models, starts = models or make()[0], make()[1]
    return score_policy(models, tree, starts, HORIZON, ROLLOUTS)


def value_of(make):
    models, starts = make()
    support = np.random.default_rng(1).normal(size=(30, starts.shape[1]))
    outputs = -np.abs(support).sum(axis=1, keepdims=True)
    forest = grow_forest(support, outputs, np.array([-9.0, 9.0]), 2, 1, np.random.default_rng(0))
    forest.planes[0] = 0.1
    forest.planes[0, :, 0] = np.linspace(-1.0, 1.0, len(forest.dims))
    return models[0], forest, support


@every_model
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("clock", [False, True])
def test_scores_equal_plain_rollouts(make, seed, clock):
    models, starts = make()
    tree = policy_of(make, 8, seed, clock)
    assert score(make, tree) == pytest.approx(textbook.score_policy(models, tree, starts, HORIZON, ROLLOUTS), abs=1e-9)
    given = models, tree, starts, HORIZON, 10 * ROLLOUTS, 1_000_003  # other starts first, and other draws
    assert score_policy(*given) == pytest.approx(textbook.score_policy(*given), abs=1e-9)
    recorded = record_rollouts(models, tree, starts, HORIZON, ROLLOUTS)
    for returns, model in zip(recorded.returns, models, strict=True):
        assert returns.mean() == pytest.approx(textbook.play_policy(model, tree, starts, HORIZON, ROLLOUTS), abs=1e-9)


def assert_same_rollouts(found, expected):
    for name in ("lengths", "returns"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    for i, k in np.ndindex(expected.lengths.shape):
        for name in ("points", "leaves", "before"):
            pair = (getattr(each, name)[i, k, : expected.lengths[i, k]] for each in (found, expected))
            np.testing.assert_array_equal(*pair)


@every_model
@pytest.mark.parametrize("clock", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_rollouts_after_a_change_are_those_played_anew(make, clock, seed):
    """Of every node, one after the other, whose cut or action is changed."""
    models, starts = make()
    tree, random = policy_of(make, 8, seed, clock), np.random.default_rng(seed)
    recorded, every = record_rollouts(models, tree, starts, HORIZON, ROLLOUTS), 0
    for node in range(len(tree.dims)):
        cut, leaves = tree.cuts[node], np.zeros(len(tree.dims), np.bool_)
        tree.cuts[node] += random.normal()
        tree.actions[node] = random.choice(ACTIONS[make])
        policy_search.mark_below(tree, node, leaves)
        change = leaves, tree.dims[node], min(cut, tree.cuts[node]), max(cut, tree.cuts[node])
        totals = np.zeros(len(models))
        every += replay(models, tree, recorded, change, 0, ROLLOUTS, totals, True)
        expected = record_rollouts(models, tree, starts, HORIZON, ROLLOUTS)
        assert_same_rollouts(recorded, expected)
        np.testing.assert_allclose(totals, expected.returns.sum(axis=1), rtol=1e-12)
    assert 0 < every < len(tree.dims) * recorded.lengths.sum()  # less than if all were played anew


@every_model
def test_the_same_policy_has_the_same_score(make):
    tree = policy_of(make)
    before = copy(tree)
    assert score(make, tree) == score(make, before)
    for name, array in before._asdict().items():
        np.testing.assert_array_equal(getattr(tree, name), array)


def test_the_worst_model_counts_for_half():
    models, starts = drift_models()
    tree = policy_of(drift_models)
    returns = record_rollouts(models, tree, starts, HORIZON, ROLLOUTS).returns.mean(axis=1)
    assert score(drift_models, tree) == pytest.approx(0.5 * returns.mean() + 0.5 * returns.min())


def run_climb(make, tree, budget, seed=0):
    """Climb; the rollouts are those of the policy afterwards."""
    models, starts = make()
    recorded = record_rollouts(models, tree, starts, HORIZON, ROLLOUTS)
    spread = np.ones(starts.shape[1] + 1)
    found = climb(models, tree, recorded, ACTIONS[make], spread, budget, np.inf, stream(seed, 0))
    assert_same_rollouts(recorded, record_rollouts(models, tree, starts, HORIZON, ROLLOUTS))
    assert found == pytest.approx(combine_returns(recorded.returns.sum(axis=1), ROLLOUTS))
    return found


@every_model
@pytest.mark.parametrize("seed", range(3))
def test_climbing_never_lowers_the_score(make, seed):
    tree = policy_of(make, seed=seed)
    before, low = copy(tree), score(make, tree)
    high = run_climb(make, tree, 5000, seed)
    assert high >= low - 1e-12
    assert high == pytest.approx(score(make, tree))
    np.testing.assert_array_equal(tree.dims, before.dims)
    assert ((tree.actions >= 0.0) & (tree.actions <= ACTIONS[make].max())).all()
    if make is walk_models:
        assert np.isin(tree.actions, ACTIONS[make]).all()


@every_model
def test_climbing_improves_a_random_policy(make):
    gains = []
    for seed in range(4):
        tree = policy_of(make, seed=seed)
        gains.append(-score(make, tree) + run_climb(make, tree, 10_000, seed))
    assert np.mean(gains) > 0.1


@every_model
@pytest.mark.parametrize("slack", [0.0, 1.0, 1e9])
def test_pruning_stays_above_the_floor(make, slack):
    models, starts = make()
    tree = policy_of(make, 8)
    before = score(make, tree)
    recorded = record_rollouts(models, tree, starts, HORIZON, ROLLOUTS)
    after = prune(models, tree, recorded, before, before - slack)
    assert_same_rollouts(recorded, record_rollouts(models, tree, starts, HORIZON, ROLLOUTS))
    small = truncate(tree, 10**6)
    assert after >= before - slack - 1e-12
    assert score(make, small) == pytest.approx(after, abs=1e-12)
    assert count_leaves(small) <= 8
    assert count_leaves(small) == 1 or slack < 1e9


@every_model
@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_visited_states_lie_where_the_model_leads(make, noise):
    models, starts = make()
    tree = policy_of(make)
    visited, steps = visit_states(models[0], tree, starts, BEGIN, HORIZON, ACTIONS[make], noise, stream(0, 0), 50)
    again, _ = visit_states(models[0], tree, starts, BEGIN, HORIZON, ACTIONS[make], noise, stream(0, 0), 50)
    assert set(steps) <= set(range(HORIZON))
    assert {tuple(x) for x in visited[steps == 0]} <= {tuple(x) for x in starts}
    np.testing.assert_array_equal(visited, again)
    low, high = np.minimum(models[0].range[0], starts.min(axis=0)), np.maximum(models[0].range[1], starts.max(axis=0))
    assert visited.shape == (50, starts.shape[1])
    assert ((low <= visited) & (visited <= high)).all()
    assert len(np.unique(visited, axis=0)) > 10
    other, later = visit_states(models[0], tree, starts, BEGIN + 3, 1, ACTIONS[make], noise, stream(0, 0), 50)
    assert set(later) == {3}
    assert {tuple(x) for x in other} <= {tuple(x) for x in starts}


@pytest.mark.parametrize("table", [np.zeros((0, 2)), np.eye(3)[:, 1:].copy()])
def test_perturbed_actions_are_uniform(table):
    drawn = []
    for k in range(20_000):
        u = np.full(2, np.nan)
        policy_search.perturb(table, np.uint64(textbook.scramble(k)), u)
        if not np.isnan(u[0]):
            drawn.append(u)
    assert 450 < len(drawn) < 750  # three of a hundred
    drawn = np.array(drawn)
    if len(table):
        np.testing.assert_allclose(drawn.mean(axis=0), 1.0 / 3.0, atol=0.08)
    else:
        np.testing.assert_allclose(drawn.mean(axis=0), 0.0, atol=0.15)
        np.testing.assert_allclose(drawn.std(axis=0), 1.0, atol=0.1)
        assert abs(np.corrcoef(drawn.T)[0, 1]) < 0.15


@every_model
def test_greedy_episodes_play_the_largest_q(make):
    model, forest, _ = value_of(make)
    start, actions = make()[1][:1], ACTIONS[make]
    visited, steps = visit_greedily(model, forest, start, 2, actions, 0.9, 0.0, stream(0, 0), 2)
    np.testing.assert_array_equal(steps, [0, 1])
    np.testing.assert_array_equal(visited[0], start[0])
    best = -np.inf, None
    for action in actions:
        features = textbook.encode_action(model, action)
        reward, x, ended = textbook.imagine(model, start[0], features, 0)  # by the mean: the noise is yet to come
        q = reward + (0.0 if ended else 0.9 * policy_search.evaluate_value(forest, 1, x))
        best = max(best, (q, features), key=lambda each: each[0])
    _, expected, _ = textbook.imagine(model, start[0], best[1], textbook.scramble(1))
    np.testing.assert_allclose(visited[1], expected, rtol=0, atol=1e-9)
    noisy, _ = visit_greedily(model, forest, start, HORIZON, actions, 0.9, 1.0, stream(0, 0), 30)
    assert np.isfinite(noisy).all()


@every_model
def test_random_actions_return_the_mean_over_actions(make):
    """With a horizon of one step."""
    models, starts = make()
    model = models[0]
    drawn = play_randomly(model, starts[:1], 1, ACTIONS[make], 400, stream(0, 0))
    returns = [
        textbook.imagine(model, starts[0], textbook.encode_action(model, action), textbook.scramble(1 + k))[0]
        for action in ACTIONS[make]
        for k in range(30)
    ]
    assert drawn == pytest.approx(np.mean(returns), abs=0.1 + np.std(returns) / 3.0)


@pytest.mark.parametrize("draws", [1, 3])
def test_refined_actions_are_at_least_as_good(draws):
    model, forest, support = value_of(drift_models)
    actions, support = ACTIONS[drift_models], np.ascontiguousarray(support[:6])
    q = np.empty((6, 4))
    steps = np.zeros(6, np.int64)
    evaluate_actions(model, forest, support, steps, actions, 0.9, draws, q)
    refined = refine_actions(model, forest, support, steps, q, actions, 0.9, draws)
    better = np.empty((6, 6))
    evaluate_actions(model, forest, support, steps, refined, 0.9, draws, better)
    assert ((refined >= 0.0) & (refined <= 1.0)).all()
    assert (np.diag(better) >= q.max(axis=1) - 1e-12).all()
