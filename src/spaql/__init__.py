"""spaql: reinforcement learning on continuous, low-dimensional problems with a policy you can read.

    agent = spaql.Tessera("CartPole-v1", seed=0).learn(50_000)
    agent.evaluate(episodes=1000)
    agent.save("cartpole.spaql")

`spaql.SPAQL`, `spaql.SPAQLTS`, `spaql.AQL`, `spaql.AdaMB`, `spaql.ZoomRL` and `spaql.RLSVI` are published algorithms;
`spaql.algorithms` lists all of them, and `spaql.problems` has what they learn on.  Names are imported when first used,
so that `import spaql` and `spaql --help` do not wait for a compiler.  Importing the package registers its environments
with Gymnasium.
"""

import importlib
from typing import Any

import spaql.gym.registration  # noqa: F401  (registers the environments)
from spaql import errors
from spaql._version import __version__
from spaql.errors import *  # noqa: F403  (they are light, and a user catches them)

_HOMES = {
    "AQL": "spaql.agents",
    "AdaMB": "spaql.agents",
    "RLSVI": "spaql.agents",
    "SPAQL": "spaql.agents",
    "SPAQLTS": "spaql.agents",
    "QLearning": "spaql.agents",
    "UCBQ": "spaql.agents",
    "UCBQInfinite": "spaql.agents",
    "NBQL": "spaql.agents",
    "Tessera": "spaql.agents",
    "ZoomRL": "spaql.agents",
    "Random": "spaql.agents",
    "algorithms": "spaql.agents",
    "register": "spaql.agents",
    "load": "spaql.agents.files",
    "GymnasiumProblem": "spaql.gym.problem",
    "ProblemEnvironment": "spaql.gym.environments",
    "optimum": "spaql.problems.optimum",
    "regret": "spaql.agents.regret",
    "sweep": "spaql.studies.sweep.sweep_study",
    "tune": "spaql.studies.tune.tuner",
}
_MODULES = ("callbacks", "loggers", "problems")

__all__ = ["__version__", *errors.__all__, *_MODULES, *_HOMES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"spaql.{name}")
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'spaql' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
