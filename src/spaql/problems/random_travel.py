"""Random problems that nobody tuned an agent on, with their exact optimum.

`random_travel(family, number)` draws one travel problem: the state x and the action a, where to go, are in [0, 1]^D,
D = 1 or 2, and an episode takes 2 to 50 steps from a random place.  Both numbers together fix the problem, so that one
family can serve to choose an agent's constants and another to judge it.  It pays unit * r + zero, with |.| the sum over
the coordinates and r one of

*deposits*: max_k height_k exp(-|a - place_k| / width_k) - cost |x - a| / D, in every other problem not below 0; the
next state is the action;
*arrivals*: 1 - (cost |x - a| + (1 - cost) |x' - a|) / D; the next state is a call x' drawn from a mixture of Beta laws,
whatever x and a.

The unit is from 0.01 to 100 and the zero from -2 to 1 units, so that rewards may be negative, tiny or large.

*Optimum.*  For deposits every function of one coordinate in the dynamic programme is convex between neighbouring
kinks: exponentials of linear functions, linear functions, and maxima of such.  A maximum over a convex piece lies at
its end, so an optimal agent goes only to places whose coordinates are those of a deposit, of the start or of the
border; among these finitely many places the programme is exact.  For arrivals the coordinates part: E|X - a| is a sum
over them, the myopic policy is optimal, and each coordinate is a travel problem on the line (`spaql.problems.optimum`).
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product

import numpy as np

from spaql.partition.jit import kernel
from spaql.partition.rng import gamma, uniform
from spaql.partition.spaces import Box, Floats
from spaql.problems.base import RESET, STEP, Problem, built_in
from spaql.problems.optimum import BetaArrivals, upper_envelope
from spaql.validation import check_whole

KINDS = ("deposits on a line", "arrivals on a line", "deposits in a plane", "arrivals in a plane")
_LARGEST = 2**32 - 1
# Parameters: dimensions, parts, cost, floored, unit, zero, then the start, then for each part
# height, width and place (deposits) or its share added up and the two shapes of each coordinate (arrivals).
_HEAD = 6


@kernel(RESET)
def _reset(parameters, random, state):
    for d in range(state.shape[0]):
        state[d] = parameters[_HEAD + d]


@kernel(STEP)
def _deposits(state, action, parameters, random, next_state):
    dimensions = state.shape[0]
    way = 0.0
    for d in range(dimensions):
        way += abs(state[d] - action[d])
        next_state[d] = action[d]
    found = 0.0
    at = _HEAD + dimensions
    for _ in range(int(parameters[1])):
        miss = 0.0
        for d in range(dimensions):
            miss += abs(action[d] - parameters[at + 2 + d])
        found = max(found, parameters[at] * math.exp(-miss / parameters[at + 1]))
        at += 2 + dimensions
    reward = found - parameters[2] * way / dimensions
    if parameters[3] > 0.0:
        reward = max(0.0, reward)
    return parameters[4] * reward + parameters[5], False


@kernel(STEP)
def _arrivals(state, action, parameters, random, next_state):
    dimensions = state.shape[0]
    pick = uniform(random)
    at = _HEAD + dimensions
    while parameters[at] <= pick:
        at += 1 + 2 * dimensions
    way = 0.0
    for d in range(dimensions):
        first = gamma(random, parameters[at + 1 + 2 * d])
        call = first / (first + gamma(random, parameters[at + 2 + 2 * d]))
        next_state[d] = call
        way += parameters[2] * abs(state[d] - action[d]) + (1.0 - parameters[2]) * abs(call - action[d])
    return parameters[4] * (1.0 - way / dimensions) + parameters[5], False


@dataclass(frozen=True)
class Recipe:
    """What a random problem is made of."""

    kind: str
    horizon: int
    cost: float
    floored: bool
    unit: float
    zero: float
    start: Floats  # [dimensions]
    parts: Floats  # [parts, ...] as in the parameters

    @property
    def dimensions(self) -> int:
        """1 on a line, 2 in a plane."""
        return self.start.size


def draw(family: int, number: int) -> Recipe:
    """The recipe of one problem of a family."""
    key = check_whole(family, "family", 0, _LARGEST), check_whole(number, "number", 0, _LARGEST)
    random = np.random.default_rng(key)
    kind = KINDS[number % len(KINDS)]
    dimensions = 1 if kind.endswith("line") else 2
    horizon = round(math.exp(random.uniform(math.log(2), math.log(50))))
    unit = math.exp(random.uniform(math.log(0.01), math.log(100.0)))
    zero = unit * random.uniform(-2.0, 1.0)
    start, count = random.random(dimensions), int(random.integers(1, 6))
    if kind.startswith("deposits"):
        heights = random.uniform(0.2, 0.95, count)
        heights[0] = 1.0
        widths = np.exp(random.uniform(math.log(0.03), math.log(1.0), count))
        parts = np.column_stack([heights, widths, random.random((count, dimensions))])
        return Recipe(kind, horizon, random.random(), bool(random.integers(2)), unit, zero, start, parts)
    shares = np.cumsum(random.dirichlet(np.ones(count)))
    shares[-1] = 1.0
    shapes = np.exp(random.uniform(math.log(0.7), math.log(15.0), (count, 2 * dimensions)))
    cost = float(random.choice([0.0, 1.0, random.random(), random.random()]))
    return Recipe(kind, horizon, cost, False, unit, zero, start, np.column_stack([shares, shapes]))


@built_in("random-travel")
def random_travel(*, family: int = 2, number: int = 0, plain: bool = False) -> Problem:
    """Draw a random problem, on which no agent was tuned.

    Parameters
    ----------
    family, number
        Which one; every fourth number is of the same kind (`KINDS`).
    plain
        Whether its rewards are r itself, of about 0 to 1, for agents that know no other.

    Returns
    -------
    Problem
        A compiled problem; the same numbers give the same one.

    Examples
    --------
    >>> import spaql
    >>> spaql.problems.random_travel(number=3).name
    'random-travel 2-3, arrivals in a plane'
    """
    recipe = draw(family, number)
    if plain:
        recipe = replace(recipe, unit=1.0, zero=0.0)
    head = [recipe.dimensions, len(recipe.parts), recipe.cost, recipe.floored, recipe.unit, recipe.zero]
    cube = Box(np.zeros(recipe.dimensions), np.ones(recipe.dimensions))
    name = f"random-travel {family}-{number}{' plain' if plain else ''}, {recipe.kind}"
    step = _deposits if recipe.kind.startswith("deposits") else _arrivals
    parameters = np.concatenate([head, recipe.start, recipe.parts.ravel()])
    arguments = {"family": family, "number": number} | ({"plain": True} if plain else {})
    return Problem(name, step, _reset, cube, cube, recipe.horizon, parameters=parameters, arguments=arguments)


@lru_cache(1024)
def random_travel_optimum(*, family: int = 2, number: int = 0) -> float:
    """Return the largest mean return of r alone that any policy can have.

    That is without unit and zero; see `random_travel_share`.

    Parameters
    ----------
    family, number
        As of `random_travel`.

    Returns
    -------
    float
        The optimum of the plain problem.

    Examples
    --------
    >>> import spaql
    >>> round(spaql.problems.random_travel_optimum(number=3), 3)
    5.345
    """
    recipe = draw(family, number)
    if recipe.kind.startswith("deposits"):
        return _best_of_deposits(recipe)
    return sum(_best_of_arrivals(recipe, d) for d in range(recipe.dimensions)) / recipe.dimensions


def random_travel_share(mean: float, *, family: int = 2, number: int = 0, plain: bool = False) -> float:
    """Return the share of the optimum that a policy of this mean return earns, whatever the unit and the zero.

    Parameters
    ----------
    mean
        Mean return of a policy.
    family, number, plain
        As of `random_travel`.

    Returns
    -------
    float
        1 for an optimal policy.

    Examples
    --------
    >>> from spaql.problems import random_travel_optimum, random_travel_share
    >>> random_travel_share(random_travel_optimum(number=3), number=3, plain=True)
    1.0
    """
    recipe = draw(family, number)
    earned = mean if plain else (mean - recipe.horizon * recipe.zero) / recipe.unit
    return earned / random_travel_optimum(family=family, number=number)


def _best_of_deposits(recipe: Recipe) -> float:
    """Dynamic programme among the places of the module's docstring."""
    lines = [np.unique([0.0, 1.0, recipe.start[d], *recipe.parts[:, 2 + d]]) for d in range(recipe.dimensions)]
    places = np.array(list(product(*lines)))
    miss = np.abs(places[:, None] - recipe.parts[None, :, 2:]).sum(axis=2)
    found = (recipe.parts[:, 0] * np.exp(-miss / recipe.parts[:, 1])).max(axis=1)
    way = np.abs(places[:, None] - places[None]).sum(axis=2) / recipe.dimensions
    reward = found - recipe.cost * way
    if recipe.floored:
        reward = np.maximum(0.0, reward)
    value = np.zeros(len(places))
    for _ in range(recipe.horizon):
        value = (reward + value).max(axis=1)
    return float(value[(places == recipe.start).all(axis=1)][0])


def _best_of_arrivals(recipe: Recipe, coordinate: int, cells: int = 20_000) -> float:
    """Optimum of one coordinate alone: R(start) + (H - 1) E R(X), with R(x) the best expected reward from x."""
    shares = np.diff(recipe.parts[:, 0], prepend=0.0)
    laws = [BetaArrivals(*recipe.parts[k, 1 + 2 * coordinate : 3 + 2 * coordinate]) for k in range(len(shares))]
    edges = np.linspace(0.0, 1.0, cells + 1)
    points = np.append(0.5 * (edges[1:] + edges[:-1]), recipe.start[coordinate])
    places = np.unique(np.concatenate([edges, points]))  # staying where one is must be possible
    weights = sum(share * np.diff(law(edges)) for share, law in zip(shares, laws, strict=True))
    distance = sum(share * law.distance(places) for share, law in zip(shares, laws, strict=True))
    best = upper_envelope(places, 1.0 - (1.0 - recipe.cost) * distance, recipe.cost, points)
    return float(best[-1] + (recipe.horizon - 1) * (weights @ best[:-1]))
