"""Agents that are no longer used leave nothing behind: memory after many of them is that after a few.

SPAQL_SOAK=1 makes 10,000 agents and prints the memory of the process on the way.
"""

import gc
import os
import tracemalloc
import weakref

import pytest

import spaql
from environments_for_tests import Toy
from spaql.agents.files import from_bytes, to_bytes
from spaql.problems import Box, Problem

pytestmark = [pytest.mark.tiny_planning, pytest.mark.usefixtures("plan_early"), pytest.mark.compiled_only]

SOAK = bool(os.environ.get("SPAQL_SOAK"))
AGENTS = 10_000 if SOAK else 40
WARM_UP = 1000 if SOAK else 20  # agents after which everything that is kept once is there
MOST_GROWN = 8 << 20  # bytes of the process, which has some to spare
MOST_TRACED = 400 << 10  # bytes of Python and NumPy, which are counted exactly; 20 agents take a tenth of that


def measure():
    """Return the resident memory of this process."""
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def step(state, action, parameters, random, next_state):
    next_state[0] = state[0]
    return 1.0 - abs(state[0] - action[0]), False


def reset(parameters, random, state):
    state[0] = 0.5


def use(number):
    """Make an agent of one of several kinds and use it; return it."""
    kind = number % 5
    if kind == 0:
        agent = spaql.SPAQL("oil", rollouts=1, seed=number)
    elif kind == 1:
        agent = spaql.AQL("ambulance", rollouts=0, seed=number)
    elif kind == 2:
        agent = spaql.SPAQL(Toy(), rollouts=1, horizon=6, seed=number)
    elif kind == 3:
        problem = Problem("still", step, reset, Box(0, 1), Box(0, 1), 4, parameters=[number])
        agent = spaql.QLearning(problem, seed=number)
    else:
        agent = spaql.Tessera("oil", seed=number) if number % 50 == 4 else spaql.Random("oil", seed=number)
    agent.learn(iterations=5) if agent.learns else None
    agent.predict([0.5])
    agent.evaluate(2)
    if kind < 2:
        from_bytes(to_bytes(agent)).learn(iterations=1)
    return agent


@pytest.fixture
def _stop_tracing():
    yield
    tracemalloc.stop()


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs Linux's /proc")
@pytest.mark.usefixtures("_stop_tracing")
def test_memory_does_not_grow_with_the_number_of_agents():
    for number in range(WARM_UP):
        use(number)
    if not SOAK:
        tracemalloc.start()
    before, traced = measure(), tracemalloc.get_traced_memory()[0]
    for number in range(WARM_UP, AGENTS):
        use(number)
        if SOAK and number % 1000 == 999:
            print(f"{number + 1} agents: {measure() / 2**20:.1f} MB")
    assert measure() - before < MOST_GROWN
    assert tracemalloc.get_traced_memory()[0] - traced < MOST_TRACED


@pytest.mark.parametrize("kind", range(5))
def test_nothing_refers_to_an_agent_that_is_no_longer_used(kind):
    agent = weakref.ref(use(kind))
    gc.collect()
    assert agent() is None
