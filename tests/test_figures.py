"""Figures: what is on them, not how their pixels fall."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray
from PIL import Image

from spaql.atomic_io import write_files
from spaql.errors import OutputError
from spaql.viz import figures
from spaql.viz.charts import Chart, Series, make_learning_chart

X = np.arange(1, 41)
RUNS = np.random.default_rng(0).normal(np.log(X), 0.1, size=(5, 40))
LONG_X = np.arange(1000)
SCRIBBLE = np.random.default_rng(1).normal(3.0, 1.0, size=1000)

LOW = np.array([[0.0, 0.0], [0.5, 0.0], [0.0, 0.5], [0.5, 0.5], [0.5, 0.75]])
HIGH = np.array([[0.5, 0.5], [1.0, 0.5], [0.5, 1.0], [1.0, 0.75], [1.0, 1.0]])
VALUES = np.array([1.0, 2.0, 3.0, 4.0, 5.0])


def lines(figure: Figure) -> dict[str, Line2D]:
    return {str(line.get_label()): line for line in figure.axes[0].lines}


def collections(axes: Axes) -> dict[str, PolyCollection]:
    return {str(c.get_label()): c for c in axes.collections if isinstance(c, PolyCollection)}


def outlines(polygons: PolyCollection) -> list[NDArray[np.float64]]:
    return [np.asarray(path.vertices, dtype=np.float64) for path in polygons.get_paths()]


def array(polygons: PolyCollection) -> NDArray[np.float64]:
    return np.asarray(polygons.get_array(), dtype=np.float64)


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts]


def learning_curves(curves: Mapping[str, tuple[Any, Any]], **more: Any) -> Figure:
    return figures.chart(make_learning_chart(curves, **{"y_label": "return", "colours": {}, **more}))


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def points(line: Line2D) -> tuple[list[float], list[float]]:
    return np.asarray(line.get_xdata()).tolist(), np.asarray(line.get_ydata()).tolist()


def test_pyplot_is_never_imported() -> None:
    check = (
        "import sys; from spaql.viz import figures; from spaql.viz.charts import Chart, Series; "
        "f = figures.chart(Chart('t', 'x', 'y', (Series('AQL', [1, 2], [3, 4]),))); f.canvas.draw(); "
        "sys.exit('matplotlib.pyplot' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


class TestLearningCurves:
    def test_one_short_run_is_drawn_as_it_is(self) -> None:
        figure = learning_curves({"AQL": (X, RUNS[0])}, title="Oil", y_label="score")
        axes = figure.axes[0]
        assert points(lines(figure)["AQL"]) == (X.tolist(), RUNS[0].tolist())
        assert (axes.get_title("left"), axes.get_xlabel(), axes.get_ylabel()) == ("Oil", "training iteration", "score")
        assert collections(axes) == {}
        assert legend(figure) == ["AQL"]
        assert isinstance(figure.canvas, FigureCanvasAgg)

    def test_optimum(self) -> None:
        figure = learning_curves({"AQL": (X, RUNS[0])}, title="Oil", optimum=-7.25)
        assert set(points(lines(figure)["optimum -7.25"])[1]) == {-7.25}
        assert legend(figure) == ["AQL", "optimum -7.25"]
        assert figure.axes[0].get_ylim()[0] < -7.25

    def test_long_noisy_curve_is_smoothed_and_says_so(self) -> None:
        figure = learning_curves({"AQL": (LONG_X, SCRIBBLE)}, title="Oil")
        smooth = np.array(points(lines(figure)["AQL"])[1])
        raw = points(lines(figure)["_raw AQL"])[1]
        assert raw == SCRIBBLE.tolist()
        assert "bold: running mean over 25 points, thin: raw" in texts(figure)
        assert smooth[500] == pytest.approx(SCRIBBLE[488:513].mean())
        assert smooth[2] == pytest.approx(SCRIBBLE[:5].mean())
        assert smooth[-1] == pytest.approx(SCRIBBLE[-13:].mean())
        assert smooth.std() < SCRIBBLE.std() / 3

    def test_long_smooth_curve_is_left_alone(self) -> None:
        best_so_far = np.maximum.accumulate(SCRIBBLE)
        figure = learning_curves({"best": (LONG_X, best_so_far)}, title="Oil")
        assert points(lines(figure)["best"])[1] == best_so_far.tolist()

    def test_very_long_curve_stays_small_and_keeps_its_extremes(self) -> None:
        y = np.random.default_rng(2).normal(size=300_000)
        figure = learning_curves({"AQL": (np.arange(y.size), y)}, title="Oil")
        x_raw, y_raw = points(lines(figure)["_raw AQL"])
        assert len(x_raw) == len(y_raw) <= 2000
        assert (min(y_raw), max(y_raw)) == (y.min(), y.max())
        assert len(points(lines(figure)["AQL"])[0]) <= 1000

    def test_colour_belongs_to_the_name(self) -> None:
        curve = X, RUNS[0]
        colours = {"SPAQL": "#009e73", "AQL": "#d55e00"}
        both = lines(learning_curves({"SPAQL": curve, "mine": curve, "AQL": curve}, title="a", colours=colours))
        assert [both[name].get_color().lower() for name in colours] == list(colours.values())
        turned = lines(learning_curves({"AQL": curve, "mine": curve, "SPAQL": curve}, title="c", colours=colours))
        assert {n: line.get_color() for n, line in both.items()} == {n: line.get_color() for n, line in turned.items()}

    def test_many_curves_all_look_different(self) -> None:
        names = ["SPAQL", "AQL", "random", *(f"variant {i}" for i in range(15))]
        found = lines(learning_curves({name: (X, RUNS[0]) for name in names}, title="many"))
        assert len({(found[name].get_color(), found[name].get_linestyle()) for name in names}) == len(names)

    def test_single_point_and_constant_curves(self) -> None:
        figure = learning_curves({"AQL": ([5], [1.0]), "flat": ([1, 9], [0.0, 0.0])}, title="small")
        figure.canvas.draw()
        assert lines(figure)["AQL"].get_marker() == "o"

    @pytest.mark.parametrize(
        ("curves", "message"),
        [
            ({}, "is empty"),
            ({"AQL": ([], [])}, "is empty"),
            ({"AQL": ([1, 2], [1, 2, 3])}, "one length"),
            ({"AQL": ([1, np.nan], [1, 2])}, "finite"),
            ({"AQL": ([2, 1], [1, 2])}, "increasing"),
        ],
    )
    def test_bad_input(self, curves: dict[str, tuple[Any, Any]], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            learning_curves(curves, title="bad")

    def test_input_is_not_changed(self) -> None:
        y = SCRIBBLE.copy()
        learning_curves({"AQL": (LONG_X, y)}, title="same")
        assert (y == SCRIBBLE).all()


class TestCells:
    def test_cells_and_labels(self) -> None:
        figure = figures.cells(
            LOW, HIGH, VALUES, title="Cells", note="5 cells", labels=("position", "move"), value_label="value"
        )
        axes, bar = figure.axes
        cells = collections(axes)["_cells"]
        corners = {tuple(o[:4].ravel().tolist()): v for o, v in zip(outlines(cells), array(cells), strict=True)}
        assert len(corners) == 5
        assert corners[(0.5, 0.0, 1.0, 0.0, 1.0, 0.5, 0.5, 0.5)] == 2.0
        assert cells.get_clim() == (1.0, 5.0)
        assert (axes.get_xlim(), axes.get_ylim()) == ((0.0, 1.0), (0.0, 1.0))
        assert (axes.get_xlabel(), axes.get_ylabel(), bar.get_ylabel()) == ("position", "move", "value")
        assert axes.get_title("left") == "Cells"
        assert "5 cells" in texts(figure)
        assert figure.legends == []
        assert tuple(figure.get_size_inches()) == (7.0, 5.2)

    def test_small_cells_are_drawn_over_large_ones(self) -> None:
        figure = figures.cells(
            np.array([[0.25, 0.25], [0, 0]]), np.array([[0.5, 0.5], [1, 1]]), np.array([7.0, 8.0]), title="nested"
        )
        assert array(collections(figure.axes[0])["_cells"]).tolist() == [8.0, 7.0]

    def test_policy_band_follows_the_actions_and_breaks_at_jumps(self) -> None:
        edges = np.linspace(0, 1, 5)
        low, high = np.array([0.0, 0.25, 0.75, 0.75]), np.array([0.5, 0.5, 1.0, 1.0])
        figure = figures.cells(LOW, HIGH, VALUES, title="policy", policy=(edges, low, high))
        band = collections(figure.axes[0])["greedy action"]
        left, right = outlines(band)
        assert (left[:, 0].min(), left[:, 0].max()) == (0.0, 0.5)
        assert (right[:, 0].min(), right[:, 0].max()) == (0.5, 1.0)
        assert (left[:, 1].min(), left[:, 1].max()) == (0.0, 0.5)
        assert set(right[:, 1]) == {0.75, 1.0}
        assert [text.get_text() for text in figure.legends[0].get_texts()] == ["greedy action"]

    def test_lines_to_compare_with(self) -> None:
        compared = {"optimal policy": ([0.0, 1.0], [0.75, 0.7]), "myopic": ([0.0, 1.0], [0.1, 0.2])}
        figure = figures.cells(LOW, HIGH, VALUES, title="lines", lines=compared)
        assert points(lines(figure)["optimal policy"]) == ([0.0, 1.0], [0.75, 0.7])
        assert [text.get_text() for text in figure.legends[0].get_texts()] == ["optimal policy", "myopic"]
        assert lines(figure)["optimal policy"].get_linestyle() != lines(figure)["myopic"].get_linestyle()

    @pytest.mark.parametrize("values", [[3.0] * 5, [0.0] * 5, [np.nan] * 5, [1.0, np.nan, 2.0, 3.0, 4.0]])
    def test_equal_and_missing_values(self, values: list[float]) -> None:
        figure = figures.cells(LOW, HIGH, np.array(values), title="flat")
        figure.canvas.draw()
        low, high = collections(figure.axes[0])["_cells"].get_clim()
        assert low < high


def picture() -> Figure:
    policy = np.array([0.0, 0.5, 1.0]), np.array([0.5, 0.75]), np.array([1.0, 1.0])
    return figures.cells(LOW, HIGH, VALUES, title="Saved", policy=policy)


class TestSave:
    @pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("A.PNG", b"\x89PNG")])
    def test_writes_by_suffix(self, tmp_path: Path, name: str, start: bytes) -> None:
        target = figures.save(picture(), tmp_path / name)
        assert target == tmp_path / name
        assert target.read_bytes().startswith(start)
        assert [p.name for p in tmp_path.iterdir()] == [name]

    @pytest.mark.parametrize("suffix", ["png", "svg"])
    def test_same_bytes_every_time_and_in_every_thread(self, tmp_path: Path, suffix: str) -> None:
        salt = mpl.rcParams["svg.hashsalt"]

        def written(index: int) -> bytes:
            return figures.save(picture(), str(tmp_path / f"{index}.{suffix}")).read_bytes()

        with ThreadPoolExecutor(4) as pool:
            contents = set(pool.map(written, range(8)))
        assert len(contents) == 1
        assert b"<dc:date>" not in contents.pop()
        assert mpl.rcParams["svg.hashsalt"] == salt

    def test_saving_twice_gives_the_same_bytes(self, tmp_path: Path) -> None:
        figure = learning_curves({"SPAQL": (X, RUNS[0])}, title="twice", optimum=4.0)
        first, second = (figures.save(figure, tmp_path / f"{i}.png").read_bytes() for i in range(2))
        assert first == second

    def test_replaces_and_keeps_ordinary_permissions(self, tmp_path: Path) -> None:
        target, plain = tmp_path / "a.png", tmp_path / "plain"
        target.write_text("old")
        plain.write_text("")
        figures.save(picture(), target)
        assert target.read_bytes().startswith(b"\x89PNG")
        assert stat.S_IMODE(target.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)

    @pytest.mark.parametrize("name", ["a.pdf", "a", "a.png.txt", ".png"])
    def test_other_suffixes(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(ValueError, match=r"saved as \.png or \.svg"):
            figures.save(picture(), tmp_path / name)
        assert list(tmp_path.iterdir()) == []

    def test_unwritable_targets(self, tmp_path: Path) -> None:
        (tmp_path / "taken.png").mkdir()
        (tmp_path / "file").write_text("")
        for target in ("taken.png", "file/a.svg"):
            with pytest.raises(OutputError, match="cannot be written"):
                figures.save(picture(), tmp_path / target)
        assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "taken.png"]

    @pytest.mark.parametrize("name", ["a.svg", "a.png"])
    def test_a_failed_save_keeps_the_old_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        target = tmp_path / name
        target.write_text("old")

        def half(self: object, path: os.PathLike[str], **_: object) -> None:
            Path(path).write_bytes(b"half")
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(Figure, "savefig", half)
        with pytest.raises(OSError, match="No space left"):
            figures.save(picture(), target)
        assert target.read_text() == "old"
        assert [p.name for p in tmp_path.iterdir()] == [name]

    def test_a_png_has_exactly_the_colours_of_the_figure(self, tmp_path: Path) -> None:
        colours = {"SPAQL": "#009E73", "AQL": "#D55E00", "Tessera": "#0072B2"}
        series = [
            Series(name, [0, 1], [2 * i, 2 * i], [2 * i - 1] * 2, [2 * i + 0.9] * 2, colour=colour)
            for i, (name, colour) in enumerate(colours.items())
        ]
        cells = figures.panels([Chart("bands", "x", "y", tuple(series))], title="colours")
        for figure in (cells, picture()):
            figure.canvas.draw()
            assert isinstance(figure.canvas, FigureCanvasAgg)
            true = np.asarray(figure.canvas.buffer_rgba())[:, :, :3]
            with Image.open(figures.save(figure, tmp_path / "a.png")) as image:
                np.testing.assert_array_equal(np.asarray(image.convert("RGB")), true)


class TestWriters:
    def test_a_figure_is_drawn_once_for_all_its_files(self, tmp_path: Path) -> None:
        drawn: list[Figure] = []

        def draw() -> Figure:
            drawn.append(picture())
            return drawn[-1]

        files = figures.writers("figures/oil", draw)
        assert (list(files), drawn) == (["figures/oil.png", "figures/oil.svg"], [])
        for _ in range(2):
            write_files(tmp_path, files)
        assert len(drawn) == 2
        assert (tmp_path / "figures/oil.png").read_bytes() == figures.save(picture(), tmp_path / "a.png").read_bytes()
        assert (tmp_path / "figures/oil.svg").read_bytes() == figures.save(picture(), tmp_path / "a.svg").read_bytes()
