"""Agents that do not learn: uniform random actions, and the paper's heuristics for the ambulance.

Of the two heuristics of Sinclair et al., "no movement" (a = x) is optimal where only relocating costs (c = 1).  Where
only the drive to the call costs (c = 0), the *median* of the arrivals is optimal, not the mean that the paper names:
the median minimises E|X - a|.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from spaql.agents.base import Agent, empty_cells
from spaql.agents.callbacks import Callbacks, Watch
from spaql.agents.registry import register
from spaql.agents.rollouts import evaluate_baseline
from spaql.errors import ParameterError
from spaql.partition.partition import Cells
from spaql.partition.rng import Stream
from spaql.partition.spaces import Box, Discrete, Floats
from spaql.problems.base import Frame, World
from spaql.problems.model import BetaArrivals
from spaql.validation import check_whole

if TYPE_CHECKING:
    from spaql.partition.tree import Tree


class Baseline(Agent):
    """An agent with nothing to learn."""

    learns = False
    _evaluation_kernel = "evaluation of baselines"

    def learn(
        self,
        total_timesteps: int | None = None,
        *,
        iterations: int | None = None,
        callback: Callbacks | None = None,
        progress_bar: bool | None = None,
    ) -> Self:
        """Nothing to learn; checks its arguments like any agent, begins and ends callbacks, and returns itself."""
        for name, value in (("iterations", iterations), ("total_timesteps", total_timesteps)):
            if value is not None:
                check_whole(value, name, 1)
        with Watch(callback, self):
            return self

    def cells(self) -> Cells:
        """Return no cells."""
        return empty_cells(self.problem)

    def tree(self) -> Tree:
        """There is none."""
        raise ParameterError(f"tree: {type(self).__name__} has no partition to read; SPAQL and AQL do")


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


class Line(Baseline):
    """The policy a = offset + slope * x in unit coordinates."""

    offset = 0.0
    slope = 0.0

    def __init__(self, problem: Any, *, seed: int = 0, **environment: Any) -> None:
        super().__init__(problem, seed=seed, **environment)
        self.offset, self.slope = self._coefficients()

    def _coefficients(self) -> tuple[float, float]:
        raise NotImplementedError

    def _arrivals(self) -> BetaArrivals:
        """The law of the arrivals."""
        model = self.problem.model
        if model is None or model.arrivals is None:
            name = type(self).__name__
            raise ParameterError(f"{name}: {self.problem.name!r} has no arrivals; this heuristic needs the ambulance")
        return model.arrivals

    def _play(
        self, world: World, frame: Frame, count: int, deterministic: bool, agent: Stream, world_random: Stream
    ) -> tuple[int, int]:
        where = world, frame, self.problem.horizon
        return evaluate_baseline(False, 0, self.offset, self.slope, *where, count, agent, world_random)

    def _act(self, points: Floats, steps: NDArray[np.int64], deterministic: bool) -> Floats:
        return self.problem.actions.from_unit(self.offset + self.slope * points)


@register("no-movement", label="No movement")
class NoMovement(Line):
    """Stay where you are: a = x."""

    def _coefficients(self) -> tuple[float, float]:
        states, actions = self.problem.states, self.problem.actions
        if not isinstance(actions, Box) or states.dimensions != actions.dimensions:
            raise ParameterError(
                f"NoMovement: {self.problem.name!r} has no action for each state; it needs equal spaces"
            )
        return 0.0, 1.0


@register("mean", label="Mean")
class Mean(Line):
    """Wait at the mean of the arrivals (the paper's heuristic)."""

    def _coefficients(self) -> tuple[float, float]:
        return self._arrivals().mean, 0.0


@register("median", label="Median")
class Median(Line):
    """Wait at the median of the arrivals: optimal where relocating is free."""

    def _coefficients(self) -> tuple[float, float]:
        return self._arrivals().median, 0.0
