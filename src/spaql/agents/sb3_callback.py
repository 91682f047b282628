"""Callbacks of Stable-Baselines3 in `learn`: an object with `init_callback` and `on_step` as one of ours.

An iteration is learned as a whole, and then `on_step` is called once for each of its environment steps, with
`num_timesteps` as it was at that step; what the callback evaluates or saves is the agent after the iteration.  False
stops learning there.  A rollout of Stable-Baselines3 is an iteration here.  Stable-Baselines3 is not imported.
"""

from typing import Any

import numpy as np

from spaql.agents.callbacks import Callback


class _Model:
    """An agent as a callback of Stable-Baselines3 sees it: at the step that the callback is called for."""

    def __init__(self, agent: Any) -> None:
        self.agent, self.num_timesteps, self._env = agent, agent.num_timesteps, agent.get_env()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.agent, name)

    def get_env(self) -> Any:
        """Return the environment that learning began with, the same every time."""
        return self._env

    def get_vec_normalize_env(self) -> None:
        """Return None: nothing is normalised by the environment."""


class SB3Callback(Callback):
    """A callback of Stable-Baselines3, called after every iteration; `total` is the last step of `learn`."""

    def __init__(self, callback: Any, total: int) -> None:
        self._callback, self._total, self._reached = callback, total, 0
        self._locals: dict[str, Any] = {}

    def begin(self, agent: Any) -> None:
        """Give it the agent, and tell it that training and the first rollout start."""
        self._model, self._reached = _Model(agent), agent.num_timesteps
        self._locals = {"self": self._model, "total_timesteps": self._total, "dones": np.zeros(1, np.bool_)}
        self._callback.init_callback(self._model)
        self._callback.on_training_start(self._locals, {})
        self._callback.on_rollout_start()

    def due(self, agent: Any) -> int:
        """Return the next step, so that it is called after every iteration."""
        return int(agent.num_timesteps) + 1

    def call(self, agent: Any) -> bool:
        """Call `on_step` for each step of the iteration until it returns False; return whether to go on."""
        first, self._reached = self._reached + 1, agent.num_timesteps
        for step in range(first, self._reached + 1):
            self._model.num_timesteps = step
            self._locals["dones"] = np.array([step == self._reached])
            self._callback.update_locals(self._locals)
            if not self._callback.on_step():
                return False
        self._callback.on_rollout_end()
        self._callback.on_rollout_start()
        return True

    def end(self, agent: Any) -> None:
        """Tell it that training is over."""
        self._callback.on_training_end()
