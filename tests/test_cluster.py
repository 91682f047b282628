"""Runs on a real Dask cluster: the same store as with threads, whatever is killed meanwhile."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from clusters import HERE, Cluster, dump, free_port, until
from spaql.engines import Threads, cluster, engine, remote
from spaql.engines.base import Again
from spaql.engines.cluster import Dask
from spaql.errors import EngineError
from spaql.experiment import code
from spaql.running import perform
from spaql.store import Failure, Record, Store
from test_running import foreign, run

RUNS = [run(seed, iterations=25_000, points=4) for seed in range(40)]  # of about 60 ms


@pytest.fixture(scope="module")
def dask(tmp_path_factory):
    """One cluster for all tests."""
    folder = tmp_path_factory.mktemp("dask")
    cluster = Cluster(folder)
    yield cluster
    cluster.end()


def made(runs, address, **settings):
    return engine("dask", runs, address=address, **settings)


class Said(Dask):
    """Keeps what it says, and may be told to do something where it says it."""

    def __init__(self, address, hear=lambda sentence: None, isolated=False, timeout=None, algorithms=()):
        super().__init__(address, workers=None, timeout=timeout, algorithms=algorithms, isolated=isolated)
        self.said, self.hear = [], hear

    def say(self, sentence):
        self.said.append(sentence)
        self.hear(sentence)


# A cluster, and what may happen to it ----------------------------------------------------------------------------


@pytest.mark.compiled_only
def test_a_worker_and_then_the_scheduler_are_killed_and_the_store_is_that_of_threads(dask, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "_ALONE", 0.3)

    def hear(sentence):
        dask.start(workers=int(sentence.startswith("waits for workers")))

    engine, done = Said(dask.address, hear), []

    def finished(each):
        done.append(each.id)
        if len(done) == 6:
            dask.kill_worker(0)
        if len(done) == 15:
            assert not engine.said  # the other one did them
            dask.kill_scheduler()

    with Store(tmp_path / "dask.sqlite", code="test") as store:
        tally = perform(RUNS, store, engine, finished=finished)
        assert (tally.done, tally.failed, store.progress["engine"]) == (40, 0, "dask")
    lost, back, waits = (sentence.partition(" at ")[0] for sentence in engine.said)
    assert (lost, back, waits) == ("lost the scheduler", "found the scheduler again; goes on", "waits for workers")
    with Store(tmp_path / "threads.sqlite", code="test") as store:
        perform(RUNS, store, Threads(2))
    assert dump(tmp_path / "dask.sqlite") == dump(tmp_path / "threads.sqlite")


@pytest.mark.compiled_only
def test_whatever_an_environment_does_on_a_cluster_the_others_go_on(dask, tmp_path, monkeypatch):
    monkeypatch.chdir(HERE)  # from where workers find the environment
    bad = {how: foreign(how=how, always=True, algorithm="random") for how in ("hangs", "raises", "exits")}
    runs = [*bad.values(), *[foreign(seed, algorithm="random") for seed in range(4)]]
    with Store(tmp_path / "runs.sqlite", code="test") as store:
        tally = perform(runs, store, Said(dask.address, isolated=True, timeout=5.0))
        assert (tally.done, tally.failed) == (4, 3)
        failures = store.failures()
    told = {how: failures[each.id][1] for how, each in bad.items()}
    assert told["raises"].kind == "error"
    assert "RuntimeError: the pump broke (unreliable.py, line" in told["raises"].message
    assert told["exits"] == Failure("killed", "its process exited with code 3; it was tried 3 times", 3)
    assert told["hangs"] == Failure("time-out", "it took longer than 5 s")
    assert dask.workers[0].poll() is None


@pytest.mark.compiled_only
def test_a_run_that_overstays_its_time_and_one_that_nobody_waits_for(dask):
    long = run(iterations=500_000_000)
    with Said(dask.address, timeout=0.4) as engine:
        engine.submit([long, run(1)])
        found = []
        until(lambda: found.extend(engine.collect(0.1)) or len(found) == 2)
        assert found[0].result == Failure("time-out", "it took longer than 0.4 s")
        assert isinstance(found[1].result, Record)
    with Said(dask.address) as engine:
        engine.submit([long])
        assert engine.collect(0.5) == []
    with Said(dask.address) as engine:  # it was stopped there, too, or this would wait for ever
        engine.submit([run(2)])
        until(lambda: engine.collect(0.1))


@pytest.mark.compiled_only
def test_a_worker_with_other_code(dask, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "code", lambda: "spaql 9.9, 0123456789ab")
    with Store(tmp_path / "runs.sqlite", code="test") as store:
        with pytest.raises(EngineError) as caught:
            perform([run()], store, made([run()], dask.address))
        assert len(store) == 0
    assert str(caught.value).startswith("dask: the worker tcp://127.0.0.1:")
    assert f"computes with other code ({code()}, this is spaql 9.9, 0123456789ab); install" in str(caught.value)


@pytest.mark.compiled_only
def test_a_scheduler_that_does_not_come_back(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "PATIENCE", 0.3)
    monkeypatch.setattr(cluster, "_TRY", 0.3)
    alone = Cluster(tmp_path, workers=0)
    try:
        with Store(tmp_path / "runs.sqlite", code="test") as store:
            engine = Said(alone.address)
            before = engine.submit
            monkeypatch.setattr(engine, "submit", lambda chunk: before(chunk) or alone.kill_scheduler())
            with pytest.raises(EngineError, match=r"did not come back; finished runs are kept, and the same command"):
                perform([run()], store, engine)
    finally:
        alone.end()


@pytest.mark.compiled_only
def test_a_cluster_of_this_machine(tmp_path):
    runs = [run(seed, points=2) for seed in range(4)]
    found = []
    for number, where in enumerate((Threads(1), made(runs, None, workers=1))):
        with Store(tmp_path / f"{number}.sqlite", code="test") as store:
            assert perform(runs, store, where).done == 4
        found.append(dump(tmp_path / f"{number}.sqlite"))
    assert found[0] == found[1]
    until(lambda: not [thread for thread in threading.enumerate() if thread.name == "spaql dask"])


# Without one -----------------------------------------------------------------------------------------------------


def test_nobody_at_the_address(monkeypatch):
    monkeypatch.setattr(cluster, "FIRST_PATIENCE", 0.0)
    monkeypatch.setattr(cluster, "_TRY", 0.3)
    address = f"tcp://127.0.0.1:{free_port()}"
    with pytest.raises(EngineError, match=rf"dask: no scheduler answers at {address} \(.*; start one with: dask"):
        made([run()], address).__enter__()
    with pytest.raises(EngineError, match="dask: no scheduler answers at carrier://pigeon"):
        made([run()], "carrier://pigeon").__enter__()


def test_dask_is_an_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed.versions", None)
    with pytest.raises(EngineError, match=r"dask: it is not installed; add it with: pip install 'spaql\[dask\]'"):
        made([run()], "tcp://127.0.0.1:8786").__enter__()


def orders(**changes):
    return remote.Orders(
        **{"code": code(), "paths": (os.getcwd(),), "algorithms": (), "timeout": None, "isolated": False} | changes
    )


def test_a_chunk_as_bytes():
    runs = [run(1, points=3), run(2, parameters={"scaling": -1})]
    said, [good, bad] = remote.answered(remote.work(remote.asked(orders(), runs)), runs)
    assert said == {"worker": "nobody", "code": code()}
    with Threads(1) as engine:
        engine.submit(runs)
        found = []
        until(lambda: found.extend(engine.collect(0.1)) or len(found) == 2)
    assert good.run is runs[0]
    assert good.result.scalars == found[0].result.scalars
    assert {name: array.tobytes() for name, array in good.result.arrays.items()} == {
        name: array.tobytes() for name, array in found[0].result.arrays.items()
    }
    assert (bad.run, bad.result) == (runs[1], found[1].result)


def test_a_chunk_for_other_code_is_not_done():
    said, outcomes = remote.answered(remote.work(remote.asked(orders(code="other"), [run()])), [run()])
    assert (said["code"], outcomes) == (code(), [])


def test_an_answer_that_is_empty_is_a_run_to_do_again():
    said, [outcome] = remote.answered(b"", [run()])
    assert (said, outcome.result) == ({}, Again())


def test_a_worker_whose_processes_cannot_begin(monkeypatch):
    monkeypatch.setattr("sys.executable", "false")
    with pytest.raises(EngineError, match="3 processes ended before they had begun"):
        remote.work(remote.asked(orders(isolated=True), [run()]))
