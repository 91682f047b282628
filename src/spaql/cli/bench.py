"""`spaql bench`."""

from __future__ import annotations

import argparse
import json
from typing import Any

from spaql.bench import PARTS


def add(commands: Any) -> None:
    """Add `bench`."""
    bench = commands.add_parser("bench", help="measure speed, as ratios in one run")
    bench.add_argument(
        "--only", nargs="+", choices=tuple(PARTS), metavar="PART", help=f"these parts only: {', '.join(PARTS)} (all)"
    )
    bench.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    bench.add_argument("--quiet", action="store_true", help="no progress on stderr")
    bench.set_defaults(run=_bench)


def _bench(options: argparse.Namespace) -> int:
    from spaql import bench

    figures = bench.measure(progress_bar=not options.quiet, parts=options.only)
    print(json.dumps(figures, indent=2, allow_nan=False) if options.json else bench.text(figures))
    return 0
