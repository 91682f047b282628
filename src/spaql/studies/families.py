"""The study `spaql families`: Tessera on random problems (`spaql.problems.random_travel`).

`evaluate_family` scores Tessera on the second family, on which nothing was chosen, beside AQL, SPAQL and Random.
`vary_constants` shows on the first family, on which Tessera was developed, the effect of each of its constants.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spaql._version import __version__
from spaql.formatting import Table
from spaql.studies.paper.printed import SCALINGS
from spaql.studies.study import Report, Results, Stage, Study
from spaql.studies.variants import (
    AQL,
    RANDOM,
    SPAQL,
    TESSERA,
    Column,
    Comparison,
    Score,
    Variant,
    interval,
    random_columns,
)

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
    Variant(f"{name}-{value:g}", "tessera", {name: value}, f"{name} {value:g}")
    for name, (lower, _, higher) in CHANGES.items()
    for value in (lower, higher)
)
NOTE = (
    "Share of the exact optimum in new episodes, in %, after 25,000 environment steps of learning and selection: mean "
    "over {problems} random problems with {agents} agents each, half of its 95% interval over problems, and the share "
    "that nine of ten agents reach. Minus: behind Tessera at the 5% level, paired by problem; plus: ahead of it. "
    "P-values are not corrected for the number of comparisons."
)
TUNED_NOTE = (
    " AQL and SPAQL get the rewards without unit and zero, and the best of {scalings} scalings on each problem, chosen "
    "on the reported agents."
)


@dataclass(frozen=True)
class Size:
    """Numbers of problems, agents and evaluation episodes, and the scalings to choose from."""

    problems: int
    agents: int
    episodes: int
    scalings: tuple[float, ...]


FULL = Size(200, 3, 2000, SCALINGS)
MORE = Size(800, 3, 2000, ())  # for the constants, whose effects are small and which need no scalings
QUICK = Size(16, 2, 500, (0.1, 0.5, 1.0, 2.0))


class Families(Study):
    """Variants on one family of random problems; the column "all" is all kinds together."""

    def __init__(self, name: str, family: int, variants: Sequence[Variant], size: Size, seed: int = 0) -> None:
        self.name, self.family, self.variants, self.size, self.seed = name, family, variants, size, seed
        self.kinds = random_columns(family, size.problems, STEPS, size.agents, size.episodes)
        everything = Column("all", "all kinds", tuple(task for kind in self.kinds for task in kind.tasks))
        self.columns = [everything, *self.kinds]
        self.comparison = Comparison(seed, size.scalings)

    def stages(self, results: Results) -> Iterator[Stage]:
        """All runs at once."""
        yield Stage([group for variant in self.variants for group in self.comparison.groups(variant, self.kinds)])

    def report(self, results: Results) -> Report:
        """One table."""
        scores = {
            (variant.name, column.name): self.comparison.score(results, variant, column)
            for variant in self.variants
            for column in self.columns
        }
        purpose = "on which Tessera was developed" if self.family == CHOSEN_ON else "on which nothing was chosen"
        note = NOTE.format(problems=self.size.problems, agents=self.size.agents)
        return Report(
            self.name,
            f"Random problems of family {self.family}, {purpose}; seed {self.seed}; spaql {__version__}",
            tables=[self._table(scores)],
            note=note + (TUNED_NOTE.format(scalings=len(self.size.scalings)) if AQL in self.variants else ""),
            data={
                "spaql": __version__,
                "seed": self.seed,
                "family": self.family,
                "problems": self.size.problems,
                "agents": self.size.agents,
                "budget": STEPS,
                "rows": [_record(*key, score) for key, score in scores.items()],
            },
        )

    def _table(self, scores: dict[tuple[str, str], Score]) -> Table:
        whole, *kinds = self.columns
        rows = []
        for variant in self.variants:
            pairs = [(scores[variant.name, c.name], scores[TESSERA.name, c.name]) for c in self.columns]
            shares = [score.percent(1) + score.mark(tessera) for score, tessera in pairs]
            score = scores[variant.name, whole.name]
            cells = f"{score.cells.mean:.0f}" if score.has_cells else ""
            rows.append([variant.label, shares[0], f"{100 * score.reached_by(0.9):.1f}", *shares[1:], cells])
        return Table(["agent", whole.label, "9 of 10 reach", *(kind.label for kind in kinds), "cells"], rows)


def _record(agent: str, problems: str, score: Score) -> dict[str, object]:
    return {
        "agent": agent,
        "problems": problems,
        **interval("share", score.share),
        "worst_decile": score.reached_by(0.9),
        "worst": score.reached_by(1.0),
        "cells": score.cells.mean if score.has_cells else None,
        "steps": score.steps,
    }


def evaluate_family(size: Size = FULL, seed: int = 0) -> Families:
    """Tessera on the second family, beside AQL, SPAQL and Random."""
    return Families("families", REPORTED_ON, (TESSERA, AQL, SPAQL, RANDOM), size, seed)


def vary_constants(size: Size = MORE, seed: int = 0) -> Families:
    """Tessera on the first family, with its defaults and with each of its constants smaller and larger."""
    return Families("constants", CHOSEN_ON, (TESSERA, *VARIANTS), size, seed)
