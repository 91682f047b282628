"""The agents of the paper equal the textbook bit for bit: history, partition, every Q and every visit."""

import numpy as np
import pytest
from numba.core import config

import textbook
from problems_for_tests import box_world, finite_world
from spaql.agents import AQL, SPAQL
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
