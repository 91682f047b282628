"""Run the code of the README, and check the numbers of README and docs against docs/study."""

import json
import re
import runpy
import tomllib
from pathlib import Path

import pytest
from numba.core import config

from docs_for_tests import find_blocks, find_pages, read_page
from spaql import __version__

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
FINDINGS = read_page("studies/findings.md")
PAGES = ["README.md", "CONTRIBUTING.md", *find_pages()]


def read_study(name):
    """Return the JSON file of a study."""
    return json.loads((ROOT / "docs" / "study" / name).read_text(encoding="utf-8"))


def join_lines(text):
    """Return a text without its line breaks, so that sentences can be searched for."""
    return " ".join(text.split())


STUDY, ABLATION, FAMILIES, CONTROL = (
    read_study(f"{name}.json") for name in ("findings", "ablation", "families", "control")
)
FOUND = {finding["id"]: finding for finding in STUDY["findings"]}


def test_readme_code_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    [block] = find_blocks(README)
    if config.DISABLE_JIT:
        block = block.replace("10_000", "1_600").replace("=100)", "=2)")
    namespace: dict[str, object] = {}
    exec(block, namespace)
    assert "push left" in capsys.readouterr().out
    assert len(namespace["agent"].cells()) <= 64
    assert {path.name for path in tmp_path.iterdir()} == {"cartpole.spaql", "policy.c"}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files_and_headings(page):
    for target, heading in re.findall(r"\]\(([^)#:]*)#?([^):]*)\)", (ROOT / page).read_text(encoding="utf-8")):
        path = (ROOT / page).parent / target if target else ROOT / page
        assert path.exists(), target
        if heading:
            headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
            assert heading in [re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings]


@pytest.mark.parametrize("page", PAGES)
def test_results_on_pages_are_those_of_the_studies(page):
    update = runpy.run_path(str(ROOT / "docs" / "include_results.py"))["update"]
    text = (ROOT / page).read_text(encoding="utf-8")
    assert update(text) == text, "run: make docs-results"


# The paper's study ----------------------------------------------------------------------------------------------------


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
    section = join_lines(README).split("Scored as the paper scores")[1].split("](docs/studies/findings.md)")[0]
    assert re.findall(r"\d+\.\d+", section) == ["0.135"]
    assert is_in_study("0.135")
    assert FOUND["reproduction"]["sentence"].startswith("Scored as in the paper, 24 of 24 mean rewards")


def test_study_was_made_by_this_version():
    assert STUDY["study"].endswith(f"spaql {__version__}.")
    assert STUDY["study"].startswith("The whole study")


# Tessera and classic control ------------------------------------------------------------------------------------------


def test_pages_on_tessera_and_control_quote_no_results_of_their_own():
    """Results stand between the markers of docs/include_results.py, in tables, or are settings."""
    settings = {"0.25", "0.9", "0.1", "0.0", "0.5"}  # parameters, coefficients of the backup, an observation, the noise
    for name in ("explanation/tessera.md", "studies/control.md", "studies/ablation.md"):
        prose = re.sub(r"<!-- results.*?<!-- end of results -->", "", read_page(name), flags=re.DOTALL)
        prose = prose.split("## What was tried and dropped")[0]
        assert set(re.findall(r"\d+\.\d+", prose)) <= settings
        assert not re.findall(r"-?\d+ ± ", prose)


def test_dropped_trials_are_said_to_be_no_study():
    section = read_page("explanation/tessera.md").split("## What was tried and dropped")[1]
    assert "They are not results of a study" in join_lines(section)


def test_every_mechanism_and_parameter_is_on_a_page():
    from spaql import Tessera
    from spaql.agents.tessera.agent import MECHANISMS

    parameters, mechanisms = read_page("explanation/tessera.md"), read_page("studies/ablation.md")
    assert all(f"| `{name}` |" in parameters for name in Tessera("oil").get_params())
    assert all(f"| {name} |" in mechanisms for name in MECHANISMS)


def test_sizes_of_the_studies_are_those_of_the_pages():
    assert (FAMILIES["family"], FAMILIES["problems"]) == (2, 200)
    assert FAMILIES["seed"] == ABLATION["seed"] == CONTROL["seed"] == 0
    assert (CONTROL["agents"], CONTROL["episodes"]) == (20, 200)


def test_studies_were_made_by_this_version():
    assert ABLATION["spaql"] == FAMILIES["spaql"] == CONTROL["spaql"] == __version__


# The design -----------------------------------------------------------------------------------------------------------


def test_every_layer_is_in_the_design():
    layers = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]["layers"]
    rows = [row.split("|") for row in read_page("project/design.md").splitlines() if row.startswith("| ")]
    documented = [set(re.findall(r"`(\w+)`", row[2])) for row in rows if row[1].strip().isdecimal()]
    assert documented == [set(re.findall(r"\w+", layer)) for layer in layers]
