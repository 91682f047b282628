"""Findings about what a policy costs: arms, tuning, environment steps, long episodes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from spaql.stats import Estimate, combination, mean_interval
from spaql.studies.paper.cells import Cell
from spaql.studies.paper.findings.base import (
    Finding,
    Floats,
    around,
    by_problem,
    estimates_series,
    make,
    points,
    setting_of,
)
from spaql.studies.paper.measured import Measured
from spaql.studies.paper.plan import BEYOND, COMPARED, LABELS, LEARNERS, LONG, Setting
from spaql.studies.paper.printed import ROLLOUTS
from spaql.viz.charts import Chart, Level


def arms(measured: Measured, cells: Sequence[Cell]) -> Finding | None:
    """How many cells the policies have."""
    settings = list(measured.plan.short)
    samples, weights = [], []
    for setting in settings:
        for algorithm, sign in (("aql", 1), ("spaql", -1)):
            samples.append(np.log(measured.as_published(setting, algorithm).cells))
            weights.append(sign / len(settings))
    logs = combination(samples, weights)
    ratio = Estimate(math.exp(logs.mean), math.exp(logs.low), math.exp(logs.high), math.nan, logs.count)
    ours = by_problem(cells)
    least, most = (
        pick((ours[s.id, "aql"].arms or 0) / (ours[s.id, "spaql"].arms or 1) for s in settings) for pick in (min, max)
    )
    sentence = (
        f"AQL keeps {ratio.mean:.1f} times as many arms as SPAQL (geometric mean over the "
        f"problems; {least:.1f} to {most:.1f} times)."
    )
    series = [
        points(
            algorithm,
            settings,
            [mean_interval(measured.as_published(setting, algorithm).cells) for setting in settings],
        )
        for algorithm in LEARNERS
    ]
    for algorithm in LEARNERS:
        rows = [setting.printed.arms[algorithm] if setting.printed else None for setting in settings]
        shown = [around(row.mean, row.half_width) if row else around(math.nan, 0.0) for row in rows]
        label = LABELS[algorithm]
        series.append(points(f"{label} printed", settings, shown, f"{label}, printed"))
    chart = Chart(
        "Arms of the returned policy",
        "",
        "arms",
        tuple(series),
        (),
        "category",
        "agents scored as published; bars: 95% intervals",
    )
    return make("arms", "Arms", sentence, ratio, "arms of AQL over arms of SPAQL", chart, " times")


def sensitivity(measured: Measured, cells: Sequence[Cell]) -> Finding | None:
    """What an agent earns whose scaling nobody chose."""
    settings, scalings = list(measured.plan.short), measured.plan.scalings
    if len(scalings) < 2:
        return None

    def means(setting: Setting, algorithm: str) -> Floats:
        scale = 100 / measured.optima[setting.id].value
        return np.array([scale * measured.study[setting.id, algorithm, s].evaluation.mean() for s in scalings])

    averages = {a: [means(setting, a) for setting in settings] for a in LEARNERS}
    spread = {a: float(np.mean([each.std(ddof=1) for each in averages[a]])) for a in LEARNERS}
    level = {a: float(np.mean([each.mean() for each in averages[a]])) for a in LEARNERS}
    samples, weights = [], []
    for setting in settings:
        for algorithm, sign in (("spaql", 1), ("aql", -1)):
            for scaling in scalings:
                samples.append(measured.study[setting.id, algorithm, scaling].evaluation)
                weights.append(sign * 100 / measured.optima[setting.id].value / len(settings) / len(scalings))
    number = combination(samples, weights)
    ahead = sum(a.mean() > b.mean() for a, b in zip(averages["spaql"], averages["aql"], strict=True))
    sentence = (
        f"Averaged over the {len(scalings)} scalings, SPAQL earns {level['spaql']:.1f}% of the optimum and AQL "
        f"{level['aql']:.1f}%, SPAQL being ahead on {ahead} of {len(settings)} problems; from scaling to scaling the "
        f"score varies by {spread['spaql']:.1f} points for SPAQL and {spread['aql']:.1f} for AQL (standard deviation)."
    )
    series = tuple(
        points(
            algorithm,
            settings,
            [around(float(each.mean()), float(each.std(ddof=1))) for each in averages[algorithm]],
        )
        for algorithm in LEARNERS
    )
    chart = Chart(
        f"Fresh score averaged over {len(scalings)} scalings",
        "",
        "% of optimum",
        series,
        (Level("optimum", 100.0, look="optimum"),),
        "category",
        "bars: standard deviation over the scalings",
    )
    meaning = (
        f"SPAQL minus AQL, fresh, averaged over {len(scalings)} scalings and the problems, in percent of the optimum"
    )
    return make("sensitivity", "Sensitivity to the scaling", sentence, number, meaning, chart, "%")


def all_steps(measured: Measured, cells: Sequence[Cell]) -> Finding | None:
    """Fresh scores after equally many environment steps, training and selection together."""
    settings = list(measured.plan.short)
    spread: dict[str, list[Floats]] = {}
    at = {algorithm: np.geomspace(0.002, 1.0, 40) for algorithm in COMPARED}
    at["spaql"] = np.geomspace(0.002, 1.0 + ROLLOUTS, 56)
    for algorithm in COMPARED:
        spread[algorithm] = []
        for setting in settings:
            curves = measured.curves(setting, algorithm)
            budget = curves.moment_steps / (setting.iterations * setting.horizon)
            share = 100 * curves.evaluation / measured.optima[setting.id].value  # [agents, moments]
            wanted = np.append(at[algorithm], 1.0)
            rows = [np.interp(np.log(wanted), np.log(budget), row, left=np.nan) for row in share]
            spread[algorithm].append(np.array(rows))
    samples = [rows[:, -1] for algorithm in ("spaql", "aql") for rows in spread[algorithm]]
    if not all(np.isfinite(sample).all() for sample in samples):
        return None  # so few iterations that SPAQL's first takes more steps than AQL has in all
    number = combination(samples, np.repeat([1.0, -1.0], len(settings)) / len(settings))
    ends = {algorithm: float(np.mean([rows[:, -1].mean() for rows in spread[algorithm]])) for algorithm in COMPARED}
    final = float(np.mean([rows[:, -2].mean() for rows in spread["spaql"]]))
    sentence = (
        f"An iteration of SPAQL takes {1 + ROLLOUTS} times the environment steps of one of AQL, for it also plays "
        f"{ROLLOUTS} rollouts to choose. With the steps that AQL has in all, SPAQL is at {ends['spaql']:.1f}% of the "
        f"optimum and AQL at {ends['aql']:.1f}% (fresh, mean over the problems); with {1 + ROLLOUTS} times as many, "
        f"SPAQL is at {final:.1f}%. {LABELS[BEYOND]}, the default agent of this library, is at {ends[BEYOND]:.1f}% "
        "with the steps that AQL has."
    )
    series = []
    for algorithm in COMPARED:
        bands = [
            combination([rows[:, i] for rows in spread[algorithm]], np.full(len(settings), 1 / len(settings)))
            for i in range(len(at[algorithm]))
            if all(np.isfinite(rows[:, i]).all() for rows in spread[algorithm])
        ]
        known = at[algorithm][-len(bands) :].tolist()
        series.append(estimates_series(LABELS[algorithm], LABELS[algorithm], known, bands))
    chart = Chart(
        "Fresh score against all environment steps",
        "training and selection steps, in units of K H (all that AQL has)",
        "% of optimum",
        tuple(series),
        (Level("optimum", 100.0, look="optimum"),),
        "log",
        "mean over the problems, at the scaling chosen on other agents; bands: 95%",
    )
    meaning = "SPAQL minus AQL after equally many environment steps (K H), fresh, in percent of the optimum"
    return make("all-steps", "Reward against all environment steps", sentence, number, meaning, chart, "%")


def long_episodes(measured: Measured, cells: Sequence[Cell]) -> Finding | None:
    """The paper's experiment with H = 50, with more agents."""
    if not any(setting.id == LONG for setting in measured.plan.settings):
        return None
    setting, ours = setting_of(measured, LONG), by_problem(cells)
    samples = {algorithm: measured.apart(setting, algorithm) for algorithm in COMPARED}
    scale = 100 / measured.optima[LONG].value
    number = combination([samples["spaql"].evaluation, samples["aql"].evaluation], [scale, -scale])
    arms = {a: float(samples[a].cells.mean()) for a in COMPARED}
    share = {a: 100 * ours[LONG, a].fraction_of_optimum for a in COMPARED}
    sentence = (
        f"With episodes of {setting.horizon} steps (oil, Laplace, λ = 1; the paper trains 2 agents, here are "
        f"{ours[LONG, 'aql'].agents}) SPAQL reaches {share['spaql']:.1f}% of the optimum with {arms['spaql']:.0f} arms "
        f"and AQL {share['aql']:.1f}% with {arms['aql']:,.0f} arms, {arms['aql'] / arms['spaql']:.0f} times as many. "
        f"{LABELS[BEYOND]} reaches {share[BEYOND]:.1f}% with {arms[BEYOND]:.0f} arms."
    )
    series = []
    for algorithm in COMPARED:
        curves = measured.curves(setting, algorithm)
        bands = [mean_interval(scale * curves.evaluation[:, i]) for i in range(curves.evaluation.shape[1])]
        series.append(estimates_series(LABELS[algorithm], LABELS[algorithm], curves.moment.tolist(), bands))
    chart = Chart(
        f"Fresh score over training, H = {setting.horizon}",
        "training iteration",
        "% of optimum",
        tuple(series),
        (Level("optimum", 100.0, look="optimum"),),
        "linear",
        "of the policy that would be returned; bands: 95% over agents",
    )
    meaning = f"SPAQL minus AQL for H = {setting.horizon}, fresh, in percent of the optimum"
    return make("long-episodes", "Longer episodes", sentence, number, meaning, chart, "%")
