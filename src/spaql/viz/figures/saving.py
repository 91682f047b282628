"""Figures as files: whole or not at all, and the same bytes for the same figure."""

from __future__ import annotations

import contextlib
import io
import os
import threading
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from spaql.atomic_io import PART

# Settings that matplotlib only has for the whole process: one thread at a time, and put back.  The names inside an SVG
# are random without a salt.  Its text stays text, which can be searched and takes fewer bytes than outlines of letters.
_SVG: dict[Any, str] = {"svg.hashsalt": "spaql", "svg.fonttype": "none"}
_SVG_LOCK = threading.Lock()


def save(figure: Figure, path: str | os.PathLike[str]) -> Path:
    """Write a figure as PNG or SVG, whole or not at all.

    The same figure gives the same bytes: no date, no version, no random names.

    Parameters
    ----------
    figure
        The figure.
    path
        Where to; ends in ``.png`` or ``.svg``.  An existing file is replaced.

    Returns
    -------
    Path
        The file written.

    Raises
    ------
    ValueError
        When the suffix is another.
    OSError
        When the file cannot be written; nothing is left behind.
    """
    target = Path(path)
    kind = target.suffix.lower()
    if kind not in (".png", ".svg"):
        raise ValueError(f"a figure is saved as .png or .svg, and '{target}' ends in neither.")
    # In the same directory, because a rename is atomic only within one file system.
    temporary = target.with_name(f"{PART}{uuid.uuid4().hex}.tmp")
    try:
        (_write_png if kind == ".png" else _write_svg)(figure, temporary)
        temporary.replace(target)
    except OSError as error:
        raise OSError(f"cannot write the figure to '{target}': {error.strerror or error}.") from error
    finally:
        with contextlib.suppress(OSError):  # gone after the rename, and no error here may hide the one above
            temporary.unlink()
    return target


def writers(
    name: str, draw: Callable[[], Figure], kinds: Sequence[str] = ("png", "svg")
) -> dict[str, Callable[[Path], object]]:
    """Return a function for each file of a figure that writes it to a given path, for `atomic_io.write_files`.

    The figure is drawn once, when the first of them is written, and forgotten with the last.

    Parameters
    ----------
    name
        Of the files, without a suffix; it may have a subfolder.
    draw
        Makes the figure.
    kinds
        Suffixes of the files.

    Examples
    --------
    >>> from spaql.viz import figures
    >>> sorted(figures.writers("figures/oil", lambda: None))
    ['figures/oil.png', 'figures/oil.svg']
    """
    drawn: list[Figure] = []
    left = list(kinds)

    def write(kind: str, path: Path) -> None:
        figure = drawn[0] if drawn else draw()
        drawn[:] = [figure]
        left.remove(kind)
        if not left:
            drawn.clear()
            left.extend(kinds)
        save(figure, path)

    return {f"{name}.{kind}": partial(write, kind) for kind in kinds}


def _write_png(figure: Figure, path: Path) -> None:
    """With 256 colours, as near to the true ones as the eye can tell: a third of the bytes, and written faster."""
    pixels = io.BytesIO()
    figure.savefig(pixels, format="rgba", dpi=figure.dpi)
    size = figure.canvas.get_width_height(physical=True)
    true = Image.frombytes("RGBA", size, pixels.getvalue()).convert("RGB")
    few = true.quantize(256, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    # The tree gives white the mean colour of all that is nearly white; on a white page that would show.
    palette, corner = few.getpalette() or [], np.asarray(few)[0, 0]
    palette[3 * corner : 3 * corner + 3] = np.asarray(true)[0, 0].tolist()
    few.putpalette(palette)
    few.save(path, format="PNG", dpi=(figure.dpi, figure.dpi))


def _write_svg(figure: Figure, path: Path) -> None:
    with _SVG_LOCK:
        before = {name: mpl.rcParams[name] for name in _SVG}
        mpl.rcParams.update(_SVG)
        try:
            figure.savefig(path, format="svg", dpi=figure.dpi, metadata={"Date": None, "Creator": None})
        finally:
            mpl.rcParams.update(before)
