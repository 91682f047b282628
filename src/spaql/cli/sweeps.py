"""Commands for studies of one's own: `sweep`, and what it says of its folder."""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spaql.cli.parsing import Parser, add_engine, engine_of, say

_RUN = "run"
_VERBS = (_RUN, "status", "table", "plot", "export", "watch", "report")


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
    _add_telling(verbs)


def _add_telling(verbs: Any) -> None:
    """What tells of a folder, at any moment."""

    def verb(name: str, run: Any, help: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = verbs.add_parser(name, help=help)
        parser.add_argument("folder", metavar="DIR", help="the folder of a study")
        parser.set_defaults(run=run)
        return parser

    status = verb("status", _status, "how far it is: done, failed, running, how long it will take")
    status.add_argument("--failures", type=int, metavar="N", help="how many of the last failures to tell (5)")
    status.add_argument("--json", action="store_true", help="print JSON instead of sentences")
    table = verb("table", _table, "means, intervals, differences to a baseline, regret")
    table.add_argument(
        "--format", choices=("text", "markdown", "csv", "latex", "json"), help="text unless said otherwise"
    )
    table.add_argument("--json", action="store_true", help="the same as --format json")
    table.add_argument("--out", metavar="FILE", help="write it there instead of printing it")
    plot = verb("plot", _plot, "learning curves or means, and scores against a parameter, as PNG and SVG")
    plot.add_argument("--out", metavar="FILE", help="a file that ends in .png or .svg (DIR/figures, both)")
    export = verb("export", _export, "all runs as one file, a row each")
    export.add_argument("--to", choices=("csv", "parquet"), default="csv", help="what kind of file (%(default)s)")
    export.add_argument("--out", metavar="FILE", help="where to (DIR/runs.csv or DIR/runs.parquet)")
    watch = verb("watch", _watch, "a table in the terminal while it runs anywhere")
    watch.add_argument("--every", type=float, default=2.0, metavar="SECONDS", help="between two views (%(default)s)")
    watch.add_argument("--once", action="store_true", help="show one view and end")
    report = verb("report", _report, "a page of what is done: table, charts, failures")
    report.add_argument("--out", metavar="FILE", help="where to (DIR/report.html)")
    for parser in (table, plot, watch, report):
        parser.add_argument(
            "--metric", default="evaluation", metavar="NAME", help="any number that runs leave (%(default)s)"
        )
    for parser in (table, plot, report):
        parser.add_argument("--baseline", metavar="LABEL", help="the algorithm to compare with (the study's)")
    for parser in (plot, export, report):
        parser.add_argument("--json", action="store_true", help="print the names of the files as JSON")


def reworded(arguments: list[str]) -> list[str]:
    """`sweep STUDY.toml` as `sweep run STUDY.toml`."""
    if arguments[:1] == ["sweep"] and len(arguments) > 1 and arguments[1] not in (*_VERBS, "-h", "--help"):
        return ["sweep", _RUN, *arguments[1:]]
    return arguments


def _run(options: argparse.Namespace) -> int:
    from spaql.studies.sweep.performing import sweep

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
        if tally.done:
            _print_table(options.out)
        print(f"{tally.done:,} of {tally.total:,} runs are done; see spaql sweep table {options.out}")
    if tally.failed:
        say(
            f"{tally.failed:,} {'runs' if tally.failed > 1 else 'run'} failed; spaql sweep status {options.out} says "
            "why, and the same command with --retry-failed tries them again"
        )
    return 0 if tally.complete else 1


def _print_table(folder: str) -> None:
    from spaql.studies.sweep.gathered import gather
    from spaql.studies.sweep.table import tabulate

    table = tabulate(gather(folder))
    print(f"{table.written()}\n{textwrap.fill(table.note, 120)}\n")


def _status(options: argparse.Namespace) -> int:
    from spaql.studies.sweep.status import FEW, status
    from spaql.validation import check_whole

    most = FEW if options.failures is None else check_whole(options.failures, "--failures", 0)
    now = status(options.folder, most)
    print(json.dumps(now.to_dict(), indent=1) if options.json else now.told)
    return 0


def _table(options: argparse.Namespace) -> int:
    from spaql.errors import ParameterError
    from spaql.studies.sweep.gathered import gather
    from spaql.studies.sweep.table import tabulate

    if options.json and options.format not in (None, "json"):
        raise ParameterError(f"--json: it is not {options.format}; say one of the two")
    form = "json" if options.json else options.format or "text"
    table = tabulate(gather(options.folder, options.metric), baseline=options.baseline)
    text = table.written(form)
    if form == "text":
        text += f"\n{textwrap.fill(table.note, 120)}\n"
    if options.out is None:
        print(text, end="")
        return 0
    from spaql.atomic_io import write_file

    write_file(Path(options.out), text.encode())
    print(f"wrote {options.out}")
    return 0


def _plot(options: argparse.Namespace) -> int:
    from spaql.studies.sweep.gathered import gather
    from spaql.studies.sweep.pictures import draw

    gathered = gather(options.folder, options.metric)
    return _wrote(options, draw(gathered, options.out, options.baseline))


def _export(options: argparse.Namespace) -> int:
    from spaql.studies.sweep.exporting import export

    return _wrote(options, [export(options.folder, options.to, options.out)])


def _report(options: argparse.Namespace) -> int:
    from spaql.studies.sweep.page import write_report

    path = write_report(options.folder, options.out, metric=options.metric, baseline=options.baseline)
    return _wrote(options, [path])


def _watch(options: argparse.Namespace) -> int:
    from spaql.studies.sweep.watching import watch
    from spaql.validation import check_number

    check_number(options.every, "--every", least=0.0, above=True)
    try:
        watch(options.folder, sys.stdout, every=options.every, once=options.once, metric=options.metric)
    except KeyboardInterrupt:
        print()
    return 0


def _wrote(options: argparse.Namespace, paths: Sequence[Path]) -> int:
    """Say which files were written."""
    if options.json:
        print(json.dumps({"files": [str(path) for path in paths]}))
    else:
        print("\n".join(f"wrote {path}" for path in paths))
    return 0
