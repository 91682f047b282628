"""The table of a study: a row for each problem and algorithm, with intervals, and compared with a baseline.

All statistics are those of `spaql.stats`; groups of one size are worked out together, and share what the bootstrap
draws, under a fixed seed: the same store gives the same bytes.  P-values are adjusted by Holm's rule over all
comparisons of one problem.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from spaql import formatting as texts
from spaql import stats
from spaql.errors import StudyError
from spaql.runner.results import known_optimum
from spaql.runner.run_spec import problem_of
from spaql.studies.sweep.gathered import Gathered, Members

FORMATS = ("text", "markdown", "csv", "latex", "json")
_SEED = 0  # of the bootstrap
_RESAMPLES = 2000
_REWARDS = ("evaluation", "training_score")  # metrics that an optimum can be compared with
_TOLERANCE = 1e-4
_MOST_SOLVED = 50  # problems whose optimum is worked out,
_MOST_STEPS = 500  # and the sum of their horizons: a few seconds
_MOST_NAMED = 12  # labels in a sentence


@dataclass(frozen=True)
class Row:
    """One group; None is what cannot be said.

    Attributes
    ----------
    problem, algorithm
        Labels.
    n, expected, failed
        Runs with a value, runs of the study, and runs that could not be done.
    mean, low, high, deviation
        Of the values, with Student's 95% interval.
    iqm, iqm_low, iqm_high
        Mean of the middle half, with its bootstrap interval.
    difference, p_value, p_adjusted
        Mean minus that of the baseline on the same problem, Welch's test of it, and that adjusted by Holm's rule.
    better, better_low, better_high
        Chance that an agent of this row has a larger value than one of the baseline, ties counting half.
    optimum, regret
        The exact optimum, and what the mean is short of it.
    """

    problem: str
    algorithm: str
    n: int
    expected: int
    failed: int
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    deviation: float | None = None
    iqm: float | None = None
    iqm_low: float | None = None
    iqm_high: float | None = None
    difference: float | None = None
    p_value: float | None = None
    p_adjusted: float | None = None
    better: float | None = None
    better_low: float | None = None
    better_high: float | None = None
    optimum: float | None = None
    regret: float | None = None

    @property
    def count(self) -> str:
        """How many values it has, and of how many where some are missing."""
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{self.n}" if self.n == self.expected else f"{self.n} of {self.expected}{failed}"


@dataclass(frozen=True, eq=False)
class Table:
    """All rows of a study, and in which words they are told."""

    name: str
    metric: str
    baseline: str | None
    rows: tuple[Row, ...]
    brief: bool = False

    @property
    def note(self) -> str:
        """How to read it."""
        parts = [f"n: agents. mean: of {self.metric}, with Student's 95% interval."]
        if not self.brief:
            parts.append(
                f"IQM: mean of the middle half of the agents, with a 95% bootstrap interval ({_RESAMPLES:,} resamples)."
            )
            if any(row.n > stats.LARGE for row in self.rows):
                parts.append(f"Above {stats.LARGE:,} agents bootstrap intervals are their normal limits.")
        if self._compared:
            parts.append(
                f"difference: to {self.baseline} on the same problem; p: Welch's test of it, adjusted by Holm's rule "
                "over all comparisons of a problem. better: chance that an agent of this row has a larger value than "
                f"one of {self.baseline}, ties counting half, with a 95% bootstrap interval."
            )
        if self._solved:
            parts.append("regret: exact optimum minus mean.")
        return " ".join(parts)

    @property
    def _compared(self) -> bool:
        return any(row.difference is not None for row in self.rows)

    @property
    def _solved(self) -> bool:
        return any(row.regret is not None for row in self.rows)

    def columns(self) -> list[str]:
        """Heads of what `cells` says."""
        heads = ["n", "mean [95%]"]
        heads += [] if self.brief else ["IQM [95%]"]
        heads += ["difference", "p", "better [95%]"] if self._compared else []
        return heads + (["optimum", "regret"] if self._solved else [])

    def cells(self) -> list[list[str]]:
        """Each row as short text, without the labels."""
        compared, solved = self._compared, self._solved
        widths: dict[str, list[float]] = defaultdict(list)
        for row in self.rows:
            if row.low is not None and row.high is not None:
                widths[row.problem].append((row.high - row.low) / 2)
        decimals = {problem: texts.decimals(found) for problem, found in widths.items()}
        found = []
        for row in self.rows:
            digits = decimals.get(row.problem, 3)
            line = [row.count, _interval(row.mean, row.low, row.high, digits)]
            line += [] if self.brief else [_interval(row.iqm, row.iqm_low, row.iqm_high, digits)]
            if compared:
                line += [
                    _number(row.difference, digits, "+"),
                    _chance(row.p_adjusted),
                    _interval(row.better, row.better_low, row.better_high, 2),
                ]
            if solved:
                line += [_number(row.optimum, digits), _number(row.regret, digits)]
            found.append(line)
        return found

    def written(self, form: str = "text") -> str:
        """It as one of `FORMATS`, with a line break at the end."""
        if form not in FORMATS:
            raise StudyError(f"format: {form!r} is not one of {', '.join(FORMATS)}")
        return str(getattr(self, f"_{form}")())

    def to_dict(self) -> dict[str, Any]:
        """All of it with all digits, ready for JSON."""
        rows = [asdict(row) for row in self.rows]
        return {"name": self.name, "metric": self.metric, "baseline": self.baseline, "rows": rows, "note": self.note}

    def _heads(self) -> list[str]:
        return ["problem", "algorithm", *self.columns()]

    def _text(self) -> str:
        """Aligned; a problem is named in the first of its rows."""
        return texts.Table(self._heads(), list(self._lines()), left=2).text() + "\n"

    def _lines(self) -> Iterator[list[str]]:
        last = None
        for row, cells in zip(self.rows, self.cells(), strict=True):
            yield ["" if row.problem == last else row.problem, row.algorithm, *cells]
            last = row.problem

    def _markdown(self) -> str:
        rows = [[row.problem, row.algorithm, *cells] for row, cells in zip(self.rows, self.cells(), strict=True)]
        return f"{texts.Table(self._heads(), rows, left=2).markdown()}\n\n{self.note}\n"

    def _csv(self) -> str:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(each.name for each in fields(Row))
        for row in self.rows:
            writer.writerow("" if value is None else value for value in vars(row).values())
        return text.getvalue()

    def _json(self) -> str:
        return json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n"

    def _latex(self) -> str:
        heads = self._heads()
        lines = [
            "% Needs \\usepackage{booktabs}",
            "\\begin{table}",
            "\\centering\\scriptsize\\setlength{\\tabcolsep}{3pt}",
            f"\\caption{{{texts.tex(self.name)}. {texts.tex(self.note)}}}",
            "\\begin{tabular}{ll" + "r" * (len(heads) - 2) + "}",
            "\\toprule",
            " & ".join(texts.tex(head) for head in heads) + " \\\\",
        ]
        for line in self._lines():
            if line[0]:
                lines.append("\\midrule")
            lines.append(" & ".join(texts.tex(cell) for cell in line) + " \\\\")
        return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", "\\end{table}", ""])


def tabulate(gathered: Gathered, *, baseline: str | None = None, brief: bool = False) -> Table:
    """The table of a study as far as it is done.

    Parameters
    ----------
    gathered
        The study.
    baseline
        The label of the algorithm that others are compared with; the study's own where it is None.
    brief
        Only means and their intervals, which takes no time.

    Raises
    ------
    StudyError
        Where there is no such algorithm.
    """
    baseline = gathered.baseline if baseline is None else baseline
    labels = dict.fromkeys(group.algorithm for group in gathered.groups)
    if baseline is not None and baseline not in labels:
        raise StudyError(f"baseline: {baseline!r} is none of the algorithms {_some(list(labels))}")
    found: list[dict[str, Any]] = [{} for _ in gathered.groups]
    for members in _by_size(gathered.groups, range(len(gathered.groups))):
        for at, told in _means(gathered.groups, members, brief):
            found[at] |= told
    if not brief:
        for at, told in _comparisons(gathered, baseline):
            found[at] |= told
        best = optima(gathered)
        for group, told in zip(gathered.groups, found, strict=True):
            value = best.get(group.problem)
            if value is not None and told.get("mean") is not None:
                told |= {"optimum": value, "regret": value - told["mean"]}
    rows = [
        Row(group.problem, group.algorithm, len(group.sample), group.expected, group.failed, **told)
        for group, told in zip(gathered.groups, found, strict=True)
    ]
    return Table(gathered.name, gathered.metric, baseline, tuple(rows), brief)


def optima(gathered: Gathered) -> dict[str, float]:
    """The exact optimum by problem, where it is known well enough and the metric is a return."""
    if gathered.metric not in _REWARDS:
        return {}
    same: dict[str, list[str]] = defaultdict(list)  # labels by the problem itself
    problems: dict[str, Any] = {}
    for label, groups in gathered.problems.items():
        run = groups[0].run
        if run.compiled:
            which = json.dumps([run.problem, run.arguments], sort_keys=True, default=str)
            same[which].append(label)
            if which not in problems:
                problems[which] = problem_of(run)
    found: dict[str, float] = {}
    steps = 0
    # The shortest first, so that which ones are solved does not depend on their order in the study.
    solvable = sorted((each.horizon, which) for which, each in problems.items() if each.model is not None)
    for horizon, which in solvable[:_MOST_SOLVED]:
        steps += horizon
        if steps > _MOST_STEPS:
            break
        known = known_optimum(problems[which], _TOLERANCE)
        if known is not None:
            found |= dict.fromkeys(same[which], known.value)
    return found


def _by_size(groups: Sequence[Members], places: Sequence[int]) -> list[list[int]]:
    """Places of groups with as many values, for each number of them that there is; none is no number."""
    found: dict[int, list[int]] = defaultdict(list)
    for at in places:
        if len(groups[at].sample):
            found[len(groups[at].sample)].append(at)
    return [found[size] for size in sorted(found)]


def _stacked(groups: Sequence[Members], places: Sequence[int]) -> stats.Floats:
    """Samples of one size, a column each."""
    return np.stack([groups[at].sample for at in places], axis=1)


def _means(groups: Sequence[Members], places: Sequence[int], brief: bool) -> Iterator[tuple[int, dict[str, Any]]]:
    samples = _stacked(groups, places)
    band = stats.mean_band(samples)
    columns = {"mean": band.mean, "low": band.low, "high": band.high}
    if not brief:
        middle = stats.interquartile_bands(samples, seed=_SEED, resamples=_RESAMPLES)
        columns |= {"iqm": middle.mean, "iqm_low": middle.low, "iqm_high": middle.high}
        columns["deviation"] = stats.deviations(samples)
    yield from _told(places, columns)


def _comparisons(gathered: Gathered, baseline: str | None) -> Iterator[tuple[int, dict[str, Any]]]:
    """What is said of groups beside the baseline of their problem."""
    places: dict[str, list[int]] = defaultdict(list)
    for at, group in enumerate(gathered.groups):
        places[group.problem].append(at)
    for members in places.values():
        base = next((gathered.groups[at] for at in members if gathered.groups[at].algorithm == baseline), None)
        if base is None or not len(base.sample):
            continue
        others = [at for at in members if gathered.groups[at] is not base]
        tested: list[int] = []
        p_values: list[float] = []
        for some in _by_size(gathered.groups, others):
            samples = _stacked(gathered.groups, some)
            better = stats.improvement_bands(samples, base.sample, seed=_SEED, resamples=_RESAMPLES)
            columns = {"better": better.mean, "better_low": better.low, "better_high": better.high}
            columns["difference"] = stats.mean_band(samples).mean - stats.mean_interval(base.sample).mean
            if min(len(samples), len(base.sample)) > 1:
                columns["p_value"] = stats.welch_tests(samples, base.sample).p_value
                tested += some
                p_values += columns["p_value"].tolist()
            yield from _told(some, columns)
        if tested:
            yield from _told(tested, {"p_adjusted": stats.holm(p_values)})


def _told(places: Sequence[int], columns: Mapping[str, stats.Floats]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Columns as what is said of each place; what is not finite is not said."""
    lists = {name: values.tolist() for name, values in columns.items()}
    for at, place in enumerate(places):
        yield place, {name: value if math.isfinite(value := values[at]) else None for name, values in lists.items()}


def _some(labels: Sequence[str]) -> str:
    more = f" and {len(labels) - _MOST_NAMED:,} more" if len(labels) > _MOST_NAMED else ""
    return ", ".join(repr(label) for label in labels[:_MOST_NAMED]) + more


def _number(value: float | None, digits: int, sign: str = "") -> str:
    return "" if value is None else f"{value:{sign}z.{digits}f}"


def _interval(value: float | None, low: float | None, high: float | None, digits: int) -> str:
    if value is None:
        return ""
    ends = "" if low is None or high is None else f" [{low:z.{digits}f}, {high:z.{digits}f}]"
    return f"{value:z.{digits}f}{ends}"


def _chance(p_value: float | None) -> str:
    if p_value is None:
        return ""
    return "<0.001" if p_value < 0.001 else f"{p_value:.3f}"
