"""Tessera as a whole: splits, mechanisms, merged policies, and indifference to the unit of rewards."""

import numpy as np
import pytest
from numba.core import config

from spaql.agents import Tessera
from spaql.agents.tessera import replay
from spaql.agents.tessera import split_tests as splitting
from spaql.agents.tessera import value_iteration as planning
from spaql.agents.tessera.agent import MECHANISMS
from spaql.agents.tessera.replay import (
    SPREAD,
)
from spaql.errors import ParameterError
from spaql.partition.rng import normal
from spaql.problems import Box, Problem, oil
from tessera_for_tests import (
    EPISODES,
    PROBLEMS,
    columns,
    every_problem,
    fit_all,
    parts,
    plan_values,
    read_values,
    run_steps,
    taught,
)


@every_problem
def test_the_values_that_cells_are_judged_by_do_not_change_while_cells_split(name):
    agent = run_steps(taught(name), plan_values, fit_all)
    forest, transitions, stats, hyper = parts(agent)
    states = columns(agent)[0].copy()

    def values():
        leaves = [replay.descend(forest, 0, states, i, 0) for i in range(len(states))]
        return [planning.compute_value(stats, node, states, i, 0) for i, node in enumerate(leaves)]

    before, count = values(), len(agent._work)
    np.testing.assert_allclose(before, [read_values(agent)(x) for x in states], rtol=1e-9)
    for cell in range(min(count, 20)):
        node = forest.nodes[forest.cells[cell]["node"]]
        splitting.split_and_refit(
            forest, transitions, stats, hyper, cell, node["dim"] if node["child"] >= 0 else hyper.states - 1
        )
    assert values() == before


@pytest.mark.parametrize("name", ["oil", "oil, sharp", "ambulance", "two states, three finite actions"])
def test_merging_changes_no_action_in_a_state_that_was_visited(name, monkeypatch):
    agent = taught(name)
    states = agent.problem.states.from_unit(columns(agent)[0])
    merged, arms = agent.predict(states)[0], len(agent.cells())
    monkeypatch.setattr("spaql.agents.tessera.agent.merge_cells", lambda *arguments: None)
    twin = taught(name)
    np.testing.assert_array_equal(twin.predict(states)[0], merged)
    assert arms <= len(twin.cells())
    if not config.DISABLE_JIT:
        assert arms < len(twin.cells())


@every_problem
def test_the_policy_tiles_the_space(name):
    agent = taught(name)
    for partition in (agent._work, agent._policy()):
        low, high = partition.node_boxes()
        cells, boxes = partition.forest.cells[: len(partition)], partition.forest.boxes[: len(partition)]
        draws = np.random.default_rng(0).random((300, low.shape[1] + boxes.shape[2]))
        states, actions = np.split(draws, [low.shape[1]], axis=1)
        if hasattr(agent.problem.actions, "count"):
            actions = np.floor(actions * agent.problem.actions.count)
        for x, a in zip(states, actions, strict=True):
            held = ((low[cells["node"]] <= x) & (x < high[cells["node"]])).all(axis=1)
            held &= ((boxes[:, 0] <= a) & ((a < boxes[:, 1]) | (boxes[:, 0] == boxes[:, 1]))).all(axis=1)
            if hasattr(agent.problem.actions, "count"):
                held &= (boxes[:, 0] == a).all(axis=1)
            assert held.sum() == 1


def _scaled_step(state, action, parameters, random, next_state):
    next_state[0] = action[0]
    return parameters[0] * (1.0 - abs(action[0] - 0.3) - 0.5 * abs(state[0] - action[0])) + parameters[1], False


def _scaled_reset(parameters, random, state):
    state[0] = 0.875


def scaled(unit, zero=0.0):
    spaces = {"states": Box(0, 1), "actions": Box(0, 1)}
    return Problem(
        name="scaled", step=_scaled_step, reset=_scaled_reset, **spaces, horizon=6, parameters=[float(unit), zero]
    )


@pytest.mark.parametrize("unit", [2.0**-40, 2.0**30])
def test_the_unit_of_the_rewards_changes_nothing(unit):
    one, other = (Tessera(scaled(u)).learn(iterations=EPISODES) for u in (1.0, unit))
    for field in ("state_low", "state_high", "action_low", "action_high", "visits"):
        np.testing.assert_array_equal(getattr(one.cells(), field), getattr(other.cells(), field))
    np.testing.assert_array_equal(unit * one.cells().q, other.cells().q)


@pytest.mark.compiled_only
@pytest.mark.parametrize("zero", [-1000.0, -1.0, 50.0])
def test_the_zero_of_the_rewards_changes_little(zero):
    agent = Tessera(scaled(1.0, zero)).learn(iterations=EPISODES)
    ideal = 6 - 0.5 * 0.575
    assert agent.evaluate(2).mean - 6 * zero > 0.97 * ideal


def test_where_nothing_is_at_stake_nothing_splits():
    agent = Tessera(scaled(0.0, 0.1)).learn(iterations=EPISODES)
    assert len(agent.cells()) == 1
    assert agent._stats.scale[SPREAD] == 0.0


@pytest.mark.compiled_only
@pytest.mark.parametrize(("name", "share"), [("oil", 0.97), ("oil, sharp", 0.95), ("ambulance", 0.97)])
def test_the_optimum_is_near_after_a_few_thousand_steps(name, share):
    from spaql import optimum

    problem = PROBLEMS[name]()
    agent = Tessera(problem, seed=0).learn(total_timesteps=8000)
    assert agent.training_steps == 8000
    assert agent.evaluate(500).mean > share * optimum(problem).value


@pytest.mark.compiled_only
@pytest.mark.parametrize("name", MECHANISMS)
def test_a_disabled_mechanism_makes_a_difference(name):
    """In something: the policy, the number of cells, or how it is played; where, depends on the mechanism."""
    special = {"diagonals": PROBLEMS["ambulance"]}
    problem = special.get(name, PROBLEMS["oil, sharp"])()
    whole, part = (Tessera(problem, seed=0, disable=disable).learn(iterations=EPISODES) for disable in ((), [name]))
    assert part.disable == (name,)
    same = len(whole.cells()) == len(part.cells()) and np.array_equal(whole.cells().q, part.cells().q)
    assert not same or whole.evaluate(20).mean != part.evaluate(20).mean


@pytest.mark.parametrize("disable", ["foresigth", ["curvature", 3], 5, None, True, [["curvature"]], b"a"])
def test_only_mechanisms_can_be_disabled(disable):
    with pytest.raises(ParameterError, match=r"^disable: expected some of foresight, "):
        Tessera(oil(), disable=disable)


def end(state, action, parameters, random, next_state):
    """A way of about ten steps to a place that ends it; every step costs 1."""
    next_state[0] = min(1.0, max(0.0, state[0] + 0.1 * action[0] + 0.01 * normal(random)))
    return -1.0, next_state[0] > 0.95


def far(parameters, random, state):
    state[0] = 0.1


@pytest.mark.compiled_only
def test_ends_are_found_and_no_value_is_better_than_the_rewards_allow():
    way = Problem(name="way", step=end, reset=far, states=Box(0, 1), actions=Box(-1, 1), horizon=50)
    for seed in range(3):
        agent = Tessera(way, seed=seed).learn(total_timesteps=25_000)
        assert agent.evaluate(200).mean > -10.5
        assert agent.history["value_high"].max() <= 0.0
        assert agent.history["value_low"].min() >= -50.0


@pytest.mark.compiled_only
def test_more_steps_make_it_finer():
    agents = [Tessera(oil(sharpness=1.0), seed=0).learn(total_timesteps=steps) for steps in (2_500, 25_000, 250_000)]
    counts = [len(agent.cells()) for agent in agents]
    assert counts[0] < counts[1] < counts[2]


@pytest.mark.compiled_only
@pytest.mark.parametrize("unit", [1e-150, 1e-12, 1e90])
def test_tiny_and_huge_rewards_split_as_others_do(unit):
    plain, other = (Tessera(scaled(size, 0.0), seed=0).learn(iterations=EPISODES) for size in (1.0, unit))
    assert len(plain.cells()) > 3
    assert len(other.cells()) == pytest.approx(len(plain.cells()), rel=0.2)
