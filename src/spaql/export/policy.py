"""The policy that every target exports: a decision tree as plain lists, labels, and a description for readers."""

import re
import string
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import jinja2
import numpy as np

from spaql._version import __version__
from spaql.partition.spaces import Box, Discrete
from spaql.partition.tree import Tree
from spaql.problems.base import Playable
from spaql.problems.labels import Labels

_SAFE = frozenset(string.ascii_letters + string.digits + string.punctuation + " ") - {"\\"}
_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
    trim_blocks=True,
    keep_trailing_newline=True,
    undefined=jinja2.StrictUndefined,
)
_LONGEST = 60
_MOST_LISTED = 40  # discrete actions that a description lists one by one


@dataclass(frozen=True, eq=False)
class Policy:
    """A policy to export.

    Examples
    --------
    >>> import spaql
    >>> agent = spaql.SPAQL("oil", seed=0).learn(iterations=50)
    >>> policy = agent.to_policy()
    >>> policy.algorithm, policy.labels.states, policy.time_variant
    ('spaql', ['position'], False)
    """

    problem: Playable  #: that it learned on
    tree: Tree  #: its decision tree
    labels: Labels  #: unescaped; see `to_comment`
    algorithm: str  #: name of the algorithm
    origin: str  #: length of training, and the seed
    time_variant: bool  #: whether it changes with the time step

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of an action."""
        return tuple(self.tree.actions.shape[1:])

    @cached_property
    def nodes(self) -> dict[str, list[Any]]:
        """Inner nodes of the tree by columns, parents first; references are as in `spaql.partition.tree`."""
        columns = self.tree.dims.tolist(), self.tree.thresholds.tolist(), *self.tree.children.T.tolist()
        return dict(zip(("number", "threshold", "below", "above"), columns, strict=True))

    @property
    def roots(self) -> list[int]:
        """Reference at which each time step begins."""
        roots: list[int] = self.tree.roots.tolist()
        return roots

    @cached_property
    def observation(self) -> list[dict[str, Any]]:
        """The observed numbers and their ranges; `width` is high - low as `predict` computes it."""
        low, high = self.tree.states.low, self.tree.states.high
        columns = self.labels.states, low.tolist(), high.tolist(), (high - low).tolist()
        rows = [(*row, place in self.tree.periodic) for place, row in enumerate(zip(*columns, strict=True))]
        return [dict(zip(("name", "low", "high", "width", "periodic"), row, strict=True)) for row in rows]

    @property
    def wrapped(self) -> list[tuple[int, float, float]]:
        """Place, low end and width of every periodic number that some node compares."""
        compared = set(self.nodes["number"]).intersection(self.tree.periodic)
        return [(at, self.observation[at]["low"], self.observation[at]["width"]) for at in sorted(compared)]

    @property
    def action_names(self) -> list[str]:
        """Names of the numbers of an action; where actions are discrete, of each choice of the tree."""
        if not isinstance(self.problem.actions, Discrete):
            return self.labels.actions
        return [self.labels.actions[int(number)] for number in self.tree.boxes[:, 0, 0]]


def render(template: str, **values: Any) -> str:
    """Return the text of an exported file, from a template in ``templates``."""
    return _TEMPLATES.get_template(template).render(values)


def to_comment(label: str) -> str:
    """Return a label of an environment or user as one line of ASCII that cannot end a comment of any language."""
    safe = "".join(letter if letter in _SAFE else f"U+{ord(letter):04X}" for letter in label[: 2 * _LONGEST])
    safe = re.sub(r"\?(?=\?)", "? ", safe)  # no trigraphs
    safe = re.sub(r"\*(?=/)", "* ", re.sub(r"/(?=[*/])", "/ ", safe))
    return safe if len(safe) <= _LONGEST else f"{safe[: _LONGEST - 3]}..."


_TEMPLATES.filters["to_comment"] = to_comment


def describe(policy: Policy) -> list[str]:
    """Return lines for the top of a file: inputs, outputs, and how inputs outside the ranges are treated."""
    space, names, values = policy.problem.actions, policy.action_names, policy.tree.actions
    ranges = None
    actions: Any = values
    if isinstance(space, Box):
        ranges = zip(names, space.low.tolist(), space.high.tolist(), strict=True)
    else:
        actions = sorted((np.ravel(value).tolist(), name) for value, name in zip(values, names, strict=True))
    content = {"policy": policy, "version": __version__, "ranges": ranges, "actions": actions, "most": _MOST_LISTED}
    return render("description.txt.jinja", **content).splitlines()
