"""SPAQL past the paper: one partition, everything remembered, splits where the experiences call for them.

The agent of the paper is myopic, forgets what a split cell had learned, splits by counting visits, and spends twenty of
twenty-one steps on choosing between its own snapshots (`docs/findings.md`).  This one keeps the single partition and
the time-invariant greedy policy, and otherwise

* values with the discount 1 - 1/H, so that what comes after a step counts (`spaql.agents.tessera.value_iteration`);
* remembers every experience and revises all Q from them, whenever the memory has grown by a quarter;
* splits one side of a cell at a time, where significance, relevance and promise say so (`spaql.agents.tessera.split_tests`);
* explores with steps of every size, which it repeats: where no exploring action is under way, three of four actions are
  drawn inside the greedy cell; else one is drawn from an interval around its middle, twice as wide as the cell, four
  times, ... or as the action space, each as likely, every second time from its ends only, and played at least k times
  in a row with probability 1/k (Dabney, Ostrovski and Barreto, 2021);
* selects nothing: the returned policy is a revision of everything remembered, and plays the middle of its cells;
* returns few arms: cells that decide nothing are merged (`spaql.agents.tessera.policy_extraction`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spaql.agents.partition_agent import PartitionAgent, select_prefix
from spaql.agents.registry import register
from spaql.agents.rollouts import FINISHED, STATUS, TRAINING, advance_all, begin_all
from spaql.agents.tessera.policy_extraction import merge
from spaql.agents.tessera.policy_pins import pin
from spaql.agents.tessera.replay import (
    HIGHEST,
    LOWEST,
    NEXT,
    ORIGIN,
    PENDING,
    PER_CELL,
    PER_EXPERIENCE,
    PER_NODE,
    PLACE,
    SPLITS,
    TOLD,
    USED,
    Ledger,
    Memory,
    Rule,
    all_revised,
    allocate,
    chain,
    check_memory,
    forget,
    limit,
    longer_ledger,
    longer_memory,
    open_ledger,
    schedule,
    spot,
    survey,
    visited,
)
from spaql.agents.tessera.split_tests import revise
from spaql.errors import ParameterError
from spaql.partition.jit import kernel, unreferenced
from spaql.partition.kernels import NONE, locate, play
from spaql.partition.partition import Partition, fill
from spaql.partition.rng import uniform
from spaql.partition.spaces import Box, Discrete
from spaql.problems.base import RAN, SOME_ENDED, failed
from spaql.validation import check_number, check_whole

_FIRST_ROOM = 256
MOST_REMEMBERED = 1_000_000_000


#: what can be left out, for ablations, and what then happens instead
MECHANISMS = {
    "foresight": "the discount is 0: only the reward at hand counts",
    "planning": "values move by one step in every revision",
    "slopes": "a cell has one value for all its states",
    "effect_size": "the tolerance is 0: every significant contrast splits",
    "optimism": "cells split wherever contrasts are significant and relevant",
    "curvature": "middle halves are not tested against outer quarters",
    "diagonals": "diagonals of quadrants are not tested",
    "advantage": "halves are not compared by what they gain on the next best cell",
    "sizes": "exploring actions are drawn from the whole action space",
    "ends": "exploring actions are drawn evenly from their interval",
    "repeats": "exploring actions are played once",
    "merging": "the returned policy keeps every cell",
    "middle": "the returned policy draws inside the chosen cell",
}


class Conduct(NamedTuple):
    """How the agent acts while it learns."""

    horizon: int
    exploration: float
    local: bool  # steps of every size, else of the whole action space only
    bold: bool  # every second exploring action is an end of its interval
    persistent: bool  # exploring actions are repeated for a while
    choices: int  # number of finite actions, 0 for a box


@kernel(inline=True)
def wander(f, cell, conduct, random, actions, row):
    """Draw an exploring action into `actions[row]`.

    With 2^-k the narrowest side of the greedy cell, the action is drawn from the interval that reaches 1, 1/2, ..., or
    2^-k to either side of the cell's middle, each as likely, as far as it lies in the action space: evenly, or, as
    likely, one of its ends in each dimension.
    """
    if conduct.choices > 0:
        actions[row, 0] = np.floor(uniform(random) * conduct.choices)
        return
    reach = 1.0
    if conduct.local:
        narrowest = 1.0
        for d in range(f.boxes.shape[2]):
            narrowest = min(narrowest, f.boxes[cell, 1, d] - f.boxes[cell, 0, d])
        reach = math.ldexp(1.0, -int(uniform(random) * (2 - math.frexp(narrowest)[1])))
    ends = conduct.bold and uniform(random) < 0.5
    for d in range(f.boxes.shape[2]):
        middle = 0.5 * (f.boxes[cell, 0, d] + f.boxes[cell, 1, d])
        low = max(0.0, middle - reach)
        place = uniform(random)
        if ends:
            place = 1.0 if place < 0.5 else 0.0
        actions[row, d] = low + place * (min(1.0, middle + reach) - low)


@kernel(inline=True)
def act(f, m, g, rule, conduct, frame, node, repeats, random):
    """Choose a training action in a state whose leaf is `node`; the cell that it belongs to, and the repeats left.

    While there are repeats left the last action is played again.
    """
    cell = g.greedy[node]
    if repeats == 0 and not uniform(random) < conduct.exploration:
        play(f, cell, random, frame.actions, 0)
        return cell, 0
    if repeats > 0:
        repeats -= 1
        for d in range(rule.actions):
            frame.actions[0, d] = m.facts[m.counts[USED] - 1, rule.states + d]
    else:
        wander(f, cell, conduct, random, frame.actions, 0)
        repeats = lasting(conduct, random)
    found = locate(f, 0, frame.points, 0, frame.actions)
    return found if found >= 0 else cell, repeats  # cells of a file that was tampered with may have gaps


@kernel(inline=True)
def lasting(conduct, random):
    """How often an exploring action is repeated: at least k times with probability 1 / (k + 1)."""
    if not conduct.persistent:
        return 0
    return int(min(1.0 / (1.0 - uniform(random)), float(conduct.horizon))) - 1


@kernel(inline=True)
def train_episode(f, m, g, rule, conduct, world, frame, counts, agent_random, world_random):
    """Play one episode and remember it; its return.  `counts[STATUS]` tells of a fault."""
    states = rule.states
    status = begin_all(world, frame, 0, 1, world_random)
    node = 0 if failed(status) else spot(f, g, frame.points, 0)
    total = 0.0
    repeats = 0
    for _ in range(conduct.horizon):
        if status != RAN:
            break
        i = m.counts[USED]
        cell, repeats = act(f, m, g, rule, conduct, frame, node, repeats, agent_random)
        for d in range(states):
            m.facts[i, d] = frame.points[0, d]
        for d in range(rule.actions):
            m.facts[i, states + d] = frame.actions[0, d]
        m.files[i, ORIGIN] = node
        status = advance_all(world, frame, 1, world_random)
        counts[TRAINING] += 1
        if failed(status):
            break
        reward = frame.outcomes[0, 0]
        total += reward
        m.facts[i, states + rule.actions] = reward
        limit(g, rule, reward, status & SOME_ENDED)
        for d in range(states):
            m.facts[i, states + rule.actions + 1 + d] = frame.points[0, d]
        node = NONE if status & SOME_ENDED else spot(f, g, frame.points, 0)
        m.files[i, PLACE] = node
        chain(f, m, g, rule, i, cell)
        m.counts[USED] = i + 1
    counts[STATUS] = status
    return total


@kernel()
def live(f, m, g, rule, conduct, world, frame, counts, streams, rows, first, budget):
    """Episodes from row `first` on until a revision falls due or `iterate` has to stop; the next row."""
    # A kernel of its own, small enough for the compiler to keep what it needs at hand.
    f, m, g, world, frame = unreferenced(f), unreferenced(m), unreferenced(g), unreferenced(world), unreferenced(frame)
    counts, agent_random, world_random = unreferenced(counts), unreferenced(streams[0]), unreferenced(streams[1])
    rows = unreferenced(rows)
    for k in range(first, rows.shape[0]):
        if counts[TRAINING] > budget - conduct.horizon or m.counts[USED] + conduct.horizon > m.facts.shape[0]:
            return k
        if m.counts[USED] >= m.counts[NEXT]:
            return k
        score = train_episode(f, m, g, rule, conduct, world, frame, counts, agent_random, world_random)
        if failed(counts[STATUS]):
            return k
        rows[k].score = score
        rows[k].best = score
        rows[k].value_low = g.scale[LOWEST]
        rows[k].value_high = g.scale[HIGHEST]
        rows[k].arms = f.used[1]
        rows[k].training_steps = counts[TRAINING]
        counts[FINISHED] += 1
    return rows.shape[0]


@kernel()
def iterate(f, m, g, rule, conduct, world, frame, counts, streams, rows, budget):
    """Up to `len(rows)` episodes, and the revisions that fall due before them, counted in `counts[FINISHED]`.

    Stops early where an episode might pass the step budget, where forest or memory have no room, or at a fault of the
    problem, which `counts[STATUS]` then tells.
    """
    if m.counts[USED] == 0:
        survey(f, g)
    k = 0
    while k < rows.shape[0] and not failed(counts[STATUS]) and counts[TRAINING] <= budget - conduct.horizon:
        if m.counts[PENDING] or m.counts[USED] >= m.counts[NEXT]:
            if m.counts[PENDING] == 0:
                schedule(m, rule)
            if not revise(f, m, g, rule):
                return
        after = live(f, m, g, rule, conduct, world, frame, counts, streams, rows, k, budget)
        if after == k:
            return
        rows[k].splits = m.counts[SPLITS] - m.counts[TOLD]
        m.counts[TOLD] = m.counts[SPLITS]
        k = after


@register("tessera", label="Tessera", colour="#0072B2")
class Tessera(PartitionAgent):
    """Single-partition adaptive Q-learning that remembers, plans and splits by what it has seen; nothing to tune.

    Parameters
    ----------
    problem
        What to learn; see `spaql.agents.base.Agent`.
    discount
        Of the value of the next state, in [0, 1); None for 1 - 1/H.
    exploration
        How often, in training, a step of a random size away from the greedy action begins.
    z_threshold
        Standard errors by which the parts of a cell must differ for it to split.
    tolerance
        The least that a split must be worth: the difference it tells apart, summed over the cell's experiences, in
        units of what chance alone moves the sum over all experiences by.
    min_samples
        Experiences that each part of a cell must have to be compared with the rest.
    growth
        All Q are revised whenever the memory has grown by this share.
    buffer_size
        Experiences to remember at most; when it is full every second one is forgotten.
    disable
        Names of mechanisms to leave out, for ablations; see `spaql.agents.tessera.agent.MECHANISMS`.
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
        self.disable = _known(disable)
        self.plays_middle = "middle" not in self.disable
        self.discount = None if discount is None else check_number(discount, "discount", least=0.0, most=1.0)
        if self.discount == 1.0:
            raise ParameterError("discount: must be below 1, or the value of an episode without end has no bound")
        self.exploration = check_number(exploration, "exploration", least=0.0, most=1.0, above=True)
        self.z_threshold = check_number(z_threshold, "z_threshold", least=0.0)
        self.tolerance = check_number(tolerance, "tolerance", least=0.0)
        self.min_samples = check_whole(min_samples, "min_samples", 2, 1_000_000)
        self.growth = check_number(growth, "growth", least=0.0, most=1000.0, above=True)
        self.buffer_size = check_whole(buffer_size, "buffer_size", 2 * problem.horizon, MOST_REMEMBERED)
        given = 1.0 - 1.0 / problem.horizon if self.discount is None else self.discount
        states, actions = problem.states.dimensions, problem.actions
        sides = states + (actions.dimensions if isinstance(actions, Box) else 0)
        self._rule = Rule(
            states=states,
            actions=actions.dimensions,
            sides=sides,
            discount=0.0 if "foresight" in self.disable else given,
            z_threshold=self.z_threshold,
            tolerance=0.0 if "effect_size" in self.disable else self.tolerance,
            min_samples=self.min_samples,
            growth=self.growth,
            planned="planning" not in self.disable,
            sloped="slopes" not in self.disable,
            middles="curvature" not in self.disable,
            diagonals="diagonals" not in self.disable,
            duelling="advantage" not in self.disable,
            promising="optimism" not in self.disable,
        )
        choices = actions.count if isinstance(actions, Discrete) else 0
        self._conduct = Conduct(
            horizon=problem.horizon,
            exploration=self.exploration,
            local="sizes" not in self.disable,
            bold="ends" not in self.disable,
            persistent="repeats" not in self.disable,
            choices=choices,
        )
        self._work = Partition(problem.states, actions, initial=0.0)
        self._work.hold(_FIRST_ROOM, _FIRST_ROOM)
        room = len(self._work.forest.nodes), len(self._work.forest.cells)
        self._memory = allocate(self._rule, 2 * problem.horizon)
        self._ledger = open_ledger(self._rule, *room)
        self._frame = problem.frame(1)
        self._returned: Partition | None = None

    @property
    def steps_to_split(self) -> int:
        """Enough experiences for each of the sides to be cut twice."""
        return 4 * self.min_samples * 2 * self._rule.sides

    def _make_room(self, steps: int) -> None:
        """Let memory, forest and ledger grow so that the next episode, or the revision that waits, can go on."""
        size, used = len(self._memory.facts), int(self._memory.counts[USED])
        waiting = bool(self._memory.counts[PENDING])
        if used + self.problem.horizon > size:
            if size < self.buffer_size:
                self._memory = longer_memory(self._memory, min(self.buffer_size, max(2 * size, used + steps)))
            elif not waiting and all_revised(self._memory, self._rule):
                forget(self._work.forest, self._memory, self._ledger, self._rule)
                self._returned = None
            elif not waiting:
                self._memory.counts[NEXT] = min(used, int(self._memory.counts[NEXT]))  # nothing is forgotten unseen
        self._work, self._ledger = _roomier(self._work, self._ledger, waiting)

    def _run(self, rows: NDArray[np.void], budget: int) -> None:
        if len(rows):
            self._returned = None  # even where no episode comes to its end
        iterate(
            self._work.forest,
            self._memory,
            self._ledger,
            self._rule,
            self._conduct,
            self.problem.world,
            self._frame,
            self._counts,
            self._streams,
            rows,
            budget,
        )

    def _state(self) -> dict[str, NDArray[Any]]:
        arrays, used = super()._state(), int(self._memory.counts[USED])
        nodes, cells, _ = (int(n) for n in self._work.forest.used)
        arrays["work-room"] = np.array([nodes, cells])  # as nothing is tidied here, room makes no difference
        for name, array in self._memory._asdict().items():
            arrays[f"memory-{name}"] = array if name == "counts" else array[:used]
        for name, array in self._ledger._asdict().items():
            rows = nodes if name in PER_NODE else cells if name in PER_CELL else len(array)
            arrays[f"ledger-{name}"] = array[:rows]
        return arrays

    def _restore_partitions(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        counts = np.zeros(5, np.int64)
        fill(counts, arrays["memory-counts"], "memory-counts")
        used = int(counts[USED])
        if len(arrays["memory-facts"]) != used:
            raise ValueError("a memory of another length")  # before room is made for it
        self._work.restore(select_prefix(arrays, "work-"), ranked=not counts[PENDING])
        self._work.hold(_FIRST_ROOM, _FIRST_ROOM)
        room = len(self._work.forest.nodes), len(self._work.forest.cells)
        memory, ledger = allocate(self._rule, max(used, 2 * self.problem.horizon)), open_ledger(self._rule, *room)
        rows = dict.fromkeys(PER_EXPERIENCE, used)
        rows |= dict.fromkeys(PER_NODE, int(self._work.forest.used[0]))
        rows |= dict.fromkeys(PER_CELL, int(self._work.forest.used[1]))
        for prefix, place in (("memory-", memory), ("ledger-", ledger)):
            for name, array in place._asdict().items():
                fill(array[: rows.get(name, len(array))], arrays[f"{prefix}{name}"], f"{prefix}{name}")
        check_memory(
            self._work.forest, memory, ledger, self._rule, self._conduct.choices, boxes=self._work.node_boxes()
        )
        self._memory, self._ledger, self._returned = memory, ledger, None

    def _policy(self) -> Partition:
        """A revision of everything remembered, merged; on copies, so that asking changes nothing."""
        if self._returned is None:
            work, ledger = self._work.copy(), Ledger._make(array.copy() for array in self._ledger)
            memory = Memory(
                *(
                    getattr(self._memory, name) if name == "facts" else getattr(self._memory, name).copy()
                    for name in Memory._fields
                )
            )
            while memory.counts[USED] and not revise(work.forest, memory, ledger, self._rule):
                work, ledger = _roomier(work, ledger, True)
            pinned = 0
            while memory.counts[USED] and pinned < work.forest.used[0]:
                pinned = pin(work.forest, memory, ledger, self._rule, pinned)
                work, ledger = _roomier(work, ledger, pinned < work.forest.used[0])
            if memory.counts[USED] and "merging" not in self.disable:
                merge(work.forest, visited(work.forest, memory))
            self._returned = work
        return self._returned


def _known(disable: Sequence[str]) -> tuple[str, ...]:
    """The names of mechanisms, checked."""
    names = (disable,) if isinstance(disable, str) or not isinstance(disable, Iterable) else tuple(disable)
    for name in names:
        if not isinstance(name, str) or name not in MECHANISMS:
            raise ParameterError(f"disable: expected some of {', '.join(MECHANISMS)}, got {name!r:.80}")
    return names


def _roomier(work: Partition, ledger: Ledger, waiting: bool) -> tuple[Partition, Ledger]:
    """Forest and ledger with twice the room if a revision waits for it."""
    if waiting:
        room = 2 * len(work.forest.nodes), 2 * len(work.forest.cells)
        ledger = longer_ledger(ledger, *room)
        work.hold(*room)  # last: an interrupt between the two leaves a ledger that is too long, which does no harm
    return work, ledger
