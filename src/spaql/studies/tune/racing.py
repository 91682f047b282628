r"""When a trial is clearly behind the best: racing on intervals, not on one number.

Trials of a batch get a few seeds first, then twice as many, and so on up to all of them.  After each stage but the last
there is a look: with :math:`d` the trial's value minus that of the best so far (Welch, as
`spaql.stats.combination` has it), the trial is stopped where the upper end of a one-sided interval for :math:`d` lies
below zero.  The best so far is whoever has the highest mean: among trials that had all their seeds, and those of its
batch that have come as far as it has.

That best is itself chosen by noisy numbers, out of all trials so far, and there are several looks.  So the chance of a
wrong stop, :math:`\alpha = 1 - \text{confidence}`, is shared by all of them (Bonferroni): with :math:`L` looks and
:math:`m` trials that it might be compared with, each look has the level :math:`\alpha / (L m)`.  Whatever trial is
chosen as the best, the one that is truly best is then stopped with a chance of at most :math:`\alpha`, as far as means
of so few runs are normal.  Trials to come do not count in :math:`m`, so that a tuning can go on for longer without
changing what has been decided.

The value of a trial is its mean score; with several problems the mean over problems of
:math:`(\bar x - \bar x_0) / s_0`, where :math:`\bar x_0` and :math:`s_0` are mean and deviation of the runs with
default parameters, so that no problem counts for more because its scores are larger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from spaql.stats import Estimate, combination

Floats = NDArray[np.float64]
#: scores of the runs of a trial, by problem
Scores = Sequence[Floats]


def stages(first: int, most: int) -> tuple[int, ...]:
    """Seeds that a trial has had after each stage.

    Examples
    --------
    >>> stages(4, 20)
    (4, 8, 16, 20)
    """
    found = []
    while first < most:
        found.append(first)
        first *= 2
    return (*found, most)


@dataclass(frozen=True)
class Measure:
    """How scores on several problems are one number: the mean of (score - centre) / scale."""

    centres: tuple[float, ...]
    scales: tuple[float, ...]

    @classmethod
    def by(cls, default: Scores | None, problems: int) -> Measure:
        """Raw scores of one problem; of several, in deviations of the default's runs, or as they are where it has none.

        Parameters
        ----------
        default
            Scores with default parameters; only needed for several problems.
        problems
            How many there are.
        """
        if problems == 1 or default is None:
            return cls((0.0,) * problems, (1.0,) * problems)
        deviations = [float(np.std(scores, ddof=1)) for scores in default]
        return cls(tuple(float(np.mean(scores)) for scores in default), tuple(each or 1.0 for each in deviations))

    @property
    def weights(self) -> Floats:
        """Of the mean score on each problem."""
        return 1 / (np.array(self.scales) * len(self.scales))

    def value(self, scores: Scores, confidence: float) -> Estimate:
        """The value of a trial with its interval."""
        found = combination(scores, self.weights, confidence)
        shift = float(self.weights @ np.array(self.centres))
        return replace(found, mean=found.mean - shift, low=found.low - shift, high=found.high - shift)

    def difference(self, scores: Scores, others: Scores, confidence: float) -> Estimate:
        """How much larger the first value is, with its interval."""
        return combination([*scores, *others], np.concatenate([self.weights, -self.weights]), confidence)


def level(confidence: float, looks: int, opponents: int) -> float:
    """Chance of a wrong stop at one look: what all looks at all opponents may have together, shared evenly."""
    return (1 - confidence) / (max(1, looks) * max(1, opponents))


def behind(
    racing: Mapping[int, Scores], finished: Mapping[int, Scores], measure: Measure, chance: float
) -> dict[int, int]:
    """Which of the racing trials are clearly behind the best, and behind whom.

    Parameters
    ----------
    racing
        Scores so far of the trials of the batch, by their numbers.
    finished
        Scores of earlier trials that had all their seeds.
    measure
        How scores are one number.
    chance
        Of a wrong stop; see `level`.
    """
    everybody = {**finished, **racing}
    values = {number: measure.value(scores, 0.5).mean for number, scores in everybody.items()}
    if not values:
        return {}
    best = max(values, key=lambda number: (values[number], -number))
    return {
        number: best
        for number, scores in racing.items()
        if number != best and measure.difference(scores, everybody[best], 1 - 2 * chance).high < 0
    }
