"""Engines: where runs are done; `engine` chooses one by its name."""

from __future__ import annotations

from collections.abc import Sequence

from spaql.errors import ParameterError
from spaql.runner.engines.engine import Again, Engine, Outcome, processors
from spaql.runner.engines.processes import Processes
from spaql.runner.engines.threads import Threads
from spaql.runner.run_spec import Run
from spaql.validation import check_number, check_whole

_MOST_HERE = 1024  # workers on one machine
ENGINES = ("threads", "processes", "dask")


def engine(
    name: str | None,
    runs: Sequence[Run],
    *,
    workers: int | None = None,
    timeout: float | None = None,
    address: str | None = None,
) -> Engine:
    """The engine for some runs.

    Parameters
    ----------
    name
        One of `ENGINES`; None takes threads where all problems are compiled, and processes where not.
    runs
        What will be asked of it.
    workers
        Runs at once; None for one per processor, and for all that a cluster has.
    timeout
        Seconds that a run may take; None for as long as it likes.
    address
        Of the scheduler of a Dask cluster; None starts one on this machine.
    """
    if workers is not None:
        check_whole(workers, "workers", 1, 100_000 if name == "dask" or address is not None else _MOST_HERE)
    if timeout is not None:
        check_number(timeout, "run_timeout", least=0.0, above=True)
    if name is None:
        name = "dask" if address is not None else "threads" if all(run.compiled for run in runs) else "processes"
    if name not in ENGINES:
        raise ParameterError(f"engine: {name!r} is not one of {', '.join(ENGINES)}")
    if address is not None and name != "dask":
        raise ParameterError(f"address: only dask has one; leave it out, or choose --engine dask instead of {name}")
    if name == "threads":
        return Threads(workers or processors(), timeout)
    algorithms = sorted({run.algorithm for run in runs})
    if name == "processes":
        return Processes(workers or processors(), timeout, algorithms)
    from spaql.runner.engines.dask import Dask  # an extra

    isolated = not all(run.compiled for run in runs)
    return Dask(address, workers=workers, timeout=timeout, algorithms=algorithms, isolated=isolated)


__all__ = ["ENGINES", "Again", "Engine", "Outcome", "Processes", "Threads", "engine", "processors"]
