"""The study of the family: equal budgets, choices on other agents, statements that follow from the scores."""

import json
from functools import partial

import numpy as np
import pytest

from figures_for_tests import draw_digest
from spaql.runner.engines import make_engine
from spaql.runner.run_spec import problem_of
from spaql.studies import family
from spaql.studies import study as studies
from spaql.studies.family import Family, Member, Place
from spaql.studies.study import run_study

pytestmark = [pytest.mark.compiled_only, pytest.mark.tiny_planning]

PLACES = (
    Place("oil", "oil", {"survey": "quadratic", "sharpness": 1.0, "horizon": 5}, 600),
    Place("inventory", "inventory", {"lead_time": 1}, 1000),
)
MEMBERS = (
    Member("tessera"),
    Member("aql", family._grid(scaling=(0.01, 5.0)), {"rollouts": 0}),
    Member("spaql", family._grid(scaling=(0.1,))),
    Member("nbql", family._grid(epsilon=(0.125, 0.0001), scaling=(0.001,))),
    Member("adamb", family._grid(scaling=(0.5,)), {"rollouts": 0}),
    Member("ucb-q", family._grid(bins=(4,)), {"bonus": "hoeffding"}),
    Member("ucb-q", family._grid(bins=(4,)), {"bonus": "bernstein"}),
    Member("random"),
)
SIZE = {"agents": 2, "choosers": 2, "episodes": 40}


@pytest.fixture(scope="module")
def small():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(family, "MEMBERS", MEMBERS)
        patch.setattr(family, "places", lambda part: PLACES)
        patch.setattr(family, "_HARDER", family._HARDER[:1])
        yield


@pytest.fixture(scope="module")
def finished(small, tmp_path_factory):
    """The study, and its files by name."""
    folder = tmp_path_factory.mktemp("family")
    study = Family(**SIZE)
    run_study(study, folder)
    return study, {path.name: path.read_bytes() for path in folder.glob("family.*")}


def test_no_algorithm_has_more_steps_than_another(finished):
    study, _ = finished
    for (name, label), score in study.scores.items():
        place = next(place for place in PLACES if place.label == label)
        assert score.steps <= place.steps
        horizon = problem_of(score.group.run).horizon
        most = 21 * horizon if name == "spaql" else horizon  # an iteration that no longer fits is not begun
        assert name == "random" or score.steps > place.steps - most - 1


def test_choices_are_made_on_agents_of_other_seeds(finished):
    study, _ = finished
    for place in PLACES:
        score = study.scores["aql", place.label]
        assert score.group.varied["scaling"] == 0.01  # with 5, six hundred steps are all exploration
        some = study._group(MEMBERS[1], place, {"scaling": 0.01}, "choice", 2)
        assert set(some.seeds).isdisjoint(score.group.seeds)


def test_nets_that_are_too_fine_are_not_tried(finished):
    study, _ = finished
    assert all(study.scores["nbql", place.label].group.varied["epsilon"] == 0.125 for place in PLACES)


def test_the_report_says_what_the_scores_are(finished):
    study, files = finished
    data = json.loads(files["family.json"])
    assert len(data["rows"]) == len(MEMBERS) * len(PLACES)
    row = next(row for row in data["rows"] if (row["algorithm"], row["problem"]) == ("tessera", "oil"))
    shares = study.scores["tessera", "oil"].shares
    assert row["share"] == pytest.approx(shares.mean())
    assert 0.5 < row["share"] < 1.05
    assert row["memory"] > 0
    text = files["family.md"].decode()
    assert "best mean rank" in text
    assert "(s, S)" in text  # the heuristic of the inventory


def test_heuristics_of_another_home_are_there_too():
    assert set(PLACES[0].heuristics) == {"deposit", "no-movement"}
    assert {"s-S", "base-stock"} <= set(PLACES[1].heuristics)
    assert "random" not in {name for place in family.places(1.0) for name in place.heuristics}


def test_ranks_and_regret_by_hand(finished):
    study, _ = finished
    learners = [member for member in MEMBERS if member.learns]
    ranks = study._ranks(learners)
    for column, place in enumerate(PLACES):
        shares = [study.scores[member.name, place.label].share.mean for member in learners]
        assert shares[int(np.argmin(ranks[:, column]))] == max(shares)
        assert ranks[:, column].sum() == len(learners) * (len(learners) + 1) / 2
    score = study.scores["aql", "oil"]
    assert score.episodes == 120
    assert 0.0 < score.regret.mean < PLACES[0].optimum * 120
    assert score.bound == pytest.approx(3 / 4)


def test_results_do_not_depend_on_the_engine(finished, tiny_plans_of_children, tmp_path, monkeypatch):
    _, files = finished
    monkeypatch.setattr(studies, "_draw", draw_digest)  # figures are not compared
    run_study(Family(**SIZE), tmp_path, engine=partial(make_engine, "processes", workers=2))
    assert {path.name: path.read_bytes() for path in tmp_path.glob("family.*")} == files
