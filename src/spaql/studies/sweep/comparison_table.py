"""The table of a study: one row per problem and algorithm, with intervals and a comparison with the baseline.

All statistics are those of `spaql.stats`.  Groups of equal size are computed together and share their bootstrap samples
under a fixed seed: the same store gives the same bytes.  P-values are adjusted by Holm's method over all comparisons on
one problem.
"""

import json
import math
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from spaql import formatting, stats
from spaql.errors import StudyError
from spaql.problems.optimum import is_above
from spaql.studies.sweep.group_values import METRIC, REGRET, GroupValues, StudyValues
from spaql.studies.sweep.optima import compute_optima
from spaql.studies.sweep.sweep_study import check_baseline

FORMATS = ("text", "markdown", "csv", "latex", "json")
_SEED = 0  # of the bootstrap
_RESAMPLES = 2000
_Columns = defaultdict[str, stats.Floats]  # by name of the number, [groups]; NaN where it is not defined


@dataclass(frozen=True)
class Row:
    """One group; None where a number is not defined."""

    problem: str
    algorithm: str
    n: int  # runs with a value
    expected: int
    failed: int
    mean: float | None = None
    low: float | None = None  # Student's 95% interval
    high: float | None = None
    deviation: float | None = None
    iqm: float | None = None
    iqm_low: float | None = None  # bootstrap
    iqm_high: float | None = None
    difference: float | None = None  # to the baseline on the same problem
    p_value: float | None = None  # Welch
    p_adjusted: float | None = None  # Holm
    better: float | None = None  # probability of a larger value than the baseline's; ties count half
    better_low: float | None = None
    better_high: float | None = None
    optimum: float | None = None
    regret: float | None = None
    episodes: int | None = None  # of training, after which the value is the cumulative regret
    slope: float | None = None  # of the cumulative regret on log-log axes
    slope_low: float | None = None
    slope_high: float | None = None
    bound: float | None = None  # exponent of a proven bound on it

    @property
    def count(self) -> str:
        """Return the number of values, with the expected number where some are missing."""
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{self.n}" if self.n == self.expected else f"{self.n} of {self.expected}{failed}"

    def format(self, digits: int) -> dict[str, str]:
        """Return the cells of the row by the name of their column."""
        return {
            "problem": self.problem,
            "algorithm": self.algorithm,
            "n": self.count,
            "mean [95%]": _format_interval(self.mean, self.low, self.high, digits),
            "IQM [95%]": _format_interval(self.iqm, self.iqm_low, self.iqm_high, digits),
            "difference": "" if self.difference is None else f"{self.difference:+z.{digits}f}",
            "p": "" if self.p_adjusted is None else "<0.001" if self.p_adjusted < 0.001 else f"{self.p_adjusted:.3f}",
            "better [95%]": _format_interval(self.better, self.better_low, self.better_high, 2),
            "optimum": _format_interval(self.optimum, None, None, digits if self.episodes is None else 3),
            "regret": _format_interval(self.regret, None, None, digits),
            "episodes": "" if self.episodes is None else f"{self.episodes:,}",
            "bound": _format_interval(self.bound, None, None, 2),
            "slope [95%]": _format_interval(self.slope, self.slope_low, self.slope_high, 2),
        }


@dataclass(frozen=True, eq=False)
class Comparison:
    """All rows of a study; a `brief` one has only means and their intervals."""

    name: str
    metric: str
    baseline: str | None
    rows: tuple[Row, ...]
    brief: bool = False
    stated: frozenset[str] = frozenset()  # problems whose optimum was stated, not computed

    @property
    def exceeding(self) -> list[str]:
        """Return a sentence for each row whose mean is above the stated optimum by far more than chance explains."""
        sentences = []
        for row in self.rows if self.metric in (METRIC, REGRET) else ():
            if row.problem not in self.stated or row.mean is None or row.low is None or row.optimum is None:
                continue
            gain = -row.mean if self.metric == REGRET else row.mean - row.optimum
            if is_above(gain, row.mean - row.low, row.optimum):
                what = f"{row.algorithm} on {row.problem}"
                sentences.append(f"{what} is above the stated optimum of {row.optimum:g}: correct it.")
        return sentences

    @property
    def note(self) -> str:
        """Return an explanation of the columns."""
        parts = [f"n: agents. mean: of {self.metric}, with Student's 95% interval."]
        if not self.brief:
            parts.append(f"IQM: interquartile mean, with a 95% bootstrap interval ({_RESAMPLES:,} resamples).")
            if any(row.n > stats.LARGE for row in self.rows):
                parts.append(f"Above {stats.LARGE:,} agents, bootstrap intervals are replaced by their normal limits.")
        if self._has("difference"):
            than = "smaller" if self.metric == REGRET else "larger"
            parts.append(
                f"difference: to {self.baseline} on the same problem; p: Welch's test, adjusted by Holm's method over "
                f"all comparisons of a problem. better: probability that an agent of this row has a {than} value than "
                f"one of {self.baseline} (ties count half), with a 95% bootstrap interval."
            )
        if self._has("regret"):
            parts.append("regret: optimum minus mean.")
        if self._has("episodes"):
            parts.append(
                "The cumulative regret is the sum of the optimum minus the return over so many training episodes. "
                "slope: of its mean on log-log axes over the last factor of ten of episodes, with a 95% jackknife "
                "interval."
            )
        if self._has("bound"):
            parts.append("bound: exponent of the bound that is proven for the algorithm, up to logarithms.")
        return " ".join([*parts, *self.exceeding])

    def _has(self, name: str) -> bool:
        return any(getattr(row, name) is not None for row in self.rows)

    @cached_property
    def table(self) -> formatting.Table:
        """Return the table with rounded numbers."""
        widths: dict[str, list[float]] = defaultdict(list)
        for row in self.rows:
            if row.low is not None and row.high is not None:
                widths[row.problem].append((row.high - row.low) / 2)
        digits = {problem: formatting.decimals(half_widths) for problem, half_widths in widths.items()}
        header = ["problem", "algorithm", "n", "mean [95%]"]
        header += [] if self.brief else ["IQM [95%]"]
        header += ["difference", "p", "better [95%]"] if self._has("difference") else []
        header += ["optimum", "regret"] if self._has("regret") else []
        if self._has("episodes"):
            header += ["episodes", "slope [95%]", *(["bound"] if self._has("bound") else []), "optimum"]
        cells = [row.format(digits.get(row.problem, 3)) for row in self.rows]
        rows = [[row[name] for name in header] for row in cells]
        return formatting.Table(header, rows, self.name, self.note, left=2, sections=True)

    def _repr_html_(self) -> str:
        return self.table._repr_html_()

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame` of the rows, with every digit."""
        return formatting.Table.of_records([asdict(row) for row in self.rows]).to_pandas()

    def format(self, form: str = "text") -> str:
        """Return the table in one of `FORMATS`, with a final line break; CSV and JSON have every digit."""
        if form not in FORMATS:
            raise StudyError(f"format: {form!r} is not one of {', '.join(FORMATS)}")
        if form == "text":
            return f"{self.table.text()}\n\n{textwrap.fill(self.note, 120)}\n"
        if form == "markdown":
            return f"{self.table.markdown()}\n\n{self.note}\n"
        if form == "latex":
            return "% Needs \\usepackage{booktabs}\n" + self.table.tex()
        rows = [asdict(row) for row in self.rows]
        if form == "csv":
            return formatting.Table.of_records(rows).csv()
        about = {"name": self.name, "metric": self.metric, "baseline": self.baseline}
        return json.dumps({**about, "rows": rows, "note": self.note}, indent=1, allow_nan=False) + "\n"


def compare(study: StudyValues, *, baseline: str | None = None, brief: bool = False) -> Comparison:
    """Compare the groups of a study with a baseline, by default its own; a brief comparison has only means."""
    groups, baseline = study.groups, study.baseline if baseline is None else baseline
    check_baseline(baseline, list(dict.fromkeys(group.label for group in groups)))
    columns: _Columns = defaultdict(lambda: np.full(len(groups), np.nan))
    for places, samples in _stack_by_size(groups, range(len(groups))):
        means = stats.mean_interval(samples)
        _fill(columns, places, means, "mean", "low", "high")
        if not brief:
            iqm = stats.interquartile_mean(samples, seed=_SEED, resamples=_RESAMPLES)
            _fill(columns, places, iqm, "iqm", "iqm_low", "iqm_high")
            columns["deviation"][places] = means.deviation
    if not brief:
        _add_differences(study, baseline, columns)
        optima = compute_optima(study)
        optimum = np.array([optima.get(group.problem, np.nan) for group in groups])
        if study.metric == REGRET:
            _add_slopes(groups, columns)
        else:
            columns["regret"] = optimum - columns["mean"]
        columns["optimum"] = np.where(np.isnan(columns["mean"]), np.nan, optimum)
    lists = {name: [x if math.isfinite(x) else None for x in values.tolist()] for name, values in columns.items()}
    numbers = [dict(zip(lists, values, strict=True)) for values in zip(*lists.values(), strict=True)]
    rows = [
        Row(group.problem, group.label, len(group.sample), len(group.seeds), group.failed, **some)
        for group, some in zip(groups, numbers or [{}] * len(groups), strict=True)
    ]
    if study.metric == REGRET and not brief:
        counts = [group.episodes if len(group.sample) else None for group in groups]
        rows = [replace(row, episodes=count) for row, count in zip(rows, counts, strict=True)]
    return Comparison(study.name, study.metric, baseline, tuple(rows), brief, frozenset(study.stated))


def _stack_by_size(groups: Sequence[GroupValues], places: Iterable[int]) -> Iterator[tuple[list[int], stats.Floats]]:
    """Yield the places of groups with equally many values, and these as columns; without empty groups."""
    sizes: dict[int, list[int]] = defaultdict(list)
    for place in places:
        sizes[len(groups[place].sample)].append(place)
    for size in sorted(sizes.keys() - {0}):
        yield sizes[size], np.stack([groups[place].sample for place in sizes[size]], axis=1)


def _fill(columns: _Columns, places: Sequence[int], band: stats.Estimate, *names: str) -> None:
    for name, values in zip(names, (band.mean, band.low, band.high), strict=True):
        columns[name][places] = values


def _add_slopes(groups: Sequence[GroupValues], columns: _Columns) -> None:
    """Fit the slopes of cumulative regret up to the episode at which it is compared."""
    for place, group in enumerate(groups):
        if group.curve is not None:
            some = group.curve.episodes <= group.episodes
            slope = stats.log_log_slope(group.curve.episodes[some], group.curve.cumulative[:, some])
            _fill(columns, [place], slope, "slope", "slope_low", "slope_high")
            columns["bound"][place] = np.nan if group.bound is None else group.bound


def _add_differences(study: StudyValues, baseline: str | None, columns: _Columns) -> None:
    """Compare groups with the baseline on the same problem."""
    by_problem: dict[str, list[int]] = defaultdict(list)
    for place, group in enumerate(study.groups):
        by_problem[group.problem].append(place)
    for places in by_problem.values():
        base = next((study.groups[place] for place in places if study.groups[place].label == baseline), None)
        if base is None or not len(base.sample):
            continue
        others = [place for place in places if study.groups[place] is not base]
        for some, samples in _stack_by_size(study.groups, others):
            sign = -1.0 if study.metric == REGRET else 1.0  # less regret is better
            pair = sign * samples, sign * base.sample
            better = stats.probability_of_improvement(*pair, seed=_SEED, resamples=_RESAMPLES)
            _fill(columns, some, better, "better", "better_low", "better_high")
            columns["difference"][some] = stats.mean_interval(samples).mean - stats.mean_interval(base.sample).mean
            if min(len(samples), len(base.sample)) > 1:
                varies = np.ptp(samples, axis=0) + np.ptp(base.sample) > 0  # no test can judge constants
                columns["p_value"][some] = np.where(varies, stats.welch(samples, base.sample).p_value, np.nan)
        tested = [place for place in others if math.isfinite(columns["p_value"][place])]
        columns["p_adjusted"][tested] = stats.holm(columns["p_value"][tested])


def _format_interval(value: float | None, low: float | None, high: float | None, digits: int) -> str:
    if value is None:
        return ""
    ends = "" if low is None or high is None else f" [{low:z.{digits}f}, {high:z.{digits}f}]"
    return f"{value:z.{digits}f}{ends}"
