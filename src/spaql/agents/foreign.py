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

import inspect
import time
from collections.abc import Callable
from typing import Any, ClassVar, Self

import gymnasium
import numpy as np
from gymnasium.vector.utils import batch_space, iterate
from numpy.typing import ArrayLike

from spaql.agents.base import UNLIMITED, Agent
from spaql.agents.callbacks import Watch
from spaql.agents.rollouts import FINISHED, ROW, TRAINING
from spaql.errors import EnvironmentFault, NotTrainedError, ParameterError
from spaql.gym.environments import open_environment
from spaql.gym.problem import OPTIONS
from spaql.partition.rng import Purpose
from spaql.partition.spaces import Floats
from spaql.problems.base import Playable

_ENVIRONMENT_NAMES = ("env", "environment", "problem")
_CALLBACK_SECONDS = 0.1


class _Stopped(Exception):
    """A callback stopped learning."""


class ForeignAgent(Agent):
    """An object with `learn` and `predict` as an agent; `wrap` makes a subclass for each foreign class."""

    plays_middle = True
    _unused = ("selection_steps",)
    _row = np.dtype([(name, ROW[name]) for name in ("score", "best", "training_steps", "selection_steps")])
    cls: ClassVar[type[Any]]  #: the foreign class
    name: ClassVar[str]  #: its name in the registry
    _keywords: ClassVar[dict[str, inspect.Parameter]]  # of its constructor, without the environment
    _environment: ClassVar[str]  # the keyword that takes the environment
    _takes_any: ClassVar[bool]  # whether it takes any keyword

    def __init__(self, problem: Any, *, seed: int = 0, **parameters: Any) -> None:
        options = [name for name in OPTIONS if name in parameters and name not in self._keywords]
        super().__init__(problem, seed=seed, **{name: parameters.pop(name) for name in options})
        for name in parameters:
            if not self.accepts(name):
                raise ParameterError(f"{name}: {self.name} has no such parameter; it has {', '.join(self._keywords)}")
        self._parameters = parameters
        self._after_episode: Callable[[], None] | None = None
        self._env = _Counter(*open_environment(self.problem, self.seed, Purpose.TRAINING_ENVIRONMENT), self)
        seeded = {"seed": self.seed % 2**31} if "seed" in self._keywords else {}  # other libraries take no larger ones
        self.agent = self.cls(**{self._environment: self._env}, **seeded, **parameters)

    @classmethod
    def keywords(cls) -> dict[str, inspect.Parameter]:
        """Return the keywords of the foreign constructor without the environment, and the seed."""
        return cls._keywords | {"seed": inspect.Parameter("seed", inspect.Parameter.KEYWORD_ONLY, default=0)}

    @classmethod
    def accepts(cls, name: str) -> bool:
        """Return whether the foreign constructor takes a keyword, other than the environment."""
        return name in cls.keywords() or (cls._takes_any and name != cls._environment)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters of the foreign constructor, as given or by default, and the seed."""
        known = {name: each.default for name, each in self._keywords.items() if each.default is not each.empty}
        known.pop("seed", None)
        return {**known, **self._parameters, "seed": self.seed}

    def set_env(self, env: Any) -> Self:
        """Raise a ParameterError: the foreign class keeps the environment it was made with."""
        raise ParameterError(f"set_env: {self.cls.__name__} keeps the environment it was made with; make a new agent")

    def _count_planned(self, limit: int, steps: int) -> int:
        return min(limit * self.problem.horizon, steps)

    def _learn(self, limit: int, steps: int, watch: Watch, progress_bar: bool | None) -> None:
        """Let the foreign class learn; an iteration counts as one episode of full length.

        Callbacks are called after episodes.  One that stops learning does so by an exception through the foreign
        `learn`, which must not suppress it.
        """
        steps, before = self._count_planned(limit, steps), self.training_steps
        with self._make_bar(steps, "steps", progress_bar) as bar, watch.running():
            last = time.perf_counter()

            def after_episode() -> None:
                nonlocal last
                now = time.perf_counter()
                if now - last >= _CALLBACK_SECONDS or self.training_steps >= watch.pause(UNLIMITED, 0):
                    last = now
                    bar.update(self.training_steps - before - bar.n)
                    if not watch.call(self.training_steps):
                        raise _Stopped

            self._after_episode = after_episode
            try:
                self.agent.learn(total_timesteps=steps)
                watch.call(max(self.training_steps, before + steps))
            except _Stopped:
                pass
            finally:
                self._after_episode = None

    def _finish_episode(self, total: float) -> None:
        """Add a row to the history, and call the callbacks."""
        row = self._next_rows(1)
        row["score"] = row["best"] = total
        row["training_steps"] = self.training_steps
        self._counts[FINISHED] += 1
        if self._after_episode is not None:
            self._after_episode()

    def _check_reward(self, reward: Any) -> float:
        """Return a reward as a number; an EnvironmentFault where it is not finite."""
        if np.isfinite(number := float(reward)):
            return number
        what = f"environment {self.problem.name!r} gave {self.cls.__name__} the reward {number}"
        raise EnvironmentFault(f"{what}; rewards must be finite numbers")

    def _require_training(self) -> None:
        if not self.training_steps:  # it may have learned without finishing an episode
            raise NotTrainedError(f"{self.cls.__name__} has not learned yet; call learn(total_timesteps) first")

    def _returns(
        self, problem: Playable, episodes: int, seed: int, middle: bool, progress_bar: bool | None
    ) -> tuple[Floats, int]:
        env, first = open_environment(problem, seed, Purpose.EVALUATION_ENVIRONMENT)
        choose, returns, steps = self._chooser(middle), np.zeros(episodes), 0
        for episode in range(episodes):
            observation, over = env.reset(seed=None if episode else first)[0], False
            while not over:
                observation, reward, terminated, truncated, _ = env.step(choose(observation))
                returns[episode] += self._check_reward(reward)
                steps += 1
                over = terminated or truncated
        return returns, steps

    def _chooser(self, deterministic: bool) -> Callable[[Any], Any]:
        """Return a function from an observation to the action that the foreign class plays."""
        predict = self.agent.predict
        given = {"deterministic": deterministic} if "deterministic" in inspect.signature(predict).parameters else {}

        def choose(observation: Any) -> Any:
            action = predict(observation, **given)
            return action[0] if isinstance(action, tuple) and len(action) == 2 else action

        return choose

    def predict(
        self, observation: Any, state: Any = None, episode_start: ArrayLike | None = None, deterministic: bool = True
    ) -> tuple[Any, Any]:
        """Return the foreign action for one observation, or for each of many stacked along a first axis."""
        self._require_training()
        rows, single = self.problem.flatten(observation)
        choose = self._chooser(deterministic)
        if single:
            return choose(observation), None
        many = np.asarray(observation) if isinstance(observation, list) else observation
        space = batch_space(self._env.observation_space, len(rows))
        return np.array([choose(one) for one in iterate(space, many)]), None


def wrap(cls: type[Any], name: str) -> type[ForeignAgent]:
    """Return a foreign class as a class of agents; `name` is the one that files and studies write."""
    parameters = inspect.signature(cls).parameters.values()
    named = {each.name: each for each in parameters if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)}
    if not named:
        raise ParameterError(f"algorithm {cls.__qualname__}: its constructor must take the environment to learn on")
    environment = next((keyword for keyword in _ENVIRONMENT_NAMES if keyword in named), next(iter(named)))
    named.pop(environment)
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters)
    members = {"cls": cls, "name": name, "_keywords": named, "_environment": environment, "_takes_any": takes_any}
    return type(cls.__name__, (ForeignAgent,), {"__doc__": cls.__doc__, "__module__": __name__, **members})


class _Counter(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Tell the agent of each step and each finished episode; the first one begins with a seed."""

    def __init__(self, env: gymnasium.Env[Any, Any], seed: int | None, agent: ForeignAgent) -> None:
        super().__init__(env)
        self._first_seed, self._agent, self._total = seed, agent, 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        seed, self._first_seed, self._total = self._first_seed if seed is None else seed, None, 0.0
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = super().step(action)
        self._total += self._agent._check_reward(reward)
        self._agent._counts[TRAINING] += 1
        if terminated or truncated:
            self._agent._finish_episode(self._total)
        return observation, reward, terminated, truncated, info
