"""Figures of studies in tests that only ask whether the same ones are written."""

import hashlib
import json

from matplotlib.figure import Figure

from spaql.studies import study

DRAW = study._draw


def draw_digest(figure, looks):
    """A small figure in place of a study's own: a digest of what that one would show."""
    panels = getattr(figure, "panels", [figure])
    content = [[panel[0], panel[1].to_dict()] if isinstance(panel, tuple) else repr(panel) for panel in panels]
    words = json.dumps([figure.title, figure.note, content, repr(looks)])
    drawn = Figure(figsize=(4, 0.5))
    drawn.text(0.0, 0.5, hashlib.sha256(words.encode()).hexdigest())
    return drawn
