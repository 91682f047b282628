"""Pages: one HTML file that needs no network and no server.

A page is a title and sections of static text and tables, which can be read without JavaScript, and charts, which travel
as plotly figures in JSON.  The content security policy allows the scripts of the page, from ``assets`` and plotly, and
forbids every request.  Every string is plain text, which the template escapes.  The same content gives the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import importlib.resources
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from spaql.viz.charts import Chart, Mosaic, looks_of
from spaql.viz.plotly_figure import to_plotly
from spaql.viz.style import Look, darken

# Inside a script element these would end it, or begin a comment in it; in JSON they may always be written like this.
_JSON_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


@dataclass(frozen=True, eq=False)
class Growth:
    """A partition at several moments of training: a frame for each of the iterations."""

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
class Download:
    """A file that the page holds and its reader can keep; the link works without JavaScript."""

    name: str
    content: bytes
    note: str  # what it is

    @property
    def size(self) -> str:
        """The size in bytes or kB."""
        count = len(self.content)
        return (
            f"{count} bytes" if count < 1000 else f"{count / 1000:.1f} kB" if count < 10_000 else f"{count // 1000} kB"
        )

    @property
    def href(self) -> str:
        """An address that holds the content itself."""
        return f"data:text/plain;charset=utf-8;base64,{base64.b64encode(self.content).decode()}"


@dataclass(frozen=True, eq=False)
class Section:
    """A part of a page; every text is plain, and a table is data as `formatting.Table.html` returns it."""

    title: str
    paragraphs: Sequence[str] = ()
    tables: Sequence[Mapping[str, Any]] = ()
    charts: Sequence[Chart] = ()  # side by side in pairs
    notes: Sequence[str] = ()  # in small type, at its end
    id: str = ""  # for links; a slug of the title unless given
    highlight: tuple[str, str] | None = None  # a number in large type, and its meaning
    parts: Sequence[Section] = ()  # below this one
    cases: Sequence[Case] = ()
    items: Sequence[str] = ()  # a list
    downloads: Sequence[Download] = ()
    style: str = ""  # a class of the style sheets: "lead" for large type, "warnings"
    mount: str = ""  # id of an empty element that a script of the page fills

    @property
    def slug(self) -> str:
        """The id, or the title in small letters, digits and hyphens."""
        return self.id or re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")

    @property
    def needs_js(self) -> bool:
        """Whether nothing of it can be read without JavaScript."""
        static = self.paragraphs or self.tables or self.parts or self.items or self.downloads
        return bool(self.mount or self.cases or (self.charts and not static))


def render_page(
    title: str,
    sections: Sequence[Section],
    subtitle: str = "",
    *,
    data: Mapping[str, Any] | None = None,
    scripts: Sequence[str] | None = None,
    styles: Sequence[str] = ("page.css",),
) -> str:
    """Return a page of sections as one HTML document, to be written as UTF-8.

    `data` is more for the scripts to read, ready for JSON.  `scripts` and `styles` name files in ``assets`` for a page
    that draws by itself; charts are then not drawn.
    """
    cases = [case for section in sections for case in section.cases]
    charts = [chart for section in _flatten(sections) for chart in section.charts]
    looks = looks_of([*charts, *(chart for case in cases for group in case.charts.values() for chart in group)])
    drawing = bool(charts or cases) and scripts is None
    names = scripts or ["base.js", "charts.js", *(["partitions.js", "cases.js"] if cases else []), "page.js"]
    joined = "\n".join(_read(name) for name in names)  # inside one function, so that none of their names is global
    own = to_script(f'(() => {{\n"use strict";\n{joined}}})();\n')
    sources = [_plotly(), own] if drawing else [own]
    content: dict[str, Any] = {}
    if scripts is None:
        content["charts"] = [to_plotly(chart, looks) for chart in charts]
        content["cases"] = [_case_data(case, looks) for case in cases]
        content["dark"] = {look.colour: darken(look.colour) for look in looks.values()}
    packed = json.dumps({**content, **(data or {})}, allow_nan=False, sort_keys=True, separators=(",", ":"))
    return _template().render(
        title=title,
        subtitle=subtitle,
        sections=sections,
        policy=_make_policy(sources),
        style="\n".join(_read(name) for name in styles),
        data=packed.translate(_JSON_ESCAPES),
        scripts=sources,
    )


def _flatten(sections: Iterable[Section]) -> Iterator[Section]:
    """Each section before its parts, as the template numbers their charts."""
    for section in sections:
        yield section
        yield from _flatten(section.parts)


def _case_data(case: Case, looks: Mapping[str, Look]) -> dict[str, Any]:
    charts = {unit: [to_plotly(chart, looks) for chart in charts] for unit, charts in case.charts.items()}
    growth = [vars(part) | {"frames": [frame.to_dict() for frame in part.frames]} for part in case.growth]
    return vars(case) | {"charts": charts, "growth": growth}


@cache
def _template() -> jinja2.Template:
    strict: dict[str, Any] = {"autoescape": True, "undefined": jinja2.StrictUndefined}
    loader = jinja2.FunctionLoader(_read)
    return jinja2.Environment(loader=loader, trim_blocks=True, lstrip_blocks=True, **strict).get_template("page.html")


@cache
def _read(name: str) -> str:
    """Return the text of a file in ``assets``."""
    return (importlib.resources.files("spaql.viz") / "assets" / name).read_text("utf-8")


@cache
def _plotly() -> str:
    """Read plotly.js beside the package without running it: importing plotly takes longer than the whole page."""
    path = importlib.metadata.distribution("plotly").locate_file("plotly/package_data/plotly.min.js")
    return to_script(Path(str(path)).read_text("utf-8"))


def to_script(source: str) -> str:
    """Return JavaScript as it may stand in a script element: nothing in it ends the element or opens a comment."""
    return re.sub(r"<(?=/script|!--)", r"<\\", source, flags=re.IGNORECASE)


def _make_policy(scripts: Iterable[str]) -> str:
    """Return a content security policy that allows these very scripts, and no request at all."""
    hashes = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes)
    # Plotly sets style attributes, and turns a chart into a picture through data: and blob: addresses.
    others = "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    return f"default-src 'none'; script-src {allowed}; {others}"
