"""Charts of a study, one panel per problem.

*Scores* are learning curves, means of the agents with a 95% band, where runs were evaluated during training, and
otherwise the means of all algorithms.  Where the variants of an algorithm differ in one number only, a second sheet
shows their means against it.  Where there are more algorithms than a panel can show, the best ones and the baseline are
shown, and the note says so.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from spaql import stats
from spaql.errors import StudyError
from spaql.runner.store import Store
from spaql.studies.study import Sheet
from spaql.studies.sweep.comparison_table import compute_optima
from spaql.studies.sweep.group_values import METRIC, GroupValues, StudyValues
from spaql.studies.sweep.status import open_store
from spaql.viz.charts import Chart, Level, Series

MAX_LINES = 8
_MAX_NAMES = 16  # along an axis
_MAX_PANELS = 24
_MIN_VALUES = 3  # of a parameter for a sheet of its own
_MANY_VALUES = 6  # joined by a line
_LOG_RATIO = 20.0  # largest over smallest value for a logarithmic axis
_STEPS = "environment steps"  # training and selection together
_Curve = tuple[NDArray[Any], NDArray[np.float64], str]  # x [n], scores [runs, n], label of x


def make_sheets(study: StudyValues, baseline: str | None = None) -> dict[str, Sheet]:
    """Make the sheets of a study by the name of their file: scores, and one for each parameter that varies alone.

    The baseline, by default that of the study, is always shown.  A StudyError is raised where no run has a value.
    """
    baseline = study.baseline if baseline is None else baseline
    if not any(len(group.sample) for group in study.groups):
        raise StudyError(f"{str(study.folder)!r}: no finished run has a value of {study.metric!r} yet")
    optima = compute_optima(study)
    sheets = {"scores": _score_sheet(study, baseline, optima)}
    return sheets | {f"by-{name}": _parameter_sheet(study, name, optima) for name in _varied_parameters(study)}


def _score_sheet(study: StudyValues, baseline: str | None, optima: Mapping[str, float]) -> Sheet:
    problems = _finished_problems(study)
    chosen = {problem: _best_groups(groups, baseline, MAX_LINES) for problem, groups in problems.items()}
    charts, colours = [], _find_colours(study)
    with open_store(study.folder) as store:
        for problem, groups in chosen.items():
            curves = _read_curves(store, groups) if study.metric == METRIC else {}
            levels, x_label = (
                _levels([g for g in groups if curves and g.label not in curves], optima.get(problem), colours),
                "",
            )
            if curves:
                series = [_line(label, x, scores, colours) for label, (x, scores, _) in curves.items()]
                x_label = next(iter(curves.values()))[2]
            else:
                chosen[problem] = _best_groups(problems[problem], baseline, _MAX_NAMES)
                series = [_points("", [group.label], [group], group.label, colours) for group in chosen[problem]]
            charts.append(_chart(study, problem, x_label, series, levels))
    omitted = max(len(problems[problem]) - len(groups) for problem, groups in chosen.items())
    shown = max(map(len, chosen.values()))
    extra = f"the {shown} of {shown + omitted:,} algorithms with the largest means" if omitted else ""
    return _make_sheet(study, study.name, charts, extra + (f", with {baseline}" if omitted and baseline else ""))


def _make_sheet(study: StudyValues, title: str, charts: Sequence[Chart], extra: str = "") -> Sheet:
    counts = sorted({len(group.sample) for group in study.groups} - {0})
    agents = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    notes = [f"{study.metric}: means of {agents} agent{'s' if counts != [1] else ''}", "bands and bars: 95%", extra]
    if len(study.problems) > _MAX_PANELS:
        notes.append(f"the first {_MAX_PANELS} of {len(study.problems)} problems")
    return Sheet(title, charts, "; ".join(filter(None, notes)), 3 if len(charts) > 2 else 2)


def _finished_problems(study: StudyValues) -> dict[str, list[GroupValues]]:
    """Return the groups with values by problem, for as many problems as a figure has panels."""
    problems = {label: [group for group in groups if len(group.sample)] for label, groups in study.problems.items()}
    return dict([(label, groups) for label, groups in problems.items() if groups][:_MAX_PANELS])


def _best_groups(groups: Sequence[GroupValues], baseline: str | None, most: int) -> list[GroupValues]:
    """Return the groups with the largest means, the baseline among them, in their own order."""
    ranked = sorted(groups, key=lambda group: (group.label != baseline, -float(group.sample.mean())))
    kept = {id(group) for group in ranked[:most]}
    return [group for group in groups if id(group) in kept]


def _read_curves(store: Store, groups: Sequence[GroupValues]) -> dict[str, _Curve]:
    """Read the learning curves by algorithm, of the groups that were evaluated during training."""
    curves: dict[str, _Curve] = {}
    steps: dict[str, float] = {}  # per iteration, where it is the same for all agents of a group
    for group in groups:
        run = group.run
        axis = "budget" if run.budgets else "moment"
        rows = [store.arrays(run_id, (axis, "evaluation")) for run_id in group.finished]
        rows = [row for row in rows if len(row) == 2]
        if not rows or len(rows[0][axis]) < 2:
            continue
        x = rows[0][axis]
        scores = np.array([row["evaluation"] for row in rows if np.array_equal(row[axis], x)])
        curves[group.label] = x, scores, _STEPS if run.budgets else "iteration"
        if not run.budgets:
            totals = {
                scalars.get("training_steps", 0) + scalars.get("selection_steps", 0)
                for scalars in store.scalars(group.finished).values()
            }
            if len(totals) == 1:
                steps[group.label] = totals.pop() / run.iterations
    if steps.keys() == curves.keys():
        return {name: (x * steps[name], scores, _STEPS) for name, (x, scores, _) in curves.items()}
    return curves


def _chart(study: StudyValues, label: str, x_label: str, series: Sequence[Series], levels: Sequence[Level]) -> Chart:
    """Make a panel; its axis is logarithmic where numbers span a wide range."""
    x: list[Any] = [value for line in series for value in line.x]
    scale: Literal["linear", "log", "category"] = "category" if isinstance(x[0], str) else "linear"
    if scale == "linear" and min(x) > 0 and max(x) / min(x) >= _LOG_RATIO:
        scale = "log"
    return Chart(label, x_label, study.metric, tuple(series), tuple(levels), scale)


def _line(label: str, x: NDArray[Any], scores: NDArray[np.float64], colours: Mapping[str, str]) -> Series:
    """Make the means and their band; NaN where some agent has no score yet."""
    complete = np.isfinite(scores).all(axis=0)
    lines = np.full((3, len(x)), np.nan)
    band = stats.mean_interval(scores[:, complete])
    lines[:, complete] = band.mean, band.low, band.high
    low, high = lines[1:].tolist() if len(scores) > 1 else (None, None)
    return Series(label, x.tolist(), lines[0].tolist(), low, high, label, colour=colours.get(label, ""))


def _varied_parameters(study: StudyValues) -> list[str]:
    """Return the parameters that are the only difference between at least a few variants of an algorithm."""
    values: dict[tuple[str, str], set[float]] = defaultdict(set)
    for group in study.groups:
        name = _single_parameter(group)
        if name is not None and len(group.sample):
            values[group.algorithm, name].add(float(group.varied[name]))
    return list(dict.fromkeys(name for (_, name), some in values.items() if len(some) >= _MIN_VALUES))


def _single_parameter(group: GroupValues) -> str | None:
    """Return the parameter in which a variant differs from the others, where it is one number."""
    if len(group.varied) != 1:
        return None
    name, value = next(iter(group.varied.items()))
    return name if isinstance(value, int | float) and not isinstance(value, bool) else None


def _parameter_sheet(study: StudyValues, name: str, optima: Mapping[str, float]) -> Sheet:
    charts, colours = [], _find_colours(study)
    for problem, groups in _finished_problems(study).items():
        families: dict[str, list[GroupValues]] = defaultdict(list)
        for group in groups:
            if _single_parameter(group) == name:
                families[group.algorithm].append(group)
        for members in families.values():
            members.sort(key=lambda group: float(group.varied[name]))
        series = [
            _points(family, [float(group.varied[name]) for group in members], members, family, colours)
            for family, members in families.items()
        ]
        if series:
            levels = _levels([group for group in groups if not group.varied], optima.get(problem), colours)
            charts.append(_chart(study, problem, name, series, levels))
    return _make_sheet(study, f"{study.name}: by {name}", charts)


def _points(
    name: str, x: Sequence[Any], groups: Sequence[GroupValues], label: str, colours: Mapping[str, str]
) -> Series:
    """Make the means of groups with their intervals, where these are finite."""
    estimates = [stats.mean_interval(group.sample) for group in groups]
    low, high = ([getattr(estimate, end) for estimate in estimates] for end in ("low", "high"))
    known = np.isfinite(low)
    ends = [np.where(known, end, np.nan).tolist() if known.any() else None for end in (low, high)]
    style: Literal["line", "points"] = "line" if len(groups) >= _MANY_VALUES else "points"
    return Series(
        name,
        x,
        [estimate.mean for estimate in estimates],
        ends[0],
        ends[1],
        label,
        style,
        colour=colours.get(label, ""),
    )


def _levels(groups: Sequence[GroupValues], optimum: float | None, colours: Mapping[str, str]) -> list[Level]:
    """Make the means of groups, and the optimum, as horizontal lines."""
    levels = []
    for group in groups:
        estimate = stats.mean_interval(group.sample)
        low, high = estimate.interval if np.isfinite(estimate.low) else (None, None)
        levels.append(Level(group.label, estimate.mean, low, high, colour=colours.get(group.label, "")))
    return levels if optimum is None else [*levels, Level("optimum", optimum)]


def _find_colours(study: StudyValues) -> dict[str, str]:
    """Return the colours of algorithms by label, with and without varied parameters; those of variants differ."""
    colours: dict[str, str] = {}
    for name in ("label", "algorithm"):
        groups = {getattr(group, name): group for group in study.groups}
        counts = Counter(group.run.algorithm for group in groups.values())
        for label, group in groups.items():
            if group.colour and (counts[group.run.algorithm] == 1 or label == group.run.algorithm):
                colours[label] = group.colour
    return colours
