"""One panel: axes with their ticks and texts, the room that these take, and how they are drawn.

All lengths are inches.  The places of texts are given to matplotlib, so that it does not search for them at every draw.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.markers import TICKDOWN
from matplotlib.ticker import NullLocator

from spaql.viz.charts import INK
from spaql.viz.figures import legends, rulers, scales
from spaql.viz.figures.looks import QUIET, Sizes

EDGE = 0.1  # around the figure
PAD = 0.05  # between things that belong together
_BAR = 0.09  # width of a colour bar
_TICK = 3 / 72  # length of a tick
_APART = 0.31  # from one tick along y to the next, at least

Box = tuple[float, float, float, float]
_NO_TICKS = scales.Ticks([], [])


@dataclass(eq=False, kw_only=True)
class Panel:
    """A panel, to be fitted by a layout and then drawn.

    Attributes
    ----------
    title, note, x_label, y_label
        Texts above and beside the axes.
    x_limits, y_limits
        Ranges of the axes.
    paint
        Draws the data onto axes.
    sizes
        Of its type.
    entries
        What a legend must explain.
    log
        Whether x is on a log scale.
    categories
        Names along x, where x is names.
    values
        Range of the colours of a partition; None for a chart.
    """

    title: str
    note: str
    x_label: str
    y_label: str
    x_limits: scales.Limits
    y_limits: scales.Limits
    paint: Callable[[Axes], None]
    sizes: Sizes
    entries: list[legends.Entry] = field(default_factory=list)
    log: bool = False
    categories: tuple[str, ...] = ()
    values: scales.Limits | None = None
    # Found while fitting:
    legend: legends.Legend | None = None
    _x_ticks: scales.Ticks = _NO_TICKS
    _y_ticks: scales.Ticks = _NO_TICKS
    _bar_ticks: scales.Ticks = _NO_TICKS

    def fit_height(self, tall: float) -> None:
        """Choose what stands along axes of about this height."""
        most = int(np.clip(tall / _APART, 2, 8))
        self._y_ticks = scales.linear_ticks(self.y_limits, most)
        self.y_label = rulers.wrap(self.y_label, tall, self.sizes.label)
        if self.values is not None:
            self._bar_ticks = scales.linear_ticks(self.values, most)

    def fit_width(self, wide: float) -> None:
        """Choose the ticks along axes of this width."""
        size = self.sizes.tick
        if self.categories:
            self._x_ticks = scales.category_ticks(self.categories, room=wide, size=size)
        else:
            self._x_ticks = scales.fitting_ticks(self.x_limits, log=self.log, room=wide, size=size)

    def wrap(self, wide: float, *, own_legend: bool) -> None:
        """Break the texts above and below axes of this width; add a legend where the figure has none for it."""
        self.title = rulers.wrap(self.title, wide, self.sizes.title, bold=True)
        self.note = rulers.wrap(self.note, wide, self.sizes.note)
        self.x_label = rulers.wrap(self.x_label, wide, self.sizes.label)
        if own_legend:
            self.legend = legends.legend(self.entries, wide + 2 * EDGE, self.sizes.note)

    def reach(self, wide: float) -> tuple[float, float]:
        """How far names along x reach beyond axes of this width, on the left and on the right, with an edge."""
        ticks = self._x_ticks
        if not ticks.at:
            return 0.0, 0.0
        at = scales.shares(ticks.at, self.x_limits, log=self.log) * wide
        widths = np.array([rulers.width(name, self.sizes.tick) for name in ticks.names])
        # A turned name ends at its tick, a level one has its middle there.
        before, after = (math.cos(math.radians(ticks.turned)), 0.0) if ticks.turned else (0.5, 0.5)
        left, right = (before * widths - at).max(), (at + after * widths - wide).max()
        return float(left) + EDGE, float(right) + EDGE

    @property
    def left(self) -> float:
        """Room left of the axes."""
        return self._y_label_at + rulers.height(self.y_label, self.sizes.label)

    @property
    def right(self) -> float:
        """Room right of the axes."""
        if self.values is None:
            return EDGE
        return PAD + _BAR + _TICK + PAD + rulers.widest(self._bar_ticks.names, self.sizes.tick) + PAD

    @property
    def above(self) -> float:
        """Room above the axes."""
        return 2 * PAD + rulers.height(self.note, self.sizes.note) + rulers.height(self.title, self.sizes.title)

    @property
    def below(self) -> float:
        """Room below the axes."""
        return self._legend_at + (self.legend.height if self.legend else 0.0)

    @property
    def _y_label_at(self) -> float:
        return _TICK + 2 * PAD + rulers.widest(self._y_ticks.names, self.sizes.tick)

    @property
    def _x_label_at(self) -> float:
        return _TICK + PAD + self._x_ticks.height(self.sizes.tick) + PAD / 2

    @property
    def _legend_at(self) -> float:
        return self._x_label_at + rulers.height(self.x_label, self.sizes.label) + PAD

    def draw(self, figure: Figure, box: Box) -> None:
        """Draw the panel; the box is that of the axes: left, bottom, width, height."""
        x, y, wide, tall = box
        axes = _axes(figure, box)
        self.paint(axes)
        self._draw_ticks(axes)
        self._draw_texts(axes, wide, tall)
        if self.values is not None:
            self._draw_bar(_axes(figure, (x + wide + PAD, y, _BAR, tall)), self.values)
        if self.legend and self.legend.entries:
            legends.add(axes, self.legend, loc="upper center", anchor=(0.5, -self._legend_at / tall))

    def _draw_ticks(self, axes: Axes) -> None:
        ticks = self._x_ticks
        tilt: dict[str, Any] = {}
        if ticks.turned:
            tilt = {"rotation": ticks.turned, "rotation_mode": "anchor", "ha": "right"}
            tilt["va"] = "center" if ticks.turned == 90 else "top"
        axes.set_xlim(self.x_limits)
        axes.set_ylim(self.y_limits)
        self._style_ticks(axes)
        axes.set_xticks(ticks.at, ticks.names, parse_math=False, **tilt)
        axes.set_yticks(self._y_ticks.at, self._y_ticks.names)
        if self.log:
            _draw_minor_ticks(axes, scales.log_minor(self.x_limits))

    def _style_ticks(self, axes: Axes) -> None:
        axes.tick_params(labelsize=self.sizes.tick, length=_TICK * 72, pad=PAD * 72, color=QUIET, labelcolor=INK)

    def _draw_texts(self, axes: Axes, wide: float, tall: float) -> None:
        label: dict[str, Any] = {"fontsize": self.sizes.label, "color": INK, "parse_math": False}
        axes.set_xlabel(self.x_label, **label)
        axes.xaxis.set_label_coords(0.5, -self._x_label_at / tall)
        axes.set_ylabel(self.y_label, **label)
        axes.yaxis.set_label_coords(-self._y_label_at / wide, 0.5)
        note = rulers.height(self.note, self.sizes.note)
        if self.note:
            _draw_above(axes, self.note, PAD + note, x=0, size=self.sizes.note, color=QUIET, va="top")
        heading: dict[str, Any] = {"fontsize": self.sizes.title, "fontweight": "bold", "color": INK}
        axes.set_title(self.title, loc="left", y=1.0, pad=(2 * PAD + note) * 72, parse_math=False, **heading)

    def _draw_bar(self, axes: Axes, values: scales.Limits) -> None:
        """A colour bar; an image of one column, because matplotlib's own is hundreds of rectangles in an SVG."""
        shades = np.linspace(*values, 128)[:, np.newaxis]
        axes.imshow(shades, mpl.colormaps["viridis"], aspect="auto", origin="lower", extent=(0, 1, *values))
        axes.set_xticks([])
        axes.yaxis.tick_right()
        self._style_ticks(axes)
        axes.set_yticks(self._bar_ticks.at, self._bar_ticks.names)
        axes.spines[:].set_visible(False)
        _draw_above(axes, "Q", PAD, x=0.5, size=self.sizes.tick, color=INK, ha="center")


def _axes(figure: Figure, box: Box) -> Axes:
    wide, tall = figure.get_size_inches()
    x, y, width, height = box
    return figure.add_axes((x / wide, y / tall, width / wide, height / tall))


def _draw_above(axes: Axes, text: str, distance: float, *, x: float, **looks: Any) -> None:
    """A text so far above the axes."""
    axes.annotate(
        text,
        (x, 1),
        xytext=(0, distance * 72),
        xycoords="axes fraction",
        textcoords="offset points",
        parse_math=False,
        **looks,
    )


def _draw_minor_ticks(axes: Axes, at: Sequence[float]) -> None:
    """Short ticks without names, as one artist: matplotlib's own are slow, and it names some of them."""
    axes.xaxis.set_minor_locator(NullLocator())
    axes.plot(
        at,
        np.zeros(len(at)),
        linestyle="",
        marker=TICKDOWN,
        markersize=1.8,
        markeredgewidth=0.6,
        color=QUIET,
        transform=axes.get_xaxis_transform(),
        clip_on=False,
        label="_minor ticks",
    )
