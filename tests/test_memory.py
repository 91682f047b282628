"""What an agent remembers: filed where it belongs, summed up right, forgotten evenly, merged without a trace.

`test_textbook.py` compares whole runs; here is what can be said of one revision, or of any.
"""

import numpy as np
import pytest
from numba.core import config

from problems_for_tests import box_world, finite_world
from spaql.agents import Tessera
from spaql.agents.tessera import agent as learning
from spaql.agents.tessera import replay as memory
from spaql.agents.tessera import split_tests as splitting
from spaql.agents.tessera import value_iteration as planning
from spaql.agents.tessera.agent import MECHANISMS
from spaql.agents.tessera.replay import (
    CELL,
    CODE,
    HIGHEST,
    LATER,
    LEAST,
    LOWEST,
    MOST,
    NEXT,
    ORIGIN,
    PLACE,
    SPREAD,
    USED,
)
from spaql.errors import ParameterError
from spaql.partition import kernels
from spaql.partition.partition import Partition
from spaql.partition.rng import normal, uniform
from spaql.problems import Box, Discrete, Problem, ambulance, oil


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
every_problem = pytest.mark.parametrize("name", PROBLEMS)


def taught(name, **more):
    return Tessera(PROBLEMS[name](), seed=3, z_threshold=1.5, **more).learn(iterations=EPISODES)


def columns(agent):
    """States, actions, rewards and following states of everything remembered."""
    used, rule = int(agent._memory.counts[USED]), agent._rule
    facts = agent._memory.facts[:used]
    ends = np.cumsum([rule.states, rule.actions, 1, rule.states])
    return np.split(facts, ends[:-1], axis=1)


@every_problem
@pytest.mark.parametrize("room", [1_000_000, 64])
def test_every_experience_is_filed_under_the_cell_that_holds_it(name, room):
    agent = taught(name, buffer_size=room)
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


@pytest.mark.parametrize("parameters", [{"growth": 1.5}, {"min_samples": 50}, {}])
def test_a_full_memory_goes_on_being_revised(parameters):
    """Nothing is forgotten that no revision has seen, however late one would fall due."""
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
    files, used = agent._memory.files, int(agent._memory.counts[USED])
    facts = np.ascontiguousarray(agent._memory.facts[:used, :16])
    if len(agent._work) == 1:
        quarters = np.minimum((facts * 4).astype(np.int64), 3)
        codes = (quarters << (2 * np.arange(16))).sum(axis=1)
        np.testing.assert_array_equal(files[:used, CODE].astype(np.int64) & 0xFFFFFFFF, codes)


@every_problem
@pytest.mark.parametrize("room", [1_000_000, 64])
def test_the_experiences_of_a_cell_are_chained_in_order(name, room):
    agent = taught(name, buffer_size=room)
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


def known(agent):
    """V as a function of a state in the unit cube: of the cells around it, the plane largest at its leaf's mark."""
    count, states = len(agent._work), agent._rule.states
    q, planes = agent._work.forest.cells["q"][:count].copy(), agent._ledger.planes[:count].copy()
    lows, highs = agent._work.node_boxes()
    low, high = (edge[agent._work.forest.cells["node"][:count]] for edge in (lows, highs))
    leaves = np.flatnonzero(agent._work.forest.nodes["child"][: len(lows)] < 0)

    def value(x):
        around = ((low <= x) & ((x < high) | (high == 1.0))).all(axis=1)
        leaf = leaves[((lows[leaves] <= x) & ((x < highs[leaves]) | (highs[leaves] == 1.0))).all(axis=1)]
        (mark,) = agent._ledger.marks[leaf]
        there = q + (planes[:, states : 2 * states] * (mark - planes[:, :states])).sum(axis=1)
        best = np.flatnonzero(around)[np.argmax(there[around])]
        return q[best] + planes[best, states : 2 * states] @ (x - planes[best, :states])

    return value


def parts(agent):
    """What the kernels of a revision take."""
    return agent._work.forest, agent._memory, agent._ledger, agent._rule


def planned(agent):
    """Plan, as a revision does."""
    planning.plan(*parts(agent), *memory.sort(agent._work.forest, agent._memory))


def swept(agent):
    """Give every experience its target, as a revision does."""
    planning.sweep(*parts(agent), *memory.sort(agent._work.forest, agent._memory))


def surveyed(agent, *steps):
    """Do so many steps of a revision and make their values count."""
    for step in steps:
        step(agent)
        kernels.refresh(agent._work.forest)
        memory.survey(agent._work.forest, agent._ledger)
    return agent


@every_problem
@pytest.mark.parametrize("disable", [(), ("slopes",)], ids=["planes", "levels"])
def test_a_sweep_makes_q_the_mean_target(name, disable):
    agent = taught(name, disable=disable)
    rule, used = agent._rule, int(agent._memory.counts[USED])
    _, _, rewards, following = columns(agent)
    value = known(agent)
    ended = agent._memory.files[:used, PLACE] < 0
    targets = rewards[:, 0] + rule.discount * np.array(
        [0.0 if end else value(y) for y, end in zip(following, ended, strict=True)]
    )
    cells = agent._memory.files[:used, CELL]
    swept(agent)
    np.testing.assert_allclose(agent._memory.targets[:used], targets, rtol=1e-9)
    after = agent._work.forest.cells["q"][: len(agent._work)]
    for cell in np.unique(cells):
        own = targets[cells == cell]
        assert after[cell] == pytest.approx(own.mean(), rel=1e-9)
        assert agent._ledger.squares[cell, memory.TARGETS] == pytest.approx(
            ((own - own.mean()) ** 2).sum(), rel=1e-6, abs=1e-9
        )
        if not disable:
            span = agent._ledger.planes[cell, 2 * rule.states :]
            np.testing.assert_allclose(span, [own.min() - own.mean(), own.max() - own.mean()], rtol=1e-6, atol=1e-9)


@every_problem
@pytest.mark.parametrize("min_samples", [2, 9])
def test_the_slope_of_a_cell_is_that_of_a_ridge_regression(name, min_samples):
    """As if there were more experiences, that say nothing of a slope, spread evenly over the cell."""
    agent = taught(name, min_samples=min_samples)
    states, used = agent._rule.states, int(agent._memory.counts[USED])
    low, high = agent._work.node_boxes()
    swept(agent)
    cells, steep = agent._memory.files[:used, CELL], 0
    for cell in np.unique(cells):
        x, t = columns(agent)[0][cells == cell], agent._memory.targets[:used][cells == cell]
        node = agent._work.forest.cells["node"][cell]
        more = min_samples * np.diag((high[node] - low[node]) ** 2 / 12.0)
        scatter = (x - x.mean(axis=0)).T @ (x - x.mean(axis=0))
        slope = np.linalg.solve(scatter + more, (x - x.mean(axis=0)).T @ (t - t.mean()))
        plane = agent._ledger.planes[cell]
        np.testing.assert_allclose(plane[:states], x.mean(axis=0), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(plane[states : 2 * states], slope, rtol=1e-7, atol=1e-9 * np.abs(t).max())
        steep += np.abs(slope).max() > 1e-3
    assert steep > 0


def test_without_slopes_every_plane_is_level():
    agent = taught("two states, three finite actions", disable=["slopes"])
    assert not agent._ledger.planes.any()
    assert not agent._ledger.drafts.any()


# Small problems whose V is known.  The agents never act: they are given their cells and their experiences.


def _nowhere(state, action, parameters, random, next_state):
    next_state[0] = state[0]
    return 0.0, True


def _middle(parameters, random, state):
    state[0] = 0.5


def given(cuts, experiences, **more):
    """An agent for one state and two actions, with both of its cells cut so often; rows of x, a, r, x' (None: end)."""
    spaces = {"states": Box(0, 1), "actions": Discrete(2)}
    agent = Tessera(Problem(name="none", step=_nowhere, reset=_middle, horizon=5, **spaces), **more)
    forest, ledger, rule = agent._work.forest, agent._ledger, agent._rule
    agent._memory = memory.allocate(rule, len(experiences))
    memory.survey(forest, ledger)
    for _ in range(cuts):
        for cell in range(len(agent._work)):
            splitting.part(forest, agent._memory, ledger, rule, cell, 0)
    for i, (x, a, r, following) in enumerate(experiences):
        agent._memory.facts[i] = x, a, r, x if following is None else following
        agent._memory.files[i, ORIGIN] = 0
        agent._memory.files[i, PLACE] = -1 if following is None else 0
        memory.limit(ledger, rule, r, following is None)
        point, action = agent._memory.facts[i : i + 1, :1].copy(), agent._memory.facts[i : i + 1, 1:2].copy()
        memory.chain(*parts(agent), i, kernels.locate(forest, 0, point, 0, action))
        agent._memory.counts[USED] += 1
    memory.mark(forest, agent._memory, ledger)
    return surveyed(agent)


def q_at(agent, x, a):
    forest = agent._work.forest
    return forest.cells["q"][kernels.locate(forest, 0, np.array([[x]]), 0, np.array([[float(a)]]))]


def chain(cuts):
    """Places in a row, one per leaf: one step up or down costs 1, and the way ends above the highest place."""
    places = [(k + 0.5) / 2**cuts for k in range(2**cuts)]
    up = [(x, 1, -1.0, y) for x, y in zip(places, [*places[1:], None], strict=True)]
    down = [(x, 0, -1.0, y) for x, y in zip(places, [places[0], *places[:-1]], strict=True)]
    return places, up + down


@pytest.mark.parametrize("discount", [0.5, 0.95, 0.999])
@pytest.mark.parametrize("disable", [(), ("slopes",)], ids=["planes", "levels"])
@pytest.mark.parametrize(("cuts", "revisions"), [(2, 1), (3, 2)])
def test_planning_solves_a_chain(discount, disable, cuts, revisions):
    """One revision does for a short way; all actions alike at first, a round finds the way from one place more."""
    places, rows = chain(cuts)
    agent = given(cuts, 3 * rows, discount=discount, disable=disable)
    for _ in range(revisions):
        surveyed(agent, planned, swept)
    best = [-sum(discount**k for k in range(len(places) - place)) for place in range(len(places))]
    for place, x in enumerate(places):
        assert q_at(agent, x, 1) == pytest.approx(best[place], rel=1e-9)
        assert q_at(agent, x, 0) == pytest.approx(-1.0 + discount * best[max(0, place - 1)], rel=1e-9)
        assert known(agent)(np.array([x])) == pytest.approx(best[place], rel=1e-9)


def test_without_planning_values_move_by_one_step():
    places, rows = chain(3)
    agent = given(3, rows, discount=0.5, disable=["planning"])
    for revision in range(10):
        splitting.revise(*parts(agent))
        for place, x in enumerate(places):
            steps = min(revision + 1, 8 - place)
            assert q_at(agent, x, 1) == pytest.approx(-sum(0.5**k for k in range(steps)), rel=1e-12)


def sloping(count, discount, step=0.05):
    """States all over [0, 1] move up by a short step; rewards such that V(x) = 3 + 2 x, and 1 less for one action."""
    draw = np.random.default_rng(0).random(count)
    rows = []
    for k, x in enumerate(draw):
        following = x + step if x + step < 1.0 else None
        reward = 3.0 + 2.0 * x - (0.0 if following is None else discount * (3.0 + 2.0 * following))
        rows.append((x, k % 2, reward - (k % 2 == 0), following))
    return rows


@pytest.mark.parametrize("discount", [0.5, 0.9])
def test_planes_find_a_value_within_a_cell_that_levels_do_not(discount):
    points, errors = np.linspace(0.05, 0.95, 19), {}
    for disable in ((), ("slopes",)):
        agent = given(1, sloping(800, discount), discount=discount, disable=disable)
        for _ in range(10):
            surveyed(agent, planned, swept)
        errors[disable] = max(abs(known(agent)(np.array([x])) - (3.0 + 2.0 * x)) for x in points)
    assert errors[()] < 0.1
    assert errors["slopes",] > 0.4


def test_a_cell_without_experiences_moves_with_the_others():
    """By their mean change, weighed by their experiences, however often Q is iterated; its plane stays."""
    agent = given(2, [row for row in sloping(300, 0.9) if not (row[0] > 0.75 and row[1] == 0)], discount=0.9)
    cells = agent._work.forest.cells[: len(agent._work)]
    assert (cells["visits"] == 0).sum() == 1
    rng, planes = np.random.default_rng(1), agent._ledger.drafts[: len(cells)]
    cells["q"] = rng.normal(size=len(cells))
    planes[cells["visits"] == 0] = agent._ledger.planes[: len(cells)][cells["visits"] == 0] = [0.8, 0.5, -1.0, 1.0]
    for step in (planned, swept):
        surveyed(agent)
        before = cells["q"].copy()
        surveyed(agent, step)
        moved = cells["q"] - before
        seen = cells["visits"] > 0
        expected = np.average(moved[seen], weights=cells["visits"][seen])
        assert moved[~seen] == pytest.approx(expected, rel=1e-9)
        assert abs(expected) > 1e-6
    assert agent._ledger.planes[: len(cells)][~seen].tolist() == [[0.8, 0.5, -1.0, 1.0]]


def _random_step(state, action, parameters, random, next_state):
    """Waves of rewards between 0 and 1 over a linear system that is pushed, and stays in the unit cube."""
    states = len(state)
    for d in range(states):
        drift = 0.0
        for e in range(states):
            drift += parameters[2 + d * states + e] * state[e]
        moved = state[d] + 0.1 * (drift - parameters[0]) + parameters[1] * (2.0 * action[0] - 1.0)
        next_state[d] = min(1.0, max(0.0, moved + 0.02 * normal(random)))
    wave = np.sin(7.0 * state[0] + 5.0 * action[0] + parameters[0]) * np.cos(11.0 * state[states - 1] * parameters[2])
    return 0.5 + 0.5 * wave, False


def _random_reset(parameters, random, state):
    for d in range(len(state)):
        state[d] = uniform(random)


def random_problem(states, seed):
    rng = np.random.default_rng(seed)
    numbers = [rng.normal(), rng.choice([0.02, 0.1, 0.4]), *(rng.choice([1, 3, 10]) * rng.normal(size=states**2))]
    spaces = {"states": Box([0] * states, [1] * states), "actions": Box(0, 1)}
    functions = {"step": _random_step, "reset": _random_reset}
    return Problem(name="random", **functions, **spaces, horizon=100, parameters=[float(v) for v in numbers])


@pytest.mark.parametrize("states", [1, 2])
@pytest.mark.parametrize("seed", range(4))
def test_values_stay_within_what_the_rewards_allow(states, seed):
    """Between 0 and 1 / (1 - discount), while it learns and however often the same memory is planned with after."""
    steps, repeats = (300, 3) if config.DISABLE_JIT else (20_000, 60)
    agent = Tessera(random_problem(states, seed), seed=seed, discount=0.999).learn(total_timesteps=steps)
    assert agent.history["value_low"].min() >= 0.0
    assert agent.history["value_high"].max() <= 1000.0
    levels = []
    for _ in range(repeats):
        surveyed(agent, planned, swept)
        levels.append((agent._ledger.scale[LOWEST], agent._ledger.scale[HIGHEST]))
    levels = np.array(levels)
    assert 0.0 <= levels.min() <= levels.max() <= 1000.0
    assert levels[-1, 1] > levels[0, 1]  # it was still on its way up


@pytest.mark.compiled_only
@pytest.mark.parametrize("states", [2, 4])
@pytest.mark.parametrize("seed", range(3))
def test_values_stay_within_what_rewards_allow_in_a_forgetful_agent(states, seed):
    """Few experiences per cell, and planes that reach beyond them."""
    agent = Tessera(random_problem(states, seed), seed=seed, discount=0.999, min_samples=2, buffer_size=400)
    agent.learn(total_timesteps=20_000)
    for _ in range(300):
        surveyed(agent, planned, swept)
    rewards, scale = columns(agent)[2], agent._ledger.scale
    assert scale[LOWEST] >= scale[LEAST] >= -1000.0
    assert scale[HIGHEST] <= scale[MOST] <= 1000.0
    assert scale[LEAST] <= rewards.min() / (1.0 - 0.999)
    assert scale[MOST] >= rewards.max() / (1.0 - 0.999)


def test_an_empty_half_keeps_q_and_plane():
    agent = given(0, [row for row in sloping(100, 0.9) if row[0] < 0.5], discount=0.9)
    surveyed(agent, planned, swept)
    forest, ledger = agent._work.forest, agent._ledger
    q, plane = forest.cells["q"][0], ledger.planes[0].copy()
    assert plane[1] != 0.0
    splitting.part(*parts(agent), 0, 0)
    upper = len(agent._work) - 1
    assert forest.cells["visits"][upper] == 0
    assert forest.cells["q"][upper] == q
    assert ledger.drafts[upper].tolist() == plane.tolist()
    assert ledger.drafts[0].tolist() != plane.tolist()  # a narrower cell holds its slope back less


@every_problem
def test_the_values_that_cells_are_judged_by_do_not_change_while_cells_split(name):
    agent = surveyed(taught(name), planned, swept)
    forest, experiences, ledger, rule = parts(agent)
    states = columns(agent)[0].copy()

    def values():
        leaves = [memory.leaf(forest, 0, states, i, 0) for i in range(len(states))]
        return [planning.worth(ledger, node, states, i, 0) for i, node in enumerate(leaves)]

    before, count = values(), len(agent._work)
    np.testing.assert_allclose(before, [known(agent)(x) for x in states], rtol=1e-9)
    for cell in range(min(count, 20)):
        node = forest.nodes[forest.cells[cell]["node"]]
        splitting.part(forest, experiences, ledger, rule, cell, node["dim"] if node["child"] >= 0 else rule.states - 1)
    assert values() == before


@pytest.mark.parametrize("name", ["oil", "oil, sharp", "ambulance", "two states, three finite actions"])
def test_merging_changes_no_action_in_a_state_that_was_visited(name, monkeypatch):
    agent = taught(name)
    states = agent.problem.states.from_unit(columns(agent)[0])
    merged, arms = agent.predict(states)[0], len(agent.cells())
    monkeypatch.setattr("spaql.agents.tessera.agent.merge", lambda *arguments: None)
    twin = taught(name)
    np.testing.assert_array_equal(twin.predict(states)[0], merged)
    assert arms <= len(twin.cells())
    if not config.DISABLE_JIT:
        assert arms < len(twin.cells())


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
    one, other = (Tessera(scaled(u)).learn(iterations=EPISODES) for u in (1.0, unit))
    for field in ("state_low", "state_high", "action_low", "action_high", "visits"):
        np.testing.assert_array_equal(getattr(one.cells(), field), getattr(other.cells(), field))
    np.testing.assert_array_equal(unit * one.cells().q, other.cells().q)


@pytest.mark.compiled_only
@pytest.mark.parametrize("zero", [-1000.0, -1.0, 50.0])
def test_the_zero_of_the_rewards_changes_little(zero):
    agent = Tessera(scaled(1.0, zero)).learn(iterations=EPISODES)
    ideal = 6 - 0.5 * 0.575
    assert agent.evaluate(2).mean - 6 * zero > 0.97 * ideal


def test_where_nothing_is_at_stake_nothing_splits():
    agent = Tessera(scaled(0.0, 0.1)).learn(iterations=EPISODES)
    assert len(agent.cells()) == 1
    assert agent._ledger.scale[SPREAD] == 0.0


@pytest.mark.compiled_only
@pytest.mark.parametrize(("name", "share"), [("oil", 0.97), ("oil, sharp", 0.95), ("ambulance", 0.97)])
def test_the_optimum_is_near_after_a_few_thousand_steps(name, share):
    from spaql import optimum

    problem = PROBLEMS[name]()
    agent = Tessera(problem, seed=0).learn(total_timesteps=8000)
    assert agent.training_steps == 8000
    assert agent.evaluate(500).mean > share * optimum(problem).value


@pytest.mark.compiled_only
@pytest.mark.parametrize("name", MECHANISMS)
def test_what_is_left_out_makes_a_difference(name):
    """In something: the policy, the number of cells, or how it is played; where, depends on the mechanism."""
    special = {"diagonals": PROBLEMS["ambulance"]}
    problem = special.get(name, PROBLEMS["oil, sharp"])()
    whole, part = (Tessera(problem, seed=0, disable=disable).learn(iterations=EPISODES) for disable in ((), [name]))
    assert part.disable == (name,)
    same = len(whole.cells()) == len(part.cells()) and np.array_equal(whole.cells().q, part.cells().q)
    assert not same or whole.evaluate(20).mean != part.evaluate(20).mean


@pytest.mark.parametrize("disable", ["foresigth", ["curvature", 3], 5, None, True, [["curvature"]], b"a"])
def test_only_mechanisms_can_be_left_out(disable):
    with pytest.raises(ParameterError, match=r"^disable: expected some of foresight, "):
        Tessera(oil(), disable=disable)


def test_forgetting_keeps_the_younger_of_each_two():
    agent = taught("oil")
    facts, used = agent._memory.facts.copy(), int(agent._memory.counts[USED])
    memory.forget(agent._work.forest, agent._memory, agent._ledger, agent._rule)
    kept = used // 2
    assert agent._memory.counts[USED] == kept
    np.testing.assert_array_equal(agent._memory.facts[:kept], facts[1:used:2][:kept])
    assert agent._memory.counts[NEXT] == kept + max(16, int(0.25 * kept))
    assert agent._work.forest.cells["visits"].sum() == kept


@every_problem
@pytest.mark.parametrize("room", [20, 64])
def test_how_often_learning_is_interrupted_changes_nothing(name, room):
    """Even where the memory is full just as a revision falls due: it is revised first and forgotten then."""
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
@pytest.mark.parametrize("where", [(learning, "longer_ledger"), (Partition, "hold")], ids=["ledger", "forest"])
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
        agent = Tessera(way, seed=seed).learn(total_timesteps=25_000)
        assert agent.evaluate(200).mean > -10.5
        assert agent.history["value_high"].max() <= 0.0
        assert agent.history["value_low"].min() >= -50.0


@pytest.mark.compiled_only
def test_more_steps_make_it_finer():
    agents = [Tessera(oil(sharpness=1.0), seed=0).learn(total_timesteps=steps) for steps in (2_500, 25_000, 250_000)]
    counts = [len(agent.cells()) for agent in agents]
    assert counts[0] < counts[1] < counts[2]


@pytest.mark.compiled_only
@pytest.mark.parametrize("unit", [1e-150, 1e-12, 1e90])
def test_tiny_and_huge_rewards_split_as_others_do(unit):
    plain, other = (Tessera(scaled(size, 0.0), seed=0).learn(iterations=EPISODES) for size in (1.0, unit))
    assert len(plain.cells()) > 3
    assert len(other.cells()) == pytest.approx(len(plain.cells()), rel=0.2)
