"""A study in a terminal while it runs anywhere: how far it is, the first columns of its table, the last failures.

Each view is drawn over the one before: the cursor goes home, every line clears what is left of the old one, and what
is below is cleared, so that nothing flickers.  Where the output is no terminal each view is printed below the other.
Reading a large study takes seconds; then it is read less often, so that watching costs less than half a processor.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from typing import TextIO

from spaql.errors import NothingYetError
from spaql.studies.sweep.gathered import METRIC, gather
from spaql.studies.sweep.status import Status, status
from spaql.studies.sweep.table import tabulate

_HOME, _REST_OF_LINE, _BELOW, _ALL = "\x1b[H", "\x1b[K", "\x1b[J", "\x1b[2J"
_BAR = 40  # letters


def watch(
    folder: str | os.PathLike[str],
    out: TextIO,
    *,
    every: float = 2.0,
    once: bool = False,
    metric: str = METRIC,
    pause: Callable[[float], object] = time.sleep,
) -> Status | None:
    """Show a study until it is over; one that was stopped may go on, and is waited for.

    Parameters
    ----------
    folder
        Of the study; it need not be there yet.
    out
        Where to show it.
    every
        Seconds between two views.
    once
        Whether one view is enough.
    metric
        What the table shows.
    pause
        Waits for so many seconds.

    Returns
    -------
    Status or None
        The last one; None where there was nothing to see yet.
    """
    terminal = out.isatty()
    if terminal:
        out.write(_ALL)
    while True:
        began = time.monotonic()
        now = _now(folder)
        _show(_view(folder, now, metric), out, terminal)
        if once or (now is not None and now.state == "over"):
            return now
        took = time.monotonic() - began
        pause(max(every - took, took, 0.05))


def _now(folder: str | os.PathLike[str]) -> Status | None:
    """How far it is; None where its store is not there yet."""
    try:
        return status(folder)
    except NothingYetError:
        return None


def _view(folder: str | os.PathLike[str], now: Status | None, metric: str) -> list[str]:
    if now is None:
        return [f"waiting: no run is done yet in {str(folder)!r}; spaql sweep STUDY.toml --out {folder} begins"]
    lines = [now.sentence, bar(now), ""]
    gathered = gather(folder, metric)
    lines += [gathered.name, *tabulate(gathered, brief=True).written("text").splitlines()]
    return lines if not now.kinds else [*lines, "", *now.told.splitlines()[1:]]


def bar(now: Status, width: int = _BAR) -> str:
    """How far it is as a bar: done, failed, and what is left."""
    whole = max(1, now.total)
    done = width * now.done // whole
    failed = min(width - done, -(-width * now.failed // whole))
    return f"[{'#' * done}{'!' * failed}{'.' * (width - done - failed)}] {100 * now.done / whole:.1f}%"


def _show(lines: list[str], out: TextIO, terminal: bool) -> None:
    if not terminal:
        out.write("\n".join([*lines, "", ""]))
    else:
        columns, rows = shutil.get_terminal_size()
        if len(lines) > rows - 1:
            lines = [*lines[: rows - 2], f"... and {len(lines) - rows + 2} lines more"]
        out.write(_HOME + "".join(f"{line[:columns]}{_REST_OF_LINE}\n" for line in lines) + _BELOW)
    out.flush()
