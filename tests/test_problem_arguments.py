"""Arguments of problems and agents, and the laws that problems obey."""

import math

import numpy as np
import pytest
from scipy import stats

import spaql
from contract_for_tests import MAKERS, SLOW, assert_refused
from spaql.agents import resolve
from spaql.agents.rollouts import play_episodes
from spaql.errors import ParameterError
from spaql.partition.rng import Purpose, stream
from spaql.problems import ambulance, oil
from spaql.problems.ambulance import _beta_calls
from spaql.problems.oil import DEPOSIT
from spaql.problems.optimum import optimum

# Arguments of the paper's problems ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "name", "value"),
    [
        (oil, "survey", "cubic"),
        (oil, "survey", None),
        (oil, "sharpness", -1.0),
        (oil, "sharpness", 0.0),
        (oil, "sharpness", math.nan),
        (oil, "sharpness", "sharp"),
        (oil, "sharpness", True),
        (oil, "deposit", 1.5),
        (oil, "start", -0.1),
        (oil, "start", math.inf),
        (ambulance, "arrivals", "normal"),
        (ambulance, "cost", -0.1),
        (ambulance, "cost", 1.1),
        (ambulance, "cost", math.nan),
        (ambulance, "start", 2.0),
        (ambulance, "shape", 3.0),
        (ambulance, "shape", (5.0,)),
        (ambulance, "shape", (5.0, 2.0, 1.0)),
        (ambulance, "shape", (0.0, 2.0)),
        (ambulance, "shape", (5.0, -2.0)),
        (ambulance, "shape", (math.nan, 2.0)),
        (ambulance, "shape", ("a", 2.0)),
    ],
)
def test_bad_arguments_are_refused(build, name, value):
    assert_refused(ParameterError, lambda: build(**{name: value}), f"{name}: expected")


def test_the_optimum_is_a_function_of_the_package():
    assert spaql.optimum(ambulance(cost=1.0)).value == pytest.approx(5.0)


def test_arguments_are_remembered():
    for build, arguments in (
        (oil, {"survey": "quadratic", "sharpness": 3.0, "deposit": 0.2, "start": 0.9, "horizon": 7}),
        (ambulance, {"arrivals": "beta", "cost": 0.5, "shape": (1.5, 2.5), "start": 0.1, "horizon": 2}),
        (ambulance, {"arrivals": "uniform", "cost": 1.0, "start": 0.1, "horizon": 2}),
    ):
        problem = build(**arguments)
        assert problem.arguments == arguments
        assert build(**problem.arguments).arguments == arguments


# Arguments of agents ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("Tessera", "exploration", 0.0),
        ("Tessera", "exploration", 1.1),
        ("Tessera", "exploration", math.nan),
        ("Tessera", "leaves", 0),
        ("Tessera", "leaves", 1025),
        ("Tessera", "leaves", 2.5),
        ("Tessera", "buffer_size", 9),
        ("Tessera", "disable", "everything"),
        ("Tessera", "disable", 3),
        ("Tessera", "seed", -1),
        ("published", "scaling", -0.1),
        ("published", "scaling", math.nan),
        ("published", "scaling", math.inf),
        ("published", "rollouts", 0),
        ("published", "rollouts", 2.5),
        ("published", "temperature_min", 0.0),
        ("published", "temperature_max", 0.001),
        ("published", "heat", 1.0),
        ("published", "heat", 0.5),
        ("published", "heat_decay", 0.0),
        ("published", "heat_decay", 1.1),
        ("published", "splits_before_reset", 0),
        ("published", "seed", -1),
        ("published", "seed", 1.0),
        ("published", "seed", None),
        ("published", "seed", True),
        ("AQL", "scaling", -1.0),
        ("AQL", "rollouts", -1),
        ("AQL", "seed", 0.5),
        ("Random", "seed", -5),
        ("Median", "seed", "7"),
    ],
)
def test_bad_parameters_of_agents_are_refused(kind, name, value):
    assert_refused(ParameterError, lambda: MAKERS[kind](ambulance(), **{name: value}), f"{name}: expected", repr(value))


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize(("problem", "says"), [(None, "problem: expected"), (3, "problem: expected"), ("ale", "'ale'")])
def test_an_agent_needs_a_problem(kind, problem, says):
    assert_refused(ParameterError, lambda: MAKERS[kind](problem), says)


@pytest.mark.parametrize("problem", ["ambulance", ambulance])
def test_a_problem_has_a_name_and_a_maker(problem):
    assert resolve("median").make(problem).problem.name == ambulance().name


@pytest.mark.parametrize("kind", ["Tessera", "published", "AQL"])
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "either iterations or total_timesteps"),
        ({"iterations": 1, "total_timesteps": 1000}, "either iterations or total_timesteps"),
        ({"iterations": 0}, "iterations"),
        ({"iterations": -3}, "iterations"),
        ({"iterations": 2.5}, "iterations"),
        ({"iterations": True}, "iterations"),
        ({"total_timesteps": 0}, "total_timesteps"),
        ({"total_timesteps": 4}, "total_timesteps: 4 is too few"),
        ({"total_timesteps": 1e6 + 0.5}, "total_timesteps"),
    ],
)
def test_bad_amounts_of_learning_are_refused(kind, arguments, says):
    agent = MAKERS[kind](oil())
    assert_refused(ParameterError, lambda: agent.learn(**arguments), says)
    assert agent.iterations == agent.training_steps == agent.selection_steps == 0


@pytest.mark.parametrize("kind", ["Tessera", "published", "AQL", "Random", "Median"])
@pytest.mark.parametrize(
    "observation",
    [[1.5], [-1e-9], [math.nan], [math.inf], [0.5, 0.5], [], [[[0.5]]], "here", None, [[0.5], [2.0]], [[0.5, 0.5]]],
)
def test_bad_observations_are_refused(kind, observation):
    agent = MAKERS[kind](ambulance(), seed=0).learn(iterations=1)
    assert_refused(ParameterError, lambda: agent.predict(observation), "observation")


@pytest.mark.parametrize("state", [[-1], [5], [0, 1], "now", [None]])
def test_bad_time_steps_are_refused(state):
    agent = spaql.AQL(ambulance(), rollouts=1).learn(iterations=1)
    assert_refused(ParameterError, lambda: agent.predict([0.5], state=state), "state")


@pytest.mark.parametrize("starts", [[True, False], [], "yes"])
def test_bad_episode_starts_are_refused(starts):
    agent = spaql.AQL(ambulance(), rollouts=1).learn(iterations=1)
    assert_refused(ParameterError, lambda: agent.predict([0.5], episode_start=starts), "episode_start")


@pytest.mark.parametrize(
    "arguments", [{"episodes": 1}, {"episodes": 2.5}, {"episodes": True}, {"seed": -1}, {"seed": 0.5}]
)
def test_bad_evaluations_are_refused(arguments):
    agent = spaql.Random(ambulance())
    assert_refused(ParameterError, lambda: agent.evaluate(**arguments), f"{next(iter(arguments))}: expected")


# Rewards and laws ---------------------------------------------------------------------------------------------


def play(problem, x, a, random):
    """One step through the problem's own function: reward, next state, ended."""
    following = np.zeros(1)
    reward, ended = problem.step(np.array([x]), np.array([a]), np.array(problem.parameters), random, following)
    return reward, float(following[0]), ended


@pytest.mark.parametrize(("x", "a"), [(0.0, 0.0), (0.2, 0.9), (DEPOSIT, DEPOSIT), (1.0, 0.7), (0.75, 0.74)])
@pytest.mark.parametrize("sharpness", [1.0, 10.0, 50.0])
def test_rewards_of_oil(x, a, sharpness):
    laplace, quadratic = (oil(survey=s, sharpness=sharpness) for s in ("laplace", "quadratic"))
    random = stream(0, 0)
    expected = max(0.0, math.exp(-sharpness * abs(a - DEPOSIT)) - abs(x - a))
    assert play(laplace, x, a, random) == (pytest.approx(expected, abs=1e-15), a, False)
    expected = max(0.0, 1.0 - sharpness * (a - DEPOSIT) ** 2 - abs(x - a))
    assert play(quadratic, x, a, random) == (pytest.approx(expected, abs=1e-15), a, False)
    np.testing.assert_array_equal(random, stream(0, 0))  # oil draws nothing


def test_rewards_of_oil_by_hand():
    problem = oil(survey="quadratic", sharpness=2.0, deposit=0.5)
    assert play(problem, 0.25, 0.75, stream(0, 0))[0] == 1.0 - 2.0 * 0.0625 - 0.5
    problem = oil(survey="laplace", sharpness=math.log(2.0) * 4.0, deposit=0.5)
    assert play(problem, 0.625, 0.75, stream(0, 0))[0] == pytest.approx(0.5 - 0.125)


@pytest.mark.parametrize(("arrivals", "shape"), [("uniform", None), ("beta", (5.0, 2.0)), ("beta", (0.7, 3.3))])
@pytest.mark.parametrize("cost", [0.0, 0.25, 1.0])
def test_rewards_of_the_ambulance(arrivals, shape, cost):
    problem = ambulance(arrivals=arrivals, shape=shape, cost=cost)
    random = stream(0, 0)
    for x, a in ((0.5, 0.5), (0.0, 1.0), (0.3, 0.8)):
        reward, call, ended = play(problem, x, a, random)
        assert 0.0 <= call <= 1.0
        assert not ended
        assert reward == pytest.approx(1.0 - cost * abs(x - a) - (1.0 - cost) * abs(call - a), abs=1e-15)


def calls(problem, step=None, count=300 if SLOW else 20_000):
    """Places of so many calls."""
    random, constants = stream(3, 0), np.array(problem.parameters)
    x, a, following, places = np.array([0.5]), np.array([0.5]), np.zeros(1), np.empty(count)
    for i in range(count):
        (step or problem.step)(x, a, constants, random, following)
        places[i] = following[0]
    return places


@pytest.mark.parametrize(
    "shape", [(5.0, 2.0), (1.0, 2.0), (15.0, 2.0), (16.0, 2.0), (5.0, 2.5), (0.3, 0.4), (1.0, 1.0)]
)
def test_calls_follow_the_beta_distribution(shape):
    problem = ambulance(shape=shape)
    for step in (None, _beta_calls):
        assert stats.kstest(calls(problem, step), "beta", args=shape).pvalue > 1e-3


def test_uniform_calls_are_uniform():
    assert stats.kstest(calls(ambulance(arrivals="uniform")), "uniform").pvalue > 1e-3


def test_the_two_ways_to_draw_beta_5_2_agree():
    problem = ambulance()
    assert problem.step is not _beta_calls
    assert stats.ks_2samp(calls(problem), calls(problem, _beta_calls)).pvalue > 1e-3


def mean_distance(p, q):
    """E|X - a| of X ~ Beta(p, q) and uniform a: the mean of 1/2 - X (1 - X)."""
    mean = p / (p + q)
    square = mean * (p + 1.0) / (p + q + 1.0)
    return 0.5 - mean + square


@pytest.mark.parametrize("cost", [0.0, 0.25, 1.0])
@pytest.mark.parametrize(("arrivals", "shape"), [("uniform", None), ("beta", (5.0, 2.0)), ("beta", (2.5, 0.5))])
def test_the_value_of_random_on_the_ambulance(cost, arrivals, shape):
    """Exact: H minus the mean drive, minus the mean relocation from 0.5 once and from a call otherwise."""
    problem = ambulance(arrivals=arrivals, shape=shape, cost=cost)
    drive = mean_distance(*(shape or (1.0, 1.0)))
    expected = 5.0 - 5.0 * (1.0 - cost) * drive - cost * (0.25 + 4.0 * drive)
    result = spaql.Random(problem, seed=0).evaluate(200 if SLOW else 20_000)
    assert abs(result.mean - expected) < 5.0 * result.returns.std() / math.sqrt(result.returns.size)


@pytest.mark.parametrize("shape", [(5.0, 2.0), (0.7, 3.3), (2.5, 0.5), (30.0, 30.0)])
def test_heuristics_are_mean_and_median(shape):
    law = stats.beta(*shape)
    for kind, expected in ((resolve("mean").make, law.mean()), (resolve("median").make, law.median())):
        action, _ = kind(ambulance(shape=shape)).predict([0.1])
        assert action[0] == pytest.approx(expected, abs=1e-4)
    for kind in (resolve("mean").make, resolve("median").make):
        assert kind(ambulance(arrivals="uniform")).predict([0.1])[0][0] == pytest.approx(0.5, abs=1e-9)


def test_no_movement_stays():
    agent = resolve("no-movement").make(ambulance(cost=1.0))
    assert agent.predict([0.3])[0].tolist() == [0.3]
    assert agent.evaluate(10).returns.tolist() == [5.0] * 10


@pytest.mark.parametrize("cost", [0.0, 0.25, 1.0])
def test_no_fixed_place_beats_the_median_where_driving_counts(cost):
    problem = ambulance(cost=cost)
    mean, median = (
        kind(problem).evaluate(200 if SLOW else 20_000, seed=1)
        for kind in (resolve("mean").make, resolve("median").make)
    )
    if cost == 0.0 and not SLOW:
        assert median.mean > mean.mean  # by the same calls
        assert abs(median.mean - optimum(problem).value) < 0.02
    assert median.mean <= optimum(problem).value + 5.0 * median.returns.std() / math.sqrt(median.returns.size)


def test_the_environment_s_stream_is_its_own():
    """The calls of an evaluation do not depend on the agent's draws."""
    problem = ambulance(cost=0.0)
    a = resolve("median").make(problem).evaluate(10, seed=4)
    frame, agent, world = problem.frame(10), stream(5, Purpose.EVALUATION), stream(4, Purpose.EVALUATION_ENVIRONMENT)
    policy = resolve("median").make(problem)._played()
    play_episodes(*policy, problem.world, frame, problem.horizon, 10, False, agent, world)
    np.testing.assert_array_equal(frame.returns[:10], a.returns)
