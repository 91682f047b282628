"""The command line: parses strings, prints; no arithmetic.

Results go to stdout, progress and messages to stderr.  Exit code 0 on success, 2 with one sentence on bad input, 130
after Ctrl-C.  Everything heavy is imported inside the commands, so that `--help` answers at once.

    train       train, and go on with a run
    agents      evaluate, show, export, explain, rules
    studies     demo, paper, ablation, families, control
    sweeps      sweep, tune
    bench       bench
    parsing     what they share

Each module of commands has `add`, which adds their parsers; a parser's default `run` is what does the command.  `run`
takes the options, among them `arguments`, the words after the command, and `parser`, that of the whole command line.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence

from spaql._version import __version__
from spaql.cli import agents, bench, studies, sweeps, train
from spaql.cli.parsing import Parser, say
from spaql.errors import SpaqlError


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="spaql", description="Reinforcement learning with a policy you can read.")
    parser.add_argument("--version", action="version", version=f"spaql {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command", parser_class=Parser)
    for group in (train, agents, studies, sweeps, bench):
        group.add(commands)
    return parser


def _of_printing(error: OSError) -> bool:
    """Whether it was raised where a module of this package prints, and not, for instance, by an environment."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return at is not None and os.path.dirname(at.tb_frame.f_code.co_filename) == os.path.dirname(__file__)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that cannot show a letter shows a question mark
            stream.reconfigure(errors="replace")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # a module beside the user is found, as with `python -m`
    parser = _parser()
    words = sys.argv[1:] if arguments is None else list(arguments)
    for group in (train, agents, sweeps):
        words = group.reworded(words)
    options = parser.parse_args(words)
    options.arguments, options.parser = words[1:], parser
    try:
        code = int(options.run(options))
        sys.stdout.flush()
        return code
    except SpaqlError as error:
        say(str(error))
        return 2
    except MemoryError:
        say("not enough memory; ask for fewer rollouts, a shorter horizon or fewer dimensions")
        return 2
    except KeyboardInterrupt:
        say("stopped")
        return 130
    except OSError as error:
        if not _of_printing(error):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):  # the reader has seen enough
            return 0
        say(f"the output cannot be written: {error.strerror}")
        return 2
