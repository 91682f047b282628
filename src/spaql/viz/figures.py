"""Figures for print: charts and partitions in, matplotlib `Figure` out.

Figures are built on `matplotlib.figure.Figure` and the Agg canvas, never on pyplot: nothing is global, nothing needs a
display, and several threads may draw at once.  A notebook shows the figure that a cell returns.
Matplotlib's constrained layout places everything.
"""

import io
import math
import os
import textwrap
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.colors import LinearSegmentedColormap, ListedColormap, LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Patch
from matplotlib.patheffects import Normal, Stroke
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, ScalarFormatter

from spaql.atomic_io import write_file
from spaql.partition.spaces import Floats
from spaql.viz.charts import Chart, Level, Mosaic, Trace, limit_y, log_ticks, look_key, looks_of, place, to_bands
from spaql.viz.style import DIVERGING, EMPTY, GRID, INK, LINES, PALETTE, POLICY, QUIET, SEQUENTIAL, Look

_SCREEN = 96  # pixels of an inch on a page
_COLUMN = 10 / 3  # inches; three columns are what a page holds
_AXES = 1.78  # inches, the height of the axes of a panel
_DASHES = (0, (5, 3))
_HEADING = 13.0  # points
_MOST_NAMES = 24  # in a legend or along an axis
_MOST_VECTORS = 3000  # cells; more of them are drawn as pixels, or the file would be larger than the picture is worth
_DIVERGING = "diverging"  # name of a colour map
_LETTER = 0.54  # usual width of a letter, in units of the size of type
# Settings that matplotlib only has for the whole process: one thread at a time, and put back.  The names inside an SVG
# are random without a salt.  Its text stays text, which can be searched and takes fewer bytes than outlines of letters.
_SVG: dict[Any, str] = {"svg.hashsalt": "spaql", "svg.fonttype": "none"}
_SVG_LOCK = threading.Lock()


class _Sizes(NamedTuple):
    """Sizes in points: type, width of lines, diameter of markers; and the most ticks along an axis."""

    title: float
    note: float
    label: float
    tick: float
    line: float
    marker: float
    ticks: int


_SINGLE = _Sizes(title=12, note=8.5, label=10, tick=9, line=1.9, marker=5.5, ticks=8)
# For a figure 10 inches wide that is printed over a page of 7: nothing may fall below 5.5 points there.
_PANEL = _Sizes(title=10, note=8, label=8.5, tick=8, line=1.5, marker=3.8, ticks=5)


class NotebookFigure(Figure):
    """A figure that a notebook shows as a picture, in the same size with pyplot and without."""

    def _ipython_display_(self) -> None:
        from IPython.display import display  # here: only a notebook needs and has it

        picture, size = self._repr_png_()
        display({"text/plain": repr(self), "image/png": picture}, metadata={"image/png": size}, raw=True)

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        """Return the picture, and its size in pixels of a screen."""
        content = io.BytesIO()
        self.savefig(content, format="png")
        width, height = (round(_SCREEN * inches) for inches in self.get_size_inches())
        return content.getvalue(), {"width": width, "height": height}


def chart(chart: Chart, *, size: tuple[float, float] = (7.0, 4.4), looks: Mapping[str, Look] | None = None) -> Figure:
    """Draw one chart of this size in inches, its legend below the axes; a value that is not finite leaves a gap."""
    figure = make_figure(*size)
    _draw_panel(figure.add_subplot(), chart, looks or looks_of([chart]), _SINGLE, size[0] - 0.9)
    draw_legend(figure, _SINGLE.note + 1)
    return settle(figure)


def panels(
    items: Sequence[Chart | tuple[str, Mosaic]],
    *,
    title: str,
    columns: int = 3,
    note: str = "",
    looks: Mapping[str, Look] | None = None,  # None: chosen for these charts alone
) -> Figure:
    """Draw charts and partitions (a title and the mosaic) in columns, each 10/3 inches wide: three fill a page."""
    columns = min(columns, len(items))
    charts = [item for item in items if isinstance(item, Chart)]
    looks, width = looks or looks_of(charts), _COLUMN * columns
    heading = [(wrap(title, width, 1.1 * _HEADING), _HEADING, "bold", INK), (wrap(note, width, 8), 8, "normal", QUIET)]
    heights = [1.3 * size / 72 * (text.count("\n") + 1) if text else 0.0 for text, size, *_ in heading]
    head = 0.1 + sum(heights)
    rows = [items[i : i + columns] for i in range(0, len(items), columns)]
    names = {part.name for chart in charts for part in chart.parts}
    height = head + sum(map(_row_height, rows)) + 0.19 * -(-len(names) // _legend_columns(names, width, 9)) + 0.3
    figure = make_figure(width, math.ceil(10 * height) / 10, dpi=150, head=head)
    grid = figure.subplots(len(rows), columns, squeeze=False).ravel()
    for axes, item in zip(grid, items, strict=False):
        _draw_panel(axes, item, looks, _PANEL, _COLUMN - 0.75)
    for axes in grid[len(items) :]:
        axes.remove()
    top = 0.1
    for (text, size, weight, colour), above in zip(heading, heights, strict=True):
        if text:
            at = 0.1 / width, 1 - top / figure.get_figheight()
            figure.text(*at, text, size=size, weight=weight, color=colour, va="top", parse_math=False)
        top += above
    draw_legend(figure, _PANEL.note + 1)
    return settle(figure)


def cells(
    low: Floats,  # [n, 2] corners
    high: Floats,
    values: Floats,  # [n]; NaN is grey
    *,
    title: str,
    note: str = "",  # below the title, in small type
    labels: tuple[str, str] = ("state", "action"),
    value_label: str = "Q",
    limits: tuple[float, float] | None = None,  # of the colours, for signed values; None for those of the values
    names: Sequence[str] | None = None,  # where values are indices of names, each with a colour of its own
    log: bool = False,  # whether colours are logarithmic
    rows: Sequence[str] | None = None,  # names along y, each from half below to half above its index
    policy: tuple[Floats, Floats, Floats] | None = None,  # greedy actions, outlined: edges [m + 1], low and high [m]
    lines: Mapping[str, tuple[Any, Any]] | None = None,  # x and y [k] of lines to compare with, by name
    borders: bool = True,  # of the boxes
    y_range: tuple[float, float] | None = None,  # of the axis; None for that of the boxes
    axes: Axes | None = None,  # to draw into; None makes a figure
) -> Any:
    """Draw coloured boxes of a plane, smaller ones over larger ones, as a figure of 7 by 5.2 inches, or into axes.

    Returns the figure, or the axes that were given.
    """
    low, high, values = (np.asarray(array, dtype=np.float64) for array in (low, high, values))
    figure: Figure | None = None
    if axes is None:
        figure = make_figure(7.0, 5.2)
        axes = figure.add_subplot()
    colours = _make_colours(values, limits, names, log)
    drawn = _draw_cells(axes, low, high, values, colours, borders=0.8 if borders else 0)
    axes.set_ylim(*(y_range or axes.get_ylim()))
    if policy is not None:
        _draw_policy(axes, "greedy action", *policy)
    for index, (name, line) in enumerate((lines or {}).items()):
        axes.plot(*line, color="black", linestyle=LINES[(index + 1) % len(LINES)], linewidth=1.4, zorder=4, label=name)
    handles: list[Any] = []
    if names is None:
        bar: Any = axes.figure.colorbar(drawn, ax=axes, pad=0.02, fraction=0.05, label=value_label)
        bar.outline.set_visible(False)
        bar.ax.set_ylim(*(limits or bar.ax.get_ylim()))
    else:
        present = [k for k in range(len(names)) if (values == k).any()][:_MOST_NAMES]
        handles = [Patch(color=colours["cmap"](colours["norm"](k)), label=names[k]) for k in present]
    if np.isnan(values).any():
        handles.append(Patch(color=EMPTY, label="never visited"))
    if rows is not None:
        stride = -(-len(rows) // _MOST_NAMES)
        axes.set_yticks(range(0, len(rows), stride), rows[::stride])
    axes.set_xlabel(labels[0])
    axes.set_ylabel(labels[1])
    heading = value_label if names is not None else ""
    if figure is not None:
        draw_legend(figure, 9.5, more=handles, title=heading)
        draw_title(axes, title, note)
        return settle(figure)
    draw_title(axes, title, note, sizes=_PANEL, width=axes.get_window_extent().width / axes.figure.dpi)
    handles = [*axes.get_legend_handles_labels()[0], *handles]
    if handles:
        below: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.15), "ncols": 2}
        axes.legend(handles=handles, title=heading, fontsize=_PANEL.note, frameon=False, **below)
    return axes


def make_figure(width: float, height: float, *, dpi: int = 160, head: float = 0) -> Figure:
    """Make an empty figure on the Agg canvas, laid out by matplotlib below `head` inches."""
    layout = ConstrainedLayoutEngine(rect=(0, 0, 1, 1 - head / height), w_pad=0.07, h_pad=0.06)
    figure = NotebookFigure(figsize=(width, height), dpi=dpi, layout=layout)
    FigureCanvasAgg(figure)
    return figure


def settle(figure: Figure) -> Figure:
    """Lay the figure out now and for good: the engine moves things a little at every draw, and bytes would differ."""
    figure.draw_without_rendering()
    figure.draw_without_rendering()  # labels outside the axes take their room from the first
    figure.set_layout_engine("none")
    return figure


def wrap(text: str, width: float, size: float) -> str:
    """Break text that would be wider than so many inches at this size of type."""
    return textwrap.fill(text, max(8, int(72 * width / (_LETTER * size))))


def draw_title(axes: Axes, title: str, note: str, *, sizes: _Sizes = _SINGLE, width: float = 6) -> None:
    """Write a title above axes of this width, and a note below it in small type."""
    note = wrap(note, width, sizes.note)
    lines = note.count("\n") + 1 if note else 0
    offset: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points", "parse_math": False}
    axes.annotate(note, (0, 1), xytext=(0, 4), color=QUIET, size=sizes.note, **offset)
    heading: dict[str, Any] = {"fontsize": sizes.title, "fontweight": "bold", "color": INK, "parse_math": False}
    axes.set_title(wrap(title, width, 1.1 * sizes.title), loc="left", pad=6 + 1.22 * sizes.note * lines, **heading)


def draw_legend(figure: Figure, size: float, *, more: Iterable[Any] = (), title: str = "") -> None:
    """Explain every name once, below the axes, with further handles."""
    entries: dict[str, Any] = {}
    for axes in figure.axes:
        own = dict(zip(*axes.get_legend_handles_labels()[::-1], strict=True))
        entries |= {name: handle for name, handle in own.items() if name not in entries}
    entries |= {handle.get_label(): handle for handle in more}
    if not entries:
        return
    width = figure.get_figwidth()
    rows = -(-len(entries) // _legend_columns(entries, width, size))
    spacing: dict[str, Any] = {"handletextpad": 0.6, "columnspacing": 1.8, "labelspacing": 0.3, "title": title or None}
    spacing |= {"loc": "outside lower center", "ncols": -(-len(entries) // rows), "frameon": False, "fontsize": size}
    legend = figure.legend(entries.values(), [wrap(name, width - 0.6, size) for name in entries], **spacing)
    for text in legend.get_texts():
        text.set_parse_math(False)


def _legend_columns(names: Iterable[str], width: float, size: float) -> int:
    longest = max(map(len, names), default=1)
    return max(1, int((width - 0.2) / ((longest * _LETTER + 4.4) * size / 72)))


def _row_height(row: Sequence[Chart | tuple[str, Mosaic]]) -> float:
    """Return the height of a row of panels: axes, and what stands above and below them."""
    tallest = 0.0
    for item in row:
        title, note, names = (item.title, item.note, item.categories) if isinstance(item, Chart) else (item[0], "", ())
        texts = wrap(title, _COLUMN - 0.75, 1.1 * _PANEL.title) + wrap(note, _COLUMN - 0.75, _PANEL.note)
        slant = 0.045 * max(map(len, names)) if names and _tilt(names, _COLUMN - 0.75, _PANEL.tick) else 0
        tallest = max(tallest, 0.17 * texts.count("\n") + min(slant, 1.2))
    return _AXES + 0.9 + tallest


def _draw_panel(
    axes: Axes, item: Chart | tuple[str, Mosaic], looks: Mapping[str, Look], sizes: _Sizes, width: float
) -> None:
    if isinstance(item, Chart):
        title, note, x_label, y_label = item.title, item.note, item.x_label, item.y_label
        _draw_chart(axes, item, looks, sizes, width)
    else:
        title, mosaic = item
        note, x_label, y_label = f"{len(mosaic.q):,} cell{'s' * (len(mosaic.q) > 1)}", "state", "action"
        _draw_mosaic(axes, mosaic, sizes)
    set_ticks(axes.yaxis, sizes.ticks)
    axes.tick_params(which="major", labelsize=sizes.tick, length=3, color=QUIET, labelcolor=INK)
    axes.tick_params(which="minor", length=1.8, color=QUIET)
    label: dict[str, Any] = {"fontsize": sizes.label, "color": INK, "parse_math": False}
    axes.set_xlabel(wrap(x_label, width, sizes.label), **label)
    axes.set_ylabel(wrap(y_label, _AXES if sizes is _PANEL else 3.0, sizes.label), **label)
    draw_title(axes, title, note, sizes=sizes, width=width)


def _draw_chart(axes: Axes, chart: Chart, looks: Mapping[str, Look], sizes: _Sizes, width: float) -> None:
    """Draw series and levels; later ones lie above earlier ones."""
    traces, names = place(chart), chart.categories
    if chart.x_scale == "log":
        axes.set_xscale("log")
    axes.margins(x=0.03 if any(series.style == "points" for series in chart.series) else 0.0, y=0.05)
    for trace in traces:
        _draw_trace(axes, trace, looks[look_key(trace.series)], sizes)
    for level in chart.levels:
        _draw_level(axes, level, looks[look_key(level)], sizes)
    if names:
        axes.set_xlim(-0.6, len(names) - 0.4)
        axes.set_xticks(range(len(names)), names, parse_math=False, **_tilt(names, width, sizes.tick))
    else:
        set_ticks(axes.xaxis, sizes.ticks, chart.is_whole)
    if limits := limit_y(chart):
        axes.set_ylim(limits)
    axes.set_axisbelow(True)
    axes.grid(axis="y", color=GRID, linewidth=0.7)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_level(axes: Axes, level: Level, look: Look, sizes: _Sizes) -> None:
    if level.low is not None and level.high is not None and np.isfinite([level.low, level.high]).all():
        shade: dict[str, Any] = {"alpha": 0.12, "linewidth": 0, "zorder": 1.2, "label": "_range " + level.name}
        axes.axhspan(level.low, level.high, color=look.colour, **shade)
    if np.isfinite(level.y):
        line: dict[str, Any] = {"linewidth": 0.6 * sizes.line, "linestyle": _DASHES, "zorder": 1.5}
        axes.axhline(level.y, color=look.colour, label=level.name, **line)


def _draw_trace(axes: Axes, trace: Trace, look: Look, sizes: _Sizes) -> None:
    """Draw a line with its band or points with their bars, with a gap where a value is not finite."""
    name, style, x = trace.series.name, trace.series.style, trace.x
    there = np.isfinite(trace.y)
    y = np.where(there, trace.y, np.nan)
    more: dict[str, Any] = {"color": look.colour}
    if trace.low is not None and trace.high is not None:
        ends = np.isfinite(trace.low) & np.isfinite(trace.high)
        low, high = np.where(ends, trace.low, np.nan), np.where(ends, trace.high, np.nan)
        if style == "points":
            width = 0.6 * sizes.line
            axes.vlines(x[ends], low[ends], high[ends], linewidth=width, zorder=2.6, label="_bars " + name, **more)
        else:
            band = more | {"alpha": 0.2, "linewidth": 0, "zorder": 2.2, "label": "_band " + name}
            axes.fill_between(x, low, high, where=ends.tolist(), **band)
    if style == "points":
        more |= {"markeredgecolor": "white", "markeredgewidth": 0.4}  # parts those that touch
        axes.plot(x, y, ls="", marker=look.marker, ms=sizes.marker, zorder=3, label=name, **more)
    elif style == "thin":
        axes.plot(x, y, linewidth=0.5, alpha=0.3, zorder=2, label="_raw " + name, **more)
    else:
        joined = np.append(False, there[:-1]) | np.append(there[1:], False)
        lone = np.flatnonzero(there & ~joined).tolist()  # a point that no neighbour joins is a dot
        more |= {"marker": "o" if lone else "", "markevery": lone or None, "ms": 3.16 * sizes.line}
        more |= {"linestyle": _DASHES if style == "dashed" else look.line, "linewidth": sizes.line}
        axes.plot(x, y, zorder=3, label=name, **more)


def _draw_mosaic(axes: Axes, mosaic: Mosaic, sizes: _Sizes) -> None:
    """Draw a partition with its greedy policy and a colour bar beside the axes, which keep their size."""
    edges, played = mosaic.policy
    ends = mosaic.actions or (float(mosaic.low[:, 1].min()), float(mosaic.high[:, 1].max()))
    bottom, top = to_bands(mosaic.low[:, 1], mosaic.high[:, 1], ends)
    low, high = (np.stack([x, y], axis=1) for x, y in ((mosaic.low[:, 0], bottom), (mosaic.high[:, 0], top)))
    drawn = _draw_cells(axes, low, high, mosaic.q, _make_colours(mosaic.q), borders=0.5)
    axes.set_ylim(*ends)
    if len(played):
        _draw_policy(axes, "greedy policy", edges, bottom[played], top[played], width=0.7 * sizes.line)
    bar: Any = axes.get_figure().colorbar(drawn, cax=axes.inset_axes((1.02, 0, 0.035, 1)))  # type: ignore[union-attr]
    bar.outline.set_visible(False)
    bar.solids.set_rasterized(True)  # an SVG would have hundreds of rectangles
    bar.ax.set_title("Q", fontsize=8, pad=3)
    set_ticks(bar.ax.yaxis, sizes.ticks)
    bar.ax.tick_params(labelsize=sizes.tick, length=2)
    set_ticks(axes.xaxis, sizes.ticks)


def _make_colours(
    values: Floats, limits: tuple[float, float] | None = None, names: Sequence[str] | None = None, log: bool = False
) -> dict[str, Any]:
    """Return colour map and norm: a colour for each name, or a scale over the limits or the range of the values.

    Limits on both sides of 0 are those of signed values, whose colours diverge from 0.
    """
    viridis = mpl.colormaps[SEQUENTIAL]
    if names is not None:
        many = len(names) > len(PALETTE)
        listed = viridis(np.linspace(0, 1, len(names))) if many else PALETTE[: len(names)]
        cmap = ListedColormap(list(listed)).with_extremes(bad=EMPTY)
        return {"cmap": cmap, "norm": Normalize(-0.5, len(names) - 0.5)}
    known = values[np.isfinite(values) & ((values > 0.0) | (not log))]
    low, high = limits or ((float(known.min()), float(known.max())) if known.size else (0.0, 1.0))
    if low == high and not log:  # a single value has the middle colour
        low, high = low - max(abs(low), 1.0) / 2, low + max(abs(low), 1.0) / 2
    if limits and low < 0.0 < high:
        most = max(-low, high)
        diverging = LinearSegmentedColormap.from_list(_DIVERGING, DIVERGING).with_extremes(bad=EMPTY)
        return {"cmap": diverging, "norm": Normalize(-most, most)}
    norm = LogNorm(max(low, 1e-12), max(high, 1.01 * low, 2e-12)) if log else Normalize(low, high)
    return {"cmap": viridis.with_extremes(bad=EMPTY), "norm": norm}


def _draw_cells(
    axes: Axes, low: Floats, high: Floats, values: Floats, colours: Mapping[str, Any], *, borders: float = 0.8
) -> PolyCollection:
    """Draw boxes, filling the axes; `borders` is the greatest width of the white borders, 0 for none."""
    order = np.argsort(-np.prod(high - low, axis=1), kind="stable")
    x = np.stack([low[:, 0], high[:, 0], high[:, 0], low[:, 0]], axis=1)
    y = np.stack([low[:, 1], low[:, 1], high[:, 1], high[:, 1]], axis=1)
    # Many cells want thin borders, or the small ones are nothing but border.
    thin = float(np.clip(12 / np.sqrt(len(low)), 0.15, max(borders, 0.15)))
    diverges = colours["cmap"].name == _DIVERGING  # where white borders would vanish around 0
    drawn = PolyCollection(
        list(np.stack([x, y], axis=2)[order]),
        array=np.ma.masked_invalid(values[order]),
        edgecolors=((0.0, 0.0, 0.0, 0.3) if diverges else (1.0, 1.0, 1.0, 0.55)) if borders else "face",
        linewidths=thin if borders else 0.2,
        rasterized=len(low) > _MOST_VECTORS,
        label="_cells",
        **colours,
    )
    axes.add_collection(drawn, autolim=False)
    axes.set_xlim(low[:, 0].min(), high[:, 0].max())
    axes.set_ylim(low[:, 1].min(), high[:, 1].max())
    return drawn


def _draw_policy(axes: Axes, name: str, edges: Floats, low: Floats, high: Floats, *, width: float = 1.3) -> None:
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


def set_ticks(axis: Any, most: int, whole: bool = False) -> None:
    """Choose the ticks of an axis within its limits: at most so many round numbers, with commas from 10,000 on."""
    low, high = sorted(axis.get_view_interval())
    plain = ScalarFormatter(useOffset=False)
    plain.set_powerlimits((-4, 7))
    commas = FuncFormatter(lambda x, _: f"{x:,.10g}".replace("-", "\N{MINUS SIGN}") if abs(x) < 1e7 else f"{x:.0e}")
    axis.set_minor_formatter(NullFormatter())
    if axis.get_scale() != "log" or high < 3 * low:
        axis.set_major_locator(MaxNLocator(nbins=most, steps=[1, 2, 2.5, 5, 10], integer=whole))
        axis.set_major_formatter(commas if 1e4 <= max(-low, high) < 1e7 else plain)
        return
    subs = log_ticks(low, high)
    axis.set_major_locator(LogLocator(subs=subs, numticks=most + 1 if len(subs) == 1 else 12))
    axis.set_major_formatter(commas)


def _tilt(names: Sequence[str], width: float, size: float) -> dict[str, Any]:
    """Turn names that would collide, by as little as will do."""
    slot, letter = width / len(names), size / 72
    if max(map(len, names)) * _LETTER * letter + 0.08 <= slot:
        return {}
    angle = 35 if slot >= 2 * letter else 90
    return {"rotation": angle, "rotation_mode": "anchor", "ha": "right", "va": "top" if angle < 90 else "center"}


def save(figure: Figure, path: str | os.PathLike[str]) -> Path:
    """Write a figure as .png or .svg, whole or not at all; the same figure gives the same bytes."""
    target = Path(path)
    kind = target.suffix.lower().lstrip(".")
    if kind not in ("png", "svg"):
        raise ValueError(f"a figure is saved as .png or .svg, and '{target}' ends in neither.")
    write_file(target, partial(_write, figure, kind))
    return target


def writers(
    name: str, draw: Callable[[], Figure], kinds: Sequence[str] = ("png", "svg")
) -> dict[str, Callable[[Path], object]]:
    """Return functions that write a figure, by file, for `atomic_io.write_files`; `draw` is called for the first."""
    drawn: list[Figure] = []

    def write(kind: str, path: Path) -> None:
        if not drawn or kind == kinds[0]:
            drawn[:] = [draw()]
        _write(drawn[0], kind, path)
        if kind == kinds[-1]:
            drawn.clear()

    return {f"{name}.{kind}": partial(write, kind) for kind in kinds}


def _write(figure: Figure, kind: str, path: Path) -> None:
    if kind == "png":
        figure.savefig(path, format="png", dpi=figure.dpi, metadata={"Software": None})
        return
    with _SVG_LOCK, mpl.rc_context(_SVG):
        figure.savefig(path, format="svg", dpi=figure.dpi, metadata={"Date": None, "Creator": None})
