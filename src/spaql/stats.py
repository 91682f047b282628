r"""Statistics for results: arrays in, small named results out.

Mean of :math:`n` independent values (Student, 1908).  With the sample deviation
:math:`s^2 = \sum_i (x_i - \bar x)^2 / (n - 1)` and :math:`t` the quantile of Student's distribution,

.. math:: \bar x \pm t_{n-1,\,1-\alpha/2} \; s / \sqrt{n}

Difference of two means with unequal variances (Welch, 1947).  With :math:`v_a = s_a^2 / n_a`, :math:`v_b` alike,

.. math:: T = \frac{\bar a - \bar b}{\sqrt{v_a + v_b}}, \qquad
          \nu = \frac{(v_a + v_b)^2}{v_a^2 / (n_a - 1) + v_b^2 / (n_b - 1)}

Many tests at once (Holm, 1979).  With :math:`p_{(1)} \le \dots \le p_{(m)}`, the adjusted value of the i-th is
:math:`\max_{j \le i} \min(1, (m - j + 1)\, p_{(j)})`; rejecting where it is at most :math:`\alpha` keeps the chance
of even one false rejection below :math:`\alpha`, whatever the dependence between the tests.

Any other statistic (Efron, 1979).  The percentile bootstrap draws the data again with replacement, computes the
statistic each time, and takes the :math:`\alpha/2` and :math:`1 - \alpha/2` quantiles of what comes out.

The interquartile mean is the mean of the middle half of the data.  Value i of the sorted data owns the mass
:math:`[i/n, (i+1)/n]` and weighs as much of it as lies in :math:`[1/4, 3/4]`, so any n works.

Every function works on the raw values: returns may be negative, and nothing here takes an absolute value of them.
SciPy is imported where it is used, because importing it takes longer than most of these computations.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

# Resamples are drawn in blocks of about this many numbers, so that memory stays bounded for any n.
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Estimate:
    """A point estimate with its confidence interval.

    Attributes
    ----------
    mean
        The estimate: the mean, or the statistic that was bootstrapped.
    low, high
        Ends of the confidence interval; infinite when one value says nothing about the spread.
    deviation
        Sample standard deviation of the values (``ddof=1``); NaN for one value.
    count
        Number of values.
    """

    mean: float
    low: float
    high: float
    deviation: float
    count: int

    @property
    def interval(self) -> tuple[float, float]:
        """The confidence interval as ``(low, high)``."""
        return self.low, self.high

    @property
    def half_width(self) -> float:
        """Half the width of the interval."""
        return (self.high - self.low) / 2

    def __str__(self) -> str:
        """Like ``4.213 [4.201, 4.225]``: as many decimals as show two digits of the half width."""
        decimals = 3
        if 0 < self.half_width < math.inf:
            decimals = min(max(1 - math.floor(math.log10(self.half_width)), 0), 12)
        return f"{self.mean:z.{decimals}f} [{self.low:z.{decimals}f}, {self.high:z.{decimals}f}]"


@dataclass(frozen=True, slots=True)
class Band:
    """Means and confidence intervals along a curve; every array is `[n]`."""

    mean: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, slots=True)
class Test:
    """Result of a two-sided test that two means are equal.

    Attributes
    ----------
    statistic
        Welch's T; positive when the first mean is the larger.
    p_value
        Chance of a T at least this far from zero if the means were equal.
    degrees_of_freedom
        Welch's nu.
    difference
        First mean minus second mean.
    """

    statistic: float
    p_value: float
    degrees_of_freedom: float
    difference: float


def mean_interval(values: ArrayLike, confidence: float = 0.95) -> Estimate:
    """Mean and Student t interval of independent values.

    Parameters
    ----------
    values
        The values, `[n]` with n >= 1; all finite.
    confidence
        Chance, in (0, 1), that the interval covers the true mean.

    Returns
    -------
    Estimate
        One value gives the interval ``(-inf, inf)``; constant values give an interval of zero width.

    Raises
    ------
    ValueError
        When `values` is empty, not one-dimensional or not finite, or `confidence` is not in (0, 1).

    Examples
    --------
    >>> print(mean_interval([4.1, 4.3, 4.2, 4.4]))
    4.25 [4.04, 4.46]
    """
    sample = _sample(values, "values")
    band = mean_band(sample[:, np.newaxis], confidence)
    deviation = float(_deviations(sample[:, np.newaxis])[0])
    return Estimate(float(band.mean[0]), float(band.low[0]), float(band.high[0]), deviation, sample.size)


def mean_band(curves: ArrayLike, confidence: float = 0.95) -> Band:
    """`mean_interval` of every column at once, for curves of several runs.

    Parameters
    ----------
    curves
        One run per row, `[runs, n]` with runs >= 1; all finite.
    confidence
        Chance, in (0, 1), that the interval at one point covers the true mean at that point.

    Returns
    -------
    Band
        Three arrays `[n]`.  One run gives the interval ``(-inf, inf)``.
    """
    _check_confidence(confidence)
    samples = np.asarray(curves, dtype=np.float64)  # [runs, n]
    if samples.ndim != 2 or samples.shape[0] == 0:
        raise ValueError(f"curves must have shape [runs, n] with at least one run, not {list(samples.shape)}.")
    _check_finite(samples, "curves")
    runs = samples.shape[0]
    # A constant column averages to itself: summing 0.1 three times and dividing by three does not.
    mean = np.where(_constant(samples), samples[0], samples.mean(axis=0))
    if runs == 1:
        return Band(mean, np.full_like(mean, -np.inf), np.full_like(mean, np.inf))

    from scipy.special import stdtrit

    half_width = float(stdtrit(runs - 1, 0.5 + confidence / 2)) * _deviations(samples) / math.sqrt(runs)
    return Band(mean, mean - half_width, mean + half_width)


def welch(a: ArrayLike, b: ArrayLike) -> Test:
    """Welch's two-sided test that two independent samples have the same mean.

    Parameters
    ----------
    a, b
        The samples, `[n_a]` and `[n_b]`, each of at least two finite values; raw returns, negative ones too.

    Returns
    -------
    Test
        Without any spread in either sample the statistic is 0 and p = 1 when the means are equal, and infinite
        and p = 0 when they differ; nu is then not defined and given as its upper bound ``n_a + n_b - 2``.

    Examples
    --------
    >>> result = welch([3.1, 3.2, 3.0, 3.3], [2.9, 2.7, 2.8, 3.0])
    >>> round(result.difference, 3), round(result.p_value, 3)
    (0.3, 0.017)
    """
    first, second = _sample(a, "a"), _sample(b, "b")
    if min(first.size, second.size) < 2:
        raise ValueError(f"Welch's test needs at least two values in each sample, not {first.size} and {second.size}.")
    estimates = mean_interval(first), mean_interval(second)
    difference = estimates[0].mean - estimates[1].mean
    variances = [e.deviation**2 / e.count for e in estimates]
    error = math.sqrt(sum(variances))
    if error == 0:
        statistic = 0.0 if difference == 0 else math.copysign(math.inf, difference)
        return Test(statistic, float(difference == 0), float(first.size + second.size - 2), difference)

    from scipy.special import stdtr

    # Shares of the variance instead of their squares: the squares of tiny variances would underflow.
    share = variances[0] / sum(variances)
    freedom = 1 / (share**2 / (first.size - 1) + (1 - share) ** 2 / (second.size - 1))
    statistic = difference / error
    return Test(statistic, float(2 * stdtr(freedom, -abs(statistic))), freedom, difference)


def combination(samples: Sequence[ArrayLike], weights: ArrayLike, confidence: float = 0.95) -> Estimate:
    """Weighted sum of the means of independent samples, with the interval of Welch and Satterthwaite.

    With weights (1, -1) it is the difference of two means; with 1/m each, the mean over m groups of unequal spread.

    Parameters
    ----------
    samples
        m samples `[n_i]`, each of at least one finite value.
    weights
        `[m]`.
    confidence
        Chance, in (0, 1), that the interval covers the true sum.

    Returns
    -------
    Estimate
        `deviation` is NaN, for the values have no common one; `count` is the number of all values.  A sample of one
        value gives the interval ``(-inf, inf)``.

    Examples
    --------
    >>> print(combination([[3.1, 3.2, 3.0, 3.3], [2.9, 2.7, 2.8, 3.0]], [1, -1]))
    0.30 [0.08, 0.52]
    """
    _check_confidence(confidence)
    factors = _sample(weights, "weights")
    estimates = [mean_interval(sample) for sample in samples]
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

    from scipy.special import stdtrit

    freedom = 1 / sum((v / whole) ** 2 / (e.count - 1) for v, e in zip(variances, estimates, strict=True))
    half_width = float(stdtrit(freedom, 0.5 + confidence / 2)) * math.sqrt(whole)
    return Estimate(total, total - half_width, total + half_width, math.nan, count)


def holm(p_values: ArrayLike) -> Floats:
    """p-values adjusted for their number by Holm's step-down rule.

    Parameters
    ----------
    p_values
        The p-values of all the tests made, `[m]`, each in [0, 1].

    Returns
    -------
    ndarray
        Adjusted p-values, `[m]`, in the order given.

    Examples
    --------
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


def bootstrap_interval(
    values: ArrayLike,
    statistic: Callable[..., Any],
    *,
    seed: int,
    confidence: float = 0.95,
    resamples: int = 10_000,
) -> Estimate:
    """Percentile bootstrap interval of any statistic of independent values.

    Parameters
    ----------
    values
        The values, `[n]` with n >= 1; all finite.  Below about ten values the interval is too narrow.
    statistic
        Called as ``statistic(samples, axis=-1)`` on `[n]` and on blocks `[m, n]`; returns a number and `[m]`.
        ``numpy.mean``, ``numpy.median`` and `interquartile_mean` are such functions.
    seed
        Seed of the resampling, a non-negative integer; the same seed gives the same interval.
    confidence
        Chance, in (0, 1), that the interval covers the true value, nearly so for large n.
    resamples
        Number of times the data are drawn again.

    Returns
    -------
    Estimate
        `mean` is the statistic of the data; one value gives the interval ``(-inf, inf)``.

    Examples
    --------
    >>> print(bootstrap_interval(range(100), interquartile_mean, seed=0))
    49.5 [41.5, 57.5]
    """
    sample = _sample(values, "values")
    _check_confidence(confidence)
    if resamples < 1:
        raise ValueError(f"resamples must be at least 1, not {resamples}.")
    random = np.random.default_rng(operator.index(seed))  # index() refuses None, which would draw a hidden seed
    point = float(statistic(sample, axis=-1))
    deviation = float(_deviations(sample[:, np.newaxis])[0])
    if sample.size == 1:
        return Estimate(point, -math.inf, math.inf, deviation, 1)
    replicates = np.empty(resamples)
    rows = max(_BLOCK // sample.size, 1)
    for start in range(0, resamples, rows):
        block = replicates[start : start + rows]
        drawn = np.asarray(statistic(sample[random.integers(sample.size, size=(block.size, sample.size))], axis=-1))
        if drawn.shape != block.shape:
            raise ValueError(f"statistic must turn an array [m, n] into [m] along axis=-1, not {list(drawn.shape)}.")
        block[:] = drawn
    low, high = np.quantile(replicates, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Estimate(point, float(low), float(high), deviation, sample.size)


@overload
def interquartile_mean(values: ArrayLike, axis: None = None) -> float: ...
@overload
def interquartile_mean(values: ArrayLike, axis: int) -> Floats: ...
def interquartile_mean(values: ArrayLike, axis: int | None = None) -> float | Floats:
    """Mean of the middle half of the values.

    Parameters
    ----------
    values
        The values, at least one and all finite; any shape.
    axis
        Axis to average along; all values together when None.

    Returns
    -------
    float or ndarray
        The mean, or an array of means with `axis` removed.

    Examples
    --------
    >>> interquartile_mean([1, 2, 3, 1000])
    2.5
    """
    array = np.asarray(values, dtype=np.float64)
    array = array.ravel() if axis is None else np.moveaxis(array, axis, -1)
    if array.size == 0:
        raise ValueError("values is empty; at least one number is needed.")
    _check_finite(array, "values")
    edges = np.linspace(0.0, 1.0, array.shape[-1] + 1)
    weights = 2 * np.diff(np.clip(edges, 0.25, 0.75))  # [n], sum 1
    means = np.sort(array, axis=-1) @ weights
    return float(means) if axis is None else means


def _sample(values: ArrayLike, name: str) -> Floats:
    """The values as float64 `[n]`, or a ValueError that says what is wrong with them."""
    sample = np.asarray(values, dtype=np.float64)
    if sample.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, not of shape {list(sample.shape)}.")
    if sample.size == 0:
        raise ValueError(f"{name} is empty; at least one number is needed.")
    _check_finite(sample, name)
    return sample


def _check_finite(array: Floats, name: str) -> None:
    bad = array.size - np.count_nonzero(np.isfinite(array))
    if bad:
        raise ValueError(f"{name} must be finite, but {bad} of {array.size} are NaN or infinite.")


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}.")


def _constant(samples: Floats) -> NDArray[np.bool_]:
    """Which columns of `[runs, n]` hold one repeated number."""
    constant: NDArray[np.bool_] = np.all(samples == samples[0], axis=0)
    return constant


def _deviations(samples: Floats) -> Floats:
    """Sample deviation of every column of `[runs, n]`: exactly 0 for constant columns, NaN for one run."""
    if samples.shape[0] == 1:
        return np.full(samples.shape[1], np.nan)
    return np.where(_constant(samples), 0.0, samples.std(axis=0, ddof=1))
