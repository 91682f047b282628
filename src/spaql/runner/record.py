"""What becomes of a run: a `Record` of its numbers, or a `Failure`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

ERROR, NAN, TIME, MEMORY, KILLED = "error", "nan", "time-out", "memory", "killed"


@dataclass(frozen=True, eq=False)
class Record:
    """Numbers of a finished run by name, its arrays by name, and the seconds it took."""

    scalars: Mapping[str, float | int | None]
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True)
class Failure:
    """Why a run failed."""

    kind: str  # one of the five above
    message: str  # what happened, in one line
    attempts: int = 1  # how often it was tried in the last call that asked for it
