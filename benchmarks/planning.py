"""Planning: how much of Tessera's time it takes."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks import Report, part
from spaql.agents import Tessera
from spaql.agents.tessera import agent as tessera
from spaql.studies.control import TASKS

#: problem, and environment steps
CASES = (("oil", 25_000), ("ambulance", 10_000), *((task.environment, task.budget) for task in TASKS))


@contextmanager
def measure_calls(module: Any, name: str) -> Iterator[list[float]]:
    """Collect the CPU seconds of each call of a module's function, of this process."""
    original, seconds = getattr(module, name), []

    def timed(*arguments: Any, **options: Any) -> Any:
        start = time.process_time()
        try:
            return original(*arguments, **options)
        finally:
            seconds.append(time.process_time() - start)

    setattr(module, name, timed)
    try:
        yield seconds
    finally:
        setattr(module, name, original)


def measure_agent(problem: str, steps: int) -> dict[str, Any]:
    """Train an agent and plan its policy; return the CPU seconds of both, and the share of planning in all."""
    agent = Tessera(problem, seed=0).prepare()
    with measure_calls(tessera, "make_plan") as plans:
        start = time.process_time()
        agent.learn(steps)
        learning, plans_before = time.process_time() - start, sum(plans)
        agent.cells()
    returned = sum(plans) - plans_before
    row = {"problem": agent.problem.name, "steps": steps, "learning_seconds": learning, "planning_seconds": returned}
    return row | {"share_of_planning": sum(plans) / (learning + returned)}


@part
def planning(report: Report) -> dict[str, Any]:
    """CPU seconds of one agent of Tessera: of `learn`, with its plans, and of planning the returned policy.

    `share_of_planning` is that of all plans in both.  On two problems of the paper at AQL's steps, and on the
    environments of Gymnasium with the budgets of `spaql control`.  Compiling is excluded.  The aims are 0.3 s on the
    paper's problems, 10 s on CartPole-v1, and half of the time through Gymnasium.
    """
    rows = []
    for problem, steps in CASES:
        report(f"Tessera on {problem}")
        rows.append(measure_agent(problem, steps))
    return {"planning": rows}
