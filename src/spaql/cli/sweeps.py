"""Commands for studies of one's own: `sweep`, and what it says of its folder."""

from __future__ import annotations

import argparse
import json
from typing import Any

from spaql.cli.parsing import Parser, add_engine, engine_of, say

_RUN = "run"
_VERBS = (_RUN,)


def add(commands: Any) -> None:
    """Add `sweep`."""
    sweep = commands.add_parser(
        "sweep",
        help="do a study of many runs, described in a file; its table, figures and page",
        epilog="spaql sweep STUDY.toml --out DIR does a study, or goes on with it; the other commands tell of DIR.",
    )
    verbs = sweep.add_subparsers(dest="verb", required=True, metavar="command", parser_class=Parser)
    run = verbs.add_parser(_RUN, help="do what is missing of a study; the word may be left out", prog="spaql sweep")
    run.add_argument("study", metavar="STUDY.toml", help="what to do; see docs/sweeps.md")
    run.add_argument("--out", required=True, metavar="DIR", help="where runs are kept")
    add_engine(run)
    run.add_argument("--retry-failed", action="store_true", help="try runs again that failed before")
    run.add_argument("--quiet", action="store_true", help="no progress on stderr")
    run.add_argument("--json", action="store_true", help="print JSON instead of a sentence")
    run.set_defaults(run=_run)


def reworded(arguments: list[str]) -> list[str]:
    """`sweep STUDY.toml` as `sweep run STUDY.toml`."""
    if arguments[:1] == ["sweep"] and len(arguments) > 1 and arguments[1] not in (*_VERBS, "-h", "--help"):
        return ["sweep", _RUN, *arguments[1:]]
    return arguments


def _run(options: argparse.Namespace) -> int:
    from spaql.sweeps.performing import sweep

    try:
        tally = sweep(
            options.study,
            options.out,
            **engine_of(options),
            retry_failed=options.retry_failed,
            progress_bar=not options.quiet,
        )
    except KeyboardInterrupt:
        say(f"stopped; finished runs are kept in {options.out}, and the same command goes on from there")
        return 130
    if options.json:
        print(json.dumps({"total": tally.total, "done": tally.done, "failed": tally.failed, "folder": options.out}))
    else:
        print(f"{tally.done:,} of {tally.total:,} runs are done; see spaql sweep table {options.out}")
    if tally.failed:
        say(
            f"{tally.failed:,} runs failed; spaql sweep status {options.out} says why, and the same command with "
            "--retry-failed tries them again"
        )
    return 0 if tally.complete else 1
