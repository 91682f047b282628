"""Problems of our own for the tests, each as a compiled problem and in the textbook's plain form."""

import textbook
from spaql.partition.rng import uniform
from spaql.problems import Box, Discrete, Problem


def _clip(v, low, high):
    return min(high, max(low, v))


def _box_step(state, action, parameters, random, next_state):
    """A jumpy walk in two dimensions, in odd units, that may end early."""
    for d in range(2):
        next_state[d] = 0.5 * (state[d] + action[d])
    noise = uniform(random)
    next_state[0] = 0.75 * next_state[0] + 0.25 * (2.0 * noise - 1.0)
    return 1.0 - 0.5 * abs(next_state[0]) - 0.25 * abs(next_state[1]), noise < parameters[0]


def _box_reset(parameters, random, state):
    state[0] = 2.0 * uniform(random) - 1.0
    state[1] = 0.5


class PlainBoxWorld:
    horizon, states, actions = 6, 2, 2

    def unit(self, x):
        return tuple((v + 1.0) / 2.0 for v in x)

    def reset(self, random):
        return (2.0 * random.uniform() - 1.0, 0.5)

    def step(self, state, a, random):
        action = [-1.0 + v * 2.0 for v in a]
        following = [0.5 * (s + b) for s, b in zip(state, action, strict=True)]
        noise = random.uniform()
        following[0] = 0.75 * following[0] + 0.25 * (2.0 * noise - 1.0)
        reward = 1.0 - 0.5 * abs(following[0]) - 0.25 * abs(following[1])
        return reward, tuple(following), noise < 0.2


def box_world():
    problem = Problem(
        name="box world",
        step=_box_step,
        reset=_box_reset,
        states=Box([-1, -1], [1, 1]),
        actions=Box([-1, -1], [1, 1]),
        horizon=6,
        parameters=[0.2],
    )
    return problem, PlainBoxWorld(), None


def _finite_step(state, action, parameters, random, next_state):
    """Push one of two coordinates, or do nothing."""
    for d in range(2):
        push = 0.25 if action[0] == d else -0.0625
        next_state[d] = min(1.0, max(0.0, state[d] + push))
    return 1.0 - abs(next_state[0] - 0.75) - 0.5 * abs(next_state[1] - 0.25), False


def _finite_reset(parameters, random, state):
    state[0] = uniform(random)
    state[1] = uniform(random)


class PlainFiniteWorld(textbook.UnitSpace):
    horizon, states, actions = 5, 2, 1

    def reset(self, random):
        return (random.uniform(), random.uniform())

    def step(self, x, a, random):
        following = tuple(_clip(v + (0.25 if a[0] == d else -0.0625), 0.0, 1.0) for d, v in enumerate(x))
        return 1.0 - abs(following[0] - 0.75) - 0.5 * abs(following[1] - 0.25), following, False


def finite_world():
    problem = Problem(
        name="finite world",
        step=_finite_step,
        reset=_finite_reset,
        states=Box([0, 0], [1, 1]),
        actions=Discrete(3),
        horizon=5,
    )
    return problem, PlainFiniteWorld(), 3
