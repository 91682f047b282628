"""The report of a study's folder, at any moment: table, charts and failures as one HTML page, and figures as files."""

from __future__ import annotations

import os
from pathlib import Path

from spaql._version import __version__
from spaql.atomic_io import FIGURES, check_folder, write_file, write_files
from spaql.errors import OutputError
from spaql.formatting import Table
from spaql.studies.study import Report
from spaql.studies.sweep.comparison_table import compare
from spaql.studies.sweep.group_values import METRIC, StudyValues, read_values
from spaql.studies.sweep.score_charts import make_sheets
from spaql.studies.sweep.status import Status, read_status

PAGE = "report.html"
_MAX_FAILURES = 50
_METHOD = (
    "An evaluation is the mean return, over new episodes, of the agent that a run returns; its random numbers are used "
    "by neither training nor selection. Every run has its own seed; its numbers depend on its seed and its parameters "
    "only, not on the engine."
)


def write_report(
    folder: str | os.PathLike[str],
    target: str | os.PathLike[str] | None = None,
    *,
    metric: str = METRIC,
    baseline: str | None = None,
) -> Path:
    """Write the page of a folder, and return its path; `report.html` in the folder by default."""
    path = Path(folder) / PAGE if target is None else Path(target)
    study, status = read_values(folder, metric), read_status(folder, _MAX_FAILURES)
    comparison = compare(study, baseline=baseline)
    has_values = any(len(group.sample) for group in study.groups)
    report = Report(
        "sweep",
        study.name,
        f"{status.counts}. spaql {__version__}.",
        tables=[comparison.table, *_failure_tables(status)],
        note=_METHOD,
        figures=make_sheets(study, baseline) if has_values else {},
    )
    write_file(path, report.page().encode())
    return path


def write_figures(
    study: StudyValues, target: str | os.PathLike[str] | None = None, baseline: str | None = None
) -> list[Path]:
    """Draw all charts of a study into files, and return their paths.

    Parameters
    ----------
    study, baseline
        See `spaql.studies.sweep.score_charts.make_sheets`.
    target
        A file name that ends in .png or .svg, for the scores; other sheets are written beside it.  None writes PNG and
        SVG files of all sheets into the `figures` of the folder.
    """
    sheets = make_sheets(study, baseline)
    contents = Report("sweep", study.name, figures=sheets).contents()
    if target is None:
        files = {name: content for name, content in contents.items() if name.startswith(FIGURES)}
        return write_files(check_folder(study.folder), files)
    path = Path(target)
    if path.suffix.lower() not in (".png", ".svg"):
        raise OutputError(f"{str(target)!r}: a figure is written as .png or .svg; choose one of these suffixes")
    names = {sheet: path.name if sheet == "scores" else f"{path.stem}-{sheet}{path.suffix}" for sheet in sheets}
    files = {name: contents[f"{FIGURES}/{sheet}{path.suffix.lower()}"] for sheet, name in names.items()}
    return write_files(check_folder(path.parent), files)


def _failure_tables(status: Status) -> list[Table]:
    if not status.failures:
        return []
    total = sum(status.kinds.values())
    rows = [[f"{run.algorithm} on {run.problem}", str(run.seed), run.kind, run.message] for run in status.failures]
    note = f"The last {len(rows)} of {total:,}." if total > len(rows) else ""
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in status.kinds.items())
    return [Table(["run", "seed", "kind", "message"], rows, f"Failed runs: {kinds}", note)]
