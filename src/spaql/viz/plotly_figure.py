"""Charts as plotly figures: plain dictionaries, as importing plotly takes longer than writing the page.

Colours are those of the light page; a script exchanges them on the dark one (`spaql.viz.style.darken`).
"""

from collections.abc import Mapping
from functools import partial
from html import escape
from typing import Any

import numpy as np

from spaql.partition.spaces import Floats
from spaql.viz.charts import Chart, Level, Trace, limit_y, log_ticks, look_key, place, to_plain
from spaql.viz.style import Look

_plain = partial(escape, quote=False)  # plotly reads tags in every text
_DASHED = "5px,3px"
_NUMBER = ",.4~r"  # four significant digits, as d3 writes them
_BAND, _RANGE = "33", "26"  # opacity, behind the colour
_FEW = 10  # integers along x, each with a tick


def to_plotly(chart: Chart, looks: Mapping[str, Look]) -> dict[str, Any]:
    """Turn a chart into a plotly figure, with its title, note and column names for the page.

    The `customdata` of a trace are the label of x and the ends of the interval, from which the page makes its table.
    """
    traces = place(chart)
    unified = chart.x_scale != "category" and any(trace.series.style != "points" for trace in traces)
    data: list[dict[str, Any]] = []
    for trace in traces:
        first = _plain(trace.series.name) not in [drawn["name"] for drawn in data if drawn["showlegend"]]
        data += _draw_trace(chart, trace, looks[look_key(trace.series)], unified, first)
    levels, limits = [level for level in chart.levels if np.isfinite(level.y)], to_plain(limit_y(chart))
    shapes = [shape for level in levels for shape in _draw_level(level, looks[look_key(level)])]
    return {
        "title": chart.title,
        "note": chart.note,
        "columns": ["series", chart.x_label, chart.y_label, "low", "high"],
        "levels": [to_plain([level.name, level.y, level.low, level.high]) for level in levels],
        "data": data,
        "layout": {
            "xaxis": _x_axis(chart),
            "yaxis": {"title": {"text": _plain(chart.y_label)}, **({"range": limits} if limits else {})},
            "shapes": shapes,
            "hovermode": "x unified" if unified else "closest",
        },
    }


def _draw_trace(chart: Chart, trace: Trace, look: Look, unified: bool, first: bool) -> list[dict[str, Any]]:
    """Return the plotly traces of a series: two where a line has a band."""
    series = trace.series
    ends = [trace.low, trace.high] if trace.low is not None and trace.high is not None else []
    columns = [trace.labels, *(to_plain(end) for end in ends)]
    group = {"type": "scatter", "name": _plain(series.name), "legendgroup": f"series {series.name}"}
    drawn: dict[str, Any] = {
        **group,
        "meta": series.name,
        "x": to_plain(trace.x),
        "y": to_plain(trace.y),
        "showlegend": first and series.name != "" and series.style != "thin",
        "customdata": [to_plain(row) for row in zip(*columns, strict=True)],
        "hovertemplate": _hover_text(chart, series.name, bool(ends), unified),
    }
    if chart.x_scale == "category":  # escaped, unlike those of the table
        drawn["text"] = [_plain(str(label)) for label in trace.labels]
    if series.style == "points":
        drawn |= {"mode": "markers", "marker": {"color": look.colour, "size": 8, "symbol": look.symbol}}
        if ends:
            drawn["error_y"] = {
                **{"type": "data", "symmetric": False, "color": look.colour, "thickness": 1.5, "width": 4},
                "array": to_plain(ends[1] - trace.y),
                "arrayminus": to_plain(trace.y - ends[0]),
            }
        return [drawn]
    thin = series.style == "thin"
    dash = _DASHED if series.style == "dashed" else look.dash
    drawn["mode"] = "lines+markers" if len(trace.y) == 1 else "lines"  # a line of one point cannot be seen
    drawn["line"] = {"color": look.colour + ("66" if thin else ""), "width": 0.8 if thin else 2, "dash": dash}
    if not ends:
        return [drawn]
    fill = {"fill": "toself", "fillcolor": look.colour + _BAND, "mode": "lines", "line": {"width": 0}}
    return [{**group, **_outline(trace.x, *ends), **fill, "hoverinfo": "skip", "showlegend": False}, drawn]


def _hover_text(chart: Chart, name: str, interval: bool, unified: bool) -> str:
    ends = f" [%{{customdata[1]:{_NUMBER}}}, %{{customdata[2]:{_NUMBER}}}]" if interval else ""
    value = f"%{{y:{_NUMBER}}}{ends}"
    where = "%{text}" if chart.x_scale == "category" else f"{_plain(chart.x_label)} %{{customdata[0]:,.6~r}}"
    return value if unified else f"{where}<br>{_plain(name)}: {value}<extra></extra>"


def _outline(x: Floats, low: Floats, high: Floats) -> dict[str, Any]:
    """Return the area between low and high: one closed outline for each stretch without gaps."""
    there = np.flatnonzero(np.isfinite(low) & np.isfinite(high))
    area: dict[str, list[Any]] = {"x": [], "y": []}
    for stretch in np.split(there, np.flatnonzero(np.diff(there) > 1) + 1):
        area["x"] += [*to_plain(x[stretch]), *to_plain(x[stretch[::-1]]), None]
        area["y"] += [*to_plain(high[stretch]), *to_plain(low[stretch[::-1]]), None]
    return area


def _draw_level(level: Level, look: Look) -> list[dict[str, Any]]:
    value = f"{float(f'{level.y:.4g}'):,.10g}"
    name = level.name if value in level.name else f"{level.name} {value}"
    across = {"xref": "paper", "x0": 0, "x1": 1, "legendgroup": f"level {level.name}"}
    line = {
        **across,
        **{"type": "line", "y0": to_plain(level.y), "y1": to_plain(level.y), "layer": "above", "showlegend": True},
        "line": {"color": look.colour, "width": 1.4, "dash": _DASHED},
        "name": _plain(name),
    }
    if level.low is None or level.high is None or not np.isfinite([level.low, level.high]).all():
        return [line]
    ends = {"y0": to_plain(level.low), "y1": to_plain(level.high)}
    fill = {"layer": "below", "fillcolor": look.colour + _RANGE, "line": {"width": 0}}
    return [{**across, "type": "rect", **ends, **fill}, line]


def _x_axis(chart: Chart) -> dict[str, Any]:
    log = chart.x_scale == "log"
    axis: dict[str, Any] = {
        "title": {"text": _plain(chart.x_label)},
        "type": "log" if log else "linear",
        "showgrid": log,
        "hoverformat": ",.6~r",
    }
    names, x = chart.categories, [] if chart.categories else [float(x) for series in chart.series for x in series.x]
    if log and max(x) >= 3 * min(x):
        steps, powers = log_ticks(min(x), max(x)), range(*np.floor(np.log10([min(x), 10 * max(x)])).astype(int))
        ticks = [tick for k in powers for m in steps if min(x) <= 1.1 * (tick := m * 10.0**k) <= 1.21 * max(x)]
        axis |= {"dtick": 1} if len(steps) == 1 else {"tickvals": ticks, "ticktext": [f"{x:,.6g}" for x in ticks]}
    if chart.is_whole and max(x) - min(x) <= _FEW:
        axis["dtick"] = 1
    if names:
        axis |= {"tickvals": list(range(len(names))), "ticktext": [_plain(name) for name in names]}
        axis["range"] = [-0.6, len(names) - 0.4]
    return axis
