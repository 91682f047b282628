"""A study in a terminal while it runs: status, means and last failures, drawn in place.

Each view overwrites the one before, so that nothing flickers.  Without a terminal, views are printed one after another.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from typing import TextIO

from spaql.errors import NothingYetError
from spaql.studies.sweep.comparison_table import compare
from spaql.studies.sweep.group_values import METRIC, read_values
from spaql.studies.sweep.status import Status, read_status

_HOME, _CLEAR_LINE, _CLEAR_BELOW, _CLEAR = "\x1b[H", "\x1b[K", "\x1b[J", "\x1b[2J"


def watch(
    folder: str | os.PathLike[str],
    out: TextIO,
    *,
    every: float = 2.0,
    once: bool = False,
    metric: str = METRIC,
    pause: Callable[[float], object] = time.sleep,
) -> Status | None:
    """Show a study until it is finished, and return its last status; None where it has not begun.

    The folder need not exist yet.  There is a view `every` few seconds, or less often where one takes more than half of
    that; `once` shows one view only, and `pause` waits for a number of seconds.
    """
    terminal = out.isatty()
    out.write(_CLEAR if terminal else "")
    while True:
        start = time.monotonic()
        status = None
        try:
            status = read_status(folder)
            values = read_values(folder, metric)
            table = compare(values, brief=True).table.text().splitlines()
            lines = [status.sentence, status.bar(), "", values.name, *table]
            lines += ["", *status.lines()[1:]] if status.kinds else []
        except NothingYetError:
            lines = [f"waiting for the first run in {str(folder)!r}; start spaql sweep STUDY.toml --out {folder}"]
        _show(lines, out, terminal)
        if once or (status is not None and status.state == "finished"):
            return status
        took = time.monotonic() - start
        pause(max(every - took, took, 0.05))


def _show(lines: list[str], out: TextIO, terminal: bool) -> None:
    if not terminal:
        out.write("\n".join([*lines, "", ""]))
    else:
        columns, rows = shutil.get_terminal_size()
        if len(lines) > rows - 1:
            lines = [*lines[: rows - 2], f"... and {len(lines) - rows + 2} more lines"]
        out.write(_HOME + "".join(f"{line[:columns]}{_CLEAR_LINE}\n" for line in lines) + _CLEAR_BELOW)
    out.flush()
