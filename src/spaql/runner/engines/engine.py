"""The interface of engines: take chunks of runs, and report what became of each.

An engine knows nothing of stores or studies: `spaql.runner.run_many` submits chunks of runs and collects outcomes.  The
result of a run is a `Record`, a `Failure`, or `Lost` where the run must be performed again.  A record is the same on
every engine, to the last bit.  An engine of one's own is a subclass of `Engine`.
"""

import os
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, Self

import numpy as np

from spaql.errors import EngineError, SpaqlError
from spaql.runner.execute import execute
from spaql.runner.record import ERROR, MEMORY, NAN, TIME, Failure, Record, check_record
from spaql.runner.run_spec import Run

_LONGEST_MESSAGE = 500
_LONGEST_TRACEBACK = 8000
_MOST_FRAMES = 30


class Stopped(BaseException):
    """Raised inside a run that must end because its engine closes."""


class _Overdue(Stopped):
    """Raised inside a run that has exceeded its time."""


@dataclass(frozen=True)
class Lost:
    """A run that must be performed again."""

    alone: bool = False  # in a chunk of its own, because it may be the cause
    reason: str = ""  # where that may be the fault of the run: such losses are counted, and limited


Result = Record | Failure | Lost


class Outcome(NamedTuple):
    """A run and its result."""

    run: Run
    result: Result


class Engine(ABC):
    """Performs runs; use it in a `with` statement, from one thread.

    Whatever happens in other threads, processes or machines becomes an event, which `collect` hands to `_take` in the
    engine's own thread.  With `keep_open` it stays open after a `with` statement that ends without an error, until
    `close`: for studies in stages, as starting processes or a cluster takes seconds.
    """

    name: str
    workers: int  # runs performed at once, as far as is known now; at least 1
    chunk_seconds: float  # of work: little costs messages, much leaves workers idle at the end
    window: int = 2  # chunks to submit per worker, so that none waits for the next
    keep_open: bool = False
    _started: bool = False

    def __init__(self) -> None:
        self._events: SimpleQueue[Any] = SimpleQueue()
        self._outcomes: list[Outcome] = []  # not returned yet
        self._error: EngineError | None = None  # not raised yet

    @abstractmethod
    def start(self) -> None:
        """Start; raises a SpaqlError where that fails."""

    @abstractmethod
    def submit(self, chunk: Sequence[Run]) -> None:
        """Take runs to perform one after the other."""

    @abstractmethod
    def close(self) -> None:
        """Stop at once, whatever is under way; a second call does nothing."""

    def _take(self, event: Any) -> None:
        """Add the outcomes that an event brings."""
        self._outcomes.append(event)

    def _check(self) -> None:  # noqa: B027  (not every engine has to)
        """Look for what sends no event, such as a run that hangs."""

    def collect(self, timeout: float) -> list[Outcome]:
        """Return outcomes, waiting at most `timeout` seconds; an error beside some is raised by the next call."""
        self._raise_pending()
        events = list(self._wait(timeout))
        calls: list[Callable[[], None]] = [*(partial(self._take, event) for event in events), self._check]
        for call in calls:
            try:
                call()
            except EngineError as error:
                self._error = self._error or error
        if not self._outcomes:
            self._raise_pending()
        outcomes, self._outcomes = self._outcomes, []
        return outcomes

    def _raise_pending(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _wait(self, timeout: float) -> Iterator[Any]:
        """Yield the events that are there, and wait for the first."""
        with suppress(Empty):
            yield self._events.get(timeout=timeout)
            while True:
                yield self._events.get_nowait()

    def __enter__(self) -> Self:
        if not self._started:
            self.start()
            self._started = True
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None or not self.keep_open:
            self.close()


def count_processors() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on every system
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def attempt(run: Run, timeout: float | None = None, stopped: Callable[[], bool] | None = None) -> Record | Failure:
    """Execute a run in this thread, for at most `timeout` seconds; whatever it raises becomes a failure.

    Raises `Stopped` where `stopped` returns True.  Both are checked only while an agent learns, ten times a second.
    """
    start = time.perf_counter()

    def check() -> None:
        if stopped is not None and stopped():
            raise Stopped
        if timeout is not None and time.perf_counter() - start > timeout:
            raise _Overdue

    check()
    try:
        record = execute(run, check)
        return _check(replace(record, seconds=time.perf_counter() - start))
    except _Overdue:
        return overdue(timeout or 0.0)
    except Stopped:
        raise
    except BaseException as error:  # a KeyboardInterrupt too: Ctrl-C is for another thread, or another process
        return _failure(error)


def _check(record: Record) -> Record | Failure:
    """Return a record that can be stored, or a failure: agents of one's own may report anything."""
    for name, value in record.scalars.items():
        if isinstance(value, float | np.floating) and not isfinite(value):
            return Failure(NAN, f"its {_shorten(repr(name))} is {value}, which is no finite number")
    try:
        return check_record(record)
    except ValueError as error:
        return Failure(ERROR, _shorten(str(error)))


def overdue(seconds: float) -> Failure:
    """Return the failure of a run that took longer than allowed."""
    return Failure(TIME, f"it took longer than {seconds:g} s")


def describe(error: BaseException) -> str:
    """Return type and message of an exception in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}{': ' if text else ''}{text}"


def _failure(error: BaseException) -> Failure:
    """The failure of a run that raised an error, with a message of one line."""
    kind, text, trace = ERROR, str(error), ""
    if isinstance(error, MemoryError):
        kind, text = MEMORY, "not enough memory"
    elif isinstance(error, SystemExit):
        text = f"it asked the interpreter to exit ({error.code})"
    elif isinstance(error, TimeoutError):
        kind, text = TIME, text or "an operation timed out"
    elif not isinstance(error, SpaqlError):
        frames = traceback.extract_tb(error.__traceback__)
        place = f" ({frames[-1].filename.rpartition('/')[2]}, line {frames[-1].lineno})" if frames else ""
        text, trace = f"{describe(error)}{place}", _format_traceback(error)
    return Failure(kind, _shorten(text), 1, trace)


def _shorten(text: str) -> str:
    """Return a text in one line, cut where it is very long."""
    line = _to_text(" ".join(text.split()))
    return line if len(line) <= _LONGEST_MESSAGE else f"{line[: _LONGEST_MESSAGE - 3]}..."


def _format_traceback(error: BaseException) -> str:
    """The end of a traceback, from the call of `execute` on, which is the same on every engine."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code is attempt.__code__:
        trace = trace.tb_next
    text = _to_text("".join(traceback.format_exception(type(error), error, trace, limit=-_MOST_FRAMES)))
    return text if len(text) <= _LONGEST_TRACEBACK else f"...{text[3 - _LONGEST_TRACEBACK :]}"


def _to_text(text: str) -> str:
    """Replace what cannot be stored: file names may hold undecodable bytes."""
    return text.encode("utf-8", "backslashreplace").decode()
