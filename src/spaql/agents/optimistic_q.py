"""What the optimistic algorithms on a net have in common: rewards from 0 to 1, the union bound, and their parameters.

Their papers assume rewards from 0 to 1.  Rewards of another range are scaled to it, r <- (r - low) / (high - low),
and Q and V are then in these units: shifted and scaled, which leaves the best policy what it is.  An episode that ends
early is worth what a reward of 0 would be worth in every step that was left (`spaql.agents.fixed_net`).

The bonuses hold the logarithm of a union bound over all cells and visits, iota.  The papers prove that some constant c
in front suffices, and no constant that is small enough to be useful: with c sqrt(H^3 iota) of a few times H, all Q stay
at their cap for thousands of visits.  Therefore c is a parameter, named `scaling` as in the other algorithms.
"""

import math
from typing import Any

import numpy as np

from spaql.agents.fixed_net import FixedNetAgent, Rules
from spaql.errors import ParameterError
from spaql.problems.base import LARGEST_REWARD
from spaql.validation import check_number, show

Range = tuple[float, float]
_LEAST_RANGE = 1e-100  # of rewards: what it is divided by


class OptimisticQ(FixedNetAgent):
    """Base class of the optimistic algorithms on a net."""

    _filled = ("value_low", "value_high", "cells")

    def __init__(
        self,
        problem: Any,
        fineness: Any,
        scaling: float,
        failure_probability: float,
        rewards: Range | None,
        *,
        seed: int = 0,
        **environment: Any,
    ) -> None:
        super().__init__(problem, fineness, seed=seed, **environment)
        self.scaling = check_number(scaling, "scaling", least=0.0, most=LARGEST_REWARD)
        self.failure_probability = check_number(failure_probability, "failure_probability", least=1e-100, most=1.0)
        self.rewards = None if rewards is None else self._check_rewards(rewards)
        self._low, self._high = self.rewards or self.problem.rewards or (0.0, 1.0)
        if self._low == self._high:  # a problem of one reward
            self._low, self._high = min(self._low, 0.0), max(self._high, 1.0)
        self.needs_unit_rewards = (self._low, self._high) == (0.0, 1.0)

    def _check_rewards(self, rewards: Any) -> list[float]:
        try:
            low, high = (float(end) for end in rewards)
        except (TypeError, ValueError):
            low = high = np.nan
        if not (-LARGEST_REWARD <= low < high <= LARGEST_REWARD and high - low >= _LEAST_RANGE):
            raise ParameterError(
                f"rewards: expected the smallest and the largest reward of a step, low below high, got {show(rewards)}"
            )
        declared = self.problem.rewards
        if declared is not None and not low <= declared[0] <= declared[1] <= high:
            raise ParameterError(
                f"rewards: {self.problem.name!r} has rewards from {declared[0]:g} to {declared[1]:g}, outside "
                f"{low:g} to {high:g}; give rewards=({declared[0]:g}, {declared[1]:g}), or leave it out"
            )
        return [low, high]

    def _find_hoeffding(self, planned_steps: int) -> tuple[float, float]:
        """Return c sqrt(H^3 iota) and iota = ln(S A T / p), of UCB-Q and NBQL."""
        iota = math.log(self._pairs * planned_steps / self.failure_probability)
        return self.scaling * math.sqrt(float(self.problem.horizon) ** 3 * iota), iota

    @property
    def _pairs(self) -> int:
        """S A, the cells of one table."""
        return self._shape.leaves * self._shape.choices

    def _make_rules(self, **rules: Any) -> Rules:
        """Return the rules of the algorithm with those that scale rewards."""
        unit = 1.0 / (self._high - self._low)
        return Rules(self.problem.horizon, self._shape.choices, low=self._low, unit=unit, **rules)

    @property
    def _nothing(self) -> float:
        """Return what a reward of 0 is after scaling."""
        return -self._low / (self._high - self._low) if self._low else 0.0
