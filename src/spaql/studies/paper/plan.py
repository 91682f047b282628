"""The paper's study as groups of runs: which problems, which agents, which seeds.

Groups that follow from the plan alone:

* *study*: SPAQL and AQL, every problem, every scaling, as many agents as in the paper;
* *tuning*: the same with other seeds, only to choose a scaling for the evaluation;
* *bias*: SPAQL with other numbers of rollouts N at one scaling;
* *tessera*: Tessera, which has no scaling, with the environment steps of AQL;
* *baselines*: Random and the heuristics, once as the paper scores (N episodes per agent) and once evaluated.

Two more follow from their results: *curves* repeat the chosen agents and evaluate them during training, with H = 50
beside; *portraits* repeat the best agent of each problem and keep its partitions as they grow.  A repetition has the
seed of its original and so is the same agent to the last bit.

The seed of a run is a hash of the study's seed and of the run's place in it, so that no two runs share random numbers
and adding problems, scalings or agents changes no other run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from spaql.errors import ParameterError
from spaql.problems import Problem
from spaql.runner.run_spec import Run, problem_of, seeds_at
from spaql.studies.paper.printed import HORIZON, ROLLOUTS, ROWS, SCALINGS, Row
from spaql.studies.study import Group
from spaql.validation import check_whole

LEARNERS = ("aql", "spaql")  # of the paper
COMPARED = (*LEARNERS, "tessera")
BIAS_ROLLOUTS = (1, 5, 20, 100)
BIAS_SCALING = 0.5
LONG = "oil-laplace-1-H50"
# The word for Tessera in the places that seeds are hashed from; older than its name, and a new one would be new seeds.
_TESSERA_WORD = "beyond"


@dataclass(frozen=True)
class Setting:
    """One problem of the study."""

    id: str
    problem: str
    arguments: dict[str, Any]
    iterations: int
    printed: Row | None

    @property
    def family(self) -> str:
        """The problem without its last number, such as "oil Laplace"."""
        kind = "Laplace" if self.arguments.get("survey") == "laplace" else "quadratic"
        return f"oil {kind}" if self.problem == "oil" else f"ambulance {str(self.arguments['arrivals']).capitalize()}"

    @property
    def name(self) -> str:
        """Its name in tables."""
        if self.problem == "ambulance":
            return f"{self.family}, c = {self.arguments['cost']:g}"
        long = f", H = {self.arguments['horizon']}" if self.arguments["horizon"] != HORIZON else ""
        return f"{self.family}, λ = {self.arguments['sharpness']:g}{long}"

    @property
    def tick(self) -> str:
        """Its name on axes."""
        return f"{self.family} {self.arguments.get('sharpness', self.arguments.get('cost')):g}"

    @property
    def baselines(self) -> tuple[str, ...]:
        """Names of the agents that do not learn."""
        return ("random", "no-movement", "mean", "median") if self.problem == "ambulance" else ("random",)

    @property
    def horizon(self) -> int:
        """H."""
        return int(self.arguments["horizon"])

    @property
    def steps_shown(self) -> tuple[int, ...]:
        """Time steps (from 0) whose AQL partitions are shown: the first, the middle and the last."""
        return 0, (self.horizon - 1) // 2, self.horizon - 1

    def make(self) -> Problem:
        """Make the problem."""
        return problem_of(Run(self.problem, self.arguments, "random", {}, 0, 0, 0))


def _oil(survey: str, sharpness: int, horizon: int = HORIZON) -> Setting:
    key = f"oil-{survey}-{sharpness}" + ("" if horizon == HORIZON else f"-H{horizon}")
    arguments = {"survey": survey, "sharpness": sharpness, "horizon": horizon}
    return Setting(key, "oil", arguments, 5000, ROWS.get(key))


def _ambulance(arrivals: str, cost: float) -> Setting:
    key = f"ambulance-{arrivals}-{cost:g}"
    return Setting(key, "ambulance", {"arrivals": arrivals, "cost": cost, "horizon": HORIZON}, 2000, ROWS[key])


SETTINGS = (
    *(_oil(survey, sharpness) for survey in ("quadratic", "laplace") for sharpness in (1, 10, 50)),
    *(_ambulance(arrivals, cost) for arrivals in ("uniform", "beta") for cost in (0.0, 0.25, 1.0)),
    _oil("laplace", 1, horizon=50),
)
_BY_ID = {setting.id: setting for setting in SETTINGS}


def choose_settings(names: Iterable[str] | None) -> tuple[Setting, ...]:
    """Return the settings whose ids are these, or begin with these words ("oil", "ambulance-beta"); all for None.

    H = 50 takes its scaling from H = 5, which it brings along.
    """
    if names is None:
        return SETTINGS
    wanted: set[str] = set()
    for name in names:
        matches = {key for key in _BY_ID if key == name} or {key for key in _BY_ID if key.startswith(f"{name}-")}
        if not matches:
            raise ParameterError(
                f"--problems: {name!r} is not one of {', '.join(_BY_ID)}, nor whole words that one begins with"
            )
        wanted |= matches
    if not wanted:
        raise ParameterError(f"--problems: name at least one of {', '.join(_BY_ID)}")
    if LONG in wanted:
        wanted.add("oil-laplace-1")
    return tuple(setting for setting in SETTINGS if setting.id in wanted)


@dataclass(frozen=True)
class Plan:
    """The size of the study, and its groups of runs; `fewer` agents choose a scaling or measure the bias."""

    settings: tuple[Setting, ...]
    scalings: tuple[float, ...]
    agents: Mapping[str, int]  # of each group, by problem
    fewer: Mapping[str, int]
    seed: int = 0
    episodes: int = 2000  # new ones, that evaluate an agent
    points: int = 80  # of learning curves
    moments: int = 20  # of evaluations during training
    moment_episodes: int = 100
    frames: int = 36  # of a growing partition

    def __post_init__(self) -> None:
        for count in (*self.agents.values(), *self.fewer.values()):
            check_whole(count, "agents", 2)  # one says nothing about the spread

    @property
    def short(self) -> tuple[Setting, ...]:
        """The settings whose scaling is chosen; H = 50 follows one of them."""
        return tuple(setting for setting in self.settings if setting.id != LONG)

    def study(self, setting: Setting, algorithm: str, scaling: float) -> Group:
        """The agents of the paper's tables."""
        return self._learners(setting, algorithm, scaling, "study", self.agents, ROLLOUTS)

    def tuning(self, setting: Setting, algorithm: str, scaling: float) -> Group:
        """Agents with other seeds, on which the scaling is chosen; AQL needs no rollouts there."""
        rollouts = 0 if algorithm == "aql" else ROLLOUTS
        return self._learners(setting, algorithm, scaling, "tuning", self.fewer, rollouts)

    def bias(self, setting: Setting, rollouts: int) -> Group:
        """SPAQL with another number of rollouts; with the paper's N these are agents of the tables."""
        role = "study" if rollouts == ROLLOUTS else "bias"
        return self._learners(setting, "spaql", BIAS_SCALING, role, self.fewer, rollouts)

    def _learners(
        self, setting: Setting, algorithm: str, scaling: float, role: str, agents: Mapping[str, int], rollouts: int
    ) -> Group:
        parameters = {"scaling": scaling, "rollouts": rollouts}
        run = Run(setting.problem, setting.arguments, algorithm, parameters, 0, setting.iterations, self.episodes)
        place = self.seed, role, setting.id, algorithm, scaling, rollouts
        return Group(setting.id, algorithm, run, seeds_at(agents[setting.problem], *place), {"scaling": scaling})

    def tessera(self, setting: Setting) -> Group:
        """Tessera, with AQL's environment steps, evaluated during training."""
        run = Run(setting.problem, setting.arguments, "tessera", {}, 0, setting.iterations, self.episodes)
        seeds = seeds_at(self.agents[setting.problem], self.seed, _TESSERA_WORD, setting.id)
        return self._with_curves(Group(setting.id, "tessera", run, seeds))

    def baseline(self, setting: Setting, algorithm: str, episodes: int) -> Group:
        """Agents that do not learn, each evaluated in this number of episodes."""
        place = self.seed, "baseline", setting.id, algorithm, episodes
        run = Run(setting.problem, setting.arguments, algorithm, {}, 0, 0, episodes)
        return Group(setting.id, algorithm, run, seeds_at(self.agents[setting.problem], *place))

    def first(self) -> list[Group]:
        """All groups that follow from the plan alone."""
        groups: list[Group] = []
        for setting in self.short:
            if BIAS_SCALING in self.scalings:
                groups += [self.bias(setting, rollouts) for rollouts in BIAS_ROLLOUTS]
            for algorithm in LEARNERS:
                for scaling in self.scalings:
                    groups += [self.study(setting, algorithm, scaling), self.tuning(setting, algorithm, scaling)]
        for setting in self.settings:
            groups.append(self.tessera(setting))
            for algorithm in setting.baselines:
                groups += [self.baseline(setting, algorithm, episodes) for episodes in (ROLLOUTS, self.episodes)]
        return groups

    def curves(self, setting: Setting, algorithm: str, scaling: float | None) -> Group:
        """The agents of the tables again, evaluated during training."""
        if scaling is None:
            return self.tessera(setting)
        return self._with_curves(self.study(setting, algorithm, scaling))

    def _with_curves(self, group: Group) -> Group:
        return group.with_run(points=self.points, moments=self.moments, moment_episodes=self.moment_episodes)

    def portrait(self, setting: Setting, algorithm: str, scaling: float | None, agent: int) -> Group:
        """One agent of the tables again, with its partitions as they grow."""
        group = self.tessera(setting) if scaling is None else self.study(setting, algorithm, scaling)
        steps = setting.steps_shown if algorithm == "aql" else (0,)
        changes = {"points": 0, "moments": self.frames, "moment_episodes": 0, "watch": steps}
        return replace(group.with_run(**changes), seeds=[group.seeds[agent]])


def full(settings: Sequence[Setting] = SETTINGS, agents: int | None = None, seed: int = 0) -> Plan:
    """The paper's own size, or another number of agents."""
    sizes = {"oil": 25, "ambulance": 50} if agents is None else dict.fromkeys(("oil", "ambulance"), agents)
    fewer = {name: max(2, 2 * size // 5) for name, size in sizes.items()}
    return Plan(tuple(settings), SCALINGS, sizes, fewer, seed)


def quick(settings: Sequence[Setting] = SETTINGS, agents: int | None = None, seed: int = 0) -> Plan:
    """A reduced study: fewer agents, four scalings."""
    sizes = {"oil": 5, "ambulance": 10} if agents is None else dict.fromkeys(("oil", "ambulance"), agents)
    fewer = {name: max(2, size // 2) for name, size in sizes.items()}
    return Plan(tuple(settings), (0.1, 0.5, 1.0, 2.0), sizes, fewer, seed, points=60, moments=12, frames=24)
