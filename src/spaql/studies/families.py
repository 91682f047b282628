"""The study behind `spaql families`: one default agent on random problems (`spaql.problems.random_travel`).

`vary` shows on the first family, on which the agent was made, what each of its constants is worth, made smaller and
larger; `report` scores the default on the second family, on which nothing was chosen, with the published agents beside
it, for whom the rewards are given without unit and zero.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spaql._version import __version__
from spaql.formatting import Table
from spaql.studies.contest import AQL, PUBLISHED, RANDOM, Column, Contender, Contest, Score, Tessera, wild_columns
from spaql.studies.legacy import Cost, opened
from spaql.studies.paper.printed import SCALINGS

CHOSEN_ON, REPORTED_ON = 1, 2
STEPS = 25_000
CHANGES: dict[str, tuple[float, float, float]] = {  # lower, default, higher
    "exploration": (0.125, 0.25, 0.5),
    "z_threshold": (2.0, 3.0, 4.5),
    "tolerance": (0.05, 0.1, 0.2),
    "min_samples": (2, 4, 8),
    "growth": (0.125, 0.25, 0.5),
}
VARIANTS = tuple(
    Contender(f"{name}-{value:g}", f"{name} {value:g}", "tessera", {name: value})
    for name, (lower, _, higher) in CHANGES.items()
    for value in (lower, higher)
)
NOTE = (
    "Share of the exact optimum in fresh episodes, in %, after 25,000 environment steps, learning and selection "
    "together: mean over {problems} random problems with {agents} agents each, half of its 95% interval over problems, "
    "and what nine of ten agents reach. Minus: behind SPAQL at the 5% level, paired by problem; plus: ahead of it; "
    "nothing is corrected for the number of comparisons."
)
TUNED_NOTE = (
    " AQL and SPAQL published meet the rewards without unit and zero, and have the best of {scalings} scalings on each "
    "problem, chosen on the agents shown."
)


@dataclass(frozen=True)
class Size:
    """How large the study is."""

    problems: int
    agents: int
    episodes: int
    scalings: tuple[float, ...]


FULL = Size(200, 3, 2000, SCALINGS)
MORE = Size(800, 3, 2000, ())  # for the constants, whose differences are small and which need no scalings
QUICK = Size(16, 2, 500, (0.1, 0.5, 1.0, 2.0))


@dataclass(frozen=True, eq=False)
class Families:
    """A finished study of one family: scores by contender and column; the column "all" is all kinds together."""

    family: int
    size: Size
    seed: int
    contenders: Sequence[Contender]
    columns: list[Column]
    scores: dict[tuple[str, str], Score]
    cost: Cost
    files: list[Path]

    def rows(self) -> list[list[str]]:
        """The table, its head first."""
        whole, *kinds = self.columns
        rows = [["agent", whole.name, "9 of 10 reach", *(column.name for column in kinds), "arms"]]
        for contender in self.contenders:
            shares = [self._share(self.scores[contender.key, column.key], column) for column in self.columns]
            score = self.scores[contender.key, whole.key]
            arms = "" if np.isnan(score.arms.mean) else f"{score.arms.mean:.0f}"
            rows.append([contender.name, shares[0], f"{100 * score.reached_by(0.9):.1f}", *shares[1:], arms])
        return rows

    def _share(self, score: Score, column: Column) -> str:
        mark = score.mark(self.scores[Tessera.key, column.key])
        return f"{100 * score.share.mean:.1f} ± {100 * score.share.half_width:.1f}{mark}"

    @property
    def note(self) -> str:
        """How to read the table."""
        note = NOTE.format(problems=self.size.problems, agents=self.size.agents)
        return note + (TUNED_NOTE.format(scalings=len(self.size.scalings)) if AQL in self.contenders else "")

    def plain(self) -> str:
        """The table for a terminal."""
        return f"{self.title}\n\n{Table(self.rows()[0], self.rows()[1:]).text()}"

    @property
    def title(self) -> str:
        """What was studied."""
        purpose = "on which the agent was made" if self.family == CHOSEN_ON else "on which nothing was chosen"
        return f"Random problems of family {self.family}, {purpose}; seed {self.seed}"

    def text(self) -> str:
        """The table as Markdown."""
        return f"# {self.title}; spaql {__version__}\n\n{Table(self.rows()[0], self.rows()[1:]).markdown()}\n\n{self.note}\n"

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        rows = []
        for (agent, column), score in self.scores.items():
            arms = score.arms.mean
            rows.append(
                {
                    "agent": agent,
                    "problems": column,
                    "share": score.share.mean,
                    "share_low": score.share.low,
                    "share_high": score.share.high,
                    "worst_decile": score.reached_by(0.9),
                    "worst": score.reached_by(1.0),
                    "arms": None if np.isnan(arms) else arms,
                    "steps": score.steps,
                }
            )
        size = {"problems": self.size.problems, "agents": self.size.agents, "budget": STEPS}
        return {"spaql": __version__, "seed": self.seed, "family": self.family, **size, "rows": rows}


def report(folder: str | os.PathLike[str], **options: Any) -> Families:
    """The default agent on the second family, published agents and Random beside it; see `_perform`."""
    return _perform(folder, "families", REPORTED_ON, (Tessera, AQL, PUBLISHED, RANDOM), **options)


def vary(folder: str | os.PathLike[str], **options: Any) -> Families:
    """The default agent on the first family, and with each of its constants changed; see `_perform`."""
    return _perform(folder, "constants", CHOSEN_ON, (Tessera, *VARIANTS), **{"size": MORE, **options})


def _perform(
    folder: str | os.PathLike[str],
    name: str,
    family: int,
    contenders: Sequence[Contender],
    *,
    size: Size = FULL,
    seed: int = 0,
    threads: int | None = None,
    progress_bar: bool | None = None,
) -> Families:
    """Do the study, or what is left of it, and write its table into the folder."""
    kinds = wild_columns(family, size.problems, STEPS, size.agents, size.episodes)
    columns = [Column("all", "all kinds", tuple(task for column in kinds for task in column.tasks)), *kinds]
    contest = Contest(seed, size.scalings)
    runs = [run for agent in contenders for run in contest.runs(agent, kinds)]
    with opened(folder, threads=threads, progress_bar=progress_bar) as study:
        cost = study.complete(runs)
        scores = {
            (agent.key, column.key): contest.score(study, agent, column) for agent in contenders for column in columns
        }
        files: list[Path] = []
        done = Families(family, size, seed, contenders, columns, scores, cost, files)
        told = json.dumps(done.to_dict(), indent=1, allow_nan=False) + "\n"
        files += study.write({f"{name}.md": done.text(), f"{name}.json": told})
    return done
