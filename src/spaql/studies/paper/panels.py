"""Panels of the paper's figures, drawn from our runs, and the charts of the report.

Figures show what the paper shows: training scores, at the scaling that the paper's rule chooses.  The report's charts
add the evaluations of the same agents, and Tessera, which has no training score.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from spaql.agents.registry import resolve
from spaql.stats import mean_interval
from spaql.studies.paper.measurements import Curves, Measurements
from spaql.studies.paper.plan import COMPARED, LEARNERS, Setting
from spaql.studies.study import Floats, Sheet, make_series
from spaql.viz.charts import Chart, Level, Mosaic, Series

Axis = Literal["iterations", "steps"]
_X = {"iterations": "training iteration", "steps": "environment steps, training and selection"}


def _band(name: str, algorithm: str, x: NDArray[Any], values: Floats, *, dashed: bool = False) -> Series:
    """Mean over agents `[agents, n]` and its 95% band."""
    band, entry = mean_interval(values), resolve(algorithm)
    y, low, high = (part.tolist() for part in (band.mean, band.low, band.high))
    return Series(name, x.tolist(), y, low, high, algorithm, "dashed" if dashed else "line", entry.colour or "")


def _labelled(measurements: Measurements, setting: Setting, algorithm: str) -> tuple[str, Curves]:
    """Label with the scaling, and curves, of the agents that the paper would report."""
    scaling = measurements.choices[setting.id, algorithm].paper
    label = resolve(algorithm).label + ("" if scaling is None else f" (ξ = {scaling:g})")
    return label, measurements.curves(setting, algorithm, paper=True)


def _optimum(measurements: Measurements, setting: Setting) -> Level:
    return Level("optimum", measurements.optima[setting.id].value, look="optimum")


def training_score_chart(measurements: Measurements, setting: Setting) -> Chart:
    """Training scores over iterations."""
    series = []
    for name in LEARNERS:
        label, curves = _labelled(measurements, setting, name)
        series.append(_band(label, name, curves.iteration, curves.training_score))
    levels = (_optimum(measurements, setting),)
    return Chart("Cumulative reward", _X["iterations"], "training score", tuple(series), levels, note="bands: 95%")


def reward_chart(measurements: Measurements, setting: Setting, axis: Axis) -> Chart:
    """Training scores and evaluations of the same agents, over iterations or over environment steps."""
    series: list[Series] = []
    for name in COMPARED:
        label, curves = _labelled(measurements, setting, name)
        series.append(_band(f"{label}, evaluation", name, curves.moment_x(axis), curves.evaluation))
        if name in LEARNERS:
            scores = curves.training_score
            series.append(_band(f"{label}, training score", name, curves.x(axis), scores, dashed=True))
    return Chart(
        f"Reward over training: {setting.name}",
        _X[axis],
        "return",
        tuple(series),
        (_optimum(measurements, setting),),
        "linear" if axis == "iterations" else "log",
        f"means of {measurements.plan.agents[setting.problem]} agents, bands: 95%",
    )


def cells_chart(measurements: Measurements, setting: Setting, axis: Axis, algorithms: Sequence[str]) -> Chart:
    """Numbers of cells over iterations or over environment steps; of Tessera those of the policy it would return."""
    series = []
    for name in algorithms:
        label, curves = _labelled(measurements, setting, name)
        if name == "tessera":
            series.append(_band(label, name, curves.moment_x(axis), curves.moment_cells))
        else:
            series.append(_band(label, name, curves.x(axis), curves.cells))
    scale: Literal["linear", "log"] = "linear" if axis == "iterations" else "log"
    return Chart("Number of cells", _X[axis], "cells", tuple(series), (), scale, "bands: 95%")


def steps_chart(measurements: Measurements, setting: Setting) -> Chart:
    """Evaluations over environment steps, at the scaling chosen on other agents."""
    series = []
    for name in COMPARED:
        curves = measurements.curves(setting, name)
        series.append(_band(resolve(name).label, name, curves.moment_steps, curves.evaluation))
    levels = (_optimum(measurements, setting),)
    return Chart(setting.name, "environment steps", "evaluation", tuple(series), levels, "log")


def scaling_chart(measurements: Measurements, setting: Setting, metric: str, title: str = "") -> Chart:
    """Final score for every scaling, with its mean and standard deviation over the scalings."""
    plan, series, levels = measurements.plan, [], []
    for name in LEARNERS:
        entry = resolve(name)
        estimates = [mean_interval(measurements.values(plan.study(setting, name, x), metric)) for x in plan.scalings]
        ticks = [f"{x:g}" for x in plan.scalings]
        series.append(make_series(entry.label, ticks, estimates, algorithm=name, style="points"))
        means = np.array([estimate.mean for estimate in estimates])
        middle, spread = float(means.mean()), float(means.std(ddof=1)) if len(means) > 1 else 0.0
        ends = middle - spread, middle + spread
        levels.append(Level(f"{entry.label}, mean over the scalings", middle, *ends, name, entry.colour or ""))
    return Chart(
        title or f"Sensitivity to the scaling: {setting.name}",
        "scaling ξ",
        f"final {metric.replace('_', ' ')}",
        tuple(series),
        tuple(levels),
        "category",
        "" if title else "bars: 95%; dashed: mean over the scalings, shaded: their standard deviation",
    )


def make_sheets(measurements: Measurements) -> dict[str, Sheet]:
    """The paper's figures by name: one of six panels for each problem, evaluations over steps, and scalings."""
    sheets: dict[str, Sheet] = {}
    plan = measurements.plan
    for setting in plan.settings:
        panels: list[Chart | tuple[str, Mosaic]] = [
            training_score_chart(measurements, setting),
            cells_chart(measurements, setting, "iterations", LEARNERS),
        ]
        for name in LEARNERS[::-1]:
            panels += [(growth.label, growth.frames[-1]) for growth in measurements.growth(setting, name)]
        note = f"means of {plan.agents[setting.problem]} agents, scored as in the paper; partitions of the best of them"
        sheets[setting.id] = Sheet(setting.name, panels, note)
    for problem in ("oil", "ambulance"):
        settings = [setting for setting in plan.short if setting.problem == problem]
        if not settings:
            continue
        sheets[f"{problem}-steps"] = Sheet(
            f"Evaluations against environment steps, {problem}",
            [steps_chart(measurements, setting) for setting in settings],
            "training and selection steps, at the scaling chosen on other agents; bands: 95%",
        )
        for metric, suffix in (("training_score", ""), ("evaluation", "-evaluation")):
            sheets[f"{problem}-scaling{suffix}"] = Sheet(
                f"Sensitivity to the scaling, {problem}",
                [scaling_chart(measurements, setting, metric, setting.name) for setting in settings],
                f"final {metric.replace('_', ' ')}; bars: 95%; dashed and shaded: mean and standard deviation over the "
                "scalings",
            )
    return sheets
