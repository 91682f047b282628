"""Agents in files: a zip of one JSON and NumPy arrays, nothing that could be executed.

`docs/format.md` describes them for readers in any language.  `agent.json` names the agent and its parameters, the
problem, and for each array its length and SHA-256; the arrays are `.npy` files, read with `allow_pickle=False`.  Sizes
are checked before anything is read, and indices and numbers before anything is made of them.  Reading runs nothing:
the environment is made when the agent first plays, and then from what is registered under its id, for which the module
that the id names is imported.  A file is written under another name first, so that an interrupt, or the end of the
process, leaves the old one or the new one.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spaql import atomic_io
from spaql._version import __version__
from spaql.agents.base import Agent
from spaql.agents.registry import algorithms, name_of
from spaql.errors import AgentFileError, ParameterError, SpaqlError
from spaql.gym.resolve import described, reopened
from spaql.partition.spaces import Discrete
from spaql.problems.base import Playable

FORMAT = 1
SUFFIX = ".spaql"
AGENT, ON_ITS_WAY = f"agent{SUFFIX}", f"checkpoint{SUFFIX}"  # in the folder of a run: at the end, and before it
_HEAD = "agent.json"
_LARGEST_HEAD = 4 << 20
_MOST_MEMBERS = 100
# What a file may unpack to: arrays shrink to a tenth or so, and a file that claims much more was made to harm.
_SMALL, _RATIO = 32 << 20, 100
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_DAMAGE = (  # all that reading something else than an agent's file can raise
    zipfile.BadZipFile,
    zlib.error,
    OSError,
    EOFError,
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,  # encrypted, or of a compression that this Python does not know
    SyntaxError,
    TypeError,
    ValueError,
)
_DATE = (1980, 1, 1, 0, 0, 0)  # so that equal agents make equal files


def save(agent: Agent, path: str | os.PathLike[str]) -> Path:
    """Write an agent to a file, all of it or, where that fails, nothing; the path, with a suffix where it had none."""
    target = _path(path, "save")
    target = target if target.suffix else target.with_suffix(SUFFIX)
    arrays = {name: np.ascontiguousarray(array) for name, array in agent._state().items()}
    packed = {name: _npy(array) for name, array in arrays.items()}
    head = {
        "format": FORMAT,
        "spaql": __version__,
        "algorithm": _algorithm(agent),
        "seed": agent.seed,
        "parameters": agent.get_params(),
        "problem": described(agent.problem),
        "numbers": agent._numbers(),
        "evaluation": agent.recorded_evaluation,
        "arrays": {
            name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in packed.items()
        },
    }
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        members = {_HEAD: json.dumps(head, indent=1, allow_nan=False).encode()}
        members |= {f"{name}.npy": array for name, array in packed.items()}
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name, _DATE), content, zipfile.ZIP_DEFLATED, 1)
    atomic_io.write_file(target, data.getbuffer())
    return target


def load(path: str | os.PathLike[str], env: Any = None) -> Agent:
    """Read an agent from a file, or from a folder that `spaql train` wrote.

    Parameters
    ----------
    path
        The file, with or without its suffix, or the folder.
    env
        What it learned on: a problem or environment as agents take it.  Needed where the file cannot name it: a
        compiled problem of your own, or an environment without an id or with wrappers that only your code can make.

    Raises
    ------
    AgentFileError
        Where it is no agent file, or a damaged or newer one.
    """
    source = _path(path, "load")
    if os.path.isdir(source):
        source = source / AGENT
    elif not source.suffix and not os.path.exists(source):
        source = source.with_suffix(SUFFIX)  # as `save` has named it
    try:
        with zipfile.ZipFile(source) as archive:
            _check_sizes(archive, source)
            head = _head(archive, source)
            if sorted(archive.namelist()) != sorted([_HEAD, *(f"{name}.npy" for name in head["arrays"])]):
                raise AgentFileError(f"{source}: it does not hold the arrays that it names, and nothing else")
            arrays = {name: _array(archive, name, entry, source) for name, entry in head["arrays"].items()}
    except FileNotFoundError:
        begun = os.path.exists(source.with_name(ON_ITS_WAY))
        how = (
            "a run was begun there: spaql train --resume goes on with it"
            if begun
            else ("agent.save writes one, and so does spaql train --out")
        )
        raise AgentFileError(f"{source}: there is no such file; {how}") from None
    except _DAMAGE as error:
        if isinstance(error, SpaqlError):
            raise
        raise AgentFileError(f"{source}: this is no agent file, or a damaged one ({_line(error)})") from None
    return _agent(head, arrays, env, source)


def _check_sizes(archive: zipfile.ZipFile, source: Path) -> None:
    """Refuse what is packed so that a small file would fill the memory."""
    members = archive.infolist()
    if any(member.compress_type not in _METHODS or member.flag_bits & 1 for member in members):
        raise AgentFileError(f"{source}: it is packed or encrypted in another way than agent files are")
    unpacked, packed = sum(member.file_size for member in members), os.path.getsize(source)
    if len(members) > _MOST_MEMBERS or unpacked > max(_SMALL, _RATIO * packed):
        raise AgentFileError(
            f"{source}: it would unpack to {unpacked:,} bytes in {len(members):,} parts, as no agent of its size does"
        )


def _path(path: Any, what: str) -> Path:
    if isinstance(path, str | os.PathLike) and os.fspath(path) and "\0" not in str(path):
        return Path(path)
    raise ParameterError(f"{what}: expected the path of a file, got {path!r:.80}")


def _head(archive: zipfile.ZipFile, source: Path) -> dict[str, Any]:
    info = archive.getinfo(_HEAD)
    if info.file_size > _LARGEST_HEAD:
        raise AgentFileError(f"{source}: its {_HEAD} is too large to be one")
    head = json.loads(_bytes(archive, info))
    version = head.get("format")
    if not isinstance(version, int) or version < 1:
        raise AgentFileError(f"{source}: this is no agent file of spaql")
    if version > FORMAT:
        raise AgentFileError(
            f"{source}: it has format {version} of spaql {head.get('spaql')}, and this spaql {__version__} reads up to "
            f"{FORMAT}; install a newer one"
        )
    return dict(head)


def _bytes(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """What a member holds, but never more than it says; its checksum is seen to at its end."""
    with archive.open(info) as member:
        data = member.read(info.file_size)
        if len(data) != info.file_size or member.read(1):
            raise zipfile.BadZipFile("a part is not as long as it says")
    return data


def _array(archive: zipfile.ZipFile, name: str, entry: Mapping[str, Any], source: Path) -> NDArray[Any]:
    info = archive.getinfo(f"{name}.npy")
    if info.file_size != entry["bytes"]:
        raise AgentFileError(f"{source}: its array {name!r} is not as long as it says")
    data = _bytes(archive, info)
    if hashlib.sha256(data).hexdigest() != entry["sha256"]:
        raise AgentFileError(f"{source}: its array {name!r} is damaged")
    loaded: NDArray[Any] = np.load(io.BytesIO(data), allow_pickle=False)
    return loaded


def _npy(array: NDArray[Any]) -> bytes:
    data = io.BytesIO()
    np.save(data, np.asarray(array).view(np.ndarray), allow_pickle=False)
    return data.getvalue()


def _algorithm(agent: Agent) -> str:
    name = name_of(agent)
    if name not in algorithms() or not agent.can_save:
        raise ParameterError(f"save: {name} is not an algorithm of spaql; save it by its own means")
    return name


def _agent(head: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], env: Any, source: Path) -> Agent:
    algorithm, about, parameters = (head.get(name) for name in ("algorithm", "problem", "parameters"))
    if not isinstance(algorithm, str) or algorithm not in algorithms():
        raise AgentFileError(f"{source}: it holds an agent of the kind {algorithm!r}, which this spaql does not know")
    if not isinstance(parameters, dict) or not isinstance(about, dict) or parameters.get("seed") != head.get("seed"):
        raise AgentFileError(f"{source}: its {_HEAD} does not tell of an agent and a problem")
    try:
        opened = reopened(about, env, head.get("seed"), str(source))
    except (*_DAMAGE, SpaqlError) as error:
        if env is not None or isinstance(error, AgentFileError):  # the given environment may be what does not fit
            raise
        raise AgentFileError(f"{source}: what it says of its problem is damaged ({_line(error)})") from None
    try:
        entry = algorithms()[algorithm]
        _check_cells(entry.cls.time_variant, opened, arrays)
        agent = entry.make(opened, **parameters)
        agent._restore(arrays, head["numbers"])
        agent._restore_evaluation(head.get("evaluation"))
    except (ArithmeticError, AttributeError, LookupError, MemoryError, SpaqlError, TypeError, ValueError) as error:
        raise AgentFileError(f"{source}: its parts do not fit together ({_line(error)})") from None
    return agent


def _check_cells(time_variant: bool, problem: Playable, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Raise a ValueError where an agent would begin with more cells than it has: before it is made, as it may be large.

    No cell ever goes away, and those at the beginning are one for each finite action and time step.
    """
    planted = problem.actions.count if isinstance(problem.actions, Discrete) else 1
    planted *= problem.horizon if time_variant else 1
    counts = [int(used[1]) for name, used in arrays.items() if name.endswith("-used")]
    if counts and planted > max(counts):
        raise ValueError("fewer cells than it began with")


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())
