"""Commands for study files: `sweep`, with the commands that read its folder, and `tune`."""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from dataclasses import asdict
from pathlib import Path
from typing import Any

from spaql.cli.options import Parser, add_engine, engine_of, say

_COMMANDS = ("run", "status", "table", "plot", "export", "watch", "report")


def add(commands: Any) -> None:
    """Add `sweep` and `tune`."""
    sweep = commands.add_parser(
        "sweep",
        help="run a study of many runs from a study file; its table, figures and page",
        epilog="spaql sweep STUDY.toml --out DIR runs a study, or resumes it; the other commands read DIR.",
    )
    subcommands = sweep.add_subparsers(dest="verb", required=True, metavar="command", parser_class=Parser)
    run = subcommands.add_parser("run", help="run what is missing of a study; the default", prog="spaql sweep")
    _add_study(run, _sweep, "study to run; see docs/sweeps.md")
    _add_readers(subcommands)
    tune = commands.add_parser(
        "tune",
        help="search for good parameters of an algorithm, and evaluate them on other seeds",
        epilog="The same command resumes a tuning; needs pip install 'spaql[tune]'.",
    )
    _add_study(tune, _tune, "parameters to tune; see docs/tuning.md")
    tune.add_argument("--trials", type=int, metavar="N", help="trials besides the defaults (as in the study)")


def _add_study(parser: argparse.ArgumentParser, run: Any, help: str) -> None:
    parser.add_argument("study", metavar="STUDY.toml", help=help)
    parser.add_argument("--out", required=True, metavar="DIR", help="folder of runs and results")
    add_engine(parser)
    parser.add_argument("--retry-failed", action="store_true", help="perform failed runs again")
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.set_defaults(run=run)


def _add_readers(subcommands: Any) -> None:
    """Add the commands that read a folder, at any moment."""

    def add_reader(name: str, run: Any, help: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = subcommands.add_parser(name, help=help)
        parser.add_argument("folder", metavar="DIR", help="the folder of a study")
        parser.set_defaults(run=run)
        return parser

    status = add_reader("status", _status, "progress: finished, failed and running runs, time left")
    status.add_argument("--failures", type=int, metavar="N", help="number of last failures to print (5)")
    status.add_argument("--json", action="store_true", help="print JSON instead of text")
    table = add_reader("table", _table, "means, intervals, differences to a baseline, regret")
    table.add_argument("--format", choices=("text", "markdown", "csv", "latex", "json"), help="default: text")
    table.add_argument("--json", action="store_true", help="the same as --format json")
    table.add_argument("--out", metavar="FILE", help="write to a file instead of stdout")
    plot = add_reader("plot", _plot, "learning curves or means, and scores over a parameter, as PNG and SVG")
    plot.add_argument("--out", metavar="FILE", help="a file that ends in .png or .svg (DIR/figures, both)")
    export = add_reader("export", _export, "all runs in one file, one row each")
    export.add_argument("--to", choices=("csv", "parquet"), default="csv", help="format of the file (%(default)s)")
    export.add_argument("--out", metavar="FILE", help="the file (DIR/runs.csv or DIR/runs.parquet)")
    watch = add_reader("watch", _watch, "status and table in the terminal while the study runs anywhere")
    watch.add_argument("--every", type=float, default=2.0, metavar="SECONDS", help="between two views (%(default)s)")
    watch.add_argument("--once", action="store_true", help="show one view only")
    report = add_reader("report", _report, "a page with table, charts and failures")
    report.add_argument("--out", metavar="FILE", help="the file (DIR/report.html)")
    for parser in (table, plot, watch, report):
        parser.add_argument(
            "--metric", default="evaluation", metavar="NAME", help="any number that runs record (%(default)s)"
        )
    for parser in (table, plot, report):
        parser.add_argument("--baseline", metavar="LABEL", help="the algorithm to compare with (that of the study)")
    for parser in (plot, export, report):
        parser.add_argument("--json", action="store_true", help="print the names of the files as JSON")


def reword(arguments: list[str]) -> list[str]:
    """Turn `sweep STUDY.toml` into `sweep run STUDY.toml`."""
    if arguments[:1] == ["sweep"] and len(arguments) > 1 and arguments[1] not in (*_COMMANDS, "-h", "--help"):
        return ["sweep", "run", *arguments[1:]]
    return arguments


def _options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options that `sweep` and `tune` share, as the functions take them."""
    return {**engine_of(options), "retry_failed": options.retry_failed, "progress_bar": not options.quiet}


def _sweep(options: argparse.Namespace) -> int:
    from spaql.studies.sweep.sweep_study import sweep

    try:
        tally = sweep(options.study, options.out, **_options(options))
    except KeyboardInterrupt:
        say(f"stopped; finished runs are kept in {options.out}; run the same command again to resume")
        return 130
    if options.json:
        print(json.dumps({"total": tally.total, "done": tally.done, "failed": tally.failed, "folder": options.out}))
    else:
        if tally.done:
            print(f"{_format_table(options.out)}\n")
        print(f"{tally.done:,} of {tally.total:,} runs finished; see spaql sweep table {options.out}")
    if tally.failed:
        _say_failed(f"{tally.failed:,} {'runs' if tally.failed > 1 else 'run'} failed", options.out)
    return 0 if tally.complete else 1


def _tune(options: argparse.Namespace) -> int:
    from spaql.studies.tune.trials import FAILED
    from spaql.studies.tune.tuner import tune

    try:
        result = tune(options.study, options.out, trials=options.trials, **_options(options))
    except KeyboardInterrupt:
        say(
            f"stopped; finished runs are kept in {options.out}, its report.html shows the finished batches; run the "
            "same command again to resume"
        )
        return 130
    if options.json:
        print(json.dumps({**result.to_dict(), "folder": options.out}))
    else:
        best = ", best.json" if result.winner is not None else ""
        print("\n".join([*result.summary(), f"See report.html, tune.json{best} in {options.out}."]))
        if result.count(FAILED):
            _say_failed("some runs failed", options.out)
    return 0 if result.complete else 1


def _say_failed(what: str, folder: str) -> None:
    say(f"{what}; spaql sweep status {folder} shows why, and the same command with --retry-failed performs them again")


def _format_table(folder: str, form: str = "text", metric: str = "evaluation", baseline: str | None = None) -> str:
    from spaql.studies.sweep.comparison_table import compare
    from spaql.studies.sweep.group_values import read_values

    comparison = compare(read_values(folder, metric), baseline=baseline)
    text = comparison.format(form)
    return f"{text}\n{textwrap.fill(comparison.note, 120)}\n" if form == "text" else text


def _status(options: argparse.Namespace) -> int:
    from spaql.studies.sweep.status import FAILURES, read_status
    from spaql.validation import check_whole

    number = FAILURES if options.failures is None else check_whole(options.failures, "--failures", 0)
    status = read_status(options.folder, number)
    print(json.dumps(asdict(status), indent=1) if options.json else "\n".join(status.lines()))
    return 0


def _table(options: argparse.Namespace) -> int:
    from spaql.errors import ParameterError

    if options.json and options.format not in (None, "json"):
        raise ParameterError(f"--json: it contradicts --format {options.format}; give one of the two")
    form = "json" if options.json else options.format or "text"
    text = _format_table(options.folder, form, options.metric, options.baseline)
    if options.out is None:
        print(text, end="")
        return 0
    from spaql.atomic_io import write_file

    write_file(Path(options.out), text.encode())
    print(f"wrote {options.out}")
    return 0


def _plot(options: argparse.Namespace) -> int:
    from spaql.studies.sweep.group_values import read_values
    from spaql.studies.sweep.sweep_report import write_figures

    study = read_values(options.folder, options.metric)
    return _print_files(options, *write_figures(study, options.out, options.baseline))


def _export(options: argparse.Namespace) -> int:
    from spaql.studies.sweep.dataset import export_runs

    return _print_files(options, export_runs(options.folder, options.to, options.out))


def _report(options: argparse.Namespace) -> int:
    from spaql.studies.sweep.sweep_report import write_report

    path = write_report(options.folder, options.out, metric=options.metric, baseline=options.baseline)
    return _print_files(options, path)


def _watch(options: argparse.Namespace) -> int:
    from spaql.studies.sweep import terminal
    from spaql.validation import check_number

    check_number(options.every, "--every", least=0.0, above=True)
    try:
        terminal.watch(options.folder, sys.stdout, every=options.every, once=options.once, metric=options.metric)
    except KeyboardInterrupt:
        print()
    return 0


def _print_files(options: argparse.Namespace, *paths: Path) -> int:
    names = [str(path) for path in paths]
    print(json.dumps({"files": names}) if options.json else "\n".join(f"wrote {name}" for name in names))
    return 0
