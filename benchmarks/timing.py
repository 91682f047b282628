"""Times of calls, and their ratios."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

REPEATS = 5

Work = Callable[[], Any]
Prepare = Callable[[], Callable[[], int]]


def measure_seconds(work: Work) -> float:
    """Return how long a call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def median_seconds(work: Work) -> float:
    """Return the median over repeats of how long a call takes."""
    return statistics.median(measure_seconds(work) for _ in range(REPEATS))


def measure_ratio(prepare: Callable[[], Work], baseline: Work) -> float:
    """Return the median ratio of two times, each pair measured back to back; `prepare` makes each of our calls."""
    return statistics.median(measure_seconds(prepare()) / measure_seconds(baseline) for _ in range(REPEATS))


def measure_pace(work: Callable[[], int]) -> float:
    """Return the seconds per step of a call that returns its steps."""
    start = time.perf_counter()
    steps = work()
    return (time.perf_counter() - start) / steps


def measure_pace_ratios(ours: Prepare, *baselines: Prepare) -> list[float]:
    """Return the median ratios of our seconds per step to each of the baselines, all measured in turn."""
    rounds = [[measure_pace(prepare()) for prepare in (ours, *baselines)] for _ in range(REPEATS)]
    return [statistics.median(row[0] / row[i] for row in rounds) for i in range(1, len(baselines) + 1)]
