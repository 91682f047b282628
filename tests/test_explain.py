"""What `explain` and `rules` say is what `predict` does: just before, at and beyond every border."""

import json
from functools import partial

import gymnasium
import numpy as np
import pytest

import spaql
from problems_for_tests import box_world, finite_world
from spaql.cli import main
from spaql.covering import cover, ordered
from spaql.errors import NotTrainedError, ParameterError
from spaql.explaining import member
from spaql.problems import Box, Finite, Problem
from spaql.problems.words import spoken, words
from spaql.rules import Rules, visited
from spaql.spaces import Floats
from spaql.texts import numerals
from spaql.tree import Tree
from test_guide import performed
from test_tree import Weather


class Week(gymnasium.Env):
    """A day of the week, which comes round, and a level: whole numbers; actions are whole numbers of a Box."""

    observation_space = gymnasium.spaces.MultiDiscrete([7, 12])
    action_space = gymnasium.spaces.Box(-2, 3, (1,), np.int32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        self.seen = self.np_random.integers([7, 12])
        return self.seen, {}

    def step(self, action):
        self.steps += 1
        day, level = self.seen
        reward = 1.0 - abs(action[0] - (3 if day in (6, 0) else -2 if level < 5 else 0))
        self.seen = self.np_random.integers([7, 12])
        return self.seen, float(reward), False, self.steps == 10, {}


class Plane(gymnasium.Env):
    """Two single-precision numbers to see and two to choose."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        self.seen = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return self.seen, {}

    def step(self, action):
        self.steps += 1
        reward = 1.0 - abs(float(action[0]) - self.seen[1]) - abs(float(action[1]) + self.seen[0])
        self.seen = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return self.seen, float(reward), False, self.steps == 10, {}


AGENTS = {
    "spaql on oil": lambda: spaql.SPAQL("oil", seed=1).learn(100),
    "published on ambulance": lambda: spaql.SPAQL.published("ambulance", seed=1, rollouts=2).learn(200),
    "aql on oil": lambda: spaql.AQL("oil", seed=1, rollouts=0).learn(200),
    "published on a box": lambda: spaql.SPAQL.published(box_world()[0], seed=1, rollouts=2).learn(200),
    "aql with finite actions": lambda: spaql.AQL(finite_world()[0], seed=1, rollouts=0).learn(100),
    "spaql-ts on a cart": lambda: spaql.SPAQLTS("cartpole", reference=[0] * 4, radius=0.5, rollouts=1).learn(20),
    "spaql on an angle": lambda: spaql.SPAQL(Weather, seed=1, periodic=["angle"], horizon=10).learn(200),
    "published on an angle": lambda: spaql.SPAQL.published(Weather, seed=1, periodic=["angle"], rollouts=1).learn(40),
    "published on days": lambda: spaql.SPAQL.published(Week, seed=1, periodic=[0], rollouts=1).learn(60),
    "spaql on a plane": lambda: spaql.SPAQL(Plane, seed=1, horizon=10).learn(100),
}


@pytest.fixture(scope="module", params=AGENTS)
def agent(request):
    return AGENTS[request.param]()


def many(problem, rows):
    """Observations of rows of numbers, for `predict`."""
    if not hasattr(problem, "observations"):
        return rows
    parts = {
        part.path[0] if part.path else "": rows[:, part.first : part.first + part.size].reshape(-1, *part.shape)
        for part in problem.observations.parts
    }
    return parts.get("", parts)


def done(agent, rows, step):
    """What `predict` does at rows of numbers."""
    return agent.predict(many(agent.problem, rows), state=np.full(len(rows), step) if agent.time_variant else None)[0]


def numbers_of(agent, count, step, seed=0):
    """Rows of numbers to try, half of them on a border of the tree, or the last double below it."""
    random, tree = np.random.default_rng(seed), agent.tree()
    states = tree.states
    rows = states.from_unit(random.random((count, states.dimensions)))
    if agent.problem.whole.any():
        rows[:, agent.problem.whole] = np.round(rows[:, agent.problem.whole])
    for d in np.flatnonzero(~agent.problem.whole):
        here = np.flatnonzero(tree.dims == d)
        if len(here):
            chosen = random.choice(here, count)
            turns = random.integers(-1, 2, count) if d in tree.periodic else np.zeros(count)
            exact = tree.reached(np.full(count, d), tree.cuts[chosen], turns)
            exact = np.where(random.random(count) < 0.5, exact, np.nextafter(exact, -np.inf))
            rows[:, d] = np.where(random.random(count) < 0.5, exact, rows[:, d])
    return rows


def steps_of(agent):
    return [0, 3] if agent.time_variant else [0]


def test_the_cell_and_its_rivals_are_those_of_the_partition(agent):
    for step in steps_of(agent):
        cells = agent.partition.at(step)
        for row in agent.problem.states.from_unit(
            np.random.default_rng(5).random((20, agent.problem.states.dimensions))
        ):
            told = agent.explain(agent.problem.member(row), step=step, runners_up=10**6)
            here = np.flatnonzero(((cells.state_low <= row) & (row < cells.state_high)).all(axis=1))
            assert len(here) == told.relevant == len(told.runners_up) + 1
            assert told.cell.q == cells.q[here].max()
            all_told = [told.cell, *told.runners_up]
            assert [one.q for one in all_told] == sorted(cells.q[here], reverse=True)
            key = lambda low, high, q, visits, depth: (*low, *high, q, visits, depth)  # noqa: E731
            expected = {
                key(cells.action_low[k], cells.action_high[k], cells.q[k], cells.visits[k], cells.depth[k])
                for k in here
            }
            found = {key(one.action_low, one.action_high, one.q, one.visits, one.depth) for one in all_told}
            assert found == expected
            assert [one.behind for one in all_told] == [told.cell.q - one.q for one in all_told]
            np.testing.assert_array_equal(told.action, done(agent, row[None], step)[0])


def test_it_breaks_ties_as_the_kernels_do(agent):
    policy = agent._policy()
    for step in steps_of(agent):
        for row in numbers_of(agent, 30, step, seed=3):
            told = agent.explain(agent.problem.member(row), step=step, runners_up=0)
            points = agent.problem.states.placed(row[None], agent.tree().periodic)
            cell = policy.greedy(points, np.array([step]))[0]
            box = agent.problem.actions.from_unit(policy.forest.boxes[cell])
            assert (told.cell.action_low, told.cell.action_high) == (tuple(box[0]), tuple(box[1]))
            assert told.runners_up == ()


def test_what_is_said_of_borders_is_what_is_done_there(agent):
    tree, same = agent.tree(), partial(np.testing.assert_array_equal, strict=False)
    for step in steps_of(agent):
        for row in numbers_of(agent, 12, step, seed=7):
            told = agent.explain(agent.problem.member(row), step=step)
            same(told.action, done(agent, row[None], step)[0])
            for d, seen in enumerate(told.seen):
                assert seen.value == row[d]
                periodic = d in tree.periodic
                for border, side, end in (
                    (seen.below, seen.cell_low, seen.low),
                    (seen.above, seen.cell_high, seen.high),
                ):
                    whole_cell = seen.cell_low == seen.low and seen.cell_high == seen.high
                    if border is None:
                        assert side == end or seen.whole
                        assert not periodic or whole_cell
                        continue
                    assert not whole_cell
                    if not seen.whole:
                        off = (border.value - side) / (seen.high - seen.low)
                        assert abs(off - round(off) if periodic else off) < 1e-9
                        assert abs(border.value - border.beyond) < 1e-9
                    assert border.distance == abs(border.value - row[d])
                    same(border.action, done(agent, beside(row, d, [border.beyond]), step)[0])
                for border, going in ((seen.change_below, -1), (seen.change_above, 1)):
                    near, far = row[d], row[d] + going * (seen.high - seen.low)
                    if not periodic:
                        far = np.clip(far, seen.low, seen.high)
                    if border is not None:
                        far = border.beyond
                        assert (far - near) * going > 0
                        action = done(agent, beside(row, d, [far]), step)[0]
                        same(border.action, action)
                        assert not np.array_equal(action, told.action)
                        far = far - going if seen.whole else np.nextafter(far, -going * np.inf)
                    between = np.append(np.linspace(near, far, 100), far)
                    if seen.whole:
                        between = np.unique(np.trunc(between - near) + near)
                    actions = done(agent, beside(row, d, between), step)
                    same(actions, np.repeat(np.asarray(told.action)[None], len(between), axis=0))


def beside(row, d, values):
    """Rows that differ in one number."""
    rows = np.repeat(row[None], len(values), axis=0)
    rows[:, d] = values
    return rows


def test_the_bonus_is_that_of_the_last_visit(agent):
    told = agent.explain(
        agent.problem.member(agent.problem.states.from_unit(np.full(agent.problem.states.dimensions, 0.3)))
    )
    if isinstance(agent, spaql.SPAQL):
        assert told.bonus is None
    else:
        assert told.bonus == agent.scaling / np.sqrt(told.cell.visits or 1)


def test_an_explanation_is_text_and_json(agent):
    for step in steps_of(agent):
        row = numbers_of(agent, 1, step)[0]
        told = agent.explain(agent.problem.member(row), step=step)
        assert json.loads(json.dumps(told.to_dict(), allow_nan=False)) == told.to_dict()
        text = str(told)
        assert told.words in text
        assert all(seen.name in text for seen in told.seen)
        assert all(len(line) == len(line.rstrip()) for line in text.splitlines())


def test_rules_decide_as_predict_does(agent):
    for step in steps_of(agent):
        rules, rows = agent.rules(step=step), numbers_of(agent, 5000, step)
        expected = done(agent, rows, step)
        np.testing.assert_array_equal(rules.decide(many(agent.problem, rows)), expected)
        np.testing.assert_array_equal(rules.decide(agent.problem.member(rows[0])), expected[0])
        assert len(rules) <= rules.leaves <= rules.cells
        np.testing.assert_array_equal(decided(json.loads(rules.json()), rows[:300]), expected[:300])


def decided(told, rows):
    """What the rules of a JSON object say at rows of numbers, by nothing but the object."""

    def fits(one, row):
        number, value = told["numbers"][one["number"]], row[one["number"]]
        low, high = one["low"], one["high"]
        if number["periodic"]:
            turns = (value - number["low"]) / (number["high"] - number["low"])
            value, (low, high) = turns - np.floor(turns), one["fractions"]
        above, below = low is None or value >= low, high is None or value < high
        return (above or below) if None not in (low, high) and low > high else above and below

    return [
        next(rule["action"] for rule in told["rules"] if all(fits(one, row) for one in rule["conditions"]))
        for row in rows
    ]


def test_shares_are_of_the_visits(agent):
    rules = agent.rules()
    shares = [rule.share for rule in rules]
    assert sum(shares) == pytest.approx(1.0)
    assert min(shares) >= 0.0
    middles, weights = visited(agent._policy(), 0, False)
    cells = agent.partition.at(0)
    assert weights.sum() == pytest.approx(cells.visits.sum())
    np.testing.assert_array_equal(agent.problem.states.placed(agent.problem.states.from_unit(middles)), middles)


def test_inherited_visits_are_shared_out():
    agent = spaql.AQL("oil", seed=1, rollouts=0).learn(50)
    _, weights = visited(agent._policy(), 0, True)
    assert weights.sum() == pytest.approx(50)  # one visit in every episode
    assert agent.partition.at(0).visits.sum() > 100


# Hand-made policies ------------------------------------------------------------------------------------------------


def _step(state, action, parameters, random, next_state):
    for d in range(len(next_state)):
        next_state[d] = state[d]
    return 0.0, False


def _reset(parameters, random, state):
    for d in range(len(state)):
        state[d] = 0.5


def plain(states, actions=3):
    """A problem about the unit cube with finite actions."""
    size = Box([0.0] * states, [1.0] * states)
    return Problem(name="plain", step=_step, reset=_reset, states=size, actions=Finite(actions), horizon=2)


def tree_of(problem, nested, periodic=()):
    """The tree that nested tuples (dimension, cut, below, above) say, with numbers of actions for leaves."""
    dims, cuts, children = [], [], []

    def file(node):
        if isinstance(node, int):
            return ~node
        place = len(dims)
        dims.append(node[0])
        cuts.append(node[1])
        children.append([0, 0])
        children[place][0] = file(node[2])
        children[place][1] = file(node[3])
        return place

    root = file(nested)
    middles = np.arange(float(problem.actions.count))[:, None]
    return Tree(
        states=problem.states,
        periodic=tuple(periodic),
        roots=np.array([root], np.int32),
        dims=np.array(dims, np.int16),
        cuts=np.array(cuts, float),
        children=np.array(children, np.int32).reshape(-1, 2),
        boxes=np.stack([middles, middles], axis=1),
        middles=middles,
        actions=problem.played(middles, False),
    )


def striped(colours, low=0.0, high=1.0, dim=0):
    """Stripes of equal width; as many as a power of two."""
    if len(colours) == 1:
        return colours[0]
    middle, half = 0.5 * (low + high), len(colours) // 2
    return dim, middle, striped(colours[:half], low, middle, dim), striped(colours[half:], middle, high, dim)


def fewest(colours):
    """The fewest intervals to paint a line of colours with, one over the other (dynamic programming)."""
    line = [c for k, c in enumerate(colours) if k == 0 or c != colours[k - 1]]
    best = {}
    for size in range(1, len(line) + 1):
        for i in range(len(line) - size + 1):
            j = i + size - 1
            best[i, j] = 1 + best.get((i + 1, j), 0)
            for k in range(i + 1, j + 1):
                if line[k] == line[i]:
                    best[i, j] = min(best[i, j], best.get((i, k - 1), 0) + best.get((k + 1, j), 0))
    return best[0, len(line) - 1]


NO_WHOLE = {d: np.zeros(d, bool) for d in (1, 2)}
A, B, C = range(3)
PICTURES = {
    "one colour": (1, A, 1),
    "two": (1, striped([A, B]), 2),
    "a stripe": (1, striped([A, B, B, A]), 2),
    "stripes": (1, striped([A, B, A, B, A, B, A, A]), 4),
    "nested stripes": (1, striped([A, B, C, B, A, A, A, A]), 3),
    "steps": (1, striped([A, A, A, B, B, B, C, C]), 3),
    "a quarter": (2, (0, 0.5, (1, 0.5, A, B), B), 2),
    "a chessboard": (2, (0, 0.5, (1, 0.5, A, B), (1, 0.5, B, A)), 3),
    "a cross": (2, (0, 0.5, striped([A, B, B, A], dim=1), (0, 0.75, B, striped([A, B, B, A], dim=1))), 3),
}


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_have_as_few_rules_as_can_be(name):
    states, nested, least = PICTURES[name]
    found = cover(tree_of(plain(states), nested), 0, NO_WHOLE[states])
    assert len(found.choices) + 1 == least


@pytest.mark.compiled_only
def test_lines_have_hardly_more_rules_than_must_be():
    random, more = np.random.default_rng(0), []
    for _ in range(200):
        colours = random.integers(3, size=16).tolist()
        found = cover(tree_of(plain(1), striped(colours)), 0, NO_WHOLE[1])
        more.append(len(found.choices) + 1 - fewest(colours))
    assert min(more) == 0
    assert max(more) <= 2
    assert np.mean(more) < 0.5


def test_a_number_that_comes_round_has_an_interval_that_does():
    problem = plain(1)
    tree = tree_of(problem, striped([A, B, B, A]), periodic=[0])
    found = cover(tree, 0, NO_WHOLE[1])
    assert len(found.choices) == 1
    text = str(Rules(problem, tree_of(problem, striped([B, A, C, B]), periodic=[0]), words(problem)))
    assert text == "\n".join(
        [
            "if (observation[0] >= 0.75 or observation[0] < 0.25): action 1",
            "if observation[0] < 0.5: action 0",
            "otherwise: action 2",
        ]
    )
