"""How wide text is before anything is drawn, so that a figure can be laid out once, in inches, without trial draws."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from matplotlib.font_manager import FontProperties, findfont, get_font

# From one line of text to the next, in units of the size of type.
LEADING = 1.2


def width(text: str, size: float, *, bold: bool = False) -> float:
    """Width in inches of the longest line of a text whose size is in points."""
    return max(sum(_advance(letter, bold) for letter in line) for line in text.split("\n")) * size / 72


def widest(texts: Sequence[str], size: float) -> float:
    """Width of the widest of several texts."""
    return max((width(text, size) for text in texts), default=0.0)


def height(text: str, size: float) -> float:
    """Height in inches of a text of one or more lines; nothing takes no room."""
    return (text.count("\n") + 1) * LEADING * size / 72 if text else 0.0


def wrap(text: str, room: float, size: float, *, bold: bool = False) -> str:
    """The text broken at blanks into lines no wider than `room` inches, as far as its words allow."""
    lines: list[str] = []
    for paragraph in text.split("\n"):
        current = ""
        for word in paragraph.split():
            longer = f"{current} {word}" if current else word
            if current and width(longer, size, bold=bold) > room:
                lines.append(current)
                current = word
            else:
                current = longer
        lines.append(current)
    return "\n".join(lines)


@lru_cache(maxsize=4096)
def _advance(letter: str, bold: bool) -> float:
    """From one letter to the next, in units of the size of type."""
    font = get_font(findfont(FontProperties(weight="bold" if bold else "normal")))
    font.set_size(100, 72)
    return float(font.load_char(ord(letter)).linearHoriAdvance) / 65536 / 100
