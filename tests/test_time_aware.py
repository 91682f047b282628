"""Policies that depend on the time left: where that pays, and everything that reads them."""

from functools import cache

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box as Range
from gymnasium.spaces import Discrete as Choices

import spaql
from spaql.agents.tessera.world_model import TIMED
from spaql.errors import ParameterError
from spaql.problems import Box, Discrete, Problem

pytestmark = [pytest.mark.compiled_only, pytest.mark.full_planning]
HORIZON = 8


def _harvest_step(state, action, parameters, random, next_state):
    """Take nothing, a third or all; what is left grows by half, up to 1."""
    taken = state[0] * action[0] * (1.0 / 3.0 if action[0] == 1.0 else 0.5)
    next_state[0] = min(1.0, 1.5 * (state[0] - taken))
    return taken, False


def _harvest_reset(parameters, random, state):
    state[0] = 1.0


def harvest():
    """A third in each of seven steps, then all: 10 / 3; without a clock, 8 / 3."""
    return Problem(
        name="harvest",
        step=_harvest_step,
        reset=_harvest_reset,
        states=Box([0], [1]),
        actions=Discrete(3),
        horizon=HORIZON,
    )


@cache
def trained(time_aware="auto"):
    return spaql.Tessera(harvest(), seed=0, time_aware=time_aware).learn(3000)


def test_the_time_left_is_used_where_it_pays():
    agent = trained()
    assert agent.time_variant
    assert agent.evaluate(episodes=2).mean == pytest.approx(10 / 3, abs=1e-6)
    without = trained(False)
    assert not without.time_variant
    assert without.evaluate(episodes=2).mean == pytest.approx(8 / 3, abs=1e-6)


class Buy(gymnasium.Env):
    """Buy a tenth or nothing, at a price by the time step, which is not observed; 0.3 are needed in the end."""

    observation_space, action_space = Range(0.0, 1.0, (1,)), Choices(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.stock, self.time = 0, 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        cost = 0.1 * action * abs(self.time - 2.0)
        self.stock, self.time = min(self.stock + int(action), 10), self.time + 1
        worth = 0.5 * min(self.stock, 3) if self.time == HORIZON else 0.0
        return np.array([self.stock / 10], np.float32), worth - cost, False, self.time == HORIZON, {}


def test_a_price_by_the_time_step_need_not_be_observed():
    agent, blind = (spaql.Tessera(Buy(), horizon=HORIZON, seed=0, disable=off).learn(4000) for off in ((), ["clock"]))
    assert agent._final_plan().models[0].flags[TIMED]
    assert agent.evaluate(episodes=2).mean > 1.2 - 1e-6  # at once; 1.3 if it waits for the cheapest steps
    assert not blind._final_plan().models[0].flags[TIMED]
    _, early, _ = agent.model.predict([0.0], 1, step=0)
    _, cheap, _ = agent.model.predict([0.0], 1, step=2)
    assert early == pytest.approx(-0.2, abs=0.05)
    assert cheap == pytest.approx(0.0, abs=0.05)


def test_it_is_not_used_where_it_does_not():
    agent = spaql.Tessera(spaql.problems.oil(), seed=0).learn(3000)
    assert not agent.time_variant
    assert agent.predict([0.3])[1] is None


def test_predict_takes_and_returns_the_time_step():
    agent, state, actions = trained(), None, []
    for _ in range(HORIZON):
        action, state = agent.predict([1.0], state)
        actions.append(int(action))
    assert actions == [1] * (HORIZON - 1) + [2]
    action, state = agent.predict([1.0], np.array([HORIZON - 1]), episode_start=[True])
    assert (int(action), state.tolist()) == (1, [1])


def test_rules_explanations_and_plots_are_those_of_a_step():
    agent = trained()
    assert agent.rules().decide([1.0]) == 1
    assert agent.rules(step=HORIZON - 1).decide([1.0]) == 2
    assert f"steps 0 to {HORIZON - 2} of 0 to {HORIZON - 1}" in agent.rules().describe()
    assert f"step {HORIZON - 1} of 0 to" in agent.rules(step=HORIZON - 1).describe()
    last = agent.explain([1.0], step=HORIZON - 1)
    assert last.action == 2
    assert last.q_here == pytest.approx(1.0, abs=1e-3)
    assert agent.plot(step=3) is not None


def test_simulated_episodes_know_the_time():
    (episode,) = trained().simulate()
    assert episode.actions.tolist() == [1] * (HORIZON - 1) + [2]
    assert episode.rewards.sum() == pytest.approx(10 / 3, abs=1e-3)


def test_steps_that_decide_alike_share_a_tree():
    roots = trained().tree().roots
    assert len(roots) == HORIZON
    assert len(set(roots.tolist())) <= 3


def test_exports_take_the_step(tmp_path):
    namespace: dict = {}
    exec(trained().export(tmp_path / "policy.py").read_text(), namespace)
    assert [namespace["act"]([1.0], step) for step in range(HORIZON)] == [1] * (HORIZON - 1) + [2]


def test_a_file_of_the_policy_alone_has_the_same_rules_in_every_step(tmp_path):
    alone = spaql.load(trained().save(tmp_path / "a.spaql", policy_only=True))
    for step in range(HORIZON):
        assert str(alone.rules(step=step)) == str(trained().rules(step=step))


def test_a_file_keeps_it_and_training_goes_on_exactly(tmp_path):
    agent = spaql.load(trained().save(tmp_path / "a.spaql"), env=harvest())
    assert agent.time_variant
    assert agent.evaluate(episodes=2).mean == pytest.approx(10 / 3, abs=1e-6)
    again = spaql.Tessera(harvest(), seed=0).learn(3000)
    saved = agent.learn(800).save(tmp_path / "b.spaql").read_bytes()
    assert saved == again.learn(800).save(tmp_path / "c.spaql").read_bytes()


class Harvest(gymnasium.Env):
    observation_space, action_space = Range(0.0, 1.0, (1,), np.float64), Choices(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.stock, self.steps = 1.0, 0
        return np.array([self.stock]), {}

    def step(self, action):
        taken = self.stock * (0.0, 1.0 / 3.0, 1.0)[int(action)]
        self.stock, self.steps = min(1.0, 1.5 * (self.stock - taken)), self.steps + 1
        return np.array([self.stock]), taken, False, self.steps == HORIZON, {}


def test_on_a_gymnasium_environment():
    agent = spaql.Tessera(Harvest, horizon=HORIZON, seed=0).learn(3000)
    assert agent.time_variant
    assert agent.evaluate(episodes=2).mean == pytest.approx(10 / 3, abs=1e-6)


@pytest.mark.parametrize("given", ["yes", None, 1, 0.5, ["auto"]])
def test_wrong_values_are_refused(given):
    with pytest.raises(ParameterError, match="time_aware"):
        spaql.Tessera(harvest(), time_aware=given)


def test_a_clock_has_room_for_so_many_steps():
    with pytest.raises(ParameterError, match="time_aware: a policy with a clock has at most 10000 steps, got 20000"):
        spaql.Tessera("CartPole-v1", horizon=20_000, time_aware=True)
