"""ZoomRL (Touati, Taiga and Bellemare, 2020), with balls that are dyadic cells.

Each time step h has its own balls.  In state x the ball of largest index among the relevant ones is played:

    index(B) = L rad(B) + min over B' with rad(B') >= rad(B) of ( Q(B') + L dist(B, B') )

with dist between centres: a Lipschitz Q-function cannot exceed the cone above any estimate.  The ball played learns
from the reward r and the next state x', v its visits:

    alpha_v = (H + 1) / (H + v),    Q(B) <- (1 - alpha_v) Q(B) + alpha_v (r + V(x') + xi / sqrt(v))
    V(x') = min(H, max index over the balls relevant to x' in the next step),    V = 0 after the last

New balls, of half the radius, come with Q = H and no visits once v >= (d_max / rad)^2.

What differs from the paper: there a new ball lies around the visited point, and the old one keeps the rest of its
domain.  Here a ball is the cell of a dyadic partition, a ball in the largest coordinate of the unit cube whose radius
is half its side, and it gives way to all 2^d cells of half its side at once.  Its estimate then stands, and goes on
bounding the others.  So the domains of the balls in play are boxes, and the policy is a partition.  Different discrete
actions are infinitely far apart.  d_max is the root's radius.  The bonus xi / sqrt(v) stands for the paper's, without
its constants and logarithms; it adds nothing for the width of the ball, for which the index has L rad(B).
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spaql.agents.partition_agent import select_prefix
from spaql.agents.registry import register
from spaql.agents.rollouts import STATUS, TRAINING, advance_all, reset_all
from spaql.agents.stepwise import StepwiseAgent, check_apart, check_lipschitz, enlarge, finish_iteration, may_go_on
from spaql.partition.jit import kernel, make_records, unreferenced
from spaql.partition.kernels import (
    NONE,
    count_visit,
    draw_action,
    find_best,
    find_middle,
    is_ready_to_split,
    set_q,
    split_cell,
)
from spaql.partition.partition import check_numbers, fill_array
from spaql.partition.spaces import Discrete
from spaql.problems.base import LARGEST_REWARD, RAN, SOME_ENDED, failed
from spaql.validation import check_number

BALL = np.dtype(
    [
        ("q", np.float64),
        ("bound", np.float64),  # min over B' of Q(B') + L dist(B, B'), of balls in play
        ("cell", np.int32),  # NONE once it was split
        ("witness", np.int32),  # a ball whose estimate makes the bound
        ("next", np.int32),  # an older ball of the same time step and discrete action, or NONE
        ("depth", np.int32),  # its radius is 2^-(depth + 1)
    ]
)


class Constants(NamedTuple):
    """Constants of a run."""

    horizon: int  # H
    rollouts: int  # N
    scaling: float  # xi
    lipschitz: float  # L
    choices: int  # number of discrete actions, 1 for a box


class Balls(NamedTuple):
    """All balls, in play or split; their cells' Q in the forest is the index."""

    used: NDArray[np.int64]  # [1] balls in use
    balls: NDArray[np.void]  # [balls] BALL
    centres: NDArray[np.float64]  # [balls, states + actions] in the unit cube; 0 for a discrete action
    newest: NDArray[np.int32]  # [steps * choices] newest ball of each time step and discrete action
    numbers: NDArray[np.int32]  # [cells] the ball of each cell


@kernel(inline=True)
def find_list(f, hyper, cell):
    """Return the number of the list that holds the balls of a cell's time step and discrete action."""
    action = np.int64(f.boxes[cell, 0, 0]) if hyper.choices > 1 else 0
    return f.cells[cell].root * hyper.choices + action


@kernel(inline=True)
def add_ball(f, b, cell, q, place):
    """Make the ball of a cell and put it into a list."""
    ball = b.used[0]
    b.used[0] += 1
    states = f.used[2]
    for d in range(states):
        b.centres[ball, d] = find_middle(f, f.cells[cell].node, d)
    for d in range(f.boxes.shape[2]):
        low = f.boxes[cell, 0, d]
        high = f.boxes[cell, 1, d]
        b.centres[ball, states + d] = 0.5 * (low + high) if high > low else 0.0
    b.balls[ball].q = q
    b.balls[ball].bound = q
    b.balls[ball].cell = cell
    b.balls[ball].witness = ball
    b.balls[ball].next = b.newest[place]
    b.balls[ball].depth = f.cells[cell].depth
    b.newest[place] = ball
    b.numbers[cell] = ball
    return ball


@kernel(inline=True)
def distance(b, one, other):
    """Return the largest difference of two centres' coordinates."""
    largest = 0.0
    for d in range(b.centres.shape[1]):
        largest = max(largest, abs(b.centres[one, d] - b.centres[other, d]))
    return largest


@kernel(inline=True)
def update_index(f, b, ball, lipschitz):
    """Write a ball's index to its cell."""
    set_q(f, b.balls[ball].cell, lipschitz * 0.5 ** (b.balls[ball].depth + 1) + b.balls[ball].bound)


@kernel()
def find_bound(b, ball, place, lipschitz):
    """Find the bound of a ball among all balls of at least its radius."""
    bound = np.inf
    witness = ball
    other = b.newest[place]
    while other >= 0:
        if b.balls[other].depth <= b.balls[ball].depth:
            value = b.balls[other].q + lipschitz * distance(b, ball, other)
            if value < bound:
                bound = value
                witness = other
        other = b.balls[other].next
    b.balls[ball].bound = bound
    b.balls[ball].witness = witness


@kernel()
def spread_estimate(f, b, ball, place, lipschitz):
    """Update the index of all balls in play that the estimate of `ball` bounds, after it changed or was made."""
    balls = b.balls
    other = b.newest[place]
    while other >= 0:
        if balls[other].cell >= 0 and balls[other].depth >= balls[ball].depth:
            value = balls[ball].q + lipschitz * distance(b, ball, other)
            if value < balls[other].bound:
                balls[other].bound = value
                balls[other].witness = ball
                update_index(f, b, other, lipschitz)
            elif balls[other].witness == ball and value > balls[other].bound:
                find_bound(b, other, place, lipschitz)
                update_index(f, b, other, lipschitz)
        other = balls[other].next


@kernel(inline=True)
def split_ball(f, b, cell, place, horizon, lipschitz):
    """Replace a ball by those of half its radius, which know nothing yet."""
    b.balls[b.numbers[cell]].cell = NONE
    first_cell = f.used[1]
    first_ball = b.used[0]
    split_cell(f, cell)
    add_ball(f, b, cell, horizon, place)
    for child in range(first_cell, f.used[1]):
        add_ball(f, b, child, horizon, place)
    for ball in range(first_ball, b.used[0]):
        f.cells[b.balls[ball].cell].visits = 0
        find_bound(b, ball, place, lipschitz)
        update_index(f, b, ball, lipschitz)
        spread_estimate(f, b, ball, place, lipschitz)


@kernel(inline=True)
def update_ball(f, b, cell, outcome, hyper):
    """Learn from a visit; `outcome` is r + V(x').  Return 1 where the ball was then split, else 0."""
    place = find_list(f, hyper, cell)
    ball = b.numbers[cell]
    v = count_visit(f, cell)
    alpha = (hyper.horizon + 1.0) / (hyper.horizon + v)
    target = outcome + hyper.scaling / np.sqrt(float(v))
    b.balls[ball].q = (1.0 - alpha) * b.balls[ball].q + alpha * target
    spread_estimate(f, b, ball, place, hyper.lipschitz)
    if is_ready_to_split(f, cell):
        split_ball(f, b, cell, place, float(hyper.horizon), hyper.lipschitz)
        return 1
    return 0


@kernel(inline=True)
def train_episode(f, b, world, frame, hyper, counts, row, agent_random, world_random):
    """Play and learn from one episode; fills the row's range of V(x'), splits and score, and returns the status."""
    cap = float(hyper.horizon)
    status = reset_all(world, frame, 0, 1, world_random)
    low = np.inf
    high = -np.inf
    total = 0.0
    splits = 0
    for h in range(hyper.horizon):
        if status != RAN:
            break
        cell = find_best(f, h, frame.points, 0)
        draw_action(f, cell, agent_random, frame.actions, 0)
        status = advance_all(world, frame, 1, world_random)
        counts[TRAINING] += 1
        if failed(status):
            break
        total += frame.outcomes[0, 0]
        value = 0.0
        if not status & SOME_ENDED and h + 1 < hyper.horizon:
            value = min(cap, f.cells[find_best(f, h + 1, frame.points, 0)].q)
        low = min(low, value)
        high = max(high, value)
        splits += update_ball(f, b, cell, frame.outcomes[0, 0] + value, hyper)
    row.value_low = low
    row.value_high = high
    row.splits = splits
    row.score = total
    return status


@kernel()
def iterate(f, b, world, frame, hyper, counts, streams, rows, budget, reserve):
    """Run up to `len(rows)` iterations: an episode and its rollouts."""
    f, b = unreferenced(f), unreferenced(b)
    world, frame, counts = unreferenced(world), unreferenced(frame), unreferenced(counts)
    training_agent, training_world = unreferenced(streams[0]), unreferenced(streams[1])
    rollout_agent, rollout_world = unreferenced(streams[2]), unreferenced(streams[3])
    for k in range(rows.shape[0]):
        if not may_go_on(f, counts, budget, hyper.horizon, reserve):
            return
        if b.used[0] + reserve[1] + hyper.horizon > b.balls.shape[0]:
            return
        row = rows[k]
        counts[STATUS] = train_episode(f, b, world, frame, hyper, counts, row, training_agent, training_world)
        if failed(counts[STATUS]):
            return
        finish_iteration(f, world, frame, hyper, counts, row, rollout_agent, rollout_world)


@register(
    "zoomrl",
    label="ZoomRL",
    colour="#117733",
    reference="Touati, Taiga, Bellemare: Zooming for efficient model-free RL in metric spaces (2020)",
)
class ZoomRL(StepwiseAgent):
    """Zooming Q-learning on dyadic balls.

    It is made for rewards from 0 to 1.  The module `spaql.agents.zoomrl` has the equations.

    Parameters
    ----------
    scaling
        xi, the weight of the exploration bonus xi / sqrt(v); at least 0.
    lipschitz
        L > 0, by how much Q changes at most from one end of the unit cube to the other.  Too small, balls rule each
        other out by estimates that say nothing of them; large, they do not bound each other at all.
    rollouts
        N, greedy rollouts after every episode that draw the learning curve and change nothing; with 0 the curve
        is the training episodes' own returns.
    problem, seed, **environment
        As for every agent; see `spaql.agents.Agent`.

    Examples
    --------
    >>> import spaql
    >>> agent = spaql.ZoomRL("oil", rollouts=0, seed=0).learn(iterations=50)
    >>> agent.predict([0.5])[0]
    array([0.25])
    """

    needs_unit_rewards = True

    def __init__(
        self,
        problem: Any,
        *,
        scaling: float = 0.5,
        lipschitz: float = 2.0,
        rollouts: int = 20,
        seed: int = 0,
        **environment: Any,
    ) -> None:
        super().__init__(problem, rollouts=rollouts, seed=seed, **environment)
        self.scaling = check_number(scaling, "scaling", least=0.0, most=LARGEST_REWARD)
        self.lipschitz = check_lipschitz(lipschitz)
        horizon, actions = self.problem.horizon, self.problem.actions
        choices = actions.count if isinstance(actions, Discrete) else 1
        self._hyper = Constants(horizon, self.rollouts, self.scaling, self.lipschitz, choices)
        self._begin(np.full(horizon, horizon + self.lipschitz * 0.5))
        self._make_balls()

    @property
    def regret_exponent(self) -> float:
        """(d + 1) / (d + 2), with d the dimensions of states and actions together (Touati et al., 2020).

        It is less where few actions are nearly optimal.
        """
        return self._metric_exponent

    @property
    def steps_to_split(self) -> int:
        """Steps of learning before cells can be a quarter of the space."""
        return (1 + 4) * self.problem.horizon

    def _make_balls(self) -> None:
        """Make one ball for each root."""
        cells, sides = len(self._work), self.problem.states.dimensions + self.problem.actions.dimensions
        lists = self.problem.horizon * self._hyper.choices
        balls = make_records(cells, BALL)
        place = np.arange(cells)
        balls["q"] = balls["bound"] = self.problem.horizon
        balls["cell"] = balls["witness"] = place
        balls["next"] = NONE
        centres = np.full((cells, sides), 0.5)
        newest = np.zeros(lists, np.int32)
        boxes = self._work.forest.boxes[:, 0, 0]
        numbers = self._work.forest.cells["root"].astype(np.int64)
        if isinstance(self.problem.actions, Discrete):
            centres[:, -1] = 0.0
            numbers = numbers * self._hyper.choices + boxes.astype(np.int64)
        newest[numbers] = place
        self._balls = Balls(np.array([cells]), balls, centres, newest, place.astype(np.int32))

    def _resize(self, nodes: int, cells: int) -> None:
        balls = self._balls
        least = int(balls.used[0]) + self._growth()[1] + self.problem.horizon
        self._balls = balls._replace(
            balls=enlarge(balls.balls, least),
            centres=enlarge(balls.centres, least),
            numbers=enlarge(balls.numbers, cells),
        )

    def _run(self, rows: NDArray[np.void], budget: int) -> None:
        learner = self._hyper, self._counts, self._streams
        world = self.problem.world, self._frame
        iterate(self._work.forest, self._balls, *world, *learner, rows, budget, self._growth())

    def _state(self) -> dict[str, NDArray[Any]]:
        count, cells = int(self._balls.used[0]), len(self._work)
        own = {name: getattr(self._balls, name)[:count] for name in ("balls", "centres")}
        own |= {"newest": self._balls.newest, "numbers": self._balls.numbers[:cells]}
        return super()._state() | {f"balls-{name}": array for name, array in own.items()}

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        super()._restore(arrays)
        own, cells = select_prefix(arrays, "balls-"), len(self._work)
        count = len(own["balls"])
        balls = Balls(
            used=np.array([count]),
            balls=make_records(count, BALL),
            centres=np.zeros((count, self._balls.centres.shape[1])),
            newest=np.zeros_like(self._balls.newest),
            numbers=np.zeros(cells, np.int32),
        )
        for name in ("balls", "centres", "newest", "numbers"):
            fill_array(getattr(balls, name), own[name], name)
        check_balls(balls, self._work.forest.cells["depth"])
        self._balls = balls


def check_balls(b: Balls, depths: NDArray[np.int16]) -> None:
    """Raise a ValueError where kernels would follow a link out of the arrays, or for ever."""
    balls, place = b.balls, np.arange(len(b.balls))
    if not all(((links >= 0) & (links < len(place))).all() for links in (b.newest, b.numbers, balls["witness"])):
        raise ValueError("corrupt links of balls")
    older = (balls["next"] >= NONE) & (balls["next"] < place)
    placed = (balls["cell"] >= NONE) & (balls["cell"] < len(depths))
    inside = ((b.centres >= 0.0) & (b.centres <= 1.0)).all(axis=1)
    check_numbers(balls["q"], "estimates")
    check_numbers(balls["bound"], "bounds")
    if not (older & placed & inside).all():
        raise ValueError("corrupt links of balls")
    check_apart(b.newest, balls["next"])
    in_play = np.flatnonzero(balls["cell"] != NONE)
    if not np.array_equal(np.sort(balls["cell"][in_play]), np.arange(len(depths))):
        raise ValueError("cells without a ball, or with two")
    if not np.array_equal(balls["cell"][b.numbers], np.arange(len(depths))):
        raise ValueError("cells without a ball, or with two")
    if not np.array_equal(balls["depth"][b.numbers], depths) or (balls["depth"] < 0).any():
        raise ValueError("balls of other radii than their cells")
