"""Planning is visible as a phase of its own: on the progress bar, or as a line on a terminal."""

import copy
import json
import os
import re
import subprocess
import sys
import textwrap
import time

import pytest

import spaql
from spaql.agents import progress
from spaql.agents.tessera import agent as tessera
from spaql.agents.tessera import planner
from spaql.partition import jit


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


def make_kernels(monkeypatch):
    """Return a kernel that calls another, neither of which is in the cache."""
    monkeypatch.setattr(jit, "CACHE", None)

    @jit.kernel()
    def double(number):
        return 2 * number

    @jit.kernel()
    def add_double(number):
        return number + double(number)

    return add_double


@pytest.mark.compiled_only
@pytest.mark.parametrize("expected", [1, 2, 40, None])
def test_each_compiled_kernel_moves_a_bar_that_never_goes_back(expected, monkeypatch, capsys):
    monkeypatch.setattr(progress, "_ON_BAR", -1.0)
    if expected is not None:
        monkeypatch.setitem(progress.KERNELS, "something", expected)
    add_double = make_kernels(monkeypatch)
    with progress.announce_compilation("something", True):
        assert add_double(3) == 9
    shown = capsys.readouterr().err
    shares = [int(share) for share in re.findall(r"(\d+)%", shown)]
    assert "compiling something" in shown
    assert "100%" in shown
    assert f"{max(2, expected or 0)}/{max(2, expected or 0)}" in shown
    assert shares == sorted(shares)
    with progress.announce_compilation("something", True):  # it is compiled by now
        assert add_double(3) == 9
    assert capsys.readouterr().err == ""


@pytest.mark.compiled_only
def test_compilation_is_silent_where_no_progress_is_shown(monkeypatch, capsys):
    monkeypatch.setattr(progress, "_ON_BAR", -1.0)
    for shown in (False, None):
        with progress.announce_compilation("something", shown):
            assert make_kernels(monkeypatch)(3) == 9
    assert capsys.readouterr().err == ""


@pytest.mark.compiled_only
def test_an_interrupted_compilation_is_not_complete(monkeypatch, capsys):
    monkeypatch.setattr(progress, "_ON_BAR", -1.0)
    monkeypatch.setitem(progress.KERNELS, "something", 40)

    def compile_and_stop():
        with progress.announce_compilation("something", True):
            make_kernels(monkeypatch)(3)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compile_and_stop()
    shown = capsys.readouterr().err
    assert "2/40" in shown
    assert "100%" not in shown
    assert jit._WATCH.compiled is None


@pytest.mark.compiled_only
def test_the_number_of_kernels_is_that_of_an_empty_cache(tmp_path):
    """For the kinds that compile quickly; `spaql bench --only start` counts those of Tessera."""
    code = """
        import spaql
        from spaql.partition.jit import watch_compilation

        agent, counts = spaql.NBQL("oil", seed=0), []
        for part in (agent.prepare, lambda: agent.learn(iterations=5).rules()):
            counts.append(0)
            with watch_compilation(lambda: counts.append(counts.pop() + 1)):
                part()
        print(counts)
    """
    call = [sys.executable, "-c", textwrap.dedent(code)]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(call, check=True, capture_output=True, text=True, env=environment)
    assert json.loads(done.stdout) == [progress.KERNELS["NBQL"], progress.KERNELS["rules"]]


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
