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
from spaql.runner.store import STORE, Store
from spaql.studies.study import Sheet
from spaql.studies.sweep.comparison_table import compute_optima
from spaql.studies.sweep.study_folder import METRIC, GroupValues, StudyValues
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
    if not any(len(group.sample) for group in study.groups):
        raise StudyError(f"{str(study.folder)!r}: no finished run has a value of {study.metric!r} yet")
    return _Charts(study, study.baseline if baseline is None else baseline).sheets()


class _Charts:
    """What the sheets of a study share: groups with values, for as many problems as a figure has panels."""

    def __init__(self, study: StudyValues, baseline: str | None) -> None:
        self.study, self.baseline, self.optima = study, baseline, compute_optima(study)
        problems = {label: [group for group in groups if len(group.sample)] for label, groups in study.problems.items()}
        self.problems = dict([(label, groups) for label, groups in problems.items() if groups][:_MAX_PANELS])
        self.colours = _find_colours(study)

    def sheets(self) -> dict[str, Sheet]:
        values: dict[tuple[str, str], set[float]] = defaultdict(set)
        for group in self.study.groups:
            name = _single_parameter(group)
            if name is not None and len(group.sample):
                values[group.algorithm, name].add(float(group.varied[name]))
        varied = dict.fromkeys(name for (_, name), some in values.items() if len(some) >= _MIN_VALUES)
        return {"scores": self._score_sheet(), **{f"by-{name}": self._parameter_sheet(name) for name in varied}}

    def _score_sheet(self) -> Sheet:
        charts, shown, omitted = [], 0, 0
        with Store.open_readonly(self.study.folder / STORE) as store:
            for problem, groups in self.problems.items():
                chosen = _best_groups(groups, self.baseline, MAX_LINES)
                curves = _read_curves(store, chosen) if self.study.metric == METRIC else {}
                if curves:
                    series = [self._curve(label, x, scores) for label, (x, scores, _) in curves.items()]
                    x_label = next(iter(curves.values()))[2]
                else:
                    chosen, x_label = _best_groups(groups, self.baseline, _MAX_NAMES), ""
                    series = [self._points("", [group.label], [group], group.label) for group in chosen]
                flat = [group for group in chosen if curves and group.label not in curves]
                charts.append(self._chart(problem, x_label, series, flat))
                shown, omitted = max(shown, len(chosen)), max(omitted, len(groups) - len(chosen))
        extra = f"the {shown} of {shown + omitted:,} algorithms with the largest means" if omitted else ""
        extra += f", with {self.baseline}" if omitted and self.baseline else ""
        return self._sheet(self.study.name, charts, extra)

    def _parameter_sheet(self, name: str) -> Sheet:
        charts = []
        for problem, groups in self.problems.items():
            variants: dict[str, list[GroupValues]] = defaultdict(list)  # by algorithm
            for group in groups:
                if _single_parameter(group) == name:
                    variants[group.algorithm].append(group)
            series = []
            for algorithm, some in variants.items():
                some.sort(key=lambda group: float(group.varied[name]))
                series.append(self._points(algorithm, [float(group.varied[name]) for group in some], some, algorithm))
            if series:
                charts.append(self._chart(problem, name, series, [group for group in groups if not group.varied]))
        return self._sheet(f"{self.study.name}: by {name}", charts)

    def _sheet(self, title: str, charts: Sequence[Chart], extra: str = "") -> Sheet:
        counts = sorted({len(group.sample) for group in self.study.groups} - {0})
        agents = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        notes = [f"{self.study.metric}: means of {agents} agent{'s' if counts != [1] else ''}", "bands and bars: 95%"]
        notes += [extra] if extra else []
        if len(self.study.problems) > _MAX_PANELS:
            notes.append(f"the first {_MAX_PANELS} of {len(self.study.problems)} problems")
        return Sheet(title, charts, "; ".join(notes), 3 if len(charts) > 2 else 2)

    def _chart(self, problem: str, x_label: str, series: Sequence[Series], flat: Sequence[GroupValues]) -> Chart:
        """Make a panel, with the means of flat groups as levels; x is logarithmic where numbers span a wide range."""
        x: list[Any] = [value for line in series for value in line.x]
        scale: Literal["linear", "log", "category"] = "category" if isinstance(x[0], str) else "linear"
        if scale == "linear" and min(x) > 0 and max(x) / min(x) >= _LOG_RATIO:
            scale = "log"
        levels = []
        for group in flat:
            mean = stats.mean_interval(group.sample)
            low, high = mean.interval if np.isfinite(mean.low) else (None, None)
            levels.append(Level(group.label, mean.mean, low, high, colour=self.colours.get(group.label, "")))
        levels += [Level("optimum", self.optima[problem])] if problem in self.optima else []
        return Chart(problem, x_label, self.study.metric, tuple(series), tuple(levels), scale)

    def _curve(self, label: str, x: NDArray[Any], scores: NDArray[np.float64]) -> Series:
        """Make the means and their band; NaN where some agent has no score yet."""
        complete = np.isfinite(scores).all(axis=0)
        lines = np.full((3, len(x)), np.nan)
        band = stats.mean_interval(scores[:, complete])
        lines[:, complete] = band.mean, band.low, band.high
        return self._series(label, x.tolist(), lines, label, "line")

    def _points(self, name: str, x: Sequence[Any], groups: Sequence[GroupValues], label: str) -> Series:
        """Make the means of groups with their intervals."""
        means = [stats.mean_interval(group.sample) for group in groups]
        lines = np.array([[mean.mean, mean.low, mean.high] for mean in means]).T
        return self._series(name, x, lines, label, "line" if len(groups) >= _MANY_VALUES else "points")

    def _series(
        self, name: str, x: Sequence[Any], lines: NDArray[np.float64], label: str, style: Literal["line", "points"]
    ) -> Series:
        """Make a series of means and ends of intervals, `[3, n]`, where these are finite."""
        known = np.isfinite(lines[1])
        low, high = np.where(known, lines[1:], np.nan).tolist() if known.any() else (None, None)
        return Series(name, x, lines[0].tolist(), low, high, label, style, self.colours.get(label, ""))


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
            runs = store.scalars(group.finished).values()
            totals = {scalars.get("training_steps", 0) + scalars.get("selection_steps", 0) for scalars in runs}
            if len(totals) == 1:
                steps[group.label] = totals.pop() / run.iterations
    if steps.keys() == curves.keys():
        return {name: (x * steps[name], scores, _STEPS) for name, (x, scores, _) in curves.items()}
    return curves


def _single_parameter(group: GroupValues) -> str | None:
    """Return the parameter in which a variant differs from the others, where it is one number."""
    if len(group.varied) != 1:
        return None
    name, value = next(iter(group.varied.items()))
    return name if isinstance(value, int | float) and not isinstance(value, bool) else None


def _find_colours(study: StudyValues) -> Mapping[str, str]:
    """Return the colours of algorithms by label, with and without varied parameters; those of variants differ."""
    colours: dict[str, str] = {}
    for name in ("label", "algorithm"):
        groups = {getattr(group, name): group for group in study.groups}
        counts = Counter(group.run.algorithm for group in groups.values())
        for label, group in groups.items():
            if group.colour and (counts[group.run.algorithm] == 1 or label == group.run.algorithm):
                colours[label] = group.colour
    return colours
