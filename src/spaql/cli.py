"""The command line: parses strings, prints; no arithmetic.

Results go to stdout, progress and messages to stderr.  Exit code 0 on success, 2 with one sentence on bad input, 130
after Ctrl-C.  Everything heavy is imported inside the commands, so that `--help` answers at once.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
import textwrap
from collections.abc import Sequence
from typing import Any, NoReturn

from spaql._version import __version__
from spaql.errors import ParameterError, SpaqlError

_ALGORITHMS = ("spaql", "spaql-published", "aql", "random", "no-movement", "mean", "median")
_TUNABLE = dict.fromkeys(("spaql-published", "aql"), ("scaling", "rollouts"))


class _Parser(argparse.ArgumentParser):
    """Bad usage is one sentence, not a page."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="spaql", description="Reinforcement learning with a policy you can read.")
    parser.add_argument("--version", action="version", version=f"spaql {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command", parser_class=_Parser)
    _add_train(commands)
    demo = commands.add_parser("demo", help="train SPAQL, AQL and Random on oil discovery; a table and two pictures")
    demo.add_argument("--out", default="results/demo", metavar="DIR", help="where the pictures go (%(default)s)")
    demo.add_argument("--iterations", type=int, default=5000, help="training iterations of each agent (%(default)s)")
    _add_common(demo)
    demo.set_defaults(run=_demo)
    _add_paper(commands)
    _add_beyond(commands)
    bench = commands.add_parser("bench", help="measure speed, as ratios in one run")
    bench.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    bench.add_argument("--quiet", action="store_true", help="no progress on stderr")
    bench.set_defaults(run=_bench)
    return parser


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, default=0, help="fixes everything random (%(default)s)")
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def _add_train(commands: Any) -> None:
    train = commands.add_parser("train", help="train one agent on one problem")
    problems = train.add_subparsers(dest="problem", required=True, metavar="problem", parser_class=_Parser)
    oil = problems.add_parser("oil", help="oil discovery: survey a line for a hidden deposit")
    oil.add_argument(
        "--survey", choices=("laplace", "quadratic"), default="laplace", help="survey function (%(default)s)"
    )
    oil.add_argument(
        "--sharpness", type=float, default=10.0, help="lambda: how fast the survey falls off (%(default)s)"
    )
    oil.add_argument("--deposit", type=float, help="where the oil is (0.7 + pi/60)")
    oil.add_argument("--start", type=float, default=0.0, help="where an episode starts (%(default)s)")
    ambulance = problems.add_parser("ambulance", help="ambulance relocation: wait where the next call is likely")
    ambulance.add_argument("--arrivals", choices=("uniform", "beta"), default="beta", help="law of calls (%(default)s)")
    ambulance.add_argument("--cost", type=float, default=0.25, help="c: weight of relocating (%(default)s)")
    ambulance.add_argument("--shape", type=float, nargs=2, metavar=("A", "B"), help="of the Beta law (5 2)")
    ambulance.add_argument("--start", type=float, default=0.5, help="where an episode starts (%(default)s)")
    for parser, iterations in ((oil, 5000), (ambulance, 2000)):
        parser.add_argument("--horizon", type=int, default=5, help="H: steps of an episode (%(default)s)")
        parser.add_argument("--algorithm", choices=_ALGORITHMS, default="spaql", help="(%(default)s)")
        parser.add_argument("--iterations", type=int, default=iterations, help="K: training iterations (%(default)s)")
        parser.add_argument("--scaling", type=float, help="xi of the published agents: weight of the bonus (0.5)")
        parser.add_argument("--rollouts", type=int, help="N of the published agents: rollouts per iteration (20)")
        parser.add_argument("--episodes", type=int, default=10_000, help="fresh episodes that score it (%(default)s)")
        parser.add_argument("--out", metavar="DIR", help="write summary, history, cells and pictures there")
        _add_common(parser)
        parser.set_defaults(run=_train)


def _add_paper(commands: Any) -> None:
    paper = commands.add_parser("paper", help="the whole study of the SPAQL paper: tables, figures, report, findings")
    paper.add_argument(
        "--out", metavar="DIR", help="where everything goes (results/paper; results/paper-part for less than all of it)"
    )
    paper.add_argument(
        "--quick", action="store_true", help="a reduced study: 5 agents (oil), 10 (ambulance), four scalings"
    )
    paper.add_argument(
        "--problems",
        nargs="+",
        metavar="ID",
        help="only these, such as oil-laplace-10, or all that begin so: oil (all)",
    )
    paper.add_argument("--agents", type=int, metavar="N", help="agents per scaling (25 oil, 50 ambulance)")
    paper.add_argument("--threads", type=int, metavar="N", help="runs at once (one per processor)")
    _add_common(paper)
    paper.set_defaults(run=_paper)


def _add_beyond(commands: Any) -> None:
    ablation = commands.add_parser(
        "ablation", help="what each mechanism of SPAQL is worth, beside the published agents"
    )
    ablation.set_defaults(run=_ablation)
    families = commands.add_parser("families", help="SPAQL on random problems that it was not tuned on")
    families.add_argument(
        "--constants", action="store_true", help="instead, on the first family: each constant made smaller and larger"
    )
    families.set_defaults(run=_families)
    for parser in (ablation, families):
        parser.add_argument("--out", metavar="DIR", help="where runs, tables and figures go (results/..., by its name)")
        parser.add_argument("--quick", action="store_true", help="a reduced study")
        parser.add_argument("--threads", type=int, metavar="N", help="runs at once (one per processor)")
        _add_common(parser)


def _problem(options: argparse.Namespace) -> Any:
    from spaql import problems

    names = {"oil": ("survey", "sharpness", "deposit"), "ambulance": ("arrivals", "cost", "shape")}[options.problem]
    given = {name: getattr(options, name) for name in (*names, "start", "horizon")}
    make = problems.oil if options.problem == "oil" else problems.ambulance
    return make(**{name: value for name, value in given.items() if value is not None})


def _agent(options: argparse.Namespace) -> Any:
    from spaql.agents import ALGORITHMS

    given = {name: getattr(options, name) for name in ("scaling", "rollouts")}
    given = {name: value for name, value in given.items() if value is not None}
    foreign = [name for name in given if name not in _TUNABLE.get(options.algorithm, ())]
    if foreign:
        raise ParameterError(f"--{foreign[0]}: {options.algorithm} has no such parameter; leave it out")
    return ALGORITHMS[options.algorithm](_problem(options), seed=options.seed, **given)


def _train(options: argparse.Namespace) -> int:
    from spaql import output, results
    from spaql.spaces import check_whole

    check_whole(options.iterations, "--iterations", 1)
    check_whole(options.episodes, "--episodes", 2)
    agent = _agent(options)
    folder = output.check_folder(options.out) if options.out is not None else None
    if not options.quiet:
        for found in agent.diagnose(iterations=options.iterations):
            _say(f"before training: {found}")
    stopped = False
    try:
        result = results.run(
            options.algorithm,
            agent,
            iterations=options.iterations,
            episodes=options.episodes,
            progress_bar=not options.quiet,
        )
    except KeyboardInterrupt:
        stopped = True
        if not agent.iterations:
            raise
        _say(f"stopped after {agent.iterations:,} of {options.iterations:,} iterations; scoring what was learned")
        result = results.judge(options.algorithm, agent, seconds=None, episodes=options.episodes)
    written = [] if folder is None else output.write(folder, results.files_of(result), results.FILES)
    if options.json:
        print(json.dumps(result.to_dict() | {"files": [str(path) for path in written]}, indent=2, allow_nan=False))
    else:
        print(f"{agent.problem.name}, H={agent.problem.horizon}, {agent.iterations:,} iterations, seed {agent.seed}\n")
        print(results.table([result]))
        for said in [str(found) for found in result.diagnosis] or ["nothing found"]:
            print(f"diagnosis: {said}")
        for path in written:
            print(f"wrote {path}")
    return 130 if stopped else 0


def _demo(options: argparse.Namespace) -> int:
    from spaql import demo
    from spaql.results import table
    from spaql.spaces import check_whole

    check_whole(options.iterations, "--iterations", 1)
    results, written = demo.demonstrate(
        options.out, iterations=options.iterations, seed=options.seed, progress_bar=not options.quiet
    )
    if options.json:
        files = [str(path) for path in written]
        print(
            json.dumps({"results": [result.to_dict() for result in results], "files": files}, indent=2, allow_nan=False)
        )
        return 0
    problem = results[0].agent.problem
    print(f"{problem.name}, H={problem.horizon}, {options.iterations:,} iterations, seed {options.seed}\n")
    print(table(results))
    print(
        "\nfresh score: mean return of the returned policy over new episodes.  own score: what the agent saw of\n"
        "itself in rollouts; AQL only watched by them, SPAQL plays none."
    )
    for path in written:
        print(f"wrote {path}")
    return 0


def _paper(options: argparse.Namespace) -> int:
    from spaql.paper import plan, tables
    from spaql.paper.reproduce import reproduce
    from spaql.spaces import check_whole

    _check_study(options)
    if options.agents is not None:
        check_whole(options.agents, "--agents", 2, 10_000)
    settings = plan.choose_settings(options.problems)
    chosen = (plan.quick if options.quick else plan.full)(settings, options.agents, options.seed)
    if options.out is None:  # a part must not take the place of the whole
        part = options.quick or options.problems or options.agents is not None or options.seed
        options.out = "results/paper-part" if part else "results/paper"
    try:
        outcome = reproduce(options.out, chosen, threads=options.threads, progress_bar=not options.quiet)
    except KeyboardInterrupt:
        return _stopped(options)
    if options.json:
        print(json.dumps(outcome.rows(), indent=2, allow_nan=False))
        return 0
    print(tables.plain(outcome.cells))
    for finding in outcome.findings:
        print(f"\n{finding.title}: {finding.number}\n{textwrap.fill(finding.sentence, 120)}")
    print(f"\n{outcome.cost}")
    print(
        f"wrote {len(outcome.files)} files to {options.out} after {outcome.seconds:.0f} s in all; "
        f"open {os.path.join(options.out, 'report.html')}"
    )
    return 0


def _ablation(options: argparse.Namespace) -> int:
    from spaql.beyond.ablation import FULL, QUICK, ablate

    return _beyond(options, "ablation", ablate, QUICK if options.quick else FULL)


def _families(options: argparse.Namespace) -> int:
    from spaql.beyond import families

    if options.constants:
        return _beyond(options, "constants", families.vary, families.QUICK if options.quick else families.MORE)
    return _beyond(options, "families", families.report, families.QUICK if options.quick else families.FULL)


def _beyond(options: argparse.Namespace, name: str, perform: Any, size: Any) -> int:
    """A study with its own folder: `perform` does it, and its outcome can say itself."""
    _check_study(options)
    if options.out is None:  # a part must not take the place of the whole
        options.out = f"results/{name}" + ("-part" if options.quick or options.seed else "")
    try:
        outcome = perform(
            options.out, size=size, seed=options.seed, threads=options.threads, progress_bar=not options.quiet
        )
    except KeyboardInterrupt:
        return _stopped(options)
    if options.json:
        print(json.dumps(outcome.to_dict(), indent=2, allow_nan=False))
        return 0
    print(f"{outcome.plain()}\n\n{textwrap.fill(outcome.note, 120)}\n\n{outcome.cost}")
    for path in outcome.files:
        print(f"wrote {path}")
    return 0


def _check_study(options: argparse.Namespace) -> None:
    from spaql.rng import LARGEST_SEED
    from spaql.spaces import check_whole

    check_whole(options.seed, "--seed", 0, LARGEST_SEED)
    if options.threads is not None:
        check_whole(options.threads, "--threads", 1, 1024)


def _stopped(options: argparse.Namespace) -> int:
    _say(f"stopped; finished runs are kept in {options.out}, and the same command goes on from there")
    return 130


def _bench(options: argparse.Namespace) -> int:
    from spaql import bench

    figures = bench.measure(progress_bar=not options.quiet)
    print(json.dumps(figures, indent=2, allow_nan=False) if options.json else bench.text(figures))
    return 0


def _say(sentence: str) -> None:
    print(f"spaql: {sentence}", file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that cannot show a letter shows a question mark
            stream.reconfigure(errors="replace")
    options = _parser().parse_args(arguments)
    try:
        code = int(options.run(options))
        sys.stdout.flush()
        return code
    except SpaqlError as error:
        _say(str(error))
        return 2
    except MemoryError:
        _say("not enough memory; ask for fewer rollouts, a shorter horizon or fewer dimensions")
        return 2
    except KeyboardInterrupt:
        _say("stopped")
        return 130
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _say(f"the output cannot be written: {error.strerror}")
        return 2


if __name__ == "__main__":
    raise SystemExit(main())
