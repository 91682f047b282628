"""The compiled agents equal the textbook: history, partition, every Q and every visit.

Those of the paper bit for bit.  SPAQL past the paper sums up in another order than the textbook, so its Q and planes
are equal but for rounding; what it decides, every box, visit and return, is the same.
"""

import numpy as np
import pytest
from numba.core import config

import textbook
import textbook_tessera
from problems_for_tests import box_world, finite_world
from spaql.agents import AQL, SPAQL, Tessera
from spaql.agents.tessera.agent import MECHANISMS
from spaql.problems import ambulance, oil
from spaql.problems.oil import DEPOSIT

ITERATIONS = 25 if config.DISABLE_JIT else 150
ROLLOUTS = 3 if config.DISABLE_JIT else 8


def oil_pair(survey="laplace", sharpness=10.0, start=0.0, horizon=5):
    ours = oil(survey=survey, sharpness=sharpness, start=start, horizon=horizon)
    return ours, textbook.Oil(survey, sharpness, DEPOSIT, start, horizon), None


def ambulance_pair(arrivals="beta", cost=0.25, horizon=5):
    ours = ambulance(arrivals=arrivals, cost=cost, horizon=horizon)
    return ours, textbook.Ambulance(arrivals == "beta", cost, 0.5, horizon), None


PAIRS = {
    "laplace 10": oil_pair,
    "laplace 50": lambda: oil_pair(sharpness=50.0),
    "quadratic 1": lambda: oil_pair("quadratic", 1.0),
    "quadratic 50, long": lambda: oil_pair("quadratic", 50.0, horizon=17),
    "laplace, start on a dyadic border": lambda: oil_pair(start=0.5),
    "one step": lambda: oil_pair(horizon=1),
    "beta": ambulance_pair,
    "uniform": lambda: ambulance_pair("uniform", 0.0),
    "beta, only relocation": lambda: ambulance_pair("beta", 1.0, horizon=3),
    "two states, two actions, early end": box_world,
    "two states, three finite actions": finite_world,
}


def boxes(balls):
    """Textbook balls as sorted rows: state and action box, Q, visits, depth."""
    rows = []
    for b in balls:
        box = b.low + b.high if b.choice is None else (*b.low, float(b.choice), *b.high, float(b.choice))
        rows.append((*box, b.q, b.n, b.depth))
    return sorted(rows)


def cells(view, problem):
    """Our cells in the same form, in the unit cube."""
    states, actions = problem.states, problem.actions
    unit = actions.to_unit if hasattr(actions, "to_unit") else (lambda a: a)
    columns = [states.to_unit(view.state_low), unit(view.action_low), states.to_unit(view.state_high)]
    columns += [unit(view.action_high), view.q[:, None], view.visits[:, None], view.depth[:, None]]
    return sorted(tuple(row) for row in np.hstack(columns).tolist())


def columns(history, names):
    return {name: [row[name] for row in history] for name in names}


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize(("seed", "scaling"), [(0, 0.5), (2**40, 4.0)])
def test_spaql_equals_the_textbook(name, seed, scaling):
    problem, plain, choices = PAIRS[name]()
    best, history = textbook.spaql(
        plain, iterations=ITERATIONS, scaling=scaling, seed=seed, rollouts=ROLLOUTS, choices=choices
    )
    agent = SPAQL(problem, scaling=scaling, seed=seed, rollouts=ROLLOUTS).learn(iterations=ITERATIONS)
    for column, expected in columns(history, history[0]).items():
        np.testing.assert_array_equal(agent.history[column], expected, err_msg=column)
    assert cells(agent.cells(), problem) == boxes(best.balls)


def same_agent(name, seed, iterations, **rules):
    """Let both learn, compare all they did and know, and return the library's."""
    problem, plain, choices = PAIRS[name]()
    learner, history = textbook_tessera.tessera(plain, iterations=iterations, seed=seed, choices=choices, **rules)
    agent = Tessera(problem, seed=seed, **rules).learn(iterations=iterations)
    for column, expected in columns(history, history[0]).items():
        np.testing.assert_array_equal(agent.history[column], expected, err_msg=column)
    rows, numbers = [], []
    for c in learner.cells:
        choice = () if c.choice is None else (float(c.choice),)
        rows.append((*c.low, *choice, *c.high, *choice, len(c.transitions), c.depth))
        numbers.append((c.q, *c.mean, *c.slope, c.lowest, c.highest))
    ours = np.array(cells(agent._work.view(), problem))  # sorted by box
    order = sorted(range(len(rows)), key=rows.__getitem__)
    np.testing.assert_array_equal(np.delete(ours, -3, axis=1), np.array(rows)[order])
    numbers = np.array(numbers)
    known = np.column_stack([agent._work.forest.cells["q"], agent._stats.planes])[: len(rows)]
    np.testing.assert_allclose(known, numbers, rtol=1e-9, atol=1e-9 * np.abs(numbers[:, 0]).max())
    return agent


EAGER = {"exploration": 0.7, "z_threshold": 1.0, "tolerance": 1e-3, "min_samples": 3, "growth": 0.2}


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize(("seed", "rules"), [(0, {}), (5, EAGER)], ids=["default", "eager"])
def test_tessera_equals_the_textbook(name, seed, rules):
    same_agent(name, seed, ITERATIONS, **rules)


@pytest.mark.parametrize("name", PAIRS)
def test_tessera_with_a_small_buffer_equals_the_textbook(name):
    agent = same_agent(name, 1, ITERATIONS, buffer_size=64, **EAGER)
    if agent.training_steps > 64:
        assert agent._work.forest.cells["visits"].sum() <= 64


@pytest.mark.parametrize("mechanism", [name for name in MECHANISMS if name not in {"merging", "middle"}])
@pytest.mark.parametrize(
    "name", ["laplace 10", "two states, two actions, early end", "two states, three finite actions"]
)
def test_tessera_without_a_mechanism_equals_the_textbook(name, mechanism):
    """The two that are left out here change only the policy that is returned."""
    agent = same_agent(name, 2, ITERATIONS, disable=[mechanism], **EAGER)
    assert config.DISABLE_JIT or len(agent.cells()) > 5


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize(("seed", "scaling"), [(0, 1.75), (3, 0.25)])
def test_aql_equals_the_textbook(name, seed, scaling):
    problem, plain, choices = PAIRS[name]()
    partitions, history = textbook.aql(
        plain, iterations=ITERATIONS, scaling=scaling, seed=seed, rollouts=ROLLOUTS, choices=choices
    )
    agent = AQL(problem, scaling=scaling, seed=seed, rollouts=ROLLOUTS).learn(iterations=ITERATIONS)
    for column, expected in columns(history, history[0]).items():
        np.testing.assert_array_equal(agent.history[column], expected, err_msg=column)
    for h, partition in enumerate(partitions):
        assert cells(agent.cells().at(h), problem) == boxes(partition.balls), f"time step {h}"


def test_long_run_equals_the_textbook():
    """Long enough that cells pass the levels of the flat grid and visits pass several thousand."""
    problem, plain, _ = oil_pair("quadratic", 50.0, horizon=2)
    iterations = 100 if config.DISABLE_JIT else 3000
    partitions, _ = textbook.aql(plain, iterations=iterations, scaling=0.01, seed=1, rollouts=1)
    agent = AQL(problem, scaling=0.01, seed=1, rollouts=1).learn(iterations=iterations)
    for h, partition in enumerate(partitions):
        assert cells(agent.cells().at(h), problem) == boxes(partition.balls)
