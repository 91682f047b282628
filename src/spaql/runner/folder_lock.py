"""Locks of folders: one process writes at a time, and whoever comes second is told at once who holds the lock.

The system frees a lock when its process ends, however it ends.  The file of the lock says who holds it: process,
computer and time.  Where the system has no `flock` (Windows), `filelock` takes its place, and the file says nothing.
Imports little, so that the status of a study answers at once.
"""

import contextlib
import json
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from spaql.atomic_io import AT_ONCE, check_regular, read_regular
from spaql.errors import OutputError, SpaqlError

_PATIENCE = 0.5  # seconds to wait for the lock: a process that only checks whether it is held has it for a moment
_PAUSE = 0.02  # seconds between two attempts
_LONGEST = 1000  # bytes that are read of the file


class FolderLock:
    """A lock that this process holds until `release`.

    Parameters
    ----------
    path
        The file of the lock, in a folder that exists.
    what
        What it locks, for messages, such as "the folder 'results'".
    error
        The class of what is raised where another process holds it, or it cannot be made.
    remove
        Whether `release` removes the file.
    """

    def __init__(
        self, path: Path, what: str, *, error: Callable[[str], SpaqlError] = OutputError, remove: bool = False
    ) -> None:
        self._path, self._remove, self._process = path, remove, os.getpid()
        try:
            acquired = self._acquire()
        except OSError as problem:
            reason = problem.strerror or problem
            raise error(f"{what} cannot be locked: {reason}; choose another folder") from problem
        if not acquired:
            raise error(_describe_use(path, what))

    def _acquire(self) -> bool:
        """Take the lock; whether that succeeded."""
        fcntl = _import_fcntl()
        if fcntl is None:
            return self._acquire_elsewhere()
        end = time.monotonic() + _PATIENCE
        while True:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | AT_ONCE, 0o644)
            try:
                check_regular(descriptor)
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Another process may have removed the file, or made it anew, since it was opened.
                if os.fstat(descriptor).st_nlink and os.path.samestat(os.fstat(descriptor), os.stat(self._path)):
                    break
            except (BlockingIOError, PermissionError, FileNotFoundError):  # the second on some file systems
                pass
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)
            if time.monotonic() > end:
                return False
            time.sleep(_PAUSE)

        def release() -> None:
            if os.getpid() == self._process:  # a process forked meanwhile has the same lock: closing is not enough
                fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)

        self._release: Callable[[], object] = release
        holder = {"process": os.getpid(), "host": socket.gethostname(), "since": time.time()}
        with contextlib.suppress(OSError):  # a full disk: the lock is held all the same
            os.ftruncate(descriptor, 0)
            os.write(descriptor, json.dumps(holder).encode())
        return True

    def _acquire_elsewhere(self) -> bool:
        from filelock import FileLock, Timeout

        lock = FileLock(self._path)
        try:
            lock.acquire(timeout=_PATIENCE)
        except Timeout:
            return False
        self._release = lock.release
        return True

    def release(self) -> None:
        """Let others have it; in a process that was forked meanwhile, nothing changes for the one that holds it."""
        if (
            self._remove and os.getpid() == self._process
        ):  # before others can have it; not possible on Windows, where it stays
            with contextlib.suppress(OSError):
                self._path.unlink()
        self._release()

    def __enter__(self) -> "FolderLock":
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


def check_unlocked(path: Path, what: str, error: Callable[[str], SpaqlError] = OutputError) -> None:
    """Raise an error where another process holds a lock, without taking it."""
    if is_locked(path):
        raise error(_describe_use(path, what))


def is_locked(path: str | os.PathLike[str]) -> bool | None:
    """Return whether a process holds a lock, by its file; None where that cannot be tested.

    The test takes a shared lock for an instant; a process that wants the lock waits for that long.
    """
    fcntl = _import_fcntl()
    try:
        descriptor = os.open(path, os.O_RDONLY | AT_ONCE)
    except (OSError, ValueError):
        return None
    try:
        if fcntl is None:
            return None
        check_regular(descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # the latter on some file systems
        return True
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return False


def _import_fcntl() -> ModuleType | None:
    try:
        import fcntl
    except ImportError:  # not on this operating system
        return None
    return fcntl


def _describe_use(path: Path, what: str) -> str:
    """Return a sentence that says who holds a lock."""
    who = "another process"
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        holder: dict[str, Any] = json.loads(read_regular(path, _LONGEST))
        since = time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(holder["since"]))
        who = f"process {int(holder['process'])} on {str(holder['host'])[:80]} since {since}"
    return f"{what} is in use by {who}; wait for it, or choose another folder"
