"""Progress of a study, read from its folder at any moment; imports little, so that it answers at once.

The process that performs the runs stores its progress a few times a second (`spaql.runner.run_many`).  Whether it still
runs is known from the lock of the store, which the operating system releases when the process ends.  Where the lock
cannot be tested, or belongs to another computer, the age of the last progress decides.
"""

import os
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from spaql.errors import NothingYetError, StoreError
from spaql.formatting import duration, with_values
from spaql.runner.folder_lock import is_locked
from spaql.runner.store import STORE, Store, lock_of
from spaql.validation import parse_json

FAILURES = 5  # shown by default
_ACTIVE = ("starting", "running")  # states of a process that has not ended
_RECENT = 5.0  # seconds
_KINDS: dict[str, Any] = dict.fromkeys(("total", "done", "failed", "running", "done_now"), int)  # of a progress
_KINDS |= dict.fromkeys(("began", "updated"), float | int) | {"state": str, "seconds_left": float | int | None}


@dataclass(frozen=True)
class Status:
    """Progress of a study; of one with several stages, of the stages that have begun."""

    total: int
    done: int
    failed: int
    running: int
    state: str  # "running", "finished", or "stopped" (neither)
    rate: float | None = None  # runs per second of the current or last process
    seconds_left: float | None = None  # estimated
    engine: str | None = None  # of the current or last process; None where it has not stored any progress yet
    workers: int | None = None
    host: str | None = None
    process: int | None = None
    kinds: Mapping[str, int] = field(default_factory=dict)  # number of failures by kind
    failures: Sequence[Mapping[str, Any]] = ()  # the last ones: id, problem, algorithm, seed, kind, message, attempts

    @property
    def counts(self) -> str:
        """Return the numbers of runs as text."""
        failed = f", {self.failed:,} failed" if self.failed else ""
        return f"{self.done:,} of {self.total:,} runs finished{failed}"

    @property
    def failure_counts(self) -> str:
        """Return the numbers of failures as text."""
        return ", ".join(f"{count:,} {kind}" for kind, count in self.kinds.items())

    @property
    def sentence(self) -> str:
        """Return the status in one line."""
        parts = [self.counts]
        if self.state == "running":
            parts[0] += f", {self.running:,} running"
            process = f"{self.engine} ({self.workers}) in process {self.process} on {self.host}"
            parts.append("starting" if self.engine is None else process)
            parts += [f"{self.rate:.3g} runs/s"] if self.rate else []
            parts += [f"{duration(self.seconds_left)} left"] if self.seconds_left is not None else []
        elif self.state == "stopped":
            parts.append("not running; run the same command again to resume")
        return "; ".join(parts)

    def lines(self, tracebacks: bool = False) -> list[str]:
        """Return the status and its failures, line by line, with their tracebacks if wanted."""
        if not self.kinds:
            return [self.sentence]
        more = sum(self.kinds.values()) - len(self.failures)
        form = "  {algorithm} on {problem}, seed {seed}: {kind}: {message}".format_map
        lines = [self.sentence, f"failures: {self.failure_counts}"]
        for failure in self.failures:
            lines.append(form(failure))
            lines += [f"    {line}" for line in failure["traceback"].splitlines()] if tracebacks else []
        return [*lines, *([f"  and {more:,} earlier ones"] if more else [])]

    def bar(self) -> str:
        """Return a progress bar: finished, failed and missing runs."""
        width, total = 40, max(1, self.total)
        done = width * self.done // total
        failed = min(width - done, -(-width * self.failed // total))
        return f"[{'#' * done}{'!' * failed}{'.' * (width - done - failed)}] {100 * self.done / total:.1f}%"


def read_status(folder: str | os.PathLike[str], failures: int = FAILURES) -> Status:
    """Read the progress of the study in a folder, with its last failures; a NothingYetError where it has not begun."""
    try:
        return _read_status(Path(folder), failures)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        where = f"the store {str(Path(folder) / STORE)!r}"
        reason = f"its progress or a failure cannot be read: {error!r:.80}"
        raise StoreError(
            f"{where} is damaged ({reason}); restore a copy of it, or start anew in another folder"
        ) from error


def _read_status(folder: Path, failures: int) -> Status:
    now = time.time()
    # Tested before reading: a process that ends in between has stored its progress.
    locked = is_locked(lock_of(folder / STORE))
    with Store.open_readonly(folder / STORE) as store, store.snapshot():
        progress, kinds, last = store.progress, store.count_failures(), []
        for run_id, (specification, failure) in store.failures(failures).items():
            run = parse_json(specification)
            names = {"problem": with_values(run["problem"], run["arguments"])}
            names["algorithm"] = with_values(run["algorithm"], run["parameters"])
            last.append({"id": run_id, **names, "seed": run["seed"], **asdict(failure)})
    if progress is None:
        raise NothingYetError(f"{str(folder)!r} has no runs yet; wait until its study has begun")
    wrong = [name for name, kinds_of in _KINDS.items() if not isinstance(progress[name], kinds_of)]
    if wrong:
        raise ValueError(f"{wrong[0]} is {progress[wrong[0]]!r:.20}")
    if not progress["failed"]:  # earlier failures are not part of the study any more
        kinds, last = {}, []
    counts = {name: progress[name] for name in ("total", "done", "failed")}
    running = is_running(progress, locked, now)
    if running and progress["state"] not in _ACTIVE:  # just started: the progress is that of the process before
        return Status(**counts, running=0, state="running", kinds=kinds, failures=last)
    seconds = progress.get("seconds", progress["updated"] - progress["began"])
    left = progress["seconds_left"] if running else None
    missing = counts["total"] > counts["done"] + counts["failed"]
    return Status(
        **counts,
        running=progress["running"] if running else 0,
        state="running" if running else "stopped" if missing else "finished",
        rate=progress["done_now"] / seconds if progress["done_now"] and seconds > 0 else None,
        seconds_left=None if left is None else max(0.0, left - (now - progress["updated"])),
        **{name: progress[name] for name in ("engine", "workers", "host", "process")},
        kinds=kinds,
        failures=last,
    )


def is_running(progress: Mapping[str, Any], locked: bool | None, now: float) -> bool:
    """Return whether a process performs runs, from the last progress, and whether the store was locked at a time."""
    if locked:
        return True
    if progress["state"] not in _ACTIVE or abs(now - progress["updated"]) >= _RECENT:
        return False
    # On this computer nobody held the lock, but a process may have taken it since.
    return locked is None or progress["host"] != socket.gethostname() or bool(progress["updated"] >= now)
