"""The paper's study: the numbers are those of the agents it names, and no interruption changes a byte."""

from __future__ import annotations

import csv
import io
import json
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

import spaql
from paper_for_tests import SLOW, SMALL, small_plan
from spaql import cli
from spaql.errors import ParameterError
from spaql.runner.store import Store
from spaql.stats import mean_interval, welch
from spaql.studies import legacy as studies
from spaql.studies.legacy import STORE, Study
from spaql.studies.paper import plan as plans
from spaql.studies.paper import tables
from spaql.studies.paper.cells import Cell, cells_of
from spaql.studies.paper.findings import FINDINGS, findings_of
from spaql.studies.paper.measured import measure
from spaql.studies.paper.printed import ROWS
from spaql.studies.paper.reproduce import reproduce

DRIVER = Path(__file__).with_name("paper_for_tests.py")


def files_in(folder):
    """Every file but the store, by name."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.startswith(STORE)]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


# SPAQL's first iteration takes more steps than AQL has in all where there are very few.
POSSIBLE = [key for key in FINDINGS if not (SLOW and key == "all-steps")]


@pytest.fixture(scope="module", autouse=True)
def short_yardstick():
    with pytest.MonkeyPatch.context() as patch:
        if SLOW:
            patch.setattr(studies, "_YARDSTICK", 400)
        yield


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The small study, measured once for all tests that only look."""
    folder = tmp_path_factory.mktemp("study")
    plan = small_plan()
    with Store(folder / STORE, code="test") as store:
        yield measure(plan, Study(store, threads=2))


@pytest.fixture(scope="module")
def cells(small):
    return cells_of(small)


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
def test_a_cell_is_what_its_agents_say(small, cells, algorithm):
    (setting,) = (s for s in small.plan.settings if s.id == "ambulance-beta-0")
    (cell,) = (c for c in cells if (c.problem, c.algorithm) == (setting.id, algorithm))
    own, tuned = {}, {}
    for scaling in small.plan.scalings:
        own[scaling] = [by_hand(run) for run in small.plan.study(setting, algorithm, scaling)]
        tuned[scaling] = [by_hand(run) for run in small.plan.tuning(setting, algorithm, scaling)]
    best = max(own, key=lambda scaling: np.mean([agent.selection_score for agent in own[scaling]]))
    apart = max(tuned, key=lambda scaling: np.mean([agent.evaluate(10).mean for agent in tuned[scaling]]))
    assert (cell.scaling, cell.fresh_scaling) == (best, apart)
    alike = mean_interval([agent.selection_score for agent in own[best]])
    assert (cell.as_published, cell.as_published_low, cell.as_published_high) == (alike.mean, alike.low, alike.high)
    fresh = mean_interval([agent.evaluate(10).mean for agent in own[apart]])
    assert (cell.fresh, cell.fresh_low, cell.fresh_high) == (fresh.mean, fresh.low, fresh.high)
    assert cell.as_published_fresh == pytest.approx(np.mean([agent.evaluate(10).mean for agent in own[best]]))
    assert cell.arms == np.mean([len(agent.cells()) for agent in own[best]])
    assert cell.training_steps == own[best][0].training_steps == setting.iterations * 5
    assert cell.selection_steps == own[best][0].selection_steps
    assert cell.optimum == spaql.optimum(setting.make()).value
    assert cell.fraction_of_optimum == cell.fresh / cell.optimum


def test_the_cell_of_the_default_agent_is_what_its_agents_say(small, cells):
    setting = _setting(small, "ambulance-beta-0")
    (cell,) = (c for c in cells if (c.problem, c.algorithm) == (setting.id, "beyond"))
    agents = [by_hand(run) for run in small.plan.beyond(setting)]
    fresh = mean_interval([agent.evaluate(10).mean for agent in agents])
    assert (cell.fresh, cell.fresh_low, cell.fresh_high) == (fresh.mean, fresh.low, fresh.high)
    assert cell.arms == cell.fresh_arms == np.mean([len(agent.cells()) for agent in agents])
    assert (cell.training_steps, cell.selection_steps) == (setting.iterations * 5, 0)
    assert cell.label == "SPAQL beyond"
    for name in ("printed", "as_published", "scaling", "fresh_scaling", "counterpart", "printed_leading"):
        assert getattr(cell, name) is None
    curves = small.curves(setting, "beyond")
    np.testing.assert_array_equal(curves.moment_cells[:, -1], [len(agent.cells()) for agent in agents])
    assert curves.moment_steps[-1] == setting.iterations * 5
    (growth,) = small.growth(setting, "beyond")
    np.testing.assert_array_equal(growth.frames[-1].q, agents[0].partition.at(0).q)


def test_agents_that_are_repeated_are_the_same_agents(small):
    for setting, algorithm, scaling in small.chosen_groups:
        if setting.id == plans.LONG:
            continue
        first = small.study[setting.id, algorithm, scaling]
        again = small._study.sample(small.plan.curves(setting, algorithm, scaling))
        for field in fields(first):
            np.testing.assert_array_equal(getattr(first, field.name), getattr(again, field.name))


def test_curves_end_where_the_agents_end(small):
    (setting,) = (s for s in small.plan.settings if s.id == "oil-laplace-1")
    for algorithm in plans.LEARNERS:
        scaling = small.choices[setting.id, algorithm].as_published
        curves, sample = small.curves(setting, algorithm, scaling), small.study[setting.id, algorithm, scaling]
        np.testing.assert_array_equal(curves.training_score[:, -1], sample.training_score)
        np.testing.assert_array_equal(curves.cells[:, -1], sample.cells)
        np.testing.assert_array_equal(curves.moment_cells[:, -1], sample.cells)
        assert curves.steps[-1] == sample.training_steps[0] + sample.selection_steps[0]
        assert (np.diff(curves.iteration) > 0).all()
        assert curves.iteration[-1] == curves.moment[-1] == setting.iterations


def test_the_portrait_is_the_best_agent_and_its_partition_grows_to_what_it_returns(small):
    (setting,) = (s for s in small.plan.settings if s.id == "oil-laplace-1")
    for algorithm in plans.LEARNERS:
        group = small.plan.study(setting, algorithm, small.choices[setting.id, algorithm].as_published)
        agents = [by_hand(run) for run in group]
        best = max(agents, key=lambda agent: agent.selection_score)
        growths = small.growth(setting, algorithm)
        assert [growth.step for growth in growths] == ([0] if algorithm == "spaql" else [0, 2, 4])
        for growth in growths:
            last, cells = growth.frames[-1], best.cells().at(growth.step)
            np.testing.assert_array_equal(last.q, cells.q)
            np.testing.assert_array_equal(last.low, np.hstack([cells.state_low, cells.action_low]))
            assert len(growth.frames[0].q) <= len(last.q)
            states = np.random.default_rng(0).random((50, 1))
            low, high = best.greedy_boxes(states, growth.step)
            played = last.played[np.searchsorted(last.edges, states[:, 0], side="right") - 1]
            np.testing.assert_array_equal(last.low[played, 1], low[:, 0])
            np.testing.assert_array_equal(last.high[played, 1], high[:, 0])


def test_seeds_differ_and_do_not_hang_together(small):
    runs = small.plan.first()
    assert len({run.seed for run in runs}) == len(runs)
    assert len({run.id for run in runs}) == len(runs)
    fewer = small_plan(problems=("ambulance-beta-0",)).first()
    assert {run.id for run in fewer} <= {run.id for run in runs}  # another plan, the same runs
    assert not {run.id for run in small_plan(seed=1).first()} & {run.id for run in runs}


def test_the_whole_study_has_the_papers_size():
    plan = plans.full()
    assert len(plan.short) == 12
    assert len(plan.settings) == 13
    groups = [plan.study(s, a, x) for s in plan.short for a in plans.LEARNERS for x in plan.scalings]
    assert len(groups) == 12 * 2 * 13
    assert {len(group) for group in groups} == {25, 50}
    steps = sum(run.cost - 5 * run.episodes for group in groups for run in group)
    assert steps == 6 * 13 * 2 * (25 * 5000 + 50 * 2000) * 5 * 21  # 3.7 billion
    (long,) = (s for s in plan.settings if s.id == plans.LONG)
    assert (long.horizon, len(plan.curves(long, "aql", 0.5))) == (50, 25)
    assert plan.episodes >= 2000


def test_printed_numbers():
    """Sums of the columns, added up from the paper's tables by hand."""
    means = {a: round(sum(row.rewards[a].mean for row in ROWS.values()), 2) for a in ("random", "aql", "spaql")}
    assert means == {"random": 26.83, "aql": 51.36, "spaql": 49.57}
    assert round(sum(row.cells["spaql"].mean for row in ROWS.values()), 2) == 523.44
    assert round(sum(row.cells["aql"].mean for row in ROWS.values()), 2) == 2639.10
    # Weighted by the number of the row, so that no two rows can be swapped.
    widths = [[row.rewards[a].half_width for a in ("random", "aql", "spaql")] for row in ROWS.values()]
    assert [round(sum(i * w[k] for i, w in enumerate(widths, 1)), 2) for k in range(3)] == [2.48, 2.0, 2.1]
    assert {key for key, row in ROWS.items() if row.bold == ("aql", "spaql")} == {
        "oil-quadratic-50",
        "ambulance-uniform-1",
    }
    assert {key for key, row in ROWS.items() if row.bold == ("spaql",)} == {
        f"ambulance-{arrivals}-{cost}" for arrivals in ("uniform", "beta") for cost in ("0", "0.25")
    }


# Tables and findings -------------------------------------------------------------------------------------------

KEYS = "problem algorithm printed as_published fresh optimum fraction_of_optimum arms training_steps selection_steps"


def test_bold_is_welchs(small, cells):
    for setting in small.plan.settings:
        samples = [small.apart(setting, algorithm).evaluation for algorithm in plans.LEARNERS]
        test = welch(*samples)
        leading = [c.fresh_leading for c in cells if c.problem == setting.id and c.algorithm in plans.LEARNERS]
        (beyond,) = (c.fresh_leading for c in cells if c.problem == setting.id and c.algorithm == "beyond")
        ours = small.apart(setting, "beyond").evaluation
        assert beyond == all(ours.mean() >= other.mean() or welch(ours, other).p_value >= 0.05 for other in samples)
        if test.p_value >= 0.05:
            assert leading == [True, True]
        else:
            assert leading == [test.difference > 0, test.difference < 0]


def test_the_three_tables_say_the_same(cells):
    rows = list(csv.DictReader(io.StringIO(tables.comma_separated(cells))))
    assert [row["problem"] for row in rows] == [cell.problem for cell in cells]
    assert set(KEYS.split()) <= set(rows[0])
    assert [float(row["fresh"]) for row in rows] == [cell.fresh for cell in cells]
    markdown, latex = tables.markdown(cells), tables.latex(cells)
    for cell in cells:
        fresh = f"{cell.fresh:.3f} ± {(cell.fresh_high - cell.fresh_low) / 2:.3f}"
        assert (f"**{fresh}**" if cell.fresh_leading else f" {fresh} ") in markdown
        tex = fresh.replace("±", "$\\pm$")
        assert (f"\\textbf{{{tex}}}" if cell.fresh_leading else f" {tex} ") in latex
    for line in markdown.splitlines():
        if line.startswith("|"):
            assert line.count("|") in (3 + len(tables.COLUMNS), 11)
    for line in latex.splitlines():
        if line.endswith("\\\\"):
            assert line.replace("\\&", "").count("&") == 1 + len(tables.COLUMNS)
            assert line.count("{") == line.count("}")
    assert latex.count("\\begin{tabular}") == latex.count("\\end{tabular}") == len(tables.groups(cells))


def combined(samples, weights):
    """Welch and Satterthwaite, written anew: value, low, high."""
    parts = [(w, np.mean(x), np.var(x, ddof=1) / len(x), len(x) - 1) for x, w in zip(samples, weights, strict=True)]
    value = sum(w * mean for w, mean, _, _ in parts)
    variance = sum(w**2 * v for w, _, v, _ in parts)
    freedom = variance**2 / sum((w**2 * v) ** 2 / f for w, _, v, f in parts)
    half = scipy.stats.t.ppf(0.975, freedom) * variance**0.5
    return value, value - half, value + half


def test_every_finding_is_recomputed(small, cells):
    found = {finding.id: (finding.value, finding.low, finding.high) for finding in findings_of(small, cells)}
    settings, scalings = small.plan.short, small.plan.scalings
    count = len(settings)
    share = {s.id: 100 / spaql.optimum(s.make()).value for s in small.plan.settings}
    signs = (("spaql", 1), ("aql", -1))

    def check(key, samples, weights):
        assert found[key] == pytest.approx(combined(samples, weights), rel=1e-9, abs=1e-12), key

    pairs = [(s, a, sign) for s in settings for a, sign in signs]
    check(
        "ranking",
        [small.apart(s, a).evaluation for s, a, _ in pairs],
        [sign * share[s.id] / count for s, _, sign in pairs],
    )
    thirds = [(s, a, sign) for s in settings for a, sign in (("beyond", 1), ("aql", -1))]
    check(
        "beyond",
        [small.apart(s, a).evaluation for s, a, _ in thirds],
        [sign * share[s.id] / count for s, _, sign in thirds],
    )
    logs = combined(
        [np.log(small.as_published(s, a).cells) for s, a, _ in pairs], [-sign / count for _, _, sign in pairs]
    )
    assert found["arms"] == pytest.approx(np.exp(logs))
    groups = [(s, a, sign, x) for s, a, sign in pairs for x in scalings]
    check(
        "sensitivity",
        [small.study[s.id, a, x].evaluation for s, a, _, x in groups],
        [sign * share[s.id] / count / len(scalings) for s, _, sign, _ in groups],
    )
    biased = [small.bias[s.id, 20] for s in settings]
    check("running-maximum", [sample.training_score - sample.evaluation for sample in biased], [1 / count] * count)
    (long,) = (s for s in small.plan.settings if s.id == plans.LONG)
    check(
        "long-episodes",
        [small.apart(long, a).evaluation for a, _ in signs],
        [sign * share[long.id] for _, sign in signs],
    )
    if not SLOW:
        curves = [small.curves(s, a, small.choices[s.id, a].apart) for s, a, _ in pairs]
        # SPAQL scores the untrained agent, then every iteration is H steps of learning and 20 H of choosing.
        budgets = [
            (c.moment * 21 + 20 if a == "spaql" else c.moment) / s.iterations
            for c, (s, a, _) in zip(curves, pairs, strict=True)
        ]
        at = [
            np.array([np.interp(0.0, np.log(budget), row) for row in c.evaluation])
            for c, budget in zip(curves, budgets, strict=True)
        ]
        weights = [sign * share[s.id] / count for s, _, sign in pairs]
        expected = combined(at, weights)
        assert found["all-steps"] == pytest.approx(
            expected, abs=0.02
        )  # steps between points of the curve are interpolated
    # Ours minus printed: Beta's agents stand for the Uniform row and for their own.
    oil = {a: small.as_published(_setting(small, "oil-laplace-1"), a).training_score for a, _ in signs}
    beta = {a: small.as_published(_setting(small, "ambulance-beta-0"), a).training_score for a, _ in signs}
    rows = ("oil-laplace-1", "ambulance-uniform-0", "ambulance-beta-0")
    value, low, _ = combined([*oil.values(), *beta.values()], [1 / 6, 1 / 6, 2 / 6, 2 / 6])
    printed = [ROWS[key].rewards[a] for key in rows for a, _ in signs]
    shift = value - np.mean([each.mean for each in printed])
    half = np.hypot(value - low, np.sqrt(sum(each.half_width**2 for each in printed)) / 6)
    assert found["reproduction"] == pytest.approx((shift, shift - half, shift + half))


def _setting(small, key):
    (setting,) = (s for s in small.plan.settings if s.id == key)
    return setting


def made(cells, problem, algorithm, **changes):
    return [replace(c, **changes) if (c.problem, c.algorithm) == (problem, algorithm) else c for c in cells]


def test_findings_are_computed(small, cells):
    found = {finding.id: finding for finding in findings_of(small, cells)}
    assert list(found) == POSSIBLE
    for finding in found.values():
        assert finding.low <= finding.value <= finding.high
        assert finding.sentence.endswith(".")
        assert finding.chart.series
        json.dumps(finding.to_dict(), allow_nan=False)
    assert found["myopic"].value == 1.0
    assert "always exactly H" in found["myopic"].sentence
    bias = [small.bias[setting.id, 20] for setting in small.plan.short]
    assert found["running-maximum"].value == pytest.approx(
        np.mean([(s.training_score - s.evaluation).mean() for s in bias])
    )
    differences = [
        100
        * (small.apart(s, "spaql").evaluation.mean() - small.apart(s, "aql").evaluation.mean())
        / small.optima[s.id].value
        for s in small.plan.short
    ]
    assert found["ranking"].value == pytest.approx(np.mean(differences))
    assert found["above-optimum"].value == pytest.approx(4.47 - small.optima["ambulance-beta-0"].value)


def test_findings_follow_the_numbers(small, cells):
    """Were V not H, or the Uniform rows Uniform, the words would be others."""
    names = ("random", "aql", "spaql")
    narrow = cells
    for problem in ("ambulance-uniform-0", "ambulance-beta-0"):
        for algorithm in names:
            (cell,) = (c for c in cells if (c.problem, c.algorithm) == (problem, algorithm))
            sharp = {"as_published_low": cell.as_published - 0.001, "as_published_high": cell.as_published + 0.001}
            narrow = made(narrow, problem, algorithm, **sharp)
    for source, words in (
        ("uniform", "are reproduced by Uniform arrivals"),
        ("beta", "are reproduced by Beta(5, 2) arrivals"),
        ("both", "fit both laws of arrivals"),
    ):
        told = narrow
        for algorithm in names:
            ours = {c.problem: c.as_published for c in cells if c.algorithm == algorithm}
            middle = (ours["ambulance-uniform-0"] + ours["ambulance-beta-0"]) / 2
            printed = ours.get(f"ambulance-{source}-0", middle)
            told = made(told, "ambulance-uniform-0", algorithm, printed=printed, printed_half_width=0.001)
        found = {finding.id: finding for finding in findings_of(small, told)}["uniform-is-beta"]
        assert words in found.sentence
        if source != "both":
            assert (found.value < 0) == (source == "uniform")
    values = small.study["oil-laplace-1", "spaql", 0.5].value_low
    before = values.copy()
    try:
        values[0] = 4.0
        (finding,) = (f for f in findings_of(small, cells) if f.id == "myopic")
    finally:
        values[:] = before
    assert "between 0.800 H and 1.000 H" in finding.sentence
    assert "myopic;" not in finding.sentence


def test_uniform_rows_are_compared_with_the_arrivals_that_reproduce_them(cells):
    (cell,) = (c for c in cells if (c.problem, c.algorithm) == ("ambulance-uniform-0", "spaql"))
    assert cell.counterpart == "ambulance-beta-0"
    (beta,) = (c for c in cells if (c.problem, c.algorithm) == ("ambulance-beta-0", "spaql"))
    assert cell.counterpart_as_published == beta.as_published
    assert f"({beta.as_published:.3f})" in tables.markdown(cells)


def test_half_a_study_has_the_findings_it_can_have(tmp_path):
    plan = small_plan(problems=("oil-laplace-1",))
    with Store(tmp_path / STORE, code="test") as store:
        measured = measure(plan, Study(store, threads=1))
        found = {finding.id for finding in findings_of(measured, cells_of(measured))}
    assert found == set(POSSIBLE) - {"uniform-is-beta", "long-episodes"}


# Interrupted, or in other threads ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    outcome = reproduce(folder, small_plan(), threads=1, progress_bar=False)
    return folder, outcome


def test_everything_is_written(undisturbed):
    folder, outcome = undisturbed
    names = set(files_in(folder))
    assert {"tables.md", "tables.csv", "tables.tex", "report.html", "findings.md", "findings.json"} <= names
    wanted = [
        *SMALL,
        "oil-steps",
        "ambulance-steps",
        "oil-scaling",
        "ambulance-scaling",
        "oil-scaling-fresh",
        *(f"finding-{key}" for key in POSSIBLE),
    ]
    assert {f"figures/{name}.{kind}" for name in wanted for kind in ("png", "svg")} <= names
    assert {path.relative_to(folder).as_posix() for path in outcome.files} == names
    assert outcome.cost.runs > 100
    assert outcome.cost.simulation_seconds > 0


@pytest.mark.compiled_only
def test_two_threads_write_the_same_bytes(undisturbed, tmp_path):
    reproduce(tmp_path, small_plan(), threads=2, progress_bar=False)
    assert files_in(tmp_path) == files_in(undisturbed[0])


def test_nothing_is_done_twice(undisturbed):
    folder, first = undisturbed
    before = files_in(folder)
    outcome = reproduce(folder, small_plan(), threads=2, progress_bar=False)
    assert (first.cost.runs > 0, outcome.cost.runs) == (True, 0)
    assert str(outcome.cost) == "every run had been done before"
    assert files_in(folder) == before


def finished_runs(folder):
    path = folder / STORE
    if not path.exists():
        return 0
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return connection.execute("SELECT count(*) FROM runs").fetchone()[0]
    except sqlite3.OperationalError:  # not made yet
        return 0
    finally:
        connection.close()


def start(folder, **options):
    command = [sys.executable, str(DRIVER), str(folder), "2"]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **options)


def wait_for(condition, process):
    """Poll until the condition holds; False where the process ended before."""
    deadline = time.monotonic() + 300
    while not condition():
        if process.poll() is not None:
            return False
        if time.monotonic() > deadline:
            process.kill()
            pytest.fail("the process hangs")
        time.sleep(0.001)
    return True


@pytest.mark.compiled_only
def test_killed_at_any_moment_it_goes_on_and_ends_in_the_same_bytes(undisturbed, tmp_path):
    total = finished_runs(undisturbed[0])
    kept = kills = 0
    for share in (0.0, 0.1, 0.3, 0.5, 0.8, 0.95):
        with start(tmp_path) as process:
            if wait_for(lambda share=share: finished_runs(tmp_path) > share * total, process):
                process.kill()
                kills += 1
        assert finished_runs(tmp_path) >= kept  # nothing lost
        kept = finished_runs(tmp_path)
    with start(tmp_path) as process:  # and once while it writes its files
        if wait_for(lambda: any(tmp_path.glob(".*-tables.md")), process):
            process.kill()
            kills += 1
    assert kills >= 4  # one that was too quick is no harm, all of them would be
    with start(tmp_path) as process:
        _, errors = process.communicate(timeout=300)
    assert (process.returncode, errors) == (0, "")
    assert finished_runs(tmp_path) == total  # nothing twice
    assert files_in(tmp_path) == files_in(undisturbed[0])


@pytest.mark.compiled_only
def test_a_full_disk_is_a_sentence_and_keeps_what_is_done(undisturbed, tmp_path):
    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, 150_000))

    with start(tmp_path, preexec_fn=small_files) as process:
        _, errors = process.communicate(timeout=300)
    assert process.returncode == 1
    (line,) = errors.splitlines()
    assert line.startswith("one sentence: ")
    assert "disk is full" in line or "cannot be" in line
    with start(tmp_path) as process:
        _, errors = process.communicate(timeout=300)
    assert (process.returncode, errors) == (0, "")
    assert files_in(tmp_path) == files_in(undisturbed[0])


# The command line ----------------------------------------------------------------------------------------------


@pytest.fixture
def small_command(monkeypatch):
    """`spaql paper` with the small plan in place of its own."""
    monkeypatch.setattr(plans, "quick", lambda settings, agents, seed: small_plan(seed, [s.id for s in settings]))


def test_json_prints_all_cells(small_command, tmp_path, capsys):
    arguments = ["paper", "--quick", "--quiet", "--json", "--problems", "ambulance-beta-0", "--out", str(tmp_path)]
    assert cli.main(arguments) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["algorithm"] for row in rows] == ["random", "no-movement", "mean", "median", "aql", "spaql", "beyond"]
    for row in rows:
        assert set(KEYS.split()) <= set(row) == {field.name for field in fields(Cell)}
    assert rows[-2]["printed"] == 4.47


@pytest.mark.compiled_only
def test_text_and_a_smaller_study_after_a_larger_one(small_command, tmp_path, capsys):
    both = ["--problems", "ambulance-beta-0", "ambulance-uniform-0"]
    assert cli.main(["paper", "--quick", "--quiet", "--out", str(tmp_path), *both]) == 0
    shown = capsys.readouterr().out
    assert "ambulance Beta, c = 0" in shown
    assert "report.html" in shown
    assert "times the bare simulation of the same steps" in shown
    assert cli.main(["paper", "--quick", "--quiet", "--out", str(tmp_path), *both[:2]]) == 0
    assert "every run had been done before" in capsys.readouterr().out
    assert not list(tmp_path.glob("figures/*uniform*"))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--problems", "oil-laplace-2"], "--problems: 'oil-laplace-2' is not one of"),
        (["--agents", "1"], "--agents"),
        (["--threads", "0"], "--threads"),
        (["--seed", "-1"], "--seed"),
    ],
)
def test_bad_input_is_one_sentence(arguments, sentence, tmp_path, capsys):
    assert cli.main(["paper", "--out", str(tmp_path / "out"), *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert sentence in line
    assert not (tmp_path / "out").exists()


def test_problems_by_their_beginning():
    assert len(plans.choose_settings(None)) == 13
    assert [s.id for s in plans.choose_settings(["oil-laplace-1"])] == ["oil-laplace-1"]
    assert [s.id for s in plans.choose_settings([plans.LONG])] == ["oil-laplace-1", plans.LONG]
    assert len(plans.choose_settings(["ambulance"])) == 6
    assert len(plans.choose_settings(["oil-laplace"])) == 4
    with pytest.raises(ParameterError, match="nor whole words that one begins with"):
        plans.choose_settings(["oil-"])


@pytest.mark.compiled_only
def test_ctrl_c_is_one_line_that_says_how_to_go_on(tmp_path):
    command = [sys.executable, "-m", "spaql", "paper", "--quiet", "--out", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert wait_for(lambda: finished_runs(tmp_path) > 20, process)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (130, "")
    lines = [line for line in errors.splitlines() if "compil" not in line]
    assert lines == [f"spaql: stopped; finished runs are kept in {tmp_path}, and the same command goes on from there"]
    assert finished_runs(tmp_path) > 20


@pytest.mark.compiled_only
def test_two_processes_on_one_folder(tmp_path):
    command = [sys.executable, "-m", "spaql", "paper", "--quiet", "--out", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert wait_for(lambda: finished_runs(tmp_path) > 0, process)
        second = subprocess.run(command, capture_output=True, text=True, timeout=60)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert second.returncode == 2
    (line,) = second.stderr.splitlines()
    assert "is in use by another process; wait for it, or choose another folder" in line
