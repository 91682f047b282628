"""Small worlds, transitions of them, and models fitted to these."""

from functools import cache

import numpy as np

from spaql.agents.tessera.world_model import Data, choose, find_changes, fit_model

BOX, THREE = np.zeros((0, 1)), np.eye(3)[:, 1:].copy()  # features of one number, and of three discrete actions


def observe(step, count=300, seed=0, width=1, table=BOX):
    """Transitions of states and actions drawn at random; `step(x, u, random)` returns x', reward and end."""
    random = np.random.default_rng(seed)
    states = random.normal(size=(count, width))
    features = random.normal(size=(count, 1))
    if len(table):
        features = table[random.integers(0, len(table), count)]
    following, rewards, ended = zip(*(step(x, u, random) for x, u in zip(states, features, strict=True)), strict=True)
    return Data(states, features, np.array(rewards, float), np.array(following, float), np.array(ended, bool))


def learn(data, periods=None, table=BOX, seed=0, options=(), **more):
    """Choices and model of some transitions."""
    periods = np.zeros(data.states.shape[1]) if periods is None else np.array(periods, float)
    changes, order = find_changes(data, periods), np.random.default_rng(seed).permutation(len(data.rewards))
    choices = choose(data, changes, order, **({"quadratic": True, "on_next": True} | dict(options)))
    return choices, fit_model(data, changes, order, choices, periods, table, **more)


def drift(x, u, random):
    """Linear, with noise, and an end far out."""
    following = 0.9 * x + 0.4 * u + 0.2 * random.normal(size=1)
    return following, 1.0 - abs(x[0]), following[0] > 1.5


def walk(x, u, random):
    """Two states, three actions, no noise."""
    following = x + np.array([0.3 * u[0] - 0.1, 0.3 * u[1] - 0.1])
    return following, 1.0 - abs(x[0]) - 0.5 * abs(x[1]), False


def learn_timed(step, count=400, horizon=6, seed=0, width=1, table=BOX):
    """A model of a world in which the time step matters, `step(x, u, time, random)`; it is not decided, but given."""
    random = np.random.default_rng(seed)
    times = random.integers(0, horizon, count).astype(float)
    clock = np.array([times.mean(), times.std()])
    left = iter(times)
    data = observe(lambda x, u, random: step(x, u, next(left), random), count, seed, width, table)
    data = data._replace(features=np.column_stack([data.features, (times - clock[0]) / clock[1]]))
    return data, learn(data, table=table, clock=clock)[1]


def deadline(x, u, time, random):
    """The reward falls with time, and the last of six steps terminates the episode and pays for the state."""
    following = 0.9 * x + 0.4 * u + 0.1 * random.normal(size=1)
    return following, following[0] if time == 5 else -0.2 * time, time == 5


@cache
def deadline_models(count=400):
    """Three models of `deadline`, and starts."""
    models = tuple(learn_timed(deadline, count, seed=seed)[1] for seed in (0, 1, 2))
    return models, np.random.default_rng(2).normal(size=(4, 1))


@cache
def drift_models(count=200):
    """Three models of `drift`, as many as plans have, and starts."""
    models = tuple(learn(observe(drift, count, seed), seed=seed)[1] for seed in (0, 1, 2))
    return models, np.random.default_rng(2).normal(size=(4, 1))


@cache
def walk_models(count=150):
    """A model of `walk`, three times, and starts."""
    data = observe(walk, count, width=2, table=THREE)
    return (learn(data, table=THREE)[1],) * 3, np.random.default_rng(2).normal(size=(4, 2))
