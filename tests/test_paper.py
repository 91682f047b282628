"""The paper's study: the numbers are those of the agents it names, and findings follow from them."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest
import scipy.stats

import spaql
from paper_for_tests import POSSIBLE, SLOW, small_plan
from spaql.errors import ParameterError
from spaql.formatting import Table
from spaql.runner.run_spec import seed_at
from spaql.runner.store import STORE, Store
from spaql.stats import mean_interval, welch
from spaql.studies.paper import plan as plans
from spaql.studies.paper import tables
from spaql.studies.paper.findings import make_findings
from spaql.studies.paper.measurements import Measurements
from spaql.studies.paper.printed import PRINTED
from spaql.studies.paper.reproduction import Paper
from spaql.studies.study import Results, run_study


class Runs(Paper):
    """The runs without the report."""

    def report(self, results):
        return None


def measured(folder, plan):
    """Measurements of a finished study, and its open store."""
    run_study(Runs(plan), folder, workers=2, progress_bar=False)
    store = Store.open_readonly(folder / STORE)
    return Measurements(plan, Results(store)), store


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The small study, measured once for all tests that only look."""
    measurements, store = measured(tmp_path_factory.mktemp("study"), small_plan())
    with store:
        yield measurements


@pytest.fixture(scope="module")
def rows(small):
    return small.rows


def check_estimate(row, name, values):
    """A mean and its interval are those of these values."""
    expected = mean_interval(values)
    assert (row[name], row[f"{name}_low"], row[f"{name}_high"]) == (expected.mean, expected.low, expected.high)


def by_hand(run):
    """The agent of a run, made with the public interface."""
    make = {"oil": spaql.problems.oil, "ambulance": spaql.problems.ambulance}[run.problem]
    agents = {
        "tessera": spaql.Tessera,
        "spaql": spaql.SPAQL,
        "aql": spaql.AQL,
        "random": spaql.Random,
    }
    agent = agents[run.algorithm](make(**run.arguments), seed=run.seed, **run.parameters)
    return agent.learn(iterations=run.iterations) if run.iterations else agent


# What the numbers are ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", plans.LEARNERS)
def test_a_row_is_what_its_agents_say(small, rows, algorithm):
    setting = _setting(small, "ambulance-beta-0")
    row = rows[setting.id, algorithm]
    trained, tuned = {}, {}
    for scaling in small.plan.scalings:
        trained[scaling] = [by_hand(run) for run in small.plan.study(setting, algorithm, scaling).runs]
        tuned[scaling] = [by_hand(run) for run in small.plan.tuning(setting, algorithm, scaling).runs]
    best = max(trained, key=lambda scaling: np.mean([agent.selection_score for agent in trained[scaling]]))
    separate = max(tuned, key=lambda scaling: np.mean([agent.evaluate(10).mean for agent in tuned[scaling]]))
    assert (row["scaling"], row["evaluation_scaling"]) == (best, separate)
    check_estimate(row, "training_score", [agent.selection_score for agent in trained[best]])
    check_estimate(row, "evaluation", [agent.evaluate(10).mean for agent in trained[separate]])
    assert row["paper_evaluation"] == pytest.approx(np.mean([agent.evaluate(10).mean for agent in trained[best]]))
    check_estimate(row, "cells", [len(agent.cells()) for agent in trained[best]])
    assert row["evaluation_cells"] == np.mean([len(agent.cells()) for agent in trained[separate]])
    assert row["training_steps"] == trained[best][0].training_steps == setting.iterations * 5
    assert row["selection_steps"] == trained[best][0].selection_steps
    assert row["optimum"] == spaql.optimum(setting.make()).value
    assert row["fraction_of_optimum"] == row["evaluation"] / row["optimum"]


def test_the_row_of_tessera_is_what_its_agents_say(small, rows):
    setting = _setting(small, "ambulance-beta-0")
    row = rows[setting.id, "tessera"]
    agents = [by_hand(run) for run in small.plan.tessera(setting).runs]
    check_estimate(row, "evaluation", [agent.evaluate(10).mean for agent in agents])
    assert row["cells"] == row["evaluation_cells"] == np.mean([len(agent.cells()) for agent in agents])
    assert (row["training_steps"], row["selection_steps"]) == (setting.iterations * 5, 0)
    for name in ("printed", "training_score", "counterpart", "printed_best", "scaling", "evaluation_scaling"):
        assert row[name] is None
    curves = small.curves(setting, "tessera")
    np.testing.assert_array_equal(curves["moment_cells"][:, -1], [len(agent.cells()) for agent in agents])
    assert curves["moment_steps"][-1] == setting.iterations * 5
    (growth,) = small.growths[setting.id, "tessera"]
    np.testing.assert_array_equal(growth.frames[-1].q, agents[0].cells().at(0).q)


METRICS = ["evaluation", "training_score", "cells", "training_steps", "selection_steps", "monitoring_steps"]
METRICS += ["value_low", "value_high"]


def test_agents_that_are_repeated_are_the_same_agents(small):
    for again in small.chosen_groups:
        if again.problem != plans.LONG:
            first = small.plan.study(_setting(small, again.problem), again.algorithm, again.varied["scaling"])
            assert first.ids != again.ids
            for metric in METRICS:
                np.testing.assert_array_equal(small.values(first, metric), small.values(again, metric))


def test_curves_end_where_the_agents_end(small):
    setting = _setting(small, "oil-laplace-1")
    for algorithm in plans.LEARNERS:
        curves = small.curves(setting, algorithm, paper=True)
        values = {metric: small.as_in_paper(setting, algorithm, metric) for metric in METRICS}
        np.testing.assert_array_equal(curves["training_score"][:, -1], values["training_score"])
        np.testing.assert_array_equal(curves["cells"][:, -1], values["cells"])
        np.testing.assert_array_equal(curves["moment_cells"][:, -1], values["cells"])
        assert curves["steps"][-1] == values["training_steps"][0] + values["selection_steps"][0]
        assert (np.diff(curves["iteration"]) > 0).all()
        assert curves["iteration"][-1] == curves["moment"][-1] == setting.iterations


def test_the_portrait_is_the_best_agent_and_its_partition_grows_to_what_it_returns(small):
    setting = _setting(small, "oil-laplace-1")
    for algorithm in plans.LEARNERS:
        group = small.plan.study(setting, algorithm, small.choices[setting.id, algorithm].paper)
        agents = [by_hand(run) for run in group.runs]
        best = max(agents, key=lambda agent: agent.selection_score)
        growths = small.growths[setting.id, algorithm]
        steps = [0] if algorithm == "spaql" else [0, 2, 4]
        for growth, step in zip(growths, steps, strict=True):
            assert growth.label.endswith(")" if algorithm == "spaql" else f", time step {step + 1}")
            last, cells = growth.frames[-1], best.cells().at(step)
            np.testing.assert_array_equal(last.q, cells.q)
            np.testing.assert_array_equal(last.low, np.hstack([cells.state_low, cells.action_low]))
            assert len(growth.frames[0].q) <= len(last.q)
            states = np.random.default_rng(0).random((50, 1))
            low, high = best.greedy_boxes(states, step)
            edges, cells = last.policy
            played = cells[np.searchsorted(edges, states[:, 0], side="right") - 1]
            np.testing.assert_array_equal(last.low[played, 1], low[:, 0])
            np.testing.assert_array_equal(last.high[played, 1], high[:, 0])


def runs_of(plan):
    return [run for group in plan.first() for run in group.runs]


def test_seeds_differ_and_do_not_hang_together(small):
    runs = {run.id: run for run in runs_of(small.plan)}  # N = 20 of the bias are agents of the tables
    assert len({run.seed for run in runs.values()}) == len(runs)
    fewer = {run.id for run in runs_of(small_plan(problems=("ambulance-beta-0",)))}
    assert fewer <= runs.keys()  # another plan, the same runs
    assert not {run.id for run in runs_of(small_plan(seed=1))} & runs.keys()


def test_seeds_are_hashed_from_the_words_of_the_first_release():
    """Other words would be other random numbers, and the tables in docs/study would not be those of this code."""
    plan, setting = plans.full(), plans.SETTINGS[0]
    assert plan.tessera(setting).seeds[:2] == [seed_at(0, "beyond", "oil-quadratic-1", agent) for agent in range(2)]
    group = plan.study(setting, "spaql", 0.5)
    assert group.seeds[3] == seed_at(0, "study", "oil-quadratic-1", "spaql", 0.5, 20, 3)
    assert plan.tuning(setting, "aql", 1.0).seeds[0] == seed_at(0, "tuning", "oil-quadratic-1", "aql", 1.0, 0, 0)
    assert plan.bias(setting, 5).seeds[0] == seed_at(0, "bias", "oil-quadratic-1", "spaql", 0.5, 5, 0)
    assert plan.baseline(setting, "random", 20).seeds[1] == seed_at(0, "baseline", "oil-quadratic-1", "random", 20, 1)


def test_the_whole_study_has_the_papers_size():
    plan = plans.full()
    assert len(plan.short) == 12
    assert len(plan.settings) == 13
    groups = [plan.study(s, a, x) for s in plan.short for a in plans.LEARNERS for x in plan.scalings]
    assert len(groups) == 12 * 2 * 13
    assert {len(group.seeds) for group in groups} == {25, 50}
    steps = sum(run.cost - 5 * run.episodes for group in groups for run in group.runs)
    assert steps == 6 * 13 * 2 * (25 * 5000 + 50 * 2000) * 5 * 21  # 3.7 billion
    (long,) = (s for s in plan.settings if s.id == plans.LONG)
    assert (long.horizon, len(plan.curves(long, "aql", 0.5).seeds)) == (50, 25)
    assert plan.episodes >= 2000


def test_printed_numbers():
    """Sums of the columns, added up from the paper's tables by hand."""
    means = {a: round(sum(row.rewards[a].mean for row in PRINTED.values()), 2) for a in ("random", "aql", "spaql")}
    assert means == {"random": 26.83, "aql": 51.36, "spaql": 49.57}
    assert round(sum(row.cells["spaql"].mean for row in PRINTED.values()), 2) == 523.44
    assert round(sum(row.cells["aql"].mean for row in PRINTED.values()), 2) == 2639.10
    # Weighted by the number of the row, so that no two rows can be swapped.
    widths = [[row.rewards[a].half_width for a in ("random", "aql", "spaql")] for row in PRINTED.values()]
    assert [round(sum(i * w[k] for i, w in enumerate(widths, 1)), 2) for k in range(3)] == [2.48, 2.0, 2.1]
    assert {key for key, row in PRINTED.items() if row.bold == ("aql", "spaql")} == {
        "oil-quadratic-50",
        "ambulance-uniform-1",
    }
    assert {key for key, row in PRINTED.items() if row.bold == ("spaql",)} == {
        f"ambulance-{arrivals}-{cost}" for arrivals in ("uniform", "beta") for cost in ("0", "0.25")
    }


def test_problems_by_their_beginning():
    assert len(plans.choose_settings(None)) == 13
    assert [s.id for s in plans.choose_settings(["oil-laplace-1"])] == ["oil-laplace-1"]
    assert [s.id for s in plans.choose_settings([plans.LONG])] == ["oil-laplace-1", plans.LONG]
    assert len(plans.choose_settings(["ambulance"])) == 6
    assert len(plans.choose_settings(["oil-laplace"])) == 4
    with pytest.raises(ParameterError, match="nor whole words that one begins with"):
        plans.choose_settings(["oil-"])


# Tables and findings -------------------------------------------------------------------------------------------

KEYS = "problem algorithm printed training_score evaluation optimum fraction_of_optimum cells training_steps"


def test_bold_is_welchs(small, rows):
    for setting in small.plan.settings:
        samples = [small.separate(setting, algorithm) for algorithm in plans.LEARNERS]
        test = welch(*samples)
        best = [rows[setting.id, algorithm]["evaluation_best"] for algorithm in plans.LEARNERS]
        ours = small.separate(setting, "tessera")
        expected = all(ours.mean() >= other.mean() or welch(ours, other).p_value >= 0.05 for other in samples)
        assert rows[setting.id, "tessera"]["evaluation_best"] == expected
        if test.p_value >= 0.05:
            assert best == [True, True]
        else:
            assert best == [test.difference > 0, test.difference < 0]


def test_the_three_tables_say_the_same(rows):
    records = list(csv.DictReader(io.StringIO(Table.of_records(list(rows.values())).csv())))
    assert [(record["problem"], record["algorithm"]) for record in records] == list(rows)
    assert set(KEYS.split()) <= set(records[0])
    assert [float(record["evaluation"]) for record in records] == [row["evaluation"] for row in rows.values()]
    made = tables.make_tables(rows)
    markdown, latex = ("".join(text) for text in zip(*((t.markdown() + "\n", t.tex()) for t in made), strict=True))
    for row in rows.values():
        text = f"{row['evaluation']:.3f} ± {(row['evaluation_high'] - row['evaluation_low']) / 2:.3f}"
        assert (f"**{text}**" if row["evaluation_best"] else f" {text} ") in markdown
        tex = text.replace("±", "$\\pm$")
        assert (f"\\textbf{{{tex}}}" if row["evaluation_best"] else f" {tex} ") in latex
    for line in markdown.splitlines():
        assert line.count("|") == 1 + len(tables.HEADER)
    for line in latex.splitlines():
        if line.endswith("\\\\"):
            assert line.replace("\\&", "").count("&") == len(tables.HEADER) - 1
            assert line.count("{") == line.count("}")
    assert latex.count("\\begin{tabular}") == latex.count("\\end{tabular}") == len(made) == 3


def combined(samples, weights):
    """Welch and Satterthwaite, written anew: value, low, high."""
    parts = [(w, np.mean(x), np.var(x, ddof=1) / len(x), len(x) - 1) for x, w in zip(samples, weights, strict=True)]
    value = sum(w * mean for w, mean, _, _ in parts)
    variance = sum(w**2 * v for w, _, v, _ in parts)
    freedom = variance**2 / sum((w**2 * v) ** 2 / f for w, _, v, f in parts)
    half = scipy.stats.t.ppf(0.975, freedom) * variance**0.5
    return value, value - half, value + half


def test_every_finding_is_recomputed(small, rows):
    estimates = {finding.id: finding.estimate for finding in make_findings(small)}
    found = {key: (estimate.mean, estimate.low, estimate.high) for key, estimate in estimates.items()}
    plan, settings, scalings = small.plan, small.plan.short, small.plan.scalings
    count = len(settings)
    share = {s.id: 100 / spaql.optimum(s.make()).value for s in plan.settings}
    signs = (("spaql", 1), ("aql", -1))

    def check(key, samples, weights):
        assert found[key] == pytest.approx(combined(samples, weights), rel=1e-9, abs=1e-12), key

    pairs = [(s, a, sign) for s in settings for a, sign in signs]
    check("ranking", [small.separate(s, a) for s, a, _ in pairs], [sign * share[s.id] / count for s, _, sign in pairs])
    thirds = [(s, a, sign) for s in settings for a, sign in (("tessera", 1), ("aql", -1))]
    weights = [sign * share[s.id] / count for s, _, sign in thirds]
    check("tessera", [small.separate(s, a) for s, a, _ in thirds], weights)
    logs = [np.log(small.as_in_paper(s, a, "cells")) for s, a, _ in pairs]
    assert found["cells"] == pytest.approx(np.exp(combined(logs, [-sign / count for _, _, sign in pairs])))
    groups = [(s, a, sign, x) for s, a, sign in pairs for x in scalings]
    check(
        "sensitivity",
        [small.values(plan.study(s, a, x)) for s, a, _, x in groups],
        [sign * share[s.id] / count / len(scalings) for s, _, sign, _ in groups],
    )
    check("running-maximum", [_bias(small, s) for s in settings], [1 / count] * count)
    long = _setting(small, plans.LONG)
    check("long-episodes", [small.separate(long, a) for a, _ in signs], [sign * share[long.id] for _, sign in signs])
    if not SLOW:
        curves = [small.curves(s, a) for s, a, _ in pairs]
        # SPAQL scores the untrained agent, then every iteration is H steps of learning and 20 H of choosing.
        budgets = [
            (c["moment"] * 21 + 20 if a == "spaql" else c["moment"]) / s.iterations
            for c, (s, a, _) in zip(curves, pairs, strict=True)
        ]
        at = [
            np.array([np.interp(0.0, np.log(budget), row) for row in c["evaluation"]])
            for c, budget in zip(curves, budgets, strict=True)
        ]
        expected = combined(at, [sign * share[s.id] / count for s, _, sign in pairs])
        # Steps between points of the curve are interpolated.
        assert found["all-steps"] == pytest.approx(expected, abs=0.02)
    # Ours minus printed: Beta's agents stand for the Uniform row and for their own.
    oil = {a: small.as_in_paper(_setting(small, "oil-laplace-1"), a) for a, _ in signs}
    beta = {a: small.as_in_paper(_setting(small, "ambulance-beta-0"), a) for a, _ in signs}
    names = ("oil-laplace-1", "ambulance-uniform-0", "ambulance-beta-0")
    value, low, _ = combined([*oil.values(), *beta.values()], [1 / 6, 1 / 6, 2 / 6, 2 / 6])
    printed = [PRINTED[key].rewards[a] for key in names for a, _ in signs]
    shift = value - np.mean([each.mean for each in printed])
    half = np.hypot(value - low, np.sqrt(sum(each.half_width**2 for each in printed)) / 6)
    assert found["reproduction"] == pytest.approx((shift, shift - half, shift + half))


def _bias(small, setting):
    group = small.plan.bias(setting, 20)
    return small.values(group, "training_score") - small.values(group)


def _setting(small, key):
    (setting,) = (s for s in small.plan.settings if s.id == key)
    return setting


def test_findings_are_computed(small, rows):
    found = {finding.id: finding for finding in make_findings(small)}
    assert list(found) == POSSIBLE
    for finding in found.values():
        assert finding.estimate.low <= finding.estimate.mean <= finding.estimate.high
        assert finding.sentence.endswith(".")
        assert finding.chart.series
        json.dumps(finding.to_dict(), allow_nan=False)
    assert found["myopic"].estimate.mean == 1.0
    assert "always exactly H" in found["myopic"].sentence
    bias = np.mean([_bias(small, setting).mean() for setting in small.plan.short])
    assert found["running-maximum"].estimate.mean == pytest.approx(bias)
    differences = [
        100 * (small.separate(s, "spaql").mean() - small.separate(s, "aql").mean()) / small.optima[s.id].value
        for s in small.plan.short
    ]
    assert found["ranking"].estimate.mean == pytest.approx(np.mean(differences))
    assert found["above-optimum"].estimate.mean == pytest.approx(4.47 - small.optima["ambulance-beta-0"].value)


def test_findings_follow_the_numbers(small, rows, monkeypatch):
    """Were V not H, or the Uniform rows Uniform, the words would be others."""
    names = ("random", "aql", "spaql")
    ours = {key: row["training_score"] for key, row in rows.items()}
    for source, words in (
        ("uniform", "are reproduced by Uniform arrivals"),
        ("beta", "are reproduced by Beta(5, 2) arrivals"),
        ("both", "fit both kinds of arrivals"),
    ):
        made = {key: dict(row) for key, row in rows.items()}
        for algorithm in names:
            for problem in ("ambulance-uniform-0", "ambulance-beta-0"):
                mean = ours[problem, algorithm]
                made[problem, algorithm] |= {"training_score_low": mean - 0.001, "training_score_high": mean + 0.001}
            middle = (ours["ambulance-uniform-0", algorithm] + ours["ambulance-beta-0", algorithm]) / 2
            printed = ours.get((f"ambulance-{source}-0", algorithm), middle)
            made["ambulance-uniform-0", algorithm] |= {"printed": printed, "printed_half_width": 0.001}
        with monkeypatch.context() as patch:
            patch.setitem(vars(small), "rows", made)
            found = {finding.id: finding for finding in make_findings(small)}["uniform-is-beta"]
        assert words in found.sentence
        if source != "both":
            assert (found.estimate.mean < 0) == (source == "uniform")
    before = small.values

    def values(group, metric="evaluation"):
        lower = metric == "value_low" and (group.problem, group.algorithm) == ("oil-laplace-1", "spaql")
        return np.minimum(before(group, metric), 4.0) if lower else before(group, metric)

    monkeypatch.setattr(small, "values", values)
    (finding,) = (f for f in make_findings(small) if f.id == "myopic")
    assert "between 0.800 H and 1.000 H" in finding.sentence
    assert "myopic;" not in finding.sentence


def test_uniform_rows_are_compared_with_the_arrivals_that_reproduce_them(rows):
    row, beta = (rows[f"ambulance-{arrivals}-0", "spaql"] for arrivals in ("uniform", "beta"))
    assert row["counterpart"] == beta["counterpart"] == "ambulance-beta-0"
    assert row["counterpart_training_score"] == beta["training_score"] != row["training_score"]
    assert row["counterpart_cells"] == beta["cells"]
    _, ambulance, _ = tables.make_tables(rows)
    assert f"({beta['training_score']:.3f})" in ambulance.markdown()
    assert tables.UNIFORM_NOTE in ambulance.note


def test_half_a_study_has_the_findings_it_can_have(tmp_path):
    measurements, store = measured(tmp_path, small_plan(problems=("oil-laplace-1",)))
    with store:
        found = {finding.id for finding in make_findings(measurements)}
    assert found == set(POSSIBLE) - {"uniform-is-beta", "long-episodes"}
