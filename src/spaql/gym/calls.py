"""Calls of Gymnasium environments: making and resetting them, and what they return, with errors in one sentence."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import gymnasium
import numpy as np

from spaql.errors import ParameterError
from spaql.gym.encoding import Misfit, line
from spaql.problems.base import Playable

_SEEDS = 2**31  # some environments take no larger seeds


def call_maker(make: Callable[[], Any]) -> Any:
    """Call a function that makes an environment or problem, or say in one sentence why that is impossible."""
    name = make.args[0] if isinstance(make, partial) and make.func is gymnasium.make else None
    try:
        made = make()
    except (gymnasium.error.Error, ModuleNotFoundError) as error:
        if name is None:
            raise
        reason = str(error).strip().splitlines()[0]
        raise ParameterError(f"environment: {name!r} cannot be made: {reason}") from error
    except TypeError as error:
        if not _is_own(error):
            raise
        raise ParameterError(
            f"environment: {make!r:.80} needs arguments; give a function that needs none, such as lambda: make(...)"
        ) from error
    if isinstance(made, gymnasium.Env | Playable):
        return made
    raise ParameterError(f"environment: {make!r:.80} made {made!r:.80}, not a gymnasium.Env")


def find_environment(environment: Any) -> tuple[Callable[[], Any] | None, Any]:
    """Return how to make an environment, where that is known, and one of it."""
    if isinstance(environment, gymnasium.Env):
        return None, environment
    make = partial(gymnasium.make, environment) if isinstance(environment, str) else environment
    if not callable(make) or not isinstance(made := call_maker(make), gymnasium.Env):
        raise ParameterError(
            "environment: expected a Gymnasium id, a gymnasium.Env or a function that makes one, got "
            f"{environment!r:.80}"
        )
    return make, made


def name_env(env: Any) -> str:
    """Return the id of an environment, or the name of its class."""
    return str(env.spec.id) if env.spec is not None else type(env.unwrapped).__name__


def get_space(env: Any, what: str) -> Any:
    """Return one of the two spaces of an environment."""
    try:
        return getattr(env, what)
    except AttributeError as error:
        if error.name != what:  # a fault of its own code
            raise
        raise ParameterError(
            f"environment: {name_env(env)!r} has no {what}; set self.{what} to one of gymnasium.spaces in its __init__"
        ) from error


def find_limit(env: Any) -> int | None:
    """Return the steps after which an environment itself truncates an episode, or None."""
    limits = [] if env.spec is None else [env.spec.max_episode_steps]
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, gymnasium.wrappers.TimeLimit):
            limits.append(env._max_episode_steps)
        env = env.env
    inside = getattr(env, "problem", None)  # of a `ProblemEnvironment`
    if isinstance(inside, Playable):
        limits.append(inside.horizon)
    return min((int(limit) for limit in limits if limit is not None), default=None)


def start_episode(reset: Callable[..., Any], seed: int | None) -> Any:
    """Return the first observation of an episode; `Misfit` where `reset` is not as Gymnasium has it."""
    try:
        returned = reset(seed=seed) if seed is not None else reset()
    except TypeError as error:
        if not _is_own(error) or "'seed'" not in str(error):
            raise
        raise Misfit("takes no seed in reset", "reset must take seed and options by name") from error
    if isinstance(returned, tuple | list) and len(returned) == 2:
        return returned[0]
    raise Misfit(f"returned {line(returned)} from reset", "reset must return two values, an observation and a dict")


def _is_own(error: BaseException) -> bool:
    """Return whether an error comes from the call itself, not from within the function that was called."""
    return error.__traceback__ is not None and error.__traceback__.tb_next is None


def is_unpacking(error: BaseException) -> bool:
    """Return whether an error comes from unpacking what `step` returned, not from the step; costs steps nothing."""
    return isinstance(error, TypeError | ValueError) and "unpack" in str(error) and _is_own(error)


def not_five(error: BaseException) -> Misfit:
    """Return the fault of a step that did not return five values."""
    counted = re.search(r"got (\d+)", str(error))
    few = "no tuple" if isinstance(error, TypeError) else "more than five values"
    must = "step must return five values, observation, reward, terminated, truncated and a dict, not four as in old Gym"
    return Misfit(f"returned {f'{counted[1]} values' if counted else few} from step", must)


def draw_seed(random: np.random.Generator) -> int:
    """Draw a seed for an environment."""
    return int(random.integers(_SEEDS))


def find_generator(inside: Any) -> np.random.Generator | None:
    """Return the generator behind an environment's `np_random`, without its wrappers, if JSON can hold its state."""
    random = getattr(inside, "_np_random", None)
    fits = isinstance(random, np.random.Generator) and isinstance(random.bit_generator, np.random.PCG64)
    return random if fits else None


def seed_of_state(state: Mapping[str, Any]) -> int:
    """Return a seed that differs for every state of a generator."""
    return zlib.crc32(repr(sorted(state["state"].items())).encode()) % _SEEDS
