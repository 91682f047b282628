"""What came out of a tuning: trials, the winner, and its score twice, in tuning and on fresh seeds.

The score in tuning is that of the best of many: it was chosen because it was high, and so it is too high as a rule, the
more so the more trials there are and the noisier they are.  The score on fresh seeds was not chosen by anything.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from spaql.stats import Estimate, mean_interval, probability_of_improvement, welch
from spaql.studies.tune.racing import Measure, Scores
from spaql.studies.tune.search import Search

COMPLETE, STOPPED, FAILED = "complete", "stopped", "failed"


@dataclass(frozen=True, eq=False)
class Trial:
    """Parameters that were tried.

    Attributes
    ----------
    number
        0 is the default parameters.
    values
        Of the tuned parameters.
    state
        "complete": it had all its seeds; "stopped": it was clearly behind; "failed": a run of it failed.
    scores
        Of its runs, by problem; empty where it failed.
    note
        Behind whom it was, or what failed.
    """

    number: int
    values: Mapping[str, Any]
    state: str
    scores: Scores
    note: str = ""

    @property
    def seeds(self) -> int:
        """How many agents it had on each problem."""
        return len(self.scores[0]) if self.scores else 0


@dataclass(frozen=True, eq=False)
class Comparison:
    """Winner and default parameters on fresh seeds, on one problem or on all."""

    problem: str
    winner: Estimate
    default: Estimate
    gain: Estimate
    improvement: float  # chance that an agent of the winner scores above one of the default
    p_value: float | None  # Welch's; None for several problems together


@dataclass(frozen=True, eq=False)
class Outcome:
    """What is known of a tuning, at its end or on its way.

    Attributes
    ----------
    search
        What was looked for.
    trials
        Finished ones, in their order; the first is the default parameters.
    fresh
        Scores on fresh seeds, "winner" and "default", each by problem; empty before the end.
    trouble
        Why there are no fresh scores though the trials are finished, or "".
    importance
        Share of each parameter in what makes a trial good, the largest first; None where that cannot be said.
    importance_note
        How it was found, or why it was not.
    """

    search: Search
    trials: Sequence[Trial]
    fresh: Mapping[str, Scores] = field(default_factory=dict)
    trouble: str = ""
    importance: Mapping[str, float] | None = None
    importance_note: str = ""

    # Trials ----------------------------------------------------------------------------------------------------

    @property
    def default(self) -> Trial:
        """The trial of the default parameters."""
        return self.trials[0]

    @property
    def complete(self) -> bool:
        """Whether all trials are finished and the winner is scored."""
        return len(self.trials) > self.search.plan.trials and bool(self.fresh)

    @cached_property
    def measure(self) -> Measure:
        """How scores on several problems are one number."""
        return Measure.by(self.default.scores or None, len(self.search.problems))

    @cached_property
    def values(self) -> dict[int, Estimate]:
        """Values of trials with their intervals, by number; failed ones have none."""
        confidence = self.search.plan.confidence
        return {each.number: self.measure.value(each.scores, confidence) for each in self.trials if each.scores}

    @cached_property
    def winner(self) -> Trial | None:
        """The best mean of those that had all their seeds, not the best of few; the earlier of equals."""
        inside = self.search.defaults is not None
        found = [each for each in self.trials if each.state == COMPLETE and (inside or each.number)]
        return max(found, key=lambda each: (self.values[each.number].mean, -each.number), default=None)

    def count(self, state: str) -> int:
        """How many trials ended so, the default among them."""
        return sum(each.state == state for each in self.trials)

    @property
    def planned_runs(self) -> int:
        """Runs of these trials had all of them had all their seeds."""
        return len(self.trials) * self.search.plan.seeds * len(self.search.problems)

    @property
    def saved_runs(self) -> int:
        """Runs that the race made unnecessary."""
        stopped = (each for each in self.trials if each.state == STOPPED)
        return sum(self.search.plan.seeds - each.seeds for each in stopped) * len(self.search.problems)

    # The two numbers -------------------------------------------------------------------------------------------

    @cached_property
    def tuning_score(self) -> Estimate | None:
        """The winner's value in tuning; the interval knows nothing of the choice."""
        return None if self.winner is None else self.values[self.winner.number]

    @cached_property
    def fresh_score(self) -> Estimate | None:
        """The winner's value on fresh seeds."""
        return self.measure.value(self.fresh["winner"], self.search.plan.confidence) if self.fresh else None

    @cached_property
    def bias(self) -> Estimate | None:
        """How much higher the score in tuning is than the one on fresh seeds."""
        if self.winner is None or not self.fresh:
            return None
        return self.measure.difference(self.winner.scores, self.fresh["winner"], self.search.plan.confidence)

    @cached_property
    def comparisons(self) -> list[Comparison]:
        """Winner against default on fresh seeds: on each problem, and then on all where there are several."""
        if not self.fresh:
            return []
        confidence, labels = self.search.plan.confidence, self.search.problems
        winner, default = self.fresh["winner"], self.fresh["default"]
        found = []
        for problem, ours, theirs in zip(labels, winner, default, strict=True):
            raw = Measure((0.0,), (1.0,))
            found.append(
                Comparison(
                    problem,
                    mean_interval(ours, confidence),
                    mean_interval(theirs, confidence),
                    raw.difference([ours], [theirs], confidence),
                    improvement([ours], [theirs]),
                    welch(ours, theirs).p_value,
                )
            )
        if len(labels) > 1:
            first, second = (self.measure.value(scores, confidence) for scores in (winner, default))
            gain = self.measure.difference(winner, default, confidence)
            found.append(Comparison("all problems", first, second, gain, improvement(winner, default), None))
        return found

    # In words --------------------------------------------------------------------------------------------------

    @property
    def unit(self) -> str:
        """What values are counted in."""
        return "score" if len(self.search.problems) == 1 else "deviations of the default's runs above its mean"

    def words(self) -> list[str]:
        """What came out, a sentence or a few for each part of it."""
        plan, failed, stopped = self.search.plan, self.count(FAILED), self.count(STOPPED)
        said = [
            f"{len(self.trials) - 1} of {plan.trials} trials are finished, and the defaults: {self.count(COMPLETE)} "
            f"had all {plan.seeds} seeds, {stopped} were stopped as clearly behind, {failed} failed. Stopping early "
            f"saved {self.saved_runs:,} of {self.planned_runs:,} runs."
        ]
        if self.winner is None or self.tuning_score is None:
            return [*said, "No trial has had all its seeds without a failure, so there is no winner."]
        best = self.shown(self.winner)
        said.append(
            f"The best of them is {f'trial {self.winner.number}' if self.winner.number else 'the defaults'}, {best}: "
            f"{self.tuning_score} in tuning ({self.unit})."
        )
        if self.trouble:
            return [*said, self.trouble]
        if self.fresh_score is None or self.bias is None:
            return [*said, "It is not scored on fresh seeds yet; until then, this number is too high as a rule."]
        said.append(self._on_fresh_seeds(self.fresh_score, self.bias))
        return [*said, self._against_default(self.comparisons[-1])]

    def _on_fresh_seeds(self, score: Estimate, bias: Estimate) -> str:
        known = "more than noise explains" if bias.low > 0 else "no more than noise explains"
        if bias.high < 0:
            known = "the wrong way round: the tuning was unlucky"
        return f"On {self.search.plan.fresh_seeds} fresh seeds it scores {score}: a tuning bias of {bias}, {known}."

    def _against_default(self, compared: Comparison) -> str:
        if self.winner is self.default:
            return "No trial beat the default parameters: tuning did not help here."
        chance = f"an agent of the winner scores above one of the defaults with a chance of {compared.improvement:.0%}"
        against = f"The defaults score {compared.default} on as many fresh seeds; the difference is {compared.gain}"
        if compared.gain.low > 0:
            return f"{against}: tuning helped; {chance}."
        if compared.gain.high < 0:
            return f"{against}: the winner is worse than the defaults, and tuning did not help; {chance}."
        return f"{against}: the two cannot be told apart, and tuning did not help as far as this shows; {chance}."

    def shown(self, trial: Trial) -> str:
        """The values of a trial in a line."""
        values = trial.values or self.search.defaults or {}
        return ", ".join(f"{name}={_short(value)}" for name, value in values.items())

    # As data ---------------------------------------------------------------------------------------------------

    @property
    def parameters(self) -> dict[str, Any]:
        """What to give the algorithm: the winner's values and those that were fixed."""
        values = {} if self.winner is None or not self.winner.number else self.winner.values
        return {**self.search.algorithm.parameters, **values}

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values, ready for JSON; the same for the same study however often it was interrupted."""
        search, plan = self.search, self.search.plan
        return {
            "name": search.description.name,
            "complete": self.complete,
            "words": self.words(),
            "algorithm": search.algorithm.algorithm,
            "fixed": dict(search.algorithm.parameters),
            "problems": list(search.problems),
            "unit": self.unit,
            "plan": {name: getattr(plan, name) for name in plan.__dataclass_fields__},
            "winner": None if self.winner is None else self.winner.number,
            "parameters": self.parameters,
            "tuning_score": _estimate(self.tuning_score),
            "fresh_score": _estimate(self.fresh_score),
            "tuning_bias": _estimate(self.bias),
            "fresh": [
                {
                    "problem": each.problem,
                    "winner": _estimate(each.winner),
                    "default": _estimate(each.default),
                    "difference": _estimate(each.gain),
                    "probability_of_improvement": each.improvement,
                    "p_value": each.p_value,
                }
                for each in self.comparisons
            ],
            "fresh_scores": {name: _lists(scores) for name, scores in self.fresh.items()},
            "trouble": self.trouble,
            "runs": {"planned": self.planned_runs, "saved": self.saved_runs},
            "importance": None if self.importance is None else dict(self.importance),
            "importance_note": self.importance_note,
            "trials": [
                {
                    "number": each.number,
                    "values": dict(each.values),
                    "state": each.state,
                    "seeds": each.seeds,
                    "value": _estimate(self.values.get(each.number)),
                    "note": each.note,
                    "scores": _lists(each.scores),
                }
                for each in self.trials
            ],
        }


def improvement(ours: Scores, theirs: Scores) -> float:
    """Chance that a run of ours scores above one of theirs, ties counting half; the mean over problems."""
    pairs = zip(ours, theirs, strict=True)
    return float(np.mean([probability_of_improvement(mine, other, seed=0).mean for mine, other in pairs]))


def _lists(scores: Scores) -> list[list[float]]:
    return [[float(score) for score in each] for each in scores]


def _estimate(found: Estimate | None) -> dict[str, float | None] | None:
    if found is None:
        return None
    return {name: _finite(getattr(found, name)) for name in ("mean", "low", "high")}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
