"""`spaql paper`: everything is written, no interruption changes a byte, and the command line."""

from __future__ import annotations

import json
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from figures_for_tests import DRAW, draw_digest
from paper_for_tests import POSSIBLE, SLOW, SMALL, small_plan
from spaql import cli
from spaql.runner.store import STORE
from spaql.studies import study as studies
from spaql.studies.paper import plan as plans
from spaql.studies.paper.reproduction import Paper
from spaql.studies.study import run_study

pytestmark = [pytest.mark.tiny_planning, pytest.mark.usefixtures("tiny_plans_of_children")]
DRIVER = Path(__file__).with_name("paper_for_tests.py")


@pytest.fixture(scope="module", autouse=True)
def little_effort():
    """A short yardstick, and figures of one line, here as in the processes that are started."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(studies, "_draw", draw_digest)
        if SLOW:
            patch.setattr(studies, "_YARDSTICK", 400)
        yield


def files_in(folder):
    """Every file but the store, by name."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.startswith(STORE)]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def reproduce(folder, workers):
    return run_study(Paper(small_plan()), folder, workers=workers, progress_bar=False)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    outcome = reproduce(folder, 1)
    return folder, outcome


def test_everything_is_written(undisturbed, tmp_path, monkeypatch):
    folder, first = undisturbed
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    shutil.rmtree(tmp_path / "figures")
    monkeypatch.setattr(studies, "_draw", DRAW)
    outcome = reproduce(tmp_path, 2)
    written = files_in(tmp_path)
    names = set(written)
    assert names == set(files_in(folder))
    assert all(len(content) > 5000 for name, content in written.items() if name.startswith("figures/"))
    assert {
        "tables.md",
        "tables.csv",
        "tables.json",
        "tables.tex",
        "report.html",
        "findings.md",
        "findings.json",
    } <= names
    wanted = [
        *SMALL,
        "oil-steps",
        "ambulance-steps",
        "oil-scaling",
        "ambulance-scaling",
        "oil-scaling-evaluation",
        *(f"finding-{key}" for key in POSSIBLE),
    ]
    assert {f"figures/{name}.{kind}" for name in wanted for kind in ("png", "svg")} <= names
    assert {path.relative_to(tmp_path).as_posix() for path in outcome.files} | {"study.json"} == names
    assert first.cost.runs > 100
    assert first.cost.simulation_seconds > 0


@pytest.mark.compiled_only
def test_two_threads_write_the_same_bytes(undisturbed, tmp_path):
    reproduce(tmp_path, 2)
    assert files_in(tmp_path) == files_in(undisturbed[0])


def test_nothing_is_done_twice(undisturbed):
    folder, first = undisturbed
    before = files_in(folder)
    outcome = reproduce(folder, 2)
    assert (first.cost.runs > 0, outcome.cost.runs) == (True, 0)
    assert str(outcome.cost) == "all runs were finished before"
    assert files_in(folder) == before


def finished_runs(folder):
    path = folder / STORE
    if not path.exists():
        return 0
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return connection.execute("SELECT count(*) FROM runs").fetchone()[0]
    except sqlite3.OperationalError:  # not made yet
        return 0
    finally:
        connection.close()


def start(folder, **options):
    command = [sys.executable, str(DRIVER), str(folder), "2"]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **options)


def wait_for(condition, process):
    """Poll until the condition holds; False where the process ended before."""
    deadline = time.monotonic() + 300
    while not condition():
        if process.poll() is not None:
            return False
        if time.monotonic() > deadline:
            process.kill()
            pytest.fail("the process hangs")
        time.sleep(0.001)
    return True


@pytest.mark.compiled_only
def test_killed_at_any_moment_it_goes_on_and_ends_in_the_same_bytes(undisturbed, tmp_path):
    total = finished_runs(undisturbed[0])
    kept = kills = 0
    for share in (0.0, 0.2, 0.5, 0.9):
        with start(tmp_path) as process:
            if wait_for(lambda share=share: finished_runs(tmp_path) > share * total, process):
                process.kill()
                kills += 1
        assert finished_runs(tmp_path) >= kept  # nothing lost
        kept = finished_runs(tmp_path)
    with start(tmp_path) as process:  # and once while it writes its files
        if wait_for(lambda: any(tmp_path.glob(".*-tables.md")), process):
            process.kill()
            kills += 1
    assert kills >= 4  # one that was too quick is no harm, all of them would be
    with start(tmp_path) as process:
        _, errors = process.communicate(timeout=300)
    assert (process.returncode, errors) == (0, "")
    assert finished_runs(tmp_path) == total  # nothing twice
    assert files_in(tmp_path) == files_in(undisturbed[0])


@pytest.mark.compiled_only
def test_a_full_disk_is_a_sentence_and_keeps_what_is_done(undisturbed, tmp_path):
    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, 150_000))

    with start(tmp_path, preexec_fn=small_files) as process:
        _, errors = process.communicate(timeout=300)
    assert process.returncode == 1
    (line,) = errors.splitlines()
    assert line.startswith("one sentence: ")
    assert "disk is full" in line or "cannot be" in line
    with start(tmp_path) as process:
        _, errors = process.communicate(timeout=300)
    assert (process.returncode, errors) == (0, "")
    assert files_in(tmp_path) == files_in(undisturbed[0])


# The command line ----------------------------------------------------------------------------------------------


@pytest.fixture
def small_command(monkeypatch):
    """`spaql paper` with the small plan in place of its own."""
    monkeypatch.setattr(plans, "quick", lambda settings, agents, seed: small_plan(seed, [s.id for s in settings]))


def test_json_prints_all_rows(small_command, tmp_path, capsys):
    arguments = ["paper", "--quick", "--quiet", "--json", "--problems", "ambulance-beta-0", "--out", str(tmp_path)]
    assert cli.main(arguments) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["algorithm"] for row in rows] == ["random", "no-movement", "mean", "median", "aql", "spaql", "tessera"]
    for row in rows:
        assert set(row) == set(rows[0])
    assert rows[-2]["printed"] == 4.47


@pytest.mark.compiled_only
def test_text_and_a_smaller_study_after_a_larger_one(small_command, tmp_path, capsys):
    both = ["--problems", "ambulance-beta-0", "ambulance-uniform-0"]
    assert cli.main(["paper", "--quick", "--quiet", "--out", str(tmp_path), *both]) == 0
    shown = capsys.readouterr().out
    assert "ambulance Beta, c = 0" in shown
    assert "report.html" in shown
    assert "times the bare simulation of the same steps" in shown
    assert cli.main(["paper", "--quick", "--quiet", "--out", str(tmp_path), *both[:2]]) == 0
    assert "all runs were finished before" in capsys.readouterr().out
    assert not list(tmp_path.glob("figures/*uniform*"))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--problems", "oil-laplace-2"], "--problems: 'oil-laplace-2' is not one of"),
        (["--agents", "1"], "--agents"),
        (["--workers", "0"], "--workers"),
        (["--seed", "-1"], "--seed"),
    ],
)
def test_bad_input_is_one_sentence(arguments, sentence, tmp_path, capsys):
    assert cli.main(["paper", "--out", str(tmp_path / "out"), *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert sentence in line
    assert not (tmp_path / "out").exists()


@pytest.mark.compiled_only
def test_ctrl_c_is_one_line_that_says_how_to_go_on(tmp_path):
    command = [sys.executable, "-m", "spaql", "paper", "--quick", "--quiet", "--out", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert wait_for(lambda: finished_runs(tmp_path) > 20, process)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (130, "")
    lines = [line for line in errors.splitlines() if "compil" not in line]
    assert lines == [f"spaql: stopped; finished runs are kept in {tmp_path}, and the same command resumes"]
    assert finished_runs(tmp_path) > 20


@pytest.mark.compiled_only
def test_two_processes_on_one_folder(tmp_path, capsys):
    with start(tmp_path) as process:
        assert wait_for(lambda: finished_runs(tmp_path) > 0, process)
        process.send_signal(signal.SIGSTOP)  # so that it is still there, however long the command takes
        code = cli.main(["paper", "--quiet", "--out", str(tmp_path)])
        process.kill()
    assert code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"is in use by process {process.pid} on " in line
    assert line.endswith("; wait for it, or choose another folder")
