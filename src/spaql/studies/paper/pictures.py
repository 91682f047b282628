"""The paper's figures, redrawn from our runs, and the charts that the report shows instead of them.

Figures show what the paper shows: the agents' own scores, at the scaling chosen as the paper chooses.  The report's
charts add the fresh scores of the same agents, and the default agent of this library, which has no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from spaql.stats import mean_band, mean_interval
from spaql.studies.paper.measured import Curves, Growth, Measured
from spaql.studies.paper.plan import BEYOND, COMPARED, LABELS, LEARNERS, Setting
from spaql.viz.charts import Chart, Level, Mosaic, Series

Axis = Literal["iterations", "steps"]
_X = {"iterations": "training iteration", "steps": "environment steps, training and selection together"}


_PORTRAITS = {
    "aql": "of the agent with the best own score",
    "spaql": "of the agent with the best own score, the partition it would return",
    "beyond": "of the first agent, the partition it would return",
}


def _band(name: str, look: str, x: NDArray[Any], runs: NDArray[np.float64], dashed: bool = False) -> Series:
    """Mean over agents `[agents, n]` and its 95% band."""
    band = mean_band(runs)
    style: Literal["line", "dashed"] = "dashed" if dashed else "line"
    return Series(name, x.tolist(), band.mean.tolist(), band.low.tolist(), band.high.tolist(), look, style)


def _labelled(measured: Measured, setting: Setting, algorithm: str) -> tuple[str, Curves]:
    """Name with the scaling, and curves, of the agents that the paper's way of choosing picks."""
    scaling = measured.choices[setting.id, algorithm].as_published
    return f"{LABELS[algorithm]} (ξ = {scaling:g})", measured.curves(setting, algorithm, scaling)


def _optimum(measured: Measured, setting: Setting) -> Level:
    return Level("optimum", measured.optima[setting.id].value, look="optimum")


def reward_as_published(measured: Measured, setting: Setting) -> Chart:
    """The agents' own scores over training."""
    groups = [_labelled(measured, setting, algorithm) for algorithm in LEARNERS]
    series = tuple(
        _band(name, LABELS[algorithm], curves.iteration, curves.training_score)
        for algorithm, (name, curves) in zip(LEARNERS, groups, strict=True)
    )
    levels = (_optimum(measured, setting),)
    return Chart("Cumulative reward", _X["iterations"], "own score", series, levels, note="bands: 95%")


def reward(measured: Measured, setting: Setting, axis: Axis) -> Chart:
    """Own and fresh scores of the same agents, over iterations or over all environment steps."""
    series: list[Series] = []
    for algorithm in LEARNERS:
        name, curves = _labelled(measured, setting, algorithm)
        own = curves.iteration if axis == "iterations" else curves.steps
        fresh = curves.moment if axis == "iterations" else curves.moment_steps
        series.append(_band(f"{name}, fresh", LABELS[algorithm], fresh, curves.evaluation))
        series.append(_band(f"{name}, own score", LABELS[algorithm], own, curves.training_score, dashed=True))
    ours = measured.curves(setting, BEYOND)
    at = ours.moment if axis == "iterations" else ours.moment_steps
    series.append(_band(f"{LABELS[BEYOND]}, fresh", LABELS[BEYOND], at, ours.evaluation))
    return Chart(
        f"Reward over training: {setting.name}",
        _X[axis],
        "return",
        tuple(series),
        (_optimum(measured, setting),),
        "linear" if axis == "iterations" else "log",
        f"means of {measured.plan.agents[setting.problem]} agents, bands: 95%",
    )


def arms_as_published(measured: Measured, setting: Setting, axis: Axis = "iterations") -> Chart:
    """Number of arms over iterations or over all environment steps."""
    groups = [_labelled(measured, setting, algorithm) for algorithm in LEARNERS]
    series = tuple(
        _band(name, LABELS[algorithm], curves.iteration if axis == "iterations" else curves.steps, curves.cells)
        for algorithm, (name, curves) in zip(LEARNERS, groups, strict=True)
    )
    scale: Literal["linear", "log"] = "linear" if axis == "iterations" else "log"
    return Chart("Number of arms", _X[axis], "arms", series, (), scale, "bands: 95%")


def arms(measured: Measured, setting: Setting, axis: Axis) -> Chart:
    """The same with the default agent, by the policy that it would return."""
    chart, ours = arms_as_published(measured, setting, axis), measured.curves(setting, BEYOND)
    at = ours.moment if axis == "iterations" else ours.moment_steps
    return replace(chart, series=(*chart.series, _band(LABELS[BEYOND], LABELS[BEYOND], at, ours.moment_cells)))


def reward_by_steps(measured: Measured, setting: Setting) -> Chart:
    """Fresh scores over all environment steps, at the scaling of the fresh score."""
    series = []
    for algorithm in COMPARED:
        curves, label = measured.curves(setting, algorithm), LABELS[algorithm]
        series.append(_band(label, label, curves.moment_steps, curves.evaluation))
    levels = (_optimum(measured, setting),)
    return Chart(setting.name, "environment steps", "fresh score", tuple(series), levels, "log")


def scaling(measured: Measured, setting: Setting, *, fresh: bool, title: str = "") -> Chart | None:
    """Final score for every scaling, and its mean and deviation over the scalings; None for H = 50."""
    if setting not in measured.plan.short:
        return None
    series, levels = [], []
    for algorithm in LEARNERS:
        label = LABELS[algorithm]
        samples = [measured.study[setting.id, algorithm, value] for value in measured.plan.scalings]
        estimates = [mean_interval(sample.evaluation if fresh else sample.training_score) for sample in samples]
        means = np.array([estimate.mean for estimate in estimates])
        series.append(
            Series(
                label,
                [f"{value:g}" for value in measured.plan.scalings],
                means.tolist(),
                [estimate.low for estimate in estimates],
                [estimate.high for estimate in estimates],
                label,
                "points",
            )
        )
        middle, spread = float(means.mean()), float(means.std(ddof=1)) if len(means) > 1 else 0.0
        levels.append(Level(f"{label}, mean over the scalings", middle, middle - spread, middle + spread, label))
    score = "fresh score" if fresh else "own score"
    return Chart(
        title or f"Sensitivity to the scaling: {setting.name}",
        "scaling ξ",
        f"final {score}",
        tuple(series),
        tuple(levels),
        "category",
        "" if title else "bars: 95%; dashed: mean over the scalings, shaded: their deviation",
    )


def partitions(measured: Measured, setting: Setting) -> list[Growth]:
    """Growth of SPAQL's partition and of AQL's at three time steps."""
    return [growth for algorithm in LEARNERS[::-1] for growth in measured.growth(setting, algorithm)]


def partition_name(growth: Growth) -> str:
    """How a partition is called."""
    if growth.scaling is None:
        return LABELS[growth.algorithm]
    if growth.algorithm == "spaql":
        return f"SPAQL (ξ = {growth.scaling:g})"
    return f"AQL (ξ = {growth.scaling:g}), time step {growth.step + 1}"


Sheet = tuple[str, list[Chart | tuple[str, Mosaic]], str]  # title, panels, note


def sheets(measured: Measured) -> dict[str, Sheet]:
    """The paper's figures by name: one of six panels for each problem, and the sensitivity to the scaling."""
    found: dict[str, Sheet] = {}
    for setting in measured.plan.settings:
        shown: list[Chart | tuple[str, Mosaic]] = [
            reward_as_published(measured, setting),
            arms_as_published(measured, setting),
        ]
        for growth in partitions(measured, setting):
            shown.append((partition_name(growth), growth.frames[-1]))
        agents = measured.plan.agents[setting.problem]
        found[setting.id] = (
            setting.name,
            shown,
            f"means of {agents} agents, scored as the paper scores; partitions of the agent with the best own score",
        )
    for problem in ("oil", "ambulance"):
        settings = [setting for setting in measured.plan.short if setting.problem == problem]
        if settings:
            found[f"{problem}-steps"] = (
                f"Fresh scores against all environment steps, {problem}",
                [reward_by_steps(measured, setting) for setting in settings],
                "training and selection together, at the scaling chosen on other agents; bands: 95%",
            )
        for fresh, suffix in ((False, ""), (True, "-fresh")):
            charts = [scaling(measured, setting, fresh=fresh, title=setting.name) for setting in settings]
            kept: list[Chart | tuple[str, Mosaic]] = [chart for chart in charts if chart is not None]
            if kept:
                how = "fresh scores" if fresh else "scored as the paper scores"
                found[f"{problem}-scaling{suffix}"] = (
                    f"Sensitivity to the scaling, {problem}",
                    kept,
                    f"final score, {how}; bars: 95%; dashed and shaded: mean and deviation over the scalings",
                )
    return found


def page_problem(measured: Measured, setting: Setting, summary: str) -> dict[str, Any]:
    """What the report shows of one problem."""
    axes: Sequence[Axis] = ("iterations", "steps")
    sensitivity = scaling(measured, setting, fresh=True)
    return {
        "id": setting.id,
        "name": setting.name,
        "summary": summary,
        "charts": {
            "reward": {axis: reward(measured, setting, axis).to_dict() for axis in axes},
            "arms": {axis: arms(measured, setting, axis).to_dict() for axis in axes},
            "scaling": None if sensitivity is None else sensitivity.to_dict(),
        },
        "partitions": [
            {
                "label": partition_name(growth),
                "note": _PORTRAITS[growth.algorithm],
                "iterations": growth.iterations,
                "frames": [frame.to_dict() for frame in growth.frames],
            }
            for growth in [*partitions(measured, setting), *measured.growth(setting, BEYOND)]
        ],
    }
