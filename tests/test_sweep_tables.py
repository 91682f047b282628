"""Groups, table, figures, export and report of a study's folder, from made-up runs."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.stores import fill_folder

import browsers
from spaql import stats
from spaql.cli import main
from spaql.errors import NothingYetError, OutputError, StudyError
from spaql.runner.run_spec import Run
from spaql.runner.store import STORE
from spaql.studies.study import Group, Report, Stage, Study, run_study
from spaql.studies.sweep.comparison_table import FORMATS, compare
from spaql.studies.sweep.dataset import export_runs
from spaql.studies.sweep.group_values import read_values
from spaql.studies.sweep.optima import compute_optima
from spaql.studies.sweep.status import read_status
from spaql.studies.sweep.sweep_report import make_sheets, write_figures, write_report
from spaql.studies.sweep.sweep_study import Sweep
from spaql.viz.html import Section, render_page
from sweeps_for_tests import NASTY, STUDY_DATA, fill, make_record, read_csv, write_study

# Groups --------------------------------------------------------------------------------------------------------------


def test_groups_are_those_of_the_study(part):
    study, gathered = Sweep(STUDY_DATA), read_values(part)
    assert [(g.problem, g.label) for g in gathered.groups] == [(g.problem, g.label) for g in study.groups]
    assert [(len(g.finished), len(g.seeds), g.failed) for g in gathered.groups] == [(6, 6, 0)] * 6 + [
        (0, 6, 0),
        (1, 6, 1),
    ]
    first = study.groups[0]
    assert gathered.groups[0].algorithm == "aql"
    assert gathered.groups[0].finished == [run.id for run in first.runs]
    np.testing.assert_array_equal(
        gathered.groups[0].sample, [make_record(run, at).scalars["evaluation"] for at, run in enumerate(first.runs)]
    )


def test_only_runs_of_the_study_count(whole, tmp_path):
    smaller = {**STUDY_DATA, "seeds": 4, "problems": [{"problem": "oil", "grid": {"sharpness": [10]}}]}
    (tmp_path / STORE).write_bytes((whole / STORE).read_bytes())
    write_study(tmp_path, Sweep(smaller))
    gathered = read_values(tmp_path)
    assert [(g.problem, len(g.finished)) for g in gathered.groups] == [("oil, sharpness=10", 4)] * 4
    assert len(list(csv.reader(io.StringIO(export_runs(tmp_path).read_text())))) == 1 + 16


class Staged(Study):
    """Two stages that share runs, one of other sizes, and no labels of its own for them."""

    def stages(self, results):
        run = Run("oil", {}, "random", {}, 0, 0, 10)
        yield Stage([Group("oil", "random", run, [1, 2])])
        assert read_status(results.store.path.parent).total == 2
        yield Stage([Group("oil", "random", run, [2, 3]), Group("oil", "random", replace(run, episodes=20), [4])])


def test_any_study_can_be_read(tmp_path):
    run_study(Staged(), tmp_path / "staged")
    gathered = read_values(tmp_path / "staged")
    assert (gathered.name, gathered.baseline) == ("staged", None)
    labels = [(g.problem, g.label, len(g.finished), len(g.seeds)) for g in gathered.groups]
    assert labels == [("oil", "random, episodes=10", 3, 3), ("oil", "random, episodes=20", 1, 1)]
    (tmp_path / "staged" / STORE).unlink()  # as one does who starts anew
    run_study(Staged(), tmp_path / "staged")
    status = read_status(tmp_path / "staged")
    assert (status.total, status.done, status.state) == (4, 4, "finished")
    assert sorted(row["seed"] for row in read_csv(export_runs(tmp_path / "staged"))) == ["1", "2", "3", "4"]


def test_a_store_alone_is_a_sentence(whole, tmp_path):
    (tmp_path / STORE).write_bytes((whole / STORE).read_bytes())
    with pytest.raises(NothingYetError, match=r"study\.json' is not there; run the study again"):
        read_values(tmp_path)


def test_an_unknown_metric_is_told_with_what_there_is(whole):
    with pytest.raises(StudyError, match="no run has 'speed'; choose from cells, evaluation, regret, seconds"):
        read_values(whole, "speed")
    np.testing.assert_array_equal(read_values(whole, "seconds").groups[0].sample, np.arange(6) + 0.5)
    assert not len(read_values(whole, "training_score").groups[0].sample)


def test_a_study_file_of_another_version_is_a_sentence(whole, tmp_path):
    (tmp_path / STORE).write_bytes((whole / STORE).read_bytes())
    for text in ("{", '{"colour": 1}'):
        (tmp_path / "study.json").write_text(text)
        with pytest.raises(StudyError, match=r"study\.json' is not a study of this version "):
            read_values(tmp_path)


# Table ---------------------------------------------------------------------------------------------------------------


def test_the_table_is_the_statistics_of_each_group(whole):
    gathered = read_values(whole)
    table = compare(gathered)
    groups = {(group.problem, group.label): group.sample for group in gathered.groups}
    for row in table.rows:
        ours, base = groups[row.problem, row.algorithm], groups[row.problem, "random"]
        mean, middle = stats.mean_interval(ours), stats.interquartile_mean(ours, seed=0).mean
        assert (row.n, row.expected, row.failed) == (6, 6, 0)
        assert (row.mean, row.low, row.high) == pytest.approx((mean.mean, *mean.interval))
        assert row.deviation == pytest.approx(mean.deviation)
        assert row.iqm == pytest.approx(middle)
        assert row.iqm_low < row.iqm < row.iqm_high
        assert row.regret == pytest.approx(4.2476 - mean.mean, abs=1e-3)
        if row.algorithm == "random":
            assert row.difference is row.p_value is row.better is None
            continue
        assert row.difference == pytest.approx(mean.mean - base.mean())
        assert row.p_value == pytest.approx(stats.welch(ours, base).p_value)
        better = stats.probability_of_improvement(ours, base, seed=0)
        assert (row.better, row.better_low, row.better_high) == (better.mean, *better.interval)
    for problem in gathered.problems:
        rows = [row for row in table.rows if row.problem == problem and row.p_value is not None]
        assert [row.p_adjusted for row in rows] == stats.holm([row.p_value for row in rows]).tolist()


def test_what_is_missing_is_visible(part):
    rows = compare(read_values(part)).rows
    assert [row.count for row in rows[-2:]] == ["0 of 6", "1 of 6, 1 failed"]
    assert rows[-2].mean is rows[-2].regret is None
    assert rows[-1].mean is not None
    assert rows[-1].low is rows[-1].iqm_low is rows[-1].deviation is None
    assert rows[4].p_value is None  # the baseline has one value only
    assert (rows[4].better_low, rows[4].better_high) == (0.0, 1.0)
    text = compare(read_values(part)).format()
    assert "1 of 6, 1 failed" in text
    assert "nan" not in text.lower()


def test_rows_of_equal_values_have_no_deviation(tmp_path):
    told = {**STUDY_DATA, "seeds": 3, "baseline": "aql", "problems": [{"problem": "oil"}]}
    fill(tmp_path, {**told, "algorithms": [{"algorithm": "aql"}]})
    gathered = read_values(tmp_path, "cells")
    gathered.groups[0].sample[:] = 0.1  # numpy's deviation of it is not 0
    assert gathered.groups[0].sample.std(ddof=1) > 0
    (row,) = compare(gathered).rows
    assert (row.mean, row.low, row.high, row.deviation) == (0.1, 0.1, 0.1, 0.0)


def test_optima_do_not_depend_on_the_order_of_problems(tmp_path):
    long = {"problem": "oil", "label": "long", "arguments": {"horizon": 600}}
    short = [{"problem": "oil", "label": f"short {x}", "arguments": {"sharpness": x}} for x in (1, 10)]
    found = []
    for name, problems in (("first", [long, *short]), ("last", [*short, long])):
        fill(tmp_path / name, {**STUDY_DATA, "seeds": 2, "problems": problems})
        found.append(compute_optima(read_values(tmp_path / name)))
    assert found[0] == found[1]
    assert sorted(found[0]) == ["short 1", "short 10"]


def test_a_baseline_can_be_named(whole):
    rows = compare(read_values(whole), baseline="aql, scaling=0.5").rows
    assert [row.difference is None for row in rows] == [False, True, False, False] * 2
    with pytest.raises(StudyError, match=r"baseline: 'sarsa' is not an algorithm; choose from 'aql, scaling=0\.1', "):
        compare(read_values(whole), baseline="sarsa")


def test_every_format_says_the_same(whole):
    table = compare(read_values(whole))
    found = {form: table.format(form) for form in FORMATS}
    assert found == {form: compare(read_values(whole)).format(form) for form in FORMATS}
    told = json.loads(found["json"])["rows"]
    rows = list(csv.DictReader(io.StringIO(found["csv"])))
    assert [float(row["mean"]) for row in rows] == [row["mean"] for row in told] == [row.mean for row in table.rows]
    assert [row["p_adjusted"] for row in rows[3:4]] == [""]
    assert found["markdown"].count("\n| oil, sharpness=1 |") == 4
    assert found["text"].count("oil, sharpness=10") == 1
    assert "Holm's method over all comparisons of a problem" in found["markdown"]
    assert found["latex"].count("\\midrule") == 2
    assert "95\\%" in found["latex"]
    for form in ("text", "markdown", "latex"):
        assert f"{table.rows[0].mean:.3f}" in found[form]
    with pytest.raises(StudyError, match="format: 'html' is not one of text, "):
        table.format("html")


def test_labels_are_escaped(whole, tmp_path):
    (tmp_path / STORE).write_bytes((whole / STORE).read_bytes())
    told = {**STUDY_DATA, "problems": [{"problem": "oil", "label": "a|b_c", "arguments": {"sharpness": 1}}]}
    write_study(tmp_path, Sweep(told))
    table = compare(read_values(tmp_path))
    assert table.rows[0].n == 6
    assert "| a\\|b_c |" in table.format("markdown")
    assert "a|b\\_c" in table.format("latex")


def test_without_a_baseline_nothing_is_compared(tmp_path):
    fill(tmp_path, {**STUDY_DATA, "baseline": None})
    table = compare(read_values(tmp_path))
    assert list(table.table.header) == ["problem", "algorithm", "n", "mean [95%]", "IQM [95%]", "optimum", "regret"]
    assert "Welch" not in table.note
    assert compare(read_values(tmp_path, "cells")).table.header == [
        "problem",
        "algorithm",
        "n",
        "mean [95%]",
        "IQM [95%]",
    ]


def test_synthetic_stores_are_whole_studies(tmp_path, monkeypatch):
    asked, runs = [], Sweep.runs.fget
    monkeypatch.setattr(Sweep, "runs", property(lambda study: asked.append(1) or runs(study)))
    study = fill_folder(tmp_path, 60, 12)
    assert len(asked) == 1
    assert read_status(tmp_path).state == "finished"
    rows = compare(read_values(tmp_path)).rows
    assert [row.n for row in rows] == [5] * 12
    assert len(study.runs) == 60


# Figures -------------------------------------------------------------------------------------------------------------


def test_curves_are_means_over_steps_with_bands(whole):
    sheets = make_sheets(read_values(whole))
    assert list(sheets) == ["scores", "by-scaling"]
    scores, by_scaling = sheets.values()
    assert [chart.title for chart in scores.panels] == ["oil, sharpness=1", "oil, sharpness=10"]
    chart = scores.panels[0]
    assert [series.name for series in chart.series] == [f"aql, scaling={x}" for x in ("0.1", "0.5", "2")]
    assert [level.name for level in chart.levels] == ["random", "optimum"]
    assert chart.x_label == "environment steps"
    assert list(chart.series[0].x) == [5.0, 50.0, 500.0]
    sample = read_values(whole).groups[0].sample
    assert chart.series[0].y == pytest.approx([sample.mean() - 1.0, sample.mean() - 0.5, sample.mean()])
    assert chart.series[0].high[-1] == pytest.approx(stats.mean_interval(sample).high)
    points = by_scaling.panels[1].series[0]
    assert (points.name, list(points.x)) == ("aql", [0.1, 0.5, 2.0])
    assert points.y == pytest.approx([group.sample.mean() for group in read_values(whole).groups[4:7]])


def test_without_curves_there_are_means(whole):
    (scores, _) = make_sheets(read_values(whole, "cells")).values()
    chart = scores.panels[0]
    assert chart.x_scale == "category"
    assert [series.x[0] for series in chart.series][-1] == "random"
    assert not chart.levels  # an optimum of arms means nothing


def test_many_algorithms_are_the_best_and_the_baseline(tmp_path):
    told = {**STUDY_DATA, "seeds": 3, "problems": [{"problem": "oil"}]}
    grid = {"algorithm": "aql", "grid": {"scaling": [round(0.1 * (at + 1), 1) for at in range(20)]}}
    fill(tmp_path, {**told, "algorithms": [grid], "baseline": "aql, scaling=0.1"})
    scores, by_scaling = make_sheets(read_values(tmp_path)).values()
    names = [series.name for series in scores.panels[0].series]
    assert len(names) == 8
    assert names[0] == "aql, scaling=0.1"
    assert names[-1] == "aql, scaling=2"
    assert "the 8 of 20 algorithms with the largest means, with aql, scaling=0.1" in scores.note
    assert by_scaling.panels[0].series[0].style == "line"


def test_figures_are_files(whole, part, tmp_path):
    (tmp_path / STORE).write_bytes((part / STORE).read_bytes())
    write_study(tmp_path)
    written = write_figures(read_values(tmp_path))
    assert sorted(path.relative_to(tmp_path).as_posix() for path in written) == [
        f"figures/{name}.{kind}" for name in ("by-scaling", "scores") for kind in ("png", "svg")
    ]
    (tmp_path / "other").mkdir()
    named = write_figures(read_values(whole), tmp_path / "other" / "a.svg")
    assert [path.name for path in named] == ["a.svg", "a-by-scaling.svg"]
    assert all(path.stat().st_size > 1000 for path in (*written, *named))
    cells = write_figures(read_values(tmp_path, "cells"))  # beside those of the evaluation
    assert {path.name for path in cells} == {f"cells-{path.name}" for path in written}
    with pytest.raises(OutputError, match=r"a\.pdf': a figure is written as"):
        write_figures(read_values(whole), tmp_path / "a.pdf")


def test_nothing_done_is_a_sentence(tmp_path):
    fill(tmp_path, missing=[(group, at) for group in range(8) for at in range(6)])
    with pytest.raises(StudyError, match="no finished run has a value of 'evaluation' yet"):
        make_sheets(read_values(tmp_path))
    assert "0 of 6" in compare(read_values(tmp_path)).format()
    assert "0 of 48 runs finished" in write_report(tmp_path).read_text()


# Export --------------------------------------------------------------------------------------------------------------


def test_every_run_is_a_row(part, tmp_path):
    path = export_runs(part, "csv", tmp_path / "all.csv")
    rows = read_csv(path)
    assert [row["status"] for row in rows] == ["done"] * 37 + ["failed"]
    assert {row["parameter_scaling"] for row in rows} == {"0.1", "0.5", "2.0", ""}
    assert {row["argument_sharpness"] for row in rows} == {"1", "10"}
    assert rows[-1]["message"] == f"ValueError: {NASTY}"
    groups = {group.algorithm: group for group in read_values(part).problems["oil, sharpness=1"]}
    exported = {row["id"]: float(row["evaluation"]) for row in rows if row["status"] == "done"}
    for group in groups.values():
        assert [exported[key] for key in group.finished] == group.sample.tolist()
    with pytest.raises(OutputError, match="'xls' is not one of"):
        export_runs(part, "xls")


def test_labels_of_the_same_runs_export_each_once(tmp_path):
    problems = [{"problem": "oil", "label": f"{seeds}", "seeds": seeds} for seeds in ([1, 2], [2, 3], [4])]
    told = {**STUDY_DATA, "problems": problems, "algorithms": [{"algorithm": "random"}]}
    study = fill(tmp_path, told, failing=[(1, 1)])
    assert len({group.run.kind for group in study.groups}) == 1
    rows = read_csv(export_runs(tmp_path))
    found = {(row["seed"], row["problem_label"], row["status"]) for row in rows}
    assert len(rows) == len({run.id for run in study.runs}) == 4
    assert found == {("1", "[1, 2]", "done"), ("2", "[1, 2]", "done"), ("3", "[2, 3]", "failed"), ("4", "[4]", "done")}


def test_parquet_holds_the_same(part, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(export_runs(part, "parquet", tmp_path / "all.parquet"))
    rows = read_csv(export_runs(part, "csv", tmp_path / "all.csv"))
    assert table.column_names == list(rows[0])
    assert [str(table.schema.field(name).type) for name in ("seed", "evaluation", "cells", "training_score")] == [
        "uint64", "double", "int64", "double"
    ]  # fmt: skip
    for ours, theirs in zip(table.to_pylist(), rows, strict=True):
        assert {name: "" if value is None else str(value) for name, value in ours.items()} == theirs
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.csv", "all.parquet"]


def test_without_pyarrow_parquet_is_a_sentence(part, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(OutputError, match=r"pip install 'spaql\[parquet\]'"):
        export_runs(part, "parquet")


# The page ------------------------------------------------------------------------------------------------------------


def test_the_report_can_be_read_without_scripts(part):
    text = write_report(part).read_text()
    assert "37 of 48 runs finished, 1 failed." in text
    assert text.count("<td>1 of 6, 1 failed</td>") == 1
    assert "&lt;/script&gt;&lt;b&gt;&amp;|" in text
    assert "<b>" not in text
    assert write_report(part).read_text() == text


def test_page_and_figures_have_the_same_colours(whole):
    report = Report("sweep", "a study", figures=make_sheets(read_values(whole)))
    content = re.search(r'id="data">(.*?)</script>', report.page())[1]
    shown = {
        trace["name"]: trace["line"]["color"]
        for chart in json.loads(content)["charts"]
        for trace in chart["data"]
        if trace["showlegend"] and trace["mode"] == "lines"
    }
    assert len(set(shown.values())) == 3
    svg = write_figures(read_values(whole), whole / "a.svg")[0].read_text().lower()
    assert set(re.findall(r"stroke: (#\w{6}); stroke-width: 1.5; stroke-linecap: square", svg)) >= {
        colour.lower() for colour in shown.values()
    }


def test_one_heading_for_each_thing(part):
    text = write_report(part).read_text()
    assert re.findall(r"<h[12].*?>(.*?)</h", text) == ["a study", "In short", "Results", "Scores", "By scaling"]
    assert re.findall("<caption><span>(.*?)</span>", text) == ["Failed runs: 1 error"]


def test_text_is_aligned_to_the_left_and_wrapped(part):
    text = write_report(part).read_text()
    assert '<th scope="col" class="text">message</th>' in text
    assert '<td class="text">ValueError: &lt;/script' in text
    assert '<th scope="col">regret</th>' in text


def test_what_does_not_vary_has_no_p_value(whole):
    rows = compare(read_values(whole, "training_steps")).rows
    assert {row.difference for row in rows} == {0.0, None}
    assert {row.p_value for row in rows} == {row.p_adjusted for row in rows} == {None}


def test_a_page_of_sections_needs_plotly_only_for_charts():
    text = render_page("a < b", [Section("One & all", ["words"], id="one"), Section("Two")], "c")
    assert len(text) < 60_000
    assert '<a href="#one">One &amp; all</a>' in text
    assert "<h1>a &lt; b</h1>" in text


def test_a_reader_sees_the_charts(whole, driver):
    reader = browsers.Reader(driver, write_report(whole).resolve().as_uri())
    reader.emulate()  # the browser is that of all tests
    reader.resize(1280)
    reader.open()
    reader.run("document.getElementById('by-scaling').scrollIntoView()")
    reader.wait(lambda: reader.run("return document.querySelectorAll('.js-plotly-plot .legend').length") == 4)
    titles = reader.run("return [...document.querySelectorAll('figure h3')].map((node) => node.textContent)")
    assert titles == ["oil, sharpness=1", "oil, sharpness=10"] * 2
    lines = reader.run("return document.querySelector('#scores .plot').data.map((trace) => trace.name)")
    assert set(lines) == {"aql, scaling=0.1", "aql, scaling=0.5", "aql, scaling=2"}
    assert not [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]


# The command line ----------------------------------------------------------------------------------------------------


def test_commands(part, tmp_path, capsys):
    folder = str(part)
    assert main(["sweep", "status", folder, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["failures"][0]["kind"] == "error"
    assert main(["sweep", "table", folder, "--metric", "cells", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["metric"] == "cells"
    assert main(["sweep", "table", folder, "--format", "csv", "--out", str(tmp_path / "t.csv")]) == 0
    assert (tmp_path / "t.csv").read_text() == compare(read_values(part)).format("csv")
    capsys.readouterr()
    assert main(["sweep", "export", folder, "--to", "csv", "--out", str(tmp_path / "r.csv"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"files": [str(tmp_path / "r.csv")]}
    assert main(["sweep", "report", folder, "--out", str(tmp_path / "r.html")]) == 0
    assert main(["sweep", "plot", folder, "--out", str(tmp_path / "p.png")]) == 0
    assert main(["sweep", "watch", folder, "--once"]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "p-by-scaling.png", "p.png", "r.csv", "r.html", "t.csv"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["table", "--metric", "speed"], "metric: no run has 'speed'; choose from cells, evaluation, regret, "),
        (["table", "--baseline", "x"], "baseline: 'x' is not an algorithm"),
        (["table", "--json", "--format", "csv"], "--json: it contradicts --format csv"),
        (["plot", "--out", "x.pdf"], "a figure is written as .png or .svg"),
        (["watch", "--every", "0"], "--every: expected"),
        (["status", "--failures", "-1"], "--failures: expected"),
    ],
)
def test_bad_requests_are_one_sentence(part, words, sentence, capsys):
    assert main(["sweep", words[0], str(part), *words[1:]]) == 2
    told = capsys.readouterr().err
    assert sentence in told
    assert told.count("\n") == 1
