"""A training run in a folder, which may be killed at any moment and goes on where its last checkpoint was.

`train.json` says what was asked for, before anything is learned; `checkpoint.spaql` is the agent on its way, and is
there until the run is finished; `agent.spaql` is the agent at the end, or where it was stopped.  Each is written under
another name first, so that there is always a whole one.  As an agent goes on exactly (`spaql.agents.files`), a run that was
killed and resumed ends with the same bytes as one that was not.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from spaql import atomic_io
from spaql._version import __version__
from spaql.agents import Agent
from spaql.agents.callbacks import Checkpoint
from spaql.agents.files import AGENT, ON_ITS_WAY, load
from spaql.errors import ParameterError

FORMAT = 1
ASKED = "train.json"
_LARGEST = 1 << 20


@dataclass(frozen=True)
class Run:
    """One run.

    Attributes
    ----------
    folder
        Where it lives.
    arguments
        What was asked for, as words of the command line.
    finished
        Whether it had come to its end when this was read.
    """

    folder: Path
    arguments: tuple[str, ...]
    finished: bool = False

    @classmethod
    def begin(cls, folder: str | os.PathLike[str], arguments: Sequence[str]) -> Self:
        """A new run in a folder; the agent of an earlier one stays until this one has its own."""
        run = cls(atomic_io.check_folder(folder), tuple(arguments))
        atomic_io.clean_folder(run.folder)
        (run.folder / ON_ITS_WAY).unlink(missing_ok=True)  # before it is said what the next one will be of
        run._write(finished=False)
        return run

    @classmethod
    def read(cls, folder: str | os.PathLike[str]) -> Self:
        """The run that was begun in a folder."""
        path = Path(folder) / ASKED
        try:
            if path.stat().st_size > _LARGEST:
                raise ValueError("it is too large")
            told = json.loads(path.read_text("utf-8"))
            arguments, version = told["arguments"], told["format"]
            if not isinstance(arguments, list) or not all(isinstance(word, str) for word in arguments):
                raise ValueError("its arguments are no words")
            if version != FORMAT:
                raise ValueError(f"it has format {version!r:.20} of spaql {told.get('spaql')!r:.20}")
            finished = bool(told["finished"])
        except OSError as error:
            reason = error.strerror or error
            raise ParameterError(
                f"--resume {folder}: no run was begun there ({ASKED}: {reason}); name the folder of spaql train --out"
            ) from None
        except (LookupError, TypeError, ValueError) as error:
            raise ParameterError(f"--resume {folder}: its {ASKED} cannot be read ({error}); train anew") from None
        run = cls(atomic_io.check_folder(folder), tuple(arguments), finished)
        atomic_io.clean_folder(run.folder)
        return run

    def agent(self) -> Agent | None:
        """The agent as far as it is, or None where nothing was kept."""
        for path in (self.folder / ON_ITS_WAY, self.folder / AGENT):
            if path.exists() and (self.finished or path.name == ON_ITS_WAY):  # else it is of an earlier run
                return load(path)
        return None

    def checkpoint(self, every: int) -> Checkpoint:
        """A callback that keeps the agent every so many environment steps."""
        return Checkpoint(every, self.folder, name=ON_ITS_WAY)

    def keep(self, agent: Agent) -> Path:
        """Keep an agent that was stopped on its way."""
        agent.save(self.folder / ON_ITS_WAY)
        return agent.save(self.folder / AGENT)

    def finish(self, agent: Agent) -> None:
        """Keep the agent at the end, if it has learned anything."""
        if agent.iterations:
            agent.save(self.folder / AGENT)
        self._write(finished=True)
        (self.folder / ON_ITS_WAY).unlink(missing_ok=True)

    def _write(self, finished: bool) -> None:
        told = {"format": FORMAT, "spaql": __version__, "arguments": list(self.arguments), "finished": finished}
        atomic_io.write_files(self.folder, {ASKED: json.dumps(told, indent=1) + "\n"})
