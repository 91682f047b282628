"""Every block of Python in docs/guide.md runs, in order, in one namespace."""

import pytest

from docs_for_tests import commands, page, performed

GUIDE = page("guide.md")


@pytest.mark.compiled_only
def test_the_guide_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    namespace = performed("guide.md")
    assert (tmp_path / "run.csv").exists()
    assert (tmp_path / "harbour.spaql").exists()
    assert namespace["fresh"].mean > namespace["chance"].mean
    assert capsys.readouterr().out


@pytest.mark.compiled_only
def test_the_commands_of_the_guide_run(tmp_path, monkeypatch):
    from spaql.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    pytest.importorskip("pygame")
    lines = commands(GUIDE)
    assert len(lines) == 5
    for command in lines:
        arguments = [*command.split()[1:]]
        if arguments[0] == "evaluate":
            arguments += ["--episodes", "20"]
        assert main(arguments) == 0, command
    assert (tmp_path / "results/cartpole/episode.gif").stat().st_size > 1000
