"""k ambulances: wait where calls are likely, and send the nearest one.

Description
    Ambulances at x_1 ... x_k relocate to a_1 ... a_k; then a call arrives at y ~ F and the nearest one (of equals the
    first) drives there.  With k = 1 the problem is `ambulance`.
Action space
    a in [0, 1]^k: where each is to wait.
Observation space
    x in [0, 1]^k: where each is; the one that drove stands at the last call.
Rewards
    1 - (cost sum_i |x_i - a_i| / k + (1 - cost) min_i |y - a_i|); Brotcorne et al. (2003), as in ORSuite.
Start
    All of them at `start`.
End
    After `horizon` steps.
Arguments
    See `ambulances`.

*Optimum.*  The state enters a step only by the way to the places a, so that with t = cost / k

    V_h(x) = max_a W_h(a) - t |x - a|_1,   W_h(a) = 1 - (1 - cost) E min_i |y - a_i| + E V_{h+1}(a with a_j := y),

j the nearest.  On n equal cells, of radius d = 1 / 2n, whose centres are the places, the maximum takes two running
maxima in each dimension; halves of cells, whose borders hold every midpoint between two centres, make the nearest one
exact, and W_h takes running sums over them: O(k n^k) in all.

*Certificate.*  V_h changes by at most t per unit of a coordinate.  A call is at most d from its centre, so the
programme is wrong about the best policy that goes to centres by at most (H - 1) t d.  Rounding any action to centres
costs at most d for the way and the drive, t (k - 1) d for the places of the others, and, where the call lies between
the old and the new midpoint of two neighbours, another ambulance drives: at most t (k - 1) q, with q the largest
probability of an interval of length d.  So the optimum is within H (d + t (k - 1) (d + q)) + (H - 1) t d of the
computed value.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from spaql.errors import ParameterError
from spaql.partition.jit import kernel
from spaql.partition.rng import gamma, uniform
from spaql.partition.spaces import Box
from spaql.problems.ambulance import check_arrivals, travel_model, wait_at
from spaql.problems.base import RESET, STEP, Playable, Problem, built_in
from spaql.problems.heuristics import Rule, heuristic
from spaql.problems.optimum import Array, BetaArrivals, Model, Optimum
from spaql.validation import check_number, check_whole

MOST_AMBULANCES = 8
_MOST_PLACES = 2**21  # of all ambulances together: a few seconds
_PLAN_PLACES = 2**12  # of the policy
_PARTS = 8  # of half a cell, for the probability of an interval


@kernel(RESET)
def _reset(parameters, random, state):
    for i in range(state.shape[0]):
        state[i] = parameters[1]


@kernel(inline=True)
def _dispatch(state, action, call, cost, next_state):
    """Send the nearest ambulance to the call; return the reward."""
    count = state.shape[0]
    way = 0.0
    nearest = 0
    for i in range(count):
        way += abs(state[i] - action[i])
        next_state[i] = action[i]
        if abs(call - action[i]) < abs(call - action[nearest]):
            nearest = i
    next_state[nearest] = call
    return 1.0 - (cost * way / count + (1.0 - cost) * abs(call - action[nearest]))


@kernel(STEP)
def _uniform_calls(state, action, parameters, random, next_state):
    return _dispatch(state, action, uniform(random), parameters[0], next_state), False


@kernel(STEP)
def _beta_calls(state, action, parameters, random, next_state):
    total = 0.0
    first = 0.0
    while total == 0.0:  # both may underflow where p and q are tiny
        first = gamma(random, parameters[2])
        total = first + gamma(random, parameters[3])
    return _dispatch(state, action, first / total, parameters[0], next_state), False


@dataclass(frozen=True, eq=False)
class Fleet(Model):
    """Several ambulances, as their dynamic programme sees them."""

    count: int  # k
    cost: float
    start: float
    arrivals: BetaArrivals

    def solve(self, horizon: int, tolerance: float) -> Optimum:
        """Return the optimum on as many cells as memory allows, with its certified tolerance.

        The policy is that of a coarser grid, but an ambulance that it keeps near its place stays exactly there.
        """
        k, t = self.count, self.cost / self.count
        cells = int(_MOST_PLACES ** (1.0 / k) + 1e-9)
        grid = _Grid(self, cells)
        value = grid.value_at_start(grid.solve(horizon)[0])
        d = 0.5 / cells
        bound = horizon * (d + t * (k - 1) * (d + self._crowd(cells))) + (horizon - 1) * t * d
        coarse = _Grid(self, int(_PLAN_PLACES ** (1.0 / k) + 1e-9))
        plan = [_Wait(coarse, after) for after in coarse.solve(horizon)]
        return Optimum(value, bound, None, plan)

    def _crowd(self, cells: int) -> float:
        """A bound on the probability of any interval of half a cell."""
        chances = np.diff(self.arrivals(np.linspace(0.0, 1.0, 2 * cells * _PARTS + 1)))
        return float(np.convolve(chances, np.ones(_PARTS + 1)).max())


class _Grid:
    """The dynamic programme on `cells` places for each ambulance; arrays over all places are `[cells] * k`."""

    def __init__(self, fleet: Fleet, cells: int) -> None:
        self.fleet, self.cells = fleet, cells
        self.places = (np.arange(cells) + 0.5) / cells
        self.edges = np.linspace(0.0, 1.0, 2 * cells + 1)  # of halves of cells
        law = fleet.arrivals
        self.below = law(self.edges)
        self.mean_below = law.mean * BetaArrivals(law.p + 1.0, law.q)(self.edges)  # E[y; y <= edge]

    def solve(self, horizon: int) -> list[Array]:
        """Return W of each time step, `[H]`."""
        shape, ahead = (self.cells,) * self.fleet.count, []
        order = np.sort(np.indices(shape, np.int32).reshape(self.fleet.count, -1), axis=0)  # [k, places]: left to right
        drive, value = self._drive(order), None
        for _ in range(horizon):
            worth = 1.0 - (1.0 - self.fleet.cost) * drive
            if value is not None:
                worth += self._expect(order, value)
            ahead.append(worth.reshape(shape))
            value = self._spread(ahead[-1])
        return ahead[::-1]

    def value_at_start(self, worth: Array) -> float:
        """V at the start, of W in the first step."""
        away = self.fleet.cost / self.fleet.count * np.abs(self.places - self.fleet.start)
        for axis in range(self.fleet.count):
            worth = worth - away.reshape([-1 if axis == d else 1 for d in range(self.fleet.count)])
        return float(worth.max())

    def _borders(self, order: Any, i: int) -> tuple[Any, Any]:
        """First and last border, among the halves of cells, of the calls that the i-th from the left drives to."""
        last = self.fleet.count - 1
        left = order[i - 1] + order[i] + 1 if i > 0 else np.zeros_like(order[i])
        right = order[i] + order[i + 1] + 1 if i < last else np.full_like(order[i], 2 * self.cells)
        return left, right

    def _drive(self, order: Any) -> Array:
        """E min_i |y - a_i|, `[places]`, exactly, by splitting the integral at each place."""
        total = np.zeros(order.shape[1])
        for i, at in enumerate(order):
            left, right = self._borders(order, i)
            middle, sums = 2 * at + 1, (self.below, self.mean_below)
            mass, mean = (2.0 * one[middle] - one[left] - one[right] for one in sums)
            total += self.places[at] * mass - mean
        return total

    def _expect(self, order: Any, value: Array) -> Array:
        """E V of where they are after the call, `[places]`; V does not change where two ambulances are exchanged."""
        rows = value.reshape(self.cells, -1)
        sums = np.zeros((2 * self.cells + 1, rows.shape[1]))
        np.cumsum(np.repeat(rows, 2, axis=0) * np.diff(self.below)[:, None], axis=0, out=sums[1:])
        total = np.zeros(order.shape[1])
        for i in range(self.fleet.count):
            others = np.zeros_like(order[i])
            for j, at in enumerate(order):
                others = others if j == i else others * self.cells + at
            left, right = self._borders(order, i)
            total += sums[right, others] - sums[left, others]
        return total

    def _spread(self, worth: Array) -> Array:
        """V from W: the upper envelope of cones, one dimension after the other."""
        slope = self.fleet.cost / self.fleet.count * self.places
        for axis in range(self.fleet.count):
            tilt = slope.reshape([-1 if axis == d else 1 for d in range(self.fleet.count)])
            left = np.maximum.accumulate(worth + tilt, axis=axis) - tilt
            turned = np.maximum.accumulate(np.flip(worth - tilt, axis), axis=axis)
            worth = np.maximum(left, np.flip(turned, axis) + tilt)
        return worth


class _Wait:
    """The decisions of one time step."""

    def __init__(self, grid: _Grid, worth: Array) -> None:
        self.grid, self.worth = grid, worth.ravel()
        self.nodes = np.stack([axis.ravel() for axis in np.meshgrid(*[grid.places] * grid.fleet.count, indexing="ij")])

    def __call__(self, states: Array) -> Array:
        """Return actions `[n, k]` of states `[n, k]`."""
        rows, travel = states.reshape(-1, len(self.nodes)), self.grid.fleet.cost / self.grid.fleet.count
        actions = np.empty_like(rows)
        for row, action in zip(rows, actions, strict=True):
            best = np.argmax(self.worth - travel * np.abs(self.nodes - row[:, None]).sum(axis=0))
            place = self.nodes[:, best]
            action[:] = np.where(np.abs(place - row) <= 0.5 / self.grid.cells, row, place)
        return actions


@built_in("ambulances", iterations=2000)
def ambulances(
    *,
    count: int = 2,
    arrivals: str = "beta",
    cost: float = 0.25,
    shape: tuple[float, float] | None = None,
    start: float = 0.5,
    horizon: int = 5,
) -> Problem:
    """Relocate several ambulances.

    Parameters
    ----------
    count
        k, from 1 to 8.
    arrivals
        "uniform" or "beta": how calls fall on the line.
    cost
        c of the paper, in [0, 1]: the weight of relocating against driving to the call.
    shape
        The two parameters of the Beta distribution, each from 0.01 to 1e6; (5, 2) unless given.
    start
        Place in [0, 1] of all ambulances.
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
    >>> problem = spaql.problems.ambulances(count=1)
    >>> problem.states.dimensions, problem.horizon
    (1, 5)
    >>> round(spaql.optimum(problem).value, 2)
    4.37
    """
    count, law = check_whole(count, "count", 1, MOST_AMBULANCES), check_arrivals(arrivals, shape)
    cost = check_number(cost, "cost", least=0.0, most=1.0)
    start = check_number(start, "start", least=0.0, most=1.0)
    arguments = {"count": count, "arrivals": arrivals, "cost": cost, "start": start, "horizon": horizon}
    return Problem(
        name=f"{count} ambulance{'s' if count > 1 else ''} {arrivals} {cost:g}",
        step=_uniform_calls if arrivals == "uniform" else _beta_calls,
        reset=_reset,
        states=Box(np.zeros(count), 1.0),
        actions=Box(np.zeros(count), 1.0),
        horizon=horizon,
        rewards=(0.0, 1.0),
        parameters=[cost, start, law.p, law.q],
        arguments=arguments if arrivals == "uniform" else {**arguments, "shape": (law.p, law.q)},
        model=travel_model(cost, start, law) if count == 1 else Fleet(count, cost, start, law),
    )


@heuristic("quantiles", home="ambulances")
def wait_at_quantiles(problem: Playable) -> Rule:
    """Wait at the k quantiles (i - 1/2) / k of the arrivals; for one ambulance, at their median."""
    if problem.maker != "ambulances":
        raise ParameterError(f"quantiles: {problem.name!r} has no fleet; this heuristic needs ambulances")
    from scipy.special import betaincinv  # here: it takes long to load

    count, (p, q) = problem.states.dimensions, problem.arguments.get("shape", (1.0, 1.0))
    return wait_at(betaincinv(p, q, (np.arange(count) + 0.5) / count))
