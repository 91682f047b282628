"""Names that the user gives to observations and actions once, and explanations by names."""

import json

import numpy as np
import pytest
from gymnasium import spaces

import spaql
from environments_for_tests import F32, Toy, assert_one_sentence
from files_for_tests import changed
from spaql.cli import main
from spaql.errors import AgentFileError, ParameterError
from spaql.problems import oil

pytestmark = pytest.mark.tiny_planning

HOUSE = spaces.Dict({"room": spaces.Box(0, 30, (1,), F32), "wind": spaces.Box(0, 9, (2,), F32)})
LINE = spaces.Box(0, 1, (2,), F32)


@pytest.fixture(scope="module")
def named():
    env = Toy(LINE, length=6)
    options = {"names": ["place", "speed"], "action_names": ["brake", "go"], "bounds": {"speed": (0, 2)}}
    return spaql.Tessera(env, seed=0, horizon=6, **options).learn(iterations=60)


@pytest.mark.compiled_only
def test_names_are_everywhere(named, tmp_path):
    assert named.problem.names == ["place", "speed"]
    assert named.problem.states.high.tolist() == [1.0, 2.0]
    explanation = named.explain([0.5, 0.5])
    assert [one.name for one in explanation.observation] == ["place", "speed"]
    assert explanation.label in ("brake", "go")
    assert "brake" in str(named.rules()) or "go" in str(named.rules())
    policy = json.loads(named.export(tmp_path / "policy.json").read_text())
    assert [one["name"] for one in policy["observation"]] == ["place", "speed"]
    assert set(policy["action"]["names"]) <= {"brake", "go"}
    assert "speed" in str(named.model)
    figure = named.plot(dims=["place", "speed"])
    assert figure.axes[0].get_xlabel() == "place"


@pytest.mark.compiled_only
def test_names_of_one_call_come_first(named):
    explanation = named.explain([0.5, 0.5], names=["x", "v"], actions=["0", "1"])
    assert [one.name for one in explanation.observation] == ["x", "v"]
    assert explanation.label in ("0", "1")


@pytest.mark.compiled_only
def test_names_stay_in_the_file_and_with_another_environment(named, tmp_path):
    path = named.save(tmp_path / "agent.spaql")
    for again in (spaql.load(path), spaql.load(path, env=Toy(LINE)), spaql.load(path).set_env(Toy(LINE))):
        assert again.problem.names == ["place", "speed"]
        assert str(again.rules()) == str(named.rules())
        assert again.problem.states.high.tolist() == [1.0, 2.0]
    assert spaql.load(path).save(tmp_path / "again.spaql").read_bytes() == path.read_bytes()


@pytest.mark.compiled_only
def test_names_of_a_compiled_problem(tmp_path):
    shared = oil()
    agent = spaql.Tessera(shared, seed=0, names=["depth"], action_names=["drill at"]).learn(iterations=20)
    assert "drill at" in str(agent.rules())
    assert "next position" in str(spaql.Tessera(shared, seed=0).learn(iterations=20).rules())
    path = agent.save(tmp_path / "agent.spaql")
    for again in (spaql.load(path), spaql.load(path, env=oil()), spaql.load(path, env="oil")):
        assert str(again.rules()) == str(agent.rules())
    assert spaql.Tessera("oil", names=["depth"]).explain  # also by its name


def without_names(data):
    head = json.loads(data)
    del head["problem"]["given"]
    return json.dumps(head).encode()


@pytest.mark.compiled_only
def test_files_without_names_are_read(named, tmp_path):
    for agent, usual in ((named, "observation[0]"), (spaql.Random("oil"), "position")):
        path = agent.save(tmp_path / "agent.spaql")
        again = spaql.load(changed(path, "agent.json", without_names))
        assert again.problem.states.high.tolist() == agent.problem.states.high.tolist()
        if again.learns:
            assert again.explain([0.5, 0.5]).observation[0].name == usual


@pytest.mark.compiled_only
@pytest.mark.parametrize("problem", ["environment", "compiled"])
@pytest.mark.parametrize(
    "given",
    [
        *(5, [], None, "ab", {"colours": ["a"]}, {"names": 5}, {"names": None}, {"names": ["a"] * 3}),
        *({"names": [1, 2]}, {"names": []}, {"action_names": "ab"}, {"action_names": {"a": 1, "b": 2}}),
    ],
)
def test_damaged_names_are_refused(named, tmp_path, problem, given):
    def edit(data):
        head = json.loads(data)
        head["problem"]["given"] = given
        return json.dumps(head).encode()

    agent = named if problem == "environment" else spaql.Random("oil")
    path = agent.save(tmp_path / "agent.spaql")
    with pytest.raises(AgentFileError, match="what it says of its problem is damaged") as caught:
        spaql.load(changed(path, "agent.json", edit))
    assert_one_sentence(caught)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"names": ["a"]}, r"names: expected 2 words, such as \['observation\[0\]', 'observation\[1\]'\]"),
        ({"names": ["a", "a"]}, "names: 'a' is given twice; give different words$"),
        (
            {"names": ["observation[1]", "observation[0]"]},
            r"names: these names are known in another order, \['observation\[0\]', 'observation\[1\]'\]; give them in",
        ),
        ({"names": ["a", " "]}, "names: expected 2 words"),
        ({"names": "ab"}, "names: expected 2 words"),
        ({"names": 3}, "names: expected 2 words"),
        ({"action_names": ["a"]}, r"action_names: expected 2 words, such as \['action 0', 'action 1'\]"),
        ({"names": ["a", "b"], "bounds": {"c": (0, 1)}}, "bounds: 'c' is no observed number; there are a, b$"),
    ],
)
def test_names_that_do_not_fit_are_refused(options, says):
    with pytest.raises(ParameterError, match=rf"^{says}") as caught:
        spaql.Tessera(Toy(LINE), horizon=6, **options)
    assert_one_sentence(caught)


def test_a_problem_that_has_been_made_has_its_names():
    problem = spaql.GymnasiumProblem(Toy(LINE), horizon=6, names=["a", "b"], periodic=["b"])
    assert (problem.names, problem.periodic) == (["a", "b"], [1])
    assert spaql.Tessera(problem).problem.names == ["a", "b"]
    with pytest.raises(ParameterError, match=r"^names: for Gymnasium environments only; 'Toy' has its own"):
        spaql.Tessera(problem, names=["c", "d"])


# Explanations by name -------------------------------------------------------------------------------------------------


@pytest.mark.compiled_only
def test_observations_by_name(named):
    expected = named.explain([0.25, 0.75]).to_dict()
    assert named.explain({"speed": 0.75, "place": 0.25}).to_dict() == expected
    assert named.explain({"v": np.float32(0.75), "x": 0.25}, names=["x", "v"]).action == expected["action"]
    assert named.predict({"speed": 0.75, "place": 0.25})[0] == named.predict([0.25, 0.75])[0]
    with pytest.raises(ParameterError, match=r"^observation: no 'place' was given; there are place, speed$"):
        named.predict({})
    compiled = spaql.Tessera("oil", seed=0).learn(iterations=10)
    assert compiled.predict({"position": 0.5})[0].tolist() == compiled.predict([0.5])[0].tolist()
    assert compiled.explain({"position": 0.5}).to_dict() == compiled.explain([0.5]).to_dict()


@pytest.mark.compiled_only
@pytest.mark.parametrize(
    ("observation", "says"),
    [
        ({"place": 1}, "no 'speed' was given; there are place, speed$"),
        ({"place": 1, "sped": 1}, "'sped' is no observed number; there are place, speed$"),
        ({"place": 1, "speed": "fast"}, "speed: expected a finite number, got 'fast'$"),
        ({"place": 1, "speed": [1.0, 2.0]}, "speed: expected a finite number"),
        ({"place": 1, "speed": float("nan")}, "speed: expected a finite number, got nan$"),
        ({}, "no 'place' was given"),
    ],
)
def test_wrong_names_are_refused(named, observation, says):
    with pytest.raises(ParameterError, match=rf"^observation: {says}") as caught:
        named.explain(observation)
    assert_one_sentence(caught)


@pytest.mark.compiled_only
def test_a_dict_is_explained_by_its_keys_or_by_names():
    env = Toy(HOUSE, length=6)
    agent = spaql.Tessera(env, seed=0, horizon=6).learn(iterations=30)
    assert agent.problem.names == ["room", "wind[0]", "wind[1]"]
    expected = agent.explain({"room": np.array([18.0]), "wind": [1.0, 2.0]}).to_dict()
    assert agent.explain({"room": 18, "wind": [1, 2]}).to_dict() == expected
    assert agent.explain({"room": 18, "wind[0]": 1, "wind[1]": 2}).to_dict() == expected
    with pytest.raises(ParameterError, match=r"^observation: 'wind' is missing; its parts are 'room', 'wind'$"):
        agent.explain({"room": 18})
    with pytest.raises(ParameterError, match=r"^observation: no 'wind\[1\]' was given; there are room, wind\[0\], "):
        agent.explain({"room": 18, "wind[0]": 1})


@pytest.mark.compiled_only
def test_the_command_line_takes_names(named, tmp_path, capsys):
    path = str(named.save(tmp_path / "agent.spaql"))

    def run(*words):
        code = main([*words])
        return code, *capsys.readouterr()

    code, by_place, _ = run("explain", path, "0.25", "0.75")
    assert (code, run("explain", path, "speed=0.75", "place=0.25")[1]) == (0, by_place)
    assert run("explain", path, "x=0.25", "v=0.75", "--names", "x,v")[0] == 0
    assert run("explain", path, "place=-1e-3", "speed=1")[0] == 0
    for words, says in (
        (["place=1"], "observation: no 'speed' was given; there are place, speed"),
        (["place=1", "sped=2"], "observation: 'sped' is no observed number; there are place, speed"),
        (["place=nan", "speed=2"], "observation: place: expected a finite number, got nan"),
    ):
        assert run("explain", path, *words) == (2, "", f"spaql: {says}\n")
