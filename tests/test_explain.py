"""What `explain` and `rules` say is what `predict` does: just before, at and beyond every border."""

import json
from functools import partial

import gymnasium
import numpy as np
import pytest

import spaql
from docs_for_tests import run_page
from partitions_for_tests import Planted, plant
from problems_for_tests import box_world, finite_world
from spaql.cli import main
from spaql.errors import NotTrainedError, ParameterError
from spaql.explain.explanation import make_observation
from spaql.explain.rules import Rules, count_visits
from spaql.problems.labels import make_labels
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
    "tessera on oil": lambda: spaql.Tessera("oil", seed=1).learn(iterations=100),
    "published on ambulance": lambda: spaql.SPAQL("ambulance", seed=1, rollouts=2).learn(iterations=200),
    "aql on oil": lambda: spaql.AQL("oil", seed=1, rollouts=0).learn(iterations=200),
    "published on a box": lambda: spaql.SPAQL(box_world()[0], seed=1, rollouts=2).learn(iterations=200),
    "aql with finite actions": lambda: spaql.AQL(finite_world()[0], seed=1, rollouts=0).learn(iterations=100),
    "spaql-ts on a cart": lambda: spaql.SPAQLTS("cartpole", reference=[0] * 4, radius=0.5, rollouts=1).learn(
        iterations=20
    ),
    "tessera on an angle": lambda: spaql.Tessera(Weather, seed=1, periodic=["angle"], horizon=10).learn(iterations=200),
    "published on an angle": lambda: spaql.SPAQL(Weather, seed=1, periodic=["angle"], rollouts=1).learn(iterations=40),
    "published on days": lambda: spaql.SPAQL(Week, seed=1, periodic=[0], rollouts=1).learn(iterations=60),
    "tessera on a plane": lambda: spaql.Tessera(Plane, seed=1, horizon=10).learn(iterations=100),
    "a tree on oil": lambda: plant("oil", 30),
    "a tree on an angle": lambda: plant(Weather, 60, periodic=["angle"], horizon=10),
    "a tree on days": lambda: plant(Week, 20, periodic=[0], horizon=10),
}


SLOW = ("tessera on an angle", "tessera on a plane")  # with the JIT off


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=[pytest.mark.compiled_only] * (name in SLOW)) for name in AGENTS]
)
def agent(request):
    return AGENTS[request.param]()


def many(problem, rows):
    """Observations of rows of numbers, for `predict`."""
    if not hasattr(problem, "observations"):
        return rows
    parts = {
        part.path[0] if part.path else "": rows[:, part.places].reshape(-1, *part.shape)
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
            exact = tree.find_thresholds(np.full(count, d), tree.cuts[chosen], turns)
            exact = np.where(random.random(count) < 0.5, exact, np.nextafter(exact, -np.inf))
            rows[:, d] = np.where(random.random(count) < 0.5, exact, rows[:, d])
    return rows


def steps_of(agent):
    return [0, 3] if agent.time_variant else [0]


def test_the_cell_and_its_rivals_are_those_of_the_partition(agent):
    for step in steps_of(agent):
        cells = agent.cells().at(step)
        for row in agent.problem.states.from_unit(
            np.random.default_rng(5).random((20, agent.problem.states.dimensions))
        ):
            told = agent.explain(agent.problem.unflatten(row), step=step, runners_up=10**6)
            point = agent.problem.states.project(row[None], agent.tree().periodic)[0]
            given = agent._alternatives(point, step)
            if given is not None:
                assert {one.q for one in told.runners_up} <= set(given[1].tolist())
                assert all(not np.array_equal(one.action, told.action) for one in told.runners_up)
                assert len(told.runners_up) == told.relevant - 1
                continue
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
            told = agent.explain(agent.problem.unflatten(row), step=step, runners_up=0)
            points = agent.problem.states.project(row[None], agent.tree().periodic)
            cell = policy.greedy(points, np.array([step]))[0]
            box = agent.problem.actions.from_unit(policy.forest.boxes[cell])
            assert (told.cell.action_low, told.cell.action_high) == (tuple(box[0]), tuple(box[1]))
            assert told.runners_up == ()


def test_what_is_said_of_borders_is_what_is_done_there(agent):
    tree, same = agent.tree(), partial(np.testing.assert_array_equal, strict=False)
    for step in steps_of(agent):
        for row in numbers_of(agent, 12, step, seed=7):
            told = agent.explain(agent.problem.unflatten(row), step=step)
            same(told.action, done(agent, row[None], step)[0])
            for d, seen in enumerate(told.observation):
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
        agent.problem.unflatten(agent.problem.states.from_unit(np.full(agent.problem.states.dimensions, 0.3)))
    )
    if isinstance(agent, spaql.Tessera | Planted):
        assert told.bonus is None
    else:
        assert told.bonus == agent.scaling / np.sqrt(told.cell.visits or 1)


def test_an_explanation_is_text_and_json(agent):
    for step in steps_of(agent):
        row = numbers_of(agent, 1, step)[0]
        told = agent.explain(agent.problem.unflatten(row), step=step)
        assert json.loads(json.dumps(told.to_dict(), allow_nan=False)) == told.to_dict()
        text = str(told)
        assert told.label in text
        assert all(seen.name in text for seen in told.observation)
        assert all(len(line) == len(line.rstrip()) for line in text.splitlines())


def test_rules_decide_as_predict_does(agent):
    for step in steps_of(agent):
        rules, rows = agent.rules(step=step), numbers_of(agent, 5000, step)
        expected = done(agent, rows, step)
        np.testing.assert_array_equal(rules.decide(many(agent.problem, rows)), expected)
        np.testing.assert_array_equal(rules.decide(agent.problem.unflatten(rows[0])), expected[0])
        assert len(rules) <= rules.leaves <= rules.cells
        np.testing.assert_array_equal(decided(json.loads(rules.json()), rows[:300]), expected[:300])


def decided(told, rows):
    """What the rules of a JSON object say at rows of numbers, by nothing but the object."""

    def fits(one, row):
        number, value = told["observation"][one["number"]], row[one["number"]]
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
    _, weights = count_visits(agent._policy(), 0, False)
    assert weights.sum() == pytest.approx(agent.cells().at(0).visits.sum())


@pytest.mark.compiled_only
@pytest.mark.parametrize(("name", "steps", "within"), [("cartpole", 1000, 1e-3), ("oil", 25_000, 0.02)])
def test_shares_of_tessera_are_of_the_recorded_states(name, steps, within):
    agent = spaql.Tessera(name, seed=1).learn(steps)
    rules, points = agent.rules(), agent.problem.states.from_unit(agent._past().points)
    found = np.bincount(rules._match(points), minlength=len(rules)) / len(points)
    np.testing.assert_allclose(found, [rule.share for rule in rules], atol=within)  # many are drawn from


def test_shares_are_what_points_drawn_from_the_cells_say():
    agent = spaql.Tessera("oil", seed=1).learn(iterations=100)
    rules = Rules(agent.problem, agent.tree(), make_labels(agent.problem), partition=agent._policy())
    cells, random = agent.cells(), np.random.default_rng(0)
    chosen = random.choice(len(cells), 5000, p=cells.visits / cells.visits.sum())
    points = cells.state_low[chosen] + random.random((5000, 1)) * (cells.state_high - cells.state_low)[chosen]
    found = np.bincount(rules._match(points), minlength=len(rules)) / 5000
    np.testing.assert_allclose(found, [rule.share for rule in rules], atol=0.03)


def test_inherited_visits_are_shared_out():
    agent = spaql.AQL("oil", seed=1, rollouts=0).learn(iterations=50)
    _, weights = count_visits(agent._policy(), 0, True)
    assert weights.sum() == pytest.approx(50)  # one visit in every episode
    assert agent.cells().at(0).visits.sum() > 100


# Bad input, the command line, the page -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def oil():
    return spaql.Tessera("oil", seed=1).learn(iterations=100)


def test_bad_input_is_one_sentence(oil):
    with pytest.raises(NotTrainedError, match="has not learned yet"):
        spaql.Tessera("oil").explain([0.5])
    with pytest.raises(NotTrainedError, match="has not learned yet"):
        spaql.Tessera("oil").rules()
    for ask in (lambda: spaql.Random("oil").explain([0.5]), lambda: spaql.Random("oil").rules()):
        with pytest.raises(ParameterError, match="Random has no partition"):
            ask()
    with pytest.raises(ParameterError, match=r"^observation: expected one, got 2; explain them one by one$"):
        oil.explain([[0.1], [0.2]])
    with pytest.raises(ParameterError, match="outside the space"):
        oil.explain([1.5])
    with pytest.raises(ParameterError, match="outside the space"):
        oil.explain([np.nan])
    with pytest.raises(ParameterError, match=r"^step: Tessera decides alike in every step; leave it out$"):
        oil.rules(step=2)
    with pytest.raises(ParameterError, match="step: expected a whole number"):
        oil.explain([0.5], step=5)
    with pytest.raises(ParameterError, match="runners_up: expected a whole number"):
        oil.explain([0.5], runners_up=-1)
    with pytest.raises(ParameterError, match="names: expected 1 words"):
        oil.explain([0.5], names=["x", "y"])
    with pytest.raises(ParameterError, match=r"expected 6 words, such as .*, 'sin\(angle 2\)'\], got \['x', 'y'\]$"):
        make_labels(spaql.problems.acrobot(), names=["x", "y"])
    with pytest.raises(ParameterError, match="actions: expected 1 words"):
        oil.rules(actions="go")
    with pytest.raises(ParameterError, match=r"^observation: expected 1 numbers \(position\), got 2$"):
        make_observation(oil.problem, [0.1, 0.2])


def test_far_outside_is_said():
    agent = spaql.SPAQLTS("cartpole", reference=[0] * 4, radius=0.5, rollouts=1).learn(iterations=5)
    told = agent.explain([100.0, 0.0, 0.0, 0.0])
    assert [seen.outside for seen in told.observation] == [True, False, False, False]
    assert "position is outside its range and clipped to it." in str(told)
    assert told.action == agent.predict([100.0, 0.0, 0.0, 0.0])[0]
    with pytest.raises(ParameterError, match="finite numbers"):
        agent.explain([np.inf, 0.0, 0.0, 0.0])


def test_actions_are_called_as_the_environment_takes_them():
    assert make_labels(spaql.GymnasiumProblem(Weather, periodic=["angle"], horizon=10)).actions[3] == "action (1, 1)"
    agent = AGENTS["published on days"]()
    told = agent.explain([3, 2])
    assert told.label == f"action {told.action[0]}"
    assert told.action.dtype == np.int32


def test_the_users_own_words_are_used(oil):
    assert "x < " in str(plant("oil", 5).rules(names=["x"]))
    told = oil.explain([0.5], names=["x"], actions=["go to"])
    assert told.observation[0].name == "x"
    assert told.label.startswith("go to ")


def test_the_command_line(oil, tmp_path, capsys):
    path = str(oil.save(tmp_path / "oil.spaql"))

    def run(*arguments):
        code = main([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    assert run("explain", path, 0.5)[1] == f"{oil.explain([0.5])}\n"
    code, out, _ = run("explain", path, 0.5, "--json", "--names", "x")
    assert (code, json.loads(out)) == (0, oil.explain([0.5], names=["x"]).to_dict())
    assert run("rules", path)[1] == f"{oil.rules().describe()}\n"
    assert (
        run("rules", path, "--format", "markdown", "--actions", "go to")[1]
        == f"{oil.rules(actions=['go to']).markdown()}\n"
    )
    target = tmp_path / "new" / "rules.json"
    assert run("rules", path, "--format", "json", "--out", target)[:2] == (0, f"wrote {target}\n")
    assert json.loads(target.read_text()) == oil.rules().to_dict()
    for arguments, sentence in (
        (("explain", path, -1e-3), "outside the space"),
        (("explain", path, "-1e-3"), "outside the space"),
        (("explain", path, 0.5, 0.6), "expected 1 numbers (position), got 2"),
        (("explain", path, "nan"), "outside the space"),
        (("explain", path, "half"), "explain: expected a number or NAME=NUMBER, got 'half'"),
        (("explain", path, 0.5, "--step", "-1"), "step: expected a whole number of at least 0"),
        (("explain", path, 0.5, "--step", "3"), "decides alike in every step"),
        (("rules", path, "--names", "a,b"), "names: expected 1 words"),
        (("rules", tmp_path / "none.spaql"), "none.spaql"),
        (("rules", path, "--out", tmp_path), "cannot be written"),
    ):
        code, out, error = run(*arguments)
        assert (code, out) == (2, "")
        assert sentence in error
        assert error.count("\n") == 1


@pytest.mark.compiled_only
def test_the_page_on_explaining_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    namespace = run_page("how-to/explain.md")
    assert len(namespace["rules"]) >= 2
    assert "otherwise: " in capsys.readouterr().out
