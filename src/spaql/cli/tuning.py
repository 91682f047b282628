"""The command that finds parameters: `tune`."""

from __future__ import annotations

import argparse
import json
from typing import Any

from spaql.cli.parsing import add_engine, engine_of, say


def add(commands: Any) -> None:
    """Add `tune`."""
    tune = commands.add_parser(
        "tune",
        help="find good parameters of an algorithm, and score them on fresh seeds",
        epilog="The same command goes on with a tuning that was stopped; needs pip install 'spaql[tune]'.",
    )
    tune.add_argument("study", metavar="STUDY.toml", help="what to tune; see docs/tuning.md")
    tune.add_argument("--out", required=True, metavar="DIR", help="where runs and results are kept")
    tune.add_argument("--trials", type=int, metavar="N", help="to try beside the defaults (as the study says)")
    add_engine(tune)
    tune.add_argument("--retry-failed", action="store_true", help="try runs again that failed before")
    tune.add_argument("--quiet", action="store_true", help="no progress on stderr")
    tune.add_argument("--json", action="store_true", help="print JSON instead of sentences")
    tune.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from spaql.studies.tune.performing import tune

    try:
        outcome = tune(
            options.study,
            options.out,
            trials=options.trials,
            **engine_of(options),
            retry_failed=options.retry_failed,
            progress_bar=not options.quiet,
        )
    except KeyboardInterrupt:
        say(
            f"stopped; finished runs are kept in {options.out}, its report.html tells of finished batches, and "
            "the same command goes on from there"
        )
        return 130
    from spaql.studies.tune.outcome import FAILED

    if options.json:
        print(json.dumps({**outcome.to_dict(), "folder": options.out}))
    else:
        print("\n".join(outcome.words()))
        best = "report.html, tune.json and best.json" if outcome.winner is not None else "report.html and tune.json"
        print(f"See {best} in {options.out}.")
    if outcome.count(FAILED) and not options.json:
        say(f"some runs failed; spaql sweep status {options.out} says why, and --retry-failed tries them again")
    return 0 if outcome.complete else 1
