"""Whatever a user may call a problem: a compiled one or its name, a Gymnasium id, environment or factory."""

from __future__ import annotations

from typing import Any

from spaql.errors import ParameterError
from spaql.gymnasium_problem import GymnasiumProblem
from spaql.problems import PROBLEMS
from spaql.problems.base import Playable

_OPTIONS = ("bounds", "periodic", "horizon", "warm_up")


def as_problem(problem: Any, seed: int, **environment: Any) -> Playable:
    """The problem; `environment` are options that only Gymnasium environments have."""
    for name in environment:
        if name not in _OPTIONS:
            raise ParameterError(f"{name}: no agent has such a parameter, and environments have {', '.join(_OPTIONS)}")
    given = {name: value for name, value in environment.items() if value is not None}
    if isinstance(problem, Playable):
        if given:
            raise ParameterError(f"{next(iter(given))}: for Gymnasium environments only; {problem.name!r} has its own")
        return problem
    if isinstance(problem, str) and problem in PROBLEMS:
        return as_problem(PROBLEMS[problem](), seed, **environment)
    return GymnasiumProblem(problem, seed=seed, **given)
