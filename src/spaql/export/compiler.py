"""Exported C, compiled by the C compiler of this machine and called from Python: to check it and to time it."""

import ctypes
import shutil
import subprocess
import tempfile
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spaql.export import to_c
from spaql.export.policy import Policy, render
from spaql.partition.spaces import Floats

_STATES = 100_000
_DTYPES: dict[str, Any] = {"float": np.float32, "double": np.float64, "int": np.intc}
Decide = Callable[[Floats, "NDArray[np.intc]"], NDArray[Any]]


def find_compiler() -> str | None:
    """Return the path of the C compiler, or None."""
    return shutil.which("gcc") or shutil.which("cc")


def compile_policy(policy: Policy, *flags: str, header: bool = False) -> Decide:
    """Compile a policy: a function of observations `[n, numbers]` and time steps `[n]` that returns actions `[n, ...]`.

    `flags` follow `-std=c99 -O2`; `header` compiles the .h instead of the .c.  Raises OSError or SubprocessError if
    there is no compiler, it fails, or its output cannot be loaded.
    """
    compiler = find_compiler()
    if compiler is None:
        raise FileNotFoundError("there is no C compiler")
    kind, size = to_c.find_action_type(policy)
    dtype, numbers = np.dtype(_DTYPES.get(kind) or kind.removesuffix("_t")), len(policy.observation)
    with tempfile.TemporaryDirectory() as folder:
        source = to_c.make_source(policy, "policy", header=header)
        source += render("loop.c.jinja", policy=policy, kind=kind, size=size)
        (Path(folder) / "policy.c").write_text(source, encoding="ascii")
        call = [compiler, "-std=c99", "-O2", *flags, "-shared", "-fPIC", "policy.c", "-o", "policy.so"]
        subprocess.run(call, check=True, capture_output=True, cwd=folder)
        loop = ctypes.CDLL(str(Path(folder) / "policy.so")).policy_many
    loop.restype = None
    loop.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p]

    def decide(observations: Floats, steps: NDArray[np.intc]) -> NDArray[Any]:
        rows = np.ascontiguousarray(observations, np.float64).reshape(-1, numbers)
        times = np.ascontiguousarray(steps, np.intc)
        actions = np.empty((len(rows), size), dtype)
        loop(rows.ctypes.data, times.ctypes.data, len(rows), actions.ctypes.data)
        return actions.reshape(-1, *policy.shape)

    return decide


def measure(policy: Policy, path: Path) -> dict[str, Any]:
    """Return sizes of an exported file, and for C the time per decision on this machine, None without a compiler."""
    is_c = path.suffix.lower() in (".c", ".h")
    return {
        "file": str(path),
        "bytes": path.stat().st_size,
        "table_bytes": to_c.count_bytes(policy) if is_c else None,
        "nodes": len(policy.tree.dims),
        "depth": policy.tree.depth,
        "nanoseconds": measure_nanoseconds(policy) if is_c else None,
    }


def measure_nanoseconds(policy: Policy) -> float | None:
    """Return the time per decision in a batch of random states, the least of a few; None without a compiler."""
    try:
        decide = compile_policy(policy)
    except (OSError, subprocess.SubprocessError):
        return None
    random = np.random.default_rng(0)
    observations = policy.tree.states.from_unit(random.random((_STATES, len(policy.observation))))
    steps = random.integers(len(policy.roots), size=_STATES).astype(np.intc)
    return 1e9 * min(timeit.repeat(lambda: decide(observations, steps), number=1)) / _STATES
