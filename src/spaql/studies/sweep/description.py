"""A study as data: problems times algorithms times seeds, from a TOML file or from Python.

A description says what is to be found out and nothing about where it runs.  `Description.groups` are its rows: one
problem, one algorithm with its parameters, and a run for each seed.

A study file::

    name = "how much bonus"           # all of these but seeds may be left out
    seeds = 20                        # agents of each group; or a list of seeds, which all groups then share
    steps = 20_000                    # environment steps of each run; or iterations = 2000
    episodes = 1000                   # fresh episodes that score each agent
    points = 8                        # scores on the way, for learning curves
    baseline = "aql"                  # the label that tables compare with

    [[problems]]
    problem = "oil"                   # a built-in problem, a Gymnasium id, or "module:function"
    arguments = { survey = "laplace" }
    grid = { sharpness = [1, 10] }    # every combination is a problem

    [[problems]]
    problem = "my_module:Tank-v0"
    steps = 50_000                    # of this problem; so iterations, episodes, points and seeds
    bounds = { level = [0, 2] }       # how agents see it; so periodic, horizon and warm_up

    [[algorithms]]
    algorithm = "tessera"

    [[algorithms]]
    algorithm = "aql"
    label = "aql"                     # how tables call it; its name and parameters unless given
    parameters = { rollouts = 0 }     # of all its variants
    grid = { scaling = [0.1, 0.5] }   # every combination is a variant
    # list = [{ scaling = 0.1 }, { scaling = 2.0, rollouts = 5 }]      # each is a variant
    # random = { scaling = { low = 0.01, high = 4.0, log = true } }    # so many draws of it
    # draws = 10

The seed of a run is a hash of the study's `seed` (0), of its problem and algorithm with all that they are given, and of
its number, so that adding problems, values, draws or seeds changes no other run.  `seeding` says it otherwise: a text
in which {problem} and {algorithm} stand for labels and {name} for a parameter; what it leaves out has no influence, so
that under "{problem}" all algorithms meet the same random numbers.
"""

from __future__ import annotations

import inspect
import itertools
import json
import math
import os
import string
import tomllib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from spaql.agents import resolve
from spaql.errors import ParameterError, SpaqlError, StudyError
from spaql.formatting import with_values
from spaql.partition.rng import LARGEST_SEED
from spaql.problems import PROBLEMS
from spaql.runner.run_spec import Run, agent_of, canonical, problem_of, seed_at, seeds_at

MOST_RUNS = 10_000_000
MOST_GROUPS = 200_000
_SIZES = ("seeds", "steps", "iterations", "episodes", "points")
_VIEWS = ("bounds", "periodic", "horizon", "warm_up")
_TOP = ("name", "seed", "seeding", "baseline", "problems", "algorithms", "tune", *_SIZES)
_PROBLEM = ("problem", "label", "arguments", "grid", *_SIZES, *_VIEWS)
_ALGORITHM = ("algorithm", "label", "parameters", "grid", "list", "random", "draws")
_RANGE = ("low", "high", "log", "whole", "choices")


@dataclass(frozen=True, eq=False)
class Group:
    """Runs that differ in their seeds only, and what tables call them.

    Attributes
    ----------
    problem, algorithm
        Labels.
    varied
        Parameters of the algorithm in which its variants differ.
    first
        Its first run.
    seeds
        Of its runs.
    """

    problem: str
    algorithm: str
    varied: Mapping[str, Any]
    first: Run
    seeds: Sequence[int]

    @property
    def kind(self) -> str:
        """What its runs have in common."""
        return self.first.kind

    @cached_property
    def ids(self) -> list[str]:
        """Of its runs, by seed; quicker to have than the runs."""
        return self.first.ids(self.seeds)

    @property
    def runs(self) -> list[Run]:
        """One for each seed."""
        return [self.first.with_seed(seed) for seed in self.seeds]


@dataclass(frozen=True, eq=False)
class Range:
    """Values that a parameter may have: numbers from low to high, whole ones or by equal factors, or choices."""

    low: float = 0.0
    high: float = 0.0
    log: bool = False
    whole: bool = False
    choices: tuple[Any, ...] = ()

    def draw(self, random: np.random.Generator) -> Any:
        """One of them."""
        if self.choices:
            return self.choices[int(random.integers(len(self.choices)))]
        if self.log:
            value = float(np.exp(random.uniform(np.log(self.low), np.log(self.high))))
        elif self.whole:
            return int(random.integers(int(self.low), int(self.high) + 1))
        else:
            value = float(random.uniform(self.low, self.high))
        return min(max(round(value), int(self.low)), int(self.high)) if self.whole else float(f"{value:.6g}")


@dataclass(frozen=True, eq=False)
class Algorithm:
    """One entry of `algorithms`: a name, what all its variants share, and how they differ."""

    algorithm: str
    label: str | None
    parameters: Mapping[str, Any]
    variants: tuple[Mapping[str, Any], ...]
    ranges: Mapping[str, Range]
    draws: int


@dataclass(frozen=True, eq=False)
class Description:
    """A study.

    Attributes
    ----------
    name
        Of the study.
    told
        What it was made from: what a study file says, as Python's own types.
    baseline
        Label that tables compare with, or None.
    groups
        Its rows.
    algorithms
        Its entries, for who wants to vary their parameters by themselves.
    """

    told: Mapping[str, Any]
    name: str
    baseline: str | None
    groups: tuple[Group, ...]
    algorithms: tuple[Algorithm, ...] = field(repr=False)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Description:
        """A study from its file; a StudyError says in one sentence what is wrong with it, and where."""
        try:
            text = Path(path).read_bytes().decode()
        except FileNotFoundError:
            raise StudyError(f"study file {str(path)!r}: it is not there") from None
        except UnicodeDecodeError:
            raise StudyError(f"study file {str(path)!r}: it is no text in UTF-8") from None
        except OSError as error:
            raise StudyError(f"study file {str(path)!r} cannot be read: {error.strerror}") from None
        return cls.parse(text, str(path))

    @classmethod
    def parse(cls, text: str, source: str = "study") -> Description:
        """A study from the text of its file; `source` is how sentences call it."""
        try:
            told = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise StudyError(f"study file {source!r} is no TOML: {error}") from None
        try:
            return cls.of(told, os.path.splitext(os.path.basename(source))[0])
        except SpaqlError as error:
            raise StudyError(f"study file {source!r}: {error}") from None

    @classmethod
    def of(cls, told: Mapping[str, Any], name: str = "study", *, tried: bool = False) -> Description:
        """A study from what a file would say: a mapping of plain Python values.

        Agents are made, to see whether their parameters are right, unless that was `tried` before.
        """
        return _Maker(told).description(name, tried)

    @property
    def runs(self) -> list[Run]:
        """All of them; see `missing`."""
        return self.missing(frozenset())

    def missing(self, known: Collection[str]) -> list[Run]:
        """The runs whose ids are not known, the longest first, so that no worker is left with one at the end.

        Of those that are as long as each other, the first of all groups come first, and so on: whoever looks at half of
        a study sees half of the seeds.
        """
        found = {
            key: (-group.first.cost, number, place)
            for place, group in enumerate(self.groups)
            for number, key in enumerate(group.ids)
            if key not in known
        }
        groups = self.groups
        return [groups[place].first.with_seed(groups[place].seeds[at]) for _, at, place in sorted(found.values())]

    @cached_property
    def ids(self) -> set[str]:
        """Of all runs."""
        return {key for group in self.groups for key in group.ids}


class _Maker:
    """Reads what a file says, part by part; sentences begin with the part."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        self.told = told
        _keys(told, _TOP, "study")
        for name, value in told.items():
            _plain(value, name)
        self.seed = _whole(told.get("seed", 0), "seed", 0, LARGEST_SEED)
        self.seeding = told.get("seeding")
        if self.seeding is not None and not isinstance(self.seeding, str):
            raise StudyError(f"seeding: expected a text such as '{{problem}}', got {self.seeding!r:.80}")

    def description(self, name: str, tried: bool) -> Description:
        algorithms = [self._algorithm(entry, f"algorithms[{at}]") for at, entry in _entries(self.told, "algorithms")]
        labels = [algorithm.label or algorithm.algorithm for algorithm in algorithms]
        _unlike(labels, "algorithms")
        variants = [
            (algorithm, label, varied)
            for algorithm, label in zip(algorithms, labels, strict=True)
            for varied in self._variants(algorithm, label)
        ]
        _unlike([with_values(label, varied) for _, label, varied in variants], "algorithms")
        problems = [
            problem
            for at, entry in _entries(self.told, "problems")
            for problem in self._problems(entry, f"problems[{at}]")
        ]
        _unlike([label for label, _, _ in problems], "problems")
        if len(problems) * len(variants) > MOST_GROUPS:
            raise StudyError(f"study: it has more than {MOST_GROUPS:,} groups; leave some out")
        self._check_seeding(algorithms)
        if len(problems) * len(variants) * max(len(self._seeds(sizes)) for _, _, sizes in problems) > MOST_RUNS:
            raise StudyError(f"study: it has more than {MOST_RUNS:,} runs; leave some out")
        groups = []
        for label, frame, sizes in problems:
            checked: set[str] = set()
            for algorithm, called, varied in variants:
                group = self._group(label, frame, sizes, algorithm, called, varied)
                if not tried and (called not in checked or frame is problems[0][1]):
                    _try(group, f"problem {label!r} with algorithm {group.algorithm!r}")
                    checked.add(called)
                groups.append(group)
        baseline = self.told.get("baseline")
        known = {group.algorithm for group in groups}
        if baseline is not None and (not isinstance(baseline, str) or baseline not in known):
            raise StudyError(f"baseline: {baseline!r} is none of its algorithms, {', '.join(sorted(known))}")
        return Description(self.told, str(self.told.get("name", name)), baseline, tuple(groups), tuple(algorithms))

    # Problems --------------------------------------------------------------------------------------------------

    def _problems(self, entry: Mapping[str, Any], where: str) -> Iterator[tuple[str, Run, Mapping[str, Any]]]:
        """Label, a run with all but its agent, and sizes, for each combination of the grid."""
        _keys(entry, _PROBLEM, where)
        name = _text(entry, "problem", where)
        if name not in PROBLEMS and not any(mark in name for mark in "-:/"):
            raise StudyError(
                f"{where}: {name!r} is no built-in problem ({', '.join(PROBLEMS)}), no Gymnasium id such as Tank-v0, "
                "and no module:function"
            )
        views = {view: entry[view] for view in _VIEWS if view in entry}
        _check_views(views, where)
        if views and name in PROBLEMS:
            raise StudyError(f"{where}: {next(iter(views))} is for Gymnasium environments; {name} takes arguments")
        sizes = {size: self.told[size] for size in _SIZES if size in self.told}
        own = {size: entry[size] for size in _SIZES if size in entry}
        if "steps" in own or "iterations" in own:
            sizes = {size: value for size, value in sizes.items() if size not in ("steps", "iterations")}
        sizes |= own
        self._check_sizes(sizes, where)
        for varied in _combinations(_table(entry, "grid", where), f"{where}.grid"):
            fixed = _table(entry, "arguments", where)
            for twice in sorted(fixed.keys() & varied.keys()):
                raise StudyError(f"{where}: {twice} is given twice; say it in arguments or in grid")
            arguments = {**fixed, **varied}
            frame = Run(name, arguments, "random", {}, 0, 0, int(sizes.get("episodes", 100)), environment=views)
            if name in PROBLEMS:
                allowed = list(inspect.signature(PROBLEMS[name]).parameters)
                _keys(arguments, allowed, f"{where}.arguments of {name}")
                try:
                    problem_of(frame)
                except SpaqlError as error:
                    raise StudyError(f"{where}: {error}") from None
            yield with_values(_label(entry, where) or name, varied), frame, sizes

    @staticmethod
    def _check_sizes(sizes: Mapping[str, Any], where: str) -> None:
        if ("steps" in sizes) == ("iterations" in sizes):
            raise StudyError(f"{where}: say either steps or iterations, here or for all problems")
        for name in ("steps", "iterations"):
            if name in sizes:
                _whole(sizes[name], name, 1, 10**12)
        _whole(sizes.get("episodes", 100), "episodes", 2, 10**8)
        _whole(sizes.get("points", 0), "points", 0, 10_000)

    @staticmethod
    def _seeds(sizes: Mapping[str, Any]) -> Sequence[int]:
        """Numbers of agents, or the seeds themselves."""
        seeds = sizes.get("seeds", 10)
        if isinstance(seeds, list):
            for seed in seeds:
                _whole(seed, "seeds", 0, LARGEST_SEED)
            if len(set(seeds)) != len(seeds) or not seeds:
                raise StudyError("seeds: name each seed once, and at least one")
            return seeds
        return range(_whole(seeds, "seeds", 1, MOST_RUNS))

    # Algorithms ------------------------------------------------------------------------------------------------

    def _algorithm(self, entry: Mapping[str, Any], where: str) -> Algorithm:
        _keys(entry, _ALGORITHM, where)
        name = _text(entry, "algorithm", where)
        try:
            resolve(name)
        except ParameterError as error:
            raise StudyError(f"{where}: {error}") from None
        listed = entry.get("list", [{}])
        if not isinstance(listed, list) or not listed or not all(isinstance(each, Mapping) for each in listed):
            raise StudyError(f"{where}.list: expected tables of parameters, such as [{{ scaling = 0.1 }}]")
        ranges = {
            parameter: _range(told, f"{where}.random.{parameter}")
            for parameter, told in _table(entry, "random", where).items()
        }
        draws = entry.get("draws", 0)
        _whole(draws, f"{where}.draws", 0, MOST_RUNS)
        if draws and not ranges:
            raise StudyError(f"{where}: draws needs random, the ranges to draw from")
        fixed = _table(entry, "parameters", where)
        variants = [
            {**combination, **each}
            for each in listed
            for combination in _combinations(_table(entry, "grid", where), f"{where}.grid")
        ]
        allowed = _parameters(name)
        for given in (fixed, ranges, *variants):
            _keys(given, allowed, f"{where}: parameters of {name}", " (seeds are given by the study)")
        grid, every = _table(entry, "grid", where), {name for each in listed for name in each}
        for one, other in itertools.combinations((set(fixed), set(ranges), set(grid), every), 2):
            for twice in sorted(one & other):
                raise StudyError(f"{where}: {twice} is given twice; say it in one of parameters, grid, list and random")
        if len(variants) * max(1, draws) > MOST_GROUPS:
            raise StudyError(f"{where}: it has more than {MOST_GROUPS:,} variants; leave some out")
        said = {*fixed, *ranges, *variants[0]}
        for needed in (each for each in _parameters(name, needed=True) if each not in said):
            raise StudyError(f"{where}: {name} needs the parameter {needed}")
        return Algorithm(name, _label(entry, where), fixed, tuple(variants), ranges, draws)

    def _variants(self, algorithm: Algorithm, label: str) -> Iterator[dict[str, Any]]:
        """What each variant is given beside the common parameters."""
        drawn: list[dict[str, Any]] = [{}]
        if algorithm.draws:
            drawn = [
                {
                    name: span.draw(np.random.default_rng(seed_at(self.seed, "draw", label, name, number)))
                    for name, span in algorithm.ranges.items()
                }
                for number in range(algorithm.draws)
            ]
        for variant in algorithm.variants:
            for values in drawn:
                yield {**variant, **values}

    def _check_seeding(self, algorithms: Sequence[Algorithm]) -> None:
        """Names in `seeding` must be those of something."""
        known = {"problem", "algorithm"}
        for algorithm in algorithms:
            known |= set(_parameters(algorithm.algorithm))
        try:
            names = [name for _, name, _, _ in string.Formatter().parse(self.seeding or "") if name is not None]
        except ValueError as error:
            raise StudyError(f"seeding: {self.seeding!r} cannot be read: {error}") from None
        for name in names:
            if name not in known:
                raise StudyError(f"seeding: {name!r} is not known; there are {', '.join(sorted(known))}")

    # Both ------------------------------------------------------------------------------------------------------

    def _group(
        self,
        label: str,
        frame: Run,
        sizes: Mapping[str, Any],
        algorithm: Algorithm,
        called: str,
        varied: Mapping[str, Any],
    ) -> Group:
        parameters = {**algorithm.parameters, **varied}
        first = Run(
            frame.problem,
            frame.arguments,
            algorithm.algorithm,
            parameters,
            0,
            **sized(algorithm.algorithm, sizes),
            episodes=frame.episodes,
            environment=frame.environment,
        )
        seeds = self._seeds(sizes)
        if isinstance(seeds, range):
            place = self._place(first, label, called)
            seeds = seeds_at(len(seeds), self.seed, place)
        return Group(label, with_values(called, varied), dict(varied), first.with_seed(seeds[0]), seeds)

    def _place(self, run: Run, problem: str, algorithm: str) -> str:
        """Where in the study a group is, for its seeds."""
        if self.seeding is None:
            return canonical([run.problem, run.arguments, run.environment, run.algorithm, run.parameters])
        values = {name: f"{value:g}" if isinstance(value, float) else value for name, value in run.parameters.items()}
        try:
            names = [name for _, name, _, _ in string.Formatter().parse(self.seeding) if name is not None]
            words = {"problem": problem, "algorithm": algorithm} | values
            return str(self.seeding.format(**{name: words.get(name, "") for name in names}))
        except (ValueError, KeyError, IndexError, AttributeError) as error:
            raise StudyError(f"seeding: {self.seeding!r} cannot be read: {error}") from None


def sized(algorithm: str, sizes: Mapping[str, Any]) -> dict[str, Any]:
    """How long a run is and how often it is scored on the way, as `Run` takes it."""
    learns = resolve(algorithm).learns
    points = int(sizes.get("points", 0)) if learns else 0
    if "steps" in sizes:
        steps = int(sizes["steps"])
        budgets = tuple(sorted({max(1, steps * (at + 1) // points) for at in range(points)})) or (steps,)
        return {"iterations": 0, "budgets": budgets}
    scored = {"moments": points, "moment_episodes": int(sizes.get("episodes", 100))} if points else {}
    return {"iterations": int(sizes["iterations"]) if learns else 0, **scored}


def _try(group: Group, where: str) -> None:
    """Make the agent of a group, or the like of it where that would make a user's environment."""
    run = group.first
    if not run.compiled:
        if run.algorithm in ("no-movement", "mean", "median"):
            raise StudyError(f"{where}: this heuristic needs the ambulance; leave it out")
        if run.algorithm not in ("tessera", "spaql", "aql"):
            return
        run = Run("oil", {}, run.algorithm, run.parameters, 0, 1, 2)
    try:
        agent_of(run)
    except (SpaqlError, TypeError) as error:
        raise StudyError(f"{where}: {error}") from None


def _parameters(algorithm: str, *, needed: bool = False) -> list[str]:
    """Names of what an algorithm takes, but the seed; or of what it cannot do without."""
    entry = resolve(algorithm)
    return entry.required if needed else list(entry.parameters)


def _label(entry: Mapping[str, Any], where: str) -> str | None:
    """What tables are to call it, if that was said."""
    label = entry.get("label")
    if label is not None and (not isinstance(label, str) or not label.strip() or not label.isprintable()):
        raise StudyError(f"{where}.label: expected a text in one line, got {label!r:.80}")
    return label


def _check_views(views: Mapping[str, Any], where: str) -> None:
    """How an environment is seen, as far as it can be told without one."""
    bounds = views.get("bounds", {})
    if not isinstance(bounds, Mapping) or not all(
        isinstance(ends, list) and len(ends) == 2 for ends in bounds.values()
    ):
        raise StudyError(f"{where}.bounds: expected a table of [low, high] such as {{ level = [0, 2] }}")
    if not isinstance(views.get("periodic", []), list):
        raise StudyError(f"{where}.periodic: expected a list of names or places")
    for name in ("horizon", "warm_up"):
        if name in views:
            _whole(views[name], f"{where}.{name}", 1, 10**9)


# Small parts ---------------------------------------------------------------------------------------------------------


def _keys(told: Any, allowed: Sequence[str], where: str, aside: str = "") -> None:
    if not isinstance(told, Mapping):
        raise StudyError(f"{where}: expected a table, got {told!r:.80}")
    for key in told:
        if key not in allowed:
            raise StudyError(f"{where}: {key!r} is not known; there are {', '.join(allowed) or 'none'}{aside}")


def _plain(value: Any, where: str) -> None:
    """Only what a specification can hold: texts, truth, finite numbers, lists and tables of these."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            _plain(each, f"{where}.{name}")
    elif isinstance(value, list | tuple):
        for each in value:
            _plain(each, where)
    elif not isinstance(value, str | bool | int | float) or (isinstance(value, float) and not math.isfinite(value)):
        raise StudyError(
            f"{where}: {value!s:.80} cannot be part of a study; use texts, finite numbers, lists and tables"
        )


def _entries(told: Mapping[str, Any], name: str) -> list[tuple[int, Mapping[str, Any]]]:
    entries = told.get(name)
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, Mapping) for entry in entries):
        raise StudyError(f"study: it needs at least one [[{name}]]")
    return list(enumerate(entries, 1))


def _table(told: Mapping[str, Any], name: str, where: str) -> dict[str, Any]:
    found = told.get(name, {})
    if not isinstance(found, Mapping):
        raise StudyError(f"{where}.{name}: expected a table such as {{ scaling = ... }}, got {found!r:.80}")
    return dict(found)


def _text(told: Mapping[str, Any], name: str, where: str) -> str:
    found = told.get(name)
    if not isinstance(found, str) or not found:
        raise StudyError(f'{where}: it needs {name} = "..."')
    return found


def _whole(value: Any, name: str, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise StudyError(f"{name}: expected a whole number from {low:,} to {high:,}, got {value!r:.80}")
    return value


def _combinations(grid: Mapping[str, Any], where: str) -> list[dict[str, Any]]:
    """Every choice of one value for each name, the last name varying fastest."""
    for name, values in grid.items():
        if not isinstance(values, list) or not values:
            raise StudyError(f"{where}.{name}: expected a list of values, got {values!r:.80}")
        shown = [json.dumps(value, sort_keys=True, default=str) for value in values]
        if len(set(shown)) != len(shown):
            raise StudyError(f"{where}.{name}: a value is there twice")
    if math.prod(map(len, grid.values())) > MOST_GROUPS:
        raise StudyError(f"{where}: it has more than {MOST_GROUPS:,} combinations; leave some out")
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def _range(told: Any, where: str) -> Range:
    _keys(told, _RANGE, where)
    choices = told.get("choices")
    if choices is not None:
        if not isinstance(choices, list) or not choices or len(told) > 1:
            raise StudyError(f"{where}: choices is a list of values, and stands alone")
        return Range(choices=tuple(choices))
    low, high = told.get("low"), told.get("high")
    numbers = [value for value in (low, high) if isinstance(value, int | float) and not isinstance(value, bool)]
    if len(numbers) != 2 or not -1e300 < numbers[0] < numbers[1] < 1e300:
        raise StudyError(f"{where}: expected {{ low = ..., high = ... }} with low below high, or {{ choices = [...] }}")
    log, whole = told.get("log", False), told.get("whole", False)
    if not isinstance(log, bool) or not isinstance(whole, bool):
        raise StudyError(f"{where}: log and whole are true or false")
    if log and numbers[0] <= 0:
        raise StudyError(f"{where}: log needs a low above 0")
    if whole and any(number != int(number) for number in numbers):
        raise StudyError(f"{where}: low and high of whole numbers are whole")
    return Range(float(numbers[0]), float(numbers[1]), log, whole)


def _unlike(labels: Sequence[str], what: str) -> None:
    for label, often in Counter(labels).items():
        if often > 1:
            raise StudyError(f"{what}: two are called {label!r}; give each its own label")
