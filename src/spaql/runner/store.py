"""The store of runs: one SQLite file, in which a run is there whole or not at all.

Tables: `runs` (id, specification and scalars as JSON, the seconds it took), `arrays` (run, name, and the array as the
bytes of a .npy file, deflated), and `failures` (runs that could not be done: what happened, and how often they were
tried), each row with a digest of all it says, checked whenever it is read; the seconds are no result and have none.
The id is the hash of the specification, so that a finished run is found again whatever else the study has become, and
never stored twice.  A run that succeeds after all is no failure any more.  `progress` is one row of JSON, what the
process that does the runs last said of its study.  Everything that one `add` brings is one transaction: a process may
be killed at any moment, and what was added before stays.

Beside the file stand its write-ahead log, as long as it is open or where its process was killed, and a lock: whoever
moves the store moves all that begins with its name.  One process writes at a time; the system frees its lock when it
ends, however it ends.  Any number may read meanwhile (`Store.reading`).  `PRAGMA user_version` is the version of this
format.  `about` says which code computed the runs, because results of two versions of an algorithm must not meet in
one table.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from spaql.errors import NothingYetError, StoreError

STORE = "runs.sqlite"  # its usual name in a folder
FORMAT = 2
_APPLICATION = 0x73706171  # "spaq", by which SQLite files tell whose they are
_SCHEMA = """
    CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE runs (
        id TEXT PRIMARY KEY, specification TEXT NOT NULL, scalars TEXT NOT NULL, seconds REAL NOT NULL,
        digest TEXT NOT NULL
    );
    CREATE TABLE failures (
        id TEXT PRIMARY KEY, specification TEXT NOT NULL, kind TEXT NOT NULL, message TEXT NOT NULL,
        attempts INTEGER NOT NULL, digest TEXT NOT NULL
    );
    CREATE TABLE progress (one INTEGER PRIMARY KEY CHECK (one = 1), value TEXT NOT NULL);
    CREATE TABLE arrays (
        run TEXT NOT NULL, name TEXT NOT NULL, data BLOB NOT NULL, digest TEXT NOT NULL, PRIMARY KEY (run, name)
    ) WITHOUT ROWID;
"""
_PATIENCE = 0.5  # seconds to wait for the lock: who only asks whether anybody holds it has it for a moment
_QUESTIONS = 500  # values bound at once; SQLite takes at most 999 in its older versions


@dataclass(frozen=True, eq=False)
class Record:
    """What a finished run leaves: numbers by name, arrays by name, and how long it took."""

    scalars: Mapping[str, float | int | None]
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True)
class Failure:
    """Why a run could not be done.

    Attributes
    ----------
    kind
        One of "error", "nan", "time-out", "memory" and "killed".
    message
        What happened, in a line.
    attempts
        How often the run was tried the last time that it was asked for.
    """

    kind: str
    message: str
    attempts: int = 1


@dataclass(frozen=True, eq=False)
class Row:
    """A finished run as the store has it."""

    id: str
    specification: str
    scalars: Mapping[str, float | int | None]
    seconds: float


class Store:
    """An open store; use it in a `with` statement, from one thread.

    Parameters
    ----------
    path
        The file; made where it is missing.
    code
        What identifies the code that computes runs.

    Raises
    ------
    StoreError
        Where the store is in use, damaged, of another format or of other code, or cannot be written.  No run in it
        is changed then.
    """

    def __init__(self, path: str | os.PathLike[str], *, code: str) -> None:
        self.path = Path(path)
        self._lock: FileLock | None = FileLock(str(self.path) + ".lock")
        try:
            self._lock.acquire(timeout=_PATIENCE)
        except Timeout:
            raise StoreError(
                f"{self._name} is in use by another process; wait for it, or choose another folder"
            ) from None
        except OSError as error:
            raise StoreError(f"{self._name} cannot be locked: {error.strerror}; choose another folder") from None
        try:
            with self._sentences():
                self._connection = sqlite3.connect(self.path, isolation_level=None)
            try:
                with self._sentences():
                    self._open(code)
            except BaseException:
                self._connection.close()
                raise
        except BaseException:
            self._lock.release()
            raise

    @classmethod
    def reading(cls, path: str | os.PathLike[str]) -> Self:
        """A store that is only read, whoever writes to it meanwhile and whatever code filled it."""
        store = cls.__new__(cls)
        store.path, store._lock = Path(path), None
        if not store.path.is_file():
            raise NothingYetError(f"{store._name} is not there; name the folder of a study")
        with store._sentences():
            where = store.path.resolve().as_uri()
            store._connection = sqlite3.connect(f"{where}?mode=ro", uri=True, isolation_level=None)
        try:
            with store._sentences():
                if store._check_format():
                    raise NothingYetError(f"{store._name} has no runs yet; wait until its study has begun")
        except BaseException:
            store._connection.close()
            raise
        return store

    @property
    def _name(self) -> str:
        return f"the store {str(self.path)!r}"

    def _check_format(self) -> bool:
        """Whether the file is empty; else it must be a store of this format."""
        ask = self._connection.execute
        ours, version = (ask(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
        empty = bool(ask("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0)
        if not empty and ours != _APPLICATION:
            raise StoreError(f"{self._name} is a database of something else; choose another folder")
        if not empty and version != FORMAT:
            raise StoreError(
                f"{self._name} has format {version}, and this version of spaql reads format {FORMAT}; "
                "use the version that made it, or choose another folder"
            )
        return empty

    def _open(self, code: str) -> None:
        """Check whose file it is, and make the tables where it is new."""
        ask = self._connection.execute
        empty = self._check_format()
        if not empty and ask("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise self._damaged("its pages do not fit together")
        ask("PRAGMA journal_mode = WAL")
        ask("PRAGMA synchronous = NORMAL")
        if empty:
            self._connection.executescript(
                f"BEGIN IMMEDIATE; PRAGMA application_id = {_APPLICATION}; PRAGMA user_version = {FORMAT}; {_SCHEMA}"
            )
            ask("INSERT INTO about VALUES ('code', ?)", (code,))
            ask("COMMIT")
        made_by = ask("SELECT value FROM about WHERE key = 'code'").fetchone()
        if made_by is None or made_by[0] != code:
            raise StoreError(
                f"{self._name} was filled by other code ({made_by[0] if made_by else 'unknown'}, this is {code}), and "
                "its runs must not be mixed with new ones; choose another folder, or move it away to start anew"
            )

    def _damaged(self, how: str) -> StoreError:
        return StoreError(
            f"{self._name} is damaged ({' '.join(how.split())}); restore a copy of it, or move it away, with all that "
            "begins with its name, to start anew"
        )

    @contextmanager
    def _sentences(self) -> Iterator[None]:
        """Turn SQLite's errors into ours."""
        try:
            yield
        except (sqlite3.ProgrammingError, UnicodeEncodeError):
            raise  # ours, not the file's
        except sqlite3.OperationalError as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
            if code == sqlite3.SQLITE_CORRUPT:
                raise self._damaged(str(error)) from None
            if code == sqlite3.SQLITE_FULL:
                raise StoreError(f"{self._name}: the disk is full; what was stored before is safe") from None
            if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise StoreError(f"{self._name} is locked by another program; close that and try again") from None
            raise StoreError(f"{self._name} cannot be used: {error}; what was stored before is safe") from None
        except (sqlite3.DatabaseError, ValueError, zlib.error, EOFError) as error:
            raise self._damaged(str(error)) from None

    @property
    def code(self) -> str:
        """What identifies the code that computed the runs."""
        with self._sentences():
            found = self._connection.execute("SELECT value FROM about WHERE key = 'code'").fetchone()
        return str(found[0]) if found else "unknown"

    def add(
        self,
        entries: Iterable[tuple[str, str, Record]],
        *,
        failed: Iterable[tuple[str, str, Failure]] = (),
        progress: Mapping[str, Any] | None = None,
    ) -> None:
        """Store what became of runs, all of it in one transaction.

        Parameters
        ----------
        entries
            Finished runs, each as (id, specification, record).
        failed
            Runs that could not be done, as (id, specification, failure); of one that is here already the last counts.
        progress
            What to say of the study from now on; None leaves it.
        """
        runs, arrays = [], []
        for key, specification, record in entries:
            said = key, specification, json.dumps(dict(record.scalars), allow_nan=False)
            runs.append((*said, float(record.seconds), _digest(*said)))
            for name, array in record.arrays.items():
                held = key, name, _packed(array)
                arrays.append((*held, _digest(*held)))
        failures = []
        for key, specification, failure in failed:
            told = key, specification, failure.kind, failure.message, failure.attempts
            failures.append((*told, _digest(*map(str, told))))
        if not self.path.exists():
            raise StoreError(f"{self._name} is gone: somebody moved or deleted it; what was in it is not here any more")
        with self._sentences():
            many = self._connection.executemany
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                many("INSERT OR IGNORE INTO runs VALUES (?, ?, ?, ?, ?)", runs)
                many("INSERT OR IGNORE INTO arrays VALUES (?, ?, ?, ?)", arrays)
                many("INSERT OR REPLACE INTO failures VALUES (?, ?, ?, ?, ?, ?)", failures)
                many("DELETE FROM failures WHERE id = ?", [run[:1] for run in runs])
                if progress is not None:
                    said_now = json.dumps(dict(progress), allow_nan=False)
                    self._connection.execute("INSERT OR REPLACE INTO progress VALUES (1, ?)", (said_now,))
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """While this lasts, all that is read is of one moment, whoever writes meanwhile."""
        with self._sentences():
            self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.execute("ROLLBACK")

    def __len__(self) -> int:
        with self._sentences():
            return int(self._connection.execute("SELECT count(*) FROM runs").fetchone()[0])

    @property
    def progress(self) -> dict[str, Any] | None:
        """What was last said of the study, or None."""
        with self._sentences():
            found = self._connection.execute("SELECT value FROM progress").fetchone()
            return None if found is None else dict(json.loads(found[0]))

    def finished(self) -> set[str]:
        """Ids of all finished runs."""
        with self._sentences():
            return {key for (key,) in self._connection.execute("SELECT id FROM runs")}

    def failures(self, most: int | None = None) -> dict[str, tuple[str, Failure]]:
        """Specification and failure of the runs that could not be done, by id; the last so many where that is said."""
        last = (
            "" if most is None else f" WHERE rowid IN (SELECT rowid FROM failures ORDER BY rowid DESC LIMIT {most:d})"
        )
        found = {}
        with self._sentences():
            for *told, digest in self._connection.execute(f"SELECT * FROM failures{last} ORDER BY rowid"):
                if _digest(*map(str, told)) != digest:
                    raise ValueError(f"failure of run {told[0]} is not what was stored")
                found[told[0]] = told[1], Failure(*told[2:])
        return found

    def kinds_of_failures(self) -> dict[str, int]:
        """How many runs could not be done, by what happened; the most frequent first."""
        ask = "SELECT kind, count(*) AS often FROM failures GROUP BY kind ORDER BY often DESC, kind"
        with self._sentences():
            return dict(self._connection.execute(ask).fetchall())

    def rows(self) -> Iterator[Row]:
        """All finished runs, in the order in which they were stored."""
        with self._sentences():
            for key, specification, scalars, seconds, digest in self._connection.execute(
                "SELECT * FROM runs ORDER BY rowid"
            ):
                self._check(key, specification, scalars, digest)
                yield Row(key, specification, json.loads(scalars), seconds)

    def scalars(self, keys: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Scalars by id, of those of the runs that are here."""
        wanted = list(keys)
        found: dict[str, dict[str, Any]] = {}
        with self._sentences():
            for first in range(0, len(wanted), _QUESTIONS):
                some = wanted[first : first + _QUESTIONS]
                marks = ",".join("?" * len(some))
                for key, specification, scalars, _, digest in self._connection.execute(
                    f"SELECT * FROM runs WHERE id IN ({marks})", some
                ):
                    self._check(key, specification, scalars, digest)
                    found[key] = json.loads(scalars)
        return found

    @staticmethod
    def _check(key: str, specification: str, scalars: str, digest: str) -> None:
        if _digest(key, specification, scalars) != digest:
            raise ValueError(f"run {key} is not what was stored")

    def arrays(self, key: str, names: Sequence[str] | None = None) -> dict[str, NDArray[Any]]:
        """Arrays of one run by name, or of these names only; empty where it has none or is not here."""
        found: dict[str, NDArray[Any]] = {}
        only = "" if names is None else f" AND name IN ({','.join('?' * len(names))})"
        ask = f"SELECT * FROM arrays WHERE run = ?{only} ORDER BY name"
        with self._sentences():
            for *held, digest in self._connection.execute(ask, (key, *(names or ()))):
                if _digest(*held) != digest:
                    raise ValueError(f"array {held[1]} of run {key} is not what was stored")
                found[held[1]] = np.load(io.BytesIO(zlib.decompress(held[2])), allow_pickle=False)
        return found

    def close(self) -> None:
        """Close the file and let others use it."""
        self._connection.close()
        if self._lock is not None:
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _digest(*parts: str | bytes) -> str:
    """Hash of all parts, each with its length."""
    data = [part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogatepass") for part in parts]
    return hashlib.sha256(b"".join([len(each).to_bytes(8, "big") + each for each in data])).hexdigest()[:32]


def _packed(array: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return zlib.compress(buffer.getvalue(), 6)
