"""Where rollouts in the learned models begin.

A policy that is chosen by a handful of starts need not be good in others: it may miss its goal from a narrow range
between two of them.  Where few episodes are recorded, rollouts therefore also begin in states like their starts; and
policies that were chosen and improved by some rollouts are compared by others, which begin elsewhere.
"""

import math

import numpy as np
from numpy.typing import NDArray

from spaql.partition.spaces import Floats

SOME = 60_000  # recorded states that are looked at
_MOST = 200
_FEW = 160  # with fewer recorded starts, states like them serve too
_VALIDATION = 400
_NEAR = 0.1  # standard deviations in every dimension within which there is a recorded state


def find_starts(
    states: Floats, times: NDArray[np.int64], random: np.random.Generator, *, similar: bool = True
) -> Floats:
    """Return recorded starts and, where they are few, states like them.

    Parameters
    ----------
    states
        Recorded and standardised, `[n, d]`.
    times
        Their time steps, `[n]`.
    random
        Generator of the choice.
    similar
        Whether states like the starts may serve too.
    """
    starts = states[times == 0]
    if not len(starts):
        return states[-_MOST:]
    if len(starts) >= _FEW or not similar:
        return starts[-_MOST:]
    return np.concatenate([starts, find_similar(states, starts, _FEW - len(starts), random)])


def find_validation_starts(states: Floats, times: NDArray[np.int64], random: np.random.Generator) -> Floats:
    """Return starts by which to compare policies: half recorded ones, as far as there are as many, half like them."""
    starts = states[times == 0]
    if not len(starts):
        return find_starts(states, times, random)
    recorded = starts[random.permutation(len(starts))[: _VALIDATION // 2]]
    similar = find_similar(states, starts, _VALIDATION - len(recorded), random)
    return random.permutation(np.concatenate([recorded, similar]))


def find_similar(states: Floats, starts: Floats, wanted: int, random: np.random.Generator) -> Floats:
    """Return at most `wanted` states like the starts, in random order; none where all starts are the same.

    Half of them are spread over the range of the starts, and somewhat beyond, as far as recorded states are near them;
    elsewhere they may be impossible.  The others are recorded states of this range.
    """
    low, width = starts.min(axis=0), np.ptp(starts, axis=0)
    if not width.any():
        return starts[:0]
    from scipy.spatial import cKDTree  # here: it takes as long to import as all of spaql

    dimensions, beyond = states.shape[1], 2.0 / (len(starts) + 1)
    some = states if len(states) <= SOME else states[random.integers(0, len(states), SOME)]
    spread = low + width * random.uniform(-beyond, 1.0 + beyond, (10 * wanted, dimensions))
    spread = spread[cKDTree(some).query(spread)[0] <= _NEAR * math.sqrt(dimensions)]
    margin = np.maximum(beyond * width, 0.5 * _NEAR)
    alike = some[((some >= low - margin) & (some <= low + width + margin)).all(axis=1)]
    alike = alike[random.permutation(len(alike))[:wanted]]
    spread = spread[: max(wanted // 2, wanted - len(alike))]
    return random.permutation(np.concatenate([spread, alike[: wanted - len(spread)]]))
