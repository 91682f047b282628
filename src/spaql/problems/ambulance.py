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
from collections.abc import Iterable

from spaql.errors import ParameterError
from spaql.partition.jit import kernel
from spaql.partition.rng import gamma, uniform
from spaql.partition.spaces import Box
from spaql.problems.base import RESET, STEP, Playable, Problem, built_in
from spaql.problems.heuristics import DECIDE, Rule, heuristic
from spaql.problems.optimum import BetaArrivals, Travel
from spaql.validation import check_number, show

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


def check_arrivals(arrivals: str, shape: tuple[float, float] | None) -> BetaArrivals:
    """Return the law of calls that the arguments of a problem name."""
    if not isinstance(arrivals, str) or arrivals not in ARRIVALS:
        raise ParameterError(f"arrivals: expected one of {', '.join(ARRIVALS)}, got {show(arrivals)}")
    if arrivals == "uniform":
        if shape is not None:
            raise ParameterError("shape: uniform arrivals have none; leave it out")
        return BetaArrivals(1.0, 1.0)
    try:
        first, second = (5.0, 2.0) if shape is None else shape
    except (TypeError, ValueError) as error:
        raise ParameterError(f"shape: expected two numbers, got {shape!r}") from error
    # Beyond these bounds gamma variates underflow or lose their digits.
    return BetaArrivals(*(check_number(side, "shape", least=0.01, most=1e6) for side in (first, second)))


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
    >>> problem = spaql.problems.ambulance(cost=0.5)
    >>> problem.states.dimensions, problem.horizon
    (1, 5)
    >>> round(spaql.optimum(problem).value, 2)
    4.52
    """
    arrivals_law = check_arrivals(arrivals, shape)
    cost = check_number(cost, "cost", least=0.0, most=1.0)
    start = check_number(start, "start", least=0.0, most=1.0)
    p, q = arrivals_law.p, arrivals_law.q
    arguments = {"arrivals": arrivals, "cost": cost, "start": start, "horizon": horizon}
    step = _uniform_calls
    if arrivals == "beta":
        step = _beta_calls
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
        model=travel_model(cost, start, arrivals_law),
    )


@kernel(DECIDE)
def _stay(observation, parameters, action):
    for d in range(action.shape[0]):
        action[d] = observation[d]


@kernel(DECIDE)
def _wait(observation, parameters, action):
    """Go to the same place from everywhere."""
    for d in range(action.shape[0]):
        action[d] = parameters[d]


@heuristic("no-movement", home="ambulance")
def no_movement(problem: Playable) -> Rule:
    """Stay where you are: a = x."""
    if not isinstance(problem.actions, Box) or problem.states.dimensions != problem.actions.dimensions:
        raise ParameterError(f"no-movement: {problem.name!r} has no action for each state; it needs equal spaces")
    return Rule(_stay)


@heuristic("mean", home="ambulance")
def mean(problem: Playable) -> Rule:
    """Wait at the mean of the arrivals (the paper's heuristic)."""
    return Rule(_wait, {"place": _arrivals_of(problem, "mean").mean})


@heuristic("median", home="ambulance")
def median(problem: Playable) -> Rule:
    """Wait at the median of the arrivals: optimal where relocating is free."""
    return Rule(_wait, {"place": _arrivals_of(problem, "median").median})


def wait_at(places: Iterable[float]) -> Rule:
    """Return the rule that always goes to the same place, one number for each dimension."""
    return Rule(_wait, {f"place {number}": float(place) for number, place in enumerate(places, 1)})


def _arrivals_of(problem: Playable, name: str) -> BetaArrivals:
    if not isinstance(problem.model, Travel) or problem.model.arrivals is None:
        raise ParameterError(f"{name}: {problem.name!r} has no arrivals; this heuristic needs the ambulance")
    return problem.model.arrivals
