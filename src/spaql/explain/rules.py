"""The greedy policy as a short list of rules: the first that fits decides, and the last fits always.

What the rules say is what `predict` does, everywhere and at every border; `spaql.explain.decision_list` finds them on the decision
tree of the policy.  Text and Markdown write borders with four digits, or with more where two of them would look the
same; `to_dict` and `json` have the exact ones, so that x >= low and x < high on the observed number itself decide as
`predict` does, to the last bit.  Only a number that comes round must first be made a fraction of its turn,
u = (x - low) / (high - low) less its whole part, which is then compared with exact `fractions`.

What is outside the range of a number counts as its border, so that the end of a range is no condition.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spaql.explain.decision_list import Cover, cover, ordered
from spaql.formatting import Table, numerals
from spaql.partition.jit import kernel
from spaql.partition.kernels import NONE
from spaql.partition.partition import Partition
from spaql.partition.spaces import Floats
from spaql.partition.tree import Tree
from spaql.problems.base import Playable
from spaql.problems.labels import Words, spoken, words


class Condition(NamedTuple):
    """low <= number < high; for a number that comes round low may be above high, and the one or the other holds."""

    name: str
    low: float | None  # None: no limit
    high: float | None


@dataclass(frozen=True, eq=False)
class Rule:
    """What to do where all conditions hold and no earlier rule fits.

    Attributes
    ----------
    conditions
        None in the last rule of a list.
    action, words
        What is done, as the environment takes it, and in words.
    choice
        Number of the action in `agent.tree()`.
    share
        Of all visits, about how many were where this rule decides; None where nothing was visited.
    """

    conditions: tuple[Condition, ...]
    action: Any
    words: str
    choice: int
    share: float | None


class Rules(Sequence[Rule]):
    """A policy as rules, of which the first that fits decides; `agent.rules()` makes them.

    `len`, indexing and iteration give every `Rule`, `str` the text.  The last rule has no conditions.

    Attributes
    ----------
    problem, step, names
        What they are for, the time step for agents whose policy changes with it, and the observed numbers.
    cells, leaves
        Of the partition, and of its decision tree, at that step.
    """

    def __init__(
        self,
        problem: Playable,
        tree: Tree,
        called: Words,
        *,
        step: int | None = None,
        cells: int = 0,
        visits: tuple[Floats, Floats] | None = None,
    ) -> None:
        self.problem = problem
        self.step = step
        self.cells = cells
        self.leaves = len(tree.leaves(step or 0)[0])
        self.names = tuple(called.states)
        self._tree = tree
        found = cover(tree, step or 0, problem.whole)
        if visits is not None and visits[1].sum() > 0.0:
            found = ordered(found, _shares(found, *visits)[:-1])
            shares = _shares(found, *visits).tolist()
        else:
            shares = [None] * (len(found.choices) + 1)
        self._choices = np.append(found.choices, found.otherwise)
        self._cuts = _limits(found)
        self._exact = _exact(tree, self._cuts)
        self._written = spoken(problem, called, tree.middles, tree.actions)
        self._rules = [
            Rule(self._conditions(place), tree.actions[choice], self._written[choice], int(choice), share)
            for place, (choice, share) in enumerate(zip(self._choices, shares, strict=True))
        ]

    def __len__(self) -> int:
        return len(self._rules)

    def __getitem__(self, place: Any) -> Any:
        return self._rules[place]

    def __iter__(self) -> Iterator[Rule]:
        return iter(self._rules)

    def __repr__(self) -> str:
        return f"Rules({len(self)} for {self.problem.name!r})"

    def told(self) -> str:
        """The text, with a line above and below it that says how to read it, and how much shorter it is."""
        step = "" if self.step is None else f" in step {self.step}"
        cells = f"{self.cells:,} cells"
        leaves = f"{self.leaves:,} lea{'f' if self.leaves == 1 else 'ves'}"
        shares = "; on the right, of all visits, the share that it decides" if self[0].share is not None else ""
        head = f"{self.problem.name}{step}: the first line that fits decides{shares}."
        states = self._tree.states
        for d in self._tree.periodic:  # or a number from another turn would be read wrongly
            head += f"  {self.names[d]} comes round, from {states.low[d]:.4g} to {states.high[d]:.4g}."
        return f"{head}\n\n{self}\n\n{len(self):,} rules for {leaves} of the decision tree, from {cells}."

    def __str__(self) -> str:
        lines = [f"{'if ' + text if text else 'otherwise'}: {rule.words}" for text, rule in self._told()]
        shares = [_percent(rule.share) for rule in self]
        if any(shares):
            width = max(map(len, lines))
            lines = [f"{line.ljust(width)}  {share.rjust(5)}" for line, share in zip(lines, shares, strict=True)]
        return "\n".join(lines)

    def markdown(self) -> str:
        """A table."""
        rows = [[str(n), text or "otherwise", rule.words] for n, (text, rule) in enumerate(self._told(), 1)]
        head, shares = ["", "if", "then"], [_percent(rule.share) for rule in self]
        if any(shares):
            head, rows = [*head, "visits"], [[*row, share] for row, share in zip(rows, shares, strict=True)]
        return Table(head, rows, left=3).markdown()

    def to_dict(self) -> dict[str, Any]:
        """Everything, with exact borders, ready for JSON."""
        states, whole = self._tree.states, self.problem.whole
        numbers = [
            {
                "name": name,
                "low": float(states.low[d]),
                "high": float(states.high[d]),
                "periodic": d in self._tree.periodic,
                "whole": bool(whole[d]),
            }
            for d, name in enumerate(self.names)
        ]
        rules = [
            {
                "conditions": [self._told_exactly(place, d) for d in self._bounded(place)],
                "action": np.asarray(rule.action).tolist(),
                "words": rule.words,
                "choice": rule.choice,
                "share": rule.share,
            }
            for place, rule in enumerate(self)
        ]
        return {"problem": self.problem.name, "step": self.step, "numbers": numbers, "rules": rules}

    def json(self) -> str:
        """The same as text."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    def decide(self, observation: Any) -> Any:
        """The action for one observation, or many, by the rules alone."""
        numbers, single = self.problem.flat(observation)
        fitting = self._choices[self._first(numbers)]
        return self._tree.actions[fitting[0] if single else fitting]

    def _first(self, numbers: Floats) -> NDArray[np.int64]:
        """The first rule that fits each row of observed numbers `[n, states]`."""
        compared = np.array(numbers)
        turning = list(self._tree.periodic)
        compared[:, turning] = self._tree.states.placed(numbers, turning)[:, turning]
        found = np.empty(len(compared), np.int64)
        first_fit(compared, *self._exact, found)
        return found

    def _bounded(self, place: int) -> list[int]:
        """The numbers that a rule has conditions on."""
        low, high = self._cuts
        return np.flatnonzero(np.isfinite(low[place]) | np.isfinite(high[place])).tolist()

    def _conditions(self, place: int) -> tuple[Condition, ...]:
        told = (self._told_exactly(place, d) for d in self._bounded(place))
        return tuple(Condition(one["name"], one["low"], one["high"]) for one in told)

    def _told_exactly(self, place: int, d: int) -> dict[str, Any]:
        """One condition."""
        ends = [float(side[place, d]) for side in self._exact]
        if d in self._tree.periodic:
            ends = self._tree.nominal(d, np.array(ends)).tolist()
        low, high = (end if np.isfinite(end) else None for end in ends)
        told = {"name": self.names[d], "number": d, "low": low, "high": high}
        if d in self._tree.periodic:
            told["fractions"] = [float(side[place, d]) if np.isfinite(side[place, d]) else None for side in self._exact]
        return told

    def _told(self) -> Iterator[tuple[str, Rule]]:
        """The conditions of every rule as text, and the rule."""
        borders = [_borders(self._tree, d, *self._cuts) for d in range(len(self.names))]
        whole = self.problem.whole
        for place, rule in enumerate(self):
            texts = []
            for d in self._bounded(place):
                low, high = (float(side[place, d]) for side in self._cuts)
                if whole[d]:
                    ends = self._tree.first_whole(d, np.array([low, high]))
                    texts.append(_of_whole(self.names[d], *(int(e) if np.isfinite(e) else None for e in ends)))
                else:
                    texts.append(_interval(self.names[d], borders[d].get(low), borders[d].get(high), low > high))
            yield " and ".join(texts), rule


def rules_of(
    problem: Playable,
    partition: Partition,
    tree: Tree,
    *,
    step: int | None,
    inherits: bool,
    names: Sequence[str] | None = None,
    actions: Sequence[str] | None = None,
) -> Rules:
    """The rules of a partition's policy; `inherits` tells whether the parts of a cell begin with all its visits."""
    cells = int((partition.forest.cells["root"][: len(partition)] == (step or 0)).sum())
    visits = visited(partition, step or 0, inherits)
    return Rules(problem, tree, words(problem, names, actions), step=step, cells=cells, visits=visits)


@kernel()
def first_fit(rows, low, high, found):
    """The first rule that fits each row [n, states]: `low` and `high` [rules, states]; fills `found` [n]."""
    for row in range(rows.shape[0]):
        rule, fits = -1, False
        while not fits:
            rule += 1
            fits = True
            for d in range(rows.shape[1]):
                above, below = rows[row, d] >= low[rule, d], rows[row, d] < high[rule, d]
                if not (above and below) and not (low[rule, d] > high[rule, d] and (above or below)):
                    fits = False
                    break
        found[row] = rule


def visited(partition: Partition, step: int, inherits: bool) -> tuple[Floats, Floats]:
    """Middles of all leaves of the state tree (unit cube) `[n, states]`, and about how often each was visited `[n]`.

    A cell's visits are spread evenly over its states.  Where its parts begin with all the visits of a cell, those
    visits are shared out among them first.
    """
    nodes, cells = (partition.forest.nodes[: partition.forest.used[0]], partition.forest.cells[: len(partition)])
    weights = cells["visits"].astype(float)
    if inherits:
        weights += _inherited(np.arange(int(cells["depth"].max()) + 1), partition.growth(1)[1])[cells["depth"]]
    here = cells["root"] == step
    mass: Floats = np.bincount(cells["node"][here], np.maximum(weights[here], 0.0), len(nodes)).astype(float)
    child, belongs = nodes["child"].astype(np.int64), np.zeros(len(nodes), np.bool_)
    belongs[step] = True
    for level in range(int(nodes["level"].max()) + 1):
        inner = np.flatnonzero((nodes["level"] == level) & (child != NONE))
        for side in range(2):
            mass[child[inner] + side] += 0.5 * mass[inner]
            belongs[child[inner] + side] = belongs[inner]
    leaves = np.flatnonzero(belongs & (child == NONE))
    low, high = partition.node_boxes()
    return 0.5 * (low[leaves] + high[leaves]), mass[leaves]


def _inherited(depths: NDArray[np.int64], parts: int) -> Floats:
    """What to add to the visits of a cell of each depth for its fair share of them.

    The published agents split at 4^depth visits, with which each of the parts begins.
    """
    fair = np.zeros(len(depths))  # of a cell of each depth that is about to split
    added = np.zeros(len(depths))
    fair[0] = 1.0
    for depth in depths[1:]:
        added[depth] = fair[depth - 1] / parts - 4.0 ** (depth - 1)
        fair[depth] = 4.0**depth + added[depth]
    return added


def _shares(found: Cover, middles: Floats, weights: Floats) -> Floats:
    """Of all weight, how much lies where each box decides, and where none does, `[boxes + 1]`."""
    deciding = np.empty(len(middles), np.int64)
    first_fit(middles, *_limits(found), deciding)
    return np.bincount(deciding, weights / weights.sum(), len(found.choices) + 1).astype(float)


def _limits(found: Cover) -> tuple[Floats, Floats]:
    """Boxes as limits, infinite where there is none, with a last one for everything."""
    low, high = found.low, found.high
    none = np.full((1, low.shape[1]), np.inf)
    free = high - low >= 1.0
    wrapped = high > 1.0
    least = np.where(free | ((low == 0.0) & ~wrapped), -np.inf, low)
    most = np.where(free | (high == 1.0), np.inf, np.where(wrapped, high - 1.0, high))
    return np.concatenate([least, -none]), np.concatenate([most, none])


def _exact(tree: Tree, cuts: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """The limits in the observation's own units, exact; those of numbers that come round stay as they are."""
    low, high = (side.copy() for side in cuts)
    for side in (low, high):
        rows, dims = np.nonzero(np.isfinite(side) & ~np.isin(np.arange(side.shape[1]), tree.periodic))
        side[rows, dims] = tree.reached(dims, side[rows, dims])
    return low, high


def _borders(tree: Tree, d: int, low: Floats, high: Floats) -> dict[float, str]:
    """How all limits of a number are written."""
    cuts = np.unique(np.concatenate([low[:, d], high[:, d]]))
    cuts = cuts[np.isfinite(cuts)]
    return dict(zip(cuts.tolist(), numerals(tree.nominal(d, cuts).tolist()), strict=True))


def _interval(name: str, low: str | None, high: str | None, wrapped: bool) -> str:
    if wrapped:
        return f"({name} >= {low} or {name} < {high})"
    if low is None:
        return f"{name} < {high}"
    return f"{name} >= {low}" if high is None else f"{low} <= {name} < {high}"


def _of_whole(name: str, first: int | None, after: int | None) -> str:
    """The same for whole numbers from `first` to the one before `after`."""
    if first is not None and after is not None and first >= after:
        return f"({name} >= {first} or {name} <= {after - 1})"
    if first is None or after is None:
        return f"{name} <= {after - 1}" if after is not None else f"{name} >= {first}"
    return f"{name} = {first}" if after == first + 1 else f"{first} <= {name} <= {after - 1}"


def _percent(share: float | None) -> str:
    if share is None:
        return ""
    return f"{share:.0%}" if share >= 0.1 or share == 0.0 else f"{share:.1%}" if share >= 0.0005 else "<0.1%"
