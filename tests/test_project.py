"""What the project says of itself: versions, supported Pythons, files that a contributor is sent to."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

import spaql

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
RECIPES = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("## Twelve recipes")[1].split("\n## ")[0]
WORKFLOWS = {path.stem: yaml.safe_load(path.read_text("utf-8")) for path in (ROOT / ".github/workflows").glob("*.yml")}

needs_workflows = pytest.mark.skipif(not WORKFLOWS, reason="the source distribution is without them")


def test_one_version_everywhere():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == spaql.__version__
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    released = re.findall(r"^## \[\d\S+\] - (\S+)", changes, re.MULTILINE)
    assert str(citation.get("date-released")) == (released or ["None"])[0]


@needs_workflows
def test_supported_pythons_are_tested():
    declared = {name.rsplit(" ", 1)[1] for name in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", name)}
    matrix = WORKFLOWS["tests"]["jobs"]["tests"]["strategy"]["matrix"]
    assert set(matrix["python"]) == declared
    assert {entry["python"] for entry in matrix["include"] if entry["os"] == "ubuntu-latest"} == declared - {"3.11"}
    assert PROJECT["requires-python"] == ">=" + min(declared, key=lambda text: int(text.split(".")[1]))


@needs_workflows
def test_workflows_run_what_a_contributor_can_run():
    commands = [
        step["run"]
        for jobs in WORKFLOWS.values()
        for job in jobs["jobs"].values()
        for step in job["steps"]
        if "run" in step
    ]
    assert "bash .ci/run" in commands
    assert "make PYTHON=python test" in commands
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text("utf-8"), flags=re.MULTILINE))
    for command in commands:
        if command.startswith("make "):
            assert command.split()[-1] in targets, command


def test_there_are_twelve_recipes():
    assert len(re.findall(r"^\| (?:an?|the) ", RECIPES, flags=re.MULTILINE)) == 12


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`([a-z_/0-9]+\.(?:py|js|md))`", RECIPES))))
def test_files_of_the_recipes_exist(name):
    folders = dict.fromkeys(("explanation", "how-to", "reference"), "docs")
    inside = "tests" if name.startswith(("test", "textbook")) else folders.get(name.split("/")[0], "src/spaql")
    assert (ROOT / inside / name).exists()


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_a_release_is_not_checked_with_no_interpreter():
    command = ["make", "--old-file=dist", "wheel-test", "PYTHONS= "]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert result.returncode != 0
    assert "there is no interpreter to test with" in result.stderr
    assert "passed" not in result.stdout
