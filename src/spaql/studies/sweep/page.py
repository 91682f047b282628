"""The report of a study's folder: one HTML file, made at any moment from what is done.

`sections` are its parts, as `spaql.viz.report.sections_page` takes them; whoever has more to tell of a study adds others.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from spaql._version import __version__
from spaql.atomic_io import write_file
from spaql.studies.sweep.gathered import METRIC, Gathered, gather
from spaql.studies.sweep.pictures import Sheet, sheets
from spaql.studies.sweep.status import Failed, Status, status
from spaql.studies.sweep.table import Table, tabulate
from spaql.viz import report
from spaql.viz.report import Section

REPORT = "report.html"
_MOST_FAILURES = 50


def write_report(
    folder: str | os.PathLike[str],
    target: str | os.PathLike[str] | None = None,
    *,
    metric: str = METRIC,
    baseline: str | None = None,
) -> Path:
    """Write the report of a folder, whole or not at all; `report.html` in it unless another file is named."""
    path = Path(folder) / REPORT if target is None else Path(target)
    gathered, now = gather(folder, metric), status(folder, _MOST_FAILURES)
    text = report.sections_page(gathered.name, subtitle(now), sections(gathered, now, baseline))
    write_file(path, text.encode())
    return path


def subtitle(now: Status) -> str:
    """How far it is, in a sentence that does not change while nothing is done."""
    failed = f", {now.failed:,} failed" if now.failed else ""
    left = now.total - now.done - now.failed
    more = f"; {left:,} were not done when this was written" if left else ""
    return f"{now.done:,} of {now.total:,} runs done{failed}{more}. spaql {__version__}."


def sections(gathered: Gathered, now: Status, baseline: str | None = None) -> list[Section]:
    """What there is to say of a study: its table, its charts, its failures, and how to read them."""
    table = tabulate(gathered, baseline=baseline)
    found = [Section("table", "Table", tables=[_table(table)])]
    if any(len(group.sample) for group in gathered.groups):
        found += [_charts(sheet) for sheet in sheets(gathered, baseline)]
    if now.failures:
        found.append(_failures(now))
    return [*found, Section("method", "How to read it", paragraphs=_method(table))]


def _table(table: Table) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    last = None
    for row, cells in zip(table.rows, table.cells(), strict=True):
        if row.problem != last:
            rows.append({"section": row.problem})
            last = row.problem
        rows.append({"head": row.algorithm, "cells": [_cell(text) for text in cells]})
    compared = f", compared with {table.baseline}" if table.baseline else ""
    return {"caption": f"{table.metric}{compared}", "note": "", "columns": table.columns(), "rows": rows}


def _cell(text: str) -> dict[str, Any]:
    return {"text": text, "bold": False, "title": ""}


def _charts(sheet: Sheet) -> Section:
    title = "Scores" if sheet.name == "scores" else sheet.name.replace("-", " ").capitalize()
    return Section(sheet.name, title, charts=[chart.to_dict() for chart in sheet.charts], notes=[sheet.note])


def _failures(now: Status) -> Section:
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in now.kinds.items())
    rows = [{"head": _who(failed), "cells": [_cell(str(failed.seed)), _cell(failed.kind), _cell(failed.message)]}
            for failed in now.failures]  # fmt: skip
    more = sum(now.kinds.values()) - len(rows)
    note = f"The last {len(rows)} of {len(rows) + more:,}." if more > 0 else ""
    table = {"caption": "Runs that failed", "note": note, "columns": ["run", "seed", "kind", "message"], "rows": rows}
    return Section("failures", "Failures", paragraphs=[f"By what happened: {kinds}."], tables=[table])


def _who(failed: Failed) -> str:
    return f"{failed.algorithm} on {failed.problem}"


def _method(table: Table) -> list[str]:
    return [
        table.note,
        "Fresh scores are what the agent that a run returns earns in new episodes, which nothing was chosen by. Every "
        "run has a seed of its own; the numbers of a run depend on its seed and its parameters only, and not on where "
        "it was done.",
    ]
