"""`spaql train`, and `spaql train --resume`.

The options of a problem and of an algorithm come from the signatures of the function and of the class that they name,
so that your own have options too: `spaql train my_module:make_tank --algorithm my_module:MyAgent --volume 3`.
"""

import argparse
import inspect
import math
import os
from typing import Any

from spaql.cli.options import (
    Parser,
    add_common,
    add_output,
    add_signature,
    print_result,
    read_keyword,
    read_signature,
    say,
)
from spaql.errors import ParameterError

_TIMESTEPS = 100_000  # to train for, where the problem has no usual number of iterations


def add(commands: Any, words: list[str]) -> None:
    """Add `train`, with its options if it is the command of these words."""
    usage = "spaql train --resume DIR continues a run that was stopped or killed."
    train = commands.add_parser("train", help="train an agent on a problem or Gymnasium environment", epilog=usage)
    if words[:1] != ["train"]:
        return
    if words[1:2] and words[1].partition("=")[0] == "--resume":
        train.prog += " --resume"
        train.add_argument("--resume", metavar="DIR", required=True, help="folder of a run")
        _add_length(train, "in all (as started)", "in all (as started)")
        add_output(train)
        train.set_defaults(run=_resume)
    else:
        _add_options(train, words[1:])


def _add_length(parser: argparse.ArgumentParser, steps: str, iterations: str) -> None:
    """Add `--timesteps` or `--iterations`, with a note to each."""
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--timesteps", type=int, help=f"environment steps, training and selection together {steps}")
    length.add_argument("--iterations", type=int, help=f"training iterations {iterations}")


def _add_options(train: argparse.ArgumentParser, words: list[str]) -> None:
    from spaql.agents import algorithms, resolve
    from spaql.gym.calls import import_function
    from spaql.problems import PROBLEMS

    name = words[0] if words and not words[0].startswith("-") else ""
    make = PROBLEMS.get(name) or import_function(name)  # None for a Gymnasium id
    usual = getattr(make, "iterations", None)
    problems = f"{', '.join(PROBLEMS)}, a Gymnasium id such as CartPole-v1 or package:Name-v0, or module:function"
    train.add_argument("problem", metavar="problem", help=f"{problems}; its options are known if it comes first")
    known = f"{', '.join(algorithms())}, or module:Class; its options are shown then (%(default)s)"
    train.add_argument("--algorithm", default="tessera", metavar="NAME", help=known)
    _add_length(train, "" if usual else f"({_TIMESTEPS})", f"({usual})" if usual else "")
    episodes = 10_000 if usual else 1_000 if name in PROBLEMS else 100
    train.add_argument("--episodes", type=int, default=episodes, help="evaluation episodes (%(default)s)")
    train.add_argument("--out", metavar="DIR", help="write agent, summary, history, cells and figures there")
    train.add_argument("--checkpoint-every", type=int, metavar="STEPS", help="save the agent in DIR every n steps")
    add_common(train)
    if make is not None:
        add_signature(train, "problem", inspect.signature(make).parameters, make)
    if name and name not in PROBLEMS:
        _add_environment(train)
    choice = Parser(prog=train.prog, add_help=False)
    choice.add_argument("--algorithm", default="tessera")
    entry = resolve(argparse.ArgumentParser.parse_known_args(choice, words)[0].algorithm)
    add_signature(train, "algorithm", entry.parameters, entry.cls)
    train.set_defaults(run=_train, usual=usual)


def _add_environment(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("environment")
    text = "range of an observed number, by its name or place; repeat it for several"
    group.add_argument("--bounds", nargs=3, action="append", metavar=("NAME", "LOW", "HIGH"), help=text)
    group.add_argument("--periodic", action="append", metavar="NAME", help="a periodic observed number, as an angle is")
    group.add_argument("--warm-up", type=int, help="random steps to learn unknown ranges and limits from (1000)")
    words: dict[str, Any] = {"type": lambda text: [*map(str.strip, text.split(","))], "metavar": "A,B,..."}
    keywords: dict[str, Any] = {"type": read_keyword, "nargs": "+", "metavar": "NAME=VALUE"}
    for flag, text, kind in (
        ("--horizon", "steps after which an episode is truncated (its own limit)", {"type": int}),
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
        parameters=read_signature(options, "algorithm"),
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
    from spaql.agents.files import AGENT
    from spaql.runner.execute import make_agent
    from spaql.runner.train_dir import TrainDir
    from spaql.validation import check_whole

    run = _make_run(options)
    if options.checkpoint_every is not None:
        check_whole(options.checkpoint_every, "--checkpoint-every", 1)
        if options.out is None:
            raise ParameterError("--checkpoint-every: needs --out, the folder to keep the agent in")
    agent = make_agent(run)
    if options.checkpoint_every is not None:
        agent._require_saving("--checkpoint-every")
    if options.out is not None and not options.quiet and os.path.exists(os.path.join(options.out, AGENT)):
        say(f"the agent in {options.out} will be replaced; spaql train --resume {options.out} would continue it")
    folder = None if options.out is None else TrainDir.begin(options.out, run, options.checkpoint_every)
    if not options.quiet:
        for diagnosis in agent.diagnose(**_find_length(run)):
            say(f"before training: {diagnosis}")
    return _learn(options, agent, run, _find_length(run), folder)


def _resume(options: argparse.Namespace) -> int:
    from dataclasses import replace

    from spaql.runner.execute import make_agent
    from spaql.runner.train_dir import TrainDir
    from spaql.validation import check_whole

    folder = TrainDir.read(options.resume)
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
        return _learn(options, agent, run, {name: total}, folder)
    is_over = total - done < (agent.steps_per_iteration if by_steps else 1)
    if not options.quiet:
        unit = "timesteps" if by_steps else "iterations"
        over = f"nothing is trained: {done:,} {unit} are done, {total:,} in all were asked for; give a larger --{unit}"
        say(over if is_over else f"continues after {done:,} of {total:,} {unit}")
    return _learn(options, agent, run, {} if is_over else {name: total - done}, folder)


def _learn(options: argparse.Namespace, agent: Any, run: Any, length: dict[str, int], folder: Any) -> int:
    """Train, if there is anything left to learn; evaluate, write and print."""
    from spaql import atomic_io
    from spaql.agents.files import AGENT
    from spaql.runner import summary
    from spaql.runner.train_dir import can_keep

    seconds, stopped, saved = None, False, []
    try:
        if length:
            callback = folder.make_checkpoint() if folder is not None else None
            seconds = summary.train(agent, **length, callback=callback, progress_bar=not options.quiet)
    except KeyboardInterrupt:
        stopped = True
        if not agent.iterations:
            raise
        say(f"stopped after {agent.iterations:,} iterations; evaluating the agent")
    finally:  # before anything else can fail
        if folder is not None and can_keep(agent):
            saved = [folder.keep(agent)]
            if seconds is None and length and not stopped and agent.iterations:
                say(f"an error after {agent.iterations:,} iterations; the agent is saved in {saved[0]}")
    settings: dict[str, Any] = {"episodes": run.episodes, "progress_bar": not options.quiet}
    result = summary.summarize(run.algorithm, agent, seconds=seconds, **settings)
    written = []
    if folder is not None:
        known = [name for name in summary.FILES if not saved or name != AGENT]
        written = [*atomic_io.write_files(folder.folder, summary.summary_files(result), known), *saved]
        if not stopped:
            folder.finish(agent)
    if folder is not None and not agent.can_save and not options.quiet:
        say(f"{run.algorithm} cannot be saved by spaql; save it by its own means")
    head = f"{agent.problem.name}, H={agent.problem.horizon}, {agent.iterations:,} iterations, seed {agent.seed}"
    findings = [f"diagnosis: {diagnosis}" for diagnosis in result.diagnosis] or ["diagnosis: no problem found"]
    lines = [head, "", summary.summary_table([result]).text(), *findings, *(f"wrote {path}" for path in written)]
    print_result(options, result.to_dict() | {"files": [str(path) for path in written]}, "\n".join(lines))
    return 130 if stopped else 0
