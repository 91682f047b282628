"""Charts as plain data, apart from who draws them.

`spaql.viz.figures` draws a `Chart` with matplotlib for print and `spaql.viz.plotly_figure` turns it into a figure for
pages; both use the same placed points and the same looks, so that they cannot disagree.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spaql.partition.spaces import Floats
from spaql.viz.style import INK, Look, make_looks

# Points at one x stand this share of the axis apart, or of the gap to the next x where that is narrower.
_DODGE = 0.026
_CROWDED = 0.6
_BAND_ROOM = 0.25  # of the range of the curves, above and below them, for their bands
BAND = 0.02  # height of a cell of a single action, relative to the action space; also in trees.js and partitions.js
_PAD = 0.05  # of a y axis, at both ends
# A learning curve of at least this many points whose ups and downs add up to this many times its range is a scribble.
_LONG = 200
_SCRIBBLE = 8
_RESOLUTION = 1000  # pixels across a figure: more points than this change nothing but the size of the file


@dataclass(frozen=True, slots=True)
class Series:
    """One line, or one set of points, with its intervals; all columns are `[n]`."""

    name: str  # in the legend
    x: Sequence[float] | Sequence[str]  # names where the chart's scale is "category"
    y: Sequence[float]
    low: Sequence[float] | None = None  # ends of the intervals: a band around a line, error bars on points
    high: Sequence[float] | None = None
    look: str = ""  # series and levels of one look share a colour; the name, unless given
    style: Literal["line", "dashed", "thin", "points"] = "line"
    colour: str = ""  # of everything with this look, such as "#0072B2"; by a hash of the look unless given

    def __post_init__(self) -> None:
        lengths = {len(values) for values in (self.x, self.y, self.low, self.high) if values is not None}
        if len(lengths) != 1:
            raise ValueError(f"series {self.name!r}: x, y, low and high must have one length, not {sorted(lengths)}")
        if (self.low is None) != (self.high is None):
            raise ValueError(f"series {self.name!r}: give both low and high, or neither")


@dataclass(frozen=True, slots=True)
class Level:
    """A horizontal line right across the chart, with a shaded range around it where `low` and `high` are given."""

    name: str
    y: float
    low: float | None = None
    high: float | None = None
    look: str = ""
    colour: str = ""


@dataclass(frozen=True, slots=True)
class Chart:
    """Series and levels over one x axis; later ones are drawn above earlier ones."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    levels: tuple[Level, ...] = ()
    x_scale: Literal["linear", "log", "category"] = "linear"  # categories stand in the order of first appearance
    note: str = ""  # under the title, in small type: what the points are, what the bands are

    @property
    def parts(self) -> list[Series | Level]:
        """Series and levels."""
        return [*self.series, *self.levels]

    @property
    def categories(self) -> tuple[str, ...]:
        """The names along x in the order of their first appearance; none where x is numbers."""
        return tuple(dict.fromkeys(str(x) for s in self.series for x in s.x)) if self.x_scale == "category" else ()

    @property
    def is_whole(self) -> bool:
        """Whether x are integers, so that a tick between two of them makes no sense."""
        return self.x_scale == "linear" and all(float(x).is_integer() for series in self.series for x in series.x)


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """A series as it is drawn: numbers along x, moved aside where points of several series would meet."""

    series: Series
    x: Floats
    y: Floats
    low: Floats | None
    high: Floats | None
    labels: Sequence[Any]  # of x: the names or numbers of the series


def look_key(part: Series | Level) -> str:
    """Return the key of a part's colour."""
    return part.look or part.name


def looks_of(charts: Iterable[Chart]) -> dict[str, Look]:
    """Choose the looks of all series and levels of some charts."""
    parts = [part for chart in charts for part in chart.parts]
    names = {look_key(part): INK if look_key(part).casefold() == "optimum" else "" for part in parts}
    return make_looks(names | {look_key(part): part.colour for part in parts if part.colour})


def place(chart: Chart) -> list[Trace]:
    """Place the points of a chart; ValueError where there is nothing to draw, or an axis or interval makes no sense."""
    if not any(len(series.x) for series in chart.series):
        raise ValueError(f"chart '{chart.title}' is empty; at least one point is needed.")
    return _dodge([_trace(chart, series) for series in chart.series], chart.x_scale)


def limit_y(chart: Chart) -> tuple[float, float] | None:
    """Return the ends of the y axis where bands would flatten the curves between them; None where they do not."""

    def finite(columns: Iterable[Any]) -> Floats:
        values: Floats = np.concatenate([np.ravel(np.asarray(y, np.float64)) for y in columns if y is not None])
        return values[np.isfinite(values)]

    bars = [end for part in chart.series if part.style == "points" for end in (part.low, part.high)]
    curves = finite([part.y for part in chart.parts] + bars)
    every = finite([curves] + [end for part in chart.parts for end in (part.low, part.high)])
    room = _BAND_ROOM * float(np.ptp(curves)) if curves.size else 0.0
    low, high = (max(every.min(), curves.min() - room), min(every.max(), curves.max() + room)) if room else (0, 0)
    if not room or (low == every.min() and high == every.max()):
        return None
    return float(low - _PAD * (high - low)), float(high + _PAD * (high - low))


def log_ticks(low: float, high: float) -> tuple[float, ...]:
    """Return the multiples of powers of ten that a log axis labels; over two decades or more the powers alone."""
    decades = math.log10(high / low)
    return (1.0, 2.0, 5.0) if decades < 1.5 else (1.0, 3.0) if decades < 2 else (1.0,)


def _trace(chart: Chart, series: Series) -> Trace:
    def check(fine: bool, fault: str) -> None:
        if not fine:
            raise ValueError(f"series '{series.name}' {fault}.")

    names = chart.categories
    if not names:
        named = any(isinstance(x, str) for x in series.x)
        check(not named, "has names along x; they need a chart whose x scale is category")
    x = np.array([names.index(str(v)) for v in series.x] if names else series.x, dtype=np.float64)
    check(bool(np.isfinite(x).all()), "needs a finite x")
    check(chart.x_scale != "log" or bool((x > 0).all()), "needs an x above 0 for a log scale")
    order = np.argsort(x, kind="stable") if names else np.arange(len(x))  # a line joins names in the axis's order
    check(series.style == "points" or bool((np.diff(x[order]) > 0).all()), "is a line and needs an increasing x")
    y = np.array(series.y, dtype=np.float64)[order]
    low, high = (None if end is None else np.array(end, np.float64)[order] for end in (series.low, series.high))
    check(low is None or high is None or not (low > high).any(), "needs intervals with low <= high")
    return Trace(series, x[order], y, low, high, [series.x[i] for i in order])


def _dodge(traces: list[Trace], scale: str) -> list[Trace]:
    """Move points of several series at one x sideways, by equal steps as the eye sees them, also on a log axis."""
    aside = [trace for trace in traces if trace.series.style == "points" and trace.x.size]
    places = [np.unique(trace.x) for trace in aside]
    every = np.unique(np.concatenate(places)) if places else np.empty(0)
    if sum(map(len, places)) == len(every):
        return traces  # nothing meets
    log = scale == "log"
    seen = np.log10(every) if log else every
    extent = len(seen) if scale == "category" else float(np.ptp(seen))
    gap = float(np.diff(seen).min()) if len(seen) > 1 else 1.0
    step = min(_DODGE * extent if extent else _DODGE, _CROWDED * gap / len(aside))
    moved = {}
    for i, trace in enumerate(aside):
        shift = step * (i - (len(aside) - 1) / 2)
        moved[id(trace)] = replace(trace, x=trace.x * 10.0**shift if log else trace.x + shift)
    return [moved.get(id(trace), trace) for trace in traces]


@dataclass(frozen=True, slots=True, eq=False)
class Mosaic:
    """A partition of a plane into boxes, state along x and action along y, and its greedy policy."""

    low: Floats  # [n, 2] corners of the cells
    high: Floats
    q: Floats  # [n]
    visits: NDArray[np.integer]  # [n] numbers of updates
    depth: NDArray[np.integer]  # [n] numbers of splits above
    policy: tuple[Floats, NDArray[np.integer]]  # increasing states [m + 1], and the cell played between each two [m]
    actions: tuple[float, float] | None = None  # range of the actions; None for that of the cells

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, ready for JSON; corners are exact, because their last digit is one more halving."""
        exact = {name: getattr(self, name).tolist() for name in ("low", "high", "visits", "depth")}
        edges, played = self.policy
        return {
            **exact,
            "edges": edges.tolist(),
            "played": played.tolist(),
            "q": to_plain(self.q),
            "actions": self.actions,
        }


def to_bands(low: Floats, high: Floats, ends: tuple[float, float]) -> tuple[Floats, Floats]:
    """Return ranges `[n]` as they are drawn between two ends: those without a width become narrow bands."""
    band = BAND * (ends[1] - ends[0])
    bottom = np.clip(low - 0.5 * band, ends[0], ends[1] - band)
    return np.where(low < high, low, bottom), np.where(low < high, high, bottom + band)


def make_learning_chart(
    curves: Mapping[str, tuple[ArrayLike, ArrayLike]],
    *,
    title: str,
    y_label: str,
    optimum: float | None = None,
    colours: Mapping[str, str],
) -> Chart:
    """Make a chart of learning curves of single runs by algorithm, each ``(x, y)`` of iterations and returns `[n]`.

    A long noisy one becomes its running mean over the raw values.
    """
    series: list[Series] = []
    windows = []
    for name, curve in curves.items():
        x, y = (np.asarray(values, dtype=np.float64) for values in curve)
        if x.size >= _LONG and np.abs(np.diff(y)).sum() > _SCRIBBLE * np.ptp(y):
            raw_x, raw_y = _envelope(x, y)
            series.append(Series(name, raw_x.tolist(), raw_y.tolist(), style="thin", colour=colours.get(name, "")))
            window = x.size // 40 | 1
            windows.append(window)
            kept = np.unique(np.linspace(0, x.size - 1, _RESOLUTION).round().astype(np.intp))
            x, y = x[kept], _running_mean(y, window)[kept]
        series.append(Series(name, x.tolist(), y.tolist(), colour=colours.get(name, "")))
    levels = () if optimum is None else (Level(f"optimum {optimum:.4g}", float(optimum), look="optimum"),)
    span = " to ".join(map(str, dict.fromkeys([min(windows), max(windows)]))) if windows else ""
    note = f"bold: running mean over {span} points, thin: raw" if windows else ""
    return Chart(title, "training iteration", y_label, tuple(series), levels, note=note)


def _running_mean(y: Floats, window: int) -> Floats:
    """Return the centred running mean; at the start the window is narrower, as a lopsided one would lift the curve."""
    at = np.arange(y.size)
    reach = np.minimum(at, window // 2)
    first, last = at - reach, np.minimum(at + reach + 1, y.size)
    sums = np.concatenate([[0.0], np.cumsum(y)])
    means: Floats = (sums[last] - sums[first]) / (last - first)
    return means


def _envelope(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return the curve itself, or for a very long one the smallest and largest value in each pixel column."""
    if x.size <= 2 * _RESOLUTION:
        return x, y
    starts = np.linspace(0, x.size, _RESOLUTION, endpoint=False).astype(np.intp)
    ranges = np.stack([np.minimum.reduceat(y, starts), np.maximum.reduceat(y, starts)], axis=1)
    middles = (x[starts] + np.append(x[starts[1:]], x[-1])) / 2
    return np.stack([x[starts], middles], axis=1).ravel(), ranges.ravel()


def to_plain(value: Any) -> Any:
    """Return JSON-ready data: numbers with six significant digits, None for one that is not finite."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, np.ndarray | list | tuple | range):
        return [to_plain(item) for item in value]
    number = float(value)
    if not math.isfinite(number):
        return None
    short = float(f"{number:.6g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short
