"""Random streams: the generator itself, the laws of what is drawn from it, and who gets which stream."""

import numpy as np
import pytest
from numba.core import config
from scipy import stats

from spaql.partition.jit import kernel
from spaql.partition.rng import Purpose, gamma, generator, normal, stream, uniform

DRAWS = 2_000 if config.DISABLE_JIT else 200_000
MASK = (1 << 64) - 1

# The first outputs of xoshiro256++ from the state (1, 2, 3, 4); the test vector of Rust's rand_xoshiro.
FROM_1234 = [
    41943041,
    58720359,
    3588806011781223,
    3591011842654386,
    9228616714210784205,
    9973669472204895162,
    14011001112246962877,
    12406186145184390807,
    15849039046786891736,
    10450023813501588000,
]


def rotate(x, k):
    return ((x << k) & MASK) | (x >> (64 - k))


def reference(state, count):
    """Blackman and Vigna's generator in Python's own integers."""
    s0, s1, s2, s3 = (int(word) for word in state)
    words = []
    for _ in range(count):
        words.append((rotate((s0 + s3) & MASK, 23) + s0) & MASK)
        shifted = (s1 << 17) & MASK
        s2 ^= s0
        s3 ^= s1
        s1 ^= s2
        s0 ^= s3
        s2 ^= shifted
        s3 = rotate(s3, 45)
    return words, [s0, s1, s2, s3]


@kernel()
def fill_uniform(random, values):
    for i in range(values.size):
        values[i] = uniform(random)


@kernel()
def fill_normal(random, values):
    for i in range(values.size):
        values[i] = normal(random)


@kernel()
def fill_gamma(random, shape, values):
    for i in range(values.size):
        values[i] = gamma(random, shape)


def draw(fill, seed, *arguments, count=DRAWS):
    values = np.empty(count)
    fill(stream(seed, Purpose.TRAINING), *arguments, values)
    return values


def test_the_reference_gives_the_known_words():
    assert reference([1, 2, 3, 4], len(FROM_1234))[0] == FROM_1234


@pytest.mark.parametrize(
    "state",
    [(1, 2, 3, 4), (MASK, MASK, MASK, MASK), (1 << 63, 0, 0, 0), tuple(stream(0, 0)), tuple(stream(2**70, 3, 1))],
    ids=["1234", "all ones", "one bit", "seed 0", "large seed"],
)
def test_uniform_is_xoshiro256_plus_plus(state):
    random = np.array(state, np.uint64)
    values = np.empty(300)
    fill_uniform(random, values)
    words, after = reference(state, values.size)
    assert values.tolist() == [(word >> 11) * 2.0**-53 for word in words]
    assert random.tolist() == after


def test_uniform_reaches_its_ends_and_not_beyond():
    """A state whose next word is 0 gives exactly 0; one whose next word is all ones gives the float below 1."""
    zero = np.array([0, 1, 1, 0], np.uint64)
    ones = np.array([0, 1, 1, rotate(MASK, 41)], np.uint64)
    assert uniform(zero) == 0.0
    assert uniform(ones) == 1.0 - 2.0**-53


def test_uniform_is_uniform():
    values = draw(fill_uniform, 0)
    assert values.min() >= 0.0
    assert values.max() < 1.0
    assert stats.kstest(values, "uniform").pvalue > 1e-3
    assert abs((np.hypot(values[::2], values[1::2]) < 1.0).mean() - np.pi / 4) < 5.0 / np.sqrt(DRAWS)


def test_normal_is_normal():
    values = draw(fill_normal, 1)
    assert stats.kstest(values, "norm").pvalue > 1e-3
    assert abs(values.mean()) < 5.0 / np.sqrt(DRAWS)
    assert abs(values.std() - 1.0) < 5.0 / np.sqrt(DRAWS)
    assert abs(np.corrcoef(values[:-1], values[1:])[0, 1]) < 5.0 / np.sqrt(DRAWS)


@pytest.mark.parametrize("shape", [0.05, 0.3, 0.999, 1.0, 1.5, 2.0, 5.0, 80.0, 1e6])
def test_gamma_is_gamma(shape):
    values = draw(fill_gamma, 2, shape)
    assert values.min() >= 0.0
    assert stats.kstest(values, "gamma", args=(shape,)).pvalue > 1e-3
    assert abs(values.mean() - shape) < 5.0 * np.sqrt(shape / DRAWS)
    spread = shape * np.sqrt((2.0 + 6.0 / shape) / DRAWS)  # standard error of the variance
    assert abs(values.var() - shape) < 8.0 * spread


@pytest.mark.parametrize("shape", [0.5, 4.0])
def test_the_share_of_one_gamma_in_two_is_beta(shape):
    first, second = draw(fill_gamma, 3, shape), draw(fill_gamma, 4, 2.0)
    assert stats.kstest(first / (first + second), "beta", args=(shape, 2.0)).pvalue > 1e-3


def test_same_seed_same_stream():
    for purpose in Purpose:
        np.testing.assert_array_equal(stream(7, purpose), stream(7, purpose))
        assert generator(7, purpose).random() == generator(7, purpose).random()


def test_streams_of_different_seeds_purposes_and_keys_differ():
    """Seed 0 is a seed, and no two of these share even one word of their state."""
    streams = [stream(seed, purpose, *key) for seed in range(4) for purpose in Purpose for key in ((), (0,), (1,))]
    words = np.concatenate([*streams, stream(2**64, 0), stream(2**127 + 1, 0)])
    assert len(set(words.tolist())) == words.size


def test_streams_of_two_purposes_are_not_correlated():
    values = np.empty((2, DRAWS))
    fill_uniform(stream(0, Purpose.TRAINING), values[0])
    fill_uniform(stream(0, Purpose.TRAINING_ENVIRONMENT), values[1])
    assert abs(np.corrcoef(values)[0, 1]) < 5.0 / np.sqrt(DRAWS)


def test_a_stream_is_four_words_not_all_zero():
    words = stream(0, Purpose.TRAINING)
    assert words.shape == (4,)
    assert words.dtype == np.uint64
    assert words.any()


def test_drawing_advances_only_the_stream_given():
    mine, other = stream(0, 0), stream(0, 1)
    before = other.copy()
    first, second = uniform(mine), uniform(mine)
    assert first != second
    np.testing.assert_array_equal(other, before)


def test_generators_of_different_purposes_differ():
    assert len({generator(0, purpose).random() for purpose in Purpose}) == len(Purpose)
