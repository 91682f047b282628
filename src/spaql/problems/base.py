"""The contract of a compiled problem, and the machinery that lets kernels play it at full speed.

A problem is two small functions that Numba can compile, the spaces, a horizon and numbers of your choice:

    step(state, action, parameters, random, next_state) -> (reward, terminated)
    reset(parameters, random, state) -> None

`state`, `next_state` [states] and `action` [actions] are float64 arrays in your own units; `step` fills `next_state`,
`reset` fills `state`; both read `parameters` [any], which neither may write to, and draw from `random` only through
`spaql.rng` (`uniform`, `normal`, `gamma`).  A finite action arrives as `action[0]`, the number of the action.  Rewards
must be finite and states must stay inside the state space (a slack of 1e-9 of its width is forgiven); both are checked
at every step.

Plain functions or `@numba.njit` ones will do.  `Problem` wraps them, compiled, into two first-class functions that the
agents' kernels call through a pointer: the kernels are compiled once for all problems, a new problem costs a fraction
of a second.  The wrapper moves many copies of the environment at once, so that its call costs nothing per step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numba
import numpy as np
from numba import carray, types
from numba.core import config
from numba.core.errors import NumbaError
from numpy.typing import ArrayLike, NDArray

from spaql.compiling import borrow, floats_at, kernel, words_at
from spaql.errors import ProblemError
from spaql.problems.model import Travel
from spaql.rng import Purpose, stream
from spaql.spaces import Actions, Box, Finite, Floats, check_whole

_FLOATS = types.float64[::1]
_WORDS = types.uint64[::1]
STEP = types.Tuple((types.float64, types.boolean))(_FLOATS, _FLOATS, _FLOATS, _WORDS, _FLOATS)
RESET = types.void(_FLOATS, _WORDS, _FLOATS)
_ADVANCE = types.int64(*[types.int64] * 7)
_BEGIN = types.int64(*[types.int64] * 5)

# What a move of the environments reports; a wrapper that an exception left early reports 0.
RAN = 1
BAD_REWARD = 2
BAD_STATE = 4
SOME_ENDED = 8
FAULTS = BAD_REWARD | BAD_STATE

SLACK = 1e-9


class World(NamedTuple):
    """The compiled environment as kernels see it: two functions over addresses, and its constants."""

    advance: Any
    begin: Any
    constants: Floats


class Frame(NamedTuple):
    """Memory in which `n` copies of an environment live side by side."""

    states: Floats  # [n, states] in the user's units
    points: Floats  # [n, states] the same in the unit cube
    actions: Floats  # [n, actions] unit cube, or the number of a finite action
    outcomes: Floats  # [n, 2] reward, and 1 where the episode ended
    returns: Floats  # [n] sum of rewards of each episode
    who: NDArray[np.int64]  # [n] episode that lives in each row


@kernel(inline=True)
def lend_world(world):
    """The same world without reference counts, which threads that share a problem would fight over."""
    return World(world.advance, world.begin, borrow(world.constants))


@kernel(inline=True)
def lend_frame(frame):
    """The same frame without reference counts (see `spaql.compiling.borrow`)."""
    return Frame(
        borrow(frame.states),
        borrow(frame.points),
        borrow(frame.actions),
        borrow(frame.outcomes),
        borrow(frame.returns),
        borrow(frame.who),
    )


@dataclass(frozen=True, eq=False)
class Problem:
    """A compiled problem: see the module's docstring for the contract of `step` and `reset`.

    Parameters
    ----------
    name
        How messages and tables call it.
    step, reset
        The dynamics.
    states, actions
        The spaces; `actions` is a `Box` or `Finite`.
    horizon
        Steps of an episode.
    parameters
        Numbers handed to `step` and `reset`, `[any]`.
    arguments
        What the problem was made from, for records and tables.
    model
        What is known of it in closed form, for `spaql.optimum` and the heuristics; None where nothing is.

    Examples
    --------
    A walk on [-1, 1] that pays for being near 0:

    >>> from spaql.problems import Box, Problem
    >>> def step(state, action, parameters, random, next_state):
    ...     next_state[0] = min(1.0, max(-1.0, state[0] + 0.1 * action[0]))
    ...     return 1.0 - abs(next_state[0]), False
    >>> def reset(parameters, random, state):
    ...     state[0] = 1.0
    >>> Problem(name="walk", step=step, reset=reset, states=Box(-1, 1), actions=Box(-1, 1), horizon=20).horizon
    20
    """

    name: str
    step: Callable[..., Any]
    reset: Callable[..., Any]
    states: Box
    actions: Actions
    horizon: int
    parameters: ArrayLike = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)
    model: Travel | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.states, Box):
            raise ProblemError(f"problem {self.name!r}: states must be a Box, got {self.states!r:.80}")
        if not isinstance(self.actions, Box | Finite):
            raise ProblemError(f"problem {self.name!r}: actions must be a Box or Finite, got {self.actions!r:.80}")
        object.__setattr__(self, "horizon", check_whole(self.horizon, "horizon", 1))
        try:
            parameters = np.array(self.parameters, dtype=float).reshape(-1)
        except (TypeError, ValueError):
            raise ProblemError(
                f"problem {self.name!r}: parameters must be numbers, got {self.parameters!r:.80}"
            ) from None
        if not np.isfinite(parameters).all():
            raise ProblemError(f"problem {self.name!r}: parameters must be finite, got {parameters}")
        parameters.flags.writeable = False
        object.__setattr__(self, "parameters", parameters)
        object.__setattr__(self, "world", self._build())
        self._try()

    world: World = field(init=False, repr=False)

    def _build(self) -> World:
        step, reset = _compile(self.step, STEP, self.name, "step"), _compile(self.reset, RESET, self.name, "reset")
        object.__setattr__(self, "step", step)
        object.__setattr__(self, "reset", reset)
        finite = isinstance(self.actions, Finite)
        unit = self.states.is_unit and (isinstance(self.actions, Finite) or self.actions.is_unit)
        parameters = np.asarray(self.parameters)
        sizes = (self.states.dimensions, self.actions.dimensions, parameters.size)
        advance, begin = _wrap(step, reset, *sizes, unit, finite)
        bounds = [self.states.low, self.states.high - self.states.low]
        if isinstance(self.actions, Box):
            bounds += [self.actions.low, self.actions.high - self.actions.low]
        return World(advance, begin, np.concatenate([parameters, *bounds]))

    def __deepcopy__(self, memo: object) -> Problem:
        return self  # frozen, and its compiled functions cannot be copied

    def frame(self, copies: int) -> Frame:
        """Memory for `copies` environments side by side."""
        states, actions = self.states.dimensions, self.actions.dimensions
        return Frame(
            states=np.zeros((copies, states)),
            points=np.zeros((copies, states)),
            actions=np.zeros((copies, actions)),
            outcomes=np.zeros((copies, 2)),
            returns=np.zeros(copies),
            who=np.zeros(copies, np.int64),
        )

    def _try(self) -> None:
        """Play a first step, so that a broken problem is refused where it is made."""
        frame = self.frame(1)
        frame.states[:] = np.nan  # a reset or step that forgets to fill its result is a fault too
        random = stream(0, Purpose.EVALUATION_ENVIRONMENT)
        constants = self.world.constants.ctypes.data
        begin, advance = (getattr(f, "ctypes", f) for f in (self.world.begin, self.world.advance))
        status = begin(1, frame.states.ctypes.data, frame.points.ctypes.data, constants, random.ctypes.data)
        self.check(status, "in its first reset")
        frame.points[:] = np.nan
        addresses = [array.ctypes.data for array in (frame.states, frame.points, frame.actions, frame.outcomes)]
        self.check(advance(1, *addresses, constants, random.ctypes.data), "in its first step")

    def check(self, status: int, where: str) -> None:
        """Raise a `ProblemError` where a move reported a fault."""
        if not status & RAN:
            reason = "raised an exception"
        elif status & BAD_REWARD:
            reason = "gave a reward that is not a finite number"
        elif status & BAD_STATE:
            reason = f"left its state space, which is {self.states.low} to {self.states.high}"
        else:
            return
        raise ProblemError(f"problem {self.name!r} {reason} {where}; mend its step or reset function")


def _compile(function: Any, signature: Any, name: str, what: str) -> Any:
    """The function compiled for the contract's signature, or a sentence about why not."""
    if not callable(function):
        raise ProblemError(f"problem {name!r}: {what} must be a function, got {function!r:.80}")
    plain = getattr(function, "py_func", function)
    expected = len(signature.args)
    given = getattr(getattr(plain, "__code__", None), "co_argcount", expected)
    if given != expected:
        raise ProblemError(f"problem {name!r}: {what} must take {expected} arguments, it takes {given}; see Problem")
    if config.DISABLE_JIT or signature.args in getattr(function, "signatures", ()):
        return function
    try:
        return _compiled(plain, signature)
    except NumbaError as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = next((line for line in lines if not line.startswith(("Failed in", "-"))), lines[0])
        raise ProblemError(f"problem {name!r}: {what} does not compile: {reason}") from None


@lru_cache(maxsize=256)
def _compiled(plain: Any, signature: Any) -> Any:
    """The function compiled once, however many problems are made from it."""
    return numba.njit(signature, nogil=True)(plain)


@lru_cache(maxsize=256)
def _wrap(step: Any, reset: Any, states: int, actions: int, parameters: int, unit: bool, finite: bool) -> Any:
    """The two functions that kernels call; all sizes are constants to the compiler."""
    first = 8 * parameters  # byte offsets of the bounds behind the parameters

    def advance(count, state_at, point_at, action_at, outcome_at, constants, random_at):
        numbers = carray(floats_at(constants), (parameters,))
        random = carray(words_at(random_at), (4,))
        low = carray(floats_at(constants + first), (states,))
        width = carray(floats_at(constants + first + 8 * states), (states,))
        action_low = carray(floats_at(constants + first + 16 * states), (actions,))
        action_width = carray(floats_at(constants + first + 16 * states + 8 * actions), (actions,))
        status = RAN
        for i in range(count):
            state = carray(floats_at(state_at + 8 * states * i), (states,))
            point = carray(floats_at(point_at + 8 * states * i), (states,))
            action = carray(floats_at(action_at + 8 * actions * i), (actions,))
            outcome = carray(floats_at(outcome_at + 16 * i), (2,))
            if not unit and not finite:
                for d in range(actions):
                    action[d] = action_low[d] + action[d] * action_width[d]
            reward, ended = step(state, action, numbers, random, point)
            outcome[0] = reward
            outcome[1] = ended
            if not abs(reward) < np.inf:
                status |= BAD_REWARD
            if ended:
                status |= SOME_ENDED
            for d in range(states):
                value = point[d]
                state[d] = value
                if not unit:
                    value = (value - low[d]) / width[d]
                    point[d] = value
                if not (-SLACK <= value <= 1.0 + SLACK):
                    status |= BAD_STATE
        return status

    def begin(count, state_at, point_at, constants, random_at):
        numbers = carray(floats_at(constants), (parameters,))
        random = carray(words_at(random_at), (4,))
        low = carray(floats_at(constants + first), (states,))
        width = carray(floats_at(constants + first + 8 * states), (states,))
        status = RAN
        for i in range(count):
            state = carray(floats_at(state_at + 8 * states * i), (states,))
            point = carray(floats_at(point_at + 8 * states * i), (states,))
            reset(numbers, random, state)
            for d in range(states):
                point[d] = state[d] if unit else (state[d] - low[d]) / width[d]
                if not (-SLACK <= point[d] <= 1.0 + SLACK):
                    status |= BAD_STATE
        return status

    if config.DISABLE_JIT:
        return advance, begin
    return numba.cfunc(_ADVANCE)(advance), numba.cfunc(_BEGIN)(begin)
