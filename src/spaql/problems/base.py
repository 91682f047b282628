"""The contract of a compiled problem, and the machinery that lets kernels play it at full speed.

A problem is two small functions that Numba can compile, the spaces, a horizon and numbers of your choice:

    step(state, action, parameters, random, next_state) -> (reward, terminated)
    reset(parameters, random, state) -> None

`state`, `next_state` [states] and `action` [actions] are float64 arrays in your own units; `step` fills `next_state`,
`reset` fills `state`; both read `parameters` [any], which neither may write to, and draw from `random` only through
`uniform`, `normal` and `gamma` of this package.  A discrete action arrives as `action[0]`, its number.  Rewards must be
finite (and below 1e100) and states must stay inside the state space (a slack of 1e-9 of its width is forgiven),
save after a step that ends the episode; both are checked at every step.  Indices are checked only in a trial episode
when the problem is made: later, compiled code that writes past an array damages the process.

Where an agent sees less, or something else, than what the environment must remember, there is a third function

    observe(state, parameters, observation) -> None

that fills `observation` [states], what the agent sees and what its cells are made of; `state` then has `hidden`
numbers, is never shown, and only the observation must stay inside `states`.  With `clip` what leaves the space counts
as its border instead of a fault.

Plain functions or `@numba.njit` ones will do.  `Problem` wraps them, compiled, into two functions that the agents'
kernels call by their address: the kernels are compiled once for all problems, a new problem costs a fraction
of a second.  The wrapper moves many copies of the environment at once, so that its call costs nothing per step.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import lru_cache, wraps
from typing import Any, NamedTuple, ParamSpec

import numba
import numpy as np
from numba import carray, types
from numba.core import config
from numba.core.errors import NumbaError, UnsupportedBytecodeError
from numpy.typing import ArrayLike, NDArray

from spaql.errors import ParameterError, ProblemError
from spaql.partition.jit import CHECKED, apart, floats_at, kernel, words_at
from spaql.partition.rng import Purpose, stream
from spaql.partition.spaces import Actions, Box, Discrete, Floats
from spaql.problems.optimum import Model
from spaql.validation import check_number, check_whole, show

P = ParamSpec("P")

_FLOATS = types.float64[::1]
_WORDS = types.uint64[::1]
STEP = types.Tuple((types.float64, types.boolean))(_FLOATS, _FLOATS, _FLOATS, _WORDS, _FLOATS)
RESET = types.void(_FLOATS, _WORDS, _FLOATS)
OBSERVE = types.void(_FLOATS, _FLOATS, _FLOATS)
ADVANCE = types.int64(*[types.int64] * 7)
BEGIN = types.int64(*[types.int64] * 5)

# What a move of the environments reports; a wrapper that an exception left early reports 0.
RAN = 1
BAD_REWARD = 2
BAD_STATE = 4
SOME_ENDED = 8
NO_STATE = 16  # with BAD_STATE: it is not even a number
SOME_CUT = 32  # an episode was broken off: nothing follows, but not because anything ended
FAULTS = BAD_REWARD | BAD_STATE

SLACK = 1e-9
LONGEST = 1_000_000
LARGEST_REWARD = 1e100  # sums and squares of larger ones would overflow
_TRIAL_STEPS = 100
_MOST_HIDDEN = 10_000
_FIELDS: tuple[tuple[str, Any, str], ...] = (
    ("name", str, "a text"),
    ("model", Model | None, "a Model of spaql.problems.optimum or None"),
    ("states", Box, "a Box"),
    ("actions", Box | Discrete, "a Box or Discrete"),
    ("clip", bool | np.bool_, "True or False"),
)


class World(NamedTuple):
    """The compiled environment as kernels see it: where its two functions are, and its constants.

    The functions take addresses; with the JIT off they stand here themselves.
    """

    advance: Any
    begin: Any
    constants: Floats
    copies: int  # of the environment that can be played side by side


class Frame(NamedTuple):
    """Memory in which `n` copies of an environment live side by side."""

    states: Floats  # [n, states] in the user's units; where they are hidden, [n, 2 hidden], the rest to work with
    points: Floats  # [n, states] what the agent sees of them, in the unit cube
    actions: Floats  # [n, actions] unit cube, or the number of a finite action
    outcomes: Floats  # [n, 2] reward, and other than 0 where the episode is over
    returns: Floats  # [episodes] sum of rewards of each episode
    who: NDArray[np.int64]  # [n] episode that lives in each row


@kernel(inline=True)
def failed(status):
    """Whether a move reported a fault: then no state of it may be looked up."""
    return (status & RAN) == 0 or (status & FAULTS) != 0


class Playable:
    """What an agent needs of a problem, compiled or not; observations are rows of numbers unless a subclass differs."""

    name: str  #: for messages and tables
    states: Box  #: ranges of the observed numbers
    actions: Actions  #: a `Box` or `Discrete`
    horizon: int  #: steps of an episode
    world: World
    arguments: Mapping[str, Any]  #: what it was made from
    maker: str | None = None  # name of the built-in problem that it is
    rewards: tuple[float, float] | None = None  #: the smallest and the largest of a step, where they are known
    model: Model | None = None
    optimum: float | None = None
    clip: bool = False  # whether observations outside `states` are moved to its border
    observe: Callable[..., Any] | None = None  # what the agent sees of a state, where that is not all of it
    hidden: int | None = None  # numbers of a state then
    warm_up_steps = 0  # played to learn ranges
    max_copies = 1  # of the environment that can be played side by side

    def frame(self, episodes: int) -> Frame:
        """Return memory for the returns of `episodes`, and for as many environments side by side as there can be."""
        copies, states = min(episodes, self.max_copies), self.states.dimensions
        return Frame(
            states=np.zeros((copies, states if self.observe is None else 2 * (self.hidden or 0))),
            points=np.zeros((copies, states)),
            actions=np.zeros((copies, self.actions.dimensions)),
            outcomes=np.zeros((copies, 2)),
            returns=np.zeros(episodes),
            who=np.zeros(copies, np.int64),
        )

    def check(self, status: int, where: str) -> None:
        """Raise where a move reported a fault."""

    def encode(self, observation: Any) -> tuple[Floats, bool]:
        """Return one observation or many, checked, as points of the unit cube `[n, states]`; whether it was one."""
        rows, single = self.states.check_batch(observation, "observation", clip=self.clip)
        return self.states.to_unit(rows), single

    def decode(self, actions: Floats, single: bool) -> Any:
        """Return actions `[n, actions]` in the units of `actions` as the environment takes them, one or many."""
        if isinstance(self.actions, Discrete):
            numbers = actions[:, 0].astype(np.int64)
            return int(numbers[0]) if single else numbers
        return actions[0] if single else actions

    def flatten(self, observation: Any) -> tuple[Floats, bool]:
        """Return one observation or many, checked, as their numbers `[n, states]`; whether it was one."""
        self.encode(observation)
        rows = np.asarray(observation, dtype=float)
        return np.atleast_2d(rows), rows.ndim <= 1

    def unflatten(self, numbers: Floats) -> Any:
        """Return the observation that has these numbers `[states]`."""
        return numbers

    def read_observation(self, frame: Frame) -> Floats:
        """Return what the first environment of a frame shows, `[states]` in the problem's units, before any clipping.

        It is undefined after a step that ended the episode.
        """
        return self.states.from_unit(frame.points[0])

    @property
    def whole(self) -> NDArray[np.bool_]:
        """Which observed numbers are integers, `[states]`."""
        return np.zeros(self.states.dimensions, np.bool_)

    def for_evaluation(self, seed: int) -> Playable:
        """Return the same problem with random numbers of its own, to evaluate on; close it afterwards."""
        return self

    def close(self) -> None:
        """Release what `for_evaluation` opened."""

    def for_agent(self) -> Playable:
        """Return the problem for one agent, who shares nothing mutable with others."""
        return self

    def with_env(self, env: Any) -> Playable:
        """Return the same problem on another environment."""
        raise ProblemError(f"{self.name!r} is compiled: it has no environment that could be exchanged")

    def defer_interrupts(self) -> AbstractContextManager[None]:
        """Return a context for calls of kernels that play."""
        return nullcontext()

    def _repr_html_(self) -> str:
        from spaql.problems.labels import to_html  # here: it imports this module

        return to_html(self)


@dataclass(frozen=True, eq=False)
class Problem(Playable):
    """A compiled problem: see the module's docstring for the contract of `step` and `reset`.

    Parameters
    ----------
    name
        For messages and tables.
    step, reset
        The dynamics.
    states, actions
        The spaces; `actions` is a `Box` or `Discrete`.
    horizon
        Steps of an episode.
    parameters
        Numbers handed to `step` and `reset`, `[any]`.
    arguments
        What the problem was made from, for records and tables.
    observe, hidden
        What the agent sees of a state, and how many numbers a state has; without `observe` it sees all of it.
    clip
        Whether observations outside `states` are moved to its border; else they are a fault.
    rewards
        The smallest and the largest reward of a step, where they are known; `diagnose` compares.
    model
        How `spaql.optimum` computes its optimum; None where that is unknown.
    optimum
        The largest expected return of an episode, where you know that number and there is no model.

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
    observe: Callable[..., Any] | None = None
    hidden: int | None = None
    clip: bool = False
    rewards: tuple[float, float] | None = None
    model: Model | None = None
    optimum: float | None = None

    maker: str | None = field(default=None, init=False, repr=False)
    world: World = field(init=False, repr=False)
    moves: tuple[Any, Any] = field(init=False, repr=False)  # advance and begin; the world has their addresses
    _pristine: Floats = field(init=False, repr=False)
    max_copies = 2**62

    def __post_init__(self) -> None:
        for name, kind, expected in _FIELDS:
            if not isinstance(getattr(self, name), kind):
                raise self._refusal(f"{name} must be {expected}, got {show(getattr(self, name))}")
        states = self.states.dimensions
        hidden = check_whole(states if self.hidden is None else self.hidden, "hidden", 1, _MOST_HIDDEN)
        if self.observe is None and hidden != states:
            raise self._refusal("hidden states need an observe function that shows them")
        self._set(
            horizon=check_whole(self.horizon, "horizon", 1, LONGEST),
            clip=bool(self.clip),
            hidden=hidden,
            rewards=None if self.rewards is None else self._check_rewards(),
            optimum=None if self.optimum is None else check_number(self.optimum, f"problem {self.name!r}: optimum"),
            parameters=self._check_parameters(),
            step=self._compile("step", STEP),
            reset=self._compile("reset", RESET),
            observe=None if self.observe is None else self._compile("observe", OBSERVE),
        )
        self._check_optimum()
        self._build()
        self._try()

    def _set(self, **fields: Any) -> None:
        """Set fields of the frozen dataclass while it is being made."""
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def _refusal(self, reason: str) -> ProblemError:
        return ProblemError(f"problem {self.name!r}: {reason}")

    def _check_rewards(self) -> tuple[float, float]:
        try:
            low, high = (float(end) for end in self.rewards or ())
        except (OverflowError, TypeError, ValueError):
            low, high = np.nan, np.nan
        if not -np.inf < low <= high < np.inf:
            raise self._refusal(
                f"rewards must be the smallest and the largest one, low not above high, got {show(self.rewards)}"
            )
        return low, high

    def _check_optimum(self) -> None:
        """Raise where a stated optimum contradicts the rest."""
        if self.optimum is None:
            return
        if self.model is not None:
            raise self._refusal("its model computes the optimum; leave the number out")
        if self.rewards is not None and self.optimum > max(self.horizon * self.rewards[1], self.rewards[1]):
            most = f"{self.horizon} steps of at most {self.rewards[1]:g}"
            raise self._refusal(f"the optimum {self.optimum:g} is more than {most}; correct one of the two")
        if self.rewards is not None and self.optimum < min(self.horizon * self.rewards[0], self.rewards[0]):
            least = f"{self.horizon} steps of at least {self.rewards[0]:g}"
            raise self._refusal(f"the optimum {self.optimum:g} is less than {least}; correct one of the two")

    def _check_parameters(self) -> Floats:
        try:
            if np.iscomplexobj(self.parameters):
                raise TypeError
            parameters = np.array(self.parameters, dtype=float).reshape(-1)
        except (OverflowError, TypeError, ValueError) as error:
            raise self._refusal(f"parameters must be numbers, got {show(self.parameters)}") from error
        if not np.isfinite(parameters).all():
            raise self._refusal(f"parameters must be finite, got {parameters}")
        parameters.flags.writeable = False
        return parameters

    def _compile(self, what: str, signature: Any) -> Any:
        """The function compiled for the contract's signature, or a sentence about why not."""
        function = getattr(self, what)
        plain = getattr(function, "py_func", function)
        if not inspect.isfunction(plain):
            raise self._refusal(f"{what} must be a plain function (def), got {show(function)}")
        expected, given = len(signature.args), plain.__code__.co_argcount
        if given != expected:
            raise self._refusal(f"{what} must take {expected} arguments, it takes {given}; see Problem")
        if getattr(function, "signature", None) == signature or signature.args in getattr(function, "signatures", ()):
            return function
        try:
            return _compiled(plain, signature)
        except (NumbaError, UnsupportedBytecodeError) as error:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            reason = next((line for line in lines if not line.startswith(("Failed in", "-"))), lines[0])
            if "No conversion" in reason and what == "step":
                reason = "it must return two things, the reward and whether the episode ended"
            raise self._refusal(f"{what} does not compile: {reason}") from error

    def _build(self) -> None:
        parameters, spaces = np.asarray(self.parameters), [self.states]
        if isinstance(self.actions, Box):
            spaces.append(self.actions)
        sizes = (self.hidden, self.states.dimensions, self.actions.dimensions, parameters.size)
        unit = all((space.low == 0.0).all() and (space.high == 1.0).all() for space in spaces)
        moves = _wrap(self.step, self.reset, self.observe, sizes, unit, len(spaces) == 1, self.clip)
        bounds = [end for space in spaces for end in (space.low, space.high - space.low)]
        bounds += [space.high for space in spaces[1:]]
        constants = np.concatenate([parameters, *bounds])
        advance, begin = (getattr(move, "address", move) for move in moves)
        world = World(advance, begin, constants, self.max_copies)
        self._set(moves=moves, world=world, _pristine=constants.copy())

    def read_observation(self, frame: Frame) -> Floats:
        """Return what the first environment of a frame shows, `[states]`, before any clipping."""
        if self.observe is None:
            return frame.states[0].copy()
        seen = np.empty(self.states.dimensions)
        self.observe(frame.states[0, : self.hidden].copy(), np.array(self.parameters), seen)
        return seen

    def __deepcopy__(self, memo: object) -> Problem:
        return self  # frozen, and its compiled functions cannot be copied

    def _try(self) -> None:
        """Play trial episodes, so that a broken problem is refused where it is made.

        Where the functions are the user's own, step by step with checked indices, twice, to find reads and writes past
        an array and random numbers that are not `random`'s; then through the world that the kernels will use.
        """
        functions = [function for function in (self.step, self.reset, self.observe) if function is not None]
        own = not all(str(function.__module__).startswith("spaql.problems.") for function in functions)
        if own and not np.array_equal(self._trial(), self._trial()):
            raise ProblemError(
                f"problem {self.name!r} draws random numbers of its own; use only `random` with the functions of "
                "spaql.problems (uniform, normal, gamma), so that a seed fixes everything"
            )
        frame, random = self.frame(1), stream(0, Purpose.EVALUATION_ENVIRONMENT)
        tail = self.world.constants.ctypes.data, random.ctypes.data
        addresses = [array.ctypes.data for array in (frame.states, frame.points, frame.actions, frame.outcomes)]
        advance, begin = (getattr(move, "ctypes", move) for move in self.moves)
        frame.states[:] = frame.points[:] = np.nan  # a reset or step that forgets to fill its result is a fault too
        self.check(begin(1, *addresses[:2], *tail), "in its first reset")
        frame.points[:] = np.nan
        self.check(advance(1, *addresses, *tail), "in its first step")

    def _trial(self) -> Floats:
        """Rewards and observations of a trial episode with random actions; a sentence on a crash."""
        step, reset = _compiled(self.step, STEP, True), _compiled(self.reset, RESET, True)
        observe = _shown if self.observe is None else _compiled(self.observe, OBSERVE, True)
        draws = np.random.default_rng(0)
        random, parameters = stream(1, Purpose.EVALUATION_ENVIRONMENT), np.array(self.parameters)
        rows, where = [], "reset"
        state, seen = np.full(self.hidden or 0, np.nan), np.full(self.states.dimensions, np.nan)
        try:
            reset(parameters, random, state)
            where = "observe"
            observe(state, parameters, seen)
            for _ in range(min(self.horizon, _TRIAL_STEPS)):
                where = "step"
                unit = draws.random(self.actions.dimensions)
                if isinstance(self.actions, Discrete):
                    unit = np.floor(unit * self.actions.count)
                following = np.full_like(state, np.nan)
                reward, ended = step(state, self.actions.from_unit(unit), parameters, random, following)
                where = "observe"
                observe(following, parameters, seen)
                rows.append([reward, *seen])
                if ended or not np.isfinite(rows[-1]).all():
                    break
                state = following
        except IndexError as error:
            sizes = f"{self.states.dimensions} states, {self.actions.dimensions} actions, {parameters.size} parameters"
            sizes += "" if self.observe is None else f", {self.hidden} hidden numbers"
            raise self._refusal(f"{where} reads or writes past the end of an array; there are {sizes}") from error
        except Exception as error:  # whatever the user's own code raises
            raise ProblemError(
                f"problem {self.name!r} raised an exception in its first {where}s: {type(error).__name__} {error}; "
                f"mend its {where} function"
            ) from error
        return np.nan_to_num(np.array(rows))

    def check(self, status: int, where: str) -> None:
        """Raise a `ProblemError` where a move reported a fault, or wrote to what it may only read."""
        if not np.array_equal(self.world.constants, self._pristine):
            self.world.constants[:] = self._pristine
            reason = "wrote to its parameters, which it may only read,"
        elif not status & RAN:
            reason = "raised an exception"
        elif status & BAD_REWARD:
            reason = f"gave a reward that is not a finite number of at most {LARGEST_REWARD:g}"
        elif status & NO_STATE:
            reason = "gave a state that is not a number, or did not fill it,"
        elif status & BAD_STATE:
            reason = f"left its state space, which is {self.states.low} to {self.states.high},"
        else:
            return
        raise ProblemError(f"problem {self.name!r} {reason} {where}; mend its step or reset function")


#: the built-in problems by name, each declared by `built_in` next to the function that makes it
PROBLEMS: dict[str, Callable[..., Problem]] = {}


def built_in(name: str, *, iterations: int | None = None) -> Callable[[Callable[P, Problem]], Callable[P, Problem]]:
    """Declare a function as the maker of the built-in problem of this name, so that files and studies can name it.

    `iterations` is the usual length of training where the problem's paper has one; `spaql train` takes it as default.
    """

    def marking(make: Callable[P, Problem]) -> Callable[P, Problem]:
        signature = inspect.signature(make)

        @wraps(make)
        def marked(*arguments: P.args, **keywords: P.kwargs) -> Problem:
            try:
                signature.bind(*arguments, **keywords)
            except TypeError as error:
                known = ", ".join(signature.parameters)
                raise ParameterError(f"problem {name!r}: {error}; its arguments are {known}") from None
            problem = make(*arguments, **keywords)
            object.__setattr__(problem, "maker", name)
            return problem

        PROBLEMS[name] = marked
        marked.iterations = iterations  # type: ignore[attr-defined]
        return marked

    return marking


@lru_cache(maxsize=256)
def _compiled(function: Any, signature: Any, boundscheck: bool = False) -> Any:
    """The function compiled once, however many problems are made from it; for trials with checked indices."""
    if config.DISABLE_JIT:
        return function
    plain = getattr(function, "py_func", function)
    return apart(lambda: numba.njit(signature, nogil=True, boundscheck=boundscheck or CHECKED)(plain))


def _shown(state, parameters, observation):
    """Observe everything."""
    for d in range(len(state)):  # Numba takes seconds to compile observation[:] = state
        observation[d] = state[d]


@lru_cache(maxsize=256)
def _wrap(step: Any, reset: Any, observe: Any, sizes: tuple[int, ...], unit: bool, finite: bool, clip: bool) -> Any:
    """The two functions that kernels call; all sizes are constants to the compiler."""
    hidden, states, actions, parameters = sizes
    first = 8 * parameters  # byte offsets of the bounds behind the parameters
    veiled = observe is not None
    size = 2 * hidden if veiled else hidden  # of a row of states; behind a hidden one is room for the next
    observe = observe if veiled else _compiled(_shown, OBSERVE)

    def advance(count, state_at, point_at, action_at, outcome_at, constants, random_at):
        numbers = carray(floats_at(constants), (parameters,))
        random = carray(words_at(random_at), (4,))
        low = carray(floats_at(constants + first), (states,))
        width = carray(floats_at(constants + first + 8 * states), (states,))
        action_low = carray(floats_at(constants + first + 16 * states), (actions,))
        action_width = carray(floats_at(constants + first + 16 * states + 8 * actions), (actions,))
        action_high = carray(floats_at(constants + first + 16 * states + 16 * actions), (actions,))
        status = RAN
        for i in range(count):
            state = carray(floats_at(state_at + 8 * size * i), (hidden,))
            point = carray(floats_at(point_at + 8 * states * i), (states,))
            action = carray(floats_at(action_at + 8 * actions * i), (actions,))
            outcome = carray(floats_at(outcome_at + 16 * i), (2,))
            if not unit and not finite:
                for d in range(actions):
                    inner = action_low[d] + action[d] * action_width[d]
                    action[d] = action_high[d] if action[d] == 1.0 else inner  # as `Box.from_unit`
            if veiled:
                following = carray(floats_at(state_at + 8 * (size * i + hidden)), (hidden,))
                reward, ended = step(state, action, numbers, random, following)
                for d in range(hidden):
                    state[d] = following[d]
                observe(state, numbers, point)
            else:
                reward, ended = step(state, action, numbers, random, point)
            outcome[0] = reward
            outcome[1] = ended
            if not abs(reward) <= LARGEST_REWARD:
                status |= BAD_REWARD
            if ended:
                status |= SOME_ENDED
            for d in range(states):
                value = point[d]
                if not veiled:
                    state[d] = value
                if not unit:
                    value = (value - low[d]) / width[d]
                    point[d] = value
                if clip and value == value:
                    value = min(max(value, 0.0), 1.0)
                    point[d] = value
                if not ended and not (-SLACK <= value <= 1.0 + SLACK):
                    status |= BAD_STATE if value == value else BAD_STATE | NO_STATE
        return status

    def begin(count, state_at, point_at, constants, random_at):
        numbers = carray(floats_at(constants), (parameters,))
        random = carray(words_at(random_at), (4,))
        low = carray(floats_at(constants + first), (states,))
        width = carray(floats_at(constants + first + 8 * states), (states,))
        status = RAN
        for i in range(count):
            state = carray(floats_at(state_at + 8 * size * i), (hidden,))
            point = carray(floats_at(point_at + 8 * states * i), (states,))
            reset(numbers, random, state)
            observe(state, numbers, point)
            for d in range(states):
                if not unit:
                    point[d] = (point[d] - low[d]) / width[d]
                if clip and point[d] == point[d]:
                    point[d] = min(max(point[d], 0.0), 1.0)
                if not (-SLACK <= point[d] <= 1.0 + SLACK):
                    status |= BAD_STATE if point[d] == point[d] else BAD_STATE | NO_STATE
        return status

    if config.DISABLE_JIT:
        return advance, begin
    return apart(lambda: (numba.cfunc(ADVANCE)(advance), numba.cfunc(BEGIN)(begin)))
