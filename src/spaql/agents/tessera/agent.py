"""Tessera: one partition, a replay buffer, planning, and splits where tests call for them.

The paper's agent is myopic, forgets what a split cell had learned, splits by counting visits, and spends twenty of
twenty-one steps on choosing between its own snapshots (`docs/findings.md`).  This one keeps the single partition and
the time-invariant greedy policy, and otherwise

* discounts by 1 - 1/H, so that later rewards count (`spaql.agents.tessera.value_iteration`);
* keeps every transition and updates all Q from them, whenever the buffer has grown by a quarter;
* splits one side of a cell at a time, where statistical tests say so (`spaql.agents.tessera.split_tests`);
* explores with steps of every size, which it repeats: where no exploratory action is under way, three of four actions
  are drawn inside the greedy cell; else one is drawn from an interval around its middle, twice as wide as the cell,
  four times, ... or as the action space, each as likely, every second time from its ends only, and played at least k
  times in a row with probability 1/k (Dabney, Ostrovski and Barreto, 2021);
* selects nothing: the returned policy is fitted to the whole buffer, and plays the middle of its cells;
* returns few cells: those that decide nothing are merged (`spaql.agents.tessera.policy_extraction`).

Its episode shares resetting, stepping and the counters with `spaql.agents.q_learning`, not the loop: it records
transitions instead of learning from each step, and an update of the whole buffer stands between episodes.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spaql.agents.partition_agent import PartitionAgent, select_prefix
from spaql.agents.registry import register
from spaql.agents.rollouts import FINISHED, STATUS, TRAINING, advance_all, reset_all
from spaql.agents.tessera.policy_extraction import flatten_policy, merge_cells
from spaql.agents.tessera.replay import (
    DUE,
    NEXT_NODE,
    NODE,
    PENDING,
    PER_CELL,
    PER_NODE,
    PER_TRANSITION,
    REPORTED,
    SPLITS,
    USED,
    VALUE_HIGH,
    VALUE_LOW,
    CellStats,
    Hyperparameters,
    ReplayBuffer,
    check_buffer,
    drop_half,
    extend_return_range,
    find_leaf,
    find_visited_leaves,
    grow_buffer,
    grow_stats,
    is_up_to_date,
    link,
    make_buffer,
    make_stats,
    schedule_update,
    update_greedy,
)
from spaql.agents.tessera.split_tests import update
from spaql.errors import ParameterError
from spaql.partition.jit import kernel, unreferenced
from spaql.partition.kernels import NONE, draw_action, find_cell
from spaql.partition.partition import Partition, fill_array
from spaql.partition.rng import uniform
from spaql.partition.spaces import Box, Discrete
from spaql.problems.base import RAN, SOME_ENDED, failed
from spaql.validation import check_number, check_whole

_FIRST_ROOM = 256
MOST_TRANSITIONS = 1_000_000_000


#: mechanisms that can be disabled, for ablations, and what happens instead
MECHANISMS = {
    "foresight": "the discount is 0: only the reward at hand counts",
    "planning": "values move by one step in every update",
    "slopes": "a cell has one value for all its states",
    "effect_size": "the tolerance is 0: every significant contrast splits",
    "optimism": "cells split wherever contrasts are significant and relevant, promising or not",
    "curvature": "middle halves are not tested against outer quarters",
    "diagonals": "diagonals of quadrants are not tested",
    "advantage": "halves are not compared by their advantage over the best other cell",
    "sizes": "exploratory actions are drawn from the whole action space",
    "ends": "exploratory actions are drawn evenly from their interval",
    "repeats": "exploratory actions are played once",
    "merging": "the returned policy keeps every cell",
    "middle": "the returned policy draws inside the chosen cell",
}


class ExplorationSettings(NamedTuple):
    """How the agent acts while it learns."""

    horizon: int
    exploration: float
    sizes: bool  # steps of every size, else of the whole action space only
    ends: bool  # every second exploratory action is an end of its interval
    repeats: bool  # exploratory actions are repeated for a while
    choices: int  # number of discrete actions, 0 for a box


@kernel(inline=True)
def draw_exploratory_action(f, cell, settings, random, actions, row):
    """Draw an exploratory action into `actions[row]`.

    With 2^-k the narrowest side of the greedy cell, the action is drawn from the interval that reaches 1, 1/2, ..., or
    2^-k to either side of the cell's middle, each as likely, as far as it lies in the action space: evenly, or, as
    likely, one of its ends in each dimension.
    """
    if settings.choices > 0:
        actions[row, 0] = np.floor(uniform(random) * settings.choices)
        return
    reach = 1.0
    if settings.sizes:
        narrowest = 1.0
        for d in range(f.boxes.shape[2]):
            narrowest = min(narrowest, f.boxes[cell, 1, d] - f.boxes[cell, 0, d])
        reach = math.ldexp(1.0, -int(uniform(random) * (2 - math.frexp(narrowest)[1])))
    ends = settings.ends and uniform(random) < 0.5
    for d in range(f.boxes.shape[2]):
        middle = 0.5 * (f.boxes[cell, 0, d] + f.boxes[cell, 1, d])
        low = max(0.0, middle - reach)
        place = uniform(random)
        if ends:
            place = 1.0 if place < 0.5 else 0.0
        actions[row, d] = low + place * (min(1.0, middle + reach) - low)


@kernel(inline=True)
def choose_action(f, buffer, stats, hyper, settings, frame, node, repeats, random):
    """Choose a training action in a state whose leaf is `node`; return its cell and the repeats left.

    While there are repeats left the last action is played again.
    """
    cell = stats.greedy[node]
    if repeats == 0 and not uniform(random) < settings.exploration:
        draw_action(f, cell, random, frame.actions, 0)
        return cell, 0
    if repeats > 0:
        repeats -= 1
        for d in range(hyper.actions):
            frame.actions[0, d] = buffer.transitions[buffer.counts[USED] - 1, hyper.states + d]
    else:
        draw_exploratory_action(f, cell, settings, random, frame.actions, 0)
        repeats = draw_repeats(settings, random)
    holder = find_cell(f, 0, frame.points, 0, frame.actions)
    return holder if holder >= 0 else cell, repeats  # cells of a file that was tampered with may have gaps


@kernel(inline=True)
def draw_repeats(settings, random):
    """Draw how often an exploratory action is repeated: at least k times with probability 1 / (k + 1)."""
    if not settings.repeats:
        return 0
    return int(min(1.0 / (1.0 - uniform(random)), float(settings.horizon))) - 1


@kernel(inline=True)
def train_episode(f, buffer, stats, hyper, settings, world, frame, counts, agent_random, world_random):
    """Play one episode and record it; return its return.  `counts[STATUS]` reports a fault."""
    states = hyper.states
    status = reset_all(world, frame, 0, 1, world_random)
    node = 0 if failed(status) else find_leaf(f, stats, frame.points, 0)
    total = 0.0
    repeats = 0
    for _ in range(settings.horizon):
        if status != RAN:
            break
        i = buffer.counts[USED]
        cell, repeats = choose_action(f, buffer, stats, hyper, settings, frame, node, repeats, agent_random)
        for d in range(states):
            buffer.transitions[i, d] = frame.points[0, d]
        for d in range(hyper.actions):
            buffer.transitions[i, states + d] = frame.actions[0, d]
        buffer.links[i, NODE] = node
        status = advance_all(world, frame, 1, world_random)
        counts[TRAINING] += 1
        if failed(status):
            break
        reward = frame.outcomes[0, 0]
        total += reward
        buffer.transitions[i, states + hyper.actions] = reward
        extend_return_range(stats, hyper, reward, status & SOME_ENDED)
        for d in range(states):
            buffer.transitions[i, states + hyper.actions + 1 + d] = frame.points[0, d]
        node = NONE if status & SOME_ENDED else find_leaf(f, stats, frame.points, 0)
        buffer.links[i, NEXT_NODE] = node
        link(f, buffer, stats, hyper, i, cell)
        buffer.counts[USED] = i + 1
    counts[STATUS] = status
    return total


@kernel()
def run_episodes(f, buffer, stats, hyper, settings, world, frame, counts, streams, rows, first, budget):
    """Run episodes from row `first` on until an update falls due or `iterate` has to stop; return the next row."""
    # A kernel of its own, small enough for the compiler to keep what it needs at hand.
    f, buffer, stats, world, frame = (
        unreferenced(f),
        unreferenced(buffer),
        unreferenced(stats),
        unreferenced(world),
        unreferenced(frame),
    )
    counts, agent_random, world_random = unreferenced(counts), unreferenced(streams[0]), unreferenced(streams[1])
    rows = unreferenced(rows)
    for k in range(first, rows.shape[0]):
        if (
            counts[TRAINING] > budget - settings.horizon
            or buffer.counts[USED] + settings.horizon > buffer.transitions.shape[0]
        ):
            return k
        if buffer.counts[USED] >= buffer.counts[DUE]:
            return k
        score = train_episode(f, buffer, stats, hyper, settings, world, frame, counts, agent_random, world_random)
        if failed(counts[STATUS]):
            return k
        rows[k].score = score
        rows[k].best = score
        rows[k].value_low = stats.scale[VALUE_LOW]
        rows[k].value_high = stats.scale[VALUE_HIGH]
        rows[k].cells = f.used[1]
        rows[k].training_steps = counts[TRAINING]
        counts[FINISHED] += 1
    return rows.shape[0]


@kernel()
def iterate(f, buffer, stats, hyper, settings, world, frame, counts, streams, rows, budget):
    """Run up to `len(rows)` episodes, and the updates that fall due before them.

    Stops early where an episode might pass the step budget, where forest or buffer have no room, or at a fault of the
    problem, which `counts[STATUS]` then reports.
    """
    if buffer.counts[USED] == 0:
        update_greedy(f, stats)
    k = 0
    while k < rows.shape[0] and not failed(counts[STATUS]) and counts[TRAINING] <= budget - settings.horizon:
        if buffer.counts[PENDING] or buffer.counts[USED] >= buffer.counts[DUE]:
            if buffer.counts[PENDING] == 0:
                schedule_update(buffer, hyper)
            if not update(f, buffer, stats, hyper):
                return
        after = run_episodes(f, buffer, stats, hyper, settings, world, frame, counts, streams, rows, k, budget)
        if after == k:
            return
        rows[k].splits = buffer.counts[SPLITS] - buffer.counts[REPORTED]
        buffer.counts[REPORTED] = buffer.counts[SPLITS]
        k = after


@register("tessera", label="Tessera", colour="#0072B2")
class Tessera(PartitionAgent):
    """Single-partition adaptive Q-learning with replay, planning and statistical splits; nothing to tune.

    Parameters
    ----------
    problem
        What to learn; see `spaql.agents.base.Agent`.
    discount
        Discount of the value of the next state, in [0, 1); None for 1 - 1/H.
    exploration
        Probability that an exploratory action begins at a training step.
    z_threshold
        Standard errors by which the parts of a cell must differ for it to split.
    tolerance
        Least effect size of a split: the difference of its parts, summed over the cell's transitions, relative to the
        standard deviation of the total return.
    min_samples
        Transitions that each part of a cell must have to be compared with the rest.
    growth
        All Q are updated whenever the buffer has grown by this share.
    buffer_size
        Transitions to keep at most; when the buffer is full every second one is dropped.
    disable
        Names of mechanisms to disable, for ablations; see `spaql.agents.tessera.agent.MECHANISMS`.
    seed
        Of everything random about the agent.
    **environment
        `bounds`, `periodic`, `horizon`, `warm_up` of a Gymnasium environment; see `spaql.GymnasiumProblem`.

    Examples
    --------
    >>> import spaql
    >>> agent = spaql.Tessera(spaql.problems.oil(survey="quadratic", sharpness=1), seed=0).learn(iterations=200)
    >>> agent.evaluate(episodes=100).mean > 4.1
    True
    """

    def __init__(
        self,
        problem: Any,
        *,
        discount: float | None = None,
        exploration: float = 0.25,
        z_threshold: float = 3.0,
        tolerance: float = 0.1,
        min_samples: int = 4,
        growth: float = 0.25,
        buffer_size: int = 1_000_000,
        disable: Sequence[str] = (),
        seed: int = 0,
        **environment: Any,
    ) -> None:
        super().__init__(problem, seed=seed, **environment)
        problem = self.problem
        self.disable = _check_mechanisms(disable)
        self.plays_middle = "middle" not in self.disable
        self.discount = None if discount is None else check_number(discount, "discount", least=0.0, most=1.0)
        if self.discount == 1.0:
            raise ParameterError("discount: must be below 1, or the value of an episode without end has no bound")
        self.exploration = check_number(exploration, "exploration", least=0.0, most=1.0, above=True)
        self.z_threshold = check_number(z_threshold, "z_threshold", least=0.0)
        self.tolerance = check_number(tolerance, "tolerance", least=0.0)
        self.min_samples = check_whole(min_samples, "min_samples", 2, 1_000_000)
        self.growth = check_number(growth, "growth", least=0.0, most=1000.0, above=True)
        self.buffer_size = check_whole(buffer_size, "buffer_size", 2 * problem.horizon, MOST_TRANSITIONS)
        given = 1.0 - 1.0 / problem.horizon if self.discount is None else self.discount
        states, actions = problem.states.dimensions, problem.actions
        sides = states + (actions.dimensions if isinstance(actions, Box) else 0)
        self._hyper = Hyperparameters(
            states=states,
            actions=actions.dimensions,
            sides=sides,
            discount=0.0 if "foresight" in self.disable else given,
            z_threshold=self.z_threshold,
            tolerance=0.0 if "effect_size" in self.disable else self.tolerance,
            min_samples=self.min_samples,
            growth=self.growth,
            planning="planning" not in self.disable,
            slopes="slopes" not in self.disable,
            curvature="curvature" not in self.disable,
            diagonals="diagonals" not in self.disable,
            advantage="advantage" not in self.disable,
            optimism="optimism" not in self.disable,
        )
        choices = actions.count if isinstance(actions, Discrete) else 0
        self._settings = ExplorationSettings(
            horizon=problem.horizon,
            exploration=self.exploration,
            sizes="sizes" not in self.disable,
            ends="ends" not in self.disable,
            repeats="repeats" not in self.disable,
            choices=choices,
        )
        self._work = Partition(problem.states, actions, initial=0.0)
        self._work.ensure_room(_FIRST_ROOM, _FIRST_ROOM)
        room = len(self._work.forest.nodes), len(self._work.forest.cells)
        self._buffer = make_buffer(self._hyper, 2 * problem.horizon)
        self._stats = make_stats(self._hyper, *room)
        self._frame = problem.frame(1)
        self._extracted: Partition | None = None

    @property
    def steps_to_split(self) -> int:
        """Transitions with which each side can be cut twice."""
        return 4 * self.min_samples * 2 * self._hyper.sides

    def _make_room(self, steps: int) -> None:
        """Grow buffer, forest and statistics so that the next episode, or the update that waits, can go on."""
        size, used = len(self._buffer.transitions), int(self._buffer.counts[USED])
        waiting = bool(self._buffer.counts[PENDING])
        if used + self.problem.horizon > size:
            if size < self.buffer_size:
                self._buffer = grow_buffer(self._buffer, min(self.buffer_size, max(2 * size, used + steps)))
            elif not waiting and is_up_to_date(self._buffer, self._hyper):
                drop_half(self._work.forest, self._buffer, self._stats, self._hyper)
                self._extracted = None
            elif not waiting:
                # no transition is dropped before an update has seen it
                self._buffer.counts[DUE] = min(used, int(self._buffer.counts[DUE]))
        self._work, self._stats = _grow(self._work, self._stats, waiting)

    def _run(self, rows: NDArray[np.void], budget: int) -> None:
        if len(rows):
            self._extracted = None  # even where no episode comes to its end
        iterate(
            self._work.forest,
            self._buffer,
            self._stats,
            self._hyper,
            self._settings,
            self.problem.world,
            self._frame,
            self._counts,
            self._streams,
            rows,
            budget,
        )

    def _state(self) -> dict[str, NDArray[Any]]:
        arrays, used = super()._state(), int(self._buffer.counts[USED])
        nodes, cells, _ = (int(n) for n in self._work.forest.used)
        for name, array in self._buffer._asdict().items():
            arrays[f"replay-{name}"] = array if name == "counts" else array[:used]
        for name, array in self._stats._asdict().items():
            rows = nodes if name in PER_NODE else cells if name in PER_CELL else len(array)
            arrays[f"stats-{name}"] = array[:rows]
        return arrays

    def _restore_partitions(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        counts = np.zeros(5, np.int64)
        fill_array(counts, arrays["replay-counts"], "replay-counts")
        used = int(counts[USED])
        if len(arrays["replay-transitions"]) != used:
            raise ValueError("a replay buffer of another length")  # before room is made for it
        self._work.restore(select_prefix(arrays, "work-"), ranked=not counts[PENDING])
        self._work.ensure_room(_FIRST_ROOM, _FIRST_ROOM)
        room = len(self._work.forest.nodes), len(self._work.forest.cells)
        buffer, stats = make_buffer(self._hyper, max(used, 2 * self.problem.horizon)), make_stats(self._hyper, *room)
        rows = dict.fromkeys(PER_TRANSITION, used)
        rows |= dict.fromkeys(PER_NODE, int(self._work.forest.used[0]))
        rows |= dict.fromkeys(PER_CELL, int(self._work.forest.used[1]))
        for prefix, place in (("replay-", buffer), ("stats-", stats)):
            for name, array in place._asdict().items():
                fill_array(array[: rows.get(name, len(array))], arrays[f"{prefix}{name}"], f"{prefix}{name}")
        check_buffer(
            self._work.forest, buffer, stats, self._hyper, self._settings.choices, boxes=self._work.node_boxes()
        )
        self._buffer, self._stats, self._extracted = buffer, stats, None

    def _policy(self) -> Partition:
        """Extract the policy after an update of everything, on copies: the learner stays as it is."""
        if self._extracted is None:
            work, stats = self._work.copy(), CellStats._make(array.copy() for array in self._stats)
            buffer = ReplayBuffer(
                *(
                    getattr(self._buffer, name) if name == "transitions" else getattr(self._buffer, name).copy()
                    for name in ReplayBuffer._fields
                )
            )
            while buffer.counts[USED] and not update(work.forest, buffer, stats, self._hyper):
                work, stats = _grow(work, stats, True)
            pinned = 0
            while buffer.counts[USED] and pinned < work.forest.used[0]:
                pinned = flatten_policy(work.forest, buffer, stats, self._hyper, pinned)
                work, stats = _grow(work, stats, pinned < work.forest.used[0])
            if buffer.counts[USED] and "merging" not in self.disable:
                merge_cells(work.forest, find_visited_leaves(work.forest, buffer))
            self._extracted = work
        return self._extracted


def _check_mechanisms(disable: Sequence[str]) -> tuple[str, ...]:
    """Return the names of mechanisms, checked."""
    names = (disable,) if isinstance(disable, str) or not isinstance(disable, Iterable) else tuple(disable)
    for name in names:
        if not isinstance(name, str) or name not in MECHANISMS:
            raise ParameterError(f"disable: expected some of {', '.join(MECHANISMS)}, got {name!r:.80}")
    return names


def _grow(work: Partition, stats: CellStats, waiting: bool) -> tuple[Partition, CellStats]:
    """Return forest and statistics with twice the room if an update waits for it."""
    if waiting:
        room = 2 * len(work.forest.nodes), 2 * len(work.forest.cells)
        stats = grow_stats(stats, *room)
        # last: an interrupt between the two leaves statistics that are too long, which does no harm
        work.ensure_room(*room)
    return work, stats
