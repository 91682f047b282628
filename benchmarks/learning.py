"""Training of compiled problems: over the bare simulation, over the textbook, on two threads; and predicting."""

from __future__ import annotations

import importlib.util
import statistics
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import timing
from benchmarks.timing import Bar, Part, Ready, pace, ratio, ratios_of_pace, seconds
from spaql.agents import AQL, SPAQL, Tessera
from spaql.agents.rollouts import simulate
from spaql.partition.rng import Purpose, stream
from spaql.problems import PROBLEMS, Discrete, Problem, oil
from spaql.problems.oil import DEPOSIT
from spaql.studies.control import TASKS
from spaql.studies.paper.plan import LONG, SETTINGS

#: problem, the environment that it is in Gymnasium, and environment steps
CONTROL = tuple((task.problem, task.environment, task.budget) for task in TASKS)


def paper_problems() -> list[tuple[Problem, int]]:
    """The paper's twelve problems and their numbers of iterations."""
    return [(setting.make(), setting.iterations) for setting in SETTINGS if setting.id != LONG]


def _simulation(problem: Problem, episodes: int) -> Callable[[], Any]:
    frame = problem.frame(1)
    streams = [stream(0, purpose) for purpose in (Purpose.TRAINING, Purpose.TRAINING_ENVIRONMENT)]
    choices = problem.actions.count if isinstance(problem.actions, Discrete) else 0
    return lambda: simulate(problem.world, frame, problem.horizon, episodes, choices, *streams)


def _training(cls: Any, problem: Problem, iterations: int, **parameters: Any) -> Callable[[], Callable[[], Any]]:
    def ready() -> Callable[[], Any]:
        agent = cls(problem, **parameters).prepare()
        return lambda: agent.learn(iterations=iterations)

    return ready


def _decision(problem: Problem, iterations: int) -> Callable[[], Callable[[], Any]]:
    Tessera(problem).learn(iterations=1).cells()  # compiles

    def ready() -> Callable[[], Any]:
        agent = Tessera(problem).learn(iterations=iterations)
        return lambda: len(agent.cells())

    return ready


def to_simulation(bar: Bar) -> list[dict[str, Any]]:
    """(a)."""
    rows = []
    for problem, iterations in paper_problems():
        for name, cls in (("tessera", Tessera), ("spaql", SPAQL), ("aql", AQL)):
            bar(f"{name} on {problem.name}")
            episodes = iterations * (1 if name == "tessera" else 21)
            yardstick = _simulation(problem, episodes)
            yardstick()
            row = {
                "problem": problem.name,
                "algorithm": name,
                "ratio_to_simulation": ratio(_training(cls, problem, iterations), yardstick),
                "simulation_ns_per_step": 1e9 * seconds(yardstick) / (episodes * problem.horizon),
            }
            if name == "tessera":
                row["ratio_of_policy"] = ratio(_decision(problem, iterations), yardstick)
            if name == "aql":
                alone = _simulation(problem, iterations)
                row["ratio_without_monitoring"] = ratio(_training(AQL, problem, iterations, rollouts=0), alone)
            rows.append(row)
    return rows


def control_to_simulation(bar: Bar) -> list[dict[str, Any]]:
    """(a), on classic control."""
    rows = []
    for name, _, steps in CONTROL:
        bar(f"spaql on {name}")
        problem = PROBLEMS[name]()
        length = _simulation(problem, 100)()[1] / 100  # random actions end some episodes soon
        episodes = max(1, round(steps / length))
        yardstick: Ready = partial(_steps_of, _simulation(problem, episodes))
        yardstick()()
        _learned(problem, steps)().cells()  # compiles
        rows.append(
            {
                "problem": problem.name,
                "algorithm": "tessera",
                "ratio_to_simulation": ratios_of_pace(learning_of(problem, steps), yardstick)[0],
                "simulation_ns_per_step": 1e9 * pace(yardstick()),
                "ratio_of_policy": ratios_of_pace(_deciding(problem, steps), yardstick)[0],
            }
        )
    return rows


def _steps_of(simulation: Callable[[], Any]) -> Callable[[], int]:
    return lambda: int(simulation()[1])


def _learned(problem: Any, steps: int) -> Callable[[], Tessera]:
    agent = Tessera(problem).prepare()
    return lambda: agent.learn(total_timesteps=steps)


def learning_of(problem: Any, steps: int) -> Ready:
    """Learning on a compiled problem, after compiling."""

    def ready() -> Callable[[], int]:
        learn = _learned(problem, steps)
        return lambda: learn().num_timesteps

    return ready


def _deciding(problem: Any, steps: int) -> Ready:
    """Putting together the policy after so many steps."""

    def ready() -> Callable[[], int]:
        agent = _learned(problem, steps)()

        def work() -> int:
            len(agent.cells())
            return agent.num_timesteps

        return work

    return ready


def to_textbook(bar: Bar, iterations: int = 100) -> dict[str, float] | None:
    """(b), on oil discovery with the Laplace survey, lambda 10."""
    path = Path(__file__).parents[1] / "tests" / "textbook.py"
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
    for name, cls, slow in (("spaql", SPAQL, textbook.spaql), ("aql", AQL, textbook.aql)):
        work = _training(cls, problem, iterations)
        theirs = seconds(partial(slow, plain, iterations=iterations, scaling=0.5, seed=0))
        ratios[name] = theirs / statistics.median(seconds(work()) for _ in range(timing.REPEATS))
    return ratios


def predict_rate(bar: Bar) -> float:
    """(e): states per second of `predict` on a batch of a million, for a trained SPAQL agent."""
    bar("predict")
    agent = Tessera(oil()).learn(iterations=2000)
    states = np.random.default_rng(0).random((1_000_000, 1))
    agent.predict(states[:10])
    return len(states) / statistics.median(seconds(lambda: agent.predict(states)) for _ in range(timing.REPEATS))


def thread_ratio(bar: Bar, agents: int = 64) -> float:
    """(f): time of training agents one after the other over the time on two threads."""
    bar("threads")

    def train(seed: int) -> None:
        Tessera(oil(), seed=seed).learn(iterations=5000)

    def on(threads: int) -> None:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(train, range(agents)))

    on(2)
    return statistics.median(seconds(lambda: on(1)) / seconds(lambda: on(2)) for _ in range(timing.REPEATS))


def _told_simulation(figures: dict[str, Any]) -> list[str]:
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
    return lines


def _told_textbook(figures: dict[str, Any]) -> list[str]:
    book = figures["ratio_to_textbook"]
    if book is None:
        return []
    return ["time of the textbook over ours: " + ", ".join(f"{name} {r:,.0f}" for name, r in book.items())]


PARTS = {
    "ratio_to_simulation": Part(
        lambda bar: {"ratio_to_simulation": to_simulation(bar) + control_to_simulation(bar)},
        _told_simulation,
        lambda: 3 * len(paper_problems()) + len(CONTROL),
    ),
    "ratio_to_textbook": Part(lambda bar: {"ratio_to_textbook": to_textbook(bar)}, _told_textbook),
    "predict_per_second": Part(
        lambda bar: {"predict_per_second": predict_rate(bar)},
        lambda figures: [f"predict: {figures['predict_per_second'] / 1e6:.1f} million states per second"],
    ),
    "threads": Part(
        lambda bar: {"threads": thread_ratio(bar)},
        lambda figures: [f"two threads against one: {figures['threads']:.2f} times"],
    ),
}
