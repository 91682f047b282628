"""Whole processes: what they use of memory, and how long they take to start."""

from __future__ import annotations

import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
from typing import Any

from benchmarks import timing
from benchmarks.timing import Bar, Part, seconds

LARGE = ("cartpole", "pendulum", "acrobot")
_LARGE_STEPS = 1_000_000
# What a process uses at most; on Linux `ru_maxrss` would begin with what its parent uses.
_PEAK = """
import sys, resource, spaql
spaql.Tessera(sys.argv[1]).learn(**{sys.argv[2]: int(sys.argv[3])}, progress_bar=False).cells()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
if sys.platform == "linux":
    with open("/proc/self/status") as status:
        peak = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
print(peak)
"""


def memory(bar: Bar) -> dict[str, Any] | None:
    """(j); None where the system does not tell."""
    if importlib.util.find_spec("resource") is None:
        return None

    def peak(*words: str) -> float:
        call = [sys.executable, "-c", _PEAK, *words]
        return int(subprocess.run(call, check=True, capture_output=True, text=True).stdout) / 1e6

    bar("memory")
    peak(LARGE[0], "iterations", "1")  # compiles what is not in the cache
    figures: dict[str, Any] = {"steps": _LARGE_STEPS, "one_iteration": peak(LARGE[0], "iterations", "1")}
    figures["megabytes"] = {}
    for name in LARGE:
        bar(f"memory of {name}")
        figures["megabytes"][name] = peak(name, "total_timesteps", str(_LARGE_STEPS))
    return figures


def start_times(bar: Bar) -> dict[str, float]:
    """(g): wall-clock seconds of whole commands."""

    def command(*words: str, **environment: str) -> float:
        call = [sys.executable, "-m", "spaql", *words]
        environ = {**os.environ, **environment}
        return seconds(lambda: subprocess.run(call, check=True, capture_output=True, env=environ))

    train = ("train", "oil", "--iterations", "10", "--quiet", "--json")
    bar("first use")
    with tempfile.TemporaryDirectory() as empty:
        first = command(*train, NUMBA_CACHE_DIR=empty)
    command(*train)
    bar("start")
    return {
        "help_seconds": statistics.median(command("--help") for _ in range(timing.REPEATS)),
        "train_seconds": statistics.median(command(*train) for _ in range(timing.REPEATS)),
        "first_use_seconds": first,
    }


def _told_memory(figures: dict[str, Any]) -> list[str]:
    peaks = figures["memory"]
    if peaks is None:
        return []
    each = ", ".join(f"{name} {megabytes:.0f}" for name, megabytes in peaks["megabytes"].items())
    return [
        f"megabytes of a process that learns {peaks['steps']:,} steps: {each}; "
        f"one iteration {peaks['one_iteration']:.0f}"
    ]


def _told_start(figures: dict[str, Any]) -> list[str]:
    start = figures["start"]
    return [
        f"seconds: --help {start['help_seconds']:.2f}, a short training {start['train_seconds']:.2f}, "
        f"first use on a machine {start['first_use_seconds']:.1f}"
    ]


PARTS = {
    "memory": Part(lambda bar: {"memory": memory(bar)}, _told_memory, lambda: 1 + len(LARGE)),
    "start": Part(lambda bar: {"start": start_times(bar)}, _told_start, lambda: 2),
}
