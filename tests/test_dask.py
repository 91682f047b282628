"""Runs on a real Dask cluster: the same store as with threads, whatever is killed meanwhile."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import threading
import time

import psutil
import pytest
from distributed.scheduler import KilledWorker

from clusters import HERE, Cluster, dump, free_port, until
from spaql.errors import EngineError, StoreError
from spaql.runner.code_version import code_version
from spaql.runner.engines import Threads, make_engine
from spaql.runner.engines import dask as cluster
from spaql.runner.engines.dask import Dask
from spaql.runner.engines.engine import Lost
from spaql.runner.record import Failure, Record
from spaql.runner.run_many import run_many
from spaql.runner.run_spec import Run
from spaql.runner.store import Store
from test_run_many import foreign, run

SOAK = bool(os.environ.get("SPAQL_SOAK"))  # make soak
KILLS = int(os.environ.get("SPAQL_KILLS", "100" if SOAK else "1"))  # on each engine
RUNS = [run(seed, iterations=25_000, points=4) for seed in range(40)]  # of about 60 ms


@pytest.fixture(scope="module")
def dask(tmp_path_factory):
    """One cluster for all tests."""
    folder = tmp_path_factory.mktemp("dask")
    # Whoever kills workers at random must not be taken for a run that does.
    cluster = Cluster(folder, distributed__scheduler__allowed_failures=30)
    yield cluster
    cluster.end()


def made(runs, address, **settings):
    return make_engine("dask", runs, address=address, **settings)


class Recorder(Dask):
    """Keeps the sentences that it reports, and calls a function with each."""

    def __init__(self, address, listen=lambda sentence: None, isolated=False, timeout=None, algorithms=()):
        super().__init__(address, workers=None, timeout=timeout, algorithms=algorithms, isolated=isolated)
        self.sentences, self.listen = [], listen

    def report(self, sentence):
        self.sentences.append(sentence)
        self.listen(sentence)


# A cluster, and what may happen to it ----------------------------------------------------------------------------


@pytest.mark.compiled_only
def test_a_worker_and_then_the_scheduler_are_killed_and_the_store_is_that_of_threads(dask, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "_ALONE", 0.3)

    def listen(sentence):
        dask.start(workers=int(sentence.startswith("waits for workers")))

    engine, done = Recorder(dask.address, listen), []

    def finished(each):
        done.append(each.id)
        if len(done) == 6:
            dask.kill_worker(0)
        if len(done) == 15:
            assert not engine.sentences  # the other one did them
            dask.kill_scheduler()

    with Store(tmp_path / "dask.sqlite", code="test") as store:
        tally = run_many(RUNS, store, engine, finished=finished)
        assert (tally.done, tally.failed, store.progress["engine"]) == (40, 0, "dask")
    lost, back, waits = (sentence.partition(" at ")[0] for sentence in engine.sentences)
    assert (lost, back, waits) == ("lost the scheduler", "found the scheduler again; goes on", "waits for workers")
    with Store(tmp_path / "threads.sqlite", code="test") as store:
        run_many(RUNS, store, Threads(2))
    assert dump(tmp_path / "dask.sqlite") == dump(tmp_path / "threads.sqlite")


@pytest.mark.compiled_only
def test_whatever_an_environment_does_on_a_cluster_the_others_go_on(dask, tmp_path, monkeypatch):
    monkeypatch.chdir(HERE)  # from where workers find the environment
    bad = {how: foreign(how=how, always=True, algorithm="random") for how in ("hangs", "raises", "exits")}
    runs = [*bad.values(), *[foreign(seed, algorithm="random") for seed in range(4)]]
    with Store(tmp_path / "runs.sqlite", code="test") as store:
        tally = run_many(runs, store, Recorder(dask.address, isolated=True, timeout=4.0))
        assert (tally.done, tally.failed) == (4, 3)
        failures = store.failures()
    reported = {how: failures[each.id][1] for how, each in bad.items()}
    assert reported["raises"].kind == "error"
    assert "RuntimeError: the pump broke (unreliable.py, line" in reported["raises"].message
    assert reported["exits"] == Failure("killed", "its process exited with code 3; it was tried 3 times", 3)
    assert reported["hangs"] == Failure("time-out", "it took longer than 4 s")
    assert dask.workers[0].poll() is None


@pytest.mark.compiled_only
def test_a_run_that_overstays_its_time_and_one_that_nobody_waits_for(dask):
    long = run(iterations=500_000_000)
    with Recorder(dask.address, timeout=4.0, algorithms=["spaql"]) as engine:
        engine.submit([long, run(1)])
        outcomes = []
        until(lambda: outcomes.extend(engine.collect(0.1)) or len(outcomes) == 2)
        assert outcomes[0].result == Failure("time-out", "it took longer than 4 s")
        assert isinstance(outcomes[1].result, Record)
    with Recorder(dask.address) as engine:
        engine.submit([long])
        assert engine.collect(0.5) == []
    with Recorder(dask.address) as engine:  # it was stopped there, too, or this would wait for ever
        engine.submit([run(2)])
        until(lambda: engine.collect(0.1))


@pytest.mark.compiled_only
def test_a_worker_with_other_code(dask, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "code_version", lambda: "spaql 9.9, 0123456789ab")
    with Store(tmp_path / "runs.sqlite", code="test") as store:
        with pytest.raises(EngineError) as caught:
            run_many([run()], store, made([run()], dask.address))
        assert len(store) == 0
    assert str(caught.value).startswith("dask: the worker tcp://127.0.0.1:")
    assert f"computes with other code ({code_version()}, this is spaql 9.9, 0123456789ab); install" in str(caught.value)


@pytest.mark.compiled_only
def test_a_scheduler_that_does_not_come_back(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "PATIENCE", 0.3)
    monkeypatch.setattr(cluster, "_TRY", 0.3)
    alone = Cluster(tmp_path, workers=0)
    try:
        with Store(tmp_path / "runs.sqlite", code="test") as store:
            engine = Recorder(alone.address)
            before = engine.submit
            monkeypatch.setattr(engine, "submit", lambda chunk: before(chunk) or alone.kill_scheduler())
            with pytest.raises(EngineError, match=r"did not come back$"):
                run_many([run()], store, engine)
    finally:
        alone.end()


@pytest.mark.compiled_only
def test_a_cluster_of_this_machine(tmp_path):
    runs = [run(seed, points=2) for seed in range(4)]
    dumps = []
    for number, where in enumerate((Threads(1), made(runs, None, workers=1))):
        with Store(tmp_path / f"{number}.sqlite", code="test") as store:
            assert run_many(runs, store, where).done == 4
        dumps.append(dump(tmp_path / f"{number}.sqlite"))
    assert dumps[0] == dumps[1]
    until(lambda: not [thread for thread in threading.enumerate() if thread.name == "spaql dask"])


@pytest.mark.compiled_only
def test_an_agent_from_outside_the_package_gives_the_same_records_on_every_engine(tmp_path, monkeypatch):
    """A class with `learn` and `predict`, which has no cells, and a problem of a function, by their names alone."""
    monkeypatch.chdir(HERE.parent)  # from where workers import it
    name, shared = "tests.tabular:TabularQ", {"parameters": {"bins": 4}, "episodes": 3}
    runs = [
        *[
            Run("oil", {}, name, seed=seed, iterations=9, points=3, moments=3, moment_episodes=2, **shared)
            for seed in range(3)
        ],
        *[
            Run("tests.tabular:make_oil", {"sharpness": 3}, name, seed=seed, iterations=0, budgets=(20, 60), **shared)
            for seed in range(3)
        ],
        Run("CartPole-v1", {}, name, seed=0, iterations=0, budgets=(300,), **shared),
    ]
    assert make_engine(None, runs).name == "processes"
    dumps = []
    for engine in ("threads", "processes", "dask"):
        with Store(tmp_path / f"{engine}.sqlite", code="test") as store:
            assert run_many(runs, store, make_engine(engine, runs, workers=2)).complete, store.failures()
            dumps.append(dump(store.path))
            scalars = store.scalars(run.id for run in runs)
    assert dumps[0] == dumps[1] == dumps[2]
    assert {row["cells"] for row in scalars.values()} == {None}
    assert all(row["evaluation"] is not None and row["training_steps"] > 0 for row in scalars.values())


# Killed at random ------------------------------------------------------------------------------------------------

# A study in a process of its own, begun or gone on with; runs that failed because they were killed are tried again.
CLIENT = """
import sys
from test_dask import studied
from spaql.errors import SpaqlError
from spaql.runner.engines import make_engine
from spaql.runner.run_many import run_many
from spaql.runner.run_spec import Run
from spaql.runner.store import Store

name, address, path = sys.argv[1:]
try:
    with Store(path, code="test") as store:
        runs = studied()
        tally = run_many(runs, store, make_engine(name, runs, workers=2, address=address or None), retry_failed=True)
except SpaqlError as error:
    sys.exit(str(error))
sys.exit(0 if tally.complete else 3)
"""
VICTIMS = {
    "dask": ["worker"] * 6 + ["client"] * 3 + ["scheduler"],
    "processes": ["worker"] * 2 + ["client"],
    "threads": ["client"],
}


def studied():
    return [run(seed, iterations=80_000, points=4) for seed in range(300)] if SOAK else RUNS


class Disturbed:
    """A study whose client, workers and scheduler are killed again and again, each time after some runs finished."""

    def __init__(self, engine, dask, path):
        self.engine, self.dask, self.path = engine, dask, path
        self.killed = self.ends = 0
        self.start()

    def start(self):
        address = self.dask.address if self.engine == "dask" else ""
        environ = os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])}
        with open(self.path.with_suffix(".log"), "a") as log:
            call = [sys.executable, "-W", "ignore", "-c", CLIENT, self.engine, address, str(self.path)]
            self.client = subprocess.Popen(call, env=environ, stderr=log)

    def done(self):
        if not self.path.exists():
            return 0
        try:
            with Store.open_readonly(self.path) as store:
                return len(store)
        except StoreError:  # it is being made
            return 0

    def kill(self, victim, dice):
        self.killed += 1
        if victim == "client":
            self.client.kill()
            self.client.wait()
            self.start()
        elif self.engine == "processes":
            children = psutil.Process(self.client.pid).children()
            if children:
                dice.choice(children).kill()
        else:
            if victim == "worker":
                self.dask.kill_worker(dice.randrange(2))
            else:
                self.dask.kill_scheduler()
            self.dask.start()

    def until_done(self, victims, dice):
        while True:
            before = self.done()
            until(lambda before=before: self.client.poll() is not None or self.done() > before, 300)
            if self.client.poll() == 0:
                return
            if self.client.poll() is not None:  # it said that it cannot go on, or that some were killed too often
                self.ends += 1
                assert self.ends < 50, self.path.with_suffix(".log").read_text()[-2000:]
                self.start()
            elif victims:
                time.sleep(dice.random() * 0.3)
                if self.client.poll() is None:
                    self.kill(victims.pop(), dice)


@pytest.mark.compiled_only
@pytest.mark.parametrize("engine", list(VICTIMS))
def test_killed_at_random_and_gone_on_with_the_store_is_that_of_threads(dask, tmp_path, engine):
    dask.start(None if KILLS > 1 else 1)
    with Store(tmp_path / "threads.sqlite", code="test") as store:
        run_many(studied(), store, Threads(2))
    dice = random.Random(0)
    victims = [dice.choice(VICTIMS[engine]) for _ in range(KILLS)] if KILLS > 1 else ["client"]
    number, ends, many = 0, 0, len(victims)
    while victims:
        number += 1
        study = Disturbed(engine, dask, tmp_path / f"{number}.sqlite")
        try:
            study.until_done(victims, dice)
        finally:
            study.client.kill()
            study.client.wait()
        ends += study.ends
        assert "Traceback" not in study.path.with_suffix(".log").read_text()
        assert dump(study.path) == dump(tmp_path / "threads.sqlite")
    print(
        f"{many} kills in {number} studies on {engine}; {ends} times the client ended by itself and was started again"
    )


# Without one -----------------------------------------------------------------------------------------------------


class Refusing:
    """A client that stands, and whose every call fails in the same way."""

    status = "running"

    @property
    def loop(self):
        return self

    def add_callback(self, function, *arguments):
        asyncio.run(function(*arguments))

    def submit(self, *arguments, **options):
        raise TypeError("cannot be sent")

    def close(self):
        pass


def test_a_task_that_always_fails_is_a_failure_and_not_tried_for_ever(tmp_path, monkeypatch):
    def connect(self):
        self._client = Refusing()

    monkeypatch.setattr(Dask, "_connect", connect)
    with Store(tmp_path / "runs.sqlite", code="test") as store:
        tally = run_many([run(0), run(1)], store, Recorder("tcp://10.0.0.1:8786"))
        assert (tally.done, tally.failed) == (0, 2)
        for _, failure in store.failures().values():
            assert failure == Failure("error", "its task failed: TypeError: cannot be sent; it was tried 3 times", 3)


def test_nobody_at_the_address(monkeypatch):
    monkeypatch.setattr(cluster, "FIRST_PATIENCE", 0.0)
    monkeypatch.setattr(cluster, "_TRY", 0.3)
    address = f"tcp://127.0.0.1:{free_port()}"
    with pytest.raises(EngineError, match=rf"dask: no scheduler answers at {address} \(.*; start one with: dask"):
        made([run()], address).start()
    with pytest.raises(EngineError, match="dask: no scheduler answers at carrier://pigeon"):
        made([run()], "carrier://pigeon").start()


def test_dask_is_an_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(EngineError, match=r"dask: it is not installed; add it with: pip install 'spaql\[dask\]'"):
        made([run()], "tcp://127.0.0.1:8786").start()


def performed(runs, **changes):
    """What the client makes of a chunk that a worker performed for these orders."""
    engine = Dask(None, workers=1, timeout=None, algorithms=(), isolated=False)
    return engine._judge(runs, cluster.work(engine.orders | changes, [each.specification for each in runs]))


def test_a_chunk_as_bytes():
    runs = [run(1, points=3), run(2, parameters={"scaling": -1})]
    good, bad = performed(runs)
    with Threads(1) as engine:
        engine.submit(runs)
        outcomes = []
        until(lambda: outcomes.extend(engine.collect(0.1)) or len(outcomes) == 2)
    assert good.scalars == outcomes[0].result.scalars
    assert {name: array.tobytes() for name, array in good.arrays.items()} == {
        name: array.tobytes() for name, array in outcomes[0].result.arrays.items()
    }
    assert bad == outcomes[1].result


def test_a_chunk_for_other_code_is_not_done():
    assert cluster.work({"code": "other"}, [run().specification]) == ("nobody", code_version(), [])


def test_an_answer_that_is_empty_is_a_run_to_do_again():
    engine = Dask(None, workers=1, timeout=None, algorithms=(), isolated=False)
    assert engine._judge([run()], ("somebody", code_version(), [])) == [Lost()]


def test_a_worker_whose_processes_cannot_begin(monkeypatch):
    monkeypatch.setattr("sys.executable", "false")
    with pytest.raises(EngineError, match="3 ended before they were ready"):
        performed([run()], isolated=True)


@pytest.mark.compiled_only
def test_a_process_that_was_idle_for_too_long_ends_and_the_next_chunk_gets_another(monkeypatch):
    monkeypatch.setattr(cluster, "_IDLE_SECONDS", 0.1)
    assert isinstance(performed([run()], isolated=True)[0], Record)
    [child] = cluster._thread.engine._children
    until(lambda: child.process.poll() is not None)
    assert isinstance(performed([run(1)], isolated=True)[0], Record)
    cluster._thread.engine.close()
    cluster._thread.engine = None


def test_a_task_that_dask_gives_up():
    engine = Dask(None, workers=1, timeout=None, algorithms=(), isolated=False)
    error = KilledWorker("spaql-1", None, 3)
    assert engine._judge([run()], error) == [Failure("killed", "its worker died, 4 times", 4)]
    assert engine._judge([run(0), run(1)], error) == [Lost(alone=True)] * 2
    with pytest.raises(EngineError, match=r"^dask: a worker could not begin: 3 processes ended$"):
        engine._judge([run()], EngineError("3 processes ended"))
    with pytest.raises(EngineError, match=r"^dask: a worker failed: KeyError: 'x'$"):
        engine._judge([run()], KeyError("x"))


@pytest.mark.parametrize("place", ["scheduler", "worker"])
def test_a_place_without_spaql(place):
    class Client:
        def get_versions(self, packages):
            here, there = {"packages": {"spaql": "1"}}, {"packages": {"spaql": None}}
            return {
                "scheduler": there if place == "scheduler" else here,
                "workers": {"tcp://10.0.0.7:1": there if place == "worker" else here},
            }

    engine = Dask(None, workers=1, timeout=None, algorithms=(), isolated=False)
    engine._client = Client()
    with pytest.raises(EngineError) as caught:
        engine._judge([run()], ModuleNotFoundError("No module named 'spaql'"))
    where = {"scheduler": "the scheduler", "worker": "the worker tcp://10.0.0.7:1"}[place]
    assert str(caught.value).startswith(
        f"dask: {where} cannot load spaql (ModuleNotFoundError: No module named 'spaql'); install"
    )


def test_many_workers_ask_for_work_less_often():
    engine = Dask("tcp://10.0.0.1:8786", workers=None, timeout=None, algorithms=(), isolated=False)
    engine._set_workers({"a": 2, "b": 2})
    assert (engine.workers, engine.chunk_seconds) == (4, 1.0)
    engine._set_workers({str(number): 1 for number in range(1000)})
    assert (engine.workers, engine.chunk_seconds) == (1000, 4.0)
    engine._most = 3
    engine._set_workers({"a": 2, "b": 2})
    assert (engine.workers, engine.window) == (3, 1)  # and not six at once
    engine._set_workers({"a": 2})
    assert (engine.workers, engine.window) == (2, 2)
    engine._set_workers({})
    assert (engine.workers, engine.window) == (1, 2)
