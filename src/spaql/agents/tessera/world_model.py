"""A model of the environment, learned from transitions, and one step in it.

With x the standardised state, u the features of the action and z = (x, u),

* *dynamics*: x' - x is a tree of linear models of z (`spaql.agents.tessera.linear_tree`).  Where it is not almost
  exact, a residual is drawn from those of the same leaf, all outputs together: so noise that differs from place to
  place, or one observed number that cannot be predicted at all, is sampled as it was observed.
* *reward*: a tree of linear models of z, or of (z, x') where that has the smaller held-out error.  Rewards of the last
  step have a tree of their own, as they often differ.
* *end*: the share of terminated transitions in the leaf of a classification tree (`spaql.agents.tessera.end_tree`).

In short episodes the time step is one more feature, at the end of u, where that lowers a held-out error: a price or a
deadline may depend on it.  Which outputs have a quadratic term is decided by held-out error too.  Predictions stay
within the observed ranges of x', x' - x and the reward.  Where only few episodes came near an end of the range of x',
it may go on beyond: a policy that is to be returned must not rely on the model there, and *unknown* states end the
episode with the worst return that is possible.

In signatures: m a `WorldModel`.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spaql.agents.tessera.end_tree import EndTree, fit_ends, predict_ends, score_end
from spaql.agents.tessera.linear_tree import (
    LEAF,
    Fit,
    LinearTree,
    constant,
    find_node,
    fit,
    predict,
    predict_all,
)
from spaql.partition.jit import by_reference, kernel, unreferenced
from spaql.partition.spaces import Floats

NOISY, ON_NEXT, RANDOM_END, TIMED = range(4)  # flags
_EXACT = 1e-3  # share of the changes above which residuals are drawn
_NOISE = 0.1  # and above which expectations are taken over several draws
_POOL = 256  # residuals kept of a leaf
_TRIAL = 4000  # transitions on which alternatives are compared
_BETTER = 0.9  # held-out squared error of an alternative, relative to the simpler one
_SIGNIFICANT = 4.0  # standard errors by which it is smaller where the time step is a feature
ACTION_SCALE = 2.0 * math.sqrt(3.0)  # a uniform action then has unit variance
_MARGIN = 0.25  # of the range of rewards, by which those of drawn states may exceed it
_UNIT = 2.0**-53
_MOST_CURVED = 16  # features that may have products
_FEW_STOPPED = 5  # with fewer x' at a limit it is none
_CENSORED = 0.1  # share of the variance that a linear model may leave unexplained to be trusted beyond a limit
_FEW_EPISODES = 3  # with fewer near an end of the range, states beyond it are unknown


class Data(NamedTuple):
    """Transitions as the model sees them."""

    states: Floats  # [n, d] standardised
    features: Floats  # [n, k] of the actions, and of the time step where the model depends on it
    rewards: Floats  # [n]
    following: Floats  # [n, d]
    ended: NDArray[np.bool_]  # [n] terminated


class Arrays(NamedTuple):
    """The arrays of a learned model."""

    dynamics: LinearTree
    pool: Floats  # [nodes, residuals, d] of the dynamics, by leaf
    pool_sizes: NDArray[np.int64]  # [nodes]
    reward: LinearTree
    final: LinearTree  # reward of the last step
    end: EndTree
    change: Floats  # [2, d] observed range of x' - x
    range: Floats  # [2, d] of x', and as far beyond as states are unknown
    known: Floats  # [2, d] where unknown states begin
    worst: Floats  # [1] return from there on
    rewards: Floats  # [2, 2] of rewards, and of those of last steps
    periods: Floats  # [d] of periodic states, 0 for others
    table: Floats  # [actions, k] features of discrete actions; [0, k] where they are a box
    clock: Floats  # [2] mean and scale of the time step, by which its feature is standardised
    flags: NDArray[np.int64]  # [4]


@by_reference
class WorldModel(Arrays):
    """A learned model; see the module's docstring."""


@kernel(inline=True)
def encode_action(table, action, u):
    """Write the features of an action, a number or a point of the unit cube, into the first numbers of `u`."""
    for i in range(table.shape[1]):
        u[i] = table[int(action[0]), i] if table.shape[0] > 0 else ACTION_SCALE * (action[i] - 0.5)


def encode_actions(table: Floats, actions: Floats) -> Floats:
    """Return the features of actions `[n, actions]`, `[n, k]`."""
    if len(table):
        return np.ascontiguousarray(table[actions[:, 0].astype(np.int64)])
    return np.ascontiguousarray(actions * ACTION_SCALE - 0.5 * ACTION_SCALE)


@kernel(inline=True)
def imagine(m, z, step, following, bits):
    """Play a time step of the model: write x' of z = (x, u) into `following` [d]; return the reward and the end.

    The end is whether the episode terminated.  `bits` decide what is random; 0 plays the mean.  `z` has room for x'
    behind u, and receives it, and the feature of the time step.
    """
    m = unreferenced(m)
    states = following.shape[0]
    width = m.dynamics.slopes.shape[2]
    if m.flags[TIMED]:
        z[width - 1] = (step - m.clock[0]) / m.clock[1]
    node = predict(m.dynamics, z, following)
    draws = bits != 0 and m.pool_sizes[node] > 0
    pick = (np.int64(bits >> np.uint64(40)) * m.pool_sizes[node]) >> 24 if draws else 0
    unknown = False
    for d in range(states):
        change = min(max(following[d], m.change[0, d]), m.change[1, d])
        if draws:
            change += m.pool[node, pick, d]
        place = z[d] + change
        if m.periods[d] > 0.0:
            place -= m.periods[d] * math.floor((place - m.range[0, d]) / m.periods[d])
        else:
            place = min(max(place, m.range[0, d]), m.range[1, d])
            unknown = unknown or place < m.known[0, d] or place > m.known[1, d]
        following[d] = place
        z[width + d] = place
    if unknown:
        return m.worst[0], True
    share = m.end.shares[0]
    if m.end.dims.shape[0] > 1:
        node, score = 0, score_end(m.end.weights, following)
        while m.end.dims[node] >= 0:
            dim = m.end.dims[node]  # of (x', u, x, score)
            at = width + dim if dim < states else dim if dim < width else dim - width
            value = z[at] if dim < width + states else score
            node = m.end.children[node] + (value >= m.end.cuts[node])
        share = m.end.shares[node]
    if m.flags[RANDOM_END] and bits != 0:
        ended = np.int64((bits * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(11)) * _UNIT < share
    else:
        ended = share > 0.5
    if ended:
        return min(max(first_output(m.final, z), m.rewards[1, 0]), m.rewards[1, 1]), True
    reward = min(max(first_output(m.reward, z), m.rewards[0, 0]), m.rewards[0, 1])
    return reward, False


@kernel()
def imagine_step(m, z, step, following, bits):
    """Do the same without being inlined, where speed matters less than the time to compile."""
    return imagine(m, z, step, following, bits)


@kernel(inline=True)
def first_output(t, z):
    """Return the only output of a tree."""
    node = find_node(t.dims, t.cuts, t.children, z)
    total = t.offsets[node, 0]
    width = t.slopes.shape[2]
    for i in range(width):
        total += t.slopes[node, 0, i] * z[i]
    if t.curvature.shape[0] > 0:
        p = 0
        for i in range(width):
            for j in range(i + 1):
                total += t.curvature[0, p] * z[i] * z[j]
                p += 1
    return total


class Frontier(NamedTuple):
    """Where unknown states begin; see `WorldModel`."""

    range: Floats
    known: Floats
    worst: Floats


class Choices(NamedTuple):
    """What held-out errors decided."""

    curved: NDArray[np.bool_]  # [d] quadratic terms of the dynamics
    on_next: bool  # whether the reward depends on x'
    reward_curved: NDArray[np.bool_]  # [1]


def choose(data: Data, changes: Floats, order: NDArray[np.int64], *, quadratic: bool, on_next: bool) -> Choices:
    """Compare alternatives on held-out transitions: a quarter of a sample."""
    states = data.states.shape[1]
    data, changes, train, test = _draw_sample(data, changes, order)
    z = np.concatenate([data.states, data.features], axis=1)
    width = z.shape[1]
    none = Choices(np.zeros(states, np.bool_), False, np.zeros(1, np.bool_))
    if len(test) < 25:
        return none
    curved, all_curved = np.zeros(states, np.bool_), np.ones(states, np.bool_)
    enough = len(train) > 5 * (width + 1) * (width + 2) // 2
    if quadratic and enough and width <= _MOST_CURVED:
        plain, other = (find_losses(z, changes, train, test, each).mean(axis=0) for each in (None, all_curved))
        curved = (other < _BETTER * plain) & (plain > 1e-8 * changes[test].var(axis=0))
    going, rewards = ~data.ended, data.rewards[:, None]
    train, test = train[going[train]], test[going[test]]
    if len(test) < 25 or not np.ptp(data.rewards[train]) > 0.0:
        return Choices(curved, False, none.reward_curved)
    seen = np.concatenate([z, data.following], axis=1)
    one = np.ones(1, np.bool_)
    error = find_losses(z, rewards, train, test, None).mean()
    scale = data.rewards[test].var()
    depends = on_next and find_losses(seen, rewards, train, test, None).mean() < _BETTER * error - 1e-8 * scale
    inputs = seen if depends else z
    bent = none.reward_curved
    if quadratic and enough and inputs.shape[1] <= _MOST_CURVED:
        plain, other = (find_losses(inputs, rewards, train, test, each).mean(axis=0) for each in (None, one))
        bent = (other < _BETTER * plain) & (plain > 1e-8 * scale)
    return Choices(curved, bool(depends), bent)


def depends_on_time(data: Data, changes: Floats, order: NDArray[np.int64], choices: Choices, clock: Floats) -> bool:
    """Whether the time step, standardised as `clock` [n], lowers a held-out error: of a change, the reward or the end.

    It must do so significantly, and in models with the same quadratic terms: a tree that cannot follow the reward, or a
    wall, would take the time step as a hint.
    """
    clock = clock[order[:_TRIAL]]
    data, changes, train, test = _draw_sample(data, changes, order)
    ended, states = data.ended, data.states.shape[1]
    going, over = (train[~ended[train]], test[~ended[test]]), train[ended[train]]
    if min(map(len, going)) < 25:
        return False
    rewards = data.rewards[:, None] / max(float(np.abs(data.rewards).max()), 1e-300)  # their unit may be 1e99
    losses: list[list[Floats]] = []
    for features in (data.features, np.column_stack([data.features, clock])):
        z = np.concatenate([data.states, features], axis=1)
        seen = np.concatenate([z, data.following], axis=1) if choices.on_next else z
        inputs = np.concatenate([data.following, features, data.states], axis=1)
        tree = fit_ends(inputs, states, going[0], over)
        share = predict_ends(tree, data.following[test], features[test], data.states[test])
        losses.append(
            [
                *find_losses(z, changes, train, test, choices.curved).T,
                *find_losses(seen, rewards, *going, choices.reward_curved).T,
                (share - ended[test]) ** 2,
            ]
        )
    scales = [*changes[test].var(axis=0), rewards[test].var(), 1.0]
    for plain, timed, scale in zip(*losses, scales, strict=True):
        gain = plain - timed
        error = gain.std() / math.sqrt(len(gain))
        if gain.mean() > max((1.0 - _BETTER) * plain.mean(), 1e-6 * scale, _SIGNIFICANT * error):
            return True
    return False


def _draw_sample(data: Data, changes: Floats, order: NDArray[np.int64]) -> tuple[Data, Floats, Any, Any]:
    """Return the first transitions of a random order, with the rows to fit to and those to test on."""
    sample = order[:_TRIAL]
    train, test = np.split(np.arange(len(sample)), [3 * len(sample) // 4])
    return Data._make(column[sample] for column in data), changes[sample], train, test


def find_losses(
    features: Floats,
    outputs: Floats,
    train: NDArray[np.int64],
    test: NDArray[np.int64],
    curved: NDArray[np.bool_] | None,
) -> Floats:
    """Return squared errors on held-out rows `test` of a tree fitted to the rows `train`, `[n, M]`."""
    tree = fit(features, outputs, train, curved).tree
    predicted = np.empty((len(test), outputs.shape[1]))
    predict_all(tree, np.ascontiguousarray(features[test]), predicted)
    return np.asarray((predicted - outputs[test]) ** 2)


def find_changes(data: Data, periods: Floats) -> Floats:
    """Return x' - x, the shorter way round for periodic states."""
    changes = data.following - data.states
    rounds = periods > 0.0
    turns = np.round(changes[:, rounds] / periods[rounds])
    changes[:, rounds] -= turns * periods[rounds]
    return changes


def extend_saturated(data: Data, changes: Floats, order: NDArray[np.int64], periods: Floats) -> Floats:
    """Return x' - x as it would be without the limits at which states stop: of a speed, or at a wall.

    Several x' that equal the least or the largest one exactly are taken for stopped.  A linear model of the others, if
    it explains most of their variance, says how far they would have gone.  Predictions are clipped to the range of x';
    so only the fit depends on it, which need not bend towards the limit (censored regression: Tobin, 1958).
    """
    z = np.column_stack([data.states, data.features, np.ones(len(changes))])
    extended = changes.copy()
    for d in np.flatnonzero(periods == 0.0):
        reached = data.following[:, d]
        stopped = {sign: reached == sign * (sign * reached[order]).max() for sign in (-1.0, 1.0)}
        stopped = {sign: rows for sign, rows in stopped.items() if rows[order].sum() >= _FEW_STOPPED}
        free = ~np.logical_or.reduce([np.zeros(len(reached), np.bool_), *stopped.values()])
        others = order[free[order]][:_TRIAL]
        if not stopped or len(others) < 5 * z.shape[1]:
            continue
        weights = np.linalg.lstsq(z[others], changes[others, d], rcond=None)[0]
        left = changes[others, d] - z[others] @ weights
        if left.var() < _CENSORED * changes[others, d].var():
            for sign, rows in stopped.items():
                extended[rows, d] = sign * np.maximum(sign * changes[rows, d], sign * (z[rows] @ weights))
    return extended


def fit_model(
    data: Data,
    changes: Floats,
    order: NDArray[np.int64],
    choices: Choices,
    periods: Floats,
    table: Floats,
    *,
    origins: Floats | None = None,
    clock: Floats | None = None,
    frontier: Frontier | None = None,
    residuals: bool = True,
) -> WorldModel:
    """Fit a model to the transitions that `order` lists, at random.

    Periodic states wrap at their `origins` [d], 0 by default.  The last feature is the time step, standardised by
    `clock` [2], where that is given.  Without a frontier nothing is unknown.
    """
    states = data.states.shape[1]
    z = np.concatenate([data.states, data.features], axis=1)
    dynamics = fit(z, changes, order, choices.curved)
    share = _find_noise(dynamics.residuals[order], changes[order])
    drawn = (share > _EXACT) & residuals
    pool, sizes = _make_pool(dynamics, z.shape[1], drawn) if drawn.any() else _no_pool(dynamics, states)
    seen = np.concatenate([z, data.following], axis=1)
    inputs = seen if choices.on_next else z
    going, over = order[~data.ended[order]], order[data.ended[order]]
    reward = _fit_reward(inputs, data.rewards, going, choices.reward_curved)
    final = _fit_reward(z, data.rewards, over, None)
    end = fit_ends(np.concatenate([data.following, data.features, data.states], axis=1), states, going, over)
    ranges = np.array([_range(data.rewards[rows]) for rows in (going, over)])
    if choices.on_next and drawn.any():  # a drawn x' may lie beside all possible ones; the mean reward would be biased
        ranges[0] += _MARGIN * np.ptp(ranges[0]) * np.array([-1.0, 1.0])
    random_end = _is_random(end.shares[end.dims == LEAF])
    known = np.stack([data.following[order].min(axis=0), data.following[order].max(axis=0)])
    limits = known, np.tile([[-np.inf], [np.inf]], states), np.zeros(1)
    if frontier is not None:
        limits = frontier.range.copy(), frontier.known, frontier.worst
    limits[0][0] = np.where(periods > 0.0, 0.0 if origins is None else origins, limits[0][0])
    flags = np.array([(drawn & (share > _NOISE)).any(), choices.on_next, random_end, clock is not None], np.int64)
    return WorldModel(
        dynamics.tree,
        pool,
        sizes,
        reward,
        final,
        end,
        np.stack([changes[order].min(axis=0), changes[order].max(axis=0)]),
        *limits,
        ranges,
        periods,
        table,
        np.array([0.0, 1.0]) if clock is None else clock,
        flags,
    )


def find_frontier(
    data: Data, changes: Floats, episodes: NDArray[np.int64], horizon: int, periodic: NDArray[np.bool_]
) -> Frontier:
    """Return where unknown states begin: beyond ends of the range of x' near which few of the `episodes` [n] came.

    At a wall, or at the end of the range of a cosine, many come near it.  Near is within a large step, than which
    nine of ten are smaller; unknown states begin as far beyond.
    """
    step = np.quantile(np.abs(changes), 0.9, axis=0)
    span = np.stack([data.following.min(axis=0), data.following.max(axis=0)])
    known = np.tile([[-np.inf], [np.inf]], len(step))
    for d in np.flatnonzero(~periodic):
        for side, sign in enumerate((-1.0, 1.0)):
            near = np.abs(data.following[:, d] - span[side, d]) <= step[d]
            if len(np.unique(episodes[near])) < _FEW_EPISODES and len(np.unique(episodes)) >= _FEW_EPISODES:
                known[side, d] = span[side, d] + sign * step[d]
                span[side, d] += sign * 2.0 * step[d]
    return Frontier(span, known, np.array([horizon * min(0.0, float(data.rewards.min()))]))


def _find_noise(residuals: Floats, changes: Floats) -> Floats:
    """Return the share of each output's variation that the model leaves unexplained.

    By the size that nine of ten stay below, not by variances: at a wall a few changes are far larger than all others.
    """
    left, all_of_it = (np.quantile(np.abs(each - each.mean(axis=0)), 0.9, axis=0) for each in (residuals, changes))
    return np.where(all_of_it > 1e-9, left / np.maximum(all_of_it, 1e-9), 0.0)


def _range(rewards: Floats) -> tuple[float, float]:
    return (float(rewards.min()), float(rewards.max())) if len(rewards) else (0.0, 0.0)


def _is_random(shares: Floats) -> bool:
    return bool(((shares > 0.02) & (shares < 0.98)).any())


def _fit_reward(
    features: Floats, rewards: Floats, rows: NDArray[np.int64], curved: NDArray[np.bool_] | None
) -> LinearTree:
    width = features.shape[1]
    if len(rows) < 2 * (width + 1) or np.ptp(rewards[rows]) < 1e-12 * max(1.0, np.abs(rewards[rows]).max()):
        return constant(width, float(rewards[rows].mean()) if len(rows) else 0.0)
    return fit(features, rewards[:, None], rows, curved).tree


def _no_pool(dynamics: Fit, states: int) -> tuple[Floats, NDArray[np.int64]]:
    nodes = len(dynamics.tree.dims)
    return np.zeros((nodes, 0, states)), np.zeros(nodes, np.int64)


def _make_pool(dynamics: Fit, width: int, noisy: NDArray[np.bool_]) -> tuple[Floats, NDArray[np.int64]]:
    """Return residuals of each leaf, of noisy outputs only, as large as those of new data would be."""
    nodes, outputs = len(dynamics.tree.dims), dynamics.residuals.shape[1]
    pool, sizes = np.zeros((nodes, _POOL, outputs)), np.zeros(nodes, np.int64)
    for node in np.flatnonzero(dynamics.tree.dims == LEAF):
        rows = dynamics.rows[dynamics.first[node] : dynamics.last[node]]
        count = len(rows)
        picked = rows[np.linspace(0, count, min(count, _POOL), endpoint=False).astype(np.int64)]
        residuals = dynamics.residuals[picked] * math.sqrt(count / max(count - width - 1, 1))
        pool[node, : len(picked)] = np.where(noisy, residuals, 0.0)
        sizes[node] = len(picked)
    return pool, sizes
