"""A battery and a price that follows the phase of the day: buy at night, sell at the peak.

Description
    A battery holds c units of energy.  Each hour h the price p is seen, then energy is bought or sold, and the price of
    the next hour is drawn: p = 1/2 + swing cos(2 pi (h - peak) / 24) + noise e, with e = -1, 0 or 1 of probabilities
    1/4, 1/2 and 1/4.  It never leaves [0, 1].
Action space
    a in [-1, 1], a share of the power: a power units, rounded to the nearest whole number; above 0 buys, below 0 sells.
    What does not fit, or is not there, is not traded.
Observation space
    (charge, hour, price), in [0, capacity], [0, 23] and [0, 1]; charge and hour are whole numbers.
Rewards
    (1 + earned / (power / efficiency)) / 2, with earned = p units sold or -p units bought / efficiency; in [0, 1], and
    1/2 for doing nothing.  Energy storage arbitrage as in Powell (2011).
Start
    An empty battery at hour 0, e = 0.
End
    After `horizon` steps; what is left in the battery is worth nothing.
Arguments
    See `battery`.

Charges, hours and prices are finitely many and trades are whole units, so the optimum is exact.
"""

import math

import numpy as np

from spaql.errors import ParameterError
from spaql.partition.jit import kernel
from spaql.partition.spaces import Box
from spaql.problems.base import RESET, STEP, Problem, built_in
from spaql.problems.finite import MOVE, Finite, draw_event, nearest_whole
from spaql.problems.heuristics import DECIDE, Rule, heuristic, require_model
from spaql.validation import check_number, check_whole

DAY = 24
CHANCES = np.array([0.25, 0.5, 0.25])
_MOST_STATES = 100_000
_MOST_PAIRS = 1_000_000  # of states and actions: half a minute for the optimum
_LIMITS = 12  # prices among which those of the heuristic are chosen


@kernel(inline=True)
def _price(hour, noise, parameters):
    """Parameters: capacity, power, efficiency, swing, peak, noise; then chances."""
    wave = 0.5 + parameters[3] * math.cos(2.0 * math.pi * (hour - parameters[4]) / 24.0)
    return wave + parameters[5] * noise


@kernel(RESET)
def _reset(parameters, random, state):
    state[0] = 0.0
    state[1] = 0.0
    state[2] = _price(0.0, 0.0, parameters)


@kernel(MOVE)
def _move(state, action, event, parameters, next_state):
    charge = nearest_whole(state[0])
    units = min(max(nearest_whole(action[0] * parameters[1]), -charge), parameters[0] - charge)
    earned = -units * state[2]
    if units > 0.0:
        earned /= parameters[2]
    hour = (nearest_whole(state[1]) + 1.0) % 24.0
    next_state[0] = charge + units
    next_state[1] = hour
    next_state[2] = _price(hour, event - 1.0, parameters)
    return 0.5 + 0.5 * earned * parameters[2] / parameters[1], False


@kernel(STEP)
def _step(state, action, parameters, random, next_state):
    event = draw_event(random, parameters, 6, 3)
    return _move(state, action, event, parameters, next_state)


@built_in("battery")
def battery(
    *,
    capacity: int = 8,
    power: int = 2,
    efficiency: float = 0.9,
    swing: float = 0.3,
    peak: float = 18.0,
    noise: float = 0.15,
    horizon: int = 24,
) -> Problem:
    """Trade energy with a battery.

    Parameters
    ----------
    capacity, power
        Units that it holds, and most units of an hour; power is at most the capacity, and 144 (capacity + 1)
        (power + 1/2) at most a million.
    efficiency
        Share of the energy bought that is stored, above 0 and at most 1.
    swing, noise
        Of the price; together at most 1/2.
    peak
        Hour of the highest price, from 0 to 24.
    horizon
        H, hours of an episode.

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
    >>> problem = spaql.problems.battery()
    >>> problem.states.dimensions, problem.horizon
    (3, 24)
    >>> round(spaql.optimum(problem).value, 2)
    13.2
    """
    capacity = check_whole(capacity, "capacity", 1, _MOST_STATES // (3 * DAY) - 1)
    power = check_whole(power, "power", 1, capacity)
    pairs = 3 * DAY * (capacity + 1) * (2 * power + 1)
    if pairs > _MOST_PAIRS:
        raise ParameterError(
            f"capacity, power: {capacity} and {power} make {pairs:,} pairs of states and actions, and at most "
            f"{_MOST_PAIRS:,} can be solved; give less of one of them"
        )
    efficiency = check_number(efficiency, "efficiency", least=0.0, above=True, most=1.0)
    swing, noise = check_number(swing, "swing", least=0.0), check_number(noise, "noise", least=0.0)
    if swing + noise > 0.5:
        raise ParameterError(f"swing, noise: expected at most 0.5 together, got {swing:g} and {noise:g}")
    peak = check_number(peak, "peak", least=0.0, most=24.0)
    parameters = np.array([capacity, power, efficiency, swing, peak, noise, *CHANCES], dtype=float)
    state_rows = [
        (charge, hour, _price(float(hour), drawn, parameters))
        for charge in range(capacity + 1)
        for hour in range(DAY)
        for drawn in ((-1.0, 0.0, 1.0) if noise else (0.0,))
    ]
    states, trades = np.array(state_rows, dtype=float), np.arange(-power, power + 1.0)[:, None]
    start = np.array([0.0, 0.0, _price(0.0, 0.0, parameters)])
    arguments = {"capacity": capacity, "power": power, "efficiency": efficiency, "swing": swing, "peak": peak}
    return Problem(
        name=f"battery {capacity} swing {swing:g}",
        step=_step,
        reset=_reset,
        states=Box(0.0, [capacity, DAY - 1, 1.0]),
        actions=Box(-1.0, 1.0),
        horizon=horizon,
        rewards=(0.0, 1.0),
        parameters=parameters,
        arguments={**arguments, "noise": noise, "horizon": horizon},
        model=Finite(_move, states, trades / power, CHANCES, start, parameters),
    )


@kernel(DECIDE)
def _between(observation, parameters, action):
    """Parameters: buy up to the first price, sell from the second on."""
    action[0] = 0.0
    if observation[2] <= parameters[0]:
        action[0] = 1.0
    elif observation[2] >= parameters[1]:
        action[0] = -1.0


@heuristic("price-limits", home="battery")
def price_limits(problem: Problem) -> Rule:
    """Buy all that fits up to one price, sell all that is there from another.

    The two prices are the best of twelve, evenly spaced among those that occur, by exact evaluation.
    """
    model = require_model("price-limits", problem)
    prices = np.quantile(np.unique(model.states[:, 2]), np.linspace(0.0, 1.0, _LIMITS))
    pairs = np.array([(low, high) for low in prices for high in prices if low < high] or [(0.0, 1.0)])
    (low, high), _ = model.choose(_between, pairs, problem.horizon)
    return Rule(_between, {"buy up to": low, "sell from": high})
