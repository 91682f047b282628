"""Progress of a study's folder, and what watching it shows, from made-up runs."""

from __future__ import annotations

import io
import sys
import time

import pytest

from spaql.cli import main
from spaql.errors import NothingYetError
from spaql.runner.folder_lock import is_locked
from spaql.runner.store import STORE, Store, lock_of
from spaql.studies.sweep.comparison_table import compare
from spaql.studies.sweep.group_values import read_values
from spaql.studies.sweep.status import read_status
from spaql.studies.sweep.sweep_report import watch
from spaql.studies.sweep.sweep_study import Sweep
from sweeps_for_tests import NASTY, STUDY_DATA, fill, fill_with, make_progress, make_record, write_study


def test_status_of_a_study_that_is_over(whole):
    now = read_status(whole)
    assert (now.total, now.done, now.failed, now.running, now.state) == (48, 48, 0, 0, "finished")
    assert now.done == now.total
    assert now.rate == pytest.approx(4.8, rel=0.1)
    assert now.lines() == ["48 of 48 runs finished"]


def test_status_tells_failures_with_their_seeds(part):
    now = read_status(part)
    assert (now.done, now.failed, now.state, now.kinds) == (37, 1, "stopped", {"error": 1})
    (failed,) = now.failures
    assert failed["seed"] == Sweep(STUDY_DATA).groups[7].runs[1].seed
    assert failed["message"] == f"ValueError: {NASTY}"
    assert now.lines()[0] == "37 of 48 runs finished, 1 failed; not running; run the same command again to resume"
    assert f"random on oil, sharpness=10, seed {failed['seed']}: error: ValueError" in now.lines()[2]
    assert read_status(part, 0).lines()[-1].endswith("and 1 earlier ones")


@pytest.mark.parametrize(
    ("ago", "host", "said_state", "held", "state"),
    [
        (1000.0, None, "running", True, "running"),  # it said nothing for long, but has the lock
        (1000.0, "elsewhere", "running", True, "running"),
        (0.0, None, "starting", True, "running"),
        (0.0, None, "running", False, "stopped"),  # it was killed: its process may have a successor of the same number
        (-1.0, None, "starting", False, "running"),  # it took the lock after that was asked
        (0.0, "elsewhere", "running", False, "running"),  # locks are not always seen from another computer
        (1000.0, "elsewhere", "running", False, "stopped"),
        (-100.0, "elsewhere", "running", False, "stopped"),  # a clock that is wrong is nobody at work
        (-100.0, None, "running", False, "stopped"),
        (0.0, None, "stopped", False, "stopped"),
        (0.0, None, "running", None, "running"),  # the lock cannot be asked
        (1000.0, None, "starting", None, "stopped"),
    ],
)
def test_who_is_at_work(tmp_path, ago, host, said_state, held, state):
    given = {"state": said_state, "running": 2, "seconds_left": 30.0, "updated": time.time() - ago}
    given |= {} if host is None else {"host": host}
    with Store(tmp_path / STORE, code="test") as store:
        store.add((), progress=make_progress(10, 4, 1, **given))
        if held:
            now = read_status(tmp_path)
    if held is None:
        (tmp_path / f"{STORE}.lock").unlink(missing_ok=True)
    if not held:
        now = read_status(tmp_path)
    assert now.state == state
    assert now.running == (2 if state == "running" else 0)
    if state == "running":
        assert "4 of 10 runs finished, 1 failed, 2 running; threads (2)" in now.sentence
        assert now.seconds_left is not None


def test_who_begins_anew_is_at_work(tmp_path):
    fill(tmp_path)
    with Store(tmp_path / STORE, code="test"):
        now = read_status(tmp_path)
    assert now.state == "running"
    assert now.lines() == ["48 of 48 runs finished, 0 running; starting"]
    assert now.engine is now.process is now.rate is None
    assert read_status(tmp_path).state == "finished"


def test_asking_for_the_lock_does_not_keep_it(tmp_path):
    path = tmp_path / STORE
    lock = lock_of(path)
    assert is_locked(lock) is None
    with Store(path, code="test"):
        assert is_locked(lock) is True
        assert is_locked(lock) is True
    assert is_locked(lock) is False
    with open(lock) as other:  # who asks at the same moment is nobody at work
        fcntl = pytest.importorskip("fcntl")
        fcntl.flock(other, fcntl.LOCK_SH)
        assert is_locked(lock) is False
    with Store(path, code="test"):
        assert is_locked(lock) is True


def test_without_locks_the_lock_cannot_be_asked(tmp_path, monkeypatch):
    with Store(tmp_path / STORE, code="test"):
        monkeypatch.setitem(sys.modules, "fcntl", None)
        assert is_locked(lock_of(tmp_path / STORE)) is None


def test_a_store_of_which_nothing_was_said_is_not_over(tmp_path):
    write_study(tmp_path)
    begun = pytest.raises(NothingYetError, match="has no runs yet; wait until its study has begun")
    with Store(tmp_path / STORE, code="test"), begun:
        read_status(tmp_path)
    with pytest.raises(NothingYetError, match="has no runs yet"):
        read_status(tmp_path)


def test_a_folder_without_a_store_is_a_sentence(tmp_path):
    with pytest.raises(NothingYetError, match="is not there; name the folder of a study"):
        read_status(tmp_path)
    (tmp_path / STORE).touch()
    with pytest.raises(NothingYetError, match="has no runs yet"):
        read_values(tmp_path)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_watching_waits_for_a_study_and_ends_with_it(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("LINES", "50")
    out, waits = Terminal(), []
    folder = tmp_path / "later"
    kept = []

    def say(state):
        kept[0].add((), progress=make_progress(48, 0, state=state, seconds_left=None))

    def end():
        kept.pop().close()
        fill(folder)

    stages = iter(
        [
            folder.mkdir,
            lambda: (folder / STORE).touch(),
            lambda: kept.append(Store(folder / STORE, code="test")),
            lambda: write_study(folder),
            lambda: say("starting"),
            lambda: say("running"),
            lambda: fill_with(kept[0], missing=[(0, 0)], state="running", running=1, seconds_left=9.0),
            end,
        ]
    )

    def pause(seconds):
        waits.append(seconds)
        next(stages)()

    watch(folder, out, every=0.5, pause=pause)
    views = out.getvalue().split("\x1b[H")[1:]
    assert len(views) == 9
    assert all(view.startswith("waiting ") for view in views[:5])
    assert all("0 of 48 runs finished, 0 running; threads (2)" in view for view in views[5:7])
    assert "47 of 48 runs finished, 1 running; threads (2)" in views[7]
    assert "5 of 6" in views[7]
    assert "48 of 48 runs finished\x1b[K\n[####" in views[8]
    assert all(view.endswith("\x1b[J") for view in views)
    monkeypatch.setenv("LINES", "5")
    watch(folder, out := Terminal())
    assert out.getvalue().count("\n") == 4
    assert "... and 11 more lines" in out.getvalue()
    assert len(waits) == 8


def test_without_a_terminal_views_are_plain(part):
    out = io.StringIO()
    watch(part, out, once=True)
    assert "\x1b" not in out.getvalue()
    assert "1 of 6, 1 failed" in out.getvalue()
    assert out.getvalue().rstrip().endswith(f"ValueError: {NASTY}")


def test_it_can_be_read_while_it_is_written(tmp_path):
    study = fill(tmp_path, missing=[(0, 5)])
    with Store(tmp_path / STORE, code="test") as store:
        run = study.groups[0].runs[5]
        assert compare(read_values(tmp_path)).rows[0].n == 5
        with Store.open_readonly(tmp_path / STORE) as other, other.snapshot():
            before = len(other)
            store.add([(run.id, run.specification, make_record(run, 5))])
            assert len(other) == before == 47
        assert compare(read_values(tmp_path)).rows[0].n == 6


def test_watching_ends_by_ctrl_c(part, monkeypatch):
    from spaql.studies.sweep import sweep_report

    def interrupted(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(sweep_report, "watch", interrupted)
    assert main(["sweep", "watch", str(part)]) == 0
