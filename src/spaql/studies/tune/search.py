"""What is to be tuned: a study file with one algorithm, ranges of some of its parameters, and how much to try.

Problems, sizes and the algorithm are said as for a sweep (`spaql.studies.sweep.description`); what differs::

    iterations = 500                  # or steps; and episodes, as for a sweep; no seeds
    episodes = 200

    [[problems]]
    problem = "oil"

    [[algorithms]]                    # one; without grid, list and draws
    algorithm = "spaql"
    parameters = { rollouts = 10 }    # stay as they are
    random = { scaling = { low = 0.01, high = 4.0, log = true } }

    [tune]                            # may be left out, and so may each of
    trials = 40                       # parameters to try beside the defaults
    seeds = 16                        # most agents of each trial on each problem
    first_seeds = 4                   # so many at first; then twice as many, and so on
    batch = 4                         # trials that race together
    fresh_seeds = 32                  # agents that score the winner and the defaults at the end
    fresh_episodes = 200              # of each of these; as many as in tuning unless given
    confidence = 0.95                 # of intervals, and that the race does not stop the best of all
    metric = "evaluation"             # what is to be large; "training_score" is what the agent thinks of itself

Seeds.  Agent k of a trial has the seed that a sweep would give it: a hash of the study's seed, of the problem, of the
algorithm with all its parameters, and of k.  So no two trials share random numbers, as Welch's interval assumes, and no
trial can win by suiting seeds that all of them share.  Common seeds would make comparisons sharper only where runs of
one seed rise and fall together, which agents that learn rarely do, for the first different action parts them.  Who
wants them writes ``seeding = "{problem}"``; intervals are then too wide rather than too narrow, as a rule.  The fresh
seeds come from another study seed, in the same way.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from spaql.agents import resolve
from spaql.errors import SpaqlError, StudyError
from spaql.runner.run_spec import Run, seed_at
from spaql.studies.sweep.description import Algorithm, Description, Range
from spaql.studies.sweep.performing import as_description

METRICS = ("evaluation", "training_score")
_BOUNDS = {
    "trials": (1, 100_000),
    "seeds": (2, 100_000),
    "first_seeds": (2, 100_000),
    "batch": (1, 10_000),
    "fresh_seeds": (2, 100_000),
    "fresh_episodes": (2, 10**8),
}


@dataclass(frozen=True)
class Plan:
    """How much to try; what `[tune]` says."""

    trials: int = 40
    seeds: int = 16
    first_seeds: int = 4
    batch: int = 4
    fresh_seeds: int = 32
    fresh_episodes: int | None = None
    confidence: float = 0.95
    metric: str = "evaluation"

    @classmethod
    def of(cls, told: Any) -> Plan:
        """What the table says, checked."""
        if not isinstance(told, Mapping):
            raise StudyError(f"tune: expected a table such as [tune], got {told!r:.80}")
        known = [each.name for each in fields(cls)]
        for name, value in told.items():
            if name not in known:
                raise StudyError(f"tune: {name!r} is not known; there are {', '.join(known)}")
            if name in _BOUNDS:
                low, high = _BOUNDS[name]
                if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                    raise StudyError(
                        f"tune.{name}: expected a whole number from {low:,} to {high:,}, got {value!r:.80}"
                    )
        confidence, metric = told.get("confidence", 0.95), told.get("metric", "evaluation")
        if isinstance(confidence, bool) or not isinstance(confidence, int | float) or not 0.5 <= confidence < 1:
            raise StudyError(f"tune.confidence: expected a number from 0.5 to below 1, got {confidence!r:.80}")
        if metric not in METRICS:
            raise StudyError(f"tune.metric: {metric!r:.80} is not one of {', '.join(METRICS)}")
        plan = cls(**told)
        if "first_seeds" in told and plan.first_seeds > plan.seeds:
            raise StudyError(f"tune.first_seeds: {plan.first_seeds} are more than all {plan.seeds} seeds of a trial")
        return plan


@dataclass(frozen=True, eq=False)
class Search:
    """Parameters to find.

    Attributes
    ----------
    description
        The study.
    algorithm
        Its one algorithm; `ranges` are what is searched.
    plan
        How much to try.
    problems
        Labels.
    """

    description: Description
    algorithm: Algorithm
    plan: Plan
    problems: tuple[str, ...]

    @classmethod
    def of(cls, study: Description | Mapping[str, Any] | str | os.PathLike[str], trials: int | None = None) -> Search:
        """What a study, or its file, asks for; `trials` is heard instead of what it says."""
        described = as_description(study)
        try:
            return cls._checked(described, trials)
        except SpaqlError as error:
            if isinstance(study, str | os.PathLike):
                raise StudyError(f"study file {os.fspath(study)!r}: {error}") from None
            raise

    @classmethod
    def _checked(cls, described: Description, trials: int | None) -> Search:
        told = described.told
        algorithm = described.algorithms[0]
        if len(described.algorithms) > 1:
            raise StudyError("algorithms: one is tuned at a time; leave one [[algorithms]], and tune each in its turn")
        for key in ("grid", "list", "draws"):
            if key in told["algorithms"][0]:
                raise StudyError(f"algorithms[1].{key}: tuning looks for values itself; say ranges, in random")
        if not algorithm.ranges:
            raise StudyError("algorithms[1]: there is nothing to tune; say ranges of its parameters, in random")
        for where, entry in (("study", told), *((f"problems[{i}]", e) for i, e in enumerate(told["problems"], 1))):
            if "seeds" in entry:
                raise StudyError(f"{where}: seeds of a tuning are said in [tune], as seeds and fresh_seeds")
        for name, span in algorithm.ranges.items():
            shown = [label(choice) for choice in span.choices]
            if len(set(shown)) < len(shown):
                raise StudyError(f"algorithms[1].random.{name}: two of its choices look the same")
        asked = told.get("tune", {})
        plan = Plan.of({**asked, "trials": trials} if trials is not None and isinstance(asked, Mapping) else asked)
        search = cls(described, algorithm, plan, tuple(group.problem for group in described.groups))
        for values in _corners(algorithm.ranges):
            search.runs(values)  # a range that leaves what is allowed is told before anything is run
        return search

    @property
    def defaults(self) -> dict[str, Any] | None:
        """What the tuned parameters are where nobody tunes them; None where that lies outside their ranges."""
        signature = resolve(self.algorithm.algorithm).parameters
        found = {name: signature[name].default for name in self.algorithm.ranges}
        return found if all(_within(found[name], span) for name, span in self.algorithm.ranges.items()) else None

    def runs(self, values: Mapping[str, Any]) -> list[list[Run]]:
        """Runs of a trial by problem, one for each of its seeds; without values those of the defaults."""
        return self._runs(values, {"seeds": self.plan.seeds})

    def fresh_runs(self, values: Mapping[str, Any]) -> list[list[Run]]:
        """Runs that score parameters on seeds and episodes that no trial has met."""
        told = self.description.told
        changed: dict[str, Any] = {"seeds": self.plan.fresh_seeds, "seed": seed_at(told.get("seed", 0), "fresh")}
        if self.plan.fresh_episodes is not None:
            changed["episodes"] = self.plan.fresh_episodes
            changed["problems"] = [
                {key: value for key, value in entry.items() if key != "episodes"} for entry in told["problems"]
            ]
        return self._runs(values, changed)

    def _runs(self, values: Mapping[str, Any], changed: Mapping[str, Any]) -> list[list[Run]]:
        entry = self.description.told["algorithms"][0]
        parameters = {**self.algorithm.parameters, **values}
        one = {**{key: value for key, value in entry.items() if key != "random"}, "parameters": parameters}
        told = {key: value for key, value in self.description.told.items() if key not in ("tune", "baseline")}
        return [list(group.runs) for group in Description.of({**told, **changed, "algorithms": [one]}).groups]

    @property
    def key(self) -> str:
        """Hash of all that decides which trials there are and how they race; more trials do not change it."""
        plan = {name: getattr(self.plan, name) for name in ("seeds", "first_seeds", "batch", "confidence", "metric")}
        told = {name: value for name, value in self.description.told.items() if name not in ("name", "tune")}
        text = json.dumps([told, plan], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def label(choice: Any) -> str:
    """A choice as text: how Optuna, tables and charts call it."""
    return choice if isinstance(choice, str) else json.dumps(choice, default=str)


def _within(value: Any, span: Range) -> bool:
    if span.choices:
        return label(value) in [label(choice) for choice in span.choices]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return span.low <= value <= span.high and (not span.whole or value == int(value))


def _corners(ranges: Mapping[str, Range]) -> list[dict[str, Any]]:
    """The lowest values together, the highest together, and every choice."""

    def ends(span: Range) -> list[Any]:
        if span.choices:
            return list(span.choices)
        return [int(end) if span.whole else end for end in (span.low, span.high)]

    found = {name: ends(span) for name, span in ranges.items()}
    most = max(len(each) for each in found.values())
    return [{name: each[min(at, len(each) - 1)] for name, each in found.items()} for at in range(most)]
