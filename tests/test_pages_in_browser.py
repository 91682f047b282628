"""Pages of studies in a real browser: what a reader sees and does."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select

import browsers
from spaql.viz import style
from spaql.viz.charts import Mosaic
from spaql.viz.html import Case, Growth, Section, render_page
from test_pages import CASES, FRAMES, NASTY, PAGE

FRAMES_OF_FIRST = CASES[0].growth[0].frames


class Reader(browsers.Reader):
    """A browser with the report open, and what a reader does with it."""

    def layout(self, selector: str, path: str) -> Any:
        """What Plotly has made of the layout of a plot."""
        return self.run(
            "return arguments[1].split('.').reduce((o, k) => o[k], document.querySelector(arguments[0])._fullLayout)",
            selector,
            path,
        )

    def slide(self, frame: int) -> None:
        self.run(
            "const s = document.getElementById('moment'); s.value = arguments[0];"
            "s.dispatchEvent(new Event('input', {bubbles: true}))",
            frame,
        )

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Pixels in the window of a point of the partition."""
        left, top = self.run(
            "const p = document.getElementById('picture'), l = p._fullLayout, r = p.getBoundingClientRect();"
            "return [r.left + l.xaxis._offset + l.xaxis.c2p(arguments[0]),"
            "        r.top + l.yaxis._offset + l.yaxis.c2p(arguments[1])]",
            x,
            y,
        )
        return float(left), float(top)

    def hover(self, x: float, y: float) -> None:
        self.run("document.getElementById('picture').scrollIntoView({block: 'center'})")
        left, top = self.place(x, y)
        actions = ActionChains(self.driver, duration=0)
        actions.w3c_actions.pointer_action.move_to_location(round(left) - 2, round(top) - 2)
        actions.w3c_actions.pointer_action.move_to_location(round(left), round(top))
        actions.perform()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(PAGE, "utf-8")
    return path.as_uri()


@pytest.fixture
def reader(driver: webdriver.Chrome, address: str) -> Iterator[Reader]:
    """A page just opened; after the test, it must have asked for nothing and complained about nothing."""
    reader = Reader(driver, address)
    reader.emulate()
    reader.resize(1280)
    reader.open()
    yield reader
    assert reader.complaints() == []
    assert {url.split(":")[0] for url in reader.requests()} <= {"file", "data", "blob"}


def test_the_page_tells_its_story_in_order(reader: Reader) -> None:
    levels = reader.run("return [...document.querySelectorAll('h1, h2, h3, h4')].map((h) => Number(h.tagName[1]))")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    ids = reader.run("return [...document.querySelectorAll('[id]')].map((node) => node.id)")
    assert len(ids) == len(set(ids))
    unlabelled = "select, input, button, [role=region], .plot, .picture"
    assert reader.run(
        "return [...document.querySelectorAll(arguments[0])].filter((node) => !(node.labels?.length"
        " || node.textContent.trim() || node.getAttribute('aria-label'))).length === 0",
        unlabelled,
    )


def test_choosing_a_problem_changes_the_charts(reader: Reader) -> None:
    assert reader.text("#case-chart-0 h4") == "Reward on oil, Laplace 10"
    assert reader.run("return [...document.querySelectorAll('#case option')].map((o) => o.text)")[0] == (
        "oil, Laplace 10"
    )
    Select(reader.find("#case")).select_by_index(1)
    reader.wait(lambda: reader.text("#case-chart-0 h4") == f"Reward on {NASTY}")
    assert reader.text("#case-title") == NASTY
    assert reader.run("return location.hash") == "#nasty&iterations"
    # Plotly shows the text as it is: no tag in it becomes a tag.
    legend = ".plot .legend .legendtext"
    reader.wait(
        lambda: "</script><b>bold</b> \"quoted\" 'single' & {{script}} <!--" in reader.text(f"#case-chart-0 {legend}")
    )
    assert reader.run("return document.querySelectorAll('#case-chart-0 .plot b').length") == 0

    reader.find("#next").click()
    assert reader.text("#case-title") == "ambulance, Beta"
    assert not reader.find("#case-chart-2").is_displayed()
    assert not reader.find("#mosaic").is_displayed()
    reader.find("#next").click()
    assert reader.text("#case-title") == "oil, Laplace 10"
    assert reader.find("#case-chart-2").is_displayed()
    assert reader.find("#mosaic").is_displayed()
    reader.find("#previous").click()
    assert reader.text("#case-title") == "ambulance, Beta"


def test_the_axis_switches_between_iterations_and_steps(reader: Reader) -> None:
    for chart in ("case-chart-0", "case-chart-1"):
        assert reader.layout(f"#{chart} .plot", "xaxis.title.text") == "training iteration"
        assert reader.layout(f"#{chart} .plot", "xaxis.range.1") == pytest.approx(50)
    reader.find("input[name=unit][value=steps]").click()
    for chart in ("case-chart-0", "case-chart-1"):
        assert reader.layout(f"#{chart} .plot", "xaxis.title.text") == "environment steps"
        assert reader.layout(f"#{chart} .plot", "xaxis.range.1") == pytest.approx(5250)
    assert reader.run("return location.hash") == "#oil-laplace-10&steps"


def test_charts_show_series_bands_and_levels(reader: Reader) -> None:
    data = reader.run(
        "return document.querySelector('#case-chart-0 .plot').data"
        ".map((t) => [t.name, t.fill ?? '', t.line?.dash ?? '', t.line.color ?? t.fillcolor])"
    )
    assert data == [
        ["SPAQL", "toself", "", "#0072B233"],
        ["SPAQL", "", "solid", "#0072B2"],
        ["AQL", "", "5px,3px", "#D55E00"],
    ]
    shapes = reader.run(
        "return document.querySelector('#case-chart-0 .plot').layout.shapes.map((s) => [s.type, s.y0, s.y1])"
    )
    assert shapes == [["line", 4.25, 4.25], ["rect", 0.2, 0.4], ["line", 0.3, 0.3]]
    legend = reader.run(
        "return [...document.querySelectorAll('#case-chart-0 .legendtext')].map((node) => node.textContent)"
    )
    assert legend == ["SPAQL", "AQL", "optimum 4.25", "Random 0.3"]
    assert reader.layout("#case-chart-2 .plot", "xaxis.type") == "log"
    bars = reader.run("return document.querySelector('#case-chart-2 .plot').data[0].error_y")
    assert bars["array"] == [pytest.approx(0.1), pytest.approx(0.1), None, pytest.approx(0.1)]
    assert reader.layout("#case-chart-0 .plot", "hovermode") == "x unified"
    assert reader.layout("#case-chart-2 .plot", "hovermode") == "closest"


def test_the_numbers_can_be_taken_out(reader: Reader) -> None:
    assert not reader.driver.find_elements(By.CSS_SELECTOR, "#case-chart-2 .numbers table")
    reader.find("#case-chart-2 .numbers summary").click()
    reader.wait(lambda: reader.driver.find_elements(By.CSS_SELECTOR, "#case-chart-2 .numbers table"))
    table = "return [...document.querySelectorAll(arguments[0])].map((r) => [...r.cells].map((c) => c.textContent))"
    rows = reader.run(table, "#case-chart-2 .numbers tr")
    assert rows[0] == ["series", "scaling", "return", "low", "high"]
    assert rows[1] == ["SPAQL", "0.01", "1", "0.9", "1.1"]
    assert rows[3] == ["SPAQL", "1", "", "", ""]
    assert len(rows) == 1 + 2 * 4

    reader.find("#case-chart-0 .numbers summary").click()
    reader.wait(lambda: len(reader.run(table, "#case-chart-0 .numbers tr")) == 1 + 2 * 50 + 2)
    assert reader.run(table, "#case-chart-0 .numbers tr")[-1] == ["Random", "all", "0.3", "0.2", "0.4"]
    reader.find("input[name=unit][value=steps]").click()
    assert reader.run(table, "#case-chart-0 .numbers tr")[1][1] == "105"

    image = "Plotly.toImage(document.getElementById('picture'), {format: 'png'}).then(arguments[0])"
    assert reader.driver.execute_async_script(image).startswith("data:image/png;base64,")

    reader.slide(1)
    reader.find("#mosaic .numbers summary").click()
    reader.wait(lambda: len(reader.run(table, "#mosaic .numbers tr")) == 1 + 10)
    reader.slide(0)
    assert reader.run(table, "#mosaic .numbers tr")[1] == ["0", "1", "0", "1", "5", "1", "0"]


def test_pointing_at_a_cell_tells_what_it_is(reader: Reader) -> None:
    frame = FRAMES_OF_FIRST[-1].to_dict()
    inner = np.array(frame["low"])[:, 0] > 0
    cell = int(np.argmin(np.where(inner, frame["depth"], np.inf)))  # a large one, easy to hit, with a neighbour
    (x0, y0), (x1, y1) = frame["low"][cell], frame["high"][cell]
    facts = [
        f"state {x0:.4g} to {x1:.4g}",
        f"action {y0:.4g} to {y1:.4g}",
        f"Q {frame['q'][cell]:.4g}",
        f"{frame['visits'][cell]} visits",
        f"depth {frame['depth'][cell]}",
    ]
    assert reader.text("#cell").startswith("Point at a cell")
    reader.hover((x0 + 3 * x1) / 4, (y0 + 3 * y1) / 4)
    reader.wait(lambda: reader.text("#cell") == ", ".join(facts))
    reader.wait(lambda: all(fact in reader.text("#picture .hoverlayer") for fact in facts))

    ActionChains(reader.driver, duration=0).click().perform()
    reader.wait(lambda: reader.run("return document.activeElement.id") == "picture")
    selected = "return document.getElementById('picture').data.at(-1).x"
    reader.wait(lambda: reader.run(selected) == [x0, x1, x1, x0, x0])
    reader.find("#picture").send_keys(Keys.ARROW_LEFT)
    reader.wait(lambda: reader.run(selected)[0] < x0)
    assert f"to {x0:.4g}, action" in reader.text("#cell")
    reader.find("#picture").send_keys(Keys.ARROW_RIGHT)
    reader.wait(lambda: reader.text("#cell") == ", ".join(facts))
    reader.find("#picture").send_keys(Keys.ARROW_LEFT)
    Select(reader.find("#colour")).select_by_value("depth")  # a redraw under the mouse does not undo the keys
    assert f"to {x0:.4g}, action" in reader.text("#cell")
    reader.hover(0.99, 0.99)
    reader.wait(lambda: " to 1, action" in reader.text("#cell"))


def test_arrow_keys_move_from_cell_to_cell(reader: Reader) -> None:
    reader.slide(1)
    frame = FRAMES_OF_FIRST[1].to_dict()
    reader.find("#play").send_keys(Keys.TAB)  # to the slider
    ActionChains(reader.driver, duration=0).send_keys(Keys.TAB).perform()
    assert reader.run("return document.activeElement.id") == "picture"

    def where() -> tuple[float, float, float, float]:
        numbers = re.findall(r"[\d.]+", reader.text("#cell"))
        return float(numbers[0]), float(numbers[1]), float(numbers[2]), float(numbers[3])

    boxes = {(low[0], high[0], low[1], high[1]) for low, high in zip(frame["low"], frame["high"], strict=True)}
    start = where()
    assert start in boxes
    for key, side, forward in (
        (Keys.ARROW_LEFT, 0, False),
        (Keys.ARROW_DOWN, 2, False),
        (Keys.ARROW_RIGHT, 0, True),
        (Keys.ARROW_UP, 2, True),
    ):
        for _ in range(4):  # as far as it goes, and at the border no further
            before = where()
            reader.find("#picture").send_keys(key)
            after = where()
            assert after in boxes
            touching = after[side] == before[side + 1] if forward else after[side + 1] == before[side]
            assert touching or after == before
        assert where()[side + 1 if forward else side] == (1.0 if forward else 0.0)


def test_cells_of_a_single_action_can_be_walked_through(driver: webdriver.Chrome, tmp_path: Path) -> None:
    low, high = np.array([[0.0, 0.4], [0.3, 1.0], [0.7, 0.1]]), np.array([[0.3, 0.4], [0.7, 1.0], [1.0, 0.1]])
    policy = np.array([0.0, 0.3, 0.7, 1.0]), np.arange(3)
    frame = Mosaic(low, high, np.arange(3.0), np.ones(3, int), np.array([1, 2, 2]), policy, (0.0, 1.0))
    steps = Case("steps", "steps", "", CASES[2].charts, [Growth("Steps", "", [1], [frame])])
    (tmp_path / "steps.html").write_text(render_page("Steps", [Section("Cases", cases=[steps])]), "utf-8")
    reader = Reader(driver, (tmp_path / "steps.html").as_uri())
    reader.open()
    cells = ["state 0 to 0.3, action 0.4,", "state 0.3 to 0.7, action 1,", "state 0.7 to 1, action 0.1,"]
    reader.hover(0.5, 0.5)  # between the cells
    for key, cell in (
        (Keys.ARROW_LEFT, 1),  # to the middle of the states
        (Keys.ARROW_LEFT, 0),
        (Keys.ARROW_LEFT, 0),
        (Keys.ARROW_UP, 0),
        (Keys.ARROW_RIGHT, 1),
        (Keys.ARROW_RIGHT, 2),
        (Keys.ARROW_LEFT, 1),
    ):
        reader.find("#picture").send_keys(key)
        assert reader.text("#cell").startswith(cells[cell])
    heights = reader.run("return document.getElementById('picture').data[0].y")
    assert heights == pytest.approx([0.09, 0.11, 0.39, 0.41, 0.98, 1.0])
    assert reader.layout("#picture", "yaxis.range") == pytest.approx([0.0, 1.0])
    assert reader.complaints() == []


def test_the_slider_replays_the_growth(reader: Reader) -> None:
    cells = [len(frame.q) for frame in FRAMES_OF_FIRST]
    drawn = "return document.getElementById('picture').data[1].x.length / 4 - 1"
    assert (cells[0], cells[-1]) == (1, 352)
    assert reader.text("#when") == "iteration 5,000 of 5,000, 352 cells"
    ranges = [reader.layout("#picture", path) for path in ("xaxis.range", "yaxis.range")]
    colours = "const h = document.getElementById('picture').data[0]; return [h.zmin, h.zmax]"
    limits = reader.run(colours)

    reader.slide(0)
    reader.wait(lambda: reader.run(drawn) == 1)
    assert reader.text("#when") == "iteration 1 of 5,000, 1 cell"
    assert [reader.layout("#picture", path) for path in ("xaxis.range", "yaxis.range")] == ranges
    assert reader.run(colours) == limits

    reader.slide(FRAMES - 1)
    reader.wait(lambda: reader.run(drawn) == cells[-1])
    reader.find("#play").click()  # at the end: from the start again
    assert reader.text("#play") == "Pause"
    reader.wait(lambda: 2 <= int(reader.run("return document.getElementById('moment').value")) < FRAMES - 1)
    reader.find("#play").click()
    assert reader.text("#play") == "Play"
    stopped = reader.run("return document.getElementById('moment').value")
    reader.wait(lambda: reader.run(drawn) == cells[int(stopped)])

    deepest = int(FRAMES_OF_FIRST[-1].depth.max())
    for field, high in (("visits", math.log10(4**deepest)), ("depth", deepest)):
        Select(reader.find("#colour")).select_by_value(field)
        assert reader.run(colours) == [0, pytest.approx(high)]
    Select(reader.find("#partition")).select_by_visible_text("Partition 2")
    assert reader.text("#when") == "iteration 5,000 of 5,000, 352 cells"


def test_a_frame_is_drawn_at_once(reader: Reader) -> None:
    times = reader.driver.execute_async_script(
        """
        const done = arguments[arguments.length - 1], slider = document.getElementById("moment"), times = [];
        const step = (frame) => {
          if (frame > Number(slider.max)) return done(times);
          slider.value = frame;
          slider.dispatchEvent(new Event("input"));
          // The page draws in the next frame of the screen, before this callback of the same frame.
          requestAnimationFrame((start) => { times.push(performance.now() - start); step(frame + 1); });
        };
        step(0);
        """
    )
    assert len(times) == FRAMES
    assert np.median(times) < 250  # milliseconds; a fifth of it on a usual machine, but slow and busy ones pass too


def test_light_and_dark(reader: Reader) -> None:
    def paper() -> str:
        channels = reader.run("return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
        return "#" + "".join(f"{channel:02x}" for channel in channels)

    def drawn() -> set[str]:
        return {reader.layout(plot, "paper_bgcolor") for plot in ("#case-chart-0 .plot", "#picture")}

    assert drawn() == {paper()} == {"#ffffff"}
    reader.emulate(prefers_color_scheme="dark")
    reader.wait(lambda: drawn() == {paper()} == {"#16181b"})
    line = "return document.querySelector('#case-chart-0 .plot').data[1].line.color"
    assert reader.run(line) == style.DARK["#0072B2"]
    for name, colour in (("light", "#ffffff"), ("dark", "#16181b"), ("automatic", "#16181b")):
        reader.find("#theme").click()
        assert reader.text("#theme") == f"Colours: {name}"
        assert drawn() == {paper()} == {colour}


def test_a_phone_does_not_scroll_sideways(reader: Reader) -> None:
    reader.resize(360, 780, mobile=True)
    reader.open()
    widths = reader.run("return [document.scrollingElement.scrollWidth, innerWidth, visualViewport.width]")
    assert widths == [360, 360, 360]
    assert reader.run("return document.querySelector('.scroll').scrollWidth") > 328  # the table scrolls by itself
    assert reader.layout("#case-chart-0 .plot", "width") <= 328
    assert reader.layout("#case-chart-0 .plot", "_size.h") >= 150
    reader.run("document.getElementById('picture').scrollIntoView({block: 'center'})")
    x, y = reader.place(0.01, 0.01)
    touch = {"x": round(x), "y": round(y)}
    reader.driver.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [touch]})
    reader.driver.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    reader.wait(lambda: reader.text("#cell").startswith("state 0 to "))


def test_the_first_column_stays_while_a_table_scrolls(reader: Reader) -> None:
    reader.resize(360, 780, mobile=True)
    reader.open()
    heads = (
        "const box = document.querySelector('#tables .scroll'); box.scrollLeft = arguments[0];"
        "const edge = box.getBoundingClientRect().left;"
        "return [...box.querySelectorAll('th[scope=row], thead th:first-child')].map((head) => {"
        "  const place = head.getBoundingClientRect();"
        "  return [Math.round(place.left - edge), place.width, getComputedStyle(head).backgroundColor]; })"
    )
    for scrolled in (0, 9999):
        places = reader.run(heads, scrolled)
        assert len(places) == 3
        for left, width, ground in places:
            assert left == 0
            assert width < 180  # room for the numbers beside it
            assert ground == "rgb(255, 255, 255)"  # hides what scrolls under it
    assert reader.run("return document.querySelector('#tables .scroll').scrollLeft") > 0
    shadows = reader.run("return getComputedStyle(document.querySelector('#tables .scroll')).backgroundAttachment")
    assert shadows == "local, local, scroll, scroll"  # covers that move with the table, over shadows that do not


def test_an_address_leads_to_its_problem(reader: Reader) -> None:
    reader.open("#nasty&steps")
    assert reader.text("#case-title") == NASTY
    assert reader.find("#case").get_attribute("value") == "nasty"
    assert reader.find("input[value=steps]").is_selected()
    assert reader.layout("#case-chart-0 .plot", "xaxis.title.text") == "environment steps"
    reader.run("location.hash = '#ambulance'")
    reader.wait(lambda: reader.text("#case-title") == "ambulance, Beta")
    assert reader.find("input[value=iterations]").is_selected()
    reader.run("location.hash = '#findings'")
    reader.wait(lambda: reader.run("return document.querySelector('#bias .plot').data?.length") == 1)
    assert reader.text("#case-title") == "ambulance, Beta"


def test_print_is_light_and_whole(reader: Reader) -> None:
    reader.emulate(prefers_color_scheme="dark")
    findings = "return [...document.querySelectorAll('article .plot')].map((plot) => plot.data?.length ?? 0)"
    assert reader.run(findings) == [0, 0]
    reader.emulate("print", prefers_color_scheme="dark")
    reader.wait(lambda: reader.run(findings) == [1, 1])
    for selector in (".controls", "#theme", "nav", ".numbers"):
        assert not reader.find(selector).is_displayed(), selector
    assert reader.layout("#case-chart-0 .plot", "paper_bgcolor") == "#ffffff"
    assert reader.layout("#case-chart-0 .plot", "width") == 640
    reader.emulate(prefers_color_scheme="dark")
    reader.wait(lambda: reader.layout("#case-chart-0 .plot", "paper_bgcolor") == "#16181b")
    assert reader.layout("#case-chart-0 .plot", "width") < 640

    reader.open()
    pdf = reader.driver.execute_cdp_cmd("Page.printToPDF", {"landscape": True})
    assert base64.b64decode(pdf["data"]).startswith(b"%PDF")
    assert reader.run(findings) == [1, 1]


def test_the_policy_is_in_force(driver: webdriver.Chrome, address: str) -> None:
    reader = Reader(driver, address)
    reader.open()
    blocked = reader.driver.execute_async_script(
        """
        const done = arguments[arguments.length - 1], seen = [];
        addEventListener("securitypolicyviolation", (event) => {
          seen.push(event.effectiveDirective);
          if (seen.length === 3) done(seen.sort());
        });
        fetch("data:text/plain,hello").catch(() => {});
        document.body.append(Object.assign(new Image(), { src: "http://localhost:9/picture.png" }));
        const script = document.createElement("script");
        document.body.append(Object.assign(script, { textContent: "window.injected = true" }));
        """
    )
    assert blocked == ["connect-src", "img-src", "script-src-elem"]
    assert reader.run("return window.injected ?? null") is None
    reader.complaints()  # it did complain, and rightly
