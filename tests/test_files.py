"""Agents in files: saved, loaded, and gone on with."""

import io
import json
import os
import random
import threading
import tracemalloc
import zipfile

import gymnasium
import numpy as np
import pytest

import spaql
from files_for_tests import MAKERS, changed, reset, step
from spaql.errors import AgentFileError, OutputError, ParameterError, SpaqlError
from spaql.gym.encoding import space_from_json, space_to_json
from spaql.problems import Box, Problem


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("name", ["oil", "ambulance"])
def test_an_agent_goes_on_as_if_it_had_not_been_saved(tmp_path, kind, name):
    whole, first = MAKERS[kind](name).learn(iterations=25), MAKERS[kind](name).learn(iterations=10)
    again = spaql.load(first.save(tmp_path / "agent"))
    assert type(again) is type(first)
    assert again.get_params() == first.get_params()
    np.testing.assert_array_equal(again.evaluate(10).returns, first.evaluate(10).returns)
    again.learn(iterations=15)
    np.testing.assert_array_equal(again.history, whole.history)
    np.testing.assert_array_equal(again.evaluate(10).returns, whole.evaluate(10).returns)
    for name in ("state_low", "action_high", "q", "visits"):
        np.testing.assert_array_equal(getattr(again.cells(), name), getattr(whole.cells(), name))


def test_predictions_go_on_too(tmp_path):
    agent = spaql.SPAQL("oil", seed=1, rollouts=1).learn(iterations=10)
    agent.predict([0.5], deterministic=False)
    again = spaql.load(agent.save(tmp_path / "agent.spaql"))
    assert again.predict([0.5], deterministic=False)[0] == agent.predict([0.5], deterministic=False)[0]


def test_equal_agents_make_equal_files(tmp_path):
    paths = [spaql.Tessera("oil", seed=2).learn(iterations=20).save(tmp_path / name) for name in ("a.spaql", "b.spaql")]
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_an_agent_of_an_environment_comes_back_with_its_ranges(tmp_path):
    agent = spaql.Tessera("CartPole-v1", seed=1).learn(iterations=5)
    path = agent.save(tmp_path / "agent.spaql")
    again = spaql.Tessera.load(path)
    np.testing.assert_array_equal(again.problem.states.low, agent.problem.states.low)
    assert again.training_steps == agent.training_steps
    np.testing.assert_array_equal(again.evaluate(3).returns, agent.evaluate(3).returns)
    other = gymnasium.make("CartPole-v1")
    assert again.set_env(other).get_env().envs == [other]
    assert again.learn(iterations=2).iterations == 7


def test_another_environment_must_fit(tmp_path):
    agent = spaql.Tessera("CartPole-v1", seed=1).learn(iterations=3)
    with pytest.raises(ParameterError, match=r"other observations or actions|is no observed number"):
        agent.set_env("MountainCar-v0")
    with pytest.raises(ParameterError, match="holds a Tessera"):
        spaql.AQL.load(agent.save(tmp_path / "agent.spaql"))


def test_a_problem_of_one_s_own_has_to_be_given(tmp_path):
    mine = Problem(name="mine", step=step, reset=reset, states=Box(0, 1), actions=Box(0, 1), horizon=5)
    agent = spaql.Tessera(mine, seed=1).learn(iterations=10)
    path = agent.save(tmp_path / "mine.spaql")
    alone = spaql.load(path)
    assert alone.predict([0.4])[0] == agent.predict([0.4])[0]
    for play in (alone.evaluate, lambda: alone.learn(iterations=1), lambda: alone.set_env(mine)):
        with pytest.raises(ParameterError, match=r"a compiled problem of your own; give it to learn or evaluate: load"):
            play()
    assert alone.save(tmp_path / "again.spaql").read_bytes() == path.read_bytes()
    np.testing.assert_array_equal(spaql.load(path, mine).evaluate(3).returns, agent.evaluate(3).returns)


def newer(data):
    return json.dumps(json.loads(data) | {"format": 99}).encode()


def foreign(data):
    return json.dumps(json.loads(data) | {"algorithm": "dqn"}).encode()


BAD = {
    "empty": (lambda path: path.write_bytes(b""), "not an agent file"),
    "text": (lambda path: path.write_text("hello"), "not an agent file"),
    "cut off": (lambda path: path.write_bytes(path.read_bytes()[:-200]), "not an agent file"),
    "newer": (lambda path: changed(path, "agent.json", newer), "format 99"),
    "foreign": (lambda path: changed(path, "agent.json", foreign), "'dqn'"),
    "no JSON": (lambda path: changed(path, "agent.json", lambda data: b"{"), "not an agent file"),
    "bit flipped": (lambda path: changed(path, "replay-points.npy", lambda d: d[:-1] + bytes([d[-1] ^ 1])), "damaged"),
    "other length": (lambda path: changed(path, "replay-points.npy", lambda data: data + b"0"), "not as long"),
}


@pytest.mark.parametrize("how", BAD)
def test_what_is_no_agent_file_is_refused(tmp_path, how):
    path = spaql.Tessera("oil", seed=1).learn(iterations=10).save(tmp_path / "agent.spaql")
    spoil, says = BAD[how]
    spoil(path)
    with pytest.raises(AgentFileError, match=says):
        spaql.load(path)


def lying(method):
    """A small file whose head says that it is small, and is not."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", method) as archive:
        archive.writestr("agent.json", bytes(64 << 20))
    packed = bytearray(data.getvalue())
    for mark, place in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        at = packed.index(mark) + place
        packed[at : at + 4] = (100).to_bytes(4, "little")
    return bytes(packed)


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_what_is_larger_than_it_says_is_not_unpacked(tmp_path, method):
    path = tmp_path / "agent.spaql"
    path.write_bytes(lying(method))
    tracemalloc.start()
    try:
        with pytest.raises(AgentFileError, match=r"agent\.spaql: "):
            spaql.load(path)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_links_are_followed_and_devices_left_alone(tmp_path):
    agent = spaql.Tessera("oil", seed=1).learn(iterations=5)
    (tmp_path / "link.spaql").symlink_to(tmp_path / "target.spaql")
    agent.save(tmp_path / "link.spaql")
    assert (tmp_path / "link.spaql").is_symlink()
    assert spaql.load(tmp_path / "target.spaql").iterations == 5
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.spaql")
        with pytest.raises(OutputError, match="not a regular file"):
            agent.save(tmp_path / "pipe.spaql")
    (tmp_path / "folder.spaql").mkdir()
    with pytest.raises(OutputError, match="a folder"):
        agent.save(tmp_path / "folder.spaql")
    for call in (agent.save, spaql.load, agent.export):
        for name in ("x" * 300 + ".c", "a\0b.c"):
            with pytest.raises(SpaqlError):
                call(tmp_path / name)


def test_a_file_that_is_not_there_is_named(tmp_path):
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "checkpoint.spaql").touch()
    with pytest.raises(AgentFileError, match="spaql train --resume goes on with it"):
        spaql.load(tmp_path / "begun")
    with pytest.raises(AgentFileError, match="there is no such file"):
        spaql.load(tmp_path / "nothing.spaql")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes in folders here")
def test_pipes_and_devices_are_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe.spaql")  # opening it would wait for somebody who writes
    with pytest.raises(AgentFileError, match="not a regular file"):
        spaql.load(tmp_path / "pipe.spaql")


def test_saving_leaves_no_drafts(tmp_path):
    agent = spaql.Tessera("oil", seed=1).learn(iterations=10)
    for _ in range(2):
        agent.save(tmp_path / "agent.spaql")
    assert [path.name for path in tmp_path.iterdir()] == ["agent.spaql"]


def head_of(path):
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read("agent.json"))


def test_a_recorded_evaluation_goes_with_the_agent(tmp_path):
    agent = spaql.Tessera("oil", seed=1).learn(iterations=10)
    assert agent.recorded_evaluation is None
    evaluation = agent.evaluate(20, seed=5)
    assert agent.recorded_evaluation is None  # evaluating has no side effect
    again = spaql.load(agent.record_evaluation(evaluation).save(tmp_path / "agent.spaql"))
    record = again.recorded_evaluation
    assert record == agent.recorded_evaluation == evaluation.to_dict()
    assert record["mean"] == evaluation.mean
    assert (record["episodes"], record["seed"], record["iterations"]) == (20, 5, 10)
    assert again.learn(iterations=5).recorded_evaluation["iterations"] == 10  # when it was measured


def test_neither_a_diagnosis_nor_another_evaluation_replaces_the_recorded_one():
    agent = spaql.SPAQL("ambulance", seed=1, rollouts=2).learn(iterations=60)
    agent.record_evaluation(agent.evaluate(20, seed=5))
    before = agent.recorded_evaluation
    assert any(found.id == "selection-noise" for found in agent.diagnose())  # which plays 200 episodes
    agent.evaluate(30)
    assert agent.recorded_evaluation == before
    with pytest.raises(ParameterError, match="record_evaluation: expected what evaluate returned"):
        agent.record_evaluation(4.2)


class Gusts(gymnasium.Env):
    """Where to is random, how long an episode lasts is too; all of it drawn from `np_random`."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float64)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = self.np_random.integers(3, 20)
        return self.np_random.uniform(-1, 1, 2), {}

    def step(self, action):
        self.left -= 1
        seen = self.np_random.uniform(-1, 1, 2)
        return seen, -abs(float(action[0]) - seen[0]), self.left == 0, False, {}


ON_ENVIRONMENTS = {
    "tessera": lambda env: spaql.Tessera(env, seed=3, horizon=20),
    "published": lambda env: spaql.SPAQL(env, seed=3, rollouts=2, horizon=20),
    "aql": lambda env: spaql.AQL(env, seed=3, rollouts=2, horizon=20),
}


@pytest.mark.parametrize(
    ("kind", "env"),
    [
        pytest.param(kind, env, marks=[pytest.mark.compiled_only] * (kind == "tessera" and env != "CartPole-v1"))
        for kind in ON_ENVIRONMENTS
        for env in ("Pendulum-v1", "CartPole-v1", Gusts)
    ],
)
def test_on_an_environment_too_it_goes_on_exactly(tmp_path, kind, env):
    whole, agent = ON_ENVIRONMENTS[kind](env).learn(iterations=30), ON_ENVIRONMENTS[kind](env)
    for iterations in (1, 9, 20):
        agent = spaql.load(
            agent.learn(iterations=iterations).save(tmp_path / "agent.spaql"), None if env is not Gusts else env
        )
    assert agent.save(tmp_path / "a.spaql").read_bytes() == whole.save(tmp_path / "b.spaql").read_bytes()
    np.testing.assert_array_equal(agent.evaluate(3).returns, whole.evaluate(3).returns)


class OldStyle(gymnasium.Env):
    """Draws from a generator of its own, made of the seed of each reset, and knows nothing of `np_random`."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float64)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.random = random.Random(seed)
        self.left = self.random.randrange(3, 9)
        return np.array([self.random.uniform(-1, 1)]), {}

    def step(self, action):
        self.left -= 1
        seen = self.random.uniform(-1, 1)
        return np.array([seen]), float((seen > 0) == action), self.left == 0, False, {}


def test_an_environment_without_np_random_goes_on_exactly_too(tmp_path):
    whole = spaql.Tessera(OldStyle, seed=1, horizon=20).learn(iterations=40)
    agent = spaql.Tessera(OldStyle, seed=1, horizon=20)
    for iterations in (3, 17, 20):
        agent = spaql.load(agent.learn(iterations=iterations).save(tmp_path / "agent.spaql"), OldStyle)
    assert agent.save(tmp_path / "a.spaql").read_bytes() == whole.save(tmp_path / "b.spaql").read_bytes()


@pytest.mark.parametrize(
    "space",
    [
        gymnasium.spaces.Box(-1.0, np.inf, (2, 2), np.float32),
        gymnasium.spaces.Box(-5, 5, (2,), np.int16),
        gymnasium.spaces.Discrete(4, start=-2),
        gymnasium.spaces.MultiDiscrete([[3, 2]], start=[[1, -1]]),
        gymnasium.spaces.MultiBinary(3),
        gymnasium.spaces.MultiBinary([2, 1]),
        gymnasium.spaces.Tuple([gymnasium.spaces.Discrete(2), gymnasium.spaces.Dict(a=gymnasium.spaces.Discrete(3))]),
    ],
)
def test_spaces_come_back_from_json(space):
    again = space_from_json(json.loads(json.dumps(space_to_json(space), allow_nan=False)))
    assert again == space
    assert again.dtype == space.dtype


@pytest.mark.parametrize(
    "sketch",
    [
        {"kind": "Box", "dtype": "object", "shape": [1], "low": [0.0], "high": [1.0]},
        {"kind": "Box", "dtype": "float64", "shape": [10**9], "low": [0.0], "high": [1.0]},
        {"kind": "Box", "dtype": "float64", "shape": [2], "low": [0.0], "high": [1.0]},
        {"kind": "Box", "dtype": "float64", "shape": [1], "low": ["nan"], "high": [1.0]},
        {"kind": "Box", "dtype": "int8", "shape": [1], "low": [0], "high": [300]},
        {"kind": "Discrete", "n": 0, "start": 0},
        {"kind": "Discrete", "n": True, "start": 0},
        {"kind": "Text", "n": 5},
        {"kind": "Dict", "spaces": [["a", {"kind": "Discrete", "n": 2, "start": 0}]] * 2},
        ["Discrete", 5],
    ],
)
def test_what_tells_of_no_space_is_refused(sketch):
    with pytest.raises((ValueError, TypeError, LookupError, AssertionError)):
        space_from_json(sketch)


# Names -------------------------------------------------------------------------------------------------------


def test_what_was_saved_without_a_suffix_is_found(tmp_path):
    agent = spaql.Tessera("oil", seed=1).learn(iterations=3)
    agent.save(tmp_path / "mine")
    assert spaql.load(tmp_path / "mine").iterations == 3
    assert spaql.Tessera.load(str(tmp_path / "mine")).iterations == 3


@pytest.mark.parametrize("path", ["", 5, None, b""])
def test_what_is_no_path_is_one_sentence(path):
    with pytest.raises(ParameterError, match="save: expected the path of a file"):
        spaql.Tessera("oil", seed=1).learn(iterations=3).save(path)
    with pytest.raises(ParameterError, match="load: expected the path of a file"):
        spaql.load(path)


def test_threads_may_save_to_one_file(tmp_path):
    agents = [spaql.Tessera("oil", seed=seed).learn(iterations=5) for seed in range(4)]
    failed = []

    def work(agent):
        try:
            for _ in range(20):
                agent.save(tmp_path / "agent.spaql")
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(agent,)) for agent in agents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert spaql.load(tmp_path / "agent.spaql").iterations == 5
