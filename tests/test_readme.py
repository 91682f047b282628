"""Run the code of the README, and check the numbers of README and docs against docs/study."""

import json
import math
import re
import tomllib
from pathlib import Path

import pytest
from numba.core import config

from docs_for_tests import find_blocks, read_page
from spaql import __version__

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
FINDINGS, TESSERA = read_page("findings.md"), read_page("tessera.md")
PAGES = ["README.md", "CONTRIBUTING.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))]


def read_study(name):
    """Return the JSON file of a study."""
    return json.loads((ROOT / "docs" / "study" / name).read_text(encoding="utf-8"))


def join_lines(text):
    """Return a text without its line breaks, so that sentences can be searched for."""
    return " ".join(text.split())


STUDY, ABLATION, FAMILIES = (read_study(name) for name in ("findings.json", "ablation.json", "families.json"))
FOUND = {finding["id"]: finding for finding in STUDY["findings"]}


def test_readme_code_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    [block] = find_blocks(README)
    if config.DISABLE_JIT:
        block = block.replace("50_000", "2_000").replace("=100)", "=2)")
    exec(block, {})
    assert {path.name for path in tmp_path.iterdir()} == {"cartpole.spaql", "policy.c"}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files_and_headings(page):
    for target, heading in re.findall(r"\]\(([^)#:]*)#?([^):]*)\)", (ROOT / page).read_text(encoding="utf-8")):
        path = (ROOT / page).parent / target if target else ROOT / page
        assert path.exists(), target
        if heading:
            headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
            assert heading in [re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings]


# The paper's study ----------------------------------------------------------------------------------------------------


def test_main_table_is_that_of_the_study():
    written = (ROOT / "docs" / "study" / "tables.md").read_text(encoding="utf-8").splitlines()
    rows = [line for line in FINDINGS.splitlines() if re.match(r"\| (problem|oil|ambulance) ", line)]
    assert len(rows) == 14
    assert set(rows) <= set(written)


def test_findings_page_quotes_the_study():
    quotes = {
        "reproduction": "24 of 24 mean rewards",
        "above-optimum": FOUND["above-optimum"]["number"],
        "uniform-is-beta": "0.243",
        "running-maximum": "0.654",
        "myopic": "87,750,000",
        "all-steps": "90.4%",
    }
    for key, quote in quotes.items():
        assert quote in join_lines(FINDINGS), quote
        assert quote in FOUND[key]["sentence"] + FOUND[key]["number"], quote
    assert "ahead on none of the twelve problems, AQL on six" in join_lines(README)
    printed, evaluated = re.findall(
        r"SPAQL is ahead on (\d+)(?: problems)?, AQL on (\d+), with no difference on (\d+)",
        FOUND["ranking"]["sentence"],
    )
    assert f"| by the printed tables | {' | '.join(printed)} |" in FINDINGS
    assert f"| by evaluations, `--seed 0` | {' | '.join(evaluated)} |" in FINDINGS
    assert evaluated[:2] == ("0", "6")


def is_in_study(text):
    """Return whether a decimal occurs in the findings, rounded to as many digits."""
    decimals = len(text.split(".")[1])
    numbers = [abs(finding[name]) for finding in STUDY["findings"] for name in ("value", "low", "high")]
    words = " ".join(finding["sentence"] + " " + finding["number"] for finding in STUDY["findings"])
    return text in re.findall(r"\d+\.\d+", words) or any(f"{number:.{decimals}f}" == text for number in numbers)


def test_every_decimal_of_the_findings_page_is_in_the_study():
    before, rest = FINDINGS.split("## The algorithm is the same")
    prose = before.split("| problem |")[0] + rest.split("## How it was done")[0]
    others = {"0.25", "0.11"}  # a value of c; the interval that the paper prints for AQL on Laplace 50
    assert not {text for text in re.findall(r"\d+\.\d+", prose) if text not in others and not is_in_study(text)}


def test_summary_of_the_readme_is_in_the_study():
    section = README.split("## What it reaches")[1].split("Tessera reaches")[0]
    assert all(is_in_study(text) for text in re.findall(r"\d+\.\d+", section))
    counts = re.findall(r"\| (\d+) \|$", section, flags=re.MULTILINE)
    assert counts == ["41", "216", "43"]
    assert all(re.search(rf"\b{count}\b", FOUND["tessera"]["sentence"]) for count in counts)


def test_study_was_made_by_this_version():
    assert STUDY["study"].endswith(f"spaql {__version__}.")
    assert STUDY["study"].startswith("The whole study")


# Tessera and classic control ------------------------------------------------------------------------------------------


def test_tables_of_the_tessera_page_are_those_of_the_studies():
    written = {
        line
        for name in ("ablation", "families", "constants")
        for line in (ROOT / "docs" / "study" / f"{name}.md").read_text(encoding="utf-8").splitlines()
    }
    tables = [match[0].splitlines() for match in re.finditer(r"(?:^\|.*\n)+", TESSERA, flags=re.MULTILINE)]
    copied = [table for table in tables if set(table) <= written]
    assert len(copied) == 4
    assert sum(len(table) for table in copied) > 40


def test_summary_of_the_tessera_page_is_that_of_the_studies():
    targets = ABLATION["targets"]
    (family,) = (row for row in FAMILIES["rows"] if (row["agent"], row["problems"]) == ("tessera", "all"))
    values = [
        f"{100 * targets['lowest_share']:.2f}%",
        f"{targets['ahead']} of {targets['comparisons']}",
        f"{targets['behind']}",
        f"at most {targets['cells_over_printed']:.2f} times",
        f"{100 * family['share']:.1f}%",
        f"{100 * family['worst_decile']:.1f}%",
    ]
    rows = TESSERA.split("| result | |\n|---|---:|\n")[1].split("\n\n")[0].splitlines()
    assert [row.split(" | ")[1].removesuffix(" |") for row in rows] == values
    assert (FAMILIES["family"], FAMILIES["problems"], FAMILIES["seed"], ABLATION["seed"]) == (2, 200, 0, 0)
    assert f"{values[4]} on 200 random problems" in join_lines(README)


def test_long_episodes_are_those_of_the_study():
    sentence = FOUND["long-episodes"]["sentence"]
    share, cells = re.search(r"Tessera reaches ([\d.]+)% with (\d+) cells", sentence).groups()
    for page in (TESSERA, FINDINGS):
        assert f"| Tessera | {share}% | {cells} |\n" in page
        assert "| AQL | 96.1% | 2,516 |\n" in page
    assert "96.1% with 2,516 cells" in sentence
    assert "93.1% of the optimum with 86 cells" in sentence
    assert "| SPAQL | 93.1% | 86 |\n" in FINDINGS


def test_range_of_shares_is_that_of_the_ablation():
    shares = {(row["agent"], row["problem"], row["budget"]): row["share"] for row in ABLATION["rows"]}
    problems = [problem for agent, problem, budget in shares if (agent, budget) == ("aql", 0.1)]
    assert len(problems) == 12
    finals = [shares["tessera", problem, 1.0] for problem in problems]
    low, high = (math.floor(1000 * end(finals)) / 10 for end in (min, max))
    assert f"{low}% to {high}% of the optimum on the twelve problems" in join_lines(README)
    assert f"{low}% to {high}% of the optimum" in join_lines(CHANGELOG)
    assert all(shares["tessera", problem, 1.0] > shares["spaql-longer", problem, 1.0] for problem in problems)


def test_page_on_control_is_that_of_the_study():
    page, written = read_page("control.md"), read_page("study/control.md")
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert len(rows) >= 8
    assert set(rows) <= set(written.splitlines())
    sentences = [line for line in written.splitlines() if line.startswith(("Of ", "It reaches"))]
    assert len(sentences) == 2
    assert " ".join(sentences) in join_lines(page)


def test_studies_were_made_by_this_version():
    assert ABLATION["spaql"] == FAMILIES["spaql"] == __version__


# The design -----------------------------------------------------------------------------------------------------------


def test_every_layer_is_in_the_design():
    layers = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]["layers"]
    rows = [row.split("|") for row in read_page("design.md").splitlines() if row.startswith("| ")]
    documented = [set(re.findall(r"`(\w+)`", row[2])) for row in rows if row[1].strip().isdecimal()]
    assert documented == [set(re.findall(r"\w+", layer)) for layer in layers]
