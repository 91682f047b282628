"""What is an environment, its options, and the ranges of what it shows."""

import math

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import spaql
from environments_for_tests import ENDLESS, F32, F64, NESTED, Dial, Toy, assert_one_sentence
from spaql.errors import ParameterError
from spaql.gym.problem import GymnasiumProblem
from test_laws import assert_same_cells

pytestmark = pytest.mark.compiled_only  # but for the process of its own at the end

# What is an environment -----------------------------------------------------------------------------------------------


def test_ids_instances_and_factories_are_the_same_environment():
    options = {"seed": 4, "bounds": {1: (-3, 3), 3: (-3.5, 3.5)}}
    given = ["CartPole-v1", gymnasium.make("CartPole-v1"), lambda: gymnasium.make("CartPole-v1")]
    agents = [spaql.Tessera(each, **options).learn(iterations=15) for each in given]
    for agent in agents[1:]:
        np.testing.assert_array_equal(agent.history, agents[0].history)
        assert_same_cells(agent.cells(), agents[0].cells())
        np.testing.assert_array_equal(agent.evaluate(3).returns, agents[0].evaluate(3).returns)
    assert {agent.problem.name for agent in agents} == {"CartPole-v1"}
    assert {agent.problem.horizon for agent in agents} == {500}
    assert "'CartPole-v1'" in repr(agents[0])


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ("Nowhere-v0", "environment: 'Nowhere-v0' cannot be made: Environment `Nowhere` doesn't exist"),
        ("no_such_module:Thing-v0", "problem 'no_such_module:Thing-v0': there is no module 'no_such_module' here"),
        ("CartPole-v99", "environment: 'CartPole-v99' cannot be made"),
        (None, "problem: expected a spaql Problem"),
        (3, "problem: expected a spaql Problem"),
        (lambda: 3, "environment: .* made 3, not a gymnasium.Env"),
    ],
)
def test_what_is_no_environment_is_refused(environment, says):
    with pytest.raises(ParameterError, match=rf"^{says}") as caught:
        spaql.Tessera(environment)
    assert_one_sentence(caught)


def test_names_that_rules_show_are_known():
    by_name, by_place = (
        spaql.GymnasiumProblem("CartPole-v1", bounds=bounds)
        for bounds in ({"velocity": (-3, 3), "angular velocity": (-4, 4)}, {1: (-3, 3), 3: (-4, 4)})
    )
    np.testing.assert_array_equal(by_name.states.low, by_place.states.low)
    np.testing.assert_array_equal(by_name.states.high, by_place.states.high)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"bounds": {"x": (0, 1)}}, "bounds: 'x' is no observed number; there are position, velocity, angle,"),
        (
            {"bounds": {"velocity": (0, 1), 1: (0, 2)}},
            "bounds: 'velocity' and 1 are the same number; give one of them",
        ),
        ({"bounds": {4: (0, 1)}}, "bounds: 4 is no observed number"),
        ({"bounds": {-1: (0, 1)}}, "bounds: -1 is no observed number"),
        ({"bounds": {True: (0, 1)}}, "bounds: True is no observed number"),
        ({"bounds": {0: (1, 0)}}, "bounds of 0: bounds must be finite with low below high"),
        ({"bounds": {0: (1, 1)}}, "bounds of 0: bounds must be finite with low below high"),
        ({"bounds": {0: (0, np.inf)}}, "bounds of 0: expected a finite number, got inf"),
        ({"bounds": {0: ("a", "b")}}, "bounds of 0: expected a finite number, got 'a'"),
        ({"bounds": {0: ([0, 1], [2, 3])}}, r"bounds of 0: expected a finite number, got \[0, 1\]"),
        ({"bounds": {0: 3}}, r"bounds: expected \(low, high\) for 0, got 3"),
        ({"bounds": [(0, 1)]}, "bounds: expected a mapping from names or places"),
        ({"periodic": "speed"}, "periodic: 'speed' is no observed number"),
        ({"periodic": [7]}, "periodic: 7 is no observed number"),
        ({"periodic": 2.5}, "periodic: 2.5 is no observed number"),
        ({"periodic": [1]}, r"periodic: 1 has no bounds, so no period; give bounds=\{'1': \(low, high\)\}"),
        ({"horizon": 0}, "horizon: expected a whole number of at least 1"),
        ({"horizon": 2.5}, "horizon: expected a whole number of at least 1"),
        ({"warm_up": 9}, "warm_up: expected a whole number of at least 10"),
        ({"warm_up": "long"}, "warm_up: expected a whole number of at least 10"),
        ({"wind": 3}, "wind: no agent has such a parameter, and environments have bounds, periodic, horizon, warm_up,"),
        ({"seed": -1}, "seed: expected a whole number of at least 0"),
    ],
)
@pytest.mark.parametrize("agent", [spaql.Tessera, spaql.SPAQL, spaql.AQL, spaql.Random])
def test_bad_options_are_refused(options, says, agent):
    with pytest.raises(ParameterError, match=rf"^{says}") as caught:
        agent("CartPole-v1", **options)
    assert_one_sentence(caught)


def test_options_and_seeds_of_the_problem_itself():
    for name in ("bounds", "periodic", "horizon", "warm_up"):
        with pytest.raises(ParameterError, match=rf"^{name}: for Gymnasium environments only; 'oil laplace 10' has"):
            spaql.Tessera("oil", **{name: 3})
    for seed in (-1, 1.5, "0", 2**64):
        with pytest.raises(ParameterError, match=r"^seed: expected a whole number"):
            GymnasiumProblem("CartPole-v1", seed=seed)
    shared = GymnasiumProblem("Pendulum-v1", seed=3)
    assert spaql.Tessera(shared).problem is shared
    with pytest.raises(ParameterError, match=r"^horizon: for Gymnasium environments only; 'Pendulum-v1' has its own"):
        spaql.Tessera(shared, horizon=3)


def test_horizons():
    assert GymnasiumProblem("MountainCarContinuous-v0").horizon == 999
    assert GymnasiumProblem("MountainCarContinuous-v0", horizon=7).horizon == 7
    agent = spaql.Tessera(Toy(length=10**9), horizon=7).learn(iterations=3)
    assert agent.training_steps == 21
    assert agent.evaluate(4).steps == 28
    agent = spaql.Tessera(gymnasium.make("CartPole-v1", max_episode_steps=5), bounds={1: (-3, 3), 3: (-3, 3)}).learn(
        iterations=4
    )
    assert (agent.problem.horizon, agent.training_steps) == (5, 20)


def test_too_few_and_too_many_steps_are_refused_with_advice():
    for environment, options, advice in (
        (
            Toy(length=10**9),
            {},
            "1000 steps, after a warm-up of 1000; give at least 2000, or a shorter horizon=, as the environment has no "
            "limit of its own",
        ),
        (Toy(), {}, "6 steps, after a warm-up of 30; give at least 36"),
        (Toy(), {"horizon": 900}, "900 steps; give at least 900"),
        (
            Toy(ENDLESS, length=10**9),
            {"warm_up": 50},
            "1000 steps, after a warm-up of 50; give at least 1050, or a shorter horizon=.*",
        ),
        (gymnasium.wrappers.TimeLimit(Toy(), 700), {}, "700 steps; give at least 700"),
    ):
        agent = spaql.Tessera(environment, **options)
        with pytest.raises(
            ParameterError, match=rf"^total_timesteps: 6 is too few; one iteration takes up to {advice}$"
        ):
            agent.learn(total_timesteps=6)
    agent = spaql.Tessera(Toy(), horizon=6)
    for many in (2**62 + 1, 2**63, 10**30):
        with pytest.raises(
            ParameterError, match=r"^total_timesteps: expected a whole number of at least 1 and at most"
        ):
            agent.learn(total_timesteps=many)
    assert agent.learn(iterations=2).learn(total_timesteps=2**62, callback=lambda agent: False).iterations > 2


def test_the_horizon_is_that_of_the_wrappers_and_of_a_problem_inside():
    limited = gymnasium.wrappers.TimeLimit
    assert GymnasiumProblem(limited(Toy(), 7)).horizon == 7
    assert GymnasiumProblem(gymnasium.wrappers.FlattenObservation(limited(Toy(), 7))).horizon == 7
    assert GymnasiumProblem(limited(limited(Toy(), 7), 70)).horizon == 7
    assert GymnasiumProblem(limited(Toy(), 7), horizon=70).horizon == 70
    cart = limited(gymnasium.make("CartPole-v1"), 5000)  # whose inner limit is met first
    assert GymnasiumProblem(cart, bounds={1: (-3, 3), 3: (-3, 3)}).horizon == 500
    assert GymnasiumProblem("spaql/Oil-v0").horizon == GymnasiumProblem("spaql/Ambulance-v0").horizon == 5
    assert GymnasiumProblem(gymnasium.make("spaql/Ambulance-v0", horizon=9)).horizon == 9
    assert GymnasiumProblem(gymnasium.make("spaql/Oil-v0", horizon=9, max_episode_steps=4)).horizon == 4
    agent = spaql.Tessera("spaql/Oil-v0").learn(total_timesteps=50)
    assert (agent.iterations, agent.steps_per_iteration) == (10, 5)


def drifting(env, outcome):
    """Observations from 10 to 20; the reward is what was seen."""
    value = 10.0 + 10.0 * env.np_random.random(1)
    return value, float(value[0]), *outcome[2:]


def test_unknown_ranges_are_learned_once_and_stay():
    env = Toy(ENDLESS, twist=drifting, start=lambda env: np.array([15.0]))
    problem = GymnasiumProblem(env, warm_up=500, seed=1)
    assert problem.warm_up_steps == env.steps == 500
    low, high = problem.states.low[0], problem.states.high[0]
    assert 5.0 <= low <= 5.5  # half as much again as from the 1st to the 99th percentile
    assert 24.5 <= high <= 25.0
    agent = spaql.Tessera(problem, seed=1).learn(iterations=20)
    env.twist = lambda env, outcome: (np.array([1e6]), *outcome[1:])
    agent.learn(iterations=20)
    assert (problem.states.low[0], problem.states.high[0]) == (low, high)
    assert problem.clipped[0] >= 20 * 6
    assert agent.predict([1e9])[0] == agent.predict([high])[0]


def test_only_unknown_sides_and_numbers_are_learned():
    space = spaces.Box(np.array([0.0, -np.inf, -3.0, -1e30]), np.array([np.inf, 2.0, 4.0, 1e30]), dtype=F64)

    def shown(env):
        return np.array([env.np_random.random(), 2.0 - env.np_random.random(), 0.0, 5.0])

    env = Toy(space, twist=lambda env, outcome: (shown(env), *outcome[1:]), start=shown)
    problem = GymnasiumProblem(env, warm_up=200)
    assert problem.states.low[0] == 0.0
    assert 1.2 < problem.states.high[0] < 1.6
    assert problem.states.high[1] == 2.0
    assert 0.4 < problem.states.low[1] < 0.8
    assert (problem.states.low[2], problem.states.high[2]) == (-3.0, 4.0)
    assert problem.states.low[3] < 5.0 < problem.states.high[3]  # a constant has a box around it
    assert GymnasiumProblem(env, bounds={0: (0, 1), 1: (0, 1), 3: (0, 9)}, horizon=6).warm_up_steps == 0


def test_a_constant_observation_will_do():
    env = Toy(spaces.Box(3, 3, (1,), F64), start=lambda env: np.array([3.0]))
    assert spaql.Tessera(env, horizon=6).learn(iterations=5).predict([3.0])[0] in (0, 1)
    for far in (1e12, 1e17, -3e38):
        states = GymnasiumProblem(Toy(spaces.Box(far, far, (1,), F64))).states
        assert states.low[0] < far < states.high[0]


def test_a_box_with_a_constant_among_others():
    space = spaces.Box(np.array([0.0, 1.0]), np.array([1.0, 1.0]), dtype=F64)
    agent = spaql.Tessera(Toy(space), horizon=6).learn(iterations=20)
    assert (agent.problem.states.low[0], agent.problem.states.high[0]) == (0.0, 1.0)
    assert not agent.problem.clipped.any()


@pytest.mark.parametrize(("low", "high"), [(0.0, np.inf), (-np.inf, 0.0), (0.0, 3.4e38), (-3.4e38, 3.4e38)])
@pytest.mark.parametrize("shown", [-5.0, 0.0, 5.0])
@pytest.mark.parametrize("shape", [(1,), ()])
def test_ranges_without_bounds_whatever_is_shown(low, high, shown, shape):
    """Also where it lies on the side that has a bound."""
    value = np.full(shape, shown, F32)
    env = Toy(
        spaces.Box(low, high, shape, F32),
        twist=lambda env, outcome: (value, *outcome[1:]),
        start=lambda env: value,
    )
    agent = spaql.Tessera(env, horizon=6, warm_up=20).learn(iterations=5)
    assert agent.problem.states.low[0] <= shown <= agent.problem.states.high[0]
    assert not agent.problem.clipped.any()
    assert agent.predict(value)[0] in (0, 1)


def test_warm_up_steps_count_as_training():
    for make in (spaql.Tessera, spaql.SPAQL, spaql.AQL):
        env = Toy(ENDLESS, twist=drifting, start=lambda env: np.array([15.0]))
        agent = make(env, warm_up=100, horizon=6)
        assert agent.training_steps == env.steps == 100
        agent.learn(iterations=2)
        assert agent.training_steps + agent.selection_steps + agent.monitoring_steps == env.steps


def test_warm_ups_are_the_seed_s():
    ranges = [spaql.Random("CartPole-v1", seed=seed, warm_up=100).problem.states for seed in (0, 0, 1)]
    assert ranges[0].high.tolist() == ranges[1].high.tolist()
    assert ranges[0].high.tolist() != ranges[2].high.tolist()


def test_bounds_by_name_and_by_place():
    named = GymnasiumProblem(Toy(NESTED), bounds={"wind[1]": (-9, 9), "inner.gear": (0, 10)})
    at = named.names.index("wind[1]")
    placed = GymnasiumProblem(Toy(NESTED), bounds={at: (-9, 9), np.int64(1): (0, 10)})
    for problem in (named, placed):
        assert (problem.states.low[at], problem.states.high[at]) == (-9.0, 9.0)
        assert (problem.states.low[1], problem.states.high[1]) == (0.0, 10.0)
        assert problem.states.high[at - 1] == 2.0


def test_an_angle_comes_round():
    problem = GymnasiumProblem(Dial(), bounds={0: (-math.pi, math.pi)}, periodic=0)
    for eps in (1e-9, 0.1, 1.0, 3.0):
        near = [[-math.pi + eps], [math.pi + eps], [5 * math.pi + eps], [-3 * math.pi + eps]]
        points, _ = problem.encode(near)
        np.testing.assert_allclose(points, np.full((4, 1), eps / (2 * math.pi)), atol=1e-12)
    inside, _ = problem.encode(np.random.default_rng(0).normal(0.0, 1e3, (500, 1)))
    assert ((inside >= 0.0) & (inside <= 1.0)).all()
    turning = spaql.Tessera(Dial, seed=0, horizon=50, bounds={"0": (-math.pi, math.pi)}, periodic=["0"])
    turning.learn(total_timesteps=4000)
    assert not turning.problem.clipped.any()
    assert turning.evaluate(10).mean > 45.0
    angles = np.linspace(-3.0, 3.0, 50)[:, None]
    for turns in (-2, 1, 7):
        np.testing.assert_array_equal(turning.predict(angles)[0], turning.predict(angles + 2 * math.pi * turns)[0])
    stuck = spaql.Tessera(Dial, seed=0, horizon=50, bounds={0: (-math.pi, math.pi)}).learn(total_timesteps=4000)
    assert stuck.problem.clipped[0] > 1000  # an angle that does not come round leaves its range for ever
    assert stuck.evaluate(10).mean < 40.0


def test_what_is_outside_is_counted_and_is_the_border():
    env = Toy(ENDLESS, twist=drifting, start=lambda env: np.array([15.0]))
    agent = spaql.Tessera(env, bounds={0: (10, 15)}, horizon=6, seed=0).learn(iterations=100)
    clipped = agent.problem.clipped
    assert clipped.shape == (1,)
    assert 0.4 < clipped[0] / agent.training_steps < 0.6
    following = agent._past().following
    assert len(following) == agent.training_steps
    assert np.mean(following[:, 0] == 1.0) == pytest.approx(clipped[0] / agent.training_steps)
    before = agent.problem.clipped[0]
    agent.evaluate(5)
    agent.predict([[99.0], [-99.0]])
    assert agent.problem.clipped[0] == before  # evaluations do not count
    clipped[:] = 0
    assert agent.problem.clipped[0] == before


@pytest.mark.parametrize("periodic", [(), (0,)])
def test_bounds_may_be_absurdly_narrow(periodic):
    env = Toy(twist=lambda env, outcome: (np.array([1e200]), *outcome[1:]))
    agent = spaql.Tessera(env, bounds={0: (-1e-200, 1e-200)}, periodic=periodic, horizon=6).learn(iterations=5)
    assert agent.training_steps == 30
    far, _ = agent.problem.encode([[1e200], [-1e200], [0.0]])
    assert far.ravel().tolist() == ([0.0, 0.0, 0.5] if periodic else [1.0, 0.0, 0.5])
    agent.predict([1e200])
