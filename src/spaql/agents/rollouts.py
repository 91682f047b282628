"""Episodes of a compiled problem under a fixed policy: rollouts, baselines and bare simulation.

Episodes are played side by side: at every time step each living episode chooses its action, then all environments
move in one call.  The agent's draws and the environment's come from separate streams, in the order (time step,
episode).  Every function returns `(status, steps)`: what the problem reported (`spaql.problems.base`) and the number
of environment steps played; the returns stand in `frame.returns`, by episode.
"""

from typing import Any

import numpy as np

from spaql.partition.jit import call, kernel, unreferenced
from spaql.partition.kernels import draw_action, find_best, take_centre
from spaql.partition.rng import uniform
from spaql.problems.base import RAN, SOME_CUT, SOME_ENDED, failed

# Counters of a learner: environment steps by use, the problem's last status, finished iterations; and of agents that
# keep their best policy, whether the untrained one was scored, and iterations with splits since the last change.
TRAINING, SELECTION, MONITORING, STATUS, FINISHED, STARTED, SPLIT_ITERATIONS = range(7)

#: what plays instead of a forest: whether to draw uniform actions, the number of discrete ones (0 for a box), and else
#: the addresses of a heuristic's function and of its constants
Baseline = tuple[bool, int, Any, int]

#: a row of the history, one per iteration; part of the agent file (`docs/reference/format.md`)
ROW = np.dtype(
    [
        # mean return of the current policy in the agent's own rollouts, and of the policy that would be returned now;
        # without rollouts both are the return of the training episode
        ("score", np.float64),
        ("best", np.float64),
        ("temperature", np.float64),  # tau during the iteration
        ("heat", np.float64),  # u during the iteration
        ("value_low", np.float64),  # smallest and largest V(x') used in an update; of SPAQL and AQL
        ("value_high", np.float64),
        # cells of the policy that would be returned now; for Tessera, of the one it learns with
        ("cells", np.int64),
        ("splits", np.int64),  # cells split in the iteration
        ("resets", np.int64),  # 1 where the agent went back to its best
        ("training_steps", np.int64),  # environment steps so far, spent on learning
        ("selection_steps", np.int64),  # ... on choosing which policy to keep
        ("monitoring_steps", np.int64),  # ... on the learning curve only
    ]
)

#: a row of agents whose score may be that of rollouts
TRAINING_ROW = np.dtype([*ROW.descr, ("training_return", np.float64)])


@kernel(inline=True)
def address_of(array):
    """Return the address of an array's memory."""
    return np.int64(array.ctypes.data)


@kernel(inline=True)
def reset_all(world, frame, first, count, random):
    """Start episodes `first` to `first` + `count` - 1."""
    for i in range(count):
        frame.returns[first + i] = 0.0
        frame.who[i] = first + i
    memory = address_of(frame.states), address_of(frame.points)
    return call(world.begin, (np.int64(count), *memory, address_of(world.constants), address_of(random)))


@kernel(inline=True)
def advance_all(world, frame, count, random):
    """Move `count` environments by their `frame.actions`."""
    memory = address_of(frame.states), address_of(frame.points), address_of(frame.actions), address_of(frame.outcomes)
    return call(world.advance, (np.int64(count), *memory, address_of(world.constants), address_of(random)))


@kernel(inline=True)
def accumulate_returns(frame, count, status):
    """Add the rewards to the returns, drop episodes that ended, and return the number still alive."""
    if not status & (SOME_ENDED | SOME_CUT):
        for i in range(count):
            frame.returns[frame.who[i]] += frame.outcomes[i, 0]
        return count
    alive = 0
    for i in range(count):
        frame.returns[frame.who[i]] += frame.outcomes[i, 0]
        if frame.outcomes[i, 1] == 0.0:
            frame.who[alive] = frame.who[i]
            for d in range(frame.states.shape[1]):
                frame.states[alive, d] = frame.states[i, d]
            for d in range(frame.points.shape[1]):
                frame.points[alive, d] = frame.points[i, d]
            alive += 1
    return alive


@kernel(inline=True)
def draw_random_action(frame, row, choices, random):
    """Draw a uniform action into `frame.actions[row]`; `choices` is the number of discrete actions, 0 for a box."""
    for d in range(frame.actions.shape[1]):
        u = uniform(random)
        frame.actions[row, d] = np.floor(u * choices) if choices else u


@kernel(inline=True)
def play_episodes(forest, baseline, world, frame, horizon, count, centre, agent_random, world_random):
    """Play `count` episodes of a baseline, or greedy ones of a forest (algorithm 1, ROLLOUT); the other is None.

    A baseline draws uniform actions, or calls the function of a heuristic (`spaql.problems.heuristics`).  With `centre`
    the middle of cells is played, else a draw inside.  Numba compiles a version for either kind, without the branch
    that None rules out; it does so for arguments only, and so the forest without references has another name.
    """
    f, world, frame = unreferenced(forest), unreferenced(world), unreferenced(frame)
    agent_random, world_random = unreferenced(agent_random), unreferenced(world_random)
    status = RAN
    steps = 0
    first = 0
    while first < count and not failed(status):
        alive = min(count - first, world.copies)
        status = reset_all(world, frame, first, alive, world_random)
        first += alive
        for h in range(horizon):
            if alive == 0 or failed(status):
                break
            if baseline is not None:
                draws, choices, choose, constants = baseline
                if draws:
                    for i in range(alive):
                        draw_random_action(frame, i, choices, agent_random)
                else:
                    memory = address_of(frame.points), address_of(frame.actions)
                    call(choose, (np.int64(alive), *memory, np.int64(constants)))
            if forest is not None:
                root = h if f.grid.shape[0] > 1 else 0
                for i in range(alive):
                    cell = find_best(f, root, frame.points, i)
                    if centre:
                        take_centre(f, cell, frame.actions, i)
                    else:
                        draw_action(f, cell, agent_random, frame.actions, i)
            status = advance_all(world, frame, alive, world_random)
            steps += alive
            alive = accumulate_returns(frame, alive, status)
    return status, steps


@kernel()
def simulate(world, frame, horizon, episodes, choices, agent_random, world_random):
    """Play episodes one after the other with random actions and nothing else: the yardstick of `spaql bench`."""
    world, frame = unreferenced(world), unreferenced(frame)
    agent_random, world_random = unreferenced(agent_random), unreferenced(world_random)
    status = RAN
    steps = 0
    total = 0.0
    for _ in range(episodes):
        reset_all(world, frame, 0, 1, world_random)
        for _ in range(horizon):
            draw_random_action(frame, 0, choices, agent_random)
            status = advance_all(world, frame, 1, world_random)
            steps += 1
            total += frame.outcomes[0, 0]
            if status != RAN:
                break
    return status, steps, total
