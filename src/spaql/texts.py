"""Tables as text: aligned for a terminal, or as Markdown."""

from __future__ import annotations

from collections.abc import Sequence


def aligned(rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Rows below the first, which is the head; the first `left` columns go to the left, the others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(
            text.ljust(w) if i < left else text.rjust(w) for i, (text, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def markdown(rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """The same as a Markdown table."""
    rules = [":---" if i < left else "---:" for i in range(len(rows[0]))]
    lines = rows[0], rules, *rows[1:]
    return "\n".join(f"| {' | '.join(text.strip() for text in row)} |" for row in lines)
