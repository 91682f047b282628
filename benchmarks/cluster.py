"""The cost of a cluster: Dask relative to processes, and per chunk and run; docs/cluster.md does the arithmetic."""

from __future__ import annotations

import importlib.util
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks import Report, part, timing
from spaql.runner.code_version import code_version
from spaql.runner.engines.dask import Dask, Orders, encode_chunk, work
from spaql.runner.engines.engine import Engine
from spaql.runner.engines.processes import Processes
from spaql.runner.execute import execute
from spaql.runner.run_many import run_many
from spaql.runner.run_spec import Run
from spaql.runner.store import Store

RUNS = 1_600
CHUNKS = 1_000
_PER_CHUNK = 200  # runs of 5 ms that are worth a second
_CURVE = 50
_TRIPS = 30
_ALGORITHM = "spaql"
WORKERS = 1_000  # of the study that `limits` is about


@part
def cluster(report: Report) -> dict[str, Any]:
    """Throughput of Dask relative to processes, and what each chunk and each run costs; None without Dask.

    `ratio_dask_to_processes` is of the same short runs, about 5 ms each, on a Dask cluster of this machine with two
    workers and on two processes, both started and warm, each time with a new store; the aim is 0.8.  `costs`, with a
    scheduler and two workers in processes of their own: CPU seconds of the scheduler and of the client per chunk that
    does hardly anything, and its round trip; CPU seconds of the client per run, from reading the answer to the commit,
    with a learning curve of 50 points and without, and of a commit alone; bytes per run that are sent and returned in
    chunks of 200.  `limits`: what follows from them for 1,000 workers.
    """
    if importlib.util.find_spec("distributed") is None:
        return {"cluster": None}
    ratio, costs = compare_with_processes(report), measure_costs(report)
    return {"cluster": {**ratio, "costs": costs, "limits": find_limits(costs)}}


_SEEDS = count()


def _make_runs(number: int, points: int = 0) -> list[Run]:
    """Return runs of about 5 ms."""
    run = Run("oil", {"survey": "laplace", "sharpness": 10}, _ALGORITHM, {"scaling": 0.5}, 0, 2000, 10, points)
    return [run.with_seed(next(_SEEDS)) for _ in range(number)]


def _make_chunks(number: int) -> list[list[Run]]:
    """Return chunks of one run that does hardly anything."""
    run = Run("oil", {"survey": "laplace", "sharpness": 10}, "random", {}, 0, 0, 0)
    return [[run.with_seed(next(_SEEDS))] for _ in range(number)]


class _Counter(Dask):
    """A Dask engine that stays open and counts chunks."""

    chunks = 0
    keep_open = True

    def submit(self, chunk: Sequence[Run]) -> None:
        self.chunks += 1
        super().submit(chunk)


def _make_dask(address: str | None = None) -> _Counter:
    return _Counter(address, workers=2, timeout=None, algorithms=[_ALGORITHM], isolated=False)


def _time_runs(runs: Sequence[Run], engine: Engine) -> float:
    """Return how long the runs take with a new store."""
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "runs.sqlite", code=code_version()) as store:
        start = time.perf_counter()
        done = run_many(runs, store, engine).done
        lasted = time.perf_counter() - start
    assert done == len(runs)
    return lasted


def compare_with_processes(report: Report) -> dict[str, Any]:
    """Return the throughput of Dask with two local workers over that of two processes."""
    report("Dask and processes start")
    with closing(Processes(2, algorithms=[_ALGORITHM])) as processes, closing(_make_dask()) as dask:
        processes.keep_open = True
        for engine in (processes, dask):
            _time_runs(_make_runs(_PER_CHUNK), engine)
        report("Dask against processes")
        pairs = [[_time_runs(_make_runs(RUNS), each) for each in (processes, dask)] for _ in range(timing.REPEATS)]
    return {
        "ratio_dask_to_processes": statistics.median(first / second for first, second in pairs),
        "runs": RUNS,
        "processes_seconds_per_run": statistics.median(first for first, _ in pairs) / RUNS,
        "dask_seconds_per_run": statistics.median(second for _, second in pairs) / RUNS,
    }


def measure_costs(report: Report) -> dict[str, Any]:
    """Return what chunks and runs cost, in seconds and bytes."""
    report("messages of Dask")
    with _start_cluster() as (address, scheduler), closing(_make_dask(address)) as dask, dask:
        _perform(dask, _make_chunks(_PER_CHUNK))
        trips = [timing.measure_seconds(lambda: _perform(dask, _make_chunks(1))) for _ in range(_TRIPS)]
        chunks = _make_chunks(CHUNKS)
        before = time.process_time(), _read_cpu(scheduler), time.perf_counter()
        _perform(dask, chunks)
        after = time.process_time(), _read_cpu(scheduler), time.perf_counter()
        client, of_scheduler, whole = ((b - a) / CHUNKS for a, b in zip(before, after, strict=True))
        report("runs from Dask to the store")
        per_run = []
        for points in (0, _CURVE):
            runs = _make_runs(RUNS, points)
            dask.chunks, start = 0, time.process_time()
            _time_runs(runs, dask)
            per_run.append((time.process_time() - start - dask.chunks * client) / RUNS)
    report("runs as bytes, and in a store")
    orders = Orders(code_version(), (os.getcwd(),), (_ALGORITHM,), None, False)
    plain, curves = (_make_runs(_PER_CHUNK, points) for points in (0, _CURVE))
    return {
        "client_seconds_per_chunk": client,
        "scheduler_seconds_per_chunk": of_scheduler,
        "chunks_per_second": 1 / whole,
        "round_trip_seconds": statistics.median(trips),
        "client_seconds_per_run": per_run[0],
        "client_seconds_per_run_with_curve": per_run[1],
        "store_seconds_per_run": _time_commit(plain),
        "bytes_out_per_run": len(encode_chunk(orders, plain)) / _PER_CHUNK,
        "bytes_back_per_run": len(work(encode_chunk(orders, plain))) / _PER_CHUNK,
        "bytes_back_per_run_with_curve": len(work(encode_chunk(orders, curves))) / _PER_CHUNK,
    }


def _perform(engine: Engine, chunks: Sequence[Sequence[Run]]) -> None:
    """Submit chunks and wait for all of them."""
    for chunk in chunks:
        engine.submit(chunk)
    left = sum(map(len, chunks))
    while left:
        left -= len(engine.collect(1.0))


def _time_commit(runs: Sequence[Run]) -> float:
    """Return CPU seconds per run of a commit of a second's worth of runs."""
    entries = [(run.id, run.specification, execute(run)) for run in runs]
    with tempfile.TemporaryDirectory() as folder:
        times = []
        for number in range(timing.REPEATS):
            with Store(Path(folder) / f"{number}.sqlite", code=code_version()) as store:
                start = time.process_time()
                store.add(entries)
                times.append(time.process_time() - start)
    return statistics.median(times) / len(runs)


@contextmanager
def _start_cluster() -> Iterator[tuple[str, int]]:
    """Start a scheduler and two workers in processes of their own; yields its address and process id."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    usual = ["--host", "127.0.0.1", "--no-dashboard"]
    calls = [
        ["distributed.cli.dask_scheduler", "--port", str(port), *usual],
        *[["distributed.cli.dask_worker", address, "--nthreads", "1", "--no-nanny", *usual]] * 2,
    ]
    with tempfile.TemporaryDirectory() as folder:
        started = []
        try:
            for module, *words in calls:
                call = [sys.executable, "-W", "ignore", "-m", module, *words]
                started.append(subprocess.Popen(call, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            yield address, started[0].pid
        finally:
            for process in started:
                process.kill()
                process.wait()


def _read_cpu(process: int) -> float:
    """Return the CPU seconds of another process so far."""
    import psutil  # which Dask brings along

    times = psutil.Process(process).cpu_times()
    return float(times.user + times.system)


def find_limits(costs: dict[str, Any], workers: int = WORKERS) -> dict[str, float]:
    """Return what limits a study on this number of workers, if each part may be busy all the time.

    Each worker sends a chunk every s seconds: `scheduler_seconds_per_chunk * workers / s` is how busy the scheduler is,
    and `client_seconds_per_chunk * workers / s + client_seconds_per_run * workers / r` the client, for runs of r
    seconds.  Neither can be busier than 1.
    """
    return {
        "workers": workers,
        "shortest_chunk_seconds_for_the_scheduler": costs["scheduler_seconds_per_chunk"] * workers,
        "shortest_chunk_seconds_for_the_client": costs["client_seconds_per_chunk"] * workers,
        "shortest_run_seconds": costs["client_seconds_per_run"] * workers,
        "most_runs_per_second": 1 / costs["client_seconds_per_run"],
        "workers_kept_busy_with_runs_of_5_ms": 0.005 / costs["client_seconds_per_run"],
        "megabytes_per_second_at_most": (costs["bytes_out_per_run"] + costs["bytes_back_per_run"])
        / costs["client_seconds_per_run"]
        / 1e6,
    }
