"""Runs in threads of this process, for compiled problems, whose kernels release the interpreter lock.

Threads are daemons, so that the process can end while one of them is busy.  A run that does not respond to its time-out
(it evaluates, or its environment hangs) is abandoned, and another thread takes the place of its own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from queue import SimpleQueue

from spaql.runner.engines.engine import Engine, Lost, Outcome, Stopped, attempt, overdue
from spaql.runner.run_spec import Run

_GRACE = 2.0  # seconds beyond the time-out before a run that does not respond is abandoned
_GOODBYE = 0.5  # seconds in which threads may end by themselves


class _Worker(threading.Thread):
    """A thread and its chunk."""

    def __init__(self, engine: Threads) -> None:
        super().__init__(daemon=True, name="spaql run")
        self.engine = engine
        self.rest: list[Run] = []  # of its chunk, the run under way first
        self.since = 0.0  # when that began; 0 between two runs
        self.abandoned = False

    def run(self) -> None:
        engine = self.engine
        while (chunk := engine.chunks.get()) is not None:
            self.rest = chunk
            for run in chunk:
                self.since = time.monotonic()
                try:
                    result = attempt(run, engine.timeout, lambda: self.abandoned or engine.stopped)
                except Stopped:  # nobody waits for the result
                    return
                with engine.lock:
                    if self.abandoned:  # too late: its outcome has been reported
                        return
                    self.since, self.rest = 0.0, self.rest[1:]
                    engine._events.put(Outcome(run, result))


class Threads(Engine):
    """Runs in threads; for the parameters see `make_engine`."""

    name = "threads"
    chunk_seconds = 0.1

    def __init__(self, workers: int, timeout: float | None = None) -> None:
        super().__init__()
        self.workers = workers
        self.timeout = timeout
        self.chunks: SimpleQueue[list[Run] | None] = SimpleQueue()
        self.lock = threading.Lock()  # of the state of workers
        self.stopped = False
        self._workers: list[_Worker] = []

    def start(self) -> None:
        """Start the threads that are missing."""
        for _ in range(self.workers - len(self._workers)):
            self._workers.append(_Worker(self))
            self._workers[-1].start()

    def submit(self, chunk: Sequence[Run]) -> None:
        """Put the chunk into the queue."""
        self.chunks.put(list(chunk))

    def _check(self) -> None:
        """Abandon threads whose run does not respond to its time-out."""
        if self.timeout is None:
            return
        with self.lock:
            for worker in self._workers:
                if worker.since and time.monotonic() - worker.since > self.timeout + _GRACE:
                    worker.abandoned = True
                    first, *rest = worker.rest
                    self._outcomes.append(Outcome(first, overdue(self.timeout)))
                    self._outcomes += [Outcome(run, Lost()) for run in rest]
        self._workers = [worker for worker in self._workers if not worker.abandoned]
        self.start()

    def close(self) -> None:
        """Ask all threads to stop, and wait a moment for those that respond."""
        self.stopped = True
        for _ in self._workers:
            self.chunks.put(None)
        until = time.monotonic() + _GOODBYE
        for worker in self._workers:
            worker.join(max(0.0, until - time.monotonic()))
