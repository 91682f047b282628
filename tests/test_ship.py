"""What docs/how-to/export.md shows runs, in order: commands and Python; the pendulum in C does as the one here."""

import re
import shlex
import shutil
import subprocess

import numpy as np
import pytest

import spaql
from docs_for_tests import ROOT, find_blocks, find_commands, read_page, run_block
from spaql.cli import main
from test_export import read, states, trained

pytestmark = pytest.mark.full_planning
SHIP = read_page("how-to/export.md")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the commands are run."""
    return tmp_path_factory.mktemp("ship")


@pytest.fixture(scope="module")
def printed(folder):
    """What each program printed but our own; those that are not here are left out."""
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    told = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for command in find_commands(SHIP, "sh"):
            words = shlex.split(command)
            if words[0] == "spaql":
                assert main([*words[1:], *(["--quiet"] if words[1] == "train" else [])]) == 0, command
            elif shutil.which(words[0]) is not None:
                told[words[0]] = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return told


@pytest.mark.compiled_only
def test_the_pendulum_in_c_swings_up_and_holds(folder, printed):
    if "gcc" not in printed:
        pytest.skip("there is no gcc")
    told = printed["./pendulum"]
    mean, share = (float(re.search(pattern, told)[1]) for pattern in (r"mean return (\S+) ", r"in (\S+)% of"))
    fresh = spaql.load(folder / "results/pendulum").evaluate(1000)
    assert share > 95.0
    assert abs(mean - fresh.mean) < 25.0  # other starts; the intervals of both are about 8 to each side
    assert spaql.Random("pendulum").evaluate(100).mean < -1000.0
    flags = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O2", "-I.", "-S", "-o", "/dev/null"]
    subprocess.run(["gcc", *flags, "examples/pendulum.c"], check=True, cwd=folder)
    for words in ("1", "no"):
        assert subprocess.run([folder / "pendulum", words], capture_output=True).returncode == 2


@pytest.mark.compiled_only
def test_the_programs_of_the_page_run(folder, printed, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    namespace: dict[str, object] = {}
    *parts, last = find_blocks(SHIP)
    assert len(parts) == 3
    for block in parts:
        run_block(block, "how-to/export.md", namespace)
    said = re.findall(r"-?\d+\.\d*", capsys.readouterr().out)
    assert len(said) == 3
    assert len({float(number) for number in said}) == 1
    for name in ("onnx", "onnxruntime"):
        pytest.importorskip(name, reason=f"{name} is missing")
    run_block(last, "how-to/export.md", namespace)
    expected = namespace["agent"].predict([[-1.0, 0.0, 0.5], [1.0, 0.0, 0.0]])[0]
    np.testing.assert_array_equal(namespace["actions"], expected)


def test_the_page_shows_the_example():
    example = (ROOT / "examples" / "pendulum.c").read_text()
    [shown] = find_blocks(SHIP, "c")
    assert all(line in example for line in shown.splitlines())


@pytest.mark.parametrize("kind", ["a periodic Dict", "time steps"])
def test_the_reader_of_the_page_reads_every_policy(kind, tmp_path):
    namespace: dict[str, object] = {}
    reader = next(block for block in find_blocks(SHIP) if "def act" in block)
    run_block(reader.split("\nwith open")[0], "how-to/export.md", namespace)
    agent = trained(kind)
    policy = namespace["json"].loads(agent.export(tmp_path / "policy.json").read_text())
    rows, steps = states(agent, agent.tree(), 500)
    expected = read((tmp_path / "policy.json").read_text(), rows, steps)  # which agrees with `predict`
    found = [namespace["act"](policy, row, int(step)) for row, step in zip(rows, steps, strict=True)]
    np.testing.assert_array_equal(found, expected)
    assert policy["timed"] == (kind == "time steps")
