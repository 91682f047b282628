"""A picture of boxes painted with few strokes: each stroke fills a box with one colour, over what was there before.

Read from the last stroke back, the first box that holds a point has its colour: the same kind of list that
`spaql.explain.decision_list` builds from the front, but found by another greed.  Everything begins in one colour.  A stroke is
worth the boxes that it makes right, less a penalty for each that it spoils, which a later stroke must mend; so a large
stroke may run over small exceptions.  It begins as one wrong box, and its sides move out for as long as that makes it
worth more.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spaql.partition.jit import kernel
from spaql.partition.spaces import Floats

SPOILED = -2  # painted in part only


class Easel(NamedTuple):
    """What is to be painted, and room to work."""

    low: Floats  # [n, states] the boxes
    high: Floats  # [n, states]
    colours: NDArray[np.int64]  # [n] what each must become
    paint: NDArray[np.int64]  # [n] what it is
    weights: Floats  # [n] what it adds to the worth of a stroke that reaches it
    places: Floats  # [n] where that happens, on the way of one side
    worths: Floats  # [n] how much


@kernel()
def stretched(e, one, two, dim, sign):
    """How far one side of a stroke is best moved: the end, and what that adds to its worth.

    A box that the stroke makes right has the weight 1, and must be reached as a whole; for one that it spoils, with a
    weight below 0, a part is enough.
    """
    start = two[dim] if sign > 0 else one[dim]
    count = 0
    for k in range(e.low.shape[0]):
        if e.weights[k] == 0.0:
            continue
        near, far = e.low[k, dim], e.high[k, dim]
        if sign < 0:
            near, far = far, near
        if e.weights[k] > 0.0:
            counts = (far - start) * sign > 0.0 and (near >= one[dim] if sign > 0 else near <= two[dim])
        else:
            counts = (near - start) * sign >= 0.0
        for d in range(one.shape[0]):
            if counts and d != dim:
                a, b = e.low[k, d], e.high[k, d]
                counts = one[d] <= a and b <= two[d] if e.weights[k] > 0.0 else a < two[d] and b > one[d]
        if counts:
            e.places[count] = far if e.weights[k] > 0.0 else near
            e.worths[count] = e.weights[k]
            count += 1
    # Ends to look at: that of the space, and those of boxes that become right.
    end, best = start, 0.0
    for k in range(-1, count):
        to = e.places[k] if k >= 0 else 1.0 if sign > 0 else 0.0
        if k >= 0 and e.worths[k] < 0.0:
            continue
        worth = 0.0
        for m in range(count):
            beyond = (to - e.places[m]) * sign
            if beyond > 0.0 or (beyond == 0.0 and e.worths[m] > 0.0):
                worth += e.worths[m]
        if worth > best or (worth == best and (to - end) * sign > 0.0):
            end, best = to, worth
    return end, best


@kernel()
def widened(e, one, two):
    """Move out the sides of a stroke, always that which adds most, while nothing is lost by it; what was added."""
    total = 0.0
    while True:
        most, side, to = -1.0, -1, 0.0
        for k in range(2 * one.shape[0]):
            sign = 1 - 2 * (k % 2)
            end, worth = stretched(e, one, two, k // 2, sign)
            if worth > most and end != (two[k // 2] if sign > 0 else one[k // 2]):
                most, side, to = worth, k, end
        if side < 0:
            return total
        total += most
        if side % 2:
            one[side // 2] = to
        else:
            two[side // 2] = to


@kernel()
def fill(e, one, two, colour):
    """Paint a stroke."""
    for k in range(e.paint.shape[0]):
        meets, inside = True, True
        for d in range(one.shape[0]):
            meets = meets and e.low[k, d] < two[d] and e.high[k, d] > one[d]
            inside = inside and e.low[k, d] >= one[d] and e.high[k, d] <= two[d]
        if inside:
            e.paint[k] = colour
        elif meets and e.paint[k] != colour:
            e.paint[k] = SPOILED


@kernel()
def painted(e, penalty, look, lows, highs, choices):
    """Paint until all is right; how many strokes, or -1 if there is not room for all.

    For every stroke up to `look` wrong boxes are tried.  Strokes go into `lows`, `highs`, `choices`.
    """
    one, two = np.empty(e.low.shape[1]), np.empty(e.low.shape[1])
    count = 0
    while True:
        wrong = (e.paint != e.colours).sum()
        if wrong == 0 or count == choices.shape[0]:
            return count if wrong == 0 else -1
        most, seen = -1.0, 0
        for k in range(e.paint.shape[0]):
            if e.paint[k] == e.colours[k]:
                continue
            seen += 1
            if wrong > look and seen * look // wrong == (seen - 1) * look // wrong:
                continue
            for m in range(e.paint.shape[0]):
                right, same = e.paint[m] == e.colours[m], e.colours[m] == e.colours[k]
                e.weights[m] = (0.0 if same else -penalty) if right else (1.0 if same else 0.0)
            one[:] = e.low[k]
            two[:] = e.high[k]
            worth = widened(e, one, two)
            if worth > most:
                most = worth
                lows[count] = one
                highs[count] = two
                choices[count] = e.colours[k]
        fill(e, lows[count], highs[count], choices[count])
        count += 1
