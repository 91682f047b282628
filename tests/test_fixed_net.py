"""Agents on fixed nets: what they reach, what they refuse, their files, and the methods that read their policy."""

import json
import math
import zipfile

import numpy as np
import pytest
from numba.core import config

import spaql
from environments_for_tests import ENDLESS, Toy
from files_for_tests import changed
from problems_for_tests import box_world
from spaql.agents import NBQL, UCBQ, QLearning, UCBQInfinite
from spaql.agents.ucb_q_infinite import find_effective_horizon
from spaql.errors import AgentFileError, ParameterError
from spaql.partition.rng import uniform
from spaql.problems import Box, Discrete, Problem, ambulance, oil

OPTIMISTIC = {"ucb-q": UCBQ, "nbql": NBQL, "ucb-q-infinite": UCBQInfinite}
ALL = OPTIMISTIC | {
    "q-learning": QLearning,
    "bernstein": lambda *given, **more: UCBQ(*given, bonus="bernstein", **more),
    "cyclic": lambda *given, **more: QLearning(*given, exploration="boltzmann", schedule="cyclic", **more),
}


def _chain_step(state, action, parameters, random, next_state):
    """Left pays a little at the start; right, which slips once in n times, pays 1 at the end."""
    n = parameters[0]
    at = state[0]
    if action[0] == 0.0:
        next_state[0] = max(0.0, at - 1.0)
        return (0.01 if at == 0.0 else 0.0), False
    next_state[0] = min(n - 1.0, at + 1.0) if uniform(random) >= 1.0 / n else at
    return (1.0 if at == n - 1.0 else 0.0), False


def _chain_reset(parameters, random, state):
    state[0] = 0.0


def chain(n, horizon):
    """The chain on which dithering needs exponentially many episodes (Osband et al., 2016; Jin et al., 2018)."""
    return Problem(
        name="chain",
        step=_chain_step,
        reset=_chain_reset,
        states=Box(-0.5, n - 0.5),
        actions=Discrete(2),
        horizon=horizon,
        parameters=[n],
        rewards=(0.0, 1.0),
    )


@pytest.mark.compiled_only
@pytest.mark.parametrize("bonus", ["hoeffding", "bernstein"])
def test_ucb_q_solves_a_chain_that_dithering_does_not(bonus):
    """Going right always is best, and its return is that of a binomial walk; going left pays 0.01 per step."""
    n, horizon, episodes = 8, 16, 2000
    problem, slip = chain(n, horizon), 1.0 / n
    at, best = np.zeros(n), 0.0
    at[0] = 1.0
    for _ in range(horizon):
        best += at[-1]
        moved = (1.0 - slip) * at
        at = slip * at + np.append(0.0, moved[:-1])
        at[-1] += moved[-1]
    for seed in range(3):
        solved = UCBQ(problem, bins=n, bonus=bonus, seed=seed).learn(iterations=episodes)
        stuck = QLearning(problem, bins=n, initial_q=0.0, schedule="constant", exploration_initial=0.1, seed=seed)
        assert solved.evaluate(500).mean > 0.9 * best
        assert stuck.learn(iterations=episodes).evaluate(500).mean < 0.05 * best


@pytest.mark.compiled_only
@pytest.mark.parametrize("name", ALL)
def test_the_paper_s_problems_are_learned(name):
    """The best that centres of 16 bins can do on oil is 2.996; on the ambulance 4.38 is the optimum's neighbourhood."""
    for problem, least in ((oil(survey="laplace", sharpness=10.0), 2.8), (ambulance(arrivals="beta", cost=0.25), 4.1)):
        assert ALL[name](problem, seed=0).learn(iterations=5000).evaluate(1000).mean > least


def test_memory_is_the_size_of_the_net():
    problem = box_world()[0]
    assert len(UCBQ(problem, bins=[3, 4, 2, 5]).cells()) == problem.horizon * 3 * 4 * 2 * 5
    assert len(UCBQInfinite(problem, bins=[3, 4, 2, 5]).cells()) == 3 * 4 * 2 * 5
    assert len(NBQL(problem, epsilon=0.1).cells()) == problem.horizon * 5**4
    assert len(NBQL(problem, epsilon=0.09).cells()) == problem.horizon * 6**4


def test_effective_horizon_is_the_papers():
    """By hand for gamma = 0.8, epsilon = 0.1: R = 26, M = 12, epsilon_1 = 0.1 / (24 26 12 ln 5)."""
    rest = 0.1 / (24.0 * 26.0 * 12.0 * math.log(5.0))
    assert find_effective_horizon(0.8, 0.1) == pytest.approx(math.log(5.0 / rest) / math.log(1.25), rel=1e-12)
    for discount in (1e-9, 1e-4, 1.0 - 1e-9):  # the formula is negative for the first
        for accuracy in (1e-9, 1.0 - 1e-9):
            assert UCBQInfinite("oil", discount=discount, accuracy=accuracy).learn(iterations=3).iterations == 3


@pytest.mark.parametrize("name", ["ucb-q", "nbql", "bernstein"])
def test_rewards_of_another_range_are_learned_alike(name):
    """Twice the reward less 1, which is exact in binary, leaves every decision and every Q as it was."""

    def step(state, action, parameters, random, next_state):
        next_state[0] = uniform(random)
        reward = 1.0 - abs(state[0] - action[0])
        return parameters[0] * reward - parameters[1], next_state[0] < parameters[2]

    def reset(parameters, random, state):
        state[0] = uniform(random)

    def learn(scale, shift, end):
        problem = Problem(
            name="follow",
            step=step,
            reset=reset,
            states=Box(0, 1),
            actions=Box(0, 1),
            horizon=6,
            parameters=[scale, shift, end],
            rewards=(-shift, scale - shift),
        )
        return ALL[name](problem, seed=1).learn(iterations=100)

    plain, scaled = learn(1.0, 0.0, 0.0), learn(2.0, 1.0, 0.0)
    np.testing.assert_array_equal(plain.cells().visits, scaled.cells().visits)
    np.testing.assert_array_equal(plain.cells().q, scaled.cells().q)
    # an early end forgoes rewards of 0, which is the middle of the second range and the least of the first
    plain, scaled = learn(1.0, 0.0, 0.1), learn(2.0, 1.0, 0.1)
    low, high = plain.history["value_low"], scaled.history["value_low"]
    assert (low[low != high] == 0.0).all()
    assert (high[low != high] > 0.0).all()


def test_an_end_is_worth_what_rewards_of_zero_are():
    """In the range -1 to 0 that is the most there can be: 1 for each step left, and 1 / (1 - gamma) without steps."""

    def step(state, action, parameters, random, next_state):
        next_state[0] = 0.0
        return -1.0, action[0] == 1.0

    def reset(parameters, random, state):
        state[0] = 0.0

    problem = Problem(
        name="leave",
        step=step,
        reset=reset,
        states=Box(0, 1),
        actions=Discrete(2),
        horizon=4,
        rewards=(-1.0, 0.0),
    )
    for name in ("ucb-q", "nbql", "ucb-q-infinite", "bernstein", "q-learning"):
        agent = ALL[name](problem, seed=0).learn(iterations=200)
        assert agent.predict([0.0])[0] == 1, name
        assert agent.history["score"][-20:].max() == -1.0, name
    assert UCBQ(problem).learn(iterations=1).history["value_high"][0] <= 4.0
    infinite = UCBQInfinite(problem, scaling=0.0).learn(iterations=50)
    assert infinite.history["value_high"].max() == 4.0  # 1 / (1 - gamma) with gamma = 1 - 1 / 4


# Refusals -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "parameters", "sentence"),
    [
        ("ucb-q", {"bins": 1 << 20}, r"bins: a net of 1,048,576 states x 1,048,576 actions x 5 steps has .* cells"),
        ("ucb-q", {"bins": [4, 4, 4]}, r"bins: expected one number or 2 \(1 of states and 1 of actions\), got 3"),
        ("ucb-q", {"bonus": "gauss"}, "bonus: 'gauss' is not one of hoeffding, bernstein"),
        (
            "ucb-q",
            {"rewards": (0.0, 0.5)},
            r"rewards: .* has rewards from 0 to 1, outside 0 to 0.5; give rewards=\(0, 1\)",
        ),
        (
            "ucb-q",
            {"rewards": 3},
            "rewards: expected the smallest and the largest reward of a step, low below high, got 3",
        ),
        ("ucb-q", {"rewards": (1, 0)}, "rewards: expected the smallest and the largest reward of a step"),
        ("ucb-q", {"failure_probability": 0.0}, "failure_probability: expected a finite number of at least 1e-100"),
        ("ucb-q", {"planned_steps": 0}, "planned_steps: expected a whole number of at least 1"),
        ("ucb-q", {"planned_steps": 10**400}, "planned_steps: expected a whole number of at least 1 and at most"),
        ("ucb-q", {"rewards": (0.0, 1e-310)}, "rewards: expected the smallest and the largest reward of a step"),
        (
            "nbql",
            {"epsilon": 1e-310},
            "epsilon: expected a finite number of at least 1e-09 and of at most 0.5, got 1e-310",
        ),
        ("nbql", {"epsilon": 0.0}, "epsilon: expected a finite number of at least 1e-09 and of at most 0.5, got 0.0"),
        (
            "nbql",
            {"epsilon": 1e-7},
            "epsilon: a net of 5,000,000 states x 5,000,000 actions x 5 .*; give a larger epsilon",
        ),
        ("nbql", {"epsilon": "fine"}, "epsilon: expected a finite number"),
        ("nbql", {"lipschitz": -1.0}, "lipschitz: expected a finite number of at least 0"),
        ("ucb-q-infinite", {"discount": 1.0}, "discount: expected a finite number of .* at most 0.999999999, got 1.0"),
        ("ucb-q-infinite", {"discount": 1e-300}, "discount: expected a finite number of at least 1e-09"),
        ("ucb-q-infinite", {"accuracy": 0.0}, "accuracy: expected a finite number of at least 1e-09"),
        ("q-learning", {"decay_episodes": 10**30}, "decay_episodes: expected a whole number of at least 1 and at most"),
        ("ucb-q-infinite", {"accuracy": 1e-320}, "accuracy: expected a finite number of at least 1e-09"),
        ("q-learning", {"discount": 1.0}, "discount: expected a finite number of at least 0"),
        ("q-learning", {"learning_rate": 0.0}, "learning_rate: expected a finite number above 0"),
        ("q-learning", {"exploration": "greedy"}, "exploration: 'greedy' is not one of epsilon, boltzmann, ucb-b"),
        ("q-learning", {"schedule": 3}, "schedule: 3 is not one of constant, linear, exponential, cyclic"),
        ("q-learning", {"exploration_initial": 1.5}, "exploration_initial: expected a finite number of at least 0 and"),
        ("q-learning", {"exploration_initial": 0.01}, "exploration_final: expected at most exploration_initial, 0.01"),
        ("q-learning", {"exploration": "boltzmann", "exploration_final": 0.0}, "exploration_final: expected a finite"),
        (
            "q-learning",
            {"exploration": "ucb-boltzmann", "schedule": "cyclic"},
            "schedule: 'ucb-boltzmann' needs a fall",
        ),
        ("q-learning", {"omega": 1e-17}, "omega: expected a finite number of at least 1e-06"),
        ("q-learning", {"rate_power": 0.4}, "rate_power: expected a finite number of at least 0.5"),
    ],
)
def test_parameters_are_refused_in_one_sentence_before_training(name, parameters, sentence):
    with pytest.raises(ParameterError, match=f"^{sentence}") as caught:
        ALL[name](oil(), **parameters)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["ucb-q", "q-learning"])
def test_a_grid_for_a_space_without_bounds_needs_them(name):
    """Observations get theirs from a warm-up, or from the user; actions must have them."""
    with pytest.raises(ParameterError, match="bounds must be finite with low below high"):
        Box(-np.inf, np.inf)  # so that no compiled problem is without
    with pytest.raises(ParameterError, match="has no bounds on some side; wrap the environment") as caught:
        ALL[name](Toy(played=ENDLESS))
    assert "\n" not in str(caught.value)
    agent = ALL[name](Toy(seen=ENDLESS), horizon=5, bounds={0: (-2.0, 2.0)})
    np.testing.assert_array_equal(agent.cells().state_low.min(), -2.0)
    assert ALL[name](Toy(seen=ENDLESS), horizon=5).learn(iterations=2).iterations == 2


def test_too_many_steps_for_a_net_of_each():
    with pytest.raises(ParameterError, match=r"^horizon: UCBQ keeps a net per time step, at most 10000, got 20000"):
        UCBQ(chain(2, 20_000))
    assert len(QLearning(chain(2, 20_000)).cells()) == 16 * 2


def test_memory_that_cannot_be_had_is_a_sentence(monkeypatch):
    def fail(*given, **more):
        raise MemoryError

    monkeypatch.setattr("spaql.agents.fixed_net.Net", fail)
    with pytest.raises(ParameterError, match=r"^bins: a net of 1,280 cells takes more memory than is free"):
        UCBQ(oil())


@pytest.mark.parametrize("name", ALL)
def test_rewards_outside_the_range_are_diagnosed_with_the_remedy(name):
    def step(state, action, parameters, random, next_state):
        next_state[0] = uniform(random)
        return -3.0 * action[0], False

    def reset(parameters, random, state):
        state[0] = 0.5

    undeclared = Problem(name="cost", step=step, reset=reset, states=Box(0, 1), actions=Box(0, 1), horizon=3)
    declared = Problem(
        name="cost", step=step, reset=reset, states=Box(0, 1), actions=Box(0, 1), horizon=3, rewards=(-3.0, 0.0)
    )
    found = {each.id: each for each in ALL[name](undeclared).diagnose(1000)}
    remedied = {"initial_q": 0.0} if isinstance(ALL[name](undeclared), QLearning) else {"rewards": (-3.0, 0.0)}
    assert f"`{next(iter(remedied))}`" in found["reward-outside-unit-range"].advice
    for agent in (ALL[name](declared), ALL[name](undeclared, **remedied)):
        assert "reward-outside-unit-range" not in {each.id for each in agent.diagnose(1000)}


# Files, and the rest that works on any policy ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_an_agent_goes_on_as_if_it_had_not_been_saved(tmp_path, name):
    problem = box_world()[0]
    more = {"epsilon": 0.15} if name == "nbql" else {"bins": [3, 2, 2, 3]}
    whole, first = (ALL[name](problem, seed=5, **more).learn(iterations=n) for n in (40, 15))
    again = spaql.load(first.save(tmp_path / "agent"), problem)
    assert type(again) is type(first)
    assert again.get_params() == first.get_params()
    again.learn(iterations=25)
    np.testing.assert_array_equal(again.history, whole.history)
    for side in ("q", "visits", "state_low", "action_high", "step"):
        np.testing.assert_array_equal(getattr(again.cells(), side), getattr(whole.cells(), side))
    np.testing.assert_array_equal(again.evaluate(20).returns, whole.evaluate(20).returns)
    paths = [agent.save(tmp_path / file) for agent, file in ((again, "a.spaql"), (whole, "b.spaql"))]
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_a_file_that_claims_a_huge_net_is_refused_before_it_is_made(tmp_path, monkeypatch):
    path = UCBQ("oil", seed=1).learn(iterations=5).save(tmp_path / "agent.spaql")

    def enlarge(data):
        head = json.loads(data)
        head["parameters"]["bins"] = 500
        return json.dumps(head).encode()

    changed(path, "agent.json", enlarge)
    monkeypatch.setattr("spaql.agents.fixed_net.Net", lambda *given, **more: pytest.fail("made"))
    with pytest.raises(AgentFileError, match="fewer cells than it began with"):
        spaql.load(path)


def test_a_file_of_a_huge_net_without_its_values_is_refused_before_it_is_made(tmp_path, monkeypatch):
    path = UCBQ("oil", seed=1).learn(iterations=5).save(tmp_path / "agent.spaql")
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    head = json.loads(members["agent.json"])
    head["parameters"]["bins"] = 1000
    head["arrays"]["other"] = head["arrays"].pop("work-q")
    members["agent.json"], members["other.npy"] = json.dumps(head).encode(), members.pop("work-q.npy")
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    monkeypatch.setattr("spaql.agents.fixed_net.Net", lambda *given, **more: pytest.fail("made"))
    with pytest.raises(AgentFileError, match="fewer cells than it began with"):
        spaql.load(path)


@pytest.mark.parametrize(
    ("name", "array"), [("bernstein", "moments"), ("ucb-q-infinite", "running"), ("cyclic", "annealing")]
)
def test_spoiled_memory_is_refused(tmp_path, name, array):
    agent = ALL[name]("oil").learn(iterations=5)
    arrays = {key: value.copy() for key, value in agent._state().items()}
    arrays[array][...] = np.nan
    with pytest.raises(ValueError, match=r"invalid|not finite"):
        ALL[name]("oil")._restore(arrays)
    if array == "annealing":
        arrays[array][...] = 0.0
        with pytest.raises(ValueError, match="invalid level or heat"):
            ALL[name]("oil")._restore(arrays)


@pytest.mark.parametrize("schedule", ["constant", "linear"])
def test_exploration_that_ends_at_zero_can_be_saved(tmp_path, schedule):
    agent = QLearning("oil", schedule=schedule, exploration_initial=0.0, exploration_final=0.0).learn(iterations=3)
    again = spaql.load(agent.save(tmp_path / "agent")).learn(iterations=2)
    np.testing.assert_array_equal(again.history["temperature"], 0.0)


def test_the_policy_can_be_read_explained_and_exported(tmp_path):
    problem = box_world()[0]
    agent = UCBQ(problem, bins=[3, 5, 2, 3], seed=2).learn(iterations=200)
    rows = -1.0 + 2.0 * np.random.default_rng(0).random((200, 2))
    for step in (0, 3):
        actions, _ = agent.predict(rows, state=np.full(200, step))
        tree = agent.tree()
        choices = tree.decide(problem.encode(rows)[0], np.full(200, step))
        np.testing.assert_array_equal(tree.actions[choices], actions)
        explanation = agent.explain(rows[0], step=step)
        np.testing.assert_array_equal(explanation.action, actions[0])
        assert explanation.relevant == 6
        visits = explanation.cell.visits
        assert explanation.bonus == pytest.approx(agent.bonus_scale / math.sqrt(max(visits, 1)))
    np.testing.assert_array_equal(agent.rules(step=3).decide(rows), agent.predict(rows, state=np.full(200, 3))[0])
    agent.export(tmp_path / "policy.py")
    namespace = {}
    exec((tmp_path / "policy.py").read_text(), namespace)
    assert agent.plot(layer="q", step=1) is not None


def test_bonuses_that_are_no_multiple_of_one_over_the_root_of_visits_are_not_explained():
    for agent, known in ((UCBQ("oil", bonus="bernstein"), False), (UCBQInfinite("oil"), False), (NBQL("oil"), True)):
        assert (agent.bonus_scale is not None) is known
        assert (agent.learn(iterations=3).explain([0.2]).bonus is not None) is known


def test_the_level_of_exploration_is_in_the_history():
    levels = {}
    for schedule in ("constant", "linear", "exponential", "cyclic"):
        agent = QLearning(
            "ambulance", schedule=schedule, exploration_initial=0.5, exploration_final=0.125, decay_episodes=4
        )
        levels[schedule] = agent.learn(iterations=60).history["temperature"]
    np.testing.assert_allclose(levels["constant"], 0.5)
    np.testing.assert_allclose(levels["linear"][:6], [0.5, 0.40625, 0.3125, 0.21875, 0.125, 0.125])
    np.testing.assert_allclose(levels["exponential"][:6], 0.5 * 0.25 ** np.array([0, 0.25, 0.5, 0.75, 1, 1]))
    cyclic = levels["cyclic"]
    assert cyclic[0] == 0.125
    assert ((cyclic >= 0.125) & (cyclic <= 0.5)).all()
    assert (np.diff(cyclic) > 0).any()
    assert (np.diff(cyclic) < 0).any()


def test_rates_beyond_the_tables_are_the_same(monkeypatch):
    episodes = 20 if config.DISABLE_JIT else 200
    whole = [make("oil", seed=1).learn(iterations=episodes) for make in ALL.values()]
    monkeypatch.setattr("spaql.agents.fixed_net._TABLED", 3)
    for agent, make in zip(whole, ALL.values(), strict=True):
        np.testing.assert_array_equal(make("oil", seed=1).learn(iterations=episodes).cells().q, agent.cells().q)
