"""The paper's study as groups of runs: which problems, which agents, which seeds.

Two kinds of groups follow from results of the others: `curves` repeat the chosen agents and evaluate them during
training, with H = 50 beside; `portrait` repeats the best agent of each problem and keeps its partitions as they grow.
A repetition has the seed of its original and so is the same agent to the last bit.  The seed of a run is a hash of the
study's seed and of the run's place in it, so that no two runs share random numbers and adding problems, scalings or
agents changes no other run.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from spaql.errors import ParameterError
from spaql.problems import Problem
from spaql.runner.run_spec import Run, problem_of, seeds_at
from spaql.studies.paper.printed import HORIZON, PRINTED, QUICK_SCALINGS, ROLLOUTS, SCALINGS, PrintedRow
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
    family: str  # the problem without its last number, such as "oil Laplace"
    name: str  # in tables
    tick: str  # on axes

    @property
    def printed(self) -> PrintedRow | None:
        """What the paper prints of it."""
        return PRINTED.get(self.id)

    @property
    def baselines(self) -> tuple[str, ...]:
        """Names of the agents that do not learn."""
        return ("random", "no-movement", "mean", "median") if self.problem == "ambulance" else ("random",)

    @property
    def horizon(self) -> int:
        """H."""
        return int(self.arguments["horizon"])

    def make(self) -> Problem:
        """Make the problem."""
        return problem_of(Run(self.problem, self.arguments, "random", {}, 0, 0, 0))


def _setting(problem: str, kind: str, number: float, horizon: int = HORIZON) -> Setting:
    oil = problem == "oil"
    arguments = {"survey" if oil else "arrivals": kind, "sharpness" if oil else "cost": number, "horizon": horizon}
    family = f"{problem} {kind if kind == 'quadratic' else kind.capitalize()}"
    key, name = f"{problem}-{kind}-{number:g}", f"{family}, {'λ' if oil else 'c'} = {number:g}"
    if horizon != HORIZON:
        key, name = f"{key}-H{horizon}", f"{name}, H = {horizon}"
    return Setting(key, problem, arguments, 5000 if oil else 2000, family, name, f"{family} {number:g}")


SETTINGS = (
    *(_setting("oil", survey, sharpness) for survey in ("quadratic", "laplace") for sharpness in (1, 10, 50)),
    *(_setting("ambulance", arrivals, cost) for arrivals in ("uniform", "beta") for cost in (0.0, 0.25, 1.0)),
    _setting("oil", "laplace", 1, horizon=50),
)
NAMES = {setting.id: setting.name for setting in SETTINGS}


def choose_settings(names: Iterable[str] | None) -> tuple[Setting, ...]:
    """Return the settings whose ids are these, or begin with these words ("oil", "ambulance-beta"); all for None.

    H = 50 takes its scaling from H = 5, which it brings along.
    """
    if names is None:
        return SETTINGS
    wanted = set[str]()
    for name in names:
        matches = {name} & NAMES.keys() or {key for key in NAMES if key.startswith(f"{name}-")}
        if not matches:
            raise ParameterError(
                f"--problems: {name!r} is not one of {', '.join(NAMES)}, nor whole words that one begins with"
            )
        wanted |= matches

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
    planned_moments: int = 8  # the same for Tessera, which plans for each of them
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
        run = self._run(setting, algorithm, scaling=scaling, rollouts=rollouts)
        place = self.seed, role, setting.id, algorithm, scaling, rollouts
        return Group(setting.id, algorithm, run, seeds_at(agents[setting.problem], *place), {"scaling": scaling})

    def _run(self, setting: Setting, algorithm: str, **parameters: Any) -> Run:
        return Run(setting.problem, setting.arguments, algorithm, parameters, 0, setting.iterations, self.episodes)

    def tessera(self, setting: Setting) -> Group:
        """Tessera, with AQL's environment steps, evaluated during training."""
        seeds = seeds_at(self.agents[setting.problem], self.seed, _TESSERA_WORD, setting.id)
        group = Group(setting.id, "tessera", self._run(setting, "tessera"), seeds)
        return self._with_curves(group).with_run(moments=self.planned_moments)

    def baseline(self, setting: Setting, algorithm: str, episodes: int) -> Group:
        """Agents that do not learn, each evaluated in this number of episodes; the paper scores them by N."""
        run = replace(self._run(setting, algorithm), iterations=0, episodes=episodes)
        place = self.seed, "baseline", setting.id, algorithm, episodes
        return Group(setting.id, algorithm, run, seeds_at(self.agents[setting.problem], *place))

    def first(self) -> list[Group]:
        """All groups that follow from the plan alone."""
        groups: list[Group] = []
        for setting in self.short:
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
        """One agent of the tables again, with its partitions as they grow: AQL's of the first, middle and last step."""
        group, last = self.curves(setting, algorithm, scaling), setting.horizon - 1
        watch = (0, last // 2, last) if algorithm == "aql" else (0,)
        group = group.with_run(points=0, moments=self.frames, moment_episodes=0, watch=watch)
        return replace(group, seeds=[group.seeds[agent]])


def full(settings: Sequence[Setting] = SETTINGS, agents: int | None = None, seed: int = 0) -> Plan:
    """The paper's own size, or another number of agents."""
    sizes = {"oil": 25, "ambulance": 50} if agents is None else {"oil": agents, "ambulance": agents}
    fewer = {name: max(2, 2 * size // 5) for name, size in sizes.items()}
    return Plan(tuple(settings), SCALINGS, sizes, fewer, seed)


def quick(settings: Sequence[Setting] = SETTINGS, agents: int | None = None, seed: int = 0) -> Plan:
    """A reduced study: fewer agents, four scalings."""
    sizes = {"oil": 5, "ambulance": 10} if agents is None else {"oil": agents, "ambulance": agents}
    fewer = {name: max(2, size // 2) for name, size in sizes.items()}
    counts = {"points": 60, "moments": 12, "planned_moments": 6, "frames": 24}
    return Plan(tuple(settings), QUICK_SCALINGS, sizes, fewer, seed, **counts)
