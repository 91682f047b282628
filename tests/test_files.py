"""Agents in files: everything comes back, to the last bit; what is no agent file is refused in one sentence."""

import json
import zipfile

import gymnasium
import numpy as np
import pytest

import spaql
from spaql.errors import AgentFileError, ParameterError
from spaql.problems import Box, Problem

MAKERS = {
    "spaql": lambda problem: spaql.SPAQL(problem, seed=3),
    "published": lambda problem: spaql.SPAQL.published(problem, seed=3, rollouts=2),
    "ts": lambda problem: spaql.SPAQLTS(problem, seed=3, rollouts=2, reference=[0.5], radius=0.5),
    "aql": lambda problem: spaql.AQL(problem, seed=3, rollouts=2),
}


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("name", ["oil", "ambulance"])
def test_an_agent_goes_on_as_if_it_had_not_been_saved(tmp_path, kind, name):
    whole, first = MAKERS[kind](name).learn(25), MAKERS[kind](name).learn(10)
    again = spaql.load(first.save(tmp_path / "agent"))
    assert type(again) is type(first)
    assert again.get_parameters() == first.get_parameters()
    np.testing.assert_array_equal(again.evaluate(10).returns, first.evaluate(10).returns)
    again.learn(15)
    np.testing.assert_array_equal(again.history, whole.history)
    np.testing.assert_array_equal(again.evaluate(10).returns, whole.evaluate(10).returns)
    for name in ("state_low", "action_high", "q", "visits"):
        np.testing.assert_array_equal(getattr(again.partition, name), getattr(whole.partition, name))


def test_predictions_go_on_too(tmp_path):
    agent = spaql.SPAQL.published("oil", seed=1, rollouts=1).learn(10)
    agent.predict([0.5], deterministic=False)
    again = spaql.load(agent.save(tmp_path / "agent.spaql"))
    assert again.predict([0.5], deterministic=False)[0] == agent.predict([0.5], deterministic=False)[0]


def test_equal_agents_make_equal_files(tmp_path):
    paths = [spaql.SPAQL("oil", seed=2).learn(20).save(tmp_path / name) for name in ("a.spaql", "b.spaql")]
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_an_agent_of_an_environment_comes_back_with_its_ranges(tmp_path):
    agent = spaql.SPAQL("CartPole-v1", seed=1).learn(5)
    path = agent.save(tmp_path / "agent.spaql")
    again = spaql.SPAQL.load(path)
    np.testing.assert_array_equal(again.problem.states.low, agent.problem.states.low)
    assert again.training_steps == agent.training_steps
    np.testing.assert_array_equal(again.evaluate(3).returns, agent.evaluate(3).returns)
    other = gymnasium.make("CartPole-v1")
    assert again.set_env(other).get_env() is other
    assert again.learn(2).iterations == 7


def test_another_environment_must_fit(tmp_path):
    agent = spaql.SPAQL("CartPole-v1", seed=1).learn(3)
    with pytest.raises(ParameterError, match=r"other observations or actions|is no observed number"):
        agent.set_env("MountainCar-v0")
    with pytest.raises(ParameterError, match="holds a SPAQL"):
        spaql.AQL.load(agent.save(tmp_path / "agent.spaql"))


def step(state, action, parameters, random, next_state):
    next_state[0] = action[0]
    return 1.0 - abs(state[0] - 0.3), False


def reset(parameters, random, state):
    state[0] = 0.0


def test_a_problem_of_one_s_own_has_to_be_given(tmp_path):
    mine = Problem(name="mine", step=step, reset=reset, states=Box(0, 1), actions=Box(0, 1), horizon=5)
    agent = spaql.SPAQL(mine, seed=1).learn(10)
    path = agent.save(tmp_path / "mine.spaql")
    with pytest.raises(ParameterError, match="give it"):
        spaql.load(path)
    np.testing.assert_array_equal(spaql.load(path, mine).evaluate(3).returns, agent.evaluate(3).returns)


def changed(path, name, content):
    """The archive with one member replaced."""
    with zipfile.ZipFile(path) as archive:
        members = {each: archive.read(each) for each in archive.namelist()}
    members[name] = content(members[name])
    with zipfile.ZipFile(path, "w") as archive:
        for each, data in members.items():
            archive.writestr(each, data)
    return path


def newer(data):
    return json.dumps(json.loads(data) | {"format": 99}).encode()


def foreign(data):
    return json.dumps(json.loads(data) | {"algorithm": "dqn"}).encode()


BAD = {
    "empty": (lambda path: path.write_bytes(b""), "no agent file"),
    "text": (lambda path: path.write_text("hello"), "no agent file"),
    "cut off": (lambda path: path.write_bytes(path.read_bytes()[:-200]), "no agent file"),
    "newer": (lambda path: changed(path, "agent.json", newer), "format 99"),
    "foreign": (lambda path: changed(path, "agent.json", foreign), "'dqn'"),
    "no JSON": (lambda path: changed(path, "agent.json", lambda data: b"{"), "no agent file"),
    "bit flipped": (lambda path: changed(path, "work-cells.npy", lambda d: d[:-1] + bytes([d[-1] ^ 1])), "damaged"),
    "other length": (lambda path: changed(path, "work-cells.npy", lambda data: data + b"0"), "not as long"),
}


@pytest.mark.parametrize("how", BAD)
def test_what_is_no_agent_file_is_refused(tmp_path, how):
    path = spaql.SPAQL("oil", seed=1).learn(10).save(tmp_path / "agent.spaql")
    spoil, says = BAD[how]
    spoil(path)
    with pytest.raises(AgentFileError, match=says):
        spaql.load(path)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(AgentFileError, match="there is no such file"):
        spaql.load(tmp_path / "nothing.spaql")


def test_saving_leaves_no_drafts(tmp_path):
    agent = spaql.SPAQL("oil", seed=1).learn(10)
    for _ in range(2):
        agent.save(tmp_path / "agent.spaql")
    assert [path.name for path in tmp_path.iterdir()] == ["agent.spaql"]
