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
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spaql.agents import algorithms
from spaql.errors import StudyError
from spaql.formatting import with_values
from spaql.runner.run_spec import from_specification, kind_of
from spaql.studies.study import Group
from spaql.studies.sweep.groups import Sweep
from spaql.studies.sweep.status import STUDY, open_store

METRIC = "evaluation"
_SEED = '"seed":'
_SIZES = ("iterations", "budgets", "episodes", "points", "moments", "moment_episodes", "watch", "environment")


@dataclass(frozen=True, eq=False)
class GroupValues(Group):
    """A group and the values of its finished runs."""

    finished: Sequence[str] = ()  # ids, in the order of the seeds
    values: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))  # [n], NaN without such a number
    failed: int = 0

    @property
    def family(self) -> str:
        """Label of the algorithm without its varied parameters."""
        label = self.algorithm.removesuffix(with_values("", self.varied))
        return self.run.algorithm if self.varied and label == self.algorithm else label

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
    values: dict[str, float] = {}  # by id
    names: set[str] = set()
    kinds: dict[str, set[int]] = defaultdict(set)  # seeds, where no study says which runs belong together

    def add(specification: str) -> None:
        if study is None:
            kind = kind_of(specification)
            at = kind.rindex(_SEED) + len(_SEED)
            kinds[kind].add(int(specification[at : at + len(specification) - len(kind)]))

    with open_store(path) as store, store.snapshot():
        for row in store.rows():
            value: Any = row.seconds if metric == "seconds" else row.scalars.get(metric)
            names.update(row.scalars)
            values[row.id] = np.nan if value is None else float(value)
            add(row.specification)
        failures = store.failures()
        for specification, _ in failures.values():
            add(specification)
    if values and metric != "seconds" and metric not in names:
        raise StudyError(f"metric: no run has {metric!r}; choose from {', '.join(sorted({*names, 'seconds'}))}")
    groups = _make_groups(kinds) if study is None else study.groups
    name, baseline = (path.resolve().name, None) if study is None else (study.name, study.file.baseline)
    return StudyValues(path, name, metric, baseline, tuple(_select(group, values, failures) for group in groups))


def _select(group: Group, values: Mapping[str, float], failures: Collection[str]) -> GroupValues:
    ids = [run_id for run_id in group.ids if run_id in values]
    failed = sum(run_id in failures for run_id in group.ids) if failures else 0
    fields = group.problem, group.algorithm, group.run, group.seeds, group.varied, group.colour
    return GroupValues(*fields, ids, np.array([values[run_id] for run_id in ids], np.float64), failed)


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


def _make_groups(kinds: Mapping[str, set[int]]) -> list[Group]:
    """Make groups from specifications without seeds, no two with the same labels."""
    runs = {kind: from_specification(f"{_SEED}0".join(kind.rsplit(_SEED, 1))) for kind in kinds}
    named: dict[str, set[str]] = defaultdict(set)  # parameters of each algorithm
    texts: dict[tuple[str, str], set[str]] = defaultdict(set)  # values of each of them
    same: dict[tuple[str, str], list[str]] = defaultdict(list)  # kinds of each pair of labels
    for run in runs.values():
        named[run.algorithm] |= run.parameters.keys()
    for kind, run in runs.items():
        for name in named[run.algorithm]:
            texts[run.algorithm, name].add(json.dumps(run.parameters.get(name), sort_keys=True))
        same[with_values(run.problem, run.arguments), with_values(run.algorithm, run.parameters)].append(kind)
    groups, known = [], algorithms()
    for (problem, algorithm), alike in same.items():
        sizes = [size for size in _SIZES if len({json.dumps(getattr(runs[kind], size)) for kind in alike}) > 1]
        for kind in alike:
            run = runs[kind]
            label = with_values(algorithm, {size: getattr(run, size) for size in sizes})
            varied = {name: value for name, value in run.parameters.items() if len(texts[run.algorithm, name]) > 1}
            entry = known.get(run.algorithm)
            colour = (entry.colour or "") if entry else ""
            groups.append(Group(problem, label, run, sorted(kinds[kind]), varied, colour))
    return sorted(groups, key=lambda group: (_natural_key(group.problem), _natural_key(group.algorithm)))


def _natural_key(text: str) -> list[tuple[bool, float, str]]:
    """Return a key that sorts numbers in a text by their value."""
    parts = re.split(r"(\d+(?:\.\d+)?)", text)
    return [(True, float(part), "") if at % 2 else (False, 0.0, part) for at, part in enumerate(parts)]
