"""The store: what was added stays, whole; whatever is wrong with a file is one sentence, and the file is untouched."""

from __future__ import annotations

import socket
import sqlite3
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from spaql.errors import StoreError
from spaql.runner.record import Record
from spaql.runner.store import Store, lock_of

CODE = "spaql 1, abc"


def fill(path, keys="ab", code=CODE):
    with Store(path, code=code) as store:
        store.add(
            (key, f'{{"name": "{key}"}}', Record({"score": 1.5, "none": None}, {"x": np.arange(3)})) for key in keys
        )


def test_what_was_added_is_there_after_reopening(tmp_path):
    path = tmp_path / "runs.sqlite"
    table = np.zeros(2, [("a", np.int32), ("b", np.float64)])
    with Store(path, code=CODE) as store:
        store.add([("k", "{}", Record({"third": 1 / 3, "steps": 2**62}, {"x": np.array([0.1, np.nan]), "t": table}))])
    with Store(path, code=CODE) as store:
        assert len(store) == 1
        assert store.scalars(["k", "missing"]) == {"k": {"third": 1 / 3, "steps": 2**62}}
        arrays = store.arrays("k")
        np.testing.assert_array_equal(arrays["x"], [0.1, np.nan])
        assert arrays["t"].dtype == table.dtype
        assert store.arrays("missing") == {}


def test_a_run_is_stored_once(tmp_path):
    path = tmp_path / "runs.sqlite"
    fill(path, "ab")
    with Store(path, code=CODE) as store:
        store.add([("a", "other", Record({"score": 9.0}))])
        assert store.scalars("a")["a"]["score"] == 1.5
        assert len(store) == 2


def test_more_ids_than_one_question_takes(tmp_path):
    keys = [f"{i:05}" for i in range(2500)]
    fill(tmp_path / "runs.sqlite", keys)
    with Store(tmp_path / "runs.sqlite", code=CODE) as store:
        assert set(store.scalars(keys)) == set(keys)


def test_what_cannot_be_stored_stores_nothing(tmp_path):
    with Store(tmp_path / "runs.sqlite", code=CODE) as store:
        with pytest.raises(ValueError, match="not finite"):
            store.add([("a", "{}", Record({"x": 1.0})), ("b", "{}", Record({"x": float("nan")}))])
        with pytest.raises(ValueError, match="not of plain numbers"):
            store.add([("a", "{}", Record({"x": 1.0}, {"o": np.array([object()])}))])
        assert len(store) == 0


def test_a_store_that_is_deleted_is_missed(tmp_path):
    with Store(tmp_path / "runs.sqlite", code=CODE) as store:
        (tmp_path / "runs.sqlite").unlink()
        with pytest.raises(StoreError, match="is gone: somebody moved or deleted it"):
            store.add([("a", "{}", Record({"x": 1.0}))])


def test_two_processes(tmp_path):
    path = tmp_path / "runs.sqlite"
    script = f"""
        from spaql.runner.store import Store, lock_of
        store = Store({str(path)!r}, code={CODE!r})
        print("open", flush=True)
        input()
    """
    holder = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout.readline() == "open\n"
        held = rf"is in use by process {holder.pid} on {socket.gethostname()} since \d{{4}}-.*; wait for it, or choose"
        with pytest.raises(StoreError, match=held):
            Store(path, code=CODE)
        lock_of(path).write_bytes(b"{")  # whatever it says
        with pytest.raises(StoreError, match="is in use by another process; wait for it, or choose another folder"):
            Store(path, code=CODE)
        holder.kill()
    fill(path)  # the lock of a killed process is gone with it


def damaged_in_the_middle(path):
    with Store(path, code=CODE) as store:
        store.add((f"{i}", "x" * 2000, Record({"score": 1.0})) for i in range(200))
    data = bytearray(path.read_bytes())
    data[20_000:40_000] = b"\xff" * 20_000
    path.write_bytes(data)


def not_a_database(path):
    path.write_bytes(b"nothing that SQLite knows" * 1000)


def of_a_newer_format(path):
    fill(path)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()


def of_something_else(path):
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()


def of_other_code(path):
    fill(path, code="spaql 0, xyz")


def cut_short(path):
    fill(path)
    path.write_bytes(path.read_bytes()[:5000])


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (damaged_in_the_middle, "is damaged"),
        (cut_short, "is damaged"),
        (not_a_database, "is damaged .*restore a copy of it, or move it away"),
        (of_a_newer_format, "has format 99, and this version of spaql reads format 2"),
        (of_something_else, "is a database of something else"),
        (of_other_code, "was filled by other code .*spaql 0, xyz.*must not be mixed"),
    ],
)
def test_a_store_that_cannot_be_used_is_refused_and_left_alone(tmp_path, spoil, sentence):
    path = tmp_path / "runs.sqlite"
    spoil(path)
    before = path.read_bytes()
    with pytest.raises(StoreError, match=sentence) as caught:
        Store(path, code=CODE)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == before
    with pytest.raises(StoreError, match=sentence):  # and the lock was given back
        Store(path, code=CODE)


def test_an_array_that_was_damaged_is_told(tmp_path):
    path = tmp_path / "runs.sqlite"
    fill(path)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE arrays SET data = X'00' WHERE run = 'a'")
    connection.close()
    with Store(path, code=CODE) as store, pytest.raises(StoreError, match=r"is damaged \(array x of run a"):
        store.arrays("a")


def test_a_full_disk_loses_nothing_that_was_there(tmp_path):
    path = tmp_path / "runs.sqlite"
    fill(path, "ab")
    big = np.random.default_rng(0).random(100_000)
    with Store(path, code=CODE) as store:
        pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
        store._connection.execute(f"PRAGMA max_page_count = {pages + 5}")  # SQLite then acts as on a full disk
        with pytest.raises(StoreError, match="the disk is full; what was stored before is safe"):
            store.add([("c", "{}", Record({}, {"big": big}))])
        assert len(store) == 2
    with Store(path, code=CODE) as store:
        store.add([("c", "{}", Record({}, {"big": big}))])
        np.testing.assert_array_equal(store.arrays("c")["big"], big)


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be locked"):
        Store(tmp_path / "file" / "runs.sqlite", code=CODE)


def test_one_flipped_bit_is_told_or_does_no_harm(tmp_path):
    path = tmp_path / "runs.sqlite"
    keys = [f"{i:03}" for i in range(20)]
    fill(path, keys)
    with Store(path, code=CODE) as store:
        expected = store.scalars(keys), {key: store.arrays(key)["x"].tolist() for key in keys}
    whole = path.read_bytes()
    random = np.random.default_rng(0)
    refused = 0
    for _ in range(300):
        data = bytearray(whole)
        data[random.integers(len(data))] ^= 1 << random.integers(8)
        path.write_bytes(data)
        try:
            with Store(path, code=CODE) as store:
                content = store.scalars(keys), {key: store.arrays(key) for key in keys}
        except StoreError:
            refused += 1
            continue
        finally:
            for beside in tmp_path.glob("runs.sqlite-*"):
                beside.unlink()
        for key, scalars in content[0].items():  # a run may be missing, and is then done again; it is never another
            assert scalars == expected[0][key]
        for key, arrays in content[1].items():
            assert all(array.tolist() == expected[1][key] for array in arrays.values())
    assert refused > 20
