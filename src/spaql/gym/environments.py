"""A compiled problem as a Gymnasium environment: the same steps, one at a time, in the problem's own units.

`reset(seed=s)` gives the environment the stream that an agent's training environment has under the seed s, so the
same actions meet the same random numbers here and in the compiled loops: states and rewards are equal bit by bit.
`reset()` continues the stream; before any seed it begins with one drawn from `np_random`.

An episode is truncated at the problem's horizon and terminated where the problem says so.  What an agent sees is the
state, or what the problem's `observe` shows of it, and is kept inside the observation space (the problem may leave it
by rounding, or farther where it says `clip`); the state itself is carried on as it is.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit

from spaql.errors import ParameterError
from spaql.gym.calls import find_problem
from spaql.gym.problem import GymnasiumProblem
from spaql.partition.rng import Purpose, Stream, stream
from spaql.partition.spaces import Discrete, Floats
from spaql.problems.base import BAD_REWARD, BAD_STATE, LARGEST_REWARD, NO_STATE, RAN, SLACK, Playable, Problem
from spaql.validation import check_whole, show

_SEEDS = 2**63  # seeds to draw from where the user gives none


class ProblemEnvironment(gymnasium.Env[Floats, Any]):
    """Any compiled problem, your own too, as a Gymnasium environment.

    Parameters
    ----------
    problem
        A problem, or the name of a built-in one; its states become a `Box` of float64, its actions one or `Discrete`.
    purpose
        Which of a seed's streams to draw from: that of training unless given.
    **arguments
        Of the built-in problem; see `spaql.problems`.

    Examples
    --------
    >>> import spaql
    >>> environment = spaql.ProblemEnvironment("oil", survey="quadratic", sharpness=1)
    >>> observation, _ = environment.reset(seed=0)
    >>> observation, reward, terminated, truncated, _ = environment.step([0.5])
    >>> round(reward, 3), terminated, truncated
    (0.436, False, False)
    """

    def __init__(
        self, problem: Problem | str, *, purpose: Purpose = Purpose.TRAINING_ENVIRONMENT, **arguments: Any
    ) -> None:
        problem = find_problem(problem, arguments).made
        if not isinstance(problem, Problem):
            raise ParameterError(f"problem: expected a spaql Problem such as spaql.problems.oil(), got {show(problem)}")
        self.problem = problem
        self._purpose = purpose
        self.observation_space, self.action_space = find_spaces(problem)
        self._parameters = np.array(problem.parameters)  # compiled functions take no read-only array
        self._random: Stream | None = None
        self._state: Floats | None = None  # None where an episode must begin first
        self._elapsed = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Floats, dict[str, Any]]:
        """Begin an episode and return its first observation; see the module's docstring for seeds.

        Parameters
        ----------
        seed
            Of all random numbers from now on; None goes on with the present ones.
        options
            Ignored.

        Returns
        -------
        observation : ndarray
            `[states]`, in the problem's units.
        info : dict
            Empty.
        """
        if seed is not None:
            seed = check_whole(seed, "seed", 0)
            self._random = stream(seed, self._purpose)
        super().reset(seed=seed)
        if self._random is None:
            self._random = stream(int(self.np_random.integers(_SEEDS)), self._purpose)
        self._state, self._elapsed = None, 0
        state = np.full(self.problem.hidden or 0, np.nan)  # so that a number that the problem does not set is noticed
        self._call(self.problem.reset, self._parameters, self._random, state)
        return self._arrive(state), {}

    def step(self, action: Any) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """Play one action, `[actions]` in the problem's units or the number of a discrete one.

        Parameters
        ----------
        action
            `[actions]` in the problem's units, or the number of a discrete one.

        Returns
        -------
        observation : ndarray
            `[states]`, in the problem's units.
        reward : float
            Of this step.
        terminated, truncated : bool
            Whether the episode is over, by the problem or by its horizon.
        info : dict
            Empty.

        Raises
        ------
        ParameterError
            On an action outside the space, or where no episode is under way.
        ProblemError
            Where the problem breaks its contract (`spaql.problems.base`).
        """
        if self._state is None:
            raise ParameterError("step: no episode is under way; call reset() first")
        numbers, state, before = self._check_action(action), np.full_like(self._state, np.nan), self._state
        self._state = None
        self._elapsed += 1
        reward, ended = self._call(self.problem.step, before, numbers, self._parameters, self._random, state)
        reward, terminated = float(reward), bool(ended)
        if not abs(reward) <= LARGEST_REWARD:
            self._refuse(RAN | BAD_REWARD)
        observation = self._arrive(state, terminated)
        truncated = self._elapsed >= self.problem.horizon
        if terminated or truncated:
            self._state = None
        return observation, reward, terminated, truncated, {}

    def _arrive(self, state: Floats, ended: bool = False) -> Floats:
        """Store a new state and return its observation, `[states]`; a last state may lie outside the space."""
        low, high, seen = self.problem.states.low, self.problem.states.high, state
        if self.problem.observe is not None:
            seen = np.full_like(low, np.nan)
            self._call(self.problem.observe, state, self._parameters, seen)
        observation = np.minimum(np.maximum(seen, low), high)
        if np.isnan(seen).any():
            self._refuse(RAN | BAD_STATE | NO_STATE)
        inside = ended or self.problem.clip
        if not inside and not (np.abs(seen - observation) <= SLACK * (high - low)).all():
            self._refuse(RAN | BAD_STATE)
        self._state = state
        return observation

    def _call(self, function: Any, *arguments: Any) -> Any:
        """Call a function of the problem; its exceptions are the problem's faults."""
        try:
            return function(*arguments)
        except Exception:
            self._refuse(0)

    def _refuse(self, status: int) -> None:
        """Raise the `ProblemError` for what a move reported."""
        self.problem.check(status, f"in step {self._elapsed} of an episode" if self._elapsed else "in a reset")

    def _check_action(self, action: Any) -> Floats:
        """Return the action as the problem's step takes it, `[actions]`, in memory of its own."""
        actions = self.problem.actions
        if isinstance(actions, Discrete):
            last = actions.count - 1
            try:
                contained = self.action_space.contains(action)
            except OverflowError:
                contained = False
            if not contained:
                raise ParameterError(f"action: expected a whole number from 0 to {last}, got {show(action)}")
            return np.array([float(action)])
        try:
            played = np.array(action, dtype=float, ndmin=0)
        except (TypeError, ValueError, OverflowError) as error:
            raise ParameterError(f"action: expected numbers, got {show(action)}") from error
        if played.shape != actions.low.shape:
            raise ParameterError(f"action: expected shape {actions.low.shape}, got {played.shape}")
        if not ((played >= actions.low) & (played <= actions.high)).all():
            raise ParameterError(f"action: {played} is outside the space from {actions.low} to {actions.high}")
        return played


def find_spaces(problem: Playable) -> tuple[spaces.Space[Any], spaces.Space[Any]]:
    """Return the observation space and the action space of a problem, for one of ours in its own units."""
    if isinstance(problem, GymnasiumProblem):
        return problem.observations.space, problem.moves.space
    seen, actions = spaces.Box(problem.states.low, problem.states.high, dtype=np.float64), problem.actions
    if isinstance(actions, Discrete):
        return seen, spaces.Discrete(int(actions.count))
    return seen, spaces.Box(actions.low, actions.high, dtype=np.float64)


def open_environment(problem: Playable, seed: int, purpose: Purpose) -> tuple[gymnasium.Env[Any, Any], int | None]:
    """Return a problem as an environment to be played in Python, with episodes of at most its horizon; its first seed.

    `seed` and `purpose` are of a compiled problem's random stream; a Gymnasium environment has its own seeds.
    """
    if isinstance(problem, Problem):
        return TimeLimit(ProblemEnvironment(problem, purpose=purpose), problem.horizon), seed
    if not isinstance(problem, GymnasiumProblem):
        raise ParameterError(f"problem: {problem.name!r} cannot be played step by step")
    return TimeLimit(problem.env, problem.horizon), problem.take_seed()
