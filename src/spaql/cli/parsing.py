"""What the commands share: a parser whose bad usage is one sentence, their usual options, how they speak."""

from __future__ import annotations

import argparse
import sys
from typing import NoReturn


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


def say(sentence: str) -> None:
    """A sentence on stderr."""
    print(f"spaql: {sentence}", file=sys.stderr)
