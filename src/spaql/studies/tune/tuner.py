"""Tune: batches of trials race on any engine, and the winner is evaluated on other seeds.

Trial 0 is the default parameters with all seeds; then follow batches of trials.  A call goes through the whole tuning
from its first trial.  Finished runs are in the store, and since every decision is a function of their numbers, it is
the same on any engine and after any interruption.

An agent of a trial has the seed that a sweep would give it, a hash that includes all parameters.  So trials share no
random numbers, as Welch's interval assumes.  The evaluation seeds are derived from another study seed in the same way.
"""

import hashlib
import json
import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from spaql.agents import resolve
from spaql.atomic_io import FIGURES
from spaql.errors import SpaqlError, StudyError
from spaql.runner.run_spec import seed_at
from spaql.studies.study import Group, Report, Results, Stage
from spaql.studies.sweep.study_file import format_choice
from spaql.studies.sweep.sweep_study import Sweep, perform
from spaql.studies.tune import racing, tuning_result
from spaql.studies.tune.optuna_study import OptunaStudy, load_optuna
from spaql.studies.tune.racing import Scores
from spaql.studies.tune.tuning_result import COMPLETE, FAILED, STOPPED, Trial, TuningResult, make_report


def tune(
    study: Mapping[str, Any] | str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    trials: int | None = None,
    **options: Any,
) -> TuningResult:
    """Search for good parameters of an algorithm, or resume that.

    Parameters
    ----------
    study
        The contents of a study file, or its path.
    folder
        Where runs and files are stored; created if it is missing.
    trials
        Number of trials besides the defaults; None for that of the study.
    **options
        engine, workers, address, run_timeout, retry_failed and progress_bar, as for `spaql.sweep`; the result does not
        depend on the engine.

    Returns
    -------
    TuningResult
        `parameters` are those of the winner, `summary()` describes the result in sentences.

    Raises
    ------
    StudyError
        Where the study file is invalid.

    Examples
    --------
    >>> import tempfile, spaql
    >>> study = {
    ...     "iterations": 20, "episodes": 10,
    ...     "problems": [{"problem": "oil"}],
    ...     "algorithms": [{"algorithm": "aql", "random": {"scaling": {"low": 0.1, "high": 1.0}}}],
    ...     "tune": {"trials": 2, "seeds": 2, "first_seeds": 2, "evaluation_seeds": 2},
    ... }
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = spaql.tune(study, folder)
    >>> result.complete, len(result.trials)
    (True, 3)
    """
    with load_optuna():  # before anything is written
        tuning = Tuning.load(study)
    if trials is not None:
        tuning = Tuning({**tuning.data, "tune": {**tuning.data.get("tune", {}), "trials": trials}}, tuning.name)
    perform(tuning, folder, **options)
    return tuning.result


class Tuning(Sweep):
    """A tuning as a study: its stages are those of the race, batch by batch."""

    known_files = (
        *tuning_result.FILES,
        *(f"{FIGURES}/{name}.{kind}" for name in tuning_result.FIGURES for kind in ("png", "svg")),
    )

    def __init__(self, data: Mapping[str, Any], name: str = "study") -> None:
        super().__init__(data, name)
        table = self.file.algorithms[0]
        self.plan, self.ranges, self.fixed = self.file.tune, table.random, table.parameters
        self.algorithm, self.problems = self.groups[0].run.algorithm, [group.problem for group in self.groups]
        self._check()
        self.result = TuningResult(self, ())

    def _check(self) -> None:
        table = self.file.algorithms[0]
        if len(self.file.algorithms) > 1:
            raise StudyError("algorithms: a tuning has one algorithm; remove the others, and tune them separately")
        for key, value in (("grid", table.grid), ("list", table.variants != [{}]), ("draws", table.draws)):
            if value:
                raise StudyError(f"algorithms[1].{key}: not for tuning; give ranges of parameters in random")
        if not self.ranges:
            raise StudyError("algorithms[1]: no parameter to tune; give ranges of parameters in random")
        for at, sized in enumerate([self.file, *self.file.problems]):
            if sized.seeds is not None:
                place = f"problems[{at}]" if at else "study"
                raise StudyError(f"{place}: seeds is not for tuning; set seeds and evaluation_seeds in [tune]")
        for name, span in self.ranges.items():
            choices = span.choices or ()
            if len(set(map(format_choice, choices))) < len(choices):
                raise StudyError(f"algorithms[1].random.{name}: two choices look the same")
        # The lowest values together, the highest together, and every choice: raises where a range exceeds the allowed.
        ends = {name: span.choices or list(span.ends) for name, span in self.ranges.items()}
        for at in range(max(map(len, ends.values()))):
            self.trial_groups({name: some[min(at, len(some) - 1)] for name, some in ends.items()})

    @property
    def defaults(self) -> dict[str, Any] | None:
        """Return the default values of the tuned parameters; None where one lies outside its range."""
        parameters = resolve(self.algorithm).parameters
        defaults = {name: parameters[name].default for name in self.ranges}
        return defaults if all(span.contains(defaults[name]) for name, span in self.ranges.items()) else None

    @property
    def key(self) -> str:
        """Return a hash of everything that decides which trials there are and how they race, but their number."""
        plan = [getattr(self.plan, name) for name in ("seeds", "first_seeds", "batch", "confidence", "metric")]
        data = {name: value for name, value in self.data.items() if name not in ("name", "tune")}
        return hashlib.sha256(json.dumps([data, plan], sort_keys=True, default=str).encode()).hexdigest()[:16]

    def trial_groups(self, values: Mapping[str, Any]) -> list[Group]:
        """Return one group per problem with all seeds of a trial; without values that of the defaults."""
        return self._groups(values, {"seeds": self.plan.seeds})

    def evaluation_groups(self, values: Mapping[str, Any]) -> list[Group]:
        """Return one group per problem that evaluates parameters on seeds and episodes that no trial uses."""
        changes: dict[str, Any] = {"seeds": self.plan.evaluation_seeds, "seed": seed_at(self.file.seed, "fresh")}
        if self.plan.evaluation_episodes is not None:
            changes["episodes"] = self.plan.evaluation_episodes
            changes["problems"] = [_without(table, "episodes") for table in self.data["problems"]]
        return self._groups(values, changes)

    def _groups(self, values: Mapping[str, Any], changes: Mapping[str, Any]) -> list[Group]:
        table = {**_without(self.data["algorithms"][0], "random"), "parameters": {**self.fixed, **values}}
        return list(Sweep({**_without(self.data, "tune", "baseline"), **changes, "algorithms": [table]}).groups)

    def stages(self, results: Results) -> Iterator[Stage]:
        """Yield the defaults, the stages of each batch, and the evaluation of the winner."""
        plan = self.plan
        with OptunaStudy(self, results.store.path.parent) as optuna:
            defaults = self.trial_groups({})
            yield Stage(defaults, self._estimate_cost(plan.trials))
            scores, error = self._read_scores(defaults, results)
            if error and len(defaults) > 1:
                raise StudyError(
                    f"tune: the default parameters failed ({error}), and trials on several problems are scaled by "
                    "them; fix that, or set other values in parameters"
                )
            trials = [Trial(0, {}, FAILED if error else COMPLETE, scores, error)]
            for batch, first in enumerate(range(1, plan.trials + 1, plan.batch), 1):
                self.result, stored = TuningResult(self, tuple(trials)), len(results.store)
                numbers = range(first, min(first + plan.batch, plan.trials + 1))
                trials += yield from self._race(batch, optuna.suggest(batch, numbers, self.result), results)
                if len(results.store) > stored:  # otherwise it was written before, or will be at the end
                    self._save(optuna, trials)
                    files = make_report(self.result).contents(figures=False)
                    yield Stage((), self._estimate_cost(plan.trials - numbers[-1]), files)
            self.result = TuningResult(self, tuple(trials))
            evaluations, error = yield from self._evaluate(results)
            self._save(optuna, trials, evaluations=evaluations, error=error)

    def report(self, results: Results) -> Report:
        """Report the result."""
        return make_report(self.result)

    def _save(self, optuna: OptunaStudy, trials: Sequence[Trial], **evaluation: Any) -> None:
        """Keep the result so far; it is the last one with an evaluation."""
        result = TuningResult(self, tuple(trials), **evaluation)
        shares, note = optuna.rank_parameters(result)
        self.result = replace(result, importance=shares, importance_note=note)
        optuna.write_trials(self.result, last=bool(evaluation))

    def _estimate_cost(self, trials: int) -> int:
        """Return about how many steps this number of trials, at most, and the evaluation take."""
        runs = trials * self.plan.seeds + 2 * self.plan.evaluation_seeds
        return runs * sum(group.run.cost for group in self.groups)

    def _race(
        self, batch: int, values: Mapping[int, Mapping[str, Any]], results: Results
    ) -> Generator[Stage, None, list[Trial]]:
        """Race a batch of trials, stage by stage."""
        plan, result = self.plan, self.result
        first = 0 if self.defaults is not None else 1  # defaults outside the ranges do not take part
        finished = {trial.number: trial.scores for trial in result.trials[first:] if trial.state == COMPLETE}
        sizes = racing.stage_sizes(plan.first_seeds, plan.seeds)
        level = racing.look_level(plan.confidence, len(sizes) - 1, batch * plan.batch)
        over: dict[int, Trial] = {}
        groups: dict[int, list[Group]] = {}
        for number in values:
            try:
                groups[number] = self.trial_groups(values[number])
            except SpaqlError as error:  # values that contradict each other
                over[number] = Trial(number, values[number], FAILED, (), str(error))
        for done, seeds in zip((0, *sizes), sizes, strict=False):
            racers = [group for trial in groups.values() for group in trial]
            later = sum(group.run.cost * (plan.seeds - seeds) for group in racers)
            runs = [replace(group, seeds=group.seeds[done:seeds]) for group in racers]
            yield Stage(runs, later + self._estimate_cost(plan.trials - max(values)))
            scores: dict[int, Scores] = {}
            for number, trial in groups.items():
                performed = [replace(group, seeds=group.seeds[:seeds]) for group in trial]
                sample, note = self._read_scores(performed, results)
                if note:
                    over[number] = Trial(number, values[number], FAILED, (), note)
                else:
                    scores[number] = sample
            if seeds == plan.seeds:
                over |= {number: Trial(number, values[number], COMPLETE, scores[number]) for number in scores}
            else:
                for number, best in racing.find_behind(scores, finished, result.objective, level).items():
                    note = f"behind {f'trial {best}' if best else 'the defaults'} after {seeds} seeds"
                    over[number] = Trial(number, values[number], STOPPED, scores[number], note)
            groups = {number: trial for number, trial in groups.items() if number not in over}
        return [over[number] for number in values]

    def _evaluate(self, results: Results) -> Generator[Stage, None, tuple[Mapping[str, Scores], str]]:
        """Evaluate the winner and the defaults on other seeds; return their scores, or what failed."""
        if (winner := self.result.winner) is None:
            return {}, ""
        groups = {"winner": self.evaluation_groups(winner.values), "default": self.evaluation_groups({})}
        rows = [(f"{group.algorithm}: {name}, other seeds", group) for name in groups for group in groups[name]]
        yield Stage([replace(group, algorithm=row) for row, group in rows])  # not pooled with the trials in tables
        evaluations = {}
        for name, some in groups.items():
            evaluations[name], error = self._read_scores(some, results)
            if error:
                return {}, f"The {name} failed on an evaluation seed, so it has no evaluation: {error}."
        return evaluations, ""

    def _read_scores(self, groups: Sequence[Group], results: Results) -> tuple[Scores, str]:
        """Return the scores by problem; none, and why, where a run has none."""
        metric = self.plan.metric
        scores = tuple(results.values(group, metric) for group in groups)
        for group, values in zip(groups, scores, strict=True):
            if np.isnan(values).any():
                failure, seed = results.failure(group), group.seeds[int(np.isnan(values).argmax())]
                if failure is not None:
                    return (), f"{failure[0]}: {failure[1].message}"
                return (), f"{group.run.with_seed(seed)}: no {metric}, perhaps because its budget is too small"
        return scores, ""


def _without(table: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in table.items() if key not in keys}
