"""Findings of the study, computed from its runs: each is a sentence, a number with its interval, and a chart.

Nothing here is typed in but what the paper prints.  Intervals are 95%: of means over agents (Student), of their
combinations over problems (Welch and Satterthwaite).  A finding whose runs are not in the plan is left out.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spaql.agents.registry import resolve
from spaql.formatting import decimals
from spaql.stats import Estimate, combination, mean_interval
from spaql.studies.paper.measurements import Measurements, TableRow, beta_twin, compare_arrivals
from spaql.studies.paper.plan import BIAS_ROLLOUTS, BIAS_SCALING, COMPARED, LEARNERS, LONG, NAMES, Setting
from spaql.studies.paper.printed import ROLLOUTS
from spaql.studies.study import Floats, make_series, standing
from spaql.viz.charts import Chart, Level, Series

REWARD_SLACK = 0.03  # how far a new implementation may be off, beside the intervals
ROUNDING = 0.01  # a printed mean and its half width have two decimals each
CELLS_SLACK = 0.25
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
        numbers = {"value": self.estimate.mean, "low": self.estimate.low, "high": self.estimate.high}
        words = {"id": self.id, "title": self.title, "sentence": self.sentence}
        return words | numbers | {"unit": self.unit, "meaning": self.meaning, "number": self.number}


def around(mean: float, half_width: float) -> Estimate:
    """A number and the half width of its interval, where there is no sample behind them."""
    return Estimate(mean, mean - half_width, mean + half_width, math.nan, 0)


def _label(algorithm: str) -> str:
    return resolve(algorithm).label


def _printed(measured: Measurements) -> list[TableRow]:
    """Rows of SPAQL and AQL for which the paper prints something."""
    return [row for row in measured.rows.values() if row["algorithm"] in LEARNERS and row["printed"] is not None]


def _points(
    settings: Sequence[Setting], estimate: Callable[[Setting, str], Estimate], algorithms: Iterable[str] = LEARNERS
) -> list[Series]:
    """For each algorithm one point with its interval for each problem."""
    ticks = [setting.tick for setting in settings]
    return [
        make_series(_label(a), ticks, [estimate(setting, a) for setting in settings], algorithm=a, style="points")
        for a in algorithms
    ]


def _chart(title: str, y_label: str, series: Iterable[Series], note: str, *levels: Level) -> Chart:
    """A chart with a point for each problem."""
    return Chart(title, "", y_label, tuple(series), levels, "category", note)


def _mean(samples: Sequence[Floats]) -> Estimate:
    """The mean over several samples."""
    return combination(samples, np.full(len(samples), 1 / len(samples)))


def _difference(
    settings: Sequence[Setting],
    sample: Callable[[Setting, str], Floats],
    scale: Callable[[Setting], float] = lambda setting: 1.0,
    algorithms: tuple[str, str] = ("spaql", "aql"),
) -> Estimate:
    """One algorithm minus another, times the scale of each setting, mean over the settings."""
    samples = [sample(setting, name) for setting in settings for name in algorithms]
    weights = [sign * scale(setting) / len(settings) for setting in settings for sign in (1, -1)]
    return combination(samples, weights)


# About the printed numbers -------------------------------------------------------------------------------------------


def reproduction(measured: Measurements) -> Finding:
    """Compare our training scores with the printed means."""
    printed, settings, rows = _printed(measured), measured.plan.short, measured.rows

    def gap(row: TableRow) -> tuple[float, float]:
        """Our training score minus the printed mean, and the wider of the two half widths."""
        width = max(row["printed_half_width"], row["counterpart_half_width"])
        return row["counterpart_training_score"] - row["printed"], width

    def agree(slack: float) -> int:
        return sum(abs(difference) <= width + slack for difference, width in map(gap, printed))

    def has_same_bold(setting: Setting) -> bool:
        ours = [rows[setting.id, name] for name in LEARNERS]
        theirs = [rows[row["counterpart"], row["algorithm"]] for row in ours]
        return [row["printed_best"] for row in ours] == [row["training_score_best"] for row in theirs]

    ratios = [row["counterpart_cells"] / row["printed_cells"] for row in printed]
    furthest = max(range(len(printed)), key=lambda at: abs(ratios[at] - 1.0))
    swapped = {row["problem"] for row in printed if row["counterpart"] != row["problem"]}
    # Where the Uniform rows are Beta's, the same agents stand for two rows: one sample, twice the weight.
    weights = Counter((row["counterpart"], row["algorithm"]) for row in printed)
    by_id = {setting.id: setting for setting in settings}
    samples = [measured.as_in_paper(by_id[problem], name) for problem, name in weights]
    mean = combination(samples, [count / len(printed) for count in weights.values()])
    shift = mean.mean - float(np.mean([row["printed"] for row in printed]))
    theirs = math.hypot(*(row["printed_half_width"] for row in printed)) / len(printed)
    sentence = (
        f"Scored as in the paper, {agree(REWARD_SLACK)} of {len(printed)} mean rewards and "
        f"{sum(abs(ratio - 1) <= CELLS_SLACK for ratio in ratios)} of "
        f"{len(printed)} mean numbers of cells agree with the printed ones: rewards within the wider of the two "
        f"intervals plus {REWARD_SLACK:g}, the furthest {max(abs(gap(row)[0]) for row in printed):.3f} off "
        f"({agree(ROUNDING)} within interval and rounding alone); cells within a quarter, the furthest "
        f"{_label(printed[furthest]['algorithm'])} on {NAMES[printed[furthest]['problem']]} with "
        f"{ratios[furthest]:.2f} times as many. The same "
        f"algorithm is in bold on {sum(map(has_same_bold, settings))} of {len(settings)} problems"
        + (f"; {len(swapped)} problems printed as Uniform are compared with Beta arrivals." if swapped else ".")
    )
    points = _points(settings, lambda setting, name: around(*gap(rows[setting.id, name])))
    note = "bars: the wider of the two 95% intervals; Uniform rows against the arrivals that reproduce them"
    none = Level("no difference", 0.0, look="optimum")
    chart = _chart("Our training score minus the printed mean", "difference of mean rewards", points, note, none)
    number = around(shift, math.hypot(mean.half_width, theirs))
    meaning = f"mean of ours minus printed over {len(printed)} rewards"
    return Finding("reproduction", "Reproducing the printed tables", sentence, number, meaning, chart)


def above_optimum(measured: Measurements) -> Finding:
    """Find printed means that no policy can reach."""
    printed, rows = _printed(measured), measured.rows

    def excess(row: TableRow, of: str = "counterpart") -> Estimate:
        return around(row["printed"] - measured.optima[row[of]].value, row["printed_half_width"] + ROUNDING)

    labelled = sum(excess(row, "problem").low > 0 for row in printed)
    real = [row for row in printed if excess(row).low > 0]
    largest = max(printed, key=lambda row: excess(row).mean)
    names = " and ".join(sorted({_label(row["algorithm"]) for row in real}))
    swapped = any(row["counterpart"] != row["problem"] for row in printed)
    sentence = (
        f"{labelled} of the {len(printed)} printed means lie above the exact optimum of the problem they are "
        "printed for, which no policy can earn on average"
        + ("; if the rows printed as Uniform are compared with Beta arrivals, " if swapped else ": ")
        + (f"{len(real)} still do" if swapped else f"{len(real)} in all")
        + (f" ({names})." if real else ".")
    )
    points = _points(measured.plan.short, lambda setting, name: excess(rows[setting.id, name]))
    note = "bars: printed 95% interval and rounding; "
    note += "Uniform rows against the optimum of the arrivals that reproduce them"
    optimum = Level("optimum", 0.0, look="optimum")
    chart = _chart("Printed mean minus exact optimum", "printed minus optimum", points, note, optimum)
    meaning = f"largest of the {len(printed)} differences: {_label(largest['algorithm'])}, {NAMES[largest['problem']]}"
    return Finding("above-optimum", "Printed scores above the optimum", sentence, excess(largest), meaning, chart)


def uniform_is_beta(measured: Measurements) -> Finding | None:
    """Find which arrivals reproduce the rows printed as Uniform."""
    rows, arrivals = measured.rows, compare_arrivals(measured.rows)
    if arrivals is None:
        return None
    verdicts = {"beta": "are reproduced by Beta(5, 2) arrivals", "uniform": "are reproduced by Uniform arrivals"}
    sentence = (
        f"The rows printed for Uniform arrivals {verdicts.get(arrivals.nearer, 'fit both kinds of arrivals')}: "
        f"over their {len(arrivals.keys)} means ours are {arrivals.uniform:.3f} away from the printed numbers under "
        f"Uniform arrivals and {arrivals.beta:.3f} under Beta(5, 2)."
    )
    ticks = [f"{_label(name)}, c = {problem.rsplit('-', 1)[1]}" for problem, name in arrivals.keys]
    uniform = [rows[key] for key in arrivals.keys]
    printed = [around(row["printed"], row["printed_half_width"]) for row in uniform]
    series = [make_series("printed", ticks, printed, style="points")]
    beta = [rows[beta_twin(problem), name] for problem, name in arrivals.keys]
    for name, ours in {"ours, Uniform arrivals": uniform, "ours, Beta(5, 2) arrivals": beta}.items():
        mean, low, high = (np.array([row[f"training_score{end}"] for row in ours]) for end in ("", "_low", "_high"))
        series.append(make_series(name, ticks, Estimate(mean, low, high, math.nan, 0), style="points"))
    chart = _chart("The rows printed as Uniform", "mean training score", series, "bars: 95% intervals")
    number = around(arrivals.uniform - arrivals.beta, arrivals.half_width)
    meaning = "mean distance to the printed numbers under Uniform arrivals, minus that under Beta"
    return Finding("uniform-is-beta", "The rows printed as Uniform", sentence, number, meaning, chart)


# About the algorithms and their training score -----------------------------------------------------------------------


def running_maximum(measured: Measurements) -> Finding:
    """Measure how far SPAQL's training score lies above the return of its policy."""
    plan, settings = measured.plan, measured.plan.short
    families = {name: [s for s in settings if s.family == name] for name in dict.fromkeys(s.family for s in settings)}

    def gap(members: Sequence[Setting], rollouts: int) -> Estimate:
        groups = [plan.bias(setting, rollouts) for setting in members]
        return _mean([measured.values(group, "training_score") - measured.values(group) for group in groups])

    def share(rollouts: int) -> float:
        evaluations = [(setting, measured.values(plan.bias(setting, rollouts))) for setting in settings]
        return float(np.mean([measured.percent(setting) * values.mean() for setting, values in evaluations]))

    overall, others = gap(settings, ROLLOUTS), [count for count in BIAS_ROLLOUTS if count != ROLLOUTS]
    sentence = (
        "SPAQL's training score is the largest of all the noisy means it saw. It exceeds the return of its policy by "
        f"{overall.mean:.3f} with the paper's N = {ROLLOUTS} rollouts, on average over {len(settings)} problems ("
        + ", ".join(f"{gap(settings, count).mean:.3f} with N = {count}" for count in others)
        + f"); the policies chosen in this way earn {share(ROLLOUTS):.1f}% of the optimum ("
        + ", ".join(f"{share(count):.1f}% with N = {count}" for count in others)
        + ")."
    )
    gaps = {family: [gap(members, count) for count in BIAS_ROLLOUTS] for family, members in families.items()}
    series = tuple(make_series(family, BIAS_ROLLOUTS, estimates) for family, estimates in gaps.items())
    title = "Training score minus evaluation of the policy that SPAQL returns"
    y_label, levels = "training score minus evaluation", (Level("unbiased", 0.0, look="optimum"),)
    note = f"scaling {BIAS_SCALING:g}; means over the problems of a family, bands: 95%"
    chart = Chart(title, "rollouts N that score an iteration", y_label, series, levels, "log", note)
    meaning = f"training score minus evaluation of SPAQL for the paper's N = {ROLLOUTS}, mean over the problems"
    return Finding("running-maximum", "The running maximum", sentence, overall, meaning, chart)


def myopic(measured: Measurements) -> Finding:
    """Find the range of V(x') in all updates."""
    settings, optima = measured.plan.short, measured.optima

    def values(setting: Setting, name: str, metric: str) -> list[Floats]:
        groups = (measured.plan.study(setting, name, scaling) for scaling in measured.plan.scalings)
        return [measured.values(group, metric) for group in groups]

    def extent(setting: Setting, name: str) -> Estimate:
        low = min(float(sample.min()) for sample in values(setting, name, "value_low")) / setting.horizon
        high = max(float(sample.max()) for sample in values(setting, name, "value_high")) / setting.horizon
        return Estimate((low + high) / 2, low, high, math.nan, 0)

    ranges = [extent(setting, "spaql") for setting in settings]
    low, high = min(each.low for each in ranges), max(each.high for each in ranges)
    updates = sum(int(sample.sum()) for setting in settings for sample in values(setting, "spaql", "training_steps"))
    worse = [s.tick for s in settings if (optima[s.id].myopic or 0.0) < optima[s.id].value - _NOTICEABLE]
    same = low == high == 1.0
    sentence = (
        f"In {updates:,} updates of SPAQL the value V of the next state was {'always exactly' if same else 'between'} "
        + ("H" if same else f"{low:.3f} H and {high:.3f} H")
        + (": the bootstrap carries no information and the agent is myopic" if same else "")
        + (f"; a myopic policy is worse than the optimal one on {', '.join(worse)}." if worse else ".")
    )
    note = "bars: from the smallest to the largest value over all agents, scalings and updates"
    chart = _chart("Range of V(x') during training, as a share of H", "V / H", _points(settings, extent), note)
    meaning = "V / H in SPAQL's updates; in brackets the smallest and the largest value"
    number = Estimate((low + high) / 2, low, high, math.nan, updates)
    return Finding("myopic", "The value of the next state", sentence, number, meaning, chart)


def ranking(measured: Measurements) -> Finding:
    """Compare SPAQL and AQL by the printed tables and by evaluation."""
    settings = measured.plan.short

    def ahead(column: str) -> Counter[str]:
        best = [[name for name in LEARNERS if measured.rows[setting.id, name][column]] for setting in settings]
        return Counter(names[0] if len(names) == 1 else "neither" for names in best)

    printed, evaluation = ahead("printed_best"), ahead("evaluation_best")
    sentence = (
        f"By the printed tables SPAQL is ahead on {printed['spaql']} problems, AQL on {printed['aql']}, with no "
        f"difference on {printed['neither']}; by evaluations SPAQL is ahead on {evaluation['spaql']}, AQL on "
        f"{evaluation['aql']}, with no difference on {evaluation['neither']} (Welch, 5%)."
    )
    ticks = [setting.tick for setting in settings]
    series = []
    for name, sample in {"training score": measured.as_in_paper, "evaluation": measured.separate}.items():
        differences = [_difference([setting], sample, measured.percent) for setting in settings]
        series.append(make_series(name, ticks, differences, style="points"))
    title, equal = "SPAQL minus AQL, in percent of the optimum", Level("equal", 0.0, look="optimum")
    note = "above zero SPAQL is better; bars: 95% intervals of the difference"
    chart = _chart(title, "difference, % of optimum", series, note, equal)
    meaning = "SPAQL minus AQL by evaluation, in percent of the optimum, mean over the problems"
    number = _difference(settings, measured.separate, measured.percent)
    return Finding("ranking", "The ranking of SPAQL and AQL", sentence, number, meaning, chart, "%")


# About the cost of a policy ------------------------------------------------------------------------------------------


def cells(measured: Measurements) -> Finding:
    """Compare the numbers of cells."""
    settings = measured.plan.short

    def count(setting: Setting, name: str) -> Floats:
        return measured.as_in_paper(setting, name, "cells")

    logs = _difference(settings, lambda setting, name: np.log(count(setting, name)), algorithms=("aql", "spaql"))
    ratio = Estimate(math.exp(logs.mean), math.exp(logs.low), math.exp(logs.high), math.nan, logs.count)
    ratios = [count(setting, "aql").mean() / count(setting, "spaql").mean() for setting in settings]
    sentence = (
        f"AQL keeps {ratio.mean:.1f} times as many cells as SPAQL (geometric mean over the "
        f"problems; {min(ratios):.1f} to {max(ratios):.1f} times)."
    )
    series = _points(settings, lambda setting, name: mean_interval(count(setting, name)))
    for name in LEARNERS:
        estimates = [around(*setting.printed.cells[name]) for setting in settings if setting.printed]
        ticks = [setting.tick for setting in settings]
        series.append(make_series(f"{_label(name)}, printed", ticks, estimates, style="points"))
    note = "agents behind the training score; bars: 95% intervals"
    chart = _chart("Cells of the returned policy", "cells", series, note)
    return Finding("cells", "Cells", sentence, ratio, "cells of AQL over cells of SPAQL", chart, " times")


def sensitivity(measured: Measurements) -> Finding:
    """Average evaluations over all scalings."""
    plan, settings, count = measured.plan, measured.plan.short, len(measured.plan.scalings)
    averages: dict[tuple[str, str], Estimate] = {}  # over the scalings, and the deviation between them
    samples, weights = [], []
    for setting in settings:
        percent = measured.percent(setting)
        for name, sign in (("spaql", 1), ("aql", -1)):
            evaluations = [measured.values(plan.study(setting, name, scaling)) for scaling in plan.scalings]
            means = percent * np.array([each.mean() for each in evaluations])
            mean, deviation = float(means.mean()), float(means.std(ddof=1))
            averages[setting.id, name] = Estimate(mean, mean - deviation, mean + deviation, deviation, count)
            samples += evaluations
            weights += [sign * percent / len(settings) / count] * count
    spread = {name: float(np.mean([averages[s.id, name].deviation for s in settings])) for name in LEARNERS}
    level = {name: float(np.mean([averages[s.id, name].mean for s in settings])) for name in LEARNERS}
    ahead = sum(averages[s.id, "spaql"].mean > averages[s.id, "aql"].mean for s in settings)
    sentence = (
        f"Averaged over the {count} scalings, SPAQL earns {level['spaql']:.1f}% of the optimum and AQL "
        f"{level['aql']:.1f}%, SPAQL being ahead on {ahead} of {len(settings)} problems; from scaling to scaling the "
        f"score varies by {spread['spaql']:.1f} points for SPAQL and {spread['aql']:.1f} for AQL (standard deviation)."
    )
    series = _points(settings, lambda setting, name: averages[setting.id, name])
    note, title = "bars: standard deviation over the scalings", f"Evaluation averaged over {count} scalings"
    chart = _chart(title, "% of optimum", series, note, _AT_OPTIMUM)
    meaning = f"SPAQL minus AQL by evaluation, mean over {count} scalings and the problems, in percent of the optimum"
    number = combination(samples, weights)
    return Finding("sensitivity", "Sensitivity to the scaling", sentence, number, meaning, chart, "%")


def all_steps(measured: Measurements) -> Finding | None:
    """Compare evaluations after the same number of environment steps, of training and selection."""
    settings = measured.plan.short
    budgets = {name: np.geomspace(0.002, 1.0, 40) for name in COMPARED}
    budgets["spaql"] = np.geomspace(0.002, 1.0 + ROLLOUTS, 56)
    shares: dict[str, list[Floats]] = {name: [] for name in COMPARED}  # by setting [agents, budgets], at last AQL's
    for name in COMPARED:
        wanted = np.log(np.append(budgets[name], 1.0))
        for setting in settings:
            curves = measured.curves(setting, name)
            steps = np.log(curves["moment_steps"] / (setting.iterations * setting.horizon))
            share = 100 * curves["evaluation"] / measured.optima[setting.id].value  # [agents, moments]
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
        columns = [[share[:, at] for share in shares[name]] for at in range(len(budgets[name]))]
        bands = [_mean(column) for column in columns if np.isfinite(np.concatenate(column)).all()]
        series.append(make_series(_label(name), budgets[name][-len(bands) :].tolist(), bands, algorithm=name))
    title = "Evaluation against all environment steps"
    x_label = "training and selection steps, in units of K H (the steps of AQL)"
    note = "mean over the problems, at the scaling chosen on other agents; bands: 95%"
    chart = Chart(title, x_label, "% of optimum", tuple(series), (_AT_OPTIMUM,), "log", note)
    meaning = "SPAQL minus AQL after the same number of environment steps (K H), evaluation, in percent of the optimum"
    return Finding("all-steps", "Reward against all environment steps", sentence, number, meaning, chart, "%")


def long_episodes(measured: Measurements) -> Finding | None:
    """Repeat the paper's experiment with H = 50, with more agents."""
    setting = next((setting for setting in measured.plan.settings if setting.id == LONG), None)
    if setting is None:
        return None
    ours = {name: measured.rows[LONG, name] for name in COMPARED}
    count = {name: row["evaluation_cells"] for name, row in ours.items()}
    share = {name: 100 * row["fraction_of_optimum"] for name, row in ours.items()}
    sentence = (
        f"With episodes of {setting.horizon} steps (oil, Laplace, λ = 1; the paper trains 2 agents, here are "
        f"{ours['aql']['agents']}) SPAQL reaches {share['spaql']:.1f}% of the optimum with {count['spaql']:.0f} "
        f"cells and AQL {share['aql']:.1f}% with {count['aql']:,.0f} cells, {count['aql'] / count['spaql']:.0f} times "
        f"as many. Tessera reaches {share['tessera']:.1f}% with {count['tessera']:.0f} cells."
    )
    series = []
    for name in COMPARED:
        curves = measured.curves(setting, name)
        bands = mean_interval(measured.percent(setting) * curves["evaluation"])
        series.append(make_series(_label(name), curves["moment"].tolist(), bands, algorithm=name))
    title = f"Evaluation over training, H = {setting.horizon}"
    note = "of the policy that would be returned; bands: 95% over agents"
    chart = Chart(title, "training iteration", "% of optimum", tuple(series), (_AT_OPTIMUM,), note=note)
    meaning = f"SPAQL minus AQL for H = {setting.horizon}, evaluation, in percent of the optimum"
    number = _difference([setting], measured.separate, measured.percent)
    return Finding("long-episodes", "Longer episodes", sentence, number, meaning, chart, "%")


def tessera(measured: Measurements) -> Finding:
    """Compare Tessera with SPAQL and AQL, in percent of the optimum."""
    settings, rows = measured.plan.short, measured.rows
    shares = {setting.name: rows[setting.id, "tessera"]["fraction_of_optimum"] for setting in settings}
    lowest = min(shares, key=lambda name: shares[name])

    def against(setting: Setting, rival: str) -> Estimate:
        return _difference([setting], measured.separate, algorithms=("tessera", rival))

    standings = [min(standing(against(setting, rival)) for rival in LEARNERS) for setting in settings]
    count = {name: sum(rows[s.id, name]["evaluation_cells"] for s in settings) / len(settings) for name in COMPARED}
    least = math.floor(1000 * shares[lowest]) / 10  # a bound is not rounded up
    sentence = (
        f"Tessera earns at least {least:.1f}% of the optimum on every problem (least on {lowest}), with the "
        f"environment steps of AQL, where SPAQL takes {1 + ROLLOUTS} times as many, and {count['tessera']:.0f} cells "
        f"on average (SPAQL {count['spaql']:.0f}, AQL {count['aql']:.0f}). It is ahead of both on "
        f"{standings.count(1)} of {len(settings)} problems and behind one on {standings.count(-1)} (Welch, 5%)."
    )

    def share(setting: Setting, name: str) -> Estimate:
        return mean_interval(measured.percent(setting) * measured.separate(setting, name))

    title, points = "Evaluations, in percent of the optimum", _points(settings, share, COMPARED)
    note = f"SPAQL takes {1 + ROLLOUTS} times the environment steps of the others; bars: 95%"
    chart = _chart(title, "% of optimum", points, note, _AT_OPTIMUM)
    meaning = "Tessera minus AQL by evaluation, in percent of the optimum, mean over the problems"
    number = _difference(settings, measured.separate, measured.percent, ("tessera", "aql"))
    return Finding("tessera", "Past the paper: Tessera", sentence, number, meaning, chart, "%")


_MAKERS: Sequence[Callable[[Measurements], Finding | None]] = (
    *(reproduction, above_optimum, uniform_is_beta, running_maximum, myopic, ranking),
    *(cells, sensitivity, all_steps, long_episodes, tessera),
)
FINDINGS = {make.__name__.replace("_", "-"): make for make in _MAKERS}


def make_findings(measured: Measurements) -> list[Finding]:
    """All findings that the problems of the plan allow."""
    return [finding for make in FINDINGS.values() if (finding := make(measured)) is not None]
