"""The files that are fuzzed: how one of each kind is made, damaged, read and used.

A reader raises `Refused` where the file is refused in one sentence; whatever else it raises is a failure.
"""

import contextlib
import json
import sqlite3
import sys
import zlib

import gymnasium
import numpy as np

import fuzz_mutations as mutations
import spaql
from spaql.errors import NotTrainedError, OutputError, SpaqlError
from spaql.problems import Box, Problem
from spaql.runner.record import Failure, encode_array
from spaql.runner.run_spec import Run
from spaql.runner.store import STORE, Store, _digest
from spaql.runner.train_dir import TrainDir, can_keep
from sweeps_for_tests import fill

_BOUNDS = "numbers that are not finite, or beyond"
_MOST_STEPS = 20_000  # of learning: a file may ask for an agent that takes hours


class Refused(Exception):
    """A file was refused in one sentence."""


@contextlib.contextmanager
def refusing():
    """Around a step that may refuse a file."""
    try:
        yield
    except SpaqlError as error:
        if "\n" in str(error):
            raise AssertionError(f"not one sentence: {error}") from error
        raise Refused(str(error)) from error


# Agents -----------------------------------------------------------------------------------------------------


class Sky(gymnasium.Env):
    """An environment of several parts."""

    observation_space = gymnasium.spaces.Dict(
        a=gymnasium.spaces.Box(-np.inf, np.inf, (2,)), b=gymnasium.spaces.Discrete(3)
    )
    action_space = gymnasium.spaces.MultiDiscrete([2, 3])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return {"a": self.np_random.normal(size=2), "b": 1}, {}

    def step(self, action):
        return self.reset()[0], float(action[0]), False, False, {}


def _step(state, action, parameters, random, next_state):
    next_state[0] = action[0]
    return 1.0 - abs(state[0] - 0.3), False


def _reset(parameters, random, state):
    state[0] = 0.0


def _make_own():
    return Problem(name="mine", step=_step, reset=_reset, states=Box(0, 1), actions=Box(0, 1), horizon=5)


def _make_restored():
    agent = spaql.SPAQL("oil", seed=1, rollouts=1)
    watch = spaql.callbacks.Evaluate(50, episodes=2, restore_best=True)
    return agent.learn(iterations=40, callback=watch)


AGENTS = {
    "tessera": lambda: spaql.Tessera("oil", seed=1).learn(iterations=60),
    "tessera cartpole": lambda: spaql.Tessera("cartpole", seed=1).learn(iterations=20),
    "tessera CartPole-v1": lambda: spaql.Tessera("CartPole-v1", seed=1).learn(iterations=3),
    "tessera sky": lambda: spaql.Tessera(Sky, seed=1, horizon=10).learn(iterations=20),
    "tessera own": lambda: spaql.Tessera(_make_own(), seed=1).learn(iterations=20),
    "tessera clock": lambda: spaql.Tessera("oil", seed=1, time_aware=True).learn(iterations=60),
    "spaql": lambda: spaql.SPAQL("ambulance", seed=1, rollouts=1).learn(iterations=60),
    "spaql plane": lambda: spaql.SPAQL("oil-nd", seed=1, rollouts=1).learn(iterations=60),
    "spaql cartpole": lambda: spaql.SPAQL("cartpole", seed=1, rollouts=1).learn(iterations=5),
    "spaql restored": _make_restored,
    "spaql-ts": lambda: spaql.SPAQLTS("oil", seed=1, rollouts=2, reference=[0.5], radius=0.5).learn(iterations=30),
    "aql": lambda: spaql.AQL("oil", seed=1, rollouts=0).learn(iterations=60),
    "aql mountaincar": lambda: spaql.AQL("mountaincar", seed=1, rollouts=0).learn(iterations=3),
    "adamb": lambda: spaql.AdaMB("oil", seed=1, rollouts=1).learn(iterations=40),
    "adamb one-step": lambda: spaql.AdaMB("oil", seed=1, rollouts=0, planning="one-step").learn(iterations=40),
    "zoomrl": lambda: spaql.ZoomRL("oil", seed=1, rollouts=0).learn(iterations=40),
    "rlsvi": lambda: spaql.RLSVI("oil", seed=1, rollouts=0, bins=4).learn(iterations=20),
    "q-learning": lambda: spaql.QLearning("oil", seed=1, bins=4, schedule="cyclic").learn(iterations=30),
    "ucb-q": lambda: spaql.UCBQ("oil", seed=1, bins=4, bonus="bernstein").learn(iterations=20),
    "ucb-q-infinite": lambda: spaql.UCBQInfinite("cartpole", seed=1, bins=2).learn(iterations=3),
}
POLICIES = ("tessera", "tessera clock", "tessera CartPole-v1", "spaql", "spaql restored", "aql", "zoomrl", "q-learning")


def make_agents():
    """Return the content of an agent's file by name; those that end in " policy" hold the policy alone."""
    from spaql.agents.files import to_bytes

    files = {}
    for name, make in AGENTS.items():
        agent = make()
        if agent.learns and name == "spaql":
            agent.record_evaluation(agent.evaluate(2))
        files[name] = to_bytes(agent)
        if name in POLICIES:
            files[f"{name} policy"] = to_bytes(agent, policy_only=True)
    return files


def _check_action(agent, action):
    flat = np.asarray(action, float).reshape(-1)
    assert np.isfinite(flat).all(), action
    if isinstance(agent.problem.actions, Box):
        low, high = agent.problem.actions.low, agent.problem.actions.high
        assert ((flat >= low - 1e-6 * (1 + abs(low))) & (flat <= high + 1e-6 * (1 + abs(high)))).all(), action


def _use(agent, path):
    """Predict, explain, save and load, which an accepted file must all allow."""
    states = agent.problem.states
    observation = agent.problem.unflatten(states.low + 0.5 * (states.high - states.low))
    try:
        _check_action(agent, agent.predict(observation)[0])
        str(agent.explain(observation))
    except NotTrainedError:
        assert not agent.iterations
    agent.save(path)
    again = spaql.load(path)
    assert again.iterations == agent.iterations


def read_agent(content, folder):
    """Load an agent, use it, let it learn, and use it again."""
    path = folder / "agent.spaql"
    path.write_bytes(content)
    with refusing():
        agent = spaql.load(path)
    _use(agent, folder / "again.spaql")
    assert mutations.SENTINEL not in sys.modules, "reading imported a module"
    steps = 5 * getattr(agent, "steps_per_iteration", 1)
    if agent.policy_only or steps > _MOST_STEPS:
        return
    with contextlib.suppress(Refused), refusing():  # there may be no such environment
        agent.learn(iterations=5)
    try:
        if agent.iterations:
            _use(agent, folder / "again.spaql")
    except OutputError as error:  # numbers at the bounds of a file may leave them: then none is written
        if _BOUNDS not in str(error):
            raise


# Folders of training ----------------------------------------------------------------------------------------


_RUN = Run("oil", {"sharpness": 5}, "aql", {"rollouts": 0}, 1, 50, 10)


def make_train():
    """Return the content of `train.json`."""
    content = {"format": 2, "spaql": spaql.__version__, "run": json.loads(_RUN.specification)}
    return json.dumps(content | {"checkpoint_every": 100, "finished": False}).encode()


def read_train(content, folder):
    """Read a folder of `spaql train`, go on a little and keep the agent."""
    place = folder / "train"
    place.mkdir(exist_ok=True)
    (place / "train.json").write_bytes(content)
    spaql.AQL("oil", seed=1, rollouts=0).learn(iterations=3).save(place / "checkpoint.spaql")
    with contextlib.suppress(Refused), refusing():
        TrainDir.check_free(place)
    with refusing():
        begun = TrainDir.read(place)
        agent = begun.load_agent()
    if agent is not None and can_keep(agent):
        begun.keep(agent)


# Studies ----------------------------------------------------------------------------------------------------


def make_study(folder):
    """Return the contents of `runs.sqlite` and `study.json`."""
    study = fill(folder / "study", failing={(0, 1)})
    with contextlib.closing(sqlite3.connect(folder / "study" / STORE)) as base:
        base.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        base.execute("PRAGMA journal_mode=DELETE")
    assert study
    return (folder / "study" / STORE).read_bytes(), (folder / "study" / "study.json").read_bytes()


def edit_store(data, dice):
    """Change one value of a table, with a right digest."""
    base = sqlite3.connect(":memory:")
    base.deserialize(data)
    base.execute("PRAGMA journal_mode=MEMORY")
    table = dice.choice(("runs", "runs", "arrays", "failures", "progress", "about"))
    rows = base.execute(f"SELECT * FROM {table}").fetchall()
    names = [row[1] for row in base.execute(f"PRAGMA table_info({table})")]
    row = list(dice.choice(rows))
    key, at = row[0], dice.randrange(len(row))
    row[at] = _edit_cell(names[at], row[at], dice)
    with contextlib.suppress(Exception):  # some values have no digest
        if table == "runs":
            row[4] = _digest(*row[:3]) if at != 4 else row[4]
        elif table == "arrays":
            row[3] = _digest(*row[:3]) if at != 3 else row[3]
        elif table == "failures":
            row[5] = _digest(*map(str, row[:5])) if at != 5 else row[5]
    marks = ", ".join(f"{name} = ?" for name in names)
    with contextlib.suppress(sqlite3.Error, OverflowError, UnicodeEncodeError):
        base.execute(f"UPDATE {table} SET {marks} WHERE {names[0]} = ?", (*row, key))
        base.commit()
    return base.serialize()


def _edit_cell(name, old, dice):
    """Return another value for a column."""
    if name in ("specification", "scalars", "value") and dice.random() < 0.8:
        with contextlib.suppress(ValueError, IndexError):
            return dice.choice(mutations.JSON_EDITS)(old.encode(), dice).decode("utf-8", "surrogatepass")
    if name == "data" and dice.random() < 0.8:
        content = zlib.decompress(old)
        if dice.random() < 0.5:
            content = dice.choice(mutations.ACCIDENTS)(content, dice)
        else:
            content = encode_array(np.full(dice.choice((1, 3)), dice.choice((np.nan, 1e308, np.inf))))
        return zlib.compress(content) if dice.random() < 0.9 else content
    if name == "data" and dice.random() < 0.3:
        return zlib.compress(bytes(64 << 20))
    return dice.choice((None, "", "x", 0, -1, 2**62, 1e308, "1e999", b"", b"\xff\xfe", "\x00", "[" * 5000, 3))


def read_store(content, folder):
    """Read a store as studies, tables and progress do."""
    from spaql.studies.sweep.group_values import read_values
    from spaql.studies.sweep.status import read_status

    place = folder / "store"
    place.mkdir(exist_ok=True)
    for old in place.iterdir():
        old.unlink()
    (place / STORE).write_bytes(content)
    (place / "study.json").write_bytes((folder / "base-study.json").read_bytes())
    with refusing():
        with Store(place / STORE, code="test") as store:
            for row in store.rows():
                store.arrays(row.id)
            store.failures()
            store.count_failures()
            assert store.progress is None or isinstance(store.progress, dict)
            store.add([], failed=[("new", _RUN.specification, Failure("error", "message"))])
        read_values(place)
        str(read_status(place).sentence)


def read_study(content, folder):
    """Read `study.json` as tables do."""
    from spaql.studies.sweep.group_values import read_values

    place = folder / "read"
    place.mkdir(exist_ok=True)
    for old in place.iterdir():
        old.unlink()
    (place / STORE).write_bytes((folder / "base-store").read_bytes())
    (place / "study.json").write_bytes(content)
    with refusing():
        values = read_values(place)
        assert values.problems is not None


STUDY = b"""
name = "fuzzed"
seeds = 3
iterations = 20
episodes = 10
baseline = "aql, scaling=0.1"

[[problems]]
problem = "oil"
grid = { sharpness = [1, 10] }

[[problems]]
problem = "CartPole-v1"
horizon = 50
bounds = { 1 = [-3.0, 3.0] }

[[algorithms]]
algorithm = "aql"
parameters = { rollouts = 0 }
grid = { scaling = [0.1, 0.5] }

[[algorithms]]
algorithm = "tessera"
draws = 2
random = { exploration = { low = 0.1, high = 0.5 } }

[tune]
trials = 4
seeds = 2
first_seeds = 2
"""

_TOML = [
    "1" * 5000,
    "[" * 5000,
    "nan",
    "-inf",
    "1e999",
    "2023-01-01",
    "{}",
    '"\\u0000"',
    "9" * 30,
    '"""',
    "-1",
    "0",
    "true",
]


def edit_toml(data, dice):
    """Put something else in place of a word or number, or remove, repeat or move a line."""
    how = dice.random()
    lines = data.decode().splitlines()
    at = dice.randrange(len(lines))
    if how < 0.2:
        del lines[at]
    elif how < 0.3:
        lines.insert(at, lines[dice.randrange(len(lines))])
    elif "=" in lines[at] and how < 0.8:
        key, _, _ = lines[at].partition("=")
        lines[at] = f"{key}= {dice.choice(_TOML)}"
    else:
        return mutations.edit_text(data, dice)
    return "\n".join(lines).encode()


def read_toml(content, folder):
    """Read a study file, and make its groups."""
    from spaql.studies.sweep.sweep_study import Sweep

    path = folder / "study.toml"
    path.write_bytes(content)
    with refusing():
        Sweep.load(path)


BEST = {"algorithm": "aql", "parameters": {"scaling": 0.5, "rollouts": 0}, "complete": True}


def read_best(content, folder):
    """Read `best.json` as `spaql train --params` does."""
    from spaql.agents import resolve
    from spaql.cli.train import _read_parameters

    path = folder / "best.json"
    path.write_bytes(content)
    with refusing():
        name, parameters = _read_parameters(str(path), None)
        resolve(name).make("oil", seed=0, **parameters)


READERS = {"agent": read_agent, "train": read_train, "store": read_store, "study": read_study}
READERS |= {"toml": read_toml, "best": read_best}
EDITS = {
    "train": mutations.JSON_EDITS + mutations.ACCIDENTS[:2],
    "store": [edit_store] * 4 + mutations.ACCIDENTS,
    "study": mutations.JSON_EDITS + mutations.ACCIDENTS[:2],
    "toml": [edit_toml] * 4 + mutations.ACCIDENTS[:2],
    "best": mutations.JSON_EDITS + mutations.ACCIDENTS[:2],
}


def make_files(folder):
    """Return the content of a file of every kind: {kind: {name: content}}."""
    store, study = make_study(folder)
    (folder / "base-study.json").write_bytes(study)
    (folder / "base-store").write_bytes(store)
    single = {"train": make_train(), "store": store, "study": study, "toml": STUDY, "best": json.dumps(BEST).encode()}
    return {"agent": make_agents()} | {kind: {kind: content} for kind, content in single.items()}
