"""Many runs on every engine: the same results to the last bit, each once, and none lost whatever happens to workers."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from numba.core import config

from spaql.agents import algorithms
from spaql.errors import EngineError, ParameterError, StudyError
from spaql.runner.engines import Processes, Threads, make_engine
from spaql.runner.engines.engine import Engine, Lost, Outcome, attempt
from spaql.runner.engines.processes import write_frame
from spaql.runner.record import Failure, Record
from spaql.runner.run_many import run_many
from spaql.runner.run_spec import Run
from spaql.runner.store import Store
from spaql.studies.study import Group, Stage, Study, run_study

pytestmark = pytest.mark.full_planning  # workers do not know of any other

OIL = {"survey": "laplace", "sharpness": 10}


def run(seed=0, **changes):
    iterations = 2 if config.DISABLE_JIT else 20
    settings = {"algorithm": "spaql", "parameters": {"scaling": 0.5}, "iterations": iterations, "episodes": 10}
    return Run("oil", OIL, seed=seed, **settings | changes)


def foreign(seed=0, algorithm="tessera", **arguments):
    return Run("unreliable:Unreliable-v0", arguments, algorithm, {}, seed, 4, 2)


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "runs.sqlite", code="test") as store:
        yield store


def contents(store, runs):
    scalars = store.scalars(each.id for each in runs)
    arrays = [{name: array.tolist() for name, array in store.arrays(each.id).items()} for each in runs]
    return [scalars.get(each.id) for each in runs], arrays


def all_threads_ended():
    for thread in threading.enumerate():
        if thread.name == "spaql run":
            thread.join(60)
            assert not thread.is_alive()


def alive(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


# All engines -------------------------------------------------------------------------------------------------


@pytest.mark.compiled_only
def test_a_loss_that_may_be_the_fault_of_the_run_is_limited(store):
    """An engine that can never perform a run says so again and again; that must end."""

    def lose(each, chunk):
        return Lost(alone=True, reason="its task failed: TypeError") if each.seed == 3 else None

    engine = Forgetful(lose)
    tally = run_many([run(seed) for seed in range(9)], store, engine)
    assert (tally.done, tally.failed) == (8, 1)
    [(_, failure)] = store.failures().values()
    assert failure == Failure("error", "its task failed: TypeError; it was tried 3 times", 3)


@pytest.mark.compiled_only
def test_every_engine_stores_the_same(tmp_path):
    runs = [run(seed, points=4) for seed in range(12)] + [foreign(seed) for seed in range(4)]
    stored = []
    for number, each in enumerate((Threads(1), Threads(3), Processes(2))):
        with Store(tmp_path / f"{number}.sqlite", code="test") as store:
            tally = run_many(runs, store, each)
            assert (tally.total, tally.done, tally.failed) == (16, 16, 0)
            stored.append(contents(store, runs))
    assert stored[0] == stored[1] == stored[2]
    assert None not in stored[0][0]


def test_only_what_is_missing_is_done(store):
    seen = []
    run_many([run(seed) for seed in range(5)], store, Threads(2))
    tally = run_many(
        [run(seed) for seed in range(8)] * 2, store, Threads(2), finished=lambda each: seen.append(each.seed)
    )
    assert sorted(seen) == [5, 6, 7]
    assert (tally.total, tally.done, len(store)) == (8, 8, 8)
    assert tally.complete


def test_a_run_that_fails_is_kept_with_its_message_and_the_others_go_on(store):
    runs = [run(seed) for seed in range(6)]
    runs.insert(3, run(seed=33, parameters={"scaling": -1.0}))
    failed = []
    tally = run_many(runs, store, Threads(2), failed=lambda each, failure: failed.append((each.seed, failure.message)))
    assert (tally.done, tally.failed) == (6, 1)
    [(seed, message)] = failed
    assert seed == 33
    assert message.startswith("scaling: ")
    [(specification, failure)] = store.failures().values()
    assert '"seed":33' in specification
    assert failure == Failure("error", message, 1)
    tried = []
    again = run_many(runs, store, Threads(2), failed=lambda each, failure: tried.append(each))
    assert (tried, again.failed) == ([], 1)  # not without being asked to
    run_many(runs, store, Threads(2), retry_failed=True, failed=lambda each, failure: tried.append(each))
    assert len(tried) == 1


def test_a_failure_that_succeeds_is_none_any_more(store):
    first = run()
    store.add((), failed=[(first.id, first.specification, Failure("error", "the pump broke"))])
    assert run_many([first], store, Threads(1)).failed == 1
    assert run_many([first], store, Threads(1), retry_failed=True).done == 1
    assert store.failures() == {}


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_interruption_stores_what_is_finished(store, error):
    seen = []

    def stop(each):
        seen.append(each.id)
        if len(seen) == 5:
            raise error

    with pytest.raises(error):
        run_many([run(seed) for seed in range(40)], store, Threads(2), finished=stop)
    assert set(seen) <= store.finished()
    assert len(store) < 40
    assert store.progress["state"] == "stopped"
    run_many([run(seed) for seed in range(40)], store, Threads(2))
    assert len(store) == 40


@pytest.mark.compiled_only
def test_an_interruption_does_not_wait_for_a_long_run(store):
    long = run(iterations=50_000_000)

    def stop(each):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_many([long, run()], store, Threads(2), finished=stop)
    assert store.finished() == {run().id}
    all_threads_ended()  # the long one heard it


class Staged(Study):
    """Groups one after the other; what the store says of progress after each of them."""

    def __init__(self, *groups):
        self.groups, self.states = groups, []

    def stages(self, results):
        for group in self.groups:
            yield Stage([group])
            self.states.append(results.store.progress["state"])


def test_a_study_that_needs_all_its_runs_stops_at_the_first_that_fails(tmp_path):
    bad = Group("oil", "bad", run(parameters={"scaling": -1.0}), [3])
    study = Staged(Group("oil", "spaql", run(), [0]), bad, Group("oil", "spaql", run(), range(9, 99)))
    with pytest.raises(StudyError, match=r"spaql\(scaling=-1\.0\) on oil\(.*seed 3: scaling"):
        run_study(study, tmp_path, workers=1)
    with Store.open_readonly(tmp_path / "runs.sqlite") as store:
        assert store.finished() == {run(0).id}
        assert store.progress["state"] == "stopped"


def test_what_came_back_with_the_run_that_stopped_it_is_kept(store):
    """A list of outcomes may hold many; the callback that raises at the first must not lose the others."""

    def stop(each):
        raise KeyboardInterrupt

    class AtOnce(Forgetful):
        window = 100

        def collect(self, timeout):
            outcomes = []
            while self.chunks:
                outcomes += super().collect(timeout)
            return outcomes

    engine = AtOnce(lambda each, chunk: None)
    with pytest.raises(KeyboardInterrupt):
        run_many([run(seed) for seed in range(30)], store, engine, finished=stop)
    assert len(store) == sum(map(len, engine.seen)) == 30


def test_a_message_that_is_no_text_can_be_stored(store, monkeypatch):
    def breaks(each, check):
        raise OSError(2, "no such file", b"pump-\xff".decode("utf-8", "surrogateescape"))

    monkeypatch.setattr("spaql.runner.engines.engine.execute", breaks)
    assert run_many([run()], store, Threads(1)).failed == 1
    [(_, failure)] = store.failures().values()
    assert "pump-\\udcff" in failure.message


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit("a\nb" * 1000)])
def test_whatever_a_run_raises_in_a_thread_is_a_failure_in_one_line(store, monkeypatch, error):
    def breaks(each, check):
        raise error

    monkeypatch.setattr("spaql.runner.engines.engine.execute", breaks)
    assert run_many([run(), run(1)], store, Threads(1)).failed == 2
    for _, failure in store.failures().values():
        assert "\n" not in failure.message
        assert len(failure.message) <= 500


def test_progress_is_stored(store):
    run_many([run(seed) for seed in range(3)], store, Threads(2))
    progress = store.progress
    assert (progress["state"], progress["total"], progress["done"], progress["failed"], progress["running"]) == (
        "finished",
        3,
        3,
        0,
        0,
    )
    assert (progress["engine"], progress["workers"], progress["seconds_left"]) == ("threads", 2, 0.0)


def test_a_study_in_stages_is_over_when_it_is_left(tmp_path):
    study = Staged(Group("oil", "spaql", run(), [0]), Group("oil", "spaql", run(), [0, 1]))
    run_study(study, tmp_path, workers=1)
    assert study.states == ["running", "running"]
    with Store.open_readonly(tmp_path / "runs.sqlite") as reading:
        assert (reading.progress["state"], reading.progress["done"]) == ("finished", 2)


# An engine that loses what it is given ---------------------------------------------------------------------------


class Forgetful(Engine):
    """Does runs where it is asked for results; loses some of them, and reports some twice."""

    name, chunk_seconds, workers = "forgetful", 1e9, 3

    def __init__(self, lose):
        self.lose, self.chunks, self.seen = lose, [], []

    def start(self):
        pass

    def submit(self, chunk):
        self.seen.append([each.seed for each in chunk])
        self.chunks.append(chunk)

    def collect(self, timeout):
        if not self.chunks:
            return []
        chunk = self.chunks.pop(0)
        return [
            Outcome(each, self.lose(each, chunk) or Record({"evaluation": 1.0}, {}, 0.01))
            for each in chunk
            for _ in "ab"
        ]

    def close(self):
        pass


def test_a_run_that_ends_its_worker_three_times_is_a_failure(store):
    def lose(each, chunk):
        return Failure("killed", "its process was ended") if each.seed == 3 else None

    engine = Forgetful(lose)
    tally = run_many([run(seed) for seed in range(9)], store, engine)
    assert (tally.done, tally.failed) == (8, 1)
    [(_, failure)] = store.failures().values()
    assert failure == Failure("killed", "its process was ended; it was tried 3 times", 3)
    assert engine.seen.count([3]) >= 2
    assert sum(chunk.count(3) for chunk in engine.seen) == 3


def test_a_run_that_was_lost_is_done_again_and_alone_where_it_is_suspected(store):
    losses = {2: [Lost(), Lost(alone=True)], 3: [Lost()] * 5}

    def lose(each, chunk):
        waiting = losses.get(each.seed)
        return waiting.pop() if waiting else None

    engine = Forgetful(lose)
    assert run_many([run(seed) for seed in range(30)], store, engine).done == 30
    assert [2] in engine.seen
    assert any(len(chunk) > 1 for chunk in engine.seen)


# Processes and what they survive ---------------------------------------------------------------------------------


@pytest.mark.compiled_only
def test_whatever_an_environment_does_the_others_go_on(store):
    hows = ("raises", "exits", "leaves", "killed", "nan", "memory", "hangs")
    bad = {how: foreign(how=how, always=True, algorithm="random") for how in hows}
    good = [foreign(seed, algorithm="random") for seed in range(6)]
    hangs = bad["hangs"]
    runs = [*(each for each in bad.values() if each is not hangs), *good, hangs]
    tally = run_many(runs, store, Processes(2, timeout=4.0, algorithms=["random"]))
    assert (tally.done, tally.failed) == (6, 7)
    failures = store.failures()
    reported = {how: failures[each.id][1] for how, each in bad.items()}
    assert reported["raises"].kind == "error"
    assert "RuntimeError: the pump broke (unreliable.py, line" in reported["raises"].message
    assert reported["exits"] == Failure("killed", "its process exited with code 3; it was tried 3 times", 3)
    assert reported["leaves"] == Failure("error", "it asked the interpreter to exit (4)")
    assert reported["killed"].kind == "killed"
    assert "ended by SIGKILL" in reported["killed"].message
    assert reported["nan"].kind == "error"
    assert "gave the reward nan" in reported["nan"].message
    assert reported["memory"] == Failure("memory", "not enough memory")
    assert reported["hangs"] == Failure("time-out", "it took longer than 4 s")


@pytest.mark.compiled_only
def test_a_worker_that_dies_once_costs_no_run(store, tmp_path):
    runs = [
        foreign(seed, "random", how="exits", always=True, once=str(tmp_path / "once"), times=2) for seed in range(8)
    ]
    assert run_many(runs, store, Processes(2)).done == 8


@pytest.mark.compiled_only
@pytest.mark.parametrize("how", ["forks and hangs", "forks and exits"])
def test_what_an_environment_starts_ends_with_it(store, tmp_path, how):
    """What an environment forked holds the line of its worker, whose end must be heard all the same."""
    note = tmp_path / "note"
    bad = foreign(how=how, always=True, algorithm="random", once=str(note), times=9)
    tally = run_many([bad], store, Processes(1, timeout=2.0, algorithms=["random"]))
    assert tally.failed == 1
    for started in map(int, (tmp_path / "note.pids").read_text().split()):
        for _ in range(3000):  # until the system has taken it away
            if not alive(started):
                break
            time.sleep(0.01)
        assert not alive(started)


OWN = """
from spaql import Random
from spaql.agents import register

@register("mine", label="mine")
class Mine(Random):
    pass
"""


def test_a_class_that_is_registered_here_only_is_found_by_other_processes(store, tmp_path, monkeypatch):
    (tmp_path / "own_algorithm.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("spaql.agents.registry._ENTRIES", algorithms())
    importlib.import_module("own_algorithm")
    own, built_in = (run(iterations=0, algorithm=name, parameters={}) for name in ("mine", "random"))
    run_many([own, built_in], store, Processes(1))
    scalars = store.scalars([own.id, built_in.id])
    assert scalars[own.id] == scalars[built_in.id]


@pytest.mark.compiled_only
def test_processes_end_with_their_engine(store):
    engine = Processes(2)
    with engine:
        children = [child.process for child in engine._children]
    assert all(child.poll() is not None for child in children)


@pytest.mark.compiled_only
def test_a_worker_whose_parent_is_gone_ends_without_a_word():
    script = "from spaql.runner.engines.processes import serve; serve()"
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    worker = subprocess.Popen([sys.executable, "-W", "ignore", "-c", script], start_new_session=True, **pipes)
    worker.stdout.close()  # nobody reads its answers
    write_frame(worker.stdin, json.dumps({"paths": [], "algorithms": [], "idle": None}).encode())
    assert worker.stderr.read() == b""
    assert worker.wait() != 1
    worker.stdin.close()
    worker.stderr.close()


def test_a_worker_that_cannot_begin(store, monkeypatch):
    monkeypatch.setattr("sys.executable", "false")
    with pytest.raises(EngineError, match="worker process: 3 ended before they were ready"):
        run_many([run()], store, Processes(1))
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    with pytest.raises(EngineError, match="worker process: it cannot be started: No such file"):
        run_many([run()], store, Processes(1))


# Threads that do not respond ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["learns", "hangs"])
def test_a_run_that_overstays_its_time_in_a_thread(store, how, monkeypatch):
    monkeypatch.setattr("spaql.runner.engines.threads._GRACE", 0.2)
    end = threading.Event()

    def execute(each, check):
        if each.seed == 5:
            while not end.wait(0.01):
                if how == "learns":
                    check()
        return Record({"evaluation": 1.0}, {"x": np.arange(3)})

    monkeypatch.setattr("spaql.runner.engines.engine.execute", execute)
    tally = run_many([run(seed) for seed in range(9)], store, Threads(1, timeout=0.2))
    end.set()
    assert (tally.done, tally.failed) == (8, 1)
    [(specification, failure)] = store.failures().values()
    assert '"seed":5' in specification
    assert failure == Failure("time-out", "it took longer than 0.2 s")
    all_threads_ended()


def test_a_score_that_is_no_number_is_a_failure(monkeypatch):
    monkeypatch.setattr(
        "spaql.runner.engines.engine.execute", lambda each, check: Record({"cells": 3, "evaluation": float("inf")})
    )
    assert attempt(run()) == Failure("nan", "its 'evaluation' is inf, which is no finite number")


# Choosing one ------------------------------------------------------------------------------------------------------


def test_the_engine_follows_the_problems():
    assert make_engine(None, [run()]).name == "threads"
    assert make_engine(None, [run(), foreign()]).name == "processes"
    assert make_engine("threads", [foreign()], workers=3).workers == 3
    with pytest.raises(ParameterError, match="engine: 'mpi' is not one of threads, processes, dask"):
        make_engine("mpi", [run()])
    with pytest.raises(ParameterError, match="address: only dask has one; leave it out"):
        make_engine("threads", [run()], address="tcp://127.0.0.1:8786")


class Faulty(Threads):
    """An engine whose events are outcomes or errors."""

    def _take(self, event):
        if isinstance(event, EngineError):
            raise event
        super()._take(event)


def test_outcomes_around_several_errors_are_returned_before_the_first_error_is_raised():
    engine = Faulty(1)
    for event in ("one", EngineError("first"), EngineError("second"), "two"):
        engine._events.put(event)
    assert engine.collect(0.0) == ["one", "two"]
    engine._events.put("three")
    with pytest.raises(EngineError, match="first"):
        engine.collect(60.0)
    assert engine.collect(0.0) == ["three"]  # `run_many` asks once more after an error
