"""The command line: what it prints and writes, and one sentence with exit code 2 for each kind of bad input."""

import argparse
import csv
import dataclasses
import inspect
import json
import os
import re
import signal
import subprocess
import sys
import time

import gymnasium
import pytest
from numba.core import config

import spaql
from spaql.agents import algorithms, base, files, progress, resolve
from spaql.cli import main
from spaql.cli.options import add_signature, read_signature
from spaql.problems import PROBLEMS
from spaql.runner import summary

QUICK = ["--iterations", "20", "--episodes", "50", "--quiet"]
needs_jit = pytest.mark.compiled_only
pytestmark = pytest.mark.tiny_planning


def run(capsys, *words):
    code = main([str(word) for word in words])
    out, err = capsys.readouterr()
    return code, out, err


def refused(capsys, *words):
    """Exit code 2, nothing on stdout, one line on stderr; that line."""
    try:
        code = main([str(word) for word in words])
    except SystemExit as stop:  # argparse
        code = stop.code
    out, err = capsys.readouterr()
    assert code == 2
    assert out == ""
    assert err.count("\n") == 1, err
    assert "Traceback" not in err
    return err


@pytest.mark.parametrize("algorithm", ["tessera", "spaql", "aql", "random", "no-movement", "mean", "median"])
def test_train_prints_one_json_object(capsys, algorithm):
    code, out, err = run(
        capsys, "train", "ambulance", "--arrivals", "beta", "--cost", 0.25, "--algorithm", algorithm, "--json", *QUICK
    )
    assert (code, err) == (0, "")
    result = json.loads(out)
    assert result["algorithm"] == algorithm
    assert result["optimum"] == pytest.approx(4.36975, abs=1e-4)
    assert result["evaluation"]["low"] <= result["evaluation"]["mean"] <= result["evaluation"]["high"]
    if algorithm == "tessera":
        assert (result["training_steps"], result["selection_steps"], result["monitoring_steps"]) == (100, 0, 0)
    if algorithm == "spaql":
        assert result["training_steps"] == 20 * 5
        assert result["selection_steps"] == 21 * 20 * 5
    if algorithm == "aql":
        assert (result["training_steps"], result["selection_steps"], result["monitoring_steps"]) == (100, 0, 2000)


@pytest.mark.parametrize("algorithm", ["tessera", "spaql"])
def test_train_writes_its_folder(capsys, tmp_path, algorithm):
    out_dir = tmp_path / "new" / "folder"
    code, out, _ = run(
        capsys, "train", "oil", "--survey", "quadratic", "--algorithm", algorithm, "--out", out_dir, *QUICK
    )
    assert code == 0
    assert sorted(path.name for path in out_dir.iterdir()) == [
        "agent.spaql",
        "history.csv",
        "learning.png",
        "partition.csv",
        "partition.png",
        "summary.json",
        "train.json",
    ]
    summary = json.loads((out_dir / "summary.json").read_text())
    history = list(csv.DictReader((out_dir / "history.csv").read_text().splitlines()))
    cells = list(csv.DictReader((out_dir / "partition.csv").read_text().splitlines()))
    assert len(history) == 20
    assert int(history[-1]["timesteps"]) == summary["training_steps"] + summary["selection_steps"]
    assert ("temperature" in history[0]) is (algorithm == "spaql")
    assert not [name for name in history[0] if "second" in name]  # the same bytes for the same seed
    assert len(cells) == summary["cells"]
    if algorithm == "spaql":
        assert float(history[-1]["best"]) == summary["training_score"]
    assert (out_dir / "partition.png").read_bytes().startswith(b"\x89PNG")
    assert "oil quadratic 10" in out


def test_same_seed_same_output(capsys):
    words = ["train", "oil", "--seed", 0, "--json", *QUICK]
    first, second = (json.loads(run(capsys, *words)[1]) for _ in range(2))
    other = json.loads(run(capsys, *words[:3], 1, *words[4:])[1])
    for result in (first, second, other):
        result.pop("seconds")
    assert first == second
    assert first["evaluation"] != other["evaluation"]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["train", "gold"], "gold"),
        (["train", "oil", "--survey", "cubic"], "cubic"),
        (["train", "oil", "--algorithm", "dqn"], "dqn"),
        (["train", "oil", "--sharpness", "-1"], "sharpness"),
        (["train", "oil", "--sharpness", "nan"], "sharpness"),
        (["train", "oil", "--sharpness", "much"], "sharpness"),
        (["train", "oil", "--deposit", "1.5"], "deposit"),
        (["train", "oil", "--start", "-0.1"], "start"),
        (["train", "oil", "--horizon", "0"], "horizon"),
        (["train", "oil", "--iterations", "0"], "iterations"),
        (["train", "oil", "--iterations", "-5"], "iterations"),
        (["train", "oil", "--episodes", "1"], "episodes"),
        (["train", "oil", "--scaling", "-0.5"], "scaling"),
        (["train", "oil", "--scaling", "inf"], "scaling"),
        (["train", "oil", "--rollouts", "0"], "rollouts"),
        (["train", "oil", "--seed", "-1"], "seed"),
        (["train", "oil", "--algorithm", "mean"], "arrivals"),
        (["train", "oil", "--algorithm", "random", "--scaling", "1"], "scaling"),
        (["train", "ambulance", "--cost", "2"], "cost"),
        (["train", "ambulance", "--arrivals", "poisson"], "poisson"),
        (["train", "ambulance", "--shape", "0", "2"], "shape"),
        (["train", "ambulance", "--arrivals", "uniform", "--shape", "5", "2"], "shape"),
        (["train", "oil", "--horizon", "10000000"], "horizon"),
        (["train", "oil", "--rollouts", "10000000000"], "rollouts"),
        (["train"], "PROBLEM"),
        (["train", "oil", "--foo", "3"], "unrecognized arguments: --foo 3 (see spaql train --help)"),
        (["train", "oil", "--algorithm", "aql", "--foo"], "unrecognized arguments: --foo (see spaql train --help)"),
        (["sweep", "table", "out", "--foo", "3"], "arguments: --foo 3 (see spaql sweep table --help)"),
        (["evaluate", "out", "3", "--foo"], "arguments: 3 --foo (see spaql evaluate --help)"),
        (["explain", "out", "up"], "explain: expected a number or NAME=NUMBER, got 'up'"),
        (["explain", "out", "room=1", "2"], "explain: '2' among others; write all numbers as NAME=NUMBER, or none"),
        (["explain", "out", "room=1", "room=2"], "explain: 'room' is given twice"),
        (["fly"], "fly"),
        ([], "command"),
    ],
)
def test_bad_input_is_one_sentence(capsys, words, names):
    assert names in refused(capsys, *words)


def test_unwritable_folder_is_refused_before_training(capsys, tmp_path):
    file = tmp_path / "file"
    file.write_text("mine")
    assert "file" in refused(capsys, "train", "oil", "--out", file, "--iterations", 10**9)
    assert "below" in refused(capsys, "train", "oil", "--out", file / "below", "--iterations", 10**9)
    assert file.read_text() == "mine"


def test_a_folder_tells_of_one_run(capsys, tmp_path):
    run(capsys, "train", "oil", "--out", tmp_path, *QUICK)
    run(capsys, "train", "oil", "--algorithm", "random", "--out", tmp_path, "--overwrite", *QUICK)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["agent.spaql", "summary.json", "train.json"]
    assert type(spaql.load(tmp_path)).__name__ == "Random"


def test_a_heuristic_is_saved_and_evaluated_from_its_folder(capsys, tmp_path):
    words = ["inventory", "--horizon", 5, "--algorithm", "base-stock", "--out", tmp_path, *QUICK, "--json"]
    code, out, _ = run(capsys, "train", *words)
    assert code == 0
    assert json.loads(out)["files"] == [str(tmp_path / "summary.json"), str(tmp_path / "agent.spaql")]
    code, evaluated, _ = run(capsys, "evaluate", tmp_path, "--episodes", 50, "--quiet", "--json")
    assert (code, json.loads(evaluated)["mean"]) == (0, json.loads(out)["evaluation"]["mean"])
    assert spaql.load(tmp_path).recorded_evaluation["mean"] == json.loads(out)["evaluation"]["mean"]
    assert "has no partition to read" in refused(capsys, "rules", tmp_path)


def test_a_picture_that_cannot_be_written_leaves_nothing_half_done(capsys, tmp_path):
    (tmp_path / "learning.png").mkdir()
    assert "learning.png" in refused(capsys, "train", "oil", "--out", tmp_path, *QUICK)
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["agent.spaql", "checkpoint.spaql", "learning.png", "train.json"]  # what was learned stays
    (tmp_path / "learning.png").rmdir()
    assert run(capsys, "train", "--resume", tmp_path, "--quiet")[0] == 0
    assert (tmp_path / "learning.png").stat().st_size


def test_an_optimum_that_is_not_known_well_is_not_shown(capsys, monkeypatch):
    monkeypatch.setattr("spaql.problems.optimum._MOST_CORRIDOR_NUMBERS", 2**18)
    code, out, _ = run(capsys, "train", "oil", "--sharpness", "1e9", "--algorithm", "random", "--json", *QUICK)
    assert code == 0
    assert json.loads(out)["optimum"] is None


@pytest.mark.parametrize("name", PROBLEMS)
def test_options_of_problems_are_those_of_their_signatures(capsys, name):
    with pytest.raises(SystemExit, match="0"):
        main(["train", name, "--help"])
    shown = capsys.readouterr().out
    for parameter in inspect.signature(PROBLEMS[name]).parameters:
        assert re.search(rf"--{parameter.replace('_', '-')}[ ,]", shown)
    assert all(algorithm in shown.replace("-\n" + 24 * " ", "-") for algorithm in algorithms())


@pytest.mark.parametrize("name", algorithms())
def test_options_of_algorithms_are_those_of_their_signatures(capsys, name):
    with pytest.raises(SystemExit, match="0"):
        main(["train", "oil", "--algorithm", name, "--help"])
    shown = capsys.readouterr().out
    for parameter in algorithms()[name].parameters:
        assert f"--{parameter.replace('_', '-')} " in shown


@pytest.mark.parametrize(("text", "value"), [("false", False), ("True", True), ("auto", "auto")])
def test_an_option_may_be_a_word_or_a_flag(text, value):
    parser = argparse.ArgumentParser()
    add_signature(parser, "tessera", algorithms()["tessera"].parameters, spaql.Tessera)
    assert read_signature(parser.parse_args(["--time-aware", text]), "tessera") == {"time_aware": value}


OWN = """
import spaql


class Patient(spaql.AQL):
    '''AQL with another default.

    Parameters
    ----------
    patience
        How long to wait; at least 1.
    '''

    def __init__(self, problem, *, patience=1, scaling=0.1, rollouts=0, seed=0, **environment):
        super().__init__(problem, scaling=scaling, rollouts=rollouts, seed=seed, **environment)
        self.patience = patience


def make_oil(*, sharpness: float = 1.0, patience: int = 2):
    return spaql.problems.oil(sharpness=sharpness * patience)
"""


def test_algorithms_and_problems_of_a_users_module(capsys, tmp_path, monkeypatch):
    (tmp_path / "own_module.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    words = ["train", "own_module:make_oil", "--algorithm", "own_module:Patient", "--sharpness", 3, "--json", *QUICK]
    code, out, err = run(capsys, *words, "--patience", 5, "--algorithm-patience", 7)
    assert (code, err) == (0, "")
    result = json.loads(out)
    assert result["algorithm"] == "own_module:Patient"
    assert result["problem"] == "oil laplace 15"
    assert (result["parameters"]["patience"], result["parameters"]["scaling"]) == (7, 0.1)
    with pytest.raises(SystemExit, match="0"):
        main(["train", "oil", "--algorithm", "own_module:Patient", "--help"])
    assert "--patience INT How long to wait (1)" in " ".join(capsys.readouterr().out.split())
    assert "no module 'nowhere'" in refused(capsys, "train", "oil", "--algorithm", "nowhere:Agent")
    sys.modules.pop("own_module")


def test_a_class_with_learn_and_predict_is_trained_evaluated_and_resumed(capsys, tmp_path):
    words = ["--algorithm", "tests.tabular:TabularQ", "--bins", 6, "--timesteps", 500, "--episodes", 20]
    code, out, _ = run(capsys, "train", "tests.tabular:make_oil", "--sharpness", 3, *words, "--out", tmp_path, "--json")
    assert code == 0
    result = json.loads(out)
    assert (result["algorithm"], result["parameters"]["bins"], result["cells"]) == ("tests.tabular:TabularQ", 6, None)
    assert result["problem"] == "oil quadratic 3"
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["history.csv", "learning.png", "summary.json", "train.json"]
    assert "spaql cannot save its algorithm; save it by its own means" in refused(capsys, "evaluate", tmp_path)
    code, out, err = run(capsys, "train", "--resume", tmp_path, "--json")
    assert (code, json.loads(out)["evaluation"]) == (0, result["evaluation"])
    assert "cannot be saved; training starts again" in err
    assert "tests.tabular:TabularQ cannot be saved by spaql; save it by its own means" in err


def test_a_background_process_is_told_of_ctrl_c_in_tests():
    """Started by a shell in the background, it ignores SIGINT, and so would what it starts."""
    code = "import conftest, signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    call = ["sh", "-c", 'trap "" INT; exec "$0" -c "$1"', sys.executable, code]
    done = subprocess.run(call, capture_output=True, text=True, check=True, cwd=os.path.dirname(__file__))
    assert done.stdout == "True\n"


def test_environments_are_trained_scored_and_kept(capsys, tmp_path):
    code, out, _ = run(
        capsys, "train", "CartPole-v1", "--timesteps", 1600, "--episodes", 3, "--out", tmp_path, "--quiet", "--json"
    )
    assert code == 0
    summary = json.loads(out)
    assert summary["problem"] == "CartPole-v1"
    assert 1000 < summary["training_steps"] <= 1600
    code, out, _ = run(capsys, "evaluate", tmp_path, "--episodes", 3, "--json", "--quiet")
    assert code == 0
    assert json.loads(out)["mean"] == summary["evaluation"]["mean"]
    code, out, _ = run(capsys, "show", tmp_path / "agent.spaql")
    assert code == 0
    assert "CartPole-v1" in out


def test_options_of_environments(capsys):
    words = ["--bounds", "1", "-3", "3", "--bounds", "3", "-3.5", "3.5", "--horizon", "50", "--timesteps", "300"]
    code, out, _ = run(capsys, "train", "CartPole-v1", *words, "--episodes", 2, "--quiet", "--json")
    assert code == 0
    summary = json.loads(out)
    assert summary["training_steps"] <= 300
    assert summary["arguments"]["horizon"] == 50


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["train", "NoSuch-v0"], "NoSuch"),
        (["train", "CartPole-v1", "--bounds", "7", "0", "1"], "bounds"),
        (["train", "CartPole-v1", "--bounds", "1", "a", "b"], "--bounds 1: expected two numbers, got 'a' and 'b'"),
        (["train", "CartPole-v1", "--bounds", "1", "0", "inf"], "--bounds 1: expected two finite numbers, got '0' and"),
        (["train", "CartPole-v1", "--bounds", "1", "nan", "1"], "--bounds 1: expected two finite numbers, got 'nan'"),
        (["train", "oil", "--algorithm", "./own:Mine"], "algorithm './own:Mine': there is no module './own' here"),
        (["train", "CartPole-v1", "--bounds", "\u00b2", "0", "1"], "bounds"),
        (
            ["train", "tests.tabular:np"],
            "expected a function or class, got a module",
        ),
        (["train", "CartPool"], "'CartPool' is neither one of ambulance, "),
        (["show", "nowhere", "--record", "--seed", "-1"], "--seed"),
        (["train", "CartPole-v1", "--periodic", "1"], "periodic"),
        (["train", "CartPole-v1", "--timesteps", "10"], "too few"),
        (["train", "pendulum", "--algorithm", "spaql-ts"], "--reference"),
        (["train", "pendulum", "--timesteps", "5", "--iterations", "5"], "not allowed"),
        (["evaluate", "nowhere"], "nowhere"),
        (["show", "nowhere", "--record"], "nowhere"),
    ],
)
def test_bad_environments_and_agents_are_one_sentence(capsys, words, names):
    assert names in refused(capsys, *words)


def test_a_terminal_state_is_told_on_the_command_line(capsys):
    words = ["--algorithm", "spaql-ts", "--reference", "1", "0", "0", "--radius", "1", "--rollouts", "1"]
    code, out, _ = run(capsys, "train", "pendulum", *words, "--iterations", 2, "--episodes", 2, "--quiet", "--json")
    assert code == 0
    assert json.loads(out)["parameters"]["reference"] == [1.0, 0.0, 0.0]


def test_version_and_help_do_not_load_the_compiler():
    code = "import sys; from spaql.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
    code += "print(sorted(m for m in ('numba', 'scipy', 'matplotlib') if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert "train" in done.stdout


@needs_jit
def test_progress_goes_to_stderr_and_results_to_stdout(capsys, monkeypatch):
    monkeypatch.setattr(base, "make_bar", lambda **options: progress.make_bar(**options | {"delay": 0.0}))
    words = ["--algorithm", "aql", "--rollouts", 0, "--iterations", 20_000, "--episodes", 50, "--json"]
    code, out, err = run(capsys, "train", "oil", "--horizon", 50, *words)
    assert code == 0
    assert json.loads(out)["iterations"] == 20_000
    assert "it/s" in err


@needs_jit
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_ctrl_c_keeps_what_was_learned(tmp_path):
    words = [sys.executable, "-m", "spaql", "train", "oil", "--iterations", "1000000000", "--episodes", "50", "--out"]
    process = subprocess.Popen([*words, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    waited, more = "", " "
    while "it/s" not in waited and more:  # the bar appears once iterations are under way
        more = process.stderr.read(1)
        waited += more
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "stopped after" in err
    assert "Traceback" not in err
    assert f"spaql train --resume {tmp_path} continues, spaql evaluate {tmp_path} evaluates the agent" in err
    assert spaql.load(tmp_path).iterations > 0
    assert not (tmp_path / "summary.json").exists()
    assert not out


def test_jit_is_on_unless_asked_otherwise():
    assert bool(config.DISABLE_JIT) == (os.environ.get("NUMBA_DISABLE_JIT") == "1")


# Agents are kept ---------------------------------------------------------------------------------------------

MINE = """
import gymnasium
from gymnasium.envs.classic_control import PendulumEnv


class Late(PendulumEnv):
    steps = 0

    def step(self, action):
        Late.steps += 1
        if Late.steps > 95:
            raise FileNotFoundError(2, "No such file or directory", "my data")
        return super().step(action)


gymnasium.register("Mine-v0", entry_point="my_envs:PendulumEnv", max_episode_steps=20)
gymnasium.register("Late-v0", entry_point="my_envs:Late", max_episode_steps=10)
"""


@pytest.fixture
def my_envs(tmp_path, monkeypatch):
    """A folder with a module of environments; `forget` makes Python forget it."""
    (tmp_path / "my_envs.py").write_text(MINE)
    monkeypatch.syspath_prepend(tmp_path)

    def forget():
        sys.modules.pop("my_envs", None)
        for name in ("Mine-v0", "Late-v0"):
            gymnasium.registry.pop(name, None)

    yield forget
    forget()


def test_environments_of_a_module_are_found_again(capsys, tmp_path, my_envs):
    folder = tmp_path / "out"
    words = ["--timesteps", 100, "--episodes", 2, "--quiet"]
    assert run(capsys, "train", "my_envs:Mine-v0", "--out", folder, *words)[0] == 0
    my_envs()
    assert run(capsys, "evaluate", folder, "--episodes", 2, "--quiet")[0] == 0
    spaql.Tessera("Mine-v0", seed=1).learn(iterations=2).save(folder / "agent.spaql")  # nobody said which module it was
    my_envs()
    assert "import the module that registers it" in refused(capsys, "evaluate", folder)
    assert run(capsys, "show", folder)[0] == 0  # what was learned can be seen all the same
    assert "The environment could not be played" in (folder / "out.html").read_text("utf-8")
    words = ["--env", "my_envs:Mine-v0"]
    assert run(capsys, "evaluate", folder, "--episodes", 2, "--quiet", *words)[0] == 0
    assert run(capsys, "show", folder, *words)[0] == 0
    assert "could not be played" not in (folder / "out.html").read_text("utf-8")


def test_a_fault_of_the_environment_is_its_own_and_keeps_what_was_learned(capsys, tmp_path, my_envs):
    with pytest.raises(FileNotFoundError, match="my data"):
        main(["train", "my_envs:Late-v0", "--iterations", "20", "--quiet", "--out", str(tmp_path / "out")])
    out, err = capsys.readouterr()
    assert out == ""
    assert "an error after 9 iterations; the agent is saved in" in err
    assert files.load(tmp_path / "out").iterations == 9


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_agent_is_kept_before_it_is_scored(capsys, tmp_path, monkeypatch, error):
    run(capsys, "train", "oil", "--out", tmp_path, *QUICK)

    def broken(*_, **__):
        raise error

    monkeypatch.setattr(summary, "summarize", broken)
    run(capsys, "train", "oil", "--out", tmp_path, "--overwrite", "--iterations", 30, "--quiet")
    assert files.load(tmp_path).iterations == 30


def test_an_old_agent_stays_until_the_new_one_is_there(capsys, tmp_path, monkeypatch):
    run(capsys, "train", "oil", "--out", tmp_path, *QUICK)
    save, seen = spaql.Tessera.save, []

    def watched(agent, path):
        seen.append((path.name, path.exists()))
        return save(agent, path)

    monkeypatch.setattr(spaql.Tessera, "save", watched)
    code, out, _ = run(capsys, "train", "oil", "--out", tmp_path, "--overwrite", *QUICK, "--json")
    assert code == 0
    assert [was_there for name, was_there in seen if name == "agent.spaql"] == [True]
    assert str(tmp_path / "agent.spaql") in json.loads(out)["files"]


@pytest.mark.compiled_only
def test_names_without_a_version_are_ids_too(capsys):
    with pytest.warns(UserWarning, match="latest"):
        code, out, _ = run(capsys, "train", "CartPole", "--timesteps", 1600, "--episodes", 2, "--quiet", "--json")
    assert code == 0
    assert json.loads(out)["problem"] == "CartPole-v1"


@pytest.mark.compiled_only
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a full device")
def test_output_that_cannot_be_written_is_one_sentence():
    words = [sys.executable, "-m", "spaql", "train", "oil", "--algorithm", "random", "--json", *QUICK]
    with open("/dev/full", "w") as full:
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "spaql: the output cannot be written: No space left on device\n"


# Recordings --------------------------------------------------------------------------------------------------


def test_a_recording_has_the_physics_that_were_learned(tmp_path):
    from spaql.viz import recording

    env = recording._make_environment(spaql.problems.pendulum(gravity=1.0, horizon=400))
    assert env.unwrapped.g == 1.0
    assert env.spec.max_episode_steps == 400
    assert recording._make_environment(spaql.problems.cartpole()).spec.id == "CartPole-v1"
    for problem in (spaql.problems.oil(), dataclasses.replace(spaql.problems.pendulum(), parameters=[1.0, 2.0])):
        with pytest.raises(spaql.errors.ParameterError, match="no environment that can render it"):
            recording._make_environment(problem)
    with pytest.raises(spaql.errors.ParameterError, match="has the argument noise, which the environment"):
        recording._make_environment(spaql.problems.pendulum(noise=0.5))


def test_all_algorithms_are_called_by_their_names():
    assert [resolve(name).label for name in ("spaql-ts", "aql", "mean")] == ["SPAQL-TS", "AQL", "Mean"]


def test_rollouts_of_all_published_agents_cost():
    from spaql.runner.run_spec import Run

    costs = {
        name: Run("oil", {}, name, {}, seed=0, iterations=10, episodes=2).cost
        for name in ("tessera", "spaql", "spaql-ts", "aql")
    }
    assert costs["spaql-ts"] == costs["spaql"] == costs["aql"] > costs["tessera"]
