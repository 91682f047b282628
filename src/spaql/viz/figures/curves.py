"""Learning curves of raw runs as a figure of its own, every line named at its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from spaql import stats
from spaql.viz.charts import INK
from spaql.viz.figures import marks
from spaql.viz.figures.looks import GRID, Curve, Floats, Look, head, looks, new_figure, settle

# A curve of at least this many points whose ups and downs add up to this many times its range is a scribble.
_LONG = 200
_SCRIBBLE = 8
# Pixels across a figure: more points than this change nothing but the size of the file.
_RESOLUTION = 1000


@dataclass(frozen=True, slots=True)
class _Drawn:
    """What `learning_curves` says about a curve once it is on the axes."""

    name: str
    colour: str
    end: tuple[float, float]
    runs: int
    window: int


def learning_curves(
    curves: Mapping[str, Curve],
    *,
    title: str,
    optimum: float | None = None,
    x_label: str = "training iteration",
    y_label: str = "return",
) -> Figure:
    """Learning curves of several algorithms, each labelled at its end.

    Several runs become their mean and its 95 % band.  A long noisy curve becomes its running mean, drawn over a thin
    line of the raw values; the window is stated under the title, and the band is that of the running mean.

    Parameters
    ----------
    curves
        Algorithm name to ``(x, y)``: `x` is `[n]`, increasing; `y` is `[runs, n]` or `[n]`.  A name keeps
        its colour from figure to figure, as far as there are colours.
    title
        Heading of the figure.
    optimum
        Best return possible, drawn as a dashed line.
    x_label, y_label
        Names of the axes.

    Returns
    -------
    Figure
        Of 7 by 4.4 inches.
    """
    if not curves:
        raise ValueError("curves is empty; at least one learning curve is needed.")
    figure = new_figure(7.0, 4.4, constrained=True)
    axes = figure.add_subplot()
    found = looks(curves)
    drawn = [_draw_curve(axes, name, curve, found[name]) for name, curve in curves.items()]
    axes.margins(x=0)
    ends = [(d.name, d.colour, d.end) for d in drawn]
    if optimum is not None:
        marks.level(axes, "optimum", optimum, INK, width=1.1)
        ends.append(
            (f"optimum {optimum:.4g}".replace("-", "\N{MINUS SIGN}"), INK, (axes.get_xlim()[1], float(optimum)))
        )
    _label_ends(axes, ends)
    head(axes, title, _reading(drawn))
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.grid(axis="y", color=GRID, linewidth=0.7)
    axes.spines[["top", "right"]].set_visible(False)
    return settle(figure)


def _draw_curve(axes: Axes, name: str, curve: Curve, look: Look) -> _Drawn:
    """Draw one algorithm: band, thin raw line where the curve is smoothed, and the line itself."""
    x, runs = _curve(name, curve)
    raw = stats.mean_band(runs)
    window = _window(raw.mean)
    mean, shown = raw, np.arange(x.size)
    if window > 1:
        axes.plot(*_envelope(x, raw.mean), color=look.colour, linewidth=0.5, alpha=0.3, zorder=2, label="_raw " + name)
        mean = stats.mean_band(_running_mean(runs, window))
        shown = np.unique(np.linspace(0, x.size - 1, _RESOLUTION).round().astype(np.intp))
    if len(runs) > 1:
        marks.band(axes, name, x[shown], mean.low[shown], mean.high[shown], look.colour)
    marks.line(axes, name, x[shown], mean.mean[shown], look, width=1.9)
    return _Drawn(name, look.colour, (float(x[-1]), float(mean.mean[-1])), len(runs), window)


def _curve(name: str, curve: Curve) -> tuple[Floats, Floats]:
    """Checked `x` `[n]` and `y` `[runs, n]`."""
    x = np.asarray(curve[0], dtype=np.float64)
    y = np.atleast_2d(np.asarray(curve[1], dtype=np.float64))
    if x.ndim != 1 or x.size == 0 or y.ndim != 2 or y.shape[0] == 0 or y.shape[1] != x.size:
        raise ValueError(f"curve '{name}' needs x [n] and y [runs, n], not {list(x.shape)} and {list(y.shape)}.")
    if not (np.isfinite(x).all() and np.isfinite(y).all() and (np.diff(x) > 0).all()):
        raise ValueError(f"curve '{name}' needs finite values and an increasing x.")
    return x, y


def _window(y: Floats) -> int:
    """Width of the running mean, odd; 1 for a curve that can be read as it is."""
    variation = np.abs(np.diff(y)).sum()
    if y.size < _LONG or variation <= _SCRIBBLE * np.ptp(y):
        return 1
    return y.size // 40 | 1


def _running_mean(runs: Floats, window: int) -> Floats:
    """Centred running mean of every row of `[runs, n]`.

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
    """The curve itself, or for a very long one the smallest and largest value in each pixel column."""
    if x.size <= 2 * _RESOLUTION:
        return x, y
    starts = np.linspace(0, x.size, _RESOLUTION, endpoint=False).astype(np.intp)
    ranges = np.stack([np.minimum.reduceat(y, starts), np.maximum.reduceat(y, starts)], axis=1)
    return np.repeat(x[starts], 2), ranges.ravel()


def _reading(drawn: Sequence[_Drawn]) -> str:
    """How to read the lines: what the band is, and over how many points the mean runs."""
    parts = []
    runs = sorted({d.runs for d in drawn if d.runs > 1})
    windows = sorted({d.window for d in drawn if d.window > 1})
    if runs:
        parts.append(f"mean of {_span(runs)} runs with 95 % confidence band")
    if windows:
        parts.append(f"bold: running mean over {_span(windows)} points, thin: raw")
    return "; ".join(parts)


def _span(numbers: Sequence[int]) -> str:
    return f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"


def _label_ends(axes: Axes, ends: Sequence[tuple[str, str, tuple[float, float]]]) -> None:
    """Name every line right of the axes, at the height where it ends, moved apart where names would overlap."""
    axes.set_xlim(axes.get_xlim())  # the labels stand at heights of these limits: fix them
    bottom, top = axes.set_ylim(axes.get_ylim())
    heights = np.array([(y - bottom) / (top - bottom) for _, _, (_, y) in ends])
    for (text, colour, end), height in zip(ends, _spread(heights, gap=0.056), strict=True):
        axes.annotate(
            text,
            end,
            xytext=(1.025, height),
            textcoords="axes fraction",
            color=colour,
            fontweight="bold" if colour != INK else "normal",
            size=9.5,
            va="center",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": colour,
                "linewidth": 0.8,
                "relpos": (0, 0.5),
                "shrinkA": 1,
                "shrinkB": 0,
            },
        )


def _spread(heights: Floats, gap: float) -> Floats:
    """The heights moved as little as possible (least squares) so that neighbours are `gap` apart and stay in [0, 1]."""
    order = np.argsort(heights, kind="stable")
    gap = min(gap, 1 / max(len(heights) - 1, 1))
    steps = gap * np.arange(len(heights))
    # "gap apart" is "free does not decrease": isotonic regression, by its min-max formula
    free = heights[order] - steps
    n = len(free)
    level = [max(min(free[j : k + 1].mean() for k in range(i, n)) for j in range(i + 1)) for i in range(n)]
    spread = np.empty(n)
    spread[order] = np.clip(level, 0, 1 - gap * (n - 1)) + steps
    return spread
