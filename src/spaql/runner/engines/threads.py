"""Runs in threads of this process, for compiled problems, whose kernels release the interpreter lock.

Threads are daemons, so that the process can end while one of them is busy.  A run is asked to stop about ten times a
second while its agent learns; one that does not respond (it evaluates, or its environment hangs) is abandoned, and
another thread takes the place of its own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

from spaql.runner.engines.engine import Engine, Lost, Outcome, Stopped, attempt, overdue
from spaql.runner.run_spec import Run

_GRACE = 2.0  # seconds beyond the time-out before a run that does not respond is abandoned
_GOODBYE = 0.5  # seconds in which threads may end by themselves


@dataclass(eq=False)
class _Worker:
    """A thread and its chunk."""

    rest: list[Run] = field(default_factory=list)  # of its chunk, the run under way first
    since: float = 0.0  # when that began; 0 between two runs
    abandoned: bool = False


class Threads(Engine):
    """Runs in threads; for the parameters see `make_engine`."""

    name = "threads"
    chunk_seconds = 0.1
    workers = 1

    def __init__(self, workers: int, timeout: float | None = None) -> None:
        self.workers = workers
        self._timeout = timeout
        self._tasks: SimpleQueue[list[Run] | None] = SimpleQueue()
        self._outcomes: SimpleQueue[Outcome] = SimpleQueue()
        self._lock = threading.Lock()  # of the state of workers
        self._stop = threading.Event()
        self._workers: list[_Worker] = []
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Start the threads."""
        for _ in range(self.workers):
            self._hire()

    def _hire(self) -> None:
        worker = _Worker()
        thread = threading.Thread(target=self._work, args=(worker,), daemon=True, name="spaql run")
        self._workers.append(worker)
        self._threads.append(thread)
        thread.start()

    def submit(self, chunk: Sequence[Run]) -> None:
        """Put the chunk into the queue."""
        self._tasks.put(list(chunk))

    def collect(self, timeout: float) -> list[Outcome]:
        """Return outcomes; runs that are overdue and do not respond are abandoned."""
        outcomes: list[Outcome] = []
        try:
            outcomes.append(self._outcomes.get(timeout=timeout))
            while True:
                outcomes.append(self._outcomes.get_nowait())
        except Empty:
            return outcomes + self._abandon()

    def _abandon(self) -> list[Outcome]:
        """Abandon threads whose run does not respond to its time-out."""
        if self._timeout is None:
            return []
        outcomes: list[Outcome] = []
        with self._lock:
            for worker in self._workers:
                if worker.since and time.monotonic() - worker.since > self._timeout + _GRACE:
                    worker.abandoned = True
                    first, *rest = worker.rest
                    outcomes.append(Outcome(first, overdue(self._timeout)))
                    outcomes += [Outcome(run, Lost()) for run in rest]
            self._workers = [worker for worker in self._workers if not worker.abandoned]
        for _ in range(self.workers - len(self._workers)):
            self._hire()
        return outcomes

    def close(self) -> None:
        """Ask all threads to stop, and wait a moment for those that respond."""
        self._stop.set()
        for _ in self._threads:
            self._tasks.put(None)
        until = time.monotonic() + _GOODBYE
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _work(self, worker: _Worker) -> None:
        while (chunk := self._tasks.get()) is not None:
            with self._lock:
                worker.rest = chunk
            for run in chunk:
                with self._lock:
                    worker.since = time.monotonic()
                try:
                    result = attempt(run, self._timeout, lambda: self._stop.is_set() or worker.abandoned)
                except Stopped:  # nobody waits for the result
                    return
                with self._lock:
                    if worker.abandoned:  # too late: its outcome has been reported
                        return
                    worker.since, worker.rest = 0.0, worker.rest[1:]
                    self._outcomes.put(Outcome(run, result))
