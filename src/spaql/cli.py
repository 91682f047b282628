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

_ALGORITHMS = ("spaql", "spaql-published", "spaql-ts", "aql", "random", "no-movement", "mean", "median")
_TUNABLE = {
    "spaql-published": ("scaling", "rollouts"),
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


class _Parser(argparse.ArgumentParser):
    """Bad usage is one sentence, not a page."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="spaql", description="Reinforcement learning with a policy you can read.")
    parser.add_argument("--version", action="version", version=f"spaql {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command", parser_class=_Parser)
    _add_train(commands)
    _add_agents(commands)
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
    train = commands.add_parser(
        "train",
        help="train one agent on one problem or Gymnasium environment",
        epilog="Any other name is taken for the id of a Gymnasium environment, such as CartPole-v1 or package:Name-v0. "
        "spaql train --resume DIR goes on with a run that was stopped or killed.",
    )
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
        parser.add_argument("--algorithm", choices=_ALGORITHMS, default="spaql", help="(%(default)s)")
        parser.add_argument("--scaling", type=float, help="xi of the published agents: weight of the bonus (0.5)")
        parser.add_argument("--rollouts", type=int, help="N of the published agents: rollouts per iteration (20)")
        parser.add_argument("--reference", type=float, nargs="+", metavar="X", help="of spaql-ts: the state to hold")
        parser.add_argument("--radius", type=float, help="lambda of spaql-ts, in the unit cube")
        parser.add_argument("--out", metavar="DIR", help="write agent, summary, history, cells and pictures there")
        parser.add_argument(
            "--checkpoint-every", type=int, metavar="STEPS", help="keep the agent in DIR every so many steps"
        )
        _add_common(parser)
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


def _add_agents(commands: Any) -> None:
    evaluate = commands.add_parser("evaluate", help="score a trained agent on fresh episodes")
    evaluate.add_argument("agent", metavar="DIR", help="folder of spaql train --out, or an agent file")
    _add_env(evaluate)
    evaluate.add_argument("--episodes", type=int, default=1000, help="(%(default)s)")
    evaluate.add_argument("--seed", type=int, help="of the episodes (the agent's own)")
    evaluate.add_argument("--quiet", action="store_true", help="no progress on stderr")
    evaluate.add_argument("--json", action="store_true", help="print JSON instead of a line")
    evaluate.set_defaults(run=_evaluate)
    show = commands.add_parser("show", help="look at a trained agent, or at two, on a page; or record an episode")
    show.add_argument(
        "agent", nargs="+", metavar="DIR", help="folder of spaql train --out, or an agent file; at most two"
    )
    show.add_argument("--out", metavar="FILE", help="where the page goes (beside the agent, by its name)")
    show.add_argument("--no-open", action="store_true", help="do not open the page in a browser")
    show.add_argument(
        "--record",
        nargs="?",
        const="",
        metavar="FILE",
        help="instead: play an episode and keep it as .gif or .mp4 (episode.gif in the folder)",
    )
    _add_env(show)
    show.add_argument("--seed", type=int, default=0, help="of the episode (%(default)s)")
    show.set_defaults(run=_show)
    export = commands.add_parser("export", help="write a trained agent's policy as C, Python, JSON or ONNX")
    export.add_argument("agent", metavar="AGENT", help="folder of spaql train --out, or an agent file")
    export.add_argument("file", metavar="FILE", help="what to write, by its suffix: .c, .h, .py, .json or .onnx")
    export.add_argument("--name", help="what functions of C are called, before _act (the file's own name)")
    _add_env(export)
    export.add_argument("--json", action="store_true", help="print JSON instead of lines")
    export.set_defaults(run=_export)
    explain = commands.add_parser("explain", help="why a trained agent does what it does for one observation")
    explain.add_argument("agent", metavar="AGENT", help="folder of spaql train --out, or an agent file")
    explain.add_argument("numbers", type=float, nargs="+", metavar="NUMBER", help="the observation, number by number")
    explain.add_argument("--runners-up", type=int, default=3, metavar="N", help="other actions shown (%(default)s)")
    explain.add_argument("--json", action="store_true", help="print JSON instead of text")
    explain.set_defaults(run=_explain)
    rules = commands.add_parser("rules", help="the policy of a trained agent as a list of rules")
    rules.add_argument("agent", metavar="AGENT", help="folder of spaql train --out, or an agent file")
    rules.add_argument("--format", choices=("text", "markdown", "json"), default="text", help="(%(default)s)")
    rules.add_argument("--out", metavar="FILE", help="write them there instead")
    rules.set_defaults(run=_rules)
    for parser in (explain, rules):
        parser.add_argument("--step", type=int, default=0, help="of agents that change with it (%(default)s)")
        parser.add_argument("--names", metavar="A,B,...", help="what to call the observed numbers")
        parser.add_argument("--actions", metavar="A,B,...", help="what to call the actions, or the numbers of one")
        _add_env(parser)


def _add_env(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--env", metavar="ID", help="environment to play, such as package:Name-v0 (the agent's own)")


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
    control = commands.add_parser("control", help="SPAQL and the published agents on classic control")
    control.add_argument(
        "--with-sb3", action="store_true", help="run DQN, PPO and SAC of Stable-Baselines3 beside them (hours)"
    )
    control.add_argument("--sb3-seeds", type=int, default=3, metavar="N", help="agents of each of these (%(default)s)")
    control.set_defaults(run=_control)
    for parser in (ablation, families, control):
        parser.add_argument("--out", metavar="DIR", help="where runs, tables and figures go (results/..., by its name)")
        parser.add_argument("--quick", action="store_true", help="a reduced study")
        parser.add_argument("--threads", type=int, metavar="N", help="runs at once (one per processor)")
        _add_common(parser)


def _problem(options: argparse.Namespace) -> Any:
    from spaql.problems import PROBLEMS

    if options.problem == _GYMNASIUM:
        from spaql.gymnasium_problem import GymnasiumProblem

        bounds = dict(_bounds(*each) for each in options.bounds or ())
        given = {"bounds": bounds or None, "horizon": options.horizon, "warm_up": options.warm_up}
        periodic = [_number_or_name(name) for name in options.periodic or ()]
        given = {name: value for name, value in given.items() if value is not None}
        try:
            return GymnasiumProblem(options.id, periodic=periodic, seed=options.seed, **given)
        except ParameterError as error:
            if str(error).startswith("environment: ") and not any(mark in options.id for mark in ("-v", ":", "/")):
                problems = ", ".join((*_PAPER, *_CONTROL))
                raise ParameterError(f"{error}; it is no problem either: these are {problems}") from None
            raise
    names = {"oil": ("survey", "sharpness", "deposit", "start"), "ambulance": ("arrivals", "cost", "shape", "start")}
    given = {name: getattr(options, name) for name in (*names.get(options.problem, ()), "horizon")}
    return PROBLEMS[options.problem](**{name: value for name, value in given.items() if value is not None})


def _bounds(name: str, low: str, high: str) -> tuple[int | str, tuple[float, float]]:
    try:
        return _number_or_name(name), (float(low), float(high))
    except ValueError:
        raise ParameterError(f"--bounds {name}: expected two numbers, got {low!r} and {high!r}") from None


def _number_or_name(text: str) -> int | str:
    return int(text) if text.isdecimal() else text


def _agent(options: argparse.Namespace) -> Any:
    from spaql.agents import ALGORITHMS

    given = {name: getattr(options, name) for name in ("scaling", "rollouts", "reference", "radius")}
    given = {name: value for name, value in given.items() if value is not None}
    foreign = [name for name in given if name not in _TUNABLE.get(options.algorithm, ())]
    if foreign:
        raise ParameterError(f"--{foreign[0]}: {options.algorithm} has no such parameter; leave it out")
    if options.algorithm == "spaql-ts" and len(given.keys() & {"reference", "radius"}) < 2:
        raise ParameterError("--algorithm spaql-ts: needs --reference, the state to hold, and --radius")
    return ALGORITHMS[options.algorithm](_problem(options), seed=options.seed, **given)


def _train(options: argparse.Namespace) -> int:
    from spaql.files import AGENT
    from spaql.runs import Run
    from spaql.spaces import check_whole

    length = _length(options)
    check_whole(options.episodes, "--episodes", 2)
    if options.checkpoint_every is not None:
        check_whole(options.checkpoint_every, "--checkpoint-every", 1)
        if options.out is None:
            raise ParameterError("--checkpoint-every: needs --out, the folder to keep the agent in")
    agent = _agent(options)
    if options.out is not None and not options.quiet and os.path.exists(os.path.join(options.out, AGENT)):
        _say(f"the agent in {options.out} will be replaced; spaql train --resume {options.out} would go on with it")
    run = Run.begin(options.out, options.arguments) if options.out is not None else None
    if not options.quiet:
        for found in agent.diagnose(**length):
            _say(f"before training: {found}")
    return _trained(options, agent, length, run)


def _resume(options: argparse.Namespace) -> int:
    from spaql.runs import Run

    run = Run.read(options.folder)
    begun = _parser().parse_args(["train", *run.arguments, "--out", options.folder])
    begun.quiet, begun.json = options.quiet, options.json
    if options.timesteps is not None or options.iterations is not None:
        begun.timesteps, begun.iterations = options.timesteps, options.iterations
    length = _length(begun)
    agent: Any = run.agent() or _agent(begun)
    [(name, asked)] = length.items()
    if not agent.iterations:
        return _trained(begun, agent, length, run)
    done, least = agent.iterations, 1
    if name == "total_timesteps":
        done, least = agent.steps_taken, agent.steps_per_iteration
    unit, left = "steps" if name == "total_timesteps" else "iterations", asked - done
    if not begun.quiet:
        begins = "goes on after" if left >= least else "nothing is left to learn and it is only scored: it has"
        _say(f"{begins} {done:,} of {asked:,} {unit}")
    return _trained(begun, agent, {name: left} if left >= least else {}, run)


def _trained(options: argparse.Namespace, agent: Any, length: dict[str, int], run: Any) -> int:
    """Train for so long, or not at all; judge, write and print."""
    from spaql import output, results
    from spaql.files import AGENT

    seconds, stopped, kept = None, False, []
    callback = run.checkpoint(options.checkpoint_every) if run and options.checkpoint_every else None
    try:
        if length:
            seconds = results.train(agent, **length, callback=callback, progress_bar=not options.quiet)
    except KeyboardInterrupt:
        stopped = True
        if not agent.iterations:
            raise
        _say(f"stopped after {agent.iterations:,} iterations; scoring what was learned")
    finally:  # first of all, whatever happened
        if run is not None and agent.iterations:
            kept = [run.keep(agent)]
            if seconds is None and length and not stopped:
                _say(f"a fault after {agent.iterations:,} iterations; what was learned is in {kept[0]}")
    result = results.judge(
        options.algorithm, agent, seconds=seconds, episodes=options.episodes, progress_bar=not options.quiet
    )
    known = [name for name in results.FILES if not kept or name != AGENT]
    written = [] if run is None else [*output.write(run.folder, results.files_of(result), known), *kept]
    if run is not None and not stopped:
        run.finish(agent)
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


def _length(options: argparse.Namespace) -> dict[str, int]:
    """How long to train, as `learn` takes it."""
    from spaql.spaces import check_whole

    if options.timesteps is not None or (options.iterations is None and options.usual is None):
        steps = 100_000 if options.timesteps is None else options.timesteps
        return {"total_timesteps": check_whole(steps, "--timesteps", 1)}
    iterations = options.usual if options.iterations is None else options.iterations
    return {"iterations": check_whole(iterations, "--iterations", 1)}


def _evaluate(options: argparse.Namespace) -> int:
    from spaql.files import load
    from spaql.spaces import check_whole

    check_whole(options.episodes, "--episodes", 2)
    agent = load(options.agent, env=options.env)
    fresh = agent.evaluate(options.episodes, seed=options.seed, progress_bar=not options.quiet)
    low, high = fresh.interval
    if options.json:
        told = {
            "problem": agent.problem.name,
            "agent": type(agent).__name__,
            "mean": fresh.mean,
            "low": low,
            "high": high,
        }
        told |= {"episodes": options.episodes, "steps": fresh.steps, "arms": agent.arms}
        print(json.dumps(told, indent=2, allow_nan=False))
    else:
        print(f"{type(agent).__name__} on {agent.problem.name}: {fresh}; {agent.arms:,} cells")
    return 0


def _show(options: argparse.Namespace) -> int:
    from spaql.files import load
    from spaql.spaces import check_whole

    check_whole(options.seed, "--seed", 0, 2**31 - 1)
    if len(options.agent) > (1 if options.record is not None else 2):
        most = "an episode is recorded of one agent" if options.record is not None else "at most two side by side"
        raise ParameterError(f"show: {most}, got {len(options.agent)}")
    if options.record is not None and options.out is not None:
        raise ParameterError("--out: it names the page, and with --record there is none; use --record FILE")
    agents = [load(path, env=options.env) for path in options.agent]
    for agent in agents:
        print(
            f"{agent!r}\n{agent.iterations:,} iterations, {agent.training_steps:,} training steps, {agent.arms:,} cells"
        )
    return _page(options, agents) if options.record is None else _record(options, agents[0])


def _record(options: argparse.Namespace, agent: Any) -> int:
    from spaql import recording

    target = options.record or recording.beside(options.agent[0])
    path, total, steps = recording.record(agent, target, seed=options.seed)
    print(f"an episode of {steps:,} steps, return {total:.4g}\nwrote {path}")
    return 0


def _page(options: argparse.Namespace, agents: list[Any]) -> int:
    from spaql import showing

    path = showing.show(agents, options.out or showing.beside(*options.agent), seed=options.seed)
    print(f"wrote {path}")
    if not options.no_open and sys.stdout.isatty():
        import webbrowser

        if not webbrowser.open(path.resolve().as_uri()):
            _say("no browser was found; open the file in one")
    return 0


def _export(options: argparse.Namespace) -> int:
    from spaql.export import export
    from spaql.files import load

    told = export(load(options.agent, env=options.env), options.file, name=options.name).figures()
    if options.json:
        print(json.dumps(told, indent=2, allow_nan=False))
        return 0
    tables = f", {told['table_bytes']:,} bytes of tables" if told["table_bytes"] is not None else ""
    lasts = "not measured: " + ("no C compiler" if tables else "only C is")
    if told["nanoseconds"] is not None:
        lasts = f"{told['nanoseconds']:.0f} ns, at random states"
    print(f"wrote {told['file']}: {told['bytes']:,} bytes{tables}")
    print(
        f"{told['nodes']:,} comparisons, of which a decision takes at most {told['depth']}; time per decision {lasts}"
    )
    return 0


def _explain(options: argparse.Namespace) -> int:
    from spaql.explaining import member
    from spaql.files import load

    agent = load(options.agent, env=options.env)
    observation = member(agent.problem, options.numbers)
    told = agent.explain(observation, step=options.step, runners_up=options.runners_up, **_called(options))
    print(json.dumps(told.to_dict(), indent=2, allow_nan=False) if options.json else told)
    return 0


def _rules(options: argparse.Namespace) -> int:
    from pathlib import Path

    from spaql.files import load

    agent = load(options.agent, env=options.env)
    rules = agent.rules(step=options.step, **_called(options))
    text = {"text": rules.told, "markdown": rules.markdown, "json": rules.json}[options.format]()
    if options.out is None:
        print(text)
        return 0
    from spaql import output

    path = Path(options.out)
    output.replace(path, f"{text}\n".encode())
    print(f"wrote {path}")
    return 0


def _called(options: argparse.Namespace) -> dict[str, list[str] | None]:
    """The user's own words."""
    given = {"names": options.names, "actions": options.actions}
    return {what: None if text is None else [word.strip() for word in text.split(",")] for what, text in given.items()}


def _control(options: argparse.Namespace) -> int:
    from functools import partial

    from spaql.beyond import control
    from spaql.spaces import check_whole

    size = control.QUICK if options.quick else control.FULL
    check_whole(options.sb3_seeds, "--sb3-seeds", 2, 10_000)
    if not options.with_sb3:
        return _beyond(options, "control", control.benchmark, size)
    from spaql.beyond import sb3

    sb3.package()  # before anything is done

    def perform(out: str, **settings: Any) -> control.Control:
        same = {name: settings[name] for name in ("seed", "progress_bar")}
        others = partial(sb3.measured, out, size.tasks, agents=options.sb3_seeds, episodes=size.episodes, **same)
        return control.benchmark(out, others=others, **settings)

    return _beyond(options, "control", perform, size)


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


def _with_word(arguments: list[str]) -> list[str]:
    """Arguments as the parser takes them: `train CartPole-v1` as `train gymnasium CartPole-v1`, what is no problem."""
    if len(arguments) > 1 and arguments[0] == "train":
        name = arguments[1]
        if name == "--resume":  # which takes the place of a problem
            return ["train", _RESUME, *arguments[2:]]
        if not name.startswith("-") and name not in (*_PAPER, *_CONTROL, _GYMNASIUM):
            return ["train", _GYMNASIUM, *arguments[1:]]
    if arguments[:1] == ["explain"]:  # a number, not an option, whatever argparse thinks of -1e-3
        return [f" {text}" if _is_negative(text) else text for text in arguments]
    return arguments


def _is_negative(text: str) -> bool:
    try:
        return text.startswith("-") and float(text) <= 0.0
    except ValueError:
        return False


def _of_printing(error: OSError) -> bool:
    """Whether it was raised where this module prints, and not, for instance, by an environment."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return at is not None and at.tb_frame.f_code.co_filename == __file__


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that cannot show a letter shows a question mark
            stream.reconfigure(errors="replace")
    parser = _parser()
    words = _with_word(sys.argv[1:] if arguments is None else list(arguments))
    options = parser.parse_args(words)
    options.arguments = words[1:]
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
    except OSError as error:
        if not _of_printing(error):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):  # the reader has seen enough
            return 0
        _say(f"the output cannot be written: {error.strerror}")
        return 2


if __name__ == "__main__":
    raise SystemExit(main())
