"""The command behind `spaql paper`: do the runs, write tables, figures and the report, and say what it cost."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from tqdm import tqdm

from spaql import figures
from spaql.episodes import simulate
from spaql.experiment import Run, code, prepare, problem_of
from spaql.output import FIGURES, Content, check_folder, clean, write
from spaql.paper import page, pictures, tables
from spaql.paper.cells import Cell, cells_of
from spaql.paper.findings import FINDINGS, findings_of
from spaql.paper.findings.base import Finding
from spaql.paper.measured import Measured, Progress, measure
from spaql.paper.plan import SETTINGS, Plan
from spaql.problems import Problem
from spaql.rng import Purpose, stream
from spaql.store import Store
from spaql.training import shown

STORE = "runs.sqlite"
_KINDS = ("png", "svg")
_YARDSTICK = 1_000_000  # steps of bare simulation per problem and thread


@dataclass(frozen=True, eq=False)
class Cost:
    """What the runs of this call cost; runs that an earlier call had done cost nothing."""

    runs: int
    steps: int
    seconds: float
    cpu_seconds: float
    simulation_seconds: float  # CPU time of bare simulation of the same steps

    def __str__(self) -> str:
        if not self.runs:
            return "every run had been done before"
        return (
            f"{self.runs:,} runs, {self.steps / 1e9:.2f} billion environment steps in {self.seconds:.0f} s; "
            f"{self.cpu_seconds:.0f} s of CPU time, {self.cpu_seconds / self.simulation_seconds:.2f} times the bare "
            "simulation of the same steps"
        )


@dataclass(frozen=True, eq=False)
class Outcome:
    """A finished study."""

    plan: Plan
    cells: list[Cell]
    findings: list[Finding]
    files: list[Path]
    cost: Cost
    seconds: float  # from start to end, with tables, figures and report

    def rows(self) -> list[dict[str, Any]]:
        """The cells, ready for JSON."""
        return [asdict(cell) for cell in self.cells]


@contextmanager
def _heard() -> Iterator[Callable[[], None]]:
    """A function that raises KeyboardInterrupt where Ctrl-C was pressed before.

    Python drops the exception where it meets a callback of the compiler; a flag it cannot drop.
    """
    pressed = threading.Event()

    def check() -> None:
        if pressed.is_set():
            raise KeyboardInterrupt

    def press(number: int, frame: object) -> None:
        pressed.set()
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():  # which alone can hear signals
        yield check
        return
    before = signal.signal(signal.SIGINT, press)
    try:
        yield check
    except Exception:
        check()  # what the compiler raises when it is interrupted is not the user's business
        raise
    finally:
        signal.signal(signal.SIGINT, before)


class _Bar(Progress, AbstractContextManager["_Bar"]):
    """One bar with an ETA for the whole study, and the steps taken by problem."""

    def __init__(self, visible: bool, check: Callable[[], None]) -> None:
        self._check = check
        self._bar = tqdm(total=0, unit=" steps", unit_scale=True, desc="study", smoothing=0.05) if visible else None
        self.runs = 0
        self.steps: Counter[Problem] = Counter()

    def begin(self, total: int) -> None:
        self._check()
        if self._bar is not None:
            self._bar.total = total
            self._bar.refresh()

    def skip(self, cost: int) -> None:
        if self._bar is not None:
            self._bar.n += cost
            self._bar.initial += cost  # the rate is that of this call alone
            self._bar.refresh()

    def finished(self, run: Run) -> None:
        self.runs += 1
        self.steps[problem_of(run)] += run.cost
        if self._bar is not None:
            self._bar.update(run.cost)
        self._check()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()


def reproduce(
    folder: str | os.PathLike[str], plan: Plan, *, threads: int | None = None, progress_bar: bool | None = None
) -> Outcome:
    """Run the study, or what is left of it, and write everything into the folder.

    Interrupted at any moment, it goes on from where it was when it is called again.

    Parameters
    ----------
    folder
        Where the store, tables, figures and report go.
    plan
        What to run; see `spaql.paper.plan.full` and `quick`.
    threads
        How many runs at once; None for one per processor.  The results do not depend on it.
    progress_bar
        Whether to show progress; None shows it on a terminal.
    """
    begun = time.perf_counter()
    path = check_folder(folder)
    check_folder(path / FIGURES)
    workers = threads or _processors()
    with _heard() as check, Store(path / STORE, code=code()) as store:
        clean(path)
        prepare(plan.first(), progress_bar)
        started, cpu = time.perf_counter(), time.process_time()
        with _Bar(shown(progress_bar), check) as bar:
            measured = measure(plan, store, threads=workers, progress=bar)
        spent = time.perf_counter() - started, time.process_time() - cpu
        cost = Cost(bar.runs, bar.steps.total(), *spent, _simulation_seconds(bar.steps, workers))
        cells = cells_of(measured)
        findings = findings_of(measured, cells)
        files = _files(measured, cells, findings)
        with tqdm(total=len(files), unit="file", desc="files", disable=not shown(progress_bar), delay=0.5) as done:

            def advance() -> None:
                done.update()
                check()

            written = write(path, files, _known(), advance)
    return Outcome(plan, cells, findings, written, cost, time.perf_counter() - begun)


def _processors() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def _simulation_seconds(steps: Counter[Problem], threads: int) -> float:
    """CPU time that the steps take when nothing learns, measured with as many threads as the study had."""

    def play(problem: Problem) -> int:
        streams = [stream(0, purpose) for purpose in (Purpose.TRAINING, Purpose.TRAINING_ENVIRONMENT)]
        episodes = _YARDSTICK // problem.horizon
        _, played, _ = simulate(problem.world, problem.frame(1), problem.horizon, episodes, 0, *streams)
        return int(played)

    total = 0.0
    with ThreadPoolExecutor(threads) as pool:
        for problem, count in steps.items():
            play(problem)  # compiled and warm
            total += count * float(np.median([_seconds_per_step(pool, play, problem, threads) for _ in range(3)]))
    return total


def _seconds_per_step(
    pool: ThreadPoolExecutor, play: Callable[[Problem], int], problem: Problem, threads: int
) -> float:
    start = time.process_time()
    played = sum(pool.map(play, [problem] * threads))
    return (time.process_time() - start) / played


def _files(measured: Measured, cells: Sequence[Cell], findings: Sequence[Finding]) -> dict[str, Content]:
    """Everything but the store."""
    told = {
        "study": page.subtitle(measured.plan),
        "code": code(),
        "findings": [finding.to_dict() for finding in findings],
    }
    files: dict[str, Content] = {
        "tables.md": tables.markdown(cells, page.subtitle(measured.plan)),
        "tables.csv": tables.comma_separated(cells),
        "tables.tex": tables.latex(cells),
        "findings.md": page.text(measured.plan, findings),
        "findings.json": json.dumps(told, indent=2, ensure_ascii=False, allow_nan=False) + "\n",
        "report.html": page.page(measured, cells, findings),
    }
    for name, (title, panels, note) in pictures.sheets(measured).items():
        draw = partial(figures.panels, panels, title=title, note=note)
        files |= {f"{FIGURES}/{name}.{kind}": draw for kind in _KINDS}
    for finding in findings:
        draw = partial(figures.chart, finding.chart)
        files |= {f"{FIGURES}/finding-{finding.id}.{kind}": draw for kind in _KINDS}
    return files


def _known() -> list[str]:
    """Every figure that a study can have."""
    names = [setting.id for setting in SETTINGS]
    names += [f"{problem}-scaling{suffix}" for problem in ("oil", "ambulance") for suffix in ("", "-fresh")]
    names += [f"finding-{key}" for key in FINDINGS]
    return [f"{FIGURES}/{name}.{kind}" for name in names for kind in _KINDS]
