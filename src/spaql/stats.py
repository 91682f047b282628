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

SciPy is imported inside the functions, because that takes longer than most of these computations.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
T = TypeVar("T", float, Floats)

_BLOCK = 1 << 20  # numbers to draw at once, so that memory stays bounded for any n
_COLUMNS_AT_ONCE = 256  # the same for many samples
LARGE = 2000  # values; beyond, bootstrap intervals are replaced by their limits
_KEPT = 1 << 18  # numbers; draws for a sample are cached up to this size


@dataclass(frozen=True, slots=True)
class Estimate:
    """A point estimate with its confidence interval, which is infinite for a single value."""

    mean: float
    low: float
    high: float
    deviation: float  # sample standard deviation of the values (``ddof=1``); NaN for one value
    count: int  # of the values

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
    """Means and confidence intervals of several samples; every array is `[n]`."""

    mean: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, slots=True)
class Test(Generic[T]):
    """Result of a two-sided test that two means are equal: numbers, or arrays `[n]` of several tests."""

    statistic: T  # Welch's T; positive when the first mean is the larger
    p_value: T  # chance of a T at least this far from zero if the means were equal
    degrees_of_freedom: T  # Welch's nu
    difference: T  # first mean minus second mean


def mean_interval(values: ArrayLike, confidence: float = 0.95) -> Estimate:
    """Return mean and Student t interval of independent values `[n]`, at least one and all finite.

    One value gives the interval ``(-inf, inf)``; constant values give an interval of zero width.

    Examples
    --------
    >>> print(mean_interval([4.1, 4.3, 4.2, 4.4]))
    4.25 [4.04, 4.46]
    """
    sample = _check_sample(values, "values")
    band = mean_band(sample[:, np.newaxis], confidence)
    deviation = float(deviations(sample[:, np.newaxis])[0])
    return Estimate(float(band.mean[0]), float(band.low[0]), float(band.high[0]), deviation, sample.size)


def mean_band(curves: ArrayLike, confidence: float = 0.95) -> Band:
    """Return `mean_interval` of every column of `[runs, n]`, for curves of several runs.

    One run gives the interval ``(-inf, inf)``.
    """
    _check_confidence(confidence)
    samples = _check_columns(curves, "curves", "runs")
    runs = samples.shape[0]
    # A constant column averages to itself: summing 0.1 three times and dividing by three does not.
    mean = np.where(_is_constant(samples), samples[0], samples.mean(axis=0))
    if runs == 1:
        return Band(mean, np.full_like(mean, -np.inf), np.full_like(mean, np.inf))

    from scipy.special import stdtrit

    half_width = float(stdtrit(runs - 1, 0.5 + confidence / 2)) * deviations(samples) / math.sqrt(runs)
    return Band(mean, mean - half_width, mean + half_width)


def deviations(samples: ArrayLike) -> Floats:
    """Return the sample deviation (``ddof=1``) of every column of `[values, n]`.

    It is exactly 0 for constant columns, and NaN for one value.
    """
    columns = _check_columns(samples, "samples")
    if len(columns) == 1:
        return np.full(columns.shape[1], np.nan)
    return np.where(_is_constant(columns), 0.0, columns.std(axis=0, ddof=1))


def welch(a: ArrayLike, b: ArrayLike) -> Test[float]:
    """Test by Welch, two-sided, whether two independent samples, each of two finite values or more, have the same mean.

    Without any spread in either sample the statistic is 0 and p = 1 when the means are equal, and infinite and p = 0
    when they differ; nu is then not defined and given as its upper bound ``n_a + n_b - 2``.

    Examples
    --------
    >>> result = welch([3.1, 3.2, 3.0, 3.3], [2.9, 2.7, 2.8, 3.0])
    >>> round(result.difference, 3), round(result.p_value, 3)
    (0.3, 0.017)
    """
    first, second = _check_sample(a, "a"), _check_sample(b, "b")
    test = welch_tests(first[:, np.newaxis], second)
    values = (test.statistic, test.p_value, test.degrees_of_freedom, test.difference)
    return Test(*(float(value[0]) for value in values))


def welch_tests(samples: ArrayLike, baseline: ArrayLike) -> Test[Floats]:
    """Return `welch` of every column of `[values, n]` against one sample `[m]`; four arrays `[n]`."""
    first, second = np.asarray(samples, dtype=np.float64), _check_sample(baseline, "baseline")[:, np.newaxis]
    sizes = first.shape[0], second.shape[0]
    if min(sizes) < 2:
        raise ValueError(f"Welch's test needs at least two values in each sample, not {sizes[0]} and {sizes[1]}.")
    means = [mean_band(sample).mean for sample in (first, second)]
    variances = [deviations(sample) ** 2 / size for sample, size in zip((first, second), sizes, strict=True)]
    difference = means[0] - means[1]
    whole = variances[0] + variances[1]

    from scipy.special import stdtr

    with np.errstate(divide="ignore", invalid="ignore"):
        # Shares of the variance instead of their squares: the squares of tiny variances would underflow.
        share = variances[0] / whole
        freedom = 1 / (share**2 / (sizes[0] - 1) + (1 - share) ** 2 / (sizes[1] - 1))
        statistic = difference / np.sqrt(whole)
        p_value = 2 * stdtr(freedom, -np.abs(statistic))
    still = whole == 0
    return Test(
        np.where(still, np.where(difference == 0, 0.0, np.copysign(np.inf, difference)), statistic),
        np.where(still, difference == 0, p_value),
        np.where(still, float(sum(sizes) - 2), freedom),
        difference,
    )


def combination(samples: Sequence[ArrayLike], weights: ArrayLike, confidence: float = 0.95) -> Estimate:
    """Return the weighted sum of the means of independent samples, with the interval of Welch and Satterthwaite.

    With weights (1, -1) it is the difference of two means; with 1/m each, the mean over m groups of unequal spread.

    There are m samples `[n_i]` and m weights.  The `deviation` is NaN, as the values have no common one, and `count` is
    the number of all values.  A sample of one value gives the interval ``(-inf, inf)``.

    Examples
    --------
    >>> print(combination([[3.1, 3.2, 3.0, 3.3], [2.9, 2.7, 2.8, 3.0]], [1, -1]))
    0.30 [0.08, 0.52]
    """
    _check_confidence(confidence)
    factors = _check_sample(weights, "weights")
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
    """Return p-values `[m]`, each in [0, 1], adjusted for their number by Holm's step-down rule, in the order given.

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


@overload
def interquartile_mean(values: ArrayLike, axis: None = None) -> float: ...
@overload
def interquartile_mean(values: ArrayLike, axis: int) -> Floats: ...
def interquartile_mean(values: ArrayLike, axis: int | None = None) -> float | Floats:
    """Return the mean of the middle half of the values, at least one and all finite: of all, or along an axis.

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
    means = np.sort(array, axis=-1) @ _middle_weights(np.arange(array.shape[-1] + 1.0))
    return float(means) if axis is None else means


def interquartile_bands(samples: ArrayLike, *, seed: int, confidence: float = 0.95, resamples: int = 2000) -> Band:
    """Return the interquartile mean of every column with its percentile bootstrap interval.

    Parameters
    ----------
    samples
        One group per column, `[values, n]` with values >= 1; all finite.  One value gives the interval ``(-inf, inf)``;
        more than `LARGE` are not resampled.
    seed, resamples
        Seed and number of the resamples, which all columns share.
    confidence
        Chance, in (0, 1), that an interval covers the true value, nearly so for many values.
    """
    _check_confidence(confidence)
    columns = np.sort(_check_columns(samples, "samples"), axis=0)
    size = len(columns)
    point = np.where(_is_constant(columns), columns[0], interquartile_mean(columns, axis=0))
    if size == 1:
        return Band(point, np.full_like(point, -np.inf), np.full_like(point, np.inf))
    if size > LARGE:
        cut = size // 4
        error = 2 * deviations(np.clip(columns, columns[cut], columns[-1 - cut])) / math.sqrt(size)
        return _normal_band(point, error, confidence)
    above = columns - columns[0]  # the smallest value, so that constant columns have intervals of zero width

    def replicate(some: slice) -> Floats:
        draws = _draw((operator.index(seed), size), size, resamples, _block_rows(size, resamples))
        weights = (_middle_weights(_running_sums(counts)) for counts in draws)
        return np.concatenate([np.einsum("ic,ib->cb", above[:, some], block) for block in weights], axis=1)

    low, high = _percentiles(replicate, columns.shape[1], confidence)
    return Band(point, low + columns[0], high + columns[0])


def probability_of_improvement(a: ArrayLike, b: ArrayLike, *, seed: int, resamples: int = 2000) -> Estimate:
    """Return the chance that a value like those of `a` is larger than one like those of `b`, ties counting half.

    The samples are `[n_a]` and `[n_b]`; the keywords are as in `interquartile_bands`.  In the result `mean` is the
    probability, `deviation` NaN, and `count` the number of all values; a sample of one value gives the interval
    ``(0, 1)``.  More than `LARGE` values in the mean of both samples, and a tenth of that in each, are not resampled.

    Examples
    --------
    >>> print(probability_of_improvement([3, 4, 5, 6], [1, 2, 3, 4], seed=0))
    0.88 [0.56, 1.00]
    """
    first, second = _check_sample(a, "a"), _check_sample(b, "b")
    band = improvement_bands(first[:, np.newaxis], second, seed=seed, resamples=resamples)
    return Estimate(float(band.mean[0]), float(band.low[0]), float(band.high[0]), math.nan, first.size + second.size)


def improvement_bands(
    samples: ArrayLike, baseline: ArrayLike, *, seed: int, confidence: float = 0.95, resamples: int = 2000
) -> Band:
    """Return `probability_of_improvement` of every column of `[values, n]` over one sample `[m]`; they share draws."""
    _check_confidence(confidence)
    first, second = _check_columns(samples, "samples"), np.sort(_check_sample(baseline, "baseline"))
    pairs = 2.0 * len(first) * len(second)
    below, reached = (np.searchsorted(second, first, side=side) for side in ("left", "right"))  # [values, n]
    point = (below + reached).sum(axis=0) / pairs
    if min(len(first), len(second)) == 1:
        return Band(point, np.zeros_like(point), np.ones_like(point))
    if len(first) + len(second) > 2 * LARGE and 10 * min(len(first), len(second)) > LARGE:
        return _normal_band(point, _improvement_errors(first, second, below + reached), confidence, 0.0, 1.0)
    order = np.argsort(first, axis=0, kind="stable")  # neighbours in memory are looked up one after the other
    below, reached = (np.take_along_axis(ranks, order, axis=0) for ranks in (below, reached))

    def replicate(some: slice) -> Floats:
        rows = _block_rows(max(len(first), len(second)), resamples)
        ours, theirs = (
            _draw((operator.index(seed), size, side), size, resamples, rows)
            for side, size in enumerate((len(first), len(second)))
        )
        blocks = [
            _count_pairs(below[:, some], reached[:, some], c, _running_sums(d))
            for c, d in zip(ours, theirs, strict=True)
        ]
        return np.concatenate(blocks, axis=1) / pairs

    return Band(point, *_percentiles(replicate, first.shape[1], confidence))


def _improvement_errors(first: Floats, second: Floats, ranks: NDArray[np.intp]) -> Floats:
    """Standard errors for columns `[values, n]` over a sample `[m]`; `ranks` are twice those of the values in it."""
    ours = deviations(ranks / (2.0 * len(second))) ** 2 / len(first)
    theirs = np.empty_like(ours)
    for at, column in enumerate(np.sort(first, axis=0).T):
        above = np.searchsorted(column, second, side="left") + np.searchsorted(column, second, side="right")
        theirs[at] = deviations((above / (2.0 * len(first)))[:, np.newaxis])[0] ** 2 / len(second)
    return np.sqrt(ours + theirs)


def _normal_band(
    point: Floats, error: Floats, confidence: float, least: float = -math.inf, most: float = math.inf
) -> Band:
    """Normal intervals, clipped to the possible values."""
    from scipy.special import ndtri

    half_width = float(ndtri(0.5 + confidence / 2)) * error
    return Band(point, np.maximum(point - half_width, least), np.minimum(point + half_width, most))


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


def _percentiles(replicate: Callable[[slice], Floats], columns: int, confidence: float) -> tuple[Floats, Floats]:
    """Ends of the intervals of columns `[n]`, from replicates `[some, resamples]` computed block by block."""
    low, high = np.empty(columns), np.empty(columns)
    for start in range(0, columns, _COLUMNS_AT_ONCE):
        some = slice(start, start + _COLUMNS_AT_ONCE)
        low[some], high[some] = np.quantile(replicate(some), [(1 - confidence) / 2, (1 + confidence) / 2], axis=1)
    return low, high


def _block_rows(size: int, resamples: int) -> int:
    """Resamples to draw at once of samples of a size."""
    return min(max(_BLOCK // size, 1), resamples)


def _draw(key: tuple[int, ...], size: int, resamples: int, rows: int) -> Iterable[Floats]:
    """How often each value of a sample is drawn: `[size, rows]`, block by block, the last one smaller.

    The blocks together depend on the key alone, not on how large they are.
    """
    wanted = key, size, resamples, rows
    return _draw_cached(*wanted) if size * resamples <= _KEPT else _draw_blocks(*wanted)


@lru_cache(maxsize=16)
def _draw_cached(key: tuple[int, ...], size: int, resamples: int, rows: int) -> tuple[Floats, ...]:
    return tuple(_draw_blocks(key, size, resamples, rows))


def _draw_blocks(key: tuple[int, ...], size: int, resamples: int, rows: int) -> Iterator[Floats]:
    random = np.random.default_rng(key)
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


def _check_columns(values: ArrayLike, name: str, rows: str = "values") -> Floats:
    """The values as float64 `[values, n]`; raises ValueError where they are not."""
    columns = np.asarray(values, dtype=np.float64)
    if columns.ndim != 2 or columns.shape[0] == 0:
        one = rows.removesuffix("s")
        raise ValueError(f"{name} must have shape [{rows}, n] with at least one {one}, not {list(columns.shape)}.")
    _check_finite(columns, name)
    return columns


def _check_sample(values: ArrayLike, name: str) -> Floats:
    """The values as float64 `[n]`; raises ValueError where they are not."""
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


def _is_constant(samples: Floats) -> NDArray[np.bool_]:
    """Which columns of `[runs, n]` hold one repeated number."""
    constant: NDArray[np.bool_] = np.all(samples == samples[0], axis=0)
    return constant
