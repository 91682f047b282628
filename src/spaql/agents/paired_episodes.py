"""Episodes of several policies on the same random numbers, for differences of their returns.

Episode k begins and goes on with a random stream of its own, whatever the policy plays in it and in the episodes
before.  So the returns of two policies in episode k are a pair.  Policies are functions of the observed numbers as the
environment gives them, before any clipping; environments move one by one, through the functions that kernels call.
"""

import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from spaql.gym.problem import GymnasiumProblem
from spaql.partition.rng import stream
from spaql.partition.spaces import Floats
from spaql.problems.base import Frame, Playable, Problem, failed

_SEEDS = 2**31  # some environments take no larger ones
_TOGETHER = 1000  # episodes played side by side
_WHERE = "while policies were compared"
_KEY = 1  # tells these streams from others of the same purpose


class Chooser(Protocol):
    """A policy to play."""

    def choose(self, numbers: Floats) -> Floats:
        """Return actions `[n, k]`, in the unit cube or numbers of discrete ones, for observed numbers `[n, states]`."""


class Played(NamedTuple):
    """Episodes of one policy."""

    returns: Floats  # [episodes]
    numbers: Floats  # [steps, states] that were observed before each step
    times: NDArray[np.int64]  # [steps]


class PairedEpisodes:
    """Episodes that many policies can play, each with random numbers of its own.

    Parameters
    ----------
    problem
        As `Playable.for_evaluation` returned it.
    seed, purpose
        Of the random streams; see `spaql.partition.rng`.
    """

    def __init__(self, problem: Playable, seed: int, purpose: int) -> None:
        self.problem, self.seed, self.purpose = problem, seed, purpose
        self.steps = 0  #: environment steps that were played
        world = problem.world
        self._begin, self._advance = _to_function(world.begin, 5), _to_function(world.advance, 7)

    def play(self, policy: Chooser, first: int, count: int) -> Played:
        """Play episodes `first` to `first` + `count` - 1."""
        width = min(count, self.problem.max_copies, _TOGETHER)
        sizes = [(at, min(width, first + count - at)) for at in range(first, first + count, width)]
        parts = [self._play_together(policy, at, size) for at, size in sizes]
        self.steps += sum(len(part.times) for part in parts)
        return Played._make(np.concatenate(column) for column in zip(*parts, strict=True))

    def _play_together(self, policy: Chooser, first: int, count: int) -> Played:
        problem, frame = self.problem, self.problem.frame(count)
        streams = np.stack([stream(self.seed, self.purpose, _KEY, first + k) for k in range(count)])
        numbers = np.empty((count, problem.states.dimensions))
        rows = [
            tuple(array.ctypes.data + k * array.strides[0] for array in (*frame[:4], streams)) for k in range(count)
        ]
        read, constants = _make_reader(problem, frame, numbers), problem.world.constants.ctypes.data
        outcomes, total, seen, times = frame.outcomes, np.zeros(count), [], []
        with problem.defer_interrupts():
            for k, (states, points, _, _, random) in enumerate(rows):
                if isinstance(problem, GymnasiumProblem):
                    problem.set_seed(int(streams[k, 0] % _SEEDS))
                problem.check(self._begin(1, states, points, constants, random), _WHERE)
                read(k)
            alive = np.arange(count)
            for step in range(problem.horizon):
                seen.append(numbers[alive])
                times += [step] * len(alive)
                frame.actions[alive] = policy.choose(seen[-1])
                for k in alive.tolist():
                    status = self._advance(1, *rows[k][:4], constants, rows[k][4])
                    if failed(status):
                        problem.check(status, _WHERE)
                    read(k)
                total[alive] += outcomes[alive, 0]
                alive = alive[outcomes[alive, 1] == 0.0]
                if not len(alive):
                    break
        return Played(total, np.concatenate(seen), np.array(times))


def _to_function(move: Any, arguments: int) -> Callable[..., int]:
    """Return a function of a world as Python calls it; with the JIT off it is one already."""
    if callable(move):
        return move
    return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * arguments)(move)


def _make_reader(problem: Playable, frame: Frame, numbers: Floats) -> Callable[[int], None]:
    """Return a function that writes what an environment of a frame shows into its row of `numbers`."""
    if not isinstance(problem, Problem):
        return lambda row: numbers.__setitem__(row, problem.read_observation(frame))
    observe, hidden, parameters = problem.observe, problem.hidden, np.array(problem.parameters)
    if observe is None:
        return lambda row: numbers.__setitem__(row, frame.states[row])
    pairs = [(state[:hidden], shown) for state, shown in zip(frame.states, numbers, strict=True)]
    return lambda row: observe(pairs[row][0], parameters, pairs[row][1])
