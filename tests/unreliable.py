"""A plain Python environment that may raise, hang, exit the interpreter, or show what is no number.

Only runs in worker processes can survive all of it.  `how` says what goes wrong, `when` for which seeds: the last bit
of the first seed that the environment is given, or always.  With `once`, the path of a file, it goes wrong until the
file has as many letters as `times`: it then behaves.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import gymnasium
import numpy as np


class Unreliable(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float64)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, how="well", always=False, once="", times=1, pause=0.0):
        self.how, self.always, self.once, self.times, self.pause = how, always, once, times, pause
        self.wrong = False

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.wrong = self.always or bool(seed & 1)
        self.state = self.np_random.random()
        self.steps = 0
        return np.array([self.state]), {}

    def step(self, action):
        print("a step")  # which must not disturb anybody
        time.sleep(self.pause)
        self.steps += 1
        reward = 1.0 - abs(self.state - action)
        if self.wrong and self._still():
            if self.how == "raises":
                raise RuntimeError("the pump broke")
            if self.how == "hangs":
                time.sleep(600)
            if self.how == "exits":
                os._exit(3)
            if self.how == "leaves":
                sys.exit(4)
            if self.how == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.how.startswith("forks"):
                started = os.fork()
                if not started:
                    time.sleep(600)
                with open(f"{self.once}.pids", "a") as file:
                    file.write(f"{started}\n")
                if self.how.endswith("exits"):
                    os._exit(3)
                time.sleep(600)
            if self.how == "nan":
                reward = float("nan")
            if self.how == "memory":
                raise MemoryError
        self.state = self.np_random.random()
        return np.array([self.state]), reward, False, self.steps >= 5, {}

    def _still(self):
        if not self.once:
            return True
        seen = len(Path(self.once).read_text()) if Path(self.once).exists() else 0
        if seen < self.times:
            with open(self.once, "a") as file:
                file.write(".")
        return seen < self.times


gymnasium.register("Unreliable-v0", "unreliable:Unreliable", max_episode_steps=5)
