"""An outcome as paragraphs, tables and charts: plain data, apart from who draws it.

`sections` is what the page shows; `history` and `importance` are figures too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spaql.stats import Estimate
from spaql.studies.tune.outcome import COMPLETE, FAILED, STOPPED, Outcome, Trial
from spaql.studies.tune.search import label
from spaql.viz.charts import Chart, Level, Series
from spaql.viz.report import Section

_IMPORTANCE = "How much each parameter has to do with being among the best trials."
_LUCK = "The best of many is lucky too: on seeds that had no part in choosing it, it scores what it is worth."
_EARLY = "Each trial is a choice of parameters; one that is clearly behind the best is stopped early."
_SLICES = "Trials by each of their parameters; the others differ too."
_LABELS = {COMPLETE: "had all seeds", STOPPED: "stopped as clearly behind"}
_LOOKS = {COMPLETE: "tessera", STOPPED: "random", "best": "optimum", "default": "aql", "winner": "spaql published"}


def title(outcome: Outcome) -> tuple[str, str]:
    """Of the page, and what stands below it."""
    search = outcome.search
    return f"Tuning: {search.description.name}", f"{search.algorithm.algorithm} on {', '.join(search.problems)}"


def sections(outcome: Outcome) -> list[Section]:
    """What the page says of an outcome."""
    numbers = [_two_numbers(outcome), *_against_default(outcome)]
    slices = _slices(outcome)
    return [
        Section("outcome", "What came out", outcome.words(), numbers, _dicts(scores(outcome)), [_LUCK]),
        Section("history", "Trials", [_saved(outcome)], (), _dicts(history(outcome)), [_EARLY]),
        Section(
            "importance", "Which parameter matters", (), (), _dicts(importance(outcome)), [_importance_note(outcome)]
        ),
        *([Section("slices", "Each parameter", (), (), _dicts(*slices), [_SLICES])] if slices else []),
        Section("trials", "All trials", tables=[_trials(outcome)]),
        Section("method", "How to read it", _method(outcome)),
    ]


# Charts --------------------------------------------------------------------------------------------------------------


def history(outcome: Outcome) -> Chart | None:
    """Values of trials with their intervals, in their order, and the best so far; None where all failed."""
    series = [
        _points(_LABELS[state], [each for each in outcome.trials if each.state == state], outcome, state)
        for state in (STOPPED, COMPLETE)
    ]
    best: float | None = None
    at: list[float] = []
    found: list[float] = []
    for each in outcome.trials:
        value = outcome.values.get(each.number)
        if each.state == COMPLETE and value is not None:
            best = value.mean if best is None else max(best, value.mean)
        if best is not None:
            at.append(float(each.number))
            found.append(best)
    line = Series("best so far", at, found, look=_LOOKS["best"])
    drawn = tuple(each for each in (line, *series) if len(each.x))
    if not drawn:
        return None
    failed = outcome.count(FAILED)
    sure = f"{outcome.search.plan.confidence:.0%}"
    note = f"Points are means over seeds, bars their {sure} intervals; trial 0 is the defaults."
    if failed:
        note += f" {failed} failed {'trial has' if failed == 1 else 'trials have'} no point."
    return Chart("Trials in their order", "trial", _axis(outcome), drawn, _default_level(outcome), note=note)


def importance(outcome: Outcome) -> Chart | None:
    """Share of each parameter; None where that is not known."""
    if outcome.importance is None:
        return None
    names, shares = list(outcome.importance), list(outcome.importance.values())
    series = Series("share", names, shares, look=_LOOKS[COMPLETE], style="points")
    levels = (Level("none", 0.0, look="random"),)
    return Chart(
        "Which parameter matters", "parameter", "share", (series,), levels, "category", outcome.importance_note
    )


def scores(outcome: Outcome) -> Chart | None:
    """The winner in tuning and on fresh seeds, and the defaults alike; None before there are fresh scores."""
    if outcome.winner is None or not outcome.fresh:
        return None
    confidence = outcome.search.plan.confidence
    pairs = {
        "winner": (outcome.winner, outcome.fresh["winner"]),
        "default": (outcome.default, outcome.fresh["default"]),
    }
    series = []
    for name, (trial, fresh) in pairs.items():
        found = {"fresh seeds": outcome.measure.value(fresh, confidence)}
        if trial.number in outcome.values:
            found = {"in tuning": outcome.values[trial.number], **found}
        series.append(_estimates("defaults" if name == "default" else name, list(found), list(found.values()), name))
    note = f"Means over agents with {confidence:.0%} intervals; the winner was chosen by its score in tuning."
    return Chart("Two scores", "scored on", _axis(outcome), tuple(series), x_scale="category", note=note)


def slice_of(outcome: Outcome, name: str) -> Chart:
    """Values of trials over one parameter."""
    span = outcome.search.algorithm.ranges[name]
    tuned = [each for each in outcome.trials if each.number and each.state != FAILED]
    series = []
    for state in (STOPPED, COMPLETE):
        some = [each for each in tuned if each.state == state and each is not outcome.winner]
        series.append(_points(_LABELS[state], some, outcome, state, name))
    if outcome.winner is not None and outcome.winner.number:
        series.append(_points("winner", [outcome.winner], outcome, "winner", name))
    scale = "category" if span.choices else "log" if span.log else "linear"
    drawn = tuple(each for each in series if len(each.x))
    return Chart(name, name, _axis(outcome), drawn, _default_level(outcome), scale)  # type: ignore[arg-type]


def _points(called: str, trials: Sequence[Trial], outcome: Outcome, look: str, over: str | None = None) -> Series:
    """Trials as points over their numbers, or over a parameter."""
    if over is None:
        at: list[Any] = [float(each.number) for each in trials]
    elif outcome.search.algorithm.ranges[over].choices:
        at = [label(each.values[over]) for each in trials]
    else:
        at = [float(each.values[over]) for each in trials]
    return _estimates(called, at, [outcome.values[each.number] for each in trials], look)


def _estimates(called: str, at: Sequence[Any], found: Sequence[Estimate], look: str) -> Series:
    mean, low, high = ([getattr(each, name) for each in found] for name in ("mean", "low", "high"))
    return Series(called, at, mean, low, high, look=_LOOKS[look], style="points")


def _default_level(outcome: Outcome) -> tuple[Level, ...]:
    value = outcome.values.get(0)
    return () if value is None else (Level("defaults", value.mean, value.low, value.high, look=_LOOKS["default"]),)


def _axis(outcome: Outcome) -> str:
    return "mean score" if len(outcome.search.problems) == 1 else "deviations above the defaults"


# Sections ------------------------------------------------------------------------------------------------------------


def _dicts(*charts: Chart | None) -> list[dict[str, Any]]:
    return [chart.to_dict() for chart in charts if chart is not None]


def _saved(outcome: Outcome) -> str:
    return f"Stopping early saved {outcome.saved_runs:,} of {outcome.planned_runs:,} runs."


def _importance_note(outcome: Outcome) -> str:
    return _IMPORTANCE if outcome.importance is not None else outcome.importance_note


def _slices(outcome: Outcome) -> list[Chart]:
    drawn = [slice_of(outcome, name) for name in outcome.search.algorithm.ranges]
    return [chart for chart in drawn if chart.series]


# Tables --------------------------------------------------------------------------------------------------------------


def _table(caption: str, columns: Sequence[str], rows: Sequence[Mapping[str, Any]], note: str = "") -> dict[str, Any]:
    return {"caption": caption, "note": note, "columns": list(columns), "rows": list(rows)}


def _row(head: str, *texts: str, bold: bool = False) -> dict[str, Any]:
    return {"head": head, "cells": [{"text": text, "bold": bold, "title": ""} for text in texts]}


def _two_numbers(outcome: Outcome) -> dict[str, Any]:
    plan = outcome.search.plan
    rows = []
    if outcome.winner is not None:
        fresh = "not yet" if outcome.fresh_score is None else str(outcome.fresh_score)
        bias = "" if outcome.bias is None else str(outcome.bias)
        rows.append(_row("winner", str(outcome.tuning_score), fresh, bias, bold=True))
    if 0 in outcome.values and outcome.winner is not outcome.default:
        fresh = str(outcome.comparisons[-1].default) if outcome.fresh else "not yet"
        rows.append(_row("defaults", str(outcome.values[0]), fresh, ""))
    return _table(
        "The winner, twice scored",
        ("", f"in tuning, {plan.seeds} seeds", f"on {plan.fresh_seeds} fresh seeds", "tuning bias"),
        rows,
        f"{plan.confidence:.0%} intervals in brackets. That of the winner in tuning knows nothing of the choice.",
    )


def _against_default(outcome: Outcome) -> list[dict[str, Any]]:
    if not outcome.comparisons:
        return []
    rows = [
        _row(
            each.problem,
            str(each.winner),
            str(each.default),
            str(each.gain),
            f"{each.improvement:.2f}",
            "" if each.p_value is None else f"{each.p_value:.2g}",
        )
        for each in outcome.comparisons
    ]
    columns = ("problem", "winner", "defaults", "difference", "probability of improvement", "p (Welch)")
    note = "Probability of improvement: the chance that an agent of the winner scores above one of the defaults."
    return [_table("Winner against defaults, on fresh seeds", columns, rows, note)]


def _trials(outcome: Outcome) -> dict[str, Any]:
    names = list(outcome.search.algorithm.ranges)
    rows = []
    for each in outcome.trials:
        values = each.values or outcome.search.defaults or {}
        shown = [_shown(values[name]) if name in values else "default" for name in names]
        value = str(outcome.values[each.number]) if each.number in outcome.values else ""
        state = f"{each.state}: {each.note}" if each.note else each.state
        rows.append(
            _row(
                str(each.number) if each.number else "0, defaults",
                *shown,
                str(each.seeds),
                value,
                state,
                bold=each is outcome.winner,
            )
        )
    return _table("All trials", ("trial", *names, "seeds", "value", "what became of it"), rows)


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else label(value)


def _method(outcome: Outcome) -> list[str]:
    search, plan = outcome.search, outcome.search.plan
    first = min(plan.first_seeds, plan.seeds)
    said = [
        f"Optuna's TPE sampler chose {plan.batch} trials at a time. Each had {first} seeds on each problem at first, "
        f"then twice as many, and so on up to {plan.seeds}. After each of these stages but the last, a trial was "
        "stopped where the interval of the difference between its mean and the best so far lay below zero (Welch). Its "
        f"level is such that the truly best trial is stopped with a chance of at most {1 - plan.confidence:.0%}, over "
        "all looks and all trials that it might be compared with, as far as means are normal.",
        f"The winner is the best mean among trials that had all {plan.seeds} seeds. It and the defaults were then "
        f"scored by {plan.fresh_seeds} agents each on every problem, whose seeds no trial had met.",
    ]
    if len(search.problems) > 1:
        said.append(
            "The value of a trial is the mean over problems of its score minus the defaults' mean, divided by the "
            "deviation of the defaults' runs in tuning."
        )
    return said
