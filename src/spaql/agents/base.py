"""What every agent has: parameters, learning, evaluation, prediction, files, and the methods that read its policy."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from spaql.agents.callbacks import Callbacks, Watch
from spaql.agents.diagnosis import Diagnosis, run_checks
from spaql.agents.evaluation import describe_record
from spaql.agents.history import History
from spaql.agents.parameters import Parameterised
from spaql.agents.playable_policy import PlayablePolicy
from spaql.agents.progress import announce_phase, is_progress_shown, make_bar
from spaql.agents.readable_policy import ReadablePolicy
from spaql.agents.rollouts import (
    FINISHED,
    MONITORING,
    ROW,
    SELECTION,
    SPLIT_ITERATIONS,
    TRAINING,
)
from spaql.agents.sb3_interface import SB3Interface
from spaql.agents.turns import Turn, take_turn
from spaql.errors import ParameterError
from spaql.formatting import with_values
from spaql.notebook import render
from spaql.partition.jit import make_records
from spaql.partition.partition import fill_array
from spaql.partition.rng import LARGEST_SEED, Purpose, generator
from spaql.partition.spaces import Box
from spaql.problems.base import Playable
from spaql.validation import check_count, check_whole

if TYPE_CHECKING:
    from tqdm import tqdm

    from spaql.agents.tessera.learned_model import LearnedModel

Names = Sequence[str] | None
UNLIMITED = np.iinfo(np.int64).max
MOST_STEPS = 2**62  # of one call of `learn`, so that all calls together can be counted


class Agent(PlayablePolicy, ReadablePolicy, Parameterised, SB3Interface):
    """Base of all agents.

    Different agents may learn in different threads at once; one agent belongs to one thread at a time.  A class called
    with two arguments, ("MlpPolicy", problem) as in Stable-Baselines3, ignores the first.

    Parameters
    ----------
    problem
        What to learn: a compiled problem or its name, or a Gymnasium environment: its id, an instance, or a function
        that makes one.
    seed
        Fixes everything random about the agent; 0 is a seed like any other.
    verbose
        1 lets `learn` print its progress.
    tensorboard_log
        Folder where `learn` writes logs for TensorBoard; needs `pip install 'spaql[tensorboard]'`.
    **environment
        For a Gymnasium environment: `bounds`, `periodic`, `horizon`, `warm_up`, `env_kwargs`; for any problem: `names`
        and `action_names`; see `spaql.GymnasiumProblem`.

    Examples
    --------
    Every algorithm is used alike:

    >>> import spaql
    >>> agent = spaql.AQL("oil", rollouts=0, seed=0)
    >>> agent.learn(iterations=50).num_timesteps
    250
    >>> action, state = agent.predict([0.0])
    >>> action.shape
    (1,)
    """

    needs_unit_rewards: bool = False  #: whether it is made for rewards from 0 to 1 per step
    caps_value: ClassVar[bool] = False  #: whether it caps the value of a state, at H
    inherits_visits: bool = False  #: whether cells split at 4^depth visits, and their parts start with all of them
    _row: ClassVar[np.dtype[np.void]] = ROW  # of `history`
    # columns of `history` that the algorithm fills, beside steps and returns of episodes; the others stay 0
    _filled: ClassVar[tuple[str, ...]] = ("value_low", "value_high", "cells", "splits")
    _phases: ClassVar[tuple[str, ...]] = ()  # of learning that are timed, see `_phase`
    _fineness: ClassVar[str | None] = None  # the parameter that says how fine its net is, where that is fixed
    policy_only: bool = False  #: whether it was read from a file of its policy alone, and cannot learn

    def __init__(
        self,
        problem: Any,
        *,
        seed: int = 0,
        verbose: int = 0,
        tensorboard_log: str | os.PathLike[str] | None = None,
        **environment: Any,
    ) -> None:
        self.seed = check_whole(seed, "seed", 0, LARGEST_SEED)
        self._set_outputs(verbose, tensorboard_log)
        self._source = lambda: (problem, environment)  # a function: copies of the agent share what may not be copyable
        if environment or not isinstance(problem, Playable):
            from spaql.gym.problem import resolve_problem  # here: it imports all of Gymnasium

            self.problem = resolve_problem(problem, seed=self.seed, **environment).for_agent()
        else:
            self.problem = problem.for_agent()
        self._counts = np.zeros(SPLIT_ITERATIONS + 1, np.int64)  # see `spaql.agents.rollouts`
        self._rows = make_records(0, self._row)
        self._evaluation: dict[str, Any] | None = None
        self._prediction = generator(self.seed, Purpose.PREDICTION)
        self._seconds: dict[str, float] = defaultdict(float)  # by phase of learning, and of callbacks; in no file
        self._bar: ref[tqdm[Any]] | None = None  # of the `learn` under way; weak, as a copy must not share it for long
        self._turn: ref[Turn] | None = None  # of the call of `learn` under way; weak, and a copy is not its agent

    def __repr__(self) -> str:
        parameters = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({self.problem.name!r}, {parameters})"

    def _repr_html_(self) -> str:
        learned, evaluation = "not yet" if self.learns else "nothing to learn", self.recorded_evaluation
        if self.iterations:
            learned = f"{self.num_timesteps:,} environment steps in {self.iterations:,} iterations"
        facts = {"learned": learned}
        if evaluation is not None:
            facts["evaluation"] = describe_record(evaluation, self.iterations)
        facts["parameters"] = with_values("", self.get_params()).removeprefix(", ")
        return render(f"{type(self).__name__} on {self.problem.name}", facts=facts)

    # Parameters -----------------------------------------------------------------------------------------------

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters of an agent that has not learned yet; it is made anew, on the problem it was given.

        Parameters
        ----------
        **parameters
            New values of constructor keywords.

        Returns
        -------
        Agent
            This agent.

        Raises
        ------
        ParameterError
            On a parameter that the agent does not have, or after learning.

        Examples
        --------
        >>> import spaql
        >>> spaql.AQL("oil").set_params(scaling=0.2, seed=3)
        AQL('oil laplace 10', scaling=0.2, rollouts=20, seed=3)
        """
        known = self.get_params()
        for name in parameters:
            if not self.accepts(name):
                raise ParameterError(f"set_params: {name!r} is not one of {', '.join(known)}")
        if self.num_timesteps > self.problem.warm_up_steps or self.iterations:
            raise ParameterError(f"set_params: {type(self).__name__} has learned already; make a new agent instead")
        (problem, environment), outputs = self._source(), (self.verbose, self.tensorboard_log)
        self.__init__(problem, **known | parameters, **environment)  # type: ignore[misc]
        self._set_outputs(*outputs)
        return self

    # Learning -------------------------------------------------------------------------------------------------

    def learn(
        self,
        total_timesteps: float | None = None,
        callback: Callbacks | None = None,
        *,
        iterations: int | None = None,
        log_interval: int = 10,
        tb_log_name: str | None = None,
        reset_num_timesteps: bool = True,
        progress_bar: bool | None = None,
    ) -> Self:
        """Learn for a number of environment steps, training and selection together, or of iterations.

        Calls with `iterations` add up: 300 and then 700 is 1000.  A call with `total_timesteps` stops before the
        iteration that could exceed it, so that some of its steps may be left: up to horizon - 1 for agents without
        rollouts.  Ctrl-C raises KeyboardInterrupt and keeps all that was learned, and the agent can go on; an iteration
        that it interrupted has no row in `history`.

        Parameters
        ----------
        total_timesteps, iterations
            How long; one of the two.
        callback
            A function of the agent, which stops learning by returning False, one of `spaql.callbacks` or of
            Stable-Baselines3, or a list of these.  They do not change what is learned, unless one steps the environment
            that is learned on.
        log_interval
            Iterations from one row to the next of what `verbose` prints and `tensorboard_log` gets.
        tb_log_name, reset_num_timesteps
            Logs go to `tb_log_name`, the class unless given, with the next number behind it; False goes on with the
            last.  The agent goes on learning and `num_timesteps` goes on counting either way.
        progress_bar
            None shows it on a terminal and in a notebook.

        Returns
        -------
        Agent
            This agent.

        Raises
        ------
        ParameterError
            Where the budget does not suffice for one iteration, or a parameter is not allowed.

        Examples
        --------
        >>> import spaql
        >>> agent = spaql.AQL("oil", rollouts=0, seed=0).learn(1_000)
        >>> agent.num_timesteps, agent.iterations
        (1000, 200)
        >>> agent.learn(iterations=100).iterations
        300

        A function stops it:

        >>> agent.learn(iterations=100, callback=lambda agent: agent.iterations < 301).iterations < 400
        True
        """
        if not self.learns and iterations is total_timesteps is None:
            return self
        self._require_whole("learn")
        with take_turn(self, "learn"):
            limit, steps = _check_length(iterations, total_timesteps)
            before = self.num_timesteps if self.iterations else 0  # the first call pays for a warm-up
            total = before + (steps if steps < UNLIMITED else self._count_planned(limit, steps))
            logs = self._make_logs(log_interval, tb_log_name, reset_num_timesteps)
            self._learn(limit, steps, Watch(callback, self, total, logs), progress_bar)
        return self

    @contextmanager
    def _train(self) -> Iterator[None]:
        """Mark the agent as being trained by a kernel, which its environment must not begin again."""
        with take_turn(self, "prepare") as turn:
            turn.playing = True
            try:
                yield
            finally:
                turn.playing = False

    def _learn(self, limit: int, steps: int, watch: Watch, progress_bar: bool | None) -> None:
        """Learn for at most `limit` iterations and `steps` environment steps, of which one is `UNLIMITED`."""
        raise NotImplementedError

    def _make_bar(self, total: int, unit: str, progress_bar: bool | None) -> tqdm[Any]:
        """Return the progress bar of a call of `learn`; it appears only if that takes longer than a moment."""
        shown, title = is_progress_shown(progress_bar), f"{type(self).__name__} on {self.problem.name}"
        return make_bar(total=total, unit=unit, desc=title, disable=not shown, delay=0.5, unit_scale=True)

    @contextmanager
    def _show_bar(self, total: int, unit: str, progress_bar: bool | None) -> Iterator[tqdm[Any]]:
        """Show the progress bar, on which phases of learning can be announced (`spaql.agents.progress`)."""
        with self._make_bar(total, unit, progress_bar) as bar:
            self._bar = ref(bar)
            try:
                yield bar
            finally:
                self._bar = None

    @contextmanager
    def _phase(self, name: str, progress_bar: bool | None) -> Iterator[None]:
        """Time a phase of learning, and announce it on the progress bar, or without one as `progress_bar` says."""
        start = time.perf_counter()
        try:
            with announce_phase(name, None if self._bar is None else self._bar(), progress_bar):
                yield
        finally:
            self._seconds[name] += time.perf_counter() - start

    def prepare(self, progress_bar: bool | None = None) -> Self:
        """Compile or load the agent's kernels now rather than in the first `learn`.

        Parameters
        ----------
        progress_bar
            Whether to say that a kernel is being compiled; None does so on a terminal and in a notebook.

        Returns
        -------
        Agent
            This agent.
        """
        return self

    @property
    def history(self) -> History:
        """One row per iteration, read-only; `spaql.agents.rollouts.ROW` describes the columns.

        `agent.history.to_pandas()` has those of the algorithm only.
        """
        rows = self._rows[: self.iterations].view(History)
        rows.filled, rows.has_rollouts = self._filled, bool(getattr(self, "rollouts", 0))
        rows.flags.writeable = False
        return rows

    def progress(self, start: int = 0) -> dict[str, NDArray[Any]]:
        """Return what logs write of the iterations after the first `start`; see `History.progress`.

        Parameters
        ----------
        start
            Iterations to leave out.

        Returns
        -------
        dict of ndarray
            Columns by name.
        """
        return self.history.progress(start)

    def _next_rows(self, count: int) -> NDArray[np.void]:
        """Return memory for the next rows of `history`, of which `_counts[FINISHED]` says how many are filled."""
        first = self.iterations
        if len(self._rows) < first + count:
            more = make_records(first + max(count, first), self._row)
            more.view(np.uint8)[: self._rows.nbytes] = self._rows.view(np.uint8)  # field by field takes longer
            self._rows = more
        rows = self._rows[first : first + count]
        rows[:1] = make_records(1, self._row)  # an iteration that failed may have left something
        return rows

    @property
    def iterations(self) -> int:
        """Iterations learned so far."""
        return int(self._counts[FINISHED])

    @property
    def training_steps(self) -> int:
        """Environment steps spent on learning."""
        return int(self._counts[TRAINING])

    @property
    def selection_steps(self) -> int:
        """Environment steps spent on choosing which policy to keep."""
        return int(self._counts[SELECTION])

    @property
    def monitoring_steps(self) -> int:
        """Environment steps spent on the learning curve only; the agent does not use them."""
        return int(self._counts[MONITORING])

    @property
    def num_timesteps(self) -> int:
        """Environment steps so far, of training and selection together: what `total_timesteps` counts."""
        return self.training_steps + self.selection_steps

    @property
    def min_timesteps(self) -> int:
        """The least `total_timesteps` that `learn` accepts now."""
        return 1

    @property
    def selection_score(self) -> float | None:
        """The score by which the returned policy was kept (biased up where it is a maximum), or None."""
        return None

    @property
    def regret_exponent(self) -> float | None:
        """The exponent b of a proven bound on the regret, R(K) <= C K^b up to logarithms; None where there is none.

        The bound holds under the assumptions of the algorithm's paper; see `spaql.agents.regret`.
        """
        return None

    @property
    def _metric_exponent(self) -> float:
        """(d + 1) / (d + 2), with d the dimensions of states and actions together."""
        actions = self.problem.actions.dimensions if isinstance(self.problem.actions, Box) else 0
        d = self.problem.states.dimensions + actions
        return (d + 1) / (d + 2)

    @property
    def steps_to_split(self) -> int | None:
        """Steps of learning before cells can be a quarter of the space, or None for agents without cells."""
        return None

    steps_to_split_for: ClassVar[str] = "before cells can be a quarter wide"  #: what `steps_to_split` are needed for

    def _is_indifferent(self) -> bool:
        """Whether the policy plays the same everywhere because no part of the space was found to be better."""
        return len(self.cells()) <= getattr(self.problem.actions, "count", 1)

    @property
    def model(self) -> LearnedModel | None:
        """The learned model of the environment, or None for agents that learn none."""
        return None

    def diagnose(self, total_timesteps: int | None = None, *, iterations: int | None = None) -> list[Diagnosis]:
        """Return what may be wrong with the agent and its problem, and what to change.

        Call it before training, with the planned length, and after it.  It plays a few episodes that count towards no
        budget and change nothing; see `spaql.agents.diagnosis`.

        Parameters
        ----------
        total_timesteps, iterations
            The planned length, one of the two; None where nothing more is planned.

        Returns
        -------
        list of Diagnosis
            Possible mistakes; empty where there are none.

        Examples
        --------
        >>> import spaql
        >>> agent = spaql.AQL("oil", rollouts=0, seed=0)
        >>> [finding.id for finding in agent.diagnose(total_timesteps=20)]
        ['budget-too-small']
        >>> agent.diagnose(total_timesteps=1_000)
        []
        """
        if iterations is None and total_timesteps is None:
            return run_checks(self, None)
        return run_checks(self, self._count_planned(*_check_length(iterations, total_timesteps)))

    def _count_planned(self, limit: int, steps: int) -> int:
        """Count the steps of learning that `_learn` would take."""
        return 0

    # Files ----------------------------------------------------------------------------------------------------

    @classmethod
    def count_first_cells(cls, problem: Playable, parameters: Mapping[str, Any]) -> int:
        """Count the cells of a new agent with these parameters, none of which ever goes away."""
        stepwise = cls.time_variant is True  # where it depends on what is learned, it is a property
        return getattr(problem.actions, "count", 1) * (problem.horizon if stepwise else 1)

    @property
    def can_save(self) -> bool:
        """Whether `save` can write it: files name registered algorithms only, see `spaql.agents.registry`."""
        from spaql.agents.registry import algorithms, name_of  # here: it imports this module

        entry = algorithms().get(name_of(self))
        return entry is not None and not entry.foreign

    def _require_saving(self, what: str) -> None:
        """Raise a `ParameterError` where `save` cannot write it."""
        if not self.can_save:
            from spaql.agents.registry import name_of  # here: it imports this module

            raise ParameterError(f"{what}: {name_of(self)} is not an algorithm of spaql; save it by its own means")

    def save(self, path: str | os.PathLike[str], *, policy_only: bool = False) -> Path:
        """Write the agent to a file that `load` and `spaql.load` read; see `spaql.agents.files`.

        The file is read back before it replaces an older one.

        Parameters
        ----------
        path
            The file; the suffix .spaql is added where there is none.
        policy_only
            Leave out what only learning needs.  The file is small, and the agent in it can predict, explain, list its
            rules, be exported, drawn and evaluated, but not learn.

        Returns
        -------
        pathlib.Path
            The file that was written.

        Raises
        ------
        ParameterError
            Where the algorithm is not registered; see `can_save`.
        OutputError
            Where the file cannot be written.

        Examples
        --------
        >>> import tempfile, spaql
        >>> agent = spaql.AQL("oil", rollouts=0, seed=0).learn(iterations=20)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = agent.save(f"{folder}/oil")
        ...     path.name, spaql.load(path).iterations
        ('oil.spaql', 20)
        """
        from spaql.agents.files import save  # here: it imports all agents

        return save(self, path, policy_only=policy_only)

    def _keep(self, path: str | os.PathLike[str]) -> Path:
        """Write the agent to a file quickly: who loads it computes what `save` would have to compute first."""
        return self.save(path)

    def _prepare_keep(self) -> None:
        """Compile or load the kernels that `_keep` calls, also to read the file back; nothing is written."""
        from spaql.agents.files import from_bytes, to_bytes  # here: it imports all agents

        from_bytes(to_bytes(self))

    @classmethod
    def load(cls, path: str | os.PathLike[str], env: Any = None) -> Self:
        """Read an agent of this class from a file; `spaql.load` has the parameters, and reads those of any class.

        Parameters
        ----------
        path, env
            As for `spaql.load`.

        Returns
        -------
        Agent
            An agent of this class.

        Raises
        ------
        ParameterError
            Where the file holds an agent of another class.
        AgentFileError
            Where it is not an agent file, or a damaged or newer one.

        Examples
        --------
        >>> import tempfile, spaql
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = spaql.AQL("oil", rollouts=0, seed=0).learn(iterations=20).save(f"{folder}/oil")
        ...     spaql.AQL.load(path)
        AQL('oil laplace 10', scaling=0.5, rollouts=0, seed=0)
        """
        from spaql.agents.files import load  # here: it imports all agents

        agent = load(path, env)
        if not isinstance(agent, cls):
            raise ParameterError(f"load: {path} holds a {type(agent).__name__}, not a {cls.__name__}; use spaql.load")
        return agent

    def _state(self) -> dict[str, NDArray[Any]]:
        """Return all that was learned, as arrays for a file."""
        return {"history": self.history}

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over what `_state` returned; ValueError if that does not fit the parameters."""
        self._rows = make_records(len(arrays["history"]), self._row)
        fill_array(self._rows, arrays["history"], "history")
        self._counts[FINISHED] = len(self._rows)

    def _policy_state(self) -> dict[str, NDArray[Any]]:
        """Return the policy alone, as arrays for a file; an agent that does not learn is nothing else."""
        return self._state()

    def _restore_policy_state(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over what `_policy_state` returned; ValueError if that does not fit the parameters."""
        self._restore(arrays)

    def _require_whole(self, what: str) -> None:
        """Raise a `ParameterError` where the agent has its policy only."""
        if self.policy_only:
            missing = "this agent was saved with policy_only=True, without what it learned from"
            raise ParameterError(f"{what}: {missing}; load the file of the whole agent, or train a new one")


def _check_length(iterations: float | None, total_timesteps: float | None) -> tuple[int, int]:
    """Return the iterations and the steps of a call of `learn`: one must be given, and the other is unlimited."""
    if (iterations is None) == (total_timesteps is None):
        raise ParameterError("learn: give either iterations or total_timesteps")
    if total_timesteps is None:
        return check_count(iterations, "iterations", 1, MOST_STEPS), UNLIMITED
    return UNLIMITED, check_count(total_timesteps, "total_timesteps", 1, MOST_STEPS)
