"""Runs as data: what decides a run's numbers, its id, and how it is carried out.

A `Run` says everything that decides its numbers and nothing else, so that its id, a hash of that, finds it again:
in another process, on another machine, after an interruption, on any engine.  `execute` trains and scores one;
`spaql.runner.run_many` does many.

The problem of a run is one of three: the name of a built-in problem; the id of a Gymnasium environment, with the module
that registers it where that is not Gymnasium itself ("my_module:Tank-v0"); or a function of a module that makes a
problem or an environment ("my_module:make_tank").  Neither the code of such a module nor its version is part of the id.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from numpy.typing import NDArray

from spaql._version import __version__
from spaql.agents import Agent, PartitionAgent, algorithms, resolve
from spaql.errors import ParameterError
from spaql.gym.resolve import resolve_problem
from spaql.problems import PROBLEMS, Problem
from spaql.problems.base import Playable
from spaql.runner.store import Record

# What computes a run's numbers: where any of these changes, so may the numbers.
_NUMERICS = (
    "partition/*.py",
    "problems/*.py",
    "gym/*.py",
    "agents/**/*.py",
    "runner/run_spec.py",
    "stats.py",
    "validation.py",
)
_NOMINAL_HORIZON = 200  # of environments that nobody asked yet; only for how much work a run may be

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
    versions = numba.__version__, llvmlite.__version__, np.__version__, importlib.metadata.version("gymnasium")
    digest = hashlib.sha256(" ".join(versions).encode())
    root = Path(__file__).parents[1]
    for path in sorted(path for pattern in _NUMERICS for path in root.glob(pattern)):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return f"spaql {__version__}, {digest.hexdigest()[:12]}"


@dataclass(frozen=True, eq=False)
class Run:
    """One agent on one problem, trained and then scored on fresh random numbers.

    Attributes
    ----------
    problem, arguments
        Name of a built-in problem, id of a Gymnasium environment or "module:function", and its keywords.
    algorithm, parameters
        Name of an algorithm (`spaql.agents.registry`) or "module:Class" and its keywords, without the seed.
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
    environment
        How an agent is to see a Gymnasium environment: `bounds`, `periodic`, `horizon`, `warm_up`, as agents take them.
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
    environment: Mapping[str, Any] = field(default_factory=dict)

    def with_seed(self, seed: int) -> Run:
        """The same run with another seed; much quicker than making it anew."""
        _ = self._around, self.cost  # what does not depend on the seed is worked out once
        other = object.__new__(Run)
        other.__dict__.update(self.__dict__, seed=seed)
        for name in ("specification", "id"):
            other.__dict__.pop(name, None)
        return other

    @cached_property
    def _around(self) -> tuple[str, str]:
        """The specification before and behind the seed."""
        values = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "seed"}
        texts = {name: f'"{name}":{canonical(value)}' for name, value in sorted(values.items())}
        before, behind = (",".join(t for n, t in texts.items() if (n < "seed") is first) for first in (True, False))
        return f'{{{before},"seed":', f",{behind}}}"

    @cached_property
    def specification(self) -> str:
        """All of the above as JSON with sorted keys; 1 and 1.0 are the same number."""
        before, behind = self._around
        return f"{before}{int(self.seed)}{behind}"

    @property
    def kind(self) -> str:
        """What runs that differ in their seeds only have in common: the specification without the seed."""
        return "".join(self._around)

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

    def ids(self, seeds: Iterable[int]) -> list[str]:
        """The ids of the same run with other seeds, without making these runs."""
        before, behind = self._around
        start, end = hashlib.sha256(before.encode()), behind.encode()
        found = []
        for seed in seeds:
            digest = start.copy()
            digest.update(b"%d%b" % (seed, end))
            found.append(digest.hexdigest()[:32])
        return found

    @property
    def compiled(self) -> bool:
        """Whether its problem is compiled, as far as its name tells."""
        return self.problem in PROBLEMS

    @cached_property
    def cost(self) -> int:
        """Environment steps that it is going to take, or nearly: what progress is counted in."""
        said = self.environment.get("horizon", _NOMINAL_HORIZON)
        horizon = problem_of(self).horizon if self.compiled else int(said)
        if self.budgets:
            return self.budgets[-1] + len(self.budgets) * self.episodes * horizon
        known = algorithms().get(self.algorithm)
        usual = known.parameters["rollouts"].default if known and "rollouts" in known.parameters else 0
        rollouts = self.parameters.get("rollouts", usual) if self.iterations else 0
        rollouts = rollouts if isinstance(rollouts, int) else usual  # what is none fails when it is carried out
        episodes = self.iterations * (1 + rollouts) + self.episodes + self.moments * self.moment_episodes
        return episodes * horizon


def from_specification(text: str) -> Run:
    """The run of a specification."""
    values = json.loads(text)
    values |= {name: tuple(values[name]) for name in ("watch", "budgets")}
    return Run(**values)


def kind_of(specification: str) -> str:
    """The `kind` of the run of a specification, without reading all of it."""
    before, _, behind = specification.rpartition('"seed":')
    return f'{before}"seed":{behind.lstrip("0123456789")}'


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical(value: Any) -> str:
    """Plain values as JSON with sorted keys; 1 and 1.0 are the same number."""
    return _ENCODER.encode(_canonical(value))


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
    """The run's problem, where it is compiled; the same object for every run of it."""
    if not run.compiled:
        raise ParameterError(f"problem: {run.problem!r} is not one of {', '.join(PROBLEMS)}")
    return _problem(run.problem, canonical(run.arguments))


@cache
def _problem(name: str, arguments: str) -> Problem:
    problem = resolve_problem(name, arguments=json.loads(arguments))
    assert isinstance(problem, Problem)
    return problem


def agent_of(run: Run) -> Agent:
    """The run's agent, untrained."""
    problem: Playable
    if run.compiled:
        problem = resolve_problem(problem_of(run), **run.environment)
    else:
        problem = resolve_problem(run.problem, seed=run.seed, arguments=run.arguments, **run.environment)
    return resolve(run.algorithm).make(problem, seed=run.seed, **run.parameters)


def seed_at(*place: Any) -> int:
    """A seed for each place in a study: adding runs changes no other run, and no two share random numbers."""
    return int.from_bytes(hashlib.sha256(_words(place).encode()).digest()[:8], "big")


def seeds_at(count: int, *place: Any) -> list[int]:
    """`seed_at(*place, number)` for each number below `count`; much quicker than one by one."""
    start = hashlib.sha256(f"{_words(place)}/".encode())
    seeds = []
    for number in range(count):
        digest = start.copy()
        digest.update(str(number).encode())
        seeds.append(int.from_bytes(digest.digest()[:8], "big"))
    return seeds


def _words(place: Iterable[Any]) -> str:
    return "/".join(f"{part:g}" if isinstance(part, float) else str(part) for part in place)


def grid(iterations: int, count: int) -> NDArray[np.int64]:
    """About `count` iterations from 1 to the last: half of them evenly spaced, half by equal factors."""
    if not count or not iterations:
        return np.zeros(0, np.int64)
    even = np.linspace(1, iterations, max(2, count // 2))
    equal_factors = np.geomspace(1, iterations, max(2, count - count // 2))
    return np.unique(np.concatenate([even, equal_factors]).round().astype(np.int64))


def execute(run: Run, check: Callable[[], None] | None = None) -> Record:
    """Train, score, and keep what the run asks for; `check` is called about ten times a second and may raise."""
    agent = agent_of(run)
    learn = partial(agent.learn, callback=None if check is None else lambda _: check(), progress_bar=False)
    if run.budgets:
        return _spend(agent, run, learn)
    arrays: dict[str, NDArray[Any]] = {}
    fresh, arms, cells, played = [], [], [], []
    moments = grid(run.iterations, run.moments)
    for moment in moments:
        learn(iterations=int(moment) - agent.iterations)
        if run.moment_episodes:
            fresh.append(agent.evaluate(run.moment_episodes).mean)
            arms.append(len(agent.cells()))
        for step in run.watch:
            look = _look(agent, step)
            cells.append(look[0])
            played.append(look[1])
    if run.iterations > agent.iterations:
        learn(iterations=run.iterations - agent.iterations)
    if fresh:
        arrays |= {
            "moment": moments.astype(np.int32),
            "evaluation": np.array(fresh),
            "moment_cells": np.array(arms, np.int32),
        }
    if cells:
        arrays |= {"frames": np.concatenate(cells), "policies": np.concatenate(played)}
    if run.points:
        arrays |= _curves(agent, run.points)
    return Record(_scalars(agent, run.episodes), arrays)


def _spend(agent: Agent, run: Run, learn: Callable[..., Agent]) -> Record:
    """Spend budgets of environment steps one after the other; NaN where one is too small for a single iteration."""
    fresh, arms, steps = [], [], []
    for budget in run.budgets:
        # The first call pays for the warm-up, which is among the steps taken from the beginning.
        spent, least = (
            (agent.training_steps + agent.selection_steps, 0) if agent.iterations else (0, agent.training_steps)
        )
        if isinstance(agent, PartitionAgent) and budget - spent >= agent.steps_per_iteration + least:
            learn(total_timesteps=budget - spent)
        ready = agent.iterations > 0 or not isinstance(agent, PartitionAgent)
        fresh.append(agent.evaluate(run.episodes).mean if ready else np.nan)
        arms.append(len(agent.cells()))
        steps.append(agent.training_steps + agent.selection_steps)
    arrays = {
        "budget": np.array(run.budgets),
        "evaluation": np.array(fresh),
        "cells": np.array(arms),
        "steps": np.array(steps),
    }
    last = None if np.isnan(fresh[-1]) else float(fresh[-1])
    return Record(_scalars(agent, 0) | {"evaluation": last}, arrays)


def _scalars(agent: Agent, episodes: int) -> dict[str, float | int | None]:
    scalars: dict[str, float | int | None] = {
        "training_score": agent.selection_score,
        "cells": len(agent.cells()),
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
        scalars |= {"evaluation": evaluation.mean, "evaluation_steps": evaluation.steps}
    return scalars


def _curves(agent: Agent, points: int) -> dict[str, NDArray[Any]]:
    """The agent's own learning curve at a few points."""
    at = grid(agent.iterations, points)
    rows = agent.history[at - 1]
    return {
        "iteration": at.astype(np.int32),
        "training_score": np.array(rows["best"]),
        "cells": rows["arms"].astype(np.int32),
        "steps": rows["training_steps"] + rows["selection_steps"],
    }


def _look(agent: Agent, step: int) -> tuple[NDArray[np.void], NDArray[np.void]]:
    """The partition of one time step, and the greedy policy as the cells played from each state on."""
    if not isinstance(agent, PartitionAgent) or (agent.problem.states.dimensions, agent.problem.actions.dimensions) != (
        1,
        1,
    ):
        raise ParameterError("watch: only partitions of one state and one action dimension can be kept")
    cells = agent.cells().at(step)
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


def prepare(runs: Iterable[Run], progress_bar: bool | None) -> None:
    """Compile or load what the runs need, once for each algorithm, before several ask for it at once."""
    for name, run in {run.algorithm: run for run in sorted(runs, key=lambda run: run.compiled)}.items():
        agent = agent_of(run if run.compiled else _stand_in(name)).prepare(progress_bar)
        if isinstance(agent, PartitionAgent):
            agent.learn(iterations=1, progress_bar=False)
        agent.evaluate(2, progress_bar=progress_bar)


def prepare_algorithms(names: Iterable[str]) -> None:
    """The same where the runs are not known yet."""
    prepare(map(_stand_in, names), False)


def _stand_in(algorithm: str) -> Run:
    """A run of an algorithm on a problem that all of them can play."""
    return Run("ambulance", {}, algorithm, resolve(algorithm).example, 0, 1, 2)
