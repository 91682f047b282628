"""What a chart shows, apart from who draws it.

`spaql.viz.figures` draws this plain data with matplotlib for print, and `spaql.viz.report` hands it to the page, so that a
figure and the report can never disagree.

A `Chart` has series over one x axis; a `Mosaic` is a partition of the plane.  Both turn into plain lists for JSON.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

# Okabe and Ito's colours, safe for colour-blind readers, without their yellow, which vanishes on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
GREY = "#7F7F7F"
INK = "#222222"
KNOWN = {
    "tessera": PALETTE[0],
    "aql": PALETTE[1],
    "spaql published": PALETTE[2],
    "spaql beyond": PALETTE[3],
    "random": GREY,
    "optimum": INK,
}


def colours(looks: Iterable[str]) -> dict[str, tuple[str, int]]:
    """A colour for every look, and how many looks had that colour before it.

    Fixed for the looks we know; others choose by a hash of their name, so that pictures agree, and take the colour of
    a known look only when no other is left.  The order of the looks does not matter.
    """
    uses: Counter[str] = Counter()
    reserved = set(KNOWN.values())
    found: dict[str, tuple[str, int]] = {}
    for look in sorted(set(looks), key=lambda look: (look.casefold() not in KNOWN, look)):
        start = zlib.crc32(look.encode())
        ring = [PALETTE[(start + step) % len(PALETTE)] for step in range(len(PALETTE))]
        colour = KNOWN.get(look.casefold()) or min(ring, key=lambda colour: (uses[colour], colour in reserved))
        found[look] = colour, uses[colour]
        uses[colour] += 1
    return found


@dataclass(frozen=True, slots=True)
class Series:
    """One line, or one set of points, with its intervals.

    Attributes
    ----------
    name
        What the legend says.
    x, y
        Where; `x` holds category names where the chart's scale is "category".  Both `[n]`.
    low, high
        Ends of the interval at each point, `[n]`: a band around a line, error bars on points; None for neither.
    look
        What it is a series of, such as "SPAQL": the same look has the same colour everywhere.
    style
        A solid or dashed line, or points that nothing joins.
    colour
        Of everything with this look, such as "#0072B2"; chosen by a hash of the look unless given.
    """

    name: str
    x: Sequence[float] | Sequence[str]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    look: str = ""
    style: Literal["line", "dashed", "points"] = "line"
    colour: str = ""

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
    """Series and levels over one x axis.

    Attributes
    ----------
    title
        Heading.
    x_label, y_label
        Names of the axes.
    series, levels
        What is drawn; later ones above earlier ones.
    x_scale
        "linear", "log", or "category": `x` are names, in the order of their first appearance.
    note
        In small type under the title: what the points are, what the bands are.
    """

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    levels: tuple[Level, ...] = ()
    x_scale: Literal["linear", "log", "category"] = "linear"
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers, ready for JSON; a number that is not finite becomes None."""
        return {
            "title": self.title,
            "note": self.note,
            "x_label": self.x_label,
            "y_label": self.y_label,
            "x_scale": self.x_scale,
            "series": [
                {
                    "name": series.name,
                    "look": series.look,
                    "style": series.style,
                    "x": [x if isinstance(x, str) else _plain(x) for x in series.x],
                    "y": [_plain(y) for y in series.y],
                    "low": None if series.low is None else [_plain(y) for y in series.low],
                    "high": None if series.high is None else [_plain(y) for y in series.high],
                }
                for series in self.series
            ],
            "levels": [
                {
                    "name": level.name,
                    "look": level.look,
                    "y": _plain(level.y),
                    "low": None if level.low is None else _plain(level.low),
                    "high": None if level.high is None else _plain(level.high),
                }
                for level in self.levels
            ],
        }


class Mosaic:
    """A partition of a plane into boxes: state along x, action along y.

    Parameters
    ----------
    low, high
        Corners of the cells, `[n, 2]`.
    q
        Value of each cell, `[n]`.
    visits, depth
        How often it was updated and how often it was halved, `[n]`.
    policy
        The greedy policy as a step function: `edges` `[m + 1]` increasing states and the cell played between each
        two of them, `[m]` indices into the cells.
    """

    def __init__(
        self,
        low: ArrayLike,
        high: ArrayLike,
        q: ArrayLike,
        visits: ArrayLike,
        depth: ArrayLike,
        policy: tuple[ArrayLike, ArrayLike],
    ) -> None:
        self.low: NDArray[np.float64] = np.asarray(low, np.float64)
        self.high: NDArray[np.float64] = np.asarray(high, np.float64)
        self.q: NDArray[np.float64] = np.asarray(q, np.float64)
        self.visits: NDArray[np.int64] = np.asarray(visits, np.int64)
        self.depth: NDArray[np.int64] = np.asarray(depth, np.int64)
        self.edges: NDArray[np.float64] = np.asarray(policy[0], np.float64)
        self.played: NDArray[np.int64] = np.asarray(policy[1], np.int64)
        n = len(self.q)
        if self.low.shape != (n, 2) or self.high.shape != (n, 2) or {len(self.visits), len(self.depth)} != {n}:
            raise ValueError(f"a mosaic of {n} cells needs corners [n, 2], and visits and depth [n]")
        if len(self.edges) != len(self.played) + 1:
            raise ValueError("the policy of a mosaic needs one edge more than cells played")

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, ready for JSON."""
        return {
            "low": self.low.tolist(),  # exact: halving once more is what the last digit tells
            "high": self.high.tolist(),
            "q": [_plain(v) for v in self.q.tolist()],
            "visits": self.visits.tolist(),
            "depth": self.depth.tolist(),
            "edges": self.edges.tolist(),
            "played": self.played.tolist(),
        }


def _plain(value: float) -> float | None:
    """Six significant digits, which no screen exceeds."""
    number = float(value)
    if not math.isfinite(number):
        return None
    short = float(f"{number:.6g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short
