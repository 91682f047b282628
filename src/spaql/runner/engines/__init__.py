"""Engines: the places where runs are performed; `make_engine` chooses one.  They know neither `run_many` nor stores."""

from collections.abc import Sequence

from spaql.errors import ParameterError
from spaql.runner.engines.engine import Engine, Lost, Outcome, count_processors
from spaql.runner.engines.processes import Processes
from spaql.runner.engines.threads import Threads
from spaql.runner.run_spec import Run
from spaql.validation import check_number, check_whole

ENGINES = ("threads", "processes", "dask")


def make_engine(
    name: str | None,
    runs: Sequence[Run],
    *,
    workers: int | None = None,
    timeout: float | None = None,
    address: str | None = None,
) -> Engine:
    """Return an engine for some runs.

    Its `name` is one of `ENGINES`; None takes threads where all problems and algorithms are built in, and processes
    otherwise.  It performs as many runs at once as it has `workers`, by default one per processor or all that a cluster
    has; each may take `timeout` seconds, by default any time.  The `address` is that of the scheduler of a Dask
    cluster; without it, Dask starts one on this machine.
    """
    if workers is not None:
        on_cluster = name == "dask" or address is not None
        check_whole(workers, "workers", 1, 100_000 if on_cluster else 1024)
    if timeout is not None:
        check_number(timeout, "run_timeout", least=0.0, above=True)
    trusted = all(run.trusted for run in runs)
    if name is None:
        name = "dask" if address is not None else "threads" if trusted else "processes"
    if name not in ENGINES:
        raise ParameterError(f"engine: {name!r} is not one of {', '.join(ENGINES)}")
    if address is not None and name != "dask":
        raise ParameterError(f"address: only dask has one; leave it out, or choose --engine dask instead of {name}")
    if name == "threads":
        return Threads(workers or count_processors(), timeout)
    algorithms = sorted({run.algorithm for run in runs})
    if name == "processes":
        return Processes(workers or count_processors(), timeout, algorithms)
    from spaql.runner.engines.dask import Dask  # an extra

    return Dask(address, workers=workers, timeout=timeout, algorithms=algorithms, isolated=not trusted)


__all__ = ["ENGINES", "Engine", "Lost", "Outcome", "Processes", "Threads", "count_processors", "make_engine"]
