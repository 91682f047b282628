"""Parts that commands share: a parser with one-line errors, common options, options from signatures, output."""

from __future__ import annotations

import argparse
import inspect
import json
import math
import re
import sys
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn


class Parser(argparse.ArgumentParser):
    """A parser that reports bad usage in one line."""

    def error(self, message: str) -> NoReturn:
        """Exit with 2."""
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add `--quiet` and `--json`."""
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def add_common(parser: argparse.ArgumentParser) -> None:
    """Add `--seed`, `--quiet` and `--json`."""
    parser.add_argument("--seed", type=int, default=0, help="seed of everything random (%(default)s)")
    add_output(parser)


def add_agent(parser: argparse.ArgumentParser, **options: Any) -> None:
    """Add a trained agent, and `--env`."""
    parser.add_argument("agent", metavar="AGENT", help="folder of spaql train --out, or an agent file", **options)
    parser.add_argument("--env", metavar="ID", help="environment to play, such as package:Name-v0 (the agent's own)")


def add_length(parser: argparse.ArgumentParser, steps: str = "", iterations: str = "") -> None:
    """Add `--timesteps` or `--iterations`, with a note to each."""
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--timesteps", type=int, help=f"environment steps, training and selection together {steps}")
    length.add_argument("--iterations", type=int, help=f"training iterations {iterations}")


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Add the options that select where runs execute."""
    parser.add_argument(
        "--engine",
        choices=("threads", "processes", "dask"),
        help="where runs execute (threads if all problems are compiled, else processes)",
    )
    parser.add_argument("--workers", type=int, metavar="N", help="runs at once (one per processor)")
    parser.add_argument("--address", metavar="ADDRESS", help="of a Dask scheduler, such as tcp://10.0.0.1:8786")
    parser.add_argument("--run-timeout", type=float, metavar="SECONDS", help="stop a run after this time (never)")


def engine_of(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options of `add_engine` as `spaql.sweep` takes them."""
    return {name: getattr(options, name) for name in ("engine", "workers", "address", "run_timeout")}


def add_signature(
    parser: argparse.ArgumentParser, title: str, parameters: Mapping[str, inspect.Parameter], docstring: str | None
) -> None:
    """Add an option for every keyword of a signature; `read_signature` returns those that were given.

    Types come from annotations or defaults, help from the numpydoc section "Parameters".  An option whose name is taken
    already is prefixed with the title.
    """
    group = parser.add_argument_group(title)
    texts = _read_help(docstring or "")
    for name, parameter in parameters.items():
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        flag = f"--{name.replace('_', '-')}"
        flag = f"--{title}{flag[1:]}" if flag in parser._option_string_actions else flag
        has_default = parameter.default is not inspect.Parameter.empty
        text = texts.get(name, "") + (f" ({parameter.default})" if has_default and parameter.default != () else "")
        group.add_argument(
            flag,
            dest=f"{title}.{name}",
            default=argparse.SUPPRESS,
            required=not has_default,
            help=text.strip().replace("%", "%%"),
            **_find_type(parameter),
        )


def read_signature(options: argparse.Namespace, title: str) -> dict[str, Any]:
    """Return the options of `add_signature` that were given, by the name of their keyword."""
    return {name.removeprefix(f"{title}."): v for name, v in vars(options).items() if name.startswith(f"{title}.")}


def _find_type(parameter: inspect.Parameter) -> dict[str, Any]:
    """Return how argparse reads a keyword."""
    annotation = parameter.annotation
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    if annotation is inspect.Parameter.empty:
        text = type(parameter.default).__name__
    if text.startswith("bool"):
        return {"action": argparse.BooleanOptionalAction}
    for kind, read in {"int": int, "float": _read_float, "str": str}.items():
        if text.startswith(kind):
            return {"type": read, "metavar": kind.upper()}
    pair = re.match(r"tuple\[(float(?:, float)*)\]", text)
    count = pair[1].count("float") if pair else "+"
    return {"nargs": count, "type": str if "str" in text else _read_float, "metavar": "X"}


def _read_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"expected a finite number, got {text!r}")
    return value


def _read_help(docstring: str) -> dict[str, str]:
    """Return the first sentence of every parameter of a numpydoc docstring."""
    section = re.search(r"Parameters\n-+\n(.*?)(\n\n\w|\Z)", inspect.cleandoc(docstring), re.DOTALL)
    texts: dict[str, str] = {}
    for names, text in re.findall(r"^(\S.*)\n((?:    .*\n?)+)", section[1] if section else "", re.MULTILINE):
        sentence = re.split(r"[;.:] |[.:]$", " ".join(textwrap.dedent(text).split()))[0]
        texts |= dict.fromkeys(re.split(r", ", names), sentence)
    return texts


def say(sentence: str) -> None:
    """Print a sentence on stderr."""
    print(f"spaql: {sentence}", file=sys.stderr)


def print_json(data: Any) -> None:
    """Print one JSON object."""
    print(json.dumps(data, indent=2, allow_nan=False))


def print_files(paths: Iterable[Path]) -> None:
    """Print the names of written files."""
    for path in paths:
        print(f"wrote {path}")
