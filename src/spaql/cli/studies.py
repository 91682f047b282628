"""The studies of the package: `demo`, `paper`, `ablation`, `families` and `control`."""

from __future__ import annotations

import argparse
import importlib.util
import os
import textwrap
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from spaql.cli.options import add_common, add_engine, engine_of, print_files, print_json, say
from spaql.errors import ParameterError

if TYPE_CHECKING:
    from spaql.studies.study import Study


def add(commands: Any) -> None:
    """Add the commands."""
    demo = commands.add_parser("demo", help="train Tessera, AQL and Random on oil discovery; a table and two figures")
    demo.add_argument("--out", default="results/demo", metavar="DIR", help="folder of the figures (%(default)s)")
    demo.add_argument("--iterations", type=int, default=5000, help="training iterations of each agent (%(default)s)")
    add_common(demo)
    demo.set_defaults(run=_demo)
    paper = _add_study(commands, "paper", _paper, "the whole study of the SPAQL paper: tables, figures, findings")
    paper.add_argument(
        "--problems", nargs="+", metavar="ID", help="only these, such as oil-laplace-10, or by prefix: oil (all)"
    )
    paper.add_argument("--agents", type=int, metavar="N", help="agents per scaling (25 oil, 50 ambulance)")
    add_engine(paper)
    _add_study(commands, "ablation", _ablation, "Tessera without each of its mechanisms, beside SPAQL and AQL")
    families = _add_study(commands, "families", _families, "Tessera on random problems that it was not tuned on")
    families.add_argument(
        "--constants", action="store_true", help="instead, on the first family: each constant made smaller and larger"
    )
    control = _add_study(commands, "control", _control, "Tessera, SPAQL, SPAQL-TS and AQL on classic control")
    control.add_argument(
        "--with-sb3", action="store_true", help="run DQN, PPO and SAC of Stable-Baselines3 beside them (hours)"
    )
    control.add_argument("--sb3-seeds", type=int, default=3, metavar="N", help="agents of each of these (%(default)s)")


def _add_study(commands: Any, name: str, run: Any, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text)
    out = f"folder of runs, tables and figures (results/{name}; results/{name}-part for less than all of it)"
    parser.add_argument("--out", metavar="DIR", help=out)
    parser.add_argument("--quick", action="store_true", help="a reduced study")
    parser.add_argument("--threads", type=int, metavar="N", help="runs at once (one per processor)")
    add_common(parser)
    parser.set_defaults(run=run)
    return parser


def _demo(options: argparse.Namespace) -> int:
    from spaql.runner.summary import summary_table
    from spaql.studies.demo import demonstrate
    from spaql.validation import check_whole

    check_whole(options.iterations, "--iterations", 1)
    results, written = demonstrate(
        options.out, iterations=options.iterations, seed=options.seed, progress_bar=not options.quiet
    )
    if options.json:
        print_json({"results": [each.to_dict() for each in results], "files": [str(path) for path in written]})
        return 0
    problem = results[0].agent.problem
    print(f"{problem.name}, H={problem.horizon}, {options.iterations:,} iterations, seed {options.seed}\n")
    print(summary_table(results).text())
    print(
        "\nevaluation: mean return of the returned policy over new episodes.  training score: its mean return in\n"
        "rollouts during training; AQL only monitors by them, Tessera plays none."
    )
    print_files(written)
    return 0


def _paper(options: argparse.Namespace) -> int:
    from spaql.studies.paper import plan
    from spaql.studies.paper.reproduction import Paper
    from spaql.validation import check_whole

    if options.agents is not None:
        check_whole(options.agents, "--agents", 2, 10_000)
    settings = plan.choose_settings(options.problems)
    size = plan.quick if options.quick else plan.full
    part = bool(options.problems) or options.agents is not None
    return _perform(options, "paper", lambda: Paper(size(settings, options.agents, options.seed)), part=part)


def _ablation(options: argparse.Namespace) -> int:
    from spaql.studies import ablation

    return _perform(options, "ablation", lambda: ablation.Ablation(options.seed, *_size(options, ablation)))


def _families(options: argparse.Namespace) -> int:
    from spaql.studies import families

    name, make = ("constants", families.vary_constants) if options.constants else ("families", families.evaluate_family)
    return _perform(options, name, lambda: make(options.seed, *_size(options, families)))


def _control(options: argparse.Namespace) -> int:
    from spaql.studies import control
    from spaql.validation import check_whole

    size: dict[str, Any] = dict(control.QUICK) if options.quick else {}
    check_whole(options.sb3_seeds, "--sb3-seeds", 2, 10_000)
    if options.with_sb3:
        if importlib.util.find_spec("stable_baselines3") is None:
            raise ParameterError("--with-sb3: Stable-Baselines3 is missing; install it with: pip install 'spaql[sb3]'")
        os.environ["OMP_NUM_THREADS"] = "1"  # for its small networks: more would wait for each other and change results
        size |= {"sb3_agents": options.sb3_seeds}
    return _perform(options, "control", lambda: control.Control(options.seed, **size))


def _size(options: argparse.Namespace, module: Any) -> list[Any]:
    """The argument that makes a study a reduced one."""
    return [module.QUICK] if options.quick else []


def _perform(options: argparse.Namespace, name: str, make: Callable[[], Study], *, part: bool = False) -> int:
    """Perform a study in its folder and print its report; `part` says that the options leave some of it out."""
    from spaql.partition.rng import LARGEST_SEED
    from spaql.studies.study import run_study
    from spaql.validation import check_whole

    check_whole(options.seed, "--seed", 0, LARGEST_SEED)
    if options.threads is not None:
        check_whole(options.threads, "--threads", 1, 1024)
    if options.out is None:  # a part must not replace the whole
        options.out = f"results/{name}" + ("-part" if part or options.quick or options.seed else "")
    engine = _make_engine(options) if hasattr(options, "engine") else None
    try:
        outcome = run_study(make(), options.out, engine=engine, threads=options.threads, progress_bar=not options.quiet)
    except KeyboardInterrupt:
        say(f"stopped; finished runs are kept in {options.out}, and the same command resumes")
        return 130
    report = outcome.report
    assert report is not None
    if options.json:
        print_json(report.data)
        return 0
    print("\n\n".join(filter(None, (report.text(), textwrap.fill(report.note, 120), str(outcome.cost)))))
    page = os.path.join(options.out, "report.html")
    print(f"wrote {len(outcome.files)} files to {options.out} after {outcome.seconds:.0f} s in all; open {page}")
    return 0


def _make_engine(options: argparse.Namespace) -> Any:
    """Return how to make the engine; None for threads, as many as `--threads` says."""
    from spaql.runner import engines

    given = engine_of(options)
    if all(value is None for value in given.values()):
        return None
    if options.threads is not None:
        raise ParameterError("--threads: for runs in threads of this process; use --workers with an engine")
    return partial(engines.make_engine, given.pop("engine"), timeout=given.pop("run_timeout"), **given)
