"""Pages of studies: what is in the file."""

from __future__ import annotations

import base64
import json
import math
import re
import subprocess
import sys
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spaql.formatting import Table
from spaql.viz import html, style
from spaql.viz.charts import Chart, Level, Mosaic, Series, looks_of, place
from spaql.viz.html import Case, Download, Growth, Section, render_page
from spaql.viz.plotly_figure import to_plotly

ASSETS = Path(html.__file__).parent / "assets"
NASTY = "</script><b>bold</b> \"quoted\" 'single' & {{script}} <!-- \u2028"
FRAMES = 40
SPAQL, AQL = "#0072B2", "#D55E00"


# A small study


def curves(title: str, *, steps: bool = False, nasty: bool = False) -> Chart:
    x = np.arange(1, 51) * (105 if steps else 1)
    y = np.log(np.arange(1, 51))
    name = NASTY if nasty else "SPAQL"
    return Chart(
        title,
        "environment steps" if steps else "training iteration",
        "return",
        (
            Series(name, x.tolist(), y.tolist(), (y - 0.1).tolist(), (y + 0.1).tolist(), look="SPAQL", colour=SPAQL),
            Series("AQL", x.tolist(), (0.9 * y).tolist(), look="AQL", style="dashed", colour=AQL),
        ),
        (Level("optimum", 4.25, look="optimum"), Level("Random", 0.3, 0.2, 0.4, look="Random")),
        note="Mean of 4 runs.",
    )


def scalings() -> Chart:
    x, y = [0.01, 0.1, 1.0, 10.0], [1.0, 2.0, math.nan, 1.5]
    low, high = [0.9, 1.9, math.nan, 1.4], [1.1, 2.1, math.nan, 1.6]
    series = (
        Series("SPAQL", x, y, low, high, look="SPAQL", style="points"),
        Series("AQL", x, y, low, high, look="AQL", style="points"),
    )
    return Chart("Reward by scaling", "scaling", "return", series, x_scale="log")


def differences() -> Chart:
    names = ["oil, a long name", NASTY, "ambulance, a long name"]
    points = Series("SPAQL", names, [0.1, 0.2, 0.3], [0.0, 0.1, 0.2], [0.2, 0.3, 0.4], look="", style="points")
    return Chart("Bias", "", "difference", (points,), x_scale="category")


def growth(frames: int, seed: int) -> list[Mosaic]:
    """A partition that begins as one cell and has three cells quartered from frame to frame."""
    random = np.random.default_rng(seed)
    cells = [(0.0, 0.0, 1.0, 0)]
    mosaics = []
    for _ in range(frames):
        corner, size, depth = (
            np.array([c[:2] for c in cells]),
            np.array([c[2] for c in cells]),
            np.array([c[3] for c in cells]),
        )
        q = 5 + np.sin(3 * corner[:, 0]) * corner[:, 1]
        edges = np.unique(np.concatenate([corner[:, 0], corner[:, 0] + size]))
        middles = (edges[:-1] + edges[1:]) / 2
        inside = (corner[:, 0, None] <= middles) & (middles < (corner[:, 0] + size)[:, None])
        played = np.argmax(np.where(inside, q[:, None], -np.inf), axis=0)
        visits = 4**depth
        mosaics.append(Mosaic(corner, corner + size[:, None], q, visits, depth, (edges, played)))
        for _ in range(3):
            x, y, s, d = cells.pop(int(random.integers(len(cells))))
            cells += [(x + i * s / 2, y + j * s / 2, s / 2, d + 1) for i in (0, 1) for j in (0, 1)]
    return mosaics


def case(slug: str, title: str, *, partitions: int = 1, scaling: bool = True, nasty: bool = False) -> Case:
    iterations = np.linspace(1, 5000, FRAMES, dtype=int).tolist()
    charts = {
        unit: [
            *(curves(f"{what} on {title}", steps=unit == "steps", nasty=nasty) for what in ("Reward", "Cells")),
            *([scalings()] if scaling else []),
        ]
        for unit in ("iterations", "steps")
    }
    grown = [Growth(f"Partition {i + 1}", "Seed 0.", iterations, growth(FRAMES, i)) for i in range(partitions)]
    return Case(slug, title, f"About {title}.", charts, grown)


def finding(slug: str, title: str, meaning: str) -> Section:
    number = "0.153 [0.148, 0.158]"
    return Section(title, ["A sentence about it."], charts=[differences()], highlight=(number, meaning), id=slug)


ROWS: list[dict[str, Any]] = [
    {"section": "Oil discovery"},
    {"head": "oil Laplace 10", "cells": ["3.52 ± 0.03", {"text": "3.81 ± 0.01", "bold": True}, "4.25"]},
    {"section": "Ambulance"},
    {"head": NASTY, "cells": [{"text": "4.29", "title": NASTY}, NASTY, {"text": "4.36", "title": "exact"}]},
]
TABLES = [
    {"caption": f"Table {i}", "note": note, "columns": ["Problem", "SPAQL", "AQL", "optimum"], "rows": ROWS}
    for i, note in ((1, "Bold by Welch's test."), (2, ""))
]
CASES = [
    case("oil-laplace-10", "oil, Laplace 10", partitions=2),
    case("nasty", NASTY, nasty=True),
    case("ambulance", "ambulance, Beta", partitions=0, scaling=False),
]


def study(tables: Any = TABLES) -> str:
    sections = [
        Section("In short", ["SPAQL is smaller.", NASTY], style="lead"),
        Section("Tables", tables=tables),
        Section("One problem at a time", cases=CASES),
        Section("Findings", parts=[finding("bias", "It is biased", "difference"), finding("odd", NASTY, "")]),
        Section("Method", ["Each agent had its own seed.", "Evaluations use new random numbers."]),
    ]
    return render_page(f"A study {NASTY}", sections, "Of three problems")


PAGE = study()


# The file


class Outline(HTMLParser):
    """What is in a page: its tags with their attributes, its text outside scripts, and its scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.scripts: list[str] = []
        self.inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside == "script":
            self.scripts[-1] += data
        elif self.inside != "style":
            self.text.append(data)

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def outline(text: str) -> Outline:
    parser = Outline()
    parser.feed(text)
    parser.close()
    return parser


OUTLINE = outline(PAGE)


def test_the_same_content_gives_the_same_bytes() -> None:
    turned = [{key: table[key] for key in reversed(table)} for table in TABLES]
    assert study() == study(turned) == PAGE


def test_the_page_is_below_its_limit_of_size() -> None:
    assert len(PAGE.encode()) < 12_000_000


def test_no_string_leaves_its_place() -> None:
    assert len(OUTLINE.scripts) == 3
    for drawn, given in zip(json.loads(OUTLINE.scripts[0])["cases"], CASES, strict=True):
        assert (drawn["id"], drawn["title"]) == (given.id, given.title)
        assert [part["frames"] for part in drawn["growth"]] == [
            [frame.to_dict() for frame in part.frames] for part in given.growth
        ]
        names = [trace["meta"] for trace in drawn["charts"]["steps"][0]["data"] if "meta" in trace]
        assert names == [series.name for series in given.charts["steps"][0].series]
    assert not OUTLINE.named("b")
    for raw in ("</", "<!--", "\u2028", "&"):
        assert raw not in OUTLINE.scripts[0]
    text = "".join(OUTLINE.text)
    assert text.count(NASTY) == 2 + 1 + 2 * 2 + 1 + 1  # title and h1, lead, cells, option, finding
    assert {"title": NASTY} in OUTLINE.named("td")


def test_text_and_tables_need_no_script() -> None:
    text = "".join(OUTLINE.text)
    for words in (
        "SPAQL is smaller.",
        "Each agent had",
        "Of three problems",
        "0.153 [0.148, 0.158]",
        "Table 2",
        "Welch",
    ):
        assert words in text
    assert OUTLINE.named("noscript")
    assert len(OUTLINE.named("caption")) == 2
    scopes = [attributes.get("scope") for attributes in OUTLINE.named("th")]
    assert [scopes.count(scope) for scope in ("col", "row", "rowgroup", None)] == [8, 4, 4, 0]
    assert OUTLINE.named("html")[0]["lang"] == "en"


def test_a_column_without_a_name_has_an_empty_head() -> None:
    page = study([{**TABLES[0], "columns": ["", "SPAQL", "AQL", "optimum"]}])
    assert '<tr><td></td><th scope="col">SPAQL</th>' in page


def test_a_marked_row_says_so() -> None:
    table = Table(["agent", "score"], [["AQL", "1"], [NASTY, "2"]], "Scores", marks={1: NASTY})
    page = render_page("A page", [Section("Tables", tables=[table.html()])])
    (row,) = re.findall('<tr class="marked">(.*?)</tr>', page)
    assert unescape(re.sub("<.*?>", "|", row)) == f"|{NASTY} |{NASTY}|||2|"
    assert "*" not in table.text()  # marks are for pages


def test_a_file_can_be_kept_without_javascript() -> None:
    files = [Download("a.txt", bytes(range(256)), NASTY), Download("b.txt", b"x" * 2345, "")]
    page = render_page("A page", [Section("Files", downloads=files)])
    links = re.findall(r'<a class="button" download="(.*?)" href="data:(.*?);base64,(.*?)">.*?<span>(.*?)</span>', page)
    assert [(name, base64.b64decode(data), size) for name, _, data, size in links] == [
        ("a.txt", files[0].content, "256 bytes"),
        ("b.txt", files[1].content, "2.3 kB"),
    ]
    assert NASTY not in page
    assert "needs-js" not in page.split("<main")[1].split("</main>")[0]


def test_a_number_that_is_not_finite_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        render_page("", [], data={"number": math.nan})


def test_an_empty_study_is_a_page() -> None:
    assert len(outline(render_page("", [])).scripts) == 2


def test_a_list_of_items_and_nested_sections() -> None:
    page = render_page(
        "a", [Section("The first part", items=["one", "two"], parts=[Section("Below", style="warnings")])]
    )
    assert '<section id="the-first-part"' in page
    assert "<li>one</li>\n<li>two</li>" in page
    assert '<article id="below" class="warnings">' in page


def test_nothing_points_outside() -> None:
    for name in sorted(path.name for path in ASSETS.iterdir()):
        source = (ASSETS / name).read_text("utf-8")
        assert not re.search(r"https?:|//[a-z]+\.|@import|url\(|fetch\(|XMLHttpRequest|localStorage", source), name
    targets = [attributes.get("src") or attributes.get("href") or "" for _, attributes in OUTLINE.tags]
    assert {target for target in targets if not target.startswith("#")} == {"", "data:,"}


def test_the_policy_allows_the_two_scripts_and_no_request() -> None:
    (policy,) = (a["content"] for a in OUTLINE.named("meta") if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    scripts = policy.split(";")[1]
    assert scripts.count("'sha256-") == 2
    assert "unsafe" not in scripts
    assert "http" not in policy


def test_scripts_cannot_end_their_element() -> None:
    assert html.to_script("a = '</script>' + '<!--' + '</SCRIPT>' + '</p>'") == (
        "a = '<\\/script>' + '<\\!--' + '<\\/SCRIPT>' + '</p>'"
    )


def test_plotly_is_not_imported() -> None:
    code = "import sys; from spaql.viz import html; html._plotly(); print('plotly' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def test_looks_tell_names_apart() -> None:
    names = ["SPAQL", "AQL", "Random", "optimum", *(f"variant {i}" for i in range(15))]
    chart = Chart("", "", "", tuple(Series(name, [1], [1]) for name in names))
    looks = looks_of([chart])
    assert len({(look.colour, look.line) for look in looks.values()}) == len(names)
    figure = to_plotly(chart, looks)
    assert [trace["line"]["color"] for trace in figure["data"]] == [looks[name].colour for name in names]
    markers = {(look.marker, look.symbol) for look in looks.values()}
    assert len(markers) == len({marker for marker, _ in markers}) == len({symbol for _, symbol in markers})
    assert style.darken("#102030") == "#878F97"


def test_a_figure_has_the_points_of_the_print() -> None:
    chart = scalings()
    for trace, drawn in zip(place(chart), to_plotly(chart, looks_of([chart]))["data"], strict=True):
        np.testing.assert_allclose(drawn["x"], trace.x, rtol=1e-5)
        assert drawn["y"] == [1, 2, None, 1.5]
        assert drawn["customdata"][0] == [0.01, 0.9, 1.1]


def ticks_of(x: list[float], scale: Any) -> dict[str, Any]:
    chart = Chart("", "", "", (Series("a", x, [1.0] * len(x)),), x_scale=scale)
    axis = to_plotly(chart, looks_of([chart]))["layout"]["xaxis"]
    return {name: axis[name] for name in ("dtick", "ticktext") if name in axis}


def test_ticks_are_powers_of_ten_or_integers_where_x_are() -> None:
    assert ticks_of([1.0, 50.0, 1e5], "log") == {"dtick": 1}
    assert ticks_of([0.1, 0.5, 2.0], "log") == {"ticktext": ["0.1", "0.2", "0.5", "1", "2"]}
    assert ticks_of([0.5, 0.6], "log") == {}
    assert ticks_of([0.0, 1.0, 2.0], "linear") == {"dtick": 1}
    assert ticks_of([0.0, 0.5, 2.0], "linear") == ticks_of([0.0, 50.0], "linear") == {}


@pytest.mark.parametrize("style", ["points", "line"])
def test_names_along_x_are_escaped_in_tooltips_and_plain_in_the_table(style: Any) -> None:
    names = ["<b>bold</b>", "a & b"]
    chart = Chart("", "", "score", (Series("AQL", names, [1.0, 2.0], style=style),), x_scale="category")
    [drawn] = to_plotly(chart, looks_of([chart]))["data"]
    assert drawn["hovertemplate"].startswith("%{text}<br>")
    assert drawn["text"] == ["&lt;b&gt;bold&lt;/b&gt;", "a &amp; b"]
    assert "text" not in drawn["mode"]  # only in the tooltip
    assert [row[0] for row in drawn["customdata"]] == names


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_contrast_is_enough() -> None:
    css = (ASSETS / "page.css").read_text("utf-8")
    colours = dict(re.findall(r"--(\w+): light-dark\((#\w{6}, #\w{6})\)", css))
    pairs = {name: pair.split(", ") for name, pair in colours.items()}
    for side in (0, 1):
        for name, least in (("ink", 7.0), ("quiet", 4.5), ("link", 4.5), ("edge", 3.0)):
            for ground in ("paper", "raised", "marked"):
                assert contrast(pairs[name][side], pairs[ground][side]) >= least, (name, ground, side)
    for colour in style.DARK.values():
        assert contrast(colour, pairs["paper"][1]) >= 4.5
