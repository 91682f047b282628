"""The folder of `spaql train`, which may be killed at any moment and resumes at its last checkpoint.

`train.json` holds the specification of the run, written before anything is learned; `checkpoint.spaql` is the agent
under way, until the run is finished; `agent.spaql` is the agent at the end, or where it was stopped.  A run that was
killed and resumed ends with the same bytes as one that was not.  Where a run replaces another, the agent of that one
stays until the new one has its own.  A process that trains holds the lock of the folder.
"""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from spaql._version import __version__
from spaql.agents import Agent
from spaql.agents.callbacks import Checkpoint
from spaql.agents.files import AGENT, CHECKPOINT, load
from spaql.agents.progress import announce_compilation
from spaql.atomic_io import check_folder, clean_folder, read_regular, write_file, write_files
from spaql.errors import ParameterError
from spaql.gym.problem import find_function
from spaql.partition.jit import hold_interrupts
from spaql.runner.folder_lock import FolderLock, check_unlocked
from spaql.runner.run_spec import Run, from_specification
from spaql.validation import check_whole, parse_json

FORMAT = 2
SPECIFICATION = "train.json"
LOCK = "train.lock"
_LARGEST = 1 << 20
_TYPES = {"problem": str, "algorithm": str, "seed": int, "iterations": int, "episodes": int, "budgets": list}
_TYPES |= {"arguments": dict, "parameters": dict, "environment": dict}


def can_keep(agent: Agent) -> bool:
    """Whether an agent can be saved, and has a policy: a learned one, or one that needs no learning."""
    return agent.can_save and (agent.iterations > 0 or not agent.learns)


def lock_folder(folder: str | os.PathLike[str]) -> FolderLock:
    """Lock a folder, which is made where it is missing; an OutputError where another process trains there."""
    return FolderLock(check_folder(folder) / LOCK, f"the folder {str(folder)!r}", remove=True)


def check_idle(folder: str | os.PathLike[str]) -> None:
    """Raise an OutputError where another process trains in a folder; nothing is changed."""
    check_unlocked(Path(folder) / LOCK, f"the folder {str(folder)!r}")


def _parse_content(text: bytes) -> tuple[Run, int | None, bool]:
    """Return a run, its `checkpoint_every`, and whether it is finished; a LookupError, TypeError or ValueError else."""
    if len(text) > _LARGEST:
        raise ValueError("it is too large")
    content = parse_json(text)
    version, every = content["format"], content.get("checkpoint_every")
    if version != FORMAT:
        raise ValueError(f"it has format {version!r:.20} of spaql {content.get('spaql')!r:.20}")
    wrong = [name for name, kind in _TYPES.items() if not isinstance(content["run"][name], kind)]
    if wrong:
        raise ValueError(f"its {wrong[0]} is {content['run'][wrong[0]]!r:.40}")
    run = from_specification(json.dumps(content["run"]))
    if every is not None:
        check_whole(every, "checkpoint_every", 1)
    run.id  # noqa: B018  (raises where a value cannot be part of a run)
    return run, every, bool(content["finished"])


@dataclass(frozen=True)
class TrainDir:
    """A folder with one training run."""

    folder: Path
    run: Run  # what to train, and how long: for `iterations`, or for the last of `budgets`
    checkpoint_every: int | None = None  # environment steps between two checkpoints; None for none
    finished: bool = False  # whether the run had reached its end when this was read
    replaced: str | None = None  # specification of the finished run that this one replaces

    @classmethod
    def check_begun(cls, folder: str | os.PathLike[str]) -> None:
        """Raise a ParameterError where no run was begun in a folder, or it cannot be read; nothing is changed."""
        cls._parse(folder)

    @classmethod
    def check_free(cls, folder: str | os.PathLike[str]) -> None:
        """Raise a ParameterError where a folder holds a run or an agent; nothing is changed."""
        path = Path(folder)
        begun, trained = os.path.exists(path / SPECIFICATION), os.path.exists(path / AGENT)
        if not begun and not trained:
            return
        try:
            old, resume = cls._parse(path) if begun else None, f"spaql train --resume {folder}"
        except ParameterError:
            old = None
        if old is None:
            what = f"a run whose {SPECIFICATION} cannot be read" if begun else "an agent"
            raise ParameterError(f"--out {folder}: it holds {what}; choose another folder, or add --overwrite")
        if old.finished:
            longer = "--timesteps" if old.run.budgets else "--iterations"
            what = f"a finished run; {resume} {longer} N trains it further"
        elif (path / CHECKPOINT).exists():
            what = f"an unfinished run; {resume} continues it from its last checkpoint"
        else:
            what = f"an unfinished run without a checkpoint; {resume} starts it again"
        raise ParameterError(f"--out {folder}: it holds {what}, and --overwrite replaces it")

    @classmethod
    def begin(cls, folder: str | os.PathLike[str], run: Run, checkpoint_every: int | None = None) -> Self:
        """Begin a run in a folder; the agent of an earlier one stays until this one has its own.

        Raises a ParameterError where the run cannot be read again from its specification; nothing is changed.
        """
        try:
            _parse_content(cls(Path(folder), run, checkpoint_every)._content(finished=False))
        except (LookupError, TypeError, ValueError, RecursionError) as error:
            reason = f"{SPECIFICATION} cannot hold its arguments or parameters ({error})"
            raise ParameterError(f"--out {folder}: {reason}; give others, or leave --out out") from None
        path = check_folder(folder)
        clean_folder(path)
        replaced = None
        with suppress(ParameterError):
            finished = cls._parse(path).finished
            replaced = read_regular(path / SPECIFICATION, _LARGEST).decode() if finished else None
        if (path / CHECKPOINT).exists():  # before the specification of another run is written
            os.replace(path / CHECKPOINT, path / AGENT)
        begun = cls(path, run, checkpoint_every, replaced=replaced)
        begun._write(finished=False)
        return begun

    def abandon(self) -> None:
        """Leave the folder as if this run had not begun."""
        if self.replaced is None:
            (self.folder / SPECIFICATION).unlink(missing_ok=True)
        else:
            write_files(self.folder, {SPECIFICATION: self.replaced})

    @classmethod
    def read(cls, folder: str | os.PathLike[str]) -> Self:
        """Return the run that was begun in a folder."""
        begun = cls._parse(folder)
        clean_folder(check_folder(folder))
        return begun

    @classmethod
    def _parse(cls, folder: str | os.PathLike[str]) -> Self:
        """Return the run that was begun in a folder, and leave the folder as it is."""
        path = Path(folder) / SPECIFICATION
        try:
            run, every, finished = _parse_content(read_regular(path, _LARGEST))
        except OSError as error:
            reason = f"no run was begun there ({SPECIFICATION}: {error.strerror or error})"
            raise ParameterError(f"--resume {folder}: {reason}; name the folder of spaql train --out") from None
        except (LookupError, TypeError, ValueError) as error:
            reason = f"its {SPECIFICATION} cannot be read ({error})"
            raise ParameterError(f"--resume {folder}: {reason}; train anew") from error
        return cls(Path(folder), run, every, finished)

    def load_agent(self) -> Agent | None:
        """Return the agent as far as it has learned, or None where nothing was kept."""
        for name in (CHECKPOINT, *([AGENT] if self.finished else [])):  # else the agent is of an earlier run
            if (self.folder / name).exists():  # a file cannot name a function
                return load(self.folder / name, find_function(self.run.problem, self.run.arguments))
        return None

    def make_checkpoint(self) -> Checkpoint | None:
        """Return a callback that keeps the agent, or None where no checkpoints were asked for."""
        every = self.checkpoint_every
        return None if every is None else Checkpoint(every, self.folder, name=CHECKPOINT)

    def prepare(self, agent: Agent, progress_bar: bool | None = None) -> None:
        """Compile or load the kernels of `keep` before there is anything to lose: then Ctrl-C can end that."""
        if agent.can_save:
            with announce_compilation("agent files", progress_bar):
                agent._prepare_keep()

    def keep(self, agent: Agent) -> Path:
        """Keep an agent that was stopped under way, quickly; Ctrl-C waits until that is done."""
        with hold_interrupts(shield=True):
            kept = agent._keep(self.folder / CHECKPOINT)
            write_file(self.folder / AGENT, kept.read_bytes())
        return self.folder / AGENT

    def finish(self, agent: Agent) -> None:
        """Keep the agent at the end, if it has a policy and can be saved."""
        if can_keep(agent):
            agent.save(self.folder / AGENT)
        self._write(finished=True)
        (self.folder / CHECKPOINT).unlink(missing_ok=True)

    def _content(self, finished: bool) -> bytes:
        """Return the specification as it is written."""
        content = {
            "format": FORMAT,
            "spaql": __version__,
            "run": json.loads(self.run.specification),
            "checkpoint_every": self.checkpoint_every,
            "finished": finished,
        }
        return f"{json.dumps(content, indent=1)}\n".encode()

    def _write(self, finished: bool) -> None:
        write_files(self.folder, {SPECIFICATION: self._content(finished)})


def find_maker(agent: str | os.PathLike[str], env: str | None = None) -> Callable[[], Any] | None:
    """Return the function that made the problem of an agent's folder, with the arguments of the run.

    None where the folder has no run, its problem is not "module:function", or `env` names another problem.
    """
    path = Path(agent) / SPECIFICATION if Path(agent).is_dir() else Path(agent).with_name(SPECIFICATION)
    try:
        run = from_specification(json.dumps(parse_json(read_regular(path, _LARGEST))["run"]))
        return find_function(run.problem, run.arguments) if env in (None, run.problem) else None
    except (OSError, LookupError, TypeError, ValueError):  # also a ParameterError: the module may be gone
        return None
