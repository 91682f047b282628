"""The command behind `spaql paper`: do the runs, write tables, figures and the report, and say what it cost."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from spaql.atomic_io import FIGURES, Content
from spaql.runner.run_spec import code
from spaql.studies.legacy import Cost, EngineFor, opened
from spaql.studies.paper import page, pictures, tables
from spaql.studies.paper.cells import Cell, cells_of
from spaql.studies.paper.findings import FINDINGS, findings_of
from spaql.studies.paper.findings.base import Finding
from spaql.studies.paper.measured import Measured, measure
from spaql.studies.paper.plan import SETTINGS, Plan
from spaql.viz import figures

_KINDS = ("png", "svg")


@dataclass(frozen=True, eq=False)
class Outcome:
    """A finished study."""

    plan: Plan
    cells: list[Cell]
    findings: list[Finding]
    files: list[Path]
    cost: Cost
    seconds: float  # from start to end, with tables, figures and report

    def rows(self) -> list[dict[str, Any]]:
        """The cells, ready for JSON."""
        return [asdict(cell) for cell in self.cells]


def reproduce(
    folder: str | os.PathLike[str],
    plan: Plan,
    *,
    threads: int | None = None,
    engine: EngineFor | None = None,
    progress_bar: bool | None = None,
) -> Outcome:
    """Run the study, or what is left of it, and write everything into the folder.

    Interrupted at any moment, it goes on from where it was when it is called again.

    Parameters
    ----------
    folder
        Where the store, tables, figures and report go.
    plan
        What to run; see `spaql.studies.paper.plan.full` and `quick`.
    threads
        How many runs at once; None for one per processor.  The results do not depend on it.
    engine
        Makes the engine for some runs, instead of threads; the results do not depend on it either.
    progress_bar
        Whether to show progress; None shows it on a terminal.
    """
    begun = time.perf_counter()
    with opened(folder, threads=threads, engine=engine, progress_bar=progress_bar) as study:
        measured = measure(plan, study)
        cost = study.cost()
        cells = cells_of(measured)
        findings = findings_of(measured, cells)
        written = study.write(_files(measured, cells, findings), _known())
    return Outcome(plan, cells, findings, written, cost, time.perf_counter() - begun)


def _files(measured: Measured, cells: Sequence[Cell], findings: Sequence[Finding]) -> dict[str, Content]:
    """Everything but the store."""
    told = {
        "study": page.subtitle(measured.plan),
        "code": code(),
        "findings": [finding.to_dict() for finding in findings],
    }
    files: dict[str, Content] = {
        "tables.md": tables.markdown(cells, page.subtitle(measured.plan)),
        "tables.csv": tables.comma_separated(cells),
        "tables.tex": tables.latex(cells),
        "findings.md": page.text(measured.plan, findings),
        "findings.json": json.dumps(told, indent=2, ensure_ascii=False, allow_nan=False) + "\n",
        "report.html": page.page(measured, cells, findings),
    }
    for name, (title, panels, note) in pictures.sheets(measured).items():
        draw = partial(figures.panels, panels, title=title, note=note)
        files |= figures.writers(f"{FIGURES}/{name}", draw, _KINDS)
    for finding in findings:
        draw = partial(figures.chart, finding.chart)
        files |= figures.writers(f"{FIGURES}/finding-{finding.id}", draw, _KINDS)
    return files


def _known() -> list[str]:
    """Every figure that a study can have."""
    names = [setting.id for setting in SETTINGS]
    names += [f"{problem}-scaling{suffix}" for problem in ("oil", "ambulance") for suffix in ("", "-fresh")]
    names += [f"{problem}-steps" for problem in ("oil", "ambulance")]
    names += [f"finding-{key}" for key in FINDINGS]
    return [f"{FIGURES}/{name}.{kind}" for name in names for kind in _KINDS]
