"""Runs on a worker of a Dask cluster: the function that a task calls; `spaql.runner.engines.dask` is the other end.

A task is a chunk: bytes in, bytes out (`spaql.runner.engines.protocol`), and no object of ours travels.  In comes one message with
the `runs` as specifications, the `code` that the client computes with, and how they are to be done.  Out goes a stream
of frames: first who answers and with which code; then, where the codes are the same, one for each run, empty for a run
that was not begun because the one before it ended its process.

Compiled problems run in the thread that Dask gives the task.  Plain environments, `isolated`, run in a child process
that is kept for the next chunk, so that one which hangs or exits takes nobody with it.  A task that nobody waits for
any more stops within a fraction of a second: its client is gone, or the worker closes.
"""

from __future__ import annotations

import atexit
import io
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from queue import Empty, SimpleQueue
from typing import Any

from spaql.errors import EngineError
from spaql.runner.engines import protocol as wire
from spaql.runner.engines.engine import Again, Outcome, Stopped, attempt_within
from spaql.runner.engines.processes import Child
from spaql.runner.engines.worker import add_paths
from spaql.runner.run_spec import Run, code, from_specification, prepare_algorithms
from spaql.runner.store import Failure, Record

_MOST_STILLBORN = 3
_IDLE_SECONDS = 60.0  # in which a child may wait for its next chunk
_HEARING = 0.1  # seconds between two looks at whether a task is still wanted
_LOCK = threading.Lock()  # of all below
_PREPARED: set[str] = set()
_IDLE: list[_Servant] = []


@dataclass(frozen=True)
class Orders:
    """How the runs of a chunk are to be done.

    Attributes
    ----------
    code
        What the client computes with (`spaql.runner.run_spec.code`).
    paths
        Folders to look for modules in, where they are on the worker too.
    algorithms
        To compile or load before the first run.
    timeout
        Seconds that a run may take, or None.
    isolated
        Whether runs are done in a child process.
    """

    code: str
    paths: tuple[str, ...]
    algorithms: tuple[str, ...]
    timeout: float | None
    isolated: bool


def asked(orders: Orders, runs: Sequence[Run]) -> bytes:
    """A chunk as the argument of `work`."""
    return wire.message({**vars(orders), "runs": [run.specification for run in runs]})


def work(body: bytes) -> bytes:
    """Do a chunk; nothing is answered where nobody waits for it any more."""
    said, _ = wire.parsed(body)
    specifications = said.pop("runs")
    orders = Orders(**said | {name: tuple(said[name]) for name in ("paths", "algorithms")})
    name, stopped = _task()
    answer = io.BytesIO()
    wire.write(answer, wire.message({"worker": name, "code": _code()}))
    if orders.code != _code():
        return answer.getvalue()
    add_paths(list(orders.paths))
    runs = [from_specification(each) for each in specifications]
    do = _isolated if orders.isolated else _here
    try:
        for result in do(orders, runs, stopped):
            wire.write(answer, b"" if isinstance(result, Again) else wire.packed(result))
    except Stopped:
        return b""
    return answer.getvalue()


def answered(body: bytes, runs: Sequence[Run]) -> tuple[dict[str, Any], list[Outcome]]:
    """Who did a chunk with which code, and what became of its runs; none were done where the codes differ."""
    stream = io.BytesIO(body)
    head = wire.read(stream)
    if head is None:  # it was stopped, against our will
        return {}, [Outcome(run, Again()) for run in runs]
    said, _ = wire.parsed(head)
    outcomes = []
    for run in runs:
        frame = wire.read(stream)
        if frame is None:
            break
        outcomes.append(Outcome(run, wire.unpacked(frame) if frame else Again()))
    return said, outcomes


@cache
def _code() -> str:
    return code()


def _task() -> tuple[str, Callable[[], bool]]:
    """Address of the worker that this thread works for, and whether its task is to stop."""
    from distributed import get_worker

    try:
        worker = get_worker()
    except ValueError:  # not on a worker
        return "nobody", lambda: False
    key = worker.get_current_task()

    def stopped() -> bool:
        task = worker.state.tasks.get(key)
        return task is None or task.state == "cancelled" or worker.status.name in ("closing", "closed", "failed")

    return str(worker.address), stopped


def _here(orders: Orders, runs: Sequence[Run], stopped: Callable[[], bool]) -> list[Record | Failure | Again]:
    """In this thread."""
    with _LOCK:
        prepare_algorithms([name for name in orders.algorithms if name not in _PREPARED])
        _PREPARED.update(orders.algorithms)
    return [attempt_within(run, orders.timeout, stopped) for run in runs]


class _Servant:
    """A child process that does chunks, one at a time, for whichever thread has it."""

    def __init__(self, orders: Orders) -> None:
        self.orders = orders
        self._heard: SimpleQueue[bytes | None] = SimpleQueue()
        self._child = Child(
            lambda child, body: self._heard.put(body),
            algorithms=orders.algorithms,
            timeout=orders.timeout,
            paths=orders.paths,
        )
        self.alive = True

    def do(self, runs: Sequence[Run], stopped: Callable[[], bool]) -> list[Outcome]:
        """What becomes of the runs, each once; empty where it ended before the first could begin."""
        self._child.give(runs)
        found: list[Outcome] = []
        while len(found) < len(runs):
            if stopped():
                raise Stopped
            try:
                body = self._heard.get(timeout=_HEARING)
            except Empty:
                self._child.check()
                continue
            found += self._child.take(body)
            self._child.check()
            if body is None:
                self.alive = False
                return found if self._child.ready else []
        return found

    def rest(self) -> None:
        """Be idle; ends by itself where nobody asks for it for a while."""
        timer = threading.Timer(_IDLE_SECONDS, self._leave)
        timer.daemon = True
        timer.start()

    def _leave(self) -> None:
        with _LOCK:
            if self not in _IDLE:
                return
            _IDLE.remove(self)
        self.end()

    def end(self) -> None:
        """End it now."""
        self.alive = False
        self._child.end()


def _isolated(orders: Orders, runs: Sequence[Run], stopped: Callable[[], bool]) -> list[Record | Failure | Again]:
    """In a child process."""
    for _ in range(_MOST_STILLBORN):
        servant = _hired(orders)
        try:
            outcomes = servant.do(runs, stopped)
        except BaseException:
            servant.end()
            raise
        if servant.alive:
            with _LOCK:
                _IDLE.append(servant)
            servant.rest()
        else:
            servant.end()
        if outcomes:
            by_id: dict[str, Record | Failure | Again] = {}
            for outcome in outcomes:
                by_id.setdefault(outcome.run.id, outcome.result)  # what is said first holds
            return [by_id[run.id] for run in runs]
    raise EngineError(f"{_MOST_STILLBORN} processes ended before they had begun; its log says why")


def _hired(orders: Orders) -> _Servant:
    """A child for these orders, idle or new."""
    with _LOCK:
        for servant in _IDLE:
            if servant.orders == orders:
                _IDLE.remove(servant)
                return servant
    return _Servant(orders)


@atexit.register
def _end_all() -> None:
    for servant in _IDLE:
        servant.end()
