"""Problems in agent files: `describe` says what a problem was made from, `restore_problem` makes it again.

Restoring runs nothing: an environment is made when the agent first plays, from what is registered under its id.
"""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from typing import Any

import gymnasium

from spaql.errors import AgentFileError, ParameterError
from spaql.gym import calls
from spaql.gym.encoding import bounds_to_json, space_from_json, space_to_json
from spaql.gym.problem import GymnasiumProblem, compare_spaces, resolve_problem
from spaql.partition.spaces import Box, Discrete
from spaql.problems import PROBLEMS
from spaql.problems.base import LONGEST, Playable, World
from spaql.problems.labels import with_names
from spaql.validation import check_plain, check_whole, show

#: wrappers of Gymnasium that are made again from their arguments alone: they remember nothing from episode to episode
_WRAPPERS = {
    *("ClipAction", "DiscretizeAction", "RepeatAction", "RescaleAction", "ClipReward", "TimeLimit"),
    *("DelayObservation", "DiscretizeObservation", "FilterObservation", "FlattenObservation", "FrameStackObservation"),
    *("GrayscaleObservation", "MaxAndSkipObservation", "RescaleObservation", "ReshapeObservation"),
    *("ResizeObservation", "TimeAwareObservation", "OrderEnforcing", "PassiveEnvChecker", "RecordEpisodeStatistics"),
}
_RECIPE = ("id", "arguments", "max_episode_steps", "disable_env_checker", "wrappers")
_SPACES = ("observation_space", "action_space")
_WORDS = ("names", "action_names")  # that the user gave, under "given"
_TUPLE = "()"  # how a tuple is marked in JSON
_DEEPEST = 10  # lists and mappings within each other, among arguments
_TYPES: dict[str, Any] = {"name": str, "horizon": int, "actions": dict, "arguments": dict | None}
_TYPES_OF_KIND: dict[Any, dict[str, Any]] = {
    "compiled": {"maker": str | None, "states": dict},
    "gymnasium": {"id": str | None, "warm_up_steps": int, "progress": dict}
    | dict.fromkeys(("names", "low", "high", "periodic"), list),
}


def describe(problem: Playable) -> dict[str, Any]:
    """Return what it takes to make a problem again, ready for JSON."""
    if isinstance(problem, AbsentProblem):
        return problem.about
    about = {"name": problem.name, "horizon": problem.horizon, "actions": bounds_to_json(problem.actions)}
    words = {name: getattr(problem, f"given_{name}", None) for name in _WORDS}
    about["given"] = {name: list(given) for name, given in words.items() if given is not None}
    if isinstance(problem, GymnasiumProblem):
        return about | {
            "kind": "gymnasium",
            **_recipe(problem),
            "names": problem.paths,
            "observation_space": space_to_json(problem.observations.space),
            "action_space": space_to_json(problem.moves.space),
            "low": problem.states.low.tolist(),
            "high": problem.states.high.tolist(),
            "periodic": problem.periodic,
            "warm_up_steps": problem.warm_up_steps,
            "progress": problem.progress(),
        }
    arguments = None
    with suppress(TypeError):  # where a file cannot hold them
        arguments = {name: _pack(value) for name, value in problem.arguments.items()}
    return about | {
        "kind": "compiled",
        "maker": problem.maker,
        "arguments": arguments,
        "states": bounds_to_json(problem.states),
        "clip": problem.clip,
    }


def _pack(value: Any, depth: int = 0) -> Any:
    """Return a value for JSON, from which `_unpack` makes an equal one of the same type; else a TypeError."""
    if depth > _DEEPEST:
        raise TypeError("lists and mappings nested too deeply")
    if value is None or type(value) in (bool, int, str):
        try:
            check_plain(value)
        except ValueError as error:
            raise TypeError(f"a file cannot hold it: {error}") from None
        return value
    if isinstance(value, float) and value - value == 0.0:  # JSON has neither infinity nor NaN
        return float(value)
    if type(value) is tuple:
        return {_TUPLE: [_pack(each, depth + 1) for each in value]}
    if type(value) is list:
        return [_pack(each, depth + 1) for each in value]
    if type(value) is dict and _TUPLE not in value and all(type(name) is str for name in value):
        return {name: _pack(each, depth + 1) for name, each in value.items()}
    raise TypeError(f"a file cannot hold {show(value)}")


def _unpack(value: Any) -> Any:
    if isinstance(value, list):
        return [_unpack(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {_TUPLE}:
        return tuple(_unpack(each) for each in value[_TUPLE])
    return {name: _unpack(each) for name, each in value.items()}


def _recipe(problem: GymnasiumProblem) -> dict[str, Any]:
    """Return what `_make` takes to make the environment exactly as it is; an id of None where that is unknown."""
    if problem.recipe is None:
        problem.recipe = {"id": None}
        # Whatever an environment raises that cannot be made again; it may have no `spec`.
        with warnings.catch_warnings(action="ignore"), suppress(Exception):
            spec = problem.env.spec
            recipe = {
                "id": f"{problem.module}:{spec.id}" if problem.module else spec.id,
                "arguments": {name: _pack(value) for name, value in spec.kwargs.items()},
                "max_episode_steps": -1 if spec.max_episode_steps is None else spec.max_episode_steps,
                "disable_env_checker": spec.disable_env_checker,
            }
            again = _make(recipe)
            more = spec.additional_wrappers[len(again.spec.additional_wrappers) :]
            if more:
                again.close()
                recipe["wrappers"] = [[wrapper.name, _pack(wrapper.kwargs)] for wrapper in more]
                again = _make(recipe)
            layers, others = calls.unwrap(problem.env), calls.unwrap(again)
            if again.spec == spec and list(map(type, layers)) == list(map(type, others)):
                problem.recipe = recipe
            again.close()
    return problem.recipe


def _make(recipe: Mapping[str, Any]) -> Any:
    """Make the environment of a recipe.  Entry points come from the registry alone, never from a file."""
    env: Any = gymnasium.make(
        recipe["id"],
        max_episode_steps=recipe.get("max_episode_steps"),
        disable_env_checker=recipe.get("disable_env_checker"),
        **_unpack(recipe["arguments"]),
    )
    for name, arguments in recipe.get("wrappers", ()):
        if name not in _WRAPPERS:
            raise TypeError(f"the wrapper {name} cannot be made from its arguments")
        env = getattr(gymnasium.wrappers, name)(env, **_unpack(arguments))
    return env


def restore_problem(about: Any, env: Any, seed: Any, where: str) -> Playable:
    """Make the problem that `describe` described in the file `where`, or take `env`, with the ranges of the file.

    An `AgentFileError` where the description is invalid, a `ParameterError` where `env` does not fit it.
    """
    with _reading(where):
        _check_types(about, seed)
    if about["kind"] == "gymnasium":
        return _restore_environment(about, env, seed, where)
    given = None if env is None else _take_compiled(about, resolve_problem(env, seed=seed), where)
    with _reading(where):
        problem = _restore_compiled(about, where) if given is None else given
        return with_names(problem, **about["given"]) if about.get("given") else problem


def is_described(problem: Playable) -> bool:
    """Whether a restored problem can be read but not played: its file does not say how to make it."""
    unknown = isinstance(problem, GymnasiumProblem) and (problem.recipe or {}).get("id", "") is None
    return unknown or isinstance(problem, AbsentProblem)


@contextmanager
def _reading(where: str) -> Iterator[None]:
    """Around code that reads a description and runs nothing else: its exceptions mean that it is invalid."""
    try:
        yield
    except (ArithmeticError, AssertionError, LookupError, TypeError, ValueError) as error:
        raise AgentFileError(f"{where}: what it says of its problem is damaged ({error})") from error


def _check_types(about: Any, seed: Any) -> None:
    """Check that all is there, and of the types that `describe` gives it."""
    if not isinstance(about, Mapping) or type(seed) is not int:
        raise TypeError("no description")
    if about.get("kind") not in tuple(_TYPES_OF_KIND):  # it may be unhashable
        raise ValueError(f"kind {show(about.get('kind'))}")
    for name, kind in (_TYPES | _TYPES_OF_KIND[about["kind"]]).items():
        if not isinstance(about.get(name), kind):
            raise TypeError(f"{name} is {show(about.get(name))}")
    box, actions, given = about.get("states", about), about["actions"], about.get("given", {})  # older files lack it
    sizes = {"names": len(box["low"]), "action_names": actions.get("count", len(actions.get("low", ())))}
    if not isinstance(given, dict):
        raise TypeError(f"given is {show(given)}")
    for name, words in given.items():
        if type(words) is not list or len(words) != sizes[name] or not all(type(word) is str for word in words):
            raise ValueError(f"given {name} is {show(words)}")
    names, low, high = (about.get(name, ()) for name in ("names", "low", "high"))
    if not len(names) == len(low) == len(high) or not all(type(name) is str for name in names):
        raise ValueError("names and ranges do not match")


def _restore_environment(about: Mapping[str, Any], env: Any, seed: int, where: str) -> GymnasiumProblem:
    if isinstance(env, Playable):
        raise ParameterError(f"env: {where} learned on the environment {about['name']!r}; give one of these")
    if env is None and not about.keys() >= set(_SPACES):
        raise _ask_for_environment(about, where, "whose spaces are not in the file")
    found = None if env is None else calls.find_environment(env)
    with nullcontext() if found else _reading(where):
        if found is None:  # what stands for the environment, and how to make that
            described = calls.Described(about["name"], *(space_from_json(about[name]) for name in _SPACES))
            module = str(about["id"] or "").rpartition(":")[0]
            found = calls.Found(described, partial(_make_described, about, where), module)
        difference = compare_spaces(about["names"], about["actions"], found.made)
        if difference:
            raise ParameterError(f"env: {where} {difference}")
        ranges = dict(enumerate(zip(about["low"], about["high"], strict=True)))
        options = {name: about[name] for name in ("periodic", "horizon")} | about.get("given", {})
        problem = GymnasiumProblem(found, bounds=ranges, seed=seed, **options)
    if env is None:
        problem.recipe = {name: about[name] for name in _RECIPE if name in about}
    problem.warm_up_steps = about["warm_up_steps"]
    with _reading(where):
        problem.go_on(about["progress"])
    return problem


def _ask_for_environment(about: Mapping[str, Any], where: str, reason: str) -> ParameterError:
    learned = f"{where}: it learned on {about['name']!r}, {reason}"
    return ParameterError(f"{learned}; give the environment: load(path, env=...), --env on the command line")


def _make_described(about: Mapping[str, Any], where: str) -> Any:
    """Make the environment of a file, or say why that is impossible."""
    if about["id"] is None or about.get("arguments") is None:
        raise _ask_for_environment(about, where, "which cannot be made by its id")
    try:
        return _make(about)
    except Exception as error:  # not registered, not installed, or other than it was
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise ParameterError(
            f"{where}: its environment {about['id']!r} cannot be made: {reason}; import the module that registers "
            "it, or give the environment: load(path, env=...), --env on the command line"
        ) from error


def _take_compiled(about: Mapping[str, Any], problem: Playable, where: str) -> Playable:
    """Return the given problem, which must be the one that the file describes."""
    given = describe(problem)
    for name in ("name", "kind", "horizon", "actions", "states", "arguments"):
        if about.get(name) is not None and given.get(name) != about[name]:
            raise ParameterError(
                f"env: {where} learned on {about['name']!r} with {name} {show(about[name])}, and {problem.name!r} "
                f"has {show(given.get(name))}; give the problem that it learned on"
            )
    return problem


def _restore_compiled(about: Mapping[str, Any], where: str) -> Playable:
    if about["maker"] not in PROBLEMS or about.get("arguments") is None:
        return AbsentProblem(about, where)
    problem = PROBLEMS[about["maker"]](**_unpack(about["arguments"]))
    made = describe(problem)
    for name in ("name", "horizon", "actions", "states"):
        if made[name] != about[name]:
            raise ValueError(f"{name} is not that of {about['maker']!r} with these arguments")
    return problem


class AbsentProblem(Playable):
    """A user's compiled problem as a file describes it: enough to predict, not to play."""

    def __init__(self, about: Mapping[str, Any], where: str) -> None:
        self.about, self.name, self.arguments = dict(about), about["name"], about.get("arguments") or {}
        self.horizon = check_whole(about["horizon"], "horizon", 1, LONGEST)
        self.clip = about.get("clip") is True
        actions, self._where = about["actions"], where
        self.states = Box(about["states"]["low"], about["states"]["high"])
        self.actions = Discrete(actions["count"]) if "count" in actions else Box(actions["low"], actions["high"])

    @property
    def world(self) -> World:  # type: ignore[override]
        """Raise: only the user's code has it."""
        raise self._missing()

    def with_env(self, env: Any) -> Playable:
        """Raise: memory for its states would have another size."""
        raise self._missing()

    def _missing(self) -> ParameterError:
        return ParameterError(
            f"{self._where}: it learned on {self.name!r}, a compiled problem of your own; give it to learn or "
            "evaluate: load(path, env=...), --env on the command line"
        )
