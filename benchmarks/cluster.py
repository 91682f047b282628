"""The cost of a cluster: Dask relative to processes, and per chunk and run; see docs/how-to/cluster.md."""

import importlib.util
import pickle
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks import Report, measure_in_turn, measure_seconds, median_ratio, part
from spaql.runner.code_version import code_version
from spaql.runner.engines.dask import Dask, work
from spaql.runner.engines.engine import Engine
from spaql.runner.engines.processes import Processes
from spaql.runner.execute import execute
from spaql.runner.run_many import run_many
from spaql.runner.run_spec import Run
from spaql.runner.store import Store

RUNS = 1_600
CHUNKS = 1_000
_PER_CHUNK = 200  # runs of 5 ms that are worth a second
_TRIPS = 30
_ALGORITHM = "spaql"
WORKERS = 1_000  # of the study that `limits` is about
_SEEDS = count()
_RUN = Run("oil", {"survey": "laplace", "sharpness": 10}, _ALGORITHM, {"scaling": 0.5}, 0, 2000, 10)  # about 5 ms
_RUN_WITH_CURVE = replace(_RUN, points=50)
_EMPTY_RUN = Run(_RUN.problem, _RUN.arguments, "random", {}, 0, 0, 0)  # which does hardly anything


@part
def cluster(report: Report) -> dict[str, Any]:
    """Throughput of Dask relative to processes, and what each chunk and each run costs; None without Dask.

    `ratio_dask_to_processes` is of the same short runs, about 5 ms each, on two warm workers and on two warm processes;
    the aim is 0.8.  `costs`, with a scheduler and two workers in processes of their own: CPU seconds per chunk that is
    almost empty, and its round trip; CPU seconds of the client per run, from reading the answer to the commit; bytes
    per run in chunks of 200.  `limits`: what follows from them for 1,000 workers.
    """
    if importlib.util.find_spec("distributed") is None:
        return {"cluster": None}
    ratio, costs = _compare_with_processes(report), _measure_costs(report)
    return {"cluster": {**ratio, "costs": costs, "limits": find_limits(costs)}}


def _make_runs(number: int, run: Run = _RUN) -> list[Run]:
    return [run.with_seed(next(_SEEDS)) for _ in range(number)]


class _Counter(Dask):
    """A Dask engine for two workers that stays open and counts chunks."""

    keep_open = True

    def __init__(self, address: str | None = None) -> None:
        super().__init__(address, workers=2, timeout=None, algorithms=[_ALGORITHM], isolated=False)
        self.chunks = 0

    def submit(self, chunk: Sequence[Run]) -> None:
        self.chunks += 1
        super().submit(chunk)


def _prepare_runs(engine: Engine, number: int = RUNS, run: Run = _RUN) -> Callable[[], int]:
    """Return a call that performs new runs with a new store."""
    runs = _make_runs(number, run)

    def call() -> int:
        with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "runs.sqlite", code=code_version()) as store:
            assert run_many(runs, store, engine).complete
        return len(runs)

    return call


def _compare_with_processes(report: Report) -> dict[str, Any]:
    report("Dask and processes start")
    with closing(Processes(2, algorithms=[_ALGORITHM])) as processes, closing(_Counter()) as dask:
        processes.keep_open = True
        for engine in (processes, dask):
            _prepare_runs(engine, _PER_CHUNK)()
        report("Dask against processes")
        ours, theirs = measure_in_turn(*(partial(_prepare_runs, engine) for engine in (dask, processes)))
    return {
        "ratio_dask_to_processes": median_ratio(theirs, ours),
        "runs": RUNS,
        "processes_seconds_per_run": statistics.median(theirs),
        "dask_seconds_per_run": statistics.median(ours),
    }


def _measure_costs(report: Report) -> dict[str, Any]:
    import psutil  # which Dask brings along
    from distributed import SubprocessCluster

    report("messages of Dask")
    places = {"n_workers": 2, "threads_per_worker": 1, "worker_class": "distributed.Worker", "dashboard_address": None}
    with SubprocessCluster(**places) as cluster, closing(_Counter(cluster.scheduler_address)) as dask, dask:
        scheduler = psutil.Process(cluster.scheduler.process.pid)
        _perform_chunks(dask, _PER_CHUNK)
        trips = [measure_seconds(partial(_perform_chunks, dask, 1)) for _ in range(_TRIPS)]
        before = time.process_time(), sum(scheduler.cpu_times()[:2]), time.perf_counter()
        _perform_chunks(dask, CHUNKS)
        after = time.process_time(), sum(scheduler.cpu_times()[:2]), time.perf_counter()
        client, of_scheduler, whole = ((b - a) / CHUNKS for a, b in zip(before, after, strict=True))
        report("runs from Dask to the store")
        per_run = []
        for run in (_RUN, _RUN_WITH_CURVE):
            call = _prepare_runs(dask, RUNS, run)
            dask.chunks, start = 0, time.process_time()
            call()
            per_run.append((time.process_time() - start - dask.chunks * client) / RUNS)
    report("runs as bytes, and in a store")
    plain, curves = (_make_runs(_PER_CHUNK, run) for run in (_RUN, _RUN_WITH_CURVE))
    sent, with_curves = ((dask.orders, [run.specification for run in runs]) for runs in (plain, curves))
    return {
        "client_seconds_per_chunk": client,
        "scheduler_seconds_per_chunk": of_scheduler,
        "chunks_per_second": 1 / whole,
        "round_trip_seconds": statistics.median(trips),
        "client_seconds_per_run": per_run[0],
        "client_seconds_per_run_with_curve": per_run[1],
        "store_seconds_per_run": _time_commit(plain),
        "bytes_out_per_run": len(pickle.dumps(sent)) / _PER_CHUNK,
        "bytes_back_per_run": len(pickle.dumps(work(*sent))) / _PER_CHUNK,
        "bytes_back_per_run_with_curve": len(pickle.dumps(work(*with_curves))) / _PER_CHUNK,
    }


def _perform_chunks(engine: Engine, number: int) -> None:
    """Submit chunks of one run that does hardly anything, and wait for all of them."""
    for run in _make_runs(number, _EMPTY_RUN):
        engine.submit([run])
    while number > 0:
        number -= len(engine.collect(1.0))


def _time_commit(runs: Sequence[Run]) -> float:
    """Return CPU seconds per run of a commit of a second's worth of runs."""
    entries = [(run.id, run.specification, execute(run)) for run in runs]
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "runs.sqlite", code=code_version()) as store:
        start = time.process_time()
        store.add(entries)
        return (time.process_time() - start) / len(runs)


def find_limits(costs: dict[str, Any]) -> dict[str, float]:
    """Return what limits a study on `WORKERS` workers if each part is always busy; see docs/how-to/cluster.md."""
    per_run = costs["client_seconds_per_run"]
    return {
        "workers": WORKERS,
        "shortest_chunk_seconds_for_the_scheduler": costs["scheduler_seconds_per_chunk"] * WORKERS,
        "shortest_chunk_seconds_for_the_client": costs["client_seconds_per_chunk"] * WORKERS,
        "shortest_run_seconds": per_run * WORKERS,
        "most_runs_per_second": 1 / per_run,
        "workers_kept_busy_with_runs_of_5_ms": 0.005 / per_run,
        "megabytes_per_second_at_most": (costs["bytes_out_per_run"] + costs["bytes_back_per_run"]) / per_run / 1e6,
    }
