"""Learning curves of raw runs as a chart: their mean with its band, or a running mean over the raw values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from spaql import stats
from spaql.viz.charts import Chart, Floats, Level, Series

Curve = tuple[ArrayLike, ArrayLike]

# A curve of at least this many points whose ups and downs add up to this many times its range is a scribble.
_LONG = 200
_SCRIBBLE = 8
# Pixels across a figure: more points than this change nothing but the size of the file.
_RESOLUTION = 1000


def make_learning_chart(
    curves: Mapping[str, Curve],
    *,
    title: str,
    optimum: float | None = None,
    x_label: str = "training iteration",
    y_label: str = "return",
    colours: Mapping[str, str] | None = None,
) -> Chart:
    """Make a chart of the learning curves of several algorithms.

    Several runs become their mean and its 95 % band.  A long noisy curve becomes its running mean, drawn over a thin
    line of the raw values; the window is stated under the title, and the band is that of the running mean.

    Parameters
    ----------
    curves
        Algorithm name to ``(x, y)``: `x` is `[n]`, increasing; `y` is `[runs, n]` or `[n]`.
    title
        Heading of the chart.
    optimum
        Best return possible, drawn as a dashed line.
    x_label, y_label
        Names of the axes.
    colours
        Of the algorithms, by name.

    Examples
    --------
    >>> from spaql.viz.learning_curves import make_learning_chart
    >>> make_learning_chart({"AQL": ([1, 2], [[3.0, 4.0], [4.0, 5.0]])}, title="Oil").note
    'mean of 2 runs with 95 % confidence band'
    """
    if not curves:
        raise ValueError("curves is empty; at least one learning curve is needed.")
    series: list[Series] = []
    counts, windows = set(), set()
    for name, curve in curves.items():
        x, runs = _check_curve(name, curve)
        raw = stats.mean_band(runs)
        window = _choose_window(raw.mean)
        mean, kept = raw, np.arange(x.size)
        colour = (colours or {}).get(name) or ""
        if window > 1:
            thin_x, thin_y = _envelope(x, raw.mean)
            series.append(Series(name, thin_x.tolist(), thin_y.tolist(), style="thin", colour=colour))
            mean = stats.mean_band(_running_mean(runs, window))
            kept = np.unique(np.linspace(0, x.size - 1, _RESOLUTION).round().astype(np.intp))
        low, high = (end[kept].tolist() if len(runs) > 1 else None for end in (mean.low, mean.high))
        series.append(Series(name, x[kept].tolist(), mean.mean[kept].tolist(), low, high, colour=colour))
        counts.add(len(runs))
        windows.add(window)
    levels = () if optimum is None else (Level(f"optimum {optimum:.4g}", float(optimum), look="optimum"),)
    return Chart(title, x_label, y_label, tuple(series), levels, note=_make_note(counts - {1}, windows - {1}))


def _check_curve(name: str, curve: Curve) -> tuple[Floats, Floats]:
    """Return `x` `[n]` and `y` `[runs, n]`."""
    x = np.asarray(curve[0], dtype=np.float64)
    y = np.atleast_2d(np.asarray(curve[1], dtype=np.float64))
    if x.ndim != 1 or x.size == 0 or y.ndim != 2 or y.shape[0] == 0 or y.shape[1] != x.size:
        raise ValueError(f"curve '{name}' needs x [n] and y [runs, n], not {list(x.shape)} and {list(y.shape)}.")
    if not (np.isfinite(x).all() and np.isfinite(y).all() and (np.diff(x) > 0).all()):
        raise ValueError(f"curve '{name}' needs finite values and an increasing x.")
    return x, y


def _choose_window(y: Floats) -> int:
    """Return the width of the running mean, odd; 1 for a curve that can be read as it is."""
    variation = np.abs(np.diff(y)).sum()
    if y.size < _LONG or variation <= _SCRIBBLE * np.ptp(y):
        return 1
    return y.size // 40 | 1


def _running_mean(runs: Floats, window: int) -> Floats:
    """Return the centred running mean of every row of `[runs, n]`.

    At the start the window shrinks on both sides, because learning is steepest there and a lopsided window would
    lift the curve; at the end it runs over the points that are there, because one noisy point is no result.
    """
    n = runs.shape[1]
    at = np.arange(n)
    reach = np.minimum(at, window // 2)
    first, last = at - reach, np.minimum(at + reach + 1, n)
    sums = np.concatenate([np.zeros((len(runs), 1)), np.cumsum(runs, axis=1)], axis=1)
    means: Floats = (sums[:, last] - sums[:, first]) / (last - first)
    return means


def _envelope(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return the curve itself, or for a very long one the smallest and largest value in each pixel column."""
    if x.size <= 2 * _RESOLUTION:
        return x, y
    starts = np.linspace(0, x.size, _RESOLUTION, endpoint=False).astype(np.intp)
    ranges = np.stack([np.minimum.reduceat(y, starts), np.maximum.reduceat(y, starts)], axis=1)
    middle = (x[starts] + np.append(x[starts[1:]], x[-1])) / 2
    return np.stack([x[starts], middle], axis=1).ravel(), ranges.ravel()


def _make_note(counts: set[int], windows: set[int]) -> str:
    parts = []
    if counts:
        parts.append(f"mean of {_span(sorted(counts))} runs with 95 % confidence band")
    if windows:
        parts.append(f"bold: running mean over {_span(sorted(windows))} points, thin: raw")
    return "; ".join(parts)


def _span(numbers: Sequence[int]) -> str:
    return f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
