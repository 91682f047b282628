"""The folder of a study at any moment: as one HTML page, as figures, and in a terminal while the study runs.

The charts have one panel per problem.  *Scores* are learning curves where runs were evaluated during training, and
otherwise means.  Where the variants of an algorithm differ in one number only, a sheet shows their means against it.
"""

import os
import shutil
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TextIO

import numpy as np
from numpy.typing import NDArray

from spaql import stats
from spaql._version import __version__
from spaql.atomic_io import FIGURES, check_folder, write_file, write_files
from spaql.errors import NothingYetError, OutputError, StudyError
from spaql.formatting import Table
from spaql.runner.store import STORE, Store
from spaql.studies.study import Report, Sheet, make_series
from spaql.studies.sweep.comparison_table import compare
from spaql.studies.sweep.group_values import METRIC, REGRET, GroupValues, StudyValues
from spaql.studies.sweep.optima import compute_optima
from spaql.studies.sweep.regret import read_metric
from spaql.studies.sweep.status import read_status
from spaql.studies.sweep.verdict import METHOD, Best, find_best, make_verdict
from spaql.viz.charts import Chart, Level, Series

_MAX_FAILURES = 50
_METHOD = (
    "An evaluation is the mean return, over new episodes, of the agent that a run returns; its random numbers are used "
    "by neither training nor selection. Every run has its own seed; its numbers depend on its seed and its parameters "
    "only, not on the engine."
)
_HOME, _CLEAR_LINE, _CLEAR_BELOW, _CLEAR = "\x1b[H", "\x1b[K", "\x1b[J", "\x1b[2J"
MAX_LINES = 8
_MAX_NAMES = 16  # along an axis
_MAX_PANELS = 24
_MIN_VALUES = 3  # of a parameter for a sheet of its own
_MANY_VALUES = 6  # joined by a line
_LOG_RATIO = 20.0  # largest over smallest value for a logarithmic axis
_STEPS = "environment steps"  # training and selection together
_Curve = tuple[NDArray[Any], NDArray[np.float64], str]  # x [n], scores [runs, n], label of x


def write_report(
    folder: str | os.PathLike[str],
    target: str | os.PathLike[str] | None = None,
    *,
    metric: str = METRIC,
    baseline: str | None = None,
) -> Path:
    """Write the page of a folder, and return its path; `report.html` in the folder by default."""
    path = Path(folder) / "report.html" if target is None else Path(target)
    study, status = read_metric(folder, metric), read_status(folder, _MAX_FAILURES)
    best = find_best(study)
    marks = {at: best[group.problem].mark for at, group in enumerate(study.groups) if _is_best(group, best)}
    tables = [replace(compare(study, baseline=baseline).table, marks=marks)]
    if status.failures:
        form = "{algorithm} on {problem}".format_map
        rows = [[form(run), str(run["seed"]), run["kind"], run["message"]] for run in status.failures]
        total = sum(status.kinds.values())
        note = f"The last {len(rows)} of {total:,}." if total > len(rows) else ""
        caption = f"Failed runs: {status.failure_counts}"
        tables.append(Table(["run", "seed", "kind", "message"], rows, caption, note, left=4))
    figures = make_sheets(study, baseline) if any(len(group.sample) for group in study.groups) else {}
    subtitle = f"{status.counts}. spaql {__version__}."
    verdict = make_verdict(best.values(), complete=status.state == "finished")
    note = f"{_METHOD} {METHOD}" if verdict else _METHOD
    report = Report("sweep", study.name, subtitle, tables=tables, note=note, figures=figures, verdict=verdict)
    write_file(path, report.page())
    return path


def _is_best(group: GroupValues, best: Mapping[str, Best]) -> bool:
    return group.problem in best and best[group.problem].rivals > 0 and best[group.problem].label == group.label


def write_figures(
    study: StudyValues, target: str | os.PathLike[str] | None = None, baseline: str | None = None
) -> list[Path]:
    """Draw all charts of a study into files, and return their paths.

    Parameters
    ----------
    study, baseline
        See `make_sheets`.
    target
        A file name that ends in .png or .svg, for the scores; other sheets are written beside it.  None writes PNG and
        SVG files of all sheets into the `figures` of the folder; their names begin with the metric, if that is not the
        evaluation.
    """
    sheets = make_sheets(study, baseline)
    contents = Report("sweep", study.name, figures=sheets).contents()
    if target is None:
        prefix = FIGURES + ("/" if study.metric == METRIC else f"/{study.metric}-")
        names = {name: name.replace(f"{FIGURES}/", prefix, 1) for name in contents if name.startswith(FIGURES)}
        files = {names[name]: contents[name] for name in names}
        return write_files(check_folder(study.folder), files)
    path = Path(target)
    if path.suffix.lower() not in (".png", ".svg"):
        raise OutputError(f"{str(target)!r}: a figure is written as .png or .svg; choose one of these suffixes")
    names = {sheet: path.name if sheet == "scores" else f"{path.stem}-{sheet}{path.suffix}" for sheet in sheets}
    files = {name: contents[f"{FIGURES}/{sheet}{path.suffix.lower()}"] for sheet, name in names.items()}
    return write_files(check_folder(path.parent), files)


def watch(
    folder: str | os.PathLike[str],
    out: TextIO,
    *,
    every: float = 2.0,
    once: bool = False,
    metric: str = METRIC,
    pause: Callable[[float], object] = time.sleep,
) -> None:
    """Show status, means and last failures until a study is finished.

    The folder need not exist yet.  There is a view `every` few seconds, or less often where one takes more than half of
    that; `once` shows one view only, and `pause` waits for a number of seconds.  In a terminal each view overwrites the
    one before, so that nothing flickers.
    """
    out.write(_CLEAR if out.isatty() else "")
    while True:
        start, finished = time.monotonic(), False
        try:
            status = read_status(folder)
            values = read_metric(folder, metric)
            table = compare(values, brief=True).table.text().splitlines()
            lines = [status.sentence, status.bar(), "", values.name, *table]
            lines += ["", *status.lines()[1:]] if status.kinds else []
            finished = status.state == "finished"
        except NothingYetError:
            lines = [f"waiting for the first run in {str(folder)!r}; start spaql sweep STUDY.toml --out {folder}"]
        if out.isatty():
            columns, rows = shutil.get_terminal_size()
            if len(lines) > rows - 1:
                lines = [*lines[: rows - 2], f"... and {len(lines) - rows + 2} more lines"]
            out.write(_HOME + "".join(f"{line[:columns]}{_CLEAR_LINE}\n" for line in lines) + _CLEAR_BELOW)
        else:
            out.write("\n".join([*lines, "", ""]))
        out.flush()
        if once or finished:
            return
        took = time.monotonic() - start
        pause(max(every - took, took, 0.05))


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
        first = self._regret_sheets() if self.study.metric == REGRET else {"scores": self._score_sheet()}
        return {**first, **{f"by-{name}": self._parameter_sheet(name) for name in varied}}

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

    def _regret_sheets(self) -> dict[str, Sheet]:
        """Make the sheets of cumulative regret, and of the regret per episode between the points of its curve."""
        sums: list[Chart] = []
        rates: list[Chart] = []
        for problem, groups in self.problems.items():
            chosen = _best_groups(groups, self.baseline, MAX_LINES, least=True)
            for charts, gain in ((sums, False), (rates, True)):
                series = []
                for group in chosen:
                    assert group.curve is not None  # a group with a sample has one
                    x, y = group.curve.episodes, group.curve.cumulative
                    if gain:
                        y = np.diff(y, axis=1, prepend=0.0) / np.diff(x, prepend=0)
                    series.append(self._curve(group.label, x, y))
                chart = self._chart(problem, "training episode", series, [])
                label = "regret per episode" if gain else "cumulative regret"
                charts.append(replace(chart, y_label=label, x_scale=chart.x_scale if gain else "linear"))
        most = max(map(len, self.problems.values()))
        extra = f"the {MAX_LINES} of {most:,} algorithms with the least regret" if most > MAX_LINES else ""
        return {
            "scores": self._sheet(f"{self.study.name}: cumulative regret", sums, extra),
            "per-episode": self._sheet(f"{self.study.name}: regret per episode", rates, extra),
        }

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
        if problem in self.optima and self.study.metric != REGRET:
            levels.append(Level("optimum", self.optima[problem]))
        return Chart(problem, x_label, self.study.metric, tuple(series), tuple(levels), scale)

    def _curve(self, label: str, x: NDArray[Any], scores: NDArray[np.float64]) -> Series:
        """Make the means and their band; NaN where some agent has no score yet."""
        complete = np.isfinite(scores).all(axis=0)
        mean, low, high = lines = np.full((3, len(x)), np.nan)
        band = stats.mean_interval(scores[:, complete])
        lines[:, complete] = band.mean, band.low, band.high
        means = stats.Estimate(mean, low, high, np.nan, band.count)
        return make_series(label, x.tolist(), means, colour=self.colours.get(label, ""))

    def _points(self, name: str, x: Sequence[Any], groups: Sequence[GroupValues], label: str) -> Series:
        """Make the means of groups with their intervals."""
        means = [stats.mean_interval(group.sample) for group in groups]
        style: Literal["line", "points"] = "line" if len(groups) >= _MANY_VALUES else "points"
        return make_series(name, x, means, look=label, style=style, colour=self.colours.get(label, ""))


def _best_groups(
    groups: Sequence[GroupValues], baseline: str | None, most: int, *, least: bool = False
) -> list[GroupValues]:
    """Return the groups with the largest (or least) means, the baseline among them, in their own order."""
    sign = 1.0 if least else -1.0
    ranked = sorted(groups, key=lambda group: (group.label != baseline, sign * float(group.sample.mean())))
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
