"""Gymnasium's spaces as the flat boxes of partitions, and back, and as JSON.

Observations: a Box of any shape, Discrete, MultiDiscrete, MultiBinary, and Tuple and Dict of these become one row of
numbers.  Integers, those of a Box too, keep their order, each in the middle of an interval of width 1, so that n values
fill a side of length n.  Every number has a name: its index in the row for a plain space, else its path, such as
"wind[0]" for the first number of the part `wind` of a Dict.

Actions: Discrete, and MultiDiscrete and MultiBinary with few combinations, are numbered; more combinations, and a Box,
become a box, in which an integer is the interval around it.

Spaces as JSON, for agent files that are used without their environment (`docs/reference/format.md`): arrays are flat,
in C order, infinities are strings.  At most `MOST_NUMBERS` numbers are read, so that a file cannot ask for large
arrays.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import getitem
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from spaql.errors import ParameterError
from spaql.partition.spaces import Actions, Box, Discrete, Floats
from spaql.problems.base import LARGEST_REWARD
from spaql.validation import show

MOST_NUMBERED = 1024  # combinations of a MultiDiscrete action that are numbered one by one
MOST_OBSERVED = 15  # numbers of an observation
WIDEST = 1e6  # a wider range than this is none
MOST_NUMBERS = 1024  # of a space in a file
_DEEPEST = 16
_TYPES = frozenset(f"{kind}{bits}" for kind in ("int", "uint", "float") for bits in (8, 16, 32, 64)) | {"bool"}
_ARRAYS = {"MultiBinary": (), "MultiDiscrete": ("nvec", "start"), "Box": ("low", "high")}
_HALVES = 2.0**52  # floating-point numbers have halves up to here
_MANY = "or (n, ...) for many"


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
    raise Misfit(f"gave the reward {show(value)}", f"rewards must be finite numbers of at most {LARGEST_REWARD:g}")


def _leaves(space: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield the simple spaces within a space, with the keys and indices that lead to them."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        steps = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        for step, inner in steps:
            yield from _leaves(inner, (*path, step))
    else:
        yield path, space


def _check_keys(space: Any, observation: Any, title: str = "") -> None:
    """Raise a ParameterError that names the part of an observation that is missing, or that a space does not have."""
    if not isinstance(space, spaces.Dict | spaces.Tuple):
        return
    parts = space.spaces if isinstance(space, spaces.Dict) else dict(enumerate(space.spaces))
    sequence = (tuple, list, np.ndarray) if isinstance(space, spaces.Tuple) else ()
    given: Any
    where, keys = f" for {title!r}" if title else "", ", ".join(map(repr, parts))
    if isinstance(observation, Mapping):
        given = observation.keys()
    elif isinstance(observation, sequence) and getattr(observation, "shape", True):  # not of a single number
        given = range(len(observation))
    else:
        kind = "mapping with the keys" if isinstance(space, spaces.Dict) else "tuple of the parts"
        raise ParameterError(f"observation: expected a {kind} {keys}{where}, got {show(observation)}")
    for what, names, others in (("is missing", parts, given), ("is not one of its parts", given, parts)):
        for name in names:
            if name not in others:
                raise ParameterError(f"observation: {name!r} {what}{where}; its parts are {keys}")
    for name, part in parts.items():
        _check_keys(part, observation[name], f"{title}.{name}".lstrip("."))


def _counted(space: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Return the first of the integers at each place and how many there are, or None for other spaces."""
    if isinstance(space, spaces.Discrete):
        first, count = space.start, space.n
    elif isinstance(space, spaces.MultiDiscrete):
        first, count = space.start, space.nvec
    elif isinstance(space, spaces.MultiBinary):
        first, count = np.int64(0), np.int64(2)
    else:
        return None
    return np.broadcast_to(first, space.shape).astype(np.int64), np.broadcast_to(count, space.shape).astype(np.int64)


def _bounds(space: Any, what: str) -> tuple[Floats, Floats, bool]:
    """Return the bounds of a simple space `[d]`, and whether it has integers, which get half a step on either side."""
    counted = _counted(space)
    ends = (space.low, space.high) if counted is None else (counted[0], counted[0] + (counted[1] - 1))
    low, high = (np.asarray(end, dtype=float).reshape(-1) for end in ends)
    if np.dtype(space.dtype).kind not in "biu":
        return low, high, False
    far = np.maximum(np.abs(low), np.abs(high)) >= _HALVES
    if (far & (high - low < WIDEST)).any():
        raise ParameterError(
            f"{what}: integers beyond {_HALVES:.0f} cannot be distinguished as floats; wrap the environment so that "
            "they begin at 0"
        )
    return low - 0.5, high + 0.5, True


@dataclass(frozen=True)
class Part:
    """One simple space within an observation, and the places of its numbers in the row."""

    path: tuple[str | int, ...]  # keys and indices that lead to it
    title: str  # its path as text
    shape: tuple[int, ...]
    places: slice

    def filler(self, row: Floats) -> Callable[[Any], None]:
        """Return a function that writes its value into its places of a row `[d]`; called at every step."""
        shape, place = self.shape, row[self.places].reshape(self.shape)
        size, alone = place.size if len(shape) == 1 else 0, self.alone

        def fill(value: Any) -> None:
            try:
                if size > 1:  # quicker; the assignment refuses rows of rows
                    fits = len(value) == size
                else:
                    given = () if isinstance(value, int | float) else getattr(value, "shape", None)
                    given = np.shape(value) if given is None else given
                    fits = given == shape or (given == () and alone)
                if fits:
                    place[...] = value
                    return
            except (OverflowError, TypeError, ValueError):
                pass
            raise self.misfit(value)

        return fill

    @property
    def alone(self) -> bool:
        """Whether it is the one number of a part of a Dict or Tuple, for which a plain number may stand."""
        return bool(self.path) and self.shape == (1,)

    def read(self, value: Any) -> tuple[Floats, set[int | None]]:
        """Return one value or many as rows `[n, size]`, and how many there may be; None stands for one."""
        name = f" for {self.title!r}" if self.path else ""
        try:
            values = np.asarray(value)
            if values.dtype.kind in "cSU":
                raise TypeError
            values = values.astype(float)
        except (OverflowError, TypeError, ValueError) as error:
            raise ParameterError(f"observation: expected numbers{name}, got {show(value)}") from error
        if values.shape == self.shape or (values.shape == () and self.shape == (1,)):
            counts: set[int | None] = {None, 1} if self.alone and values.shape else {None}
        elif values.shape[1:] == self.shape or (values.ndim == 1 and self.alone):
            counts = {len(values)}
        else:
            raise ParameterError(f"observation: expected shape {self.shape}{name}, {_MANY}, got {values.shape}")
        return values.reshape(-1, self.places.stop - self.places.start), counts

    def misfit(self, value: Any) -> Misfit:
        """Return the fault of a value that has another shape, or is not made of numbers."""
        try:
            given = np.shape(value)
        except ValueError:  # rows of several lengths
            given = self.shape
        shown = f"shape {given}" if given != self.shape else show(value)
        part = "part " if self.path and not isinstance(self.path[0], str) else ""
        name = f" as {part}{self.title}" if self.path else ""
        return Misfit(f"showed {shown}{name}", f"observations must be numbers of shape {self.shape}{name}")


class Observations:
    """The rows of an observation space; their bounds `low` and `high` [d] are infinite where it declares none."""

    def __init__(self, space: Any) -> None:
        self.space = space
        self.parts: list[Part] = []
        self.names: list[str] = []  # of the numbers in a row
        ends: list[Floats] = []  # [3, size] of each part: low, high, whole
        for path, inner in _leaves(space):
            title = ".".join(map(str, path))
            if not isinstance(inner, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
                where = f" in its part {title!r}" if path else ""
                raise ParameterError(
                    f"observations: {type(inner).__name__} spaces{where} are not supported; Box, Discrete, "
                    "MultiDiscrete, MultiBinary, Tuple and Dict are"
                )
            ends.append(np.array(np.broadcast_arrays(*_bounds(inner, "observations"))))
            first, size = len(self.names), ends[-1].shape[1]
            if size:
                self.parts.append(Part(path, title, tuple(inner.shape or ()), slice(first, first + size)))
                numbered = [title] if size == 1 else [f"{title}[{i}]" for i in range(size)]
                self.names += numbered if path else [str(i) for i in range(size)]
        if not self.names:
            raise ParameterError(f"observations: {show(space)} has no numbers to see")
        if len(self.names) > MOST_OBSERVED:
            raise ParameterError(
                f"observations: {len(self.names)} numbers are too many for a partition of their space, at most "
                f"{MOST_OBSERVED}; wrap the environment so that it shows the few that matter (no images)"
            )
        self.low, self.high, whole = np.concatenate(ends, axis=1)
        self.whole: NDArray[np.bool_] = whole.astype(bool)  # their bounds are half a step farther out

    def called(self, at: int) -> str:
        """Return the name of a number for messages, or "number i of the observation" where it has none."""
        path = next(part.path for part in self.parts if at < part.places.stop)
        if path and isinstance(path[0], str):
            return self.names[at]
        return f"{'part' if path else 'number'} {self.names[at]} of the observation"

    def writer(self, row: Floats) -> Callable[[Any], None]:
        """Return a function that writes an observation into a row `[d]`; called at every step, may raise `Misfit`."""
        fillers = [(part, part.filler(row)) for part in self.parts]
        if not self.parts[0].path:
            return fillers[0][1]

        def write_parts(observation: Any) -> None:
            for part, fill in fillers:
                try:
                    value = reduce(getitem, part.path, observation)
                except (KeyError, IndexError, TypeError) as error:
                    must = f"observations must be members of {show(self.space)}"
                    raise Misfit(f"showed {show(observation)}, without {part.title!r}", must) from error
                fill(value)

        return write_parts

    def unflatten(self, row: Floats) -> Any:
        """Return an observation with the numbers of a row `[d]`, for `rows`; parts of a Tuple have indices as keys."""
        nested: dict[str | int, Any] = {}
        for part in self.parts:
            value = row[part.places].reshape(part.shape)
            if not part.path:
                return value
            *outer, last = part.path
            reduce(lambda at, step: at.setdefault(step, {}), outer, nested)[last] = value
        return nested

    def rows(self, observation: Any) -> tuple[Floats, bool]:
        """Return one observation, or many stacked along the first axis of every part, as rows; whether it was one.

        Where a part of a Dict or Tuple is a single number it may be written as one: 18.0 for [18.0].
        """
        if self.parts[0].path:
            _check_keys(self.space, observation)
        read = [part.read(reduce(getitem, part.path, observation)) for part in self.parts]
        counts = set.intersection(*(count for _, count in read))
        if not counts:
            raise ParameterError("observation: its parts are not equally many")
        rows = np.ascontiguousarray(np.concatenate([columns for columns, _ in read], axis=1))
        bad = ~np.isfinite(rows)
        if bad.any():
            at = np.argwhere(bad)[0]
            name = self.called(at[1]).removesuffix(" of the observation")
            raise ParameterError(f"observation: {name} is {rows[tuple(at)]}, not a finite number")
        return rows, None in counts


class Moves:
    """The actions of an action space, for a partition."""

    def __init__(self, space: Any) -> None:
        self.space = space
        self.actions: Actions  # in the environment's own units; an integer n in a `Box` is [n - 0.5, n + 0.5)
        self._table: Any = None  # [n, ...] discrete actions, by their number
        self._whole = False
        counted = _counted(space)
        if counted is None and not isinstance(space, spaces.Box):
            raise ParameterError(
                f"actions: {type(space).__name__} spaces are not supported; Box, Discrete, MultiDiscrete and "
                "MultiBinary are"
            )
        if counted is not None and math.prod(counted[1].reshape(-1).tolist()) <= MOST_NUMBERED:
            first, sizes = counted
            self.actions = Discrete(int(sizes.prod()))
            places = np.unravel_index(np.arange(self.actions.count), sizes.reshape(-1))
            self._table = (np.stack(places, axis=-1).reshape(-1, *space.shape) + first).astype(space.dtype)
            return
        low, high, self._whole = _bounds(space, "actions")
        if not (np.isfinite(low) & np.isfinite(high)).all():
            raise ParameterError(
                f"actions: {show(space)} has no bounds on some side; wrap the environment so that they have "
                "(gymnasium.wrappers.TransformAction with an action_space that does)"
            )
        self.actions = Box(low, high, "actions")
        self._least, self._most = low, high
        if self._whole:  # the least and the largest integer, as floats
            self._least, self._most = np.ceil(low), np.floor(high - 1e-9)
            if np.dtype(space.dtype).kind in "iu":  # the largest may round to more than its type can hold
                most = float(np.iinfo(space.dtype).max)
                past = (self._most >= most) & (most >= _HALVES)
                self._most = np.where(past, np.nextafter(most, 0.0), self._most)

    def reader(self, action: Floats) -> Callable[[int], Any]:
        """Return a function that returns an action as the environment takes it; called at every step.

        Its argument is the number of a discrete action; others are in `action` [actions], within their bounds.
        """
        if isinstance(self.space, spaces.Discrete) and self._table is not None:
            actions: list[int] = self._table.tolist()
            return actions.__getitem__
        if self._table is not None:
            return lambda number: self._table[number].copy()
        if self._whole:
            return lambda number: self.one(action[None])
        kind, shape = self.space.dtype.type, self.space.shape
        if shape == action.shape:
            return lambda number: action.astype(kind)
        return lambda number: action.astype(kind).reshape(shape)

    def one(self, actions: Floats) -> Any:
        """Return the first of the actions `[n, actions]`; of a Box it is an array even without dimensions."""
        many = self.many(actions)
        return many[0, ...] if isinstance(self.space, spaces.Box) else many[0]

    def many(self, actions: Floats) -> Any:
        """Return actions `[n, actions]` as the environment takes them, stacked along a first axis."""
        if self._table is not None:
            return self._table[actions[:, 0].astype(np.int64)]
        if self._whole:
            actions = np.floor(actions + 0.5)
        actions = np.clip(actions, self._least, self._most)
        return actions.reshape(-1, *self.space.shape).astype(self.space.dtype)


def bounds_to_json(space: Actions) -> dict[str, Any]:
    """Return a space of a partition for JSON."""
    if isinstance(space, Discrete):
        return {"count": space.count}
    return {"low": space.low.tolist(), "high": space.high.tolist()}


def space_to_json(space: Any) -> dict[str, Any]:
    """Return a space of Gymnasium for JSON; a TypeError where it is of another kind."""
    if isinstance(space, spaces.Dict):
        return {"kind": "Dict", "spaces": [[str(name), space_to_json(part)] for name, part in space.spaces.items()]}
    if isinstance(space, spaces.Tuple):
        return {"kind": "Tuple", "spaces": [space_to_json(part) for part in space.spaces]}
    if isinstance(space, spaces.Discrete):
        return {"kind": "Discrete", "n": int(space.n), "start": int(space.start)}
    for kind, arrays in _ARRAYS.items():
        if isinstance(space, getattr(spaces, kind)):
            about = {"kind": kind} | ({"dtype": str(space.dtype)} if arrays else {}) | {"shape": list(space.shape)}
            for name in arrays:
                numbers = np.broadcast_to(getattr(space, name), space.shape).reshape(-1).tolist()
                about[name] = [number if math.isfinite(number) else str(number) for number in numbers]
            return about
    raise TypeError(f"a space of the kind {type(space).__name__}")


def space_from_json(data: Any, depth: int = 0) -> Any:
    """Return the space that `space_to_json` described; an exception, such as a ValueError, where it is invalid."""
    if depth > _DEEPEST:
        raise ValueError("spaces within spaces without end")
    kind = data["kind"]
    space: Any = None
    if kind == "Dict":
        space = spaces.Dict([(str(name), space_from_json(part, depth + 1)) for name, part in data["spaces"]])
    elif kind == "Tuple":
        space = spaces.Tuple([space_from_json(part, depth + 1) for part in data["spaces"]])
    elif kind == "Discrete":
        space = spaces.Discrete(data["n"], start=data["start"])
    elif kind in _ARRAYS:
        shape, dtype = tuple(data["shape"]), data.get("dtype", "int8")
        if len(shape) > _DEEPEST or math.prod(shape) > MOST_NUMBERS or dtype not in _TYPES:
            raise ValueError(f"a space of shape {show(shape)} and type {show(dtype)}")
        with np.errstate(all="ignore"):  # what does not fit is found out below
            arrays = {name: np.array(data[name]).astype(dtype).reshape(shape) for name in _ARRAYS[kind]}
        if kind == "MultiBinary":
            space = spaces.MultiBinary(list(shape) if len(shape) != 1 else shape[0])
        else:
            space = getattr(spaces, kind)(**arrays, dtype=np.dtype(dtype))
    if space is None or space_to_json(space) != data:  # such as one whose numbers its type cannot hold
        raise ValueError(f"a space of the kind {show(kind)}")
    return space
