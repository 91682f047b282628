"""Partitions of many shapes, and a textbook partition that goes through the same steps."""

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from numba.core import config

import textbook
from spaql.agents.partition_agent import PartitionAgent
from spaql.agents.rollouts import FINISHED
from spaql.partition import kernels
from spaql.partition.kernels import MAX_DEPTH, NONE
from spaql.partition.partition import Partition
from spaql.partition.spaces import Box, Discrete

INITIAL = 2.0


EXAMPLES = 5 if config.DISABLE_JIT else 25


OPERATIONS = 25 if config.DISABLE_JIT else 60


QS = (-1.0, 0.0, 1.0, 2.0, 2.5, 3.0)  # few values, so that ties abound


def box(*widths):
    """A box of so many dimensions, in odd units."""
    return Box([-3.0 * width for width in widths], [5.0 * width for width in widths])


# State space, action space, number of time steps.
SHAPES = {
    "1 state, 1 action": (box(1), box(2), 1),
    "1 state, 1 action, 3 steps": (Box(0, 1), Box(0, 1), 3),
    "1 state, 2 actions": (box(1), box(1, 4), 1),
    "1 state, 3 finite actions": (Box(0, 1), Discrete(3), 1),
    "1 state, 1 finite action": (Box(0, 1), Discrete(1), 2),
    "2 states, 1 action": (box(1, 8), box(1), 1),
    "2 states, 2 actions, 2 steps": (box(1, 2), box(1, 2), 2),
    "2 states, 2 finite actions": (box(1, 2), Discrete(2), 1),
    "3 states, 1 action": (box(1, 2, 4), box(1), 1),
}


shapes = pytest.mark.parametrize("shape", SHAPES)


properties = settings(max_examples=EXAMPLES, deadline=None, derandomize=True, database=None)


def make(shape, initial=INITIAL):
    """A fresh partition with room for a few splits; kernels trust that there is room."""
    states, actions, steps = SHAPES[shape]
    partition = Partition(states, actions, initial=initial, steps=steps)
    partition.reserve(8)
    return partition


def choices(partition):
    return partition.actions.count if isinstance(partition.actions, Discrete) else 0


class Twin:
    """A `Partition` and the textbook's lists of balls, changed together and compared."""

    def __init__(self, partition):
        self.partition = partition
        d = partition.states.dimensions, partition.actions.dimensions
        self.plain = [textbook.Partition(*d, INITIAL, choices(partition) or None) for _ in range(partition.steps)]

    def key(self, cell):
        """State box, action box and time step of a cell, in the unit cube."""
        record, action = self.partition.forest.cells[cell], self.partition.forest.boxes[cell]
        low, high = self.state_box(int(record["node"]))
        return (*low, *action[0], *high, *action[1], int(record["root"]))

    def state_box(self, node):
        """Climbed up from the node; `Partition.node_boxes` goes down from the roots."""
        nodes, links = (np.asarray(array) for array in (self.partition.forest.nodes, self.partition.forest.links))
        low, high = [0.0] * self.partition.states.dimensions, [1.0] * self.partition.states.dimensions
        while (parent := int(links[node]["parent"])) != NONE:
            dim, cut = int(nodes[parent]["dim"]), float(nodes[parent]["cut"])
            if node == nodes[parent]["child"] + 1:
                low[dim] = max(low[dim], cut)
            else:
                high[dim] = min(high[dim], cut)
            node = parent
        return low, high

    def keys(self):
        low, high = self.partition.node_boxes()
        count = len(self.partition)
        cells, action = self.partition.forest.cells[:count], self.partition.forest.boxes[:count]
        rows = np.hstack([low[cells["node"]], action[:, 0], high[cells["node"]], action[:, 1], cells["root"][:, None]])
        return {tuple(row): number for number, row in enumerate(rows.tolist())}

    @staticmethod
    def ball_key(ball, root):
        choice = () if ball.choice is None else (float(ball.choice),)
        return (*ball.low, *choice, *ball.high, *choice, root)

    def find(self, cell):
        """The textbook's ball of a cell."""
        key = self.key(cell)
        root = key[-1]
        return root, next(ball for ball in self.plain[root].balls if self.ball_key(ball, root) == key)

    def split(self, cell):
        key, forest = self.key(cell), self.partition.forest
        root, ball = self.find(cell)
        self.plain[root].split(ball)
        self.partition.reserve(1)
        moved = self.partition.forest is not forest  # growth lays the cells out anew
        kernels.split_cell(self.partition.forest, self.keys()[key] if moved else cell)

    def assign(self, cell, q):
        self.find(cell)[1].q = q
        kernels.set_q(self.partition.forest, cell, q)

    def visit(self, cell):
        self.find(cell)[1].n += 1
        kernels.count_visit(self.partition.forest, cell)

    def check_cells(self):
        """The same balls with the same Q, visits and depth."""
        cells = self.partition.forest.cells
        ours = {k: (cells["q"][i], cells["visits"][i], cells["depth"][i]) for k, i in self.keys().items()}
        plain = {self.ball_key(b, h): (b.q, b.n, b.depth) for h, p in enumerate(self.plain) for b in p.balls}
        assert ours == plain

    def check_greedy(self, points):
        """`best` and `greedy` give the argmax of the brute force, with its rule for ties."""
        forest = self.partition.forest
        keys = self.keys()
        for root, plain in enumerate(self.plain):
            expected = [keys[self.ball_key(plain.greedy(tuple(x)), root)] for x in points]
            assert [kernels.find_best(forest, root, points, row) for row in range(len(points))] == expected
            rooted = np.full(len(points), root)
            assert self.partition.greedy(points, rooted).tolist() == expected


def random_points(dimensions, count, rng, depth=4):
    """Points of the unit cube: half of them anywhere, half on dyadic borders, and the corners."""
    anywhere = rng.random((count, dimensions))
    dyadic = rng.integers(0, 2**depth + 1, (count, dimensions)) / 2**depth
    return np.vstack([anywhere, dyadic, np.zeros((1, dimensions)), np.ones((1, dimensions))])


def grow(twin, draw, operations=OPERATIONS, deepen=False):
    """Split, assign, visit and grow at random; `deepen` prefers young cells."""
    for _ in range(operations):
        count = len(twin.partition)
        lowest = max(0, count - 4) if deepen else 0
        cell = draw(st.integers(lowest, count - 1))
        action = draw(st.sampled_from(["split", "split", "assign", "assign", "assign", "visit", "grow"]))
        depth = twin.partition.forest.cells["depth"][cell]
        if action == "split" and depth < MAX_DEPTH and count < 600:
            twin.split(cell)
        elif action == "visit":
            twin.visit(cell)
        elif action == "grow" and len(twin.partition.forest.cells) < 5000:
            twin.partition.reserve(1 + len(twin.partition.forest.cells) // twin.partition.max_growth(1)[1])
        else:
            twin.assign(cell, draw(st.sampled_from(QS)))


def inside(value, low, high, top):
    """Half-open boxes, closed at the top of the space; a side of no width holds its own point."""
    return ((low <= value) & ((value < high) | ((value == high) & ((high == top) | (low == high))))).all(axis=1)


TREE_SPACES = {
    "1 state, 1 action": (box(1), box(2)),
    "1 state, 3 finite actions": (Box(0, 1), Discrete(3)),
    "2 states, 2 actions": (box(1, 8), box(1, 2)),
    "3 states, 2 finite actions": (box(1, 2, 4), Discrete(2)),
    "4 states, 1 action": (box(1, 2, 3, 4), Box(0.1, 0.7)),
}


def random_tree(states, actions, leaves, rng, steps=1, near=0.1):
    """Arrays for `Partition.from_tree`: cuts anywhere, a share next to a border, few actions, chains and bushes."""
    size, deep = states.dimensions, rng.random() < 0.3
    boxes, open_nodes = [(np.zeros(size), np.ones(size)) for _ in range(steps)], list(range(steps))
    dims, cuts, children = [NONE] * steps, [np.nan] * steps, [NONE] * steps
    for _ in range(leaves - steps):
        node = open_nodes.pop(-1 if deep else int(rng.integers(len(open_nodes))))
        (low, high), dim = boxes[node], int(rng.integers(size))
        places = low[dim] + rng.random() * (high - low)[dim], max(np.nextafter(low[dim], 1), 1e-17), 0.5, 1 / 3
        cut = rng.choice(places, p=(0.8 - near, near, 0.1, 0.1))
        if not low[dim] < cut < high[dim]:
            open_nodes.insert(0, node)
            continue
        dims[node], cuts[node], children[node] = dim, cut, len(dims)
        open_nodes += [len(dims), len(dims) + 1]
        boxes += [
            (low, np.where(np.arange(size) == dim, cut, high)),
            (np.where(np.arange(size) == dim, cut, low), high),
        ]
        dims, cuts, children = dims + [NONE] * 2, cuts + [np.nan] * 2, children + [NONE] * 2
    if isinstance(actions, Discrete):
        few = np.arange(actions.count, dtype=float)[:, None]
    else:
        few = np.vstack([np.repeat([[0.0], [1.0]], actions.dimensions, axis=1), rng.random((3, actions.dimensions))])
    played = few[rng.integers(len(few), size=len(dims))]
    learned = {"q": rng.normal(size=len(dims)), "visits": rng.integers(0, 1000, len(dims))}
    return {"dims": dims, "cuts": cuts, "children": children, "played": played, "steps": steps} | learned


def descend(tree, point, step=0):
    """The leaf of a point, without any of our code."""
    node = step
    while tree["children"][node] != NONE:
        node = tree["children"][node] + (point[tree["dims"][node]] >= tree["cuts"][node])
    return node


def points_at_cuts(tree, states, count, rng):
    """Points of the unit cube of which many coordinates are at a cut, or the last double below it."""
    points = rng.random((count, states.dimensions))
    for d in range(states.dimensions):
        cuts = [cut for dim, cut in zip(tree["dims"], tree["cuts"], strict=True) if dim == d]
        edges = np.array([0.0, 1.0, *cuts, *np.nextafter(cuts, -1)])
        points[:, d] = np.where(rng.random(count) < 0.5, rng.choice(edges, count), points[:, d])
    return points


class Planted(PartitionAgent):
    """An agent that has learned one iteration, and plays a tree that is given to it."""

    plays_middle = True

    def __init__(self, problem, *, seed=0, **environment):
        super().__init__(problem, seed=seed, **environment)
        self._next_rows(1)
        self._counts[FINISHED] = 1

    def plant(self, **tree):
        self._planted = Partition.from_tree(self.problem.states, self.problem.actions, **tree)
        return self

    def _policy(self):
        return self._planted


def plant(problem, leaves, seed=0, near=0.1, **environment):
    """An agent with a random tree."""
    agent = Planted(problem, **environment)
    spaces = agent.problem.states, agent.problem.actions
    return agent.plant(**random_tree(*spaces, leaves, np.random.default_rng(seed), near=near))
