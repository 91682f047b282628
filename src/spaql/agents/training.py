"""The length of a call of `learn`, its progress bar, and the message before something is compiled."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm import tqdm

from spaql.errors import ParameterError
from spaql.partition.jit import announce_first_use
from spaql.validation import check_whole

if TYPE_CHECKING:
    from spaql.agents.base import Agent

UNLIMITED = np.iinfo(np.int64).max
MOST_STEPS = 2**62  # of one call, so that all calls together can be counted


def check_length(iterations: int | None, total_timesteps: int | None) -> tuple[int, int]:
    """Return the iterations and the steps of a call of `learn`: one must be given, and the other is unlimited."""
    if (iterations is None) == (total_timesteps is None):
        raise ParameterError("learn: give either iterations or total_timesteps")
    if total_timesteps is None:
        return check_whole(iterations, "iterations", 1), UNLIMITED
    return UNLIMITED, check_whole(total_timesteps, "total_timesteps", 1, MOST_STEPS)


def is_progress_shown(progress_bar: bool | None) -> bool:
    """Whether to show progress: as requested, or by default on a terminal."""
    return sys.stderr.isatty() if progress_bar is None else progress_bar


def make_bar(agent: Agent, total: int, unit: str, progress_bar: bool | None) -> tqdm[Any]:
    """Return the progress bar of a call of `learn`; it appears only if that takes longer than a moment."""
    shown, title = is_progress_shown(progress_bar), f"{type(agent).__name__} on {agent.problem.name}"
    return tqdm(total=total, unit=unit, desc=title, disable=not shown, delay=0.5, unit_scale=True)


def announce_compilation(what: str, progress_bar: bool | None) -> AbstractContextManager[None]:
    """Announce compilation around work that may need it, where progress is shown."""

    def say(sentence: str) -> None:
        if is_progress_shown(progress_bar):
            print(f"spaql: {sentence}", file=sys.stderr, flush=True)

    return announce_first_use(what, say)
