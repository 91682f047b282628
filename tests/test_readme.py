"""What the README shows works as it stands."""

import json
import re
from pathlib import Path

import pytest
from numba.core import config

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
FINDINGS = (ROOT / "docs" / "findings.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


def test_there_is_something_to_run():
    assert len(BLOCKS) == 2


@pytest.mark.parametrize("block", BLOCKS)
def test_readme_code_runs(block):
    if config.DISABLE_JIT:
        block = block.replace("5000", "20").replace("10_000", "20")
    names: dict[str, object] = {}
    exec(block, names)
    assert "problem" in names or "walk" in names


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))])
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / page).read_text()):
        assert (ROOT / page).parent.joinpath(target).exists(), target


@pytest.mark.parametrize("text", [README, FINDINGS], ids=["README", "findings"])
def test_the_main_table_is_the_one_that_the_study_wrote(text):
    wrote = (ROOT / "docs" / "study" / "tables.md").read_text().splitlines()
    rows = [line for line in text.splitlines() if re.match(r"\| (oil|ambulance) ", line)]
    assert len(rows) >= 12
    assert set(rows) <= set(wrote)


def test_the_story_quotes_the_findings_of_the_study():
    """Every number of the study that the story rests on stands in it, as the study computed it."""
    story = " ".join(FINDINGS.split())
    found = {each["id"]: each for each in json.loads((ROOT / "docs" / "study" / "findings.json").read_text())}
    quoted = {
        "reproduction": "24 of 24 mean rewards",
        "above-optimum": found["above-optimum"]["number"],
        "uniform-is-beta": "0.243 away",
        "running-maximum": "0.654 with N = 1, 0.278 with N = 5, 0.057 with N = 100",
        "myopic": "87,750,000",
        "ranking": "By the printed tables SPAQL is ahead on 4 problems, AQL on 6, with no difference on 2",
        "all-steps": "at 90.4%",
    }
    for key, words in quoted.items():
        assert words in story, words
        assert words in found[key]["sentence"] + found[key]["number"], words
