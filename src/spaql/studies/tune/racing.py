r"""Racing: a trial is stopped where an interval shows that it is behind the best.

The trials of a batch get a few seeds first, then twice as many, and so on up to all of them.  After each stage but the
last there is a look: with :math:`d` the value of the trial minus that of the best so far (Welch,
`spaql.stats.combination`), the trial is stopped where the upper end of a one-sided interval for :math:`d` is below
zero.  The best so far has the highest mean among the trials with all seeds and those of the same batch and stage.

The best is itself chosen by noisy numbers, and there are several looks.  So the probability of a wrong stop,
:math:`\alpha = 1 - \text{confidence}`, is divided among them (Bonferroni): with :math:`L` looks and :math:`m` trials to
compare with, each look has the level :math:`\alpha / (L m)`.  Later trials do not count in :math:`m`, so that a tuning
can be extended without changing earlier decisions.  docs/tuning.md says what that guarantees.

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
    """The value of a trial on several problems: the mean of (score - centre) / scale."""

    centres: tuple[float, ...]
    scales: tuple[float, ...]

    @classmethod
    def from_defaults(cls, scores: Scores | None, problems: int) -> Objective:
        """Scale by the scores with default parameters; raw scores for one problem, or where there are none."""
        if problems == 1 or scores is None:
            return cls((0.0,) * problems, (1.0,) * problems)
        deviations = [float(np.std(sample, ddof=1)) for sample in scores]
        return cls(tuple(float(np.mean(s)) for s in scores), tuple(deviation or 1.0 for deviation in deviations))

    @property
    def weights(self) -> Floats:
        """Return the weight of the mean score on each problem."""
        return 1 / (np.array(self.scales) * len(self.scales))

    def value(self, scores: Scores, confidence: float) -> Estimate:
        """Return the value of a trial with its interval."""
        total = combination(scores, self.weights, confidence)
        shift = float(self.weights @ np.array(self.centres))
        return replace(total, mean=total.mean - shift, low=total.low - shift, high=total.high - shift)

    def difference(self, scores: Scores, others: Scores, confidence: float) -> Estimate:
        """Return the first value minus the second, with its interval."""
        return combination([*scores, *others], np.concatenate([self.weights, -self.weights]), confidence)


def look_level(confidence: float, looks: int, opponents: int) -> float:
    """Return the probability of a wrong stop at one look at one opponent."""
    return (1 - confidence) / (max(1, looks) * max(1, opponents))


def find_behind(
    racing: Mapping[int, Scores], finished: Mapping[int, Scores], objective: Objective, level: float
) -> dict[int, int]:
    """Find the racing trials of a batch that are behind the best, and return the best by their numbers."""
    scores = {**finished, **racing}
    values = {number: objective.value(sample, 0.5).mean for number, sample in scores.items()}
    best = max(values, key=lambda number: (values[number], -number), default=None)
    return {
        number: best
        for number, sample in racing.items()
        if best is not None and number != best and objective.difference(sample, scores[best], 1 - 2 * level).high < 0
    }
