"""The paper's tables from our rows, for every form that a `Table` has."""

from spaql.agents.registry import resolve
from spaql.formatting import Bold, Table
from spaql.studies.paper.measurements import Rows, TableRow, half_width, is_swapped
from spaql.studies.paper.plan import LONG, NAMES

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
_CAPTIONS = {
    "oil": "Table 1. Oil discovery",
    "ambulance": "Table 2. Ambulance relocation",
    LONG: "Longer episodes (H = 50)",
}


def make_tables(rows: Rows) -> list[Table]:
    """The paper's two tables, and a third for H = 50: those that have rows."""
    members: dict[str, list[TableRow]] = {part: [] for part in _CAPTIONS}
    for row in rows.values():
        members[LONG if row["problem"] == LONG else row["problem"].partition("-")[0]].append(row)
    tables = []
    for part, some in members.items():
        notes = [NOTE, *([UNIFORM_NOTE] if any(map(is_swapped, some)) else []), *([LONG_NOTE] if part == LONG else [])]
        lines = [[NAMES[row["problem"]], resolve(row["algorithm"]).label, *_cells(row)] for row in some]
        if lines:
            tables.append(Table(HEADER, lines, _CAPTIONS[part], " ".join(notes), left=2, sections=True))
    return tables


def _cells(row: TableRow) -> list[str]:
    printed = training = ""
    if row["printed"] is not None:
        printed = f"{row['printed']:.2f} ± {row['printed_half_width']:.2f}"
    if row["training_score"] is not None:
        training = f"{row['training_score']:.3f} ± {half_width(row, 'training_score'):.3f}"
    if is_swapped(row):
        training += f" ({row['counterpart_training_score']:.3f})"
    scalings = [x for x in dict.fromkeys((row["scaling"], row["evaluation_scaling"])) if x is not None]
    learned = row["cells"] is not None
    return [
        _bold(printed, row["printed_best"]),
        _bold(training, row["training_score_best"]),
        _bold(f"{row['evaluation']:.3f} ± {half_width(row, 'evaluation'):.3f}", row["evaluation_best"]),
        f"{row['optimum']:.3f}",
        f"{100 * row['fraction_of_optimum']:.1f}",
        "" if row["printed_cells"] is None else f"{row['printed_cells']:.0f}",
        f"{row['cells']:.0f}" if learned else "",
        f"{row['training_steps']:,}" if learned else "",
        f"{row['selection_steps']:,}" if learned else "",
        "; ".join(f"{x:g}" for x in scalings),
    ]


def _bold(text: str, best: bool | None) -> str:
    return Bold(text) if text and best else text


def make_brief_table(rows: Rows) -> Table:
    """One line for each problem: printed means, evaluations, cells."""
    spaql, aql, tessera = (resolve(name).label for name in ("spaql", "aql", "tessera"))
    header = ["problem", *(f"{label} {kind}" for label in (spaql, aql) for kind in ("printed", "evaluation"))]
    header += [f"{tessera} evaluation", "optimum", *(f"{label} cells" for label in (spaql, aql, tessera))]
    lines = []
    for problem in dict.fromkeys(problem for problem, _ in rows):
        ours = [rows[problem, name] for name in ("spaql", "aql", "tessera")]
        line = [NAMES[problem]]
        for row in ours:
            if row["algorithm"] != "tessera":
                line.append("" if row["printed"] is None else _bold(f"{row['printed']:.2f}", row["printed_best"]))
            line.append(_bold(f"{row['evaluation']:.3f}", row["evaluation_best"]))
        lines.append([*line, f"{ours[0]['optimum']:.3f}", *(f"{row['evaluation_cells']:.0f}" for row in ours)])
    return Table(header, lines, "Summary", BRIEF_NOTE)
