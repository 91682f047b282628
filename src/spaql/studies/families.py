"""The study `spaql families`: Tessera on random problems (`spaql.problems.random_travel`).

`evaluate_family` scores Tessera on the second family, on which nothing was chosen, beside AQL, SPAQL and Random.
`vary_constants` shows on the first family, on which Tessera was developed, the effect of each of its constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from spaql._version import __version__
from spaql.formatting import Table
from spaql.studies.paper.printed import QUICK_SCALINGS, SCALINGS
from spaql.studies.study import Report, Results
from spaql.studies.variants import (
    AQL,
    RANDOM,
    RANDOM_STEPS,
    SPAQL,
    TESSERA,
    Variant,
    VariantStudy,
    interval,
    random_columns,
)

CHOSEN_ON, REPORTED_ON = 1, 2
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
QUICK = {"problems": 16, "agents": 2, "episodes": 500, "scalings": QUICK_SCALINGS}
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


class Families(VariantStudy):
    """Variants on random problems of one family, with a number of agents on each."""

    def __init__(
        self,
        name: str,
        family: int,
        variants: Sequence[Variant],
        seed: int,
        *,
        problems: int,
        agents: int = 3,
        episodes: int = 2000,
        scalings: Sequence[float] = SCALINGS,
    ) -> None:
        self.name, self.family, self.variants, self.problems, self.agents = name, family, variants, problems, agents
        kinds = random_columns(family, problems, agents)
        everything = [arguments for kind in kinds for arguments in kind.arguments]
        self.columns = [replace(kinds[0], name="all", label="all kinds", arguments=everything), *kinds]
        super().__init__(seed, episodes, scalings, [(variant, self.columns, 1.0) for variant in variants])

    def report(self, results: Results) -> Report:
        """One table."""
        self.read(results)
        purpose = "on which Tessera was developed" if self.family == CHOSEN_ON else "on which nothing was chosen"
        note = NOTE.format(problems=self.problems, agents=self.agents)
        return Report(
            self.name,
            f"Random problems of family {self.family}, {purpose}; seed {self.seed}; spaql {__version__}",
            tables=[self._table()],
            note=note + (TUNED_NOTE.format(scalings=len(self.scalings)) if AQL in self.variants else ""),
            data={
                "spaql": __version__,
                "seed": self.seed,
                "family": self.family,
                "problems": self.problems,
                "agents": self.agents,
                "budget": RANDOM_STEPS,
                "rows": [
                    {
                        "agent": agent,
                        "problems": column,
                        **interval("share", score.share),
                        "worst_decile": score.reached_by(0.9),
                        "worst": score.reached_by(1.0),
                        "cells": score.cells.mean if score.has_cells else None,
                        "steps": score.steps,
                    }
                    for (agent, column, _), score in self.scores.items()
                ],
            },
        )

    def _table(self) -> Table:
        rows = []
        for variant in self.variants:
            first, *others = (self.percent(variant, column, 1) for column in self.columns)
            score = self.of(variant, self.columns[0])
            cells = f"{score.cells.mean:.0f}" if score.has_cells else ""
            rows.append([variant.label, first, f"{100 * score.reached_by(0.9):.1f}", *others, cells])
        first, *others = (column.label for column in self.columns)
        return Table(["agent", first, "9 of 10 reach", *others, "cells"], rows)


def evaluate_family(seed: int = 0, *, problems: int = 200, **size: Any) -> Families:
    """Tessera on the second family, beside AQL, SPAQL and Random."""
    return Families("families", REPORTED_ON, (TESSERA, AQL, SPAQL, RANDOM), seed, problems=problems, **size)


def vary_constants(seed: int = 0, *, problems: int = 800, **size: Any) -> Families:
    """Tessera on the first family, with its defaults and with each of its constants smaller and larger."""
    return Families("constants", CHOSEN_ON, (TESSERA, *VARIANTS), seed, problems=problems, **size)
