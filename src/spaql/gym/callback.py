"""The compiled side of a Gymnasium environment: from a kernel's call into Python and back.

A world's constants (`spaql.problems.base.World`) begin here with five addresses: of the function in Python that plays,
and of the memory through which it is spoken to.  They are followed by the ranges of states and actions.
"""

from functools import lru_cache
from typing import Any

import numba
import numpy as np
from numba import carray
from numba.core import config

from spaql.partition.jit import call, floats_at, words_at
from spaql.problems import base

RESET = -1  # what the function in Python is asked for; else the number of a finite action, or 0
_CALLBACK, _ACTION, _SEEN, _REWARD, _TALLY = 0, 1, 2, 3, 4
_ADDRESSES = 5


@lru_cache(maxsize=256)
def bridge(states: int, actions: int, finite: bool, rounds: tuple[bool, ...]) -> Any:
    """The two functions that kernels call; all sizes, and which numbers come round, are constants to the compiler."""
    first = 8 * _ADDRESSES
    comes_round = any(rounds)

    def place(point_at, constants, stepped):
        """Where in the unit cube the observation in the buffer lies; what was wrong with it."""
        places = carray(words_at(constants), (_ADDRESSES,))
        low = carray(floats_at(constants + first), (states,))
        width = carray(floats_at(constants + first + 8 * states), (states,))
        seen = carray(floats_at(np.int64(places[_SEEN])), (states,))
        tally = carray(words_at(np.int64(places[_TALLY])), (states + 1,))
        tally[states] = tally[states] + np.uint64(1) if stepped else np.uint64(0)
        point = carray(floats_at(point_at), (states,))
        status = 0
        for d in range(states):
            value = (seen[d] - low[d]) / width[d]
            if not -np.inf < seen[d] < np.inf:
                status = base.BAD_STATE | base.NO_STATE
            if comes_round and rounds[d]:
                value = value - np.floor(value) if -np.inf < value < np.inf else 0.0
            if value < 0.0 or value > 1.0:
                tally[d] += np.uint64(1)
                value = min(max(value, 0.0), 1.0)
            point[d] = value
        return status

    place = place if config.DISABLE_JIT else numba.njit(place)

    def advance(count, state_at, point_at, action_at, outcome_at, constants, random_at):
        places = carray(words_at(constants), (_ADDRESSES,))
        action_low = carray(floats_at(constants + first + 16 * states), (actions,))
        action_width = carray(floats_at(constants + first + 16 * states + 8 * actions), (actions,))
        action_high = carray(floats_at(constants + first + 16 * states + 16 * actions), (actions,))
        action = carray(floats_at(action_at), (actions,))
        buffer = carray(floats_at(np.int64(places[_ACTION])), (actions,))
        outcome = carray(floats_at(outcome_at), (2,))
        number = 0
        if finite:
            number = int(action[0])
        else:
            for d in range(actions):
                inner = min(action_low[d] + action[d] * action_width[d], action_high[d])  # it may round past it
                buffer[d] = action_high[d] if action[d] == 1.0 else inner
        status = call(np.int64(places[_CALLBACK]), (np.int64(number),))
        if status & base.RAN == 0:
            return 0
        reward = carray(floats_at(np.int64(places[_REWARD])), (1,))[0]
        outcome[0] = reward
        outcome[1] = float(status & (base.SOME_ENDED | base.SOME_CUT))
        if not abs(reward) <= base.LARGEST_REWARD:
            status |= base.BAD_REWARD
        return status | place(point_at, constants, True)

    def begin(count, state_at, point_at, constants, random_at):
        places = carray(words_at(constants), (_ADDRESSES,))
        status = call(np.int64(places[_CALLBACK]), (np.int64(RESET),))
        if status & base.RAN == 0:
            return 0
        return status | place(point_at, constants, False)

    if config.DISABLE_JIT:
        return advance, begin
    return numba.cfunc(base.ADVANCE)(advance), numba.cfunc(base.BEGIN)(begin)
