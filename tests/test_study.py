"""The study type: stages follow from results, each run is performed once, and the report is written."""

import json
import signal

import numpy as np
import pytest

from spaql.errors import StudyError
from spaql.formatting import Bold, Table
from spaql.runner.execute import execute
from spaql.runner.run_spec import Run
from spaql.runner.store import STORE, Store
from spaql.studies.study import Group, Report, Results, Stage, Study, missing_runs, run_study
from spaql.viz.charts import Chart, Series


def group(iterations=5, seeds=(1, 2, 3), **changes):
    run = Run("oil", {}, "aql", {"rollouts": 0}, 0, iterations, 4, **changes)
    return Group("oil", f"aql, {iterations}", run, seeds)


class Two(Study):
    """Trains for 5 and 10 iterations, then repeats the better group with curves."""

    name = "two"

    def stages(self, results):
        first = [group(5), group(10)]
        yield Stage(first, later=100, files={"plan.json": "{}\n"})
        self.best = max(first, key=lambda each: results.values(each).mean())
        self.again = self.best.with_run(points=3)
        yield Stage([self.again])

    def report(self, results):
        scores = results.values(self.again)
        curves = results.arrays(self.again)
        series = Series("aql", curves[0]["iteration"].tolist(), curves[0]["steps"].tolist())
        return Report(
            "two",
            "Two groups",
            summary=[f"The best is {self.best.algorithm}."],
            tables=[Table(["agent", "score"], [["AQL", Bold(f"{scores.mean():.3f}")]], caption="Scores")],
            figures={"curve": Chart("Steps", "iteration", "steps", (series,))},
            data={"scores": scores.tolist()},
        )


@pytest.mark.compiled_only
def test_stages_follow_from_results_and_nothing_is_done_twice(tmp_path):
    outcome = run_study(Two(), tmp_path, workers=2, progress_bar=False)
    assert (outcome.tally.total, outcome.tally.done, outcome.cost.runs) == (9, 9, 9)
    names = {path.relative_to(tmp_path).as_posix() for path in outcome.files}
    assert names == {"two.md", "two.json", "report.html", "figures/curve.png", "figures/curve.svg"}
    assert (tmp_path / "plan.json").exists()
    scores = json.loads((tmp_path / "two.json").read_text())["scores"]
    with Store.open_readonly(tmp_path / STORE) as store:
        results = Results(store)
        means = [results.values(group(iterations)) for iterations in (5, 10)]
    assert scores in [each.tolist() for each in means]
    assert np.mean(scores) == max(each.mean() for each in means)
    expected = [execute(run).scalars for run in group(5).runs]
    assert means[0].tolist() == [scalars.get("evaluation", scalars.get("fresh")) for scalars in expected]
    assert f"**{np.mean(scores):.3f}**" in (tmp_path / "two.md").read_text()
    again = run_study(Two(), tmp_path, workers=1, progress_bar=False)
    assert again.cost.runs == 0
    assert str(again.cost) == "all runs were finished before"
    assert (tmp_path / "two.json").read_text() == json.dumps({"scores": scores}, indent=1) + "\n"


class Failing(Study):
    """One of its groups cannot be run."""

    def __init__(self, keep_failures):
        self.keep_failures = keep_failures
        self.bad = Group("oil", "bad", Run("oil", {}, "aql", {"scaling": -1.0}, 0, 2, 2), (1, 2))

    def stages(self, results):
        yield Stage([self.bad, group(2)])
        self.failure = results.failure(self.bad)
        self.values = results.values(self.bad)


@pytest.mark.compiled_only
def test_a_failure_stops_a_study_unless_it_keeps_failures(tmp_path, monkeypatch):
    monkeypatch.setattr("spaql.studies.study.prepare", lambda runs, progress_bar: None)
    with pytest.raises(StudyError, match="scaling"):
        run_study(Failing(False), tmp_path / "stop", workers=1, progress_bar=False)
    study = Failing(True)
    outcome = run_study(study, tmp_path / "keep", workers=1, progress_bar=False)
    assert (outcome.tally.total, outcome.tally.done, outcome.tally.failed) == (5, 3, 2)
    run, failure = study.failure
    assert run.seed == 1
    assert "scaling" in failure.message
    assert np.isnan(study.values).all()
    assert outcome.report is None


class Interrupted(Study):
    """Receives Ctrl-C while it plans its runs."""

    received = False

    def stages(self, results):
        signal.raise_signal(signal.SIGINT)
        self.received = True
        yield from ()


@pytest.mark.parametrize("handler", [signal.SIG_IGN, lambda number, frame: None], ids=["ignored", "own"])
def test_a_background_job_survives_ctrl_c(tmp_path, handler):
    study = Interrupted()
    before = signal.signal(signal.SIGINT, handler)
    try:
        run_study(study, tmp_path, workers=1, progress_bar=False)
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert study.received


def test_ctrl_c_stops_a_study_and_the_handler_is_put_back(tmp_path):
    study = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        run_study(study, tmp_path, workers=1, progress_bar=False)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert not study.received


def test_missing_runs_come_longest_first_and_seed_by_seed():
    groups = [group(5), group(10), group(10, seeds=(7, 8))]
    order = [(run.iterations, run.seed) for run in missing_runs(groups, [groups[0].ids[1]])]
    assert order == [(10, 1), (10, 7), (10, 2), (10, 8), (10, 3), (5, 1), (5, 3)]
    assert len(missing_runs([group(5), group(5)], ())) == 3


def test_a_table_is_the_same_in_every_form():
    rows = [["oil", "AQL", Bold("4.2")], ["oil", "a|b", "1.5"], ["water", "AQL", "2_0 ± 1"]]
    table = Table(["problem", "agent", "score"], rows, caption="Scores", note="5 %", left=2, sections=True)
    assert table.text().splitlines() == [
        "problem  agent     score",
        "------------------------",
        "oil      AQL        4.2*",
        "         a|b        1.5",
        "water    AQL    2_0 ± 1",
    ]
    assert table.markdown().splitlines()[2:] == [
        "| oil | AQL | **4.2** |",
        "| oil | a\\|b | 1.5 |",
        "| water | AQL | 2_0 ± 1 |",
    ]
    assert (
        "oil & AQL & \\textbf{4.2} \\\\\n & a|b & 1.5 \\\\\n\\midrule\nwater & AQL & 2\\_0 $\\pm$ 1 \\\\" in table.tex()
    )
    assert "\\caption{Scores. 5 \\%}" in table.tex()
    kinds = [row.get("section", row.get("head")) for row in table.html()["rows"]]
    assert kinds == ["oil", "AQL", "a|b", "water", "AQL"]
    assert Table.of_records([{"a": 1 / 3, "b": None}]).csv() == f"a,b\n{1 / 3},\n"
    with pytest.raises(ValueError, match="2 columns, but a row of 1 cells"):
        Table(["a", "b"], [["x"]])
