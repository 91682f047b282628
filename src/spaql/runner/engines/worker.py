"""A process that does runs for another one; `spaql.runner.engines.processes` starts it.

It reads frames from its standard input and answers on its standard output (`spaql.runner.engines.protocol`); what environments
print goes to the standard error.  First comes an object with `paths` to import from and `algorithms` to
compile or load; it answers with its own `code`, and is ready.  Then come chunks, `runs`; for each run it says that it
begins, and then what became of it.  Where its input ends, its parent has: it ends at once, whatever it is doing.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from queue import SimpleQueue
from typing import BinaryIO

from spaql.runner.engines import protocol as wire
from spaql.runner.engines.engine import attempt
from spaql.runner.run_spec import code, from_specification, prepare_algorithms


def main() -> None:
    """Serve until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)  # an environment that reads or prints must not break into the conversation
    os.dup2(2, 1)
    bodies: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_listen, args=(source, bodies), daemon=True).start()
    said, _ = wire.parsed(bodies.get())
    add_paths(said["paths"])
    wire.write(sink, wire.message({"code": code()}))
    prepare_algorithms(said["algorithms"])
    wire.write(sink, wire.message({"ready": True}))
    while True:
        said, _ = wire.parsed(bodies.get())
        for place, specification in enumerate(said["runs"]):
            wire.write(sink, wire.message({"begins": place}))
            wire.write(sink, wire.packed(attempt(from_specification(specification))))


def add_paths(paths: list[str]) -> None:
    """Look for modules there too, behind all other places; where there is no such folder here, it is left out."""
    sys.path += [path for path in paths if path not in sys.path and os.path.isdir(path)]


def _listen(source: BinaryIO, bodies: SimpleQueue[bytes]) -> None:
    while (body := wire.read(source)) is not None:
        bodies.put(body)
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():  # with all that an environment started
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(0)
