"""Q-learning on a fixed net: the episode that `QLearning`, `UCBQ`, `UCBQInfinite` and `NBQL` share.

A net (`spaql.partition.net`) has one cell for each pair of a state bin and an action bin, once for all time steps or
for each of them.  An episode plays the centre of the chosen cell B, and learns from the reward r and the next state x':

    n(B) <- t = n(B) + 1
    Q(B) <- (1 - alpha_t) Q(B) + alpha_t (r + gamma V(x') + b_t)

This is the generalised optimistic framework of Neustroev and de Weerdt (Generalized optimistic Q-learning with provable
efficiency, 2020): an algorithm is three rules,

* the learning rate  alpha_t = kappa (rho + 1) / (rho + t^omega).  rho = H and omega = 1 is that of UCB-Q, rho = 0 is
  1 / t^omega, and rho = omega = 0 is constant;
* the bonus  b_t = b / sqrt(t) + b_0, or a Bernstein or an anytime bonus, which need memory: see `moments` and
  `running` below;
* the value  V(x) = min(cap, max Q(x, .)), or mellowmax.

They are numbers in `Rules`.  What a state that ended the episode is worth is one of them as well: rewards are first
scaled, r <- (r - low) / (high - low), after which no reward at all is worth z = -low / (high - low) per step, and so
an episode that ended is worth z for every step that was left (z / (1 - gamma) where gamma discounts).  It is 0 for
rewards from 0 to 1.  The horizon is another matter: with one table for all steps nothing ends there, and the last
update takes the value of the next state as every other does.

Arguments of the kernels that Numba compiles a version for, without the branches that None rules out:

* `per_step`, True or None: one table for each time step, with V = 0 after the last, or one for all;
* `moments`, `[cells, 3]` or None: sum of V, sum of V^2 and last beta of the Bernstein bonus (`spaql.agents.ucb_q`);
* `running`, `[cells]` or None: Q, where the table keeps its running minimum (`spaql.agents.ucb_q_infinite`);
* `exploring`, an `Exploration` or None: without it the cell of largest Q is played (`spaql.agents.exploration`).

Memory is what theory says, the size of the net: `len(agent.cells())`, the same before and after learning.
"""

import math
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spaql.agents.exploration import (
    CYCLIC,
    EPSILON,
    HEAT,
    LEVEL,
    Exploration,
    choose_cell,
    find_mellowmax,
    update_cycle,
    update_level,
)
from spaql.agents.partition_agent import PartitionAgent
from spaql.agents.rollouts import FINISHED, STATUS, TRAINING, advance_all, reset_all
from spaql.errors import ParameterError
from spaql.partition.jit import kernel, unreferenced
from spaql.partition.kernels import count_visit, take_centre
from spaql.partition.net import Net, Shape, find_leaf, rank_cell, shape_net
from spaql.partition.partition import Partition, check_numbers, fill_array
from spaql.problems.base import RAN, SOME_ENDED, Playable, failed
from spaql.validation import LARGEST_NUMBER

SUM, SQUARES, BETA = range(3)  # columns of `moments`
RATE, BONUS = range(2)  # columns of `tables`
_TABLED = 1 << 12  # visits of a cell whose rate and bonus stand in tables
_LONGEST = 10_000


class Rules(NamedTuple):
    """Constants of an algorithm; see the module's docstring."""

    horizon: int  # H, steps of an episode
    choices: int  # cells of a state
    discount: float = 1.0  # gamma
    cap: float = math.inf  # of V
    rate: float = 0.0  # rho
    power: float = 1.0  # omega
    step_size: float = 1.0  # kappa
    bonus: float = 0.0  # b
    offset: float = 0.0  # b_0
    union: float = 0.0  # S A / delta of an anytime bonus, see `spaql.agents.ucb_q_infinite`
    variance: float = 0.0  # with `moments`: c sqrt(H iota), see `spaql.agents.ucb_q`
    lower_order: float = 0.0  # with `moments`: c sqrt(H^7 S A) iota
    low: float = 0.0  # of the rewards
    unit: float = 1.0  # 1 / (high - low) of the rewards
    ended: float = 0.0  # worth of a step after the end, or of all of them where all steps share one table


@kernel(inline=True)
def find_rate(rules, t):
    """Return alpha_t."""
    power = float(t) if rules.power == 1.0 else float(t) ** rules.power
    return rules.step_size * (rules.rate + 1.0) / (rules.rate + power)


@kernel(inline=True)
def find_bonus(rules, t):
    """Return b_t; with a union bound the anytime bonus of `spaql.agents.ucb_q_infinite`."""
    if rules.union > 0.0:
        return rules.bonus * math.sqrt(math.log(rules.union * (t + 1.0) * (t + 2.0)) / t)
    return rules.bonus / math.sqrt(t) + rules.offset


@kernel()
def fill_tables(rules, tables):
    """Fill `tables` [visits, 2] with alpha_t and b_t: a look-up costs less than the roots, powers and logarithms."""
    for t in range(1, tables.shape[0]):
        tables[t, RATE] = find_rate(rules, t)
        tables[t, BONUS] = find_bonus(rules, t)


@kernel(inline=True)
def find_bernstein_bonus(rules, moments, cell, value, t, alpha, hoeffding):
    """Return b_t from the variance of V (UCB-Bernstein; see `spaql.agents.ucb_q`)."""
    moments[cell, SUM] += value
    moments[cell, SQUARES] += value * value
    mean = moments[cell, SUM] / t
    variance = max(0.0, moments[cell, SQUARES] / t - mean * mean)
    beta = rules.variance * math.sqrt((variance + rules.horizon) / t) + rules.lower_order / t
    beta = min(beta, hoeffding)
    bonus = (beta - (1.0 - alpha) * moments[cell, BETA]) / (2.0 * alpha)
    moments[cell, BETA] = beta
    return bonus


@kernel(inline=True)
def update_visit(f, rules, tables, leaf, cell, reward, value, moments, running):
    """Learn from one visit of a cell."""
    t = count_visit(f, cell)
    if t < tables.shape[0]:
        alpha = tables[t, RATE]
        bonus = tables[t, BONUS]
    else:
        alpha = find_rate(rules, t)
        bonus = find_bonus(rules, t)
    if moments is not None:
        bonus = find_bernstein_bonus(rules, moments, cell, value, t, alpha, bonus)
    target = reward + rules.discount * value + bonus
    if running is None:
        rank_cell(f, leaf, rules.choices, cell, (1.0 - alpha) * f.cells[cell].q + alpha * target)
    else:
        running[cell] = (1.0 - alpha) * running[cell] + alpha * target
        if running[cell] < f.cells[cell].q:
            rank_cell(f, leaf, rules.choices, cell, running[cell])


@kernel(inline=True)
def find_value(f, rules, leaf, exploring):
    """Return V of the states of a leaf."""
    value = f.nodes[leaf].top_q
    if exploring is not None and exploring.averages:
        value = find_mellowmax(f, leaf, rules.choices, exploring.omega)
    return min(rules.cap, value)


@kernel(inline=True)
def train_episode(
    f,
    lattice,
    world,
    frame,
    rules,
    tables,
    per_step,
    moments,
    running,
    exploring,
    level,
    counts,
    row,
    agent_random,
    world_random,
):
    """Play and learn from one episode; fills the row's range of V and score (the return), gives back the status."""
    status = reset_all(world, frame, 0, 1, world_random)
    low = np.inf
    high = -np.inf
    total = 0.0
    leaf = following = 0
    if status == RAN:
        leaf = find_leaf(lattice, 0, frame.points, 0)
    for h in range(rules.horizon):
        if status != RAN:  # a fault: its state must not be looked up; or the episode's end
            break
        cell = f.nodes[leaf].top
        if exploring is not None:
            cell = choose_cell(f, leaf, rules.choices, exploring, level, agent_random)
        take_centre(f, cell, frame.actions, 0)
        status = advance_all(world, frame, 1, world_random)
        counts[TRAINING] += 1
        if failed(status):
            break
        total += frame.outcomes[0, 0]
        left = rules.horizon - 1 - h
        if status & SOME_ENDED:
            value = rules.ended if per_step is None else rules.ended * left
        elif per_step is not None and left == 0:
            value = 0.0
        else:
            following = find_leaf(lattice, 0 if per_step is None else h + 1, frame.points, 0)
            value = find_value(f, rules, following, exploring)
        low = min(low, value)
        high = max(high, value)
        reward = (frame.outcomes[0, 0] - rules.low) * rules.unit
        update_visit(f, rules, tables, leaf, cell, reward, value, moments, running)
        leaf = following
    row.value_low = low
    row.value_high = high
    row.score = total
    return status


@kernel()
def iterate(
    net,
    lattice,
    world,
    frame,
    rules,
    tables,
    per_step,
    moments,
    running,
    exploring,
    annealing,
    counts,
    streams,
    rows,
    budget,
):
    """Learn from up to `len(rows)` episodes.

    Stops early where an episode might pass the step budget, or at a fault of the problem, which `counts[STATUS]` then
    reports.
    """
    f, lattice, tables, counts = unreferenced(net), unreferenced(lattice), unreferenced(tables), unreferenced(counts)
    world, frame = unreferenced(world), unreferenced(frame)
    agent_random, world_random = unreferenced(streams[0]), unreferenced(streams[1])
    for k in range(rows.shape[0]):
        if counts[TRAINING] > budget - rules.horizon:
            return
        row = rows[k]
        level = 0.0
        if exploring is not None:
            update_level(exploring, annealing, counts[FINISHED])
            level = annealing[LEVEL]
            row.temperature = level
            row.heat = annealing[HEAT]
        counts[STATUS] = train_episode(
            f,
            lattice,
            world,
            frame,
            rules,
            tables,
            per_step,
            moments,
            running,
            exploring,
            level,
            counts,
            row,
            agent_random,
            world_random,
        )
        if failed(counts[STATUS]):
            return
        if exploring is not None and exploring.schedule == CYCLIC:
            update_cycle(exploring, annealing, row.score)
        row.best = row.score
        row.cells = f.used[1]
        row.training_steps = counts[TRAINING]
        counts[FINISHED] += 1


class FixedNetAgent(PartitionAgent):
    """Base class of agents on a fixed net; a subclass checks its own parameters and calls `_begin`.

    `fineness` is the value of the parameter that says how fine the net is, which is called `_fineness`.
    """

    plays_middle = True
    _fineness: ClassVar[str] = "bins"

    def __init__(self, problem: Any, fineness: Any, *, seed: int = 0, **environment: Any) -> None:
        super().__init__(problem, seed=seed, **environment)
        self._shape = self._make_shape(self.problem, {self._fineness: fineness})

    @classmethod
    def _make_shape(cls, problem: Playable, parameters: Mapping[str, Any]) -> Shape:
        """Return the shape of the net that an agent with these parameters has."""
        if cls.time_variant and problem.horizon > _LONGEST:
            raise ParameterError(
                f"horizon: {cls.__name__} keeps a net per time step, at most {_LONGEST}, got {problem.horizon}"
            )
        bins = cls._find_bins(parameters.get(cls._fineness))
        return shape_net(
            problem.states, problem.actions, bins, problem.horizon if cls.time_variant else 1, cls._fineness
        )

    @classmethod
    def _find_bins(cls, fineness: Any) -> Any:
        """Return the bins that a parameter means, to be checked."""
        return fineness

    @classmethod
    def count_first_cells(cls, problem: Playable, parameters: Mapping[str, Any]) -> int:
        """Count the cells of a new agent: those of its net."""
        return cls._make_shape(problem, parameters).cells

    def _begin(
        self,
        rules: Rules,
        initial: float,
        *,
        moments: bool = False,
        running: bool = False,
        exploring: Exploration | None = None,
        heat: float = 1.0,
    ) -> None:
        """Make the untrained net, of which every cell has the Q `initial`, and the memory that its rules need."""
        self._rules, self._exploring = rules, exploring
        self._tables = np.zeros((_TABLED, 2))
        fill_tables(rules, self._tables)
        try:
            self._work = Net(self.problem.states, self.problem.actions, self._shape, initial=initial)
            self._moments = np.zeros((len(self._work), 3)) if moments else None
            self._running = np.full(len(self._work), initial) if running else None
        except MemoryError:
            message = f"a net of {self._shape.cells:,} cells takes more memory than is free; give a coarser one"
            raise ParameterError(f"{self._fineness}: {message}") from None
        self._heat = heat
        self._annealing = None if exploring is None else np.array([exploring.final, heat, -np.inf])
        self._frame = self.problem.frame(1)

    _work: Net

    def _policy(self) -> Partition:
        return self._work

    def _memory(self) -> dict[str, NDArray[np.float64]]:
        """Return what is learned beside the net, by name."""
        memory = {"moments": self._moments, "running": self._running, "annealing": self._annealing}
        return {name: array for name, array in memory.items() if array is not None}

    def _state(self) -> dict[str, NDArray[Any]]:
        return super()._state() | self._memory()

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        super()._restore(arrays)
        for name, array in self._memory().items():
            fill_array(array, arrays[name], name)
            if array is not self._annealing:
                check_numbers(array, name)
        if self._is_annealing_invalid():
            raise ValueError("invalid level or heat of exploration")

    def _is_annealing_invalid(self) -> bool:
        """Whether the level, the heat or the best return is one that exploration never has."""
        if self._annealing is None or self._exploring is None:
            return False
        low, high = sorted((self._exploring.initial, self._exploring.final))
        level, heat, best = self._annealing
        never_zero = self._exploring.kind != EPSILON or self._exploring.schedule == CYCLIC
        inside = abs(level - 0.5 * (low + high)) <= 0.5 * (high - low) + 1e-9 * high and level >= 0.0
        bounded = 1.0 <= heat <= self._heat and best <= LARGEST_NUMBER  # it begins at minus infinity
        return not (inside and bounded) or bool(never_zero and level == 0.0)

    def _make_room(self, steps: int) -> None:
        """Do nothing: the net has all its cells."""

    def _run(self, rows: NDArray[np.void], budget: int) -> None:
        memory = self._moments, self._running, self._exploring, self._annealing
        rules = self._rules, self._tables, True if self.time_variant else None
        world = self._work.forest, self._work.lattice, self.problem.world, self._frame
        iterate(*world, *rules, *memory, self._counts, self._streams, rows, budget)
