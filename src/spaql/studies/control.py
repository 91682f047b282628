"""The study `spaql control`: classic control, with all steps counted, and every score from new episodes.

Five problems of Gymnasium, compiled (`spaql.problems.control`); each has the budget of environment steps that RL
Baselines3 Zoo gave to the agent cited beside it.  Each algorithm has one configuration for all five.  Rewards are not
rescaled: SPAQL and AQL are made for 0 to 1 per step, which no linear change of these rewards gives without changing
the value of an early end.  Agents of Stable-Baselines3 learn on the environments of Gymnasium themselves.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spaql._version import __version__
from spaql.agents.registry import resolve
from spaql.formatting import Table
from spaql.runner.run_spec import Run, seeds_at
from spaql.stats import Estimate, combination, mean_interval
from spaql.studies.study import Floats, Group, Report, Results, Sheet, Stage, Study, make_series, standing
from spaql.studies.variants import AQL, RANDOM, SEED_WORDS, SPAQL, TESSERA, Variant
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
    continuous: bool = False  # its actions


TASKS = (
    Task("cartpole", "CartPole-v1", 50_000, "500 (DQN, 50k)", 475.0, (0.0, 0.0, 0.0, 0.0)),
    Task("mountaincar", "MountainCar-v0", 120_000, "-100.8 (DQN, 120k)", -110.0, (0.5, 0.0)),
    Task("mountaincar-continuous", "MountainCarContinuous-v0", 50_000, "94.7 (SAC, 50k)", 90.0, (0.45, 0.0), True),
    Task("acrobot", "Acrobot-v1", 100_000, "-76.6 (DQN, 100k)", -100.0, (-1.0, 0.0, 1.0, 0.0, 0.0, 0.0)),
    Task("pendulum", "Pendulum-v1", 20_000, "-157 (SAC, 20k), -172 (PPO, 100k)", -200.0, (1.0, 0.0, 0.0), True),
)


SPAQL_TS = Variant("spaql-ts", "spaql-ts", {"radius": 1.0})
TENFOLD = Variant("tessera-tenfold", "tessera", title="Tessera, ten times the steps")
RIVALS = (SPAQL, SPAQL_TS, AQL, RANDOM)
_NETWORK = {"policy": "MlpPolicy", "device": "cpu"}
SB3 = tuple(Variant(name, f"stable_baselines3:{name}", _NETWORK, f"{name} (SB3)") for name in ("DQN", "PPO", "SAC"))
OTHER_PARTS = {RANDOM: (1.0,), TENFOLD: (1.0, 2.0, 5.0, 10.0)} | dict.fromkeys(SB3, (1.0,))
QUICK = {"agents": 4, "episodes": 50, "variants": (TESSERA, *RIVALS)}
NOTE = (
    "Mean return of {agents} agents with {episodes} new episodes each, half of its 95% interval, and cells. Minus: "
    "behind Tessera at the 5% level (Welch). Budget: environment steps of learning and selection; where it is too "
    "small for one iteration, nothing was measured and nothing is counted. SPAQL-TS is given the state to hold, with "
    "lambda = 1 in the unit cube. 'Reached by others' are results of RL Baselines3 Zoo, cited, not measured here."
)
SB3_NOTE = (
    " (SB3): agents of Stable-Baselines3 with their default settings, at the same budgets; PPO learns from whole "
    "batches and may play up to 2,047 steps more."
)


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

    There are `sb3_agents` of DQN, PPO and SAC of Stable-Baselines3 on each task, and `agents` of each other variant.
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        agents: int = 20,
        episodes: int = 200,
        variants: Sequence[Variant] = (TESSERA, *RIVALS, TENFOLD),
        tasks: Sequence[Task] = TASKS,
        sb3_agents: int = 0,
    ) -> None:
        self.seed, self.agents, self.episodes, self.sb3_agents = seed, agents, episodes, sb3_agents
        self.variants, self.tasks = [*variants, *(SB3 if sb3_agents else ())], tasks
        self.groups = {
            (variant, task): self._group(variant, task)
            for variant in self.variants
            for task in tasks
            if variant.name != ("DQN" if task.continuous else "SAC")  # PPO learns both kinds of actions
        }
        self.curves: Mapping[tuple[Variant, Task], Curve] = {}

    def _group(self, variant: Variant, task: Task) -> Group:
        problem, count = (task.environment, self.sb3_agents) if variant in SB3 else (task.problem, self.agents)
        parameters = dict(variant.parameters)
        if variant is SPAQL_TS:
            parameters["reference"] = list(task.reference)
        budgets = tuple(int(part * task.budget) for part in OTHER_PARTS.get(variant, PARTS))
        run = Run(problem, {}, variant.algorithm, parameters, 0, 0, self.episodes, budgets=budgets)
        word = SEED_WORDS.get(variant.name, variant.name)
        return Group(task.environment, variant.label, run, seeds_at(count, self.seed, "control", word, task.problem))

    def stages(self, results: Results) -> Iterator[Stage]:
        """All runs at once."""
        yield Stage(list(self.groups.values()))

    def report(self, results: Results) -> Report:
        """One table, and curves over environment steps."""
        names = "evaluation", "cells", "steps"
        self.curves = {
            key: Curve(group.run.budgets, *results.stack(group, *names)) for key, group in self.groups.items()
        }
        return self.report_curves()

    def report_curves(self) -> Report:
        """Table, sentences, figure and data of `curves`."""
        parts = []
        for rival in RIVALS:
            ahead, measured = self.against(rival)
            of_those = "" if measured == len(self.tasks) else f" of the {measured} measured"
            parts.append(f"{rival.label} on {ahead}{of_those}")
        scores = {task: self.curves[TESSERA, task].score() for task in self.tasks}
        goals = [task.environment for task, score in scores.items() if score is not None and score.mean >= task.goal]
        summary = [
            f"Of {len(self.tasks)} problems Tessera is ahead of {', '.join(parts)} (Welch, 5%).",
            f"It reaches the goal on {', '.join(goals)}." if goals else "It reaches none of the goals.",
        ]
        title = f"Classic control; seed {self.seed}; spaql {__version__}"
        note = NOTE.format(agents=self.agents, episodes=self.episodes) + (SB3_NOTE if self.sb3_agents else "")
        under = f"mean of {self.agents} agents in new episodes; bands: 95%"
        sheet = Sheet("Classic control, all steps counted", [self._chart(task) for task in self.tasks], under)
        return Report("control", title, "", summary, [self._table()], note, {"control": sheet}, self._data())

    def standing(self, task: Task, rival: Variant) -> int | None:
        """1 where Tessera is ahead of a rival at the 5% level, -1 where it is behind, else 0; None if not measured."""
        ours, theirs = (self.curves[variant, task].evaluation[:, -1] for variant in (TESSERA, rival))
        if np.isnan(ours).any() or np.isnan(theirs).any():
            return None
        return standing(combination([ours, theirs], [1.0, -1.0]))

    def against(self, rival: Variant) -> tuple[int, int]:
        """On how many tasks Tessera is ahead of a rival, and on how many both were measured."""
        standings = [self.standing(task, rival) for task in self.tasks]
        return standings.count(1), len(standings) - standings.count(None)

    def _table(self) -> Table:
        rows = [[variant.label, *(self._cell(variant, task) for task in self.tasks)] for variant in self.variants]
        rows.append(["reached by others", *(task.cited for task in self.tasks)])
        rows.append(["goal", *(f"{task.goal:g}" for task in self.tasks)])
        return Table(["agent", *(f"{task.environment} {task.budget // 1000}k" for task in self.tasks)], rows)

    def _cell(self, variant: Variant, task: Task) -> str:
        if (variant, task) not in self.curves:
            return ""
        curve = self.curves[variant, task]
        score = curve.score()
        if score is None:
            return "budget too small"
        text = f"{_number(score.mean)} ± {_number(score.half_width)}"
        if variant in SB3:
            return f"{text} ({score.count} seeds)"
        mark = "-" if variant in RIVALS and self.standing(task, variant) == 1 else ""
        cells = curve.cells[:, -1].mean()
        return f"{text}{mark}" + (f", {cells:,.0f}" if cells else "")

    def _data(self) -> dict[str, Any]:
        """All numbers, ready for JSON."""
        rows = []
        for (variant, task), curve in self.curves.items():
            for at, budget in enumerate(curve.budgets):
                score = curve.score(at)
                row = {"agent": variant.name, "problem": task.problem, "budget": budget}
                row |= {name: getattr(score, name, None) for name in ("mean", "low", "high")}
                counts = {"cells": float(curve.cells[:, at].mean()), "steps": float(curve.steps[:, at].mean())}
                rows.append(row | counts)
        against = {rival.name: self.against(rival) for rival in RIVALS}
        sizes = {"spaql": __version__, "seed": self.seed, "agents": self.agents, "episodes": self.episodes}
        return sizes | {
            "ahead": {name: ahead for name, (ahead, _) in against.items()},
            "measured": {name: measured for name, (_, measured) in against.items()},
            "goals": {task.problem: task.goal for task in self.tasks},
            "rows": rows,
        }

    def _chart(self, task: Task) -> Chart:
        """Mean return against environment steps."""
        series, levels = [], []
        for variant in self.variants:
            if variant in (TENFOLD, *SB3):
                continue
            curve = self.curves[variant, task]
            scores = {float(budget): curve.score(at) for at, budget in enumerate(curve.budgets)}
            points = {steps: score for steps, score in scores.items() if score is not None}
            values = list(points.values())
            if variant is RANDOM:
                levels.append(Level(variant.label, values[0].mean, colour=resolve("random").colour or ""))
            elif points:
                series.append(make_series(variant.label, list(points), values, algorithm=variant.algorithm))
        levels.append(Level("goal", task.goal, look="optimum"))
        return Chart(task.environment, "environment steps", "return", tuple(series), tuple(levels))


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}"
