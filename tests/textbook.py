"""SPAQL and AQL written plainly from the paper's pseudo-code: slow, and sharing no code with the library.

Algorithms 1 and 2 of the paper for the unit square or cube, with the readings of `docs/studies/paper.md`: half-open
cells, a uniform draw inside the chosen cell, ties to the coarser and then to the newer ball, N rollouts side by side,
separate random streams for the agent and the environment.  Only the *order* in which random numbers are used is a
convention; it follows the documentation of `spaql.agents.rollouts`.
"""

import math
from itertools import product

import numpy as np

MASK = (1 << 64) - 1


class Stream:
    """xoshiro256++ seeded for one purpose."""

    def __init__(self, seed, purpose):
        sequence = np.random.SeedSequence(seed, spawn_key=(purpose,))
        self.s = [int(word) for word in sequence.generate_state(4, np.uint64)]

    def uniform(self):
        def rotate(x, k):
            return ((x << k) & MASK) | (x >> (64 - k))

        s = self.s
        result = (rotate((s[0] + s[3]) & MASK, 23) + s[0]) & MASK
        t = (s[1] << 17) & MASK
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = rotate(s[3], 45)
        return (result >> 11) * 2.0**-53


class UnitSpace:
    """A problem whose states are their own unit coordinates."""

    def unit(self, x):
        return x


class Oil(UnitSpace):
    def __init__(self, survey, sharpness, deposit, start, horizon):
        self.survey, self.sharpness, self.deposit, self.start = survey, sharpness, deposit, start
        self.horizon, self.states, self.actions = horizon, 1, 1

    def reset(self, random):
        return (self.start,)

    def step(self, x, a, random):
        if self.survey == "laplace":
            found = math.exp(-self.sharpness * abs(a[0] - self.deposit))
        else:
            miss = a[0] - self.deposit
            found = 1.0 - self.sharpness * (miss * miss)
        return max(0.0, found - abs(x[0] - a[0])), (a[0],), False


class Ambulance(UnitSpace):
    def __init__(self, beta, cost, start, horizon):
        self.beta, self.cost, self.start = beta, cost, start
        self.horizon, self.states, self.actions = horizon, 1, 1

    def reset(self, random):
        return (self.start,)

    def step(self, x, a, random):
        # Beta(5, 2) is the law of the fifth smallest of six uniforms.
        call = sorted(random.uniform() for _ in range(6))[4] if self.beta else random.uniform()
        return 1.0 - (self.cost * abs(x[0] - a[0]) + (1.0 - self.cost) * abs(call - a[0])), (call,), False


class Ball:
    """A half-open box of the unit cube; `choice` is the number of a finite action, or None."""

    def __init__(self, low, high, depth, q, n, states, choice=None):
        self.low, self.high, self.depth, self.q, self.n, self.states, self.choice = (
            low,
            high,
            depth,
            q,
            n,
            states,
            choice,
        )

    def holds_state(self, x):
        return all(
            lo <= v < hi or v >= hi == 1.0
            for lo, hi, v in zip(self.low[: self.states], self.high[: self.states], x, strict=True)
        )

    def action_box(self):
        return list(zip(self.low[self.states :], self.high[self.states :], strict=True))


class Partition:
    """A list of balls, oldest first."""

    def __init__(self, states, actions, initial, choices=None):
        self.states = states
        if choices is None:
            d = states + actions
            self.balls = [Ball((0.0,) * d, (1.0,) * d, 0, initial, 0, states)]
        else:
            corner = (0.0,) * states, (1.0,) * states
            self.balls = [Ball(*corner, 0, initial, 0, states, choice) for choice in reversed(range(choices))]

    def copy(self):
        twin = Partition.__new__(Partition)
        twin.states = self.states
        twin.balls = [Ball(b.low, b.high, b.depth, b.q, b.n, b.states, b.choice) for b in self.balls]
        return twin

    def relevant(self, x):
        """RELEVANT(x), coarser first and then newer first."""
        newest_first = [ball for ball in reversed(self.balls) if ball.holds_state(x)]
        return sorted(newest_first, key=lambda ball: ball.depth)

    def greedy(self, x):
        return max(self.relevant(x), key=lambda ball: ball.q)  # the first of equals

    def split(self, ball):
        """SPLIT BALL: halve every side; the children inherit Q and n."""
        self.balls.remove(ball)
        d = len(ball.low)
        middle = [0.5 * (lo + hi) for lo, hi in zip(ball.low, ball.high, strict=True)]
        lower_upper = [0, 1]
        state_corners = list(product(lower_upper, repeat=self.states))
        action_corners = sorted(product(lower_upper, repeat=d - self.states), key=lambda c: c[::-1], reverse=True)
        for corner in (s + a for s in state_corners for a in action_corners):
            low = tuple(m if up else lo for up, m, lo in zip(corner, middle, ball.low, strict=True))
            high = tuple(hi if up else m for up, m, hi in zip(corner, middle, ball.high, strict=True))
            self.balls.append(Ball(low, high, ball.depth + 1, ball.q, ball.n, ball.states, ball.choice))

    def update(self, ball, target, horizon):
        alpha = (horizon + 1.0) / (horizon + ball.n)
        ball.q = (1.0 - alpha) * ball.q + alpha * target
        if ball.n >= 4**ball.depth:
            self.split(ball)
            return 1
        return 0


def draw(ball, random):
    if ball.choice is not None:
        return (float(ball.choice),)
    return tuple(lo + random.uniform() * (hi - lo) for lo, hi in ball.action_box())


def boltzmann_sample(balls, temperature, random):
    top = max(ball.q for ball in balls)
    weights = [math.exp((ball.q / abs(top) - top / abs(top)) / temperature) for ball in balls]
    pick = random.uniform() * sum(weights)
    total = 0.0
    for ball, weight in zip(balls, weights, strict=True):
        total += weight
        if pick < total:
            return ball
    return balls[-1]


def evaluate(choose, problem, count, agent, world):
    """EVALUATE AGENT: mean return of `count` rollouts played side by side, and the steps they took."""
    alive = {i: problem.reset(world) for i in range(count)}
    returns = [0.0] * count
    steps = 0
    for h in range(problem.horizon):
        actions = {i: draw(choose(h, problem.unit(x)), agent) for i, x in alive.items()}
        steps += len(alive)
        for i, x in list(alive.items()):
            reward, alive[i], ended = problem.step(x, actions[i], world)
            returns[i] += reward
            if ended:
                del alive[i]
    return sum(returns) / count, steps


def spaql(problem, *, iterations, scaling, seed, rollouts=20, choices=None, patience=2):
    """Algorithm 2; returns the best partition and one dictionary per iteration."""
    horizon, temperature_min, temperature_max, u, d = float(problem.horizon), 0.01, 10.0, 2.0, 0.8
    train_agent, train_world, select_agent, select_world = (Stream(seed, purpose) for purpose in range(4))
    working = Partition(problem.states, problem.actions, horizon, choices)
    best = working.copy()
    tau = temperature_min
    best_score, selection = evaluate(lambda h, x: best.greedy(x), problem, rollouts, select_agent, select_world)
    training = splits_since = 0
    history = []
    for _ in range(iterations):
        x = problem.reset(train_world)
        splits, earned = 0, 0.0
        row = {"temperature": tau, "heat": u, "resets": 0}
        for _ in range(problem.horizon):
            ball = boltzmann_sample(working.relevant(problem.unit(x)), tau, train_agent)
            reward, x, ended = problem.step(x, draw(ball, train_agent), train_world)
            training += 1
            earned += reward
            value = 0.0 if ended else min(horizon, working.greedy(problem.unit(x)).q)
            ball.n += 1
            splits += working.update(ball, reward + value + scaling / math.sqrt(ball.n), horizon)
            if ended:
                break
        score, steps = evaluate(lambda h, x, p=working: p.greedy(x), problem, rollouts, select_agent, select_world)
        selection += steps
        splits_since += splits > 0
        if score >= best_score:
            best, best_score, tau, u, splits_since = working.copy(), score, temperature_min, u**d, 0
        elif splits_since >= patience:
            working, tau, splits_since, row["resets"] = best.copy(), temperature_min, 0, 1
        elif splits_since > 0:
            tau = min(temperature_max, tau * u)
        row |= {
            "score": score,
            "best": best_score,
            "cells": len(best.balls),
            "splits": splits,
            "training_return": earned,
        }
        history.append(row | {"training_steps": training, "selection_steps": selection})
    return best, history


def aql(problem, *, iterations, scaling, seed, rollouts=20, choices=None):
    """Adaptive Q-learning; returns one partition per time step and one dictionary per iteration."""
    horizon = float(problem.horizon)
    train_agent, train_world, monitor_agent, monitor_world = (Stream(seed, purpose) for purpose in range(4))
    partitions = [Partition(problem.states, problem.actions, horizon, choices) for _ in range(problem.horizon)]
    training = 0
    history = []
    for _ in range(iterations):
        x = problem.reset(train_world)
        splits, earned = 0, 0.0
        for h, partition in enumerate(partitions):
            ball = partition.greedy(problem.unit(x))
            reward, x, ended = problem.step(x, draw(ball, train_agent), train_world)
            training += 1
            earned += reward
            last = ended or h + 1 == problem.horizon
            value = 0.0 if last else min(horizon, partitions[h + 1].greedy(problem.unit(x)).q)
            ball.n += 1
            splits += partition.update(ball, reward + value + scaling / math.sqrt(ball.n), horizon)
            if ended:
                break
        score, _ = evaluate(lambda h, x: partitions[h].greedy(x), problem, rollouts, monitor_agent, monitor_world)
        arms = sum(len(partition.balls) for partition in partitions)
        row = {"score": score, "cells": arms, "splits": splits, "training_steps": training}
        history.append(row | {"training_return": earned})
    return partitions, history
