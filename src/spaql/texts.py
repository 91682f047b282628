"""Numbers as short text; tables as text: aligned for a terminal, or as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

_LEAST_DIGITS, _MOST_DIGITS = 4, 17  # of a double: with so many it is itself again


def numerals(values: Sequence[float]) -> list[str]:
    """Numbers with four digits that count, or with more where different ones would look the same.

    Examples
    --------
    >>> numerals([0.5, -0.0, 2 / 3])
    ['0.5', '0', '0.6667']
    >>> numerals([0.50001, 0.50002])
    ['0.50001', '0.50002']
    """
    different = len({float(value) for value in values})
    for digits in range(_LEAST_DIGITS, _MOST_DIGITS + 1):
        written = [f"{value + 0.0:.{digits}g}" for value in values]
        if len(set(written)) >= different:
            break
    return written


def aligned(rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Rows below the first, which is the head; the first `left` columns go to the left, the others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(
            text.ljust(w) if i < left else text.rjust(w) for i, (text, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    return "\n".join(line.rstrip() for line in [lines[0], "-" * len(lines[0]), *lines[1:]])


def markdown(rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """The same as a Markdown table."""
    rules = [":---" if i < left else "---:" for i in range(len(rows[0]))]
    lines = rows[0], rules, *rows[1:]
    return "\n".join(f"| {' | '.join(text.strip() for text in row)} |" for row in lines)
