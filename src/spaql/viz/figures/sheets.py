"""The plain data of `spaql.viz.charts` as figures: one chart, or charts and partitions side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from spaql.viz.charts import Chart, Mosaic
from spaql.viz.figures import legends, marks, plots
from spaql.viz.figures.layouts import Sheet
from spaql.viz.figures.looks import GRID, PANEL, SINGLE, Look, Sizes, looks
from spaql.viz.figures.panel import Panel

_POLICY = "greedy policy"
_COLUMN = 10 / 3  # inches; three columns are what a page holds


def chart(chart: Chart, *, size: tuple[float, float] = (7.0, 4.4)) -> Figure:
    """One chart as a figure, its legend below the axes.

    Parameters
    ----------
    chart
        What to show.  A value that is not finite leaves a gap.
    size
        Width and height in inches.

    Returns
    -------
    Figure
        Of that size.

    Raises
    ------
    ValueError
        When there is nothing to draw, when an axis or an interval makes no sense, or when the size leaves no room.
    """
    found = looks(plots.looks_in(chart))
    return Sheet([_chart_panel(chart, found, SINGLE)], SINGLE, columns=1, width=size[0], height=size[1]).figure()


def panels(items: Sequence[Chart | tuple[str, Mosaic]], *, title: str, columns: int = 3, note: str = "") -> Figure:
    """Charts and partitions side by side in one figure.

    Names that agree from chart to chart stand in one legend below all panels; otherwise every chart has its own.

    Parameters
    ----------
    items
        Row by row; a partition is its title and the mosaic.
    title, note
        Heading of the figure, and what stands below it in small type.
    columns
        Panels side by side, each 10/3 inches wide: three are a page's width.

    Returns
    -------
    Figure
        As high as its rows need.

    Raises
    ------
    ValueError
        When there are no items, or when one of them cannot be drawn.
    """
    if not items:
        raise ValueError("items is empty; at least one chart or partition is needed.")
    if columns < 1:
        raise ValueError(f"columns must be at least 1, not {columns}.")
    charts = [item for item in items if isinstance(item, Chart)]
    found = looks(name for chart in charts for name in plots.looks_in(chart))
    ready = [
        _chart_panel(item, found, PANEL) if isinstance(item, Chart) else _mosaic_panel(*item, PANEL) for item in items
    ]
    columns = min(columns, len(items))
    return Sheet(ready, PANEL, columns=columns, width=_COLUMN * columns, title=title, note=note).figure()


def _chart_panel(chart: Chart, found: Mapping[str, Look], sizes: Sizes) -> Panel:
    ready = plots.plot(chart)

    def paint(axes: Axes) -> None:
        plots.draw(axes, ready, found, sizes)
        axes.set_axisbelow(True)
        axes.grid(axis="y", color=GRID, linewidth=0.7)
        axes.spines[["top", "right"]].set_visible(False)

    return Panel(
        title=chart.title,
        note=chart.note,
        x_label=chart.x_label,
        y_label=chart.y_label,
        x_limits=ready.x_limits,
        y_limits=ready.y_limits,
        paint=paint,
        sizes=sizes,
        entries=legends.chart_entries(chart, found, sizes),
        log=chart.x_scale == "log",
        categories=ready.categories,
    )


def _mosaic_panel(title: str, mosaic: Mosaic, sizes: Sizes) -> Panel:
    low, high, edges, played = mosaic.low, mosaic.high, mosaic.edges, mosaic.played
    marks.check_cells(low, high, mosaic.q, f"partition '{title}'")
    if not ((np.diff(edges) > 0).all() and ((played >= 0) & (played < len(low))).all()):
        raise ValueError(f"the policy of partition '{title}' needs increasing edges and cells that are there.")

    def paint(axes: Axes) -> None:
        marks.cells(axes, low, high, mosaic.q, thickest=0.5)
        if len(played):
            marks.policy(axes, _POLICY, edges, low[played, 1], high[played, 1], width=0.7 * sizes.line)

    colours = marks.norm(mosaic.q)
    return Panel(
        title=title,
        note=marks.cell_count(len(low)),
        x_label="state",
        y_label="action",
        x_limits=(float(low[:, 0].min()), float(high[:, 0].max())),
        y_limits=(float(low[:, 1].min()), float(high[:, 1].max())),
        paint=paint,
        sizes=sizes,
        entries=[legends.policy_entry(_POLICY)] if len(played) else [],
        values=(float(colours.vmin or 0.0), float(colours.vmax or 0.0)),
    )
