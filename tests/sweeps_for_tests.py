"""Folders of studies with made-up runs, whole or in part."""

from __future__ import annotations

import csv
import io
import os
import socket
import time

import numpy as np

from spaql.runner.record import Failure, Record
from spaql.runner.run_spec import Run
from spaql.runner.store import STORE, Store
from spaql.studies.study import describe
from spaql.studies.sweep.sweep_study import Sweep

NASTY = "</script><b>&|\"_'"
STUDY_DATA = {
    "name": "a study",
    "seeds": 6,
    "iterations": 100,
    "episodes": 10,
    "points": 5,
    "baseline": "random",
    "problems": [{"problem": "oil", "grid": {"sharpness": [1, 10]}}],
    "algorithms": [
        {"algorithm": "aql", "parameters": {"rollouts": 0}, "grid": {"scaling": [0.1, 0.5, 2.0]}},
        {"algorithm": "random"},
    ],
}


def make_record(run: Run, at: int) -> Record:
    """Numbers that depend on the run only."""
    scaling = float(run.parameters.get("scaling", 0.0))
    random = np.random.default_rng(run.seed)
    fresh = 2.0 + 0.5 * scaling + 0.1 * float(random.normal())
    scalars = {"evaluation": fresh, "training_score": None, "cells": at, "training_steps": 500, "selection_steps": 0}
    curve = {"moment": np.array([1, 10, 100], np.int32), "evaluation": fresh - np.array([1.0, 0.5, 0.0])}
    return Record(scalars, curve if run.iterations else {}, seconds=0.5 + at)


def make_progress(total, done, failed=0, **other):
    return {
        "state": "finished", "engine": "threads", "workers": 2, "process": os.getpid(), "host": socket.gethostname(),
        "began": time.time() - 10.0, "updated": time.time(), "total": total, "done": done, "failed": failed,
        "running": 0, "done_now": done, "seconds_left": 0.0, **other,
    }  # fmt: skip


def fill(folder, told=STUDY_DATA, *, missing=(), failing=(), **progress):
    """A folder of the study; `missing` and `failing` are (group, number) of runs that are not done."""
    study = Sweep(told)
    folder.mkdir(exist_ok=True)
    write_study(folder, study)
    with Store(folder / STORE, code="test") as store:
        fill_with(store, study, missing=missing, failing=failing, **progress)
    return study


def write_study(folder, study=None):
    study = study or Sweep(STUDY_DATA)
    (folder / "study.json").write_text(describe(study, study.groups))


def fill_with(store, study=None, *, missing=(), failing=(), **progress):
    study = study or Sweep(STUDY_DATA)
    for number, group in enumerate(study.groups):
        for at, run in enumerate(group.runs):
            key = run.id, run.specification
            if (number, at) in failing:
                store.add((), failed=[(*key, Failure("error", f"ValueError: {NASTY}"))])
            elif (number, at) not in missing:
                store.add([(*key, make_record(run, at))])
    store.add((), progress=make_progress(len({run.id for run in study.runs}), len(store), len(failing), **progress))


def read_csv(path):
    return list(csv.DictReader(io.StringIO(path.read_text())))


def fill_part(folder):
    """Of the last group one run is done, one failed, and four are missing; of the one before nothing is done."""
    missing = [(6, at) for at in range(6)] + [(7, at) for at in (2, 3, 4, 5)]
    fill(folder, missing=missing, failing=[(7, 1)], state="stopped", seconds_left=None)
    return folder
