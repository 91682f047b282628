"""Oil discovery: survey a line for a hidden deposit, paying for the distance travelled.

Description
    An agent at x moves to a and surveys there.  The survey reads 1 at the deposit and less away from it.
Action space
    a in [0, 1]: where to go.
Observation space
    x in [0, 1]: where the agent is; the next state is the action.
Rewards
    max(0, f(a) - |x - a|), with f(a) = exp(-sharpness |a - deposit|) (Laplace) or 1 - sharpness (a - deposit)^2
    (quadratic); section 4.3 of the paper, after Mason et al. (2011) and Sinclair et al. (2019).
Start
    x = `start`, 0 in the paper (a fact its text leaves out).
End
    After `horizon` steps.
Arguments
    See `oil`.
"""

import math

import numpy as np

from spaql.errors import ParameterError
from spaql.partition.jit import kernel
from spaql.partition.spaces import Box
from spaql.problems.base import RESET, STEP, Problem, built_in
from spaql.problems.optimum import Travel
from spaql.validation import check_number, show

DEPOSIT = 0.7 + math.pi / 60


@kernel(RESET)
def _reset(parameters, random, state):
    state[0] = parameters[2]


@kernel(STEP)
def _laplace(state, action, parameters, random, next_state):
    a = action[0]
    next_state[0] = a
    return max(0.0, math.exp(-parameters[0] * abs(a - parameters[1])) - abs(state[0] - a)), False


@kernel(STEP)
def _quadratic(state, action, parameters, random, next_state):
    a = action[0]
    next_state[0] = a
    miss = a - parameters[1]
    return max(0.0, 1.0 - parameters[0] * (miss * miss) - abs(state[0] - a)), False


def laplace_survey(sharpness: float, deposit: float, start: float) -> Travel:
    """The model with the gain exp(-sharpness |a - deposit|)."""
    return Travel(lambda a: np.exp(-sharpness * np.abs(a - deposit)), sharpness, travel=1.0, floor=0.0, start=start)


def quadratic_survey(sharpness: float, deposit: float, start: float) -> Travel:
    """The model with the gain 1 - sharpness (a - deposit)^2."""
    steepness = 2.0 * sharpness * max(deposit, 1.0 - deposit)
    return Travel(lambda a: 1.0 - sharpness * np.square(a - deposit), steepness, travel=1.0, floor=0.0, start=start)


SURVEYS = {"laplace": (_laplace, laplace_survey), "quadratic": (_quadratic, quadratic_survey)}


@built_in("oil", iterations=5000)
def oil(
    *, survey: str = "laplace", sharpness: float = 10.0, deposit: float = DEPOSIT, start: float = 0.0, horizon: int = 5
) -> Problem:
    """Oil discovery.

    Parameters
    ----------
    survey
        "laplace" or "quadratic".
    sharpness
        lambda of the paper: how quickly the survey falls off; positive.
    deposit, start
        Places in [0, 1].
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
    >>> problem = spaql.problems.oil()
    >>> problem.states.dimensions, problem.horizon
    (1, 5)
    >>> round(spaql.optimum(problem).value, 2)
    4.25
    """
    if not isinstance(survey, str) or survey not in SURVEYS:
        raise ParameterError(f"survey: expected one of {', '.join(SURVEYS)}, got {show(survey)}")
    step, model = SURVEYS[survey]
    sharpness = check_number(sharpness, "sharpness", least=0.0, above=True)
    deposit = check_number(deposit, "deposit", least=0.0, most=1.0)
    start = check_number(start, "start", least=0.0, most=1.0)
    return Problem(
        name=f"oil {survey} {sharpness:g}",
        step=step,
        reset=_reset,
        states=Box(0.0, 1.0),
        actions=Box(0.0, 1.0),
        horizon=horizon,
        rewards=(0.0, 1.0),
        parameters=[sharpness, deposit, start],
        arguments={"survey": survey, "sharpness": sharpness, "deposit": deposit, "start": start, "horizon": horizon},
        model=model(sharpness, deposit, start),
    )
