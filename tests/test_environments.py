"""Compiled problems as Gymnasium environments: Gymnasium's own checks, and the compiled loops' numbers bit by bit."""

import importlib
import subprocess
import sys
from functools import cache

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from numba.core import config

import spaql.gym.registration
import textbook
from problems_for_tests import box_world, finite_world
from spaql.agents import AQL, SPAQL
from spaql.agents import rollouts as episodes
from spaql.errors import ParameterError, ProblemError
from spaql.gym.environments import ProblemEnvironment
from spaql.partition.rng import Purpose, stream, uniform
from spaql.problems import Box, Discrete, Problem, ambulance, oil
from spaql.problems.base import SOME_ENDED
from test_textbook import PAIRS, boxes, cells, columns

EPISODES = 20
ITERATIONS = 15 if config.DISABLE_JIT else 80

BOX, FINITE = (cache(lambda world=world: world()[0]) for world in (box_world, finite_world))  # compiled once

PROBLEMS = {
    "oil": oil,
    "oil, quadratic, far start": lambda: oil(survey="quadratic", sharpness=50, start=0.3, horizon=9),
    "ambulance": ambulance,
    "ambulance, uniform": lambda: ambulance(arrivals="uniform", cost=0.0),
    "ambulance, gamma variates": lambda: ambulance(shape=(0.5, 1.5)),
    "box world": BOX,
    "finite world": FINITE,
}


def compiled(problem, seed, episode_count=EPISODES):
    """Play random actions through the problem's world; per episode the states and per step (action, reward, ended)."""
    advance, begin = (getattr(move, "ctypes", move) for move in problem.moves)
    agent, world = stream(seed, Purpose.TRAINING), stream(seed, Purpose.TRAINING_ENVIRONMENT)
    frame = problem.frame(1)
    state, point, action, outcome = (a.ctypes.data for a in (frame.states, frame.points, frame.actions, frame.outcomes))
    constants, random = problem.world.constants.ctypes.data, world.ctypes.data
    for _ in range(episode_count):
        begin(1, state, point, constants, random)
        states, moves = [frame.states[0].copy()], []
        for _ in range(problem.horizon):
            draws = np.array([uniform(agent) for _ in range(problem.actions.dimensions)])
            frame.actions[0] = np.floor(draws * problem.actions.count) if is_finite(problem) else draws
            status = advance(1, state, point, action, outcome, constants, random)
            states.append(frame.states[0].copy())
            # The wrapper has turned the unit action into the problem's units, in place.
            moves.append((frame.actions[0].copy(), frame.outcomes[0, 0], bool(status & SOME_ENDED)))
            if status & SOME_ENDED:
                break
        yield states, moves


def is_finite(problem):
    return isinstance(problem.actions, Discrete)


@pytest.mark.parametrize("seed", [0, 2**40])
@pytest.mark.parametrize("name", PROBLEMS)
def test_equals_the_compiled_world_bit_for_bit(name, seed):
    problem = PROBLEMS[name]()
    environment = ProblemEnvironment(problem)
    for k, (states, moves) in enumerate(compiled(problem, seed)):
        observation, _ = environment.reset(seed=seed if k == 0 else None)
        assert observation.tolist() == states[0].tolist()
        for h, (action, reward, ended) in enumerate(moves):
            played = int(action[0]) if is_finite(problem) else action
            observation, got, terminated, truncated, info = environment.step(played)
            assert observation.tolist() == states[h + 1].tolist()
            assert (got, terminated, truncated, info) == (reward, ended, h + 1 == problem.horizon, {})
        assert terminated or truncated


@pytest.mark.parametrize("name", PROBLEMS)
def test_sum_of_rewards_equals_the_compiled_loop(name):
    problem = PROBLEMS[name]()
    choices = problem.actions.count if is_finite(problem) else 0
    streams = stream(3, Purpose.TRAINING), stream(3, Purpose.TRAINING_ENVIRONMENT)
    _, steps, expected = episodes.simulate(
        problem.world, problem.frame(1), problem.horizon, EPISODES, choices, *streams
    )
    environment, agent = ProblemEnvironment(problem), stream(3, Purpose.TRAINING)
    total = played = 0.0
    for k in range(EPISODES):
        environment.reset(seed=3 if k == 0 else None)
        over = False
        while not over:
            u = np.array([uniform(agent) for _ in range(problem.actions.dimensions)])
            action = int(u[0] * choices) if choices else problem.actions.from_unit(u)
            _, reward, terminated, truncated, _ = environment.step(action)
            total, played, over = total + reward, played + 1, terminated or truncated
    assert (played, total) == (steps, expected)


class Through:
    """A textbook world whose training episodes are played by a Gymnasium environment, all others by its plain twin.

    The environment draws its own random numbers, so the textbook's training stream stays where it began: that is how
    training is told from selection and monitoring.
    """

    def __init__(self, problem, plain, seed):
        self.problem, self.plain, self.seed = problem, plain, seed
        self.environment = ProblemEnvironment(problem)
        self.untouched = textbook.Stream(seed, Purpose.TRAINING_ENVIRONMENT).s
        self.horizon, self.states, self.actions, self.unit = plain.horizon, plain.states, plain.actions, plain.unit
        self.trained = 0

    def reset(self, random):
        if random.s != self.untouched:
            return self.plain.reset(random)
        seed, self.seed = self.seed, None
        return tuple(self.environment.reset(seed=seed)[0].tolist())

    def step(self, x, a, random):
        if random.s != self.untouched:
            return self.plain.step(x, a, random)
        self.trained += 1
        action = int(a[0]) if is_finite(self.problem) else self.problem.actions.from_unit(np.array(a))
        observation, reward, terminated, _, _ = self.environment.step(action)
        return reward, tuple(observation.tolist()), terminated


pair = cache(lambda name: PAIRS[name]())


@pytest.mark.parametrize("name", PAIRS)
def test_textbook_aql_on_the_environment_equals_the_compiled_agent(name):
    problem, plain, choices = pair(name)
    world = Through(problem, plain, 5)
    partitions, history = textbook.aql(world, iterations=ITERATIONS, scaling=0.5, seed=5, rollouts=2, choices=choices)
    agent = AQL(problem, scaling=0.5, seed=5, rollouts=2).learn(iterations=ITERATIONS)
    assert world.trained == agent.training_steps
    for column, expected in columns(history, history[0]).items():
        np.testing.assert_array_equal(agent.history[column], expected, err_msg=column)
    for h, partition in enumerate(partitions):
        assert cells(agent.cells().at(h), problem) == boxes(partition.balls), f"time step {h}"


@pytest.mark.parametrize("name", PAIRS)
def test_textbook_spaql_on_the_environment_equals_the_compiled_agent(name):
    problem, plain, choices = pair(name)
    world = Through(problem, plain, 6)
    best, history = textbook.spaql(world, iterations=ITERATIONS, scaling=0.5, seed=6, rollouts=2, choices=choices)
    agent = SPAQL(problem, scaling=0.5, seed=6, rollouts=2).learn(iterations=ITERATIONS)
    assert world.trained == agent.training_steps
    for column, expected in columns(history, history[0]).items():
        np.testing.assert_array_equal(agent.history[column], expected, err_msg=column)
    assert cells(agent.cells(), problem) == boxes(best.balls)


# Gymnasium's side -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", spaql.gym.registration.ENVIRONMENTS)
def test_registered_environments_pass_gymnasiums_checks(name):
    check_env(gymnasium.make(name).unwrapped)  # its warnings are errors here (pyproject.toml)


@pytest.mark.parametrize("world", [BOX, FINITE])
def test_wrapped_problems_pass_gymnasiums_checks(world):
    check_env(ProblemEnvironment(world()), skip_render_check=True)  # no spec, so no other render modes to try


def test_spaces():
    environment = ProblemEnvironment(BOX())
    for space in (environment.observation_space, environment.action_space):
        assert space == gymnasium.spaces.Box(np.array([-1.0, -1.0]), np.array([1.0, 1.0]), dtype=np.float64)
    assert ProblemEnvironment(FINITE()).action_space == gymnasium.spaces.Discrete(3)


def test_arguments_reach_the_problem():
    environment = gymnasium.make("spaql/Oil-v0", survey="quadratic", sharpness=2, horizon=20)
    assert environment.unwrapped.problem.arguments == oil(survey="quadratic", sharpness=2, horizon=20).arguments
    environment.reset(seed=0)
    ends = [environment.step(np.array([0.5]))[2:4] for _ in range(20)]
    assert ends == [(False, False)] * 19 + [(False, True)]  # no time limit of another length in between
    with pytest.raises(ParameterError, match="survey: expected one of"):
        gymnasium.make("spaql/Oil-v0", survey="seismic")
    with pytest.raises(ParameterError, match="price"):
        ProblemEnvironment("ambulance", price=1)


def test_registering_again_changes_nothing():
    before = dict(gymnasium.registry)
    importlib.reload(spaql.gym.registration)
    assert gymnasium.registry == before


@pytest.mark.parametrize("make", [oil, ambulance])
def test_documentation_has_gymnasiums_headings(make):
    for heading in ("Description", "Action space", "Observation space", "Rewards", "Start", "End", "Arguments"):
        assert f"\n{heading}\n" in sys.modules[make.__module__].__doc__


def test_copies_side_by_side_equal_single_ones():
    """Gymnasium gives copy i the seed s + i, and starts an ended episode anew in the step after."""
    many = gymnasium.make_vec(
        "spaql/Ambulance-v0", num_envs=3, vectorization_mode="sync", arrivals="uniform", horizon=4
    )
    singles = [ProblemEnvironment("ambulance", arrivals="uniform", horizon=4) for _ in range(3)]
    observations, _ = many.reset(seed=7)
    assert observations.shape == (3, 1)
    for i, single in enumerate(singles):
        single.reset(seed=7 + i)
    over = False
    for action in np.random.default_rng(0).random((12, 3, 1)):
        observations, rewards, terminated, truncated, _ = many.step(action)
        for i, single in enumerate(singles):
            expected = (single.reset()[0], 0.0, False, False) if over else single.step(action[i])[:4]
            assert (observations[i], rewards[i], terminated[i], truncated[i]) == expected
        over = bool(truncated[0])
    many.close()


def run(program):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)


def test_gymnasium_and_registration_do_not_load_the_compiler():
    result = run(
        "import sys, gymnasium; assert 'numba' not in sys.modules\n"
        "import spaql.gym.registration; assert 'spaql/Oil-v0' in gymnasium.registry and 'numba' not in sys.modules"
    )
    assert (result.returncode, result.stderr) == (0, "")


def test_made_by_name_without_importing_spaql():
    result = run(
        "import gymnasium\n"
        "e = gymnasium.make('spaql.gym.registration:spaql/Oil-v0', survey='laplace', sharpness=10)\n"
        "print(e.reset(seed=0)[0], e.unwrapped.problem.name)"
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "[0.] oil laplace 10\n", "")


# Seeds ----------------------------------------------------------------------------------------------------------------


def trace(environment, seed=None, episode_count=3):
    """Everything seen in some episodes with one fixed action; only the first reset gets the seed."""
    seen = []
    for k in range(episode_count):
        seen += environment.reset(seed=seed if k == 0 else None)[0].tolist()
        over = False
        while not over:
            observation, reward, terminated, truncated, _ = environment.step([0.25])
            seen += [*observation.tolist(), reward]
            over = terminated or truncated
    return seen


def test_seeds():
    environment = ProblemEnvironment("ambulance")
    first = trace(environment, seed=0)
    assert len(set(first)) > 20  # the stream goes on over resets: no episode repeats another
    assert trace(environment) != first
    assert trace(environment, seed=0) == first
    assert trace(ProblemEnvironment("ambulance"), seed=np.int64(0)) == first
    assert trace(environment, seed=1) != first
    with pytest.raises(ParameterError, match="seed: expected a whole number of at least 0, got -1"):
        environment.reset(seed=-1)


def test_without_a_seed_the_stream_comes_from_np_random():
    environments = [ProblemEnvironment("ambulance") for _ in range(3)]
    for environment, key in zip(environments, (4, 4, 5), strict=True):
        environment.np_random = np.random.default_rng(key)
    first, same, other = (trace(environment) for environment in environments)
    assert first == same
    assert first != other
    assert trace(ProblemEnvironment("ambulance")) != trace(ProblemEnvironment("ambulance"))


# Bad input ------------------------------------------------------------------------------------------------------------


def assert_refused(environment, action, match):
    with pytest.raises(ParameterError, match=match) as caught:
        environment.step(action)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("action", "match"),
    [
        ([1.0, 1.5], r"action: \[1\.  1\.5\] is outside the space from \[-1\. -1\.\] to \[1\. 1\.\]"),
        ([np.nan, 0.0], "action: .*nan.* is outside"),
        ([np.inf, 0.0], "action: .*inf.* is outside"),
        ([0.0], r"action: expected shape \(2,\), got \(1,\)"),
        (0.0, r"action: expected shape \(2,\), got \(\)"),
        ([[0.0, 0.0]], r"action: expected shape \(2,\), got \(1, 2\)"),
        ("left", "action: expected numbers, got 'left'"),
        ([10**400, 0.0], "action: expected numbers, got"),
        (None, r"action: expected shape \(2,\), got \(\)"),
        ([[0.0], [0.0, 1.0]], "action: expected numbers, got"),
    ],
)
def test_bad_actions_in_a_box(action, match):
    environment, untroubled = (ProblemEnvironment(BOX()) for _ in range(2))
    environment.reset(seed=0)
    untroubled.reset(seed=0)
    assert_refused(environment, action, match)
    after, expected = (e.step([0.5, 0.5]) for e in (environment, untroubled))
    assert after[0].tolist() == expected[0].tolist()  # the episode goes on as if nothing had been asked
    assert after[1:] == expected[1:]


@pytest.mark.parametrize("action", [3, -1, 1.0, 0.5, np.nan, "1", None, [1], np.array([1]), 10**400])
def test_bad_finite_actions(action):
    environment = ProblemEnvironment(FINITE())
    environment.reset(seed=0)
    assert_refused(environment, action, "action: expected a whole number from 0 to 2, got")


@pytest.mark.parametrize("action", [2, np.int64(2), np.int32(2), np.array(2)])
def test_finite_actions_of_any_integer_type(action):
    environment = ProblemEnvironment(FINITE())
    environment.reset(seed=0)
    assert environment.step(action)[0] in environment.observation_space


def test_no_step_without_an_episode():
    environment = ProblemEnvironment("oil", horizon=2)
    assert_refused(environment, [0.5], r"step: no episode is under way; call reset\(\) first")
    environment.reset()
    environment.step([0.5])
    environment.step([0.5])
    assert_refused(environment, [0.5], "no episode is under way")
    assert_refused(gymnasium.make("spaql/Oil-v0"), np.array([0.5]), "no episode is under way")


def test_only_problems_are_wrapped():
    for other in (3, "CartPole-v1"):
        with pytest.raises(ParameterError, match="problem: expected a spaql Problem"):
            ProblemEnvironment(other)
    with pytest.raises(ParameterError, match="leave horizon out"):
        ProblemEnvironment(oil(), horizon=3)


def test_what_is_handed_out_is_not_ours():
    """Neither the action nor an observation shares memory with the environment."""
    environment = ProblemEnvironment(BOX())
    observation, _ = environment.reset(seed=0)
    observation[:] = 9.0
    action = np.array([0.5, -0.5])
    observation = environment.step(action)[0]
    again = ProblemEnvironment(BOX())
    again.reset(seed=0)
    assert observation.tolist() == again.step([0.5, -0.5])[0].tolist()
    assert action.tolist() == [0.5, -0.5]


# Faults of a problem --------------------------------------------------------------------------------------------------

GOOD, NO_REWARD, AWAY, UNSET, RAISES, ROUNDING = range(6)


def _faulty_step(state, action, parameters, random, next_state):
    fault = int(action[0])
    if fault != UNSET:
        next_state[0] = 2.0 if fault == AWAY else 0.5
    if fault == ROUNDING:
        next_state[0] = 1.0 + 1e-12
    if fault == RAISES:
        raise ValueError
    reward = 1.0
    if fault == NO_REWARD:
        reward = np.inf
    return reward, False


def _faulty_reset(parameters, random, state):
    u = uniform(random)
    if u >= parameters[1]:
        raise ValueError
    state[0] = 0.5 if u < parameters[0] else 7.0


@cache
def faulty_problem(within, without_exception):
    return Problem(
        name="faulty",
        step=_faulty_step,
        reset=_faulty_reset,
        states=Box(0, 1),
        actions=Discrete(6),
        horizon=5,
        parameters=[within, without_exception],
    )


def faulty(within=1.0, without_exception=1.0):
    return ProblemEnvironment(faulty_problem(within, without_exception))


@pytest.mark.parametrize(
    ("action", "match"),
    [
        (NO_REWARD, r"gave a reward that is not a finite number of at most 1e\+100 in step 2 of an episode"),
        (AWAY, "left its state space, which is .* in step 2 of an episode"),
        (UNSET, "gave a state that is not a number, or did not fill it, in step 2"),
        (RAISES, "raised an exception in step 2 of an episode"),
    ],
)
def test_faults_of_the_problem(action, match):
    environment = faulty()
    environment.reset(seed=0)
    environment.step(GOOD)
    with pytest.raises(ProblemError, match=f"problem 'faulty' {match}"):
        environment.step(action)
    assert_refused(environment, GOOD, "no episode is under way")
    environment.reset()
    assert environment.step(GOOD)[1] == 1.0


@pytest.mark.parametrize(
    ("shares", "match"),
    [((0.9, 1.0), "left its state space, which is .* in a reset"), ((0.9, 0.9), "raised an exception in a reset")],
)
def test_faulty_reset(shares, match):
    environment = faulty(*shares)
    seed = next(k for k in range(1000) if uniform(stream(k, Purpose.TRAINING_ENVIRONMENT)) >= 0.9)
    with pytest.raises(ProblemError, match=match):
        environment.reset(seed=seed)
    assert_refused(environment, GOOD, "no episode is under way")


def test_rounding_at_the_border_is_forgiven_and_not_shown():
    environment = faulty()
    environment.reset(seed=0)
    observation = environment.step(ROUNDING)[0]
    assert observation.tolist() == [1.0]
    assert environment._state.tolist() == [1.0 + 1e-12]  # carried on as the compiled loop does


def test_problem_is_played_as_it_is():
    """The environment wraps the very problem, it does not make another."""
    problem = oil()
    assert ProblemEnvironment(problem).problem is problem
