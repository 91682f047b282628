"""What every agent has: parameters by name, learning, evaluation, prediction, files.

What can be read off a policy is in `spaql.agents.readable`.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spaql.agents import training
from spaql.agents.callbacks import Callbacks
from spaql.agents.diagnosis import Case, Diagnosis, play_probe, run_checks
from spaql.agents.evaluation import Evaluation, check_record
from spaql.agents.history import ROW
from spaql.agents.readable import Readable
from spaql.errors import ParameterError
from spaql.partition.jit import make_records
from spaql.partition.partition import fill_array
from spaql.partition.rng import LARGEST_SEED, Purpose, Stream, generator, stream
from spaql.partition.spaces import Floats
from spaql.problems.base import Frame, Playable, World
from spaql.stats import mean_interval
from spaql.validation import check_whole, restore_generator

MOST_EPISODES = 100_000_000
_BATCH = 1000  # episodes played side by side in an evaluation; part of what makes its numbers reproducible


def _as_problem(problem: Any, seed: int, environment: dict[str, Any]) -> Playable:
    """Resolve what the user calls a problem."""
    if isinstance(problem, Playable) and not environment:
        return problem
    from spaql.gym.problem import resolve_problem  # here: it imports all of Gymnasium

    return resolve_problem(problem, seed=seed, **environment)


@dataclass(frozen=True)
class _Source:
    """What the user gave as the problem, for `set_params`; a copy of an agent shares it, as it may not be copyable."""

    problem: Any
    environment: dict[str, Any]

    def __deepcopy__(self, memo: object) -> Self:
        return self


class Agent(Readable):
    """Base of all agents.

    Different agents may learn in different threads at once; one agent belongs to one thread at a time.

    Parameters
    ----------
    problem
        What to learn: a compiled problem or its name, or a Gymnasium environment: its id, an instance, or a function
        that makes one.
    seed
        Fixes everything random about the agent; 0 is a seed like any other.
    **environment
        For a Gymnasium environment: `bounds`, `periodic`, `horizon`, `warm_up`; see `spaql.GymnasiumProblem`.
    """

    #: whether there is anything to learn
    learns: ClassVar[bool] = True
    #: whether the policy plays the centre of the chosen cell; else a uniform draw inside it, as published
    plays_middle: bool = False
    #: whether it is made for rewards from 0 to 1 per step
    needs_unit_rewards: ClassVar[bool] = False
    #: whether it caps the value of a state, at H
    caps_value: ClassVar[bool] = False
    #: name of the kernel that evaluates, for the message before it is compiled
    _evaluation_kernel: ClassVar[str] = "evaluation"

    def __init__(self, problem: Any, *, seed: int = 0, **environment: Any) -> None:
        self.seed = check_whole(seed, "seed", 0, LARGEST_SEED)
        self._source = _Source(problem, environment)
        self.problem = _as_problem(problem, self.seed, environment).for_agent()
        self._history: list[NDArray[np.void]] = []
        self._evaluation: dict[str, Any] | None = None
        self._prediction = generator(self.seed, Purpose.PREDICTION)

    def __repr__(self) -> str:
        parameters = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({self.problem.name!r}, {parameters})"

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's keywords and their values, as scikit-learn does; `deep` makes no difference."""
        signature = inspect.signature(type(self).__init__)
        return {
            name: getattr(self, name)
            for name, parameter in signature.parameters.items()
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY
        }

    def _origin(self) -> str:
        return f"{self.iterations:,} iterations, {self.training_steps:,} training steps, seed {self.seed}"

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters of an agent that has not learned yet; it is made anew, on the problem it was given.

        Raises
        ------
        ParameterError
            On a parameter that the agent does not have, or after learning.
        """
        known = self.get_params()
        for name in parameters:
            if name not in known:
                raise ParameterError(f"set_params: {name!r} is not one of {', '.join(known)}")
        if self.num_timesteps > self.problem.warm_up_steps:
            raise ParameterError(f"set_params: {type(self).__name__} has learned already; make a new agent instead")
        problem, environment = self._source.problem, self._source.environment
        self.__init__(problem, **known | parameters, **environment)  # type: ignore[misc]
        return self

    # Learning -------------------------------------------------------------------------------------------------

    def learn(
        self,
        total_timesteps: int | None = None,
        *,
        iterations: int | None = None,
        callback: Callbacks | None = None,
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
            A function of the agent, which stops learning by returning False, one of `spaql.callbacks`, or a list of
            these.  They do not change what is learned, unless one steps the environment that is learned on.
        progress_bar
            None shows it on a terminal.
        """
        self._learn(total_timesteps, iterations, callback, progress_bar)
        return self

    def _learn(
        self, total_timesteps: int | None, iterations: int | None, callback: Callbacks | None, progress_bar: bool | None
    ) -> None:
        """Do what `learn` says."""
        raise NotImplementedError

    def prepare(self, progress_bar: bool | None = None) -> Self:
        """Compile or load the agent's kernels now rather than in the first `learn`."""
        return self

    @property
    def history(self) -> NDArray[np.void]:
        """One row per iteration, read-only; the columns are those of `spaql.agents.history.ROW`."""
        if len(self._history) != 1:
            self._history[:] = [np.concatenate(self._history) if self._history else make_records(0, ROW)]
        rows = self._history[0].view()
        rows.flags.writeable = False
        return rows

    def _rows_after(self, iteration: int) -> NDArray[np.void]:
        """Return the rows of `history` after an iteration, without concatenating all of it."""
        parts: list[NDArray[np.void]] = []
        missing = self.iterations - iteration
        for rows in reversed(self._history):
            if missing <= 0:
                break
            parts.append(rows[max(0, len(rows) - missing) :])
            missing -= len(rows)
        return np.concatenate(parts[::-1]) if parts else make_records(0, ROW)

    @property
    def iterations(self) -> int:
        """Iterations learned so far."""
        return sum(len(rows) for rows in self._history)

    @property
    def training_steps(self) -> int:
        """Environment steps spent on learning."""
        return 0

    @property
    def selection_steps(self) -> int:
        """Environment steps spent on choosing which policy to keep."""
        return 0

    @property
    def monitoring_steps(self) -> int:
        """Environment steps spent on the learning curve only; the agent does not use them."""
        return 0

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
    def steps_to_split(self) -> int | None:
        """Steps of learning before cells can be a quarter of the space, or None for agents without cells."""
        return None

    def diagnose(self, total_timesteps: int | None = None, *, iterations: int | None = None) -> list[Diagnosis]:
        """Return what may be wrong with the agent and its problem, and what to change.

        Call it before training, with the planned length, and after it.  It plays a few episodes that count towards no
        budget and change nothing; see `spaql.agents.diagnosis`.

        Examples
        --------
        >>> import spaql
        >>> agent = spaql.SPAQL(spaql.problems.oil())
        >>> [found.id for found in agent.diagnose(iterations=5000)]
        ['value-saturated']
        """
        planned = None
        if iterations is not None or total_timesteps is not None:
            planned = self._planned(iterations, total_timesteps)
        return run_checks(Case(self, play_probe(self, self._visits if self.iterations else None), planned))

    #: function of an observation and a time step that returns the visits of the cell played there; None without cells
    _visits: Any = None

    def _planned(self, iterations: int | None, total_timesteps: int | None) -> int:
        """Steps of learning that a call of `learn` would take."""
        return 0

    # Files ----------------------------------------------------------------------------------------------------

    @property
    def can_save(self) -> bool:
        """Whether `save` can write it: files name registered algorithms only, see `spaql.agents.registry`."""
        from spaql.agents.registry import algorithms, name_of  # here: it imports this module

        return name_of(self) in algorithms()

    def _require_saving(self, what: str) -> None:
        """Raise a `ParameterError` where `save` cannot write it."""
        from spaql.agents.registry import name_of  # here: it imports this module

        if not self.can_save:
            raise ParameterError(f"{what}: {name_of(self)} is not an algorithm of spaql; save it by its own means")

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the agent to a file that `load` and `spaql.load` read; see `spaql.agents.files`."""
        from spaql.agents.files import save  # here: it imports all agents

        return save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], env: Any = None) -> Self:
        """Read an agent of this class from a file; `spaql.load` reads those of any class.

        Parameters
        ----------
        path
            The file, or a folder that `spaql train` wrote.
        env
            The problem or environment to go on with, where the file cannot name it; see `spaql.load`.
        """
        from spaql.agents.files import load  # here: it imports all agents

        agent = load(path, env)
        if not isinstance(agent, cls):
            raise ParameterError(f"load: {path} holds a {type(agent).__name__}, not a {cls.__name__}; use spaql.load")
        return agent

    def _state(self) -> dict[str, NDArray[Any]]:
        """Return all that was learned, as arrays for a file."""
        return {"history": self.history}

    def _numbers(self) -> dict[str, Any]:
        """Return what else a file needs, ready for JSON."""
        return {"prediction": self._prediction.bit_generator.state}

    def _restore(self, arrays: Mapping[str, NDArray[Any]], numbers: Mapping[str, Any]) -> None:
        """Take over what `_state` and `_numbers` returned; ValueError if they do not fit the parameters."""
        history = make_records(len(arrays["history"]), ROW)
        fill_array(history, arrays["history"], "history")
        self._history[:] = [history]
        restore_generator(self._prediction, numbers["prediction"])

    # Environments ---------------------------------------------------------------------------------------------

    def get_env(self) -> Any:
        """Return the Gymnasium environment it learns on, or None for a compiled problem."""
        return getattr(self.problem, "env", None)

    def set_env(self, env: Any) -> Self:
        """Go on with another environment that has the same observations and actions; ranges stay."""
        self.problem = self.problem.with_env(env)
        return self

    # Evaluation and prediction --------------------------------------------------------------------------------

    def evaluate(
        self,
        episodes: int = 1000,
        *,
        seed: int | None = None,
        deterministic: bool | None = None,
        progress_bar: bool | None = None,
    ) -> Evaluation:
        """Play episodes with new random numbers and return what they earned; the agent stays as it is.

        Parameters
        ----------
        episodes
            How many, at least 2.
        seed
            Of the evaluation's own random streams; None takes the agent's.  The same call returns the same numbers.
        deterministic
            Play the centre of each chosen cell, or a uniform draw inside it; None does as the algorithm does: the
            centre for Tessera, the draw for the published agents.
        progress_bar
            Whether to report that a kernel is being compiled; None does so on a terminal.
        """
        episodes = check_whole(episodes, "episodes", 2, MOST_EPISODES)
        key = self.seed if seed is None else check_whole(seed, "seed", 0, LARGEST_SEED)
        middle = self.plays_middle if deterministic is None else bool(deterministic)
        self._require_training()
        with closing(self.problem.for_evaluation(key)) as problem:
            returns, steps = self._returns(problem, episodes, key, middle, progress_bar)
        return Evaluation(mean_interval(returns), returns, steps, key, middle, self.iterations)

    def _returns(
        self, problem: Playable, episodes: int, seed: int, middle: bool, progress_bar: bool | None
    ) -> tuple[Floats, int]:
        """Play episodes; return what each earned `[episodes]`, and the environment steps they took."""
        agent, world = stream(seed, Purpose.EVALUATION), stream(seed, Purpose.EVALUATION_ENVIRONMENT)
        returns, steps = np.empty(episodes), 0
        frame = problem.frame(min(episodes, _BATCH))
        for first in range(0, episodes, _BATCH):
            count = min(_BATCH, episodes - first)
            with training.announce_compilation(self._evaluation_kernel, progress_bar), problem.defer_interrupts():
                status, played = self._play(problem.world, frame, count, middle, agent, world)
            problem.check(status, "while it was evaluated")
            returns[first : first + count] = frame.returns[:count]
            steps += played
        return returns, steps

    def record_evaluation(self, evaluation: Evaluation) -> Self:
        """Keep an evaluation with the agent, also in its file.

        Record one that nothing was chosen by: the best of several evaluations is biased up.
        """
        if not isinstance(evaluation, Evaluation):
            raise ParameterError(f"record_evaluation: expected what evaluate returned, got {evaluation!r:.80}")
        self._evaluation = evaluation.to_dict()
        return self

    @property
    def recorded_evaluation(self) -> dict[str, Any] | None:
        """The evaluation given to `record_evaluation`, as `Evaluation.to_dict` returns it; None where there is none."""
        return None if self._evaluation is None else dict(self._evaluation)

    def _restore_evaluation(self, evaluation: Any) -> None:
        """Take over the recorded evaluation of a file; ValueError if it is invalid."""
        self._evaluation = None if evaluation is None else check_record(evaluation)

    def _play(
        self, world: World, frame: Frame, count: int, deterministic: bool, agent: Stream, world_random: Stream
    ) -> tuple[int, int]:
        """Play `count` episodes with a kernel; see `spaql.agents.rollouts`."""
        raise NotImplementedError

    def _act(self, points: Floats, steps: NDArray[np.int64], deterministic: bool) -> Floats:
        """Return actions `[n, actions]` in the problem's units at points of the unit cube `[n, states]`."""
        raise NotImplementedError

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: ArrayLike | None = None,
        deterministic: bool = True,
    ) -> tuple[Any, Any]:
        """Return the action for one observation or a batch of them, as Stable-Baselines3 does.

        Parameters
        ----------
        observation
            As the environment gives it, or many stacked along a first axis (each part of a Dict or Tuple); `[states]`
            or `[n, states]` in the problem's units for a compiled problem, where outside its space is an error.
        state
            For time-variant agents the time step of each row, as returned by the last call; None is step 0.
        episode_start
            Rows that begin an episode anew, `[n]` of bool.
        deterministic
            Play the centre of the chosen cell; else a uniform draw inside it.

        Returns
        -------
        action
            `[actions]` or `[n, actions]`; for discrete actions an int or `[n]` of int.
        state
            To hand to the next call; None for time-invariant agents.
        """
        self._require_training()
        points, single = self.problem.encode(observation)
        steps = self._steps(len(points), state, episode_start)
        actions = self._act(points, steps, deterministic)
        following = None
        if self.time_variant:
            following = np.minimum(steps + 1, self.problem.horizon - 1)
        return self.problem.decode(actions, single), following

    def _steps(self, count: int, state: Any, episode_start: ArrayLike | None) -> NDArray[np.int64]:
        """Time step of each row."""
        steps = np.zeros(count, np.int64)
        if not self.time_variant:
            return steps
        if state is not None:
            given = np.asarray(state).reshape(-1)
            if given.dtype.kind not in "iu" or given.shape != (count,):
                raise ParameterError(f"state: expected the time step of each of {count} rows, got {state!r:.80}")
            steps[:] = given
            if (steps < 0).any() or (steps >= self.problem.horizon).any():
                raise ParameterError(
                    f"state: time steps must be from 0 to {self.problem.horizon - 1}, got {state!r:.80}"
                )
        if episode_start is not None:
            starts = np.asarray(episode_start).reshape(-1)
            if starts.shape != (count,) or starts.dtype.kind not in "bif":
                raise ParameterError(
                    f"episode_start: expected true or false for each of {count} rows, got {episode_start!r:.80}"
                )
            steps[starts.astype(bool)] = 0
        return steps
