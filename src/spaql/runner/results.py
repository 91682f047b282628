"""One run, honestly told: train an agent, score what it returns on fresh random numbers, and write it down.

A `Result` is what tables, files and the command line show of a run.  The fresh score and the score by which the agent
was selected stand side by side, next to the exact optimum where it is known; every environment step is counted.
"""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from spaql.agents import Agent, Diagnosis, Evaluation, PartitionAgent, resolve
from spaql.agents.callbacks import Callbacks
from spaql.agents.files import AGENT
from spaql.atomic_io import Content
from spaql.formatting import Table
from spaql.partition.spaces import Box
from spaql.problems.base import Playable
from spaql.problems.optimum import Optimum, optimum
from spaql.viz import figures
from spaql.viz.learning_curves import make_learning_chart
from spaql.viz.policy_plot import plot_cells

FRESH_EPISODES = 10_000
_WORST_TOLERANCE = 1e-3  # of the optimum; beyond, percentages of it would mislead
_LONGEST_FOR_OPTIMUM = 500  # steps; longer takes long


@dataclass(frozen=True, eq=False)
class Result:
    """A finished run.

    Attributes
    ----------
    name
        Name of the algorithm.
    agent
        The trained agent.
    evaluation
        Of the policy it returns, on new random numbers.
    optimum
        The exact optimum of the problem, or None where it is not known.
    seconds
        Time spent in `learn`; None where it was interrupted.
    diagnosis
        What may be wrong.
    """

    name: str
    agent: Agent
    evaluation: Evaluation
    optimum: Optimum | None
    seconds: float | None
    diagnosis: list[Diagnosis]

    @property
    def fraction_of_optimum(self) -> float | None:
        """Evaluation over optimum, where the optimum is known and positive."""
        if self.optimum is None or self.optimum.value <= 0.0:
            return None
        return self.evaluation.mean / self.optimum.value

    def to_dict(self) -> dict[str, Any]:
        """Everything but the arrays, ready for JSON."""
        agent, low_high = self.agent, self.evaluation.interval
        return {
            "problem": agent.problem.name,
            "arguments": dict(agent.problem.arguments),
            "algorithm": self.name,
            "parameters": agent.get_params(),
            "iterations": agent.iterations,
            "evaluation": {
                "mean": self.evaluation.mean,
                "low": low_high[0],
                "high": low_high[1],
                "episodes": len(self.evaluation.returns),
            },
            "training_score": agent.selection_score,
            "optimum": None if self.optimum is None else self.optimum.value,
            "optimum_tolerance": None if self.optimum is None else self.optimum.tolerance,
            "fraction_of_optimum": self.fraction_of_optimum,
            "cells": len(agent.cells()),
            "training_steps": agent.training_steps,
            "selection_steps": agent.selection_steps,
            "monitoring_steps": agent.monitoring_steps,
            "seconds": self.seconds,
            "diagnosis": [found.to_dict() for found in self.diagnosis],
        }


def run(
    name: str,
    agent: Agent,
    *,
    iterations: int | None = None,
    total_timesteps: int | None = None,
    episodes: int = FRESH_EPISODES,
    progress_bar: bool | None = None,
) -> Result:
    """Train for so many iterations or environment steps, then score on fresh random numbers.

    Ctrl-C during training keeps the finished iterations in `agent` and is raised again.
    """
    seconds = train(agent, iterations=iterations, total_timesteps=total_timesteps, progress_bar=progress_bar)
    return judge(name, agent, seconds=seconds, episodes=episodes, progress_bar=progress_bar)


def train(
    agent: Agent,
    *,
    iterations: int | None = None,
    total_timesteps: int | None = None,
    callback: Callbacks | None = None,
    progress_bar: bool | None = None,
) -> float:
    """Train for so many iterations or environment steps; the seconds that it took, without compiling."""
    agent.prepare(progress_bar)
    start = time.perf_counter()
    agent.learn(iterations=iterations, total_timesteps=total_timesteps, callback=callback, progress_bar=progress_bar)
    return time.perf_counter() - start


def judge(
    name: str,
    agent: Agent,
    *,
    seconds: float | None,
    episodes: int = FRESH_EPISODES,
    progress_bar: bool | None = None,
) -> Result:
    """Score an agent as it is, beside the exact optimum where that is known well enough to compare with."""
    problem = agent.problem
    known = known_optimum(problem)
    evaluation = agent.evaluate(episodes, progress_bar=progress_bar)
    agent.record_evaluation(evaluation)
    return Result(name, agent, evaluation, known, seconds, agent.diagnose())


def known_optimum(problem: Playable, tolerance: float = 1e-5) -> Optimum | None:
    """The exact optimum, where it is known well enough to compare with."""
    if problem.model is None or problem.horizon > _LONGEST_FOR_OPTIMUM:
        return None
    known = optimum(problem, tolerance=tolerance)
    return None if known.tolerance > _WORST_TOLERANCE * abs(known.value) else known


def table(results: Iterable[Result]) -> str:
    """A plain-text table, one row per result."""
    header = ["algorithm", "evaluation", "95% interval", "training score", "optimum", "% of opt."]
    header += ["cells", "training steps", "selection steps", "seconds"]
    rows = []
    for result in results:
        agent, (low, high) = result.agent, result.evaluation.interval
        chosen, share = agent.selection_score, result.fraction_of_optimum
        rows.append(
            [
                result.name,
                f"{result.evaluation.mean:.3f}",
                f"[{low:.3f}, {high:.3f}]",
                "-" if chosen is None else f"{chosen:.3f}",
                "-" if result.optimum is None else f"{result.optimum.value:.3f}",
                "-" if share is None else f"{100 * share:.1f}",
                str(len(agent.cells())) if len(agent.cells()) else "-",
                f"{agent.training_steps:,}",
                f"{agent.selection_steps:,}",
                "-" if result.seconds is None else f"{result.seconds:.2f}",
            ]
        )
    return Table(header, rows).text()


def curves_figure(results: Iterable[Result], title: str) -> Figure:
    """Learning curves of several results on one problem, by the score that each agent itself saw."""
    kept = [result for result in results if result.agent.iterations]
    longest = max((result.agent.iterations for result in kept), default=1)
    curves: dict[str, tuple[Any, Any]] = {}
    known = None
    for result in results:
        known = result.optimum if result.optimum is not None else known
        if result.agent.iterations:
            curves[label(result.name)] = (np.arange(1, result.agent.iterations + 1), result.agent.history["score"])
        else:
            curves[label(result.name)] = (np.array([0, longest]), np.full(2, result.evaluation.mean))
    # Without rollouts of its own an agent has seen only its training episodes, in which it also explores.
    exploring = [label(result.name) for result in kept if result.agent.selection_score is None]
    aside = f" ({' and '.join(exploring)}: while exploring)" if exploring else ""
    chart = make_learning_chart(
        curves,
        title=title,
        optimum=None if known is None else known.value,
        y_label=f"return of the current policy{aside}",
        colours={label(result.name): resolve(result.name).colour or "" for result in results},
    )
    return figures.chart(chart)


def label(name: str) -> str:
    """How figures call an algorithm."""
    return resolve(name).label


def partition_figure(result: Result, step: int = 0) -> Figure | None:
    """The partition of a one-state, one-action agent coloured by Q with its greedy actions; None for other shapes."""
    agent = result.agent
    spaces = agent.problem.states.dimensions, agent.problem.actions.dimensions
    if spaces != (1, 1) or not isinstance(agent, PartitionAgent) or not isinstance(agent.problem.actions, Box):
        return None
    cells = agent.cells().at(step)
    states = agent.problem.states.from_unit((np.arange(512) + 0.5)[:, None] / 512)
    edges = agent.problem.states.from_unit(np.arange(513)[:, None] / 512)[:, 0]
    low, high = agent.greedy_boxes(states, step)
    lines = None
    if result.optimum is not None:
        lines = {"optimal action": (states[:, 0], result.optimum.policy(states[:, 0], step=step))}
    which = f", time step {step + 1}" if agent.time_variant else ""
    return plot_cells(
        np.hstack([cells.state_low, cells.action_low]),
        np.hstack([cells.state_high, cells.action_high]),
        cells.q,
        title=f"{label(result.name)} on {agent.problem.name}{which}",
        note=f"{len(cells):,} cells",
        policy=(edges, low[:, 0], high[:, 0]),
        lines=lines,
    )


#: what a run can leave in its folder
FILES = ("summary.json", "history.csv", "partition.csv", "learning.png", "partition.png", AGENT)


def files_of(result: Result) -> dict[str, Content]:
    """What a run leaves in its folder: summary, history, cells and two pictures."""
    files: dict[str, Content] = {"summary.json": json.dumps(result.to_dict(), indent=2, allow_nan=False) + "\n"}
    agent = result.agent
    if agent.iterations:
        history = agent.history
        files["history.csv"] = _csv(history.dtype.names or (), (row.tolist() for row in history))
        cells = agent.cells()
        columns: dict[str, Any] = {"step": cells.step, "depth": cells.depth, "visits": cells.visits, "q": cells.q}
        for part in ("state_low", "state_high", "action_low", "action_high"):
            columns |= {f"{part}_{d}": column for d, column in enumerate(getattr(cells, part).T)}
        files["partition.csv"] = _csv(columns, zip(*(column.tolist() for column in columns.values()), strict=True))
        files |= figure_files([result], f"{label(result.name)} on {agent.problem.name}")
    return files


def figure_files(results: Sequence[Result], title: str) -> dict[str, Content]:
    """Learning curves of several results on one problem, and the partition of the first, as files."""
    files: dict[str, Content] = {}
    files |= figures.writers("learning", partial(curves_figure, results, title), ("png",))
    picture = partition_figure(results[0])
    if picture is not None:
        files |= figures.writers("partition", lambda: picture, ("png",))
    return files


def _csv(header: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()
