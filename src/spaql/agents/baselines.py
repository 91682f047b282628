"""Agents that do not learn: uniform random actions, and the heuristics of the ambulance problem."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from spaql.agents.base import Agent
from spaql.agents.callbacks import Callbacks, Watch
from spaql.agents.registry import register
from spaql.agents.rollouts import evaluate_baseline
from spaql.partition.rng import Stream
from spaql.partition.spaces import Discrete, Floats
from spaql.problems.ambulance import HEURISTICS, LinearPolicy
from spaql.problems.base import Frame, Playable, World
from spaql.validation import check_whole


class Baseline(Agent):
    """An agent with nothing to learn."""

    learns = False
    _evaluation_kernel = "evaluation of baselines"

    def _learn(
        self, total_timesteps: int | None, iterations: int | None, callback: Callbacks | None, progress_bar: bool | None
    ) -> None:
        """Check the arguments, begin and end the callbacks, and learn nothing."""
        for name, value in (("iterations", iterations), ("total_timesteps", total_timesteps)):
            if value is not None:
                check_whole(value, name, 1)
        with Watch(callback, self):
            pass


@register("random", label="Random", colour="#7F7F7F")
class Random(Baseline):
    """Uniform random actions over the whole action space, in `predict` too."""

    def _play(
        self, world: World, frame: Frame, count: int, deterministic: bool, agent: Stream, world_random: Stream
    ) -> tuple[int, int]:
        choices = self.problem.actions.count if isinstance(self.problem.actions, Discrete) else 0
        where = world, frame, self.problem.horizon
        return evaluate_baseline(True, choices, 0.0, 0.0, *where, count, agent, world_random)

    def _act(self, points: Floats, steps: NDArray[np.int64], deterministic: bool) -> Floats:
        draws = self._prediction.random((len(points), self.problem.actions.dimensions))
        if isinstance(self.problem.actions, Discrete):
            return np.floor(draws * self.problem.actions.count)
        return self.problem.actions.from_unit(draws)


class Heuristic(Baseline):
    """A linear policy that is known beforehand; see `spaql.problems.ambulance.HEURISTICS`."""

    make_policy: ClassVar[Callable[[Playable], LinearPolicy]]

    def __init__(self, problem: Any, *, seed: int = 0, **environment: Any) -> None:
        super().__init__(problem, seed=seed, **environment)
        self.policy = type(self).make_policy(self.problem)

    def _play(
        self, world: World, frame: Frame, count: int, deterministic: bool, agent: Stream, world_random: Stream
    ) -> tuple[int, int]:
        line, where = self.policy, (world, frame, self.problem.horizon)
        return evaluate_baseline(False, 0, line.offset, line.slope, *where, count, agent, world_random)

    def _act(self, points: Floats, steps: NDArray[np.int64], deterministic: bool) -> Floats:
        return self.problem.actions.from_unit(self.policy.predict(points))


for _name, _make in HEURISTICS.items():
    _methods = {"__doc__": _make.__doc__, "__module__": __name__, "make_policy": staticmethod(_make)}
    _class = type(_name.title().replace("-", ""), (Heuristic,), _methods)
    register(_name, label=_name.replace("-", " ").capitalize())(_class)
