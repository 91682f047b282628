"""Runs as data, and the engine that performs them: threads, a bounded window, results stored as they come.

A `Run` says everything that decides its numbers and nothing else, so that its id, a hash of that, finds it again:
in another process, after an interruption, with any number of threads.  A sweep is a sequence of runs; `perform` does
those that the store does not have.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, fields
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from numpy.typing import NDArray

from spaql._version import __version__
from spaql.agents import ALGORITHMS, Agent, Trained
from spaql.errors import ParameterError, SpaqlError
from spaql.problems import PROBLEMS, Problem
from spaql.store import Record, Store

# What computes a run's numbers: where any of these changes, so may the numbers.
_NUMERICS = (
    "agents/*.py",
    "callbacks.py",
    "compiling.py",
    "episodes.py",
    "experiment.py",
    "kernels.py",
    "loggers.py",
    "memory.py",
    "merging.py",
    "partition.py",
    "pinning.py",
    "planning.py",
    "problems/*.py",
    "rng.py",
    "spaces.py",
    "splitting.py",
    "stats.py",
    "training.py",
)
_COMMIT_SECONDS = 0.25
_WINDOW = 4  # runs handed out per thread: enough that none waits, few enough that stopping is quick

FRAME = np.dtype(
    [
        ("iteration", np.int32),  # of the moment
        ("step", np.int32),  # time step whose partition it belongs to
        ("state_low", np.float64),
        ("state_high", np.float64),
        ("action_low", np.float64),
        ("action_high", np.float64),
        ("q", np.float64),
        ("visits", np.int32),
        ("depth", np.int32),
    ]
)
PLAYED = np.dtype([("iteration", np.int32), ("step", np.int32), ("from", np.float64), ("cell", np.int32)])


def code() -> str:
    """Version of the library and a hash of the code that computes runs, ours and what compiles it."""
    digest = hashlib.sha256(f"{numba.__version__} {llvmlite.__version__} {np.__version__}".encode())
    root = Path(__file__).parent
    for path in sorted(path for pattern in _NUMERICS for path in root.glob(pattern)):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return f"spaql {__version__}, {digest.hexdigest()[:12]}"


@dataclass(frozen=True, eq=False)
class Run:
    """One agent on one problem, trained and then scored on fresh random numbers.

    Attributes
    ----------
    problem, arguments
        Name of a built-in problem and its keywords.
    algorithm, parameters
        Name of an algorithm (`spaql.agents.ALGORITHMS`) and its keywords, without the seed.
    seed
        Of the agent.
    iterations
        To train for; 0 for agents that do not learn.
    episodes
        Fresh episodes that score it at the end; 0 for none.
    points
        About how many points of its own learning curve to keep.
    moments, moment_episodes
        About how many times during training the policy that it would return is scored, on how many fresh episodes.
    watch
        Time steps whose partitions are kept at each of the moments, to replay how they grew.
    budgets
        Instead of iterations: environment steps, training and selection together, that are spent one after the other;
        at each of them the policy is scored on `episodes` fresh ones.
    """

    problem: str
    arguments: Mapping[str, Any]
    algorithm: str
    parameters: Mapping[str, Any]
    seed: int
    iterations: int
    episodes: int
    points: int = 0
    moments: int = 0
    moment_episodes: int = 0
    watch: tuple[int, ...] = ()
    budgets: tuple[int, ...] = ()

    @cached_property
    def specification(self) -> str:
        """All of the above as JSON with sorted keys; 1 and 1.0 are the same number."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return json.dumps(_canonical(values), sort_keys=True, separators=(",", ":"), allow_nan=False)

    @cached_property
    def id(self) -> str:
        """Hash of the specification."""
        return hashlib.sha256(self.specification.encode()).hexdigest()[:32]

    def __str__(self) -> str:
        words = [
            f"{name}({', '.join(f'{key}={value}' for key, value in keywords.items())})"
            for name, keywords in ((self.algorithm, self.parameters), (self.problem, self.arguments))
        ]
        return f"{words[0]} on {words[1]}, seed {self.seed}"

    @cached_property
    def cost(self) -> int:
        """Environment steps that it is going to take, or nearly: what progress is counted in."""
        horizon = problem_of(self).horizon
        if self.budgets:
            return self.budgets[-1] + len(self.budgets) * self.episodes * horizon
        usual = 20 if self.algorithm in ("aql", "spaql-published", "spaql-ts") else 0
        rollouts = int(self.parameters.get("rollouts", usual)) if self.iterations else 0
        episodes = self.iterations * (1 + rollouts) + self.episodes + self.moments * self.moment_episodes
        return episodes * horizon


def _canonical(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _canonical(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(each) for each in value]
    if isinstance(value, np.generic):
        return _canonical(value.item())
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def problem_of(run: Run) -> Problem:
    """The run's problem; the same object for every run of it."""
    if run.problem not in PROBLEMS:
        raise ParameterError(f"problem: {run.problem!r} is not one of {', '.join(PROBLEMS)}")
    return _problem(run.problem, tuple(sorted(run.arguments.items())))


@cache
def _problem(name: str, arguments: tuple[tuple[str, Any], ...]) -> Problem:
    return PROBLEMS[name](**dict(arguments))


def agent_of(run: Run) -> Agent:
    """The run's agent, untrained."""
    if run.algorithm not in ALGORITHMS:
        raise ParameterError(f"algorithm: {run.algorithm!r} is not one of {', '.join(ALGORITHMS)}")
    return ALGORITHMS[run.algorithm](problem_of(run), seed=run.seed, **run.parameters)


def seed_at(*place: Any) -> int:
    """A seed for each place in a study: adding runs changes no other run, and no two share random numbers."""
    words = "/".join(f"{part:g}" if isinstance(part, float) else str(part) for part in place)
    return int.from_bytes(hashlib.sha256(words.encode()).digest()[:8], "big")


def grid(iterations: int, count: int) -> NDArray[np.int64]:
    """About `count` iterations from 1 to the last: half of them evenly spaced, half by equal factors."""
    if not count or not iterations:
        return np.zeros(0, np.int64)
    even = np.linspace(1, iterations, max(2, count // 2))
    equal_factors = np.geomspace(1, iterations, max(2, count - count // 2))
    return np.unique(np.concatenate([even, equal_factors]).round().astype(np.int64))


def execute(run: Run) -> Record:
    """Train, score, and keep what the run asks for."""
    agent = agent_of(run)
    if run.budgets:
        return _spend(agent, run)
    arrays: dict[str, NDArray[Any]] = {}
    fresh, arms, cells, played = [], [], [], []
    moments = grid(run.iterations, run.moments)
    for moment in moments:
        agent.learn(int(moment) - agent.iterations, progress_bar=False)
        if run.moment_episodes:
            fresh.append(agent.evaluate(run.moment_episodes).mean)
            arms.append(agent.arms)
        for step in run.watch:
            look = _look(agent, step)
            cells.append(look[0])
            played.append(look[1])
    if run.iterations > agent.iterations:
        agent.learn(run.iterations - agent.iterations, progress_bar=False)
    if fresh:
        arrays |= {
            "moment": moments.astype(np.int32),
            "fresh": np.array(fresh),
            "moment_arms": np.array(arms, np.int32),
        }
    if cells:
        arrays |= {"cells": np.concatenate(cells), "played": np.concatenate(played)}
    if run.points:
        arrays |= _curves(agent, run.points)
    return Record(_scalars(agent, run.episodes), arrays)


def _spend(agent: Agent, run: Run) -> Record:
    """Spend budgets of environment steps one after the other; NaN where one is too small for a single iteration."""
    fresh, arms, steps = [], [], []
    for budget in run.budgets:
        left = budget - agent.training_steps - agent.selection_steps
        if isinstance(agent, Trained) and left >= agent.steps_per_iteration:
            agent.learn(total_timesteps=left, progress_bar=False)
        ready = agent.iterations > 0 or not isinstance(agent, Trained)
        fresh.append(agent.evaluate(run.episodes).mean if ready else np.nan)
        arms.append(agent.arms)
        steps.append(agent.training_steps + agent.selection_steps)
    arrays = {
        "budget": np.array(run.budgets),
        "fresh": np.array(fresh),
        "arms": np.array(arms),
        "steps": np.array(steps),
    }
    last = None if np.isnan(fresh[-1]) else float(fresh[-1])
    return Record(_scalars(agent, 0) | {"fresh": last}, arrays)


def _scalars(agent: Agent, episodes: int) -> dict[str, float | int | None]:
    scalars: dict[str, float | int | None] = {
        "own": agent.selection_score,
        "arms": agent.arms,
        "training_steps": agent.training_steps,
        "selection_steps": agent.selection_steps,
        "monitoring_steps": agent.monitoring_steps,
    }
    if agent.iterations:
        history = agent.history
        scalars |= {
            "value_low": float(history["value_low"].min()),
            "value_high": float(history["value_high"].max()),
            "resets": int(history["resets"].sum()),
        }
    if episodes:
        evaluation = agent.evaluate(episodes)
        scalars |= {"fresh": evaluation.mean, "evaluation_steps": evaluation.steps}
    return scalars


def _curves(agent: Agent, points: int) -> dict[str, NDArray[Any]]:
    """The agent's own learning curve at a few points."""
    at = grid(agent.iterations, points)
    rows = agent.history[at - 1]
    return {
        "iteration": at.astype(np.int32),
        "own": np.array(rows["best"]),
        "arms": rows["arms"].astype(np.int32),
        "steps": rows["training_steps"] + rows["selection_steps"],
    }


def _look(agent: Agent, step: int) -> tuple[NDArray[np.void], NDArray[np.void]]:
    """The partition of one time step, and the greedy policy as the cells played from each state on."""
    if not isinstance(agent, Trained) or (agent.problem.states.dimensions, agent.problem.actions.dimensions) != (1, 1):
        raise ParameterError("watch: only partitions of one state and one action dimension can be kept")
    cells = agent.partition.at(step)
    rows = np.zeros(len(cells), FRAME)
    rows["iteration"], rows["step"] = agent.iterations, step
    for name in ("state_low", "state_high", "action_low", "action_high"):
        rows[name] = getattr(cells, name)[:, 0]
    for name in ("q", "visits", "depth"):
        rows[name] = getattr(cells, name)
    edges = np.unique(np.concatenate([rows["state_low"], rows["state_high"]]))
    middles = (edges[:-1] + edges[1:]) / 2
    low, high = agent.greedy_boxes(middles[:, None], step)
    inside = (rows["state_low"] <= middles[:, None]) & (middles[:, None] < rows["state_high"])  # [middles, cells]
    chosen = np.argmax(inside & (rows["action_low"] == low) & (rows["action_high"] == high), axis=1)
    first = np.concatenate([[True], chosen[1:] != chosen[:-1]])
    played = np.zeros(int(first.sum()), PLAYED)
    played["iteration"], played["step"] = agent.iterations, step
    played["from"], played["cell"] = edges[:-1][first], chosen[first]
    return rows, played


@dataclass
class _Batch:
    """Finished runs on their way into the store."""

    store: Store
    runs: list[tuple[Run, Record]] = field(default_factory=list)
    since: float = field(default_factory=time.monotonic)

    def save(self) -> None:
        if self.runs:
            self.store.add((run.id, run.specification, record) for run, record in self.runs)
        self.runs, self.since = [], time.monotonic()


def prepare(runs: Iterable[Run], progress_bar: bool | None) -> None:
    """Compile or load what the runs need, once for each algorithm, before threads ask for it all at once."""
    for run in {run.algorithm: run for run in runs}.values():
        agent = agent_of(run).prepare(progress_bar)
        if run.iterations or (run.budgets and isinstance(agent, Trained)):
            agent.learn(1, progress_bar=False)
        agent.evaluate(2, progress_bar=progress_bar)


def perform(
    runs: Sequence[Run], store: Store, *, threads: int, finished: Callable[[Run], object] = lambda run: None
) -> None:
    """Do the runs that the store does not have, in threads; whatever finishes is stored within a moment.

    Ctrl-C, or a run that fails, stops it: runs under way are finished and stored, and the exception is raised.

    Parameters
    ----------
    runs
        What to do; handed out in this order.
    store
        Where results go.
    threads
        How many work at once; the results do not depend on it.
    finished
        Called with each run that finished.
    """
    done = store.scalars(run.id for run in runs)
    waiting = deque(run for run in runs if run.id not in done)
    under_way: dict[Future[Record], Run] = {}
    batch = _Batch(store)
    with ThreadPoolExecutor(threads) as pool:
        try:
            while waiting or under_way:
                while waiting and len(under_way) < _WINDOW * threads:
                    run = waiting.popleft()
                    under_way[pool.submit(execute, run)] = run
                ready, _ = wait(under_way, timeout=_COMMIT_SECONDS, return_when=FIRST_COMPLETED)
                for future in ready:
                    run = under_way.pop(future)
                    batch.runs.append((run, _outcome(future, run)))
                    finished(run)
                if time.monotonic() - batch.since > _COMMIT_SECONDS:
                    batch.save()
        except BaseException:
            for future in under_way:
                future.cancel()
            wait([future for future in under_way if not future.cancelled()])
            batch.runs += [
                (run, future.result())
                for future, run in under_way.items()
                if not future.cancelled() and future.exception() is None
            ]
            batch.save()
            raise
    batch.save()


def _outcome(future: Future[Record], run: Run) -> Record:
    """The record, or what went wrong and in which run."""
    try:
        return future.result()
    except SpaqlError as error:
        raise type(error)(f"{run}: {error}") from error
