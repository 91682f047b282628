"""Regret: its statistics, from Python, and as a metric of studies."""

import json
import math

import numpy as np
import pytest
from numba.core import config
from scipy.stats import t as student

import spaql
from contract_for_tests import assert_refused
from spaql.agents import resolve
from spaql.agents.regret import episode_grid, training_returns
from spaql.cli import main
from spaql.errors import NotTrainedError, ParameterError, ProblemError, StudyError
from spaql.problems import Box, Problem
from spaql.runner.summary import summarize
from spaql.stats import log_log_slope
from spaql.studies.sweep.comparison_table import FORMATS, compare
from spaql.studies.sweep.regret import read_metric
from spaql.studies.sweep.sweep_report import make_sheets
from spaql.studies.sweep.sweep_study import Sweep

ITERATIONS = 40 if config.DISABLE_JIT else 200


# Slopes ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("power", [0.0, 0.5, 0.75, 1.0])
def test_the_slope_of_a_power(power):
    x = episode_grid(1000)
    result = log_log_slope(x, [3.0 * x**power, 5.0 * x**power, 1.0 * x**power])
    assert result.mean == pytest.approx(power, abs=1e-12)
    assert result.interval == pytest.approx((power, power), abs=1e-9)


def test_the_slope_is_that_of_the_mean_over_the_last_factor_of_ten():
    x = np.array([1.0, 5.0, 10.0, 20.0, 50.0, 100.0])
    curves = np.array(
        [[9.0, 9.0, 1.0, 2.0, 3.0, 4.0], [-9.0, -9.0, 2.0, 2.0, 4.0, 9.0], [0.0, 0.0, 1.5, 3.0, 5.0, 4.0]]
    )

    def fit(rows):
        return np.polyfit(np.log(x[2:]), np.log(rows[:, 2:].mean(axis=0)), 1)[0]

    without = np.array([fit(np.delete(curves, i, axis=0)) for i in range(3)])
    half_width = student.ppf(0.975, 2) * math.sqrt(2 / 3 * ((without - without.mean()) ** 2).sum())
    result = log_log_slope(x, curves)
    assert result.mean == pytest.approx(fit(curves))
    assert result.interval == pytest.approx((fit(curves) - half_width, fit(curves) + half_width))


def test_the_jackknife_covers_the_slope():
    """Of curves with a common noise that grows as they do, about 95 in 100 intervals hold the true slope."""
    draws, x, held = np.random.default_rng(0), episode_grid(300), 0
    for _ in range(300):
        curves = [2.0 * x**0.6 * math.exp(0.3 * e) + 0.3 * x**0.6 * d for e, d in draws.normal(size=(12, 2))]
        curves += 0.5 * draws.normal(size=(12, 1)) * np.log(x)
        low, high = log_log_slope(x, curves).interval
        held += low <= 0.6 <= high
    assert 0.85 * 300 < held <= 300


def test_slopes_that_are_not_defined():
    x = [1.0, 20.0, 50.0, 100.0]
    one = log_log_slope(x, [[1.0, 2.0, 3.0, 4.0]])
    assert math.isfinite(one.mean)
    assert one.interval == (-math.inf, math.inf)
    assert math.isnan(log_log_slope(x, [[1.0, 0.0, 3.0, 4.0]] * 2).mean)
    assert math.isnan(log_log_slope([1.0, 2.0], [[1.0, 2.0]] * 2).mean)
    lucky = log_log_slope(x, [[1.0, -1.0, 3.0, 4.0], [1.0, 5.0, 6.0, 7.0]])  # the first alone has none
    assert math.isfinite(lucky.mean)
    assert lucky.interval == (-math.inf, math.inf)


@pytest.mark.parametrize(
    ("x", "curves"), [([0.0, 1.0, 2.0], [[1, 2, 3]]), ([1, 1, 2], [[1, 2, 3]]), ([1, 2], [[1, 2, 3]]), ([1, 2], [1, 2])]
)
def test_bad_curves_are_refused(x, curves):
    with pytest.raises(ValueError, match=r"x must|curves must"):
        log_log_slope(x, curves)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 100, 4097])
def test_episodes_of_a_shorter_training_are_among_those_of_a_longer(count):
    grid = episode_grid(count)
    assert grid[0] == 1
    assert grid[-1] == count
    assert (np.diff(grid) > 0).all()
    assert set(grid[:-1]) <= set(episode_grid(10 * count))
    assert len(grid) <= 5 + 4 * math.log2(count)
    assert not len(episode_grid(0))


# From Python ----------------------------------------------------------------------------------------------------------


def test_training_returns_are_those_of_training_episodes():
    """AQL's rollouts change nothing: with and without them it has the same training returns, and other scores."""
    watched, alone = (spaql.AQL("oil", rollouts=rollouts, seed=3).learn(iterations=30) for rollouts in (4, 0))
    np.testing.assert_array_equal(training_returns(watched), alone.history["score"])
    np.testing.assert_array_equal(training_returns(alone), alone.history["score"])
    assert not np.array_equal(watched.history["score"], alone.history["score"])


def halves(state, action, parameters, random, next_state):
    """Pays the action in the first step, and nothing for a far one."""
    next_state[0] = 1.0
    return (action[0] if state[0] == 0.0 else 0.25), False


def at_zero(parameters, random, state):
    state[0] = 0.0


def own(**more):
    space = Box(0, 1)
    return Problem(name="own", step=halves, reset=at_zero, states=space, actions=space, horizon=2, **more)


def test_regret_is_the_optimum_minus_what_was_earned():
    """On a problem that pays the first action plus 1/4; SPAQL's score is that of rollouts, so it must not be used."""
    problem = own(optimum=1.25)
    agents = [spaql.SPAQL(problem, rollouts=3, seed=seed).learn(iterations=ITERATIONS) for seed in range(4)]
    returns = np.array([agent.history["training_return"] for agent in agents])
    assert ((returns >= 0.25) & (returns <= 1.25)).all()
    result = spaql.regret(agents)
    assert result.reference == 1.25
    np.testing.assert_allclose(result.per_episode.mean, 1.25 - returns.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(result.cumulative.mean, np.cumsum(1.25 - returns.mean(axis=0)), atol=1e-9)
    assert result.cumulative.mean.shape == result.episodes.shape == (ITERATIONS,)
    assert not np.allclose(result.returns, [agent.history["score"] for agent in agents])


def test_a_problem_without_optimum_needs_a_reference():
    agent = spaql.AQL(own(), rollouts=0).learn(iterations=20)
    assert_refused(ProblemError, lambda: spaql.regret(agent), "'own' has no model", "regret(agents, optimum=4.2)")
    assert spaql.regret(agent, optimum=2.25).cumulative.mean[-1] == pytest.approx(
        spaql.regret(agent, optimum=1.25).cumulative.mean[-1] + 20.0
    )
    assert "(no interval) after 20 episodes" in str(spaql.regret(agent, optimum=1.25))


def test_wrong_agents_are_refused():
    trained = spaql.AQL(own(optimum=1.25), rollouts=0).learn(iterations=3)
    assert_refused(ParameterError, lambda: spaql.regret([]), "agents: expected")
    assert_refused(ParameterError, lambda: spaql.regret("aql"), "agents: expected")
    assert_refused(NotTrainedError, lambda: spaql.regret(spaql.AQL("oil")), "call learn")
    others = [trained, spaql.AQL("oil", rollouts=0).learn(iterations=3)]
    assert_refused(ParameterError, lambda: spaql.regret(others), "learned on 2 problems")
    assert_refused(ParameterError, lambda: spaql.regret(trained, optimum=math.nan), "optimum")


def test_foreign_agents_have_regret():
    agent = resolve("tests.tabular:TabularQ").make("machine", seed=0).learn(400)
    result = spaql.regret(agent)
    assert result.returns.shape == (1, 20)
    assert result.reference == spaql.optimum(agent.problem).value
    assert result.slope.interval == (-math.inf, math.inf)


def test_exponents_of_bounds():
    assert spaql.AQL("oil").regret_exponent == 3 / 4
    assert spaql.AQL("machine").regret_exponent == 2 / 3
    assert spaql.SPAQL("oil").regret_exponent is None


# Studies --------------------------------------------------------------------------------------------------------------

STUDY = {
    "seeds": 3,
    "iterations": 60,
    "episodes": 20,
    "baseline": "random",
    "problems": [
        {"problem": "machine"},
        {"problem": "random-travel", "optimum": 7.0, "iterations": 30},
        {"problem": "pendulum", "arguments": {"horizon": 5}, "iterations": 2},
    ],
    "algorithms": [
        {"algorithm": "aql", "parameters": {"rollouts": 0}},
        {"algorithm": "spaql", "parameters": {"rollouts": 2}},
        {"algorithm": "random"},
    ],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("study") / "out"
    spaql.sweep(STUDY, path, workers=1, engine="threads", progress_bar=False)
    return path


def test_the_regret_of_a_study_is_that_of_its_agents(folder):
    groups = {(group.problem, group.label): group for group in read_metric(folder, "regret").groups}
    for (problem, name), group in groups.items():
        if problem == "pendulum":
            assert not len(group.sample)  # nobody knows its optimum
            continue
        made = [resolve(name).make(problem, seed=seed, **group.run.parameters) for seed in group.seeds]
        best = 7.0 if problem == "random-travel" else spaql.optimum(made[0].problem).value
        count = 30 if problem == "random-travel" else 60
        assert group.episodes == count
        if name == "random":
            expected = [count * (best - agent.evaluate(20).mean) for agent in made]
        else:
            made = [agent.learn(iterations=count) for agent in made]
            expected = spaql.regret(made, optimum=best).cumulative.mean[-1]
            assert group.sample.mean() == pytest.approx(expected, rel=1e-12)
            expected = [(best - training_returns(agent)).sum() for agent in made]
        np.testing.assert_allclose(group.sample, expected, rtol=1e-12)


def test_tables_of_regret(folder):
    table = compare(read_metric(folder, "regret"))
    rows = {(row.problem, row.algorithm): row for row in table.rows}
    aql, random = rows["machine", "aql"], rows["machine", "random"]
    assert (aql.episodes, aql.bound, aql.n) == (60, pytest.approx(2 / 3), 3)
    assert aql.slope_low < aql.slope < aql.slope_high
    assert (random.slope, random.bound) == (pytest.approx(1.0), None)
    assert rows["random-travel", "aql"].optimum == 7.0
    assert rows["pendulum", "aql"].mean is None
    assert aql.regret is None  # the mean is
    for row in table.rows:
        if row.better is not None and row.difference < 0 and row.better_low == row.better_high:
            assert row.better == 1.0  # less regret is better
    for form in FORMATS:
        assert table.format(form) == compare(read_metric(folder, "regret")).format(form)
    text = " ".join(table.format().split())
    for part in ("episodes", "slope [95%]", "bound", "has a smaller value", "over so many training episodes"):
        assert part in text
    assert "slope" not in compare(read_metric(folder)).format()


def test_figures_of_regret(folder):
    sheets = make_sheets(read_metric(folder, "regret"))
    assert list(sheets) == ["scores", "per-episode"]
    sums, rates = ({line.name: line for line in sheet.panels[0].series} for sheet in sheets.values())
    assert sheets["scores"].panels[0].y_label == "cumulative regret"
    assert len(sheets["scores"].panels) == 2
    for name in ("aql", "spaql", "random"):
        widths = np.diff(sums[name].x, prepend=0)
        np.testing.assert_allclose(np.cumsum(np.array(rates[name].y) * widths), sums[name].y, rtol=1e-9)
        assert sums[name].x[-1] == 60
    assert np.ptp(rates["random"].y) == pytest.approx(0.0, abs=1e-9)


def test_regret_on_the_command_line(folder, capsys):
    assert main(["sweep", "table", str(folder), "--metric", "regret", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["rows"]) == 9
    assert main(["sweep", "plot", str(folder), "--metric", "regret", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["files"]) == 4
    assert main(["sweep", "report", str(folder), "--metric", "regret"]) == 0
    assert main(["sweep", "watch", str(folder), "--metric", "regret", "--once"]) == 0


def test_runs_of_unequal_length_are_compared_where_all_have_been(tmp_path):
    """With equal steps SPAQL, whose rollouts take steps too, has fewer training episodes."""
    problems, algorithms = [{"problem": "machine"}], STUDY["algorithms"]
    study = {"seeds": 2, "steps": 3000, "episodes": 5, "problems": problems, "algorithms": algorithms}
    spaql.sweep(study, tmp_path, workers=1, engine="threads", progress_bar=False)
    aql, spaql_group, random = read_metric(tmp_path, "regret").groups
    assert aql.curve.episodes[-1] == 150
    most = spaql_group.curve.episodes[-1]
    assert most < 150
    assert {group.episodes for group in (aql, spaql_group, random)} == {
        int(np.intersect1d(episode_grid(150), episode_grid(int(most))).max())
    }
    assert len(aql.sample) == len(spaql_group.sample) == len(random.sample) == 2


def make_own():
    return own(optimum=1.25)


def test_an_optimum_that_a_problem_of_ones_own_states(tmp_path):
    study = {
        "seeds": 2, "iterations": 10, "episodes": 5, "problems": [{"problem": f"{__name__}:make_own"}],
        "algorithms": [{"algorithm": "aql", "parameters": {"rollouts": 0}}],
    }  # fmt: skip
    spaql.sweep(study, tmp_path, workers=1, engine="threads", progress_bar=False)
    (row,) = compare(read_metric(tmp_path)).rows
    assert row.optimum == 1.25
    assert row.regret == pytest.approx(1.25 - row.mean)
    assert compare(read_metric(tmp_path, "regret")).rows[0].optimum == 1.25
    assert "above the stated optimum" not in compare(read_metric(tmp_path)).note


def test_means_above_a_stated_optimum_are_reported(tmp_path):
    """An episode of CartPole lasts more than 2 steps; of the other problem every return is at least 1/4."""
    problem = {"problem": "CartPole-v1", "optimum": 2.0}
    study = {"seeds": 6, "iterations": 2, "episodes": 40, "problems": [problem]}
    study["algorithms"] = [{"algorithm": "random"}]
    spaql.sweep(study, tmp_path, engine="threads", progress_bar=False)
    said = "random on CartPole-v1 is above the stated optimum of 2: correct it."
    assert said in compare(read_metric(tmp_path)).note
    assert said in compare(read_metric(tmp_path, "regret")).note
    for stated, ids in ((0.125, ["optimum-exceeded"]), (1.25, [])):
        result = summarize("random", spaql.Random(own(optimum=stated)), seconds=None, episodes=50)
        assert [one.id for one in result.diagnosis] == ids


def test_without_any_optimum_regret_is_refused(tmp_path):
    study = {
        "seeds": 2, "iterations": 2, "episodes": 2, "problems": [{"problem": "random-travel"}],
        "algorithms": [{"algorithm": "aql", "parameters": {"rollouts": 0}}],
    }  # fmt: skip
    spaql.sweep(study, tmp_path, workers=1, engine="threads", progress_bar=False)
    assert_refused(StudyError, lambda: read_metric(tmp_path, "regret"), "regret: the optimum of no problem is known")
    with pytest.raises(StudyError, match="optimum"):
        Sweep({**study, "problems": [{"problem": "oil", "optimum": math.inf}]})
