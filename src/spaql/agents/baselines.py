"""Agents that do not learn: uniform random actions, and the heuristics of the ambulance problem."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from spaql.agents.base import Agent
from spaql.agents.callbacks import Watch
from spaql.agents.registry import register
from spaql.partition.spaces import Discrete, Floats
from spaql.problems.ambulance import HEURISTICS, LinearPolicy


@register("random", label="Random", colour="#7F7F7F")
class Random(Agent):
    """Uniform random actions over the whole action space, in `predict` too."""

    learns = False
    _line: LinearPolicy | None = None  # what is played instead

    def _learn(self, limit: int, steps: int, watch: Watch, progress_bar: bool | None) -> None:
        with watch.running():
            pass

    def _played(self) -> tuple[None, tuple[bool, int, float, float]]:
        choices = self.problem.actions.count if isinstance(self.problem.actions, Discrete) else 0
        line = self._line or LinearPolicy(0.0, 0.0)
        return None, (self._line is None, choices, line.offset, line.slope)

    def _act(self, points: Floats, steps: NDArray[np.int64], deterministic: bool) -> Floats:
        actions = self.problem.actions
        if self._line is not None:
            return actions.from_unit(self._line.predict(points))
        draws = self._prediction.random((len(points), actions.dimensions))
        return np.floor(draws * actions.count) if isinstance(actions, Discrete) else actions.from_unit(draws)


class Heuristic(Random):
    """A linear policy that is known beforehand; see `spaql.problems.ambulance.HEURISTICS`."""

    _make_line: ClassVar[Callable[..., LinearPolicy]]

    def __init__(self, problem: Any, *, seed: int = 0, **environment: Any) -> None:
        super().__init__(problem, seed=seed, **environment)
        self._line = type(self)._make_line(self.problem)


for _name, _make in HEURISTICS.items():
    _members = {"__doc__": _make.__doc__, "__module__": __name__, "_make_line": staticmethod(_make)}
    _class = type(_name.title().replace("-", ""), (Heuristic,), _members)
    register(_name, label=_name.replace("-", " ").capitalize())(_class)
