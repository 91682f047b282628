"""Runs on a Dask cluster: of this machine where no address is given, of many where there is one.

A task of Dask is a chunk of runs, performed by `work` on a worker: plain values in, bytes out, so that no object of
ours travels.  `Dask` is the client.  Coroutines in the thread of Dask's own client wait for answers and count workers;
what they find are events of the engine.  Whatever happens to the cluster, each run gets a result.

- A worker dies: Dask gives its chunks to others, and gives up where that happens too often (its setting
  `distributed.scheduler.allowed-failures`); the runs of such a chunk are then performed again one by one, and one that
  was alone is reported as killed.
- The scheduler dies, or the connection is cut: all runs under way are lost; the scheduler is looked for at the same
  address for a minute.
- A task fails although the connection stands: its runs are lost for that reason, which is counted.
- There are no workers: chunks wait for them; those of this machine, which Dask starts again, for a minute.
- This process ends: the scheduler forgets its chunks, and workers stop them within a fraction of a second.

Dask's own configuration holds, such as certificates for `tls://` addresses; see `docs/how-to/cluster.md`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from spaql.errors import EngineError
from spaql.runner.code_version import code_version
from spaql.runner.engines.engine import Engine, Lost, Outcome, Result, Stopped, attempt, count_processors, describe
from spaql.runner.engines.processes import Processes, add_paths
from spaql.runner.execute import prepare_algorithms
from spaql.runner.record import KILLED, Failure, decode_result, encode_result
from spaql.runner.run_spec import Run, from_specification

if TYPE_CHECKING:
    from distributed import Client, LocalCluster

FIRST_PATIENCE = 10.0  # seconds to look for a scheduler that was not seen before
PATIENCE = 60.0  # seconds to look for one that is gone
_TRY = 2.0  # seconds that one look may take
_COUNTING = 1.0  # seconds between two counts of workers
_STARTING = 10.0  # seconds in which a cluster of this machine must start after an interrupt, to be closed
_ALONE = 3.0  # seconds without workers before the user is told
_GOODBYE = 0.8  # seconds to leave a cluster politely
_TERM = 0.1  # seconds in which a worker of our own may end by itself
_SECONDS_PER_WORKER = 0.004  # a chunk costs the scheduler about 1.5 ms; see docs/how-to/cluster.md
_IDLE_SECONDS = 60.0  # in which a child process may wait for its next chunk
_MOST_ROUNDS = 3  # of a chunk whose process dies before it begins; then the client counts its runs as lost
_POLL = 0.1  # seconds between two looks at whether a task is still wanted


# On a worker ----------------------------------------------------------------------------------------------------

_LOCK = threading.Lock()  # of the set below
_prepared: set[str] = set()
_thread = threading.local()  # a child process of each thread of the worker, and what it was made for


def work(orders: dict[str, Any], specifications: list[str]) -> tuple[str, str, list[bytes]]:
    """Perform a chunk of runs on a worker.

    `orders` are the client's `code`, `paths` to import from, `algorithms` to compile, the `timeout` of a run, and
    whether runs are `isolated` in a child process.  Returns the worker, its code, and for each run its result, empty
    for one to perform again; no results where the codes differ, or nobody waits for them any more.
    """
    worker, stopped = _current_task()
    if orders["code"] != code_version():
        return worker, code_version(), []
    add_paths(orders["paths"])
    runs = [from_specification(specification) for specification in specifications]
    perform = _perform_isolated if orders["isolated"] else _perform_here
    try:
        results = perform(orders, runs, stopped)
    except Stopped:
        results = []
    return worker, code_version(), [b"" if isinstance(result, Lost) else encode_result(result) for result in results]


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


def _perform_here(orders: dict[str, Any], runs: Sequence[Run], stopped: Callable[[], bool]) -> list[Result]:
    """In this thread."""
    with _LOCK:
        prepare_algorithms([name for name in orders["algorithms"] if name not in _prepared])
        _prepared.update(orders["algorithms"])
    return [attempt(run, orders["timeout"], stopped) for run in runs]


def _perform_isolated(orders: dict[str, Any], runs: Sequence[Run], stopped: Callable[[], bool]) -> list[Result]:
    """In a child process of this thread; it ends by itself where no further chunk comes."""
    engine: Processes | None = getattr(_thread, "engine", None)
    if engine is None or _thread.orders != orders:
        if engine is not None:
            engine.close()
        engine = Processes(1, orders["timeout"], orders["algorithms"], orders["paths"], _IDLE_SECONDS)
        engine.start()
        _thread.engine, _thread.orders = engine, orders
    results: dict[str, Result] = {}
    try:
        for _ in range(_MOST_ROUNDS):
            results.clear()
            engine.submit(runs)
            while len(results) < len(runs):
                if stopped():
                    raise Stopped
                for outcome in engine.collect(_POLL):
                    results.setdefault(outcome.run.id, outcome.result)  # the first report counts
            if not all(isinstance(result, Lost) for result in results.values()):
                break  # else no run has begun: the process died first
        else:
            engine.collect(0.0)  # raises an error where no process could be started
    except BaseException:
        engine.close()
        _thread.engine = None
        raise
    return [results[run.id] for run in runs]


# The client -----------------------------------------------------------------------------------------------------


class Dask(Engine):
    """Runs on a Dask cluster; for the parameters see `make_engine` and `work`."""

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
        super().__init__()
        self._address, self._own = address, address is None
        self._most = workers
        self.orders: dict[str, Any] = {"code": code_version(), "paths": [os.getcwd()], "algorithms": list(algorithms)}
        self.orders |= {"timeout": timeout, "isolated": isolated}
        self.workers = 1
        self._seen: float | None = 0.0  # when there were workers; None where the user knows that there are none
        self._lost: float | None = None  # since when the scheduler is gone
        self._client: Client | None = None
        self._exit = contextlib.ExitStack()  # what to close

    def report(self, sentence: str) -> None:
        """Tell the user what happens to the cluster; called from the thread that collects."""
        tqdm.write(f"spaql: {sentence}", file=sys.stderr)

    def start(self) -> None:
        """Connect, or start a cluster."""
        try:
            from distributed import utils
        except ImportError:
            raise EngineError("dask: it is not installed; add it with: pip install 'spaql[dask]'") from None
        self._exit.enter_context(utils.silence_logging_cmgr(logging.CRITICAL))  # what it logs about connections
        try:
            if self._address is None:
                self._address = self._start_cluster()
            until = time.monotonic() + FIRST_PATIENCE
            while (problem := self._connect()) is not None:
                if time.monotonic() > until or not isinstance(problem, OSError):
                    tls = "; docs/how-to/cluster.md shows how to give Dask certificates"
                    raise EngineError(
                        f"dask: no scheduler answers at {self._address} ({_describe(problem)}); start one with: dask "
                        f"scheduler, or leave the address out{tls if self._address.startswith('tls://') else ''}"
                    )
        except BaseException as error:
            self.close()
            if isinstance(error, EngineError) or not isinstance(error, Exception):
                raise
            raise EngineError(f"dask: {_describe(error)}") from error  # no traceback is for the user

    def _start_cluster(self) -> str:
        """Start a cluster on this machine and return its address.

        That is done in another thread: an interrupt would leave half of one behind, which nobody can close.
        """
        made: list[LocalCluster | Exception] = []

        def make() -> None:
            try:
                made.append(_make_cluster(self._most or count_processors()))
            except Exception as error:
                made.append(error)

        thread = _call_in_thread(make)
        try:
            thread.join()
        except BaseException:
            logging.getLogger("distributed").setLevel(logging.CRITICAL)  # it logs every step of what follows
            thread.join(_STARTING)
            raise
        finally:
            for cluster in made:
                if not isinstance(cluster, Exception):
                    self._exit.callback(cluster.close)
                    self._exit.callback(cluster.sync, _kill_workers, cluster)  # ours alone: nobody else's runs
        [result] = made
        if isinstance(result, Exception):
            raise result
        return str(result.scheduler_address)

    def _connect(self) -> Exception | None:
        """Look for the scheduler once; returns what is wrong where it does not answer."""
        from distributed import Client

        client = None
        try:
            client = Client(self._address, timeout=_TRY, set_as_default=False, name="spaql")
            self._set_workers(client.nthreads())
        except Exception as error:
            if client is not None:
                _call_in_thread(client.close)
            return error
        self._client, self._seen, self._lost = client, time.monotonic(), None
        client.loop.add_callback(self._watch, client)
        return None

    def submit(self, chunk: Sequence[Run]) -> None:
        """Send a chunk; where there is no scheduler, it is lost."""
        if self._client is not None and self._client.status == "running":
            self._client.loop.add_callback(self._perform, self._client, list(chunk))
        else:
            self._events.put((chunk, Lost()))

    def _take(self, event: Any) -> None:
        """Take a count of workers, or a chunk with its answer."""
        if isinstance(event, Mapping):
            self._set_workers(event)
            if event:
                self._seen = time.monotonic()
            elif self._seen is not None and time.monotonic() - self._seen > (PATIENCE if self._own else _ALONE):
                if self._own:
                    raise EngineError("dask: its workers on this machine ended and did not come back")
                self.report(f"waits for workers at {self._address}")
                self._seen = None
        else:
            chunk, answer = event
            self._outcomes += map(Outcome, chunk, self._judge(chunk, answer))

    def _check(self) -> None:
        """Connect again where the scheduler is gone; chunks wait meanwhile."""
        if self._client is None or self._client.status == "running":
            return
        if self._lost is None:
            self._lost = time.monotonic()
            self.report(f"lost the scheduler at {self._address}; looks for it for up to {PATIENCE:g} s")
            _call_in_thread(self._client.close)
        if self._connect() is None:
            self.report("found the scheduler again; goes on")
        elif time.monotonic() - self._lost > PATIENCE:
            raise EngineError(f"dask: the scheduler at {self._address} did not come back")

    def _set_workers(self, threads: Mapping[str, int]) -> None:
        """Set the size of chunks by the number of workers: many must ask less often, or the scheduler is too slow."""
        count = sum(threads.values())
        self.workers = max(1, min(count, self._most or count))
        self.window = Dask.window if count <= self.workers else 1  # a chunk that waits would begin at the others
        self.chunk_seconds = max(Dask.chunk_seconds, self.workers * _SECONDS_PER_WORKER)

    def _judge(self, chunk: Sequence[Run], answer: Any) -> list[Result]:
        """Results of a chunk, from the answer of `work` or what went wrong; an EngineError where no run can succeed."""
        from distributed.scheduler import KilledWorker

        if isinstance(answer, Lost):
            return [answer] * len(chunk)
        if isinstance(answer, KilledWorker):
            if len(chunk) > 1:
                return [Lost(alone=True)] * len(chunk)
            deaths = answer.allowed_failures + 1
            return [Failure(KILLED, f"its worker died, {deaths} times", deaths)]
        if isinstance(answer, EngineError):
            raise EngineError(f"dask: a worker could not begin: {answer}")
        if isinstance(answer, BaseException):
            if isinstance(answer, ImportError) or isinstance(answer.__cause__, ImportError):
                raise EngineError(
                    f"dask: {self._find_missing()} cannot load spaql ({_describe(answer.__cause__ or answer)}); "
                    "install spaql[dask] in the same version for the scheduler and every worker"
                )
            raise EngineError(f"dask: a worker failed: {_describe(answer)}")
        worker, code, bodies = answer
        if code != self.orders["code"]:
            raise EngineError(
                f"dask: the worker {worker} computes with other code ({code}, this is {self.orders['code']}); install "
                "the same versions of spaql, numpy, numba and llvmlite on both, and start the worker again"
            )
        # Without results it was stopped, though we wait for it.
        return [decode_result(body) if body else Lost() for body in bodies or [b""] * len(chunk)]

    def _find_missing(self) -> str:
        """Where spaql is not installed."""
        assert self._client is not None
        with contextlib.suppress(Exception):
            versions = self._client.get_versions(packages=["spaql"])
            workers = {f"the worker {name}": about for name, about in versions["workers"].items()}
            for place, about in {"the scheduler": versions["scheduler"], **workers}.items():
                if about["packages"].get("spaql") is None:
                    return place
        return "a worker, or the scheduler,"

    def close(self) -> None:
        """Leave the cluster: what is under way is stopped, there too."""
        if self._client is not None:
            self._exit.callback(self._client.close)
            self._client = None
        _call_in_thread(self._exit.pop_all().close).join(_GOODBYE)

    # The rest is done by the thread of Dask's client.

    async def _watch(self, client: Client) -> None:
        """Count workers again and again."""
        while client.status != "closed":
            with contextlib.suppress(Exception):
                self._events.put(await asyncio.wait_for(client.nthreads(), _TRY))
            await asyncio.sleep(_COUNTING)

    async def _perform(self, client: Client, chunk: list[Run]) -> None:
        """Send a chunk and wait for its answer."""
        answer: Any = Lost()
        try:
            future = client.submit(work, self.orders, [run.portable for run in chunk], pure=False)
            answer = await future.exception()
            # A scheduler that is gone leaves futures that are cancelled, not results.
            if future.status == "finished":
                answer = await client.gather(future)
            elif answer is None:
                answer = Lost(alone=True, reason=f"its task was {future.status}")
        except Exception as error:
            answer = Lost(alone=True, reason=f"its task failed: {_describe(error)}")
        finally:  # also where the client is closed meanwhile
            if isinstance(answer, Lost) and client.status != "running":  # the connection broke: not the fault of a run
                answer = Lost()
            self._events.put((chunk, answer))


def _make_cluster(workers: int) -> LocalCluster:
    from distributed import LocalCluster

    _start_resource_tracker()
    cluster = LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        host="127.0.0.1",
        dashboard_address=None,
        scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},  # any free port
        memory_limit=None,
        config={"distributed.worker.profile.enabled": False},  # which takes turns from the runs
        silence_logs=logging.CRITICAL,
    )
    cluster.shutdown_on_close = False  # at the end of the process, too, it is closed by us
    return cluster


def _start_resource_tracker() -> None:
    """Start Python's process that removes semaphores: it warns of them where this process or a worker is killed."""
    name = "PYTHONWARNINGS"
    before = os.environ.get(name)
    os.environ[name] = ",".join([*([before] if before else []), "ignore:resource_tracker:UserWarning"])
    try:
        resource_tracker.ensure_running()
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


async def _kill_workers(cluster: LocalCluster) -> None:
    await asyncio.gather(*(worker.kill(timeout=_TERM) for worker in cluster.workers.values()))


def _call_in_thread(function: Callable[[], object]) -> threading.Thread:
    """Call a function, whatever it raises, in a thread, which is returned."""

    def call() -> None:
        with contextlib.suppress(Exception):
            function()

    thread = threading.Thread(target=call, daemon=True, name="spaql dask")
    thread.start()
    return thread


def _describe(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, OSError) and text else describe(error)
