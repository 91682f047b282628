"""Value iteration: planes are regressions, planning finds values that are read_values, and none is impossible."""

import numpy as np
import pytest
from numba.core import config

from spaql.agents import Tessera
from spaql.agents.tessera import replay
from spaql.agents.tessera import split_tests as splitting
from spaql.agents.tessera.replay import (
    CELL,
    NEXT_NODE,
    NODE,
    RETURN_HIGH,
    RETURN_LOW,
    USED,
    VALUE_HIGH,
    VALUE_LOW,
)
from spaql.partition import kernels
from spaql.partition.rng import normal, uniform
from spaql.problems import Box, Discrete, Problem
from tessera_for_tests import columns, every_problem, fit_all, parts, plan_values, read_values, run_steps, taught


@every_problem
@pytest.mark.parametrize("disable", [(), ("slopes",)], ids=["planes", "levels"])
def test_fitting_makes_q_the_mean_target(name, disable):
    agent = taught(name, disable=disable)
    hyper, used = agent._hyper, int(agent._buffer.counts[USED])
    _, _, rewards, following = columns(agent)
    value = read_values(agent)
    ended = agent._buffer.links[:used, NEXT_NODE] < 0
    targets = rewards[:, 0] + hyper.discount * np.array(
        [0.0 if end else value(y) for y, end in zip(following, ended, strict=True)]
    )
    cells = agent._buffer.links[:used, CELL]
    fit_all(agent)
    np.testing.assert_allclose(agent._buffer.targets[:used], targets, rtol=1e-9)
    after = agent._work.forest.cells["q"][: len(agent._work)]
    for cell in np.unique(cells):
        own = targets[cells == cell]
        assert after[cell] == pytest.approx(own.mean(), rel=1e-9)
        assert agent._stats.squares[cell, replay.TARGETS] == pytest.approx(
            ((own - own.mean()) ** 2).sum(), rel=1e-6, abs=1e-9
        )
        if not disable:
            span = agent._stats.planes[cell, 2 * hyper.states :]
            np.testing.assert_allclose(span, [own.min() - own.mean(), own.max() - own.mean()], rtol=1e-6, atol=1e-9)


@every_problem
@pytest.mark.parametrize("min_samples", [2, 9])
def test_the_slope_of_a_cell_is_that_of_a_ridge_regression(name, min_samples):
    """As if there were more transitions, that say nothing of a slope, spread evenly over the cell."""
    agent = taught(name, min_samples=min_samples)
    states, used = agent._hyper.states, int(agent._buffer.counts[USED])
    low, high = agent._work.node_boxes()
    fit_all(agent)
    cells, steep = agent._buffer.links[:used, CELL], 0
    for cell in np.unique(cells):
        x, t = columns(agent)[0][cells == cell], agent._buffer.targets[:used][cells == cell]
        node = agent._work.forest.cells["node"][cell]
        more = min_samples * np.diag((high[node] - low[node]) ** 2 / 12.0)
        scatter = (x - x.mean(axis=0)).T @ (x - x.mean(axis=0))
        slope = np.linalg.solve(scatter + more, (x - x.mean(axis=0)).T @ (t - t.mean()))
        plane = agent._stats.planes[cell]
        np.testing.assert_allclose(plane[:states], x.mean(axis=0), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(plane[states : 2 * states], slope, rtol=1e-7, atol=1e-9 * np.abs(t).max())
        steep += np.abs(slope).max() > 1e-3
    assert steep > 0


def test_without_slopes_every_plane_is_constant():
    agent = taught("two states, three finite actions", disable=["slopes"])
    assert not agent._stats.planes.any()
    assert not agent._stats.new_planes.any()


def _nowhere(state, action, parameters, random, next_state):
    next_state[0] = state[0]
    return 0.0, True


def _middle(parameters, random, state):
    state[0] = 0.5


def given(cuts, transitions, **more):
    """An agent for one state and two actions, with both of its cells cut so often; rows of x, a, r, x' (None: end)."""
    spaces = {"states": Box(0, 1), "actions": Discrete(2)}
    agent = Tessera(Problem(name="none", step=_nowhere, reset=_middle, horizon=5, **spaces), **more)
    forest, stats, hyper = agent._work.forest, agent._stats, agent._hyper
    agent._buffer = replay.make_buffer(hyper, len(transitions))
    replay.update_greedy(forest, stats)
    for _ in range(cuts):
        for cell in range(len(agent._work)):
            splitting.split_and_refit(forest, agent._buffer, stats, hyper, cell, 0)
    for i, (x, a, r, following) in enumerate(transitions):
        agent._buffer.transitions[i] = x, a, r, x if following is None else following
        agent._buffer.links[i, NODE] = 0
        agent._buffer.links[i, NEXT_NODE] = -1 if following is None else 0
        replay.extend_return_range(stats, hyper, r, following is None)
        point, action = (
            agent._buffer.transitions[i : i + 1, :1].copy(),
            agent._buffer.transitions[i : i + 1, 1:2].copy(),
        )
        replay.link(*parts(agent), i, kernels.find_cell(forest, 0, point, 0, action))
        agent._buffer.counts[USED] += 1
    replay.update_anchors(forest, agent._buffer, stats)
    return run_steps(agent)


def q_at(agent, x, a):
    forest = agent._work.forest
    return forest.cells["q"][kernels.find_cell(forest, 0, np.array([[x]]), 0, np.array([[float(a)]]))]


def chain(cuts):
    """Places in a row, one per leaf: one step up or down costs 1, and the way ends above the highest place."""
    places = [(k + 0.5) / 2**cuts for k in range(2**cuts)]
    up = [(x, 1, -1.0, y) for x, y in zip(places, [*places[1:], None], strict=True)]
    down = [(x, 0, -1.0, y) for x, y in zip(places, [places[0], *places[:-1]], strict=True)]
    return places, up + down


@pytest.mark.parametrize("discount", [0.5, 0.95, 0.999])
@pytest.mark.parametrize("disable", [(), ("slopes",)], ids=["planes", "levels"])
@pytest.mark.parametrize(("cuts", "updates"), [(2, 1), (3, 2)])
def test_planning_solves_a_chain(discount, disable, cuts, updates):
    """One update does for a short way; all actions alike at first, a round finds the way from one place more."""
    places, rows = chain(cuts)
    agent = given(cuts, 3 * rows, discount=discount, disable=disable)
    for _ in range(updates):
        run_steps(agent, plan_values, fit_all)
    best = [-sum(discount**k for k in range(len(places) - place)) for place in range(len(places))]
    for place, x in enumerate(places):
        assert q_at(agent, x, 1) == pytest.approx(best[place], rel=1e-9)
        assert q_at(agent, x, 0) == pytest.approx(-1.0 + discount * best[max(0, place - 1)], rel=1e-9)
        assert read_values(agent)(np.array([x])) == pytest.approx(best[place], rel=1e-9)


def test_without_planning_values_move_by_one_step():
    places, rows = chain(3)
    agent = given(3, rows, discount=0.5, disable=["planning"])
    for update in range(10):
        splitting.update(*parts(agent))
        for place, x in enumerate(places):
            steps = min(update + 1, 8 - place)
            assert q_at(agent, x, 1) == pytest.approx(-sum(0.5**k for k in range(steps)), rel=1e-12)


def sloping(count, discount, step=0.05):
    """States all over [0, 1] move up by a short step; rewards such that V(x) = 3 + 2 x, and 1 less for one action."""
    draw = np.random.default_rng(0).random(count)
    rows = []
    for k, x in enumerate(draw):
        following = x + step if x + step < 1.0 else None
        reward = 3.0 + 2.0 * x - (0.0 if following is None else discount * (3.0 + 2.0 * following))
        rows.append((x, k % 2, reward - (k % 2 == 0), following))
    return rows


@pytest.mark.parametrize("discount", [0.5, 0.9])
def test_planes_find_a_value_within_a_cell_that_constants_do_not(discount):
    points, errors = np.linspace(0.05, 0.95, 19), {}
    for disable in ((), ("slopes",)):
        agent = given(1, sloping(800, discount), discount=discount, disable=disable)
        for _ in range(10):
            run_steps(agent, plan_values, fit_all)
        errors[disable] = max(abs(read_values(agent)(np.array([x])) - (3.0 + 2.0 * x)) for x in points)
    assert errors[()] < 0.1
    assert errors["slopes",] > 0.4


def test_a_cell_without_transitions_moves_with_the_others():
    """By their mean change, weighed by their transitions, however often Q is iterated; its plane stays."""
    agent = given(2, [row for row in sloping(300, 0.9) if not (row[0] > 0.75 and row[1] == 0)], discount=0.9)
    cells = agent._work.forest.cells[: len(agent._work)]
    assert (cells["visits"] == 0).sum() == 1
    rng, planes = np.random.default_rng(1), agent._stats.new_planes[: len(cells)]
    cells["q"] = rng.normal(size=len(cells))
    planes[cells["visits"] == 0] = agent._stats.planes[: len(cells)][cells["visits"] == 0] = [0.8, 0.5, -1.0, 1.0]
    for step in (plan_values, fit_all):
        run_steps(agent)
        before = cells["q"].copy()
        run_steps(agent, step)
        moved = cells["q"] - before
        seen = cells["visits"] > 0
        expected = np.average(moved[seen], weights=cells["visits"][seen])
        assert moved[~seen] == pytest.approx(expected, rel=1e-9)
        assert abs(expected) > 1e-6
    assert agent._stats.planes[: len(cells)][~seen].tolist() == [[0.8, 0.5, -1.0, 1.0]]


def _random_step(state, action, parameters, random, next_state):
    """Waves of rewards between 0 and 1 over a linear system that is pushed, and stays in the unit cube."""
    states = len(state)
    for d in range(states):
        drift = 0.0
        for e in range(states):
            drift += parameters[2 + d * states + e] * state[e]
        moved = state[d] + 0.1 * (drift - parameters[0]) + parameters[1] * (2.0 * action[0] - 1.0)
        next_state[d] = min(1.0, max(0.0, moved + 0.02 * normal(random)))
    wave = np.sin(7.0 * state[0] + 5.0 * action[0] + parameters[0]) * np.cos(11.0 * state[states - 1] * parameters[2])
    return 0.5 + 0.5 * wave, False


def _random_reset(parameters, random, state):
    for d in range(len(state)):
        state[d] = uniform(random)


def random_problem(states, seed):
    rng = np.random.default_rng(seed)
    numbers = [rng.normal(), rng.choice([0.02, 0.1, 0.4]), *(rng.choice([1, 3, 10]) * rng.normal(size=states**2))]
    spaces = {"states": Box([0] * states, [1] * states), "actions": Box(0, 1)}
    functions = {"step": _random_step, "reset": _random_reset}
    return Problem(name="random", **functions, **spaces, horizon=100, parameters=[float(v) for v in numbers])


@pytest.mark.parametrize("states", [1, 2])
@pytest.mark.parametrize("seed", range(4))
def test_values_stay_within_what_the_rewards_allow(states, seed):
    """Between 0 and 1 / (1 - discount), while it learns and however often the same memory is planned with after."""
    steps, repeats = (300, 3) if config.DISABLE_JIT else (20_000, 60)
    agent = Tessera(random_problem(states, seed), seed=seed, discount=0.999).learn(total_timesteps=steps)
    assert agent.history["value_low"].min() >= 0.0
    assert agent.history["value_high"].max() <= 1000.0
    levels = []
    for _ in range(repeats):
        run_steps(agent, plan_values, fit_all)
        levels.append((agent._stats.scale[VALUE_LOW], agent._stats.scale[VALUE_HIGH]))
    levels = np.array(levels)
    assert 0.0 <= levels.min() <= levels.max() <= 1000.0
    assert levels[-1, 1] > levels[0, 1]  # it was still on its way up


@pytest.mark.compiled_only
@pytest.mark.parametrize("states", [2, 4])
@pytest.mark.parametrize("seed", range(3))
def test_values_stay_within_what_rewards_allow_with_a_small_buffer(states, seed):
    """Few transitions per cell, and planes that reach beyond them."""
    agent = Tessera(random_problem(states, seed), seed=seed, discount=0.999, min_samples=2, buffer_size=400)
    agent.learn(total_timesteps=20_000)
    for _ in range(300):
        run_steps(agent, plan_values, fit_all)
    rewards, scale = columns(agent)[2], agent._stats.scale
    assert scale[VALUE_LOW] >= scale[RETURN_LOW] >= -1000.0
    assert scale[VALUE_HIGH] <= scale[RETURN_HIGH] <= 1000.0
    assert scale[RETURN_LOW] <= rewards.min() / (1.0 - 0.999)
    assert scale[RETURN_HIGH] >= rewards.max() / (1.0 - 0.999)


def test_an_empty_half_keeps_q_and_plane():
    agent = given(0, [row for row in sloping(100, 0.9) if row[0] < 0.5], discount=0.9)
    run_steps(agent, plan_values, fit_all)
    forest, stats = agent._work.forest, agent._stats
    q, plane = forest.cells["q"][0], stats.planes[0].copy()
    assert plane[1] != 0.0
    splitting.split_and_refit(*parts(agent), 0, 0)
    upper = len(agent._work) - 1
    assert forest.cells["visits"][upper] == 0
    assert forest.cells["q"][upper] == q
    assert stats.new_planes[upper].tolist() == plane.tolist()
    assert stats.new_planes[0].tolist() != plane.tolist()  # a narrower cell holds its slope back less
