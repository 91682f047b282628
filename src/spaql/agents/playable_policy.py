"""What every agent does with its policy: evaluate it, and predict actions."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spaql.agents.evaluation import Evaluation
from spaql.agents.progress import announce_compilation
from spaql.agents.rollouts import Baseline, play_episodes
from spaql.errors import NotTrainedError, ParameterError
from spaql.partition.kernels import Forest
from spaql.partition.rng import LARGEST_SEED, Purpose, stream
from spaql.partition.spaces import Floats
from spaql.problems.base import Playable
from spaql.problems.labels import make_labels
from spaql.stats import mean_interval
from spaql.validation import check_count, check_flag, check_whole, show

MOST_EPISODES = 100_000_000
_BATCH = 1000  # episodes played side by side in an evaluation; part of what makes its numbers reproducible


class PlayablePolicy:
    """Base of `spaql.agents.Agent`: the methods that play its policy."""

    problem: Playable  #: what it learns on
    seed: int  #: of everything random about it
    learns: ClassVar[bool] = True  #: whether there is anything to learn
    time_variant: bool = False  #: whether the policy changes with the time step
    plays_middle: bool = False  #: whether the policy plays the centre of the chosen cell; else a uniform draw inside it
    _evaluation: dict[str, Any] | None
    _prediction: np.random.Generator

    @property
    def iterations(self) -> int:
        """Iterations learned so far."""
        raise NotImplementedError

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
            Whether to report that a kernel is being compiled, or the policy planned; None does so on a terminal
            and in a notebook.

        Returns
        -------
        Evaluation
            Mean return with its 95% interval, and the returns of single episodes.

        Raises
        ------
        NotTrainedError
            Before learning.

        Examples
        --------
        >>> import spaql
        >>> agent = spaql.AQL("oil", rollouts=0, seed=0).learn(iterations=500)
        >>> evaluation = agent.evaluate(episodes=100)
        >>> print(evaluation)
        3.544 [3.510, 3.579] over 100 episodes
        >>> evaluation.mean == agent.evaluate(episodes=100).mean
        True
        """
        episodes = check_count(episodes, "episodes", 2, MOST_EPISODES)
        key = self.seed if seed is None else check_whole(seed, "seed", 0, LARGEST_SEED)
        middle = self.plays_middle if deterministic is None else check_flag(deterministic, "deterministic")
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
        self._extract_policy(progress_bar)
        policy, frame, horizon = self._played(), problem.frame(min(episodes, _BATCH)), problem.horizon
        kernel = "evaluation" if self.learns else "evaluation of baselines"
        for first in range(0, episodes, _BATCH):
            count = min(_BATCH, episodes - first)
            with announce_compilation(kernel, progress_bar), problem.defer_interrupts():
                status, played = play_episodes(*policy, problem.world, frame, horizon, count, middle, agent, world)
            problem.check(status, "while it was evaluated")
            returns[first : first + count] = frame.returns[:count]
            steps += played
        return returns, steps

    def record_evaluation(self, evaluation: Evaluation) -> Self:
        """Keep an evaluation with the agent, also in its file.

        Record one that nothing was chosen by: the best of several evaluations is biased up.

        Parameters
        ----------
        evaluation
            What `evaluate` returned.

        Returns
        -------
        Agent
            This agent.

        Examples
        --------
        >>> import spaql
        >>> agent = spaql.AQL("oil", rollouts=0, seed=0).learn(iterations=50)
        >>> agent.record_evaluation(agent.evaluate(episodes=100)).recorded_evaluation["episodes"]
        100
        """
        if not isinstance(evaluation, Evaluation):
            raise ParameterError(f"record_evaluation: expected what evaluate returned, got {show(evaluation)}")
        self._evaluation = evaluation.to_dict()
        return self

    @property
    def recorded_evaluation(self) -> dict[str, Any] | None:
        """The evaluation given to `record_evaluation`, as `Evaluation.to_dict` returns it; None where there is none."""
        return None if self._evaluation is None else dict(self._evaluation)

    def _extract_policy(self, progress_bar: bool | None) -> None:
        """Compute the policy to play, where that takes long; `progress_bar` is that of `evaluate`."""

    def _played(self) -> tuple[Forest | None, Baseline | None]:
        """Return the forest or the baseline that evaluations play; see `spaql.agents.rollouts.play_episodes`."""
        raise NotImplementedError

    def _act(self, points: Floats, steps: NDArray[np.int64], deterministic: bool) -> Floats:
        """Return actions `[n, actions]` in the problem's units at points of the unit cube `[n, states]`."""
        raise NotImplementedError

    def _require_training(self) -> None:
        if self.learns and not self.iterations:
            raise NotTrainedError(f"{type(self).__name__} has not learned yet; call learn(total_timesteps) first")

    def predict(
        self, observation: Any, state: Any = None, episode_start: ArrayLike | None = None, deterministic: bool = True
    ) -> tuple[Any, Any]:
        """Return the action for one observation or a batch of them, as Stable-Baselines3 does.

        Parameters
        ----------
        observation
            As the environment gives it, or many stacked along a first axis (each part of a Dict or Tuple); `[states]`
            or `[n, states]` in the problem's units for a compiled problem, where outside its space is an error.  One
            may be a mapping from the names of the observed numbers to these.
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

        Raises
        ------
        NotTrainedError
            Before learning.
        ParameterError
            On an observation of another shape, or outside the space of a compiled problem.

        Examples
        --------
        >>> import spaql
        >>> agent = spaql.SPAQL("oil", seed=0).learn(iterations=50)
        >>> agent.predict([0.5])
        (array([0.6875]), None)
        >>> agent.predict({"position": 0.5})
        (array([0.6875]), None)
        >>> agent.predict([[0.0], [0.5]])[0].shape
        (2, 1)

        The policy of a time-variant agent needs the time step, which goes from call to call:

        >>> agent = spaql.AQL("oil", rollouts=0, seed=0).learn(iterations=50)
        >>> action, step = agent.predict([0.0])
        >>> action, step = agent.predict(action, state=step)
        >>> step
        array([2])
        """
        self._require_training()
        if isinstance(observation, Mapping):
            from spaql.explain.explanation import read_observation

            observation = read_observation(self.problem, observation, make_labels(self.problem).states)
        points, single = self.problem.encode(observation)
        steps = self._steps(len(points), state, episode_start)
        actions = self._act(points, steps, check_flag(deterministic, "deterministic"))
        following = np.minimum(steps + 1, self.problem.horizon - 1) if self.time_variant else None
        return self.problem.decode(actions, single), following

    def _steps(self, count: int, state: Any, episode_start: ArrayLike | None) -> NDArray[np.int64]:
        """Return the time step of each row."""
        steps = np.zeros(count, np.int64)
        if not self.time_variant:
            return steps
        if state is not None:
            given, last = _to_array(state), self.problem.horizon - 1
            if given.dtype.kind not in "iu" or given.shape != (count,):
                raise ParameterError(f"state: expected the time step of each of {count} rows, got {show(state)}")
            if (given < 0).any() or (given > last).any():
                raise ParameterError(f"state: time steps must be from 0 to {last}, got {show(state)}")
            steps[:] = given
        if episode_start is not None:
            starts = _to_array(episode_start)
            if starts.shape != (count,) or starts.dtype.kind not in "bif":
                expected = f"episode_start: expected true or false for each of {count} rows"
                raise ParameterError(f"{expected}, got {show(episode_start)}")
            steps[starts.astype(bool)] = 0
        return steps


def _to_array(values: Any) -> NDArray[Any]:
    """Return values as a row; of what is none, an array of objects."""
    try:
        return np.asarray(values).reshape(-1)
    except ValueError:  # rows of several lengths
        return np.empty(0, object)
