"""Agents, callbacks and loggers that the tests of both share."""

import math

from problems_for_tests import box_world
from spaql.agents import AQL, SPAQL, SPAQLTS, Tessera
from spaql.agents.callbacks import Callback
from spaql.agents.loggers import Logger
from spaql.problems import oil

# of a log, by algorithm: those of `agent.progress`, and the clock
_CLOCK = ["steps_per_second", "seconds"]
_FIRST = ["iteration", "timesteps", "training_return"]
_CELLS = ["value_low", "value_high", "cells", "splits"]
COLUMNS = {
    "Tessera": [*_FIRST, "cells", *_CLOCK, "planning_seconds"],
    "SPAQL": [*_FIRST, "score", "best", "selection_steps", "temperature", "heat", *_CELLS, "resets", *_CLOCK],
    "AQL": [*_FIRST, "score", "monitoring_steps", *_CELLS, *_CLOCK],
}

BOUNDS = {1: (-3, 3), 3: (-3.5, 3.5)}


def cartpole(**parameters):
    return Tessera("CartPole-v1", seed=3, bounds=BOUNDS, **parameters)


AGENTS = {
    "Tessera": lambda: Tessera(oil(survey="laplace", sharpness=10.0), seed=1),
    # plans fall due while the buffer is full
    "Tessera, small buffer": lambda: Tessera(oil(survey="laplace", sharpness=10.0), seed=1, buffer_size=40),
    "Tessera, early ends": lambda: Tessera(box_world()[0], seed=1),
    "published": lambda: SPAQL(oil(), seed=1, rollouts=2),
    "published, early ends": lambda: SPAQL(box_world()[0], seed=1, rollouts=2),
    "SPAQL-TS": lambda: SPAQLTS(oil(), seed=1, rollouts=2, reference=[0.5], radius=0.5),
    "AQL": lambda: AQL(oil(), seed=1, rollouts=2),
    "CartPole": cartpole,
}


class Recorder(Callback):
    """Notes what happens to it; called every so many steps, or after every chunk."""

    def __init__(self, every=None, stop_at=math.inf, error=None):
        self.every, self.stop_at, self.error, self.seen, self.steps = every, stop_at, error, [], []

    def begin(self, agent):
        self.seen.append("begin")

    def due(self, agent):
        return None if self.every is None else (agent.num_timesteps // self.every + 1) * self.every

    def call(self, agent):
        self.seen.append("call")
        self.steps.append(agent.num_timesteps)
        if self.error is not None:
            raise self.error
        return agent.num_timesteps < self.stop_at

    def end(self, agent):
        self.seen.append("end")


class Kept(Logger):
    """Keeps rows in memory."""

    def __init__(self):
        self.rows, self.batches, self.opened, self.columns = [], 0, 0, []

    def open(self, columns):
        self.columns = list(columns)
        self.opened += 1

    def write(self, rows):
        assert self.opened == 1
        self.rows += rows
        self.batches += 1

    def close(self):
        self.opened = 0


def told(error, words):
    """One sentence in one line that says what it should."""
    text = str(error.value)
    assert "\n" not in text
    assert words in text
