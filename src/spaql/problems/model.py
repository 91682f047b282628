"""What is known of a problem beyond its step function: enough mathematics to compute its exact optimum.

The problems of the paper are *travel problems* on the unit interval.  In state x the action a is a place to go; in
expectation it pays

    r(x, a) = max(floor, gain(a) - travel |x - a|),

and the next state is either a itself (oil: the survey vessel stays where it went) or the place of the next call,
drawn from one distribution whatever x and a (ambulance).  `spaql.optimum` solves every such problem.

Oil, section 4.3 of the paper: gain(a) = exp(-lambda |a - c|) or 1 - lambda (a - c)^2, travel 1, floor 0.
Ambulance, section 4.4: the reward 1 - c |x - a| - (1 - c) |x' - a| depends on the next state; in expectation the gain
is 1 - (1 - c) E|X - a| and the travel cost c.  For X ~ Beta(p, q) with distribution function I_a(p, q) and mean
m = p / (p + q), splitting the integral at a gives E|X - a| = a (2 I_a(p, q) - 1) + m (1 - 2 I_a(p + 1, q)).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spaql.errors import ParameterError

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Travel:
    """A travel problem on [0, 1] with reward `max(floor, gain(a) - travel * |x - a|)` in expectation.

    Parameters
    ----------
    gain
        Expected reward of standing at each of the actions, `[n] -> [n]`.
    steepness
        A Lipschitz constant of `gain` on [0, 1]; the certified tolerance of the optimum rests on it.
    travel
        Cost per unit of distance, >= 0.
    floor
        Lower bound of the reward; `-inf` for none.
    start
        Initial state, in [0, 1].
    arrivals
        Distribution function `[n] -> [n]` of the next state, whatever the state and action; None when the next
        state is the action itself.
    """

    gain: Callable[[Array], Array]
    steepness: float
    travel: float
    floor: float
    start: float
    arrivals: BetaArrivals | None

    def __post_init__(self) -> None:
        for name in ("steepness", "travel"):
            if not 0.0 <= getattr(self, name) < math.inf:
                raise ParameterError(f"{name} must be finite and >= 0, got {getattr(self, name)!r}")
        if not 0.0 <= self.start <= 1.0:
            raise ParameterError(f"start must be in [0, 1], got {self.start!r}")
        if not self.floor < math.inf:
            raise ParameterError(f"floor must be a number or -inf, got {self.floor!r}")


# The functions below are small frozen classes, not closures, so that models compare, print and travel to workers.


@dataclass(frozen=True)
class LaplaceGain:
    """`exp(-sharpness * |a - deposit|)`."""

    sharpness: float
    deposit: float

    def __call__(self, a: Array) -> Array:
        """Gain of each action, `[n] -> [n]`."""
        return np.exp(-self.sharpness * np.abs(a - self.deposit))


@dataclass(frozen=True)
class QuadraticGain:
    """`1 - sharpness * (a - deposit)**2`."""

    sharpness: float
    deposit: float

    def __call__(self, a: Array) -> Array:
        """Gain of each action, `[n] -> [n]`."""
        return 1.0 - self.sharpness * np.square(a - self.deposit)


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
        """Mean distance E|X - a| of an arrival from each place, `[n] -> [n]`."""
        return a * (2.0 * self(a) - 1.0) + self.mean * (1.0 - 2.0 * _incomplete_beta(self.p + 1.0, self.q, a))


@dataclass(frozen=True)
class AmbulanceGain:
    """`1 - (1 - cost) * E|X - a|`."""

    cost: float
    arrivals: BetaArrivals

    def __call__(self, a: Array) -> Array:
        """Gain of each action, `[n] -> [n]`."""
        return 1.0 - (1.0 - self.cost) * self.arrivals.distance(a)


def laplace_survey(sharpness: float, deposit: float, start: float) -> Travel:
    """Oil discovery with the Laplace survey function; `sharpness` is the paper's lambda, `deposit` its c."""
    _check_survey(sharpness, deposit)
    return Travel(LaplaceGain(sharpness, deposit), sharpness, travel=1.0, floor=0.0, start=start, arrivals=None)


def quadratic_survey(sharpness: float, deposit: float, start: float) -> Travel:
    """Oil discovery with the quadratic survey function; `sharpness` is the paper's lambda, `deposit` its c."""
    _check_survey(sharpness, deposit)
    steepness = 2.0 * sharpness * max(deposit, 1.0 - deposit)
    return Travel(QuadraticGain(sharpness, deposit), steepness, travel=1.0, floor=0.0, start=start, arrivals=None)


def ambulance(cost: float, start: float, beta: tuple[float, float] | None) -> Travel:
    """Ambulance routing; `cost` is the paper's c, arrivals are Beta(*beta), uniform when `beta` is None."""
    if not 0.0 <= cost <= 1.0:
        raise ParameterError(f"cost must be in [0, 1], got {cost!r}")
    p, q = (1.0, 1.0) if beta is None else beta
    if not (0.0 < p < math.inf and 0.0 < q < math.inf):
        raise ParameterError(f"beta must be two positive numbers, got {beta!r}")
    arrivals = BetaArrivals(p, q)
    # E|X - a| has derivative 2 F(a) - 1, between -1 and 1.
    return Travel(AmbulanceGain(cost, arrivals), 1.0 - cost, cost, floor=-math.inf, start=start, arrivals=arrivals)


def _check_survey(sharpness: float, deposit: float) -> None:
    if not 0.0 <= sharpness < math.inf:
        raise ParameterError(f"sharpness must be finite and >= 0, got {sharpness!r}")
    if not 0.0 <= deposit <= 1.0:
        raise ParameterError(f"deposit must be in [0, 1], got {deposit!r}")


def _incomplete_beta(p: float, q: float, x: Array) -> Array:
    """Regularised incomplete beta function I_x(p, q), `[n] -> [n]`."""
    if q == 1.0:
        return np.power(x, p)
    # Imported here: SciPy takes longer to load than the rest of the package, and uniform arrivals do without it.
    from scipy.special import betainc

    return np.asarray(betainc(p, q, x), dtype=np.float64)
