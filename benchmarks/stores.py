"""Large stores without training: what a study of so many runs would leave, with made-up numbers."""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import Bar, Part, seconds
from spaql.atomic_io import check_folder
from spaql.errors import ParameterError
from spaql.runner.code_version import code_version
from spaql.runner.record import Record
from spaql.runner.store import STORE, Store
from spaql.studies.sweep.comparison import compare
from spaql.studies.sweep.group_values import read_values
from spaql.studies.sweep.groups import Sweep
from spaql.studies.sweep.status import STUDY, read_status

RUNS = 200_000
SHAPES = (2, 2_000, 10_000)  # groups
_AT_ONCE = 5_000


def synthetic(folder: str | os.PathLike[str], runs: int, groups: int) -> Sweep:
    """Fill a folder with the finished runs of a study; the study.

    Parameters
    ----------
    folder
        Where; it must have no store.
    runs
        How many; a multiple of `groups`.
    groups
        Variants of one algorithm on one problem; the first is the baseline.
    """
    if groups < 1 or runs % groups:
        raise ParameterError(f"runs: {runs} is no multiple of {groups} groups")
    path = check_folder(folder)
    scalings = [round(0.001 * (at + 1), 6) for at in range(groups)]
    told = {
        "name": "made up",
        "seeds": runs // groups,
        "iterations": 100,
        "episodes": 100,
        "baseline": f"aql, scaling={scalings[0]:.6g}",
        "problems": [{"problem": "oil"}],
        "algorithms": [{"algorithm": "aql", "parameters": {"rollouts": 0}, "grid": {"scaling": scalings}}],
    }
    study = Sweep.from_dict(told)
    planned = study.runs
    random = np.random.default_rng(0)
    (path / STUDY).write_text(json.dumps(told), encoding="utf-8")
    progress = {
        "state": "over", "engine": "threads", "workers": 2, "process": 0, "host": "", "began": time.time() - runs,
        "told": time.time(), "total": runs, "done": runs, "failed": 0, "running": 0, "done_now": runs,
        "seconds_left": 0.0,
    }  # fmt: skip
    with Store(path / STORE, code=code_version()) as store:
        for first in range(0, runs, _AT_ONCE):
            some = planned[first : first + _AT_ONCE]
            scores = random.normal(4.0, 0.2, len(some)).tolist()
            store.add(
                [(run.id, run.specification, _record(run.seed, score)) for run, score in zip(some, scores, strict=True)]
            )
        store.add((), progress=progress)
    return study


def _record(seed: int, score: float) -> Record:
    scalars = {
        "training_score": None, "cells": seed % 100, "training_steps": 500, "selection_steps": 0, "monitoring_steps": 0,
        "value_low": 5.0, "value_high": 5.5, "resets": 0, "evaluation": score, "evaluation_steps": 500,
    }  # fmt: skip
    return Record(scalars, seconds=0.005)


def tables(bar: Bar) -> dict[str, Any]:
    """Seconds to say how far a large study is, and to make its table."""
    found: dict[str, Any] = {}
    for groups in SHAPES:
        bar(f"a store of {RUNS:,} runs in {groups:,} groups")
        with tempfile.TemporaryDirectory() as folder:
            synthetic(folder, RUNS, groups)
            found[f"{groups}_groups"] = {
                "status_seconds": seconds(lambda: read_status(folder)),
                "table_seconds": seconds(lambda: compare(read_values(folder)).format("text")),
                "megabytes": (Path(folder) / STORE).stat().st_size / 1e6,
            }
    worst = {name: max(each[name] for each in found.values()) for name in ("status_seconds", "table_seconds")}
    return {"tables": {"runs": RUNS, **worst, **found}}


def _tell(figures: dict[str, Any]) -> list[str]:
    told = figures["tables"]
    return [
        f"a store of {told['runs']:,} runs: status in {told['status_seconds']:.2f} s (aim 1), table in "
        f"{told['table_seconds']:.1f} s (aim 10)"
    ]


PARTS = {"tables": Part(tables, _tell, lambda: len(SHAPES))}
