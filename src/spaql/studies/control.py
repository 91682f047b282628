"""The study `spaql control`: classic control, with all steps counted, and every score from new episodes.

Five problems of Gymnasium, compiled (`spaql.problems.control`); each has the budget of environment steps that RL
Baselines3 Zoo gave to the agent cited beside it.  Each algorithm has one configuration for all five.  Rewards are not
rescaled: SPAQL and AQL are made for 0 to 1 per step, which no linear change of these rewards gives without changing
the value of an early end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spaql._version import __version__
from spaql.agents.registry import resolve
from spaql.formatting import Table
from spaql.runner.run_spec import Run, seeds_at
from spaql.stats import Estimate, combination, mean_interval
from spaql.studies.study import Floats, Group, Report, Results, Sheet, Stage, Study, make_series
from spaql.studies.variants import AQL, RANDOM, SEED_WORDS, SPAQL, TESSERA, Variant, standing
from spaql.viz.charts import Chart, Level

PARTS = (0.125, 0.25, 0.5, 1.0)  # of the budget


@dataclass(frozen=True)
class Task:
    """A problem, its budget, the result cited beside it, the goal, and the reference state of SPAQL-TS."""

    problem: str
    environment: str
    budget: int
    cited: str
    goal: float
    reference: tuple[float, ...]


TASKS = (
    Task("cartpole", "CartPole-v1", 50_000, "500 (DQN, 50k)", 475.0, (0.0, 0.0, 0.0, 0.0)),
    Task("mountaincar", "MountainCar-v0", 120_000, "-100.8 (DQN, 120k)", -110.0, (0.5, 0.0)),
    Task("mountaincar-continuous", "MountainCarContinuous-v0", 50_000, "94.7 (SAC, 50k)", 90.0, (0.45, 0.0)),
    Task("acrobot", "Acrobot-v1", 100_000, "-76.6 (DQN, 100k)", -100.0, (-1.0, 0.0, 1.0, 0.0, 0.0, 0.0)),
    Task("pendulum", "Pendulum-v1", 20_000, "-157 (SAC, 20k), -172 (PPO, 100k)", -200.0, (1.0, 0.0, 0.0)),
)


SPAQL_TS = Variant("spaql-ts", "spaql-ts", {"radius": 1.0})
TENFOLD = Variant("tessera-tenfold", "tessera", title="Tessera, ten times the steps")
OTHER_PARTS = {RANDOM: (1.0,), TENFOLD: (1.0, 2.0, 5.0, 10.0)}
RIVALS = (SPAQL, SPAQL_TS, AQL, RANDOM)
NOTE = (
    "Mean return of {agents} agents with {episodes} new episodes each, half of its 95% interval, and cells. Minus: "
    "behind Tessera at the 5% level (Welch). Budget: environment steps of learning and selection; where it is too "
    "small for one iteration, nothing was measured and nothing is counted. SPAQL-TS is given the state to hold, with "
    "lambda = 1 in the unit cube. 'Reached by others' are results of RL Baselines3 Zoo, cited, not measured here."
)
OTHERS_NOTE = (
    " (SB3): agents of Stable-Baselines3 with their default settings, at the same budgets; PPO learns from whole "
    "batches and may play up to 2,047 steps more."
)


@dataclass(frozen=True)
class Size:
    """Numbers of agents and evaluation episodes, variants, and tasks."""

    agents: int
    episodes: int
    variants: tuple[Variant, ...] = (TESSERA, *RIVALS, TENFOLD)
    tasks: tuple[Task, ...] = TASKS


FULL = Size(20, 200)
QUICK = Size(4, 50, (TESSERA, *RIVALS))


@dataclass(frozen=True, eq=False)
class Curve:
    """Results of one variant on one task, `[agents, budgets]`."""

    budgets: tuple[int, ...]
    evaluation: Floats
    cells: Floats
    steps: Floats

    def score(self, at: int = -1) -> Estimate | None:
        """The mean at one of the budgets; None where it is too small for an iteration of some agent."""
        return None if np.isnan(self.evaluation[:, at]).any() else mean_interval(self.evaluation[:, at])


class Control(Study):
    """Tessera and the algorithms of the literature on classic control.

    Parameters
    ----------
    size, seed
        Of the study.
    others
        Returns rows of further agents, measured elsewhere: `agent`, `problem`, `seed`, `mean`; called when the folder
        is locked.
    """

    def __init__(
        self, size: Size = FULL, seed: int = 0, others: Callable[[], Sequence[Mapping[str, Any]]] = tuple
    ) -> None:
        self.size, self.seed, self.others = size, seed, others
        self.rows: Sequence[Mapping[str, Any]] = ()
        self.groups = {(variant, task): self._group(variant, task) for variant in size.variants for task in size.tasks}

    def _group(self, variant: Variant, task: Task) -> Group:
        parameters = dict(variant.parameters)
        if variant.algorithm == "spaql-ts":
            parameters["reference"] = list(task.reference)
        budgets = tuple(int(part * task.budget) for part in OTHER_PARTS.get(variant, PARTS))
        run = Run(task.problem, {}, variant.algorithm, parameters, 0, 0, self.size.episodes, budgets=budgets)
        word = SEED_WORDS.get(variant.name, variant.name)
        seeds = seeds_at(self.size.agents, self.seed, "control", word, task.problem)
        return Group(task.environment, variant.label, run, seeds)

    def stages(self, results: Results) -> Iterator[Stage]:
        """All runs at once, after those of other packages."""
        self.rows = list(self.others())
        yield Stage(list(self.groups.values()))

    def report(self, results: Results) -> Report:
        """One table, and curves over environment steps."""
        names = "evaluation", "cells", "steps"
        curves = {key: Curve(group.run.budgets, *results.stack(group, *names)) for key, group in self.groups.items()}
        return Curves(self.size, self.seed, curves, self.rows).report()


@dataclass(frozen=True, eq=False)
class Curves:
    """All curves by variant and task, with rows of agents of other packages, and what they show."""

    size: Size
    seed: int
    curves: Mapping[tuple[Variant, Task], Curve]
    others: Sequence[Mapping[str, Any]] = ()

    def standing(self, task: Task, rival: Variant) -> int | None:
        """1 where Tessera is ahead of a rival at the 5% level, -1 where it is behind, else 0; None if not measured."""
        ours, theirs = (self.curves[variant, task].evaluation[:, -1] for variant in (TESSERA, rival))
        if np.isnan(ours).any() or np.isnan(theirs).any():
            return None
        return standing(combination([ours, theirs], [1.0, -1.0]))

    def against(self, rival: Variant) -> tuple[int, int]:
        """On how many tasks Tessera is ahead of a rival, and on how many both were measured."""
        standings = [self.standing(task, rival) for task in self.size.tasks]
        measured = [each for each in standings if each is not None]
        return measured.count(1), len(measured)

    def report(self) -> Report:
        """Table, sentences, figure and data."""
        size = self.size
        note = NOTE.format(agents=size.agents, episodes=size.episodes) + (OTHERS_NOTE if self.others else "")
        charts = [self._chart(task) for task in size.tasks]
        under = f"mean of {size.agents} agents in new episodes; bands: 95%"
        return Report(
            "control",
            f"Classic control; seed {self.seed}; spaql {__version__}",
            summary=self.sentences(),
            tables=[self._table()],
            note=note,
            figures={"control": Sheet("Classic control, all steps counted", charts, under)},
            data=self.data(),
        )

    def _table(self) -> Table:
        rows = [
            [variant.label, *(self._cell(variant, task) for task in self.size.tasks)] for variant in self.size.variants
        ]
        for name in dict.fromkeys(str(row["agent"]) for row in self.others):
            rows.append([name, *(self._other(name, task) for task in self.size.tasks)])
        rows.append(["reached by others", *(task.cited for task in self.size.tasks)])
        rows.append(["goal", *(f"{task.goal:g}" for task in self.size.tasks)])
        return Table(["agent", *(f"{task.environment} {task.budget // 1000}k" for task in self.size.tasks)], rows)

    def _cell(self, variant: Variant, task: Task) -> str:
        curve = self.curves[variant, task]
        score = curve.score()
        if score is None:
            return "budget too small"
        mark = "-" if variant in RIVALS and self.standing(task, variant) == 1 else ""
        cells = curve.cells[:, -1].mean()
        return f"{_number(score.mean)} ± {_number(score.half_width)}{mark}" + (f", {cells:,.0f}" if cells else "")

    def _other(self, name: str, task: Task) -> str:
        means = [float(row["mean"]) for row in self.others if (row["agent"], row["problem"]) == (name, task.problem)]
        if len(means) < 2:
            return ""
        score = mean_interval(np.array(means))
        return f"{_number(score.mean)} ± {_number(score.half_width)} ({len(means)} seeds)"

    def sentences(self) -> list[str]:
        """Which rivals Tessera is ahead of, and which goals it reaches."""
        parts, count = [], len(self.size.tasks)
        for rival in RIVALS:
            ahead, measured = self.against(rival)
            parts.append(f"{rival.label} on {ahead}" + ("" if measured == count else f" of the {measured} measured"))
        scores = {task: self.curves[TESSERA, task].score() for task in self.size.tasks}
        reached = [task.environment for task, score in scores.items() if score is not None and score.mean >= task.goal]
        goals = f"It reaches the goal on {', '.join(reached)}." if reached else "It reaches none of the goals."
        return [f"Of {count} problems Tessera is ahead of {', '.join(parts)} (Welch, 5%).", goals]

    def data(self) -> dict[str, Any]:
        """All numbers, ready for JSON."""
        rows = []
        for (variant, task), curve in self.curves.items():
            for at, budget in enumerate(curve.budgets):
                score = curve.score(at)
                ends = dict(
                    zip(("mean", "low", "high"), (score.mean, *score.interval) if score else [None] * 3, strict=True)
                )
                counts = {"cells": float(curve.cells[:, at].mean()), "steps": float(curve.steps[:, at].mean())}
                rows.append({"agent": variant.name, "problem": task.problem, "budget": budget, **ends, **counts})
        against = {rival.name: self.against(rival) for rival in RIVALS}
        return {
            "spaql": __version__,
            "seed": self.seed,
            "agents": self.size.agents,
            "episodes": self.size.episodes,
            "ahead": {name: ahead for name, (ahead, _) in against.items()},
            "measured": {name: measured for name, (_, measured) in against.items()},
            "goals": {task.problem: task.goal for task in self.size.tasks},
            "rows": rows,
        } | ({"others": list(self.others)} if self.others else {})

    def _chart(self, task: Task) -> Chart:
        """Mean return against environment steps."""
        series, levels = [], []
        for variant in self.size.variants:
            curve = self.curves[variant, task]
            scores = {float(budget): curve.score(at) for at, budget in enumerate(curve.budgets)}
            points = {steps: score for steps, score in scores.items() if score is not None}
            if variant is RANDOM:
                mean = next(iter(points.values())).mean
                levels.append(Level(variant.label, mean, colour=resolve("random").colour or ""))
            elif points and variant is not TENFOLD:
                values = list(points.values())
                series.append(make_series(variant.label, list(points), values, algorithm=variant.algorithm))
        levels.append(Level("goal", task.goal, look="optimum"))
        return Chart(task.environment, "environment steps", "return", tuple(series), tuple(levels))


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}"
