"""Values of the finished runs of a folder, by group.

Groups are those of `study.json`, in its order; other runs in the store do not count.  In a folder without that file,
such as that of `spaql paper`, runs are grouped by their specification.  Everything is read in one pass from one
snapshot of the store, also while the study runs.
"""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spaql.errors import StudyError
from spaql.formatting import with_values
from spaql.runner.run_spec import Run, from_specification, kind_of
from spaql.studies.study import Group
from spaql.studies.sweep.groups import Sweep
from spaql.studies.sweep.status import STUDY, open_store

METRIC = "evaluation"
_SEED = '"seed":'
_SIZES = ("iterations", "budgets", "episodes", "points", "moments", "moment_episodes", "watch", "environment")
_Finished = Mapping[str, Sequence[tuple[int, str, float]]]  # seed, id and value by kind
_Failed = Mapping[str, set[int]]  # seeds by kind


@dataclass(frozen=True, eq=False)
class GroupValues:
    """A group and the values of its finished runs."""

    group: Group
    family: str  # label of the algorithm without its varied parameters
    ids: Sequence[str]  # of the finished runs, in the order of the seeds
    values: NDArray[np.float64]  # [n], NaN where a run has no such number
    failed: int

    @property
    def problem(self) -> str:
        """Label of the problem."""
        return self.group.problem

    @property
    def algorithm(self) -> str:
        """Label of the algorithm."""
        return self.group.algorithm

    @cached_property
    def sample(self) -> NDArray[np.float64]:
        """Return the values without NaN."""
        return self.values[np.isfinite(self.values)]


@dataclass(frozen=True, eq=False)
class StudyValues:
    """The values of a study."""

    folder: Path
    name: str
    metric: str
    baseline: str | None  # label of the algorithm that tables compare with
    groups: tuple[GroupValues, ...]  # also those without finished runs

    @cached_property
    def problems(self) -> dict[str, list[GroupValues]]:
        """Return the groups by the label of their problem."""
        problems: dict[str, list[GroupValues]] = defaultdict(list)
        for group in self.groups:
            problems[group.problem].append(group)
        return dict(problems)


def read_values(folder: str | os.PathLike[str], metric: str = METRIC) -> StudyValues:
    """Read the values of all finished runs of a folder.

    Parameters
    ----------
    folder
        A folder of `spaql sweep`, or any folder with a store of runs.
    metric
        Any number that runs record, such as evaluation, training_score, cells, training_steps or seconds.
    """
    path = Path(folder)
    study = _read_study(path)
    finished: dict[str, list[tuple[int, str, float]]] = defaultdict(list)
    failed: dict[str, set[int]] = defaultdict(set)
    names: set[str] = set()
    with open_store(path) as store, store.snapshot():
        for row in store.rows():
            value: Any = row.seconds if metric == "seconds" else row.scalars.get(metric)
            names.update(row.scalars)
            kind, seed = split_specification(row.specification)
            finished[kind].append((seed, row.id, np.nan if value is None else float(value)))
        for specification, _ in store.failures().values():
            kind, seed = split_specification(specification)
            failed[kind].add(seed)
    if finished and metric != "seconds" and metric not in names:
        raise StudyError(f"metric: no run has {metric!r}; choose from {', '.join(sorted({*names, 'seconds'}))}")
    if study is None:
        return StudyValues(path, path.resolve().name, metric, None, tuple(_group_by_kind(finished, failed)))
    groups = (_select(group, finished, failed) for group in study.groups)
    return StudyValues(path, study.name, metric, study.file.baseline, tuple(groups))


def split_specification(specification: str) -> tuple[str, int]:
    """Return kind and seed of the run with this specification."""
    kind = kind_of(specification)
    at = kind.rindex(_SEED) + len(_SEED)
    return kind, int(specification[at : at + len(specification) - len(kind)])


def _read_study(folder: Path) -> Sweep | None:
    path = folder / STUDY
    try:
        return Sweep.from_dict(json.loads(path.read_bytes()), check=False)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StudyError(f"{str(path)!r} cannot be read: {error.strerror}") from error
    except ValueError as error:  # StudyError included
        raise StudyError(f"{str(path)!r} is not a study of this version ({error}); run the study again") from error


def _select(group: Group, finished: _Finished, failed: _Failed) -> GroupValues:
    """Select the finished runs of a group."""
    kind, seeds = group.run.kind, group.seeds
    by_seed = {seed: (run_id, value) for seed, run_id, value in finished.get(kind, ())}
    rows = [by_seed[seed] for seed in seeds if seed in by_seed]
    values = np.array([value for _, value in rows], np.float64)
    family = group.algorithm.removesuffix(with_values("", group.varied))
    return GroupValues(group, family, [run_id for run_id, _ in rows], values, len(failed.get(kind, set()) & {*seeds}))


def _group_by_kind(finished: _Finished, failed: _Failed) -> Iterator[GroupValues]:
    """Group all runs by their specification."""
    kinds = {*finished, *failed}
    groups = _make_groups({kind: from_specification(f"{_SEED}0".join(kind.rsplit(_SEED, 1))) for kind in kinds})
    for kind, group in sorted(groups.items(), key=lambda item: _natural_key(item[1].problem, item[1].algorithm)):
        seeds = sorted({*failed.get(kind, ()), *(seed for seed, _, _ in finished.get(kind, ()))})
        yield replace(_select(replace(group, seeds=seeds), finished, failed), family=group.run.algorithm)


def _make_groups(runs: Mapping[str, Run]) -> dict[str, Group]:
    """Make a group without seeds for each kind, no two with the same labels."""
    values: dict[tuple[str, str], set[str]] = defaultdict(set)  # of each parameter of each algorithm
    named: dict[str, set[str]] = defaultdict(set)
    for run in runs.values():
        named[run.algorithm] |= run.parameters.keys()
    for run in runs.values():
        for name in named[run.algorithm]:
            values[run.algorithm, name].add(json.dumps(run.parameters.get(name), sort_keys=True))
    same: dict[tuple[str, str], list[str]] = defaultdict(list)
    for kind, run in runs.items():
        same[with_values(run.problem, run.arguments), with_values(run.algorithm, run.parameters)].append(kind)
    groups = {}
    for (problem, algorithm), kinds in same.items():
        texts = {size: {json.dumps(getattr(runs[kind], size), sort_keys=True) for kind in kinds} for size in _SIZES}
        for kind in kinds:
            run = runs[kind]
            sizes = {size: getattr(run, size) for size in _SIZES if len(texts[size]) > 1}
            varied = {name: value for name, value in run.parameters.items() if len(values[run.algorithm, name]) > 1}
            groups[kind] = Group(problem, with_values(algorithm, sizes), run, (), varied)
    return groups


def _natural_key(*texts: str) -> list[list[tuple[bool, float, str]]]:
    """Return a key that sorts numbers in texts by their value."""
    parts = [re.split(r"(\d+(?:\.\d+)?)", text) for text in texts]
    return [[(True, float(p), "") if at % 2 else (False, 0.0, p) for at, p in enumerate(some)] for some in parts]
