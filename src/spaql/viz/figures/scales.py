"""Limits of axes and the ticks on them: which values are named, and how the names are written.

Ticks are chosen here and not by matplotlib while it draws, because the room for their names must be known before.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from matplotlib.ticker import MaxNLocator

from spaql.viz.figures import rulers
from spaql.viz.figures.looks import Floats

Limits = tuple[float, float]

_STEPS = [1, 2, 2.5, 5, 10]
_TILTS = (35.0, 50.0, 90.0)
_TIGHT = 1.1  # from one tilted name to the next, in units of the size of type
_GAP = 0.08  # inches between the names of neighbouring ticks
_PLAIN = 1e7  # from here on, powers of ten


@dataclass(frozen=True, slots=True)
class Ticks:
    """Where the ticks stand, what they say, and by how many degrees their names are turned."""

    at: list[float]
    names: list[str]
    turned: float = 0.0

    def height(self, size: float) -> float:
        """Room that the names take below the axis, in inches."""
        angle = math.radians(self.turned)
        return rulers.widest(self.names, size) * math.sin(angle) + rulers.LEADING * size / 72 * math.cos(angle)


def limits(values: Floats, margin: float) -> Limits:
    """Range of the finite values with a margin on both sides, as a share of the range; never empty."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    largest = max(abs(low), abs(high))
    pad = margin * (high - low) if high - low > 1e-9 * largest else 0.1 * largest or 1.0
    return low - pad, high + pad


def shares(values: Sequence[float], span: Limits, *, log: bool) -> Floats:
    """Where values stand along an axis: 0 at its lower limit, 1 at its upper one."""
    places, (low, high) = np.array(values, dtype=np.float64), span
    if log:
        places, low, high = np.log10(places), math.log10(low), math.log10(high)
    return (places - low) / (high - low)


def linear_ticks(span: Limits, most: int) -> Ticks:
    """Round values within the limits, in at most so many steps."""
    low, high = span
    slack = 1e-9 * (high - low)
    at = MaxNLocator(nbins=most, steps=_STEPS).tick_values(low, high)
    kept = [float(v) for v in at if low - slack <= v <= high + slack]
    return Ticks(kept, numbers(kept))


def fitting_ticks(span: Limits, *, log: bool, room: float, size: float) -> Ticks:
    """As many ticks along an axis `room` inches long as have names that keep apart."""
    best = Ticks([], [])
    for best in _log_candidates(span) if log else _linear_candidates(span):
        if _apart(best, shares(best.at, span, log=log) * room, size):
            return best
    return Ticks(best.at[:1], best.names[:1])


def _apart(ticks: Ticks, at: Floats, size: float) -> bool:
    """Whether the names of ticks at these places, in inches, leave a gap between them."""
    widths = np.array([rulers.width(name, size) for name in ticks.names])
    return bool((np.diff(at) >= (widths[1:] + widths[:-1]) / 2 + _GAP).all())


def category_ticks(names: Sequence[str], *, room: float, size: float) -> Ticks:
    """One tick for each name; where names side by side would collide they are tilted, by as little as will do."""
    slot = room / len(names)
    turned = 0.0
    if rulers.widest(names, size) + _GAP > slot:
        fits = (tilt for tilt in _TILTS if slot * math.sin(math.radians(tilt)) >= _TIGHT * size / 72)
        turned = next(fits, _TILTS[-1])
    return Ticks([float(i) for i in range(len(names))], list(names), turned)


def numbers(values: Sequence[float]) -> list[str]:
    """The values of evenly spaced ticks, all with as many decimals as the spacing needs."""
    step = min((b - a for a, b in pairwise(values)), default=abs(values[0]) if values else 1.0)
    largest = max((abs(v) for v in values), default=0.0)
    decimals = max(0, -math.floor(math.log10(step) + 1e-9)) if step > 0 else 0
    if step > 0 and abs(step - round(step, decimals)) > 1e-6 * step:
        decimals += 1  # steps of 0.25
    if largest >= _PLAIN or decimals > 4:
        return [_power(v, math.ceil(math.log10(largest)) - math.floor(math.log10(step)) + 1) for v in values]
    return [_typeset(f"{v:{_separator(largest)}.{decimals}f}") for v in values]


def _linear_candidates(span: Limits) -> Iterator[Ticks]:
    return (linear_ticks(span, most) for most in range(8, 0, -1))


def _log_candidates(span: Limits) -> Iterator[Ticks]:
    """From dense to sparse; round numbers where the limits hold less than a decade, which has no powers of ten."""
    low, high = span
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for digits, stride in (((1, 2, 5), 1), ((1, 3), 1), ((1,), 1), ((1,), 2), ((1,), 3), ((1,), 5), ((1,), 10)):
        decades = range(first - first % stride, last + 1, stride)
        at = _within((digit * 10.0**decade for decade in decades for digit in digits), span)
        if len(at) >= 2:
            yield Ticks(at, [_plain(v, max(at)) for v in at])
    if high < 10 * low:
        yield from _linear_candidates(span)


def log_minor(span: Limits) -> list[float]:
    """Every digit of every decade, for ticks without names; none where they would be a grey smear."""
    first, last = (math.floor(math.log10(v)) for v in span)
    if last - first > 6:
        return []
    return _within((digit * 10.0**decade for decade in range(first, last + 1) for digit in range(1, 10)), span)


def _within(values: Iterable[float], span: Limits) -> list[float]:
    low, high = span[0] * (1 - 1e-9), span[1] * (1 + 1e-9)
    return [v for v in values if low <= v <= high]


def _plain(value: float, largest: float) -> str:
    """A number with as many decimals as it needs itself, such as 0.01, 5 or 20,000."""
    if not 1e-4 <= value < _PLAIN:
        return _power(value, 2)
    return f"{value:.6g}" if value < 1 else f"{value:{_separator(largest)}.0f}"


def _power(value: float, digits: int) -> str:
    """A number as 2.5e−7, without the signs and zeros that say nothing."""
    if value == 0:
        return "0"
    mantissa, exponent = f"{value:.{min(digits, 15) - 1}e}".split("e")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return _typeset(f"{mantissa}e{int(exponent)}")


def _separator(largest: float) -> str:
    return "," if largest >= 1e4 else ""


def _typeset(number: str) -> str:
    return number.replace("-", "\N{MINUS SIGN}")
