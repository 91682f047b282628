"""What the commands share: a parser whose bad usage is one sentence, their usual options, how they speak."""

from __future__ import annotations

import argparse
import sys
from typing import Any, NoReturn


class Parser(argparse.ArgumentParser):
    """Bad usage is one sentence, not a page."""

    def error(self, message: str) -> NoReturn:
        """Exit with 2."""
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def add_common(parser: argparse.ArgumentParser) -> None:
    """Add `--seed`, `--quiet` and `--json`."""
    parser.add_argument("--seed", type=int, default=0, help="fixes everything random (%(default)s)")
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Add what says where runs are done."""
    parser.add_argument(
        "--engine",
        choices=("threads", "processes", "dask"),
        help="where runs are done (threads for compiled problems, processes where some are not)",
    )
    parser.add_argument("--workers", type=int, metavar="N", help="runs at once (one per processor)")
    parser.add_argument("--address", metavar="ADDRESS", help="of a Dask scheduler, such as tcp://10.0.0.1:8786")
    parser.add_argument("--run-timeout", type=float, metavar="SECONDS", help="give a run up after so long (never)")


def engine_of(options: argparse.Namespace) -> dict[str, Any]:
    """What `add_engine` added, as `spaql.sweep` takes it."""
    return {name: getattr(options, name) for name in ("engine", "workers", "address", "run_timeout")}


def say(sentence: str) -> None:
    """A sentence on stderr."""
    print(f"spaql: {sentence}", file=sys.stderr)
