"""What the README shows works as it stands."""

import json
import re
from pathlib import Path

import pytest
from numba.core import config

from spaql import __version__

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
STUDY = json.loads((ROOT / "docs" / "study" / "findings.json").read_text())
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
    found = {each["id"]: each for each in STUDY["findings"]}
    quoted = {
        "reproduction": "24 of 24 mean rewards",
        "above-optimum": found["above-optimum"]["number"],
        "uniform-is-beta": "0.243 away",
        "running-maximum": "0.654 with N = 1, 0.278 with N = 5, 0.057 with N = 100",
        "myopic": "87,750,000",
        "ranking": "By the printed tables SPAQL is ahead on 4 problems, AQL on 6, with no difference on 2",
        "all-steps": "at 90.4%",
    }
    assert "ahead on none of the twelve problems, AQL on six" in " ".join(README.split())
    assert "SPAQL is ahead on 0, AQL on 6" in found["ranking"]["sentence"]
    for key, words in quoted.items():
        assert words in story, words
        assert words in found[key]["sentence"] + found[key]["number"], words


def _known(text):
    """Whether a decimal of the docs is one of the study's, to as many digits."""
    decimals = len(text.split(".")[1])
    numbers = [abs(each[name]) for each in STUDY["findings"] for name in ("value", "low", "high")]
    words = " ".join(each["sentence"] + " " + each["number"] for each in STUDY["findings"])
    return text in re.findall(r"\d+\.\d+", words) or any(f"{number:.{decimals}f}" == text for number in numbers)


def test_every_decimal_of_the_story_is_one_of_the_study():
    prose = "\n".join(line for line in FINDINGS.split("## How it was done")[0].splitlines() if not line.startswith("|"))
    said = {"0.25"}  # a value of c
    said |= {"0.11"}  # what the paper prints for AQL on Laplace 50
    unknown = {text for text in re.findall(r"\d+\.\d+", prose) if text not in said and not _known(text)}
    assert not unknown
    paragraph = README.split("Scored as the paper scores")[1].split("## Use it")[0]
    assert all(_known(text) for text in re.findall(r"\d+\.\d+", paragraph))


def test_the_study_in_the_docs_was_made_by_this_version():
    assert STUDY["study"].endswith(f"spaql {__version__}.")
    assert STUDY["study"].startswith("The whole study")
