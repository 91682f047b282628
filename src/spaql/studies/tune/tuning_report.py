"""The report of a tuning: tables and charts of its result."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from spaql.formatting import Bold, Table
from spaql.stats import Estimate
from spaql.studies.study import Report, Sheet
from spaql.studies.tune.search_space import format_choice
from spaql.studies.tune.trials import COMPLETE, FAILED, STOPPED, Trial, TuningResult
from spaql.viz.charts import Chart, Level, Series
from spaql.viz.style import GREY, INK, PALETTE

NAME, BEST = "tune", "best.json"
FIGURES = ("tuning-scores", "tuning-history", "tuning-importance", "tuning-parameters")
_LABELS = {COMPLETE: "all seeds", STOPPED: "stopped early"}
_COLOURS = {COMPLETE: PALETTE[0], STOPPED: GREY, "best": INK, "defaults": PALETTE[1], "winner": PALETTE[2]}


def make_report(result: TuningResult) -> Report:
    """Make the report of a finished or unfinished tuning."""
    space = result.space
    charts = (_score_chart(result), _history_chart(result), _importance_chart(result), _parameter_sheet(result))
    best = {"algorithm": space.algorithm.algorithm, "parameters": result.parameters, "complete": result.complete}
    return Report(
        NAME,
        f"Tuning: {space.study.name}",
        f"{space.algorithm.algorithm} on {', '.join(space.problems)}",
        result.summary(),
        [_score_table(result), *_gain_tables(result), _trial_table(result)],
        " ".join([*_describe_method(result), "" if result.importance else result.importance_note]).strip(),
        {name: chart for name, chart in zip(FIGURES, charts, strict=True) if chart is not None},
        result.to_dict(),
        {} if result.winner is None else {BEST: json.dumps(best, indent=1, allow_nan=False) + "\n"},
    )


# Charts --------------------------------------------------------------------------------------------------------------


def _score_chart(result: TuningResult) -> Chart | None:
    """Chart winner and defaults, in tuning and on evaluation seeds."""
    if result.winner is None or not result.evaluations:
        return None
    confidence = result.space.plan.confidence
    series = []
    for name, trial, scores in (
        ("winner", result.winner, result.evaluations["winner"]),
        ("defaults", result.default, result.evaluations["default"]),
    ):
        estimates = {
            "tuning": result.values.get(trial.number),
            "evaluation": result.objective.value(scores, confidence),
        }
        known = {seeds: estimate for seeds, estimate in estimates.items() if estimate is not None}
        series.append(_points(name, list(known), list(known.values()), name))
    note = f"Means over agents with {confidence:.0%} intervals; the winner was selected by its score in tuning."
    return Chart("Tuning and evaluation", "seeds", _axis(result), tuple(series), x_scale="category", note=note)


def _history_chart(result: TuningResult) -> Chart | None:
    """Chart the values of trials in order, and the best so far."""
    series = [
        _trial_points(result, [trial for trial in result.trials if trial.state == state], _LABELS[state], state)
        for state in (STOPPED, COMPLETE)
    ]
    numbers: list[float] = []
    best: list[float] = []
    for trial in result.trials:
        value = result.values.get(trial.number)
        if trial.state == COMPLETE and value is not None:
            best.append(max([*best[-1:], value.mean]))
        elif best:
            best.append(best[-1])
        if best:
            numbers.append(float(trial.number))
    line = Series("best so far", numbers, best, look="best", colour=_COLOURS["best"])
    drawn = tuple(one for one in (line, *series) if len(one.x))
    if not drawn:
        return None
    failed = result.count(FAILED)
    note = f"Means over seeds with {result.space.plan.confidence:.0%} intervals; trial 0 is the defaults."
    note += f" Failed trials without a point: {failed}." if failed else ""
    return Chart("Trials", "trial", _axis(result), drawn, _default_level(result), note=note)


def _importance_chart(result: TuningResult) -> Chart | None:
    if result.importance is None:
        return None
    names, shares = list(result.importance), list(result.importance.values())
    series = Series("share", names, shares, look="share", style="points", colour=_COLOURS[COMPLETE])
    levels = (Level("none", 0.0, look="none", colour=GREY),)
    note = result.importance_note
    return Chart("Importance of parameters", "parameter", "share", (series,), levels, "category", note)


def _parameter_sheet(result: TuningResult) -> Sheet | None:
    """Chart the values of trials over each parameter."""
    charts = []
    tuned = [trial for trial in result.trials if trial.number and trial.state != FAILED]
    winner = [trial for trial in tuned if trial is result.winner]
    for name, span in result.space.algorithm.random.items():
        groups = {_LABELS[s]: [t for t in tuned if t.state == s and t not in winner] for s in (STOPPED, COMPLETE)}
        series = [
            _trial_points(result, trials, label, kind, name)
            for (label, trials), kind in zip(
                {**groups, "winner": winner}.items(), (STOPPED, COMPLETE, "winner"), strict=True
            )
            if trials
        ]
        scale: Literal["linear", "log", "category"] = "log" if span.log else "linear"
        if series:
            levels = _default_level(result)
            scale = scale if span.choices is None else "category"
            charts.append(Chart(name, name, _axis(result), tuple(series), levels, scale))
    return Sheet("Parameters", charts, "Trials by each parameter; the others differ too.") if charts else None


def _trial_points(
    result: TuningResult, trials: Sequence[Trial], label: str, kind: str, parameter: str | None = None
) -> Series:
    """Make points of trials over their numbers, or over a parameter."""
    x: list[Any] = [float(trial.number) for trial in trials]
    if parameter is not None:
        choices = result.space.algorithm.random[parameter].choices
        convert = float if choices is None else format_choice
        x = [convert(trial.values[parameter]) for trial in trials]
    return _points(label, x, [result.values[trial.number] for trial in trials], kind)


def _points(label: str, x: Sequence[Any], estimates: Sequence[Estimate], kind: str) -> Series:
    mean, low, high = ([getattr(estimate, name) for estimate in estimates] for name in ("mean", "low", "high"))
    return Series(label, x, mean, low, high, label, "points", _COLOURS[kind])


def _default_level(result: TuningResult) -> tuple[Level, ...]:
    value = result.values.get(0)
    if value is None:
        return ()
    return (Level("defaults", value.mean, value.low, value.high, "defaults", _COLOURS["defaults"]),)


def _axis(result: TuningResult) -> str:
    return "mean score" if len(result.space.problems) == 1 else result.unit


# Tables --------------------------------------------------------------------------------------------------------------


def _score_table(result: TuningResult) -> Table:
    plan = result.space.plan
    rows = []
    if result.winner is not None:
        evaluation = "not yet" if result.evaluation is None else str(result.evaluation)
        cells = (str(result.tuning_score), evaluation, "" if result.bias is None else str(result.bias))
        rows.append(["winner", *map(Bold, cells)])
    if 0 in result.values and result.winner is not result.default:
        rows.append(
            ["defaults", str(result.values[0]), str(result.gains[-1].default) if result.gains else "not yet", ""]
        )
    header = ["", f"tuning, {plan.seeds} seeds", f"evaluation, {plan.evaluation_seeds} seeds", "selection bias"]
    note = f"{plan.confidence:.0%} intervals in brackets. That of the winner in tuning ignores its selection."
    return Table(header, rows, "Winner in tuning and evaluation", note)


def _gain_tables(result: TuningResult) -> list[Table]:
    if not result.gains:
        return []
    header = ["problem", "winner", "defaults", "difference", "probability of improvement", "p (Welch)"]
    rows = [
        [
            gain.problem,
            *map(str, (gain.winner, gain.default, gain.difference)),
            f"{gain.probability_of_improvement:.2f}",
            "" if gain.p_value is None else f"{gain.p_value:.2g}",
        ]
        for gain in result.gains
    ]
    note = "Probability of improvement: that an agent of the winner scores above one of the defaults."
    return [Table(header, rows, "Winner against defaults on evaluation seeds", note)]


def _trial_table(result: TuningResult) -> Table:
    names = list(result.space.algorithm.random)
    rows = []
    for trial in result.trials:
        values: Mapping[str, Any] = trial.values or result.space.defaults or {}
        shown = [_format_value(values[name]) if name in values else "default" for name in names]
        value = str(result.values[trial.number]) if trial.number in result.values else ""
        state = f"{trial.state}: {trial.note}" if trial.note else trial.state
        cells = [*shown, str(trial.seeds), value, state]
        number = str(trial.number) if trial.number else "0, defaults"
        rows.append([number, *(map(Bold, cells) if trial is result.winner else cells)])
    return Table(["trial", *names, "seeds", "value", "state"], rows, "All trials")


def _format_value(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else format_choice(value)


def _describe_method(result: TuningResult) -> list[str]:
    plan = result.space.plan
    sentences = [
        f"Optuna's TPE sampler suggested {plan.batch} trials at a time.",
        f"Each had {min(plan.first_seeds, plan.seeds)} seeds on each problem at first, then twice as many, up to "
        f"{plan.seeds}; after each stage but the last it was stopped where the interval of its difference to the best "
        "so far was below zero (Welch).",
        f"The truly best trial is stopped with a probability of at most {1 - plan.confidence:.0%}, over all stages and "
        "all opponents, as far as means are normal.",
        f"The winner has the best mean among trials with all {plan.seeds} seeds; it and the defaults were then "
        f"evaluated by {plan.evaluation_seeds} agents on each problem, with seeds that no trial used.",
    ]
    if len(result.space.problems) > 1:
        sentences.append(
            "The value of a trial is the mean over problems of its score minus the mean of the defaults, divided by "
            "their standard deviation in tuning."
        )
    return sentences
