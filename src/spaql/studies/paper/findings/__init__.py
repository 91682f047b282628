"""What the study finds, computed from its runs: each finding is a sentence, a number with its interval, and a chart.

Nothing here is typed in but what the paper prints.  Intervals are 95%: of means over agents (Student), of their
combinations over problems (Welch and Satterthwaite).  A finding whose runs are not in the plan is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spaql.studies.paper.cells import Cell
from spaql.studies.paper.findings.base import Finding
from spaql.studies.paper.findings.beyond import beyond
from spaql.studies.paper.findings.economy import all_steps, arms, long_episodes, sensitivity
from spaql.studies.paper.findings.printed_scores import above_optimum, reproduction, uniform
from spaql.studies.paper.findings.scoring import myopic, ranking, running_maximum
from spaql.studies.paper.measured import Measured

#: who finds what, by the id of the finding
FINDINGS: dict[str, Callable[[Measured, Sequence[Cell]], Finding | None]] = {
    "reproduction": reproduction,
    "above-optimum": above_optimum,
    "uniform-is-beta": uniform,
    "running-maximum": running_maximum,
    "myopic": myopic,
    "ranking": ranking,
    "arms": arms,
    "sensitivity": sensitivity,
    "all-steps": all_steps,
    "long-episodes": long_episodes,
    "beyond": beyond,
}


def findings_of(measured: Measured, cells: Sequence[Cell]) -> list[Finding]:
    """Everything that can be found with the problems of the plan."""
    return [finding for maker in FINDINGS.values() if (finding := maker(measured, cells)) is not None]
