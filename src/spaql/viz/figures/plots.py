"""A `Chart` made ready and drawn onto given axes: checked, names turned into places, points moved apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from spaql.viz.charts import Chart, Level, Series
from spaql.viz.figures import marks, scales
from spaql.viz.figures.looks import Floats, Look, Sizes

# Points at one x stand this share of the axis apart, or of the gap to the next x where that is narrower.
_DODGE = 0.026
_CROWDED = 0.6


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """A series as it is drawn: numbers along x, moved aside where points of several series would meet."""

    series: Series
    x: Floats
    y: Floats
    low: Floats | None
    high: Floats | None


@dataclass(frozen=True, slots=True, eq=False)
class Plot:
    """A checked chart with the limits of its axes."""

    chart: Chart
    categories: tuple[str, ...]
    traces: tuple[Trace, ...]
    x_limits: scales.Limits
    y_limits: scales.Limits


def look_of(item: Series | Level) -> str:
    """What it is a series of; its own name where that is not said."""
    return item.look or item.name


def looks_in(chart: Chart) -> list[str]:
    """The looks of everything in a chart."""
    return [*map(look_of, chart.series), *map(look_of, chart.levels)]


def plot(chart: Chart) -> Plot:
    """Check a chart and place its points.

    Raises
    ------
    ValueError
        When there is nothing to draw, or when an axis or an interval makes no sense.
    """
    if chart.x_scale not in ("linear", "log", "category"):
        raise ValueError(f"chart '{chart.title}' has the x scale '{chart.x_scale}', not linear, log or category.")
    if not any(len(series.x) for series in chart.series):
        raise ValueError(f"chart '{chart.title}' is empty; at least one point is needed.")
    categories = _categories(chart)
    traces = _dodged([_trace(chart, series, categories) for series in chart.series], chart.x_scale)
    for level in chart.levels:
        _check_level(chart, level)
    return Plot(chart, categories, traces, _x_limits(chart, categories, traces), _y_limits(chart, traces))


def draw(axes: Axes, ready: Plot, looks: Mapping[str, Look], sizes: Sizes) -> None:
    """Draw series and levels; what stands later in the chart lies above what stands earlier."""
    if ready.chart.x_scale == "log":
        axes.set_xscale("log")
    axes.set_xlim(ready.x_limits)
    axes.set_ylim(ready.y_limits)
    axes.set_autoscale_on(False)
    for level in ready.chart.levels:
        _draw_level(axes, level, looks[look_of(level)], sizes)
    for trace in ready.traces:
        _draw_trace(axes, trace, looks[look_of(trace.series)], sizes)


def _draw_level(axes: Axes, level: Level, look: Look, sizes: Sizes) -> None:
    if level.low is not None and level.high is not None and np.isfinite([level.low, level.high]).all():
        axes.axhspan(
            level.low, level.high, color=look.colour, alpha=0.12, linewidth=0, zorder=1.2, label="_range " + level.name
        )
    if np.isfinite(level.y):
        marks.level(axes, level.name, level.y, look.colour, width=0.6 * sizes.line)


def _draw_trace(axes: Axes, trace: Trace, look: Look, sizes: Sizes) -> None:
    name, style = trace.series.name, trace.series.style
    if style == "points":
        if trace.low is not None and trace.high is not None:
            marks.bars(axes, name, trace.x, trace.low, trace.high, look.colour, width=0.6 * sizes.line)
        marks.points(axes, name, trace.x, trace.y, look, size=sizes.marker)
        return
    if trace.low is not None and trace.high is not None:
        marks.band(axes, name, trace.x, trace.low, trace.high, look.colour)
    marks.line(axes, name, trace.x, trace.y, look, width=sizes.line, dashed=style == "dashed")


def _categories(chart: Chart) -> tuple[str, ...]:
    """Names along x in the order of their first appearance; none where x is numbers."""
    if chart.x_scale != "category":
        return ()
    return tuple(dict.fromkeys(str(x) for series in chart.series for x in series.x))


def _trace(chart: Chart, series: Series, categories: Sequence[str]) -> Trace:
    if series.style not in ("line", "dashed", "points"):
        raise ValueError(f"series '{series.name}' has the style '{series.style}', not line, dashed or points.")
    x = _places(chart, series, categories)
    columns = [None if v is None else np.array(v, dtype=np.float64) for v in (series.y, series.low, series.high)]
    if chart.x_scale == "category":  # a line joins names in the order of the axis, not of the series
        order = np.argsort(x, kind="stable")
        x, columns = x[order], [None if v is None else v[order] for v in columns]
    if series.style != "points" and not (np.diff(x) > 0).all():
        raise ValueError(f"series '{series.name}' is a line and needs an increasing x.")
    y, low, high = columns
    assert y is not None
    if low is not None and high is not None and (low > high).any():
        raise ValueError(f"series '{series.name}' needs intervals with low <= high.")
    return Trace(series, x, y, low, high)


def _places(chart: Chart, series: Series, categories: Sequence[str]) -> Floats:
    """Where along the axis the points of a series stand."""
    if chart.x_scale == "category":
        place = {name: float(i) for i, name in enumerate(categories)}
        return np.array([place[str(x)] for x in series.x], dtype=np.float64)
    if any(isinstance(x, str) for x in series.x):
        raise ValueError(f"series '{series.name}' has names along x; they need a chart whose x scale is category.")
    x = np.array(series.x, dtype=np.float64)
    if not np.isfinite(x).all():
        raise ValueError(f"series '{series.name}' needs a finite x.")
    if chart.x_scale == "log" and not (x > 0).all():
        raise ValueError(f"series '{series.name}' needs an x above 0 for a log scale.")
    return x


def _check_level(chart: Chart, level: Level) -> None:
    if (level.low is None) != (level.high is None):
        raise ValueError(f"level '{level.name}' of chart '{chart.title}' needs both low and high, or neither.")
    if level.low is not None and level.high is not None and level.low > level.high:
        raise ValueError(f"level '{level.name}' of chart '{chart.title}' needs low <= high.")


def _dodged(traces: Sequence[Trace], scale: str) -> tuple[Trace, ...]:
    """Points of several series at one x moved sideways, by equal steps as the eye sees them, also on a log axis."""
    aside = [trace for trace in traces if trace.series.style == "points" and trace.x.size]
    places = [np.unique(trace.x) for trace in aside]
    every = np.unique(np.concatenate(places)) if places else np.empty(0)
    if sum(map(len, places)) == len(every):
        return tuple(traces)  # nothing meets
    log = scale == "log"
    seen = np.log10(every) if log else every
    extent = len(seen) if scale == "category" else float(np.ptp(seen))
    gap = float(np.diff(seen).min()) if len(seen) > 1 else 1.0
    step = min(_DODGE * extent if extent else _DODGE, _CROWDED * gap / len(aside))
    moved = []
    for trace in traces:
        if trace in aside:
            shift = step * (aside.index(trace) - (len(aside) - 1) / 2)
            x = trace.x * 10.0**shift if log else trace.x + shift
            trace = Trace(trace.series, x, trace.y, trace.low, trace.high)
        moved.append(trace)
    return tuple(moved)


def _x_limits(chart: Chart, categories: Sequence[str], traces: Sequence[Trace]) -> scales.Limits:
    if chart.x_scale == "category":
        return -0.6, len(categories) - 0.4
    x = np.concatenate([trace.x for trace in traces])
    margin = 0.03 if any(trace.series.style == "points" for trace in traces) else 0.0
    if chart.x_scale == "linear":
        return scales.limits(x, margin)
    low, high = scales.limits(np.log10(x), margin)
    return 10.0**low, 10.0**high


def _y_limits(chart: Chart, traces: Sequence[Trace]) -> scales.Limits:
    columns = [v for trace in traces for v in (trace.y, trace.low, trace.high) if v is not None]
    levels = [v for level in chart.levels for v in (level.y, level.low, level.high) if v is not None]
    return scales.limits(np.concatenate([*columns, np.array(levels, dtype=np.float64)]), 0.05)
