"""Whole processes: their memory, and how long they take to start."""

import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
from typing import Any

from benchmarks import Report, median_ratio, part
from spaql.agents.progress import KERNELS, PLANNING

LARGE = ("cartpole", "pendulum", "acrobot")
_LARGE_STEPS = 1_000_000
STARTS = 3  # with an empty cache
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
_FIRST_AGENT = """
import time, spaql
from spaql.partition.jit import watch_compilation
kernels = []
for begin in (lambda: 0.0, time.process_time):
    start = begin()
    with watch_compilation(lambda: kernels.append(0)):
        spaql.Tessera("CartPole-v1", seed=0).learn(10_000, progress_bar=False).predict([0.0, 0.0, 0.0, 0.0])
    print(time.process_time() - start)
print(len(kernels))
"""
_EMPTY_FUNCTION = """
import time, numba
numba.njit(lambda: 0)()
print(time.process_time())
"""
_HELP = """
import contextlib, io, time
from spaql.cli import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main(["--help"])
print(time.process_time())
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
    """CPU seconds to the first trained agent, without its training, with an empty cache and with a full one.

    The agent is `spaql.Tessera("CartPole-v1", seed=0).learn(10_000)` with its first prediction, for which it plans.
    The process then trains the same agent again: `cold` and `warm` are the CPU time up to the first agent less that of
    the second, so importing and compiling, or importing and loading; the aims are 20 and 1.5.  The ratios are to a
    process that imports Numba and compiles an empty function.  `help` is `spaql --help`.  `kernels` are those that were
    compiled with an empty cache, and `announced` those that the progress bars expect (`spaql.agents.progress`).
    """

    def seconds(script: str, **environment: str) -> list[float]:
        call = [sys.executable, "-c", script]
        done = subprocess.run(call, check=True, capture_output=True, text=True, env={**os.environ, **environment})
        return [float(word) for word in done.stdout.split()]

    columns: dict[str, list[float]] = {"cold": [], "warm": [], "training": [], "empty_function": [], "help": []}
    compiled: dict[str, int] = {}
    for _ in range(STARTS):
        with tempfile.TemporaryDirectory() as empty:
            for name in ("cold", "warm"):
                report(f"{name} start")
                first, again, kernels = seconds(_FIRST_AGENT, NUMBA_CACHE_DIR=empty)
                columns[name].append(first - again)
                compiled[name] = int(kernels)
            columns["training"].append(again)
        columns["empty_function"] += seconds(_EMPTY_FUNCTION)
        columns["help"] += seconds(_HELP)
    figures = {f"{name}_seconds": statistics.median(column) for name, column in columns.items()}
    ratios = {f"{name}_ratio": median_ratio(columns[name], columns["empty_function"]) for name in ("cold", "warm")}
    counts = {"kernels": compiled["cold"], "announced": KERNELS["Tessera"] + KERNELS[PLANNING]}
    return {"start": figures | ratios | counts}
