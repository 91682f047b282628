"""Training: relative to the bare simulation, to the textbook, and to Gymnasium; on two threads; prediction."""

import runpy
import statistics
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from benchmarks import Prepare, Report, measure_in_turn, measure_seconds, median_ratio, median_seconds, part, repeat
from spaql.agents import AQL, SPAQL, UCBQ, Tessera
from spaql.agents.rollouts import simulate
from spaql.partition.rng import Purpose, stream
from spaql.problems import PROBLEMS, Discrete, Problem, oil
from spaql.problems.oil import DEPOSIT
from spaql.studies.control import TASKS
from spaql.studies.paper.plan import LONG, SETTINGS

#: problem, its environment in Gymnasium, and environment steps
CONTROL = tuple((task.problem, task.environment, task.budget) for task in TASKS)
PAPER = tuple((setting.make, setting.iterations) for setting in SETTINGS if setting.id != LONG)
LOOPS = ("CartPole-v1", "Pendulum-v1")
AGENTS = 64  # that are trained on two threads
_ALGORITHMS = (("tessera", Tessera), ("spaql", SPAQL), ("aql", AQL), ("ucb-q", UCBQ))


def make_simulation(problem: Problem, episodes: int) -> Callable[[], int]:
    """Return a compiled loop that plays episodes with random actions, does nothing else, and returns the steps."""
    streams = [stream(0, purpose) for purpose in (Purpose.TRAINING, Purpose.TRAINING_ENVIRONMENT)]
    frame, choices = problem.frame(1), problem.actions.count if isinstance(problem.actions, Discrete) else 0
    return lambda: int(simulate(problem.world, frame, problem.horizon, episodes, choices, *streams)[1])


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
            return int(agent.num_timesteps + agent.monitoring_steps)

        return work

    return prepare


@part
def ratio_to_simulation(report: Report) -> dict[str, Any]:
    """Time of `learn` over a compiled loop that plays as many environment steps with random actions.

    On the paper's twelve problems at the paper's settings (K and N as printed, xi = 0.5), with AQL's monitoring
    rollouts counted as steps; `ratio_without_monitoring` is AQL with N = 0.  Tessera learns from K episodes and has no
    rollouts; `ratio_of_policy` is the time to extract its policy over the same simulation.  UCB-Q stands for the agents
    on a fixed net, which have no rollouts either; the aim is 3.  Then Tessera on classic control with the budgets of
    `spaql control`.  All are times per step, since episodes differ in length.
    """
    cases = [(make(), each, {"iterations": iterations}) for make, iterations in PAPER for each in _ALGORITHMS]
    cases += [(PROBLEMS[name](), _ALGORITHMS[0], {"total_timesteps": steps}) for name, _, steps in CONTROL]
    return {"ratio_to_simulation": [_compare_with_simulation(report, *case) for case in cases]}


def _compare_with_simulation(
    report: Report, problem: Problem, algorithm: tuple[str, Any], length: dict[str, int]
) -> dict[str, Any]:
    name, cls = algorithm
    report(f"{name} on {problem.name}")
    works = {"ratio_to_simulation": prepare_training(cls, problem, **length)}
    if name == "tessera":
        works["ratio_of_policy"] = prepare_training(cls, problem, policy=True, **length)
    if name == "aql":
        works["ratio_without_monitoring"] = prepare_training(cls, problem, parameters={"rollouts": 0}, **length)
    steps, *_ = [prepare()() for prepare in works.values()]  # which also compiles
    mean_length = make_simulation(problem, 100)() / 100  # random actions end some episodes early
    simulation = make_simulation(problem, max(1, round(steps / mean_length)))
    *ours, bare = measure_in_turn(*works.values(), lambda: simulation)
    row = {"problem": problem.name, "algorithm": name}
    row |= {ratio: median_ratio(column, bare) for ratio, column in zip(works, ours, strict=True)}
    return row | {"simulation_ns_per_step": 1e9 * statistics.median(bare)}


def prepare_loop(environment: str, steps: int, sampling: bool) -> Callable[[], int]:
    """Return a loop of `env.step` with random actions, drawn at every step or beforehand."""
    space = gymnasium.make(environment).action_space
    space.seed(0)
    drawn = [] if sampling else [space.sample() for _ in range(steps)]

    def loop() -> int:
        env = gymnasium.make(environment)
        env.reset(seed=0)
        for action in drawn or (env.action_space.sample() for _ in range(steps)):
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()
        return steps

    return loop


def _prepare_learning(environment: str, steps: int) -> Prepare:
    """Return training through Gymnasium, with making the environment and the warm-up."""
    Tessera(environment).learn(iterations=1)  # compiles
    return lambda: lambda: Tessera(environment).learn(total_timesteps=steps).num_timesteps


@part
def ratio_to_gymnasium(report: Report) -> dict[str, Any]:
    """Time per step of `spaql.Tessera(id).learn(n)` over that of a bare loop in Python; the aim is 1.3.

    The loop makes the environment, calls `env.step` with random actions drawn beforehand, and `env.reset` at every end.
    `ratio_to_sampling` is over the loop that people write, which calls `env.action_space.sample()` at every step.
    """
    rows = []
    for _, environment, steps in CONTROL:
        if environment in LOOPS:
            report(f"bare {environment}")
            loops = [partial(prepare_loop, environment, steps, sampling) for sampling in (False, True)]
            ours, bare, sampling = measure_in_turn(_prepare_learning(environment, steps), *loops)
            row = {"environment": environment, "steps": steps, "ratio_to_gymnasium": median_ratio(ours, bare)}
            row |= {"ratio_to_sampling": median_ratio(ours, sampling)}
            rows.append(row | {"gymnasium_us_per_step": 1e6 * statistics.median(bare)})
    return {"ratio_to_gymnasium": rows}


@part
def compiled_to_gymnasium(report: Report) -> dict[str, Any]:
    """Time per step of learning through Gymnasium over learning on the same problem compiled; the aim is 50 (Pendulum).

    Compiling is excluded.
    """
    rows = []
    for name, environment, steps in CONTROL:
        report(f"{environment} against {name}")
        compiled = prepare_training(Tessera, PROBLEMS[name](), total_timesteps=steps)
        theirs, ours = measure_in_turn(_prepare_learning(environment, steps), compiled)
        row = {"problem": name, "environment": environment, "steps": steps}
        row |= {"compiled_to_gymnasium": median_ratio(theirs, ours)}
        rows.append(row | {"compiled_ns_per_step": 1e9 * statistics.median(ours)})
    return {"compiled_to_gymnasium": rows}


@part
def ratio_to_textbook(report: Report, iterations: int = 100) -> dict[str, Any]:
    """Time of `tests/textbook.py` over ours for the same run, on oil discovery with the Laplace survey, lambda 10."""
    report("textbook")
    textbook = runpy.run_path(str(Path(__file__).parents[1] / "tests" / "textbook.py"))
    plain = textbook["Oil"]("laplace", 10.0, DEPOSIT, 0.0, 5)
    ratios = {}
    for name, cls in (("spaql", SPAQL), ("aql", AQL)):
        theirs = measure_seconds(partial(textbook[name], plain, iterations=iterations, scaling=0.5, seed=0))
        training = prepare_training(cls, oil(), iterations=iterations)
        steps = training()()
        [ours] = measure_in_turn(training)
        ratios[name] = theirs / steps / statistics.median(ours)
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
def threads(report: Report) -> dict[str, Any]:
    """Time of training agents one after the other over the time on two threads."""
    report("threads")

    def train(workers: int) -> None:
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(lambda seed: Tessera(oil(), seed=seed).learn(iterations=5000), range(AGENTS)))

    train(2)
    return {"threads": median_ratio(*measure_in_turn(*(repeat(partial(train, workers)) for workers in (1, 2))))}
