"""Trials of a tuning and its result: the winner, with its score in tuning and its evaluation on other seeds.

The score in tuning is that of the best of many trials.  It was selected because it was high, so it is biased upwards,
the more so the more trials there are and the noisier they are.  The evaluation uses seeds that nothing was selected on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from spaql.formatting import with_values
from spaql.stats import Estimate, mean_interval, probability_of_improvement, welch
from spaql.studies.tune.racing import Objective, Scores
from spaql.studies.tune.search_space import SearchSpace

COMPLETE, STOPPED, FAILED = "complete", "stopped", "failed"
_BIAS = {1: "significant", 0: "within noise", -1: "negative: tuning was unlucky"}
_VERDICT = {
    1: "tuning helped",
    0: "no significant difference, so tuning did not help",
    -1: "the winner is worse than the defaults, so tuning did not help",
}


@dataclass(frozen=True, eq=False)
class Trial:
    """Parameters that were tried."""

    number: int  # 0 for the default parameters
    values: Mapping[str, Any]  # of the tuned parameters
    state: str  # COMPLETE (it had all seeds), STOPPED (it was behind), or FAILED (one of its runs failed)
    scores: Scores  # empty where it failed
    note: str = ""  # which trial it was behind, or what failed

    @property
    def seeds(self) -> int:
        """Return the number of agents on each problem."""
        return len(self.scores[0]) if self.scores else 0

    def __str__(self) -> str:
        return f"trial {self.number}" if self.number else "the defaults"


@dataclass(frozen=True, eq=False)
class Gain:
    """Winner against default parameters on evaluation seeds, on one problem or on all."""

    problem: str
    winner: Estimate
    default: Estimate
    difference: Estimate
    probability_of_improvement: float  # that an agent of the winner scores above one of the defaults
    p_value: float | None  # of Welch's test; None for several problems together


@dataclass(frozen=True, eq=False)
class TuningResult:
    """The state of a tuning, at its end or before."""

    space: SearchSpace
    trials: Sequence[Trial]  # finished ones; the first is that of the default parameters
    evaluations: Mapping[str, Scores] = field(default_factory=dict)  # of "winner" and "default"; empty before the end
    error: str = ""  # why there are no evaluations at the end
    importance: Mapping[str, float] | None = None  # of each parameter, the largest first; None where it is not known
    importance_note: str = ""

    @property
    def default(self) -> Trial:
        """Return the trial of the default parameters."""
        return self.trials[0]

    @property
    def complete(self) -> bool:
        """Whether all trials are finished and the winner is evaluated."""
        return len(self.trials) > self.space.plan.trials and bool(self.evaluations)

    @cached_property
    def objective(self) -> Objective:
        """Return the value of scores on several problems."""
        return Objective.from_defaults(self.default.scores or None, len(self.space.problems))

    @cached_property
    def values(self) -> dict[int, Estimate]:
        """Return the values of trials with their intervals by number, without failed trials."""
        confidence = self.space.plan.confidence
        return {trial.number: self.objective.value(trial.scores, confidence) for trial in self.trials if trial.scores}

    @cached_property
    def winner(self) -> Trial | None:
        """Return the trial with the best mean among those with all seeds; the earlier of equal ones."""
        inside = self.space.defaults is not None
        complete = [trial for trial in self.trials if trial.state == COMPLETE and (inside or trial.number)]
        return max(complete, key=lambda trial: (self.values[trial.number].mean, -trial.number), default=None)

    def count(self, state: str) -> int:
        """Return the number of trials in a state, the defaults included."""
        return sum(trial.state == state for trial in self.trials)

    @property
    def planned_runs(self) -> int:
        """Return the number of runs of these trials without racing."""
        return len(self.trials) * self.space.plan.seeds * len(self.space.problems)

    @property
    def saved_runs(self) -> int:
        """Return the number of runs that racing saved."""
        stopped = (trial for trial in self.trials if trial.state == STOPPED)
        return sum(self.space.plan.seeds - trial.seeds for trial in stopped) * len(self.space.problems)

    @property
    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the winner, fixed ones included."""
        return {**self.space.algorithm.parameters, **({} if self.winner is None else self.winner.values)}

    @cached_property
    def tuning_score(self) -> Estimate | None:
        """Return the winner's value in tuning; its interval ignores the selection."""
        return None if self.winner is None else self.values[self.winner.number]

    @cached_property
    def evaluation(self) -> Estimate | None:
        """Return the winner's value on evaluation seeds."""
        if not self.evaluations:
            return None
        return self.objective.value(self.evaluations["winner"], self.space.plan.confidence)

    @cached_property
    def bias(self) -> Estimate | None:
        """Return the winner's score in tuning minus its evaluation."""
        if self.winner is None or not self.evaluations:
            return None
        return self.objective.difference(self.winner.scores, self.evaluations["winner"], self.space.plan.confidence)

    @cached_property
    def gains(self) -> list[Gain]:
        """Compare winner and defaults on each problem, and on all together where there are several."""
        if not self.evaluations:
            return []
        confidence, problems = self.space.plan.confidence, self.space.problems
        winner, default = self.evaluations["winner"], self.evaluations["default"]
        gains = [
            Gain(
                problem,
                mean_interval(ours, confidence),
                mean_interval(theirs, confidence),
                Objective((0.0,), (1.0,)).difference([ours], [theirs], confidence),
                _improvement([ours], [theirs]),
                welch(ours, theirs).p_value,
            )
            for problem, ours, theirs in zip(problems, winner, default, strict=True)
        ]
        if len(problems) > 1:
            first, second = (self.objective.value(scores, confidence) for scores in (winner, default))
            difference = self.objective.difference(winner, default, confidence)
            gains.append(Gain("all problems", first, second, difference, _improvement(winner, default), None))
        return gains

    @property
    def unit(self) -> str:
        """Return the unit of values."""
        return "mean score" if len(self.space.problems) == 1 else "standard deviations above the defaults"

    def summary(self) -> list[str]:
        """Return the result in a few sentences."""
        plan = self.space.plan
        lines = [
            f"{len(self.trials) - 1} of {plan.trials} trials and the defaults are finished: {self.count(COMPLETE)} "
            f"with all {plan.seeds} seeds, {self.count(STOPPED)} stopped early, {self.count(FAILED)} failed. Racing "
            f"saved {self.saved_runs:,} of {self.planned_runs:,} runs."
        ]
        if self.winner is None or self.tuning_score is None:
            return [*lines, "No trial finished all its seeds without a failure, so there is no winner."]
        values = with_values("", self.winner.values or self.space.defaults or {}).removeprefix(", ")
        lines.append(f"The winner is {self.winner} ({values}): {self.tuning_score} in tuning ({self.unit}).")
        if self.error:
            return [*lines, self.error]
        if self.evaluation is None or self.bias is None:
            return [*lines, "It is not evaluated on other seeds yet; its score in tuning is biased upwards."]
        lines.append(
            f"On {plan.evaluation_seeds} other seeds its evaluation is {self.evaluation}: a selection bias of "
            f"{self.bias}, {_BIAS[_sign(self.bias)]}."
        )
        return [*lines, self._summarize_gain(self.gains[-1])]

    def _summarize_gain(self, gain: Gain) -> str:
        if self.winner is self.default:
            return "No trial beat the default parameters: tuning did not help."
        return (
            f"The evaluation of the defaults on as many seeds is {gain.default}, a difference of {gain.difference}: "
            f"{_VERDICT[_sign(gain.difference)]}. The probability that an agent of the winner scores above "
            f"one of the defaults is {gain.probability_of_improvement:.0%}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers, ready for JSON; the same for the same study after any interruption."""
        space = self.space
        return {
            "name": space.study.name,
            "complete": self.complete,
            "summary": self.summary(),
            "algorithm": space.algorithm.algorithm,
            "fixed": space.algorithm.parameters,
            "problems": space.problems,
            "unit": self.unit,
            "plan": space.plan.model_dump(),
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
                _to_plain({**vars(trial), "seeds": trial.seeds, "value": self.values.get(trial.number)})
                for trial in self.trials
            ],
        }


def _sign(estimate: Estimate) -> int:
    """Return 1 or -1 where the interval of an estimate lies above or below zero, otherwise 0."""
    return int(estimate.low > 0) - int(estimate.high < 0)


def _improvement(ours: Scores, theirs: Scores) -> float:
    """Return the probability that a run of ours scores above one of theirs (ties count half), on average."""
    pairs = zip(ours, theirs, strict=True)
    return float(np.mean([probability_of_improvement(mine, other, seed=0).mean for mine, other in pairs]))


def _to_plain(value: Any) -> Any:
    """Turn estimates and arrays into plain dictionaries and lists; None for numbers that are not finite."""
    if isinstance(value, Estimate):
        return {name: _to_plain(getattr(value, name)) for name in ("mean", "low", "high")}
    if isinstance(value, Mapping):
        return {name: _to_plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_to_plain(item) for item in value]
    if isinstance(value, float):  # np.float64 included
        return float(value) if math.isfinite(value) else None
    return value
