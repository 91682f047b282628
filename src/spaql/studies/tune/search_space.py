"""The search space of a tuning: a study file with one algorithm, ranges of its parameters, and a budget of trials.

Problems, sizes and the algorithm are those of `spaql.studies.sweep.study_file`, without seeds, grid, list and draws;
`random` has the ranges of the search, and the optional table ``[tune]`` its budget.

Agent k of a trial has the seed that a sweep would give it: a hash of the study's seed, of the problem, of the algorithm
with all parameters, and of k.  So trials share no random numbers, as Welch's interval assumes, and no trial can win by
suiting common seeds.  With ``seeding = "{problem}"`` trials share their seeds; intervals are then usually too wide.
The evaluation seeds are derived from another study seed in the same way.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spaql.agents import resolve
from spaql.errors import SpaqlError, StudyError
from spaql.runner.run_spec import seed_at
from spaql.studies.study import Group
from spaql.studies.sweep.groups import Sweep
from spaql.studies.sweep.study_file import AlgorithmTable, Range, TuneTable


@dataclass(frozen=True, eq=False)
class SearchSpace:
    """Parameters to tune, and how much to try."""

    study: Sweep
    algorithm: AlgorithmTable  # its `random` are the ranges of the search
    plan: TuneTable
    problems: tuple[str, ...]  # labels

    @classmethod
    def load(cls, study: Sweep | Mapping[str, Any] | str | os.PathLike[str], trials: int | None = None) -> SearchSpace:
        """Make the search space of a study, of its contents or of its file; `trials` replaces that of the study."""
        sweep = Sweep.load(study)
        try:
            if trials is not None:
                tune = {**sweep.data.get("tune", {}), "trials": trials}
                sweep = Sweep.from_dict({**sweep.data, "tune": tune}, sweep.name, check=False)
            return cls._check(sweep)
        except SpaqlError as error:
            if isinstance(study, str | os.PathLike):
                raise StudyError(f"study file {os.fspath(study)!r}: {error}") from error
            raise

    @classmethod
    def _check(cls, study: Sweep) -> SearchSpace:
        file = study.file
        algorithm = file.algorithms[0]
        if len(file.algorithms) > 1:
            raise StudyError("algorithms: a tuning has one algorithm; remove the others, and tune them separately")
        for key, value in (("grid", algorithm.grid), ("list", algorithm.variants != [{}]), ("draws", algorithm.draws)):
            if value:
                raise StudyError(f"algorithms[1].{key}: not for tuning; give ranges of parameters in random")
        if not algorithm.random:
            raise StudyError("algorithms[1]: no parameter to tune; give ranges of parameters in random")
        for place, table in (
            ("study", file),
            *((f"problems[{at}]", table) for at, table in enumerate(file.problems, 1)),
        ):
            if table.seeds is not None:
                raise StudyError(f"{place}: seeds is not for tuning; set seeds and evaluation_seeds in [tune]")
        for name, span in algorithm.random.items():
            labels = [format_choice(choice) for choice in span.choices or ()]
            if len(set(labels)) < len(labels):
                raise StudyError(f"algorithms[1].random.{name}: two choices look the same")
        space = cls(study, algorithm, file.tune, tuple(group.problem for group in study.groups))
        for values in _corners(algorithm.random):
            space.groups(values)  # raises where a range exceeds the allowed values
        return space

    @property
    def defaults(self) -> dict[str, Any] | None:
        """Return the default values of the tuned parameters; None where one lies outside its range."""
        parameters = resolve(self.algorithm.algorithm).parameters
        defaults = {name: parameters[name].default for name in self.algorithm.random}
        inside = all(_contains(span, defaults[name]) for name, span in self.algorithm.random.items())
        return defaults if inside else None

    def groups(self, values: Mapping[str, Any]) -> list[Group]:
        """Return one group per problem with all seeds of a trial; without values that of the defaults."""
        return self._groups(values, {"seeds": self.plan.seeds})

    def evaluation_groups(self, values: Mapping[str, Any]) -> list[Group]:
        """Return one group per problem that evaluates parameters on seeds and episodes that no trial uses."""
        data = self.study.data
        changes: dict[str, Any] = {"seeds": self.plan.evaluation_seeds, "seed": seed_at(self.study.file.seed, "fresh")}
        if self.plan.evaluation_episodes is not None:
            changes["episodes"] = self.plan.evaluation_episodes
            changes["problems"] = [
                {key: value for key, value in table.items() if key != "episodes"} for table in data["problems"]
            ]
        return self._groups(values, changes)

    def _groups(self, values: Mapping[str, Any], changes: Mapping[str, Any]) -> list[Group]:
        table = {key: value for key, value in self.study.data["algorithms"][0].items() if key != "random"}
        table["parameters"] = {**self.algorithm.parameters, **values}
        data = {key: value for key, value in self.study.data.items() if key not in ("tune", "baseline")}
        return list(Sweep.from_dict({**data, **changes, "algorithms": [table]}).groups)

    @property
    def key(self) -> str:
        """Return a hash of everything that decides which trials there are and how they race, but their number."""
        plan = [getattr(self.plan, name) for name in ("seeds", "first_seeds", "batch", "confidence", "metric")]
        data = {name: value for name, value in self.study.data.items() if name not in ("name", "tune")}
        return hashlib.sha256(json.dumps([data, plan], sort_keys=True, default=str).encode()).hexdigest()[:16]


def format_choice(choice: Any) -> str:
    """Return a choice as text, for Optuna, tables and charts."""
    return choice if isinstance(choice, str) else json.dumps(choice, default=str)


def _contains(span: Range, value: Any) -> bool:
    if span.choices is not None:
        return value is not inspect.Parameter.empty and format_choice(value) in map(format_choice, span.choices)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return span.ends[0] <= value <= span.ends[1] and (not span.whole or value == int(value))


def _corners(ranges: Mapping[str, Range]) -> list[dict[str, Any]]:
    """Return the lowest values together, the highest together, and every choice."""
    ends = {name: span.choices or list(span.ends) for name, span in ranges.items()}
    most = max(map(len, ends.values()))
    return [{name: some[min(at, len(some) - 1)] for name, some in ends.items()} for at in range(most)]
