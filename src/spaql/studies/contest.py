"""Agents compared on problems whose optimum is known: who takes part, which runs that needs, what they reached.

A `Column` is one problem, or several whose mean counts; a `Contender` is one agent with its parameters.  Budgets are in
environment steps, learning and selection together, and nobody gets more of them than another, unless its name says so.
Published SPAQL and AQL have a scaling to choose: all of the paper's are run, and the one that is best *on the very
agents that are reported* counts, problem by problem and budget by budget.  That favours them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

import numpy as np

from spaql.problems import Problem
from spaql.problems.optimum import optimum
from spaql.problems.random_travel import KINDS, draw, random_travel_optimum, random_travel_share
from spaql.runner.run_spec import Run, problem_of, seed_at
from spaql.stats import Estimate, combination, mean_interval
from spaql.studies.legacy import Floats, Sample, Study
from spaql.studies.paper.plan import LONG, SETTINGS, Setting
from spaql.studies.paper.printed import ROLLOUTS, SCALINGS


@dataclass(frozen=True)
class Task:
    """One problem, a budget of environment steps, and how many agents try."""

    problem: str
    arguments: Mapping[str, Any]
    horizon: int
    steps: int
    agents: int
    episodes: int

    def shares(self, means: Floats) -> Floats:
        """The share of the optimum that mean returns are."""
        if self.problem == "random-travel":
            return np.array([random_travel_share(float(mean), **self.arguments) for mean in means])
        return means / self.optimum

    @property
    def optimum(self) -> float:
        """The best mean return there is; for random problems without unit and zero."""
        if self.problem == "random-travel":
            return random_travel_optimum(family=self.arguments["family"], number=self.arguments["number"])
        return _optimum(problem_of(self.run("random", {}, 0, 0)))

    def run(self, algorithm: str, parameters: Mapping[str, Any], seed: int, iterations: int) -> Run:
        """A run on this problem."""
        return Run(self.problem, self.arguments, algorithm, parameters, seed, iterations, self.episodes)


@cache
def _optimum(problem: Problem) -> float:
    return optimum(problem).value


@dataclass(frozen=True)
class Column:
    """Problems whose mean counts, or one."""

    key: str
    name: str
    tasks: tuple[Task, ...]
    setting: Setting | None = None  # of the paper


@dataclass(frozen=True)
class Contender:
    """An agent that takes part.

    Attributes
    ----------
    key, name
        In JSON and in tables.
    algorithm, parameters
        As in `spaql.runner.run_spec.Run`.
    tuned
        Whether its scaling is chosen.
    unbounded
        Whether it may play as many *episodes* as others, whatever it spends on choosing between its policies.
    plain
        Whether it is spared the unit and the zero of random problems.
    """

    key: str
    name: str
    algorithm: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    tuned: bool = False
    unbounded: bool = False
    plain: bool = False

    def iterations(self, task: Task, part: float) -> int:
        """How many it can finish with this part of the task's steps; at least one, or there would be no agent."""
        steps = int(part * task.steps)
        if self.algorithm == "random":
            return 0
        if self.algorithm == "spaql" and not self.unbounded:
            # Every iteration is an episode and N rollouts; N more come first.
            steps, each = steps - ROLLOUTS * task.horizon, (1 + ROLLOUTS) * task.horizon
            return max(1, steps // each)
        return max(1, steps // task.horizon)


Tessera = Contender("tessera", "SPAQL", "tessera")
PUBLISHED = Contender("spaql", "SPAQL published", "spaql", tuned=True, plain=True)
LONGER = Contender("spaql-longer", "the same, all its steps", "spaql", tuned=True, unbounded=True, plain=True)
AQL = Contender("aql", "AQL", "aql", {"rollouts": 0}, tuned=True, plain=True)
RANDOM = Contender("random", "Random", "random")


@dataclass(frozen=True, eq=False)
class Score:
    """What one contender reached in one column; lists have one entry per task, arrays are `[agents]`."""

    shares: list[Floats]
    samples: list[Sample]
    scalings: list[float | None]
    seeds: str = ""  # whose they are; agents of two scores with the same seeds are compared pair by pair

    @cached_property
    def share(self) -> Estimate:
        """Mean share of the optimum."""
        return mean_interval(_units(self.shares))

    @cached_property
    def arms(self) -> Estimate:
        """Mean number of arms."""
        return mean_interval(_units([sample.cells for sample in self.samples]))

    @property
    def steps(self) -> float:
        """Mean environment steps, of learning and of selection."""
        return float(np.mean([(s.training_steps + s.selection_steps).mean() for s in self.samples]))

    def minus(self, other: Score) -> Estimate:
        """Difference of the shares: paired by problem, on one problem by seed, and Welch's where seeds differ."""
        if len(self.shares) == 1 and self.seeds != other.seeds:
            return combination([self.shares[0], other.shares[0]], [1.0, -1.0])
        return mean_interval(_units(self.shares) - _units(other.shares))

    def standing(self, other: Score) -> int:
        """1 where this is ahead of the other at the 5% level, -1 where it is behind, else 0."""
        difference = self.minus(other)
        return int(difference.low > 0.0) - int(difference.high < 0.0)

    def mark(self, other: Score) -> str:
        """The same as a sign behind a number, or a blank."""
        return {1: "+", 0: " ", -1: "-"}[self.standing(other)]

    def reached_by(self, agents: float) -> float:
        """What this share of the agents reaches, or more."""
        return float(np.quantile(np.concatenate(self.shares), 1.0 - agents))


def _units(values: Sequence[Floats]) -> Floats:
    """What an interval is over: the agents on one problem, or the means of several problems."""
    return values[0] if len(values) == 1 else np.array([each.mean() for each in values])


@dataclass(frozen=True, eq=False)
class Contest:
    """Contenders in columns, from one study seed on.

    Agents of one algorithm have the same seeds with all its parameters, and so differ by those alone; agents of two
    algorithms share no random numbers.
    """

    seed: int
    scalings: tuple[float, ...] = SCALINGS
    _groups: dict[tuple[Any, ...], list[Run]] = field(default_factory=dict, repr=False)

    def runs(self, contender: Contender, columns: Iterable[Column], part: float = 1.0) -> list[Run]:
        """All that it takes to score a contender with this part of the budget."""
        return [
            run
            for column in columns
            for task in column.tasks
            for scaling in self._scalings(contender)
            for run in self._group(contender, task, scaling, part)
        ]

    def score(self, study: Study, contender: Contender, column: Column, part: float = 1.0) -> Score:
        """What a contender reached, at its best scaling where it has one."""
        shares, samples, scalings = [], [], []
        for task in column.tasks:
            found = []
            for scaling in self._scalings(contender):
                sample = study.sample(self._group(contender, task, scaling, part))
                found.append((_played(contender, task).shares(sample.evaluation), sample, scaling))
            best = max(found, key=lambda each: float(each[0].mean()))
            shares.append(best[0])
            samples.append(best[1])
            scalings.append(best[2])
        return Score(shares, samples, scalings, contender.algorithm)

    def _scalings(self, contender: Contender) -> tuple[float | None, ...]:
        return self.scalings if contender.tuned else (None,)

    def _group(self, contender: Contender, task: Task, scaling: float | None, part: float) -> list[Run]:
        arguments = tuple(task.arguments.values())
        key = contender.key, task.problem, arguments, scaling, part
        if key not in self._groups:
            parameters = dict(contender.parameters) | ({} if scaling is None else {"scaling": scaling})
            played, iterations = _played(contender, task), contender.iterations(task, part)
            self._groups[key] = [
                played.run(
                    contender.algorithm,
                    parameters,
                    seed_at(self.seed, "beyond", contender.algorithm, _seed_word(task.problem), *arguments, agent),
                    iterations,
                )
                for agent in range(task.agents)
            ]
        return self._groups[key]


def _seed_word(problem: str) -> str:
    """The word that a problem has in seeds; random travel problems keep the one that results were computed with."""
    return "wild" if problem == "random-travel" else problem


def _played(contender: Contender, task: Task) -> Task:
    """The task as this contender meets it."""
    if not contender.plain or task.problem != "random-travel":
        return task
    return replace(task, arguments={**task.arguments, "plain": True})


def paper_columns(agents: Callable[[str], int], episodes: int) -> list[Column]:
    """The twelve problems of the paper, with AQL's budget: K * H steps."""
    return [
        Column(
            setting.id,
            setting.tick,
            (
                Task(
                    setting.problem,
                    setting.arguments,
                    setting.horizon,
                    setting.iterations * setting.horizon,
                    agents(setting.problem),
                    episodes,
                ),
            ),
            setting,
        )
        for setting in SETTINGS
        if setting.id != LONG
    ]


def wild_columns(family: int, problems: int, steps: int, agents: int, episodes: int) -> list[Column]:
    """Random problems of one family, by kind."""
    columns = []
    for first, kind in enumerate(KINDS):
        tasks = tuple(
            Task(
                "random-travel",
                {"family": family, "number": number},
                draw(family, number).horizon,
                steps,
                agents,
                episodes,
            )
            for number in range(first, problems, len(KINDS))
        )
        columns.append(Column(f"family-{family}-{kind.replace(' ', '-')}", kind, tasks))
    return columns
