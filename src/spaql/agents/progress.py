"""Progress on a terminal or in a notebook: bars, compilation, and phases of learning that are not playing."""

from __future__ import annotations

import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from spaql.notebook import is_notebook
from spaql.partition.jit import CACHE, watch_compilation
from spaql.validation import check_flag

if TYPE_CHECKING:
    from tqdm import tqdm

_ON_BAR = 0.5  # seconds after which it is shown; the bar itself appears no earlier
_AS_LINE = 1.0
PLANNING = "planning of Tessera"
#: kernels that are compiled with an empty cache, about: some belong to discrete actions or to long episodes only
#: (`spaql bench --only start` counts those of Tessera); others than these are counted without a total
KERNELS = {
    PLANNING: 56,
    "Tessera": 12,
    "SPAQL": 36,
    "SPAQLTS": 36,
    "AQL": 32,
    "AdaMB": 45,
    "ZoomRL": 43,
    "RLSVI": 26,
    "QLearning": 21,
    "UCBQ": 14,
    "UCBQInfinite": 14,
    "NBQL": 14,
    "evaluation": 6,
    "evaluation of baselines": 10,
    "rules": 4,
}


def is_progress_shown(progress_bar: bool | None) -> bool:
    """Whether to show progress: as requested, or by default on a terminal and in a notebook."""
    if progress_bar is None:
        return is_notebook() or sys.stderr.isatty()
    return check_flag(progress_bar, "progress_bar")


def make_bar(**options: Any) -> tqdm[Any]:
    """Return a tqdm bar; in a notebook a widget, if ipywidgets is installed, and else a line of text."""
    if is_notebook():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that there is no ipywidgets
            from tqdm.auto import tqdm
    else:
        from tqdm import tqdm
    return tqdm(file=_stream(), **options)


def _stream() -> TextIO:
    """Return where progress is written; a notebook shows standard error in red."""
    return sys.stdout if is_notebook() else sys.stderr


@contextmanager
def announce_compilation(what: str, progress_bar: bool | None) -> Iterator[None]:
    """Show a bar of the kernels that are compiled, if that takes longer than a moment.

    It moves with every kernel, and estimates the time that is left from the time of those before.

    Parameters
    ----------
    what
        What is compiled, one of `KERNELS` where the number is known.
    progress_bar
        Whether to show it; None does so on a terminal and in a notebook.
    """
    if not is_progress_shown(progress_bar):
        yield
        return
    bar: tqdm[Any] | None = None
    total, start, count = KERNELS.get(what), time.time(), 0

    def advance() -> None:
        nonlocal bar, count
        if bar is None:
            title = f"compiling {what}" + (" (once)" if CACHE is not None else "")
            bar = make_bar(total=total, desc=title, unit="kernel", smoothing=0, miniters=1, delay=_ON_BAR)
            bar.start_t = bar.last_print_t = start
        count += 1
        if total is None or count < total:
            bar.update()

    try:
        with watch_compilation(advance):
            yield
        if bar is not None:
            bar.total = bar.n = max(count, total or 0)  # there may be fewer than expected, or more
    finally:
        if bar is not None:
            bar.close()


@contextmanager
def announce_phase(phase: str, bar: Any, progress_bar: bool | None) -> Iterator[None]:
    """Show what is under way, if it takes longer than a moment.

    Parameters
    ----------
    phase
        A word, such as "planning".
    bar
        The tqdm bar under way; None prints a line instead.
    progress_bar
        Whether to print the line; None does so on a terminal and in a notebook.
    """
    if bar.disable if bar is not None else not is_progress_shown(progress_bar):
        yield
        return

    def show() -> None:
        if bar is None:
            from tqdm import tqdm

            tqdm.write(f"spaql: {phase} ...", file=_stream())  # above any other bar
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
