"""Findings about what the paper prints: whether it can be reproduced, and whether it can be true."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from spaql.stats import Estimate, combination
from spaql.studies.paper.cells import REWARD_SLACK, ROUNDING, Cell, arrivals_of, beta_twin
from spaql.studies.paper.findings.base import (
    Finding,
    around,
    by_problem,
    estimates_series,
    learner_cells,
    learners_points,
    make,
    setting_of,
)
from spaql.studies.paper.measured import Measured
from spaql.studies.paper.plan import LABELS, LEARNERS, Setting
from spaql.viz.charts import Chart, Level


def reproduction(measured: Measured, cells: Sequence[Cell]) -> Finding | None:
    """Whether we land where the paper does, scored as it scores."""
    learners = learner_cells(cells)
    if not learners:
        return None
    rewards = [cell for cell in learners if cell.reward_within(REWARD_SLACK)]
    strictly = [cell for cell in learners if cell.reward_within(ROUNDING)]
    swapped = {cell.problem for cell in learners if cell.counterpart != cell.problem}
    settings, ours = measured.plan.short, by_problem(cells)
    agreed = [setting for setting in settings if _same_leaders(setting, ours)]
    arms = [cell for cell in learners if cell.arms_reproduced]
    off = [abs(cell.reward_difference or 0.0) for cell in learners]
    furthest = max(learners, key=lambda cell: abs((cell.arms_ratio or 1.0) - 1.0))
    # Where the Uniform rows are Beta's, the same agents stand for two rows: one sample, twice the weight.
    weights: Counter[tuple[str, str]] = Counter()
    for cell in learners:
        weights[cell.counterpart or cell.problem, cell.algorithm] += 1
    samples = [measured.as_published(setting_of(measured, key), algorithm).training_score for key, algorithm in weights]
    mean = combination(samples, [count / len(learners) for count in weights.values()])
    shift = mean.mean - float(np.mean([cell.printed for cell in learners]))
    theirs = math.hypot(*(cell.printed_half_width or 0.0 for cell in learners)) / len(learners)
    sentence = (
        f"Scored as the paper scores, {len(rewards)} of {len(learners)} mean rewards and {len(arms)} of "
        f"{len(learners)} mean numbers of arms agree with the printed ones: rewards within the wider of the two "
        f"intervals plus {REWARD_SLACK:g}, the furthest {max(off):.3f} off ({len(strictly)} within interval and "
        f"rounding alone); arms within a quarter, the furthest {LABELS[furthest.algorithm]} on "
        f"{setting_of(measured, furthest.problem).name} with {furthest.arms_ratio:.2f} times as many. The same agent "
        f"is in bold on {len(agreed)} of {len(settings)} problems"
        + (f"; {len(swapped)} rows printed as Uniform are compared with Beta arrivals." if swapped else ".")
    )
    series = learners_points(
        cells,
        settings,
        lambda cell: around(
            cell.reward_difference or 0.0, max(cell.printed_half_width or 0.0, cell.counterpart_half_width or 0.0)
        ),
    )
    chart = Chart(
        "Ours minus printed, scored alike",
        "",
        "difference of mean rewards",
        series,
        (Level("no difference", 0.0, look="optimum"),),
        "category",
        "bars: the wider of the two 95% intervals; Uniform rows against the arrivals that reproduce them",
    )
    number = around(shift, math.hypot(mean.half_width, theirs))
    return make(
        "reproduction",
        "Reproducing the printed tables",
        sentence,
        number,
        f"mean of ours minus printed over {len(learners)} rewards",
        chart,
    )


def _same_leaders(setting: Setting, ours: dict[tuple[str, str], Cell]) -> bool:
    """Whether Welch's test puts in bold whom the paper puts in bold."""
    here = [ours[setting.id, algorithm] for algorithm in LEARNERS]
    there = [ours[cell.counterpart or cell.problem, cell.algorithm] for cell in here]
    return [cell.printed_leading for cell in here] == [cell.as_published_leading for cell in there]


def above_optimum(measured: Measured, cells: Sequence[Cell]) -> Finding | None:
    """Printed means that no policy can have."""
    learners = learner_cells(cells)
    if not learners:
        return None
    optima = {setting.id: measured.optima[setting.id].value for setting in measured.plan.settings}

    def excess(cell: Cell, problem: str) -> float:
        return (cell.printed or 0.0) - optima[problem]

    def above(cell: Cell, problem: str) -> bool:
        return excess(cell, problem) > (cell.printed_half_width or 0.0) + ROUNDING

    labelled = [cell for cell in learners if above(cell, cell.problem)]
    real = [cell for cell in learners if above(cell, cell.counterpart or cell.problem)]
    largest = max(learners, key=lambda cell: excess(cell, cell.counterpart or cell.problem))
    over = excess(largest, largest.counterpart or largest.problem)
    names = " and ".join(sorted({LABELS[cell.algorithm] for cell in real}))
    swapped = any(cell.counterpart != cell.problem for cell in learners)
    sentence = (
        f"{len(labelled)} of the {len(learners)} printed means lie above the exact optimum of the problem they are "
        "printed for, which no policy can earn on average"
        + ("; with the rows printed as Uniform compared to Beta arrivals, " if swapped else ": ")
        + (f"{len(real)} still do" if swapped else f"{len(real)} in all")
        + (f" ({names})." if real else ".")
    )
    series = learners_points(
        cells,
        measured.plan.short,
        lambda cell: around(
            excess(cell, cell.counterpart or cell.problem), (cell.printed_half_width or 0.0) + ROUNDING
        ),
    )
    chart = Chart(
        "Printed mean minus exact optimum",
        "",
        "printed minus optimum",
        series,
        (Level("optimum", 0.0, look="optimum"),),
        "category",
        "bars: printed 95% interval and rounding; Uniform rows against the optimum of the arrivals that reproduce them",
    )
    number = around(over, (largest.printed_half_width or 0.0) + ROUNDING)
    where = setting_of(measured, largest.problem).name
    meaning = f"largest of the {len(learners)} differences: {LABELS[largest.algorithm]}, {where}"
    return make("above-optimum", "Printed scores above the optimum", sentence, number, meaning, chart)


def uniform(measured: Measured, cells: Sequence[Cell]) -> Finding | None:
    """Which arrivals reproduce the rows printed as Uniform."""
    found = arrivals_of(cells)
    if found is None:
        return None
    keys, ours = found.keys, by_problem(cells)
    number = around(found.uniform - found.beta, found.half_width)
    verdicts = {"beta": "are reproduced by Beta(5, 2) arrivals", "uniform": "are reproduced by Uniform arrivals"}
    sentence = (
        f"The rows printed for Uniform arrivals {verdicts.get(found.nearer or '', 'fit both laws of arrivals')}: over "
        f"their {len(keys)} means ours are {found.uniform:.3f} away from the printed numbers under Uniform arrivals "
        f"and {found.beta:.3f} under Beta(5, 2)."
    )
    ticks = [f"{LABELS[algorithm]}, c = {problem.rsplit('-', 1)[1]}" for problem, algorithm in keys]

    def of(arrivals: str) -> list[Estimate]:
        picked = [ours[problem if arrivals == "uniform" else beta_twin(problem), name] for problem, name in keys]
        return [around(c.as_published or 0.0, c.as_published_half_width or 0.0) for c in picked]

    printed = [around(ours[key].printed or 0.0, ours[key].printed_half_width or 0.0) for key in keys]
    chart = Chart(
        "The rows printed as Uniform",
        "",
        "mean reward, scored alike",
        (
            estimates_series("printed", "printed", ticks, printed, "points"),
            estimates_series("ours, Uniform arrivals", "Uniform", ticks, of("uniform"), "points"),
            estimates_series("ours, Beta(5, 2) arrivals", "Beta", ticks, of("beta"), "points"),
        ),
        (),
        "category",
        "bars: 95% intervals",
    )
    return make(
        "uniform-is-beta",
        "The rows printed as Uniform",
        sentence,
        number,
        "mean distance to the printed numbers under Uniform arrivals, minus that under Beta",
        chart,
    )
