"""Run a study file: its runs go into a folder, on any engine; the same call resumes it after an interruption.

The folder has the store of runs and `study.json`, the contents of the study file; tables, figures and pages are made
from these two.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium

from spaql.errors import StudyError
from spaql.runner import engines
from spaql.runner.run_many import Tally
from spaql.runner.run_spec import Run
from spaql.runner.store import STORE
from spaql.studies.study import EngineFor, run_study
from spaql.studies.sweep.groups import Sweep
from spaql.studies.sweep.status import STUDY


def sweep(
    study: Sweep | Mapping[str, Any] | str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    engine: str | None = None,
    workers: int | None = None,
    address: str | None = None,
    run_timeout: float | None = None,
    retry_failed: bool = False,
    progress_bar: bool | None = None,
) -> Tally:
    """Perform all runs of a study that its folder does not have yet.

    Parameters
    ----------
    study
        A study, the contents of a study file, or its path; see `spaql.studies.sweep.study_file`.
    folder
        Where runs are stored; created if it is missing.
    engine
        "threads", "processes" or "dask"; None for threads where all problems and algorithms are built
        in, and processes otherwise.  Results do not depend on it.
    workers
        Number of parallel runs; None for one per processor, or for all workers of a cluster.
    address
        Address of a Dask scheduler; None starts a cluster on this machine if the engine is dask.
    run_timeout
        Seconds after which a run is stopped and recorded as failed; None for no limit.
    retry_failed
        Whether to perform runs again that failed before.
    progress_bar
        Whether to show progress; None shows it on a terminal.

    Returns
    -------
    Tally
        Numbers of all, finished and failed runs.

    Examples
    --------
    >>> import tempfile, spaql
    >>> study = {
    ...     "seeds": 3, "iterations": 20, "episodes": 10,
    ...     "problems": [{"problem": "oil"}],
    ...     "algorithms": [{"algorithm": "aql", "grid": {"scaling": [0.1, 0.5]}}],
    ... }
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     spaql.sweep(study, folder)
    Tally(total=6, done=6, failed=0)
    """
    loaded = Sweep.load(study)
    for table in loaded.file.algorithms:
        if table.random and not table.draws:
            raise StudyError(f"algorithms: random of {table.algorithm} needs draws, the number of variants to draw")
    runs = [group.run for group in loaded.groups]
    make_engine = choose_engine(runs, engine=engine, workers=workers, address=address, run_timeout=run_timeout)
    path = Path(folder) / STUDY
    if path.exists() and not (Path(folder) / STORE).exists():
        raise StudyError(f"{str(path)!r} has no runs beside it and belongs to something else; choose another folder")
    outcome = run_study(loaded, folder, engine=make_engine, retry_failed=retry_failed, progress_bar=progress_bar)
    return outcome.tally


def choose_engine(
    runs: Sequence[Run], *, engine: str | None = None, run_timeout: float | None = None, **options: Any
) -> EngineFor:
    """Return the maker of an engine; raise what is wrong with it or with the problems before anything is run."""

    def make(runs: Sequence[Run]) -> engines.Engine:
        return engines.make_engine(engine, runs, timeout=run_timeout, **options)

    if make(runs).name != "dask":  # its workers may have modules that are missing here
        check_problems(runs)
    return make


def check_problems(runs: Iterable[Run]) -> None:
    """Check problems that are not built in, without importing the user's modules into this process."""
    for name in {run.problem for run in runs if not run.compiled}:
        module = name.rpartition(":")[0]
        advice = f"there is no module {module!r}; start in its folder, put that on PYTHONPATH, or install it"
        try:
            exists = importlib.util.find_spec(module) is not None if module else bool(gymnasium.spec(name))
        except (ImportError, ValueError):
            exists = False
        except gymnasium.error.Error as error:
            exists, advice = False, f"Gymnasium has no such environment ({error})"
        if not exists:
            raise StudyError(f"problem {name!r}: {advice}")
