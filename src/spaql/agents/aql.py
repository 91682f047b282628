"""Adaptive Q-learning (Sinclair, Banerjee and Yu, 2019): one partition per time step, argmax, optimism.

At time step h of an episode the cell of largest Q in partition h is played, uniformly inside, and

    Q_h(B) <- (1 - alpha_v) Q_h(B) + alpha_v (r + V_{h+1}(x') + xi / sqrt(v)),    alpha_v = (H + 1) / (H + v)
    V_h(x)  = min(H, max Q_h over RELEVANT_h(x)),    V_{H+1} = 0

with the same splitting rule as SPAQL.  The agent returned is the current one.  As in the paper, N greedy rollouts
after every episode draw the learning curve; the agent never sees them, so they count as monitoring, not selection.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spaql.agents.base import MOST_ROLLOUTS, PATH_TO_QUARTERS, Trained, check_counts, within
from spaql.agents.registry import register
from spaql.agents.rollouts import advance_all, begin_all, rollouts
from spaql.errors import ParameterError
from spaql.partition.jit import borrow, kernel
from spaql.partition.kernels import best, lend, play, update
from spaql.partition.partition import Partition, fill
from spaql.partition.rng import Purpose, stream
from spaql.problems.base import LARGEST_REWARD, RAN, SOME_ENDED, failed, lend_frame, lend_world
from spaql.validation import check_number, check_whole

TRAINING, MONITORING, STATUS, FINISHED = 0, 1, 2, 3
_LONGEST = 10_000


class Rules(NamedTuple):
    """Constants of a run."""

    horizon: int  # H
    rollouts: int  # N
    scaling: float  # xi


@kernel(inline=True)
def train_episode(f, world, frame, rules, counts, row, agent_random, world_random):
    """One training episode; fills the row's V range, splits and return; the problem's status."""
    cap = float(rules.horizon)
    status = begin_all(world, frame, 0, 1, world_random)
    low = np.inf
    high = -np.inf
    splits = 0
    total = 0.0
    following = 0
    for h in range(rules.horizon):
        if status != RAN:  # a fault: its state must not be looked up; or the episode's end
            break
        cell = following if h else best(f, 0, frame.points, 0)
        play(f, cell, agent_random, frame.actions, 0)
        status = advance_all(world, frame, 1, world_random)
        counts[TRAINING] += 1
        if failed(status):
            break
        total += frame.outcomes[0, 0]
        value = 0.0
        if h + 1 < rules.horizon and not status & SOME_ENDED:
            # The greedy cell of the next step: partition h + 1 does not change before it is played.
            following = best(f, h + 1, frame.points, 0)
            value = min(cap, f.cells[following].q)
        low = min(low, value)
        high = max(high, value)
        splits += update(f, cell, frame.outcomes[0, 0] + value, cap, rules.scaling)
    row.value_low = low
    row.value_high = high
    row.splits = splits
    row.score = total
    return status


@kernel()
def iterate(f, world, frame, rules, counts, streams, rows, budget, reserve):
    """Up to `len(rows)` episodes, counted in `counts[FINISHED]`.  Stops as `spaql.agents.tessera.agent.iterate` does."""
    f, world, frame, counts = lend(f), lend_world(world), lend_frame(frame), borrow(counts)
    training_agent, training_world = borrow(streams[0]), borrow(streams[1])
    monitoring_agent, monitoring_world = borrow(streams[2]), borrow(streams[3])
    for k in range(rows.shape[0]):
        if counts[TRAINING] > budget - rules.horizon:
            return
        if f.used[0] + reserve[0] > f.nodes.shape[0] or f.used[1] + reserve[1] > f.cells.shape[0]:
            return
        row = rows[k]
        status = train_episode(f, world, frame, rules, counts, row, training_agent, training_world)
        if not failed(status) and rules.rollouts > 0:
            count = rules.rollouts
            status, steps = rollouts(f, world, frame, rules.horizon, count, False, monitoring_agent, monitoring_world)
            counts[MONITORING] += steps
            total = 0.0
            for i in range(count):
                total += frame.returns[i]
            row.score = total / count
        counts[STATUS] = status
        if failed(status):
            return
        row.best = row.score
        row.arms = f.used[1]
        row.training_steps = counts[TRAINING]
        row.monitoring_steps = counts[MONITORING]
        counts[FINISHED] += 1


@register(
    "aql",
    label="AQL",
    colour="#D55E00",
    reference="Sinclair, Banerjee, Yu: Adaptive discretization for episodic reinforcement learning (2019)",
)
class AQL(Trained):
    """Adaptive Q-learning: one partition for each time step.

    Parameters
    ----------
    problem
        What to learn; see `spaql.agents.base.Agent`.
    scaling
        xi, the weight of the exploration bonus xi / sqrt(v); at least 0.
    rollouts
        N, greedy rollouts after every episode that draw the learning curve and change nothing; with 0 the curve
        is the training episodes' own returns.
    seed
        Of everything random about the agent.
    **environment
        `bounds`, `periodic`, `horizon`, `warm_up` of a Gymnasium environment; see `spaql.GymnasiumProblem`.

    Examples
    --------
    >>> import spaql
    >>> agent = spaql.AQL(spaql.problems.oil(survey="quadratic", sharpness=1), seed=0).learn(iterations=500)
    >>> agent.evaluate(episodes=100).mean > 3.5
    True
    """

    time_variant = True
    needs_unit_rewards = True

    def __init__(
        self, problem: Any, *, scaling: float = 0.5, rollouts: int = 20, seed: int = 0, **environment: Any
    ) -> None:
        super().__init__(problem, seed=seed, **environment)
        problem = self.problem
        self.scaling = check_number(scaling, "scaling", least=0.0, most=LARGEST_REWARD)
        self.rollouts = check_whole(rollouts, "rollouts", 0, MOST_ROLLOUTS)
        if problem.horizon > _LONGEST:
            raise ParameterError(
                f"horizon: AQL keeps a partition per time step, at most {_LONGEST}, got {problem.horizon}"
            )
        self._rules = Rules(problem.horizon, self.rollouts, self.scaling)
        self._forest = Partition(problem.states, problem.actions, initial=float(problem.horizon), steps=problem.horizon)
        self._counts = np.array([problem.warm_up_steps, 0, RAN, 0])
        self._streams = np.stack([stream(self.seed, purpose) for purpose in list(Purpose)[:4]])
        self._frame = problem.frame(max(1, self.rollouts))

    @property
    def training_steps(self) -> int:
        """Environment steps spent on learning."""
        return int(self._counts[TRAINING])

    @property
    def monitoring_steps(self) -> int:
        """Environment steps spent on the learning curve only."""
        return int(self._counts[MONITORING])

    @property
    def finished(self) -> int:
        """Iterations that the kernel has finished."""
        return int(self._counts[FINISHED])

    @property
    def steps_per_iteration(self) -> int:
        """The most steps that one episode can take."""
        return self.problem.horizon

    @property
    def selection_score(self) -> float | None:
        """The last monitored score of the current agent, or None; nothing was selected by it."""
        return float(self.history["score"][-1]) if self.iterations and self.rollouts else None

    def _policy(self) -> Partition:
        return self._forest

    def _state(self) -> dict[str, NDArray[Any]]:
        """The partitions, counters, streams, history."""
        arrays = {f"forest-{name}": array for name, array in self._forest.arrays().items()}
        return super()._state() | arrays | {"counts": self._counts, "streams": self._streams}

    def _restore(self, arrays: Mapping[str, NDArray[Any]], numbers: Mapping[str, Any]) -> None:
        """Become what `state` told; see `Agent.restore`."""
        super()._restore(arrays, numbers)
        self._forest.restore(within(arrays, "forest-"))
        fill(self._counts, arrays["counts"], "counts")
        fill(self._streams, arrays["streams"], "streams")
        check_counts(self.finished, self.history, [self.training_steps, self.monitoring_steps], self._streams)

    @property
    def steps_to_split(self) -> int:
        """As many visits as for one partition, in each of H."""
        return PATH_TO_QUARTERS * self.problem.horizon

    def make_room(self, steps: int) -> None:
        """Grow the forest so that an episode fits."""
        self._forest.reserve(self.problem.horizon)

    def iterate(self, rows: NDArray[np.void], budget: int) -> None:
        """Run the kernel; see `spaql.agents.training.Learner`."""
        self._counts[STATUS] = RAN
        with self.problem.playing():
            iterate(
                self._forest.forest,
                self.problem.world,
                self._frame,
                self._rules,
                self._counts,
                self._streams,
                rows,
                budget,
                self._forest.growth(self.problem.horizon),
            )
        self.problem.check(int(self._counts[STATUS]), f"in iteration {self.finished + 1}")
