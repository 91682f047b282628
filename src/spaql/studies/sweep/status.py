"""How far a study is, from its folder, at any moment and at once, however many runs it has.

The process that does the runs says a few times a second how far it is (`spaql.runner.run_many`); here that is read.  Whether
anybody is at work is told by the lock of the store, which the system frees when its process ends, however it ends; and
by the age of what was said where the lock cannot be asked, or was taken on another computer.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from spaql.errors import NothingYetError
from spaql.formatting import duration, with_values
from spaql.runner.store import STORE, Store

STUDY = "study.json"
FEW = 5  # failures that are told unless more are asked for
_AT_WORK = ("starts", "runs")  # what is said by who has not ended
_FRESH = 5.0  # seconds for which what was said stands for somebody at work


@dataclass(frozen=True)
class Failed:
    """A run that could not be done."""

    id: str
    problem: str
    algorithm: str
    seed: int
    kind: str
    message: str
    attempts: int

    def __str__(self) -> str:
        return f"{self.algorithm} on {self.problem}, seed {self.seed}: {self.kind}: {self.message}"


@dataclass(frozen=True)
class Status:
    """How far a study is.

    Attributes
    ----------
    total, done, failed, running
        Runs.  Without a study file, as in the folder of `spaql paper`, all that the store has count.
    state
        "at work", "over", or "stopped": not over, and nobody is at work.
    rate
        Runs per second of who is at work, or was last; None before the first run.
    seconds_left
        Until it is over, as far as is known; None where it is not.
    engine, workers, host, process
        Who is at work, or was last; None where who is at work has not said anything yet.
    kinds
        How many failures of each kind the store has.
    failures
        The last few.
    """

    total: int
    done: int
    failed: int
    running: int
    state: str
    rate: float | None = None
    seconds_left: float | None = None
    engine: str | None = None
    workers: int | None = None
    host: str | None = None
    process: int | None = None
    kinds: Mapping[str, int] = field(default_factory=dict)
    failures: tuple[Failed, ...] = ()

    @property
    def at_work(self) -> bool:
        """Whether somebody does the runs now."""
        return self.state == "at work"

    @property
    def complete(self) -> bool:
        """Whether all runs are done."""
        return self.done == self.total

    def to_dict(self) -> dict[str, Any]:
        """All of it, ready for JSON."""
        return asdict(self)

    @property
    def sentence(self) -> str:
        """It in a line."""
        parts = [f"{self.done:,} of {self.total:,} runs done"]
        if self.failed:
            parts[0] += f", {self.failed:,} failed"
        if self.at_work:
            parts[0] += f", {self.running:,} running"
            who = f"{self.engine} ({self.workers}) of process {self.process} on {self.host}"
            parts.append("somebody is at work" if self.engine is None else who)
            if self.rate:
                parts.append(f"{self.rate:.3g} runs/s")
            if self.seconds_left is not None:
                parts.append(f"{duration(self.seconds_left)} left")
        elif self.state == "stopped":
            parts.append("stopped: nobody is at work; the command that began it goes on")
        else:
            parts.append("over")
        return "; ".join(parts)

    @property
    def told(self) -> str:
        """It in lines, with the failures."""
        lines = [self.sentence]
        if self.kinds:
            lines.append("failures: " + ", ".join(f"{count:,} {kind}" for kind, count in self.kinds.items()))
            lines += [f"  {failed}" for failed in self.failures]
            more = sum(self.kinds.values()) - len(self.failures)
            if more > 0:
                lines.append(f"  and {more:,} before these")
        return "\n".join(lines)


def status(folder: str | os.PathLike[str], most: int = FEW) -> Status:
    """How far the study of a folder is.

    Parameters
    ----------
    folder
        Of `spaql sweep`, or any with a store of runs.
    most
        Failures to tell, the last ones.

    Raises
    ------
    NothingYetError
        Where the folder has no store, or one of which nothing was said yet.
    StoreError
        Where the store cannot be read.
    """
    path = Path(folder)
    asked = time.time()
    held = lock_held(path / STORE)  # before anything is read: who ends meanwhile has said so
    with opened(path) as store, store.unchanged():
        said = store.progress or {}
        kinds = store.kinds_of_failures()
        failures = tuple(_failed(key, *found) for key, found in store.failures(most).items())
        done = None if "done" in said and (path / STUDY).is_file() else len(store)
    if said and done is None and not said["failed"]:  # what failed before is no part of the study any more
        kinds, failures = {}, ()
    if not (said or done or kinds):
        raise NothingYetError(f"{str(folder)!r} has no runs yet; wait until its study has begun")
    alive = at_work(said, held, asked)
    ended = said.get("state") not in _AT_WORK
    who = {} if alive and ended else said  # of who is at work now nothing is known then
    left = max(0, said["total"] - said["done"] - said["failed"]) if said else 0
    if done is None:
        total, done, failed = said["total"], said["done"], said["failed"]
    else:  # parts of a study may be done one after the other: each says of itself only
        failed = sum(kinds.values())
        total = done + failed + left
    seconds = said["told"] - said["began"] if said else 0.0
    now = said.get("done_now")
    eta = who.get("seconds_left")
    return Status(
        total=total,
        done=done,
        failed=failed,
        running=who.get("running", 0) if alive else 0,
        state="at work" if alive else "stopped" if left else "over",
        rate=now / seconds if now and seconds > 0 and who else None,
        seconds_left=max(0.0, eta - (time.time() - said["told"])) if alive and eta is not None else None,
        engine=who.get("engine"),
        workers=who.get("workers"),
        host=who.get("host"),
        process=who.get("process"),
        kinds=kinds,
        failures=failures,
    )


def opened(folder: str | os.PathLike[str]) -> Store:
    """The store of a folder, for reading."""
    if not (Path(folder) / STORE).is_file():
        raise NothingYetError(f"{str(folder)!r} has no runs; name the folder that spaql sweep was given as --out")
    return Store.reading(Path(folder) / STORE)


def at_work(said: Mapping[str, Any], held: bool | None, asked: float) -> bool:
    """Whether somebody does runs.

    Parameters
    ----------
    said
        What was last said of the progress; empty where nothing was.
    held
        Whether somebody had the lock of the store, as `lock_held` says.
    asked
        When that was asked, as `time.time` says.
    """
    if held:
        return True
    if said.get("state") not in _AT_WORK or abs(asked - said["told"]) >= _FRESH:
        return False
    # Nobody of this computer had the lock, but somebody may have taken it since.
    return held is None or said["host"] != socket.gethostname() or bool(said["told"] >= asked)


def lock_held(store: Path) -> bool | None:
    """Whether somebody writes to a store; None where that cannot be asked.

    Whoever asks has the lock for an instant, shared with all others who ask; a store that is opened waits for that.
    """
    try:
        import fcntl
    except ImportError:  # another system
        return None
    try:
        descriptor = os.open(f"{store}.lock", os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # some file systems say the latter
        return True
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return False


def _failed(key: str, specification: str, failure: Any) -> Failed:
    told = json.loads(specification)
    return Failed(
        key,
        with_values(told["problem"], told["arguments"]),
        with_values(told["algorithm"], told["parameters"]),
        told["seed"],
        failure.kind,
        failure.message,
        failure.attempts,
    )
