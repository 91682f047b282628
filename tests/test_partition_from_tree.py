"""Partitions of decision trees whose cuts are anywhere: they decide as a plain descent does, and tile the space."""

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partitions_for_tests import TREE_SPACES, Planted, descend, inside, points_at_cuts, properties, random_tree
from spaql.explain.rules import Rules
from spaql.partition.kernels import NONE
from spaql.partition.partition import Partition
from spaql.partition.spaces import Box, Discrete
from spaql.partition.tree import decision_tree
from spaql.problems import Problem
from spaql.problems.labels import make_labels
from test_decision_list import plain

spaces = pytest.mark.parametrize("shape", TREE_SPACES)
trees = given(seed=st.integers(0, 2**32 - 1), leaves=st.integers(1, 64), steps=st.integers(1, 3))


def make(shape, seed, leaves, steps):
    states, actions = TREE_SPACES[shape]
    rng = np.random.default_rng(seed)
    tree = random_tree(states, actions, max(leaves, steps), rng, steps)
    return Partition.from_tree(states, actions, **tree), tree, rng


@spaces
@properties
@trees
def test_it_decides_as_a_plain_descent(shape, seed, leaves, steps):
    partition, tree, rng = make(shape, seed, leaves, steps)
    points = points_at_cuts(tree, partition.states, 300, rng)
    times = rng.integers(steps, size=len(points))
    expected = np.array([descend(tree, *pair) for pair in zip(points, times, strict=True)])
    twin = partition.copy()
    twin.sort()
    for one in (partition, twin):
        cells = one.greedy(points, times)
        for side in range(2):
            np.testing.assert_array_equal(one.forest.boxes[cells, side], tree["played"][expected])
        np.testing.assert_array_equal(one.forest.cells["q"][cells], tree["q"][expected])
        np.testing.assert_array_equal(one.forest.cells["visits"][cells], tree["visits"][expected])
        policy = decision_tree(one, lambda actions, single: actions)
        np.testing.assert_array_equal(
            policy.actions[policy.decide(points, times)], one.actions.from_unit(tree["played"][expected])
        )


@spaces
@properties
@trees
def test_its_cells_tile_the_states(shape, seed, leaves, steps):
    partition, tree, rng = make(shape, seed, leaves, steps)
    view, (low, high) = partition.view(), partition.node_boxes()
    assert len(view) == len(partition) == tree["children"].count(NONE)
    boxes = [corner[partition.forest.cells["node"]] for corner in (low, high)]
    for step in range(steps):
        cells = view.at(step)
        volume = ((cells.state_high - cells.state_low) / (partition.states.high - partition.states.low)).prod(axis=1)
        assert volume.sum() == pytest.approx(1.0, abs=1e-12)
        here = partition.forest.cells["root"] == step
        for point in points_at_cuts(tree, partition.states, 30, rng):
            held = np.flatnonzero(here)[inside(point, boxes[0][here], boxes[1][here], 1.0)]
            assert held.tolist() == partition.greedy(point[None], np.array([step])).tolist()


def test_a_border_of_the_actions_is_played_exactly():
    actions = Box([-0.3, 0.1], [0.1, 0.7])
    tree = {"dims": [0, -1, -1], "cuts": [0.3, 0, 0], "children": [1, -1, -1], "q": [0, 1, 2], "visits": [0, 5, 3]}
    partition = Partition.from_tree(Box(0, 1), actions, played=[[0, 0], [0, 1], [1, 0]], **tree)
    view = partition.view()
    assert view.action_low.tolist() == view.action_high.tolist() == [[-0.3, 0.7], [0.1, 0.1]]
    assert view.depth.tolist() == [1, 1]


def _step(state, action, parameters, random, next_state):
    next_state[0] = state[0]
    return action[0], False


def _reset(parameters, random, state):
    state[0] = 0.5


class Paid(gymnasium.Env):
    """The reward is the action."""

    observation_space, action_space = gymnasium.spaces.Box(0, 1, (1,)), gymnasium.spaces.Box(-0.3, 0.1, (1,), float)

    def reset(self, *, seed=None, options=None):
        return np.array([0.5], np.float32), {}

    def step(self, action):
        return np.array([0.5], np.float32), float(action[0]), True, False, {}


@pytest.mark.parametrize("compiled", [True, False])
def test_environments_get_the_border_exactly(compiled):
    spaces = {"states": Box(0, 1), "actions": Box(-0.3, 0.1)}
    problem = Problem(name="paid", step=_step, reset=_reset, horizon=1, **spaces) if compiled else Paid
    agent = Planted(problem, **({} if compiled else {"horizon": 1}))
    for place, value in ((0.0, -0.3), (1.0, 0.1)):
        agent.plant(dims=[0], cuts=[0.0], children=[-1], played=[[place]], q=[0.0], visits=[1])
        assert set(agent.evaluate(3).returns) == {value}
        assert agent.predict(np.array([0.5]))[0].tolist() == [value]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"children": [0, -1, -1]}, "corrupt node links"),
        ({"children": [2, -1, -1]}, "corrupt node links"),
        ({"children": [-1, -1, -1]}, "corrupt tree"),
        ({"children": [-1, -1, 1]}, "corrupt node links"),
        ({"children": [-2, -1, -1]}, "corrupt node links"),
        ({"cuts": [0.0, 0.0, 0.0]}, "corrupt tree"),
        ({"cuts": [1.0, 0.0, 0.0]}, "corrupt tree"),
        ({"cuts": [np.nan, 0.0, 0.0]}, "corrupt tree"),
        ({"cuts": [0.5, 0.5]}, "different lengths"),
        ({"dims": [1, 0, 0]}, "dimensions that states do not have"),
        ({"dims": [256, 0, 0]}, "dimensions that states do not have"),
        ({"q": [0.0, np.nan, 0.0]}, "corrupt tree"),
        ({"visits": [0, -1, 0]}, "corrupt tree"),
        ({"played": [[0], [3], [0]]}, "corrupt tree"),
        ({"played": [[0], [0.5], [0]]}, "corrupt tree"),
        ({"played": [0, 0, 0]}, "played: expected shape"),
        ({"steps": 4}, "corrupt node links"),
        ({"steps": 2}, "corrupt tree"),
    ],
)
def test_arrays_that_are_no_tree_are_refused(wrong, said):
    right = {"dims": [0, NONE, NONE], "cuts": [0.3, np.nan, np.nan], "children": [1, NONE, NONE]}
    right |= {"played": [[0], [1], [2]], "q": [0.0, 1.0, 2.0], "visits": [0, 1, 2]}
    assert len(Partition.from_tree(Box(0, 1), Discrete(3), **right)) == 2
    with pytest.raises(ValueError, match=said):
        Partition.from_tree(Box(0, 1), Discrete(3), **(right | wrong))


@pytest.mark.parametrize("states", [1, 2, 3])
@properties
@given(seed=st.integers(0, 2**32 - 1), leaves=st.integers(1, 40))
def test_rules_decide_as_the_tree_does(states, seed, leaves):
    """Also where they wrap around, and at cuts that differ by less than a rounding error from 0, 1 or each other."""
    problem, rng = plain(states), np.random.default_rng(seed)
    tree = random_tree(problem.states, problem.actions, leaves, rng)
    partition = Partition.from_tree(problem.states, problem.actions, **tree)
    periodic = np.flatnonzero(rng.random(states) < 0.5).tolist()
    policy = decision_tree(partition, problem.decode, periodic)
    points = points_at_cuts(tree, problem.states, 300, rng)
    expected = policy.actions[policy.decide(problem.states.project(points, periodic))]
    for weights in (None, partition):
        rules = Rules(problem, policy, make_labels(problem), partition=weights)
        np.testing.assert_array_equal(rules.decide(points), expected)
        assert all(rule.conditions for rule in rules[:-1])


class Informed(Planted):
    """An agent that knows the Q of some actions."""

    def _alternatives(self, point, step):
        return self.known


def test_an_explanation_names_the_action_and_the_alternatives():
    problem = Problem(name="paid", step=_step, reset=_reset, horizon=1, states=Box(0, 1), actions=Box(-0.3, 0.1))
    tree = {"dims": [0, -1, -1], "cuts": [0.3, 0, 0], "children": [1, -1, -1], "q": [0, 1, 2], "visits": [0, 5, 1]}
    agent = Informed(problem).plant(played=[[0], [0.25], [1]], **tree)
    agent.known = None
    told = agent.explain(np.array([0.5]), names=["x"], actions=["force"])
    assert [line for line in str(told).splitlines() if "--" not in line] == [
        "At x 0.5: force 0.1.",
        "The cell that decides has Q 2 after 1 visit.",
        "",
        "No other action has a Q here.",
        "",
        "All else equal:",
        "number  value  cell      changes going down     changes going up",
        "x       0.5    0.3 to 1  below 0.3: force -0.2  never",
    ]
    agent.known = np.array([[0.0], [1.0], [0.5], [0.5]]), np.array([0.5, 1.5, 1.75, 1.25])
    told = agent.explain(np.array([0.5]), names=["x"], actions=["force"])
    assert [line for line in str(told).splitlines() if "--" not in line][3:7] == [
        "Instead (force 0.1 has Q 1.5 here):",
        "action         Q  behind",
        "force -0.1  1.75   -0.25",
        "force -0.3   0.5       1",
    ]
    assert (told.cell.action_low, told.cell.action_high, told.relevant, told.q_here) == ((0.1,), (0.1,), 3, 1.5)
    assert [one.visits for one in told.runners_up] == [None, None]
    assert told.to_dict()["runners_up"][0]["action"] == [pytest.approx(-0.1)]
    agent.known = np.array([[0.0], [0.5]]), np.array([0.5, 1.75])
    text = str(agent.explain(np.array([0.5]), runners_up=1))
    assert "Instead, the best of 2:" in text
    assert "0.25" in text
    assert str(agent.rules(names=["x"], actions=["force"])).splitlines() == [
        "if x >= 0.3: force 0.1    17%",
        "otherwise: force -0.2     83%",
    ]
