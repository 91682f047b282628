"""The folder of a study at any moment: as one HTML page, as figures, and in a terminal while the study runs."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from spaql._version import __version__
from spaql.atomic_io import FIGURES, check_folder, write_file, write_files
from spaql.errors import NothingYetError, OutputError
from spaql.formatting import Table
from spaql.studies.study import Report
from spaql.studies.sweep.comparison_table import compare
from spaql.studies.sweep.score_charts import make_sheets
from spaql.studies.sweep.study_folder import METRIC, Status, StudyValues, read_status, read_values

_MAX_FAILURES = 50
_METHOD = (
    "An evaluation is the mean return, over new episodes, of the agent that a run returns; its random numbers are used "
    "by neither training nor selection. Every run has its own seed; its numbers depend on its seed and its parameters "
    "only, not on the engine."
)
_HOME, _CLEAR_LINE, _CLEAR_BELOW, _CLEAR = "\x1b[H", "\x1b[K", "\x1b[J", "\x1b[2J"


def write_report(
    folder: str | os.PathLike[str],
    target: str | os.PathLike[str] | None = None,
    *,
    metric: str = METRIC,
    baseline: str | None = None,
) -> Path:
    """Write the page of a folder, and return its path; `report.html` in the folder by default."""
    path = Path(folder) / "report.html" if target is None else Path(target)
    study, status = read_values(folder, metric), read_status(folder, _MAX_FAILURES)
    tables = [compare(study, baseline=baseline).table]
    if status.failures:
        form = "{algorithm} on {problem}".format_map
        rows = [[form(run), str(run["seed"]), run["kind"], run["message"]] for run in status.failures]
        total = sum(status.kinds.values())
        note = f"The last {len(rows)} of {total:,}." if total > len(rows) else ""
        caption = f"Failed runs: {status.failure_counts}"
        tables.append(Table(["run", "seed", "kind", "message"], rows, caption, note))
    figures = make_sheets(study, baseline) if any(len(group.sample) for group in study.groups) else {}
    subtitle = f"{status.counts}. spaql {__version__}."
    report = Report("sweep", study.name, subtitle, tables=tables, note=_METHOD, figures=figures)
    write_file(path, report.page())
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


def watch(
    folder: str | os.PathLike[str],
    out: TextIO,
    *,
    every: float = 2.0,
    once: bool = False,
    metric: str = METRIC,
    pause: Callable[[float], object] = time.sleep,
) -> Status | None:
    """Show status, means and last failures until a study is finished, and return the last status; None without one.

    The folder need not exist yet.  There is a view `every` few seconds, or less often where one takes more than half of
    that; `once` shows one view only, and `pause` waits for a number of seconds.  In a terminal each view overwrites the
    one before, so that nothing flickers.
    """
    out.write(_CLEAR if out.isatty() else "")
    while True:
        start = time.monotonic()
        status = None
        try:
            status = read_status(folder)
            values = read_values(folder, metric)
            table = compare(values, brief=True).table.text().splitlines()
            lines = [status.sentence, status.bar(), "", values.name, *table]
            lines += ["", *status.lines()[1:]] if status.kinds else []
        except NothingYetError:
            lines = [f"waiting for the first run in {str(folder)!r}; start spaql sweep STUDY.toml --out {folder}"]
        if out.isatty():
            columns, rows = shutil.get_terminal_size()
            if len(lines) > rows - 1:
                lines = [*lines[: rows - 2], f"... and {len(lines) - rows + 2} more lines"]
            out.write(_HOME + "".join(f"{line[:columns]}{_CLEAR_LINE}\n" for line in lines) + _CLEAR_BELOW)
        else:
            out.write("\n".join([*lines, "", ""]))
        out.flush()
        if once or (status is not None and status.state == "finished"):
            return status
        took = time.monotonic() - start
        pause(max(every - took, took, 0.05))
