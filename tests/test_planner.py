"""Where rollouts begin, when a plan is repeated, and which plan is returned."""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest

import spaql
from spaql.agents.tessera import planner
from spaql.agents.tessera.planner import Facts, Planner, Transitions
from spaql.agents.tessera.rollout_starts import find_starts, find_validation_starts
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
    given = planner.data.states, planner.times, planner.random
    starts = find_starts(*given, similar=facts.has("similar_starts"))
    return (starts * planner.scale + planner.mean)[:, 0]


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


def test_policies_are_validated_in_other_starts():
    planner = make(transitions(np.linspace(0.1, 0.2, EPISODES)))
    given = planner.data.states, planner.times, planner.random
    validation = find_validation_starts(*given) * planner.scale + planner.mean
    assert len(validation) == 400
    known = begin(transitions(np.linspace(0.1, 0.2, EPISODES)))  # by which policies are chosen
    assert len(np.setdiff1d(validation, known)) > 200
    counts, _ = np.histogram(validation, 10, (0.1, 0.2))
    assert counts.min() > 10  # no gaps: the six recorded starts alone leave four of these empty


@dataclass(frozen=True)
class Rated:
    """A plan, as far as `Planner.run` reads it."""

    policy: float  # its validation
    score: float = 100.0  # what it was chosen by says nothing
    random_score: float = 0.0
    flat: bool = False


@pytest.mark.parametrize(
    ("scores", "returned", "begun"),
    [
        ([5.0, 4.0, 4.5, 9.0], 5.0, ["previous", None, 5.0]),  # the third did not pay
        ([5.0, 4.0, 5.01, 9.0], 5.01, ["previous", None, 5.0]),  # it hardly did
        ([5.0, 6.0, 5.5, 9.0], 6.0, ["previous", None, 6.0]),  # without the previous policy a better one was found
        ([1.0, 2.0, 3.0, 4.0, 5.0], 4.0, ["previous", None, 2.0, 3.0]),  # as many as are made at most
        ([1.0, 20.0, 3.0, 4.0], 20.0, ["previous", None]),  # no policy returns more
    ],
)
def test_the_plan_with_the_best_validation_is_returned(monkeypatch, scores, returned, begun):
    left, given = list(scores), []

    def plan_once(self, previous):
        given.append(previous)
        return Rated(left.pop(0))

    monkeypatch.setattr(Planner, "_plan_once", plan_once)
    monkeypatch.setattr(Planner, "_validate", lambda self, plan, starts: replace(plan, score=plan.policy))
    monkeypatch.setattr(Planner, "ceiling", 20.0)
    assert make(transitions([0.1, 0.2])).run("previous").score == returned
    assert given == begun


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
