"""`spaql train`, and `spaql train --resume`.

The options of a problem and of an algorithm come from the signatures of the function and of the class that they name,
so that your own have options too: `spaql train my_module:make_tank --algorithm my_module:MyAgent --volume 3`.
"""

import argparse
import inspect
import math
import signal
from typing import Any

from spaql.cli.options import (
    Parser,
    add_common,
    add_output,
    add_signature,
    print_result,
    read_count,
    read_keyword,
    read_signature,
    say,
)
from spaql.errors import ParameterError
from spaql.validation import parse_json

_TIMESTEPS = 100_000  # to train for, where the problem has no usual number of iterations
_LARGEST = 1 << 24  # of a file of parameters
_USAGE = """\
spaql train PROBLEM [options]
       spaql train --resume DIR [options]"""
_DESCRIPTION = """\
Train an agent, evaluate it on new episodes, and print the result.  With --out,
a folder keeps it, for spaql evaluate, show, explain, rules and export.
"""
_EXAMPLES = """\
examples:
  spaql train CartPole-v1 --timesteps 10000 --out results/cartpole
  spaql train oil --algorithm spaql --help       all options of this problem and algorithm
  spaql train oil --survey quadratic --algorithm spaql --scaling 0.5
  spaql train oil --params results/tune/best.json
  spaql train CartPole-v1 --eval-every 5000 --log run.csv
  spaql train my_module:make_tank --algorithm my_module:MyAgent
  spaql train --resume results/cartpole          continue a run that was stopped
"""
_RESUME_DESCRIPTION = "Continue a run that was stopped or killed, or make it longer."
_RESUME_EXAMPLES = """\
examples:
  spaql train --resume results/cartpole                      to the end it was started for
  spaql train --resume results/cartpole --timesteps 20000    to 20,000 steps in all
"""


def add(commands: Any, words: list[str]) -> None:
    """Add `train`, with its options if it is the command of these words."""
    train = commands.add_parser(
        "train",
        help="train an agent on a problem or Gymnasium environment",
        usage=_USAGE,
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,  # --algorithm and --params are looked up before the other options are known
    )
    if words[:1] != ["train"]:
        return
    resumes = [word.partition("=")[0] == "--resume" for word in words[1:]]
    if any(resumes) and words[1].startswith("-"):
        train.prog += " --resume"
        train.usage, train.description = "%(prog)s DIR [options]", _RESUME_DESCRIPTION
        train.epilog = _RESUME_EXAMPLES
        train.add_argument("--resume", metavar="DIR", required=True, help="folder of spaql train --out")
        _add_length(train, " (as started)", " (as started)", " in all")
        _add_monitoring(train)
        add_output(train)
        train.set_defaults(run=_resume)
    else:
        _add_options(train, words[1:])


def _add_length(parser: argparse.ArgumentParser, steps: str, iterations: str, total: str = "") -> None:
    """Add `--timesteps` or `--iterations`, with the default of each."""
    length = parser.add_mutually_exclusive_group()
    text = f"environment steps{total}, training and selection together{steps}"
    length.add_argument("--timesteps", type=read_count, metavar="N", help=text)
    length.add_argument("--iterations", type=read_count, metavar="N", help=f"training iterations{total}{iterations}")


def _add_monitoring(parser: argparse.ArgumentParser) -> None:
    """Add the options that watch training, which change nothing about it."""
    group = parser.add_argument_group("while training")
    group.add_argument("--eval-every", type=read_count, metavar="STEPS", help="evaluate every n steps (never)")
    text = "episodes of each of these evaluations (20); they count towards no budget"
    group.add_argument("--eval-episodes", type=read_count, metavar="N", help=text)
    text = "write progress to a .csv or .jsonl file, or for TensorBoard into a folder"
    group.add_argument("--log", metavar="PATH", help=text)


def _add_options(train: argparse.ArgumentParser, words: list[str]) -> None:
    from spaql.agents import algorithms, resolve
    from spaql.gym.calls import import_function
    from spaql.problems import PROBLEMS

    name = words[0] if words and not words[0].startswith("-") else ""
    make = PROBLEMS.get(name) or import_function(name)  # None for a Gymnasium id
    usual = getattr(make, "iterations", None)
    problems = f"{', '.join(PROBLEMS)}, a Gymnasium id such as CartPole-v1 or package:Name-v0, or module:function"
    train.add_argument("problem", metavar="PROBLEM", help=f"{problems}; put it first, so that its options are known")
    known = f"{', '.join(algorithms())}, or module:Class (%(default)s)"
    choice = Parser(prog=train.prog, add_help=False, allow_abbrev=False)
    choice.add_argument("--algorithm")
    choice.add_argument("--params")
    chosen, _ = argparse.ArgumentParser.parse_known_args(choice, words)
    algorithm, parameters = _read_parameters(chosen.params, chosen.algorithm)
    train.add_argument("--algorithm", default=algorithm, metavar="NAME", help=known)
    text = "algorithm and parameters from best.json of spaql tune; options given here override them"
    train.add_argument("--params", metavar="FILE", help=text)
    _add_length(train, "" if usual else f" ({_TIMESTEPS})", f" ({usual})" if usual else "")
    episodes = 10_000 if usual else 1_000 if name in PROBLEMS else 100
    text = "evaluation episodes at the end (%(default)s)"
    train.add_argument("--episodes", type=read_count, default=episodes, metavar="N", help=text)
    train.add_argument("--out", metavar="DIR", help="write agent, summary, history, cells and figures there")
    train.add_argument("--overwrite", action="store_true", help="replace the run in DIR, if there is one")
    train.add_argument("--checkpoint-every", type=read_count, metavar="STEPS", help="save in DIR every n steps")
    add_common(train)
    _add_monitoring(train)
    if make is not None:
        heading = f"parameters of the problem {name}"
        add_signature(train, "problem", inspect.signature(make).parameters, make, heading=heading)
    if name and name not in PROBLEMS:
        _add_environment(train)
    entry, heading = resolve(algorithm), f"parameters of the algorithm {algorithm}"
    add_signature(train, "algorithm", entry.parameters, entry.cls, heading=heading, given=parameters)
    train.set_defaults(run=_train, usual=usual, parameters=parameters)


def _read_parameters(path: str | None, algorithm: str | None) -> tuple[str, dict[str, Any]]:
    """Return the algorithm, and the parameters of a file that `spaql tune` wrote, or of none."""
    from spaql.agents import resolve
    from spaql.atomic_io import read_bounded

    if path is None:
        return algorithm or "tessera", {}
    try:
        content = parse_json(read_bounded(path, _LARGEST))
        name, parameters = content["algorithm"], content["parameters"]
        if not isinstance(name, str) or not isinstance(parameters, dict):
            raise ValueError("its algorithm is not a text, or its parameters are not named")
    except OSError as error:
        raise ParameterError(f"--params {path}: it cannot be read: {error.strerror or error}") from None
    except (LookupError, TypeError, ValueError) as error:
        wanted = '{"algorithm": "spaql", "parameters": {"scaling": 0.5}}, as spaql tune writes'
        raise ParameterError(f"--params {path}: expected {wanted} in best.json ({error})") from None
    if algorithm not in (None, name):
        raise ParameterError(f"--params {path}: it has parameters of {name}, not of {algorithm}; leave --algorithm out")
    entry = resolve(name)
    for parameter in parameters:
        if not entry.accepts(parameter):
            known = ", ".join(entry.parameters) or "none"
            raise ParameterError(f"--params {path}: {name} has no parameter {parameter!r:.80}; it has {known}")
    return name, parameters


def _add_environment(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("environment")
    text = "range of an observed number, by its name or place; repeat it for several"
    group.add_argument("--bounds", nargs=3, action="append", metavar=("NAME", "LOW", "HIGH"), help=text)
    group.add_argument("--periodic", action="append", metavar="NAME", help="a periodic observed number, as an angle is")
    group.add_argument("--warm-up", type=read_count, help="random steps to learn unknown ranges and limits from (1000)")
    words: dict[str, Any] = {"type": lambda text: [*map(str.strip, text.split(","))], "metavar": "A,B,..."}
    keywords: dict[str, Any] = {"type": read_keyword, "nargs": "+", "metavar": "NAME=VALUE"}
    for flag, text, kind in (
        ("--horizon", "steps after which an episode is truncated (its own limit)", {"type": read_count}),
        ("--names", "names of the observed numbers", words),
        ("--action-names", "names of the actions, or of their numbers", words),
        ("--env-kwargs", "keyword arguments of the environment or function; values are JSON, else text", keywords),
    ):
        if flag not in parser._option_string_actions:  # it may be one of the problem
            group.add_argument(flag, help=text, **kind)


def _read_environment(options: argparse.Namespace) -> dict[str, Any]:
    given = {name: getattr(options, name, None) for name in ("periodic", "warm_up", "horizon", "names", "action_names")}
    bounds = {}
    for name, low, high in getattr(options, "bounds", None) or ():
        try:
            bounds[name] = [float(low), float(high)]
        except ValueError:
            raise ParameterError(f"--bounds {name}: expected two numbers, got {low!r} and {high!r}") from None
        if not all(map(math.isfinite, bounds[name])):
            raise ParameterError(f"--bounds {name}: expected two finite numbers, got {low!r} and {high!r}")
    given["bounds"] = bounds or None
    return {name: value for name, value in given.items() if value is not None}


def _make_run(options: argparse.Namespace) -> Any:
    """Return the specification of the run."""
    from spaql.runner.run_spec import Run, from_specification
    from spaql.validation import check_whole

    iterations, timesteps = options.iterations, options.timesteps
    if iterations is None and timesteps is None:
        iterations, timesteps = (options.usual, None) if options.usual else (None, _TIMESTEPS)
    run = Run(
        problem=options.problem,
        arguments=read_signature(options, "problem") | dict(getattr(options, "env_kwargs", None) or ()),
        algorithm=options.algorithm,
        parameters=options.parameters | read_signature(options, "algorithm"),
        seed=options.seed,
        episodes=check_whole(options.episodes, "--episodes", 2),
        environment=_read_environment(options),
        iterations=0 if iterations is None else check_whole(iterations, "--iterations", 1),
        budgets=() if timesteps is None else (check_whole(timesteps, "--timesteps", 1),),
    )
    return from_specification(run.specification)  # what a resumed run reads


def _find_length(run: Any) -> dict[str, int]:
    """Return the length of training as `learn` takes it."""
    return {"total_timesteps": run.budgets[0]} if run.budgets else {"iterations": run.iterations}


def _train(options: argparse.Namespace) -> int:
    from spaql.cli.monitors import make_monitors
    from spaql.runner.execute import make_agent
    from spaql.runner.train_dir import TrainDir, check_idle, lock_folder
    from spaql.validation import check_whole

    if options.out:
        check_idle(options.out)
    if options.out and not options.overwrite:
        TrainDir.check_free(options.out)
    if options.overwrite and options.out is None:
        raise ParameterError("--overwrite: needs --out, the folder whose run is replaced")
    run, monitors = _make_run(options), make_monitors(options)
    if options.checkpoint_every is not None:
        check_whole(options.checkpoint_every, "--checkpoint-every", 1)
        if options.out is None:
            raise ParameterError("--checkpoint-every: needs --out, the folder to keep the agent in")
    agent = make_agent(run)
    if options.checkpoint_every is not None:
        agent._require_saving("--checkpoint-every")
    if options.out is None:
        return _begin(options, agent, run, None, monitors)
    with lock_folder(options.out):
        if not options.overwrite:  # another process may have trained there since
            TrainDir.check_free(options.out)
        folder = TrainDir.begin(options.out, run, options.checkpoint_every)
        return _begin(options, agent, run, folder, monitors)


def _begin(options: argparse.Namespace, agent: Any, run: Any, folder: Any, monitors: list[Any]) -> int:
    """Train from the beginning, in a folder or without one."""
    from spaql.runner.train_dir import can_keep

    try:
        if not options.quiet:
            for diagnosis in agent.diagnose(**_find_length(run)):
                say(f"before training: {diagnosis}")
        return _learn(options, agent, run, _find_length(run), folder, monitors)
    except BaseException:
        if folder is not None and not can_keep(agent) and not agent.iterations:
            folder.abandon()
        raise


def _resume(options: argparse.Namespace) -> int:
    from spaql.runner.train_dir import TrainDir, lock_folder

    TrainDir.check_begun(options.resume)
    with lock_folder(options.resume):
        return _continue(options, TrainDir.read(options.resume))


def _continue(options: argparse.Namespace, folder: Any) -> int:
    """Train on in a folder."""
    from dataclasses import replace

    from spaql.cli.monitors import make_monitors
    from spaql.runner.execute import make_agent
    from spaql.validation import check_whole

    monitors = make_monitors(options)
    run, started = folder.run, _find_length(folder.run)
    if options.timesteps is not None:
        run = replace(run, iterations=0, budgets=(check_whole(options.timesteps, "--timesteps", 1),))
    elif options.iterations is not None:
        run = replace(run, iterations=check_whole(options.iterations, "--iterations", 1), budgets=())
    agent: Any = folder.load_agent() or make_agent(run)
    [(name, total)] = _find_length(run).items()
    by_steps = name == "total_timesteps"
    done = agent.num_timesteps if by_steps else agent.iterations
    if total > started.get(name, done):  # longer than as started; in other units, than what the agent has done
        folder = replace(folder, run=run)
    if not agent.iterations:
        if not options.quiet and not agent.can_save:
            say("agents of this class cannot be saved; training starts again")
        return _learn(options, agent, run, {name: total}, folder, monitors)
    is_over = total - done < (agent.steps_per_iteration if by_steps else 1)
    if not options.quiet:
        unit = "timesteps" if by_steps else "iterations"
        over = f"nothing is trained: {done:,} {unit} are done, {total:,} in all were asked for; give a larger --{unit}"
        say(over if is_over else f"continues after {done:,} of {total:,} {unit}")
    return _learn(options, agent, run, {} if is_over else {name: total - done}, folder, monitors)


def _advise(folder: Any, saved: bool) -> str:
    """Return what is left of a run that was stopped."""
    if folder is None:
        return "nothing is kept without --out"
    if not saved:
        return f"nothing is kept, as spaql cannot save {folder.run.algorithm}"
    return f"spaql train --resume {folder.folder} continues, spaql evaluate {folder.folder} evaluates the agent"


def _learn(
    options: argparse.Namespace, agent: Any, run: Any, length: dict[str, int], folder: Any, monitors: list[Any]
) -> int:
    """Train, if there is anything left to learn; evaluate, write and print.

    A run that is stopped only keeps what it learned, as whoever stops it does not want to wait.
    """
    from spaql import atomic_io
    from spaql.agents.files import AGENT
    from spaql.cli.monitors import Termination
    from spaql.runner import summary
    from spaql.runner.train_dir import can_keep

    seconds, code, saved, termination = None, 0, [], Termination()
    try:
        if length:
            checkpoint = None
            if folder is not None:
                folder.prepare(agent, not options.quiet)
                checkpoint = folder.make_checkpoint()
            callbacks = [*([] if checkpoint is None else [checkpoint]), *monitors, termination]
            seconds = summary.train(agent, **length, callback=callbacks, progress_bar=not options.quiet)
        if termination.heard:
            seconds, code = None, 128 + signal.SIGTERM
    except KeyboardInterrupt:
        code = 130
        if not agent.iterations:
            raise
    finally:  # before anything else can fail
        if folder is not None and can_keep(agent):
            saved = [folder.keep(agent)]
            if seconds is None and length and not code and agent.iterations:
                say(f"an error after {agent.iterations:,} iterations; the agent is saved in {saved[0]}")
    if code:
        say(f"stopped after {agent.iterations:,} iterations; {_advise(folder, bool(saved))}")
        if saved:  # what is there of an earlier agent goes
            atomic_io.write_files(folder.folder, {}, [name for name in summary.FILES if name != AGENT])
        return code
    settings: dict[str, Any] = {"episodes": run.episodes, "progress_bar": not options.quiet}
    result = summary.summarize(run.algorithm, agent, seconds=seconds, **settings)
    written = []
    if folder is not None:
        known = [name for name in summary.FILES if not saved or name != AGENT]
        written = [*atomic_io.write_files(folder.folder, summary.summary_files(result), known), *saved]
        folder.finish(agent)
    if folder is not None and not agent.can_save and not options.quiet:
        say(f"{run.algorithm} cannot be saved by spaql; save it by its own means")
    head = f"{agent.problem.name}, H={agent.problem.horizon}, {agent.iterations:,} iterations, seed {agent.seed}"
    findings = [f"diagnosis: {diagnosis}" for diagnosis in result.diagnosis] or ["diagnosis: no problem found"]
    lines = [head, "", summary.summary_table([result]).text(), *findings, *(f"wrote {path}" for path in written)]
    print_result(options, result.to_dict() | {"files": [str(path) for path in written]}, "\n".join(lines))
    return code
