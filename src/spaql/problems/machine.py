"""Machine replacement: keep a machine that wears out, or replace it before it fails.

Description
    A machine has wear w = 0 ... levels, and fails at `levels`.  One that is kept wears by 0, 1, 2, ... levels; a new
    one, which replaces it at a price, begins at 0 and wears in the same step.  A failed machine that is kept produces
    nothing, and stays failed.
Action space
    0: keep; 1: replace.
Observation space
    w in [0, levels], a whole number.
Rewards
    1 - cost / worst, with cost = running (w / levels)^2 for a machine that is kept, failure for one that has failed and
    is kept, and price for one that is replaced (its successor runs free of cost in that step); worst is the largest of
    these.  Derman (1963); Puterman (1994), section 4.7.5.
Start
    w = 0.
End
    After `horizon` steps.
Arguments
    See `machine`.

Wear in a step is binomial: `shocks` independent ones, each of probability `chance`.  States, actions and events are
finitely many, so the optimum is exact; without an end a control limit (replace from some wear on) is optimal, as costs
rise with wear and more of it now means more of it later.
"""

import math

import numpy as np

from spaql.errors import ParameterError
from spaql.partition.jit import kernel
from spaql.partition.spaces import Box, Discrete
from spaql.problems.base import RESET, STEP, Problem, built_in
from spaql.problems.finite import MOVE, Finite, draw_event, nearest_whole
from spaql.problems.heuristics import DECIDE, Rule, heuristic, require_model
from spaql.validation import check_number, check_whole


@kernel(RESET)
def _reset(parameters, random, state):
    state[0] = 0.0


@kernel(MOVE)
def _move(state, action, event, parameters, next_state):
    """Parameters: levels, running, price, failure, worst, events; then their chances."""
    levels = parameters[0]
    wear = nearest_whole(state[0])
    if action[0] == 1.0:
        cost = parameters[2]
        wear = 0.0
    elif wear >= levels:
        cost = parameters[3]
    else:
        cost = parameters[1] * (wear / levels) ** 2
    next_state[0] = min(wear + event, levels)
    return 1.0 - cost / parameters[4], False


@kernel(STEP)
def _step(state, action, parameters, random, next_state):
    event = draw_event(random, parameters, 6, int(parameters[5]))
    return _move(state, action, event, parameters, next_state)


@built_in("machine")
def machine(
    *,
    levels: int = 10,
    shocks: int = 3,
    chance: float = 0.4,
    running: float = 2.0,
    price: float = 3.0,
    failure: float = 6.0,
    horizon: int = 20,
) -> Problem:
    """Keep or replace a machine.

    Parameters
    ----------
    levels
        Wear at which it fails, from 1 to 1000.
    shocks, chance
        Wear of a step: so many shocks at most, from 1 to 100, each of this probability.
    running
        Cost of a step shortly before the failure; it grows with the square of wear.
    price, failure
        Costs of replacing it, and of a step with a failed machine.
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
    >>> problem = spaql.problems.machine()
    >>> problem.states.dimensions, problem.horizon
    (1, 20)
    >>> round(spaql.optimum(problem).value, 2)
    17.98
    """
    levels, shocks = check_whole(levels, "levels", 1, 1000), check_whole(shocks, "shocks", 1, 100)
    chance = check_number(chance, "chance", least=0.0, most=1.0)
    costs = {"running": running, "price": price, "failure": failure}
    costs = {name: check_number(cost, name, least=0.0, most=1e6) for name, cost in costs.items()}
    if not (worst := max(costs.values())):
        raise ParameterError("running, price, failure: expected a cost above 0, got 0 for all of them")
    binomial = [math.comb(shocks, hit) * chance**hit * (1.0 - chance) ** (shocks - hit) for hit in range(shocks + 1)]
    chances = np.array(binomial)
    parameters = np.array([levels, *costs.values(), worst, chances.size, *chances], dtype=float)
    wear, choices = np.arange(levels + 1.0)[:, None], np.array([[0.0], [1.0]])
    arguments = {"levels": levels, "shocks": shocks, "chance": chance, **costs, "horizon": horizon}
    return Problem(
        name=f"machine {levels} price {costs['price']:g}",
        step=_step,
        reset=_reset,
        states=Box(0.0, levels),
        actions=Discrete(2),
        horizon=horizon,
        rewards=(0.0, 1.0),
        parameters=parameters,
        arguments=arguments,
        model=Finite(_move, wear, choices, chances, np.array([0.0]), parameters),
    )


@kernel(DECIDE)
def _replace_from(observation, parameters, action):
    action[0] = 1.0 if nearest_whole(observation[0]) >= parameters[0] else 0.0


@heuristic("control-limit", home="machine")
def control_limit(problem: Problem) -> Rule:
    """Replace the machine from some wear on; the best limit by exact evaluation."""
    model = require_model("control-limit", problem)
    limits = np.arange(len(model.states) + 1.0)[:, None]  # the last one never replaces
    (limit,), _ = model.choose(_replace_from, limits, problem.horizon)
    return Rule(_replace_from, {"limit": limit})
