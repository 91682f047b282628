"""The paper's tables from our rows, for every form that a `Table` has."""

from __future__ import annotations

from collections.abc import Sequence

from spaql.agents.registry import resolve
from spaql.formatting import Bold, Table
from spaql.studies.paper.plan import LONG, SETTINGS, Setting
from spaql.studies.paper.rows import TableRow, by_problem

NOTE = (
    "Printed: the paper's table; it calls cells arms. Training score: our agents scored as in the paper, by the mean "
    "of their own final scores at the scaling that is best by that mean; for SPAQL that is a running maximum. "
    "Evaluation: the mean return of the returned policies in new episodes, at a scaling chosen on other agents; where "
    "that is another scaling, it follows the semicolon. Plus-minus is half a 95% interval. Bold: not significantly "
    "worse than the best (Welch, 5%), of AQL and SPAQL, and for Tessera of all three. Cells and steps are those of the "
    "agents behind the training score; steps: environment steps per agent, for learning and for choosing which policy "
    "to keep."
)
LONG_NOTE = "The scalings are those of H = 5."
BRIEF_NOTE = (
    "Printed: the paper's mean reward, by the agents' training scores. Evaluation: mean return in new episodes, at a "
    "scaling chosen on other agents; cells: of the same agents. Bold: not significantly worse than the best (Welch, "
    "5%), of SPAQL and AQL, and for Tessera of all three. Tessera has no scaling, and takes as many environment steps "
    "as AQL, a twenty-first of SPAQL's."
)
UNIFORM_NOTE = (
    "The rows printed as Uniform are reproduced by Beta arrivals, not by Uniform ones: the training score under Beta "
    "arrivals is in brackets."
)
_SCORES = ("problem", "agent", "printed", "training score", "evaluation", "optimum", "% of optimum")
HEADER = (*_SCORES, "cells printed", "cells", "training steps", "selection steps", "scaling")
TERMINAL = (*_SCORES, "cells", "selection steps")


def make_tables(rows: Sequence[TableRow]) -> list[Table]:
    """The paper's two tables, and a third for H = 50: those that have rows."""
    present = {row.problem for row in rows}
    settings = [setting for setting in SETTINGS if setting.id in present]
    parts = {
        "Table 1. Oil discovery": [s for s in settings if s.problem == "oil" and s.id != LONG],
        "Table 2. Ambulance relocation": [s for s in settings if s.problem == "ambulance"],
        "Longer episodes (H = 50)": [s for s in settings if s.id == LONG],
    }
    return [_table(caption, members, rows) for caption, members in parts.items() if members]


def _table(caption: str, settings: Sequence[Setting], rows: Sequence[TableRow]) -> Table:
    names = {setting.id: setting.name for setting in settings}
    members = [row for row in rows if row.problem in names]
    notes = [NOTE]
    if any(row.swapped for row in members):
        notes.append(UNIFORM_NOTE)
    if LONG in names:
        notes.append(LONG_NOTE)
    lines = [[names[row.problem], row.label, *_cells(row)] for row in members]
    return Table(HEADER, lines, caption, " ".join(notes), left=2, sections=True)


def _cells(row: TableRow) -> list[str]:
    score, other = row.training_score, row.counterpart
    printed = "" if row.printed is None else f"{row.printed.mean:.2f} ± {row.printed.half_width:.2f}"
    training = "" if score is None else f"{score.mean:.3f} ± {score.half_width:.3f}"
    if row.swapped and other is not None and other.training_score is not None:
        training += f" ({other.training_score.mean:.3f})"
    scalings = [f"{x:g}" for x in dict.fromkeys((row.choice.paper, row.choice.separate)) if x is not None]
    learned = row.cells is not None
    return [
        _bold(printed, row.printed_best),
        _bold(training, row.training_score_best),
        _bold(f"{row.evaluation.mean:.3f} ± {row.evaluation.half_width:.3f}", row.evaluation_best),
        f"{row.optimum:.3f}",
        f"{100 * row.share:.1f}",
        "" if row.printed_cells is None else f"{row.printed_cells.mean:.0f}",
        "" if row.cells is None else f"{row.cells.mean:.0f}",
        f"{row.steps[0]:,}" if learned else "",
        f"{row.steps[1]:,}" if learned else "",
        "; ".join(scalings),
    ]


def _bold(text: str, best: bool | None) -> str:
    return Bold(text) if text and best else text


def make_brief_table(rows: Sequence[TableRow]) -> Table:
    """One line for each problem: printed means, evaluations, cells."""
    ours, names = by_problem(rows), ("spaql", "aql", "tessera")
    labels = [resolve(name).label for name in names]
    header = ["problem"]
    for label in labels[:2]:
        header += [f"{label} printed", f"{label} evaluation"]
    header += [f"{labels[2]} evaluation", "optimum", *(f"{label} cells" for label in labels)]
    lines = []
    for setting in SETTINGS:
        if (setting.id, "aql") not in ours:
            continue
        line = [setting.name]
        for row in (ours[setting.id, name] for name in names):
            if row.algorithm != "tessera":
                line.append("" if row.printed is None else _bold(f"{row.printed.mean:.2f}", row.printed_best))
            line.append(_bold(f"{row.evaluation.mean:.3f}", row.evaluation_best))
        cells = [f"{ours[setting.id, name].evaluation_cells or 0:.0f}" for name in names]
        lines.append([*line, f"{ours[setting.id, 'aql'].optimum:.3f}", *cells])
    return Table(header, lines, "Summary", BRIEF_NOTE)
