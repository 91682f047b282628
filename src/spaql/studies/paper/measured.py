"""What the runs say: scores of every group of agents, the scalings they choose, curves and partitions.

The scaling is chosen twice.  *As published*: the best mean of the agents' own final scores, on the very agents that
are then reported.  *Apart*: the best mean fresh score of the tuning agents, which are not reported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spaql.problems.optimum import Optimum, optimum
from spaql.runner.run_spec import Run
from spaql.studies.legacy import Floats, Sample, Study
from spaql.studies.paper.plan import BEYOND, BIAS_ROLLOUTS, BIAS_SCALING, COMPARED, LEARNERS, LONG, Plan, Setting
from spaql.studies.paper.printed import ROLLOUTS
from spaql.viz.charts import Mosaic

Group = tuple[str, str, float | None]  # setting, algorithm, scaling


@dataclass(frozen=True, eq=False)
class Curves:
    """Learning curves of a group of agents."""

    iteration: NDArray[np.int32]  # [points]
    steps: NDArray[np.int64]  # [points] training and selection steps until then
    training_score: Floats  # [agents, points] score of the policy that would be returned, by the agent itself
    cells: Floats  # [agents, points]
    moment: NDArray[np.int32]  # [moments]
    moment_steps: Floats  # [moments]
    evaluation: Floats  # [agents, moments] score of the policy that would be returned, on fresh episodes
    moment_cells: Floats  # [agents, moments]


@dataclass(frozen=True, eq=False)
class Growth:
    """The partition of one agent at one time step, as it grew."""

    algorithm: str
    scaling: float | None
    step: int
    iterations: list[int]
    frames: list[Mosaic]


@dataclass(frozen=True)
class Choice:
    """Scalings of one algorithm on one problem."""

    as_published: float
    apart: float


class Measured:
    """Everything measured, by problem, algorithm and scaling; made by `measure`."""

    def __init__(self, plan: Plan, study: Study) -> None:
        self.plan = plan
        self._study = study
        self._curves: dict[Group, Curves] = {}
        self._growths: dict[tuple[str, str], list[Growth]] = {}

    # Groups of agents ------------------------------------------------------------------------------------------

    @cached_property
    def study(self) -> dict[Group, Sample]:
        """The agents of the tables: all scalings, and for H = 50 those that were chosen."""
        samples: dict[Group, Sample] = {
            (setting.id, algorithm, scaling): self._study.sample(self.plan.study(setting, algorithm, scaling))
            for setting in self.plan.short
            for algorithm in LEARNERS
            for scaling in self.plan.scalings
        }
        for setting, algorithm, scaling in self.chosen_groups:
            if setting.id == LONG:
                samples[setting.id, algorithm, scaling] = self._study.sample(
                    self.plan.curves(setting, algorithm, scaling)
                )
        return samples

    @cached_property
    def choices(self) -> dict[tuple[str, str], Choice]:
        """The scaling of each algorithm on each problem, chosen both ways."""
        chosen = {
            (setting.id, algorithm): Choice(
                self._best(self._mean_own, setting, algorithm), self._best(self._mean_tuning, setting, algorithm)
            )
            for setting in self.plan.short
            for algorithm in LEARNERS
        }
        if any(setting.id == LONG for setting in self.plan.settings):
            chosen |= {(LONG, algorithm): chosen["oil-laplace-1", algorithm] for algorithm in LEARNERS}
        return chosen

    def _best(self, value: Callable[[Setting, str, float], float], setting: Setting, algorithm: str) -> float:
        return max(self.plan.scalings, key=lambda scaling: value(setting, algorithm, scaling))

    def _mean_own(self, setting: Setting, algorithm: str, scaling: float) -> float:
        return float(self._study.sample(self.plan.study(setting, algorithm, scaling)).training_score.mean())

    def _mean_tuning(self, setting: Setting, algorithm: str, scaling: float) -> float:
        return float(self._study.sample(self.plan.tuning(setting, algorithm, scaling)).evaluation.mean())

    @property
    def chosen_groups(self) -> list[tuple[Setting, str, float]]:
        """Every group that was chosen in one way or the other, once."""
        return [
            (setting, algorithm, scaling)
            for setting in self.plan.settings
            for algorithm in LEARNERS
            for scaling in sorted({*vars(self.choices[setting.id, algorithm]).values()})
        ]

    def as_published(self, setting: Setting, algorithm: str) -> Sample:
        """The agents that the paper's way of choosing picks."""
        return self.study[setting.id, algorithm, self.choices[setting.id, algorithm].as_published]

    def apart(self, setting: Setting, algorithm: str) -> Sample:
        """Agents of the scaling that was chosen on other seeds; the default agents have none."""
        if algorithm == BEYOND:
            return self._study.sample(self.plan.beyond(setting))
        return self.study[setting.id, algorithm, self.choices[setting.id, algorithm].apart]

    def baseline(self, setting: Setting, algorithm: str, *, fresh: bool) -> Floats:
        """Mean return of each agent: over N episodes as the paper has it, or over fresh ones."""
        episodes = self.plan.episodes if fresh else ROLLOUTS
        return self._study.sample(self.plan.baseline(setting, algorithm, episodes)).evaluation

    @cached_property
    def bias(self) -> dict[tuple[str, int], Sample]:
        """SPAQL at one scaling by the number of rollouts; empty where that scaling is not in the plan."""
        if BIAS_SCALING not in self.plan.scalings:
            return {}
        return {
            (setting.id, rollouts): self._study.sample(self.plan.bias(setting, rollouts))
            for setting in self.plan.short
            for rollouts in BIAS_ROLLOUTS
        }

    @cached_property
    def optima(self) -> dict[str, Optimum]:
        """The exact optimum of each problem."""
        return {setting.id: optimum(setting.make()) for setting in self.plan.settings}

    # Curves and partitions -------------------------------------------------------------------------------------

    def curves(self, setting: Setting, algorithm: str, scaling: float | None = None) -> Curves:
        """Curves of a chosen group; read once, for figures, findings and page all ask for them.

        Without a scaling it is that of the fresh score.
        """
        if scaling is None and algorithm != BEYOND:
            scaling = self.choices[setting.id, algorithm].apart
        key = setting.id, algorithm, scaling
        if key not in self._curves:
            runs = self.plan.beyond(setting) if scaling is None else self.plan.curves(setting, algorithm, scaling)
            self._curves[key] = self._read_curves(runs)
        return self._curves[key]

    def _read_curves(self, group: Sequence[Run]) -> Curves:
        runs = [self._study.store.arrays(run.id) for run in group]
        first = runs[0]
        names = "training_score", "cells", "evaluation", "moment_cells"
        stacked = {name: np.stack([run[name] for run in runs]).astype(np.float64) for name in names}
        at = np.interp(first["moment"], first["iteration"], first["steps"])
        return Curves(
            iteration=first["iteration"], steps=first["steps"], moment=first["moment"], moment_steps=at, **stacked
        )

    def portrait(self, setting: Setting, algorithm: str) -> Run:
        """The best agent, by its own score and among those chosen as published, to be looked at."""
        if algorithm == BEYOND:  # has no own score
            return self.plan.portrait_beyond(setting)
        scaling = self.choices[setting.id, algorithm].as_published
        best = int(np.argmax(self.study[setting.id, algorithm, scaling].training_score))
        return self.plan.portrait(setting, algorithm, scaling, best)

    def growth(self, setting: Setting, algorithm: str) -> list[Growth]:
        """How the partitions of the best agent grew, by time step; read once, as the curves are."""
        key = setting.id, algorithm
        if key not in self._growths:
            run = self.portrait(setting, algorithm)
            arrays = self._study.store.arrays(run.id)
            self._growths[key] = [_growth(algorithm, run, arrays, step) for step in run.watch]
        return self._growths[key]


def _growth(algorithm: str, run: Run, arrays: dict[str, NDArray[Any]], step: int) -> Growth:
    cells = arrays["frames"][arrays["frames"]["step"] == step]
    played = arrays["policies"][arrays["policies"]["step"] == step]
    iterations = np.unique(cells["iteration"]).tolist()
    frames = []
    for iteration in iterations:
        now, policy = cells[cells["iteration"] == iteration], played[played["iteration"] == iteration]
        frames.append(
            Mosaic(
                np.stack([now["state_low"], now["action_low"]], axis=1),
                np.stack([now["state_high"], now["action_high"]], axis=1),
                now["q"],
                now["visits"],
                now["depth"],
                (np.append(policy["from"], now["state_high"].max()), policy["cell"]),
            )
        )
    scaling = None if algorithm == BEYOND else float(run.parameters["scaling"])
    return Growth(algorithm, scaling, step, iterations, frames)


def measure(plan: Plan, study: Study) -> Measured:
    """Do all runs of the plan that the study does not have."""
    measured = Measured(plan, study)
    first = plan.first()
    study.prepare(first)
    sizes = [sum(run.cost for run in first)]
    # What follows is not known yet, but its size is, nearly: each problem has one or two chosen groups.
    sizes.append(sum(run.cost for s in plan.settings for a in LEARNERS for run in plan.curves(s, a, plan.scalings[0])))
    study.expect(sum(sizes))
    study.perform(first)
    curves = [run for group in measured.chosen_groups for run in plan.curves(*group)]
    # A portrait costs what its original does, whichever agent it will be.
    last = sum(plan.study(s, a, plan.scalings[0])[0].cost for s in plan.settings for a in LEARNERS)
    last += sum(plan.portrait_beyond(setting).cost for setting in plan.settings)
    study.expect(sizes[0] + sum(run.cost for run in curves) + last)
    study.perform(sorted(curves, key=lambda run: -run.cost))
    study.perform([measured.portrait(s, a) for s in plan.settings for a in COMPARED])
    return measured
