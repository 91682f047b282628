"""Run the code of docs/explanation, in order, and check what its text says of the output."""

import json
import re

import pytest

from docs_for_tests import ROOT, run_page


@pytest.mark.compiled_only
@pytest.mark.parametrize("name", ["adaptive-partition.md", "world-model.md"])
def test_blocks_run(name, capsys):
    run_page(f"explanation/{name}")
    assert capsys.readouterr().out


def test_evaluations_are_below_the_largest_of_many_means(capsys):
    namespace = run_page("explanation/evaluation.md")
    agent = namespace["agent"]
    assert agent.history["best"][-1] > agent.evaluate(episodes=2000).interval[1]
    assert 0.45 < float(capsys.readouterr().out.split()[-1]) < 0.65  # "half of a standard deviation"


def test_returns_in_the_model_are_larger():
    rows = json.loads((ROOT / "docs/study/world-model.json").read_text())
    assert all(row["simulated"] > row["high"] for row in rows)
    page = (ROOT / "docs/explanation/world-model.md").read_text()
    assert re.search("Returns in the model are too high as a rule", page)
