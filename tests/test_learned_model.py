"""The learned model: held-out accuracy, predictions, and simulated episodes."""

import json

import gymnasium
import numpy as np
import pytest
from numba.core import config

import spaql
from spaql.errors import NotTrainedError, ParameterError
from spaql.partition.rng import normal, uniform
from spaql.problems import Box, Discrete, Problem

STEPS = 300 if config.DISABLE_JIT else 2000


def reset(parameters, random, state):
    state[0] = uniform(random)
    state[1] = uniform(random)


def step(state, action, parameters, random, next_state):
    """The first number follows the action, the second is drawn anew; it ends above 0.8."""
    next_state[0] = 0.5 * state[0] + 0.5 * action[0]
    next_state[1] = uniform(random)
    return 10.0 * next_state[0] + parameters[0] * normal(random), next_state[0] > 0.8


def make_problem(noise=0.0, actions=None):
    spaces = {"states": Box([0, 0], [1, 1]), "actions": actions or Box(0, 1)}
    return Problem(name="half", step=step, reset=reset, **spaces, horizon=10, parameters=[noise])


@pytest.fixture(scope="module")
def agent():
    return spaql.Tessera(make_problem(), seed=0).learn(STEPS)


def test_accuracy_says_what_can_be_predicted(agent):
    followed, drawn, reward, end = agent.model.accuracy
    assert followed.explained > 0.99
    assert followed.rmse < 0.02
    assert not followed.random
    assert drawn.explained < 0.55  # of the change x' - x; x is known, x' is not
    assert drawn.rmse == pytest.approx(12**-0.5, rel=0.15)
    assert drawn.random
    assert reward.explained > 0.95
    if agent._past().ended.sum() > 20:
        assert end.explained > 0.5
    else:  # all models know them, and none is held out
        assert end.explained is None
    left = 2 * (agent.training_steps - int(0.7 * agent.training_steps))
    assert left - 80 <= agent.model.held_out <= left  # ends that are few, and the largest rewards, are in all models


@pytest.mark.compiled_only
def test_rmse_is_in_the_units_of_the_output():
    agent = spaql.Tessera(make_problem(noise=2.0), seed=0).learn(STEPS)
    assert agent.model.accuracy[2].rmse == pytest.approx(2.0, rel=0.15)


def test_table_and_dictionary(agent):
    text = str(agent.model)
    assert "Model of half, fitted to" in text
    assert "observation[1]" in text
    assert text == str(agent.model)
    assert "wind" in agent.model.table(["wind", "sun"]).text()
    facts = json.loads(json.dumps(agent.model.to_dict()))
    assert [part["name"] for part in facts["accuracy"]] == ["observation[0]", "observation[1]", "reward", "end"]


def test_too_few_transitions_for_held_out_ones():
    agent = spaql.Tessera(make_problem(), seed=0).learn(50)
    assert agent.model.held_out == 0
    assert agent.model.accuracy[0].rmse is None
    assert "unknown" in str(agent.model)


def test_predictions(agent):
    observation, reward, end = agent.model.predict([0.4, 0.5], [0.6])
    assert observation[0] == pytest.approx(0.5, abs=0.05)
    assert observation[1] == pytest.approx(0.5, abs=0.1)
    assert reward == pytest.approx(5.0, abs=0.5)
    assert end < 0.1
    many = agent.model.predict([[0.4, 0.5], [0.9, 0.5]], [[0.6], [1.0]])
    assert many.observation.shape == (2, 2)
    assert many.reward[0] == pytest.approx(reward, rel=1e-12)
    assert many.end[1] > 0.9
    with pytest.raises(ParameterError, match="expected 2, one for each observation, got 1"):
        agent.model.predict([[0.4, 0.5], [0.9, 0.5]], [[0.6]])
    with pytest.raises(ParameterError, match=r"action: .* is outside"):
        agent.model.predict([0.4, 0.5], [1.5])


def test_predictions_take_actions_as_the_environment_does():
    agent = spaql.Tessera(make_problem(actions=Discrete(3)), seed=0).learn(100)
    assert agent.model.predict([0.4, 0.5], 2).observation.shape == (2,)
    with pytest.raises(ParameterError, match="3 is not an action of 'half'"):
        agent.model.predict([0.4, 0.5], 3)


class Pair(gymnasium.Env):
    observation_space = gymnasium.spaces.Dict({"place": gymnasium.spaces.Box(0.0, 10.0, (1,))})
    action_space = gymnasium.spaces.MultiDiscrete([2, 3])

    def reset(self, *, seed=None, options=None):
        self.place = 0.0
        return {"place": np.array([0.0], np.float32)}, {}

    def step(self, action):
        self.place = min(10.0, self.place + action[0] + 0.1 * action[1])
        return {"place": np.array([self.place], np.float32)}, float(action[0]), False, False, {}


def test_gymnasium_spaces():
    agent = spaql.Tessera(Pair(), seed=0, horizon=5).learn(200)
    observation, reward, _ = agent.model.predict({"place": np.array([1.0])}, np.array([1, 2]))
    assert observation == pytest.approx([2.2], abs=0.1)
    assert reward == pytest.approx(1.0, abs=0.1)
    [episode] = agent.simulate()
    assert episode.actions.shape == (5, 2)


def test_simulated_episodes(agent):
    episodes = agent.simulate(20)
    again = agent.simulate(20)
    assert len(episodes) == 20
    for episode, other in zip(episodes, again, strict=True):
        steps = len(episode.rewards)
        assert episode.observations.shape == (steps + 1, 2)
        assert episode.actions.shape == (steps, 1)
        assert episode.terminated or steps == 10
        np.testing.assert_array_equal(episode.observations, other.observations)
    assert len({episode.observations[0, 0] for episode in episodes}) > 5
    played, _ = agent.predict(episodes[0].observations[0])
    assert played == pytest.approx(episodes[0].actions[0])
    other = agent.simulate(20, seed=1)
    assert any(not np.array_equal(a.observations, b.observations) for a, b in zip(episodes, other, strict=True))
    assert max(len(episode.rewards) for episode in agent.simulate(5, horizon=3)) <= 3
    with pytest.raises(ParameterError, match="horizon"):
        agent.simulate(horizon=0)


@pytest.mark.compiled_only
def test_simulated_returns_are_close_to_evaluated_ones(agent):
    simulated = np.mean([episode.rewards.sum() for episode in agent.simulate(200)])
    assert simulated == pytest.approx(agent.evaluate(1000).mean, rel=0.1)


def test_what_is_random_is_drawn(agent):
    values = np.concatenate([episode.observations[1:, 1] for episode in agent.simulate(30)])
    assert 0.1 < values.std() < 0.4


def test_model_needs_learning_and_survives_files(agent, tmp_path):
    new = spaql.Tessera(make_problem(), seed=0)
    for use in (lambda: new.model, new.simulate):
        with pytest.raises(NotTrainedError):
            use()
    assert spaql.SPAQL("oil").model is None
    agent = spaql.Tessera("oil", seed=0).learn(500)
    loaded = spaql.load(agent.save(tmp_path / "agent.spaql"))
    assert loaded.model.to_dict() == agent.model.to_dict()
    np.testing.assert_array_equal(loaded.simulate()[0].observations, agent.simulate()[0].observations)
    before = agent.model
    assert agent.learn(100).model is not before
