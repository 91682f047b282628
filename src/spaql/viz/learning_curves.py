"""Learning curves of single runs as a chart; a long noisy one becomes its running mean over the raw values."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from spaql.viz.charts import Chart, Floats, Level, Series

Curve = tuple[ArrayLike, ArrayLike]

# A curve of at least this many points whose ups and downs add up to this many times its range is a scribble.
_LONG = 200
_SCRIBBLE = 8
# Pixels across a figure: more points than this change nothing but the size of the file.
_RESOLUTION = 1000


def make_learning_chart(
    curves: Mapping[str, Curve], *, title: str, y_label: str, optimum: float | None = None, colours: Mapping[str, str]
) -> Chart:
    """Make a chart of learning curves by algorithm, each ``(x, y)`` of iterations and returns `[n]`.

    Examples
    --------
    >>> from spaql.viz.learning_curves import make_learning_chart
    >>> make_learning_chart({"AQL": ([1, 2], [3.0, 4.0])}, title="Oil", y_label="return", colours={}).x_label
    'training iteration'
    """
    if not curves:
        raise ValueError("curves is empty; at least one learning curve is needed.")
    series: list[Series] = []
    windows = set()
    for name, curve in curves.items():
        x, y = (np.asarray(values, dtype=np.float64) for values in curve)
        if x.ndim != 1 or x.size == 0 or y.shape != x.shape:
            raise ValueError(f"curve '{name}' needs x [n] and y [n], not {list(x.shape)} and {list(y.shape)}.")
        if not (np.isfinite(x).all() and np.isfinite(y).all() and (np.diff(x) > 0).all()):
            raise ValueError(f"curve '{name}' needs finite values and an increasing x.")
        if x.size >= _LONG and np.abs(np.diff(y)).sum() > _SCRIBBLE * np.ptp(y):
            raw_x, raw_y = _envelope(x, y)
            series.append(Series(name, raw_x.tolist(), raw_y.tolist(), style="thin", colour=colours.get(name, "")))
            window = x.size // 40 | 1
            windows.add(window)
            kept = np.unique(np.linspace(0, x.size - 1, _RESOLUTION).round().astype(np.intp))
            x, y = x[kept], _running_mean(y, window)[kept]
        series.append(Series(name, x.tolist(), y.tolist(), colour=colours.get(name, "")))
    levels = () if optimum is None else (Level(f"optimum {optimum:.4g}", float(optimum), look="optimum"),)
    span = " to ".join(str(window) for window in sorted({min(windows), max(windows)})) if windows else ""
    note = f"bold: running mean over {span} points, thin: raw" if windows else ""
    return Chart(title, "training iteration", y_label, tuple(series), levels, note=note)


def _running_mean(y: Floats, window: int) -> Floats:
    """Return the centred running mean.

    At the start the window shrinks on both sides, because learning is steepest there and a lopsided window would
    lift the curve; at the end it runs over the points that are there, because one noisy point is no result.
    """
    at = np.arange(y.size)
    reach = np.minimum(at, window // 2)
    first, last = at - reach, np.minimum(at + reach + 1, y.size)
    sums = np.concatenate([[0.0], np.cumsum(y)])
    means: Floats = (sums[last] - sums[first]) / (last - first)
    return means


def _envelope(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return the curve itself, or for a very long one the smallest and largest value in each pixel column."""
    if x.size <= 2 * _RESOLUTION:
        return x, y
    starts = np.linspace(0, x.size, _RESOLUTION, endpoint=False).astype(np.intp)
    ranges = np.stack([np.minimum.reduceat(y, starts), np.maximum.reduceat(y, starts)], axis=1)
    middles = (x[starts] + np.append(x[starts[1:]], x[-1])) / 2
    return np.stack([x[starts], middles], axis=1).ravel(), ranges.ravel()
