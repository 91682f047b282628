"""The groups of a study: every problem of a study file with every variant of its algorithms."""

from __future__ import annotations

import inspect
import itertools
import json
import os
import string
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from spaql.agents import algorithms, resolve
from spaql.errors import SpaqlError, StudyError
from spaql.formatting import with_values
from spaql.problems import PROBLEMS
from spaql.runner.execute import make_agent
from spaql.runner.run_spec import Run, canonical, problem_of, seed_at, seeds_at
from spaql.studies.study import Group, Results, Stage, Study, missing_runs
from spaql.studies.sweep.status import STUDY
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
class Sweep(Study):
    """A study from a study file, with one stage; it writes no report, since its folder can be read at any moment."""

    data: Mapping[str, Any]  # contents of the file as plain Python values
    file: StudyFile  # the same, checked and with defaults
    name: str
    groups: tuple[Group, ...]  # rows of its table
    keep_failures = True

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
        """Make a study from the contents of a file; with `check`, problems and agents are tried once."""
        file = validate(data)
        if check:
            tables = zip(data["algorithms"], file.algorithms, strict=True)
            data = {**data, "algorithms": [{**given, **_describe(table)} for given, table in tables]}
            file = validate(data)
        return cls(data, file, file.name or name, tuple(_Expansion(file, check).groups()))

    @classmethod
    def load(cls, study: Sweep | Mapping[str, Any] | str | os.PathLike[str]) -> Sweep:
        """Return a study from itself, from a mapping, or from the path of a study file."""
        if isinstance(study, Sweep):
            return study
        return cls.from_dict(study) if isinstance(study, Mapping) else cls.read(study)

    def stages(self, results: Results) -> Iterator[Stage]:
        """Yield all groups, and `study.json`, from which tables and figures know them."""
        data = json.dumps({**self.data, "name": self.name}, indent=1, default=str)
        yield Stage(self.groups, files={STUDY: f"{data}\n"})

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

    def groups(self) -> Iterator[Group]:
        file = self.file
        tables = enumerate(file.algorithms, 1)
        variants = [v for at, table in tables for v in self._variants(table, f"algorithms[{at}]")]
        problems = [p for at, table in enumerate(file.problems, 1) for p in self._problems(table, f"problems[{at}]")]
        labels = [with_values(variant.label, variant.varied) for variant in variants]
        _check_unique([table.label or table.algorithm for table in file.algorithms], "algorithms")
        _check_unique(labels, "algorithms")
        _check_unique([problem.label for problem in problems], "problems")
        seeds = [problem.sizes.get("seeds", 10) for problem in problems]
        agents = max(len(some) if isinstance(some, list) else some for some in seeds)
        groups = len(problems) * len(variants)
        for number, most, noun in ((groups, MAX_GROUPS, "groups"), (groups * agents, MAX_RUNS, "runs")):
            if number > most:
                raise StudyError(f"study: more than {most:,} {noun}; leave some out")
        if file.baseline is not None and file.baseline not in labels:
            raise StudyError(f"baseline: {file.baseline!r} is not an algorithm; choose from {list_labels(labels)}")
        seeding = self._parse_seeding()
        for problem in problems:
            tried: set[str] = set()
            for variant in variants:
                group = self._group(problem, variant, seeding)
                if self.check and (variant.label not in tried or problem is problems[0]):
                    _try(group.run, f"problem {group.problem!r} with algorithm {group.algorithm!r}")
                    tried.add(variant.label)
                yield group

    def _problems(self, table: ProblemTable, place: str) -> Iterator[_Problem]:
        """Make one problem for each combination of the grid."""
        name, environment = table.problem, table.environment
        if name not in PROBLEMS and not any(mark in name for mark in "-:/"):
            raise StudyError(
                f"{place}: unknown problem {name!r}; choose a built-in problem ({', '.join(PROBLEMS)}), a Gymnasium id "
                "such as Tank-v0, or module:function"
            )
        if environment and name in PROBLEMS:
            raise StudyError(f"{place}: {', '.join(environment)} is for Gymnasium environments; {name} takes arguments")
        sizes = self.file.sizes
        if table.steps is not None or table.iterations is not None:  # replaces that of the whole study
            sizes = {size: value for size, value in sizes.items() if size not in ("steps", "iterations")}
        sizes |= table.sizes
        if ("steps" in sizes) == ("iterations" in sizes):
            raise StudyError(f"{place}: set either steps or iterations, here or for the whole study")
        for varied in _combinations(table.grid):
            arguments = {**table.arguments, **varied}
            run = Run(name, arguments, "random", {}, 0, 0, sizes.get("episodes", 100), environment=environment)
            if name in PROBLEMS and self.check:
                _check_known(arguments, inspect.signature(PROBLEMS[name]).parameters, f"{place}.arguments of {name}")
                try:
                    problem_of(run)
                except SpaqlError as error:
                    raise StudyError(f"{place}: {error}") from error
            yield _Problem(with_values(table.label or name, varied), run, sizes)

    def _variants(self, table: AlgorithmTable, place: str) -> Iterator[_Variant]:
        """Make one variant for each combination of grid, list and draws."""
        label = table.label or table.algorithm
        if self.check:
            _check_parameters(table, place)
        draws: list[dict[str, Any]] = [
            {
                name: span.draw(np.random.default_rng(seed_at(self.file.seed, "draw", label, name, number)))
                for name, span in table.random.items()
            }
            for number in range(table.draws)
        ]
        for listed, combination, drawn in itertools.product(table.variants, _combinations(table.grid), draws or [{}]):
            yield _Variant(table, label, {**combination, **listed, **drawn})

    def _group(self, problem: _Problem, variant: _Variant, seeding: Sequence[str]) -> Group:
        algorithm, parameters = variant.table.algorithm, {**variant.table.parameters, **variant.varied}
        run = replace(problem.run, algorithm=algorithm, parameters=parameters, **_length(algorithm, problem.sizes))
        seeds = problem.sizes.get("seeds", 10)
        if not isinstance(seeds, list):
            place = canonical([run.problem, run.arguments, run.environment, run.algorithm, run.parameters])
            if self.file.seeding is not None:
                values = {name: f"{v:g}" if isinstance(v, float) else v for name, v in run.parameters.items()}
                values = {"problem": problem.label, "algorithm": variant.label} | values
                place = self.file.seeding.format(**{name: values.get(name, "") for name in seeding})
            seeds = seeds_at(seeds, self.file.seed, place)
        label = with_values(variant.label, variant.varied)
        entry = algorithms().get(algorithm)
        colour = variant.table.colour or (entry.colour if entry else None) or ""
        return Group(problem.label, label, run, seeds, dict(variant.varied), colour)

    def _parse_seeding(self) -> list[str]:
        """Return the names in `seeding`."""
        seeding = self.file.seeding or ""
        try:
            names = [name for _, name, _, _ in string.Formatter().parse(seeding) if name is not None]
            seeding.format(**dict.fromkeys(names, ""))
        except (ValueError, KeyError, IndexError, AttributeError) as error:
            raise StudyError(f"seeding: {seeding!r} is not a valid template: {error}") from error
        if self.check and names:
            parameters = {name for table in self.file.algorithms for name in resolve(table.algorithm).parameters}
            _check_known(names, sorted({"problem", "algorithm", *parameters}), "seeding")
        return names


def _describe(table: AlgorithmTable) -> dict[str, str]:
    """Return module, label and colour of a class of the user's, for workers and readers; nothing for built-in ones.

    Workers know no name that this process registered, and readers need not be able to import the class.  Registered
    algorithms are labelled by their names, as `baseline` writes them.
    """
    try:
        entry = resolve(table.algorithm)
    except SpaqlError:  # reported with its place
        return {}
    if entry.built_in:
        return {}
    algorithm, label, colour = table.algorithm, table.label or entry.label, table.colour or entry.colour
    if ":" not in algorithm:
        label = table.label or table.algorithm
        with suppress(SpaqlError):  # a class that its module does not have by its name
            algorithm = resolve(entry.path).name
    return {"algorithm": algorithm, "label": label} | ({"colour": colour} if colour else {})


def _length(algorithm: str, sizes: Mapping[str, Any]) -> dict[str, Any]:
    """Return how long a run is and how often it is evaluated during training, as `Run` takes it."""
    learns = ":" in algorithm or resolve(algorithm).learns  # a class of the user's need not be importable here
    points = sizes.get("points", 0) if learns else 0
    if "steps" in sizes:
        steps = sizes["steps"]
        budgets = tuple(sorted({max(1, steps * (at + 1) // points) for at in range(points)})) or (steps,)
        return {"budgets": budgets}
    moments = {"moments": points, "moment_episodes": sizes.get("episodes", 100)} if points else {}
    return {"iterations": sizes["iterations"] if learns else 0, **moments}


def _check_parameters(table: AlgorithmTable, place: str) -> None:
    try:
        entry = resolve(table.algorithm)
    except SpaqlError as error:
        raise StudyError(f"{place}: {error}") from error
    given = [*table.parameters, *table.grid, *table.random, *table.listed]
    aside = " (seeds are set by the study)"
    unknown = [name for name in given if not entry.accepts(name)]
    _check_known(unknown, entry.parameters, f"{place}: parameters of {table.algorithm}", aside)
    for name in entry.required:
        if name not in given:
            raise StudyError(f"{place}: {table.algorithm} needs the parameter {name}; add it")


def _try(run: Run, place: str) -> None:
    """Make the agent of a run; on a built-in problem where that would make a user's environment."""
    if not run.compiled:
        if ":" in run.algorithm or resolve(run.algorithm).required:  # depend on the problem
            return
        run = Run("oil", {}, run.algorithm, run.parameters, 0, 1, 2)
    try:
        make_agent(run)
    except (SpaqlError, TypeError) as error:
        raise StudyError(f"{place}: {error}") from error


def _combinations(grid: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return every choice of one value for each name; the last name varies fastest."""
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def _check_known(names: Iterable[str], known: Collection[str], place: str, aside: str = "") -> None:
    for name in names:
        if name not in known:
            raise StudyError(f"{place}: unknown {name!r}; choose from {', '.join(known) or 'none'}{aside}")


def _check_unique(labels: Sequence[str], place: str) -> None:
    for label, count in Counter(labels).items():
        if count > 1:
            raise StudyError(f"{place}: two have the label {label!r}; give each its own label")


def list_labels(labels: Sequence[str], most: int = 12) -> str:
    """Join labels for an error message."""
    more = f" and {len(labels) - most:,} more" if len(labels) > most else ""
    return ", ".join(map(repr, labels[:most])) + more
