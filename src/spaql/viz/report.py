"""The report of a study: one HTML file that needs no network and no server.

`page` is that of the paper's study, whose problems a reader goes through one at a time; `sections_page` is that of any
other: sections of words, tables and charts, one below the other.  Both put words and tables into the page here, as
static text, so that they can be read without JavaScript; charts travel as JSON, and the scripts in ``assets`` draw them
with the copy of plotly.js that plotly brings along; see `spaql.viz.html`.

Every string of the content is plain text.  The same content gives the same bytes.
"""

from __future__ import annotations

import importlib.resources
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from typing import Any

from spaql.viz import html as pages

_SCRIPTS = ("basics.js", "charts.js", "partitions.js", "page.js")
_SECTION_SCRIPTS = ("basics.js", "charts.js", "study.js")


@dataclass(frozen=True, eq=False)
class Section:
    """A part of a page, under a heading of its own.

    Attributes
    ----------
    id
        A slug, for links.
    title
        The heading.
    paragraphs
        Plain text, below it.
    tables
        As `page` takes them.
    charts
        What `Chart.to_dict` returns; drawn by scripts, side by side in pairs.
    notes
        Plain text in small type, at its end.
    """

    id: str
    title: str
    paragraphs: Sequence[str] = ()
    tables: Sequence[Mapping[str, Any]] = ()
    charts: Sequence[Mapping[str, Any]] = ()
    notes: Sequence[str] = ()


def sections_page(title: str, subtitle: str, sections: Sequence[Section]) -> str:
    """A page of sections as one HTML document, to be written as UTF-8; the same content gives the same bytes."""
    charts: list[Mapping[str, Any]] = []
    parts = []
    for section in sections:
        parts.append(_section(section, len(charts)))
        charts += section.charts
    body = pages.filled(
        pages.asset("study.html"),
        title=escape(title),
        subtitle=escape(subtitle),
        contents="\n".join(_link(section) for section in sections),
        sections="\n".join(parts),
    )
    scripts = [_plotly(), pages.program(*_SECTION_SCRIPTS)] if charts else [pages.program(*_SECTION_SCRIPTS)]
    data = {"charts": [pages.dressed(chart) for chart in charts]}
    return pages.document(title, body, data, styles=["report.css"], scripts=scripts)


def _link(section: Section) -> str:
    hidden = ' class="needs-js"' if section.charts and not (section.paragraphs or section.tables) else ""
    return f'<li{hidden}><a href="#{escape(section.id)}">{escape(section.title)}</a></li>'


def _section(section: Section, first: int) -> str:
    """A section whose charts are numbered from `first` on."""
    slug = escape(section.id)
    figures = "\n".join(
        f'<figure class="chart{" wide" if len(section.charts) == 1 else ""}" data-chart="{first + at}"></figure>'
        for at in range(len(section.charts))
    )
    parts = [
        f'<section id="{slug}" aria-labelledby="{slug}-heading">',
        f'<h2 id="{slug}-heading">{escape(section.title)}</h2>',
        pages.paragraphs(section.paragraphs),
        *(pages.table(table) for table in section.tables),
        f'<div class="charts needs-js">\n{figures}\n</div>' if figures else "",
        *(f'<p class="note">{escape(note)}</p>' for note in section.notes),
        "</section>",
    ]
    return "\n".join(part for part in parts if part)


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
    body = pages.filled(
        pages.asset("report.html"),
        title=escape(content["title"]),
        subtitle=escape(content["subtitle"]),
        verdict=pages.paragraphs(content["verdict"]),
        tables="\n".join(pages.table(table) for table in content["tables"]),
        options="\n".join(_option(problem) for problem in content["problems"]),
        findings="\n".join(_finding(finding) for finding in content["findings"]),
        method=pages.paragraphs(content["method"]),
    )
    scripts = [_plotly(), pages.program(*_SCRIPTS)]
    return pages.document(content["title"], body, _drawn(content), styles=["report.css"], scripts=scripts)


@cache
def _plotly() -> str:
    """plotly.js, found beside the package but without running it: importing plotly takes longer than the whole page."""
    spec = importlib.util.find_spec("plotly")
    if spec is None:
        raise ModuleNotFoundError("the report needs the package plotly, for the plotly.js in it", name="plotly")
    package = importlib.resources.files(importlib.util.module_from_spec(spec))
    return pages.script((package / "package_data" / "plotly.min.js").read_text("utf-8"))


def _drawn(content: Mapping[str, Any]) -> dict[str, Any]:
    """The part of the content that JavaScript draws, and how it looks."""
    return {
        "problems": [{**problem, "charts": _dressed_all(problem["charts"])} for problem in content["problems"]],
        "findings": {finding["id"]: pages.dressed(finding["chart"]) for finding in content["findings"]},
    }


def _dressed_all(charts: Mapping[str, Any]) -> dict[str, Any]:
    """The charts of a problem: by axis, or one, or none."""
    scaling = charts["scaling"]
    return {
        **{name: {axis: pages.dressed(chart) for axis, chart in charts[name].items()} for name in ("reward", "arms")},
        "scaling": None if scaling is None else pages.dressed(scaling),
    }


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
