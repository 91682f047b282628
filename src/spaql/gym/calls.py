"""Calls of Gymnasium environments: find, make and reset them, check what they return; errors are one sentence."""

import re
import zlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from spaql.errors import ParameterError
from spaql.gym.encoding import Misfit
from spaql.gym.vector import SequentialEnvironment, is_vector
from spaql.problems import PROBLEMS
from spaql.problems.base import Playable
from spaql.validation import import_module, show

_SEEDS = 2**31  # some environments take no larger seeds


class Found(NamedTuple):
    """A problem or environment, how to make another one, and the module that registers its id, where one is named."""

    made: Any
    make: Callable[[], Any] | None = None
    module: str = ""


def call_maker(make: Callable[[], Any]) -> Any:
    """Call a function that makes an environment or problem, or say in one sentence why that is impossible."""
    name = make.args[0] if isinstance(make, partial) and make.func is gymnasium.make else None
    keywords = make.keywords if isinstance(make, partial) else {}
    try:
        made = make()
    except (gymnasium.error.Error, ModuleNotFoundError) as error:
        if name is None:
            raise
        reason = str(error).strip().splitlines()[0]
        raise ParameterError(f"environment: {name!r} cannot be made: {reason}") from error
    except TypeError as error:
        foreign = name is not None and "raised from the environment creator" in str(error)
        if keywords and (_is_own(error) or (foreign and "argument" in str(error))):
            reason = str(error).partition(" was raised from")[0]
            raise ParameterError(f"env_kwargs: {reason}; give arguments that it takes") from error
        if not _is_own(error):
            raise
        raise ParameterError(
            f"environment: {show(make)} needs arguments; give a function that needs none, such as lambda: make(...)"
        ) from error
    if isinstance(made, gymnasium.Env | Playable):
        return made
    if is_vector(made):
        return SequentialEnvironment(made)
    raise ParameterError(f"environment: {show(make)} made {show(made)}, not a gymnasium.Env")


def find_problem(problem: Any, env_kwargs: Mapping[str, Any] | None = None) -> Found:
    """Return whatever a user may call a problem as a problem or an environment, made with these keywords."""
    module, arguments = "", {} if env_kwargs is None else env_kwargs
    if not isinstance(arguments, Mapping) or not all(isinstance(name, str) for name in arguments):
        raise ParameterError(
            f"env_kwargs: expected a mapping from names of arguments to values, got {show(env_kwargs)}"
        )
    if isinstance(problem, Found):
        return problem
    if isinstance(problem, str):
        if problem in PROBLEMS:
            return Found(PROBLEMS[problem](**arguments))
        if problem.isidentifier() and problem not in {spec.name for spec in gymnasium.registry.values()}:
            raise ParameterError(
                f"problem: {problem!r} is neither one of {', '.join(PROBLEMS)} nor the name of a Gymnasium environment"
            )
        function = import_function(problem)
        module = problem.rpartition(":")[0] if function is None else ""
        problem = partial(gymnasium.make, problem) if function is None else function
    elif isinstance(problem, Playable | gymnasium.Env) or is_vector(problem):
        if arguments:
            left = next(iter(arguments))
            raise ParameterError(f"env_kwargs: {show(problem)} has been made already; leave {left} out")
        if not is_vector(problem):
            return Found(problem)
        makes = isinstance(problem, gymnasium.vector.VectorEnv)  # from its functions, each time
        made = SequentialEnvironment(problem)
        return Found(made, partial(SequentialEnvironment, problem) if makes else None)
    elif not callable(problem):
        raise ParameterError(
            "problem: expected a spaql Problem or the name of one, a Gymnasium id, a gymnasium.Env or a function that "
            f"makes one, got {show(problem)}"
        )
    make = partial(problem, **arguments) if arguments else problem
    made = call_maker(make)
    return Found(made, partial(call_maker, make) if isinstance(made, SequentialEnvironment) else make, module)


def import_function(name: str) -> Any:
    """Return the function of a name "module:function", or None where the module only registers an environment."""
    module, _, attribute = name.rpartition(":")
    if not module:
        return None
    function = getattr(import_module(module, f"problem {name!r}"), attribute, None)
    if function is None and attribute.isidentifier() and attribute not in gymnasium.registry:
        raise ParameterError(f"problem {name!r}: the module has no function {attribute!r} and registers no such id")
    if function is not None and not callable(function):
        raise ParameterError(f"problem {name!r}: expected a function or class, got a {type(function).__name__}")
    return function


def find_environment(environment: Any, env_kwargs: Mapping[str, Any] | None = None) -> Found:
    """Return an environment; see `find_problem`."""
    if isinstance(environment, str | gymnasium.Env | Found) or is_vector(environment) or callable(environment):
        found = find_problem(environment, env_kwargs)
        if isinstance(found.made, gymnasium.Env):
            return found
    raise ParameterError(
        "environment: expected a Gymnasium id, a gymnasium.Env, a function that makes one, or "
        f'"module:function", got {show(environment)}'
    )


class Described(gymnasium.Env[Any, Any]):
    """Stands for an environment that a file describes, until it is made."""

    def __init__(self, name: str, observation_space: Any, action_space: Any) -> None:
        self.name, self.observation_space, self.action_space = name, observation_space, action_space


def name_env(env: Any) -> str:
    """Return the id of an environment, or the name of its class."""
    if isinstance(env, Described):
        return env.name
    if isinstance(env, SequentialEnvironment) and env.spec is None:
        return type(env.vector).__name__
    return str(env.spec.id) if env.spec is not None else type(env.unwrapped).__name__


def get_spaces(env: Any) -> tuple[Any, Any]:
    """Return the observation space and the action space of an environment."""
    try:
        return env.observation_space, env.action_space
    except AttributeError as error:
        if (name := error.name) not in ("observation_space", "action_space"):  # a fault of its own code
            raise
        raise ParameterError(
            f"environment: {name_env(env)!r} has no {name}; set self.{name} to one of gymnasium.spaces in its __init__"
        ) from error


def unwrap(env: Any) -> list[Any]:
    """Return the wrappers of an environment, the outermost first, and last the environment inside.

    Those of a vector environment are those of its first member, where that is in this process.
    """
    if isinstance(env, SequentialEnvironment) and not env.limits:
        env = env.members[0]
    return [env, *unwrap(env.env)] if isinstance(env, gymnasium.Wrapper) else [env]


def find_limit(env: Any) -> int | None:
    """Return the steps after which an environment itself truncates an episode, or None."""
    layers = unwrap(env)
    limits = [] if env.spec is None else [env.spec.max_episode_steps]
    limits += env.limits if isinstance(env, SequentialEnvironment) else []
    limits += [layer._max_episode_steps for layer in layers if isinstance(layer, gymnasium.wrappers.TimeLimit)]
    if isinstance(inside := getattr(layers[-1], "problem", None), Playable):  # of a `ProblemEnvironment`
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
    raise Misfit(f"returned {show(returned)} from reset", "reset must return two values, an observation and a dict")


def _is_own(error: BaseException) -> bool:
    """Return whether an error comes from the call itself, not from within the function that was called."""
    return error.__traceback__ is not None and error.__traceback__.tb_next is None


def to_misfit(error: BaseException) -> BaseException:
    """Return the `Misfit` of an error from reading what `step` returned; other errors as they are."""
    if not isinstance(error, TypeError | ValueError) or not _is_own(error):
        return error
    if "truth value" in str(error):
        did, must = "returned an array as terminated or truncated from step", "each must be one bool"
        return Misfit(did, f"terminated and truncated are about one episode: {must}")
    if "unpack" not in str(error):
        return error
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
