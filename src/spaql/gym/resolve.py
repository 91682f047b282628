"""One resolver of problems: names, Gymnasium ids, "module:function", objects and functions that make one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import gymnasium

from spaql.errors import ParameterError
from spaql.gym.calls import call_maker
from spaql.gym.problem import GymnasiumProblem
from spaql.problems import PROBLEMS
from spaql.problems.base import Playable
from spaql.validation import import_module

#: options of Gymnasium environments that agents pass on
OPTIONS = ("bounds", "periodic", "horizon", "warm_up")


def resolve_problem(
    problem: Any, *, seed: int = 0, arguments: Mapping[str, Any] | None = None, **environment: Any
) -> Playable:
    """Return whatever a user may call a problem as one that agents can learn on.

    Parameters
    ----------
    problem
        The name of a built-in problem, a Gymnasium id ("CartPole-v1", or "my_module:Tank-v0" where importing a module
        registers it), "my_module:make_tank" for a function that makes a problem or an environment; or a problem, a
        `gymnasium.Env`, or such a function itself.
    seed
        Of the environment's random numbers.
    arguments
        Keywords for the function or the environment that a name stands for.
    **environment
        `bounds`, `periodic`, `horizon`, `warm_up` of a Gymnasium environment; see `spaql.GymnasiumProblem`.

    Raises
    ------
    ParameterError
        Where nothing has that name, or an option does not apply to it.
    """
    for name in environment:
        if name not in OPTIONS:
            raise ParameterError(f"{name}: no agent has such a parameter, and environments have {', '.join(OPTIONS)}")
    options = {name: value for name, value in environment.items() if value is not None}
    made, make, module = _find(problem, dict(arguments or {}))
    if isinstance(made, Playable):
        if options:
            raise ParameterError(f"{next(iter(options))}: for Gymnasium environments only; {made.name!r} has its own")
        return made
    resolved = GymnasiumProblem(made, make=make, seed=seed, **options)
    resolved.module = module
    return resolved


def find_function(problem: str, arguments: Mapping[str, Any]) -> Callable[[], Any] | None:
    """Return what makes the problem or environment of a name "module:function"; None for names of other kinds."""
    module, _, attribute = problem.rpartition(":")
    function = _function(module, attribute, problem) if module else None
    if function is None:
        return None

    def make() -> Any:
        made = call_maker(partial(function, **arguments))
        return made.env if isinstance(made, GymnasiumProblem) else made

    return make


def _find(problem: Any, arguments: dict[str, Any]) -> tuple[Any, Callable[[], Any] | None, str]:
    """A problem or environment, how to make another one, and the module that registers its id, if that was named."""
    module = ""
    if isinstance(problem, str):
        if problem in PROBLEMS:
            return PROBLEMS[problem](**arguments), None, ""
        if problem.isidentifier() and problem not in {spec.name for spec in gymnasium.registry.values()}:
            raise ParameterError(
                f"problem: {problem!r} is neither one of {', '.join(PROBLEMS)} nor the name of a Gymnasium environment"
            )
        module, _, attribute = problem.rpartition(":")
        function = _function(module, attribute, problem) if module else None
        problem = partial(gymnasium.make, problem) if function is None else function
        module = module if function is None else ""
    elif isinstance(problem, Playable | gymnasium.Env):
        if arguments:
            raise ParameterError(f"arguments: {problem!r:.80} has been made already; leave {next(iter(arguments))} out")
        return problem, None, ""
    elif not callable(problem):
        raise ParameterError(
            "problem: expected a spaql Problem or the name of one, a Gymnasium id, a gymnasium.Env or a function that "
            f"makes one, got {problem!r:.80}"
        )
    make = partial(problem, **arguments) if arguments else problem
    return call_maker(make), make, module


def _function(module: str, attribute: str, name: str) -> Any:
    """The function of a user's module, or None where the module registers an environment of that id instead."""
    home = import_module(module, f"problem {name!r}")
    function = getattr(home, attribute, None)
    if function is None and attribute.isidentifier() and attribute not in gymnasium.registry:
        raise ParameterError(f"problem {name!r}: the module has no function {attribute!r} and registers no such id")
    return function
