"""Odd study files and command lines: each is one sentence on stderr and a non-zero exit code, never a traceback."""

from __future__ import annotations

import errno
import json
import os

import pytest

from spaql.cli import main
from spaql.errors import OutputError, ParameterError, StudyError
from spaql.runner.folder_lock import is_locked
from spaql.runner.train_dir import TrainDir, check_idle, find_maker, lock_folder
from spaql.studies.sweep.group_values import read_values
from spaql.studies.sweep.sweep_study import Sweep
from sweeps_for_tests import fill

STUDY = """
seeds = 1
episodes = 2
{top}
[[problems]]
problem = {problem}
{problems}
[[algorithms]]
algorithm = {algorithm}
{algorithms}
"""
DIGITS, HEXADECIMAL, HUGE, LONG = "9" * 5000, "0x" + "f" * 5000, "9" * 400, f'"{"a" * 5000}"'
DEEP = "[" * 1000 + "]" * 1000
ODD = {
    "digits": DIGITS, "hexadecimal": HEXADECIMAL, "huge": HUGE, "2^64": str(2**64), "-2^65": str(-(2**65)),
    "nan": "nan", "inf": "-inf", "1e308": "1e308", "empty": '""', "null": '"\\u0000"', "long": LONG, "deep": DEEP,
    "nested": "[" * 40 + "]" * 40, "date": "2020-01-01", "table": "{ a = { a = 1 } }", "list": "[[], {}]",
}  # fmt: skip
PLACES = {
    "steps": {"top": "steps = {}"},
    "seed": {"top": "iterations = 2\nseed = {}"},
    "name": {"top": "iterations = 2\nbaseline = {}"},
    "problem": {"problem": "{}"},
    "argument": {"problems": "arguments = {{ survey = {} }}"},
    "grid": {"problems": "grid = {{ horizon = [{}] }}"},
    "horizon": {"problem": '"CartPole-v1"', "problems": "horizon = {}"},
    "algorithm": {"algorithm": "{}"},
    "list": {"algorithms": "list = [{{ rollouts = {} }}]"},
    "random": {"algorithms": "draws = 2\nrandom = {{ rollouts = {{ low = 1, high = {}, whole = true }} }}"},
    "log": {"algorithms": "draws = 2\nrandom = {{ rollouts = {{ low = 1, high = {}, whole = true, log = true }} }}"},
}


def write(path, **changes):
    usual = {"top": "iterations = 2", "problem": '"oil"', "problems": "", "algorithm": '"aql"', "algorithms": ""}
    path.write_text(STUDY.format(**usual | changes))
    return path


@pytest.mark.parametrize("place", PLACES)
def test_an_odd_value_in_a_study_file_is_one_sentence(tmp_path, capsys, place):
    for value in ODD.values():
        changes = {name: form.format(value) for name, form in PLACES[place].items()}
        file = write(tmp_path / "odd.toml", **changes)
        assert main(["sweep", str(file), "--out", str(tmp_path / "out"), "--quiet"]) == 2, changes
        _, err = capsys.readouterr()
        assert err.startswith("spaql: study file"), err
        assert err.count("\n") == 1
        assert len(err) < 1100
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"top": f"steps = {HEXADECIMAL}"}, "steps: an integer of 20,000 bits; at most 64 are allowed"),
        ({"top": f"iterations = 2\nseeds = {DEEP}"}, "its lists or tables are nested too deeply"),
        ({"problems": f"{'.'.join(['arguments', *'a' * 1500])} = 1"}, r"problems\[1\]: more than 32 levels of lists"),
        (
            {"algorithms": "draws = 1\nrandom = { rollouts = { low = -1, high = 9223372036854775807, whole = true } }"},
            r"whole needs integers as low and high, of at most 2\^53",
        ),
        ({"top": 'iterations = 2\nseeding = "{problem:>9999999999}"'}, r"write \{name\}, without a format"),
        ({"top": 'iterations = 2\nseeding = "{problem!r}"'}, r"write \{name\}, without a format"),
    ],
)
def test_what_is_wrong_is_told(tmp_path, changes, sentence):
    with pytest.raises(StudyError, match=sentence):
        Sweep.load(write(tmp_path / "odd.toml", **changes))


def test_a_study_file_that_never_ends(tmp_path, monkeypatch):
    monkeypatch.setattr("spaql.studies.sweep.study_file._LARGEST", 1000)
    (tmp_path / "long.toml").write_text("#" * 1001)
    with pytest.raises(StudyError, match="it has more than 1,000 bytes"):
        Sweep.load(tmp_path / "long.toml")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names here")
@pytest.mark.parametrize("kind", ["pipe", "endless", "large"])
def test_what_stands_in_a_folder_is_read_within_bounds(tmp_path, kind, monkeypatch):
    """A pipe that nobody writes to, or a link to a file that never ends, is a sentence and no hang."""

    def put(path):
        path.unlink(missing_ok=True)
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "endless":
            path.symlink_to("/dev/zero")
        else:
            path.write_text(" " * 1001)

    for module in ("runner.train_dir", "studies.sweep.group_values"):
        monkeypatch.setattr(f"spaql.{module}._LARGEST", 1000)
    why = "too large" if kind == "large" else "not a regular file"
    put(tmp_path / "train.json")
    with pytest.raises(ParameterError, match=why):
        TrainDir.check_begun(tmp_path)
    assert find_maker(tmp_path) is None
    fill(tmp_path / "study")
    put(tmp_path / "study" / "study.json")
    with pytest.raises(StudyError, match=why):
        read_values(tmp_path / "study")
    put(tmp_path / "train.lock")
    assert is_locked(tmp_path / "train.lock") is (None if why.startswith("not") else False)
    if kind != "large":
        check_idle(tmp_path)
        with pytest.raises(OutputError, match="cannot be locked: not a regular file"):
            lock_folder(tmp_path)


# Command lines -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with files and folders that are not what a command expects."""
    root = tmp_path_factory.mktemp("odd")
    (root / "folder").mkdir()
    (root / "empty").touch()
    (root / "junk").write_bytes(bytes(range(256)) * 20)
    (root / "deep.json").write_text("[" * 100_000)
    (root / "digits.json").write_text('{"algorithm": "aql", "parameters": {"scaling": ' + DIGITS + "}}")
    (root / "loop").symlink_to(root / "loop")
    for name, file, content in (
        ("train-deep", "train.json", "[" * 100_000),
        ("train-digits", "train.json", '{"format": 2, "run": ' + DIGITS + "}"),
        ("agent-junk", "agent.spaql", "junk"),
        ("store-junk", "runs.sqlite", "junk" * 1000),
        ("store-empty", "runs.sqlite", ""),
        ("store-locked", "runs.sqlite.lock/a", ""),
        ("study-junk", "study.json", "junk"),
    ):
        (root / name / file).parent.mkdir(parents=True)
        (root / name / file).write_text(content)
    for name, content in (("swept-deep", "[" * 100_000), ("swept-junk", '{"groups": [{"run": 3}]}')):
        fill(root / name)
        (root / name / "study.json").write_text(content)
    return root


PATHS = [
    *("", " ", "none", "folder", "empty", "junk", "deep.json", "digits.json", "loop", "x" * 300, "x/" * 3000),
    *("\u202e\U0001f600", "a\nb", "a\0b", "\udcff", "empty/x", "train-deep", "train-digits", "agent-junk"),
    *("store-junk", "store-empty", "study-junk", "swept-deep", "swept-junk"),
]
READERS = {
    "evaluate": ["evaluate", "{}"],
    "show": ["show", "{}", "--no-open"],
    "export": ["export", "{}", "out.c"],
    "explain": ["explain", "{}", "0.5"],
    "rules": ["rules", "{}"],
    "resume": ["train", "--resume", "{}", "--quiet"],
    "params": ["train", "oil", "--params", "{}", "--quiet"],
    "problem": ["train", "{}", "--quiet"],
    "algorithm": ["train", "oil", "--algorithm", "{}", "--quiet"],
    "sweep": ["sweep", "{}", "--out", "out", "--quiet"],
    "tune": ["tune", "{}", "--out", "out", "--quiet"],
    "table": ["sweep", "table", "{}"],
    "plot": ["sweep", "plot", "{}"],
    "sweep export": ["sweep", "export", "{}"],
    "report": ["sweep", "report", "{}"],
}


def refused(capsys, words):
    try:
        code = main(words)
    except SystemExit as stop:  # argparse
        code = stop.code
    _, err = capsys.readouterr()
    assert code == 2, (words, code)
    assert err.count("\n") == 1, err
    assert len(err) < 1200
    return err


@pytest.mark.parametrize("command", READERS)
def test_an_odd_path_to_read_is_one_sentence(place, capsys, monkeypatch, command):
    monkeypatch.chdir(place)
    for path in PATHS:
        if command != "tune" or path:
            refused(capsys, [word.format(path) for word in READERS[command]])


@pytest.mark.parametrize("path", ["x" * 300, "x/" * 3000, "empty", "empty/x", "loop", "a\0b", "store-locked"])
def test_an_odd_path_to_write_is_one_sentence(place, capsys, monkeypatch, path):
    monkeypatch.chdir(place)
    study = write(place / "study.toml", algorithm='"random"')
    quick = ["--iterations", "2", "--episodes", "2", "--quiet"]
    refused(capsys, ["sweep", str(study), "--out", path, "--quiet"])
    if path != "store-locked":
        refused(capsys, ["train", "oil", "--algorithm", "aql", *quick, "--out", path])


def test_more_failures_than_a_store_can_count_are_one_sentence(tmp_path, capsys):
    fill(tmp_path / "study")
    for number in (10**9 + 1, 2**63 + 5):
        error = refused(capsys, ["sweep", "status", str(tmp_path / "study"), "--failures", str(number)])
        assert "--failures: expected a whole number of at least 0 and at most 1000000000" in error


NUMBERS = ["", "x", "nan", "-inf", "1e400", "-1", "9" * 30, DIGITS, "\u0663x", "0x10", "2.5"]
COUNTS = {
    "seed": ["train", "oil", "--seed"],
    "episodes": ["evaluate", "none", "--episodes"],
    "workers": ["sweep", "none.toml", "--out", "out", "--workers"],
    "timeout": ["sweep", "none.toml", "--out", "out", "--run-timeout"],
    "failures": ["sweep", "status", "none", "--failures"],
    "every": ["sweep", "watch", "none", "--once", "--every"],
    "trials": ["tune", "none.toml", "--out", "out", "--trials"],
    "agents": ["control", "--workers", "0", "--agents"],
    "step": ["rules", "none", "--step"],
}


@pytest.mark.parametrize("option", COUNTS)
def test_an_odd_number_is_one_sentence(tmp_path, capsys, monkeypatch, option):
    monkeypatch.chdir(tmp_path)
    for number in NUMBERS:
        if option != "every" or number not in ("9" * 30, "2.5"):
            refused(capsys, [*COUNTS[option], number])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(errno.ENOENT, "No such file", "/their/file"),
        FileNotFoundError(errno.ENOENT, "No such file", "mine_prices.csv"),
        OSError(errno.EIO, "Input/output error", "mine"),
        OSError("no number"),
    ],
)
def test_an_error_of_the_system_about_another_file_is_no_sentence_of_ours(capsys, monkeypatch, error):
    """What a user's code cannot read is a bug with a traceback, not a mistake on the command line."""

    def fail(options):
        raise error

    monkeypatch.setattr("spaql.cli.agents._evaluate", fail)
    with pytest.raises(type(error)):
        main(["evaluate", "mine"])


def test_an_error_of_the_system_about_a_path_that_was_given_is_one_sentence(capsys, monkeypatch):
    def fail(options):
        raise FileNotFoundError(errno.ENOENT, "No such file", "mine/prices.csv")

    monkeypatch.setattr("spaql.cli.agents._evaluate", fail)
    assert "'mine/prices.csv': No such file; check the name" in refused(capsys, ["evaluate", "./mine"])


def test_parameters_from_a_file_that_never_ends(capsys, monkeypatch):
    if not os.path.exists("/dev/zero"):
        pytest.skip("there is no such file here")
    monkeypatch.setattr("spaql.cli.train._LARGEST", 1000)
    assert "it is too large" in refused(capsys, ["train", "oil", "--params", "/dev/zero"])


def test_tables_of_odd_input_are_what_they_say():
    with pytest.raises(ValueError, match="4300 digits"):
        json.loads(DIGITS)
