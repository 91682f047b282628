"""The former engine room of studies; goes when sweeps and tunings are performed by `spaql.studies.study`."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from spaql.agents.rollouts import simulate
from spaql.agents.training import shown
from spaql.atomic_io import FIGURES, Content, check_folder, clean_folder, write_files
from spaql.errors import StudyError
from spaql.partition.rng import Purpose, stream
from spaql.problems import Problem
from spaql.runner.code_version import code_version
from spaql.runner.engines import Engine, Threads, count_processors
from spaql.runner.execute import prepare
from spaql.runner.record import Failure
from spaql.runner.run_many import Tally, conclude, run_many
from spaql.runner.run_spec import Run, problem_of
from spaql.runner.store import STORE as STORE
from spaql.runner.store import Store

_YARDSTICK = 12_000_000  # steps of bare simulation per thread, for all problems together
Floats = NDArray[np.float64]
EngineFor = Callable[[Sequence[Run]], Engine]


@dataclass(frozen=True, eq=False)
class Sample:
    """A group of agents that differ in their seeds only; arrays are `[agents]`, NaN where there is no such number."""

    training_score: Floats
    evaluation: Floats
    cells: Floats
    training_steps: Floats
    selection_steps: Floats
    monitoring_steps: Floats
    value_low: Floats
    value_high: Floats


@dataclass(frozen=True, eq=False)
class Cost:
    """What the runs of this call cost; runs that an earlier call had done cost nothing."""

    runs: int
    steps: int
    seconds: float
    cpu_seconds: float | None  # of this process; None where others did the work
    simulation_seconds: float  # CPU time of bare simulation of the same steps

    def __str__(self) -> str:
        if not self.runs:
            return "every run had been done before"
        done = f"{self.runs:,} runs, {self.steps / 1e9:.2f} billion environment steps in {self.seconds:.0f} s"
        if self.cpu_seconds is None:
            return done
        return (
            f"{done}; {self.cpu_seconds:.0f} s of CPU time, {self.cpu_seconds / self.simulation_seconds:.2f} times the "
            "bare simulation of the same steps"
        )


class Study:
    """Runs of one study and what they said.

    Parameters
    ----------
    store
        Where results are and go.
    threads
        How many runs at once; None for one per processor.  The results do not depend on it.
    engine
        Makes the engine for some runs, instead of threads; the results do not depend on it either.
    progress_bar
        Whether to show progress; None shows it on a terminal.
    check
        Called after every run; may raise to stop.
    """

    def __init__(
        self,
        store: Store,
        *,
        threads: int | None = None,
        engine: EngineFor | None = None,
        progress_bar: bool | None = False,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self.store = store
        self.threads = threads or count_processors()
        self._engine: EngineFor = engine or (lambda runs: Threads(self.threads))
        self._here = engine is None  # whether this process does the runs
        self._visible = shown(progress_bar)
        self._check = check
        self._bar: Any = None
        self._runs = 0
        self._steps: Counter[Problem] = Counter()
        self._started = time.perf_counter(), time.process_time()
        self._rows: dict[str, dict[str, Any]] = {}

    def prepare(self, runs: Iterable[Run]) -> None:
        """Compile what these runs need; the clock of `cost` begins behind it."""
        prepare(runs, self._visible)
        self._started = time.perf_counter(), time.process_time()

    def expect(self, cost: int) -> None:
        """So many environment steps in all, as far as is known."""
        self._check()
        if self._visible:
            if self._bar is None:
                self._bar = tqdm(total=0, unit=" steps", unit_scale=True, desc="study", smoothing=0.05)
            self._bar.total = cost
            self._bar.refresh()

    def attempt(self, runs: Sequence[Run], *, retry_failed: bool = False, before: Tally | None = None) -> Tally:
        """Do the runs that the store does not have; some may fail, and are kept with what happened to them.

        `before` counts further runs, which need not be handed over; see `spaql.runner.run_many.run_many`.
        """
        return self._perform(runs, self._failed, retry_failed, before, scored=True)

    def perform(self, runs: Sequence[Run]) -> None:
        """Do the runs that the store does not have, all of them: the first that fails stops the study."""

        def stop(run: Run, failure: Failure) -> None:
            raise StudyError(f"{run}: {failure.message}")

        self._perform(runs, stop, True)
        self.load(runs)

    def _perform(
        self,
        runs: Sequence[Run],
        failed: Callable[[Run, Failure], object],
        retry_failed: bool,
        before: Tally | None = None,
        scored: bool = False,
    ) -> Tally:
        if self._bar is not None:
            done = self.store.finished()
            cost = sum(run.cost for run in runs if run.id in done)
            self._bar.n += cost
            self._bar.initial += cost  # the rate is that of this call alone
            self._bar.refresh()
        return run_many(
            runs,
            self.store,
            self._engine(runs),
            retry_failed=retry_failed,
            before=before,
            more=True,
            scored=scored,
            finished=self._finished,
            failed=failed,
        )

    def complete(self, runs: Iterable[Run]) -> Cost:
        """A study whose runs are all known: do each once, the longest first, so that no thread is left with one."""
        unique = {run.id: run for run in runs}.values()
        self.prepare(unique)
        self.expect(sum(run.cost for run in unique))
        self.perform(sorted(unique, key=lambda run: -run.cost))
        return self.cost()

    def _finished(self, run: Run) -> None:
        self._runs += 1
        if run.compiled:
            self._steps[problem_of(run)] += run.cost
        if self._bar is not None:
            self._bar.update(run.cost)
        self._check()

    def _failed(self, run: Run, failure: Failure) -> None:
        if self._bar is not None:
            self._bar.write(f"spaql: failed: {run}: {failure.message}", file=sys.stderr)
            self._bar.update(run.cost)
        self._check()

    def load(self, runs: Sequence[Run]) -> None:
        """Read the scalars of many runs at once, which is much quicker than group by group."""
        self._rows |= self.store.scalars(run.id for run in runs if run.id not in self._rows)

    def sample(self, runs: Sequence[Run]) -> Sample:
        """What a group of finished runs said."""
        self.load(runs)
        values = {
            name: np.array([self._rows[run.id].get(name) for run in runs], dtype=np.float64)  # None becomes NaN
            for name in Sample.__dataclass_fields__
        }
        return Sample(**values)

    def cost(self) -> Cost:
        """What was done since `prepare`; closes the bar."""
        self.close()
        seconds = time.perf_counter() - self._started[0]
        cpu = time.process_time() - self._started[1] if self._here else None
        return Cost(self._runs, self._steps.total(), seconds, cpu, _simulation_seconds(self._steps, self.threads))

    def write(self, files: Mapping[str, Content], known: Iterable[str] = ()) -> list[Path]:
        """Write files beside the store; see `spaql.atomic_io.write_files`."""
        with tqdm(total=len(files), unit="file", desc="files", disable=not self._visible, delay=0.5) as done:

            def advance() -> None:
                done.update()
                self._check()

            return write_files(self.store.path.parent, files, known, advance)

    def close(self) -> None:
        """Close the bar."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


@contextmanager
def opened(
    folder: str | os.PathLike[str],
    *,
    threads: int | None = None,
    engine: EngineFor | None = None,
    progress_bar: bool | None = None,
) -> Iterator[Study]:
    """The study of a folder, made where it is missing; see `Study` for the parameters."""
    path = check_folder(folder)
    check_folder(path / FIGURES)
    with _heard() as check, Store(path / STORE, code=code_version()) as store:
        clean_folder(path)
        study = Study(store, threads=threads, engine=engine, progress_bar=progress_bar, check=check)
        stopped = True
        try:
            yield study
            stopped = False
        finally:
            study.close()
            conclude(store, stopped=stopped)


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


def _simulation_seconds(steps: Counter[Problem], threads: int) -> float:
    """CPU time that the steps take when nothing learns, measured with as many threads as the study had."""

    def play(problem: Problem) -> int:
        streams = [stream(0, purpose) for purpose in (Purpose.TRAINING, Purpose.TRAINING_ENVIRONMENT)]
        episodes = max(1, _YARDSTICK // len(steps) // problem.horizon)
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
