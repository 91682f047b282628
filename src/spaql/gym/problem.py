"""A Gymnasium environment as a problem that every agent can learn on.

The agents' kernels move an environment through two compiled functions (`spaql.problems.base`); here these call back
into Python once per step, where `env.step` is played.  After `terminated` nothing follows; after `truncated`, or
`horizon` steps, the episode is over and the value of the last state still counts.

*Ranges.*  A partition needs a box.  Where the observation space has bounds they are taken as they are; where it has
none, or absurdly wide ones, the range is learned from a warm-up of random actions, once, and then stays: from the 1st
to the 99th percentile, and half as much again on both sides.  Whole numbers have half a step more on either side, so
that each is in the middle of its own part.  `bounds` gives ranges instead, `periodic` names numbers that wrap around,
such as angles.  Observations outside are moved to the border, and counted.

*Horizon.*  It is fixed when the problem is made, as kernels, discounts and budgets depend on it.  Where no limit is
declared the warm-up is played in any case, and finds the limit of an environment that truncates its episodes itself:
all truncated episodes were then equally long, and no other was longer.  Other episodes end in 1000 steps.

*Faults.*  An exception of the environment reaches the caller as it is; a number that is not finite, another shape than
the space's, or other values than `reset` and `step` must return, is an `EnvironmentFault` that names the step.  Ctrl-C
takes effect after the current step, and a second one at once.
"""

from __future__ import annotations

import copy
import ctypes
import math
import signal
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Self

import gymnasium
import numpy as np
from numpy.typing import NDArray

from spaql.errors import EnvironmentFault, ParameterError
from spaql.gym import calls
from spaql.gym.callback import bridge, pack_constants
from spaql.gym.encoding import WIDEST, Misfit, Moves, Observations, bounds_to_json, one_number
from spaql.partition.jit import is_waiting
from spaql.partition.rng import LARGEST_SEED, Purpose, generator
from spaql.partition.spaces import Box, Floats
from spaql.problems import base
from spaql.problems.base import Playable, World
from spaql.problems.labels import check_names, find_usual, with_names
from spaql.validation import check_number, check_whole, restore_generator, show

#: options of Gymnasium environments that agents pass on
OPTIONS = ("bounds", "periodic", "horizon", "warm_up", "names", "action_names", "env_kwargs")
WARM_UP = 1000
_UNLIMITED = 1000  # steps of an episode where the environment has no limit
_ENOUGH = 5  # episodes truncated after equally many steps, to take these for the limit


class GymnasiumProblem(Playable):
    """A Gymnasium environment to learn on.

    Parameters
    ----------
    environment
        An id such as "CartPole-v1", a `gymnasium.Env`, or a function without arguments that makes one.
    bounds
        Ranges of observed numbers: a mapping from the name or place of a number to (low, high).
    periodic
        Names or places of numbers that come round: high is low again.  Their bounds must be known.
    horizon
        Steps after which an episode is broken off; the environment's own limit unless given (the least of its `spec`,
        its TimeLimit wrappers and a compiled problem inside it).  Where it declares none, the number of steps after
        which it truncated all such episodes of the warm-up, or 1000 where it truncated none.
    warm_up
        Random steps to learn unknown ranges and an undeclared limit from; they count as steps of training.
    names, action_names
        Names of the observed numbers, and of the discrete actions or the numbers of an action, one for each.
    env_kwargs
        Keyword arguments of the environment, for an id or a function.
    seed
        Of the environment's random numbers.

    Attributes
    ----------
    names
        Of the observed numbers, in the order of `states`: those given, else their paths.
    warm_up_steps
        Environment steps that the warm-up took.
    unlimited
        Whether the horizon is a guess: no limit was given, declared or met.

    Where an environment can be neither made nor copied again, evaluations are played in the one that is learned on,
    and change what is learned after them; a `UserWarning` says so.

    Examples
    --------
    >>> import spaql
    >>> problem = spaql.GymnasiumProblem("CartPole-v1", bounds={1: (-3, 3), 3: (-3.5, 3.5)})
    >>> problem.horizon, problem.actions.count, problem.warm_up_steps
    (500, 2, 0)
    """

    # Of the class until they are set: Python finds attributes quickly in objects of up to 30, and steps look for one.
    _taken = False  # whether an agent has it
    _warned = False  # that there is no other environment to evaluate on
    _ours = False  # whether the environment was made here, for this problem alone
    _world: World | None = None  # None until it is played
    _left_off: Mapping[str, Any] | None = None  # state of the environment's generator, for the next reset
    _error: BaseException | None = None  # that the environment raised
    _began = False  # whether that was in a reset
    _stop = False  # whether Ctrl-C was pressed
    recipe: dict[str, Any] | None = None  # how a file makes the environment, once that was found out
    given_names: list[str] | None = None  # of the observed numbers, by the user
    given_action_names: list[str] | None = None

    def __init__(
        self,
        environment: Any,
        *,
        bounds: Mapping[Any, Any] | None = None,
        periodic: Sequence[Any] = (),
        horizon: int | None = None,
        warm_up: int = WARM_UP,
        names: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
        env_kwargs: Mapping[str, Any] | None = None,
        seed: int = 0,
    ) -> None:
        self._env, self._make, self.module = calls.find_environment(environment, env_kwargs)
        seen, played = calls.get_spaces(self._env)
        self.observations, self.moves = Observations(seen), Moves(played)
        self.actions, self.name = self.moves.actions, calls.name_env(self._env)
        usual = find_usual(self)
        if names is not None:  # first, as `bounds` and `periodic` may have them
            self.given_names = check_names(names, "names", usual.states)
        if action_names is not None:
            self.given_action_names = check_names(action_names, "action_names", usual.actions)
        limit = calls.find_limit(self._env)
        self.unlimited = horizon is None and limit is None
        if horizon is None:
            horizon = _UNLIMITED if limit is None else limit
        self.horizon = check_whole(horizon, "horizon", 1, base.LONGEST)
        self.seed = check_whole(seed, "seed", 0, LARGEST_SEED)
        several = isinstance(periodic, Iterable) and not isinstance(periodic, str)
        self.periodic = [self._place(name, "periodic") for name in (periodic if several else [periodic])]
        low, high, known = self._declare_ranges(bounds)
        if self.unlimited or not known.all():
            rows = self._play_warm_up(check_whole(warm_up, "warm_up", 10, 10_000_000), ranges=not known.all())
            self._learn_ranges(low, high, known, rows)
        self.arguments = {"environment": self.name, "horizon": self.horizon}
        self.states = Box(low, high, "bounds")
        self._build()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, names={self.names}, horizon={self.horizon})"

    @property
    def limit(self) -> int | None:
        """Steps after which the environment says that it truncates an episode, or None."""
        return calls.find_limit(self.env)

    @property
    def paths(self) -> list[str]:
        """Names of the observed numbers by the observation space."""
        return self.observations.names

    @property
    def names(self) -> list[str]:
        """Names of the observed numbers: those that the user gave, else their paths."""
        return self.given_names or self.paths

    @property
    def env(self) -> Any:
        """The environment, made now where it was only described."""
        if isinstance(self._env, calls.Described) and self._make is not None:
            made = self._make()
            if compare_spaces(self.paths, bounds_to_json(self.actions), made):
                raise ParameterError(
                    f"environment: {self.name!r} has other observations or actions now than when the agent learned; "
                    "give the one it learned on: load(path, env=...)"
                )
            self._env = made
        return self._env

    def _place(self, name: Any, what: str) -> int:
        """Return the index of a number in the row, from its name or index."""
        usual = find_usual(self).states
        for names in (self.names, usual, self.paths):
            if isinstance(name, str) and name in names:
                return names.index(name)
        if isinstance(name, str) and name.isdecimal():  # keys of JSON and words of a command line are text
            name = int(name)
        if isinstance(name, int | np.integer) and not isinstance(name, bool) and 0 <= name < len(self.names):
            return int(name)
        known = ", ".join(self.given_names or usual)
        raise ParameterError(f"{what}: {show(name)} is no observed number; there are {known}")

    def _declare_ranges(self, bounds: Mapping[Any, Any] | None) -> tuple[Floats, Floats, Any]:
        """Return ranges from the space and the user, and which of them are known."""
        low, high = self.observations.low.copy(), self.observations.high.copy()
        with np.errstate(over="ignore", invalid="ignore"):
            known = high - low < WIDEST
        if bounds is not None and not isinstance(bounds, Mapping):
            raise ParameterError(f"bounds: expected a mapping from names or places to (low, high), got {show(bounds)}")
        given_as: dict[int, Any] = {}
        for name, ends in (bounds or {}).items():
            at, what = self._place(name, "bounds"), f"bounds of {name!r}"
            if (other := given_as.setdefault(at, name)) is not name:
                raise ParameterError(f"bounds: {other!r} and {name!r} are the same number; give one of them")
            try:
                first, last = ends
            except (TypeError, ValueError) as error:
                raise ParameterError(f"bounds: expected (low, high) for {name!r}, got {show(ends)}") from error
            given = Box(check_number(first, what), check_number(last, what), what)
            low[at], high[at], known[at] = given.low[0], given.high[0], True
        for name in (self.names[at] for at in self.periodic if not known[at]):
            raise ParameterError(f"periodic: {name} has no bounds, so no period; give bounds={{{name!r}: (low, high)}}")
        same = known & ~(high > low)  # a constant: any box around it will do
        with np.errstate(over="ignore"):  # then `Box` says so
            margin = 0.5 * np.maximum(1.0, np.abs(low[same]))
            low[same], high[same] = low[same] - margin, high[same] + margin
        return low, high, known

    def _play_warm_up(self, steps: int, *, ranges: bool) -> Floats:
        """Play random actions and return what they showed, `[steps + 1, states]`; take over an undeclared limit.

        Unless `ranges` are to be learned it stops at `_ENOUGH` episodes that the environment truncated alike.
        """
        random = generator(self.seed, Purpose.WARM_UP)
        row = np.empty(len(self.paths))
        write = self.observations.writer(row)
        rows = np.empty((steps + 1, row.size))
        self.env.action_space.seed(calls.draw_seed(random))
        played = elapsed = longest = 0
        cuts: list[int] = []  # lengths of the episodes that the environment truncated

        def see(at: int) -> None:
            write(observation)
            if not all(map(math.isfinite, row.tolist())):
                self._refuse(row, f"in step {played} of the warm-up")
            rows[at] = row

        try:
            observation = calls.start_episode(self.env.reset, calls.draw_seed(random))
            for step in range(steps):
                see(step)
                played, elapsed = step + 1, elapsed + 1
                observation, _, terminated, truncated, _ = self.env.step(self.env.action_space.sample())
                longest = max(longest, elapsed)
                if terminated or truncated or elapsed >= self.horizon:
                    see(step)  # the last observation counts, not the one before
                    cuts += [elapsed] if truncated and not terminated else []
                    if not ranges and len(cuts) == _ENOUGH and min(cuts) == longest:
                        break
                    observation, elapsed = calls.start_episode(self.env.reset, None), 0
            see(played)
        except Exception as error:  # whatever the environment raises
            misfit = calls.to_misfit(error)
            if isinstance(misfit, Misfit):
                raise self._fault(misfit, f"in step {played} of the warm-up") from error
            raise
        self.warm_up_steps = played
        if self.unlimited and cuts and min(cuts) == longest:  # else they were truncated for another reason than time
            self.horizon, self.unlimited = longest, False
        return rows[: played + 1]

    def _learn_ranges(self, low: Floats, high: Floats, known: Any, rows: Floats) -> None:
        """Set the unknown ranges from what a warm-up showed."""
        for at in np.flatnonzero(~known):
            with np.errstate(over="ignore", invalid="ignore"):  # then `Box` says so
                least, most = np.quantile(rows[:, at], [0.01, 0.99])
                margin = 0.5 * (most - least) or 0.5 * max(1.0, abs(most))
                first, last = least - margin, most + margin
                if self.observations.whole[at]:
                    first, last = np.floor(first) - 0.5, np.ceil(last) + 0.5
                if max(low[at], first) < min(high[at], last):  # else what is shown is not within the space's bounds
                    first, last = max(low[at], first), min(high[at], last)
                low[at], high[at] = first, last

    @property
    def clipped(self) -> NDArray[np.int64]:
        """Count of observations outside its range for each number, `[states]`."""
        return self._tally[:-1].copy()

    def _build(self) -> None:
        """Allocate buffers and seeds; the compiled functions are made when the environment is first played."""
        states, actions = self.states.dimensions, self.actions.dimensions
        self._world = self._error = self._left_off = None
        self._stop = False
        self._action, self._seen, self._reward = np.zeros(actions), np.zeros(states), np.zeros(1)
        self._tally = np.zeros(states + 1, np.int64)  # clipped numbers; steps of the episode
        self._seeds = generator(self.seed, Purpose.TRAINING_ENVIRONMENT)
        self._next_seed: int | None = calls.draw_seed(self._seeds)

    @property
    def world(self) -> World:  # type: ignore[override]
        """The callback into Python, and the compiled functions around it."""
        if self._world is None:
            self._callback = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(self._move())
            self._moves = bridge()
            address = ctypes.cast(self._callback, ctypes.c_void_p).value or 0
            addresses = [address, *(a.ctypes.data for a in (self._action, self._seen, self._reward, self._tally))]
            box = self.actions if isinstance(self.actions, Box) else None
            rounds = np.isin(np.arange(self.states.dimensions), list(self.periodic))
            constants = pack_constants(addresses, self.states, box, rounds)
            advance, begin = (getattr(move, "address", move) for move in self._moves)
            self._world = World(advance, begin, constants, self.max_copies)
        return self._world

    def _move(self) -> Callable[[int], int]:
        """Return the function that compiled code calls for a step or a reset, and that returns a status."""
        read, write = self.moves.reader(self._action), self.observations.writer(self._seen)
        reward: Any = self._reward.data  # quicker to write to
        play, restart, inside = self.env.step, self.env.reset, self.env.unwrapped
        ran, ended, cut = base.RAN, base.RAN | base.SOME_ENDED, base.RAN | base.SOME_CUT
        numbers = frozenset((float, int, bool, np.float64, np.float32, np.int64, np.bool_))  # as most rewards are

        def move(what: int) -> int:
            try:
                if what >= 0:
                    observation, gained, terminated, truncated, _ = play(read(what))  # see `to_misfit`
                    try:
                        reward[0] = gained if gained.__class__ in numbers else one_number(gained)
                    except ValueError:  # of a whole number without end
                        one_number(gained)
                    write(observation)
                    if terminated:
                        return ended
                    if self._stop and not truncated and self._tally[-1] + 1 < self.horizon:  # else it is finished
                        raise KeyboardInterrupt
                    return cut if truncated else ran
                if self._stop:
                    raise KeyboardInterrupt
                seed, self._next_seed = self._next_seed, None
                if self._left_off is not None:
                    state, self._left_off = self._left_off, None
                    # The seed is for what draws from generators of its own.
                    calls.start_episode(restart, calls.seed_of_state(state))
                    inside.np_random.bit_generator.state = state
                elif seed is None and calls.find_generator(inside) is None:  # it goes on with what a file cannot hold
                    seed = calls.draw_seed(self._seeds)
                write(calls.start_episode(restart, seed))
                return ran
            except BaseException as error:  # all of them: none may cross compiled code
                self._error = calls.to_misfit(error)
                self._began = what < 0
                return 0

        return move

    @contextmanager
    def defer_interrupts(self) -> Iterator[None]:
        """Defer Ctrl-C until the current step is done."""
        self._stop = False
        before = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is not threading.main_thread() or before is not signal.default_int_handler:
            yield
            return

        def hear(number: int, frame: Any) -> None:
            if self._stop or is_waiting():
                raise KeyboardInterrupt
            self._stop = True

        signal.signal(signal.SIGINT, hear)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def check(self, status: int, where: str) -> None:
        """Raise what the environment raised, or an `EnvironmentFault` for values that are not finite."""
        error, self._error = self._error, None
        if error is None and (self._stop or not status & base.RAN):
            # Heard after the last step; or raised by the handler of a signal between two lines of the callback.
            error = KeyboardInterrupt()
        self._stop = False
        if isinstance(error, Misfit):
            step = 0 if self._began else self._tally[-1] + 1
            raise self._fault(error, f"in step {step} of an episode, {where}")
        if error is not None:
            raise error
        where = f"in step {self._tally[-1]} of an episode, {where}"
        if status & base.BAD_REWARD:
            must = f"rewards must be finite numbers of at most {base.LARGEST_REWARD:g}"
            raise self._fault(Misfit(f"gave the reward {self._reward[0]}", must), where)
        if status & base.BAD_STATE:
            self._refuse(self._seen, where)

    def _fault(self, misfit: Misfit, where: str) -> EnvironmentFault:
        did, must = misfit.args
        return EnvironmentFault(f"environment {self.name!r} {did} {where}; {must}: mend its step or reset function")

    def _refuse(self, row: Floats, where: str) -> None:
        at = int(np.argmax(~np.isfinite(row)))
        did = f"showed {row[at]} as {self.observations.called(at)}"
        raise self._fault(Misfit(did, "observations must be finite numbers"), where)

    def encode(self, observation: Any) -> tuple[Floats, bool]:
        """Return observations as points of the unit cube; those outside their range are moved to the border."""
        rows, single = self.observations.rows(observation)
        return self.states.project(rows, self.periodic), single  # as the bridge does

    def flatten(self, observation: Any) -> tuple[Floats, bool]:
        """Return observations as their numbers `[n, states]`; whether it was one."""
        return self.observations.rows(observation)

    def unflatten(self, numbers: Floats) -> Any:
        """Return the observation that has these numbers `[states]`."""
        return self.observations.unflatten(numbers)

    def read_observation(self, frame: base.Frame) -> Floats:
        """Return the last observation, `[states]`, before any clipping."""
        return self._seen.copy()

    @property
    def whole(self) -> NDArray[np.bool_]:
        """Which observed numbers are integers, `[states]`."""
        return self.observations.whole

    def decode(self, actions: Floats, single: bool) -> Any:
        """Return actions as the environment takes them."""
        return self.moves.one(actions) if single else self.moves.many(actions)

    def _on(self, env: Any, seed: int) -> Self:
        """Return the same ranges on another environment, with seeds from the beginning."""
        other = copy.copy(self)
        other._env, other.seed = env, seed
        other._build()
        return other

    def for_evaluation(self, seed: int) -> Self:
        """Return the same ranges on another environment with a seed of its own; close it afterwards."""
        env, ours = self._twin()
        fresh = self._on(env, seed)
        fresh._ours = ours
        fresh._next_seed = calls.draw_seed(generator(seed, Purpose.EVALUATION_ENVIRONMENT))
        return fresh

    def close(self) -> None:
        """Close the environment if it was made here, for this problem alone."""
        # Not one with a window: closing it closes the windows of all others of its kind.
        if self._ours and getattr(self.env, "render_mode", None) != "human":
            self.env.close()

    def for_agent(self) -> Self:
        """Return the problem for one agent; a second one gets another environment, and seeds from the beginning."""
        if self._taken:
            return self._on(self._twin()[0], self.seed)
        self._taken = True
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copy it with its environment, or with a new one where that cannot be copied; seeds go on."""
        memo[id(self)] = other = self._on(self._env, self.seed)
        seeds, seed, left_off = copy.deepcopy(self._seeds, memo), self._next_seed, self._left_off
        try:
            other._env = copy.deepcopy(self._env, memo)
        except Exception:  # whatever an environment holds that cannot be copied
            other._env, _ = self._twin()
            if seed is None:  # it knows nothing of the random numbers so far
                seed = calls.draw_seed(seeds)
        other._seeds, other._next_seed, other._left_off = seeds, seed, left_off
        other._tally[:] = self._tally
        return other

    def with_env(self, env: Any) -> GymnasiumProblem:
        """Return the same ranges on another environment."""
        found = calls.find_environment(env)
        if compare_spaces(self.paths, bounds_to_json(self.actions), found.made):
            difference = f"{calls.name_env(found.made)!r} has other observations or actions than {self.name!r}"
            raise ParameterError(f"env: {difference}, on which was learned")
        ranges = dict(enumerate(zip(self.states.low, self.states.high, strict=True)))
        names = {"names": self.given_names, "action_names": self.given_action_names}
        options: dict[str, Any] = {"periodic": self.periodic, "horizon": self.horizon, "seed": self.seed, **names}
        other = GymnasiumProblem(found, bounds=ranges, **options)
        other._taken, other.warm_up_steps = True, self.warm_up_steps
        other.go_on(self.progress())
        return other

    def take_seed(self) -> int | None:
        """Return the seed that the next episode is to begin with, and use it up."""
        seed, self._next_seed = self._next_seed, None
        return seed

    def set_seed(self, seed: int) -> None:
        """Let the next episode begin with a seed."""
        self._next_seed = seed

    def progress(self) -> dict[str, Any]:
        """Return the state of its random numbers for JSON: the stream of seeds, and Gymnasium's `np_random`."""
        state, seed = self._left_off, self._next_seed
        if seed is None and state is None:
            random = calls.find_generator(self._env.unwrapped)
            state = None if random is None else random.bit_generator.state
        return {"seed": self.seed, "seeds": self._seeds.bit_generator.state, "next": seed, "generator": state}

    def go_on(self, progress: Mapping[str, Any]) -> None:
        """Go on from what `progress` returned, so that no start of an episode comes twice.

        An environment that draws from Gymnasium's `np_random` alone goes on exactly, and so does one that has none,
        as every episode of it begins with a seed; one that remembers more from episode to episode does not.
        """
        self.seed = check_whole(progress["seed"], "seed", 0, LARGEST_SEED)
        restore_generator(self._seeds, progress["seeds"])
        unused, state = progress["next"], progress.get("generator")
        if state is not None:
            restore_generator(np.random.default_rng(0), state)  # a ValueError if it is invalid
        self._next_seed = None if unused is None else check_whole(unused, "next", 0)
        self._left_off = state

    def _twin(self) -> tuple[Any, bool]:
        """Return another environment like it, and whether it is new; the same one where there can be no other."""
        if self._make is not None:
            made = self._make()
            if made.unwrapped is not self.env.unwrapped:
                return made, True
        try:
            return copy.deepcopy(self.env), False  # not new: it may hold what belongs to the other
        except Exception:  # whatever an environment holds that cannot be copied
            if self.env.spec is not None:
                with suppress(Exception):  # a wrapper may not tell how it was made
                    return gymnasium.make(self.env.spec), True
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"environment {self.name!r} can be neither made nor copied again, so evaluations and other agents play "
                "in the one that is learned on, which changes what is learned; give a function that makes a new one "
                "each time",
                UserWarning,
                stacklevel=4,  # who called `evaluate`
            )
        self._next_seed = calls.draw_seed(self._seeds)  # or learning would go on with the other's random numbers
        return self.env, False


def compare_spaces(names: list[str], actions: Mapping[str, Any], env: Any) -> str:
    """Return how an environment differs from what was learned on; an empty text where it does not."""

    def word(actions: Mapping[str, Any]) -> str:
        many = f"from {actions.get('low')} to {actions.get('high')}"
        return f"{actions['count']} actions" if "count" in actions else f"actions {many}"

    seen, played = calls.get_spaces(env)
    shown, taken = Observations(seen).names, bounds_to_json(Moves(played).actions)
    if shown != names:
        return f"saw {', '.join(names)}, and this shows {', '.join(shown)}"
    if taken != actions:
        return f"played {word(actions)}, and {calls.name_env(env)!r} takes {word(taken)}"
    return ""


def resolve_problem(
    problem: Any, *, seed: int = 0, env_kwargs: Mapping[str, Any] | None = None, **environment: Any
) -> Playable:
    """Return whatever a user may call a problem as one that agents can learn on.

    That is the name of a built-in problem, a Gymnasium id ("CartPole-v1", or "my_module:Tank-v0" where importing a
    module registers it), "my_module:make_tank" for a function that makes a problem or an environment; or a problem, a
    `gymnasium.Env`, or such a function itself.  `env_kwargs` are keywords for the function or environment that a name
    stands for, `environment` those of `spaql.GymnasiumProblem`; `names` and `action_names` are for compiled ones too.
    """
    for name in environment:
        if name not in OPTIONS:
            raise ParameterError(f"{name}: no agent has such a parameter, and environments have {', '.join(OPTIONS)}")
    options = {name: value for name, value in environment.items() if value is not None}
    found = calls.find_problem(problem, env_kwargs)
    if not isinstance(found.made, Playable):
        return GymnasiumProblem(found, seed=seed, **options)
    compiled = not isinstance(found.made, GymnasiumProblem)
    words = {name: options.pop(name) for name in ("names", "action_names") if compiled and name in options}
    if options:
        raise ParameterError(f"{next(iter(options))}: for Gymnasium environments only; {found.made.name!r} has its own")
    return with_names(found.made, **words) if words else found.made


def find_function(problem: str, arguments: Mapping[str, Any]) -> Callable[[], Any] | None:
    """Return what makes the problem or environment of a name "module:function"; None for names of other kinds."""
    function = calls.import_function(problem)
    if function is None:
        return None

    def make() -> Any:
        made = calls.call_maker(partial(function, **arguments))
        return made.env if isinstance(made, GymnasiumProblem) else made

    return make
