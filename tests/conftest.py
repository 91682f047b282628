"""Shared by all tests: where the tests themselves are importable, Ctrl-C, one browser for all that need one."""

import signal
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
# A shell lets background processes ignore SIGINT, and their children with them; tests send it to both.
signal.signal(signal.SIGINT, signal.default_int_handler)


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
