"""Adaptive Q-learning on a partition: the episode and the iteration that SPAQL, SPAQL-TS and AQL share.

A step of an episode in state x chooses a cell B among the relevant ones, plays an action inside it, and learns from the
reward r and the next state x':

    n(B) <- v = n(B) + 1,      alpha_v = (H + 1) / (H + v)                                        (eq. 7)
    Q(B) <- (1 - alpha_v) Q(B) + alpha_v (r + w(x) V(x') + xi / sqrt(v))                          (eq. 6, 9)
    V(x') = min(H, max Q over RELEVANT(x'))                                                       (eq. 8)
    split B when n(B) >= (d_max / r(B))^2

After the episode N greedy rollouts score the policy.  An algorithm is its `Hyperparameters` and two arguments of
the kernels:

* `per_step`, True or None: whether each time step has its own partition, with V = 0 after the last, or all share one;
* `annealing`, an array or None: with it B is a Boltzmann sample, and the rollouts decide which partition is kept
  (selection); without it B is the cell of largest Q, and the rollouts only draw the learning curve (monitoring).

Numba compiles a version of the kernels for each combination, without the branches that None rules out: as flags they
would cost 7% of SPAQL's speed.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spaql.agents.partition_agent import PartitionAgent
from spaql.agents.rollouts import (
    FINISHED,
    MONITORING,
    SELECTION,
    SPLIT_ITERATIONS,
    STARTED,
    STATUS,
    TRAINING,
    TRAINING_ROW,
    advance_all,
    play_episodes,
    reset_all,
)
from spaql.partition.jit import kernel, unreferenced
from spaql.partition.kernels import NONE, copy_forest, draw_action, find_best, sample_cell, update_cell
from spaql.partition.partition import Partition, fill_array
from spaql.problems.base import LARGEST_REWARD, RAN, SOME_ENDED, failed
from spaql.validation import LARGEST_NUMBER, check_number, check_whole

MOST_ROLLOUTS = 1_000_000
PATH_TO_QUARTERS = 1 + 4  # visits after which cells can be a quarter wide: one of depth k splits at 4^k
TEMPERATURE, HEAT, BEST = 0, 1, 2


class Hyperparameters(NamedTuple):
    """Constants of a run, named as the agent's parameters; they make the algorithm."""

    horizon: int  # H
    rollouts: int  # N
    scaling: float  # xi
    temperature_min: float = 0.0  # tau_min
    temperature_max: float = 0.0  # tau_max
    heat_decay: float = 1.0  # d
    splits_before_reset: int = 0  # iterations with splits and no improvement before a reset
    radius: float = 0.0  # lambda of SPAQL-TS: w(x) = exp(-(|x - x_ref| / lambda)^2) in the unit cube; 0 for w = 1


@kernel(inline=True)
def weigh_state(points, reference, radius):
    """exp(-(|x - x_ref| / radius)^2) of the state in the first row."""
    distance = 0.0
    for d in range(reference.shape[0]):
        distance += (points[0, d] - reference[d]) ** 2
    return np.exp(-distance / (radius * radius))


@kernel(inline=True)
def train_episode(f, world, frame, hyper, reference, per_step, annealing, counts, row, agent_random, world_random):
    """Play and learn from one episode (algorithm 2, lines 6-16).

    Fills the row's range of V, splits, score and training return (the same here); gives back the problem's status.
    """
    cap = float(hyper.horizon)
    status = reset_all(world, frame, 0, 1, world_random)
    low = np.inf
    high = -np.inf
    total = 0.0
    splits = 0
    greedy = NONE
    for h in range(hyper.horizon):
        if status != RAN:  # a fault: its state must not be looked up; or the episode's end
            break
        root = 0 if per_step is None else h
        if annealing is not None:
            cell = sample_cell(f, root, frame.points, 0, annealing[TEMPERATURE], agent_random)
        elif per_step is None or h == 0:
            cell = find_best(f, root, frame.points, 0)
        else:
            cell = greedy  # of the last step's V: this partition has not changed since
        draw_action(f, cell, agent_random, frame.actions, 0)
        weight = weigh_state(frame.points, reference, hyper.radius) if hyper.radius > 0.0 else 1.0
        status = advance_all(world, frame, 1, world_random)
        counts[TRAINING] += 1
        if failed(status):
            break
        total += frame.outcomes[0, 0]
        value = 0.0
        if not status & SOME_ENDED and (per_step is None or h + 1 < hyper.horizon):
            greedy = find_best(f, 0 if per_step is None else h + 1, frame.points, 0)
            value = weight * min(cap, f.cells[greedy].q)
        low = min(low, value)
        high = max(high, value)
        splits += update_cell(f, cell, frame.outcomes[0, 0] + value, cap, hyper.scaling)
    row.value_low = low
    row.value_high = high
    row.splits = splits
    row.score = total
    row.training_return = total
    return status


@kernel(inline=True)
def score_policy(f, world, frame, hyper, counts, counter, agent_random, world_random):
    """Return the mean return of N greedy rollouts (algorithm 1, EVALUATE AGENT); their steps add to a counter."""
    count = hyper.rollouts
    status, steps = play_episodes(f, None, world, frame, hyper.horizon, count, False, agent_random, world_random)
    counts[counter] += steps
    counts[STATUS] = status
    total = 0.0
    for i in range(count):
        total += frame.returns[i]
    return total / count


@kernel(inline=True)
def update_annealing(work, kept, hyper, annealing, counts, row):
    """Keep, heat or reset after an iteration's score (algorithm 2, lines 18-26)."""
    if row.splits > 0:
        counts[SPLIT_ITERATIONS] += 1
    if row.score >= annealing[BEST]:
        annealing[BEST] = row.score
        copy_forest(work, kept)
        annealing[TEMPERATURE] = hyper.temperature_min
        annealing[HEAT] = annealing[HEAT] ** hyper.heat_decay
        counts[SPLIT_ITERATIONS] = 0
    elif counts[SPLIT_ITERATIONS] >= hyper.splits_before_reset:
        copy_forest(kept, work)
        annealing[TEMPERATURE] = hyper.temperature_min
        counts[SPLIT_ITERATIONS] = 0
        row.resets = 1
    elif counts[SPLIT_ITERATIONS] > 0:
        annealing[TEMPERATURE] = min(hyper.temperature_max, annealing[TEMPERATURE] * annealing[HEAT])


@kernel()
def iterate(work, kept, world, frame, hyper, reference, per_step, annealing, counts, streams, rows, budget, reserve):
    """Run up to `len(rows)` iterations: an episode, its score, and what follows from it (algorithm 2).

    Stops early where an iteration might pass the step budget, where the arrays might run out of room (`reserve`: the
    nodes and cells that one iteration can add), or at a fault of the problem, which `counts[STATUS]` then reports.
    """
    work, kept, world, frame = unreferenced(work), unreferenced(kept), unreferenced(world), unreferenced(frame)
    counts = unreferenced(counts)
    training_agent, training_world = unreferenced(streams[0]), unreferenced(streams[1])
    rollout_agent, rollout_world = unreferenced(streams[2]), unreferenced(streams[3])
    counter = MONITORING if annealing is None else SELECTION
    most = hyper.horizon if annealing is None else hyper.horizon * (1 + hyper.rollouts)
    if annealing is not None and counts[STARTED] == 0 and rows.shape[0] > 0:
        first = score_policy(work, world, frame, hyper, counts, counter, rollout_agent, rollout_world)
        if failed(counts[STATUS]):
            return
        annealing[BEST] = first
        copy_forest(work, kept)
        counts[STARTED] = 1
    for k in range(rows.shape[0]):
        if failed(counts[STATUS]) or counts[TRAINING] + counts[SELECTION] > budget - most:
            return
        if work.used[0] + reserve[0] > work.nodes.shape[0] or work.used[1] + reserve[1] > work.cells.shape[0]:
            return
        row = rows[k]
        if annealing is not None:
            row.temperature = annealing[TEMPERATURE]
            row.heat = annealing[HEAT]
        counts[STATUS] = train_episode(
            work, world, frame, hyper, reference, per_step, annealing, counts, row, training_agent, training_world
        )
        if failed(counts[STATUS]):
            return
        if hyper.rollouts > 0:
            row.score = score_policy(work, world, frame, hyper, counts, counter, rollout_agent, rollout_world)
            if failed(counts[STATUS]):
                return
        row.best = row.score
        if annealing is not None:
            update_annealing(work, kept, hyper, annealing, counts, row)
            row.best = annealing[BEST]
        row.cells = kept.used[1]
        row.training_steps = counts[TRAINING]
        row.selection_steps = counts[SELECTION]
        row.monitoring_steps = counts[MONITORING]
        counts[FINISHED] += 1


class QLearner(PartitionAgent):
    """Base class of the Q-learning agents; a subclass checks its own parameters and calls `_begin`."""

    needs_unit_rewards = True
    _row = TRAINING_ROW
    inherits_visits = True
    _fewest_rollouts = 1

    def __init__(self, problem: Any, *, scaling: float, rollouts: int, seed: int, **environment: Any) -> None:
        super().__init__(problem, seed=seed, **environment)
        self.scaling = check_number(scaling, "scaling", least=0.0, most=LARGEST_REWARD)
        self.rollouts = check_whole(rollouts, "rollouts", self._fewest_rollouts, MOST_ROLLOUTS)

    def _begin(self, annealing: tuple[float, float] | None = None) -> None:
        """Make the untrained partitions; without annealing the partition that is trained is the one that is kept.

        `annealing` is the temperature and heat to begin with.
        """
        horizon, problem = self.problem.horizon, self.problem
        known = {name: getattr(self, name) for name in Hyperparameters._fields if hasattr(self, name)}
        self._hyper = Hyperparameters(horizon, **known)  # once: arrays are made to fit them
        self._reference = np.zeros(problem.states.dimensions)
        steps = horizon if self.time_variant else 1
        self._work = Partition(problem.states, problem.actions, initial=float(horizon), steps=steps)
        self._kept = self._work if annealing is None else self._work.copy()
        self._heat = 1.0 if annealing is None else annealing[1]
        self._annealing = None if annealing is None else np.array([*annealing, -np.inf])
        self._frame = problem.frame(max(1, self.rollouts))

    @property
    def steps_per_iteration(self) -> int:
        """The most training and selection steps of an iteration; SPAQL's first also scores the untrained agent."""
        if self._annealing is None:
            return self.problem.horizon
        return self.problem.horizon * (1 + self.rollouts + (0 if self._counts[STARTED] else self.rollouts))

    @property
    def selection_score(self) -> float | None:
        """The score of the returned policy in rollouts; of SPAQL a running maximum, biased up; None without."""
        return float(self.history["best"][-1]) if len(self.history) and self.rollouts else None

    @property
    def bonus_scale(self) -> float | None:
        """The weight xi of the bonus xi / sqrt(v)."""
        return self.scaling

    @property
    def steps_to_split(self) -> int:
        """Steps of learning before cells can be a quarter of the space."""
        return PATH_TO_QUARTERS * self._work.steps

    def _policy(self) -> Partition:
        return self._kept

    def _partitions(self) -> dict[str, Partition]:
        return {"work": self._work} if self._kept is self._work else {"work": self._work, "kept": self._kept}

    def _state(self) -> dict[str, NDArray[Any]]:
        for partition in self._partitions().values():
            partition.sort()  # so that interruptions of learning leave no trace in the file
        return super()._state() | ({} if self._annealing is None else {"annealing": self._annealing})

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        super()._restore(arrays)
        if self._annealing is not None:
            if (self._kept.forest.used[:2] > self._work.forest.used[:2]).any():  # a reset copies it into the other
                raise ValueError("a kept partition that is larger than the one it was copied from")
            fill_array(self._annealing, arrays["annealing"], "annealing")
            temperature, heat, best = self._annealing
            inside = self._hyper.temperature_min <= temperature <= self._hyper.temperature_max
            if not (inside and 1.0 <= heat <= self._heat and best <= LARGEST_NUMBER):  # it begins at minus infinity
                raise ValueError("invalid temperature or heat")

    def _make_room(self, steps: int) -> None:
        self._work.reserve(self.problem.horizon)
        self._kept.ensure_room(len(self._work.forest.nodes), len(self._work.forest.cells))

    def _run(self, rows: NDArray[np.void], budget: int) -> None:
        forests, reserve = (self._work.forest, self._kept.forest), self._work.max_growth(self._hyper.horizon)
        rules = self._hyper, self._reference, True if self.time_variant else None, self._annealing
        learner = self._counts, self._streams
        iterate(*forests, self.problem.world, self._frame, *rules, *learner, rows, budget, reserve)
