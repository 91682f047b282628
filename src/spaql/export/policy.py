"""What is shipped: an agent's decision tree, the words for its numbers, and a page about it for the top of a file.

Words come from environments and users, and end up in comments of programs: `plain` leaves nothing in them that could
end a comment or a line, or look like something else than it is.
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spaql._version import __version__
from spaql.errors import ParameterError
from spaql.partition.spaces import Box, Discrete
from spaql.partition.tree import Tree
from spaql.problems.base import Playable
from spaql.problems.labels import Words, words

_LETTERS = frozenset(string.ascii_letters + string.digits + string.punctuation + " ") - {"\\"}
_LONGEST = 60
_MOST_LISTED = 40  # finite actions that are told one by one


@dataclass(frozen=True, eq=False)
class Policy:
    """A policy to be shipped.

    Attributes
    ----------
    agent, problem
        Names of the algorithm and of what it learned on.
    origin
        How much it learned, and from which seed.
    tree
        What it decides.
    words
        Names of the observed numbers and of the actions, as they are; see `plain`.
    numbers
        Where an action is one of a numbered set: that number for each choice of the tree; else None.
    box
        Range of actions otherwise.
    timed
        Whether it changes with the time step.
    """

    agent: str
    problem: str
    origin: str
    tree: Tree
    words: Words
    numbers: list[int] | None
    box: Box | None
    timed: bool

    @property
    def version(self) -> str:
        """Of spaql, which wrote it."""
        return __version__

    @property
    def shape(self) -> tuple[int, ...]:
        """Of an action."""
        return tuple(self.tree.actions.shape[1:])

    @property
    def rounds(self) -> list[int]:
        """Places of the numbers that come round and are looked at."""
        return sorted(set(self.tree.periodic) & set(self.tree.dims.tolist()))

    def widths(self) -> list[float]:
        """Of the ranges of the observed numbers, as `predict` divides by them."""
        found: list[float] = (self.tree.states.high - self.tree.states.low).tolist()
        return found


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
    """Gather what an exported file holds; `names` and `actions` replace the usual labels of `spaql.problems.labels`."""
    finite = isinstance(problem.actions, Discrete)
    return Policy(
        agent=algorithm,
        problem=problem.name,
        origin=origin,
        tree=tree,
        words=words(problem, names, actions),
        numbers=[int(number) for number in tree.boxes[:, 0, 0]] if finite else None,
        box=problem.actions if isinstance(problem.actions, Box) else None,
        timed=time_variant,
    )


def plain(word: str) -> str:
    """A word as one line of ASCII that can stand in a comment of any language."""
    safe = "".join(letter if letter in _LETTERS else f"U+{ord(letter):04X}" for letter in word[: 2 * _LONGEST])
    safe = re.sub(r"\?(?=\?)", "? ", safe)  # no trigraphs
    safe = re.sub(r"\*(?=/)", "* ", re.sub(r"/(?=[*/])", "/ ", safe))
    return safe if len(safe) <= _LONGEST else f"{safe[: _LONGEST - 3]}..."


def identifier(stem: str) -> str:
    """What the functions of a file of this name are called: a C identifier that no header has reserved."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", stem, flags=re.ASCII).strip("_")
    return name if name[:1].isalpha() else f"policy_{name}".rstrip("_")


def check_identifier(name: Any) -> str:
    """A name that a user chose for functions of C."""
    if isinstance(name, str) and re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name, flags=re.ASCII):
        return name
    raise ParameterError(f"name: expected letters, digits and underscores, a letter first, got {name!r:.80}")


def about(policy: Policy) -> list[str]:
    """Lines for the top of a file: what it is, what goes in, what comes out, what happens at the edges."""
    tree = policy.tree
    lines = [
        f"The policy of {plain(policy.agent)} on {plain(policy.problem)}, exported by spaql {policy.version}.",
        f"Learned in {policy.origin}.",
        f"{len(tree.dims):,} comparisons, of which a decision takes at most {tree.depth}.",
        "",
        "The observation, in this order, with the range of each number (what is outside is taken for the border):",
    ]
    ends = zip(policy.words.states, tree.states.low.tolist(), tree.states.high.tolist(), strict=True)
    for place, (word, low, high) in enumerate(ends):
        comes_round = ", and comes round" if place in tree.periodic else ""
        lines.append(f"  [{place}] {plain(word)}: from {low:.9g} to {high:.9g}{comes_round}")
    lines += ["", *_actions(policy), ""]
    lines += ["NaN counts as below every threshold, an infinite number as the border of its range."]
    if tree.periodic:
        lines += ["For a number that comes round, NaN and infinite are its low end."]
    if policy.timed:
        lines += [f"The time step is from 0 to {len(tree.roots) - 1}; another is taken for the nearest of these."]
    return lines


def _actions(policy: Policy) -> list[str]:
    """What comes out."""
    tree = policy.tree
    if policy.numbers is not None:
        lines = [f"The action, one of {len(tree.actions):,} that are ever taken:"]
        told = sorted(range(len(tree.actions)), key=lambda choice: tree.actions[choice].tolist())
        for choice in told[:_MOST_LISTED]:
            value = ", ".join(str(number) for number in np.ravel(tree.actions[choice]))
            lines.append(f"  {value}: {plain(policy.words.actions[policy.numbers[choice]])}")
        return lines if len(told) <= _MOST_LISTED else [*lines, f"  and {len(told) - _MOST_LISTED:,} more"]
    assert policy.box is not None
    lines = [f"The action, of which {len(tree.actions):,} are ever taken:"]
    ends = zip(policy.words.actions, policy.box.low.tolist(), policy.box.high.tolist(), strict=True)
    for place, (word, low, high) in enumerate(ends):
        lines.append(f"  [{place}] {plain(word)}: from {low:.9g} to {high:.9g}")
    return lines
