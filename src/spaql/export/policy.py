"""The policy that every target exports: a decision tree as plain lists, labels, and a description for readers.

Labels come from environments and users and end up in comments of programs: `to_comment` leaves nothing in them that
could end a comment or a line.
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from spaql._version import __version__
from spaql.errors import ParameterError
from spaql.partition.spaces import Box, Discrete
from spaql.partition.tree import Tree
from spaql.problems.base import Playable
from spaql.problems.labels import Labels, make_labels

_SAFE = frozenset(string.ascii_letters + string.digits + string.punctuation + " ") - {"\\"}
_LONGEST = 60
_MOST_LISTED = 40  # discrete actions that a description lists one by one


class Node(NamedTuple):
    """A comparison; `below` and `above` are references as in `spaql.partition.tree`: ~k ends with action k."""

    number: int  # place of the observed number
    threshold: float
    below: int  # where the number is less than the threshold, or NaN
    above: int


class Observed(NamedTuple):
    """An observed number and its range; `width` is high - low in double precision, as `predict` divides by it."""

    name: str
    low: float
    high: float
    width: float
    periodic: bool


@dataclass(frozen=True, eq=False)
class Policy:
    """A policy to export."""

    algorithm: str
    problem: str  # name of the problem it learned on
    origin: str  # length of training, and the seed
    tree: Tree
    labels: Labels  # unescaped; see `to_comment`
    discrete: list[int] | None  # for discrete actions: the number of the action of each choice of the tree
    box: Box | None  # range of the actions otherwise
    time_variant: bool  # whether it changes with the time step

    version = __version__

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of an action."""
        return tuple(self.tree.actions.shape[1:])

    @cached_property
    def nodes(self) -> list[Node]:
        """Inner nodes of the tree; a child stands behind its parent."""
        tree = self.tree
        columns = tree.dims.tolist(), tree.thresholds.tolist(), *tree.children.T.tolist()
        return [Node(*row) for row in zip(*columns, strict=True)]

    @property
    def roots(self) -> list[int]:
        """Reference at which each time step begins."""
        return [int(root) for root in self.tree.roots]

    @cached_property
    def observation(self) -> list[Observed]:
        """The observed numbers."""
        low, high = self.tree.states.low, self.tree.states.high
        columns = self.labels.states, low.tolist(), high.tolist(), (high - low).tolist()
        return [Observed(*row, place in self.tree.periodic) for place, row in enumerate(zip(*columns, strict=True))]

    @property
    def wrapped(self) -> list[tuple[int, float, float]]:
        """Place, low end and width of every periodic number that some node compares."""
        compared = {node.number for node in self.nodes}
        return [(at, one.low, one.width) for at, one in enumerate(self.observation) if one.periodic and at in compared]


def make_policy(
    problem: Playable,
    tree: Tree,
    *,
    algorithm: str,
    origin: str,
    time_variant: bool,
    names: Sequence[str] | None = None,
    actions: Sequence[str] | None = None,
) -> Policy:
    """Gather what a file holds; `names` and `actions` replace the usual labels of `spaql.problems.labels`."""
    return Policy(
        algorithm=algorithm,
        problem=problem.name,
        origin=origin,
        tree=tree,
        labels=make_labels(problem, names, actions),
        discrete=[int(number) for number in tree.boxes[:, 0, 0]] if isinstance(problem.actions, Discrete) else None,
        box=problem.actions if isinstance(problem.actions, Box) else None,
        time_variant=time_variant,
    )


def to_comment(label: str) -> str:
    """Return a label as one line of ASCII that may stand in a comment of any language."""
    safe = "".join(letter if letter in _SAFE else f"U+{ord(letter):04X}" for letter in label[: 2 * _LONGEST])
    safe = re.sub(r"\?(?=\?)", "? ", safe)  # no trigraphs
    safe = re.sub(r"\*(?=/)", "* ", re.sub(r"/(?=[*/])", "/ ", safe))
    return safe if len(safe) <= _LONGEST else f"{safe[: _LONGEST - 3]}..."


def make_identifier(stem: str) -> str:
    """Return a C identifier for the functions of a file of this name, one that no header has reserved."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", stem, flags=re.ASCII).strip("_")
    return name if name[:1].isalpha() else f"policy_{name}".rstrip("_")


def check_identifier(name: Any) -> str:
    """Check a name that a user chose for functions of C."""
    if isinstance(name, str) and re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name, flags=re.ASCII):
        return name
    raise ParameterError(f"name: expected letters, digits and underscores, a letter first, got {name!r:.80}")


def describe(policy: Policy) -> list[str]:
    """Return lines for the top of a file: inputs, outputs, and how inputs outside the ranges are treated."""
    lines = [
        f"The policy of {to_comment(policy.algorithm)} on {to_comment(policy.problem)}, "
        f"exported by spaql {policy.version}.",
        f"Learned in {policy.origin}.",
        f"{len(policy.nodes):,} comparisons, of which a decision takes at most {policy.tree.depth}.",
        "",
        "The observation, in this order, with the range of each number (numbers outside are clipped to it):",
    ]
    for place, one in enumerate(policy.observation):
        lines.append(_describe_range(place, one.name, one.low, one.high) + (", periodic" if one.periodic else ""))
    lines += ["", *_describe_actions(policy), ""]
    lines += ["NaN is below every threshold; an infinite number is the nearer end of its range."]
    if policy.tree.periodic:
        lines += ["For a periodic number, NaN and infinite are its low end."]
    if policy.time_variant:
        lines += [f"The time step is from 0 to {len(policy.roots) - 1}; others are clipped to this range."]
    return lines


def _describe_range(place: int, label: str, low: float, high: float) -> str:
    return f"  [{place}] {to_comment(label)}: from {low:.9g} to {high:.9g}"


def _describe_actions(policy: Policy) -> list[str]:
    actions = policy.tree.actions
    if policy.discrete is None:
        assert policy.box is not None
        ranges = zip(policy.labels.actions, policy.box.low.tolist(), policy.box.high.tolist(), strict=True)
        head = f"The action, of which {len(actions):,} values occur:"
        return [head, *(_describe_range(place, *each) for place, each in enumerate(ranges))]
    choices = sorted(range(len(actions)), key=lambda choice: actions[choice].tolist())
    lines = [f"The action, one of {len(actions):,} that occur:"]
    for choice in choices[:_MOST_LISTED]:
        value = ", ".join(str(number) for number in np.ravel(actions[choice]))
        lines.append(f"  {value}: {to_comment(policy.labels.actions[policy.discrete[choice]])}")
    return lines if len(choices) <= _MOST_LISTED else [*lines, f"  and {len(choices) - _MOST_LISTED:,} more"]
