"""The study `spaql family`: the algorithms of the paper's line of work on sixteen problems, with equal budgets.

The problems are the twelve of the paper and four harder ones: a battery, a machine, inventory and revenue management.
Parameters that exploration depends on most, and the fineness of nets, are chosen for every problem on agents of their
own seeds; each algorithm is then evaluated with other agents, on new random numbers, against the exact optimum.  All
have the same number of environment steps, learning and selection together.

Three numbers describe an algorithm on a problem: its *share of the optimum*, mean evaluation over optimum; its *rank*
by that share among all that learn; and its *regret*, what its training episodes lost against the optimum
(`spaql.agents.regret`), with the slope on log-log axes beside the exponent of its bound.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import numpy as np
from scipy.stats import rankdata

from spaql._version import __version__
from spaql.agents.registry import resolve
from spaql.errors import ParameterError
from spaql.formatting import Bold, Table
from spaql.problems.heuristics import HEURISTICS, make_rule
from spaql.problems.optimum import optimum
from spaql.runner.run_spec import Run, problem_of, seeds_at
from spaql.stats import Estimate, combination, log_log_slope, mean_interval
from spaql.studies.paper.plan import SETTINGS
from spaql.studies.study import Floats, Group, Report, Results, Sheet, Stage, Study, make_series, standing, to_fields
from spaql.viz.charts import Chart, Level

FULL = {"agents": 10, "choosers": 3, "episodes": 1000}
QUICK = {"agents": 2, "choosers": 2, "episodes": 100, "part": 0.05}
NOTE = (
    "Share of the exact optimum in {episodes} new episodes, in %: mean of {agents} agents, half of its 95% interval. "
    "Bold: not significantly worse than the best of those that learn (Welch, 5%, not corrected for the number of "
    "comparisons). All have the same environment steps, learning and selection together: {fewest:,} on the ambulance "
    "problems, {most:,} on the others. Parameters in the table of choices are the best ones on each problem for "
    "{choosers} agents of other seeds."
)
REDUCED = (
    "This is a reduced study, with {part:.0%} of the budgets and {agents} agents: its intervals are wide, and little "
    "follows from it."
)
_HARDER: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("battery", {}),
    ("machine", {}),
    ("inventory", {"lead_time": 1}),
    ("revenue", {}),
)
_HARDER_STEPS = 25_000
_MOST_CELLS = 50_000  # of a fixed net: twice as many as there are steps


def _grid(**choices: Sequence[Any]) -> list[dict[str, Any]]:
    """Return every combination of values of parameters."""
    return [dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values())]


@dataclass(frozen=True, eq=False)
class Member:
    """An algorithm with the parameters to choose from for each problem, and those that are the same on all."""

    algorithm: str
    choices: Sequence[Mapping[str, Any]] = ({},)
    fixed: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """Its label in tables and charts."""
        bonus = self.fixed.get("bonus")
        return resolve(self.algorithm).label + (f" ({bonus.capitalize()})" if bonus else "")

    @property
    def name(self) -> str:
        """Its name in JSON."""
        return "-".join([self.algorithm, *filter(None, [self.fixed.get("bonus")])])

    @property
    def learns(self) -> bool:
        """Whether it learns at all."""
        return resolve(self.algorithm).learns


_SCALINGS = _grid(scaling=(0.01, 0.1, 0.5, 1.0, 2.0))
_BINS = (4, 8, 16, 32, 64)
_BONUSES = (0.0003, 0.003, 0.03)  # the constant of bonuses that grow with H^1.5
_BOUNDED = _grid(bins=_BINS, scaling=_BONUSES)
MEMBERS = (
    Member("tessera"),
    Member("spaql", _SCALINGS),
    Member("aql", _SCALINGS, {"rollouts": 0}),
    Member("adamb", _SCALINGS, {"rollouts": 0}),
    Member("zoomrl", _grid(lipschitz=(1.0, 2.0, 5.0), scaling=(0.01, 0.1, 0.5, 1.0)), {"rollouts": 0}),
    Member("nbql", _grid(epsilon=[0.5 / bins for bins in _BINS], lipschitz=(0.0, 0.1, 1.0), scaling=_BONUSES)),
    Member("ucb-q", _BOUNDED, {"bonus": "hoeffding"}),
    Member("ucb-q", _BOUNDED, {"bonus": "bernstein"}),
    Member("ucb-q-infinite", _BOUNDED),
    Member("q-learning", _grid(bins=_BINS, decay_episodes=(100, 1000))),
    Member("rlsvi", _grid(bins=(4, 8, 16), sigma=(0.01, 0.1, 1.0)), {"rollouts": 0}),
    Member("random"),
)


@dataclass(frozen=True, eq=False)
class Place:
    """A problem of the study with its budget of steps."""

    label: str
    problem: str
    arguments: Mapping[str, Any]
    steps: int

    def run(self, algorithm: str, parameters: Mapping[str, Any], episodes: int) -> Run:
        """Return a run on it, with seed 0."""
        learns = resolve(algorithm).learns
        length: dict[str, Any] = {"budgets": (self.steps,)} if learns else {}
        return Run(self.problem, self.arguments, algorithm, parameters, 0, 0, episodes, **length)

    @cached_property
    def optimum(self) -> float:
        """The expected return of the best policy."""
        return optimum(problem_of(self.run("random", {}, 0)), tolerance=1e-4).value

    def count_cells(self, member: Member, varied: Mapping[str, Any]) -> int:
        """Return the number of cells of an agent of fixed nets before it learns, or a few for others."""
        cls, problem = resolve(member.algorithm).cls, problem_of(self.run("random", {}, 0))
        return int(cls.count_first_cells(problem, {**member.fixed, **varied}))

    @cached_property
    def heuristics(self) -> list[str]:
        """Names of the heuristics that can play it, also those that have another home."""
        return [name for name in HEURISTICS if self._has_rule(name)]

    def _has_rule(self, heuristic: str) -> bool:
        try:
            make_rule(heuristic, problem_of(self.run("random", {}, 0)))
        except ParameterError:
            return False
        return True


@cache
def places(part: float) -> tuple[Place, ...]:
    """The sixteen problems, with a part of their budgets."""
    paper = [
        Place(setting.tick, setting.problem, setting.arguments, int(part * setting.iterations * setting.horizon))
        for setting in SETTINGS
        if setting.printed is not None
    ]
    harder = [Place(name, name, arguments, int(part * _HARDER_STEPS)) for name, arguments in _HARDER]
    return *paper, *harder


@dataclass(frozen=True, eq=False)
class Score:
    """Results of one algorithm on one problem."""

    group: Group
    shares: Floats  # [agents]
    cells: float
    memory: float  # bytes of what was learned
    steps: float
    episodes: int  # of training, that all agents have
    regret: Estimate | None  # after these
    slope: Estimate | None
    bound: float | None  # exponent of the bound on it

    @cached_property
    def share(self) -> Estimate:
        """Mean share of the optimum."""
        return mean_interval(self.shares)


class Family(Study):
    """All algorithms on all problems; the heuristics of a problem beside them."""

    def __init__(
        self, seed: int = 0, *, agents: int = 10, choosers: int = 3, episodes: int = 1000, part: float = 1.0
    ) -> None:
        self.seed, self.agents, self.choosers, self.episodes = seed, agents, choosers, episodes
        self.places, self.part = places(part), part
        self.scores: dict[tuple[str, str], Score] = {}  # by member and place
        self._chosen: dict[tuple[str, str], Group] = {}

    def _group(self, member: Member, place: Place, varied: Mapping[str, Any], phase: str, count: int) -> Group:
        seeds = seeds_at(count, self.seed, "family", phase, member.name, place.label)
        run = place.run(member.algorithm, {**member.fixed, **varied}, self.episodes)
        return Group(place.label, member.label, run, seeds, varied)

    def stages(self, results: Results) -> Iterator[Stage]:
        """Run the agents that choose parameters, then those that are reported."""
        pairs = [(member, place) for member in MEMBERS for place in self.places]
        choices = {
            (member.name, place.label): [
                self._group(member, place, varied, "choice", self.choosers)
                for varied in member.choices
                if place.count_cells(member, varied) <= _MOST_CELLS
            ]
            for member, place in pairs
            if len(member.choices) > 1
        }
        groups = [group for some in choices.values() for group in some]
        later = sum(self.agents * place.steps for place in self.places) * len(MEMBERS)
        yield Stage(groups, later)
        for member, place in pairs:
            varied = member.choices[0]
            if some := choices.get((member.name, place.label)):
                means = [float(np.nan_to_num(results.values(group), nan=-np.inf).mean()) for group in some]
                varied = some[int(np.argmax(means))].varied
            group = self._group(member, place, varied, "report", self.agents)
            self._chosen[member.name, place.label] = group
        yield Stage([*self._chosen.values(), *(group for place in self.places for group in self._heuristics(place))])

    def _heuristics(self, place: Place) -> list[Group]:
        return [self._group(Member(name), place, {}, "report", 2) for name in place.heuristics]

    def _read(self, results: Results, member: Member, place: Place) -> Score:
        group = self._chosen[member.name, place.label]
        steps = results.values(group, "training_steps") + results.values(group, "selection_steps")
        regret = slope = bound = None
        episodes = 0
        if member.learns:
            bounds = results.values(group, "regret_exponent")
            bound = None if np.isnan(bounds).any() else float(bounds[0])
            runs = results.arrays(group, ("episode", "return_sum"))
            shared = runs[0]["episode"]
            for run in runs[1:]:
                shared = np.intersect1d(shared, run["episode"])
            sums = np.array([run["return_sum"][np.isin(run["episode"], shared)] for run in runs])
            losses, episodes = place.optimum * shared - sums, int(shared[-1])
            regret, slope = mean_interval(losses[:, -1]), log_log_slope(shared, losses)
        return Score(
            group,
            results.values(group) / place.optimum,
            float(results.values(group, "cells").mean()),
            float(results.values(group, "memory").mean()),
            float(steps.mean()),
            episodes,
            regret,
            slope,
            bound,
        )

    def report(self, results: Results) -> Report:
        """Tables of shares, ranks, regret, cells and choices, with what follows from them."""
        self.scores = {(m.name, p.label): self._read(results, m, p) for m in MEMBERS for p in self.places}
        learners = [member for member in MEMBERS if member.learns]
        ranks = self._ranks(learners)
        title = "Sixteen problems, the same budget for all"
        steps = [place.steps for place in self.places]
        sizes = {"episodes": self.episodes, "agents": self.agents, "choosers": self.choosers}
        note = NOTE.format(**sizes, fewest=min(steps), most=max(steps))
        paper, harder = self.places[: -len(_HARDER)], self.places[-len(_HARDER) :]
        oil, ambulance = ([at for at in paper if at.problem == name] for name in ("oil", "ambulance"))
        kinds = {"oil": oil, "ambulance": ambulance, "harder problems": harder}
        kinds = {kind: some for kind, some in kinds.items() if some}
        return Report(
            "family",
            title,
            f"{self.agents} agents of each algorithm on each problem, seed {self.seed}; spaql {__version__}.",
            [
                *([REDUCED.format(part=self.part, agents=self.agents)] if self.part < 1.0 else []),
                *self._findings(learners, ranks),
            ],
            [
                self._summary(learners, ranks),
                *(
                    self._shares(f"{kind.capitalize()}, share of the optimum", some, learners, results)
                    for kind, some in kinds.items()
                ),
                self._regrets(learners),
                self._choices(learners),
            ],
            note,
            {"family": self._sheet(learners, ranks, kinds)},
            {"spaql": __version__, "seed": self.seed, "agents": self.agents, "rows": self._records()},
        )

    def _of(self, member: Member, place: Place) -> Score:
        return self.scores[member.name, place.label]

    def _ranks(self, learners: Sequence[Member]) -> Floats:
        """Ranks by mean share, 1 for the best, `[learners, problems]`."""
        shares = np.array([[self._of(member, place).share.mean for place in self.places] for member in learners])
        return np.asarray(rankdata(-shares, axis=0), dtype=np.float64)

    def _ties_best(self, member: Member, place: Place, learners: Sequence[Member]) -> bool:
        """Whether an algorithm is not significantly worse than the best one that learns."""
        best = max(learners, key=lambda other: self._of(other, place).share.mean)
        if best is member:
            return True
        samples = [self._of(each, place).shares for each in (member, best)]
        return standing(combination(samples, [1.0, -1.0])) >= 0

    def _summary(self, learners: Sequence[Member], ranks: Floats) -> Table:
        rows = []
        for member, own in sorted(zip(learners, ranks, strict=True), key=lambda pair: float(pair[1].mean())):
            rank, scores = mean_interval(own), [self._of(member, place) for place in self.places]
            best = sum(self._ties_best(member, place, learners) for place in self.places)
            shares = np.array([100 * score.share.mean for score in scores])
            rows.append(
                [
                    member.label,
                    f"{rank.mean:.1f} ± {rank.half_width:.1f}",
                    f"{best} of {len(self.places)}",
                    f"{shares.mean():.1f}",
                    f"{shares.min():.1f}",
                    f"{np.mean([score.cells for score in scores]):,.0f}",
                    f"{np.mean([score.memory for score in scores]) / 1000:,.0f}",
                ]
            )
        header = ["algorithm", "mean rank", "best on", "mean share, %", "least share, %", "cells", "kB"]
        note = (
            "Rank by the mean share on each problem, 1 for the best: mean over the problems, half of its 95% interval. "
            "Best on: problems on which its mean share is the largest, or not significantly less. The problems of the "
            "paper are variants of two, so intervals over problems are too narrow. Cells and kilobytes of what was "
            "learned are means; of Tessera the cells are the leaves of its tree, and the memory is that of all "
            "transitions, which it keeps."
        )
        return Table(header, rows, "All problems", note)

    def _shares(self, caption: str, some: Sequence[Place], learners: Sequence[Member], results: Results) -> Table:
        rows = []
        for member in MEMBERS:
            cells = []
            for place in some:
                share = self._of(member, place).share
                text = f"{100 * share.mean:z.1f} ± {100 * share.half_width:.1f}"
                best = member in learners and self._ties_best(member, place, learners)
                cells.append(Bold(text) if best else text)
            rows.append([member.label, *cells])
        baselines = []
        for place in some:
            means = {group.algorithm: float(results.values(group).mean()) for group in self._heuristics(place)}
            name = max(means, key=means.__getitem__, default="")
            baselines.append(f"{100 * means[name] / place.optimum:.1f} ({name})" if name else "")
        if any(baselines):
            rows.append(["best heuristic", *baselines])
        return Table(["algorithm", *(place.label for place in some)], rows, caption)

    def _sheet(self, learners: Sequence[Member], ranks: Floats, kinds: Mapping[str, Sequence[Place]]) -> Sheet:
        """Draw mean ranks, and mean shares by kind of problem."""
        order = np.argsort(ranks.mean(axis=1), kind="stable")
        some = [learners[at] for at in order]
        labels = [member.label for member in some]
        rank = make_series("mean rank", labels, [mean_interval(ranks[at]) for at in order], style="points")
        shares = []
        for kind, group in kinds.items():
            means = [[self._of(member, place).share.mean for place in group] for member in some]
            shares.append(make_series(kind, labels, list(map(mean_interval, means)), style="points", factor=100))
        first = Level("all alike", (len(learners) + 1) / 2)
        charts = [
            Chart("Mean rank, 1 for the best", "", "rank", (rank,), (first,), "category"),
            Chart(
                "Share of the optimum",
                "",
                "mean, %",
                tuple(shares),
                (Level("optimum", 100.0, look="optimum"),),
                "category",
            ),
        ]
        return Sheet("Ranks and shares", charts, "bars: 95% intervals over problems", columns=1)

    def _regrets(self, learners: Sequence[Member]) -> Table:
        rows = []
        for member in learners:
            scores = [self._of(member, place) for place in self.places]
            slopes = [score.slope.mean for score in scores if score.slope and np.isfinite(score.slope.mean)]
            lost = [
                score.regret.mean / (p.optimum * score.episodes)
                for score, p in zip(scores, self.places, strict=True)
                if score.regret
            ]
            bounds = {score.bound for score in scores} - {None}
            bound = ", ".join(f"{each:.2f}" for each in sorted(filter(None, bounds)))
            slope = mean_interval(slopes) if len(slopes) > 1 else None
            known = f"{slope.mean:.2f} ± {slope.half_width:.2f}" if slope else ""
            rows.append([member.label, f"{100 * np.mean(lost):.1f}", known, bound])
        header = ["algorithm", "lost in training, %", "slope of the regret", "exponent of the bound"]
        note = (
            "Lost: what training episodes earned less than the optimum, in % of it, mean over the problems. Slope of "
            "the cumulative regret on log-log axes over the last factor of ten of the training episodes: mean over the "
            "problems, half of its 95% interval; 1 is no learning. SPAQL spends 20 of 21 steps on selection and so has "
            "fewer training episodes."
        )
        return Table(header, rows, "Regret", note)

    def _choices(self, learners: Sequence[Member]) -> Table:
        rows = []
        for member in learners:
            for name in member.choices[0]:
                chosen = (self._of(member, place).group.varied[name] for place in self.places)
                rows.append([member.label, name, *(f"{value:g}" for value in chosen)])
        return Table(["algorithm", "parameter", *(p.label for p in self.places)], rows, "Chosen parameters", left=2)

    def _findings(self, learners: Sequence[Member], ranks: Floats) -> list[str]:
        """Statements that follow from the scores, each with its interval."""
        mean = {member.name: mean_interval(own) for member, own in zip(learners, ranks, strict=True)}
        by_name = {member.name: member for member in learners}
        best = min(mean, key=lambda name: float(mean[name].mean))
        wins = sum(self._ties_best(by_name[best], place, learners) for place in self.places)
        published = [member for member in learners if member.algorithm != "tessera"]
        second = min(published, key=lambda member: float(mean[member.name].mean))
        lines = [
            f"{by_name[best].label} has the best mean rank, {mean[best]}; on {wins} of {len(self.places)} problems it "
            "has the largest mean share, or one that is not significantly less.",
            f"Of the published algorithms {second.label} has the best mean rank, {mean[second.name]}.",
        ]
        lines += [
            self._compare("aql", "nbql", "Adaptive partitions against fixed nets, both for each time step"),
            self._compare("adamb", "aql", "Adaptive partitions with a model against those without"),
            self._compare("spaql", "aql", "One partition with selection against one for each time step"),
            self._compare("ucb-q-bernstein", "ucb-q-hoeffding", "A bonus by the variance against one by the range"),
        ]
        beaten = {
            member.label: sum(self._is_behind_random(member, place) for place in self.places) for member in learners
        }
        some = ", ".join(f"{label} on {count}" for label, count in beaten.items() if count)
        lines.append(f"Significantly worse than uniformly random actions: {some or 'none'}.")
        return lines

    def _is_behind_random(self, member: Member, place: Place) -> bool:
        samples = [self._of(each, place).shares for each in (member, Member("random"))]
        return standing(combination(samples, [1.0, -1.0])) < 0

    def _compare(self, first: str, second: str, what: str) -> str:
        """Compare two algorithms by their mean shares, paired by problem, and their cells."""
        ours, theirs = ([self.scores[name, place.label] for place in self.places] for name in (first, second))
        labels = {member.name: member.label for member in MEMBERS}
        gain = mean_interval([100 * (a.share.mean - b.share.mean) for a, b in zip(ours, theirs, strict=True)])
        cells = float(np.exp(np.mean([np.log(a.cells / b.cells) for a, b in zip(ours, theirs, strict=True)])))
        return (
            f"{what}: the share of {labels[first]} minus that of {labels[second]} is {gain} points on average; for one "
            f"cell of {labels[second]} it has {cells:.2g}."
        )

    def _records(self) -> list[dict[str, Any]]:
        """All scores, ready for JSON."""
        records = []
        for (name, label), score in self.scores.items():
            record = {"algorithm": name, "problem": label, **dict(score.group.varied), "steps": score.steps}
            record |= {**to_fields("share", score.share), "cells": None if np.isnan(score.cells) else score.cells}
            record |= {"memory": score.memory, "episodes": score.episodes}
            slope = score.slope if score.slope and np.isfinite(score.slope.mean) else None
            bounded = slope if slope and np.isfinite([slope.low, slope.high]).all() else None
            records.append(
                record
                | to_fields("regret", score.regret)
                | {
                    "slope": slope and slope.mean,
                    "slope_low": bounded and bounded.low,
                    "slope_high": bounded and bounded.high,
                }
            )
        return records
