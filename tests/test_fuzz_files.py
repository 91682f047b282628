"""Damaged and forged files of every kind are refused in one sentence, or can be used; see `fuzz_files.py`."""

import os

import pytest

from fuzz_files import fuzz

COUNT = 20_000 if os.environ.get("SPAQL_SOAK") else 300  # make soak
LARGEST = 1 << 30  # bytes of a process


@pytest.mark.compiled_only
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="memory cannot be measured here")
def test_files_are_refused_or_can_be_used():
    outcomes, failures, slowest, largest = fuzz(COUNT, report=print)
    print(f"{COUNT:,} files: {dict(outcomes)}; slowest {slowest[0]:.1f} s, largest process {largest >> 20} MB")
    assert not failures
    assert sum(outcomes.values()) == COUNT
    assert outcomes["agent", "refused"] > 0.2 * COUNT
    assert outcomes["agent", "accepted"] > 0.05 * COUNT
    assert 0 < largest < LARGEST
