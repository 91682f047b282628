"""Runs in processes of this machine, for plain Python environments and algorithms, which may hang, crash or exit.

`Child` is a worker process as its parent sees it; `serve` is what runs in it.  They exchange frames
(`spaql.runner.engines.protocol`) through the standard input and output of the process.  First the parent sends `paths`
to import from and `algorithms` to compile; the child answers with its `code`, and when it is `ready`.  Then the parent
sends chunks, `runs`; for each run the child reports that it `begins`, and then its result.  The child ends at once when
its input ends, because then its parent has ended.

`Processes` keeps a number of children alive; engines on clusters use one of these on each worker.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, BinaryIO

from spaql.errors import EngineError
from spaql.runner.code_version import code_version
from spaql.runner.engines.engine import Engine, Lost, Outcome, attempt, overdue
from spaql.runner.engines.protocol import decode, decode_result, encode, encode_result, read_frame, write_frame
from spaql.runner.execute import prepare_algorithms
from spaql.runner.record import KILLED, Failure
from spaql.runner.run_spec import Run, from_specification

_MOST_STILLBORN = 3
_Receive = Callable[["Child", bytes | None], object]
_FIRST = 5.0  # seconds that the first run of a process may take beyond its time, because it compiles


class Child:
    """A worker process and the runs it has.

    `receive` is called from another thread with the child and each of its frames, and with None at its end; hand both
    to `take` in the engine's own thread.  `algorithms` are compiled before the first run, whose time-out is `timeout`;
    `paths` are folders to import from, after those of this process.
    """

    def __init__(
        self, receive: _Receive, *, algorithms: Sequence[str], timeout: float | None, paths: Sequence[str]
    ) -> None:
        self._timeout = timeout
        self._chunks: deque[list[Run]] = deque()
        self._place = -1  # of the run under way in its chunk; -1 where none has begun
        self._since = 0.0
        self._overdue = False
        self._allowance = _FIRST
        self.ready = False
        same = [path or os.getcwd() for path in sys.path]
        script = f"import sys; sys.path[:] = {same!r}; from {__name__} import serve; serve()"
        self.process = subprocess.Popen(
            [sys.executable, "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # a process group with everything that an environment starts: they end together
        )
        threading.Thread(target=self._listen, args=(receive,), daemon=True, name="spaql worker").start()
        self._send(encode({"paths": list(paths), "algorithms": list(algorithms)}))

    def _listen(self, receive: _Receive) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as stream:
            while (body := read_frame(stream)) is not None:
                receive(self, body)
        receive(self, None)

    def _send(self, body: bytes) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # `take(None)` follows
            write_frame(self.process.stdin, body)

    @property
    def load(self) -> int:
        """Chunks that it has."""
        return len(self._chunks)

    def give(self, chunk: Sequence[Run]) -> None:
        """Let it perform a chunk after those that it has."""
        self._chunks.append(list(chunk))
        self._send(encode({"runs": [run.specification for run in chunk]}))

    def take(self, body: bytes | None) -> list[Outcome]:
        """Return the outcomes that a frame reports; None is the end of the process."""
        if body is None:
            return self._bury()
        if self._place >= 0:
            outcome = Outcome(self._chunks[0][self._place], decode_result(body))
            if self._place + 1 == len(self._chunks[0]):
                self._chunks.popleft()
            self._place, self._since, self._allowance = -1, 0.0, 0.0
            return [outcome]
        content, _ = decode(body)
        if "begins" in content:
            self._place, self._since = int(content["begins"]), time.monotonic()
        elif content.get("code", code_version()) != code_version():
            raise EngineError(
                f"worker process: it computes with other code ({content['code']}, this is {code_version()}); the files "
                "of spaql changed meanwhile: start again"
            )
        else:
            self.ready = self.ready or "ready" in content
        return []

    def check(self) -> None:
        """Kill the process if its run is overdue; `take(None)` then returns the outcomes."""
        if self.process.poll() is not None:  # what it started may keep the pipe open
            self._kill()
        elif self._timeout is not None and self._since:
            self._overdue = time.monotonic() - self._since > self._timeout + self._allowance
            if self._overdue:
                self._kill()

    def _kill(self) -> None:
        """Kill the process and everything that it started."""
        if hasattr(os, "killpg"):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()

    def _bury(self) -> list[Outcome]:
        """Outcomes of the runs that it had: the one under way ended it, and those after it have not begun."""
        status = self.process.wait()
        outcomes: list[Outcome] = []
        if self._place >= 0:
            late = self._overdue and self._timeout is not None
            result = overdue(self._timeout or 0.0) if late else _killed(status)
            outcomes.append(Outcome(self._chunks[0][self._place], result))
            self._chunks[0] = self._chunks[0][self._place + 1 :]
        outcomes += [Outcome(run, Lost()) for chunk in self._chunks for run in chunk]
        self._chunks.clear()
        self._place, self._since = -1, 0.0
        return outcomes

    def end(self) -> None:
        """End it now."""
        self._kill()
        self.process.wait()
        with contextlib.suppress(OSError):
            if self.process.stdin is not None:
                self.process.stdin.close()


def _killed(status: int) -> Failure:
    """The failure of a run whose process ended."""
    if status >= 0:
        return Failure(KILLED, f"its process exited with code {status}")
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    about = ", as the system does where memory runs out" if name == "SIGKILL" else ""
    return Failure(KILLED, f"its process was ended by {name}{about}")


class Processes(Engine):
    """Runs in processes; for the parameters see `make_engine` and `Child`.

    The first run of a process may take a few seconds longer than its time-out.
    """

    name = "processes"
    chunk_seconds = 0.3
    workers = 1

    def __init__(
        self,
        workers: int,
        timeout: float | None = None,
        algorithms: Sequence[str] = (),
        paths: Sequence[str] | None = None,
    ) -> None:
        self.workers = workers
        paths = [os.getcwd()] if paths is None else paths
        self._settings: dict[str, Any] = {"timeout": timeout, "algorithms": algorithms, "paths": paths}
        self._frames: SimpleQueue[tuple[Child, bytes | None]] = SimpleQueue()
        self._children: list[Child] = []
        self._stillborn = 0
        self._outcomes: list[Outcome] = []  # not collected yet, where an error came in between
        self._waiting: deque[list[Run]] = deque()

    def start(self) -> None:
        """Start the children."""
        for _ in range(self.workers):
            self._hire()

    def _hire(self) -> None:
        try:
            child = Child(lambda child, body: self._frames.put((child, body)), **self._settings)
        except OSError as error:
            raise EngineError(f"worker process: it cannot be started: {error.strerror or error}") from error
        self._children.append(child)

    def submit(self, chunk: Sequence[Run]) -> None:
        """Give the chunk to the child that has the fewest."""
        self._waiting.append(list(chunk))
        self._distribute()

    def _distribute(self) -> None:
        while self._waiting and self._children:
            child = min(self._children, key=lambda child: child.load)
            if child.load >= self.window:
                return
            child.give(self._waiting.popleft())

    def collect(self, timeout: float) -> list[Outcome]:
        """Return outcomes; children that ended are replaced."""
        with contextlib.suppress(Empty):
            self._take(*self._frames.get(timeout=timeout))
            while True:
                self._take(*self._frames.get_nowait())
        for child in self._children:
            child.check()
        self._distribute()
        outcomes, self._outcomes = self._outcomes, []
        return outcomes

    def _take(self, child: Child, body: bytes | None) -> None:
        if child not in self._children:
            return
        self._outcomes += child.take(body)
        if body is None:
            self._children.remove(child)
            child.end()
            self._stillborn = 0 if child.ready else self._stillborn + 1
            if self._stillborn >= _MOST_STILLBORN:
                raise EngineError(
                    f"worker process: {_MOST_STILLBORN} ended before they were ready; their messages stand above; "
                    "finished runs are kept"
                )
            self._hire()

    def close(self) -> None:
        """End all children."""
        for child in self._children:
            child.end()
        self._children.clear()


def serve() -> None:
    """Perform the runs that the parent process sends, until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # an environment that reads or prints must not disturb the frames
    os.dup2(2, 1)
    bodies: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_receive, args=(source, bodies), daemon=True).start()
    try:
        _answer(bodies, sink)
    except BrokenPipeError:  # the parent has ended
        _exit()


def _answer(bodies: SimpleQueue[bytes], sink: BinaryIO) -> None:
    content, _ = decode(bodies.get())
    add_paths(content["paths"])
    write_frame(sink, encode({"code": code_version()}))
    prepare_algorithms(content["algorithms"])
    write_frame(sink, encode({"ready": True}))
    while True:
        content, _ = decode(bodies.get())
        for place, specification in enumerate(content["runs"]):
            write_frame(sink, encode({"begins": place}))
            write_frame(sink, encode_result(attempt(from_specification(specification))))


def add_paths(paths: Sequence[str]) -> None:
    """Import from these folders too, after all others; a folder that does not exist here is left out."""
    sys.path += [path for path in paths if path not in sys.path and os.path.isdir(path)]


def _receive(source: BinaryIO, bodies: SimpleQueue[bytes]) -> None:
    while (body := read_frame(source)) is not None:
        bodies.put(body)
    _exit()


def _exit() -> None:
    """End this process, and everything that an environment started in it."""
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(0)
