"""The interface of engines: take chunks of runs, and report what became of each.

An engine performs runs in threads of this process, in processes of this machine, or on a cluster.  It knows nothing of
stores or studies: `spaql.runner.run_many` submits chunks of runs and collects outcomes.  The result of a run is a
`Record`, a `Failure`, or `Lost` where the run must be performed again.  A run gives the same record on every engine, to
the last bit.

An engine of one's own is a subclass of `Engine`.
"""

from __future__ import annotations

import os
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from types import TracebackType
from typing import Self

from spaql.errors import SpaqlError
from spaql.runner.execute import execute
from spaql.runner.record import ERROR, MEMORY, NAN, TIME, Failure, Record
from spaql.runner.run_spec import Run

_LONGEST_MESSAGE = 500


class Stopped(BaseException):
    """Raised inside a run that must end because its engine closes."""


class _Overdue(Stopped):
    """Raised inside a run that has exceeded its time."""


@dataclass(frozen=True)
class Lost:
    """A run that must be performed again.

    Attributes
    ----------
    alone
        Whether to submit it in a chunk of its own, because it may be the cause.
    reason
        Why, where that may be the fault of the run; such losses are counted, and limited.  Empty where it is not, as
        when the connection to a cluster was cut.
    """

    alone: bool = False
    reason: str = ""


Result = Record | Failure | Lost


@dataclass(frozen=True, eq=False)
class Outcome:
    """A run and its result."""

    run: Run
    result: Result


class Engine(ABC):
    """Performs runs; use it in a `with` statement, from one thread.

    Attributes
    ----------
    name
        As users choose it.
    chunk_seconds
        Work per chunk: little costs messages, much leaves workers idle at the end.
    window
        Chunks to submit per worker, so that none waits for the next.
    """

    name: str
    chunk_seconds: float
    window: int = 2

    @property
    @abstractmethod
    def workers(self) -> int:
        """Runs performed at once, as far as is known now; at least 1."""

    @abstractmethod
    def __enter__(self) -> Self:
        """Start; raises a SpaqlError where that fails."""

    @abstractmethod
    def submit(self, chunk: Sequence[Run]) -> None:
        """Take runs to perform one after the other."""

    @abstractmethod
    def collect(self, timeout: float) -> list[Outcome]:
        """Return outcomes; waits for the first at most `timeout` seconds."""

    @abstractmethod
    def close(self) -> None:
        """Stop at once, whatever is under way."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class KeepOpen(Engine):
    """Another engine, which starts when first entered and stays open until `close`, however often it is entered.

    For studies that learn of their runs a few at a time: starting processes or a cluster takes seconds.
    """

    def __init__(self, engine: Engine) -> None:
        self.name = engine.name
        self._engine = engine
        self._started = False
        self._update()

    def _update(self) -> None:
        """Take over what may change with the number of workers."""
        self.chunk_seconds, self.window = self._engine.chunk_seconds, self._engine.window

    @property
    def workers(self) -> int:
        """Of the other engine."""
        return self._engine.workers

    def __enter__(self) -> Self:
        if not self._started:
            self._started = True
            self._engine.__enter__()
            self._update()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:  # outcomes of runs under way would come back to whoever enters next
            self.close()

    def submit(self, chunk: Sequence[Run]) -> None:
        """Submit to the other engine."""
        self._engine.submit(chunk)

    def collect(self, timeout: float) -> list[Outcome]:
        """Collect from the other engine."""
        outcomes = self._engine.collect(timeout)
        self._update()
        return outcomes

    def close(self) -> None:
        """Close the other engine."""
        if self._started:
            self._started = False
            self._engine.close()


def count_processors() -> int:
    """Return the number of processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def attempt(run: Run, check: Callable[[], None] | None = None) -> Record | Failure:
    """Execute a run; whatever it raises becomes a failure, except `Stopped`.

    `check` is called about ten times a second while an agent learns; it may raise `Stopped` or TimeoutError.
    """
    start = time.perf_counter()
    try:
        record = execute(run, check)
    except Stopped:
        raise
    except MemoryError:
        return Failure(MEMORY, "not enough memory")
    except SystemExit as error:
        return Failure(ERROR, _line(f"it asked the interpreter to exit ({error.code})"))
    except TimeoutError as error:
        return Failure(TIME, _line(str(error) or "an operation timed out"))
    except SpaqlError as error:
        return Failure(ERROR, _line(str(error)))
    except BaseException as error:  # a KeyboardInterrupt too: Ctrl-C is for another thread, or another process
        frames = traceback.extract_tb(error.__traceback__)
        place = f" ({frames[-1].filename.rpartition('/')[2]}, line {frames[-1].lineno})" if frames else ""
        return Failure(ERROR, _line(f"{describe_error(error)}{place}"))
    for name, value in record.scalars.items():
        if value is not None and not isfinite(value):
            return Failure(NAN, f"its {name!r} is {value}, which is no finite number")
    return replace(record, seconds=time.perf_counter() - start)


def attempt_within(run: Run, timeout: float | None, stopped: Callable[[], bool]) -> Record | Failure:
    """Execute a run in this thread, for at most `timeout` seconds; raises `Stopped` where `stopped` returns True.

    Neither takes effect during an evaluation, nor inside an environment that hangs.
    """
    until = None if timeout is None else time.monotonic() + timeout

    def check() -> None:
        if stopped():
            raise Stopped
        if until is not None and time.monotonic() > until:
            raise _Overdue

    check()
    try:
        return attempt(run, check)
    except _Overdue:
        assert timeout is not None
        return overdue(timeout)


def overdue(seconds: float) -> Failure:
    """Return the failure of a run that took longer than allowed."""
    return Failure(TIME, f"it took longer than {seconds:g} s")


def describe_error(error: BaseException) -> str:
    """Return type and message of an exception in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}{': ' if text else ''}{text}"


def _line(text: str) -> str:
    """The text in one line that is not too long and can be stored: file names may hold undecodable bytes."""
    line = " ".join(text.split()).encode("utf-8", "backslashreplace").decode()
    return line if len(line) <= _LONGEST_MESSAGE else f"{line[: _LONGEST_MESSAGE - 3]}..."
