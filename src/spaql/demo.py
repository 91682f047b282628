"""The demonstration of `make demo`: published SPAQL, AQL and Random on oil discovery (Laplace survey, lambda 10)."""

from __future__ import annotations

import os
from pathlib import Path

from matplotlib.figure import Figure

from spaql import experiment
from spaql.agents import ALGORITHMS
from spaql.problems import oil

ITERATIONS = 5000
SCALING = {"spaql": 0.5, "aql": 1.75}


def demonstrate(
    folder: str | os.PathLike[str], *, iterations: int = ITERATIONS, seed: int = 0, progress_bar: bool | None = None
) -> tuple[list[experiment.Result], list[Path]]:
    """Train the three agents, and write the learning curves and SPAQL's partition; the results and the files."""
    path = experiment.check_folder(folder)
    problem = oil(survey="laplace", sharpness=10.0)
    results = []
    for name in ("spaql", "aql", "random"):
        parameters = {"scaling": SCALING[name]} if name in SCALING else {}
        agent = ALGORITHMS[name](problem, seed=seed, **parameters)
        results.append(experiment.run(name, agent, iterations=iterations, progress_bar=progress_bar))
    files: dict[str, str | Figure] = {
        "learning.png": experiment.curves_figure(results, f"Learning on {problem.name}"),
    }
    picture = experiment.partition_figure(results[0])
    if picture is not None:
        files["partition.png"] = picture
    return results, experiment.write(path, files)
