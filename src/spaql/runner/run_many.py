"""Do many runs, each once: hand them to an engine in chunks, store what comes back, and lose nothing.

`perform` does the runs that the store does not have.  Whatever finishes is in the store within a moment; a run that
fails is recorded with its message, and the others go on.  A run under which a worker died is tried again, alone, and
is a failure after the third time.  Chunks are sized by what runs of their kind have taken so far.

What is said of progress is stored with the results, so that anybody can read it meanwhile (`Store.progress`).
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from spaql.errors import SpaqlError
from spaql.runner.engines.engine import ERROR, KILLED, Again, Engine, Outcome
from spaql.runner.run_spec import Run
from spaql.runner.store import Failure, Record, Store

STRIKES = 3
_COMMIT_SECONDS = 0.25
_MOST_PER_COMMIT = 500
_SMOOTHING = 0.2  # weight of the last run in what its kind is thought to take
_LARGEST_CHUNK = 1000


@dataclass(frozen=True)
class Tally:
    """What became of the runs of one `perform`, with those that were done before it."""

    total: int
    done: int
    failed: int

    @property
    def complete(self) -> bool:
        """Whether all runs are finished."""
        return self.done == self.total


def perform(
    runs: Sequence[Run],
    store: Store,
    engine: Engine,
    *,
    retry_failed: bool = False,
    before: Tally | None = None,
    more: bool = False,
    scored: bool = False,
    finished: Callable[[Run], object] = lambda run: None,
    failed: Callable[[Run, Failure], object] = lambda run, failure: None,
) -> Tally:
    """Do the runs that the store does not have.

    Ctrl-C, or an error of the engine or the store, stops it: what is finished is stored, and the exception is raised.

    Parameters
    ----------
    runs
        What to do, each at most once; handed out in this order.
    store
        Where results go.
    engine
        Where they are done; started here, and closed at the end.
    retry_failed
        Whether runs that the store has as failures are tried again.
    before
        Further runs, that need not be handed over, as it is known what became of them: they are counted.
    more
        Whether more is to come, so that nobody is told that it is over; see `over`.
    scored
        Whether a run whose steps did not suffice for a single iteration, so that it has no score, is a failure.
    finished, failed
        Called with each run that finished, or failed for good.
    """
    work = _Work.of(runs, store, engine, retry_failed, before or Tally(0, 0, 0))
    work.scored = scored
    store.add((), progress=work.said("runs"))
    at_end = "runs" if more else "over"
    if not work.waiting:
        store.add((), progress=work.said(at_end))
        return work.tally
    try:
        with engine:
            try:
                while work.waiting or work.handed_out:
                    work.hand_out()
                    work.arrived += engine.collect(_COMMIT_SECONDS)
                    while work.arrived:
                        work.take(work.arrived.popleft(), finished, failed)
                    work.save_sometimes()
            except BaseException:
                # What else has come back is finished too; nobody is told of it.
                with contextlib.suppress(SpaqlError):
                    work.arrived += engine.collect(0.0)
                for outcome in work.arrived:
                    work.take(outcome)
                raise
    finally:
        work.save(at_end if not (work.waiting or work.handed_out) else "stopped")
    return work.tally


def announce(store: Store, engine: Engine, before: Tally) -> None:
    """Say that a study of so many runs starts; it may have to compile first."""
    work = _Work(store, engine, deque(), before.total, before.done, before.failed, 0)
    store.add((), progress={**work.said("starts"), "seconds_left": None})


def over(store: Store, *, stopped: bool) -> None:
    """Say that nothing more is to come, because all is done or because it was stopped."""
    said = store.progress
    if said is not None:
        store.add((), progress={**said, "state": "stopped" if stopped else "over", "running": 0})


@dataclass(eq=False)
class _Work:
    """The runs of one `perform` on their way."""

    store: Store
    engine: Engine
    waiting: deque[Run]
    total: int
    done: int
    failed: int
    cost_left: int
    began: float = field(default_factory=time.time)
    handed_out: dict[str, list[int]] = field(default_factory=dict)  # by id, how many of its chunk are left
    arrived: deque[Outcome] = field(default_factory=deque)  # and not looked at yet
    alone: set[str] = field(default_factory=set)  # suspected of ending their worker
    strikes: Counter[str] = field(default_factory=Counter)
    pace: dict[tuple[str, str], float] = field(default_factory=dict)  # seconds per unit of cost
    scored: bool = False
    chunks: int = 0
    results: list[tuple[str, str, Record]] = field(default_factory=list)
    failures: list[tuple[str, str, Failure]] = field(default_factory=list)
    saved: float = field(default_factory=time.monotonic)
    done_now: int = 0
    cost_now: int = 0

    @classmethod
    def of(cls, runs: Sequence[Run], store: Store, engine: Engine, retry_failed: bool, before: Tally) -> _Work:
        unique = {run.id: run for run in runs}
        done = store.finished() & unique.keys()
        failed = set() if retry_failed else store.failures().keys() & unique.keys()
        waiting = deque(run for key, run in unique.items() if key not in done and key not in failed)
        counts = before.total + len(unique), before.done + len(done), before.failed + len(failed)
        return cls(store, engine, waiting, *counts, sum(run.cost for run in waiting))

    @property
    def tally(self) -> Tally:
        return Tally(self.total, self.done, self.failed)

    def hand_out(self) -> None:
        """Chunks for every worker, and one more for each, so that none waits."""
        most = self.engine.window * max(1, self.engine.workers)
        while self.waiting and self.chunks < most:
            chunk = self._chunk(-(-len(self.waiting) // most))
            left = [len(chunk)]
            self.chunks += 1
            self.handed_out |= {run.id: left for run in chunk}
            self.engine.submit(chunk)

    def _chunk(self, most: int) -> list[Run]:
        """Runs worth the seconds that the engine likes, at most so many; a suspect goes alone, or one of a new kind."""
        chunk: list[Run] = []
        seconds = 0.0
        while self.waiting and len(chunk) < min(most, _LARGEST_CHUNK):
            run = self.waiting[0]
            pace = None if run.id in self.alone else self.pace.get(_sort(run))
            if chunk and (pace is None or seconds >= self.engine.chunk_seconds):
                break
            chunk.append(self.waiting.popleft())
            if pace is None:
                break
            seconds += pace * run.cost
        return chunk

    def take(
        self,
        outcome: Outcome,
        finished: Callable[[Run], object] = lambda run: None,
        failed: Callable[[Run, Failure], object] = lambda run, failure: None,
    ) -> None:
        """Keep what became of a run; one that was lost waits again."""
        run, result = outcome.run, outcome.result
        left = self.handed_out.pop(run.id, None)
        if left is None:  # told before: what an engine says twice counts once
            return
        left[0] -= 1
        self.chunks -= left[0] == 0
        if self.scored and isinstance(result, Record) and run.budgets and result.scalars.get("evaluation") is None:
            few = f"steps: {run.budgets[-1]:,} are too few for one iteration of {run.algorithm}; give it more"
            result = Failure(ERROR, few)
        if isinstance(result, Failure) and result.kind == KILLED:
            self.strikes[run.id] += result.attempts
            if self.strikes[run.id] < STRIKES:
                result = Again(alone=True)
            else:
                often = self.strikes[run.id]
                result = replace(result, message=f"{result.message}; it was tried {often} times", attempts=often)
        if isinstance(result, Again):
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
        pace = result.seconds / max(1, run.cost)
        before = self.pace.get(_sort(run), pace)
        self.pace[_sort(run)] = before + _SMOOTHING * (pace - before)
        self.results.append((run.id, run.specification, result))
        self.done, self.done_now, self.cost_now = self.done + 1, self.done_now + 1, self.cost_now + run.cost
        finished(run)

    def save_sometimes(self) -> None:
        """Store what has come, a few times a second."""
        if time.monotonic() - self.saved > _COMMIT_SECONDS or len(self.results) > _MOST_PER_COMMIT:
            self.save("runs")

    def save(self, state: str) -> None:
        """Store what has come, and how far it is."""
        self.store.add(self.results, failed=self.failures, progress=self.said(state))
        self.results, self.failures, self.saved = [], [], time.monotonic()

    def said(self, state: str) -> dict[str, Any]:
        """How far it is, for whoever reads the store."""
        seconds = time.time() - self.began
        left = self.cost_left * seconds / self.cost_now if self.cost_now else None
        return {
            "state": state,
            "engine": self.engine.name,
            "workers": self.engine.workers,
            "process": os.getpid(),
            "host": socket.gethostname(),
            "began": self.began,
            "told": time.time(),
            "total": self.total,
            "done": self.done,
            "failed": self.failed,
            "running": min(len(self.handed_out), self.engine.workers),
            "done_now": self.done_now,
            "seconds_left": 0.0 if not (self.waiting or self.handed_out) else left,
        }


def _sort(run: Run) -> tuple[str, str]:
    """Runs that take about the same time for the same cost."""
    return run.problem, run.algorithm
