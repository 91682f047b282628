"""The study `spaql control`: classic control, with all steps counted, and every score from new episodes.

Tessera, and agents of Stable-Baselines3, learn and are evaluated on five environments of Gymnasium; each has the budget
of environment steps that RL Baselines3 Zoo gave to the agent cited beside it.  A learning curve is one agent evaluated
at parts of its budget.  SPAQL, SPAQL-TS, AQL and Random play the same problems compiled (`spaql.problems.control`), and
so does Tessera where the actuator is noisy.  Each algorithm has one configuration for all.  Rewards are not rescaled:
SPAQL and AQL are made for 0 to 1 per step, which no linear change of these rewards gives without changing the value of
an early end.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from spaql._version import __version__
from spaql.agents.registry import resolve
from spaql.formatting import Table
from spaql.runner.run_spec import Run, seeds_at
from spaql.stats import Estimate, combination, mean_interval
from spaql.studies.study import Floats, Group, Report, Results, Sheet, Stage, Study, make_series, standing
from spaql.studies.variants import AQL, RANDOM, SEED_WORDS, SPAQL, TESSERA, Column, Size, Variant
from spaql.viz.charts import Chart, Level

PARTS = (0.05, 0.1, 0.25, 0.5, 1.0)  # of the budget
NOISE = 0.5  # of an action's effect
EPISODES = 200  # of an evaluation


@dataclass(frozen=True)
class Task:
    """A problem, its budget, the result cited beside it, the goal, what Random earns, and the reference of SPAQL-TS."""

    problem: str
    environment: str
    budget: int
    cited: str
    goal: float
    random: float
    reference: tuple[float, ...]
    continuous: bool = False  # its actions


TASKS = (
    Task("cartpole", "CartPole-v1", 50_000, "500 (DQN, 50k)", 475.0, 22.4, (0.0, 0.0, 0.0, 0.0)),
    Task("mountaincar", "MountainCar-v0", 120_000, "-100.8 (DQN, 120k)", -110.0, -200.0, (0.5, 0.0)),
    Task(
        "mountaincar-continuous", "MountainCarContinuous-v0", 50_000, "94.7 (SAC, 50k)", 90.0, -33.2, (0.45, 0.0), True
    ),
    Task("acrobot", "Acrobot-v1", 100_000, "-76.6 (DQN, 100k)", -100.0, -499.0, (-1.0, 0.0, 1.0, 0.0, 0.0, 0.0)),
    Task(
        "pendulum", "Pendulum-v1", 20_000, "-157 (SAC, 20k), -172 (PPO, 100k)", -200.0, -1225.0, (1.0, 0.0, 0.0), True
    ),
)


def control_columns(size: Size, part: float, noise: float = 0.0) -> list[Column]:
    """The compiled problems, with a part of their budgets; shares are those of the way from Random to the goal."""
    name, label, arguments = ("-noise", "noisy ", {"noise": noise}) if noise else ("", "", {})
    return [
        Column(
            task.problem + name,
            label + task.environment,
            task.problem,
            [arguments],
            int(size.part * part * task.budget),
            size.control,
            min(size.episodes, EPISODES),
            levels=(task.random, task.goal),
        )
        for task in TASKS
    ]


SPAQL_TS = Variant("spaql-ts", "spaql-ts", {"radius": 1.0})
NOISY = Variant("tessera-noise", "tessera")
RIVALS = (SPAQL, SPAQL_TS, AQL, RANDOM)
_NETWORK = {"policy": "MlpPolicy", "device": "cpu"}
SB3 = tuple(Variant(name, f"stable_baselines3:{name}", _NETWORK, f"{name} (SB3)") for name in ("DQN", "PPO", "SAC"))
FULL_BUDGET_ONLY = (RANDOM, NOISY, *SB3)
BEFORE = Path(__file__).with_name("control_before.json")  # results of Tessera before it learned a model; see there
QUICK = {"agents": 3, "episodes": 20}
NOTE = (
    "Mean return of {agents} agents with {episodes} new episodes each, half of its 95% interval, and cells: of Tessera "
    "the leaves of its tree. Minus: behind Tessera at the 5% level (Welch). Budget: environment steps of learning, "
    "selection and warm-up; where it is too small for one iteration, nothing was measured and nothing is counted. "
    "Tessera learns and is evaluated on the environments of Gymnasium, the others on compiled problems that equal them "
    "step by step. SPAQL-TS is given the state to hold, with lambda = 1 in the unit cube. 'Tessera before the model' "
    "are 20 agents of an earlier version, on the compiled problems. 'Reached by others' are results of RL Baselines3 "
    "Zoo, cited, not measured here."
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

    @property
    def falls(self) -> list[int]:
        """The budgets at which the mean return is below that at the budget before, at the 5% level, paired by agent."""
        pairs = pairwise(self.evaluation.T)
        changes = [None if np.isnan(pair).any() else mean_interval(pair[1] - pair[0]) for pair in pairs]
        return [b for b, change in zip(self.budgets[1:], changes, strict=True) if change and standing(change) == -1]


class Control(Study):
    """Tessera and the algorithms of the literature on classic control.

    There are `sb3_agents` of DQN, PPO and SAC of Stable-Baselines3 on each task, and `agents` of each other variant.
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        agents: int = 20,
        episodes: int = EPISODES,
        variants: Sequence[Variant] = (TESSERA, *RIVALS, NOISY),
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
        rows = json.loads(BEFORE.read_text(encoding="utf-8"))["rows"]
        self.before = {(row["problem"], row["noise"]): row for row in rows}

    def _group(self, variant: Variant, task: Task) -> Group:
        gymnasium, noisy = variant in (TESSERA, *SB3), variant is NOISY
        count = self.sb3_agents if variant in SB3 else self.agents
        parameters = dict(variant.parameters)
        if variant is SPAQL_TS:
            parameters["reference"] = list(task.reference)
        parts = (1.0,) if variant in FULL_BUDGET_ONLY else PARTS
        run = Run(
            task.environment if gymnasium else task.problem,
            {"noise": NOISE} if noisy else {},
            variant.algorithm,
            parameters,
            seed=0,
            iterations=0,
            episodes=self.episodes,
            budgets=tuple(int(part * task.budget) for part in parts),
        )
        seeds = seeds_at(count, self.seed, "control", SEED_WORDS.get(variant.name, variant.name), task.problem)
        return Group(f"{task.environment}, noise {NOISE}" if noisy else task.environment, variant.label, run, seeds)

    def stages(self, results: Results) -> Iterator[Stage]:
        """All runs at once."""
        yield Stage(list(self.groups.values()))

    def report(self, results: Results) -> Report:
        """Tables, and curves over environment steps."""
        names = "evaluation", "cells", "steps"
        self.curves = {
            key: Curve(group.run.budgets, *results.stack(group, *names)) for key, group in self.groups.items()
        }
        return self.report_curves()

    def report_curves(self) -> Report:
        """Tables, sentences, figure and data of `curves`."""
        parts = []
        for rival in RIVALS:
            ahead, measured = self.against(rival)
            of_those = "" if measured == len(self.tasks) else f" of the {measured} measured"
            parts.append(f"{rival.label} on {ahead}{of_those}")
        ours = {task: self.curves[TESSERA, task] for task in self.tasks}
        scores = {task.environment: (curve.score(), task.goal) for task, curve in ours.items()}
        goals = [name for name, (score, goal) in scores.items() if score is not None and score.mean >= goal]
        falls = [f"on {task.environment} at {budget:,} steps" for task, curve in ours.items() for budget in curve.falls]
        summary = [
            f"Of {len(self.tasks)} problems Tessera is ahead of {', '.join(parts)} (Welch, 5%).",
            f"It reaches the goal on {', '.join(goals)}." if goals else "It reaches none of the goals.",
            f"From one budget to the next its mean return falls {' and '.join(falls)} (5%, paired by agent)."
            if falls
            else "More data never hurts: its mean return falls from no budget to the next (5%, paired by agent).",
        ]
        tables = [self._table(), self._budgets()]
        if NOISY in self.variants:
            ahead, behind = (list(self.noise_standings.values()).count(sign) for sign in (1, -1))
            summary.append(
                f"With noise on the actuator it is ahead of Tessera before the model on {ahead} of {len(self.tasks)} "
                f"problems and behind on {behind} (Welch, 5%)."
            )
            tables.append(self._noise())
        title = f"Classic control; seed {self.seed}; spaql {__version__}"
        note = NOTE.format(agents=self.agents, episodes=self.episodes) + (SB3_NOTE if self.sb3_agents else "")
        under = f"mean of {self.agents} agents in new episodes; bands: 95%"
        sheet = Sheet("Classic control, all steps counted", [self._chart(task) for task in self.tasks], under)
        return Report("control", title, "", summary, tables, note, {"control": sheet}, self._data())

    def standing(self, task: Task, rival: Variant) -> int | None:
        """1 where Tessera is ahead of a rival at the 5% level, -1 where it is behind, else 0; None if not measured."""
        return _compare(*(self.curves[variant, task].evaluation[:, -1] for variant in (TESSERA, rival)))

    def against(self, rival: Variant) -> tuple[int, int]:
        """On how many tasks Tessera is ahead of a rival, and on how many both were measured."""
        standings = [self.standing(task, rival) for task in self.tasks]
        return standings.count(1), len(standings) - standings.count(None)

    @property
    def noise_standings(self) -> dict[Task, int | None]:
        """The same with noise on the actuator, and Tessera before the model as the rival."""
        rivals = {task: np.array(self.before[task.problem, NOISE]["evaluations"]) for task in self.tasks}
        return {task: _compare(self.curves[NOISY, task].evaluation[:, -1], rival) for task, rival in rivals.items()}

    def _table(self) -> Table:
        shown = [variant for variant in self.variants if variant is not NOISY]
        rows = [[variant.label, *(self._cell(variant, task) for task in self.tasks)] for variant in shown]
        rows.insert(1, ["Tessera before the model", *(self._earlier(task, 0.0) for task in self.tasks)])
        rows.append(["reached by others", *(task.cited for task in self.tasks)])
        rows.append(["goal", *(f"{task.goal:g}" for task in self.tasks)])
        return Table(["agent", *(f"{task.environment} {task.budget // 1000}k" for task in self.tasks)], rows)

    def _budgets(self) -> Table:
        rows = []
        for task in self.tasks:
            curve = self.curves[TESSERA, task]
            for at, budget in enumerate(curve.budgets):
                score, cells, at_goal = (
                    curve.score(at),
                    curve.cells[:, at],
                    np.sum(curve.evaluation[:, at] >= task.goal),
                )
                if score is not None:
                    leaves = f"{cells.mean():.0f}", f"{cells.max():.0f}"
                    row = [task.environment, f"{budget:,}", _interval(score), *leaves, f"{at_goal} of {score.count}"]
                    rows.append(row)
        header = ["environment", "steps", "return", "leaves, mean", "leaves, most", "agents at the goal"]
        return Table(header, rows, "Tessera at parts of the budget", sections=True)

    def _noise(self) -> Table:
        rows = [
            [task.environment, f"{task.budget:,}", self._cell(NOISY, task), self._earlier(task, NOISE)]
            for task in self.tasks
        ]
        caption = f"With noise on the actuator, {NOISE:g} of an action's effect at every step"
        note = "Compiled problems. Plus: ahead of Tessera before the model at the 5% level (Welch); minus: behind it."
        return Table(["environment", "steps", "Tessera", "Tessera before the model"], rows, caption, note)

    def _earlier(self, task: Task, noise: float) -> str:
        row = self.before[task.problem, noise]
        return f"{_interval(mean_interval(row['evaluations']))}, {row['cells']:.0f}"

    def _cell(self, variant: Variant, task: Task) -> str:
        if (variant, task) not in self.curves:
            return ""
        curve = self.curves[variant, task]
        score = curve.score()
        if score is None:
            return "budget too small"
        text = _interval(score)
        if variant in SB3:
            return f"{text} ({score.count} seeds)"
        mark = "-" if variant in RIVALS and self.standing(task, variant) == 1 else ""
        if variant is NOISY:
            mark = {1: "+", -1: "-"}.get(self.noise_standings[task] or 0, "")
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
                row |= {"agents_at_goal": int(np.sum(curve.evaluation[:, at] >= task.goal))}
                row |= {"cells": float(curve.cells[:, at].mean()), "cells_max": float(curve.cells[:, at].max())}
                rows.append(row | {"steps": float(curve.steps[:, at].mean())})
        against = {rival.name: self.against(rival) for rival in RIVALS}
        sizes = {"spaql": __version__, "seed": self.seed, "agents": self.agents, "episodes": self.episodes}
        return sizes | {
            "ahead": {name: ahead for name, (ahead, _) in against.items()},
            "measured": {name: measured for name, (_, measured) in against.items()},
            "falls": {task.problem: self.curves[TESSERA, task].falls for task in self.tasks},
            "goals": {task.problem: task.goal for task in self.tasks},
            "rows": rows,
            "before": list(self.before.values()),
        }

    def _chart(self, task: Task) -> Chart:
        """Mean return against environment steps."""
        series, levels = [], []
        for variant in self.variants:
            if variant in (NOISY, *SB3):
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


def _compare(ours: Floats, theirs: Floats) -> int | None:
    """1 where our mean is the larger at the 5% level (Welch), -1 where it is the smaller, else 0; None for NaN."""
    if np.isnan(ours).any() or np.isnan(theirs).any():
        return None
    return standing(combination([ours, theirs], [1.0, -1.0]))


def _interval(score: Estimate) -> str:
    return f"{score.mean:z.1f} ± {score.half_width:.1f}"
