"""The study `spaql families`: Tessera on random problems (`spaql.problems.random_travel`) of the second family.

Nothing was chosen on them.  AQL, SPAQL and Random play the same problems.
"""

from dataclasses import replace

from spaql._version import __version__
from spaql.formatting import Table
from spaql.studies import variants
from spaql.studies.paper.printed import QUICK_SCALINGS
from spaql.studies.study import Report, Results, to_fields
from spaql.studies.variants import AQL, RANDOM, SPAQL, TESSERA, Size, VariantStudy

FAMILY = 2
VARIANTS = (TESSERA, AQL, SPAQL, RANDOM)
FULL = Size(problems=200, agents=1, episodes=2000)
QUICK = Size(problems=16, agents=2, episodes=500, scalings=QUICK_SCALINGS)
NOTE = (
    "Share of the exact optimum in new episodes, in %, after 25,000 environment steps of learning and selection: mean "
    "over {problems} random problems with {agents} each, half of its 95% interval over problems, and the share "
    "that nine of ten agents reach. Minus: behind Tessera at the 5% level, paired by problem; plus: ahead of it. "
    "P-values are not corrected for the number of comparisons. AQL and SPAQL get the rewards without unit and zero, "
    "and the best of {scalings} scalings on each problem, chosen on the reported agents."
)


class Families(VariantStudy):
    """Tessera, AQL, SPAQL and Random on random problems of the second family."""

    def __init__(self, seed: int = 0, size: Size = FULL) -> None:
        kinds = variants.random_columns(FAMILY, size)
        everything = [arguments for kind in kinds for arguments in kind.arguments]
        self.columns = [replace(kinds[0], name="all", label="all kinds", arguments=everything), *kinds]
        super().__init__(seed, size, [(variant, self.columns, 1.0) for variant in VARIANTS])

    def report(self, results: Results) -> Report:
        """One table."""
        self.read(results)
        title = f"Random problems of family {FAMILY}, on which nothing was chosen"
        sizes = {"problems": self.size.problems, "agents": self.size.agents}
        agents = "one agent" if self.size.agents == 1 else f"{self.size.agents} agents"
        note = NOTE.format(scalings=len(self.size.scalings), problems=self.size.problems, agents=agents)
        rows = []
        for (agent, column, _), score in self.scores.items():
            shares = {"worst_decile": score.reached_by(0.9), "worst": score.reached_by(1.0)}
            cells = score.cells.mean if score.has_cells else None
            row = {"agent": agent, "problems": column, **to_fields("share", score.share), **shares}
            rows.append(row | {"cells": cells, "steps": score.steps})
        data = {"spaql": __version__, "seed": self.seed, "family": FAMILY, **sizes}
        data |= {"budget": variants.RANDOM_STEPS, "rows": rows}
        return Report(
            "families", f"{title}; seed {self.seed}; spaql {__version__}", tables=[self._table()], note=note, data=data
        )

    def _table(self) -> Table:
        rows = []
        for variant in VARIANTS:
            first, *others = (self.percent(variant, column, 1) for column in self.columns)
            score = self.of(variant, self.columns[0])
            cells = f"{score.cells.mean:.0f}" if score.has_cells else ""
            rows.append([variant.label, first, f"{100 * score.reached_by(0.9):.1f}", *others, cells])
        first, *others = (column.label for column in self.columns)
        return Table(["agent", first, "9 of 10 reach", *others, "cells"], rows)
