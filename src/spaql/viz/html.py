"""What every page that we write has in common: one HTML file that needs no network and no server.

A page is a *body* of static words and tables, which can be read without JavaScript, *data* as JSON, and scripts from
``assets`` that draw it.  All of it is inside the file, and its content security policy allows those very scripts and
forbids every request: the page looks the same in ten years, and opens from a mail attachment.

Every string is plain text until `filled` or `document` puts it in its place, escaped.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from typing import Any

from spaql.viz.charts import GREY, INK, PALETTE, Chart, Mosaic, colours

# Each colour with a lighter one for the dark page, and with its symbol.
_COLOURS = (*PALETTE, GREY, INK)
LIGHTER = dict(
    zip(
        _COLOURS,
        ("#4FA8E3", "#F58B45", "#2FC49B", "#E3A3C8", "#A5DBFF", "#F3BF52", "#A3A7AC", "#E8E6E3"),
        strict=True,
    )
)
_SYMBOLS = dict(
    zip(
        _COLOURS,
        ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "pentagon", "x"),
        strict=True,
    )
)
_DASHES = ("solid", "dash", "dot", "dashdot")

# Inside a script element these would end it, or begin a comment in it; in JSON they may always be written like this.
_JSON_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


@dataclass(frozen=True, eq=False)
class Growth:
    """A partition at several moments of training."""

    label: str
    note: str
    iterations: Sequence[int]
    frames: Sequence[Mosaic]


@dataclass(frozen=True, eq=False)
class Case:
    """One of several problems that a reader goes through one at a time; charts by the unit of their x axis."""

    id: str
    title: str
    summary: str
    charts: Mapping[str, Sequence[Chart]]
    growth: Sequence[Growth] = ()


@dataclass(frozen=True, eq=False)
class Section:
    """A part of a page, under a heading of its own.

    Attributes
    ----------
    title
        The heading.
    paragraphs
        Plain text, below it.
    tables
        Mappings of caption, note, columns and rows.  A row is ``{"section": text}`` or has "head" and "cells"; a cell
        is a text, or has "text", "bold" and "title", a tooltip.
    charts
        Side by side in pairs.
    notes
        Plain text in small type, at its end.
    id
        For links; a slug of the title unless given.
    highlight
        A number in large type, and what it means.
    parts
        Sections below this one.
    cases
        Problems to go through one at a time.
    """

    title: str
    paragraphs: Sequence[str] = ()
    tables: Sequence[Mapping[str, Any]] = ()
    charts: Sequence[Chart] = ()
    notes: Sequence[str] = ()
    id: str = ""
    highlight: tuple[str, str] | None = None
    parts: Sequence[Section] = ()
    cases: Sequence[Case] = ()


def render_page(title: str, sections: Sequence[Section], subtitle: str = "") -> str:
    """Return a page of sections as one HTML document, to be written as UTF-8; the same content gives the same bytes."""
    from spaql.viz import report

    parts = [
        report.Section(
            section.id or slug(section.title),
            section.title,
            section.paragraphs,
            section.tables,
            [chart.to_dict() for chart in section.charts],
            section.notes,
        )
        for section in sections
    ]
    return report.sections_page(title, subtitle, parts)


def slug(text: str) -> str:
    """Return text as an id: small letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def document(title: str, body: str, data: Any, *, styles: Sequence[str], scripts: Sequence[str]) -> str:
    """A page as one HTML document, to be written as UTF-8; the same content gives the same bytes.

    Parameters
    ----------
    title
        Plain text.
    body
        HTML, made by `filled` and the like.
    data
        What the scripts read, ready for JSON; a number that is not finite is a ValueError.
    styles
        Names of style sheets in ``assets``, joined in this order.
    scripts
        JavaScript, each one an element of its own, as `program` and `script` return it.
    """
    return filled(
        asset("document.html"),
        policy=_policy(scripts),
        title=escape(title),
        style="\n".join(asset(name) for name in styles),
        body=body,
        data=_json(data),
        scripts="\n".join(f"<script>{source}</script>" for source in scripts),
    )


def filled(template: str, **parts: str) -> str:
    """The template with each ``{{name}}`` replaced, in one pass: what is put in is never searched again."""
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)


@cache
def asset(name: str) -> str:
    """The text of a file in ``assets``."""
    return (importlib.resources.files("spaql.viz") / "assets" / name).read_text("utf-8")


def program(*names: str) -> str:
    """Our own scripts of these names joined inside one function, so that none of their names is global."""
    parts = "\n".join(asset(name) for name in names)
    return script(f'(() => {{\n"use strict";\n{parts}}})();\n')


def script(source: str) -> str:
    """JavaScript as it may stand in a script element: nothing in it ends the element or opens a comment."""
    return re.sub(r"<(?=/script|!--)", r"<\\", source, flags=re.IGNORECASE)


def _policy(scripts: Iterable[str]) -> str:
    """A content security policy that allows these very scripts, and no request at all."""
    hashes = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes)
    # Plotly sets style attributes, and turns a chart into a picture through data: and blob: addresses.
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _json(value: Any) -> str:
    """JSON in ASCII that can stand in a script element."""
    return json.dumps(value, allow_nan=False, sort_keys=True, separators=(",", ":")).translate(_JSON_ESCAPES)


def dressed(chart: Mapping[str, Any]) -> dict[str, Any]:
    """The chart with a colour, a symbol and a dash for every look, as in the figures.

    A series or level that does not say its look has its name for one.
    """
    parts = [*chart["series"], *chart["levels"]]
    looks = {
        look: {
            "light": colour,
            "dark": LIGHTER[colour],
            "symbol": _SYMBOLS[colour],
            "dash": _DASHES[before % len(_DASHES)],
        }
        for look, (colour, before) in colours(part["look"] or part["name"] for part in parts).items()
    }
    dressed = {
        kind: [{**part, "look": looks[part["look"] or part["name"]]} for part in chart[kind]]
        for kind in ("series", "levels")
    }
    return {**chart, **dressed}


def paragraphs(texts: Sequence[str]) -> str:
    """Each text as a paragraph."""
    return "\n".join(f"<p>{escape(text)}</p>" for text in texts)


def table(table: Mapping[str, Any]) -> str:
    """A table in a box that scrolls by itself, so that on a phone the page does not."""
    caption, columns = escape(table["caption"]), table["columns"]
    cells = {len(row["cells"]) for row in table["rows"] if "section" not in row}
    if not cells <= {len(columns)} and not cells <= {len(columns) - 1}:
        raise ValueError(f"table {table['caption']!r}: {len(columns)} columns, but rows of {sorted(cells)} cells")
    width = 1 + max(cells, default=len(columns))
    corner = "<td></td>" if width > len(columns) else ""
    head = corner + "".join(f'<th scope="col">{escape(name)}</th>' for name in columns)
    rows = "".join(_row(row, width) for row in table["rows"])
    note = f'<p class="note">{escape(table["note"])}</p>\n' if table["note"] else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{caption}">\n'
        f"<table>\n<caption><span>{caption}</span></caption>\n<thead>\n<tr>{head}</tr>\n</thead>\n"
        f"<tbody>\n{rows}</tbody>\n</table>\n</div>\n{note}"
    )


def _row(row: Mapping[str, Any], width: int) -> str:
    """A row; one with a section opens a new group of rows."""
    if "section" in row:
        heading = f'<th scope="rowgroup" colspan="{width}"><span>{escape(row["section"])}</span></th>'
        return f'</tbody>\n<tbody>\n<tr class="section">{heading}</tr>\n'
    cells = "".join(_cell(cell) for cell in row["cells"])
    return f'<tr><th scope="row">{escape(row["head"])}</th>{cells}</tr>\n'


def _cell(cell: Mapping[str, Any] | str) -> str:
    if isinstance(cell, str):
        return f"<td>{escape(cell)}</td>"
    text = escape(cell["text"])
    title = f' title="{escape(cell["title"])}"' if cell["title"] else ""
    return f"<td{title}><strong>{text}</strong></td>" if cell["bold"] else f"<td{title}>{text}</td>"
