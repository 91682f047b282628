"""Write files whole or not at all: under a temporary name first, and renamed when they are complete.

And read files within bounds: what stands in a folder may be a pipe that nobody writes to, or never end.
"""

import contextlib
import errno
import os
import re
import stat
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO

from spaql.errors import OutputError, SpaqlError

PART = ".spaql-"  # prefix of temporary names
AT_ONCE = getattr(os, "O_NONBLOCK", 0)  # a flag to open a file without waiting for the writer of a pipe
FIGURES = "figures"  # the subfolder for figures
#: contents of a file, or a function that writes the file to the path it is given
Content = str | bytes | Callable[[Path], object]
_TEMPORARY = re.compile(rf"{re.escape(PART)}\d+-.+")


def check_folder(folder: str | os.PathLike[str]) -> Path:
    """Make a folder where it is missing, and check that files can be written there."""
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


def clean_folder(folder: Path) -> None:
    """Remove the temporary files of a process that was killed; no other process may be writing there."""
    for place in (folder, folder / FIGURES):
        for path in place.iterdir() if place.is_dir() else ():
            if _TEMPORARY.fullmatch(path.name):
                path.unlink(missing_ok=True)


def check_regular(descriptor: int) -> None:
    """Raise an OSError where an open file is not a regular one."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise OSError(errno.EINVAL, "not a regular file")


def read_regular(path: str | os.PathLike[str], most: int) -> bytes:
    """Return the content of a regular file of at most so many bytes.

    Raises an OSError where it cannot be read, or is a device or a pipe, for which this does not wait; a ValueError
    where it is too large.
    """
    with open(path, "rb", opener=_open_at_once) as file:
        check_regular(file.fileno())
        return _read(file, most)


def read_bounded(path: str | os.PathLike[str], most: int) -> bytes:
    """Return the content of a file that a user names, which may be a pipe; errors as of `read_regular`."""
    with open(path, "rb") as file:
        return _read(file, most)


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | AT_ONCE)


def _read(file: IO[bytes], most: int) -> bytes:
    content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"it is too large: it has more than {most:,} bytes")
    return content


def write_file(target: Path, content: Content) -> None:
    """Write a file, all of it or nothing, in a folder that is made if it is missing; see `write_files`."""
    check_folder(target.parent)
    write_files(target.parent, {target.name: content})


def write_files(
    folder: Path,
    files: Mapping[str, Content],
    known: Iterable[str] = (),
    advance: Callable[[], object] = lambda: None,
) -> list[Path]:
    """Write several files of one result: all under temporary names and flushed to the disk, then all renamed.

    The folder exists; a name may have a subfolder.  A symbolic link is followed, so that it stays one; a target that is
    not a regular file, such as a device, is refused.  `known` are names that files of such a result can have: those
    that this result does not have are removed, so that a folder always shows one result.  `advance` is called after
    each file, for progress.
    """
    path = folder
    staged: dict[Path, Path] = {}  # temporary path -> the file it becomes
    try:
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            place = Path(os.path.realpath(path))
            if place.exists() and not place.is_file():
                kind = "a folder" if place.is_dir() else "not a regular file"
                raise OutputError(f"{str(path)!r} cannot be written: it is {kind}; move it or choose another")
            temporary = place.with_name(f"{PART}{os.getpid()}-{threading.get_ident()}-{place.name}")
            staged[temporary] = place
            if callable(content):
                content(temporary)
            else:
                temporary.write_bytes(content.encode() if isinstance(content, str) else content)
            with open(temporary, "rb+") as file:
                os.fsync(file.fileno())
            advance()
        for temporary, path in staged.items():
            os.replace(temporary, path)
        for name in known:
            if name not in files:
                path = folder / name
                path.unlink(missing_ok=True)
    except SpaqlError:
        raise
    except OSError as error:
        raise OutputError(f"{str(path)!r} cannot be written: {error.strerror or error}; choose another") from None
    finally:
        for temporary in staged:
            with contextlib.suppress(OSError):  # must not replace the error under way
                temporary.unlink()
    return [folder / name for name in files]
