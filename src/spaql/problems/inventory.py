"""Inventory control with lost sales: order before the demand is known, and pay for what is left and what is missing.

Description
    At stock x the agent orders q, both whole numbers.  With lead time 0 the order arrives at once,
    y = min(x + q, capacity), and after the demand D the next stock is x' = max(0, y - D).  With lead time 1 the demand
    comes first, y = x, and the order arrives before the next review: x' = min(max(0, x - D) + q, capacity).  What does
    not fit is not delivered; demand that finds no stock is lost.
Action space
    a in [0, 1], the order as a share of the capacity: q = a capacity, rounded to the nearest whole number.
Observation space
    x in [0, capacity], a whole number.
Rewards
    1 - cost / worst, with cost = setup [q > 0] + holding max(0, y - D) + shortage max(0, D - y), and the worst that it
    can be: Arrow, Harris and Marschak (1951); Zipkin (2008) for lost sales with a lead time.
Start
    x = `start`, half of the capacity unless given.
End
    After `horizon` steps.
Arguments
    See `inventory`.

Demand is Poisson with mean `demand`, and what lies above `largest` counts as that.  So stocks, orders and demands are
finitely many, and the optimum is exact.  Without a set-up cost and a lead time a base-stock policy (order up to S) is
nearly optimal, with a set-up cost an (s, S) policy (from s downwards order up to S) is: Scarf (1960); the end of the
horizon is what they miss.
"""

import math
from typing import Any

import numpy as np

from spaql.errors import ParameterError
from spaql.partition.jit import kernel
from spaql.partition.spaces import Box
from spaql.problems.base import RESET, STEP, Problem, built_in
from spaql.problems.finite import MOVE, Finite, draw_event, nearest_whole
from spaql.problems.heuristics import DECIDE, Rule, heuristic, require_model
from spaql.validation import check_number, check_whole

_HEAD = 8  # parameters: lead, capacity, setup, holding, shortage, worst, start, events; then their chances


@kernel(RESET)
def _reset(parameters, random, state):
    state[0] = parameters[6]


@kernel(MOVE)
def _move(state, action, event, parameters, next_state):
    demand = float(event)
    order = nearest_whole(action[0] * parameters[1])
    stock = nearest_whole(state[0])
    if parameters[0] == 0.0:
        stock = min(stock + order, parameters[1])
    left = max(0.0, stock - demand)
    next_state[0] = left if parameters[0] == 0.0 else min(left + order, parameters[1])
    cost = parameters[3] * left + parameters[4] * max(0.0, demand - stock)
    if order > 0.0:
        cost += parameters[2]
    return 1.0 - cost / parameters[5], False


@kernel(STEP)
def _step(state, action, parameters, random, next_state):
    event = draw_event(random, parameters, _HEAD, int(parameters[7]))
    return _move(state, action, event, parameters, next_state)


@built_in("inventory")
def inventory(
    *,
    lead_time: int = 0,
    capacity: int = 20,
    demand: float = 5.0,
    largest: int = 12,
    setup: float = 5.0,
    holding: float = 1.0,
    shortage: float = 4.0,
    start: int | None = None,
    horizon: int = 20,
) -> Problem:
    """Control the inventory of one product with lost sales.

    Parameters
    ----------
    lead_time
        0: an order serves the demand of its own step; 1: that of the next one.
    capacity
        Most stock, and largest order; from 1 to 200.
    demand
        Mean of the Poisson demand, above 0.
    largest
        Demands above this whole number count as it; from 1 to 200.
    setup, holding, shortage
        Costs of an order, of a unit that is left, and of a unit that is missing; not all 0.
    start
        Stock at the start; half of the capacity unless given.
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
    >>> problem = spaql.problems.inventory()
    >>> problem.states.dimensions, problem.horizon
    (1, 20)
    >>> round(spaql.optimum(problem).value, 2)
    17.31
    """
    lead_time, capacity = check_whole(lead_time, "lead_time", 0, 1), check_whole(capacity, "capacity", 1, 200)
    demand = check_number(demand, "demand", least=0.0, above=True, most=200.0)
    largest = check_whole(largest, "largest", 1, 200)
    costs = {"setup": setup, "holding": holding, "shortage": shortage}
    costs = {name: check_number(cost, name, least=0.0, most=1e6) for name, cost in costs.items()}
    worst = costs["setup"] + max(costs["holding"] * capacity, costs["shortage"] * largest)
    if worst == 0.0:
        raise ParameterError("setup, holding, shortage: expected a cost above 0, got 0 for all of them")
    start = check_whole(capacity // 2 if start is None else start, "start", 0, capacity)
    chances = np.array([math.exp(d * math.log(demand) - demand - math.lgamma(d + 1)) for d in range(largest)])
    chances = np.append(chances, max(0.0, 1.0 - chances.sum()))
    head = [lead_time, capacity, *costs.values(), worst, start, chances.size]
    assert len(head) == _HEAD
    parameters, stocks = np.append(np.array(head, dtype=float), chances), np.arange(capacity + 1.0)[:, None]
    arguments: dict[str, Any] = {"lead_time": lead_time, "capacity": capacity, "demand": demand, "largest": largest}
    return Problem(
        name=f"inventory lead {lead_time} setup {costs['setup']:g}",
        step=_step,
        reset=_reset,
        states=Box(0.0, capacity),
        actions=Box(0.0, 1.0),
        horizon=horizon,
        rewards=(0.0, 1.0),
        parameters=parameters,
        arguments={**arguments, **costs, "start": start, "horizon": horizon},
        model=Finite(_move, stocks, stocks / capacity, chances, np.array([float(start)]), parameters),
    )


@kernel(DECIDE)
def _order_up_to(observation, parameters, action):
    """Parameters: where to order, up to where, and the capacity."""
    stock = nearest_whole(observation[0])
    action[0] = max(0.0, parameters[1] - stock) / parameters[2] if stock <= parameters[0] else 0.0


@heuristic("base-stock", home="inventory")
def base_stock(problem: Problem) -> Rule:
    """Order up to the level S in every step; the best S by exact evaluation."""
    require_model("base-stock", problem)
    return _best(problem, "base-stock", [(level, level) for level in range(problem.arguments["capacity"] + 1)])


@heuristic("s-S", home="inventory", label="(s, S)")
def s_S(problem: Problem) -> Rule:
    """Order up to S where the stock is s or less; the best s and S by exact evaluation."""
    require_model("s-S", problem)
    return _best(problem, "s-S", [(s, S) for S in range(problem.arguments["capacity"] + 1) for s in range(S + 1)])


def _best(problem: Problem, name: str, pairs: list[tuple[int, int]]) -> Rule:
    """The best of pairs (s, S) by exact evaluation."""
    capacity = problem.arguments["capacity"]
    candidates = np.array([(*pair, capacity) for pair in pairs], dtype=float)
    (low, high, _), _ = require_model(name, problem).choose(_order_up_to, candidates, problem.horizon)
    return Rule(_order_up_to, {"s": low, "S": high, "capacity": float(capacity)})
