"""Cells of a plane, coloured: partitions over states and actions, and policies over two observed numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import ListedColormap, LogNorm, Normalize
from matplotlib.patheffects import Normal, Stroke

from spaql.viz.charts import Floats, Mosaic
from spaql.viz.style import EMPTY, PALETTE, POLICY

_MOST_VECTORS = 3000  # cells; more of them are drawn as pixels, or the file would be larger than the picture is worth


def check_cells(low: Floats, high: Floats, values: Floats, what: str) -> None:
    """Raise ValueError for cells that cannot be drawn."""
    n = len(low) if low.ndim else 0
    if n == 0 or low.shape != (n, 2) or high.shape != (n, 2) or values.shape != (n,):
        shapes = ", ".join(str(list(a.shape)) for a in (low, high, values))
        raise ValueError(f"{what} needs corners [n, 2], [n, 2] and values [n], not {shapes}.")
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
        raise ValueError(f"{what}: every cell needs finite corners with the lower one below the upper one.")
    if np.isinf(values).any():
        raise ValueError(f"{what}: cell values must be finite, or NaN for cells without a value.")


def make_colours(
    values: Floats, limits: tuple[float, float] | None = None, names: Sequence[str] | None = None, log: bool = False
) -> dict[str, Any]:
    """Return colour map and norm: a colour for each name, or viridis over the limits or the range of the values."""
    if names is not None:
        few = len(names) <= len(PALETTE)
        listed = (
            PALETTE[: len(names)] if few else [mpl.colormaps["viridis"](at) for at in np.linspace(0, 1, len(names))]
        )
        norm: Normalize = Normalize(-0.5, len(names) - 0.5)
        return {"cmap": ListedColormap(list(listed)).with_extremes(bad=EMPTY), "norm": norm}
    known = values[np.isfinite(values) & ((values > 0.0) | (not log))]
    low, high = limits or ((float(known.min()), float(known.max())) if known.size else (0.0, 1.0))
    if low == high and not log:  # a single value has the middle colour
        low, high = low - max(abs(low), 1.0) / 2, low + max(abs(low), 1.0) / 2
    norm = LogNorm(max(low, 1e-12), max(high, 1.01 * low, 2e-12)) if log else Normalize(low, high)
    return {"cmap": mpl.colormaps["viridis"].with_extremes(bad=EMPTY), "norm": norm}


def draw_cells(
    axes: Axes, low: Floats, high: Floats, values: Floats, colours: Mapping[str, Any], *, borders: float = 0.8
) -> PolyCollection:
    """Draw boxes, smaller ones over larger ones, filling the axes; NaN is grey.

    `borders` is the greatest width of the white borders; 0 for none.
    """
    order = np.argsort(-np.prod(high - low, axis=1), kind="stable")
    x = np.stack([low[:, 0], high[:, 0], high[:, 0], low[:, 0]], axis=1)
    y = np.stack([low[:, 1], low[:, 1], high[:, 1], high[:, 1]], axis=1)
    # Many cells want thin borders, or the small ones are nothing but border.
    thin = float(np.clip(12 / np.sqrt(len(low)), 0.15, max(borders, 0.15)))
    drawn = PolyCollection(
        list(np.stack([x, y], axis=2)[order]),
        array=np.ma.masked_invalid(values[order]),
        edgecolors=(1.0, 1.0, 1.0, 0.55) if borders else "face",
        linewidths=thin if borders else 0.2,
        rasterized=len(low) > _MOST_VECTORS,
        label="_cells",
        **colours,
    )
    axes.add_collection(drawn, autolim=False)
    axes.set_xlim(low[:, 0].min(), high[:, 0].max())
    axes.set_ylim(low[:, 1].min(), high[:, 1].max())
    return drawn


def draw_policy(axes: Axes, name: str, edges: Floats, low: Floats, high: Floats, *, width: float = 1.3) -> None:
    """Outline ranges `[m]` of actions, each from one edge `[m + 1]` to the next, as one band broken where it jumps."""
    jumps = np.flatnonzero((low[1:] > high[:-1]) | (high[1:] < low[:-1])) + 1
    pieces = []
    for start, stop in pairwise([0, *jumps.tolist(), len(low)]):
        along = np.repeat(edges[start : stop + 1], 2)[1:-1]
        there = np.stack([along, np.repeat(high[start:stop], 2)], axis=1)
        back = np.stack([along, np.repeat(low[start:stop], 2)], axis=1)[::-1]
        pieces.append(np.concatenate([there, back]))
    outline = PolyCollection(pieces, facecolors="none", edgecolors=POLICY, linewidths=width, zorder=3, label=name)
    outline.set_path_effects([Stroke(linewidth=width + 1.4, foreground="white"), Normal()])
    axes.add_collection(outline, autolim=False)


def draw_bar(axes: Axes, cells: PolyCollection) -> Any:
    """Draw a colour bar beside the axes, which keep their size; as pixels, or an SVG has hundreds of rectangles."""
    bar: Any = axes.get_figure().colorbar(cells, cax=axes.inset_axes((1.02, 0, 0.035, 1)))  # type: ignore[union-attr]
    bar.outline.set_visible(False)
    bar.solids.set_rasterized(True)
    return bar


def draw_mosaic(axes: Axes, title: str, mosaic: Mosaic, *, width: float) -> Any:
    """Draw a partition with its greedy policy and its colour bar, which is returned."""
    low, high, edges, played = mosaic.low, mosaic.high, mosaic.edges, mosaic.played
    check_cells(low, high, mosaic.q, f"partition '{title}'")
    if not ((np.diff(edges) > 0).all() and ((played >= 0) & (played < len(low))).all()):
        raise ValueError(f"the policy of partition '{title}' needs increasing edges and cells that are there.")
    cells = draw_cells(axes, low, high, mosaic.q, make_colours(mosaic.q), borders=0.5)
    if len(played):
        draw_policy(axes, "greedy policy", edges, low[played, 1], high[played, 1], width=width)
    bar = draw_bar(axes, cells)
    bar.ax.set_title("Q", fontsize=8, pad=3)
    return bar
