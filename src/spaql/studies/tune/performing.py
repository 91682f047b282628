"""Tune: batches of trials race on any engine, and the winner is scored on fresh seeds; stopped, it can go on.

Nothing is remembered but finished runs, in the store, and the trials, in Optuna's file.  A call goes through the whole
tuning from its first trial: what has been done is there already, and since every decision is a function of the runs'
numbers, it comes to the same decisions, on any engine and after any interruption.

Batch 0 is the default parameters with all their seeds, so that all is compared with not tuning, and the first trials
race against something.  Then come batches of `batch` trials.  All runs of a stage of a batch go to the engine
together.  After each batch, and at the end, the files of the outcome are written.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from spaql.atomic_io import check_folder
from spaql.errors import SpaqlError, StudyError
from spaql.runner import engines
from spaql.runner.engines.lasting import Lasting
from spaql.runner.run_spec import Run
from spaql.studies.legacy import Study, opened
from spaql.studies.sweep.description import Description
from spaql.studies.sweep.performing import check_problems
from spaql.studies.tune import page, racing
from spaql.studies.tune.asking import Asker
from spaql.studies.tune.asking import check as check_optuna
from spaql.studies.tune.outcome import COMPLETE, FAILED, STOPPED, Outcome, Trial
from spaql.studies.tune.racing import Floats, Measure
from spaql.studies.tune.search import Search


def tune(
    study: Description | Mapping[str, Any] | str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    trials: int | None = None,
    engine: str | None = None,
    workers: int | None = None,
    address: str | None = None,
    run_timeout: float | None = None,
    retry_failed: bool = False,
    progress_bar: bool | None = None,
) -> Outcome:
    """Find good parameters of an algorithm, or go on with that.

    Parameters
    ----------
    study
        A description, what one is made from, or the path of a study file; see `spaql.studies.tune.search`.
    folder
        Where runs and files are kept; made where it is missing.
    trials
        To try beside the defaults; None for as many as the study says.
    engine, workers, address, run_timeout, retry_failed, progress_bar
        As `spaql.sweep` takes them; the outcome does not depend on them.

    Returns
    -------
    Outcome
        `parameters` is what to give the algorithm, `words()` says what came out.
    """
    check_optuna()
    search = Search.of(study, trials)
    first = [runs[0] for runs in search.runs({})]
    lasting = Lasting(engines.engine(engine, first, workers=workers, timeout=run_timeout, address=address))
    if lasting.name != "dask":  # whose workers may have what is not here
        check_problems(first)
    path = check_folder(folder)
    with (
        opened(path, engine=lambda runs: lasting, progress_bar=progress_bar) as performed,
        Asker(search, path) as asker,
    ):
        try:
            performed.prepare(first)
            return _Tuning(search, performed, asker, path, retry_failed).outcome()
        finally:
            lasting.close()


class _Tuning:
    """One call of `tune` on its way."""

    def __init__(self, search: Search, study: Study, asker: Asker, folder: Path, retry_failed: bool) -> None:
        self.search, self.study, self.asker, self.folder = search, study, asker, folder
        self.retry_failed = retry_failed
        self.trials: list[Trial] = []
        default = [run for runs in search.runs({}) for run in runs]
        fresh = [run for runs in search.fresh_runs({}) for run in runs]
        self.trial_cost, self.fresh_cost = sum(run.cost for run in default), sum(run.cost for run in fresh)
        self.saved_cost = 0

    def outcome(self) -> Outcome:
        plan, known = self.search.plan, self.asker.known()
        self.expect()
        self.trials.append(self.default())
        for batch, first in enumerate(range(1, plan.trials + 1, plan.batch), 1):
            numbers = range(first, min(first + plan.batch, plan.trials + 1))
            if all(number in known for number in numbers):
                asked = [known[number] for number in numbers]
            else:
                before = Outcome(self.search, self.trials)
                asked = self.asker.ask(batch, len(numbers), before.trials, before.values)
            stored = len(self.study.store)
            self.trials += self.race(batch, dict(zip(numbers, asked, strict=True)))
            if len(self.study.store) > stored:  # else it has been told before, or will be at the end
                self.write(self.now())
        outcome = self.scored(self.now())
        self.write(outcome, last=True)
        return outcome

    # Trials ----------------------------------------------------------------------------------------------------

    def default(self) -> Trial:
        """The first trial, which has all its seeds."""
        runs = self.search.runs({})
        self.perform([run for each in runs for run in each])
        scores, trouble = self.scores(runs)
        if scores is None and len(runs) > 1:
            raise StudyError(
                f"tune: the default parameters failed ({trouble}), and trials on several problems are measured by "
                "them; mend that, or give other values in parameters"
            )
        return Trial(0, {}, FAILED if scores is None else COMPLETE, scores or (), trouble)

    def race(self, batch: int, asked: Mapping[int, Mapping[str, Any]]) -> list[Trial]:
        """A batch of trials, stage by stage."""
        plan = self.search.plan
        measure = Measure.by(self.trials[0].scores or None, len(self.search.problems))
        first = 0 if self.search.defaults is not None else 1  # defaults outside the ranges do not take part
        finished = {each.number: each.scores for each in self.trials[first:] if each.state == COMPLETE}
        stages = racing.stages(plan.first_seeds, plan.seeds)
        chance = racing.level(plan.confidence, len(stages) - 1, batch * plan.batch)
        over: dict[int, Trial] = {}
        runs: dict[int, list[list[Run]]] = {}
        for number, values in asked.items():
            try:
                runs[number] = self.search.runs(values)
            except SpaqlError as error:  # values that do not go together
                over[number] = Trial(number, values, FAILED, (), str(error))
        done = 0
        for seeds in stages:
            self.perform([run for each in runs.values() for many in each for run in many[done:seeds]])
            done = seeds
            alive = {}
            for number, each in runs.items():
                scores, trouble = self.scores([many[:seeds] for many in each])
                if scores is None:
                    over[number] = Trial(number, asked[number], FAILED, (), trouble)
                else:
                    alive[number] = scores
            if seeds == plan.seeds:
                over |= {number: Trial(number, asked[number], COMPLETE, scores) for number, scores in alive.items()}
            else:
                for number, best in racing.behind(alive, finished, measure, chance).items():
                    note = f"behind {f'trial {best}' if best else 'the defaults'} after {seeds} seeds"
                    over[number] = Trial(number, asked[number], STOPPED, alive[number], note)
            for number in [number for number in runs if number in over]:
                self.saved_cost += sum(run.cost for many in runs.pop(number) for run in many[seeds:])
            self.expect()
        return [over[number] for number in asked]

    def scored(self, outcome: Outcome) -> Outcome:
        """The outcome with scores of the winner and of the defaults on fresh seeds."""
        if outcome.winner is None:
            return outcome
        if not outcome.winner.number:  # then both are the same runs
            self.saved_cost += self.fresh_cost
            self.expect()
        runs = {"winner": self.search.fresh_runs(outcome.winner.values), "default": self.search.fresh_runs({})}
        self.perform([run for each in runs.values() for many in each for run in many])
        found: dict[str, Sequence[Floats]] = {}
        for name, each in runs.items():
            scores, trouble = self.scores(each)
            if scores is None:
                return self.now(trouble=f"The {name} failed on a fresh seed, so it has no score there: {trouble}.")
            found[name] = scores
        return self.now(fresh=found)

    # Runs ------------------------------------------------------------------------------------------------------

    def expect(self) -> None:
        """Say how much there is to do at most."""
        trials = (self.search.plan.trials + 1) * self.trial_cost
        self.study.expect(trials + 2 * self.fresh_cost - self.saved_cost)

    def perform(self, runs: list[Run]) -> None:
        """Do runs, the longest first."""
        unique = {run.id: run for run in runs}.values()
        self.study.attempt(sorted(unique, key=lambda run: -run.cost), retry_failed=self.retry_failed)

    def scores(self, runs: Sequence[Sequence[Run]]) -> tuple[tuple[Floats, ...] | None, str]:
        """Scores by problem; None, and what happened, where a run failed."""
        found = self.study.store.scalars(run.id for many in runs for run in many)
        metric = self.search.plan.metric
        for many in runs:
            for run in many:
                if run.id not in found:
                    _, failure = self.study.store.failures()[run.id]
                    return None, f"{run}: {failure.message}"
                if found[run.id].get(metric) is None:
                    return None, f"{run}: it has no {metric!r} score, perhaps because its budget is too small"
        return tuple(np.array([found[run.id][metric] for run in many]) for many in runs), ""

    # What is known ---------------------------------------------------------------------------------------------

    def now(self, **more: Any) -> Outcome:
        """The outcome so far."""
        plain = Outcome(self.search, tuple(self.trials))
        shares, note = self.asker.importance(plain.trials, plain.values)
        return Outcome(self.search, plain.trials, importance=shares, importance_note=note, **more)

    def write(self, outcome: Outcome, *, last: bool = False) -> None:
        """The files of the outcome; figures take a while and come at the end."""
        self.asker.write(outcome.trials, outcome.values, last=last)
        self.study.write(page.files(outcome, figures=last), page.FILES)
