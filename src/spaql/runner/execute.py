"""Carry out one run: make its agent, train it, evaluate it, and return the record."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from spaql.agents import Agent, PartitionAgent, algorithms, resolve
from spaql.agents.partition_agent import count_cells
from spaql.agents.regret import episode_grid, training_returns
from spaql.errors import ParameterError
from spaql.gym.problem import resolve_problem
from spaql.runner.record import Record
from spaql.runner.run_spec import Run, problem_of

_MOMENT = [("iteration", np.int32), ("step", np.int32)]
_SIDES = ("state_low", "state_high", "action_low", "action_high")
#: a cell of one time step's partition at one iteration
FRAME = np.dtype(
    [*_MOMENT, *((name, np.float64) for name in (*_SIDES, "q")), ("visits", np.int32), ("depth", np.int32)]
)
#: from which state on the greedy policy plays which of these cells
POLICY = np.dtype([*_MOMENT, ("from", np.float64), ("cell", np.int32)])


def make_agent(run: Run) -> Agent:
    """Return the run's agent, untrained."""
    source: Any = problem_of(run) if run.compiled else run.problem
    arguments = None if run.compiled else run.arguments
    problem = resolve_problem(source, seed=run.seed, env_kwargs=arguments, **run.environment)
    return resolve(run.algorithm).make(problem, seed=run.seed, **run.parameters)


def execute(run: Run, check: Callable[[], None] | None = None) -> Record:
    """Train and evaluate; `check` is called about ten times a second and may raise.

    Returns
    -------
    Record
        Scalars: `training_score`, `cells` (None without a partition), `training_steps`, `selection_steps`,
        `monitoring_steps`, `memory` (bytes of what was learned); `value_low`, `value_high`, `resets` of trained agents
        with a partition; `evaluation` and `evaluation_steps` where the run asks for episodes; `optimum` where the
        problem states it, and `regret_exponent` where the algorithm has one.  Arrays: `episode` and `return_sum` of
        agents that learned, and those of `budgets`, `points`, `moments` and `watch`, see `_spend`, `_curves`, `_train`.
    """
    agent = make_agent(run)
    learn = partial(agent.learn, callback=None if check is None else lambda _: check(), progress_bar=False)
    if run.budgets:
        return _spend(agent, run, learn)
    arrays = _train(agent, run, learn)
    if run.points:
        arrays |= _curves(agent, run.points)
    return Record(_scalars(agent, run.episodes), arrays | _training_returns(agent))


def grid(iterations: int, count: int) -> NDArray[np.int64]:
    """Return about `count` iterations from 1 to the last: half of them evenly spaced, half by equal factors."""
    if not count or not iterations:
        return np.zeros(0, np.int64)
    even = np.linspace(1, iterations, max(2, count // 2))
    equal_factors = np.geomspace(1, iterations, max(2, count - count // 2))
    return np.unique(np.concatenate([even, equal_factors]).round().astype(np.int64))


def _train(agent: Agent, run: Run, learn: Callable[..., Agent]) -> dict[str, NDArray[Any]]:
    """Train for all iterations; at each of the moments evaluate the policy and keep its partitions."""
    evaluations, counts, frames, policies = [], [], [], []
    moments = grid(run.iterations, run.moments)
    if run.iterations and not len(moments):
        learn(iterations=run.iterations)
    for iterations in np.diff(moments, prepend=0):
        learn(iterations=int(iterations))
        if run.moment_episodes:
            evaluations.append(agent.evaluate(run.moment_episodes).mean)
            counts.append(len(agent.cells()))
        for step in run.watch:
            frame, policy = _portray(agent, step)
            frames.append(frame)
            policies.append(policy)
    arrays: dict[str, NDArray[Any]] = {}
    if evaluations:
        arrays |= {"moment": moments.astype(np.int32), "moment_cells": np.array(counts, np.int32)}
        arrays["evaluation"] = np.array(evaluations)
    if frames:
        arrays |= {"frames": np.concatenate(frames), "policies": np.concatenate(policies)}
    return arrays


def _spend(agent: Agent, run: Run, learn: Callable[..., Agent]) -> Record:
    """Spend budgets one after the other; the evaluation is NaN where one is too small for a single iteration."""
    evaluations, counts, steps, learned = [], [], [], not agent.learns
    for budget in run.budgets:
        left = budget - (agent.num_timesteps if learned else 0)  # the first call pays for the warm-up
        if agent.learns and left >= agent.min_timesteps:
            learn(total_timesteps=left)
            learned = True
        evaluations.append(agent.evaluate(run.episodes).mean if learned else np.nan)
        counts.append(len(agent.cells()))
        steps.append(agent.num_timesteps)
    columns = {"budget": run.budgets, "evaluation": evaluations, "cells": counts, "steps": steps}
    arrays = {name: np.array(column) for name, column in columns.items()} | _training_returns(agent)
    last = None if np.isnan(evaluations[-1]) else float(evaluations[-1])
    return Record(_scalars(agent, 0) | {"evaluation": last}, arrays)


def _scalars(agent: Agent, episodes: int) -> dict[str, float | int | None]:
    scalars: dict[str, float | int | None] = {
        "training_score": agent.selection_score,
        "cells": count_cells(agent),
        "training_steps": agent.training_steps,
        "selection_steps": agent.selection_steps,
        "monitoring_steps": agent.monitoring_steps,
        "memory": sum(array.nbytes for name, array in agent._state().items() if name != "history"),
    }
    history = agent.history
    if len(history) and "value_low" in (history.dtype.names or ()):
        low, high, resets = (history[name] for name in ("value_low", "value_high", "resets"))
        scalars |= {"value_low": float(low.min()), "value_high": float(high.max()), "resets": int(resets.sum())}
    if agent.problem.optimum is not None:
        scalars["optimum"] = agent.problem.optimum
    if agent.regret_exponent is not None:
        scalars["regret_exponent"] = agent.regret_exponent
    if episodes:
        evaluation = agent.evaluate(episodes)
        scalars |= {"evaluation": evaluation.mean, "evaluation_steps": evaluation.steps}
    return scalars


def _training_returns(agent: Agent) -> dict[str, NDArray[Any]]:
    """The sum of the training returns after the episodes of `episode_grid`, for the regret."""
    if not agent.iterations:
        return {}
    at = episode_grid(agent.iterations)
    return {"episode": at.astype(np.int64), "return_sum": np.cumsum(training_returns(agent))[at - 1]}


def _curves(agent: Agent, points: int) -> dict[str, NDArray[Any]]:
    """The agent's own learning curve at a few points."""
    at = grid(agent.iterations, points)
    rows = agent.history[at - 1]
    steps = rows["training_steps"] + rows["selection_steps"]
    curves = {"iteration": at.astype(np.int32), "training_score": np.array(rows["best"]), "steps": steps}
    return curves | ({"cells": rows["cells"].astype(np.int32)} if "cells" in (rows.dtype.names or ()) else {})


def is_flat(agent: Agent) -> TypeGuard[PartitionAgent]:
    """Whether an agent has a partition of one state and one action dimension."""
    spaces = agent.problem.states.dimensions, agent.problem.actions.dimensions
    return isinstance(agent, PartitionAgent) and spaces == (1, 1)


def _portray(agent: Agent, step: int) -> tuple[NDArray[np.void], NDArray[np.void]]:
    """The partition of one time step, as `FRAME`s, and the greedy policy, as `POLICY`."""
    if not is_flat(agent):
        raise ParameterError("watch: only partitions of one state and one action dimension can be kept")
    cells = agent.cells().at(step)
    frame = np.zeros(len(cells), FRAME)
    frame["iteration"], frame["step"] = agent.iterations, step
    for name in _SIDES:
        frame[name] = getattr(cells, name)[:, 0]
    for name in ("q", "visits", "depth"):
        frame[name] = getattr(cells, name)
    edges = np.unique(np.concatenate([frame["state_low"], frame["state_high"]]))
    middles = (edges[:-1] + edges[1:]) / 2
    low, high = agent.greedy_boxes(middles[:, None], step)
    inside = (frame["state_low"] <= middles[:, None]) & (middles[:, None] < frame["state_high"])  # [middles, cells]
    chosen = np.argmax(inside & (frame["action_low"] == low) & (frame["action_high"] == high), axis=1)
    first = np.concatenate([[True], chosen[1:] != chosen[:-1]])
    policy = np.zeros(int(first.sum()), POLICY)
    policy["iteration"], policy["step"] = agent.iterations, step
    policy["from"], policy["cell"] = edges[:-1][first], chosen[first]
    return frame, policy


def prepare(runs: Iterable[Run], progress_bar: bool | None) -> None:
    """Compile or load the kernels that runs need, once for each algorithm, before several threads ask for them."""
    for name, run in {run.algorithm: run for run in sorted(runs, key=lambda run: run.compiled)}.items():
        if name in algorithms():
            agent = make_agent(run if run.compiled else _example(name)).prepare(progress_bar)
            if agent.learns:
                agent.learn(iterations=1, progress_bar=False)
            agent.evaluate(2, progress_bar=progress_bar)


def prepare_algorithms(names: Iterable[str]) -> None:
    """Do the same where the runs are not known yet."""
    prepare([_example(name) for name in names if name in algorithms()], False)


def _example(algorithm: str) -> Run:
    """A run of a registered algorithm on a problem that it can play."""
    entry = resolve(algorithm)
    return Run(entry.home, {}, algorithm, entry.example, 0, 1, 2)
