"""What a notebook shows: a kernel executes one, and the fragments of HTML of every object are read."""

import os
import sys
from types import SimpleNamespace
from xml.etree import ElementTree

import nbclient
import nbformat
import numpy as np
import pytest
from matplotlib.figure import Figure

import spaql
from docs_for_tests import run_page
from problems_for_tests import box_world, finite_world
from spaql import algorithms, notebook
from spaql.agents import progress
from spaql.agents.history import History
from spaql.errors import ParameterError
from spaql.formatting import Bold, Table
from spaql.stats import mean_interval
from spaql.studies.study import Report
from spaql.studies.sweep.comparison_table import compare
from spaql.studies.sweep.group_values import read_values
from spaql.viz.charts import Chart, Series
from spaql.viz.figures import chart

pytestmark = pytest.mark.tiny_planning

CELLS = {
    "learn": """
import time, spaql
waited = []
agent = spaql.Tessera("cartpole", seed=0).learn(600, callback=lambda agent: waited or waited.append(time.sleep(0.7)))
""",
    "agent": "agent",
    "problem": "agent.problem",
    "evaluation": "agent.evaluate(episodes=5)",
    "explanation": "agent.explain([0.0, 0.5, 0.05, -0.3])",
    "rules": "agent.rules()",
    "model": "agent.model",
    "history": "agent.history",
    "frame": "agent.history.to_pandas()",
    "plot": "agent.plot()",
    "quiet": "import sys; agent.learn(600, progress_bar=False); print('matplotlib.pyplot' in sys.modules)",
    "with pyplot": "import matplotlib.pyplot; agent.plot()",
}


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """The outputs of each cell of an executed notebook."""
    cells = [nbformat.v4.new_code_cell(source.strip(), id=name.replace(" ", "-")) for name, source in CELLS.items()]
    book = nbformat.v4.new_notebook(cells=cells)
    here = os.path.dirname(__file__)
    paths = [os.path.join(here, "children"), here, *filter(None, [os.environ.get("PYTHONPATH")])]
    folder = tmp_path_factory.mktemp("jupyter")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(paths))  # plans with little effort, as here
        patch.setenv("JUPYTER_PLATFORM_DIRS", "1")
        for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
            patch.setenv(name, str(folder / name))
        nbclient.NotebookClient(book, timeout=300, kernel_name="python3").execute()
    return {name: cell.outputs for name, cell in zip(CELLS, book.cells, strict=True)}


def result_of(outputs, name):
    """The only result of a cell."""
    [result] = [output for output in outputs[name] if output.output_type in ("execute_result", "display_data")]
    return result


def printed_by(outputs, name, stream="stdout"):
    return "".join(output.text for output in outputs[name] if output.get("name") == stream)


def test_a_notebook_shows_progress(outputs):
    assert "Tessera on cartpole:" in printed_by(outputs, "learn")
    assert "Tqdm" not in printed_by(outputs, "learn", "stderr")  # no warning that there is no ipywidgets
    assert printed_by(outputs, "quiet") == "False\n"  # no bar, and nothing needed pyplot


@pytest.mark.parametrize(
    ("cell", "text"),
    {
        "agent": "Tessera on cartpole",
        "problem": "angular velocity",
        "evaluation": "5 new episodes",
        "explanation": "All else equal:",
        "rules": "otherwise",
        "model": "RMSE",
        "history": "timesteps",
        "frame": "timesteps",
    }.items(),
)
def test_a_notebook_shows_objects_as_html(outputs, cell, text):
    html = result_of(outputs, cell).data["text/html"]
    assert text in html
    assert "temperature" not in html  # Tessera has none


def test_a_notebook_shows_the_policy_as_a_picture(outputs):
    for cell in ("plot", "with pyplot"):
        result = result_of(outputs, cell)
        assert result.data["image/png"].startswith("iVBOR")  # a PNG in base64
        assert result.metadata["image/png"] == {"width": 672, "height": 499}


@pytest.mark.compiled_only
def test_the_page_runs():
    assert run_page("how-to/notebook.md")["frame"].columns.tolist() == ["timesteps", "training_return", "cells"]


# Fragments of HTML --------------------------------------------------------------------------------------------------


EVIL = "<script>alert(1)</script> & \"'"


def read(html):
    """Parse a fragment, and return its text and its tags."""
    root = ElementTree.fromstring(html)
    tags = {element.tag for element in root.iter()}
    assert tags <= {"div", "p", "br", "table", "thead", "tbody", "tr", "th", "td", "svg", "rect"}
    names = {name for element in root.iter() for name in element.attrib}
    assert names <= {"style", "colspan", "x", "y", "width", "height"}
    assert "url" not in html
    assert "http" not in html
    return "".join(root.itertext())


@pytest.fixture(scope="module")
def trained():
    return spaql.SPAQL(box_world()[0], seed=1, rollouts=2).learn(iterations=40)


def test_all_objects_are_well_formed_and_safe(trained):
    agent = trained
    names = [EVIL, *(f"number {d}" for d in range(1, agent.problem.states.dimensions))]
    point = agent.problem.states.from_unit(np.full(agent.problem.states.dimensions, 0.5))
    texts = [read(part._repr_html_()) for part in (agent.explain(point, names=names), agent.rules(names=names))]
    assert EVIL in texts[0]
    for part in (agent, agent.problem, agent.evaluate(20), agent.history, spaql.Tessera(finite_world()[0]).problem):
        read(part._repr_html_())
    assert "iterations" in read(agent._repr_html_())
    assert "nothing to learn" in read(spaql.Random("oil")._repr_html_())
    assert "not yet" in read(spaql.AQL("oil")._repr_html_())
    assert read(spaql.AQL("oil").history._repr_html_()) == "History of 0 iterations"


def test_a_recorded_evaluation_is_shown(trained):
    evaluation = trained.evaluate(10)
    assert "10 episodes" in read(trained.record_evaluation(evaluation)._repr_html_())


def test_regret_is_shown():
    agents = [spaql.AQL("oil", rollouts=0, seed=seed).learn(iterations=20) for seed in range(2)]
    text = read(spaql.regret(agents)._repr_html_())
    assert "Regret of 2 agents" in text
    assert "slope" in text


def test_tables_and_reports_are_escaped_and_cut():
    rows = [[f"row {k}", Bold(EVIL), k] for k in range(150)]
    table = Table(["name", EVIL, "n"], rows, caption=EVIL, note="how to read it")
    for part in (table, Report("sweep", EVIL, "a subtitle", [EVIL], [table], EVIL)):
        text = read(part._repr_html_())
        assert text.count(EVIL) >= 102
        assert "and 50 more rows" in text
    sections = Table(["problem", "agent", "n"], [["a", "x", "1"], ["a", "y", "2"]], left=2, sections=True)
    assert read(sections._repr_html_()) == "agentnax1y2"


def test_an_evaluation_without_spread_has_no_histogram(trained):
    evaluation = trained.evaluate(3)
    assert "<svg" in evaluation._repr_html_()
    equal = type(evaluation)(mean_interval(np.ones(3)), np.ones(3), 3, 0, True, 1)
    assert "<svg" not in equal._repr_html_()


# pandas -------------------------------------------------------------------------------------------------------------


def test_history_becomes_a_frame(trained):
    frame = trained.history.to_pandas()
    assert list(frame.index[[0, -1]]) == [1, 40]
    assert frame.index.name == "iteration"
    assert "monitoring_steps" not in frame
    returns = trained.history["training_return" if "training_return" in trained.history.dtype.names else "score"]
    np.testing.assert_array_equal(frame["training_return"], returns)


def test_history_is_a_structured_array(trained):
    history = trained.history
    assert isinstance(history, History)
    assert type(history["score"]) is type(history[:3]) is np.ndarray
    assert history[-1]["training_steps"] == trained.training_steps
    assert (history == history.copy()).all()
    with pytest.raises(ValueError, match="read-only"):
        history["score"][0] = 1.0


#: columns that may be 0 although the algorithm has them
MAYBE = {"value_low", "resets"}


@pytest.mark.parametrize("name", [name for name, entry in algorithms().items() if entry.learns and entry.built_in])
def test_frames_have_the_columns_of_the_algorithm(name):
    entry = algorithms()[name]
    agent = entry.cls("oil", seed=0, **(entry.example or {})).learn(iterations=60)
    frame = agent.history.to_pandas()
    assert {column for column in frame if not frame[column].any()} <= MAYBE
    assert frame["timesteps"].iloc[-1] == agent.num_timesteps


def test_tables_become_frames():
    frame = Table(["agent", "score", "note"], [["1", Bold("4.21"), "a"], ["2", "", "3"]]).to_pandas()
    assert frame["agent"].tolist() == ["1", "2"]
    assert frame["score"].tolist() == pytest.approx([4.21, np.nan], nan_ok=True)
    assert frame["note"].tolist() == ["a", "3"]
    assert Table(["a", "b"], []).to_pandas().columns.tolist() == ["a", "b"]


def test_comparisons_become_frames(whole):
    comparison = compare(read_values(whole))
    frame = comparison.to_pandas()
    assert len(frame) == len(comparison.rows)
    assert frame["mean"].tolist() == [row.mean for row in comparison.rows]
    assert comparison.rows[0].problem in read(comparison._repr_html_())


def test_missing_pandas_is_one_sentence(trained, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    for part, name in ((trained.history, "history"), (Table(["a"], []), "table")):
        with pytest.raises(ParameterError, match=rf"{name}.to_pandas: pandas is missing; .*spaql\[pandas\]"):
            part.to_pandas()


# Where it is shown --------------------------------------------------------------------------------------------------


def test_progress_is_shown_in_kernels_only(monkeypatch):
    for config, shown in (({"IPKernelApp": {}}, True), ({"TerminalIPythonApp": {}}, False)):
        shell = SimpleNamespace(config=config)
        monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda shell=shell: shell))
        assert notebook.is_notebook() is shown
        assert progress.is_progress_shown(None) is shown
        assert not progress.is_progress_shown(False)
    monkeypatch.delitem(sys.modules, "IPython")
    assert not notebook.is_notebook()


def test_charts_are_pictures_too():
    figure = chart(Chart("title", "x", "y", (Series("a", [0.0, 1.0], [0.0, 1.0]),)))
    content, size = figure._repr_png_()
    assert isinstance(figure, Figure)
    assert content.startswith(b"\x89PNG")
    assert size == {"width": 672, "height": 422}
