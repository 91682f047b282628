"""What an agent remembers: filed where it belongs, summed up right, forgotten evenly, merged without a trace."""

import numpy as np
import pytest
from numba.core import config

from problems_for_tests import box_world, finite_world
from spaql import kernels, memory
from spaql.agents import SPAQL
from spaql.agents import spaql as learning
from spaql.agents.spaql import MECHANISMS
from spaql.errors import ParameterError
from spaql.memory import CELL, CODE, LATER, NEXT, ORIGIN, PLACE, SPREAD, USED
from spaql.partition import Partition
from spaql.problems import Box, Problem, ambulance, oil
from spaql.rng import normal

EPISODES = 30 if config.DISABLE_JIT else 400
PROBLEMS = {
    "oil": oil,
    "oil, sharp": lambda: oil(sharpness=50.0),
    "ambulance": lambda: ambulance(cost=1.0),
    "two states, two actions, early end": lambda: box_world()[0],
    "two states, three finite actions": lambda: finite_world()[0],
}
every_problem = pytest.mark.parametrize("name", PROBLEMS)


def taught(name, **more):
    return SPAQL(PROBLEMS[name](), seed=3, confidence=1.5, **more).learn(EPISODES)


def columns(agent):
    """States, actions, rewards and following states of everything remembered."""
    used, rule = int(agent._memory.counts[USED]), agent._rule
    facts = agent._memory.facts[:used]
    ends = np.cumsum([rule.states, rule.actions, 1, rule.states])
    return np.split(facts, ends[:-1], axis=1)


@every_problem
@pytest.mark.parametrize("room", [1_000_000, 64])
def test_every_experience_is_filed_under_the_cell_that_holds_it(name, room):
    agent = taught(name, memory=room)
    states, actions, _, following = (np.ascontiguousarray(column) for column in columns(agent))
    files, forest = agent._memory.files, agent._work.forest
    assert 0 < len(states) <= room
    low, high = agent._work.node_boxes()
    for i in range(len(states)):
        assert kernels.locate(forest, 0, states, i, actions) == files[i, CELL]
        for points, column in ((states, ORIGIN), (following, PLACE)):
            node = files[i, column]
            if node >= 0:
                assert ((low[node] <= points[i]) & ((points[i] < high[node]) | (high[node] == 1.0))).all()


@every_problem
@pytest.mark.parametrize("room", [1_000_000, 64])
def test_the_experiences_of_a_cell_are_chained_in_order(name, room):
    agent = taught(name, memory=room)
    files, ends = agent._memory.files, agent._ledger.ends
    for cell in range(len(agent._work)):
        chain, i = [], int(ends[cell, 0])
        while i >= 0:
            chain.append(i)
            i = int(files[i, LATER])
        assert chain == np.flatnonzero(files[: agent._memory.counts[USED], CELL] == cell).tolist()
        assert len(chain) == agent._work.forest.cells["visits"][cell]
        if chain:
            assert ends[cell, 1] == chain[-1]


@every_problem
def test_the_tally_counts_quarters_and_quadrants(name):
    agent = taught(name)
    rule, tally = agent._rule, agent._ledger.tally
    codes = agent._memory.files[: agent._memory.counts[USED], [CELL, CODE]]
    for cell in range(len(agent._work)):
        own = codes[codes[:, 0] == cell, 1]
        quarters = np.array([(own >> (2 * d)) & 3 for d in range(rule.sides)]).reshape(rule.sides, -1)
        expected = [(quarters[d] == k).sum() for d in range(rule.sides) for k in range(4)]
        for s in range(rule.states):
            for d in range(rule.states, rule.sides):
                corner = 2 * (quarters[s] // 2) + quarters[d] // 2
                expected += [(corner == k).sum() for k in range(4)]
        assert tally[cell, : memory.bins(rule)].tolist() == expected


@every_problem
def test_a_sweep_makes_q_the_mean_target(name):
    agent = taught(name)
    forest, rule, used = agent._work.forest, agent._rule, int(agent._memory.counts[USED])
    _, _, rewards, following = columns(agent)
    before = forest.cells["q"][: len(agent._work)].copy()
    low, high = agent._work.node_boxes()
    boxes = [(low[node], high[node]) for node in forest.cells["node"][: len(agent._work)]]

    def value(x):
        return max(q for q, (lo, hi) in zip(before, boxes, strict=True) if ((lo <= x) & ((x < hi) | (hi == 1.0))).all())

    ended = agent._memory.files[:used, PLACE] < 0
    targets = rewards[:, 0] + rule.discount * np.array(
        [0.0 if end else value(y) for y, end in zip(following, ended, strict=True)]
    )
    cells = agent._memory.files[:used, CELL]
    memory.sweep(forest, agent._memory, agent._ledger, rule)
    after = forest.cells["q"][: len(agent._work)]
    assert agent._ledger.scale[memory.DRIFT] == pytest.approx((targets - before[cells]).mean(), rel=1e-6, abs=1e-9)
    for cell in np.unique(cells):
        assert after[cell] == pytest.approx(targets[cells == cell].mean(), rel=1e-9)
        squares = ((targets[cells == cell] - targets[cells == cell].mean()) ** 2).sum()
        assert agent._ledger.tally[cell, -1] == pytest.approx(squares, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("name", ["oil", "oil, sharp", "ambulance", "two states, three finite actions"])
def test_merging_changes_no_action_in_a_state_that_was_visited(name, monkeypatch):
    agent = taught(name)
    states = agent.problem.states.from_unit(columns(agent)[0])
    merged, arms = agent.predict(states)[0], agent.arms
    monkeypatch.setattr("spaql.agents.spaql.merge", lambda *arguments: None)
    twin = taught(name)
    np.testing.assert_array_equal(twin.predict(states)[0], merged)
    assert arms <= twin.arms
    if not config.DISABLE_JIT:
        assert arms < twin.arms


@every_problem
def test_the_policy_tiles_the_space(name):
    agent = taught(name)
    for partition in (agent._work, agent._policy()):
        low, high = partition.node_boxes()
        cells, boxes = partition.forest.cells[: len(partition)], partition.forest.boxes[: len(partition)]
        draws = np.random.default_rng(0).random((300, low.shape[1] + boxes.shape[2]))
        states, actions = np.split(draws, [low.shape[1]], axis=1)
        if hasattr(agent.problem.actions, "count"):
            actions = np.floor(actions * agent.problem.actions.count)
        for x, a in zip(states, actions, strict=True):
            held = ((low[cells["node"]] <= x) & (x < high[cells["node"]])).all(axis=1)
            held &= ((boxes[:, 0] <= a) & ((a < boxes[:, 1]) | (boxes[:, 0] == boxes[:, 1]))).all(axis=1)
            if hasattr(agent.problem.actions, "count"):
                held &= (boxes[:, 0] == a).all(axis=1)
            assert held.sum() == 1


def _scaled_step(state, action, parameters, random, next_state):
    next_state[0] = action[0]
    return parameters[0] * (1.0 - abs(action[0] - 0.3) - 0.5 * abs(state[0] - action[0])) + parameters[1], False


def _scaled_reset(parameters, random, state):
    state[0] = 0.875


def scaled(unit, zero=0.0):
    spaces = {"states": Box(0, 1), "actions": Box(0, 1)}
    return Problem(
        name="scaled", step=_scaled_step, reset=_scaled_reset, **spaces, horizon=6, parameters=[float(unit), zero]
    )


@pytest.mark.parametrize("unit", [2.0**-40, 2.0**30])
def test_the_unit_of_the_rewards_changes_nothing(unit):
    one, other = (SPAQL(scaled(u)).learn(EPISODES) for u in (1.0, unit))
    for field in ("state_low", "state_high", "action_low", "action_high", "visits"):
        np.testing.assert_array_equal(getattr(one.partition, field), getattr(other.partition, field))
    np.testing.assert_array_equal(unit * one.partition.q, other.partition.q)


@pytest.mark.compiled_only
@pytest.mark.parametrize("zero", [-1000.0, -1.0, 50.0])
def test_the_zero_of_the_rewards_changes_little(zero):
    agent = SPAQL(scaled(1.0, zero)).learn(EPISODES)
    ideal = 6 - 0.5 * 0.575
    assert agent.evaluate(2).mean - 6 * zero > 0.97 * ideal


def test_where_nothing_is_at_stake_nothing_splits():
    agent = SPAQL(scaled(0.0, 0.1)).learn(EPISODES)
    assert agent.arms == 1
    assert agent._ledger.scale[SPREAD] == 0.0


@pytest.mark.compiled_only
@pytest.mark.parametrize(("name", "share"), [("oil", 0.97), ("oil, sharp", 0.95), ("ambulance", 0.97)])
def test_the_optimum_is_near_after_a_few_thousand_steps(name, share):
    from spaql import optimum

    problem = PROBLEMS[name]()
    agent = SPAQL(problem, seed=0).learn(total_timesteps=8000)
    assert agent.training_steps == 8000
    assert agent.evaluate(500).mean > share * optimum(problem).value


@pytest.mark.compiled_only
@pytest.mark.parametrize("name", MECHANISMS)
def test_what_is_left_out_makes_a_difference(name):
    """In something: the policy, the number of cells, or how it is played; where, depends on the mechanism."""
    special = {"drift": lambda: scaled(1.0, -5.0), "diagonals": PROBLEMS["ambulance"]}
    problem = special.get(name, PROBLEMS["oil, sharp"])()
    whole, part = (SPAQL(problem, seed=0, without=without).learn(EPISODES) for without in ((), [name]))
    assert part.without == (name,)
    same = whole.arms == part.arms and np.array_equal(whole.partition.q, part.partition.q)
    assert not same or whole.evaluate(20).mean != part.evaluate(20).mean


@pytest.mark.parametrize("without", ["foresigth", ["middles", 3], 5, None, True, [["middles"]], b"a"])
def test_only_mechanisms_can_be_left_out(without):
    with pytest.raises(ParameterError, match=r"^without: expected some of foresight, "):
        SPAQL(oil(), without=without)


def test_forgetting_keeps_the_younger_of_each_two():
    agent = taught("oil")
    facts, used = agent._memory.facts.copy(), int(agent._memory.counts[USED])
    memory.forget(agent._work.forest, agent._memory, agent._ledger, agent._rule)
    kept = used // 2
    assert agent._memory.counts[USED] == kept
    np.testing.assert_array_equal(agent._memory.facts[:kept], facts[1:used:2][:kept])
    assert agent._memory.counts[NEXT] == kept + max(16, int(0.25 * kept))
    assert agent._work.forest.cells["visits"].sum() == kept


@pytest.mark.compiled_only
@pytest.mark.parametrize("name", PROBLEMS)
def test_how_often_room_runs_out_changes_nothing(name, monkeypatch):
    ample = SPAQL(PROBLEMS[name](), seed=0).learn(EPISODES)
    monkeypatch.setattr("spaql.agents.spaql._FIRST_ROOM", 4)
    tight = SPAQL(PROBLEMS[name](), seed=0).learn(EPISODES)
    np.testing.assert_array_equal(ample.history, tight.history)
    np.testing.assert_array_equal(ample.partition.q, tight.partition.q)


@pytest.mark.compiled_only
@pytest.mark.parametrize("where", [(learning, "longer_ledger"), (Partition, "hold")], ids=["ledger", "forest"])
def test_an_interrupt_while_room_is_made_leaves_a_whole_agent(where, monkeypatch):
    """Whichever of the two arrays had grown: what was learned can be asked for, and learning goes on."""
    monkeypatch.setattr("spaql.agents.spaql._FIRST_ROOM", 4)
    problem = PROBLEMS["oil, sharp"]()
    agent, whole = SPAQL(problem, seed=0), SPAQL(problem, seed=0).learn(EPISODES)
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
        agent.learn(EPISODES)
    assert agent.arms > 0
    agent.learn(EPISODES - agent.iterations)
    np.testing.assert_array_equal(agent.partition.q, whole.partition.q)


def end(state, action, parameters, random, next_state):
    """A way of about ten steps to a place that ends it; every step costs 1."""
    next_state[0] = min(1.0, max(0.0, state[0] + 0.1 * action[0] + 0.01 * normal(random)))
    return -1.0, next_state[0] > 0.95


def far(parameters, random, state):
    state[0] = 0.1


@pytest.mark.compiled_only
def test_ends_are_found_and_no_value_is_better_than_the_rewards_allow():
    way = Problem(name="way", step=end, reset=far, states=Box(0, 1), actions=Box(-1, 1), horizon=50)
    for seed in range(3):
        agent = SPAQL(way, seed=seed).learn(total_timesteps=25_000)
        assert agent.evaluate(200).mean > -10.5
        assert agent.history["value_high"].max() <= 0.0
        assert agent.history["value_low"].min() >= -50.0


@pytest.mark.compiled_only
def test_more_steps_make_it_finer():
    arms = [SPAQL(oil(sharpness=1.0), seed=0).learn(total_timesteps=steps).arms for steps in (2_500, 25_000, 250_000)]
    assert arms[0] < arms[1] < arms[2]


@pytest.mark.compiled_only
@pytest.mark.parametrize("unit", [1e-150, 1e-12, 1e90])
def test_tiny_and_huge_rewards_split_as_others_do(unit):
    plain, other = (SPAQL(scaled(size, 0.0), seed=0).learn(EPISODES) for size in (1.0, unit))
    assert plain.arms > 3
    assert other.arms == pytest.approx(plain.arms, rel=0.2)
