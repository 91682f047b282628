"""Tessera, written plainly from the documentation of `spaql.agents.tessera`.

Slow, and sharing no code with the library: lists of cells and transitions, no sums that are kept from one use to the
next, no model.  Where the library iterates on sums per cell and leaf, here every transition has its target and every
plane is fitted to the targets themselves.  Conventions are the *order* of random numbers, the order in which cells are
iterated, for how many rounds and sweeps, and when that is enough.
"""

import math

from textbook import Stream

ROUNDS, SETTLED = 30, 0.01


class Cell:
    """A half-open box of the unit cube; `choice` is the number of a finite action, or None."""

    def __init__(self, low, high, states, choice, filed):
        self.low, self.high, self.states, self.choice, self.filed = low, high, states, choice, filed
        self.q, self.depth, self.level, self.transitions = 0.0, 0, 0, []
        self.mean, self.slope, self.lowest, self.highest = [0.0] * states, [0.0] * states, 0.0, 0.0

    def box(self):
        return tuple(self.low[: self.states]), tuple(self.high[: self.states])

    def widths(self):
        return [hi - lo for lo, hi in zip(*self.box(), strict=True)]

    def holds(self, x, a):
        if not holds(*self.box(), x):
            return False
        if self.choice is not None:
            return a == (float(self.choice),)
        return holds(self.low[self.states :], self.high[self.states :], a)

    def quarters(self, transition):
        point = (*transition["x"], *transition["a"])
        sides = zip(self.low, self.high, point, strict=False)  # a finite action is no side
        return [min(3, max(0, int((v - lo) * (4.0 / (hi - lo))))) for lo, hi, v in sides]

    def at(self, x):
        """The plane of the cell."""
        return self.q + sum(s * (v - m) for s, v, m in zip(self.slope, x, self.mean, strict=True))

    def centre(self):
        """The mean state."""
        n = len(self.transitions)
        return [sum(e["x"][d] for e in self.transitions) / n for d in range(self.states)]

    def fit(self, targets, min_samples):
        """Slope of the least-squares plane through the targets, with `min_samples` more that say it is 0."""
        mean, centre = sum(targets) / len(targets), self.centre()
        rows = [[v - m for v, m in zip(e["x"], centre, strict=True)] for e in self.transitions]
        matrix = [[sum(row[d] * row[e] for row in rows) for e in range(self.states)] for d in range(self.states)]
        for d, width in enumerate(self.widths()):
            matrix[d][d] += min_samples * width * width / 12.0  # the variance of what is spread evenly
        right = [sum(row[d] * (t - mean) for row, t in zip(rows, targets, strict=True)) for d in range(self.states)]
        return solution(matrix, right)


def solution(matrix, right):
    """Gauss, without pivots: the matrix is positive definite."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for d, row in enumerate(rows):
        for other in rows:
            if other is not row:
                factor = other[d] / row[d]
                other[:] = [v - factor * w for v, w in zip(other, row, strict=True)]
    return [row[-1] / row[d] for d, row in enumerate(rows)]


def holds(low, high, point):
    return all(lo <= v < hi or v >= hi == 1.0 for lo, hi, v in zip(low, high, point, strict=True))


def around(outer, inner):
    return all(lo <= a and b <= hi for lo, hi, a, b in zip(*outer, *inner, strict=True))


class Agent:
    """The partition, the buffer, and what is known of V."""

    def __init__(self, problem, choices, *, discount, exploration, z_threshold, tolerance, min_samples, disable):
        self.problem, self.choices = problem, choices
        self.discount = 0.0 if "foresight" in disable else discount
        self.exploration, self.z_threshold = exploration, z_threshold
        self.tolerance = 0.0 if "effect_size" in disable else tolerance
        self.min_samples, self.disable, self.spread = min_samples, disable, 0.0
        sides = problem.states + (problem.actions if choices is None else 0)
        self.sides, self.filed, self.cut = sides, 0, {}
        names = [None] if choices is None else list(reversed(range(choices)))
        self.cells = [Cell([0.0] * sides, [1.0] * sides, problem.states, name, self.number()) for name in names]
        self.buffer = []
        self.least = self.most = 0.0
        self.mark()
        self.survey()

    def number(self):
        self.filed += 1
        return self.filed

    # V: of every state box that there is or was, the cell of the largest Q among those that are relevant to all of it;
    # of those that are not cut, by the planes at the mean state of the transitions there

    def boxes(self):
        yield (0.0,) * self.problem.states, (1.0,) * self.problem.states
        for box, side in self.cut.items():
            yield from halves(box, side)

    def mark(self):
        """The mean state of the transitions in each box that is not cut, or its middle."""
        leaves = [box for box in self.boxes() if box not in self.cut]
        self.marks = {}
        for box in leaves:
            states = [e["x"] for e in self.buffer if holds(*box, e["x"])] or [box[0], box[1]]
            self.marks[box] = [sum(x[d] for x in states) / len(states) for d in range(self.problem.states)]

    def ranked(self, box):
        """The best cell of a box and the next; of equal ones the coarsest, and of those the one filed last."""
        held = sorted((c for c in self.cells if around(c.box(), box)), key=lambda c: (c.level, -c.filed))
        rank = {id(c): c.q if box in self.cut else c.at(self.marks[box]) for c in held}
        first = max(held, key=lambda c: rank[id(c)], default=None)
        second = max((c for c in held if c is not first), key=lambda c: rank[id(c)], default=None)
        return first, second

    def survey(self):
        """Remember Q and planes as they are now: V is read off this until the next survey."""
        ranked = {box: self.ranked(box) for box in self.boxes()}
        self.policy = {box: first for box, (first, _) in ranked.items()}
        self.known, self.second = {}, {}
        for box, (cell, second) in ranked.items():
            if box not in self.cut:
                self.known[box] = cell.q, cell.mean, cell.slope
                self.second[box] = second
        levels = [q for q, _, _ in self.known.values()]
        self.range = max(levels) - min(levels)

    def leaf(self, x):
        """The smallest state box around x at the time of the survey."""
        box = next(self.boxes())
        while box not in self.known:
            box = next(half for half in halves(box, self.cut[box]) if holds(*half, x))
        return box

    def value(self, x):
        q, mean, slope = self.known[self.leaf(x)]
        return self.possible(q + sum(s * (v - m) for s, v, m in zip(slope, x, mean, strict=True)))

    def greedy(self, x):
        return self.policy[self.leaf(x)]

    # Acting

    def act(self, x, random):
        """The action, and how often it is to be repeated."""
        cell = self.greedy(x)
        explores = random.uniform() < self.exploration
        action = self.draw(cell, explores, random)
        if not explores or "repeats" in self.disable:
            return action, 0
        return action, min(math.floor(1.0 / (1.0 - random.uniform())), self.problem.horizon) - 1

    def draw(self, cell, explores, random):
        if self.choices is not None:
            return (float(math.floor(random.uniform() * self.choices)),) if explores else (float(cell.choice),)
        box = list(zip(cell.low[cell.states :], cell.high[cell.states :], strict=True))
        if not explores:
            return tuple(lo + random.uniform() * (hi - lo) for lo, hi in box)
        halvings = round(-math.log2(min(hi - lo for lo, hi in box)))
        reach = 1.0 if "sizes" in self.disable else 0.5 ** int(random.uniform() * (halvings + 1))
        ends = "ends" not in self.disable and random.uniform() < 0.5
        action = []
        for lo, hi in box:
            middle = 0.5 * (lo + hi)
            low, high = max(0.0, middle - reach), min(1.0, middle + reach)
            place = random.uniform()
            if ends:
                place = 1.0 if place < 0.5 else 0.0
            action.append(low + place * (high - low))
        return tuple(action)

    def episode(self, agent, world):
        state, total, steps, repeats = self.problem.reset(world), 0.0, 0, 0
        for _ in range(self.problem.horizon):
            x = self.problem.unit(state)
            if repeats:
                repeats -= 1
            else:
                a, repeats = self.act(x, agent)
            r, state, ended = self.problem.step(state, a, world)
            total, steps = total + r, steps + 1
            transition = {"x": x, "a": a, "r": r, "y": self.problem.unit(state), "ended": ended}
            self.buffer.append(transition)
            next(cell for cell in self.cells if cell.holds(x, a)).transitions.append(transition)
            if ended:
                break
        return total, steps

    def drop_half(self):
        """Every second transition, the older of each two."""
        self.buffer = self.buffer[1::2]
        kept = {id(transition) for transition in self.buffer}
        for cell in self.cells:
            cell.transitions = [e for e in cell.transitions if id(e) in kept]

    # Planning

    def plan(self):
        for cell in self.cells:
            if cell.transitions and "slopes" not in self.disable:
                cell.mean = cell.centre()
        for turn in range(ROUNDS):
            change = self.evaluate(turn)
            before, leaves = self.policy, self.known
            self.survey()
            same = all(self.policy[box] is before[box] for box in leaves)
            if same and change <= SETTLED * self.spread:
                break

    def evaluate(self, turn):
        """Cell after cell the mean and the plane of its targets, as V follows from the cells before."""
        nexts = {id(e): None if e["ended"] else self.greedy(e["y"]) for e in self.buffer}
        changes = []
        for cell in self.cells if turn % 2 else reversed(self.cells):
            if not cell.transitions:
                continue
            targets = []
            for e in cell.transitions:
                other = nexts[id(e)]
                targets.append(e["r"] + (0.0 if other is None else self.discount * other.at(e["y"])))
            mean = self.possible(sum(targets) / len(targets))
            changes.append((mean - cell.q, len(targets)))
            cell.q = mean
            if "slopes" not in self.disable:
                cell.slope = self.lean(cell, cell.fit(targets, self.min_samples))
        average = sum(change * n for change, n in changes) / sum(n for _, n in changes)
        for cell in self.cells:
            if not cell.transitions:
                cell.q = self.possible(cell.q + average)
        return max(abs(change) for change, _ in changes)

    def possible(self, value):
        """A value within what all rewards so far can add up to."""
        return min(max(value, self.least), self.most)

    def lean(self, cell, slope):
        """As much of a slope as spans no more than all V, or the targets of the cell when they were last made."""
        rise = sum(abs(s) * width for s, width in zip(slope, cell.widths(), strict=True))
        most = max(self.range, cell.highest - cell.lowest)
        return [s * most / rise for s in slope] if rise > most else slope

    def sweep(self):
        for transition in self.buffer:
            following = 0.0 if transition["ended"] else self.discount * self.value(transition["y"])
            transition["t"] = transition["r"] + following
        for cell in self.cells:
            for transition in cell.transitions:
                box = self.leaf(transition["x"])
                other = self.policy[box] if self.policy[box] is not cell else self.second[box]
                transition["u"] = 0.0 if other is None else transition["t"] - other.at(transition["x"])
        total = sum(e["t"] - cell.q for cell in self.cells for e in cell.transitions)
        residual = total / len(self.buffer)
        for cell in self.cells:
            if cell.transitions:
                self.measure(cell, cell.q)
            else:
                cell.q += residual

    def measure(self, cell, q):
        """Q and plane of the targets; tallies of them, minus the plane, per quarter of each side and quadrant of each
        pair; of what they are above their alternatives, per half."""
        cell.counts, cell.sums = {}, {}
        targets = [e["t"] for e in cell.transitions]
        mean = sum(t - q for t in targets) / len(targets)
        cell.q = q + mean
        cell.squares = sum((t - q - mean) ** 2 for t in targets)
        if "slopes" not in self.disable:
            cell.mean, cell.slope = cell.centre(), cell.fit(targets, self.min_samples)
            cell.lowest, cell.highest = min(targets) - cell.q, max(targets) - cell.q
        for e in cell.transitions:
            quarters = cell.quarters(e)
            keys = [(d, quarter) for d, quarter in enumerate(quarters)]
            for s in range(cell.states):
                keys += [(s, d, quarters[s] // 2, quarters[d] // 2) for d in range(cell.states, self.sides)]
            for key in keys:
                cell.counts[key] = cell.counts.get(key, 0.0) + 1.0
                cell.sums[key] = cell.sums.get(key, 0.0) + (e["t"] - cell.at(e["x"]))
            for d in range(cell.states):
                key = "advantage", d, quarters[d] // 2
                cell.counts[key] = cell.counts.get(key, 0.0) + 1.0
                cell.sums[key] = cell.sums.get(key, 0.0) + e["u"]
        lead = sum(e["u"] for e in cell.transitions) / len(targets)
        cell.residuals = sum((e["t"] - cell.at(e["x"])) ** 2 for e in cell.transitions)
        cell.leads = sum((e["u"] - lead) ** 2 for e in cell.transitions)

    # Splitting

    def gauge(self):
        """The spread: of what is lost against the best action, and of targets within cells."""
        losses = []
        for cell in self.cells:
            if cell.transitions:
                volume = math.prod(hi - lo for lo, hi in zip(cell.low, cell.high, strict=True))
                losses.append((volume, cell.q - self.policy[cell.box()].q, cell.squares / len(cell.transitions)))
        weight = sum(volume for volume, _, _ in losses)
        mean = sum(volume * loss for volume, loss, _ in losses) / weight
        scatter = sum(volume * ((loss - mean) ** 2 + within) for volume, loss, within in losses)
        spread = math.sqrt(scatter / weight)
        largest = max(abs(cell.q) for cell in self.cells if cell.transitions)
        return spread if spread > 1e-12 * largest else 0.0

    def contrast(self, cell, first, second, squares=None):
        """Size and strength of the difference of two groups of bins, squared; None if one is too small."""
        squares = cell.residuals if squares is None else squares
        counts = [sum(cell.counts.get(key, 0.0) for key in group) for group in (first, second)]
        if min(counts) < self.min_samples:
            return None
        sums = [sum(cell.sums.get(key, 0.0) for key in group) for group in (first, second)]
        square = (sums[1] / counts[1] - sums[0] / counts[0]) ** 2
        weight = 1.0 / counts[0] + 1.0 / counts[1]
        error = max(squares - square / weight, 0.0) / (counts[0] + counts[1] - 2.0) * weight
        return square, square / error if error > 0.0 else math.inf

    def contrasts(self, cell):
        for d in range(self.sides):
            lower_upper = self.contrast(cell, [(d, 0), (d, 1)], [(d, 2), (d, 3)])
            if lower_upper is not None:
                yield d, lower_upper
                if "curvature" not in self.disable:
                    yield d, self.contrast(cell, [(d, 0), (d, 3)], [(d, 1), (d, 2)])
        if "advantage" not in self.disable:
            for d in range(cell.states):
                yield d, self.contrast(cell, [("advantage", d, 0)], [("advantage", d, 1)], cell.leads)
        for s in range(cell.states):
            for d in range(cell.states, self.sides):
                corners = [(s, d, row, column) for row in (0, 1) for column in (0, 1)]
                enough = all(cell.counts.get(corner, 0.0) >= self.min_samples for corner in corners)
                if enough and "diagonals" not in self.disable:
                    yield s, self.contrast(cell, [corners[0], corners[3]], [corners[1], corners[2]])

    def side(self, cell):
        n = len(cell.transitions)
        if n < 4 * self.min_samples or not self.spread > 0.0:
            return None
        relevant = (self.tolerance * self.spread * len(self.buffer) ** 0.5 / n) ** 2
        best, side = self.z_threshold * self.z_threshold, None
        for d, result in self.contrasts(cell):
            if result is not None and result[1] > best and result[0] > relevant:
                best, side = result[1], d
        return side

    def promising(self, cell):
        if "optimism" in self.disable:
            return True
        return sum(e["t"] >= self.value(e["x"]) for e in cell.transitions) >= self.min_samples

    def halve(self, cell, side):
        if side < cell.states:
            side = self.cut.setdefault(cell.box(), side)
        upper = Cell(cell.low[:], cell.high[:], cell.states, cell.choice, self.number())
        parts = (
            [e for e in cell.transitions if cell.quarters(e)[side] < 2],
            [e for e in cell.transitions if cell.quarters(e)[side] >= 2],
        )
        upper.low[side] = cell.high[side] = 0.5 * (cell.low[side] + cell.high[side])
        cell.filed = self.number()
        q = upper.q = cell.q
        upper.mean, upper.slope, upper.lowest, upper.highest = cell.mean, cell.slope, cell.lowest, cell.highest
        for half, transitions in zip((cell, upper), parts, strict=True):
            half.transitions = transitions
            if transitions:  # an empty half keeps Q and plane
                self.measure(half, q)
        upper.depth = cell.depth = cell.depth + 1
        upper.level = cell.level = cell.level + (side < cell.states)
        self.cells.append(upper)

    def update(self):
        sums = [e["r"] if e["ended"] else e["r"] / (1.0 - self.discount) for e in self.buffer]
        self.least, self.most = min([self.least, *sums]), max([self.most, *sums])
        if "planning" not in self.disable:
            self.plan()
        self.sweep()
        self.survey()
        self.spread, i = self.gauge(), 0
        while i < len(self.cells):
            side = self.side(self.cells[i])
            if side is not None and self.promising(self.cells[i]):
                self.halve(self.cells[i], side)
            else:
                i += 1
        self.mark()
        self.survey()


def halves(box, side):
    low, high = box
    middle = 0.5 * (low[side] + high[side])
    return (low, (*high[:side], middle, *high[side + 1 :])), ((*low[:side], middle, *low[side + 1 :]), high)


DEFAULTS = {"exploration": 0.25, "z_threshold": 3.0, "tolerance": 0.1, "min_samples": 4, "disable": ()}


def tessera(problem, *, iterations, seed, choices=None, growth=0.25, buffer_size=1_000_000, discount=None, **rules):
    """The agent after so many episodes, and one dictionary per episode."""
    discount = 1.0 - 1.0 / problem.horizon if discount is None else discount
    learner = Agent(problem, choices, discount=discount, **DEFAULTS | rules)
    random, world = (Stream(seed, purpose) for purpose in range(2))
    due, history, training = 4 * learner.min_samples, [], 0

    def later():
        return len(learner.buffer) + max(4 * learner.min_samples, int(growth * len(learner.buffer)))

    updated = 0  # transitions that are left of those that the last update saw
    for _ in range(iterations):
        before = len(learner.cells)
        full = len(learner.buffer) + problem.horizon > buffer_size
        if len(learner.buffer) >= due or (full and len(learner.buffer) > updated):
            learner.update()
            due, updated = later(), len(learner.buffer)
        if full:
            learner.drop_half()
            due, updated = later(), len(learner.buffer)
        score, steps = learner.episode(random, world)
        arms, training = len(learner.cells), training + steps
        history.append({"score": score, "best": score, "cells": arms, "splits": arms - before})
        history[-1] |= {"training_steps": training, "selection_steps": 0}
    return learner, history
