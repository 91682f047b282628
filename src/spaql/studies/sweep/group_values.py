"""Values of the finished runs of a folder, by group.

Groups are those that the study last run there wrote to `study.json`; other runs in the store do not count.  Values are
read in one pass from one snapshot of the store, also while the study runs.
"""

import json
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spaql.atomic_io import read_regular
from spaql.errors import NothingYetError, StudyError
from spaql.runner.run_spec import from_specification
from spaql.runner.store import STORE, Store
from spaql.studies.study import STUDY, Group
from spaql.validation import parse_json

_LARGEST = 1 << 30  # bytes of the groups of a study: millions of seeds
METRIC, REGRET = "evaluation", "regret"
_SIZES = ("iterations", "budgets", "episodes", "points", "moments", "moment_episodes", "watch", "environment")


@dataclass(frozen=True, eq=False)
class Curve:
    """Cumulative regret of the runs of a group."""

    episodes: NDArray[np.int64]  # of training, `[m]`, increasing
    cumulative: NDArray[np.float64]  # `[runs, m]`


@dataclass(frozen=True, eq=False)
class GroupValues(Group):
    """A group and the values of its finished runs."""

    finished: Sequence[str] = ()  # ids, in the order of the seeds
    sample: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))  # of those runs that have a finite value
    failed: int = 0
    curve: Curve | None = None  # of the metric regret
    episodes: int = 0  # after which the sample is the regret
    bound: float | None = None  # exponent of a proven bound on the regret


@dataclass(frozen=True, eq=False)
class StudyValues:
    """The values of a study."""

    folder: Path
    name: str
    metric: str
    baseline: str | None  # label of the algorithm that tables compare with
    groups: tuple[GroupValues, ...]  # also those without finished runs
    recorded: Mapping[str, float] = field(default_factory=dict)  # optima that problems state, by the id of a run

    @cached_property
    def problems(self) -> dict[str, list[GroupValues]]:
        """Return the groups by the label of their problem."""
        problems: dict[str, list[GroupValues]] = defaultdict(list)
        for group in self.groups:
            problems[group.problem].append(group)
        return dict(problems)

    @property
    def stated(self) -> dict[str, float]:
        """Return optima by the label of their problem: of the study file, else those that the problems state."""
        optima = {}
        for label, groups in self.problems.items():
            given = [group.optimum for group in groups if group.optimum is not None]
            given += [self.recorded[run_id] for group in groups for run_id in group.finished if run_id in self.recorded]
            if given:
                optima[label] = given[0]
        return optima


def read_values(folder: str | os.PathLike[str], metric: str = METRIC) -> StudyValues:
    """Read the values of all finished runs of a folder.

    Parameters
    ----------
    folder
        A folder of `spaql sweep`, or of any other study.
    metric
        Any number that runs record, such as evaluation, training_score, cells, training_steps or seconds; for regret
        see `spaql.studies.sweep.regret`.
    """
    path = Path(folder)
    values: dict[str, float] = {}  # by id
    recorded: dict[str, float] = {}
    names: set[str] = set()
    with Store.open_readonly(path / STORE) as store, store.snapshot():
        name, baseline, groups = _read_study(path)
        for row in store.rows():
            value: Any = row.seconds if metric == "seconds" else row.scalars.get(metric)
            names.update(row.scalars)
            values[row.id] = np.nan if value is None else float(value)
            if (optimum := row.scalars.get("optimum")) is not None:
                recorded[row.id] = float(optimum)
        failures = store.failures()
    if values and metric != "seconds" and metric not in names:
        known = ", ".join(sorted({*names, REGRET, "seconds"}))
        raise StudyError(f"metric: no run has {metric!r}; choose from {known}")

    def select(group: Group) -> GroupValues:
        ids = [run_id for run_id in group.ids if run_id in values]
        failed = sum(run_id in failures for run_id in group.ids) if failures else 0
        sample = np.array([values[run_id] for run_id in ids], np.float64)
        fields = group.problem, group.algorithm, group.run, group.seeds, group.varied, group.colour, group.optimum
        return GroupValues(*fields, ids, sample[np.isfinite(sample)], failed)

    return StudyValues(path, name or path.resolve().name, metric, baseline, tuple(map(select, groups)), recorded)


def _read_study(folder: Path) -> tuple[str, str | None, list[Group]]:
    """Return name, baseline and groups of a study, no two with the same labels."""
    path = folder / STUDY
    groups: dict[tuple[str, str, str], Group] = {}
    try:
        data = parse_json(read_regular(path, _LARGEST))
        for row in data["groups"]:
            group = Group(**{**row, "run": from_specification(json.dumps(row["run"]))})
            key = group.problem, group.label, group.run.kind
            if key in groups:  # a later stage had more seeds
                group = replace(group, seeds=list(dict.fromkeys([*groups[key].seeds, *group.seeds])))
            groups[key] = group
            _ = group.ids  # an error where a seed is no number
        return data["name"], data["baseline"], _distinguish(list(groups.values()))
    except FileNotFoundError:
        raise NothingYetError(f"{str(path)!r} is not there; run the study again, which repeats no run") from None
    except OSError as error:
        raise StudyError(f"{str(path)!r} cannot be read: {error.strerror}") from error
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise StudyError(f"{str(path)!r} is not a study of this version ({error!r}); run the study again") from error


def _distinguish(groups: Sequence[Group]) -> list[Group]:
    """Add to groups with the same labels what else they differ in; those of one problem stand together."""
    traits = [{**group.run.parameters, **{size: getattr(group.run, size) for size in _SIZES}} for group in groups]
    texts: dict[tuple[str, str, str], set[str]] = defaultdict(set)  # values of each trait of each pair of labels
    for group, some in zip(groups, traits, strict=True):
        for name, value in some.items():
            texts[group.problem, group.label, name].add(json.dumps(value, sort_keys=True))
    by_problem: dict[str, list[Group]] = defaultdict(list)
    for group, some in zip(groups, traits, strict=True):
        others = {name: value for name, value in some.items() if len(texts[group.problem, group.label, name]) > 1}
        by_problem[group.problem].append(replace(group, varied={**group.varied, **others}) if others else group)
    return [group for some in by_problem.values() for group in some]
