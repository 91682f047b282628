"""Tiles of a plane as a figure: coloured by a value with a bar beside them, or by what they name with a legend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import ListedColormap, LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from spaql.viz.charts import PALETTE
from spaql.viz.figures import marks
from spaql.viz.figures.looks import Floats, head, new_figure, settle

_EMPTY = "#D9D9D9"
_MOST_VECTORS = 3000  # tiles; more of them are drawn as pixels, or the file would be larger than the picture is worth
_MOST_NAMED = 24


def plane_picture(
    low: Floats,
    high: Floats,
    values: Floats,
    *,
    title: str,
    note: str,
    labels: tuple[str, str],
    value_label: str,
    limits: tuple[float, float] | None = None,
    names: Sequence[str] | None = None,
    log: bool = False,
    rows: Sequence[str] | None = None,
    played: tuple[Floats, Floats, Floats] | None = None,
    borders: bool = True,
) -> Figure:
    """Boxes of a plane, coloured.

    Parameters
    ----------
    low, high
        Corners, `[n, 2]`.  Smaller boxes are drawn over larger ones.
    values
        Of every box, `[n]`; NaN is grey.
    title, note
        Heading, and what stands below it in small type.
    labels
        Names of the axes.
    value_label
        Name of the colours.
    limits
        Ends of the colour scale; None takes them from the values.
    names
        Where values are numbers of names: the names, each with a colour of its own.
    log
        Whether the colour scale is one of powers.
    rows
        Names along y, each from half below to half above its number.
    played
        ``(edges, low, high)`` of a band that is outlined, as in `marks.policy`.
    borders
        Whether to draw the borders of the boxes.

    Returns
    -------
    Figure
        Of 7 by 5.2 inches.
    """
    marks.check_cells(low, high, values, "a picture of a plane")
    figure = new_figure(7.0, 5.2, constrained=True)
    axes = figure.add_subplot()
    colours, norm = _colours(values, limits, names, log)
    drawn = _tiles(axes, low, high, values, colours, norm, borders)
    if played is not None:
        marks.policy(axes, "what is played", *played, width=1.3)
    empty = [Patch(color=_EMPTY, label="never visited")] if np.isnan(values).any() else []
    if names is None:
        bar = figure.colorbar(drawn, ax=axes, pad=0.02, fraction=0.05)
        bar.set_label(value_label)
        bar.outline.set_visible(False)
        if empty:
            figure.legend(handles=empty, loc="outside lower center", frameon=False)
    else:
        there = [k for k in range(len(names)) if (values == k).any()][:_MOST_NAMED]
        handles = [Patch(color=colours(norm(k)), label=names[k]) for k in there] + empty
        figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, title=value_label)
    if rows is not None:
        stride = -(-len(rows) // _MOST_NAMED)
        axes.set_yticks(range(0, len(rows), stride), rows[::stride])
    head(axes, title, note)
    axes.set_xlabel(labels[0])
    axes.set_ylabel(labels[1])
    return settle(figure)


def _colours(
    values: Floats, limits: tuple[float, float] | None, names: Sequence[str] | None, log: bool
) -> tuple[Any, Normalize]:
    if names is not None:
        few = len(names) <= len(PALETTE)
        steps = np.linspace(0.0, 1.0, len(names))
        listed = list(PALETTE[: len(names)]) if few else [mpl.colormaps["viridis"](at) for at in steps]
        return ListedColormap(listed).with_extremes(bad=_EMPTY), Normalize(-0.5, len(names) - 0.5)
    scale = mpl.colormaps["viridis"].with_extremes(bad=_EMPTY)
    known = values[np.isfinite(values) & (values > 0.0)] if log else values
    ends = marks.norm(known) if limits is None else Normalize(*limits)
    low, high = float(ends.vmin or 0.0), float(ends.vmax or 0.0)
    return scale, LogNorm(max(low, 1e-12), max(high, 2e-12)) if log else Normalize(low, high)


def _tiles(
    axes: Axes, low: Floats, high: Floats, values: Floats, colours: Any, norm: Normalize, borders: bool
) -> PolyCollection:
    order = np.argsort(-np.prod(high - low, axis=1), kind="stable")
    thin = float(np.clip(12 / np.sqrt(len(low)), 0.15, 0.8))
    drawn = PolyCollection(
        list(marks.rectangles(low[order], high[order])),
        array=np.ma.masked_invalid(values[order]),
        cmap=colours,
        norm=norm,
        edgecolors=(1.0, 1.0, 1.0, 0.55) if borders else "face",
        linewidths=thin if borders else 0.2,
        rasterized=len(low) > _MOST_VECTORS,
        label="tiles",
    )
    axes.add_collection(drawn, autolim=False)
    axes.set_xlim(low[:, 0].min(), high[:, 0].max())
    axes.set_ylim(low[:, 1].min(), high[:, 1].max())
    return drawn
