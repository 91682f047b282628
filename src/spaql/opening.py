"""Whatever a user may call a problem: a compiled one or its name, a Gymnasium id, environment or factory.

And how files remember it: `described` says what it was made from, `reopened` makes it again.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any

import gymnasium

from spaql.errors import ParameterError, SpaqlError
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
    if any(problem is make for make in PROBLEMS.values()):
        return as_problem(problem(), seed, **environment)
    if not (isinstance(problem, str | gymnasium.Env) or callable(problem)):
        raise ParameterError(
            "problem: expected a spaql Problem or the name of one, a Gymnasium id, a gymnasium.Env or a function that "
            f"makes one, got {problem!r:.80}"
        )
    return GymnasiumProblem(problem, seed=seed, **given)


def described(problem: Playable) -> dict[str, Any]:
    """What it takes to make the problem again, ready for JSON."""
    about: dict[str, Any] = {"name": problem.name, "horizon": problem.horizon}
    if isinstance(problem, GymnasiumProblem):
        spec = problem.env.spec
        return about | {
            "kind": "gymnasium",
            "id": None if spec is None else spec.id,
            "arguments": _plain({} if spec is None else spec.kwargs),
            "names": problem.names,
            "low": problem.states.low.tolist(),
            "high": problem.states.high.tolist(),
            "periodic": problem.periodic,
            "warm_up_steps": problem.warm_up_steps,
        }
    return about | {"kind": "compiled", "maker": _maker(problem), "arguments": _plain(problem.arguments)}


def _plain(arguments: Any) -> dict[str, Any] | None:
    """The arguments, if JSON can hold them."""
    try:
        return dict(json.loads(json.dumps(dict(arguments), allow_nan=False)))
    except (TypeError, ValueError):
        return None


def _maker(problem: Playable) -> str | None:
    """Name of the built-in problem that this is, or None."""
    for name, make in PROBLEMS.items():
        try:
            if make(**problem.arguments).name == problem.name:
                return name
        except (TypeError, SpaqlError):
            continue
    return None


def reopened(about: Mapping[str, Any], problem: Any, seed: int, where: str) -> Playable:
    """The problem that `described` told of, or the given one with the ranges of that."""
    if about["kind"] == "gymnasium":
        if problem is None and (about["id"] is None or about["arguments"] is None):
            raise ParameterError(
                f"{where}: it learned on {about['name']!r}, which cannot be made by its id; give the environment: "
                "load(path, problem=env)"
            )
        if isinstance(problem, Playable):
            raise ParameterError(f"problem: {where} learned on the environment {about['name']!r}; give one of these")
        again = functools.partial(gymnasium.make, about["id"], **(about["arguments"] or {}))
        ranges = {name: ends for name, *ends in zip(about["names"], about["low"], about["high"], strict=True)}
        made = GymnasiumProblem(
            again if problem is None else problem,
            bounds=ranges,
            periodic=about["periodic"],
            horizon=about["horizon"],
            seed=seed,
        )
        if made.names != about["names"]:
            raise ParameterError(
                f"problem: {where} saw {', '.join(about['names'])}, and this shows {', '.join(made.names)}"
            )
        made.warm_up_steps = int(about["warm_up_steps"])
        return made
    if problem is not None:
        return as_problem(problem, seed)
    if about["maker"] not in PROBLEMS or about["arguments"] is None:
        raise ParameterError(
            f"{where}: it learned on {about['name']!r}, a compiled problem of your own; give it: "
            "load(path, problem=...)"
        )
    arguments = {name: tuple(value) if isinstance(value, list) else value for name, value in about["arguments"].items()}
    return PROBLEMS[about["maker"]](**arguments)
