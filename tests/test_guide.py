"""Every block of Python in docs/guide.md runs, in order, in one namespace."""

from pathlib import Path

import matplotlib
import pytest

GUIDE = Path(__file__).parents[1] / "docs" / "guide.md"


def blocks(text):
    return [part.split("```")[0] for part in text.split("```python\n")[1:]]


def performed(page):
    """Run every block of a page of the documentation, in order, in one namespace, which is returned."""
    matplotlib.use("Agg")
    namespace: dict[str, object] = {}
    for block in blocks(page.read_text()):
        exec(compile(block, str(page), "exec"), namespace)
    return namespace


@pytest.mark.compiled_only
def test_the_guide_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    namespace = performed(GUIDE)
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
    commands = [line for line in GUIDE.read_text().splitlines() if line.startswith("spaql ")]
    assert len(commands) == 3
    for command in commands:
        arguments = [*command.split()[1:]]
        if arguments[0] == "evaluate":
            arguments += ["--episodes", "20"]
        assert main(arguments) == 0, command
    assert (tmp_path / "results/cartpole/episode.gif").stat().st_size > 1000
