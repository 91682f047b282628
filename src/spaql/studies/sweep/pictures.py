"""Charts of a study as far as it is done, a panel for each problem; and these as files.

*Scores* are learning curves, means of the agents with a 95% band, where runs were scored on the way; else the means of
all algorithms.  *By a parameter*: where an algorithm's variants differ in one number, their means against it.  Where
there are more algorithms than can be told apart, the best are shown, and the baseline; the note says so.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from spaql import stats
from spaql.atomic_io import FIGURES, Content, check_folder, write_files
from spaql.errors import OutputError, StudyError
from spaql.runner.store import Store
from spaql.studies.sweep.gathered import METRIC, Gathered, Members, curves
from spaql.studies.sweep.status import opened
from spaql.studies.sweep.table import optima
from spaql.viz import figures
from spaql.viz.charts import Chart, Level, Series

MOST_LINES = 8
_MOST_NAMES = 16  # along an axis
MOST_PANELS = 24
_LEAST_VALUES = 3  # of a parameter that is worth an axis
_MANY_VALUES = 6  # from here on a line, not points
_WIDE = 20.0  # largest over smallest, from which on an axis goes by equal factors
_STEPS = "environment steps"  # training and selection together


@dataclass(frozen=True, eq=False)
class Sheet:
    """Charts that belong together.

    Attributes
    ----------
    name
        As files are called.
    title, note
        What they show, and how.
    charts
        One for each problem.
    """

    name: str
    title: str
    note: str
    charts: tuple[Chart, ...]

    def figure(self) -> Figure:
        """All of it, drawn."""
        return figures.panels(self.charts, title=self.title, note=self.note, columns=3 if len(self.charts) > 2 else 2)


def sheets(gathered: Gathered, baseline: str | None = None) -> list[Sheet]:
    """What can be drawn of a study: scores, and one sheet for each parameter that varies alone.

    Raises
    ------
    StudyError
        Where no run is done.
    """
    baseline = gathered.baseline if baseline is None else baseline
    if not any(len(group.sample) for group in gathered.groups):
        raise StudyError(f"{str(gathered.folder)!r}: no run with a value of {gathered.metric!r} is done yet")
    best = optima(gathered)
    found = [_scores(gathered, baseline, best)]
    return found + [_by_parameter(gathered, name, best) for name in _parameters(gathered)]


def draw(gathered: Gathered, target: str | os.PathLike[str] | None = None, baseline: str | None = None) -> list[Path]:
    """Draw all sheets into files.

    Parameters
    ----------
    gathered
        The study.
    target
        A file that ends in .png or .svg: the scores go there, and others beside it.  None draws both kinds of all
        sheets into the folder's `figures`.
    baseline
        An algorithm that is always shown; the study's where it is None.
    """
    found = sheets(gathered, baseline)
    drawn = {sheet.name: partial(Sheet.figure, sheet) for sheet in found}
    files: dict[str, Content] = {}
    if target is None:
        folder = check_folder(gathered.folder)
        for name, draw in drawn.items():
            files |= figures.writers(f"{FIGURES}/{name}", draw)
        return write_files(folder, files)
    path = Path(target)
    if path.suffix.lower() not in (".png", ".svg"):
        raise OutputError(f"{str(target)!r}: a figure ends in .png or .svg")
    for name, draw in drawn.items():
        stem = path.stem if name == next(iter(drawn)) else f"{path.stem}-{name}"
        files |= figures.writers(stem, draw, (path.suffix.removeprefix("."),))
    return write_files(check_folder(path.parent), files)


# Scores --------------------------------------------------------------------------------------------------------------


def _scores(gathered: Gathered, baseline: str | None, best: Mapping[str, float]) -> Sheet:
    """Learning curves where there are any, else means."""
    problems = _problems(gathered)
    chosen = {problem: _best(groups, baseline, MOST_LINES) for problem, groups in problems.items()}
    charts: list[Chart] = []
    with opened(gathered.folder) as store:
        for problem, groups in chosen.items():
            lines = {} if gathered.metric != METRIC else _curves(store, groups)
            if lines:
                charts.append(_curve_chart(gathered, problem, groups, lines, best.get(problem)))
                continue
            chosen[problem] = _best(problems[problem], baseline, _MOST_NAMES)
            charts.append(_mean_chart(gathered, problem, chosen[problem], best.get(problem)))
    left_out = max(len(problems[problem]) - len(groups) for problem, groups in chosen.items())
    shown = max(len(groups) for groups in chosen.values())
    note = [_agents(gathered), "bands and bars: 95%"]
    if left_out:
        note.append(f"{shown} of {shown + left_out:,} algorithms: those of the largest means" + _and_baseline(baseline))
    return Sheet("scores", gathered.name, "; ".join([*note, *_panels_left_out(gathered)]), tuple(charts))


def _and_baseline(baseline: str | None) -> str:
    return f", and {baseline}" if baseline else ""


def _problems(gathered: Gathered) -> dict[str, list[Members]]:
    """Groups of which something is done, by problem, as many as a figure holds."""
    found = {problem: [group for group in groups if len(group.sample)] for problem, groups in gathered.problems.items()}
    return dict([(problem, groups) for problem, groups in found.items() if groups][:MOST_PANELS])


def _panels_left_out(gathered: Gathered) -> list[str]:
    more = len(gathered.problems) - MOST_PANELS
    return [f"the first {MOST_PANELS} of {len(gathered.problems)} problems"] if more > 0 else []


def _agents(gathered: Gathered) -> str:
    counts = sorted({len(group.sample) for group in gathered.groups if len(group.sample)})
    many = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{gathered.metric}: means of {many} agent{'s' if counts != [1] else ''}"


def _best(groups: Sequence[Members], baseline: str | None, most: int) -> list[Members]:
    """The groups with the largest means, at most so many, with the baseline among them; in their own order."""
    ranked = sorted(groups, key=lambda group: (group.algorithm != baseline, -float(group.sample.mean())))
    kept = {id(group) for group in ranked[:most]}
    return [group for group in groups if id(group) in kept]


def _curves(store: Store, groups: Sequence[Members]) -> dict[str, tuple[NDArray[Any], NDArray[np.float64], str]]:
    """By algorithm: places along x, scores `[runs, n]`, and what x is; of those that were scored on the way."""
    found: dict[str, tuple[NDArray[Any], NDArray[np.float64], str]] = {}
    steps: dict[str, float] = {}  # per iteration, where all agents of a group took the same
    for group in groups:
        along = "budget" if group.run.budgets else "moment"
        rows = [row for row in curves(store, group, (along, "evaluation")) if {along, "evaluation"} <= row.keys()]
        if not rows or len(rows[0][along]) < 2:
            continue
        x = rows[0][along]
        scores = np.array([row["evaluation"] for row in rows if np.array_equal(row[along], x)])
        found[group.algorithm] = x, scores, _STEPS if along == "budget" else "iteration"
        if along == "moment":
            taken = {
                scalars.get("training_steps", 0) + scalars.get("selection_steps", 0)
                for scalars in store.scalars(group.ids).values()
            }
            if len(taken) == 1:
                steps[group.algorithm] = taken.pop() / group.run.iterations
    if steps.keys() == found.keys():
        return {name: (x * steps[name], scores, _STEPS) for name, (x, scores, _) in found.items()}
    return found


def _curve_chart(
    gathered: Gathered,
    problem: str,
    groups: Sequence[Members],
    lines: Mapping[str, tuple[NDArray[Any], NDArray[np.float64], str]],
    best: float | None,
) -> Chart:
    series, levels = [], []
    for group in groups:
        if group.algorithm in lines:
            x, scores, _ = lines[group.algorithm]
            series.append(_line(group.algorithm, x, scores))
        else:
            levels.append(_level(group))
    x_label = next(iter(lines.values()))[2]
    scale = _scale([x for line in lines.values() for x in line[0].tolist()])
    return Chart(problem, x_label, f"{gathered.metric} score", tuple(series), (*levels, *_optimum(best)), scale)


def _line(name: str, x: NDArray[Any], scores: NDArray[np.float64]) -> Series:
    """Means and their band; nothing where some agent has no score yet."""
    whole = np.isfinite(scores).all(axis=0)
    mean, low, high = (np.full(len(x), np.nan) for _ in range(3))
    band = stats.mean_band(scores[:, whole])
    mean[whole], low[whole], high[whole] = band.mean, band.low, band.high
    if len(scores) < 2:
        return Series(name, x.tolist(), mean.tolist(), look=_look(name))
    return Series(name, x.tolist(), mean.tolist(), low.tolist(), high.tolist(), _look(name))


def _mean_chart(gathered: Gathered, problem: str, groups: Sequence[Members], best: float | None) -> Chart:
    series = [
        Series("", [group.algorithm], [estimate.mean], *_ends([estimate]), _look(group.algorithm), "points")
        for group in groups
        for estimate in [stats.mean_interval(group.sample)]
    ]
    return Chart(problem, "", gathered.metric, tuple(series), _optimum(best), "category")


# By a parameter ------------------------------------------------------------------------------------------------------


def _parameters(gathered: Gathered) -> list[str]:
    """Names of parameters that are the only difference between at least a few variants of an algorithm."""
    values: dict[tuple[str, str], set[float]] = defaultdict(set)
    for group in gathered.groups:
        name = _only(group)
        if name is not None and len(group.sample):
            values[group.family, name].add(float(group.varied[name]))
    return list(dict.fromkeys(name for (_, name), found in values.items() if len(found) >= _LEAST_VALUES))


def _only(group: Members) -> str | None:
    """The parameter that alone tells a variant from the others, where it is a number."""
    if len(group.varied) != 1:
        return None
    name, value = next(iter(group.varied.items()))
    return name if isinstance(value, int | float) and not isinstance(value, bool) else None


def _by_parameter(gathered: Gathered, name: str, best: Mapping[str, float]) -> Sheet:
    charts = []
    for problem, groups in _problems(gathered).items():
        families: dict[str, list[Members]] = defaultdict(list)
        for group in groups:
            if _only(group) == name:
                families[group.family].append(group)
        levels = [_level(group) for group in groups if not group.varied]
        series = tuple(_against(name, family, members) for family, members in families.items())
        if series:
            scale = _scale([float(x) for each in series for x in each.x])
            chart = Chart(problem, name, gathered.metric, series, (*levels, *_optimum(best.get(problem))), scale)
            charts.append(chart)
    note = "; ".join([_agents(gathered), "bands and bars: 95%", *_panels_left_out(gathered)])
    return Sheet(f"by-{name}", f"{gathered.name}: by {name}", note, tuple(charts))


def _against(name: str, family: str, groups: Sequence[Members]) -> Series:
    members = sorted(groups, key=lambda group: float(group.varied[name]))
    estimates = [stats.mean_interval(group.sample) for group in members]
    style: Literal["line", "points"] = "line" if len(members) >= _MANY_VALUES else "points"
    x = [float(group.varied[name]) for group in members]
    return Series(family, x, [each.mean for each in estimates], *_ends(estimates), _look(family), style)


# Small parts ---------------------------------------------------------------------------------------------------------


def _ends(estimates: Sequence[stats.Estimate]) -> tuple[list[float] | None, list[float] | None]:
    """Ends of intervals, where any is known."""
    known = [np.isfinite(each.low) for each in estimates]
    if not any(known):
        return None, None
    low = [each.low if fine else np.nan for each, fine in zip(estimates, known, strict=True)]
    high = [each.high if fine else np.nan for each, fine in zip(estimates, known, strict=True)]
    return low, high


def _level(group: Members) -> Level:
    estimate = stats.mean_interval(group.sample)
    low, high = estimate.interval if np.isfinite(estimate.low) else (None, None)
    return Level(group.algorithm, estimate.mean, low, high, look=_look(group.algorithm))


def _optimum(best: float | None) -> tuple[Level, ...]:
    return () if best is None else (Level("optimum", best, look="optimum"),)


def _look(label: str) -> str:
    """Under which name its colour is known."""
    return label.replace("spaql", "SPAQL published")


def _scale(values: Sequence[float]) -> Literal["linear", "log"]:
    return "log" if min(values) > 0 and max(values) / min(values) >= _WIDE else "linear"
