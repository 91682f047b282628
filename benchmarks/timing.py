"""How long calls take, one over the other; and what a part of the benchmark is."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

REPEATS = 5

Bar = Callable[[str], None]
Ready = Callable[[], Callable[[], int]]


class Part(NamedTuple):
    """A part of the benchmark."""

    measure: Callable[[Bar], dict[str, Any]]  # its figures; one of them has the name of the part
    tell: Callable[[dict[str, Any]], list[str]]  # the same for a person, in lines
    length: Callable[[], int] = lambda: 1  # how often it moves the bar


def seconds(work: Callable[[], Any]) -> float:
    """How long a call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def ratio(ours: Callable[[], Callable[[], Any]], yardstick: Callable[[], Any]) -> float:
    """Median over repeats of one time over the other, each pair measured back to back; `ours` prepares each call."""
    return statistics.median(seconds(ours()) / seconds(yardstick) for _ in range(REPEATS))


def pace(work: Callable[[], int]) -> float:
    """Seconds per step of a call that returns its steps."""
    start = time.perf_counter()
    steps = work()
    return (time.perf_counter() - start) / steps


def ratios_of_pace(ours: Ready, *yardsticks: Ready) -> list[float]:
    """The same per step, over each of the yardsticks, all measured in turn; every one prepares each call."""
    rounds = [[pace(ready()) for ready in (ours, *yardsticks)] for _ in range(REPEATS)]
    return [statistics.median(row[0] / row[i] for row in rounds) for i in range(1, len(yardsticks) + 1)]
