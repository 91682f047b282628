"""The study `spaql ablation`: Tessera without each of its mechanisms, beside SPAQL and AQL.

Columns are the twelve problems of the paper, at AQL's budget, the four kinds of random problems of the first family,
and classic control, with and without noise on the actuator, at a tenth of the budgets of `spaql.studies.control`.  The
problems of control are compared by the mean over the five: single agents vary too much for two on each to tell more.
A mechanism is worth keeping if disabling it loses some of the optimum somewhere, at the 5% level, or costs cells.
Tessera itself is also run with more agents, and with observations declared on a box ten times as wide: results should
neither vary between agents nor depend on declared ranges.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from spaql._version import __version__
from spaql.agents.tessera.agent import MECHANISMS
from spaql.formatting import Table
from spaql.studies import variants
from spaql.studies.control import NOISE, control_columns
from spaql.studies.paper.printed import QUICK_SCALINGS
from spaql.studies.study import Report, Results, Sheet, make_series, standing, to_fields
from spaql.studies.variants import AQL, LONGER, SPAQL, TESSERA, Column, Score, Size, Variant, VariantStudy
from spaql.viz.charts import Chart, Level

PARTS = {0.1: "1/10", 0.25: "1/4", 1.0: "1"}
RIVALS = (AQL, SPAQL)
DISABLED = tuple(Variant(f"without-{name}", "tessera", {"disable": [name]}, f"without {name}") for name in MECHANISMS)
FULL = Size(problems=8, agents=2, episodes=2000, paper=5, control=2, robustness=20)
QUICK = Size(
    problems=4, agents=2, episodes=100, scalings=QUICK_SCALINGS[:2], paper=2, control=2, robustness=3, part=0.25
)
CONTROL_PART = 0.1  # of the budgets
NOTE = (
    "Share of the exact optimum in new episodes, in %, and half of its 95% interval; for classic control, share of the "
    "way from Random to the goal, which better agents exceed, and its mean over the five environments. Budget: 25,000 "
    "environment steps (oil and random problems), 10,000 (ambulance), a tenth of those of RL Baselines3 Zoo (control), "
    "of learning and selection. Minus: behind Tessera at the 5% level, by Welch's test for other algorithms, by the "
    "paired test (same seeds, or by random problem) for Tessera without a mechanism; plus: ahead of it. P-values are "
    "not corrected for the number of comparisons. AQL and SPAQL have the best of {scalings} scalings, chosen on the "
    "reported agents; 'SPAQL, all its steps' plays as many episodes as Tessera and 20 times as many beside them, to "
    "choose its policy."
)
_SHORT = {
    "oil quadratic": "quad",
    "oil Laplace": "Lapl",
    "ambulance Uniform": "unif",
    "ambulance Beta": "beta",
    "classic control": "control",
    "noisy classic control": "noisy control",
}


class Ablation(VariantStudy):
    """Tessera, Tessera without each mechanism, SPAQL and AQL."""

    def __init__(self, seed: int = 0, size: Size = FULL) -> None:
        self.variants = (TESSERA, *DISABLED, AQL, SPAQL, LONGER)
        self.paper, self.random = variants.paper_columns(size), variants.random_columns(1, size)
        self.control = control_columns(size, CONTROL_PART)
        self.noisy = control_columns(size, CONTROL_PART, NOISE)
        columns = [*self.paper, *self.random, *self.control, *self.noisy]
        self.pools = {
            "control": ("classic control", self.control),
            "control-noise": ("noisy classic control", self.noisy),
        }
        self.columns = [*self.paper, *self.random, *self._pooled()]  # what is compared
        many = [replace(column, name=f"{column.name}-many", agents=size.robustness) for column in self.paper]
        self.robustness = [(column, column.widened()) for column in (*many, *self.random, *self._pooled())]
        varied = [column for at in (*many, *self.random, *self.control, *self.noisy) for column in (at, at.widened())]
        wanted: list[tuple[Variant, list[Column], float]] = [
            *((variant, self.paper, part) for part in PARTS for variant in (TESSERA, *RIVALS)),
            *((variant, columns, 1.0) for variant in (TESSERA, *DISABLED)),
            (LONGER, self.paper, 1.0),
            (TESSERA, varied, 1.0),
        ]
        super().__init__(seed, size, wanted)

    def _pooled(self) -> list[Column]:
        """All problems of control as one column, without noise and with it; only its name and label are used."""
        return [replace(columns[0], name=name, label=label) for name, (label, columns) in self.pools.items()]

    def read(self, results: Results) -> None:
        """Score all variants in their columns, and pool those of control."""
        super().read(results)
        for name, (_, columns) in self.pools.items():
            for variant, wide in ((TESSERA, "-wide"), *((variant, "") for variant in (TESSERA, *DISABLED))):
                scores = [self.scores[variant.name, column.name + wide, 1.0] for column in columns]
                self.scores[variant.name, name + wide, 1.0] = Score.pool(scores)

    def report(self, results: Results) -> Report:
        """Tables, targets and a figure."""
        self.read(results)
        size, targets, title = self.size, self._targets(), "Effect of each mechanism of Tessera"
        note = "share of the optimum lost without it; bars: 95%; each panel has its own scale"
        on_control = "share of the way from Random to the goal lost without it, mean over the environments; bars: 95%"
        oil, ambulance = ([at for at in self.paper if at.problem == name] for name in ("oil", "ambulance"))
        problems = {"oil": oil, "ambulance": ambulance, "random problems": self.random}
        return Report(
            "ablation",
            title,
            f"{size.paper} agents on each problem of the paper ({size.robustness} in what is said of Tessera alone), "
            f"{size.control} on each of control, {size.agents} on each of {size.problems} random problems, seed "
            f"{self.seed}; spaql {__version__}."
            + ("" if size.part == 1.0 else f" Budgets are {size.part:g} of those below."),
            [
                f"Tessera reaches at least {100 * targets['lowest_share']:.2f}% of the optimum on all "
                f"{len(self.paper)} problems of the paper (least on {targets['lowest_share_on']}; "
                f"{size.robustness} agents on each).",
                f"Against AQL and SPAQL at a tenth, a quarter and all of the budget it is ahead in "
                f"{targets['ahead']} of {targets['comparisons']} comparisons and behind in {targets['behind']}.",
                f"It has at most {targets['cells_over_printed']:.2f} times the cells printed for SPAQL "
                f"(most on {targets['cells_over_printed_on']}).",
                f"Observations declared on a box ten times as wide cost at most {100 * targets['wide_loss']:.2f} "
                f"points of the optimum (most on {targets['wide_loss_on']}).",
                f"On the paper's problems at least {targets['near_median']} of {size.robustness} agents are within 5 "
                f"points of the median (least on {targets['near_median_on']}).",
            ],
            [
                self._shares("Oil discovery, share of the optimum", oil),
                self._shares("Ambulance relocation, share of the optimum", ambulance),
                self._shares("Random problems of the first family, share of the optimum", self.random),
                *(self._control(name) for name in self.pools),
                self._cells(),
                self._budgets(),
                self._robustness(),
                self._effects(),
            ],
            NOTE.format(scalings=len(size.scalings)),
            {
                "ablation": Sheet(title, [self._chart(v, problems) for v in DISABLED], note, columns=2),
                "ablation-control": Sheet(f"{title} on control", [self._control_chart()], on_control),
            },
            {"spaql": __version__, "seed": self.seed, "targets": targets, "rows": self._records()},
        )

    def _shares(self, caption: str, columns: Sequence[Column], digits: int = 2) -> Table:
        present = [variant for variant in self.variants if (variant.name, columns[0].name, 1.0) in self.scores]
        rows = [[variant.label, *(self.percent(variant, column, digits) for column in columns)] for variant in present]
        return Table(["agent", *(column.label for column in columns)], rows, caption)

    def _control(self, name: str) -> Table:
        """The mean over the problems of control, and each of them."""
        label, columns = self.pools[name]
        (pool,) = (column for column in self._pooled() if column.name == name)
        rows = []
        for variant in (TESSERA, *DISABLED):
            single = (f"{100 * self.of(variant, column).share.mean:z.0f}" for column in columns)
            rows.append([variant.label, self.percent(variant, pool, 1), *single])
        header = ["agent", "mean", *(column.label for column in columns)]
        return Table(header, rows, f"{label.capitalize()}, share of the way from Random to the goal")

    def _cells(self) -> Table:
        columns = self.columns
        printed = ("" if np.isnan(c.printed_cells) else f"{c.printed_cells:.0f}" for c in columns)
        rows = [["SPAQL as printed", *printed]]
        for variant in self.variants:
            scores = [self.scores.get((variant.name, column.name, 1.0)) for column in columns]
            rows.append([variant.label, *("" if score is None else f"{score.cells.mean:.0f}" for score in scores)])
        return Table(["agent", *map(_short, columns)], rows, "Cells")

    def _budgets(self) -> Table:
        pairs = [(variant, part) for part in PARTS for variant in (TESSERA, *RIVALS)]
        rows = []
        for column in self.paper:
            shares = [(self.of(v, column, part).share.mean, self.mark(v, column, part)) for v, part in pairs]
            rows.append([column.label, *(f"{100 * share:.2f}{mark}" for share, mark in shares)])
        header = ["problem", *(f"{variant.label} {PARTS[part]}" for variant, part in pairs)]
        return Table(header, rows, "At a tenth, a quarter and all of the budget, share of the optimum")

    def _robustness(self) -> Table:
        rows = []
        for column, wide in self.robustness:
            score, change = self.of(TESSERA, column), self.of(TESSERA, wide).minus(self.of(TESSERA, column))
            shares = [f"{100 * value:.1f}" for value in (np.median(score.shares), score.reached_by(1.0))]
            near = f"{score.near_median} of {column.agents}" if len(score.shares) == 1 else ""
            on_wide = f"{100 * change.mean:+z.2f} ± {100 * change.half_width:.2f}"
            rows.append([column.label, *shares, near, on_wide])
        header = ["problem", "median", "worst", "agents within 5 points of the median", "change on a wide box"]
        note = (
            "Share of the optimum, of control of the way to the goal, in %. A wide box: observations are declared on a "
            "range ten times as wide, and off its middle; paired by agent, or by random problem."
        )
        return Table(header, rows, "Tessera's agents, and a wide box of observations", note)

    def _effects(self) -> Table:
        rows = []
        for variant in DISABLED:
            (name,) = variant.parameters["disable"]
            pairs = [(self.of(variant, column), self.of(TESSERA, column)) for column in self.columns]
            differences = {c.label: score.minus(whole) for c, (score, whole) in zip(self.columns, pairs, strict=True)}
            standings = [standing(difference) for difference in differences.values()]
            losses = {label: -lost.mean for label, lost in differences.items() if standing(lost) == -1}
            worst = max(losses, key=lambda label: losses[label], default="")
            ratio = np.exp(np.mean([np.log(score.cells.mean / whole.cells.mean) for score, whole in pairs]))
            behind, ahead = f"{standings.count(-1)} of {len(pairs)}", str(standings.count(1))
            loss = f"{100 * losses[worst]:z.2f} ({worst})" if worst else "none"
            rows.append([name, behind, ahead, loss, f"{ratio:.2f}", MECHANISMS[name]])
        header = ["mechanism", "behind on", "ahead on", "largest loss, points", "cells, times", "without it"]
        return Table(header, rows, "Cost of disabling each mechanism")

    def _targets(self) -> dict[str, Any]:
        """The numbers that Tessera was built to reach."""
        many = (column for column, _ in self.robustness[: len(self.paper)])  # with more agents
        ours = {column.name: self.of(TESSERA, at) for column, at in zip(self.paper, many, strict=True)}
        lowest = min(ours, key=lambda name: ours[name].share.mean)
        pairs = itertools.product(self.paper, PARTS, RIVALS)
        standings = [standing(self.of(TESSERA, at, part).minus(self.of(rival, at, part))) for at, part, rival in pairs]
        ratios = {column.name: ours[column.name].cells.mean / column.printed_cells for column in self.paper}
        most = max(ratios, key=ratios.__getitem__)
        pairs_of_scores = [(at.label, self.of(TESSERA, at), self.of(TESSERA, wide)) for at, wide in self.robustness]
        known = len(self.paper) + len(self.random)  # of these the optimum is known; control varies much more
        wide = {label: score.minus(on_wide).mean for label, score, on_wide in pairs_of_scores[:known]}
        near = {label: score.near_median for label, score, _ in pairs_of_scores[: len(self.paper)]}
        worst, least = max(wide, key=wide.__getitem__), min(near, key=near.__getitem__)
        return {
            "lowest_share": ours[lowest].share.mean,
            "lowest_share_on": lowest,
            "steps_at_most": max(score.steps for score in ours.values()),
            "comparisons": len(standings),
            "ahead": standings.count(1),
            "behind": standings.count(-1),
            "cells_over_printed": ratios[most],
            "cells_over_printed_on": most,
            "wide_loss": wide[worst],
            "wide_loss_on": worst,
            "near_median": near[least],
            "near_median_on": least,
        }

    def _records(self) -> list[dict[str, Any]]:
        """All scores, ready for JSON."""
        records = []
        for (name, column, part), score in self.scores.items():
            minus = score.minus(self.scores[TESSERA.name, column.removesuffix("-wide"), part])
            record = {"agent": name, "problem": column, "budget": part, **to_fields("share", score.share)}
            record |= {**to_fields("minus_tessera", minus), **to_fields("cells", score.cells)}
            records.append(record | {"steps": score.steps, "scalings": score.scalings})
        return records

    def _chart(self, variant: Variant, parts: Mapping[str, Sequence[Column]]) -> Chart:
        """The loss on each problem without a mechanism."""
        series = []
        for name, columns in parts.items():
            losses = [self.of(TESSERA, column).minus(self.of(variant, column)) for column in columns]
            series.append(make_series(name, list(map(_short, columns)), losses, style="points", factor=100))
        none = Level("no loss", 0.0, look="optimum")
        return Chart(variant.label, "", "loss, points", tuple(series), (none,), "category")

    def _control_chart(self) -> Chart:
        """The loss on control without each mechanism."""
        names = [variant.label.removeprefix("without ") for variant in DISABLED]
        series = []
        for pool in self._pooled():
            losses = [self.of(TESSERA, pool).minus(self.of(variant, pool)) for variant in DISABLED]
            series.append(make_series(pool.label, names, losses, style="points", factor=100))
        none = Level("no loss", 0.0, look="optimum")
        return Chart("without", "", "loss, points", tuple(series), (none,), "category")


def _short(column: Column) -> str:
    for long, short in _SHORT.items():
        if column.label.startswith(long):
            return column.label.replace(long, short)
    first, *_, last = column.label.split()
    return f"{first[:3]} {last}"
