"""Do a study: its runs go into a folder, on any engine; stopped at any moment, it goes on when it is called again.

The folder has the store of runs and `study.json`, what the description says; everything else there is made from these
two (`spaql.studies.sweep.gathered`).
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium

from spaql.atomic_io import check_folder, write_file
from spaql.errors import StudyError
from spaql.runner import engines
from spaql.runner.run_many import Tally, announce
from spaql.runner.run_spec import Run
from spaql.studies.legacy import STORE, opened
from spaql.studies.sweep.description import Description
from spaql.studies.sweep.status import STUDY


def sweep(
    study: Description | Mapping[str, Any] | str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    engine: str | None = None,
    workers: int | None = None,
    address: str | None = None,
    run_timeout: float | None = None,
    retry_failed: bool = False,
    progress_bar: bool | None = None,
) -> Tally:
    """Do all runs of a study that its folder does not have.

    Parameters
    ----------
    study
        A description, what one is made from, or the path of a study file; see `spaql.studies.sweep.description`.
    folder
        Where runs are kept; made where it is missing.
    engine
        "threads", "processes" or "dask"; None takes threads where all problems are compiled, and processes where not.
        The results do not depend on it.
    workers
        Runs at once; None for one per processor, or for all that a cluster has.
    address
        Of the scheduler of a Dask cluster; None starts one on this machine where the engine is dask.
    run_timeout
        Seconds after which a run is given up and recorded as failed; None never does.
    retry_failed
        Whether runs that failed before are tried again.
    progress_bar
        None shows it on a terminal.

    Returns
    -------
    Tally
        How many runs there are, and how many are done and failed.

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
    described = as_description(study)
    for each in described.algorithms:
        if each.ranges and not each.draws:
            raise StudyError(f"algorithms: random of {each.algorithm} needs draws, how many variants to draw from it")
    chosen = partial(engines.engine, engine, workers=workers, timeout=run_timeout, address=address)
    first = [group.first for group in described.groups]
    asked = chosen(first)  # a wrong name is told before anything is written
    if asked.name != "dask":  # whose workers may have what is not here
        check_problems(first)
    if (Path(folder) / STUDY).exists() and not (Path(folder) / STORE).exists():
        where = str(Path(folder) / STUDY)
        raise StudyError(f"{where!r} is of something else, as no runs are beside it; choose another folder")
    with opened(check_folder(folder), engine=chosen, progress_bar=progress_bar) as performed:
        told = json.dumps({**described.told, "name": described.name}, indent=1, default=str)
        write_file(performed.store.path.parent / STUDY, f"{told}\n".encode())
        done = performed.store.finished() & described.ids
        failed = set() if retry_failed else performed.store.failures().keys() & described.ids
        runs = described.missing(done | failed)
        announce(performed.store, asked, Tally(len(described.ids), len(done), len(failed)))
        performed.prepare(runs)
        performed.expect(sum(run.cost for run in runs))
        before = Tally(len(done) + len(failed), len(done), len(failed))
        return performed.attempt(runs, retry_failed=retry_failed, before=before)


def check_problems(runs: Iterable[Run]) -> None:
    """What can be said of problems that are not built in without loading a user's modules into this process."""
    for name in {run.problem for run in runs if not run.compiled}:
        module = name.rpartition(":")[0]
        try:
            found = not module or importlib.util.find_spec(module) is not None
        except (ImportError, ValueError):
            found = False
        if not found:
            raise StudyError(
                f"problem {name!r}: there is no module {module!r} here; start in its folder, put it on PYTHONPATH, or "
                "install it"
            )
        if not module:
            try:
                gymnasium.spec(name)
            except gymnasium.error.Error as error:
                raise StudyError(f"problem {name!r}: Gymnasium knows no such environment ({error})") from None


def as_description(study: Description | Mapping[str, Any] | str | os.PathLike[str]) -> Description:
    """Whatever a user may call a study as one."""
    if isinstance(study, Description):
        return study
    return Description.of(study) if isinstance(study, Mapping) else Description.read(study)
