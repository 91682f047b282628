"""Speed, as ratios measured in one run: machines are shared and noisy, a ratio of neighbours is not.

(a) `ratio_to_simulation`: time of `learn` over the time of a compiled loop that plays as many environment steps with
    random actions, one episode after the other, and does nothing else; for the paper's twelve problems, the published
    algorithms at the paper's settings (K and N as printed, xi = 0.5).  AQL's monitoring rollouts are steps like any
    other here; `ratio_without_monitoring` is AQL with N = 0.  SPAQL learns from K episodes and has no rollouts;
    `ratio_of_policy` is the time it takes to put together the policy that it returns, over the same simulation.
    Then SPAQL on the five problems of classic control, with the budgets of `spaql control`; episodes differ in length
    there, so both times are per step.
(b) `ratio_to_textbook`: time of `tests/textbook.py` over ours for the same run; null outside a source checkout.
(c) `growth`: time of a learning step (Boltzmann sample, draw, value of a next state, update) on partitions of 10^3 to
    10^6 cells refined along a policy, as agents refine, with every next state drawn from the whole space: the worst
    case for the memory.  `growth_local` draws them from one 4096th of it, as a policy that has settled visits them;
    `growth_dense` has partitions refined everywhere alike, where the sample must look at all of 2^depth actions.
(d) `bytes_per_cell`, of the cells and their index; (e) `predict_per_second` on a million states; (f) `threads`: two
    threads against one.
(g) `start`: seconds for `spaql --help`, for a short training, and for the first use with an empty cache.
(h) `ratio_to_gymnasium`: time per step of `spaql.SPAQL(id).learn(total_timesteps=n)`, with making the environment and
    the warm-up, over that of a bare loop in Python that makes the environment, calls `env.step` with random actions
    drawn beforehand, and `env.reset` at every end.  `ratio_to_sampling`: over the loop that people write, which draws
    each action by `env.action_space.sample()`.  The aim is 1.3 for the first.
(i) `compiled_to_gymnasium`: time per step of learning through Gymnasium, as in (h), over that of learning on the same
    problem compiled, from which compiling is excluded.  The aim is 50 for Pendulum.
(j) `memory`: megabytes (10^6 bytes) at most in a process of its own that learns a million steps of compiled problems,
    and in one that learns a single iteration: the interpreter, the libraries and the kernels.  The aim is 500.
(k) `export`: of policies as C, bytes of tables and of the file, comparisons, nanoseconds per decision, and
    `ratio_to_predict`: that time over our own `predict` per state, both on the same batch of random states; null
    without a C compiler.  The aims are 1.5, and 8,000 bytes of tables for the ambulance.
(l) `show`: seconds of `spaql show`, all of the command but the browser, for an agent that sees four numbers and has
    100,000 cells, and megabytes (10^6 bytes) of the page.  The aims are 10 and 15.
(m) `files`: milliseconds to save and to load an agent, the least of a few, and bytes of the file per cell: published
    agents of a thousand and of a million cells in the policy (they keep two partitions), and SPAQL on CartPole, whose
    file is mostly what it remembers.  The aims, for partitions, are 5 ms for 1,000 cells, 2 s for a million, 80 bytes.
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

import gymnasium
import numpy as np
from tqdm import tqdm

from spaql import files
from spaql.agents import AQL, SPAQL, PublishedSPAQL
from spaql.beyond.control import TASKS
from spaql.compiling import kernel
from spaql.episodes import simulate
from spaql.export import to_c
from spaql.export.compiled import compiled, compiler
from spaql.export.policy import policy_of
from spaql.kernels import assign, best, lend, locate, play, sample, split
from spaql.paper.plan import LONG, SETTINGS
from spaql.partition import Partition
from spaql.problems import PROBLEMS, Box, Finite, Problem, oil
from spaql.problems.oil import DEPOSIT
from spaql.rng import Purpose, stream, uniform

REPEATS = 5
CELLS = (1_000, 10_000, 100_000, 1_000_000)
DENSE = (5, 7, 9)
_LEARNING_STEPS = 50_000
#: problem, the environment that it is in Gymnasium, and environment steps
CONTROL = tuple((task.problem, task.environment, task.budget) for task in TASKS)
BRIDGED = ("CartPole-v1", "Pendulum-v1")
LARGE = ("cartpole", "pendulum", "acrobot")
_LARGE_STEPS = 1_000_000
SHIPPED = ("ambulance", "cartpole", "pendulum")
_MANY_CELLS = 100_000
KEPT = (1000, 10, 50_000)  # cells; depth of a partition of 4^10 cells; steps of SPAQL
_SHIPPED_STATES = 1_000_000
_SHOWN_CELLS = 100_000
# What a process uses at most; on Linux `ru_maxrss` would begin with what its parent uses.
_PEAK = """
import sys, resource, spaql
spaql.SPAQL(sys.argv[1]).learn(**{sys.argv[2]: int(sys.argv[3])}, progress_bar=False).arms
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
if sys.platform == "linux":
    with open("/proc/self/status") as status:
        peak = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
print(peak)
"""


def paper_problems() -> list[tuple[Problem, int]]:
    """The paper's twelve problems and their numbers of iterations."""
    return [(setting.make(), setting.iterations) for setting in SETTINGS if setting.id != LONG]


def seconds(work: Callable[[], Any]) -> float:
    """How long a call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def ratio(ours: Callable[[], Callable[[], Any]], yardstick: Callable[[], Any]) -> float:
    """Median over repeats of one time over the other, each pair measured back to back; `ours` prepares each call."""
    return statistics.median(seconds(ours()) / seconds(yardstick) for _ in range(REPEATS))


def pace(work: Callable[[], int]) -> float:
    """Seconds per step of a call that returns its steps."""
    start = time.perf_counter()
    steps = work()
    return (time.perf_counter() - start) / steps


Ready = Callable[[], Callable[[], int]]


def ratios_of_pace(ours: Ready, *yardsticks: Ready) -> list[float]:
    """The same per step, over each of the yardsticks, all measured in turn; every one prepares each call."""
    rounds = [[pace(ready()) for ready in (ours, *yardsticks)] for _ in range(REPEATS)]
    return [statistics.median(row[0] / row[i] for row in rounds) for i in range(1, len(yardsticks) + 1)]


def _simulation(problem: Problem, episodes: int) -> Callable[[], Any]:
    frame = problem.frame(1)
    streams = [stream(0, purpose) for purpose in (Purpose.TRAINING, Purpose.TRAINING_ENVIRONMENT)]
    choices = problem.actions.count if isinstance(problem.actions, Finite) else 0
    return lambda: simulate(problem.world, frame, problem.horizon, episodes, choices, *streams)


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


def control_to_simulation(bar: Any) -> list[dict[str, Any]]:
    """(a), on classic control."""
    rows = []
    for name, _, steps in CONTROL:
        bar(f"spaql on {name}")
        problem = PROBLEMS[name]()
        length = _simulation(problem, 100)()[1] / 100  # random actions end some episodes soon
        episodes = max(1, round(steps / length))
        yardstick: Ready = partial(_steps_of, _simulation(problem, episodes))
        yardstick()()
        _learned(problem, steps)().arms  # noqa: B018  (compiles)
        rows.append(
            {
                "problem": problem.name,
                "algorithm": "spaql",
                "ratio_to_simulation": ratios_of_pace(_learning(problem, steps), yardstick)[0],
                "simulation_ns_per_step": 1e9 * pace(yardstick()),
                "ratio_of_policy": ratios_of_pace(_deciding(problem, steps), yardstick)[0],
            }
        )
    return rows


def _steps_of(simulation: Callable[[], Any]) -> Callable[[], int]:
    return lambda: int(simulation()[1])


def _learned(problem: Any, steps: int) -> Callable[[], SPAQL]:
    agent = SPAQL(problem).prepare()
    return lambda: agent.learn(total_timesteps=steps)


def _learning(problem: Any, steps: int) -> Ready:
    """Learning on a compiled problem, after compiling."""

    def ready() -> Callable[[], int]:
        learn = _learned(problem, steps)
        return lambda: learn().steps_taken

    return ready


def _deciding(problem: Any, steps: int) -> Ready:
    """Putting together the policy after so many steps."""

    def ready() -> Callable[[], int]:
        agent = _learned(problem, steps)()

        def work() -> int:
            agent.arms  # noqa: B018
            return agent.steps_taken

        return work

    return ready


def _bridged(environment: str, steps: int) -> Ready:
    """Learning through Gymnasium, all of it."""
    return lambda: lambda: SPAQL(environment).learn(total_timesteps=steps).steps_taken


def bare_loop(environment: str, steps: int, sampling: bool) -> Callable[[], int]:
    """A loop of `env.step` with random actions, drawn at every step or beforehand."""
    space = gymnasium.make(environment).action_space
    space.seed(0)
    drawn = [] if sampling else [space.sample() for _ in range(steps)]

    def loop() -> int:
        env = gymnasium.make(environment)
        env.reset(seed=0)
        for action in drawn:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()
        return steps

    def loop_that_samples() -> int:
        env = gymnasium.make(environment)
        env.reset(seed=0)
        for _ in range(steps):
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            if terminated or truncated:
                env.reset()
        return steps

    return loop_that_samples if sampling else loop


def to_gymnasium(bar: Any) -> list[dict[str, Any]]:
    """(h)."""
    rows = []
    for _, environment, steps in CONTROL:
        if environment not in BRIDGED:
            continue
        bar(f"bare {environment}")
        SPAQL(environment).learn(1)
        loops = [partial(bare_loop, environment, steps, sampling) for sampling in (False, True)]
        bare, sampling = ratios_of_pace(_bridged(environment, steps), *loops)
        rows.append(
            {
                "environment": environment,
                "steps": steps,
                "ratio_to_gymnasium": bare,
                "ratio_to_sampling": sampling,
                "gymnasium_us_per_step": 1e6 * pace(loops[0]()),
            }
        )
    return rows


def compiled_to_gymnasium(bar: Any) -> list[dict[str, Any]]:
    """(i)."""
    rows = []
    for name, environment, steps in CONTROL:
        bar(f"{environment} against {name}")
        SPAQL(environment).learn(1)
        problem = PROBLEMS[name]()
        compiled = _learning(problem, steps)
        [times] = ratios_of_pace(_bridged(environment, steps), compiled)
        rows.append(
            {
                "problem": name,
                "environment": environment,
                "steps": steps,
                "compiled_to_gymnasium": times,
                "compiled_ns_per_step": 1e9 * pace(compiled()),
            }
        )
    return rows


def memory(bar: Any) -> dict[str, Any] | None:
    """(j); None where the system does not tell."""
    if importlib.util.find_spec("resource") is None:
        return None

    def peak(*words: str) -> float:
        call = [sys.executable, "-c", _PEAK, *words]
        return int(subprocess.run(call, check=True, capture_output=True, text=True).stdout) / 1e6

    bar("memory")
    peak(LARGE[0], "iterations", "1")  # compiles what is not in the cache
    figures: dict[str, Any] = {"steps": _LARGE_STEPS, "one_iteration": peak(LARGE[0], "iterations", "1")}
    figures["megabytes"] = {}
    for name in LARGE:
        bar(f"memory of {name}")
        figures["megabytes"][name] = peak(name, "total_timesteps", str(_LARGE_STEPS))
    return figures


def shipped(bar: Any) -> list[dict[str, Any]]:
    """(k)."""
    rows = []
    budgets = {name: steps for name, _, steps in CONTROL}
    for name in SHIPPED:
        bar(f"export of {name}")
        agent = SPAQL(name).learn(total_timesteps=budgets.get(name, 10_000))
        policy = policy_of(agent)
        row: dict[str, Any] = {
            "problem": name,
            "table_bytes": to_c.table_bytes(policy),
            "file_bytes": len(to_c.source(policy, "policy", header=False)),
            "nodes": len(policy.tree.dims),
            "depth": policy.tree.depth,
            "ns_per_decision": None,
            "ratio_to_predict": None,
        }
        if compiler() is not None:
            decide = compiled(policy)
            points = np.random.default_rng(0).random((_SHIPPED_STATES, policy.tree.states.dimensions))
            states, steps = policy.tree.states.from_unit(points), np.zeros(_SHIPPED_STATES, np.intc)
            work = partial(decide, states, steps)
            agent.predict(states[:10])
            row["ratio_to_predict"] = ratio(partial(_unprepared, work), partial(agent.predict, states))
            row["ns_per_decision"] = 1e9 * statistics.median(seconds(work) for _ in range(REPEATS)) / _SHIPPED_STATES
        rows.append(row)
    return rows


def _unprepared(work: Callable[[], Any]) -> Callable[[], Any]:
    return work


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


@kernel()
def refine_anywhere(f, splits, choices, random, points, actions):
    """Split so many cells of finite actions, each at a random state, more often in the middle; Q and visits vary."""
    f = lend(f)
    for _ in range(splits):
        for d in range(points.shape[1]):
            points[0, d] = 0.5 * (uniform(random) + uniform(random))
        actions[0, 0] = float(int(choices * uniform(random)))
        split(f, locate(f, 0, points, 0, actions))
    for cell in range(f.used[1]):
        f.cells[cell].visits = int(1000.0 * uniform(random) ** 4)
        assign(f, cell, f.cells[cell].q + uniform(random))


def large_agent(cells: int) -> PublishedSPAQL:
    """An agent on CartPole whose policy has so many cells, as if it had learned for long."""
    agent = PublishedSPAQL("cartpole", rollouts=1).learn(1)
    policy = agent._policy()
    states, actions = policy.states.dimensions, policy.actions
    splits = max(0, cells - len(policy)) // (2**states - 1)
    policy.reserve(splits)
    choices = actions.count if isinstance(actions, Finite) else 1
    refine_anywhere(policy.forest, splits, choices, stream(0, 0), np.zeros((1, states)), np.zeros((1, 1)))
    return agent


def show(bar: Any) -> dict[str, Any]:
    """(l)."""
    bar("show")
    agent = large_agent(_SHOWN_CELLS)
    with tempfile.TemporaryDirectory() as folder:
        path, page = agent.save(Path(folder) / "large.spaql"), Path(folder) / "large.html"
        call = [sys.executable, "-m", "spaql", "show", str(path), "--no-open"]
        took = [seconds(partial(subprocess.run, call, check=True, capture_output=True)) for _ in range(2)]
        return {"cells": agent.arms, "seconds": took[-1], "megabytes": page.stat().st_size / 1e6}


def kept(bar: Any) -> list[dict[str, Any]]:
    """(m)."""
    agents = [_with(along_policy(KEPT[0])), _with(dense(KEPT[1])), SPAQL("cartpole").learn(total_timesteps=KEPT[2])]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.spaql"
        for agent in agents:
            bar(f"a file of {agent.arms:,} cells")
            times = REPEATS if agent.arms > _MANY_CELLS else 4 * REPEATS  # a short call is more often disturbed
            calls = partial(agent.save, path), partial(files.load, path)
            save, load = (min(seconds(call) for _ in range(times)) for call in calls)
            rows.append(
                {
                    "agent": type(agent).__name__,
                    "cells": agent.arms,
                    "save_ms": 1e3 * save,
                    "load_ms": 1e3 * load,
                    "bytes_per_cell": path.stat().st_size / agent.arms,
                }
            )
    return rows


def _with(partition: Partition) -> PublishedSPAQL:
    """An agent on oil that has learned this partition, and kept it."""
    agent = PublishedSPAQL("oil", rollouts=1).learn(1)
    agent._work, agent._kept = partition, partition.copy()
    return agent


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
    parts = 3 * len(paper_problems()) + 2 * len(CONTROL) + len(BRIDGED) + len(LARGE) + len(SHIPPED) + 11
    with tqdm(total=parts, disable=not progress_bar, desc="bench", unit="part") as progress:

        def bar(what: str) -> None:
            progress.set_postfix_str(what)
            progress.update()

        figures: dict[str, Any] = {"ratio_to_simulation": to_simulation(bar) + control_to_simulation(bar)}
        figures["ratio_to_gymnasium"] = to_gymnasium(bar)
        figures["compiled_to_gymnasium"] = compiled_to_gymnasium(bar)
        figures["ratio_to_textbook"] = to_textbook(bar)
        bar("growth")
        adaptive = [along_policy(cells) for cells in CELLS]
        figures["growth"] = growth(adaptive)
        figures["growth_local"] = growth(adaptive, width=2.0**-12)
        figures["growth_dense"] = growth([dense(depth) for depth in DENSE])
        figures["bytes_per_cell"] = max(figures["growth"]["bytes_per_cell"])
        figures["predict_per_second"] = predict_rate(bar)
        figures["threads"] = thread_ratio(bar)
        figures["memory"] = memory(bar)
        figures["export"] = shipped(bar)
        figures["show"] = show(bar)
        figures["files"] = kept(bar)
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
    lines.append("time of learning through Gymnasium over a bare loop of env.step with random actions")
    lines += [
        f"  {row['environment']:<24}{row['ratio_to_gymnasium']:6.2f}   (loop {row['gymnasium_us_per_step']:.1f} us per "
        f"step)   where the loop draws its actions {row['ratio_to_sampling']:.2f}"
        for row in figures["ratio_to_gymnasium"]
    ]
    lines.append("time of learning through Gymnasium over learning on the same problem compiled")
    lines += [
        f"  {row['environment']:<24}{row['compiled_to_gymnasium']:6.1f}   "
        f"(compiled {row['compiled_ns_per_step']:.0f} ns per step)"
        for row in figures["compiled_to_gymnasium"]
    ]
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
    peaks = figures["memory"]
    if peaks is not None:
        each = ", ".join(f"{name} {megabytes:.0f}" for name, megabytes in peaks["megabytes"].items())
        lines.append(
            f"megabytes of a process that learns {peaks['steps']:,} steps: {each}; "
            f"one iteration {peaks['one_iteration']:.0f}"
        )
    lines.append("policies as C, and the time per decision over that of our own predict on the same states")
    for row in figures["export"]:
        lasts = "not measured: no C compiler"
        if row["ns_per_decision"] is not None:
            lasts = f"{row['ratio_to_predict']:.2f}   ({row['ns_per_decision']:.0f} ns)"
        lines.append(
            f"  {row['problem']:<24}{row['table_bytes']:6,} bytes of tables, {row['nodes']:,} comparisons, at most "
            f"{row['depth']} for a decision   {lasts}"
        )
    shown = figures["show"]
    lines.append(
        f"the page of an agent with {shown['cells']:,} cells: {shown['seconds']:.1f} s, {shown['megabytes']:.1f} MB"
    )
    lines += [
        f"the file of {row['agent']} with {row['cells']:,} cells: saved in {row['save_ms']:.1f} ms, loaded in "
        f"{row['load_ms']:.1f} ms, {row['bytes_per_cell']:.0f} bytes per cell"
        for row in figures["files"]
    ]
    start = figures["start"]
    lines.append(
        f"seconds: --help {start['help_seconds']:.2f}, a short training {start['train_seconds']:.2f}, "
        f"first use on a machine {start['first_use_seconds']:.1f}"
    )
    return "\n".join(lines)
