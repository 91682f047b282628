"""Classic control, compiled, step for step against Gymnasium."""

import gymnasium
import numpy as np
import pytest

import spaql
from spaql.environments import ProblemEnvironment
from spaql.errors import ParameterError
from spaql.problems import PROBLEMS, Finite
from spaql.rng import Purpose, stream

ENVIRONMENTS = {
    "cartpole": "CartPole-v1",
    "mountaincar": "MountainCar-v0",
    "mountaincar-continuous": "MountainCarContinuous-v0",
    "acrobot": "Acrobot-v1",
    "pendulum": "Pendulum-v1",
}


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_every_step_is_gymnasium_s(name):
    problem, theirs = PROBLEMS[name](), gymnasium.make(ENVIRONMENTS[name]).unwrapped
    random, draws, parameters = (
        stream(0, Purpose.TRAINING_ENVIRONMENT),
        np.random.default_rng(1),
        np.array(problem.parameters),
    )
    for episode in range(8):
        observation, _ = theirs.reset(seed=episode)
        state = np.zeros(problem.hidden)
        state[: len(theirs.state)] = np.asarray(theirs.state, dtype=float)
        if name == "mountaincar-continuous":
            state[2] = 1.0  # fresh from a reset
        seen = np.zeros(problem.states.dimensions)
        problem.observe(state, parameters, seen)
        np.testing.assert_allclose(seen, observation, atol=1e-7)
        for step in range(300):
            if step % 20 == 0:  # actions that last reach walls, limits and goals
                finite = isinstance(problem.actions, Finite)
                action = float(draws.integers(problem.actions.count)) if finite else draws.uniform(-1.0, 1.0)
            given = int(action) if isinstance(problem.actions, Finite) else np.array([action], np.float32)
            observation, reward, terminated, _, _ = theirs.step(given)
            following = np.full(problem.hidden, np.nan)
            ours, ended = problem.step(state, np.array([action]), parameters, random, following)
            problem.observe(following, parameters, seen)
            known = np.asarray(theirs.state, dtype=float)
            np.testing.assert_allclose(following[: known.size], known, rtol=0, atol=1e-12)
            np.testing.assert_allclose(seen, observation, rtol=0, atol=1e-6)
            assert abs(ours - float(reward)) <= 1e-12
            assert ended == terminated
            state = following.copy()
            state[: known.size] = known
            if terminated:
                break


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_as_an_environment_it_shows_what_is_observed(name):
    environment = ProblemEnvironment(PROBLEMS[name]())
    observation, _ = environment.reset(seed=1)
    assert observation in environment.observation_space
    for _ in range(30):
        observation, _, terminated, truncated, _ = environment.step(environment.action_space.sample())
        assert observation in environment.observation_space
        if terminated or truncated:
            environment.reset()


def test_observations_beyond_the_range_are_its_border():
    agent = spaql.SPAQL(PROBLEMS["cartpole"](), seed=0).learn(5)
    fast, border = ([0.0, speed, 0.0, 0.0] for speed in (9.0, 3.0))
    assert agent.predict(fast)[0] == agent.predict(border)[0]
    with pytest.raises(ParameterError, match="outside the space"):
        agent.predict([0.0, np.nan, 0.0, 0.0])
    with pytest.raises(ParameterError, match="outside the space"):
        spaql.SPAQL(PROBLEMS["mountaincar"](), seed=0).learn(1).predict([5.0, 0.0])


@pytest.mark.parametrize("velocities", [3.0, (1.0,), (1.0, 2.0, 3.0), (0.0, 1.0), "ab", None])
def test_bad_velocities_are_one_sentence(velocities):
    with pytest.raises(ParameterError, match=r"^velocities: expected"):
        PROBLEMS["cartpole"](velocities=velocities)
