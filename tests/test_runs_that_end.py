"""Studies end, whatever happens: with one sentence, a count of their runs, and a non-zero exit code."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from spaql.cli import main
from spaql.errors import EngineError, StoreError, StudyError
from spaql.runner import run_many as runs
from spaql.runner.engines import Processes, Threads
from spaql.runner.engines import processes as children
from spaql.runner.engines.engine import Lost, attempt
from spaql.runner.record import Failure, Record, decode_result, encode_result
from spaql.runner.run_many import LOSSES, run_many
from spaql.runner.store import STORE, Store
from spaql.studies.study import Group, run_study
from spaql.studies.sweep.status import read_status
from test_run_many import Forgetful, Staged, run

ONLY = "; only arrays of numbers can be stored"
STUDY = 'seeds = 4\niterations = 2\nepisodes = 2\n[[problems]]\nproblem = "oil"\n[[algorithms]]\nalgorithm = "random"\n'
EXECUTE = "spaql.runner.engines.engine.execute"


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "runs.sqlite", code="test") as store:
        yield store


@pytest.fixture
def command(tmp_path):
    (tmp_path / "study.toml").write_text(STUDY)
    return ["sweep", str(tmp_path / "study.toml"), "--out", str(tmp_path / "out"), "--quiet", "--workers", "1"]


# Retries ---------------------------------------------------------------------------------------------------------


def test_a_run_that_is_lost_again_and_again_is_a_failure(store):
    """An engine that loses a run for no fault of it, whatever it is, must not go on for ever."""
    engine = Forgetful(lambda each, chunk: Lost() if each.seed == 3 else None)
    tally = run_many([run(seed) for seed in range(9)], store, engine)
    assert (tally.done, tally.failed) == (8, 1)
    [(_, failure)] = store.failures().values()
    assert failure == Failure("killed", f"it was lost with its worker {LOSSES} times, each time before its end", LOSSES)
    assert sum(chunk.count(3) for chunk in engine.seen) == LOSSES


def test_a_process_that_never_becomes_ready_is_ended(tmp_path, monkeypatch):
    """As where a module hangs while it is imported."""
    idle = tmp_path / "python"
    idle.write_text("#!/bin/sh\nexec sleep 600\n")
    idle.chmod(0o700)
    monkeypatch.setattr("sys.executable", str(idle))
    monkeypatch.setattr(children, "_READY", 0.05)
    with Store(tmp_path / "runs.sqlite", code="test") as store:
        with pytest.raises(EngineError, match="worker process: 3 ended before they were ready"):
            run_many([run()], store, Processes(1))
        assert store.progress["state"] == "stopped"


def test_a_clock_that_jumps_changes_no_estimate(store, monkeypatch):
    """The time of day is only for people; what is measured is measured by a clock that does not jump."""
    clock = iter(range(10**9, 0, -3600))
    monkeypatch.setattr("spaql.runner.run_many.time.time", lambda: float(next(clock)))
    seen = []
    run_many([run(seed) for seed in range(4)], store, Threads(1), finished=lambda each: seen.append(each.seed))
    assert len(seen) == 4
    assert store.progress["updated"] < store.progress["began"]
    assert 0 <= store.progress["seconds"] < 3600
    assert runs.time is time


# What is reported ------------------------------------------------------------------------------------------------


class Pump:
    def start(self):
        raise RuntimeError("the pump broke")


def breaks(each, check):
    Pump().start()


def test_a_failure_has_its_traceback_on_any_engine(store, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(EXECUTE, breaks)
    failure = attempt(run())
    assert failure.message.startswith("RuntimeError: the pump broke (test_runs_that_end.py, line ")
    assert failure.traceback.startswith("Traceback (most recent call last):\n")
    assert "Pump().start()" in failure.traceback
    assert failure.traceback.endswith("RuntimeError: the pump broke\n")
    assert "in attempt" not in failure.traceback  # it begins with the run, which is the same on every engine
    assert decode_result(encode_result(failure)) == failure
    assert run_many([run()], store, Threads(1)).failed == 1
    assert store.failures()[run().id][1] == failure
    assert main(["sweep", "status", str(tmp_path), "--tracebacks"]) == 0
    assert "    RuntimeError: the pump broke\n" in capsys.readouterr().out
    assert main(["sweep", "status", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["failures"][0]["traceback"] == failure.traceback
    monkeypatch.undo()
    assert run_many([run()], store, Threads(1), retry_failed=True).done == 1
    assert store.failures() == {}
    assert not store._connection.execute("SELECT * FROM tracebacks").fetchall()


def test_a_store_of_an_earlier_version_has_no_tracebacks(tmp_path):
    with Store(tmp_path / STORE, code="test") as store:
        store.add((), failed=[("a", '{"seed": 1}', Failure("error", "broken"))])
        store._connection.execute("DROP TABLE tracebacks")
    with Store.open_readonly(tmp_path / STORE) as store:
        assert store.failures()["a"][1] == Failure("error", "broken")
    with Store(tmp_path / STORE, code="test") as store:
        store.add((), failed=[("b", '{"seed": 1}', Failure("error", "broken", 1, "Traceback"))])
        assert store.failures()["b"][1].traceback == "Traceback"


@pytest.mark.parametrize(
    ("record", "failure"),
    [
        (Record({"cells": "many"}), Failure("error", "its 'cells' is 'many', which is no number")),
        (Record({"cells": [1]}), Failure("error", "its 'cells' is [1], which is no number")),
        (
            Record({}, {"a": np.array([None])}),
            Failure("error", "its array 'a' is an array of 'object', not of plain numbers" + ONLY),
        ),
        (Record({}, {"a": [1.0]}), Failure("error", "its array 'a' is not an array" + ONLY)),
        (
            Record({}, {"a": np.array([1j])}),
            Failure("error", "its array 'a' is an array of 'complex128', not of plain numbers" + ONLY),
        ),
        (
            Record({}, {"a": np.array(["x"])}),
            Failure("error", "its array 'a' is an array of 'str32', not of plain numbers" + ONLY),
        ),
        (Record({"cells": 10**45}), Failure("error", f"its 'cells' is {10**45}, an integer of too many digits")),
        (Record({3: 1.0}), Failure("error", "a number or array is named 3, which is no text")),
    ],
)
def test_what_cannot_be_stored_is_a_failure_of_its_run(store, monkeypatch, record, failure):
    """Agents of one's own may report anything; the study goes on."""
    monkeypatch.setattr(EXECUTE, lambda each, check: record)
    assert run_many([run()], store, Threads(1)).failed == 1
    assert store.failures()[run().id][1] == failure


def test_arrays_in_any_order_are_read_as_they_were(store, monkeypatch):
    arrays = {
        "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "every other": np.arange(10)[::2],
        "records": np.zeros(3, [("a", np.int64), ("b", np.float32)]),
        "one": np.array(3.0),
        "flags": np.array([True, False]),
    }
    monkeypatch.setattr(EXECUTE, lambda each, check: Record({"cells": 1}, arrays))
    assert run_many([run()], store, Threads(1)).done == 1
    read = store.arrays(run().id)
    for name, array in arrays.items():
        assert read[name].dtype == array.dtype
        np.testing.assert_array_equal(read[name], array)


@pytest.mark.parametrize("record", [Record({"n": 10**45}), Record({}, {"a": np.array([1j])}), Record({"\udc80": 1})])
def test_what_could_not_be_read_again_is_not_stored(store, record):
    with pytest.raises(ValueError, match=r"an integer of too many|not of plain numbers|surrogates"):
        store.add([("a", "{}", record)])
    assert list(store.rows()) == []


def test_numbers_of_numpy_are_numbers(monkeypatch):
    monkeypatch.setattr(EXECUTE, lambda each, check: Record({"cells": np.int64(3), "evaluation": np.float32(0.5)}))
    scalars = attempt(run()).scalars
    assert scalars == {"cells": 3, "evaluation": 0.5}
    assert {type(value) for value in scalars.values()} == {int, float}


def test_the_error_of_a_study_that_needs_all_runs_says_where_its_traceback_is(tmp_path, monkeypatch):
    monkeypatch.setattr(EXECUTE, breaks)
    study = Staged(Group("oil", "random", run(algorithm="random", parameters={}, iterations=0), [3]))
    with pytest.raises(StudyError, match=r"the pump broke .*; spaql sweep status .* --tracebacks") as caught:
        run_study(study, tmp_path, workers=1)
    assert caught.value.__notes__ == ["0 of 1 runs finished, 1 failed; they are kept, and the same command resumes"]
    assert read_status(tmp_path).failures[0]["traceback"]


# The end of a study ----------------------------------------------------------------------------------------------


def fail_at(monkeypatch, name, number, error):
    """Let the n-th call of a method of threads raise an error."""
    calls, usual = [], getattr(Threads, name)

    def call(self, *arguments):
        calls.append(name)
        if len(calls) == number:
            raise error
        return usual(self, *arguments)

    monkeypatch.setattr(Threads, name, call)


def test_an_error_of_the_engine_ends_a_study_with_a_count_and_it_resumes(command, capsys, monkeypatch):
    fail_at(monkeypatch, "submit", 3, EngineError("dask: the scheduler did not come back"))
    assert main(command) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first == "spaql: dask: the scheduler did not come back"
    assert second.endswith(" of 4 runs finished; they are kept, and the same command resumes")
    monkeypatch.undo()
    assert main(command) == 0
    assert "4 of 4 runs finished" in capsys.readouterr().out


def raise_when_full(add):
    """What SQLite answers on a full disk, where runs are stored; `test_store` has the real one."""

    def add_or_raise(self, entries, **more):
        entries = list(entries)
        if entries:
            raise StoreError("the store: the disk is full; what was stored before is safe")
        return add(self, entries, **more)

    return add_or_raise


@pytest.mark.parametrize("when", ["first file", "later"])
def test_a_full_disk_ends_a_study_with_a_sentence_and_it_resumes(command, capsys, monkeypatch, when):
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def fsync(descriptor):
        raise full

    if when == "first file":
        monkeypatch.setattr("spaql.atomic_io.os.fsync", fsync)
    else:
        monkeypatch.setattr(Store, "add", raise_when_full(Store.add))
    assert main(command) == 2
    err = capsys.readouterr().err
    assert "Traceback" not in err
    assert ("No space left on device" if when == "first file" else "the disk is full") in err.splitlines()[0]
    assert err.splitlines()[-1].endswith("the same command resumes")
    monkeypatch.undo()
    assert main(command) == 0
    assert not [path for path in Path(command[3]).iterdir() if path.name.startswith(".")]
    capsys.readouterr()


@pytest.mark.skipif(not hasattr(signal, "SIGTERM") or sys.platform == "win32", reason="signals of POSIX")
def test_sigterm_stops_a_study_as_ctrl_c_does(command, capsys, monkeypatch):
    before = signal.getsignal(signal.SIGTERM)
    usual = attempt

    def terminate(each, *arguments):
        os.kill(os.getpid(), signal.SIGTERM)
        return usual(each, *arguments)

    monkeypatch.setattr("spaql.runner.engines.threads.attempt", terminate)
    assert main(command) == 128 + signal.SIGTERM
    _, err = capsys.readouterr()
    assert err == f"spaql: stopped; finished runs are kept in {command[3]}, and the same command resumes\n"
    assert signal.getsignal(signal.SIGTERM) is before
    assert read_status(command[3]).state == "stopped"
    monkeypatch.undo()
    assert main(command) == 0


# Workers whose parent is killed ----------------------------------------------------------------------------------

PARENT = """
import sys
from spaql.runner.engines import Processes
from test_run_many import foreign
engine = Processes(2, algorithms=["random"])
engine.start()
for number in range(2):
    engine.submit([foreign(number, "random", how="forks and hangs", always=True, once=sys.argv[1], times=9)])
while True:
    engine.collect(1.0)
"""


def is_alive(process):
    try:
        os.kill(process, 0)
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False


@pytest.mark.compiled_only
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux which processes there are")
def test_a_killed_parent_leaves_no_process_behind(tmp_path):
    """Its workers hang in an environment that has started processes of its own."""
    note = tmp_path / "note"
    path = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(note)], env=path, stderr=subprocess.PIPE)
    pids = tmp_path / "note.pids"
    while not pids.exists() or len(pids.read_text().split()) < 2:
        assert parent.poll() is None
        time.sleep(0.05)
    workers = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
    started = [*map(int, workers), *map(int, pids.read_text().split())]
    assert len(started) == 4
    parent.kill()
    said = parent.stderr.read()  # to its end: all processes have ended
    assert set(said.splitlines()) <= {b"a step"}  # which the environment prints
    parent.wait()
    for process in started:
        while is_alive(process):
            time.sleep(0.01)
    parent.stderr.close()
