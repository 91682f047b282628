"""The greedy policy as a short list of rules: the first that matches decides, and the last always matches.

The rules decide as `predict` does, everywhere and at every border; `spaql.explain.decision_list` finds them on the
policy's decision tree.  Text and Markdown round borders; `to_dict` and `json` hold the exact ones, so that x >= low and
x < high on the observed number itself decide as `predict`, to the last bit.  Only a periodic number must first be made
a fraction of its period, u = (x - low) / (high - low) less its floor, and compared with exact `fractions`.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spaql.explain.decision_list import DecisionList, make_decision_list, sort_by_weight
from spaql.formatting import Table, numerals
from spaql.notebook import render
from spaql.partition.kernels import NONE
from spaql.partition.partition import Partition, group_by_level
from spaql.partition.spaces import Floats
from spaql.partition.tree import Tree
from spaql.problems.base import Playable
from spaql.problems.labels import Labels, label_actions


class Condition(NamedTuple):
    """Limits of a number: low <= number < high.

    For a periodic number low may be above high, and then one of the two must hold.

    Examples
    --------
    >>> import spaql
    >>> agent = spaql.SPAQL("oil", seed=0).learn(iterations=50)
    >>> agent.rules()[0].conditions[0]
    Condition(name='position', low=None, high=0.25)
    """

    name: str  #: of the number
    low: float | None  #: lower limit, which belongs to it; None without one
    high: float | None  #: upper limit, which does not; None without one


@dataclass(frozen=True, eq=False)
class Rule:
    """The action where all conditions hold and no earlier rule matches.

    Examples
    --------
    >>> import spaql
    >>> agent = spaql.SPAQL("oil", seed=0).learn(iterations=50)
    >>> rule = agent.rules()[0]
    >>> rule.label, round(rule.share, 2)
    ('next position 0.625', 0.28)
    """

    conditions: tuple[Condition, ...]  #: empty in the last rule of a list
    action: Any  #: as the environment takes it
    label: str  #: action in words
    choice: int  #: number of the action in `agent.tree()`
    share: float | None  #: of all visits, about; None where nothing was visited


class Rules(Sequence[Rule]):
    """A policy as rules of which the first that matches decides; `agent.rules()` makes them.

    `len`, indexing and iteration give every `Rule`, `str` the text.  The last rule has no conditions.

    Attributes
    ----------
    problem, step, names
        The problem, the time step of a time-variant policy, and the names of the observed numbers.
    cells, leaves
        Number of cells of the partition and of leaves of its decision tree, at that step.

    Examples
    --------
    >>> import spaql
    >>> agent = spaql.SPAQL("oil", seed=0).learn(iterations=50)
    >>> rules = agent.rules()
    >>> len(rules), rules.cells, rules.leaves
    (4, 22, 4)
    >>> rules.decide([0.5]) == agent.predict([0.5])[0]
    array([ True])
    """

    def __init__(
        self,
        problem: Playable,
        tree: Tree,
        labels: Labels,
        *,
        step: int | None = None,
        partition: Partition | None = None,
        inherits: bool = False,  # whether the children of a cell start with all its visits, as in the paper
        visits: tuple[Floats, Floats] | None = None,  # instead: points `[n, states]` of the unit cube and their weights
        shares: Floats | None = None,  # instead: `_shares` of the same rules
    ) -> None:
        self.problem, self.step, self.names, self._tree = problem, step, tuple(labels.states), tree
        self.leaves, self.cells = len(tree.leaves(step or 0)[0]), 0
        self._whole = np.append(problem.whole, np.zeros(len(self.names) - len(problem.whole), np.bool_))
        boxes = make_decision_list(tree, step or 0, self._whole)
        count = len(boxes.choices) + 1
        if partition is not None:
            self.cells = int((partition.forest.cells["root"][: len(partition)] == (step or 0)).sum())
            if visits is None:
                visits = count_visits(partition, step or 0, inherits)
        if shares is not None and shares.shape == (2, count):
            boxes = sort_by_weight(boxes, shares[0, :-1])
        elif visits is not None and visits[1].sum() > 0.0:
            before = _share_visits(boxes, *visits)
            boxes = sort_by_weight(boxes, before[:-1])
            shares = np.stack([before, _share_visits(boxes, *visits)])
        else:
            shares = None
        self._shares = shares  # of the visits that each rule decides, before they are sorted and after `[2, rules]`
        self._choices = np.append(boxes.choices, boxes.default)
        self._limits = _make_limits(boxes)
        self._bounded = np.isfinite(self._limits[0]) | np.isfinite(self._limits[1])  # whether there is a condition
        self._exact = self._limits.copy()  # in the observation's own units; those of periodic numbers stay fractions
        at = np.isfinite(self._limits) & ~np.isin(np.arange(len(self.names)), tree.periodic)
        self._exact[at] = tree.find_thresholds(np.nonzero(at)[2], self._limits[at])
        texts = label_actions(problem, labels, tree.middles, tree.actions)
        self._rules = []
        each = [None] * count if shares is None else shares[1].tolist()
        for place, (choice, share) in enumerate(zip(self._choices, each, strict=True)):
            conditions = [Condition(c["name"], c["low"], c["high"]) for c in self._make_conditions(place)]
            self._rules.append(Rule(tuple(conditions), tree.actions[choice], texts[choice], int(choice), share))

    def __len__(self) -> int:
        return len(self._rules)

    def __getitem__(self, place: Any) -> Any:
        return self._rules[place]

    def __repr__(self) -> str:
        return f"Rules({len(self)} for {self.problem.name!r})"

    def __str__(self) -> str:
        lines = [f"{'if ' + text if text else 'otherwise'}: {rule.label}" for text, rule in self._format_rules()]
        if self[0].share is not None:
            width = max(map(len, lines))
            pairs = zip(lines, self, strict=True)
            lines = [f"{line.ljust(width)}  {_format_share(rule.share):>5}" for line, rule in pairs]
        return "\n".join(lines)

    def describe(self) -> str:
        """Return the text with a line above that says how to read it and one below with the sizes.

        Returns
        -------
        str
            Lines.
        """
        step = "" if self.step is None else f", {self._format_steps()}"
        shares = "; on the right, its share of all visits" if self[0].share is not None else ""
        head = f"{self.problem.name}{step}: the first rule that matches decides{shares}."
        states = self._tree.states
        for d in self._tree.periodic:  # or a number from another period would be misread
            head += f"  {self.names[d]} is periodic, from {states.low[d]:.4g} to {states.high[d]:.4g}."
        counted = (len(self), "rule"), (self.cells, "cell")
        leaves = f"{self.leaves:,} lea{'f' if self.leaves == 1 else 'ves'}"
        rules, cells = (f"{count:,} {word}{'' if count == 1 else 's'}" for count, word in counted)
        return f"{head}\n\n{self}\n\n{rules} for {leaves} of the decision tree, from {cells}."

    @property
    def steps(self) -> tuple[int, int]:
        """The first and the last of the consecutive time steps around this one that decide alike."""
        roots, first, last = self._tree.roots, int(self.step or 0), int(self.step or 0)
        while first > 0 and roots[first - 1] == roots[last]:
            first -= 1
        while last + 1 < len(roots) and roots[last + 1] == roots[first]:
            last += 1
        return first, last

    def _format_steps(self) -> str:
        first, last = self.steps
        span = f"step {first}" if first == last else f"steps {first} to {last}"
        return f"{span} of 0 to {len(self._tree.roots) - 1}, as the policy changes with the time step"

    def table(self, caption: str = "", note: str = "") -> Table:
        """Return a table with a row for each rule.

        Parameters
        ----------
        caption, note
            Texts above and below the table.

        Returns
        -------
        Table
            With columns for the conditions, the action and its share of the visits.
        """
        head = ["", "if", "then"]
        rows = [[str(n), text or "otherwise", rule.label] for n, (text, rule) in enumerate(self._format_rules(), 1)]
        if self[0].share is not None:
            head = [*head, "visits"]
            rows = [[*row, _format_share(rule.share)] for row, rule in zip(rows, self, strict=True)]
        return Table(head, rows, caption, note, left=3)

    def markdown(self) -> str:
        """Return the table as Markdown.

        Returns
        -------
        str
            Lines.
        """
        return self.table().markdown()

    def _repr_html_(self) -> str:
        head, *_, sizes = self.describe().split("\n\n")
        return render(head, tables=[self.table().html()], note=sizes)

    def to_dict(self) -> dict[str, Any]:
        """Return everything, with exact borders, ready for JSON.

        Returns
        -------
        dict
            Sizes, and the rules with their conditions.
        """
        states, whole = self.problem.states, self.problem.whole
        observation = [
            {"name": self.names[d], "low": float(states.low[d]), "high": float(states.high[d])}
            | {"periodic": d in self._tree.periodic, "whole": bool(whole[d])}
            for d in range(states.dimensions)
        ]
        rules = [
            vars(rule) | {"conditions": self._make_conditions(place), "action": np.asarray(rule.action).tolist()}
            for place, rule in enumerate(self)
        ]
        return {"problem": self.problem.name, "step": self.step, "observation": observation, "rules": rules}

    def json(self) -> str:
        """Return `to_dict` as text.

        Returns
        -------
        str
            A JSON object.
        """
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    def decide(self, observation: Any) -> Any:
        """Return the action for one observation, or many, by the rules alone.

        Parameters
        ----------
        observation
            As `predict` takes it.

        Returns
        -------
        action
            As `predict` returns it.
        """
        numbers, single = self.problem.flatten(observation)
        choices = self._choices[self._match(numbers)]
        return self._tree.actions[choices[0] if single else choices]

    def _match(self, numbers: Floats) -> NDArray[np.int64]:
        """Return the first rule that matches each row of observed numbers `[n, states]`."""
        values, periodic = np.array(numbers), list(self._tree.periodic)
        values[:, periodic] = self._tree.states.project(numbers, periodic)[:, periodic]
        return self._match_values(values)

    def _match_values(self, values: Floats) -> NDArray[np.int64]:
        """Return the first rule that matches each row of what is compared, with periodic numbers as fractions."""
        return _match_rows(values, *self._exact)

    def _make_conditions(self, place: int) -> list[dict[str, Any]]:
        """Return the conditions of a rule, ready for JSON."""
        conditions = []
        for d in np.flatnonzero(self._bounded[place]).tolist():
            limits, periodic = self._exact[:, place, d], d in self._tree.periodic
            low, high = _to_json(self._tree.to_units(d, limits) if periodic else limits)
            condition = {"name": self.names[d], "number": d, "low": low, "high": high}
            conditions.append(condition | ({"fractions": _to_json(limits)} if periodic else {}))
        return conditions

    def _format_rules(self) -> Iterator[tuple[str, Rule]]:
        """Yield the conditions of every rule as text, and the rule."""
        low, high = self._limits
        sides = self._limits.transpose(2, 1, 0)
        texts = [_format_limits(self._tree, d, self._whole[d], sides[d]) for d in range(len(self.names))]
        for place, rule in enumerate(self):
            conditions = []
            for d in np.flatnonzero(self._bounded[place]):
                name, below, first, last = self.names[d], "<=" if self._whole[d] else "<", *texts[d][place]
                if low[place, d] > high[place, d]:
                    conditions.append(f"({name} >= {first} or {name} {below} {last})")
                elif first == last:
                    conditions.append(f"{name} = {first}")
                elif first and last:
                    conditions.append(f"{first} <= {name} {below} {last}")
                else:
                    conditions.append(f"{name} >= {first}" if first else f"{name} {below} {last}")
            yield " and ".join(conditions), rule


def spread_visits(partition: Partition, weights: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """Spread the weight of each cell `[cells]` evenly over its states.

    Returns weight per volume of the unit cube, of all cells relevant at a node, and the time step, of each, `[nodes]`.
    """
    low, high = partition.node_boxes()
    cells, parents = partition.forest.cells[: len(partition)], partition.forest.links["parent"]
    density: Floats = np.bincount(cells["node"], weights, len(low)) / np.prod(high - low, axis=1)
    steps = np.arange(len(low))
    for here in group_by_level(partition.forest.nodes["level"][: len(low)])[1:]:
        density[here] += density[parents[here]]
        steps[here] = steps[parents[here]]
    return density, steps


def count_visits(partition: Partition, step: int, inherits: bool) -> tuple[Floats, Floats]:
    """Return centres of the state tree's leaves (unit cube) `[n, states]`, and about how often each was visited."""
    cells = partition.forest.cells[: len(partition)]
    weights = cells["visits"].astype(float)
    if inherits:
        weights += _correct_inherited(int(cells["depth"].max()), partition.max_growth(1)[1])[cells["depth"]]
    density, steps = spread_visits(partition, np.maximum(weights, 0.0))
    leaves = np.flatnonzero((partition.forest.nodes["child"][: len(steps)] == NONE) & (steps == step))
    low, high = (side[leaves] for side in partition.node_boxes())
    return 0.5 * (low + high), density[leaves] * np.prod(high - low, axis=1)


def _correct_inherited(deepest: int, parts: int) -> Floats:
    """Return what to add to the visits of a cell of each depth for its fair share of inherited ones, `[depths]`."""
    # The paper's agents split at 4^depth visits, with which each of the children starts.
    fair, added = np.zeros(deepest + 1), np.zeros(deepest + 1)  # `fair`: of a cell that is about to split
    fair[0] = 1.0
    for depth in range(1, deepest + 1):
        added[depth] = fair[depth - 1] / parts - 4.0 ** (depth - 1)
        fair[depth] = 4.0**depth + added[depth]
    return added


def _share_visits(boxes: DecisionList, centres: Floats, weights: Floats) -> Floats:
    """Return the share of the weight that each box decides, and last the default, `[boxes + 1]`."""
    rules = _match_rows(centres, *_make_limits(boxes))
    return np.bincount(rules, weights / weights.sum(), len(boxes.choices) + 1).astype(float)


def _match_rows(rows: Floats, low: Floats, high: Floats) -> NDArray[np.int64]:
    """Return the first rule that matches each row `[n, states]`; `low` and `high` are [rules, states]."""
    rules, left = np.empty(len(rows), np.int64), np.arange(len(rows))
    for rule in range(len(low)):
        above, below = rows[left] >= low[rule], rows[left] < high[rule]
        matches = np.where(low[rule] > high[rule], above | below, above & below).all(axis=1)
        rules[left[matches]] = rule
        left = left[~matches]
    return rules


def _make_limits(boxes: DecisionList) -> Floats:
    """Return boxes as limits, infinite where there is none, and a last one for everything, `[2, boxes + 1, states]`."""
    low, high = boxes.low, boxes.high
    lower, upper = np.where(low == 0.0, -np.inf, low), np.where(high == 1.0, np.inf, high)
    last = np.full((1, low.shape[1]), np.inf)
    return np.stack([np.append(lower, -last, axis=0), np.append(upper, last, axis=0)])


def _to_json(limits: Floats) -> list[float | None]:
    return [float(limit) if np.isfinite(limit) else None for limit in limits]


def _format_limits(tree: Tree, d: int, whole: bool, limits: Floats) -> list[list[str]]:
    """Return the text of limits `[rules, 2]` of a number, empty for none; of integers the first and the last."""
    texts, finite = np.full(limits.shape, "", object), np.isfinite(limits)
    if whole:
        integers = tree.to_integers(d, limits.ravel()).reshape(-1, 2) - [0, 1]
        texts[finite] = [f"{integer:.0f}" for integer in integers[finite]]
    else:
        cuts, places = np.unique(limits[finite], return_inverse=True)
        texts[finite] = np.array(numerals(tree.to_units(d, cuts).tolist()), object)[places]
    rows: list[list[str]] = texts.tolist()
    return rows


def _format_share(share: float | None) -> str:
    if share is None:
        return ""
    return f"{share:.0%}" if share >= 0.1 or share == 0.0 else f"{share:.1%}" if share >= 0.0005 else "<0.1%"
