"""Findings of the study, computed from its runs: each is a sentence, a number with its interval, and a chart.

Nothing here is typed in but what the paper prints.  Intervals are 95%: of means over agents (Student), of their
combinations over problems (Welch and Satterthwaite).  A finding whose runs are not in the plan is left out.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spaql.agents.registry import resolve
from spaql.formatting import decimals
from spaql.stats import Estimate, combination, mean_interval, welch
from spaql.studies.paper.measurements import Measurements
from spaql.studies.paper.plan import BIAS_ROLLOUTS, BIAS_SCALING, COMPARED, LEARNERS, LONG, Setting
from spaql.studies.paper.printed import ROLLOUTS
from spaql.studies.paper.rows import (
    CELLS_SLACK,
    REWARD_SLACK,
    ROUNDING,
    SIGNIFICANT,
    TableRow,
    around,
    beta_twin,
    by_problem,
    find_arrivals,
)
from spaql.studies.study import Floats, make_series
from spaql.viz.charts import Chart, Level, Series

_NOTICEABLE = 0.005  # in return: what a table of two decimals can show
_AT_OPTIMUM = Level("optimum", 100.0, look="optimum")


@dataclass(frozen=True)
class Finding:
    """One result: a sentence, a number with its 95% interval, unit and meaning, and a chart."""

    id: str
    title: str
    sentence: str
    estimate: Estimate
    meaning: str
    chart: Chart
    unit: str = ""

    @property
    def number(self) -> str:
        """The number with its interval, with as many decimals as the interval supports."""
        width = self.estimate.half_width
        digits = decimals([width], 4) if 0 < width < math.inf else 3
        low, value, high = (f"{x:z.{digits}f}" for x in (self.estimate.low, self.estimate.mean, self.estimate.high))
        return f"{value}{self.unit} [{low}, {high}]"

    def to_dict(self) -> dict[str, Any]:
        """For JSON, without the chart."""
        names = {"id": self.id, "title": self.title, "sentence": self.sentence}
        numbers = {"value": self.estimate.mean, "low": self.estimate.low, "high": self.estimate.high}
        return {**names, **numbers, "unit": self.unit, "meaning": self.meaning, "number": self.number}


def _label(algorithm: str) -> str:
    return resolve(algorithm).label


def _printed(rows: Sequence[TableRow]) -> list[TableRow]:
    """Rows of SPAQL and AQL for which the paper prints something."""
    return [row for row in rows if row.algorithm in LEARNERS and row.printed is not None]


def _points(
    settings: Sequence[Setting], estimates: Iterable[Estimate], name: str = "", algorithm: str | None = None
) -> Series:
    """One point with its interval for each problem."""
    label = name or _label(algorithm or "")
    ticks = [setting.tick for setting in settings]
    return make_series(label, ticks, list(estimates), algorithm=algorithm, style="points")


def _chart(title: str, y_label: str, series: Iterable[Series], note: str, *levels: Level) -> Chart:
    """A chart with a point for each problem."""
    return Chart(title, "", y_label, tuple(series), levels, "category", note)


def _difference(
    settings: Sequence[Setting],
    sample: Callable[[Setting, str], Floats],
    scale: Callable[[Setting], float] = lambda setting: 1.0,
    algorithms: tuple[str, str] = ("spaql", "aql"),
) -> Estimate:
    """One algorithm minus another, times the scale of each setting, mean over the settings."""
    samples, weights = [], []
    for setting in settings:
        for name, sign in zip(algorithms, (1, -1), strict=True):
            samples.append(sample(setting, name))
            weights.append(sign * scale(setting) / len(settings))
    return combination(samples, weights)


# About the printed numbers -------------------------------------------------------------------------------------------


def reproduction(measurements: Measurements, rows: Sequence[TableRow]) -> Finding | None:
    """Compare our training scores with the printed means."""
    printed = _printed(rows)
    if not printed:
        return None
    settings, ours = measurements.plan.short, by_problem(rows)
    by_id = {setting.id: setting for setting in measurements.plan.settings}
    rewards, strictly = ([row for row in printed if row.reward_within(slack)] for slack in (REWARD_SLACK, ROUNDING))
    cells = [row for row in printed if abs(row.cells_ratio - 1) <= CELLS_SLACK]
    swapped = {row.problem for row in printed if row.swapped}
    agreed = [setting for setting in settings if _same_bold(setting, ours)]
    furthest = max(printed, key=lambda row: abs(row.cells_ratio - 1.0))
    # Where the Uniform rows are Beta's, the same agents stand for two rows: one sample, twice the weight.
    weights = Counter(((row.counterpart or row).problem, row.algorithm) for row in printed)
    samples = [measurements.as_in_paper(by_id[problem], name) for problem, name in weights]
    mean = combination(samples, [count / len(printed) for count in weights.values()])
    shift = mean.mean - float(np.mean([row.printed.mean for row in printed if row.printed]))
    theirs = math.hypot(*(row.printed.half_width for row in printed if row.printed)) / len(printed)
    sentence = (
        f"Scored as in the paper, {len(rewards)} of {len(printed)} mean rewards and {len(cells)} of "
        f"{len(printed)} mean numbers of cells agree with the printed ones: rewards within the wider of the two "
        f"intervals plus {REWARD_SLACK:g}, the furthest {max(abs(row.reward_gap[0]) for row in printed):.3f} off "
        f"({len(strictly)} within interval and rounding alone); cells within a quarter, the furthest "
        f"{furthest.label} on {by_id[furthest.problem].name} with {furthest.cells_ratio:.2f} times as many. The same "
        f"algorithm is in bold on {len(agreed)} of {len(settings)} problems"
        + (f"; {len(swapped)} problems printed as Uniform are compared with Beta arrivals." if swapped else ".")
    )
    chart = _chart(
        "Our training score minus the printed mean",
        "difference of mean rewards",
        [_points(settings, [around(*ours[s.id, a].reward_gap) for s in settings], algorithm=a) for a in LEARNERS],
        "bars: the wider of the two 95% intervals; Uniform rows against the arrivals that reproduce them",
        Level("no difference", 0.0, look="optimum"),
    )
    number = around(shift, math.hypot(mean.half_width, theirs))
    meaning = f"mean of ours minus printed over {len(printed)} rewards"
    return Finding("reproduction", "Reproducing the printed tables", sentence, number, meaning, chart)


def _same_bold(setting: Setting, ours: dict[tuple[str, str], TableRow]) -> bool:
    """Whether Welch's test marks the algorithms that the paper sets in bold."""
    here = [ours[setting.id, name] for name in LEARNERS]
    there = [ours[(row.counterpart or row).problem, row.algorithm] for row in here]
    return [row.printed_best for row in here] == [row.training_score_best for row in there]


def above_optimum(measurements: Measurements, rows: Sequence[TableRow]) -> Finding | None:
    """Find printed means that no policy can reach."""
    printed = _printed(rows)
    if not printed:
        return None
    settings = {setting.id: setting for setting in measurements.plan.settings}

    def excess(row: TableRow, problem: str) -> Estimate:
        assert row.printed is not None
        return around(row.printed.mean - measurements.optima[problem].value, row.printed.half_width + ROUNDING)

    def real_excess(row: TableRow) -> Estimate:
        return excess(row, (row.counterpart or row).problem)

    labelled = [row for row in printed if excess(row, row.problem).low > 0]
    real = [row for row in printed if real_excess(row).low > 0]
    largest = max(printed, key=lambda row: real_excess(row).mean)
    names = " and ".join(sorted({row.label for row in real}))
    swapped = any(row.swapped for row in printed)
    sentence = (
        f"{len(labelled)} of the {len(printed)} printed means lie above the exact optimum of the problem they are "
        "printed for, which no policy can earn on average"
        + ("; if the rows printed as Uniform are compared with Beta arrivals, " if swapped else ": ")
        + (f"{len(real)} still do" if swapped else f"{len(real)} in all")
        + (f" ({names})." if real else ".")
    )
    short, ours = measurements.plan.short, by_problem(rows)
    chart = _chart(
        "Printed mean minus exact optimum",
        "printed minus optimum",
        [_points(short, [real_excess(ours[s.id, name]) for s in short], algorithm=name) for name in LEARNERS],
        "bars: printed 95% interval and rounding; Uniform rows against the optimum of the arrivals that reproduce them",
        Level("optimum", 0.0, look="optimum"),
    )
    meaning = f"largest of the {len(printed)} differences: {largest.label}, {settings[largest.problem].name}"
    return Finding("above-optimum", "Printed scores above the optimum", sentence, real_excess(largest), meaning, chart)


def uniform_is_beta(measurements: Measurements, rows: Sequence[TableRow]) -> Finding | None:
    """Find which arrivals reproduce the rows printed as Uniform."""
    arrivals = find_arrivals(rows)
    if arrivals is None:
        return None
    keys, ours = arrivals.keys, by_problem(rows)
    verdicts = {"beta": "are reproduced by Beta(5, 2) arrivals", "uniform": "are reproduced by Uniform arrivals"}
    sentence = (
        f"The rows printed for Uniform arrivals {verdicts.get(arrivals.nearer or '', 'fit both kinds of arrivals')}: "
        f"over their {len(keys)} means ours are {arrivals.uniform:.3f} away from the printed numbers under Uniform "
        f"arrivals and {arrivals.beta:.3f} under Beta(5, 2)."
    )
    ticks = [f"{_label(name)}, c = {problem.rsplit('-', 1)[1]}" for problem, name in keys]
    series = {
        "printed": [around(p.mean, p.half_width) for key in keys if (p := ours[key].printed)],
        "ours, Uniform arrivals": [e for key in keys if (e := ours[key].training_score)],
        "ours, Beta(5, 2) arrivals": [
            e for problem, name in keys if (e := ours[beta_twin(problem), name].training_score)
        ],
    }
    points = [make_series(name, ticks, estimates, style="points") for name, estimates in series.items()]
    chart = _chart("The rows printed as Uniform", "mean training score", points, "bars: 95% intervals")
    number = around(arrivals.uniform - arrivals.beta, arrivals.half_width)
    meaning = "mean distance to the printed numbers under Uniform arrivals, minus that under Beta"
    return Finding("uniform-is-beta", "The rows printed as Uniform", sentence, number, meaning, chart)


# About the algorithms and their training score -----------------------------------------------------------------------


def running_maximum(measurements: Measurements, rows: Sequence[TableRow]) -> Finding | None:
    """Measure how far SPAQL's training score lies above the return of its policy."""
    plan, settings = measurements.plan, measurements.plan.short
    if BIAS_SCALING not in plan.scalings:
        return None
    families: dict[str, list[Setting]] = {}
    for setting in settings:
        families.setdefault(setting.family, []).append(setting)

    def bias(setting: Setting, rollouts: int) -> Floats:
        group = plan.bias(setting, rollouts)
        return measurements.values(group, "training_score") - measurements.values(group)

    def gap(members: Sequence[Setting], rollouts: int) -> Estimate:
        return combination([bias(setting, rollouts) for setting in members], np.full(len(members), 1 / len(members)))

    def share(rollouts: int) -> float:
        evaluations = [(setting, measurements.values(plan.bias(setting, rollouts))) for setting in settings]
        return float(np.mean([measurements.percent(setting) * values.mean() for setting, values in evaluations]))

    overall, others = gap(settings, ROLLOUTS), [count for count in BIAS_ROLLOUTS if count != ROLLOUTS]
    sentence = (
        "SPAQL's training score is the largest of all the noisy means it saw. It exceeds the return of its policy by "
        f"{overall.mean:.3f} with the paper's N = {ROLLOUTS} rollouts, on average over {len(settings)} problems ("
        + ", ".join(f"{gap(settings, count).mean:.3f} with N = {count}" for count in others)
        + f"); the policies chosen in this way earn {share(ROLLOUTS):.1f}% of the optimum ("
        + ", ".join(f"{share(count):.1f}% with N = {count}" for count in others)
        + ")."
    )
    chart = Chart(
        "Training score minus evaluation of the policy that SPAQL returns",
        "rollouts N that score an iteration",
        "training score minus evaluation",
        tuple(
            make_series(family, BIAS_ROLLOUTS, [gap(members, rollouts) for rollouts in BIAS_ROLLOUTS])
            for family, members in families.items()
        ),
        (Level("unbiased", 0.0, look="optimum"),),
        "log",
        f"scaling {BIAS_SCALING:g}; means over the problems of a family, bands: 95%",
    )
    meaning = f"training score minus evaluation of SPAQL for the paper's N = {ROLLOUTS}, mean over the problems"
    return Finding("running-maximum", "The running maximum", sentence, overall, meaning, chart)


def myopic(measurements: Measurements, rows: Sequence[TableRow]) -> Finding | None:
    """Find the range of V(x') in all updates."""
    plan, settings = measurements.plan, measurements.plan.short

    def extremes(setting: Setting, name: str) -> tuple[float, float]:
        groups = [plan.study(setting, name, scaling) for scaling in plan.scalings]
        low = min(float(measurements.values(group, "value_low").min()) for group in groups)
        high = max(float(measurements.values(group, "value_high").max()) for group in groups)
        return low / setting.horizon, high / setting.horizon

    def middle(low: float, high: float, count: int = 0) -> Estimate:
        return Estimate((low + high) / 2, low, high, math.nan, count)

    ranges = {name: [extremes(setting, name) for setting in settings] for name in LEARNERS}
    low, high = min(low for low, _ in ranges["spaql"]), max(high for _, high in ranges["spaql"])
    updates = sum(
        int(measurements.values(plan.study(setting, "spaql", scaling), "training_steps").sum())
        for setting in settings
        for scaling in plan.scalings
    )
    optima = measurements.optima
    worse = [s.tick for s in settings if optima[s.id].myopic < optima[s.id].value - _NOTICEABLE]
    same = low == high == 1.0
    sentence = (
        f"In {updates:,} updates of SPAQL the value V of the next state was {'always exactly' if same else 'between'} "
        + ("H" if same else f"{low:.3f} H and {high:.3f} H")
        + (": the bootstrap carries no information and the agent is myopic" if same else "")
        + (f"; a myopic policy is worse than the optimal one on {', '.join(worse)}." if worse else ".")
    )
    chart = _chart(
        "Range of V(x') during training, as a share of H",
        "V / H",
        [_points(settings, [middle(*ends) for ends in ranges[name]], algorithm=name) for name in LEARNERS],
        "bars: from the smallest to the largest value over all agents, scalings and updates",
    )
    meaning = "V / H in SPAQL's updates; in brackets the smallest and the largest value"
    return Finding("myopic", "The value of the next state", sentence, middle(low, high, updates), meaning, chart)


def ranking(measurements: Measurements, rows: Sequence[TableRow]) -> Finding | None:
    """Compare SPAQL and AQL by the printed tables and by evaluation."""
    settings, ours = measurements.plan.short, by_problem(rows)

    def ahead(column: str) -> Counter[str]:
        best = [[name for name in LEARNERS if getattr(ours[setting.id, name], column)] for setting in settings]
        return Counter(names[0] if len(names) == 1 else "neither" for names in best)

    printed, evaluation = ahead("printed_best"), ahead("evaluation_best")
    sentence = (
        f"By the printed tables SPAQL is ahead on {printed['spaql']} problems, AQL on {printed['aql']}, with no "
        f"difference on {printed['neither']}; by evaluations SPAQL is ahead on {evaluation['spaql']}, AQL on "
        f"{evaluation['aql']}, with no difference on {evaluation['neither']} (Welch, 5%)."
    )
    samples = {"training score": measurements.as_in_paper, "evaluation": measurements.separate}
    chart = _chart(
        "SPAQL minus AQL, in percent of the optimum",
        "difference, % of optimum",
        [
            _points(settings, [_difference([setting], sample, measurements.percent) for setting in settings], name)
            for name, sample in samples.items()
        ],
        "above zero SPAQL is better; bars: 95% intervals of the difference",
        Level("equal", 0.0, look="optimum"),
    )
    meaning = "SPAQL minus AQL by evaluation, in percent of the optimum, mean over the problems"
    number = _difference(settings, measurements.separate, measurements.percent)
    return Finding("ranking", "The ranking of SPAQL and AQL", sentence, number, meaning, chart, "%")


# About the cost of a policy ------------------------------------------------------------------------------------------


def cells(measurements: Measurements, rows: Sequence[TableRow]) -> Finding | None:
    """Compare the numbers of cells."""
    settings = measurements.plan.short
    counts = {(s.id, name): measurements.as_in_paper(s, name, "cells") for s in settings for name in LEARNERS}
    logs = _difference(settings, lambda s, name: np.log(counts[s.id, name]), algorithms=("aql", "spaql"))
    ratio = Estimate(math.exp(logs.mean), math.exp(logs.low), math.exp(logs.high), math.nan, logs.count)
    ratios = [counts[setting.id, "aql"].mean() / counts[setting.id, "spaql"].mean() for setting in settings]
    sentence = (
        f"AQL keeps {ratio.mean:.1f} times as many cells as SPAQL (geometric mean over the "
        f"problems; {min(ratios):.1f} to {max(ratios):.1f} times)."
    )
    series = [_points(settings, [mean_interval(counts[s.id, a]) for s in settings], algorithm=a) for a in LEARNERS]
    for name in LEARNERS:
        printed = [setting.printed.cells[name] for setting in settings if setting.printed]
        estimates = [around(number.mean, number.half_width) for number in printed]
        series.append(_points(settings, estimates, f"{_label(name)}, printed"))
    note = "agents behind the training score; bars: 95% intervals"
    chart = _chart("Cells of the returned policy", "cells", series, note)
    return Finding("cells", "Cells", sentence, ratio, "cells of AQL over cells of SPAQL", chart, " times")


def sensitivity(measurements: Measurements, rows: Sequence[TableRow]) -> Finding | None:
    """Average evaluations over all scalings."""
    plan, settings, count = measurements.plan, measurements.plan.short, len(measurements.plan.scalings)
    if count < 2:
        return None

    def means(setting: Setting, name: str) -> Floats:
        values = [measurements.values(plan.study(setting, name, scaling)).mean() for scaling in plan.scalings]
        return measurements.percent(setting) * np.array(values)

    averages = {name: [means(setting, name) for setting in settings] for name in LEARNERS}
    spread = {name: float(np.mean([each.std(ddof=1) for each in averages[name]])) for name in LEARNERS}
    level = {name: float(np.mean([each.mean() for each in averages[name]])) for name in LEARNERS}
    samples, weights = [], []
    for setting in settings:
        for name, sign in (("spaql", 1), ("aql", -1)):
            samples += [measurements.values(plan.study(setting, name, scaling)) for scaling in plan.scalings]
            weights += [sign * measurements.percent(setting) / len(settings) / count] * count
    ahead = sum(a.mean() > b.mean() for a, b in zip(averages["spaql"], averages["aql"], strict=True))
    sentence = (
        f"Averaged over the {count} scalings, SPAQL earns {level['spaql']:.1f}% of the optimum and AQL "
        f"{level['aql']:.1f}%, SPAQL being ahead on {ahead} of {len(settings)} problems; from scaling to scaling the "
        f"score varies by {spread['spaql']:.1f} points for SPAQL and {spread['aql']:.1f} for AQL (standard deviation)."
    )
    chart = _chart(
        f"Evaluation averaged over {count} scalings",
        "% of optimum",
        [
            _points(settings, [around(float(e.mean()), float(e.std(ddof=1))) for e in averages[name]], algorithm=name)
            for name in LEARNERS
        ],
        "bars: standard deviation over the scalings",
        _AT_OPTIMUM,
    )
    meaning = f"SPAQL minus AQL by evaluation, mean over {count} scalings and the problems, in percent of the optimum"
    number = combination(samples, weights)
    return Finding("sensitivity", "Sensitivity to the scaling", sentence, number, meaning, chart, "%")


def all_steps(measurements: Measurements, rows: Sequence[TableRow]) -> Finding | None:
    """Compare evaluations after the same number of environment steps, of training and selection."""
    settings = measurements.plan.short
    budgets = {name: np.geomspace(0.002, 1.0, 40) for name in COMPARED}
    budgets["spaql"] = np.geomspace(0.002, 1.0 + ROLLOUTS, 56)
    shares: dict[str, list[Floats]] = {}  # by setting [agents, budgets], at last that of AQL
    for name in COMPARED:
        shares[name] = []
        for setting in settings:
            curves = measurements.curves(setting, name)
            steps = np.log(curves.moment_steps / (setting.iterations * setting.horizon))
            wanted = np.log(np.append(budgets[name], 1.0))
            share = 100 * curves.evaluation / measurements.optima[setting.id].value  # [agents, moments]
            shares[name].append(np.array([np.interp(wanted, steps, agent, left=np.nan) for agent in share]))
    samples = [share[:, -1] for name in ("spaql", "aql") for share in shares[name]]
    if not all(np.isfinite(sample).all() for sample in samples):
        return None  # so few iterations that SPAQL's first takes more steps than AQL has in all
    number = combination(samples, np.repeat([1.0, -1.0], len(settings)) / len(settings))
    ends = {name: float(np.mean([share[:, -1].mean() for share in shares[name]])) for name in COMPARED}
    final = float(np.mean([share[:, -2].mean() for share in shares["spaql"]]))
    sentence = (
        f"An iteration of SPAQL takes {1 + ROLLOUTS} times the environment steps of one of AQL, since it also plays "
        f"{ROLLOUTS} rollouts to choose. With the steps that AQL has in all, SPAQL is at {ends['spaql']:.1f}% of the "
        f"optimum and AQL at {ends['aql']:.1f}% (evaluation, mean over the problems); with {1 + ROLLOUTS} times as "
        f"many, SPAQL is at {final:.1f}%. Tessera is at {ends['tessera']:.1f}% with the steps that AQL has."
    )
    series = []
    for name in COMPARED:
        bands = [
            combination([share[:, at] for share in shares[name]], np.full(len(settings), 1 / len(settings)))
            for at in range(len(budgets[name]))
            if all(np.isfinite(share[:, at]).all() for share in shares[name])
        ]
        series.append(make_series(_label(name), budgets[name][-len(bands) :].tolist(), bands, algorithm=name))
    chart = Chart(
        "Evaluation against all environment steps",
        "training and selection steps, in units of K H (the steps of AQL)",
        "% of optimum",
        tuple(series),
        (_AT_OPTIMUM,),
        "log",
        "mean over the problems, at the scaling chosen on other agents; bands: 95%",
    )
    meaning = "SPAQL minus AQL after the same number of environment steps (K H), evaluation, in percent of the optimum"
    return Finding("all-steps", "Reward against all environment steps", sentence, number, meaning, chart, "%")


def long_episodes(measurements: Measurements, rows: Sequence[TableRow]) -> Finding | None:
    """Repeat the paper's experiment with H = 50, with more agents."""
    setting = next((setting for setting in measurements.plan.settings if setting.id == LONG), None)
    if setting is None:
        return None
    ours = {name: by_problem(rows)[LONG, name] for name in COMPARED}
    count = {name: ours[name].evaluation_cells or 0.0 for name in COMPARED}
    share = {name: 100 * ours[name].share for name in COMPARED}
    sentence = (
        f"With episodes of {setting.horizon} steps (oil, Laplace, λ = 1; the paper trains 2 agents, here are "
        f"{ours['aql'].evaluation.count}) SPAQL reaches {share['spaql']:.1f}% of the optimum with {count['spaql']:.0f} "
        f"cells and AQL {share['aql']:.1f}% with {count['aql']:,.0f} cells, {count['aql'] / count['spaql']:.0f} times "
        f"as many. Tessera reaches {share['tessera']:.1f}% with {count['tessera']:.0f} cells."
    )
    series = []
    for name in COMPARED:
        curves = measurements.curves(setting, name)
        bands = [mean_interval(measurements.percent(setting) * values) for values in curves.evaluation.T]
        series.append(make_series(_label(name), curves.moment.tolist(), bands, algorithm=name))
    chart = Chart(
        f"Evaluation over training, H = {setting.horizon}",
        "training iteration",
        "% of optimum",
        tuple(series),
        (_AT_OPTIMUM,),
        "linear",
        "of the policy that would be returned; bands: 95% over agents",
    )
    meaning = f"SPAQL minus AQL for H = {setting.horizon}, evaluation, in percent of the optimum"
    number = _difference([setting], measurements.separate, measurements.percent)
    return Finding("long-episodes", "Longer episodes", sentence, number, meaning, chart, "%")


def tessera(measurements: Measurements, rows: Sequence[TableRow]) -> Finding | None:
    """Compare Tessera with SPAQL and AQL, in percent of the optimum."""
    settings, ours = measurements.plan.short, by_problem(rows)
    lowest = min(settings, key=lambda setting: ours[setting.id, "tessera"].share)
    standings = [[_standing(measurements, setting, rival) for rival in LEARNERS] for setting in settings]
    ahead, behind = (sum(min(each) == sign for each in standings) for sign in (1, -1))
    count = {name: sum(ours[s.id, name].evaluation_cells or 0 for s in settings) / len(settings) for name in COMPARED}
    least = math.floor(1000 * ours[lowest.id, "tessera"].share) / 10  # a bound is not rounded up
    sentence = (
        f"Tessera earns at least {least:.1f}% of the optimum on every problem (least on {lowest.name}), with the "
        f"environment steps of AQL, where SPAQL takes {1 + ROLLOUTS} times as many, and {count['tessera']:.0f} cells "
        f"on average (SPAQL {count['spaql']:.0f}, AQL {count['aql']:.0f}). It is ahead of both on {ahead} of "
        f"{len(settings)} problems and behind one on {behind} (Welch, 5%)."
    )

    def share(setting: Setting, name: str) -> Estimate:
        return mean_interval(measurements.percent(setting) * measurements.separate(setting, name))

    chart = _chart(
        "Evaluations, in percent of the optimum",
        "% of optimum",
        [_points(settings, [share(setting, a) for setting in settings], algorithm=a) for a in COMPARED],
        f"SPAQL takes {1 + ROLLOUTS} times the environment steps of the others; bars: 95%",
        _AT_OPTIMUM,
    )
    meaning = "Tessera minus AQL by evaluation, in percent of the optimum, mean over the problems"
    number = _difference(settings, measurements.separate, measurements.percent, ("tessera", "aql"))
    return Finding("tessera", "Past the paper: Tessera", sentence, number, meaning, chart, "%")


def _standing(measurements: Measurements, setting: Setting, rival: str) -> int:
    """1 where Tessera is ahead of the rival by Welch's test at 5%, -1 where it is behind, else 0."""
    test = welch(measurements.separate(setting, "tessera"), measurements.separate(setting, rival))
    return 0 if test.p_value >= SIGNIFICANT else 1 if test.difference > 0 else -1


_MAKERS: Sequence[Callable[[Measurements, Sequence[TableRow]], Finding | None]] = (
    *(reproduction, above_optimum, uniform_is_beta, running_maximum, myopic, ranking),
    *(cells, sensitivity, all_steps, long_episodes, tessera),
)
FINDINGS = {make.__name__.replace("_", "-"): make for make in _MAKERS}


def make_findings(measurements: Measurements, rows: Sequence[TableRow]) -> list[Finding]:
    """All findings that the problems of the plan allow."""
    return [finding for make in FINDINGS.values() if (finding := make(measurements, rows)) is not None]
