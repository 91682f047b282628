"""Trials of a tuning and its result, with its report: the winner, its score in tuning, and that on other seeds.

The score in tuning is biased upwards, because it was selected; the evaluation uses seeds that nothing was selected on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from spaql.formatting import Bold, Table, with_values
from spaql.stats import Estimate, combination, mean_interval, probability_of_improvement, welch
from spaql.studies.study import Report, Sheet, make_series, standing
from spaql.studies.sweep.study_file import format_choice
from spaql.studies.tune.racing import Objective, Scores
from spaql.viz.charts import Chart, Level, Series
from spaql.viz.style import GREY, INK, PALETTE

if TYPE_CHECKING:
    from spaql.studies.tune.tuner import Tuning

FILES = ("tune.md", "tune.json", "best.json", "report.html")
FIGURES = ("tuning-scores", "tuning-history", "tuning-importance", "tuning-parameters")
_COLOURS = {"all seeds": PALETTE[0], "stopped early": GREY, "defaults": PALETTE[1], "winner": PALETTE[2]}
COMPLETE, STOPPED, FAILED = "complete", "stopped", "failed"
_BIAS = {1: "significant", 0: "within noise", -1: "negative: tuning was unlucky"}
_VERDICT = {
    1: "tuning helped",
    0: "no significant difference, so tuning did not help",
    -1: "the winner is worse than the defaults, so tuning did not help",
}


@dataclass(frozen=True, eq=False)
class Trial:
    """Parameters that were tried.

    Examples
    --------
    `spaql.tune` returns them:

    >>> result = spaql.tune("tune.toml", "results/tune")  # doctest: +SKIP
    >>> result.winner.values  # doctest: +SKIP
    """

    number: int  #: 0 for the default parameters
    values: Mapping[str, Any]  #: of the tuned parameters
    state: str  #: COMPLETE (it had all seeds), STOPPED (it was behind), or FAILED (one of its runs failed)
    scores: Scores  #: empty where it failed
    note: str = ""  #: which trial it was behind, or what failed

    @property
    def seeds(self) -> int:
        """Return the number of agents on each problem."""
        return len(self.scores[0]) if self.scores else 0

    def __str__(self) -> str:
        return f"trial {self.number}" if self.number else "the defaults"


@dataclass(frozen=True, eq=False)
class Gain:
    """Winner against default parameters on evaluation seeds, on one problem or on all.

    Examples
    --------
    `spaql.tune` returns them:

    >>> result = spaql.tune("tune.toml", "results/tune")  # doctest: +SKIP
    >>> result.gains[0].difference.interval  # doctest: +SKIP
    """

    problem: str  #: its name, or "all problems"
    winner: Estimate  #: of the winner
    default: Estimate  #: of the default parameters
    difference: Estimate  #: the first minus the second
    probability_of_improvement: float  #: that an agent of the winner scores above one of the defaults
    p_value: float | None  #: of Welch's test; None for several problems together


@dataclass(frozen=True, eq=False)
class TuningResult:
    """The state of a tuning, at its end or before.

    Examples
    --------
    `spaql.tune` returns it:

    >>> result = spaql.tune("tune.toml", "results/tune")  # doctest: +SKIP
    >>> print(result.verdict)  # doctest: +SKIP
    """

    study: Tuning  #: what was tuned
    trials: Sequence[Trial]  #: finished ones; the first is that of the default parameters
    evaluations: Mapping[str, Scores] = field(default_factory=dict)  #: of "winner" and "default"; empty before the end
    error: str = ""  #: why there are no evaluations at the end
    importance: Mapping[str, float] | None = None  #: of each parameter, the largest first; None where it is not known
    importance_note: str = ""  #: how it was computed, or why it is not known

    @property
    def complete(self) -> bool:
        """Whether all trials are finished and the winner is evaluated."""
        return len(self.trials) > self.study.plan.trials and bool(self.evaluations)

    @cached_property
    def objective(self) -> Objective:
        """Return the value of scores on several problems."""
        return Objective.from_defaults(self.trials[0].scores, len(self.study.problems), self.study.plan.confidence)

    @cached_property
    def values(self) -> dict[int, Estimate]:
        """Return the values of trials with their intervals by number, without failed trials."""
        return {trial.number: self.objective.value(trial.scores) for trial in self.trials if trial.scores}

    @cached_property
    def winner(self) -> Trial | None:
        """Return the trial with the best mean among those with all seeds; the earlier of equal ones."""
        inside = self.study.defaults is not None
        complete = [trial for trial in self.trials if trial.state == COMPLETE and (inside or trial.number)]
        return max(complete, key=lambda trial: (self.values[trial.number].mean, -trial.number), default=None)

    def count(self, state: str) -> int:
        """Return the number of trials in a state, the defaults included.

        Parameters
        ----------
        state
            "complete", "stopped" or "failed".

        Returns
        -------
        int
            At most the number of trials.
        """
        return sum(trial.state == state for trial in self.trials)

    @property
    def planned_runs(self) -> int:
        """Return the number of runs of these trials without racing."""
        return len(self.trials) * self.study.plan.seeds * len(self.study.problems)

    @property
    def saved_runs(self) -> int:
        """Return the number of runs that racing saved."""
        stopped = (trial for trial in self.trials if trial.state == STOPPED)
        return sum(self.study.plan.seeds - trial.seeds for trial in stopped) * len(self.study.problems)

    @property
    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the winner, fixed ones included."""
        return {**self.study.fixed, **({} if self.winner is None else self.winner.values)}

    @property
    def tuning_score(self) -> Estimate | None:
        """Return the winner's value in tuning; its interval ignores the selection."""
        return None if self.winner is None else self.values[self.winner.number]

    @cached_property
    def evaluation(self) -> Estimate | None:
        """Return the winner's value on evaluation seeds."""
        return self.objective.value(self.evaluations["winner"]) if self.evaluations else None

    @cached_property
    def bias(self) -> Estimate | None:
        """Return the winner's score in tuning minus its evaluation."""
        if self.winner is None or not self.evaluations:
            return None
        return self.objective.difference(self.winner.scores, self.evaluations["winner"])

    @cached_property
    def gains(self) -> list[Gain]:
        """Compare winner and defaults on each problem, and on all together where there are several."""
        if not self.evaluations:
            return []
        confidence, problems = self.study.plan.confidence, self.study.problems
        winner, default = self.evaluations["winner"], self.evaluations["default"]
        gains = []
        for problem, ours, theirs in zip(problems, winner, default, strict=True):
            means = mean_interval(ours, confidence), mean_interval(theirs, confidence)
            difference = combination([ours, theirs], [1, -1], confidence)
            chance = probability_of_improvement(ours, theirs, seed=0).mean
            gains.append(Gain(problem, *means, difference, chance, welch(ours, theirs).p_value))
        if len(problems) > 1:
            values = self.objective.value(winner), self.objective.value(default)
            chance = float(np.mean([gain.probability_of_improvement for gain in gains]))
            gains.append(Gain("all problems", *values, self.objective.difference(winner, default), chance, None))
        return gains

    @property
    def unit(self) -> str:
        """Return the unit of values."""
        return "mean score" if len(self.study.problems) == 1 else "standard deviations above the defaults"

    def summary(self) -> list[str]:
        """Return the result in a few sentences.

        Returns
        -------
        list of str
            Sentences.
        """
        plan = self.study.plan
        lines = [
            f"{len(self.trials) - 1} of {plan.trials} trials and the defaults are finished: {self.count(COMPLETE)} "
            f"with all {plan.seeds} seeds, {self.count(STOPPED)} stopped early, {self.count(FAILED)} failed. Racing "
            f"saved {self.saved_runs:,} of {self.planned_runs:,} runs."
        ]
        if self.winner is None:
            return [*lines, "No trial finished all its seeds without a failure, so there is no winner."]
        values = with_values("", self.winner.values or self.study.defaults or {}).removeprefix(", ")
        lines.append(f"The winner is {self.winner} ({values}): {self.tuning_score} in tuning ({self.unit}).")
        if self.error:
            return [*lines, self.error]
        if self.bias is None:
            return [*lines, "It is not evaluated on other seeds yet; its score in tuning is biased upwards."]
        lines.append(
            f"On {plan.evaluation_seeds} other seeds its evaluation is {self.evaluation}: a selection bias of "
            f"{self.bias}, {_BIAS[standing(self.bias)]}."
        )
        if self.winner is self.trials[0]:
            return [*lines, "No trial beat the default parameters: tuning did not help."]
        gain = self.gains[-1]
        lines.append(
            f"The evaluation of the defaults on as many seeds is {gain.default}, a difference of {gain.difference}: "
            f"{_VERDICT[standing(gain.difference)]}. The probability that an agent of the winner scores above "
            f"one of the defaults is {gain.probability_of_improvement:.0%}."
        )
        return lines

    @property
    def verdict(self) -> str:
        """Return in one sentence whether tuning helped, by how much, and whether that is beyond chance."""
        if self.winner is None:
            return "There is no winner: no trial finished all its seeds without a failure."
        if self.winner is self.trials[0] and self.gains:
            return "No trial beat the default parameters, so tuning did not help."
        if not self.gains:
            return f"So far the best in tuning is {self.winner}, not evaluated on other seeds."
        difference, seeds = self.gains[-1].difference, self.study.plan.evaluation_seeds
        unit = "" if len(self.study.problems) == 1 else f" {self.unit}"
        numbers = f"{difference}{unit}, evaluated by {seeds} agents each on seeds that no trial used"
        if standing(difference) == 0:
            return (
                f"No difference beyond chance: the winner, {self.winner}, minus the defaults is {numbers}, so tuning "
                "did not help."
            )
        side, helped = ("better", "helped") if standing(difference) > 0 else ("worse", "did not help")
        gap = f"is {side} than the defaults, beyond chance: a difference of {numbers}"
        return f"The winner, {self.winner}, {gap}; tuning {helped}."

    def _repr_html_(self) -> str:
        return make_report(self)._repr_html_()

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers, ready for JSON; the same for the same study after any interruption.

        Returns
        -------
        dict
            What tune.json contains.
        """
        return {
            "name": self.study.name,
            "complete": self.complete,
            "summary": self.summary(),
            "algorithm": self.study.algorithm,
            "fixed": self.study.fixed,
            "problems": self.study.problems,
            "unit": self.unit,
            "plan": self.study.plan.model_dump(),
            "winner": None if self.winner is None else self.winner.number,
            "parameters": self.parameters,
            "tuning_score": _to_plain(self.tuning_score),
            "evaluation": _to_plain(self.evaluation),
            "selection_bias": _to_plain(self.bias),
            "gains": [_to_plain(vars(gain)) for gain in self.gains],
            "evaluation_scores": _to_plain(self.evaluations),
            "error": self.error,
            "runs": {"planned": self.planned_runs, "saved": self.saved_runs},
            "importance": self.importance,
            "importance_note": self.importance_note,
            "trials": [
                _to_plain(vars(trial) | {"seeds": trial.seeds, "value": self.values.get(trial.number)})
                for trial in self.trials
            ],
        }


def _to_plain(value: Any) -> Any:
    """Turn estimates and arrays of scores, also in a dictionary, into dictionaries and lists."""
    if isinstance(value, Estimate):
        return {"mean": value.mean, "low": value.low, "high": value.high}
    if isinstance(value, dict):
        return {name: _to_plain(item) for name, item in value.items()}
    return [scores.tolist() for scores in value] if isinstance(value, tuple) else value


def make_report(result: TuningResult) -> Report:
    """Make the report of a finished or unfinished tuning."""
    study = result.study
    title, subtitle = f"Tuning: {study.name}", f"{study.algorithm} on {', '.join(study.problems)}"
    tables = [_score_table(result), *_gain_tables(result), _trial_table(result)]
    note = _describe_method(result) + ("" if result.importance else f" {result.importance_note}")
    charts = (_score_chart(result), _history_chart(result), _importance_chart(result), _parameter_sheet(result))
    figures = {name: chart for name, chart in zip(FIGURES, charts, strict=True) if chart is not None}
    best = {"algorithm": study.algorithm, "parameters": result.parameters, "complete": result.complete}
    files = {} if result.winner is None else {"best.json": json.dumps(best, indent=1, allow_nan=False) + "\n"}
    report = Report("tune", title, subtitle, result.summary(), tables, note, figures, result.to_dict(), files)
    return replace(report, verdict=result.verdict)


def _score_chart(result: TuningResult) -> Chart | None:
    """Chart winner and defaults, in tuning and on evaluation seeds."""
    if result.winner is None or not result.evaluations:
        return None
    confidence, series = result.study.plan.confidence, []
    for name, trial, key in (("winner", result.winner, "winner"), ("defaults", result.trials[0], "default")):
        estimates = {"tuning": result.values[trial.number]} if trial.number in result.values else {}
        estimates["evaluation"] = result.objective.value(result.evaluations[key])
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
    return make_series(label, x, estimates, style="points", colour=_COLOURS[label])


def _default_level(result: TuningResult) -> tuple[Level, ...]:
    values = [result.values[0]] if 0 in result.values else []
    return tuple(Level("defaults", v.mean, v.low, v.high, colour=_COLOURS["defaults"]) for v in values)


def _score_table(result: TuningResult) -> Table:
    plan = result.study.plan
    rows: list[list[str]] = []
    if result.winner is not None:
        cells = (result.tuning_score, result.evaluation or "not yet", result.bias or "")
        rows.append(["winner", *(Bold(cell) for cell in cells)])
    if 0 in result.values and result.winner is not result.trials[0]:
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
    marks = {at: "winner" for at, trial in enumerate(result.trials) if trial is result.winner}
    return Table(["trial", *names, "seeds", "value", "state"], rows, "All trials", marks=marks)


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
