"""Gymnasium's spaces as the flat boxes of partitions, and back.

Observations: a Box of any shape, Discrete, MultiDiscrete, MultiBinary, and Tuple and Dict of these become one row of
numbers.  Integers, those of a Box too, keep their order, each in the middle of an interval of width 1, so that n values
fill a side of length n.  Every number has a name: its index in the row for a plain space, else its path, such as
"wind[0]" for the first number of the part `wind` of a Dict.

Actions: Discrete, and MultiDiscrete and MultiBinary with few combinations, are numbered; more combinations, and a Box,
become a box, in which an integer is the interval around it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from spaql.errors import ParameterError
from spaql.partition.spaces import Actions, Box, Discrete, Floats
from spaql.problems.base import LARGEST_REWARD

MOST_NUMBERED = 1024  # combinations of a MultiDiscrete action that are numbered one by one
MOST_OBSERVED = 15  # numbers of an observation
WIDEST = 1e6  # a wider range than this is none
_HALVES = 2.0**52  # floating-point numbers have halves up to here


class Misfit(Exception):
    """An environment returned something invalid: what it did, and what must be; becomes an `EnvironmentFault`."""


def one_number(value: Any) -> float:
    """Return a reward that is a single number in any wrapping, such as `array([1.0])`."""
    try:
        array = np.asarray(value)
        if array.size == 1 and array.dtype.kind in "biufO" and not isinstance(array.item(), str | bytes):
            return float(array.item())
    except (TypeError, ValueError, OverflowError):
        pass
    raise Misfit(f"gave the reward {line(value)}", f"rewards must be finite numbers of at most {LARGEST_REWARD:g}")


def line(value: Any) -> str:
    """Return a representation on one short line."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."


def _halves(low: Any, high: Any, what: str) -> tuple[Floats, Floats]:
    """Return bounds of integers `[d]` with half a step on either side."""
    lower, upper = (np.asarray(end, dtype=float).reshape(-1) for end in (low, high))
    far = np.maximum(np.abs(lower), np.abs(upper)) >= _HALVES
    if (far & (upper - lower < WIDEST)).any():
        raise ParameterError(
            f"{what}: integers beyond {_HALVES:.0f} cannot be distinguished as floats; wrap the environment so that "
            "they begin at 0"
        )
    return lower - 0.5, upper + 0.5


@dataclass(frozen=True)
class Part:
    """One simple space within an observation: the places and bounds of its numbers in the row."""

    path: tuple[str | int, ...]  # keys and indices that lead to it
    space: Any
    first: int
    low: Floats
    high: Floats
    whole: bool  # whether they are whole numbers

    @property
    def size(self) -> int:
        """Number of its numbers."""
        return int(self.low.size)

    @property
    def names(self) -> list[str]:
        """Names of its numbers."""
        if not self.path:
            return [str(i) for i in range(self.size)]
        name = self.title
        return [name] if self.size == 1 else [f"{name}[{i}]" for i in range(self.size)]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of its value."""
        return tuple(self.space.shape)

    @property
    def title(self) -> str:
        """Its path, or an empty string for a plain space."""
        return ".".join(str(step) for step in self.path)

    def find(self, observation: Any) -> Any:
        """Return its value within an observation."""
        for step in self.path:
            observation = observation[step]
        return observation

    def filler(self, row: Floats) -> Callable[[Any], None]:
        """Return a function that writes its value into its places of a row `[d]`; called at every step."""
        shape, size = self.shape, self.size
        place = row[self.first : self.first + size].reshape(shape)
        if len(shape) == 1 and size > 1:

            def fill_line(value: Any) -> None:
                try:
                    if len(value) == size:  # or a single number would be written everywhere
                        place[...] = value
                        return
                except (TypeError, ValueError):
                    pass
                raise self.misfit(value)

            return fill_line

        def fill(value: Any) -> None:
            given = getattr(value, "shape", None)
            try:
                if given is None:
                    given = () if isinstance(value, int | float) else np.shape(value)
                if given == shape:
                    place[...] = value
                    return
            except (TypeError, ValueError):
                pass
            raise self.misfit(value)

        return fill

    def misfit(self, value: Any) -> Misfit:
        """Return the fault of a value that has another shape, or is not made of numbers."""
        try:
            given = np.shape(value)
        except ValueError:  # rows of several lengths
            given = self.shape
        shown = f"shape {given}" if given != self.shape else line(value)
        part = "part " if self.path and not isinstance(self.path[0], str) else ""
        name = f" as {part}{self.title}" if self.path else ""
        return Misfit(f"showed {shown}{name}", f"observations must be numbers of shape {self.shape}{name}")


def _parts(space: Any, path: tuple[str | int, ...], first: int) -> Iterator[Part]:
    if isinstance(space, spaces.Dict | spaces.Tuple):
        steps = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        for step, inner in steps:
            for part in _parts(inner, (*path, step), first):
                yield part
                first = part.first + part.size
        return
    ends = _whole_ends(space)
    if ends is not None:
        low, high = _halves(*ends, "observations")
    elif isinstance(space, spaces.Box):
        low, high = (np.asarray(end, dtype=float).reshape(-1) for end in (space.low, space.high))
    else:
        where = f" in its part {'.'.join(map(str, path))!r}" if path else ""
        raise ParameterError(
            f"observations: {type(space).__name__} spaces{where} are not supported; Box, Discrete, MultiDiscrete, "
            "MultiBinary, Tuple and Dict are"
        )
    if low.size:
        yield Part(path, space, first, low, high, ends is not None)


def _whole_ends(space: Any) -> tuple[Any, Any] | None:
    """Return the first and last integer of a space, or None for other spaces."""
    if isinstance(space, spaces.Discrete):
        return int(space.start), int(space.start) + int(space.n) - 1
    if isinstance(space, spaces.MultiDiscrete):
        start = np.asarray(space.start, dtype=float)
        return start, start + (np.asarray(space.nvec, dtype=float) - 1.0)
    if isinstance(space, spaces.MultiBinary):
        return np.zeros(space.shape), np.ones(space.shape)
    if isinstance(space, spaces.Box) and np.dtype(space.dtype).kind in "biu":
        return space.low, space.high
    return None


class Observations:
    """The rows of an observation space.

    Attributes
    ----------
    names
        Of the numbers in a row.
    low, high
        Their bounds as the space declares them, `[d]`; infinite where it declares none.
    whole
        Which are whole numbers, `[d]`; their bounds are half a step farther out.
    """

    def __init__(self, space: Any) -> None:
        self.space = space
        self.parts = list(_parts(space, (), 0))
        self.names = [name for part in self.parts for name in part.names]
        if not self.names:
            raise ParameterError(f"observations: {line(space)} has no numbers to see")
        if len(self.names) > MOST_OBSERVED:
            raise ParameterError(
                f"observations: {len(self.names)} numbers are too many for a partition of their space, at most "
                f"{MOST_OBSERVED}; wrap the environment so that it shows the few that matter (no images)"
            )
        self.low = np.concatenate([part.low for part in self.parts])
        self.high = np.concatenate([part.high for part in self.parts])
        self.whole = np.concatenate([np.full(part.size, part.whole) for part in self.parts])

    def __len__(self) -> int:
        return len(self.names)

    def called(self, at: int) -> str:
        """Return the name of a number for messages, or "number i of the observation" where it has none."""
        path = next(part.path for part in reversed(self.parts) if part.first <= at)
        if path and isinstance(path[0], str):
            return self.names[at]
        return f"{'part' if path else 'number'} {self.names[at]} of the observation"

    def writer(self, row: Floats) -> Callable[[Any], None]:
        """Return a function that writes an observation into a row `[d]`; called at every step, may raise `Misfit`."""
        if len(self.parts) == 1 and not self.parts[0].path:
            return self.parts[0].filler(row)
        fillers = [(part, part.filler(row)) for part in self.parts]

        def write_parts(observation: Any) -> None:
            for part, fill in fillers:
                try:
                    value = part.find(observation)
                except (KeyError, IndexError, TypeError) as error:
                    must = f"observations must be members of {line(self.space)}"
                    raise Misfit(f"showed {line(observation)}", must) from error
                fill(value)

        return write_parts

    def unflatten(self, row: Floats) -> Any:
        """Return an observation with the numbers of a row `[d]`, for `rows`; parts of a Tuple have indices as keys."""
        nested: dict[str | int, Any] = {}
        for part in self.parts:
            value = row[part.first : part.first + part.size].reshape(part.shape)
            if not part.path:
                return value
            at = nested
            for step in part.path[:-1]:
                at = at.setdefault(step, {})
            at[part.path[-1]] = value
        return nested

    def rows(self, observation: Any) -> tuple[Floats, bool]:
        """Return one observation, or many stacked along the first axis of every part, as rows; whether it was one."""
        columns: list[Floats] = []
        sizes: set[int | None] = set()
        for part in self.parts:
            try:
                values = np.asarray(part.find(observation), dtype=float)
            except (KeyError, IndexError, TypeError, ValueError) as error:
                raise ParameterError(
                    f"observation: expected a member of {line(self.space)}, got {line(observation)}"
                ) from error
            shape = part.shape
            if values.shape == shape:
                sizes.add(None)
            elif values.shape[1:] == shape and values.ndim == len(shape) + 1:
                sizes.add(len(values))
            else:
                name = f" for {part.title!r}" if part.path else ""
                raise ParameterError(
                    f"observation: expected shape {shape}{name}, or (n, ...) for many, got {values.shape}"
                )
            columns.append(values.reshape(-1, part.size))
        if len(sizes) > 1:
            raise ParameterError("observation: its parts are not equally many")
        rows = np.ascontiguousarray(np.concatenate(columns, axis=1))
        bad = ~np.isfinite(rows)
        if bad.any():
            at = np.argwhere(bad)[0]
            name = self.called(at[1]).removesuffix(" of the observation")
            raise ParameterError(f"observation: {name} is {rows[tuple(at)]}, not a finite number")
        return rows, sizes == {None}


class Moves:
    """The actions of an action space, for a partition.

    Attributes
    ----------
    actions
        `Discrete`, or a `Box` in the environment's own units; an integer n there is the interval [n - 0.5, n + 0.5).
    """

    def __init__(self, space: Any) -> None:
        self.space = space
        self.actions: Actions
        self._digits: Any = None  # [n] of a numbered combination: sizes of the places
        self._whole = False
        self._least = self._most = np.zeros(0)  # of the whole numbers, as floats
        self._start: Any = 0
        if isinstance(space, spaces.Discrete):
            self._start = int(space.start)
            self.actions = Discrete(int(space.n)) if int(space.n) <= MOST_NUMBERED else self._ranged()
        elif isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary):
            if isinstance(space, spaces.MultiBinary):
                sizes, self._start = np.full(space.shape, 2), np.zeros(space.shape, int)
            else:
                sizes, self._start = np.asarray(space.nvec), np.asarray(space.start)
            if math.prod(int(n) for n in sizes.reshape(-1)) <= MOST_NUMBERED:
                self._digits = sizes.reshape(-1)
                self.actions = Discrete(int(np.prod(sizes)))
            else:
                self.actions = self._ranged()
        elif isinstance(space, spaces.Box):
            low, high = (np.asarray(end, dtype=float).reshape(-1) for end in (space.low, space.high))
            if not (np.isfinite(low) & np.isfinite(high)).all():
                raise ParameterError(
                    f"actions: {line(space)} has no bounds on some side; wrap the environment so that its actions "
                    "have (gymnasium.wrappers.RescaleAction or ClipAction)"
                )
            self.actions = self._ranged() if _whole_ends(space) is not None else Box(low, high, "actions")
        else:
            raise ParameterError(
                f"actions: {type(space).__name__} spaces are not supported; Box, Discrete, MultiDiscrete and "
                "MultiBinary are"
            )

    def _ranged(self) -> Box:
        """Return a box for integers."""
        self._whole = True
        first, last = _whole_ends(self.space) or (0, 0)
        box = Box(*_halves(first, last, "actions"), "actions")
        low, high = np.ceil(box.low), np.floor(box.high - 1e-9)
        if np.dtype(self.space.dtype).kind in "iu":  # the largest may round to more than its type can hold
            most = float(np.iinfo(self.space.dtype).max)
            high = np.where((high >= most) & (most >= _HALVES), np.nextafter(most, 0.0), high)
        self._least, self._most = low, high
        return box

    def reader(self, action: Floats) -> Callable[[int], Any]:
        """Return a function that returns an action as the environment takes it; called at every step.

        Its argument is the number of a discrete action; others are in `action` [actions], within their bounds.
        """
        if isinstance(self.actions, Discrete):
            if self._digits is not None:
                table = list(self.many(np.arange(self.actions.count, dtype=float)[:, None]))
                return lambda number: table[number].copy()
            start = self._start
            return lambda number: number + start
        if isinstance(self.space, spaces.Box) and not self._whole:
            kind, shape = self.space.dtype.type, self.space.shape
            if shape == action.shape:
                return lambda number: action.astype(kind)
            return lambda number: action.astype(kind).reshape(shape)
        return lambda number: self.one(action[None])

    def one(self, actions: Floats) -> Any:
        """Return the first of the actions `[n, actions]`; of a Box it is an array even without dimensions."""
        many = self.many(actions)
        return many[0, ...] if isinstance(self.space, spaces.Box) else many[0]

    def many(self, actions: Floats) -> Any:
        """Return actions `[n, actions]` as the environment takes them, stacked along a first axis."""
        if isinstance(self.actions, Discrete):
            numbers = actions[:, 0].astype(np.int64)
            if self._digits is None:
                return numbers + self._start
            places = np.stack(np.unravel_index(numbers, self._digits), axis=-1)
            return (places.reshape(-1, *self.space.shape) + self._start).astype(self.space.dtype)
        if self._whole:
            whole = np.clip(np.floor(actions + 0.5), self._least, self._most)
            return whole.reshape(-1, *self.space.shape).astype(self.space.dtype)
        shaped = np.minimum(actions, self.actions.high).reshape(-1, *self.space.shape)
        return shaped.astype(self.space.dtype)
