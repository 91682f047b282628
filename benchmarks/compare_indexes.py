"""Two ways to index the cells of a partition, compared: filed by state (the library's), or in one joint k-d tree.

The joint tree splits states and actions alike; every node keeps the largest Q below it.  The greedy search goes down
by state, takes the better side first at an action split and prunes by that maximum; a changed Q updates the maxima
on its way up.  It would also serve agents that split one dimension at a time.
Run: `python benchmarks/compare_indexes.py`.

Printed, for the paper's twelve problems and a four-dimensional one, on the partitions that SPAQL learns there:
nanoseconds per greedy look-up at random states, and per look-up followed by a change of the found cell's Q.
"""

from __future__ import annotations

import statistics
from typing import NamedTuple

import numpy as np

from benchmarks.learning import paper_problems
from benchmarks.timing import seconds
from spaql.agents import AQL, SPAQL
from spaql.partition.jit import kernel, unreferenced
from spaql.partition.kernels import assign, best
from spaql.partition.rng import stream, uniform
from spaql.problems import Box, Problem

STEPS = 200_000


class Joint(NamedTuple):
    """Arrays of the joint tree."""

    dim: np.ndarray  # [nodes] dimension, states first
    cut: np.ndarray  # [nodes]
    child: np.ndarray  # [nodes] lower child, the upper one follows; -1 at a leaf
    parent: np.ndarray  # [nodes]
    top: np.ndarray  # [nodes] largest Q below
    stack: np.ndarray  # scratch


def joint_tree(agent) -> Joint:
    """Build the joint tree of an agent's first partition."""
    cells = agent.cells().at(0)
    states, actions = agent.problem.states, agent.problem.actions
    low = np.hstack([states.to_unit(cells.state_low), actions.to_unit(cells.action_low)])
    high = np.hstack([states.to_unit(cells.state_high), actions.to_unit(cells.action_high)])
    d = low.shape[1]
    dim, cut, child, parent, top = [0], [0.0], [-1], [-1], [0.0]
    work = [(0, np.arange(len(cells)), np.zeros(d), np.ones(d), 0)]
    while work:
        node, inside, lower, upper, axis = work.pop()
        top[node] = float(cells.q[inside].max())
        if len(inside) == 1 and (upper - lower == high[inside[0]] - low[inside[0]]).all():
            continue
        middle = 0.5 * (lower[axis] + upper[axis])
        dim[node], cut[node], child[node] = axis, middle, len(dim)
        for side in (0, 1):
            part = inside[low[inside, axis] >= middle] if side else inside[high[inside, axis] <= middle]
            box = lower.copy(), upper.copy()
            box[1 - side][axis] = middle
            work.append((len(dim), part, *box, (axis + 1) % d))
            for column, value in ((dim, 0), (cut, 0.0), (child, -1), (parent, node), (top, 0.0)):
                column.append(value)
    as_ints = (np.array(column, np.int32) for column in (dim, child, parent))
    dims, children, parents = as_ints
    return Joint(dims, np.array(cut), children, parents, np.array(top), np.zeros(256, np.int32))


@kernel(inline=True)
def joint_best(t, states, points):
    """Leaf of largest Q among those relevant to the state in row 0."""
    t.stack[0] = 0
    height = 1
    found = -1
    q = -np.inf
    while height:
        height -= 1
        node = t.stack[height]
        while t.top[node] > q:
            left = t.child[node]
            if left < 0:
                q = t.top[node]
                found = node
                break
            if t.dim[node] < states:
                node = left + (points[0, t.dim[node]] >= t.cut[node])
            else:
                better = left + (t.top[left + 1] > t.top[left])
                t.stack[height] = 2 * left + 1 - better
                height += 1
                node = better
    return found


@kernel(inline=True)
def joint_assign(t, leaf, q):
    """Give a leaf its Q and mend the maxima above it."""
    t.top[leaf] = q
    node = t.parent[leaf]
    while node >= 0:
        left = t.child[node]
        top = max(t.top[left], t.top[left + 1])
        if top == t.top[node]:
            break
        t.top[node] = top
        node = t.parent[node]


@kernel()
def joint_steps(t, states, steps, update, random, points):
    """Greedy look-ups at random states, each followed by a small change of the found Q where `update`."""
    t = unreferenced(t)
    total = 0
    for _ in range(steps):
        for d in range(states):
            points[0, d] = uniform(random)
        leaf = joint_best(t, states, points)
        total += leaf
        if update:
            joint_assign(t, leaf, t.top[leaf] + 0.01 * (uniform(random) - 0.5))
    return total


@kernel()
def filed_steps(f, states, steps, update, random, points):
    """The same on the library's index."""
    f = unreferenced(f)
    total = 0
    for _ in range(steps):
        for d in range(states):
            points[0, d] = uniform(random)
        cell = best(f, 0, points, 0)
        total += cell
        if update:
            assign(f, cell, f.cells[cell].q + 0.01 * (uniform(random) - 0.5))
    return total


@kernel()
def blank_steps(states, steps, update, random, points):
    """Only the random numbers, to take off."""
    total = 0.0
    for _ in range(steps):
        for d in range(states):
            points[0, d] = uniform(random)
        total += points[0, 0]
        if update:
            total += uniform(random)
    return total


def nanoseconds(work) -> float:
    """Median time per step."""
    work()
    return 1e9 * statistics.median(seconds(work) for _ in range(5)) / STEPS


def four_dimensional() -> Problem:
    """Two states, two actions: go where the reward is, in the plane."""

    def step(state, action, parameters, random, next_state):
        next_state[0] = action[0]
        next_state[1] = action[1]
        return max(0.0, 1.0 - abs(action[0] - 0.7) - abs(action[1] - 0.4) - 0.25 * abs(state[0] - action[0])), False

    def reset(parameters, random, state):
        state[0] = uniform(random)
        state[1] = uniform(random)

    square = Box([0, 0], [1, 1])
    return Problem(name="plane (2+2 dimensions)", step=step, reset=reset, states=square, actions=square, horizon=5)


def main() -> None:
    """Print the comparison."""
    header = f"{'problem':<26}{'agent':<8}{'cells':>6}{'look-up: filed':>16}{'joint':>8}"
    print(f"{header}{'with update: filed':>20}{'joint':>8}   (ns)")
    random = stream(0, 0)
    for problem, iterations in [*paper_problems(), (four_dimensional(), 20_000)]:
        states = problem.states.dimensions
        points = np.zeros((1, states))
        for cls in (SPAQL, AQL):
            agent = cls(problem).learn(iterations=iterations)
            policy = agent._policy()
            cells, times = len(agent.cells().at(0)), []
            blank = [
                nanoseconds(lambda u=u, s=states, p=points: blank_steps(s, STEPS, u, random, p)) for u in (False, True)
            ]
            for update in (False, True):
                arguments = (states, STEPS, update, random, points)
                for steps, arrays in ((filed_steps, policy.copy().forest), (joint_steps, joint_tree(agent))):
                    times.append(nanoseconds(lambda s=steps, a=arrays, r=arguments: s(a, *r)) - blank[update])
            look, joint, both, joint_both = times
            print(
                f"{problem.name:<26}{cls.__name__:<8}{cells:>6}{look:>16.1f}{joint:>8.1f}"
                f"{both:>20.1f}{joint_both:>8.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
