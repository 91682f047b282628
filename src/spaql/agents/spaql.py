"""Single-partition adaptive Q-learning, exactly as published (algorithms 1 and 2 of the paper).

One partition P' is trained; P keeps the best one found.  In every iteration k one episode of H steps is played with

    B_sel   ~  exp(Q(B) / (tau max Q)) over RELEVANT(x)          (Boltzmann sample)
    a       ~  uniform inside B_sel
    n(B_sel) <- v = n(B_sel) + 1,      alpha_v = (H + 1) / (H + v)                                (eq. 7)
    Q(B_sel) <- (1 - alpha_v) Q(B_sel) + alpha_v (r + V(x') + xi / sqrt(v))                       (eq. 6, 9)
    V(x')   =  min(H, max Q over RELEVANT(x')),  at the last step too                             (eq. 8)
    split B_sel when n(B_sel) >= (d_max / r(B_sel))^2

and then the mean return of N greedy rollouts decides: not worse than the best so far, P' becomes P, tau returns to
tau_min and u becomes u^d; else tau rises to min(tau_max, u tau) once something has split since, and after splits in
two iterations P' goes back to P and tau to tau_min.  Where the text leaves a choice, `docs/paper.md` says which
reading this is and why.

`SPAQLTS` is the same with a *terminal state* to be reached and held ("Control with adaptive Q-learning", by the same
authors): the value of what follows counts the less the farther the agent is from it,

    target = r + V(x') exp(-(|x - x_ref| / lambda)^2) + xi / sqrt(v),

with x the state in which the action is taken, scaled to the unit cube, and |.| the Euclidean length.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spaql.agents.base import MOST_ROLLOUTS, PATH_TO_QUARTERS, Trained, check_counts, within
from spaql.agents.registry import register
from spaql.agents.rollouts import advance_all, begin_all, rollouts
from spaql.errors import ParameterError
from spaql.partition.jit import borrow, kernel
from spaql.partition.kernels import best, lend, play, sample, snapshot, update
from spaql.partition.partition import Partition, fill
from spaql.partition.rng import Purpose, stream
from spaql.problems.base import LARGEST_REWARD, RAN, SOME_ENDED, failed, lend_frame, lend_world
from spaql.validation import check_number, check_whole


class Rules(NamedTuple):
    """Constants of a run."""

    horizon: int  # H
    rollouts: int  # N
    scaling: float  # xi
    temperature_min: float  # tau_min
    temperature_max: float  # tau_max
    heat_decay: float  # d
    patience: int  # iterations with splits before a reset
    radius: float  # lambda of a terminal state, 0 where there is none


class Mood(NamedTuple):
    """What changes from iteration to iteration, as arrays so that kernels can write to them."""

    numbers: NDArray[np.float64]  # [3] temperature tau, heat u, best score
    counts: NDArray[np.int64]  # [6] see the names below


TEMPERATURE, HEAT, BEST = 0, 1, 2
# iterations with splits since the last change; environment steps; what the problem reported; iterations finished
SPLITS, TRAINING, SELECTION, STATUS, STARTED, FINISHED = 0, 1, 2, 3, 4, 5


@kernel(inline=True)
def closeness(points, reference, radius):
    """exp(-(|x - x_ref| / lambda)^2) for the state in the first row."""
    distance = 0.0
    for d in range(reference.shape[0]):
        distance += (points[0, d] - reference[d]) ** 2
    return np.exp(-distance / (radius * radius))


@kernel(inline=True)
def train_episode(f, world, frame, rules, reference, temperature, counts, row, agent_random, world_random):
    """One training episode (algorithm 2, lines 6-16); fills the row's V range and splits; the problem's status."""
    cap = float(rules.horizon)
    status = begin_all(world, frame, 0, 1, world_random)
    low = np.inf
    high = -np.inf
    splits = 0
    for _ in range(rules.horizon):
        if status != RAN:  # a fault: its state must not be looked up; or the episode's end
            break
        cell = sample(f, 0, frame.points, 0, temperature, agent_random)
        play(f, cell, agent_random, frame.actions, 0)
        weight = closeness(frame.points, reference, rules.radius) if rules.radius > 0.0 else 1.0
        status = advance_all(world, frame, 1, world_random)
        counts[TRAINING] += 1
        if failed(status):
            break
        value = 0.0
        if not status & SOME_ENDED:
            value = weight * min(cap, f.cells[best(f, 0, frame.points, 0)].q)
        low = min(low, value)
        high = max(high, value)
        splits += update(f, cell, frame.outcomes[0, 0] + value, cap, rules.scaling)
    row.value_low = low
    row.value_high = high
    row.splits = splits
    return status


@kernel(inline=True)
def score(f, world, frame, rules, counts, agent_random, world_random):
    """Mean return of N greedy rollouts (algorithm 1, EVALUATE AGENT)."""
    count = rules.rollouts
    status, steps = rollouts(f, world, frame, rules.horizon, count, False, agent_random, world_random)
    counts[SELECTION] += steps
    counts[STATUS] = status
    total = 0.0
    for i in range(count):
        total += frame.returns[i]
    return total / count


@kernel(inline=True)
def adapt(work, kept, rules, mood, result, row):
    """Keep, heat or reset after an iteration's score (algorithm 2, lines 18-26)."""
    numbers, counts = mood.numbers, mood.counts
    if row.splits > 0:
        counts[SPLITS] += 1
    if result >= numbers[BEST]:
        numbers[BEST] = result
        snapshot(work, kept)
        numbers[TEMPERATURE] = rules.temperature_min
        numbers[HEAT] = numbers[HEAT] ** rules.heat_decay
        counts[SPLITS] = 0
    elif counts[SPLITS] >= rules.patience:
        snapshot(kept, work)
        numbers[TEMPERATURE] = rules.temperature_min
        counts[SPLITS] = 0
        row.resets = 1
    elif counts[SPLITS] > 0:
        numbers[TEMPERATURE] = min(rules.temperature_max, numbers[TEMPERATURE] * numbers[HEAT])


@kernel()
def iterate(work, kept, world, frame, rules, reference, mood, streams, rows, budget, reserve):
    """Up to `len(rows)` iterations of algorithm 2, counted in `counts[FINISHED]`.

    Stops early where an iteration might pass the step budget, where the arrays might run out of room (`reserve`: the
    nodes and cells that one iteration can add), or at a fault of the problem, which `counts[STATUS]` then tells.
    """
    work, kept, world, frame = lend(work), lend(kept), lend_world(world), lend_frame(frame)
    mood = Mood(borrow(mood.numbers), borrow(mood.counts))
    numbers, counts = mood.numbers, mood.counts
    training_agent, training_world = borrow(streams[0]), borrow(streams[1])
    selection_agent, selection_world = borrow(streams[2]), borrow(streams[3])
    most = rules.horizon * (1 + rules.rollouts)
    if counts[STARTED] == 0 and rows.shape[0] > 0:
        first = score(work, world, frame, rules, counts, selection_agent, selection_world)
        if failed(counts[STATUS]):
            return
        numbers[BEST] = first
        snapshot(work, kept)
        counts[STARTED] = 1
    for k in range(rows.shape[0]):
        if failed(counts[STATUS]) or counts[TRAINING] + counts[SELECTION] > budget - most:
            return
        if work.used[0] + reserve[0] > work.nodes.shape[0] or work.used[1] + reserve[1] > work.cells.shape[0]:
            return
        row = rows[k]
        row.temperature = numbers[TEMPERATURE]
        row.heat = numbers[HEAT]
        status = train_episode(
            work, world, frame, rules, reference, numbers[TEMPERATURE], counts, row, training_agent, training_world
        )
        if failed(status):
            counts[STATUS] = status
            return
        row.score = score(work, world, frame, rules, counts, selection_agent, selection_world)
        if failed(counts[STATUS]):
            return
        adapt(work, kept, rules, mood, row.score, row)
        row.best = numbers[BEST]
        row.arms = kept.used[1]
        row.training_steps = counts[TRAINING]
        row.selection_steps = counts[SELECTION]
        counts[FINISHED] += 1


@register(
    "spaql",
    label="SPAQL",
    colour="#009E73",
    reference="Araujo, Figueiredo, Ayala Botto: Single-partition adaptive Q-learning (2020)",
)
class SPAQL(Trained):
    """Single-partition adaptive Q-learning as published (Araujo, Figueiredo, Ayala Botto, 2020); `SPAQL.published`.

    Parameters
    ----------
    problem
        What to learn; see `spaql.agents.base.Agent`.
    scaling
        xi, the weight of the exploration bonus xi / sqrt(v); at least 0.
    rollouts
        N, greedy rollouts by which each iteration is judged.
    temperature_min, temperature_max
        tau_min and tau_max, the range of the Boltzmann temperature.
    heat, heat_decay
        u > 1, by which the temperature rises, and d in (0, 1], by whose power u itself falls at every improvement.
    splits_before_reset
        Iterations with splits and no improvement after which the agent goes back to its best.
    seed
        Of everything random about the agent.
    **environment
        `bounds`, `periodic`, `horizon`, `warm_up` of a Gymnasium environment; see `spaql.GymnasiumProblem`.

    Examples
    --------
    >>> import spaql
    >>> agent = spaql.SPAQL(spaql.problems.oil(survey="quadratic", sharpness=1), seed=0).learn(iterations=200)
    >>> agent.evaluate(episodes=100).mean > 3.5
    True
    """

    needs_unit_rewards = True
    caps_value = True

    def __init__(
        self,
        problem: Any,
        *,
        scaling: float = 0.5,
        rollouts: int = 20,
        temperature_min: float = 0.01,
        temperature_max: float = 10.0,
        heat: float = 2.0,
        heat_decay: float = 0.8,
        splits_before_reset: int = 2,
        seed: int = 0,
        **environment: Any,
    ) -> None:
        super().__init__(problem, seed=seed, **environment)
        problem = self.problem
        self.scaling = check_number(scaling, "scaling", least=0.0, most=LARGEST_REWARD)
        self.rollouts = check_whole(rollouts, "rollouts", 1, MOST_ROLLOUTS)
        self.temperature_min = check_number(temperature_min, "temperature_min", least=0.0, above=True)
        self.temperature_max = check_number(temperature_max, "temperature_max", least=self.temperature_min)
        self.heat = check_number(heat, "heat", least=1.0, above=True)
        self.heat_decay = check_number(heat_decay, "heat_decay", least=0.0, most=1.0, above=True)
        self.splits_before_reset = check_whole(splits_before_reset, "splits_before_reset", 1)
        horizon = problem.horizon
        self._rules = Rules(
            horizon=horizon,
            rollouts=self.rollouts,
            scaling=self.scaling,
            temperature_min=self.temperature_min,
            temperature_max=self.temperature_max,
            heat_decay=self.heat_decay,
            patience=self.splits_before_reset,
            radius=0.0,
        )
        self._reference = np.zeros(problem.states.dimensions)
        self._work = Partition(problem.states, problem.actions, initial=float(horizon))
        self._kept = self._work.copy()
        self._mood = Mood(
            np.array([self.temperature_min, self.heat, -np.inf]), np.array([0, problem.warm_up_steps, 0, RAN, 0, 0])
        )
        self._streams = np.stack([stream(self.seed, purpose) for purpose in list(Purpose)[:4]])
        self._frame = problem.frame(self.rollouts)

    @property
    def training_steps(self) -> int:
        """Environment steps spent on learning."""
        return int(self._mood.counts[TRAINING])

    @property
    def selection_steps(self) -> int:
        """Environment steps spent on rollouts that chose which partition to keep."""
        return int(self._mood.counts[SELECTION])

    @property
    def finished(self) -> int:
        """Iterations that the kernel has finished."""
        return int(self._mood.counts[FINISHED])

    @property
    def steps_per_iteration(self) -> int:
        """The most steps one iteration can take; the first also scores the untrained agent."""
        first = 0 if self._mood.counts[STARTED] else self.rollouts
        return self.problem.horizon * (1 + self.rollouts + first)

    @property
    def selection_score(self) -> float | None:
        """The running maximum by which the returned partition was kept: biased up."""
        return float(self._mood.numbers[BEST]) if self.iterations else None

    def _policy(self) -> Partition:
        return self._kept

    def _state(self) -> dict[str, NDArray[Any]]:
        """Both partitions, temperature and heat, counters, streams, history."""
        partitions = {"work": self._work.arrays(), "kept": self._kept.arrays()}
        arrays = {f"{which}-{name}": array for which, parts in partitions.items() for name, array in parts.items()}
        mood = {"mood-numbers": self._mood.numbers, "mood-counts": self._mood.counts}
        return super()._state() | arrays | mood | {"streams": self._streams}

    def _restore(self, arrays: Mapping[str, NDArray[Any]], numbers: Mapping[str, Any]) -> None:
        """Become what `state` told; see `Agent.restore`."""
        super()._restore(arrays, numbers)
        self._work.restore(within(arrays, "work-"))
        self._kept.restore(within(arrays, "kept-"))
        fill(self._mood.numbers, arrays["mood-numbers"], "mood-numbers")
        fill(self._mood.counts, arrays["mood-counts"], "mood-counts")
        fill(self._streams, arrays["streams"], "streams")
        if not (self._mood.numbers[:BEST] > 0.0).all() or not np.isfinite(self._mood.numbers[:BEST]).all():
            raise ValueError("a temperature that is none")
        check_counts(self.finished, self.history, [self.training_steps, self.selection_steps], self._streams)

    @property
    def steps_to_split(self) -> int:
        """A cell of depth k splits at 4^k visits."""
        return PATH_TO_QUARTERS

    def make_room(self, steps: int) -> None:
        """Grow both partitions so that an iteration fits."""
        self._work.reserve(self.problem.horizon)
        self._kept.match(self._work)

    def iterate(self, rows: NDArray[np.void], budget: int) -> None:
        """Run the kernel; see `spaql.agents.training.Learner`."""
        self._mood.counts[STATUS] = RAN
        with self.problem.playing():
            iterate(
                self._work.forest,
                self._kept.forest,
                self.problem.world,
                self._frame,
                self._rules,
                self._reference,
                self._mood,
                self._streams,
                rows,
                budget,
                self._work.growth(self.problem.horizon),
            )
        self.problem.check(int(self._mood.counts[STATUS]), f"in iteration {self.finished + 1}")


@register(
    "spaql-ts",
    label="SPAQL-TS",
    colour="#CC79A7",
    reference="Araujo, Figueiredo, Ayala Botto: Control with adaptive Q-learning (2020)",
    example={"reference": [0.5], "radius": 1.0},
)
class SPAQLTS(SPAQL):
    """SPAQL as published with a terminal state to be reached and held; see the module's docstring.

    Parameters
    ----------
    problem
        What to learn; see `spaql.agents.base.Agent`.
    reference
        x_ref, the state to hold, `[states]` in the problem's units.
    radius
        lambda > 0: at this distance from it, in the unit cube, what follows counts 1/e.
    **parameters
        Those of `SPAQL`.

    Examples
    --------
    >>> import spaql
    >>> agent = spaql.SPAQLTS("cartpole", reference=[0, 0, 0, 0], radius=0.5, rollouts=5).learn(iterations=20)
    >>> agent.iterations
    20
    """

    def __init__(
        self,
        problem: Any,
        *,
        reference: ArrayLike,
        radius: float,
        scaling: float = 0.5,
        rollouts: int = 20,
        temperature_min: float = 0.01,
        temperature_max: float = 10.0,
        heat: float = 2.0,
        heat_decay: float = 0.8,
        splits_before_reset: int = 2,
        seed: int = 0,
        **environment: Any,
    ) -> None:
        super().__init__(
            problem,
            scaling=scaling,
            rollouts=rollouts,
            temperature_min=temperature_min,
            temperature_max=temperature_max,
            heat=heat,
            heat_decay=heat_decay,
            splits_before_reset=splits_before_reset,
            seed=seed,
            **environment,
        )
        states = self.problem.states
        rows, single = states.rows(reference, "reference")
        if not single:
            raise ParameterError(f"reference: expected one state of {states.dimensions} numbers, got {reference!r:.80}")
        self.reference = rows[0].tolist()
        self.radius = check_number(radius, "radius", least=0.0, above=True, most=1e100)
        self._reference = states.to_unit(rows)[0]
        self._rules = self._rules._replace(radius=self.radius)
