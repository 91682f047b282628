"""Whole processes: their memory, and how long they take to start."""

import importlib.util
import os
import subprocess
import sys
import tempfile
from functools import partial
from typing import Any

from benchmarks import Report, measure_seconds, median_seconds, part

LARGE = ("cartpole", "pendulum", "acrobot")
_LARGE_STEPS = 1_000_000
# Peak memory of a process; on Linux `ru_maxrss` would start with that of its parent.
_PEAK = """
import sys, resource, spaql
spaql.Tessera(sys.argv[1]).learn(**{sys.argv[2]: int(sys.argv[3])}, progress_bar=False).cells()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
if sys.platform == "linux":
    with open("/proc/self/status") as status:
        peak = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
print(peak)
"""


@part
def memory(report: Report) -> dict[str, Any]:
    """Peak megabytes (10^6 bytes) of a process that learns a million steps of a compiled problem; the aim is 500.

    `one_iteration` is that of a process that learns a single one: interpreter, libraries and kernels.  None where the
    system does not say.
    """
    if importlib.util.find_spec("resource") is None:
        return {"memory": None}

    def peak(*words: str) -> float:
        report(f"memory of {words[0]}")
        call = [sys.executable, "-c", _PEAK, *words]
        return int(subprocess.run(call, check=True, capture_output=True, text=True).stdout) / 1e6

    peak(LARGE[0], "iterations", "1")  # compiles
    figures: dict[str, Any] = {"steps": _LARGE_STEPS, "one_iteration": peak(LARGE[0], "iterations", "1")}
    return {"memory": figures | {"megabytes": {n: peak(n, "total_timesteps", str(_LARGE_STEPS)) for n in LARGE}}}


@part
def start(report: Report) -> dict[str, Any]:
    """Seconds of `spaql --help`, of a short training, and of the first use with an empty cache."""

    def run(*words: str, **environment: str) -> None:
        call = [sys.executable, "-m", "spaql", *words]
        subprocess.run(call, check=True, capture_output=True, env={**os.environ, **environment})

    train = partial(run, "train", "oil", "--iterations", "10", "--quiet", "--json")
    report("first use")
    with tempfile.TemporaryDirectory() as empty:
        first = measure_seconds(partial(train, NUMBA_CACHE_DIR=empty))
    train()
    report("start")
    seconds = {"help_seconds": median_seconds(partial(run, "--help")), "train_seconds": median_seconds(train)}
    return {"start": seconds | {"first_use_seconds": first}}
