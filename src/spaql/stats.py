r"""Statistics of results: arrays in, small named results out.

Mean of :math:`n` independent values (Student, 1908).  With the sample deviation
:math:`s^2 = \sum_i (x_i - \bar x)^2 / (n - 1)` and :math:`t` the quantile of Student's distribution,

.. math:: \bar x \pm t_{n-1,\,1-\alpha/2} \; s / \sqrt{n}

Difference of two means with unequal variances (Welch, 1947).  With :math:`v_a = s_a^2 / n_a`, :math:`v_b` alike,

.. math:: T = \frac{\bar a - \bar b}{\sqrt{v_a + v_b}}, \qquad
          \nu = \frac{(v_a + v_b)^2}{v_a^2 / (n_a - 1) + v_b^2 / (n_b - 1)}

Many tests at once (Holm, 1979).  With :math:`p_{(1)} \le \dots \le p_{(m)}`, the adjusted value of the i-th is
:math:`\max_{j \le i} \min(1, (m - j + 1)\, p_{(j)})`; rejecting where it is at most :math:`\alpha` keeps the chance
of even one false rejection below :math:`\alpha`, whatever the dependence between the tests.

The interquartile mean is the mean of the middle half of the data.  Value i of the sorted data owns the mass
:math:`[i/n, (i+1)/n]` and weighs as much of it as lies in :math:`[1/4, 3/4]`, so any n works.  In a bootstrap resample
(Efron, 1979) it owns :math:`[C_i/n, C_{i+1}/n]`, with :math:`C_i` how often the values before it were drawn: a weighted
sum of the sorted data, whose weights depend on the places drawn and not on the values.  All samples of a size share
them.  Intervals are percentiles of the resamples.

Probability of improvement (Mann and Whitney, 1947): of all pairs of a value of either sample, the share in which the
first is the larger, ties counting half.  With :math:`c_i` and :math:`d_j` how often values are drawn, its bootstrap
replicate is :math:`\sum_{ij} c_i d_j s_{ij} / (n_a n_b)`, where :math:`s_{ij}` is 1, 1/2 or 0; for sorted b,
:math:`\sum_j d_j s_{ij}` is a running sum of :math:`d`, looked up at the rank of :math:`a_i`.

Samples of more than `LARGE` values are not resampled: there the bootstrap is as good as its limit, the normal
distribution.  The interquartile mean, a trimmed mean, has the standard error :math:`2 s_w / \sqrt{n}` (Tukey and
McLaughlin, 1963), with :math:`s_w` the deviation after the outer quarters are set to the ends of the middle half.  The
probability of improvement has :math:`\sqrt{s_u^2 / n_a + s_v^2 / n_b}` (Sen, 1960), with :math:`u_i` the share of b
below :math:`a_i` and :math:`v_j` the share of a above :math:`b_j`.

Growth of a curve: the slope of the mean of n curves on log-log axes, by least squares over its last factor of ten.  Its
interval is the jackknife's (Tukey, 1958), with Student's quantile of :math:`n - 1` degrees.  With
:math:`\hat\theta_{-i}` the slope without the i-th curve and :math:`\bar\theta` their mean,

.. math:: s^2 = \frac{n - 1}{n} \sum_i (\hat\theta_{-i} - \bar\theta)^2

Functions take one sample `[n]`, or a sample per column, `[n, columns]`; their results are then numbers or arrays
`[columns]`.  Every value must be finite.  SciPy is imported inside the functions, because that takes longer than most
of these computations.
"""

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spaql.formatting import decimals

__all__ = [
    "Estimate",
    "Test",
    "combination",
    "holm",
    "interquartile_mean",
    "log_log_slope",
    "mean_interval",
    "probability_of_improvement",
    "welch",
]

Floats = NDArray[np.float64]
Numbers = Any  # a number, or an array `[columns]`

_BLOCK = 1 << 20  # numbers to draw at once, so that memory stays bounded for any n
_COLUMNS_AT_ONCE = 256  # the same for many samples
_CONFIDENCE = 0.95
LARGE = 2000  # values; beyond, bootstrap intervals are replaced by their limits


@dataclass(frozen=True, slots=True)
class Estimate:
    """Point estimates with their confidence intervals, which are infinite for a single value.

    Examples
    --------
    >>> from spaql.stats import mean_interval
    >>> estimate = mean_interval([4.1, 4.3, 4.2, 4.4])
    >>> print(estimate)
    4.25 [4.04, 4.46]
    >>> estimate.count, round(estimate.half_width, 3)
    (4, 0.205)
    """

    mean: Numbers  #: point estimate, a number or an array `[columns]`
    low: Numbers  #: low end of the confidence interval
    high: Numbers  #: its high end
    deviation: Numbers  #: sample standard deviation of the values (``ddof=1``); NaN for one value
    count: int  #: number of values

    @property
    def interval(self) -> tuple[Numbers, Numbers]:
        """The confidence interval as ``(low, high)``."""
        return self.low, self.high

    @property
    def half_width(self) -> Numbers:
        """Half the width of the interval."""
        return (self.high - self.low) / 2

    def __str__(self) -> str:
        """Like ``4.213 [4.201, 4.225]``: as many decimals as show two digits of the half width."""
        if math.isinf(self.half_width):
            return f"{self.mean:z.3f} (no interval)"
        digits = decimals([self.half_width], most=12) if 0 < self.half_width < math.inf else 3
        return f"{self.mean:z.{digits}f} [{self.low:z.{digits}f}, {self.high:z.{digits}f}]"


@dataclass(frozen=True, slots=True)
class Test:
    """Results of two-sided tests that two means are equal.

    Examples
    --------
    >>> from spaql.stats import welch
    >>> welch([3.1, 3.2, 3.0, 3.3], [2.9, 2.7, 2.8, 3.0]).p_value < 0.05
    True
    """

    statistic: Numbers  #: Welch's T; positive when the first mean is the larger
    p_value: Numbers  #: chance of a T at least this far from zero if the means were equal
    degrees_of_freedom: Numbers  #: Welch's nu
    difference: Numbers  #: first mean minus second mean


def mean_interval(values: ArrayLike, confidence: float = _CONFIDENCE) -> Estimate:
    """Return mean and Student t interval of independent values.

    One value gives the interval ``(-inf, inf)``; constant values give an interval of zero width.

    Parameters
    ----------
    values
        One sample `[n]`, or one per column `[n, columns]`.
    confidence
        Level of the interval.

    Returns
    -------
    Estimate
        Numbers, or arrays `[columns]`.

    Raises
    ------
    ValueError
        Where there are no values, or some are not finite.

    Examples
    --------
    >>> from spaql.stats import mean_interval
    >>> print(mean_interval([4.1, 4.3, 4.2, 4.4]))
    4.25 [4.04, 4.46]
    """
    samples, single = _check_samples(values, "values")
    count = len(samples)
    mean, deviation = _means(samples), _deviations(samples)
    half_width = np.full_like(mean, np.inf)
    if count > 1:
        half_width = _student_quantile(count - 1, confidence) * deviation / math.sqrt(count)
    return _estimate(single, mean, mean - half_width, mean + half_width, deviation, count)


def _estimate(single: bool, mean: Numbers, low: Numbers, high: Numbers, deviation: Numbers, count: int) -> Estimate:
    """Estimates from columns; numbers where there is a single sample."""
    if single:
        mean, low, high, deviation = (float(column[0]) for column in (mean, low, high, deviation))
    return Estimate(mean, low, high, deviation, count)


def _student_quantile(freedom: float, confidence: float) -> float:
    """Half the width of an interval in standard errors."""
    from scipy.special import stdtrit

    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}.")
    return float(stdtrit(freedom, 0.5 + confidence / 2))


def _means(samples: Floats) -> Floats:
    # A constant column averages to itself: summing 0.1 three times and dividing by three does not.
    means: Floats = np.where(_is_constant(samples), samples[0], samples.mean(axis=0))
    return means


def _deviations(samples: Floats) -> Floats:
    """Sample deviations (``ddof=1``) of columns: exactly 0 for constant ones, NaN for one value."""
    if len(samples) == 1:
        return np.full(samples.shape[1], np.nan)
    return np.where(_is_constant(samples), 0.0, samples.std(axis=0, ddof=1))


def _is_constant(samples: Floats) -> NDArray[np.bool_]:
    """Which columns hold one repeated number."""
    constant: NDArray[np.bool_] = np.all(samples == samples[0], axis=0)
    return constant


def welch(samples: ArrayLike, baseline: ArrayLike) -> Test:
    """Test whether independent samples have the same mean as a baseline, by Welch, two-sided.

    All have two values or more.  Without any spread in either the statistic is 0 and p = 1 when the means are equal,
    and infinite and p = 0 when they differ; nu is then not defined and given as its upper bound ``n_a + n_b - 2``.

    Parameters
    ----------
    samples
        One `[n]`, or one per column `[n, columns]`.
    baseline
        A single sample, `[m]`.

    Returns
    -------
    Test
        Numbers, or arrays `[columns]`.

    Raises
    ------
    ValueError
        Where a sample has fewer than two values.

    Examples
    --------
    >>> from spaql.stats import welch
    >>> result = welch([3.1, 3.2, 3.0, 3.3], [2.9, 2.7, 2.8, 3.0])
    >>> round(result.difference, 3), round(result.p_value, 3)
    (0.3, 0.017)
    """
    (first, single), second = _check_samples(samples, "samples"), _check_sample(baseline, "baseline")[:, np.newaxis]
    sizes = len(first), len(second)
    if min(sizes) < 2:
        raise ValueError(f"Welch's test needs at least two values in each sample, not {sizes[0]} and {sizes[1]}.")
    variances = [_deviations(sample) ** 2 / len(sample) for sample in (first, second)]
    difference = _means(first) - _means(second)
    whole = variances[0] + variances[1]

    from scipy.special import stdtr

    with np.errstate(divide="ignore", invalid="ignore"):
        # Shares of the variance instead of their squares: the squares of tiny variances would underflow.
        share = variances[0] / whole
        freedom = 1 / (share**2 / (sizes[0] - 1) + (1 - share) ** 2 / (sizes[1] - 1))
        statistic = difference / np.sqrt(whole)
        p_value = 2 * stdtr(freedom, -np.abs(statistic))
    still = whole == 0
    results = (
        np.where(still, np.where(difference == 0, 0.0, np.copysign(np.inf, difference)), statistic),
        np.where(still, difference == 0, p_value),
        np.where(still, float(sum(sizes) - 2), freedom),
        difference,
    )
    return Test(*((float(result[0]) for result in results) if single else results))


def combination(samples: Sequence[ArrayLike], weights: ArrayLike, confidence: float = _CONFIDENCE) -> Estimate:
    """Return the weighted sum of the means of independent samples, with the interval of Welch and Satterthwaite.

    With weights (1, -1) it is the difference of two means; with 1/m each, the mean over m groups of unequal spread.

    There are m samples `[n_i]` and m weights.  The `deviation` is NaN, as the values have no common one, and `count` is
    the number of all values.  A sample of one value gives the interval ``(-inf, inf)``.

    Parameters
    ----------
    samples
        m of them, each `[n_i]`.
    weights
        `[m]`.
    confidence
        Level of the interval.

    Returns
    -------
    Estimate
        Numbers, or arrays `[columns]`.

    Examples
    --------
    >>> from spaql.stats import combination
    >>> print(combination([[3.1, 3.2, 3.0, 3.3], [2.9, 2.7, 2.8, 3.0]], [1, -1]))
    0.30 [0.08, 0.52]
    """
    factors = _check_sample(weights, "weights")
    estimates = [mean_interval(_check_sample(sample, "values")) for sample in samples]
    if len(estimates) != factors.size:
        raise ValueError(f"{len(estimates)} samples need as many weights, not {factors.size}.")
    total = float(sum(w * e.mean for w, e in zip(factors, estimates, strict=True)))
    count = sum(e.count for e in estimates)
    if any(e.count == 1 for e in estimates):
        return Estimate(total, -math.inf, math.inf, math.nan, count)
    variances = [float(w * w) * e.deviation**2 / e.count for w, e in zip(factors, estimates, strict=True)]
    whole = sum(variances)
    if whole == 0:
        return Estimate(total, total, total, math.nan, count)
    freedom = 1 / sum((v / whole) ** 2 / (e.count - 1) for v, e in zip(variances, estimates, strict=True))
    half_width = _student_quantile(freedom, confidence) * math.sqrt(whole)
    return Estimate(total, total - half_width, total + half_width, math.nan, count)


def holm(p_values: ArrayLike) -> Floats:
    """Adjust p-values for their number by Holm's step-down rule.

    Parameters
    ----------
    p_values
        `[m]`, each in [0, 1].

    Returns
    -------
    ndarray
        `[m]`, in the order given.

    Raises
    ------
    ValueError
        Where one is not in [0, 1].

    Examples
    --------
    >>> from spaql.stats import holm
    >>> holm([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    raw = np.asarray(p_values, dtype=np.float64)
    if raw.ndim != 1 or not np.all((raw >= 0) & (raw <= 1)):  # NaN fails both comparisons
        raise ValueError("p_values must be a one-dimensional array of numbers in [0, 1].")
    order = np.argsort(raw, kind="stable")
    adjusted = np.empty_like(raw)
    adjusted[order] = np.minimum(np.maximum.accumulate(raw[order] * np.arange(raw.size, 0, -1)), 1.0)
    return adjusted


def interquartile_mean(values: ArrayLike, *, seed: int, resamples: int = 2000) -> Estimate:
    """Return the mean of the middle half of the values, with its percentile bootstrap interval.

    One value gives the interval ``(-inf, inf)``; more than `LARGE` are not resampled.  Samples of several columns share
    their resamples.

    Parameters
    ----------
    values
        One sample `[n]`, or one per column `[n, columns]`.
    seed, resamples
        Seed and number of the resamples.

    Returns
    -------
    Estimate
        Numbers, or arrays `[columns]`.

    Examples
    --------
    >>> from spaql.stats import interquartile_mean
    >>> interquartile_mean([1, 2, 3, 1000], seed=0).mean
    2.5
    """
    samples, single = _check_samples(values, "values")
    columns = np.sort(samples, axis=0)
    size = len(columns)
    weighted = columns.T @ _middle_weights(np.arange(size + 1.0))
    point, deviation = np.where(_is_constant(columns), columns[0], weighted), _deviations(columns)
    if size == 1:
        low, high = np.full_like(point, -np.inf), np.full_like(point, np.inf)
    elif size > LARGE:
        cut = size // 4
        half_width = _half_width(2 * _deviations(np.clip(columns, columns[cut], columns[-1 - cut])) / math.sqrt(size))
        low, high = point - half_width, point + half_width
    else:
        above = columns - columns[0]  # the smallest value, so that constant columns have intervals of zero width

        def replicate(some: slice) -> Floats:
            draws = _draw((operator.index(seed), size), size, resamples)
            weights = (_middle_weights(_running_sums(counts)) for counts in draws)
            return np.concatenate([np.einsum("ic,ib->cb", above[:, some], block) for block in weights], axis=1)

        low, high = columns[0] + _percentiles(replicate, columns.shape[1])
    return _estimate(single, point, low, high, deviation, size)


def probability_of_improvement(
    samples: ArrayLike, baseline: ArrayLike, *, seed: int, resamples: int = 2000
) -> Estimate:
    """Return the chance that a value like those of a sample is larger than one of the baseline, ties counting half.

    In the result `mean` is the probability, `deviation` NaN, and `count` the number of all values; a sample of one
    value gives the interval ``(0, 1)``.  More than `LARGE` values in the mean of both samples, and a tenth of that in
    each, are not resampled.

    Parameters
    ----------
    samples
        One `[n]`, or one per column `[n, columns]`.
    baseline
        A single sample, `[m]`.
    seed, resamples
        Seed and number of the resamples.

    Returns
    -------
    Estimate
        Numbers, or arrays `[columns]`.

    Examples
    --------
    >>> from spaql.stats import probability_of_improvement
    >>> print(probability_of_improvement([3, 4, 5, 6], [1, 2, 3, 4], seed=0))
    0.88 [0.56, 1.00]
    """
    (first, single), second = _check_samples(samples, "samples"), np.sort(_check_sample(baseline, "baseline"))
    pairs = 2.0 * len(first) * len(second)
    below, reached = (np.searchsorted(second, first, side=side) for side in ("left", "right"))  # [values, n]
    point = (below + reached).sum(axis=0) / pairs
    if min(len(first), len(second)) == 1:
        low, high = np.zeros_like(point), np.ones_like(point)
    elif len(first) + len(second) > 2 * LARGE and 10 * min(len(first), len(second)) > LARGE:
        half_width = _half_width(_improvement_errors(first, second, below + reached))
        low, high = np.maximum(point - half_width, 0.0), np.minimum(point + half_width, 1.0)
    else:
        order = np.argsort(first, axis=0, kind="stable")  # neighbours in memory are looked up one after the other
        below, reached = (np.take_along_axis(ranks, order, axis=0) for ranks in (below, reached))

        def replicate(some: slice) -> Floats:
            sizes = len(first), len(second)
            ours, theirs = (
                _draw((operator.index(seed), size, side), size, resamples, max(sizes))
                for side, size in enumerate(sizes)
            )
            blocks = [
                _count_pairs(below[:, some], reached[:, some], c, _running_sums(d))
                for c, d in zip(ours, theirs, strict=True)
            ]
            return np.concatenate(blocks, axis=1) / pairs

        low, high = _percentiles(replicate, first.shape[1])
    return _estimate(single, point, low, high, np.full_like(point, np.nan), len(first) + len(second))


def _improvement_errors(first: Floats, second: Floats, ranks: NDArray[np.intp]) -> Floats:
    """Standard errors for columns `[values, n]` over a sample `[m]`; `ranks` are twice those of the values in it."""
    ours = _deviations(ranks / (2.0 * len(second))) ** 2 / len(first)
    theirs = np.empty_like(ours)
    for at, column in enumerate(np.sort(first, axis=0).T):
        above = np.searchsorted(column, second, side="left") + np.searchsorted(column, second, side="right")
        theirs[at] = _deviations((above / (2.0 * len(first)))[:, np.newaxis])[0] ** 2 / len(second)
    return np.sqrt(ours + theirs)


def _half_width(errors: Floats) -> Floats:
    """Half widths of normal intervals."""
    from scipy.special import ndtri

    return float(ndtri(0.5 + _CONFIDENCE / 2)) * errors


def _count_pairs(below: NDArray[np.intp], reached: NDArray[np.intp], counts: Floats, sums: Floats) -> Floats:
    """Twice the pairs in which the first is larger, once those that tie, for columns of ranks `[values, n]`.

    Of resamples with counts `[values, some]` and running sums of the others' `[m + 1, some]`: `[n, some]`.
    """
    pairs = np.empty((below.shape[1], counts.shape[1]))
    for row, under, up_to in zip(pairs, below.T, reached.T, strict=True):
        if np.array_equal(under, up_to):
            np.einsum("ib,ib->b", counts, sums[under], out=row)
            row *= 2.0
        else:
            np.einsum("ib,ib->b", counts, sums[under] + sums[up_to], out=row)
    return pairs


def _percentiles(replicate: Callable[[slice], Floats], columns: int) -> Floats:
    """Ends of the intervals of columns, `[2, n]`, from replicates `[some, resamples]` computed block by block."""
    ends = np.empty((2, columns))
    for start in range(0, columns, _COLUMNS_AT_ONCE):
        some = slice(start, start + _COLUMNS_AT_ONCE)
        ends[:, some] = np.quantile(replicate(some), [(1 - _CONFIDENCE) / 2, (1 + _CONFIDENCE) / 2], axis=1)
    return ends


def _draw(key: tuple[int, ...], size: int, resamples: int, largest: int = 0) -> Iterator[Floats]:
    """How often each value of a sample is drawn: `[size, some]`, block by block.

    A block has as many resamples as memory allows for samples of the `largest` size.  Blocks together depend on the key
    alone, not on how large they are.
    """
    random = np.random.default_rng(key)
    rows = max(_BLOCK // max(size, largest), 1)
    for start in range(0, resamples, rows):
        some = min(rows, resamples - start)
        places = random.integers(size, size=(some, size))
        places += np.arange(0, some * size, size)[:, np.newaxis]
        counts = np.bincount(places.ravel(), minlength=some * size).reshape(some, size)
        yield counts.T.astype(np.float64, order="C")


def _running_sums(counts: Floats) -> Floats:
    """Sums of counts before each value, and of all, `[size + 1, some]`."""
    sums = np.zeros((counts.shape[0] + 1, counts.shape[1]))
    np.cumsum(counts, axis=0, out=sums[1:])
    return sums


def _middle_weights(edges: Floats) -> Floats:
    """Weights of sorted values in the interquartile mean, `[size, ...]`, sum 1; edges are where their masses end."""
    whole = edges[-1]
    weights: Floats = np.diff(np.clip(edges, 0.25 * whole, 0.75 * whole), axis=0) * (2 / whole)
    return weights


def log_log_slope(x: ArrayLike, curves: ArrayLike) -> Estimate:
    """Return the slope of the mean of independent curves on log-log axes, with its jackknife interval.

    Only the last factor of ten of x counts, as the beginning of a curve says little of its growth.  The slope is NaN
    where there are fewer than three points there, or the mean is not above 0 at all of them; the interval is
    ``(-inf, inf)`` for one curve, and where leaving one out makes the slope undefined.

    Parameters
    ----------
    x
        Increasing, above 0, `[m]`.
    curves
        One per row, `[n, m]`.

    Returns
    -------
    Estimate
        Of the slope; `count` is the number of curves.

    Raises
    ------
    ValueError
        Where x is not increasing or not above 0, or curves have another length.

    Examples
    --------
    >>> from spaql.stats import log_log_slope
    >>> x = [1, 10, 20, 40, 80, 100]
    >>> round(log_log_slope(x, [[3 * v**0.5 for v in x], [5 * v**0.5 for v in x]]).mean, 3)
    0.5
    """
    places, rows = _check_sample(x, "x"), _check(np.asarray(curves, dtype=np.float64), "curves")
    if rows.ndim != 2 or rows.shape[1] != len(places):
        raise ValueError(f"curves must be of shape [n, {len(places)}], not {list(rows.shape)}.")
    if not (places[0] > 0 and (np.diff(places) > 0).all()):
        raise ValueError("x must be increasing and above 0.")
    recent = places >= places[-1] / 10 * (1 - 1e-12)
    count, logs = len(rows), np.log(places[recent])
    slope = _fit_slope(logs, rows[:, recent].mean(axis=0))
    low, high = -math.inf, math.inf
    if count > 1:
        others = (rows.sum(axis=0) - rows) / (count - 1)
        without = np.array([_fit_slope(logs, other[recent]) for other in others])
        deviation = math.sqrt((count - 1) / count * float(((without - without.mean()) ** 2).sum()))
        half_width = _student_quantile(count - 1, _CONFIDENCE) * deviation
        if math.isfinite(half_width):
            low, high = slope - half_width, slope + half_width
    return Estimate(slope, low, high, math.nan, count)


def _fit_slope(logs: Floats, values: Floats) -> float:
    """Slope of the logarithms of values by least squares; NaN where it is not defined."""
    if len(logs) < 3 or not (values > 0).all():
        return math.nan
    centred = logs - logs.mean()
    return float(centred @ np.log(values) / (centred @ centred))


def _check_samples(values: ArrayLike, name: str) -> tuple[Floats, bool]:
    """The values as columns, and whether they were a single sample; raises ValueError where they are neither."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim not in (1, 2):
        raise ValueError(f"{name} must be one sample or one per column, not of shape {list(array.shape)}.")
    return _check(array, name).reshape(len(array), -1), array.ndim == 1


def _check_sample(values: ArrayLike, name: str) -> Floats:
    """The values as float64 `[n]`; raises ValueError where they are not."""
    sample = np.asarray(values, dtype=np.float64)
    if sample.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, not of shape {list(sample.shape)}.")
    return _check(sample, name)


def _check(array: Floats, name: str) -> Floats:
    if len(array) == 0:
        raise ValueError(f"{name} is empty; at least one number is needed.")
    bad = array.size - np.count_nonzero(np.isfinite(array))
    if bad:
        raise ValueError(f"{name} must be finite, but {bad} of {array.size} are NaN or infinite.")
    return array
