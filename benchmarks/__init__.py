"""Speed, as ratios measured in one run: machines are shared and noisy, a ratio of neighbours is not.

`spaql bench` runs the functions that `@part` declares in the modules of this package; each says in its docstring what
it measures, and returns its figures by name, ready for JSON.
"""

import inspect
import pkgutil
import statistics
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from spaql.errors import ParameterError
from spaql.formatting import Table

REPEATS = 5
Report = Callable[[str], None]
Part = Callable[[Report], dict[str, Any]]
Prepare = Callable[[], Callable[[], int]]  # makes a call to measure, which returns how many steps it made
_PARTS: dict[str, Part] = {}


def part(measure: Part) -> Part:
    """Declare a function as the part of the benchmark of its name; it is called with a function to report progress."""
    _PARTS[measure.__name__] = measure
    return measure


def parts() -> dict[str, Part]:
    """Return all parts by name."""
    for module in pkgutil.iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
    return _PARTS


def measure(progress_bar: bool = True, only: Sequence[str] | None = None) -> dict[str, Any]:
    """Measure everything, in a few minutes, or some parts; a ParameterError where there is no such part."""
    from tqdm import tqdm

    known = parts()
    unknown = [name for name in only or () if name not in known]
    if unknown:
        raise ParameterError(f"--only: {unknown[0]!r} is not one of {', '.join(known)}")
    figures: dict[str, Any] = {}
    chosen = [name for name in known if only is None or name in only]
    with tqdm(chosen, disable=not progress_bar, desc="bench", unit="part") as progress:
        for name in progress:
            figures |= known[name](progress.set_postfix_str)
    return figures


def measure_seconds(work: Callable[[], object]) -> float:
    """Return how long a call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def median_seconds(work: Callable[[], object]) -> float:
    """Return the median over repeats of how long a call takes."""
    return statistics.median(measure_seconds(work) for _ in range(REPEATS))


def measure_in_turn(*prepares: Prepare) -> list[list[float]]:
    """Measure several calls in turn, a few times; returns, for each of them, its seconds per step each time."""
    columns: list[list[float]] = [[] for _ in prepares]
    for _ in range(REPEATS):
        for column, prepare in zip(columns, prepares, strict=True):
            work = prepare()
            start = time.perf_counter()
            steps = work()
            column.append((time.perf_counter() - start) / steps)
    return columns


def repeat(work: Callable[[], object], steps: int = 1) -> Prepare:
    """Return a call that needs no preparation as `measure_in_turn` takes it."""

    def call() -> int:
        work()
        return steps

    return lambda: call


def median_ratio(ours: Sequence[float], baseline: Sequence[float]) -> float:
    """Return the median ratio of times that were measured in turn."""
    return statistics.median(first / second for first, second in zip(ours, baseline, strict=True))


def describe(figures: dict[str, Any]) -> str:
    """Return figures as text: for each a line, a list, or a table."""
    titles = {name: (inspect.getdoc(measure) or "").split("\n", 1)[0] for name, measure in _PARTS.items()}
    return "\n".join(f"{name}: {titles.get(name, '')}\n{_format(value)}\n" for name, value in figures.items())


def _format(value: Any, indent: str = "  ") -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        header = list(dict.fromkeys(name for row in value for name in row))
        table = Table(header, [[_format(row.get(name, ""), "") for name in header] for row in value])
        return "\n".join(indent + line for line in table.text().splitlines())
    if isinstance(value, dict):
        return "\n".join(
            f"{indent}{name}:\n{_format(each, indent + '  ')}"
            if isinstance(each, dict)
            else f"{indent}{name}: {_format(each, '')}"
            for name, each in value.items()
        )
    if isinstance(value, list):
        return indent + ", ".join(_format(each, "") for each in value)
    text = "not measured" if value is None else f"{value:,.4g}" if isinstance(value, float) else f"{value}"
    return indent + text
