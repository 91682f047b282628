"""Lists of rules for hand-made and random policies: they decide as the tree does, and are short."""

import numpy as np
import pytest

from spaql.explain import decision_list
from spaql.explain.decision_list import make_decision_list, sort_by_weight
from spaql.explain.rules import Rules
from spaql.formatting import numerals
from spaql.partition.tree import Tree
from spaql.problems import Box, Discrete, Problem
from spaql.problems.labels import make_labels


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
    return Problem(name="plain", step=_step, reset=_reset, states=size, actions=Discrete(actions), horizon=2)


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
        actions=problem.decode(middles, False),
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
    found = make_decision_list(tree_of(plain(states), nested), 0, NO_WHOLE[states])
    assert len(found.choices) + 1 == least


def random_tree(random, depth, low, high):
    """A nested tree of three colours, halved at random."""
    if depth == 0 or random.random() < 0.1:
        return int(random.integers(3))
    d = int(random.integers(len(low)))
    middle = 0.5 * (low[d] + high[d])
    below, above = high.copy(), low.copy()
    below[d] = above[d] = middle
    return d, middle, random_tree(random, depth - 1, low, below), random_tree(random, depth - 1, above, high)


@pytest.mark.parametrize("most", [8, 1000])  # leaves searched together
def test_rules_of_random_trees_decide_as_they_do(most, monkeypatch):
    monkeypatch.setattr(decision_list, "MOST", most)
    random, problem, wrapped = np.random.default_rng(0), plain(2), 0
    for _ in range(30):
        nested = random_tree(random, int(random.integers(1, 6)), np.zeros(2), np.ones(2))
        tree = tree_of(problem, nested, periodic=np.flatnonzero(random.random(2) < 0.5).tolist())
        rules = Rules(problem, tree, make_labels(problem))
        points = random.integers(0, 64, (300, 2)) / 64
        np.testing.assert_array_equal(rules.decide(points), tree.actions[tree.decide(points)])
        assert all(rule.conditions for rule in rules[:-1])
        wrapped += " or " in str(rules)
    assert wrapped > 0


@pytest.mark.compiled_only
def test_lines_have_hardly_more_rules_than_must_be():
    random, more = np.random.default_rng(0), []
    for _ in range(200):
        colours = random.integers(3, size=16).tolist()
        found = make_decision_list(tree_of(plain(1), striped(colours)), 0, NO_WHOLE[1])
        more.append(len(found.choices) + 1 - fewest(colours))
    assert min(more) == 0
    assert max(more) <= 2
    assert np.mean(more) < 0.5


def test_a_number_that_comes_round_has_an_interval_that_does():
    problem = plain(1)
    tree = tree_of(problem, striped([B, A, A, A, A, A, A, B]), periodic=[0])
    assert str(Rules(problem, tree, make_labels(problem, names=["angle"]))).splitlines() == [
        "if (angle >= 0.875 or angle < 0.125): action 1",
        "otherwise: action 0",
    ]
    assert "angle is periodic, from 0 to 1." in Rules(problem, tree, make_labels(problem, names=["angle"])).describe()


def test_whole_numbers_are_told_as_such():
    problem = Problem(name="plain", step=_step, reset=_reset, states=Box([-0.5], [7.5]), actions=Discrete(3), horizon=2)

    class Counted(type(problem)):
        whole = np.array([True])

    counted = Counted(
        **{name: getattr(problem, name) for name in ("name", "step", "reset", "states", "actions", "horizon")}
    )
    called = make_labels(counted, names=["count"], actions=["wait", "go", "stop"])
    colours = [A, A, B, C, C, C, A, A]
    assert str(Rules(counted, tree_of(counted, striped(colours)), called)).splitlines() == [
        "if count = 2: go",
        "if 3 <= count <= 5: stop",
        "otherwise: wait",
    ]
    fine = (0, 0.5, (0, 0.3125, (0, 0.28125, A, C), B), B)  # no whole number is between 1.75 and 2
    assert str(Rules(counted, tree_of(counted, fine), called)).splitlines() == ["if count <= 1: wait", "otherwise: go"]


def test_a_small_policy_reads_as_expected():
    problem = plain(2)
    tree = tree_of(problem, (0, 0.5, (1, 0.25, A, B), (0, 0.75, A, (1, 0.5, A, C))))
    rules = Rules(problem, tree, make_labels(problem, names=["position", "speed"], actions=["left", "stay", "right"]))
    assert str(rules).splitlines() == [
        "if position < 0.5 and speed >= 0.25: stay",
        "if position >= 0.75 and speed >= 0.5: right",
        "otherwise: left",
    ]
    assert rules.markdown().splitlines() == [
        "|  | if | then |",
        "| :--- | :--- | :--- |",
        "| 1 | position < 0.5 and speed >= 0.25 | stay |",
        "| 2 | position >= 0.75 and speed >= 0.5 | right |",
        "| 3 | otherwise | left |",
    ]
    assert [rule.conditions for rule in rules] == [
        (("position", None, 0.5), ("speed", 0.25, None)),
        (("position", 0.75, None), ("speed", 0.5, None)),
        (),
    ]
    assert [(rule.choice, rule.action, rule.share) for rule in rules] == [(1, 1, None), (2, 2, None), (0, 0, None)]
    assert repr(rules) == "Rules(3 for 'plain')"
    assert rules.describe().startswith("plain: the first rule that matches decides.\n\nif position")
    assert rules.describe().endswith("3 rules for 5 leaves of the decision tree, from 0 cells.")


def test_steps_along_a_line_need_one_border_each():
    problem = plain(1)
    text = str(Rules(problem, tree_of(problem, striped([0, 1, 2, 2])), make_labels(problem, names=["x"])))
    assert text.splitlines() == ["if x < 0.25: action 0", "if x < 0.5: action 1", "otherwise: action 2"]


def test_weighty_boxes_come_first_where_that_changes_nothing():
    found = make_decision_list(tree_of(plain(1), striped([B, A, A, C, B, A, A, A])), 0, NO_WHOLE[1])
    for weights in np.random.default_rng(0).random((20, len(found.choices))):
        other = sort_by_weight(found, weights)
        points = np.linspace(0, 1, 64, endpoint=False)
        for point in points:
            decided = []
            for one in (found, other):
                held = np.flatnonzero((one.low[:, 0] <= point) & (point < one.high[:, 0]))
                decided.append(one.choices[held[0]] if len(held) else one.default)
            assert decided[0] == decided[1]
        free = [k for k in range(len(found.choices)) if (found.choices == found.choices[k]).all()]
        assert not free or other.choices[0] == found.choices[np.argmax(weights)]


def test_numbers_have_as_many_digits_as_tell_them_apart():
    assert numerals([]) == []
    assert numerals([1 / 3, 0.25, -0.0]) == ["0.3333", "0.25", "0"]
    assert numerals([1.00001, 1.00002, 1.00001]) == ["1.00001", "1.00002", "1.00001"]
    assert numerals([1.00001, 2 / 3, 1.00002]) == ["1.00001", "0.6667", "1.00002"]
    assert numerals([100000.5, 100001, 250000]) == ["100000", "100001", "250000"]
    assert numerals([0.5, 250000]) == ["0.5", "2.5e+05"]
    assert numerals([np.nan, np.nan, -np.inf, 1]) == ["nan", "nan", "-inf", "1"]
    close = [0.1, np.nextafter(0.1, 1.0)]
    assert [float(text) for text in numerals(close)] == close
