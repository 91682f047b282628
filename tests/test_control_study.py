"""The study of classic control, with agents of another package beside it; made-up ones here."""

import json
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from spaql import cli
from spaql.errors import StoreError
from spaql.runner.run_spec import seed_at
from spaql.studies import control, sb3
from spaql.studies.variants import AQL, RANDOM, SPAQL, TESSERA

pytestmark = pytest.mark.compiled_only

SMALL = tuple(replace(task, budget=1600) for task in control.TASKS if task.problem in ("cartpole", "pendulum"))
FEW = control.Size(2, 3, (TESSERA, *control.RIVALS), SMALL)


@pytest.fixture
def scored(monkeypatch):
    """A package whose agents reach their number; the numbers of those that learned."""
    learned = []

    def score(name, task, seed, episodes):
        learned.append((name, task.problem, seed))
        return {"mean": float(len(learned)), "steps": task.budget}

    monkeypatch.setattr(sb3, "package", lambda: SimpleNamespace(__version__="1.0"))
    monkeypatch.setattr(sb3, "_train", score)
    return learned


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


@pytest.mark.parametrize(("option", "value"), [("--sb3-seeds", "1"), ("--threads", "0"), ("--seed", "-1")])
def test_bad_input_is_one_sentence(option, value, tmp_path, capsys, scored):
    assert cli.main(["control", "--with-sb3", "--out", str(tmp_path / "out"), option, value]) == 2
    assert option in sentence(capsys)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "text", ["", "[{", "{}{}", "7", "[7]", '[{"agent": "DQN (SB3)"}]', '{"agent": 1}', "\xff", "[" * 100_000]
)
def test_a_damaged_file_is_one_sentence_and_stays(text, tmp_path, capsys, monkeypatch, scored):
    monkeypatch.setattr(control, "QUICK", FEW)
    (tmp_path / sb3.NAME).write_text(text, encoding="latin-1")
    assert cli.main(["control", "--quick", "--with-sb3", "--quiet", "--out", str(tmp_path)]) == 2
    assert "sb3.json' is damaged" in sentence(capsys)
    assert (tmp_path / sb3.NAME).read_text(encoding="latin-1") == text
    assert not scored


def test_a_score_that_is_no_number_is_damage(tmp_path, scored):
    sb3.measure(tmp_path, SMALL[:1], agents=2, episodes=5)
    path = tmp_path / sb3.NAME
    path.write_text(path.read_text().replace("1.0,", "NaN,", 1).replace('"version": NaN', '"version": "1.0"'))
    with pytest.raises(StoreError, match="damaged"):
        sb3.measure(tmp_path, SMALL[:1], agents=2, episodes=5)


def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path, scored):
    (tmp_path / sb3.NAME).mkdir()
    with pytest.raises(StoreError, match="cannot be read"):
        sb3.measure(tmp_path, SMALL, agents=2, episodes=5)


def test_a_row_is_found_again_by_all_that_it_depends_on(tmp_path, scored):
    first = sb3.measure(tmp_path, SMALL, agents=2, episodes=5)
    assert [row["agent"] for row in first] == [f"{name} (SB3)" for name in ("DQN", "PPO", "SAC", "PPO") for _ in "12"]
    assert sb3.measure(tmp_path, SMALL, agents=2, episodes=5) == first
    assert len(scored) == 8
    more = sb3.measure(tmp_path, SMALL, agents=3, episodes=5)
    assert len(scored) == len(more) == 12
    assert [row for row in more if row in first] == first
    shorter = [replace(task, budget=800) for task in SMALL]
    for tasks, given in ((shorter, {}), (SMALL, {"episodes": 6}), (SMALL, {"seed": 1})):
        before = len(scored)
        rows = sb3.measure(tmp_path, tasks, **{"agents": 2, "episodes": 5, **given})
        assert len(scored) == before + 8
        assert not [row for row in rows if row in more]
    assert sb3.measure(tmp_path, SMALL, agents=2, episodes=5) == first  # what is not asked for is kept, not told


def test_agents_of_another_package_stand_in_the_table(tmp_path, capsys, monkeypatch, scored):
    monkeypatch.setattr(control, "QUICK", FEW)
    command = ["control", "--quick", "--quiet", "--out", str(tmp_path)]
    assert cli.main([*command, "--with-sb3", "--sb3-seeds", "2", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [row["mean"] for row in told["others"]] == [float(n) for n in range(1, 9)]
    assert {row["problem"] for row in told["rows"]} == {"cartpole", "pendulum"}
    for row in told["rows"]:
        assert row["steps"] <= row["budget"]
    text = (tmp_path / "control.md").read_text()
    assert "| DQN (SB3) | 1.5 ± 6.4 (2 seeds) |  |" in text
    assert "agents of Stable-Baselines3" in text
    assert cli.main(command) == 0
    shown = capsys.readouterr().out
    assert "SB3" not in shown
    assert "all runs were finished before" in shown


def test_a_budget_that_is_too_small_is_no_victory():
    def curve(variant, task):
        scores = np.array([[10.0], [11.0]]) if variant is TESSERA else np.array([[1.0], [2.0]])
        small = variant is AQL and task is SMALL[0]  # one of its agents had no room for an iteration
        return control.Curve((1600,), np.where([[small], [False]], np.nan, scores), scores, scores)

    curves = control.Curves(FEW, 0, {(each, task): curve(each, task) for each in FEW.variants for task in SMALL})
    assert (curves.standing(SMALL[0], AQL), curves.standing(SMALL[1], AQL)) == (None, 1)
    assert curves.against(AQL) == (1, 1)
    assert curves.against(RANDOM) == (2, 2)
    report = curves.report()
    assert "SPAQL-TS on 2, AQL on 1 of the 1 measured, Random on 2 (Welch, 5%)" in report.summary[0]
    assert (report.data["ahead"]["aql"], report.data["measured"]["aql"]) == (1, 1)
    assert "nothing was measured and nothing is counted" in report.markdown()


def test_seeds_are_hashed_from_the_words_of_the_first_release():
    """Other words would be other random numbers, and the results in docs/study would not be those of this code."""
    study = control.Control(control.FULL)
    for variant, word in ((TESSERA, "spaql"), (SPAQL, "spaql-published"), (control.TENFOLD, "spaql-tenfold")):
        group = study.groups[variant, control.TASKS[0]]
        assert group.seeds == [seed_at(0, "control", word, "cartpole", agent) for agent in range(20)]
