"""Run the code blocks of the guides, in order, and the commands of docs/how-to/environments.md."""

import sys

import matplotlib
import matplotlib.pyplot as plt
import pytest

import spaql
from docs_for_tests import find_blocks, find_commands, read_page, run_block, run_page


@pytest.mark.compiled_only
def test_guide_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    namespace = run_page("how-to/environments.md")
    assert (tmp_path / "run.csv").exists()
    assert (tmp_path / "harbour.spaql").exists()
    assert namespace["evaluation"].mean > namespace["random_evaluation"].mean
    assert capsys.readouterr().out


@pytest.mark.compiled_only
def test_page_on_inspection_runs(capsys):
    matplotlib.use("Agg")
    namespace = {"agent": spaql.Tessera("cartpole", seed=0).learn(2_000)}
    for block in find_blocks(read_page("how-to/inspect.md")):
        run_block(block, "how-to/inspect.md", namespace)
    assert namespace["observation"].shape == (4,)
    assert "angular velocity" in capsys.readouterr().out
    plt.close("all")


@pytest.mark.compiled_only
def test_commands_of_guide_run(tmp_path, monkeypatch):
    from spaql.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    pytest.importorskip("pygame")
    commands = find_commands(read_page("how-to/environments.md"))
    assert len(commands) == 5
    for command in commands:
        arguments = [*command.split()[1:]]
        if arguments[0] == "evaluate":
            arguments += ["--episodes", "20"]
        assert main(arguments) == 0, command
    assert (tmp_path / "results/cartpole/episode.gif").stat().st_size > 1000


@pytest.mark.compiled_only
def test_page_on_problems_runs(capsys):
    namespace = run_page("how-to/problems.md")
    assert namespace["agent"].evaluate(episodes=1000).mean > 17.0  # of at most 20
    assert namespace["tessera"].evaluate(episodes=1000).mean > namespace["paper"].evaluate(episodes=1000).mean
    assert capsys.readouterr().out


LEARNING = ("explanation/tessera.md", "studies/control.md", "studies/ablation.md")
SHORT = ["studies/paper.md", *(pytest.param(name, marks=pytest.mark.compiled_only) for name in LEARNING)]


@pytest.mark.parametrize("name", SHORT)
def test_short_blocks_run(name, capsys):
    run_page(name)
    assert capsys.readouterr().out


@pytest.mark.compiled_only
def test_page_on_own_algorithms_runs(tmp_path, monkeypatch, capsys):
    from spaql.cli import main

    page = read_page("how-to/own-algorithm.md")
    module, python = find_blocks(page)
    study, _ = find_blocks(page, "toml")
    (tmp_path / "grid_agent.py").write_text(module)
    (tmp_path / "grid.toml").write_text(study.replace("25_000", "500").replace("seeds = 10", "seeds = 2"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "grid_agent", raising=False)
    namespace: dict[str, object] = {}
    run_block(python, "how-to/own-algorithm.md", namespace)
    assert namespace["agent"].evaluate(episodes=100).mean > spaql.Random("oil").evaluate(episodes=100).mean
    for command in find_commands(page, "sh"):
        assert main([*command.split()[1:], "--quiet"]) == 0, command
    printed = capsys.readouterr().out
    assert "grid_agent:GridQ" in printed
    table, regret, plot = (line.split()[1:] for line in find_commands(page)[-3:])
    assert main(table) == 0
    assert "bins=32" in capsys.readouterr().out
    assert main(regret) == 0
    assert "slope" in capsys.readouterr().out
    assert main(plot) == 0
