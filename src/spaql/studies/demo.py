"""The demonstration of `make demo`: SPAQL, AQL and Random on oil discovery (Laplace survey, lambda 10)."""

from __future__ import annotations

import os
from pathlib import Path

from matplotlib.figure import Figure

from spaql import atomic_io as output
from spaql.agents import resolve
from spaql.problems import oil
from spaql.runner import results

ITERATIONS = 5000
SCALING = {"aql": 1.75}


def demonstrate(
    folder: str | os.PathLike[str], *, iterations: int = ITERATIONS, seed: int = 0, progress_bar: bool | None = None
) -> tuple[list[results.Result], list[Path]]:
    """Train the three agents, and write the learning curves and SPAQL's partition; the results and the files."""
    path = output.check_folder(folder)
    problem = oil(survey="laplace", sharpness=10.0)
    told = []
    for name in ("tessera", "aql", "random"):
        parameters = {"scaling": SCALING[name]} if name in SCALING else {}
        agent = resolve(name).make(problem, seed=seed, **parameters)
        told.append(results.run(name, agent, iterations=iterations, progress_bar=progress_bar))
    files: dict[str, str | Figure] = {
        "learning.png": results.curves_figure(told, f"Learning on {problem.name}"),
    }
    picture = results.partition_figure(told[0])
    if picture is not None:
        files["partition.png"] = picture
    return told, output.write(path, files, results.FILES)
