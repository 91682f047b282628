"""Loggers: where `spaql.agents.callbacks.Log` puts the rows of a run, for people and programs to follow.

Files are flushed after every call.  A file that exists is continued where it has the same columns.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from spaql.errors import OutputError, ParameterError

_LONGEST_HEADER = 100_000


class Logger:
    """Base of all loggers: `open`, any number of `write`, `close`; and all over again for the next `learn`."""

    def open(self, columns: Sequence[str]) -> None:
        """Get ready for rows with these columns; raise where that is impossible."""

    def write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Take rows, oldest first."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go; called at the end, and harmless where nothing is open."""


class _LinesLogger(Logger):
    """A text file with one line per row.

    Parameters
    ----------
    path
        The file.  Folders that are missing are made.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if not str(path):
            raise ParameterError("path: the name is empty; name a file")
        self.path = Path(path)
        self._columns: list[str] = []
        self._file: TextIO | None = None

    def open(self, columns: Sequence[str]) -> None:
        """Open the file to write behind what it has."""
        self.close()
        self._columns = list(columns)
        with _told(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            old = self.path.exists() and self.path.stat().st_size > 0
            if old:
                self._compare()
            self._file = self.path.open("a", encoding="utf-8", newline="")
            self._put("" if old else self._header())

    def _compare(self) -> None:
        """Raise unless the file can be continued."""
        with self.path.open("rb") as file:
            first = file.readline(_LONGEST_HEADER).decode("utf-8", "replace")
            file.seek(-1, os.SEEK_END)
            whole = file.read() == b"\n"
        if self._found(first) != self._columns:
            raise OutputError(f"log {str(self.path)!r} has other columns than this run; move it or choose another name")
        if not whole:
            raise OutputError(f"log {str(self.path)!r} ends within a line; mend it, move it or choose another name")

    def write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append the rows."""
        text = "".join(self._line(row) for row in rows)
        with _told(self.path):
            self._put(text)

    def _put(self, text: str) -> None:
        assert self._file is not None, "open comes before write"
        self._file.write(text)
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        file, self._file = self._file, None
        if file is not None:
            with _told(self.path):
                file.close()

    def _header(self) -> str:
        return ""

    def _found(self, first: str) -> list[str]:
        """Columns of a file, from its first line."""
        raise NotImplementedError

    def _line(self, row: Mapping[str, Any]) -> str:
        raise NotImplementedError


class CSVLogger(_LinesLogger):
    """A table of comma-separated values with a header.

    Parameters
    ----------
    path
        The file.  Folders that are missing are made.
    """

    def _header(self) -> str:
        return _separated(self._columns)

    def _found(self, first: str) -> list[str]:
        return next(csv.reader([first]), [])

    def _line(self, row: Mapping[str, Any]) -> str:
        return _separated([row[name] for name in self._columns])


class JSONLinesLogger(_LinesLogger):
    """One JSON object per line; what is not a finite number is null.

    Parameters
    ----------
    path
        The file.  Folders that are missing are made.
    """

    def _found(self, first: str) -> list[str]:
        try:
            row = json.loads(first)
        except ValueError:
            return []
        return list(row) if isinstance(row, dict) else []

    def _line(self, row: Mapping[str, Any]) -> str:
        return json.dumps({name: row[name] if _finite(row[name]) else None for name in self._columns}) + "\n"


class TensorBoardLogger(Logger):
    """Curves for TensorBoard, over training and selection steps; needs `pip install 'spaql[tensorboard]'`.

    Parameters
    ----------
    folder
        Where the event files go, one for each call of `learn`; `tensorboard --logdir folder` shows them.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        try:  # not before it is asked for: it is an extra
            from tensorboardX.event_file_writer import EventsWriter
            from tensorboardX.proto.event_pb2 import Event
            from tensorboardX.proto.summary_pb2 import Summary
        except ImportError:
            raise ParameterError(
                "TensorBoardLogger: tensorboardX is missing; install it with: pip install 'spaql[tensorboard]'"
            ) from None
        # Not its SummaryWriter: a flush of that leaves what its thread has not written yet.
        self._writer_of, self._event, self._summary = EventsWriter, Event, Summary
        self.folder = Path(folder)
        self._writer: Any = None

    def open(self, columns: Sequence[str]) -> None:
        """Begin a file of events."""
        self.close()
        with _told(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            # its name would only tell the second, and a second run within it would write over the first
            self._writer = self._writer_of(str(self.folder / "events"), f".{os.getpid()}.{time.time_ns()}")
            self._writer.flush()

    def write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add one point per row to each curve that has a finite value there."""
        now = time.time()
        with _told(self.folder):
            for row in rows:
                points = [
                    self._summary.Value(tag=f"learning/{name}", simple_value=value)
                    for name, value in row.items()
                    if _finite(value)
                ]
                steps = row["training_steps"] + row["selection_steps"]
                self._writer.write_event(self._event(wall_time=now, step=steps, summary=self._summary(value=points)))
            self._writer.flush()

    def close(self) -> None:
        """Close the file of events."""
        writer, self._writer = self._writer, None
        if writer is not None:
            with _told(self.folder):
                writer.close()


def _separated(values: Sequence[Any]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(values)
    return line.getvalue()


def _finite(value: Any) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """What the file system refuses, as a sentence."""
    try:
        yield
    except OutputError:
        raise
    except OSError as error:
        raise OutputError(f"log {str(path)!r} cannot be written: {error.strerror or error}; choose another") from None
