"""Colours, markers and line styles, the same in print and on pages."""

import zlib
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

# Okabe and Ito's colours, safe for colour-blind readers, without their yellow, which vanishes on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
GREY = "#7F7F7F"
INK = "#222222"
QUIET = "#666666"
GRID = "#E6E6E6"
EMPTY = "#D9D9D9"  # cells without a value
POLICY = "#E3120B"
SEQUENTIAL = "viridis"  # matplotlib's name of the colours of values from low to high
DIVERGING = ("#004C78", "#4A9CC9", "#F7F7F7", "#E58A44", "#8F3F00")  # of actions with a sign, the middle at 0
_ON_DARK = ("#4FA8E3", "#F58B45", "#2FC49B", "#E3A3C8", "#A5DBFF", "#F3BF52", "#A3A7AC", "#E8E6E3")
#: each colour on a dark page
DARK = dict(zip((*PALETTE, GREY, INK), _ON_DARK, strict=True))
_MARKERS = "os^DvPpX"  # matplotlib's, and plotly's names of the same shapes
_SYMBOLS = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "pentagon", "x")
LINES = ("-", "--", ":", "-.")
_DASHES = ("solid", "dash", "dot", "dashdot")


class Look(NamedTuple):
    """What tells one name from another: a colour, its marker, and a line style where colours run out."""

    colour: str
    marker: str
    symbol: str  # the marker, as plotly calls it
    line: str
    dash: str  # the line, as plotly calls it


def make_looks(names: Mapping[str, str]) -> dict[str, Look]:
    """Choose a look for every name; `names` maps each to its colour, or to nothing for a free one by its hash."""
    uses: Counter[str] = Counter()
    looks: dict[str, Look] = {}
    for name in sorted(names, key=lambda name: (not names[name], name)):
        start = zlib.crc32(name.encode())
        ring = [PALETTE[(start + step) % len(PALETTE)] for step in range(len(PALETTE))]
        colour = names[name].upper() or min(ring, key=lambda colour: uses[colour])
        known = list(DARK)
        shape = known.index(colour) if colour in known else start % len(_MARKERS)
        turn = uses[colour] % len(LINES)
        looks[name] = Look(colour, _MARKERS[shape], _SYMBOLS[shape], LINES[turn], _DASHES[turn])
        uses[colour] += 1
    return looks


def darken(colour: str) -> str:
    """Return the colour for a dark page; an unknown one is mixed with white."""
    if colour in DARK:
        return DARK[colour]
    return "#" + "".join(f"{(int(colour[i : i + 2], 16) + 255) // 2:02X}" for i in (1, 3, 5))
