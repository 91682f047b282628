"""Loggers: where `spaql.callbacks.Log` writes the rows of a run.

Files are flushed after every call.  A file that exists is continued where it has the same columns.
"""

import csv
import io
import json
import math
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from spaql.errors import OutputError, ParameterError

__all__ = ["CSVLogger", "JSONLinesLogger", "Logger", "TensorBoardLogger", "make_logger"]

_LONGEST_HEADER = 100_000
_EVALUATION = re.compile(r"(evaluation(?:_\d+)?)(?:_(low|high))?")
_CLOCK = ("seconds", "_per_second")  # how columns of the clock end


class Logger:
    """Base of all loggers: `open`, any number of `write`, `close`, for each call of `learn`.

    Examples
    --------
    >>> import spaql
    >>> class Memory(spaql.loggers.Logger):
    ...     def open(self, columns):
    ...         self.rows = []
    ...
    ...     def write(self, rows):
    ...         self.rows += rows
    >>> memory = Memory()
    >>> agent = spaql.AQL("oil", rollouts=0, seed=0).learn(iterations=5, callback=spaql.callbacks.Log(memory))
    >>> [row["timesteps"] for row in memory.rows]
    [5, 10, 15, 20, 25]
    """

    def open(self, columns: Sequence[str]) -> None:
        """Prepare for rows with these columns; raise where that is impossible.

        Parameters
        ----------
        columns
            Names, in the order in which files have them.
        """

    def write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write rows, oldest first.

        Parameters
        ----------
        rows
            Mappings from all columns to values.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Close what is open, if anything."""


class _FileLogger(Logger):
    """A logger that keeps a file open, by default a text file with one line per row, and reports its errors."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if not str(path):
            raise ParameterError("path: the name is empty; name a file")
        self.path = Path(path)
        self._columns: list[str] = []
        self._file: Any = None

    def open(self, columns: Sequence[str]) -> None:
        """Open the file to append to it; raise unless it can be continued."""
        self.close()
        self._columns = list(columns)
        with self._report_errors():
            self._open()
            self._file.flush()

    def write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append the rows."""
        with self._report_errors():
            self._write(rows)
            self._file.flush()

    def close(self) -> None:
        """Close the file."""
        file, self._file = self._file, None
        if file is not None:
            with self._report_errors():
                file.close()

    @contextmanager
    def _report_errors(self) -> Iterator[None]:
        try:
            yield
        except OutputError:
            raise
        except OSError as error:
            why = error.strerror or error
            raise OutputError(f"log {str(self.path)!r} cannot be written: {why}; choose another") from error

    def _open(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        old = self.path.exists() and self.path.stat().st_size > 0
        if old:
            with self.path.open("rb") as file:
                first = file.readline(_LONGEST_HEADER).decode("utf-8", "replace")
                file.seek(-1, os.SEEK_END)
                whole = file.read() == b"\n"
            log = f"log {str(self.path)!r}"
            if self._read_columns(first) != self._columns:
                raise OutputError(f"{log} has other columns than this run; move it or choose another name")
            if not whole:
                raise OutputError(f"{log} ends within a line; mend it, move it or choose another name")
        self._file = self.path.open("a", encoding="utf-8", newline="")
        self._file.write("" if old else self._header())

    def _write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._file.write("".join(self._line([row[name] for name in self._columns]) for row in rows))

    def _header(self) -> str:
        return ""

    def _read_columns(self, first: str) -> list[str]:
        """Return the columns of a file from its first line."""
        raise NotImplementedError

    def _line(self, values: Sequence[Any]) -> str:
        raise NotImplementedError


class CSVLogger(_FileLogger):
    """Write comma-separated values with a header, empty for None; missing folders are made.

    Parameters
    ----------
    path
        The file.

    Examples
    --------
    >>> import pathlib, tempfile, spaql
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = spaql.callbacks.Log(spaql.loggers.CSVLogger(f"{folder}/run.csv"))
    ...     agent = spaql.AQL("oil", rollouts=0, seed=0).learn(iterations=5, callback=log)
    ...     pathlib.Path(folder, "run.csv").read_text()[:22]
    'iteration,timesteps,tr'
    """

    def _header(self) -> str:
        return self._line(self._columns)

    def _read_columns(self, first: str) -> list[str]:
        return next(csv.reader([first]), [])

    def _line(self, values: Sequence[Any]) -> str:
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow(values)
        return line.getvalue()


class JSONLinesLogger(_FileLogger):
    """Write one JSON object per line, null for numbers that are not finite; missing folders are made.

    Parameters
    ----------
    path
        The file.

    Examples
    --------
    >>> import pathlib, tempfile, spaql
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = spaql.callbacks.Log(spaql.loggers.JSONLinesLogger(f"{folder}/run.jsonl"))
    ...     agent = spaql.AQL("oil", rollouts=0, seed=0).learn(iterations=5, callback=log)
    ...     pathlib.Path(folder, "run.jsonl").read_text()[:22]
    '{"iteration": 1, "time'
    """

    def _read_columns(self, first: str) -> list[str]:
        try:
            row = json.loads(first)
        except ValueError:
            return []
        return list(row) if isinstance(row, dict) else []

    def _line(self, values: Sequence[Any]) -> str:
        finite = [value if _is_finite(value) else None for value in values]
        return json.dumps(dict(zip(self._columns, finite, strict=True))) + "\n"


class TensorBoardLogger(_FileLogger):
    """Draw curves for TensorBoard over timesteps; needs `pip install 'spaql[tensorboard]'`.

    The groups of curves are `learning`, `evaluation` and `time`.

    Parameters
    ----------
    folder
        Where the event files go, one for each call of `learn`; `tensorboard --logdir folder` shows them.

    Examples
    --------
    >>> import pathlib, tempfile, spaql
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = spaql.callbacks.Log(spaql.loggers.TensorBoardLogger(folder))
    ...     agent = spaql.AQL("oil", rollouts=0, seed=0).learn(iterations=5, callback=log)
    ...     len(list(pathlib.Path(folder).iterdir()))
    1
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        try:
            from tensorboardX.event_file_writer import EventsWriter
            from tensorboardX.proto.event_pb2 import Event
            from tensorboardX.proto.summary_pb2 import Summary
        except ImportError as error:
            raise ParameterError(
                "TensorBoardLogger: tensorboardX is missing; install it with: pip install 'spaql[tensorboard]'"
            ) from error
        # Not its SummaryWriter: a flush of that leaves what its thread has not written yet.
        self._make_writer, self._event, self._summary = EventsWriter, Event, Summary
        super().__init__(folder)

    def _open(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        # Its own name has whole seconds only, and a second run within one would overwrite the first.
        self._file = self._make_writer(str(self.path / "events"), f".{os.getpid()}.{time.time_ns()}")

    def _write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add one point per row to each curve that has a finite value there."""
        now, value_of = time.time(), self._summary.Value
        for row in rows:
            finite = {_tag(name): value for name, value in row.items() if name != "timesteps" and _is_finite(value)}
            summary = self._summary(value=[value_of(tag=tag, simple_value=value) for tag, value in finite.items()])
            self._file.write_event(self._event(wall_time=now, step=row["timesteps"], summary=summary))


def make_logger(path: str | os.PathLike[str]) -> Logger:
    """Return the logger for a path: a .csv or .jsonl file; a name without a suffix is a folder for TensorBoard.

    Parameters
    ----------
    path
        The file or folder; it need not exist.

    Returns
    -------
    Logger
        By the suffix.

    Raises
    ------
    ParameterError
        On another suffix.

    Examples
    --------
    >>> import spaql
    >>> type(spaql.loggers.make_logger("run.csv")).__name__
    'CSVLogger'
    """
    suffix = Path(path).suffix.lower()
    if Path(path).is_dir() or (str(path) and not suffix):
        return TensorBoardLogger(path)
    makers = {".csv": CSVLogger, ".jsonl": JSONLinesLogger}
    if suffix not in makers:
        expected = "a file that ends in .csv or .jsonl, or a folder for TensorBoard"
        raise ParameterError(f"log {str(path)!r}: expected {expected}")
    return makers[suffix](path)


def _tag(name: str) -> str:
    """Return the name of a curve, with its group."""
    if evaluation := _EVALUATION.fullmatch(name):
        return f"{evaluation[1]}/{evaluation[2] or 'mean'}"
    return f"{'time' if name.endswith(_CLOCK) else 'learning'}/{name}"


def _is_finite(value: Any) -> bool:
    return value is not None and (not isinstance(value, float) or math.isfinite(value))
