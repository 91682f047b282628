"""`spaql bench`: the benchmarks of the repository, which are not part of the installed package."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from spaql.cli.options import add_output, print_json
from spaql.errors import ParameterError


def add(commands: Any) -> None:
    """Add `bench`."""
    bench = commands.add_parser("bench", help="measure speed, as ratios in one run (needs a clone of the repository)")
    bench.add_argument("--only", nargs="+", metavar="PART", help="these parts only (all); --list prints them")
    bench.add_argument("--list", action="store_true", help="print the names of all parts")
    add_output(bench)
    bench.set_defaults(run=_bench)


def _bench(options: argparse.Namespace) -> int:
    root = Path(__file__).resolve().parents[3]
    if not (root / "benchmarks" / "__init__.py").is_file():
        raise ParameterError(
            "bench: the benchmarks are not part of the installed package; clone the repository and run make bench there"
        )
    sys.path.insert(0, str(root))
    import benchmarks

    if options.list:
        print("\n".join(benchmarks.parts()))
        return 0
    figures = benchmarks.measure(progress_bar=not options.quiet, only=options.only)
    if options.json:
        print_json(figures)
    else:
        print(benchmarks.describe(figures))
    return 0
