"""Runs on a Dask cluster: of this machine where no address is given, of many where there is one.

A task of Dask is a chunk of runs, done by `spaql.runner.engines.remote`.  A thread of ours holds the connection: it follows
every chunk, counts the workers, and connects again where the scheduler is gone for a while.  Whatever happens to the
cluster, each run comes back as what became of it or as one to be done again.

- A worker dies: Dask gives its chunks to others, and gives up where that happens too often (its setting
  `distributed.scheduler.allowed-failures`); the runs of such a chunk are then done again one by one, and one that was
  alone is said to have been killed.
- The scheduler dies, or the connection is cut: all runs under way are to be done again; it is looked for at the same
  address for a minute.
- There are no workers: chunks wait for them.
- This process ends, however it does: the scheduler forgets its chunks, and workers stop them.

Dask's own configuration holds: certificates for `tls://` addresses, time-outs, whether results come through the
scheduler.  See `docs/cluster.md`.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import sys
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from itertools import count
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Self

from tqdm import tqdm

from spaql.errors import EngineError
from spaql.runner.engines.engine import KILLED, Again, Engine, Outcome, processors
from spaql.runner.engines.remote import Orders, answered, asked, work
from spaql.runner.run_spec import Run, code
from spaql.runner.store import Failure

if TYPE_CHECKING:
    from distributed import Client, LocalCluster

FIRST_PATIENCE = 10.0  # seconds to look for a scheduler that was not seen before
PATIENCE = 60.0  # seconds to look for one that is gone
_TRY = 2.0  # seconds that one look may take
_PAUSE = 0.2  # seconds between two looks, and between two at the connection
_COUNTING = 1.0  # seconds between two countings of workers
_ALONE = 3.0  # seconds without workers before somebody should know
_GOODBYE = 0.8  # seconds in which a cluster may be left politely
_TERM = 0.1  # seconds in which a worker of our own may end by itself
_SECONDS_PER_WORKER = 0.004  # a chunk costs the scheduler about 1.5 ms; see docs/cluster.md
_SAME = ("python", "dask", "distributed", "msgpack", "cloudpickle", "tornado", "numpy")
_KEPT = "finished runs are kept, and the same command goes on with the others"


class Dask(Engine):
    """Runs on a Dask cluster.

    Parameters
    ----------
    address
        Of its scheduler; None starts a cluster on this machine, which ends with the engine.
    workers
        Runs at once; None for all that the cluster has, and for one per processor on this machine.
    timeout
        Seconds that a run may take; None for as long as it likes.
    algorithms
        That will be asked for, so that no run's time is spent on compiling.
    isolated
        Whether runs are done in processes of their own beside the workers, which plain environments need.
    """

    name = "dask"
    chunk_seconds = 1.0  # at least; see `_counted`

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
        self._orders = Orders(code(), (os.getcwd(),), tuple(algorithms), timeout, isolated)
        self._mark = uuid.uuid4().hex
        self._chunks = count()
        self._threads = 0
        self._heard: SimpleQueue[_News] = SimpleQueue()
        self._error: EngineError | None = None
        self._raised = False
        self._ready = threading.Event()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        # Of the thread that holds the connection:
        self._tasks: set[asyncio.Task[None]] = set()
        self._stop = asyncio.Event()
        self._there = asyncio.Event()
        self._client: Client | None = None
        self._cluster: LocalCluster | None = None

    @property
    def workers(self) -> int:
        """Threads of all workers when they were last counted."""
        return max(1, min(self._threads, self._most or self._threads))

    def say(self, sentence: str) -> None:
        """Tell the user what happens to the cluster; called from the thread that collects."""
        tqdm.write(f"spaql: {sentence}", file=sys.stderr)

    def __enter__(self) -> Self:
        try:
            from distributed.versions import VersionMismatchWarning
        except ImportError:
            raise EngineError("dask: it is not installed; add it with: pip install 'spaql[dask]'") from None
        warnings.simplefilter("ignore", VersionMismatchWarning)  # a table; we say it in a sentence
        self._thread = threading.Thread(target=self._live, daemon=True, name="spaql dask")
        self._thread.start()
        try:
            self._ready.wait()
            self.collect(0.0)
        except BaseException:
            self.close()
            raise
        return self

    def submit(self, chunk: Sequence[Run]) -> None:
        """Send a chunk, or keep it until there is a scheduler to send it to."""
        self._tell(self._begin, list(chunk))

    def collect(self, timeout: float) -> list[Outcome]:
        """What came back; sentences are said meanwhile."""
        until = time.monotonic() + timeout
        found: list[Outcome] = []
        while not found:
            try:
                news = [self._heard.get(timeout=max(0.0, until - time.monotonic()))]
                while not self._heard.empty():
                    news.append(self._heard.get())
            except Empty:
                break
            for each in news:
                found += self._heed(each)
        if self._error is not None and not found and not self._raised:
            self._raised = True
            raise self._error
        return found

    def _heed(self, news: _News) -> list[Outcome]:
        if isinstance(news, str):
            self.say(news)
        elif isinstance(news, EngineError):
            self._error = self._error or news
        elif isinstance(news, list):
            return news
        else:
            chunk, body = news
            said, outcomes = answered(body, chunk)
            if said.get("code", self._orders.code) == self._orders.code:
                return outcomes
            self._error = self._error or EngineError(
                f"dask: the worker {said['worker']} computes with other code ({said['code']}, this is "
                f"{self._orders.code}); install the same versions of spaql, numpy, numba and llvmlite on both, and "
                "start the worker again"
            )
        return []

    def close(self) -> None:
        """Leave the cluster: what is under way is given up, there too."""
        self._tell(self._stop.set)
        if self._thread is not None:
            self._thread.join(_GOODBYE)
            self._thread = None

    def _tell(self, function: Callable[..., object], *arguments: Any) -> None:
        """Call a function in the thread that holds the connection, where there still is one."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # it has ended
                self._loop.call_soon_threadsafe(function, *arguments)

    # What follows is done by the thread that holds the connection -----------------------------------------------

    def _live(self) -> None:
        with _quiet():
            try:
                asyncio.run(self._attend())
            finally:
                self._ready.set()

    async def _attend(self) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            await self._meet()
            self._ready.set()
            await self._watch()
        except EngineError as error:
            self._heard.put(error)
        except Exception as error:  # whatever Dask may raise: no traceback is for the user
            self._heard.put(EngineError(f"dask: {_told(error)}; {_KEPT}"))
        finally:
            self._ready.set()
            await self._leave()

    async def _meet(self) -> None:
        """Start a cluster where none was named; connect."""
        if self._address is None:
            from distributed import LocalCluster

            self._cluster = LocalCluster(
                n_workers=self._most or processors(),
                threads_per_worker=1,
                host="127.0.0.1",
                dashboard_address=None,
                scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},  # of its pages about itself; any free port
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
                f"the address out{'; docs/cluster.md says how Dask is told certificates' if tls else ''}"
            )

    async def _connect(self, patience: float) -> str | None:
        """Look for the scheduler for so many seconds; what is wrong where it is not found."""
        from distributed import Client

        until = time.monotonic() + patience
        while True:
            client = None
            try:
                client = Client(self._address, timeout=_TRY, asynchronous=True, set_as_default=False, name="spaql")
                await client
                self._counted(await client.nthreads())
            except Exception as error:
                if client is not None:
                    await _closed(client)
                if time.monotonic() > until or self._stop.is_set() or not isinstance(error, OSError):
                    return _told(error)
                await asyncio.sleep(_PAUSE)
            else:
                self._client = client
                self._there.set()
                self._follow(self._compare(client))
                return None

    async def _watch(self) -> None:
        """Count workers, and connect again where the scheduler is gone, until told to stop."""
        counted, seen, told = 0.0, time.monotonic(), False
        while not self._stop.is_set():
            assert self._client is not None
            if self._client.status != "running":
                await self._come_back()
                seen = time.monotonic()
            if time.monotonic() - counted > _COUNTING:
                with contextlib.suppress(OSError, TimeoutError):
                    self._counted(await asyncio.wait_for(self._client.nthreads(), _TRY))
                    counted = time.monotonic()
                if self._threads:
                    seen, told = time.monotonic(), False
                elif not told and time.monotonic() - seen > _ALONE:
                    self._heard.put(f"waits for workers at {self._address}")
                    told = True
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), _PAUSE)

    def _counted(self, threads: Mapping[str, int]) -> None:
        """Keep how many there are; many must ask for work less often, or the scheduler cannot keep up.

        Where only some may be used, no chunk waits at the others: they would begin it.
        """
        self._threads = sum(threads.values())
        self.window = Dask.window if self._threads <= self.workers else 1
        self.chunk_seconds = max(Dask.chunk_seconds, self.workers * _SECONDS_PER_WORKER)

    async def _come_back(self) -> None:
        """Connect again, for a while; chunks wait meanwhile."""
        self._there.clear()
        self._heard.put(f"lost the scheduler at {self._address}; looks for it for up to {PATIENCE:g} s")
        assert self._client is not None
        self._follow(_closed(self._client))
        if await self._connect(PATIENCE) is None:
            self._heard.put("found the scheduler again; goes on")
        elif not self._stop.is_set():
            raise EngineError(f"dask: the scheduler at {self._address} did not come back; {_KEPT}")

    async def _leave(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._cluster is not None:  # ours alone: nobody else's runs are there
            with contextlib.suppress(Exception):
                await asyncio.gather(*(each.kill(timeout=_TERM) for each in self._cluster.workers.values()))
        if self._client is not None:
            await _closed(self._client)
        if self._cluster is not None:
            with contextlib.suppress(Exception):
                await self._cluster.close()

    def _follow(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _begin(self, chunk: Sequence[Run]) -> None:
        self._follow(self._do(chunk))

    async def _do(self, chunk: Sequence[Run]) -> None:
        """Send a chunk and wait for what becomes of it; a lost connection is a reason to do it again."""
        await self._there.wait()
        assert self._client is not None
        ids = "/".join([*(run.id for run in chunk), self._mark, str(next(self._chunks))])
        key = f"spaql-{hashlib.sha256(ids.encode()).hexdigest()[:32]}"
        try:
            future = self._client.submit(work, asked(self._orders, chunk), key=key, pure=False)
            error = await future.exception()
            # A scheduler that is gone leaves futures that are cancelled, not results.
            if future.status == "finished":
                self._heard.put((chunk, await self._client.gather(future)))
                return
        except Exception:  # the connection broke under one of these
            error = None
        self._heard.put([Outcome(run, Again()) for run in chunk] if error is None else await self._judge(chunk, error))

    async def _judge(self, chunk: Sequence[Run], error: BaseException) -> list[Outcome] | EngineError:
        """What an error of a task means for its runs."""
        from distributed.scheduler import KilledWorker

        if isinstance(error, KilledWorker):
            if len(chunk) > 1:
                return [Outcome(run, Again(alone=True)) for run in chunk]
            deaths = error.allowed_failures + 1
            return [Outcome(chunk[0], Failure(KILLED, f"the worker that did it died, {deaths} times", deaths))]
        if isinstance(error, EngineError):
            return EngineError(f"dask: a worker could not begin: {error}; {_KEPT}")
        if isinstance(error, ImportError) or isinstance(error.__cause__, ImportError):
            where = await self._without()
            return EngineError(
                f"dask: {where} cannot load spaql ({_told(error.__cause__ or error)}); install spaql[dask] in the same "
                "version for the scheduler and every worker"
            )
        return EngineError(f"dask: a worker failed: {_told(error)}; {_KEPT}")

    async def _without(self) -> str:
        """Where spaql is not installed."""
        assert self._client is not None
        with contextlib.suppress(Exception):
            found = await asyncio.wait_for(self._client.get_versions(packages=["spaql"]), _TRY)
            places = {"the scheduler": found["scheduler"]}
            places |= {f"the worker {name}": each for name, each in found["workers"].items()}
            for place, versions in places.items():
                if versions["packages"].get("spaql") is None:
                    return place
        return "a worker, or the scheduler,"

    async def _compare(self, client: Client) -> None:
        """Say where the cluster has other versions of what both ends talk with."""
        with contextlib.suppress(Exception):
            found = await client.get_versions()
            places = {f"the worker {name}": each for name, each in found["workers"].items()}
            for place, versions in {"the scheduler": found["scheduler"], **places}.items():
                for name in _SAME:
                    here, there = (str(each["packages"].get(name)) for each in (found["client"], versions))
                    if here != there:
                        self._heard.put(f"{place} has {name} {there}, and here is {here}; they should be the same")
                        return


_News = tuple[Sequence[Run], bytes] | list[Outcome] | EngineError | str


async def _closed(client: Client) -> None:
    with contextlib.suppress(Exception):
        await client.close()


def _told(error: BaseException) -> str:
    said = " ".join(str(error).split())
    return said if isinstance(error, OSError) and said else f"{type(error).__name__}{': ' if said else ''}{said}"


_NOISY = ("distributed", "tornado", "asyncio")
_NOISE = threading.Lock()  # of the two below
_listeners = 0
_levels: list[tuple[logging.Logger, int]] = []


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without what Dask and what is below it write about connections, as long as any engine is open: we say it."""
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
