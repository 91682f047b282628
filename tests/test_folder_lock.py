"""Two processes on one folder: the second is told at once who holds it, whatever the command."""

from __future__ import annotations

import json
import os
import socket

import pytest

from spaql.cli import main
from spaql.errors import OutputError
from spaql.runner import folder_lock
from spaql.runner.folder_lock import FolderLock, check_unlocked, is_locked
from spaql.runner.store import STORE, Store
from spaql.runner.train_dir import LOCK, lock_folder

fcntl = pytest.importorskip("fcntl")
HOLDER = f"is in use by process {os.getpid()} on {socket.gethostname()} since 2"
STUDY = """
iterations = 2
[[problems]]
problem = "oil"
[[algorithms]]
algorithm = "aql"
"""
RANGES = "[algorithms.random]\nscaling = { low = 0.1, high = 1.0 }\n"


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch):
    monkeypatch.setattr(folder_lock, "_PATIENCE", 0.1)


def listing(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def refused(capsys, *words):
    assert main([str(word) for word in words]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1), err
    return err


@pytest.mark.parametrize("words", [["train", "oil"], ["train", "oil", "--overwrite"], ["train", "--resume"]])
def test_a_second_process_cannot_train_in_the_folder(tmp_path, capsys, words):
    assert main(["train", "oil", "--algorithm", "aql", "--iterations", "2", "--episodes", "2", "--quiet",
                 "--out", str(tmp_path)]) == 0  # fmt: skip
    capsys.readouterr()
    assert not (tmp_path / LOCK).exists()
    where = [tmp_path] if words[-1] == "--resume" else ["--out", tmp_path]
    with lock_folder(tmp_path):
        before = listing(tmp_path)
        assert HOLDER in refused(capsys, *words, *where, "--quiet")
        assert listing(tmp_path) == before


COMMANDS = ["sweep", "tune", "paper", "ablation", "families", "family", "control"]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_second_process_cannot_run_a_study_in_the_folder(tmp_path, capsys, command):
    if command == "tune":
        pytest.importorskip("optuna")
    file = tmp_path / "study.toml"
    file.write_text(STUDY + (RANGES if command == "tune" else ""))
    words = [file] if command in ("sweep", "tune") else ["--quick"]
    (tmp_path / "out").mkdir()
    with Store(tmp_path / "out" / STORE, code="test"):
        assert HOLDER in refused(capsys, command, *words, "--out", tmp_path / "out", "--quiet")


def test_a_lock_is_taken_by_one_and_then_by_another(tmp_path):
    path = tmp_path / "lock"
    check_unlocked(path, "it")  # there is none
    with FolderLock(path, "it"):
        assert is_locked(path) is True
        assert json.loads(path.read_bytes())["process"] == os.getpid()
        with pytest.raises(OutputError, match=rf"^it {HOLDER}.*; wait for it, or choose another folder$"):
            FolderLock(path, "it")
        with pytest.raises(OutputError, match=rf"^it {HOLDER}"):
            check_unlocked(path, "it")
    assert is_locked(path) is False
    with FolderLock(path, "it", remove=True):
        pass
    assert not path.exists()


@pytest.mark.parametrize("content", [b"", b"\xff", b"[" * 5000, b"3", b'{"process": "x", "host": 1, "since": 1e99}'])
def test_whatever_the_file_of_a_lock_says_it_is_held(tmp_path, content):
    path = tmp_path / "lock"
    with FolderLock(path, "it"):
        path.write_bytes(content)
        with pytest.raises(OutputError, match=r"^it is in use by another process; wait for it"):
            FolderLock(path, "it")


def test_a_lock_whose_file_is_removed_or_replaced_meanwhile_is_not_taken_twice(tmp_path, monkeypatch):
    """Whoever releases a lock removes its file, perhaps just after another has opened it."""
    path, flock = tmp_path / "lock", fcntl.flock
    first = FolderLock(path, "it", remove=True)
    calls = []

    def release_then_lock(descriptor, how):
        if how == fcntl.LOCK_UN:
            return flock(descriptor, how)
        calls.append(how)
        if len(calls) == 1:
            first.release()
        return flock(descriptor, how)

    monkeypatch.setattr("fcntl.flock", release_then_lock)
    with FolderLock(path, "it"):
        assert len(calls) == 2  # the first was a lock of a file that has no name any more
        assert is_locked(path) is True


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_neither_keeps_nor_frees_a_lock(tmp_path):
    path = tmp_path / "lock"
    lock = FolderLock(path, "it", remove=True)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:  # lives until its parent has taken the lock again
        os.close(writer)
        os.read(reader, 1)
        os._exit(0)
    try:
        other = os.fork()
        if other == 0:
            lock.release()
            os._exit(0)
        os.waitpid(other, 0)
        assert is_locked(path) is True
        lock.release()
        with FolderLock(path, "it"):
            assert is_locked(path) is True
    finally:
        os.close(writer)
        os.waitpid(child, 0)
        os.close(reader)


def test_a_lock_that_cannot_be_made(tmp_path):
    (tmp_path / "lock").mkdir()
    with pytest.raises(OutputError, match=r"^it cannot be locked: Is a directory; choose another folder"):
        FolderLock(tmp_path / "lock", "it")


def test_without_flock_another_lock_takes_its_place(tmp_path, monkeypatch):
    monkeypatch.setattr(folder_lock, "_import_fcntl", lambda: None)
    path = tmp_path / "lock"
    with FolderLock(path, "it"), pytest.raises(OutputError, match=r"^it is in use by another process"):
        FolderLock(path, "it")
    with FolderLock(path, "it"):
        assert is_locked(path) is None
