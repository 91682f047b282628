"""Numbers, times and names as short text; tables as text: aligned for a terminal, as Markdown, and for LaTeX."""

from __future__ import annotations

import contextlib
import csv
import io
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from spaql.notebook import import_pandas, render

_LEAST_DIGITS, _MOST_DIGITS = 4, 17  # 17 digits identify a double
_LONG = 40  # letters; a column with a longer cell is text, which a page aligns to the left and wraps


def numerals(values: Sequence[float]) -> list[str]:
    """Format numbers with four significant digits; those of different numbers that would look the same with more.

    >>> numerals([0.5, -0.0, 2 / 3]), numerals([0.50001, 1 / 3, 0.50002])
    (['0.5', '0', '0.6667'], ['0.50001', '0.3333', '0.50002'])
    """
    numbers = [float(value) + 0.0 for value in values]
    texts, left, most = [""] * len(numbers), list(range(len(numbers))), _LEAST_DIGITS
    for digits in range(_LEAST_DIGITS, _MOST_DIGITS + 1):
        most = digits if left else most
        alike = defaultdict(set)
        for at in left:
            texts[at] = f"{numbers[at]:.{digits}g}"
        for number, text in zip(numbers, texts, strict=True):
            alike[text].add(number)
        left = [at for at in left if len(alike[texts[at]]) > 1]
    # None has an exponent because it needs few digits, where others have none.
    return [f"{number:.{most}g}" if "e+" in text else text for number, text in zip(numbers, texts, strict=True)]


def with_values(name: str, values: Mapping[str, Any]) -> str:
    """Format a name with its parameters.

    >>> with_values("aql", {"scaling": 0.5, "rollouts": 0})
    'aql, scaling=0.5, rollouts=0'
    """
    texts = {key: f"{value:.6g}" if isinstance(value, float) else str(value) for key, value in values.items()}
    return ", ".join([name, *(f"{key}={text}" for key, text in texts.items())])


def duration(seconds: float) -> str:
    """Format a duration in one or two units.

    >>> [duration(seconds) for seconds in (0.04, 12, 150, 7260, 400_000)]
    ['0.04 s', '12 s', '2 min 30 s', '2 h 1 min', '4 d 15 h']
    """
    if seconds < 10:
        return f"{seconds:.1g} s" if seconds < 1 else f"{seconds:.0f} s"
    left = round(seconds)
    units: list[tuple[int, str]] = []
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        if units or left >= size:
            units.append((left // size, unit))
        left %= size
    return " ".join(f"{count} {unit}" for count, unit in units[:2] if count)


def decimals(half_widths: Sequence[float], most: int = 6) -> int:
    """Return the number of decimals that shows two digits of the narrowest interval; 0 if none has a width.

    >>> decimals([0.3, 0.042, 0.0])
    3
    """
    wide = [width for width in half_widths if 0 < width < math.inf]
    return min(max(1 - math.floor(math.log10(min(wide))), 0), most) if wide else 0


class Bold(str):
    """Text of a bold cell; a terminal shows a star."""


@dataclass(frozen=True, eq=False)
class Table:
    """A table, written for a terminal, as Markdown, CSV and LaTeX, or shown on a page.

    Examples
    --------
    >>> from spaql.formatting import Bold, Table
    >>> table = Table(["agent", "score"], [["AQL", Bold("4.21")], ["Random", "1.95"]])
    >>> print(table.text())
    agent   score
    -------------
    AQL     4.21*
    Random  1.95
    """

    header: Sequence[str]  #: names of the columns
    rows: Sequence[Sequence[Any]]  #: `[rows][columns]`: text, `Bold` text, or numbers and None for CSV
    caption: str = ""  #: above the table
    note: str = ""  #: how to read the table
    left: int = 1  #: leading columns that are aligned to the left
    sections: bool = False  #: whether the first column names a section, to which all rows with the same name belong
    marks: Mapping[int, str] = field(default_factory=dict)  #: words that a page puts beside the head of a row

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.header):
                raise ValueError(f"table {self.caption!r}: {len(self.header)} columns, but a row of {len(row)} cells")

    @classmethod
    def of_records(cls, records: Sequence[Mapping[str, Any]]) -> Table:
        """Make a table of records with the same fields, for CSV.

        Parameters
        ----------
        records
            Rows as mappings from columns to values.

        Returns
        -------
        Table
            With the fields of the first record as columns.
        """
        return cls(list(records[0]), [list(record.values()) for record in records])

    def select(self, *names: str) -> Table:
        """Return the table with these columns only.

        Parameters
        ----------
        *names
            Of the columns, in the order wanted.

        Returns
        -------
        Table
            A new one.
        """
        places = [self.header.index(name) for name in names]
        return replace(self, header=names, rows=[[row[place] for place in places] for row in self.rows])

    def text(self) -> str:
        """Format as aligned columns for a terminal; a star marks bold cells.

        Returns
        -------
        str
            Lines of equal width.
        """
        starred = {at for row in self.rows for at, cell in enumerate(row) if isinstance(cell, Bold)}
        rows = [
            [f"{cell}{'*' if isinstance(cell, Bold) else ' '}" if at in starred else str(cell) for at, cell in line]
            for line in map(enumerate, self._without_repetition())
        ]
        lines = [[str(name) for name in self.header], *rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        padded = [
            "  ".join(
                cell.ljust(width) if at < self.left else cell.rjust(width)
                for at, (cell, width) in enumerate(zip(line, widths, strict=True))
            )
            for line in lines
        ]
        return "\n".join(line.rstrip() for line in [padded[0], "-" * len(padded[0]), *padded[1:]])

    def markdown(self) -> str:
        """Format as Markdown, as GitHub reads it.

        Returns
        -------
        str
            Lines.
        """
        rules = [":---" if at < self.left else "---:" for at in range(len(self.header))]
        body = [[f"**{cell}**" if isinstance(cell, Bold) else str(cell) for cell in row] for row in self.rows]
        lines = [[cell.strip().replace("|", "\\|") for cell in row] for row in [list(self.header), *body]]
        return "\n".join(f"| {' | '.join(line)} |" for line in [lines[0], rules, *lines[1:]])

    def csv(self) -> str:
        """Format as comma-separated values, with all digits of numbers; None is an empty cell.

        Returns
        -------
        str
            Lines.
        """
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([self.header, *self.rows])
        return text.getvalue()

    def tex(self) -> str:
        """Format as a LaTeX table, which needs the package booktabs.

        Returns
        -------
        str
            Lines.
        """
        lines = [
            "\\begin{table}",
            "\\centering\\scriptsize\\setlength{\\tabcolsep}{3pt}",
            f"\\caption{{{tex(self.caption)}. {tex(self.note)}}}",
            "\\begin{tabular}{" + "l" * self.left + "r" * (len(self.header) - self.left) + "}",
            "\\toprule",
            " & ".join(tex(name) for name in self.header) + " \\\\",
            *([] if self.sections else ["\\midrule"]),
        ]
        for row in self._without_repetition():
            lines += ["\\midrule"] if self.sections and row[0] else []
            cells = [f"\\textbf{{{tex(cell)}}}" if isinstance(cell, Bold) else tex(str(cell)) for cell in row]
            lines.append(" & ".join(cells) + " \\\\")
        return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", "\\end{table}", ""])

    def html(self) -> dict[str, Any]:
        """Return the data of a table for `spaql.viz.html`: rows of `head` and `cells`, and a row for each section."""
        rows: list[dict[str, Any]] = []
        for at, (row, whole) in enumerate(zip(self._without_repetition(), self.rows, strict=True)):
            if self.sections and row[0]:
                rows.append({"section": str(row[0])})
            head, *cells = whole[1:] if self.sections else whole
            texts = [{"text": str(cell).strip(), "bold": isinstance(cell, Bold)} for cell in cells]
            rows.append({"head": str(head), "cells": texts} | ({"mark": self.marks[at]} if at in self.marks else {}))
        first = int(self.sections)
        columns = list(self.header[first:])
        long = {at for row in self.rows for at, cell in enumerate(row) if len(str(cell)) > _LONG}
        text = sorted(at - first for at in long.union(range(first + 1, self.left)))
        return {"caption": self.caption, "note": self.note, "columns": columns, "rows": rows, "text": text}

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame` of the cells; columns aligned to the right that hold numbers only are numbers.

        Returns
        -------
        pandas.DataFrame
            One row per row.
        """
        pandas = import_pandas("table.to_pandas")
        frame = pandas.DataFrame([[str(x) if isinstance(x, str) else x for x in row] for row in self.rows])
        for at in range(self.left, frame.shape[1]):
            with contextlib.suppress(ValueError):
                frame[at] = pandas.to_numeric(frame[at])
        return frame.set_axis(list(self.header), axis=1) if len(frame) else pandas.DataFrame(columns=list(self.header))

    def _repr_html_(self) -> str:
        return render(tables=[self.html()])

    def _without_repetition(self) -> list[list[Any]]:
        """Return the rows, with the name of a section in its first row only."""
        if not self.sections:
            return [list(row) for row in self.rows]
        before = [None, *(row[0] for row in self.rows)]
        return [["" if row[0] == last else row[0], *row[1:]] for row, last in zip(self.rows, before, strict=False)]


_TEX = str.maketrans(
    {
        **{mark: f"\\{mark}" for mark in "%&_#${}"},
        "\\": "\\textbackslash{}",
        "~": "\\textasciitilde{}",
        "^": "\\textasciicircum{}",
        "±": "$\\pm$",
        "<": "$<$",
        ">": "$>$",
        "λ": "$\\lambda$",
        "ξ": "$\\xi$",
    }
)


def tex(text: str) -> str:
    """Escape plain text for LaTeX."""
    return text.translate(_TEX)
