"""Policy trees against brute force."""

import numpy as np
import pytest

import textbook_planning as textbook
from spaql.agents.tessera import policy_tree
from spaql.agents.tessera.policy_tree import (
    LEAF,
    PolicyTree,
    check_actions,
    count_leaves,
    find_leaves,
    grow_policy,
    has_clock,
    rescale,
    restore_tree,
    simplify,
    single_leaf,
    truncate,
    unroll,
)
from spaql.partition.spaces import Box, Discrete

CONSTANTS = {"least": policy_tree._LEAST, "most_cuts": policy_tree._CUTS, "impurity": policy_tree._IMPURITY}
ACTIONS = np.array([[0.0], [0.25], [1.0]])


def draw(seed, rows=60):
    """States in the unit square, and Q of three actions, each best somewhere."""
    random = np.random.default_rng(seed)
    states = random.random((rows, 2))
    x, y = states.T
    q = np.column_stack([x, 1.0 - x, 1.4 * y - 0.3]) + 0.1 * random.random((rows, 3))
    return states, q


def decide(tree, states):
    leaves = np.empty(len(states), np.int64)
    find_leaves(tree, states, leaves)
    assert leaves.tolist() == [textbook.find_leaf(tree, x) for x in states]
    return leaves, tree.actions[leaves]


def make_tree(*nodes):
    """A tree of (dim, cut, lower child) and of actions."""
    dims, cuts, children, actions = [], [], [], []
    for node in nodes:
        dim, cut, child = node if isinstance(node, tuple) else (LEAF, 0.0, 0)
        dims.append(dim)
        cuts.append(cut)
        children.append(child)
        actions.append([0.0] if isinstance(node, tuple) else [node])
    born = np.arange(len(dims), dtype=np.int32) // 2 + 1
    return PolicyTree(np.array(dims, np.int32), np.array(cuts), np.array(children, np.int32), np.array(actions), born)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("leaves", [1, 2, 6])
def test_growth_equals_brute_force(seed, leaves):
    states, q = draw(seed)
    tree = grow_policy(states, q, ACTIONS, leaves)
    dims, cuts, children, actions = zip(*textbook.grow_policy(states, q, leaves, **CONSTANTS), strict=True)
    np.testing.assert_array_equal(tree.dims, dims)
    np.testing.assert_array_equal(tree.cuts, cuts)
    np.testing.assert_array_equal(tree.children, children)
    np.testing.assert_array_equal(tree.actions, ACTIONS[list(actions)])
    assert count_leaves(tree) <= leaves


@pytest.mark.parametrize("seed", range(3))
def test_smaller_trees_are_nested(seed):
    states, q = draw(seed)
    tree = grow_policy(states, q, ACTIONS, 12)
    points = np.random.default_rng(9).random((200, 2))
    finer, _ = decide(tree, points)
    for size in range(11, 0, -1):
        small = truncate(tree, size)
        assert count_leaves(small) <= size
        leaves, actions = decide(small, points)
        np.testing.assert_array_equal(actions, decide(grow_policy(states, q, ACTIONS, size), points)[1])
        assert len(set(zip(finer.tolist(), leaves.tolist(), strict=True))) == len(set(finer.tolist()))
        finer = leaves
    assert count_leaves(truncate(tree, 10**6)) <= 12


def test_truncation_drops_cuts_between_equal_actions():
    tree = make_tree((0, 0.5, 1), (1, 0.5, 3), 0.7, 0.7, 0.7)
    assert count_leaves(truncate(tree, 5)) == 1
    assert truncate(tree, 5).actions.tolist() == [[0.7]]


def test_a_policy_that_nothing_depends_on_is_one_leaf():
    states, _ = draw(0)
    tree = grow_policy(states, np.tile([0.0, 2.0, 1.0], (60, 1)), ACTIONS, 8)
    assert count_leaves(tree) == 1
    assert tree.actions.tolist() == [[0.25]]
    same = grow_policy(np.ones((60, 2)), draw(0)[1], ACTIONS, 8)
    assert count_leaves(same) == 1


def test_a_checkerboard_needs_two_cuts_before_either_saves_regret():
    states = np.random.default_rng(0).random((200, 2))
    right = (states[:, 0] > 0.5) == (states[:, 1] > 0.5)
    q = np.column_stack([right, ~right]).astype(float)
    tree = grow_policy(states, q, np.array([[0.0], [1.0]]), 16)
    assert (decide(tree, states)[1][:, 0] == ~right).mean() > 0.95


def test_simplified_trees_decide_alike():
    tree = make_tree(
        (0, 0.5, 1),
        (0, 0.8, 3),  # below 0.5 all are below 0.8
        (1, 1.5, 5),  # nothing is above 1
        0.1,
        0.2,
        (1, 0.3, 7),
        0.4,
        0.6,
        0.6,  # either side plays the same
    )
    small = simplify(tree, np.ones(2))
    assert small.dims.tolist() == [0, LEAF, LEAF]
    assert small.actions.tolist() == [[0.0], [0.1], [0.6]]
    points = np.random.default_rng(0).random((100, 2))
    np.testing.assert_array_equal(decide(small, points)[1], decide(tree, points)[1])


@pytest.mark.parametrize("seed", range(3))
def test_simplified_grown_trees_decide_alike(seed):
    states, q = draw(seed)
    tree = grow_policy(states, q, ACTIONS, 12)
    points = np.random.default_rng(9).random((200, 2))
    small = simplify(rescale(tree, np.full(2, -0.2), np.full(2, 1.3)), np.ones(2))
    moved = rescale(tree, np.full(2, -0.2), np.full(2, 1.3))
    np.testing.assert_array_equal(decide(small, points)[1], decide(moved, points)[1])
    assert count_leaves(small) <= count_leaves(tree)
    assert simplify(small, np.ones(2)).dims.tolist() == small.dims.tolist()


@pytest.mark.parametrize("seed", range(3))
def test_unrolled_trees_decide_alike(seed):
    """A tree that compares the time step, and one tree for each step."""
    states, q = draw(seed)
    random = np.random.default_rng(seed)
    timed = np.column_stack([states, random.integers(0, 5, len(states))])
    tree = grow_policy(timed, q + 2.0 * (timed[:, 2:] > random.random(3) * 5), ACTIONS, 12)
    assert has_clock(tree, 2)
    assert not has_clock(grow_policy(states, q, ACTIONS, 12), 2)
    several, nodes = unroll(tree, 2, 5)
    assert not has_clock(several, 2)
    points = random.random((50, 2))
    for step in range(5):
        _, expected = decide(tree, np.column_stack([points, np.full(50, step)]))
        leaves = [textbook.find_leaf(several, x, step) for x in points]
        np.testing.assert_array_equal(several.actions[leaves], expected)
        np.testing.assert_array_equal(tree.actions[nodes[leaves]], expected)


def test_rescaled_trees_decide_alike():
    states, q = draw(1)
    states = np.round(64.0 * states) / 64.0
    tree = grow_policy(states, q, ACTIONS, 8)
    mean, scale = np.array([2.0, -16.0]), np.array([4.0, 0.5])  # no rounding
    moved = rescale(tree, mean, scale)
    np.testing.assert_array_equal(decide(moved, mean + scale * states)[1], decide(tree, states)[1])
    back = rescale(moved, -mean / scale, 1.0 / scale)
    for name, array in tree._asdict().items():
        np.testing.assert_array_equal(getattr(back, name), array)


def test_one_leaf_plays_one_action():
    tree = single_leaf(np.array([0.3, 0.4]))
    assert count_leaves(tree) == 1
    np.testing.assert_array_equal(decide(tree, np.random.default_rng(0).random((5, 3)))[1], [[0.3, 0.4]] * 5)


# Files ----------------------------------------------------------------------------------------------------------------

GOOD = make_tree((0, 0.5, 1), 0.2, (1, 0.25, 3), 0.4, 1.0)


def test_a_tree_is_restored():
    tree = restore_tree(GOOD._asdict(), 2, Box(0, 1))
    for name, array in GOOD._asdict().items():
        np.testing.assert_array_equal(getattr(tree, name), array)
        assert getattr(tree, name).dtype == array.dtype


def deep_tree(depth):
    below = (each for level in range(depth - 1) for each in (0.5, (0, 0.5, 2 * level + 3)))
    return make_tree((0, 0.5, 1), *below, 0.5, 0.5)


BAD = {
    "no nodes": PolicyTree(*(array[:0] for array in GOOD)),
    "a state that is not there": GOOD._replace(dims=np.array([2, LEAF, 1, LEAF, LEAF], np.int32)),
    "a dimension below LEAF": GOOD._replace(dims=np.array([0, -2, 1, LEAF, LEAF], np.int32)),
    "a loop": GOOD._replace(children=np.array([1, 0, 1, 0, 0], np.int32)),
    "a child of its own": GOOD._replace(children=np.array([0, 0, 3, 0, 0], np.int32)),
    "children beyond the end": GOOD._replace(children=np.array([1, 0, 4, 0, 0], np.int32)),
    "nodes that nothing leads to": GOOD._replace(dims=np.array([0, LEAF, LEAF, LEAF, LEAF], np.int32)),
    "a cut that is not a number": GOOD._replace(cuts=np.array([np.nan, 0, 0, 0, 0])),
    "an infinite cut": GOOD._replace(cuts=np.array([np.inf, 0, 0, 0, 0])),
    "an action above 1": GOOD._replace(actions=GOOD.actions + 0.5),
    "an action that is not a number": GOOD._replace(actions=GOOD.actions * np.nan),
    "cuts of another type": GOOD._replace(cuts=np.array(["a"] * 5)),
    "one cut too few": GOOD._replace(cuts=GOOD.cuts[:4]),
    "two numbers per action": GOOD._replace(actions=np.zeros((5, 2))),
    "too deep": deep_tree(policy_tree.DEEPEST + 1),
}


@pytest.mark.parametrize("kind", BAD)
def test_corrupt_trees_are_refused(kind):
    with pytest.raises(ValueError, match=r"."):
        restore_tree(BAD[kind]._asdict(), 2, Box(0, 1))


def test_the_deepest_tree_is_restored():
    tree = deep_tree(policy_tree.DEEPEST)
    assert count_leaves(restore_tree(tree._asdict(), 1, Box(0, 1))) == policy_tree.DEEPEST + 1


def test_discrete_actions_are_whole_numbers():
    check_actions(np.array([[0.0], [2.0]]), Discrete(3))
    for action in (-1.0, 3.0, 0.5, np.nan):
        with pytest.raises(ValueError, match="actions outside their space"):
            check_actions(np.array([[action]]), Discrete(3))
