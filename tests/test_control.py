"""Classic control: every step equals Gymnasium's own."""

import math
from functools import cache

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from numba.core import config
from scipy import stats

import spaql
from spaql.errors import ParameterError
from spaql.gym.environments import ProblemEnvironment
from spaql.partition.rng import Purpose, stream, uniform
from spaql.problems import PROBLEMS, Discrete, acrobot, cartpole, mountaincar, pendulum
from spaql.problems.base import RAN, SOME_ENDED

SLOW = config.DISABLE_JIT


STEPS = 300 if SLOW else 5000

DRAWS = 200 if SLOW else 4000

TWINS = {
    "cartpole": "CartPole-v1",
    "mountaincar": "MountainCar-v0",
    "mountaincar-continuous": "MountainCarContinuous-v0",
    "acrobot": "Acrobot-v1",
    "pendulum": "Pendulum-v1",
}

every_twin = pytest.mark.parametrize("name", TWINS)


@cache
def ours(name):
    return PROBLEMS[name]()


@cache
def theirs(name):
    return gymnasium.make(TWINS[name]).unwrapped


# One step from the same state -----------------------------------------------------------------------------------------


def place(name, hidden):
    """Gymnasium's environment in the state of our hidden numbers, each in the type that Gymnasium itself uses."""
    environment = theirs(name)
    environment.state = np.array(hidden, float)
    if name == "mountaincar-continuous":
        environment.state = np.array(hidden[:2], float if hidden[2] else np.float32)
    elif name == "mountaincar":
        environment.state = tuple(np.array(hidden, float))
    elif name == "cartpole":
        environment.steps_beyond_terminated = None
    return environment


def hidden_of(name, fresh=False):
    """Our hidden numbers for the state that Gymnasium's environment is in."""
    state = np.array(theirs(name).state, float)
    return np.append(state, float(fresh)) if name == "mountaincar-continuous" else state


def seen(name, hidden):
    problem = ours(name)
    observation = np.full(problem.states.dimensions, np.nan)
    problem.observe(np.array(hidden, float), np.array(problem.parameters), observation)
    return observation


def assert_same_to_the_last_place(got, expected):
    """Float32 numbers that are equal, or neighbours."""
    expected = np.asarray(expected)
    assert expected.dtype == np.float32
    np.testing.assert_array_equal(got, np.float32(got))
    assert (np.abs(got - expected) <= np.spacing(np.abs(expected))).all(), (got, expected)


def compare(name, hidden, action):
    """Play the action from this state in both worlds; whether the episode ended."""
    problem, environment = ours(name), place(name, hidden)
    finite = isinstance(problem.actions, Discrete)
    played = int(action) if finite else np.array([action], np.float32)
    expected, reward, terminated, truncated, _ = environment.step(played)
    following = np.full(len(hidden), np.nan)
    random = stream(0, Purpose.TRAINING)
    before = random.copy()
    # Ours is handed the action as drawn, in float64: it has to round where Gymnasium's space does.
    got, ended = problem.step(
        np.array(hidden, float), np.array([float(action)]), np.array(problem.parameters), random, following
    )
    np.testing.assert_array_equal(random, before)  # nothing here is random
    np.testing.assert_allclose(following, hidden_of(name), rtol=0.0, atol=1e-12)
    assert got == pytest.approx(reward, rel=0.0, abs=1e-12)
    assert bool(ended) is bool(terminated)
    assert not truncated
    assert_same_to_the_last_place(seen(name, following), expected)
    return bool(ended)


def any_action(name, draws):
    actions = ours(name).actions
    if isinstance(actions, Discrete):
        return int(draws.integers(actions.count))
    low, high = actions.low[0], actions.high[0]
    return float(draws.choice([low, 0.0, high, draws.uniform(low, high)]))


def pumping(name, hidden):
    """An action that brings the car and the double pendulum to their goals: push the way it moves already."""
    speed = hidden[2] if name == "acrobot" else hidden[1]
    if isinstance(ours(name).actions, Discrete):
        count = ours(name).actions.count
        return count - 1 if (speed >= 0.0) != (name == "acrobot") else 0
    return ours(name).actions.high[0] if speed >= 0.0 else ours(name).actions.low[0]


@every_twin
def test_every_step_of_long_trajectories_equals_gymnasium_s(name):
    """Actions last, so that walls, limits and goals are met; half of the episodes pump."""
    draws = np.random.default_rng(7)
    ended = elapsed = 0
    low = high = None
    episode = -1
    hidden = None
    for _ in range(STEPS):
        if hidden is None:
            theirs(name).reset(seed=int(draws.integers(2**31)))
            hidden = hidden_of(name, fresh=True)
            episode, elapsed, action = episode + 1, 0, any_action(name, draws)
        if draws.random() < 0.1:
            action = any_action(name, draws)
        over = compare(name, hidden, pumping(name, hidden) if episode % 2 else action)
        hidden = hidden_of(name)
        low = hidden.copy() if low is None else np.minimum(low, hidden)
        high = hidden.copy() if high is None else np.maximum(high, hidden)
        elapsed += 1
        if over or elapsed == 400:
            ended += over
            hidden = None
    if not SLOW:
        assert (ended == 0) == (name == "pendulum")
        if name == "pendulum":
            assert (low[1], high[1]) == (-8.0, 8.0)
        if name.startswith("mountaincar"):
            assert low[0] == pytest.approx(-1.2, abs=1e-7)  # the wall
            assert high[0] > 0.44


EDGES = {
    "cartpole": [
        (-4.8, -2.4, np.nextafter(-2.4, 0), 0.0, 2.39999, 2.4, 2.5),
        (-3.0, 0.0, 0.5, 1e3),
        (-0.21, -12 * 2 * math.pi / 360, 0.0, 12 * 2 * math.pi / 360, 0.2094395, 1.5),
        (-3.5, 0.0, 0.3, 40.0),
    ],
    "mountaincar": [
        (-1.2, np.nextafter(-1.2, 0), -1.1999, -0.5, 0.4999999, 0.5, 0.5999, 0.6),
        (-0.07, -0.0699, -1e-9, 0.0, 1e-9, 0.0689, 0.07),
    ],
    "mountaincar-continuous": [
        [float(np.float32(v)) for v in (-1.2, -1.1999999, -1.15, -0.5, 0.4499999, 0.45, 0.46, 0.5999, 0.6)],
        [float(np.float32(v)) for v in (-0.07, -0.0699, -1e-9, 0.0, 1e-9, 0.0689, 0.07)],
        (0.0,),
    ],
    "acrobot": [
        (-math.pi, -1.0, 0.0, 2.0, math.pi),
        (-math.pi, 0.0, 1.0, math.pi),
        (-4 * math.pi, 0.0, 12.5, 4 * math.pi),
        (-9 * math.pi, 0.0, 28.0, 9 * math.pi),
    ],
    "pendulum": [
        (-7 * math.pi, -math.pi, -1e-12, 0.0, 1.0, math.pi, np.nextafter(math.pi, 4), 100.0, 1e4),
        (-8.0, -7.999, 0.0, 7.99999, 8.0),
    ],
}


@every_twin
def test_every_step_from_states_near_the_limits_equals_gymnasium_s(name):
    draws = np.random.default_rng(8)
    actions = ours(name).actions
    choices = (
        range(actions.count) if isinstance(actions, Discrete) else (actions.low[0], 0.0, 1e-8, 0.3, actions.high[0])
    )
    grid = np.array(np.meshgrid(*EDGES[name], indexing="ij")).reshape(len(EDGES[name]), -1).T
    if len(grid) > STEPS // 4:
        grid = grid[draws.choice(len(grid), STEPS // 4, replace=False)]
    ends = 0
    for hidden in grid:
        for action in choices:
            ends += compare(name, hidden, action)
    assert (ends == 0) == (name == "pendulum")


@every_twin
def test_every_step_from_anywhere_equals_gymnasium_s(name):
    draws = np.random.default_rng(9)
    corners = np.array([[edge[0], edge[-1]] for edge in EDGES[name]], float)
    for _ in range(STEPS // 4):
        hidden = draws.uniform(corners[:, 0], corners[:, 1])
        if name == "mountaincar-continuous":
            hidden = np.append(np.float32(hidden[:2]).astype(float), 0.0)
        compare(name, hidden, any_action(name, draws))


@every_twin
def test_whole_episodes_equal_gymnasium_s(name):
    """Nothing is put right on the way: from one start, under the same actions, the same episode."""
    draws = np.random.default_rng(10)
    problem, environment = ours(name), theirs(name)
    parameters, random = np.array(problem.parameters), stream(0, Purpose.TRAINING)
    for _ in range(2 if SLOW else 10):
        environment.reset(seed=int(draws.integers(2**31)))
        hidden, action = hidden_of(name, fresh=True), any_action(name, draws)
        place(name, hidden)
        for _ in range(100):
            if draws.random() < 0.2:
                action = any_action(name, draws)
            played = int(action) if isinstance(problem.actions, Discrete) else np.array([action], np.float32)
            expected, reward, terminated, _, _ = environment.step(played)
            following = np.empty(len(hidden))
            got, ended = problem.step(hidden, np.array([float(action)]), parameters, random, following)
            hidden = following
            np.testing.assert_allclose(seen(name, hidden), expected, rtol=0.0, atol=1e-5)
            assert (got, ended) == (pytest.approx(reward, abs=1e-5), terminated)
            if ended:
                break


def test_gravity_is_gymnasium_s_g():
    problem, environment = pendulum(gravity=3.7), gymnasium.make("Pendulum-v1", g=3.7).unwrapped
    environment.reset(seed=0)
    environment.state = np.array([2.0, 0.5])
    following = np.empty(2)
    reward, _ = problem.step(
        np.array([2.0, 0.5]), np.array([0.5]), np.array(problem.parameters), stream(0, 0), following
    )
    expected = environment.step(np.array([0.5], np.float32))[1]
    np.testing.assert_allclose(following, environment.state, rtol=0.0, atol=1e-12)
    assert reward == pytest.approx(expected, abs=1e-12)


EFFECTS = {"cartpole": 0.3, "mountaincar": 0.001, "mountaincar-continuous": 0.001, "acrobot": 1.0, "pendulum": 0.3}
DRIVEN = {"cartpole": 3, "mountaincar": 1, "mountaincar-continuous": 1, "acrobot": 3, "pendulum": 1}


@every_twin
def test_noise_is_added_to_the_speed_that_the_action_drives(name):
    problem, at = PROBLEMS[name](noise=0.5), DRIVEN[name]
    random, action = stream(12, Purpose.TRAINING_ENVIRONMENT), np.array([1.0])
    state = np.array([-0.5, 0.0, 0.1, 0.0])[: problem.hidden]
    clean = np.empty_like(state)
    reward, ended = ours(name).step(state, action, np.array(ours(name).parameters), random, clean)
    rows = np.empty((DRAWS, len(state)))
    for row in rows:
        assert problem.step(state, action, np.array(problem.parameters), random, row) == (reward, ended)
    noise = rows[:, at] - clean[at]
    if name == "acrobot":  # the effect of a torque of 1, which is nearly linear
        other = np.empty_like(state)
        ours(name).step(state, action + 1.0, np.array(ours(name).parameters), random, other)
        noise /= other[at] - clean[at]
    else:
        np.testing.assert_array_equal(np.delete(rows, at, axis=1), np.tile(np.delete(clean, at), (DRAWS, 1)))
    deviation = 0.5 * EFFECTS[name]
    assert abs(noise.mean()) < 5.0 * deviation / math.sqrt(DRAWS)
    assert noise.std() == pytest.approx(deviation, rel=5.0 / math.sqrt(2 * DRAWS))
    assert problem.arguments["noise"] == 0.5


@every_twin
def test_much_noise_leaves_no_space(name):
    assert spaql.Random(PROBLEMS[name](noise=100.0, horizon=50), seed=1).evaluate(3 if SLOW else 100).steps > 0


# Spaces, starts, ends -------------------------------------------------------------------------------------------------


@every_twin
def test_spaces_and_limits_are_gymnasium_s(name):
    problem, environment = ours(name), gymnasium.make(TWINS[name])
    assert problem.horizon == environment.spec.max_episode_steps
    space = environment.observation_space
    bounded = np.isfinite(space.low) & np.isfinite(space.high)
    np.testing.assert_array_equal(problem.states.low[bounded], space.low[bounded])
    np.testing.assert_array_equal(problem.states.high[bounded], space.high[bounded])
    assert bounded.all() == (name != "cartpole")
    if isinstance(problem.actions, Discrete):
        assert problem.actions.count == environment.action_space.n
    else:
        np.testing.assert_array_equal(problem.actions.low, environment.action_space.low)
        np.testing.assert_array_equal(problem.actions.high, environment.action_space.high)


@every_twin
def test_starts_follow_gymnasium_s_law(name):
    problem, environment = ours(name), theirs(name)
    parameters, random = np.array(problem.parameters), stream(11, Purpose.TRAINING_ENVIRONMENT)
    rows = np.full((DRAWS, problem.hidden), np.nan)
    for row in rows:
        problem.reset(parameters, random, row)
    environment.reset(seed=11)
    expected = np.empty_like(rows)
    for k in range(DRAWS):
        environment.reset()
        expected[k] = hidden_of(name, fresh=True)
    bounds = {
        "cartpole": [(-0.05, 0.05)] * 4,
        "mountaincar": [(-0.6, -0.4), (0.0, 0.0)],
        "mountaincar-continuous": [(-0.6, -0.4), (0.0, 0.0), (1.0, 1.0)],
        "acrobot": [(-0.1, 0.1)] * 4,
        "pendulum": [(-math.pi, math.pi), (-1.0, 1.0)],
    }[name]
    for d, (low, high) in enumerate(bounds):
        drawn = rows[:, d]
        if low == high:
            assert (drawn == low).all()
            continue
        slack = 1e-8 if name == "acrobot" else 0.0  # float32
        assert low - slack <= drawn.min() < drawn.max() <= high + slack
        error = (high - low) / math.sqrt(12 * DRAWS)
        assert abs(drawn.mean() - (low + high) / 2) < 5.0 * error
        assert drawn.std() == pytest.approx((high - low) / math.sqrt(12), rel=5.0 / math.sqrt(DRAWS))
        assert stats.ks_2samp(drawn, expected[:, d]).pvalue > 1e-4
        for other in range(d):
            if bounds[other][0] < bounds[other][1]:
                assert abs(np.corrcoef(drawn, rows[:, other])[0, 1]) < 5.0 / math.sqrt(DRAWS)
    if name == "acrobot":
        np.testing.assert_array_equal(rows, np.float32(rows))


def played_by(problem, seed, episodes):
    """Random actions through the compiled world: per episode the points, and per step (action, reward, ended)."""
    advance, begin = (getattr(move, "ctypes", move) for move in problem.moves)
    agent, world = stream(seed, Purpose.TRAINING), stream(seed, Purpose.TRAINING_ENVIRONMENT)
    frame = problem.frame(1)
    at = [a.ctypes.data for a in (frame.states, frame.points, frame.actions, frame.outcomes)]
    tail = problem.world.constants.ctypes.data, world.ctypes.data
    for _ in range(episodes):
        assert begin(1, *at[:2], *tail) == RAN
        points, moves = [frame.points[0].copy()], []
        for _ in range(problem.horizon):
            u = uniform(agent)
            frame.actions[0] = math.floor(u * problem.actions.count) if isinstance(problem.actions, Discrete) else u
            status = advance(1, *at, *tail)
            points.append(frame.points[0].copy())
            moves.append((frame.actions[0].copy(), frame.outcomes[0, 0], bool(status & SOME_ENDED)))
            if status & SOME_ENDED:
                break
        yield points, moves


@every_twin
def test_the_environment_shows_what_the_compiled_world_shows(name):
    problem = PROBLEMS[name](horizon=40)
    environment = ProblemEnvironment(problem)
    for k, (points, moves) in enumerate(played_by(problem, 5, 2 if SLOW else 12)):
        observation, _ = environment.reset(seed=5 if k == 0 else None)
        assert observation.shape == (problem.states.dimensions,)
        np.testing.assert_array_equal(problem.encode(observation)[0][0], points[0])
        for h, (action, reward, ended) in enumerate(moves):
            played = int(action[0]) if isinstance(problem.actions, Discrete) else action
            observation, got, terminated, truncated, _ = environment.step(played)
            assert environment.observation_space.contains(observation)
            np.testing.assert_array_equal(problem.encode(observation)[0][0], points[h + 1])
            assert (got, terminated, truncated) == (reward, ended, h + 1 == problem.horizon)


@every_twin
def test_gymnasium_finds_nothing_wrong_with_the_environment(name, recwarn):
    check_env(ProblemEnvironment(ours(name)), skip_render_check=True)
    told = {str(w.message) for w in recwarn if "overflow encountered in scalar" not in str(w.message)}  # JIT off
    recwarn.clear()
    assert all("symmetric and normalized space" in each for each in told)  # Pendulum-v1's own torque


@every_twin
def test_random_scores_the_same_here_and_there(name):
    episodes = 3 if SLOW else 60
    horizon = 20 if SLOW else 100
    here = spaql.Random(PROBLEMS[name](horizon=horizon)).evaluate(10 if SLOW else 3000)
    there = spaql.Random(TWINS[name], horizon=horizon, warm_up=10).evaluate(episodes)
    error = math.hypot(np.std(here.returns), np.std(there.returns)) / math.sqrt(episodes)
    assert abs(here.mean - there.mean) <= 5.0 * error + 1e-9


@pytest.mark.compiled_only
def test_a_policy_learned_here_does_as_well_there():
    agent = spaql.Tessera("cartpole", seed=0).learn(total_timesteps=20_000)
    here, lengths = agent.evaluate(200), []
    environment = gymnasium.make("CartPole-v1")
    for k in range(12):
        observation, _ = environment.reset(seed=k)
        over = False
        lengths.append(0)
        while not over:
            action, _ = agent.predict(observation)
            observation, _, terminated, truncated, _ = environment.step(action)
            lengths[-1] += 1
            over = terminated or truncated
    error = math.hypot(here.returns.std(), np.std(lengths)) / math.sqrt(len(lengths))
    assert abs(np.mean(lengths) - here.mean) < 5.0 * error + 1e-9
    assert here.mean > 100.0 > 40.0 > spaql.Random("cartpole").evaluate(200).mean


@pytest.mark.compiled_only
@pytest.mark.parametrize(("name", "steps"), [("pendulum", 6_000), ("cartpole", 4_000)])
def test_learning_here_and_there_agrees(name, steps):
    """The same agent on the same number of steps; only the random numbers of where episodes begin are others."""
    here, there = (
        np.array([spaql.Tessera(env, seed=k).learn(total_timesteps=steps).evaluate(episodes=12).mean for k in range(5)])
        for env in (name, TWINS[name])
    )
    errors = [part.std() / math.sqrt(len(part) - 1) for part in (here, there)]
    assert abs(here.mean() - there.mean()) < 3.0 * math.hypot(*errors)
    untaught = spaql.Random(name).evaluate(500).mean
    assert here.mean() - 3.0 * errors[0] > untaught < there.mean() - 3.0 * errors[1]  # both have learned


@pytest.mark.parametrize("name", ["cartpole", "acrobot", "mountaincar"])
def test_velocities_beyond_the_range_are_its_border_or_a_fault(name):
    problem = ours(name)
    beyond = problem.states.high * 2.0
    if name == "cartpole":
        np.testing.assert_array_equal(problem.encode(beyond)[0], np.ones((1, 4)))
        np.testing.assert_array_equal(problem.encode([beyond, -beyond])[0], [[1.0] * 4, [0.0] * 4])
    else:
        with pytest.raises(ParameterError, match=r"observation: .* is outside the space"):
            problem.encode(beyond)
    with pytest.raises(ParameterError, match=r"observation: .*nan.* is outside the space"):
        problem.encode(np.full(problem.states.dimensions, np.nan))


@pytest.mark.parametrize(
    ("make", "arguments", "says"),
    [
        (cartpole, {"velocities": (0.0, 1.0)}, "velocities: expected a finite number above 0"),
        (cartpole, {"velocities": (1.0, math.inf)}, "velocities: expected a finite number above 0"),
        (cartpole, {"velocities": ("1", 1.0)}, "velocities: expected a finite number above 0"),
        (cartpole, {"velocities": 3.0}, "velocities: expected two numbers"),
        (cartpole, {"velocities": (3.0,)}, "velocities: expected two numbers"),
        (cartpole, {"velocities": (3.0, 3.0, 3.0)}, "velocities: expected two numbers"),
        (pendulum, {"gravity": -1.0}, "gravity: expected a finite number of at least 0"),
        (pendulum, {"gravity": "much"}, "gravity: expected a finite number"),
        (acrobot, {"noise": -0.5}, "noise: expected a finite number of at least 0"),
        (cartpole, {"noise": math.nan}, "noise: expected a finite number of at least 0"),
        (mountaincar, {"horizon": 0}, "horizon: expected a whole number of at least 1"),
        (acrobot, {"horizon": 2.5}, "horizon: expected a whole number of at least 1"),
    ],
)
def test_bad_arguments_are_refused(make, arguments, says):
    with pytest.raises(ParameterError, match=rf"^{says}"):
        make(**arguments)
