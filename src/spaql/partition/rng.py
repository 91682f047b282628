"""Random streams: xoshiro256++ for kernels, seeded by purpose from one integer.

A *stream* is an array of four uint64 that the drawing functions advance in place.  One seed gives independent
streams for each purpose (`Purpose`), so that training, selection and final evaluation never share a random number
and the agent's draws never shift the environment's.

The generator is xoshiro256++ 1.0 (Blackman and Vigna, 2021); normals by Marsaglia's polar method; gammas by
Marsaglia and Tsang (2000).
"""

import math
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from spaql.partition.jit import kernel

Stream = NDArray[np.uint64]

LARGEST_SEED = 2**64 - 1  # a SeedSequence joins longer seeds with the key of their purpose, and streams might meet

_TO_UNIT = 2.0**-53
_S11, _S17, _S19, _S23, _S41, _S45 = (np.uint64(n) for n in (11, 17, 19, 23, 41, 45))
_S27, _S30, _S31 = (np.uint64(n) for n in (27, 30, 31))
_GOLDEN, _MIX_1, _MIX_2 = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


class Purpose(IntEnum):
    """Uses of a stream; agent and environment draw from separate ones."""

    TRAINING = 0
    TRAINING_ENVIRONMENT = 1
    SELECTION = 2
    SELECTION_ENVIRONMENT = 3
    EVALUATION = 4
    EVALUATION_ENVIRONMENT = 5
    PREDICTION = 6
    WARM_UP = 7
    WATCHING = 8  # evaluations while the agent learns
    PLANNING = 9
    SIMULATION = 10  # in a learned model


def stream(seed: int, purpose: int, *key: int) -> Stream:
    """Return the stream of a seed for one purpose, `[4]`; integers in `key` give further independent streams."""
    sequence = np.random.SeedSequence(seed, spawn_key=(int(purpose), *key))
    return sequence.generate_state(4, np.uint64).astype(np.uint64)


def generator(seed: int, purpose: int) -> np.random.Generator:
    """Return NumPy's own generator, for draws outside kernels."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(int(purpose),)))


@kernel(inline=True)
def uniform(random):
    """Return the next float64 in [0, 1), 53 bits.

    Parameters
    ----------
    random
        The random stream that `step` and `reset` are given.

    Returns
    -------
    float
        From 0, and below 1.

    Examples
    --------
    >>> from spaql.problems import uniform
    >>> def reset(parameters, random, state):
    ...     state[0] = uniform(random)
    """
    s0 = random[0]
    s1 = random[1]
    s2 = random[2]
    s3 = random[3]
    mixed = s0 + s3
    mixed = ((mixed << _S23) | (mixed >> _S41)) + s0
    s2 ^= s0
    s3 ^= s1
    random[1] = s1 ^ s2
    random[0] = s0 ^ s3
    random[2] = s2 ^ (s1 << _S17)
    random[3] = (s3 << _S45) | (s3 >> _S19)
    return np.int64(mixed >> _S11) * _TO_UNIT


@kernel()
def normal(random):
    """Return the next standard normal.

    Parameters
    ----------
    random
        The random stream that `step` and `reset` are given.

    Returns
    -------
    float
        A double.

    Examples
    --------
    >>> from spaql.problems import normal
    >>> def reset(parameters, random, state):
    ...     state[0] = normal(random)
    """
    while True:
        x = 2.0 * uniform(random) - 1.0
        y = 2.0 * uniform(random) - 1.0
        square = x * x + y * y
        if 0.0 < square < 1.0:
            return x * math.sqrt(-2.0 * math.log(square) / square)


@kernel()
def gamma(random, shape):
    """Return the next gamma variate of the given shape and unit scale.

    Parameters
    ----------
    random
        The random stream that `step` and `reset` are given.
    shape
        Shape parameter, above 0.

    Returns
    -------
    float
        A double above 0.

    Examples
    --------
    >>> from spaql.problems import gamma
    >>> def reset(parameters, random, state):
    ...     state[0] = gamma(random, 2.0)
    """
    boost = 1.0
    if shape < 1.0:
        boost = (1.0 - uniform(random)) ** (1.0 / shape)
        shape += 1.0
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = normal(random)
        v = (1.0 + c * x) ** 3
        if v > 0.0 and math.log(1.0 - uniform(random)) < 0.5 * x * x + d - d * v + d * math.log(v):
            return boost * d * v


@kernel(inline=True)
def scramble(counter):
    """Return 64 random bits that depend on a counter alone: the output function of SplitMix64 (Steele et al., 2014).

    Simulations that share counters share their random numbers, however many steps each takes.
    """
    bits = np.uint64(counter) * _GOLDEN
    bits = (bits ^ (bits >> _S30)) * _MIX_1
    bits = (bits ^ (bits >> _S27)) * _MIX_2
    return bits ^ (bits >> _S31)
