"""The study `spaql ablation`: Tessera without each of its mechanisms, beside SPAQL and AQL.

Columns are the twelve problems of the paper, at AQL's budget, and the four kinds of random problems of the first
family.  A mechanism is worth keeping if disabling it loses some of the optimum somewhere, at the 5% level, or costs
cells.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from spaql._version import __version__
from spaql.agents.tessera.agent import MECHANISMS
from spaql.formatting import Table
from spaql.studies import variants
from spaql.studies.paper.printed import QUICK_SCALINGS
from spaql.studies.study import Report, Results, Sheet, make_series, standing, to_fields
from spaql.studies.variants import AQL, LONGER, SPAQL, TESSERA, Column, Size, Variant, VariantStudy
from spaql.viz.charts import Chart, Level

PARTS = {0.1: "1/10", 0.25: "1/4", 1.0: "1"}
RIVALS = (AQL, SPAQL)
DISABLED = tuple(Variant(f"without-{name}", "tessera", {"disable": [name]}, f"without {name}") for name in MECHANISMS)
VARIANTS = (TESSERA, *DISABLED, AQL, SPAQL, LONGER)
FULL = Size(problems=800, agents=3, episodes=2000, oil=25, ambulance=50)
QUICK = Size(problems=16, agents=2, episodes=500, scalings=QUICK_SCALINGS, oil=5, ambulance=10)
NOTE = (
    "Share of the exact optimum in new episodes, in %, and half of its 95% interval. Budget: 25,000 environment "
    "steps (oil and random problems), 10,000 (ambulance), of learning and selection. Minus: behind Tessera at the "
    "5% level, by Welch's test for other algorithms, by the paired test (same seeds, or by random problem) for Tessera "
    "without a mechanism; plus: ahead of it. P-values are not corrected for the number of comparisons. AQL and SPAQL "
    "have the best of {scalings} scalings, chosen on the reported agents; 'SPAQL, all its steps' plays as "
    "many episodes as Tessera and 20 times as many beside them, to choose its policy."
)
_SHORT = {"oil quadratic": "quad", "oil Laplace": "Lapl", "ambulance Uniform": "unif", "ambulance Beta": "beta"}


class Ablation(VariantStudy):
    """Tessera, Tessera without each mechanism, SPAQL and AQL."""

    def __init__(self, seed: int = 0, size: Size = FULL) -> None:
        self.paper = variants.paper_columns(size)
        self.random = variants.random_columns(1, size)
        self.columns = [*self.paper, *self.random]
        wanted: list[tuple[Variant, list[Column], float]] = [
            *((variant, self.paper, part) for part in PARTS for variant in (TESSERA, *RIVALS)),
            *((variant, self.paper, 1.0) for variant in DISABLED),
            *((variant, self.random, 1.0) for variant in (TESSERA, *DISABLED)),
            (LONGER, self.paper, 1.0),
        ]
        super().__init__(seed, size, wanted)

    def report(self, results: Results) -> Report:
        """Tables, targets and a figure."""
        self.read(results)
        size, targets, title = self.size, self._targets(), "Effect of each mechanism of Tessera"
        note = "share of the optimum lost without it; bars: 95%; each panel has its own scale"
        return Report(
            "ablation",
            title,
            f"{size.oil} agents (oil), {size.ambulance} (ambulance), {size.agents} on each of {size.problems} random "
            f"problems, seed {self.seed}; spaql {__version__}.",
            [
                f"Tessera reaches at least {100 * targets['lowest_share']:.2f}% of the optimum on all "
                f"{len(self.paper)} problems of the paper (least on {targets['lowest_share_on']}).",
                f"Against AQL and SPAQL at a tenth, a quarter and all of the budget it is ahead in "
                f"{targets['ahead']} of {targets['comparisons']} comparisons and behind in {targets['behind']}.",
                f"It has at most {targets['cells_over_printed']:.2f} times the cells printed for SPAQL "
                f"(most on {targets['cells_over_printed_on']}).",
            ],
            [
                self._shares("Oil discovery, share of the optimum", self.paper[:6]),
                self._shares("Ambulance relocation, share of the optimum", self.paper[6:]),
                self._shares("Random problems of the first family, share of the optimum", self.random),
                self._cells(),
                self._budgets(),
                self._effects(),
            ],
            NOTE.format(scalings=len(size.scalings)),
            {"ablation": Sheet(title, [self._chart(variant) for variant in DISABLED], note, columns=2)},
            {"spaql": __version__, "seed": self.seed, "targets": targets, "rows": self._records()},
        )

    def _shares(self, caption: str, columns: Sequence[Column]) -> Table:
        present = [variant for variant in VARIANTS if (variant.name, columns[0].name, 1.0) in self.scores]
        rows = [[variant.label, *(self.percent(variant, column, 2) for column in columns)] for variant in present]
        return Table(["agent", *(column.label for column in columns)], rows, caption)

    def _cells(self) -> Table:
        rows = [["SPAQL as printed", *(f"{c.printed_cells:.0f}" for c in self.paper), *("" for _ in self.random)]]
        for variant in VARIANTS:
            scores = [self.scores.get((variant.name, column.name, 1.0)) for column in self.columns]
            rows.append([variant.label, *("" if score is None else f"{score.cells.mean:.0f}" for score in scores)])
        return Table(["agent", *map(_short, self.columns)], rows, "Cells")

    def _budgets(self) -> Table:
        pairs = [(variant, part) for part in PARTS for variant in (TESSERA, *RIVALS)]
        rows = []
        for column in self.paper:
            shares = [(self.of(v, column, part).share.mean, self.mark(v, column, part)) for v, part in pairs]
            rows.append([column.label, *(f"{100 * share:.2f}{mark}" for share, mark in shares)])
        header = ["problem", *(f"{variant.label} {PARTS[part]}" for variant, part in pairs)]
        return Table(header, rows, "At a tenth, a quarter and all of the budget, share of the optimum")

    def _effects(self) -> Table:
        rows = []
        for variant, (name, effect) in zip(DISABLED, MECHANISMS.items(), strict=True):
            pairs = [(self.of(variant, column), self.of(TESSERA, column)) for column in self.columns]
            differences = {c.label: score.minus(whole) for c, (score, whole) in zip(self.columns, pairs, strict=True)}
            standings = [standing(difference) for difference in differences.values()]
            losses = {label: -lost.mean for label, lost in differences.items() if standing(lost) == -1}
            worst = max(losses, key=lambda label: losses[label], default="")
            ratio = np.exp(np.mean([np.log(score.cells.mean / whole.cells.mean) for score, whole in pairs]))
            behind, ahead = f"{standings.count(-1)} of {len(pairs)}", str(standings.count(1))
            loss = f"{100 * losses[worst]:z.2f} ({worst})" if worst else "none"
            rows.append([name, behind, ahead, loss, f"{ratio:.2f}", effect])
        header = ["mechanism", "behind on", "ahead on", "largest loss, points", "cells, times", "without it"]
        return Table(header, rows, "Cost of disabling each mechanism")

    def _targets(self) -> dict[str, Any]:
        """The numbers that Tessera was built to reach."""
        ours = {column.name: self.of(TESSERA, column) for column in self.paper}
        lowest = min(ours, key=lambda name: ours[name].share.mean)
        pairs = itertools.product(self.paper, PARTS, RIVALS)
        standings = [standing(self.of(TESSERA, at, part).minus(self.of(rival, at, part))) for at, part, rival in pairs]
        ratios = {column.name: ours[column.name].cells.mean / column.printed_cells for column in self.paper}
        most = max(ratios, key=ratios.__getitem__)
        return {
            "lowest_share": ours[lowest].share.mean,
            "lowest_share_on": lowest,
            "steps_at_most": max(score.steps for score in ours.values()),
            "comparisons": len(standings),
            "ahead": standings.count(1),
            "behind": standings.count(-1),
            "cells_over_printed": ratios[most],
            "cells_over_printed_on": most,
        }

    def _records(self) -> list[dict[str, Any]]:
        """All scores, ready for JSON."""
        records = []
        for (name, column, part), score in self.scores.items():
            minus = score.minus(self.scores[TESSERA.name, column, part])
            record = {"agent": name, "problem": column, "budget": part, **to_fields("share", score.share)}
            record |= {**to_fields("minus_tessera", minus), **to_fields("cells", score.cells)}
            records.append(record | {"steps": score.steps, "scalings": score.scalings})
        return records

    def _chart(self, variant: Variant) -> Chart:
        """The loss on each problem without a mechanism."""
        parts = {"oil": self.paper[:6], "ambulance": self.paper[6:], "random problems": self.random}
        series = []
        for name, columns in parts.items():
            losses = [self.of(TESSERA, column).minus(self.of(variant, column)) for column in columns]
            series.append(make_series(name, list(map(_short, columns)), losses, style="points", factor=100))
        none = Level("no loss", 0.0, look="optimum")
        return Chart(variant.label, "", "loss, % of optimum", tuple(series), (none,), "category")


def _short(column: Column) -> str:
    for long, short in _SHORT.items():
        if column.label.startswith(long):
            return column.label.replace(long, short)
    first, _, _, where = column.label.split()
    return f"{first[:3]} {where}"
