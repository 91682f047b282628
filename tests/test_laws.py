"""Laws that every agent keeps on every problem."""

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from functools import cache

import numpy as np
import pytest
from numba.core import config

from problems_for_tests import box_world, finite_world
from spaql.agents import AQL, SPAQL, Random, Tessera, algorithms, resolve
from spaql.agents.baselines import Heuristic
from spaql.agents.fixed_net import FixedNetAgent
from spaql.agents.stepwise import StepwiseAgent
from spaql.errors import NotTrainedError, ParameterError
from spaql.partition.rng import uniform
from spaql.problems import PROBLEMS as PROBLEM_MAKERS
from spaql.problems import Box, Discrete, Problem, ambulance, oil

pytestmark = pytest.mark.tiny_planning

SLOW = config.DISABLE_JIT
SHORT, LONG = (3, 7) if SLOW else (30, 70)
EPISODES = 20 if SLOW else 200


def _countdown_step(state, action, parameters, random, next_state):
    """A walk to the left edge; reaching it ends the episode, most often early."""
    next_state[0] = max(0.0, state[0] - 0.5 * action[0] * uniform(random))
    return action[0] - 0.5, next_state[0] == 0.0


def _countdown_reset(parameters, random, state):
    state[0] = 0.25


def countdown():
    """Negative rewards and terminal states, in a space that is not the unit cube."""
    return Problem(
        name="countdown",
        step=_countdown_step,
        reset=_countdown_reset,
        states=Box(0, 2),
        actions=Box(0, 1),
        horizon=7,
    )


PROBLEMS = {
    "oil laplace": lambda: oil(survey="laplace", sharpness=10.0),
    "oil quadratic": lambda: oil(survey="quadratic", sharpness=1.0, horizon=3),
    "ambulance uniform": lambda: ambulance(arrivals="uniform", cost=0.25),
    "ambulance beta": lambda: ambulance(arrivals="beta", cost=0.0),
    "ambulance beta, any shape": lambda: ambulance(arrivals="beta", shape=(0.7, 3.3), cost=1.0),
    "box world": lambda: box_world()[0],
    "finite world": lambda: finite_world()[0],
    "countdown": countdown,
}
# Two problems of no kind are the same: deterministic; of two states and two actions, with early ends; of finite
# actions; of negative rewards, outside the unit cube.
DIFFERENT = ["oil laplace", "box world", "finite world", "countdown"]
ENTRIES = {entry.label: entry for entry in algorithms().values() if entry.built_in}
VARIANTS = {
    "Tessera, small buffer": ("Tessera", {"buffer_size": 70, "exploration": 0.9}),
    "SPAQL, impatient": ("SPAQL", {"rollouts": 1, "splits_before_reset": 1, "heat": 5.0}),
    "AQL, unwatched": ("AQL", {"rollouts": 0}),
    "UCB-Q, Bernstein": ("UCB-Q", {"bonus": "bernstein", "bins": 3}),
    "Q-learning, cyclic": ("Q-learning", {"exploration": "boltzmann", "schedule": "cyclic", "operator": "mellowmax"}),
}


def made_by(label, parameters):
    """A function that makes the agents of one algorithm, with few rollouts unless their number is given."""
    entry = ENTRIES[label]
    few = {"rollouts": 3} if entry.accepts("rollouts") else {}
    return lambda problem, seed: entry.make(problem, seed=seed, **entry.example | few | parameters)


# Problems that only their heuristics play here.
HOMES = {
    entry.home: PROBLEM_MAKERS[entry.home]
    for entry in ENTRIES.values()
    if entry.home not in {world.split()[0] for world in PROBLEMS}
}
PROBLEMS |= HOMES
SETTINGS = {label: (label, {}) for label in ENTRIES} | VARIANTS
AGENTS = {name: made_by(*setting) for name, setting in SETTINGS.items()}
LEARNERS = {name: make for name, make in AGENTS.items() if ENTRIES[SETTINGS[name][0]].learns}
PUBLISHED = ["oil laplace", "oil quadratic", "ambulance uniform", "ambulance beta", "ambulance beta, any shape"]


def applies(agent, problem):
    """Whether an agent is tried on a problem.

    Heuristics, and examples of parameters, are for one kind of problem.  Agents that are neither the paper's nor the
    library's own are tried on problems that differ in kind.
    """
    entry = ENTRIES[SETTINGS[agent][0]]
    if entry.example or issubclass(entry.cls, Heuristic):
        return problem.split()[0] == entry.home
    if issubclass(entry.cls, FixedNetAgent | StepwiseAgent):
        return problem in DIFFERENT
    return problem not in HOMES


def crossed(agents, problems=PROBLEMS):
    pairs = [(agent, problem) for agent in agents for problem in problems if applies(agent, problem)]
    return pytest.mark.parametrize(("name", "world"), [pytest.param(*pair, marks=marks_of(*pair)) for pair in pairs])


def marks_of(agent, problem):
    """With the JIT off, Tessera plans on the quickest problems only."""
    slow = agent.startswith("Tessera") and problem not in ("oil quadratic", "ambulance uniform")
    return [pytest.mark.compiled_only] if slow else []


every_agent = crossed(AGENTS)
every_learner = crossed(LEARNERS)


@cache
def problem_of(world):
    """One problem for all tests: a problem of plain functions is compiled anew wherever it is made."""
    return PROBLEMS[world]()


def make(name, world, seed=0):
    return AGENTS[name](problem_of(world), seed)


def taught(name, world, seed=0):
    return make(name, world, seed).learn(iterations=SHORT)


# Agents for all tests that ask them and change nothing.
asked = cache(taught)
grown = cache(lambda name, world: make(name, world).learn(iterations=SHORT + LONG))


def observations(problem, count=12, seed=0):
    low, high = problem.states.low, problem.states.high
    rows = low + np.random.default_rng(seed).random((count, low.size)) * (high - low)
    rows[0], rows[1], rows[2] = low, high, 0.5 * (low + high)
    return rows


def assert_same_cells(a, b):
    for field in fields(a):
        np.testing.assert_array_equal(getattr(a, field.name), getattr(b, field.name), err_msg=field.name)


def assert_same(a, b):
    """Two agents know the same and do the same."""
    np.testing.assert_array_equal(a.history, b.history)
    assert (a.training_steps, a.selection_steps, len(a.cells())) == (
        b.training_steps,
        b.selection_steps,
        len(b.cells()),
    )
    assert a.selection_score == b.selection_score
    if len(a.cells()):
        assert_same_cells(a.cells(), b.cells())
    rows = observations(a.problem)
    np.testing.assert_array_equal(a.predict(rows)[0], b.predict(rows)[0])
    np.testing.assert_array_equal(a.evaluate(EPISODES).returns, b.evaluate(EPISODES).returns)


# Seeds, interruption, purity ----------------------------------------------------------------------------------


@every_agent
def test_same_seed_same_result(name, world):
    assert_same(taught(name, world), taught(name, world))


@every_learner
def test_different_seed_different_result(name, world):
    a, b = grown(name, world), make(name, world, 1).learn(iterations=SHORT + LONG)  # few episodes may be alike
    random = any(not np.array_equal(agent._streams, make(name, world, agent.seed)._streams) for agent in (a, b))
    # an agent that draws nothing is the same for every seed, where the problem draws nothing either
    assert np.array_equal(a.history["score"], b.history["score"]) is not random
    if not isinstance(a, Tessera):  # both of which may have found the best policy
        drawn = [agent.evaluate(EPISODES, deterministic=False).returns for agent in (a, b)]
        assert not np.array_equal(*drawn) or np.ptp(drawn) == 0.0


@every_learner
def test_learning_in_parts_is_learning_at_once(name, world):
    parts = make(name, world).learn(iterations=SHORT).learn(iterations=1).learn(iterations=LONG - 1)
    assert_same(parts, grown(name, world))


@every_agent
def test_evaluation_is_pure(name, world):
    agent = taught(name, world)
    first = agent.evaluate(EPISODES)
    again = agent.evaluate(EPISODES)
    np.testing.assert_array_equal(first.returns, again.returns)
    assert (first.steps, first.mean) == (again.steps, again.mean)
    assert not np.array_equal(first.returns, agent.evaluate(EPISODES, seed=99).returns) or np.ptp(first.returns) == 0.0
    agent.evaluate(EPISODES, deterministic=True)
    assert_same(agent.learn(iterations=LONG), grown(name, world))


@every_agent
def test_evaluation_adds_up(name, world):
    agent = asked(name, world)
    result = agent.evaluate(EPISODES)
    low, high = result.interval
    assert low <= result.mean <= high
    assert result.returns.shape == (EPISODES,)
    assert result.mean == pytest.approx(result.returns.mean(), abs=1e-12)
    assert 0 < result.steps <= EPISODES * agent.problem.horizon
    if world not in ("box world", "countdown", "revenue"):  # whose episodes may end early
        assert result.steps == EPISODES * agent.problem.horizon
    assert str(EPISODES) in str(result)


@pytest.mark.compiled_only
@crossed(["Tessera", "AQL", "Random", "No movement"], ["ambulance beta", "countdown"])
def test_more_episodes_than_a_batch_are_all_different(name, world):
    returns = asked(name, world).evaluate(2500).returns
    assert len(returns) == 2500
    for a, b in ((0, 1000), (1000, 2000)):
        assert not np.array_equal(returns[a : a + 500], returns[b : b + 500])


# Prediction ---------------------------------------------------------------------------------------------------


@every_agent
def test_inputs_are_never_changed(name, world):
    agent = asked(name, world)
    rows = observations(agent.problem)
    before = rows.copy()
    for deterministic in (True, False):
        agent.predict(rows, deterministic=deterministic)
        agent.predict(rows[3], deterministic=deterministic)
    start = np.ones(len(rows), bool)
    state = np.zeros(len(rows), np.int64)
    agent.predict(rows, state=state, episode_start=start)
    np.testing.assert_array_equal(rows, before)
    assert start.all()
    assert not state.any()
    rows.flags.writeable = False
    agent.predict(rows)


@crossed([name for name in AGENTS if name != "Random"])
def test_a_batch_is_predicted_row_by_row(name, world):
    agent = asked(name, world)
    rows = observations(agent.problem)
    batch, _ = agent.predict(rows)
    for row, action in zip(rows, batch, strict=True):
        np.testing.assert_array_equal(agent.predict(row)[0], action)
        np.testing.assert_array_equal(agent.predict(row.tolist())[0], action)


@every_agent
def test_actions_have_the_shape_and_place_of_the_action_space(name, world):
    agent = asked(name, world)
    rows, space = observations(agent.problem), agent.problem.actions
    for deterministic in (True, False):
        batch, one = (agent.predict(x, deterministic=deterministic)[0] for x in (rows, rows[0]))
        if isinstance(space, Discrete):
            assert isinstance(one, int)
            assert batch.shape == (len(rows),)
            assert np.isin(batch, range(space.count)).all()
        else:
            assert one.shape == (space.dimensions,)
            assert batch.shape == (len(rows), space.dimensions)
            assert ((space.low <= batch) & (batch <= space.high)).all()


@every_agent
def test_no_observation_is_no_action(name, world):
    agent = asked(name, world)
    actions, _ = agent.predict(np.empty((0, agent.problem.states.dimensions)))
    assert len(actions) == 0


def greedy_boxes(cells, rows, top):
    """Brute force over the view: the cells of largest Q among those that hold each row."""
    for x in rows:
        held = ((cells.state_low <= x) & ((x < cells.state_high) | ((x == cells.state_high) & (x == top)))).all(axis=1)
        assert held.any()
        most = held & (cells.q == cells.q[held].max())
        yield cells.action_low[most], cells.action_high[most]


@crossed(LEARNERS)
def test_a_deterministic_action_is_the_middle_of_a_greedy_cell(name, world):
    agent = asked(name, world)
    rows = observations(agent.problem)
    for step in range(agent.problem.horizon if agent.time_variant else 1):
        state = np.full(len(rows), step)
        middle = np.asarray(agent.predict(rows, state=state)[0]).reshape(len(rows), -1)
        drawn = np.asarray(agent.predict(rows, state=state, deterministic=False)[0]).reshape(len(rows), -1)
        boxes = greedy_boxes(agent.cells().at(step), rows, agent.problem.states.high)
        for action, draw, (low, high) in zip(middle, drawn, boxes, strict=True):
            assert np.isclose(0.5 * (low + high), action, rtol=0.0, atol=1e-12).all(axis=1).any()
            assert ((low <= draw) & (draw <= high)).all(axis=1).any()


@crossed(["Tessera", "Tessera, small buffer"])
def test_cells_of_tessera_share_out_the_states(name, world):
    """One cell for every state, with one action."""
    agent = asked(name, world)
    cells, rows, top = agent.cells(), observations(agent.problem, 50), agent.problem.states.high
    assert len(cells) <= agent.leaves
    np.testing.assert_array_equal(cells.action_low, cells.action_high)
    for x, action in zip(rows, agent.predict(rows, deterministic=False)[0], strict=True):
        upper = (x < cells.state_high) | ((x == cells.state_high) & (x == top))
        (here,) = np.flatnonzero(((cells.state_low <= x) & upper).all(axis=1))
        np.testing.assert_allclose(np.ravel(action), cells.action_low[here], rtol=0.0, atol=1e-12)
    share = np.prod((cells.state_high - cells.state_low) / (top - agent.problem.states.low), axis=1)
    assert share.sum() == pytest.approx(1.0)


def test_a_baseline_needs_no_length_to_learn():
    agent = Random("oil", seed=0)
    assert agent.learn() is agent


def test_random_draws_the_whole_action_space():
    for problem in (problem_of("finite world"), problem_of("box world"), oil()):
        agent = Random(problem, seed=0)
        rows = np.tile(observations(problem)[2], (2000, 1))
        actions = np.asarray(agent.predict(rows, deterministic=False)[0], float).reshape(len(rows), -1)
        if isinstance(problem.actions, Discrete):
            counts = np.bincount(actions[:, 0].astype(int), minlength=problem.actions.count)
            assert (abs(counts / len(rows) - 1.0 / problem.actions.count) < 0.06).all()
        else:
            low, high = problem.actions.low, problem.actions.high
            for share in (0.25, 0.5, 0.75):
                assert (abs((actions < low + share * (high - low)).mean(axis=0) - share) < 0.06).all()


@pytest.mark.compiled_only
def test_random_is_random_in_evaluation_on_finite_actions():
    """Its mean return is that of actions drawn one by one outside the agent."""
    problem, plain, count = finite_world()
    draw = np.random.default_rng(0)
    world = type("World", (), {"uniform": lambda self: draw.random()})()
    returns = []
    for _ in range(2000):
        x, total = plain.reset(world), 0.0
        for _ in range(problem.horizon):
            reward, x, _ = plain.step(x, (float(draw.integers(count)),), world)
            total += reward
        returns.append(total)
    ours = Random(problem, seed=0).evaluate(2000)
    error = math.hypot(np.std(returns), ours.returns.std()) / math.sqrt(2000)
    assert abs(np.mean(returns) - ours.mean) < 5.0 * error


@crossed(["AQL"])
def test_aql_carries_the_time_step(name, world):
    agent = asked(name, world)
    rows = observations(agent.problem, count=4)
    horizon = agent.problem.horizon
    state = None
    for step in range(horizon + 2):
        now = np.full(len(rows), min(step, horizon - 1))
        action, following = agent.predict(rows, state=state)
        np.testing.assert_array_equal(action, agent.predict(rows, state=now)[0])
        np.testing.assert_array_equal(following, np.minimum(now + 1, horizon - 1))
        state = following
    fresh, _ = agent.predict(rows)
    mixed, following = agent.predict(rows, state=state, episode_start=[True, False, False, True])
    last, _ = agent.predict(rows, state=state)
    np.testing.assert_array_equal(mixed[[0, 3]], fresh[[0, 3]])
    np.testing.assert_array_equal(mixed[[1, 2]], last[[1, 2]])
    assert following.tolist() == [min(1, horizon - 1), horizon - 1, horizon - 1, min(1, horizon - 1)]


@crossed(["Tessera", "Random"], ["oil laplace", "finite world"])
def test_time_invariant_agents_have_no_state(name, world):
    agent = asked(name, world)
    assert not agent.time_variant
    assert agent.predict(observations(agent.problem))[1] is None


# Steps and history --------------------------------------------------------------------------------------------


@every_learner
def test_total_timesteps_are_never_passed(name, world):
    agent = make(name, world)
    smallest = agent.steps_per_iteration
    for budget in (smallest, smallest + 1, 5 * smallest + 3):
        agent = make(name, world).learn(total_timesteps=budget)
        assert 0 < agent.training_steps + agent.selection_steps <= budget
        assert agent.training_steps + agent.selection_steps + agent.steps_per_iteration > budget
        before = agent.training_steps + agent.selection_steps
        agent.learn(total_timesteps=smallest)
        assert before < agent.training_steps + agent.selection_steps <= before + smallest


@every_learner
def test_steps_are_learned_the_same_as_iterations(name, world):
    for iterations in (3, 4, 8):  # also where an agent has something to do before the next
        agent = make(name, world)
        agent.learn(total_timesteps=iterations * agent.steps_per_iteration)
        assert_same(agent, make(name, world).learn(iterations=agent.iterations))


@every_learner
def test_history_is_consistent(name, world):
    agent = grown(name, world)
    rows, problem = agent.history, agent.problem
    assert len(rows) == agent.iterations == SHORT + LONG
    assert not rows.flags.writeable
    for column in ("training_steps", "selection_steps", "monitoring_steps"):
        assert (np.diff(rows[column]) >= 0).all()
    assert rows["training_steps"][-1] == agent.training_steps
    assert rows["selection_steps"][-1] == agent.selection_steps
    assert (np.diff(rows["training_steps"], prepend=0) <= problem.horizon).all()
    assert (np.diff(rows["training_steps"], prepend=0) > 0).all()
    assert (rows["value_low"] <= rows["value_high"]).all()
    assert np.isin(rows["resets"], (0, 1)).all()
    if isinstance(agent, Tessera):
        assert ((rows["cells"] >= 1) & (rows["cells"] <= agent.leaves)).all()
        assert (rows["splits"] == 0).all()
        np.testing.assert_array_equal(rows["best"], rows["score"])
        assert agent.selection_score is None
    else:
        assert rows["cells"][-1] == len(agent.cells())
        assert (rows["value_high"] <= problem.horizon).all()
        assert ((rows["splits"] >= 0) & (rows["splits"] <= problem.horizon)).all()
        assert agent.selection_score == (rows["best"][-1] if getattr(agent, "rollouts", 0) else None)


@crossed(["SPAQL", "SPAQL, impatient"])
def test_published_spaql_keeps_its_best(name, world):
    agent = taught(name, world).learn(iterations=LONG)
    rows = agent.history
    kept = rows["best"][0]
    assert kept >= rows["score"][0]
    for row in rows[1:]:
        kept = max(kept, row["score"])
        assert row["best"] == kept
    assert (rows["monitoring_steps"] == 0).all()
    improved = rows["score"] >= np.append(-np.inf, rows["best"][:-1])
    assert not (improved[1:] & (rows["resets"][1:] == 1)).any()
    heats = agent.heat ** (agent.heat_decay ** np.append(0, np.cumsum(rows["heat"][1:] < rows["heat"][:-1])))
    np.testing.assert_allclose(rows["heat"], heats, rtol=1e-9)
    assert ((rows["temperature"] >= agent.temperature_min) & (rows["temperature"] <= agent.temperature_max)).all()


@crossed(["AQL", "AQL, unwatched"])
def test_aql_selects_nothing(name, world):
    agent = asked(name, world)
    rows = agent.history
    np.testing.assert_array_equal(rows["best"], rows["score"])
    assert agent.selection_steps == 0
    assert rows["monitoring_steps"][-1] == agent.monitoring_steps
    assert (agent.monitoring_steps > 0) is (agent.rollouts > 0)
    assert (rows["resets"] == 0).all()
    assert (np.diff(rows["cells"]) >= 0).all()


@crossed(["AQL"])
def test_watching_changes_nothing(name, world):
    watched, alone = (AQL(problem_of(world), rollouts=n).learn(iterations=SHORT) for n in (5, 0))
    assert_same_cells(watched.cells(), alone.cells())


@pytest.mark.parametrize("world", PUBLISHED)
@pytest.mark.parametrize("scaling", [0.1, 1.0])
def test_published_spaql_is_myopic(world, scaling):
    """Fact 1: no discount, no terminal zero, Q from H upwards, so V is H everywhere and for ever."""
    agent = SPAQL(problem_of(world), scaling=scaling, rollouts=2).learn(iterations=SHORT + LONG)
    horizon = agent.problem.horizon
    assert (agent.history["value_low"] == horizon).all()
    assert (agent.history["value_high"] == horizon).all()
    assert (agent.cells().q >= horizon).all()


def test_aql_is_not_myopic():
    agent = AQL(problem_of("oil laplace")).learn(iterations=SHORT + LONG)
    assert (agent.history["value_low"] == 0.0).all()  # nothing follows the last step


@crossed(["SPAQL", "AQL", "UCB-Q", "NBQL"], ["countdown", "box world"])
def test_a_terminal_state_is_worth_nothing(name, world):
    agent = taught(name, world).learn(iterations=LONG)
    lengths = np.diff(agent.history["training_steps"], prepend=0)
    assert (lengths < agent.problem.horizon).any()
    assert (agent.history["value_low"][lengths < agent.problem.horizon] == 0.0).all()


@crossed([name for name in LEARNERS if issubclass(ENTRIES[SETTINGS[name][0]].cls, FixedNetAgent)])
def test_a_fixed_net_never_changes_its_cells(name, world):
    agent = make(name, world)
    before = agent.cells()
    agent.learn(iterations=LONG)
    after = agent.cells()
    for side in ("state_low", "state_high", "action_low", "action_high", "step"):
        np.testing.assert_array_equal(getattr(after, side), getattr(before, side))
    assert (agent.history["cells"] == len(before)).all()
    assert after.visits.sum() == agent.training_steps


# Room for the rest --------------------------------------------------------------------------------------------


@pytest.mark.compiled_only  # what is compiled runs without the GIL
@every_agent
def test_threads_change_nothing(name, world):
    jobs = [(name, world, seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda job: taught(*job), jobs))
    for job, agent in zip(jobs, together, strict=True):
        assert_same(agent, taught(*job))


@pytest.mark.compiled_only
def test_agents_of_every_kind_train_side_by_side():
    jobs = [(name, world, 3) for name in LEARNERS for world in PROBLEMS if applies(name, world)]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda job: taught(*job), jobs))
    for job, agent in zip(jobs, together, strict=True):
        np.testing.assert_array_equal(agent.history, taught(*job).history)


def test_two_agents_share_one_problem():
    problem = problem_of("countdown")
    a, b = Tessera(problem), AQL(problem, rollouts=2)
    for _ in range(3):
        a.learn(iterations=SHORT)
        b.learn(iterations=SHORT)
    assert_same(a, Tessera(problem_of("countdown")).learn(iterations=3 * SHORT))
    assert_same(b, AQL(problem_of("countdown"), rollouts=2).learn(iterations=3 * SHORT))


@every_agent
def test_parameters_round_trip(name, world):
    agent = make(name, world, seed=5)
    parameters = agent.get_params()
    assert parameters["seed"] == 5
    twin = type(agent)(agent.problem, **parameters)
    assert twin.get_params() == parameters
    assert repr(twin) == repr(agent)
    assert all(f"{key}={value!r}" in repr(agent) for key, value in parameters.items())
    assert_same(twin.learn(iterations=SHORT), agent.learn(iterations=SHORT))


@every_learner
def test_nothing_learned_nothing_answered(name, world):
    agent = make(name, world)
    for ask in (lambda: agent.predict(observations(agent.problem)), agent.evaluate):
        with pytest.raises(
            NotTrainedError,
            match=rf"^{type(agent).__name__} has not learned yet; call learn\(total_timesteps\) first$",
        ):
            ask()
    assert agent.selection_score is None
    assert agent.iterations == len(agent.history) == 0


@pytest.mark.parametrize("world", [world for world in PROBLEMS if not world.startswith("ambulance")])
@pytest.mark.parametrize("heuristic", ["mean", "median"])
def test_heuristics_need_arrivals(heuristic, world):
    with pytest.raises(ParameterError, match=f"^{heuristic}: '.*' has no arrivals"):
        resolve(heuristic).make(problem_of(world))


def test_no_movement_needs_equal_spaces():
    with pytest.raises(ParameterError, match=r"^no-movement: 'finite world' has no action for each state"):
        resolve("no-movement").make(problem_of("finite world"))


@every_learner
def test_an_interruption_keeps_history_and_agent_together(name, world, monkeypatch):
    """Ctrl-C is heard when a kernel returns; whatever the kernel finished is in the agent *and* in its history."""
    agent = make(name, world)
    whole = agent._run

    def interrupted(*arguments):
        before = agent.iterations
        whole(*arguments)
        if agent.iterations > before:
            raise KeyboardInterrupt

    agent.learn(iterations=SHORT)
    with monkeypatch.context() as patch:
        patch.setattr(agent, "_run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            agent.learn(iterations=LONG)
    assert agent.history["training_steps"][-1] == agent.training_steps
    agent.learn(iterations=LONG)
    assert_same(agent, make(name, world).learn(iterations=agent.iterations))
