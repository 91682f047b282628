"""Which environment a file makes again, and which it refuses."""

import dataclasses
import json
import sys

import gymnasium
import numpy as np
import pytest

import spaql
from files_for_tests import changed, reset, step
from spaql.errors import ParameterError
from spaql.gym.description import describe
from spaql.problems import PROBLEMS, Box, Problem

# What an environment was made from ---------------------------------------------------------------------------


def unscaled():
    return gymnasium.make("Pendulum-v1", g=5.0, max_episode_steps=30)


class Doubled(gymnasium.RewardWrapper):
    def reward(self, reward):
        return 2 * reward


REMADE = {
    "arguments and limit": unscaled,
    "no limit": lambda: gymnasium.make("Pendulum-v1", max_episode_steps=-1),
    "wrapper": lambda: gymnasium.wrappers.ClipReward(unscaled(), -1.0, 0.0),
    "two": lambda: gymnasium.wrappers.TimeAwareObservation(gymnasium.wrappers.ClipReward(unscaled(), -1.0, 0.0)),
}

NOT_REMADE = {
    "a function": lambda: gymnasium.wrappers.TransformReward(unscaled(), lambda reward: 2 * reward),
    "a wrapper of one's own": lambda: Doubled(unscaled()),
    "statistics": lambda: gymnasium.wrappers.NormalizeReward(unscaled()),
    "a limit outside": lambda: gymnasium.wrappers.TimeLimit(unscaled(), 20),
    "no wrapper at all": lambda: gymnasium.make("Pendulum-v1").unwrapped,
}


def chain(env):
    kinds = [type(env)]
    while isinstance(env, gymnasium.Wrapper):
        env = env.env
        kinds.append(type(env))
    return kinds


@pytest.mark.parametrize("how", REMADE)
def test_a_configured_environment_comes_back_as_it_was(tmp_path, how):
    env = REMADE[how]()
    agent = spaql.Tessera(env, seed=1, horizon=50).learn(iterations=2)
    again = spaql.load(agent.save(tmp_path / "agent.spaql"))
    assert again.problem.env.spec == env.spec
    assert chain(again.problem.env) == chain(env)
    np.testing.assert_array_equal(again.evaluate(2).returns, agent.evaluate(2).returns)
    assert describe(again.problem)["id"] == "Pendulum-v1"  # and once more


@pytest.mark.parametrize("how", NOT_REMADE)
def test_an_environment_that_only_code_can_make_has_to_be_given(tmp_path, how):
    agent = spaql.Tessera(NOT_REMADE[how](), seed=1, horizon=30).learn(iterations=2)
    path = agent.save(tmp_path / "agent.spaql")
    alone, seen = spaql.load(path), np.array([0.1, 0.2, 0.3], np.float32)
    assert alone.predict(seen)[0] == agent.predict(seen)[0]
    assert alone.save(tmp_path / "again.spaql").read_bytes() == path.read_bytes()
    with pytest.raises(ParameterError, match=r"cannot be made by its id; give the environment: load\(path, env="):
        alone.learn(iterations=1)
    assert spaql.load(path, env=NOT_REMADE[how]()).learn(iterations=1).iterations == 3


def test_no_file_names_what_is_called(tmp_path):
    path = spaql.Tessera(REMADE["wrapper"](), seed=1).learn(iterations=2).save(tmp_path / "agent.spaql")

    def other(data):
        head = json.loads(data)
        head["problem"]["wrappers"] = [["RecordVideo", {"video_folder": str(tmp_path / "films")}]]
        return json.dumps(head).encode()

    agent = spaql.load(changed(path, "agent.json", other))
    with pytest.raises(ParameterError, match="RecordVideo"):
        agent.learn(iterations=1)


MINE = """
import gymnasium
from gymnasium.envs.classic_control import PendulumEnv

gymnasium.register("Mine-v0", entry_point="my_swings:PendulumEnv", max_episode_steps=20)
"""


@pytest.fixture
def my_swings(tmp_path, monkeypatch):
    """A module that registers an environment; what it gives makes Python forget that it was imported."""
    (tmp_path / "my_swings.py").write_text(MINE)
    monkeypatch.syspath_prepend(tmp_path)

    def forget():
        sys.modules.pop("my_swings", None)
        gymnasium.registry.pop("Mine-v0", None)

    yield forget
    forget()


def test_the_module_of_an_id_is_kept(tmp_path, my_swings):
    path = spaql.Tessera("my_swings:Mine-v0", seed=1).learn(iterations=2).save(tmp_path / "agent.spaql")
    for _ in range(2):
        my_swings()
        again = spaql.load(path)
        again.predict(np.zeros(3, np.float32))
        assert "my_swings" not in sys.modules  # nothing was run for it
        assert again.learn(iterations=1).problem.horizon == 20
        path = again.save(tmp_path / "again.spaql")


@pytest.mark.parametrize("missing", ["observation_space", "action_space"])
def test_loading_imports_nothing_where_the_spaces_are_missing(tmp_path, my_swings, missing):
    path = spaql.Tessera("my_swings:Mine-v0", seed=1).learn(iterations=2).save(tmp_path / "agent.spaql")
    my_swings()

    def without_space(data):
        head = json.loads(data)
        del head["problem"][missing]
        return json.dumps(head).encode()

    changed(path, "agent.json", without_space)
    with pytest.raises(ParameterError, match=r"not in the file; give the environment: load\(path, env=") as error:
        spaql.load(path)
    assert "my_swings" not in sys.modules
    assert "\n" not in str(error.value)
    assert spaql.load(path, env="my_swings:Mine-v0").learn(iterations=1).iterations == 3


def test_an_id_that_is_not_registered_is_one_sentence(tmp_path, my_swings):
    import my_swings as module

    path = spaql.Tessera("Mine-v0", seed=1).learn(iterations=2).save(tmp_path / "agent.spaql")
    my_swings()
    with pytest.raises(
        ParameterError, match=r"'Mine-v0' cannot be made: .*; import the module that registers it"
    ) as told:
        spaql.load(path).learn(iterations=1)
    assert "\n" not in str(told.value)
    assert module.PendulumEnv


class Starts(gymnasium.Wrapper):
    """Keeps the seeds of its resets."""

    seeds: list

    def __init__(self, env):
        super().__init__(env)
        self.seeds = []

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.seeds.append(seed)
        return super().reset(seed=seed, options=options)


def test_an_environment_that_goes_on_meets_no_start_again(tmp_path):
    envs = [Starts(gymnasium.make("Pendulum-v1", max_episode_steps=10)) for _ in range(5)]
    agent = spaql.Tessera(spaql.GymnasiumProblem(envs[0], seed=7), seed=1).learn(iterations=2)
    path = agent.save(tmp_path / "agent.spaql")
    agent.set_env(envs[1]).learn(iterations=2)
    agent.set_env(envs[2]).learn(iterations=2)
    first = spaql.load(path, env=envs[3])
    assert first.problem.seed == 7
    path = first.save(path)  # before it has begun: nothing is left out
    spaql.load(path, env=envs[4]).learn(iterations=2)
    first.learn(iterations=2)
    seeds = [env.seeds for env in envs]
    assert [len(each) for each in seeds] == [1] * 5
    assert len({each[0] for each in seeds[:3]}) == 3
    assert seeds[1] == seeds[3] == seeds[4]


class Press(gymnasium.Env):
    """One number to see and so many buttons."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,))

    def __init__(self, actions):
        self.action_space = actions

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), 0.0, False, False, {}


def test_actions_must_be_those_that_were_learned(tmp_path):
    five, two = (Press(gymnasium.spaces.Discrete(count)) for count in (5, 2))
    near, far = (Press(gymnasium.spaces.Box(-end, end, (1,))) for end in (1.0, 2.0))
    path = spaql.Tessera(five, horizon=5).learn(iterations=3).save(tmp_path / "agent.spaql")
    for env in (two, near):
        with pytest.raises(ParameterError, match="played 5 actions, and 'Press' takes"):
            spaql.load(path, env=env)
    path = spaql.Tessera(near, horizon=5).learn(iterations=3).save(tmp_path / "agent.spaql")
    for env in (two, far):
        with pytest.raises(ParameterError, match=r"played actions from \[-1.0\] to \[1.0\], and 'Press' takes"):
            spaql.load(path, env=env)
    assert spaql.load(path, env=near).learn(iterations=1).iterations == 4


def test_a_compiled_problem_must_be_the_one_that_was_learned(tmp_path):
    path = spaql.Tessera("oil", seed=1).learn(iterations=10).save(tmp_path / "agent.spaql")
    with pytest.raises(ParameterError, match="learned on 'oil laplace 10' with name"):
        spaql.load(path, env="ambulance")
    assert spaql.load(path, env="oil").iterations == 10
    with pytest.raises(ParameterError, match="with horizon 5"):
        spaql.load(path, env=spaql.problems.oil(horizon=6))
    with pytest.raises(ParameterError, match="with arguments"):
        spaql.load(path, env=spaql.problems.oil(start=0.5))


def test_a_problem_of_one_s_own_is_not_taken_for_a_built_in_one(tmp_path):
    oil = PROBLEMS["oil"]()
    mine = Problem(
        name=oil.name, step=step, reset=reset, states=Box(0, 1), actions=Box(0, 1), horizon=5, arguments=oil.arguments
    )
    for problem in (mine, dataclasses.replace(oil, horizon=3)):
        path = spaql.Tessera(problem, seed=1).learn(iterations=10).save(tmp_path / "mine.spaql")
        with pytest.raises(ParameterError, match=r"of your own; give it to learn or evaluate: load\(path, env="):
            spaql.load(path).learn(iterations=1)


@pytest.mark.parametrize("name", PROBLEMS)
def test_built_in_problems_know_their_name(name):
    assert PROBLEMS[name]().maker == name


def test_an_environment_that_shows_other_numbers_is_refused_whatever_its_own_errors_say(tmp_path):
    path = spaql.Tessera("CartPole-v1").learn(iterations=3).save(tmp_path / "agent")
    with pytest.raises(ParameterError, match=r"saw 0, 1, 2, 3, and this shows 0, 1$"):
        spaql.load(path, env="MountainCar-v0")

    def make():
        raise ParameterError("a fault of the user: 'x' is no observed number")

    with pytest.raises(ParameterError, match=r"^a fault of the user"):
        spaql.load(path, env=make)
