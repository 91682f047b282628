"""Agents that do not learn: uniform random actions, and the heuristics of the ambulance problem."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from spaql.agents.base import Agent
from spaql.agents.callbacks import Watch
from spaql.agents.registry import register
from spaql.partition.spaces import Discrete, Floats
from spaql.problems.ambulance import HEURISTICS, make_heuristic


@register("random", label="Random", colour="#7F7F7F")
class Random(Agent):
    """Uniform random actions over the whole action space, in `predict` too."""

    learns = False
    _line: tuple[float, float] | None = None  # offset and slope of what is played instead

    def _learn(self, limit: int, steps: int, watch: Watch, progress_bar: bool | None) -> None:
        with watch.running():
            pass

    def _played(self) -> tuple[None, tuple[bool, int, float, float]]:
        choices = self.problem.actions.count if isinstance(self.problem.actions, Discrete) else 0
        return None, (self._line is None, choices, *(self._line or (0.0, 0.0)))

    def _act(self, points: Floats, steps: NDArray[np.int64], deterministic: bool) -> Floats:
        actions = self.problem.actions
        if self._line is not None:
            offset, slope = self._line
            return actions.from_unit(offset + slope * points)
        draws = self._prediction.random((len(points), actions.dimensions))
        return np.floor(draws * actions.count) if isinstance(actions, Discrete) else actions.from_unit(draws)


class Heuristic(Random):
    """A linear policy that is known beforehand; see `spaql.problems.ambulance.HEURISTICS`."""

    _heuristic: ClassVar[str]

    def __init__(self, problem: Any, *, seed: int = 0, **environment: Any) -> None:
        super().__init__(problem, seed=seed, **environment)
        self._line = make_heuristic(self._heuristic, self.problem)


for _name, _what in HEURISTICS.items():
    _members = {"__doc__": _what, "__module__": __name__, "_heuristic": _name}
    _class = type(_name.title().replace("-", ""), (Heuristic,), _members)
    register(_name, label=_name.replace("-", " ").capitalize())(_class)
