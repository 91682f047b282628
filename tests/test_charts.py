"""Charts and partitions as plain data, and what `figures.chart` and `figures.panels` draw of them."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from numpy.typing import NDArray

from spaql.viz import figures
from spaql.viz.charts import Chart, Level, Mosaic, Series, limit_y, looks_of, to_plain
from spaql.viz.figures import set_ticks
from spaql.viz.plotly_figure import to_plotly

NAN, INF = math.nan, math.inf
COLOURS = {"SPAQL": "#009e73", "AQL": "#d55e00", "Random": "#7f7f7f"}
INK = "#222222"
SCALINGS = [0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0]
PROBLEMS = [
    f"{kind} {k}" for kind in ("oil quadratic", "oil Laplace", "ambulance uniform", "ambulance") for k in (1, 2)
]


def series(name: str, x: Sequence[Any], y: Sequence[float], **more: Any) -> Series:
    look = more.get("look", name)
    return Series(name, x, y, **{"look": name, "colour": COLOURS.get(look, ""), **more})


def spread(name: str, x: Sequence[Any], y: Sequence[float], half: float = 0.5, **more: Any) -> Series:
    return series(name, x, y, low=[v - half for v in y], high=[v + half for v in y], **more)


def a_chart(*parts: Series | Level, title: str = "Score", **more: Any) -> Chart:
    lines = tuple(part for part in parts if isinstance(part, Series))
    levels = tuple(part for part in parts if isinstance(part, Level))
    return Chart(title, "iteration", "score", lines, levels, **more)


def learning(title: str = "Reward", **more: Any) -> Chart:
    x = list(range(1, 121))
    rising = [math.log(v) for v in x]
    lower = [0.5 * v for v in rising]
    return a_chart(spread("SPAQL", x, rising), spread("AQL", x, lower), Level("optimum", 6.0), title=title, **more)


def sensitivity(title: str = "Sensitivity") -> Chart:
    y = [4 - abs(math.log10(v)) for v in SCALINGS]
    return a_chart(
        spread("SPAQL", SCALINGS, y, style="points"),
        spread("AQL", SCALINGS, y, style="points"),
        Level("SPAQL, mean", 3.0, 2.5, 3.5, look="SPAQL"),
        Level("AQL, mean", 2.0, 1.5, 2.5, look="AQL"),
        title=title,
        x_scale="log",
    )


def a_mosaic(q: Sequence[float] = (1.0, 2.0, 3.0, 4.0)) -> Mosaic:
    low = np.array([[0.0, 0.0], [0.5, 0.0], [0.0, 0.5], [0.5, 0.5]])
    policy = np.array([0.0, 0.5, 1.0]), np.array([2, 1])
    return Mosaic(low, low + 0.5, np.array(q), np.array([1, 2, 3, 4]), np.ones(4, np.int64), policy)


def six() -> list[Chart | tuple[str, Mosaic]]:
    return [
        learning(),
        learning("Cells"),
        ("SPAQL", a_mosaic()),
        ("AQL, step 1", a_mosaic()),
        ("AQL, step 3", a_mosaic((5.0, NAN, -2.0, 0.0))),
        ("AQL, step 5", a_mosaic((1.0, 1.0, 1.0, 1.0))),
    ]


def lines(axes: Axes) -> dict[str, Line2D]:
    return {str(line.get_label()): line for line in axes.lines}


def data(line: Line2D) -> tuple[list[float], list[float]]:
    return np.asarray(line.get_xdata()).tolist(), np.asarray(line.get_ydata()).tolist()


def outlines(axes: Axes, label: str) -> list[NDArray[np.float64]]:
    (found,) = (c for c in axes.collections if isinstance(c, PolyCollection) and c.get_label() == label)
    return [np.asarray(path.vertices, dtype=np.float64) for path in found.get_paths()]


def bars(axes: Axes, name: str) -> list[list[list[float]]]:
    (found,) = (c for c in axes.collections if isinstance(c, LineCollection) and c.get_label() == "_bars " + name)
    return [np.asarray(segment).tolist() for segment in found.get_segments()]


def legend_names(owner: Figure | Axes) -> list[str]:
    legend = owner.legends[0] if isinstance(owner, Figure) else owner.get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]


def every_axes(figure: Figure) -> list[Axes]:
    return [axes for axes in figure.findobj(Axes) if isinstance(axes, Axes)]


def ticks_outside(axes: Axes) -> list[Any]:
    """Ticks that are not drawn, because they lie outside the limits."""
    outside = []
    for axis in (axes.xaxis, axes.yaxis):
        low, high = sorted(axis.get_view_interval())
        slack = 1e-9 * (high - low)
        outside += [tick for tick in axis.get_major_ticks() if not low - slack <= tick.get_loc() <= high + slack]
    return outside


def extents(figure: Figure) -> list[tuple[str, Any]]:
    """Every text that is seen, and where."""
    figure.canvas.draw()
    hidden = {id(tick.label1) for axes in every_axes(figure) for tick in ticks_outside(axes)}
    found = [t for t in figure.findobj(Text) if isinstance(t, Text) and t.get_visible() and t.get_text()]
    found = [text for text in found if id(text) not in hidden]
    seen = [(t.get_text(), Text.get_window_extent(t)) for t in found]
    return [(text, box) for text, box in seen if box.width > 1]


class TestData:
    def test_numbers_for_json_are_short_and_finite(self) -> None:
        assert to_plain(["x", 1.0, NAN, 0.123456789, -INF, np.float64(1e6), None]) == [
            "x", 1, None, 0.123457, None, 1000000, None
        ]  # fmt: skip

    def test_a_mosaic_is_plain_json(self) -> None:
        plain = json.loads(json.dumps(a_mosaic((1.0, NAN, 3.0, 4.0)).to_dict(), allow_nan=False))
        assert plain["q"] == [1, None, 3, 4]
        assert (plain["edges"], plain["played"]) == ([0.0, 0.5, 1.0], [2, 1])

    def test_lengths_must_agree(self) -> None:
        with pytest.raises(ValueError, match=r"series 'a': x, y, low and high must have one length, not \[1, 2\]"):
            Series("a", [1, 2], [1])
        with pytest.raises(ValueError, match="both low and high"):
            Series("a", [1], [1], low=[0])


class TestChart:
    def test_lines_and_bands_carry_the_data(self) -> None:
        x, y = [1.0, 2.0, 4.0], [3.0, 5.0, 4.0]
        figure = figures.chart(a_chart(spread("SPAQL", x, y), series("AQL", x, [1.0, 1.5, 2.0], style="dashed")))
        (axes,) = figure.axes
        assert data(lines(axes)["SPAQL"]) == (x, y)
        (band,) = outlines(axes, "_band SPAQL")
        corners = {(round(u, 9), round(v, 9)) for u, v in band}
        assert corners == {(u, v + d) for u, v in zip(x, y, strict=True) for d in (-0.5, 0.5)}
        assert lines(axes)["SPAQL"].get_linestyle() == "-"
        assert lines(axes)["AQL"].get_linestyle() == "--"
        assert "_band AQL" not in {c.get_label() for c in axes.collections}
        assert axes.get_xlim() == (1.0, 4.0)
        bottom, top = axes.get_ylim()
        assert bottom < 1.0
        assert top > 5.5

    def test_texts_and_size(self) -> None:
        figure = figures.chart(learning(note="mean of 8 runs"), size=(6.0, 5.0))
        (axes,) = figure.axes
        assert (axes.get_title("left"), axes.get_xlabel(), axes.get_ylabel()) == ("Reward", "iteration", "score")
        assert "mean of 8 runs" in [text.get_text() for text in axes.texts]
        assert tuple(figure.get_size_inches()) == (6.0, 5.0)
        assert tuple(figures.chart(learning()).get_size_inches()) == (7.0, 4.4)
        assert legend_names(figure) == ["SPAQL", "AQL", "optimum"]
        assert isinstance(figure.canvas, FigureCanvasAgg)

    def test_colour_is_that_of_the_look(self) -> None:
        parts = [series(f"line {look}", [1, 2], [1, 2], look=look) for look in ("SPAQL", "AQL", "Random", "mine")]
        (axes,) = figures.chart(a_chart(*parts, Level("best", 3.0, look="optimum"), Level("optimum", 4.0))).axes
        colours = {name: to_hex(line.get_color()) for name, line in lines(axes).items()}
        assert {name: colours[f"line {name}"] for name in COLOURS} == COLOURS
        assert colours["best"] == colours["optimum"] == INK
        assert colours["line mine"] not in COLOURS.values()

    def test_points_with_bars_stand_side_by_side(self) -> None:
        chart = a_chart(
            *(spread(name, PROBLEMS, [float(i) for i in range(8)], style="points") for name in ("SPAQL", "AQL", "c")),
            series("joined", PROBLEMS, [1.0] * 8),
            x_scale="category",
        )
        (axes,) = figures.chart(chart).axes
        places = [np.array(data(lines(axes)[name])[0]) for name in ("SPAQL", "AQL", "c")]
        shifts = np.array(places) - np.arange(8)
        assert shifts == pytest.approx(np.repeat(shifts[:, :1], 8, axis=1))  # every name by the same
        assert shifts.sum() == pytest.approx(0.0)  # around the tick
        assert (np.diff(shifts[:, 0]) > 0.03).all()
        assert np.ptp(shifts) < 0.6  # nearer to their own name than to the next
        assert data(lines(axes)["joined"])[0] == list(range(8))
        assert bars(axes, "AQL")[3] == [[places[1][3], 2.5], [places[1][3], 3.5]]
        assert lines(axes)["AQL"].get_linestyle() == "None"
        markers = {str(lines(axes)[name].get_marker()) for name in ("SPAQL", "AQL", "c")}
        assert len(markers) == 3

    def test_points_on_a_log_axis_move_by_equal_ratios(self) -> None:
        (axes,) = figures.chart(sensitivity()).axes
        left, right = (np.array(data(lines(axes)[name])[0]) for name in ("SPAQL", "AQL"))
        assert axes.get_xscale() == "log"
        assert left * right == pytest.approx(np.square(SCALINGS))
        assert right / left == pytest.approx(np.full(13, right[0] / left[0]))
        assert right[0] / left[0] > 1.02
        assert (right[:-1] < left[1:]).all()  # neighbours keep their order

    def test_points_that_do_not_meet_stay_where_they_are(self) -> None:
        chart = a_chart(series("a", [1, 3], [1, 1], style="points"), series("b", [2, 4], [1, 1], style="points"))
        (axes,) = figures.chart(chart).axes
        assert data(lines(axes)["a"])[0] == [1, 3]
        assert data(lines(axes)["b"])[0] == [2, 4]

    def test_one_place_only(self) -> None:
        chart = a_chart(series("a", [2], [1], style="points"), series("b", [2], [1], style="points"))
        (axes,) = figures.chart(chart).axes
        a, b = data(lines(axes)["a"])[0][0], data(lines(axes)["b"])[0][0]
        assert a < 2 < b
        left, right = axes.get_xlim()
        assert left < a < b < right

    def test_categories_in_the_order_of_their_first_appearance(self) -> None:
        chart = a_chart(
            series("a", ["oil", "bus"], [1.0, 2.0], style="points"),
            series("b", ["bus", "car", "oil"], [3.0, 4.0, 5.0]),
            x_scale="category",
        )
        (axes,) = figures.chart(chart).axes
        assert [text.get_text() for text in axes.get_xticklabels()] == ["oil", "bus", "car"]
        assert data(lines(axes)["a"]) == ([0, 1], [1.0, 2.0])
        assert data(lines(axes)["b"]) == ([0, 1, 2], [5.0, 3.0, 4.0])  # joined along the axis

    @pytest.mark.parametrize(("count", "turned"), [(2, {0.0}), (8, {35.0}), (40, {90.0})])
    def test_names_turn_where_they_would_collide(self, count: int, turned: set[float]) -> None:
        names = (PROBLEMS * 5)[:count]
        names = [f"{name}{'' if i < 8 else i}" for i, name in enumerate(names)]
        figure = figures.chart(
            a_chart(series("a", names, [1.0] * count, style="points"), x_scale="category"), size=(7.0, 5.0)
        )
        assert {label.get_rotation() for label in figure.axes[0].get_xticklabels()} == turned
        assert_inside(figure)

    def test_levels(self) -> None:
        (axes,) = figures.chart(sensitivity()).axes
        level = lines(axes)["AQL, mean"]
        assert set(data(level)[1]) == {2.0}
        assert (level.get_linestyle(), to_hex(level.get_color())) == ("--", COLOURS["AQL"])
        (shade,) = (patch for patch in axes.patches if patch.get_label() == "_range AQL, mean")
        edges = shade.get_window_extent().transformed(axes.transData.inverted())
        assert (edges.y0, edges.y1) == pytest.approx((1.5, 2.5))
        assert to_hex(shade.get_facecolor()) == COLOURS["AQL"]
        box, panel = shade.get_window_extent(), axes.get_window_extent()
        assert (box.x0, box.x1) == pytest.approx((panel.x0, panel.x1))

    def test_values_that_are_not_finite_are_gaps(self) -> None:
        x, y = [1, 2, 3, 4, 5, 6], [1.0, 2.0, NAN, 4.0, INF, 6.0]
        line = series("a", x, y, low=[0, 1, 2, NAN, 4, 5], high=[2, 3, 4, 5, 6, INF])
        points = series("b", x, y, low=[0, 1, 2, NAN, 4, 5], high=[2, 3, 4, 5, 6, INF], style="points")
        (axes,) = figures.chart(a_chart(line, points, Level("none", NAN), Level("half", 1.0, -INF, INF))).axes
        drawn = lines(axes)["a"]
        assert np.isnan(data(drawn)[1]).tolist() == [False, False, True, False, True, False]
        assert drawn.get_markevery() == [3, 5]  # points that nothing joins
        first, second = outlines(axes, "_band a")
        assert (first[:, 0].min(), first[:, 0].max()) == (1, 3)
        assert set(second[:, 0]) == {5}
        assert [bar[0][0] for bar in bars(axes, "b")] == [1, 2, 3, 5]
        assert "none" not in lines(axes)
        assert np.isfinite(axes.get_ylim()).all()

    def test_nothing_but_gaps_is_an_empty_chart_with_axes(self, tmp_path: Path) -> None:
        figure = figures.chart(a_chart(series("a", [1, 2], [NAN, NAN])))
        assert np.isnan(np.asarray(lines(figure.axes[0])["a"].get_ydata(), dtype=float)).all()
        assert np.isfinite([figure.axes[0].get_xlim(), figure.axes[0].get_ylim()]).all()
        assert figures.save(figure, tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")

    @pytest.mark.parametrize("scale", ["linear", "log", "category"])
    @pytest.mark.parametrize("style", ["line", "dashed", "points"])
    def test_a_single_point(self, scale: Any, style: Literal["line", "dashed", "points"]) -> None:
        x: Sequence[Any] = ["one"] if scale == "category" else [3.0]
        figure = figures.chart(a_chart(series("a", x, [7.0], style=style), x_scale=scale))
        figure.canvas.draw()
        assert str(lines(figure.axes[0])["a"].get_marker()) not in ("", "None")

    def test_later_series_lie_above_earlier_ones(self) -> None:
        (axes,) = figures.chart(a_chart(*(series(n, [1, 2], [1, 2]) for n in "cab"))).axes
        named = [str(line.get_label()) for line in sorted(axes.lines, key=lambda line: line.get_zorder())]
        assert named == ["c", "a", "b"]

    @pytest.mark.parametrize("chart", [learning(), sensitivity()], ids=["lines", "points"])
    def test_the_legend_covers_nothing(self, chart: Chart) -> None:
        figure = figures.chart(chart)
        figure.canvas.draw()
        legend = figure.legends[0].get_window_extent()
        (axes,) = figure.axes
        assert legend.y1 < axes.xaxis.label.get_window_extent().y0
        assert legend.y0 >= 0
        assert_inside(figure)

    def test_many_long_names_fit(self) -> None:
        chart = a_chart(*(series(f"a variant with a rather long name, number {i}", [1, 2], [i, i]) for i in range(9)))
        figure = figures.chart(chart, size=(7.0, 5.5))
        assert len(legend_names(figure)) == 9
        assert_inside(figure)

    def test_long_texts_are_wrapped(self) -> None:
        long = "words that go on and on and on " * 6
        figure = figures.chart(a_chart(series("a", [1, 2], [1, 2]), title=long, note=long))
        assert "\n" in figure.axes[0].get_title("left")
        assert_inside(figure)

    def test_dollars_are_no_mathematics(self) -> None:
        chart = a_chart(series("$a_1", ["$x$", "y_$"], [1, 2]), title="$ and $", note="$\\bad$", x_scale="category")
        figure = figures.chart(chart)
        figure.canvas.draw()  # where it would be read as mathematics, and the note refused
        assert figure.axes[0].get_title("left") == "$ and $"
        assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["$x$", "y_$"]

    @pytest.mark.parametrize(
        ("chart", "message"),
        [
            (a_chart(), "chart 'Score' is empty; at least one point"),
            (a_chart(series("a", [], [])), "is empty"),
            (a_chart(Level("b", 1.0)), "is empty"),
            (a_chart(series("a", [2, 1], [1, 1])), "series 'a' is a line and needs an increasing x"),
            (a_chart(series("a", [1, 1], [1, 1], style="dashed")), "increasing x"),
            (a_chart(series("a", ["x", "x"], [1, 1]), x_scale="category"), "increasing x"),
            (a_chart(series("a", [1, NAN], [1, 1], style="points")), "needs a finite x"),
            (a_chart(series("a", [0, 1], [1, 1]), x_scale="log"), "above 0 for a log scale"),
            (a_chart(series("a", ["x", "y"], [1, 1])), "names along x"),
            (a_chart(series("a", [1], [1], low=[2], high=[1])), "series 'a' needs intervals with low <= high"),
        ],
    )
    def test_bad_charts(self, chart: Chart, message: str) -> None:
        for draw in (figures.chart, lambda chart: figures.panels([chart], title="bad")):
            with pytest.raises(ValueError, match=message) as caught:
                draw(chart)
            assert str(caught.value).endswith(".")

    def test_nothing_global_changes(self) -> None:
        before = dict(mpl.rcParams)
        figures.chart(learning())
        figures.panels(six(), title="a")
        assert dict(mpl.rcParams) == before


class TestPanels:
    def test_charts_and_partitions_side_by_side(self) -> None:
        figure = figures.panels(six(), title="Oil", note="1,000 iterations")
        panels = [axes for axes in figure.axes if axes.get_title("left")]
        titles = ["Reward", "Cells", "SPAQL", "AQL, step 1", "AQL, step 3", "AQL, step 5"]
        assert [axes.get_title("left") for axes in panels] == titles
        assert [text.get_text() for text in figure.texts] == ["Oil", "1,000 iterations"]
        assert legend_names(figure) == ["SPAQL", "AQL", "optimum", "greedy policy"]
        assert data(lines(panels[0])["AQL"])[0] == list(range(1, 121))
        boxes = [axes.get_position() for axes in panels]
        assert len({round(box.y0, 6) for box in boxes[:3]}) == len({round(box.y0, 6) for box in boxes[3:]}) == 1
        assert boxes[0].y0 > boxes[3].y1
        assert [box.x0 for box in boxes[:3]] == pytest.approx([box.x0 for box in boxes[3:]])
        assert len({(round(box.width, 6), round(box.height, 6)) for box in boxes}) == 1
        width, height = figure.get_size_inches()
        assert width == pytest.approx(10.0)
        assert 5.5 < height < 6.5
        assert isinstance(figure.canvas, FigureCanvasAgg)

    def test_a_partition(self) -> None:
        figure = figures.panels([("Cells", a_mosaic((1.0, 2.0, 3.0, NAN)))], title="Oil")
        (axes,) = figure.axes
        (bar,) = axes.child_axes
        (cells,) = (c for c in axes.collections if c.get_label() == "_cells")
        corners = [tuple(outline[:4].ravel().tolist()) for outline in outlines(axes, "_cells")]
        assert corners[1] == (0.5, 0.0, 1.0, 0.0, 1.0, 0.5, 0.5, 0.5)
        assert np.ma.getdata(cells.get_array())[:3].tolist() == [1.0, 2.0, 3.0]
        assert np.ma.getmaskarray(cells.get_array()).tolist() == [False, False, False, True]
        assert cells.get_cmap().name == "viridis"
        assert cells.get_clim() == (1.0, 3.0)
        assert bar.get_ylim() == (1.0, 3.0)
        assert (axes.get_xlim(), axes.get_ylim()) == ((0.0, 1.0), (0.0, 1.0))
        assert "4 cells" in [text.get_text() for text in axes.texts]
        (policy,) = outlines(axes, "greedy policy")
        assert {tuple(corner) for corner in policy.tolist()} == {
            (0.0, 1.0), (0.5, 1.0), (0.5, 0.5), (1.0, 0.5), (1.0, 0.0), (0.5, 0.0), (0.0, 0.5)
        }  # fmt: skip
        (outline,) = (c for c in axes.collections if c.get_label() == "greedy policy")
        assert to_hex(outline.get_edgecolor()[0]) == "#e3120b"  # type: ignore[index]

    def test_colours_agree_between_panels(self) -> None:
        first = a_chart(series("one", [1, 2], [1, 2]), series("both", [1, 2], [1, 2]))
        second = a_chart(series("both", [1, 2], [1, 2]), series("two", [1, 2], [1, 2]))
        left, right = figures.panels([first, second], title="a").axes
        assert lines(left)["both"].get_color() == lines(right)["both"].get_color()
        assert len({line.get_color() for axes in (left, right) for line in axes.lines}) == 3

    def test_one_legend_has_the_names_of_all_charts(self) -> None:
        other = a_chart(series("x", [1, 2], [1, 2]), series("y", [1, 2], [1, 2]), title="Other")
        figure = figures.panels([learning(), other, ("Cells", a_mosaic())], title="a")
        assert legend_names(figure) == ["SPAQL", "AQL", "optimum", "x", "y", "greedy policy"]
        assert all(axes.get_legend() is None for axes in figure.axes)
        figure.canvas.draw()
        top = figure.legends[0].get_window_extent().y1
        assert all(axes.xaxis.label.get_window_extent().y0 > top for axes in figure.axes if axes.get_xlabel())
        assert_inside(figure)

    def test_series_without_names_need_no_legend(self) -> None:
        figure = figures.panels([a_chart(series("", [1, 2], [1, 2]))], title="a")
        assert figure.legends == []
        assert figure.axes[0].get_legend() is None

    @pytest.mark.parametrize(
        ("count", "columns", "shape"), [(1, 3, (1, 1)), (3, 3, (1, 3)), (4, 3, (2, 3)), (5, 2, (3, 2))]
    )
    def test_rows_and_columns(self, count: int, columns: int, shape: tuple[int, int]) -> None:
        figure = figures.panels([learning(f"{i}") for i in range(count)], title="a", columns=columns)
        boxes = [axes.get_position() for axes in figure.axes]
        rows, across = len({round(box.y0, 6) for box in boxes}), len({round(box.x0, 6) for box in boxes})
        assert (rows, across) == shape
        assert figure.get_size_inches()[0] == pytest.approx(shape[1] * 10 / 3)

    @pytest.mark.parametrize(
        "items",
        [six(), [sensitivity(f"oil Laplace {i}") for i in range(6)]],
        ids=["charts and partitions", "sensitivity"],
    )
    def test_texts_keep_apart_and_can_be_read(self, items: list[Chart | tuple[str, Mosaic]]) -> None:
        figure = figures.panels(items, title="A heading", note="A note below it")
        for (one, a), (two, b) in combinations(extents(figure), 2):
            apart = a.x1 <= b.x0 + 1 or b.x1 <= a.x0 + 1 or a.y1 <= b.y0 + 3 or b.y1 <= a.y0 + 3
            assert apart, f"{one!r} and {two!r} overlap"
        assert_inside(figure)
        sizes = [t.get_fontsize() for t in figure.findobj(Text) if isinstance(t, Text) and t.get_text()]
        assert min(sizes) >= 7

    def test_a_partition_without_a_policy(self) -> None:
        mosaic = Mosaic(
            *np.array([[[0, 0]], [[1, 1]]]), *np.array([[NAN], [0], [0]]), (np.zeros(1), np.zeros(0, np.int64))
        )
        figure = figures.panels([("Root", mosaic)], title="a")
        figure.canvas.draw()
        assert figure.legends == []
        assert "1 cell" in [text.get_text() for text in figure.axes[0].texts]

    def test_a_mosaic_is_not_changed(self) -> None:
        mosaic = a_mosaic()
        before = json.dumps(mosaic.to_dict())
        figures.panels([("a", mosaic)], title="a")
        assert json.dumps(mosaic.to_dict()) == before


def assert_inside(figure: Figure) -> None:
    width, height = figure.canvas.get_width_height()
    for text, box in extents(figure):
        assert box.x0 >= -1, text
        assert box.y0 >= -1, text
        assert box.x1 <= width + 1, text
        assert box.y1 <= height + 1, text


MAKERS: dict[str, Callable[[], Figure]] = {
    "chart": lambda: figures.chart(sensitivity()),
    "panels": lambda: figures.panels(six(), title="Six"),
}


class TestFiles:
    @pytest.mark.parametrize("suffix", ["png", "svg"])
    @pytest.mark.parametrize("kind", MAKERS)
    def test_the_same_bytes_again(self, tmp_path: Path, kind: str, suffix: str) -> None:
        figure, again = MAKERS[kind](), MAKERS[kind]()
        figures.save(again, tmp_path / "other.svg")  # what was saved before must not matter
        written = {figures.save(f, tmp_path / f"a.{suffix}").read_bytes() for f in (figure, figure, again)}
        assert len(written) == 1

    def test_the_same_bytes_in_another_process(self, tmp_path: Path) -> None:
        script = (
            "import sys; sys.path.insert(0, sys.argv[1]); import test_charts as t; from spaql.viz import figures; "
            "[figures.save(t.MAKERS['panels'](), sys.argv[2] + s) for s in ('.png', '.svg')]"
        )
        here = str(Path(__file__).parent)
        environment = {**os.environ, "PYTHONHASHSEED": "1"}
        command = [sys.executable, "-c", script, here, str(tmp_path / "there")]
        subprocess.run(command, check=True, env=environment)
        for suffix in (".png", ".svg"):
            mine = figures.save(MAKERS["panels"](), tmp_path / f"here{suffix}").read_bytes()
            assert mine == (tmp_path / f"there{suffix}").read_bytes()

    def test_six_panels_make_small_files(self, tmp_path: Path) -> None:
        n = 16  # 256 cells
        low = np.array([[i, j] for i in range(n) for j in range(n)]) / n
        mosaic = Mosaic(
            low, low + 1 / n, np.arange(n * n), np.zeros(n * n), np.zeros(n * n), (np.arange(2), np.zeros(1, int))
        )
        figure = figures.panels([*six()[:5], ("Cells", mosaic)], title="Six")
        assert figures.save(figure, tmp_path / "a.png").stat().st_size < 150_000
        assert figures.save(figure, tmp_path / "a.svg").stat().st_size < 250_000

    def test_text_in_an_svg_is_text(self, tmp_path: Path) -> None:
        content = figures.save(figures.chart(learning("Reward <of> & all")), tmp_path / "a.svg").read_text()
        assert "Reward &lt;of&gt; &amp; all" in content
        assert re.search(r"<text[^>]*>optimum</text>", content)


class TestTicks:
    @pytest.mark.parametrize(
        ("span", "names"),
        [
            ((0.0, 0.61), ["0.0", "0.2", "0.4", "0.6"]),
            ((-6.0, 6.0), ["\N{MINUS SIGN}5.0", "\N{MINUS SIGN}2.5", "0.0", "2.5", "5.0"]),
            ((0.0, 1000.0), ["0", "200", "400", "600", "800", "1000"]),
            ((0.0, 20000.0), ["0", "5,000", "10,000", "15,000", "20,000"]),
        ],
    )
    def test_numbers_are_plain(self, span: tuple[float, float], names: list[str]) -> None:
        assert self.names(span, "linear") == names

    @pytest.mark.parametrize(
        ("span", "names"),
        [
            ((0.009, 20.0), ["0.01", "0.1", "1", "10"]),
            ((9.0, 2e5), ["10", "100", "1,000", "10,000", "100,000"]),
            ((0.9, 11.0), ["1", "2", "5", "10"]),
            ((1.1, 1.9), ["1.2", "1.4", "1.6", "1.8"]),
        ],
    )
    def test_logarithms_are_plain_numbers_too(self, span: tuple[float, float], names: list[str]) -> None:
        assert self.names(span, "log") == names

    @staticmethod
    def names(span: tuple[float, float], scale: str) -> list[str]:
        """Names of the ticks within the limits of an axis."""
        axes = Figure().add_subplot()
        axes.set_xscale(scale)
        axes.set_xlim(span)
        set_ticks(axes.xaxis, 5)
        at = [value for value in axes.xaxis.get_majorticklocs() if span[0] <= value <= span[1]]
        return axes.xaxis.get_major_formatter().format_ticks(at)


def test_a_wide_band_does_not_flatten_the_curves() -> None:
    wide = series("wide", [1, 2, 3], [0.0, 2.0, 3.0], low=[-90.0, 1.0, 2.5], high=[90.0, 3.0, 3.5])
    chart = a_chart(wide, series("b", [1, 2, 3], [1.0, 2.0, 4.0]))
    assert limit_y(chart) == pytest.approx((-1.3, 5.3))  # a quarter of 0 to 4 on each side, and a margin
    (axes,) = figures.chart(chart).axes
    assert axes.get_ylim() == pytest.approx((-1.3, 5.3))
    assert to_plotly(chart, looks_of([chart]))["layout"]["yaxis"]["range"] == pytest.approx([-1.3, 5.3])


def test_the_y_axis_shows_bands_of_usual_width_and_all_bars() -> None:
    flat = spread("flat", [1, 2], [1.0, 1.0])
    bars = spread("bars", [1, 2], [1.0, 2.0], half=50.0, style="points")
    for chart in (learning(), a_chart(flat), a_chart(bars), a_chart(series("a", [1], [NAN]))):
        assert limit_y(chart) is None
        assert "range" not in to_plotly(chart, looks_of([chart]))["layout"]["yaxis"]


def test_integers_along_x_have_ticks_at_integers() -> None:
    (axes,) = figures.chart(a_chart(series("a", [0, 1, 2], [1.0, 2.0, 3.0]))).axes
    assert all(float(tick).is_integer() for tick in axes.get_xticks())
