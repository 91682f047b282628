"""Perform many runs, each once: submit them to an engine in chunks, store what comes back, and lose nothing.

Whatever finishes is in the store within a moment; a run that fails is recorded with its message, and the others go on.
A run under which a worker died is tried again, alone, and is a failure after the third time; one that is lost without
being suspected, as with the machine of its worker, is a failure after the thirtieth.  Chunks are sized by the
time that similar runs have taken so far.  Progress is stored too, so that other processes can read it meanwhile.
"""

import contextlib
import os
import socket
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from spaql.errors import SpaqlError
from spaql.runner.engines.engine import Engine, Lost, Outcome, Result
from spaql.runner.record import ERROR, KILLED, Failure, Record
from spaql.runner.run_spec import Run
from spaql.runner.store import Store

STRIKES = 3
LOSSES = 30
_COMMIT_SECONDS = 0.25
_MOST_PER_COMMIT = 500
_SMOOTHING = 0.2  # weight of the last run in the estimate of its kind's speed
_LARGEST_CHUNK = 1000
_Finished = Callable[[Run], object]
_Failed = Callable[[Run, Failure], object]


def _ignore(*event: object) -> None:
    """Do nothing, where no callback was given."""


@dataclass(frozen=True)
class Tally:
    """How many runs there are, and how many of them finished and failed, now or in earlier calls.

    Examples
    --------
    >>> from spaql.runner.run_many import Tally
    >>> Tally(total=6, done=5, failed=1).complete
    False
    """

    total: int  #: runs in all
    done: int  #: those that are finished
    failed: int  #: those that failed

    @property
    def complete(self) -> bool:
        """Whether all runs are finished."""
        return self.done == self.total


def run_many(
    runs: Sequence[Run],
    store: Store,
    engine: Engine,
    *,
    retry_failed: bool = False,
    before: Tally | None = None,
    more: bool = False,
    scored: bool = False,
    finished: _Finished = _ignore,
    failed: _Failed = _ignore,
) -> Tally:
    """Perform the runs that the store does not have, on an engine that is started here and closed at the end.

    Ctrl-C, or an error of the engine or the store, stops it: finished runs are stored, and the exception is raised.

    Parameters
    ----------
    retry_failed
        Whether runs that the store has as failures are tried again.
    before
        Further runs whose results are known; they are counted.
    more
        Whether more runs follow, so that the study is not reported as finished; see `conclude`.
    scored
        Whether a run whose budget was too small for a single iteration is a failure.
    finished, failed
        Called with each run that finished, or failed for good.
    """
    work = _Work(store, engine, before or Tally(0, 0, 0))
    work.add(runs, retry_failed)
    work.save("running")
    try:
        if work.waiting:
            with engine:
                try:
                    while work.waiting or work.submitted:
                        work.submit()
                        work.arrived += engine.collect(_COMMIT_SECONDS)
                        while work.arrived:
                            work.take(work.arrived.popleft(), scored, finished, failed)
                        if time.monotonic() - work.saved > _COMMIT_SECONDS or len(work.results) > _MOST_PER_COMMIT:
                            work.save("running")
                except BaseException:
                    # Whatever else has come back is finished too; the callbacks are not called with it.
                    with contextlib.suppress(SpaqlError):
                        work.arrived += engine.collect(0.0)
                    for outcome in work.arrived:
                        work.take(outcome, scored, _ignore, _ignore)
                    raise
    finally:
        work.save("stopped" if work.waiting or work.submitted else "running" if more else "finished")
    return Tally(work.total, work.done, work.failed)


def announce(store: Store, engine: Engine, before: Tally) -> None:
    """Report in the store that a study of so many runs starts; it may have to compile first."""
    store.add((), progress={**_Work(store, engine, before).progress("starting"), "seconds_left": None})


def conclude(store: Store, *, stopped: bool) -> None:
    """Report in the store that no more runs follow, because all are finished or because the study was stopped."""
    progress = store.progress
    if progress is not None:
        store.add((), progress={**progress, "state": "stopped" if stopped else "finished", "running": 0})


class _Work:
    """State of one call of `run_many`."""

    def __init__(self, store: Store, engine: Engine, before: Tally) -> None:
        self.store, self.engine = store, engine
        self.total, self.done, self.failed = before.total, before.done, before.failed
        self.began, self.started, self.saved = time.time(), time.monotonic(), 0.0
        self.waiting: deque[Run] = deque()
        self.submitted: dict[str, list[int]] = {}  # by id, how many of its chunk are left
        self.arrived: deque[Outcome] = deque()  # collected, not taken yet
        self.alone: set[str] = set()  # suspected of ending their worker
        self.strikes: Counter[str] = Counter()
        self.losses: Counter[str] = Counter()
        self.speed: dict[tuple[str, str], float] = {}  # seconds per unit of cost, by problem and algorithm
        self.results: list[tuple[str, str, Record]] = []
        self.failures: list[tuple[str, str, Failure]] = []
        self.chunks = self.done_now = self.cost_now = self.cost_left = 0

    def add(self, runs: Sequence[Run], retry_failed: bool) -> None:
        """Let the runs wait that the store does not have."""
        unique = {run.id: run for run in runs}
        done = self.store.finished() & unique.keys()
        failed = set() if retry_failed else self.store.failures().keys() & unique.keys()
        self.waiting += [run for key, run in unique.items() if key not in done and key not in failed]
        self.total += len(unique)
        self.done += len(done)
        self.failed += len(failed)
        self.cost_left = sum(run.cost for run in self.waiting)

    def submit(self) -> None:
        """Submit as many chunks as the engine's window allows."""
        most = self.engine.window * max(1, self.engine.workers)
        while self.waiting and self.chunks < most:
            chunk = self._cut_chunk(-(-len(self.waiting) // most))
            left = [len(chunk)]
            self.chunks += 1
            self.submitted |= {run.id: left for run in chunk}
            self.engine.submit(chunk)

    def _cut_chunk(self, most: int) -> list[Run]:
        """Take runs worth `chunk_seconds`; a suspect goes alone, and so does the first run of a kind."""
        chunk: list[Run] = []
        seconds = 0.0
        while self.waiting and len(chunk) < min(most, _LARGEST_CHUNK):
            run = self.waiting[0]
            speed = None if run.id in self.alone else self.speed.get((run.problem, run.algorithm))
            if chunk and (speed is None or seconds >= self.engine.chunk_seconds):
                break
            chunk.append(self.waiting.popleft())
            if speed is None:
                break
            seconds += speed * run.cost
        return chunk

    def take(self, outcome: Outcome, scored: bool, finished: _Finished, failed: _Failed) -> None:
        """Keep the result of a run; one that was lost waits again."""
        run = outcome.run
        left = self.submitted.pop(run.id, None)
        if left is None:  # reported before: the first report counts
            return
        left[0] -= 1
        self.chunks -= left[0] == 0
        result = self._judge(run, outcome.result, scored)
        if isinstance(result, Lost):
            if result.alone:
                self.alone.add(run.id)
            self.waiting.appendleft(run)
            return
        self.cost_left -= run.cost
        if isinstance(result, Failure):
            self.failures.append((run.id, run.specification, result))
            self.failed += 1
            failed(run, result)
            return
        kind, speed = (run.problem, run.algorithm), result.seconds / max(1, run.cost)
        before = self.speed.get(kind, speed)
        self.speed[kind] = before + _SMOOTHING * (speed - before)
        self.results.append((run.id, run.specification, result))
        self.done, self.done_now, self.cost_now = self.done + 1, self.done_now + 1, self.cost_now + run.cost
        finished(run)

    def _judge(self, run: Run, result: Result, scored: bool) -> Result:
        """Whether a result counts: what may be the run's fault is tried `STRIKES` times, what is not `LOSSES` times."""
        if isinstance(result, Record):
            if scored and run.budgets and result.scalars.get("evaluation") is None:
                steps = f"steps: {run.budgets[-1]:,} are too few for one iteration of {run.algorithm}; give it more"
                return Failure(ERROR, steps)
            return result
        if isinstance(result, Lost):
            if not result.reason:
                self.losses[run.id] += 1
                if self.losses[run.id] < LOSSES:
                    return result
                return Failure(KILLED, f"it was lost with its worker {LOSSES} times, each time before its end", LOSSES)
            result = Failure(ERROR, result.reason)
        elif result.kind != KILLED:
            return result
        self.strikes[run.id] += result.attempts
        tried = self.strikes[run.id]
        if tried < STRIKES:
            return Lost(alone=True)
        return replace(result, message=f"{result.message}; it was tried {tried} times", attempts=tried)

    def save(self, state: str) -> None:
        """Store what has come, and the progress."""
        self.store.add(self.results, failed=self.failures, progress=self.progress(state))
        self.results, self.failures, self.saved = [], [], time.monotonic()

    def progress(self, state: str) -> dict[str, Any]:
        """Progress, for whoever reads the store."""
        seconds = time.monotonic() - self.started  # the time of day may jump
        left = self.cost_left * seconds / self.cost_now if self.cost_now else None
        return {
            "state": state,
            "engine": self.engine.name,
            "workers": self.engine.workers,
            "process": os.getpid(),
            "host": socket.gethostname(),
            "began": self.began,
            "updated": time.time(),
            "seconds": seconds,
            "total": self.total,
            "done": self.done,
            "failed": self.failed,
            "running": min(len(self.submitted), self.engine.workers),
            "done_now": self.done_now,
            "seconds_left": 0.0 if not (self.waiting or self.submitted) else left,
        }
