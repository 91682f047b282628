"""Callbacks of `spaql train`: evaluations that are printed, logs, and SIGTERM.

Imported by the command only when it trains, as the help must not load the compiler.
"""

import argparse
import signal
import sys
import threading
from typing import Any

from tqdm import tqdm

from spaql.agents.callbacks import Callback, Evaluate, Log
from spaql.agents.loggers import make_logger
from spaql.errors import ParameterError
from spaql.validation import check_whole

_EPISODES = 20


class PrintedEvaluate(Evaluate):
    """Evaluate, and print the result on stderr."""

    def call(self, agent: Any) -> bool:
        """Evaluate and print; return whether to go on."""
        goes_on = super().call(agent)
        result = self.results[-1]
        score = f"{result.mean:.4g} [{result.low:.4g}, {result.high:.4g}]"
        tqdm.write(f"spaql: evaluation after {result.steps:,} timesteps: {score}", file=sys.stderr)
        return goes_on


class Termination(Callback):
    """Stop learning after SIGTERM, between two iterations; a second SIGTERM ends the process."""

    heard = False

    def begin(self, agent: Any) -> None:
        """Listen, where signals can be heard: in the main thread."""
        self._before = None
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTERM, self._hear)

    def _hear(self, number: int, frame: object) -> None:
        self.heard = True
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def call(self, agent: Any) -> bool:
        """Return whether to go on."""
        return not self.heard

    def end(self, agent: Any) -> None:
        """Leave the signal to whoever had it before."""
        if self._before is not None and not self.heard:
            signal.signal(signal.SIGTERM, self._before)


def make_monitors(options: argparse.Namespace) -> list[Callback]:
    """Return the callbacks that `--eval-every`, `--eval-episodes` and `--log` describe."""
    monitors: list[Callback] = []
    if options.eval_every is not None:
        every = check_whole(options.eval_every, "--eval-every", 1)
        episodes = _EPISODES if options.eval_episodes is None else options.eval_episodes
        evaluate = Evaluate if options.quiet else PrintedEvaluate
        monitors.append(evaluate(every, check_whole(episodes, "--eval-episodes", 2)))
    elif options.eval_episodes is not None:
        raise ParameterError("--eval-episodes: needs --eval-every, the steps from one evaluation to the next")
    return monitors if options.log is None else [*monitors, Log(make_logger(options.log))]
