"""Gymnasium's spaces as the flat boxes that partitions are made of, and back.

Observations: a Box of any shape, Discrete, MultiDiscrete, MultiBinary, and Tuple and Dict of these become one row of
numbers.  Whole numbers keep their order, each in the middle of an interval of width 1, so that n values fill a side of
length n.  Every number has a name: its place in the row for a plain space, else the way to it, such as "wind[0]" for
the first number of the part `wind` of a Dict.

Actions: Discrete, and MultiDiscrete and MultiBinary with few combinations, are numbered; more combinations, and a Box,
become a box, of which whole numbers take the interval that an action falls into.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from spaql.errors import ParameterError
from spaql.spaces import Actions, Box, Finite, Floats

MOST_NUMBERED = 1024  # combinations of a MultiDiscrete action that are numbered one by one
MOST_OBSERVED = 15  # numbers of an observation


@dataclass(frozen=True)
class Part:
    """One simple space within an observation: where its numbers stand in the row, and between which bounds."""

    path: tuple[str | int, ...]  # keys and indices that lead to it
    space: Any
    first: int
    low: Floats
    high: Floats

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return int(self.low.size)

    @property
    def names(self) -> list[str]:
        """Of its numbers."""
        if not self.path:
            return [str(i) for i in range(self.size)]
        name = ".".join(str(step) for step in self.path)
        return [name] if self.size == 1 else [f"{name}[{i}]" for i in range(self.size)]

    def find(self, observation: Any) -> Any:
        """Its value within an observation."""
        for step in self.path:
            observation = observation[step]
        return observation


def _parts(space: Any, path: tuple[str | int, ...], first: int) -> Iterator[Part]:
    if isinstance(space, spaces.Dict | spaces.Tuple):
        steps = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        for step, inner in steps:
            for part in _parts(inner, (*path, step), first):
                yield part
                first = part.first + part.size
        return
    if isinstance(space, spaces.Box):
        low, high = (np.asarray(end, dtype=float).reshape(-1) for end in (space.low, space.high))
    elif isinstance(space, spaces.Discrete):
        low = np.array([float(space.start)]) - 0.5
        high = low + float(space.n)
    elif isinstance(space, spaces.MultiDiscrete):
        low = np.asarray(space.start, dtype=float).reshape(-1) - 0.5
        high = low + np.asarray(space.nvec, dtype=float).reshape(-1)
    elif isinstance(space, spaces.MultiBinary):
        low = np.full(int(np.prod(space.shape)), -0.5)
        high = low + 2.0
    else:
        where = f" in its part {'.'.join(map(str, path))!r}" if path else ""
        raise ParameterError(
            f"observations: {type(space).__name__} spaces{where} are not supported; Box, Discrete, MultiDiscrete, "
            "MultiBinary, Tuple and Dict are"
        )
    if low.size:
        yield Part(path, space, first, low, high)


class Observations:
    """The rows of an observation space.

    Attributes
    ----------
    names
        Of the numbers in a row.
    low, high
        Their bounds as the space declares them, `[d]`; infinite where it declares none.
    """

    def __init__(self, space: Any) -> None:
        self.space = space
        self.parts = list(_parts(space, (), 0))
        self.names = [name for part in self.parts for name in part.names]
        if not self.names:
            raise ParameterError(f"observations: {space} has no numbers to see")
        if len(self.names) > MOST_OBSERVED:
            raise ParameterError(
                f"observations: {len(self.names)} numbers are too many for a partition of their space, at most "
                f"{MOST_OBSERVED}; wrap the environment so that it shows the few that matter (no images)"
            )
        self.low = np.concatenate([part.low for part in self.parts])
        self.high = np.concatenate([part.high for part in self.parts])

    def __len__(self) -> int:
        return len(self.names)

    def writer(self, row: Floats) -> Callable[[Any], None]:
        """A function that writes an observation into a row `[d]`; called at every step, so it takes short cuts."""
        if len(self.parts) == 1 and not self.parts[0].path:
            if self.parts[0].size > 1 and len(self.space.shape) == 1:

                def write_plain(observation: Any) -> None:
                    row[:] = observation

                return write_plain
            view = row.reshape(self.space.shape or ())

            def write_shaped(observation: Any) -> None:
                view[...] = observation

            return write_shaped
        places = [(part, row[part.first : part.first + part.size].reshape(part.space.shape)) for part in self.parts]

        def write_parts(observation: Any) -> None:
            for part, place in places:
                place[...] = part.find(observation)

        return write_parts

    def rows(self, observation: Any) -> tuple[Floats, bool]:
        """One observation, or many stacked along the first axis of every part, as rows `[n, d]`; whether it was one."""
        columns: list[Floats] = []
        sizes: set[int | None] = set()
        for part in self.parts:
            try:
                values = np.asarray(part.find(observation), dtype=float)
            except (KeyError, IndexError, TypeError, ValueError):
                raise ParameterError(
                    f"observation: expected a member of {self.space}, got {observation!r:.80}"
                ) from None
            shape = part.space.shape
            if values.shape == shape:
                sizes.add(None)
            elif values.shape[1:] == shape and values.ndim == len(shape) + 1:
                sizes.add(len(values))
            else:
                name = f" for {'.'.join(map(str, part.path))!r}" if part.path else ""
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
            raise ParameterError(f"observation: {self.names[at[1]]} is {rows[tuple(at)]}, not a finite number")
        return rows, sizes == {None}


class Moves:
    """The actions of an action space, as what a partition can hold.

    Attributes
    ----------
    actions
        `Finite`, or a `Box` in the environment's own units; whole numbers n there are the interval [n - 0.5, n + 0.5).
    """

    def __init__(self, space: Any) -> None:
        self.space = space
        self.actions: Actions
        self._digits: Any = None  # [n] of a numbered combination: sizes of the places
        self._whole = False
        self._start: Any = 0
        if isinstance(space, spaces.Discrete):
            self._start = int(space.start)
            self.actions = self._numbered(int(space.n)) or self._ranged(np.array([space.n]), np.array([space.start]))
        elif isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary):
            if isinstance(space, spaces.MultiBinary):
                sizes, self._start = np.full(space.shape, 2), np.zeros(space.shape, int)
            else:
                sizes, self._start = np.asarray(space.nvec), np.asarray(space.start)
            if math.prod(int(n) for n in sizes.reshape(-1)) <= MOST_NUMBERED:
                self._digits = sizes.reshape(-1)
                self.actions = Finite(int(np.prod(sizes)))
            else:
                self.actions = self._ranged(sizes.reshape(-1), self._start.reshape(-1))
        elif isinstance(space, spaces.Box):
            low, high = (np.asarray(end, dtype=float).reshape(-1) for end in (space.low, space.high))
            if not (np.isfinite(low) & np.isfinite(high)).all():
                raise ParameterError(
                    f"actions: {space} has no bounds on some side; wrap the environment so that its actions have "
                    "(gymnasium.wrappers.RescaleAction or ClipAction)"
                )
            self._whole = np.issubdtype(space.dtype, np.integer) or np.issubdtype(space.dtype, np.bool_)
            self.actions = Box(low - 0.5, high + 0.5, "actions") if self._whole else Box(low, high, "actions")
        else:
            raise ParameterError(
                f"actions: {type(space).__name__} spaces are not supported; Box, Discrete, MultiDiscrete and "
                "MultiBinary are"
            )

    def _numbered(self, count: int) -> Finite | None:
        return Finite(count) if count <= MOST_NUMBERED else None

    def _ranged(self, sizes: Any, start: Any) -> Box:
        self._whole = True
        return Box(start - 0.5, start + sizes - 0.5, "actions")

    def reader(self, action: Floats) -> Callable[[int], Any]:
        """A function that tells an action as the environment takes it; called at every step.

        It is told the number of a finite action; others stand in `action` [actions].
        """
        if isinstance(self.actions, Finite):
            if self._digits is not None:
                table = list(self.many(np.arange(self.actions.count, dtype=float)[:, None]))
                return lambda number: table[number].copy()
            start = self._start
            return lambda number: number + start
        if isinstance(self.space, spaces.Box) and not self._whole:
            dtype, shape, high = self.space.dtype, self.space.shape, self.actions.high
            if shape == action.shape:
                return lambda number: np.minimum(action, high).astype(dtype)
            return lambda number: np.minimum(action, high).astype(dtype).reshape(shape)
        return lambda number: self.one(action[None])

    def one(self, actions: Floats) -> Any:
        """The first of the actions `[n, actions]`; of a Box it is an array even without dimensions, as it must be."""
        many = self.many(actions)
        return many[0, ...] if isinstance(self.space, spaces.Box) else many[0]

    def many(self, actions: Floats) -> Any:
        """Actions `[n, actions]` as the environment takes them, stacked along a first axis."""
        if isinstance(self.actions, Finite):
            numbers = actions[:, 0].astype(np.int64)
            if self._digits is None:
                return numbers + self._start
            places = np.stack(np.unravel_index(numbers, self._digits), axis=-1)
            return (places.reshape(-1, *self.space.shape) + self._start).astype(self.space.dtype)
        if self._whole:
            low, high = np.ceil(self.actions.low), np.floor(self.actions.high - 1e-9)
            whole = np.clip(np.floor(actions + 0.5), low, high)
            return whole.reshape(-1, *self.space.shape).astype(self.space.dtype)
        shaped = np.minimum(actions, self.actions.high).reshape(-1, *self.space.shape)
        return shaped.astype(self.space.dtype)
