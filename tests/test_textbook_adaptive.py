"""AdaMB and ZoomRL equal the textbook bit for bit, and RLSVI the regression on all data to rounding."""

import numpy as np
import pytest
from numba.core import config

import textbook_adaptive
from problems_for_tests import box_world, finite_world
from spaql.agents import RLSVI, AdaMB, ZoomRL
from spaql.problems import oil
from test_textbook import ambulance_pair, boxes, cells, columns, oil_pair

ITERATIONS = 12 if config.DISABLE_JIT else 40
ROLLOUTS = 2
PAIRS = {
    "laplace 10": oil_pair,
    "quadratic 50, long": lambda: oil_pair("quadratic", 50.0, horizon=9),
    "laplace, start on a dyadic border": lambda: oil_pair(start=0.5),
    "one step": lambda: oil_pair(horizon=1),
    "beta": ambulance_pair,
    "uniform": lambda: ambulance_pair("uniform", 0.0),
    "two states, two actions, early end": box_world,
    "two states, three finite actions": finite_world,
}


def assert_equal(agent, problem, partitions, history):
    for column, expected in columns(history, history[0]).items():
        np.testing.assert_array_equal(agent.history[column], expected, err_msg=column)
    for h, partition in enumerate(partitions):
        assert cells(agent.cells().at(h), problem) == boxes(partition.balls), f"time step {h}"


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize(
    ("seed", "scaling", "exponent", "planning", "lipschitz"),
    [
        (0, 0.5, 2, "full", None),
        (2**40, 2.0, 3, "full", 1.5),
        (3, 1.0, 1, "full", None),
        (1, 0.25, 2, "one-step", None),
        (5, 1.0, 2, "one-step", 0.75),
    ],
)
def test_adamb_equals_the_textbook(name, seed, scaling, exponent, planning, lipschitz):
    problem, plain, choices = PAIRS[name]()
    iterations = ITERATIONS if lipschitz is None or config.DISABLE_JIT else ITERATIONS // 2
    settings = {"scaling": scaling, "seed": seed, "rollouts": ROLLOUTS, "planning": planning, "lipschitz": lipschitz}
    expected = textbook_adaptive.adamb(plain, iterations=iterations, exponent=exponent, choices=choices, **settings)
    agent = AdaMB(problem, split_exponent=exponent, **settings).learn(iterations=iterations)
    assert_equal(agent, problem, *expected)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize(("seed", "scaling", "lipschitz"), [(0, 0.5, 2.0), (3, 1.0, 0.5), (2**40, 0.0, 20.0)])
def test_zoomrl_equals_the_textbook(name, seed, scaling, lipschitz):
    problem, plain, choices = PAIRS[name]()
    settings = {"scaling": scaling, "seed": seed, "rollouts": ROLLOUTS, "lipschitz": lipschitz}
    expected = textbook_adaptive.zoomrl(plain, iterations=ITERATIONS, choices=choices, **settings)
    agent = ZoomRL(problem, **settings).learn(iterations=ITERATIONS)
    assert_equal(agent, problem, *expected)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize(("seed", "bins", "sigma", "regularisation"), [(0, 4, 1.0, 1.0), (2**40, 2, 0.1, 4.0)])
def test_rlsvi_equals_the_regression_on_all_data(name, seed, bins, sigma, regularisation):
    problem, plain, choices = PAIRS[name]()
    bins = min(bins, 2) if problem.states.dimensions == 2 else bins
    settings = {"seed": seed, "rollouts": ROLLOUTS, "bins": bins, "sigma": sigma, "regularisation": regularisation}
    net, theta, data, history = textbook_adaptive.rlsvi(plain, iterations=ITERATIONS, choices=choices, **settings)
    agent = RLSVI(problem, **settings).learn(iterations=ITERATIONS)
    for column, expected in columns(history, history[0]).items():
        np.testing.assert_array_equal(agent.history[column], expected, err_msg=column)
    for h in range(problem.horizon):
        view = agent.cells().at(h)
        np.testing.assert_allclose(view.q, theta[h], rtol=1e-9, atol=1e-11)
        visits = np.bincount([feature for feature, *_ in data[h]], minlength=len(net.boxes))
        np.testing.assert_array_equal(view.visits, visits)


@pytest.mark.compiled_only
def test_long_runs_equal_the_textbook():
    """Long enough that cells pass several depths and transitions meet regions that were split after them."""
    problem, plain, _ = oil_pair("quadratic", 50.0, horizon=2)
    settings = {"seed": 1, "rollouts": 0, "scaling": 0.1}
    partitions, _ = textbook_adaptive.adamb(
        plain, iterations=400, exponent=2, planning="one-step", lipschitz=None, **settings | {"rollouts": 1}
    )
    agent = AdaMB(problem, planning="one-step", **settings).learn(iterations=400)
    for h, partition in enumerate(partitions):
        assert cells(agent.cells().at(h), problem) == boxes(partition.balls), f"time step {h}"
    partitions, _ = textbook_adaptive.zoomrl(plain, iterations=400, lipschitz=3.0, **settings | {"rollouts": 1})
    agent = ZoomRL(problem, lipschitz=3.0, **settings).learn(iterations=400)
    for h, partition in enumerate(partitions):
        assert cells(agent.cells().at(h), problem) == boxes(partition.balls), f"time step {h}"


def test_both_ways_of_planning_agree_where_one_step_is_all_there_is():
    """With one time step there is nothing to plan ahead: both update the ball played alone."""
    problem = oil(horizon=1)
    agents = [AdaMB(problem, planning=planning, rollouts=0).learn(iterations=100) for planning in ("full", "one-step")]
    np.testing.assert_array_equal(*(agent.cells().q for agent in agents))
