"""The page of an agent as something to read, keep and look into: rules, programs, zoom, colours, curves."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import matplotlib.colors
import numpy as np
import pytest
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import browsers
import spaql
from partitions_for_tests import plant
from spaql.agents import Agent, inspection
from spaql.agents.inspection import make_page
from spaql.viz import figures
from spaql.viz.style import DIVERGING
from test_inspector import Weather


@pytest.fixture(scope="module")
def agents() -> dict[str, Agent]:
    made = {
        "weather": plant(Weather, 30, periodic=["angle"], horizon=10),
        "car": plant("mountaincar", 12),
        "pendulum": plant("pendulum", 12),
        "aql": spaql.AQL("oil", seed=1, rollouts=0).learn(iterations=150),
        "spaql": spaql.SPAQL("oil", seed=1, rollouts=2).learn(iterations=50),
    }
    for name in ("aql", "spaql"):
        made[name].record_evaluation(made[name].evaluate(20))
    return made


@pytest.fixture(scope="module")
def pages(agents: dict[str, Agent], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    made = {name: make_page([agent]) for name, agent in agents.items()} | {
        "pair": make_page([agents["spaql"], agents["aql"]])
    }
    for name, text in made.items():
        (folder / f"{name}.html").write_text(text, "utf-8")
    return {name: folder / f"{name}.html" for name in made}


class Tables(HTMLParser):
    """The texts of all cells, by row, in each table of one section."""

    def __init__(self, text: str, section: str) -> None:
        super().__init__()
        self.section, self.inside, self.body, self.tables = section, False, False, []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "section":
            self.inside = dict(attrs).get("id") == self.section
        elif self.inside and tag == "tbody":
            self.body = True
            self.tables.append([])
        elif self.body and tag == "tr":
            self.tables[-1].append([])
        elif self.body and tag in ("th", "td"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        self.body = self.body and tag != "tbody"

    def handle_data(self, data: str) -> None:
        if self.body and self.tables[-1] and self.tables[-1][-1]:
            self.tables[-1][-1][-1] += data.rstrip("\n")

    tables: list[list[list[str]]]


def data_of(page: Path) -> Any:
    return json.loads(re.findall(r'id="data">(.*?)</script>', page.read_text("utf-8"), re.DOTALL)[0])


# Rules and programs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["weather", "car", "spaql"])
def test_the_rules_on_the_page_are_those_of_the_agent(
    agents: dict[str, Agent], pages: dict[str, Path], name: str
) -> None:
    (table,) = Tables(pages[name].read_text("utf-8"), "rules").tables
    assert table == [[str(cell) for cell in row] for row in agents[name].rules().table().rows]
    assert len(table) == len(agents[name].rules())


def test_a_policy_that_changes_with_time_has_rules_for_every_step(
    agents: dict[str, Agent], pages: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = agents["aql"]
    rules = [agent.rules(step=step) for step in range(5)]
    first = [rules[step] for step in dict.fromkeys(each.steps[0] for each in rules)]
    tables = Tables(pages["aql"].read_text("utf-8"), "rules").tables
    assert tables == [[[str(cell) for cell in row] for row in each.table().rows] for each in first]
    monkeypatch.setattr(inspection, "_MOST_RULES", len(rules[0]))
    text = make_page([agent])
    assert len(Tables(text, "rules").tables) == 1
    assert f"the rules of steps {rules[0].steps[1] + 1} to 4 are left out; spaql rules --step prints them." in text


def test_a_policy_too_large_for_rules_says_so(agents: dict[str, Agent], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspection, "_MOST_CELLS", 5)
    text = make_page([agents["car"]])
    count = len(agents["car"].cells())
    assert f"has {count} cells, too many for a list of rules here; spaql rules prints one." in text
    assert 'id="download"' not in text


def test_downloads_are_the_bytes_of_export(agents: dict[str, Agent], pages: dict[str, Path], tmp_path: Path) -> None:
    for name in ("weather", "aql"):
        links = re.findall(r'download="(.*?)" href="(.*?)">(.*?) <span>(.*?)</span>', pages[name].read_text("utf-8"))
        assert [link[0] for link in links] == [link[2] for link in links] == ["policy.py", "policy.c", "policy.json"]
        for file, address, _, size in links:
            written = agents[name].export(tmp_path / file).read_bytes()
            assert base64.b64decode(unescape(address).partition("base64,")[2]) == written
            assert float(size.split()[0]) == pytest.approx(len(written) / (1000 if "kB" in size else 1), abs=0.5)
    assert pages["pair"].read_text("utf-8").count('download="policy.c"') == 2


def test_programs_that_are_too_large_stay_away(agents: dict[str, Agent], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspection, "_LARGEST", 10)
    assert "download=" not in make_page([agents["car"]])


# Words, colours and curves -------------------------------------------------------------------------------------------


def test_words_fit_the_number_of_observations(agents: dict[str, Agent], pages: dict[str, Path]) -> None:
    two, three = pages["car"].read_text("utf-8"), pages["pendulum"].read_text("utf-8")
    assert "The two observed dimensions span the picture." in two
    assert "sliders fix the others" not in two
    assert re.search("Its actions depend on (position|velocity) more than on (position|velocity)", two)
    assert "sliders fix the others" in three
    assert "Its actions depend most on" in three


def test_evaluations_and_training_returns_have_their_own_names(
    agents: dict[str, Agent], pages: dict[str, Path]
) -> None:
    chart = data_of(pages["pair"])["training"][0]
    assert [series["name"] for series in chart["series"]] == [
        "SPAQL: own rollouts",
        "SPAQL: evaluation, 20 new episodes",
        "AQL: training episodes",
        "AQL: evaluation, 20 new episodes",
    ]
    record = agents["aql"].recorded_evaluation
    assert record is not None
    point = chart["series"][3]
    assert point["points"] is True
    assert (point["x"], point["y"]) == ([150], [pytest.approx(record["mean"], rel=1e-5)])
    assert (point["low"], point["high"]) == (
        [pytest.approx(record["low"], rel=1e-5)],
        [pytest.approx(record["high"], rel=1e-5)],
    )
    text = pages["aql"].read_text("utf-8")
    assert f'<strong class="number">{record["mean"]:.5g} [{record["low"]:.5g}, {record["high"]:.5g}]</strong>' in text
    assert "It was not evaluated on new episodes." in pages["car"].read_text("utf-8")
    assert [chart["title"] for chart in data_of(pages["car"])["training"]] == ["Return in training", "Cells"]


def test_signed_actions_diverge_from_zero_in_print(agents: dict[str, Agent]) -> None:
    assert DIVERGING[len(DIVERGING) // 2].lower() == "#f7f7f7"
    low, high = np.array([[0.0, 0.0], [0.5, 0.0], [0.75, 0.0]]), np.array([[0.5, 1.0], [0.75, 1.0], [1.0, 1.0]])
    values = np.array([0.0, -1.0, 3.0])
    drawn = figures.cells(low, high, values, title="", limits=(-1.0, 3.0)).axes[0].collections[0]
    for value, colour in zip((-3.0, 0.0, 3.0), DIVERGING[::2], strict=True):
        assert drawn.to_rgba(value)[:3] == pytest.approx(matplotlib.colors.to_rgb(colour), abs=0.01)
    plain = figures.cells(low, high, values + 1, title="", limits=(0.0, 4.0)).axes[0].collections[0]
    assert plain.get_cmap().name == "viridis"


# In a browser --------------------------------------------------------------------------------------------------------


class Reader(browsers.Reader):
    """A browser with an agent's page open."""

    def shown(self) -> list[list[float]]:
        """Ranges of both axes, once the picture is drawn."""
        self.driver.execute_async_script("const done = arguments[0]; requestAnimationFrame(() => done())")
        return [list(ends) for ends in json.loads(self.run("return document.querySelector('canvas').dataset.shown"))]

    def frame(self) -> tuple[int, int, int, int]:
        """Left, top, width and height of the picture, when it is in the middle of the window."""
        self.run("document.querySelector('canvas').scrollIntoView({block: 'center'})")
        box = self.run(
            "const r = document.querySelector('canvas').getBoundingClientRect();"
            "return [r.left, r.top, r.width, r.height]"
        )
        left, top, width, height = map(round, box)
        return left, top, width, height

    def point_at(self, x: int, y: int) -> None:
        actions = ActionChains(self.driver, duration=0)
        actions.w3c_actions.pointer_action.move_to_location(x, y)
        actions.perform()

    def ask(self, values: Any) -> None:
        self.run(
            "const f = [...document.querySelectorAll('.point input')];"
            "arguments[0].forEach((v, d) => { f[d].value = v; f[d].dispatchEvent(new Event('change')); })",
            [repr(float(value)) for value in values],
        )

    def chosen(self) -> list[str]:
        return list(self.run("return [...document.querySelectorAll('.point input')].map((input) => input.value)"))


@pytest.fixture
def open_page(driver: webdriver.Chrome, pages: dict[str, Path]) -> Iterator[Callable[..., Reader]]:
    opened: list[Reader] = []

    def open_it(name: str, width: int = 1280, mobile: bool = False, **features: str) -> Reader:
        reader = Reader(driver, pages[name].as_uri())
        reader.emulate(**features)
        reader.resize(width, mobile=mobile)
        reader.open()
        opened.append(reader)
        return reader

    yield open_it
    assert opened[0].complaints() == []


@pytest.mark.parametrize("name", ["weather", "aql"])
def test_the_rule_that_decides_is_named_and_marked(
    open_page: Callable[..., Reader], agents: dict[str, Agent], name: str
) -> None:
    reader, agent = open_page(name), agents[name]
    random, states = np.random.default_rng(0), agent.problem.states
    rules = agent.rules()
    met = set()
    for values in states.low + random.random((15, states.dimensions)) * (states.high - states.low):
        values[agent.problem.whole] = np.rint(values[agent.problem.whole])
        reader.ask(values)
        place = int(rules._match(np.array([values]))[0])
        met.add(place)
        assert reader.text(".explanation .rule a") == f"Rule {place + 1} of {len(rules)}"
        marked = "return [...document.querySelectorAll('#rules [aria-current]')].map((r) => r.cells[0].textContent)"
        assert reader.run(marked) == [str(place + 1)]
    assert len(met) >= 3
    if name == "aql":
        reader.run(
            "const s = document.querySelector('.slices input'); s.value = 4; s.dispatchEvent(new Event('input'))"
        )
        assert reader.text(".explanation .rule a").endswith(f"of {len(agent.rules(step=4))}")


def test_the_explanation_stands_beside_the_picture_and_follows_the_mouse(open_page: Callable[..., Reader]) -> None:
    reader = open_page("car")
    boxes = reader.run(
        "return ['canvas', '.explanation'].map((s) => document.querySelector(s).getBoundingClientRect().toJSON())"
    )
    assert boxes[1]["left"] >= boxes[0]["right"]
    assert abs(boxes[1]["top"] - boxes[0]["top"]) < 30
    left, top, width, height = reader.frame()
    chosen, decided = reader.chosen(), reader.text(".explanation .facts")
    for shift in (0, 3):  # a mouse that comes from nowhere has not moved
        reader.point_at(left + width // 4 + shift, top + height // 4)
    reader.wait(lambda: reader.text(".explanation .note") == "Under the mouse")
    assert reader.run("return document.querySelector('.explanation').getAttribute('aria-live')") == "off"
    assert reader.chosen() == chosen
    reader.point_at(5, 5)
    reader.wait(lambda: reader.text(".explanation .note") == "Chosen state")
    assert reader.text(".explanation .facts") == decided


def test_zoom_changes_the_view_and_resets(open_page: Callable[..., Reader]) -> None:
    reader = open_page("car")
    whole = reader.shown()
    zoom_in, zoom_out, reset = reader.driver.find_elements(By.CSS_SELECTOR, ".zoom button")
    assert [button.is_enabled() for button in (zoom_in, zoom_out, reset)] == [True, False, False]
    zoom_in.click()
    closer = reader.shown()
    for (low, high), (first, last) in zip(closer, whole, strict=True):
        assert (high - low) == pytest.approx((last - first) / 1.6)
        assert first <= low < high <= last
    canvas = reader.find("canvas")
    canvas.send_keys("+")
    assert reader.shown()[0][1] - reader.shown()[0][0] == pytest.approx((whole[0][1] - whole[0][0]) / 1.6**2)
    canvas.send_keys("-")
    canvas.send_keys("0")
    assert reader.shown() == whole
    assert not reset.is_enabled()

    left, top, width, height = reader.frame()
    wheel = "document.querySelector('canvas').dispatchEvent(new WheelEvent('wheel', arguments[0]))"
    event = {"deltaY": -150, "clientX": left + width / 2, "clientY": top + height / 2, "cancelable": True}
    reader.run(wheel, event)
    assert reader.shown() == whole  # the wheel alone scrolls the page
    reader.run(wheel, {**event, "ctrlKey": True})
    assert reader.shown()[0][1] - reader.shown()[0][0] == pytest.approx((whole[0][1] - whole[0][0]) / 2)
    before, chosen = reader.shown(), reader.chosen()
    drag = ActionChains(reader.driver, duration=0)
    drag.w3c_actions.pointer_action.move_to_location(left + width // 2, top + height // 2)
    drag.w3c_actions.pointer_action.pointer_down()
    for step in (10, 40):
        drag.w3c_actions.pointer_action.move_to_location(left + width // 2 + step, top + height // 2)
    drag.w3c_actions.pointer_action.pointer_up()
    drag.perform()
    after = reader.shown()
    assert after[0][0] < before[0][0]  # the picture moves along with the mouse
    assert after[0][1] - after[0][0] == pytest.approx(before[0][1] - before[0][0])
    assert after[1] == pytest.approx(before[1])
    assert reader.chosen() == chosen  # dragging chooses nothing
    reset.click()
    assert reader.shown() == whole


def test_the_keys_keep_the_cursor_in_the_picture(open_page: Callable[..., Reader]) -> None:
    reader = open_page("car")
    canvas = reader.find("canvas")
    for _ in range(6):
        canvas.send_keys("+")
    start = reader.shown()[0]
    for _ in range(10):
        canvas.send_keys(Keys.SHIFT + Keys.ARROW_RIGHT)
    canvas.send_keys(Keys.ENTER)
    low, high = reader.shown()[0]
    assert low > start[0]
    assert low <= float(reader.chosen()[0]) <= high


def test_signed_actions_diverge_from_zero_on_the_page(open_page: Callable[..., Reader]) -> None:
    bar = "return getComputedStyle(document.querySelector('.bar')).backgroundImage.match(/rgb\\([^)]*\\)/g)"
    reader = open_page("pendulum")
    colours = reader.run(bar)
    rgb = [tuple(round(255 * channel) for channel in matplotlib.colors.to_rgb(colour)) for colour in DIVERGING]
    assert [colours[0], colours[len(colours) // 2], colours[-1]] == [f"rgb{rgb[at]}" for at in (0, 2, 4)]
    assert reader.run("return [...document.querySelectorAll('.ends span')].map((e) => e.textContent)") == [
        "-2",
        "0",
        "2",
    ]
    assert len(open_page("aql").run(bar)) == 33  # Q is not signed


def test_a_phone_shows_the_explanation_under_the_picture(open_page: Callable[..., Reader]) -> None:
    reader = open_page("pendulum", width=360, mobile=True)
    order = reader.run(
        "return ['canvas', '.explanation', '.slices', '.point'].map("
        "(s) => document.querySelector(s).getBoundingClientRect().top)"
    )
    assert order == sorted(order)
    assert reader.run("return document.documentElement.scrollWidth") == 360
    for selector in (".zoom button", ".downloads a"):
        height = reader.run("return document.querySelector(arguments[0]).getBoundingClientRect().height", selector)
        assert height >= 36
