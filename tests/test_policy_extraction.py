"""A policy read off the largest Q plays what the agent chose for every leaf."""

import numpy as np
import pytest
from numba.core import config

from problems_for_tests import box_world, finite_world
from spaql import Tessera
from spaql.agents.tessera import replay
from spaql.agents.tessera.agent import _grow
from spaql.agents.tessera.policy_extraction import flatten_policy
from spaql.agents.tessera.replay import USED
from spaql.agents.tessera.split_tests import update
from spaql.partition import kernels
from spaql.problems import ambulance, cartpole, oil

EPISODES = 30 if config.DISABLE_JIT else 400
PROBLEMS = {
    "oil": oil,
    "ambulance": lambda: ambulance(cost=1.0),
    "two states, two actions": lambda: box_world()[0],
    "two states, three finite actions": lambda: finite_world()[0],
    "cartpole": cartpole,
}
every_problem = pytest.mark.parametrize("name", PROBLEMS)


def make_updated(name):
    """An agent right after an update."""
    agent = Tessera(PROBLEMS[name](), seed=5, z_threshold=1.5).learn(iterations=EPISODES)
    while not update(agent._work.forest, agent._buffer, agent._stats, agent._hyper):
        agent._work, agent._stats = _grow(agent._work, agent._stats, True)
    return agent


def flatten(agent):
    """The agent with its policy flattened; room grows where it must."""
    first = 0
    while first < agent._work.forest.used[0]:
        first = flatten_policy(agent._work.forest, agent._buffer, agent._stats, agent._hyper, first)
        agent._work, agent._stats = _grow(agent._work, agent._stats, first < agent._work.forest.used[0])
    return agent


def boxes(forest, cells):
    return forest.boxes[np.asarray(cells)].copy()


def find_greedy(forest, points):
    return [kernels.find_best(forest, 0, points, row) for row in range(len(points))]


@every_problem
def test_the_largest_q_is_the_choice_of_the_leaf(name):
    agent = make_updated(name)
    forest, stats = agent._work.forest, agent._stats
    points = np.random.default_rng(0).random((300, agent._hyper.states))
    leaves = [replay.descend(forest, 0, points, row, 0) for row in range(len(points))]
    chosen = boxes(forest, stats.greedy[leaves])
    plain = boxes(forest, find_greedy(forest, points))
    flatten(agent)
    np.testing.assert_array_equal(boxes(agent._work.forest, find_greedy(agent._work.forest, points)), chosen)
    if name == "cartpole" and not config.DISABLE_JIT:
        assert (plain != chosen).any()  # or nothing was tested


@every_problem
def test_nothing_else_changes(name):
    """Cells still tile the space, hold the experiences that they count, and leaves stay as they are."""
    agent = make_updated(name)
    nodes, transitions = int(agent._work.forest.used[0]), agent._buffer.transitions[: agent._buffer.counts[USED]]
    states, actions = agent._hyper.states, agent._hyper.actions
    flatten(agent)
    forest = agent._work.forest
    count = int(forest.used[1])
    assert forest.used[0] == nodes
    low, high = (edge[forest.cells["node"][:count]] for edge in agent._work.node_boxes())
    volume = (high - low).prod(axis=1)
    if agent._hyper.sides > states:
        volume = volume * (forest.boxes[:count, 1] - forest.boxes[:count, 0]).prod(axis=1)
        assert volume.sum() == pytest.approx(1.0)
    else:
        assert volume.sum() == pytest.approx(agent.problem.actions.count)
    points, moves = (
        np.ascontiguousarray(transitions[:, :states]),
        np.ascontiguousarray(transitions[:, states : states + actions]),
    )
    cells = [kernels.find_cell(forest, 0, points, row, moves) for row in range(len(points))]
    np.testing.assert_array_equal(np.bincount(cells, minlength=count), forest.cells["visits"][:count])


def test_planes_that_cross_are_told_apart():
    """Of two cells the planes tell which is chosen, on either side of where they cross."""
    agent = Tessera(finite_world()[0], seed=0)
    forest, stats = agent._work.forest, agent._stats
    states = agent._hyper.states
    replay.update_greedy(forest, stats)
    forest.cells["q"][:3] = [1.01, 1.0, 0.0]
    kernels.rebuild_index(forest)
    kernels.split_side(forest, 2, 0)
    replay.set_child_boxes(forest, stats, 0, 0)
    stats.planes[:2, :states] = 0.5
    stats.planes[0, states] = 1.0  # the first action is the better one above, the second below
    stats.planes[1, states] = -1.0
    stats.anchors[1:3] = [[0.25] + [0.5] * (states - 1), [0.75] + [0.5] * (states - 1)]
    flatten(agent)
    points = np.array([[0.1] + [0.5] * (states - 1), [0.9] + [0.5] * (states - 1)])
    below, above = find_greedy(agent._work.forest, points)
    assert agent._work.forest.boxes[below, 0, 0] == agent._work.forest.boxes[1, 0, 0]
    assert agent._work.forest.boxes[above, 0, 0] == agent._work.forest.boxes[0, 0, 0]
    assert agent._work.forest.cells["q"][[below, above]] == pytest.approx([1.25, 1.01])  # one needed no pinning
