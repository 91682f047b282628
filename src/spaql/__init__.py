"""spaql: reinforcement learning on continuous, low-dimensional problems with a policy you can read.

Names are imported when first used, so that `spaql --help` does not wait for a compiler.  Importing the package also
registers `spaql/Oil-v0` and `spaql/Ambulance-v0` with Gymnasium.
"""

from __future__ import annotations

import importlib
from typing import Any

import spaql.gym.registration  # noqa: F401  (registers the environments)
from spaql._version import __version__

_HOMES = {
    "AQL": "spaql.agents",
    "SPAQL": "spaql.agents",
    "Tessera": "spaql.agents",
    "SPAQLTS": "spaql.agents",
    "Random": "spaql.agents",
    "NoMovement": "spaql.agents",
    "Mean": "spaql.agents",
    "Median": "spaql.agents",
    "GymnasiumProblem": "spaql.gym.problem",
    "ProblemEnvironment": "spaql.gym.environments",
    "load": "spaql.agents.files",
    "optimum": "spaql.problems.optimum",
    "sweep": "spaql.studies.sweep.execution",
    "tune": "spaql.studies.tune.tuner",
    "SpaqlError": "spaql.errors",
}

_MODULES = {"callbacks": "spaql.agents.callbacks", "loggers": "spaql.agents.loggers", "problems": "spaql.problems"}

__all__ = ["__version__", *_MODULES, *_HOMES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'spaql' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
