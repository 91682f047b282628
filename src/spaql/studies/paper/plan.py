"""The paper's study as runs: which problems, which agents, which seeds.

Five kinds of runs need nothing but the plan:

* *study*: published SPAQL and AQL, every problem, every scaling, as many agents as the paper has;
* *tuning*: the same on other seeds, only to choose a scaling for the fresh score.  AQL needs no rollouts there;
* *bias*: SPAQL with other numbers of rollouts N at one scaling;
* *baselines*: Random and the heuristics, once as the paper scores (N episodes per agent) and once fresh.

* *beyond*: the default agent of this library, which has no scaling, with the environment steps that AQL has.

Two more follow from what those say: *curves* repeat the chosen agents and score them on fresh episodes while they
learn, with H = 50 beside; *portraits* repeat the best agent of each problem and keep its partitions as they grow.  A
repetition has the seed of its original and so is the same agent to the last bit.

The seed of a run is a hash of the study's seed and of the run's place in it, so that no two runs share random numbers
and adding problems, scalings or agents changes no other run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from spaql.errors import ParameterError
from spaql.problems import Problem
from spaql.runner.run_spec import Run, problem_of, seed_at
from spaql.studies.paper.printed import HORIZON, ROLLOUTS, ROWS, SCALINGS, Row
from spaql.validation import check_whole

LEARNERS = ("aql", "spaql")  # of the paper
BEYOND = "beyond"
COMPARED = (*LEARNERS, BEYOND)
LABELS = {
    "random": "Random",
    "aql": "AQL",
    "spaql": "SPAQL",
    "beyond": "SPAQL beyond",
    "no-movement": "No movement",
    "mean": "Mean",
    "median": "Median",
}
BIAS_ROLLOUTS = (1, 5, 20, 100)
BIAS_SCALING = 0.5
LONG = "oil-laplace-1-H50"
_ALGORITHMS = {"spaql": "spaql", "beyond": "tessera"}


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
        """How tables call it."""
        if self.problem == "ambulance":
            return f"{self.family}, c = {self.arguments['cost']:g}"
        long = f", H = {self.arguments['horizon']}" if self.arguments["horizon"] != HORIZON else ""
        return f"{self.family}, λ = {self.arguments['sharpness']:g}{long}"

    @property
    def tick(self) -> str:
        """How axes call it."""
        return f"{self.family} {self.arguments.get('sharpness', self.arguments.get('cost')):g}"

    @property
    def baselines(self) -> tuple[str, ...]:
        """What the learners are compared with."""
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
        """The problem itself."""
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
    """The settings of these ids, or of those that begin with these words ("oil", "ambulance-beta"); all for None.

    H = 50 takes its scaling from H = 5, which it brings along.
    """
    if names is None:
        return SETTINGS
    wanted: set[str] = set()
    for name in names:
        found = {key for key in _BY_ID if key == name} or {key for key in _BY_ID if key.startswith(f"{name}-")}
        if not found:
            raise ParameterError(
                f"--problems: {name!r} is not one of {', '.join(_BY_ID)}, nor whole words that one begins with"
            )
        wanted |= found
    if not wanted:
        raise ParameterError(f"--problems: name at least one of {', '.join(_BY_ID)}")
    if LONG in wanted:
        wanted.add("oil-laplace-1")
    return tuple(setting for setting in SETTINGS if setting.id in wanted)


@dataclass(frozen=True)
class Plan:
    """How large the study is.

    Attributes
    ----------
    settings
        The problems.
    scalings
        Values of xi.
    agents, tuning_agents, bias_agents
        How many agents of each kind of run, by problem name.
    seed
        Of everything.
    """

    settings: tuple[Setting, ...]
    scalings: tuple[float, ...]
    agents: dict[str, int]
    tuning_agents: dict[str, int]
    bias_agents: dict[str, int]
    seed: int = 0
    episodes: int = 2000
    points: int = 80
    moments: int = 20
    moment_episodes: int = 100
    frames: int = 36
    _made: dict[tuple[Any, ...], list[Run]] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        for sizes in (self.agents, self.tuning_agents, self.bias_agents):
            for count in sizes.values():
                check_whole(count, "agents", 2)  # one says nothing about the spread

    # Runs that the plan alone decides --------------------------------------------------------------------------

    def study(self, setting: Setting, algorithm: str, scaling: float) -> list[Run]:
        """The agents of the paper's tables."""
        return self._group(setting, algorithm, scaling, "study", self.agents[setting.problem], ROLLOUTS)

    def tuning(self, setting: Setting, algorithm: str, scaling: float) -> list[Run]:
        """Agents on other seeds, to choose the scaling by."""
        rollouts = 0 if algorithm == "aql" else ROLLOUTS
        return self._group(setting, algorithm, scaling, "tuning", self.tuning_agents[setting.problem], rollouts)

    def bias(self, setting: Setting, rollouts: int) -> list[Run]:
        """SPAQL judged by other numbers of rollouts; for the paper's N these are agents of the study."""
        role = "study" if rollouts == ROLLOUTS else "bias"
        return self._group(setting, "spaql", BIAS_SCALING, role, self.bias_agents[setting.problem], rollouts)

    def beyond(self, setting: Setting) -> list[Run]:
        """The default agent, scored while it learns."""
        key = setting.id, BEYOND
        if key not in self._made:
            self._made[key] = [
                Run(
                    setting.problem,
                    setting.arguments,
                    _ALGORITHMS[BEYOND],
                    {},
                    seed_at(self.seed, BEYOND, setting.id, agent),
                    setting.iterations,
                    self.episodes,
                    points=self.points,
                    moments=self.moments,
                    moment_episodes=self.moment_episodes,
                )
                for agent in range(self.agents[setting.problem])
            ]
        return self._made[key]

    def baseline(self, setting: Setting, algorithm: str, episodes: int) -> list[Run]:
        """Agents that do not learn, scored on so many episodes each."""
        where = setting.problem, setting.arguments
        seeds = [
            seed_at(self.seed, "baseline", setting.id, algorithm, episodes, agent)
            for agent in range(self.agents[setting.problem])
        ]
        return [Run(*where, algorithm, {}, seed, 0, episodes) for seed in seeds]

    @property
    def short(self) -> tuple[Setting, ...]:
        """The settings whose scaling is chosen; H = 50 follows one of them."""
        return tuple(setting for setting in self.settings if setting.id != LONG)

    def first(self) -> list[Run]:
        """Everything that the plan alone decides; the longest first, so that no thread is left with one at the end."""
        runs: list[Run] = []
        for setting in self.short:
            if BIAS_SCALING in self.scalings:
                runs += [run for rollouts in BIAS_ROLLOUTS for run in self.bias(setting, rollouts)]
            for algorithm in LEARNERS:
                for scaling in self.scalings:
                    runs += self.study(setting, algorithm, scaling) + self.tuning(setting, algorithm, scaling)
        for setting in self.settings:
            runs += self.beyond(setting)
            for algorithm in setting.baselines:
                runs += self.baseline(setting, algorithm, ROLLOUTS) + self.baseline(setting, algorithm, self.episodes)
        unique = {run.id: run for run in runs}
        return sorted(unique.values(), key=lambda run: -run.cost)

    # Runs that follow from their results -----------------------------------------------------------------------

    def curves(self, setting: Setting, algorithm: str, scaling: float) -> list[Run]:
        """The same agents as in `study`, scored while they learn."""
        return [
            replace(run, points=self.points, moments=self.moments, moment_episodes=self.moment_episodes)
            for run in self.study(setting, algorithm, scaling)
        ]

    def portrait(self, setting: Setting, algorithm: str, scaling: float, agent: int) -> Run:
        """One agent of `study` again, with its partitions as they grow."""
        steps = (0,) if algorithm == "spaql" else setting.steps_shown
        return replace(self.study(setting, algorithm, scaling)[agent], moments=self.frames, watch=steps)

    def portrait_beyond(self, setting: Setting) -> Run:
        """The first of the default agents again, with its partition as it grows."""
        return replace(self.beyond(setting)[0], points=0, moments=self.frames, moment_episodes=0, watch=(0,))

    def _group(
        self, setting: Setting, algorithm: str, scaling: float, role: str, agents: int, rollouts: int
    ) -> list[Run]:
        """So many agents that differ in their seeds only; made once, for their ids take a while."""
        key = setting.id, algorithm, scaling, role, agents, rollouts
        if key not in self._made:
            self._made[key] = [self._run(setting, algorithm, scaling, role, agent, rollouts) for agent in range(agents)]
        return self._made[key]

    def _run(self, setting: Setting, algorithm: str, scaling: float, role: str, agent: int, rollouts: int) -> Run:
        seed = seed_at(self.seed, role, setting.id, algorithm, scaling, rollouts, agent)
        parameters = {"scaling": scaling, "rollouts": rollouts}
        name = _ALGORITHMS.get(algorithm, algorithm)
        return Run(setting.problem, setting.arguments, name, parameters, seed, setting.iterations, self.episodes)


def full(settings: Sequence[Setting] = SETTINGS, agents: int | None = None, seed: int = 0) -> Plan:
    """The paper's own size, or another number of agents."""
    sizes = {"oil": 25, "ambulance": 50} if agents is None else dict.fromkeys(("oil", "ambulance"), agents)
    fewer = {name: max(2, 2 * size // 5) for name, size in sizes.items()}
    return Plan(tuple(settings), SCALINGS, sizes, fewer, fewer, seed)


def quick(settings: Sequence[Setting] = SETTINGS, agents: int | None = None, seed: int = 0) -> Plan:
    """A reduced study: fewer agents, four scalings."""
    sizes = {"oil": 5, "ambulance": 10} if agents is None else dict.fromkeys(("oil", "ambulance"), agents)
    fewer = {name: max(2, size // 2) for name, size in sizes.items()}
    return Plan(tuple(settings), (0.1, 0.5, 1.0, 2.0), sizes, fewer, fewer, seed, points=60, moments=12, frames=24)
