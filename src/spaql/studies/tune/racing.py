r"""Racing: a trial is stopped where an interval shows that it is behind the best.

The trials of a batch get a few seeds first, then twice as many, and so on up to all of them.  After each stage but the
last there is a look: with :math:`d` the value of the trial minus that of the best so far (Welch,
`spaql.stats.combination`), the trial is stopped where the upper end of a one-sided interval for :math:`d` is below
zero.  The best so far has the highest mean among the trials with all seeds and those of the same batch and stage.

The probability of a wrong stop, :math:`\alpha = 1 - \text{confidence}`, is divided among looks and opponents
(Bonferroni): with :math:`L` looks and :math:`m` trials to compare with, each look has the level :math:`\alpha / (L m)`.
Later trials do not count in :math:`m`, so that a tuning can be extended without changing earlier decisions.

The value of a trial is its mean score; with several problems the mean over problems of
:math:`(\bar x - \bar x_0) / s_0`, where :math:`\bar x_0` and :math:`s_0` are mean and standard deviation of the runs
with default parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from spaql.stats import Estimate, combination

Floats = NDArray[np.float64]
Scores = Sequence[Floats]  # scores of the runs of a trial, by problem


def stage_sizes(first: int, most: int) -> tuple[int, ...]:
    """Return the number of seeds of a trial after each stage.

    Examples
    --------
    >>> stage_sizes(4, 20)
    (4, 8, 16, 20)
    """
    sizes = []
    while first < most:
        sizes.append(first)
        first *= 2
    return (*sizes, most)


@dataclass(frozen=True)
class Objective:
    """The value of a trial: the weighted sum of its mean scores on all problems, minus the shift."""

    weights: Floats
    shift: float
    confidence: float  # of intervals

    @classmethod
    def from_defaults(cls, scores: Scores, problems: int, confidence: float = 0.95) -> Objective:
        """Scale by the scores with default parameters; raw scores for one problem, or where there are none."""
        scaled = problems > 1 and len(scores) > 0
        scales = np.array([float(np.std(sample, ddof=1)) or 1.0 for sample in scores] if scaled else [1.0] * problems)
        centres = np.array([float(np.mean(sample)) for sample in scores] if scaled else [0.0] * problems)
        weights = 1 / (scales * problems)
        return cls(weights, float(weights @ centres), confidence)

    def value(self, scores: Scores) -> Estimate:
        """Return the value of a trial with its interval."""
        total, shift = combination(scores, self.weights, self.confidence), self.shift
        return replace(total, mean=total.mean - shift, low=total.low - shift, high=total.high - shift)

    def difference(self, scores: Scores, others: Scores) -> Estimate:
        """Return the first value minus the second, with its interval."""
        return combination([*scores, *others], np.concatenate([self.weights, -self.weights]), self.confidence)


def look_level(confidence: float, looks: int, opponents: int) -> float:
    """Return the probability of a wrong stop at one look at one opponent."""
    return (1 - confidence) / (max(1, looks) * max(1, opponents))


def find_behind(
    racing: Mapping[int, Scores], finished: Mapping[int, Scores], objective: Objective, level: float
) -> dict[int, int]:
    """Find the racing trials of a batch that are behind the best, and return the best by their numbers."""
    scores = {**finished, **racing}
    values = {number: objective.value(sample).mean for number, sample in scores.items()}
    best = max(values, key=lambda number: (values[number], -number), default=-1)
    one_sided = replace(objective, confidence=1 - 2 * level)
    return {
        number: best
        for number, sample in racing.items()
        if number != best and one_sided.difference(sample, scores[best]).high < 0
    }
