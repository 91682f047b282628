"""Pictures of results: data in, matplotlib `Figure` out.

Figures are built on `matplotlib.figure.Figure` and the Agg canvas, never on pyplot: nothing is global, nothing needs a
display, and several threads may draw at once.  Whoever wants a window or a notebook can show the figure returned.
"""

from __future__ import annotations

import contextlib
import os
import threading
import uuid
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patheffects import Normal, Stroke
from numpy.typing import ArrayLike, NDArray

from spaql import stats

Floats = NDArray[np.float64]
Curve = tuple[ArrayLike, ArrayLike]

# Okabe and Ito's colours, safe for colour-blind readers, without their yellow, which vanishes on white.
_PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
_KNOWN = {"spaql": "#0072B2", "aql": "#D55E00", "spaql published": "#009E73", "random": "#7F7F7F"}
_STYLES = ("-", "--", ":", "-.")
_INK = "#222222"
_QUIET = "#666666"

# A curve of at least this many points whose ups and downs add up to this many times its range is a scribble.
_LONG = 200
_SCRIBBLE = 8
# Pixels across a figure: more points than this change nothing but the size of the file.
_RESOLUTION = 1000

_SALT_LOCK = threading.Lock()


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
    figure, axes = _new_figure(7.0, 4.4)
    looks = _looks(curves)
    drawn = [_draw_curve(axes, name, curve, *looks[name]) for name, curve in curves.items()]
    axes.margins(x=0)
    ends = [(d.name, d.colour, d.end) for d in drawn]
    if optimum is not None:
        axes.axhline(optimum, color=_INK, linewidth=1.1, linestyle=(0, (5, 3)), zorder=1.5, label="optimum")
        ends.append(
            (f"optimum {optimum:.4g}".replace("-", "\N{MINUS SIGN}"), _INK, (axes.get_xlim()[1], float(optimum)))
        )
    _label_ends(axes, ends)
    _head(axes, title, _reading(drawn))
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.grid(axis="y", color="#E6E6E6", linewidth=0.7)
    axes.spines[["top", "right"]].set_visible(False)
    return _settle(figure)


def partition_picture(
    boxes_low: ArrayLike,
    boxes_high: ArrayLike,
    values: ArrayLike,
    *,
    title: str,
    x_label: str = "state",
    y_label: str = "action",
    value_label: str = "Q",
    policy: tuple[ArrayLike, ArrayLike, ArrayLike] | None = None,
    overlay: Mapping[str, Curve] | None = None,
) -> Figure:
    """A partition of the plane, every cell coloured by its value.

    Parameters
    ----------
    boxes_low, boxes_high
        Lower and upper corners of the cells, `[n, 2]`.  Smaller cells are drawn over larger ones.
    values
        Value of every cell, `[n]`; NaN is drawn grey.
    title
        Heading of the figure.
    x_label, y_label, value_label
        Names of the axes and of the colour bar.
    policy
        ``(x, low, high)``, each `[m]` with `x` increasing: the range of greedy actions at state `x`.
    overlay
        Name to ``(x, y)``, each `[k]`: lines to compare with, such as the optimal policy.

    Returns
    -------
    Figure
        Of 7 by 5.5 inches.
    """
    low, high, colour_values = _cells(boxes_low, boxes_high, values)
    figure, axes = _new_figure(7.0, 5.5)
    cells = PolyCollection(
        list(_rectangles(low, high)),
        array=np.ma.masked_invalid(colour_values),
        cmap=mpl.colormaps["viridis"].with_extremes(bad="#D9D9D9"),
        norm=_norm(colour_values),
        edgecolors=(1.0, 1.0, 1.0, 0.55),
        # Many cells want thin borders, or the small ones are nothing but border.
        linewidths=float(np.clip(12 / np.sqrt(len(low)), 0.15, 0.8)),
        label="cells",
    )
    axes.add_collection(cells, autolim=False)
    axes.set_xlim(low[:, 0].min(), high[:, 0].max())
    axes.set_ylim(low[:, 1].min(), high[:, 1].max())
    if policy is not None:
        _draw_policy(axes, *policy)
    for index, (name, line) in enumerate((overlay or {}).items()):
        _draw_overlay(axes, name, line, index)
    bar = figure.colorbar(cells, ax=axes, pad=0.02, fraction=0.05)
    bar.set_label(value_label)
    bar.outline.set_visible(False)
    if policy is not None or overlay:
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(handles[1:], labels[1:], loc="outside lower center", ncols=4, frameon=False)
    _head(axes, title, "1 cell" if len(low) == 1 else f"{len(low):,} cells")
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    return _settle(figure)


def save(figure: Figure, path: str | os.PathLike[str]) -> Path:
    """Write a figure as PNG or SVG, whole or not at all.

    The same figure gives the same bytes: no date, no version, no random names.

    Parameters
    ----------
    figure
        The figure.
    path
        Where to; ends in ``.png`` or ``.svg``.  An existing file is replaced.

    Returns
    -------
    Path
        The file written.

    Raises
    ------
    ValueError
        When the suffix is another.
    OSError
        When the file cannot be written; nothing is left behind.
    """
    target = Path(path)
    kind = target.suffix.lower()
    if kind not in (".png", ".svg"):
        raise ValueError(f"a figure is saved as .png or .svg, and '{target}' ends in neither.")
    # In the same directory, because a rename is atomic only within one file system.
    temporary = target.with_name(f".{uuid.uuid4().hex}.tmp")
    metadata: dict[str, Any] = {"Software": None} if kind == ".png" else {"Date": None, "Creator": None}
    try:
        # The names inside an SVG hang on this one global setting and are random without it.
        with _SALT_LOCK:
            before = mpl.rcParams["svg.hashsalt"]
            mpl.rcParams["svg.hashsalt"] = "spaql"
            try:
                figure.savefig(temporary, format=kind[1:], dpi=figure.dpi, metadata=metadata)
            finally:
                mpl.rcParams["svg.hashsalt"] = before
        temporary.replace(target)
    except OSError as error:
        raise OSError(f"cannot write the figure to '{target}': {error.strerror or error}.") from error
    finally:
        with contextlib.suppress(OSError):  # gone after the rename, and no error here may hide the one above
            temporary.unlink()
    return target


def _new_figure(width: float, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), dpi=160, layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.add_subplot()


def _settle(figure: Figure) -> Figure:
    """Lay the figure out now and for good: the engine moves things a little at every draw, and bytes would differ."""
    figure.draw_without_rendering()
    figure.draw_without_rendering()  # labels outside the axes take their room from the first
    figure.set_layout_engine("none")
    return figure


def _head(axes: Axes, title: str, reading: str) -> None:
    """Title, and under it in small type what the picture shows."""
    if reading:
        axes.annotate(
            reading, (0, 1), xytext=(0, 5), xycoords="axes fraction", textcoords="offset points", color=_QUIET, size=8.5
        )
    axes.set_title(title, loc="left", fontsize=12, fontweight="bold", color=_INK, pad=19 if reading else 8)


def _looks(names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """A colour and a line style for every name: fixed for names we know, by a hash for others, so that figures agree.

    Sorted, so that the order of the curves does not matter; known names first, so that nobody takes their colour.
    """
    uses: Counter[str] = Counter()
    looks: dict[str, tuple[str, str]] = {}
    for name in sorted(names, key=lambda name: (name.casefold() not in _KNOWN, name)):
        start = zlib.crc32(name.encode())
        ring = [_PALETTE[(start + step) % len(_PALETTE)] for step in range(len(_PALETTE))]
        colour = _KNOWN.get(name.casefold()) or min(ring, key=lambda colour: uses[colour])
        looks[name] = colour, _STYLES[uses[colour] % len(_STYLES)]
        uses[colour] += 1
    return looks


def _draw_curve(axes: Axes, name: str, curve: Curve, colour: str, style: str) -> _Drawn:
    """Draw one algorithm: band, thin raw line where the curve is smoothed, and the line itself."""
    x, runs = _curve(name, curve)
    raw = stats.mean_band(runs)
    window = _window(raw.mean)
    band, shown = raw, np.arange(x.size)
    if window > 1:
        axes.plot(*_envelope(x, raw.mean), color=colour, linewidth=0.5, alpha=0.3, zorder=2, label="_raw " + name)
        band = stats.mean_band(_running_mean(runs, window))
        shown = np.unique(np.linspace(0, x.size - 1, _RESOLUTION).round().astype(np.intp))
    if len(runs) > 1:
        edges = band.low[shown], band.high[shown]
        axes.fill_between(x[shown], *edges, color=colour, alpha=0.2, linewidth=0, zorder=2.2, label="_band " + name)
    marker = "o" if x.size == 1 else ""
    axes.plot(x[shown], band.mean[shown], style, color=colour, linewidth=1.9, marker=marker, zorder=3, label=name)
    return _Drawn(name, colour, (float(x[-1]), float(band.mean[-1])), len(runs), window)


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
            fontweight="bold" if colour != _INK else "normal",
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
    free = (
        heights[order] - steps
    )  # "gap apart" is "free does not decrease": isotonic regression, by its min-max formula
    n = len(free)
    level = [max(min(free[j : k + 1].mean() for k in range(i, n)) for j in range(i + 1)) for i in range(n)]
    spread = np.empty(n)
    spread[order] = np.clip(level, 0, 1 - gap * (n - 1)) + steps
    return spread


def _cells(boxes_low: ArrayLike, boxes_high: ArrayLike, values: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Checked corners `[n, 2]` and values `[n]`, the largest cell first."""
    low, high, colour_values = (np.asarray(a, dtype=np.float64) for a in (boxes_low, boxes_high, values))
    n = len(low) if low.ndim else 0
    if n == 0 or low.shape != (n, 2) or high.shape != (n, 2) or colour_values.shape != (n,):
        shapes = ", ".join(str(list(a.shape)) for a in (low, high, colour_values))
        raise ValueError(f"a partition picture needs corners [n, 2], [n, 2] and values [n], not {shapes}.")
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
        raise ValueError("every cell needs finite corners with the lower one below the upper one.")
    if np.isinf(colour_values).any():
        raise ValueError("cell values must be finite, or NaN for cells without a value.")
    order = np.argsort(-np.prod(high - low, axis=1), kind="stable")
    return low[order], high[order], colour_values[order]


def _rectangles(low: Floats, high: Floats) -> Floats:
    """Corners of the boxes in drawing order, `[n, 4, 2]`."""
    x = np.stack([low[:, 0], high[:, 0], high[:, 0], low[:, 0]], axis=1)
    y = np.stack([low[:, 1], low[:, 1], high[:, 1], high[:, 1]], axis=1)
    return np.stack([x, y], axis=2)


def _norm(values: Floats) -> Normalize:
    """Colours over the range of the values; a single value gets the middle colour."""
    finite = values[np.isfinite(values)]
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 1.0)
    if low == high:
        pad = max(abs(low), 1.0) / 2
        low, high = low - pad, high + pad
    return Normalize(low, high)


def _draw_policy(axes: Axes, x: ArrayLike, low: ArrayLike, high: ArrayLike) -> None:
    """The greedy actions as an outlined band, constant around each `x`, broken where they jump."""
    at, bottom, top = (np.asarray(a, dtype=np.float64) for a in (x, low, high))
    if at.ndim != 1 or at.size < 2 or bottom.shape != at.shape or top.shape != at.shape:
        raise ValueError("policy needs three arrays x, low, high of one length, at least 2.")
    if not ((np.diff(at) > 0).all() and (bottom <= top).all()):
        raise ValueError("policy needs an increasing x and low <= high.")
    middles = (at[:-1] + at[1:]) / 2
    edges = np.concatenate([[2 * at[0] - middles[0]], middles, [2 * at[-1] - middles[-1]]]).clip(*axes.get_xlim())
    jumps = np.flatnonzero((bottom[1:] > top[:-1]) | (top[1:] < bottom[:-1])) + 1
    bounds = [0, *jumps.tolist(), at.size]
    pieces = []
    for start, stop in pairwise(bounds):
        along = np.repeat(edges[start : stop + 1], 2)[1:-1]
        there = np.stack([along, np.repeat(top[start:stop], 2)], axis=1)
        back = np.stack([along, np.repeat(bottom[start:stop], 2)], axis=1)[::-1]
        pieces.append(np.concatenate([there, back]))
    band = PolyCollection(
        pieces, facecolors="none", edgecolors="#E3120B", linewidths=1.3, zorder=3, label="greedy action"
    )
    band.set_path_effects([Stroke(linewidth=2.7, foreground="white"), Normal()])
    axes.add_collection(band, autolim=False)


def _draw_overlay(axes: Axes, name: str, line: Curve, index: int) -> None:
    x, y = (np.asarray(a, dtype=np.float64) for a in line)
    if x.ndim != 1 or x.shape != y.shape:
        raise ValueError(f"overlay '{name}' needs x [k] and y [k], not {list(x.shape)} and {list(y.shape)}.")
    style = _STYLES[(index + 1) % len(_STYLES)]
    (drawn,) = axes.plot(x, y, color="black", linestyle=style, linewidth=1.4, zorder=4, label=name)
    drawn.set_path_effects([Stroke(linewidth=2.8, foreground="white"), Normal()])
