"""Training on compiled problems: relative to the bare simulation and to the textbook, on two threads; prediction."""

from __future__ import annotations

import importlib.util
import statistics
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import Report, part, timing
from benchmarks.timing import Prepare, measure_pace, measure_pace_ratios, measure_ratio, measure_seconds, median_seconds
from spaql.agents import AQL, SPAQL, Tessera
from spaql.agents.rollouts import simulate
from spaql.partition.rng import Purpose, stream
from spaql.problems import PROBLEMS, Discrete, Problem, oil
from spaql.problems.oil import DEPOSIT
from spaql.studies.control import TASKS
from spaql.studies.paper.plan import LONG, SETTINGS

#: problem, its environment in Gymnasium, and environment steps
CONTROL = tuple((task.problem, task.environment, task.budget) for task in TASKS)
PAPER = tuple((setting.make, setting.iterations) for setting in SETTINGS if setting.id != LONG)


def make_simulation(problem: Problem, episodes: int) -> Callable[[], Any]:
    """Return a compiled loop that plays episodes with random actions and does nothing else."""
    frame = problem.frame(1)
    streams = [stream(0, purpose) for purpose in (Purpose.TRAINING, Purpose.TRAINING_ENVIRONMENT)]
    choices = problem.actions.count if isinstance(problem.actions, Discrete) else 0
    return lambda: simulate(problem.world, frame, problem.horizon, episodes, choices, *streams)


def prepare_training(cls: Any, problem: Any, *, policy: bool = False, parameters: Any = None, **length: int) -> Prepare:
    """Return a function that prepares a training, or the extraction of the policy after one, which return the steps."""

    def prepare() -> Callable[[], int]:
        agent = cls(problem, **parameters or {}).prepare()
        if policy:
            agent.learn(**length)

        def work() -> int:
            if policy:
                agent._policy()
            else:
                agent.learn(**length)
            return int(agent.num_timesteps)

        return work

    return prepare


@part
def ratio_to_simulation(report: Report) -> dict[str, Any]:
    """Time of `learn` over a compiled loop that plays as many environment steps with random actions.

    On the paper's twelve problems at the paper's settings (K and N as printed, xi = 0.5), with AQL's monitoring
    rollouts counted as steps; `ratio_without_monitoring` is AQL with N = 0.  Tessera learns from K episodes and has no
    rollouts; `ratio_of_policy` is the time to extract its policy over the same simulation.  Then Tessera on classic
    control with the budgets of `spaql control`, as times per step since episodes differ in length.
    """
    rows = [_measure_paper(report, make(), iterations, *each) for make, iterations in PAPER for each in _ALGORITHMS]
    return {"ratio_to_simulation": rows + [_measure_control(report, name, steps) for name, _, steps in CONTROL]}


_ALGORITHMS = (("tessera", Tessera), ("spaql", SPAQL), ("aql", AQL))


def _measure_paper(report: Report, problem: Problem, iterations: int, name: str, cls: Any) -> dict[str, Any]:
    report(f"{name} on {problem.name}")
    episodes = iterations * (1 if name == "tessera" else 21)
    baseline = make_simulation(problem, episodes)
    baseline()
    row = {
        "problem": problem.name,
        "algorithm": name,
        "ratio_to_simulation": measure_ratio(prepare_training(cls, problem, iterations=iterations), baseline),
        "simulation_ns_per_step": 1e9 * measure_seconds(baseline) / (episodes * problem.horizon),
    }
    if name == "tessera":
        Tessera(problem).learn(iterations=1).cells()  # compiles
        extraction = prepare_training(Tessera, problem, policy=True, iterations=iterations)
        row["ratio_of_policy"] = measure_ratio(extraction, baseline)
    if name == "aql":
        unmonitored = prepare_training(AQL, problem, parameters={"rollouts": 0}, iterations=iterations)
        row["ratio_without_monitoring"] = measure_ratio(unmonitored, make_simulation(problem, iterations))
    return row


def _measure_control(report: Report, name: str, steps: int) -> dict[str, Any]:
    report(f"tessera on {name}")
    problem = PROBLEMS[name]()
    length = make_simulation(problem, 100)()[1] / 100  # random actions end some episodes early
    simulation = make_simulation(problem, max(1, round(steps / length)))

    def prepare() -> Callable[[], int]:
        return lambda: int(simulation()[1])

    simulation()
    Tessera(problem).learn(total_timesteps=steps).cells()  # compiles
    training, extraction = (
        prepare_training(Tessera, problem, policy=policy, total_timesteps=steps) for policy in (False, True)
    )
    return {
        "problem": problem.name,
        "algorithm": "tessera",
        "ratio_to_simulation": measure_pace_ratios(training, prepare)[0],
        "simulation_ns_per_step": 1e9 * measure_pace(prepare()),
        "ratio_of_policy": measure_pace_ratios(extraction, prepare)[0],
    }


@part
def ratio_to_textbook(report: Report, iterations: int = 100) -> dict[str, Any]:
    """Time of `tests/textbook.py` over ours for the same run, on oil discovery with the Laplace survey, lambda 10."""
    report("textbook")
    path = Path(__file__).parents[1] / "tests" / "textbook.py"
    spec = importlib.util.spec_from_file_location("textbook", path)
    assert spec is not None
    assert spec.loader is not None
    textbook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(textbook)
    plain = textbook.Oil("laplace", 10.0, DEPOSIT, 0.0, 5)
    ratios = {}
    for name, cls, slow in (("spaql", SPAQL, textbook.spaql), ("aql", AQL, textbook.aql)):
        theirs = measure_seconds(partial(slow, plain, iterations=iterations, scaling=0.5, seed=0))
        prepare = prepare_training(cls, oil(), iterations=iterations)
        ratios[name] = theirs / statistics.median(measure_seconds(prepare()) for _ in range(timing.REPEATS))
    return {"ratio_to_textbook": ratios}


@part
def predict_per_second(report: Report) -> dict[str, Any]:
    """States per second of `predict` on a batch of a million."""
    report("predict")
    agent = Tessera(oil()).learn(iterations=2000)
    states = np.random.default_rng(0).random((1_000_000, 1))
    agent.predict(states[:10])
    return {"predict_per_second": len(states) / median_seconds(lambda: agent.predict(states))}


@part
def threads(report: Report, agents: int = 64) -> dict[str, Any]:
    """Time of training agents one after the other over the time on two threads."""
    report("threads")

    def train(workers: int) -> None:
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(lambda seed: Tessera(oil(), seed=seed).learn(iterations=5000), range(agents)))

    train(2)
    return {"threads": measure_ratio(lambda: partial(train, 1), partial(train, 2))}
