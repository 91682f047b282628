"""The studies of the package: `paper`, `ablation`, `families`, `family` and `control`; and its benchmarks, `bench`."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import textwrap
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spaql.cli.options import add_command, add_common, add_engine, add_output, engine_of, print_result, say_stopped
from spaql.errors import ParameterError

if TYPE_CHECKING:
    from spaql.studies.study import Study


def add(commands: Any) -> None:
    """Add the commands."""
    paper = _add_study(commands, "paper", _paper, "the whole study of the SPAQL paper: tables, figures, findings")
    text = "only these, such as oil-laplace-10, or by prefix: oil (all)"
    paper.add_argument("--problems", nargs="+", metavar="ID", help=text)
    paper.add_argument("--agents", type=int, metavar="N", help="agents per scaling (25 oil, 50 ambulance)")
    _add_study(commands, "ablation", _ablation, "Tessera without each of its mechanisms, beside SPAQL and AQL")
    _add_study(commands, "families", _families, "Tessera on random problems that it was not tuned on")
    _add_study(commands, "family", _family, "the paper's line of algorithms on sixteen problems, with equal budgets")
    control = _add_study(commands, "control", _control, "Tessera, SPAQL, SPAQL-TS and AQL on classic control")
    control.add_argument("--agents", type=int, metavar="N", help="agents of each algorithm on each problem (20)")
    text = "run DQN, PPO and SAC of Stable-Baselines3 beside them (hours)"
    control.add_argument("--with-sb3", action="store_true", help=text)
    control.add_argument("--sb3-seeds", type=int, default=3, metavar="N", help="agents of each of these (%(default)s)")
    text = "measure speed, as ratios in one run (needs a clone of the repository)"
    bench = add_command(commands, "bench", _bench, text)
    bench.add_argument("--only", nargs="+", metavar="PART", help="these parts only (all); --list prints them")
    bench.add_argument("--list", action="store_true", help="print the names of all parts")
    add_output(bench)


def _add_study(commands: Any, name: str, run: Any, text: str) -> argparse.ArgumentParser:
    parser = add_command(commands, name, run, text)
    out = f"folder for runs, tables and figures (results/{name}; results/{name}-part for less than all of it)"
    parser.add_argument("--out", metavar="DIR", help=out)
    parser.add_argument("--quick", action="store_true", help="a reduced study")
    add_engine(parser)
    add_common(parser)
    return parser


def _bench(options: argparse.Namespace) -> None:
    root = Path(__file__).resolve().parents[3]
    if not (root / "benchmarks" / "__init__.py").is_file():
        raise ParameterError(
            "bench: the benchmarks are not part of the installed package; clone the repository and run make bench there"
        )
    sys.path.insert(0, str(root))
    import benchmarks

    if options.list:
        print("\n".join(benchmarks.parts()))
        return
    figures = benchmarks.measure(progress_bar=not options.quiet, only=options.only)
    print_result(options, figures, benchmarks.describe(figures))


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

    size = ablation.QUICK if options.quick else ablation.FULL
    return _perform(options, "ablation", lambda: ablation.Ablation(options.seed, size))


def _families(options: argparse.Namespace) -> int:
    from spaql.studies import families

    size = families.QUICK if options.quick else families.FULL
    return _perform(options, "families", lambda: families.Families(options.seed, size))


def _family(options: argparse.Namespace) -> int:
    from spaql.studies import family

    size = family.QUICK if options.quick else family.FULL
    return _perform(options, "family", lambda: family.Family(options.seed, **size))


def _control(options: argparse.Namespace) -> int:
    from spaql.studies import control
    from spaql.validation import check_whole

    size: dict[str, Any] = dict(control.QUICK) if options.quick else {}
    if options.agents is not None:
        size["agents"] = check_whole(options.agents, "--agents", 2, 10_000)
    check_whole(options.sb3_seeds, "--sb3-seeds", 2, 10_000)
    if options.with_sb3:
        if importlib.util.find_spec("stable_baselines3") is None:
            raise ParameterError("--with-sb3: Stable-Baselines3 is missing; install it with: pip install 'spaql[sb3]'")
        size |= {"sb3_agents": options.sb3_seeds}
    part = options.agents is not None
    return _perform(options, "control", lambda: control.Control(options.seed, **size), part=part)


def _perform(options: argparse.Namespace, name: str, make: Callable[[], Study], *, part: bool = False) -> int:
    """Perform a study in its folder and print its report; `part` says that the options leave some of it out."""
    from spaql.partition.rng import LARGEST_SEED
    from spaql.runner.engines import make_engine
    from spaql.studies.study import run_study
    from spaql.validation import check_whole

    check_whole(options.seed, "--seed", 0, LARGEST_SEED)
    if options.out is None:  # a part must not replace the whole
        options.out = f"results/{name}" + ("-part" if part or options.quick or options.seed else "")
    given = engine_of(options)
    engine = partial(make_engine, given.pop("engine"), timeout=given.pop("run_timeout"), **given)
    try:
        outcome = run_study(make(), options.out, engine=engine, progress_bar=not options.quiet)
    except KeyboardInterrupt as error:
        return say_stopped(error, options.out)
    report = outcome.report
    assert report is not None
    texts = filter(None, (report.text(), textwrap.fill(report.note, 120), str(outcome.cost)))
    page = os.path.join(options.out, "report.html")
    last = f"wrote {len(outcome.files)} files to {options.out} after {outcome.seconds:.0f} s in all; open {page}"
    print_result(options, report.data, "\n\n".join(texts) + "\n" + last)
    return 0
