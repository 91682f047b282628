"""Findings about the algorithm and its own score: the running maximum, the constant V, the ranking."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from spaql.stats import Estimate, combination
from spaql.studies.paper.cells import Cell
from spaql.studies.paper.findings.base import Finding, by_problem, estimates_series, make, points
from spaql.studies.paper.measured import Measured
from spaql.studies.paper.plan import BIAS_ROLLOUTS, BIAS_SCALING, LEARNERS, Setting
from spaql.studies.paper.printed import ROLLOUTS
from spaql.viz.charts import Chart, Level

_NOTICEABLE = 0.005  # in return: what a table of two decimals can show


def running_maximum(measured: Measured, cells: Sequence[Cell]) -> Finding | None:
    """How far the score that SPAQL keeps lies above what its policy earns."""
    if not measured.bias:
        return None
    settings = list(measured.plan.short)
    families: dict[str, list[Setting]] = {}
    for setting in settings:
        families.setdefault(setting.family, []).append(setting)

    def gap(members: Sequence[Setting], rollouts: int) -> Estimate:
        groups = [measured.bias[setting.id, rollouts] for setting in members]
        return combination(
            [group.training_score - group.evaluation for group in groups], np.full(len(groups), 1 / len(groups))
        )

    overall = {rollouts: gap(settings, rollouts) for rollouts in BIAS_ROLLOUTS}
    fresh = {
        rollouts: np.mean(
            [
                100 * measured.bias[setting.id, rollouts].evaluation.mean() / measured.optima[setting.id].value
                for setting in settings
            ]
        )
        for rollouts in BIAS_ROLLOUTS
    }
    others = ", ".join(f"{overall[n].mean:.3f} with N = {n}" for n in BIAS_ROLLOUTS if n != ROLLOUTS)
    sentence = (
        "SPAQL's own score is the largest of all the noisy means it saw. It exceeds what the returned policy earns by "
        f"{overall[ROLLOUTS].mean:.3f} with the paper's N = {ROLLOUTS} rollouts, on average over {len(settings)} "
        f"problems ({others}); the policies so chosen earn {fresh[ROLLOUTS]:.1f}% of the optimum ("
        + ", ".join(f"{fresh[n]:.1f}% with N = {n}" for n in BIAS_ROLLOUTS if n != ROLLOUTS)
        + ")."
    )
    series = []
    for family, members in families.items():
        estimates = [gap(members, rollouts) for rollouts in BIAS_ROLLOUTS]
        series.append(estimates_series(family, family, BIAS_ROLLOUTS, estimates))
    chart = Chart(
        "Own score minus fresh score of the policy that SPAQL returns",
        "rollouts N that judge an iteration",
        "own minus fresh score",
        tuple(series),
        (Level("unbiased", 0.0, look="optimum"),),
        "log",
        f"scaling {BIAS_SCALING:g}; means over the problems of a family, bands: 95%",
    )
    meaning = f"own minus fresh score of SPAQL for the paper's N = {ROLLOUTS}, mean over the problems"
    return make("running-maximum", "The running maximum", sentence, overall[ROLLOUTS], meaning, chart)


def myopic(measured: Measured, cells: Sequence[Cell]) -> Finding | None:
    """Whether the value of the next state ever tells anything."""
    settings = list(measured.plan.short)

    def extremes(setting: Setting, algorithm: str) -> tuple[float, float]:
        groups = [measured.study[setting.id, algorithm, scaling] for scaling in measured.plan.scalings]
        low = min(float(group.value_low.min()) for group in groups)
        return low / setting.horizon, max(float(group.value_high.max()) for group in groups) / setting.horizon

    ranges = {algorithm: [extremes(setting, algorithm) for setting in settings] for algorithm in LEARNERS}
    low, high = min(low for low, _ in ranges["spaql"]), max(high for _, high in ranges["spaql"])
    updates = sum(
        int(measured.study[setting.id, "spaql", scaling].training_steps.sum())
        for setting in settings
        for scaling in measured.plan.scalings
    )
    loses = [
        setting.tick
        for setting in settings
        if measured.optima[setting.id].myopic < measured.optima[setting.id].value - _NOTICEABLE
    ]
    same = low == high == 1.0
    sentence = (
        f"In {updates:,} updates of SPAQL the value V of the next state was {'always exactly' if same else 'between'} "
        + ("H" if same else f"{low:.3f} H and {high:.3f} H")
        + (": the bootstrap carries no information and the agent is myopic" if same else "")
        + (f"; a myopic policy is worse than the optimal one on {', '.join(loses)}." if loses else ".")
    )
    series = tuple(
        points(
            algorithm, settings, [Estimate((low + high) / 2, low, high, math.nan, 0) for low, high in ranges[algorithm]]
        )
        for algorithm in LEARNERS
    )
    chart = Chart(
        "Range of V(x') during training, as a share of H",
        "",
        "V / H",
        series,
        (),
        "category",
        "bars: from the smallest to the largest value over all agents, scalings and updates",
    )
    number = Estimate((low + high) / 2, low, high, math.nan, updates)
    return make(
        "myopic",
        "The value of the next state",
        sentence,
        number,
        "V / H in SPAQL's updates; in brackets the smallest and the largest value seen",
        chart,
    )


def ranking(measured: Measured, cells: Sequence[Cell]) -> Finding | None:
    """Which of the two is ahead, by the printed and by fresh scores."""
    settings = list(measured.plan.short)
    ours = by_problem(cells)

    def ahead(leading: str) -> dict[str, int]:
        counts = {"aql": 0, "spaql": 0, "neither": 0}
        for setting in settings:
            leads = [algorithm for algorithm in LEARNERS if getattr(ours[setting.id, algorithm], leading)]
            counts[leads[0] if len(leads) == 1 else "neither"] += 1
        return counts

    printed, fresh = ahead("printed_leading"), ahead("fresh_leading")

    def difference(setting: Setting, score: str) -> Estimate:
        group = measured.apart if score == "evaluation" else measured.as_published
        samples = [getattr(group(setting, algorithm), score) for algorithm in ("spaql", "aql")]
        scale = 100 / measured.optima[setting.id].value
        return combination(samples, [scale, -scale])

    samples, weights = [], []
    for setting in settings:
        for algorithm, sign in (("spaql", 1), ("aql", -1)):
            samples.append(measured.apart(setting, algorithm).evaluation)
            weights.append(sign * 100 / measured.optima[setting.id].value / len(settings))
    number = combination(samples, weights)
    sentence = (
        f"By the printed tables SPAQL is ahead on {printed['spaql']} problems, AQL on {printed['aql']}, with no "
        f"difference on {printed['neither']}; by fresh scores SPAQL is ahead on {fresh['spaql']}, AQL on "
        f"{fresh['aql']}, with no difference on {fresh['neither']} (Welch, 5%)."
    )
    series = (
        points(
            "own",
            settings,
            [difference(setting, "training_score") for setting in settings],
            "scored as the paper scores",
        ),
        points("fresh", settings, [difference(setting, "evaluation") for setting in settings], "fresh"),
    )
    chart = Chart(
        "SPAQL minus AQL, in percent of the optimum",
        "",
        "difference, % of optimum",
        series,
        (Level("equal", 0.0, look="optimum"),),
        "category",
        "above zero SPAQL is better; bars: 95% intervals of the difference",
    )
    meaning = "SPAQL minus AQL by fresh score, in percent of the optimum, mean over the problems"
    return make("ranking", "The ranking of SPAQL and AQL", sentence, number, meaning, chart, "%")
