"""Which algorithm is best, by how much, and whether that is beyond chance: on samples made for it."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from spaql import stats
from spaql.runner.run_spec import Run
from spaql.studies.sweep.group_values import GroupValues, StudyValues
from spaql.studies.sweep.sweep_report import write_report
from spaql.studies.sweep.verdict import find_best, make_verdict
from spaql.studies.tune.tuning_result import COMPLETE, FAILED, Trial, TuningResult
from sweeps_for_tests import fill


def study(*problems, metric="evaluation"):
    """A study of samples by algorithm, on as many problems."""
    groups = []
    for number, samples in enumerate(problems, 1):
        for name, sample in samples.items():
            run = Run("oil", {}, name, {}, 0, 0, 0)
            groups.append(GroupValues(f"problem {number}", name, run, range(len(sample)), sample=np.array(sample)))
    return StudyValues(Path(), "made up", metric, None, tuple(groups))


def around(mean, count=6, spread=0.1):
    return (mean + spread * np.linspace(-1, 1, count)).tolist()


def verdict(*problems, **options):
    return make_verdict(find_best(study(*problems, **options)).values())


def test_one_that_is_better_is_best():
    samples = {"aql": around(3.0), "spaql": around(4.0), "random": around(1.0)}
    (best,) = find_best(study(samples)).values()
    assert (best.label, best.next, best.level, best.mark) == ("spaql", "aql", (), "best")
    assert best.difference.mean == pytest.approx(1.0)
    assert str(best).startswith(
        "spaql has the best mean evaluation on problem 1, 4, and is ahead of both others beyond chance. "
        "The difference to the next, aql, is 1.000 ["
    )
    raw = [
        stats.welch(samples[a], samples[b]).p_value
        for a, b in (("spaql", "aql"), ("spaql", "random"), ("aql", "random"))
    ]
    assert best.p_value == stats.holm(raw)[0]


def test_noise_has_no_best():
    random = np.random.default_rng(0)
    samples = {f"variant {k}": random.normal(size=5).tolist() for k in range(6)}
    (best,) = find_best(study(samples)).values()
    assert len(best.level) == best.rivals == 5
    assert best.mark == "best mean"
    assert str(best).startswith(f"No difference beyond chance: {best.label} has the best mean evaluation")
    assert "not ahead of any of the 5 others" in str(best)


def test_the_best_of_many_equal_ones_is_rarely_called_better():
    """Over all studies, for Holm's method over all pairs bounds the chance of any wrong verdict."""
    random = np.random.default_rng(1)
    wrong = 0
    for _ in range(200):
        samples = {str(k): random.normal(size=6).tolist() for k in range(8)}
        (best,) = find_best(study(samples)).values()
        wrong += len(best.level) < best.rivals
    assert wrong <= 20  # 5% of 200 is 10


def test_those_that_may_be_as_good_are_named():
    text = verdict({"a": around(4.0), "b": around(3.95), "c": around(1.0)})
    assert text.startswith(
        "a has the best mean evaluation on problem 1, 4; beyond chance it is ahead of all others but b."
    )


def test_less_regret_is_better():
    text = verdict({"a": around(40.0), "b": around(10.0)}, metric="regret")
    assert text.startswith("b has the least mean regret on problem 1, 10, and is ahead of the other beyond chance.")
    assert "is 30.000 [29.904, 30.096] (p < 0.001)." in text


def test_what_no_test_can_judge_is_not_judged():
    for ours, theirs in (([5.0], [1.0, 1.1]), ([5.0, 5.0], [1.0, 1.0])):
        (best,) = find_best(study({"a": ours, "b": theirs})).values()
        assert (best.label, best.level, best.p_value) == ("a", ("b",), None)
        assert str(best).endswith("cannot be tested.")
    assert verdict({"a": around(1.0), "b": []}) == "a has a mean evaluation of 1 on problem 1; no other has results."
    assert verdict({"a": [], "b": []}) == ""
    assert verdict({"a": around(1.0), "b": around(2.0)}, metric="cells") == ""  # more of them is not better


def test_several_problems_are_counted():
    clear, noise = {"a": around(2.0), "b": around(1.0)}, {"a": around(2.0), "b": around(1.99)}
    assert verdict(clear, noise, {"b": around(5.0), "a": around(1.0)}) == (
        "a has the best mean evaluation on 2 of 3 problems, by 0.01 to 1 over the next, beyond chance on 1; "
        "b has the best mean evaluation on 1 of 3 problems, by 4 over the next, beyond chance on 1."
    )
    assert make_verdict(find_best(study(noise, noise)).values(), complete=False) == (
        "So far: a has the best mean evaluation on 2 of 2 problems, by 0.01 over the next, beyond chance on none."
    )


def test_the_page_of_a_sweep_begins_with_the_verdict_and_marks_the_row(tmp_path):
    fill(tmp_path)
    text = write_report(tmp_path).read_text()
    sentence = "aql, scaling=2 has the best mean evaluation on 2 of 2 problems"
    assert 0 < text.index(sentence) < text.index("<table>")
    assert text.count('<tr class="marked"><th scope="row">aql, scaling=2 <span class="mark">best</span></th>') == 2
    assert text.count('class="marked"') == 2


@pytest.mark.parametrize(
    ("winner", "start", "end"),
    [
        (
            3.0,
            "The winner, trial 1, is better than the defaults, beyond chance: a difference of 1.000 [",
            "; tuning helped.",
        ),
        (
            2.0,
            "No difference beyond chance: the winner, trial 1, minus the defaults is 0.",
            ", so tuning did not help.",
        ),
        (1.0, "The winner, trial 1, is worse than the defaults, beyond chance: a ", "; tuning did not help."),
    ],
)
def test_a_tuning_says_whether_it_helped(winner, start, end):
    plan = SimpleNamespace(confidence=0.95, evaluation_seeds=6)
    tuning = SimpleNamespace(plan=plan, problems=["oil"], defaults={})
    trials = [Trial(n, {}, COMPLETE, (np.array(around(mean)),)) for n, mean in ((0, 2.0), (1, 4.0))]
    scores = {"winner": (np.array(around(winner)),), "default": (np.array(around(2.0)),)}
    assert TuningResult(tuning, trials, scores).verdict.startswith(start)
    assert TuningResult(tuning, trials, scores).verdict.endswith(end)
    assert TuningResult(tuning, trials).verdict == "So far the best in tuning is trial 1, not evaluated on other seeds."
    failed = [Trial(0, {}, FAILED, ())]
    assert TuningResult(tuning, failed).verdict.startswith("There is no winner")
