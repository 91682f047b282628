"""The study of classic control, with agents of another package beside it; made-up ones here."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest

from figures_for_tests import draw_digest
from spaql import cli
from spaql.runner.run_spec import seed_at
from spaql.studies import control
from spaql.studies import study as studies
from spaql.studies.variants import AQL, RANDOM, SPAQL, TESSERA

pytestmark = pytest.mark.compiled_only

SMALL = tuple(replace(task, budget=1600) for task in control.TASKS if task.problem in ("cartpole", "pendulum"))
FEW = {"agents": 2, "episodes": 3, "tasks": SMALL}
PACKAGE = """
import os, random
class PPO:
    def __init__(self, policy, env, seed, device):
        assert (policy, device, os.environ["OMP_NUM_THREADS"]) == ("MlpPolicy", "cpu", "1")
        self.env = env
        env.action_space.seed(seed)
    def learn(self, total_timesteps):
        with open(os.path.join(os.path.dirname(__file__), "learned"), "a") as file:
            print(type(self).__name__, file=file)
        over = True
        for _ in range(total_timesteps):
            if over:
                self.env.reset()
            _, _, terminated, truncated, _ = self.env.step(self.env.action_space.sample())
            over = terminated or truncated
    def predict(self, observation, deterministic=False):
        return self.env.action_space.sample(), None
class DQN(PPO): pass
class SAC(PPO): pass
"""


@pytest.fixture
def package(tmp_path_factory, monkeypatch):
    """A made-up Stable-Baselines3; returns the names of the agents that learned so far."""
    folder = tmp_path_factory.mktemp("package")
    (folder / "stable_baselines3.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "stable_baselines3", raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)  # then workers set it to 1, which the package asserts
    yield lambda: (folder / "learned").read_text().split()
    sys.modules.pop("stable_baselines3", None)


def sentence(capsys):
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    return line


def test_a_missing_package_is_one_sentence_and_nothing_is_begun(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    assert cli.main(["control", "--with-sb3", "--out", str(tmp_path / "out")]) == 2
    assert "pip install 'spaql[sb3]'" in sentence(capsys)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("option", "value"), [("--sb3-seeds", "1"), ("--workers", "0"), ("--seed", "-1")])
def test_bad_input_is_one_sentence(option, value, tmp_path, capsys, package):
    assert cli.main(["control", "--with-sb3", "--out", str(tmp_path / "out"), option, value]) == 2
    assert option in sentence(capsys)
    assert not (tmp_path / "out").exists()


def test_agents_of_another_package_stand_in_the_table(tmp_path, capsys, monkeypatch, package, tiny_plans_of_children):
    monkeypatch.setattr(control, "QUICK", FEW)
    command = ["control", "--quick", "--quiet", "--out", str(tmp_path)]
    theirs = [*command, "--with-sb3", "--sb3-seeds", "2", "--json"]
    assert cli.main(theirs) == 0
    told = json.loads(capsys.readouterr().out)
    budgets = [row["budget"] for row in told["rows"] if (row["agent"], row["problem"]) == ("tessera", "pendulum")]
    assert budgets == [80, 160, 400, 800, 1600]
    rows = {(row["agent"], row["problem"]): row for row in told["rows"] if row["agent"] in ("DQN", "PPO", "SAC")}
    assert list(rows) == [("DQN", "cartpole"), ("PPO", "cartpole"), ("PPO", "pendulum"), ("SAC", "pendulum")]
    assert {row["steps"] for row in rows.values()} == {1600.0}
    for row in told["rows"]:
        assert row["mean"] is None or row["steps"] <= row["budget"]
    row = rows["DQN", "cartpole"]
    text = (tmp_path / "control.md").read_text()
    assert f"| DQN (SB3) | {row['mean']:.1f} ± {(row['high'] - row['low']) / 2:.1f}" in text
    assert "(2 seeds) |  |" in text
    assert "agents of Stable-Baselines3" in text
    assert sorted(package()) == ["DQN"] * 2 + ["PPO"] * 4 + ["SAC"] * 2
    monkeypatch.setattr(studies, "_draw", draw_digest)  # once is enough
    assert cli.main(theirs) == 0
    assert json.loads(capsys.readouterr().out) == told
    assert len(package()) == 8  # nothing is done twice
    assert cli.main([*theirs[:-2], "3", "--json"]) == 0
    assert len(package()) == 12
    capsys.readouterr()
    assert cli.main(command) == 0
    shown = capsys.readouterr().out
    assert "SB3" not in shown
    assert "all runs were finished before" in shown


def test_a_budget_that_is_too_small_is_no_victory():
    def curve(variant, task):
        scores = np.array([[10.0], [11.0]]) if variant is TESSERA else np.array([[1.0], [2.0]])
        small = variant is AQL and task is SMALL[0]  # one of its agents had no room for an iteration
        return control.Curve((1600,), np.where([[small], [False]], np.nan, scores), scores, scores)

    curves = control.Control(**FEW)
    curves.curves = {(each, task): curve(each, task) for each in curves.variants for task in SMALL}
    assert (curves.standing(SMALL[0], AQL), curves.standing(SMALL[1], AQL)) == (None, 1)
    assert curves.against(AQL) == (1, 1)
    assert curves.against(RANDOM) == (2, 2)
    report = curves.report_curves()
    assert "SPAQL-TS on 2, AQL on 1 of the 1 measured, Random on 2 (Welch, 5%)" in report.summary[0]
    assert (report.data["ahead"]["aql"], report.data["measured"]["aql"]) == (1, 1)
    assert "nothing was measured and nothing is counted" in report.markdown()


def curves_of(*scores, goal=10.0):
    """A study of one task with these scores of Tessera, `[agents, budgets]`, also with noise."""
    task = replace(control.TASKS[0], goal=goal)
    study = control.Control(variants=(TESSERA, control.NOISY, RANDOM), tasks=(task,))
    scores = np.array(scores, float)
    curve = control.Curve(tuple(range(1, scores.shape[1] + 1)), scores, np.round(scores), scores)
    study.curves = {(variant, task): curve for variant in (*control.RIVALS, *study.variants)}
    return study


def test_more_data_hurts_where_the_same_agents_lose():
    assert curves_of([1, 5, 4.0], [2, 9, 8.1], [3, 7, 5.9]).curves.popitem()[1].falls == [3]
    assert curves_of([1, 5, 4], [2, 9, 8.1], [3, 7, 7.5]).curves.popitem()[1].falls == []
    hurt, fine = curves_of([1, 5, 4.0], [2, 9, 8.1], [3, 7, 5.9]), curves_of([1, 5], [np.nan, 9], [3, 7])
    assert "falls on CartPole-v1 at 3 steps (5%" in hurt.report_curves().summary[2]
    assert fine.report_curves().summary[2].startswith("More data never hurts")
    assert hurt.report_curves().data["falls"] == {"cartpole": [3]}


def test_leaves_and_agents_at_the_goal_at_every_budget():
    report = curves_of([1, 9], [2, 10], [3, 12], goal=10.0).report_curves()
    table = report.tables[1].markdown()
    assert "| CartPole-v1 | 1 | 2.0 ± 2.5 | 2 | 3 | 0 of 3 |" in table
    assert "| 2 | 10.3 ± 3.8 | 10 | 12 | 2 of 3 |" in table
    assert [row["agents_at_goal"] for row in report.data["rows"] if row["agent"] == "tessera"] == [0, 2]


@pytest.mark.parametrize(("shift", "standing", "mark"), [(0.0, 0, ""), (400.0, 1, "+"), (-400.0, -1, "-")])
def test_noise_is_compared_with_the_earlier_agent(shift, standing, mark):
    study = curves_of(*[[226.6 + shift + number % 5] for number in range(20)])
    (task,) = study.tasks
    assert study.noise_standings == {task: standing}
    ((name, steps, ours, before),) = study.report_curves().tables[2].rows
    assert (name, steps, before) == ("CartPole-v1", "50,000", "226.6 ± 18.6, 129")
    assert ours.split(",")[0].endswith(f"0.7{mark}")


def test_results_of_the_earlier_agent_are_those_of_its_study():
    before = {(row["problem"], row["noise"]): row for row in json.loads(control.BEFORE.read_text())["rows"]}
    assert {(task.problem, noise) for task in control.TASKS for noise in (0.0, control.NOISE)} == set(before)
    for task in control.TASKS:
        for noise in (0.0, control.NOISE):
            assert before[task.problem, noise]["budget"] == task.budget
            assert len(before[task.problem, noise]["evaluations"]) == 20
    assert round(np.mean(before["cartpole", 0.0]["evaluations"])) == 395


def test_tessera_plays_the_environments_of_gymnasium():
    groups = control.Control().groups
    ours, noisy, rival = (groups[variant, control.TASKS[1]].run for variant in (TESSERA, control.NOISY, AQL))
    assert (ours.problem, noisy.problem, rival.problem) == ("MountainCar-v0", "mountaincar", "mountaincar")
    assert (noisy.arguments, rival.arguments) == ({"noise": 0.5}, {})
    assert not ours.trusted  # so that the study runs in processes


def test_seeds_are_hashed_from_the_words_of_the_first_release():
    """Other words would be other random numbers, and the results in docs/study would not be those of this code."""
    study = control.Control(sb3_agents=3)
    for variant, word in ((TESSERA, "spaql"), (SPAQL, "spaql-published"), (control.NOISY, "tessera-noise")):
        group = study.groups[variant, control.TASKS[0]]
        assert group.seeds == [seed_at(0, "control", word, "cartpole", agent) for agent in range(20)]
    group = study.groups[control.SB3[0], control.TASKS[0]]
    assert group.seeds == [seed_at(0, "control", "DQN", "cartpole", agent) for agent in range(3)]
