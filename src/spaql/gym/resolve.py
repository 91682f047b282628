"""One resolver of problems: names, Gymnasium ids, "module:function", objects and functions that make one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from spaql.errors import ParameterError
from spaql.gym.calls import call_maker, find_problem, import_function
from spaql.gym.problem import GymnasiumProblem
from spaql.problems.base import Playable

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
    made, make, module = find_problem(problem, dict(arguments or {}))
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
    function = import_function(module, attribute, problem) if module else None
    if function is None:
        return None

    def make() -> Any:
        made = call_maker(partial(function, **arguments))
        return made.env if isinstance(made, GymnasiumProblem) else made

    return make
