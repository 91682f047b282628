"""Commands for study files: `sweep`, with the commands that read its folder, and `tune`."""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from spaql.cli.options import Parser, add_engine, add_output, describe, engine_of, say, say_stopped

_READERS = {
    "status": "progress: finished, failed and running runs, time left",
    "table": "means, intervals, differences to a baseline, regret",
    "plot": "learning curves or means, and scores over a parameter, as PNG and SVG",
    "export": "all runs in one file, one row each",
    "watch": "status and table in the terminal while the study runs anywhere",
    "report": "a page with table, charts and failures",
}
_MOST_FAILURES = 10**9  # to print; SQLite counts to 2^63
_FAILURES_READ, _REASONS = 200, 2  # last failures in which reasons are looked for, and reasons that are printed


def add(commands: Any) -> None:
    """Add `sweep` and `tune`."""
    text = "run a study of many runs from a study file; its table, figures and page"
    usage = "spaql sweep STUDY.toml --out DIR [options]\n       spaql sweep COMMAND DIR [options]"
    about = "The first form runs a study, or resumes it; the commands read its folder, at any moment."
    sweep = commands.add_parser("sweep", help=text, usage=usage, description=f"{describe(text)}  {about}")
    named = {"dest": "verb", "required": True, "metavar": "COMMAND", "prog": "spaql sweep"}
    subcommands = sweep.add_subparsers(parser_class=Parser, **named)
    text = "run what is missing of a study; the default"
    run = subcommands.add_parser("run", help=text, description=describe(text), prog="spaql sweep")
    _add_study(run, _sweep, "study to run; see docs/how-to/sweeps.md")
    _add_readers(subcommands)
    text = "search for good parameters of an algorithm, and evaluate them on other seeds"
    usage = "The same command resumes a tuning.  It needs pip install 'spaql[tune]', and writes best.json, which spaql"
    tune = commands.add_parser(
        "tune", help=text, description=describe(text), epilog=f"{usage} train --params takes as it is."
    )
    _add_study(tune, _tune, "parameters to tune; see docs/how-to/tuning.md")
    tune.add_argument("--trials", type=int, metavar="N", help="trials besides the defaults (as in the study)")


def _add_study(parser: argparse.ArgumentParser, run: Any, help: str) -> None:
    parser.add_argument("study", metavar="STUDY.toml", help=help)
    parser.add_argument("--out", required=True, metavar="DIR", help="folder for runs and results")
    add_engine(parser)
    parser.add_argument("--retry-failed", action="store_true", help="perform failed runs again")
    add_output(parser)
    parser.set_defaults(run=run)


def _add_readers(subcommands: Any) -> None:
    """Add the commands that read a folder, at any moment."""
    readers = {
        name: subcommands.add_parser(name, help=text, description=describe(text)) for name, text in _READERS.items()
    }
    for parser in readers.values():
        parser.add_argument("folder", metavar="DIR", help="folder of spaql sweep --out, or of another study")
        parser.set_defaults(run=_read)
    status, table, plot, export, watch, report = readers.values()
    status.add_argument("--failures", type=int, metavar="N", help="number of last failures to print (5)")
    status.add_argument("--tracebacks", action="store_true", help="print the tracebacks of these failures too")
    status.add_argument("--json", action="store_true", help="print JSON instead of text")
    status.set_defaults(run=_status)
    table.add_argument("--format", choices=("text", "markdown", "csv", "latex", "json"), help="of the table (text)")
    table.add_argument("--json", action="store_true", help="the same as --format json")
    export.add_argument("--to", choices=("csv", "parquet"), default="csv", help="format of the file (%(default)s)")
    watch.add_argument("--every", type=float, default=2.0, metavar="SECONDS", help="between two views (%(default)s)")
    watch.add_argument("--once", action="store_true", help="show one view only")
    for parser, text in (
        (table, "write to a file instead of stdout"),
        (plot, "a file that ends in .png or .svg (DIR/figures, both)"),
        (export, "the file (DIR/runs.csv or DIR/runs.parquet)"),
        (report, "the file (DIR/report.html)"),
    ):
        parser.add_argument("--out", metavar="FILE", help=text)
    text = "any number that runs record, or regret (%(default)s)"
    for parser in (table, plot, watch, report):
        parser.add_argument("--metric", default="evaluation", metavar="NAME", help=text)
    for parser in (table, plot, report):
        parser.add_argument("--baseline", metavar="LABEL", help="the algorithm to compare with (that of the study)")
    for parser in (plot, export, report):
        parser.add_argument("--json", action="store_true", help="print the names of the files as JSON")


def reword(arguments: list[str]) -> list[str]:
    """Turn `sweep STUDY.toml` into `sweep run STUDY.toml`."""
    if arguments[:1] == ["sweep"] and len(arguments) > 1 and arguments[1] not in (*_READERS, "run", "-h", "--help"):
        return ["sweep", "run", *arguments[1:]]
    return arguments


def _perform(function: Any, options: argparse.Namespace, **more: Any) -> Any:
    """Call `spaql.sweep` or `spaql.tune`; after Ctrl-C or SIGTERM, which keep finished runs, return the exit code."""
    settings = {"retry_failed": options.retry_failed, "progress_bar": not options.quiet, **engine_of(options), **more}
    try:
        return function(options.study, options.out, **settings)
    except KeyboardInterrupt as error:
        return say_stopped(error, options.out)


def _sweep(options: argparse.Namespace) -> int:
    from spaql.studies.sweep.comparison_table import compare
    from spaql.studies.sweep.group_values import read_values
    from spaql.studies.sweep.sweep_study import sweep

    tally = _perform(sweep, options)
    if isinstance(tally, int):
        return tally
    if options.json:
        print(json.dumps({**asdict(tally), "folder": options.out}))
    else:
        if tally.done:
            print(compare(read_values(options.out)).format())
        page = f"; spaql sweep report {options.out} makes a page of them" if tally.done else ""
        print(f"{tally.done:,} of {tally.total:,} runs finished{page}")
    if tally.failed:
        _say_failed(f"{tally.failed:,} {'runs' if tally.failed > 1 else 'run'} failed", options.out)
    return 0 if tally.complete else 1


def _tune(options: argparse.Namespace) -> int:
    from spaql.studies.tune.tuner import tune
    from spaql.studies.tune.tuning_result import FAILED

    result = _perform(tune, options, trials=options.trials)
    if isinstance(result, int):
        return result
    if options.json:
        print(json.dumps({**result.to_dict(), "folder": options.out}))
    else:
        best = ", best.json" if result.winner is not None else ""
        print("\n".join([*result.summary(), f"See report.html, tune.json{best} in {options.out}."]))
        if result.count(FAILED):
            _say_failed("some runs failed", options.out)
    return 0 if result.complete else 1


def _say_failed(what: str, folder: str) -> None:
    from spaql.studies.sweep.status import read_status

    reasons = dict.fromkeys(run["message"] for run in read_status(folder, _FAILURES_READ).failures)
    said = " | ".join(list(reasons)[:_REASONS]) + (f" | and {len(reasons) - _REASONS} more" * (len(reasons) > _REASONS))
    say(f"{what}: {said}; spaql sweep status {folder} lists them, the same command with --retry-failed repeats them")


def _status(options: argparse.Namespace) -> None:
    from spaql.studies.sweep.status import FAILURES, read_status
    from spaql.validation import check_whole

    number = FAILURES if options.failures is None else check_whole(options.failures, "--failures", 0, _MOST_FAILURES)
    status = read_status(options.folder, number)
    print(json.dumps(asdict(status), indent=1) if options.json else "\n".join(status.lines(options.tracebacks)))


def _read(options: argparse.Namespace) -> None:
    """Perform another command that reads a folder."""
    from spaql.atomic_io import write_file
    from spaql.errors import ParameterError
    from spaql.studies.sweep import dataset, sweep_report
    from spaql.studies.sweep.comparison_table import compare
    from spaql.studies.sweep.regret import read_metric
    from spaql.validation import check_number

    folder, files = options.folder, []
    if options.verb == "watch":
        check_number(options.every, "--every", least=0.0, above=True)
        try:
            sweep_report.watch(folder, sys.stdout, every=options.every, once=options.once, metric=options.metric)
        except KeyboardInterrupt:
            print()
    elif options.verb == "table":
        if options.json and options.format not in (None, "json"):
            raise ParameterError(f"--json: it contradicts --format {options.format}; give one of the two")
        comparison = compare(read_metric(folder, options.metric), baseline=options.baseline)
        text = comparison.format("json" if options.json else options.format or "text")
        if options.out is None:
            print(text, end="")
        else:
            write_file(Path(options.out), text)
            print(f"wrote {options.out}")
    elif options.verb == "plot":
        files = sweep_report.write_figures(read_metric(folder, options.metric), options.out, options.baseline)
    elif options.verb == "export":
        files = [dataset.export_runs(folder, options.to, options.out)]
    else:
        files = [sweep_report.write_report(folder, options.out, metric=options.metric, baseline=options.baseline)]
    if files:
        names = list(map(str, files))
        print(json.dumps({"files": names}) if options.json else "\n".join(f"wrote {name}" for name in names))
