"""Studies of many runs: the cost of the runner and its store besides the runs, and of large stores."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import benchmarks
from benchmarks import Report, measure_in_turn, measure_seconds, median_ratio, part, repeat
from spaql.runner.code_version import code_version
from spaql.runner.engines import Threads
from spaql.runner.execute import execute
from spaql.runner.record import Record
from spaql.runner.run_many import Tally, announce, conclude, run_many
from spaql.runner.run_spec import Run, seeds_at
from spaql.runner.store import STORE, Store
from spaql.studies.study import STUDY, describe
from spaql.studies.sweep.comparison_table import compare
from spaql.studies.sweep.group_values import read_values
from spaql.studies.sweep.status import read_status
from spaql.studies.sweep.sweep_study import Sweep

RUNS = 200_000
SHAPES = (2, 2_000, 10_000)  # groups
SHORT_RUNS = 10_000
FINISHED = 100_000
_ADDED = 10_000
_WORKERS = 2
_SHORT = Run("ambulance", {}, "spaql", {}, 0, 750, 100)  # about five milliseconds
_SCALARS = {
    **{"training_score": 4.25, "cells": 100, "training_steps": 1000, "selection_steps": 20_000, "monitoring_steps": 0},
    **{"value_low": 5.0, "value_high": 5.0, "resets": 10, "evaluation": 4.125, "evaluation_steps": 500},
}


def fill_folder(folder: str | os.PathLike[str], runs: int, groups: int) -> Sweep:
    """Fill a folder with made-up finished runs of a study, in groups of one algorithm; the first is the baseline."""
    scalings = [round(0.001 * (at + 1), 6) for at in range(groups)]
    data = {
        "name": "made up",
        "seeds": runs // groups,
        "iterations": 100,
        "episodes": 100,
        "baseline": f"aql, scaling={scalings[0]:.6g}",
        "problems": [{"problem": "oil"}],
        "algorithms": [{"algorithm": "aql", "parameters": {"rollouts": 0}, "grid": {"scaling": scalings}}],
    }
    study = Sweep(data)
    (Path(folder) / STUDY).write_text(describe(study, study.groups), encoding="utf-8")
    scores = np.random.default_rng(0).normal(4.0, 0.2, runs).tolist()
    with Store(Path(folder) / STORE, code=code_version()) as store:
        _add_runs(store, study.runs, [_SCALARS | {"evaluation": score} for score in scores])
        announce(store, Threads(_WORKERS), Tally(runs, runs, 0))
        conclude(store, stopped=False)
    return study


def _add_runs(store: Store, runs: Sequence[Run], scalars: Sequence[dict[str, Any]], size: int = 5_000) -> None:
    """Store records of runs, some in each transaction."""
    for first in range(0, len(runs), size):
        pairs = zip(runs[first : first + size], scalars[first : first + size], strict=True)
        store.add([(run.id, run.specification, Record(each, seconds=0.005)) for run, each in pairs])


@part
def tables(report: Report) -> dict[str, Any]:
    """Seconds to read the status of a study of 200,000 finished runs, in 2 to 10,000 groups, and to make its table.

    The worst over the numbers of groups; the table has all its intervals.  The aims are 1 and 10.
    """
    shapes: dict[str, Any] = {}
    for groups in SHAPES:
        report(f"a store of {RUNS:,} runs in {groups:,} groups")
        with tempfile.TemporaryDirectory() as folder:
            fill_folder(folder, RUNS, groups)
            shapes[f"{groups}_groups"] = {
                "status_seconds": measure_seconds(lambda: read_status(folder)),
                "table_seconds": measure_seconds(lambda: compare(read_values(folder)).format("text")),
                "megabytes": (Path(folder) / STORE).stat().st_size / 1e6,
            }
    worst = {name: max(each[name] for each in shapes.values()) for name in ("status_seconds", "table_seconds")}
    return {"tables": {"runs": RUNS, **worst, **shapes}}


@part
def sweeps(report: Report) -> dict[str, Any]:
    """Ten thousand short runs on two threads: throughput relative to bare calls, memory, storing, resuming.

    `throughput_to_bare` is the time of two threads that call the same runs one after the other over that of the runner
    and its store, in blocks measured in turn; `megabytes` of the process after each block; `store_ms_per_run` to store
    a run; `resume_seconds` from the command until a study with a hundred thousand finished runs starts the next.  The
    aims are 0.9, flat, 0.3 and 3.
    """
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / STORE, code=code_version()) as store:
        figures = _measure_throughput(report, store)
        report("store")
        runs = [_SHORT.with_seed(seed) for seed in range(_ADDED)]
        seconds = measure_seconds(lambda: _add_runs(store, runs, [_SCALARS] * _ADDED, 100))
    report("resume")
    with tempfile.TemporaryDirectory() as folder:
        resume = _measure_resume(Path(folder))
    figures |= {"store_ms_per_run": 1e3 * seconds / _ADDED, "finished": FINISHED, "resume_seconds": resume}
    return {"sweeps": figures}


def _measure_throughput(report: Report, store: Store) -> dict[str, Any]:
    seeds = iter(seeds_at(2 * SHORT_RUNS, "bench"))
    size = SHORT_RUNS // benchmarks.REPEATS
    memory = []

    def call(runs: Sequence[Run]) -> None:
        with ThreadPoolExecutor(_WORKERS) as pool:
            list(pool.map(lambda first: [execute(run) for run in runs[first::_WORKERS]], range(_WORKERS)))

    def perform(runs: Sequence[Run]) -> None:
        run_many(runs, store, Threads(_WORKERS))
        memory.append(_read_megabytes())

    def prepare(work: Callable[[Sequence[Run]], None]) -> Callable[[], int]:
        report(f"short runs, block {len(memory) + 1}")
        return repeat(partial(work, [_SHORT.with_seed(next(seeds)) for _ in range(size)]), size)()

    execute(_SHORT)
    bare, ours = measure_in_turn(partial(prepare, call), partial(prepare, perform))
    return {
        "runs": SHORT_RUNS,
        "ms_per_run": 1e3 * statistics.median(bare) * _WORKERS,
        "throughput_to_bare": median_ratio(bare, ours),
        "megabytes": memory,
    }


def _read_megabytes() -> float | None:
    """Return the memory of this process now; None where the system does not say."""
    with suppress(OSError), open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 / 1e6 for line in status if line.startswith("VmRSS"))
    return None


def _measure_resume(folder: Path) -> float:
    """Return seconds from the command until the one missing run of a large study starts."""
    study = folder / "study.toml"
    study.write_text(
        f"seeds = {FINISHED // 100}\niterations = 20\nepisodes = 10\n[[problems]]\nproblem = 'oil'\n"
        f"[[algorithms]]\nalgorithm = 'spaql'\ngrid = {{ scaling = {[at / 100 for at in range(1, 101)]} }}\n"
    )
    runs = Sweep.load(study).runs[1:]
    with Store(folder / STORE, code=code_version()) as store:
        _add_runs(store, runs, [_SCALARS] * len(runs))
    call = [sys.executable, "-m", "spaql", "sweep", str(study), "--out", str(folder), "--quiet"]
    start = time.time()
    subprocess.run(call, check=True, capture_output=True)
    with Store.open_readonly(folder / STORE) as store:
        assert store.progress is not None
        assert store.progress["done_now"] == 1
        return float(store.progress["began"]) - start
