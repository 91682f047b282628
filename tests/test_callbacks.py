"""Callbacks: the same learning, when they are called, what goes wrong, and each of them."""

import copy
import importlib
import math
import os
import pickle
import signal
import threading
import time
from itertools import pairwise

import gymnasium
import numpy as np
import pytest
from numba.core import config

import spaql
from callbacks_for_tests import AGENTS, BOUNDS, Kept, Recorder, cartpole, told
from spaql.agents import Random, Tessera
from spaql.agents.callbacks import Checkpoint, Evaluate, Log, Result, StopAfter
from spaql.agents.files import to_bytes
from spaql.agents.loggers import CSVLogger, JSONLinesLogger
from spaql.errors import OutputError, ParameterError
from spaql.problems import oil

SLOW = config.DISABLE_JIT

ITERATIONS = 12 if SLOW else 300

EPISODES = 2 if SLOW else 20


class Saved:
    """Instead of `agent.save`: writes what the agent has learned so far."""

    def __init__(self, agent):
        self.agent, self.paths = agent, []

    def __call__(self, path):
        self.paths.append(path)
        path.write_text(str(self.agent.num_timesteps))


def with_saving(agent):
    agent.save = Saved(agent)
    return agent


# The same learning --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.compiled_only] * (name in ("Tessera, early ends", "CartPole")))
        for name in AGENTS
    ],
)
def test_learning_is_the_same_with_callbacks(name, tmp_path, plan_early):
    """Callbacks ask the agent after every iteration; Tessera plans for each answer, and goes on as if nobody had."""
    length = 12 if name == "CartPole" else min(ITERATIONS, 50) if name.startswith("Tessera") else ITERATIONS
    plain, watched = AGENTS[name](), with_saving(AGENTS[name]())
    plain.learn(iterations=length)
    every = 30 if name == "CartPole" else 3 * plain.problem.horizon
    evaluate, recorder = Evaluate(every, EPISODES, save_best=tmp_path / "best"), Recorder(every=1)
    callbacks = [
        evaluate,
        recorder,
        Recorder(every=2 * every + 1),
        Checkpoint(2 * every, tmp_path),
        Log(CSVLogger(tmp_path / "log.csv"), JSONLinesLogger(tmp_path / "log.jsonl")),
        lambda agent: agent.predict(agent.problem.states.low, deterministic=False) and None,
    ]
    watched.learn(iterations=length, callback=callbacks)
    assert watched.history.tobytes() == plain.history.tobytes()
    assert len(watched.history) == length
    assert watched.cells().q.tobytes() == plain.cells().q.tobytes()
    assert watched.evaluate(2).returns.tobytes() == plain.evaluate(2).returns.tobytes()
    assert watched.learn(iterations=3).history.tobytes() == plain.learn(iterations=3).history.tobytes()
    assert len(recorder.steps) == length  # after every iteration, so the run was cut as finely as it can be
    assert len(evaluate.results) >= 2


def test_a_full_buffer_drops_the_same_transitions_however_learning_is_cut():
    for memory in (20, 35, 44, 64):
        whole, cut = (Tessera(oil(survey="laplace", sharpness=10.0), seed=1, buffer_size=memory) for _ in range(2))
        whole.learn(iterations=30)
        for _ in range(30):
            cut.learn(iterations=1)
        assert whole.history.tobytes() == cut.history.tobytes()


def test_a_budget_of_steps_is_the_same_with_callbacks():
    plain, watched = AGENTS["published, early ends"](), AGENTS["published, early ends"]()
    total = 20 * plain.steps_per_iteration
    recorder = Recorder(every=total // 10)
    plain.learn(total_timesteps=total)
    watched.learn(total_timesteps=total, callback=recorder)
    assert watched.history.tobytes() == plain.history.tobytes()
    assert len(recorder.steps) == 10
    for place, steps in enumerate(recorder.steps[:-1], 1):  # after the iteration that reaches the step
        assert 0 <= steps - place * (total // 10) < watched.steps_per_iteration
    assert recorder.steps[-1] == watched.num_timesteps <= total  # the last is due where no iteration fits any more


# When callbacks are called ------------------------------------------------------------------------------------


def test_a_callback_is_called_at_its_due_steps():
    agent, recorder = AGENTS["Tessera"](), Recorder(every=20)
    agent.learn(iterations=10, callback=recorder)
    assert recorder.steps == [20, 40]
    assert recorder.seen == ["begin", "call", "call", "end"]
    agent.learn(iterations=3, callback=recorder)
    assert recorder.steps == [20, 40, 60]


def test_a_due_step_inside_an_iteration_comes_after_it():
    agent, recorder = AGENTS["Tessera"](), Recorder(every=7)  # iterations of 5 steps
    agent.learn(iterations=10, callback=recorder)
    assert recorder.steps == [10, 15, 25, 30, 35, 45, 50]


def test_short_episodes_do_not_hurry_callbacks():
    """An episode may take 500 steps but takes some 20: `every` counts those that are taken."""
    agent, recorder = cartpole(), Recorder(every=30)
    agent.learn(iterations=12, callback=recorder)
    ends = agent.history["training_steps"]
    assert ends[-1] > 100
    expected = [end for start, end in pairwise([0, *ends.tolist()]) if end // 30 > start // 30]
    assert recorder.steps == expected


def test_a_function_is_called_after_every_chunk():
    calls = []
    agent = AGENTS["Tessera"]().learn(iterations=ITERATIONS, callback=lambda agent: calls.append(agent.iterations))
    assert calls[-1] == ITERATIONS
    assert calls == sorted(set(calls))
    assert agent.iterations == ITERATIONS


@pytest.mark.parametrize("answer", [False, np.False_])
def test_false_stops_learning(answer):
    calls = []
    agent = AGENTS["Tessera"]().learn(
        iterations=ITERATIONS, callback=lambda agent: calls.append(agent.iterations) or answer
    )
    assert calls == [agent.iterations]
    assert agent.iterations < ITERATIONS


@pytest.mark.parametrize("answer", [True, None, 0, "", np.True_])
def test_other_answers_do_not(answer):
    assert AGENTS["Tessera"]().learn(iterations=ITERATIONS, callback=lambda agent: answer).iterations == ITERATIONS


def test_all_that_are_due_are_called_when_one_stops():
    first, second, later = Recorder(every=5, stop_at=5), Recorder(every=5), Recorder(every=10)
    agent = AGENTS["Tessera"]().learn(iterations=10, callback=(first, second, later))
    assert agent.num_timesteps == 5
    assert (first.steps, second.steps, later.steps) == ([5], [5], [])
    assert first.seen[-1] == second.seen[-1] == later.seen[-1] == "end"


def test_baselines_begin_and_end_callbacks(tmp_path):
    recorder = Recorder()
    agent = Random(oil())
    assert agent.learn(iterations=5, callback=[recorder, Log(CSVLogger(tmp_path / "log.csv"))]) is agent
    assert recorder.seen == ["begin", "end"]
    with pytest.raises(ParameterError, match="callback"):
        agent.learn(iterations=5, callback=3)


# What goes wrong ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ZeroDivisionError("mine"), KeyboardInterrupt()])
@pytest.mark.parametrize("name", ["Tessera", "CartPole"])
def test_an_exception_reaches_the_caller_and_the_agent_keeps_what_it_learned(name, error):
    plain, agent = AGENTS[name](), AGENTS[name]()
    first, bad, log = Recorder(every=1), Recorder(every=1, error=error), Kept()
    with pytest.raises(type(error)) as caught:
        agent.learn(iterations=8, callback=[first, bad, Log(log)])
    assert caught.value is error
    assert agent.iterations == 1
    assert first.seen == bad.seen == ["begin", "call", "end"]
    assert [row["iteration"] for row in log.rows] == [1]
    assert log.opened == 0
    assert agent.learn(iterations=7).history.tobytes() == plain.learn(iterations=8).history.tobytes()


class Interrupted(gymnasium.Wrapper):
    """Presses Ctrl-C in one of its steps."""

    def __init__(self, at):
        super().__init__(gymnasium.make("CartPole-v1"))
        self.left = at

    def step(self, action):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGINT)
        return self.env.step(action)


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_ctrl_c_ends_callbacks_with_all_finished_iterations():
    recorder, log = Recorder(), Kept()
    agent = Tessera(Interrupted(100), seed=3, bounds=BOUNDS)
    with pytest.raises(KeyboardInterrupt):
        agent.learn(iterations=1000, callback=[recorder, Log(log)])
    assert 0 < agent.iterations < 100
    assert recorder.seen[-1] == "end"
    assert [row["iteration"] for row in log.rows] == list(range(1, agent.iterations + 1))


def test_who_began_ends_even_if_others_fail():
    class Failing(Recorder):
        def begin(self, agent):
            raise ZeroDivisionError("begin")

    class FailingEnd(Recorder):
        def end(self, agent):
            super().end(agent)
            raise ZeroDivisionError("end")

    first, last = Recorder(), Recorder()
    with pytest.raises(ZeroDivisionError, match="begin"):
        AGENTS["Tessera"]().learn(iterations=5, callback=[first, Failing(), last])
    assert (first.seen, last.seen) == (["begin", "end"], [])
    first, bad, last = Recorder(), FailingEnd(), Recorder()
    agent = AGENTS["Tessera"]()
    with pytest.raises(ZeroDivisionError, match="end"):
        agent.learn(iterations=5, callback=[first, bad, last])
    assert first.seen[-1] == bad.seen[-1] == last.seen[-1] == "end"
    assert agent.iterations == 5


class Overdue(Recorder):
    def due(self, agent):
        return 2.5


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Evaluate(0), "every: expected a whole number of at least 1, got 0"),
        (lambda: Evaluate(1.5), "every"),
        (lambda: Evaluate(10, episodes=1), "episodes: expected a whole number of at least 2"),
        (lambda: Evaluate(10, seed=-1), "seed"),
        (lambda: Evaluate(10, stop_at=math.nan), "stop_at"),
        (lambda: Evaluate(10, patience=0), "patience"),
        (lambda: Checkpoint(0, "."), "every"),
        (lambda: Checkpoint(10, ".", keep=0), "keep"),
        (lambda: StopAfter(0), "seconds: expected a finite number above 0"),
        (lambda: StopAfter("soon"), "seconds"),
        (lambda: Log(), "loggers: expected at least one"),
        (lambda: Log("run.csv"), "loggers: expected loggers of spaql.loggers, got 'run.csv'"),
        (lambda: Log(Kept(), every=0), "every"),
        (lambda: CSVLogger(""), "path: the name is empty"),
        (
            lambda: AGENTS["Tessera"]().learn(iterations=5, callback=3),
            "callback: expected a function, a Callback or a list",
        ),
        (lambda: AGENTS["Tessera"]().learn(iterations=5, callback=[Recorder(), "late"]), "got 'late'"),
        (lambda: AGENTS["Tessera"]().learn(iterations=5, callback=Evaluate), "callback: Evaluate is a class"),
        (lambda: AGENTS["Tessera"]().learn(iterations=5, callback=Overdue()), "Overdue.due: expected a whole number"),
    ],
)
def test_bad_arguments_are_told_in_one_sentence(make, words):
    with pytest.raises(ParameterError) as error:
        make()
    told(error, words)


def test_nothing_is_learned_or_begun_where_a_callback_is_refused():
    agent, recorder = AGENTS["Tessera"](), Recorder()
    with pytest.raises(ParameterError):
        agent.learn(iterations=5, callback=[recorder, None])
    assert agent.iterations == 0
    assert recorder.seen == []


# Evaluate -----------------------------------------------------------------------------------------------------


def test_evaluate_says_what_agent_evaluate_says():
    agent, evaluate = AGENTS["published"](), Evaluate(150, EPISODES, seed=7)
    agent.learn(iterations=20, callback=evaluate)  # 10 steps of scoring first, then 15 in each iteration
    assert [(result.steps, result.iterations) for result in evaluate.results] == [(160, 10), (310, 20)]
    expected = agent.evaluate(EPISODES, seed=7)
    assert evaluate.results[-1] == Result(310, 20, expected.mean, *expected.interval)
    assert evaluate.best is max(evaluate.results, key=lambda result: result.mean)


def test_evaluations_have_random_numbers_of_their_own():
    agent, evaluate, again = AGENTS["AQL"](), Evaluate(25, EPISODES), Evaluate(25, EPISODES)
    agent.learn(iterations=5, callback=[evaluate, again])
    assert evaluate.results == again.results
    assert evaluate.results[0].steps == agent.num_timesteps
    assert evaluate.results[0].mean != agent.evaluate(EPISODES).mean


class Scripted:
    """Stands for an evaluation with a given mean."""

    def __init__(self, mean):
        self.mean, self.interval = mean, (mean - 1, mean + 1)


def scripted(means):
    """An agent whose evaluations are known beforehand."""
    agent, left = with_saving(AGENTS["Tessera"]()), iter(means)
    agent.evaluate = lambda episodes, seed: Scripted(next(left))
    return agent


@pytest.mark.parametrize(
    ("means", "options", "count"),
    [
        ([1.0, 1.0, 4.0, 0.0], {}, 4),
        ([1.0, 1.0, 4.0, 0.0], {"stop_at": 4.0}, 3),  # as soon as it is reached
        ([1.0, 1.0, 4.0, 0.0], {"stop_at": 4.5}, 4),
        ([1.0, 1.0, 4.0, 0.0], {"patience": 1}, 2),  # as good is not better
        ([1.0, 1.0, 4.0, 3.0, 3.5, 5.0], {"patience": 2}, 5),
        ([1.0, 1.0, 4.0, 3.0, 3.5, 5.0], {"patience": 3}, 6),
        ([1.0, 1.0, 4.0, 3.0, 3.5, 5.0], {"patience": 2, "stop_at": 4.0}, 3),
    ],
)
def test_evaluate_stops_at_a_score_or_runs_out_of_patience(means, options, count):
    agent, evaluate = scripted(means), Evaluate(5, **options)
    agent.learn(iterations=len(means), callback=evaluate)
    assert [result.mean for result in evaluate.results] == means[:count]
    assert agent.iterations == count


def test_patience_begins_anew_and_the_best_stays():
    agent, evaluate = scripted([5.0, 1.0, 1.0, 1.0, 6.0]), Evaluate(5, patience=2)
    agent.learn(iterations=10, callback=evaluate)
    assert agent.iterations == 3
    agent.learn(iterations=2, callback=evaluate)
    assert agent.iterations == 5
    assert [result.mean for result in evaluate.results] == [5.0, 1.0, 1.0, 1.0, 6.0]
    assert evaluate.best == evaluate.results[-1]


def test_the_best_is_saved_when_it_is_better(tmp_path):
    path = tmp_path / "runs" / "best.spaql"
    agent = scripted([1.0, 3.0, 3.0, 2.0, 4.0, 0.0])
    agent.learn(iterations=6, callback=Evaluate(5, save_best=str(path)))
    assert agent.save.paths == [path] * 3
    assert path.read_text() == "25"


def test_evaluate_stops_a_real_run():
    evaluate = Evaluate(50, EPISODES, stop_at=-1e9)
    assert cartpole().learn(iterations=50, callback=evaluate).iterations < 10
    assert len(evaluate.results) == 1


# Checkpoint, StopAfter ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("keep", "left"), [(None, [10, 20, 30, 40]), (2, [30, 40]), (1, [40]), (9, [10, 20, 30, 40])])
def test_checkpoints(keep, left, tmp_path):
    folder = tmp_path / "new" / "checkpoints"
    checkpoint = Checkpoint(10, folder, keep)
    agent = with_saving(AGENTS["Tessera"]())
    agent.learn(iterations=5, callback=checkpoint)
    (folder / "steps-1.spaql").touch()  # not its own: stays
    agent.learn(iterations=3, callback=checkpoint)
    assert checkpoint.files == [folder / f"steps-{steps}.spaql" for steps in left]
    assert [path.read_text() for path in checkpoint.files] == [str(steps) for steps in left]
    assert set(folder.iterdir()) == {*checkpoint.files, folder / "steps-1.spaql"}


def test_checkpoints_have_the_names_that_are_asked_for(tmp_path):
    checkpoint = spaql.agents.callbacks.Checkpoint(20, tmp_path, keep=2, name="run-{}")
    spaql.Tessera("oil").learn(iterations=20, callback=checkpoint)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run-100.spaql", "run-80.spaql"]
    assert checkpoint.files == [tmp_path / "run-80.spaql", tmp_path / "run-100.spaql"]
    for name in (5, "", "a/b"):
        with pytest.raises(ParameterError, match="name: expected that of a file"):
            spaql.agents.callbacks.Checkpoint(20, tmp_path, name=name)


@pytest.mark.parametrize("name", ["Tessera", "CartPole"])
def test_a_checkpoint_goes_on_where_it_was_written(name, tmp_path):
    agent, checkpoint = AGENTS[name](), Checkpoint(25, tmp_path / "checkpoints")
    best = Evaluate(25, EPISODES, save_best=tmp_path / "best.spaql")
    agent.learn(iterations=12, callback=[checkpoint, best])
    again = spaql.load(checkpoint.files[0])
    assert checkpoint.files[0].name == f"steps-{again.num_timesteps}.spaql"
    assert spaql.load(best.save_best).num_timesteps == best.best.steps
    assert spaql.load(best.save_best).recorded_evaluation is None  # a maximum of noisy means is no evaluation
    if name == "Tessera":  # an environment does not begin in the middle of its random numbers
        assert again.learn(iterations=12 - again.iterations).history.tobytes() == agent.history.tobytes()


@pytest.mark.parametrize("make", [lambda path: Checkpoint(5, path), lambda path: Evaluate(5, save_best=path / "best")])
def test_a_folder_that_cannot_be_made_is_told_before_learning(make, tmp_path):
    (tmp_path / "file").touch()
    agent = with_saving(AGENTS["Tessera"]())
    with pytest.raises(OutputError) as error:
        agent.learn(iterations=5, callback=make(tmp_path / "file" / "folder"))
    told(error, "cannot be written")
    assert agent.iterations == 0


@pytest.mark.parametrize("name", ["Tessera", "CartPole"])
def test_stop_after_seconds(name):
    agent = AGENTS[name]().prepare()
    start = time.perf_counter()
    agent.learn(iterations=10**9, callback=StopAfter(0.2))
    assert 0.2 <= time.perf_counter() - start < 10
    assert agent.iterations > 0
    before = agent.iterations
    assert agent.learn(iterations=10**9, callback=StopAfter(0.01)).iterations > before


def test_callbacks_and_loggers_are_modules():
    assert importlib.import_module("spaql.callbacks").Evaluate is spaql.callbacks.Evaluate is Evaluate
    assert importlib.import_module("spaql.loggers").CSVLogger is spaql.loggers.CSVLogger is CSVLogger


# One call of `learn` at a time ----------------------------------------------------------------------------------------


def refused(agent):
    with pytest.raises(
        spaql.ParameterError, match=r"^learn: this agent is learning; its environment, its callbacks and"
    ):
        agent.learn(iterations=1)


def test_a_callback_cannot_let_its_agent_learn():
    agent = spaql.AQL("oil", rollouts=0, seed=0)
    agent.learn(iterations=20, callback=refused)
    assert agent.iterations == 20
    assert to_bytes(agent.learn(iterations=5)) == to_bytes(spaql.AQL("oil", rollouts=0, seed=0).learn(iterations=25))


@pytest.mark.parametrize("what", ["learn", "prepare"])
def test_another_thread_cannot_let_an_agent_learn_that_learns(what):
    """Also between two calls of the kernel; the first is not disturbed."""
    agent, sentences = spaql.AQL("oil", rollouts=0, seed=0), []

    def call():
        try:
            agent.learn(iterations=1) if what == "learn" else agent.prepare()
        except spaql.ParameterError as error:
            sentences.append(str(error))

    def callback(agent):
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
        return len(sentences) < 3

    agent.learn(iterations=10_000, callback=callback)
    assert [sentence.split(";")[0] for sentence in sentences] == [f"{what}: this agent is learning"] * 3
    assert to_bytes(agent) == to_bytes(spaql.AQL("oil", rollouts=0, seed=0).learn(iterations=agent.iterations))


def test_copies_made_by_a_callback_can_learn():
    agent, copies = spaql.AQL("oil", rollouts=0, seed=0), []
    agent.learn(
        iterations=10, callback=lambda agent: copies.extend((copy.deepcopy(agent), pickle.loads(pickle.dumps(agent))))
    )
    assert agent.learn(iterations=1).iterations == 11
    for each in copies[:2]:
        before = each.iterations
        assert each.learn(iterations=1).iterations == before + 1


def test_an_interrupt_while_learning_begins_leaves_the_agent_free(monkeypatch):
    agent = spaql.AQL("oil", rollouts=0, seed=0)

    def interrupt(*given):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(agent, "_make_logs", interrupt)
        with pytest.raises(KeyboardInterrupt):
            agent.learn(iterations=1)
    assert agent.learn(iterations=1).iterations == 1
