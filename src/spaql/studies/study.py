"""The one type of a study: groups of runs, performed in stages, and a report of their results.

A `Study` yields stages of `Group`s.  `run_study` performs the runs of each stage that the folder's store does not have,
then resumes the study, which can read their `Results` and decide what comes next.  At the end the study makes its
`Report`, which is written as Markdown, JSON, figures and a page.  Interrupted at any moment, the same call resumes.
Results depend neither on the engine nor on the number of threads.
"""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from spaql.agents.progress import is_progress_shown, make_bar
from spaql.agents.registry import resolve
from spaql.agents.rollouts import simulate
from spaql.atomic_io import FIGURES, Content, check_folder, clean_folder, write_file, write_files
from spaql.errors import SpaqlError, StudyError
from spaql.formatting import Table, with_values
from spaql.notebook import render
from spaql.partition.rng import Purpose, stream
from spaql.problems import Problem
from spaql.runner.code_version import code_version
from spaql.runner.engines import Engine, Threads, make_engine
from spaql.runner.execute import prepare
from spaql.runner.record import Failure
from spaql.runner.run_many import Tally, announce, conclude, run_many
from spaql.runner.run_spec import Run, problem_of
from spaql.runner.store import STORE, Store
from spaql.stats import Estimate
from spaql.validation import parse_json
from spaql.viz import figures
from spaql.viz.charts import Chart, Mosaic, Series, looks_of
from spaql.viz.figures import writers as draw_files
from spaql.viz.html import Section, render_page
from spaql.viz.style import Look

STUDY = "study.json"  # the groups of all stages so far, see `describe`
_START = 1 << 16  # bytes of that file within which its groups begin
_YARDSTICK = 12_000_000  # steps of bare simulation per thread, for all problems together
Floats = NDArray[np.float64]
EngineFor = Callable[[Sequence[Run]], Engine]


@dataclass(frozen=True, eq=False)
class Group:
    """Runs that differ in their seeds only, with names of their problem and algorithm for tables and charts.

    The seed of `run` does not matter; `varied` are the parameters in which the variants of one algorithm differ.
    """

    problem: str
    algorithm: str
    run: Run
    seeds: Sequence[int]
    varied: Mapping[str, Any] = field(default_factory=dict)
    colour: str = ""  # of its algorithm in charts; empty leaves the choice to the chart
    optimum: float | None = None  # of the problem, where the study states it

    @cached_property
    def label(self) -> str:
        """Name of the algorithm with its varied parameters."""
        return with_values(self.algorithm, self.varied)

    @cached_property
    def ids(self) -> list[str]:
        """Ids of its runs, by seed; faster than making the runs."""
        return self.run.ids(self.seeds)

    @property
    def runs(self) -> list[Run]:
        """One run for each seed."""
        return [self.run.with_seed(seed) for seed in self.seeds]

    def with_run(self, **changes: Any) -> Group:
        """The same group with other values of these fields of its runs."""
        return replace(self, run=replace(self.run, **changes))


class Results:
    """Values and arrays of finished runs, from a store that is open for as long as this object is used."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._scalars: dict[str, dict[str, Any]] = {}

    def values(self, group: Group, metric: str = "evaluation") -> Floats:
        """Return one number per seed, `[seeds]`; NaN where the run is not finished or has no such number.

        Metrics are the scalars of a run: evaluation, training_score, cells, training_steps, selection_steps,
        monitoring_steps, value_low, value_high.
        """
        self._scalars |= self.store.scalars(key for key in group.ids if key not in self._scalars)
        found = [self._scalars.get(key, {}).get(metric) for key in group.ids]
        return np.array(found, dtype=np.float64)  # None becomes NaN

    def arrays(self, group: Group, names: Sequence[str] | None = None) -> list[dict[str, NDArray[Any]]]:
        """Return the arrays of each run by name, in the order of the seeds; empty for a run that has none."""
        return [self.store.arrays(key, names) for key in group.ids]

    def stack(self, group: Group, *names: str) -> list[Floats]:
        """Return arrays that all runs of the group have in one length, `[seeds, ...]` for each name."""
        runs = self.arrays(group, names)
        return [np.stack([run[name] for run in runs]).astype(np.float64) for name in names]

    def failure(self, group: Group) -> tuple[Run, Failure] | None:
        """Return the first run of the group that failed, and why; None where none did."""
        failures = self.store.failures()
        for seed, key in zip(group.seeds, group.ids, strict=True):
            if key in failures:
                return group.run.with_seed(seed), failures[key][1]
        return None


@dataclass(frozen=True, eq=False)
class Stage:
    """Groups whose runs are performed together, each run once.

    `later` is about how many environment steps later stages will take, for the progress bar; `files` are written into
    the folder before the runs begin.
    """

    groups: Sequence[Group]
    later: int = 0
    files: Mapping[str, Content] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Sheet:
    """A figure of several panels: charts, and partitions with their titles."""

    title: str
    panels: Sequence[Chart | tuple[str, Mosaic]]
    note: str = ""
    columns: int = 3


@dataclass(frozen=True, eq=False)
class Report:
    """What a study found, in words, tables and figures, and as data.

    `name` is that of its files, `<name>.md` and `<name>.json`.  `verdict` is one sentence above all, `summary` are the
    main statements, `note` says how to
    read the tables, `figures` are by the name of their files, `data` is ready for JSON.  A file in `files` replaces one
    of the same name that every report has; `terminal` replaces the text made from tables and summary.
    """

    name: str
    title: str
    subtitle: str = ""
    summary: Sequence[str] = ()
    tables: Sequence[Table] = ()
    note: str = ""
    figures: Mapping[str, Sheet | Chart] = field(default_factory=dict)
    data: Any = None
    files: Mapping[str, Content] = field(default_factory=dict)
    terminal: str = ""
    verdict: str = ""

    def text(self) -> str:
        """For a terminal."""
        if self.terminal:
            return self.terminal
        tables = [f"{table.caption}\n\n{table.text()}" if table.caption else table.text() for table in self.tables]
        return "\n\n".join([self.title, *tables, *self.summary])

    def markdown(self) -> str:
        """For GitHub."""
        parts = [f"# {self.title}", self.subtitle, self.verdict, *self.summary, self.note]
        for table in self.tables:
            parts += [f"## {table.caption}" if table.caption else "", table.markdown(), table.note]
        return "\n\n".join(part for part in parts if part) + "\n"

    def _repr_html_(self) -> str:
        title = f"{self.title}: {self.subtitle}" if self.subtitle else self.title
        return render(title, self.summary, tables=[table.html() for table in self.tables], note=self.note)

    def page(self) -> str:
        """One HTML file."""
        tables = [table.html() for table in self.tables]
        sections = [Section("In short", [self.verdict], style="lead")] if self.verdict else []
        sections.append(Section("Results", self.summary, tables, notes=[self.note] if self.note else []))
        for name, sheet in self._sheets.items():
            title = sheet.title.removeprefix(self.title).removeprefix(": ") or name  # the page has its own above all
            charts = [panel for panel in sheet.panels if isinstance(panel, Chart)]
            notes = [sheet.note] if sheet.note else []
            sections.append(Section(title[:1].upper() + title[1:], charts=charts, notes=notes, id=name))
        return render_page(self.title, sections, self.subtitle)

    @property
    def _sheets(self) -> dict[str, Sheet]:
        figures = self.figures.items()
        return {name: each if isinstance(each, Sheet) else Sheet(each.title, [each]) for name, each in figures}

    def contents(self, *, figures: bool = True) -> dict[str, Content]:
        """All files by name; without figures between stages, since drawing takes a while."""
        contents: dict[str, Content] = {
            f"{self.name}.md": self.markdown(),
            f"{self.name}.json": json.dumps(self.data, indent=1, allow_nan=False) + "\n",
        }
        if "report.html" not in self.files:
            contents["report.html"] = self.page()
        panels = [panel for sheet in self._sheets.values() for panel in sheet.panels]
        looks = looks_of(panel for panel in panels if isinstance(panel, Chart))  # all together, as on the page
        for name, figure in self.figures.items() if figures else ():
            contents |= draw_files(f"{FIGURES}/{name}", partial(_draw, figure, looks))
        return contents | dict(self.files)


def _draw(figure: Sheet | Chart, looks: Mapping[str, Look]) -> Any:
    if isinstance(figure, Chart):
        return figures.chart(figure, looks=looks)
    return figures.panels(figure.panels, title=figure.title, columns=figure.columns, note=figure.note, looks=looks)


def make_series(
    name: str,
    x: Sequence[Any],
    estimates: Sequence[Estimate] | Estimate,
    *,
    algorithm: str | None = None,
    look: str = "",
    colour: str = "",
    style: Literal["line", "dashed", "points"] = "line",
    factor: float = 1.0,
) -> Series:
    """Make a series of estimates, or one of arrays, times a factor, with the intervals that are finite.

    An algorithm has its own look and colour.
    """
    some = [estimates] if isinstance(estimates, Estimate) else estimates
    mean, low, high = (factor * np.hstack([getattr(each, part) for each in some]) for part in ("mean", "low", "high"))
    known = np.isfinite(low)
    lows, highs = np.where(known, [low, high], np.nan).tolist() if known.any() else (None, None)
    colour = colour or (resolve(algorithm).colour if algorithm else None) or ""
    return Series(name, x, mean.tolist(), lows, highs, look or algorithm or name, style, colour)


def standing(difference: Estimate) -> int:
    """Return 1 where a difference is positive at the level of its interval, -1 where it is negative, else 0."""
    return int(difference.low > 0) - int(difference.high < 0)


def to_fields(name: str, source: Any, parts: Sequence[str] = ("mean", "low", "high")) -> dict[str, Any]:
    """Return parts of an estimate as fields of a record, None where there is none; the mean has the name itself."""
    return {name if part == "mean" else f"{name}_{part}": getattr(source, part, None) for part in parts}


class Study(ABC):
    """Runs, in stages, and a report of them.

    `known_files` are names that its files may have; those that a report does not write are removed, so that a folder
    always shows one result.  With `keep_failures` a run that fails is recorded and the others go on; otherwise the
    first failure stops the study.  `name` (by default that of the folder) and `baseline`, the label of an algorithm,
    are for the tables of `spaql.studies.sweep`, which know the groups of a study from the file `STUDY`.
    """

    name: str = ""
    baseline: str | None = None
    known_files: Sequence[str] = ()
    keep_failures = False

    @abstractmethod
    def stages(self, results: Results) -> Iterator[Stage]:
        """Yield what to run; resumed when those runs are finished."""

    def report(self, results: Results) -> Report | None:
        """Report the results of all stages; None where nothing is to be written."""
        return None


def describe(study: Study, groups: Sequence[Group]) -> str:
    """Return the groups of a study as JSON, for whoever reads its folder; a StudyError where that is impossible."""
    rows = [{**asdict(replace(group, seeds=())), "seeds": list(group.seeds)} for group in groups]
    text = json.dumps({"name": study.name, "baseline": study.baseline, "groups": rows}, default=float)
    try:
        parse_json(text)
    except ValueError as error:
        raise StudyError(f"study: {STUDY} cannot hold its problems or algorithms ({error}); give others") from None
    return f"{text}\n"


@dataclass(eq=False)
class Cost:
    """Runs of one call, their environment steps, and the time they took; runs of an earlier call cost nothing.

    `cpu_seconds` is the CPU time of this process; None where other processes did the work.
    """

    threads: int = 1
    runs: int = 0
    steps_on: Counter[Problem] = field(default_factory=Counter)
    seconds: float = 0.0
    cpu_seconds: float | None = None

    @cached_property
    def simulation_seconds(self) -> float:
        """CPU time of the same steps without learning, in as many threads; measuring it takes a few seconds."""

        def play(problem: Problem) -> int:
            streams = [stream(0, purpose) for purpose in (Purpose.TRAINING, Purpose.TRAINING_ENVIRONMENT)]
            episodes = max(1, _YARDSTICK // len(self.steps_on) // problem.horizon)
            _, played, _ = simulate(problem.world, problem.frame(1), problem.horizon, episodes, 0, *streams)
            return int(played)

        total = 0.0
        with ThreadPoolExecutor(self.threads) as pool:
            for problem, count in self.steps_on.items():
                play(problem)  # compiled and warm
                per_step = []
                for _ in range(3):
                    start = time.process_time()
                    played = sum(pool.map(play, [problem] * self.threads))
                    per_step.append((time.process_time() - start) / played)
                total += count * float(np.median(per_step))
        return total

    def __str__(self) -> str:
        if not self.runs:
            return "all runs were finished before"
        steps = self.steps_on.total() / 1e9
        text = f"{self.runs:,} runs, {steps:.2f} billion environment steps in {self.seconds:.0f} s"
        if self.cpu_seconds is None:
            return text
        times = f"{self.cpu_seconds / self.simulation_seconds:.2f} times the bare simulation of the same steps"
        return f"{text}; {self.cpu_seconds:.0f} s of CPU time, {times}"


@dataclass(frozen=True, eq=False)
class Outcome:
    """A finished study: its report, the files written, how many runs finished and failed, and the cost."""

    report: Report | None
    files: list[Path]
    tally: Tally
    cost: Cost
    seconds: float  # from start to end, with all files

    def _repr_html_(self) -> str | None:
        return None if self.report is None else self.report._repr_html_()


def run_study(
    study: Study,
    folder: str | os.PathLike[str],
    *,
    engine: EngineFor | None = None,
    workers: int | None = None,
    retry_failed: bool = True,
    progress_bar: bool | None = None,
) -> Outcome:
    """Perform a study, or what is left of it, and write its report into the folder, which is made where it is missing.

    `engine` makes the engine for the runs of the first stage, which serves all stages.  Without it, as many runs at
    once as `workers` (by default one per processor) are performed in threads, or in processes where a problem or an
    algorithm is not built in.  With `retry_failed`, runs that failed in an earlier call are performed again.

    Raises a StudyError where a run fails and the study does not keep failures, a StoreError or OutputError where the
    store or the folder cannot be used, and KeyboardInterrupt on Ctrl-C or SIGTERM; finished runs are kept.
    """
    begun = time.perf_counter()
    path = Path(folder)
    taken = os.path.exists(path / STUDY) and not os.path.exists(path / STORE)
    if taken and not _is_study(path / STUDY):
        raise StudyError(f"{str(path / STUDY)!r} belongs to something else; choose another folder")
    check_folder(path)
    check_folder(path / FIGURES)
    make = engine or partial(make_engine, None, workers=workers)
    with _interruptible() as check, Store(path / STORE, code=code_version()) as store:
        clean_folder(path)
        results, stopped = Results(store), True
        execution = _Execution(study, store, make, retry_failed, is_progress_shown(progress_bar), check, Cost())
        try:
            with closing(study.stages(results)) as stages:  # type: ignore[type-var]
                for stage in stages:
                    execution.write(stage.files)
                    execution.run_stage(stage)
            execution.close()
            report = study.report(results)
            files = [] if report is None else execution.write(report.contents())
            stopped = False
        except SpaqlError as error:
            error.add_note(execution.summarize())
            raise
        finally:
            execution.close()
            with nullcontext() if not stopped else suppress(SpaqlError):  # must not replace the error under way
                conclude(store, stopped=stopped)
    return Outcome(report, files, execution.tally, execution.cost, time.perf_counter() - begun)


def _is_study(file: Path) -> bool:
    """Return whether a file says what a study runs, without reading more of it than needed."""
    try:
        with file.open("rb") if file.is_file() else io.BytesIO() as content:
            return b'"groups"' in content.read(_START)
    except OSError as error:
        raise StudyError(f"{str(file)!r} cannot be read: {error.strerror}; choose another folder") from error


@dataclass(eq=False)
class _Execution:
    """One call of `run_study`: its engine, its progress bar, and its cost so far."""

    study: Study
    store: Store
    make_engine: EngineFor
    retry_failed: bool
    visible: bool
    check: Callable[[], None]
    cost: Cost
    engine: Engine | None = None
    bar: Any = field(default_factory=lambda: make_bar(disable=True))  # until the first stage
    prepared: set[str] = field(default_factory=set)
    begun: tuple[float, float] | None = None  # wall and CPU time when the first stage was compiled
    cost_of_stages: int = 0
    groups: list[Group] = field(default_factory=list)  # of all stages so far
    ids: set[str] = field(default_factory=set)  # of their runs
    tally: Tally = field(default_factory=lambda: Tally(0, 0, 0))

    def run_stage(self, stage: Stage) -> None:
        """Perform the runs of a stage that the store does not have."""
        groups = {key: group for group in stage.groups for key in group.ids if key not in self.ids}
        finished = self.store.finished() & groups.keys()
        failed = set() if self.retry_failed else self.store.failures().keys() & groups.keys()
        runs = missing_runs(stage.groups, finished | failed | self.ids)
        self.groups += stage.groups
        self.ids |= groups.keys()
        write_file(self.store.path.parent / STUDY, describe(self.study, self.groups))
        if self.engine is None:
            self.engine = self.make_engine([group.run for group in stage.groups])
            self.engine.keep_open = True
            self.cost.threads = self.engine.workers
        earlier = self.tally
        done, lost = earlier.done + len(finished), earlier.failed + len(failed)
        announce(self.store, self.engine, Tally(earlier.total + len(groups), done, lost))
        new = [run for run in runs if run.algorithm not in self.prepared]
        prepare(new, self.visible)
        self.prepared |= {run.algorithm for run in new}
        self.begun = self.begun or (time.perf_counter(), time.process_time())
        before = sum(groups[key].run.cost for key in finished | failed)
        self._expect(before + sum(run.cost for run in runs), before, stage.later)
        self.tally = run_many(
            runs,
            self.store,
            self.engine,
            retry_failed=self.retry_failed,
            before=Tally(earlier.total + len(finished) + len(failed), done, lost),
            more=True,
            scored=self.study.keep_failures,
            finished=self._finish,
            failed=self._fail,
        )

    def _expect(self, cost: int, before: int, later: int) -> None:
        self.check()
        self.cost_of_stages += cost
        if not self.visible:
            return
        if self.bar.disable:
            self.bar = make_bar(total=0, unit=" steps", unit_scale=True, desc="study", smoothing=0.05)
        self.bar.total = self.cost_of_stages + later
        self.bar.n += before
        self.bar.initial += before  # the rate is that of this call alone
        self.bar.refresh()

    def _finish(self, run: Run) -> None:
        self.cost.runs += 1
        if run.compiled:
            self.cost.steps_on[problem_of(run)] += run.cost
        self._advance(run)

    def _fail(self, run: Run, failure: Failure) -> None:
        if not self.study.keep_failures:
            hint = f"; spaql sweep status {self.store.path.parent} --tracebacks" if failure.traceback else ""
            raise StudyError(f"{run}: {failure.message}{hint}")
        if self.visible:
            self.bar.write(f"spaql: failed: {run}: {failure.message}", file=sys.stderr)
        self._advance(run)

    def _advance(self, run: Run) -> None:
        self.bar.update(run.cost)
        self.check()

    def write(self, files: Mapping[str, Content]) -> list[Path]:
        """Write files beside the store."""
        if not files:
            return []
        with make_bar(total=len(files), unit="file", desc="files", disable=not self.visible, delay=0.5) as bar:

            def advance() -> None:
                bar.update()
                self.check()

            return write_files(self.store.path.parent, files, self.study.known_files, advance)

    def summarize(self) -> str:
        """Return a sentence about a study that an error ended."""
        with suppress(SpaqlError):
            progress = self.store.progress
            if progress is not None:
                failed = f", {progress['failed']:,} failed" if progress["failed"] else ""
                counts = f"{progress['done']:,} of {progress['total']:,} runs finished{failed}"
                return f"{counts}; they are kept, and the same command resumes"
        return "finished runs are kept, and the same command resumes"

    def close(self) -> None:
        """Close the engine and the bar, and stop the clock."""
        if self.engine is not None:
            self.engine.close()
        self.bar.close()
        if self.begun is not None:
            wall, cpu = self.begun
            self.cost.seconds = time.perf_counter() - wall
            self.cost.cpu_seconds = time.process_time() - cpu if isinstance(self.engine, Threads) else None
            self.begun = None


def missing_runs(groups: Sequence[Group], known: Iterable[str]) -> list[Run]:
    """Return the runs whose ids are not known, each once, the longest first, so that no worker is left with one.

    Of runs of the same length, the first seeds of all groups come first: half of a study has half of the seeds.
    """
    known = set(known)
    order = {
        key: (-group.run.cost, number, place)
        for place, group in enumerate(groups)
        for number, key in enumerate(group.ids)
        if key not in known
    }
    return [groups[place].run.with_seed(groups[place].seeds[at]) for _, at, place in sorted(order.values())]


@contextmanager
def _interruptible() -> Iterator[Callable[[], None]]:
    """Yield a function that raises KeyboardInterrupt if Ctrl-C was pressed, or SIGTERM was received.

    Python drops the exception inside a callback of the compiler; it cannot drop a flag.  A caller's own handlers stay,
    and an ignored SIGINT stays ignored, as in a background job.  The exception has the number of the signal.
    """
    received: list[int] = []

    def check() -> None:
        if received:
            raise KeyboardInterrupt(received[0])

    def receive(number: int, frame: object) -> None:
        received.append(number)
        raise KeyboardInterrupt(number)

    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    ours = {number: before for number, before in usual.items() if signal.getsignal(number) is before}
    if threading.current_thread() is not threading.main_thread() or not ours:
        yield check  # only the main thread receives signals
        return
    for number in ours:
        signal.signal(number, receive)
    try:
        yield check
    except Exception:
        check()  # an interrupted compiler raises errors of its own, which would hide the interrupt
        raise
    finally:
        for number, before in ours.items():
            signal.signal(number, before)
