"""Damaged and forged files of every kind are refused in one sentence, or can be used; see `fuzz_files.py`."""

import os

import pytest

import fuzz_files
import fuzz_subjects
import spaql

COUNT = 20_000 if os.environ.get("SPAQL_SOAK") else 300  # make soak
LARGEST = 1 << 30  # bytes of a process


@pytest.mark.compiled_only
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="memory cannot be measured here")
def test_files_are_refused_or_can_be_used():
    outcomes, failures, slowest, largest = fuzz_files.fuzz(COUNT, report=print)
    print(f"{COUNT:,} files: {dict(outcomes)}; slowest {slowest[0]:.1f} s, largest process {largest >> 20} MB")
    assert not failures
    assert sum(outcomes.values()) == COUNT
    assert outcomes["agent", "refused"] > 0.2 * COUNT
    assert outcomes["agent", "accepted"] > 0.05 * COUNT
    assert 0 < largest < LARGEST


DYING = """
import os
print("begin 7")
print("end", 7, 0.1, "agent", "aql", "flip", "refused", sep="\\t")
print("begin 8", flush=True)
os.abort()
"""


def test_a_child_that_crashes_is_a_failure_of_its_file(tmp_path, monkeypatch):
    (tmp_path / "dying.py").write_text(DYING)
    monkeypatch.setattr(fuzz_files, "__file__", str(tmp_path / "dying.py"))
    first, second = fuzz_files.run_child(tmp_path, 0, 7, 20, ("agent",))
    assert first == (7, 0.1, "agent", "aql", "flip", "refused")
    assert (second[0], second[5].partition(":")[0]) == (8, "failed crash or hang (exit code -6)")


def test_a_child_that_does_not_begin_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(fuzz_files, "__file__", str(tmp_path / "missing.py"))
    with pytest.raises(RuntimeError, match="a child failed before its first mutation"):
        list(fuzz_files.run_child(tmp_path, 0, 0, 1, ("agent",)))


def test_what_a_reader_raises_beside_refusals_is_no_refusal(tmp_path, monkeypatch):
    def broken(path):
        raise RecursionError("a bug")

    monkeypatch.setattr(spaql, "load", broken)
    with pytest.raises(RecursionError, match="a bug"):
        fuzz_subjects.read_agent(b"", tmp_path)
