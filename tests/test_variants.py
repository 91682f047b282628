"""Ablation and families: budgets are kept, numbers are those of the agents, and words follow the numbers."""

import json
from dataclasses import replace

import numpy as np
import pytest

import spaql
from figures_for_tests import draw_digest
from spaql import cli
from spaql.agents.tessera.agent import MECHANISMS
from spaql.problems.random_travel import draw, random_travel_optimum, random_travel_share
from spaql.runner.execute import execute, make_agent
from spaql.runner.run_spec import Run, seed_at
from spaql.runner.store import STORE, Store
from spaql.stats import combination, mean_interval, welch
from spaql.studies import ablation, control, families, variants
from spaql.studies import study as studies
from spaql.studies.study import Results, run_study
from spaql.studies.variants import (
    AQL,
    LONGER,
    RANDOM,
    SPAQL,
    TESSERA,
    Score,
    Size,
    VariantStudy,
    paper_columns,
    random_columns,
    standing,
    widen,
)

pytestmark = [pytest.mark.compiled_only, pytest.mark.tiny_planning]

DISABLED = ablation.DISABLED
SMALL = Size(5, 2, 20, (0.5, 1.0), paper=2, control=2, robustness=3, part=0.1)


def score_of(*shares, seeds=""):
    blank = [np.zeros(0) for _ in shares]
    return Score([np.array(each, dtype=float) for each in shares], blank, blank, [None] * len(shares), seeds)


def runs_of(comparison, variant, columns, part=1.0):
    return [run for group in comparison.groups(variant, columns, part) for run in group.runs]


def size(agents=2, episodes=20, scalings=(0.5,), problems=4):
    return Size(problems, agents, episodes, scalings, paper=agents)


def paper(agents=2):
    return paper_columns(size(agents))


# Who plays how long ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", [0.1, 0.25, 1.0])
@pytest.mark.parametrize("variant", [TESSERA, AQL, SPAQL], ids=lambda variant: variant.name)
def test_nobody_has_more_steps_than_the_budget_and_nobody_wastes_them(variant, part):
    comparison = VariantStudy(0, size())
    for column in paper()[5:7] + random_columns(1, size(problems=8)):
        run = runs_of(comparison, variant, [column], part)[0]
        scalars = execute(run).scalars
        steps = scalars["training_steps"] + scalars["selection_steps"]
        budget = part * column.steps
        assert budget - 2 * steps / run.iterations <= steps <= budget


def test_the_longer_published_agent_plays_as_many_episodes():
    column = paper()[0]
    (run, _) = runs_of(VariantStudy(0, size()), LONGER, [column])
    assert run.iterations == 5000
    assert runs_of(VariantStudy(0, size()), RANDOM, [column])[0].iterations == 0


def test_who_shares_seeds():
    comparison = VariantStudy(0, size())
    columns = paper(3)
    seeds = [[run.seed for run in runs_of(comparison, variant, columns)] for variant in (TESSERA, AQL, SPAQL)]
    assert len({seed for each in seeds for seed in each}) == 3 * 36  # no two algorithms share random numbers
    left = [run.seed for run in runs_of(comparison, ablation.DISABLED[0], columns)]
    assert left == seeds[0]  # one that differs by a mechanism differs by that alone
    assert not {run.seed for run in runs_of(VariantStudy(1, size()), TESSERA, columns)} & set(seeds[0])


def test_seeds_are_hashed_from_the_words_of_the_first_release():
    """Other words would be other random numbers, and the results in docs/study would not be those of this code."""
    (column, *_) = paper()
    (wild, *_) = random_columns(1, size())
    for variant, word in ((TESSERA, "spaql"), (SPAQL, "spaql-published"), (AQL, "aql"), (LONGER, "spaql-published")):
        (group,) = VariantStudy(0, size()).groups(variant, [column])
        assert group.seeds == [seed_at(0, "beyond", word, "oil", "quadratic", 1, 5, agent) for agent in range(2)]
        (group,) = VariantStudy(3, size()).groups(variant, [wild])
        assert group.seeds == [seed_at(3, "beyond", word, "wild", 1, 0, agent) for agent in range(2)]


def test_spaql_and_aql_get_random_problems_without_unit_and_zero():
    (column, *_) = random_columns(1, size())
    problem = make_agent(runs_of(VariantStudy(0, size()), AQL, [column])[0]).problem
    recipe = draw(1, 0)
    assert problem.parameters[4:6].tolist() == [1.0, 0.0]
    assert make_agent(runs_of(VariantStudy(0, size()), TESSERA, [column])[0]).problem.parameters[4:6].tolist() == [
        recipe.unit,
        recipe.zero,
    ]
    assert random_travel_share(3.0, family=1, number=0, plain=True) == pytest.approx(
        random_travel_share(3.0 * recipe.unit + recipe.horizon * recipe.zero, family=1, number=0)
    )


# What they reached -------------------------------------------------------------------------------------------------


def test_the_best_scaling_counts(tmp_path):
    column = paper_columns(size(3, 50))[6]
    comparison = VariantStudy(0, size(3, 50, (0.01, 0.5, 5.0)), [(AQL, [column], 0.1)])
    run_study(comparison, tmp_path, workers=2, progress_bar=False)
    with Store.open_readonly(tmp_path / STORE) as store:
        score = comparison.score(Results(store), AQL, column, 0.1)
    best = spaql.optimum(spaql.problems.ambulance(arrivals="uniform", cost=0.0)).value
    shares = {}
    for run in runs_of(comparison, AQL, [column], 0.1):
        scaling = run.parameters["scaling"]
        problem = spaql.problems.ambulance(**run.arguments)
        agent = spaql.AQL(problem, scaling=scaling, rollouts=0, seed=run.seed).learn(iterations=run.iterations)
        shares.setdefault(scaling, []).append(agent.evaluate(50).mean / best)
    scaling = max(shares, key=lambda key: np.mean(shares[key]))
    assert score.scalings == [scaling]
    assert score.shares[0].tolist() == shares[scaling]
    assert score.share.interval == mean_interval(shares[scaling]).interval
    assert score.steps == 1000


def test_standing_is_welchs_on_one_problem_and_paired_on_several():
    random = np.random.default_rng(0)
    for shift in (0.0, 0.5, 1.0, 2.0, -2.0):
        a, b = random.normal(0, 1, 12), random.normal(shift, 2, 9)
        test = welch(a, b)
        expected = 0 if test.p_value >= 0.05 else int(np.sign(test.difference))
        assert standing(score_of(a, seeds="a").minus(score_of(b, seeds="b"))) == expected
        assert score_of(a, seeds="a").minus(score_of(a + 0.1, seeds="a")).high == pytest.approx(-0.1)  # paired
    # Every problem a little better: no difference of means, but a clear one of pairs.
    base = [np.array([level, level]) for level in np.linspace(0, 1, 20)]
    better = [each + 0.01 + 0.001 * random.random() for each in base]
    assert standing(score_of(*better).minus(score_of(*base))) == 1
    assert standing(score_of(*base).minus(score_of(*better))) == -1
    assert standing(score_of(*base).minus(score_of(*base))) == 0


def test_what_nine_of_ten_reach():
    assert score_of(np.arange(11.0)).reached_by(0.9) == pytest.approx(1.0)
    assert score_of(np.arange(5.0), np.arange(5.0, 11.0)).reached_by(1.0) == 0.0


def test_shares_of_random_problems_do_not_depend_on_unit_and_zero():
    problem, recipe = {"family": 1, "number": 5}, draw(1, 5)
    means = np.array([random_travel_optimum(**problem) * recipe.unit + recipe.horizon * recipe.zero])
    column = random_columns(1, size(problems=8))[1]
    assert column.shares(Run("random-travel", problem, "random", {}, 0, 0, 20), means) == pytest.approx([1.0])
    wide = Run("spaql.studies.variants:widen", {"name": "random-travel", **problem}, "random", {}, 0, 0, 20)
    assert column.widened().shares(wide, means) == pytest.approx([1.0])


def test_shares_of_control_are_those_of_the_way_from_random_to_the_goal():
    (column, *_) = control.control_columns(SMALL, 0.1)
    (group,) = VariantStudy(0, SMALL).groups(TESSERA, [column])
    assert (group.run.budgets, group.run.episodes, len(group.seeds)) == ((500,), 20, 2)
    assert column.shares(group.run, np.array([22.4, 475.0, 500.0])) == pytest.approx([0.0, 1.0, 477.6 / 452.6])
    (noisy, *_) = control.control_columns(SMALL, 0.1, 0.5)
    (other,) = VariantStudy(0, SMALL).groups(TESSERA, [noisy])
    assert other.run.arguments == {"noise": 0.5}
    assert not set(group.seeds) & set(other.seeds)


@pytest.mark.parametrize("task", control.TASKS, ids=lambda task: task.problem)
def test_what_random_earns_is_what_the_tasks_say(task):
    evaluation = spaql.Random(task.problem, seed=1).evaluate(2000)
    assert abs(evaluation.mean - task.random) < 0.03 * (task.goal - task.random)


def test_a_wide_box_changes_what_is_declared_and_nothing_else():
    for name, arguments in (
        ("oil", {"sharpness": 10.0}),
        ("pendulum", {"noise": 0.5}),
        ("random-travel", {"number": 2}),
    ):
        plain, wide = spaql.problems.PROBLEMS[name](**arguments), widen(name, **arguments)
        width = plain.states.high - plain.states.low
        np.testing.assert_allclose(wide.states.high - wide.states.low, 10.0 * width)
        assert (wide.states.low < plain.states.low).all()
        assert (wide.states.high > plain.states.high).all()
        assert (wide.states.low + wide.states.high != plain.states.low + plain.states.high).all()
        assert spaql.Random(wide, seed=3).evaluate(20).mean == spaql.Random(plain, seed=3).evaluate(20).mean
    (column, *_) = paper()
    (run,) = {group.run.specification for group in VariantStudy(0, size()).groups(TESSERA, [column])}
    (group,) = VariantStudy(0, size()).groups(TESSERA, [column.widened()])
    assert group.run.arguments == {"name": "oil", **column.arguments[0]}
    assert group.run.specification != run
    assert group.seeds == VariantStudy(0, size()).groups(TESSERA, [column])[0].seeds  # compared in pairs


def test_agents_near_the_median():
    assert score_of([0.9, 0.91, 0.93, 0.95, 0.2]).near_median == 4
    assert score_of([0.9, 0.9, 0.2]).near_median == 2


def test_a_pool_is_compared_by_agents():
    first, second = score_of([0.9, 0.7], seeds="a"), score_of([0.2, 0.4], seeds="a")
    pool = Score.pool([first, second])
    assert pool.share.mean == pytest.approx(0.55)
    assert pool.share.interval == combination([[0.9, 0.7], [0.2, 0.4]], [0.5, 0.5]).interval
    lost = Score.pool([score_of([0.8, 0.7], seeds="a"), score_of([0.2, 0.3], seeds="a")]).minus(pool)
    expected = combination([[-0.1, 0.0], [0.0, -0.1]], [0.5, 0.5])  # paired by agent
    assert lost.interval == pytest.approx(expected.interval)
    # What is lost on one problem only is lost: the problems are fixed, so they may differ as they like.
    without = Score.pool([score_of([0.1, -0.1], seeds="a"), second]).minus(pool)
    assert standing(without) == -1


# The studies -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The study with fewer problems and mechanisms."""
    with pytest.MonkeyPatch.context() as patch:
        settings = [setting for setting in variants.SETTINGS if setting.id in ("oil-laplace-10", "ambulance-beta-0.25")]
        patch.setattr(variants, "SETTINGS", settings)
        patch.setattr(control, "TASKS", [task for task in control.TASKS if task.problem in ("cartpole", "pendulum")])
        patch.setattr(ablation, "DISABLED", DISABLED[:2])
        folder = tmp_path_factory.mktemp("ablation")
        study = ablation.Ablation(0, SMALL)
        yield folder, study, run_study(study, folder, progress_bar=False)


def test_the_ablation_has_every_row_and_column(small):
    folder, study, outcome = small
    rows = outcome.report.data["rows"]
    keys = {(row["agent"], row["problem"], row["budget"]) for row in rows}
    problems = [column.name for column in study.columns]
    assert len(problems) == 2 + 4 + 2  # control, without noise and with it, as means over its problems
    for agent in ["tessera", *(variant.name for variant in DISABLED[:2])]:
        assert {(agent, problem, 1.0) for problem in problems} <= keys
    wide = {(agent, problem) for agent, problem, _ in keys if problem.endswith("-wide")}
    assert len(wide) == len(problems) + 2 * 2  # and the problems of control one by one
    assert {agent for agent, _ in wide} == {"tessera"}
    for agent in ("tessera", "aql", "spaql"):
        assert {(agent, problem, part) for problem in problems[:2] for part in (0.1, 0.25, 1.0)} <= keys
    assert len(keys) == len(rows)
    for row in rows:
        assert row["share_low"] <= row["share"] <= row["share_high"]
        assert row["cells"] > 0
        if row["agent"] != "spaql-longer":
            assert row["steps"] <= row["budget"] * 25_000 * SMALL.part
    json.dumps(rows, allow_nan=False)
    names = {path.relative_to(folder).as_posix() for path in outcome.files}
    assert names == {
        "ablation.md",
        "ablation.json",
        "report.html",
        *(f"figures/ablation{which}.{kind}" for which in ("", "-control") for kind in ("png", "svg")),
    }


def test_the_targets_are_what_the_rows_say(small):
    _, study, outcome = small
    report = outcome.report
    rows = {(row["agent"], row["problem"], row["budget"]): row for row in report.data["rows"]}
    paper = [column.name for column in study.paper]
    targets = report.data["targets"]
    shares = {name: row["share"] for (agent, name, part), row in rows.items() if (agent, part) == ("tessera", 1.0)}
    lowest = min(shares[f"{name}-many"] for name in paper)
    assert targets["lowest_share"] == lowest == shares[f"{targets['lowest_share_on']}-many"]
    ahead = behind = 0
    for name in paper:
        for part in (0.1, 0.25, 1.0):
            for agent in ("aql", "spaql"):
                row = rows[agent, name, part]
                ahead += row["minus_tessera_high"] < 0.0
                behind += row["minus_tessera_low"] > 0.0
    assert (targets["ahead"], targets["behind"], targets["comparisons"]) == (ahead, behind, 12)
    text = report.markdown()
    losses = {
        name: shares[name.removesuffix("-wide")] - share
        for name, share in ((name, row["share"]) for (agent, name, _), row in rows.items() if agent == "tessera")
        if name.endswith("-wide") and not name.startswith(("cartpole", "pendulum", "control"))
    }
    assert targets["wide_loss"] == pytest.approx(max(losses.values()))
    assert 1 <= targets["near_median"] <= SMALL.robustness
    assert len(report.summary) == 5
    for sentence in report.summary:
        assert sentence in text
    assert f"{100 * targets['lowest_share']:.2f}%" in text
    for variant in DISABLED[:2]:
        assert f"| {variant.label} |" in text


def test_every_mechanism_can_be_disabled():
    assert [variant.parameters for variant in DISABLED] == [{"disable": [name]} for name in MECHANISMS]
    for variant in DISABLED:
        spaql.Tessera("oil", **variant.parameters)


def test_a_second_call_does_nothing_again(small, monkeypatch):
    folder, _, outcome = small
    monkeypatch.setattr(studies, "_draw", draw_digest)
    before = (folder / "ablation.json").read_bytes()
    again = run_study(ablation.Ablation(0, SMALL), folder, workers=1, progress_bar=False)
    assert again.cost.runs == 0
    assert (folder / "ablation.json").read_bytes() == before
    assert outcome.cost.runs > 100


def test_families_on_the_command_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(families, "QUICK", replace(SMALL, part=0.04))
    command = ["families", "--quick", "--quiet", "--out", str(tmp_path)]
    assert cli.main([*command, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["family"] == 2
    rows = {(row["agent"], row["problems"]): row for row in told["rows"]}
    assert {problems for _, problems in rows} >= {"all"}
    assert len({agent for agent, _ in rows}) == 4
    for row in rows.values():
        assert row["worst"] <= row["worst_decile"]
    assert json.loads((tmp_path / "families.json").read_text()) == told
    monkeypatch.setattr(studies, "_draw", draw_digest)  # once is enough
    assert cli.main(command) == 0
    shown = capsys.readouterr().out
    assert f"{100 * rows['tessera', 'all']['share']:.1f} ± " in shown
    assert "all runs were finished before" in shown


@pytest.mark.parametrize("command", ["ablation", "families"])
@pytest.mark.parametrize(("option", "value"), [("--workers", "0"), ("--seed", "-1")])
def test_bad_input_is_one_sentence(command, option, value, tmp_path, capsys):
    assert cli.main([command, "--out", str(tmp_path / "out"), option, value]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert option in line
    assert not (tmp_path / "out").exists()
