"""Figures: what is on them, not how their pixels fall."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from numpy.typing import NDArray
from PIL import Image

from spaql import stats
from spaql.viz import figures

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


def points(line: Line2D) -> tuple[list[float], list[float]]:
    return np.asarray(line.get_xdata()).tolist(), np.asarray(line.get_ydata()).tolist()


def test_pyplot_is_never_imported() -> None:
    check = (
        "import sys; from spaql import figures; "
        "f = figures.learning_curves({'AQL': ([1, 2], [3, 4])}, title='t'); f.canvas.draw(); "
        "sys.exit('matplotlib.pyplot' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


class TestLearningCurves:
    def test_one_short_run_is_drawn_as_it_is(self) -> None:
        figure = figures.learning_curves({"AQL": (X, RUNS[0])}, title="Oil", x_label="episode", y_label="score")
        axes = figure.axes[0]
        assert points(lines(figure)["AQL"]) == (X.tolist(), RUNS[0].tolist())
        assert (axes.get_title("left"), axes.get_xlabel(), axes.get_ylabel()) == ("Oil", "episode", "score")
        assert collections(axes) == {}
        assert texts(figure) == ["AQL"]
        assert isinstance(figure.canvas, FigureCanvasAgg)

    def test_several_runs_show_mean_and_band(self) -> None:
        figure = figures.learning_curves({"SPAQL": (X, RUNS)}, title="Oil")
        band = stats.mean_band(RUNS)
        assert points(lines(figure)["SPAQL"])[1] == pytest.approx(band.mean)
        drawn = outlines(collections(figure.axes[0])["_band SPAQL"])[0]
        assert drawn[:, 1].min() == pytest.approx(band.low.min())
        assert drawn[:, 1].max() == pytest.approx(band.high.max())
        assert "mean of 5 runs with 95 % confidence band" in texts(figure)

    def test_optimum(self) -> None:
        figure = figures.learning_curves({"AQL": (X, RUNS)}, title="Oil", optimum=-7.25)
        assert set(points(lines(figure)["optimum"])[1]) == {-7.25}
        assert "optimum \N{MINUS SIGN}7.25" in texts(figure)
        assert figure.axes[0].get_ylim()[0] < -7.25

    def test_long_noisy_curve_is_smoothed_and_says_so(self) -> None:
        figure = figures.learning_curves({"AQL": (LONG_X, SCRIBBLE)}, title="Oil")
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
        figure = figures.learning_curves({"best": (LONG_X, best_so_far)}, title="Oil")
        assert points(lines(figure)["best"])[1] == best_so_far.tolist()

    def test_very_long_curve_stays_small_and_keeps_its_extremes(self) -> None:
        y = np.random.default_rng(2).normal(size=300_000)
        figure = figures.learning_curves({"AQL": (np.arange(y.size), y)}, title="Oil")
        x_raw, y_raw = points(lines(figure)["_raw AQL"])
        assert len(x_raw) == len(y_raw) <= 2000
        assert (min(y_raw), max(y_raw)) == (y.min(), y.max())
        assert len(points(lines(figure)["AQL"])[0]) <= 1000

    def test_colour_belongs_to_the_name(self) -> None:
        curve = X, RUNS[0]
        both = lines(figures.learning_curves({"SPAQL": curve, "mine": curve, "AQL": curve}, title="a"))
        alone = lines(figures.learning_curves({"AQL": curve, "mine": curve}, title="b"))
        assert alone["AQL"].get_color() == both["AQL"].get_color()
        turned = lines(figures.learning_curves({"AQL": curve, "mine": curve, "SPAQL": curve}, title="c"))
        assert {n: line.get_color() for n, line in both.items()} == {n: line.get_color() for n, line in turned.items()}

    def test_many_curves_all_look_different(self) -> None:
        names = ["SPAQL", "AQL", "random", *(f"variant {i}" for i in range(15))]
        found = lines(figures.learning_curves({name: (X, RUNS[0]) for name in names}, title="many"))
        assert len({(found[name].get_color(), found[name].get_linestyle()) for name in names}) == len(names)

    def test_labels_do_not_overlap(self) -> None:
        curves = {f"variant {i}": (X, RUNS[0] + 1e-3 * i) for i in range(6)}
        figure = figures.learning_curves(curves, title="close", optimum=float(RUNS[0, -1]))
        figure.canvas.draw()
        labels = [t for t in figure.axes[0].texts if t.get_text().startswith(("variant", "optimum"))]
        # The extent of an annotation includes its leader; that of the text alone does not.
        boxes = sorted((Text.get_window_extent(label) for label in labels), key=lambda box: box.y0)
        assert len(boxes) == 7
        assert all(below.y1 <= above.y0 for below, above in pairwise(boxes))

    def test_single_point_and_constant_curves(self) -> None:
        figure = figures.learning_curves({"AQL": ([5], [[1.0], [2.0]]), "flat": ([1, 9], [0.0, 0.0])}, title="small")
        figure.canvas.draw()
        assert lines(figure)["AQL"].get_marker() == "o"

    @pytest.mark.parametrize(
        ("curves", "message"),
        [
            ({}, "curves is empty"),
            ({"AQL": ([], [])}, "curve 'AQL' needs x \\[n\\]"),
            ({"AQL": ([1, 2], [1, 2, 3])}, "\\[2\\] and \\[1, 3\\]"),
            ({"AQL": ([1, 2], [1, np.nan])}, "finite"),
            ({"AQL": ([2, 1], [1, 2])}, "increasing"),
            ({"AQL": ([1, 2], np.zeros((1, 1, 2)))}, "needs x"),
        ],
    )
    def test_bad_input(self, curves: dict[str, figures.Curve], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            figures.learning_curves(curves, title="bad")

    def test_input_is_not_changed(self) -> None:
        y = SCRIBBLE.copy()
        figures.learning_curves({"AQL": (LONG_X, y)}, title="same")
        assert (y == SCRIBBLE).all()


class TestPartitionPicture:
    def test_cells_and_labels(self) -> None:
        figure = figures.partition_picture(
            LOW, HIGH, VALUES, title="Cells", x_label="position", y_label="move", value_label="value"
        )
        axes, bar = figure.axes
        cells = collections(axes)["cells"]
        corners = {tuple(o[:4].ravel().tolist()): v for o, v in zip(outlines(cells), array(cells), strict=True)}
        assert len(corners) == 5
        assert corners[(0.5, 0.0, 1.0, 0.0, 1.0, 0.5, 0.5, 0.5)] == 2.0
        assert cells.get_clim() == (1.0, 5.0)
        assert (axes.get_xlim(), axes.get_ylim()) == ((0.0, 1.0), (0.0, 1.0))
        assert (axes.get_xlabel(), axes.get_ylabel(), bar.get_ylabel()) == ("position", "move", "value")
        assert axes.get_title("left") == "Cells"
        assert "5 cells" in texts(figure)
        assert figure.legends == []
        assert tuple(figure.get_size_inches()) == (7.0, 5.5)

    def test_small_cells_are_drawn_over_large_ones(self) -> None:
        figure = figures.partition_picture(
            [[0.25, 0.25], [0.0, 0.0]], [[0.5, 0.5], [1.0, 1.0]], [7.0, 8.0], title="nested"
        )
        assert array(collections(figure.axes[0])["cells"]).tolist() == [8.0, 7.0]

    def test_policy_band_follows_the_actions_and_breaks_at_jumps(self) -> None:
        x = np.array([0.125, 0.375, 0.625, 0.875])
        low, high = np.array([0.0, 0.25, 0.75, 0.75]), np.array([0.5, 0.5, 1.0, 1.0])
        figure = figures.partition_picture(LOW, HIGH, VALUES, title="policy", policy=(x, low, high))
        band = collections(figure.axes[0])["greedy action"]
        left, right = outlines(band)
        assert (left[:, 0].min(), left[:, 0].max()) == (0.0, 0.5)
        assert (right[:, 0].min(), right[:, 0].max()) == (0.5, 1.0)
        assert (left[:, 1].min(), left[:, 1].max()) == (0.0, 0.5)
        assert set(right[:, 1]) == {0.75, 1.0}
        assert [text.get_text() for text in figure.legends[0].get_texts()] == ["greedy action"]

    def test_overlay(self) -> None:
        overlay = {"optimal policy": ([0.0, 1.0], [0.75, 0.7]), "myopic": ([0.0, 1.0], [0.1, 0.2])}
        figure = figures.partition_picture(LOW, HIGH, VALUES, title="overlay", overlay=overlay)
        assert points(lines(figure)["optimal policy"]) == ([0.0, 1.0], [0.75, 0.7])
        assert [text.get_text() for text in figure.legends[0].get_texts()] == ["optimal policy", "myopic"]
        assert lines(figure)["optimal policy"].get_linestyle() != lines(figure)["myopic"].get_linestyle()

    @pytest.mark.parametrize("values", [[3.0] * 5, [0.0] * 5, [np.nan] * 5, [1.0, np.nan, 2.0, 3.0, 4.0]])
    def test_equal_and_missing_values(self, values: list[float]) -> None:
        figure = figures.partition_picture(LOW, HIGH, values, title="flat")
        figure.canvas.draw()
        low, high = collections(figure.axes[0])["cells"].get_clim()
        assert low < high

    @pytest.mark.parametrize(
        ("low", "high", "values", "message"),
        [
            (np.empty((0, 2)), np.empty((0, 2)), [], "corners \\[n, 2\\]"),
            (LOW, HIGH, VALUES[:4], "\\[5, 2\\], \\[5, 2\\], \\[4\\]"),
            (np.zeros((5, 3)), HIGH, VALUES, "corners"),
            (HIGH, LOW, VALUES, "lower one below"),
            (LOW, HIGH, np.full(5, np.inf), "finite, or NaN"),
            (1.0, HIGH, VALUES, "corners"),
        ],
    )
    def test_bad_cells(self, low: object, high: object, values: object, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            figures.partition_picture(low, high, values, title="bad")  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        "policy",
        [
            ([0.5], [0.0], [1.0]),
            ([0.1, 0.2], [0.0], [1.0]),
            ([0.2, 0.1], [0.0, 0.0], [1.0, 1.0]),
            ([0.1, 0.2], [1.0, 1.0], [0.0, 0.0]),
        ],
    )
    def test_bad_policy(self, policy: tuple[list[float], list[float], list[float]]) -> None:
        with pytest.raises(ValueError, match="policy needs"):
            figures.partition_picture(LOW, HIGH, VALUES, title="bad", policy=policy)

    def test_bad_overlay(self) -> None:
        with pytest.raises(ValueError, match="overlay 'best' needs"):
            figures.partition_picture(LOW, HIGH, VALUES, title="bad", overlay={"best": ([0, 1], [0])})


def picture() -> Figure:
    x = [0.25, 0.75]
    return figures.partition_picture(LOW, HIGH, VALUES, title="Saved", policy=(x, [0.5, 0.75], [1.0, 1.0]))


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
        figure = figures.learning_curves({"SPAQL": (X, RUNS)}, title="twice", optimum=4.0)
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
        for target in ("missing/a.png", "taken.png", "file/a.svg"):
            with pytest.raises(OSError, match=f"cannot write the figure to '.*{target}': .*\\."):
                figures.save(picture(), tmp_path / target)
        assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "taken.png"]

    @pytest.mark.parametrize(("name", "writer"), [("a.svg", Figure.savefig), ("a.png", Image.Image.save)])
    def test_a_failed_save_keeps_the_old_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, writer: Callable[..., None]
    ) -> None:
        target = tmp_path / name
        target.write_text("old")

        def half(self: object, path: os.PathLike[str], **_: object) -> None:
            Path(path).write_bytes(b"half")
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(Image.Image if writer is Image.Image.save else Figure, writer.__name__, half)
        with pytest.raises(OSError, match="No space left"):
            figures.save(picture(), target)
        assert target.read_text() == "old"
        assert [p.name for p in tmp_path.iterdir()] == [name]

    def test_a_png_has_the_colours_of_the_figure(self, tmp_path: Path) -> None:
        figure = figures.learning_curves({"SPAQL": (X, RUNS), "AQL": (X, RUNS + 2)}, title="colours")
        figure.canvas.draw()
        assert isinstance(figure.canvas, FigureCanvasAgg)
        true = np.asarray(figure.canvas.buffer_rgba(), dtype=int)[:, :, :3]
        with Image.open(figures.save(figure, tmp_path / "a.png")) as image:
            seen = np.asarray(image.convert("RGB"), dtype=int)
        assert seen.shape == true.shape == (704, 1120, 3)
        assert (seen[(true == 255).all(axis=2)] == 255).all()  # white is white
        off = np.abs(seen - true).max(axis=2)
        assert off.mean() < 1
        assert off.max() < 48
