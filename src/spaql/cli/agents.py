"""Commands on a trained agent: `evaluate`, `show`, `export`, `explain` and `rules`."""

import argparse
import re
import sys
from pathlib import Path
from typing import Any

from spaql.cli.options import add_command, add_output, print_result, read_count, say
from spaql.errors import ParameterError


def add(commands: Any) -> None:
    """Add the commands."""
    evaluate = _add(commands, "evaluate", _evaluate, "evaluate a trained agent on new episodes")
    evaluate.add_argument("--episodes", type=read_count, default=1000, metavar="N", help="to play (%(default)s)")
    evaluate.add_argument("--seed", type=int, metavar="N", help="seed of the episodes (the agent's own)")
    add_output(evaluate)
    show = _add(commands, "show", _show, "inspect one or two trained agents on a page; or record an episode", nargs="+")
    show.add_argument("--out", metavar="FILE", help="the page (beside the agent, by its name)")
    show.add_argument("--no-open", action="store_true", help="do not open the page in a browser")
    text = "instead: play an episode and save it as .gif or .mp4 (episode.gif in the folder)"
    show.add_argument("--record", nargs="?", const="", metavar="FILE", help=text)
    show.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the episode (%(default)s)")
    export = _add(commands, "export", _export, "write the policy of a trained agent as C, Python, JSON or ONNX")
    export.add_argument("file", metavar="FILE", help="the file; its suffix is .c, .h, .py, .json or .onnx")
    export.add_argument("--name", help="name of the C function, before _act (the name of the file)")
    explain = _add(commands, "explain", _explain, "explain the action of a trained agent for one observation")
    text = "the observation, number by number, or as NAME=NUMBER with the names that rules prints"
    explain.add_argument("numbers", nargs="+", metavar="NUMBER", help=text)
    explain.add_argument("--runners-up", type=int, default=3, metavar="N", help="other actions shown (%(default)s)")
    rules = _add(commands, "rules", _rules, "print the policy of a trained agent as a list of rules")
    rules.add_argument("--format", choices=("text", "markdown", "json"), default="text", help="(%(default)s)")
    rules.add_argument("--out", metavar="FILE", help="write to a file instead of stdout")
    rules.add_argument("--at-most", type=int, metavar="N", help="approximate the policy by at most so many rules")
    text = "what these may lose, as a share of the gain over random actions (0.01)"
    rules.add_argument("--max-loss", type=float, metavar="SHARE", help=text)
    rules.add_argument("--episodes", type=read_count, help="new episodes in which the loss is measured (200)")
    rules.add_argument("--seed", type=int, help="seed of these episodes (the agent's own)")
    text = "whether short rules may compare a combination of two numbers (--oblique)"
    rules.add_argument("--oblique", action=argparse.BooleanOptionalAction, help=text)
    for parser in (export, explain):
        parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    for parser in (explain, rules):
        parser.add_argument("--step", type=int, default=0, help="time step, for time-variant agents (%(default)s)")
        words: dict[str, Any] = {"type": lambda text: [*map(str.strip, text.split(","))], "metavar": "A,B,..."}
        parser.add_argument("--names", help="names of the observed numbers", **words)
        parser.add_argument("--actions", help="names of the actions, or of their numbers", **words)


def _add(commands: Any, name: str, run: Any, text: str, **options: Any) -> argparse.ArgumentParser:
    parser = add_command(commands, name, run, text)
    parser.add_argument("agent", metavar="AGENT", help="folder of spaql train --out, or an agent file", **options)
    parser.add_argument("--env", metavar="ID", help="environment to play, such as package:Name-v0 (the agent's own)")
    return parser


def reword(words: list[str]) -> list[str]:
    """Mark negative numbers of `explain`, which argparse would take for options: -1e-3."""
    return [re.sub(r"^-(?=[\d.]|inf|nan)", " -", word) for word in words] if words[:1] == ["explain"] else words


def _load(options: argparse.Namespace) -> Any:
    from spaql.agents.files import load

    return load(options.agent, env=options.env)


def _load_to_play(path: str, env: str | None) -> Any:
    """Load an agent with its environment, also one that a function made with arguments, which no agent file names."""
    from spaql.agents.files import load
    from spaql.gym.description import is_described
    from spaql.runner.train_dir import find_maker

    agent = load(path, env=(env and find_maker(path, env)) or env)
    make = find_maker(path) if is_described(agent.problem) else None
    return agent if make is None else load(path, env=make)


def _evaluate(options: argparse.Namespace) -> None:
    from spaql.agents.partition_agent import count_cells
    from spaql.agents.registry import name_of, resolve
    from spaql.validation import check_whole

    check_whole(options.episodes, "--episodes", 2)
    agent = _load_to_play(options.agent, options.env)
    evaluation = agent.evaluate(options.episodes, seed=options.seed, progress_bar=not options.quiet)
    low, high = evaluation.interval
    name, cells = name_of(agent), count_cells(agent)
    data = {"problem": agent.problem.name, "algorithm": name, "mean": evaluation.mean, "low": low, "high": high}
    data |= {"episodes": options.episodes, "steps": evaluation.steps, "cells": cells}
    counted = "" if cells is None else f"; {cells:,} cells"
    print_result(options, data, f"{resolve(name).label} on {agent.problem.name}: {evaluation}{counted}")


def _show(options: argparse.Namespace) -> None:
    from spaql.agents import inspection
    from spaql.validation import check_whole
    from spaql.viz import recording

    check_whole(options.seed, "--seed", 0, 2**31 - 1)
    if len(options.agent) > (1 if options.record is not None else 2):
        most = "an episode is recorded of one agent" if options.record is not None else "at most two side by side"
        raise ParameterError(f"show: {most}, got {len(options.agent)}")
    if options.record is not None and options.out is not None:
        raise ParameterError("--out: it names the page, and with --record there is none; use --record FILE")
    page = inspection.page_beside(*options.agent)
    agents = [_load_to_play(path, options.env) for path in options.agent]
    for agent in agents:
        counts = f"{agent.iterations:,} iterations, {agent.training_steps:,} training steps"
        print(f"{agent!r}\n{counts}, {len(agent.cells()):,} cells")
    if options.record is not None:
        path = Path(options.record) if options.record else page.with_name("episode.gif")
        total, steps = recording.record(agents[0], path, seed=options.seed)
        print(f"an episode of {steps:,} steps, return {total:.4g}\nwrote {path}")
        return
    path = inspection.write_page(agents, options.out or page, seed=options.seed)
    print(f"wrote {path}")
    if not options.no_open and sys.stdout.isatty():
        import webbrowser

        if not webbrowser.open(path.resolve().as_uri()):
            say("no browser was found; open the file in one")


def _export(options: argparse.Namespace) -> None:
    from spaql.export import export
    from spaql.export.compiler import measure

    policy = _load(options).to_policy()
    sizes = measure(policy, export(policy, options.file, name=options.name))
    tables = f", {sizes['table_bytes']:,} bytes of tables" if sizes["table_bytes"] is not None else ""
    time = "not measured: " + ("no C compiler" if tables else "only C is")
    if sizes["nanoseconds"] is not None:
        time = f"{sizes['nanoseconds']:.0f} ns, at random states"
    text = f"wrote {sizes['file']}: {sizes['bytes']:,} bytes{tables}\n{sizes['nodes']:,} comparisons, "
    print_result(options, sizes, f"{text}at most {sizes['depth']} per decision; time per decision {time}")


def _explain(options: argparse.Namespace) -> None:
    from spaql.explain.explanation import make_observation

    numbers = _read_numbers(options.numbers)
    agent = _load(options)
    labels = {"names": options.names, "actions": options.actions}
    observation = make_observation(agent.problem, numbers, options.names)
    explanation = agent.explain(observation, step=options.step, runners_up=options.runners_up, **labels)
    print_result(options, explanation.to_dict(), str(explanation))


def _read_numbers(words: list[str]) -> list[float] | dict[str, float]:
    """Return the numbers of words such as 18 or room=18, of one kind or the other."""
    pairs = [word.rpartition("=") for word in words]
    mixed = next((word for word, pair in zip(words, pairs, strict=True) if bool(pair[1]) != bool(pairs[0][1])), None)
    if mixed is not None:
        raise ParameterError(f"explain: {mixed!r} among others; write all numbers as NAME=NUMBER, or none")
    names, numbers = [name.strip() for name, _, _ in pairs], []
    for word, (_, _, text) in zip(words, pairs, strict=True):
        try:
            numbers.append(float(text))
        except ValueError:
            raise ParameterError(f"explain: expected a number or NAME=NUMBER, got {word.strip()!r}") from None
    if pairs[0][1] and len(set(names)) < len(names):
        raise ParameterError(f"explain: {max(names, key=names.count)!r} is given twice")
    return dict(zip(names, numbers, strict=True)) if pairs[0][1] else numbers


def _rules(options: argparse.Namespace) -> None:
    from spaql import atomic_io

    keywords = ("at_most", "max_loss", "episodes", "seed", "oblique", "step", "names", "actions")
    # Short rules are compared with the policy in episodes.
    agent = _load(options) if options.at_most is None else _load_to_play(options.agent, options.env)
    rules = agent.rules(**{name: getattr(options, name) for name in keywords})
    text = {"text": rules.describe, "markdown": rules.markdown, "json": rules.json}[options.format]()
    if options.out is None:
        print(text)
    else:
        atomic_io.write_file(Path(options.out), f"{text}\n".encode())
        print(f"wrote {options.out}")
