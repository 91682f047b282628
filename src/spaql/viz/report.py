"""Temporary: pages from dictionaries."""

from __future__ import annotations
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from spaql.viz import html
from spaql.viz.charts import Chart, Level, Mosaic, Series


@dataclass(frozen=True, eq=False)
class Section:
    id: str
    title: str
    paragraphs: Sequence[str] = ()
    tables: Sequence[Mapping[str, Any]] = ()
    charts: Sequence[Mapping[str, Any]] = ()
    notes: Sequence[str] = ()


def _f(v: Any) -> Any:
    return None if v is None else [math.nan if x is None else x for x in v]


def _chart(d: Mapping[str, Any]) -> Chart:
    return Chart(
        d["title"],
        d["x_label"],
        d["y_label"],
        tuple(
            Series(s["name"], s["x"], _f(s["y"]), _f(s["low"]), _f(s["high"]), s["look"], s["style"])
            for s in d["series"]
        ),
        tuple(
            Level(l["name"], l["y"] if l["y"] is not None else math.nan, l["low"], l["high"], l["look"])
            for l in d["levels"]
        ),
        d["x_scale"],
        d["note"],
    )


def sections_page(title: str, subtitle: str, sections: Sequence[Section]) -> str:
    return html.render_page(
        title,
        [html.Section(s.title, s.paragraphs, s.tables, [_chart(c) for c in s.charts], s.notes, s.id) for s in sections],
        subtitle,
    )


def page(content: Mapping[str, Any]) -> str:
    cases = []
    for p in content["problems"]:
        c = p["charts"]
        more = [] if c["scaling"] is None else [_chart(c["scaling"])]
        cases.append(
            html.Case(
                p["id"],
                p["name"],
                p["summary"],
                {u: [_chart(c["reward"][u]), _chart(c["arms"][u]), *more] for u in ("iterations", "steps")},
                [
                    html.Growth(
                        g["label"],
                        g["note"],
                        g["iterations"],
                        [
                            Mosaic(
                                f["low"],
                                f["high"],
                                [math.nan if q is None else q for q in f["q"]],
                                f["visits"],
                                f["depth"],
                                (f["edges"], f["played"]),
                            )
                            for f in g["frames"]
                        ],
                    )
                    for g in p["partitions"]
                ],
            )
        )
    return html.render_page(
        content["title"],
        [
            html.Section("In short", content["verdict"], style="lead"),
            html.Section("Tables", tables=content["tables"]),
            html.Section("One problem at a time", cases=cases),
            html.Section(
                "Findings",
                parts=[
                    html.Section(
                        f["title"],
                        [f["sentence"]],
                        charts=[_chart(f["chart"])],
                        highlight=(f["number"], f["meaning"]),
                        id="finding-" + f["id"],
                    )
                    for f in content["findings"]
                ],
            ),
            html.Section("Method", content["method"]),
        ],
        content["subtitle"],
    )
