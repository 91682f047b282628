"""Names of observations and actions, for policies that are to be read.

The problems of classic control have the names of Gymnasium's documentation, compiled or not.  Numbers of a Dict or
Tuple are named by their path, others by their index.  Users may give names of their own: once, to the problem, which
keeps them in the attributes `given_names` and `given_action_names`, or for one call.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spaql.errors import ParameterError
from spaql.formatting import Table, numerals, with_values
from spaql.notebook import render
from spaql.partition.spaces import Discrete, Floats
from spaql.problems.base import Playable
from spaql.problems.control import GYMNASIUM
from spaql.validation import show


class Labels(NamedTuple):
    """Names of a problem's parts.

    Examples
    --------
    >>> import spaql
    >>> spaql.Tessera("cartpole", seed=0).learn(1_000).to_policy().labels.states
    ['position', 'velocity', 'angle', 'angular velocity']
    """

    states: list[str]  #: of the observed numbers
    actions: list[str]  #: of the numbers of an action; for discrete actions, one per action


_MOST_NAMED = 12  # actions that a notebook shows
_KNOWN = {
    "oil": Labels(["position"], ["next position"]),
    "ambulance": Labels(["position"], ["where to wait"]),
    "inventory": Labels(["stock"], ["order (share of capacity)"]),
    "machine": Labels(["wear"], ["keep", "replace"]),
    "revenue": Labels(["seats left", "period"], ["price"]),
    "battery": Labels(["charge", "hour", "price"], ["energy bought (share of power)"]),
    "cartpole": Labels(["position", "velocity", "angle", "angular velocity"], ["push left", "push right"]),
    "mountaincar": Labels(["position", "velocity"], ["accelerate left", "do not accelerate", "accelerate right"]),
    "mountaincar-continuous": Labels(["position", "velocity"], ["force"]),
    "pendulum": Labels(["cos(angle)", "sin(angle)", "angular velocity"], ["torque"]),
    "acrobot": Labels(
        ["cos(angle 1)", "sin(angle 1)", "cos(angle 2)", "sin(angle 2)", "angular velocity 1", "angular velocity 2"],
        ["torque -1", "no torque", "torque +1"],
    ),
}
_NUMBERED = {"oil-nd": ("position {}", "next position {}"), "ambulances": ("place of {}", "where {} is to wait")}
_KNOWN |= {name: _KNOWN[compiled] for compiled, name in GYMNASIUM.items()} | {"CartPole-v0": _KNOWN["cartpole"]}


def make_labels(problem: Playable, names: Sequence[str] | None = None, actions: Sequence[str] | None = None) -> Labels:
    """Return the labels of a problem; `names` and `actions` replace them, one for each number or discrete action."""
    if names is None:
        names = getattr(problem, "given_names", None)
    if actions is None:
        actions = getattr(problem, "given_action_names", None)
    usual = find_usual(problem)
    return Labels(check_names(names, "names", usual.states), check_names(actions, "actions", usual.actions))


def find_usual(problem: Playable) -> Labels:
    """Return the labels of a problem where the user gives none."""
    paths = getattr(problem, "paths", None)  # an environment has them before it has ranges
    places = paths or [str(d) for d in range(problem.states.dimensions)]
    states, discrete = len(places), isinstance(problem.actions, Discrete)
    moves = problem.actions.count if isinstance(problem.actions, Discrete) else problem.actions.dimensions
    name = problem.maker or problem.name
    known = _KNOWN.get(name, Labels([], []))
    if name in _NUMBERED:
        known = Labels(*([text.format(d) for d in range(1, states + 1)] for text in _NUMBERED[name]))
    if (len(known.states), len(known.actions)) == (states, moves):
        return known
    observed = [f"observation[{place}]" if place.isdecimal() else place for place in places]
    numbered = ["action"] if moves == 1 else [f"action[{k}]" for k in range(moves)]
    return Labels(observed, _name_discrete(problem, moves) if discrete else numbered)


def with_names(
    problem: Playable, names: Sequence[str] | None = None, action_names: Sequence[str] | None = None
) -> Playable:
    """Return the same problem with names of the user's own for its observed numbers and actions."""
    usual, other = find_usual(problem), copy.copy(problem)
    given = {"names": (names, usual.states), "action_names": (action_names, usual.actions)}
    for what, (words, known) in given.items():
        if words is not None:
            object.__setattr__(other, f"given_{what}", check_names(words, what, known))  # compiled ones are frozen
    return other


def check_names(given: Sequence[str] | None, what: str, usual: Sequence[str]) -> list[str]:
    """Return the given names, or the usual ones where none are given; a ParameterError where they do not fit."""
    if given is None:
        return list(usual)
    words = isinstance(given, Sequence) and not isinstance(given, str)
    words = words and all(isinstance(name, str) and name.strip() for name in given)
    if not words or len(given) != len(usual):
        raise ParameterError(f"{what}: expected {len(usual)} words, such as {list(usual[:4])}, got {show(given)}")
    if twice := [name for name in given if given.count(name) > 1]:
        raise ParameterError(f"{what}: {twice[0]!r} is given twice; give different words")
    if sorted(given) == sorted(usual) and list(given) != list(usual):  # names would stand for each other
        raise ParameterError(f"{what}: these names are known in another order, {list(usual)}; give them in that order")
    return list(given)


def order_numbers(names: Sequence[str], numbers: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return names and numbers in the order of the names; a ParameterError where one is missing or has another name."""
    for name in numbers:
        if name not in names:
            raise ParameterError(f"observation: {name!r} is no observed number; there are {', '.join(names)}")
    if missing := [name for name in names if name not in numbers]:
        raise ParameterError(f"observation: no {missing[0]!r} was given; there are {', '.join(names)}")
    return [(name, numbers[name]) for name in names]


def label_actions(problem: Playable, labels: Labels, middles: Floats, actions: NDArray[Any]) -> list[str]:
    """Return texts for actions: `middles` [n, actions] in the problem's units, `actions` [n, ...] as it takes them."""
    if isinstance(problem.actions, Discrete):
        return [labels.actions[int(number)] for number in middles[:, 0]]
    flat = actions.reshape(len(actions), -1)
    columns = [column.tolist() for column in flat.T]
    written = [list(map(str, column)) if flat.dtype.kind in "iu" else numerals(column) for column in columns]
    return [", ".join(map(" ".join, zip(labels.actions, row, strict=True))) for row in zip(*written, strict=True)]


def to_html(problem: Playable) -> str:
    """Return what a notebook shows of a problem: its numbers with their ranges, its actions and its horizon."""
    labels, rows = make_labels(problem), []
    periodic = getattr(problem, "periodic", ())
    for d, name in enumerate(labels.states):
        kinds = ["periodic"] * (d in periodic) + ["integer"] * bool(problem.whole[d])
        rows.append([name, *numerals([problem.states.low[d], problem.states.high[d]]), ", ".join(kinds)])
    facts = {"horizon": f"{problem.horizon:,} steps"}
    tables = [Table(["observation", "low", "high", ""], rows, left=1)]
    if isinstance(problem.actions, Discrete):
        more = f" and {len(labels.actions) - _MOST_NAMED:,} more" if len(labels.actions) > _MOST_NAMED else ""
        facts["actions"] = ", ".join(labels.actions[:_MOST_NAMED]) + more
    else:
        ends = zip(labels.actions, problem.actions.low, problem.actions.high, strict=True)
        tables.append(Table(["action", "low", "high"], [[name, *numerals(pair)] for name, *pair in ends]))
    if problem.arguments:
        facts["arguments"] = with_values("", problem.arguments).removeprefix(", ")
    if problem.warm_up_steps:
        facts["warm-up"] = f"{problem.warm_up_steps:,} random steps, to learn ranges"
    return render(f"Problem {problem.name}", facts=facts, tables=[table.html() for table in tables])


def _name_discrete(problem: Playable, count: int) -> list[str]:
    """Name discrete actions by what the environment takes for them."""
    taken = np.asarray(problem.decode(np.arange(count, dtype=float)[:, None], False)).tolist()
    return [f"action {tuple(action) if isinstance(action, list) else action}" for action in taken]
