"""What the default agent of this library makes of the paper's problems."""

from __future__ import annotations

import math
from collections.abc import Sequence

from spaql.stats import Estimate, combination, mean_interval, welch
from spaql.studies.paper.cells import SIGNIFICANT, Cell
from spaql.studies.paper.findings.base import Finding, by_problem, make, points
from spaql.studies.paper.measured import Measured
from spaql.studies.paper.plan import BEYOND, COMPARED, LABELS, LEARNERS, Setting
from spaql.studies.paper.printed import ROLLOUTS
from spaql.viz.charts import Chart, Level


def beyond(measured: Measured, cells: Sequence[Cell]) -> Finding | None:
    """Fresh scores of all three, in percent of the optimum."""
    settings, ours = list(measured.plan.short), by_problem(cells)
    lowest = min(settings, key=lambda setting: ours[setting.id, BEYOND].fraction_of_optimum)
    standings = [[_standing(measured, setting, rival) for rival in LEARNERS] for setting in settings]
    ahead, behind = sum(min(each) == 1 for each in standings), sum(min(each) == -1 for each in standings)
    samples, weights = [], []
    for setting in settings:
        for algorithm, sign in ((BEYOND, 1), ("aql", -1)):
            samples.append(measured.apart(setting, algorithm).evaluation)
            weights.append(sign * 100 / measured.optima[setting.id].value / len(settings))
    number = combination(samples, weights)
    arms = {a: sum(ours[s.id, a].fresh_arms or 0 for s in settings) / len(settings) for a in COMPARED}
    least = math.floor(1000 * ours[lowest.id, BEYOND].fraction_of_optimum) / 10  # a bound is not rounded up
    sentence = (
        f"{LABELS[BEYOND]}, the default agent of this library, earns at least {least:.1f}% of the optimum on "
        f"every problem (least on {lowest.name}), with the environment steps of AQL, where SPAQL takes "
        f"{1 + ROLLOUTS} times as many, and {arms[BEYOND]:.0f} arms on average (SPAQL {arms['spaql']:.0f}, AQL "
        f"{arms['aql']:.0f}). It is ahead of both on {ahead} of {len(settings)} problems and behind one on {behind} "
        "(Welch, 5%)."
    )

    def share(setting: Setting, algorithm: str) -> Estimate:
        return mean_interval(100 / measured.optima[setting.id].value * measured.apart(setting, algorithm).evaluation)

    chart = Chart(
        "Fresh scores, in percent of the optimum",
        "",
        "% of optimum",
        tuple(points(a, settings, [share(setting, a) for setting in settings]) for a in COMPARED),
        (Level("optimum", 100.0, look="optimum"),),
        "category",
        f"SPAQL takes {1 + ROLLOUTS} times the environment steps of the others; bars: 95%",
    )
    meaning = f"{LABELS[BEYOND]} minus AQL by fresh score, in percent of the optimum, mean over the problems"
    return make("beyond", "Beyond the paper", sentence, number, meaning, chart, "%")


def _standing(measured: Measured, setting: Setting, rival: str) -> int:
    """1 where the default agent is ahead of the rival by Welch's test at 5%, -1 where it is behind, else 0."""
    test = welch(measured.apart(setting, BEYOND).evaluation, measured.apart(setting, rival).evaluation)
    if test.p_value >= SIGNIFICANT:
        return 0
    return 1 if test.difference > 0 else -1
