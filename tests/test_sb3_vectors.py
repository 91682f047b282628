"""Vector environments with the interface of Stable-Baselines3, which is not imported."""

import copy

import gymnasium
import numpy as np
import pytest

import spaql
from callbacks_for_tests import told
from spaql.errors import ParameterError
from spaql.gym.vector import SequentialEnvironment, SingleVectorEnvironment
from test_sb3_interface import Line, limited, same


class InProcess:
    """A DummyVecEnv, as far as learning uses it."""

    def __init__(self, count, make=limited):
        self.num_envs, self.envs = count, [make(number) for number in range(count)]
        self.observation_space, self.action_space = self.envs[0].observation_space, self.envs[0].action_space

    def env_method(self, name, *arguments, indices=None, **keywords):
        return [self.envs[at].get_wrapper_attr(name)(*arguments, **keywords) for at in indices]


class InOthers:
    """A SubprocVecEnv: its environments are out of reach, and it cannot be copied."""

    def __init__(self, count, make=limited):
        inner = InProcess(count, make)
        self.num_envs, self.observation_space, self.action_space = count, inner.observation_space, inner.action_space
        self.env_method = lambda *arguments, **keywords: inner.env_method(*arguments, **keywords)
        self.has_attr = lambda name: inner.envs[0].has_wrapper_attr(name)
        self.get_attr = lambda name, indices: [inner.envs[at].get_wrapper_attr(name) for at in indices]
        self.calls = [member.unwrapped.seeds for member in inner.envs]

    def __deepcopy__(self, memo):
        raise TypeError("cannot pickle a connection")


class VecMonitor:
    def __init__(self, venv):
        self.venv, self.num_envs, self.env_method = venv, venv.num_envs, venv.env_method


class VecFrameStack(VecMonitor):
    pass


def learned(vector):
    return spaql.SPAQL(vector, seed=1, rollouts=1).learn(iterations=5)


def test_members_are_played_alike_wherever_they_are():
    there = InOthers(3)
    one, other = learned(InProcess(3)), learned(VecMonitor(there))
    assert (one.problem.horizon, one.problem.name) == (6, "InProcess")
    assert (other.problem.horizon, other.problem.name) == (6, "VecMonitor")
    assert [len(seeds) for seeds in there.calls] == [4, 4, 3]
    same(one, other)
    assert [len(seeds) for seeds in there.calls] == [5, 5, 4]  # evaluations are played there too
    assert [len(member.unwrapped.seeds) for member in one.get_env().envs] == [4, 4, 3]  # and here in copies
    same(copy.deepcopy(other).learn(iterations=2), one.learn(iterations=2))
    assert other.get_env().venv is there
    guessed = spaql.GymnasiumProblem(InOthers(1, Line))  # it declares no limit, and truncates its episodes itself
    assert (guessed.horizon, guessed.unlimited) == (6, False)


def test_one_member_is_rendered():
    class Shown(Line):
        def render(self):
            return np.full((2, 2, 3), self.number)

    for kind in (InProcess, InOthers):
        env = SequentialEnvironment(kind(2, Shown))
        for number in (0, 1, 0):
            env.reset()
            assert env.render().tolist() == np.full((2, 2, 3), number).tolist()
        env.close()  # which leaves them to whoever made them


def test_wrappers_that_change_what_is_seen_are_refused():
    for wrapped in (VecFrameStack(InProcess(2)), VecMonitor(VecFrameStack(InOthers(2)))):
        with pytest.raises(ParameterError) as error:
            spaql.Tessera(wrapped)
        told(error, "VecFrameStack changes what a vector environment shows or rewards")


def test_an_agent_of_a_vector_is_loaded_with_one(tmp_path):
    agent = learned(InProcess(2))
    path = agent.save(tmp_path / "agent")
    with pytest.raises(ParameterError, match=r"it learned on 'InProcess', which cannot be made by its id"):
        spaql.load(path).learn(iterations=1)
    same(spaql.load(path, env=InProcess(2)), agent)


def test_the_vector_of_one_has_the_usual_methods():
    vector = SingleVectorEnvironment(gymnasium.make("CartPole-v1", render_mode="rgb_array"))
    assert (vector.num_envs, vector.render_mode) == (1, "rgb_array")
    assert vector.seed(3) == [3]
    first = vector.reset()
    assert vector.render().ndim == 3
    vector.seed(3)
    assert vector.reset().tolist() == first.tolist() != vector.reset().tolist()
    vector.set_attr("gravity", 5.0)
    assert vector.get_attr("gravity") == [5.0]
    assert (vector.has_attr("gravity"), vector.has_attr("levity")) == (True, False)
    assert vector.env_method("has_wrapper_attr", "gravity") == [True]
    vector.close()
