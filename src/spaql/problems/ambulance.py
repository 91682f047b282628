"""Ambulance relocation: wait where the next call is likely, and pay for moving there.

Description
    An ambulance at x relocates to a; then a call arrives at x' ~ F and the ambulance drives there.
Action space
    a in [0, 1]: where to wait.
Observation space
    x in [0, 1]: the place of the last call.
Rewards
    1 - (cost |x - a| + (1 - cost) |x' - a|); section 4.4 of the paper, after Brotcorne et al. (2003).
Start
    x = `start`, 0.5 in the paper (a fact its text leaves out).
End
    After `horizon` steps.
Arguments
    See `ambulance`.

*Heuristics* (Sinclair et al., 2019).  "No movement" (a = x) is optimal where only relocating costs (c = 1).  Where only
the drive to the call costs (c = 0), the *median* of the arrivals is optimal, not the mean that the paper names: the
median minimises E|X - a|.
"""

import math

from spaql.errors import ParameterError
from spaql.partition.jit import kernel
from spaql.partition.rng import gamma, uniform
from spaql.partition.spaces import Box
from spaql.problems.base import RESET, STEP, Playable, Problem, built_in
from spaql.problems.optimum import BetaArrivals, Travel
from spaql.validation import check_number

ARRIVALS = ("uniform", "beta")
_MAX_DRAWS = 16


@kernel(RESET)
def _reset(parameters, random, state):
    state[0] = parameters[1]


@kernel(inline=True)
def _reward(x, a, call, cost):
    return 1.0 - (cost * abs(x - a) + (1.0 - cost) * abs(call - a))


@kernel(STEP)
def _uniform_calls(state, action, parameters, random, next_state):
    call = uniform(random)
    next_state[0] = call
    return _reward(state[0], action[0], call, parameters[0]), False


@kernel(STEP)
def _second_largest(state, action, parameters, random, next_state):
    """Beta(k, 2) calls: the second largest of k + 1 uniforms, exactly."""
    largest = 0.0
    call = 0.0
    for _ in range(int(parameters[2]) + 1):
        u = uniform(random)
        call = max(call, min(largest, u))
        largest = max(largest, u)
    next_state[0] = call
    return _reward(state[0], action[0], call, parameters[0]), False


@kernel(STEP)
def _beta_calls(state, action, parameters, random, next_state):
    """Beta(p, q) calls for any p and q: the share of one gamma variate in the sum of two."""
    total = 0.0
    first = 0.0
    while total == 0.0:  # both may underflow where p and q are tiny
        first = gamma(random, parameters[2])
        total = first + gamma(random, parameters[3])
    call = first / total
    next_state[0] = call
    return _reward(state[0], action[0], call, parameters[0]), False


def travel_model(cost: float, start: float, arrivals: BetaArrivals) -> Travel:
    """The model: the derivative of E|X - a|, 2 F(a) - 1, is between -1 and 1."""
    return Travel(lambda a: 1.0 - (1.0 - cost) * arrivals.distance(a), 1.0 - cost, cost, -math.inf, start, arrivals)


@built_in("ambulance", iterations=2000)
def ambulance(
    *,
    arrivals: str = "beta",
    cost: float = 0.25,
    shape: tuple[float, float] | None = None,
    start: float = 0.5,
    horizon: int = 5,
) -> Problem:
    """Ambulance relocation.

    Parameters
    ----------
    arrivals
        "uniform" or "beta": how calls fall on the line.
    cost
        c of the paper, in [0, 1]: the weight of relocating against driving to the call.
    shape
        The two parameters of the Beta distribution, each from 0.01 to 1e6; (5, 2) unless given, as in the paper.
    start
        Place in [0, 1].
    horizon
        H, steps of an episode.
    """
    if arrivals not in ARRIVALS:
        raise ParameterError(f"arrivals: expected one of {', '.join(ARRIVALS)}, got {arrivals!r}")
    cost = check_number(cost, "cost", least=0.0, most=1.0)
    start = check_number(start, "start", least=0.0, most=1.0)
    if shape is not None and arrivals != "beta":
        raise ParameterError(f"shape: {arrivals} arrivals have none; leave it out")
    try:
        first, second = (5.0, 2.0) if shape is None else shape
    except (TypeError, ValueError) as error:
        raise ParameterError(f"shape: expected two numbers, got {shape!r}") from error
    # Beyond these bounds gamma variates underflow or lose their digits.
    p, q = (check_number(side, "shape", least=0.01, most=1e6) for side in (first, second))
    arguments = {"arrivals": arrivals, "cost": cost, "start": start, "horizon": horizon}
    if arrivals == "uniform":
        step, calls = _uniform_calls, BetaArrivals(1.0, 1.0)
    else:
        step, calls = _beta_calls, BetaArrivals(p, q)
        arguments["shape"] = (p, q)
        if q == 2.0 and p == int(p) and p < _MAX_DRAWS:
            step = _second_largest
    return Problem(
        name=f"ambulance {arrivals} {cost:g}",
        step=step,
        reset=_reset,
        states=Box(0.0, 1.0),
        actions=Box(0.0, 1.0),
        horizon=horizon,
        rewards=(0.0, 1.0),
        parameters=[cost, start, p, q],
        arguments=arguments,
        model=travel_model(cost, start, calls),
    )


#: the heuristics by name, and what they do; `make_heuristic` makes them
HEURISTICS = {
    "no-movement": "Stay where you are: a = x.",
    "mean": "Wait at the mean of the arrivals (the paper's heuristic).",
    "median": "Wait at the median of the arrivals: optimal where relocating is free.",
}


def make_heuristic(name: str, problem: Playable) -> tuple[float, float]:
    """Return offset and slope of a heuristic for a problem, a = offset + slope x in unit coordinates."""
    if name == "no-movement":
        if not isinstance(problem.actions, Box) or problem.states.dimensions != problem.actions.dimensions:
            raise ParameterError(f"no-movement: {problem.name!r} has no action for each state; it needs equal spaces")
        return 0.0, 1.0
    if problem.model is None or problem.model.arrivals is None:
        raise ParameterError(f"{name}: {problem.name!r} has no arrivals; this heuristic needs the ambulance")
    return getattr(problem.model.arrivals, name), 0.0
