"""Files are written whole or not at all."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from spaql import atomic_io
from spaql.atomic_io import clean_folder, write_file, write_files
from spaql.errors import OutputError


def fill_disk(path):
    path.write_bytes(b"half")
    raise OSError(28, "No space left on device")


def names_in(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_contents_are_text_bytes_and_functions(tmp_path):
    steps = []
    files = {"a.txt": "ä\n", "b.bin": b"\x00\r\n", "figures/c.txt": lambda path: path.write_text("c")}
    written = write_files(tmp_path, files, known=["a.txt", "old.txt"], advance=lambda: steps.append(1))
    assert written == [tmp_path / name for name in files]
    assert [path.read_bytes() for path in written] == ["ä\n".encode(), b"\x00\r\n", b"c"]
    assert len(steps) == 3
    assert names_in(tmp_path) == sorted(files)


def test_files_of_an_earlier_result_are_removed(tmp_path):
    for name in ("old.txt", "mine.txt"):
        write_file(tmp_path / name, "")
    write_files(tmp_path, {"new.txt": ""}, known=["new.txt", "old.txt", "never.txt"])
    assert names_in(tmp_path) == ["mine.txt", "new.txt"]


def test_a_failure_keeps_all_old_files(tmp_path):
    write_files(tmp_path, {"a": "old", "b": "old"})
    with pytest.raises(OutputError, match=r"/b' cannot be written: No space left on device"):
        write_files(tmp_path, {"a": "new", "b": fill_disk, "c": "new"}, known=["a", "b", "c"])
    with pytest.raises(ZeroDivisionError):
        write_files(tmp_path, {"a": "new", "b": lambda path: 1 / 0})
    assert names_in(tmp_path) == ["a", "b"]
    assert (tmp_path / "a").read_text() == (tmp_path / "b").read_text() == "old"


def test_every_file_is_on_the_disk_before_any_is_renamed(tmp_path, monkeypatch):
    calls = []
    fsync, replace = os.fsync, os.replace

    def record_fsync(number):
        calls.append(("fsync", os.fstat(number).st_size))
        fsync(number)

    def record_replace(source, target):
        calls.append(("replace", Path(target).name))
        replace(source, target)

    monkeypatch.setattr(atomic_io.os, "fsync", record_fsync)
    monkeypatch.setattr(atomic_io.os, "replace", record_replace)
    write_files(tmp_path, {"a": "1", "b": lambda path: path.write_text("22")})
    write_file(tmp_path / "c", b"333")
    both = [("fsync", 1), ("fsync", 2), ("replace", "a"), ("replace", "b")]
    assert calls == [*both, ("fsync", 3), ("replace", "c")]


def test_a_link_is_followed_and_stays(tmp_path):
    (tmp_path / "there").mkdir()
    for name in ("one", "two"):
        (tmp_path / name).symlink_to(tmp_path / "there" / name)
    write_file(tmp_path / "one", "1")
    write_files(tmp_path, {"two": "2"})
    for name, text in (("one", "1"), ("two", "2")):
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / "there" / name).read_text() == text
    assert len(list((tmp_path / "there").iterdir())) == 2


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_folders_and_devices_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("/dev/null")
    for name, reason in (("pipe", "not a regular file"), ("link", "not a regular file"), ("folder", "a folder")):
        with pytest.raises(OutputError, match=f"/{name}' cannot be written: it is {reason}; move it"):
            write_file(tmp_path / name, "")
        with pytest.raises(OutputError, match=reason):
            write_files(tmp_path, {"new": "", name: ""})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "link", "pipe"]


def test_threads_may_write_one_file_at_once(tmp_path):
    contents = [bytes([at]) * 200_000 for at in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda content: write_file(tmp_path / "new" / "file", content), contents * 4))
    assert (tmp_path / "new" / "file").read_bytes() in contents
    assert names_in(tmp_path) == ["new/file"]


def test_what_a_killed_process_left_is_removed(tmp_path):
    left = []

    def keep_a_copy(path):
        path.write_text("half")
        left.append(path)

    write_files(tmp_path, {"a.txt": keep_a_copy, "figures/b.png": keep_a_copy})
    write_file(tmp_path / "c.spaql", keep_a_copy)
    for path in (*left, tmp_path / ".spaql-notes", tmp_path / ".hidden"):
        path.write_text("half")
    clean_folder(tmp_path)
    assert names_in(tmp_path) == [".hidden", ".spaql-notes", "a.txt", "c.spaql", "figures/b.png"]
