"""Legends whose size is known before they are drawn, so that room is kept for them and they cover nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from spaql.viz.charts import Chart
from spaql.viz.figures import rulers
from spaql.viz.figures.looks import DASHES, POLICY, Look, Sizes
from spaql.viz.figures.plots import look_of

_T = TypeVar("_T")

# All in units of the size of type, as matplotlib has them.
_SPACING: Mapping[str, float] = {
    "handlelength": 2.0,
    "handletextpad": 0.6,
    "columnspacing": 1.8,
    "labelspacing": 0.3,
    "borderpad": 0.0,
    "borderaxespad": 0.0,
}


@dataclass(frozen=True, slots=True)
class Entry:
    """A name and the marks it stands for, drawn over each other."""

    name: str
    look: str
    marks: tuple[Artist, ...]


@dataclass(frozen=True, slots=True)
class Legend:
    """Entries in columns, and the height they take in inches; nothing takes no height."""

    entries: tuple[Entry, ...]
    names: tuple[str, ...]
    columns: int
    height: float
    size: float


def chart_entries(chart: Chart, looks: Mapping[str, Look], sizes: Sizes) -> list[Entry]:
    """An entry for every series and level that has a name; of one name, the first."""
    entries = []
    for series in chart.series:
        look = looks[look_of(series)]
        shaded = series.low is not None
        if series.style == "points":
            dot = Line2D([], [], linestyle="", marker=look.marker, markersize=sizes.marker, color=look.colour)
            marks: tuple[Artist, ...] = (dot,)
        else:
            style: Any = DASHES if series.style == "dashed" else look.line
            marks = _line(look.colour, style, sizes.line, shade=0.2 if shaded else 0.0)
        entries.append(Entry(series.name, look_of(series), marks))
    for level in chart.levels:
        marks = _line(looks[look_of(level)].colour, DASHES, 0.6 * sizes.line, shade=0.12 * (level.low is not None))
        entries.append(Entry(level.name, look_of(level), marks))
    return merged(entry for entry in entries if entry.name)


def policy_entry(name: str) -> Entry:
    """The outline of a greedy policy."""
    return Entry(name, "", (Patch(facecolor="none", edgecolor=POLICY, linewidth=1.1),))


def merged(entries: Iterable[Entry]) -> list[Entry]:
    """Every name once, as it comes first."""
    found: dict[str, Entry] = {}
    for entry in entries:
        found.setdefault(entry.name, entry)
    return list(found.values())


def agree(charts: Sequence[Sequence[Entry]]) -> bool:
    """Whether one legend can serve all charts: each shares a name with the first, and a name looks one way."""
    charts = [entries for entries in charts if entries]
    looks: dict[str, str] = {}
    if any(looks.setdefault(entry.name, entry.look) != entry.look for entries in charts for entry in entries):
        return False
    first = {entry.name for entry in charts[0]} if charts else set()
    return all(first & {entry.name for entry in entries} for entries in charts)


def legend(entries: Sequence[Entry], room: float, size: float) -> Legend:
    """A legend in as many columns as fit into `room` inches."""
    if not entries:
        return Legend((), (), 1, 0.0, size)
    em = size / 72
    handle = (_SPACING["handlelength"] + _SPACING["handletextpad"]) * em
    names = [rulers.wrap(entry.name, room - handle, size) for entry in entries]
    widths = [handle + rulers.width(name, size) for name in names]
    fitting = [n for n in range(1, len(names) + 1) if n == 1 or _width(widths, n, em) <= room]
    fewest = -(-len(names) // fitting[-1])
    columns = next(n for n in fitting if -(-len(names) // n) == fewest)  # no more columns than that many rows fill
    lines = sum(max(name.count("\n") + 1 for name in row) for row in _rows(names, columns))
    rows = len(_rows(names, columns))
    tall = (lines * rulers.LEADING + (rows - 1) * _SPACING["labelspacing"]) * em
    return Legend(tuple(entries), tuple(names), columns, tall, size)


def add(owner: Figure | Axes, wanted: Legend, *, loc: str, anchor: tuple[float, float]) -> None:
    """Draw a legend so that the point `loc` of it stands at `anchor`."""
    handles = [entry.marks for entry in wanted.entries]
    draw: Any = owner.legend  # whose types do not know marks drawn over each other
    drawn = draw(
        handles,
        wanted.names,
        loc=loc,
        bbox_to_anchor=anchor,
        ncols=wanted.columns,
        fontsize=wanted.size,
        frameon=False,
        **_SPACING,
    )
    for text in drawn.get_texts():
        text.set_parse_math(False)


def _line(colour: str, style: Any, width: float, *, shade: float) -> tuple[Artist, ...]:
    drawn = Line2D([], [], color=colour, linestyle=style, linewidth=width)
    return (Patch(color=colour, alpha=shade, linewidth=0), drawn) if shade else (drawn,)


def _split(items: Sequence[_T], columns: int) -> list[list[_T]]:
    """Entries fill one column after another, the first ones longer, as matplotlib has them."""
    each, longer = divmod(len(items), columns)
    counts = [each + 1] * longer + [each] * (columns - longer)
    starts = [sum(counts[:i]) for i in range(columns)]
    return [list(items[start : start + count]) for start, count in zip(starts, counts, strict=True)]


def _rows(names: Sequence[str], columns: int) -> list[list[str]]:
    split = _split(names, columns)
    return [[column[i] for column in split if i < len(column)] for i in range(len(split[0]))]


def _width(widths: Sequence[float], columns: int, em: float) -> float:
    return sum(map(max, _split(widths, columns))) + (columns - 1) * _SPACING["columnspacing"] * em
