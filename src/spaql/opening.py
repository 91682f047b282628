"""Whatever a user may call a problem: a compiled one or its name, a Gymnasium id, environment or factory.

And how files remember it: `described` says what it was made from, `reopened` makes it again.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

import gymnasium

from spaql.errors import AgentFileError, ParameterError, SpaqlError
from spaql.gymnasium_problem import GymnasiumProblem
from spaql.problems import PROBLEMS
from spaql.problems.base import Playable
from spaql.spaces import Actions, Finite

_OPTIONS = ("bounds", "periodic", "horizon", "warm_up")
#: wrappers of Gymnasium that are made again from their arguments alone: they remember nothing from episode to episode
_WRAPPERS = frozenset(
    [
        "ClipAction",
        "ClipReward",
        "DelayObservation",
        "DiscretizeAction",
        "DiscretizeObservation",
        "FilterObservation",
        "FlattenObservation",
        "FrameStackObservation",
        "GrayscaleObservation",
        "MaxAndSkipObservation",
        "OrderEnforcing",
        "PassiveEnvChecker",
        "RecordEpisodeStatistics",
        "RepeatAction",
        "RescaleAction",
        "RescaleObservation",
        "ReshapeObservation",
        "ResizeObservation",
        "TimeAwareObservation",
        "TimeLimit",
    ]
)
_TUPLE = "()"  # how a tuple is marked in JSON


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
    about: dict[str, Any] = {"name": problem.name, "horizon": problem.horizon, "actions": _ends(problem.actions)}
    if isinstance(problem, GymnasiumProblem):
        return about | {
            "kind": "gymnasium",
            **_recipe(problem),
            "names": problem.names,
            "low": problem.states.low.tolist(),
            "high": problem.states.high.tolist(),
            "periodic": problem.periodic,
            "warm_up_steps": problem.warm_up_steps,
            "progress": problem.progress(),
        }
    return about | {
        "kind": "compiled",
        "maker": getattr(problem, "maker", None),
        "arguments": _plain(problem.arguments),
        "states": _ends(problem.states),
    }


def _ends(space: Actions) -> dict[str, Any]:
    """A space for JSON."""
    if isinstance(space, Finite):
        return {"count": space.count}
    return {"low": space.low.tolist(), "high": space.high.tolist()}


def _plain(arguments: Any) -> dict[str, Any] | None:
    """The arguments, if JSON can hold them."""
    try:
        return {name: _packed(value) for name, value in arguments.items()}
    except TypeError:
        return None


def _packed(value: Any) -> Any:
    """The value for JSON, from which `_unpacked` makes an equal one of the same type; else a TypeError."""
    if value is None or type(value) in (bool, int, str):
        return value
    if isinstance(value, float) and value - value == 0.0:  # JSON has neither infinity nor NaN
        return float(value)
    if type(value) is tuple:
        return {_TUPLE: [_packed(each) for each in value]}
    if type(value) is list:
        return [_packed(each) for each in value]
    if type(value) is dict and _TUPLE not in value and all(type(name) is str for name in value):
        return {name: _packed(each) for name, each in value.items()}
    raise TypeError(f"JSON cannot hold {value!r:.80}")


def _unpacked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unpacked(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {_TUPLE}:
        return tuple(_unpacked(each) for each in value[_TUPLE])
    return {name: _unpacked(each) for name, each in value.items()}


_recipes: WeakKeyDictionary[GymnasiumProblem, dict[str, Any]] = WeakKeyDictionary()


def _recipe(problem: GymnasiumProblem) -> dict[str, Any]:
    """What `_made` takes to make the environment exactly as it is; an id of None where that cannot be told."""
    if problem not in _recipes:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # whoever made it has seen them
            _recipes[problem] = _tried(problem) or {"id": None}
    return _recipes[problem]


def _tried(problem: GymnasiumProblem) -> dict[str, Any] | None:
    """The recipe, if what it makes is the same: wrapped alike, and of an equal specification."""
    try:
        spec = problem.env.spec
        if spec is None:
            return None
        recipe = {
            "id": f"{problem.module}:{spec.id}" if problem.module else spec.id,
            "arguments": {name: _packed(value) for name, value in spec.kwargs.items()},
            "max_episode_steps": -1 if spec.max_episode_steps is None else spec.max_episode_steps,
            "disable_env_checker": spec.disable_env_checker,
        }
        again = _made(recipe)
        more = spec.additional_wrappers[len(again.spec.additional_wrappers) :]
        if more:
            again.close()
            recipe["wrappers"] = [[wrapper.name, _packed(wrapper.kwargs)] for wrapper in more]
            again = _made(recipe)
        same = again.spec == spec and _chain(again) == _chain(problem.env)
        again.close()
    except Exception:  # whatever an environment raises that cannot be made again
        return None
    return recipe if same else None


def _chain(env: Any) -> list[type]:
    """Classes of the wrappers and of what is inside."""
    kinds = []
    while isinstance(env, gymnasium.Wrapper):
        kinds.append(type(env))
        env = env.env
    return [*kinds, type(env)]


def _made(recipe: Mapping[str, Any]) -> Any:
    """The environment that a recipe tells of.  Entry points come from the registry alone, never from a file."""
    env: Any = gymnasium.make(
        recipe["id"],
        max_episode_steps=recipe.get("max_episode_steps"),
        disable_env_checker=recipe.get("disable_env_checker"),
        **_unpacked(recipe["arguments"]),
    )
    for name, arguments in recipe.get("wrappers", ()):
        if name not in _WRAPPERS:
            raise TypeError(f"the wrapper {name} cannot be made from its arguments")
        env = getattr(gymnasium.wrappers, name)(env, **_unpacked(arguments))
    return env


def reopened(about: Mapping[str, Any], env: Any, seed: Any, where: str) -> Playable:
    """The problem that `described` told of, or the given one with the ranges of that."""
    if not _whole(about, seed):
        raise AgentFileError(f"{where}: what it says of its problem is not whole, so it is damaged or no agent file")
    return (_environment if about["kind"] == "gymnasium" else _compiled)(about, env, seed, where)


def _whole(about: Mapping[str, Any], seed: Any) -> bool:
    """Whether all is there, and of the types that `described` gives it."""
    kinds: dict[str, Any] = {"name": str, "kind": str, "horizon": int}
    if about.get("kind") == "gymnasium":
        kinds |= {"id": str | None, "names": list, "low": list, "high": list, "periodic": list, "warm_up_steps": int}
    else:
        kinds |= {"maker": str | None}
    if type(seed) is not int or not all(
        name in about and isinstance(about[name], kind) for name, kind in kinds.items()
    ):
        return False
    if not isinstance(about.get("arguments"), dict | None) or not isinstance(about.get("actions", {}), dict):
        return False
    if about["kind"] == "gymnasium":
        sizes = {len(about[name]) for name in ("names", "low", "high")}
        return len(sizes) == 1 and all(isinstance(name, str) for name in about["names"])
    return bool(about["kind"] == "compiled")


def _environment(about: Mapping[str, Any], env: Any, seed: int, where: str) -> GymnasiumProblem:
    if env is None and (about["id"] is None or about.get("arguments") is None):
        raise ParameterError(
            f"{where}: it learned on {about['name']!r}, which cannot be made by its id; give the environment: "
            "load(path, env=...)"
        )
    if isinstance(env, Playable):
        raise ParameterError(f"env: {where} learned on the environment {about['name']!r}; give one of these")

    def again() -> Any:
        try:
            return _made(about)
        except Exception as error:  # not registered, not installed, or other than it was
            reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
            raise ParameterError(
                f"{where}: its environment {about['id']!r} cannot be made: {reason}; import the module that registers "
                "it, or give the environment: load(path, env=...), --env on the command line"
            ) from None

    made = GymnasiumProblem(
        again if env is None else env,
        bounds={name: ends for name, *ends in zip(about["names"], about["low"], about["high"], strict=True)},
        periodic=about["periodic"],
        horizon=about["horizon"],
        seed=seed,
    )
    if env is None:
        made.module = str(about["id"]).rpartition(":")[0]
    if made.names != about["names"]:
        raise ParameterError(f"env: {where} saw {', '.join(about['names'])}, and this shows {', '.join(made.names)}")
    if about.get("actions", _ends(made.actions)) != _ends(made.actions):
        raise ParameterError(
            f"env: {where} played {_told(about['actions'])}, and {made.name!r} takes {_told(_ends(made.actions))}"
        )
    made.warm_up_steps = int(about["warm_up_steps"])
    if "progress" in about:
        try:
            made.go_on(about["progress"])
        except (LookupError, TypeError, ValueError) as error:
            raise AgentFileError(f"{where}: its seeds are damaged ({error})") from None
    return made


def _told(actions: Mapping[str, Any]) -> str:
    """A space of actions in words."""
    if "count" in actions:
        return f"{actions['count']} actions"
    return f"actions from {actions.get('low')} to {actions.get('high')}"


def _compiled(about: Mapping[str, Any], given: Any, seed: int, where: str) -> Playable:
    if given is not None:
        problem = as_problem(given, seed)
        told = described(problem)
        for name in ("name", "kind", "horizon", "actions", "states", "arguments"):
            if about.get(name) is not None and told.get(name) != about[name]:
                raise ParameterError(
                    f"env: {where} learned on {about['name']!r} with {name} {about[name]!r:.80}, and {problem.name!r} "
                    f"has {told.get(name)!r:.80}; give the problem that it learned on"
                )
        return problem
    if about["maker"] not in PROBLEMS or about.get("arguments") is None:
        raise ParameterError(
            f"{where}: it learned on {about['name']!r}, a compiled problem of your own; give it: load(path, env=...)"
        )
    arguments = {
        name: tuple(value) if isinstance(value, list) else _unpacked(value)
        for name, value in about["arguments"].items()
    }
    try:
        return PROBLEMS[about["maker"]](**arguments)
    except (TypeError, SpaqlError) as error:
        raise AgentFileError(f"{where}: its problem {about['maker']!r} cannot be made ({error})") from None
