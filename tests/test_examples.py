"""The examples run, and what their comments claim is so."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.compiled_only
def test_own_problem(capsys):
    main = runpy.run_path(str(EXAMPLES / "own_problem.py"))["main"]
    scores = main(50_000)
    printed = capsys.readouterr().out
    assert all(name in printed for name in ("Random", "SPAQL", "Tessera", "AQL", "base stock"))
    gained = {
        name: (score - scores["Random"]) / (scores["base stock"] - scores["Random"]) for name, score in scores.items()
    }
    assert gained["Tessera"] > 0.75
    assert gained["AQL"] > 0.75
    assert max(scores.values()) == scores["base stock"]
