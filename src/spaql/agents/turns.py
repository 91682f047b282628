"""Who may change an agent: one call of `learn` or `prepare` at a time, in whatever thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import ref

from spaql.errors import ParameterError

if TYPE_CHECKING:
    from spaql.agents.base import Agent

_LOCK = threading.Lock()  # while a turn is taken


@dataclass(eq=False)
class Turn:
    """A call of `learn` or `prepare` under way."""

    agent: Agent
    thread: int
    playing: bool = False  # whether a kernel is training the agent, whose arrays must not be replaced then


@contextmanager
def take_turn(agent: Agent, what: str) -> Iterator[Turn]:
    """Refuse every other `learn` and `prepare` until the block ends, but the `prepare` that `learn` itself calls.

    The agent refers to the turn weakly, so that an interrupt at any moment leaves none behind; what a copy of the agent
    refers to is not its own.
    """
    mine = Turn(agent, threading.get_ident())
    with _LOCK:
        other = None if agent._turn is None else agent._turn()
        if other is None or other.agent is not agent:
            other, agent._turn = None, ref(mine)
        elif what == "learn" or other.playing or other.thread != mine.thread:
            raise ParameterError(
                f"{what}: this agent is learning; its environment, its callbacks and other threads may read it but not "
                f"let it learn: call {what} after learn has returned"
            )
    try:
        yield other or mine
    finally:
        if other is None:
            agent._turn = None
