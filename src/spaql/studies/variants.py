"""Algorithms compared on problems whose optimum is known, with equal budgets of environment steps.

A `Column` is one problem, or several whose mean counts; a `Variant` is an algorithm with its parameters.  Budgets count
learning and selection together, and no algorithm has more steps than another unless its label says so.  SPAQL and AQL
have a scaling to choose: all scalings of the paper are run, and the one that is best *on the reported agents* counts,
problem by problem and budget by budget.  That favours them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

import numpy as np

from spaql.agents.registry import resolve
from spaql.problems import Problem
from spaql.problems.optimum import optimum
from spaql.problems.random_travel import KINDS, draw, random_travel_optimum, random_travel_share
from spaql.runner.run_spec import Run, problem_of, seeds_at
from spaql.stats import Estimate, combination, mean_interval
from spaql.studies.paper.plan import LONG, SETTINGS, Setting
from spaql.studies.paper.printed import ROLLOUTS, SCALINGS
from spaql.studies.study import Floats, Group, Results

# A seed is a hash of the run's place in its study.  These are the words of that place, older than today's names: other
# words would be other random numbers, and the recorded results would change.
STUDY_WORD = "beyond"
RANDOM_PROBLEM = "random-travel"
SEED_WORDS = {
    "tessera": "spaql",
    "spaql": "spaql-published",
    "tessera-tenfold": "spaql-tenfold",
    RANDOM_PROBLEM: "wild",
}


@dataclass(frozen=True)
class Task:
    """One problem, a budget of environment steps, and the number of agents and evaluation episodes."""

    problem: str
    arguments: Mapping[str, Any]
    horizon: int
    steps: int
    agents: int
    episodes: int

    def shares(self, means: Floats) -> Floats:
        """Mean returns as shares of the optimum."""
        if self.problem == RANDOM_PROBLEM:
            return np.array([random_travel_share(float(mean), **self.arguments) for mean in means])
        return means / self.optimum

    @property
    def optimum(self) -> float:
        """The largest mean return; of random problems without their unit and zero."""
        if self.problem == RANDOM_PROBLEM:
            return random_travel_optimum(family=self.arguments["family"], number=self.arguments["number"])
        return _optimum(problem_of(self.run("random", {}, 0)))

    def run(self, algorithm: str, parameters: Mapping[str, Any], iterations: int) -> Run:
        """A run on this problem."""
        return Run(self.problem, self.arguments, algorithm, parameters, 0, iterations, self.episodes)


@cache
def _optimum(problem: Problem) -> float:
    return optimum(problem).value


@dataclass(frozen=True)
class Column:
    """One problem, or several whose mean counts."""

    name: str
    label: str
    tasks: tuple[Task, ...]
    setting: Setting | None = None  # of the paper


@dataclass(frozen=True, eq=False)
class Variant:
    """An algorithm with its parameters.

    `name` is for JSON, `title` the label in tables unless it is that of the algorithm.  A `tuned` variant has a scaling
    to choose; an `unbounded` one plays as many *episodes* as the others, whatever it spends on selection; a `plain` one
    gets random problems without their unit and zero.
    """

    name: str
    algorithm: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    title: str = ""
    tuned: bool = False
    unbounded: bool = False
    plain: bool = False

    @property
    def label(self) -> str:
        """Its label in tables and charts."""
        return self.title or resolve(self.algorithm).label

    def iterations(self, task: Task, part: float) -> int:
        """How many iterations fit into this part of the task's budget; at least one."""
        steps = int(part * task.steps)
        if self.algorithm == "random":
            return 0
        if self.algorithm == "spaql" and not self.unbounded:
            # Every iteration is an episode and N rollouts; N more come first.
            steps, each = steps - ROLLOUTS * task.horizon, (1 + ROLLOUTS) * task.horizon
            return max(1, steps // each)
        return max(1, steps // task.horizon)


TESSERA = Variant("tessera", "tessera")
SPAQL = Variant("spaql", "spaql", tuned=True, plain=True)
LONGER = Variant("spaql-longer", "spaql", title="SPAQL, all its steps", tuned=True, unbounded=True, plain=True)
AQL = Variant("aql", "aql", {"rollouts": 0}, tuned=True, plain=True)
RANDOM = Variant("random", "random")


@dataclass(frozen=True, eq=False)
class Score:
    """Results of one variant in one column, a list entry for each task; arrays are `[agents]`."""

    shares: list[Floats]
    cell_counts: list[Floats]
    step_counts: list[Floats]
    scalings: list[float | None]
    seeds: str = ""  # agents of two scores with the same seeds are compared in pairs

    @cached_property
    def share(self) -> Estimate:
        """Mean share of the optimum."""
        return mean_interval(_units(self.shares))

    @property
    def has_cells(self) -> bool:
        """Whether the agents have cells; Random has none."""
        return bool(np.isfinite(_units(self.cell_counts)).all())

    @cached_property
    def cells(self) -> Estimate:
        """Mean number of cells."""
        return mean_interval(_units(self.cell_counts))

    @property
    def steps(self) -> float:
        """Mean environment steps, of learning and of selection."""
        return float(np.mean([counts.mean() for counts in self.step_counts]))

    def minus(self, other: Score) -> Estimate:
        """Difference of the shares: paired by problem, on one problem by seed, and Welch's where seeds differ."""
        if len(self.shares) == 1 and self.seeds != other.seeds:
            return combination([self.shares[0], other.shares[0]], [1.0, -1.0])
        return mean_interval(_units(self.shares) - _units(other.shares))

    def standing(self, other: Score) -> int:
        """1 where this is ahead of the other at the 5% level, -1 where it is behind, else 0."""
        return standing(self.minus(other))

    def mark(self, other: Score) -> str:
        """The standing as a sign behind a number, or a blank."""
        return {1: "+", 0: " ", -1: "-"}[self.standing(other)]

    def percent(self, digits: int) -> str:
        """The mean share and half of its interval, in percent."""
        return f"{100 * self.share.mean:.{digits}f} ± {100 * self.share.half_width:.{digits}f}"

    def reached_by(self, agents: float) -> float:
        """The share of the optimum that this fraction of the agents reaches or exceeds."""
        return float(np.quantile(np.concatenate(self.shares), 1.0 - agents))


def interval(name: str, estimate: Estimate | None) -> dict[str, float | None]:
    """An estimate as fields of a record."""
    low, high = (None, None) if estimate is None else estimate.interval
    return {name: None if estimate is None else estimate.mean, f"{name}_low": low, f"{name}_high": high}


def standing(difference: Estimate) -> int:
    """1 where a difference is positive at the 5% level, -1 where it is negative, else 0."""
    return int(difference.low > 0.0) - int(difference.high < 0.0)


def _units(values: Sequence[Floats]) -> Floats:
    """What an interval is over: the agents on one problem, or the means of several problems."""
    return values[0] if len(values) == 1 else np.array([each.mean() for each in values])


@dataclass(frozen=True, eq=False)
class Comparison:
    """Variants in columns, from one study seed.

    Agents of one algorithm have the same seeds with all its parameters, and so differ by those alone; agents of two
    algorithms share no random numbers.
    """

    seed: int
    scalings: tuple[float, ...] = SCALINGS

    def groups(self, variant: Variant, columns: Iterable[Column], part: float = 1.0) -> list[Group]:
        """All groups that score a variant with this part of the budget."""
        return [
            self._group(variant, task, scaling, part)
            for column in columns
            for task in column.tasks
            for scaling in self._scalings(variant)
        ]

    def score(self, results: Results, variant: Variant, column: Column, part: float = 1.0) -> Score:
        """Score a variant, at its best scaling where it has one."""
        score = Score([], [], [], [], variant.algorithm)
        for task in column.tasks:
            candidates = []
            for scaling in self._scalings(variant):
                group = self._group(variant, task, scaling, part)
                candidates.append((_as_given(variant, task).shares(results.values(group)), group, scaling))
            shares, group, scaling = max(candidates, key=lambda candidate: float(candidate[0].mean()))
            steps = results.values(group, "training_steps") + results.values(group, "selection_steps")
            score.shares.append(shares)
            score.cell_counts.append(results.values(group, "cells"))
            score.step_counts.append(steps)
            score.scalings.append(scaling)
        return score

    def _scalings(self, variant: Variant) -> tuple[float | None, ...]:
        return self.scalings if variant.tuned else (None,)

    def _group(self, variant: Variant, task: Task, scaling: float | None, part: float) -> Group:
        parameters = dict(variant.parameters) | ({} if scaling is None else {"scaling": scaling})
        run = _as_given(variant, task).run(variant.algorithm, parameters, variant.iterations(task, part))
        words = [SEED_WORDS.get(name, name) for name in (variant.algorithm, task.problem)]
        seeds = seeds_at(task.agents, self.seed, STUDY_WORD, *words, *task.arguments.values())
        return Group(task.problem, variant.label, run, seeds)


def _as_given(variant: Variant, task: Task) -> Task:
    """The task as it is given to this variant."""
    if not variant.plain or task.problem != RANDOM_PROBLEM:
        return task
    return replace(task, arguments={**task.arguments, "plain": True})


def paper_columns(agents: Callable[[str], int], episodes: int) -> list[Column]:
    """The twelve problems of the paper, with AQL's budget: K * H steps."""
    columns = []
    for setting in SETTINGS:
        if setting.id != LONG:
            steps = setting.iterations * setting.horizon
            count = agents(setting.problem)
            task = Task(setting.problem, setting.arguments, setting.horizon, steps, count, episodes)
            columns.append(Column(setting.id, setting.tick, (task,), setting))
    return columns


def random_columns(family: int, problems: int, steps: int, agents: int, episodes: int) -> list[Column]:
    """Random problems of one family, by kind."""
    columns = []
    for first, kind in enumerate(KINDS):
        tasks = tuple(
            Task(
                RANDOM_PROBLEM,
                {"family": family, "number": number},
                draw(family, number).horizon,
                steps,
                agents,
                episodes,
            )
            for number in range(first, problems, len(KINDS))
        )
        columns.append(Column(f"family-{family}-{kind.replace(' ', '-')}", kind, tuple(tasks)))
    return columns
