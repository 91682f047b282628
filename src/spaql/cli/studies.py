"""Commands that train many agents: the demonstration, the study of the paper, and those past it."""

from __future__ import annotations

import argparse
import json
import os
import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from spaql.cli.options import add_common, add_engine, engine_of, say
from spaql.errors import ParameterError

if TYPE_CHECKING:
    from spaql.studies.study import Study


def add(commands: Any) -> None:
    """Add `demo`, `paper`, `ablation`, `families` and `control`."""
    demo = commands.add_parser("demo", help="train SPAQL, AQL and Random on oil discovery; a table and two pictures")
    demo.add_argument("--out", default="results/demo", metavar="DIR", help="where the pictures go (%(default)s)")
    demo.add_argument("--iterations", type=int, default=5000, help="training iterations of each agent (%(default)s)")
    add_common(demo)
    demo.set_defaults(run=_demo)
    _add_paper(commands)
    _add_studies(commands)


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
    add_engine(paper)
    add_common(paper)
    paper.set_defaults(run=_paper)


def _add_studies(commands: Any) -> None:
    ablation = commands.add_parser("ablation", help="Tessera without each of its mechanisms, beside SPAQL and AQL")
    ablation.set_defaults(run=_ablation)
    families = commands.add_parser("families", help="Tessera on random problems that it was not tuned on")
    families.add_argument(
        "--constants", action="store_true", help="instead, on the first family: each constant made smaller and larger"
    )
    families.set_defaults(run=_families)
    control = commands.add_parser("control", help="Tessera, SPAQL, SPAQL-TS and AQL on classic control")
    control.add_argument(
        "--with-sb3", action="store_true", help="run DQN, PPO and SAC of Stable-Baselines3 beside them (hours)"
    )
    control.add_argument("--sb3-seeds", type=int, default=3, metavar="N", help="agents of each of these (%(default)s)")
    control.set_defaults(run=_control)
    for parser in (ablation, families, control):
        parser.add_argument("--out", metavar="DIR", help="where runs, tables and figures go (results/..., by its name)")
        parser.add_argument("--quick", action="store_true", help="a reduced study")
        parser.add_argument("--threads", type=int, metavar="N", help="runs at once (one per processor)")
        add_common(parser)


def _demo(options: argparse.Namespace) -> int:
    from spaql.runner.summary import summary_table
    from spaql.studies import demo
    from spaql.validation import check_whole

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
    print(summary_table(results).text())
    print(
        "\nfresh score: mean return of the returned policy over new episodes.  own score: what the agent saw of\n"
        "itself in rollouts; AQL only watched by them, SPAQL plays none."
    )
    for path in written:
        print(f"wrote {path}")
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


def _engine_for(options: argparse.Namespace) -> Any:
    """The engine that was asked for; None for threads, as many as `--threads` says."""
    from functools import partial

    from spaql.runner import engines

    given = engine_of(options)
    if all(value is None for value in given.values()):
        return None
    if options.threads is not None:
        raise ParameterError("--threads: it is for runs in threads of this process; use --workers with an engine")
    return partial(engines.make_engine, given.pop("engine"), timeout=given.pop("run_timeout"), **given)


def _ablation(options: argparse.Namespace) -> int:
    from spaql.studies import ablation

    return _perform(options, "ablation", lambda: ablation.Ablation(_size(options, ablation), options.seed))


def _families(options: argparse.Namespace) -> int:
    from spaql.studies import families

    if options.constants:
        size = families.QUICK if options.quick else families.MORE
        return _perform(options, "constants", lambda: families.vary_constants(size, options.seed))
    return _perform(options, "families", lambda: families.evaluate_family(_size(options, families), options.seed))


def _control(options: argparse.Namespace) -> int:
    from functools import partial

    from spaql.studies import control, sb3
    from spaql.validation import check_whole

    size = _size(options, control)
    check_whole(options.sb3_seeds, "--sb3-seeds", 2, 10_000)
    if options.with_sb3:
        sb3.package()  # before anything is done

    def make() -> control.Control:
        if not options.with_sb3:
            return control.Control(size, options.seed)
        settings = {"agents": options.sb3_seeds, "episodes": size.episodes, "seed": options.seed}
        others = partial(sb3.measure, options.out, size.tasks, progress_bar=not options.quiet, **settings)
        return control.Control(size, options.seed, others)

    return _perform(options, "control", make)


def _size(options: argparse.Namespace, module: Any) -> Any:
    return module.QUICK if options.quick else module.FULL


def _perform(options: argparse.Namespace, name: str, make: Callable[[], Study], *, part: bool = False) -> int:
    """Perform a study in its folder and print its report; `part` says that the options leave some of it out."""
    from spaql.studies.study import run_study

    _check_study(options)
    if options.out is None:  # a part must not take the place of the whole
        options.out = f"results/{name}" + ("-part" if part or options.quick or options.seed else "")
    engine = _engine_for(options) if hasattr(options, "engine") else None
    try:
        outcome = run_study(make(), options.out, engine=engine, threads=options.threads, progress_bar=not options.quiet)
    except KeyboardInterrupt:
        say(f"stopped; finished runs are kept in {options.out}, and the same command resumes")
        return 130
    report = outcome.report
    assert report is not None
    if options.json:
        print(json.dumps(report.data, indent=2, allow_nan=False))
        return 0
    print(f"{report.text()}\n\n{textwrap.fill(report.note, 120)}\n\n{outcome.cost}")
    page = os.path.join(options.out, "report.html")
    print(f"wrote {len(outcome.files)} files to {options.out} after {outcome.seconds:.0f} s in all; open {page}")
    return 0


def _check_study(options: argparse.Namespace) -> None:
    from spaql.partition.rng import LARGEST_SEED
    from spaql.validation import check_whole

    check_whole(options.seed, "--seed", 0, LARGEST_SEED)
    if options.threads is not None:
        check_whole(options.threads, "--threads", 1, 1024)
