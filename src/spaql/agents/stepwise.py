"""Base of agents that keep one partition per time step and arrays of their own beside its cells.

An iteration is an episode of learning and, for the learning curve only, N greedy rollouts.  The forest's arrays only
grow at their ends: the numbers of cells and nodes, by which the other arrays refer to them, never change.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spaql.agents.partition_agent import PartitionAgent
from spaql.agents.q_learning import MOST_ROLLOUTS, score_policy
from spaql.agents.rollouts import FINISHED, MONITORING, SELECTION, STATUS, TRAINING, TRAINING_ROW
from spaql.errors import ParameterError
from spaql.partition.jit import kernel, make_records
from spaql.partition.kernels import NONE
from spaql.partition.partition import Partition
from spaql.partition.spaces import Floats
from spaql.problems.base import LARGEST_REWARD, failed
from spaql.validation import MOST_COUNTED, check_number, check_whole

_LONGEST = 10_000

ENTRY = np.dtype([("count", np.int64), ("node", np.int32), ("next", np.int32)])


class Transitions(NamedTuple):
    """How often each owner was followed by each node of the next time step's state tree: one list per owner."""

    used: NDArray[np.int64]  # [1] entries in use
    first: NDArray[np.int32]  # [owners] first entry, or NONE
    entries: NDArray[np.void]  # [entries] ENTRY, of each list in the order in which nodes were met


@kernel(inline=True)
def count_transition(t, owner, node):
    """Count a transition to a node; one that was not met before goes to the end of the owner's list."""
    last = NONE
    entry = t.first[owner]
    while entry >= 0:
        if t.entries[entry].node == node:
            t.entries[entry].count += 1
            return
        last = entry
        entry = t.entries[entry].next
    entry = t.used[0]
    t.used[0] += 1
    t.entries[entry].count = 1
    t.entries[entry].node = node
    t.entries[entry].next = NONE
    if last >= 0:
        t.entries[last].next = entry
    else:
        t.first[owner] = entry


@kernel(inline=True)
def add_values(t, owner, values, total):
    """Return `total` plus the value of every transition of an owner; `values` [nodes]."""
    entry = t.first[owner]
    while entry >= 0:
        total += t.entries[entry].count * values[t.entries[entry].node]
        entry = t.entries[entry].next
    return total


@kernel(inline=True)
def may_go_on(f, counts, budget, horizon, reserve):
    """Whether another iteration fits into the step budget and into the arrays, and the problem reports no fault."""
    if failed(counts[STATUS]) or counts[TRAINING] + counts[SELECTION] > budget - horizon:
        return False
    return f.used[0] + reserve[0] <= f.nodes.shape[0] and f.used[1] + reserve[1] <= f.cells.shape[0]


@kernel(inline=True)
def finish_iteration(f, world, frame, hyper, counts, row, agent_random, world_random):
    """Play the rollouts, if any, and fill the rest of the row; a fault leaves the iteration unfinished."""
    row.training_return = row.score
    if hyper.rollouts > 0:
        row.score = score_policy(f, world, frame, hyper, counts, MONITORING, agent_random, world_random)
        if failed(counts[STATUS]):
            return
    row.best = row.score
    row.cells = f.used[1]
    row.training_steps = counts[TRAINING]
    row.selection_steps = counts[SELECTION]
    row.monitoring_steps = counts[MONITORING]
    counts[FINISHED] += 1


class StepwiseAgent(PartitionAgent):
    """Base class: a subclass checks its parameters, calls `_begin`, and has `_resize` for its own arrays."""

    time_variant = True
    _row = TRAINING_ROW

    def __init__(self, problem: Any, *, rollouts: int, seed: int, **environment: Any) -> None:
        super().__init__(problem, seed=seed, **environment)
        self.rollouts = check_whole(rollouts, "rollouts", 0, MOST_ROLLOUTS)
        if self.problem.horizon > _LONGEST:
            name = type(self).__name__
            raise ParameterError(
                f"horizon: {name} keeps a partition per time step, at most {_LONGEST}, got {self.problem.horizon}; "
                f"give a shorter horizon="
            )

    def _begin(self, initial: Floats) -> None:
        """Make the untrained partitions; `initial` is the Q of each time step's cells, `[horizon]`."""
        problem = self.problem
        self._work = work = Partition(problem.states, problem.actions, initial=0.0, steps=problem.horizon)
        work.forest.cells["q"] = initial[work.forest.cells["root"]]
        work.forest.nodes["top_q"] = initial
        self._frame = problem.frame(max(1, self.rollouts))

    @property
    def selection_score(self) -> float | None:
        """The mean return of the returned policy in its last rollouts, which choose nothing; None without."""
        return float(self.history["best"][-1]) if len(self.history) and self.rollouts else None

    def _policy(self) -> Partition:
        return self._work

    def _growth(self) -> tuple[int, int]:
        """Return the nodes and cells that an iteration can add at most."""
        return self._work.max_growth(self.problem.horizon)

    def _make_room(self, steps: int) -> None:
        forest, (nodes, cells) = self._work.forest, self._growth()
        needed = int(forest.used[0]) + nodes, int(forest.used[1]) + cells
        room = len(forest.nodes), len(forest.cells)
        if needed[0] > room[0] or needed[1] > room[1]:
            self._work.ensure_room(*(max(64, least, 5 * have // 4) for least, have in zip(needed, room, strict=True)))
        self._resize(len(self._work.forest.nodes), len(self._work.forest.cells))

    def _resize(self, nodes: int, cells: int) -> None:
        """Grow the agent's own arrays to the forest's nodes and cells, and so that one iteration fits."""
        raise NotImplementedError


def enlarge(array: NDArray[Any], least: int, fill: float = 0) -> NDArray[Any]:
    """Return an array of at least this length with the same beginning; it grows by a quarter at least."""
    if len(array) >= least:
        return array
    larger = np.full((max(64, least, 5 * len(array) // 4), *array.shape[1:]), fill, array.dtype)
    larger = larger.view(type(array))
    larger[: len(array)] = array
    return larger


def enlarge_transitions(t: Transitions, owners: int, entries: int) -> Transitions:
    """Return transitions with room for this many owners in all, and for this many more entries."""
    return Transitions(t.used, enlarge(t.first, owners, NONE), enlarge(t.entries, int(t.used[0]) + entries))


def transition_arrays(t: Transitions, owners: int) -> dict[str, NDArray[Any]]:
    """Return the arrays in use, for a file."""
    return {"first": t.first[:owners], "entries": t.entries[: t.used[0]]}


def restore_transitions(arrays: Mapping[str, NDArray[Any]], owners: int, nodes: int) -> Transitions:
    """Return transitions from a file; ValueError where lists would lead out of the arrays, or nowhere."""
    first, entries = (np.asarray(arrays[name]) for name in ("first", "entries"))
    if first.dtype != np.int32 or first.shape != (owners,) or entries.dtype != ENTRY or entries.ndim != 1:
        raise ValueError("transitions of the wrong shape or type")
    place = np.arange(len(entries))
    if not ((first >= NONE) & (first < len(entries))).all():
        raise ValueError("corrupt lists of transitions")
    behind = (entries["next"] == NONE) | ((entries["next"] > place) & (entries["next"] < len(entries)))
    if not (behind & (entries["node"] >= 0) & (entries["node"] < nodes)).all():
        raise ValueError("corrupt lists of transitions")
    if not ((entries["count"] > 0) & (entries["count"] <= MOST_COUNTED)).all():
        raise ValueError(f"transitions: counts below 1 or beyond {MOST_COUNTED:g}")
    check_apart(first, entries["next"])
    records = make_records(len(entries), ENTRY)
    records[:] = entries
    return Transitions(np.array([len(entries)]), first.copy(), records)


def check_apart(first: NDArray[np.int32], following: NDArray[np.int32]) -> None:
    """Raise a ValueError where two lists share an element: kernels would walk a long one for every owner."""
    links = np.concatenate([first.ravel(), following])
    links = links[links != NONE]
    if len(np.unique(links)) < len(links):
        raise ValueError("lists that share their elements")


def check_lipschitz(value: Any) -> float:
    """Return a Lipschitz constant; a `ParameterError` if it is not above 0."""
    try:
        return check_number(value, "lipschitz", least=0.0, above=True, most=LARGEST_REWARD)
    except ParameterError as error:
        raise ParameterError(f"{error}; give a bound on how much the value changes across the unit cube") from None
