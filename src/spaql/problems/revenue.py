"""Revenue management with finite stock: what to ask for a seat, when those who pay most come last.

Description
    In each period at most one customer comes, who buys a seat if the price a is at most what he or she would pay.
    Leisure customers would pay 0.2, 0.3, 0.4 or 0.5, business customers 0.7, 0.85 or 1, each equally likely.  In period
    t of H a customer comes with probability `arrivals`, and is a business customer with probability (t + 1/2) / H.
Action space
    a in [0, 1]: the price.
Observation space
    (seats left, period): in [0, seats] and [0, H], whole numbers.
Rewards
    a where a seat is sold, else 0; in [0, 1].  Gallego and van Ryzin (1994), Talluri and van Ryzin (2004).
Start
    All seats, period 0.
End
    After `horizon` steps, or when the last seat is sold.
Arguments
    See `revenue`.

*Optimum.*  A price between two of those that customers would pay sells to the same customers as the higher of the two,
for less: the seven are enough, and with finitely many seats and periods the optimum is exact.
"""

import numpy as np

from spaql.errors import ParameterError
from spaql.partition.jit import kernel
from spaql.partition.spaces import Box
from spaql.problems.base import RESET, STEP, Problem, built_in
from spaql.problems.finite import MOVE, Finite, draw_event, nearest_whole
from spaql.problems.heuristics import DECIDE, Rule, heuristic, require_model
from spaql.validation import check_number, check_whole

LEISURE, BUSINESS = (0.2, 0.3, 0.4, 0.5), (0.7, 0.85, 1.0)
FARES = np.array(LEISURE + BUSINESS)
_EVENTS = 1 + FARES.size  # nobody, or a customer who would pay one of these
_HEAD = 3 + FARES.size  # parameters: seats, horizon, arrivals, fares; then the chances of each period


@kernel(RESET)
def _reset(parameters, random, state):
    state[0] = parameters[0]
    state[1] = 0.0


@kernel(MOVE)
def _move(state, action, event, parameters, next_state):
    seats = nearest_whole(state[0])
    sold = event > 0 and action[0] <= parameters[2 + event]
    if sold:
        seats -= 1.0
    next_state[0] = seats
    next_state[1] = min(nearest_whole(state[1]) + 1.0, parameters[1])
    return action[0] if sold else 0.0, seats == 0.0


@kernel(STEP)
def _step(state, action, parameters, random, next_state):
    period = min(nearest_whole(state[1]), parameters[1] - 1.0)
    event = draw_event(random, parameters, _HEAD + int(period) * _EVENTS, _EVENTS)
    return _move(state, action, event, parameters, next_state)


def chances_of(horizon: int, arrivals: float) -> np.ndarray:
    """Probabilities of nobody and of customers by what they would pay, in each period, `[H, events]`."""
    business = (np.arange(horizon) + 0.5)[:, None] / horizon
    leisure = np.repeat(1.0 - business, len(LEISURE), axis=1) / len(LEISURE)
    paying = arrivals * np.hstack([leisure, np.repeat(business, len(BUSINESS), axis=1) / len(BUSINESS)])
    return np.hstack([1.0 - paying.sum(axis=1, keepdims=True), paying])


@built_in("revenue")
def revenue(*, seats: int = 6, arrivals: float = 0.8, horizon: int = 20) -> Problem:
    """Sell a finite stock at the best prices.

    Parameters
    ----------
    seats
        From 1 to 200.
    arrivals
        Probability of a customer in a period.
    horizon
        H, periods, at most 500.

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
    >>> problem = spaql.problems.revenue()
    >>> problem.states.dimensions, problem.horizon
    (2, 20)
    >>> round(spaql.optimum(problem).value, 2)
    4.44
    """
    seats, horizon = check_whole(seats, "seats", 1, 200), check_whole(horizon, "horizon", 1)
    if horizon > 500:
        raise ParameterError(f"horizon: expected at most 500 periods, got {horizon}")
    arrivals = check_number(arrivals, "arrivals", least=0.0, most=1.0)
    by_period = chances_of(horizon, arrivals)
    parameters = np.concatenate([[seats, horizon, arrivals], FARES, by_period.ravel()])
    # After the last period nothing is sold in this episode, and what the chances would be there makes no difference.
    left, period = np.meshgrid(np.arange(1.0, seats + 1.0), np.arange(horizon + 1.0), indexing="ij")
    states, chances = np.stack([left.ravel(), period.ravel()], axis=1), np.vstack([by_period, by_period[-1:]])
    start = np.array([float(seats), 0.0])
    return Problem(
        name=f"revenue {seats} seats",
        step=_step,
        reset=_reset,
        states=Box([0.0, 0.0], [seats, horizon]),
        actions=Box(0.0, 1.0),
        horizon=horizon,
        rewards=(0.0, 1.0),
        parameters=parameters,
        arguments={"seats": seats, "arrivals": arrivals, "horizon": horizon},
        model=Finite(_move, states, FARES[:, None], np.tile(chances, (seats, 1)), start, parameters),
    )


@kernel(DECIDE)
def _protect(observation, parameters, action):
    """Parameters: leisure price, business price, share to protect, then the business customers still to come."""
    period = min(int(nearest_whole(observation[1])), parameters.shape[0] - 4)
    enough = nearest_whole(observation[0]) > parameters[2] * parameters[3 + period]
    action[0] = parameters[0] if enough else parameters[1]


@heuristic("protection", home="revenue")
def protection(problem: Problem) -> Rule:
    """Sell to leisure customers only seats beyond those protected for business customers to come.

    Protected are a multiple of their expected number; this and both prices are the best by exact evaluation.
    """
    model = require_model("protection", problem)
    coming = chances_of(problem.horizon, problem.arguments["arrivals"])[:, 1 + len(LEISURE) :].sum(axis=1)
    ahead = np.append(np.cumsum(coming[::-1])[::-1], 0.0)
    shares = np.arange(0.0, 4.01, 0.25)
    heads = [(low, high, share) for low in LEISURE for high in BUSINESS for share in shares]
    candidates = np.array([(*head, *ahead) for head in heads])
    (low, high, share, *_), _ = model.choose(_protect, candidates, problem.horizon)
    named = {"leisure price": low, "business price": high, "share protected": share}
    return Rule(_protect, named | {f"business from {period}": number for period, number in enumerate(ahead)})


@kernel(DECIDE)
def _ask(observation, parameters, action):
    action[0] = parameters[0]


@heuristic("fixed-price", home="revenue")
def fixed_price(problem: Problem) -> Rule:
    """Ask the same price always; the best one by exact evaluation."""
    (price,), _ = require_model("fixed-price", problem).choose(_ask, FARES[:, None], problem.horizon)
    return Rule(_ask, {"price": price})
