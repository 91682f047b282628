"""Runs on a Dask cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from spaql.engines.base import Engine, Outcome
from spaql.errors import EngineError
from spaql.experiment import Run


class Dask(Engine):
    """Runs on a Dask cluster."""

    name = "dask"
    chunk_seconds = 1.0

    def __init__(
        self,
        address: str | None,
        *,
        workers: int | None,
        timeout: float | None,
        algorithms: Sequence[str],
        isolated: bool,
    ) -> None:
        raise EngineError("dask: not built yet")

    @property
    def workers(self) -> int:
        """Workers."""
        return 1

    def __enter__(self) -> Self:
        return self

    def submit(self, chunk: Sequence[Run]) -> None:
        """Send a chunk."""

    def collect(self, timeout: float) -> list[Outcome]:
        """What came back."""
        return []

    def close(self) -> None:
        """Close."""
