"""Learning steps on large partitions, which are made here, and the memory of a cell."""

import statistics
from functools import partial
from typing import Any

import numpy as np

from benchmarks import Report, measure_in_turn, part, repeat
from spaql.agents import SPAQL
from spaql.partition.jit import kernel, unreferenced
from spaql.partition.kernels import draw_action, find_best, find_cell, sample_cell, set_q, split_cell
from spaql.partition.partition import Partition
from spaql.partition.rng import stream, uniform
from spaql.problems import Box, Discrete

CELLS = (1_000, 10_000, 100_000, 1_000_000)
DENSE = (5, 7, 9)
_LEARNING_STEPS = 50_000


@kernel()
def refine_along(f, splits, random, points, actions):
    """Split cells, each at a random state on the policy a = 0.2 + 0.6 x."""
    f = unreferenced(f)
    for _ in range(splits):
        points[0, 0] = uniform(random)
        actions[0, 0] = 0.2 + 0.6 * points[0, 0]
        split_cell(f, find_cell(f, 0, points, 0, actions))


@kernel()
def refine_everywhere(f, depth):
    """Split every cell, `depth` times."""
    f = unreferenced(f)
    for _ in range(depth):
        for cell in range(f.used[1]):
            split_cell(f, cell)


@kernel()
def refine_anywhere(f, splits, choices, random, points, actions):
    """Split cells of discrete actions, each at a random state, more often in the middle; Q and visits vary."""
    f = unreferenced(f)
    for _ in range(splits):
        for d in range(points.shape[1]):
            points[0, d] = 0.5 * (uniform(random) + uniform(random))
        actions[0, 0] = float(int(choices * uniform(random)))
        split_cell(f, find_cell(f, 0, points, 0, actions))
    for cell in range(f.used[1]):
        f.cells[cell].visits = int(1000.0 * uniform(random) ** 4)
        set_q(f, cell, f.cells[cell].q + uniform(random))


@kernel()
def assign_q(f, random):
    """Give every cell the Q that a trained agent would: higher the nearer to the policy, with a little noise."""
    f = unreferenced(f)
    for cell in range(f.used[1]):
        node = f.cells[cell].node
        state = f.nodes[node].cut
        action = 0.5 * (f.boxes[cell, 0, 0] + f.boxes[cell, 1, 0])
        set_q(f, cell, 6.0 - abs(action - 0.2 - 0.6 * state) + 0.001 * uniform(random))


@kernel()
def learning_steps(f, steps, width, random, points, actions):
    """Perform learning steps without splits; every next state is drawn from [0, width)."""
    f = unreferenced(f)
    points[0, 0] = width * uniform(random)
    for _ in range(steps):
        cell = sample_cell(f, 0, points, 0, 0.01, random)
        draw_action(f, cell, random, actions, 0)
        points[0, 0] = width * uniform(random)
        value = min(5.0, f.cells[find_best(f, 0, points, 0)].q)
        set_q(f, cell, 0.9 * f.cells[cell].q + 0.1 * (value + 1.0))


def refine_policy(cells: int) -> Partition:
    """Make a partition of about this number of cells, fine along a policy and coarse elsewhere."""
    partition = Partition(Box(0, 1), Box(0, 1), initial=5.0)
    random, scratch = stream(0, 0), (np.zeros((1, 1)), np.zeros((1, 1)))
    splits = (cells - 1) // 3
    for first in range(0, splits, 100):  # in small portions, as training reserves memory
        portion = min(splits - first, 100)
        partition.reserve(portion)
        refine_along(partition.forest, portion, random, *scratch)
    assign_q(partition.forest, stream(1, 0))
    return partition


def make_dense(depth: int) -> Partition:
    """Make a partition of 4^depth equal cells."""
    partition = Partition(Box(0, 1), Box(0, 1), initial=5.0)
    partition.reserve(4**depth)
    refine_everywhere(partition.forest, depth)
    assign_q(partition.forest, stream(1, 0))
    return partition


def make_large_agent(cells: int) -> SPAQL:
    """Make an agent on CartPole whose policy has about this number of cells."""
    agent = SPAQL("cartpole", rollouts=1).learn(iterations=1)
    policy = agent._policy()
    states, actions = policy.states.dimensions, policy.actions
    splits = max(0, cells - len(policy)) // (2**states - 1)
    policy.reserve(splits)
    choices = actions.count if isinstance(actions, Discrete) else 1
    refine_anywhere(policy.forest, splits, choices, stream(0, 0), np.zeros((1, states)), np.zeros((1, 1)))
    agent._work = policy.copy()  # the kept policy never is larger than what it was copied from
    return agent


@part
def growth(report: Report) -> dict[str, Any]:
    """Nanoseconds of a learning step on partitions of 10^3 to 10^6 cells, and the ratio of the largest to the smallest.

    A step is a Boltzmann sample, a draw, the value of a next state and an update.  `growth`: refined along a policy, as
    agents refine, with next states drawn from the whole space, the worst case for the memory; `growth_local` draws them
    from one 4096th of it, as a policy that has converged visits them; `growth_dense`: refined everywhere alike, where
    the sample must look at all of 2^depth actions.  `bytes_per_cell` is of the cells and their index.
    """
    report("growth")
    adaptive = [refine_policy(cells) for cells in CELLS]
    figures: dict[str, Any] = {"growth": _measure_steps(adaptive), "growth_local": _measure_steps(adaptive, 2.0**-12)}
    figures["growth_dense"] = _measure_steps([make_dense(depth) for depth in DENSE])
    return figures | {"bytes_per_cell": max(figures["growth"]["bytes_per_cell"])}


def _measure_steps(partitions: list[Partition], width: float = 1.0) -> dict[str, Any]:
    scratch = np.zeros((1, 1)), np.zeros((1, 1))
    random = stream(2, 0)
    works = [partial(learning_steps, each.forest, _LEARNING_STEPS, width, random, *scratch) for each in partitions]
    times = measure_in_turn(*(repeat(work, _LEARNING_STEPS) for work in works))
    medians = [1e9 * statistics.median(column) for column in times]
    return {
        "cells": [len(partition) for partition in partitions],
        "nanoseconds": medians,
        "ratio": medians[-1] / medians[0],
        "bytes_per_cell": [partition.nbytes / len(partition) for partition in partitions],
        "allocated_per_cell": [partition.allocated / len(partition) for partition in partitions],
    }
