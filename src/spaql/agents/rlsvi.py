"""RLSVI: randomised least-squares value iteration (Osband, Van Roy and Wen, 2016), on a fixed net.

Each time step h has the same net over states and actions, whose cells are the features: phi(x, a) is 1 for the cell
that holds (x, a), and 0 for all others.  Before every episode a value function is sampled, backwards through the steps:

    b_i = r_i + max over a of theta_{h+1} phi(x'_i, a)    for every transition i of step h so far; r_i at the last step
    Sigma_h = (A'A / sigma^2 + lambda I)^-1,    m_h = Sigma_h A'b / sigma^2       (A: rows phi(x_i, a_i))
    theta_h ~ Normal(m_h, Sigma_h)

and the episode plays the cell of largest theta_h, uniformly inside.  With these features Sigma_h is diagonal, and all
data of a cell B enters through its number of visits n, its sum of rewards and its transitions into the states of the
net, whose values V_{h+1} are the largest theta_{h+1} there:

    theta(B) ~ Normal( (sum r + sum V_{h+1}(x')) / sigma^2 / p,  1 / p ),    p = n / sigma^2 + lambda

The agent's policy is that of the last sample, drawn after the last episode: it is the one that would be played next.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spaql.agents.partition_agent import select_prefix
from spaql.agents.registry import register
from spaql.agents.rollouts import STARTED, STATUS, TRAINING, advance_all, reset_all
from spaql.agents.stepwise import (
    ENTRY,
    StepwiseAgent,
    Transitions,
    add_values,
    count_transition,
    enlarge_transitions,
    finish_iteration,
    may_go_on,
    restore_transitions,
    transition_arrays,
)
from spaql.errors import ParameterError
from spaql.partition.jit import kernel, make_records, unreferenced
from spaql.partition.kernels import (
    MAX_DEPTH,
    NONE,
    count_visit,
    draw_action,
    find_best,
    find_leaf,
    rebuild_index,
    split_cell,
)
from spaql.partition.partition import check_numbers, fill_array
from spaql.partition.rng import normal
from spaql.partition.spaces import Box
from spaql.problems.base import LARGEST_REWARD, RAN, SOME_ENDED, Playable, failed
from spaql.validation import check_number, show

_MOST_CELLS = 4_000_000  # below a gigabyte
_MANY_CELLS = 262_144  # of the net that is taken where none is given


class Constants(NamedTuple):
    """Constants of a run."""

    horizon: int  # H
    rollouts: int  # N
    sigma: float
    regularisation: float  # lambda


class Data(NamedTuple):
    """What was seen, beside the visits in the forest."""

    rewards: NDArray[np.float64]  # [cells] sum
    order: NDArray[np.int64]  # [steps, cells of a step] cells by state and action: the order in which they are sampled
    values: NDArray[np.float64]  # [nodes] sampled V of the states of the net, 0 elsewhere


@kernel()
def split_evenly(f, depth):
    """Split all cells until they have this depth; the arrays have room for that."""
    cell = 0
    while cell < f.used[1]:
        if f.cells[cell].depth < depth:
            split_cell(f, cell)  # the first part takes its place
        else:
            cell += 1


@kernel()
def sample_values(f, data, t, hyper, random):
    """Sample theta of every cell, backwards through the time steps."""
    noise = 1.0 / (hyper.sigma * hyper.sigma)
    for step in range(hyper.horizon - 1, -1, -1):
        for i in range(data.order.shape[1]):
            data.values[f.cells[data.order[step, i]].node] = -np.inf
        for i in range(data.order.shape[1]):
            cell = data.order[step, i]
            precision = f.cells[cell].visits * noise + hyper.regularisation
            mean = add_values(t, cell, data.values, data.rewards[cell]) * noise / precision
            theta = mean + normal(random) / np.sqrt(precision)
            f.cells[cell].q = theta
            data.values[f.cells[cell].node] = max(data.values[f.cells[cell].node], theta)
    rebuild_index(f)


@kernel(inline=True)
def train_episode(f, data, t, world, frame, hyper, counts, row, agent_random, world_random):
    """Play an episode, record its transitions, and return the status; fills the row's score."""
    status = reset_all(world, frame, 0, 1, world_random)
    total = 0.0
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
        count_visit(f, cell)
        data.rewards[cell] += frame.outcomes[0, 0]
        if not status & SOME_ENDED and h + 1 < hyper.horizon:
            count_transition(t, cell, find_leaf(f, h + 1, frame.points, 0))
    row.score = total
    return status


@kernel()
def iterate(f, data, t, world, frame, hyper, counts, streams, rows, budget):
    """Run up to `len(rows)` iterations: an episode, a sample, and rollouts of its policy."""
    f, data, t = unreferenced(f), unreferenced(data), unreferenced(t)
    world, frame, counts = unreferenced(world), unreferenced(frame), unreferenced(counts)
    training_agent, training_world = unreferenced(streams[0]), unreferenced(streams[1])
    rollout_agent, rollout_world = unreferenced(streams[2]), unreferenced(streams[3])
    for k in range(rows.shape[0]):
        if not may_go_on(f, counts, budget, hyper.horizon, (0, 0)) or t.used[0] + hyper.horizon > t.entries.shape[0]:
            return
        if counts[STARTED] == 0:
            sample_values(f, data, t, hyper, training_agent)
            counts[STARTED] = 1
        row = rows[k]
        counts[STATUS] = train_episode(f, data, t, world, frame, hyper, counts, row, training_agent, training_world)
        if failed(counts[STATUS]):
            return
        sample_values(f, data, t, hyper, training_agent)
        finish_iteration(f, world, frame, hyper, counts, row, rollout_agent, rollout_world)


@register(
    "rlsvi",
    label="RLSVI",
    colour="#AA4499",
    reference="Osband, Van Roy, Wen: Generalization and exploration via randomized value functions (2016)",
)
class RLSVI(StepwiseAgent):
    """Randomised least-squares value iteration on a net.

    The module `spaql.agents.rlsvi` has the equations.

    Parameters
    ----------
    bins
        Intervals of the net for each dimension of states and actions, one power of two for all; each discrete action is
        one cell.  None takes the largest up to 8 with which the net has at most 262,144 cells over all time steps.
    sigma
        The standard deviation of the noise that is assumed of b, above 0; it scales the exploration.
    regularisation
        lambda > 0, the precision of theta before any data: Normal(0, 1 / lambda).
    rollouts
        N, greedy rollouts after every episode that draw the learning curve and change nothing; with 0 the curve
        is the training episodes' own returns.
    problem, seed, **environment
        As for every agent; see `spaql.agents.Agent`.

    Examples
    --------
    >>> import spaql
    >>> agent = spaql.RLSVI("oil", rollouts=0, seed=0).learn(iterations=50)
    >>> agent.predict([0.5])[0]
    array([0.1875])
    """

    _fineness = "bins"
    _filled = ("cells",)

    @classmethod
    def count_first_cells(cls, problem: Playable, parameters: Mapping[str, Any]) -> int:
        """Count the cells of a new agent: those of its net."""
        bins = parameters.get("bins")
        if bins is None:
            bins = cls._choose_bins(problem)
        whole = isinstance(bins, int | np.integer) and not isinstance(bins, bool) and 0 < bins <= 1 << MAX_DEPTH
        if not whole or int(bins).bit_count() != 1:
            most = f"from 1 to {1 << MAX_DEPTH:,}"
            raise ParameterError(f"bins: expected a power of two such as 8 or 16, {most}, got {show(bins)}")
        actions = problem.actions.dimensions if isinstance(problem.actions, Box) else 0
        return super().count_first_cells(problem, parameters) * int(bins) ** (problem.states.dimensions + actions)

    @classmethod
    def _choose_bins(cls, problem: Playable) -> int:
        """Return the bins where none are given."""
        fits = (bins for bins in (8, 4, 2) if cls.count_first_cells(problem, {"bins": bins}) <= _MANY_CELLS)
        return next(fits, 1)

    def __init__(
        self,
        problem: Any,
        *,
        bins: int | None = None,
        sigma: float = 1.0,
        regularisation: float = 1.0,
        rollouts: int = 20,
        seed: int = 0,
        **environment: Any,
    ) -> None:
        super().__init__(problem, rollouts=rollouts, seed=seed, **environment)
        self.sigma = check_number(sigma, "sigma", least=1e-100, most=LARGEST_REWARD)
        self.regularisation = check_number(regularisation, "regularisation", least=1e-100, most=LARGEST_REWARD)
        self.bins = None if bins is None else self._check_bins(bins)
        self._bins = self._choose_bins(self.problem) if self.bins is None else self.bins
        self._hyper = Constants(self.problem.horizon, self.rollouts, self.sigma, self.regularisation)
        self._begin(np.zeros(self.problem.horizon))
        self._make_net()

    def _check_bins(self, bins: Any) -> int:
        count = self.count_first_cells(self.problem, {"bins": bins})
        if count > _MOST_CELLS:
            fits = [
                few
                for few in (1 << halvings for halvings in range(MAX_DEPTH))
                if self.count_first_cells(self.problem, {"bins": few}) <= _MOST_CELLS
            ]
            remedy = f"choose at most {fits[-1]}" if fits else "choose a shorter horizon="
            raise ParameterError(
                f"bins: {bins} per dimension make a net of {count:,} cells over {self.problem.horizon} time steps, "
                f"and at most {_MOST_CELLS:,} fit; {remedy}"
            )
        return int(bins)

    def _make_net(self) -> None:
        cells = self.count_first_cells(self.problem, {"bins": self._bins})
        leaves = self.problem.horizon * self._bins**self.problem.states.dimensions
        self._work.ensure_room(2 * leaves, cells)
        split_evenly(self._work.forest, self._bins.bit_length() - 1)
        entries = make_records(0, ENTRY)
        self._transitions = Transitions(np.zeros(1, np.int64), np.full(cells, NONE, np.int32), entries)
        self._data = self._arrange(np.zeros(cells))

    def _arrange(self, rewards: NDArray[np.float64]) -> Data:
        """Return the data with cells in order; ValueError where the net is not that of the parameters."""
        work, steps = self._work, self.problem.horizon
        cells, boxes = work.forest.cells[: len(work)], work.forest.boxes[: len(work)]
        low = work.node_boxes()[0][cells["node"]]
        order = np.lexsort(np.column_stack([cells["root"], low, boxes[:, 0]]).T[::-1])
        even = (
            len(work) == self.count_first_cells(self.problem, {"bins": self._bins})
            and (cells["depth"] == self._bins.bit_length() - 1).all()
        )
        if not even or (np.bincount(cells["root"], minlength=steps) != len(work) // steps).any():
            raise ValueError("a net of another size")
        return Data(rewards, order.reshape(steps, -1), np.zeros(len(work.forest.nodes)))

    def _growth(self) -> tuple[int, int]:
        return 0, 0

    def _resize(self, nodes: int, cells: int) -> None:
        self._transitions = enlarge_transitions(self._transitions, cells, self.problem.horizon)
        if len(self._data.values) < nodes:
            self._data = self._data._replace(values=np.zeros(nodes))

    def _run(self, rows: NDArray[np.void], budget: int) -> None:
        learner = self._hyper, self._counts, self._streams
        world = self.problem.world, self._frame
        iterate(self._work.forest, self._data, self._transitions, *world, *learner, rows, budget)

    def _state(self) -> dict[str, NDArray[Any]]:
        own = {"rewards": self._data.rewards} | transition_arrays(self._transitions, len(self._work))
        return super()._state() | {f"data-{name}": array for name, array in own.items()}

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        super()._restore(arrays)
        own, rewards = select_prefix(arrays, "data-"), np.zeros(len(self._work))
        fill_array(rewards, own["rewards"], "rewards")
        check_numbers(rewards, "sums of rewards")
        self._data = self._arrange(rewards)
        self._transitions = restore_transitions(own, len(rewards), int(self._work.forest.used[0]))
        self._check_transitions()

    def _check_transitions(self) -> None:
        """Raise a ValueError where a transition does not lead to a state of the next step: its V would be undefined."""
        forest, entries = self._work.forest, self._transitions.entries
        steps = np.full(len(forest.nodes), NONE)
        steps[forest.cells["node"]] = forest.cells["root"]
        owners = np.flatnonzero(self._transitions.first != NONE)
        places = self._transitions.first[owners]
        while len(places):
            if (steps[entries["node"][places]] != forest.cells["root"][owners] + 1).any():
                raise ValueError("transitions to another step")
            places = entries["next"][places]
            owners, places = owners[places != NONE], places[places != NONE]
