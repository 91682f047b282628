"""The study behind `spaql control`: classic control, all steps counted, every score from fresh episodes.

Five problems of Gymnasium, compiled (`spaql.problems.control`); for each the budget of environment steps that the
authors of RL Baselines3 Zoo gave to the agent cited beside it.  Default SPAQL has one configuration for all five; so
have the published agents.  Rewards are taken as they are: the published agents are made for 0 to 1 per step, which no
linear change of these rewards gives without changing what an early end is worth.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from spaql._version import __version__
from spaql.atomic_io import FIGURES, Content
from spaql.formatting import Table
from spaql.runner.run_spec import Run, seed_at
from spaql.stats import Estimate, combination, mean_interval
from spaql.studies.legacy import Cost, Floats, Study, opened
from spaql.viz import figures
from spaql.viz.charts import Chart, Level, Series

PARTS = (0.125, 0.25, 0.5, 1.0)
LONGER = (1.0, 2.0, 5.0, 10.0)


@dataclass(frozen=True)
class Task:
    """A problem, its budget, the result cited beside it, the goal, and where SPAQL-TS is to hold it."""

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


@dataclass(frozen=True)
class Contender:
    """An agent that takes part: its name in JSON and tables, its algorithm and parameters, and parts of the budget."""

    key: str
    name: str
    algorithm: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    parts: tuple[float, ...] = PARTS

    def runs(self, task: Task, agents: int, episodes: int, seed: int) -> list[Run]:
        """One for each agent."""
        parameters = dict(self.parameters)
        if self.algorithm == "spaql-ts":
            parameters["reference"] = list(task.reference)
        budgets = tuple(int(part * task.budget) for part in self.parts)
        return [
            Run(
                task.problem,
                {},
                self.algorithm,
                parameters,
                seed_at(seed, "control", self.key, task.problem, agent),
                0,
                episodes,
                budgets=budgets,
            )
            for agent in range(agents)
        ]


Tessera = Contender("tessera", "SPAQL", "tessera")
PUBLISHED = Contender("spaql", "SPAQL published", "spaql")
TERMINAL = Contender("spaql-ts", "SPAQL-TS", "spaql-ts", {"radius": 1.0})
AQL = Contender("aql", "AQL", "aql", {"rollouts": 0})
RANDOM = Contender("random", "Random", "random", parts=(1.0,))
TENFOLD = Contender("spaql-tenfold", "SPAQL, ten times the steps", "tessera", parts=LONGER)
CONTENDERS = (Tessera, PUBLISHED, TERMINAL, AQL, RANDOM, TENFOLD)
RIVALS = (PUBLISHED, TERMINAL, AQL, RANDOM)

NOTE = (
    "Mean return of {agents} agents with {episodes} fresh episodes each, half of its 95% interval, and cells. Minus: "
    "behind SPAQL at the 5% level (Welch). Budget: environment steps, learning and selection together; where it is too "
    "small for an iteration, nothing was measured and nothing is counted. SPAQL-TS is told the state to hold, with "
    "lambda = 1 in the unit cube. 'Reached by others' are results of RL Baselines3 Zoo, cited, not measured here."
)
OTHERS_NOTE = (
    " (SB3): agents of Stable-Baselines3 with their default settings, at the same budgets; PPO learns from whole "
    "batches and may play up to 2,047 steps more."
)


@dataclass(frozen=True)
class Size:
    """How large the study is."""

    agents: int
    episodes: int
    contenders: tuple[Contender, ...] = CONTENDERS
    tasks: tuple[Task, ...] = TASKS


FULL = Size(20, 200)
QUICK = Size(4, 50, (Tessera, PUBLISHED, TERMINAL, AQL, RANDOM))


@dataclass(frozen=True, eq=False)
class Curve:
    """Scores of one contender on one task, `[agents, budgets]`."""

    budgets: tuple[int, ...]
    fresh: Floats
    arms: Floats
    steps: Floats

    def score(self, at: int) -> Estimate | None:
        """At one of the budgets; None where it is too small for an iteration of some agent."""
        return None if np.isnan(self.fresh[:, at]).any() else mean_interval(self.fresh[:, at])

    @property
    def last(self) -> Estimate | None:
        """At all of the budget."""
        return self.score(-1)


@dataclass(frozen=True, eq=False)
class Control:
    """The finished study."""

    size: Size
    seed: int
    curves: dict[tuple[str, str], Curve]  # by contender and problem
    others: list[dict[str, Any]]  # rows of agents of Stable-Baselines3, where they were run
    cost: Cost
    files: list[Path]

    def standing(self, task: Task, rival: Contender) -> int | None:
        """1 where SPAQL is ahead of a rival at the 5% level, -1 where it is behind, else 0; None if not measured."""
        ours, theirs = (self.curves[each.key, task.problem].fresh[:, -1] for each in (Tessera, rival))
        if np.isnan(ours).any() or np.isnan(theirs).any():
            return None
        difference = combination([ours, theirs], [1.0, -1.0])
        return int(difference.low > 0.0) - int(difference.high < 0.0)

    def against(self, rival: Contender) -> tuple[int, int]:
        """On how many tasks SPAQL is ahead of a rival, and on how many both were measured."""
        standings = [self.standing(task, rival) for task in self.size.tasks]
        measured = [standing for standing in standings if standing is not None]
        return sum(standing > 0 for standing in measured), len(measured)

    def rows(self) -> list[list[str]]:
        """The table, its head first."""
        rows = [["agent", *(f"{task.environment} {task.budget // 1000}k" for task in self.size.tasks)]]
        for contender in self.size.contenders:
            row = [contender.name]
            for task in self.size.tasks:
                curve = self.curves[contender.key, task.problem]
                if curve.last is None:
                    row.append("budget too small")
                    continue
                mark = "-" if contender in RIVALS and self.standing(task, contender) == 1 else ""
                arms = curve.arms[:, -1].mean()
                cells = f", {arms:,.0f}" if arms else ""
                row.append(f"{_number(curve.last.mean)} ± {_number(curve.last.half_width)}{mark}{cells}")
            rows.append(row)
        for name in dict.fromkeys(str(row["agent"]) for row in self.others):
            rows.append([name, *(self._other(name, task) for task in self.size.tasks)])
        rows.append(["reached by others", *(task.cited for task in self.size.tasks)])
        rows.append(["goal", *(f"{task.goal:g}" for task in self.size.tasks)])
        return rows

    def _other(self, name: str, task: Task) -> str:
        means = [float(row["mean"]) for row in self.others if (row["agent"], row["problem"]) == (name, task.problem)]
        if len(means) < 2:
            return ""
        score = mean_interval(np.array(means))
        return f"{_number(score.mean)} ± {_number(score.half_width)} ({len(means)} seeds)"

    def sentences(self) -> list[str]:
        """What it says about the targets."""
        told, every = [], len(self.size.tasks)
        for rival in RIVALS:
            ahead, measured = self.against(rival)
            told.append(f"{rival.name} on {ahead}" + ("" if measured == every else f" of the {measured} measured"))
        scores = {task: self.curves[Tessera.key, task.problem].last for task in self.size.tasks}
        reached = [task.environment for task, score in scores.items() if score is not None and score.mean >= task.goal]
        goals = f"It reaches the goal on {', '.join(reached)}." if reached else "It reaches none of the goals."
        return [f"Of {every} problems SPAQL is ahead of {', '.join(told)} (Welch, 5%).", goals]

    @property
    def note(self) -> str:
        """How to read the table."""
        return NOTE.format(agents=self.size.agents, episodes=self.size.episodes) + (OTHERS_NOTE if self.others else "")

    def plain(self) -> str:
        """The table for a terminal."""
        return "\n\n".join([Table(self.rows()[0], self.rows()[1:]).text(), *self.sentences()])

    def text(self) -> str:
        """The table as Markdown."""
        head = f"# Classic control; seed {self.seed}; spaql {__version__}"
        return (
            "\n\n".join([head, Table(self.rows()[0], self.rows()[1:]).markdown(), *self.sentences(), self.note]) + "\n"
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        rows = []
        for (agent, problem), curve in self.curves.items():
            for at, budget in enumerate(curve.budgets):
                score = curve.score(at)
                rows.append(
                    {
                        "agent": agent,
                        "problem": problem,
                        "budget": budget,
                        "mean": None if score is None else score.mean,
                        "low": None if score is None else score.low,
                        "high": None if score is None else score.high,
                        "arms": float(curve.arms[:, at].mean()),
                        "steps": float(curve.steps[:, at].mean()),
                    }
                )
        against = {rival.key: self.against(rival) for rival in RIVALS}
        ahead = {key: count for key, (count, _) in against.items()}
        measured = {key: count for key, (_, count) in against.items()}
        size = {"agents": self.size.agents, "episodes": self.size.episodes}
        goals = {task.problem: task.goal for task in self.size.tasks}
        counts = {"ahead": ahead, "measured": measured}
        return {"spaql": __version__, "seed": self.seed, **size, **counts, "goals": goals, "rows": rows} | (
            {"others": self.others} if self.others else {}
        )

    def charts(self) -> list[Chart]:
        """Fresh score against all environment steps, a panel per problem."""
        charts = []
        for task in self.size.tasks:
            series, levels = [], []
            for contender in self.size.contenders:
                curve = self.curves[contender.key, task.problem]
                found = [(float(budget), curve.score(at)) for at, budget in enumerate(curve.budgets)]
                kept = [(steps, score) for steps, score in found if score is not None]
                if contender is RANDOM:
                    levels.append(Level(RANDOM.name, kept[0][1].mean, look="Random"))
                elif kept and contender is not TENFOLD:
                    series.append(
                        Series(
                            contender.name,
                            [steps for steps, _ in kept],
                            [score.mean for _, score in kept],
                            [score.low for _, score in kept],
                            [score.high for _, score in kept],
                            contender.name,
                        )
                    )
            levels.append(Level("goal", task.goal, look="optimum"))
            charts.append(Chart(task.environment, "environment steps", "return", tuple(series), tuple(levels)))
        return charts


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}"


def benchmark(
    folder: str | os.PathLike[str],
    *,
    size: Size = FULL,
    seed: int = 0,
    threads: int | None = None,
    progress_bar: bool | None = None,
    others: Callable[[], Sequence[dict[str, Any]]] = tuple,
) -> Control:
    """Do the study, or what is left of it, and write table and figure into the folder.

    Interrupted at any moment, it goes on from where it was when it is called again.  `others` gives rows of further
    agents, measured elsewhere: `agent`, `problem`, `seed`, `mean`; it is called when the folder is locked.
    """
    groups = {
        (contender.key, task.problem): contender.runs(task, size.agents, size.episodes, seed)
        for contender in size.contenders
        for task in size.tasks
    }
    with opened(folder, threads=threads, progress_bar=progress_bar) as study:
        rows = list(others())
        cost = study.complete(run for group in groups.values() for run in group)
        curves = {key: _curve(study, group) for key, group in groups.items()}
        files: list[Path] = []
        done = Control(size, seed, curves, rows, cost, files)
        files += study.write(_files(done))
    return done


def _curve(study: Study, runs: Sequence[Run]) -> Curve:
    arrays = [study.store.arrays(run.id) for run in runs]
    fresh, arms, steps = (
        np.array([each[name] for each in arrays], dtype=float) for name in ("evaluation", "cells", "steps")
    )
    return Curve(runs[0].budgets, fresh, arms, steps)


def _files(done: Control) -> dict[str, Content]:
    note = f"mean of {done.size.agents} agents, fresh episodes; bands: 95%"
    draw = partial(figures.panels, done.charts(), title="Classic control, all steps counted", columns=3, note=note)
    return {
        "control.md": done.text(),
        "control.json": json.dumps(done.to_dict(), indent=1, allow_nan=False) + "\n",
        **figures.writers(f"{FIGURES}/control", draw),
    }
