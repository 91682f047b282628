"""A run that was killed, again and again, ends with the very bytes of one that was not."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import spaql
from spaql.cli import main
from spaql.errors import ParameterError
from spaql.runner.run_spec import Run
from spaql.runner.train_dir import TrainDir

OIL = Run("oil", {}, "tessera", {}, seed=0, iterations=100, episodes=10)
SOAK = bool(os.environ.get("SPAQL_SOAK"))  # make soak
KILLS = 60 if SOAK else 5

# Forks of a process that has everything loaded are killed at random moments, and the run is resumed until it ends.
KILLING = """
import os, random, shutil, signal, sys, time
from pathlib import Path
from planning_for_tests import tiny_plans
from spaql.cli import main

plans = tiny_plans()
plans.__enter__()
folder, kills, words = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]


def forked(words):
    child = os.fork()
    if child == 0:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1), os.dup2(null, 2)
        os._exit(main(words))
    return child


def begun(where):
    return ["train", *words, "--out", str(where), "--quiet"]


assert os.waitpid(forked(begun(folder / "warm")), 0)[1] == 0 and main(begun(folder / "whole")) == 0
whole = (folder / "whole" / "agent.spaql").read_bytes()
start = time.perf_counter()
os.waitpid(forked(begun(folder / "timed")), 0)
usual = time.perf_counter() - start
dice, killed, resumed = random.Random(0), 0, 0
while killed < kills:
    where = folder / f"run-{killed}"
    task = begun(where)
    while True:
        child = forked(task)
        time.sleep(dice.random() * usual)
        os.kill(child, signal.SIGKILL)
        code = os.waitpid(child, 0)[1]
        if not os.WIFSIGNALED(code):  # it was quicker
            assert code == 0, code
            break
        killed += 1
        if (where / "train.json").exists():
            task = ["train", "--resume", str(where), "--quiet"]
            resumed += (where / "checkpoint.spaql").exists()
    assert (where / "agent.spaql").read_bytes() == whole, where
    assert not [path.name for path in where.iterdir() if path.name.startswith(".")]
    shutil.rmtree(where)
print(f"{killed} kills, {resumed} with a checkpoint")
assert resumed
"""

STUDIES = {
    "tessera on oil": ["oil", "--iterations", "2000", "--checkpoint-every", "500"],
    "published on ambulance": [
        *("ambulance", "--algorithm", "spaql", "--iterations", "300", "--rollouts", "5"),
        *("--checkpoint-every", "2000"),
    ],
    "aql on oil": ["oil", "--algorithm", "aql", "--iterations", "2000", "--rollouts", "2", "--checkpoint-every", "800"],
    "tessera on CartPole-v1": ["CartPole-v1", "--timesteps", "8000", "--checkpoint-every", "700", "--episodes", "3"],
}


@pytest.mark.compiled_only
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked here")
@pytest.mark.parametrize("study", STUDIES if SOAK else ["published on ambulance", "tessera on CartPole-v1"])
def test_killed_at_random_moments_and_resumed_it_ends_with_the_same_bytes(tmp_path, study):
    call = [sys.executable, "-W", "ignore", "-c", KILLING, str(tmp_path), str(KILLS), *STUDIES[study]]
    path = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.run(call, capture_output=True, text=True, env=path)
    assert process.returncode == 0, process.stderr[-2000:]
    print(process.stdout)


def train(*words):
    return main(["train", *words, "--quiet"])


def test_a_finished_run_can_be_made_longer(tmp_path, capsys):
    assert train("oil", "--iterations", "60", "--episodes", "10", "--out", str(tmp_path / "a")) == 0
    assert train("oil", "--iterations", "100", "--episodes", "10", "--out", str(tmp_path / "b")) == 0
    assert train("--resume", str(tmp_path / "a"), "--iterations", "100") == 0
    assert (tmp_path / "a" / "agent.spaql").read_bytes() == (tmp_path / "b" / "agent.spaql").read_bytes()
    assert json.loads((tmp_path / "a" / "summary.json").read_text())["iterations"] == 100
    assert train("--resume", str(tmp_path / "a")) == 0  # nothing to do
    capsys.readouterr()


def test_a_stopped_run_goes_on(tmp_path, capsys):
    run = TrainDir.begin(tmp_path, OIL)
    run.keep(spaql.Tessera("oil").learn(iterations=40))
    assert main(["train", "--resume", str(tmp_path)]) == 0
    assert "continues after 40 of 100 iterations" in capsys.readouterr().err
    again = spaql.load(tmp_path)
    np.testing.assert_array_equal(again.history, spaql.Tessera("oil").learn(iterations=100).history)
    assert not (tmp_path / "checkpoint.spaql").exists()


def test_a_new_run_does_not_go_on_with_the_agent_of_an_old_one(tmp_path):
    TrainDir.begin(tmp_path, OIL).finish(spaql.Tessera("oil").learn(iterations=5))
    TrainDir.begin(tmp_path, Run("ambulance", {}, "tessera", {}, 0, 5, 10))
    assert TrainDir.read(tmp_path).load_agent() is None
    assert spaql.load(tmp_path).problem.name == "oil laplace 10"  # which stays until there is another


@pytest.mark.compiled_only
def test_steps_are_counted_from_the_beginning(tmp_path, capsys):
    words = ["cartpole", "--timesteps", "3000", "--episodes", "2"]
    assert train(*words, "--out", str(tmp_path / "whole")) == 0
    run = TrainDir.begin(tmp_path / "part", Run("cartpole", {}, "tessera", {}, 0, 0, 2, budgets=(3000,)))
    run.keep(spaql.Tessera("cartpole").learn(total_timesteps=1200))
    assert train("--resume", str(tmp_path / "part")) == 0
    assert (tmp_path / "part" / "agent.spaql").read_bytes() == (tmp_path / "whole" / "agent.spaql").read_bytes()
    capsys.readouterr()


def test_a_length_that_is_not_longer_leaves_the_run_as_it_is(tmp_path, capsys):
    assert train("oil", "--iterations", "60", "--episodes", "10", "--out", str(tmp_path)) == 0
    before = (tmp_path / "train.json").read_text()
    for words in (["--iterations", "0"], ["--iterations", "-3"], ["--timesteps", "0"], ["--timesteps", "-5"]):
        assert train("--resume", str(tmp_path), *words) == 2
        assert f"{words[0]}: expected a whole number of at least 1, got {words[1]}" in capsys.readouterr().err
    for words in ([], ["--iterations", "50"], ["--timesteps", "200"]):
        assert train("--resume", str(tmp_path), *words) == 0
        assert (tmp_path / "train.json").read_text() == before
        assert spaql.load(tmp_path).iterations == 60
    assert main(["train", "--resume", str(tmp_path), "--timesteps", "200"]) == 0
    assert "nothing is trained: 300 timesteps are done, 200 in all were asked for" in capsys.readouterr().err
    assert train(f"--resume={tmp_path}", "--timesteps", "400") == 0
    assert TrainDir.read(tmp_path).run.budgets == (400,)
    assert spaql.load(tmp_path).num_timesteps == 400
    capsys.readouterr()


def test_a_run_that_is_resumed_for_less_than_it_was_begun_for_can_go_on_to_its_end(tmp_path, capsys):
    TrainDir.begin(tmp_path, OIL).keep(spaql.Tessera("oil").learn(iterations=40))
    assert train("--resume", str(tmp_path), "--iterations", "60") == 0
    assert spaql.load(tmp_path).iterations == 60
    assert train("--resume", str(tmp_path)) == 0
    assert spaql.load(tmp_path).iterations == 100
    capsys.readouterr()


OWN = {
    "compiled": ["own_problems:make_tank", "--speed", "0.5"],
    "environment": ["own_problems:make_env", "--limit", "15"],
    "environment with ranges": ["own_problems:make_ranges"],
}


@pytest.mark.compiled_only
@pytest.mark.parametrize("kind", OWN)
def test_a_run_on_a_problem_of_one_s_own_goes_on(tmp_path, capsys, monkeypatch, kind):
    (tmp_path / "own_problems.py").write_text(OWN_PROBLEMS)
    monkeypatch.syspath_prepend(tmp_path)
    words = [*OWN[kind], "--episodes", "3"]
    try:
        assert train(*words, "--iterations", "20", "--out", str(tmp_path / "whole")) == 0
        assert train(*words, "--iterations", "12", "--out", str(tmp_path / "part")) == 0
        assert train("--resume", str(tmp_path / "part"), "--iterations", "20") == 0
    finally:
        sys.modules.pop("own_problems", None)
    assert (tmp_path / "part" / "agent.spaql").read_bytes() == (tmp_path / "whole" / "agent.spaql").read_bytes()
    capsys.readouterr()


OWN_PROBLEMS = """
import gymnasium
from spaql import GymnasiumProblem
from spaql.problems import Box, Problem


def step(state, action, parameters, random, next_state):
    next_state[0] = action[0]
    return parameters[0] * (1.0 - abs(state[0] - 0.3)), False


def reset(parameters, random, state):
    state[0] = 0.0


def make_tank(speed=1.0):
    # compiled
    return Problem(
        name="tank", step=step, reset=reset, states=Box(0, 1), actions=Box(0, 1), horizon=5, parameters=(speed,)
    )


class Doubled(gymnasium.RewardWrapper):
    def reward(self, reward):
        return 2 * reward


def make_env(limit=20):
    # only code can make it
    return Doubled(gymnasium.make("Pendulum-v1", max_episode_steps=limit))


def make_ranges():
    return GymnasiumProblem(make_env, bounds={2: (-4.0, 4.0)})
"""


def write(**changes):
    def spoil(path):
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return spoil


BAD = {
    "nothing": (lambda path: path.unlink(), "no run was begun there"),
    "no JSON": (lambda path: path.write_text("{"), "cannot be read"),
    "another format": (write(format=9), "it has format 9"),
    "no run": (write(run=3), "cannot be read"),
    "part of a run": (write(run={"problem": "oil"}), "cannot be read"),
    "no problem": (write(run=json.loads(OIL.specification) | {"problem": 7}), "its problem is 7"),
    "a field too many": (write(run=json.loads(OIL.specification) | {"colour": 7}), "cannot be read"),
    "no end": (lambda path: path.write_text('{"format": 2, "run": {}}'), "cannot be read"),
    "too large": (lambda path: path.write_text(" " * (2 << 20)), "too large"),
}


@pytest.mark.parametrize("how", BAD)
def test_what_is_no_run_is_refused(tmp_path, how):
    TrainDir.begin(tmp_path, OIL)
    spoil, message = BAD[how]
    spoil(tmp_path / "train.json")
    with pytest.raises(ParameterError, match=message):
        TrainDir.read(tmp_path)


def nested(levels):
    value = 1
    for _ in range(levels):
        value = [value]
    return value


UNWRITABLE = {
    "45 digits": 10**45,
    "5,000 digits": 10**5000,
    "34 lists": nested(34),
    "5,000 lists": nested(5000),
    "half of a letter": "\udc80",
    "a long text": "x" * (2 << 20),
    "no number": float("nan"),
}


@pytest.mark.parametrize("kind", UNWRITABLE)
def test_a_run_that_could_not_be_read_again_is_not_begun(tmp_path, kind):
    run = Run("my_tanks:make", {"size": UNWRITABLE[kind]}, "tessera", {}, seed=0, iterations=5, episodes=10)
    with pytest.raises(
        ParameterError, match=r"--out .*: train\.json cannot hold its arguments or parameters \(.*; give"
    ):
        TrainDir.begin(tmp_path / "new", run)
    assert not (tmp_path / "new").exists()
    nearly = Run("my_tanks:make", {"size": nested(28)}, "tessera", {}, seed=0, iterations=5, episodes=10)
    assert TrainDir.begin(tmp_path / "new", nearly).run.id == TrainDir.read(tmp_path / "new").run.id


def test_the_folder_holds_the_specification_and_no_words_of_the_command_line(tmp_path):
    """Whatever becomes of the options of `spaql train`, a run of today can be resumed."""
    assert train("oil", "--iterations", "5", "--episodes", "10", "--sharpness", "3", "--out", str(tmp_path)) == 0
    content = json.loads((tmp_path / "train.json").read_text())
    assert content["run"]["problem"] == "oil"
    assert content["run"]["arguments"]["sharpness"] == 3
    assert (content["run"]["iterations"], content["run"]["episodes"], content["finished"]) == (5, 10, True)
    assert "--" not in (tmp_path / "train.json").read_text()
    run = TrainDir.begin(tmp_path / "again", TrainDir.read(tmp_path).run, checkpoint_every=7)
    assert run.make_checkpoint() is not None
    assert TrainDir.read(tmp_path / "again").checkpoint_every == 7
    assert TrainDir.read(tmp_path / "again").run.id == run.run.id


def test_checkpoints_need_a_folder_and_a_number(tmp_path, capsys):
    assert train("oil", "--iterations", "5", "--checkpoint-every", "5") == 2
    assert "--checkpoint-every: needs --out" in capsys.readouterr().err
    assert train("oil", "--iterations", "5", "--checkpoint-every", "0", "--out", str(tmp_path)) == 2
    assert "at least 1" in capsys.readouterr().err
    assert not list(Path(tmp_path).iterdir())
