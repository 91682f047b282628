"""The result of one training run, as `spaql train` prints and writes it: a table, JSON, CSV files and figures."""

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from spaql.agents import Agent, Diagnosis, Evaluation, resolve
from spaql.agents.files import AGENT, SUMMARY
from spaql.agents.inspection import view_policy
from spaql.agents.partition_agent import count_cells
from spaql.atomic_io import Content
from spaql.formatting import Table
from spaql.partition.partition import Cells
from spaql.partition.spaces import Box
from spaql.problems.base import Playable
from spaql.problems.optimum import EXACT, STATED, WORST_TOLERANCE, Optimum, is_above, optimum
from spaql.runner.execute import is_flat
from spaql.viz import figures
from spaql.viz.charts import make_learning_chart

_LONGEST_FOR_OPTIMUM = 500  # steps; longer takes long
_HEADER = ["algorithm", "evaluation", "95% interval", "training score", "optimum", "% of opt.", "cells"]
_HEADER += ["training steps", "selection steps", "seconds"]
#: names of the files of a training run
FILES = (SUMMARY, "history.csv", "partition.csv", "learning.png", "partition.png", AGENT)


@dataclass(frozen=True, eq=False)
class Summary:
    """Result of a training run."""

    name: str  # of the algorithm
    agent: Agent
    evaluation: Evaluation  # of the policy it returns, on new random numbers
    optimum: Optimum | None  # of the problem, where it is known
    seconds: float | None  # spent in `learn`; None where it was interrupted
    diagnosis: list[Diagnosis]  # what may be wrong

    @property
    def label(self) -> str:
        """Name of the algorithm in figures."""
        return resolve(self.name).label

    @property
    def fraction_of_optimum(self) -> float | None:
        """Evaluation over optimum, where the optimum is known and positive."""
        if self.optimum is None or self.optimum.value <= 0.0:
            return None
        return self.evaluation.mean / self.optimum.value

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the arrays, ready for JSON."""
        agent, (low, high) = self.agent, self.evaluation.interval
        episodes = len(self.evaluation.returns)
        return {
            "problem": agent.problem.name,
            "arguments": dict(agent.problem.arguments),
            "algorithm": self.name,
            "parameters": {name: _plain(value) for name, value in agent.get_params().items()},
            "iterations": agent.iterations,
            "evaluation": {"mean": self.evaluation.mean, "low": low, "high": high, "episodes": episodes},
            "training_score": agent.selection_score,
            "optimum": None if self.optimum is None else self.optimum.value,
            "optimum_tolerance": None if self.optimum is None else self.optimum.tolerance,
            "optimum_kind": None if self.optimum is None else self.optimum.kind,
            "fraction_of_optimum": self.fraction_of_optimum,
            "cells": count_cells(agent),
            "training_steps": agent.training_steps,
            "selection_steps": agent.selection_steps,
            "monitoring_steps": agent.monitoring_steps,
            "seconds": self.seconds,
            "diagnosis": [diagnosis.to_dict() for diagnosis in self.diagnosis],
        }

    def row(self) -> list[str]:
        """Return its row of `summary_table`."""
        agent, (low, high), share = self.agent, self.evaluation.interval, self.fraction_of_optimum
        numbers = [
            (agent.selection_score, ".3f"),
            (None if self.optimum is None else self.optimum.value, ".3f"),
            (None if share is None else 100 * share, ".1f"),
            (count_cells(agent), ""),
            (agent.training_steps, ","),
            (agent.selection_steps, ","),
            (self.seconds, ".2f"),
        ]
        texts = ["-" if number is None else format(number, style) for number, style in numbers]
        return [self.name, f"{self.evaluation.mean:.3f}", f"[{low:.3f}, {high:.3f}]", *texts]


def train(agent: Agent, *, progress_bar: bool | None = None, **options: Any) -> float:
    """Train with the options of `agent.learn`; returns the seconds it took, without compiling."""
    agent.prepare(progress_bar)
    start = time.perf_counter()
    agent.learn(**options, progress_bar=progress_bar)
    return time.perf_counter() - start


def summarize(
    name: str, agent: Agent, *, seconds: float | None, episodes: int = 10_000, progress_bar: bool | None = None
) -> Summary:
    """Evaluate an agent as it is, record that, and compare it with the exact optimum where it is known."""
    known = known_optimum(agent.problem)
    evaluation = agent.evaluate(episodes, progress_bar=progress_bar)
    agent.record_evaluation(evaluation)
    found = [] if known is None else _check_optimum(evaluation, known)
    return Summary(name, agent, evaluation, known, seconds, [*found, *agent.diagnose()])


def _check_optimum(evaluation: Evaluation, known: Optimum) -> list[Diagnosis]:
    """Return what is wrong with a stated optimum that the evaluation exceeds."""
    gain = evaluation.mean - known.value
    if known.kind != STATED or not is_above(gain, evaluation.estimate.half_width, known.value):
        return []
    what = f"the evaluation, {evaluation.mean:.6g}, is above the stated optimum, {known.value:.6g}"
    return [Diagnosis("optimum-exceeded", what, "shares of the optimum and regret are wrong", "Correct `optimum`")]


def known_optimum(problem: Playable, tolerance: float = 1e-5) -> Optimum | None:
    """Return the optimum, exact or stated, or None where it is not known well enough to compare with."""
    if problem.optimum is None and (problem.model is None or problem.horizon > _LONGEST_FOR_OPTIMUM):
        return None
    known = optimum(problem, tolerance=tolerance)
    return None if known.tolerance > WORST_TOLERANCE * abs(known.value) else known  # percentages of it would mislead


def summary_table(summaries: Iterable[Summary]) -> Table:
    """Return a table with one row per summary."""
    return Table(_HEADER, [summary.row() for summary in summaries])


def summary_files(summary: Summary) -> dict[str, Content]:
    """Return the files of a run by name: summary, history, cells and two figures."""
    agent = summary.agent
    files: dict[str, Content] = {SUMMARY: json.dumps(summary.to_dict(), indent=2, allow_nan=False) + "\n"}
    if agent.iterations:
        progress, cells = agent.progress(), agent.cells()
        rows = list(zip(*(column.tolist() for column in progress.values()), strict=True))
        files["history.csv"] = Table(list(progress), rows).csv()
        if len(cells):
            files["partition.csv"] = _list_cells(cells).csv()
        files |= figures.writers("learning", partial(draw_curve, summary), ("png",))
        if is_flat(agent) and isinstance(agent.problem.actions, Box):
            files |= figures.writers("partition", partial(draw_partition, summary), ("png",))
    return files


def _list_cells(cells: Cells) -> Table:
    columns: dict[str, Any] = {"step": cells.step, "depth": cells.depth, "visits": cells.visits, "q": cells.q}
    for part in ("state_low", "state_high", "action_low", "action_high"):
        columns |= {f"{part}_{d}": column for d, column in enumerate(getattr(cells, part).T)}
    rows = list(zip(*(column.tolist() for column in columns.values()), strict=True))
    return Table(list(columns), rows)


def draw_curve(summary: Summary) -> Figure:
    """Draw the learning curve of a run by the scores that the agent itself saw."""
    agent, known = summary.agent, summary.optimum
    # without rollouts of its own an agent has seen only its training episodes, in which it explores
    chart = make_learning_chart(
        {summary.label: (np.arange(1, agent.iterations + 1), agent.history["score"])},
        title=f"{summary.label} on {agent.problem.name}",
        optimum=None if known is None else known.value,
        y_label="training return" if agent.selection_score is None else "return of the current policy",
        colours={summary.label: resolve(summary.name).colour or ""},
    )
    return figures.chart(chart)


def draw_partition(summary: Summary) -> Figure:
    """Draw the partition of an agent with one state and one action, of the first time step, and the optimal action."""
    states, optimum, lines = summary.agent.problem.states, summary.optimum, {}
    if optimum is not None and optimum.kind == EXACT:
        points = states.from_unit((np.arange(512) + 0.5)[:, None] / 512)[:, 0]
        lines = {"optimal action": (points, optimum.policy(points, step=0))}
    figure: Figure = view_policy(summary.agent).plot_states_and_actions("q", lines=lines)
    return figure


def _plain(value: Any) -> Any:
    """Return a parameter ready for JSON; those of a user's class may be anything."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return repr(value)
    return value
