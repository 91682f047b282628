"""Panels of the paper's figures, drawn from our runs, and the charts of the report.

Figures show what the paper shows: training scores, at the scaling that the paper's rule chooses.  The report's charts
add the evaluations of the same agents, and Tessera, which has no training score.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from spaql.agents.registry import resolve
from spaql.stats import mean_interval
from spaql.studies.paper.measurements import Measurements
from spaql.studies.paper.plan import COMPARED, LEARNERS, Setting
from spaql.studies.study import Sheet, make_series
from spaql.viz.charts import Chart, Level, Mosaic, Series

Axis = Literal["iterations", "steps"]
_X = {"iterations": "training iteration", "steps": "environment steps, training and selection"}
_SCALES: dict[Axis, Literal["linear", "log"]] = {"iterations": "linear", "steps": "log"}
# Where a curve is known: at points, or at the moments of evaluations.
_PLACES = {"iterations": ("iteration", "moment"), "steps": ("steps", "moment_steps")}


def _series(
    measured: Measurements,
    setting: Setting,
    axis: Axis,
    algorithm: str,
    curve: str,
    suffix: str = "",
    *,
    paper: bool = True,
    dashed: bool = False,
) -> Series:
    """A curve's mean over agents and its 95% band, of the agents that the paper would report, or the separate ones."""
    curves, entry = measured.curves(setting, algorithm, paper=paper), resolve(algorithm)
    scaling = measured.choices[setting.id, algorithm].paper if paper else None
    label = entry.label + ("" if scaling is None else f" (ξ = {scaling:g})") + suffix
    x = curves[_PLACES[axis][curve in ("evaluation", "moment_cells")]]
    style: Literal["dashed", "line"] = "dashed" if dashed else "line"
    return make_series(label, x.tolist(), mean_interval(curves[curve]), algorithm=algorithm, style=style)


def _optimum(measured: Measurements, setting: Setting) -> tuple[Level]:
    return (Level("optimum", measured.optima[setting.id].value, look="optimum"),)


def reward_chart(measured: Measurements, setting: Setting, axis: Axis) -> Chart:
    """Training scores and evaluations of the same agents, over iterations or over environment steps."""
    series = []
    for name in COMPARED:
        series.append(_series(measured, setting, axis, name, "evaluation", ", evaluation"))
        if name in LEARNERS:
            series.append(_series(measured, setting, axis, name, "training_score", ", training score", dashed=True))
    title, note = f"Reward over training: {setting.name}", f"means of {measured.plan.agents[setting.problem]} agents"
    levels = _optimum(measured, setting)
    return Chart(title, _X[axis], "return", tuple(series), levels, _SCALES[axis], f"{note}, bands: 95%")


def cells_chart(measured: Measurements, setting: Setting, axis: Axis, algorithms: Sequence[str]) -> Chart:
    """Numbers of cells over iterations or over environment steps; of Tessera those of the policy it would return."""
    curves = {name: "moment_cells" if name == "tessera" else "cells" for name in algorithms}
    series = tuple(_series(measured, setting, axis, name, curve) for name, curve in curves.items())
    return Chart("Number of cells", _X[axis], "cells", series, (), _SCALES[axis], "bands: 95%")


def scaling_chart(measured: Measurements, setting: Setting, metric: str, title: str = "") -> Chart:
    """Final score for every scaling, with its mean and standard deviation over the scalings."""
    plan, series, levels = measured.plan, [], []
    for name in LEARNERS:
        entry = resolve(name)
        estimates = [mean_interval(measured.values(plan.study(setting, name, x), metric)) for x in plan.scalings]
        ticks = [f"{x:g}" for x in plan.scalings]
        series.append(make_series(entry.label, ticks, estimates, algorithm=name, style="points"))
        means = np.array([estimate.mean for estimate in estimates])
        middle, spread = float(means.mean()), float(means.std(ddof=1))
        ends = middle - spread, middle + spread
        levels.append(Level(f"{entry.label}, mean over the scalings", middle, *ends, name, entry.colour or ""))
    note = "" if title else "bars: 95%; dashed: mean over the scalings, shaded: their standard deviation"
    title, y_label = title or f"Sensitivity to the scaling: {setting.name}", f"final {metric.replace('_', ' ')}"
    return Chart(title, "scaling ξ", y_label, tuple(series), tuple(levels), "category", note)


def make_sheets(measured: Measurements) -> dict[str, Sheet]:
    """The paper's figures by name: one of six panels for each problem, evaluations over steps, and scalings."""
    sheets: dict[str, Sheet] = {}
    plan = measured.plan
    for setting in plan.settings:
        scores = tuple(_series(measured, setting, "iterations", name, "training_score") for name in LEARNERS)
        levels, note = _optimum(measured, setting), "bands: 95%"
        reward = Chart("Cumulative reward", _X["iterations"], "training score", scores, levels, note=note)
        panels: list[Chart | tuple[str, Mosaic]] = [reward, cells_chart(measured, setting, "iterations", LEARNERS)]
        for name in LEARNERS[::-1]:
            panels += [(growth.label, growth.frames[-1]) for growth in measured.growths[setting.id, name]]
        note = f"means of {plan.agents[setting.problem]} agents, scored as in the paper; partitions of the best of them"
        sheets[setting.id] = Sheet(setting.name, panels, note)
    for problem in ("oil", "ambulance"):
        settings = [setting for setting in plan.short if setting.problem == problem]
        if not settings:
            continue
        note = "training and selection steps, at the scaling chosen on other agents; bands: 95%"
        charts = []
        for setting in settings:
            curves = tuple(_series(measured, setting, "steps", name, "evaluation", paper=False) for name in COMPARED)
            levels = _optimum(measured, setting)
            charts.append(Chart(setting.name, "environment steps", "evaluation", curves, levels, "log"))
        sheets[f"{problem}-steps"] = Sheet(f"Evaluations against environment steps, {problem}", charts, note)
        for metric, suffix in (("training_score", ""), ("evaluation", "-evaluation")):
            charts = [scaling_chart(measured, setting, metric, setting.name) for setting in settings]
            shaded = "bars: 95%; dashed and shaded: mean and standard deviation over the scalings"
            note = f"final {metric.replace('_', ' ')}; {shaded}"
            sheets[f"{problem}-scaling{suffix}"] = Sheet(f"Sensitivity to the scaling, {problem}", charts, note)
    return sheets
