"""What every engine offers: take chunks of runs, and say what became of each.

An engine performs runs somewhere: in threads of this process, in processes of this machine, on a cluster.  It knows
nothing of stores, studies or strikes: `spaql.runner.run_many` hands it chunks of runs, and asks again and again what has
happened.  What becomes of a run is a `Record`; a `Failure`; or `Again`, where the engine lost it without knowing
whether it is to blame.  A run gives the same record on every engine, to the last bit.

An engine of one's own is a class with these methods.
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
from spaql.runner.run_spec import Run, execute
from spaql.runner.store import Failure, Record

ERROR, NAN, TIME, MEMORY, KILLED = "error", "nan", "time-out", "memory", "killed"
_LONGEST_MESSAGE = 500


class Stopped(BaseException):
    """Raised inside a run that is to end, because its engine closes."""


@dataclass(frozen=True)
class Again:
    """A run was lost, not by its own fault as far as is known: it must be done again, alone where it is suspected."""

    alone: bool = False


@dataclass(frozen=True, eq=False)
class Outcome:
    """What became of a run."""

    run: Run
    result: Record | Failure | Again


class Engine(ABC):
    """Performs runs; use it in a `with` statement, from one thread.

    Attributes
    ----------
    name
        As users choose it.
    chunk_seconds
        Work worth handing out at once: little costs messages, much makes the end ragged.
    window
        Chunks to hand out per worker, so that none waits for the next.
    """

    name: str
    chunk_seconds: float
    window: int = 2

    @property
    @abstractmethod
    def workers(self) -> int:
        """How many runs are done at once, as far as is known now; at least 1."""

    @abstractmethod
    def __enter__(self) -> Self:
        """Start; a SpaqlError where that cannot be."""

    @abstractmethod
    def submit(self, chunk: Sequence[Run]) -> None:
        """Take runs to do, one after the other."""

    @abstractmethod
    def collect(self, timeout: float) -> list[Outcome]:
        """What has become of some runs; waits at most so many seconds for the first."""

    @abstractmethod
    def close(self) -> None:
        """Stop, at once: what is under way is given up."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def processors() -> int:
    """Processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def attempt(run: Run, check: Callable[[], None] | None = None) -> Record | Failure:
    """Carry out a run; whatever it raises is a failure, except what says that its engine closes.

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
        return Failure(ERROR, _line(_told(error)))
    bad = [name for name, value in record.scalars.items() if value is not None and not isfinite(value)]
    if bad:
        return Failure(NAN, f"its {bad[0]!r} is {record.scalars[bad[0]]}, which is no finite number")
    return replace(record, seconds=time.perf_counter() - start)


def attempt_within(run: Run, timeout: float | None, stopped: Callable[[], bool]) -> Record | Failure:
    """Carry out a run in this thread, for so many seconds at most; `Stopped` is raised where `stopped` says so.

    A run hears neither while it evaluates, nor inside an environment that does not come back.
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
        return too_long(timeout)


class _Overdue(Stopped):
    """Raised inside a run whose time is over."""


def too_long(seconds: float) -> Failure:
    """Of a run that took longer than allowed."""
    return Failure(TIME, f"it took longer than {seconds:g} s")


def _told(error: BaseException) -> str:
    """An exception in a line, with the place where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({frames[-1].filename.rpartition('/')[2]}, line {frames[-1].lineno})" if frames else ""
    said = " ".join(str(error).split())
    return f"{type(error).__name__}{': ' if said else ''}{said}{place}"


def _line(text: str) -> str:
    """The text in one line that is not too long, and can be stored: names of files may hold what is no letter."""
    line = " ".join(text.split()).encode("utf-8", "backslashreplace").decode()
    return line if len(line) <= _LONGEST_MESSAGE else f"{line[: _LONGEST_MESSAGE - 3]}..."
