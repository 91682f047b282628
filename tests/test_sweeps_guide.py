"""Run what docs/how-to/sweeps.md shows: the environment, the study, the commands and the Python."""

import importlib
import sys
import tomllib

import gymnasium
import pytest

from docs_for_tests import find_blocks, find_commands, read_page, run_block
from spaql.agents import algorithms
from spaql.cli import main
from spaql.studies.sweep.study_file import AlgorithmTable, ProblemTable, StudyFile
from spaql.studies.sweep.sweep_study import Sweep

GUIDE = read_page("how-to/sweeps.md")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Write the two files of the guide into a folder and enter it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "tank", raising=False)
    (tmp_path / "tank.py").write_text(find_blocks(GUIDE)[0])
    (tmp_path / "tank.toml").write_text(
        find_blocks(GUIDE, "toml")[0].replace("6_000", "600").replace("seeds = 5", "seeds = 2")
    )
    yield tmp_path
    gymnasium.registry.pop("Tank-v0", None)
    sys.modules.pop("tank", None)


def test_environment_passes_check_env(folder):
    from gymnasium.utils.env_checker import check_env

    check_env(importlib.import_module("tank").Tank(), skip_render_check=True)


@pytest.mark.compiled_only
def test_commands_run(folder, capsys):
    lines = [line.split() for line in find_commands(GUIDE, "sh")]
    assert [words[2] for words in lines] == [
        "tank.toml", "status", "watch", "table", "plot", "report", "export"
    ]  # fmt: skip
    for words in lines:
        assert main(words[1:]) == 0, words
    printed = capsys.readouterr().out
    assert "20 of 20 runs finished" in printed
    assert printed.count("tank, price=0.9") == 3  # after the study, by watch, and by table
    for name in ("report.html", "runs.csv", "figures/scores.png", "figures/by-scaling.svg"):
        assert (folder / "results" / "tank" / name).stat().st_size > 1000


def test_python_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    namespace = {}
    run_block(find_blocks(GUIDE)[2], "how-to/sweeps.md", namespace)
    assert namespace["tally"].done == 16
    assert "| oil, sharpness=10 | random | 4 |" in capsys.readouterr().out


def test_regret_from_python_and_its_study(capsys):
    run_block(find_blocks(GUIDE)[1], "how-to/sweeps.md", {})
    assert capsys.readouterr().out.startswith("regret ")
    groups = Sweep(tomllib.loads(find_blocks(GUIDE, "toml")[1])).groups
    assert [group.optimum for group in groups] == [None, None, 500.0, 500.0]


def test_every_key_of_a_study_file_is_documented():
    section = GUIDE[GUIDE.index("## Keys of a study file") : GUIDE.index("## Seeds")]
    tables = (StudyFile, ProblemTable, AlgorithmTable)
    keys = {field.alias or name for table in tables for name, field in table.model_fields.items()}
    keys -= {"problems", "algorithms"}
    assert not [key for key in sorted(keys) if f"`{key}`" not in section]
    assert all(name in section for name in algorithms())
