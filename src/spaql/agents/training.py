"""The learning driver: chunks of compiled iterations, room, budget, progress, history, callbacks.

The agent's kernel is called for as many iterations as fit a fraction of a second, so that the progress bar moves and
Ctrl-C is heard; all iterations that finished before it stay in the agent.
"""

from __future__ import annotations

import sys
import time
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm import tqdm

from spaql.agents.callbacks import Callbacks, Watch
from spaql.agents.history import ROW
from spaql.errors import ParameterError
from spaql.partition.jit import announce_first_use, make_records
from spaql.validation import check_whole

if TYPE_CHECKING:
    from spaql.agents.base import Agent
    from spaql.agents.partition_agent import PartitionAgent

UNLIMITED = np.iinfo(np.int64).max
MOST_STEPS = 2**62  # of one call, so that all calls together can be counted
_CHUNK_SECONDS = 0.1
_LARGEST_CHUNK = 1 << 16


def check_length(iterations: int | None, total_timesteps: int | None) -> tuple[int, int]:
    """Return the iterations and the steps of a call of `learn`: one must be given, and the other is unlimited."""
    if (iterations is None) == (total_timesteps is None):
        raise ParameterError("learn: give either iterations or total_timesteps")
    if total_timesteps is None:
        return check_whole(iterations, "iterations", 1), UNLIMITED
    return UNLIMITED, check_whole(total_timesteps, "total_timesteps", 1, MOST_STEPS)


def plan_budget(agent: PartitionAgent, iterations: int | None, total_timesteps: int | None) -> tuple[int, int]:
    """Return the most iterations to run and the step count not to pass."""
    limit, budget = check_length(iterations, total_timesteps)
    if limit < UNLIMITED:
        return limit, UNLIMITED
    before = agent.problem.warm_up_steps if agent._finished == 0 else 0  # the first call pays for them
    if budget < before + agent.steps_per_iteration:
        aside = f", after a warm-up of {before}" if before else ""
        guessed = getattr(agent.problem, "unlimited", False)
        shorter = ", or a shorter horizon=, as the environment has no limit of its own" if guessed else ""
        raise ParameterError(
            f"total_timesteps: {budget} is too few; one iteration takes up to {agent.steps_per_iteration} steps"
            f"{aside}; give at least {before + agent.steps_per_iteration}{shorter}"
        )
    return UNLIMITED, agent.num_timesteps + budget - before


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


def prepare(agent: PartitionAgent, progress_bar: bool | None) -> None:
    """Compile or load the agent's kernels."""
    with announce_compilation(type(agent).__name__, progress_bar):
        agent._make_room(0)
        agent._iterate(make_records(0, ROW), UNLIMITED)


def learn(
    agent: PartitionAgent,
    total_timesteps: int | None,
    iterations: int | None,
    callback: Callbacks | None,
    progress_bar: bool | None,
) -> None:
    """Run iterations and append their rows to the agent's history, chunk by chunk.

    With `total_timesteps` the run stops before the iteration that could pass it.  A chunk ends where a callback is due;
    the agent does not notice, as an iteration is never interrupted.
    """
    limit, budget = plan_budget(agent, iterations, total_timesteps)
    watch = Watch(callback, agent)
    prepare(agent, progress_bar)
    by_iteration = iterations is not None
    total = limit if by_iteration else budget - agent.num_timesteps
    chunk, done = 1, 0
    with make_bar(agent, total, "it" if by_iteration else "steps", progress_bar) as bar, watch:
        while done < limit:
            agent._make_room(min((limit - done) * agent.steps_per_iteration, budget - agent.num_timesteps))
            rows = make_records(int(min(chunk, limit - done)), ROW)
            before, steps, start = agent._finished, agent.num_timesteps, time.perf_counter()
            try:
                agent._iterate(rows, watch.pause(budget, steps + agent.steps_per_iteration))
            finally:  # Ctrl-C is heard as the kernel returns; its finished iterations belong to the history
                ran = agent._finished - before
                if ran:
                    agent._history.append(rows[:ran])
            elapsed = time.perf_counter() - start
            done += ran
            bar.update(ran if by_iteration else agent.num_timesteps - steps)
            over = budget - agent.num_timesteps < agent.steps_per_iteration
            goes_on = watch.call(budget if over else agent.num_timesteps) if ran else True
            if over or not goes_on:
                break
            if ran == len(rows):
                chunk = min(_LARGEST_CHUNK, max(1, int(chunk * min(16.0, _CHUNK_SECONDS / max(elapsed, 1e-9)))))
