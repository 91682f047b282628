"""Agents in files: everything comes back, to the last bit; what is no agent file is refused in one sentence."""

import dataclasses
import hashlib
import io
import json
import os
import random
import sys
import threading
import tracemalloc
import zipfile

import gymnasium
import numpy as np
import pytest

import spaql
from spaql.agents.tessera.replay import PENDING
from spaql.agents.training import ROW
from spaql.errors import AgentFileError, OutputError, ParameterError, SpaqlError
from spaql.gym.resolve import described
from spaql.gym.space_json import drawn, sketched
from spaql.partition.jit import records
from spaql.problems import PROBLEMS, Box, Problem

MAKERS = {
    "tessera": lambda problem: spaql.Tessera(problem, seed=3),
    "published": lambda problem: spaql.SPAQL(problem, seed=3, rollouts=2),
    "ts": lambda problem: spaql.SPAQLTS(problem, seed=3, rollouts=2, reference=[0.5], radius=0.5),
    "aql": lambda problem: spaql.AQL(problem, seed=3, rollouts=2),
}


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
    assert again.set_env(other).get_env() is other
    assert again.learn(iterations=2).iterations == 7


def test_another_environment_must_fit(tmp_path):
    agent = spaql.Tessera("CartPole-v1", seed=1).learn(iterations=3)
    with pytest.raises(ParameterError, match=r"other observations or actions|is no observed number"):
        agent.set_env("MountainCar-v0")
    with pytest.raises(ParameterError, match="holds a Tessera"):
        spaql.AQL.load(agent.save(tmp_path / "agent.spaql"))


def step(state, action, parameters, random, next_state):
    next_state[0] = action[0]
    return 1.0 - abs(state[0] - 0.3), False


def reset(parameters, random, state):
    state[0] = 0.0


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


def test_room_that_a_file_asks_for_is_not_given_at_once(tmp_path):
    for agent in (spaql.Tessera("oil").learn(iterations=5), spaql.SPAQL("oil", rollouts=1).learn(iterations=5)):
        path = agent.save(tmp_path / "agent.spaql")
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        room = io.BytesIO()
        np.save(room, np.array([12_000_000, 12_000_000]))
        head = json.loads(members["agent.json"])
        head["arrays"]["work-room"] = {"bytes": room.tell(), "sha256": hashlib.sha256(room.getvalue()).hexdigest()}
        members |= {"agent.json": json.dumps(head).encode(), "work-room.npy": room.getvalue()}
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in members.items():
                archive.writestr(name, data)
        assert spaql.load(path)._work.allocated < 1 << 20


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


@pytest.mark.parametrize("kind", ON_ENVIRONMENTS)
@pytest.mark.parametrize("env", ["Pendulum-v1", "CartPole-v1", Gusts])
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


@pytest.mark.compiled_only
def test_a_revision_that_waits_for_room_can_be_saved(tmp_path):
    """As Ctrl-C can leave it: its index is not up to date."""
    agent = spaql.Tessera("pendulum", seed=0)
    agent.prepare()
    rows, waiting = records(1000, ROW), False
    while not waiting:  # as `learn`, but without making room when a revision asks for it
        agent._iterate(rows, 2**60)
        waiting = bool(agent._memory.counts[PENDING])
        agent._history.append(rows[: agent._finished - agent.iterations].copy())
        if not waiting:
            agent._make_room(1000 * 200)
    again = spaql.load(agent.save(tmp_path / "agent.spaql"))
    assert again.save(tmp_path / "again.spaql").read_bytes() == (tmp_path / "agent.spaql").read_bytes()
    np.testing.assert_array_equal(again.learn(iterations=20).history, agent.learn(iterations=20).history)


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
    again = drawn(json.loads(json.dumps(sketched(space), allow_nan=False)))
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
        drawn(sketch)


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
    assert again.get_env().spec == env.spec
    assert chain(again.get_env()) == chain(env)
    np.testing.assert_array_equal(again.evaluate(2).returns, agent.evaluate(2).returns)
    assert described(again.problem)["id"] == "Pendulum-v1"  # and once more


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


# Damage ------------------------------------------------------------------------------------------------------


def without(*names):
    def edit(data):
        head = json.loads(data)
        inner = head
        for name in names[:-1]:
            inner = inner[name]
        del inner[names[-1]]
        return json.dumps(head).encode()

    return edit


def with_other(value, *names):
    def edit(data):
        head = json.loads(data)
        inner = head
        for name in names[:-1]:
            inner = inner[name]
        inner[names[-1]] = value
        return json.dumps(head).encode()

    return edit


HEADS = {
    "no parameters": without("parameters"),
    "no seed": without("seed"),
    "no problem": without("problem"),
    "no numbers": without("numbers"),
    "no kind": without("problem", "kind"),
    "no horizon": without("problem", "horizon"),
    "no arrays": without("arrays"),
    "algorithms": with_other(["tessera"], "algorithm"),
    "problem": with_other(5, "problem"),
    "kind": with_other(["oil"], "problem", "kind"),
    "maker": with_other(["oil"], "problem", "maker"),
    "argument": with_other(1, "problem", "arguments", "depth"),
    "argument's value": with_other(-1, "problem", "arguments", "sharpness"),
    "arguments": with_other([1], "problem", "arguments"),
    "parameter": with_other(1, "parameters", "colour"),
    "parameter's value": with_other(-1, "parameters", "seed"),
    "a list": lambda data: b"[1]",
    "a number": lambda data: b"1",
    "deep": lambda data: b"[" * 100_000,
}


@pytest.mark.parametrize("how", HEADS)
def test_a_malformed_head_is_refused(tmp_path, how):
    path = spaql.Tessera("oil", seed=1).learn(iterations=10).save(tmp_path / "agent.spaql")
    with pytest.raises(AgentFileError, match=r"agent\.spaql: "):
        spaql.load(changed(path, "agent.json", HEADS[how]))


@pytest.mark.parametrize("name", ["names", "low", "periodic", "warm_up_steps", "progress", "id"])
@pytest.mark.parametrize("value", ["x", 5, [1], {}])
def test_a_malformed_environment_is_refused(tmp_path, name, value):
    path = spaql.Tessera("CartPole-v1", seed=1).learn(iterations=2).save(tmp_path / "agent.spaql")
    if (name, value) not in [("warm_up_steps", 5), ("periodic", [1]), ("id", "x")]:  # these may be
        with pytest.raises(SpaqlError):
            spaql.load(changed(path, "agent.json", with_other(value, "problem", name)))


def test_flipped_bytes_are_refused_or_change_nothing_learned(tmp_path):
    agent = spaql.Tessera("oil", seed=1).learn(iterations=3)
    path = agent.save(tmp_path / "agent.spaql")
    data, draws, refused = path.read_bytes(), random.Random(0), 0
    for _ in range(400):
        at = draws.randrange(len(data))
        path.write_bytes(data[:at] + bytes([data[at] ^ draws.randrange(1, 256)]) + data[at + 1 :])
        try:
            again = spaql.load(path)
        except SpaqlError:
            refused += 1
        else:  # a date in the archive, say
            assert again.history.tobytes() == agent.history.tobytes()
            assert again.cells().q.tobytes() == agent.cells().q.tobytes()
    assert refused > 200


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


# Files with matching checksums that lead a kernel astray -----------------------------------------------------


def edited(path, name, edit):
    """The archive with one array edited, and its checksum with it."""
    with zipfile.ZipFile(path) as archive:
        array = np.load(io.BytesIO(archive.read(f"{name}.npy")))
    edit(array)
    data = io.BytesIO()
    np.save(data, array)
    changed(path, f"{name}.npy", lambda old: data.getvalue())
    told = {"bytes": len(data.getvalue()), "sha256": hashlib.sha256(data.getvalue()).hexdigest()}
    return changed(path, "agent.json", with_other(told, "arrays", name))


def round_list(cells):
    """A cell that is followed by itself."""
    at = np.flatnonzero(cells["next"] == -1)[0]
    cells["next"][at] = at


def two_rounds(cells):
    """Two cells of one node that hang on nothing but each other."""
    for node in np.unique(cells["node"]):
        here = np.flatnonzero(cells["node"] == node)
        if len(here) > 3:
            cells["next"][here[0]], cells["next"][here[1]] = here[1], here[0]
            return
    cells["next"][0] = 0


def put(field, value, at=0):
    def edit(array):
        array[field][at] = value

    return edit


ASTRAY = {
    "round": ("cells", round_list),
    "rounds": ("cells", two_rounds),
    "other node": ("cells", put("node", 0, -1)),
    "node too far": ("cells", put("node", 10**6)),
    "root too far": ("cells", put("root", 7)),
    "root before": ("cells", put("root", -1)),
    "visits": ("cells", put("visits", -5)),
    "depth": ("cells", put("depth", -3)),
    "lost cells": ("nodes", put("head", -1, slice(None))),
    "level": ("nodes", put("level", 9, -1)),
    "first level": ("nodes", put("level", 1)),
    "no best": ("nodes", put("top", -1, slice(None))),
    "best of others": ("nodes", put("top", 0, slice(None))),
    "alone": ("nodes", put("alone", 1, slice(None))),
    "dimension": ("nodes", put("dim", 5)),
    "up": ("nodes", put("child", 0)),
    "action": ("boxes", put(0, 99.0)),
}


@pytest.mark.parametrize("kind", ["tessera", "published", "aql"])
@pytest.mark.parametrize("how", ASTRAY)
def test_a_tree_that_leads_astray_is_refused(tmp_path, kind, how):
    path = MAKERS[kind]("oil").learn(iterations=60).save(tmp_path / "agent.spaql")
    with zipfile.ZipFile(path) as archive:
        trees = [name.removesuffix("cells.npy") for name in archive.namelist() if name.endswith("cells.npy")]
    name, edit = ASTRAY[how]
    with pytest.raises(AgentFileError, match="do not fit together"):
        spaql.load(edited(path, f"{trees[0]}{name}", edit))


@pytest.mark.compiled_only
@pytest.mark.parametrize("kind", ["tessera", "published"])
def test_long_trained_agents_are_not_refused(tmp_path, kind):
    for problem in ("random-travel", "cartpole", "pendulum"):
        agent = MAKERS[kind](problem).learn(total_timesteps=30_000)
        again = spaql.load(agent.save(tmp_path / "agent.spaql"))
        assert len(again.cells()) == len(agent.cells())
