"""Why a policy takes an action: the cell that decides, the other cells relevant there, and what would change it.

At a state x the relevant cells share out all actions among them, and the one of largest Q decides
(`spaql.partition.kernels`).  Decisions elsewhere are read off the decision tree (`spaql.partition.tree`): along one
observed number, all else equal, its leaves follow one another, and every border between them is known exactly.  So a
statement about a border holds for the last double before it and for the first beyond it.

Where one cell per state has all there is to play (`Partition.from_tree`), there are no others to compare with; an agent
that knows the Q of other actions gives them as alternatives.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from spaql.errors import ParameterError
from spaql.formatting import Table, numerals
from spaql.notebook import render
from spaql.partition.kernels import NONE
from spaql.partition.partition import Partition
from spaql.partition.spaces import Floats
from spaql.partition.tree import Tree
from spaql.problems.base import Playable
from spaql.problems.labels import Labels, label_actions, make_labels, order_numbers
from spaql.validation import check_number

Alternatives = Callable[[Floats], tuple[Floats, Floats] | None]


@dataclass(frozen=True)
class Cell:
    """A cell that is relevant to the observation, or an alternative action.

    Examples
    --------
    >>> import spaql
    >>> agent = spaql.SPAQL("oil", seed=0).learn(iterations=50)
    >>> cell = agent.explain([0.5]).cell
    >>> cell.visits, cell.depth
    (20, 3)
    """

    action: Any  #: as the environment takes it
    label: str  #: action in words
    action_low: tuple[float, ...]  #: low end of the action box; the number of a discrete action
    action_high: tuple[float, ...]  #: its high end; the same number again
    q: float  #: value estimate
    visits: int | None  #: how often it was visited; None for an alternative
    depth: int | None  #: number of splits above; None for an alternative
    behind: float  #: by how much its Q is below that of the cell that decides, or of the action played


@dataclass(frozen=True)
class Border:
    """The end of an interval on the way up or down from an observed number, all else equal.

    Examples
    --------
    >>> import spaql
    >>> agent = spaql.SPAQL("oil", seed=0).learn(iterations=50)
    >>> [position] = agent.explain([0.5]).observation
    >>> position.below.value, position.below.label
    (0.5, 'next position 0.875')
    """

    value: float  #: rounded for readers; of an integer the first beyond it; a periodic number may pass its end
    beyond: float  #: the nearest double beyond it, exactly: on the way up the first of the other side, else the last
    distance: float  #: from the observed number
    action: Any  #: just beyond it, as the environment takes it
    label: str  #: action in words


@dataclass(frozen=True)
class Observed:
    """One observed number.

    Examples
    --------
    >>> import spaql
    >>> agent = spaql.SPAQL("oil", seed=0).learn(iterations=50)
    >>> [position] = agent.explain([0.5]).observation
    >>> position.name, position.value, position.cell_low, position.cell_high
    ('position', 0.5, 0.5, 0.625)
    """

    name: str  #: of the number
    value: float  #: as observed
    outside: bool  #: whether it is outside its range, and clipped to it
    low: float  #: low end of its range
    high: float  #: high end of its range
    whole: bool  #: whether it is an integer
    periodic: bool  #: whether it comes round
    cell_low: float  #: low end of the cell that decides
    cell_high: float  #: its high end
    below: Border | None  #: lower border of that cell; None at the end of the range
    above: Border | None  #: upper border of that cell; None at the end of the range
    change_below: Border | None  #: the nearest border where the action changes, going down; None without one
    change_above: Border | None  #: the same, going up

    def wrap(self, border: Border) -> float:
        """Return where a border is in the range of the number, should the way to it pass the end of a period."""
        return self.low + (border.value - self.low) % (self.high - self.low) if self.periodic else border.value

    def describe_change(self, border: Border | None, value: str, direction: str) -> str:
        """Return the action beyond a border on the way "up" or "down", as text."""
        if border is None:
            return "never"
        start = f"{'below' if direction == 'down' else 'from'} {value}"
        if self.whole:
            start = f"from {value} {direction}"
        wraps = ", wrapping around" if self.wrap(border) != border.value else ""
        return f"{start}{wraps}: {border.label}"


@dataclass(frozen=True)
class Explanation:
    """The action for one observation, and why; `agent.explain` makes it, and `str` gives the text.

    Examples
    --------
    >>> import spaql
    >>> agent = spaql.SPAQL("oil", seed=0).learn(iterations=50)
    >>> print(agent.explain([0.5]))
    At position 0.5: next position 0.6875.
    The cell that decides has Q 5.548 after 20 visits, with a bonus of 0.1118.
    <BLANKLINE>
    Instead, the best of 4:
    action                    Q  behind  visits
    -------------------------------------------
    next position 0.5625  5.365  0.1833      16
    next position 0.875   5.251  0.2972       9
    next position 0.125   5.242   0.306       5
    <BLANKLINE>
    All else equal:
    number    value  cell          changes going down              changes going up
    ----------------------------------------------------------------------------------------------
    position  0.5    0.5 to 0.625  below 0.5: next position 0.875  from 0.75: next position 0.8125
    """

    observation: tuple[Observed, ...]  #: the observed numbers, each with the borders below and above it
    step: int | None  #: time step of a time-variant policy, else None
    action: Any  #: as the environment takes it
    label: str  #: action in words
    cell: Cell  #: the cell that decides
    bonus: float | None  #: its current bonus for exploration, scaling / sqrt(visits); None for agents without one
    runners_up: tuple[Cell, ...]  #: other relevant cells by falling Q; ties in the order in which they would be chosen
    relevant: int  #: number of relevant cells in all, or of actions compared
    q_here: float | None = None  #: Q of the action at this very observation; None where only that of its cell is known

    def to_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON.

        Returns
        -------
        dict
            The fields, and those of cells and borders, by name.
        """
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self), default=lambda array: array.tolist()))
        return plain

    def __str__(self) -> str:
        parts = ["\n".join(self._sentences())]
        for table in self._tables():
            parts.append(f"{table.caption}\n{table.text()}")
        return "\n\n".join(parts)

    def _repr_html_(self) -> str:
        head, *sentences = self._sentences()
        return render(head, sentences, tables=[table.html() for table in self._tables()])

    def _sentences(self) -> list[str]:
        """Return the decision and what it rests on."""
        numbers = numerals([one.value for one in self.observation])
        state = ", ".join(f"{one.name} {number}" for one, number in zip(self.observation, numbers, strict=True))
        step = "" if self.step is None else f" in step {self.step}"
        lines = [f"At {state}{step}: {self.label}."]
        lines += [f"{one.name} is outside its range and clipped to it." for one in self.observation if one.outside]
        bonus = "" if self.bonus is None else f", with a bonus of {self.bonus:.4g}"
        visits = f"{self.cell.visits or 0:,} visit{'' if self.cell.visits == 1 else 's'}"
        lines.append(f"The cell that decides has Q {self.cell.q:.4g} after {visits}{bonus}.")
        if self.relevant == 1:
            alone = self.cell.action_low == self.cell.action_high
            lines += ["", "No other action has a Q here." if alone else "All actions share one cell here."]
        return lines

    def _tables(self) -> Iterator[Table]:
        """Yield the other actions, and what would change the decision."""
        rest = self.relevant - 1
        if self.runners_up:
            head = "Instead" if len(self.runners_up) == rest else f"Instead, the best of {rest}"
            head += ":" if self.q_here is None else f" ({self.label} has Q {self.q_here:.4g} here):"
            rows = [[one.label, f"{one.q:.4g}", f"{one.behind:.4g}"] for one in self.runners_up]
            counts = [f"{one.visits:,}" for one in self.runners_up if one.visits is not None]
            if counts:
                rows = [[*row, count] for row, count in zip(rows, counts, strict=True)]
            yield Table(["action", "Q", "behind", "visits"][: len(rows[0])], rows, head)
        rows = []
        for one in self.observation:
            borders = one.change_below, one.change_above
            values = [one.wrap(border) if border else one.value for border in borders]
            value, low, high, *texts = numerals([one.value, one.cell_low, one.cell_high, *values])
            changes = map(one.describe_change, borders, texts, ("down", "up"))
            rows.append([one.name, value, f"{low} to {high}", *changes])
        header = ["number", "value", "cell", "changes going down", "changes going up"]
        yield Table(header, rows, "All else equal:", left=5)


def make_observation(
    problem: Playable, numbers: Sequence[float] | Mapping[str, float], names: Sequence[str] | None = None
) -> Any:
    """Return the observation with these numbers, by their names or in the order of these.

    `names` are the user's own for one call, see `spaql.problems.labels`.
    """
    names = make_labels(problem, names).states
    if isinstance(numbers, Mapping):
        numbers = [check_number(value, f"observation: {name}") for name, value in order_numbers(names, numbers)]
    if len(numbers) != len(names):
        raise ParameterError(f"observation: expected {len(names)} numbers ({', '.join(names)}), got {len(numbers)}")
    return problem.unflatten(np.array(numbers, dtype=float))


def read_observation(problem: Playable, observation: Any, names: Sequence[str]) -> Any:
    """Return an observation as `predict` takes it; it may be a mapping from the names of numbers to these.

    Keys of a Dict space come first: a mapping of these is an observation already.
    """
    if not isinstance(observation, Mapping):
        return observation
    parts = problem.unflatten(np.zeros(len(names)))
    if isinstance(parts, Mapping) and not any(key in names and key not in parts for key in observation):
        return observation
    return make_observation(problem, observation, names)


def explain(
    problem: Playable,
    partition: Partition,
    tree: Tree,
    labels: Labels,
    observation: Any,
    *,
    step: int | None,
    scaling: float | None,
    runners_up: int,
    alternatives: Alternatives = lambda point: None,
) -> Explanation:
    """Explain the decision of a partition's policy for one observation; see `Agent.explain`.

    `scaling` is that of the bonus for exploration, None for agents without one.  `alternatives` returns, for a point of
    the unit cube, other actions in the unit cube or their numbers `[k, actions]` and their Q `[k]`, which are then
    listed instead of other cells; or None.
    """
    numbers, single = problem.flatten(read_observation(problem, observation, labels.states))
    if not single:
        raise ParameterError(f"observation: expected one, got {len(numbers)}; explain them one by one")
    if not np.isfinite(numbers).all():
        raise ParameterError(f"observation: expected finite numbers, got {numbers[0]}")
    point = tree.states.project(numbers, tree.periodic)[0]
    relevant = _find_relevant(partition, step or 0, point)
    cells = _make_cells(problem, partition, labels, relevant)
    line = _Line(problem, tree, labels, step or 0, numbers[0], point)
    low, high = (side[partition.forest.cells["node"][relevant[0]]] for side in partition.node_boxes())
    observed = tuple(line.describe(d, low[d], high[d]) for d in range(len(point)))
    bonus = None if scaling is None else scaling / float(np.sqrt(max(cells[0].visits or 0, 1)))
    q_here, first, others = None, cells[0], cells[1:]
    if (given := alternatives(point)) is not None:
        q_here, others = _compare(problem, labels, first, *given)
    listed = tuple(others[:runners_up])
    return Explanation(observed, step, first.action, first.label, first, bonus, listed, len(others) + 1, q_here)


def _find_relevant(partition: Partition, root: int, point: Floats) -> list[int]:
    """Return cells relevant to a state by falling Q; of ties the coarser first, then the newer, as in the kernels."""
    nodes, cells = partition.forest.nodes, partition.forest.cells
    relevant: list[int] = []
    node = root
    while True:
        cell = int(nodes["head"][node])
        while cell != NONE:
            relevant.append(cell)
            cell = int(cells["next"][cell])
        child = int(nodes["child"][node])
        if child == NONE:
            return sorted(relevant, key=lambda cell: -float(cells["q"][cell]))  # stable
        node = child + int(point[nodes["dim"][node]] >= nodes["cut"][node])


def _make_cells(problem: Playable, partition: Partition, labels: Labels, numbers: list[int]) -> list[Cell]:
    """Return cells by number; the first decides."""
    boxes, records = partition.forest.boxes[numbers], partition.forest.cells[numbers]
    middles = problem.actions.from_unit(boxes[:, 0] + 0.5 * (boxes[:, 1] - boxes[:, 0]))
    low, high = (problem.actions.from_unit(boxes[:, side]).tolist() for side in range(2))
    q, visits, depth = (records[name].tolist() for name in ("q", "visits", "depth"))
    columns = map(tuple, low), map(tuple, high), q, visits, depth, [q[0] - each for each in q]
    rows = zip(_decode(problem, labels, middles), *columns, strict=True)
    return [Cell(*action, *row) for action, *row in rows]


def _decode(problem: Playable, labels: Labels, values: Floats) -> list[tuple[Any, str]]:
    """Return actions `[n, actions]` in the problem's units as the environment takes them, and in words."""
    texts = label_actions(problem, labels, values, np.asarray(problem.decode(values, False)))
    return [(problem.decode(values[k : k + 1], True), text) for k, text in enumerate(texts)]


def _compare(
    problem: Playable, labels: Labels, first: Cell, actions: Floats, q: Floats
) -> tuple[float | None, list[Cell]]:
    """Return the Q of the action played, if it is among the alternatives, and all others by falling Q, each once."""
    order = np.argsort(-np.asarray(q), kind="stable")
    values, worths = problem.actions.from_unit(np.asarray(actions, float)[order]), np.asarray(q, float)[order].tolist()
    seen: dict[Any, tuple[float, Any, str, tuple[float, ...]]] = {}
    for worth, value, (action, label) in zip(worths, values.tolist(), _decode(problem, labels, values), strict=True):
        seen.setdefault(_to_key(action), (worth, action, label, tuple(value)))
    played = seen.pop(_to_key(first.action), None)
    q_here, base = (None, first.q) if played is None else (played[0], played[0])
    rows = seen.values()
    return q_here, [Cell(action, label, at, at, worth, None, None, base - worth) for worth, action, label, at in rows]


def _to_key(action: Any) -> tuple[Any, ...]:
    """Return an action as something that equals that of an equal action."""
    return tuple(np.ravel(action).tolist())


@dataclass(frozen=True, eq=False)
class _Line:
    """Decisions along each observed number, all else equal."""

    problem: Playable
    tree: Tree
    labels: Labels
    root: int
    numbers: Floats  # [states] in their own units
    point: Floats  # [states] in the unit cube

    def describe(self, dim: int, low: float, high: float) -> Observed:
        """Describe one number; `low` and `high` are the side of the cell that decides, in the unit cube."""
        states, value, periodic = self.tree.states, float(self.numbers[dim]), dim in self.tree.periodic
        sides = self.tree.to_units(dim, np.array([low, high])).tolist()
        borders: list[Border | None] = [None, None]
        if low > 0.0 or high < 1.0:
            borders = [self._find_border(dim, np.array([cut]), up, False) for up, cut in enumerate((low, high))]
        cuts = np.append(np.unique(self.tree.cuts[self.tree.dims == dim]), 1.0)  # and the end of the range
        changes = [self._find_border(dim, cuts, up, True) for up in range(2)]
        outside = not periodic and not states.low[dim] <= value <= states.high[dim]
        ends, whole = (float(states.low[dim]), float(states.high[dim])), bool(self.problem.whole[dim])
        return Observed(self.labels.states[dim], value, outside, *ends, whole, periodic, *sides, *borders, *changes)

    def _sort_cuts(self, dim: int, cuts: Floats, up: int) -> tuple[Floats, Floats]:
        """Return the cuts on the way up or down, nearest first, and in which period each is."""
        at = self.point[dim]
        if dim not in self.tree.periodic:
            cuts = cuts[cuts < 1.0]
            cuts = cuts[cuts > at] if up else cuts[(cuts <= at) & (cuts > 0.0)][::-1]
            return cuts, np.zeros(len(cuts))
        low, high = self.tree.states.low[dim], self.tree.states.high[dim]
        period = np.floor((self.numbers[dim] - low) / (high - low))
        cuts = np.unique(cuts % 1.0)  # the end of a period is the start of the next
        parts = [cuts[cuts > at], cuts[cuts <= at]] if up else [cuts[cuts <= at][::-1], cuts[cuts > at][::-1]]
        periods = period + np.repeat([0.0, 1.0 if up else -1.0], [len(part) for part in parts])
        return np.concatenate(parts), periods

    def _find_border(self, dim: int, cuts: Floats, up: int, change: bool) -> Border | None:
        """Return the first of the cuts on the way up or down, or the first beyond which the action changes."""
        cuts, periods = self._sort_cuts(dim, cuts, up)
        values = self.tree.to_units(dim, cuts, periods)
        beyond = self.tree.find_thresholds(np.full(len(cuts), dim), cuts, periods)
        if self.problem.whole[dim]:
            values = beyond = np.ceil(beyond) if up else np.ceil(beyond) - 1.0
            if dim not in self.tree.periodic:
                inside = (beyond >= self.tree.states.low[dim]) & (beyond <= self.tree.states.high[dim])
                values = beyond = beyond[inside]
        elif not up:
            beyond = np.nextafter(beyond, -np.inf)
        rows = np.repeat(self.numbers[None], len(beyond), axis=0)
        rows[:, dim] = beyond
        points = np.concatenate([self.point[None], self.tree.states.project(rows, self.tree.periodic)])
        choices = self.tree.decide(points, np.full(len(points), self.root))
        wanted = np.flatnonzero(choices[1:] != choices[0]) if change else np.arange(len(beyond))
        if not len(wanted):
            return None
        k, choice = wanted[0], choices[1 + wanted[0]]
        label = label_actions(self.problem, self.labels, self.tree.middles[[choice]], self.tree.actions[[choice]])[0]
        action = self.problem.decode(self.tree.middles[[choice]], True)
        value = float(values[k])
        return Border(value, float(beyond[k]), abs(value - float(self.numbers[dim])), action, label)
