"""Panels in a grid, laid out in inches before anything is drawn.

A layout engine draws a figure several times to find its margins.  Here the texts are measured, every column gets the
margins of its most demanding panel and every row likewise, and the axes are placed once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.figure import Figure

from spaql.viz.charts import INK
from spaql.viz.figures import legends, rulers
from spaql.viz.figures.looks import QUIET, Sizes, new_figure
from spaql.viz.figures.panel import EDGE, PAD, Panel

_DPI = 150
_AXES_HEIGHT = 1.78
_GUTTER = 0.12  # between panels
_HEADING = 13.0  # points
_SMALLEST = 0.5  # inches of axes below which nothing can be read


class Sheet:
    """A figure of panels, row by row.

    Parameters
    ----------
    panels
        At least one.
    sizes
        Of type.
    columns
        Panels side by side.
    width, height
        Of the figure in inches; without a height, all axes are of one height and the figure as high as that needs.
    title, note
        Heading of the figure.
    """

    def __init__(
        self,
        panels: Sequence[Panel],
        sizes: Sizes,
        *,
        columns: int,
        width: float,
        height: float | None = None,
        title: str = "",
        note: str = "",
    ) -> None:
        self._panels, self._sizes = panels, sizes
        self._width, self._height = width, height
        self._rows = [panels[i : i + columns] for i in range(0, len(panels), columns)]
        self._columns = [panels[i::columns] for i in range(columns)]
        room = width - 2 * EDGE
        self._title = rulers.wrap(title, room, _HEADING, bold=True)
        self._note = rulers.wrap(note, room, sizes.note)
        together = legends.agree([panel.entries for panel in panels if panel.values is None])
        self._sharing = [panel for panel in panels if together or panel.values is not None]
        entries = legends.merged(entry for panel in self._sharing for entry in panel.entries)
        self._legend = legends.legend(entries, room, sizes.legend)

    def figure(self) -> Figure:
        """Lay the panels out and draw them."""
        for panel in self._panels:
            panel.fit_height(_AXES_HEIGHT if self._height is None else 0.6 * self._height)
        lefts, rights = self._fit_widths()
        wide = self._axes_width(lefts, rights)
        for panel in self._panels:
            panel.wrap(wide, own_legend=panel not in self._sharing)
        tops = [max(panel.above for panel in row) + _GUTTER * (i > 0) for i, row in enumerate(self._rows)]
        bottoms = [max(panel.below for panel in row) for row in self._rows]
        head = EDGE + rulers.height(self._title, _HEADING) + rulers.height(self._note, self._sizes.note)
        foot = EDGE + (self._legend.height + 2 * PAD if self._legend.entries else 0.0)
        tall, total = self._heights(head + sum(tops) + sum(bottoms) + foot)

        figure = new_figure(self._width, total, dpi=_DPI)
        self._draw_head(figure)
        y = total - head
        for row, top, bottom in zip(self._rows, tops, bottoms, strict=True):
            y -= top + tall
            x = 0.0
            for panel, left, right in zip(row, lefts, rights, strict=False):
                panel.draw(figure, (x + left, y, wide, tall))
                x += left + wide + right
            y -= bottom
        if self._legend.entries:
            legends.add(figure, self._legend, loc="lower center", anchor=(0.5, EDGE / total))
        return figure

    def _fit_widths(self) -> tuple[list[float], list[float]]:
        """Choose ticks along x, and return the room left and right of the axes of every column.

        Names of ticks may reach beyond the axes and so narrow them, which may change the ticks: twice settles that.
        """
        lefts = [_GUTTER + max(panel.left for panel in column) for column in self._columns]
        rights = [max(panel.right for panel in column) for column in self._columns]
        for _ in range(2):
            wide = self._axes_width(lefts, rights)
            for panel in self._panels:
                panel.fit_width(wide)
            reach = [[panel.reach(wide) for panel in column] for column in self._columns]
            lefts = [max(left, *(r[0] for r in column)) for left, column in zip(lefts, reach, strict=True)]
            rights = [max(right, *(r[1] for r in column)) for right, column in zip(rights, reach, strict=True)]
        return lefts, rights

    def _axes_width(self, lefts: Sequence[float], rights: Sequence[float]) -> float:
        wide = (self._width - sum(lefts) - sum(rights)) / len(self._columns)
        if wide < _SMALLEST:
            raise ValueError(f"a figure {self._width:g} inches wide leaves no room for its axes.")
        return wide

    def _heights(self, spent: float) -> tuple[float, float]:
        """Height of the axes and of the figure, given what everything else takes."""
        rows = len(self._rows)
        if self._height is None:
            # Up to a tenth of an inch, which is whole pixels: part of one would be cut off.
            total = math.ceil((spent + _AXES_HEIGHT * rows) * 10) / 10
            return (total - spent) / rows, total
        if self._height - spent < _SMALLEST * rows:
            raise ValueError(f"a figure {self._height:g} inches high leaves no room for its axes.")
        return (self._height - spent) / rows, self._height

    def _draw_head(self, figure: Figure) -> None:
        wide, tall = figure.get_size_inches()
        title = rulers.height(self._title, _HEADING)
        for text, down, size, colour, weight in (
            (self._title, EDGE, _HEADING, INK, "bold"),
            (self._note, EDGE + title, self._sizes.note, QUIET, "normal"),
        ):
            if text:
                at = EDGE / wide, 1 - down / tall
                figure.text(*at, text, size=size, color=colour, weight=weight, va="top", parse_math=False)
