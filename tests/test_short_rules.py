"""`rules(at_most=...)`: the list is the policy that was measured, and what it is said to lose is what it loses."""

import json

import gymnasium
import numpy as np
import pytest
from scipy import stats

import spaql
from partitions_for_tests import Planted, plant
from spaql.agents.rule_search import Candidate, _Search, check_settings
from spaql.cli import main
from spaql.errors import NotTrainedError, ParameterError
from spaql.explain.short_list import FeatureTree, Sample, find_directions, grow
from spaql.partition.rng import Purpose, stream
from spaql.partition.spaces import Box, Discrete
from spaql.problems import Problem, uniform
from test_explain import Plane, Week, many
from test_tree import Weather


def _step(state, action, parameters, random, next_state):
    """Pay for the right side of a line."""
    right = 1.0 if state[0] + 0.5 * state[1] >= 0.1 else 0.0
    next_state[0] = 2.0 * uniform(random) - 1.0
    next_state[1] = 2.0 * uniform(random) - 1.0
    return 1.0 if action[0] == right else 0.0, uniform(random) < 0.02


def _reset(parameters, random, state):
    state[0] = 2.0 * uniform(random) - 1.0
    state[1] = 2.0 * uniform(random) - 1.0


@pytest.fixture(scope="module")
def slope():
    space = Box([-1, -1], [1, 1])
    return Problem(name="slope", step=_step, reset=_reset, states=space, actions=Discrete(2), horizon=30)


def plant_staircase(problem, columns=8):
    """An agent whose tree follows the line x + 0.5 y = 0.1 in steps."""
    parts = [(0, columns)]
    dims, cuts, children, played = [], [], [], []
    for part in parts:  # grows
        if isinstance(part, float):  # an action
            inner = None
        elif part[1] - part[0] > 1:
            middle = sum(part) // 2
            inner = 0, middle / columns, (part[0], middle), (middle, part[1])
        else:
            x = 2.0 * (part[0] + 0.5) / columns - 1.0
            cut = 0.5 * ((0.1 - x) / 0.5) + 0.5
            inner = (1, cut, 0.0, 1.0) if 0.0 < cut < 1.0 else None
            part = 0.0 if cut >= 1.0 else 1.0
        dims.append(-1 if inner is None else inner[0])
        cuts.append(0.0 if inner is None else inner[1])
        children.append(-1 if inner is None else len(parts))
        played.append([part if inner is None else 0.0])
        parts += [] if inner is None else inner[2:]
    zeros = np.zeros(len(dims))
    return Planted(problem).plant(
        dims=dims, cuts=cuts, children=children, played=played, q=zeros, visits=zeros.astype(int)
    )


@pytest.fixture(scope="module")
def stairs(slope):
    return plant_staircase(slope)


@pytest.fixture(scope="module")
def short(stairs):
    return stairs.rules(at_most=4, max_loss=0.05, episodes=60)


# The list ------------------------------------------------------------------------------------------------------------


def test_a_staircase_is_one_oblique_condition(stairs, short):
    assert len(stairs.rules()) > 4
    assert len(short) == 2
    [condition] = short.to_dict()["rules"][0]["conditions"]
    (first, second), edge = condition["terms"], condition["low"] if condition["high"] is None else condition["high"]
    assert (first, second["number"]) == ({"number": 0, "coefficient": 1.0}, 1)
    assert second["coefficient"] == pytest.approx(0.5, abs=0.1)
    assert edge == pytest.approx(0.1, abs=0.05)
    assert f"observation[0] + {second['coefficient']:g} observation[1] " in str(short)
    assert short.comparison.is_within


def test_an_oblique_list_must_save_two_rules(stairs, short):
    settings = check_settings(4, 0.05, 2, 0, True)
    search = _Search(stairs, stairs.problem, FeatureTree.from_tree(stairs.tree()), settings)
    for length, oblique in ((3, False), (4, True)):
        chosen, _, is_within = search.choose([Candidate(2, 1, short.tree), Candidate(length, 9, search.policy)])
        assert (bool(chosen.features), is_within) == (oblique, True)


def test_cuts_are_round_numbers(slope):
    random = np.random.default_rng(0)
    numbers = random.uniform(-1, 1, (2000, 2))
    costs = np.eye(2)[(numbers[:, 0] >= 0.25).astype(int)]
    sample = Sample(numbers, 1.0 - costs, slope.states, np.zeros(2, bool), ())
    growth = grow(sample, (), 6)
    assert (growth.dims, growth.cuts, growth.costs) == ([0], [0.25], [growth.costs[0], 0.0])


def test_directions_are_found_in_units_of_any_size():
    random = np.random.default_rng(0)
    numbers = random.uniform(-1, 1, (1500, 3)) * [1e-4, 1.0, 1e5]
    above = numbers[:, 0] - 3e-10 * numbers[:, 2] >= 1e-5
    sample = Sample(numbers, 1.0 - np.eye(2)[above.astype(int)], Box([-1e-4, -1, -1e5], [1e-4, 1, 1e5]), above[:3], ())
    for feature in find_directions(sample._replace(whole=np.zeros(3, bool)), 4):
        assert feature[:2] == (0, 2)
        assert feature.coefficient == pytest.approx(-3e-10, rel=0.2)
        assert feature.coefficient == float(f"{feature.coefficient:.1e}")
    assert find_directions(sample._replace(numbers=numbers[:, :1], box=Box(-1, 1)), 4) == []
    assert all(2 not in feature[:2] for feature in find_directions(sample._replace(periodic=(2,)), 4))


@pytest.mark.compiled_only
def test_the_length_is_respected(stairs):
    lengths = [len(stairs.rules(at_most=n, max_loss=0.0, episodes=2, oblique=False)) for n in (1, 2, 4)]
    assert lengths[0] == 1
    assert lengths == sorted(lengths)
    assert lengths[-1] <= 4


def test_exact_rules_stay_as_they_were(stairs):
    rows = np.random.default_rng(0).uniform(-1, 1, (500, 2))
    np.testing.assert_array_equal(stairs.rules().decide(rows), stairs.predict(rows)[0])
    assert "approximate" not in stairs.rules().to_dict()


def decide_by_json(told, numbers):
    """Return what the rules of a JSON object say at rows of numbers, by nothing but the object."""

    def fits(condition, row):
        if "terms" in condition:
            one, other = condition["terms"]
            value = one["coefficient"] * row[one["number"]] + other["coefficient"] * row[other["number"]]
            low, high = condition["low"], condition["high"]
        else:
            number, value = told["observation"][condition["number"]], row[condition["number"]]
            low, high = condition["low"], condition["high"]
            if number["periodic"]:
                turns = (value - number["low"]) / (number["high"] - number["low"])
                value, (low, high) = turns - np.floor(turns), condition["fractions"]
        above, below = low is None or value >= low, high is None or value < high
        return (above or below) if None not in (low, high) and low > high else above and below

    return [
        next(rule["action"] for rule in told["rules"] if all(fits(one, row) for one in rule["conditions"]))
        for row in numbers.tolist()
    ]


MAKERS = {
    "stairs": lambda problem: plant_staircase(problem),
    "an angle": lambda _: plant(Weather, 30, periodic=["angle"], horizon=10),
    "days": lambda _: plant(Week, 12, periodic=[0], horizon=10),
    "a plane": lambda _: plant(Plane, 12, horizon=10),
    "a cart": lambda _: plant("cartpole", 12),
}


@pytest.mark.compiled_only
@pytest.mark.parametrize("name", MAKERS)
def test_json_decides_as_predict_does(name, slope):
    agent = MAKERS[name](slope)
    rules = agent.rules(at_most=4, max_loss=0.0, episodes=2)
    told, states = json.loads(rules.json()), agent.problem.states
    assert len(told["observation"]) == states.dimensions
    rows = states.from_unit(np.random.default_rng(0).random((300, states.dimensions)))
    for condition in (condition for rule in told["rules"] for condition in rule["conditions"]):
        edge = condition["low"] if condition["low"] is not None else condition["high"]
        if "terms" in condition:  # the last double below an oblique border, the border, and the next beyond it
            p, q = (term["number"] for term in condition["terms"])
            rows[:3, p] = edge - condition["terms"][1]["coefficient"] * rows[:3, q]
            p_values = rows[:3, p]
            rows[:3, p] = np.nextafter(p_values, [-np.inf, 0.0, np.inf])
        else:
            at = condition["number"]
            rows[3:6, at] = np.clip([np.nextafter(edge, -np.inf), edge, np.nextafter(edge, np.inf)], *_ends(states, at))
    rows = np.clip(rows, states.low, states.high)
    expected = rules.predict(many(agent.problem, rows))[0]
    np.testing.assert_array_equal(decide_by_json(told, rows), expected)
    np.testing.assert_array_equal(rules.decide(many(agent.problem, rows)), expected)
    single, state = rules.predict(agent.problem.unflatten(rows[0]))
    np.testing.assert_array_equal(single, expected[0])
    assert type(single) is type(agent.predict(agent.problem.unflatten(rows[0]))[0])
    assert state is None


def _ends(states, at):
    return states.low[at], states.high[at]


# The loss ------------------------------------------------------------------------------------------------------------


def play_plainly(problem, choose, seed, episode):
    """Return the return of an episode, and the share of its steps for which `choose` returned True as well."""
    random = stream(seed, Purpose.EVALUATION_ENVIRONMENT, 1, episode)
    state, following, total, alike = np.zeros(2), np.zeros(2), 0.0, []
    problem.reset(np.array(problem.parameters), random, state)
    for _ in range(problem.horizon):
        action, other = choose(state)
        alike.append(action == other)
        reward, ended = problem.step(state, np.array([float(action)]), np.array(problem.parameters), random, following)
        total += reward
        state[:] = following
        if ended:
            break
    return total, alike


def test_the_loss_is_that_of_an_independent_comparison(slope, stairs, short):
    def rules_first(state):
        return short.predict(state)[0], stairs.predict(state)[0]

    ours = [play_plainly(slope, rules_first, 0, k) for k in range(60)]
    theirs = [play_plainly(slope, lambda state: rules_first(state)[::-1], 0, k) for k in range(60)]
    returns, others = (np.array([total for total, _ in each]) for each in (ours, theirs))
    found = short.comparison
    assert (found.rules.mean, found.policy.mean) == (returns.mean(), others.mean())
    interval = stats.ttest_1samp(others - returns, 0.0).confidence_interval(0.95)
    assert found.loss.interval == pytest.approx((interval.low, interval.high))
    assert found.agreement == np.concatenate([alike for _, alike in ours]).mean()
    assert found.loss.half_width < 0.5 * found.rules.half_width  # pairs share their random numbers


@pytest.mark.compiled_only
def test_gymnasium_environments_are_paired_too():
    agent = plant("CartPole-v1", 12, bounds={1: (-3, 3), 3: (-3, 3)})
    rules = agent.rules(at_most=3, episodes=5, seed=7)
    env, totals = gymnasium.make("CartPole-v1"), []
    for policy in (rules, agent):
        for episode in range(5):
            random = stream(7, Purpose.EVALUATION_ENVIRONMENT, 1, episode)
            observation, _ = env.reset(seed=int(random[0] % 2**31))
            total, over = 0.0, False
            while not over:
                observation, reward, terminated, truncated, _ = env.step(policy.predict(observation)[0])
                total, over = total + reward, terminated or truncated
            totals.append(total)
    assert (rules.comparison.rules.mean, rules.comparison.policy.mean) == (np.mean(totals[:5]), np.mean(totals[5:]))


@pytest.mark.compiled_only
def test_the_choice_does_not_depend_on_the_measured_episodes(stairs, short):
    other = stairs.rules(at_most=4, max_loss=0.05, episodes=2)
    assert [vars(rule) | {"share": None} for rule in other] == [vars(rule) | {"share": None} for rule in short]
    assert other.comparison.loss != short.comparison.loss


@pytest.mark.compiled_only
def test_the_same_call_returns_the_same(stairs, short):
    again = stairs.rules(at_most=4, max_loss=0.05, episodes=60)
    assert again.json() == short.json()
    assert stairs.rules(at_most=4, max_loss=0.05, episodes=60, seed=1).comparison.loss != short.comparison.loss


@pytest.mark.compiled_only
@pytest.mark.tiny_planning
def test_the_agent_stays_as_it_is():
    agent, twin = (spaql.Tessera("mountaincar", seed=1).learn(iterations=8) for _ in range(2))
    agent.rules(at_most=3, episodes=2)
    assert agent.num_timesteps == twin.num_timesteps
    assert agent.evaluate(3).mean == twin.evaluate(3).mean
    np.testing.assert_array_equal(agent.learn(iterations=3).history, twin.learn(iterations=3).history)


def test_a_loss_that_is_too_large_is_said(stairs):
    rules = stairs.rules(at_most=1, episodes=20)
    assert not rules.comparison.is_within
    assert rules.comparison.loss.mean > 0.1 * rules.comparison.gain
    assert "No list that short was found within a loss of 1% of this gain" in str(rules)


def test_the_text_says_what_was_measured(short):
    text, found = short.describe(), short.comparison
    assert text.startswith("slope, an approximation of the policy: the first rule that matches decides")
    for part in (str(short), short.markdown(), text):
        assert "In the same 60 new episodes the rules return " in part
        assert f"Both decide alike in {found.agreement:.1%} of the steps" in part
        assert f"2 rules; the policy exactly takes {short.exact_rules} rules." in part
    assert sum(rule.share for rule in short) == pytest.approx(1.0)
    assert json.loads(short.json())["comparison"] == json.loads(json.dumps(found.to_dict()))


# Bad input, exports, the command line --------------------------------------------------------------------------------


def test_bad_input_is_one_sentence(stairs, short, tmp_path):
    for keywords, sentence in (
        ({"at_most": 0}, "at_most: expected a whole number of at least 1"),
        ({"at_most": 2.5}, "at_most: expected a whole number"),
        ({"at_most": 3, "max_loss": 2.0}, "max_loss: expected a finite number of at least 0 and of at most 1"),
        ({"at_most": 3, "episodes": 1}, "episodes: expected a whole number of at least 2"),
        ({"at_most": 3, "seed": -1}, "seed: expected a whole number"),
        ({"at_most": 3, "step": 2}, "step: Planted decides alike in every step; leave it out"),
        ({"max_loss": 0.1}, "max_loss: for short rules only; give at_most, the number of rules"),
    ):
        with pytest.raises(ParameterError, match=f"^{sentence}"):
            stairs.rules(**keywords)
    with pytest.raises(ParameterError, match=r"^at_most: the policy of AQL changes with the time step"):
        spaql.AQL("oil", rollouts=0).learn(iterations=5).rules(at_most=2)
    with pytest.raises(NotTrainedError, match="has not learned yet"):
        spaql.Tessera("oil").rules(at_most=2)
    with pytest.raises(ParameterError, match=r"Random has no partition"):
        spaql.Random("oil").rules(at_most=2)
    with pytest.raises(ParameterError, match=r"^rules: they compare a combination of two numbers"):
        stairs.to_policy(rules=short)
    with pytest.raises(ParameterError, match=r"^rules: expected those of rules\(at_most=\.\.\.\), got Rules"):
        stairs.to_policy(rules=stairs.rules())


@pytest.mark.compiled_only
def test_axis_aligned_rules_are_exported(slope, tmp_path):
    agent = plant(slope, 20)
    rules = agent.rules(at_most=4, episodes=2, oblique=False)
    source = agent.export(tmp_path / "short.py", rules=rules).read_text()
    assert f"approximated by {len(rules)} rules" in source
    module: dict = {}
    exec(source, module)
    rows = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    np.testing.assert_array_equal([module["act"](row) for row in rows.tolist()], rules.predict(rows)[0])


def test_the_command_line(tmp_path, capsys):
    agent = spaql.SPAQL("oil", seed=1, rollouts=1).learn(iterations=30)
    path = str(agent.save(tmp_path / "oil.spaql"))
    expected = agent.rules(at_most=3, episodes=4, max_loss=0.1, oblique=False, seed=5)
    options = ["--at-most", "3", "--episodes", "4", "--max-loss", "0.1", "--no-oblique", "--seed", "5"]
    assert main(["rules", path, *options]) == 0
    assert capsys.readouterr().out == f"{expected.describe()}\n"
    assert main(["rules", path, *options, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == expected.to_dict()
    assert main(["rules", path, "--episodes", "4"]) == 2
    assert "episodes: for short rules only; give at_most" in capsys.readouterr().err
