"""The registry of algorithms, algorithms and problems of the user's own, and parameters by name."""

import json

import gymnasium
import numpy as np
import pytest
from tests.tabular import NaNReward, TabularQ

import spaql
from spaql.agents import algorithms, register, registry, resolve
from spaql.agents.callbacks import Callback, Checkpoint, Evaluate, StopAfter
from spaql.agents.foreign import ForeignAgent
from spaql.agents.inspection import view_policy
from spaql.agents.registry import name_of
from spaql.cli import main
from spaql.errors import EnvironmentFault, NotTrainedError, ParameterError
from spaql.gym.problem import resolve_problem
from spaql.problems.heuristics import HEURISTICS

TABULAR = "tests.tabular:TabularQ"


def test_every_algorithm_is_registered_once_with_all_that_is_said_of_it():
    entries = algorithms()
    published = {
        "spaql",
        "aql",
        "spaql-ts",
        "adamb",
        "zoomrl",
        "rlsvi",
        "nbql",
        "ucb-q",
        "ucb-q-infinite",
        "q-learning",
    }
    assert set(entries) == published | {"tessera", "random", *HEURISTICS}
    assert [entries[name].label for name in ("spaql", "aql", "spaql-ts", "tessera")] == [
        "SPAQL",
        "AQL",
        "SPAQL-TS",
        "Tessera",
    ]
    assert entries["spaql"].cls is spaql.SPAQL
    assert "scaling" in entries["spaql"].parameters
    assert "seed" not in entries["spaql"].parameters
    assert entries["spaql-ts"].required == ["reference", "radius"]
    assert {name for name, entry in entries.items() if not entry.learns} == {"random", *HEURISTICS}
    colours = [entry.colour for entry in entries.values() if entry.colour]
    assert len(set(colours)) == len(colours) == 12
    for name, entry in entries.items():
        agent = entry.make(entry.home, seed=3, **entry.example)
        assert (name_of(agent), agent.seed) == (name, 3)


def test_a_name_is_taken_once():
    with pytest.raises(ParameterError, match=r"'aql' is spaql\.agents\.aql:AQL already"):
        register("aql", label="mine")(TabularQ)
    with pytest.raises(ParameterError, match=r"'aql' is spaql\.agents\.aql:AQL already"):
        register("aql", label="mine")(type("AQL", (TabularQ,), {}))
    assert algorithms()["aql"].cls is spaql.AQL
    register("aql", label="AQL", colour=algorithms()["aql"].colour)(spaql.AQL)


@pytest.mark.parametrize("colour", ["red", "#12345", "#12345g", "#1234567", 3])
def test_colours_are_checked(colour):
    with pytest.raises(ParameterError, match="register: expected a colour such as"):
        register("mine", label="mine", colour=colour)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("sarsa", "'sarsa' is not one of .*tessera.*module:Class"),
        ("tests.tabular:Missing", "expected a class with learn.*; module 'tests.tabular' has no attribute 'Missing'"),
        ("tests.tabular:OtherKeyword", r"expected a class with learn\(total_timesteps=\).*; missing .*'steps'"),
        ("tests.tabular:BlindPredict", r"expected a class with .* predict\(observation\); too many positional"),
        ("tests.tabular:np", "expected a class with learn.*; issubclass"),
        ("tests.tabular:NoAgent", "expected a class with learn"),
        ("tests.tabular:make_oil", "expected a class with learn"),
        ("no_such_module:Agent", "there is no module 'no_such_module' here"),
        ("./own:Mine", r"algorithm './own:Mine': there is no module './own' here"),
        (".own:Mine", r"there is no module '\.own' here"),
        ("a b:Mine", "there is no module 'a b' here"),
        (3, "3 is not one of"),
    ],
)
def test_what_is_no_algorithm(name, said):
    with pytest.raises(ParameterError, match=said):
        resolve(name)


@pytest.mark.parametrize("problem", ["oil", "CartPole-v1", spaql.problems.oil, lambda: gymnasium.make("CartPole-v1")])
def test_a_foreign_algorithm_learns_and_is_evaluated(problem):
    entry = resolve(TABULAR)
    assert (entry.name, entry.label, entry.colour, entry.foreign) == (TABULAR, "TabularQ", None, True)
    assert list(entry.parameters) == ["bins", "rate", "exploration"]
    agent = entry.make(problem, seed=1, bins=6)
    assert isinstance(agent, ForeignAgent)
    assert agent.get_params() == {"bins": 6, "rate": 0.2, "exploration": 0.2, "seed": 1}
    with pytest.raises(NotTrainedError):
        agent.evaluate(2)
    agent.learn(600)
    assert agent.training_steps == agent.num_timesteps == 600
    history = agent.history
    assert len(history) == agent.iterations > 0
    assert (np.diff(history["training_steps"]) <= agent.problem.horizon).all()
    evaluation = agent.evaluate(20)
    assert evaluation.returns.tobytes() == agent.evaluate(20).returns.tobytes()
    same = evaluation.returns.tobytes() == agent.evaluate(20, seed=7).returns.tobytes()
    assert same == agent.problem.name.startswith("oil")  # which has no randomness
    again = entry.make(problem, seed=1, bins=6).learn(600)
    assert again.evaluate(20).returns.tobytes() == evaluation.returns.tobytes()
    assert again.history.tobytes() == history.tobytes()
    assert len(agent.cells()) == 0
    assert "cells" not in agent.history.dtype.names
    assert agent.record_evaluation(evaluation).recorded_evaluation["episodes"] == 20


def test_a_foreign_algorithm_meets_the_environment_that_ours_meet():
    agent = resolve(TABULAR).make("CartPole-v1", seed=5)
    seen = []
    agent.agent.predict = lambda observation: seen.append(np.array(observation)) or 0
    agent.learn(10)
    agent.evaluate(2, seed=11)
    ours = spaql.Random("CartPole-v1", seed=5).problem.for_evaluation(11)
    first, _ = ours.env.reset(seed=ours.take_seed())
    assert np.array_equal(seen[0], first)


def test_a_reward_that_is_not_finite_names_the_environment_and_the_agent(capsys, monkeypatch):
    sentence = "environment 'CartPole-v1' gave TabularQ the reward nan; rewards must be finite numbers"
    assert main(["train", "tests.tabular:NaNReward", "--algorithm", TABULAR, "--timesteps", "50", "--quiet"]) == 2
    assert capsys.readouterr().err.startswith(f"spaql: {sentence}")
    with monkeypatch.context() as patch:
        patch.setattr(NaNReward, "value", 1.0)
        agent = resolve(TABULAR).make(NaNReward).learn(50)
    with pytest.raises(EnvironmentFault, match=sentence):
        agent.evaluate(2)


def test_it_learns_something():
    agent = resolve(TABULAR).make("oil", seed=0).learn(20_000)
    assert agent.evaluate(10).mean > spaql.Random("oil").evaluate(1000).mean + 0.5


def test_predictions_of_a_foreign_algorithm():
    agent = resolve(TABULAR).make("CartPole-v1", seed=1).learn(300)
    one, state = agent.predict(np.zeros(4))
    many, _ = agent.predict(np.zeros((3, 4)))
    assert state is None
    assert many.tolist() == [one] * 3


def test_what_a_foreign_algorithm_cannot_do(tmp_path):
    agent = resolve(TABULAR).make("oil").learn(50)
    for call in (agent.tree, agent.rules, lambda: agent.explain([0.5]), lambda: agent.export(tmp_path / "policy.c")):
        with pytest.raises(ParameterError, match="TabularQ has no partition to read"):
            call()
    with pytest.raises(ParameterError, match="no partition to read; train an agent that has cells, such as Tessera"):
        view_policy(agent)
    with pytest.raises(ParameterError, match="is not an algorithm of spaql; save it by its own means"):
        agent.save(tmp_path / "agent")
    with pytest.raises(ParameterError, match=r"depth: tests\.tabular:TabularQ has no such parameter; it has bins"):
        resolve(TABULAR).make("oil", depth=3)
    with pytest.raises(ParameterError, match="either iterations or total_timesteps"):
        agent.learn()
    assert not agent.can_save
    assert agent.diagnose(total_timesteps=100) == []


class Mine(spaql.AQL):
    """A user's variant of a built-in agent, not registered."""


MINE = f"{__name__}:Mine"


def test_an_agent_of_a_class_that_is_not_registered_cannot_be_saved(tmp_path):
    agent = Mine("oil")
    assert not agent.can_save
    assert spaql.AQL("oil").can_save
    assert spaql.Random("oil").can_save
    with pytest.raises(ParameterError, match="Mine is not an algorithm of spaql; save it by its own means"):
        agent.save(tmp_path / "agent")
    try:
        register("mine", label="Mine")(Mine)
        assert agent.can_save
        assert type(spaql.load(agent.save(tmp_path / "agent"))) is Mine
    finally:
        registry._ENTRIES.pop("mine")


@pytest.mark.parametrize("algorithm", [MINE, TABULAR])
def test_training_is_not_lost_where_an_agent_cannot_be_saved(tmp_path, capsys, algorithm):
    words = ["train", "oil", "--algorithm", algorithm, "--timesteps", "100", "--episodes", "3", "--quiet"]
    assert main([*words, "--out", str(tmp_path)]) == 0
    assert json.loads((tmp_path / "summary.json").read_text())["training_steps"] == 100
    assert json.loads((tmp_path / "train.json").read_text())["finished"]
    assert not list(tmp_path.glob("*.spaql"))
    capsys.readouterr()


@pytest.mark.parametrize("algorithm", [MINE, TABULAR])
def test_checkpoints_of_an_agent_that_cannot_be_saved_are_refused_before_learning(tmp_path, capsys, algorithm):
    agent = resolve(algorithm).make("oil")
    for callback in (Checkpoint(1000, tmp_path / "out"), Evaluate(1000, save_best=tmp_path / "out" / "best")):
        with pytest.raises(ParameterError, match=r"(Checkpoint|save_best): .* is not an algorithm of spaql"):
            agent.learn(10, callback=callback)
    assert agent.num_timesteps == 0
    words = ["train", "oil", "--algorithm", algorithm, "--timesteps", "100", "--quiet", "--checkpoint-every", "1000"]
    assert main([*words, "--out", str(tmp_path / "out")]) == 2
    assert f"--checkpoint-every: {algorithm} is not an algorithm of spaql" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_callbacks_watch_and_stop_a_foreign_algorithm():
    class Stop(Callback):
        def due(self, agent):
            return 200

        def call(self, agent):
            return False

    evaluate = Evaluate(every=100, episodes=2)
    agent = resolve(TABULAR).make("oil").learn(10_000, callback=[evaluate, Stop()])
    assert [result.steps for result in evaluate.results] == [100, 200]
    assert agent.num_timesteps == 200
    agent.learn(iterations=4)
    assert agent.num_timesteps == 220
    seen = []
    agent.learn(100, callback=[lambda agent: seen.append(agent.num_timesteps), StopAfter(100.0)])
    assert seen[-1] == 320


def test_a_registered_class_of_the_user_is_used_by_its_name():
    try:
        register("tabular", label="Tabular Q")(TabularQ)
        assert algorithms()["tabular"].label == "Tabular Q"
        assert name_of(resolve("tabular").make("oil")) == "tabular"
    finally:
        algorithms.__globals__["_ENTRIES"].pop("tabular")


def test_problems_of_the_user_by_module_and_function():
    oil = resolve_problem("tests.tabular:make_oil", env_kwargs={"sharpness": 3.0})
    assert oil.name == spaql.problems.oil(survey="quadratic", sharpness=3.0).name
    cart = resolve_problem("tests.tabular:make_cartpole", env_kwargs={"max_episode_steps": 20}, seed=3)
    assert (cart.name, cart.horizon, cart.seed) == ("CartPole-v1", 20, 3)
    by_id = resolve_problem("CartPole-v1", env_kwargs={"max_episode_steps": 20})
    assert by_id.horizon == 20
    assert spaql.Tessera("tests.tabular:make_oil").learn(iterations=3).iterations == 3


@pytest.mark.parametrize(
    ("problem", "arguments", "said"),
    [
        ("tests.tabular:missing", {}, "has no function 'missing' and registers no such id"),
        ("no_such_module:make", {}, "there is no module 'no_such_module' here"),
        ("tests.tabular:np", {}, "expected a function or class, got a module"),
        (spaql.problems.oil(), {"sharpness": 1.0}, "has been made already; leave sharpness out"),
        (3, {}, "expected a spaql Problem or the name of one"),
    ],
)
def test_what_is_no_problem(problem, arguments, said):
    with pytest.raises(ParameterError, match=said):
        resolve_problem(problem, env_kwargs=arguments)


def test_foreign_algorithms_and_problems_from_the_command_line(capsys):
    words = ["train", "tests.tabular:make_cartpole", "--algorithm", TABULAR, "--timesteps", "500", "--episodes", "5"]
    status = main([*words, "--quiet", "--json"])
    assert status == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["algorithm"], result["training_steps"], result["cells"]) == (TABULAR, 500, None)


def test_an_agent_goes_on_with_an_environment_by_module_and_function(capsys, tmp_path):
    agent = spaql.Tessera("CartPole-v1", seed=1).learn(iterations=2)
    path = agent.save(tmp_path / "agent.spaql")
    words = ["evaluate", str(path), "--episodes", "3", "--quiet", "--json"]
    assert main(words) == 0
    expected = json.loads(capsys.readouterr().out)
    assert main([*words, "--env", "tests.tabular:make_cartpole"]) == 0
    assert json.loads(capsys.readouterr().out) == expected
    other = agent.set_env("tests.tabular:make_cartpole").problem
    assert (other.name, other.module) == ("CartPole-v1", "")
    assert spaql.GymnasiumProblem("tests.tabular:make_cartpole").name == "CartPole-v1"
    for env, sentence in (
        ("oil", "environment: expected a Gymnasium id"),
        ("tests.tabular:missing", "has no function 'missing'"),
        ("./tabular:make_cartpole", "there is no module './tabular' here"),
        (3, "environment: expected a Gymnasium id"),
    ):
        with pytest.raises(ParameterError, match=sentence):
            spaql.load(path, env=env)


# Parameters ----------------------------------------------------------------------------------------------------------


def test_parameters_are_read_and_set_by_name():
    agent = spaql.SPAQL("oil", seed=1)
    assert agent.get_params() == {**spaql.SPAQL("oil", scaling=0.5).get_params(), "seed": 1}
    assert agent.set_params(scaling=0.1, rollouts=3) is agent
    expected = spaql.SPAQL("oil", scaling=0.1, rollouts=3, seed=1)
    assert agent.get_params() == expected.get_params()
    assert agent.learn(iterations=5).history.tobytes() == expected.learn(iterations=5).history.tobytes()
    with pytest.raises(ParameterError, match="has learned already"):
        agent.set_params(scaling=0.2)


def test_parameters_are_set_on_the_same_environment():
    agent = spaql.Tessera("CartPole-v1", bounds={1: (-3, 3), 3: (-3, 3)}, seed=1).set_params(seed=4)
    expected = spaql.Tessera("CartPole-v1", bounds={1: (-3, 3), 3: (-3, 3)}, seed=4)
    assert agent.learn(iterations=3).history.tobytes() == expected.learn(iterations=3).history.tobytes()


def test_unknown_parameters_are_refused_and_checked():
    agent = spaql.AQL("oil")
    with pytest.raises(ParameterError, match="set_params: 'depth' is not one of scaling"):
        agent.set_params(depth=3)
    with pytest.raises(ParameterError, match="scaling"):
        agent.set_params(scaling=-1.0)
    foreign = resolve(TABULAR).make("oil", bins=4).set_params(rate=0.5, seed=2)
    assert foreign.get_params() == {"bins": 4, "rate": 0.5, "exploration": 0.2, "seed": 2}
    for name in ("depth", "env"):
        with pytest.raises(ParameterError, match=f"set_params: '{name}' is not one of bins, rate, exploration, seed"):
            foreign.set_params(**{name: 3})
    with pytest.raises(ParameterError, match="set_env: TabularQ keeps the environment it was made with"):
        foreign.set_env("CartPole-v1")
    with pytest.raises(ParameterError, match="has learned already"):
        foreign.learn(10).set_params(rate=0.1)
