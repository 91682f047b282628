"""Problems of finitely many states, actions and random events: their exact optimum, and the value of any policy.

In state s the action a meets an event e of probability p_e(s); then a deterministic function, the problem's *move*,
pays r(s, a, e) and says where the state goes, s' = f(s, a, e), or that the episode ends.  Backward induction

    V_h(s) = max_a sum_e p_e(s) (r(s, a, e) + V_{h+1}(f(s, a, e))),   V_{H+1} = 0, V(end) = 0

is exact up to the rounding of sums.  The simulated step draws an event and calls the same move, so that the optimum
cannot be that of another problem.  Actions may be a continuum as long as finitely many of them suffice: `actions` are
those, and each problem says why no other is better (it rounds, or all others are dominated).

A heuristic with parameters gets its best ones by exact evaluation of all candidates (`Finite.choose`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba import types
from numpy.typing import NDArray

from spaql.errors import ProblemError
from spaql.partition.jit import kernel
from spaql.partition.rng import uniform
from spaql.problems.optimum import Array, Model, Optimum

_FLOATS = types.float64[::1]
#: move(state, action, event, parameters, next_state) -> (reward, terminated)
MOVE = types.Tuple((types.float64, types.boolean))(_FLOATS, _FLOATS, types.int64, _FLOATS, _FLOATS)
_DIGITS = 9  # to which numbers of a state are compared


@kernel(inline=True)
def draw_event(random, chances, first, count):
    """Draw one of `count` events; `chances` has their probabilities from `first` on."""
    left = uniform(random)
    for event in range(count - 1):
        left -= chances[first + event]
        if left < 0.0:
            return event
    return count - 1


@kernel(inline=True)
def nearest_whole(value):
    """Round to the nearest whole number, halves upwards."""
    return np.floor(value + 0.5)


@dataclass(frozen=True, eq=False)
class Finite(Model):
    """A finite problem as its dynamic programme sees it; all numbers are in the problem's units."""

    move: Callable[..., Any]  # see `MOVE`
    states: Array  # [n, states]
    actions: Array  # [m, actions]
    chances: Array  # [e] probabilities of events, or [n, e] where they depend on the state
    start: Array  # [states]
    parameters: Array  # [any] of the problem

    def solve(self, horizon: int, tolerance: float) -> Optimum:
        """Return the optimum by backward induction; the tolerance is that of rounding.

        With n steps to go a value is at most n times the largest reward, and a mean over e events, whose chances are
        rounded as well, is wrong by at most 2 (e + 2) roundings of it.
        """
        value, plan = np.zeros(len(self.states) + 1), []
        for _ in range(horizon):
            q = self._reward + self._expect(value)
            choice = q.argmax(axis=1)
            value = np.append(q.max(axis=1), 0.0)
            plan.append(Table(self, choice))
        best, greedy = float(value[self._first]), self._reward.argmax(axis=1)
        largest, events = float(np.abs(self._tables[0]).max()), self.chances.shape[-1]
        rounding = (events + 2) * horizon * (horizon + 1) * largest * float(np.finfo(np.float64).eps)
        return Optimum(best, rounding, float(self.evaluate(greedy[None], horizon)[0]), plan[::-1])

    def evaluate(self, choices: NDArray[np.intp], horizon: int) -> Array:
        """Return the exact values of stationary policies, of which `choices` `[p, n]` has the numbers of actions."""
        rows, values = np.arange(len(self.states)), np.zeros((len(choices), len(self.states) + 1))
        chances = np.broadcast_to(self.chances, (len(self.states), self.chances.shape[-1]))
        for _ in range(horizon):
            for value, choice in zip(values, choices, strict=True):
                after = (chances * value[self._following[rows, choice]]).sum(axis=1)
                value[:-1] = self._reward[rows, choice] + after
        return values[:, self._first]

    def choose(self, decide: Callable[..., Any], candidates: Array, horizon: int) -> tuple[tuple[float, ...], float]:
        """Return the best of candidate parameters `[p, c]` of a heuristic, and its value; of equals the first.

        `decide(observation, parameters, action)` is that of `spaql.problems.heuristics`.
        """
        played = np.zeros((len(candidates), len(self.states), self.actions.shape[1]))
        for row, parameters in zip(played, np.ascontiguousarray(candidates, np.float64), strict=True):
            for state, action in zip(np.ascontiguousarray(self.states), row, strict=True):
                decide(state, parameters, action)
        choices = _nearest(self.actions, played.reshape(-1, self.actions.shape[1])).reshape(played.shape[:2])
        policies, back = np.unique(choices, axis=0, return_inverse=True)  # many parameters are one policy
        values = self.evaluate(policies, horizon)[back.ravel()]
        best = int(np.argmax(values))
        return tuple(candidates[best].tolist()), float(values[best])

    @cached_property
    def _first(self) -> int:
        """Number of the start."""
        return self._numbers[self._key(self.start)]

    @cached_property
    def _numbers(self) -> dict[bytes, int]:
        return {self._key(state): number for number, state in enumerate(self.states)}

    @staticmethod
    def _key(state: Array) -> bytes:
        return (np.round(state, _DIGITS) + 0.0).tobytes()

    @cached_property
    def _tables(self) -> tuple[Array, NDArray[np.intp]]:
        """Rewards and numbers of following states, each `[n, m, e]`; n stands for the end."""
        shape = len(self.states), len(self.actions), self.chances.shape[-1]
        rewards, following = np.zeros(shape), np.full(shape, len(self.states), np.intp)
        states, actions, parameters = (np.array(part) for part in (self.states, self.actions, self.parameters))
        after = np.zeros(states.shape[1])
        for s, a, e in np.ndindex(shape):
            reward, ended = self.move(states[s], actions[a], e, parameters, after)
            rewards[s, a, e] = reward
            if not ended:
                number = self._numbers.get(self._key(after))
                if number is None:
                    raise ProblemError(f"a finite problem went from {states[s]} to {after}, which is not in its states")
                following[s, a, e] = number
        return rewards, following

    @cached_property
    def _reward(self) -> Array:
        """Expected rewards, `[n, m]`."""
        rewards: Array = (self._tables[0] * self._spread).sum(axis=2)
        return rewards

    @property
    def _following(self) -> NDArray[np.intp]:
        return self._tables[1]

    @property
    def _spread(self) -> Array:
        """Chances beside tables, `[n or 1, 1, e]`."""
        return self.chances[..., None, :] if self.chances.ndim == 2 else self.chances[None, None]

    def _expect(self, value: Array) -> Array:
        """Mean of the values `[n + 1]` of what follows, `[n, m]`."""
        mean: Array = (self._spread * value[self._following]).sum(axis=2)
        return mean


@dataclass(frozen=True, eq=False)
class Table:
    """The decisions of one time step: states between those of the problem decide as the nearest."""

    model: Finite
    choice: NDArray[np.intp]  # [n]

    def __call__(self, states: Array) -> Array:
        """Return actions `[k, actions]` of states `[k, states]`; `[k]` of `[k]` where there is one number of each."""
        rows = states.reshape(-1, self.model.states.shape[1])
        actions = self.model.actions[self.choice[_nearest(self.model.states, rows)]]
        return actions[:, 0] if states.ndim == 1 and actions.shape[1] == 1 else actions


def _nearest(points: Array, rows: Array) -> NDArray[np.intp]:
    """Numbers of the nearest points `[n, d]` to rows `[k, d]`, in units of the points' ranges."""
    from scipy.spatial import KDTree  # here: it takes long to load

    width = np.maximum(np.ptp(points, axis=0), 1e-300)
    return np.asarray(KDTree(points / width).query(rows / width)[1], np.intp)
