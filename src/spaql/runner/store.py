"""The store of runs: one SQLite file, in which a run is whole or missing.

The id of a run is the hash of its specification, so that a finished run is found again whatever else the study has
become, and never stored twice.  Arrays are .npy bytes, deflated.  Each row has a digest of its content, checked
whenever it is read; the seconds are not a result and are left out of it.  A run that succeeds later is not a failure
any more.  `progress` is the last report of the process that performs the runs.  Everything that one `add` brings is one
transaction: a process may be killed at any moment, and what was added before stays.

Beside the file stand its write-ahead log and a lock: whoever moves the store moves all files that begin with its name.
One process writes at a time; the system frees its lock when it ends.  Any number may read meanwhile
(`Store.open_readonly`).  `about` names the code that computed the runs: results of two versions are never mixed.
"""

import hashlib
import json
import os
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Self

from numpy.typing import NDArray

from spaql.errors import NothingYetError, StoreError
from spaql.runner.folder_lock import FolderLock, check_unlocked
from spaql.runner.record import LARGEST_ARRAY, Failure, Record, check_record, encode_array
from spaql.validation import parse_json, parse_npy

STORE = "runs.sqlite"  # its usual name in a folder
FORMAT = 2
_APPLICATION = 0x73706171  # "spaq", by which SQLite files tell whose they are
#: made where it is missing: stores of earlier versions have none
_TRACEBACKS = "CREATE TABLE IF NOT EXISTS tracebacks (id TEXT PRIMARY KEY, text TEXT NOT NULL, digest TEXT NOT NULL)"
_SCHEMA = Path(__file__).with_name("schema.sql")


def lock_of(store: str | os.PathLike[str]) -> Path:
    """Return the file of the lock of a store."""
    return Path(f"{os.fspath(store)}.lock")


def check_unused(store: Path) -> None:
    """Raise a StoreError where another process writes to a store, before anything else is done."""
    check_unlocked(lock_of(store), f"the store {str(store)!r}", StoreError)


class Row(NamedTuple):
    """A finished run as the store has it."""

    id: str
    specification: str
    scalars: Mapping[str, float | int | None]
    seconds: float


class Store(AbstractContextManager["Store"]):
    """An open store; use it in a `with` statement, from one thread.

    Parameters
    ----------
    path
        The file; made where it is missing.
    code
        Identifies the code that computes runs, see `spaql.runner.code_version`; None to read only, whoever writes to
        the store meanwhile and whatever code filled it.

    Raises
    ------
    StoreError
        Where the store is in use, damaged, of another format or of other code, or cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str], *, code: str | None) -> None:
        self.path = Path(path)
        self._name = f"the store {str(self.path)!r}"
        if code is None and not os.path.isfile(self.path):
            raise NothingYetError(f"{self._name} is not there; name the folder of a study")
        with ExitStack() as opened, self._translate_errors():
            if code is not None:
                opened.enter_context(FolderLock(lock_of(self.path), self._name, error=StoreError))
            address = f"{self.path.resolve().as_uri()}?mode={'ro' if code is None else 'rwc'}"
            self._connection = opened.enter_context(closing(sqlite3.connect(address, uri=True, isolation_level=None)))
            empty = self._is_empty()
            if code is not None:
                self._prepare(code, empty)
            elif empty:
                raise NothingYetError(f"{self._name} has no runs yet; wait until its study has begun")
            self._opened = opened.pop_all()

    @classmethod
    def open_readonly(cls, path: str | os.PathLike[str]) -> Self:
        """Open a store to read only."""
        return cls(path, code=None)

    def _is_empty(self) -> bool:
        """Whether the file is empty; raises where it is not a store of this format."""
        ask = self._connection.execute
        [ours], [version] = (ask(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version"))
        if ask("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
            return True
        if ours != _APPLICATION:
            raise StoreError(f"{self._name} is a database of something else; choose another folder")
        if version != FORMAT:
            raise StoreError(
                f"{self._name} has format {version}, and this version of spaql reads format {FORMAT}; "
                "use the version that made it, or choose another folder"
            )
        return False

    def _prepare(self, code: str, empty: bool) -> None:
        """Make the tables of a new file; check an old one."""
        ask = self._connection.execute
        if not empty and ask("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise self._damaged("its pages do not fit together")
        ask("PRAGMA journal_mode = WAL")
        ask("PRAGMA synchronous = NORMAL")
        if empty:
            ours = f"PRAGMA application_id = {_APPLICATION}; PRAGMA user_version = {FORMAT};"
            self._connection.executescript(f"BEGIN IMMEDIATE; {ours} {_SCHEMA.read_text('utf-8')}")
            ask("INSERT INTO about VALUES ('code', ?)", (code,))
            ask("COMMIT")
        if self.code != code:
            raise StoreError(
                f"{self._name} was filled by other code ({self.code}, this is {code}), and its runs must not be mixed "
                "with new ones; choose another folder, or move it away to start anew"
            )
        ask(_TRACEBACKS)

    def _damaged(self, how: str) -> StoreError:
        return StoreError(
            f"{self._name} is damaged ({' '.join(how.split())}); restore a copy of it, or move it away, with all files "
            "that begin with its name, to start anew"
        )

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Turn errors of SQLite into a StoreError."""
        try:
            yield
        except (sqlite3.ProgrammingError, UnicodeEncodeError):
            raise  # a bug of ours, not of the file
        except sqlite3.OperationalError as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
            if code == sqlite3.SQLITE_CORRUPT:
                raise self._damaged(str(error)) from error
            if code == sqlite3.SQLITE_FULL:
                raise StoreError(f"{self._name}: the disk is full; what was stored before is safe") from error
            if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise StoreError(f"{self._name} is locked by another program; close that and try again") from error
            raise StoreError(f"{self._name} cannot be used: {error}; what was stored before is safe") from error
        except (sqlite3.DatabaseError, ValueError, zlib.error, EOFError) as error:
            raise self._damaged(str(error)) from error

    def _select(self, query: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """Rows of a query."""
        with self._translate_errors():
            yield from self._connection.execute(query, values)

    @property
    def code(self) -> str:
        """Identifies the code that computed the runs."""
        rows = list(self._select("SELECT value FROM about WHERE key = 'code'"))
        return str(rows[0][0]) if rows else "unknown"

    def add(
        self,
        entries: Iterable[tuple[str, str, Record]],
        *,
        failed: Iterable[tuple[str, str, Failure]] = (),
        progress: Mapping[str, Any] | None = None,
    ) -> None:
        """Store finished runs and failures, as (id, specification, result), and a report, all in one transaction.

        A failure replaces an earlier one of the same run; a progress of None leaves the last report.
        """
        runs, arrays = [], []
        for key, specification, given in entries:
            record = check_record(given)
            content = key, specification, json.dumps(dict(record.scalars), allow_nan=False)
            runs.append((*content, float(record.seconds), _digest(*content)))
            for name, array in record.arrays.items():
                data = key, name, zlib.compress(encode_array(array), 6)
                arrays.append((*data, _digest(*data)))
        failures, tracebacks = [], []
        for key, specification, failure in failed:
            about = key, specification, failure.kind, failure.message, failure.attempts
            failures.append((*about, _digest(*map(str, about))))
            tracebacks.append((key, failure.traceback, _digest(key, failure.traceback)))
        if not self.path.exists():
            raise StoreError(f"{self._name} is gone: somebody moved or deleted it; its runs are not here any more")
        with self._translate_errors(), self._connection:  # which commits at the end, and rolls back after an error
            self._connection.execute("BEGIN IMMEDIATE")
            many = self._connection.executemany
            many("INSERT OR IGNORE INTO runs VALUES (?, ?, ?, ?, ?)", runs)
            many("INSERT OR IGNORE INTO arrays VALUES (?, ?, ?, ?)", arrays)
            many("INSERT OR REPLACE INTO failures VALUES (?, ?, ?, ?, ?, ?)", failures)
            many("INSERT OR REPLACE INTO tracebacks VALUES (?, ?, ?)", tracebacks)
            for table in ("failures", "tracebacks"):
                many(f"DELETE FROM {table} WHERE id = ?", [run[:1] for run in runs])
            if progress is not None:
                many("INSERT OR REPLACE INTO progress VALUES (1, ?)", [(json.dumps(progress, allow_nan=False),)])

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read the state of one moment, whoever writes meanwhile."""
        with self._translate_errors():
            self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.execute("ROLLBACK")

    def __len__(self) -> int:
        [(count,)] = self._select("SELECT count(*) FROM runs")
        return int(count)

    @property
    def progress(self) -> dict[str, Any] | None:
        """The last report of the study's progress, or None."""
        rows = list(self._select("SELECT value FROM progress"))
        try:
            return dict(parse_json(rows[0][0])) if rows else None
        except (TypeError, ValueError) as error:
            raise self._damaged(f"its progress: {error}") from error

    def finished(self) -> set[str]:
        """Return the ids of all finished runs."""
        return {key for (key,) in self._select("SELECT id FROM runs")}

    def failures(self, most: int | None = None) -> dict[str, tuple[str, Failure]]:
        """Return specification and failure of the runs that failed, by id: all of them, or the last `most`."""
        last = "" if most is None else f"WHERE rowid IN (SELECT rowid FROM failures ORDER BY rowid DESC LIMIT {most:d})"
        failures = {}
        for *about, digest in self._select(f"SELECT * FROM failures {last} ORDER BY rowid"):
            self._check(digest, f"failure of run {about[0]}", *map(str, about))
            failures[about[0]] = about[1], Failure(*about[2:])
        for key, (specification, failure) in failures.items() if self._has_tracebacks() else ():
            for text, digest in self._select("SELECT text, digest FROM tracebacks WHERE id = ?", [key]):
                self._check(digest, f"traceback of run {key}", key, text)
                failures[key] = specification, replace(failure, traceback=text)
        return failures

    def _has_tracebacks(self) -> bool:
        """Whether the store was filled by a version that stores tracebacks."""
        return bool(list(self._select("SELECT 1 FROM sqlite_master WHERE name = 'tracebacks'")))

    def count_failures(self) -> dict[str, int]:
        """Return how many runs failed, by kind; the most frequent first."""
        query = "SELECT kind, count(*) AS often FROM failures GROUP BY kind ORDER BY often DESC, kind"
        return dict(self._select(query))

    def rows(self, keys: Iterable[str] | None = None) -> Iterator[Row]:
        """Yield all finished runs in the order in which they were stored, or those of these ids."""
        query, values = "SELECT * FROM runs ORDER BY rowid", []
        if keys is not None:
            query, values = "SELECT * FROM runs WHERE id IN (SELECT value FROM json_each(?))", [json.dumps(list(keys))]
        for key, specification, scalars, seconds, digest in self._select(query, values):
            self._check(digest, f"run {key}", key, specification, scalars)
            yield Row(key, specification, self._read_scalars(key, scalars), seconds)

    def _read_scalars(self, key: str, text: str) -> dict[str, Any]:
        try:
            scalars = parse_json(text)
        except ValueError as error:
            raise self._damaged(f"run {key}: {error}") from error
        if not isinstance(scalars, dict) or not all(isinstance(each, float | int | None) for each in scalars.values()):
            raise self._damaged(f"run {key} has scalars that are no numbers")
        return scalars

    def scalars(self, keys: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return scalars by id, of those of the runs that the store has."""
        return {row.id: dict(row.scalars) for row in self.rows(keys)}

    def arrays(self, key: str, names: Sequence[str] | None = None) -> dict[str, NDArray[Any]]:
        """Return arrays of one run by name, or of these names only; empty where the store has none."""
        arrays: dict[str, NDArray[Any]] = {}
        only = "" if names is None else "AND name IN (SELECT value FROM json_each(?))"
        query = f"SELECT * FROM arrays WHERE run = ? {only} ORDER BY name"
        with self._translate_errors():
            for *data, digest in self._select(query, [key] if names is None else [key, json.dumps(list(names))]):
                self._check(digest, f"array {data[1]} of run {key}", *data)
                arrays[data[1]] = parse_npy(_unpack(data[2])).copy()
        return arrays

    def _check(self, digest: str, what: str, *parts: str | bytes) -> None:
        if _digest(*parts) != digest:
            raise self._damaged(f"{what} is not what was stored")

    def close(self) -> None:
        """Close the file and let others use it."""
        self._opened.close()

    def __exit__(self, *error: object) -> None:
        self.close()


def _unpack(data: bytes) -> bytes:
    """Return deflated bytes; a ValueError where they are no array of a run."""
    unpacking = zlib.decompressobj()
    content = unpacking.decompress(data, LARGEST_ARRAY)
    if not unpacking.eof:
        raise ValueError(f"an array that is cut off, or of more than {LARGEST_ARRAY:,} bytes")
    return content


def _digest(*parts: str | bytes) -> str:
    """Hash of all parts, each with its length."""
    data = [part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogatepass") for part in parts]
    return hashlib.sha256(b"".join([len(each).to_bytes(8, "big") + each for each in data])).hexdigest()[:32]
