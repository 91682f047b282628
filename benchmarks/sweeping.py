"""Studies of many runs: what the runner and its store cost beside the runs, and how soon a large study goes on."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks import timing
from benchmarks.timing import Bar, Part, seconds
from spaql.runner.code_version import code_version
from spaql.runner.engines import Threads
from spaql.runner.execute import execute
from spaql.runner.record import Record
from spaql.runner.run_many import run_many
from spaql.runner.run_spec import Run, seeds_at
from spaql.runner.store import STORE, Store
from spaql.studies.sweep.groups import Sweep

SHORT_RUNS = 10_000
FINISHED = 100_000
_WORKERS = 2
_SHORT = Run("ambulance", {}, "spaql", {}, 0, 750, 100)  # about five milliseconds
_ADDED = 10_000
_SCALARS = {
    **{"training_score": 4.25, "cells": 100, "training_steps": 1000, "selection_steps": 20_000, "monitoring_steps": 0},
    **{"value_low": 5.0, "value_high": 5.0, "resets": 10, "evaluation": 4.125, "evaluation_steps": 500},
}


def sweeps(bar: Bar) -> dict[str, Any]:
    """(n)."""
    with tempfile.TemporaryDirectory() as folder:
        figures = _throughput(bar, Path(folder) / STORE)
    with tempfile.TemporaryDirectory() as folder:
        bar("store")
        figures["store_ms_per_run"] = _store_cost(Path(folder) / STORE)
    bar("resume")
    with tempfile.TemporaryDirectory() as folder:
        figures |= {"finished": FINISHED, "resume_seconds": _resume(Path(folder))}
    return figures


def _throughput(bar: Bar, path: Path) -> dict[str, Any]:
    """Ours over bare calls, block by block, in turn; and the memory of this process after each of ours."""
    seeds = iter(seeds_at(2 * SHORT_RUNS, "bench"))
    size = SHORT_RUNS // timing.REPEATS

    def some() -> list[Run]:
        return [_SHORT.with_seed(next(seeds)) for _ in range(size)]

    def bare(runs: Sequence[Run]) -> None:
        def each(first: int) -> None:
            for run in runs[first::_WORKERS]:
                execute(run)

        with ThreadPoolExecutor(_WORKERS) as pool:
            list(pool.map(each, range(_WORKERS)))

    execute(_SHORT)
    ratios, alone, memory = [], [], []
    with Store(path, code=code_version()) as store:
        for block in range(timing.REPEATS):
            bar(f"short runs, block {block + 1}")
            runs, others = some(), some()
            alone.append(seconds(lambda runs=runs: bare(runs)))  # type: ignore[misc]
            ours = seconds(lambda others=others: run_many(others, store, Threads(_WORKERS)))  # type: ignore[misc]
            ratios.append(alone[-1] / ours)
            memory.append(_megabytes())
    return {
        "runs": SHORT_RUNS,
        "ms_per_run": 1e3 * statistics.median(alone) * _WORKERS / size,
        "throughput_to_bare": statistics.median(ratios),
        "megabytes": memory,
    }


def _megabytes() -> float | None:
    """Memory of this process now; None where the system does not tell."""
    try:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) * 1024 / 1e6 for line in status if line.startswith("VmRSS"))
    except OSError:
        return None


def _store_cost(path: Path) -> float:
    """Milliseconds to store a finished run, in the transactions of a sweep of short runs."""
    record = Record(_SCALARS)
    runs = [_SHORT.with_seed(seed) for seed in range(_ADDED)]
    with Store(path, code=code_version()) as store:

        def add() -> None:
            for first in range(0, _ADDED, 100):
                store.add((run.id, run.specification, record) for run in runs[first : first + 100])

        return 1e3 * seconds(add) / _ADDED


def _resume(folder: Path) -> float:
    """Seconds from the command until the one missing run of a large study is handed out."""
    study = folder / "study.toml"
    scalings = ", ".join(f"{0.01 * (i + 1):.2f}" for i in range(100))
    study.write_text(
        f"seeds = {FINISHED // 100}\niterations = 20\nepisodes = 10\n[[problems]]\nproblem = 'oil'\n"
        f"[[algorithms]]\nalgorithm = 'spaql'\ngrid = {{ scaling = [{scalings}] }}\n"
    )
    runs = Sweep.read(study).runs[1:]
    with Store(folder / STORE, code=code_version()) as store:
        for first in range(0, len(runs), 10_000):
            store.add((run.id, run.specification, Record(_SCALARS)) for run in runs[first : first + 10_000])
    call = [sys.executable, "-m", "spaql", "sweep", str(study), "--out", str(folder), "--quiet"]
    start = time.time()
    subprocess.run(call, check=True, capture_output=True)
    with Store.open_readonly(folder / STORE) as store:
        assert store.progress is not None
        assert store.progress["done_now"] == 1
        return float(store.progress["began"]) - start


def _told(figures: dict[str, Any]) -> list[str]:
    found = figures["sweeps"]
    memory = [megabytes for megabytes in found["megabytes"] if megabytes is not None]
    grew = f"; memory from {memory[0]:.0f} to {memory[-1]:.0f} MB" if memory else ""
    return [
        f"sweeps: {found['runs']:,} runs of {found['ms_per_run']:.1f} ms on two threads with "
        f"{100 * found['throughput_to_bare']:.0f}% of the throughput of bare calls{grew}",
        f"sweeps: storing a run takes {found['store_ms_per_run']:.3f} ms; a study with {found['finished']:,} finished "
        f"runs goes on after {found['resume_seconds']:.1f} s",
    ]


PARTS = {
    "sweeps": Part(lambda bar: {"sweeps": sweeps(bar)}, _told, lambda: timing.REPEATS + 2),
}
