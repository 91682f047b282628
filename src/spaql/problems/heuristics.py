"""Heuristics of the field: policies that are known beforehand, each declared once, beside the problem it is for.

    @heuristic("control-limit", home="machine")
    def control_limit(problem):
        ...  # its docstring says what it does
        return Rule(_replace_above, {"limit": limit})

A heuristic is a compiled function `decide(observation, parameters, action) -> None` that fills `action` [actions] for
an `observation` [states], both in the problem's units, and numbers that it reads.  It may be any function of the
observation.  The kernels that play episodes call it by its address, as they call the problem: they are compiled once
for all heuristics.  `spaql.agents.baselines` registers an agent for each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Self

import numba
import numpy as np
from numba import carray, types
from numba.core import config

from spaql.errors import ParameterError
from spaql.partition.jit import CHECKED, apart, floats_at
from spaql.partition.spaces import Box, Floats
from spaql.problems.base import OBSERVE, Playable, Problem
from spaql.problems.finite import Finite

DECIDE = OBSERVE  # the same three arrays
_CHOOSE = types.int64(*[types.int64] * 4)


@dataclass(frozen=True, eq=False)
class Rule:
    """The decisions of a heuristic on one problem."""

    decide: Callable[..., Any]  # compiled for `DECIDE`
    parameters: Mapping[str, float] = field(default_factory=dict)  # by name, in the order in which `decide` reads them


@dataclass(frozen=True)
class Heuristic:
    """One heuristic."""

    name: str
    label: str  # in tables
    what: str  # one line
    home: str  # a built-in problem that it can play
    make: Callable[[Any], Rule]


#: the heuristics by name, each declared by `heuristic` beside its problem
HEURISTICS: dict[str, Heuristic] = {}


def heuristic(name: str, *, home: str, label: str | None = None) -> Callable[[Callable[[Any], Rule]], Any]:
    """Declare the function below as the maker of the heuristic of this name; it takes a problem.

    Its docstring begins with what the heuristic does; `home` is a built-in problem for which it is made.
    """

    def declare(make: Callable[[Any], Rule]) -> Callable[[Any], Rule]:
        what = (make.__doc__ or "").strip().splitlines()[0]
        HEURISTICS[name] = Heuristic(name, label or name.replace("-", " ").capitalize(), what, home, make)
        return make

    return declare


def make_rule(name: str, problem: Playable) -> Rule:
    """Return the rule of a heuristic on a problem; a ParameterError where it is not for that problem."""
    return _make_known(name, problem) if isinstance(problem, Problem) else HEURISTICS[name].make(problem)


@lru_cache(maxsize=256)
def _make_known(name: str, problem: Problem) -> Rule:
    """The rule, for which parameters are searched once; a compiled problem does not change."""
    return HEURISTICS[name].make(problem)


def require_model(name: str, problem: Any) -> Finite:
    """Return the finite model of the problem that is the home of a heuristic; a ParameterError on any other problem."""
    home = HEURISTICS[name].home
    if problem.maker != home or not isinstance(problem.model, Finite):
        raise ParameterError(f"{name}: {problem.name!r} is another problem; this heuristic needs {home}")
    return problem.model


class Chooser:
    """A rule as kernels call it, on points and actions of the unit cube."""

    def __init__(self, rule: Rule, problem: Playable) -> None:
        boxes = [space for space in (problem.states, problem.actions) if isinstance(space, Box)]
        bounds = [end for box in boxes for end in (box.low, box.high - box.low)]
        numbers = np.array(list(rule.parameters.values()), dtype=float)
        sizes = problem.states.dimensions, problem.actions.dimensions, numbers.size
        self.constants = np.concatenate([numbers, *bounds])  # kept alive: kernels have its address
        self._width = problem.actions.dimensions
        self._function = _wrap(rule.decide, sizes, len(boxes) == 2)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # nothing of it changes, and compiled functions cannot be copied

    @property
    def address(self) -> Any:
        """Address of the function; with the JIT off, the function."""
        return getattr(self._function, "address", self._function)

    def __call__(self, points: Floats) -> Floats:
        """Return actions `[n, actions]` at points of the unit cube `[n, states]`; numbers where they are discrete."""
        points, actions = np.array(points), np.zeros((len(points), self._width))
        function = getattr(self._function, "ctypes", self._function)
        function(len(points), points.ctypes.data, actions.ctypes.data, self.constants.ctypes.data)
        return actions


@lru_cache(maxsize=256)
def _wrap(decide: Any, sizes: tuple[int, int, int], box: bool) -> Any:
    """The function that kernels call; all sizes are constants to the compiler."""
    states, actions, parameters = sizes
    first = 8 * parameters  # byte offset of the bounds

    def choose(count, point_at, action_at, constants):
        numbers = carray(floats_at(constants), (parameters,))
        low = carray(floats_at(constants + first), (states,))
        width = carray(floats_at(constants + first + 8 * states), (states,))
        seen = np.empty(states)
        for i in range(count):
            point = carray(floats_at(point_at + 8 * states * i), (states,))
            action = carray(floats_at(action_at + 8 * actions * i), (actions,))
            for d in range(states):
                seen[d] = low[d] + width[d] * point[d]
            decide(seen, numbers, action)
            if box:
                action_low = carray(floats_at(constants + first + 16 * states), (actions,))
                action_width = carray(floats_at(constants + first + 16 * states + 8 * actions), (actions,))
                for d in range(actions):
                    action[d] = min(max((action[d] - action_low[d]) / action_width[d], 0.0), 1.0)
        return 1

    return choose if config.DISABLE_JIT else apart(lambda: numba.cfunc(_CHOOSE, boundscheck=CHECKED)(choose))
