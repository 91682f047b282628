"""An algorithm and a problem from outside the package, through a sweep and a tuning with everything they write."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path

import pytest
from tests.tabular import TabularQ

import spaql
from spaql.agents import algorithms, register, resolve
from spaql.cli import main
from spaql.runner.execute import execute
from spaql.runner.run_spec import Run
from spaql.runner.store import STORE, Store
from spaql.runner.summary import draw_curve, summarize
from spaql.studies.sweep.comparison_table import compare
from spaql.studies.sweep.group_values import read_values
from spaql.studies.sweep.sweep_report import make_sheets
from spaql.studies.sweep.sweep_study import Sweep
from sweeps_for_tests import fill_with, write_study

STUDY = """
seeds = 2
steps = 200
episodes = 5
points = 2
baseline = "random"

[[problems]]
problem = "oil"

[[problems]]
problem = "tests.tabular:make_oil"
env_kwargs = { sharpness = 10 }

[[algorithms]]
algorithm = "tests.tabular:TabularQ"
label = "tabular"
grid = { bins = [2, 4, 8] }

[[algorithms]]
algorithm = "random"
"""


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    """Make the module importable in worker processes too."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]), prepend=":")
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1]))


def run_sweep(folder, engine):
    file = folder.parent / "own.toml"
    file.write_text(STUDY)
    assert main(["sweep", str(file), "--out", str(folder), "--quiet", "--engine", engine, "--workers", "1"]) == 0
    return compare(read_values(folder)).format("csv")


@pytest.mark.compiled_only
def test_sweep(tmp_path, capsys):
    folder = tmp_path / "out"
    table = run_sweep(folder, "threads")
    rows = list(csv.DictReader(io.StringIO(table)))
    assert [row["algorithm"] for row in rows] == [*(f"tabular, bins={bins}" for bins in (2, 4, 8)), "random"] * 2
    assert [row["problem"] for row in rows[::4]] == ["oil", "tests.tabular:make_oil"]
    assert all(row["n"] == "2" and row["p_adjusted"] for row in rows if row["algorithm"] != "random")
    for command in ("plot", "report", "export", "status", "table"):
        assert main(["sweep", command, str(folder)]) == 0
    assert "tabular, bins=4" in (folder / "report.html").read_text()
    assert (folder / "figures" / "by-bins.png").stat().st_size > 1000
    runs = list(csv.DictReader(io.StringIO((folder / "runs.csv").read_text())))
    own = [run for run in runs if run["algorithm"] == "tests.tabular:TabularQ"]
    assert len(own) == 12
    assert {run["cells"] for run in own} == {""}
    assert {run["training_steps"] for run in own} == {"200"}
    assert {run["parameter_bins"] for run in own} == {"2", "4", "8"}
    assert run_sweep(tmp_path / "again", "processes") == table


@pytest.mark.compiled_only
def test_tune(tmp_path):
    study = {
        "steps": 100,
        "episodes": 5,
        "problems": [{"problem": "tests.tabular:make_oil"}],
        "algorithms": [
            {"algorithm": "tests.tabular:TabularQ", "random": {"bins": {"low": 2, "high": 9, "whole": True}}}
        ],
        "tune": {"trials": 2, "seeds": 2, "first_seeds": 2, "evaluation_seeds": 2},
    }
    result = spaql.tune(study, tmp_path, workers=1)
    assert result.complete
    assert result.study.defaults == {"bins": 8}
    best = json.loads((tmp_path / "best.json").read_text())
    assert best["algorithm"] == "tests.tabular:TabularQ"


def test_cells_are_empty_without_a_partition():
    for algorithm in ("tests.tabular:TabularQ", "random"):
        record = execute(Run("oil", {}, algorithm, {}, 0, 0, 5, budgets=(50,)))
        assert record.scalars["cells"] is None
    assert execute(Run("oil", {}, "tessera", {}, 0, 0, 5, budgets=(50,))).scalars["cells"] >= 1


class Open(TabularQ):
    """Takes any keyword, and has a default that JSON cannot hold."""

    def __init__(self, env, *, kind=dict, seed=0, **options):
        super().__init__(env, seed=seed, **options)


def test_a_class_that_takes_any_keyword():
    study = {"steps": 10, "problems": [{"problem": "oil"}]}
    algorithm = {"algorithm": f"{__name__}:Open", "parameters": {"bins": 3}, "grid": {"rate": [0.1, 0.2]}}
    groups = Sweep({**study, "algorithms": [algorithm]}).groups
    assert [group.run.parameters for group in groups] == [{"bins": 3, "rate": 0.1}, {"bins": 3, "rate": 0.2}]
    with pytest.raises(spaql.SpaqlError, match="unknown 'seed'; choose from kind"):
        Sweep({**study, "algorithms": [{**algorithm, "parameters": {"seed": 3}}]})
    agent = resolve(f"{__name__}:Open").make("oil", bins=3).learn(20)
    assert agent.get_params() == {"kind": dict, "bins": 3, "seed": 0}
    parameters = summarize("mine", agent, seconds=None, episodes=2).to_dict()["parameters"]
    assert parameters == {"kind": "<class 'dict'>", "bins": 3, "seed": 0}


def test_label_and_colour_are_stored_for_readers(tmp_path, monkeypatch):
    data = {
        "steps": 100,
        "points": 2,
        "seeds": 2,
        "episodes": 2,
        "problems": [{"problem": "oil"}],
        "algorithms": [
            {"algorithm": "tabular"},
            {"algorithm": "tests.tabular:TabularQ", "parameters": {"bins": 4}},
            {"algorithm": "aql", "label": "mine"},
            {"algorithm": "tessera", "grid": {"leaves": [3, 4]}},
            {"algorithm": "random", "colour": "#123456"},
        ],
    }
    try:
        register("tabular", label="Table", colour="#AABBCC")(TabularQ)
        study = Sweep(data)
    finally:
        algorithms.__globals__["_ENTRIES"].pop("tabular")
    expected = [
        ("tabular", "tests.tabular:TabularQ", "#AABBCC"),
        ("Table", "tests.tabular:TabularQ", "#AABBCC"),
        ("mine", "aql", algorithms()["aql"].colour),
        *((f"tessera, leaves={count}", "tessera", algorithms()["tessera"].colour) for count in (3, 4)),
        ("random", "random", "#123456"),
    ]
    assert [(group.label, group.run.algorithm, group.colour) for group in study.groups] == expected
    write_study(tmp_path, study)
    with Store(tmp_path / STORE, code="test") as store:
        fill_with(store, study)
    monkeypatch.setitem(sys.modules, "tests.tabular", None)
    values = read_values(tmp_path)
    assert [(group.label, group.run.algorithm, group.colour) for group in values.groups] == expected
    chart = make_sheets(values)["scores"].panels[0]
    colours = {part.name or part.x[0]: part.colour for part in (*chart.series, *chart.levels)}
    assert (colours["mine"], colours["random"]) == (expected[2][2], "#123456")
    assert {colours[name] for name in ("tabular", "Table", "tessera, leaves=3", "tessera, leaves=4")} == {""}


def test_colours_of_a_study_are_checked():
    study = {"steps": 10, "problems": [{"problem": "oil"}], "algorithms": [{"algorithm": "random", "colour": "red"}]}
    with pytest.raises(spaql.SpaqlError, match=r"algorithms\[1\]\.colour: expected a colour such as .*, got 'red'"):
        Sweep(study)


def test_mistakes_are_one_sentence(tmp_path):
    study = {"steps": 10, "problems": [{"problem": "oil"}]}
    for algorithm, sentence in (
        ({"algorithm": "tests.tabular:Nothing"}, r"algorithms\[1\]: .*tests\.tabular:Nothing"),
        ({"algorithm": "nowhere:Agent"}, r"algorithms\[1\]: .*nowhere"),
        ({"algorithm": "tests.tabular:TabularQ", "parameters": {"bin": 3}}, "unknown 'bin'; choose from bins, rate"),
    ):
        with pytest.raises(spaql.SpaqlError, match=sentence):
            spaql.sweep({**study, "algorithms": [algorithm]}, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_scores_of_training_episodes_are_called_training_returns():
    for agent, label in ((spaql.AQL("oil", rollouts=0), "training return"), (spaql.SPAQL("oil"), "current policy")):
        summary = summarize("aql", agent.learn(iterations=3), seconds=None, episodes=2)
        assert draw_curve(summary).axes[0].get_ylabel().endswith(label)
