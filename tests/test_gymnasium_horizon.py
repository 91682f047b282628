"""The horizon of environments that truncate their episodes themselves, and findings about it."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import spaql
from environments_for_tests import ENDLESS, F64, Toy
from spaql.gym.problem import GymnasiumProblem

pytestmark = pytest.mark.tiny_planning


def facts(problem):
    return problem.horizon, problem.warm_up_steps, problem.unlimited


class Arena(gymnasium.Env):
    """Terminates or truncates each episode after as many steps as the next of `lengths` says; negative truncate."""

    observation_space = spaces.Box(0, 1, (1,), F64)
    action_space = spaces.Discrete(2)

    def __init__(self, *lengths):
        self.lengths, self.episode = lengths, -1

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode += 1
        self.elapsed = 0
        return np.array([0.5]), {}

    def step(self, action):
        self.elapsed += 1
        length = self.lengths[self.episode % len(self.lengths)]
        over = self.elapsed >= abs(length)
        return np.array([self.np_random.random()]), float(action), over and length > 0, over and length < 0, {}


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ((-7,), (7, 35, False)),  # five episodes are enough
        ((-30, 4, 12), (30, 5 * 30 + 4 * 16, False)),  # some of them terminated
        ((-300,), (300, 1000, False)),  # three are all that the warm-up sees
        ((-700,), (700, 1000, False)),
        ((-1000,), (1000, 1000, False)),
        ((-7, -9), (1000, 1000, True)),  # truncated for another reason than time
        ((-7, 9), (1000, 1000, True)),  # one went on for longer
        ((-7, -7, -7, 2000), (1000, 1000, True)),
        ((-1500,), (1000, 1000, True)),  # longer than the warm-up
        ((20,), (1000, 1000, True)),
        ((10**9,), (1000, 1000, True)),
    ],
)
def test_the_horizon_is_the_step_at_which_an_environment_truncates(lengths, expected):
    assert facts(GymnasiumProblem(Arena(*lengths))) == expected


def test_what_has_a_limit_is_not_played():
    limited = gymnasium.wrappers.TimeLimit(Arena(-7), 9)
    assert facts(GymnasiumProblem(limited)) == (9, 0, False)
    assert facts(GymnasiumProblem(Arena(-7), horizon=5)) == (5, 0, False)
    assert limited.unwrapped.episode == -1


def test_ranges_are_learned_from_the_whole_warm_up():
    problem = GymnasiumProblem(Toy(ENDLESS, start=lambda env: np.zeros(1)), warm_up=300)
    assert facts(problem) == (6, 300, False)
    given = GymnasiumProblem(Toy(ENDLESS), bounds={0: (-1, 1)}, warm_up=300)
    assert facts(given) == (6, 30, False)


@pytest.mark.compiled_only
@pytest.mark.parametrize("make", [spaql.Tessera, spaql.SPAQL])
def test_the_steps_that_find_the_horizon_count_and_come_back(make, tmp_path):
    env = Toy(length=20)
    agent = make(env, seed=3)
    assert env.steps == agent.training_steps == agent.num_timesteps == 100
    budget = 100 + 3 * agent.steps_per_iteration
    agent.learn(total_timesteps=budget)
    assert agent.iterations >= 3
    assert agent.num_timesteps == env.steps <= budget
    again = spaql.load(agent.save(tmp_path / "agent.spaql"), env=(other := Toy(length=20)))
    assert facts(again.problem)[:2] == (20, 100)
    assert other.steps == 0
    agent.set_env(Toy(length=20))
    assert facts(agent.problem)[:2] == (20, 100)
    for one in (agent, again):
        one.learn(iterations=2)
    assert agent.num_timesteps == again.num_timesteps


@pytest.mark.compiled_only
def test_the_same_seed_finds_the_same():
    first, second = (spaql.Tessera(Arena(-30, 4, 12), seed=5).learn(iterations=4) for _ in range(2))
    np.testing.assert_array_equal(first.history, second.history)


# Findings -------------------------------------------------------------------------------------------------------------


def find(agent):
    return {finding.id: finding for finding in agent.diagnose() if finding.id.startswith("horizon")}


@pytest.mark.parametrize("make", [spaql.Tessera, spaql.SPAQL, spaql.Random])
def test_a_horizon_that_is_too_long_is_seen_before_training(make):
    [found] = find(make(Arena(-24), horizon=100)).values()
    assert found.id == "horizon-too-long"
    assert "the horizon is 100" in found.what
    assert found.advice == "Give horizon=24"
    [found] = find(make(Arena(-400), horizon=900)).values()  # two episodes, but equally long
    assert found.advice == "Give horizon=400"


@pytest.mark.parametrize("make", [spaql.Tessera, spaql.Random])
def test_a_time_limit_that_terminates_is_seen(make):
    [found] = find(make(Arena(8), horizon=16)).values()
    assert found.id == "horizon-too-long"
    assert "terminated each of" in found.what
    assert found.advice.startswith("Then give horizon=8,")
    assert find(make("CartPole-v1")) == {}  # episodes of several lengths


@pytest.mark.parametrize(
    ("make", "limit"),
    [
        (lambda: Arena(-24), 24),
        (lambda: Arena(-700), 700),
        (lambda: gymnasium.wrappers.TimeLimit(Arena(10**9), 50), 50),  # it says so
        (lambda: gymnasium.wrappers.TimeLimit(Arena(10**9), 10**6), 10**6),
    ],
)
def test_a_horizon_that_breaks_episodes_off_is_seen(make, limit):
    [found] = find(spaql.Tessera(make(), horizon=10)).values()
    assert found.id == "horizon-too-short"
    assert f"the horizon of 10 breaks off episodes that the environment itself truncates after {limit:,}" in found.what
    assert found.advice == f"Give horizon={limit}, unless the beginning is all that counts"


def test_a_guess_that_is_too_short_is_seen():
    agent = spaql.Tessera(Arena(-1500))
    assert facts(agent.problem) == (1000, 1000, True)
    assert find(agent)["horizon-too-short"].advice.startswith("Give horizon=1500")


def test_a_fitting_horizon_is_not_reported():
    for env, horizon in ((Arena(-24), None), (Arena(-24), 24), (Arena(10**9), 10), (Arena(8), 10)):
        assert find(spaql.Tessera(env, horizon=horizon)) == {}
    limited = gymnasium.wrappers.TimeLimit(Arena(8), 100)  # whose episodes terminate before
    assert find(spaql.Tessera(limited, horizon=10)) == {}
    assert find(spaql.Tessera("oil")) == {}


@pytest.mark.compiled_only
def test_the_policy_is_played_past_the_horizon():
    """Random actions end an episode early, so that only the policy gets as far as the horizon."""

    class Balance(Arena):
        def step(self, action):
            observation, reward, _, truncated, info = super().step(action)
            return observation, reward, action == 0, truncated, info

    agent = spaql.SPAQL(Balance(-60), horizon=20, seed=0, rollouts=2).learn(iterations=300)
    assert find(agent)["horizon-too-short"].advice.startswith("Give horizon=60")
