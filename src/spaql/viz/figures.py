"""Figures for print: charts and partitions in, matplotlib `Figure` out.

Figures are built on `matplotlib.figure.Figure` and the Agg canvas, never on pyplot: nothing is global, nothing needs a
display, and several threads may draw at once.  Callers can show the figure returned in a window or a notebook.
Matplotlib's constrained layout places everything.
"""

from __future__ import annotations

import math
import os
import textwrap
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, ScalarFormatter

from spaql.atomic_io import draft_file
from spaql.viz.charts import Chart, Level, Mosaic, Trace, categories_of, look_key, looks_of, place, x_limits, y_limits
from spaql.viz.partition_plot import draw_mosaic
from spaql.viz.style import GRID, INK, POLICY, QUIET, Look

_COLUMN = 10 / 3  # inches; three columns are what a page holds
_AXES = 1.78  # inches, the height of the axes of a panel
_DASHES = (0, (5, 3))
_HEADING = 13.0  # points
_LETTER = 0.54  # usual width of a letter, in units of the size of type
# Settings that matplotlib only has for the whole process: one thread at a time, and put back.  The names inside an SVG
# are random without a salt.  Its text stays text, which can be searched and takes fewer bytes than outlines of letters.
_SVG: dict[Any, str] = {"svg.hashsalt": "spaql", "svg.fonttype": "none"}
_SVG_LOCK = threading.Lock()


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Sizes in points: type, width of lines, diameter of markers; and the most ticks along x and y."""

    title: float
    note: float
    label: float
    tick: float
    line: float
    marker: float
    ticks: tuple[int, int]


_SINGLE = _Sizes(title=12, note=8.5, label=10, tick=9, line=1.9, marker=5.5, ticks=(8, 7))
# For a figure 10 inches wide that is printed over a page of 7: nothing may fall below 5.5 points there.
_PANEL = _Sizes(title=10, note=8, label=8.5, tick=8, line=1.5, marker=3.8, ticks=(5, 5))


def chart(chart: Chart, *, size: tuple[float, float] = (7.0, 4.4)) -> Figure:
    """Draw one chart, its legend below the axes.

    Parameters
    ----------
    chart
        The data.  A value that is not finite leaves a gap.
    size
        Width and height in inches.

    Raises
    ------
    ValueError
        When there is nothing to draw, or when an axis or an interval makes no sense.
    """
    figure = make_figure(*size)
    looks = looks_of([chart])
    _draw_panel(figure.add_subplot(), chart, looks, _SINGLE, size[0] - 0.9)
    _draw_legend(figure, _legend_entries([chart], looks, _SINGLE), _SINGLE)
    return settle(figure)


def panels(items: Sequence[Chart | tuple[str, Mosaic]], *, title: str, columns: int = 3, note: str = "") -> Figure:
    """Draw charts and partitions side by side, with one legend below all of them.

    A chart in which a name looks different than in another has a legend of its own.

    Parameters
    ----------
    items
        Row by row; a partition is its title and the mosaic.
    title, note
        Heading of the figure, and the line below it in small type.
    columns
        Panels side by side, each 10/3 inches wide: three are a page's width.

    Raises
    ------
    ValueError
        When there are no items, or when one of them cannot be drawn.
    """
    if not items:
        raise ValueError("items is empty; at least one chart or partition is needed.")
    if columns < 1:
        raise ValueError(f"columns must be at least 1, not {columns}.")
    columns = min(columns, len(items))
    charts = [item for item in items if isinstance(item, Chart)]
    looks = looks_of(charts)
    entries = [_legend_entries([chart], looks, _PANEL) for chart in charts]
    shared = _agree(charts)
    legend = _legend_entries(charts, looks, _PANEL) if shared else {}
    if any(isinstance(item, tuple) and len(item[1].played) for item in items):
        legend["greedy policy"] = (Patch(facecolor="none", edgecolor=POLICY, linewidth=1.1),)
    rows = -(-len(items) // columns)
    width, head = _COLUMN * columns, _heading_height(title, note, _COLUMN * columns)
    height = head + sum(_panel_height(items[i : i + columns]) for i in range(0, len(items), columns))
    height = math.ceil(10 * (height + 0.19 * _legend_rows(legend, width, _PANEL) + 0.1)) / 10
    figure = make_figure(width, height, dpi=150, rect=(0, 0, 1, 1 - head / height))
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, item in zip(grid, items, strict=False):
        _draw_panel(axes, item, looks, _PANEL, _COLUMN - 0.75)
    for axes in grid[len(items) :]:
        axes.remove()
    if not shared:
        for axes, own in zip(
            (a for a, item in zip(grid, items, strict=False) if isinstance(item, Chart)), entries, strict=True
        ):
            _set_plain(axes.legend(list(own.values()), list(own), fontsize=_PANEL.note, framealpha=0.8))
    _draw_heading(figure, title, note)
    _draw_legend(figure, legend, _PANEL)
    return settle(figure)


# Parts of a figure ---------------------------------------------------------------------------------------------------


def make_figure(
    width: float, height: float, *, dpi: int = 160, rect: tuple[float, float, float, float] = (0, 0, 1, 1)
) -> Figure:
    """Make an empty figure on the Agg canvas, laid out by matplotlib within the rectangle."""
    layout = ConstrainedLayoutEngine(rect=rect, w_pad=0.07, h_pad=0.06)
    figure = Figure(figsize=(width, height), dpi=dpi, layout=layout)
    FigureCanvasAgg(figure)
    return figure


def settle(figure: Figure) -> Figure:
    """Lay the figure out now and for good: the engine moves things a little at every draw, and bytes would differ."""
    figure.draw_without_rendering()
    figure.draw_without_rendering()  # labels outside the axes take their room from the first
    figure.set_layout_engine("none")
    return figure


def draw_title(
    axes: Axes, title: str, note: str, *, size: float = 12, note_size: float = 8.5, width: float = 6
) -> None:
    """Write a title above axes of this width, and a note below it in small type."""
    note = wrap(note, width, note_size)
    lines = note.count("\n") + 1 if note else 0
    if note:
        place = {"xycoords": "axes fraction", "textcoords": "offset points", "va": "bottom", "parse_math": False}
        axes.annotate(note, (0, 1), xytext=(0, 4), color=QUIET, size=note_size, **place)  # type: ignore[arg-type]
    heading: dict[str, Any] = {"fontsize": size, "fontweight": "bold", "color": INK, "parse_math": False}
    axes.set_title(wrap(title, width, 1.1 * size), loc="left", pad=6 + 1.22 * note_size * lines, **heading)


def wrap(text: str, width: float, size: float) -> str:
    """Break text that would be wider than so many inches at this size of type."""
    return "\n".join(textwrap.fill(line, max(8, int(72 * width / (_LETTER * size)))) for line in text.split("\n"))


def _draw_panel(
    axes: Axes, item: Chart | tuple[str, Mosaic], looks: Mapping[str, Look], sizes: _Sizes, width: float
) -> None:
    if isinstance(item, Chart):
        title, note, x_label, y_label = item.title, item.note, item.x_label, item.y_label
        _draw_chart(axes, item, looks, sizes, width)
        axes.set_axisbelow(True)
        axes.grid(axis="y", color=GRID, linewidth=0.7)
        axes.spines[["top", "right"]].set_visible(False)
    else:
        title, note, x_label, y_label = (
            item[0],
            f"{len(item[1].q):,} cell{'s' * (len(item[1].q) != 1)}",
            "state",
            "action",
        )
        bar = draw_mosaic(axes, *item, width=0.7 * sizes.line)
        set_ticks(bar.ax.yaxis, sizes.ticks[1])
        bar.ax.tick_params(labelsize=sizes.tick, length=2)
        set_ticks(axes.xaxis, sizes.ticks[0])
    set_ticks(axes.yaxis, sizes.ticks[1])
    axes.tick_params(which="major", labelsize=sizes.tick, length=3, color=QUIET, labelcolor=INK)
    axes.tick_params(which="minor", length=1.8, color=QUIET)
    label: dict[str, Any] = {"fontsize": sizes.label, "color": INK, "parse_math": False}
    axes.set_xlabel(wrap(x_label, width, sizes.label), **label)
    axes.set_ylabel(wrap(y_label, _AXES if sizes is _PANEL else 3.0, sizes.label), **label)
    draw_title(axes, title, note, size=sizes.title, note_size=sizes.note, width=width)


def _draw_chart(axes: Axes, chart: Chart, looks: Mapping[str, Look], sizes: _Sizes, width: float) -> None:
    """Draw series and levels; later ones lie above earlier ones."""
    traces = place(chart)
    names = categories_of(chart)
    if chart.x_scale == "log":
        axes.set_xscale("log")
    axes.set_xlim(x_limits(chart, traces))
    axes.set_ylim(y_limits(chart, traces))
    axes.set_autoscale_on(False)
    for level in chart.levels:
        _draw_level(axes, level, looks[look_key(level)], sizes)
    for trace in traces:
        _draw_trace(axes, trace, looks[look_key(trace.series)], sizes)
    if names:
        axes.set_xticks(range(len(names)), names, parse_math=False, **_tilt(names, width, sizes.tick))
    else:
        set_ticks(axes.xaxis, sizes.ticks[0])


def _draw_level(axes: Axes, level: Level, look: Look, sizes: _Sizes) -> None:
    if level.low is not None and level.high is not None and np.isfinite([level.low, level.high]).all():
        ends = level.low, level.high
        axes.axhspan(*ends, color=look.colour, alpha=0.12, linewidth=0, zorder=1.2, label="_range " + level.name)
    if np.isfinite(level.y):
        line: dict[str, Any] = {"linewidth": 0.6 * sizes.line, "linestyle": _DASHES, "zorder": 1.5}
        axes.axhline(level.y, color=look.colour, label=level.name, **line)


def _draw_trace(axes: Axes, trace: Trace, look: Look, sizes: _Sizes) -> None:
    """Draw a line with its band or points with their bars, with a gap where a value is not finite."""
    name, style, x = trace.series.name, trace.series.style, trace.x
    there = np.isfinite(trace.y)
    y = np.where(there, trace.y, np.nan)
    if trace.low is not None and trace.high is not None:
        ends = np.isfinite(trace.low) & np.isfinite(trace.high)
        low, high = np.where(ends, trace.low, np.nan), np.where(ends, trace.high, np.nan)
        if style == "points":
            bar: dict[str, Any] = {"linewidth": 0.6 * sizes.line, "zorder": 2.6, "label": "_bars " + name}
            axes.vlines(x[ends], low[ends], high[ends], color=look.colour, **bar)
        else:
            band: dict[str, Any] = {"alpha": 0.2, "linewidth": 0, "zorder": 2.2, "label": "_band " + name}
            axes.fill_between(x, low, high, where=ends.tolist(), color=look.colour, **band)
    if style == "points":
        rim: dict[str, Any] = {"markeredgecolor": "white", "markeredgewidth": 0.4}  # parts those that touch
        axes.plot(x, y, ls="", marker=look.marker, ms=sizes.marker, color=look.colour, zorder=3, label=name, **rim)
        return
    if style == "thin":
        axes.plot(x, y, color=look.colour, linewidth=0.5, alpha=0.3, zorder=2, label="_raw " + name)
        return
    joined = np.append(False, there[:-1]) | np.append(there[1:], False)
    lone = np.flatnonzero(there & ~joined).tolist()  # a point that no neighbour joins is a dot
    line: dict[str, Any] = {"linestyle": _DASHES if style == "dashed" else look.line, "linewidth": sizes.line}
    dots: dict[str, Any] = {"marker": "o" if lone else "", "markevery": lone or None, "ms": 3.16 * sizes.line}
    axes.plot(x, y, color=look.colour, zorder=3, label=name, **line, **dots)


# Ticks ---------------------------------------------------------------------------------------------------------------


def set_ticks(axis: Any, most: int) -> None:
    """Choose the ticks of an axis within its limits: at most so many round numbers, with commas from 10,000 on."""
    low, high = sorted(axis.get_view_interval())
    plain = ScalarFormatter(useOffset=False)
    plain.set_powerlimits((-4, 7))
    commas = FuncFormatter(lambda x, _: f"{x:,.10g}".replace("-", "\N{MINUS SIGN}") if abs(x) < 1e7 else f"{x:.0e}")
    axis.set_minor_formatter(NullFormatter())
    if axis.get_scale() != "log" or high < 3 * low:
        axis.set_major_locator(MaxNLocator(nbins=most, steps=[1, 2, 2.5, 5, 10]))
        axis.set_major_formatter(commas if 1e4 <= max(-low, high) < 1e7 else plain)
        return
    decades = math.log10(high / low)
    subs = (1.0, 2.0, 5.0) if decades < 1.5 else (1.0, 3.0) if decades < 2 else (1.0,)
    axis.set_major_locator(LogLocator(subs=subs, numticks=most + 1 if decades >= 2 else 12))
    axis.set_major_formatter(commas)


def _tilt(names: Sequence[str], width: float, size: float) -> dict[str, Any]:
    """Turn names that would collide, by as little as will do."""
    slot, letter = width / len(names), size / 72
    if max(map(len, names)) * _LETTER * letter + 0.08 <= slot:
        return {}
    angle = 35 if slot >= 2 * letter else 90
    return {"rotation": angle, "rotation_mode": "anchor", "ha": "right", "va": "top" if angle < 90 else "center"}


# Headings and legends ------------------------------------------------------------------------------------------------


def _heading_height(title: str, note: str, width: float) -> float:
    lines = (title, _HEADING * 1.1, _HEADING), (note, _PANEL.note, _PANEL.note)
    return 0.1 + sum((wrap(text, width, w).count("\n") + 1) * 1.3 * size / 72 for text, w, size in lines if text)


def _draw_heading(figure: Figure, title: str, note: str) -> None:
    width, height = figure.get_size_inches()
    text: dict[str, Any] = {"va": "top", "parse_math": False}
    figure.text(
        0.1 / width,
        1 - 0.1 / height,
        wrap(title, width, _HEADING * 1.1),
        size=_HEADING,
        color=INK,
        weight="bold",
        **text,
    )
    if note:
        top = _heading_height(title, "", width)
        figure.text(
            0.1 / width, 1 - top / height, wrap(note, width, _PANEL.note), size=_PANEL.note, color=QUIET, **text
        )


def _panel_height(row: Sequence[Chart | tuple[str, Mosaic]]) -> float:
    """Return the height of a row of panels: axes, and what stands above and below them."""
    width, tallest = _COLUMN - 0.75, 0.0
    for item in row:
        title, note = (item.title, item.note) if isinstance(item, Chart) else (item[0], "cells")
        tall = 0.2 * (wrap(title, width, 1.1 * _PANEL.title).count("\n") + 1)
        tall += 0.14 * (wrap(note, width, _PANEL.note).count("\n") + 1) if note else 0
        names = categories_of(item) if isinstance(item, Chart) else ()
        if names and _tilt(names, width, _PANEL.tick):
            tall += min(1.2, 0.6 * max(map(len, names)) * _LETTER * _PANEL.tick / 72)
        tallest = max(tallest, tall)
    return _AXES + 0.55 + tallest


def _legend_entries(charts: Iterable[Chart], looks: Mapping[str, Look], sizes: _Sizes) -> dict[str, tuple[Any, ...]]:
    """Return marks by name, drawn over each other: of one name, those of the first series or level."""
    entries: dict[str, tuple[Any, ...]] = {}
    for chart in charts:
        for series in chart.series:
            look = looks[look_key(series)]
            line: dict[str, Any] = {"color": look.colour, "linewidth": sizes.line}
            line["linestyle"] = _DASHES if series.style == "dashed" else look.line
            if series.style == "points":
                marks: tuple[Any, ...] = (
                    Line2D([], [], ls="", marker=look.marker, ms=sizes.marker, color=look.colour),
                )
            else:
                marks = (Line2D([], [], **line),)
                marks = (Patch(color=look.colour, alpha=0.2, linewidth=0), *marks) if series.low is not None else marks
            if series.name and series.style != "thin":
                entries.setdefault(series.name, marks)
        for level in chart.levels:
            colour = looks[look_key(level)].colour
            marks = (Line2D([], [], color=colour, linestyle=_DASHES, linewidth=0.6 * sizes.line),)
            marks = (Patch(color=colour, alpha=0.12, linewidth=0), *marks) if level.low is not None else marks
            if level.name:
                entries.setdefault(level.name, marks)
    return entries


def _agree(charts: Iterable[Chart]) -> bool:
    """Return whether a name looks one way in all charts."""
    keys: dict[str, str] = {}
    parts = (part for chart in charts for part in chart.parts)
    return all(keys.setdefault(part.name, look_key(part)) == look_key(part) for part in parts if part.name)


def _legend_columns(entries: Iterable[str], width: float, sizes: _Sizes) -> int:
    widest = max((len(name) for name in entries), default=1)
    return max(1, int((width - 0.2) / ((widest * _LETTER + 4.4) * (sizes.note + 1) / 72)))


def _legend_rows(entries: Mapping[str, Any], width: float, sizes: _Sizes) -> int:
    return -(-len(entries) // _legend_columns(entries, width, sizes))


def _draw_legend(figure: Figure, entries: Mapping[str, tuple[Any, ...]], sizes: _Sizes) -> None:
    if not entries:
        return
    width = figure.get_size_inches()[0]
    rows = _legend_rows(entries, width, sizes)
    columns = -(-len(entries) // rows)  # no more columns than that many rows fill
    names = [wrap(name, width - 0.6, sizes.note + 1) for name in entries]
    spacing: dict[str, Any] = {"handletextpad": 0.6, "columnspacing": 1.8, "labelspacing": 0.3, "borderaxespad": 0.2}
    draw: Any = figure.legend  # whose types do not know marks drawn over each other
    _set_plain(
        draw(
            list(entries.values()),
            names,
            loc="outside lower center",
            ncols=columns,
            frameon=False,
            fontsize=sizes.note + 1,
            **spacing,
        )
    )


def _set_plain(legend: Any) -> None:
    for text in legend.get_texts():
        text.set_parse_math(False)


# Files ---------------------------------------------------------------------------------------------------------------


def save(figure: Figure, path: str | os.PathLike[str]) -> Path:
    """Write a figure as PNG or SVG, whole or not at all.

    The same figure gives the same bytes: no date, no version, no random names.

    Parameters
    ----------
    figure
        The figure.
    path
        Ends in ``.png`` or ``.svg``.  An existing file is replaced.

    Raises
    ------
    ValueError
        When the suffix is another.
    OutputError
        When the file cannot be written; nothing is left behind.
    """
    target = Path(path)
    kind = target.suffix.lower().lstrip(".")
    if kind not in ("png", "svg"):
        raise ValueError(f"a figure is saved as .png or .svg, and '{target}' ends in neither.")
    with draft_file(target) as draft:
        _write(figure, kind, draft)
    return target


def writers(
    name: str, draw: Callable[[], Figure], kinds: Sequence[str] = ("png", "svg")
) -> dict[str, Callable[[Path], object]]:
    """Return a function for each file of a figure that writes it to a given path, for `atomic_io.write_files`.

    The figure is drawn once, when the first of them is written, and forgotten with the last.

    Parameters
    ----------
    name
        Of the files, without a suffix; it may have a subfolder.
    draw
        Makes the figure.
    kinds
        Suffixes of the files.

    Examples
    --------
    >>> from spaql.viz import figures
    >>> sorted(figures.writers("figures/oil", lambda: None))
    ['figures/oil.png', 'figures/oil.svg']
    """
    drawn: list[Figure] = []
    left = list(kinds)

    def write(kind: str, path: Path) -> None:
        figure = drawn[0] if drawn else draw()
        drawn[:] = [figure]
        left.remove(kind)
        if not left:
            drawn.clear()
            left.extend(kinds)
        _write(figure, kind, path)

    return {f"{name}.{kind}": partial(write, kind) for kind in kinds}


def _write(figure: Figure, kind: str, path: Path) -> None:
    if kind == "png":
        figure.savefig(path, format="png", dpi=figure.dpi, metadata={"Software": None})
        return
    with _SVG_LOCK:
        before = {name: mpl.rcParams[name] for name in _SVG}
        mpl.rcParams.update(_SVG)
        try:
            figure.savefig(path, format="svg", dpi=figure.dpi, metadata={"Date": None, "Creator": None})
        finally:
            mpl.rcParams.update(before)
