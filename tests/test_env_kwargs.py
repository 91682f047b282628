"""Keyword arguments of environments: in Python, on the command line, and where an environment is made again."""

import json
import sys
from pathlib import Path

import gymnasium
import pytest

import spaql
from environments_for_tests import Toy, assert_one_sentence
from spaql.cli import main
from spaql.errors import ParameterError

pytestmark = pytest.mark.tiny_planning

TANK = """
import gymnasium
import numpy as np
from gymnasium import spaces
from spaql.problems import Box, Problem


class Tank(gymnasium.Env):
    observation_space, action_space = spaces.Box(0, 1, (1,)), spaces.Discrete(2)

    def __init__(self, volume):
        self.volume = volume

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.elapsed = 0
        return np.array([0.5], np.float32), {}

    def step(self, action):
        self.elapsed += 1
        return np.array([0.5], np.float32), float(self.volume), False, self.elapsed >= 10, {}


def make_tank(volume=1.0, **more):
    assert not set(more) - {"colour"}
    return Tank(volume)


def make_problem(volume=1.0):
    def step(state, action, parameters, random, next_state):
        next_state[0] = state[0]
        return parameters[0], False

    def reset(parameters, random, state):
        state[0] = 0.5

    box = Box(0, 1)
    return Problem(
        name="tank", step=step, reset=reset, states=box, actions=box, horizon=10, parameters=[volume],
        arguments={"volume": volume},
    )
"""


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run a command in a folder with a module of tanks; return what it prints, read as JSON."""
    (tmp_path / "my_tanks.py").write_text(TANK)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    def run(*words):
        code = main([str(word) for word in words])
        out, err = capsys.readouterr()
        return json.loads(out) if code == 0 and "--json" in words else (code, out, err)

    yield run
    sys.modules.pop("my_tanks", None)


def test_of_an_id_a_function_and_a_built_in_problem(tmp_path):
    agent = spaql.Random("CartPole-v1", env_kwargs={"sutton_barto_reward": True}, horizon=5)
    assert agent.evaluate(20).mean > -1.0  # no pole falls within 5 steps, and only then the reward is -1
    again = spaql.load(agent.save(tmp_path / "agent.spaql"))
    assert again.problem.env.spec.kwargs == {"sutton_barto_reward": True}
    assert again.evaluate(20).mean == agent.evaluate(20).mean
    assert spaql.GymnasiumProblem(Toy, env_kwargs={"length": 9}).horizon == 9
    assert spaql.Tessera("oil", env_kwargs={"horizon": 9}).problem.horizon == 9
    assert spaql.Random("CartPole-v1", env_kwargs={}).problem.name == "CartPole-v1"
    new = spaql.Tessera("CartPole-v1", env_kwargs={"max_episode_steps": 7}, warm_up=20)
    assert new.set_params(leaves=3).problem.horizon == 7


@pytest.mark.parametrize(
    ("problem", "keywords", "says"),
    [
        (
            "CartPole-v1",
            {"wind": 1},
            r"env_kwargs: CartPoleEnv.__init__\(\) got an unexpected keyword argument 'wind'; ",
        ),
        (
            Toy,
            {"wind": 1},
            r"env_kwargs: Toy.__init__\(\) got an unexpected keyword argument 'wind'; give arguments that",
        ),
        ("oil", {"wind": 1}, "problem 'oil': got an unexpected keyword argument 'wind'; its arguments are survey, "),
        (gymnasium.make("CartPole-v1"), {"wind": 1}, "env_kwargs: .* has been made already; leave wind out"),
        ("CartPole-v1", 3, "env_kwargs: expected a mapping from names of arguments to values, got 3"),
        ("CartPole-v1", {1: 3}, "env_kwargs: expected a mapping"),
    ],
)
def test_wrong_ones_are_refused(problem, keywords, says):
    with pytest.raises(ParameterError, match=rf"^{says}") as caught:
        spaql.Tessera(problem, env_kwargs=keywords)
    assert_one_sentence(caught)


def test_an_error_within_an_environment_is_its_own():
    def make(depth):
        raise TypeError("a fault of its own")

    with pytest.raises(TypeError, match="a fault of its own"):
        spaql.Tessera(make, env_kwargs={"depth": 3})


@pytest.mark.compiled_only
def test_on_the_command_line(run):
    words = ["--horizon", 5, "--warm-up", 20, "--timesteps", 100, "--episodes", 5, "--quiet", "--json"]
    keywords = ["--env-kwargs", "sutton_barto_reward=true"]
    trained = run("train", "CartPole-v1", *keywords, *words, "--out", "run")
    assert trained["evaluation"]["mean"] == run("evaluate", "run", "--episodes", 5, "--quiet", "--json")["mean"] == 0.0
    content = json.loads(Path("run/train.json").read_text("utf-8"))
    assert content["run"]["arguments"] == {"sutton_barto_reward": True}
    words = ["--resume", "run", "--timesteps", 150, "--quiet", "--json"]
    assert run("train", *words)["evaluation"]["mean"] == 0.0
    assert run("train", "CartPole-v1", "--env-kwargs", "wind=fast", "--quiet") == (
        *(2, ""),
        "spaql: env_kwargs: CartPoleEnv.__init__() got an unexpected keyword argument 'wind'; give arguments that it "
        "takes\n",
    )
    with pytest.raises(SystemExit):
        run("train", "CartPole-v1", "--env-kwargs", "wind")


@pytest.mark.compiled_only
@pytest.mark.parametrize("option", [["--volume", 3], ["--env-kwargs", "volume=3"]])
def test_evaluate_and_show_play_with_the_arguments_of_the_run(run, option):
    words = ["--timesteps", 100, "--episodes", 2, "--quiet", "--json"]
    assert run("train", "my_tanks:make_tank", *option, *words, "--out", "run")["evaluation"]["mean"] == 30.0
    for given in ([], ["--env", "my_tanks:make_tank"]):
        for path in ("run", "run/agent.spaql"):
            assert run("evaluate", path, "--episodes", 2, "--quiet", "--json", *given)["mean"] == 30.0
    assert "the policy 30" in run("rules", "run", "--at-most", 1, "--episodes", 2)[1]
    assert run("show", "run")[0] == 0
    assert "could not be played" not in Path("run/run.html").read_text("utf-8")


def test_evaluate_plays_a_compiled_problem_with_the_arguments_of_the_run(run):
    words = ["--algorithm", "random", "--episodes", 2, "--quiet", "--json"]
    assert run("train", "my_tanks:make_problem", "--volume", 3, *words, "--out", "run")["evaluation"]["mean"] == 30.0
    assert run("evaluate", "run", "--episodes", 2, "--quiet", "--json")["mean"] == 30.0
    Path("run/train.json").unlink()
    assert "a compiled problem of your own" in run("evaluate", "run", "--quiet")[2]


@pytest.mark.compiled_only
def test_keywords_that_are_no_options(run):
    words = ["--timesteps", 100, "--episodes", 2, "--quiet", "--json"]
    keywords = ["--env-kwargs", "volume=2", "colour=dark red"]
    assert run("train", "my_tanks:make_tank", *keywords, *words)["evaluation"]["mean"] == 20.0


@pytest.mark.compiled_only
def test_names_on_the_command_line(run):
    words = ["--names", "level", "--action-names", "close, open", "--timesteps", 100, "--episodes", 2, "--quiet"]
    code, _, _ = run("train", "my_tanks:make_tank", *words, "--out", "run")
    assert code == 0
    assert spaql.load("run").problem.names == ["level"]
    code, out, _ = run("explain", "run", "level=0.5")
    assert code == 0
    assert out.startswith(("At level 0.5: close.", "At level 0.5: open."))
    assert run("train", "my_tanks:make_tank", "--names", "a,b", "--quiet") == (
        *(2, ""),
        "spaql: names: expected 1 words, such as ['observation[0]'], got ['a', 'b']\n",
    )
