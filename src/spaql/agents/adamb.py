"""AdaMB: adaptive model-based partition learning (Sinclair, Wang, Jain, Banerjee and Yu, 2020).

Each time step h has its own partition P_h of the state-action space.  In state x the ball B of largest Q_h among the
relevant ones is played, uniformly inside, and the model learns from the reward r and the next state x':

    n(B) <- n(B) + 1,    rbar(B) <- mean reward,    Tbar(A | B) <- share of the transitions into region A
    split B when n(B) >= 2^(gamma l(B)), l(B) its number of halvings; the parts inherit n, rbar and Tbar

Regions A are those of the state partition S(P_{h+1}) that the balls of the next step induce: the leaves of its state
tree.  A region that is split later shares its transitions out equally among its parts, as in the authors' code; the
paper files those of a ball at the ball's own resolution, and shares them out in the same way.  Planning solves

    Q_h(B) <- min(Q_h(B), rbar(B) + sum_A Tbar(A | B) V_{h+1}(A) + xi / sqrt(n(B))),    Q_h = H - h + 1 at first
    V~_h(A) = max over B above A of Q_h(B),    V_{H+1} = 0
    V_h(A)  = min over A' of V~_h(A') + L |x(A) - x(A')|,    x(A) the centre of A, in the unit cube's largest coordinate

for all balls, backwards through the steps, after every episode (`planning="full"`), or at each step for the ball played
alone, with the V that the episode began with (`planning="one-step"`).  As Q only falls, V~ does too; the paper takes
its minimum with the former V~.

What differs from the paper, as in the authors' experiments: xi / sqrt(n) stands for both of its bonuses, whose further
terms (in the ball's diameter and in 2^(d_S l) / n) and constants are left out, and V = V~ unless L is given.
Their code starts with Q = H in every step.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spaql.agents.partition_agent import select_prefix
from spaql.agents.registry import register
from spaql.agents.rollouts import STATUS, TRAINING, advance_all, reset_all
from spaql.agents.stepwise import (
    ENTRY,
    StepwiseAgent,
    Transitions,
    add_values,
    check_apart,
    check_lipschitz,
    count_transition,
    enlarge,
    enlarge_transitions,
    finish_iteration,
    may_go_on,
    restore_transitions,
    transition_arrays,
)
from spaql.partition.jit import kernel, make_records, unreferenced
from spaql.partition.kernels import (
    MAX_DEPTH,
    NONE,
    count_visit,
    draw_action,
    find_best,
    find_leaf,
    find_middle,
    set_q,
    split_cell,
    update_grid,
    update_top,
)
from spaql.partition.partition import check_numbers, fill_array
from spaql.problems.base import LARGEST_REWARD, RAN, SOME_ENDED, failed
from spaql.validation import check_choice, check_number, check_whole

_PLANNING = ("full", "one-step")
_LONGEST_THRESHOLD = 62  # 2^62 visits are never reached, and 2^63 is no int64

#: what a ball has met on its own; what its ancestors met is found through `above`
RECORD = np.dtype(
    [
        ("total", np.float64),  # sum of V over the transitions of the ball and its ancestors, when it was last planned
        ("above", np.int32),  # the nearest ancestor's record, or NONE
        ("next", np.int32),  # the next record of the same time step, or NONE
        ("depth", np.int32),  # of the ball, which tells a ball's own record from one it inherited
    ]
)


class Constants(NamedTuple):
    """Constants of a run."""

    horizon: int  # H
    rollouts: int  # N
    scaling: float  # xi
    exponent: int  # gamma
    full: bool
    lipschitz: float  # L; 0 leaves the minimum out


class Model(NamedTuple):
    """The model beside the forest."""

    used: NDArray[np.int64]  # [1] records in use
    means: NDArray[np.float64]  # [cells] mean reward
    newest: NDArray[np.int32]  # [cells] the record of the ball, or the one it inherited; NONE before the first visit
    records: NDArray[np.void]  # [records] RECORD
    ends: NDArray[np.int32]  # [steps, 2] first and last record of each time step, or NONE
    values: NDArray[np.float64]  # [nodes] V_h on leaves, and above them the mean over the box
    tops: NDArray[np.float64]  # [nodes] scratch: largest Q on the path to a node
    order: NDArray[np.int32]  # [nodes] scratch: nodes, parents first
    centres: NDArray[np.float64]  # [nodes, states] scratch: centres of leaves
    chain: NDArray[np.int32]  # [MAX_DEPTH + 1] scratch


@kernel(inline=True)
def list_nodes(f, m, top):
    """Write a node and all below it to `m.order`, parents first, and return their number."""
    m.order[0] = top
    count = 1
    i = 0
    while i < count:
        left = f.nodes[m.order[i]].child
        if left >= 0:
            m.order[count] = left
            m.order[count + 1] = left + 1
            count += 2
        i += 1
    return count


@kernel()
def smooth_values(f, m, count, lipschitz):
    """Set V of the leaves among `m.order[:count]` to the smallest V~(A') + L |x(A) - x(A')|."""
    states = f.used[2]
    for i in range(count):
        node = m.order[i]
        if f.nodes[node].child < 0:
            for d in range(states):
                m.centres[i, d] = find_middle(f, node, d)
    for i in range(count):
        node = m.order[i]
        if f.nodes[node].child >= 0:
            continue
        value = m.tops[node]
        for j in range(count):
            other = m.order[j]
            if f.nodes[other].child < 0 and m.tops[other] < value:
                distance = 0.0
                for d in range(states):
                    distance = max(distance, abs(m.centres[i, d] - m.centres[j, d]))
                value = min(value, m.tops[other] + lipschitz * distance)
        m.values[node] = value


@kernel()
def update_values(f, m, top, lipschitz):
    """Update V below a node, and its mean on all nodes above; with a Lipschitz constant, of the whole tree."""
    nodes = f.nodes
    parent = f.links[top].parent
    if lipschitz > 0.0:
        while parent >= 0:
            top = parent
            parent = f.links[top].parent
    best = nodes[top].top_q
    while parent >= 0:
        best = max(best, nodes[parent].top_q)
        parent = f.links[parent].parent
    count = list_nodes(f, m, top)
    m.tops[top] = best
    for i in range(count):
        node = m.order[i]
        left = nodes[node].child
        m.values[node] = m.tops[node]
        if left >= 0:
            for child in range(left, left + 2):
                m.tops[child] = max(m.tops[node], nodes[child].top_q)
    if lipschitz > 0.0:
        smooth_values(f, m, count, lipschitz)
    for i in range(count - 1, -1, -1):
        left = nodes[m.order[i]].child
        if left >= 0:
            m.values[m.order[i]] = 0.5 * (m.values[left] + m.values[left + 1])
    parent = f.links[top].parent
    while parent >= 0:
        left = nodes[parent].child
        m.values[parent] = 0.5 * (m.values[left] + m.values[left + 1])
        parent = f.links[parent].parent


@kernel(inline=True)
def record_visit(f, m, t, step, cell, reward, leaf):
    """Count a visit of a cell with its reward, and the leaf of the next step's state tree that followed, or NONE."""
    n = count_visit(f, cell)
    m.means[cell] = ((n - 1.0) * m.means[cell] + reward) / n
    above = m.newest[cell]
    if above < 0 or m.records[above].depth != f.cells[cell].depth:
        record = m.used[0]
        m.used[0] += 1
        m.newest[cell] = record
        m.records[record].above = above
        m.records[record].depth = f.cells[cell].depth
        m.records[record].next = NONE
        t.first[record] = NONE
        last = m.ends[step, 1]
        m.ends[step, 1] = record
        if last >= 0:
            m.records[last].next = record
        else:
            m.ends[step, 0] = record
    if leaf >= 0:
        count_transition(t, m.newest[cell], leaf)


@kernel(inline=True)
def estimate_q(f, m, cell, total, scaling):
    """Return the new Q of a visited cell; `total` is the sum of V over its transitions."""
    n = f.cells[cell].visits
    return min(f.cells[cell].q, m.means[cell] + total / n + scaling / np.sqrt(float(n)))


@kernel(inline=True)
def plan_cell(f, m, t, cell, hyper):
    """Update Q of one visited cell, and V of its time step."""
    length = 0
    record = m.newest[cell]
    while record >= 0:
        m.chain[length] = record
        length += 1
        record = m.records[record].above
    total = 0.0
    for i in range(length - 1, -1, -1):
        total = add_values(t, m.chain[i], m.values, total)
    set_q(f, cell, estimate_q(f, m, cell, total, hyper.scaling))


@kernel()
def plan_all(f, m, t, hyper):
    """Update Q and V of all cells, backwards through the time steps."""
    for step in range(hyper.horizon - 1, -1, -1):
        record = m.ends[step, 0]
        while record >= 0:
            above = m.records[record].above
            total = m.records[above].total if above >= 0 else 0.0
            m.records[record].total = add_values(t, record, m.values, total)
            record = m.records[record].next
        for i in range(list_nodes(f, m, step)):
            node = m.order[i]
            cell = f.nodes[node].head
            while cell >= 0:
                if m.newest[cell] >= 0:
                    total = m.records[m.newest[cell]].total
                    f.cells[cell].q = estimate_q(f, m, cell, total, hyper.scaling)
                cell = f.cells[cell].next
            update_top(f, node)
        update_grid(f, step, step, np.inf)
        update_values(f, m, step, hyper.lipschitz)


@kernel(inline=True)
def split_ball(f, m, cell):
    """Split a cell; all parts inherit its estimates."""
    before = f.used[1]
    split_cell(f, cell)
    for child in range(before, f.used[1]):
        m.means[child] = m.means[cell]
        m.newest[child] = m.newest[cell]


@kernel(inline=True)
def train_episode(f, m, t, world, frame, hyper, counts, row, agent_random, world_random):
    """Play and learn from one episode; fills the row's range of V(x'), splits and score, and returns the status."""
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
        leaf = NONE
        value = 0.0
        if not status & SOME_ENDED and h + 1 < hyper.horizon:
            leaf = find_leaf(f, h + 1, frame.points, 0)
            value = m.values[leaf]
        low = min(low, value)
        high = max(high, value)
        record_visit(f, m, t, h, cell, frame.outcomes[0, 0], leaf)
        node = f.cells[cell].node
        if not hyper.full:
            plan_cell(f, m, t, cell, hyper)
        depth = np.int64(f.cells[cell].depth)
        exponent = min(hyper.exponent * depth, _LONGEST_THRESHOLD)
        ready = depth < MAX_DEPTH and f.cells[cell].visits >= np.int64(1) << exponent
        if ready:
            split_ball(f, m, cell)
            splits += 1
        if ready or not hyper.full:
            update_values(f, m, node, hyper.lipschitz)
    row.value_low = low
    row.value_high = high
    row.splits = splits
    row.score = total
    return status


@kernel()
def iterate(f, m, t, world, frame, hyper, counts, streams, rows, budget, reserve):
    """Run up to `len(rows)` iterations: an episode, its rollouts, and in full planning a plan."""
    f, m, t = unreferenced(f), unreferenced(m), unreferenced(t)
    world, frame, counts = unreferenced(world), unreferenced(frame), unreferenced(counts)
    training_agent, training_world = unreferenced(streams[0]), unreferenced(streams[1])
    rollout_agent, rollout_world = unreferenced(streams[2]), unreferenced(streams[3])
    for k in range(rows.shape[0]):
        if not may_go_on(f, counts, budget, hyper.horizon, reserve):
            return
        if m.used[0] + hyper.horizon > m.records.shape[0] or t.used[0] + hyper.horizon > t.entries.shape[0]:
            return
        row = rows[k]
        counts[STATUS] = train_episode(f, m, t, world, frame, hyper, counts, row, training_agent, training_world)
        if failed(counts[STATUS]):
            return
        if hyper.full:
            plan_all(f, m, t, hyper)
        finish_iteration(f, world, frame, hyper, counts, row, rollout_agent, rollout_world)


@kernel()
def update_all_values(f, m, lipschitz):
    """Update V of all time steps from Q."""
    for step in range(f.grid.shape[0]):
        update_values(f, m, step, lipschitz)


@register(
    "adamb",
    label="AdaMB",
    colour="#332288",
    reference="Sinclair, Wang, Jain, Banerjee, Yu: Adaptive discretization for model-based RL (2020)",
)
class AdaMB(StepwiseAgent):
    """Adaptive model-based partition learning.

    It is made for rewards from 0 to 1.  The module `spaql.agents.adamb` has the equations.

    Parameters
    ----------
    scaling
        xi, the weight of the exploration bonus xi / sqrt(n); at least 0.
    split_exponent
        gamma: a ball of l halvings splits at 2^(gamma l) visits.  The authors' experiments use 2 and 3; their theory
        has d_S + 2 for d_S = 1 and 2 state dimensions and d_S for more.
    planning
        "full": all balls after every episode; "one-step": the balls played alone, which costs less per episode.
    lipschitz
        L > 0, a Lipschitz constant of V in the unit cube, by which regions of the same step bound each other; None, as
        in the authors' experiments, does without.  It costs the square of the number of regions per plan.
    rollouts
        N, greedy rollouts after every episode that draw the learning curve and change nothing; with 0 the curve
        is the training episodes' own returns.
    problem, seed, **environment
        As for every agent; see `spaql.agents.Agent`.

    Examples
    --------
    >>> import spaql
    >>> agent = spaql.AdaMB("oil", rollouts=0, seed=0).learn(iterations=50)
    >>> agent.predict([0.5])[0]
    array([0.25])
    """

    needs_unit_rewards = True

    def __init__(
        self,
        problem: Any,
        *,
        scaling: float = 1.0,
        split_exponent: int = 2,
        planning: str = "full",
        lipschitz: float | None = None,
        rollouts: int = 20,
        seed: int = 0,
        **environment: Any,
    ) -> None:
        super().__init__(problem, rollouts=rollouts, seed=seed, **environment)
        self.scaling = check_number(scaling, "scaling", least=0.0, most=LARGEST_REWARD)
        self.split_exponent = check_whole(split_exponent, "split_exponent", 1, _LONGEST_THRESHOLD)
        self.planning = planning = check_choice(planning, "planning", _PLANNING)
        self.lipschitz = None if lipschitz is None else check_lipschitz(lipschitz)
        horizon = self.problem.horizon
        full, smoothness = planning == "full", self.lipschitz or 0.0
        self._hyper = Constants(horizon, self.rollouts, self.scaling, self.split_exponent, full, smoothness)
        self._begin(horizon - np.arange(horizon, dtype=float))
        self._make_model()

    @property
    def inherits_visits(self) -> bool:  # type: ignore[override]
        """Whether cells split at 4^depth visits, and their parts start with all of them."""
        return self.split_exponent == 2

    @property
    def steps_to_split(self) -> int:
        """Steps of learning before cells can be a quarter of the space."""
        return (1 + 2**self.split_exponent) * self.problem.horizon

    def _make_model(self) -> None:
        steps, states, cells = self.problem.horizon, self.problem.states.dimensions, len(self._work)
        self._model = Model(
            used=np.zeros(1, np.int64),
            means=np.zeros(cells),
            newest=np.full(cells, NONE, np.int32),
            records=make_records(0, RECORD),
            ends=np.full((steps, 2), NONE, np.int32),
            values=self._work.forest.nodes["top_q"][:steps].copy(),
            tops=np.zeros(steps),
            order=np.zeros(steps, np.int32),
            centres=np.zeros((steps, states)),
            chain=np.zeros(MAX_DEPTH + 1, np.int32),
        )
        self._transitions = Transitions(np.zeros(1, np.int64), np.zeros(0, np.int32), make_records(0, ENTRY))

    def _resize(self, nodes: int, cells: int) -> None:
        model, horizon = self._model, self.problem.horizon
        lengths = {"means": cells, "newest": cells, "records": int(model.used[0]) + horizon}
        lengths |= dict.fromkeys(("values", "tops", "order", "centres"), nodes)
        if self._hyper.lipschitz == 0.0:
            del lengths["centres"]  # which nothing reads
        grown = {name: enlarge(getattr(model, name), least) for name, least in lengths.items()}
        self._model = model._replace(**grown)
        self._transitions = enlarge_transitions(self._transitions, len(grown["records"]), horizon)

    def _run(self, rows: NDArray[np.void], budget: int) -> None:
        parts = self._work.forest, self._model, self._transitions
        learner = self._hyper, self._counts, self._streams
        iterate(*parts, self.problem.world, self._frame, *learner, rows, budget, self._growth())

    def _state(self) -> dict[str, NDArray[Any]]:
        model, records, cells = self._model, int(self._model.used[0]), len(self._work)
        own: dict[str, NDArray[Any]] = {
            "means": model.means[:cells],
            "newest": model.newest[:cells],
            "ends": model.ends,
        }
        own |= {"records": model.records[:records]} | transition_arrays(self._transitions, records)
        return super()._state() | {f"model-{name}": array for name, array in own.items()}

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        super()._restore(arrays)
        own = select_prefix(arrays, "model-")
        nodes, cells, count = int(self._work.forest.used[0]), len(self._work), len(own["records"])
        model = self._model._replace(
            means=np.zeros(cells), newest=np.zeros(cells, np.int32), records=make_records(count, RECORD)
        )
        for name in ("means", "newest", "records", "ends"):
            fill_array(getattr(model, name), own[name], name)
        model.used[0] = count
        check_model(model, self._work.forest.cells[:cells])
        self._model = model
        self._transitions = restore_transitions(own, count, nodes)
        self._resize(nodes, cells)
        update_all_values(self._work.forest, self._model, self._hyper.lipschitz)


def check_model(model: Model, cells: NDArray[np.void]) -> None:
    """Raise a ValueError where kernels would follow a link out of the arrays, or for ever.

    A chain of records is not longer than MAX_DEPTH + 1, as it gets shallower from a cell's own depth on; and cells with
    a record were visited.
    """
    records, place = model.records, np.arange(len(model.records))
    links = ((links >= NONE) & (links < len(place)) for links in (model.newest, model.ends))
    onward = (records["next"] == NONE) | ((records["next"] > place) & (records["next"] < len(place)))
    upward = (records["above"] >= NONE) & (records["above"] < place)
    deeper = (records["above"] == NONE) | (records["depth"] > records["depth"][np.maximum(records["above"], 0)])
    bounded = (records["depth"] >= 0) & (records["depth"] <= MAX_DEPTH)
    check_numbers(model.means, "means")
    check_numbers(records["total"], "totals")
    if not (all(link.all() for link in links) and (onward & upward & deeper & bounded).all()):
        raise ValueError("corrupt model")
    check_apart(model.ends[:, 0], records["next"])
    known = np.flatnonzero(model.newest != NONE)
    shallower = records["depth"][model.newest[known]] <= cells["depth"][known]
    if not (shallower & (cells["visits"][known] > 0)).all():
        raise ValueError("a model of other cells")
