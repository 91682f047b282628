"""The demonstration of `make demo`: Tessera, AQL and Random on oil discovery (Laplace survey, lambda 10)."""

from __future__ import annotations

import os
from pathlib import Path

from spaql import atomic_io
from spaql.agents import resolve
from spaql.problems import oil
from spaql.runner import summary


def demonstrate(
    folder: str | os.PathLike[str], *, iterations: int = 5000, seed: int = 0, progress_bar: bool | None = None
) -> tuple[list[summary.Summary], list[Path]]:
    """Train the three agents and write learning curves and Tessera's partition; return summaries and files."""
    path = atomic_io.check_folder(folder)
    problem = oil(survey="laplace", sharpness=10.0)
    summaries = []
    for name, parameters in {"tessera": {}, "aql": {"scaling": 1.75}, "random": {}}.items():
        agent = resolve(name).make(problem, seed=seed, **parameters)
        seconds = summary.train(agent, iterations=iterations, progress_bar=progress_bar)
        summaries.append(summary.summarize(name, agent, seconds=seconds, progress_bar=progress_bar))
    files = summary.figure_files(summaries, f"Learning on {problem.name}")
    return summaries, atomic_io.write_files(path, files, summary.FILES)
