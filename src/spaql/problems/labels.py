"""How people call the numbers they see and the actions they choose, for policies that are to be read.

The problems of classic control have the names that Gymnasium's documentation gives them, compiled or not.  Numbers of a
Dict or Tuple are called by the way to them, others by their place, and whoever knows better says so where it matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spaql.errors import ParameterError
from spaql.formatting import numerals
from spaql.partition.spaces import Box, Discrete, Floats
from spaql.problems.base import Playable


class Labels(NamedTuple):
    """Names of a problem's parts."""

    states: list[str]  # of the observed numbers
    actions: list[str]  # of the numbers of an action; for finite actions, one per action


_CARTPOLE = ["position", "velocity", "angle", "angular velocity"], ["push left", "push right"]
_MOUNTAIN = ["position", "velocity"], ["accelerate left", "do not accelerate", "accelerate right"]
_MOUNTAIN_CONTINUOUS = ["position", "velocity"], ["force"]
_PENDULUM = ["cos(angle)", "sin(angle)", "angular velocity"], ["torque"]
_ACROBOT = (
    ["cos(angle 1)", "sin(angle 1)", "cos(angle 2)", "sin(angle 2)", "angular velocity 1", "angular velocity 2"],
    ["torque -1", "no torque", "torque +1"],
)
_KNOWN = {
    "cartpole": _CARTPOLE,
    "CartPole-v0": _CARTPOLE,
    "CartPole-v1": _CARTPOLE,
    "mountaincar": _MOUNTAIN,
    "MountainCar-v0": _MOUNTAIN,
    "mountaincar-continuous": _MOUNTAIN_CONTINUOUS,
    "MountainCarContinuous-v0": _MOUNTAIN_CONTINUOUS,
    "pendulum": _PENDULUM,
    "Pendulum-v1": _PENDULUM,
    "acrobot": _ACROBOT,
    "Acrobot-v1": _ACROBOT,
    "oil": (["position"], ["next position"]),
    "ambulance": (["position"], ["where to wait"]),
}


def make_labels(problem: Playable, names: Sequence[str] | None = None, actions: Sequence[str] | None = None) -> Labels:
    """The words for a problem; `names` and `actions` are the user's own, one for each number or finite action."""
    states = problem.states.dimensions
    moves = problem.actions.count if isinstance(problem.actions, Discrete) else problem.actions.dimensions
    known = _KNOWN.get(getattr(problem, "maker", None) or problem.name, ([], []))
    seen, done = known if (len(known[0]), len(known[1])) == (states, moves) else ([], [])
    if not seen:
        places = getattr(problem, "names", None) or [str(d) for d in range(states)]
        seen = [f"observation[{place}]" if place.isdecimal() else place for place in places]
    if not done:
        finite = isinstance(problem.actions, Discrete)
        done = _numbered(problem, moves) if finite else [f"action[{k}]" for k in range(moves)]
        if isinstance(problem.actions, Box) and moves == 1:
            done = ["action"]
    return Labels(_own(names, "names", seen), _own(actions, "actions", done))


def label_actions(problem: Playable, called: Labels, middles: Floats, actions: NDArray[Any]) -> list[str]:
    """Actions in words: `middles` [n, actions] in the problem's units, and `actions` [n, ...] as it takes them."""
    if isinstance(problem.actions, Discrete):
        return [called.actions[int(number)] for number in middles[:, 0]]
    flat = actions.reshape(len(actions), -1)
    columns = [column.tolist() for column in flat.T]
    written = [list(map(str, each)) if flat.dtype.kind in "iu" else numerals(each) for each in columns]
    return [", ".join(map(" ".join, zip(called.actions, row, strict=True))) for row in zip(*written, strict=True)]


def _numbered(problem: Playable, count: int) -> list[str]:
    """Discrete actions by what the environment takes for them."""
    taken = np.asarray(problem.decode(np.arange(count, dtype=float)[:, None], False)).tolist()
    return [f"action {tuple(one) if isinstance(one, list) else one}" for one in taken]


def _own(given: Sequence[str] | None, what: str, usual: list[str]) -> list[str]:
    if given is None:
        return list(usual)
    if isinstance(given, str) or len(given) != len(usual) or not all(isinstance(word, str) and word for word in given):
        raise ParameterError(f"{what}: expected {len(usual)} words, such as {usual!r:.80}, got {given!r:.80}")
    return list(given)
