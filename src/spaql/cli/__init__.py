"""The command line: parse strings, call the library, print.

Results go to stdout, progress and messages to stderr.  The exit code is 0 on success, 2 with one sentence on bad input,
130 after Ctrl-C, 143 after SIGTERM.  An ignored SIGINT stays ignored, as for any Unix program.

The top layer: may import everything, but inside the commands, so that `--help` answers at once.  Public seam: `main`.
Each module has `add`, which adds its parsers; a parser's default `run` is a function of the parsed options that returns
the exit code, or None for 0.
"""

import argparse
import errno
import io
import os
import sys
from collections.abc import Sequence

from spaql._version import __version__
from spaql.cli import agents, studies, sweeps, train
from spaql.cli.options import Parser, say
from spaql.errors import ParameterError, SpaqlError

_MISNAMED = (errno.ENOENT, errno.ENAMETOOLONG, errno.ENOTDIR, errno.EACCES)  # errors that a wrong name has
_EXAMPLES = """\
examples:
  spaql train CartPole-v1 --timesteps 10000 --out results/cartpole
  spaql evaluate results/cartpole
  spaql show results/cartpole
  spaql train --help
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that cannot show a letter shows a question mark
            stream.reconfigure(errors="replace")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # so that modules in the current folder are found, as with `python -m`
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        _check_words(words)
        options = _parse(words)
        code = int(options.run(options) or 0)
        sys.stdout.flush()
        return code
    except SpaqlError as error:
        for sentence in (str(error), *getattr(error, "__notes__", ())):
            say(sentence)
        return 2
    except MemoryError:
        say("not enough memory; use fewer rollouts, a shorter horizon or fewer dimensions")
        return 2
    except KeyboardInterrupt:
        say("stopped")
        return 130
    except OSError as error:
        if _names_word(error, words):
            say(f"{error.filename!r}: {error.strerror}; check the name")
            return 2
        if not _is_of_printing(error):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):  # the reader has seen enough
            return 0
        say(f"the output cannot be written: {error.strerror}")
        return 2


def _parse(words: list[str]) -> argparse.Namespace:
    parser = Parser(
        prog="spaql",
        description="Reinforcement learning with a policy you can read.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"spaql {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command", parser_class=Parser)
    train.add(commands, words)
    for group in (agents, studies, sweeps):
        group.add(commands)
    for group in (agents, sweeps):
        words = group.reword(words)
    return parser.parse_args(words)


def _check_words(words: Sequence[str]) -> None:
    """Raise a ParameterError where a word is no name of a file or text on this system."""
    for word in words:
        if "\0" in word:
            raise ParameterError(f"the argument {word!r:.80} holds a null character; leave it out")


def _names_word(error: OSError, words: Sequence[str]) -> bool:
    """Return whether an error says that a word of the command line, or a path within it, is no path on this system."""
    if error.errno not in _MISNAMED:
        return False
    parts = _split(os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else "")
    return any(parts[: len(named)] == named for word in words if word.strip("./") and (named := _split(word)))


def _split(path: str) -> list[str]:
    return os.path.normpath(path).split(os.sep)


def _is_of_printing(error: OSError) -> bool:
    """Return whether an error was raised where this package prints, and not, for instance, by an environment."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return at is not None and os.path.dirname(at.tb_frame.f_code.co_filename) == os.path.dirname(__file__)
