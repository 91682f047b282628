"""What the README shows works as it stands."""

import json
import math
import re
import tomllib
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
    assert len(BLOCKS) == 3


@pytest.mark.parametrize("block", BLOCKS)
def test_readme_code_runs(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if config.DISABLE_JIT:
        block = block.replace("5000", "20").replace("10_000", "20").replace("50_000", "2_000").replace("=100)", "=2)")
    names: dict[str, object] = {}
    exec(block, names)
    assert names.keys() & {"agent", "problem", "walk"}


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
    paragraph = README.split("Scored as the paper scores")[1].split("**Past the paper.**")[0]
    assert all(_known(text) for text in re.findall(r"\d+\.\d+", paragraph))


ABLATION = json.loads((ROOT / "docs" / "study" / "ablation.json").read_text())
FAMILIES = json.loads((ROOT / "docs" / "study" / "families.json").read_text())
BEYOND = (ROOT / "docs" / "tessera.md").read_text()


def test_the_tables_of_beyond_are_those_that_the_studies_wrote():
    wrote = {
        line
        for name in ("ablation", "families", "constants")
        for line in (ROOT / "docs" / "study" / f"{name}.md").read_text().splitlines()
    }
    typed = BEYOND.split("| constant | default | reason |")[1].split("\n\n")[0].splitlines()
    rows = [line for line in BEYOND.splitlines() if line.startswith("|") and line not in typed and "reason" not in line]
    assert len(rows) > 40
    assert not set(rows) - wrote


def test_the_page_of_control_says_what_the_study_wrote():
    page, wrote = ((ROOT / "docs" / path).read_text() for path in ("control.md", "study/control.md"))
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert len(rows) >= 8
    assert set(rows) <= set(wrote.splitlines())
    sentences = [line for line in wrote.splitlines() if line.startswith(("Of ", "It reaches"))]
    assert len(sentences) == 2
    assert " ".join(sentences) in page


def test_the_claims_of_beyond_are_those_of_the_studies():
    targets = ABLATION["targets"]
    (family,) = (row for row in FAMILIES["rows"] if (row["agent"], row["problems"]) == ("tessera", "all"))
    said = " ".join(BEYOND.split())
    assert f"at least {100 * targets['lowest_share']:.2f}% of the exact optimum" in said
    assert f"it is ahead in {targets['ahead']} of {targets['comparisons']} comparisons" in said
    assert f"and behind in {targets['behind']};" in said
    assert f"at most {targets['arms_over_printed']:.2f} times the arms" in said
    assert (
        f"reaches {100 * family['share']:.1f}% of the optimum on average, and nine of ten agents reach "
        f"{100 * family['worst_decile']:.1f}%" in said
    )
    assert (FAMILIES["family"], FAMILIES["problems"], FAMILIES["seed"], ABLATION["seed"]) == (2, 200, 0, 0)
    found = {each["id"]: each["sentence"] for each in STUDY["findings"]}
    share, arms = re.search(r"SPAQL beyond reaches ([\d.]+)% with (\d+) arms", found["long-episodes"]).groups()
    assert f"{share}% of the optimum with {arms} arms; AQL 96.1% with 2,516" in said
    assert f"reaches {share}% with {arms} arms" in " ".join(FINDINGS.split())
    readme = " ".join(README.split())
    shares = {(r["agent"], r["problem"], r["budget"]): r["share"] for r in ABLATION["rows"]}
    paper = [key for agent, key, budget in shares if (agent, budget) == ("aql", 0.1)]
    assert len(paper) == 12
    ends = [
        share for (agent, key, budget), share in shares.items() if (agent, budget) == ("tessera", 1.0) and key in paper
    ]
    low, high = (math.floor(1000 * end(ends)) / 10 for end in (min, max))
    assert f"{low}% to {high}% of the optimum on the twelve problems" in readme
    assert f"{low}% to {high}% of the optimum" in " ".join((ROOT / "CHANGELOG.md").read_text().split())
    assert f"{100 * family['share']:.1f}% on 200 random problems" in readme
    assert all(shares["tessera", key, 1.0] > shares["spaql-longer", key, 1.0] for key in paper)


def test_the_studies_of_beyond_were_made_by_this_version():
    assert ABLATION["spaql"] == FAMILIES["spaql"] == __version__


def test_the_study_in_the_docs_was_made_by_this_version():
    assert STUDY["study"].endswith(f"spaql {__version__}.")
    assert STUDY["study"].startswith("The whole study")


def test_every_room_is_in_the_plan():
    layers = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]["layers"]
    rows = [row.split("|") for row in (ROOT / "docs" / "design.md").read_text().splitlines() if row.startswith("| ")]
    plan = [set(re.findall(r"`(\w+)`", row[2])) for row in rows if row[1].strip().isdecimal()]
    assert plan == [set(re.findall(r"\w+", layer)) for layer in layers]
