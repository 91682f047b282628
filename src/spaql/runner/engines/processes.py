"""Runs in processes of this machine: for plain Python environments, which may hang, crash or exit.

`Child` is one worker process and the conversation with it: it takes chunks, tells which run is under way, is killed
where one overstays its time, and says what its end means for the runs it had.  `Processes` keeps as many of them alive
as it was asked for; engines on clusters use one for each run at a time.  See `spaql.runner.engines.worker` for the other end.
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
from typing import Self

from spaql.errors import EngineError
from spaql.runner.engines import protocol as wire
from spaql.runner.engines.engine import KILLED, Again, Engine, Outcome, too_long
from spaql.runner.run_spec import Run, code
from spaql.runner.store import Failure

_MOST_STILLBORN = 3
_FIRST = 5.0  # seconds that the first run of a process may take beyond its time: it compiles


class Child:
    """A worker process and the runs it has.

    Parameters
    ----------
    heard
        Called from another thread with the child and each of its frames, and with None at its end; hand both back to
        `take` in the engine's own thread.
    algorithms
        To compile or load before its first run.
    timeout
        Seconds that a run may take, or None.
    paths
        Folders to look for modules in, behind those of this process.
    """

    def __init__(
        self,
        heard: Callable[[Child, bytes | None], object],
        *,
        algorithms: Sequence[str],
        timeout: float | None,
        paths: Sequence[str],
    ) -> None:
        self._timeout = timeout
        self._chunks: deque[list[Run]] = deque()
        self._place = -1  # of the run under way in its chunk; -1 where none has begun
        self._since = 0.0
        self._overdue = False
        self._allowance = _FIRST
        self.ready = False
        same = [path or os.getcwd() for path in sys.path]
        script = f"import sys; sys.path[:] = {same!r}; from spaql.runner.engines.worker import main; main()"
        self._process = subprocess.Popen(
            [sys.executable, "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # a group of its own, with all that an environment may start: they end together
        )
        threading.Thread(target=self._listen, args=(heard,), daemon=True, name="spaql worker").start()
        self._say(wire.message({"paths": list(paths), "algorithms": list(algorithms)}))

    def _listen(self, heard: Callable[[Child, bytes | None], object]) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            while (body := wire.read(stream)) is not None:
                heard(self, body)
        heard(self, None)

    def _say(self, body: bytes) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # its end will be heard
            wire.write(self._process.stdin, body)

    @property
    def load(self) -> int:
        """Chunks that it has."""
        return len(self._chunks)

    def give(self, chunk: Sequence[Run]) -> None:
        """Let it do a chunk after those that it has."""
        self._chunks.append(list(chunk))
        self._say(wire.message({"runs": [run.specification for run in chunk]}))

    def take(self, body: bytes | None) -> list[Outcome]:
        """What a frame of it says of runs; None is its end."""
        if body is None:
            return self._ended()
        if self._place >= 0:
            run = self._chunks[0][self._place]
            outcome = Outcome(run, wire.unpacked(body))
            if self._place + 1 == len(self._chunks[0]):
                self._chunks.popleft()
            self._place, self._since, self._allowance = -1, 0.0, 0.0
            return [outcome]
        said, _ = wire.parsed(body)
        if "begins" in said:
            self._place, self._since = int(said["begins"]), time.monotonic()
        elif said.get("code", code()) != code():
            raise EngineError(
                f"worker process: it computes with other code ({said['code']}, this is {code()}); the files of spaql "
                "changed meanwhile: start again"
            )
        else:
            self.ready = self.ready or "ready" in said
        return []

    def check(self) -> None:
        """End it where its run overstays its time; what that means is said by `take(None)`."""
        if self._process.poll() is not None:  # its end is not heard as long as what it started holds the line
            self._kill()
            return
        if self._timeout is None or not self._since:
            return
        if time.monotonic() - self._since > self._timeout + self._allowance:
            self._overdue = True
            self._kill()

    def _kill(self) -> None:
        """End the process and all that it started."""
        if hasattr(os, "killpg"):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()

    def _ended(self) -> list[Outcome]:
        """What becomes of the runs it had: the one under way ended it; those behind it did nothing."""
        status = self._process.wait()
        outcomes = []
        for number, chunk in enumerate(self._chunks):
            for place, run in enumerate(chunk):
                if number == 0 and place < self._place:
                    continue  # told before
                if number == 0 and place == self._place:
                    late = self._overdue and self._timeout is not None
                    outcomes.append(Outcome(run, too_long(self._timeout or 0.0) if late else _killed(status)))
                else:
                    outcomes.append(Outcome(run, Again()))
        self._chunks.clear()
        self._place, self._since = -1, 0.0
        return outcomes

    def end(self) -> None:
        """End it now."""
        self._kill()
        self._process.wait()
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()


def _killed(status: int) -> Failure:
    """Of a run whose process ended under it."""
    if status >= 0:
        return Failure(KILLED, f"its process exited with code {status}")
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    about = ", as the system does where memory runs out" if name == "SIGKILL" else ""
    return Failure(KILLED, f"its process was ended by {name}{about}")


class Processes(Engine):
    """Runs in so many processes.

    Parameters
    ----------
    workers
        How many at once.
    timeout
        Seconds that a run may take, the first of a process a few more; None for as long as it likes.
    algorithms
        That will be asked for, so that no run's time is spent on compiling.
    """

    name = "processes"
    chunk_seconds = 0.3

    def __init__(self, workers: int, timeout: float | None = None, algorithms: Sequence[str] = ()) -> None:
        self._count = workers
        self._timeout = timeout
        self._algorithms = tuple(algorithms)
        self._heard: SimpleQueue[tuple[Child, bytes | None]] = SimpleQueue()
        self._children: list[Child] = []
        self._stillborn = 0
        self._found: list[Outcome] = []  # and not collected yet, where an error came in between
        self._waiting: deque[list[Run]] = deque()

    @property
    def workers(self) -> int:
        """Processes."""
        return self._count

    def __enter__(self) -> Self:
        for _ in range(self._count):
            self._hire()
        return self

    def _hire(self) -> None:
        def heard(child: Child, body: bytes | None) -> None:
            self._heard.put((child, body))

        try:
            self._children.append(Child(heard, algorithms=self._algorithms, timeout=self._timeout, paths=[os.getcwd()]))
        except OSError as error:
            raise EngineError(f"worker process: it cannot be started: {error.strerror or error}") from None

    def submit(self, chunk: Sequence[Run]) -> None:
        """Hand the chunk to the child that has least to do."""
        self._waiting.append(list(chunk))
        self._distribute()

    def _distribute(self) -> None:
        while self._waiting and self._children:
            child = min(self._children, key=lambda child: child.load)
            if child.load >= self.window:
                return
            child.give(self._waiting.popleft())

    def collect(self, timeout: float) -> list[Outcome]:
        """What the children said; those that ended are replaced."""
        try:
            self._take(*self._heard.get(timeout=timeout))
            while True:
                self._take(*self._heard.get_nowait())
        except Empty:
            pass
        for child in self._children:
            child.check()
        self._distribute()
        found, self._found = self._found, []
        return found

    def _take(self, child: Child, body: bytes | None) -> None:
        if child not in self._children:
            return
        self._found += child.take(body)
        if body is None:
            self._children.remove(child)
            child.end()
            self._stillborn = 0 if child.ready else self._stillborn + 1
            if self._stillborn >= _MOST_STILLBORN:
                raise EngineError(
                    f"worker process: {_MOST_STILLBORN} ended before they had begun; what they said stands above; "
                    "finished runs are kept"
                )
            self._hire()

    def close(self) -> None:
        """End all of them."""
        for child in self._children:
            child.end()
        self._children.clear()
