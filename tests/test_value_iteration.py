"""Value iteration in a model against plain sweeps and exact dynamic programming."""

import numpy as np
import pytest

import textbook_planning as textbook
from models_for_tests import deadline_models, drift_models, walk_models
from spaql.agents.tessera import value_iteration
from spaql.agents.tessera.value_iteration import (
    Successors,
    backward_induction,
    evaluate_actions,
    evaluate_value,
    evaluate_values,
    find_successors,
    grow_forest,
    iterate_values,
    sweep,
)

ACTIONS = {
    drift_models: np.linspace(0.0, 1.0, 4)[:, None],
    walk_models: np.arange(3.0)[:, None],
    deadline_models: np.linspace(0.0, 1.0, 4)[:, None],
}
every_model = pytest.mark.parametrize("make", list(ACTIONS))


def support_of(make, count=40):
    (model, *_), starts = make()
    return model, np.random.default_rng(0).normal(size=(count, starts.shape[1]))


def forest_of(support, trees=2, bounds=(-5.0, 5.0), steps=1):
    values = np.abs(support).sum(axis=1)
    return grow_forest(support, values[:, None], np.array(bounds), trees, steps, np.random.default_rng(1)), values


@every_model
@pytest.mark.parametrize("hold", [1, 3])
@pytest.mark.parametrize("draws", [1, 2])
def test_successors_are_where_the_model_leads(make, hold, draws):
    model, support = support_of(make, 6)
    actions = ACTIONS[make]
    steps = np.arange(6)
    found = find_successors(model, support, steps, actions, 0.9, hold, draws)
    assert found.single == len(actions)
    assert found.states.shape == (6, len(actions) * (1 if hold == 1 else 2), draws, support.shape[1])
    for i, j in np.ndindex(found.rewards.shape):
        u, total = textbook.encode_action(model, actions[j % len(actions)]), 0.0
        for k in range(draws):
            x, weight = support[i], 1.0
            for t in range(hold if j >= len(actions) else 1):
                bits = textbook.scramble(1 + (i * hold + t) * draws + k) if draws > 1 else 0
                reward, x, ended = textbook.imagine(model, x, u, bits, steps[i] + t)
                total += weight * reward / draws
                weight = 0.0 if ended else weight * 0.9
                if ended:
                    break
            np.testing.assert_allclose(found.states[i, j, k], x, rtol=0, atol=1e-9)
            assert found.discounts[i, j, k] == pytest.approx(weight)
        assert found.rewards[i, j] == pytest.approx(total)


@every_model
@pytest.mark.parametrize("soft", [0.0, 0.1])
@pytest.mark.parametrize("rounds", [3, 10])
def test_a_sweep_equals_the_textbook(make, soft, rounds):
    model, support = support_of(make)
    forest, values = forest_of(support)
    successors = find_successors(model, support, np.zeros(len(support), np.int64), ACTIONS[make], 0.9, 2, 2)
    settings = value_iteration._RIDGE, value_iteration._FULL
    expected = textbook.sweep(forest, support, successors, values, soft, rounds, *settings)
    assert sweep(forest, successors, values, soft, rounds, 0.0, support) == rounds
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-8)
    plain = textbook.fit_planes(forest, support, expected, value_iteration._RIDGE)
    found = np.empty(len(support))
    evaluate_values(forest, np.arange(len(support)), support, found)  # at any time step
    np.testing.assert_allclose(found, [plain(x) for x in support], rtol=0, atol=1e-8)


@every_model
@pytest.mark.parametrize("soft", [0.0, 0.1])
def test_backward_induction_equals_the_textbook(make, soft):
    model, support = support_of(make)
    forest, _ = forest_of(support, steps=5)
    timed = make is deadline_models

    def succeed(step):
        return find_successors(model, support, np.full(len(support), step), ACTIONS[make], 1.0, 1, 2)

    expected = textbook.induct(forest, support, succeed, 4, soft, value_iteration._RIDGE)
    values = np.full((5, len(support)), np.nan)
    backward_induction(forest, succeed(0), values, soft, support, succeed if timed else None)
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-8)
    for step in range(5):
        plain = textbook.fit_planes(forest, support, expected[step], value_iteration._RIDGE)
        assert evaluate_value(forest, step, support[0]) == pytest.approx(plain(support[0]), abs=1e-8)


@every_model
def test_q_is_the_reward_and_the_value_of_what_follows(make):
    model, support = support_of(make, 6)
    forest, _values = forest_of(support_of(make)[1])
    q = np.empty((6, len(ACTIONS[make])))
    for draws in (1, 3):
        evaluate_actions(model, forest, support, np.arange(6), ACTIONS[make], 0.9, draws, q)
        for i, j in np.ndindex(q.shape):
            u, total = textbook.encode_action(model, ACTIONS[make][j]), 0.0
            for k in range(draws):
                bits = textbook.scramble(1 + i * draws + k) if draws > 1 else 0
                reward, x, ended = textbook.imagine(model, support[i], u, bits, i)
                total += reward + (0.0 if ended else 0.9 * evaluate_value(forest, i + 1, x))
            assert q[i, j] == pytest.approx(total / draws)


def corridor(points):
    """Steps of 0.1 to either side, or none, from 0 up; the reward is x, and 0.8 ends the episode with 3."""
    moves = np.array([-0.1, 0.0, 0.1])
    there = np.maximum(np.round(points[:, None] + moves, 10), 0.0)
    ended = there >= 0.8
    rewards = np.where(ended, 3.0, points[:, None] * np.ones(3))
    return Successors(there[:, :, None, None], rewards, np.where(ended, 0.0, 0.9)[:, :, None], 3)


def solve_exactly(points, successors, rounds=400):
    values, at = np.zeros(len(points)), np.searchsorted(points, successors.states[:, :, 0, 0] - 1e-9)
    at = np.minimum(at, len(points) - 1)  # the others ended
    for _ in range(rounds):
        values = (successors.rewards + successors.discounts[:, :, 0] * values[at]).max(axis=1)
    return values


@pytest.mark.parametrize("trees", [1, 4])
def test_values_are_those_of_dynamic_programming(trees):
    points = np.round(np.arange(0.0, 0.8, 0.02), 10)
    successors = corridor(points)
    exact, values = solve_exactly(points, successors), np.zeros((1, len(points)))
    support, bounds = points[:, None].copy(), np.array([0.0, 10.0])
    random = np.random.default_rng(0)
    rounds = 60
    forest = iterate_values(support, successors, bounds, values, random, soft=0.0, rounds=rounds, trees=trees)
    assert np.abs(values[0] - exact).mean() < 0.1 * np.ptp(exact)
    assert np.abs(values[0] - exact).max() < 0.3 * np.ptp(exact)
    assert np.corrcoef([evaluate_value(forest, 0, x) for x in support], exact)[0, 1] > 0.95


@pytest.mark.parametrize("trees", [1, 4])
def test_values_of_a_short_horizon_are_those_of_dynamic_programming(trees):
    points = np.round(np.arange(0.0, 0.8, 0.02), 10)
    successors = corridor(points)
    support, bounds, values = points[:, None].copy(), np.array([0.0, 10.0]), np.zeros((7, len(points)))
    iterate_values(support, successors, bounds, values, np.random.default_rng(0), soft=0.0, rounds=1, trees=trees)
    assert not values[6].any()
    for step in range(6):
        exact = solve_exactly(points, successors, 6 - step)
        assert np.abs(values[step] - exact).mean() < 0.1 * np.ptp(exact)


def test_values_stay_within_their_bounds():
    _, support = support_of(walk_models)
    forest, values = forest_of(support, bounds=(0.0, 1.0))
    there = np.ascontiguousarray(3.0 * support[:, None, None, :])  # further out each time: what grows without bounds
    successors = Successors(there, np.ones((40, 1)), np.full((40, 1, 1), 0.99), 1)
    sweep(forest, successors, values, 0.0, 20, 0.0, support)
    assert values.max() <= 1.0
    assert 0.0 <= evaluate_value(forest, 0, np.full(2, 100.0)) <= 1.0


def test_a_sweep_stops_at_a_fixed_point():
    _, support = support_of(walk_models)
    forest, _ = forest_of(support)
    ends = Successors(support[:, None, None, :].copy(), np.full((40, 1), 2.0), np.zeros((40, 1, 1)), 1)
    values = np.zeros(40)
    assert sweep(forest, ends, values, 0.0, 50, 1e-9, support) == 3
    assert (values == 2.0).all()


@pytest.mark.parametrize("trees", [1, 3])
def test_trees_of_a_forest_have_their_own_nodes(trees):
    _, support = support_of(walk_models)
    forest, _ = forest_of(support, trees)
    assert len(forest.roots) == trees
    reached = [{textbook.find_leaf(forest, x, root) for x in support} for root in forest.roots]
    assert sum(len(leaves) for leaves in reached) == len(set().union(*reached))
    unknown = grow_forest(support, None, np.array([0.0, 1.0]), trees, 1, np.random.default_rng(0))
    assert len(unknown.dims) > trees
