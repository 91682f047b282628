"""Files of a result: written under other names first and then all renamed, so that a folder tells of one result."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from spaql.errors import OutputError, SpaqlError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PART = ".spaql-"  # how the names of half-written files begin
FIGURES = "figures"  # the subfolder for pictures
#: what a file holds; a function draws its figure when its turn comes, so that not all of them are in memory at once
Content = Union[str, bytes, "Figure", Callable[[], "Figure"]]
_DRAFT = re.compile(r"\..+\.\d+-\d+\.part")  # of `replace`
_LEFT_BEHIND = re.compile(re.escape(PART) + r"(\d+-.+|[0-9a-f]{32}\.tmp)")


def check_folder(folder: str | os.PathLike[str]) -> Path:
    """The folder, made if it is missing, or a sentence about why it cannot be written."""
    if not str(folder):
        raise OutputError("output folder: the name is empty; name a folder")
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise OutputError(f"output folder {str(path)!r} cannot be written: {error.strerror}; choose another") from None
    return path


def clean(folder: Path) -> None:
    """Remove what a killed process left half-written; only for who knows that no other process is writing there."""
    for place in (folder, folder / FIGURES):
        for path in place.iterdir() if place.is_dir() else ():
            if _LEFT_BEHIND.fullmatch(path.name) or _DRAFT.fullmatch(path.name):
                path.unlink(missing_ok=True)


def replace(target: Path, data: bytes | memoryview) -> None:
    """Write a file, all of it or nothing; see `drafted`."""
    with drafted(target) as draft:
        draft.write_bytes(data)


@contextlib.contextmanager
def drafted(target: Path) -> Iterator[Path]:
    """Another name to write a file under, which takes the place of the target at the end, once it is on the disk.

    A link is followed, so that it stays one; what is neither a file nor missing, such as a device, is refused.
    """
    check_folder(target.parent)
    try:
        place = Path(os.path.realpath(target))
        if place.exists() and not place.is_file():
            kind = "a folder" if place.is_dir() else "no plain file"
            raise OutputError(f"{str(target)!r} cannot be written: it is {kind}; choose another")
        draft = place.with_name(f".{place.name}.{os.getpid()}-{threading.get_ident()}.part")
        try:
            yield draft
            with open(draft, "rb+") as file:
                os.fsync(file.fileno())
            os.replace(draft, place)
        finally:
            with contextlib.suppress(OSError):  # no error here may hide the one above
                draft.unlink()
    except OSError as error:
        if isinstance(error, SpaqlError):
            raise
        raise OutputError(f"{str(target)!r} cannot be written: {error.strerror or error}; choose another") from None


def write(
    folder: Path,
    files: Mapping[str, Content],
    known: Iterable[str] = (),
    advance: Callable[[], object] = lambda: None,
) -> list[Path]:
    """Write texts, bytes and figures into a folder: all of them under temporary names, and then all under their own.

    Names may have a subfolder.  `known` are the names that results of this kind can have: those of an earlier result
    that this one does not have are removed, so that a folder always tells of one.  `advance` is called after each
    file, for progress.
    """
    staged = {folder / name: (folder / name).with_name(f"{PART}{os.getpid()}-{Path(name).name}") for name in files}
    drawn: tuple[Any, Any] = None, None
    try:
        for (path, temporary), content in zip(staged.items(), files.values(), strict=True):
            if path.is_dir():
                raise OutputError(f"{str(path)!r} cannot be written: it is a folder; move it or choose another folder")
            path.parent.mkdir(exist_ok=True)
            if isinstance(content, str):
                temporary.write_text(content, encoding="utf-8")
            elif isinstance(content, bytes):
                temporary.write_bytes(content)
            else:
                if content is not drawn[0]:  # the same figure often is two files, one behind the other
                    drawn = content, content() if callable(content) else content
                _save(drawn[1], temporary)
            advance()
        for path, temporary in staged.items():
            os.replace(temporary, path)
        for name in known:
            if name not in files:
                (folder / name).unlink(missing_ok=True)
    except OSError as error:
        if isinstance(error, OutputError):
            raise
        raise OutputError(f"files in {str(folder)!r} cannot be written: {error.strerror or error}") from None
    finally:
        for temporary in staged.values():
            with contextlib.suppress(OSError):  # no error here may hide the one above
                temporary.unlink()
    return list(staged)


def _save(figure: Figure, path: Path) -> None:
    from spaql.viz import figures  # which brings matplotlib, and most commands that write no figure wait for it in vain

    figures.save(figure, path)
