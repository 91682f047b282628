"""The study `spaql families`: Tessera on random problems (`spaql.problems.random_travel`).

`evaluate_family` scores Tessera on the second family, on which nothing was chosen, beside AQL, SPAQL and Random.
`vary_constants` shows on the first family, on which Tessera was developed, the effect of each of its constants.
"""

from collections.abc import Sequence
from dataclasses import replace

from spaql._version import __version__
from spaql.formatting import Table
from spaql.studies import variants
from spaql.studies.paper.printed import QUICK_SCALINGS
from spaql.studies.study import Report, Results, to_fields
from spaql.studies.variants import AQL, RANDOM, SPAQL, TESSERA, Size, Variant, VariantStudy

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
FULL = Size(problems=200, agents=3, episodes=2000)
MORE = Size(problems=800, agents=3, episodes=2000)  # for the constants, whose effects are small
QUICK = Size(problems=16, agents=2, episodes=500, scalings=QUICK_SCALINGS)
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
    """Variants on random problems of one family."""

    def __init__(self, name: str, family: int, compared: Sequence[Variant], seed: int, size: Size) -> None:
        self.name, self.family, self.compared = name, family, compared
        kinds = variants.random_columns(family, size)
        everything = [arguments for kind in kinds for arguments in kind.arguments]
        self.columns = [replace(kinds[0], name="all", label="all kinds", arguments=everything), *kinds]
        super().__init__(seed, size, [(variant, self.columns, 1.0) for variant in compared])

    def report(self, results: Results) -> Report:
        """One table."""
        self.read(results)
        purpose = "on which Tessera was developed" if self.family == CHOSEN_ON else "on which nothing was chosen"
        title = f"Random problems of family {self.family}, {purpose}; seed {self.seed}; spaql {__version__}"
        sizes = {"problems": self.size.problems, "agents": self.size.agents}
        note = NOTE.format(**sizes)
        note += TUNED_NOTE.format(scalings=len(self.size.scalings)) if AQL in self.compared else ""
        rows = []
        for (agent, column, _), score in self.scores.items():
            shares = {"worst_decile": score.reached_by(0.9), "worst": score.reached_by(1.0)}
            cells = score.cells.mean if score.has_cells else None
            row = {"agent": agent, "problems": column, **to_fields("share", score.share), **shares}
            rows.append(row | {"cells": cells, "steps": score.steps})
        data = {"spaql": __version__, "seed": self.seed, "family": self.family, **sizes}
        data |= {"budget": variants.RANDOM_STEPS, "rows": rows}
        return Report(self.name, title, tables=[self._table()], note=note, data=data)

    def _table(self) -> Table:
        rows = []
        for variant in self.compared:
            first, *others = (self.percent(variant, column, 1) for column in self.columns)
            score = self.of(variant, self.columns[0])
            cells = f"{score.cells.mean:.0f}" if score.has_cells else ""
            rows.append([variant.label, first, f"{100 * score.reached_by(0.9):.1f}", *others, cells])
        first, *others = (column.label for column in self.columns)
        return Table(["agent", first, "9 of 10 reach", *others, "cells"], rows)


def evaluate_family(seed: int = 0, size: Size = FULL) -> Families:
    """Tessera on the second family, beside AQL, SPAQL and Random."""
    return Families("families", REPORTED_ON, (TESSERA, AQL, SPAQL, RANDOM), seed, size)


def vary_constants(seed: int = 0, size: Size = MORE) -> Families:
    """Tessera on the first family, with its defaults and with each of its constants smaller and larger."""
    return Families("constants", CHOSEN_ON, (TESSERA, *VARIANTS), seed, size)
