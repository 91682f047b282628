"""A study from a study file: every problem with every variant of its algorithms, run on any engine."""

import itertools
import os
import string
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np

from spaql.agents import resolve
from spaql.errors import ParameterError, SpaqlError, StudyError
from spaql.formatting import with_values
from spaql.problems.heuristics import HEURISTICS
from spaql.problems.optimum import optimum as solve
from spaql.runner.engines import Engine, Processes, Threads, make_engine
from spaql.runner.execute import make_agent
from spaql.runner.record import ERROR, Failure
from spaql.runner.run_many import Tally
from spaql.runner.run_spec import Run, canonical, problem_of, seed_at, seeds_at
from spaql.runner.store import STORE, Store, check_unused
from spaql.studies.study import EngineFor, Group, Outcome, Results, Stage, Study, missing_runs, run_study
from spaql.studies.sweep.study_file import (
    MAX_GROUPS,
    MAX_RUNS,
    SIZES,
    AlgorithmTable,
    StudyFile,
    check_known,
    combine,
    read_toml,
    validate,
)

_TOLERANCE = 1e-4  # of optima that are computed to check stated ones,
_ROUNDED = 1e-3  # which may differ by this share,
_LONGEST = 500  # for problems of at most so many steps
_CHECK_SECONDS = 20.0  # that making environments may take before a study begins


def sweep(
    study: Mapping[str, Any] | str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    engine: str | None = None,
    workers: int | None = None,
    address: str | None = None,
    run_timeout: float | None = None,
    retry_failed: bool = False,
    progress_bar: bool | None = None,
) -> Tally:
    """Perform all runs of a study that its folder does not have yet; the same call resumes it.

    Parameters
    ----------
    study
        The contents of a study file, or its path; see `spaql.studies.sweep.study_file`.
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
        Whether to show progress; None shows it on a terminal and in a notebook.

    Returns
    -------
    Tally
        Numbers of all, finished and failed runs.

    Raises
    ------
    StudyError
        Where the study file is invalid.
    EngineError
        Where workers cannot be started.

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
    where: dict[str, Any] = {"engine": engine, "workers": workers, "address": address, "run_timeout": run_timeout}
    return perform(loaded, folder, retry_failed=retry_failed, progress_bar=progress_bar, **where).tally


class Sweep(Study):
    """A study from the contents of a study file, with one stage and no report: its folder can be read at any moment."""

    keep_failures = True

    def __init__(self, data: Mapping[str, Any], name: str = "study") -> None:
        self.data, self.file = data, validate(data)  # as plain Python values, and checked and with defaults
        self.name = self.file.name or name
        self.baseline = self.file.baseline
        self.groups = tuple(_make_groups(self.file))  # rows of its table

    @classmethod
    def load(cls, study: Mapping[str, Any] | str | os.PathLike[str]) -> Self:
        """Make a study from the contents of a study file, or its path; a StudyError names the first mistake."""
        if isinstance(study, Mapping):
            return cls(study)
        if not isinstance(study, str | os.PathLike):
            raise ParameterError(f"study: expected the path of a study file, or its contents, got {study!r:.80}")
        data = read_toml(Path(study))
        try:
            return cls(data, Path(study).stem)
        except SpaqlError as error:
            raise StudyError(f"study file {os.fspath(study)!r}: {error}") from error

    def stages(self, results: Results) -> Iterator[Stage]:
        """Yield all groups."""
        yield Stage(self.groups)

    @property
    def runs(self) -> list[Run]:
        """Return all runs, the most expensive first."""
        return missing_runs(self.groups, ())


def perform(
    study: Sweep,
    folder: str | os.PathLike[str],
    *,
    engine: str | None = None,
    run_timeout: float | None = None,
    retry_failed: bool = False,
    progress_bar: bool | None = None,
    **options: Any,
) -> Outcome:
    """Run a study on the engine of `sweep`; raise what is wrong with engine or problems before anything is run."""
    make: EngineFor = partial(make_engine, engine, timeout=run_timeout, **options)
    name = make([group.run for group in study.groups]).name
    check_unused(Path(folder) / STORE)
    if name != "dask":  # its workers may have modules that are missing here
        _check_environments(study.groups, Path(folder) / STORE, Threads(1) if name == "threads" else Processes(1))
    return run_study(study, folder, engine=make, retry_failed=retry_failed, progress_bar=progress_bar)


def _check_environments(groups: Iterable[Group], store: Path, engine: Engine) -> None:
    """Make an agent for each problem that is not built in, with each algorithm, unless a run of theirs is finished.

    That is done where the runs will be: users' modules may hang or exit, and where they do, the runs will say so.
    """
    finished: set[str] = set()
    with suppress(SpaqlError), Store.open_readonly(store) as earlier:
        finished = earlier.finished()
    waiting: dict[str, Group] = {}
    for group in {(group.problem, group.algorithm): group for group in groups if not group.run.compiled}.values():
        if finished.isdisjoint(group.ids):
            made = replace(group.run, iterations=0, episodes=0, moments=0, moment_episodes=0, budgets=())
            waiting[made.id] = replace(group, run=made)
    end = time.monotonic() + _CHECK_SECONDS
    with engine if waiting else nullcontext():
        for group in waiting.values():
            engine.submit([group.run])
        while waiting and time.monotonic() < end:
            for outcome in engine.collect(0.1):
                group = waiting.pop(outcome.run.id)
                if isinstance(outcome.result, Failure) and outcome.result.kind == ERROR:
                    raise StudyError(f"problem {group.problem!r} with {group.label!r}: {outcome.result.message}")


def _make_groups(file: StudyFile) -> Iterator[Group]:
    problems = list(_make_problems(file))
    tables = [list(_make_variants(table, file.seed)) for table in file.algorithms]
    variants = [variant for table in tables for variant in table]
    labels = [variant.label for variant in variants]
    _check_unique([table[0].algorithm for table in tables], "algorithms")
    _check_unique(labels, "algorithms")
    _check_unique([problem for problem, *_ in problems], "problems")
    agents = max(len(seeds) if isinstance(seeds, list) else seeds for _, _, seeds, _ in problems)
    groups = len(problems) * len(variants)
    for number, most, noun in ((groups, MAX_GROUPS, "groups"), (groups * agents, MAX_RUNS, "runs")):
        if number > most:
            raise StudyError(f"study: more than {most:,} {noun}; leave some out")
    check_baseline(file.baseline, labels)
    _check_seeding(file)
    for at, (problem, run, seeds, optimum) in enumerate(problems):
        tried: set[str] = set()
        for variant in variants:
            group = replace(_combine(file, variant, problem, run, seeds), optimum=optimum)
            if variant.algorithm not in tried or at == 0:
                _try(group.run, f"problem {problem!r} with algorithm {group.label!r}")
                tried.add(variant.algorithm)
            yield group


def _make_problems(file: StudyFile) -> Iterator[tuple[str, Run, Any, float | None]]:
    """Yield label, run without an algorithm, seeds or their number, and stated optimum of each problem."""
    for at, table in enumerate(file.problems, 1):
        sizes = {"seeds": 10, "episodes": 100, "points": 0, **file.given(*SIZES)}
        if table.steps is not None or table.iterations is not None:  # replaces that of the whole study
            sizes = {size: value for size, value in sizes.items() if size not in ("steps", "iterations")}
        sizes |= table.given(*SIZES)
        if ("steps" in sizes) == ("iterations" in sizes):
            both = "steps and iterations are both set; remove one of them"
            neither = "set either steps or iterations, here or for the whole study"
            raise StudyError(f"problems[{at}]: {both if 'steps' in sizes else neither}")
        points, episodes = sizes["points"], sizes["episodes"]
        length = {"iterations": sizes.get("iterations", 0), "episodes": episodes}
        if "steps" in sizes:
            ends = {max(1, sizes["steps"] * (at + 1) // points) for at in range(points)} | {sizes["steps"]}
            length["budgets"] = tuple(sorted(ends))
        elif points:
            length |= {"moments": points, "moment_episodes": episodes}
        for varied, run in table.runs():
            label = with_values(table.label or table.problem, varied)
            _check_optimum(run, table.optimum, f"problems[{at}].optimum")
            yield label, replace(run, **length), sizes["seeds"], table.optimum


def _check_optimum(run: Run, stated: float | None, place: str) -> None:
    """Raise a StudyError where a stated optimum is not the one that is computed."""
    if stated is None or not run.compiled:
        return
    problem = problem_of(run)
    if problem.model is None or problem.horizon > _LONGEST:
        return
    known = solve(problem, tolerance=_TOLERANCE)
    if abs(stated - known.value) > max(known.tolerance, _ROUNDED * abs(known.value)):
        raise StudyError(f"{place}: {stated:g} is stated, and {known.value:.6g} is computed; leave it out")


def _make_variants(table: AlgorithmTable, seed: int) -> Iterator[Group]:
    """Yield a group without problem and seeds for each combination of grid, list and draws."""
    entry, algorithm, label = resolve(table.algorithm), table.algorithm, table.label or table.algorithm
    if not entry.built_in and ":" in algorithm:
        label = table.label or entry.label
    elif not entry.built_in:  # workers know no name that this process registered
        with suppress(SpaqlError):  # a class that its module does not have by its name
            algorithm = resolve(entry.path).name
    place = partial(seed_at, seed, "draw", label)
    draws: list[dict[str, Any]] = [
        {name: span.draw(np.random.default_rng(place(name, number))) for name, span in table.random.items()}
        for number in range(table.draws)
    ]
    for listed, combination, drawn in itertools.product(table.variants, combine(table.grid), draws or [{}]):
        varied = {**combination, **listed, **drawn}
        run = Run("", {}, algorithm, {**table.parameters, **varied}, 0, 0, 0)
        yield Group("", label, run, (), varied, table.colour or entry.colour or "")


def _combine(file: StudyFile, variant: Group, problem: str, run: Run, seeds: Any) -> Group:
    """Return the group of a variant on a problem."""
    algorithm, parameters = variant.run.algorithm, variant.run.parameters
    run = replace(run, algorithm=algorithm, parameters=parameters)
    if not (":" in algorithm or resolve(algorithm).learns):
        run = replace(run, iterations=0, budgets=run.budgets[-1:], moments=0, moment_episodes=0)
    if not isinstance(seeds, list):
        place = canonical([run.problem, run.arguments, run.environment, algorithm, parameters])
        if file.seeding is not None:
            values = {name: f"{v:g}" if isinstance(v, float) else v for name, v in parameters.items()}
            values = {"problem": problem, "algorithm": variant.algorithm} | values
            place = file.seeding.format_map(defaultdict(str, values))
        seeds = seeds_at(seeds, file.seed, place)
    return replace(variant, problem=problem, run=run, seeds=seeds)


def _try(run: Run, place: str) -> None:
    """Make the agent of a run; on a built-in problem where that would make a user's environment."""
    if not run.compiled:
        if run.algorithm in HEURISTICS:
            home = HEURISTICS[run.algorithm].home
            raise StudyError(f"{place}: this heuristic needs the {home} problem; remove one of the two")
        if ":" in run.algorithm or resolve(run.algorithm).required:  # depend on the problem
            return
        run = Run("oil", {}, run.algorithm, run.parameters, 0, 1, 2)
    try:
        agent = make_agent(run)
    except (SpaqlError, TypeError) as error:
        raise StudyError(f"{place}: {error}") from error
    if agent.learns and run.budgets and run.budgets[-1] < agent.min_timesteps:
        few = f"{run.budgets[-1]:,} are too few for one iteration, which takes {agent.min_timesteps:,}; give it more"
        raise StudyError(f"{place}: steps: {few}")


def _check_seeding(file: StudyFile) -> None:
    seeding = file.seeding or ""
    try:
        parts = [part for part in string.Formatter().parse(seeding) if part[1] is not None]
        if any(form or conversion for _, _, form, conversion in parts):
            raise ValueError("write {name}, without a format")
        names = [str(name) for _, name, _, _ in parts]
        seeding.format(**dict.fromkeys(names, ""))
    except (ValueError, KeyError, IndexError, AttributeError) as error:
        raise StudyError(f"seeding: {seeding!r:.80} is not a valid template: {error}") from error
    parameters = {name for table in file.algorithms for name in resolve(table.algorithm).parameters}
    check_known(names, sorted({"problem", "algorithm", *parameters}), "seeding")


def _check_unique(labels: Sequence[str], place: str) -> None:
    for label, count in Counter(labels).items():
        if count > 1:
            raise StudyError(f"{place}: two have the label {label!r}; give each its own label")


def check_baseline(baseline: str | None, labels: Sequence[str]) -> None:
    """Raise a StudyError where a baseline is given that is not one of the labels of algorithms."""
    if baseline is not None and baseline not in labels:
        known = ", ".join(map(repr, labels[:12])) + (f" and {len(labels) - 12:,} more" if len(labels) > 12 else "")
        raise StudyError(f"baseline: {baseline!r} is not an algorithm; choose from {known}")
