"""A partition of the plane as a figure of its own."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from spaql.viz.figures import marks
from spaql.viz.figures.looks import STYLES, Curve, halo, head, new_figure, settle


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
    low, high, colour_values = (np.asarray(a, dtype=np.float64) for a in (boxes_low, boxes_high, values))
    marks.check_cells(low, high, colour_values, "a partition picture")
    figure = new_figure(7.0, 5.5, constrained=True)
    axes = figure.add_subplot()
    cells = marks.cells(axes, low, high, colour_values)
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
    head(axes, title, marks.cell_count(len(low)))
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    return settle(figure)


def _draw_policy(axes: Axes, x: ArrayLike, low: ArrayLike, high: ArrayLike) -> None:
    """The greedy actions as an outlined band, constant around each `x`."""
    at, bottom, top = (np.asarray(a, dtype=np.float64) for a in (x, low, high))
    if at.ndim != 1 or at.size < 2 or bottom.shape != at.shape or top.shape != at.shape:
        raise ValueError("policy needs three arrays x, low, high of one length, at least 2.")
    if not ((np.diff(at) > 0).all() and (bottom <= top).all()):
        raise ValueError("policy needs an increasing x and low <= high.")
    middles = (at[:-1] + at[1:]) / 2
    edges = np.concatenate([[2 * at[0] - middles[0]], middles, [2 * at[-1] - middles[-1]]]).clip(*axes.get_xlim())
    marks.policy(axes, "greedy action", edges, bottom, top, width=1.3)


def _draw_overlay(axes: Axes, name: str, line: Curve, index: int) -> None:
    x, y = (np.asarray(a, dtype=np.float64) for a in line)
    if x.ndim != 1 or x.shape != y.shape:
        raise ValueError(f"overlay '{name}' needs x [k] and y [k], not {list(x.shape)} and {list(y.shape)}.")
    style = STYLES[(index + 1) % len(STYLES)]
    (drawn,) = axes.plot(x, y, color="black", linestyle=style, linewidth=1.4, zorder=4, label=name)
    drawn.set_path_effects(halo(1.4))
