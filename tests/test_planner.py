"""Where rollouts begin, and when a plan is repeated."""

from types import SimpleNamespace

import numpy as np
import pytest

import spaql
from spaql.agents.tessera import planner
from spaql.agents.tessera.planner import Facts, Planner, Transitions
from spaql.partition.spaces import Box

HORIZON, EPISODES = 150, 6
FACTS = Facts(HORIZON, Box(0, 1), np.zeros((0, 1)), np.zeros(1, np.bool_), 4, ())


def transitions(starts, horizon=HORIZON):
    """Episodes that begin in each of some starts, and go up to 1."""
    steps = np.linspace(0.0, 1.0, horizon)
    points = np.concatenate([start + (1.0 - start) * steps for start in starts])[:, None]
    count, times = len(points), np.tile(np.arange(horizon, dtype=np.int32), len(starts))
    actions = np.random.default_rng(0).random((count, 1))
    following = np.minimum(points + 1.0 / horizon, 1.0)
    return Transitions(points, actions, -points[:, 0], following, np.zeros(count, np.int8), times)


def make(past, facts=FACTS, thorough=True):
    return Planner(past, facts, (0, 0), thorough, lambda: None)


def begin(past, facts=FACTS):
    """The points in which rollouts begin."""
    planner = make(past, facts)
    return (planner._find_starts() * planner.scale + planner.mean)[:, 0]


def test_rollouts_begin_in_states_like_the_starts_where_these_are_few():
    starts = np.linspace(0.1, 0.2, EPISODES)
    found = begin(transitions(starts))
    np.testing.assert_allclose(found[:EPISODES], starts)
    assert len(found) == 160
    beyond = 0.1 * 2.0 / (EPISODES + 1)  # the fewer starts, the farther beyond their range others may lie
    assert 0.1 - beyond - 1e-12 <= found.min() < 0.1
    assert 0.2 < found.max() <= 0.2 + beyond + 1e-12
    counts, _ = np.histogram(found, 10, (0.1, 0.2))
    assert counts.min() > 5  # no gaps between starts
    without = Facts(HORIZON, Box(0, 1), np.zeros((0, 1)), np.zeros(1, np.bool_), 4, ["similar_starts"])
    np.testing.assert_allclose(begin(transitions(starts), without), starts)


def test_no_rollout_begins_where_no_state_is_recorded_near():
    starts = np.array([0.1, 0.1, 0.8, 0.8])
    past = transitions(starts)
    past = Transitions._make(column[np.arange(len(past.times)) % HORIZON < 3] for column in past)  # three steps each
    found = begin(past)
    assert ((found < 0.2) | (found > 0.75)).all()


def test_rollouts_begin_in_recorded_starts_where_these_are_one_or_many():
    np.testing.assert_allclose(begin(transitions(np.full(EPISODES, 0.3))), [0.3] * EPISODES)
    many = np.linspace(0.1, 0.2, 170)
    np.testing.assert_allclose(begin(transitions(many, horizon=5)), many)
    past = transitions([0.1, 0.2])
    assert len(begin(Transitions._make(column[1:HORIZON] for column in past))) == HORIZON - 1  # no start is left


@pytest.mark.parametrize(
    ("scores", "returned"),
    [
        ([5.0, 4.0, 9.0], 5.0),  # not better
        ([5.0, 5.01, 9.0], 5.01),  # hardly better
        ([5.0, 6.0, 5.5, 9.0], 6.0),
        ([1.0, 2.0, 3.0, 4.0, 5.0], 4.0),  # as often as plans are made at most
    ],
)
def test_a_plan_is_repeated_while_that_pays(monkeypatch, scores, returned):
    left, given = list(scores), []

    def plan_once(self, previous):
        given.append(previous)
        score = left.pop(0)
        return SimpleNamespace(score=score, random_score=0.0, flat=False, policy=score)

    monkeypatch.setattr(Planner, "_plan_once", plan_once)
    assert make(transitions([0.1, 0.2])).run(None).score == returned
    assert given[0] is None
    assert given[1] == scores[0]  # each begins with the best so far


@pytest.mark.parametrize("case", ["quick", "flat", "short", "disabled"])
def test_a_plan_is_not_repeated(monkeypatch, case):
    plans = []

    def plan_once(self, previous):
        plans.append(previous)
        return SimpleNamespace(score=len(plans), random_score=0.0, flat=case == "flat", policy=None)

    monkeypatch.setattr(Planner, "_plan_once", plan_once)
    horizon = 20 if case == "short" else HORIZON
    disabled = ["replanning"] if case == "disabled" else []
    facts = Facts(horizon, Box(0, 1), np.zeros((0, 1)), np.zeros(1, np.bool_), 4, disabled)
    make(transitions([0.1, 0.2], horizon), facts, thorough=case != "quick").run(None)
    assert len(plans) == 1


@pytest.mark.compiled_only
def test_a_policy_with_a_clock_can_be_planned_again(monkeypatch):
    plans, original = [], Planner._plan_once

    def plan_once(self, previous):
        plans.append(previous)
        return original(self, previous)

    monkeypatch.setattr(Planner, "_plan_once", plan_once)
    monkeypatch.setattr(planner, "_WORTH", -np.inf)
    agent = spaql.Tessera("mountaincar", time_aware=True, seed=0).learn(3_000)
    assert np.isfinite(agent.evaluate(5).mean)
    assert len(plans) > 1
