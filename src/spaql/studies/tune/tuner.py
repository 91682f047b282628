"""Tune: batches of trials race on any engine, and the winner is evaluated on other seeds.

Only finished runs, in the store, and trials, in Optuna's file, are remembered.  A call goes through the whole tuning
from its first trial.  What is finished is there already, and since every decision is a function of the runs' numbers,
it takes the same decisions on any engine and after any interruption.

Trial 0 is the default parameters with all seeds.  Then follow batches of `batch` trials.  All runs of a stage of a
batch are performed together.  After each batch, and at the end, the report is written.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from spaql.atomic_io import FIGURES, Content
from spaql.errors import SpaqlError, StudyError
from spaql.studies.study import Group, Report, Results, Stage, Study, run_study
from spaql.studies.sweep.execution import choose_engine
from spaql.studies.sweep.groups import Sweep
from spaql.studies.tune import racing, tuning_report
from spaql.studies.tune.optuna_study import OptunaStudy, check_optuna
from spaql.studies.tune.racing import Floats
from spaql.studies.tune.search_space import SearchSpace
from spaql.studies.tune.trials import COMPLETE, FAILED, STOPPED, Trial, TuningResult


def tune(
    study: Sweep | Mapping[str, Any] | str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    trials: int | None = None,
    retry_failed: bool = False,
    progress_bar: bool | None = None,
    **engine: Any,
) -> TuningResult:
    """Search for good parameters of an algorithm, or resume that.

    Parameters
    ----------
    study
        A study, the contents of a study file, or its path; see `spaql.studies.tune.search_space`.
    folder
        Where runs and files are stored; created if it is missing.
    trials
        Number of trials besides the defaults; None for that of the study.
    retry_failed, progress_bar
        As for `spaql.sweep`.
    **engine
        Where to run: engine, workers, address and run_timeout of `spaql.sweep`; the result does not depend on them.

    Returns
    -------
    TuningResult
        `parameters` are those of the winner, `summary()` describes the result in sentences.
    """
    check_optuna()
    space = SearchSpace.load(study, trials)
    runs = [group.run for group in space.groups({})]
    tuning = Tuning(space, Path(folder))
    run_study(
        tuning, folder, engine=choose_engine(runs, **engine), retry_failed=retry_failed, progress_bar=progress_bar
    )
    return tuning.result


class Tuning(Study):
    """A tuning as a study: its stages are those of the race, batch by batch."""

    keep_failures = True
    known_files = (
        *(f"{tuning_report.NAME}.{kind}" for kind in ("md", "json")),
        tuning_report.BEST,
        "report.html",
        *(f"{FIGURES}/{name}.{kind}" for name in tuning_report.FIGURES for kind in ("png", "svg")),
    )

    def __init__(self, space: SearchSpace, folder: Path) -> None:
        self.space, self.folder = space, folder
        self.trials: list[Trial] = []
        self.files: Mapping[str, Content] = {}  # to be written before the next stage
        self.evaluation_cost = _cost(space.evaluation_groups({}))
        self.cost_left = (space.plan.trials + 1) * _cost(space.groups({})) + 2 * self.evaluation_cost

    def stages(self, results: Results) -> Iterator[Stage]:
        """Yield the defaults, the stages of each batch, and the evaluation of the winner."""
        plan = self.space.plan
        with OptunaStudy(self.space, self.folder) as optuna:
            known = optuna.read_trials()
            defaults = self.space.groups({})
            yield self._stage(defaults)
            self.trials.append(self._make_default_trial(defaults, results))
            for batch, first in enumerate(range(1, plan.trials + 1, plan.batch), 1):
                numbers = range(first, min(first + plan.batch, plan.trials + 1))
                if all(number in known for number in numbers):
                    values = [known[number] for number in numbers]
                else:
                    now = TuningResult(self.space, self.trials)
                    values = optuna.suggest(batch, len(numbers), now.trials, now.values)
                stored = len(results)
                self.trials += yield from self._race(batch, dict(zip(numbers, values, strict=True)), results)
                if len(results) > stored:  # otherwise it was written before, or will be at the end
                    self._save(optuna)
            evaluations, error = yield from self._evaluate(results)
            self._save(optuna, evaluations=evaluations, error=error)

    def report(self, results: Results) -> Report:
        """Report the result."""
        return tuning_report.make_report(self.result)

    def _save(self, optuna: OptunaStudy, **evaluation: Any) -> None:
        """Keep the result so far; it is the last one with an evaluation."""
        plain = TuningResult(self.space, tuple(self.trials))
        shares, note = optuna.rank_parameters(plain.trials, plain.values)
        self.result = replace(plain, importance=shares, importance_note=note, **evaluation)
        optuna.write_trials(plain.trials, plain.values, last=bool(evaluation))
        if not evaluation:
            self.files = tuning_report.make_report(self.result).contents(figures=False)

    def _stage(self, groups: Sequence[Group]) -> Stage:
        self.cost_left -= _cost(groups)
        files, self.files = self.files, {}
        return Stage(groups, self.cost_left, files)

    def _make_default_trial(self, groups: Sequence[Group], results: Results) -> Trial:
        scores, error = self._read_scores(groups, results)
        if scores is None and len(groups) > 1:
            raise StudyError(
                f"tune: the default parameters failed ({error}), and trials on several problems are scaled by them; "
                "fix that, or set other values in parameters"
            )
        return Trial(0, {}, FAILED if scores is None else COMPLETE, scores or (), error)

    def _race(
        self, batch: int, values: Mapping[int, Mapping[str, Any]], results: Results
    ) -> Generator[Stage, None, list[Trial]]:
        """Race a batch of trials, stage by stage."""
        plan = self.space.plan
        objective = TuningResult(self.space, self.trials).objective
        first = 0 if self.space.defaults is not None else 1  # defaults outside the ranges do not take part
        finished = {trial.number: trial.scores for trial in self.trials[first:] if trial.state == COMPLETE}
        sizes = racing.stage_sizes(plan.first_seeds, plan.seeds)
        level = racing.look_level(plan.confidence, len(sizes) - 1, batch * plan.batch)
        over: dict[int, Trial] = {}
        groups: dict[int, list[Group]] = {}
        for number in values:
            try:
                groups[number] = self.space.groups(values[number])
            except SpaqlError as error:  # values that contradict each other
                over[number] = Trial(number, values[number], FAILED, (), str(error))
        done = 0
        for seeds in sizes:
            yield self._stage(
                [replace(group, seeds=group.seeds[done:seeds]) for trial in groups.values() for group in trial]
            )
            done = seeds
            scores: dict[int, tuple[Floats, ...]] = {}
            for number, trial in groups.items():
                read, note = self._read_scores([group.first(seeds) for group in trial], results)
                if read is None:
                    over[number] = Trial(number, values[number], FAILED, (), note)
                else:
                    scores[number] = read
            if seeds == plan.seeds:
                over |= {number: Trial(number, values[number], COMPLETE, scores[number]) for number in scores}
            else:
                for number, best in racing.find_behind(scores, finished, objective, level).items():
                    note = f"behind {f'trial {best}' if best else 'the defaults'} after {seeds} seeds"
                    over[number] = Trial(number, values[number], STOPPED, scores[number], note)
            for number in [number for number in groups if number in over]:
                self.cost_left -= sum(group.run.cost * (plan.seeds - seeds) for group in groups.pop(number))
        return [over[number] for number in values]

    def _evaluate(self, results: Results) -> Generator[Stage, None, tuple[Mapping[str, Sequence[Floats]], str]]:
        """Evaluate the winner and the defaults on other seeds; return their scores, or what failed."""
        winner = TuningResult(self.space, self.trials).winner
        if winner is None:
            return {}, ""
        if not winner.number:  # both are the same runs
            self.cost_left -= self.evaluation_cost
        groups = {"winner": self.space.evaluation_groups(winner.values), "default": self.space.evaluation_groups({})}
        yield self._stage([group for some in groups.values() for group in some])
        evaluations = {}
        for name, some in groups.items():
            scores, error = self._read_scores(some, results)
            if scores is None:
                return {}, f"The {name} failed on an evaluation seed, so it has no evaluation: {error}."
            evaluations[name] = scores
        return evaluations, ""

    def _read_scores(self, groups: Sequence[Group], results: Results) -> tuple[tuple[Floats, ...] | None, str]:
        """Return the scores by problem; None, and why, where a run has none."""
        metric = self.space.plan.metric
        scores = tuple(results.values(group, metric) for group in groups)
        for group, values in zip(groups, scores, strict=True):
            for seed in np.array(group.seeds, object)[np.isnan(values)]:
                failure = results.failure(group)
                if failure is not None:
                    return None, f"{failure[0]}: {failure[1].message}"
                return None, f"{group.run.with_seed(seed)}: no {metric}, perhaps because its budget is too small"
        return scores, ""


def _cost(groups: Sequence[Group]) -> int:
    return sum(group.cost for group in groups)
