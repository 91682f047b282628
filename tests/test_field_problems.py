"""The problems of the field: their optimum against plain programmes and simulation, their heuristics, their ranges."""

import copy
import itertools
import math
import sys
from functools import cache

import numpy as np
import pytest
from numba.core import config

import spaql
from contract_for_tests import assert_refused
from spaql.agents import resolve
from spaql.errors import ParameterError, ProblemError
from spaql.gym.environments import ProblemEnvironment
from spaql.partition.rng import Purpose, stream
from spaql.problems import PROBLEMS, Box, Problem, ambulances, battery, inventory, machine, oil, oil_nd, revenue
from spaql.problems.ambulances import Fleet, _Grid
from spaql.problems.finite import Finite
from spaql.problems.heuristics import HEURISTICS, Chooser, Rule
from spaql.problems.labels import make_labels
from spaql.problems.optimum import EXACT, STATED, BetaArrivals
from spaql.problems.revenue import _protect

SLOW = config.DISABLE_JIT
EPISODES = 200 if SLOW else 4000

SETTINGS = {
    "oil-nd": lambda: oil_nd(),
    "oil-nd, quadratic": lambda: oil_nd(dimensions=3, survey="quadratic", sharpness=1.0, start=0.2),
    "ambulances": lambda: ambulances(),
    "ambulances, three": lambda: ambulances(count=3, arrivals="uniform", cost=0.5),
    "inventory": lambda: inventory(),
    "inventory, lead 1": lambda: inventory(lead_time=1, setup=0.0),
    "machine": lambda: machine(),
    "revenue": lambda: revenue(),
    "battery": lambda: battery(),
    "battery, no noise": lambda: battery(noise=0.0, efficiency=1.0, horizon=30),
}
FINITE = [name for name in SETTINGS if name.split(",")[0] in ("inventory", "machine", "revenue", "battery")]
every_setting = pytest.mark.parametrize("name", SETTINGS)


@cache
def setting(name):
    return SETTINGS[name]()


@cache
def solved(name):
    with pytest.MonkeyPatch.context() as patch:  # quicker, with a larger tolerance
        patch.setattr(sys.modules["spaql.problems.ambulances"], "_MOST_PLACES", 2**16)
        return spaql.optimum(setting(name))


def play(problem, choose, episodes, seed=0):
    """Returns of episodes side by side, by the problem's own step; `choose(states, step)` returns the actions."""
    random, parameters = stream(seed, Purpose.EVALUATION_ENVIRONMENT), np.array(problem.parameters)
    states, alive, returns = np.zeros((episodes, problem.states.dimensions)), np.arange(episodes), np.zeros(episodes)
    for state in states:
        problem.reset(parameters, random, state)
    for step in range(problem.horizon):
        actions, ended = np.asarray(choose(states[alive], step), float).reshape(len(alive), -1), []
        for at, action in zip(alive, actions, strict=True):
            after = np.full(states.shape[1], np.nan)
            reward, over = problem.step(states[at], action, parameters, random, after)
            returns[at] += reward
            states[at] = after
            ended.append(over)
        alive = alive[~np.array(ended)]
    return returns


def assert_near(returns, value, tolerance=0.0, lowest=None):
    """The mean is within its error of a value; or, with `lowest`, not above it, and not below `lowest`."""
    error = 4.5 * returns.std() / math.sqrt(len(returns)) + tolerance + 1e-9
    assert (value if lowest is None else lowest) - error <= returns.mean() <= value + error


# The optimum ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FINITE)
def test_the_policy_of_the_programme_earns_the_optimum_in_simulation(name):
    problem, known = setting(name), solved(name)
    assert known.kind == EXACT
    assert known.tolerance < 1e-9
    assert_near(play(problem, known.policy, EPISODES), known.value)


@pytest.mark.parametrize("name", ["oil-nd", "oil-nd, quadratic"])
def test_the_policy_of_oil_earns_the_optimum(name):
    known = solved(name)
    assert play(setting(name), known.policy, 2)[0] == pytest.approx(known.value, abs=1e-9)


@pytest.mark.parametrize("name", ["ambulances", "ambulances, three"])
def test_the_policy_of_the_fleet_earns_almost_the_optimum(name):
    """The policy is that of a coarse grid: its loss is less than a hundredth."""
    known = solved(name)
    returns = play(setting(name), known.policy, EPISODES // 4)
    assert_near(returns, known.value, known.tolerance, lowest=0.99 * known.value)


def inventory_value(problem):
    """Written from the docstring, with dictionaries; Poisson by its recursion."""
    given = problem.arguments
    chance, p = [], math.exp(-given["demand"])
    for d in range(given["largest"]):
        chance.append(p)
        p *= given["demand"] / (d + 1)
    chance.append(1.0 - sum(chance))
    room = given["capacity"]
    worst = given["setup"] + max(given["holding"] * room, given["shortage"] * given["largest"])
    value = dict.fromkeys(range(room + 1), 0.0)
    for _ in range(problem.horizon):
        best = {}
        for x in value:
            worth = []
            for q in range(room + 1):
                total = 0.0
                for d, p in enumerate(chance):
                    y = min(x + q, room) if given["lead_time"] == 0 else x
                    cost = given["setup"] * (q > 0) + given["holding"] * max(0, y - d)
                    cost += given["shortage"] * max(0, d - y)
                    after = max(0, y - d) if given["lead_time"] == 0 else min(max(0, x - d) + q, room)
                    total += p * (1.0 - cost / worst + value[after])
                worth.append(total)
            best[x] = max(worth)
        value = best
    return value[given["start"]]


def machine_value(problem):
    given = problem.arguments
    levels, shocks, chance = given["levels"], given["shocks"], given["chance"]
    wear = [math.comb(shocks, k) * chance**k * (1 - chance) ** (shocks - k) for k in range(shocks + 1)]
    worst = max(given["running"], given["price"], given["failure"])
    value = [0.0] * (levels + 1)
    for _ in range(problem.horizon):

        def ahead(w, value=value):
            return sum(p * value[min(w + k, levels)] for k, p in enumerate(wear))

        replaced = 1.0 - given["price"] / worst + ahead(0)
        costs = [given["running"] * (w / levels) ** 2 for w in range(levels)] + [given["failure"]]
        value = [max(replaced, 1.0 - cost / worst + ahead(w)) for w, cost in enumerate(costs)]
    return value[0]


def revenue_value(problem):
    """Any price of a fine grid, which holds the seven."""
    given, fares = problem.arguments, [(0.2, 0.3, 0.4, 0.5), (0.7, 0.85, 1.0)]
    horizon, prices = problem.horizon, [k / 100 for k in range(101)]
    value = [0.0] * (given["seats"] + 1)
    for t in reversed(range(horizon)):
        business = (t + 0.5) / horizon
        some = [(1.0 - business, fares[0]), (business, fares[1])]
        sells = [given["arrivals"] * sum(p * sum(a <= f for f in who) / len(who) for p, who in some) for a in prices]
        value = [0.0] + [
            max(s * (a + value[n - 1]) + (1.0 - s) * value[n] for a, s in zip(prices, sells, strict=True))
            for n in range(1, given["seats"] + 1)
        ]
    return value[-1]


def battery_value(problem):
    given = problem.arguments
    power, room, loss = given["power"], given["capacity"], given["efficiency"]

    def price(hour, e):
        return 0.5 + given["swing"] * math.cos(2 * math.pi * (hour - given["peak"]) / 24) + given["noise"] * e

    value = dict.fromkeys(itertools.product(range(room + 1), (-1, 0, 1)), 0.0)
    for t in reversed(range(problem.horizon)):
        mean = {c: 0.25 * value[c, -1] + 0.5 * value[c, 0] + 0.25 * value[c, 1] for c in range(room + 1)}
        value = {
            (c, e): max(
                0.5 + 0.5 * price(t % 24, e) * (-u / loss if u > 0 else -u) / (power / loss) + mean[c + u]
                for u in range(-power, power + 1)
                if 0 <= c + u <= room
            )
            for c, e in value
        }
    return value[0, 0]


@pytest.mark.parametrize("name", FINITE)
def test_the_optimum_equals_that_of_a_plain_programme(name):
    plain = {"inventory": inventory_value, "machine": machine_value, "revenue": revenue_value, "battery": battery_value}
    problem = setting(name)
    assert solved(name).value == pytest.approx(plain[problem.maker](problem), abs=1e-9)


@pytest.mark.parametrize("survey", ["laplace", "quadratic"])
def test_oil_in_one_dimension_is_oil(survey):
    line, space = oil(survey=survey, sharpness=3.0), oil_nd(dimensions=1, survey=survey, sharpness=3.0)
    here, there = spaql.optimum(line), spaql.optimum(space)
    assert there.value == pytest.approx(here.value, abs=here.tolerance + there.tolerance)
    ours, theirs = (spaql.Random(problem, seed=1).evaluate(50).returns for problem in (line, space))
    np.testing.assert_allclose(theirs, ours, rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("given", [{"survey": "laplace", "sharpness": 2.0}, {"survey": "quadratic", "sharpness": 1.5}])
def test_no_path_in_the_plane_earns_more_than_the_straight_one(given):
    """Against all paths among the points of a grid that holds start and deposit."""
    problem = oil_nd(dimensions=2, deposit=0.75, start=0.25, horizon=3, **given)
    places = np.array(list(itertools.product(np.linspace(0.0, 1.0, 21), repeat=2)))
    miss, way = np.abs(places - 0.75).mean(axis=1), np.abs(places[:, None] - places[None]).mean(axis=2)
    gain = np.exp(-2.0 * miss) if given["survey"] == "laplace" else 1.0 - 1.5 * miss**2
    value = np.zeros(len(places))
    for _ in range(3):
        value = (np.maximum(0.0, gain - way) + value).max(axis=1)
    start = float(value[(places == 0.25).all(axis=1)][0])
    assert start <= spaql.optimum(problem).value + 1e-9
    assert start == pytest.approx(spaql.optimum(problem).value, abs=0.02)


# Several ambulances ---------------------------------------------------------------------------------------------------


def fleet_value(fleet, cells, horizon):
    """The programme on a coarse grid, written plainly: every action in every state, every half of a cell."""
    places, edges = (np.arange(cells) + 0.5) / cells, np.linspace(0.0, 1.0, 2 * cells + 1)
    chances, t = np.diff(fleet.arrivals(edges)), fleet.cost / fleet.count
    nodes = list(itertools.product(range(cells), repeat=fleet.count))
    fine = np.linspace(0.0, 1.0, 20_001)
    mass = np.diff(fleet.arrivals(fine))
    value = dict.fromkeys(nodes, 0.0)
    for _ in range(horizon):
        worth = {}
        for a in nodes:
            drive = np.abs(places[list(a)][:, None] - 0.5 * (fine[1:] + fine[:-1])).min(axis=0) @ mass
            worth[a] = 1.0 - (1.0 - fleet.cost) * drive
            for half, p in enumerate(chances):
                call = 0.5 * (edges[half] + edges[half + 1])
                nearest = int(np.argmin([abs(places[i] - call) for i in a]))
                worth[a] += p * value[(*a[:nearest], half // 2, *a[nearest + 1 :])]
        value = {
            x: max(w - t * np.abs(places[list(x)] - places[list(a)]).sum() for a, w in worth.items()) for x in nodes
        }
    return max(w - t * np.abs(fleet.start - places[list(a)]).sum() for a, w in worth.items())


@pytest.mark.parametrize(("count", "cells"), [(2, 6), (3, 3)])
@pytest.mark.parametrize("arrivals", [BetaArrivals(5.0, 2.0), BetaArrivals(1.0, 1.0)])
def test_the_programme_of_a_fleet_equals_a_plain_one(count, cells, arrivals):
    fleet = Fleet(count, 0.4, 0.3, arrivals)
    grid = _Grid(fleet, cells)
    assert grid.value_at_start(grid.solve(3)[0]) == pytest.approx(fleet_value(fleet, cells, 3), abs=1e-6)


def bound(fleet, cells, horizon=5):
    """The certificate of the docstring."""
    t, d = fleet.cost / fleet.count, 0.5 / cells
    others = t * (fleet.count - 1) * (d + fleet._crowd(cells))
    return horizon * (d + others) + (horizon - 1) * t * d


@pytest.mark.parametrize("cost", [0.0, 0.25, 0.7, 1.0])
def test_bounds_of_the_fleet_hold_on_every_grid(cost):
    fleet = Fleet(2, cost, 0.5, BetaArrivals(5.0, 2.0))
    fine, coarse = 600, (8, 17, 50, 150)
    values = {cells: _Grid(fleet, cells).value_at_start(_Grid(fleet, cells).solve(5)[0]) for cells in (*coarse, fine)}
    for cells in coarse:
        assert abs(values[cells] - values[fine]) <= bound(fleet, cells) + bound(fleet, fine)


def test_the_optimum_of_two_ambulances_is_known_well_enough():
    known = spaql.optimum(ambulances())
    assert known.kind == EXACT
    assert known.tolerance < 1e-3 * known.value  # what tables ask for


def test_fleets_with_known_optimum(monkeypatch):
    monkeypatch.setattr(sys.modules["spaql.problems.ambulances"], "_MOST_PLACES", 2**16)
    assert spaql.optimum(ambulances(cost=1.0)).value == pytest.approx(5.0, abs=0.02)  # nobody moves
    # Uniform calls, free relocation: two ambulances wait at 1/4 and 3/4, where the mean distance is 1/8.
    free = spaql.optimum(ambulances(cost=0.0, arrivals="uniform"))
    assert free.value == pytest.approx(5.0 * 7 / 8, abs=free.tolerance)
    assert 0.0 < free.tolerance < 0.02
    one, same = spaql.optimum(ambulances(count=1)), spaql.optimum(PROBLEMS["ambulance"]())
    assert one.value == same.value


# Heuristics -----------------------------------------------------------------------------------------------------------

PLAYS = {
    "deposit": ["oil-nd", "oil-nd, quadratic"],
    "no-movement": ["oil-nd", "ambulances"],
    "quantiles": ["ambulances", "ambulances, three"],
    "base-stock": ["inventory", "inventory, lead 1"],
    "s-S": ["inventory", "inventory, lead 1"],
    "control-limit": ["machine"],
    "protection": ["revenue"],
    "fixed-price": ["revenue"],
    "price-limits": ["battery", "battery, no noise"],
}
every_heuristic = pytest.mark.parametrize(
    ("heuristic", "name"), [(heuristic, name) for heuristic, names in PLAYS.items() for name in names]
)


@every_heuristic
def test_a_heuristic_is_between_random_and_the_optimum(heuristic, name):
    problem, known = setting(name), solved(name)
    returns = resolve(heuristic).make(problem).evaluate(EPISODES).returns
    random = spaql.Random(problem).evaluate(EPISODES).mean
    if heuristic != "no-movement":  # which finds no oil
        assert returns.mean() > random
    assert_near(returns, known.value, known.tolerance, lowest=-1.0)


@every_heuristic
def test_evaluations_of_a_heuristic_play_what_it_predicts(heuristic, name):
    problem = setting(name)
    agent = resolve(heuristic).make(problem, seed=3)
    played = play(problem, lambda states, step: agent.predict(states)[0], 40, seed=3)
    assert agent.evaluate(40).mean == pytest.approx(played.mean(), rel=0.05)
    if heuristic == "deposit":
        np.testing.assert_allclose(agent.evaluate(40).returns, played, rtol=0.0, atol=1e-12)


SEARCHED = ["base-stock", "s-S", "control-limit", "protection", "fixed-price", "price-limits"]


@pytest.mark.parametrize("heuristic", SEARCHED)
def test_the_exact_value_of_a_heuristic_is_that_of_simulation(heuristic):
    problem = setting(HEURISTICS[heuristic].home)
    agent, model = resolve(heuristic).make(problem), problem.model
    actions = np.asarray(agent.predict(model.states)[0], float).reshape(len(model.states), -1)
    choice = np.array([np.abs(model.actions - action).sum(axis=1).argmin() for action in actions])
    exact = float(model.evaluate(choice[None], problem.horizon)[0])
    assert_near(agent.evaluate(EPISODES).returns, exact)


def test_the_best_levels_are_chosen():
    """Scarf's (s, S) is worth more than any base-stock level where orders have a set-up cost, and the same without."""
    with_setup, without = inventory(setup=5.0), inventory(setup=0.0)
    for problem, gap in ((with_setup, 0.1), (without, 0.0)):
        base, pair = (resolve(name).make(problem) for name in ("base-stock", "s-S"))
        values = [exact_value(agent) for agent in (base, pair)]
        assert values[1] >= values[0] + gap
        assert values[1] <= spaql.optimum(problem).value + 1e-9
    assert exact_value(resolve("base-stock").make(without)) == pytest.approx(spaql.optimum(without).value, abs=2e-3)
    limit = resolve("control-limit").make(machine()).constants["limit"]
    assert exact_limit(machine(), limit) == max(exact_limit(machine(), other) for other in range(12))


def exact_value(agent):
    model = agent.problem.model
    orders = (agent.problem.arguments["capacity"] * np.asarray(agent.predict(model.states)[0])).round()
    return float(model.evaluate(orders[:, 0].astype(int)[None], agent.problem.horizon)[0])


def exact_limit(problem, limit):
    choice = (problem.model.states[:, 0] >= limit).astype(int)
    return float(problem.model.evaluate(choice[None], problem.horizon)[0])


@pytest.mark.parametrize("heuristic", sorted(set(HEURISTICS) - {"no-movement"}))
def test_a_heuristic_on_another_problem_is_refused(heuristic):
    make = resolve(heuristic).make
    assert_refused(
        ParameterError, lambda: make(PROBLEMS["pendulum"]()), heuristic, "'pendulum'", "this heuristic needs"
    )


def test_seats_are_whole_numbers_to_those_who_protect_them():
    """Seven of 25 seats are a little more than seven on the way to the unit cube and back."""
    rule = Rule(_protect, {"leisure price": 0.2, "business price": 1.0, "share protected": 1.0, "business": 7.0})
    chooser = Chooser(rule, revenue(seats=25))
    assert 25 * (7 / 25) > 7
    np.testing.assert_array_equal(chooser(np.array([[7 / 25, 0.0], [8 / 25, 0.0]])), [[1.0], [0.2]])


def test_heuristics_can_be_copied():
    agent = resolve("control-limit").make("machine", seed=1)
    np.testing.assert_array_equal(copy.deepcopy(agent).evaluate(20).returns, agent.evaluate(20).returns)


def test_heuristics_are_saved(tmp_path):
    agent = resolve("s-S").make("inventory", seed=2)
    loaded = spaql.load(agent.save(tmp_path / "agent.spaql"))
    assert loaded.constants == agent.constants
    np.testing.assert_array_equal(loaded.evaluate(50).returns, agent.evaluate(50).returns)


# Laws -----------------------------------------------------------------------------------------------------------------


@every_setting
def test_rewards_and_states_keep_their_range_in_random_play(name):
    problem = setting(name)
    environment, draws = ProblemEnvironment(problem), np.random.default_rng(0)
    low, high = problem.rewards
    seen = []
    for episode in range(10 if SLOW else 100):
        observation, over = environment.reset(seed=episode)[0], False
        while not over:
            assert environment.observation_space.contains(observation)
            if isinstance(problem.actions, Box):
                action = problem.actions.from_unit(draws.random(problem.actions.dimensions))
            else:
                action = int(draws.integers(problem.actions.count))
            observation, reward, terminated, truncated, _ = environment.step(action)
            seen.append(reward)
            over = terminated or truncated
    assert low <= min(seen)
    assert max(seen) <= high
    assert np.ptp(seen) > 0.0


@every_setting
def test_problems_are_made_again_from_their_arguments(name):
    problem = setting(name)
    again = PROBLEMS[problem.maker](**problem.arguments)
    assert (again.name, dict(again.arguments)) == (problem.name, dict(problem.arguments))
    np.testing.assert_array_equal(again.parameters, problem.parameters)


@every_setting
def test_observations_and_actions_have_names(name):
    problem = setting(name)
    labels = make_labels(problem)
    assert len(labels.states) == problem.states.dimensions
    assert not any("observation[" in label for label in labels.states)
    assert not any(label.startswith("action") for label in labels.actions)


@pytest.mark.parametrize(
    ("make", "mention"),
    [
        (lambda: oil_nd(dimensions=0), "dimensions"),
        (lambda: oil_nd(survey="flat"), "survey"),
        (lambda: ambulances(count=9), "count"),
        (lambda: ambulances(arrivals="uniform", shape=(1, 1)), "shape"),
        (lambda: inventory(lead_time=2), "lead_time"),
        (lambda: inventory(start=21), "start"),
        (lambda: inventory(demand=0.0), "demand"),
        (lambda: inventory(setup=0, holding=0, shortage=0), "above 0"),
        (lambda: machine(chance=1.5), "chance"),
        (lambda: machine(running=0, price=0, failure=0), "above 0"),
        (lambda: revenue(seats=0), "seats"),
        (lambda: revenue(horizon=501), "horizon"),
        (lambda: battery(power=9), "power"),
        (lambda: battery(capacity=1300, power=1300), "can be solved; give less of one of them"),
        (lambda: battery(swing=0.4, noise=0.2), "swing, noise"),
        (lambda: battery(efficiency=0.0), "efficiency"),
    ],
)
def test_bad_arguments_are_refused(make, mention):
    assert_refused(ParameterError, make, mention)


# Stated optima, and models of one's own -------------------------------------------------------------------------------


def drift(state, action, parameters, random, next_state):
    next_state[0] = action[0]
    return action[0], False


def start(parameters, random, state):
    state[0] = 0.5


def make(**given):
    spaces = {"states": Box(0, 1), "actions": Box(0, 1)}
    return Problem(name="mine", step=drift, reset=start, horizon=4, **spaces, **given)


def test_a_stated_optimum():
    known = spaql.optimum(make(optimum=4, rewards=(0, 1)))
    assert (known.value, known.tolerance, known.kind, known.myopic) == (4.0, 0.0, STATED, None)
    assert_refused(ProblemError, lambda: known.policy([0.5]), "without a policy")
    assert_refused(ProblemError, lambda: spaql.optimum(make()), "'mine' has no model", "optimum=4.2")


@pytest.mark.parametrize("value", [math.nan, math.inf, "4", [4.0], True])
def test_bad_stated_optima_are_refused(value):
    assert_refused(ParameterError, lambda: make(optimum=value), "'mine'", "optimum", "finite number")


def test_a_stated_optimum_must_fit_the_rest():
    assert_refused(ProblemError, lambda: make(optimum=4.1, rewards=(0, 1)), "more than 4 steps of at most 1")
    assert_refused(ProblemError, lambda: make(optimum=-5, rewards=(0, 1)), "less than 4 steps of at least 0")
    model = machine().model
    assert_refused(ProblemError, lambda: make(optimum=1.0, model=model), "its model computes the optimum")


def test_a_finite_model_that_leaves_its_states_is_refused():
    def move(state, action, event, parameters, next_state):
        next_state[0] = state[0] + 1.0
        return 0.0, False

    model = Finite(move, np.zeros((1, 1)), np.zeros((1, 1)), np.ones(1), np.zeros(1), np.zeros(0))
    assert_refused(ProblemError, lambda: model.solve(2, 1e-5), "not in its states")
