"""What a run is: everything that decides its numbers and nothing else, the id that finds it again, and its seeds.

The problem of a run is whatever `spaql.gym.problem.resolve_problem` takes as text: the name of a built-in problem, the
id of a Gymnasium environment, "my_module:Tank-v0" where importing a module registers it, or "my_module:make_tank" for a
function that makes a problem or an environment.  Its algorithm is a registered name or "my_module:MyAgent".  Neither
the code of such a module nor its version is part of the id.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property
from typing import Any

import numpy as np

from spaql.agents import algorithms
from spaql.errors import ParameterError
from spaql.gym.problem import resolve_problem
from spaql.problems import PROBLEMS, Problem

_NOMINAL_HORIZON = 200  # of environments that are not open yet; only for the estimate of a run's cost
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


@dataclass(frozen=True, eq=False)
class Run:
    """One agent on one problem, trained and then evaluated on new random numbers."""

    problem: str  # its name, see above
    arguments: Mapping[str, Any]  # keywords of the problem
    algorithm: str  # a registered name (`spaql.agents.registry`) or "module:Class"
    parameters: Mapping[str, Any]  # keywords of the algorithm, without the seed
    seed: int  # of the agent
    iterations: int  # of training; 0 for agents that do not learn
    episodes: int  # of the evaluation at the end; 0 for none
    points: int = 0  # about how many points of the agent's own learning curve to keep
    moments: int = 0  # about how many times during training the current policy is evaluated
    moment_episodes: int = 0  # episodes of each of these evaluations
    watch: tuple[int, ...] = ()  # time steps whose partitions are kept at each moment, to replay how they grew
    #: instead of iterations: increasing numbers of environment steps, training and selection together; the policy is
    #: evaluated on `episodes` at each of them
    budgets: tuple[int, ...] = ()
    #: how the agent is to see a Gymnasium environment: `bounds`, `periodic`, `horizon`, `warm_up`, `names`,
    #: `action_names`
    environment: Mapping[str, Any] = field(default_factory=dict)

    def with_seed(self, seed: int) -> Run:
        """Return the same run with another seed; much faster than making it anew."""
        _ = self._around, self.cost  # computed once for all seeds
        other = object.__new__(Run)
        other.__dict__.update(self.__dict__, seed=seed)
        for name in ("specification", "id"):
            other.__dict__.pop(name, None)
        return other

    @cached_property
    def _around(self) -> tuple[str, str]:
        """The specification before and after the seed."""
        names = sorted(each.name for each in fields(self))
        texts = [f'"{name}":{canonical(getattr(self, name), name)}' for name in names]
        place = names.index("seed")
        return f'{{{",".join(texts[:place])},"seed":', f",{','.join(texts[place + 1 :])}}}"

    @cached_property
    def specification(self) -> str:
        """All attributes as JSON with sorted keys; 1 and 1.0 are the same number."""
        before, after = self._around
        return f"{before}{int(self.seed)}{after}"

    @property
    def kind(self) -> str:
        """The specification without the seed: the same for runs that differ in their seeds only."""
        return "".join(self._around)

    @cached_property
    def id(self) -> str:
        """Hash of the specification."""
        return hashlib.sha256(self.specification.encode()).hexdigest()[:32]

    def ids(self, seeds: Iterable[int]) -> list[str]:
        """Return the ids of the same run with other seeds, without making these runs."""
        before, after = self._around
        start, end = hashlib.sha256(before.encode()), after.encode()
        ids = []
        for seed in seeds:
            digest = start.copy()
            digest.update(b"%d%b" % (seed, end))
            ids.append(digest.hexdigest()[:32])
        return ids

    def __str__(self) -> str:
        def call(name: str, keywords: Mapping[str, Any]) -> str:
            return f"{name}({', '.join(f'{key}={value}' for key, value in keywords.items())})"

        return f"{call(self.algorithm, self.parameters)} on {call(self.problem, self.arguments)}, seed {self.seed}"

    @property
    def compiled(self) -> bool:
        """Whether its problem is a built-in one, which is compiled."""
        return self.problem in PROBLEMS

    @property
    def trusted(self) -> bool:
        """Whether problem and algorithm are built in: both release the interpreter lock, and neither hangs or exits."""
        entry = algorithms().get(self.algorithm)
        return self.compiled and entry is not None and entry.built_in

    @property
    def portable(self) -> str:
        """The specification for other processes, in which classes of one's own are not registered: "module:Class"."""
        entry = algorithms().get(self.algorithm)
        if entry is None or entry.built_in:
            return self.specification
        return replace(self, algorithm=f"{entry.cls.__module__}:{entry.cls.__qualname__}").specification

    @cached_property
    def cost(self) -> int:
        """About how many environment steps it takes, for progress bars and the size of chunks."""
        horizon = problem_of(self).horizon if self.compiled else self.environment.get("horizon") or _NOMINAL_HORIZON
        if self.budgets:
            return int(self.budgets[-1] + len(self.budgets) * self.episodes * horizon)
        entry = algorithms().get(self.algorithm)
        default = entry.parameters["rollouts"].default if entry and "rollouts" in entry.parameters else 0
        rollouts = self.parameters.get("rollouts", default) if self.iterations else 0
        rollouts = rollouts if isinstance(rollouts, int) else default  # an invalid value fails when it is executed
        episodes = self.iterations * (1 + rollouts) + self.episodes + self.moments * self.moment_episodes
        return int(episodes * horizon)


def from_specification(text: str) -> Run:
    """Return the run of a specification."""
    values = json.loads(text)
    values |= {name: tuple(values[name]) for name in ("watch", "budgets")}
    return Run(**values)


def canonical(value: Any, name: str = "") -> str:
    """Return plain values as JSON with sorted keys; 1 and 1.0 are the same number; `name` is for errors."""
    return _ENCODER.encode(_canonical(value, name))


def _canonical(value: Any, name: str) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _canonical(item, f"{name}.{key}" if name else str(key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(item, name) for item in value]
    if isinstance(value, np.generic):
        return _canonical(value.item(), name)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ParameterError(f"{name or 'run'}: expected a finite number, got {value}")
        return int(value) if value.is_integer() else value
    return value


def problem_of(run: Run) -> Problem:
    """Return the built-in problem of a run; the same object for all runs on it."""
    if not run.compiled:
        raise ParameterError(f"problem: {run.problem!r} is not one of {', '.join(PROBLEMS)}")
    return _problem(run.problem, canonical(run.arguments))


@cache
def _problem(name: str, arguments: str) -> Problem:
    problem = resolve_problem(name, env_kwargs=json.loads(arguments))
    assert isinstance(problem, Problem)
    return problem


def seed_at(*place: Any) -> int:
    """Return a seed for each place in a study: adding runs changes no other run, and no two share random numbers."""
    return int.from_bytes(hashlib.sha256(_path(place).encode()).digest()[:8], "big")


def seeds_at(count: int, *place: Any) -> list[int]:
    """Return `seed_at(*place, number)` for each number below `count`; much faster than one by one."""
    start = hashlib.sha256(f"{_path(place)}/".encode())
    seeds = []
    for number in range(count):
        digest = start.copy()
        digest.update(str(number).encode())
        seeds.append(int.from_bytes(digest.digest()[:8], "big"))
    return seeds


def _path(place: Iterable[Any]) -> str:
    return "/".join(f"{part:g}" if isinstance(part, float) else str(part) for part in place)
