"""Runs in processes of this machine, for plain Python environments and algorithms, which may hang, crash or exit.

`Child` is a worker process as its parent sees it; `serve` is what runs in it.  They exchange frames through the
standard input and output of the process: a length in eight bytes, and that many bytes.  The parent sends settings as
JSON (`algorithms` to compile, `paths` to import from, seconds that the child may be `idle`), and the child answers with
the version of its code.  Then the parent sends chunks, each a JSON list of specifications; for each run the child sends
an empty frame when it begins, and then its result.  The child ends at once when its input ends.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from queue import Empty, SimpleQueue
from typing import IO, Any

from spaql.errors import EngineError
from spaql.runner.code_version import code_version
from spaql.runner.engines.engine import Engine, Lost, Outcome, attempt, overdue
from spaql.runner.execute import prepare_algorithms
from spaql.runner.record import KILLED, Failure, decode_result, encode_result
from spaql.runner.run_spec import Run, from_specification

_MOST_STILLBORN = 3
_READY = 600.0  # seconds in which a process must be ready: it may have to compile
_FIRST = 5.0  # seconds that the first run of a process may take beyond its time, because it compiles
_LENGTH = 8


def write_frame(stream: IO[bytes], body: bytes) -> None:
    """Write a frame and flush."""
    stream.write(len(body).to_bytes(_LENGTH, "big") + body)
    stream.flush()


def read_frame(stream: IO[bytes]) -> bytes | None:
    """Return the body of the next frame, or None at the end of the stream."""
    head = stream.read(_LENGTH)
    length = int.from_bytes(head, "big")
    body = stream.read(length) if len(head) == _LENGTH else b""
    return body if len(head) + len(body) == _LENGTH + length else None


class Child:
    """A worker process and the runs it has; whatever it sends, and None at its end, is put into `events`."""

    def __init__(self, settings: dict[str, Any], timeout: float | None, events: SimpleQueue[Any]) -> None:
        self._timeout = timeout
        self.chunks: deque[list[Run]] = deque()  # that it has
        self._since = 0.0  # when its first run began; 0 between two runs
        self._overdue = False
        self._allowance = _FIRST
        self._begun = time.monotonic()
        self.ready = False
        same = [path or os.getcwd() for path in sys.path]
        script = f"import sys; sys.path[:] = {same!r}; from {__name__} import serve; serve()"
        self.process = subprocess.Popen(
            [sys.executable, "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"OMP_NUM_THREADS": "1", **os.environ},  # runs share the processors, and threads change sums of floats
            start_new_session=True,  # a process group with everything that an environment starts: they end together
        )
        assert self.process.stdin is not None
        self._input = self.process.stdin
        threading.Thread(target=self._listen, args=(events,), daemon=True, name="spaql worker").start()
        self._send(settings)

    def _listen(self, events: SimpleQueue[Any]) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as stream:
            while (body := read_frame(stream)) is not None:
                events.put((self, body))
        events.put((self, None))

    def _send(self, content: object) -> None:
        with contextlib.suppress(BrokenPipeError):  # its end is reported to `events`
            write_frame(self._input, json.dumps(content).encode())

    def give(self, chunk: Sequence[Run]) -> None:
        """Let it perform a chunk after those that it has."""
        self.chunks.append(list(chunk))
        self._send([run.portable for run in chunk])

    def take(self, body: bytes | None) -> list[Outcome]:
        """Return the outcomes that a frame reports; None is the end of the process."""
        if body is None:
            return self._bury()
        if self._since:
            outcome = Outcome(self.chunks[0].pop(0), decode_result(body))
            if not self.chunks[0]:
                self.chunks.popleft()
            self._since, self._allowance = 0.0, 0.0
            return [outcome]
        if not body:
            self._since = time.monotonic()
        elif body.decode() != code_version():
            raise EngineError(
                f"worker process: it computes with other code ({body.decode()}, this is {code_version()}); the files "
                "of spaql changed meanwhile: start again"
            )
        else:
            self.ready = True
        return []

    def check(self) -> None:
        """Kill the process if its run is overdue; `take(None)` then returns the outcomes."""
        if self._timeout is not None and self._since:
            self._overdue = time.monotonic() - self._since > self._timeout + self._allowance
        late = not self.ready and time.monotonic() - self._begun > _READY  # it hangs, as an import of a module may
        if late or self._overdue or self.process.poll() is not None:  # what it started may keep the pipe open
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
        how = f"its process exited with code {status}"
        if status < 0:
            name = {each.value: each.name for each in signal.Signals}.get(-status, f"signal {-status}")
            about = ", as the system does where memory runs out" if name == "SIGKILL" else ""
            how = f"its process was ended by {name}{about}"
        runs = [run for chunk in self.chunks for run in chunk]
        results: list[Failure | Lost] = [Lost()] * len(runs)
        if self._since:
            results[0] = overdue(self._timeout or 0.0) if self._overdue else Failure(KILLED, how)
        return list(map(Outcome, runs, results))

    def end(self) -> None:
        """End it now."""
        self._kill()
        self.process.wait()
        with contextlib.suppress(OSError):
            self._input.close()


class Processes(Engine):
    """Runs in processes; for the parameters see `make_engine`, and for those of the children above."""

    name = "processes"
    chunk_seconds = 0.3

    def __init__(
        self,
        workers: int,
        timeout: float | None = None,
        algorithms: Sequence[str] = (),
        paths: Sequence[str] | None = None,
        idle: float | None = None,
    ) -> None:
        super().__init__()
        self.workers = workers
        self._timeout = timeout
        paths = [os.getcwd()] if paths is None else paths
        self._settings = {"algorithms": list(algorithms), "paths": list(paths), "idle": idle}
        self._children: list[Child] = []
        self._stillborn = 0

    def start(self) -> None:
        """Start the children that are missing."""
        for _ in range(self.workers - len(self._children)):
            try:
                self._children.append(Child(self._settings, self._timeout, self._events))
            except OSError as error:
                raise EngineError(f"worker process: it cannot be started: {error.strerror or error}") from error

    def submit(self, chunk: Sequence[Run]) -> None:
        """Give the chunk to the child that has the fewest."""
        self._raise_pending()  # there may be no child left
        min(self._children, key=lambda child: len(child.chunks)).give(chunk)

    def _take(self, event: tuple[Child, bytes | None]) -> None:
        """Add outcomes; a child that ended is replaced."""
        child, body = event
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
            self.start()

    def _check(self) -> None:
        for child in self._children:
            child.check()

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
        settings = json.loads(bodies.get())
        add_paths(settings["paths"])
        prepare_algorithms(settings["algorithms"])
        write_frame(sink, code_version().encode())
        while True:
            for specification in json.loads(bodies.get(timeout=settings["idle"])):
                write_frame(sink, b"")
                write_frame(sink, encode_result(attempt(from_specification(specification))))
    except (BrokenPipeError, Empty):  # the parent has ended, or has nothing to do
        _exit()


def add_paths(paths: Sequence[str]) -> None:
    """Import from these folders too, after all others; a folder that does not exist here is left out."""
    sys.path += [path for path in paths if path not in sys.path and os.path.isdir(path)]


def _receive(source: IO[bytes], bodies: SimpleQueue[bytes]) -> None:
    while (body := read_frame(source)) is not None:
        bodies.put(body)
    _exit()


def _exit() -> None:
    """End this process, and everything that an environment started in it."""
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(0)
