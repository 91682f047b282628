"""A study small enough for tests.  As a script: `python paper_for_tests.py FOLDER THREADS` does it."""

from __future__ import annotations

import sys
from dataclasses import replace

from numba.core import config

from spaql.studies.paper import plan
from spaql.studies.paper.findings import FINDINGS

SLOW = bool(config.DISABLE_JIT)  # plain Python takes a thousand times as long
# SPAQL's first iteration takes more steps than AQL has in all where there are very few.
POSSIBLE = [key for key in FINDINGS if not (SLOW and key == "all-steps")]
SMALL = {"oil-laplace-1": 60, "ambulance-uniform-0": 50, "ambulance-beta-0": 50, plan.LONG: 12}
if SLOW:
    SMALL = dict.fromkeys(SMALL, 10) | {plan.LONG: 3}


def small_plan(seed=0, problems=tuple(SMALL)):
    """Four problems, few iterations, two scalings, three agents."""
    settings = tuple(
        replace(setting, iterations=SMALL[setting.id]) for setting in plan.SETTINGS if setting.id in problems
    )
    sizes, fewer = {"oil": 3, "ambulance": 3}, {"oil": 2, "ambulance": 2}
    return plan.Plan(
        settings,
        (0.5, 1.0),
        sizes,
        fewer,
        seed,
        episodes=10,
        points=10,
        moments=4,
        planned_moments=4,
        moment_episodes=10,
        frames=4,
    )


if __name__ == "__main__":
    from figures_for_tests import draw_digest
    from spaql.errors import SpaqlError
    from spaql.studies import study as studies
    from spaql.studies.paper.reproduction import Paper

    studies._draw = draw_digest
    try:
        studies.run_study(Paper(small_plan()), sys.argv[1], workers=int(sys.argv[2]), progress_bar=False)
    except SpaqlError as error:
        sys.exit(f"one sentence: {error}")
