"""Every file that once crashed spaql, hung it, or was saved and could not be read: the corpus of the fuzzer.

Each function makes one from a whole file.
"""

import io
import json

import numpy as np
import pytest

import fuzz_mutations as mutations
import spaql
from files_for_tests import MAKERS
from spaql.agents import files
from spaql.agents.files import to_bytes
from spaql.cli.train import _read_parameters
from spaql.errors import AgentFileError, OutputError, ParameterError, StoreError, StudyError
from spaql.problems import Box, Problem
from spaql.runner.record import Failure
from spaql.runner.store import STORE, Store
from spaql.studies.sweep.group_values import read_values
from spaql.studies.sweep.status import read_status
from spaql.studies.sweep.sweep_study import Sweep
from sweeps_for_tests import fill


def with_array(agent, name, edit):
    """Return the file of an agent with one array edited, or replaced by other bytes, and right checksums."""
    members = mutations.read_members(to_bytes(agent))
    data = members[f"{name}.npy"]
    if isinstance(edit, bytes):
        return mutations.pack(members | {f"{name}.npy": edit})
    array = np.load(io.BytesIO(data))
    edit(array)
    return mutations.pack(members | {f"{name}.npy": mutations.to_npy(array)})


def with_head(agent, edit):
    """Return the file of an agent with its `agent.json` edited."""
    members = mutations.read_members(to_bytes(agent))
    head = json.loads(members["agent.json"])
    edit(head)
    return mutations.pack(members | {"agent.json": json.dumps(head).encode()})


def with_type(agent, name, kind):
    """Return the file of an agent with another type in the header of an array, and as many bytes as that says."""
    data = mutations.read_members(to_bytes(agent))[f"{name}.npy"]
    count = np.load(io.BytesIO(data)).size
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': ({count},), }}"
    return with_array(agent, name, make_header(header.encode()) + bytes(count * int(kind[2:])))


def put(value, at=slice(None)):
    def edit(array):
        array[at] = value

    return edit


def alternate(value):
    def edit(array):
        array[::2], array[1::2] = value, -value

    return edit


def make_header(text):
    text = text.ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


def trained(kind):
    return MAKERS[kind]("oil").learn(iterations=20)


def nest(head):
    for _ in range(60):
        head["problem"]["arguments"]["depth"] = [head["problem"]["arguments"].get("depth")]


REFUSED = {
    "a header that Python's tokenizer cannot read": lambda: with_array(
        trained("aql"), "history", make_header(b"{'descr': '<f8', 'shape': (3L")
    ),
    "a header of a shape beyond the file": lambda: with_array(
        trained("aql"),
        "history",
        make_header(b"{'descr': '<f8', 'fortran_order': False, 'shape': (10000000000000,), }"),
    ),
    **{
        f"numbers of the type {kind}": lambda kind=kind: with_type(trained("aql"), "counts", kind)
        for kind in ("<f1", "<b8", "|b2", "<u1", "|f8", ">i8", "<f9")
    },
    "rewards of which sums overflow": lambda: with_array(trained("tessera"), "replay-rewards", alternate(1.7e308)),
    "Q of which differences overflow": lambda: with_array(trained("aql"), "work-q", alternate(1.7e308)),
    "sums of rewards that overflow": lambda: with_array(trained("rlsvi"), "data-rewards", put(1.7e308)),
    "a heat that only rises": lambda: with_array(
        spaql.QLearning("oil", seed=1, bins=4, schedule="cyclic").learn(iterations=5), "annealing", put(1.7e308, 1)
    ),
    "a level of exploration beyond its ends": lambda: with_array(
        spaql.QLearning("oil", seed=1, bins=4).learn(iterations=5), "annealing", put(7.0, 0)
    ),
    "a temperature beyond its ends": lambda: with_array(trained("published"), "annealing", put(1e9, 0)),
    "a best return that nothing reaches": lambda: with_array(trained("published"), "annealing", put(np.nan, 2)),
    "counts of transitions that overflow": lambda: with_array(
        trained("adamb"), "model-entries", lambda rows: put(2**63 - 1, 0)(rows["count"])
    ),
    "steps that were taken back": lambda: with_array(
        trained("aql"), "history", lambda rows: put(10**6, 0)(rows["training_steps"])
    ),
    "counters of which sums overflow": lambda: with_array(trained("aql"), "counts", put(2**62, 0)),
    "states without any cell": lambda: with_array(
        trained("published"), "kept-nodes", lambda nodes: put(nodes.max())(nodes)
    ),
    "a parameter beyond 64 bits": lambda: with_head(
        trained("published"), lambda head: head["parameters"].update(splits_before_reset=2**63)
    ),
    "arguments nested without end": lambda: with_head(trained("aql"), nest),
    "half of a letter": lambda: with_head(trained("aql"), lambda head: head["problem"].update(name="\ud800")),
    "an integer of 5,000 digits": lambda: mutations.pack(
        {
            name: data.replace(b'"seed": 3', b'"seed": ' + b"3" * 5000) if name == "agent.json" else data
            for name, data in mutations.read_members(to_bytes(trained("aql"))).items()
        },
        sign=False,
    ),
}


@pytest.mark.parametrize("how", REFUSED)
def test_a_file_of_the_corpus_is_refused(tmp_path, how):
    path = tmp_path / "agent.spaql"
    path.write_bytes(REFUSED[how]())
    with pytest.raises(AgentFileError, match=r"agent\.spaql: ") as error:
        spaql.load(path)
    assert "\n" not in str(error.value)


def test_a_file_of_the_smallest_numbers_learns(tmp_path):
    path = tmp_path / "agent.spaql"
    agent = spaql.SPAQL("oil", seed=1, rollouts=2, temperature_max=0.4, temperature_min=0.1).learn(iterations=5)
    path.write_bytes(with_array(agent, "work-q", put(5e-324)))  # times the temperature it is 0
    assert spaql.load(path).learn(iterations=5).iterations == 10


# What could be saved and not be read --------------------------------------------------------------------------


def leave(state, action, parameters, random, next_state):
    """Go right until the space ends; the last state is outside."""
    next_state[0] = state[0] + 0.4 + action[0]
    return 1.0, next_state[0] > 1.0


def begin(parameters, random, state):
    state[0] = 0.0


def make_leaving(**options):
    return Problem(name="mine", step=leave, reset=begin, states=Box(0, 1), actions=Box(0, 1), horizon=5, **options)


@pytest.mark.parametrize("kind", ["tessera", "published", "aql"])
def test_a_last_state_outside_its_space_can_be_read(tmp_path, kind):
    agent = MAKERS[kind](make_leaving()).learn(iterations=20)
    assert spaql.load(agent.save(tmp_path / "agent.spaql")).iterations == 20


def test_a_net_of_equal_numbers_can_be_read(tmp_path, monkeypatch):
    """It shrinks so well that a reader would not unpack it; then it is stored as it is."""
    monkeypatch.setattr(files, "_SMALL", 1 << 16)
    monkeypatch.setattr(files, "_RATIO", 20)
    agent = spaql.UCBQ("oil", bins=60).learn(iterations=2)
    path = agent.save(tmp_path / "agent.spaql")
    assert path.stat().st_size > 12 * len(agent.cells())
    assert spaql.load(path).iterations == 2


def test_arguments_that_a_file_cannot_hold_are_left_out(tmp_path):
    deep = []
    for _ in range(900):
        deep = [deep]
    for argument in (10**5000, 2**200, "\ud800", float("inf"), np.zeros(2), deep):
        problem = make_leaving(arguments={"n": argument})
        agent = spaql.AQL(problem, rollouts=0).learn(iterations=3)
        path = agent.save(tmp_path / "agent.spaql")
        assert spaql.load(path, env=problem).learn(iterations=1).iterations == 4


def test_what_cannot_be_read_again_is_not_written(tmp_path):
    agent = trained("aql")
    path = agent.save(tmp_path / "agent.spaql")
    before = path.read_bytes()
    agent._work.forest.cells["q"][0] = 1.7e308
    for target in (path, tmp_path / "other.spaql"):
        with pytest.raises(OutputError, match=r"could not be read again: .*; nothing was written, and the agent is"):
            agent.save(target)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["agent.spaql"]


# Other files ---------------------------------------------------------------------------------------------------


def test_a_store_with_a_failure_of_no_run_is_damaged(tmp_path):
    fill(tmp_path / "study", failing={(0, 1)})
    with Store(tmp_path / "study" / STORE, code="test") as store:
        store.add([], failed=[("new", "{}", Failure("error", "message"))])
    with pytest.raises(StoreError, match="its progress or a failure cannot be read"):
        read_status(tmp_path / "study")


@pytest.mark.parametrize("progress", [[], {}, {"total": "x"}])
def test_a_store_with_an_odd_progress_is_damaged(tmp_path, progress):
    fill(tmp_path / "study")
    with Store(tmp_path / "study" / STORE, code="test") as store, store._connection as base:
        base.execute("UPDATE progress SET value = ?", (json.dumps(progress),))
    with pytest.raises(StoreError):
        read_status(tmp_path / "study")


@pytest.mark.parametrize("seeds", [["x"], [1.5, None], [[[[1]]]]])
def test_a_study_with_odd_seeds_is_not_one(tmp_path, seeds):
    fill(tmp_path / "study")
    path = tmp_path / "study" / "study.json"
    content = json.loads(path.read_text())
    content["groups"][0]["seeds"] = seeds
    path.write_text(json.dumps(content))
    with pytest.raises(StudyError, match="is not a study of this version"):
        read_values(tmp_path / "study")


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, '{"a": ' * 5000, "1" * 5000, '{"groups": NaN}', "1e999"],
    ids=["lists", "mappings", "digits", "no number", "no finite number"],
)
def test_json_beyond_its_bounds_is_refused_everywhere(tmp_path, text):
    fill(tmp_path / "study")
    (tmp_path / "study" / "study.json").write_text(text)
    with pytest.raises(StudyError, match="is not a study of this version"):
        read_values(tmp_path / "study")
    (tmp_path / "best.json").write_text(text)
    with pytest.raises(ParameterError, match=r"in best\.json"):
        _read_parameters(str(tmp_path / "best.json"), None)


def test_tables_nested_without_end_are_one_sentence(tmp_path):
    (tmp_path / "study.toml").write_text("problems = " + "[" * 5000)
    with pytest.raises(StudyError, match="nested too deeply"):
        Sweep.load(tmp_path / "study.toml")
