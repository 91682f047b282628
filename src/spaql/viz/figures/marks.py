"""The marks that charts are made of, drawn onto given axes: line, band, error bars, level, and the cells of a plane.

Every mark carries its name as label, with an underscore and a word before it where it only accompanies a line.
"""

from __future__ import annotations

from itertools import pairwise

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import Normalize

from spaql.viz.figures.looks import DASHES, POLICY, Floats, Look, halo


def line(axes: Axes, name: str, x: Floats, y: Floats, look: Look, *, width: float, dashed: bool = False) -> None:
    """A line, broken where `y` is not finite; a point that no neighbour joins is a dot."""
    there = np.isfinite(y)
    joined = np.zeros_like(there)
    joined[1:] |= there[:-1]
    joined[:-1] |= there[1:]
    lone = np.flatnonzero(there & ~joined)
    axes.plot(
        x,
        np.where(there, y, np.nan),
        linestyle=DASHES if dashed else look.line,
        color=look.colour,
        linewidth=width,
        marker="o" if lone.size else "",
        markevery=lone.tolist() if lone.size else None,
        markersize=3.16 * width,
        zorder=3,
        label=name,
    )


def band(axes: Axes, name: str, x: Floats, low: Floats, high: Floats, colour: str) -> None:
    """The area between two lines, open where one of them is not finite."""
    there = np.isfinite(low) & np.isfinite(high)
    edges = np.where(there, low, np.nan), np.where(there, high, np.nan)
    axes.fill_between(
        x, *edges, where=there.tolist(), color=colour, alpha=0.2, linewidth=0, zorder=2.2, label="_band " + name
    )


def points(axes: Axes, name: str, x: Floats, y: Floats, look: Look, *, size: float) -> None:
    """Markers that nothing joins; a thin white rim parts those that touch."""
    axes.plot(
        x,
        np.where(np.isfinite(y), y, np.nan),
        linestyle="",
        marker=look.marker,
        markersize=size,
        color=look.colour,
        markeredgecolor="white",
        markeredgewidth=0.4,
        zorder=3,
        label=name,
    )


def bars(axes: Axes, name: str, x: Floats, low: Floats, high: Floats, colour: str, *, width: float) -> None:
    """Vertical error bars, none where an end is not finite."""
    there = np.isfinite(low) & np.isfinite(high)
    axes.vlines(x[there], low[there], high[there], color=colour, linewidth=width, zorder=2.6, label="_bars " + name)


def level(axes: Axes, name: str, y: float, colour: str, *, width: float) -> None:
    """A dashed line right across."""
    axes.axhline(y, color=colour, linewidth=width, linestyle=DASHES, zorder=1.5, label=name)


def cells(axes: Axes, low: Floats, high: Floats, values: Floats, *, thickest: float = 0.8) -> PolyCollection:
    """Boxes coloured by value, smaller ones over larger ones, filling the axes; NaN is grey."""
    order = np.argsort(-np.prod(high - low, axis=1), kind="stable")
    drawn = PolyCollection(
        list(rectangles(low[order], high[order])),
        array=np.ma.masked_invalid(values[order]),
        cmap=mpl.colormaps["viridis"].with_extremes(bad="#D9D9D9"),
        norm=norm(values),
        edgecolors=(1.0, 1.0, 1.0, 0.55),
        # Many cells want thin borders, or the small ones are nothing but border.
        linewidths=float(np.clip(12 / np.sqrt(len(low)), 0.15, thickest)),
        label="cells",
    )
    axes.add_collection(drawn, autolim=False)
    axes.set_xlim(low[:, 0].min(), high[:, 0].max())
    axes.set_ylim(low[:, 1].min(), high[:, 1].max())
    return drawn


def policy(axes: Axes, name: str, edges: Floats, low: Floats, high: Floats, *, width: float) -> None:
    """Outline ranges `[m]` of actions, each from one edge `[m + 1]` to the next, as one band broken where it jumps."""
    jumps = np.flatnonzero((low[1:] > high[:-1]) | (high[1:] < low[:-1])) + 1
    pieces = []
    for start, stop in pairwise([0, *jumps.tolist(), len(low)]):
        along = np.repeat(edges[start : stop + 1], 2)[1:-1]
        there = np.stack([along, np.repeat(high[start:stop], 2)], axis=1)
        back = np.stack([along, np.repeat(low[start:stop], 2)], axis=1)[::-1]
        pieces.append(np.concatenate([there, back]))
    outline = PolyCollection(pieces, facecolors="none", edgecolors=POLICY, linewidths=width, zorder=3, label=name)
    outline.set_path_effects(halo(width))
    axes.add_collection(outline, autolim=False)


def check_cells(low: Floats, high: Floats, values: Floats, what: str) -> None:
    """Refuse cells that cannot be drawn."""
    n = len(low) if low.ndim else 0
    if n == 0 or low.shape != (n, 2) or high.shape != (n, 2) or values.shape != (n,):
        shapes = ", ".join(str(list(a.shape)) for a in (low, high, values))
        raise ValueError(f"{what} needs corners [n, 2], [n, 2] and values [n], not {shapes}.")
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
        raise ValueError(f"{what}: every cell needs finite corners with the lower one below the upper one.")
    if np.isinf(values).any():
        raise ValueError(f"{what}: cell values must be finite, or NaN for cells without a value.")


def cell_count(n: int) -> str:
    """How many cells, as a reader says it."""
    return "1 cell" if n == 1 else f"{n:,} cells"


def norm(values: Floats) -> Normalize:
    """Colours over the range of the values; a single value gets the middle colour."""
    finite = values[np.isfinite(values)]
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 1.0)
    if low == high:
        pad = max(abs(low), 1.0) / 2
        low, high = low - pad, high + pad
    return Normalize(low, high)


def rectangles(low: Floats, high: Floats) -> Floats:
    """Corners of the boxes in drawing order, `[n, 4, 2]`."""
    x = np.stack([low[:, 0], high[:, 0], high[:, 0], low[:, 0]], axis=1)
    y = np.stack([low[:, 1], low[:, 1], high[:, 1], high[:, 1]], axis=1)
    return np.stack([x, y], axis=2)
