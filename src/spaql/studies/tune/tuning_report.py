"""The report of a tuning: tables and charts of its result."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from spaql.formatting import Bold, Table
from spaql.stats import Estimate
from spaql.studies.study import Report, Sheet
from spaql.studies.sweep.study_file import format_choice
from spaql.studies.tune.trials import COMPLETE, FAILED, Trial, TuningResult
from spaql.viz.charts import Chart, Level, Series
from spaql.viz.style import GREY, INK, PALETTE

NAME, BEST = "tune", "best.json"
FIGURES = ("tuning-scores", "tuning-history", "tuning-importance", "tuning-parameters")
_COLOURS = {"all seeds": PALETTE[0], "stopped early": GREY, "defaults": PALETTE[1], "winner": PALETTE[2]}


def make_report(result: TuningResult) -> Report:
    """Make the report of a finished or unfinished tuning."""
    study = result.study
    figures = (_score_chart(result), _history_chart(result), _importance_chart(result), _parameter_sheet(result))
    best = {"algorithm": study.algorithm, "parameters": result.parameters, "complete": result.complete}
    return Report(
        NAME,
        f"Tuning: {study.name}",
        f"{study.algorithm} on {', '.join(study.problems)}",
        result.summary(),
        [_score_table(result), *_gain_tables(result), _trial_table(result)],
        _describe_method(result) + ("" if result.importance else f" {result.importance_note}"),
        {name: figure for name, figure in zip(FIGURES, figures, strict=True) if figure is not None},
        result.to_dict(),
        {} if result.winner is None else {BEST: json.dumps(best, indent=1, allow_nan=False) + "\n"},
    )


def _score_chart(result: TuningResult) -> Chart | None:
    """Chart winner and defaults, in tuning and on evaluation seeds."""
    if result.winner is None or not result.evaluations:
        return None
    confidence, series = result.study.plan.confidence, []
    for name, trial, key in (("winner", result.winner, "winner"), ("defaults", result.default, "default")):
        estimates = {"tuning": result.values[trial.number]} if trial.number in result.values else {}
        estimates["evaluation"] = result.objective.value(result.evaluations[key], confidence)
        series.append(_points(name, list(estimates), list(estimates.values())))
    note = f"Means over agents with {confidence:.0%} intervals; the winner was selected by its score in tuning."
    return Chart("Tuning and evaluation", "seeds", result.unit, tuple(series), x_scale="category", note=note)


def _history_chart(result: TuningResult) -> Chart | None:
    """Chart the values of trials in order, and the best so far."""
    best: dict[float, float] = {}
    for trial in result.trials:
        values = [*best.values()][-1:] + ([result.values[trial.number].mean] if trial.state == COMPLETE else [])
        best |= {float(trial.number): max(values)} if values else {}
    series = [Series("best so far", list(best), list(best.values()), colour=INK)] if best else []
    series += _trial_points(result, {number: float(number) for number in result.values})
    failed = result.count(FAILED)
    note = f"Means over seeds with {result.study.plan.confidence:.0%} intervals; trial 0 is the defaults."
    note += f" Failed trials without a point: {failed}." if failed else ""
    return Chart("Trials", "trial", result.unit, tuple(series), _default_level(result), note=note) if series else None


def _importance_chart(result: TuningResult) -> Chart | None:
    if result.importance is None:
        return None
    names, shares = list(result.importance), list(result.importance.values())
    series = Series("share", names, shares, style="points", colour=_COLOURS["all seeds"])
    levels, note = (Level("none", 0.0, colour=GREY),), result.importance_note
    return Chart("Importance of parameters", "parameter", "share", (series,), levels, "category", note)


def _parameter_sheet(result: TuningResult) -> Sheet | None:
    """Chart the values of trials over each parameter."""
    tuned, charts = [trial for trial in result.trials if trial.number and trial.state != FAILED], []
    for name, span in result.study.ranges.items() if tuned else ():
        convert = format_choice if span.choices else float
        series = _trial_points(result, {trial.number: convert(trial.values[name]) for trial in tuned}, result.winner)
        scale: Any = "category" if span.choices else "log" if span.log else "linear"
        charts.append(Chart(name, name, result.unit, series, _default_level(result), scale))
    return Sheet("Parameters", charts, "Trials by each parameter; the others differ too.") if charts else None


def _trial_points(result: TuningResult, x: Mapping[int, Any], winner: Trial | None = None) -> tuple[Series, ...]:
    """Make points of trials, by number, in groups by state; the winner may stand apart."""
    groups: dict[str, list[int]] = {"stopped early": [], "all seeds": [], "winner": []}
    for number in x:
        state = "all seeds" if result.trials[number].state == COMPLETE else "stopped early"
        groups["winner" if result.trials[number] is winner else state].append(number)
    return tuple(
        _points(label, [x[number] for number in some], [result.values[number] for number in some])
        for label, some in groups.items()
        if some
    )


def _points(label: str, x: Sequence[Any], estimates: Sequence[Estimate]) -> Series:
    mean, low, high = ([getattr(estimate, name) for estimate in estimates] for name in ("mean", "low", "high"))
    return Series(label, x, mean, low, high, style="points", colour=_COLOURS[label])


def _default_level(result: TuningResult) -> tuple[Level, ...]:
    values = [result.values[0]] if 0 in result.values else []
    return tuple(Level("defaults", v.mean, v.low, v.high, colour=_COLOURS["defaults"]) for v in values)


def _score_table(result: TuningResult) -> Table:
    plan = result.study.plan
    rows: list[list[str]] = []
    if result.winner is not None:
        cells = (result.tuning_score, result.evaluation or "not yet", result.bias or "")
        rows.append(["winner", *(Bold(cell) for cell in cells)])
    if 0 in result.values and result.winner is not result.default:
        default = str(result.gains[-1].default if result.gains else "not yet")
        rows.append(["defaults", str(result.values[0]), default, ""])
    header = ["", f"tuning, {plan.seeds} seeds", f"evaluation, {plan.evaluation_seeds} seeds", "selection bias"]
    note = f"{plan.confidence:.0%} intervals in brackets. That of the winner in tuning ignores its selection."
    return Table(header, rows, "Winner in tuning and evaluation", note)


def _gain_tables(result: TuningResult) -> list[Table]:
    header = ["problem", "winner", "defaults", "difference", "probability of improvement", "p (Welch)"]
    rows = []
    for gain in result.gains:
        p_value = "" if gain.p_value is None else f"{gain.p_value:.2g}"
        estimates = map(str, (gain.winner, gain.default, gain.difference))
        rows.append([gain.problem, *estimates, f"{gain.probability_of_improvement:.2f}", p_value])
    note = "Probability of improvement: that an agent of the winner scores above one of the defaults."
    return [Table(header, rows, "Winner against defaults on evaluation seeds", note)] if rows else []


def _trial_table(result: TuningResult) -> Table:
    names, rows = list(result.study.ranges), []
    for trial in result.trials:
        values = trial.values or result.study.defaults or dict.fromkeys(names, "default")
        shown = [f"{v:.4g}" if isinstance(v, float) else format_choice(v) for v in (values[name] for name in names)]
        state = f"{trial.state}: {trial.note}" if trial.note else trial.state
        cells = [*shown, str(trial.seeds), str(result.values.get(trial.number, "")), state]
        bold = map(Bold, cells) if trial is result.winner else cells
        rows.append([str(trial.number) if trial.number else "0, defaults", *bold])
    return Table(["trial", *names, "seeds", "value", "state"], rows, "All trials")


def _describe_method(result: TuningResult) -> str:
    plan = result.study.plan
    several = (
        " The value of a trial is the mean over problems of its score minus the mean of the defaults, divided by their "
        "standard deviation in tuning."
    )
    return (
        f"Optuna's TPE sampler suggested {plan.batch} trials at a time. Each had {min(plan.first_seeds, plan.seeds)} "
        f"seeds on each problem at first, then twice as many, up to {plan.seeds}; after each stage but the last it "
        "was stopped where the interval of its difference to the best so far was below zero (Welch). The truly best "
        f"trial is stopped with a probability of at most {1 - plan.confidence:.0%}, over all stages and opponents, as "
        f"far as means are normal. The winner has the best mean among trials with all {plan.seeds} seeds; it and the "
        f"defaults were then evaluated by {plan.evaluation_seeds} agents on each problem, with seeds that no trial "
        "used." + (several if len(result.study.problems) > 1 else "")
    )
