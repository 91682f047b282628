"""Ctrl-C at any moment of `spaql train`: exit code 130, nothing but sentences on stderr, and everything kept.

Each case interrupts a run at another moment, drawn at random: while it starts, compiles, learns, plans, evaluates or
saves; the run is then resumed, and ends with the same bytes as one that was not interrupted.  SPAQL_SOAK=1 tries 200
moments, half of them while an empty cache is filled, and reports the slowest end.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import spaql
import spaql.__main__
from spaql.cli import main
from spaql.partition import jit, kernels
from spaql.runner.run_spec import Run
from spaql.runner.train_dir import TrainDir

pytestmark = [
    pytest.mark.compiled_only,
    pytest.mark.skipif(os.name == "nt", reason="signals of POSIX"),
]

SOAK = bool(os.environ.get("SPAQL_SOAK"))
MOMENTS = 200 if SOAK else 3
FIRST = int(os.environ.get("SPAQL_SOAK_FIRST", "0"))  # moments that an earlier run has tried
PROMISED = 2.0  # seconds; measured in the soak, where the computer should have nothing else to do
_RUNS = {
    "tessera": ["oil", "--iterations", "400", "--episodes", "200"],
    "spaql": ["cartpole", "--algorithm", "spaql", "--iterations", "40", "--episodes", "200"],
}


def start(folder, words, **environment):
    command = [sys.executable, "-m", "spaql", *words]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=folder, env=os.environ | environment, **streams)


def finish(folder, words, **environment):
    process = start(folder, words, **environment)
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    return out


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The bytes of agents that were not interrupted, and the seconds that their runs took."""
    folder, ends = tmp_path_factory.mktemp("whole"), {}
    here, before = Path(__file__).parent, os.environ.get("PYTHONPATH")
    path = [str(here / "children"), str(here), *([before] if before else [])]
    for name in list(_RUNS)[: None if SOAK else 1]:
        words = ["train", *_RUNS[name], "--quiet", "--out", str(folder / name), "--checkpoint-every", "300"]
        begun = time.monotonic()
        finish(folder, words, PYTHONPATH=os.pathsep.join(path))  # with the plans of tiny_plans_of_children
        ends[name] = ((folder / name / "agent.spaql").read_bytes(), time.monotonic() - begun)
    return ends


@pytest.mark.parametrize("moment", range(FIRST, FIRST + MOMENTS))
@pytest.mark.usefixtures("tiny_plans_of_children")
def test_ctrl_c_at_any_moment(moment, whole, tmp_path):
    random = np.random.default_rng([moment, 22])
    name = list(whole)[moment % len(whole)]
    content, seconds = whole[name]
    cold = SOAK and moment % 4 >= 2
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")} if cold else {}
    out = tmp_path / "out"
    words = ["train", *_RUNS[name], "--quiet", "--out", str(out), "--checkpoint-every", "300"]
    process = start(tmp_path, words, **cache)
    try:
        process.wait(timeout=random.random() * (60.0 if cold else 1.1 * seconds))
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
    begun = time.monotonic()
    _, err = process.communicate(timeout=120)
    took = time.monotonic() - begun
    print(f"moment {moment}: {name}{' cold' * cold}, code {process.returncode}, {took:.2f} s: {err[-200:]!r}")
    # Before Python has begun to run the program, and while it ends, Ctrl-C is Python's own.
    starting = "init_import_site" in err  # Python runs the sitecustomize of these tests
    assert starting or process.returncode in (130, -signal.SIGINT, 0), err
    assert starting or process.returncode == -signal.SIGINT or "Traceback" not in err, err
    assert not SOAK or took < PROMISED
    if not (out / "train.json").exists():
        return  # the run had not begun
    if (out / "agent.spaql").exists():
        assert spaql.load(out).iterations > 0
    if not TrainDir.read(out).finished:
        finish(tmp_path, ["train", "--resume", str(out), "--quiet"])
    assert (out / "agent.spaql").read_bytes() == content


# In this process ------------------------------------------------------------------------------------------------------


def press_soon(condition):
    """Press Ctrl-C in this process once a condition holds."""

    def wait():
        while not condition():
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def test_ctrl_c_ends_the_wait_for_the_compiler_but_not_the_compiler():
    begun, go, made = threading.Event(), threading.Event(), []

    def compile_slowly():
        begun.set()
        go.wait(60)
        made.append("kernel")
        return "kernel"

    press_soon(begun.is_set)
    with pytest.raises(KeyboardInterrupt):
        jit.apart(compile_slowly)
    assert not made
    assert jit.is_compiling()
    go.set()
    while jit.is_compiling():
        time.sleep(0.001)
    assert made == ["kernel"]
    assert jit.apart(lambda: "next") == "next"


def test_what_is_raised_while_compiling_is_raised_where_one_waits():
    with pytest.raises(ZeroDivisionError):
        jit.apart(lambda: 1 // 0)


def test_ctrl_c_that_is_held_back_ends_the_wait_for_the_compiler():
    begun, go = threading.Event(), threading.Event()

    def compile_slowly():
        begun.set()
        go.wait(60)

    press_soon(begun.is_set)
    try:
        with pytest.raises(KeyboardInterrupt), jit.hold_interrupts():
            jit.apart(compile_slowly)
    finally:
        go.set()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_waits_until_an_agent_is_kept(tmp_path, monkeypatch):
    """Also where a kernel must be compiled for that."""
    agent = spaql.AQL("oil", rollouts=0, seed=0).learn(iterations=20)
    folder = TrainDir.begin(tmp_path, Run("oil", {}, "aql", {"rollouts": 0}, 0, 20, 0))
    begun, keep = threading.Event(), agent._keep
    press, looks = press_soon(begun.is_set), []

    def compile_slowly():
        begun.set()
        press.join()
        while len(looks) < 3:  # of the main thread, after Ctrl-C
            time.sleep(0.001)

    def keep_slowly(path):
        jit.apart(compile_slowly)
        with jit.hold_interrupts() as check:
            check()
        return keep(path)

    held = jit.raise_held
    monkeypatch.setattr(jit, "raise_held", lambda: (looks.append(1), held()))
    monkeypatch.setattr(jit, "_LISTEN_SECONDS", 0.01)
    monkeypatch.setattr(agent, "_keep", keep_slowly)
    with pytest.raises(KeyboardInterrupt):
        folder.keep(agent)
    assert len(looks) >= 3
    assert spaql.load(tmp_path).iterations == 20
    held()  # it was raised once


def test_a_run_loads_what_keeps_its_agent_before_it_learns(tmp_path, monkeypatch, capsys):
    called = set()

    def record(name, used):
        monkeypatch.setattr(kernels, name, lambda *given: (called.add(name), used(*given))[1])

    for name in ("list_cells", "restore_forest"):
        record(name, getattr(kernels, name))
    before, learn = [], spaql.AQL.learn
    monkeypatch.setattr(
        spaql.AQL, "learn", lambda *given, **keywords: (before.append(set(called)), learn(*given, **keywords))[1]
    )
    words = ["train", "oil", "--algorithm", "aql", "--rollouts", "0", "--iterations", "5", "--episodes", "2"]
    assert main([*words, "--quiet", "--out", str(tmp_path / "out")]) == 0
    assert before == [{"list_cells", "restore_forest"}]


def test_ctrl_c_while_the_usual_handler_is_put_back_is_raised_once(monkeypatch):
    """The second one comes between the two."""
    restore = jit._signal.signal

    class Pressing:
        default_int_handler, getsignal = signal.default_int_handler, staticmethod(signal.getsignal)

        @staticmethod
        def signal(number, handler):
            if handler is signal.default_int_handler:
                signal.raise_signal(number)
            restore(number, handler)
            if handler is signal.default_int_handler:
                signal.raise_signal(number)

    monkeypatch.setattr(jit, "_signal", Pressing)
    with pytest.raises(KeyboardInterrupt), jit.hold_interrupts():
        pass
    monkeypatch.undo()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    jit.raise_held()
    assert jit.apart(lambda: "next") == "next"
    with jit.hold_interrupts() as check:
        check()


@pytest.mark.parametrize("code", [0, 2, 130, 143])
def test_a_command_that_was_stopped_does_not_wait_for_the_compiler(code, monkeypatch):
    monkeypatch.setattr(spaql.cli, "main", lambda: code)
    monkeypatch.setattr(jit, "is_compiling", lambda: True)
    ends = []
    monkeypatch.setattr(os, "_exit", ends.append)
    with pytest.raises(SystemExit) as end:
        spaql.__main__.run()
    assert end.value.code == code
    assert ends == ([code] if code > 2 else [])


def test_ctrl_c_is_held_back_until_a_kernel_returns():
    rows, steps = [], []

    def stops(agent):
        rows.append(agent.iterations)
        if len(rows) == 3:
            signal.raise_signal(signal.SIGINT)

    agent = spaql.SPAQL("oil", seed=0)
    inside = jit.hold_interrupts()

    def press():
        with inside as check:
            signal.raise_signal(signal.SIGINT)
            steps.append("goes on")
        steps.append("not reached")
        return check

    with pytest.raises(KeyboardInterrupt):
        press()
    assert steps == ["goes on"]
    jit.raise_held()  # it is raised once
    with pytest.raises(KeyboardInterrupt):
        agent.learn(iterations=10_000, callback=stops)
    assert len(agent.history) == agent.iterations == rows[-1]


def test_another_handler_of_ctrl_c_stays():
    heard = []

    def handler(number, frame):
        heard.append(number)

    before = signal.signal(signal.SIGINT, handler)
    try:
        with jit.hold_interrupts():
            assert signal.getsignal(signal.SIGINT) is handler
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [signal.SIGINT]
