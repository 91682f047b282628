"""Measurements of the paper's study: scores of every group of agents, chosen scalings, curves and partitions.

The scaling is chosen twice.  *As in the paper*: by the mean training score of the agents that are then reported.
*Separately*: by the mean evaluation of the tuning agents, which are not reported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spaql.agents.registry import resolve
from spaql.problems.optimum import Optimum, optimum
from spaql.runner.run_spec import Run
from spaql.studies.paper.plan import LEARNERS, LONG, Plan, Setting
from spaql.studies.study import Floats, Group, Results
from spaql.viz.charts import Mosaic
from spaql.viz.html import Growth

_PORTRAITS = {
    "aql": "of the agent with the best training score",
    "spaql": "of the agent with the best training score, the partition it would return",
    "tessera": "of the first agent, the partition it would return",
}


@dataclass(frozen=True, eq=False)
class Curves:
    """Learning curves of a group of agents, of the policy that each would return."""

    iteration: NDArray[np.int32]  # [points]
    steps: NDArray[np.int64]  # [points] training and selection steps until then
    moment: NDArray[np.int32]  # [moments]
    moment_steps: Floats  # [moments]
    training_score: Floats  # [agents, points]
    cells: Floats  # [agents, points]
    evaluation: Floats  # [agents, moments]
    moment_cells: Floats  # [agents, moments]

    def x(self, axis: str) -> NDArray[Any]:
        """Iterations or environment steps of the points."""
        return self.iteration if axis == "iterations" else self.steps

    def moment_x(self, axis: str) -> NDArray[Any]:
        """Iterations or environment steps of the moments."""
        return self.moment if axis == "iterations" else self.moment_steps


class Choice(NamedTuple):
    """Scalings of one algorithm on one problem: as the paper chooses, and chosen on other agents."""

    paper: float | None
    separate: float | None


NO_CHOICE = Choice(None, None)


class Measurements:
    """Everything measured, by setting, algorithm and scaling: the results of a plan."""

    def __init__(self, plan: Plan, results: Results) -> None:
        self.plan, self.results = plan, results
        self._curves: dict[tuple[str, str, float | None], Curves] = {}
        self._growths: dict[tuple[str, str], list[Growth]] = {}

    def values(self, group: Group, metric: str = "evaluation") -> Floats:
        """One number per agent, `[agents]`."""
        return self.results.values(group, metric)

    @cached_property
    def choices(self) -> dict[tuple[str, str], Choice]:
        """The scalings of each algorithm on each problem; Tessera has none."""
        choices = {(setting.id, "tessera"): NO_CHOICE for setting in self.plan.settings}

        def best(group: Callable[[Setting, str, float], Group], metric: str) -> float:
            return max(self.plan.scalings, key=lambda x: float(self.values(group(setting, name, x), metric).mean()))

        for setting in self.plan.short:
            for name in LEARNERS:
                paper, separate = best(self.plan.study, "training_score"), best(self.plan.tuning, "evaluation")
                choices[setting.id, name] = Choice(paper, separate)
        if any(setting.id == LONG for setting in self.plan.settings):
            choices |= {(LONG, name): choices["oil-laplace-1", name] for name in LEARNERS}
        return choices

    @property
    def chosen_groups(self) -> list[Group]:
        """Groups with curves of every scaling that was chosen in one way or the other, each once."""
        return [
            self.plan.curves(setting, name, scaling)
            for setting in self.plan.settings
            for name in LEARNERS
            for scaling in sorted({x for x in self.choices[setting.id, name] if x is not None})
        ]

    def as_in_paper(self, setting: Setting, algorithm: str, metric: str = "training_score") -> Floats:
        """Values of the agents that the paper would report, `[agents]`."""
        return self.values(self.plan.curves(setting, algorithm, self.choices[setting.id, algorithm].paper), metric)

    def separate(self, setting: Setting, algorithm: str, metric: str = "evaluation") -> Floats:
        """Values of the agents whose scaling was chosen on other agents, or of Tessera, `[agents]`."""
        return self.values(self.plan.curves(setting, algorithm, self.choices[setting.id, algorithm].separate), metric)

    @cached_property
    def optima(self) -> dict[str, Optimum]:
        """The exact optimum of each problem."""
        return {setting.id: optimum(setting.make()) for setting in self.plan.settings}

    def percent(self, setting: Setting) -> float:
        """The factor that turns a return into percent of the optimum."""
        return 100 / self.optima[setting.id].value

    def curves(self, setting: Setting, algorithm: str, *, paper: bool = False) -> Curves:
        """Curves of the agents whose scaling was chosen separately, or as in the paper; read once."""
        choice = self.choices[setting.id, algorithm]
        scaling = choice.paper if paper else choice.separate
        key = setting.id, algorithm, scaling
        if key not in self._curves:
            group = self.plan.curves(setting, algorithm, scaling)
            (first,) = self.results.arrays(group.first(1), ("iteration", "steps", "moment"))
            at = np.interp(first["moment"], first["iteration"], first["steps"])
            names = "training_score", "cells", "evaluation", "moment_cells"
            axes = first["iteration"], first["steps"], first["moment"], at
            self._curves[key] = Curves(*axes, *self.results.stack(group, *names))
        return self._curves[key]

    def portrait(self, setting: Setting, algorithm: str) -> Group:
        """The agent with the best training score among those that the paper would report; Tessera's first agent."""
        scaling = self.choices[setting.id, algorithm].paper
        best = 0 if scaling is None else int(np.argmax(self.as_in_paper(setting, algorithm)))
        return self.plan.portrait(setting, algorithm, scaling, best)

    def growth(self, setting: Setting, algorithm: str) -> list[Growth]:
        """Partitions of the portrayed agent, by time step; read once."""
        key = setting.id, algorithm
        if key not in self._growths:
            group = self.portrait(setting, algorithm)
            (arrays,) = self.results.arrays(group)
            self._growths[key] = [_growth(group.run, arrays, step) for step in group.run.watch]
        return self._growths[key]


def _growth(run: Run, arrays: dict[str, NDArray[Any]], step: int) -> Growth:
    cells, policies = (arrays[name][arrays[name]["step"] == step] for name in ("frames", "policies"))
    iterations = np.unique(cells["iteration"]).tolist()
    frames = []
    for iteration in iterations:
        now, policy = (rows[rows["iteration"] == iteration] for rows in (cells, policies))
        low, high = (np.stack([now[f"state_{end}"], now[f"action_{end}"]], axis=1) for end in ("low", "high"))
        greedy = np.append(policy["from"], now["state_high"].max()), policy["cell"]
        frames.append(Mosaic(low, high, now["q"], now["visits"], now["depth"], greedy))
    scaling = f" (ξ = {run.parameters['scaling']:g})" if "scaling" in run.parameters else ""
    place = f", time step {step + 1}" if run.algorithm == "aql" else ""
    return Growth(f"{resolve(run.algorithm).label}{scaling}{place}", _PORTRAITS[run.algorithm], iterations, frames)
