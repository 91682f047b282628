"""Problems in agent files: `describe` says what a problem was made from, `restore_problem` makes it again.

Restoring runs nothing: an environment is made when the agent first plays, from what is registered under its id.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import gymnasium

from spaql.errors import AgentFileError, ParameterError, SpaqlError
from spaql.gym.calls import find_environment
from spaql.gym.encoding import Observations
from spaql.gym.problem import GymnasiumProblem
from spaql.gym.resolve import resolve_problem
from spaql.gym.space_json import space_from_json, space_to_json
from spaql.partition.spaces import Actions, Box, Discrete
from spaql.problems import PROBLEMS
from spaql.problems.base import LONGEST, Playable, World
from spaql.validation import check_whole

#: wrappers of Gymnasium that are made again from their arguments alone: they remember nothing from episode to episode
_WRAPPERS = frozenset(
    (
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
    )
)
_RECIPE = ("id", "arguments", "max_episode_steps", "disable_env_checker", "wrappers")
_TUPLE = "()"  # how a tuple is marked in JSON


def describe(problem: Playable) -> dict[str, Any]:
    """Return what it takes to make a problem again, ready for JSON."""
    if isinstance(problem, AbsentProblem):
        return problem.about
    about: dict[str, Any] = {"name": problem.name, "horizon": problem.horizon, "actions": _ends(problem.actions)}
    if isinstance(problem, GymnasiumProblem):
        return about | {
            "kind": "gymnasium",
            **_recipe(problem),
            "names": problem.names,
            **_spaces(problem),
            "low": problem.states.low.tolist(),
            "high": problem.states.high.tolist(),
            "periodic": problem.periodic,
            "warm_up_steps": problem.warm_up_steps,
            "progress": problem.progress(),
        }
    return about | {
        "kind": "compiled",
        "maker": getattr(problem, "maker", None),
        "arguments": _pack_arguments(problem.arguments),
        "states": _ends(problem.states),
        "clip": getattr(problem, "clip", False),
    }


def _spaces(problem: GymnasiumProblem) -> dict[str, Any]:
    """Both spaces for JSON, so that `predict` needs no environment; none where they are of another kind."""
    try:
        return {
            "observation_space": space_to_json(problem.observations.space),
            "action_space": space_to_json(problem.moves.space),
        }
    except TypeError:
        return {}


def _ends(space: Actions) -> dict[str, Any]:
    """Return a space for JSON."""
    if isinstance(space, Discrete):
        return {"count": space.count}
    return {"low": space.low.tolist(), "high": space.high.tolist()}


def _from_ends(about: Mapping[str, Any]) -> Actions:
    """Return the space that `_ends` described."""
    return Discrete(about["count"]) if "count" in about else Box(about["low"], about["high"])


def _pack_arguments(arguments: Any) -> dict[str, Any] | None:
    """Return the arguments, if JSON can hold them."""
    try:
        return {name: _pack(value) for name, value in arguments.items()}
    except TypeError:
        return None


def _pack(value: Any) -> Any:
    """Return a value for JSON, from which `_unpack` makes an equal one of the same type; else a TypeError."""
    if value is None or type(value) in (bool, int, str):
        return value
    if isinstance(value, float) and value - value == 0.0:  # JSON has neither infinity nor NaN
        return float(value)
    if type(value) is tuple:
        return {_TUPLE: [_pack(each) for each in value]}
    if type(value) is list:
        return [_pack(each) for each in value]
    if type(value) is dict and _TUPLE not in value and all(type(name) is str for name in value):
        return {name: _pack(each) for name, each in value.items()}
    raise TypeError(f"JSON cannot hold {value!r:.80}")


def _unpack(value: Any) -> Any:
    if isinstance(value, list):
        return [_unpack(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {_TUPLE}:
        return tuple(_unpack(each) for each in value[_TUPLE])
    return {name: _unpack(each) for name, each in value.items()}


_recipes: WeakKeyDictionary[GymnasiumProblem, dict[str, Any]] = WeakKeyDictionary()


def _recipe(problem: GymnasiumProblem) -> dict[str, Any]:
    """Return what `_make` takes to make the environment exactly as it is; an id of None where that is unknown."""
    if problem not in _recipes:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # whoever made it has seen them
            _recipes[problem] = _try_recipe(problem) or {"id": None}
    return _recipes[problem]


def _try_recipe(problem: GymnasiumProblem) -> dict[str, Any] | None:
    """Return the recipe if what it makes is the same: the same wrappers, and an equal specification."""
    try:
        spec = problem.env.spec
        if spec is None:
            return None
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
        same = again.spec == spec and _chain(again) == _chain(problem.env)
        again.close()
    except Exception:  # whatever an environment raises that cannot be made again
        return None
    return recipe if same else None


def _chain(env: Any) -> list[type]:
    """Return the classes of the wrappers and of the environment inside."""
    kinds = []
    while isinstance(env, gymnasium.Wrapper):
        kinds.append(type(env))
        env = env.env
    return [*kinds, type(env)]


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
    """Make the problem that `describe` described, or take the given one with its ranges.

    Parameters
    ----------
    about
        What `describe` returned, from a file.
    env
        The problem or environment to take instead; None for the one of the file.
    seed
        Of the agent.
    where
        The file, for errors.

    Raises
    ------
    AgentFileError
        Where the description is invalid.
    ParameterError
        Where `env` does not fit it.
    """
    try:
        _check_description(about, seed)
        if about["kind"] == "gymnasium":
            return _restore_environment(about, env, seed, where)
        return _restore_compiled(about, env, seed, where)
    except _InvalidDescription as error:
        raise AgentFileError(f"{where}: what it says of its problem is damaged ({error})") from error


class _InvalidDescription(Exception):
    """A file's description of its problem is invalid."""


@contextmanager
def _check(*kinds: type[Exception]) -> Iterator[None]:
    """Around code that reads a description: exceptions of these kinds mean that it is invalid."""
    try:
        yield
    except kinds as error:
        raise _InvalidDescription(str(error)) from error


def _check_description(about: Any, seed: Any) -> None:
    """Check that all is there, and of the types that `describe` gives it."""
    kinds: dict[str, Any] = {"name": str, "kind": str, "horizon": int}
    if not isinstance(about, Mapping) or type(seed) is not int:
        raise _InvalidDescription("no description")
    if about.get("kind") == "gymnasium":
        kinds |= {"id": str | None, "names": list, "low": list, "high": list, "periodic": list, "warm_up_steps": int}
    elif about.get("kind") == "compiled":
        kinds |= {"maker": str | None, "states": dict, "actions": dict}
    else:
        raise _InvalidDescription(f"kind {about.get('kind')!r:.80}")
    for name, kind in kinds.items():
        if name not in about or not isinstance(about[name], kind):
            raise _InvalidDescription(f"{name} is {about.get(name)!r:.80}")
    if not isinstance(about.get("arguments"), dict | None) or not isinstance(about.get("actions", {}), dict):
        raise _InvalidDescription("arguments or actions are no objects")
    if about["kind"] == "gymnasium":
        names = about["names"]
        if len({len(about[name]) for name in ("names", "low", "high")}) != 1 or not all(type(n) is str for n in names):
            raise _InvalidDescription("names and ranges do not match")


def _restore_environment(about: Mapping[str, Any], env: Any, seed: int, where: str) -> GymnasiumProblem:
    if isinstance(env, Playable):
        raise ParameterError(f"env: {where} learned on the environment {about['name']!r}; give one of these")
    ranges: dict[str, Any] = {
        "bounds": {name: ends for name, *ends in zip(about["names"], about["low"], about["high"], strict=True)},
        "periodic": about["periodic"],
        "horizon": about["horizon"],
        "seed": seed,
    }
    if env is None:
        problem = _restore_unopened(about, ranges, where)
    else:
        opened, make, module = find_environment(env)
        shown = Observations(opened.observation_space).names
        if shown != about["names"]:
            raise ParameterError(f"env: {where} saw {', '.join(about['names'])}, and this shows {', '.join(shown)}")
        problem = GymnasiumProblem(opened, make=make, **ranges)
        problem.module = module
    if about.get("actions", _ends(problem.actions)) != _ends(problem.actions):
        raise ParameterError(
            f"env: {where} played {_word_actions(about['actions'])}, and {problem.name!r} takes "
            f"{_word_actions(_ends(problem.actions))}"
        )
    problem.warm_up_steps = int(about["warm_up_steps"])
    if "progress" in about:
        if not isinstance(about["progress"], Mapping):
            raise _InvalidDescription("progress is no object")
        with _check(KeyError, ValueError):
            problem.go_on(about["progress"])
    return problem


def _restore_unopened(about: Mapping[str, Any], ranges: dict[str, Any], where: str) -> GymnasiumProblem:
    """The problem of a file without its environment, for which both spaces must be described."""
    if "observation_space" not in about or "action_space" not in about:
        raise _ask_for_environment(about, where, "whose spaces are not in the file")
    with _check(ArithmeticError, AssertionError, LookupError, TypeError, ValueError):
        spaces = space_from_json(about["observation_space"]), space_from_json(about["action_space"])
        problem = GymnasiumProblem.unopened(about["name"], *spaces, make=_maker(about, where), **ranges)
        if problem.names != about["names"]:
            raise ValueError("names do not match the space")
    problem.module = str(about["id"] or "").rpartition(":")[0]
    _recipes[problem] = {name: about[name] for name in _RECIPE if name in about}
    return problem


def _ask_for_environment(about: Mapping[str, Any], where: str, reason: str) -> ParameterError:
    return ParameterError(
        f"{where}: it learned on {about['name']!r}, {reason}; give the environment: load(path, env=...)"
    )


def _maker(about: Mapping[str, Any], where: str) -> Callable[[], Any]:
    """Return a function that makes the environment of a file, or raises a `ParameterError` that says why it cannot."""

    def make() -> Any:
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

    return make


def _word_actions(actions: Mapping[str, Any]) -> str:
    """Return a text for a space of actions."""
    if "count" in actions:
        return f"{actions['count']} actions"
    return f"actions from {actions.get('low')} to {actions.get('high')}"


def _restore_compiled(about: Mapping[str, Any], env: Any, seed: int, where: str) -> Playable:
    if env is not None:
        problem = resolve_problem(env, seed=seed)
        given = describe(problem)
        for name in ("name", "kind", "horizon", "actions", "states", "arguments"):
            if about.get(name) is not None and given.get(name) != about[name]:
                raise ParameterError(
                    f"env: {where} learned on {about['name']!r} with {name} {about[name]!r:.80}, and {problem.name!r} "
                    f"has {given.get(name)!r:.80}; give the problem that it learned on"
                )
        return problem
    with _check(LookupError, TypeError, SpaqlError):  # a TypeError is an argument that the problem does not have
        if about["maker"] not in PROBLEMS or about.get("arguments") is None:
            return AbsentProblem(about, where)
        arguments = {
            name: tuple(value) if isinstance(value, list) else _unpack(value)
            for name, value in about["arguments"].items()
        }
        problem = PROBLEMS[about["maker"]](**arguments)
    made = describe(problem)
    for name in ("name", "horizon", "actions", "states"):
        if made[name] != about[name]:
            raise _InvalidDescription(f"{name} is not that of {about['maker']!r} with these arguments")
    return problem


class AbsentProblem(Playable):
    """A user's compiled problem as a file describes it: enough to predict, not to play."""

    def __init__(self, about: Mapping[str, Any], where: str) -> None:
        self.about, self.name, self.arguments = dict(about), about["name"], about.get("arguments") or {}
        self.horizon = check_whole(about["horizon"], "horizon", 1, LONGEST)
        self.clip = about.get("clip") is True
        states, actions = _from_ends(about["states"]), _from_ends(about["actions"])
        if not isinstance(states, Box):
            raise ParameterError("states: expected a box")
        self.states, self.actions, self._where = states, actions, where

    @property
    def world(self) -> World:  # type: ignore[override]
        """Raise: only the user's code has it."""
        raise self._missing()

    def for_evaluation(self, seed: int) -> AbsentProblem:
        """Raise: it cannot be played."""
        raise self._missing()

    def with_env(self, env: Any) -> Playable:
        """Raise: memory for its states would have another size."""
        raise self._missing()

    def _missing(self) -> ParameterError:
        return ParameterError(
            f"{self._where}: it learned on {self.name!r}, a compiled problem of your own; give it to learn or "
            "evaluate: load(path, env=...)"
        )
