"""`spaql train`: folders that are not replaced unasked, files of parameters, evaluations and logs while training."""

import csv
import json
import os
import shlex
import signal
import subprocess
import sys
import time

import pytest

import spaql
from spaql.agents.callbacks import Evaluate
from spaql.cli import main, train
from spaql.runner.run_spec import Run
from spaql.runner.train_dir import TrainDir

QUICK = ["--iterations", "20", "--episodes", "10", "--quiet"]
OIL = Run("oil", {}, "tessera", {}, seed=0, iterations=100, episodes=10)
pytestmark = pytest.mark.tiny_planning


def run(*words):
    return main(["train", *map(str, words)])


def refused(capsys, *words):
    """Exit code 2, nothing on stdout, one line on stderr; that line."""
    try:
        code = run(*words)
    except SystemExit as stop:  # argparse
        code = stop.code
    out, err = capsys.readouterr()
    assert (code, out, err.count("\n")) == (2, "", 1), err
    return err.removeprefix("spaql: ").rstrip("\n")


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_counts_may_be_written_as_floats(capsys):
    assert run("oil", "--algorithm", "spaql", "--quiet", "--json", "--episodes", "1e1", "--timesteps", "1e3") == 0
    summary = json.loads(capsys.readouterr().out)
    assert 500 < summary["training_steps"] + summary["selection_steps"] <= 1000
    for text in ("1e-1", "inf", "nan", "many"):
        line = refused(capsys, "oil", "--timesteps", text)
        assert f"argument --timesteps: expected a whole number, got '{text}'" in line


# Folders ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["tessera", "tests.tabular:TabularQ"])
def test_a_finished_run_is_not_replaced(capsys, tmp_path, algorithm):
    assert run("oil", "--algorithm", algorithm, "--out", tmp_path, *QUICK) == 0
    capsys.readouterr()
    before = contents(tmp_path)
    assert refused(capsys, "oil", "--out", tmp_path, "--iterations", 10**9) == (
        f"--out {tmp_path}: it holds a finished run; spaql train --resume {tmp_path} --iterations N trains it further, "
        "and --overwrite replaces it"
    )
    assert contents(tmp_path) == before
    assert run("oil", "--algorithm", "random", "--out", tmp_path, "--overwrite", *QUICK) == 0
    assert type(spaql.load(tmp_path)).__name__ == "Random"


def test_an_unfinished_run_is_not_replaced(capsys, tmp_path):
    begun = TrainDir.begin(tmp_path, OIL)
    again = refused(capsys, "oil", "--out", tmp_path, *QUICK)
    assert again == (
        f"--out {tmp_path}: it holds an unfinished run without a checkpoint; spaql train --resume {tmp_path} starts it "
        "again, and --overwrite replaces it"
    )
    begun.keep(spaql.Tessera("oil").learn(iterations=40))
    (tmp_path / "agent.spaql").unlink()  # as after a kill
    further = refused(capsys, "oil", "--out", tmp_path, *QUICK)
    assert f"an unfinished run; spaql train --resume {tmp_path} continues it from its last checkpoint" in further
    assert run("oil", "--out", tmp_path, "--overwrite", *QUICK) == 0
    assert spaql.load(tmp_path).iterations == 20
    assert not (tmp_path / "checkpoint.spaql").exists()


def test_what_is_no_run_is_not_replaced_either(capsys, tmp_path):
    spaql.Random("oil").save(tmp_path / "agent.spaql")
    assert "it holds an agent; choose another folder, or add --overwrite" in refused(capsys, "oil", "--out", tmp_path)
    (tmp_path / "train.json").write_text("{")
    assert "it holds a run whose train.json cannot be read" in refused(capsys, "oil", "--out", tmp_path)
    assert "--overwrite: needs --out" in refused(capsys, "oil", "--overwrite", *QUICK)
    assert run("oil", "--out", tmp_path, "--overwrite", *QUICK) == 0
    capsys.readouterr()


def test_the_checkpoint_of_a_replaced_run_stays_until_there_is_a_new_agent(tmp_path):
    TrainDir.begin(tmp_path, OIL).keep(spaql.Tessera("oil").learn(iterations=40))
    (tmp_path / "agent.spaql").unlink()
    begun = TrainDir.begin(tmp_path, Run("ambulance", {}, "tessera", {}, 0, 5, 10))
    assert spaql.load(tmp_path).iterations == 40
    assert TrainDir.read(tmp_path).load_agent() is None  # it is not of this run
    begun.finish(spaql.Tessera("ambulance").learn(iterations=5))
    assert spaql.load(tmp_path).iterations == 5


def test_a_run_that_learned_nothing_leaves_the_folder_as_it_was(capsys, tmp_path):
    log = tmp_path / "other.csv"
    log.write_text("a,b\n")
    folder, words = tmp_path / "out", ["--log", log, *QUICK]
    assert "has other columns" in refused(capsys, "oil", "--out", folder, *words)
    assert not (folder / "train.json").exists()
    assert run("oil", "--out", folder, *QUICK) == 0  # it is free
    capsys.readouterr()
    before = contents(folder)
    assert "has other columns" in refused(capsys, "oil", "--out", folder, "--overwrite", *words)
    assert contents(folder) == before


# Files of parameters -------------------------------------------------------------------------------------------


def write_parameters(path, algorithm="spaql", **parameters):
    path.write_text(json.dumps({"algorithm": algorithm, "parameters": parameters, "complete": True}))
    return path


def test_a_file_of_parameters_names_its_algorithm_and_options_override_it(capsys, tmp_path):
    file = write_parameters(tmp_path / "best.json", scaling=0.25, rollouts=3)
    assert run("oil", "--params", file, "--rollouts", 2, "--json", *QUICK) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["algorithm"] == "spaql"
    assert (result["parameters"]["scaling"], result["parameters"]["rollouts"]) == (0.25, 2)
    assert result["parameters"]["heat"] == 2.0


def test_a_parameter_in_the_file_needs_no_option(capsys, tmp_path):
    file = write_parameters(tmp_path / "best.json", "spaql-ts", reference=[0.5], radius=0.5, rollouts=1)
    assert run("oil", "--algorithm", "spaql-ts", "--params", file, "--json", *QUICK) == 0
    assert json.loads(capsys.readouterr().out)["parameters"]["reference"] == [0.5]


def test_a_resumed_run_has_the_parameters_of_the_file(capsys, tmp_path):
    file = write_parameters(tmp_path / "best.json", scaling=0.25, rollouts=1)
    assert run("oil", "--params", file, "--out", tmp_path / "out", *QUICK) == 0
    file.unlink()
    assert run("--resume", tmp_path / "out", "--iterations", 30, "--quiet") == 0
    assert spaql.load(tmp_path / "out").get_params()["scaling"] == 0.25
    capsys.readouterr()


@pytest.mark.parametrize(
    ("text", "words", "sentence"),
    [
        (
            '{"algorithm": "spaql", "parameters": {"leaves": 3}}',
            [],
            "spaql has no parameter 'leaves'; it has scaling, ",
        ),
        ('{"algorithm": "spaql", "parameters": {"seed": 3}}', [], "spaql has no parameter 'seed'"),
        ('{"algorithm": "random", "parameters": {"x": 3}}', [], "random has no parameter 'x'; it has none"),
        (
            '{"algorithm": "spaql", "parameters": {}}',
            ["--algorithm", "aql"],
            "it has parameters of spaql, not of aql; leave --algorithm out",
        ),
        ('{"algorithm": "dqn", "parameters": {}}', [], "algorithm: 'dqn' is not one of"),
        ('{"algorithm": "spaql", "parameters": {"scaling": -1}}', [], "scaling: expected"),
        ('{"scaling": 3}', [], 'expected {"algorithm": "spaql", "parameters": {"scaling": 0.5}}'),
        ('{"algorithm": 3, "parameters": {}}', [], "its algorithm is not a text"),
        ("[1]", [], "expected {"),
        ("{", [], "expected {"),
        (None, [], "it cannot be read: No such file"),
    ],
)
def test_a_wrong_file_of_parameters_is_one_sentence(capsys, tmp_path, text, words, sentence):
    if text is not None:
        (tmp_path / "best.json").write_text(text)
    assert sentence in refused(capsys, "oil", "--params", tmp_path / "best.json", *words, *QUICK)


# Evaluations and logs -------------------------------------------------------------------------------------------


def test_evaluations_are_printed_and_logged(capsys, tmp_path):
    words = ["--eval-every", 40, "--eval-episodes", 3, "--log", tmp_path / "run.csv"]
    assert run("oil", "--iterations", 20, "--episodes", 10, *words, "--out", tmp_path / "out") == 0
    printed = [line for line in capsys.readouterr().err.splitlines() if "evaluation after" in line]
    rows = list(csv.DictReader((tmp_path / "run.csv").read_text().splitlines()))
    evaluate = Evaluate(40, episodes=3)
    agent = spaql.Tessera("oil").learn(iterations=20, callback=evaluate)
    logged = [(int(row["timesteps"]), float(row["evaluation"])) for row in rows if row["evaluation"]]
    assert logged == [(result.steps, result.mean) for result in evaluate.results]
    assert len(printed) == len(logged) == 2
    assert f"spaql: evaluation after 40 timesteps: {logged[0][1]:.4g} [" in printed[0]
    assert [row["iteration"] for row in rows] == [str(number) for number in range(1, 21)]
    agent.save(tmp_path / "alone.spaql")
    assert spaql.load(tmp_path / "out").history.tobytes() == agent.history.tobytes()  # it changes nothing


def test_a_resumed_run_is_logged_into_the_same_file(capsys, tmp_path):
    log = ["--log", tmp_path / "run.jsonl"]
    assert run("oil", "--out", tmp_path / "out", *log, *QUICK) == 0
    assert run("--quiet", "--resume", tmp_path / "out", "--iterations", 30, *log) == 0
    lines = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    assert [line["iteration"] for line in lines] == list(range(1, 31))
    capsys.readouterr()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--eval-every", "0"], "--eval-every: expected a whole number of at least 1, got 0"),
        (["--eval-every", "10", "--eval-episodes", "1"], "--eval-episodes: expected a whole number of at least 2"),
        (["--eval-episodes", "10"], "--eval-episodes: needs --eval-every"),
        (["--log", "run.txt"], "log 'run.txt': expected a file that ends in .csv or .jsonl, or a folder"),
        (["--log", ""], "the name is empty"),
    ],
)
def test_wrong_monitoring_is_one_sentence(capsys, tmp_path, words, sentence):
    assert sentence in refused(capsys, "oil", "--out", tmp_path / "out", *QUICK, *words)
    assert not (tmp_path / "out").exists()


# SIGTERM --------------------------------------------------------------------------------------------------------


@pytest.mark.compiled_only
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_sigterm_keeps_what_was_learned(tmp_path):
    words = [sys.executable, "-m", "spaql", "train", "oil", "--algorithm", "spaql", "--out", "out"]
    words += ["--iterations", "1000000000", "--episodes", "50", "--log", "run.csv"]
    shell = ["sh", "-c", "trap '' INT; exec " + shlex.join(words)]  # in the background, where Ctrl-C is ignored
    path = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(shell, cwd=tmp_path, env=path, **streams)
    log = tmp_path / "run.csv"
    while process.poll() is None and not (log.exists() and log.read_text().count("\n") > 10):
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 143, err
    assert "stopped after" in err
    agent = spaql.load(tmp_path / "out")
    assert agent.iterations == log.read_text().count("\n") - 1 > 0
    assert not TrainDir.read(tmp_path / "out").finished
    assert not out


def test_sigterm_is_left_to_others_after_training(capsys):
    def other(number, frame):
        """Of whoever called."""

    before = signal.signal(signal.SIGTERM, other)
    try:
        assert run("oil", *QUICK) == 0
        assert signal.getsignal(signal.SIGTERM) is other
    finally:
        signal.signal(signal.SIGTERM, before)
    capsys.readouterr()


# Help -----------------------------------------------------------------------------------------------------------


def shown(capsys, *words):
    with pytest.raises(SystemExit, match="0"):
        run(*words, "--help")
    return capsys.readouterr().out


def test_help_has_examples_and_headings(capsys):
    text = shown(capsys, "oil", "--algorithm", "spaql-ts")
    assert "parameters of the problem oil:" in text
    assert "parameters of the algorithm spaql-ts:" in text
    assert "tau_min, the lowest Boltzmann temperature (0.01)" in " ".join(text.split())  # of the class it is based on
    assert "spaql train --resume results/cartpole" in text
    assert max(map(len, train._EXAMPLES.splitlines())) <= 100


@pytest.mark.parametrize("example", [line for line in train._EXAMPLES.splitlines() if "my_module" not in line][1:])
def test_examples_can_be_parsed(example, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results" / "tune").mkdir(parents=True)
    write_parameters(tmp_path / "results" / "tune" / "best.json", scaling=0.25)
    seen = []
    monkeypatch.setattr(train, "_train", seen.append)
    monkeypatch.setattr(train, "_resume", seen.append)
    words = shlex.split(example.strip().split("     ")[0])
    if "--help" in words:
        assert "parameters of the algorithm spaql" in shown(capsys, *words[2:-1])
    else:
        assert main(words[1:]) == 0
        assert len(seen) == 1
