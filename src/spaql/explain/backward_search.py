"""Decision lists built from the last box back.

Each new box overwrites the choice of the leaves inside it; read from the last box back, the first that contains a state
decides.  All leaves start with one choice.  A box is worth the leaves that it sets right, less a penalty for each that
it sets wrong, which a later box must correct; so a large box may cover small exceptions.  It starts as one wrong leaf,
and its sides move outwards as long as that makes it worth more.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spaql.partition.jit import kernel
from spaql.partition.spaces import Floats

PARTLY = -2  # a leaf that was overwritten in part only


class Leaves(NamedTuple):
    """Leaves of a tree, and scratch arrays."""

    low: Floats  # [n, states]
    high: Floats  # [n, states]
    target: NDArray[np.int64]  # [n] the choice of the tree
    current: NDArray[np.int64]  # [n] the choice of the list so far
    weights: Floats  # [n] worth of reaching each leaf
    places: Floats  # [n] scratch: where a moving side reaches a leaf
    worths: Floats  # [n] scratch: the weight of that leaf


@kernel()
def find_end(e, low, high, dim, sign):
    """Find how far one side of a box is best moved: the end, and what that adds to its worth.

    A leaf that becomes right has weight 1 and counts once it is inside; one that becomes wrong has a weight below 0 and
    counts once it is touched.
    """
    start = high[dim] if sign > 0 else low[dim]
    count = 0
    for k in range(e.low.shape[0]):
        if e.weights[k] == 0.0:
            continue
        near, far = e.low[k, dim], e.high[k, dim]
        if sign < 0:
            near, far = far, near
        if e.weights[k] > 0.0:
            counts = (far - start) * sign > 0.0 and (near >= low[dim] if sign > 0 else near <= high[dim])
        else:
            counts = (near - start) * sign >= 0.0
        for d in range(low.shape[0]):
            if counts and d != dim:
                a, b = e.low[k, d], e.high[k, d]
                counts = low[d] <= a and b <= high[d] if e.weights[k] > 0.0 else a < high[d] and b > low[d]
        if counts:
            e.places[count] = far if e.weights[k] > 0.0 else near
            e.worths[count] = e.weights[k]
            count += 1
    end, best = start, 0.0
    for k in range(-1, count):  # candidates: the end of the space, and the ends of leaves that become right
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
def widen(e, low, high):
    """Move the sides of a box outwards, always the one that adds most, while none loses; returns the worth added."""
    total = 0.0
    while True:
        most, side, to = -1.0, -1, 0.0
        for k in range(2 * low.shape[0]):
            sign = 1 - 2 * (k % 2)
            end, worth = find_end(e, low, high, k // 2, sign)
            if worth > most and end != (high[k // 2] if sign > 0 else low[k // 2]):
                most, side, to = worth, k, end
        if side < 0:
            return total
        total += most
        if side % 2:
            low[side // 2] = to
        else:
            high[side // 2] = to


@kernel()
def overwrite(e, low, high, choice):
    """Set the choice of all leaves inside a box."""
    for k in range(e.current.shape[0]):
        overlaps, inside = True, True
        for d in range(low.shape[0]):
            overlaps = overlaps and e.low[k, d] < high[d] and e.high[k, d] > low[d]
            inside = inside and e.low[k, d] >= low[d] and e.high[k, d] <= high[d]
        if inside:
            e.current[k] = choice
        elif overlaps and e.current[k] != choice:
            e.current[k] = PARTLY


@kernel()
def search_backward(e, penalty, tries, lows, highs, choices):
    """Add boxes until all leaves are right, trying up to `tries` wrong leaves for each.

    Boxes go into `lows`, `highs`, `choices`; returns their number, or -1 if there is no room for all.
    """
    low, high = np.empty(e.low.shape[1]), np.empty(e.low.shape[1])
    count = 0
    while True:
        wrong = (e.current != e.target).sum()
        if wrong == 0 or count == choices.shape[0]:
            return count if wrong == 0 else -1
        most, seen = -1.0, 0
        for k in range(e.current.shape[0]):
            if e.current[k] == e.target[k]:
                continue
            seen += 1
            if wrong > tries and seen * tries // wrong == (seen - 1) * tries // wrong:
                continue
            for m in range(e.current.shape[0]):
                right, same = e.current[m] == e.target[m], e.target[m] == e.target[k]
                e.weights[m] = (0.0 if same else -penalty) if right else (1.0 if same else 0.0)
            low[:] = e.low[k]
            high[:] = e.high[k]
            worth = widen(e, low, high)
            if worth > most:
                most = worth
                lows[count] = low
                highs[count] = high
                choices[count] = e.target[k]
        overwrite(e, lows[count], highs[count], choices[count])
        count += 1
