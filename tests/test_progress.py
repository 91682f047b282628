"""Planning is visible as a phase of its own: on the progress bar, or as a line on a terminal."""

import copy
import time

import pytest

import spaql
from spaql.agents import progress
from spaql.agents.tessera import agent as tessera
from spaql.agents.tessera import planner


class Bar:
    """Records what a tqdm bar is told."""

    def __init__(self, disable=False):
        self.disable, self.postfixes = disable, []

    def set_postfix_str(self, text, refresh=True):
        self.postfixes.append((text, refresh))


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(progress, "_ON_BAR", 0.01)
    monkeypatch.setattr(progress, "_AS_LINE", 0.01)


def test_a_long_phase_is_shown_on_the_bar_and_removed_after_it():
    bar = Bar()
    with progress.announce_phase("planning", bar, None):
        time.sleep(0.2)
        assert bar.postfixes == [("planning", True)]
    assert bar.postfixes[1:] == [("", False)]


def test_a_short_phase_is_not_shown(monkeypatch):
    monkeypatch.setattr(progress, "_ON_BAR", 60.0)
    bar = Bar()
    with progress.announce_phase("planning", bar, None):
        pass
    assert bar.postfixes == [("", False)]


@pytest.mark.parametrize(("bar", "shown"), [(None, False), (None, None), (Bar(disable=True), True)])
def test_nothing_is_shown_where_no_progress_is(bar, shown, capsys):
    with progress.announce_phase("planning", bar, shown):
        time.sleep(0.05)
    assert capsys.readouterr().err == ""
    assert bar is None or not bar.postfixes


def slow(make_plan):
    def make(*arguments):
        time.sleep(0.2)
        return make_plan(*arguments)

    return make


def test_learning_and_evaluating_show_planning(monkeypatch, capsys):
    agent = spaql.Tessera("oil", seed=0)
    agent.prepare(progress_bar=False)
    monkeypatch.setattr(tessera, "make_plan", slow(tessera.make_plan))
    agent.learn(600, progress_bar=True)
    assert "planning" in capsys.readouterr().err  # on the bar
    assert agent._bar is None
    agent.evaluate(2, progress_bar=True)
    assert "spaql: planning ...\n" in capsys.readouterr().err
    agent.learn(5, progress_bar=False).evaluate(2, progress_bar=False)
    assert capsys.readouterr().err == ""


def test_agents_can_be_copied_while_they_learn():
    copies = []
    spaql.Tessera("oil", seed=0).learn(iterations=3, callback=lambda agent: copies.append(copy.deepcopy(agent)))
    assert copies[0].learn(iterations=1).iterations == copies[0].iterations


@pytest.mark.compiled_only
def test_prepare_compiles_the_planner(monkeypatch):
    agent = spaql.Tessera("oil", seed=0).prepare()
    assert planner.compile_planner.cache_info().currsize >= 1  # other tests prepare other kinds of problems
    assert planner.policy_search.play_rollouts.signatures
    assert planner.policy_search.prune.signatures
    assert agent.iterations == 0
