"""An exported C file, compiled by the C compiler of this machine and called from here: to check it and to time it."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spaql.export import to_c
from spaql.export.policy import Policy
from spaql.partition.spaces import Floats

_STATES = 100_000
_REPEATS = 5
_KINDS = {"float": np.float32, "double": np.float64, "int": np.intc}
Decide = Callable[[Floats, "NDArray[np.intc]"], NDArray[Any]]


def compiler() -> str | None:
    """The C compiler, if there is one."""
    return shutil.which("gcc") or shutil.which("cc")


def compiled(policy: Policy, *flags: str, header: bool = False) -> Decide:
    """A function of observations `[n, numbers]` and time steps `[n]` that tells actions `[n, ...]`, all in C.

    Parameters
    ----------
    policy
        What is to be decided.
    flags
        For the compiler, after its own `-std=c99 -O2`.
    header
        Whether to take the .h instead of the .c.

    Raises
    ------
    OSError, subprocess.SubprocessError
        Where there is no compiler, or it fails, or what it made cannot be loaded.
    """
    kind, size = to_c.action_kind(policy)
    kinds: dict[str, Any] = _KINDS
    dtype = np.dtype(kinds.get(kind) or kind.removesuffix("_t"))
    numbers = policy.tree.states.dimensions
    found = compiler()
    if found is None:
        raise FileNotFoundError("there is no C compiler")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "policy.c").write_text(to_c.source(policy, "policy", header=header) + _many(policy), encoding="ascii")
        made = place / "policy.so"
        call = [found, "-std=c99", "-O2", *flags, "-shared", "-fPIC", "policy.c", "-o", made.name]
        subprocess.run(call, check=True, capture_output=True, cwd=place)
        many = ctypes.CDLL(str(made)).policy_many
    many.restype = None
    many.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p]

    def decide(observations: Floats, steps: NDArray[np.intc]) -> NDArray[Any]:
        rows = np.ascontiguousarray(observations, np.float64).reshape(-1, numbers)
        times = np.ascontiguousarray(steps, np.intc)
        actions = np.empty((len(rows), size), dtype)
        many(rows.ctypes.data, times.ctypes.data, len(rows), actions.ctypes.data)
        return actions.reshape(-1, *policy.shape)

    return decide


def nanoseconds(policy: Policy) -> float | None:
    """Time per decision, many after each other at random states, the best of a few; None without a compiler."""
    try:
        decide = compiled(policy)
    except (OSError, subprocess.SubprocessError):
        return None
    random = np.random.default_rng(0)
    observations = policy.tree.states.from_unit(random.random((_STATES, policy.tree.states.dimensions)))
    steps = random.integers(len(policy.tree.roots), size=_STATES).astype(np.intc)

    def once() -> float:
        start = time.perf_counter()
        decide(observations, steps)
        return time.perf_counter() - start

    return 1e9 * min(once() for _ in range(_REPEATS)) / _STATES


def _many(policy: Policy) -> str:
    """A loop over many observations, in C."""
    kind, size = to_c.action_kind(policy)
    step = ", steps[i]" if policy.timed else ""
    row = f"observations + {policy.tree.states.dimensions} * i"
    call = f"actions[i] = policy_act({row}{step});" if size == 1 else f"policy_act({row}{step}, actions + {size} * i);"
    many = f"void policy_many(const double *observations, const int *steps, int64_t count, {kind} *actions)"
    return f"\n{many};\n{many}\n{{\n    (void)steps;\n    for (int64_t i = 0; i < count; i++)\n        {call}\n}}\n"
