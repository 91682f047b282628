"""The tables as text: Markdown, CSV and LaTeX, all from the same cells."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

from spaql.formatting import Table, tex
from spaql.studies.paper.cells import Cell
from spaql.studies.paper.plan import BEYOND, LEARNERS, LONG, SETTINGS, Setting

NOTE = (
    "Printed: the paper's table. Scored alike: our agents by the paper's way, the mean of their own final scores at "
    "the scaling that is best by that mean; for SPAQL that is a running maximum. Fresh: what the returned policies "
    "earn on new episodes, at a scaling chosen on other agents; where that is another, it stands behind the semicolon. "
    "Plus-minus is half a 95% interval. Bold: the better of AQL and SPAQL, or both where Welch's test at 5% finds no "
    "difference; SPAQL beyond, the default agent of this library, where it is behind neither. Arms and steps are those "
    "of the agents scored alike; steps: environment steps per agent, spent on learning and on choosing which policy to "
    "keep."
)
LONG_NOTE = "The scalings are those of H = 5."
BRIEF_NOTE = (
    "Printed: the paper's mean reward, by the agents' own scores. Fresh: mean reward on new episodes, at a scaling "
    "chosen on other agents; arms: of the agents that earn it. Bold: the better of SPAQL and AQL, or both where "
    "Welch's test at 5% finds no difference. Beyond: the default agent of this library, which has no scaling, after as "
    "many environment steps as AQL, a twenty-first of SPAQL's; bold where it is behind neither."
)
UNIFORM_NOTE = (
    "The rows printed as Uniform are reproduced by Beta arrivals, not by Uniform ones: what Beta gives stands in "
    "brackets."
)
COLUMNS = (
    "printed",
    "scored alike",
    "fresh",
    "optimum",
    "% of optimum",
    "arms printed",
    "arms",
    "training steps",
    "selection steps",
    "scaling",
)
_BOLD = (0, 1, 2)  # columns that may be bold


def settings_of(cells: Sequence[Cell]) -> list[Setting]:
    """The problems of the cells, in order."""
    present = {cell.problem for cell in cells}
    return [setting for setting in SETTINGS if setting.id in present]


def groups(cells: Sequence[Cell]) -> list[tuple[str, list[Setting]]]:
    """The paper's two tables, and a third for H = 50: caption and problems of each that has any."""
    settings = settings_of(cells)
    parts = [
        ("Table 1. Oil discovery", [s for s in settings if s.problem == "oil" and s.id != LONG]),
        ("Table 2. Ambulance relocation", [s for s in settings if s.problem == "ambulance"]),
        ("Longer episodes (H = 50)", [s for s in settings if s.id == LONG]),
    ]
    return [(caption, members) for caption, members in parts if members]


def row_of(cell: Cell) -> list[tuple[str, bool]]:
    """Text of each column, and whether it is bold."""
    learner = cell.arms is not None
    texts = [
        _plus_minus(cell.printed, cell.printed_half_width, 2),
        _alike(cell),
        _plus_minus(cell.fresh, (cell.fresh_high - cell.fresh_low) / 2, 3),
        f"{cell.optimum:.3f}",
        f"{100 * cell.fraction_of_optimum:.1f}",
        _plus_minus(cell.printed_arms, None, 0),
        _plus_minus(cell.arms, None, 0),
        f"{cell.training_steps:,}" if learner else "",
        f"{cell.selection_steps:,}" if learner else "",
        _scalings(cell),
    ]
    bold = (cell.printed_leading, cell.as_published_leading, cell.fresh_leading)
    return [(text, bool(text and i in _BOLD and bold[i])) for i, text in enumerate(texts)]


def _alike(cell: Cell) -> str:
    text = _plus_minus(cell.as_published, cell.as_published_half_width, 3)
    if cell.counterpart not in (None, cell.problem) and cell.counterpart_as_published is not None:
        text += f" ({cell.counterpart_as_published:.3f})"
    return text


def _plus_minus(value: float | None, half_width: float | None, decimals: int) -> str:
    if value is None:
        return ""
    return f"{value:.{decimals}f}" + ("" if half_width is None else f" ± {half_width:.{decimals}f}")


def _scalings(cell: Cell) -> str:
    """The scaling of the agents scored alike and, where it is another, that of the fresh ones."""
    if cell.scaling is None or cell.fresh_scaling is None:
        return ""
    return f"{cell.scaling:g}" if cell.scaling == cell.fresh_scaling else f"{cell.scaling:g}; {cell.fresh_scaling:g}"


def notes(members: Sequence[Setting], cells: Sequence[Cell]) -> str:
    """What to know about a table."""
    ids = {setting.id for setting in members}
    swapped = any(cell.counterpart not in (None, cell.problem) for cell in cells if cell.problem in ids)
    return NOTE + (" " + UNIFORM_NOTE if swapped else "") + (" " + LONG_NOTE if LONG in ids else "")


def brief(cells: Sequence[Cell]) -> str:
    """One line for each problem: what is printed, what is true."""
    ours = {(cell.problem, cell.algorithm): cell for cell in cells}
    heads = ["problem", "SPAQL printed", "SPAQL fresh", "AQL printed", "AQL fresh", "beyond, fresh", "optimum"]
    heads += ["SPAQL arms", "AQL arms", "beyond, arms"]
    lines = ["| " + " | ".join(heads) + " |", "|---|" + "---:|" * (len(heads) - 1)]
    for setting in settings_of(cells):
        texts = []
        for algorithm in LEARNERS[::-1]:
            cell = ours[setting.id, algorithm]
            texts += [_bold(cell.printed, cell.printed_leading, 2), _bold(cell.fresh, cell.fresh_leading, 3)]
        beyond = ours[setting.id, BEYOND]
        texts.append(_bold(beyond.fresh, beyond.fresh_leading, 3))
        arms = [f"{ours[setting.id, algorithm].fresh_arms or 0:.0f}" for algorithm in (*LEARNERS[::-1], BEYOND)]
        optimum = f"{ours[setting.id, 'aql'].optimum:.3f}"
        lines.append("| " + " | ".join([setting.name, *texts, optimum, *arms]) + " |")
    return "\n".join(lines)


def _bold(value: float | None, leading: bool | None, decimals: int) -> str:
    if value is None:
        return ""
    return f"**{value:.{decimals}f}**" if leading else f"{value:.{decimals}f}"


def markdown(cells: Sequence[Cell], study: str = "") -> str:
    """Tables for people and for GitHub."""
    parts = ["# The paper's tables, and what is true\n", *([study + "\n"] if study else [])]
    parts += ["## In short\n", brief(cells) + "\n", BRIEF_NOTE + "\n"]
    for caption, members in groups(cells):
        parts.append(f"## {caption}\n")
        lines = ["| problem | agent | " + " | ".join(COLUMNS) + " |", "|---|---|" + "---:|" * len(COLUMNS)]
        for setting in members:
            for cell in (cell for cell in cells if cell.problem == setting.id):
                texts = [f"**{text}**" if bold else text for text, bold in row_of(cell)]
                lines.append(f"| {setting.name} | {cell.label} | " + " | ".join(texts) + " |")
        parts += ["\n".join(lines) + "\n", notes(members, cells) + "\n"]
    return "\n".join(parts)


def plain(cells: Sequence[Cell]) -> str:
    """The main columns, for a terminal; a star marks the better learner."""
    shown = (0, 1, 2, 3, 4, 6, 8)
    rows = [["problem", "agent", *(COLUMNS[i] for i in shown)]]
    for setting in settings_of(cells):
        for cell in (cell for cell in cells if cell.problem == setting.id):
            texts = [
                f"{text}{'*' if bold else ' '}" if i in _BOLD else text for i, (text, bold) in enumerate(row_of(cell))
            ]
            rows.append([setting.name, cell.label, *(texts[i] for i in shown)])
    return Table(rows[0], rows[1:], left=2).text()


def comma_separated(cells: Sequence[Cell]) -> str:
    """Every field of every cell, with all its digits."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(each.name for each in fields(Cell))
    for cell in cells:
        writer.writerow("" if value is None else value for value in asdict(cell).values())
    return text.getvalue()


def latex(cells: Sequence[Cell]) -> str:
    """Tables for a paper; they need the package booktabs."""
    parts = ["% Needs \\usepackage{booktabs}"]
    for caption, members in groups(cells):
        lines = [
            "\\begin{table}",
            "\\centering\\scriptsize\\setlength{\\tabcolsep}{3pt}",
            f"\\caption{{{tex(caption.split('. ')[-1])}. {tex(notes(members, cells))}}}",
            "\\begin{tabular}{ll" + "r" * len(COLUMNS) + "}",
            "\\toprule",
            "problem & agent & " + " & ".join(tex(column) for column in COLUMNS) + " \\\\",
        ]
        for setting in members:
            lines.append("\\midrule")
            for i, cell in enumerate(cell for cell in cells if cell.problem == setting.id):
                texts = [f"\\textbf{{{tex(text)}}}" if bold else tex(text) for text, bold in row_of(cell)]
                head = tex(setting.name) if i == 0 else ""
                lines.append(f"{head} & {tex(cell.label)} & " + " & ".join(texts) + " \\\\")
        lines += ["\\bottomrule", "\\end{tabular}", "\\end{table}"]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def page_tables(cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """The tables for the report."""
    found = []
    for caption, members in groups(cells):
        rows: list[dict[str, Any]] = []
        for setting in members:
            rows.append({"section": setting.name})
            for cell in (cell for cell in cells if cell.problem == setting.id):
                texts = [{"text": text, "bold": bold, "title": ""} for text, bold in row_of(cell)]
                rows.append({"head": cell.label, "cells": texts})
        found.append({"caption": caption, "note": notes(members, cells), "columns": list(COLUMNS), "rows": rows})
    return found
