"""Speed, as ratios measured in one run: machines are shared and noisy, a ratio of neighbours is not.

(a) `ratio_to_simulation`: time of `learn` over the time of a compiled loop that plays as many environment steps with
    random actions, one episode after the other, and does nothing else; for the paper's twelve problems, the published
    algorithms at the paper's settings (K and N as printed, xi = 0.5).  AQL's monitoring rollouts are steps like any
    other here; `ratio_without_monitoring` is AQL with N = 0.  SPAQL learns from K episodes and has no rollouts;
    `ratio_of_policy` is the time it takes to put together the policy that it returns, over the same simulation.
(b) `ratio_to_textbook`: time of `tests/textbook.py` over ours for the same run; null outside a source checkout.
(c) `growth`: time of a learning step (Boltzmann sample, draw, value of a next state, update) on partitions of 10^3 to
    10^6 cells refined along a policy, as agents refine, with every next state drawn from the whole space: the worst
    case for the memory.  `growth_local` draws them from one 4096th of it, as a policy that has settled visits them;
    `growth_dense` has partitions refined everywhere alike, where the sample must look at all of 2^depth actions.
(d) `bytes_per_cell`, of the cells and their index; (e) `predict_per_second` on a million states; (f) `threads`: two
    threads against one.
(g) `start`: seconds for `spaql --help`, for a short training, and for the first use with an empty cache.
"""

from __future__ import annotations

import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from spaql.agents import AQL, SPAQL, PublishedSPAQL
from spaql.compiling import kernel
from spaql.episodes import simulate
from spaql.kernels import assign, best, lend, locate, play, sample, split
from spaql.paper.plan import LONG, SETTINGS
from spaql.partition import Partition
from spaql.problems import Box, Problem, oil
from spaql.problems.oil import DEPOSIT
from spaql.rng import Purpose, stream, uniform

REPEATS = 5
CELLS = (1_000, 10_000, 100_000, 1_000_000)
DENSE = (5, 7, 9)
_LEARNING_STEPS = 50_000


def paper_problems() -> list[tuple[Problem, int]]:
    """The paper's twelve problems and their numbers of iterations."""
    return [(setting.make(), setting.iterations) for setting in SETTINGS if setting.id != LONG]


def seconds(work: Callable[[], Any]) -> float:
    """How long a call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def ratio(ours: Callable[[], Callable[[], Any]], yardstick: Callable[[], Any], repeats: int = REPEATS) -> float:
    """Median over repeats of one time over the other, each pair measured back to back; `ours` prepares each call."""
    return statistics.median(seconds(ours()) / seconds(yardstick) for _ in range(repeats))


def _simulation(problem: Problem, episodes: int) -> Callable[[], Any]:
    frame = problem.frame(1)
    streams = [stream(0, purpose) for purpose in (Purpose.TRAINING, Purpose.TRAINING_ENVIRONMENT)]
    return lambda: simulate(problem.world, frame, problem.horizon, episodes, 0, *streams)


def _training(cls: Any, problem: Problem, iterations: int, **parameters: Any) -> Callable[[], Callable[[], Any]]:
    def ready() -> Callable[[], Any]:
        agent = cls(problem, **parameters).prepare()
        return lambda: agent.learn(iterations)

    return ready


def to_simulation(bar: Any) -> list[dict[str, Any]]:
    """(a)."""
    rows = []
    for problem, iterations in paper_problems():
        for name, cls in (("spaql", SPAQL), ("spaql-published", PublishedSPAQL), ("aql", AQL)):
            bar(f"{name} on {problem.name}")
            episodes = iterations * (1 if name == "spaql" else 21)
            yardstick = _simulation(problem, episodes)
            yardstick()
            row = {
                "problem": problem.name,
                "algorithm": name,
                "ratio_to_simulation": ratio(_training(cls, problem, iterations), yardstick),
                "simulation_ns_per_step": 1e9 * seconds(yardstick) / (episodes * problem.horizon),
            }
            if name == "spaql":
                row["ratio_of_policy"] = ratio(_decision(problem, iterations), yardstick)
            if name == "aql":
                alone = _simulation(problem, iterations)
                row["ratio_without_monitoring"] = ratio(_training(AQL, problem, iterations, rollouts=0), alone)
            rows.append(row)
    return rows


def _decision(problem: Problem, iterations: int) -> Callable[[], Callable[[], Any]]:
    SPAQL(problem).learn(1).arms  # noqa: B018  (compiles)

    def ready() -> Callable[[], Any]:
        agent = SPAQL(problem).learn(iterations)
        return lambda: agent.arms

    return ready


def to_textbook(bar: Any, iterations: int = 100) -> dict[str, float] | None:
    """(b), on oil discovery with the Laplace survey, lambda 10."""
    path = Path(__file__).parents[2] / "tests" / "textbook.py"
    if not path.exists():
        return None
    bar("textbook")
    spec = importlib.util.spec_from_file_location("textbook", path)
    assert spec is not None
    assert spec.loader is not None
    textbook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(textbook)
    problem, plain = oil(), textbook.Oil("laplace", 10.0, DEPOSIT, 0.0, 5)
    ratios = {}
    for name, cls, slow in (("spaql-published", PublishedSPAQL, textbook.spaql), ("aql", AQL, textbook.aql)):
        work = _training(cls, problem, iterations)
        theirs = seconds(partial(slow, plain, iterations=iterations, scaling=0.5, seed=0))
        ratios[name] = theirs / statistics.median(seconds(work()) for _ in range(REPEATS))
    return ratios


@kernel()
def refine_along(f, splits, random, points, actions):
    """Split so many cells, each at a random state on the policy a = 0.2 + 0.6 x."""
    f = lend(f)
    for _ in range(splits):
        points[0, 0] = uniform(random)
        actions[0, 0] = 0.2 + 0.6 * points[0, 0]
        split(f, locate(f, 0, points, 0, actions))


@kernel()
def refine_everywhere(f, depth):
    """Split every cell, `depth` times."""
    f = lend(f)
    for _ in range(depth):
        for cell in range(f.used[1]):
            split(f, cell)


@kernel()
def paint(f, random):
    """Give every cell the Q that a trained agent would: the nearer to the policy, the higher, with a little noise."""
    f = lend(f)
    for cell in range(f.used[1]):
        node = f.cells[cell].node
        state = f.nodes[node].cut
        action = 0.5 * (f.boxes[cell, 0, 0] + f.boxes[cell, 1, 0])
        assign(f, cell, 6.0 - abs(action - 0.2 - 0.6 * state) + 0.001 * uniform(random))


@kernel()
def learning_steps(f, steps, width, random, points, actions):
    """So many learning steps, without splits; every next state is drawn from [0, width)."""
    f = lend(f)
    points[0, 0] = width * uniform(random)
    for _ in range(steps):
        cell = sample(f, 0, points, 0, 0.01, random)
        play(f, cell, random, actions, 0)
        points[0, 0] = width * uniform(random)
        value = min(5.0, f.cells[best(f, 0, points, 0)].q)
        assign(f, cell, 0.9 * f.cells[cell].q + 0.1 * (value + 1.0))


def along_policy(cells: int) -> Partition:
    """A partition of so many cells, fine along a policy and coarse elsewhere."""
    partition = Partition(Box(0, 1), Box(0, 1), initial=5.0)
    random, scratch = stream(0, 0), (np.zeros((1, 1)), np.zeros((1, 1)))
    splits = (cells - 1) // 3
    while splits:  # in small portions, as training asks for room
        portion = min(splits, 100)
        partition.reserve(portion)
        refine_along(partition.forest, portion, random, *scratch)
        splits -= portion
    paint(partition.forest, stream(1, 0))
    return partition


def dense(depth: int) -> Partition:
    """A partition of 4^depth equal cells."""
    partition = Partition(Box(0, 1), Box(0, 1), initial=5.0)
    partition.reserve(4**depth)
    refine_everywhere(partition.forest, depth)
    paint(partition.forest, stream(1, 0))
    return partition


def growth(partitions: list[Partition], width: float = 1.0) -> dict[str, Any]:
    """(c): nanoseconds per learning step by number of cells, and the largest over the smallest partition's."""
    scratch = np.zeros((1, 1)), np.zeros((1, 1))
    random = stream(2, 0)
    times: list[list[float]] = [[] for _ in partitions]
    for _ in range(REPEATS):
        for row, partition in zip(times, partitions, strict=True):
            row.append(seconds(partial(learning_steps, partition.forest, _LEARNING_STEPS, width, random, *scratch)))
    medians = [1e9 * statistics.median(row) / _LEARNING_STEPS for row in times]
    return {
        "cells": [len(partition) for partition in partitions],
        "nanoseconds": medians,
        "ratio": medians[-1] / medians[0],
        "bytes_per_cell": [partition.nbytes / len(partition) for partition in partitions],
        "allocated_per_cell": [partition.allocated / len(partition) for partition in partitions],
    }


def predict_rate(bar: Any) -> float:
    """(e): states per second of `predict` on a batch of a million, for a trained SPAQL agent."""
    bar("predict")
    agent = SPAQL(oil()).learn(2000)
    states = np.random.default_rng(0).random((1_000_000, 1))
    agent.predict(states[:10])
    return len(states) / statistics.median(seconds(lambda: agent.predict(states)) for _ in range(REPEATS))


def thread_ratio(bar: Any, agents: int = 64) -> float:
    """(f): time of training agents one after the other over the time on two threads."""
    bar("threads")

    def train(seed: int) -> None:
        SPAQL(oil(), seed=seed).learn(5000)

    def on(threads: int) -> None:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(train, range(agents)))

    on(2)
    return statistics.median(seconds(lambda: on(1)) / seconds(lambda: on(2)) for _ in range(REPEATS))


def start_times(bar: Any) -> dict[str, float]:
    """(g): wall-clock seconds of whole commands."""

    def command(*words: str, **environment: str) -> float:
        call = [sys.executable, "-m", "spaql", *words]
        environ = {**os.environ, **environment}
        return seconds(lambda: subprocess.run(call, check=True, capture_output=True, env=environ))

    train = ("train", "oil", "--iterations", "10", "--quiet", "--json")
    bar("first use")
    with tempfile.TemporaryDirectory() as empty:
        first = command(*train, NUMBA_CACHE_DIR=empty)
    command(*train)
    bar("start")
    return {
        "help_seconds": statistics.median(command("--help") for _ in range(REPEATS)),
        "train_seconds": statistics.median(command(*train) for _ in range(REPEATS)),
        "first_use_seconds": first,
    }


def measure(progress_bar: bool = True) -> dict[str, Any]:
    """All of it, in a few minutes."""
    with tqdm(total=42, disable=not progress_bar, desc="bench", unit="part") as progress:

        def bar(what: str) -> None:
            progress.set_postfix_str(what)
            progress.update()

        figures: dict[str, Any] = {"ratio_to_simulation": to_simulation(bar)}
        figures["ratio_to_textbook"] = to_textbook(bar)
        bar("growth")
        adaptive = [along_policy(cells) for cells in CELLS]
        figures["growth"] = growth(adaptive)
        figures["growth_local"] = growth(adaptive, width=2.0**-12)
        figures["growth_dense"] = growth([dense(depth) for depth in DENSE])
        figures["bytes_per_cell"] = max(figures["growth"]["bytes_per_cell"])
        figures["predict_per_second"] = predict_rate(bar)
        figures["threads"] = thread_ratio(bar)
        figures["start"] = start_times(bar)
    return figures


def text(figures: dict[str, Any]) -> str:
    """The figures for a person."""
    lines = ["time of training over time of bare simulation of the same steps"]
    for row in figures["ratio_to_simulation"]:
        parts = {"ratio_without_monitoring": "without monitoring", "ratio_of_policy": "the policy"}
        extra = "".join(f"   {words} {row[key]:.2f}" for key, words in parts.items() if key in row)
        lines.append(
            f"  {row['problem']:<24}{row['algorithm']:<16}{row['ratio_to_simulation']:6.2f}"
            f"   (simulation {row['simulation_ns_per_step']:.1f} ns per step){extra}"
        )
    worst = max(row["ratio_to_simulation"] for row in figures["ratio_to_simulation"])
    lines.append(f"  worst of {len(figures['ratio_to_simulation'])}: {worst:.2f}")
    book = figures["ratio_to_textbook"]
    if book is not None:
        lines.append("time of the textbook over ours: " + ", ".join(f"{name} {r:,.0f}" for name, r in book.items()))
    kinds = {
        "growth": "refined along a policy, states anywhere",
        "growth_local": "refined along a policy, states in one place",
        "growth_dense": "refined everywhere alike",
    }
    for key, name in kinds.items():
        part = figures[key]
        pairs = zip(part["cells"], part["nanoseconds"], strict=True)
        lines.append(f"learning step on a partition {name}: " + ", ".join(f"{n:,} cells {t:.0f} ns" for n, t in pairs))
        lines.append(f"  largest over smallest: {part['ratio']:.2f}")
    most = max(figures["growth"]["allocated_per_cell"][1:])
    lines.append(f"bytes per cell: {figures['bytes_per_cell']:.1f}, with scratch and spare room up to {most:.1f}")
    lines.append(f"predict: {figures['predict_per_second'] / 1e6:.1f} million states per second")
    lines.append(f"two threads against one: {figures['threads']:.2f} times")
    start = figures["start"]
    lines.append(
        f"seconds: --help {start['help_seconds']:.2f}, a short training {start['train_seconds']:.2f}, "
        f"first use on a machine {start['first_use_seconds']:.1f}"
    )
    return "\n".join(lines)
