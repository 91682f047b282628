"""The replay buffer, and the episodes that fill it.

Before the first plan actions are random.  The first episodes all explore, later ones half of the time; the others play
the policy as it is.  Exploring episodes follow the policy or, as often, the policy that was planned for novelty, and at
each step an exploratory action may begin, which is repeated at least k times in a row with probability 1/k (Dabney,
Ostrovski and Barreto, 2021).  While no state is known to be worth more than another, all episodes follow novelty.  An
exploratory action of a box is, each as likely,

* near an elite, a recorded action that was better than expected;
* near what the policy plays, at a distance of at most 2^-k with k uniform;
* anywhere, every second time at an end of the range in each dimension.

In signatures: b a `ReplayBuffer`.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spaql.agents.rollouts import FINISHED, STATUS, TRAINING, advance_all, reset_all
from spaql.agents.tessera.linear_tree import find_node
from spaql.agents.tessera.policy_tree import check_actions
from spaql.partition.jit import kernel
from spaql.partition.partition import fill_array
from spaql.partition.rng import uniform
from spaql.partition.spaces import Actions, Floats
from spaql.problems.base import LARGEST_REWARD, RAN, SLACK, SOME_ENDED, failed
from spaql.validation import MOST_COUNTED

USED, DUE, PLANNED = 0, 1, 2  # counters: transitions; training steps at which the next plan is due; the last plan
UNPLANNED, FLAT, POLICY = 0, 1, 2  # values of the last one
_GOLDEN = 0.5 * (np.sqrt(5.0) - 1.0)  # its multiples modulo 1 are spread evenly from the first on
_SMALLEST = 10  # exploratory actions go down to 2^-10 of the range


class ReplayBuffer(NamedTuple):
    """Transitions, in the order in which they were played."""

    points: Floats  # [room, d] states in the unit cube
    actions: Floats  # [room, k] unit cube, or the number of a discrete action
    rewards: Floats  # [room]
    following: Floats  # [room, d] next states
    ended: NDArray[np.int8]  # [room] 1 where the step terminated the episode
    times: NDArray[np.int32]  # [room] step of the episode, from 0
    counts: NDArray[np.int64]  # [3]


class Exploration(NamedTuple):
    """How the agent acts while it learns."""

    horizon: int
    exploration: float
    explored: int  # episodes that explore, whatever is planned
    greedy: float  # share of later episodes that play the policy as it is
    novelty: float  # share of the other episodes that follow novelty
    repeats: bool
    choices: int  # number of discrete actions, 0 for a box


def make_buffer(states: int, actions: int, room: int) -> ReplayBuffer:
    """Return an empty buffer."""
    return ReplayBuffer(
        np.zeros((room, states)),
        np.zeros((room, actions)),
        np.zeros(room),
        np.zeros((room, states)),
        np.zeros(room, np.int8),
        np.zeros(room, np.int32),
        np.zeros(3, np.int64),
    )


def grow_buffer(buffer: ReplayBuffer, room: int) -> ReplayBuffer:
    """Return the buffer with more room."""
    larger = make_buffer(buffer.points.shape[1], buffer.actions.shape[1], room)
    for name, array in larger._asdict().items():
        array[: len(getattr(buffer, name))] = getattr(buffer, name)
    return larger


def drop_half(buffer: ReplayBuffer) -> None:
    """Drop every second episode."""
    used = int(buffer.counts[USED])
    rows = np.flatnonzero(number_episodes(buffer.times[:used]) % 2 == 0)
    for name, array in buffer._asdict().items():
        if name != "counts":
            array[: len(rows)] = array[rows]
    buffer.counts[USED] = len(rows)


def number_episodes(times: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the number of the episode of each transition, from 0, by their time steps."""
    return np.cumsum(np.diff(times, prepend=-1) <= 0, dtype=np.int64)


def restore_buffer(arrays: Mapping[str, NDArray[Any]], states: int, actions: Actions, horizon: int) -> ReplayBuffer:
    """Return the buffer whose arrays a file holds; ValueError where they are invalid."""
    used = len(arrays["rewards"])
    buffer = make_buffer(states, actions.dimensions, max(used, 2 * horizon))
    for name, array in buffer._asdict().items():
        fill_array(array if name == "counts" else array[:used], arrays[name], name)
    check_actions(buffer.actions[:used], actions)
    valid = [
        buffer.counts[USED] == used,
        0 < buffer.counts[DUE] <= MOST_COUNTED,
        UNPLANNED <= buffer.counts[PLANNED] <= POLICY,
        (np.abs(buffer.points[:used] - 0.5) <= 0.5 + 2.0 * SLACK).all(),
        (np.abs(buffer.following[:used] - 0.5) <= 1.5).all(),
        (np.abs(buffer.rewards[:used]) <= LARGEST_REWARD).all(),
        np.isin(buffer.ended[:used], (0, 1)).all(),
        ((buffer.times[:used] >= 0) & (buffer.times[:used] < horizon)).all(),
    ]
    if not all(valid):
        raise ValueError("invalid transitions")
    return buffer


@kernel(hot=False)
def draw_exploratory_action(settings, elites, greedy, random, action):
    """Draw an exploratory action into `action` [k]; `greedy` [k] is what the policy plays."""
    if settings.choices > 0:
        action[0] = np.floor(uniform(random) * settings.choices)
        return
    kind = uniform(random)
    around = greedy
    if kind < 1.0 / 3.0 and elites.shape[0] > 0:
        around = elites[int(uniform(random) * elites.shape[0])]
    if kind < 2.0 / 3.0:
        reach = 0.5 ** np.floor(uniform(random) * (_SMALLEST + 1))
        for d in range(action.shape[0]):
            action[d] = min(max(around[d] + reach * (2.0 * uniform(random) - 1.0), 0.0), 1.0)
        return
    ends = uniform(random) < 0.5
    for d in range(action.shape[0]):
        place = uniform(random)
        action[d] = (1.0 if place < 0.5 else 0.0) if ends else place


@kernel()
def train_episode(b, policy, novelty, elites, settings, world, frame, counts, agent_random, world_random):
    """Play one episode and record it; return its return.  `counts[STATUS]` reports a fault."""
    states, size = b.points.shape[1], b.actions.shape[1]
    status = reset_all(world, frame, 0, 1, world_random)
    planned = b.counts[PLANNED]
    explores = settings.exploration
    follows = policy
    place = counts[FINISHED] * _GOLDEN % 1.0
    greedy_share = settings.greedy if counts[FINISHED] >= settings.explored else 0.0
    if planned == UNPLANNED:
        explores = 1.0
    elif planned == FLAT:
        follows = novelty
    elif place < greedy_share:
        explores = 0.0
    elif place < greedy_share + (1.0 - greedy_share) * settings.novelty:
        follows = novelty
    total = 0.0
    repeats = 0
    greedy, action = np.zeros(size), np.zeros(size)
    for step in range(settings.horizon):
        if status != RAN:
            break
        i = b.counts[USED]
        if repeats > 0:
            repeats -= 1
        else:
            greedy[:] = follows.actions[find_node(follows.dims, follows.cuts, follows.children, frame.points[0])]
            if explores > 0.0 and uniform(agent_random) < explores:
                draw_exploratory_action(settings, elites, greedy, agent_random, action)
                if settings.repeats:
                    repeats = int(min(1.0 / (1.0 - uniform(agent_random)), float(settings.horizon))) - 1
            else:
                action[:] = greedy
        b.points[i] = frame.points[0]
        b.actions[i] = action
        frame.actions[0] = action
        status = advance_all(world, frame, 1, world_random)
        counts[TRAINING] += 1
        if failed(status):
            break
        reward = frame.outcomes[0, 0]
        ended = (status & SOME_ENDED) != 0
        total += reward
        b.rewards[i] = reward
        b.ended[i] = ended
        b.times[i] = step
        for d in range(states):
            place = frame.points[0, d]
            if ended:  # the last state may lie anywhere, or nowhere
                place = min(max(place, -1.0), 2.0) if place == place else b.points[i, d]
            b.following[i, d] = place
        b.counts[USED] = i + 1
    counts[STATUS] = status
    return total


@kernel()
def run_episodes(b, policy, novelty, elites, settings, world, frame, counts, streams, rows, budget):
    """Run up to `len(rows)` episodes, until a plan is due, the budget or the room is used up, or at a fault."""
    agent_random, world_random = streams[0], streams[1]
    leaves = 0
    for node in range(policy.dims.shape[0]):
        leaves += policy.dims[node] < 0
    for k in range(rows.shape[0]):
        if counts[TRAINING] > budget - settings.horizon or counts[TRAINING] >= b.counts[DUE]:
            return
        if b.counts[USED] + settings.horizon > b.points.shape[0]:
            return
        score = train_episode(b, policy, novelty, elites, settings, world, frame, counts, agent_random, world_random)
        if failed(counts[STATUS]):
            return
        rows[k].score = score
        rows[k].best = score
        rows[k].cells = leaves
        rows[k].training_steps = counts[TRAINING]
        counts[FINISHED] += 1
