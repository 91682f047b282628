"""SPAQL past the paper, written plainly from the documentation of `spaql.memory` and `spaql.agents.spaql`.

Slow, and sharing no code with the library: lists of cells and experiences, everything found by looking at all of them.
Only the *order* of random numbers and of sums is a convention.
"""

import math

from textbook import Stream


class Cell:
    """A half-open box of the unit cube; `choice` is the number of a finite action, or None."""

    def __init__(self, low, high, states, choice, filed):
        self.low, self.high, self.states, self.choice, self.filed = low, high, states, choice, filed
        self.q, self.depth, self.level, self.experiences = 0.0, 0, 0, []

    def box(self):
        return tuple(self.low[: self.states]), tuple(self.high[: self.states])

    def holds_state(self, x):
        return holds(*self.box(), x)

    def holds(self, x, a):
        if not self.holds_state(x):
            return False
        if self.choice is not None:
            return a == (float(self.choice),)
        return holds(self.low[self.states :], self.high[self.states :], a)

    def quarters(self, experience):
        point = (*experience["x"], *experience["a"])
        sides = zip(self.low, self.high, point, strict=False)  # a finite action is no side
        return [min(3, max(0, int((v - lo) * (4.0 / (hi - lo))))) for lo, hi, v in sides]


def holds(low, high, point):
    return all(lo <= v < hi or v >= hi == 1.0 for lo, hi, v in zip(low, high, point, strict=True))


class Agent:
    """The partition, the memory, and what is known of V."""

    def __init__(self, problem, choices, *, discount, exploration, confidence, tolerance, evidence):
        self.problem, self.choices = problem, choices
        self.discount, self.exploration, self.confidence, self.tolerance = discount, exploration, confidence, tolerance
        self.evidence = evidence
        sides = problem.states + (problem.actions if choices is None else 0)
        self.sides, self.filed, self.cut = sides, 0, {}
        names = [None] if choices is None else list(reversed(range(choices)))
        self.cells = [Cell([0.0] * sides, [1.0] * sides, problem.states, name, self.number()) for name in names]
        self.memory = []
        self.survey()

    def number(self):
        self.filed += 1
        return self.filed

    def survey(self):
        """Remember Q as it is now: V is read off this until the next survey."""
        self.known = [(cell.box(), cell.q) for cell in self.cells]

    def value(self, x):
        return max(q for box, q in self.known if holds(*box, x))

    def value_at(self, cell):
        """The largest Q that is relevant to all states of a cell."""
        low, high = cell.box()

        def around(box):
            return all(lo <= a and b <= hi for lo, hi, a, b in zip(*box, low, high, strict=True))

        return max(q for box, q in self.known if around(box))

    def greedy(self, x):
        """Of the largest Q the coarsest, and of those the one filed last."""
        held = sorted((c for c in self.cells if c.holds_state(x)), key=lambda c: (c.level, -c.filed))
        return max(held, key=lambda c: c.q)

    def target(self, experience):
        if experience["ended"]:
            return experience["r"]
        return experience["r"] + self.discount * (self.value(experience["y"]) - self.drift)

    # Acting

    def act(self, x, random):
        """The action, and how often it is to be repeated."""
        cell = self.greedy(x)
        explores = random.uniform() < self.exploration
        action = self.draw(cell, explores, random)
        if not explores:
            return action, 0
        return action, min(math.floor(1.0 / (1.0 - random.uniform())), self.problem.horizon) - 1

    def draw(self, cell, explores, random):
        if self.choices is not None:
            return (float(math.floor(random.uniform() * self.choices)),) if explores else (float(cell.choice),)
        box = list(zip(cell.low[cell.states :], cell.high[cell.states :], strict=True))
        if not explores:
            return tuple(lo + random.uniform() * (hi - lo) for lo, hi in box)
        halvings = round(-math.log2(min(hi - lo for lo, hi in box)))
        reach = 0.5 ** int(random.uniform() * (halvings + 1))
        action = []
        for lo, hi in box:
            middle = 0.5 * (lo + hi)
            low, high = max(0.0, middle - reach), min(1.0, middle + reach)
            action.append(low + random.uniform() * (high - low))
        return tuple(action)

    def episode(self, agent, world):
        state, total, repeats = self.problem.reset(world), 0.0, 0
        for _ in range(self.problem.horizon):
            x = self.problem.unit(state)
            if repeats:
                repeats -= 1
            else:
                a, repeats = self.act(x, agent)
            r, state, ended = self.problem.step(state, a, world)
            total += r
            experience = {"x": x, "a": a, "r": r, "y": self.problem.unit(state), "ended": ended}
            self.memory.append(experience)
            next(cell for cell in self.cells if cell.holds(x, a)).experiences.append(experience)
            if ended:
                break
        return total

    # Revising

    def tally(self, cell, experiences, q):
        """Sums of targets minus q: in all, of squares, per quarter of each side and quadrant of each pair."""
        counts, sums = {}, {}
        squares = 0.0
        for experience in experiences:
            deviation = experience["t"] - q
            squares += deviation * deviation
            quarters = cell.quarters(experience)
            keys = [(d, quarter) for d, quarter in enumerate(quarters)]
            for s in range(cell.states):
                keys += [(s, d, quarters[s] // 2, quarters[d] // 2) for d in range(cell.states, self.sides)]
            for key in keys:
                counts[key] = counts.get(key, 0.0) + 1.0
                sums[key] = sums.get(key, 0.0) + deviation
        mean = 0.0
        if experiences:
            for quarter in range(4):
                mean += sums.get((0, quarter), 0.0)
            mean /= len(experiences)
            squares -= len(experiences) * mean * mean
        cell.counts, cell.sums, cell.squares = counts, sums, squares
        return mean

    def sweep(self):
        self.drift = 0.0
        for experience in self.memory:
            experience["t"] = self.target(experience)
        owner = {id(experience): cell for cell in self.cells for experience in cell.experiences}
        total = 0.0
        for experience in self.memory:
            total += experience["t"] - owner[id(experience)].q
        residual = total / len(self.memory)
        self.drift = residual
        for cell in self.cells:
            mean = self.tally(cell, cell.experiences, cell.q)
            cell.q += mean if cell.experiences else residual

    def spread(self):
        weight = mean = scatter = largest = 0.0
        for cell in self.cells:
            if cell.experiences:
                volume = math.prod(hi - lo for lo, hi in zip(cell.low, cell.high, strict=True))
                weight += volume
                largest = max(largest, abs(cell.q))
                loss = cell.q - self.value_at(cell)
                step = loss - mean
                mean += step * volume / weight
                scatter += volume * (step * (loss - mean) + cell.squares / len(cell.experiences))
        spread = math.sqrt(max(scatter, 0.0) / weight)
        return spread if spread > 1e-12 * largest else 0.0

    def contrast(self, cell, first, second):
        """Size and strength of the difference of two groups of bins, squared; None if one is too small."""
        counts = [sum(cell.counts.get(key, 0.0) for key in group) for group in (first, second)]
        if min(counts) < self.evidence:
            return None
        sums = [sum(cell.sums.get(key, 0.0) for key in group) for group in (first, second)]
        square = (sums[1] / counts[1] - sums[0] / counts[0]) ** 2
        weight = 1.0 / counts[0] + 1.0 / counts[1]
        error = max(cell.squares - square / weight, 0.0) / (counts[0] + counts[1] - 2.0) * weight
        return square, square / error if error > 0.0 else math.inf

    def contrasts(self, cell):
        for d in range(self.sides):
            halves = self.contrast(cell, [(d, 0), (d, 1)], [(d, 2), (d, 3)])
            if halves is not None:
                yield d, halves
                yield d, self.contrast(cell, [(d, 0), (d, 3)], [(d, 1), (d, 2)])
        for s in range(cell.states):
            for d in range(cell.states, self.sides):
                corners = [(s, d, row, column) for row in (0, 1) for column in (0, 1)]
                if all(cell.counts.get(corner, 0.0) >= self.evidence for corner in corners):
                    yield s, self.contrast(cell, [corners[0], corners[3]], [corners[1], corners[2]])

    def side(self, cell, spread):
        n = len(cell.experiences)
        if n < 4 * self.evidence or not spread > 0.0:
            return None
        relevant = (self.tolerance * spread * len(self.memory) ** 0.5 / n) ** 2
        best, side = self.confidence * self.confidence, None
        for d, result in self.contrasts(cell):
            if result is not None and result[1] > best and result[0] > relevant:
                best, side = result[1], d
        return side

    def promising(self, cell):
        return sum(self.target(e) >= self.value(e["x"]) for e in cell.experiences) >= self.evidence

    def halve(self, cell, side):
        if side < cell.states:
            side = self.cut.setdefault(cell.box(), side)
        upper = Cell(cell.low[:], cell.high[:], cell.states, cell.choice, self.number())
        parts = (
            [e for e in cell.experiences if cell.quarters(e)[side] < 2],
            [e for e in cell.experiences if cell.quarters(e)[side] >= 2],
        )
        upper.low[side] = cell.high[side] = 0.5 * (cell.low[side] + cell.high[side])
        cell.filed = self.number()
        q = cell.q
        for half, experiences in zip((cell, upper), parts, strict=True):
            half.experiences = experiences
            for experience in experiences:
                experience["t"] = self.target(experience)
            half.q = q + self.tally(half, experiences, q)
        upper.depth = cell.depth = cell.depth + 1
        upper.level = cell.level = cell.level + (side < cell.states)
        self.cells.append(upper)

    def revise(self):
        self.sweep()
        self.survey()
        spread, i = self.spread(), 0
        while i < len(self.cells):
            side = self.side(self.cells[i], spread)
            if side is not None and self.promising(self.cells[i]):
                self.halve(self.cells[i], side)
            else:
                i += 1
        self.survey()


DEFAULTS = {"exploration": 0.25, "confidence": 3.0, "tolerance": 0.1, "evidence": 4}


def spaql(problem, *, iterations, seed, choices=None, growth=0.25, **rules):
    """The agent after so many episodes, and one dictionary per episode."""
    learner = Agent(problem, choices, discount=1.0 - 1.0 / problem.horizon, **DEFAULTS | rules)
    random, world = (Stream(seed, purpose) for purpose in range(2))
    due, history = 4 * learner.evidence, []
    for _ in range(iterations):
        before = len(learner.cells)
        if len(learner.memory) >= due:
            due = len(learner.memory) + max(4 * learner.evidence, int(growth * len(learner.memory)))
            learner.revise()
        score = learner.episode(random, world)
        arms = len(learner.cells)
        history.append({"score": score, "best": score, "arms": arms, "splits": arms - before})
        history[-1] |= {"training_steps": len(learner.memory), "selection_steps": 0}
    return learner, history
