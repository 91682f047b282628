"""Callbacks for `learn`: functions and objects that are called while an agent learns.

    agent.learn(100_000, callback=[Evaluate(every=10_000), Log(CSVLogger("run.csv"))])

A function of the agent is called after every chunk of learning, about ten times a second, and stops it by returning
False; a `Callback` says at which step it wants to be called.  The kernel pauses there, between two iterations: the
agent learns the same with and without callbacks, bit for bit, unless one steps the environment that is learned on.  An
evaluation does so where the environment can be neither made nor copied again (a `UserWarning` says so; give a function
that makes a new one each time).
"""

import inspect
import itertools
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spaql.agents.loggers import Logger
from spaql.atomic_io import check_folder
from spaql.errors import ParameterError
from spaql.partition.rng import LARGEST_SEED, Purpose, generator
from spaql.validation import check_count, check_number, check_whole, show

__all__ = ["Callback", "Checkpoint", "Evaluate", "Log", "Result", "StopAfter"]

_FILE_NAME = "steps-{}.spaql"
_CALLBACKS = "callbacks"  # what the time of all callbacks is filed under


class Callback:
    """Base of all callbacks; one belongs to one agent.

    `begin`, `call` and `end` may read, evaluate and save the agent; they must not let it learn.

    Examples
    --------
    >>> import spaql
    >>> class Counter(spaql.callbacks.Callback):
    ...     calls = 0
    ...
    ...     def due(self, agent):
    ...         return agent.num_timesteps + 100
    ...
    ...     def call(self, agent):
    ...         self.calls += 1
    >>> counter = Counter()
    >>> agent = spaql.AQL("oil", rollouts=0, seed=0).learn(500, callback=counter)
    >>> counter.calls
    5
    """

    def begin(self, agent: Any) -> None:
        """Run once before learning.

        Parameters
        ----------
        agent
            That learns.
        """

    def due(self, agent: Any) -> int | None:
        """Return the `num_timesteps` at which to be called next; None for every chunk.

        Called after `begin` and after every `call`.  The call comes after the iteration that reaches the step; or at
        the end, where `total_timesteps` goes so far but leaves no room for that iteration.

        Parameters
        ----------
        agent
            That learns.

        Returns
        -------
        int or None
            Environment steps since the agent was made, not since this call of `learn`.
        """
        return None

    def call(self, agent: Any) -> bool | None:
        """Run when due; False stops learning.

        Parameters
        ----------
        agent
            That learns.

        Returns
        -------
        bool or None
            False stops learning; anything else goes on.
        """
        raise NotImplementedError

    def end(self, agent: Any) -> None:
        """Run once after learning, also after an exception or Ctrl-C.

        Parameters
        ----------
        agent
            That learns.
        """


#: what `learn` takes
Callbacks = Callback | Callable[[Any], bool | None] | Sequence[Callback | Callable[[Any], bool | None]]


class Watch:
    """The callbacks around one call of `learn`, and when each of them is due.

    `total` is the `num_timesteps` at which it is to end, and `logs` come after the callbacks that the user gave.
    """

    def __init__(self, callback: Callbacks | None, agent: Any, total: int = 0, logs: Sequence[Callback] = ()) -> None:
        given = callback if isinstance(callback, list | tuple) else [] if callback is None else [callback]
        callbacks = [*(_check_callback(each, total) for each in given), *logs]
        self._callbacks = sorted(callbacks, key=lambda each: not isinstance(each, Evaluate))  # logs have their results
        for log in callbacks:
            if isinstance(log, Log):
                log.follow([each for each in callbacks if isinstance(each, Evaluate)])
        self._agent = agent
        self._due: list[int | None] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        """Begin the callbacks, and end all that have begun."""
        with ExitStack() as ends:
            for callback in self._callbacks:
                callback.begin(self._agent)
                ends.callback(callback.end, self._agent)
            self._due = [self._next(callback) for callback in self._callbacks]
            yield

    def _next(self, callback: Callback) -> int | None:
        due = callback.due(self._agent)
        return due if due is None else check_whole(due, f"{type(callback).__name__}.due", 0)

    def pause(self, budget: int, least: int) -> int:
        """Return the step count at which to pause: the budget or the next due step, but no less than `least`."""
        return min([budget, *(max(due, least) for due in self._due if due is not None)])

    def call(self, reached: int) -> bool:
        """Call all that are due at a step count; return whether learning goes on."""
        goes_on = True
        for place, callback in enumerate(self._callbacks):
            due = self._due[place]
            if due is None or due <= reached:
                start = time.perf_counter()
                answer = callback.call(self._agent)
                self._agent._seconds[_CALLBACKS] += time.perf_counter() - start
                goes_on &= not (isinstance(answer, bool | np.bool_) and not answer)
                self._due[place] = self._next(callback)
        return goes_on


def _check_callback(callback: Any, total: int) -> Callback:
    if isinstance(callback, Callback):
        return callback
    if isinstance(callback, type):
        raise ParameterError(f"callback: {callback.__name__} is a class; give an instance of it")
    if hasattr(callback, "init_callback") and hasattr(callback, "on_step"):
        from spaql.agents.sb3_callback import SB3Callback  # here: it imports this module

        return SB3Callback(callback, total)
    if not callable(callback):
        raise ParameterError(f"callback: expected a function, a Callback or a list of these, got {show(callback)}")
    if _takes(callback, 2) and not _takes(callback, 1):
        raise ParameterError(
            "callback: expected a function of the agent, got one of two arguments; of (locals, globals) as in "
            "Stable-Baselines3, write a BaseCallback with _on_step"
        )
    if not _takes(callback, 1):
        raise ParameterError(f"callback: expected a function of the agent, got {show(callback)}, which cannot take one")
    made = Callback()
    made.call = callback  # type: ignore[method-assign]
    return made


def _takes(function: Callable[..., Any], count: int) -> bool:
    """Return whether a function can be called with so many arguments, as far as that is known."""
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # of one that is not written in Python
        return count == 1
    return True


class _Regular(Callback):
    """Called whenever the agent's steps pass a multiple of `every`."""

    def __init__(self, every: int) -> None:
        self.every = check_count(every, "every", 1)

    def due(self, agent: Any) -> int:
        return int(agent.num_timesteps // self.every + 1) * self.every


@dataclass(frozen=True, slots=True)
class Result:
    """One evaluation while learning.

    Examples
    --------
    >>> import spaql
    >>> evaluate = spaql.callbacks.Evaluate(every=500, episodes=20)
    >>> agent = spaql.AQL("oil", rollouts=0, seed=0).learn(1_000, callback=evaluate)
    >>> [result.steps for result in evaluate.results]
    [500, 1000]
    """

    steps: int  #: training and selection steps so far
    iterations: int  #: iterations learned so far
    mean: float  #: mean return
    low: float  #: low end of the 95% confidence interval of the mean
    high: float  #: its high end


class Evaluate(_Regular):
    """Evaluate the agent every n environment steps.

    The episodes are played on an environment of their own, with the same random numbers every time, so that results
    can be compared.  `agent.evaluate` has others, unless it is given the same seed, so that its result for the best
    agent is not biased by the choice; nothing is recorded with the agent.

    Parameters
    ----------
    every
        Environment steps, training and selection together, from one evaluation to the next.
    episodes
        Of one evaluation, at least 2; they count towards no budget.
    seed
        Of the evaluations; None derives one from the agent's.
    stop_at
        Stop learning when the mean return is this or more.
    patience
        Stop learning after n evaluations in a row, of one call of `learn`, that were no better than the best.
    save_best
        A file to save the agent to whenever its mean is the best so far.
    restore_best
        After learning, also after Ctrl-C, return the policy of the best evaluation so far: `predict`, `evaluate`,
        `save` and `export` use it until more is learned, and learning goes on as if nothing was restored.  The last
        policy counts only if it was evaluated, so let `every` divide the steps of `learn`.  The best of several noisy
        means is biased up: call `agent.evaluate` for a number to report.

    Examples
    --------
    >>> import spaql
    >>> evaluate = spaql.callbacks.Evaluate(every=500, episodes=20, restore_best=True)
    >>> agent = spaql.AQL("oil", rollouts=0, seed=0).learn(2_000, callback=evaluate)
    >>> len(evaluate.results), agent.restored_from == evaluate.best.steps
    (4, True)
    """

    def __init__(
        self,
        every: int,
        episodes: int = 20,
        seed: int | None = None,
        stop_at: float | None = None,
        patience: int | None = None,
        *,
        save_best: str | os.PathLike[str] | None = None,
        restore_best: bool = False,
    ) -> None:
        super().__init__(every)
        self.episodes = check_count(episodes, "episodes", 2)
        self.seed = None if seed is None else check_whole(seed, "seed", 0, LARGEST_SEED)
        self.stop_at = None if stop_at is None else check_number(stop_at, "stop_at")
        self.patience = None if patience is None else check_whole(patience, "patience", 1)
        self.save_best = None if save_best is None else Path(save_best)
        self.restore_best = bool(restore_best)
        self.results: list[Result] = []  #: all evaluations so far
        self.best: Result | None = None  #: the one with the largest mean
        self._no_better = 0
        self._best_policy: Any = None

    def begin(self, agent: Any) -> None:
        """Make the folder of `save_best`, and reset the patience."""
        self._no_better = 0
        if self.restore_best and not hasattr(agent, "_keep_policy"):
            name = type(agent).__name__
            raise ParameterError(f"restore_best: {name} has no partition that could be restored; leave it out")
        if self.save_best is not None:
            agent._require_saving("save_best")
            check_folder(self.save_best.parent)

    def call(self, agent: Any) -> bool:
        """Evaluate and save; return whether to go on."""
        derived = int(generator(agent.seed, Purpose.WATCHING).integers(2**63))
        evaluation = agent.evaluate(self.episodes, seed=derived if self.seed is None else self.seed)
        result = Result(agent.num_timesteps, agent.iterations, evaluation.mean, *evaluation.interval)
        self.results.append(result)
        self._no_better += 1
        if self.best is None or result.mean > self.best.mean:
            self.best, self._no_better = result, 0
            if self.save_best is not None:
                agent.save(self.save_best)
            if self.restore_best:
                self._best_policy = agent._keep_policy()
        good = self.stop_at is not None and result.mean >= self.stop_at
        return not good and (self.patience is None or self._no_better < self.patience)

    def end(self, agent: Any) -> None:
        """Restore the best policy."""
        if self._best_policy is not None:
            agent._restore_policy(self._best_policy)


class Checkpoint(_Regular):
    """Save the agent every n environment steps, as `steps-<n>.spaql` or under another name.

    Parameters
    ----------
    every
        Environment steps, training and selection together, from one file to the next.
    folder
        Where the files go; it is made if it is missing.
    keep
        How many of the files that this callback wrote to keep, the last ones; None keeps all.
    name
        Of the files; {} stands for the steps so far.  Without it there is one file, replaced each time.

    Examples
    --------
    >>> import tempfile, spaql
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoint = spaql.callbacks.Checkpoint(every=500, folder=folder, keep=1)
    ...     agent = spaql.AQL("oil", rollouts=0, seed=0).learn(1_000, callback=checkpoint)
    ...     [path.name for path in checkpoint.files]
    ['steps-1000.spaql']
    """

    def __init__(
        self, every: int, folder: str | os.PathLike[str], keep: int | None = None, name: str = _FILE_NAME
    ) -> None:
        super().__init__(every)
        self.folder = Path(folder)
        if not isinstance(name, str) or not name or os.path.basename(name) != name:
            raise ParameterError(f"name: expected that of a file, such as {_FILE_NAME!r}, got {show(name)}")
        self.name = name if Path(name).suffix else f"{name}{Path(_FILE_NAME).suffix}"
        self.keep = None if keep is None else check_whole(keep, "keep", 1)
        self.files: list[Path] = []  #: those that it wrote and kept, oldest first

    def begin(self, agent: Any) -> None:
        """Make the folder."""
        agent._require_saving("Checkpoint")
        check_folder(self.folder)

    def call(self, agent: Any) -> None:
        """Save the agent, then remove files that are not to be kept."""
        path = self.folder / self.name.replace("{}", str(agent.num_timesteps))
        agent.save(path)
        self.files = [*(file for file in self.files if file != path), path]
        while self.keep is not None and len(self.files) > self.keep:
            self.files.pop(0).unlink(missing_ok=True)


class StopAfter(Callback):
    """Stop learning after some seconds of one call of `learn`, at the end of the current chunk.

    Parameters
    ----------
    seconds
        On the clock, above 0.

    Examples
    --------
    >>> import spaql
    >>> stop = spaql.callbacks.StopAfter(seconds=1e-9)
    >>> spaql.AQL("oil", rollouts=0, seed=0).learn(iterations=100_000, callback=stop).iterations < 100_000
    True
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = check_number(seconds, "seconds", least=0.0, above=True)
        self._end = math.inf

    def begin(self, agent: Any) -> None:
        """Start the clock."""
        self._end = time.perf_counter() + self.seconds

    def call(self, agent: Any) -> bool:
        """Return whether there is time left."""
        return time.perf_counter() < self._end


class Log(Callback):
    """Write the progress of learning to loggers: a row for each iteration, and for each evaluation.

    Rows have the columns of `agent.progress`, the results of each `Evaluate` in the same list of callbacks
    (`evaluation`, `evaluation_low`, `evaluation_high`; None in the rows of other iterations), and the clock: `seconds`
    since `learn` was called; `steps_per_second`, the environment steps of learning by the time between two calls
    without that of callbacks; and of Tessera `planning_seconds`, the part of `seconds` spent on planning.

    Parameters
    ----------
    *loggers
        Where the rows go, such as `spaql.loggers.CSVLogger("run.csv")`.
    every
        Write every n-th iteration, and those that were evaluated.

    Examples
    --------
    >>> import pathlib, tempfile, spaql
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = spaql.callbacks.Log(spaql.loggers.CSVLogger(f"{folder}/run.csv"), every=10)
    ...     agent = spaql.AQL("oil", rollouts=0, seed=0).learn(iterations=50, callback=log)
    ...     lines = pathlib.Path(folder, "run.csv").read_text().splitlines()
    >>> len(lines), lines[0].split(",")[:3]
    (6, ['iteration', 'timesteps', 'training_return'])
    """

    def __init__(self, *loggers: Logger, every: int = 1) -> None:
        for logger in loggers:
            if not isinstance(logger, Logger):
                raise ParameterError(f"loggers: expected loggers of spaql.loggers, got {show(logger)}")
        if not loggers:
            raise ParameterError("loggers: expected at least one")
        self.loggers = loggers
        self.every = check_count(every, "every", 1)
        self._evaluations: dict[str, Evaluate] = {}  # by the names of their columns
        self._seen: dict[str, int] = {}  # results of each that the loggers have been given
        self._given = 0  # iterations that the loggers have been given
        self._start: dict[str, float] = {}  # what `_read_clock` returned when learning began
        self._last: dict[str, float] = {}  # ... and when rows were last written

    def follow(self, evaluations: Sequence[Evaluate]) -> None:
        """Write the results of evaluations too; `learn` calls this with those among its callbacks."""
        names = ("evaluation" if number == 1 else f"evaluation_{number}" for number in itertools.count(1))
        self._evaluations = dict(zip(names, evaluations, strict=False))

    def begin(self, agent: Any) -> None:
        """Open all loggers."""
        self._given = agent.iterations
        self._seen = {name: len(each.results) for name, each in self._evaluations.items()}
        self._start = self._last = self._read_clock(agent)
        evaluations = [f"{name}{end}" for name in self._evaluations for end in ("", "_low", "_high")]
        columns = [*agent.progress(self._given), *evaluations, *self._measure(self._start)]
        with ExitStack() as opened:
            for logger in self.loggers:
                opened.callback(logger.close)
                logger.open(columns)
            opened.pop_all()

    def _read_clock(self, agent: Any) -> dict[str, float]:
        """Return all environment steps so far, and seconds: on the clock, without callbacks, and of phases."""
        steps = agent.num_timesteps + agent.monitoring_steps
        phases = {f"{name}_seconds": agent._seconds[name] for name in agent._phases}
        now = time.perf_counter()
        return {"steps": steps, "learning": now - agent._seconds[_CALLBACKS], "seconds": now, **phases}

    def _measure(self, clock: dict[str, float]) -> dict[str, float | None]:
        """Return the columns of the clock."""
        steps, learning = (clock[name] - self._last[name] for name in ("steps", "learning"))
        speed = round(steps / learning, 1) if learning > 0.0 else None
        seconds = {name: round(clock[name] - self._start[name], 3) for name in clock if name.endswith("seconds")}
        return {"steps_per_second": speed, **seconds}

    def _collect_evaluations(self) -> dict[int, dict[str, float]]:
        """Return new evaluations by their iteration, as columns."""
        found: dict[int, dict[str, float]] = {}
        for name, each in self._evaluations.items():
            for result in each.results[self._seen[name] :]:
                values = {name: result.mean, f"{name}_low": result.low, f"{name}_high": result.high}
                found[result.iterations] = found.get(result.iterations, {"timesteps": result.steps}) | values
            self._seen[name] = len(each.results)
        return found

    def call(self, agent: Any) -> None:
        """Write the new rows."""
        now = self._read_clock(agent)
        progress, evaluations, clock = agent.progress(self._given), self._collect_evaluations(), self._measure(now)
        none = {f"{name}{end}": None for name in self._evaluations for end in ("", "_low", "_high")}
        rows: list[dict[str, Any]] = [  # evaluations after which no iteration was finished
            dict.fromkeys(progress) | {"iteration": number} | none | values | clock
            for number, values in evaluations.items()
            if number <= self._given
        ]
        chosen = (progress["iteration"] % self.every == 0) | np.isin(progress["iteration"], list(evaluations))
        for numbers in zip(*(column[chosen].tolist() for column in progress.values()), strict=True):
            row = dict(zip(progress, numbers, strict=True))
            rows.append(row | none | evaluations.get(row["iteration"], {}) | clock)
        self._given += len(chosen)
        if rows:
            self._last = now
        with ExitStack() as writing:  # to all of them, even where one fails
            for logger in reversed(self.loggers) if rows else ():
                writing.callback(logger.write, rows)

    def end(self, agent: Any) -> None:
        """Write the rest, and close all loggers."""
        with ExitStack() as closing:
            for logger in self.loggers:
                closing.callback(logger.close)
            self.call(agent)
