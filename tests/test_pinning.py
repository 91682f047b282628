"""A policy read off the largest Q plays what the agent chose for every leaf."""

import numpy as np
import pytest
from numba.core import config

from problems_for_tests import box_world, finite_world
from spaql import Tessera
from spaql.agents.tessera import replay as memory
from spaql.agents.tessera.agent import _roomier
from spaql.agents.tessera.policy_pins import pin
from spaql.agents.tessera.replay import USED
from spaql.agents.tessera.split_tests import revise
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


def revised(name):
    """Forest, memory, ledger and rule of an agent whose experiences were just revised."""
    agent = Tessera(PROBLEMS[name](), seed=5, z_threshold=1.5).learn(iterations=EPISODES)
    while not revise(agent._work.forest, agent._memory, agent._ledger, agent._rule):
        agent._work, agent._ledger = _roomier(agent._work, agent._ledger, True)
    return agent


def pinned(agent):
    """Pin its choices, with room made where it is asked for."""
    first = 0
    while first < agent._work.forest.used[0]:
        first = pin(agent._work.forest, agent._memory, agent._ledger, agent._rule, first)
        agent._work, agent._ledger = _roomier(agent._work, agent._ledger, first < agent._work.forest.used[0])
    return agent


def boxes(forest, cells):
    return forest.boxes[np.asarray(cells)].copy()


def foremost(forest, points):
    return [kernels.best(forest, 0, points, row) for row in range(len(points))]


@every_problem
def test_the_largest_q_is_the_choice_of_the_leaf(name):
    agent = revised(name)
    forest, ledger = agent._work.forest, agent._ledger
    points = np.random.default_rng(0).random((300, agent._rule.states))
    leaves = [memory.leaf(forest, 0, points, row, 0) for row in range(len(points))]
    chosen = boxes(forest, ledger.greedy[leaves])
    plain = boxes(forest, foremost(forest, points))
    pinned(agent)
    np.testing.assert_array_equal(boxes(agent._work.forest, foremost(agent._work.forest, points)), chosen)
    if name == "cartpole" and not config.DISABLE_JIT:
        assert (plain != chosen).any()  # or nothing was tested


@every_problem
def test_nothing_else_changes(name):
    """Cells still tile the space, hold the experiences that they count, and leaves stay as they are."""
    agent = revised(name)
    nodes, facts = int(agent._work.forest.used[0]), agent._memory.facts[: agent._memory.counts[USED]]
    states, actions = agent._rule.states, agent._rule.actions
    pinned(agent)
    forest = agent._work.forest
    count = int(forest.used[1])
    assert forest.used[0] == nodes
    low, high = (edge[forest.cells["node"][:count]] for edge in agent._work.node_boxes())
    volume = (high - low).prod(axis=1)
    if agent._rule.sides > states:
        volume = volume * (forest.boxes[:count, 1] - forest.boxes[:count, 0]).prod(axis=1)
        assert volume.sum() == pytest.approx(1.0)
    else:
        assert volume.sum() == pytest.approx(agent.problem.actions.count)
    points, moves = np.ascontiguousarray(facts[:, :states]), np.ascontiguousarray(facts[:, states : states + actions])
    cells = [kernels.locate(forest, 0, points, row, moves) for row in range(len(points))]
    np.testing.assert_array_equal(np.bincount(cells, minlength=count), forest.cells["visits"][:count])


def test_planes_that_cross_are_told_apart():
    """Of two cells the planes tell which is chosen, on either side of where they cross."""
    agent = Tessera(finite_world()[0], seed=0)
    forest, ledger = agent._work.forest, agent._ledger
    states = agent._rule.states
    memory.survey(forest, ledger)
    forest.cells["q"][:3] = [1.01, 1.0, 0.0]
    kernels.refresh(forest)
    kernels.halve(forest, 2, 0)
    memory.frame_children(forest, ledger, 0, 0)
    ledger.planes[:2, :states] = 0.5
    ledger.planes[0, states] = 1.0  # the first action is the better one above, the second below
    ledger.planes[1, states] = -1.0
    ledger.marks[1:3] = [[0.25] + [0.5] * (states - 1), [0.75] + [0.5] * (states - 1)]
    pinned(agent)
    points = np.array([[0.1] + [0.5] * (states - 1), [0.9] + [0.5] * (states - 1)])
    below, above = foremost(agent._work.forest, points)
    assert agent._work.forest.boxes[below, 0, 0] == agent._work.forest.boxes[1, 0, 0]
    assert agent._work.forest.boxes[above, 0, 0] == agent._work.forest.boxes[0, 0, 0]
    assert agent._work.forest.cells["q"][[below, above]] == pytest.approx([1.25, 1.01])  # one needed no pinning
