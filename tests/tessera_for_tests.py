"""Problems and trained agents for the tests of Tessera's parts."""

import numpy as np
import pytest
from numba.core import config

from problems_for_tests import box_world, finite_world
from spaql.agents import Tessera
from spaql.agents.tessera import replay
from spaql.agents.tessera import value_iteration as planning
from spaql.agents.tessera.replay import (
    USED,
)
from spaql.partition import kernels
from spaql.partition.rng import uniform
from spaql.problems import Box, Problem, ambulance, oil


def _drift(state, action, parameters, random, next_state):
    for d in range(8):
        next_state[d] = uniform(random)
    return action[0], False


def _start(parameters, random, state):
    for d in range(8):
        state[d] = uniform(random)


def wide_world():
    """Eight numbers to see and eight to choose."""
    return Problem(
        name="wide", step=_drift, reset=_start, states=Box([0] * 8, [1] * 8), actions=Box([0] * 8, [1] * 8), horizon=5
    )


EPISODES = 30 if config.DISABLE_JIT else 400


PROBLEMS = {
    "oil": oil,
    "oil, sharp": lambda: oil(sharpness=50.0),
    "ambulance": lambda: ambulance(cost=1.0),
    "two states, two actions, early end": lambda: box_world()[0],
    "two states, three finite actions": lambda: finite_world()[0],
}


def taught(name, **more):
    return Tessera(PROBLEMS[name](), seed=3, z_threshold=1.5, **more).learn(iterations=EPISODES)


def columns(agent):
    """States, actions, rewards and following states of the whole buffer."""
    used, hyper = int(agent._buffer.counts[USED]), agent._hyper
    transitions = agent._buffer.transitions[:used]
    ends = np.cumsum([hyper.states, hyper.actions, 1, hyper.states])
    return np.split(transitions, ends[:-1], axis=1)


def parts(agent):
    """What the kernels of an update take."""
    return agent._work.forest, agent._buffer, agent._stats, agent._hyper


every_problem = pytest.mark.parametrize("name", PROBLEMS)


def read_values(agent):
    """V as a function of a state in the unit cube: of the cells around it, the plane largest at its leaf's anchor."""
    count, states = len(agent._work), agent._hyper.states
    q, planes = agent._work.forest.cells["q"][:count].copy(), agent._stats.planes[:count].copy()
    lows, highs = agent._work.node_boxes()
    low, high = (edge[agent._work.forest.cells["node"][:count]] for edge in (lows, highs))
    leaves = np.flatnonzero(agent._work.forest.nodes["child"][: len(lows)] < 0)

    def value(x):
        around = ((low <= x) & ((x < high) | (high == 1.0))).all(axis=1)
        leaf = leaves[((lows[leaves] <= x) & ((x < highs[leaves]) | (highs[leaves] == 1.0))).all(axis=1)]
        (mark,) = agent._stats.anchors[leaf]
        there = q + (planes[:, states : 2 * states] * (mark - planes[:, :states])).sum(axis=1)
        best = np.flatnonzero(around)[np.argmax(there[around])]
        return q[best] + planes[best, states : 2 * states] @ (x - planes[best, :states])

    return value


def plan_values(agent):
    """Plan, as an update does."""
    planning.iterate_values(*parts(agent), *replay.sort_by_cell(agent._work.forest, agent._buffer))


def fit_all(agent):
    """Give every transition its target, as an update does."""
    planning.fit_targets(*parts(agent), *replay.sort_by_cell(agent._work.forest, agent._buffer))


def run_steps(agent, *steps):
    """Run some steps of an update and make their values count."""
    for step in steps:
        step(agent)
        kernels.rebuild_index(agent._work.forest)
        replay.update_greedy(agent._work.forest, agent._stats)
    return agent
