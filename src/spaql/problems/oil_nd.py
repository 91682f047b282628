"""Oil discovery in d dimensions: survey a line, a plane or a cube for a hidden deposit.

Description
    An agent at x moves to a and surveys there.  Distances are means over the coordinates, rho(x, y) = sum_i |x_i - y_i|
    / d, so that rewards stay in [0, 1] in any number of dimensions; with d = 1 the problem is `oil`.
Action space
    a in [0, 1]^d: where to go.
Observation space
    x in [0, 1]^d: where the agent is; the next state is the action.
Rewards
    max(0, f(a) - rho(x, a)), with f(a) = exp(-sharpness rho(a, deposit)) (Laplace) or 1 - sharpness rho(a, deposit)^2
    (quadratic); the generalisation of Sinclair et al. (2019) and their ORSuite.
Start
    All coordinates are `start`.
End
    After `horizon` steps.
Arguments
    See `oil_nd`.

*Optimum.*  It is that of one dimension, exactly.  With m_t = rho(a_t, deposit) the reward is
max(0, g(m_t) - rho(a_{t-1}, a_t)), and rho(a_{t-1}, a_t) >= |m_t - m_{t-1}| by the triangle inequality: no path earns
more than the same m_t as places on a line with the deposit at 0.  Beyond m_0, the distance of the start, no place is
worth more, and those up to it are reached without a detour on the straight way from the start to the deposit, where the
inequality is an equation.
"""

from dataclasses import dataclass

import numpy as np

from spaql.errors import ParameterError
from spaql.partition.jit import kernel
from spaql.partition.spaces import Box
from spaql.problems.ambulance import wait_at
from spaql.problems.base import RESET, STEP, Playable, Problem, built_in
from spaql.problems.heuristics import Rule, heuristic
from spaql.problems.oil import DEPOSIT, SURVEYS
from spaql.problems.optimum import Array, Model, Optimum, Travel
from spaql.validation import check_number, check_whole, show

MOST_DIMENSIONS = 16


@kernel(RESET)
def _reset(parameters, random, state):
    for d in range(state.shape[0]):
        state[d] = parameters[2]


@kernel(inline=True)
def _move(state, action, parameters, next_state):
    """Go there; return the distances to the deposit and of the way."""
    miss = 0.0
    way = 0.0
    for d in range(state.shape[0]):
        miss += abs(action[d] - parameters[1])
        way += abs(state[d] - action[d])
        next_state[d] = action[d]
    return miss / state.shape[0], way / state.shape[0]


@kernel(STEP)
def _laplace(state, action, parameters, random, next_state):
    miss, way = _move(state, action, parameters, next_state)
    return max(0.0, np.exp(-parameters[0] * miss) - way), False


@kernel(STEP)
def _quadratic(state, action, parameters, random, next_state):
    miss, way = _move(state, action, parameters, next_state)
    return max(0.0, 1.0 - parameters[0] * (miss * miss) - way), False


@dataclass(frozen=True, eq=False)
class Straight(Model):
    """The problem along the straight way to the deposit: a `Travel` whose place is the distance that is left."""

    travel: Travel
    deposit: float

    def solve(self, horizon: int, tolerance: float) -> Optimum:
        """Return the optimum of the line, whose decisions are distances to keep from the deposit."""
        line = self.travel.solve(horizon, tolerance)
        plan = [lambda x, step=step: self._go(x, line.policy(self._miss(x), step)) for step in range(horizon)]
        return Optimum(line.value, line.tolerance, line.myopic, plan)

    def _miss(self, states: Array) -> Array:
        """Distances to the deposit, `[n, d] -> [n]`."""
        return np.asarray(np.abs(np.atleast_2d(states.T).T - self.deposit).mean(axis=1))

    def _go(self, states: Array, left: Array) -> Array:
        """Move towards the deposit until the distances `[n]` are left; never away from it."""
        share = np.minimum(1.0, left / np.maximum(self._miss(states), 1e-300))
        to_go = share.reshape(-1, *(1,) * (states.ndim - 1))
        return np.asarray(np.clip(self.deposit + to_go * (states - self.deposit), 0.0, 1.0))


@built_in("oil-nd", iterations=5000)
def oil_nd(
    *,
    dimensions: int = 2,
    survey: str = "laplace",
    sharpness: float = 10.0,
    deposit: float = DEPOSIT,
    start: float = 0.0,
    horizon: int = 5,
) -> Problem:
    """Oil discovery in d dimensions.

    Parameters
    ----------
    dimensions
        d, from 1 to 16.
    survey
        "laplace" or "quadratic".
    sharpness
        lambda of the paper: how quickly the survey falls off; positive.
    deposit, start
        Coordinates in [0, 1], the same in every dimension.
    horizon
        H, steps of an episode.

    Returns
    -------
    Problem
        A compiled problem.

    Raises
    ------
    ParameterError
        Where an argument is out of its range.

    Examples
    --------
    >>> import spaql
    >>> problem = spaql.problems.oil_nd(dimensions=3)
    >>> problem.states.dimensions, problem.horizon
    (3, 5)
    >>> round(spaql.optimum(problem).value, 2)
    4.25
    """
    dimensions = check_whole(dimensions, "dimensions", 1, MOST_DIMENSIONS)
    if not isinstance(survey, str) or survey not in SURVEYS:
        raise ParameterError(f"survey: expected one of {', '.join(SURVEYS)}, got {show(survey)}")
    sharpness = check_number(sharpness, "sharpness", least=0.0, above=True)
    deposit = check_number(deposit, "deposit", least=0.0, most=1.0)
    start = check_number(start, "start", least=0.0, most=1.0)
    where = {"deposit": deposit, "start": start, "horizon": horizon}
    return Problem(
        name=f"oil in {dimensions}d {survey} {sharpness:g}",
        step=_laplace if survey == "laplace" else _quadratic,
        reset=_reset,
        states=Box(np.zeros(dimensions), 1.0),
        actions=Box(np.zeros(dimensions), 1.0),
        horizon=horizon,
        rewards=(0.0, 1.0),
        parameters=[sharpness, deposit, start],
        arguments={"dimensions": dimensions, "survey": survey, "sharpness": sharpness, **where},
        model=Straight(SURVEYS[survey][1](sharpness, 0.0, abs(start - deposit)), deposit),
    )


@heuristic("deposit", home="oil-nd")
def go_to_deposit(problem: Playable) -> Rule:
    """Go to the deposit at once and stay there: optimal where it is worth the way."""
    if problem.maker not in ("oil", "oil-nd"):
        raise ParameterError(f"deposit: {problem.name!r} has no deposit; this heuristic needs oil or oil-nd")
    return wait_at([problem.arguments["deposit"]] * problem.states.dimensions)
