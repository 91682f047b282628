"""Parts that commands share: a parser with one-line errors, common options, options from signatures, output."""

import argparse
import inspect
import json
import math
import re
import signal
import sys
import textwrap
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import suppress
from types import NoneType, SimpleNamespace, UnionType
from typing import Any, Literal, NoReturn, Union, get_args, get_origin, get_type_hints

_LONGEST = 1000  # characters of a message


class Parser(argparse.ArgumentParser):
    """A parser that reports bad usage in one line; that of a command names the help of this command."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse all arguments; argparse would leave those that a command does not know to the parser above it."""
        namespace, unknown = super().parse_known_args(args, namespace)
        return self.error(f"unrecognized arguments: {' '.join(unknown)}") if unknown else (namespace, unknown)

    def error(self, message: str) -> NoReturn:
        """Exit with 2."""
        whole, number = "a whole number", "a number"
        for kind, expected in (("int", whole), ("read_count", whole), ("float", number), ("_read_float", number)):
            message = message.replace(f"invalid {kind} value:", f"expected {expected}, got")
        self.exit(2, f"{self.prog}: {_shorten(message)} (see {self.prog} --help)\n")


def add_command(commands: Any, name: str, run: Callable[[argparse.Namespace], int | None], text: str) -> Parser:
    """Add a command that calls `run`, which returns the exit code; None is 0."""
    parser: Parser = commands.add_parser(name, help=text, description=describe(text))
    parser.set_defaults(run=run)
    return parser


def describe(text: str) -> str:
    """Return the line of a command in a list of commands as a sentence, for its own help."""
    return f"{text[0].upper()}{text[1:]}."


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add `--quiet` and `--json`."""
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def add_common(parser: argparse.ArgumentParser) -> None:
    """Add `--seed`, `--quiet` and `--json`."""
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of everything random (%(default)s)")
    add_output(parser)


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Add the options that select where runs execute."""
    text = "where runs execute (threads where all problems and algorithms are built in, else processes)"
    parser.add_argument("--engine", choices=("threads", "processes", "dask"), help=text)
    parser.add_argument("--workers", type=int, metavar="N", help="runs at once (one per processor)")
    parser.add_argument("--address", metavar="ADDRESS", help="Dask scheduler, such as tcp://10.0.0.1:8786")
    parser.add_argument("--run-timeout", type=float, metavar="SECONDS", help="stop a run after this time (never)")


def engine_of(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options of `add_engine` as `spaql.sweep` takes them."""
    from spaql.validation import check_whole  # here: other commands need no NumPy to show their help

    if options.workers is not None:
        check_whole(options.workers, "--workers", 1, 100_000)
    return {name: getattr(options, name) for name in ("engine", "workers", "address", "run_timeout")}


def add_signature(
    parser: argparse.ArgumentParser,
    title: str,
    parameters: Mapping[str, inspect.Parameter],
    source: Any,
    *,
    heading: str | None = None,
    given: Container[str] = (),
) -> None:
    """Add an option for every keyword of a class or function; `read_signature` returns those that were given.

    Types come from annotations, else from defaults, help from the numpydoc section "Parameters".  An option whose name
    is taken already is prefixed with the title.  The help has them under a heading, by default the title; keywords in
    `given` need no option even where they have no default.
    """
    group = parser.add_argument_group(heading or title)
    texts: dict[str, str] = {}
    hints = _resolve_hints(source, parameters)
    for documented in reversed(source.__mro__ if isinstance(source, type) else [source]):
        texts |= _read_help(documented.__doc__ or "")
    for name, parameter in parameters.items():
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        flag = f"--{name.replace('_', '-')}"
        flag = f"--{title}{flag[1:]}" if flag in parser._option_string_actions else flag
        has_default = parameter.default is not inspect.Parameter.empty
        default = f" ({parameter.default})" if has_default and parameter.default not in (None, ()) else ""
        text = texts.get(name, "") + default
        kind = _find_type(hints.get(name, inspect.Parameter.empty), parameter.default)
        required = not has_default and name not in given
        kind |= {"dest": f"{title}.{name}", "default": argparse.SUPPRESS, "required": required}
        group.add_argument(flag, help=text.strip().replace("%", "%%"), **kind)


def read_signature(options: argparse.Namespace, title: str) -> dict[str, Any]:
    """Return the options of `add_signature` that were given, by the name of their keyword."""
    return {name.removeprefix(f"{title}."): v for name, v in vars(options).items() if name.startswith(f"{title}.")}


def _resolve_hints(source: Any, parameters: Mapping[str, inspect.Parameter]) -> dict[str, Any]:
    """Return the annotations as types, one by one; without those that name something only type checkers import."""
    function = inspect.unwrap(source.__init__ if isinstance(source, type) else source)  # type: ignore[misc]
    hints: dict[str, Any] = {}
    for name, parameter in parameters.items():
        holder = SimpleNamespace(__annotations__={name: parameter.annotation})
        with suppress(Exception):  # whatever evaluating a user's annotation raises
            hints |= get_type_hints(holder, globalns=getattr(function, "__globals__", {}))
    return hints


def _find_type(hint: Any, default: Any) -> dict[str, Any]:
    """Return how argparse reads a keyword: by its annotation, else by its default, else any one value."""
    from numpy.typing import ArrayLike  # here: other commands need no NumPy to show their help

    if hint is inspect.Parameter.empty and isinstance(default, bool | int | float | str | list | tuple):
        hint = type(default)
    members = _split_union(hint)
    if members == [bool]:
        return {"action": argparse.BooleanOptionalAction}
    if any(get_origin(member) is Literal for member in members):
        values = [value for member in members for value in get_args(member) if value is not None]
        names = {str(value): value for value in values}
        return {"type": lambda text: names.get(text, text), "choices": values}
    if hint == ArrayLike:
        return {"nargs": "+", "type": _read_float, "metavar": "X"}
    scalars = [member for member in members if not _is_sequence(member)]
    if len(members) > len(scalars) > 0:
        read, metavar = _find_reader(scalars)
        return {"type": read, "metavar": metavar, "nargs": "+", "action": _OneOrMore}
    if not scalars:
        items = get_args(members[0])
        fixed = (get_origin(members[0]) or members[0]) is tuple and items and Ellipsis not in items
        same = items and all(item in (items[0], Ellipsis) for item in items)
        read, _ = _find_reader(_split_union(items[0])) if same else (_read_value, "")
        return {"nargs": len(items) if fixed else "+", "type": read, "metavar": "X"}
    read, metavar = _find_reader(members)
    return {"type": read, "metavar": metavar}


class _OneOrMore(argparse.Action):
    """Store one value by itself, and several as a list."""

    def __call__(
        self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: str | None = None
    ) -> None:
        setattr(namespace, self.dest, values[0] if len(values) == 1 else values)


def _split_union(hint: Any) -> list[Any]:
    """Return the members of a union without None; a list of one for other annotations."""
    if get_origin(hint) not in (Union, UnionType):
        return [hint]
    return [member for member in get_args(hint) if member is not NoneType]


def _is_sequence(hint: Any) -> bool:
    kind = get_origin(hint) or hint
    return isinstance(kind, type) and issubclass(kind, Iterable) and not issubclass(kind, str | bytes | Mapping)


def _find_reader(members: Iterable[Any]) -> tuple[Callable[[str], Any], str]:
    """Return the function that reads one value of these types, and its name in the help."""
    members = list(members)
    if bool in members:
        return lambda text: {"true": True, "false": False}.get(text.lower(), text), "VALUE"
    known = {member for member in members if member in (int, float, str)}
    if known == {str} or known == {int}:
        return (str, "STR") if str in known else (int, "INT")
    return (_read_float, "FLOAT") if known and str not in known else (_read_value, "VALUE")


def _read_value(text: str) -> int | float | str:
    """Return a number where the text is one, else the text."""
    for read in (int, _read_float):
        with suppress(ValueError):
            return read(text)
    return text


def read_count(text: str) -> int:
    """Return a whole number, which may be written as 1e4."""
    with suppress(ValueError):
        return int(text)
    number = float(text)
    if not number.is_integer():
        raise ValueError
    return int(number)


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


def read_keyword(text: str) -> tuple[str, Any]:
    """Return the name and the value of a word NAME=VALUE; the value is JSON, else text."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, got {text!r}")
    with suppress(ValueError):
        return name, json.loads(value)
    return name, value


def say(sentence: str) -> None:
    """Print a sentence on stderr, in one line."""
    print(f"spaql: {_shorten(sentence)}", file=sys.stderr)


def _shorten(sentence: str) -> str:
    """Return a sentence as one printable line, cut where what it quotes is very long."""
    line = "".join(letter if letter.isprintable() else " " for letter in " ".join(sentence.split()))
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST // 2]} ... {line[-_LONGEST // 2 :]}"


def print_result(options: argparse.Namespace, data: Any, text: str) -> None:
    """Print one JSON object with `--json`, else the text."""
    print(json.dumps(data, indent=2, allow_nan=False) if options.json else text)


def say_stopped(error: KeyboardInterrupt, folder: str) -> int:
    """Say that a signal stopped a study, and return the exit code."""
    say(f"stopped; finished runs are kept in {folder}, and the same command resumes")
    return 128 + int(error.args[0] if error.args else signal.SIGINT)
