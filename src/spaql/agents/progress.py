"""Progress of work that is not playing: a word on the progress bar of `learn`, or a line on the terminal."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from spaql.partition.jit import is_progress_shown

_ON_BAR = 0.5  # seconds after which it is shown; the bar itself appears no earlier
_AS_LINE = 1.0


@contextmanager
def announce_phase(phase: str, bar: Any, progress_bar: bool | None) -> Iterator[None]:
    """Show what is under way, if it takes longer than a moment.

    Parameters
    ----------
    phase
        A word, such as "planning".
    bar
        The tqdm bar under way; None prints a line to stderr instead.
    progress_bar
        Whether to print the line; None does so on a terminal.
    """
    if bar.disable if bar is not None else not is_progress_shown(progress_bar):
        yield
        return

    def show() -> None:
        if bar is None:
            print(f"spaql: {phase} ...", file=sys.stderr, flush=True)
        else:
            bar.set_postfix_str(phase)

    timer = threading.Timer(_AS_LINE if bar is None else _ON_BAR, show)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # or it might show the phase after its end
        if bar is not None:
            bar.set_postfix_str("", refresh=False)
