"""Run the code blocks of the guides, in order, and the commands of docs/guide.md."""

import pytest

from docs_for_tests import find_commands, read_page, run_page


@pytest.mark.compiled_only
def test_guide_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    namespace = run_page("guide.md")
    assert (tmp_path / "run.csv").exists()
    assert (tmp_path / "harbour.spaql").exists()
    assert namespace["evaluation"].mean > namespace["random_evaluation"].mean
    assert capsys.readouterr().out


@pytest.mark.compiled_only
def test_commands_of_guide_run(tmp_path, monkeypatch):
    from spaql.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    pytest.importorskip("pygame")
    commands = find_commands(read_page("guide.md"))
    assert len(commands) == 5
    for command in commands:
        arguments = [*command.split()[1:]]
        if arguments[0] == "evaluate":
            arguments += ["--episodes", "20"]
        assert main(arguments) == 0, command
    assert (tmp_path / "results/cartpole/episode.gif").stat().st_size > 1000


@pytest.mark.compiled_only
def test_page_on_problems_runs(capsys):
    namespace = run_page("problems.md")
    assert namespace["agent"].evaluate(episodes=1000).mean > 17.0  # of at most 20
    assert namespace["tessera"].evaluate(episodes=1000).mean > namespace["paper"].evaluate(episodes=1000).mean
    assert capsys.readouterr().out


@pytest.mark.parametrize("name", ["paper.md", "tessera.md"])
def test_short_blocks_run(name, capsys):
    run_page(name)
    assert capsys.readouterr().out
