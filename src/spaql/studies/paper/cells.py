"""The cells of the paper's tables, each with what is printed, what we get scored alike, and what is true.

A cell is one algorithm on one problem.  `as_published` is the mean of the agents' own final scores at the scaling
that is best by that same mean, as in the paper: for SPAQL a running maximum, for AQL the last N rollouts.  `fresh` is
the mean score on new episodes at a scaling chosen on other agents.  A cell is *leading* where Welch's test at 5% does
not find the other learner better, which is how the paper sets its bold type.  The default agent of this library has no
scaling and no score of its own; it leads where it is behind neither of the two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from spaql.stats import Estimate, mean_interval, welch
from spaql.studies.legacy import Sample
from spaql.studies.paper.measured import Measured
from spaql.studies.paper.plan import BEYOND, COMPARED, LABELS, LEARNERS, Setting

SIGNIFICANT = 0.05
REWARD_SLACK = 0.03  # how far a rewrite may be off beside the intervals
ROUNDING = 0.01  # a printed mean and its half width have two decimals each
ARMS_SLACK = 0.25


@dataclass(frozen=True)
class Cell:
    """One algorithm on one problem; None where there is no such number."""

    problem: str
    algorithm: str
    printed: float | None
    printed_half_width: float | None
    printed_leading: bool | None
    as_published: float | None
    as_published_low: float | None
    as_published_high: float | None
    as_published_leading: bool | None
    as_published_fresh: float | None  # the fresh score of the same agents
    fresh: float
    fresh_low: float
    fresh_high: float
    fresh_leading: bool | None
    optimum: float
    fraction_of_optimum: float
    arms: float | None  # of the agents scored as published
    arms_low: float | None
    arms_high: float | None
    printed_arms: float | None
    printed_arms_half_width: float | None
    fresh_arms: float | None  # of the agents behind the fresh score
    training_steps: int
    selection_steps: int
    monitoring_steps: int
    scaling: float | None
    fresh_scaling: float | None
    agents: int
    counterpart: str | None = None  # the problem whose agents reproduce what is printed here: itself, but see finding 2
    counterpart_as_published: float | None = None
    counterpart_half_width: float | None = None
    counterpart_arms: float | None = None

    @property
    def as_published_half_width(self) -> float | None:
        """Half the width of its interval."""
        if self.as_published_low is None or self.as_published_high is None:
            return None
        return (self.as_published_high - self.as_published_low) / 2

    @property
    def label(self) -> str:
        """The algorithm's name in tables."""
        return LABELS[self.algorithm]

    @property
    def reward_difference(self) -> float | None:
        """Ours minus printed."""
        if self.printed is None or self.counterpart_as_published is None:
            return None
        return self.counterpart_as_published - self.printed

    def reward_within(self, slack: float) -> bool | None:
        """Whether ours and the printed mean differ by no more than the wider of the two intervals plus `slack`."""
        if self.reward_difference is None or self.printed_half_width is None or self.counterpart_half_width is None:
            return None
        return abs(self.reward_difference) <= max(self.printed_half_width, self.counterpart_half_width) + slack

    @property
    def arms_ratio(self) -> float | None:
        """Our arms over the printed ones."""
        if self.printed_arms is None or self.counterpart_arms is None:
            return None
        return self.counterpart_arms / self.printed_arms

    @property
    def arms_reproduced(self) -> bool | None:
        """Whether our arms are within a quarter of the printed ones."""
        return None if self.arms_ratio is None else abs(self.arms_ratio - 1) <= ARMS_SLACK


def cells_of(measured: Measured) -> list[Cell]:
    """All cells, problem by problem, in the order of the paper."""
    cells = [
        cell
        for setting in measured.plan.settings
        for cell in (*_baselines(measured, setting), *_learners(measured, setting), _beyond(measured, setting))
    ]
    return _with_counterparts(cells)


@dataclass(frozen=True)
class Arrivals:
    """How far the rows printed as Uniform are from ours under two laws of arrivals.

    Attributes
    ----------
    keys
        Problem and algorithm of each printed mean.
    uniform, beta
        Mean distance of ours to the printed means under Uniform and under Beta arrivals.
    half_width
        Of the interval of their difference; generous, for it counts the printed interval in both.
    """

    keys: list[tuple[str, str]]
    uniform: float
    beta: float
    half_width: float

    @property
    def nearer(self) -> str | None:
        """Which arrivals reproduce the rows, or None where that cannot be told."""
        if abs(self.uniform - self.beta) <= self.half_width:
            return None
        return "beta" if self.beta < self.uniform else "uniform"


def beta_twin(problem: str) -> str:
    """The same problem with Beta arrivals."""
    return problem.replace("uniform", "beta")


def arrivals_of(cells: Sequence[Cell]) -> Arrivals | None:
    """The comparison, over the rows for which both laws were run; None where there is none."""
    ours = {(cell.problem, cell.algorithm): cell for cell in cells}
    off: dict[str, list[float]] = {"uniform": [], "beta": []}
    keys, widths = [], []
    for cell in cells:
        twin = ours.get((beta_twin(cell.problem), cell.algorithm))
        if cell.printed is None or cell.printed_half_width is None or twin in (None, cell):
            continue
        keys.append((cell.problem, cell.algorithm))
        for name, each in (("uniform", cell), ("beta", twin)):
            assert each is not None
            assert each.as_published is not None  # what is printed is scored alike
            assert each.as_published_half_width is not None
            off[name].append(abs(each.as_published - cell.printed))
            widths += [each.as_published_half_width, cell.printed_half_width]
    if not keys:
        return None
    return Arrivals(keys, float(np.mean(off["uniform"])), float(np.mean(off["beta"])), math.hypot(*widths) / len(keys))


def _with_counterparts(cells: list[Cell]) -> list[Cell]:
    """Say which agents reproduce each printed number: Beta's for the Uniform rows, where the comparison says so."""
    found = arrivals_of(cells)
    swapped = set(found.keys) if found is not None and found.nearer == "beta" else set()
    ours = {(cell.problem, cell.algorithm): cell for cell in cells}
    paired = []
    for cell in cells:
        if cell.printed is not None:
            key = cell.problem, cell.algorithm
            other = ours[beta_twin(cell.problem), cell.algorithm] if key in swapped else cell
            cell = replace(
                cell,
                counterpart=other.problem,
                counterpart_as_published=other.as_published,
                counterpart_half_width=other.as_published_half_width,
                counterpart_arms=other.arms,
            )
        paired.append(cell)
    return paired


def _learners(measured: Measured, setting: Setting) -> list[Cell]:
    published = {algorithm: measured.as_published(setting, algorithm) for algorithm in LEARNERS}
    apart = {algorithm: measured.apart(setting, algorithm) for algorithm in LEARNERS}
    return [
        _cell(
            measured,
            setting,
            algorithm,
            mean_interval(published[algorithm].training_score),
            mean_interval(apart[algorithm].evaluation),
            as_published_leading=_leads(published, algorithm, LEARNERS, "training_score"),
            as_published_fresh=float(published[algorithm].evaluation.mean()),
            fresh_leading=_leads(apart, algorithm, LEARNERS, "evaluation"),
            arms=mean_interval(published[algorithm].cells),
            fresh_arms=float(apart[algorithm].cells.mean()),
            sample=published[algorithm],
        )
        for algorithm in LEARNERS
    ]


def _baselines(measured: Measured, setting: Setting) -> list[Cell]:
    return [
        _cell(
            measured,
            setting,
            algorithm,
            mean_interval(measured.baseline(setting, algorithm, fresh=False)),
            mean_interval(measured.baseline(setting, algorithm, fresh=True)),
        )
        for algorithm in setting.baselines
    ]


def _beyond(measured: Measured, setting: Setting) -> Cell:
    samples = {algorithm: measured.apart(setting, algorithm) for algorithm in COMPARED}
    ours = samples[BEYOND]
    return _cell(
        measured,
        setting,
        BEYOND,
        None,
        mean_interval(ours.evaluation),
        fresh_leading=_leads(samples, BEYOND, COMPARED, "evaluation"),
        arms=mean_interval(ours.cells),
        fresh_arms=float(ours.cells.mean()),
        sample=ours,
    )


def _leads(samples: dict[str, Sample], algorithm: str, rivals: Sequence[str], score: str) -> bool:
    """Whether no rival is better by Welch's test."""
    own = getattr(samples[algorithm], score)
    tests = [welch(own, getattr(samples[rival], score)) for rival in rivals if rival != algorithm]
    return all(test.difference >= 0 or test.p_value >= SIGNIFICANT for test in tests)


def _cell(
    measured: Measured,
    setting: Setting,
    algorithm: str,
    as_published: Estimate | None,
    fresh: Estimate,
    *,
    as_published_leading: bool | None = None,
    as_published_fresh: float | None = None,
    fresh_leading: bool | None = None,
    arms: Estimate | None = None,
    fresh_arms: float | None = None,
    sample: Sample | None = None,
) -> Cell:
    printed = setting.printed.rewards.get(algorithm) if setting.printed else None
    printed_arms = setting.printed.arms.get(algorithm) if setting.printed else None
    best = measured.optima[setting.id].value
    choice = measured.choices.get((setting.id, algorithm))
    steps = [0, 0, 0]
    if sample is not None:
        kinds = sample.training_steps, sample.selection_steps, sample.monitoring_steps
        steps = [round(float(np.mean(values))) for values in kinds]
    return Cell(
        problem=setting.id,
        algorithm=algorithm,
        printed=printed.mean if printed else None,
        printed_half_width=printed.half_width if printed else None,
        printed_leading=algorithm in setting.printed.bold if setting.printed and algorithm in LEARNERS else None,
        as_published=as_published.mean if as_published else None,
        as_published_low=as_published.low if as_published else None,
        as_published_high=as_published.high if as_published else None,
        as_published_leading=as_published_leading,
        as_published_fresh=as_published_fresh,
        fresh=fresh.mean,
        fresh_low=fresh.low,
        fresh_high=fresh.high,
        fresh_leading=fresh_leading,
        optimum=best,
        fraction_of_optimum=fresh.mean / best,
        arms=arms.mean if arms else None,
        arms_low=arms.low if arms else None,
        arms_high=arms.high if arms else None,
        printed_arms=printed_arms.mean if printed_arms else None,
        printed_arms_half_width=printed_arms.half_width if printed_arms else None,
        fresh_arms=fresh_arms,
        training_steps=steps[0],
        selection_steps=steps[1],
        monitoring_steps=steps[2],
        scaling=choice.as_published if choice else None,
        fresh_scaling=choice.apart if choice else None,
        agents=fresh.count,
    )
