"""Spaces of a compiled problem, and their maps to and from the unit cube.

Partitions live in the unit cube, problems in their own units.  A `Box` maps each dimension by
u = (v - low) / (high - low); `Discrete` is a set of n actions, numbered from 0, that no partition ever splits.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spaql.errors import ParameterError
from spaql.validation import check_whole, show

Floats = NDArray[np.float64]
_MOST_ACTIONS = 100_000


@dataclass(frozen=True, eq=False)
class Box:
    """A box with finite sides, closed on both ends.

    Parameters
    ----------
    low, high
        Bounds, `[d]`; low < high in every dimension.

    Raises
    ------
    ParameterError
        Where a bound is not finite, or low is not below high.

    Examples
    --------
    >>> from spaql.problems import Box
    >>> box = Box([-1, 0], [1, 10])
    >>> box.dimensions
    2
    >>> box.from_unit([[0.5, 0.5]])
    array([[0., 5.]])
    """

    low: Floats  #: low end of each side, `[d]`
    high: Floats  #: high end of each side, `[d]`

    def __init__(self, low: ArrayLike, high: ArrayLike, what: str = "box") -> None:
        try:
            if np.iscomplexobj(low) or np.iscomplexobj(high):
                raise TypeError
            lower, upper = np.broadcast_arrays(np.atleast_1d(low).astype(float), np.atleast_1d(high).astype(float))
        except (OverflowError, TypeError, ValueError):
            got = f"{show(low)} and {show(high)}"
            raise ParameterError(f"{what}: bounds must be numbers, one per dimension, got {got}") from None
        if lower.ndim != 1 or lower.size == 0:
            raise ParameterError(f"{what}: bounds must be one number per dimension, got shape {lower.shape}")
        with np.errstate(over="ignore", invalid="ignore"):
            width = upper - lower
        if not (np.isfinite(width).all() and (width > 0.0).all()):
            raise ParameterError(f"{what}: bounds must be finite with low below high, got {lower} and {upper}")
        for name, value in (("low", lower.copy()), ("high", upper.copy())):
            value.flags.writeable = False
            object.__setattr__(self, name, value)

    @property
    def dimensions(self) -> int:
        """Number of dimensions."""
        return int(self.low.size)

    def from_unit(self, points: Floats) -> Floats:
        """Return unit coordinates `[..., d]` in this box's own units; 0 and 1 are exactly its ends.

        Parameters
        ----------
        points
            From 0 to 1, `[..., d]`.

        Returns
        -------
        ndarray
            Of the same shape.
        """
        return np.where(points == 1.0, self.high, self.low + points * (self.high - self.low))

    def to_unit(self, values: Floats) -> Floats:
        """Return values `[..., d]` of this box as unit coordinates.

        Parameters
        ----------
        values
            In the box's own units, `[..., d]`.

        Returns
        -------
        ndarray
            Of the same shape.
        """
        return np.asarray((values - self.low) / (self.high - self.low))

    def project(self, values: Floats, periodic: Iterable[int] = ()) -> Floats:
        """Project values `[n, d]` into the unit cube: periodic ones wrap around, others are clipped."""
        with np.errstate(over="ignore", invalid="ignore"):  # values far outside are clipped, or have no period
            points = self.to_unit(values)
            for at in periodic:
                turned = points[:, at] - np.floor(points[:, at])
                points[:, at] = np.where(np.isfinite(turned), turned, 0.0)
        return np.clip(points, 0.0, 1.0)

    def check_batch(self, values: ArrayLike, what: str, *, clip: bool = False) -> tuple[Floats, bool]:
        """Return one value `[d]` or a batch `[n, d]` as a checked batch, and whether it was one; `clip` clips it."""
        try:
            if np.iscomplexobj(values):
                raise TypeError
            batch = np.asarray(values, dtype=float)
        except (OverflowError, TypeError, ValueError):
            raise ParameterError(f"{what}: expected numbers, got {show(values)}") from None
        single = batch.ndim <= 1
        if batch.ndim == 0:
            batch = batch.reshape(1)
        if batch.ndim > 2 or batch.shape[-1] != self.dimensions:
            d = self.dimensions
            raise ParameterError(f"{what}: expected shape ({d},) for one or (n, {d}) for many, got {np.shape(values)}")
        batch = np.ascontiguousarray(np.atleast_2d(batch))
        if clip:
            batch = np.clip(batch, self.low, self.high)  # what is not a number stays so
        bad = ~((batch >= self.low) & (batch <= self.high)).all(axis=1)
        if bad.any():
            first = batch[int(np.argmax(bad))]
            raise ParameterError(f"{what}: {first} is outside the space from {self.low} to {self.high}")
        return batch, single


@dataclass(frozen=True)
class Discrete:
    """The actions 0 .. count - 1.

    Examples
    --------
    >>> from spaql.problems import Discrete
    >>> Discrete(3).count
    3
    """

    count: int  #: number of actions
    dimensions = 1  #: the number of the action

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", check_whole(self.count, "actions", 1, _MOST_ACTIONS))

    def from_unit(self, points: Floats) -> Floats:
        """Return the numbers of actions as they are.

        Parameters
        ----------
        points
            Numbers of actions.

        Returns
        -------
        ndarray
            The same.
        """
        return points


Actions = Box | Discrete
