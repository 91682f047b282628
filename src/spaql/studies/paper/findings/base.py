"""What a finding is, and what all of them need."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from spaql.stats import Estimate
from spaql.studies.paper.cells import Cell
from spaql.studies.paper.measured import Measured
from spaql.studies.paper.plan import LABELS, LEARNERS, Setting
from spaql.viz.charts import Chart, Series

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Finding:
    """One thing the study shows.

    Attributes
    ----------
    id, title
        Name in files, and heading.
    sentence
        What was found.
    value, low, high
        The number and its 95% interval.
    unit
        Behind the number, such as "%".
    meaning
        What the number is.
    chart
        The figure.
    """

    id: str
    title: str
    sentence: str
    value: float
    low: float
    high: float
    unit: str
    meaning: str
    chart: Chart

    @property
    def number(self) -> str:
        """The number with its interval, to as many decimals as the interval bears."""
        width = self.high - self.low
        decimals = 3 if not 0 < width < math.inf else min(max(1 - math.floor(math.log10(width / 2)), 0), 4)
        low, value, high = (f"{x:z.{decimals}f}" for x in (self.low, self.value, self.high))
        return f"{value}{self.unit} [{low}, {high}]"

    def to_dict(self) -> dict[str, Any]:
        """For JSON, without the chart."""
        names = ("id", "title", "sentence", "value", "low", "high", "unit", "meaning")
        return {name: getattr(self, name) for name in names} | {"number": self.number}


def make(id: str, title: str, sentence: str, number: Estimate, meaning: str, chart: Chart, unit: str = "") -> Finding:
    """A finding whose number is an estimate."""
    return Finding(id, title, sentence, number.mean, number.low, number.high, unit, meaning, chart)


def learner_cells(cells: Sequence[Cell]) -> list[Cell]:
    """Cells of SPAQL and AQL for which the paper prints something."""
    return [cell for cell in cells if cell.algorithm in LEARNERS and cell.printed is not None]


def by_problem(cells: Sequence[Cell]) -> dict[tuple[str, str], Cell]:
    """Cells by problem and algorithm."""
    return {(cell.problem, cell.algorithm): cell for cell in cells}


def estimates_series(
    name: str,
    look: str,
    x: Sequence[Any],
    estimates: Sequence[Estimate],
    style: Literal["line", "dashed", "points"] = "line",
) -> Series:
    """Estimates with their intervals."""
    means, lows, highs = ([getattr(each, part) for each in estimates] for part in ("mean", "low", "high"))
    return Series(name, x, means, lows, highs, look, style)


def points(algorithm: str, settings: Sequence[Setting], estimates: Sequence[Estimate], name: str = "") -> Series:
    """One point with its interval for each problem."""
    label = LABELS.get(algorithm, algorithm)
    return estimates_series(name or label, label, [setting.tick for setting in settings], estimates, "points")


def learners_points(
    cells: Sequence[Cell], settings: Sequence[Setting], estimate: Callable[[Cell], Estimate]
) -> tuple[Series, ...]:
    """A series for each learner: what `estimate` makes of its cell of each problem."""
    ours = by_problem(cells)
    return tuple(
        points(algorithm, settings, [estimate(ours[setting.id, algorithm]) for setting in settings])
        for algorithm in LEARNERS
    )


def around(mean: float, half_width: float) -> Estimate:
    """A number and the half width of its interval, where there is no sample behind them."""
    return Estimate(mean, mean - half_width, mean + half_width, math.nan, 0)


def setting_of(measured: Measured, key: str) -> Setting:
    """The problem of this id."""
    (found,) = (setting for setting in measured.plan.settings if setting.id == key)
    return found
