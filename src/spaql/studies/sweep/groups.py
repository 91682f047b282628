"""The groups of a study: every problem of a study file with every variant of its algorithms."""

from __future__ import annotations

import inspect
import itertools
import os
import string
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from spaql.agents import resolve
from spaql.errors import SpaqlError, StudyError
from spaql.formatting import with_values
from spaql.problems import PROBLEMS
from spaql.runner.execute import make_agent
from spaql.runner.run_spec import Run, canonical, problem_of, seed_at, seeds_at
from spaql.studies.study import Group, missing_runs
from spaql.studies.sweep.study_file import (
    MAX_GROUPS,
    MAX_RUNS,
    AlgorithmTable,
    ProblemTable,
    StudyFile,
    read_toml,
    validate,
)


@dataclass(frozen=True, eq=False)
class Sweep:
    """A study from a study file.

    Attributes
    ----------
    data
        Contents of the study file as plain Python values.
    file
        The same, checked and with defaults.
    name
        Title of the study.
    groups
        Rows of its table.
    """

    data: Mapping[str, Any]
    file: StudyFile
    name: str
    groups: tuple[Group, ...]

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Sweep:
        """Read a study file; a StudyError names the first mistake and its place."""
        data = read_toml(Path(path))
        try:
            return cls.from_dict(data, Path(path).stem)
        except SpaqlError as error:
            raise StudyError(f"study file {os.fspath(path)!r}: {error}") from error

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], name: str = "study", *, check: bool = True) -> Sweep:
        """Make a study from the contents of a study file.

        With `check`, problems and agents are made once to find invalid arguments.
        """
        file = validate(data)
        return cls(data, file, file.name or name, tuple(_Expansion(file, check).groups()))

    @classmethod
    def load(cls, study: Sweep | Mapping[str, Any] | str | os.PathLike[str]) -> Sweep:
        """Return a study from itself, from a mapping, or from the path of a study file."""
        if isinstance(study, Sweep):
            return study
        return cls.from_dict(study) if isinstance(study, Mapping) else cls.read(study)

    @property
    def runs(self) -> list[Run]:
        """Return all runs, the most expensive first."""
        return missing_runs(self.groups, ())

    @cached_property
    def ids(self) -> set[str]:
        """Return the ids of all runs."""
        return {run_id for group in self.groups for run_id in group.ids}


class _Problem(NamedTuple):
    label: str
    run: Run  # with all but the algorithm
    sizes: Mapping[str, Any]


class _Variant(NamedTuple):
    table: AlgorithmTable
    label: str  # of the algorithm, without the varied parameters
    varied: Mapping[str, Any]


class _Expansion:
    """Make the groups of a study file."""

    def __init__(self, file: StudyFile, check: bool) -> None:
        self.file, self.check = file, check
        self.seeding_names = self._parse_seeding()

    def groups(self) -> Iterator[Group]:
        file = self.file
        variants = [
            v for at, table in enumerate(file.algorithms, 1) for v in self._variants(table, f"algorithms[{at}]")
        ]
        _check_unique([table.label or table.algorithm for table in file.algorithms], "algorithms")
        labels = [with_values(variant.label, variant.varied) for variant in variants]
        _check_unique(labels, "algorithms")
        problems = [p for at, table in enumerate(file.problems, 1) for p in self._problems(table, f"problems[{at}]")]
        _check_unique([problem.label for problem in problems], "problems")
        agents = max(_count(problem.sizes.get("seeds", 10)) for problem in problems)
        for number, most, noun in (
            (len(problems) * len(variants), MAX_GROUPS, "groups"),
            (len(problems) * len(variants) * agents, MAX_RUNS, "runs"),
        ):
            if number > most:
                raise StudyError(f"study: more than {most:,} {noun}; leave some out")
        if file.baseline is not None and file.baseline not in labels:
            raise StudyError(f"baseline: {file.baseline!r} is not an algorithm; choose from {list_labels(labels)}")
        for problem in problems:
            tried: set[str] = set()
            for variant in variants:
                group = self._group(problem, variant)
                if self.check and (variant.label not in tried or problem is problems[0]):
                    _try(group.run, f"problem {group.problem!r} with algorithm {group.algorithm!r}")
                    tried.add(variant.label)
                yield group

    # Problems --------------------------------------------------------------------------------------------------

    def _problems(self, table: ProblemTable, place: str) -> Iterator[_Problem]:
        """Make one problem for each combination of the grid."""
        name, environment = table.problem, table.environment
        if name not in PROBLEMS and not any(mark in name for mark in "-:/"):
            raise StudyError(
                f"{place}: unknown problem {name!r}; choose a built-in problem ({', '.join(PROBLEMS)}), a Gymnasium id "
                "such as Tank-v0, or module:function"
            )
        if environment and name in PROBLEMS:
            raise StudyError(
                f"{place}: {next(iter(environment))} is for Gymnasium environments; use arguments for {name}"
            )
        sizes = self.file.sizes | table.sizes
        if table.steps is not None or table.iterations is not None:  # replaces that of the whole study
            sizes = {size: value for size, value in sizes.items() if size not in ("steps", "iterations")} | table.sizes
        if ("steps" in sizes) == ("iterations" in sizes):
            raise StudyError(f"{place}: set either steps or iterations, here or for the whole study")
        for varied in _combinations(table.grid):
            arguments = {**table.arguments, **varied}
            run = Run(name, arguments, "random", {}, 0, 0, sizes.get("episodes", 100), environment=environment)
            if name in PROBLEMS and self.check:
                known = inspect.signature(PROBLEMS[name]).parameters
                _check_names(arguments, known, f"{place}.arguments of {name}")
                try:
                    problem_of(run)
                except SpaqlError as error:
                    raise StudyError(f"{place}: {error}") from error
            yield _Problem(with_values(table.label or name, varied), run, sizes)

    # Algorithms ------------------------------------------------------------------------------------------------

    def _variants(self, table: AlgorithmTable, place: str) -> Iterator[_Variant]:
        """Make one variant for each combination of grid, list and draws."""
        label = table.label or table.algorithm
        if self.check:
            self._check_parameters(table, place)
        draws: list[dict[str, Any]] = [{}]
        if table.draws:
            draws = [
                {
                    name: span.draw(np.random.default_rng(seed_at(self.file.seed, "draw", label, name, number)))
                    for name, span in table.random.items()
                }
                for number in range(table.draws)
            ]
        for listed, combination, drawn in itertools.product(table.variants, _combinations(table.grid), draws):
            yield _Variant(table, label, {**combination, **listed, **drawn})

    def _check_parameters(self, table: AlgorithmTable, place: str) -> None:
        try:
            entry = resolve(table.algorithm)
        except SpaqlError as error:
            raise StudyError(f"{place}: {error}") from error
        given = [*table.parameters, *table.grid, *table.random, *(name for listed in table.variants for name in listed)]
        _check_names(
            given, entry.parameters, f"{place}: parameters of {table.algorithm}", " (seeds are set by the study)"
        )
        for name in entry.required:
            if name not in given:
                raise StudyError(f"{place}: {table.algorithm} needs the parameter {name}; add it")

    # Groups ----------------------------------------------------------------------------------------------------

    def _group(self, problem: _Problem, variant: _Variant) -> Group:
        algorithm, parameters = variant.table.algorithm, {**variant.table.parameters, **variant.varied}
        frame, sizes = problem.run, problem.sizes
        run = Run(
            frame.problem,
            frame.arguments,
            algorithm,
            parameters,
            0,
            **_length(algorithm, sizes),
            episodes=frame.episodes,
            environment=frame.environment,
        )
        seeds = sizes.get("seeds", 10)
        if not isinstance(seeds, list):
            seeds = seeds_at(seeds, self.file.seed, self._seed_key(run, problem.label, variant.label))
        label = with_values(variant.label, variant.varied)
        return Group(problem.label, label, run.with_seed(seeds[0]), seeds, dict(variant.varied))

    def _parse_seeding(self) -> list[str]:
        """Return the names in `seeding`."""
        seeding = self.file.seeding or ""
        try:
            names = [name for _, name, _, _ in string.Formatter().parse(seeding) if name is not None]
        except ValueError as error:
            raise StudyError(f"seeding: {seeding!r} is not a valid template: {error}") from error
        if self.check and names:
            tables = self.file.algorithms
            known = {
                "problem",
                "algorithm",
                *(name for table in tables for name in resolve(table.algorithm).parameters),
            }
            _check_names(names, sorted(known), "seeding")
        return names

    def _seed_key(self, run: Run, problem: str, algorithm: str) -> str:
        """Return the text from which the seeds of a group are derived."""
        if self.file.seeding is None:
            return canonical([run.problem, run.arguments, run.environment, run.algorithm, run.parameters])
        values = {name: f"{value:g}" if isinstance(value, float) else value for name, value in run.parameters.items()}
        values = {"problem": problem, "algorithm": algorithm} | values
        try:
            return self.file.seeding.format(**{name: values.get(name, "") for name in self.seeding_names})
        except (ValueError, KeyError, IndexError, AttributeError) as error:
            raise StudyError(f"seeding: {self.file.seeding!r} is not a valid template: {error}") from error


def _length(algorithm: str, sizes: Mapping[str, Any]) -> dict[str, Any]:
    """Return how long a run is and how often it is evaluated during training, as `Run` takes it."""
    learns = ":" in algorithm or resolve(algorithm).learns  # a class of the user's need not be importable here
    points = sizes.get("points", 0) if learns else 0
    if "steps" in sizes:
        steps = sizes["steps"]
        budgets = tuple(sorted({max(1, steps * (at + 1) // points) for at in range(points)})) or (steps,)
        return {"iterations": 0, "budgets": budgets}
    moments = {"moments": points, "moment_episodes": sizes.get("episodes", 100)} if points else {}
    return {"iterations": sizes["iterations"] if learns else 0, **moments}


def _try(run: Run, place: str) -> None:
    """Make the agent of a run; on a built-in problem where that would make a user's environment."""
    entry = resolve(run.algorithm)
    if not run.compiled:
        if ":" in run.algorithm or entry.required:  # depend on the problem
            return
        run = Run("oil", {}, run.algorithm, run.parameters, 0, 1, 2)
    try:
        make_agent(run)
    except (SpaqlError, TypeError) as error:
        raise StudyError(f"{place}: {error}") from error


def _combinations(grid: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return every choice of one value for each name; the last name varies fastest."""
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def _count(seeds: int | Sequence[int]) -> int:
    return seeds if isinstance(seeds, int) else len(seeds)


def _check_names(names: Collection[str], known: Collection[str], place: str, aside: str = "") -> None:
    for name in names:
        if name not in known:
            raise StudyError(f"{place}: unknown {name!r}; choose from {', '.join(known) or 'none'}{aside}")


def _check_unique(labels: Sequence[str], place: str) -> None:
    for label, count in Counter(labels).items():
        if count > 1:
            raise StudyError(f"{place}: two have the label {label!r}; give each its own label")


def list_labels(labels: Sequence[str], most: int = 12) -> str:
    """Join labels for an error message, at most so many."""
    more = f" and {len(labels) - most:,} more" if len(labels) > most else ""
    return ", ".join(map(repr, labels[:most])) + more
