"""What a cluster costs: Dask beside processes, and what each chunk and each run takes on its way.

`limits` turns the costs into what a study on many workers is limited by; docs/cluster.md does the arithmetic.
"""

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

from benchmarks import timing
from benchmarks.timing import Bar, Part
from spaql.runner.code_version import code_version
from spaql.runner.engines import KeepOpen
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
WORKERS = 1_000  # of the study on paper


def _short(seed: int, points: int = 0) -> Run:
    """A run of about 5 ms."""
    return Run("oil", {"survey": "laplace", "sharpness": 10}, _ALGORITHM, {"scaling": 0.5}, seed, 2000, 10, points)


def _nothing(seed: int) -> Run:
    """A run that hardly does anything."""
    return Run("oil", {"survey": "laplace", "sharpness": 10}, "random", {}, seed, 0, 0)


class _Counted(KeepOpen):
    """An engine that stays, and counts chunks."""

    chunks = 0

    def submit(self, chunk: Sequence[Run]) -> None:
        self.chunks += 1
        super().submit(chunk)


def _dask(address: str | None = None) -> Dask:
    return Dask(address, workers=2, timeout=None, algorithms=[_ALGORITHM], isolated=False)


def _seconds(runs: Sequence[Run], engine: Engine) -> float:
    """How long the runs take with a new store."""
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "runs.sqlite", code=code_version()) as store:
        start = time.perf_counter()
        done = run_many(runs, store, engine).done
        lasted = time.perf_counter() - start
    assert done == len(runs)
    return lasted


def dask_to_processes(bar: Bar) -> dict[str, Any]:
    """Throughput of Dask with two local workers over that of two processes."""
    bar("Dask and processes start")
    seeds = count()
    with closing(KeepOpen(Processes(2, algorithms=[_ALGORITHM]))) as processes, closing(KeepOpen(_dask())) as dask:
        kept = [processes, dask]
        for each in kept:
            _seconds([_short(next(seeds)) for _ in range(_PER_CHUNK)], each)
        pairs = []
        for _ in range(timing.REPEATS):
            bar("Dask against processes")
            pairs.append([_seconds([_short(next(seeds)) for _ in range(RUNS)], each) for each in kept])
    return {
        "ratio_dask_to_processes": statistics.median(first / second for first, second in pairs),
        "runs": RUNS,
        "processes_seconds_per_run": statistics.median(first for first, _ in pairs) / RUNS,
        "dask_seconds_per_run": statistics.median(second for _, second in pairs) / RUNS,
    }


def message_costs(bar: Bar) -> dict[str, Any]:
    """What chunks and runs cost on their way, in seconds and bytes."""
    bar("messages of Dask")
    seeds = count()
    with _cluster() as (address, scheduler), closing(_Counted(_dask(address))) as dask, dask:
        _all_of(dask, [[_nothing(next(seeds))] for _ in range(_PER_CHUNK)])
        trips = []
        for _ in range(_TRIPS):
            start = time.perf_counter()
            _all_of(dask, [[_nothing(next(seeds))]])
            trips.append(time.perf_counter() - start)
        chunks = [[_nothing(next(seeds))] for _ in range(CHUNKS)]
        before = time.process_time(), _cpu(scheduler), time.perf_counter()
        _all_of(dask, chunks)
        after = time.process_time(), _cpu(scheduler), time.perf_counter()
        client, of_scheduler, whole = ((b - a) / CHUNKS for a, b in zip(before, after, strict=True))
        bar("runs from Dask to the store")
        per_run = []
        for points in (0, _CURVE):
            runs = [_short(next(seeds), points) for _ in range(RUNS)]
            dask.chunks, start = 0, time.process_time()
            _seconds(runs, dask)
            per_run.append((time.process_time() - start - dask.chunks * client) / RUNS)
    bar("runs as bytes, and in a store")
    orders = Orders(code_version(), (os.getcwd(),), (_ALGORITHM,), None, False)
    plain, curves = ([_short(next(seeds), points) for _ in range(_PER_CHUNK)] for points in (0, _CURVE))
    return {
        "client_seconds_per_chunk": client,
        "scheduler_seconds_per_chunk": of_scheduler,
        "chunks_per_second": 1 / whole,
        "round_trip_seconds": statistics.median(trips),
        "client_seconds_per_run": per_run[0],
        "client_seconds_per_run_with_curve": per_run[1],
        "store_seconds_per_run": _storing(plain),
        "bytes_out_per_run": len(encode_chunk(orders, plain)) / _PER_CHUNK,
        "bytes_back_per_run": len(work(encode_chunk(orders, plain))) / _PER_CHUNK,
        "bytes_back_per_run_with_curve": len(work(encode_chunk(orders, curves))) / _PER_CHUNK,
    }


def _all_of(engine: Engine, chunks: Sequence[Sequence[Run]]) -> None:
    """Send chunks, and wait for all of them."""
    for chunk in chunks:
        engine.submit(chunk)
    left = sum(map(len, chunks))
    while left:
        left -= len(engine.collect(1.0))


def _storing(runs: Sequence[Run]) -> float:
    """CPU seconds per run of what a commit stores, a second's worth of them at a time."""
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
def _cluster() -> Iterator[tuple[str, int]]:
    """A scheduler and two workers in processes of their own: its address, and the id of its process."""
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


def _cpu(process: int) -> float:
    """CPU seconds of another process so far."""
    import psutil  # which Dask brings along

    times = psutil.Process(process).cpu_times()
    return float(times.user + times.system)


def limits(costs: dict[str, Any], workers: int = WORKERS) -> dict[str, float]:
    """What a study on so many workers is limited by, if each part may be busy all the time.

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


def cluster(bar: Bar) -> dict[str, Any] | None:
    """All of it; None where Dask is not installed."""
    if importlib.util.find_spec("distributed") is None:
        return None
    ratio, costs = dask_to_processes(bar), message_costs(bar)
    return {**ratio, "costs": costs, "limits": limits(costs)}


def _told(figures: dict[str, Any]) -> list[str]:
    found = figures["cluster"]
    if found is None:
        return ["a cluster: not measured, Dask is not installed"]
    costs, most = found["costs"], found["limits"]
    return [
        f"Dask with two workers: {found['ratio_dask_to_processes']:.2f} of the throughput of two processes",
        f"  a chunk costs {1e3 * costs['scheduler_seconds_per_chunk']:.2f} ms of the scheduler and "
        f"{1e3 * costs['client_seconds_per_chunk']:.2f} ms of the client, and is on its way for "
        f"{1e3 * costs['round_trip_seconds']:.0f} ms",
        f"  a run costs {1e3 * costs['client_seconds_per_run']:.2f} ms of the client, in the store "
        f"{1e3 * costs['store_seconds_per_run']:.3f} ms; {costs['bytes_out_per_run']:.0f} bytes go out, "
        f"{costs['bytes_back_per_run']:.0f} come back; with a learning curve "
        f"{1e3 * costs['client_seconds_per_run_with_curve']:.2f} ms and "
        f"{costs['bytes_back_per_run_with_curve']:.0f} bytes",
        f"  {most['workers']:,} workers: chunks of at least {most['shortest_chunk_seconds_for_the_scheduler']:.1f} s, "
        f"runs of at least {most['shortest_run_seconds']:.2f} s",
    ]


PARTS = {"cluster": Part(lambda bar: {"cluster": cluster(bar)}, _told, lambda: timing.REPEATS + 4)}
