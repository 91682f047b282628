"""Replay buffer: transitions are linked to their cells, counted, dropped evenly, and never lost."""

import numpy as np
import pytest

from spaql.agents import Tessera
from spaql.agents.tessera import agent as learning
from spaql.agents.tessera import replay
from spaql.agents.tessera.replay import (
    CELL,
    CODE,
    DUE,
    NEXT,
    NEXT_NODE,
    NODE,
    USED,
)
from spaql.partition import kernels
from spaql.partition.partition import Partition
from spaql.problems import oil
from tessera_for_tests import EPISODES, PROBLEMS, columns, every_problem, taught, wide_world


@every_problem
@pytest.mark.parametrize("room", [1_000_000, 64])
def test_every_transition_is_linked_to_the_cell_that_holds_it(name, room):
    agent = taught(name, buffer_size=room)
    states, actions, _, following = (np.ascontiguousarray(column) for column in columns(agent))
    links, forest = agent._buffer.links, agent._work.forest
    assert 0 < len(states) <= room
    low, high = agent._work.node_boxes()
    for i in range(len(states)):
        assert kernels.find_cell(forest, 0, states, i, actions) == links[i, CELL]
        for points, column in ((states, NODE), (following, NEXT_NODE)):
            node = links[i, column]
            if node >= 0:
                assert ((low[node] <= points[i]) & ((points[i] < high[node]) | (high[node] == 1.0))).all()


@pytest.mark.parametrize("parameters", [{"growth": 1.5}, {"min_samples": 50}, {}])
def test_a_full_buffer_is_still_updated(parameters):
    """Nothing is forgotten that no update has seen, however late one would fall due."""
    agent = Tessera(oil(), seed=0, buffer_size=100, **parameters)
    for _ in range(6):
        agent.learn(iterations=20)
        before = agent.cells().q.tolist()
        agent.learn(iterations=20)
        assert agent.cells().q.tolist() != before
        values = agent.history["value_high"][-20:]
        assert len(set(values)) > 1


def test_sixteen_sides_have_a_code():
    agent = Tessera(wide_world(), seed=0).learn(iterations=20)
    links, used = agent._buffer.links, int(agent._buffer.counts[USED])
    transitions = np.ascontiguousarray(agent._buffer.transitions[:used, :16])
    if len(agent._work) == 1:
        quarters = np.minimum((transitions * 4).astype(np.int64), 3)
        codes = (quarters << (2 * np.arange(16))).sum(axis=1)
        np.testing.assert_array_equal(links[:used, CODE].astype(np.int64) & 0xFFFFFFFF, codes)


@every_problem
@pytest.mark.parametrize("room", [1_000_000, 64])
def test_the_transitions_of_a_cell_are_linked_in_order(name, room):
    agent = taught(name, buffer_size=room)
    links, ends = agent._buffer.links, agent._stats.ends
    for cell in range(len(agent._work)):
        chain, i = [], int(ends[cell, 0])
        while i >= 0:
            chain.append(i)
            i = int(links[i, NEXT])
        assert chain == np.flatnonzero(links[: agent._buffer.counts[USED], CELL] == cell).tolist()
        assert len(chain) == agent._work.forest.cells["visits"][cell]
        if chain:
            assert ends[cell, 1] == chain[-1]


@every_problem
def test_the_tally_counts_quarters_and_quadrants(name):
    agent = taught(name)
    hyper, tally = agent._hyper, agent._stats.tally
    codes = agent._buffer.links[: agent._buffer.counts[USED], [CELL, CODE]]
    for cell in range(len(agent._work)):
        own = codes[codes[:, 0] == cell, 1]
        quarters = np.array([(own >> (2 * d)) & 3 for d in range(hyper.sides)]).reshape(hyper.sides, -1)
        expected = [(quarters[d] == k).sum() for d in range(hyper.sides) for k in range(4)]
        for s in range(hyper.states):
            for d in range(hyper.states, hyper.sides):
                corner = 2 * (quarters[s] // 2) + quarters[d] // 2
                expected += [(corner == k).sum() for k in range(4)]
        assert tally[cell, : replay.count_bins(hyper)].tolist() == expected


def test_dropping_half_keeps_the_younger_of_each_two():
    agent = taught("oil")
    transitions, used = agent._buffer.transitions.copy(), int(agent._buffer.counts[USED])
    replay.drop_half(agent._work.forest, agent._buffer, agent._stats, agent._hyper)
    kept = used // 2
    assert agent._buffer.counts[USED] == kept
    np.testing.assert_array_equal(agent._buffer.transitions[:kept], transitions[1:used:2][:kept])
    assert agent._buffer.counts[DUE] == kept + max(16, int(0.25 * kept))
    assert agent._work.forest.cells["visits"].sum() == kept


@every_problem
@pytest.mark.parametrize("room", [20, 64])
def test_how_often_learning_is_interrupted_changes_nothing(name, room):
    """Even where the buffer is full just as an update falls due: the update comes first, dropping after it."""
    episodes = EPISODES // 4 + 20
    whole = Tessera(PROBLEMS[name](), seed=1, buffer_size=room, z_threshold=1.5).learn(iterations=episodes)
    cut = Tessera(PROBLEMS[name](), seed=1, buffer_size=room, z_threshold=1.5)
    for _ in range(episodes):
        cut.learn(iterations=1)
    np.testing.assert_array_equal(whole.history, cut.history)
    np.testing.assert_array_equal(whole.cells().q, cut.cells().q)


@pytest.mark.compiled_only
@pytest.mark.parametrize("name", PROBLEMS)
def test_how_often_room_runs_out_changes_nothing(name, monkeypatch):
    ample = Tessera(PROBLEMS[name](), seed=0).learn(iterations=EPISODES)
    monkeypatch.setattr("spaql.agents.tessera.agent._FIRST_ROOM", 4)
    tight = Tessera(PROBLEMS[name](), seed=0).learn(iterations=EPISODES)
    np.testing.assert_array_equal(ample.history, tight.history)
    np.testing.assert_array_equal(ample.cells().q, tight.cells().q)


@pytest.mark.compiled_only
@pytest.mark.parametrize("where", [(learning, "grow_stats"), (Partition, "ensure_room")], ids=["statistics", "forest"])
def test_an_interrupt_while_room_is_made_leaves_a_whole_agent(where, monkeypatch):
    """Whichever of the two arrays had grown: what was learned can be asked for, and learning goes on."""
    monkeypatch.setattr("spaql.agents.tessera.agent._FIRST_ROOM", 4)
    problem = PROBLEMS["oil, sharp"]()
    agent, whole = Tessera(problem, seed=0), Tessera(problem, seed=0).learn(iterations=EPISODES)
    owner, name = where
    plain, calls = getattr(owner, name), []

    def interrupted(*arguments):
        calls.append(1)
        result = plain(*arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(owner, name, interrupted)
    with pytest.raises(KeyboardInterrupt):
        agent.learn(iterations=EPISODES)
    assert len(agent.cells()) > 0
    agent.learn(iterations=EPISODES - agent.iterations)
    np.testing.assert_array_equal(agent.cells().q, whole.cells().q)
