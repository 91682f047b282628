"""What objects show in a Jupyter notebook, and pandas where it is installed.

An object's `_repr_html_` is a fragment of HTML: a heading, sentences, names with their values, and tables.  All text is
escaped.  There are no scripts, no style sheets and no addresses, and no colours but the notebook's own, so that it can
be read on light and dark backgrounds and where a notebook is not trusted.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from spaql.errors import ParameterError

_MOST_ROWS = 100  # of a table
_BOX = "max-width: 75em; overflow-x: auto; margin: 0.3em 0"
_LINE = "1px solid rgba(127, 127, 127, 0.35)"
_TABLE = "border-collapse: collapse; margin: 0.3em 0; color: inherit"
_CELL = "padding: 0.15em 0.7em; border: 0; vertical-align: top"
_QUIET = "opacity: 0.7; font-size: 90%"


def is_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and "IPKernelApp" in shell.config


def import_pandas(what: str) -> Any:
    """Return pandas; a ParameterError says what needs it where it is missing."""
    try:
        import pandas
    except ImportError:
        raise ParameterError(f"{what}: pandas is missing; install it with: pip install 'spaql[pandas]'") from None
    return pandas


def render(
    title: str = "",
    sentences: Sequence[str] = (),
    facts: Mapping[str, str] | None = None,
    tables: Sequence[Mapping[str, Any]] = (),
    *,
    note: str = "",
    bars: Sequence[float] = (),
) -> str:
    """Return a fragment of HTML.

    Parameters
    ----------
    title, sentences, note
        A heading, paragraphs below it, and one in small type at the end.
    facts
        Names and values.
    tables
        As `formatting.Table.html` returns them.
    bars
        Heights of a small histogram, below the facts.
    """
    parts = [_paragraph(title, "font-weight: bold")] if title else []
    parts += [_paragraph(sentence) for sentence in sentences if sentence]
    if facts:
        rows = [f"<tr>{_cell('th', name, 'left')}{_cell('td', value, 'left')}</tr>" for name, value in facts.items()]
        parts.append(_table("", rows))
    if bars:
        parts.append(_histogram(bars))
    for table in tables:
        parts += [_paragraph(table["caption"], "font-weight: bold")] if table["caption"] else []
        parts.append(_render_table(table))
        parts += [_paragraph(table["note"], _QUIET)] if table["note"] else []
    parts += [_paragraph(note, _QUIET)] if note else []
    return f'<div style="{_BOX}">{"".join(parts)}</div>'


def _paragraph(text: str, style: str = "") -> str:
    lines = "<br/>".join(map(escape, text.splitlines()))
    return f'<p style="margin: 0.3em 0; {style}">{lines}</p>'


def _cell(kind: str, text: str, align: str, more: str = "") -> str:
    wrap = "; white-space: nowrap" if align == "right" else ""
    return f'<{kind} style="{_CELL}; text-align: {align}{wrap}"{more}>{escape(text)}</{kind}>'


def _table(head: str, rows: Sequence[str]) -> str:
    top = f'<thead style="border-bottom: {_LINE}">{head}</thead>' if head else ""
    return f'<table style="{_TABLE}">{top}<tbody>{"".join(rows)}</tbody></table>'


def _render_table(table: Mapping[str, Any]) -> str:
    columns, rows = table["columns"], []
    aligned = ["left" if at in (0, *table["text"]) else "right" for at in range(len(columns))]
    for row in table["rows"][:_MOST_ROWS]:
        if "section" in row:
            wide = f' colspan="{len(columns)}"'
            rows.append(f"<tr>{_cell('th', row['section'], 'left', wide)}</tr>")
            continue
        cells = [_cell("td", row["head"], "left")]
        for cell, align in zip(row["cells"], aligned[1:], strict=True):
            cells.append(_cell("th" if cell["bold"] else "td", cell["text"], align))
        rows.append(f"<tr>{''.join(cells)}</tr>")
    head = "".join(_cell("th", str(name), align) for name, align in zip(columns, aligned, strict=True))
    left = len(table["rows"]) - _MOST_ROWS
    rest = _paragraph(f"and {left:,} more rows", _QUIET) if left > 0 else ""
    return _table(f"<tr>{head}</tr>", rows) + rest


def _histogram(heights: Sequence[float]) -> str:
    """Draw bars in the colour of the text."""
    most = max(heights) or 1.0
    bars = "".join(
        f'<rect x="{8 * at}" y="{40 - 40 * height / most:.1f}" width="7" height="{40 * height / most:.1f}"></rect>'
        for at, height in enumerate(heights)
    )
    size = f'width="{8 * len(heights)}" height="41"'
    line = f'<rect x="0" y="40" width="{8 * len(heights)}" height="1"></rect>'
    return f'<svg {size} style="fill: currentColor; opacity: 0.6; margin: 0.3em 0.7em">{bars}{line}</svg>'
