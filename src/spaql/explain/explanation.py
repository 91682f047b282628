"""Why an agent does what it does: the cell that decides, the others that could have, and what would change it.

At a state x the relevant cells share out all actions among them, and the one of largest Q decides (`spaql.partition.kernels`).
What would be done elsewhere is read off the decision tree (`spaql.partition.tree`): along one observed number, all else equal,
its leaves follow one another, and every border between them is known exactly.  So what is said here of a border holds
for the last number before it and for the first beyond it, as doubles go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from spaql.errors import ParameterError
from spaql.formatting import Table, numerals
from spaql.partition.kernels import NONE
from spaql.partition.partition import Partition
from spaql.partition.spaces import Floats
from spaql.partition.tree import Tree
from spaql.problems.base import Playable
from spaql.problems.labels import Words, spoken, words


@dataclass(frozen=True)
class Cell:
    """A cell that is relevant to the observation.

    Attributes
    ----------
    action, words
        What it would play, as the environment takes it, and in words.
    action_low, action_high
        Its action box in the problem's units; both are the action's number where actions are finite.
    q, visits, depth
        As in `agent.cells()`.
    behind
        By how much its Q is below that of the cell that decides.
    """

    action: Any
    words: str
    action_low: tuple[float, ...]
    action_high: tuple[float, ...]
    q: float
    visits: int
    depth: int
    behind: float


@dataclass(frozen=True)
class Border:
    """Where something ends on the way up or down from an observed number, all else equal.

    Attributes
    ----------
    value
        The border as a person would write it; for a whole number, the first beyond it.  A number that comes round may
        pass its end.
    beyond
        The nearest double beyond the border, exactly: on the way up the first of the other side, else the last.
    distance
        How far the border is.
    action, words
        What is done just beyond it, as the environment takes it, and in words.
    """

    value: float
    beyond: float
    distance: float
    action: Any
    words: str


@dataclass(frozen=True)
class Seen:
    """One observed number.

    Attributes
    ----------
    name, value
        How it is called, and what it was.
    outside
        Whether it was outside its range, and was taken for the end of it.
    low, high
        Its range.
    whole, periodic
        Whether it is a whole number, and whether it comes round.
    cell_low, cell_high
        The side of the cell that decides.
    below, above
        Borders of that cell, None at the end of the number's range.
    change_below, change_above
        The nearest borders beyond which another action is done, None where there is none.
    """

    name: str
    value: float
    outside: bool
    low: float
    high: float
    whole: bool
    periodic: bool
    cell_low: float
    cell_high: float
    below: Border | None
    above: Border | None
    change_below: Border | None
    change_above: Border | None

    def inside(self, border: Border) -> float:
        """Where a border is in the range of the number, if the way to it passes an end that is none."""
        return self.low + (border.value - self.low) % (self.high - self.low) if self.periodic else border.value

    def beyond(self, border: Border | None, value: str, going: str) -> str:
        """What is done beyond a border, on the way up or down, in words."""
        if border is None:
            return "never"
        reached = f"from {value} {going}" if self.whole else f"below {value}" if going == "down" else f"from {value}"
        round_ = ", coming round" if self.inside(border) != border.value else ""
        return f"{reached}{round_}: {border.words}"


@dataclass(frozen=True)
class Explanation:
    """What is done for one observation, and why; `agent.explain` makes it, and `str` tells it.

    Attributes
    ----------
    seen
        The observed numbers, each with what is below and above it.
    step
        Time step, for agents whose policy changes with it, else None.
    action, words
        What is done, as the environment takes it, and in words.
    cell
        The cell that decides.
    bonus
        What is left of its bonus for exploration, scaling / sqrt(visits); None for agents without one.
    runners_up
        The other relevant cells, by falling Q; equal ones as they would be chosen.
    relevant
        How many cells are relevant in all.
    """

    seen: tuple[Seen, ...]
    step: int | None
    action: Any
    words: str
    cell: Cell
    bonus: float | None
    runners_up: tuple[Cell, ...]
    relevant: int

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        plain: dict[str, Any] = _plain(asdict(self))
        return plain

    def __str__(self) -> str:
        values = numerals([one.value for one in self.seen])
        state = ", ".join(f"{one.name} {value}" for one, value in zip(self.seen, values, strict=True))
        step = "" if self.step is None else f" in step {self.step}"
        lines = [f"At {state}{step}: {self.words}."]
        lines += [
            f"{one.name} is outside its range, and is taken for the end of it." for one in self.seen if one.outside
        ]
        bonus = "" if self.bonus is None else f", of its bonus {self.bonus:.4g} left"
        visits = f"{self.cell.visits:,} visit{'' if self.cell.visits == 1 else 's'}"
        lines += [f"The cell that decides has Q {self.cell.q:.4g} after {visits}{bonus}."]
        others = [self._others()] if self.runners_up or self.relevant == 1 else []
        return "\n\n".join(["\n".join(lines), *others, self._around()])

    def _others(self) -> str:
        """The runners-up as a table."""
        if self.relevant == 1:
            return "No other action is told from it here."
        shown = len(self.runners_up) == self.relevant - 1
        others = "Instead:" if shown else f"Instead, the best of {self.relevant - 1}:"
        head = ["action", "Q", "behind", "visits"]
        rows = [[one.words, f"{one.q:.4g}", f"{one.behind:.4g}", f"{one.visits:,}"] for one in self.runners_up]
        return f"{others}\n{Table(head, rows).text()}"

    def _around(self) -> str:
        """What lies around the observation, as a table."""
        rows = []
        for one in self.seen:
            changes = one.change_below, one.change_above
            values = [one.inside(border) if border else one.value for border in changes]
            value, low, high, *borders = numerals([one.value, one.cell_low, one.cell_high, *values])
            beyond = map(one.beyond, changes, borders, ("down", "up"))
            rows.append([one.name, value, f"{low} to {high}", *beyond])
        head = ["number", "value", "cell", "changes going down", "changes going up"]
        return f"All else equal:\n{Table(head, rows, left=5).text()}"


def _plain(value: Any) -> Any:
    """Without what JSON has no word for."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def member(problem: Playable, numbers: Sequence[float]) -> Any:
    """The observation with these numbers, given in the order of their names."""
    called = words(problem).states
    if len(numbers) != len(called):
        raise ParameterError(f"observation: expected {len(called)} numbers ({', '.join(called)}), got {len(numbers)}")
    return problem.member(np.array(numbers, dtype=float))


def explained(
    problem: Playable,
    partition: Partition,
    tree: Tree,
    observation: Any,
    *,
    step: int | None,
    scaling: float | None,
    runners_up: int,
    names: Sequence[str] | None = None,
    actions: Sequence[str] | None = None,
) -> Explanation:
    """What a partition's policy does for one observation, and why; `scaling` is that of the bonus, if there is one."""
    numbers, single = problem.flat(observation)
    if not single:
        raise ParameterError(f"observation: expected one to explain, got {len(numbers)}; explain them one by one")
    if not np.isfinite(numbers).all():
        raise ParameterError(f"observation: expected finite numbers, got {numbers[0]}")
    called = words(problem, names, actions)
    point = tree.states.placed(numbers, tree.periodic)[0]
    root = step or 0
    relevant = _relevant(partition, root, point)
    cells = _cells(problem, partition, called, relevant)
    line = _Line(problem, tree, called, root, numbers[0], point)
    low, high = _box(partition, relevant[0])
    seen = tuple(line.seen(d, low[d], high[d]) for d in range(len(point)))
    bonus = None if scaling is None else scaling / float(np.sqrt(max(cells[0].visits, 1)))
    others = tuple(cells[1 : runners_up + 1])
    return Explanation(seen, step, cells[0].action, cells[0].words, cells[0], bonus, others, len(cells))


def _relevant(partition: Partition, root: int, point: Floats) -> list[int]:
    """Cells relevant to a state by falling Q; of equal ones the coarser first, then the newer, as in the kernels."""
    nodes, cells = partition.forest.nodes, partition.forest.cells
    found: list[int] = []
    node = root
    while True:
        cell = int(nodes["head"][node])
        while cell != NONE:
            found.append(cell)
            cell = int(cells["next"][cell])
        child = int(nodes["child"][node])
        if child == NONE:
            return sorted(found, key=lambda cell: -float(cells["q"][cell]))  # keeps the order of equal ones
        node = child + int(point[nodes["dim"][node]] >= nodes["cut"][node])


def _cells(problem: Playable, partition: Partition, called: Words, numbers: list[int]) -> list[Cell]:
    """Cells, of which the first decides."""
    boxes, records = partition.forest.boxes[numbers], partition.forest.cells[numbers]
    middles = problem.actions.from_unit(boxes[:, 0] + 0.5 * (boxes[:, 1] - boxes[:, 0]))
    played = np.asarray(problem.played(middles, False))
    texts = spoken(problem, called, middles, played)
    low, high = (problem.actions.from_unit(boxes[:, side]).tolist() for side in range(2))
    return [
        Cell(
            action=problem.played(middles[k : k + 1], True),
            words=texts[k],
            action_low=tuple(low[k]),
            action_high=tuple(high[k]),
            q=float(record["q"]),
            visits=int(record["visits"]),
            depth=int(record["depth"]),
            behind=float(records[0]["q"]) - float(record["q"]),
        )
        for k, record in enumerate(records)
    ]


def _box(partition: Partition, cell: int) -> tuple[Floats, Floats]:
    """State box of a cell in the unit cube."""
    nodes, links = partition.forest.nodes, partition.forest.links
    low, high = np.zeros(partition.states.dimensions), np.ones(partition.states.dimensions)
    node = int(partition.forest.cells["node"][cell])
    while (parent := int(links["parent"][node])) != NONE:
        dim, cut = int(nodes["dim"][parent]), float(nodes["cut"][parent])
        if node == nodes["child"][parent]:
            high[dim] = min(high[dim], cut)
        else:
            low[dim] = max(low[dim], cut)
        node = parent
    return low, high


@dataclass(frozen=True, eq=False)
class _Line:
    """What is done along each observed number, all else equal."""

    problem: Playable
    tree: Tree
    called: Words
    root: int
    numbers: Floats  # [states] as they are
    point: Floats  # [states] in the unit cube

    def seen(self, dim: int, low: float, high: float) -> Seen:
        """One number, with the side of the cell that decides in the unit cube."""
        states, value, turning = self.tree.states, float(self.numbers[dim]), dim in self.tree.periodic
        sides = self.tree.nominal(dim, np.array([low, high])).tolist()
        borders: list[Border | None] = [None, None]
        if low > 0.0 or high < 1.0:
            borders = [self._first(dim, np.array([cut]), up, False) for up, cut in enumerate((low, high))]
        cuts = self._cuts(dim)
        changes = [self._first(dim, cuts, up, True) for up in range(2)]
        return Seen(
            name=self.called.states[dim],
            value=value,
            outside=not turning and not states.low[dim] <= value <= states.high[dim],
            whole=bool(self.problem.whole[dim]),
            low=float(states.low[dim]),
            high=float(states.high[dim]),
            periodic=turning,
            cell_low=sides[0],
            cell_high=sides[1],
            below=borders[0],
            above=borders[1],
            change_below=changes[0],
            change_above=changes[1],
        )

    def _cuts(self, dim: int) -> Floats:
        """Where the tree is cut along one number, in rising order; the end of the range too, where that is no end."""
        waiting, cuts = [int(self.tree.roots[self.root])], set()
        while waiting:
            at = waiting.pop()
            if at < 0:
                continue
            below, above = (int(child) for child in self.tree.children[at])
            if self.tree.dims[at] == dim:
                cuts.add(float(self.tree.cuts[at]))
                waiting += [below, above]
            else:
                waiting.append(above if self.point[self.tree.dims[at]] >= self.tree.cuts[at] else below)
        return np.array(sorted(cuts | {1.0}))

    def _met(self, dim: int, cuts: Floats, up: int) -> tuple[Floats, Floats]:
        """Those of rising cuts that are met on the way up or down, in this order, and in which turn each is."""
        at = self.point[dim]
        if dim not in self.tree.periodic:
            met = cuts[(cuts > at) & (cuts < 1.0)] if up else cuts[(cuts <= at) & (cuts > 0.0) & (cuts < 1.0)][::-1]
            return met, np.zeros(len(met))
        low, high = self.tree.states.low[dim], self.tree.states.high[dim]
        turn = np.floor((self.numbers[dim] - low) / (high - low))
        cuts = np.unique(cuts % 1.0)  # the end of a turn is the start of the next
        here, there = (cuts > at, cuts <= at) if up else (cuts <= at, cuts > at)
        met = np.concatenate([cuts[here], cuts[there]] if up else [cuts[here][::-1], cuts[there][::-1]])
        return met, turn + np.where(np.arange(len(met)) < here.sum(), 0.0, 1.0 if up else -1.0)

    def _first(self, dim: int, cuts: Floats, up: int, change: bool) -> Border | None:
        """The first of the cuts on the way up or down, or the first beyond which another action is done."""
        met, turns = self._met(dim, cuts, up)
        values, beyond = self.tree.nominal(dim, met, turns), self.tree.reached(np.full(len(met), dim), met, turns)
        if self.problem.whole[dim]:
            values = beyond = np.ceil(beyond) if up else np.ceil(beyond) - 1.0
            if dim not in self.tree.periodic:
                there = (beyond >= self.tree.states.low[dim]) & (beyond <= self.tree.states.high[dim])
                values = beyond = beyond[there]
        elif not up:
            beyond = np.nextafter(beyond, -np.inf)
        rows = np.repeat(self.numbers[None], len(beyond), axis=0)
        rows[:, dim] = beyond
        points = np.concatenate([self.point[None], self.tree.states.placed(rows, self.tree.periodic)])
        choices = self.tree.decide(points, np.full(len(points), self.root))
        wanted = np.flatnonzero(choices[1:] != choices[0]) if change else np.arange(len(beyond))
        if not len(wanted):
            return None
        k, choice = wanted[0], choices[1 + wanted[0]]
        text = spoken(self.problem, self.called, self.tree.middles[[choice]], self.tree.actions[[choice]])[0]
        action = self.problem.played(self.tree.middles[[choice]], True)
        value = float(values[k])
        return Border(value, float(beyond[k]), abs(value - float(self.numbers[dim])), action, text)
