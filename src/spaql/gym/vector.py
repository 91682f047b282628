"""Vector environments of Stable-Baselines3 and Gymnasium: in, to learn on, and out, as `agent.get_env()`.

An agent plays one episode after another, so a vector environment is played one member at a time: the first episode in
the first member, the next in the second, and so on.  Members of a `DummyVecEnv` or `SubprocVecEnv` are played where
they are, through `env_method`; those of Gymnasium's vectors are made again from `env_fns`, as an `AsyncVectorEnv` lets
nobody step one of its environments alone.  A wrapper around the vector is not played, so one that changes
observations, rewards or episodes is refused.

Stable-Baselines3 is never imported here; where the user has imported it, its own `DummyVecEnv` is what goes out.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Self

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv, VectorWrapper
from gymnasium.vector.utils import concatenate, create_empty_array

from spaql.errors import ParameterError

_RECORDERS = ("VecMonitor", "VecCheckNan", "RecordEpisodeStatistics")  # wrappers that change nothing


def is_vector(given: Any) -> bool:
    """Return whether something is a vector environment, of Gymnasium or with the methods of Stable-Baselines3."""
    if isinstance(given, VectorEnv):
        return True
    return not isinstance(given, type) and hasattr(given, "num_envs") and hasattr(given, "env_method")


class SequentialEnvironment(gymnasium.Env[Any, Any]):
    """A vector environment as a single one that plays its members in turn, an episode each.

    A seed in `reset` is that of the member in turn; those after it have the following seeds in their next episodes.
    """

    def __init__(self, vector: Any) -> None:
        inner = _unwrap(vector)
        self.vector, self._remote, self._made = vector, False, isinstance(inner, VectorEnv)
        if self._made:
            self.observation_space, self.action_space = inner.single_observation_space, inner.single_action_space
            self.members = [make() for make in inner.env_fns]
        else:
            self.observation_space, self.action_space = inner.observation_space, inner.action_space
            self._remote = not hasattr(inner, "envs")
            self.members = [_Member(inner, at) for at in range(inner.num_envs)] if self._remote else list(inner.envs)
        self.render_mode = getattr(vector, "render_mode", None)
        specs = [None if self._remote else member.spec for member in self.members]
        self.spec = specs[0] if all(spec == specs[0] for spec in specs) else None
        self._turn, self._seeds = -1, dict[int, int]()

    @property
    def limits(self) -> list[int | None]:
        """The steps after which members in other processes truncate their episodes; empty for others."""
        return [member.limit for member in self.members] if self._remote else []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode in the next member."""
        count = len(self.members)
        self._turn = (self._turn + 1) % count
        if seed is not None:
            self._seeds = {(self._turn + at) % count: seed + at for at in range(count)}
        given = {"seed": self._seeds.pop(self._turn, None), "options": options}
        begun: tuple[Any, dict[str, Any]]
        begun = self.members[self._turn].reset(**{name: value for name, value in given.items() if value is not None})
        return begun

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Play an action in the member whose episode is under way."""
        played: tuple[Any, Any, bool, bool, dict[str, Any]] = self.members[self._turn].step(action)
        return played

    def render(self) -> Any:
        """Render the member whose episode is under way."""
        return self.members[max(0, self._turn)].render()

    def close(self) -> None:
        """Close the members that were made here; others belong to the vector environment."""
        for member in self.members if self._made else ():
            member.close()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copy it with its members; those in other processes are shared, as every episode begins with a reset."""
        memo[id(self)] = other = copy.copy(self)
        if self._made:
            return type(self)(self.vector)
        if not self._remote:
            with suppress(Exception):  # whatever an environment holds that cannot be copied
                return type(self)(copy.deepcopy(self.vector, memo))
        return other


class _Member:
    """One environment of a vector of Stable-Baselines3, in another process."""

    def __init__(self, vector: Any, at: int) -> None:
        self._vector, self._at = vector, [at]

    @property
    def limit(self) -> int | None:
        """That of its TimeLimit wrapper; looked for first, as an error ends its process."""
        name = "_max_episode_steps"
        return self._vector.get_attr(name, self._at)[0] if self._vector.has_attr(name) else None

    def reset(self, **given: Any) -> Any:
        return self._vector.env_method("reset", indices=self._at, **given)[0]

    def step(self, action: Any) -> Any:
        return self._vector.env_method("step", action, indices=self._at)[0]

    def render(self) -> Any:
        return self._vector.env_method("render", indices=self._at)[0]


def _unwrap(vector: Any) -> Any:
    """Return the vector environment inside its wrappers; a `ParameterError` where one of them cannot be left out."""
    name = type(vector).__name__
    inside = vector.env if isinstance(vector, VectorWrapper) else vars(vector).get("venv")
    if inside is None:
        if isinstance(vector, VectorEnv) and not hasattr(vector, "env_fns"):
            raise ParameterError(
                f"environment: {name} steps all its environments at once, and an agent plays one; give a function that "
                'makes a single one, or gymnasium.make_vec(..., vectorization_mode="sync")'
            )
        return vector
    if name not in _RECORDERS:
        raise ParameterError(
            f"environment: {name} changes what a vector environment shows or rewards, and members are played without "
            "it; give the vector inside it (an agent scales observations itself), or wrap each member"
        )
    return _unwrap(inside)


class SingleVectorEnvironment:
    """One environment with the interface of a vector of Stable-Baselines3: what `get_env` returns without that."""

    num_envs = 1

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        self.envs = [env]
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self.render_mode = env.render_mode
        self.reset_infos: list[dict[str, Any]] = [{}]
        self._seed: int | None = None

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Set the seed of the next reset."""
        self._seed = seed
        return [seed]

    def reset(self) -> Any:
        """Begin an episode; return its first observation in a batch of one."""
        seed, self._seed = self._seed, None
        observation, self.reset_infos[0] = self.envs[0].reset(seed=seed)
        return self._stack(observation)

    def step(self, actions: Any) -> tuple[Any, Any, Any, list[dict[str, Any]]]:
        """Play a batch of one action; an episode that ends is followed by the next, as in Stable-Baselines3."""
        observation, reward, terminated, truncated, info = self.envs[0].step(actions[0])
        info = {**info, "TimeLimit.truncated": bool(truncated and not terminated)}
        if done := bool(terminated or truncated):
            info["terminal_observation"] = observation
            observation, self.reset_infos[0] = self.envs[0].reset()
        return self._stack(observation), np.array([reward], np.float32), np.array([done]), [info]

    def _stack(self, observation: Any) -> Any:
        batch: Any = create_empty_array(self.observation_space, 1)
        return concatenate(self.observation_space, [observation], batch)

    def render(self, mode: str | None = None) -> Any:
        """Render the environment, in the mode it was made with."""
        return self.envs[0].render()

    def close(self) -> None:
        """Close the environment."""
        self.envs[0].close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return an attribute of the environment, in a list."""
        return [self.envs[0].get_wrapper_attr(attr_name)]

    def has_attr(self, attr_name: str) -> bool:
        """Return whether the environment has an attribute."""
        return bool(self.envs[0].has_wrapper_attr(attr_name))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Set an attribute of the environment."""
        self.envs[0].set_wrapper_attr(attr_name, value)

    def env_method(self, method_name: str, *arguments: Any, indices: Any = None, **keywords: Any) -> list[Any]:
        """Call a method of the environment; return what it returned, in a list."""
        method: Callable[..., Any] = self.envs[0].get_wrapper_attr(method_name)
        return [method(*arguments, **keywords)]


def to_vector(env: gymnasium.Env[Any, Any]) -> Any:
    """Return an environment as Stable-Baselines3 shows it: its own that the user gave, or a vector of this one."""
    if isinstance(env, SequentialEnvironment) and not env._made:
        return env.vector
    if (theirs := sys.modules.get("stable_baselines3.common.vec_env")) is not None:
        return theirs.DummyVecEnv([lambda: env])
    return SingleVectorEnvironment(env)
