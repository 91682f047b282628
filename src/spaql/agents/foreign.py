"""Algorithms of the user's own, or of another library, as agents that are evaluated and compared like ours.

A foreign class needs two methods, and what it learns is its own affair:

    class MyAgent:
        def __init__(self, env, rate=0.1, seed=0): ...   # env is a gymnasium.Env; parameters have names
        def learn(self, total_timesteps): ...
        def predict(self, observation): ...              # an action, or (action, state) as in Stable-Baselines3

The environment goes to the parameter called `env`, `environment` or `problem`, else to the first one; `seed` is given
where the constructor has it.  A compiled problem is played as a `ProblemEnvironment`.  Every step that the class takes
in `env` is counted, and every episode that it finishes there is one iteration in `history`.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping
from typing import Any, Self

import gymnasium
import numpy as np
from numpy.typing import ArrayLike
from tqdm import tqdm

from spaql.agents import training
from spaql.agents.base import Agent
from spaql.agents.callbacks import Callbacks, Watch
from spaql.agents.history import ROW
from spaql.errors import NotTrainedError, ParameterError
from spaql.gym.environments import open_environment
from spaql.partition.jit import make_records
from spaql.partition.rng import Purpose
from spaql.partition.spaces import Floats
from spaql.problems.base import Playable
from spaql.validation import check_whole

_ENVIRONMENT_NAMES = ("env", "environment", "problem")
_CALLBACK_SECONDS = 0.1


class Signature:
    """What the constructor of a foreign class takes: `environment`, `seeded`, `parameters`, `takes_any`."""

    def __init__(self, cls: type[Any]) -> None:
        keywords = dict(inspect.signature(cls).parameters)
        named = {
            name: each for name, each in keywords.items() if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
        }
        if not named:
            raise ParameterError(f"algorithm {cls.__qualname__}: its constructor must take the environment to learn on")
        self.environment = next((name for name in _ENVIRONMENT_NAMES if name in named), next(iter(named)))
        self.seeded = "seed" in named
        self.takes_any = any(each.kind is each.VAR_KEYWORD for each in keywords.values())
        self.parameters = {name: each for name, each in named.items() if name not in ("seed", self.environment)}


class _Stopped(Exception):
    """A callback stopped learning."""


class ForeignAgent(Agent):
    """An object with `learn` and `predict` as an agent; `spaql.agents.registry.resolve` makes these.

    Parameters
    ----------
    problem, seed
        As for every agent.
    cls, name
        The foreign class, and "module:Class".
    parameters
        Keywords of its constructor.
    """

    plays_middle = True

    def __init__(
        self,
        problem: Any,
        *,
        cls: type[Any],
        name: str,
        parameters: Mapping[str, Any],
        seed: int = 0,
        **environment: Any,
    ) -> None:
        super().__init__(problem, seed=seed, **environment)
        self.name, self.cls, self._parameters = name, cls, dict(parameters)
        self._signature = Signature(cls)
        self._steps_taken = 0
        self._after_episode: Callable[[], None] | None = None
        given = dict(parameters)
        given[self._signature.environment] = _Counter(
            open_environment(self.problem, self.seed, Purpose.TRAINING_ENVIRONMENT), self
        )
        if self._signature.seeded:
            given["seed"] = self.seed % 2**31  # other libraries take no larger ones
        self.agent = cls(**given)

    def __repr__(self) -> str:
        parameters = "".join(f", {name}={value!r}" for name, value in self.get_params().items())
        return f"{self.cls.__name__}({self.problem.name!r}{parameters})"

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters of the foreign constructor, as given or by default, and the seed."""
        defaults = {
            name: parameter.default
            for name, parameter in self._signature.parameters.items()
            if parameter.default is not parameter.empty
        }
        return {**defaults, **self._parameters, "seed": self.seed}

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters of an agent that has not learned yet; it is made anew."""
        known = [*self._signature.parameters, "seed"]
        for name in parameters:
            if name not in known and (not self._signature.takes_any or name == self._signature.environment):
                raise ParameterError(f"set_params: {name!r} is not one of {', '.join(known)}")
        if self._steps_taken:
            raise ParameterError(f"set_params: {self.cls.__name__} has learned already; make a new agent instead")
        changed = {**self._parameters, "seed": self.seed, **parameters}
        problem, environment = self._source.problem, self._source.environment
        how = {"cls": self.cls, "name": self.name, "seed": changed.pop("seed"), "parameters": changed}
        self.__init__(problem, **how, **environment)  # type: ignore[misc]
        return self

    def set_env(self, env: Any) -> Self:
        """Raise a ParameterError: the foreign class keeps the environment it was made with."""
        raise ParameterError(
            f"set_env: {self.cls.__name__} keeps the environment it was made with; make a new agent on the other one"
        )

    @property
    def can_save(self) -> bool:
        """Whether `save` can write it: never, as only the foreign class knows what it has learned."""
        return False

    # Learning -------------------------------------------------------------------------------------------------

    @property
    def training_steps(self) -> int:
        """Environment steps that the foreign class has taken."""
        return self._steps_taken

    def _planned(self, iterations: int | None, total_timesteps: int | None) -> int:
        if (iterations is None) == (total_timesteps is None):
            raise ParameterError("learn: give either iterations or total_timesteps")
        if total_timesteps is not None:
            return check_whole(total_timesteps, "total_timesteps", 1, training.MOST_STEPS)
        return check_whole(iterations, "iterations", 1) * self.problem.horizon

    def _learn(
        self, total_timesteps: int | None, iterations: int | None, callback: Callbacks | None, progress_bar: bool | None
    ) -> None:
        """Let the foreign class learn; an iteration counts as one episode of full length.

        Callbacks are called after episodes.  One that stops learning does so by an exception through the foreign
        `learn`, which must not suppress it.
        """
        steps = self._planned(iterations, total_timesteps)
        bar = tqdm(
            total=steps,
            unit="steps",
            desc=f"{self.cls.__name__} on {self.problem.name}",
            disable=not training.is_progress_shown(progress_bar),
            delay=0.5,
            unit_scale=True,
        )
        with bar, Watch(callback, self) as watch:
            last = time.perf_counter()

            def after_episode() -> None:
                nonlocal last
                now = time.perf_counter()
                if now - last >= _CALLBACK_SECONDS or self._steps_taken >= watch.pause(training.UNLIMITED, 0):
                    last = now
                    bar.update(self._steps_taken - before - bar.n)
                    if not watch.call(self._steps_taken):
                        raise _Stopped

            before, self._after_episode = self._steps_taken, after_episode
            try:
                self.agent.learn(total_timesteps=steps)
                watch.call(max(self._steps_taken, before + steps))
            except _Stopped:
                pass
            finally:
                self._after_episode = None

    def _finish_episode(self, total: float) -> None:
        """Add a row to the history, and call the callbacks."""
        row = make_records(1, ROW)
        row["score"] = row["best"] = total
        row["training_steps"] = self._steps_taken
        self._history.append(row)
        if self._after_episode is not None:
            self._after_episode()

    # Evaluation and prediction --------------------------------------------------------------------------------

    def _require_training(self) -> None:
        if not self._steps_taken:
            raise NotTrainedError(f"{self.cls.__name__} has not learned yet; call learn(total_timesteps) first")

    def _returns(
        self, problem: Playable, episodes: int, seed: int, middle: bool, progress_bar: bool | None
    ) -> tuple[Floats, int]:
        env = open_environment(problem, seed, Purpose.EVALUATION_ENVIRONMENT)
        choose, returns, steps = self._chooser(middle), np.zeros(episodes), 0
        for episode in range(episodes):
            observation, _ = env.reset()
            over = False
            while not over:
                observation, reward, terminated, truncated, _ = env.step(choose(observation))
                returns[episode] += float(reward)
                steps += 1
                over = terminated or truncated
        return returns, steps

    def _chooser(self, deterministic: bool) -> Callable[[Any], Any]:
        """Return a function from an observation to the action that the foreign class plays."""
        predict = self.agent.predict
        takes_choice = "deterministic" in inspect.signature(predict).parameters
        given = {"deterministic": deterministic} if takes_choice else {}

        def choose(observation: Any) -> Any:
            action = predict(observation, **given)
            return action[0] if isinstance(action, tuple) and len(action) == 2 else action

        return choose

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: ArrayLike | None = None,
        deterministic: bool = True,
    ) -> tuple[Any, Any]:
        """Return the foreign action for one observation, or for each of many stacked along a first axis."""
        self._require_training()
        rows, single = self.problem.flatten(observation)
        choose = self._chooser(deterministic)
        if single:
            return choose(observation), None
        return np.array([choose(_row(observation, at)) for at in range(len(rows))]), None


class _Counter(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Tell the agent of each step and each finished episode."""

    def __init__(self, env: gymnasium.Env[Any, Any], agent: ForeignAgent) -> None:
        super().__init__(env)
        self._agent, self._total = agent, 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._total = 0.0
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = super().step(action)
        self._total += float(reward)
        self._agent._steps_taken += 1
        if terminated or truncated:
            self._agent._finish_episode(self._total)
        return observation, reward, terminated, truncated, info


def _row(observation: Any, at: int) -> Any:
    """One observation of a batch whose parts are stacked along their first axes."""
    if isinstance(observation, Mapping):
        return {name: _row(part, at) for name, part in observation.items()}
    if isinstance(observation, tuple):
        return tuple(_row(part, at) for part in observation)
    return np.asarray(observation)[at]
