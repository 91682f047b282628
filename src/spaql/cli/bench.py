"""`spaql bench`: the benchmarks of the source repository, which are not part of the installed package."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from spaql.errors import ParameterError


def add(commands: Any) -> None:
    """Add `bench`."""
    bench = commands.add_parser("bench", help="measure speed, as ratios in one run (needs a clone of the repository)")
    bench.add_argument("--only", nargs="+", metavar="PART", help="these parts only (all); --list names them")
    bench.add_argument("--list", action="store_true", help="print the names of all parts and exit")
    bench.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    bench.add_argument("--quiet", action="store_true", help="no progress on stderr")
    bench.set_defaults(run=_bench)


def _benchmarks() -> ModuleType:
    """The package `benchmarks` of the clone that spaql runs from."""
    root = Path(__file__).resolve().parents[3]
    if not (root / "benchmarks" / "__init__.py").is_file():
        raise ParameterError(
            "bench: the benchmarks are not part of the installed package; clone the repository and run make bench there"
        )
    sys.path.insert(0, str(root))
    import benchmarks

    return benchmarks


def _bench(options: argparse.Namespace) -> int:
    benchmarks = _benchmarks()
    if options.list:
        print("\n".join(benchmarks.PARTS))
        return 0
    figures = benchmarks.measure(progress_bar=not options.quiet, parts=options.only)
    print(json.dumps(figures, indent=2, allow_nan=False) if options.json else benchmarks.text(figures))
    return 0
