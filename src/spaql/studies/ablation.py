"""The study behind `spaql ablation`: SPAQL, SPAQL without each of its mechanisms, and the published agents.

Columns are the twelve problems of the paper, at AQL's budget, and the four kinds of random problems of the first
family.  A mechanism is worth keeping where leaving it out loses some of the optimum somewhere, at the 5% level, or
costs arms.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from spaql._version import __version__
from spaql.agents.tessera.agent import MECHANISMS
from spaql.atomic_io import FIGURES, Content
from spaql.formatting import Table
from spaql.studies.contest import (
    AQL,
    LONGER,
    PUBLISHED,
    Column,
    Contender,
    Contest,
    Score,
    Tessera,
    paper_columns,
    wild_columns,
)
from spaql.studies.legacy import Cost, opened
from spaql.studies.paper.printed import SCALINGS
from spaql.viz import figures
from spaql.viz.charts import Chart, Level, Series

PARTS = (0.1, 0.25, 1.0)
PUBLISHED_AGENTS = (AQL, PUBLISHED)
LEFT_OUT = tuple(Contender(f"without-{name}", f"without {name}", "tessera", {"disable": [name]}) for name in MECHANISMS)
NOTE = (
    "Share of the exact optimum in fresh episodes, in %, and half of its 95% interval. Budget: 25,000 environment "
    "steps (oil and random problems), 10,000 (ambulance), learning and selection together. Minus: behind SPAQL at the "
    "5% level, by Welch's test for other algorithms, by the paired one (same seeds, or by random problem) for SPAQL "
    "without a mechanism; plus: ahead of it; nothing is corrected for the number of comparisons. AQL and SPAQL "
    "published have the best of {scalings} scalings, chosen on the agents shown; 'the same, all its steps' plays as "
    "many episodes as SPAQL and 20 times as many beside them, to choose its policy."
)


@dataclass(frozen=True)
class Size:
    """How large the study is."""

    oil: int  # agents on each problem
    ambulance: int
    problems: int  # of the random family
    wild: int  # agents on each of them
    episodes: int  # fresh ones, per agent
    scalings: tuple[float, ...]


FULL = Size(25, 50, 800, 3, 2000, SCALINGS)
QUICK = Size(5, 10, 16, 2, 500, (0.1, 0.5, 1.0, 2.0))


@dataclass(frozen=True, eq=False)
class Ablation:
    """The finished study: scores by contender, column and part of the budget."""

    size: Size
    seed: int
    paper: list[Column]
    families: list[Column]
    scores: dict[tuple[str, str, float], Score]
    cost: Cost
    files: list[Path]

    @property
    def contenders(self) -> list[Contender]:
        """The rows."""
        return [Tessera, *LEFT_OUT, AQL, PUBLISHED, LONGER]

    def score(self, contender: Contender, column: Column, part: float = 1.0) -> Score | None:
        """None where there is no such agent."""
        return self.scores.get((contender.key, column.key, part))

    def final(self, column: Column, part: float = 1.0) -> Score:
        """The default agent's."""
        return self.scores[Tessera.key, column.key, part]

    # Tables ----------------------------------------------------------------------------------------------------

    def tables(self) -> list[tuple[str, list[list[str]]]]:
        """Captions and rows, the first of each the head."""
        halves = self.paper[:6], self.paper[6:]
        return [
            ("Oil discovery, share of the optimum", self._shares(halves[0])),
            ("Ambulance relocation, share of the optimum", self._shares(halves[1])),
            ("Random problems of the first family, share of the optimum", self._shares(self.families)),
            ("Arms", self._arms()),
            ("At a tenth, a quarter and all of the budget, share of the optimum", self._budgets()),
            ("What leaving a mechanism out costs", self._verdicts()),
        ]

    def _shares(self, columns: Sequence[Column]) -> list[list[str]]:
        rows = [["agent", *(column.name for column in columns)]]
        for contender in self.contenders:
            texts = [self._share(contender, column) for column in columns]
            if any(texts):
                rows.append([contender.name, *texts])
        return rows

    def _share(self, contender: Contender, column: Column) -> str:
        score = self.score(contender, column)
        if score is None:
            return ""
        mark = score.mark(self.final(column))
        return f"{100 * score.share.mean:.2f} ± {100 * score.share.half_width:.2f}{mark}"

    def _arms(self) -> list[list[str]]:
        columns = [*self.paper, *self.families]
        rows = [["agent", *(_brief(column) for column in columns)]]
        printed = [column.setting.printed for column in self.paper if column.setting is not None]
        rows.append(["SPAQL as printed", *(f"{row.arms['spaql'].mean:.0f}" for row in printed if row), "", "", "", ""])
        for contender in self.contenders:
            scores = [self.score(contender, column) for column in columns]
            rows.append([contender.name, *("" if score is None else f"{score.arms.mean:.0f}" for score in scores)])
        return rows

    def _budgets(self) -> list[list[str]]:
        agents = Tessera, *PUBLISHED_AGENTS
        names = {PUBLISHED.key: "published"}
        rows = [["problem", *(f"{names.get(a.key, a.name)} {_PARTS[part]}" for part in PARTS for a in agents)]]
        for column in self.paper:
            row = [column.name]
            for part in PARTS:
                for agent in agents:
                    score = self.scores[agent.key, column.key, part]
                    row.append(f"{100 * score.share.mean:.2f}{score.mark(self.final(column, part))}")
            rows.append(row)
        return rows

    def _verdicts(self) -> list[list[str]]:
        rows = [["mechanism", "behind on", "ahead on", "largest loss, points", "arms, times", "without it"]]
        for contender, name in zip(LEFT_OUT, MECHANISMS, strict=True):
            columns = [*self.paper, *self.families]
            scores = {column.key: self.scores[contender.key, column.key, 1.0] for column in columns}
            standings = [scores[column.key].standing(self.final(column)) for column in columns]
            losses = {
                column.name: -scores[column.key].minus(self.final(column)).mean
                for column, standing in zip(columns, standings, strict=True)
                if standing == -1
            }
            worst = max(losses, key=lambda key: losses[key], default="")
            arms = np.exp(np.mean([np.log(scores[c.key].arms.mean / self.final(c).arms.mean) for c in columns]))
            rows.append(
                [
                    name,
                    f"{standings.count(-1)} of {len(columns)}",
                    str(standings.count(1)),
                    f"{100 * losses[worst]:z.2f} ({worst})" if worst else "none",
                    f"{arms:.2f}",
                    MECHANISMS[name],
                ]
            )
        return rows

    # What was to be reached ------------------------------------------------------------------------------------

    def targets(self) -> dict[str, Any]:
        """The figures that the agent was built for."""
        lowest = min(self.paper, key=lambda column: self.final(column).share.mean)
        standings = [
            self.final(column, part).standing(self.scores[agent.key, column.key, part])
            for column in self.paper
            for part in PARTS
            for agent in PUBLISHED_AGENTS
        ]
        ratios = {
            column.key: self.final(column).arms.mean / column.setting.printed.arms["spaql"].mean
            for column in self.paper
            if column.setting is not None and column.setting.printed is not None
        }
        most = max(ratios, key=lambda key: ratios[key])
        return {
            "lowest_share": self.final(lowest).share.mean,
            "lowest_share_on": lowest.key,
            "steps_at_most": max(float(self.final(column).steps) for column in self.paper),
            "comparisons": len(standings),
            "ahead": standings.count(1),
            "behind": standings.count(-1),
            "arms_over_printed": ratios[most],
            "arms_over_printed_on": most,
        }

    def sentences(self) -> list[str]:
        """The same in words."""
        found = self.targets()
        return [
            f"SPAQL reaches at least {100 * found['lowest_share']:.2f}% of the optimum on all {len(self.paper)} "
            f"problems of the paper (least on {found['lowest_share_on']}).",
            f"Against AQL and published SPAQL at a tenth, a quarter and all of the budget it is ahead in "
            f"{found['ahead']} of {found['comparisons']} comparisons and behind in {found['behind']}.",
            f"It has at most {found['arms_over_printed']:.2f} times the arms printed for SPAQL "
            f"(most on {found['arms_over_printed_on']}).",
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        rows = []
        for (key, problem, part), score in self.scores.items():
            column = next(column for column in (*self.paper, *self.families) if column.key == problem)
            difference = score.minus(self.final(column, part)) if (Tessera.key, problem, part) in self.scores else None
            rows.append(
                {
                    "agent": key,
                    "problem": problem,
                    "budget": part,
                    "share": score.share.mean,
                    "share_low": score.share.low,
                    "share_high": score.share.high,
                    "minus_spaql": None if difference is None else difference.mean,
                    "minus_spaql_low": None if difference is None else difference.low,
                    "minus_spaql_high": None if difference is None else difference.high,
                    "arms": score.arms.mean,
                    "arms_low": score.arms.low,
                    "arms_high": score.arms.high,
                    "steps": score.steps,
                    "scalings": score.scalings,
                }
            )
        return {"spaql": __version__, "seed": self.seed, "targets": self.targets(), "rows": rows}

    def plain(self) -> str:
        """The tables for a terminal."""
        parts = [f"{caption}\n\n{Table(rows[0], rows[1:]).text()}" for caption, rows in self.tables()]
        return "\n\n".join([*parts, *self.sentences()])

    def text(self) -> str:
        """The tables as Markdown."""
        agents = f"{self.size.oil} agents (oil), {self.size.ambulance} (ambulance), {self.size.wild} on each of "
        head = f"{agents}{self.size.problems} random problems, seed {self.seed}; spaql {__version__}."
        parts = ["# What each mechanism is worth", head, *self.sentences(), self.note]
        for caption, rows in self.tables():
            parts += [f"## {caption}", Table(rows[0], rows[1:]).markdown()]
        return "\n\n".join(parts) + "\n"

    @property
    def note(self) -> str:
        """How to read the tables."""
        return NOTE.format(scalings=len(self.size.scalings))

    # Figure ----------------------------------------------------------------------------------------------------

    def charts(self) -> list[Chart]:
        """For each mechanism, what is lost without it on each problem."""
        return [self._chart(name, contender) for name, contender in zip(MECHANISMS, LEFT_OUT, strict=True)]

    def _chart(self, name: str, contender: Contender) -> Chart:
        groups = {"oil": self.paper[:6], "ambulance": self.paper[6:], "random problems": self.families}
        series = []
        for group, columns in groups.items():
            losses = [self.final(column).minus(self.scores[contender.key, column.key, 1.0]) for column in columns]
            series.append(
                Series(
                    group,
                    [_brief(column) for column in columns],
                    [100 * loss.mean for loss in losses],
                    [100 * loss.low for loss in losses],
                    [100 * loss.high for loss in losses],
                    group,
                    "points",
                )
            )
        none = Level("no loss", 0.0, look="optimum")
        return Chart(f"without {name}", "", "loss, % of optimum", tuple(series), (none,), "category")


_PARTS = {0.1: "1/10", 0.25: "1/4", 1.0: "1"}
_BRIEF = {"oil quadratic": "quad", "oil Laplace": "Lapl", "ambulance Uniform": "unif", "ambulance Beta": "beta"}


def _brief(column: Column) -> str:
    for long, short in _BRIEF.items():
        if column.name.startswith(long):
            return column.name.replace(long, short)
    first, _, _, where = column.name.split()
    return f"{first[:3]} {where}"


def ablate(
    folder: str | os.PathLike[str],
    *,
    size: Size = FULL,
    seed: int = 0,
    threads: int | None = None,
    progress_bar: bool | None = None,
) -> Ablation:
    """Do the study, or what is left of it, and write tables and figure into the folder.

    Interrupted at any moment, it goes on from where it was when it is called again.
    """
    agents = {"oil": size.oil, "ambulance": size.ambulance}
    paper = paper_columns(agents.__getitem__, size.episodes)
    families = wild_columns(1, size.problems, 25_000, size.wild, size.episodes)
    contest = Contest(seed, size.scalings)
    wanted: list[tuple[Contender, list[Column], float]] = [
        *((agent, paper, part) for part in PARTS for agent in (Tessera, *PUBLISHED_AGENTS)),
        *((agent, paper, 1.0) for agent in LEFT_OUT),
        *((agent, families, 1.0) for agent in (Tessera, *LEFT_OUT)),
        (LONGER, paper, 1.0),
    ]
    runs = [run for agent, columns, part in wanted for run in contest.runs(agent, columns, part)]
    with opened(folder, threads=threads, progress_bar=progress_bar) as study:
        cost = study.complete(runs)
        scores = {
            (agent.key, column.key, part): contest.score(study, agent, column, part)
            for agent, columns, part in wanted
            for column in columns
        }
        files: list[Path] = []
        done = Ablation(size, seed, paper, families, scores, cost, files)
        files += study.write(_files(done))
    return done


def _files(done: Ablation) -> dict[str, Content]:
    note = "share of the optimum lost when it is left out; bars: 95%; each panel has its own scale"
    draw = partial(figures.panels, done.charts(), title="What each mechanism of SPAQL is worth", columns=2, note=note)
    return {
        "ablation.md": done.text(),
        "ablation.json": json.dumps(done.to_dict(), indent=1, allow_nan=False) + "\n",
        **figures.writers(f"{FIGURES}/ablation", draw),
    }
