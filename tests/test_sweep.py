"""A study from its file: what it means, what is wrong with it, and that doing it again does only what is new."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import spaql
from figures_for_tests import draw_digest
from spaql.cli import main
from spaql.errors import ParameterError, StudyError
from spaql.runner.execute import execute
from spaql.runner.run_spec import Run
from spaql.runner.store import STORE, Store
from spaql.studies import study as studies
from spaql.studies.paper import plan
from spaql.studies.sweep.sweep_study import Sweep
from sweeps_for_tests import STUDY_DATA

EXAMPLES = Path(__file__).parent.parent / "examples" / "studies"
SMALL = """
seeds = 3
iterations = 20
episodes = 10

[[problems]]
problem = "oil"
grid = { sharpness = [1, 10] }

[[algorithms]]
algorithm = "aql"
parameters = { rollouts = 0 }
grid = { scaling = [0.1, 0.5] }

[[algorithms]]
algorithm = "random"
"""


def parse(text):
    return Sweep(tomllib.loads(text))


def ids(text):
    return {run.id for run in parse(text).runs}


# What it means ---------------------------------------------------------------------------------------------------


def test_every_combination_is_a_group():
    study = parse(SMALL)
    assert [(group.problem, group.label) for group in study.groups] == [
        (f"oil, sharpness={sharpness}", algorithm)
        for sharpness in (1, 10)
        for algorithm in ("aql, scaling=0.1", "aql, scaling=0.5", "random")
    ]
    assert len(study.runs) == 2 * 3 * 3
    assert len({run.seed for run in study.runs}) == 18
    first = study.groups[1]
    assert first.varied == {"scaling": 0.5}
    assert dict(first.runs[0].parameters) == {"rollouts": 0, "scaling": 0.5}
    assert (first.runs[0].iterations, study.groups[2].runs[0].iterations) == (20, 0)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("seeds = 3", "seeds = 5"),
        ("sharpness = [1, 10]", "sharpness = [0.5, 1, 10, 50]"),
        ("scaling = [0.1, 0.5]", "scaling = [0.5, 2.0, 0.1]"),
        ('algorithm = "random"', 'algorithm = "random"\n[[algorithms]]\nalgorithm = "tessera"'),
        ('algorithm = "aql"', 'algorithm = "aql"\nlabel = "another name"'),
        ("scaling = [0.1, 0.5]", "scaling = [0.1, 0.5, 2.0]"),
        ("sharpness = [1, 10]", "sharpness = [1.0, 10.0]"),
        ("seeds = 3", 'name = "another"\nbaseline = "random"\nseeds = 3'),
    ],
)
def test_a_change_of_the_file_changes_no_other_run(before, after):
    assert before in SMALL
    assert ids(SMALL) <= ids(SMALL.replace(before, after, 1))


def test_seeds_can_be_named():
    study = parse(SMALL.replace("seeds = 3", "seeds = [7, 0, 2]"))
    assert all([run.seed for run in group.runs] == [7, 0, 2] for group in study.groups)


def test_algorithms_can_share_random_numbers():
    study = parse('seeding = "{problem}"\n' + SMALL)
    seeds = {group.problem: tuple(run.seed for run in group.runs) for group in study.groups}
    assert all(tuple(run.seed for run in group.runs) == seeds[group.problem] for group in study.groups)
    assert len(set(seeds.values())) == 2


def test_draws_are_within_their_ranges_and_more_of_them_change_none():
    head = SMALL.partition("[[algorithms]]")[0]
    drawn = """
        [[algorithms]]
        algorithm = "spaql"
        list = [{ scaling = 0.1 }, { scaling = 0.2 }]
        draws = NUMBER
        [algorithms.random]
        temperature_min = { low = 0.01, high = 1.0, log = true }
        heat = { low = 2, high = 6 }
        rollouts = { low = 2, high = 4, whole = true }
        heat_decay = { choices = [0.125, 0.25] }
    """
    few, many = (parse(head + drawn.replace("NUMBER", str(number))) for number in (4, 40))
    assert {run.id for run in few.runs} < {run.id for run in many.runs}
    assert len(many.groups) == 2 * 2 * 40
    values = [group.varied for group in many.groups]
    assert all(0.01 <= value["temperature_min"] <= 1 and 2 <= value["heat"] <= 6 for value in values)
    assert {value["rollouts"] for value in values} == {2, 3, 4}
    assert {value["heat_decay"] for value in values} == {0.125, 0.25}
    assert sum(value["temperature_min"] < 0.1 for value in values) in range(40, 121)  # by equal factors


def test_steps_and_points():
    text = SMALL.replace("iterations = 20", "steps = 1000\npoints = 4")
    study = parse(text)
    assert study.groups[0].runs[0].budgets == (250, 500, 750, 1000)
    assert study.groups[2].runs[0].budgets == (1000,)
    other = parse(text.replace('problem = "oil"', 'problem = "oil"\niterations = 7\nseeds = 1\nepisodes = 9'))
    run = other.groups[0].runs[0]
    assert (run.iterations, run.budgets, run.episodes, run.moments, run.moment_episodes) == (7, (), 9, 4, 9)
    assert len(other.runs) == 6


def test_the_examples_can_be_read():
    for path in EXAMPLES.glob("*.toml"):
        assert Sweep.load(path).runs, path


def test_the_example_of_the_paper_is_the_paper():
    full = plan.full()
    wanted = {
        run.id
        for setting in full.short
        for algorithm in plan.LEARNERS
        for scaling in full.scalings
        for run in full.study(setting, algorithm, scaling).runs
    }
    assert {run.id for run in Sweep.load(EXAMPLES / "paper.toml").runs} == wanted


# What is wrong with it ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ("seeds = 3", "seeds = = 3", "is not valid TOML"),
        ("seeds = 3", "seeds = 0", "seeds: expected an integer from 1"),
        ("seeds = 3", "seeds = true", "seeds: expected an integer from 1"),
        ("seeds = 3", "seeds = [1, 1]", "seeds: expected at least one seed, and each seed once"),
        (
            "seeds = 3",
            "seeds = 3\nsedes = 4",
            "study: unknown key 'sedes'; choose from seeds, steps, .*seeding, baseline",
        ),
        ("iterations = 20", "", "set either steps or iterations"),
        ("iterations = 20", "iterations = 20\nsteps = 5", "steps and iterations are both set; remove one"),
        ("iterations = 20", "iterations = 2.5", "iterations: expected an integer"),
        ("episodes = 10", "episodes = 1", "episodes: expected a number greater than or equal to 2, got 1"),
        ('"oil"', '"gas"', r"problems\[1\]: unknown problem 'gas'; choose a built-in problem \(.*oil"),
        ('"oil"', '"oil"\nbounds = { a = [0, 1] }', "bounds is for Gymnasium environments; oil takes arguments"),
        ('"oil"', '"oil"\nenv_kwargs = { depth = 3 }', "env_kwargs is for Gymnasium environments; oil takes arguments"),
        ('"oil"', '"a:b"\narguments = { depth = 3 }', "arguments is for built-in problems; give those of a:b as env_"),
        ('"oil"', '"oil"\narguments = { depth = 3 }', r"problems\[1\]: arguments of oil: unknown 'depth'"),
        ('"oil"', '"oil"\narguments = { survey = "deep" }', r"problems\[1\]: survey: expected one of laplace"),
        (
            "[[algorithms]]",
            '[[problems]]\nproblem = "oil"\ngrid = { sharpness = [1] }\n[[algorithms]]',
            "problems: two have the label 'oil, sh",
        ),
        ("grid = { sharpness = [1, 10] }", "grid = { sharpness = 1 }", "grid.sharpness: expected a list of values"),
        ("sharpness = [1, 10]", "sharpness = [1, 1]", "grid.sharpness: the same value is listed twice"),
        ('"aql"', '"dqn"', r"algorithms\[1\]: algorithm: 'dqn' is not one of .*spaql"),
        ("rollouts = 0", "rolouts = 0", "parameters of aql: unknown 'rolouts'; choose from scaling, rollouts"),
        ("rollouts = 0", "seed = 0", "unknown 'seed'.*seeds are set by the study"),
        ("rollouts = 0", "scaling = 1", "scaling is given twice"),
        ("rollouts = 0", "rollouts = -1", "algorithm 'aql, scaling=0.1': rollouts: "),
        ('algorithm = "random"', 'algorithm = "aql"', "algorithms: two have the label 'aql'; give each its own label"),
        ('algorithm = "random"', 'algorithm = "random"\ndraws = 3', "draws needs random"),
        ('algorithm = "random"', 'algorithm = "mean"', "problem 'oil, sharpness=1' with algorithm 'mean': "),
        (
            "seeds = 3",
            'seeds = 3\nbaseline = "aql"',
            "baseline: 'aql' is not an algorithm; choose from 'aql, scaling=0.1'",
        ),
        ("seeds = 3", 'seeds = 3\nseeding = "{"', "seeding: '{' is not a valid template"),
        ("seeds = 3", "seeds = 9000000", "more than 10,000,000 runs"),
        ("seeds = 3", 'seeds = 3\nbaseline = ["aql"]', r"baseline: expected a string, got \['aql'\]"),
        (
            "seeds = 3",
            'seeds = 3\nseeding = "{scalng}"',
            "seeding: unknown 'scalng'; choose from algorithm,.* problem",
        ),
        (
            '"oil"',
            '"oil"\narguments = { start = 2020-01-01 }',
            r"problems\[1\].arguments.start: 2020-01-01 is not allowed",
        ),
        (
            "scaling = [0.1, 0.5]",
            "scaling = [0.1, inf]",
            r"algorithms\[1\].grid.scaling: inf is not allowed; use strings",
        ),
        ("rollouts = 0", "rollouts = 0 }\nlist = [{ }, { rollouts = 3 }]\n#", "rollouts is given twice"),
        (
            "sharpness = [1, 10]",
            f"sharpness = {list(range(500))}, start = {list(range(500))}",
            "more than 200,000 comb",
        ),
        ('"oil"', '"oil"\nlabel = "a\\nb"', r"problems\[1\].label: expected a string of one line"),
        ('"aql"', '"aql"\nlabel = ""', r"algorithms\[1\].label: expected a string of one line"),
        ('"oil"', '"oil"\narguments = { sharpness = 3 }', "sharpness is given twice; set it in one of arguments, grid"),
        ('algorithm = "random"', 'algorithm = "spaql-ts"', r"algorithms\[2\]: spaql-ts needs the parameter reference"),
        ('"oil"', '"Tank-v0"\nbounds = 3', r"problems\[1\].bounds: expected a table of \[low, high\]"),
        ('"oil"', '"Tank-v0"\nperiodic = "angle"', r"problems\[1\].periodic: expected a list"),
        ('"oil"', '"Tank-v0"\nhorizon = "x"', r"problems\[1\].horizon: expected an integer"),
    ],
)
def test_a_mistake_in_a_file_is_one_sentence(tmp_path, before, after, sentence):
    assert before in SMALL
    file = tmp_path / "my.toml"
    file.write_text(SMALL.replace(before, after, 1))
    with pytest.raises(StudyError, match=sentence) as caught:
        Sweep.load(file)
    assert str(caught.value).startswith(f"study file {str(file)!r}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        ("{ low = 2, high = 1 }", "with low below high"),
        ("{ low = 0, high = 1, log = true }", "log needs a low above 0"),
        ("{ low = 0.5, high = 3, whole = true }", "whole needs integers as low and high"),
        ("{ choices = [] }", "choices: expected a list of values"),
        ("{ low = 1, high = 2, steps = 3 }", "unknown key 'steps'; choose from low, high"),
        ("{ low = 1, high = 2, log = 3 }", "log: expected true or false"),
        ("3", "expected a table"),
    ],
)
def test_a_range_that_cannot_be(told, sentence):
    text = SMALL.replace("grid = { scaling = [0.1, 0.5] }", f"random = {{ scaling = {told} }}\ndraws = 2")
    with pytest.raises(StudyError, match=rf"algorithms\[1\].random.scaling.*{sentence}"):
        parse(text)


# Doing it ------------------------------------------------------------------------------------------------------------


def test_only_what_is_new_is_done(tmp_path, capsys):
    file = tmp_path / "small.toml"
    file.write_text(SMALL)
    out = tmp_path / "out"
    assert main(["sweep", str(file), "--out", str(out), "--quiet"]) == 0
    assert "18 of 18 runs finished" in capsys.readouterr().out
    file.write_text(SMALL.replace("seeds = 3", "seeds = 4"))
    assert main(["sweep", "run", str(file), "--out", str(out), "--quiet", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["done"] == 24
    with Store.open_readonly(out / "runs.sqlite") as store:
        assert len(store) == 24
        assert store.progress["done_now"] == 6


def test_failures_are_told_and_tried_again_where_asked(tmp_path, capsys, monkeypatch):
    base = sys.modules["spaql.runner.engines.engine"]

    file = tmp_path / "small.toml"
    file.write_text(SMALL)
    execute = base.execute
    unlucky = {run.seed for run in Sweep.load(file).groups[0].runs[:2]}

    def breaks(run, check):
        if run.seed in unlucky:
            raise RuntimeError("the pump broke")
        return execute(run, check)

    monkeypatch.setattr(base, "execute", breaks)
    command = ["sweep", str(file), "--out", str(tmp_path / "out"), "--quiet"]
    assert main(command) == 1
    said = capsys.readouterr()
    assert "16 of 18 runs finished" in said.out
    assert "2 runs failed: RuntimeError: the pump broke" in said.err
    assert said.err.count("the pump broke") == 1  # each reason once
    assert "--retry-failed" in said.err
    assert "\n\n\n" not in said.out
    assert "spaql sweep table" not in said.out  # the table stands above
    monkeypatch.undo()
    assert main(command) == 1  # not by itself
    assert main([*command, "--retry-failed"]) == 0


def test_a_wrong_engine_or_folder_is_told_before_anything_is_written(tmp_path, capsys):
    file = tmp_path / "small.toml"
    file.write_text(SMALL)
    out = tmp_path / "out"
    for words, sentence in (
        (["--address", "tcp://127.0.0.1:1", "--engine", "threads"], "address: only dask has one"),
        (["--workers", "0"], "workers: "),
        (["--run-timeout", "0"], "run_timeout: "),
    ):
        assert main(["sweep", str(file), "--out", str(out), "--quiet", *words]) == 2
        assert sentence in capsys.readouterr().err
    assert not out.exists()
    assert main(["sweep", str(tmp_path / "none.toml"), "--out", str(out)]) == 2
    assert "cannot be read: No such file or directory; check its name" in capsys.readouterr().err


def test_what_is_wrong_with_a_study_is_told_before_it_begins(tmp_path):
    base = {"steps": 100, "algorithms": [{"algorithm": "tessera"}]}
    for problem, sentence in (
        ({"problem": "nowhere:Tank-v0"}, "there is no module 'nowhere'"),
        ({"problem": "Nothing-v0"}, "'Nothing-v0' cannot be made: Environment `Nothing` doesn't exist"),
        ({"problem": "CartPole-v1", "env_kwargs": {"gravty": 3}}, "unexpected keyword argument 'gravty'"),
        ({"problem": "tests.tabular:make_oil", "env_kwargs": {"foo": 1}}, "unexpected keyword argument 'foo'"),
        ({"problem": "CartPole-v1", "bounds": {"speed": [0, 1]}}, "bounds: 'speed' is no observed number"),
        ({"problem": "machine", "optimum": 1.0}, r"problems\[1\]\.optimum: 1 is stated, and .* is computed"),
        ({"problem": "oil", "steps": 3}, "steps: 3 are too few for one iteration, which takes 5; give it more"),
    ):
        with pytest.raises(StudyError, match=sentence):
            spaql.sweep({**base, "problems": [problem]}, tmp_path / "out")
    ranges = {"algorithm": "tessera", "random": {"exploration": {"low": 0.1, "high": 0.2}}}
    with pytest.raises(StudyError, match="random of tessera needs draws"):
        spaql.sweep({**base, "problems": [{"problem": "oil"}], "algorithms": [ranges]}, tmp_path / "out")
    with pytest.raises(ParameterError, match="study: expected the path of a study file, or its contents, got 3"):
        spaql.sweep(3, tmp_path / "out")
    for heuristic in ("mean", "no-movement"):
        pair = {"problems": [{"problem": "CartPole-v1"}], "algorithms": [{"algorithm": heuristic}]}
        with pytest.raises(StudyError, match=f"'CartPole-v1' with .*'{heuristic}': this heuristic needs the ambulance"):
            spaql.sweep({**base, **pair}, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "study.json").write_text("mine")
    (tmp_path / "folder" / "study.json").mkdir(parents=True)
    with pytest.raises(StudyError, match="belongs to something else"):
        spaql.sweep(base | {"problems": [{"problem": "oil"}]}, tmp_path / "folder")
    with pytest.raises(StudyError, match="belongs to something else"):
        spaql.sweep({**base, "problems": [{"problem": "oil"}]}, tmp_path / "other")
    assert (tmp_path / "other" / "study.json").read_text() == "mine"


def test_too_few_steps_in_an_environment_are_a_failure(tmp_path):
    """Only its runs know how long one of its episodes may be."""
    study = {"seeds": 2, "steps": 3, "problems": [{"problem": "CartPole-v1"}], "algorithms": [{"algorithm": "aql"}]}
    assert spaql.sweep(study, tmp_path, workers=1).failed == 2
    with Store.open_readonly(tmp_path / "runs.sqlite") as store:
        assert {failure.message for _, failure in store.failures().values()} == {
            "steps: 3 are too few for one iteration of aql; give it more"
        }


def test_the_warm_up_is_paid_once_and_points_do_not_fail():
    run = (
        Sweep(
            {
                "seeds": 1,
                "steps": 3000,
                "episodes": 2,
                "problems": [{"problem": "CartPole-v1", "horizon": 50}],
                "algorithms": [{"algorithm": "aql", "parameters": {"rollouts": 0}}],
            }
        )
        .groups[0]
        .run
    )
    for budgets in ((3000,), (600, 1200, 1800, 2400, 3000)):
        record = execute(replace(run, budgets=budgets))
        assert 3000 - 50 * len(budgets) <= record.scalars["training_steps"] <= 3000
    assert np.isnan(record.arrays["evaluation"]).tolist() == [True, False, False, False, False]


def test_the_same_from_python(tmp_path):
    file = tmp_path / "small.toml"
    file.write_text(SMALL)
    told = json.loads(json.dumps(dict(Sweep.load(file).data)))
    tally = spaql.sweep(told, tmp_path / "out", workers=2)
    assert (tally.total, tally.done, tally.failed) == (18, 18, 0)
    assert spaql.sweep(file, tmp_path / "out") == tally


@pytest.mark.compiled_only
def test_ctrl_c_stops_long_runs_and_keeps_what_is_done(tmp_path):
    file = tmp_path / "long.toml"
    file.write_text(SMALL + '[[problems]]\nproblem = "ambulance"\niterations = 100_000_000\n')
    command = [sys.executable, "-m", "spaql", "sweep", str(file), "--out", str(tmp_path / "out"), "--quiet"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    store = tmp_path / "out" / "runs.sqlite"
    while not store.exists() or process.poll() is not None:
        time.sleep(0.1)
        assert process.poll() is None
    while True:
        time.sleep(0.2)
        with Store.open_readonly(store) as reading:
            said = reading.progress
        if said and said["running"] == 2:
            break
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "finished runs are kept" in told
    assert "Traceback" not in told


@pytest.mark.compiled_only
def test_the_paper_is_one_sweep_more(tmp_path, capsys, monkeypatch):
    """A folder in which a sweep did the paper's runs has them for `spaql paper`, which runs on any engine."""
    small = Sweep.load(EXAMPLES / "paper.toml").data
    reduced = {**small, "problems": [dict(p, seeds=2) for p in small["problems"] if p["label"] == "oil-laplace-1"]}
    reduced["algorithms"] = [dict(a, grid={"scaling": [0.1, 0.5, 1.0, 2.0]}) for a in small["algorithms"]]
    assert spaql.sweep(reduced, tmp_path).done == 2 * 4 * 2
    monkeypatch.setattr(studies, "_draw", draw_digest)
    words = ["paper", "--quick", "--agents", "2", "--problems", "oil-laplace-1", "--out", str(tmp_path), "--quiet"]
    assert main([*words, "--engine", "processes", "--workers", "2"]) == 0
    capsys.readouterr()
    with Store.open_readonly(tmp_path / "runs.sqlite") as store:
        first = list(store.rows())[:16]
        assert {row.id for row in first} == {run.id for run in Sweep(reduced).runs}
        assert len(store) > 16


@pytest.mark.parametrize("levels", [27, 28, 30])
def test_a_study_that_could_not_be_read_again_performs_no_run(tmp_path, levels):
    """A value as deep as a study file may hold is deeper in the study's own file."""
    deep = 1
    for _ in range(levels):
        deep = [deep]
    run = Run("my_tanks:make", {"size": deep}, "random", {}, 0, 0, 2)
    study = Sweep(STUDY_DATA)
    study.groups = (studies.Group("deep", "random", run, [0]),)
    if levels == 27:
        assert json.loads(studies.describe(study, study.groups))["groups"][0]["run"]["arguments"] == {"size": deep}
        return
    with pytest.raises(StudyError, match=r"^study: study\.json cannot hold .* \(nested too deeply\); give others"):
        studies.run_study(study, tmp_path, workers=1)
    assert not (tmp_path / "study.json").exists()
    with Store.open_readonly(tmp_path / STORE) as store:
        assert len(store) == 0
