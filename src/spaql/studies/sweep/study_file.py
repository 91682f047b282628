"""Study files: the tables and keys of a TOML file, checked by pydantic, with errors of one sentence.

A study file says what to run and nothing about where it runs; docs/how-to/sweeps.md explains every key.
"""

import inspect
import itertools
import json
import math
import tomllib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationError, model_validator

from spaql.agents import resolve
from spaql.atomic_io import read_bounded
from spaql.errors import StudyError
from spaql.partition.rng import LARGEST_SEED
from spaql.problems import PROBLEMS
from spaql.runner.run_spec import Run, problem_of

MAX_RUNS = 10_000_000
MAX_GROUPS = 200_000
_LARGEST = 1 << 24  # bytes of a study file
_DEEPEST = 32  # levels of lists and tables
_EXACT = 2**53  # up to which floats are exact


def _check_value(value: Any) -> Any:
    """Accept what a run's specification can hold."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError):
        advice = "use strings, booleans, finite numbers, lists and tables"
        raise ValueError(f"{value!s:.80} is not allowed; {advice}") from None


def _check_values(values: Any) -> list[Any]:
    if not isinstance(values, list) or not values:
        raise ValueError(f"expected a list of values, got {values!r:.80}")
    checked = list(map(_check_value, values))
    if len({json.dumps(value, sort_keys=True) for value in checked}) < len(checked):
        raise ValueError("the same value is listed twice")
    return checked


def _check_seeds(seeds: Any) -> Any:
    """Accept a number of seeds, or a list of them."""
    values, low, high = (seeds, 0, LARGEST_SEED) if isinstance(seeds, list) else ([seeds], 1, MAX_RUNS)
    if not values or len(set(map(str, values))) < len(values):
        raise ValueError("expected at least one seed, and each seed once")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"expected an integer from {low:,} to {high:,}, got {value!r:.80}")
    return seeds


Value = Annotated[Any, PlainValidator(_check_value)]
Values = Annotated[list[Any], PlainValidator(_check_values)]
Bounds = Annotated[list[Value], Field(min_length=2, max_length=2)]
Name = Annotated[str, Field(pattern=r"^\P{C}*[^\p{C}\s]\P{C}*$")]  # printable, and not blank
Size = Annotated[int, Field(ge=1, le=10**12)]
Episodes = Annotated[int, Field(ge=2, le=10**8)]
Agents = Annotated[int, Field(ge=2, le=100_000)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    def given(self, *names: str) -> dict[str, Any]:
        """Return those of the keys that are given."""
        return {name: value for name in names if (value := getattr(self, name)) is not None}


class _Sized(_Table):
    seeds: Annotated[int | list[int] | None, PlainValidator(_check_seeds)] = None
    steps: Size | None = None
    iterations: Size | None = None
    episodes: Episodes | None = None
    points: Annotated[int, Field(ge=0, le=10_000)] | None = None


SIZES = tuple(_Sized.model_fields)


class ProblemTable(_Sized):
    """One of `[[problems]]`."""

    problem: Name
    label: Name | None = None
    arguments: dict[str, Value] = {}
    env_kwargs: dict[str, Value] = {}
    grid: dict[str, Values] = {}
    bounds: dict[Any, Bounds] | None = None
    periodic: list[Value] | None = None
    horizon: Size | None = None
    warm_up: Size | None = None
    optimum: Annotated[float, Field(allow_inf_nan=False)] | None = None

    @property
    def environment(self) -> dict[str, Any]:
        """Return the options for Gymnasium environments that are given."""
        return self.given("bounds", "periodic", "horizon", "warm_up")

    def runs(self) -> list[tuple[dict[str, Any], Run]]:
        """Return the values of each combination of the grid, and a run with its problem but no algorithm yet."""
        given = self.arguments | self.env_kwargs
        run = Run(self.problem, given, "random", {}, 0, 0, 0, environment=self.environment)
        return [(varied, replace(run, arguments={**given, **varied})) for varied in combine(self.grid)]

    @model_validator(mode="after")
    def _check(self) -> Self:
        name = self.problem
        given = {"arguments": self.arguments} if name in PROBLEMS else {"env_kwargs": self.env_kwargs}
        _check_names(1, **given, grid=self.grid)
        if name not in PROBLEMS and not any(mark in name for mark in "-:/"):
            raise ValueError(
                f"unknown problem {name!r}; choose a built-in problem ({', '.join(PROBLEMS)}), a Gymnasium id such as "
                "Tank-v0, or module:function"
            )
        if self.arguments and name not in PROBLEMS:
            raise ValueError(f"arguments is for built-in problems; give those of {name} as env_kwargs")
        if name in PROBLEMS:
            if foreign := [*self.environment, *(["env_kwargs"] if self.env_kwargs else [])]:
                raise ValueError(f"{', '.join(foreign)} is for Gymnasium environments; {name} takes arguments")
            known = inspect.signature(PROBLEMS[name]).parameters
            check_known([*self.arguments, *self.grid], known, f"arguments of {name}")
            for _, run in self.runs():
                problem_of(run)
        return self


class Range(_Table):
    """Values that a parameter may have: real numbers or integers from low to high, evenly or by `log`, or choices."""

    low: float | None = None
    high: float | None = None
    log: bool = False
    whole: bool = False
    choices: Annotated[list[Any] | None, PlainValidator(_check_values)] = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.choices is not None:
            if len(self.model_fields_set) > 1:
                raise ValueError("choices is not combined with other keys; remove them")
        elif self.low is None or self.high is None or not -1e300 < self.low < self.high < 1e300:
            raise ValueError("expected { low = ..., high = ... } with low below high, or { choices = [...] }")
        elif self.log and self.low <= 0:
            raise ValueError("log needs a low above 0")
        elif self.whole and not all(end.is_integer() and abs(end) <= _EXACT for end in (self.low, self.high)):
            raise ValueError("whole needs integers as low and high, of at most 2^53")
        return self

    @property
    def ends(self) -> tuple[float, float]:
        """Return low and high; integers where the values are."""
        low, high = self.low or 0.0, self.high or 0.0
        return (int(low), int(high)) if self.whole else (low, high)

    def contains(self, value: Any) -> bool:
        """Return whether a value is one of the choices, or lies within the range."""
        if self.choices is not None:
            return value is not inspect.Parameter.empty and format_choice(value) in map(format_choice, self.choices)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return self.ends[0] <= value <= self.ends[1] and (not self.whole or value == int(value))

    def draw(self, random: np.random.Generator) -> Any:
        """Draw one value."""
        if self.choices is not None:
            return self.choices[int(random.integers(len(self.choices)))]
        low, high = self.ends
        if self.log:
            value = float(np.exp(random.uniform(np.log(low), np.log(high))))
            return min(max(round(value), low), high) if self.whole else float(f"{value:.6g}")
        if self.whole:
            return int(random.integers(int(low), int(high) + 1))
        return float(f"{random.uniform(low, high):.6g}")


class AlgorithmTable(_Table):
    """One of `[[algorithms]]`."""

    algorithm: Name
    label: Name | None = None
    colour: Annotated[str | None, Field(pattern="^#[0-9a-fA-F]{6}$")] = None  # of its lines in charts
    parameters: dict[str, Value] = {}
    grid: dict[str, Values] = {}
    variants: list[dict[str, Value]] = Field(default=[{}], min_length=1, alias="list")
    random: dict[str, Range] = {}
    draws: Annotated[int, Field(ge=0, le=MAX_RUNS)] = 0

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.draws and not self.random:
            raise ValueError("draws needs random, the ranges to draw from")
        listed = {name: value for table in self.variants for name, value in table.items()}
        places = {"parameters": self.parameters, "grid": self.grid, "list": listed, "random": self.random}
        _check_names(len(self.variants) * max(1, self.draws), **places)
        entry, names = resolve(self.algorithm), [name for place in places.values() for name in place]
        unknown = [name for name in names if not entry.accepts(name)]
        check_known(unknown, entry.parameters, f"parameters of {self.algorithm}", " (seeds are set by the study)")
        for name in entry.required:
            if name not in names:
                raise ValueError(f"{self.algorithm} needs the parameter {name}; add it")
        return self


class TuneTable(_Table):
    """The table `[tune]`."""

    trials: Annotated[int, Field(ge=1, le=100_000)] = 40  # besides the default parameters
    seeds: Agents = 16  # most agents of each trial on each problem
    first_seeds: Agents = 4  # in the first stage; then twice as many, and so on
    batch: Annotated[int, Field(ge=1, le=10_000)] = 4  # trials that race together
    evaluation_seeds: Agents = 32  # agents that evaluate winner and defaults
    evaluation_episodes: Episodes | None = None  # None: as in tuning
    confidence: Annotated[float, Field(ge=0.5, lt=1)] = 0.95  # of intervals, and of keeping the best trial
    metric: Literal["evaluation", "training_score"] = "evaluation"  # to maximize

    @model_validator(mode="after")
    def _check(self) -> Self:
        if "first_seeds" in self.model_fields_set and self.first_seeds > self.seeds:
            raise ValueError(f"first_seeds is {self.first_seeds}, more than the {self.seeds} seeds of a trial")
        return self


class StudyFile(_Sized):
    """A whole study file."""

    name: Name | None = None
    seed: Annotated[int, Field(ge=0, le=LARGEST_SEED)] = 0
    seeding: str | None = None
    baseline: str | None = None
    problems: list[ProblemTable] = Field(min_length=1)
    algorithms: list[AlgorithmTable] = Field(min_length=1)
    tune: TuneTable = TuneTable()


def _check_names(variants: int, **places: Mapping[str, Any]) -> None:
    """Raise a ValueError where a grid has too many combinations, or a name is given in two places."""
    if math.prod(map(len, places["grid"].values())) * variants > MAX_GROUPS:
        raise ValueError(f"more than {MAX_GROUPS:,} combinations; leave some out")
    for name, count in Counter(name for place in places.values() for name in place).items():
        if count > 1:
            raise ValueError(f"{name} is given twice; set it in one of {', '.join(places)}")


def format_choice(choice: Any) -> str:
    """Return a choice as text, for Optuna, tables and charts."""
    return choice if isinstance(choice, str) else json.dumps(choice, default=str)


def check_known(names: Iterable[str], known: Collection[str], place: str, aside: str = "") -> None:
    """Raise a StudyError where a name is not known."""
    for name in names:
        if name not in known:
            raise StudyError(f"{place}: unknown {name!r}; choose from {', '.join(known) or 'none'}{aside}")


def combine(grid: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return every choice of one value for each name; the last name varies fastest."""
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; a StudyError says what is wrong with it."""
    try:
        return tomllib.loads(read_bounded(path, _LARGEST).decode())
    except RecursionError:
        raise StudyError(f"study file {str(path)!r}: its lists or tables are nested too deeply") from None
    except OSError as error:
        reason = error.strerror or error
        raise StudyError(f"study file {str(path)!r} cannot be read: {reason}; check its name") from error
    except ValueError as error:  # also of a name with a null character
        raise StudyError(f"study file {str(path)!r} is not valid TOML in UTF-8: {error}") from error


def validate(data: Mapping[str, Any]) -> StudyFile:
    """Check the data of a study file; a StudyError names the first mistake and its place."""
    _check_sizes(data)
    try:
        return StudyFile.model_validate(dict(data))
    except ValidationError as error:
        raise StudyError(_describe(error)) from None  # pydantic's own text has a page for every mistake


def _check_sizes(data: Mapping[str, Any]) -> None:
    """Raise a StudyError where values are nested too deeply, or integers too large, for JSON and NumPy."""
    waiting: list[tuple[tuple[int | str, ...], Any]] = [((), data)]
    while waiting:
        place, value = waiting.pop()
        if len(place) > _DEEPEST:
            raise StudyError(f"{_format_place(place[:2])}: more than {_DEEPEST} levels of lists and tables")
        if isinstance(value, Mapping):
            waiting += [((*place, str(name)[:80]), item) for name, item in value.items()]
        elif isinstance(value, list | tuple):
            waiting += [((*place, at), item) for at, item in enumerate(value)]
        elif isinstance(value, int) and value.bit_length() > 64:
            raise StudyError(
                f"{_format_place(place)}: an integer of {value.bit_length():,} bits; at most 64 are allowed"
            )


_TABLES: dict[Any, type[_Table]] = dict(problems=ProblemTable, algorithms=AlgorithmTable, random=Range, tune=TuneTable)
_EXAMPLES: dict[Any, str] = {
    "bounds": "expected a table of [low, high] such as { level = [0, 2] }",
    "colour": 'expected a colour such as "#D55E00"',
    **dict.fromkeys(("label", "name", "problem", "algorithm"), "expected a string of one line"),
}
_WORDS = {  # of pydantic, and ours
    "Input should be": "expected",
    "expected greater": "expected a number greater",
    "expected less": "expected a number less",
    "a valid integer": "an integer",
    "a valid boolean": "true or false",
    "a valid dictionary": "a table",
    "a valid": "a",
}


def _describe(error: ValidationError) -> str:
    """Turn the first of pydantic's errors into a sentence: where, what, what to do."""
    mistake = error.errors()[0]
    place, kind = mistake["loc"], mistake["type"]
    if kind == "value_error":
        return f"{_format_place(place)}: {mistake['ctx']['error']}"
    if kind == "missing":
        return f"{_format_place(place[:-1])}: {place[-1]} is missing; add it"
    if kind == "extra_forbidden":
        table = next((_TABLES[part] for part in reversed(place[:-1]) if part in _TABLES), StudyFile)
        known = ", ".join(field.alias or name for name, field in table.model_fields.items())
        return f"{_format_place(place[:-1])}: unknown key {place[-1]!r}; choose from {known}"
    sentence = _EXAMPLES.get(place[-1]) or mistake["msg"].partition(" or instance of")[0]
    for theirs, ours in _WORDS.items():
        sentence = sentence.replace(theirs, ours)
    return f"{_format_place(place)}: {sentence}, got {mistake['input']!r:.80}"


def _format_place(place: tuple[int | str, ...]) -> str:
    """Format pydantic's location as `algorithms[1].grid.scaling`; entries are counted from 1."""
    text = "".join(f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in place)
    return text.removeprefix(".") or "study"
