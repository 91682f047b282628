"""Measurements of the paper's study: chosen scalings, rows of numbers, curves and partitions.

The scaling is chosen twice.  *As in the paper*: by the mean training score of the agents that are then reported.
*Separately*: by the mean evaluation of the tuning agents, which are not reported.

A row is one algorithm on one problem, a line of `tables.csv`; None where there is no such number.  `training_score` is
the mean of the agents' own final scores at the scaling that is best by that same mean, as in the paper: for SPAQL a
running maximum, for AQL the last N rollouts.  `evaluation` is the mean return in new episodes at a scaling chosen on
other agents, with `evaluation_cells`; `cells` and steps are those of the agents behind the training score, and so is
`paper_evaluation`.  A row is *best* where Welch's test at 5% does not find the other algorithm better, which is how the
paper sets its bold type.  Tessera has no scaling and no training score; it is best where it is behind neither SPAQL nor
AQL.  `counterpart` is the problem whose agents reproduce what is printed, see `compare_arrivals`.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spaql.agents.registry import resolve
from spaql.problems.optimum import Optimum, optimum
from spaql.runner.run_spec import Run
from spaql.stats import combination, mean_interval
from spaql.studies.paper.plan import COMPARED, LEARNERS, LONG, Plan, Setting
from spaql.studies.paper.printed import ROLLOUTS
from spaql.studies.study import Floats, Group, Results, standing, to_fields
from spaql.viz.charts import Mosaic
from spaql.viz.html import Growth

TableRow = dict[str, Any]
Rows = Mapping[tuple[str, str], TableRow]  # by problem and algorithm

_COUNTERPART = ("counterpart", "counterpart_training_score", "counterpart_half_width", "counterpart_cells")
_ACTIONS = 0.0, 1.0  # range of the actions of the paper's problems
_PORTRAITS = {
    "aql": "of the agent with the best training score",
    "spaql": "of the agent with the best training score, the partition it would return",
    "tessera": "of the first agent, the partition it would return",
}


class Choice(NamedTuple):
    """Scalings of one algorithm on one problem: as the paper chooses, and chosen on other agents."""

    paper: float | None = None
    separate: float | None = None


class Measurements:
    """Everything measured, by setting, algorithm and scaling: the results of a plan."""

    def __init__(self, plan: Plan, results: Results) -> None:
        self.plan, self.results, self.values = plan, results, results.values
        self._curves: dict[tuple[str, str, float | None], dict[str, NDArray[Any]]] = {}

    @cached_property
    def choices(self) -> dict[tuple[str, str], Choice]:
        """The scalings of each algorithm on each problem; Tessera has none."""
        choices = {(setting.id, "tessera"): Choice() for setting in self.plan.settings}

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
        chosen = []
        for setting, name in itertools.product(self.plan.settings, LEARNERS):
            scalings = sorted({x for x in self.choices[setting.id, name] if x is not None})
            chosen += [self.plan.curves(setting, name, scaling) for scaling in scalings]
        return chosen

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

    @cached_property
    def rows(self) -> Rows:
        """All rows, problem by problem, in the order of the paper."""
        rows = {(s.id, name): self._row(s, name) for s in self.plan.settings for name in (*s.baselines, *COMPARED)}
        arrivals = compare_arrivals(rows)
        for (problem, name), row in rows.items():
            if row["printed"] is not None:
                swapped = arrivals is not None and arrivals.nearer == "beta"
                other = rows.get((beta_twin(problem), name), row) if swapped else row
                values = other["problem"], other["training_score"], half_width(other, "training_score"), other["cells"]
                row.update(zip(_COUNTERPART, values, strict=True))
        return rows

    def _row(self, setting: Setting, name: str) -> TableRow:
        plan, printed, best = self.plan, setting.printed, self.optima[setting.id].value
        paper, separate = (partial(sample, setting) for sample in (self.as_in_paper, self.separate))
        learned, in_paper = name in COMPARED, name in LEARNERS
        if learned:
            evaluation, cells = mean_interval(separate(name)), mean_interval(paper(name, "cells"))
            score = mean_interval(paper(name)) if in_paper else None
        else:
            groups = [plan.baseline(setting, name, episodes) for episodes in (ROLLOUTS, plan.episodes)]
            score, evaluation, cells = (*(mean_interval(self.values(group)) for group in groups), None)
        choice = self.choices[setting.id, name] if learned else Choice()
        return {
            "problem": setting.id,
            "algorithm": name,
            **to_fields("printed", printed and printed.rewards.get(name), ("mean", "half_width")),
            "printed_best": name in printed.bold if printed and in_paper else None,
            **to_fields("training_score", score),
            "training_score_best": _is_best(paper, name, LEARNERS) if in_paper else None,
            "paper_evaluation": float(paper(name, "evaluation").mean()) if in_paper else None,
            **to_fields("evaluation", evaluation),
            "evaluation_best": _is_best(separate, name, LEARNERS if in_paper else COMPARED) if learned else None,
            "optimum": best,
            "fraction_of_optimum": evaluation.mean / best,
            **to_fields("cells", cells),
            **to_fields("printed_cells", printed and printed.cells.get(name), ("mean", "half_width")),
            "evaluation_cells": float(separate(name, "cells").mean()) if learned else None,
            **{
                f"{kind}_steps": round(float(paper(name, f"{kind}_steps").mean())) if learned else 0
                for kind in ("training", "selection", "monitoring")
            },
            "scaling": choice.paper,
            "evaluation_scaling": choice.separate,
            "agents": evaluation.count,
            **dict.fromkeys(_COUNTERPART),
        }

    def curves(self, setting: Setting, algorithm: str, *, paper: bool = False) -> dict[str, NDArray[Any]]:
        """Learning curves of the agents whose scaling was chosen separately, or as in the paper; read once.

        `training_score` and `cells` are `[agents, points]`, at each `iteration` with the `steps` of training and
        selection until then; `evaluation` and `moment_cells` are `[agents, moments]`, of the policy that each agent
        would return, at each `moment` with its `moment_steps`.
        """
        choice = self.choices[setting.id, algorithm]
        scaling = choice.paper if paper else choice.separate
        key = setting.id, algorithm, scaling
        if key not in self._curves:
            group = self.plan.curves(setting, algorithm, scaling)
            first = self.results.store.arrays(group.ids[0], ("iteration", "steps", "moment"))
            names = "training_score", "cells", "evaluation", "moment_cells"
            curves = dict(zip(names, self.results.stack(group, *names), strict=True))
            curves["moment_steps"] = np.interp(first["moment"], first["iteration"], first["steps"])
            self._curves[key] = first | curves
        return self._curves[key]

    def portrait(self, setting: Setting, algorithm: str) -> Group:
        """The agent with the best training score among those that the paper would report; Tessera's first agent."""
        scaling = self.choices[setting.id, algorithm].paper
        best = 0 if scaling is None else int(np.argmax(self.as_in_paper(setting, algorithm)))
        return self.plan.portrait(setting, algorithm, scaling, best)

    @cached_property
    def growths(self) -> dict[tuple[str, str], list[Growth]]:
        """Partitions of the portrayed agents by problem and algorithm, and by time step."""
        portraits = {(s.id, name): self.portrait(s, name) for s in self.plan.settings for name in COMPARED}
        return {
            key: [_growth(group.run, self.results.arrays(group)[0], step) for step in group.run.watch]
            for key, group in portraits.items()
        }


def _growth(run: Run, arrays: dict[str, NDArray[Any]], step: int) -> Growth:
    cells, policies = (arrays[name][arrays[name]["step"] == step] for name in ("frames", "policies"))
    iterations = np.unique(cells["iteration"]).tolist()
    frames = []
    for iteration in iterations:
        now, policy = (rows[rows["iteration"] == iteration] for rows in (cells, policies))
        low, high = (np.stack([now[f"state_{end}"], now[f"action_{end}"]], axis=1) for end in ("low", "high"))
        greedy = np.append(policy["from"], now["state_high"].max()), policy["cell"]
        frames.append(Mosaic(low, high, now["q"], now["visits"], now["depth"], greedy, _ACTIONS))
    scaling = f" (ξ = {run.parameters['scaling']:g})" if "scaling" in run.parameters else ""
    place = f", time step {step + 1}" if run.algorithm == "aql" else ""
    return Growth(f"{resolve(run.algorithm).label}{scaling}{place}", _PORTRAITS[run.algorithm], iterations, frames)


def _is_best(scores: Callable[[str], Floats], name: str, rivals: Iterable[str]) -> bool:
    """Whether no rival is better by Welch's test."""
    samples = [[scores(name), scores(rival)] for rival in rivals if rival != name]
    return all(standing(combination(pair, [1, -1])) >= 0 for pair in samples)


def half_width(row: TableRow, name: str) -> float:
    """Half the width of an interval of a row."""
    return float(row[f"{name}_high"] - row[f"{name}_low"]) / 2


def is_swapped(row: TableRow) -> bool:
    """Whether agents of another problem reproduce what is printed in a row."""
    return row["counterpart"] not in (None, row["problem"])


class Arrivals(NamedTuple):
    """Mean distances of ours to the means printed as Uniform, under Uniform and under Beta arrivals.

    `keys` are problem and algorithm of each printed mean; `half_width` is that of the interval of the difference, and
    generous, for it counts the printed interval in both.  `nearer` is empty where both fit.
    """

    keys: list[tuple[str, str]]
    uniform: float
    beta: float
    half_width: float
    nearer: str


def beta_twin(problem: str) -> str:
    """The same problem with Beta arrivals."""
    return problem.replace("uniform", "beta")


def compare_arrivals(rows: Rows) -> Arrivals | None:
    """Compare the rows for which both distributions were run; None where there are none."""
    twins = {
        key: (row, rows[beta_twin(key[0]), key[1]])
        for key, row in rows.items()
        if row["printed"] is not None and beta_twin(key[0]) != key[0] and (beta_twin(key[0]), key[1]) in rows
    }
    if not twins:
        return None
    uniform, beta = (
        float(np.mean([abs(pair[at]["training_score"] - pair[0]["printed"]) for pair in twins.values()]))
        for at in (0, 1)
    )
    widths = []
    for pair in twins.values():
        for row in pair:
            widths += [half_width(row, "training_score"), pair[0]["printed_half_width"]]
    either = math.hypot(*widths) / len(twins)
    nearer = "" if abs(uniform - beta) <= either else "beta" if beta < uniform else "uniform"
    return Arrivals(list(twins), uniform, beta, either, nearer)
