"""Run pages that no other test runs: the tutorials, with their hidden checks, and first pages; check their form."""

import re

import matplotlib.pyplot as plt
import pytest

from docs_for_tests import ROOT, find_blocks, read_page, run_page

TUTORIALS = sorted(f"tutorials/{path.name}" for path in (ROOT / "docs/tutorials").glob("*.md") if path.stem != "index")
NOTEBOOKS = [*TUTORIALS, "explanation/when-not.md"]
FIRST = ["index.md", "get-started/index.md", "get-started/first-agent.md", "explanation/algorithms.md"]
FRONT = "---\nfile_format: mystnb\nkernelspec:\n  name: python3\n---\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Enter an empty folder; the pictures of a page are closed after it."""
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    plt.close("all")


@pytest.mark.compiled_only
@pytest.mark.parametrize("name", [*NOTEBOOKS, *FIRST])
def test_every_cell_runs_and_hidden_checks_hold(name, folder, capsys):
    run_page(name)
    assert capsys.readouterr().out


@pytest.mark.compiled_only
def test_page_on_c_says_so_without_a_compiler(folder, monkeypatch, capsys):
    monkeypatch.setattr("shutil.which", lambda name: None)
    run_page("tutorials/ship-to-c.md")
    assert "There is no C compiler here" in capsys.readouterr().out


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_form_of_a_notebook(name):
    text = read_page(name)
    assert text.startswith(FRONT)
    body = text.removeprefix(FRONT)
    assert body.count("```{code-cell}\n") == len(re.findall("^```.*code-cell", body, flags=re.MULTILINE))
    assert any("assert " in block for block in find_blocks(body))
    pictures = re.findall(r"^(?:agent\.plot\(|figure, axes = plt|Image\()", body, flags=re.MULTILINE)
    assert len(re.findall("^    alt: .{20,}", body, flags=re.MULTILINE)) == len(pictures)
    for cell in re.findall(r"^```{code-cell}\n(.*?)^```", body, flags=re.MULTILINE | re.DOTALL):
        assert "remove-cell" in cell or not re.search("^assert ", cell, flags=re.MULTILINE), "checks are hidden"


@pytest.mark.parametrize("name", TUTORIALS)
def test_tutorial_says_what_it_gives_and_where_to_go_next(name):
    body = read_page(name).removeprefix(FRONT).strip()
    assert body.splitlines()[2].startswith("After this tutorial you can ")
    assert body.index("```{code-cell}") < body.index("\n## ")
    assert len(body[: body.index("```{code-cell}")].splitlines()) <= 10
    assert body.split("\n## ")[-1].startswith("Where to go next\n")
