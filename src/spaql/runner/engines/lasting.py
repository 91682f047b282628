"""An engine that outlives one `perform`: for studies that come to know their runs a few at a time.

Starting processes or a cluster takes seconds; a tuning asks for runs a hundred times.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from spaql.runner.engines.engine import Engine, Outcome
from spaql.runner.run_spec import Run


class Lasting(Engine):
    """Another engine, started when first entered and closed by `close`, however often it is left and entered again.

    Parameters
    ----------
    engine
        What does the runs.
    """

    def __init__(self, engine: Engine) -> None:
        self.name = engine.name
        self._engine = engine
        self._started = False
        self._follow()

    def _follow(self) -> None:
        """Want as much at once as the other engine does, which may change with its workers."""
        self.chunk_seconds, self.window = self._engine.chunk_seconds, self._engine.window

    @property
    def workers(self) -> int:
        """Of the other engine."""
        return self._engine.workers

    def __enter__(self) -> Self:
        if not self._started:
            self._started = True
            self._engine.__enter__()
            self._follow()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:  # what is under way would come back to whoever enters next
            self.close()

    def submit(self, chunk: Sequence[Run]) -> None:
        """Hand it on."""
        self._engine.submit(chunk)

    def collect(self, timeout: float) -> list[Outcome]:
        """What the other engine says."""
        found = self._engine.collect(timeout)
        self._follow()
        return found

    def close(self) -> None:
        """Close the other engine."""
        if self._started:
            self._started = False
            self._engine.close()
