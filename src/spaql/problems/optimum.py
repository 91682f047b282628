"""The optimum of a problem, and travel problems, whose optimum is exact to a certified tolerance.

A problem says how its optimum is computed by a `Model`: `Travel` below, `Finite` (`spaql.problems.finite`) or
`Fleet` (`spaql.problems.ambulances`); or it states a number.

The problems of the paper are *travel problems* on the unit interval.  In state x the action a is a place to go; in
expectation it pays max(f, gain(a) - t |x - a|), with a travel cost t and a floor f, and the next state x' is either a
itself (oil: the survey vessel stays where it went) or the place of the next call, drawn from one distribution whatever
x and a (ambulance).  With G the steepness of the gain,

    V_h(x) = max_a max(f, gain(a) - t |x - a|) + E V_{h+1}(x'),   V_{H+1} = 0.

*Cones.*  When the next state is the action, x' = a, the maximum over a finite set of places a_1 < ... < a_n is

    V_h(x) = max(f + max_j V_{h+1}(a_j), max_j w_j - t |x - a_j|),   w_j = gain(a_j) + V_{h+1}(a_j):

the floor, or the upper envelope of cones of height w_j.  On the places themselves the envelope takes two running
maxima, max_{j<=i} (w_j + t a_j) - t a_i from the left and max_{j>=i} (w_j - t a_j) + t a_i from the right: O(n).

*Certificate.*  Cut [0, 1] into cells of centre a_j and radius d_j.  Going from centre to centre is a policy, so its
dynamic programme is a lower bound.  From any point of cell i to any point of cell j the reward is at most
max(f, gain(a_j) + G d_j - t (|a_i - a_j| - d_i - d_j)), so the same programme with these rewards is an upper bound;
the two differ by at most H (G + 2t) max d.  A cell through which no path from the start has an upper bound as high as
the lower bound is not on an optimal path and is dropped; the others are cut in three (which keeps their centre) until
the bounds meet.  This is branch and bound: near a peak of the gain only a few cells survive each round.

*Arrivals.*  When x' is drawn whatever x and a, the future is out of reach of the action: the myopic policy is optimal,
and with R(x) = max_a r(x, a) the optimum is R(start) + (H - 1) E R(X).  With n equal cells of radius d, cell j of
probability p_j by the distribution function, the largest r from centres to centres is at most (G + t) d too small,
and R changes by at most t d within a cell, so the error of R(start) + (H - 1) sum_j p_j R(a_j) is at most
(G + t) d + (H - 1) (G + 2t) d.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spaql.errors import ParameterError, ProblemError
from spaql.partition.spaces import Box
from spaql.validation import check_number, show

Array = NDArray[np.float64]
EXACT, BOUNDS, STATED = "exact", "bounds", "stated"
WORST_TOLERANCE = 1e-3  # of an exact optimum, as a share of it
_BASE = 3**9  # places in every solution: the policy away from the start is as fine as this
_MOST_ARRIVAL_CELLS = 2**22
_MOST_CORRIDOR_NUMBERS = 2**24  # cells times steps held at once by branch and bound: 128 MiB an array
_MYOPIC_TOLERANCE = 1e-8  # of each myopic step; small as errors in the place, not the reward, add up


@dataclass(frozen=True)
class BetaArrivals:
    """Beta(p, q) on [0, 1]; Beta(1, 1) is the uniform distribution."""

    p: float
    q: float

    def __call__(self, x: Array) -> Array:
        """Distribution function, `[n] -> [n]`."""
        return _incomplete_beta(self.p, self.q, x)

    @property
    def mean(self) -> float:
        """E X."""
        return self.p / (self.p + self.q)

    @property
    def median(self) -> float:
        """Where the distribution function is one half."""
        from scipy.special import betaincinv

        return float(betaincinv(self.p, self.q, 0.5))

    def distance(self, a: Array) -> Array:
        """Mean distance E|X - a| of an arrival from each place, `[n] -> [n]`, by splitting the integral at a."""
        return a * (2.0 * self(a) - 1.0) + self.mean * (1.0 - 2.0 * _incomplete_beta(self.p + 1.0, self.q, a))


def _incomplete_beta(p: float, q: float, x: Array) -> Array:
    """Regularised incomplete beta function I_x(p, q), `[n] -> [n]`."""
    if q == 1.0:
        return np.power(x, p)
    # Imported here: SciPy takes longer to load than the rest of the package, and uniform arrivals do without it.
    from scipy.special import betainc

    return np.asarray(betainc(p, q, x), dtype=np.float64)


class Model:
    """What a problem knows of itself, so that its optimum can be computed."""

    def solve(self, horizon: int, tolerance: float) -> Optimum:
        """Return the optimum of a number of steps; a larger tolerance than the one asked for is stated there."""
        raise NotImplementedError


@dataclass(frozen=True)
class Travel(Model):
    """A travel problem on [0, 1] with reward `max(floor, gain(a) - travel * |x - a|)` in expectation."""

    gain: Callable[[Array], Array]  # expected reward of standing at each of the actions, `[n] -> [n]`
    steepness: float  # a Lipschitz constant of `gain` on [0, 1]; the certified tolerance of the optimum rests on it
    travel: float  # cost per unit of distance, >= 0
    floor: float  # lower bound of the reward; `-inf` for none
    start: float  # initial state, in [0, 1]
    arrivals: BetaArrivals | None = None  # distribution of the next state, if that is drawn and not the action itself

    def __post_init__(self) -> None:
        for name, most in (("steepness", math.inf), ("travel", math.inf), ("start", 1.0)):
            check_number(getattr(self, name), name, least=0.0, most=most)
        if not self.floor < math.inf:
            raise ParameterError(f"floor must be a number or -inf, got {self.floor!r}")

    def solve(self, horizon: int, tolerance: float) -> Optimum:
        """Return the optimum, by branch and bound where the next state is the action."""
        return (_solve_moves if self.arrivals is None else _solve_arrivals)(self, horizon, tolerance)


@dataclass(frozen=True, eq=False)
class Optimum:
    """The solution of a problem.

    Attributes
    ----------
    value
        Expected return of the optimal policy from the start.  For `Travel`, when the next state is the action, it is
        the return of `policy` itself, so that the optimum lies between `value` and `value + tolerance`.
    tolerance
        Certified bound on the distance between `value` and the optimum; 0 for a stated number.
    myopic
        Expected return, from the start, of the policy that maximises the immediate expected reward in every state;
        of equally good actions it takes the nearest, and so stays where no action clears the floor.  It is what a
        learner that sees no future can reach.  Found to about `tolerance`, but not certified: where two far actions
        tie it is a discontinuous function of the problem.  None where it is not known.
    kind
        "exact": the optimum is within `tolerance` of `value`; "bounds": so it is too, but the tolerance is more than a
        thousandth of the value; "stated": the problem says so, and nothing was computed.

    Examples
    --------
    >>> import spaql
    >>> optimum = spaql.optimum("oil")
    >>> round(optimum.value, 4), optimum.kind, optimum.tolerance < 1e-5
    (4.2476, 'exact', True)
    """

    value: float
    tolerance: float
    myopic: float | None = None
    _plan: Sequence[Callable[[Array], Array]] = field(default=(), repr=False)
    kind: str = EXACT
    _space: Box | None = field(default=None, repr=False)  # of states, where the problem says it

    def policy(self, states: ArrayLike, step: int = 0) -> Array:
        """Return the optimal action in each state at a time step; of equals, for `Travel` the nearest.

        Parameters
        ----------
        states
            `[n]` or `[n, states]`, in the problem's units.
        step
            Time step, from 0.

        Returns
        -------
        ndarray
            Actions, `[n]` or `[n, actions]`, in the problem's units.

        Raises
        ------
        ProblemError
            Where the optimum is a number without a policy.

        Examples
        --------
        >>> import spaql
        >>> spaql.optimum("oil", survey="quadratic", sharpness=1).policy([0.0, 0.9]).round(2)
        array([0.65, 0.85])
        """
        if not self._plan:
            raise ProblemError("policy: this optimum is a number without a policy")
        if not 0 <= step < len(self._plan):
            raise ParameterError(f"step must be in 0..{len(self._plan) - 1}, got {step}")
        points = np.asarray(states, dtype=np.float64)
        if self._space is not None and points.size:
            self._space.check_batch(points.reshape(_shape_rows(points, self._space.dimensions)), "policy: states")
        return self._plan[step](points)


def _shape_rows(points: Array, dimensions: int) -> tuple[int, ...]:
    """Return the shape of states as rows; `[n]` are n states of one number."""
    return (-1, 1) if dimensions == 1 and points.ndim < 2 else points.shape


def optimum(problem: Any, *, tolerance: float = 1e-5, **arguments: Any) -> Optimum:
    """Solve a problem, exactly to a certified tolerance where its model can do that; see `kind` of the result.

    Parameters
    ----------
    problem
        The name of a built-in problem; or anything with a `name`, a `horizon`, and a `model` or an `optimum`, a number
        that the problem states.
    tolerance
        Wanted bound on the error of the value, >= 1e-12.  The bound achieved is in the result; it may be larger when
        memory would not suffice.
    **arguments
        Of the built-in problem that is named.

    Returns
    -------
    Optimum
        Its value, the error of that, and an optimal policy.

    Raises
    ------
    ProblemError
        Where the problem has neither a model nor an optimum.

    Examples
    --------
    >>> import spaql
    >>> round(spaql.optimum("inventory").value, 3)
    17.309
    >>> round(spaql.optimum("oil", survey="quadratic", sharpness=1).value, 3)
    4.298
    """
    problem = _find_built_in(problem, arguments)
    model, stated, name = (getattr(problem, part, None) for part in ("model", "optimum", "name"))
    check_number(tolerance, "tolerance", least=1e-12)
    if model is not None:
        if problem.horizon < 1:
            raise ProblemError(f"problem {name!r} must have a horizon of at least 1, got {problem.horizon!r}")
        known: Optimum = model.solve(problem.horizon, tolerance)
        wide = known.tolerance > WORST_TOLERANCE * abs(known.value) + 1e-9
        return replace(known, kind=BOUNDS if wide else known.kind, _space=getattr(problem, "states", None))
    if stated is None:
        raise ProblemError(
            f"problem {show(name or problem)} has no model, so its optimum cannot be computed; state it where you know "
            "it: Problem(..., optimum=4.2), or give it a model (spaql.problems.optimum.Model)"
        )
    return Optimum(float(stated), 0.0, kind=STATED)


def is_above(gain: float, half_width: float, value: float) -> bool:
    """Whether a mean is above an optimum `value` by a gain that chance cannot explain.

    That is more than twice the half width of its 95% interval, as many means may be compared.
    """
    return gain > max(2.0 * half_width, 1e-9 * max(1.0, abs(value)))


def _find_built_in(problem: Any, arguments: dict[str, Any]) -> Any:
    """Return the problem of a name; a problem that is none as it is."""
    from spaql.problems.base import PROBLEMS  # here: it imports this module

    if isinstance(problem, str):
        if problem not in PROBLEMS:
            raise ProblemError(f"problem: {show(problem)} is not one of {', '.join(PROBLEMS)}; give the problem itself")
        return PROBLEMS[problem](**arguments)
    if arguments:
        raise ParameterError(
            f"optimum: {next(iter(arguments))!r} is an argument of a problem that is named, as in "
            'optimum("oil", survey="laplace"); a problem that was made has its arguments'
        )
    return problem


def _solve_moves(model: Travel, horizon: int, tolerance: float) -> Optimum:
    path, upper = _branch_and_bound(model, horizon, tolerance)
    detour = _myopic_path(model, horizon, tolerance)
    nodes = np.unique(np.concatenate([_centres(_BASE), [0.0, model.start, 1.0], path, detour]))
    plan = _plan(model, horizon, nodes)
    value = _walk(model, plan)[1]
    myopic = _walk(model, [plan[-1]] * horizon)[1]  # nothing comes after the last step, so it is greedy
    return Optimum(value, max(0.0, upper - value) + _rounding(model, horizon, value), myopic, plan)


def _solve_arrivals(model: Travel, horizon: int, tolerance: float) -> Optimum:
    assert model.arrivals is not None
    spread = model.steepness + model.travel + (horizon - 1) * (model.steepness + 2.0 * model.travel)
    cells = max(_BASE, min(math.ceil(0.51 * spread / tolerance), _MOST_ARRIVAL_CELLS))
    nodes = np.unique(np.append(_centres(cells), [0.0, model.start, 1.0]))
    # Each node has the arrivals nearest to it: with three nodes added, still none farther than 1 / (2 cells).
    below = np.concatenate([[0.0], model.arrivals((nodes[1:] + nodes[:-1]) / 2.0), [1.0]])
    gain = model.gain(nodes)
    best = np.maximum(model.floor, upper_envelope(nodes, gain, model.travel))
    first = float(best[np.searchsorted(nodes, model.start)])
    value = first + (horizon - 1) * float(np.diff(below) @ best)
    greedy = _Decision(model, nodes, gain, np.zeros_like(nodes))
    bound = spread / (2.0 * cells) + _rounding(model, horizon, value)
    return Optimum(value, bound, value, [greedy] * horizon)


class _Decision:
    """The best action of one time step from any state, of finitely many places in increasing order to go to, `[n]`."""

    def __init__(self, model: Travel, nodes: Array, gain: Array, after: Array) -> None:
        self.nodes = nodes
        self.travel = model.travel
        self.height = gain + after
        slope = model.travel * nodes
        self.on_left = _last_maximum(self.height + slope)
        self.on_right = nodes.size - 1 - _last_maximum((self.height - slope)[::-1])[::-1]
        self.floored = model.floor + float(after.max())
        self.refuges = nodes[after == after.max()]  # where to go when every step pays the floor

    def __call__(self, states: Array) -> Array:
        if not np.all((states >= 0.0) & (states <= 1.0)):
            raise ParameterError("states must all lie in [0, 1]")
        after = np.searchsorted(self.nodes, states, side="right")
        left = self.on_left[np.maximum(after - 1, 0)]
        right = self.on_right[np.minimum(after, self.nodes.size - 1)]
        far_left, far_right = np.abs(states - self.nodes[left]), np.abs(states - self.nodes[right])
        from_left = self.height[left] - self.travel * far_left
        from_right = self.height[right] - self.travel * far_right
        turn = (from_right > from_left) | ((from_right == from_left) & (far_right < far_left))
        action = self.nodes[np.where(turn, right, left)]
        below = np.maximum(from_left, from_right) < self.floored
        return np.where(below, _nearest(self.refuges, states), action)


def _plan(model: Travel, horizon: int, nodes: Array) -> list[_Decision]:
    """The best decision of each time step when states and actions are `nodes` and the next state is the action."""
    gain = model.gain(nodes)
    after = _backward(model, horizon, nodes, gain, np.zeros_like(nodes))
    return [_Decision(model, nodes, gain, after[step + 1]) for step in range(horizon)]


def _walk(model: Travel, plan: Sequence[_Decision]) -> tuple[Array, float]:
    """The places visited from the start, `[H]`, and their return, when the next state is the action."""
    here, total, path = np.array([model.start]), 0.0, []
    for decide in plan:
        there = decide(here)
        total += max(model.floor, float(model.gain(there)[0] - model.travel * abs(here - there)[0]))
        path.append(there)
        here = there
    return np.concatenate(path), total


def _branch_and_bound(model: Travel, horizon: int, tolerance: float) -> tuple[Array, float]:
    """A path from the start, `[H]`, and a bound of the optimum above its return by `tolerance` if memory allows."""
    # The cells have one radius but for the start, of radius zero: with it a path that ends where it begins is exact.
    nodes = np.append(_centres(_BASE), model.start)
    radius = np.append(np.full(_BASE, 0.5 / _BASE), 0.0)
    while True:
        order = np.argsort(nodes)
        nodes, radius = nodes[order], radius[order]
        lower, upper, keep = _corridor(model, horizon, nodes, radius)
        nodes, radius = nodes[keep], radius[keep]
        # A little finer than asked, to leave room for rounding; and not finer than rounding, or it would never end.
        met = upper - lower <= max(0.98 * tolerance, _rounding(model, horizon, lower))
        if met or 3 * nodes.size * horizon > _MOST_CORRIDOR_NUMBERS:
            return _walk(model, _plan(model, horizon, nodes))[0], upper
        whole = radius > 0.0
        thirds = nodes[whole, None] + radius[whole, None] * np.array([-2.0, 0.0, 2.0]) / 3.0
        radius = np.concatenate([np.repeat(radius[whole] / 3.0, 3), radius[~whole]])
        nodes = np.concatenate([thirds.ravel(), nodes[~whole]])


def _corridor(model: Travel, horizon: int, nodes: Array, radius: Array) -> tuple[float, float, NDArray[np.bool_]]:
    """Bounds of the optimum over cells, and which cells may be on an optimal path, `[n]`."""
    gain = model.gain(nodes)
    below = _backward(model, horizon, nodes, gain, np.zeros_like(radius))
    above = _backward(model, horizon, nodes, gain, radius)
    away = np.abs(model.start - nodes)
    lower = float((np.maximum(model.floor, gain - model.travel * away) + below[1]).max())
    # `before` bounds what can be earned on the way to a cell, as `above` what can be earned from it.
    ceiling = gain + model.steepness * radius
    before = np.maximum(model.floor, ceiling - model.travel * np.maximum(0.0, away - radius))
    upper = float((before + above[1]).max())
    keep = before + above[1] >= lower - _rounding(model, horizon, lower)
    for step in range(2, horizon + 1):
        moved = upper_envelope(nodes, before + model.travel * radius, model.travel) + model.travel * radius
        before = np.maximum(model.floor + before.max(), ceiling + moved)
        keep |= before + above[step] >= lower - _rounding(model, horizon, lower)
    return lower, upper, keep | (radius == 0.0)


def _backward(model: Travel, horizon: int, nodes: Array, gain: Array, radius: Array) -> Array:
    """Bound of the value of each cell at steps 0 to H, `[H + 1, n]`: upper with the cells' radius, lower with zero."""
    value = np.zeros((horizon + 1, nodes.size))
    entry = gain + (model.steepness + model.travel) * radius
    for step in range(horizon - 1, -1, -1):
        after = value[step + 1]
        reach = upper_envelope(nodes, entry + after, model.travel) + model.travel * radius
        value[step] = np.maximum(model.floor + after.max(), reach)
    return value


def _myopic_path(model: Travel, horizon: int, tolerance: float) -> Array:
    """The places the myopic policy visits from the start, `[<= H]`, when the next state is the action."""
    path = [np.array([model.start])]
    for _ in range(horizon):
        here = replace(model, start=float(path[-1][0]))
        path.append(_branch_and_bound(here, 1, min(tolerance, _MYOPIC_TOLERANCE))[0])
        if path[-1][0] == here.start:
            break
    return np.concatenate(path)


def upper_envelope(nodes: Array, height: Array, travel: float, points: Array | None = None) -> Array:
    """`max_j height[j] - travel |points[i] - nodes[j]|` for every i; the sorted nodes are the points unless given."""
    slope = travel * nodes
    left, right = np.maximum.accumulate(height + slope), np.maximum.accumulate((height - slope)[::-1])[::-1]
    if points is not None:
        left = left[np.searchsorted(nodes, points, side="right") - 1]
        right = right[np.minimum(np.searchsorted(nodes, points), nodes.size - 1)]
        slope = travel * points
    return np.maximum(left - slope, right + slope)


def _last_maximum(values: Array) -> NDArray[np.intp]:
    """For every i the largest j <= i with `values[j] == max(values[:i + 1])`, `[n] -> [n]`."""
    record = values >= np.maximum.accumulate(values)
    return np.maximum.accumulate(np.where(record, np.arange(values.size), 0))


def _nearest(points: Array, states: Array) -> Array:
    """The nearest of the points, in increasing order, to each state, `[n] -> [n]`."""
    after = np.searchsorted(points, states)
    left, right = points[np.maximum(after - 1, 0)], points[np.minimum(after, points.size - 1)]
    return np.where(np.abs(states - left) <= np.abs(right - states), left, right)


def _centres(cells: int) -> Array:
    """Centres of equal cells of [0, 1], `[cells]`."""
    return (np.arange(cells) + 0.5) / cells


def _rounding(model: Travel, horizon: int, value: float) -> float:
    """Room for floating-point error in a sum over the horizon."""
    return 16.0 * float(np.finfo(np.float64).eps) * horizon * (1.0 + abs(value) + model.travel)
