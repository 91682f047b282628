"""`python -m spaql`, and the command `spaql`."""

import os
import sys
from typing import NoReturn


def run() -> NoReturn:
    """Run the command line and end the process, at once after Ctrl-C or SIGTERM."""
    try:
        from spaql.cli import main  # here: Ctrl-C may come while it is imported

        code = main()
    except KeyboardInterrupt:
        code = 130
    jit = sys.modules.get("spaql.partition.jit")
    stopped = code in (130, 143)
    if stopped and jit is not None and jit.is_compiling():  # nobody waits for that kernel, nor for LLVM to end
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    raise SystemExit(code)


if __name__ == "__main__":
    run()
