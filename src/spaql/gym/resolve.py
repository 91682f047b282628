"""Whatever a user may call a problem: a compiled one or its name, a Gymnasium id, environment or factory.

And how files remember it: `described` says what it was made from, `reopened` makes it again.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import gymnasium
import numpy as np

from spaql.errors import AgentFileError, ParameterError, SpaqlError
from spaql.gym.problem import GymnasiumProblem, call_maker
from spaql.gym.space_json import drawn, sketched
from spaql.partition.spaces import Actions, Box, Discrete
from spaql.problems import PROBLEMS
from spaql.problems.base import LONGEST, Frame, Plain, Playable, World
from spaql.validation import check_whole, import_module

#: options of Gymnasium environments that agents pass on
OPTIONS = ("bounds", "periodic", "horizon", "warm_up")
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
_RECIPE = ("id", "arguments", "max_episode_steps", "disable_env_checker", "wrappers")
_TUPLE = "()"  # how a tuple is marked in JSON


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


def described(problem: Playable) -> dict[str, Any]:
    """What it takes to make the problem again, ready for JSON."""
    if isinstance(problem, Absent):
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
        "arguments": _plain(problem.arguments),
        "states": _ends(problem.states),
        "clip": getattr(problem, "clip", False),
    }


def _spaces(problem: GymnasiumProblem) -> dict[str, Any]:
    """Both spaces for JSON, so that `predict` needs no environment; nothing where they are of a kind of their own."""
    try:
        return {
            "observation_space": sketched(problem.observations.space),
            "action_space": sketched(problem.moves.space),
        }
    except TypeError:
        return {}


def _ends(space: Actions) -> dict[str, Any]:
    """A space for JSON."""
    if isinstance(space, Discrete):
        return {"count": space.count}
    return {"low": space.low.tolist(), "high": space.high.tolist()}


def _from_ends(about: Mapping[str, Any]) -> Actions:
    """The space that `_ends` told of."""
    return Discrete(about["count"]) if "count" in about else Box(about["low"], about["high"])


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
    if isinstance(env, Playable):
        raise ParameterError(f"env: {where} learned on the environment {about['name']!r}; give one of these")
    ranges: dict[str, Any] = {
        "bounds": {name: ends for name, *ends in zip(about["names"], about["low"], about["high"], strict=True)},
        "periodic": about["periodic"],
        "horizon": about["horizon"],
        "seed": seed,
    }
    make = _maker(about, where)
    if env is None and "observation_space" in about and "action_space" in about:
        try:
            seen, done = drawn(about["observation_space"]), drawn(about["action_space"])
            made = GymnasiumProblem.remembered(about["name"], seen, done, make=make, **ranges)
        except (ArithmeticError, AssertionError, LookupError, TypeError, ValueError) as error:
            raise AgentFileError(f"{where}: what it says of its spaces is damaged ({error})") from None
    else:
        try:
            made = GymnasiumProblem(make if env is None else env, **ranges)
        except ParameterError as error:
            if "is no observed number" not in str(error):
                raise
            shown = str(error).rpartition("there are ")[2]
            raise ParameterError(f"env: {where} saw {', '.join(about['names'])}, and this shows {shown}") from None
    if env is None:
        made.module = str(about["id"] or "").rpartition(":")[0]
        _recipes[made] = {name: about[name] for name in _RECIPE if name in about}
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
        except (LookupError, OverflowError, TypeError, ValueError) as error:
            raise AgentFileError(f"{where}: its seeds are damaged ({error})") from None
    return made


def _maker(about: Mapping[str, Any], where: str) -> Callable[[], Any]:
    """A function that makes the environment of a file, or says in a sentence why it cannot."""

    def make() -> Any:
        if about["id"] is None or about.get("arguments") is None:
            raise ParameterError(
                f"{where}: it learned on {about['name']!r}, which cannot be made by its id; give the environment: "
                "load(path, env=...)"
            )
        try:
            return _made(about)
        except Exception as error:  # not registered, not installed, or other than it was
            reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
            raise ParameterError(
                f"{where}: its environment {about['id']!r} cannot be made: {reason}; import the module that registers "
                "it, or give the environment: load(path, env=...), --env on the command line"
            ) from None

    return make


def _told(actions: Mapping[str, Any]) -> str:
    """A space of actions in words."""
    if "count" in actions:
        return f"{actions['count']} actions"
    return f"actions from {actions.get('low')} to {actions.get('high')}"


def _compiled(about: Mapping[str, Any], given: Any, seed: int, where: str) -> Playable:
    if given is not None:
        problem = resolve_problem(given, seed=seed)
        told = described(problem)
        for name in ("name", "kind", "horizon", "actions", "states", "arguments"):
            if about.get(name) is not None and told.get(name) != about[name]:
                raise ParameterError(
                    f"env: {where} learned on {about['name']!r} with {name} {about[name]!r:.80}, and {problem.name!r} "
                    f"has {told.get(name)!r:.80}; give the problem that it learned on"
                )
        return problem
    if about["maker"] not in PROBLEMS or about.get("arguments") is None:
        try:
            return Absent(about, where)
        except (LookupError, TypeError, SpaqlError) as error:
            raise AgentFileError(f"{where}: what it says of its problem is damaged ({error})") from None
    arguments = {
        name: tuple(value) if isinstance(value, list) else _unpacked(value)
        for name, value in about["arguments"].items()
    }
    try:
        problem = PROBLEMS[about["maker"]](**arguments)
    except (TypeError, SpaqlError) as error:
        raise AgentFileError(f"{where}: its problem {about['maker']!r} cannot be made ({error})") from None
    told = described(problem)
    if any(told[name] != about[name] for name in ("name", "horizon", "actions", "states") if name in about):
        raise AgentFileError(f"{where}: what it says of its problem {about['maker']!r} is not so")
    return problem


class Absent(Plain):
    """A compiled problem of someone's own that a file tells of: enough to predict, not to play."""

    rewards = None
    model = None
    warm_up_steps = 0

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
        """There is none."""
        raise self._lacking()

    def frame(self, copies: int) -> Frame:
        """Memory for so many episodes, though none will be played."""
        rows = np.zeros((1, self.states.dimensions))
        actions = np.zeros((1, self.actions.dimensions))
        return Frame(rows, rows.copy(), actions, np.zeros((1, 2)), np.zeros(copies), np.zeros(1, np.int64))

    def check(self, status: int, where: str) -> None:
        """Nothing was played."""

    def fresh(self, seed: int) -> Absent:
        """There is none to evaluate on."""
        raise self._lacking()

    def moved(self, env: Any) -> Playable:
        """Not here: memory for its states would have another size."""
        raise self._lacking()

    def _lacking(self) -> ParameterError:
        return ParameterError(
            f"{self._where}: it learned on {self.name!r}, a compiled problem of your own; give it to learn or "
            "evaluate: load(path, env=...)"
        )
