"""AdaMB, ZoomRL and RLSVI written plainly from their equations: slow, and sharing no code with the library.

The readings are those of the docstrings of `spaql.agents.adamb`, `zoomrl` and `rlsvi`; streams, problems, balls and
their splits are those of `textbook`.
"""

import math
from itertools import product

import numpy as np

import textbook
from textbook import Stream, draw, evaluate


class Grown:
    """What one ball met itself: where transitions went, by state box, in the order of the first ones."""

    def __init__(self, depth):
        self.depth, self.followed = depth, {}


def state_box(ball):
    return ball.low[: ball.states], ball.high[: ball.states]


def is_inside(box, other):
    """Whether a state box lies in another one."""
    return all(a >= b for a, b in zip(box[0], other[0], strict=True)) and all(
        a <= b for a, b in zip(box[1], other[1], strict=True)
    )


class ModelPartition(textbook.Partition):
    """A partition whose balls have a mean reward and, from their oldest ancestor down, what was met."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        for ball in self.balls:
            ball.mean, ball.met = 0.0, []

    def split(self, ball):
        super().split(ball)
        for child in self.balls:
            if not hasattr(child, "met"):
                child.mean, child.met = ball.mean, list(ball.met)

    def region(self, x):
        """The region of the induced state partition that holds x."""
        return state_box(max(self.relevant(x), key=lambda ball: ball.depth))

    def regions(self):
        boxes = {state_box(ball) for ball in self.balls}
        return [box for box in boxes if not any(is_inside(other, box) and other != box for other in boxes)]

    def values(self, lipschitz):
        """V of every region."""
        tops = {
            region: max(ball.q for ball in self.balls if is_inside(region, state_box(ball)))
            for region in self.regions()
        }
        if lipschitz is None:
            return tops
        centres = {region: [0.5 * (lo + hi) for lo, hi in zip(*region, strict=True)] for region in tops}

        def distance(a, b):
            return max(abs(u - v) for u, v in zip(centres[a], centres[b], strict=True))

        return {a: min(tops[b] + lipschitz * distance(a, b) for b in tops) for a in tops}


def mean_value(box, values):
    """V of a region, or where it was split the mean of its halves, dimension by dimension."""
    if box in values:
        return values[box]

    def halve(low, high, d):
        if d == len(low):
            return mean_value((low, high), values)
        middle = 0.5 * (low[d] + high[d])
        below = halve(low, (*high[:d], middle, *high[d + 1 :]), d + 1)
        return 0.5 * (below + halve((*low[:d], middle, *low[d + 1 :]), high, d + 1))

    return halve(*box, 0)


def estimate(ball, values, scaling):
    total = 0.0
    for grown in ball.met:
        for box, count in grown.followed.items():
            total += count * mean_value(box, values)
    return min(ball.q, ball.mean + total / ball.n + scaling / math.sqrt(ball.n))


def adamb(problem, *, iterations, scaling, seed, rollouts, exponent, planning, lipschitz, choices=None):
    """AdaMB; returns one partition per time step and one dictionary per iteration."""
    horizon, nothing = problem.horizon, {}
    agent, world, monitor_agent, monitor_world = (Stream(seed, purpose) for purpose in range(4))
    spaces = problem.states, problem.actions
    partitions = [ModelPartition(*spaces, float(horizon - h), choices) for h in range(horizon)]
    training = 0
    history = []
    for _ in range(iterations):
        x = problem.reset(world)
        splits, seen = 0, []
        for h, partition in enumerate(partitions):
            ball = partition.greedy(problem.unit(x))
            reward, x, ended = problem.step(x, draw(ball, agent), world)
            training += 1
            ball.n += 1
            ball.mean = ((ball.n - 1.0) * ball.mean + reward) / ball.n
            if not ball.met or ball.met[-1].depth != ball.depth:
                ball.met.append(Grown(ball.depth))
            values = nothing if h + 1 == horizon else partitions[h + 1].values(lipschitz)
            seen.append(0.0)
            if values and not ended:
                region = partitions[h + 1].region(problem.unit(x))
                followed = ball.met[-1].followed
                followed[region] = followed.get(region, 0) + 1
                seen[-1] = values[region]
            if planning == "one-step":
                ball.q = estimate(ball, values, scaling)
            if ball.n >= 2 ** (exponent * ball.depth):
                partition.split(ball)
                splits += 1
            if ended:
                break
        if planning == "full":
            values = nothing
            for partition in reversed(partitions):
                for ball in partition.balls:
                    if ball.n:
                        ball.q = estimate(ball, values, scaling)
                values = partition.values(lipschitz)
        score, _ = evaluate(lambda h, x: partitions[h].greedy(x), problem, rollouts, monitor_agent, monitor_world)
        cells = sum(len(partition.balls) for partition in partitions)
        row = {"score": score, "cells": cells, "splits": splits, "training_steps": training}
        history.append(row | {"value_low": min(seen), "value_high": max(seen)})
    return partitions, history


class Zooming(textbook.Partition):
    """Balls in play with an estimate, and all that were split with the one they had; Q of a ball is its index."""

    def __init__(self, states, actions, horizon, lipschitz, choices):
        super().__init__(states, actions, 0.0, choices)
        self.horizon, self.lipschitz, self.past = horizon, lipschitz, []
        for ball in self.balls:
            ball.estimate = horizon
        self.update_indices()

    def update_indices(self):
        everything = self.balls + self.past
        for ball in self.balls:
            bound = min(
                other.estimate + self.lipschitz * self.distance(ball, other)
                for other in everything
                if other.depth <= ball.depth and other.choice == ball.choice
            )
            ball.q = self.lipschitz * 0.5 ** (ball.depth + 1) + bound

    def distance(self, a, b):
        middles = ([0.5 * (lo + hi) for lo, hi in zip(ball.low, ball.high, strict=True)] for ball in (a, b))
        return max(abs(u - v) for u, v in zip(*middles, strict=True))

    def split(self, ball):
        super().split(ball)
        self.past.append(ball)
        for child in self.balls:
            if not hasattr(child, "estimate"):
                child.estimate, child.n = self.horizon, 0


def zoomrl(problem, *, iterations, scaling, seed, rollouts, lipschitz, choices=None):
    """ZoomRL; returns one partition per time step and one dictionary per iteration."""
    horizon = float(problem.horizon)
    agent, world, monitor_agent, monitor_world = (Stream(seed, purpose) for purpose in range(4))
    spaces = problem.states, problem.actions, horizon, lipschitz, choices
    partitions = [Zooming(*spaces) for _ in range(problem.horizon)]
    training = 0
    history = []
    for _ in range(iterations):
        x = problem.reset(world)
        splits, seen = 0, []
        for h, partition in enumerate(partitions):
            ball = partition.greedy(problem.unit(x))
            reward, x, ended = problem.step(x, draw(ball, agent), world)
            training += 1
            last = ended or h + 1 == problem.horizon
            seen.append(0.0 if last else min(horizon, partitions[h + 1].greedy(problem.unit(x)).q))
            ball.n += 1
            alpha = (horizon + 1.0) / (horizon + ball.n)
            target = reward + seen[-1] + scaling / math.sqrt(ball.n)
            ball.estimate = (1.0 - alpha) * ball.estimate + alpha * target
            if ball.n >= 4**ball.depth:
                partition.split(ball)
                splits += 1
            partition.update_indices()
            if ended:
                break
        score, _ = evaluate(lambda h, x: partitions[h].greedy(x), problem, rollouts, monitor_agent, monitor_world)
        cells = sum(len(partition.balls) for partition in partitions)
        row = {"score": score, "cells": cells, "splits": splits, "training_steps": training}
        history.append(row | {"value_low": min(seen), "value_high": max(seen)})
    return partitions, history


def normal(random):
    """Marsaglia's polar method, one number per pair."""
    while True:
        x, y = 2.0 * random.uniform() - 1.0, 2.0 * random.uniform() - 1.0
        square = x * x + y * y
        if 0.0 < square < 1.0:
            return x * math.sqrt(-2.0 * math.log(square) / square)


class Net:
    """Equal boxes of states and actions: feature i is 1 in box i; by state first, then by action."""

    def __init__(self, states, actions, bins, choices):
        sides = [i / bins for i in range(bins)]
        self.bins, self.states = bins, states
        self.boxes = []
        for corner in product(sides, repeat=states):
            if choices is None:
                self.boxes += [(*corner, *action) for action in product(sides, repeat=actions)]
            else:
                self.boxes += [(*corner, choice) for choice in range(choices)]
        self.choices = choices

    def row(self, x):
        """Numbers of the features of all actions in a state."""
        low = tuple(min(int(v * self.bins), self.bins - 1) / self.bins for v in x)
        return [i for i, box in enumerate(self.boxes) if box[: self.states] == low]

    def ball(self, i):
        low = self.boxes[i]
        choice = self.boxes[i][-1] if self.choices is not None else None
        return textbook.Ball(low, [v + 1.0 / self.bins for v in low], 0, 0.0, 0, self.states, choice)


def rlsvi(problem, *, iterations, seed, rollouts, bins, sigma, regularisation, choices=None):
    """RLSVI by regression on all transitions; returns the net, theta [steps, features] and the history."""
    net = Net(problem.states, problem.actions, bins, choices)
    features, horizon = len(net.boxes), problem.horizon
    agent, world, monitor_agent, monitor_world = (Stream(seed, purpose) for purpose in range(4))
    data = [[] for _ in range(horizon)]  # (feature, reward, next state or None)
    theta = np.zeros((horizon, features))
    training = 0
    history = []

    def sample():
        for h in reversed(range(horizon)):
            rows = np.zeros((len(data[h]), features))
            targets = np.zeros(len(data[h]))
            for i, (feature, reward, following) in enumerate(data[h]):
                rows[i, feature] = 1.0
                targets[i] = reward if following is None else reward + max(theta[h + 1][net.row(following)])
            precision = rows.T @ rows / sigma**2 + regularisation * np.eye(features)
            mean = np.linalg.solve(precision, rows.T @ targets / sigma**2)
            noise = np.array([normal(agent) for _ in range(features)])
            theta[h] = mean + np.linalg.cholesky(np.linalg.inv(precision)) @ noise

    def greedy(h, x):
        return max(net.row(x), key=lambda i: theta[h][i])

    sample()
    for _ in range(iterations):
        x = problem.reset(world)
        for h in range(horizon):
            feature = greedy(h, problem.unit(x))
            reward, x, ended = problem.step(x, draw(net.ball(feature), agent), world)
            training += 1
            last = ended or h + 1 == horizon
            data[h].append((feature, reward, None if last else problem.unit(x)))
            if ended:
                break
        sample()
        score, _ = evaluate(lambda h, x: net.ball(greedy(h, x)), problem, rollouts, monitor_agent, monitor_world)
        history.append({"score": score, "cells": horizon * features, "splits": 0, "training_steps": training})
    return net, theta, data, history
