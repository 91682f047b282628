"""`spaql train`, and `spaql train --resume`."""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

from spaql.cli.parsing import Parser, add_common, say
from spaql.errors import ParameterError

_ALGORITHMS = ("tessera", "spaql", "spaql-ts", "aql", "random", "no-movement", "mean", "median")
_TUNABLE = {
    "spaql": ("scaling", "rollouts"),
    "spaql-ts": ("scaling", "rollouts", "reference", "radius"),
    "aql": ("scaling", "rollouts"),
}
_CONTROL = {
    "cartpole": "balance a pole on a cart (CartPole-v1, compiled)",
    "mountaincar": "drive a weak car out of a valley (MountainCar-v0, compiled)",
    "mountaincar-continuous": "the same with a force to choose (MountainCarContinuous-v0, compiled)",
    "acrobot": "swing a double pendulum up (Acrobot-v1, compiled)",
    "pendulum": "swing a pendulum up and hold it (Pendulum-v1, compiled)",
}
_PAPER = ("oil", "ambulance")
_GYMNASIUM = "gymnasium"
_RESUME = "resume"


def add(commands: Any) -> None:
    """Add `train`; `train --resume` is a problem of that name to the parser."""
    train = commands.add_parser(
        "train",
        help="train one agent on one problem or Gymnasium environment",
        epilog="Any other name is taken for the id of a Gymnasium environment, such as CartPole-v1 or package:Name-v0. "
        "spaql train --resume DIR goes on with a run that was stopped or killed.",
    )
    problems = train.add_subparsers(dest="problem", required=True, metavar="problem", parser_class=Parser)
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
        length = parser.add_mutually_exclusive_group()
        length.add_argument("--iterations", type=int, help=f"K: training iterations ({iterations})")
        length.add_argument("--timesteps", type=int, help="instead: environment steps, learning and selection together")
        parser.add_argument("--episodes", type=int, default=10_000, help="fresh episodes that score it (%(default)s)")
        parser.set_defaults(usual=iterations)
    for name, about in _CONTROL.items():
        _add_stepwise(problems.add_parser(name, help=about), 1000)
    foreign = problems.add_parser(_GYMNASIUM, help="any Gymnasium environment, by its id; the word may be left out")
    foreign.add_argument("id", help="such as CartPole-v1, or package:Name-v0 for one of your own")
    foreign.add_argument(
        "--bounds",
        nargs=3,
        action="append",
        metavar=("NAME", "LOW", "HIGH"),
        help="range of an observed number, by its name or place; more than once for more",
    )
    foreign.add_argument("--periodic", action="append", metavar="NAME", help="an observed number that comes round")
    foreign.add_argument("--warm-up", type=int, help="random steps to learn unknown ranges from (1000)")
    _add_stepwise(foreign, 100)
    for parser in problems.choices.values():
        parser.add_argument("--algorithm", choices=_ALGORITHMS, default="tessera", help="(%(default)s)")
        parser.add_argument("--scaling", type=float, help="xi of the published agents: weight of the bonus (0.5)")
        parser.add_argument("--rollouts", type=int, help="N of the published agents: rollouts per iteration (20)")
        parser.add_argument("--reference", type=float, nargs="+", metavar="X", help="of spaql-ts: the state to hold")
        parser.add_argument("--radius", type=float, help="lambda of spaql-ts, in the unit cube")
        parser.add_argument("--out", metavar="DIR", help="write agent, summary, history, cells and pictures there")
        parser.add_argument(
            "--checkpoint-every", type=int, metavar="STEPS", help="keep the agent in DIR every so many steps"
        )
        add_common(parser)
        parser.set_defaults(run=_train)
    resume = problems.add_parser(_RESUME, prog="spaql train --resume")
    resume.add_argument("folder", metavar="DIR", help="of a run that was stopped, killed, or is to go on")
    length = resume.add_mutually_exclusive_group()
    length.add_argument("--timesteps", type=int, help="train to so many steps in all (as begun)")
    length.add_argument("--iterations", type=int, help="train to so many iterations in all (as begun)")
    resume.add_argument("--quiet", action="store_true", help="no progress on stderr")
    resume.add_argument("--json", action="store_true", help="print JSON instead of a table")
    resume.set_defaults(run=_resume)


def _add_stepwise(parser: argparse.ArgumentParser, episodes: int) -> None:
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--timesteps", type=int, help="environment steps, learning and selection together (100000)")
    length.add_argument("--iterations", type=int, help="instead: training iterations")
    parser.add_argument("--horizon", type=int, help="steps after which an episode is broken off (its own limit)")
    parser.add_argument("--episodes", type=int, default=episodes, help="fresh episodes that score it (%(default)s)")
    parser.set_defaults(usual=None)


def reworded(arguments: list[str]) -> list[str]:
    """Arguments as the parser takes them: `train CartPole-v1` as `train gymnasium CartPole-v1`, what is no problem."""
    if len(arguments) > 1 and arguments[0] == "train":
        name = arguments[1]
        if name == "--resume":  # which takes the place of a problem
            return ["train", _RESUME, *arguments[2:]]
        if not name.startswith("-") and name not in (*_PAPER, *_CONTROL, _GYMNASIUM):
            return ["train", _GYMNASIUM, *arguments[1:]]
    return arguments


def _run(options: argparse.Namespace) -> Any:
    """The specification of the run."""
    from spaql.runner.run_spec import Run

    environment: dict[str, Any] = {}
    names = {"oil": ("survey", "sharpness", "deposit", "start"), "ambulance": ("arrivals", "cost", "shape", "start")}
    arguments = {name: getattr(options, name) for name in (*names.get(options.problem, ()), "horizon")}
    if options.problem == _GYMNASIUM:
        environment = {"bounds": dict(_bounds(*each) for each in options.bounds or ()) or None}
        environment |= {"periodic": options.periodic, "horizon": options.horizon, "warm_up": options.warm_up}
        arguments = {}
    length = _length(options)
    return Run(
        options.id if options.problem == _GYMNASIUM else options.problem,
        {name: value for name, value in arguments.items() if value is not None},
        options.algorithm,
        _parameters(options),
        options.seed,
        length.get("iterations", 0),
        options.episodes,
        budgets=(length["total_timesteps"],) if "total_timesteps" in length else (),
        environment={name: value for name, value in environment.items() if value is not None},
    )


def _agent(options: argparse.Namespace, run: Any) -> Any:
    from spaql.runner.execute import make_agent

    try:
        return make_agent(run)
    except ParameterError as error:
        foreign = options.problem == _GYMNASIUM and str(error).startswith("environment: ")
        if foreign and not any(mark in options.id for mark in ("-v", ":", "/")):
            problems = ", ".join((*_PAPER, *_CONTROL))
            raise ParameterError(f"{error}; it is no problem either: these are {problems}") from None
        raise


def _bounds(name: str, low: str, high: str) -> tuple[str, tuple[float, float]]:
    try:
        return name, (float(low), float(high))
    except ValueError:
        raise ParameterError(f"--bounds {name}: expected two numbers, got {low!r} and {high!r}") from None


def _parameters(options: argparse.Namespace) -> dict[str, Any]:
    given = {name: getattr(options, name) for name in ("scaling", "rollouts", "reference", "radius")}
    given = {name: value for name, value in given.items() if value is not None}
    foreign = [name for name in given if name not in _TUNABLE.get(options.algorithm, ())]
    if foreign:
        raise ParameterError(f"--{foreign[0]}: {options.algorithm} has no such parameter; leave it out")
    if options.algorithm == "spaql-ts" and len(given.keys() & {"reference", "radius"}) < 2:
        raise ParameterError("--algorithm spaql-ts: needs --reference, the state to hold, and --radius")
    return given


def _train(options: argparse.Namespace) -> int:
    from spaql.agents.files import AGENT
    from spaql.runner.train_dir import TrainDir
    from spaql.validation import check_whole

    length = _length(options)
    check_whole(options.episodes, "--episodes", 2)
    if options.checkpoint_every is not None:
        check_whole(options.checkpoint_every, "--checkpoint-every", 1)
        if options.out is None:
            raise ParameterError("--checkpoint-every: needs --out, the folder to keep the agent in")
    specification = _run(options)
    agent = _agent(options, specification)
    if options.out is not None and not options.quiet and os.path.exists(os.path.join(options.out, AGENT)):
        say(f"the agent in {options.out} will be replaced; spaql train --resume {options.out} would go on with it")
    run = None
    if options.out is not None:
        run = TrainDir.begin(options.out, specification, options.checkpoint_every)
    if not options.quiet:
        for found in agent.diagnose(**length):
            say(f"before training: {found}")
    return _trained(options, specification, agent, length, run)


def _resume(options: argparse.Namespace) -> int:
    from spaql.runner.execute import make_agent
    from spaql.runner.train_dir import TrainDir

    run = TrainDir.read(options.folder)
    specification = run.run
    length = {"total_timesteps": specification.budgets[-1]} if specification.budgets else {}
    length = length or {"iterations": specification.iterations}
    if options.timesteps is not None or options.iterations is not None:
        options.usual = None
        length = _length(options)
    agent: Any = run.load_agent() or make_agent(specification)
    [(name, asked)] = length.items()
    if not agent.iterations:
        return _trained(options, specification, agent, length, run)
    done, least = agent.iterations, 1
    if name == "total_timesteps":
        done, least = agent.num_timesteps, agent.steps_per_iteration
    unit, left = "steps" if name == "total_timesteps" else "iterations", asked - done
    if not options.quiet:
        begins = "goes on after" if left >= least else "nothing is left to learn and it is only scored: it has"
        say(f"{begins} {done:,} of {asked:,} {unit}")
    return _trained(options, specification, agent, {name: left} if left >= least else {}, run)


def _trained(options: argparse.Namespace, specification: Any, agent: Any, length: dict[str, int], run: Any) -> int:
    """Train for so long, or not at all; judge, write and print."""
    from spaql import atomic_io
    from spaql.agents.files import AGENT
    from spaql.runner import summary

    seconds, stopped, kept = None, False, []
    callback = run.make_checkpoint() if run else None
    try:
        if length:
            seconds = summary.train(agent, **length, callback=callback, progress_bar=not options.quiet)
    except KeyboardInterrupt:
        stopped = True
        if not agent.iterations:
            raise
        say(f"stopped after {agent.iterations:,} iterations; scoring what was learned")
    finally:  # first of all, whatever happened
        if run is not None and agent.iterations:
            kept = [run.keep(agent)]
            if seconds is None and length and not stopped:
                say(f"a fault after {agent.iterations:,} iterations; what was learned is in {kept[0]}")
    result = summary.summarize(
        specification.algorithm,
        agent,
        seconds=seconds,
        episodes=specification.episodes,
        progress_bar=not options.quiet,
    )
    known = [name for name in summary.FILES if not kept or name != AGENT]
    written = [] if run is None else [*atomic_io.write_files(run.folder, summary.summary_files(result), known), *kept]
    if run is not None and not stopped:
        run.finish(agent)
    if options.json:
        print(json.dumps(result.to_dict() | {"files": [str(path) for path in written]}, indent=2, allow_nan=False))
    else:
        print(f"{agent.problem.name}, H={agent.problem.horizon}, {agent.iterations:,} iterations, seed {agent.seed}\n")
        print(summary.summary_table([result]).text())
        for said in [str(found) for found in result.diagnosis] or ["nothing found"]:
            print(f"diagnosis: {said}")
        for path in written:
            print(f"wrote {path}")
    return 130 if stopped else 0


def _length(options: argparse.Namespace) -> dict[str, int]:
    """How long to train, as `learn` takes it."""
    from spaql.validation import check_whole

    if options.timesteps is not None or (options.iterations is None and options.usual is None):
        steps = 100_000 if options.timesteps is None else options.timesteps
        return {"total_timesteps": check_whole(steps, "--timesteps", 1)}
    iterations = options.usual if options.iterations is None else options.iterations
    return {"iterations": check_whole(iterations, "--iterations", 1)}
