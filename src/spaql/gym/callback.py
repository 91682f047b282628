"""The compiled side of a Gymnasium environment: from a kernel's call into Python and back.

A world's constants (`spaql.problems.World`) begin here with five addresses: of the function in Python that plays,
and of the memory through which it is spoken to.  Two sizes follow, the number of states and, of a box, of actions; then
the ranges of states, which of them come round, and the ranges of actions.
"""

from functools import lru_cache
from typing import Any

import numpy as np
from numba import carray
from numpy.typing import NDArray

from spaql.partition.jit import call, compile_entry, floats_at, kernel, words_at
from spaql.partition.spaces import Box, Floats
from spaql.problems.base import (
    ADVANCE,
    BAD_REWARD,
    BAD_STATE,
    BEGIN,
    LARGEST_REWARD,
    NO_STATE,
    RAN,
    SOME_CUT,
    SOME_ENDED,
)

RESET = -1  # what the function in Python is asked for; else the number of a finite action, or 0
_CALLBACK, _ACTION, _SEEN, _REWARD, _TALLY, _STATES, _ACTIONS = range(7)
_WORDS = 7


def pack_constants(addresses: list[int], states: Box, actions: Box | None, rounds: NDArray[np.bool_]) -> Floats:
    """Return the constants of a world: the five addresses, the sizes and the ranges; discrete actions have none."""
    sizes = [states.dimensions, 0 if actions is None else actions.dimensions]
    parts = [np.array([*addresses, *sizes], np.int64).view(np.float64), states.low, states.high - states.low, rounds]
    if actions is not None:
        parts += [actions.low, actions.high - actions.low, actions.high]
    return np.concatenate(parts)


@kernel()
def place_observation(point_at, constants, stepped):
    """Write where in the unit cube the observation in the buffer lies; return what was wrong with it."""
    words = carray(words_at(constants), (_WORDS,))
    states = np.int64(words[_STATES])
    ranges = carray(floats_at(constants + 8 * _WORDS), (3, states))
    seen = carray(floats_at(np.int64(words[_SEEN])), (states,))
    tally = carray(words_at(np.int64(words[_TALLY])), (states + 1,))
    tally[states] = tally[states] + np.uint64(1) if stepped else np.uint64(0)
    point = carray(floats_at(point_at), (states,))
    status = 0
    for d in range(states):
        value = (seen[d] - ranges[0, d]) / ranges[1, d]
        if not -np.inf < seen[d] < np.inf:
            status = BAD_STATE | NO_STATE
        if ranges[2, d] != 0.0:
            value = value - np.floor(value) if -np.inf < value < np.inf else 0.0
        if value < 0.0 or value > 1.0:
            tally[d] += np.uint64(1)
            value = min(max(value, 0.0), 1.0)
        point[d] = value
    return status


def _advance(count, state_at, point_at, action_at, outcome_at, constants, random_at):
    words = carray(words_at(constants), (_WORDS,))
    states, actions = np.int64(words[_STATES]), np.int64(words[_ACTIONS])
    outcome = carray(floats_at(outcome_at), (2,))
    number = 0
    if actions == 0:
        number = int(carray(floats_at(action_at), (1,))[0])
    else:
        ranges = carray(floats_at(constants + 8 * (_WORDS + 3 * states)), (3, actions))
        action = carray(floats_at(action_at), (actions,))
        buffer = carray(floats_at(np.int64(words[_ACTION])), (actions,))
        for d in range(actions):
            inner = min(ranges[0, d] + action[d] * ranges[1, d], ranges[2, d])  # it may round past it
            buffer[d] = ranges[2, d] if action[d] == 1.0 else inner
    status = call(np.int64(words[_CALLBACK]), (np.int64(number),))
    if status & RAN == 0:
        return 0
    reward = carray(floats_at(np.int64(words[_REWARD])), (1,))[0]
    outcome[0] = reward
    outcome[1] = float(status & (SOME_ENDED | SOME_CUT))
    if not abs(reward) <= LARGEST_REWARD:
        status |= BAD_REWARD
    return status | place_observation(point_at, constants, True)


def _begin(count, state_at, point_at, constants, random_at):
    words = carray(words_at(constants), (_WORDS,))
    status = call(np.int64(words[_CALLBACK]), (np.int64(RESET),))
    if status & RAN == 0:
        return 0
    return status | place_observation(point_at, constants, False)


@lru_cache(maxsize=1)
def bridge() -> Any:
    """Return the two functions that kernels call, for all environments."""
    return compile_entry(ADVANCE, _advance), compile_entry(BEGIN, _begin)
