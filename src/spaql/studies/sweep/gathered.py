"""What a folder has of its study, by groups: runs that differ in their seeds only.

The groups are those of `study.json`, in its order, and only its runs count.  A folder without it, such as that of
`spaql paper`, is grouped by what its runs say of themselves.  Everything is read in one pass and of one moment, also
while the study runs.
"""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spaql.errors import StudyError
from spaql.formatting import with_values
from spaql.runner.run_spec import Run, from_specification, kind_of
from spaql.runner.store import Store
from spaql.studies.sweep.description import Description
from spaql.studies.sweep.status import STUDY, opened

METRIC = "evaluation"
_SEED = '"seed":'
_SIZES = ("iterations", "budgets", "episodes", "points", "moments", "moment_episodes", "watch", "environment")


@dataclass(frozen=True, eq=False)
class Members:
    """A group and what its runs said.

    Attributes
    ----------
    problem, algorithm
        Labels.
    family
        The algorithm's label without the parameters in which its variants differ.
    varied
        Those parameters.
    run
        One of its runs; its seed means nothing.
    seeds
        Of all its runs, also of those that are not done.
    ids
        Of the finished runs, in the order of the study's seeds.
    values
        What each of those said, `[n]`; NaN where it has no such number.
    failed
        How many could not be done.
    """

    problem: str
    algorithm: str
    family: str
    varied: Mapping[str, Any]
    run: Run
    seeds: Sequence[int]
    ids: Sequence[str]
    values: NDArray[np.float64]
    failed: int

    @property
    def expected(self) -> int:
        """How many runs it has when all are done."""
        return len(self.seeds)

    @cached_property
    def sample(self) -> NDArray[np.float64]:
        """The values without those that are missing."""
        return self.values[np.isfinite(self.values)]


@dataclass(frozen=True, eq=False)
class Gathered:
    """A study as far as it is done.

    Attributes
    ----------
    folder
        Where it is.
    name
        Of the study.
    metric
        What the values are.
    baseline
        The label that tables compare with, or None.
    groups
        All of them, in order, also those of which nothing is done.
    """

    folder: Path
    name: str
    metric: str
    baseline: str | None
    groups: tuple[Members, ...]

    @cached_property
    def problems(self) -> dict[str, list[Members]]:
        """The groups by the label of their problem."""
        found: dict[str, list[Members]] = {}
        for group in self.groups:
            found.setdefault(group.problem, []).append(group)
        return found

    @property
    def done(self) -> int:
        """Finished runs."""
        return sum(len(group.ids) for group in self.groups)


def gather(folder: str | os.PathLike[str], metric: str = METRIC) -> Gathered:
    """What a folder has of its study.

    Parameters
    ----------
    folder
        Of `spaql sweep`, or any with a store of runs.
    metric
        What is compared: any number that runs leave, such as fresh, own, arms, training_steps or seconds.

    Raises
    ------
    StudyError
        Where no run has such a number.
    StoreError
        Where the folder has no store, or none that can be read.
    """
    path = Path(folder)
    described = description_of(path)
    found: dict[str, list[tuple[int, str, float]]] = defaultdict(list)  # by kind: seed, id, value
    names: set[str] = set()
    with opened(path) as store, store.unchanged():
        for row in store.rows():
            told: Any = row.seconds if metric == "seconds" else row.scalars.get(metric)
            names.update(row.scalars)
            kind, seed = parted(row.specification)
            found[kind].append((seed, row.id, np.nan if told is None else float(told)))
        failed: dict[str, set[int]] = defaultdict(set)
        for specification, _ in store.failures().values():
            kind, seed = parted(specification)
            failed[kind].add(seed)
    if found and metric != "seconds" and metric not in names:
        raise StudyError(f"metric: no run has {metric!r}; there are {', '.join(sorted({*names, 'seconds'}))}")
    if described is None:
        name, baseline = path.resolve().name, None
        groups = tuple(_by_kind(found, failed))
    else:
        name, baseline = described.name, described.baseline
        groups = tuple(_described(described, found, failed))
    return Gathered(path, name, metric, baseline, groups)


def description_of(folder: Path) -> Description | None:
    """The study that a folder says it is of; None where it does not say."""
    path = folder / STUDY
    try:
        return Description.of(json.loads(path.read_bytes()), tried=True)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StudyError(f"{str(path)!r} cannot be read: {error.strerror}") from None
    except ValueError as error:  # a StudyError is one
        raise StudyError(f"{str(path)!r} is no study of this version: {error}; do the study again") from None


def curves(store: Store, group: Members, names: Sequence[str]) -> list[dict[str, NDArray[Any]]]:
    """Arrays of these names of each finished run of a group; those that have none of them are left out."""
    return [found for key in group.ids if (found := store.arrays(key, names))]


def parted(specification: str) -> tuple[str, int]:
    """Kind and seed of the run of a specification."""
    kind = kind_of(specification)
    at = kind.rindex(_SEED) + len(_SEED)
    return kind, int(specification[at : at + len(specification) - len(kind)])


def _described(described: Description, found: Mapping[str, Any], failed: Mapping[str, set[int]]) -> Iterator[Members]:
    """The groups of a description; runs of other seeds are not its."""
    for group in described.groups:
        kind = group.kind
        here = {seed: (key, value) for seed, key, value in found.get(kind, ())}
        seeds = group.seeds
        rows = [here[seed] for seed in seeds if seed in here]
        yield Members(
            problem=group.problem,
            algorithm=group.algorithm,
            family=group.algorithm.removesuffix(with_values("", group.varied)),
            varied=group.varied,
            run=group.first,
            seeds=seeds,
            ids=[key for key, _ in rows],
            values=np.array([value for _, value in rows], np.float64),
            failed=len(failed.get(kind, set()).intersection(seeds)),
        )


def _by_kind(found: Mapping[str, Any], failed: Mapping[str, set[int]]) -> Iterator[Members]:
    """Groups of all runs that are there, by what they say of themselves."""
    runs = {}
    for kind in {*found, *failed}:
        runs[kind] = from_specification(f"{_SEED}0".join(kind.rsplit(_SEED, 1)))
    labels = _labels(runs)
    for kind in sorted(runs, key=lambda kind: [_natural(label) for label in labels[kind][:2]]):
        rows, run = sorted(found.get(kind, ())), runs[kind]
        problem, algorithm, varied = labels[kind]
        bad = failed.get(kind, set())
        yield Members(
            problem=problem,
            algorithm=algorithm,
            family=run.algorithm,
            varied=varied,
            run=run,
            seeds=sorted({*bad, *(seed for seed, _, _ in rows)}),
            ids=[key for _, key, _ in rows],
            values=np.array([value for _, _, value in rows], np.float64),
            failed=len(bad),
        )


def _labels(runs: Mapping[str, Run]) -> dict[str, tuple[str, str, dict[str, Any]]]:
    """Labels of problem and algorithm of each kind, no two alike, and the parameters in which the algorithm varies."""
    values: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))  # by algorithm and parameter
    named: dict[str, set[str]] = defaultdict(set)
    for run in runs.values():
        named[run.algorithm] |= run.parameters.keys()
    for run in runs.values():
        for name in named[run.algorithm]:
            values[run.algorithm][name].add(json.dumps(run.parameters.get(name), sort_keys=True))
    plain = {
        kind: (with_values(run.problem, run.arguments), with_values(run.algorithm, run.parameters))
        for kind, run in runs.items()
    }
    alike: dict[tuple[str, str], list[str]] = defaultdict(list)
    for kind, label in plain.items():
        alike[label].append(kind)
    found = {}
    for (problem, algorithm), kinds in alike.items():
        for kind in kinds:
            run = runs[kind]
            sizes = {
                size: getattr(run, size)
                for size in _SIZES
                if len({json.dumps(getattr(runs[other], size), sort_keys=True) for other in kinds}) > 1
            }
            varied = {name: value for name, value in run.parameters.items() if len(values[run.algorithm][name]) > 1}
            found[kind] = problem, with_values(algorithm, sizes), varied
    return found


def _natural(text: str) -> list[tuple[bool, float, str]]:
    """Sorts numbers in a text as numbers."""
    parts = re.split(r"(\d+(?:\.\d+)?)", text)
    return [(True, float(part), "") if at % 2 else (False, 0.0, part) for at, part in enumerate(parts)]
