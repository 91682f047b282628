"""The site of docs without building it: every page is reached, links lead somewhere, nothing comes from the network.

`make docs` builds the site, and checks the built pages in a browser.
"""

import re
from fnmatch import fnmatch
from itertools import pairwise
from pathlib import Path

import pytest

from docs_for_tests import ROOT, find_blocks, find_pages

HERE = Path(__file__)
DOCS = ROOT / "docs"
TABLES = sorted(f"docs/study/{path.name}" for path in (DOCS / "study").glob("*.md"))
PAGES = [*find_pages(), *TABLES]
SECTIONS = ["get-started", "tutorials", "how-to", "explanation", "reference", "studies", "project"]
LISTED = ["get-started", "tutorials", "how-to", "explanation", "studies"]  # their index describes every page
NOT_RUN = ["how-to/cluster.md"]  # needs a cluster of SLURM or Kubernetes


def read(page):
    """Return the text of a page, with what it includes."""
    text = (ROOT / page).read_text(encoding="utf-8")
    if included := re.match(r"```\{include\} (\S+)", text):
        return ((ROOT / page).parent / included[1]).read_text(encoding="utf-8")
    return text


def strip_code(text):
    """Return a text without its front matter, blocks of code, comments and inline code."""
    text = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL)
    text = re.sub(r"^( *)(```+|~~~+).*?^\1\2 *$", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"<!--.*?-->|`[^`\n]+`", "", text, flags=re.DOTALL)


def find_entries(page):
    """Return the pages of the tables of contents of a page, as paths from the root without suffix."""
    entries = []
    for options in re.findall(r"```\{toctree\}\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL):
        lines = [line.strip() for line in options.splitlines() if line.strip() and not line.startswith(":")]
        for line in lines:
            target = re.sub(r".*<(.*)>", r"\1", line)
            path = (ROOT / page).parent / target
            entries.append(str(path.resolve().relative_to(ROOT.resolve())))
    return entries


def is_in(page, entries):
    """Return whether an entry, which may have wildcards, names the page."""
    name = page.removesuffix(".md")
    return any(fnmatch(name, entry) and name.count("/") == entry.count("/") for entry in entries)


@pytest.mark.parametrize("page", [page for page in PAGES if page != "docs/index.md"])
def test_every_page_is_in_a_table_of_contents(page):
    assert is_in(page, [entry for index in PAGES for entry in find_entries(index)])


def test_every_entry_of_a_table_of_contents_is_a_page():
    for page in PAGES:
        for entry in find_entries(page):
            assert "*" in entry or (ROOT / f"{entry}.md").exists(), f"{page}: {entry}"


def test_first_page_leads_to_all_sections():
    assert find_entries("docs/index.md") == [f"docs/{section}/index" for section in SECTIONS]


@pytest.mark.parametrize("section", LISTED)
def test_index_of_a_section_describes_every_page(section):
    index = (DOCS / section / "index.md").read_text(encoding="utf-8")
    lines = {match[1]: match[2] for match in re.finditer(r"^- \[[^\]]+\]\(([^)]+)\): (.+)", index, flags=re.MULTILINE)}
    assert sorted(target for target in lines if "/" not in target) == sorted(
        path.name for path in (DOCS / section).glob("*.md") if path.name != "index.md"
    )


@pytest.mark.parametrize("page", PAGES)
def test_headings_are_in_order(page):
    levels = [len(marks) for marks in re.findall(r"^(#+) ", strip_code(read(page)), flags=re.MULTILINE)]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


@pytest.mark.parametrize("page", PAGES)
def test_pictures_have_a_description_and_links_a_target(page):
    text = strip_code(read(page))
    folder = ROOT if "{include}" in (ROOT / page).read_text(encoding="utf-8") else (ROOT / page).parent
    for picture, label, target in re.findall(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)", text):
        if picture:
            assert len(label) > 3, target
            assert "://" not in target, "loaded from the network"
        if "://" not in target and not target.startswith("#"):
            assert (folder / target.split("#")[0]).exists(), target
    assert all('alt="' in tag for tag in re.findall(r"<img[^>]*>", text))


@pytest.mark.parametrize("path", [*PAGES, "docs/conf.py", "docs/_static/site.css"])
def test_nothing_is_loaded_from_the_network(path):
    text = (ROOT / path).read_text(encoding="utf-8")
    assert not re.search(r"""(src|href)=["'](https?:)?//|@import|url\(["']?(https?:)?//""", text)
    assert not re.search(r"https?://", text) or Path(path).suffix == ".md", "only links of pages lead to the network"


def test_every_page_with_code_is_run_by_a_test():
    tests = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").glob("test_*.py") if path != HERE)
    pages = [page.removeprefix("docs/") for page in find_pages() if find_blocks(read(page))]
    pages = [page for page in pages if page not in NOT_RUN and not page.startswith(("tutorials/", "reference/"))]
    names = {page: page.removeprefix("explanation/") for page in pages}  # a test adds the name of that folder
    assert [page for page in pages if f'"{page}"' not in tests and f'"{names[page]}"' not in tests] == []


def test_blocks_of_python_include_cells_without_their_options():
    cells = [
        "```{code-cell}\nfirst = 1\n```",
        "```{code-cell} ipython3\n:tags: [remove-cell]\n:other: 1\nsecond = 2\n```",
        "```{code-cell}\n---\nmystnb:\n  image:\n    alt: a picture\n---\nthird = 3\n```",
        "```python\nfourth = 4\n```",
        "```toml\nfifth = 5\n```",
    ]
    expected = ["first = 1\n", "second = 2\n", "third = 3\n", "fourth = 4\n"]
    assert find_blocks("text\n\n".join(cells)) == expected
