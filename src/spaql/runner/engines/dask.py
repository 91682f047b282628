"""Runs on a Dask cluster: of this machine where no address is given, of many where there is one.

A task of Dask is a chunk of runs, performed by `work` on a worker: bytes in, bytes out (`protocol`), so that no object
of ours travels.  In goes one message, the `runs` as specifications and the `Orders`; out comes a stream of frames: the
worker and its code, then, where the codes are equal, one for each run, empty for a run that has not begun because the
one before it ended its process.  A task that nobody waits for any more stops within a fraction of a second.

`Dask` is the client.  A thread of it holds the connection; whatever happens to the cluster, each run gets a result.

- A worker dies: Dask gives its chunks to others, and gives up where that happens too often (its setting
  `distributed.scheduler.allowed-failures`); the runs of such a chunk are then performed again one by one, and one that
  was alone is reported as killed.
- The scheduler dies, or the connection is cut: all runs under way are lost; the scheduler is looked for at the same
  address for a minute.
- A task fails although the connection stands: its runs are lost for that reason, which is counted.
- There are no workers: chunks wait for them.
- This process ends: the scheduler forgets its chunks, and workers stop them.

Dask's own configuration holds: certificates for `tls://` addresses, time-outs, whether results come through the
scheduler.  See `docs/cluster.md`.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import hashlib
import io
import logging
import os
import sys
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from spaql.errors import EngineError
from spaql.runner.code_version import code_version
from spaql.runner.engines.engine import Engine, Lost, Outcome, Result, Stopped, attempt, count_processors, describe
from spaql.runner.engines.processes import Processes, add_paths
from spaql.runner.engines.protocol import decode, decode_result, encode, encode_result, read_frame, write_frame
from spaql.runner.execute import prepare_algorithms
from spaql.runner.record import KILLED, Failure
from spaql.runner.run_spec import Run, from_specification

if TYPE_CHECKING:
    from distributed import Client, LocalCluster

FIRST_PATIENCE = 10.0  # seconds to look for a scheduler that was not seen before
PATIENCE = 60.0  # seconds to look for one that is gone
_TRY = 2.0  # seconds that one look may take
_PAUSE = 0.2  # seconds between two looks, and between two at the connection
_COUNTING = 1.0  # seconds between two counts of workers
_ALONE = 3.0  # seconds without workers before the user is told
_GOODBYE = 0.8  # seconds to leave a cluster politely
_TERM = 0.1  # seconds in which a worker of our own may end by itself
_SECONDS_PER_WORKER = 0.004  # a chunk costs the scheduler about 1.5 ms; see docs/cluster.md
_IDLE_SECONDS = 60.0  # in which a child process may wait for its next chunk
_POLL = 0.1  # seconds between two looks at whether a task is still wanted
_SAME = ("python", "dask", "distributed", "msgpack", "cloudpickle", "tornado", "numpy")
_KEPT = "finished runs are kept, and the same command goes on with the others"


# On a worker ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Orders:
    """How to perform the runs of a chunk."""

    code: str  # version of the client's code
    paths: tuple[str, ...]  # folders to import from, where the worker has them too
    algorithms: tuple[str, ...]  # to compile before the first run
    timeout: float | None  # seconds that a run may take
    isolated: bool  # whether runs are performed in a child process, which is kept for the next chunk


def encode_chunk(orders: Orders, runs: Sequence[Run]) -> bytes:
    """Return a chunk as the argument of `work`."""
    return encode({**vars(orders), "runs": [run.specification for run in runs]})


def work(body: bytes) -> bytes:
    """Perform a chunk; the answer is empty where nobody waits for it any more."""
    content, _ = decode(body)
    specifications = content.pop("runs")
    orders = Orders(**content | {name: tuple(content[name]) for name in ("paths", "algorithms")})
    name, stopped = _current_task()
    answer = io.BytesIO()
    write_frame(answer, encode({"worker": name, "code": code_version()}))
    if orders.code != code_version():
        return answer.getvalue()
    add_paths(orders.paths)
    runs = [from_specification(specification) for specification in specifications]
    perform = _perform_isolated if orders.isolated else _perform_here
    try:
        for result in perform(orders, runs, stopped):
            write_frame(answer, b"" if isinstance(result, Lost) else encode_result(result))
    except Stopped:
        return b""
    return answer.getvalue()


def decode_answer(body: bytes, runs: Sequence[Run]) -> tuple[dict[str, Any], list[Outcome]]:
    """Return who performed a chunk with which code, and its outcomes; there are none where the codes differ."""
    stream = io.BytesIO(body)
    head = read_frame(stream)
    if head is None:  # it was stopped, though we wait for it
        return {}, [Outcome(run, Lost()) for run in runs]
    outcomes = []
    for run in runs:
        frame = read_frame(stream)
        if frame is None:
            break
        outcomes.append(Outcome(run, decode_result(frame) if frame else Lost()))
    return decode(head)[0], outcomes


def _current_task() -> tuple[str, Callable[[], bool]]:
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


_LOCK = threading.Lock()  # of the two below
_prepared: set[str] = set()
_idle: list[tuple[Orders, Processes]] = []


def _perform_here(orders: Orders, runs: Sequence[Run], stopped: Callable[[], bool]) -> list[Result]:
    """In this thread."""
    with _LOCK:
        prepare_algorithms([name for name in orders.algorithms if name not in _prepared])
        _prepared.update(orders.algorithms)
    return [attempt(run, orders.timeout, stopped) for run in runs]


def _perform_isolated(orders: Orders, runs: Sequence[Run], stopped: Callable[[], bool]) -> list[Result]:
    """In a child process, idle or new."""
    with _LOCK:
        place = next((i for i, (made_for, _) in enumerate(_idle) if made_for == orders), None)
        engine = None if place is None else _idle.pop(place)[1]
    if engine is None:
        engine = Processes(1, orders.timeout, orders.algorithms, orders.paths)
        engine.start()
    results: dict[str, Result] = {}
    try:
        while all(isinstance(result, Lost) for result in results.values()):  # no run has begun: the process died first
            results.clear()
            engine.submit(runs)
            while any(run.id not in results for run in runs):
                if stopped():
                    raise Stopped
                for outcome in engine.collect(_POLL):
                    results.setdefault(outcome.run.id, outcome.result)  # the first report counts
    except BaseException:
        engine.close()
        raise
    with _LOCK:
        _idle.append((orders, engine))
    timer = threading.Timer(_IDLE_SECONDS, _end_idle, [engine])
    timer.daemon = True
    timer.start()
    return [results[run.id] for run in runs]


@atexit.register
def _end_idle(only: Processes | None = None) -> None:
    """End child processes that nobody uses: this one, or all."""
    with _LOCK:
        ended = [engine for _, engine in _idle if only is None or engine is only]
        _idle[:] = [pair for pair in _idle if pair[1] not in ended]
    for engine in ended:
        engine.close()


# The client -----------------------------------------------------------------------------------------------------

_News = tuple[Sequence[Run], bytes] | list[Outcome] | EngineError | str


class Dask(Engine):
    """Runs on a Dask cluster; for the parameters see `make_engine` and `Orders`.

    A cluster of this machine ends with the engine.
    """

    name = "dask"
    chunk_seconds = 1.0  # at least; see `_set_workers`

    def __init__(
        self,
        address: str | None,
        *,
        workers: int | None,
        timeout: float | None,
        algorithms: Sequence[str],
        isolated: bool,
    ) -> None:
        self._address = address
        self._most = workers
        self._orders = Orders(code_version(), (os.getcwd(),), tuple(algorithms), timeout, isolated)
        self._mark = uuid.uuid4().hex
        self._chunks = count()
        self._threads = 0
        self._news: SimpleQueue[_News] = SimpleQueue()
        self._error: EngineError | None = None
        self._raised = False
        self._ready = threading.Event()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        # Of the thread that holds the connection:
        self._tasks: set[asyncio.Task[None]] = set()
        self._stop = asyncio.Event()
        self._connected = asyncio.Event()
        self._client: Client | None = None
        self._cluster: LocalCluster | None = None

    @property
    def workers(self) -> int:
        """Threads of all workers when they were last counted."""
        return max(1, min(self._threads, self._most or self._threads))

    def report(self, sentence: str) -> None:
        """Tell the user what happens to the cluster; called from the thread that collects."""
        tqdm.write(f"spaql: {sentence}", file=sys.stderr)

    def start(self) -> None:
        """Connect, or start a cluster."""
        try:
            from distributed.versions import VersionMismatchWarning
        except ImportError:
            raise EngineError("dask: it is not installed; add it with: pip install 'spaql[dask]'") from None
        warnings.simplefilter("ignore", VersionMismatchWarning)  # a table; we report one sentence
        self._thread = threading.Thread(target=self._live, daemon=True, name="spaql dask")
        self._thread.start()
        try:
            self._ready.wait()
            self.collect(0.0)
        except BaseException:
            self.close()
            raise

    def submit(self, chunk: Sequence[Run]) -> None:
        """Send a chunk, or keep it until there is a scheduler to send it to."""
        self._call(lambda: self._follow(self._perform(list(chunk))))

    def collect(self, timeout: float) -> list[Outcome]:
        """Return outcomes; what happens to the cluster is reported meanwhile."""
        until = time.monotonic() + timeout
        outcomes: list[Outcome] = []
        while not outcomes:
            try:
                news = [self._news.get(timeout=max(0.0, until - time.monotonic()))]
                while not self._news.empty():
                    news.append(self._news.get())
            except Empty:
                break
            for item in news:
                outcomes += self._digest(item)
        if self._error is not None and not outcomes and not self._raised:
            self._raised = True
            raise self._error
        return outcomes

    def _digest(self, news: _News) -> list[Outcome]:
        if isinstance(news, str):
            self.report(news)
        elif isinstance(news, EngineError):
            self._error = self._error or news
        elif isinstance(news, list):
            return news
        else:
            chunk, body = news
            answer, outcomes = decode_answer(body, chunk)
            if answer.get("code", self._orders.code) == self._orders.code:
                return outcomes
            self._error = self._error or EngineError(
                f"dask: the worker {answer['worker']} computes with other code ({answer['code']}, this is "
                f"{self._orders.code}); install the same versions of spaql, numpy, numba and llvmlite on both, and "
                "start the worker again"
            )
        return []

    def close(self) -> None:
        """Leave the cluster: what is under way is stopped, there too."""
        self._call(self._stop.set)
        if self._thread is not None:
            self._thread.join(_GOODBYE)
            self._thread = None

    def _call(self, function: Callable[[], object]) -> None:
        """Call a function in the thread that holds the connection, where there still is one."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # it has ended
                self._loop.call_soon_threadsafe(function)

    # The rest is done by the thread that holds the connection.

    def _live(self) -> None:
        with _quiet():
            asyncio.run(self._attend())

    async def _attend(self) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            await self._start()
            self._ready.set()
            await self._watch()
        except EngineError as error:
            self._news.put(error)
        except Exception as error:  # whatever Dask may raise: no traceback is for the user
            self._news.put(EngineError(f"dask: {_describe(error)}; {_KEPT}"))
        finally:
            self._ready.set()
            await self._leave()

    async def _start(self) -> None:
        """Start a cluster where none was named; connect."""
        if self._address is None:
            from distributed import LocalCluster

            self._cluster = LocalCluster(
                n_workers=self._most or count_processors(),
                threads_per_worker=1,
                host="127.0.0.1",
                dashboard_address=None,
                scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},  # any free port
                memory_limit=None,
                config={"distributed.worker.profile.enabled": False},  # which takes turns from the runs
                silence_logs=logging.CRITICAL,
                asynchronous=True,
            )
            self._cluster.shutdown_on_close = False  # at the end of the process, too, it is closed by us
            await self._cluster
            self._address = str(self._cluster.scheduler_address)
        problem = await self._connect(FIRST_PATIENCE)
        if problem is not None:
            tls = self._address.startswith("tls://")
            raise EngineError(
                f"dask: no scheduler answers at {self._address} ({problem}); start one with: dask scheduler, or leave "
                f"the address out{'; docs/cluster.md shows how to give Dask certificates' if tls else ''}"
            )

    async def _connect(self, patience: float) -> str | None:
        """Look for the scheduler for some seconds; returns what is wrong where it does not answer."""
        from distributed import Client

        until = time.monotonic() + patience
        while True:
            client = None
            try:
                client = Client(self._address, timeout=_TRY, asynchronous=True, set_as_default=False, name="spaql")
                await client
                self._set_workers(await client.nthreads())
            except Exception as error:
                if client is not None:
                    await _close(client)
                if time.monotonic() > until or self._stop.is_set() or not isinstance(error, OSError):
                    return _describe(error)
                await asyncio.sleep(_PAUSE)
            else:
                self._client = client
                self._connected.set()
                self._follow(self._compare_versions(client))
                return None

    async def _watch(self) -> None:
        """Count workers, and reconnect where the scheduler is gone, until asked to stop."""
        counted, seen, reported = 0.0, time.monotonic(), False
        while not self._stop.is_set():
            assert self._client is not None
            if self._client.status != "running":
                await self._reconnect()
                seen = time.monotonic()
            if time.monotonic() - counted > _COUNTING:
                with contextlib.suppress(OSError, TimeoutError):
                    self._set_workers(await asyncio.wait_for(self._client.nthreads(), _TRY))
                    counted = time.monotonic()
                if self._threads:
                    seen, reported = time.monotonic(), False
                elif not reported and time.monotonic() - seen > _ALONE:
                    self._news.put(f"waits for workers at {self._address}")
                    reported = True
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), _PAUSE)

    def _set_workers(self, threads: Mapping[str, int]) -> None:
        """Set the size of chunks by the number of workers: many must ask less often, or the scheduler is too slow.

        Where only some may be used, no chunk waits at the others: they would begin it.
        """
        self._threads = sum(threads.values())
        self.window = Dask.window if self._threads <= self.workers else 1
        self.chunk_seconds = max(Dask.chunk_seconds, self.workers * _SECONDS_PER_WORKER)

    async def _reconnect(self) -> None:
        """Connect again, for a while; chunks wait meanwhile."""
        self._connected.clear()
        self._news.put(f"lost the scheduler at {self._address}; looks for it for up to {PATIENCE:g} s")
        assert self._client is not None
        self._follow(_close(self._client))
        if await self._connect(PATIENCE) is None:
            self._news.put("found the scheduler again; goes on")
        elif not self._stop.is_set():
            raise EngineError(f"dask: the scheduler at {self._address} did not come back; {_KEPT}")

    async def _leave(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._cluster is not None:  # ours alone: nobody else's runs are there
            with contextlib.suppress(Exception):
                await asyncio.gather(*(worker.kill(timeout=_TERM) for worker in self._cluster.workers.values()))
        if self._client is not None:
            await _close(self._client)
        if self._cluster is not None:
            with contextlib.suppress(Exception):
                await self._cluster.close()

    def _follow(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _perform(self, chunk: Sequence[Run]) -> None:
        """Send a chunk and wait for its answer."""
        await self._connected.wait()
        client = self._client
        assert client is not None
        ids = "/".join([*(run.id for run in chunk), self._mark, str(next(self._chunks))])
        key = f"spaql-{hashlib.sha256(ids.encode()).hexdigest()[:32]}"
        try:
            future = client.submit(work, encode_chunk(self._orders, chunk), key=key, pure=False)
            error = await future.exception()
            # A scheduler that is gone leaves futures that are cancelled, not results.
            if future.status == "finished":
                self._news.put((chunk, await client.gather(future)))
                return
            if error is not None:
                self._news.put(await self._judge(chunk, error))
                return
            reason = f"its task was {future.status}"
        except Exception as raised:
            reason = f"its task failed: {_describe(raised)}"
        if client.status != "running":  # the connection broke, which is not the fault of a run
            self._news.put([Outcome(run, Lost()) for run in chunk])
        else:
            self._news.put([Outcome(run, Lost(alone=True, reason=reason)) for run in chunk])

    async def _judge(self, chunk: Sequence[Run], error: BaseException) -> list[Outcome] | EngineError:
        """Outcomes of the runs of a task that raised an error; an EngineError where no run can succeed."""
        from distributed.scheduler import KilledWorker

        if isinstance(error, KilledWorker):
            if len(chunk) > 1:
                return [Outcome(run, Lost(alone=True)) for run in chunk]
            deaths = error.allowed_failures + 1
            return [Outcome(chunk[0], Failure(KILLED, f"its worker died, {deaths} times", deaths))]
        if isinstance(error, EngineError):
            return EngineError(f"dask: a worker could not begin: {error}; {_KEPT}")
        if isinstance(error, ImportError) or isinstance(error.__cause__, ImportError):
            place = await self._find_missing()
            return EngineError(
                f"dask: {place} cannot load spaql ({_describe(error.__cause__ or error)}); install spaql[dask] in the "
                "same version for the scheduler and every worker"
            )
        return EngineError(f"dask: a worker failed: {_describe(error)}; {_KEPT}")

    async def _find_missing(self) -> str:
        """Where spaql is not installed."""
        assert self._client is not None
        with contextlib.suppress(Exception):
            versions = await asyncio.wait_for(self._client.get_versions(packages=["spaql"]), _TRY)
            for place, installed in _places(versions):
                if installed.get("spaql") is None:
                    return place
        return "a worker, or the scheduler,"

    async def _compare_versions(self, client: Client) -> None:
        """Report where the cluster has other versions of the packages that both ends talk with."""
        with contextlib.suppress(Exception):
            versions = await client.get_versions()
            for place, installed in _places(versions):
                for name in _SAME:
                    here, there = (str(each.get(name)) for each in (versions["client"]["packages"], installed))
                    if here != there:
                        self._news.put(f"{place} has {name} {there}, and here is {here}; they should be the same")
                        return


def _places(versions: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Scheduler and workers with the versions of their packages."""
    yield "the scheduler", versions["scheduler"]["packages"]
    for name, about in versions["workers"].items():
        yield f"the worker {name}", about["packages"]


async def _close(client: Client) -> None:
    with contextlib.suppress(Exception):
        await client.close()


def _describe(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, OSError) and text else describe(error)


_NOISY = ("distributed", "tornado", "asyncio")
_NOISE = threading.Lock()  # of the two below
_listeners = 0
_levels: list[tuple[logging.Logger, int]] = []


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence what Dask and the packages below it log about connections, as long as any engine is open."""
    global _listeners
    with _NOISE:
        _listeners += 1
        if _listeners == 1:
            names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] in _NOISY]
            _levels.extend((logger, logger.level) for logger in map(logging.getLogger, names))
            for logger, _ in _levels:
                logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        with _NOISE:
            _listeners -= 1
            if not _listeners:
                for logger, level in _levels:
                    logger.setLevel(level)
                _levels.clear()
