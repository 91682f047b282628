"""The files of an outcome: all of it as JSON, the parameters to use, the page, and figures."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from spaql.atomic_io import FIGURES, Content
from spaql.studies.tune.outcome import Outcome
from spaql.studies.tune.telling import history, importance, sections, title
from spaql.viz import figures as drawing
from spaql.viz import report

ALL, BEST, PAGE = "tune.json", "best.json", "report.html"
HISTORY, IMPORTANCE = f"{FIGURES}/tuning-history.png", f"{FIGURES}/tuning-importance.png"
#: names that files of an outcome can have
FILES = (ALL, BEST, PAGE, HISTORY, IMPORTANCE)


def files(outcome: Outcome, *, figures: bool) -> dict[str, Content]:
    """Contents by name; figures only where they are asked for, because drawing takes a while."""
    found: dict[str, Content] = {ALL: _json(outcome.to_dict()), PAGE: page(outcome)}
    if outcome.winner is not None:
        best = {
            "algorithm": outcome.search.algorithm.algorithm,
            "parameters": outcome.parameters,
            "complete": outcome.complete,
        }
        found[BEST] = _json(best)
    if figures:
        for name, chart in ((HISTORY, history(outcome)), (IMPORTANCE, importance(outcome))):
            if chart is not None:
                found |= drawing.writers(name.removesuffix(".png"), partial(drawing.chart, chart), ("png",))
    return found


def page(outcome: Outcome) -> str:
    """The page as one HTML document."""
    return report.sections_page(*title(outcome), sections(outcome))


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, allow_nan=False, default=str) + "\n"
