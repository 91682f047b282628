"""Rows of the paper's tables: what is printed, what our agents score in the same way, and what they earn.

A row is one algorithm on one problem.  `training_score` is the mean of the agents' own final scores at the scaling that
is best by that same mean, as in the paper: for SPAQL a running maximum, for AQL the last N rollouts.  `evaluation` is
the mean return in new episodes at a scaling chosen on other agents.  A row is *best* where Welch's test at 5% does not
find the other algorithm better, which is how the paper sets its bold type.  Tessera has no scaling and no training
score; it is best where it is behind neither SPAQL nor AQL.  The paper calls cells arms, and Sinclair et al. balls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from spaql.agents.registry import resolve
from spaql.stats import Estimate, mean_interval, welch
from spaql.studies.paper.measurements import NO_CHOICE, Choice, Measurements
from spaql.studies.paper.plan import COMPARED, LEARNERS, Setting
from spaql.studies.paper.printed import ROLLOUTS, Printed
from spaql.studies.study import Floats

SIGNIFICANT = 0.05
REWARD_SLACK = 0.03  # how far a new implementation may be off, beside the intervals
ROUNDING = 0.01  # a printed mean and its half width have two decimals each
CELLS_SLACK = 0.25


@dataclass(frozen=True)
class TableRow:
    """One algorithm on one problem; None where there is no such number."""

    problem: str
    algorithm: str
    printed: Printed | None
    printed_cells: Printed | None
    printed_best: bool | None
    evaluation: Estimate  # at the scaling chosen on other agents
    optimum: float
    training_score: Estimate | None = None  # at the scaling that the paper's rule chooses
    training_score_best: bool | None = None
    paper_evaluation: float | None = None  # of the agents behind the training score
    evaluation_best: bool | None = None
    evaluation_cells: float | None = None  # of the agents behind the evaluation
    cells: Estimate | None = None  # of the agents behind the training score
    steps: Sequence[int] = (0, 0, 0)  # of training, selection and monitoring, per agent
    choice: Choice = NO_CHOICE  # the two scalings
    counterpart: TableRow | None = None  # whose agents reproduce what is printed here; see `find_arrivals`

    @property
    def label(self) -> str:
        """The algorithm's label."""
        return resolve(self.algorithm).label

    @property
    def share(self) -> float:
        """Evaluation over optimum."""
        return float(self.evaluation.mean / self.optimum)

    @property
    def swapped(self) -> bool:
        """Whether agents of another problem reproduce what is printed here."""
        return self.counterpart is not None and self.counterpart.problem != self.problem

    @property
    def reward_gap(self) -> tuple[float, float]:
        """Our training score minus the printed mean, and the wider of the two half widths; only for printed rows."""
        assert self.printed is not None
        assert self.counterpart is not None
        ours = self.counterpart.training_score
        assert ours is not None
        return ours.mean - self.printed.mean, max(self.printed.half_width, ours.half_width)

    def reward_within(self, slack: float) -> bool:
        """Whether our training score and the printed mean differ by no more than the wider interval plus `slack`."""
        difference, half_width = self.reward_gap
        return abs(difference) <= half_width + slack

    @property
    def cells_ratio(self) -> float:
        """Our cells over the printed ones; only for printed rows."""
        assert self.printed_cells is not None
        assert self.counterpart is not None
        assert self.counterpart.cells is not None
        return float(self.counterpart.cells.mean / self.printed_cells.mean)

    def record(self) -> dict[str, Any]:
        """All numbers by name, for CSV and JSON."""
        other = self.counterpart
        score = None if other is None else other.training_score
        interval, printed = ("mean", "low", "high"), ("mean", "half_width")
        return {
            "problem": self.problem,
            "algorithm": self.algorithm,
            **_numbers("printed", self.printed, printed),
            "printed_best": self.printed_best,
            **_numbers("training_score", self.training_score, interval),
            "training_score_best": self.training_score_best,
            "paper_evaluation": self.paper_evaluation,
            **_numbers("evaluation", self.evaluation, interval),
            "evaluation_best": self.evaluation_best,
            "optimum": self.optimum,
            "fraction_of_optimum": self.share,
            **_numbers("cells", self.cells, interval),
            **_numbers("printed_cells", self.printed_cells, printed),
            "evaluation_cells": self.evaluation_cells,
            **dict(zip(("training_steps", "selection_steps", "monitoring_steps"), self.steps, strict=True)),
            "scaling": self.choice.paper,
            "evaluation_scaling": self.choice.separate,
            "agents": self.evaluation.count,
            "counterpart": None if other is None else other.problem,
            "counterpart_training_score": None if score is None else score.mean,
            "counterpart_half_width": None if score is None else score.half_width,
            "counterpart_cells": None if other is None or other.cells is None else other.cells.mean,
        }


def _numbers(name: str, source: Estimate | Printed | None, parts: Sequence[str]) -> dict[str, float | None]:
    """Parts of an estimate by name; the mean has the name itself."""
    names = [name if part == "mean" else f"{name}_{part}" for part in parts]
    return {key: None if source is None else getattr(source, part) for key, part in zip(names, parts, strict=True)}


def around(mean: float, half_width: float) -> Estimate:
    """A number and the half width of its interval, where there is no sample behind them."""
    return Estimate(mean, mean - half_width, mean + half_width, math.nan, 0)


def make_rows(measurements: Measurements) -> list[TableRow]:
    """All rows, problem by problem, in the order of the paper."""
    rows = []
    for setting in measurements.plan.settings:
        rows += [_baseline(measurements, setting, name) for name in setting.baselines]
        rows += [_learner(measurements, setting, name) for name in COMPARED]
    return _with_counterparts(rows)


def _baseline(measurements: Measurements, setting: Setting, name: str) -> TableRow:
    plan = measurements.plan
    groups = [plan.baseline(setting, name, episodes) for episodes in (ROLLOUTS, plan.episodes)]
    score, evaluation = (mean_interval(measurements.values(group)) for group in groups)
    return replace(_row(measurements, setting, name, evaluation), training_score=score)


def _learner(measurements: Measurements, setting: Setting, name: str) -> TableRow:
    paper, separate = measurements.as_in_paper, measurements.separate
    rivals = COMPARED if name == "tessera" else LEARNERS
    kinds = "training_steps", "selection_steps", "monitoring_steps"
    row = replace(
        _row(measurements, setting, name, mean_interval(separate(setting, name))),
        evaluation_best=_is_best(lambda rival: separate(setting, rival), name, rivals),
        cells=mean_interval(paper(setting, name, "cells")),
        evaluation_cells=float(separate(setting, name, "cells").mean()),
        steps=[round(float(paper(setting, name, kind).mean())) for kind in kinds],
        choice=measurements.choices[setting.id, name],
    )
    if name == "tessera":
        return row
    return replace(
        row,
        printed_best=None if setting.printed is None else name in setting.printed.bold,
        training_score=mean_interval(paper(setting, name)),
        training_score_best=_is_best(lambda rival: paper(setting, rival), name, LEARNERS),
        paper_evaluation=float(paper(setting, name, "evaluation").mean()),
    )


def _row(measurements: Measurements, setting: Setting, name: str, evaluation: Estimate) -> TableRow:
    printed = setting.printed.rewards.get(name) if setting.printed else None
    cells = setting.printed.cells.get(name) if setting.printed else None
    return TableRow(setting.id, name, printed, cells, None, evaluation, measurements.optima[setting.id].value)


def _is_best(scores: Callable[[str], Floats], name: str, rivals: Sequence[str]) -> bool:
    """Whether no rival is better by Welch's test."""
    tests = [welch(scores(name), scores(rival)) for rival in rivals if rival != name]
    return all(test.difference >= 0 or test.p_value >= SIGNIFICANT for test in tests)


@dataclass(frozen=True)
class Arrivals:
    """Mean distances of ours to the means printed as Uniform, under Uniform and under Beta arrivals.

    `keys` are problem and algorithm of each printed mean; `half_width` is that of the interval of the difference, and
    generous, for it counts the printed interval in both.
    """

    keys: list[tuple[str, str]]
    uniform: float
    beta: float
    half_width: float

    @property
    def nearer(self) -> str | None:
        """Which arrivals reproduce the rows; None where both fit."""
        if abs(self.uniform - self.beta) <= self.half_width:
            return None
        return "beta" if self.beta < self.uniform else "uniform"


def beta_twin(problem: str) -> str:
    """The same problem with Beta arrivals."""
    return problem.replace("uniform", "beta")


def by_problem(rows: Sequence[TableRow]) -> dict[tuple[str, str], TableRow]:
    """Rows by problem and algorithm."""
    return {(row.problem, row.algorithm): row for row in rows}


def find_arrivals(rows: Sequence[TableRow]) -> Arrivals | None:
    """Compare the rows for which both distributions were run; None where there are none."""
    ours = by_problem(rows)
    distances: dict[str, list[float]] = {"uniform": [], "beta": []}
    keys, widths = [], []
    for row in rows:
        twin = ours.get((beta_twin(row.problem), row.algorithm))
        if row.printed is None or twin is None or twin is row:
            continue
        keys.append((row.problem, row.algorithm))
        for name, each in (("uniform", row), ("beta", twin)):
            assert each.training_score is not None  # a printed row has one
            distances[name].append(abs(each.training_score.mean - row.printed.mean))
            widths += [each.training_score.half_width, row.printed.half_width]
    if not keys:
        return None
    uniform, beta = (float(np.mean(distances[name])) for name in ("uniform", "beta"))
    return Arrivals(keys, uniform, beta, math.hypot(*widths) / len(keys))


def _with_counterparts(rows: Sequence[TableRow]) -> list[TableRow]:
    """Add the rows that reproduce each printed number: Beta's for the Uniform rows, if the comparison says so."""
    arrivals, ours = find_arrivals(rows), by_problem(rows)
    swapped = set(arrivals.keys) if arrivals is not None and arrivals.nearer == "beta" else set()
    paired = []
    for row in rows:
        key = row.problem, row.algorithm
        other = ours[beta_twin(row.problem), row.algorithm] if key in swapped else row
        paired.append(row if row.printed is None else replace(row, counterpart=other))
    return paired
