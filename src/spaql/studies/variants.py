"""Algorithms compared on problems with equal budgets of environment steps, by their share of the optimum.

A `Column` is one problem, or several whose mean counts; a `Variant` is an algorithm with its parameters.  Where the
optimum is not known, the share is that of the way from one return to another, such as from Random to a goal.  Budgets
count learning and selection together, and no algorithm has more steps than another unless its label says so.  SPAQL and
AQL have a scaling to choose: all scalings of the paper are run, and the one that is best *on the reported agents*
counts, problem by problem and budget by budget.  That favours them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

import numpy as np

from spaql.agents.registry import resolve
from spaql.problems import PROBLEMS, Box, Problem
from spaql.problems.optimum import optimum
from spaql.problems.random_travel import KINDS, random_travel_share
from spaql.runner.run_spec import Run, problem_of, seeds_at
from spaql.stats import Estimate, combination, mean_interval
from spaql.studies.paper.plan import SETTINGS
from spaql.studies.paper.printed import ROLLOUTS, SCALINGS
from spaql.studies.study import Floats, Group, Results, Stage, Study, standing

# A seed is a hash of the run's place in its study.  These are the words of that place, older than today's names: other
# words would be other random numbers, and the recorded results would change.
STUDY_WORD = "beyond"
RANDOM_PROBLEM = "random-travel"
SEED_WORDS = {
    "tessera": "spaql",
    "spaql": "spaql-published",
    RANDOM_PROBLEM: "wild",
}
RANDOM_STEPS = 25_000  # budget of random problems
WIDENED = "spaql.studies.variants:widen"  # a problem of a run
_optimum = cache(optimum)


@dataclass(frozen=True)
class Size:
    """Random problems and agents on each, evaluation episodes, scalings, and agents on each other problem."""

    problems: int
    agents: int
    episodes: int
    scalings: Sequence[float] = SCALINGS
    paper: int = 0
    control: int = 0
    robustness: int = 0  # agents on each problem of the paper that show how much results vary
    part: float = 1.0  # of all budgets


@dataclass(frozen=True)
class Column:
    """A problem with one or several sets of arguments whose mean counts, its budget of steps, and its agents.

    Shares are those of the optimum; with `levels`, a mean return of the first is the share 0, one of the second 1.
    """

    name: str
    label: str
    problem: str
    arguments: Sequence[Mapping[str, Any]]
    steps: int
    agents: int
    episodes: int  # of the evaluation
    printed_cells: float = math.nan  # of SPAQL in the paper
    levels: tuple[float, float] | None = None
    wide: bool = False  # see `widen`

    def widened(self) -> Column:
        """The same problems with a wider box of observations."""
        return replace(self, name=f"{self.name}-wide", wide=True)

    def shares(self, run: Run, means: Floats) -> Floats:
        """Mean returns of a run of this column as shares."""
        if self.levels is not None:
            low, high = self.levels
            return (means - low) / (high - low)
        if self.problem == RANDOM_PROBLEM:
            arguments = {key: value for key, value in run.arguments.items() if key != "name"}
            return np.array([random_travel_share(float(mean), **arguments) for mean in means])
        return means / _optimum(problem_of(replace(run, problem=self.problem, arguments=self.arguments[0]))).value


def widen(name: str, **arguments: Any) -> Problem:
    """Make a built-in problem whose observations are declared on a box ten times as wide, and not in its middle."""
    problem = PROBLEMS[name](**arguments)
    low, width = problem.states.low, problem.states.high - problem.states.low
    return replace(problem, states=Box(low - 3.0 * width, low + 7.0 * width))


def paper_columns(size: Size) -> list[Column]:
    """The twelve problems of the paper, with AQL's budget, K * H steps."""
    columns = []
    for setting in SETTINGS:
        if setting.printed is not None:
            steps = int(size.part * setting.iterations * setting.horizon)
            cells = setting.printed.cells["spaql"].mean
            place = setting.id, setting.tick, setting.problem, [setting.arguments]
            columns.append(Column(*place, steps, size.paper, size.episodes, cells))
    return columns


def random_columns(family: int, size: Size) -> list[Column]:
    """Random problems of one family, by kind."""
    columns = []
    for first, kind in enumerate(KINDS):
        name = f"family-{family}-{kind.replace(' ', '-')}"
        arguments = [{"family": family, "number": number} for number in range(first, size.problems, len(KINDS))]
        steps = int(size.part * RANDOM_STEPS)
        columns.append(Column(name, kind, RANDOM_PROBLEM, arguments, steps, size.agents, size.episodes))
    return columns


@dataclass(frozen=True, eq=False)
class Variant:
    """An algorithm with its parameters.

    `name` is for JSON, `title` the label in tables unless it is that of the algorithm.  A `tuned` variant has a scaling
    to choose, and gets random problems without their unit and zero; an `unbounded` one plays as many *episodes* as the
    others, whatever it spends on selection.
    """

    name: str
    algorithm: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    title: str = ""
    tuned: bool = False
    unbounded: bool = False

    @property
    def label(self) -> str:
        """Its label in tables and charts."""
        return self.title or resolve(self.algorithm).label

    def iterations(self, steps: int, horizon: int) -> int:
        """How many iterations fit into this number of steps; at least one."""
        if self.algorithm == "random":
            return 0
        if self.algorithm == "spaql" and not self.unbounded:
            # Every iteration is an episode and N rollouts; N more come first.
            steps, horizon = steps - ROLLOUTS * horizon, (1 + ROLLOUTS) * horizon
        return max(1, steps // horizon)


TESSERA = Variant("tessera", "tessera")
SPAQL = Variant("spaql", "spaql", tuned=True)
LONGER = Variant("spaql-longer", "spaql", title="SPAQL, all its steps", tuned=True, unbounded=True)
AQL = Variant("aql", "aql", {"rollouts": 0}, tuned=True)
RANDOM = Variant("random", "random")


@dataclass(frozen=True, eq=False)
class Score:
    """Results of one variant in one column, a list entry for each of its problems; arrays are `[agents]`."""

    shares: list[Floats]
    cell_counts: list[Floats]
    step_counts: list[Floats]
    scalings: list[float | None]
    seeds: str = ""  # agents of two scores with the same seeds are compared in pairs
    fixed: bool = False  # whether the problems are these and no sample of a family: intervals are over agents

    @cached_property
    def share(self) -> Estimate:
        """Mean share of the optimum."""
        return self._estimate(self.shares)

    @property
    def has_cells(self) -> bool:
        """Whether the agents have cells; Random has none."""
        return bool(np.isfinite(_units(self.cell_counts)).all())

    @cached_property
    def cells(self) -> Estimate:
        """Mean number of cells."""
        return self._estimate(self.cell_counts)

    @property
    def steps(self) -> float:
        """Mean environment steps, of learning and of selection."""
        return float(np.mean([counts.mean() for counts in self.step_counts]))

    def minus(self, other: Score) -> Estimate:
        """Difference of the shares: paired by problem, on fixed problems by seed, and Welch's where seeds differ."""
        count = len(self.shares)
        if (self.fixed or count == 1) and self.seeds != other.seeds:
            return combination([*self.shares, *other.shares], np.repeat([1.0 / count, -1.0 / count], count))
        return self._estimate([ours - theirs for ours, theirs in zip(self.shares, other.shares, strict=True)])

    def reached_by(self, agents: float) -> float:
        """The share of the optimum that this fraction of the agents reaches or exceeds."""
        return float(np.quantile(np.concatenate(self.shares), 1.0 - agents))

    @property
    def near_median(self) -> int:
        """How many agents on the one problem are within 5 points of their median."""
        (shares,) = self.shares
        return int(np.sum(np.abs(shares - np.median(shares)) <= 0.05))

    @classmethod
    def pool(cls, scores: Sequence[Score]) -> Score:
        """Pool scores on several problems into one, for the mean over just these."""
        return cls(
            [values for score in scores for values in score.shares],
            [values for score in scores for values in score.cell_counts],
            [values for score in scores for values in score.step_counts],
            [value for score in scores for value in score.scalings],
            scores[0].seeds,
            fixed=True,
        )

    def _estimate(self, values: Sequence[Floats]) -> Estimate:
        """Return the mean over the problems, of values of the agents `[agents]` on each."""
        if self.fixed:
            return combination(values, np.full(len(values), 1.0 / len(values)))
        return mean_interval(_units(values))


def _units(values: Sequence[Floats]) -> Floats:
    """What an interval is over: the agents on one problem, or the means of several problems."""
    return values[0] if len(values) == 1 else np.array([each.mean() for each in values])


class VariantStudy(Study):
    """Variants in columns, with parts of the budget, from one study seed.

    Agents of one algorithm have the same seeds with all its parameters, and so differ by those alone; agents of two
    algorithms share no random numbers.
    """

    def __init__(self, seed: int, size: Size, wanted: Sequence[tuple[Variant, Sequence[Column], float]] = ()) -> None:
        self.seed, self.size, self.wanted = seed, size, wanted
        self.scores: dict[tuple[str, str, float], Score] = {}  # by variant, column and part; see `read`

    def stages(self, results: Results) -> Iterator[Stage]:
        """All runs at once; those of other than built-in problems last, as the engine is made for the first stage."""
        groups = [group for wanted in self.wanted for group in self.groups(*wanted)]
        unique = {(group.run.kind, len(group.seeds)): group for group in groups}.values()  # columns may share problems
        for compiled in (True, False):
            if stage := [group for group in unique if group.run.compiled is compiled]:
                yield Stage(stage)

    def groups(self, variant: Variant, columns: Iterable[Column], part: float = 1.0) -> list[Group]:
        """All groups that score a variant with this part of the budget."""
        return [group for column in columns for groups in self._groups(variant, column, part) for group in groups]

    def read(self, results: Results) -> None:
        """Score all variants in their columns."""
        for variant, columns, part in self.wanted:
            for column in columns:
                self.scores[variant.name, column.name, part] = self.score(results, variant, column, part)

    def score(self, results: Results, variant: Variant, column: Column, part: float = 1.0) -> Score:
        """Score a variant, at its best scaling where it has one."""
        score = Score([], [], [], [], variant.algorithm)
        for groups in self._groups(variant, column, part):
            candidates = [(column.shares(group.run, results.values(group)), group) for group in groups]
            shares, group = max(candidates, key=lambda candidate: float(candidate[0].mean()))
            score.shares.append(shares)
            score.cell_counts.append(results.values(group, "cells"))
            score.step_counts.append(results.values(group, "training_steps") + results.values(group, "selection_steps"))
            score.scalings.append(group.run.parameters.get("scaling"))
        return score

    def of(self, variant: Variant, column: Column, part: float = 1.0) -> Score:
        """One of the scores."""
        return self.scores[variant.name, column.name, part]

    def mark(self, variant: Variant, column: Column, part: float = 1.0) -> str:
        """A sign behind a number: minus where the variant is behind Tessera, plus where it is ahead, else a blank."""
        return {1: "+", 0: " ", -1: "-"}[standing(self.of(variant, column, part).minus(self.of(TESSERA, column, part)))]

    def percent(self, variant: Variant, column: Column, digits: int) -> str:
        """The mean share in percent, half of its interval, and the mark."""
        share = self.of(variant, column).share
        return f"{100 * share.mean:z.{digits}f} ± {100 * share.half_width:.{digits}f}{self.mark(variant, column)}"

    def _groups(self, variant: Variant, column: Column, part: float) -> Iterator[list[Group]]:
        """For each problem of the column a group, or one for each scaling."""
        words = [SEED_WORDS.get(name, name) for name in (variant.algorithm, column.problem)]
        plain = {"plain": True} if variant.tuned and column.problem == RANDOM_PROBLEM else {}
        choices = [{"scaling": scaling} for scaling in self.size.scalings] if variant.tuned else [{}]
        for arguments in column.arguments:
            given = {**arguments, **plain}
            run = Run(column.problem, given, variant.algorithm, variant.parameters, 0, 0, column.episodes)
            if column.levels is None:
                horizon = problem_of(run).horizon
                run = replace(run, iterations=variant.iterations(int(part * column.steps), horizon))
            else:  # episodes may end early
                run = replace(run, budgets=(int(part * column.steps),))
            if column.wide:
                run = replace(run, problem=WIDENED, arguments={"name": column.problem, **given})
            seeds = seeds_at(column.agents, self.seed, STUDY_WORD, *words, *arguments.values())
            group = Group(column.problem, variant.label, run, seeds)
            yield [group.with_run(parameters={**variant.parameters, **choice}) for choice in choices]
