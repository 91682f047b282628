"""The page of an agent: what is in the file, and what a reader sees of it in a real browser."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from numba.core import config
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

import browsers
import spaql
from partitions_for_tests import plant
from problems_for_tests import box_world
from spaql.agents import Agent
from spaql.agents.inspection import make_page
from spaql.cli import main
from spaql.errors import NotTrainedError, ParameterError
from spaql.viz.inspector import pack

NASTY = "</script><b>bold</b> \"quoted\" 'single' & {{title}} <!-- \u2028 \u00e9"


class Weather(gymnasium.Env[Any, Any]):
    """An angle that comes round, a whole number and one without bounds; two whole numbers to choose."""

    observation_space = gymnasium.spaces.Dict(
        {
            "angle": gymnasium.spaces.Box(-3.0, 3.0, (1,), np.float32),
            "count": gymnasium.spaces.Discrete(5),
            "wind": gymnasium.spaces.Box(-np.inf, np.inf, (1,)),
        }
    )
    action_space = gymnasium.spaces.MultiDiscrete([3, 2])
    broken = False

    def _seen(self) -> Any:
        self.angle = float(self.np_random.uniform(-3.0, 3.0))
        wind = self.np_random.normal(size=1)
        return {"angle": np.array([self.angle], np.float32), "count": int(self.np_random.integers(5)), "wind": wind}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        if Weather.broken:
            raise RuntimeError("no weather today\nnor tomorrow")
        self.steps = 0
        return self._seen(), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        reward = 1.0 - abs(int(action[0]) - (self.angle > -1) - (self.angle > 1)) - 0.1 * int(action[1])
        return self._seen(), reward, False, self.steps == 10, {}


@pytest.fixture(scope="module")
def agents() -> dict[str, Agent]:
    return {
        "cartpole": spaql.Tessera("cartpole", seed=3).learn(total_timesteps=500 if config.DISABLE_JIT else 2500),
        "oil": spaql.SPAQL("oil", seed=1, rollouts=2).learn(iterations=100),
        "aql": spaql.AQL("oil", seed=1, rollouts=0).learn(iterations=150),
        "box": spaql.SPAQL(box_world()[0], seed=1, rollouts=2).learn(iterations=150),
        "weather": spaql.Tessera(Weather, seed=1, periodic=["angle"], horizon=10).learn(iterations=60),
        "tree": plant(Weather, 40, periodic=["angle"], horizon=10),
        "steps": plant("oil", 10, near=0.0),
    }


@pytest.fixture(scope="module")
def pages(agents: dict[str, Agent], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    agents["cartpole"].record_evaluation(agents["cartpole"].evaluate(10))
    made = {
        "cartpole": make_page([agents["cartpole"]]),
        "pair": make_page([agents["oil"], agents["aql"]]),
        "box": make_page([agents["box"]]),
        "tree": make_page([agents["tree"]]),
        "steps": make_page([agents["steps"]]),
        "mixed": make_page([agents["cartpole"], agents["oil"]]),
        "weather": make_page([agents["weather"]], names=[NASTY, "count", "wind"], actions=[NASTY, *"bcdef"]),
    }
    for name, text in made.items():
        (folder / f"{name}.html").write_text(text, "utf-8")
    return {name: folder / f"{name}.html" for name in made}


# The file


class Outline(HTMLParser):
    """Text outside scripts and styles, and tags."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text, self.tags, self.inside = "", [], ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.inside = tag

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside not in ("script", "style"):
            self.text += data


def test_words_can_be_read_without_scripts(pages: dict[str, Path], agents: dict[str, Agent]) -> None:
    text = Outline(pages["cartpole"].read_text("utf-8")).text
    agent = agents["cartpole"]
    cells = len(agent.cells())  # one without the JIT, where the agent learns little
    for words in (
        "Tessera on cartpole",
        "one cell" if cells == 1 else f"{cells:,} cells",
        f"{agent.training_steps:,}",
        "angular velocity",
        "0.25",
    ):
        assert words in text
    score = agent.recorded_evaluation
    assert score is not None
    assert f"{score['mean']:.5g} (95% interval {score['low']:.5g} to {score['high']:.5g}, 10 episodes)" in text
    for found in agents["oil"].diagnose():
        assert str(found) in Outline(pages["mixed"].read_text("utf-8")).text


def test_accuracy_of_the_learned_model(pages: dict[str, Path], agents: dict[str, Agent]) -> None:
    text = Outline(pages["cartpole"].read_text("utf-8")).text
    model = agents["cartpole"].model
    assert model is not None
    table = model.table()
    for words in ("The learned model", table.caption, table.note, *(str(cell) for row in table.rows for cell in row)):
        assert words in text
    assert "The learned model" not in Outline(pages["pair"].read_text("utf-8")).text  # of agents without one


def test_hostile_names_stay_in_their_place(pages: dict[str, Path]) -> None:
    outline = Outline(pages["weather"].read_text("utf-8"))
    assert outline.tags.count("script") == 2
    assert "b" not in outline.tags
    assert NASTY in outline.text


def test_the_same_agent_gives_the_same_bytes(agents: dict[str, Agent]) -> None:
    assert make_page([agents["oil"]], seed=3) == make_page([agents["oil"]], seed=3)


def test_numbers_travel_exactly() -> None:
    import base64

    for values, name in (
        ([0, 255], "uint8"),
        ([-1, 255], "int16"),
        ([-1, 70_000], "int32"),
        ([0.5, 0.25], "float32"),
        ([0.1, 1e300], "float64"),
    ):
        found = pack(np.array(values))
        assert found["type"] == name
        np.testing.assert_array_equal(np.frombuffer(base64.b64decode(found["data"]), found["type"]), values)


def test_an_environment_that_fails_leaves_a_page_that_says_so(
    agents: dict[str, Agent], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Weather, "broken", True)
    text = Outline(make_page([agents["weather"]])).text
    assert "could not be played (RuntimeError: no weather today), so that the diagnosis may be incomplete" in text


def test_who_has_nothing_to_show_says_so(agents: dict[str, Agent]) -> None:
    with pytest.raises(ParameterError, match="Random has no partition to read"):
        make_page([spaql.Random("oil")])
    with pytest.raises(NotTrainedError):
        make_page([spaql.Tessera("oil")])
    with pytest.raises(ParameterError, match="one agent, or two side by side, got 3"):
        make_page([agents["oil"]] * 3)


# The command


def run(capsys: pytest.CaptureFixture[str], *words: Any) -> tuple[int, str, str]:
    code = main([str(word) for word in words])
    return code, *capsys.readouterr()


def test_the_command_writes_the_page_beside_the_agent(
    agents: dict[str, Agent], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    first, second = agents["oil"].save(folder / "agent.spaql"), agents["aql"].save(tmp_path / "other.spaql")
    code, out, _ = run(capsys, "show", folder)
    assert code == 0
    assert f"100 iterations, 500 training steps, {len(agents['oil'].cells())} cells" in out
    assert out.endswith(f"wrote {folder / 'run.html'}\n")
    assert (folder / "run.html").read_text("utf-8").startswith("<!doctype html>")
    assert run(capsys, "show", first, second, "--no-open")[0] == 0
    assert (folder / "agent-other.html").exists()
    assert run(capsys, "show", second, "--out", tmp_path / "sub" / "x.html")[0] == 0
    assert (tmp_path / "sub" / "x.html").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other.spaql", "run", "sub"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["a", "b", "c"], "at most two side by side, got 3"),
        (["a", "b", "--record"], "an episode is recorded of one agent, got 2"),
        (["a", "--record", "--out", "x.html"], "--out: it names the page"),
        (["nowhere"], "nowhere"),
    ],
)
def test_bad_commands_are_one_sentence(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "show", *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_a_browser_opens_only_for_a_person(
    agents: dict[str, Agent], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    path = agents["oil"].save(tmp_path / "a.spaql")
    monkeypatch.setattr("webbrowser.open", lambda address: opened.append(address) or False)
    run(capsys, "show", path)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    run(capsys, "show", path, "--no-open")
    assert opened == []
    _, _, err = run(capsys, "show", path)
    assert opened == [(tmp_path / "a.html").as_uri()]
    assert "no browser was found" in err


# The page in a browser


class Reader(browsers.Reader):
    """A browser with an agent's page open, and what a reader does with it."""

    def pixels(self, which: int = 0) -> list[int]:
        """A sample of the colours of a picture."""
        return list(
            self.run(
                "const c = document.querySelectorAll('canvas')[arguments[0]];"
                "const copy = Object.assign(document.createElement('canvas'), {width: c.width, height: c.height});"
                "const context = copy.getContext('2d', {willReadFrequently: true}); context.drawImage(c, 0, 0);"
                "const d = context.getImageData(0, 0, c.width, c.height).data;"
                "return Array.from({length: 3000}, (_, i) => d[4 * Math.floor(i * d.length / 12000) + i % 3])",
                which,
            )
        )

    def choose(self, label: str, value: str) -> None:
        """Choose an option of a field by its label."""
        self.run(
            "const l = [...document.querySelectorAll('.field > label')].find((l) => l.textContent === arguments[0]);"
            "const s = document.getElementById(l.htmlFor); s.value = arguments[1];"
            "s.dispatchEvent(new Event(s.type === 'range' ? 'input' : 'change', {bubbles: true}))",
            label,
            value,
        )

    def ask(self, values: Any) -> None:
        """Type a state."""
        self.run(
            "const f = [...document.querySelectorAll('.point input')];"
            "arguments[0].forEach((v, d) => { f[d].value = v; f[d].dispatchEvent(new Event('change')); })",
            [repr(float(value)) for value in values],
        )

    def told(self, which: int = 0) -> dict[str, Any]:
        """What the explanation says, for programs."""
        data = self.run("return {...document.querySelectorAll('.explanation')[arguments[0]].dataset}", which)
        return {name: json.loads(text) if text != "Infinity" else None for name, text in data.items()}


@pytest.fixture
def open_page(driver: webdriver.Chrome, pages: dict[str, Path]) -> Iterator[Callable[..., Reader]]:
    """Opens a page; after the test, it must have asked for nothing and complained about nothing."""
    opened: list[Reader] = []

    def open_it(name: str, width: int = 1280, mobile: bool = False, **features: str) -> Reader:
        reader = Reader(driver, pages[name].as_uri())
        reader.emulate(**features)
        reader.resize(width, mobile=mobile)
        reader.open()
        opened.append(reader)
        return reader

    yield open_it
    for reader in opened[:1]:
        assert reader.complaints() == []
        assert {url.split(":")[0] for url in reader.requests()} <= {"file", "data"}


@pytest.mark.compiled_only  # with next to no effort for planning the tree has one leaf
def test_layers_and_slices_are_drawn(open_page: Callable[..., Reader]) -> None:
    reader = open_page("cartpole")
    seen = [reader.pixels()]
    for layer in ("q", "visits", "depth", "uncertainty"):
        reader.choose("Colour shows", layer)
        seen.append(reader.pixels())
        assert reader.run("return document.querySelectorAll('.bar').length") == 1
    assert len({tuple(pixels) for pixels in seen}) == 5
    assert min(len(set(pixels)) for pixels in seen) > 3
    reader.choose("Colour shows", "policy")
    assert reader.pixels() == seen[0]
    legend = reader.run("return [...document.querySelectorAll('.legend li')].map((item) => item.textContent)")
    assert legend[:2] == ["push left", "push right"]
    assert legend[2] == "black outline: the cell that decides at the cross"
    hidden = reader.run("return [...document.querySelectorAll('.slide label')].map((l) => l.textContent)")
    slices = [label for label in hidden if label.endswith("fixed at")]
    assert len(slices) == 2
    changed = 0
    for label in slices:
        for value in (0, 130, 400, 512):
            reader.choose(label, str(value))
            changed += reader.pixels() != seen[0]
    assert changed
    reader.choose("Other dimensions", "projection")
    assert reader.run("return document.querySelector('canvas').dataset.tiles") == str(64 * 64)
    reader.choose("Across", "0")
    assert "position" in reader.run("return document.querySelectorAll('select')[1].selectedOptions[0].textContent")


def compare(reader: Reader, agent: Agent, values: Any, step: int = 0, which: int = 0) -> None:
    """The page and Python agree about a state, to the last bit."""
    policy = agent._policy()
    states = agent.problem.states
    unit = np.clip(states.to_unit(np.asarray(values)), 0.0, 1.0)[None]
    for at in getattr(agent.problem, "periodic", ()):
        unit[:, at] = unit[:, at] - np.floor(unit[:, at])
    cell = int(policy.greedy(unit, np.array([step]))[0])
    told = reader.told(which)
    low, high = policy.node_boxes()
    node = policy.forest.cells["node"][cell]
    assert told["q"] == policy.forest.cells["q"][cell]
    assert told["visits"] == policy.forest.cells["visits"][cell]
    np.testing.assert_array_equal(told["low"], states.from_unit(low[node]))
    np.testing.assert_array_equal(told["high"], states.from_unit(high[node]))
    box = policy.forest.boxes[cell]
    played = agent.problem.decode(agent.problem.actions.from_unit(box.mean(axis=0)[None]), False)
    np.testing.assert_array_equal(told["action"], np.asarray(played, float).reshape(-1))
    scaling = getattr(agent, "scaling", None)
    visits = int(policy.forest.cells["visits"][cell])
    assert told["bonus"] == (None if scaling is None or not visits else pytest.approx(scaling / visits**0.5))
    cells = policy.forest.cells[: len(policy)]
    inside = (low <= unit[0]) & ((unit[0] < high) | (high == 1.0))
    rivals = np.flatnonzero((cells["root"] == step) & inside[cells["node"]].all(axis=1))
    expected = sorted((float(cells["q"][other]) for other in rivals if other != cell), reverse=True)
    assert told["rivals"] == expected


def points_of(agent: Agent, count: int) -> Any:
    """States of which many lie on borders."""
    random = np.random.default_rng(0)
    tree, states = agent.tree(), agent.problem.states
    unit = random.random((count, states.dimensions))
    if len(tree.cuts):
        unit = np.where(random.random(unit.shape) < 0.5, unit, random.choice(tree.cuts, unit.shape))
    values = states.from_unit(unit)
    values[0], values[1] = states.low, states.high
    return values


@pytest.mark.parametrize("name", ["cartpole", "box", "weather"])
def test_explanations_agree_with_python(open_page: Callable[..., Reader], agents: dict[str, Agent], name: str) -> None:
    reader, agent = open_page(name), agents[name]
    for values in points_of(agent, 25):
        reader.ask(values)
        compare(reader, agent, values)
    assert ("Runners-up" in reader.text(".explanation")) == (name == "box")


@pytest.mark.parametrize("name", ["tree", "steps"])
def test_a_tree_with_one_action_per_leaf(open_page: Callable[..., Reader], agents: dict[str, Agent], name: str) -> None:
    reader, agent = open_page(name), agents[name]
    assert len(agent.cells()) > 5
    for values in points_of(agent, 25):
        reader.ask(values)
        compare(reader, agent, values)
        text = reader.text(".explanation")
        assert "The middle of" not in text
        assert "No other cell is relevant here." in text
    if name == "steps":
        assert reader.run("return document.querySelector('canvas').dataset.tiles") == str(len(agent.cells()))
        spans = reader.run("return [...document.querySelectorAll('.legend li')].map((item) => item.textContent)")
        assert spans[1] == "black outline: the cell that decides at the line"


def test_beyond_a_border_is_what_is_done_there(open_page: Callable[..., Reader], agents: dict[str, Agent]) -> None:
    reader, agent = open_page("cartpole"), agents["cartpole"]
    values = agent.problem.states.from_unit(np.array([0.51, 0.49, 0.52, 0.47]))
    reader.ask(values)
    told, expected = reader.told(), []
    for d in range(4):
        for side, edge in (("low", -1), ("high", 1)):
            moved = values.copy()
            border = told[side][d]
            end = agent.problem.states.low[d] if edge < 0 else agent.problem.states.high[d]
            moved[d] = border + edge * 1e-9
            expected.append(None if border == end else [int(agent.predict(moved)[0])])
    assert told["beyond"] == expected


def test_time_steps_have_their_own_policy(open_page: Callable[..., Reader], agents: dict[str, Agent]) -> None:
    reader = open_page("pair")
    for step in range(5):
        reader.choose("Time step", str(step))
        for values in points_of(agents["aql"], 5):
            reader.ask(values)
            compare(reader, agents["aql"], values, step, which=1)
            compare(reader, agents["oil"], values, which=0)


def test_each_number_of_an_action_can_be_seen(open_page: Callable[..., Reader]) -> None:
    reader = open_page("box")
    first = reader.pixels()
    reader.choose("Action dimension", "1")
    assert reader.pixels() != first
    assert reader.text(".legend-title") == "action[1] of the greedy policy"
    assert "The middle of its cell's action[0] " in reader.text(".explanation .facts")


def test_a_click_explains_the_state_under_it(open_page: Callable[..., Reader], agents: dict[str, Agent]) -> None:
    reader = open_page("cartpole")
    reader.run("document.querySelector('canvas').scrollIntoView({block: 'center'})")
    left, top = reader.run("const r = document.querySelector('canvas').getBoundingClientRect(); return [r.left, r.top]")
    actions = ActionChains(reader.driver, duration=0)
    for shift in (0, 2):  # a mouse that comes from nowhere has not moved
        actions.w3c_actions.pointer_action.move_to_location(round(left) + 300 + shift, round(top) + 100)
    actions.perform()
    reader.wait(lambda: "Q " in reader.text(".reading output"))
    actions = ActionChains(reader.driver, duration=0)
    actions.w3c_actions.pointer_action.click()
    actions.perform()
    values = [float(v) for v in reader.run("return [...document.querySelectorAll('.point input')].map((i) => i.value)")]
    start = agents["cartpole"].problem.states
    assert (np.array(values) >= start.low).all()
    assert (np.array(values) <= start.high).all()
    compare(reader, agents["cartpole"], values)
    assert reader.text(".explanation .done") in ("push left", "push right")


def test_the_keyboard_does_what_the_mouse_does(open_page: Callable[..., Reader], agents: dict[str, Agent]) -> None:
    reader = open_page("cartpole")
    before = reader.run("return [...document.querySelectorAll('.point input')].map((i) => Number(i.value))")
    canvas = reader.find("canvas")
    reader.run("arguments[0].focus()", canvas)
    for key in (Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_UP, Keys.ARROW_LEFT):
        canvas.send_keys(key)
    canvas.send_keys(Keys.SHIFT + Keys.ARROW_UP)
    assert ":" in reader.text(".reading output")
    assert reader.run("return [...document.querySelectorAll('.point input')].map((i) => Number(i.value))") == before
    canvas.send_keys(Keys.ENTER)
    after = np.array(reader.run("return [...document.querySelectorAll('.point input')].map((i) => Number(i.value))"))
    states = agents["cartpole"].problem.states
    moved = (after - before) / (states.high - states.low) * 64
    assert sorted(np.round(moved, 3).tolist()) == [0, 0, 1, 9]
    compare(reader, agents["cartpole"], after)


def test_the_episode_can_be_followed(open_page: Callable[..., Reader], agents: dict[str, Agent]) -> None:
    reader = open_page("cartpole")
    start, pixels = reader.text(".episode .reading"), reader.pixels()
    assert start.startswith("the start; then: push")
    reader.choose("Time in the episode", "5")
    assert "return so far 5" in reader.text(".episode .reading")
    assert reader.run("return document.querySelector('.explanation').dataset.q")
    asked = reader.run("return [...document.querySelectorAll('.point input')].map((i) => i.value)")
    reader.run("document.querySelector('.episode input[type=checkbox]').click()")
    assert reader.run("return [...document.querySelectorAll('.point input')].map((i) => i.value)") != asked
    reader.run("document.querySelector('.episode button').click()")
    reader.wait(lambda: "return so far 5;" not in reader.text(".episode .reading"))
    reader.run("document.querySelector('.episode button').click()")
    assert reader.pixels() != pixels


def test_the_page_fits_a_phone_in_the_dark(open_page: Callable[..., Reader]) -> None:
    for name in ("cartpole", "pair", "mixed", "weather"):
        reader = open_page(name, width=360, mobile=True, prefers_color_scheme="dark", prefers_reduced_motion="reduce")
        assert reader.run("return document.documentElement.scrollWidth") <= 360
        assert reader.run("return getComputedStyle(document.body).backgroundColor") == "rgb(22, 24, 27)"
        corner = (
            "const c = document.querySelector('canvas').getContext('2d'); return [...c.getImageData(1, 1, 1, 1).data]"
        )
        assert reader.run(corner) == [22, 24, 27, 255]
        assert reader.run("return document.querySelector('.episode button').hidden")
    reader.run("document.getElementById('theme').click()")
    assert reader.pixels()[:3] == [255, 255, 255]


def test_two_agents_share_controls_where_they_can(open_page: Callable[..., Reader]) -> None:
    reader = open_page("mixed")
    assert reader.run("return document.querySelectorAll('.panel').length") == 2
    assert reader.run("return [...document.querySelectorAll('#panels h3')].map((h) => h.textContent)") == [
        "Tessera on cartpole",
        "SPAQL on oil laplace 10",
    ]
    reader = open_page("pair")
    assert reader.run("return document.querySelectorAll('.panel').length") == 1
    assert reader.run("return document.querySelectorAll('canvas').length") == 2
    both = reader.pixels(0), reader.pixels(1)
    assert both[0] != both[1]
    reader.choose("Colour shows", "depth")
    assert (reader.pixels(0) != both[0]) == (reader.pixels(1) != both[1]) is True
    assert reader.run("return document.querySelectorAll('#charts svg polyline').length") == 6


def test_everything_has_a_name(open_page: Callable[..., Reader]) -> None:
    reader = open_page("weather")
    assert (
        reader.run(
            "return [...document.querySelectorAll('select, input, button, canvas, [role=region], [role=img]')].filter("
            "(node) => !(node.labels?.length || node.textContent.trim() || node.getAttribute('aria-label')))"
            ".map((node) => node.outerHTML.slice(0, 100))"
        )
        == []
    )
    ids = reader.run("return [...document.querySelectorAll('[id]')].map((node) => node.id)")
    assert len(ids) == len(set(ids))
    assert NASTY in reader.text(".point")
    assert NASTY in reader.run("return document.querySelector('select').closest('.controls').textContent")
    assert reader.run("return document.querySelectorAll('main b').length") == 0
