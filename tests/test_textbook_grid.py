"""The agents on fixed nets equal their textbook bit for bit: history, every Q and every visit."""

import numpy as np
import pytest
from numba.core import config

import textbook_grid as textbook
from problems_for_tests import box_world, finite_world
from spaql.agents import NBQL, UCBQ, QLearning, UCBQInfinite
from test_textbook import ambulance_pair, columns, oil_pair

EPISODES = 10 if config.DISABLE_JIT else 300

# a problem, its plain form, the number of its discrete actions, and bins that are no powers of two where there are many
PAIRS = {
    "oil": (oil_pair, [8, 4]),
    "oil, one bin of states": (oil_pair, [1, 7]),
    "ambulance": (ambulance_pair, [5, 6]),
    "two states, two actions, early end": (box_world, [3, 4, 2, 3]),
    "two states, three finite actions": (finite_world, [4, 3]),
}
every_pair = pytest.mark.parametrize("name", PAIRS)


def assert_equal(agent, table, history):
    for column, expected in columns(history, history[0]).items():
        np.testing.assert_array_equal(agent.history[column], expected, err_msg=column)
    cells = agent.cells()  # in the order of time step, state and action, as the table
    np.testing.assert_array_equal(cells.q, list(table.q.values()))
    np.testing.assert_array_equal(cells.visits, list(table.n.values()))
    assert (cells.visits > 0).sum() > 1


def made(name):
    make, bins = PAIRS[name]
    problem, plain, choices = make()
    return problem, plain, {"bins": bins, "choices": choices}


@every_pair
@pytest.mark.parametrize("bonus", ["hoeffding", "bernstein"])
@pytest.mark.parametrize("rewards", [None, (-1, 3)])
def test_ucb_q_equals_the_textbook(name, bonus, rewards):
    problem, plain, given = made(name)
    # so that either term of the Bernstein bonus is the smaller one at times
    scaling = 1e-7 if bonus == "bernstein" and name != "oil" else 0.01
    agent = UCBQ(problem, bins=given["bins"], bonus=bonus, scaling=scaling, rewards=rewards, seed=3)
    expected = textbook.ucb_q(
        plain, episodes=EPISODES, c=scaling, bonus=bonus, rewards=rewards or (0, 1), seed=3, **given
    )
    assert_equal(agent.learn(iterations=EPISODES), *expected)


@every_pair
def test_nbql_equals_the_textbook(name):
    problem, plain, given = made(name)
    agent = NBQL(problem, epsilon=0.11, lipschitz=0.25, scaling=0.02, seed=2**40)
    dimensions = plain.states + (0 if given["choices"] else plain.actions)
    given["bins"] = [5] * dimensions
    expected = textbook.ucb_q(plain, episodes=EPISODES, c=0.02, slack=0.2 * 0.25, seed=2**40, **given)
    assert_equal(agent.learn(iterations=EPISODES), *expected)


@every_pair
@pytest.mark.parametrize("rewards", [None, (-1, 3)])
def test_ucb_q_infinite_equals_the_textbook(name, rewards):
    problem, plain, given = made(name)
    agent = UCBQInfinite(problem, bins=given["bins"], discount=0.7, scaling=0.003, rewards=rewards, seed=1)
    expected = textbook.ucb_q_infinite(
        plain, episodes=EPISODES, c=0.003, gamma=0.7, rewards=rewards or (0, 1), seed=1, **given
    )
    agent.learn(iterations=EPISODES)
    assert_equal(agent, *expected)
    assert (agent.cells().q < 1.0 / 0.3).any()


@every_pair
@pytest.mark.parametrize(
    ("exploration", "schedule", "operator"),
    [
        ("epsilon", "constant", "max"),
        ("epsilon", "linear", "mellowmax"),
        ("boltzmann", "linear", "max"),
        ("boltzmann", "cyclic", "mellowmax"),
        ("ucb-boltzmann", "exponential", "max"),
        ("mellowmax", "constant", "mellowmax"),
    ],
)
def test_q_learning_equals_the_textbook(name, exploration, schedule, operator):
    problem, plain, given = made(name)
    share = {"schedule": schedule, "exploration": exploration, "operator": operator, "omega": 2.5}
    agent = QLearning(
        problem,
        bins=given["bins"],
        **share,
        exploration_initial=0.75,
        exploration_final=0.125,
        decay_episodes=EPISODES // 2,
        heat=1.5,
        scaling=0.3,
        seed=4,
    ).learn(iterations=EPISODES)
    share |= {"levels": (0.75, 0.125), "decay": EPISODES // 2, "heat": 1.5, "c": 0.3}
    assert_equal(agent, *textbook.q_learning(plain, episodes=EPISODES, seed=4, **share, **given))


@every_pair
def test_q_learning_with_a_constant_rate_equals_the_textbook(name):
    problem, plain, given = made(name)
    agent = QLearning(problem, bins=given["bins"], learning_rate=0.3, initial_q=-2.0, seed=0).learn(iterations=EPISODES)
    expected = textbook.q_learning(plain, episodes=EPISODES, rate=0.3, initial=-2.0, seed=0, **given)
    assert_equal(agent, *expected)


def test_the_mellowmax_policy_expects_mellowmax():
    """The definition of beta: the mean of Q under the policy is mm(Q)."""
    q = [0.3, -1.0, 2.0, 1.75]
    slope = textbook.mellowmax_slope(q, 3.0)
    weights = np.exp(slope * np.array(q))
    assert weights @ q / weights.sum() == pytest.approx(textbook.mellowmax(q, 3.0), abs=1e-12)
    assert np.mean(q) < textbook.mellowmax(q, 3.0) < max(q)


def test_a_long_run_equals_the_textbook():
    problem, plain, given = made("ambulance")
    episodes = 10 * EPISODES
    expected = textbook.ucb_q(plain, episodes=episodes, c=0.01, seed=5, bonus="bernstein", **given)
    agent = UCBQ(problem, bins=given["bins"], bonus="bernstein", scaling=0.01, seed=5).learn(iterations=episodes)
    assert_equal(agent, *expected)
