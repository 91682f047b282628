"""Shared by all tests: where the tests themselves are importable, Ctrl-C, one browser for all that need one."""

import os
import signal
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
# A shell lets background processes ignore SIGINT, and their children with them; tests send it to both.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _compile_a_share(request):
    """Workers that run the whole suite begin by compiling a share of the kernels each, and load those of the others.

    With an empty cache, each would else compile all of them at the same time as the others do.
    """
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if workers == 1 or request.session.testscollected < 1000 or os.environ.get("NUMBA_DISABLE_JIT") == "1":
        return
    from spaql.agents import algorithms
    from spaql.runner.execute import prepare_algorithms

    number = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"))
    others = [name for name, entry in algorithms().items() if entry.learns and name != "tessera"]
    prepare_algorithms(others[number - 1 :: workers - 1] if number else ["tessera"])  # which has half of the kernels


@pytest.fixture(scope="module", autouse=True)
def _plan_with_little_effort(request):
    """Tessera plans with a fraction of its usual effort; see the markers full_planning and tiny_planning."""
    if request.node.get_closest_marker("full_planning"):
        yield
        return
    from planning_for_tests import small_plans, tiny_plans  # they bring Numba

    with tiny_plans() if request.node.get_closest_marker("tiny_planning") else small_plans():
        yield


@pytest.fixture
def plan_early(monkeypatch):
    """Tessera plans with next to no effort, and for the first time after a few episodes."""
    from planning_for_tests import tiny_plans
    from spaql.agents.tessera import agent

    monkeypatch.setattr(agent, "_FIRST_PLAN", 60)
    with tiny_plans():
        yield


@pytest.fixture
def tiny_plans_of_children(monkeypatch):
    """Tessera plans with next to no effort in processes that the test starts."""
    here = Path(__file__).parent
    before = [path for path in (os.environ.get("PYTHONPATH"),) if path]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(here / "children"), str(here), *before]))


@pytest.fixture(scope="session")
def driver(tmp_path_factory):
    """A headless browser; starting one takes longer than most tests of a page."""
    import browsers  # it brings selenium, which most tests do not need

    if browsers.CHROMIUM is None or browsers.DRIVER is None:
        pytest.skip("no chromium and chromedriver on PATH")
    with browsers.chrome(tmp_path_factory.mktemp("profile")) as chrome:
        yield chrome


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """The folder of a study whose made-up runs are all finished."""
    from sweeps_for_tests import fill

    folder = tmp_path_factory.mktemp("sweeps") / "whole"
    fill(folder)
    return folder


@pytest.fixture(scope="session")
def part(tmp_path_factory):
    """The same study, with missing and failed runs."""
    from sweeps_for_tests import fill_part

    return fill_part(tmp_path_factory.mktemp("sweeps") / "part")
