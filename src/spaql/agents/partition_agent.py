"""Base of all agents that learn a partition: random streams, the kernel's iterations, their state in a file."""

import time
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from spaql.agents.base import UNLIMITED, Agent
from spaql.agents.callbacks import Watch
from spaql.agents.progress import announce_compilation
from spaql.agents.rollouts import STATUS, TRAINING
from spaql.agents.turns import take_turn
from spaql.errors import ParameterError
from spaql.partition.jit import make_records
from spaql.partition.kernels import Forest
from spaql.partition.partition import Cells, Partition, check_numbers, fill_array
from spaql.partition.rng import Purpose, stream
from spaql.partition.spaces import Floats
from spaql.problems.base import RAN
from spaql.validation import MOST_COUNTED, check_whole

_CHUNK_SECONDS = 0.1
_LARGEST_CHUNK = 1 << 16


class KeptPolicy(NamedTuple):
    """A policy of an agent, to be restored when it has learned more."""

    steps: int  # `num_timesteps` when it was the agent's
    policy: Any  # a copy of the partition; of Tessera the labelled tree


class PartitionAgent(Agent):
    """Base of agents that learn a partition, and must learn before they can predict.

    A subclass has its own kernel, which `_run` calls, and the partition `_work` that the kernel trains.  The kernel
    counts in `_counts` (see `spaql.agents.rollouts`) and draws from `_streams`: [agent and environment in training,
    agent and environment in rollouts].

    Parameters
    ----------
    problem, seed, **environment
        As for every agent; see `spaql.agents.Agent`.

    Examples
    --------
    >>> import spaql
    >>> from spaql.agents import PartitionAgent
    >>> isinstance(spaql.Tessera("oil"), PartitionAgent), isinstance(spaql.Random("oil"), PartitionAgent)
    (True, False)
    """

    _work: Partition
    _restored: KeptPolicy | None = None  # what is played instead of the learned policy, until more is learned

    def __init__(self, problem: Any, *, seed: int = 0, **environment: Any) -> None:
        super().__init__(problem, seed=seed, **environment)
        self._counts[TRAINING] = self.problem.warm_up_steps
        self._counts[STATUS] = RAN
        self._streams = np.stack([stream(self.seed, purpose) for purpose in list(Purpose)[:4]])

    @property
    def min_timesteps(self) -> int:
        """The least `total_timesteps` that `learn` accepts now."""
        return self.steps_per_iteration + (0 if self.iterations else self.problem.warm_up_steps)

    @property
    def steps_per_iteration(self) -> int:
        """The most training and selection steps that one iteration can take."""
        return self.problem.horizon

    def _make_room(self, steps: int) -> None:
        """Grow the arrays so that at least one iteration fits; at most `steps` steps are to come."""
        raise NotImplementedError

    def _run(self, rows: NDArray[np.void], budget: int) -> None:
        """Call the kernel for up to `len(rows)` iterations, as many as room and budget allow, to fill their rows."""
        raise NotImplementedError

    def _iterate(self, rows: NDArray[np.void], budget: int) -> None:
        """Run the kernel; raise where the problem reports a fault."""
        if len(rows):
            self._restored = None
        with self._train(), self.problem.defer_interrupts():
            self._counts[STATUS] = RAN
            self._run(rows, budget)
        self.problem.check(int(self._counts[STATUS]), f"in iteration {self.iterations + 1}")

    def prepare(self, progress_bar: bool | None = None) -> Self:
        """Compile or load the agent's kernels now rather than in the first `learn`.

        Parameters
        ----------
        progress_bar
            Whether to say that a kernel is being compiled; None does so on a terminal and in a notebook.

        Returns
        -------
        Agent
            This agent.
        """
        with take_turn(self, "prepare"), announce_compilation(type(self).__name__, progress_bar):
            self._make_room(0)
            self._iterate(make_records(0, self._row), UNLIMITED)
        return self

    def _plan(self, limit: int, steps: int) -> tuple[int, int]:
        """Return the most iterations to run and the step count not to pass."""
        if limit < UNLIMITED:
            return limit, UNLIMITED
        before = self.problem.warm_up_steps if self.iterations == 0 else 0  # the first call pays for them
        if steps < before + self.steps_per_iteration:
            aside = f", after a warm-up of {before}" if before else ""
            guessed = getattr(self.problem, "unlimited", False)
            shorter = ", or a shorter horizon=, as the environment has no limit of its own" if guessed else ""
            raise ParameterError(
                f"total_timesteps: {steps} is too few; one iteration takes up to {self.steps_per_iteration} steps"
                f"{aside}; give at least {before + self.steps_per_iteration}{shorter}"
            )
        return UNLIMITED, self.num_timesteps + steps - before

    def _count_planned(self, limit: int, steps: int) -> int:
        limit, budget = self._plan(limit, steps)
        return min(limit, (budget - self.num_timesteps) // self.steps_per_iteration) * self.problem.horizon

    def _learn(self, limit: int, steps: int, watch: Watch, progress_bar: bool | None) -> None:
        """Run iterations and append their rows to the history, in chunks of a fraction of a second.

        So the progress bar moves and Ctrl-C is heard; all iterations that finished before it stay in the agent.  A
        chunk ends where a callback is due; the kernel does not notice, as an iteration is never interrupted.
        """
        limit, budget = self._plan(limit, steps)
        self.prepare(progress_bar)
        by_iteration = limit < UNLIMITED
        total, unit = (limit, "it") if by_iteration else (budget - self.num_timesteps, "steps")
        chunk, done = 1, 0
        with self._show_bar(total, unit, progress_bar) as bar, watch.running():
            while done < limit:
                self._make_room(min((limit - done) * self.steps_per_iteration, budget - self.num_timesteps))
                rows = self._next_rows(int(min(chunk, limit - done)))
                before, taken, start = self.iterations, self.num_timesteps, time.perf_counter()
                self._iterate(rows, watch.pause(budget, taken + self.steps_per_iteration))
                elapsed, ran = time.perf_counter() - start, self.iterations - before
                done += ran
                bar.update(ran if by_iteration else self.num_timesteps - taken)
                over = budget - self.num_timesteps < self.steps_per_iteration
                goes_on = watch.call(budget if over else self.num_timesteps) if ran else True
                if over or not goes_on:
                    break
                if ran == len(rows):
                    chunk = min(_LARGEST_CHUNK, max(1, int(chunk * min(16.0, _CHUNK_SECONDS / max(elapsed, 1e-9)))))

    @property
    def restored_from(self) -> int | None:
        """The `num_timesteps` of the policy that `Evaluate(restore_best=True)` restored; None without one."""
        return None if self._restored is None else self._restored.steps

    def _keep_policy(self) -> KeptPolicy:
        """Return the policy as it is now, for `_restore_policy`."""
        return KeptPolicy(self.num_timesteps, self._read_policy().copy())

    def _restore_policy(self, kept: KeptPolicy) -> None:
        """Play an earlier policy until more is learned; learning goes on from what was learned, not from it."""
        self._restored = kept

    def _read_policy(self) -> Partition:
        return self._policy() if self._restored is None else self._restored.policy

    def cells(self) -> Cells:
        """Return the policy's cells in the problem's units, read-only; see `Agent.cells`.

        Returns
        -------
        Cells
            Arrays with a row for each cell.
        """
        return self._read_policy().view()

    def count_cells(self) -> int:
        """Return the number of cells of the policy.

        Returns
        -------
        int
            Over all time steps.
        """
        return len(self.cells())

    def _played(self) -> tuple[Forest, None]:
        return self._read_policy().forest, None

    def _boxes(self, points: Floats, steps: NDArray[np.int64]) -> Floats:
        """Unit action boxes of the greedy cells, `[n, 2, actions]`."""
        policy = self._read_policy()
        boxes: Floats = policy.forest.boxes[policy.greedy(points, steps)]
        return boxes

    def _act(self, points: Floats, steps: NDArray[np.int64], deterministic: bool) -> Floats:
        boxes = self._boxes(points, steps)
        draws = 0.5 if deterministic else self._prediction.random((len(points), boxes.shape[2]))
        return self.problem.actions.from_unit(boxes[:, 0] + draws * (boxes[:, 1] - boxes[:, 0]))

    def greedy_boxes(self, observations: Any, step: int = 0) -> tuple[Floats, Floats]:
        """Return the action box of the greedy cell of each observation: low and high, each `[n, actions]`.

        Parameters
        ----------
        observations
            One, or many, as `predict` takes them.
        step
            Time step of a policy that changes with it.

        Returns
        -------
        low : ndarray
            Lower ends of the boxes, `[n, actions]`.
        high : ndarray
            Upper ends.
        """
        self._require_training()
        points, _ = self.problem.encode(observations)
        at = check_whole(step, "step", 0, self.problem.horizon - 1 if self.time_variant else None)
        boxes = self._boxes(points, self._steps(len(points), np.full(len(points), at), None))
        return self.problem.actions.from_unit(boxes[:, 0]), self.problem.actions.from_unit(boxes[:, 1])

    def _partitions(self) -> dict[str, Partition]:
        """Return the partitions that make up the agent's state, by name."""
        return {"work": self._work}

    def _state(self) -> dict[str, NDArray[Any]]:
        arrays = super()._state() | {"counts": self._counts, "streams": self._streams}
        for name, partition in self._partitions().items():
            arrays |= {f"{name}-{part}": array for part, array in partition.arrays().items()}
        if self._restored is not None:
            arrays["restored-steps"] = np.array([self._restored.steps])
            arrays |= {f"restored-{part}": array for part, array in self._restored_arrays().items()}
        return arrays

    def _restored_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of the restored policy."""
        return self._read_policy().arrays()

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        super()._restore(arrays)
        self._restore_partitions(arrays)
        self._restore_counts(arrays)
        fill_array(self._streams, arrays["streams"], "streams")
        if not self._streams.any(axis=-1).all():
            raise ValueError("a random stream of zeros")
        self._check_history()
        self._restored = None
        if (steps := self._read_restored_steps(arrays)) is not None:
            self._restored = KeptPolicy(steps, self._read_restored(select_prefix(arrays, "restored-")))

    def _restore_counts(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        fill_array(self._counts, arrays["counts"], "counts")
        if not ((self._counts >= 0) & (self._counts <= MOST_COUNTED)).all():
            raise ValueError("impossible counters")

    def _check_history(self) -> None:
        """Raise a ValueError where the history is impossible, or contradicts the counters."""
        history = self._rows
        names = ("training_steps", "selection_steps", "monitoring_steps")
        recorded = sum(int(history[name][-1]) for name in names) if len(history) else 0
        if self.iterations != len(history) or recorded > int(self._counts[:STATUS].sum()):
            raise ValueError("counters that contradict the history")
        for name in history.dtype.names or ():
            column = history[name]
            if column.dtype.kind == "f":
                check_numbers(column, f"history: {name}")
            elif not ((column >= 0) & (column <= MOST_COUNTED)).all():
                raise ValueError(f"invalid history: {name}")
        if any((np.diff(history[name]) < 0).any() for name in names):
            raise ValueError("a history of steps that were taken back")

    def _read_restored_steps(self, arrays: Mapping[str, NDArray[Any]]) -> int | None:
        """Return when the restored policy of a file was the agent's; None where it has none."""
        if "restored-steps" not in arrays:
            return None
        at = np.zeros(1, np.int64)
        fill_array(at, arrays["restored-steps"], "restored-steps")
        if not 0 < at[0] <= self.num_timesteps:
            raise ValueError("a restored policy of another time")
        return int(at[0])

    def _policy_state(self) -> dict[str, NDArray[Any]]:
        self._require_training()
        arrays = {"counts": self._counts, **self._policy_arrays()}
        return arrays if self._restored is None else arrays | {"restored-steps": np.array([self._restored.steps])}

    def _policy_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of the policy that is played."""
        policy = self._read_policy().copy()
        policy.sort()  # so that interruptions of learning leave no trace in the file
        return {f"policy-{part}": array for part, array in policy.arrays().items()}

    def _restore_policy_state(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._restore_counts(arrays)
        if not self.iterations:
            raise ValueError("a policy that was not learned")
        self._restore_policy_arrays(arrays)
        self._restored = None
        if (steps := self._read_restored_steps(arrays)) is not None:
            self._restored = self._keep_policy()._replace(steps=steps)

    def _restore_policy_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over what `_policy_arrays` returned."""
        self._policy().restore(select_prefix(arrays, "policy-"))

    def _read_restored(self, arrays: Mapping[str, NDArray[Any]]) -> Any:
        """Return the restored policy of a file."""
        policy = self._policy().copy()
        policy.restore(arrays)
        return policy

    def _restore_partitions(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        for name, partition in self._partitions().items():
            partition.restore(select_prefix(arrays, f"{name}-"))


def select_prefix(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    """Return the arrays whose names begin with a prefix, by the rest of their names."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def count_cells(agent: Agent) -> int | None:
    """Return the number of cells of an agent's policy; None for an agent without a partition."""
    return agent.count_cells() if isinstance(agent, PartitionAgent) else None
