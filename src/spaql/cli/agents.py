"""Commands on a trained agent: score it, show it, ship it, have it explain itself."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from spaql.cli.options import say
from spaql.errors import ParameterError


def add(commands: Any) -> None:
    """Add `evaluate`, `show`, `export`, `explain` and `rules`."""
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


def reworded(arguments: list[str]) -> list[str]:
    """Arguments as the parser takes them: a number of `explain` is no option, whatever argparse thinks of -1e-3."""
    if arguments[:1] == ["explain"]:
        return [f" {text}" if _is_negative(text) else text for text in arguments]
    return arguments


def _is_negative(text: str) -> bool:
    try:
        return text.startswith("-") and float(text) <= 0.0
    except ValueError:
        return False


def _evaluate(options: argparse.Namespace) -> int:
    from spaql.agents.files import load
    from spaql.validation import check_whole

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
        told |= {"episodes": options.episodes, "steps": fresh.steps, "arms": len(agent.cells())}
        print(json.dumps(told, indent=2, allow_nan=False))
    else:
        print(f"{type(agent).__name__} on {agent.problem.name}: {fresh}; {len(agent.cells()):,} cells")
    return 0


def _show(options: argparse.Namespace) -> int:
    from spaql.agents.files import load
    from spaql.validation import check_whole

    check_whole(options.seed, "--seed", 0, 2**31 - 1)
    if len(options.agent) > (1 if options.record is not None else 2):
        most = "an episode is recorded of one agent" if options.record is not None else "at most two side by side"
        raise ParameterError(f"show: {most}, got {len(options.agent)}")
    if options.record is not None and options.out is not None:
        raise ParameterError("--out: it names the page, and with --record there is none; use --record FILE")
    agents = [load(path, env=options.env) for path in options.agent]
    for agent in agents:
        print(
            f"{agent!r}\n{agent.iterations:,} iterations, {agent.training_steps:,} training steps, {len(agent.cells()):,} cells"
        )
    return _page(options, agents) if options.record is None else _record(options, agents[0])


def _record(options: argparse.Namespace, agent: Any) -> int:
    from spaql.viz import recording

    target = options.record or recording.recording_beside(options.agent[0])
    path, total, steps = recording.record(agent, target, seed=options.seed)
    print(f"an episode of {steps:,} steps, return {total:.4g}\nwrote {path}")
    return 0


def _page(options: argparse.Namespace, agents: list[Any]) -> int:
    from spaql.agents.inspection import page_beside, write_page

    path = write_page(agents, options.out or page_beside(*options.agent), seed=options.seed)
    print(f"wrote {path}")
    if not options.no_open and sys.stdout.isatty():
        import webbrowser

        if not webbrowser.open(path.resolve().as_uri()):
            say("no browser was found; open the file in one")
    return 0


def _export(options: argparse.Namespace) -> int:
    from spaql.agents.files import load
    from spaql.export import export

    told = export(load(options.agent, env=options.env).to_policy(), options.file, name=options.name).measure()
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
    from spaql.agents.files import load
    from spaql.explain.explanation import make_observation

    agent = load(options.agent, env=options.env)
    observation = make_observation(agent.problem, options.numbers)
    told = agent.explain(observation, step=options.step, runners_up=options.runners_up, **_called(options))
    print(json.dumps(told.to_dict(), indent=2, allow_nan=False) if options.json else told)
    return 0


def _rules(options: argparse.Namespace) -> int:
    from pathlib import Path

    from spaql.agents.files import load

    agent = load(options.agent, env=options.env)
    rules = agent.rules(step=options.step, **_called(options))
    text = {"text": rules.describe, "markdown": rules.markdown, "json": rules.json}[options.format]()
    if options.out is None:
        print(text)
        return 0
    from spaql import atomic_io

    path = Path(options.out)
    atomic_io.write_file(path, f"{text}\n".encode())
    print(f"wrote {path}")
    return 0


def _called(options: argparse.Namespace) -> dict[str, list[str] | None]:
    """The user's own words."""
    given = {"names": options.names, "actions": options.actions}
    return {what: None if text is None else [word.strip() for word in text.split(",")] for what, text in given.items()}
