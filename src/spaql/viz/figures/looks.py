"""How things look: colours, line styles, markers and sizes of type, the same in every figure.

A name keeps its colour from figure to figure, so that a reader learns it once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patheffects import AbstractPathEffect, Normal, Stroke
from numpy.typing import ArrayLike, NDArray

from spaql.viz.charts import GREY, INK, PALETTE, colours

Floats = NDArray[np.float64]
Curve = tuple[ArrayLike, ArrayLike]

QUIET = "#666666"
GRID = "#E6E6E6"
POLICY = "#E3120B"
STYLES = ("-", "--", ":", "-.")
DASHES = (0, (5, 3))

_MARKERS = {**dict(zip(PALETTE, "os^DvP", strict=True)), GREY: "p", INK: "X"}


class Look(NamedTuple):
    """What tells one name from another: a colour, a line style where colours run out, and the colour's marker."""

    colour: str
    line: str
    marker: str


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes in points: type, width of lines, diameter of markers."""

    title: float
    note: float
    label: float
    tick: float
    legend: float
    line: float
    marker: float


SINGLE = Sizes(title=12, note=8.5, label=10, tick=9, legend=9.5, line=1.9, marker=5.5)
# For a figure 10 inches wide that is printed over a page of 7: nothing may fall below 5.5 points there.
PANEL = Sizes(title=10, note=8, label=8.5, tick=8, legend=9, line=1.5, marker=3.8)


def looks(names: Iterable[str]) -> dict[str, Look]:
    """A look for every name; its colour is that of `spaql.viz.charts.colours`."""
    return {
        name: Look(colour, STYLES[before % len(STYLES)], _MARKERS[colour])
        for name, (colour, before) in colours(names).items()
    }


def new_figure(width: float, height: float, *, dpi: int = 160, constrained: bool = False) -> Figure:
    """An empty figure on the Agg canvas, which needs no display."""
    figure = Figure(figsize=(width, height), dpi=dpi, layout="constrained" if constrained else None)
    FigureCanvasAgg(figure)
    return figure


def settle(figure: Figure) -> Figure:
    """Lay the figure out now and for good: the engine moves things a little at every draw, and bytes would differ."""
    figure.draw_without_rendering()
    figure.draw_without_rendering()  # labels outside the axes take their room from the first
    figure.set_layout_engine("none")
    return figure


def head(axes: Axes, title: str, reading: str) -> None:
    """Title, and under it in small type what the picture shows."""
    if reading:
        axes.annotate(
            reading, (0, 1), xytext=(0, 5), xycoords="axes fraction", textcoords="offset points", color=QUIET, size=8.5
        )
    axes.set_title(title, loc="left", fontsize=12, fontweight="bold", color=INK, pad=19 if reading else 8)


def halo(width: float) -> list[AbstractPathEffect]:
    """A white casing for a line of this width, so that it stands out on any colour."""
    return [Stroke(linewidth=width + 1.4, foreground="white"), Normal()]
