"""Policies judged and improved by their returns in learned models, which costs no step of the environment.

Rollouts begin in recorded starts and sum up rewards over the real horizon, without a discount.  All policies are judged
with the same random numbers: the draws of step t of rollout k depend on k and t alone.  With several models, each
fitted to other data, a policy's score is half of their mean and half of the worst of them: a policy that exploits the
errors of one model fails in another.  In every second rollout some actions are random, so that a policy which only just
reaches its goal in the models scores less than one with a margin.

A change of one cut or one action leaves most rollouts as they were up to some step, or altogether.  Rollouts are
therefore recorded (`Rollouts`), and after a change each is played on from the first step whose action may differ.

A policy may compare the time step: in its tree that is the number behind those of the state, from 0.

In signatures: `models` a tuple of `WorldModel`, t a `PolicyTree`, r `Rollouts`; starts [n, d].
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spaql.agents.tessera.linear_tree import LEAF, find_node
from spaql.agents.tessera.policy_tree import PolicyTree
from spaql.agents.tessera.value_iteration import evaluate_value, expect
from spaql.agents.tessera.world_model import ACTION_SCALE, WorldModel, encode_action, imagine, imagine_step
from spaql.partition.jit import kernel, unreferenced
from spaql.partition.rng import normal, scramble, uniform
from spaql.partition.spaces import Floats

_LONGEST_REPEAT = 10
_PERTURBED = 2  # one in so many rollouts has random actions
_RANDOM = 0.03  # share of its actions that are
_UNIT = 2.0**-53
_SHIFT = np.uint64(11)


class Rollouts(NamedTuple):
    """Rollouts of a policy in each model, step by step."""

    points: Floats  # [models, rollouts, horizon, d]
    leaves: NDArray[np.int32]  # [models, rollouts, horizon] of the policy
    before: Floats  # [models, rollouts, horizon] return before the step
    lengths: NDArray[np.int64]  # [models, rollouts]
    returns: Floats  # [models, rollouts]


@kernel(hot=False)
def perturb(table, bits, u):
    """Replace the features of an action by those of a random one, in a small share of all steps."""
    bits = scramble(bits)
    place = np.int64(bits >> _SHIFT) * _UNIT / _RANDOM
    if place >= 1.0:
        return
    if table.shape[0] > 0:
        for i in range(table.shape[1]):
            u[i] = table[int(place * table.shape[0]), i]
        return
    for i in range(table.shape[1]):
        bits = scramble(bits)
        u[i] = ACTION_SCALE * (np.int64(bits >> _SHIFT) * _UNIT - 0.5)


@kernel()
def play_on(m, t, z, k, step, total, r, i, recorded):
    """Play rollout k of model i from a step, whose state z begins with; return its return and the steps played.

    `total` is the return so far.  `recorded` says whether to write into r.
    """
    states, width, horizon = m.range.shape[1], m.dynamics.slopes.shape[2], r.points.shape[2]
    u, following = z[states:width], np.empty(states)
    perturbed = scramble(k) % np.uint64(_PERTURBED) == np.uint64(_PERTURBED - 1)
    first = step
    while step < horizon:
        z[states] = step
        node = find_node(t.dims, t.cuts, t.children, z)
        if recorded:
            for d in range(states):
                r.points[i, k, step, d] = z[d]
            r.leaves[i, k, step] = node
            r.before[i, k, step] = total
        encode_action(m.table, t.actions[node], u)
        bits = scramble(1 + k * horizon + step)
        if perturbed:
            perturb(m.table, bits, u)
        reward, end = imagine(m, z, step, following, bits)
        total += reward
        step += 1
        if end:
            break
        for d in range(states):
            z[d] = following[d]
    if recorded:
        r.lengths[i, k] = step
        r.returns[i, k] = total
    return total, step - first


@kernel(hot=False)
def play_rollouts(models, t, starts, first, rollouts, r, recorded):
    """Play rollouts of a policy in each model; return the total returns `[models]`.  `recorded`: whether to fill r.

    Their numbers, which decide on their starts and draws, begin with `first`, which is 0 where they are recorded.
    """
    t, r = unreferenced(t), unreferenced(r)
    totals, states = np.zeros(len(models)), starts.shape[1]
    i = 0
    for m in models:
        z = np.zeros(m.dynamics.slopes.shape[2] + states)
        for k in range(first, first + rollouts):
            z[:states] = starts[k % starts.shape[0]]
            totals[i] += play_on(m, t, z, k, 0, 0.0, r, i, recorded)[0]
        i += 1  # noqa: SIM113  (Numba cannot enumerate tuples)
    return totals


def make_rollouts(models: int, rollouts: int, horizon: int, states: int) -> Rollouts:
    """Return room for rollouts."""
    return Rollouts(
        np.empty((models, rollouts, horizon, states)),
        np.empty((models, rollouts, horizon), np.int32),
        np.empty((models, rollouts, horizon)),
        np.empty((models, rollouts), np.int64),
        np.empty((models, rollouts)),
    )


def record_rollouts(
    models: tuple[WorldModel, ...], t: PolicyTree, starts: Floats, horizon: int, rollouts: int
) -> Rollouts:
    """Play rollouts of a policy in each model."""
    r = make_rollouts(len(models), rollouts, horizon, starts.shape[1])
    play_rollouts(models, t, starts, 0, rollouts, r, True)
    return r


@kernel(hot=False)
def combine_returns(totals, rollouts):
    """Return half of the mean and half of the least mean return, of total returns in each model."""
    return (0.5 * totals.mean() + 0.5 * totals.min()) / rollouts


def score_policy(
    models: tuple[WorldModel, ...], t: PolicyTree, starts: Floats, horizon: int, rollouts: int, first: int = 0
) -> float:
    """Return the score of a policy, by the rollouts with the numbers from `first` on."""
    r = make_rollouts(0, 0, horizon, 0)
    totals = play_rollouts(models, t, starts, first, rollouts, r, False)
    return float((0.5 * totals.mean() + 0.5 * totals.min()) / rollouts)


@kernel()
def find_change(r, i, k, leaves, dim, low, high):
    """Return the first step of a rollout in one of some `leaves` [nodes] where low <= x[dim] < high, or its length.

    A `dim` of LEAF compares nothing.
    """
    states = r.points.shape[3]
    for step in range(r.lengths[i, k]):
        if leaves[r.leaves[i, k, step]]:
            if dim == LEAF:
                return step
            value = r.points[i, k, step, dim] if dim < states else float(step)
            if low <= value < high:
                return step
    return r.lengths[i, k]


@kernel()
def replay(models, t, r, change, first, last, totals, recorded):
    """Play the rollouts `first` to `last` - 1 on from where a changed policy may decide otherwise.

    `change` is what `find_change` looks for.  Adds the returns in each model to `totals` [models]; returns the steps
    that were played.
    """
    leaves, dim, low, high = change
    states = r.points.shape[3]
    played = 0
    i = 0
    for m in models:
        z = np.zeros(m.dynamics.slopes.shape[2] + states)
        for k in range(first, last):
            step = find_change(r, i, k, leaves, dim, low, high)
            if step == r.lengths[i, k]:
                totals[i] += r.returns[i, k]
                continue
            z[:states] = r.points[i, k, step]
            total, steps = play_on(m, t, z, k, step, r.before[i, k, step], r, i, recorded)
            totals[i] += total
            played += steps
        i += 1
    return played


@kernel(hot=False)
def try_change(models, t, r, change, slack, least):
    """Return the score of a changed policy and the steps that were played; the change is recorded if it is kept.

    It is where the score exceeds `least`.  A quarter of the rollouts is played first, and the others only where it
    does not say in all models that the change is worse by more than `slack`.
    """
    rollouts = r.returns.shape[1]
    part = max(1, rollouts // 4)
    totals = np.zeros(len(models))
    played = replay(models, t, r, change, 0, part, totals, False)
    worse = True
    for i in range(len(models)):
        worse = worse and totals[i] < r.returns[i, :part].sum() - slack * part
    if worse and part < rollouts:
        return -np.inf, played
    played += replay(models, t, r, change, part, rollouts, totals, False)
    score = combine_returns(totals, rollouts)
    if score > least:
        played += replay(models, t, r, change, 0, rollouts, totals, True)
    return score, played


@kernel(hot=False)
def mark_below(t, node, leaves):
    """Set `leaves` [nodes] to whether a node is below another, or is it."""
    leaves[:] = False
    leaves[node] = True
    for other in range(node, t.dims.shape[0]):
        if leaves[other] and t.dims[other] != LEAF:
            leaves[t.children[other]] = leaves[t.children[other] + 1] = True


@kernel(hot=False)
def climb(models, t, r, actions, spread, budget, ceiling, random):
    """Improve a policy by random changes of one cut or one action, kept where the score rises; return the score.

    `r` are its rollouts, and stay so.  `spread` [d + 1] is the scale of the states and of time.  `actions` [J, k] are
    the candidates for discrete actions; where actions are a box, the action of a leaf is moved, or replaced by a
    candidate.  The climb ends after `budget` steps in the models, after 60 changes per node, or where the score reaches
    `ceiling`, above which no policy has one.
    """
    t, r = unreferenced(t), unreferenced(r)
    nodes = t.dims.shape[0]
    discrete = models[0].table.shape[0] > 0
    leaves, before = np.zeros(nodes, np.bool_), t.actions[0].copy()
    totals = np.zeros(len(models))
    for i in range(len(models)):
        totals[i] = r.returns[i].sum()
    score = combine_returns(totals, r.returns.shape[1])
    played = 0
    for _ in range(60 * nodes):
        if score >= ceiling or played >= budget:
            break
        node = int(uniform(random) * nodes)
        dim = np.int64(t.dims[node])
        cut = t.cuts[node]
        before[:] = t.actions[node]
        if dim != LEAF:
            t.cuts[node] += 0.3 * spread[dim] * normal(random) * uniform(random) ** 2
        elif discrete or uniform(random) < 0.2:
            t.actions[node] = actions[int(uniform(random) * actions.shape[0])]
        else:
            width = 0.3 * uniform(random) ** 2
            for k in range(before.shape[0]):
                t.actions[node, k] = min(max(before[k] + width * normal(random), 0.0), 1.0)
        changed = dim != LEAF
        for k in range(before.shape[0]):
            changed = changed or t.actions[node, k] != before[k]
        if not changed:
            continue
        mark_below(t, node, leaves)
        change = leaves, dim, min(cut, t.cuts[node]), max(cut, t.cuts[node])
        after, steps = try_change(models, t, r, change, 0.0, score)
        played += 1 + steps
        if after > score:
            score = after
        else:
            t.cuts[node] = cut
            t.actions[node] = before
    return score


@kernel(hot=False)
def prune(models, t, r, score, floor):
    """Make leaves of nodes above two leaves while the score stays at `floor` or above; return it.

    `r` are the policy's rollouts, and stay so.  Leaves that are joined keep their nodes, and play the same action;
    `truncate` drops them.
    """
    t, r = unreferenced(t), unreferenced(r)
    nodes = t.dims.shape[0]
    leaves, joined = np.zeros(nodes, np.bool_), t.dims == LEAF
    before = t.actions[0].copy()
    for node in range(nodes - 1, -1, -1):
        child = t.children[node]
        if joined[node] or not joined[child] or not joined[child + 1]:
            continue
        best, here = floor, LEAF
        for side in range(2):
            before[:] = t.actions[child + side]
            set_below(t, child + side, t.actions[child + 1 - side], leaves)
            after, _ = try_change(models, t, r, (leaves, LEAF, 0.0, 0.0), score - floor, np.inf)
            set_below(t, child + side, before, leaves)
            if after >= best:
                best, here = after, child + side
                if after >= score:  # no worse than before
                    break
        if here != LEAF:
            other = 2 * child + 1 - here
            set_below(t, here, t.actions[other], leaves)
            replay(models, t, r, (leaves, LEAF, 0.0, 0.0), 0, r.returns.shape[1], np.zeros(len(models)), True)
            t.actions[node] = t.actions[other]
            joined[node] = True
            score = best
    return score


@kernel(hot=False)
def set_below(t, node, action, leaves):
    """Let a node and all below it play one action; `leaves` [nodes] is set to which these are."""
    chosen = action.copy()
    mark_below(t, node, leaves)
    for other in range(node, t.dims.shape[0]):
        if leaves[other]:
            t.actions[other] = chosen


@kernel(hot=False)
def visit_states(m, t, starts, times, horizon, actions, noise, random, count):
    """Return `count` states of episodes of a policy in a model, and their time steps.

    Episodes begin in one of the starts, at its time step, and have `horizon` steps.  Some actions are random, and
    repeated.
    """
    states = starts.shape[1]
    width = m.dynamics.slopes.shape[2]
    z, following = np.zeros(width + states), np.zeros(states)
    u = z[states:width]
    visited, steps = np.zeros((count, states)), np.zeros(count, np.int64)
    seen = 0
    while seen < 4 * count:
        begin = int(uniform(random) * starts.shape[0])
        z[:states] = starts[begin]
        repeats = 0
        for step in range(times[begin], times[begin] + horizon):
            at = seen if seen < count else int(uniform(random) * (seen + 1))
            if at < count:
                visited[at], steps[at] = z[:states], step
            seen += 1
            if repeats > 0:
                repeats -= 1
            elif uniform(random) < noise:
                encode_action(m.table, actions[int(uniform(random) * actions.shape[0])], u)
                repeats = int(min(1.0 / (1.0 - uniform(random)), _LONGEST_REPEAT)) - 1
            else:
                z[states] = step
                encode_action(m.table, t.actions[find_node(t.dims, t.cuts, t.children, z)], u)
            _, end = imagine_step(m, z, step, following, scramble(seen))
            if end or seen >= 4 * count:
                break
            z[:states] = following
    return visited, steps


@kernel(hot=False)
def visit_greedily(m, v, starts, horizon, actions, discount, noise, random, count):
    """Return `count` states of episodes in a model, and their time steps.

    They play the action of largest Q by the mean of the model, but for some random ones.
    """
    states = starts.shape[1]
    width = m.dynamics.slopes.shape[2]
    z, u, following = np.zeros(width + states), np.zeros(width - states), np.zeros(states)
    visited, steps = np.zeros((count, states)), np.zeros(count, np.int64)
    seen = 0
    while seen < count:
        z[:states] = starts[int(uniform(random) * starts.shape[0])]
        repeats = 0
        chosen = 0
        for step in range(horizon):
            visited[seen], steps[seen] = z[:states], step
            seen += 1
            if repeats > 0:
                repeats -= 1
            elif uniform(random) < noise:
                chosen = int(uniform(random) * actions.shape[0])
                repeats = int(min(1.0 / (1.0 - uniform(random)), _LONGEST_REPEAT)) - 1
            else:
                best = -np.inf
                for j in range(actions.shape[0]):
                    encode_action(m.table, actions[j], u)
                    z[states:width] = u
                    q, end = imagine_step(m, z, step, following, np.uint64(0))
                    if not end:
                        q += discount * evaluate_value(v, step + 1, following)
                    if q > best:
                        best, chosen = q, j
            encode_action(m.table, actions[chosen], u)
            z[states:width] = u
            _, end = imagine_step(m, z, step, following, scramble(seen))
            if end or seen == count:
                break
            z[:states] = following
    return visited, steps


@kernel(hot=False)
def play_randomly(m, starts, horizon, actions, rollouts, random):
    """Return the mean return of random actions in a model."""
    states = starts.shape[1]
    width = m.dynamics.slopes.shape[2]
    z, following = np.zeros(width + states), np.zeros(states)
    u = z[states:width]
    total = 0.0
    for k in range(rollouts):
        z[:states] = starts[k % starts.shape[0]]
        for step in range(horizon):
            encode_action(m.table, actions[int(uniform(random) * actions.shape[0])], u)
            reward, end = imagine_step(m, z, step, following, scramble(1 + k * horizon + step))
            total += reward
            if end:
                break
            z[:states] = following
    return total / rollouts


@kernel(hot=False)
def refine_actions(m, v, support, steps, q, actions, discount, draws):
    """Return the best action of a box in each state [n, k]: a pattern search from the best candidate."""
    v, support = unreferenced(v), unreferenced(support)
    size, states = support.shape
    width = m.dynamics.slopes.shape[2]
    dimensions = actions.shape[1]
    z, u, following = np.zeros(width + states), np.zeros(width - states), np.zeros(states)
    refined = np.zeros((size, dimensions))
    trial = np.zeros(dimensions)
    for i in range(size):
        best = 0
        for j in range(actions.shape[0]):
            if q[i, j] > q[i, best]:
                best = j
        refined[i] = actions[best]
        value = q[i, best]
        reach = 0.125
        while reach > 1e-3:
            moved = False
            for d in range(2 * dimensions):
                trial[:] = refined[i]
                trial[d // 2] = min(max(trial[d // 2] + (reach if d % 2 else -reach), 0.0), 1.0)
                encode_action(m.table, trial, u)
                other = expect(m, v, support[i], steps[i], u, discount, i * draws, draws, z, following)
                if other > value:
                    value = other
                    refined[i] = trial
                    moved = True
            if not moved:
                reach *= 0.5
    return refined
