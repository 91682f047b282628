"""Tuning: the same trials however it is interrupted, a race that keeps its promise, and two honest numbers."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import docs_for_tests
import spaql
from figures_for_tests import DRAW, draw_digest
from spaql.cli import main
from spaql.errors import ParameterError, SpaqlError, StoreError, StudyError
from spaql.runner.record import Record
from spaql.runner.run_spec import Run
from spaql.studies.sweep.comparison_table import compare
from spaql.studies.sweep.group_values import read_values
from spaql.studies.tune import racing
from spaql.studies.tune.optuna_study import FILE, OptunaStudy
from spaql.studies.tune.tuner import Tuning

ENGINE = sys.modules["spaql.runner.engines.engine"]
BASE = {
    "iterations": 10,
    "episodes": 10,
    "problems": [{"problem": "oil"}],
    "algorithms": [
        {
            "algorithm": "spaql",
            "parameters": {"heat": 3.0},
            "random": {
                "scaling": {"low": 0.01, "high": 4.0, "log": True},
                "rollouts": {"low": 1, "high": 40, "whole": True},
            },
        }
    ],
    "tune": {"trials": 10, "seeds": 8, "first_seeds": 2, "evaluation_seeds": 6},
}


def study(**changes):
    told = json.loads(json.dumps(BASE))
    told["tune"] |= changes.pop("tune", {})
    told["algorithms"][0] |= changes.pop("algorithm", {})
    return told | changes


def quality(parameters):
    """Best at a scaling of 0.1; many rollouts cost a little."""
    return -((np.log10(parameters.get("scaling", 0.5)) + 1) ** 2) - 0.01 * parameters.get("rollouts", 20)


class Fake:
    """Runs that take no time: a score from parameters and seed."""

    def __init__(self, noise=0.1, quality=quality):
        self.noise, self.quality = noise, quality
        self.runs: list[Run] = []

    def __call__(self, run, check=None):
        self.runs.append(run)
        score = self.quality(run.parameters) + self.noise * np.random.default_rng(run.seed).normal()
        return Record({"evaluation": float(score), "training_score": float(score) + 1})


@pytest.fixture
def fake(monkeypatch):
    return installed(monkeypatch)


def installed(monkeypatch, **options):
    made = Fake(**options)
    monkeypatch.setattr(ENGINE, "execute", made)
    monkeypatch.setattr("spaql.studies.study._draw", draw_digest)  # which is much quicker
    monkeypatch.setattr("spaql.studies.study.prepare", lambda algorithms, progress_bar: None)
    return made


def said(folder):
    return (Path(folder) / "tune.json").read_bytes()


# The same trials -----------------------------------------------------------------------------------------------------


def test_workers_and_longer_tunings_change_nothing(tmp_path, fake):
    whole = spaql.tune(study(), tmp_path / "one", workers=1)
    spaql.tune(study(), tmp_path / "many", workers=3, trials=3)  # ends in the middle of a batch
    spaql.tune(study(), tmp_path / "many", workers=3)
    assert said(tmp_path / "one") == said(tmp_path / "many")
    assert whole.complete
    assert f"The winner is {whole.winner}" in whole._repr_html_()
    assert whole.winner.number > 0
    assert abs(np.log10(whole.parameters["scaling"]) + 1) < 0.5
    assert whole.parameters["heat"] == 3.0
    fake.runs.clear()
    spaql.tune(study(), tmp_path / "one")
    assert not fake.runs  # nothing is done twice
    other = spaql.tune(study(seed=1), tmp_path / "other")
    assert [trial.values for trial in other.trials] != [trial.values for trial in whole.trials]


KILLED = """
import os, signal, sys
from dataclasses import replace
sys.path.insert(0, {tests!r})
import spaql.studies.study, test_tuning
from spaql.studies.tune.optuna_study import OptunaStudy

fake = test_tuning.Fake()
child = os.fork()  # it is killed in the middle of a batch, and then its parent while it tells of one
runs, writes = (20, 99) if child == 0 else (999, 9)

def execute(run, check=None):
    if len(fake.runs) == runs:
        os.kill(os.getpid(), signal.SIGKILL)
    return fake(run)

def write(self, result, last, before=OptunaStudy.write_trials):
    if len(result.trials) >= writes:
        before(self, replace(result, trials=result.trials[:-2]))  # half of a batch
        os.kill(os.getpid(), signal.SIGKILL)
    before(self, result, last=last)

test_tuning.ENGINE.execute = execute
OptunaStudy.write_trials = write
spaql.studies.study.prepare = lambda algorithms, progress_bar: None
if child:
    print(os.WTERMSIG(os.waitpid(child, 0)[1]), flush=True)
spaql.tune(test_tuning.study(), {folder!r}, workers=2, progress_bar=False)
"""


def test_killed_is_as_if_it_had_not_been(tmp_path, fake):
    spaql.tune(study(), tmp_path / "whole")
    folder = tmp_path / "killed"
    script = KILLED.format(tests=str(Path(__file__).parent), folder=str(folder))
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert ended.stdout == f"{int(signal.SIGKILL)}\n"
    assert [trial["trial"] for trial in told_to_optuna(folder)] == list(range(7))  # four, and two of the next four
    spaql.tune(study(), folder)
    assert said(folder) == said(tmp_path / "whole")
    assert (folder / "report.html").read_bytes() == (tmp_path / "whole" / "report.html").read_bytes()
    assert len(told_to_optuna(folder)) == 11


@pytest.mark.compiled_only
def test_processes_give_the_same(tmp_path):
    small = study(tune={"trials": 3, "seeds": 4, "evaluation_seeds": 3, "batch": 2})
    spaql.tune(small, tmp_path / "threads", workers=2)
    spaql.tune(small, tmp_path / "processes", engine="processes", workers=1)
    assert said(tmp_path / "threads") == said(tmp_path / "processes")


# The race ------------------------------------------------------------------------------------------------------------


def race(random, means, batch=4, first=4, seeds=16):
    """Trials of normal scores with these means, batch by batch: which were stopped, and how many runs that saved."""
    scores = [random.normal(mean, 1.0, seeds) for mean in means]
    measure, stages = racing.Objective.from_defaults((), 1), racing.stage_sizes(first, seeds)
    finished, stopped, saved = {0: [scores[0]]}, set(), 0
    for number in range(1, (len(means) - 1) // batch + 1):
        alive = range((number - 1) * batch + 1, number * batch + 1)
        chance = racing.look_level(0.95, len(stages) - 1, number * batch)
        for some in stages[:-1]:
            out = racing.find_behind({k: [scores[k][:some]] for k in alive}, finished, measure, chance)
            stopped |= out.keys()
            saved += len(out) * (seeds - some)
            alive = [k for k in alive if k not in out]
        finished |= {k: [scores[k]] for k in alive}
    return stopped, saved / (len(means) * seeds)


def test_the_race_rarely_stops_the_best():
    random = np.random.default_rng(0)
    wrong = 0
    for _ in range(100):
        means = np.zeros(25)
        best = random.integers(1, 25)
        means[best] = 0.1  # hardly better: nothing is easier than to stop it by mistake
        wrong += best in race(random, means)[0]
    assert wrong <= 5


def test_the_race_stops_what_is_behind():
    random = np.random.default_rng(0)
    saved = [race(random, random.normal(0, 2, 25))[1] for _ in range(5)]
    assert np.mean(saved) > 0.4
    stopped, _ = race(random, [0.0] * 8 + [-20.0])
    assert 8 in stopped


def test_stages_and_levels():
    assert racing.stage_sizes(4, 16) == (4, 8, 16)
    assert racing.stage_sizes(3, 16) == (3, 6, 12, 16)
    assert racing.stage_sizes(8, 8) == (8,)
    assert racing.look_level(0.95, 2, 5) == pytest.approx(0.005)


def test_saved_runs_are_those_not_done(tmp_path, fake):
    outcome = spaql.tune(study(tune={"trials": 12}), tmp_path)
    fresh = {
        run.id
        for values in (outcome.winner.values, {})
        for many in outcome.study.evaluation_groups(values)
        for run in many.runs
    }
    assert outcome.saved_runs > 0
    assert outcome.count("stopped") > 0
    assert (
        len(fake.runs) == len({run.id for run in fake.runs}) == outcome.planned_runs - outcome.saved_runs + len(fresh)
    )
    used = {
        run.seed for trial in outcome.trials for many in outcome.study.trial_groups(trial.values) for run in many.runs
    }
    assert not used & {run.seed for run in fake.runs if run.id in fresh}
    words = " ".join(outcome.summary())
    assert f"saved {outcome.saved_runs:,} of {outcome.planned_runs:,} runs" in words


# Two numbers ---------------------------------------------------------------------------------------------------------


def test_the_best_of_pure_noise_is_told_as_such(tmp_path, monkeypatch):
    installed(monkeypatch, noise=1.0, quality=lambda parameters: 5.0)
    outcome = spaql.tune(study(tune={"trials": 30, "seeds": 4, "evaluation_seeds": 400, "batch": 10}), tmp_path)
    assert outcome.tuning_score.mean > 5.6
    assert outcome.evaluation.mean == pytest.approx(5.0, abs=0.15)
    assert outcome.evaluation.low < 5.0 < outcome.evaluation.high
    assert outcome.bias.mean == pytest.approx(outcome.tuning_score.mean - outcome.evaluation.mean)
    last = outcome.gains[-1]
    assert last.difference.low < 0 < last.difference.high
    assert last.probability_of_improvement == pytest.approx(0.5, abs=0.06)
    assert "no significant difference" in outcome.summary()[-1]
    assert "tuning did not help" in outcome.summary()[-1]
    assert outcome.verdict.startswith(
        f"No difference beyond chance: the winner, {outcome.winner}, minus the defaults is "
    )
    page = (tmp_path / "report.html").read_text()
    assert 0 < page.index(outcome.verdict) < page.index("<table>")
    number = outcome.winner.number or "0, defaults"
    assert f'<tr class="marked"><th scope="row">{number} <span class="mark">winner</span></th>' in page


def test_defaults_that_are_best_win(tmp_path, monkeypatch):
    installed(monkeypatch, noise=0.01, quality=lambda parameters: float("scaling" not in parameters))
    outcome = spaql.tune(study(tune={"trials": 3}), tmp_path)
    assert outcome.winner is outcome.trials[0]
    assert outcome.parameters == {"heat": 3.0}
    assert "No trial beat the default parameters" in outcome.summary()[-1]
    assert outcome.verdict == "No trial beat the default parameters, so tuning did not help."
    assert [run.seed for many in outcome.study.trial_groups({}) for run in many.runs] == [
        run.seed for group in spaql_groups(study()) for run in group.runs[:8]
    ]


def test_evaluations_are_rows_of_their_own_in_the_table(tmp_path, fake):
    result = spaql.tune(study(), tmp_path)
    rows = {row.algorithm: row for row in compare(read_values(tmp_path)).rows}
    winner, default = (rows.pop(f"spaql: {name}, other seeds") for name in ("winner", "default"))
    assert (winner.n, winner.mean) == (6, result.evaluation.mean)
    assert (default.n, default.mean) == (6, result.gains[-1].default.mean)
    assert [row.n for row in rows.values()] == [trial.seeds for trial in result.trials]
    np.testing.assert_allclose([row.mean for row in rows.values()], [value.mean for value in result.values.values()])


def spaql_groups(told):
    """Groups of a sweep of the same study."""
    from spaql.studies.sweep.sweep_study import Sweep

    return Sweep({**told, "seeds": 8}).groups


def test_several_problems_count_alike(tmp_path, monkeypatch):
    installed(monkeypatch, noise=0.5)
    two = study(problems=[{"problem": "oil"}, {"problem": "ambulance"}], tune={"trials": 4})
    outcome = spaql.tune(two, tmp_path)
    default, third = outcome.trials[0].scores, outcome.trials[3].scores
    by_hand = np.mean([(np.mean(x) - np.mean(d)) / np.std(d, ddof=1) for x, d in zip(third, default, strict=True)])
    assert outcome.values[3].mean == pytest.approx(by_hand)
    assert outcome.values[0].mean == pytest.approx(0.0, abs=1e-12)
    assert [trial.problem for trial in outcome.gains] == ["oil", "ambulance", "all problems"]
    assert len(outcome.to_dict()["trials"][3]["scores"]) == 2
    assert outcome.importance is None
    assert "fewer than 10 finished trials" in (tmp_path / "report.html").read_text()  # says the page of importance


def test_fresh_episodes_and_metric(tmp_path, fake):
    told = study(
        problems=[{"problem": "oil", "episodes": 7}],
        tune={"trials": 1, "evaluation_episodes": 99, "metric": "training_score"},
    )
    outcome = spaql.tune(told, tmp_path)
    assert {run.episodes for run in fake.runs} == {7, 99}
    assert outcome.evaluation.mean > quality(outcome.parameters) + 0.8


# Failures ------------------------------------------------------------------------------------------------------------


def test_a_failed_trial_does_not_win_and_can_be_retried(tmp_path, monkeypatch):
    def breaks(parameters):
        if 0.02 < parameters.get("scaling", 0.5) < 0.3:  # where it is best
            raise RuntimeError("the pump broke")
        return quality(parameters)

    fake = installed(monkeypatch, quality=breaks)
    outcome = spaql.tune(study(), tmp_path)
    failed = [trial for trial in outcome.trials if trial.state == "failed"]
    assert failed
    assert outcome.winner.state == "complete"
    assert "the pump broke" in failed[0].note
    assert f"{len(failed)} failed" in outcome.summary()[0]
    fake.quality = quality
    again = spaql.tune(study(), tmp_path)
    assert again.count("failed") == len(failed)
    mended = spaql.tune(study(), tmp_path, retry_failed=True)
    assert mended.count("failed") == 0
    assert [trial.values for trial in mended.trials] == [trial.values for trial in outcome.trials]
    assert [trial["state"] for trial in told_to_optuna(tmp_path)] == [trial.state for trial in mended.trials]


def stopped_between(patch):
    """Stop after the first batch that is written."""

    from spaql.studies.study import _Execution

    def write(self, files, before=_Execution.write):
        before(self, files)
        if files:
            raise KeyboardInterrupt

    patch.setattr(_Execution, "write", write)


def stopped_within(patch):
    """Stop when half of the trials are told anew, at the end."""
    import optuna

    def add(self, trial, before=optuna.study.Study.add_trial):
        if trial.user_attrs["trial"] == 8:
            raise KeyboardInterrupt
        before(self, trial)

    def write(self, result, last, before=OptunaStudy.write_trials):
        if last:
            patch.setattr(optuna.study.Study, "add_trial", add)
        before(self, result, last=last)

    patch.setattr(OptunaStudy, "write_trials", write)


@pytest.mark.parametrize("stop", [stopped_between, stopped_within])
def test_a_retry_that_is_stopped_forgets_no_later_trial(tmp_path, monkeypatch, stop):
    def breaks(parameters):
        if parameters.get("scaling") == second:
            raise RuntimeError("the pump broke")
        return quality(parameters)

    more = study(tune={"trials": 16, "seeds": 4})  # TPE asks at random before it knows ten
    whole, folder = tmp_path / "whole", tmp_path / "stopped"
    fake = installed(monkeypatch)
    second = spaql.tune(more, whole, trials=2).trials[2].values["scaling"]
    shutil.rmtree(whole)
    fake.quality = breaks
    tried = [trial.values for trial in spaql.tune(more, whole).trials]
    shutil.copytree(whole, folder)
    fake.quality = quality
    spaql.tune(more, whole, retry_failed=True)
    with monkeypatch.context() as patch:
        stop(patch)
        with pytest.raises(KeyboardInterrupt):
            spaql.tune(more, folder, retry_failed=True)
    assert len(json.loads(said(folder))["trials"]) == 5  # the first batch was written; no other had anything to do
    found = told_to_optuna(folder)
    assert [trial["trial"] for trial in found] == list(range(17))
    assert found[2]["state"] == "failed"  # not told yet
    outcome = spaql.tune(more, folder, retry_failed=True)
    assert [trial.values for trial in outcome.trials] == tried
    assert said(folder) == said(whole)
    assert told_to_optuna(folder) == told_to_optuna(whole)
    assert told_to_optuna(folder)[2]["state"] != "failed"


def test_a_short_retry_keeps_the_trials_beyond(tmp_path, monkeypatch):
    def breaks(parameters):
        if "scaling" in parameters:
            raise RuntimeError("the pump broke")
        return quality(parameters)

    fake = installed(monkeypatch, quality=breaks)
    spaql.tune(study(), tmp_path)
    fake.quality = quality
    spaql.tune(study(), tmp_path, trials=4, retry_failed=True)
    failed = [trial["trial"] for trial in told_to_optuna(tmp_path) if trial["state"] == "failed"]
    assert failed == list(range(5, 11))


def test_defaults_that_fail(tmp_path, monkeypatch):
    def breaks(parameters):
        if "scaling" not in parameters:
            raise RuntimeError("the pump broke")
        return quality(parameters)

    installed(monkeypatch, quality=breaks)
    outcome = spaql.tune(study(tune={"trials": 2}), tmp_path / "one")
    assert outcome.trials[0].state == "failed"
    assert "The default failed on an evaluation seed" in outcome.summary()[-1]
    assert not outcome.complete
    with pytest.raises(StudyError, match="default parameters failed"):
        spaql.tune(study(problems=[{"problem": "oil"}, {"problem": "ambulance"}]), tmp_path / "two")


def test_nothing_but_failures(tmp_path, monkeypatch):
    def breaks(parameters):
        raise RuntimeError("the pump broke")

    installed(monkeypatch, quality=breaks)
    outcome = spaql.tune(study(tune={"trials": 2}), tmp_path)
    assert outcome.winner is None
    assert "there is no winner" in outcome.summary()[-1]
    assert not (tmp_path / "best.json").exists()


# Optuna --------------------------------------------------------------------------------------------------------------


def told_to_optuna(folder):
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    found = optuna.load_study(study_name="spaql", storage=f"sqlite:///{folder / FILE}")
    optuna.logging.set_verbosity(before)
    return [trial.user_attrs for trial in found.trials]


def test_optuna_is_silent_and_its_file_is_its_own(tmp_path, fake, capfd):
    import optuna

    before = optuna.logging.get_verbosity()
    folder = tmp_path / "what? {a}%20 folder"
    outcome = spaql.tune(study(), folder, progress_bar=False)
    printed = capfd.readouterr()
    assert printed.out == printed.err == ""
    assert optuna.logging.get_verbosity() == before
    (folder / FILE).rename(tmp_path / FILE)
    found = told_to_optuna(tmp_path)
    assert [trial["trial"] for trial in found] == [trial.number for trial in outcome.trials]
    assert outcome.importance is not None
    assert sum(outcome.importance.values()) == pytest.approx(1.0)
    (folder / FILE).write_bytes(b"no database" * 1000)
    with pytest.raises(StoreError, match="move it away"):
        spaql.tune(study(), folder)


def test_other_ranges_are_another_search(tmp_path, fake):
    spaql.tune(study(tune={"trials": 2}), tmp_path)
    narrow = study(algorithm={"random": {"scaling": {"low": 1.0, "high": 2.0}}})
    outcome = spaql.tune(narrow, tmp_path)
    assert all(1.0 <= trial.values["scaling"] <= 2.0 for trial in outcome.trials[1:])
    assert outcome.study.defaults is None  # 0.5 lies outside
    assert len(told_to_optuna(tmp_path)) == 10
    assert outcome.winner.number > 0
    assert "the winner is worse" in outcome.summary()[-1] or "no significant" in outcome.summary()[-1]


def test_choices(tmp_path, fake):
    spans = {"scaling": {"choices": [0.1, 0.5, 4]}, "splits_before_reset": {"choices": [1, 2]}}
    outcome = spaql.tune(study(algorithm={"random": spans}), tmp_path)
    assert {trial.values["scaling"] for trial in outcome.trials[1:]} <= {0.1, 0.5, 4}
    assert outcome.parameters["scaling"] == 0.1
    assert outcome.study.defaults == {"scaling": 0.5, "splits_before_reset": 2}


def test_without_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ParameterError, match=r"spaql\[tune\]"):
        spaql.tune(study(), tmp_path)


# Study files ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"tune": {"trial": 3}}, "tune: unknown key 'trial'"),
        ({"tune": {"trials": 0}}, "tune.trials: expected a number greater than or equal to 1, got 0"),
        ({"tune": {"seeds": 1}}, "tune.seeds: expected a number greater than or equal to 2, got 1"),
        ({"tune": {"batch": True}}, "tune.batch: expected an integer"),
        ({"tune": {"first_seeds": 9}}, "tune: first_seeds is 9, more than the 8"),
        ({"tune": {"confidence": 1.0}}, "tune.confidence: expected a number"),
        ({"tune": {"metric": "arms"}}, "tune.metric: expected 'evaluation' or 'training_score', got 'arms'"),
        ({"seeds": 5}, "study: seeds is not for tuning; set seeds and evaluation_seeds"),
        ({"problems": [{"problem": "oil", "seeds": 5}]}, r"problems\[1\]: seeds is not for tuning"),
        ({"algorithm": {"random": {}}}, "no parameter to tune"),
        ({"algorithm": {"grid": {"temperature_min": [0.1, 0.2]}}}, "grid: not for tuning"),
        ({"algorithm": {"list": [{"temperature_min": 0.1}]}}, "list: not for tuning"),
        ({"algorithm": {"draws": 3}}, "draws: not for tuning"),
        ({"algorithm": {"random": {"scaling": {"low": -1.0, "high": 1.0}}}}, "scaling: expected"),
        ({"algorithm": {"random": {"scaling": {"choices": [1, "1"]}}}}, "look the same|scaling: expected"),
        ({"algorithms": [{"algorithm": "tessera"}, {"algorithm": "aql"}]}, "a tuning has one algorithm"),
    ],
)
def test_bad_studies_are_one_sentence(changes, sentence):
    with pytest.raises(SpaqlError, match=sentence) as error:
        Tuning.load(study(**changes))
    assert "\n" not in str(error.value)


def test_a_table_that_is_none():
    with pytest.raises(StudyError, match="tune: expected a table"):
        Tuning.load({**study(), "tune": 3})


def test_the_example_is_that_of_the_page():
    search = Tuning.load(Path(__file__).parents[1] / "examples" / "studies" / "tune.toml")
    assert search.defaults == {"scaling": 0.5, "rollouts": 20, "heat_decay": 0.8}
    (block,) = docs_for_tests.find_blocks(docs_for_tests.read_page("how-to/tuning.md"), "toml")
    assert tomllib.loads(block) == search.data


# Command line and files ----------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(
        'iterations = 10\nproblems = [{ problem = "oil" }]\ntune = { trials = 10, seeds = 8, evaluation_seeds = 6 }\n'
        '[[algorithms]]\nalgorithm = "aql"\nrandom = { scaling = { low = 0.01, high = 4.0, log = true } }\n'
    )
    return path


def test_command(tmp_path, file, fake, capsys, monkeypatch):
    monkeypatch.setattr("spaql.studies.study._draw", DRAW)
    folder = tmp_path / "out"
    assert main(["tune", str(file), "--out", str(folder), "--quiet"]) == 0
    printed = capsys.readouterr()
    assert "10 of 10 trials" in printed.out
    assert "selection bias" in printed.out
    assert printed.err == ""
    best = json.loads((folder / "best.json").read_text())
    assert best["algorithm"] == "aql"
    assert set(best["parameters"]) == {"scaling"}
    for name in ("best.json", "tune.json"):  # as they are
        words = ["--params", str(folder / name), "--iterations", "5", "--episodes", "5", "--json", "--quiet"]
        assert main(["train", "oil", *words]) == 0
        assert json.loads(capsys.readouterr().out)["parameters"]["scaling"] == best["parameters"]["scaling"]
    for name in ("report.html", "figures/tuning-history.png", "figures/tuning-importance.svg"):
        assert (folder / name).stat().st_size > 1000
    assert main(["tune", str(file), "--out", str(folder), "--trials", "5", "--json", "--quiet"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["complete"], len(told["trials"])) == (True, 6)
    assert len(told_to_optuna(folder)) == 11  # those beyond are kept
    file.write_text(file.read_text().replace("trials = 10", "trials = 0"))
    assert main(["tune", str(file), "--out", str(folder)]) == 2
    assert "study.toml': tune.trials: expected" in capsys.readouterr().err


def test_the_page_draws_its_charts(tmp_path, fake, driver):
    import browsers

    spans = {"scaling": {"low": 0.01, "high": 4.0, "log": True}, "splits_before_reset": {"choices": [1, 2]}}
    spaql.tune(study(algorithm={"random": spans}), tmp_path)
    reader = browsers.Reader(driver, (tmp_path / "report.html").as_uri())
    reader.open()
    reader.run("dispatchEvent(new Event('beforeprint'))")  # draws what is out of sight too
    reader.wait(lambda: reader.run("return document.querySelectorAll('figure .main-svg').length") >= 5)
    assert reader.run("return document.querySelectorAll('figure[data-chart]').length") == 5
    assert reader.complaints() == []


def test_stopped_by_hand(tmp_path, file, fake, monkeypatch, capsys):
    folder = tmp_path / "out"

    def interrupted(run, check=None):
        if len(fake.runs) in (4, 45):  # before the first report, and after it
            os.kill(os.getpid(), signal.SIGINT)
        return fake(run)

    monkeypatch.setattr(ENGINE, "execute", interrupted)
    for _ in range(2):
        assert main(["tune", str(file), "--out", str(folder), "--quiet", "--workers", "1"]) == 130
        assert f"kept in {folder}, and the same command resumes" in capsys.readouterr().err
    assert len(json.loads(said(folder))["trials"]) == 5  # the defaults and the first batch
    monkeypatch.setattr(ENGINE, "execute", fake)
    for out in (folder, tmp_path / "whole"):
        assert main(["tune", str(file), "--out", str(out), "--quiet"]) == 0
    assert said(folder) == said(out)
