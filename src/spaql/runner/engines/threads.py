"""Runs in threads of this process: for compiled problems, whose kernels let go of the interpreter.

The threads are daemons, so that the process can end while one of them is busy.  A run is asked to stop about ten times
a second while its agent learns; one that does not hear it (it evaluates, or its problem is a plain environment that
hangs) is left behind, and another thread takes the place of its own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Self

from spaql.runner.engines.engine import Again, Engine, Outcome, Stopped, attempt_within, too_long
from spaql.runner.run_spec import Run

_GRACE = 2.0  # seconds beyond the time-out before a run that does not hear is left behind
_GOODBYE = 0.5  # seconds in which threads may end by themselves


@dataclass(eq=False)
class _Worker:
    """A thread and what it is doing; `left` where it was given up."""

    rest: list[Run] = field(default_factory=list)  # of its chunk, the one under way first
    since: float = 0.0  # when that began; 0 between two
    left: bool = False


class Threads(Engine):
    """Runs in so many threads.

    Parameters
    ----------
    workers
        How many at once.
    timeout
        Seconds that a run may take; None for as long as it likes.
    """

    name = "threads"
    chunk_seconds = 0.1

    def __init__(self, workers: int, timeout: float | None = None) -> None:
        self._count = workers
        self._timeout = timeout
        self._tasks: SimpleQueue[list[Run] | None] = SimpleQueue()
        self._done: SimpleQueue[Outcome] = SimpleQueue()
        self._lock = threading.Lock()  # of what workers say of themselves
        self._stop = threading.Event()
        self._workers: list[_Worker] = []
        self._threads: list[threading.Thread] = []

    @property
    def workers(self) -> int:
        """Threads."""
        return self._count

    def __enter__(self) -> Self:
        for _ in range(self._count):
            self._hire()
        return self

    def _hire(self) -> None:
        worker = _Worker()
        thread = threading.Thread(target=self._work, args=(worker,), daemon=True, name="spaql run")
        self._workers.append(worker)
        self._threads.append(thread)
        thread.start()

    def submit(self, chunk: Sequence[Run]) -> None:
        """Put the chunk where the next idle thread finds it."""
        self._tasks.put(list(chunk))

    def collect(self, timeout: float) -> list[Outcome]:
        """What finished runs said; runs that overstayed their time are failures."""
        found: list[Outcome] = []
        try:
            found.append(self._done.get(timeout=timeout))
            while True:
                found.append(self._done.get_nowait())
        except Empty:
            pass
        return found + self._overdue()

    def _overdue(self) -> list[Outcome]:
        """Give up threads whose run does not hear that its time is over."""
        if self._timeout is None:
            return []
        found: list[Outcome] = []
        with self._lock:
            for worker in self._workers:
                if worker.since and time.monotonic() - worker.since > self._timeout + _GRACE:
                    worker.left = True
                    first, *rest = worker.rest
                    found.append(Outcome(first, too_long(self._timeout)))
                    found += [Outcome(run, Again()) for run in rest]
            self._workers = [worker for worker in self._workers if not worker.left]
        for _ in range(self._count - len(self._workers)):
            self._hire()
        return found

    def close(self) -> None:
        """Ask all to stop, and wait a moment for those that hear it."""
        self._stop.set()
        for _ in self._threads:
            self._tasks.put(None)
        until = time.monotonic() + _GOODBYE
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _work(self, worker: _Worker) -> None:
        while True:
            chunk = self._tasks.get()
            if chunk is None:
                return
            with self._lock:
                worker.rest = chunk
            for run in chunk:
                with self._lock:
                    worker.since = time.monotonic()
                try:
                    result = attempt_within(run, self._timeout, lambda: self._stop.is_set() or worker.left)
                except Stopped:  # and nobody waits for an answer
                    return
                with self._lock:
                    if worker.left:  # too late: others have been told
                        return
                    worker.since, worker.rest = 0.0, worker.rest[1:]
                    self._done.put(Outcome(run, result))
