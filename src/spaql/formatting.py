"""Numbers, times and names as short text; tables as text: aligned for a terminal, as Markdown, and for LaTeX."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

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


def with_values(name: str, values: Mapping[str, Any]) -> str:
    """A name with what it is given.

    Examples
    --------
    >>> with_values("aql", {"scaling": 0.5, "rollouts": 0})
    'aql, scaling=0.5, rollouts=0'
    """
    return ", ".join([name, *(f"{key}={_shown(value)}" for key, value in values.items())])


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def duration(seconds: float) -> str:
    """How long, in one unit or two.

    Examples
    --------
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
    """As many decimals as show two digits of the narrowest of the intervals; none is wanted where all are of no width.

    Examples
    --------
    >>> decimals([0.3, 0.042, 0.0])
    3
    """
    wide = [width for width in half_widths if 0 < width < math.inf]
    return min(max(1 - math.floor(math.log10(min(wide))), 0), most) if wide else 0


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
    r"""Plain text as LaTeX shows it.

    Examples
    --------
    >>> print(tex("5 % of x_1 ± 0.1"))
    5 \% of x\_1 $\pm$ 0.1
    """
    return text.translate(_TEX)
