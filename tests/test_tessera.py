"""Tessera as a whole: files, budgets, seeds, mechanisms, spaces."""

import math
from functools import cache

import gymnasium
import numpy as np
import pytest
from numba.core import config

import spaql
from problems_for_tests import box_world, finite_world
from spaql.agents.tessera import planner
from spaql.agents.tessera.agent import MECHANISMS
from spaql.agents.tessera.learned_model import thin_out
from spaql.agents.tessera.planner import make_plan
from spaql.agents.tessera.policy_tree import count_leaves
from spaql.agents.tessera.replay import FLAT, PLANNED, POLICY, USED
from spaql.agents.tessera.world_model import NOISY
from spaql.errors import ParameterError
from spaql.partition.rng import uniform
from spaql.problems import Box, Discrete, Problem, ambulance, oil

SLOW = config.DISABLE_JIT
FIRST = 8 if SLOW else 60
MORE = 2 if SLOW else 90  # compiled, beyond the first plan at 500 steps

PROBLEMS = {
    "oil": lambda: oil(survey="quadratic", sharpness=1.0),
    "ambulance": lambda: ambulance(cost=0.25),
    "finite world": lambda: finite_world()[0],
    "box world": lambda: box_world()[0],
}
SOME = ["oil", "finite world"] if SLOW else list(PROBLEMS)
every_problem = pytest.mark.parametrize("name", SOME)


@cache
def problem_of(name):
    return PROBLEMS[name]()


def make(name, **more):
    return spaql.Tessera(problem_of(name), **({"seed": 3} | more))


@cache
def trained(name):
    """One for all tests that only read it."""
    return make(name).learn(iterations=FIRST + MORE)


def assert_same(a, b, tmp_path):
    """Two agents are saved as the same bytes."""
    assert a.save(tmp_path / "a.spaql").read_bytes() == b.save(tmp_path / "b.spaql").read_bytes()


def grid(problem, count=12):
    low, high = problem.states.low, problem.states.high
    return low + np.random.default_rng(0).random((count, low.size)) * (high - low)


# Files, parts, seeds --------------------------------------------------------------------------------------------------


@every_problem
@pytest.mark.parametrize("size", [1_000_000, 70, 13])  # 13: room for two episodes, not for three
def test_a_saved_agent_goes_on_exactly(tmp_path, name, size):
    whole = make(name, buffer_size=size).learn(iterations=FIRST + MORE)
    agent = make(name, buffer_size=size)
    for iterations in (1, FIRST - 1, MORE):
        agent.learn(iterations=iterations).save(tmp_path / "agent.spaql")
        again = spaql.load(tmp_path / "agent.spaql", problem_of(name) if "world" in name else None)
        assert_same(again, agent, tmp_path)
        np.testing.assert_array_equal(again.predict(grid(agent.problem))[0], agent.predict(grid(agent.problem))[0])
        agent = again
    assert_same(agent, whole, tmp_path)
    assert SLOW or size > 70 or agent._buffer.counts[USED] < agent.training_steps


@every_problem
def test_planning_for_an_evaluation_does_not_change_learning(tmp_path, name):
    agent = make(name)
    for iterations in (1, FIRST - 1, MORE):
        agent.learn(iterations=iterations)
        agent.evaluate(3)
        agent.cells()
        agent.predict(grid(agent.problem))
    assert_same(agent, trained(name), tmp_path)


def test_a_plan_is_a_function_of_the_transitions():
    agent = trained("finite world")
    plans = [make_plan(agent._past(), agent._facts, None, 5, 100, True) for _ in range(2)]
    for name in ("dims", "cuts", "children", "actions"):
        np.testing.assert_array_equal(getattr(plans[0].policy, name), getattr(plans[1].policy, name))
    assert plans[0].score == plans[1].score
    other = make_plan(agent._past(), agent._facts, None, 6, 100, True)
    assert not np.array_equal(other.value.planes, plans[0].value.planes)


@every_problem
def test_seeds_differ(name):
    histories = [make(name, seed=seed).learn(iterations=FIRST).history["score"] for seed in (0, 1)]
    assert not np.array_equal(*histories)


def test_an_untrained_agent_has_one_cell():
    cells = spaql.Tessera(problem_of("oil")).cells()
    assert (len(cells), cells.visits[0]) == (1, 0)


def test_an_untrained_agent_is_saved(tmp_path):
    again = spaql.load(make("oil").save(tmp_path / "agent.spaql"))
    assert again.iterations == 0
    assert_same(again.learn(iterations=FIRST), make("oil").learn(iterations=FIRST), tmp_path)


# The policy -----------------------------------------------------------------------------------------------------------


@every_problem
def test_cells_are_the_leaves_of_the_returned_tree(name):
    agent = trained(name)
    cells, tree = agent.cells(), agent._return_policy().tree
    assert agent.count_cells() == count_leaves(tree) <= agent.leaves
    assert len(cells) == agent.count_cells() or agent.time_variant
    np.testing.assert_array_equal(cells.action_low, cells.action_high)
    assert cells.visits.sum() == len(agent._past().rewards) or agent.time_variant
    for x, action in zip(grid(agent.problem), agent.predict(grid(agent.problem))[0], strict=True):
        here = ((cells.state_low <= x) & (x < cells.state_high)).all(axis=1) & (cells.step == 0)
        assert here.sum() == 1
        np.testing.assert_allclose(np.ravel(action), cells.action_low[here][0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("leaves", [1, 2, 5])
def test_a_tree_has_no_more_leaves_than_it_may(leaves):
    agent = make("finite world", leaves=leaves).learn(iterations=FIRST + MORE)
    assert agent.count_cells() <= leaves


@pytest.mark.compiled_only
@pytest.mark.parametrize("name", ["oil", "ambulance", "finite world"])
def test_it_learns(name):
    ours, random = trained(name).evaluate(400), spaql.Random(problem_of(name), seed=0).evaluate(400)
    assert ours.mean > random.mean + 3.0 * random.returns.std() / math.sqrt(400)


def test_q_of_a_leaf_is_that_of_its_action():
    agent = trained("oil")
    tree, q, visits = agent._return_policy()
    past, leaves = agent._past(), []
    for x in np.column_stack([past.points, past.times]):
        node = 0
        while tree.dims[node] >= 0:
            node = tree.children[node] + (x[tree.dims[node]] >= tree.cuts[node])
        leaves.append(node)
    np.testing.assert_array_equal(np.bincount(leaves, minlength=len(tree.dims)), visits)
    for leaf in np.flatnonzero(tree.dims < 0):
        rows = thin_out(np.flatnonzero(np.array(leaves) == leaf), 100)
        if len(rows):
            expected = agent._evaluate(past.points[rows], past.times[rows], tree.actions[leaf][None]).mean()
            assert q[leaf] == pytest.approx(expected)


# Mechanisms -----------------------------------------------------------------------------------------------------------


@pytest.mark.compiled_only
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("name", ["ambulance", "finite world"])
def test_every_mechanism_can_be_disabled(tmp_path, name, mechanism):
    agent = make(name, disable=[mechanism]).learn(iterations=FIRST + MORE)
    assert agent.disable == (mechanism,)
    assert agent._buffer.counts[PLANNED] == POLICY
    assert np.isfinite(agent.evaluate(20).mean)
    again = spaql.load(agent.save(tmp_path / "agent.spaql"), problem_of(name) if "world" in name else None)
    assert again.disable == (mechanism,)


@pytest.mark.compiled_only
def test_disabled_mechanisms_are_not_used():
    plan = {name: make("ambulance", disable=[name]).learn(iterations=50)._final_plan() for name in MECHANISMS}
    default = make("ambulance").learn(iterations=50)._final_plan()
    assert len(default.models) == 3
    assert len(plan["bootstrap"].models) == 1
    assert default.models[0].flags[NOISY]
    assert not plan["residuals"].models[0].flags[NOISY]
    assert len(default.elites) > 0
    assert len(plan["elites"].elites) == 0
    every = make("ambulance", disable=list(MECHANISMS)).learn(iterations=120)
    assert count_leaves(every._novelty) == 1
    assert np.isfinite(every.evaluate(10).mean)


@pytest.mark.parametrize("disable", ["holds", ("holds",), ["holds"]])
def test_mechanisms_are_named(disable):
    assert make("oil", disable=disable).disable == ("holds",)


@pytest.mark.parametrize("disable", ["hold", ["holds", "x"], 5, [5]])
def test_unknown_mechanisms_are_refused(disable):
    with pytest.raises(ParameterError, match=r"^disable: expected some of residuals, .*climbing, got "):
        make("oil", disable=disable)


# Problems of all kinds ------------------------------------------------------------------------------------------------


def _leave(state, action, parameters, random, next_state):
    """A walk that ends outside its space, or nowhere."""
    next_state[0] = state[0] + 0.3 * (action[0] - 0.2) * uniform(random)
    if next_state[0] >= 1.0 or next_state[0] < 0.0:
        kind = parameters[0]
        next_state[0] = math.nan if kind == 1.0 else math.inf if kind == 2.0 else -math.inf if kind == 3.0 else kind
        return -1.0, True
    return next_state[0], False


def _begin(parameters, random, state):
    state[0] = uniform(random)


@pytest.mark.compiled_only
@pytest.mark.parametrize("last", [1.0, 2.0, 3.0, 1e300, 1.5, -0.1], ids=["nan", "inf", "-inf", "1e300", "1.5", "-0.1"])
def test_last_states_outside_their_space(tmp_path, last):
    problem = Problem(
        name="leave", step=_leave, reset=_begin, states=Box(0, 1), actions=Box(0, 1), horizon=9, parameters=[last]
    )
    agent = spaql.Tessera(problem, seed=1).learn(iterations=FIRST + MORE)
    past = agent._past()
    assert past.ended.any()
    assert np.isfinite(past.following).all()
    assert agent.evaluate(200).mean > spaql.Random(problem, seed=1).evaluate(200).mean
    again = spaql.load(agent.save(tmp_path / "agent.spaql"), problem)
    assert_same(again.learn(iterations=5), agent.learn(iterations=5), tmp_path)


def _steer(state, action, parameters, random, next_state):
    """Keep x near 2, on a range that the box may be declared far wider than."""
    next_state[0] = min(max(state[0] + 0.5 * action[0] - 0.4, 0.0), 4.0)
    return -abs(next_state[0] - 2.0), False


def _steer_reset(parameters, random, state):
    state[0] = 4.0 * uniform(random)


@pytest.mark.compiled_only
@pytest.mark.parametrize("box", [(-40.0, 44.0), (-2.0, 42.0), (-1e4, 1e4)])
def test_declared_ranges_change_nothing(box):
    """Equal but for rounding."""
    agents = [
        spaql.Tessera(
            Problem(name="steer", step=_steer, reset=_steer_reset, states=Box(*states), actions=Discrete(3), horizon=8),
            seed=2,
        ).learn(iterations=120)
        for states in ((0.0, 4.0), box)
    ]
    rows = np.linspace(0.01, 3.99, 200)[:, None]
    narrow, wide = (agent.predict(rows)[0] for agent in agents)
    assert (narrow == wide).mean() > 0.95
    assert agents[1].evaluate(200).mean == pytest.approx(agents[0].evaluate(200).mean, abs=0.2)
    assert len(agents[1].cells()) == len(agents[0].cells())


class Target(gymnasium.Env):
    """Reach what is seen by the action; either may have any shape."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float64)

    def __init__(self, action_space, reward):
        self.action_space, self.reward = action_space, reward

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seen = self.np_random.uniform(-1.0, 1.0, 2)
        return self.seen, {}

    def step(self, action):
        assert self.action_space.contains(action)
        reward = float(self.reward(self.seen, np.asarray(action)))
        self.seen = self.np_random.uniform(-1.0, 1.0, 2)
        return self.seen, reward, False, False, {}


ACTIONS = {
    "MultiDiscrete": (
        gymnasium.spaces.MultiDiscrete([2, 3]),
        lambda seen, a: (a[0] == (seen[0] > 0.0)) + (a[1] == 1),
    ),
    "MultiBinary": (gymnasium.spaces.MultiBinary(2), lambda seen, a: (a == (seen > 0.0)).sum()),
    "Discrete from -3": (gymnasium.spaces.Discrete(4, start=-3), lambda seen, a: a == (-3 if seen[1] > 0.0 else 0)),
    "Box of two": (
        gymnasium.spaces.Box(np.float32([-1.0, 0.0]), np.float32([1.0, 5.0])),
        lambda seen, a: -abs(a[0] - seen[0]) - abs(a[1] - 2.0),
    ),
    "Box of shape 2, 1": (gymnasium.spaces.Box(-1.0, 1.0, (2, 1)), lambda seen, a: -np.abs(a[:, 0] - seen).sum()),
}


@pytest.mark.compiled_only
@pytest.mark.parametrize("kind", ACTIONS)
def test_actions_of_every_kind(tmp_path, kind):
    env = Target(*ACTIONS[kind])
    agent = spaql.Tessera(env, horizon=10, seed=1).learn(iterations=120)
    action = agent.predict(np.zeros(2))[0]
    assert env.action_space.contains(action)
    ours, random = agent.evaluate(50), spaql.Random(env, horizon=10, seed=1).evaluate(50)
    assert ours.mean > random.mean + 2.0 * random.returns.std() / math.sqrt(50)
    again = spaql.load(agent.save(tmp_path / "agent.spaql"), env)
    np.testing.assert_array_equal(again.predict(np.zeros(2))[0], action)


def _many(state, action, parameters, random, next_state):
    next_state[0] = uniform(random)
    return (0.5 + state[0]) * action[0] / 100_000.0, False


@pytest.mark.compiled_only
def test_many_discrete_actions(tmp_path):
    problem = Problem(name="many", step=_many, reset=_begin, states=Box(0, 1), actions=Discrete(100_000), horizon=10)
    agent = spaql.Tessera(problem, seed=1).learn(iterations=FIRST + MORE)
    assert agent.evaluate(20).mean > 6.0  # random actions have 5
    assert 0 <= agent.predict([0.5])[0] < 100_000
    again = spaql.load(agent.save(tmp_path / "agent.spaql"), problem)
    assert again.predict([0.5])[0] == agent.predict([0.5])[0]


def _bandit(state, action, parameters, random, next_state):
    next_state[0] = uniform(random)
    return 1.0 if action[0] == 2.0 else 0.0, False


@pytest.mark.compiled_only
def test_actions_count_where_all_states_are_worth_the_same():
    problem = Problem(name="bandit", step=_bandit, reset=_begin, states=Box(0, 1), actions=Discrete(3), horizon=10)
    agent = spaql.Tessera(problem, seed=0).learn(iterations=100)
    assert agent.evaluate(20).mean == 10.0


def _nothing(state, action, parameters, random, next_state):
    next_state[0] = min(max(state[0] + 0.1 * (action[0] - 0.5), 0.0), 1.0)
    return parameters[0], False


@pytest.mark.compiled_only
@pytest.mark.parametrize("reward", [0.0, 0.1])
def test_where_all_is_worth_the_same_novelty_is_followed(reward):
    problem = Problem(
        name="nothing",
        step=_nothing,
        reset=_begin,
        states=Box(0, 1),
        actions=Box(0, 1),
        horizon=10,
        parameters=[reward],
    )
    agent = spaql.Tessera(problem, seed=1).learn(iterations=FIRST + MORE)
    assert agent._buffer.counts[PLANNED] == FLAT
    assert len(agent.cells()) == 1
    assert agent.evaluate(10).mean == pytest.approx(10.0 * reward)


@pytest.mark.parametrize("horizon", [1, 2])
def test_short_horizons(horizon):
    agent = spaql.Tessera(oil(survey="quadratic", sharpness=1.0, horizon=horizon), seed=1).learn(iterations=1)
    assert len(agent._past().rewards) == horizon
    assert np.isfinite(agent.evaluate(10).mean)
    assert np.isfinite(agent.learn(iterations=FIRST).evaluate(10).mean)


def test_plans_take_more_effort_where_they_are_returned(monkeypatch):
    efforts = []
    whole = planner.make_plan

    def noted(past, facts, previous, seed, steps, thorough):
        efforts.append((steps, thorough))
        return whole(past, facts, previous, seed, steps, thorough)

    monkeypatch.setattr("spaql.agents.tessera.agent.make_plan", noted)
    monkeypatch.setattr("spaql.agents.tessera.agent._FIRST_PLAN", 50)
    agent = make("oil")
    agent.learn(iterations=45)
    assert [steps for steps, _ in efforts] == [50, 100, 200]
    assert not any(thorough for _, thorough in efforts)
    agent.cells()
    agent.evaluate(2)
    assert efforts[3:] == [(225, True)]
