"""Damaged agent files, and files with matching checksums that lead a kernel astray."""

import hashlib
import io
import json
import random
import zipfile

import numpy as np
import pytest

import spaql
from files_for_tests import MAKERS, changed
from spaql.agents.files import to_bytes
from spaql.agents.tessera.agent import LabelledTree
from spaql.agents.tessera.policy_tree import LEAF, PolicyTree
from spaql.errors import AgentFileError, SpaqlError

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


# Files with matching checksums that lead a kernel astray -----------------------------------------------------


def edited(path, name, edit):
    """The archive with one array edited, and its checksum with it."""
    with zipfile.ZipFile(path) as archive:
        array = np.load(io.BytesIO(archive.read(f"{name}.npy")))
    edit(array)
    return replaced(path, name, array)


def replaced(path, name, array):
    """The archive with another array, and its checksum."""
    data = io.BytesIO()
    np.save(data, array)
    changed(path, f"{name}.npy", lambda old: data.getvalue())
    told = {"bytes": len(data.getvalue()), "sha256": hashlib.sha256(data.getvalue()).hexdigest()}
    return changed(path, "agent.json", with_other(told, "arrays", name))


def put(value, at=0):
    def edit(array):
        array[at] = value

    return edit


def repeat(order):
    """A cell that is hung twice, and one that is not."""
    order[0] = order[1]


def crowd(nodes):
    """All cells on one side of the root: no action is left for the states of the other."""
    nodes[:] = nodes.max()


ASTRAY = {
    "a node that is split twice": ("splits", lambda splits: put(splits[0], 1)(splits)),
    "a node that is not there yet": ("splits", put(10**6)),
    "a node before the first": ("splits", put(-1)),
    "a cell twice": ("order", repeat),
    "a cell that is not there": ("order", put(10**6)),
    "a cell of no node": ("nodes", put(10**6)),
    "a cell of a node before the first": ("nodes", put(-1)),
    "states without a cell": ("nodes", crowd),
    "an action outside its space": ("actions", put(99.0)),
    "an action that is not a number": ("actions", put(np.nan)),
    "an action between those of cells": ("actions", put(0.3)),
    "visits": ("visits", put(-5)),
    "a value that is not a number": ("q", put(np.nan)),
    "a value of which sums overflow": ("q", put(1.7e308)),
}


@pytest.mark.parametrize("kind", ["published", "aql"])
@pytest.mark.parametrize("how", ASTRAY)
def test_a_tree_that_leads_astray_is_refused(tmp_path, kind, how):
    path = MAKERS[kind]("oil").learn(iterations=60).save(tmp_path / "agent.spaql")
    with zipfile.ZipFile(path) as archive:
        trees = [name.removesuffix("splits.npy") for name in archive.namelist() if name.endswith("splits.npy")]
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


MISSHAPEN = {
    "single number": np.array(3),
    "single word": np.array("x"),
    "one number": np.array([7]),
    "nothing": np.zeros(0, np.int64),
    "table": np.zeros((3, 1), np.int64),
    "dates": np.array([1, 2, 3], "M8[s]"),
    "infinity": np.full(3, np.inf),
    "records": np.zeros(3, [("a", np.int32)]),
}


@pytest.mark.parametrize("name", ["history", "work-splits", "work-actions"])
@pytest.mark.parametrize("how", MISSHAPEN)
def test_an_array_of_another_shape_or_type_is_refused(tmp_path, name, how):
    path = MAKERS["published"]("oil").learn(iterations=10).save(tmp_path / "agent.spaql")
    with pytest.raises(AgentFileError, match=r"agent\.spaql: ") as error:
        spaql.load(replaced(path, name, MISSHAPEN[how]))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["self", "problem", "bounds", "colour"])
def test_a_parameter_that_the_algorithm_does_not_have_is_refused(tmp_path, name):
    path = MAKERS["ts"]("oil").learn(iterations=3).save(tmp_path / "agent.spaql")
    with pytest.raises(AgentFileError, match=f"spaql-ts has no parameter '{name}'"):
        spaql.load(changed(path, "agent.json", with_other(1, "parameters", name)))


@pytest.mark.parametrize("name", ["reference", "radius"])
def test_a_parameter_without_a_default_must_be_there(tmp_path, name):
    path = MAKERS["ts"]("oil").learn(iterations=3).save(tmp_path / "agent.spaql")
    with pytest.raises(AgentFileError, match=f"spaql-ts needs the parameter '{name}'"):
        spaql.load(changed(path, "agent.json", without("parameters", name)))


@pytest.mark.parametrize("name", ["mean", "seed", "deterministic"])
def test_an_incomplete_evaluation_is_refused(tmp_path, name):
    agent = MAKERS["aql"]("oil").learn(iterations=3)
    path = agent.record_evaluation(agent.evaluate(2)).save(tmp_path / "agent.spaql")
    with pytest.raises(AgentFileError, match="invalid evaluation record"):
        spaql.load(changed(path, "agent.json", without("evaluation", name)))


@pytest.mark.parametrize("error", [TypeError, AttributeError, ZeroDivisionError])
def test_bugs_of_our_own_do_not_read_as_damage(error, tmp_path, monkeypatch):
    path = spaql.Tessera("oil").learn(iterations=3).save(tmp_path / "agent")

    def broken(self, arrays):
        raise error("a bug")

    monkeypatch.setattr(spaql.Tessera, "_restore", broken)
    with pytest.raises(error, match="a bug"):
        spaql.load(path)


def test_a_damaged_file_says_what_was_wrong_with_it(tmp_path):
    path = tmp_path / "agent.spaql"
    path.write_bytes(b"PK nothing")
    with pytest.raises(AgentFileError, match="not an agent file") as caught:
        spaql.load(path)
    assert isinstance(caught.value.__cause__, zipfile.BadZipFile)


def test_a_kept_partition_larger_than_the_trained_one_is_refused(tmp_path):
    """A reset copies the kept partition over the trained one, which has no room for more."""
    small, large = (spaql.SPAQL("oil", rollouts=1, seed=1).learn(iterations=n) for n in (3, 500))
    small._kept = large._kept
    path = tmp_path / "agent.spaql"
    path.write_bytes(to_bytes(small))
    with pytest.raises(AgentFileError, match="kept partition that is larger"):
        spaql.load(path)


def put_at(value, *at):
    def edit(array):
        array[at or ...] = value

    return edit


INVALID = {
    "a state that is not there": ("returned-dims", put_at(7, 0)),
    "a loop": ("returned-children", put_at(0, 0)),
    "a time step of a tree to learn by": ("policy-dims", put_at(1, 0)),
    "a cut outside the unit cube": ("returned-cuts", put_at(7.0, 0)),
    "a cut that is not a number": ("returned-cuts", put_at(np.nan, 0)),
    "an action outside its space": ("returned-actions", put_at(1.5, -1)),
    "a value that is not a number": ("returned-q", put_at(np.nan, 0)),
    "negative visits": ("returned-visits", put_at(-1, 0)),
    "a root without children": ("policy-dims", put_at(0, -1)),
    "an action that is not a number": ("novelty-actions", put_at(np.nan, 0)),
    "a state outside the unit cube": ("replay-points", put_at(5.0, 3)),
    "a next state that is not a number": ("replay-following", put_at(np.nan, 3)),
    "a recorded action outside its space": ("replay-actions", put_at(-0.1, 3)),
    "an infinite reward": ("replay-rewards", put_at(np.inf, 3)),
    "an end that is neither": ("replay-ended", put_at(2, 3)),
    "a time before the start": ("replay-times", put_at(-1, 3)),
    "a time after the horizon": ("replay-times", put_at(5, 3)),
    "more transitions than there are": ("replay-counts", put_at(10**6, 0)),
    "a plan that is never due": ("replay-counts", put_at(0, 1)),
    "a kind of plan that is not there": ("replay-counts", put_at(3, 2)),
}


@pytest.fixture(scope="module")
def ambulance_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "agent.spaql"
    agent = spaql.Tessera("ambulance", seed=3).learn(iterations=60)
    tree = PolicyTree(
        np.array([0, LEAF, LEAF], np.int32),
        np.array([0.5, 0.0, 0.0]),
        np.array([1, 0, 0], np.int32),
        np.array([[0.0], [0.25], [0.75]]),
        np.zeros(3, np.int32),
    )
    agent._tree, agent._returned = tree, LabelledTree(tree, np.zeros(3), np.array([0, 150, 150]))
    return agent.save(path)


@pytest.mark.parametrize("how", INVALID)
def test_invalid_trees_and_transitions_are_refused(tmp_path, ambulance_file, how):
    path = tmp_path / "agent.spaql"
    path.write_bytes(ambulance_file.read_bytes())
    assert spaql.load(path).iterations == 60
    with pytest.raises(AgentFileError, match=r"agent\.spaql: ") as error:
        spaql.load(edited(path, *INVALID[how]))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["replay-points", "replay-times", "policy-cuts", "returned-q", "elites"])
@pytest.mark.parametrize("how", MISSHAPEN)
def test_arrays_of_tessera_of_another_shape_or_type_are_refused(tmp_path, ambulance_file, name, how):
    path = tmp_path / "agent.spaql"
    path.write_bytes(ambulance_file.read_bytes())
    with pytest.raises(AgentFileError, match=r"agent\.spaql: "):
        spaql.load(replaced(path, name, MISSHAPEN[how]))
