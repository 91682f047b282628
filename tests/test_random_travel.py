"""Random problems: fixed by their numbers, of every kind, and their optimum is one."""

import numpy as np
import pytest

import spaql
from planning_for_tests import usual_plans
from spaql.agents import resolve
from spaql.errors import ParameterError
from spaql.problems import random_travel, random_travel_optimum, random_travel_share
from spaql.problems.random_travel import KINDS, draw

NUMBERS = range(12)


@pytest.mark.parametrize("number", NUMBERS)
def test_the_numbers_fix_the_problem(number):
    one, same, other = (
        random_travel(family=3, number=number),
        random_travel(family=3, number=number),
        random_travel(family=4, number=number),
    )
    np.testing.assert_array_equal(one.parameters, same.parameters)
    assert not np.array_equal(one.parameters, other.parameters)
    assert random_travel(**one.arguments).name == one.name
    assert KINDS[number % 4] in one.name


def test_families_are_as_various_as_promised():
    recipes = [draw(1, number) for number in range(400)]
    assert {recipe.kind for recipe in recipes} == set(KINDS)
    horizons = {recipe.horizon for recipe in recipes}
    assert min(horizons) == 2
    assert max(horizons) >= 48
    assert min(recipe.unit for recipe in recipes) < 0.02
    assert max(recipe.unit for recipe in recipes) > 50.0
    assert {len(recipe.parts) for recipe in recipes} == {1, 2, 3, 4, 5}
    assert {recipe.cost for recipe in recipes} >= {0.0, 1.0}
    assert sum(recipe.zero < -recipe.unit for recipe in recipes) > 100


@pytest.mark.parametrize("number", [n for n in NUMBERS if KINDS[n % 4].startswith("deposits")])
def test_no_grid_of_places_is_better_than_the_optimum_of_deposits(number):
    """The same programme on a grid through the deposits and the start: never better, and as good."""
    recipe, problem = draw(5, number), random_travel(family=5, number=number)
    count = 400 if recipe.dimensions == 1 else 14
    lines = [
        np.unique([*np.linspace(0.0, 1.0, count), recipe.start[d], *recipe.parts[:, 2 + d]])
        for d in range(recipe.dimensions)
    ]
    places = np.stack(np.meshgrid(*lines, indexing="ij"), axis=-1).reshape(-1, recipe.dimensions)
    reward = np.empty((len(places), len(places)))
    following, random = np.empty(recipe.dimensions), np.zeros(4, np.uint64)
    found = np.empty(len(places))
    for j, a in enumerate(places):  # what is found there, from the step itself: standing still costs nothing
        found[j] = (problem.step(a, a, np.array(problem.parameters), random, following)[0] - recipe.zero) / recipe.unit
    way = np.abs(places[:, None] - places[None]).sum(axis=2) / recipe.dimensions
    reward = found[None] - recipe.cost * way
    if recipe.floored:
        reward = np.maximum(0.0, reward)
    value = np.zeros(len(places))
    for _ in range(recipe.horizon):
        value = (reward + value).max(axis=1)
    best = float(value[(places == recipe.start).all(axis=1)][0])
    assert random_travel_optimum(family=5, number=number) == pytest.approx(best, rel=1e-9)


@pytest.mark.compiled_only
@pytest.mark.parametrize("number", [n for n in NUMBERS if KINDS[n % 4].startswith("arrivals")])
def test_no_policy_passes_the_optimum_of_arrivals(number):
    recipe, problem = draw(6, number), random_travel(family=6, number=number)
    with usual_plans():
        learned = spaql.Tessera(problem, seed=1).learn(total_timesteps=20_000)
        learned.cells()
    agents = [resolve("no-movement").make(problem, seed=1), learned]
    for agent in agents:
        fresh = agent.evaluate(4000)
        low, high = (random_travel_share(bound, family=6, number=number) for bound in fresh.interval)
        assert 0.0 < low <= high
        assert low <= 1.0 + 1e-9
    assert high > 0.95
    if recipe.cost == 1.0:
        assert random_travel_share(agents[0].evaluate(10).mean, family=6, number=number) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("bad", [{"family": -1}, {"number": 0.5}, {"number": 2**40}])
def test_bad_numbers_are_refused(bad):
    with pytest.raises(ParameterError, match=f"^{next(iter(bad))}: expected"):
        random_travel(**bad)


@pytest.mark.parametrize("number", [n for n in NUMBERS if KINDS[n % 4].startswith("deposits")])
def test_a_step_between_deposits_pays_what_the_programme_says(number):
    recipe, problem = draw(5, number), random_travel(family=5, number=number)
    random, following = np.random.default_rng(number), np.empty(recipe.dimensions)
    for _ in range(50):
        x, a = random.random((2, recipe.dimensions))
        miss = np.abs(a - recipe.parts[:, 2:]).sum(axis=1)
        found = (recipe.parts[:, 0] * np.exp(-miss / recipe.parts[:, 1])).max()
        expected = found - recipe.cost * np.abs(x - a).sum() / recipe.dimensions
        expected = recipe.unit * (max(0.0, expected) if recipe.floored else expected) + recipe.zero
        reward, ended = problem.step(x, a, np.array(problem.parameters), np.zeros(4, np.uint64), following)
        assert reward == pytest.approx(expected, rel=1e-9)
        assert not ended
        np.testing.assert_array_equal(following, a)


@pytest.mark.parametrize("number", [n for n in NUMBERS if KINDS[n % 4].startswith("arrivals")])
def test_the_optimum_of_arrivals_is_what_drawn_calls_say(number):
    """Calls drawn from the mixture, the best place by trial, and no formula of ours."""
    recipe, random = draw(5, number), np.random.default_rng(number)
    shares = np.diff(recipe.parts[:, 0], prepend=0.0)
    parts = random.choice(len(shares), 400_000, p=shares)
    total = 0.0
    for d in range(recipe.dimensions):
        calls = np.sort(random.beta(*recipe.parts[parts, 1 + 2 * d : 3 + 2 * d].T))
        places, before = np.linspace(0.0, 1.0, 1001), np.append(0.0, np.cumsum(calls))
        at = np.searchsorted(calls, places)
        far = (places * at - before[at] + (before[-1] - before[at]) - places * (calls.size - at)) / calls.size

        def best(x, places=places, far=far):
            way = recipe.cost * np.abs(x[:, None] - places) + (1.0 - recipe.cost) * far
            return 1.0 - way.min(axis=1)

        some = calls[:: calls.size // 2000]
        total += best(recipe.start[d : d + 1])[0] + (recipe.horizon - 1) * best(some).mean()
    assert random_travel_optimum(family=5, number=number) == pytest.approx(total / recipe.dimensions, rel=1e-3)
