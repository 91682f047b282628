"""The report of a study: one HTML file that needs no network and no server.

`page` puts words and tables into the page here, as static text, so that they can be read without JavaScript; charts
travel as JSON, and the scripts in ``assets`` draw them with the copy of plotly.js that plotly brings along.  All of it
is inside the file, and its content security policy forbids every request: the page looks the same in ten years, and
opens from a mail attachment.

Every string of the content is plain text.  The same content gives the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
import importlib.util
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from html import escape
from typing import Any

from spaql.charts import GREY, INK, PALETTE, colours

_SCRIPTS = ("charts.js", "partitions.js", "page.js")
# Each colour with a lighter one for the dark page, and with its symbol.
_COLOURS = (*PALETTE, GREY, INK)
_LIGHTER = dict(
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


def page(content: Mapping[str, Any]) -> str:
    """The report as one HTML document.

    Parameters
    ----------
    content
        A mapping of

        - ``title``, ``subtitle``;
        - ``verdict``, ``method``: lists of paragraphs;
        - ``tables``: each has ``caption``, ``note``, ``columns`` and ``rows``.  A row has ``head`` and ``cells``, each
          with ``text``, ``bold`` and ``title``, a tooltip; or it is a sub-heading and has only ``section``.  The first
          column may be that of the heads, or that of the first cells;
        - ``problems``: each has ``id``, ``name``, ``summary``; ``charts``, that is ``reward`` and ``arms`` by
          ``iterations`` and by ``steps``, and ``scaling``, which may be None; and ``partitions``, each with ``label``,
          ``note``, ``iterations`` and as many ``frames``;
        - ``findings``: each has ``id``, ``title``, ``sentence``, ``number``, ``meaning`` and ``chart``.

        An ``id`` is a slug.  Charts are what `Chart.to_dict` returns, frames what `Mosaic.to_dict` returns.

    Returns
    -------
    str
        To be written as UTF-8.

    Raises
    ------
    ValueError
        When a row of a table does not fit its columns, or a number is not finite.
    """
    scripts = {"plotly": _plotly(), "script": _program()}
    return _fill(
        _asset("report.html"),
        policy=_policy(scripts.values()),
        title=escape(content["title"]),
        subtitle=escape(content["subtitle"]),
        verdict=_paragraphs(content["verdict"]),
        tables="\n".join(_table(table) for table in content["tables"]),
        options="\n".join(_option(problem) for problem in content["problems"]),
        findings="\n".join(_finding(finding) for finding in content["findings"]),
        method=_paragraphs(content["method"]),
        style=_asset("report.css"),
        data=_json(_drawn(content)),
        **scripts,
    )


def _fill(template: str, **parts: str) -> str:
    """The template with each ``{{name}}`` replaced, in one pass: what is put in is never searched again."""
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)


@cache
def _asset(name: str) -> str:
    return (importlib.resources.files("spaql") / "assets" / name).read_text("utf-8")


@cache
def _plotly() -> str:
    """plotly.js, found beside the package but without running it: importing plotly takes longer than the whole page."""
    spec = importlib.util.find_spec("plotly")
    if spec is None:
        raise ModuleNotFoundError("the report needs the package plotly, for the plotly.js in it", name="plotly")
    package = importlib.resources.files(importlib.util.module_from_spec(spec))
    return _script((package / "package_data" / "plotly.min.js").read_text("utf-8"))


def _program() -> str:
    """Our own scripts joined inside one function, so that none of their names is global."""
    parts = "\n".join(_asset(name) for name in _SCRIPTS)
    return _script(f'(() => {{\n"use strict";\n{parts}}})();\n')


def _script(source: str) -> str:
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


def _drawn(content: Mapping[str, Any]) -> dict[str, Any]:
    """The part of the content that JavaScript draws, and how it looks."""
    return {
        "problems": [{**problem, "charts": _dressed_all(problem["charts"])} for problem in content["problems"]],
        "findings": {finding["id"]: _dressed(finding["chart"]) for finding in content["findings"]},
    }


def _dressed_all(charts: Mapping[str, Any]) -> dict[str, Any]:
    """The charts of a problem: by axis, or one, or none."""
    scaling = charts["scaling"]
    return {
        **{name: {axis: _dressed(chart) for axis, chart in charts[name].items()} for name in ("reward", "arms")},
        "scaling": None if scaling is None else _dressed(scaling),
    }


def _dressed(chart: Mapping[str, Any]) -> dict[str, Any]:
    """The chart with a colour, a symbol and a dash for every look, as in the figures.

    A series or level that does not say its look has its name for one.
    """
    parts = [*chart["series"], *chart["levels"]]
    looks = {
        look: {
            "light": colour,
            "dark": _LIGHTER[colour],
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


def _paragraphs(texts: Sequence[str]) -> str:
    return "\n".join(f"<p>{escape(text)}</p>" for text in texts)


def _table(table: Mapping[str, Any]) -> str:
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


def _cell(cell: Mapping[str, Any]) -> str:
    text = escape(cell["text"])
    title = f' title="{escape(cell["title"])}"' if cell["title"] else ""
    return f"<td{title}><strong>{text}</strong></td>" if cell["bold"] else f"<td{title}>{text}</td>"


def _option(problem: Mapping[str, Any]) -> str:
    return f'<option value="{escape(problem["id"])}">{escape(problem["name"])}</option>'


def _finding(finding: Mapping[str, Any]) -> str:
    slug = escape(finding["id"])
    meaning = f' <span class="meaning">{escape(finding["meaning"])}</span>' if finding["meaning"] else ""
    return (
        f'<article id="finding-{slug}">\n<h3>{escape(finding["title"])}</h3>\n<p>{escape(finding["sentence"])}</p>\n'
        f'<p class="result"><strong class="number">{escape(finding["number"])}</strong>{meaning}</p>\n'
        f'<figure class="chart needs-js" data-finding="{slug}"></figure>\n</article>'
    )
