"""Agents that do not learn: uniform random actions, and the heuristics that problems declare."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from spaql.agents.base import Agent
from spaql.agents.callbacks import Watch
from spaql.agents.registry import register
from spaql.agents.rollouts import Baseline
from spaql.partition.spaces import Box, Discrete, Floats
from spaql.problems.heuristics import HEURISTICS, Chooser, make_rule


@register("random", label="Random", colour="#7F7F7F")
class Random(Agent):
    """Play uniform random actions over the whole action space, in `predict` too.

    Parameters
    ----------
    problem, seed, verbose, tensorboard_log, **environment
        As for every agent; see `spaql.agents.Agent`.

    Examples
    --------
    >>> import spaql
    >>> print(spaql.Random("oil", seed=0).evaluate(episodes=100))
    0.379 [0.286, 0.472] over 100 episodes
    """

    learns = False

    def _learn(self, limit: int, steps: int, watch: Watch, progress_bar: bool | None) -> None:
        with watch.running():
            pass

    def _played(self) -> tuple[None, Baseline]:
        return None, (True, self.problem.actions.count if isinstance(self.problem.actions, Discrete) else 0, 0, 0)

    def _act(self, points: Floats, steps: NDArray[np.int64], deterministic: bool) -> Floats:
        actions = self.problem.actions
        draws = self._prediction.random((len(points), actions.dimensions))
        return np.floor(draws * actions.count) if isinstance(actions, Discrete) else actions.from_unit(draws)


class Heuristic(Random):
    """A policy that is known beforehand; see `spaql.problems.heuristics`."""

    _heuristic: ClassVar[str]

    def __init__(self, problem: Any, *, seed: int = 0, **environment: Any) -> None:
        super().__init__(problem, seed=seed, **environment)
        self._rule = make_rule(self._heuristic, self.problem)
        self._chooser = Chooser(self._rule, self.problem)

    @property
    def constants(self) -> dict[str, float]:
        """The numbers of its rule by name, which its problem chose: the best ones where it has several."""
        return dict(self._rule.parameters)

    def _played(self) -> tuple[None, Baseline]:
        return None, (False, 0, self._chooser.address, self._chooser.constants.ctypes.data)

    def _act(self, points: Floats, steps: NDArray[np.int64], deterministic: bool) -> Floats:
        actions, played = self.problem.actions, self._chooser(points)
        return actions.from_unit(played) if isinstance(actions, Box) else played


for _name, _one in HEURISTICS.items():
    _members = {"__doc__": _one.what, "__module__": __name__, "_heuristic": _name}
    _class = type(_name.title().replace("-", ""), (Heuristic,), _members)
    register(_name, label=_one.label, home=_one.home)(_class)
