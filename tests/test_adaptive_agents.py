"""AdaMB, ZoomRL and RLSVI: what they reach, what they refuse, and their files."""

import json
import zipfile

import numpy as np
import pytest
from numba.core import config

import spaql
from files_for_tests import MAKERS, changed
from problems_for_tests import box_world, finite_world
from spaql.agents import AQL, RLSVI, AdaMB, Random, ZoomRL
from spaql.errors import AgentFileError, ParameterError, ProblemError
from spaql.partition.rng import uniform
from spaql.problems import Box, Discrete, Problem, ambulance, oil
from test_files import Gusts
from test_files_damage import ASTRAY, MISSHAPEN, edited, replaced

CLASSES = {"adamb": AdaMB, "zoomrl": ZoomRL, "rlsvi": RLSVI}
every_kind = pytest.mark.parametrize("kind", CLASSES)


def mean_score(cls, problem, iterations, **parameters):
    """Mean return of a few agents, each on new random numbers."""
    agents = [cls(problem, rollouts=0, seed=seed, **parameters).learn(iterations=iterations) for seed in range(5)]
    return np.mean([agent.evaluate(400).mean for agent in agents])


# Learning -----------------------------------------------------------------------------------------------------


def best_score(cls, problem, scalings, **parameters):
    return max(mean_score(cls, problem, 2000, scaling=scaling, **parameters) for scaling in scalings)


def survey_of(survey, sharpness):
    return oil(survey=survey, sharpness=sharpness, start=0.5)


CURVES = {  # and the share of AQL's level for each of the two
    "laplace 1": (lambda: survey_of("laplace", 1.0), 0.95, 0.92),
    "laplace 10": (lambda: survey_of("laplace", 10.0), 0.92, 0.85),
    "laplace 50": (lambda: survey_of("laplace", 50.0), 0.8, 0.6),
    "quadratic 1": (lambda: survey_of("quadratic", 1.0), 0.95, 0.92),
    "quadratic 10": (lambda: survey_of("quadratic", 10.0), 0.95, 0.92),
    "quadratic 50": (lambda: survey_of("quadratic", 50.0), 0.95, 0.9),
    "beta": (lambda: ambulance(arrivals="beta"), 0.98, 0.96),
    "uniform": (lambda: ambulance(arrivals="uniform", cost=0.0), 0.98, 0.96),
}


@pytest.mark.compiled_only
@pytest.mark.parametrize("name", CURVES)
def test_adamb_and_zoomrl_reach_about_the_level_of_aql(name):
    """Each at the best of its scalings, as their papers compare; a sharp survey needs more optimism."""
    make, adamb, zoomrl = CURVES[name]
    problem = make()
    level = best_score(AQL, problem, (0.1, 0.5, 1.0, 2.0))
    for planning in ("full", "one-step"):
        assert best_score(AdaMB, problem, (0.5, 1.0, 3.0), planning=planning) > adamb * level
    assert best_score(ZoomRL, problem, (0.25, 0.5, 2.0)) > zoomrl * level


def _chain_step(state, action, parameters, random, next_state):
    """A river: only who swims against it at every step reaches the reward at its upper end."""
    last = parameters[0] - 1.0
    up = action[0] == 1.0
    next_state[0] = min(last, state[0] + 1.0) if up else max(0.0, state[0] - 1.0)
    reward = 0.0
    if up and state[0] == last:
        reward = 1.0
    if not up and state[0] == 0.0:
        reward = 0.005
    return reward, False


def _chain_reset(parameters, random, state):
    state[0] = 0.0


def chain(places):
    """The first reward that counts is that of the last step; a random walk gets there once in 2^places episodes."""
    states, actions = Box(-0.5, places - 0.5), Discrete(2)
    return Problem(
        name="chain",
        step=_chain_step,
        reset=_chain_reset,
        states=states,
        actions=actions,
        horizon=places,
        parameters=[float(places)],
    )


@pytest.mark.compiled_only
@pytest.mark.parametrize("seed", range(4))
def test_rlsvi_solves_a_chain_that_random_actions_do_not(seed):
    problem = chain(8)
    agent = RLSVI(problem, bins=8, sigma=0.3, seed=seed, rollouts=0).learn(iterations=600)
    assert agent.evaluate(10).mean == 1.0
    assert Random(problem, seed=seed).evaluate(1000).mean < 0.05
    for h in range(problem.horizon):  # and it knows what the rest of the way is worth
        assert agent.predict([float(h)], state=[h])[0] == 1


@pytest.mark.compiled_only
def test_rlsvi_learns_the_ambulance_on_its_net():
    problem = ambulance(arrivals="beta")
    assert mean_score(RLSVI, problem, 2000, bins=16, sigma=0.1) > 4.1 > Random(problem).evaluate(2000).mean + 0.4


# Planning -----------------------------------------------------------------------------------------------------


def test_values_of_adamb_only_fall_and_are_bounded_by_what_is_left():
    agent = AdaMB(ambulance(), rollouts=0)
    horizon = agent.problem.horizon
    before = np.full(horizon, np.inf)
    for _ in range(4):
        agent.learn(iterations=5 if config.DISABLE_JIT else 30)
        cells = agent.cells()
        tops = np.array([cells.at(h).q.max() for h in range(horizon)])
        assert (tops <= before).all()
        assert (tops <= horizon - np.arange(horizon)).all()
        before = tops


def test_adamb_knows_its_model():
    """Mean rewards and transitions of all cells are those of a problem that has one of each."""

    def step(state, action, parameters, random, next_state):
        next_state[0] = 0.75
        return 0.25, False

    problem = Problem(name="flat", step=step, reset=_chain_reset, states=Box(0, 1), actions=Box(0, 1), horizon=3)
    agent = AdaMB(problem, scaling=0.0, rollouts=0).learn(iterations=20)
    for h in range(3):
        cells = agent.cells().at(h)
        held = (cells.state_low <= (0.75 if h else 0.0)) & (cells.state_high > (0.75 if h else 0.0))
        np.testing.assert_array_equal(cells.q[held[:, 0]], 0.25 * (3 - h))


@pytest.mark.compiled_only
def test_a_lipschitz_constant_bounds_what_was_never_visited():
    """Balls far from the start are never played; only neighbours say what they can be worth."""
    problem = ambulance(arrivals="uniform", cost=1.0)
    for cls in (AdaMB, ZoomRL):
        agents = [cls(problem, scaling=0.5, lipschitz=value, rollouts=0) for value in (0.1, 50.0)]
        tight, loose = (agent.learn(iterations=100) for agent in agents)
        assert np.mean(tight.cells().at(0).q) < np.mean(loose.cells().at(0).q)


# Bad input ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0, 0.0, -1.0, np.inf, np.nan, "steep", True])
@pytest.mark.parametrize("cls", [AdaMB, ZoomRL])
def test_a_lipschitz_constant_is_above_zero(cls, value):
    remedy = r"^lipschitz: expected a finite number above 0 .*; give a bound on how much the value changes across"
    with pytest.raises(ParameterError, match=remedy):
        cls("oil", lipschitz=value)


def test_zoomrl_needs_its_lipschitz_constant():
    with pytest.raises(ParameterError, match=r"^lipschitz: expected a finite number"):
        ZoomRL("oil", lipschitz=None)
    assert AdaMB("oil").lipschitz is None


@pytest.mark.parametrize("bins", [0, -4, 3, 12, 8.0, "8", True, 2**31, 2**40])
def test_a_net_has_a_power_of_two_intervals(bins):
    with pytest.raises(ParameterError, match=r"^bins: expected a power of two such as 8 or 16, from 1 to [\d,]+, got"):
        RLSVI("oil", bins=bins)


def test_usual_intervals_of_a_net_fit_its_problem():
    assert RLSVI("oil")._bins == 8
    agent = RLSVI("cartpole", rollouts=0)
    assert agent.bins is None
    assert len(agent.cells()) == RLSVI.count_first_cells(agent.problem, {}) == 500 * 2 * 4**4


def test_a_net_finer_than_memory_is_refused_before_it_is_made():
    sentence = r"bins: 1024 per dimension make a net of 5,242,880 cells over 5 time steps, and at most 4,000,000 fit; "
    with pytest.raises(ParameterError, match=f"^{sentence}choose at most 512$"):
        RLSVI("oil", bins=1024)
    with pytest.raises(ParameterError, match=r"fit; choose a shorter horizon=$"):
        RLSVI(chain_of_many(), bins=2)


def chain_of_many():
    many = Discrete(1000)
    return Problem(
        name="many",
        step=_chain_step,
        reset=_chain_reset,
        states=Box(0, 1),
        actions=many,
        horizon=5000,
        parameters=[1.0],
    )


@pytest.mark.parametrize(
    ("cls", "parameters", "sentence"),
    [
        (AdaMB, {"planning": "lazy"}, "planning: 'lazy' is not one of full, one-step"),
        (AdaMB, {"planning": None}, "planning: None is not one of full, one-step"),
        (AdaMB, {"split_exponent": 0}, "split_exponent: expected a whole number of at least 1"),
        (AdaMB, {"scaling": -1}, "scaling: expected a finite number of at least 0"),
        (ZoomRL, {"scaling": -1}, "scaling: expected a finite number of at least 0"),
        (RLSVI, {"sigma": 0}, "sigma: expected a finite number"),
        (RLSVI, {"regularisation": 0}, "regularisation: expected a finite number"),
        (RLSVI, {"rollouts": -1}, "rollouts: expected a whole number of at least 0"),
    ],
)
def test_parameters_are_checked(cls, parameters, sentence):
    with pytest.raises(ParameterError, match=f"^{sentence}"):
        cls("oil", **parameters)


@every_kind
def test_an_endless_horizon_is_refused(kind):
    problem = Problem(
        name="long",
        step=_chain_step,
        reset=_chain_reset,
        states=Box(0, 1),
        actions=Box(0, 1),
        horizon=20_000,
        parameters=[1.0],
    )
    with pytest.raises(
        ParameterError, match=r"keeps a partition per time step, at most 10000, got 20000; give a shorter"
    ):
        CLASSES[kind](problem)


def test_rewards_outside_the_assumed_range_are_found_before_training():
    problem = spaql.problems.pendulum()
    for cls in (AdaMB, ZoomRL):
        found = {diagnosis.id: diagnosis for diagnosis in cls(problem).diagnose()}
        assert "Scale the rewards to 0 to 1" in found["reward-outside-unit-range"].advice
    assert "reward-outside-unit-range" not in {diagnosis.id for diagnosis in RLSVI(problem, bins=2).diagnose()}


def _faulty_step(state, action, parameters, random, next_state):
    """Reports no number as reward, once in fifty steps."""
    next_state[0] = uniform(random)
    return np.nan if uniform(random) < 0.02 else 0.5, False


@every_kind
@pytest.mark.parametrize("seed", range(4))
def test_a_fault_of_the_problem_keeps_what_was_learned(kind, seed):
    space = Box(0, 1)
    problem = Problem(name="faulty", step=_faulty_step, reset=_chain_reset, states=space, actions=space, horizon=4)
    agent = CLASSES[kind](problem, seed=seed, rollouts=1)
    for _ in range(3):
        with pytest.raises(ProblemError, match="in iteration"):
            agent.learn(iterations=200)
        assert len(agent.history) == agent.iterations
        assert np.isfinite(agent.cells().q).all()
    assert agent.iterations > 0


# Reading the policy -------------------------------------------------------------------------------------------


@every_kind
@pytest.mark.parametrize("world", [box_world, finite_world])
def test_policies_are_explained_ruled_and_exported(tmp_path, kind, world):
    problem = world()[0]
    agent = MAKERS[kind](problem).learn(iterations=5 if config.DISABLE_JIT else 60)
    x = 0.5 * (problem.states.low + problem.states.high)
    for step in range(2):
        explanation = agent.explain(x, step=step)
        np.testing.assert_allclose(np.ravel(explanation.action), np.ravel(agent.predict(x, state=[step])[0]))
        assert str(agent.rules(step=step))
    namespace = {}
    exec(agent.export(tmp_path / "policy.py").read_text(), namespace)
    np.testing.assert_allclose(namespace["act"](list(x), 1), agent.predict(x, state=[1])[0])
    assert agent.steps_to_split is None or agent.steps_to_split >= 5 * problem.horizon


@every_kind
@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1", Gusts])
def test_on_an_environment_it_goes_on_exactly(tmp_path, kind, env):
    def make():
        few = {"bins": 2} if kind == "rlsvi" else {}
        return CLASSES[kind](env, seed=3, rollouts=1, horizon=12, **few)

    whole, agent = make().learn(iterations=12), make()
    for iterations in (1, 4, 7):
        path = agent.learn(iterations=iterations).save(tmp_path / "agent.spaql")
        agent = spaql.load(path, env if env is Gusts else None)
    assert agent.save(tmp_path / "a.spaql").read_bytes() == whole.save(tmp_path / "b.spaql").read_bytes()
    np.testing.assert_array_equal(agent.evaluate(3).returns, whole.evaluate(3).returns)


@pytest.mark.parametrize("planning", ["full", "one-step"])
@pytest.mark.parametrize("lipschitz", [None, 1.0])
def test_adamb_goes_on_with_the_values_that_it_had(tmp_path, planning, lipschitz):
    def make():
        return AdaMB(finite_world()[0], planning=planning, lipschitz=lipschitz, rollouts=1)

    n = 5 if config.DISABLE_JIT else 40
    again = spaql.load(make().learn(iterations=n).save(tmp_path / "agent.spaql"), finite_world()[0])
    whole = make().learn(iterations=2 * n)
    assert again.learn(iterations=n).history.tobytes() == whole.history.tobytes()
    np.testing.assert_array_equal(again.cells().q, whole.cells().q)


# Damaged files ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    return {kind: MAKERS[kind]("oil").learn(iterations=60).save(folder / kind).read_bytes() for kind in CLASSES}


def assert_refused(tmp_path, files, kind, name, edit):
    path = tmp_path / "agent.spaql"
    path.write_bytes(files[kind])
    assert spaql.load(path).iterations == 60
    path = replaced(path, name, edit) if isinstance(edit, np.ndarray) else edited(path, name, edit)
    with pytest.raises(AgentFileError, match=r"agent\.spaql: ") as error:
        spaql.load(path)
    assert "\n" not in str(error.value)


@every_kind
@pytest.mark.parametrize("how", ASTRAY)
def test_a_tree_that_leads_astray_is_refused(tmp_path, files, kind, how):
    name, edit = ASTRAY[how]
    assert_refused(tmp_path, files, kind, f"work-{name}", edit)


def put(value, *at):
    def edit(array):
        inner = array
        for key in at[:-1]:
            inner = inner[key]
        inner[at[-1]] = value

    return edit


INVALID = {
    "a mean that is not a number": ("adamb", "model-means", put(np.nan, 0)),
    "a record that is not there": ("adamb", "model-newest", put(10**6, 0)),
    "a record above itself": ("adamb", "model-records", put(3, "above", 3)),
    "a record above that is as deep": ("adamb", "model-records", put(0, "depth", -1)),
    "a record after itself": ("adamb", "model-records", put(0, "next", 0)),
    "a record too deep": ("adamb", "model-records", put(31, "depth", 0)),
    "a record deeper than its cell": ("adamb", "model-newest", put(95, slice(None))),
    "a record of a cell that was not visited": ("adamb", "work-visits", put(0, 0)),
    "means of which sums overflow": ("adamb", "model-means", put(1.7e308, 0)),
    "a total that is not a number": ("adamb", "model-records", put(np.nan, "total", 0)),
    "a first record that is not there": ("adamb", "model-ends", put(10**6, 0, 0)),
    "an entry that is not there": ("adamb", "model-first", put(10**6, 0)),
    "an entry after itself": ("adamb", "model-entries", put(0, "next", 0)),
    "a transition to nowhere": ("adamb", "model-entries", put(10**6, "node", 0)),
    "a transition that never was": ("adamb", "model-entries", put(0, "count", 0)),
    "a ball that is not there": ("zoomrl", "balls-numbers", put(10**6, 0)),
    "a ball of another cell": ("zoomrl", "balls-numbers", put(1, -1)),
    "a cell that is not there": ("zoomrl", "balls-balls", put(10**6, "cell", -1)),
    "a cell with two balls": ("zoomrl", "balls-balls", put(0, "cell", -1)),
    "a cell without a ball": ("zoomrl", "balls-balls", put(-1, "cell", -1)),
    "a ball before itself": ("zoomrl", "balls-balls", put(7, "next", 7)),
    "a witness that is not there": ("zoomrl", "balls-balls", put(-1, "witness", 0)),
    "another radius": ("zoomrl", "balls-balls", put(9, "depth", -1)),
    "an estimate that is not a number": ("zoomrl", "balls-balls", put(np.nan, "q", 0)),
    "a centre that is not a number": ("zoomrl", "balls-centres", put(np.nan, 0)),
    "a newest ball that is not there": ("zoomrl", "balls-newest", put(10**6, 0)),
    "an infinite sum of rewards": ("rlsvi", "data-rewards", put(np.inf, 0)),
    "a list that is not there": ("rlsvi", "data-first", put(10**6, 0)),
    "a list of all cells": ("rlsvi", "data-first", lambda first: put(first.max(), slice(None))(first)),
    "two lists of transitions in one": ("adamb", "model-entries", put(5, "next", slice(0, 2))),
    "two lists of balls in one": ("zoomrl", "balls-newest", lambda newest: put(newest[0], 1)(newest)),
    "two lists of records in one": ("adamb", "model-ends", lambda ends: put(ends[0, 0], 1, 0)(ends)),
    "a transition to another step": ("rlsvi", "data-entries", put(0, "node", 0)),
    "another net": ("rlsvi", "work-nodes", lambda nodes: put(nodes[0], slice(None))(nodes)),
}


@pytest.mark.parametrize("how", INVALID)
def test_an_invalid_model_is_refused(tmp_path, files, how):
    assert_refused(tmp_path, files, *INVALID[how])


@pytest.mark.parametrize("bins", ["8", [8], 1e300, 3])
def test_a_net_without_a_number_of_bins_is_refused(tmp_path, files, bins):
    path = tmp_path / "agent.spaql"
    path.write_bytes(files["rlsvi"])

    def edit(data):
        head = json.loads(data)
        head["parameters"]["bins"] = bins
        return json.dumps(head).encode()

    with pytest.raises(AgentFileError, match="bins: expected a power of two"):
        spaql.load(changed(path, "agent.json", edit))


@every_kind
def test_arrays_of_another_shape_or_type_are_refused(tmp_path, files, kind):
    path = tmp_path / "agent.spaql"
    path.write_bytes(files[kind])
    with zipfile.ZipFile(path) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
    own = [name for name in names if name.startswith(("model-", "balls-", "data-"))]
    assert len(own) >= 3
    for name in own:
        for array in MISSHAPEN.values():
            assert_refused(tmp_path, files, kind, name, array)
