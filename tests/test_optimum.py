"""The exact optimum against closed forms and against brute force written plainly here."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from spaql.errors import ParameterError, ProblemError
from spaql.problems.ambulance import travel_model
from spaql.problems.machine import machine
from spaql.problems.oil import DEPOSIT, laplace_survey, oil, quadratic_survey
from spaql.problems.optimum import BetaArrivals, Travel, optimum


def ambulance(cost, start, beta):
    return travel_model(cost, start, BetaArrivals(*(beta or (1.0, 1.0))))


def solve(model, horizon=5, **options):
    return optimum(SimpleNamespace(name="test", horizon=horizon, model=model), **options)


def reward(model, x, a):
    return np.maximum(model.floor, model.gain(np.asarray(a)) - model.travel * np.abs(x - np.asarray(a)))


def brute_force(model, horizon, cells):
    """Plain dynamic programming over every pair of grid points, and the largest error of its value.

    Between grid points the reward loses at most (steepness + travel) d and the next value travel d per step, and an
    arrival is at most d from the middle of its cell.
    """
    states = np.append((np.arange(cells) + 0.5) / cells, model.start)
    value = np.zeros(states.size)
    for _ in range(horizon):
        if model.arrivals is None:
            value = np.array([np.max(reward(model, x, states) + value) for x in states])
        else:
            chance = np.diff(model.arrivals(np.linspace(0.0, 1.0, cells + 1)))
            value = np.array([np.max(reward(model, x, states)) for x in states]) + chance @ value[:-1]
    return value[-1], horizon * (model.steepness + 2.0 * model.travel) / (2.0 * cells)


def bumpy(a):
    return 0.3 * np.sin(11.0 * a) + 0.6 * np.exp(-20.0 * np.abs(a - 0.83)) + 0.4 * a


BUMPY = Travel(bumpy, 15.7, travel=0.7, floor=-math.inf, start=0.15, arrivals=None)


# Oil ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sharpness", [0.134, 0.5, 1.0, 10.0, 50.0, 1000.0])
@pytest.mark.parametrize("horizon", [5, 8])
def test_quadratic_survey_stops_short(sharpness, horizon):
    # Going to a <= c at once and staying pays H (1 - s (c - a)^2) - a, largest at c - 1 / (2 s H); that is not
    # negative for s >= 1 / (2 H c).  Using the floor gives up a step, so at most H - 1, which is less.
    assert sharpness >= 1.0 / (2.0 * horizon * DEPOSIT)
    result = solve(quadratic_survey(sharpness, DEPOSIT, 0.0), horizon)
    exact = horizon - DEPOSIT + 1.0 / (4.0 * sharpness * horizon)
    assert result.tolerance <= 1e-5
    assert result.value <= exact + 1e-12
    assert exact <= result.value + result.tolerance
    # The value is flat at its peak: a place is found to the square root of the tolerance.
    stop = DEPOSIT - 1.0 / (2.0 * sharpness * horizon)
    assert result.policy([0.0])[0] == pytest.approx(stop, abs=math.sqrt(1e-5 / sharpness / horizon))


@pytest.mark.parametrize("sharpness", [0.0, 0.1, 0.132])
def test_quadratic_survey_too_blunt_to_travel(sharpness):
    assert sharpness < 1.0 / (2.0 * 5 * DEPOSIT)
    result = solve(quadratic_survey(sharpness, DEPOSIT, 0.0))
    assert result.value == pytest.approx(5.0 * (1.0 - sharpness * DEPOSIT**2), abs=result.tolerance)


@pytest.mark.parametrize("sharpness", [0.0, 0.1, 0.2, 0.217, 0.3, 1.0, 10.0, 50.0, 1000.0])
@pytest.mark.parametrize("horizon", [1, 2, 5])
def test_laplace_survey_goes_all_the_way_or_stays(sharpness, horizon):
    # H exp(-s (c - a)) - a is convex in a: its maximum is at an end.
    result = solve(laplace_survey(sharpness, DEPOSIT, 0.0), horizon)
    go, stay = horizon - DEPOSIT, horizon * math.exp(-sharpness * DEPOSIT)
    assert result.tolerance <= 1e-5
    assert max(go, stay) - result.tolerance <= result.value <= max(go, stay) + 1e-12
    assert result.policy([0.0])[0] == pytest.approx(DEPOSIT if go > stay else 0.0, abs=1e-5)
    assert (go > stay) == (sharpness > -math.log(1.0 - DEPOSIT / horizon) / DEPOSIT)


@pytest.mark.parametrize("survey", [laplace_survey, quadratic_survey])
@pytest.mark.parametrize("sharpness", [1.0, 50.0])
def test_start_at_the_deposit(survey, sharpness):
    result = solve(survey(sharpness, DEPOSIT, DEPOSIT), tolerance=1e-6)
    assert result.value == 5.0
    assert result.myopic == 5.0
    assert result.tolerance <= 1e-6
    assert result.policy([DEPOSIT])[0] == DEPOSIT


def test_tight_tolerance_is_cheap_at_a_peak():
    result = solve(laplace_survey(50.0, DEPOSIT, 0.0), tolerance=1e-11)
    assert result.tolerance <= 1e-11
    assert result.value == pytest.approx(5.0 - DEPOSIT, abs=1e-11)


@pytest.mark.parametrize(
    "model",
    [
        laplace_survey(1.0, DEPOSIT, 0.0),
        laplace_survey(10.0, DEPOSIT, 1.0),
        quadratic_survey(10.0, DEPOSIT, 0.0),
        replace(quadratic_survey(10.0, DEPOSIT, 0.0), travel=3.0),  # the floor pays the journey
        BUMPY,
        replace(BUMPY, start=0.999, travel=0.1),
        replace(BUMPY, floor=0.2, travel=2.5),
        replace(BUMPY, travel=0.0),
    ],
)
@pytest.mark.parametrize("horizon", [1, 2, 3])
def test_moves_against_brute_force(model, horizon):
    result = solve(model, horizon)
    coarse, error = brute_force(model, horizon, 600)
    assert result.tolerance <= 1e-5
    assert coarse - result.tolerance <= result.value <= coarse + error


@pytest.mark.parametrize("model", [BUMPY, replace(BUMPY, floor=0.2, travel=2.5), laplace_survey(50.0, DEPOSIT, 0.0)])
def test_lower_and_upper_bound_hold_at_any_tolerance(model):
    fine = solve(model, tolerance=1e-10)
    for tolerance in (1.0, 1e-2, 1e-4, 1e-6, 1e-8):
        result = solve(model, tolerance=tolerance)
        assert result.tolerance <= tolerance
        assert result.value - 1e-12 <= fine.value + fine.tolerance
        assert fine.value <= result.value + result.tolerance


@pytest.mark.parametrize("start", [0.0, 0.31, 0.5, 1.0])
@pytest.mark.parametrize("model", [BUMPY, quadratic_survey(1.0, DEPOSIT, 0.0), laplace_survey(10.0, DEPOSIT, 0.0)])
def test_policy_attains_the_value(model, start):
    model = replace(model, start=start)
    result = solve(model)
    optimal, myopic, x, y = 0.0, 0.0, start, start
    for step in range(5):
        a, b = float(result.policy([x], step)[0]), float(result.policy([y], 4)[0])  # the last step is greedy
        optimal, myopic = optimal + float(reward(model, x, a)), myopic + float(reward(model, y, b))
        x, y = a, b
    assert optimal == pytest.approx(result.value, abs=1e-12)
    assert myopic == pytest.approx(result.myopic, abs=1e-12)


def test_policy_is_near_optimal_away_from_the_start():
    model = quadratic_survey(10.0, DEPOSIT, 0.0)
    states = np.linspace(0.0, 1.0, 21)
    result, here, total = solve(model), states, np.zeros(21)
    for step in range(5):
        there = result.policy(here, step)
        total += reward(model, here, there)
        here = there
    from_there = [solve(replace(model, start=x)) for x in states]
    assert np.all(total >= [other.value - 1e-5 for other in from_there])


def test_floor_lets_the_last_steps_stay():
    # Far from the deposit with one step left nothing clears the floor: the nearest of the equals is where it is.
    model = replace(quadratic_survey(50.0, DEPOSIT, 0.0), travel=3.0)
    result = solve(model)
    assert result.policy([0.0], step=4)[0] == 0.0
    assert result.policy([0.0], step=0)[0] == pytest.approx(DEPOSIT, abs=0.01)  # free at the floor
    assert result.myopic == 0.0


# Myopic ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sharpness", [1.0, 10.0, 50.0])
def test_myopic_quadratic(sharpness):
    # 1 - s (a - c)^2 - a is largest at c - 1 / (2 s), and from there to stay.
    short = 1.0 / (2.0 * sharpness)
    result = solve(quadratic_survey(sharpness, DEPOSIT, 0.0))
    assert result.myopic == pytest.approx(5.0 * (1.0 - sharpness * short**2) - (DEPOSIT - short), abs=1e-5)
    assert result.myopic < result.value


def test_myopic_laplace():
    # With sharpness 1 a step towards the deposit costs more than it gains at once: never move.
    assert solve(laplace_survey(1.0, DEPOSIT, 0.0)).myopic == pytest.approx(5.0 * math.exp(-DEPOSIT), abs=1e-12)
    for sharpness in (10.0, 50.0):
        result = solve(laplace_survey(sharpness, DEPOSIT, 0.0))
        assert result.myopic == pytest.approx(5.0 - DEPOSIT, abs=1e-5)


def test_myopic_by_plain_search():
    model = replace(BUMPY, travel=1.2)  # dear enough to stay on the small bump
    result, x, total = solve(model), model.start, 0.0
    for _ in range(5):
        places = np.append(np.linspace(0.0, 1.0, 200_001), x)
        rewards = reward(model, x, places)
        total, x = total + rewards.max(), places[rewards.argmax()]
    assert result.myopic == pytest.approx(total, abs=1e-4)
    assert result.myopic < result.value - 0.1


# Ambulance ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("beta", "law"), [(None, stats.uniform()), ((5.0, 2.0), stats.beta(5, 2))])
def test_ambulance_without_relocation_cost_waits_at_the_median(beta, law):
    result = solve(ambulance(0.0, 0.5, beta))
    exact = 5.0 * (1.0 - law.expect(lambda x: abs(x - law.median()), epsabs=1e-10))
    assert result.value == pytest.approx(exact, abs=1e-8)
    assert result.tolerance <= 1e-5
    np.testing.assert_allclose(result.policy([0.0, 0.5, 1.0]), law.median(), atol=1e-5)
    if beta is None:
        assert result.value == pytest.approx(3.75, abs=1e-12)


@pytest.mark.parametrize("beta", [None, (5.0, 2.0)])
def test_ambulance_with_only_relocation_cost_stays(beta):
    result = solve(ambulance(1.0, 0.5, beta))
    assert result.value == pytest.approx(5.0, abs=1e-12)
    np.testing.assert_allclose(result.policy([0.0, 0.3, 0.5, 1.0], step=3), [0.0, 0.3, 0.5, 1.0], atol=2e-6)


def test_ambulance_uniform_in_fractions():
    # Stay where |gain'| <= cost, on [1/3, 2/3]; go to the nearer end from elsewhere.  See the integrals of each piece.
    middle = Fraction(1) - Fraction(3, 4) * Fraction(1, 4)
    inside = 2 * (Fraction(1, 6) * Fraction(5, 8) + Fraction(3, 4) * Fraction(13, 324))
    outside = 2 * Fraction(1, 3) * (Fraction(19, 24) - Fraction(1, 4) * Fraction(1, 6))
    result = solve(ambulance(0.25, 0.5, None))
    assert result.value == pytest.approx(float(middle + 4 * (inside + outside)), abs=1e-9)
    np.testing.assert_allclose(result.policy([0.0, 0.4, 1.0]), [1 / 3, 0.4, 2 / 3], atol=1e-5)


@pytest.mark.parametrize("beta", [None, (5.0, 2.0), (0.5, 0.5), (2.0, 7.0)])
@pytest.mark.parametrize("horizon", [1, 5])
def test_ambulance_against_brute_force(beta, horizon):
    model = ambulance(0.25, 0.5, beta)
    result = solve(model, horizon)
    coarse, error = brute_force(model, horizon, 1000)
    assert result.tolerance <= 1e-5
    assert result.value == pytest.approx(coarse, abs=error + 1e-5)
    assert result.value == pytest.approx(coarse, abs=1e-5)  # both are far better than their bounds
    assert result.myopic == result.value


@pytest.mark.parametrize("beta", [(5.0, 2.0), (1.0, 1.0), (0.5, 3.0)])
def test_mean_distance_of_arrivals(beta):
    model, law = ambulance(0.0, 0.5, beta), stats.beta(*beta)
    assert model.arrivals is not None
    for place in (0.0, 0.2, 0.7, 1.0):
        # Both halves of E|X - a| by parts: integrals of the distribution function.
        x = np.linspace(0.0, 1.0, 20_001)
        below = np.where(x <= place, law.cdf(x), law.sf(x))
        expected = 1.0 - np.trapezoid(below, x)
        assert model.gain(np.array([place]))[0] == pytest.approx(expected, abs=1e-4)
        assert model.arrivals(np.array([place]))[0] == pytest.approx(law.cdf(place), abs=1e-12)


def test_ambulance_policy_attains_the_value_in_simulation():
    model, random, episodes = ambulance(0.25, 0.5, (5.0, 2.0)), np.random.default_rng(0), 200_000
    result = solve(model)
    x, total = np.full(episodes, 0.5), np.zeros(episodes)
    for step in range(5):
        a, call = result.policy(x, step), random.beta(5.0, 2.0, episodes)
        total += 1.0 - 0.25 * np.abs(x - a) - 0.75 * np.abs(call - a)
        x = call
    assert total.mean() == pytest.approx(result.value, abs=5.0 * total.std() / math.sqrt(episodes))


def test_arrivals_with_a_floor():
    model = replace(ambulance(0.9, 0.0, (5.0, 2.0)), floor=0.95)
    coarse, error = brute_force(model, 5, 1000)
    assert solve(model).value == pytest.approx(coarse, abs=error)
    assert solve(model).value > solve(replace(model, floor=-math.inf)).value + 0.01


# Everything --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model", [laplace_survey(10.0, DEPOSIT, 0.0), quadratic_survey(1.0, DEPOSIT, 0.2), ambulance(0.25, 0.1, (5.0, 2.0))]
)
def test_value_grows_with_the_horizon(model):
    results = [solve(model, horizon) for horizon in range(1, 9)]
    values = [result.value for result in results]
    assert all(a < b for a, b in pairwise(values))
    assert all(result.myopic <= result.value + 1e-12 for result in results)
    assert results[0].myopic == pytest.approx(results[0].value, abs=results[0].tolerance)  # one step has no future


def test_states_of_any_number():
    result = solve(quadratic_survey(10.0, DEPOSIT, 0.0))
    states = np.random.default_rng(1).random(1000)
    before = states.copy()
    together = result.policy(states, 2)
    assert together.shape == (1000,)
    assert np.array_equal(states, before)
    assert np.array_equal(together, np.concatenate([result.policy(states[i : i + 1], 2) for i in range(1000)]))
    assert result.policy([]).shape == (0,)


def test_tolerance_out_of_reach_is_stated(monkeypatch):
    monkeypatch.setattr("spaql.problems.optimum._MOST_CORRIDOR_NUMBERS", 2**20)
    monkeypatch.setattr("spaql.problems.optimum._MOST_ARRIVAL_CELLS", 2**18)
    # Nothing distinguishes the places, so no cell can be dropped and memory ends the search.
    model = Travel(np.zeros_like, 1000.0, travel=0.0, floor=-math.inf, start=0.5, arrivals=None)
    result = solve(model, tolerance=1e-6)
    assert result.value == 0.0
    assert 1e-6 < result.tolerance < 1.0
    result = solve(ambulance(0.5, 0.5, None), horizon=1000, tolerance=1e-9)
    assert 1e-9 < result.tolerance < 1e-2


def test_tolerance_below_rounding_ends():
    result = solve(laplace_survey(50.0, DEPOSIT, 0.0), horizon=200, tolerance=1e-12)
    assert 1e-12 < result.tolerance < 1e-9
    assert result.value == pytest.approx(200.0 - DEPOSIT, abs=result.tolerance)


def test_without_a_model():
    with pytest.raises(ValueError, match="'mystery' has no model") as caught:
        optimum(SimpleNamespace(name="mystery", horizon=5, model=None))
    assert isinstance(caught.value, ProblemError)


def test_a_built_in_problem_may_be_named():
    assert optimum("machine").value == optimum(machine()).value
    assert optimum("oil", survey="laplace").value == optimum(oil(survey="laplace")).value
    with pytest.raises(ParameterError, match="problem 'oil': got an unexpected keyword argument 'surveys'; its argum"):
        optimum("oil", surveys="laplace")
    with pytest.raises(ParameterError, match="'survey' is an argument of a problem that is named"):
        optimum(oil(), survey="laplace")
    with pytest.raises(ProblemError, match=r"'CartPole-v1' is not one of .*; give the problem itself"):
        optimum("CartPole-v1")


def test_a_wide_tolerance_is_said_to_be_bounds():
    wide = optimum("ambulances", count=4)
    assert wide.kind == "bounds"
    assert wide.tolerance > 1e-3 * wide.value
    assert optimum("oil").kind == "exact"


def test_states_outside_the_space_are_refused():
    known = optimum(machine())
    for states in ([math.nan], [1e9], [-1.0], [[0.5, 0.5]]):
        with pytest.raises(ParameterError, match="policy: states: "):
            known.policy(states)
    assert known.policy([0.0, 1.0]).shape == (2,)
    assert known.policy([[0.0], [1.0]]).shape == (2, 1)
    assert optimum(oil()).policy(0.5).shape == ()


@pytest.mark.parametrize("tolerance", [0.0, -1.0, 1e-13, math.nan, math.inf])
def test_bad_tolerance(tolerance):
    with pytest.raises(ValueError, match="tolerance"):
        solve(BUMPY, tolerance=tolerance)


def test_bad_steps_states_and_horizon():
    result = solve(BUMPY)
    for step in (-1, 5):
        with pytest.raises(ValueError, match=r"step must be in 0\.\.4"):
            result.policy([0.5], step)
    for states in ([1.1], [0.5, math.nan]):
        with pytest.raises(ValueError, match="states"):
            result.policy(states)
    with pytest.raises(ValueError, match="horizon"):
        solve(BUMPY, 0)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: laplace_survey(-1.0, 0.5, 0.0), "steepness"),
        (lambda: quadratic_survey(math.nan, 0.5, 0.0), "steepness"),
        (lambda: laplace_survey(1.0, 0.5, -0.1), "start"),
        (lambda: ambulance(1.5, 0.5, None), "steepness"),
        (lambda: replace(BUMPY, travel=-1.0), "travel"),
        (lambda: replace(BUMPY, steepness=math.inf), "steepness"),
        (lambda: replace(BUMPY, floor=math.nan), "floor"),
    ],
)
def test_bad_models(make, match):
    with pytest.raises(ValueError, match=match):
        make()
