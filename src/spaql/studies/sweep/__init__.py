"""Sweeps: a study described in a small file, done on any engine, told as tables, figures and a page.

description    a study as data, from its file
performing     its runs, done on an engine into a folder
status         how far a folder is, at once
gathered       what is done, by groups
table          its statistics, as text, Markdown, CSV, LaTeX and JSON
pictures       its charts
exporting      its runs, one row each
page           its report, one HTML file
watching       all of it in a terminal, while it runs
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spaql.studies.sweep.description import Description, Group

__all__ = ["Description", "Group"]


def __getattr__(name: str) -> Any:
    """Imported when first used: to say how far a study is takes no compiler."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from spaql.studies.sweep import description

    return getattr(description, name)
