"""Agents in files: a zip of one JSON and NumPy arrays, nothing that could be executed.

`docs/reference/format.md` describes them for readers in any language, and `docs/security.md` what a file of a stranger
can do.  `agent.json` names the algorithm and its parameters, the problem, and for each array its length and SHA-256;
the arrays are `.npy` files of plain numbers.  Sizes are checked before anything is read, and indices and numbers before
anything is made of them.  Reading runs nothing: the environment is made when the agent first plays, from what is
registered under its id, for which the module that the id names is imported.  What is written was read back first, and
has another name until it is complete, so that an interrupt leaves the old file or the new one.
"""

import hashlib
import io
import json
import os
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from spaql import atomic_io
from spaql._version import __version__
from spaql.agents.base import Agent
from spaql.agents.evaluation import check_record
from spaql.agents.registry import Entry, algorithms, name_of
from spaql.errors import AgentFileError, OutputError, ParameterError, SpaqlError
from spaql.gym.description import describe, restore_problem
from spaql.problems.base import Playable
from spaql.validation import parse_json, parse_npy, restore_generator, show

FORMAT = 2
SUFFIX = ".spaql"
AGENT, CHECKPOINT = f"agent{SUFFIX}", f"checkpoint{SUFFIX}"  # in the folder of a run: at the end, and before it
SUMMARY = "summary.json"  # there too, after the agent if that can be saved
_HEAD = "agent.json"
_HEAD_KINDS = {"seed": int, "parameters": dict, "problem": dict, "numbers": dict, "arrays": dict, "algorithm": str}
_HEAD_KINDS |= {"content": str}
_WHOLE, _POLICY = "agent", "policy"  # contents of a file: all that was learned, or the policy alone
_LARGEST_HEAD = 4 << 20
_MOST_MEMBERS = 100
# What a file may unpack to: arrays shrink to a tenth or so, and a file that claims much more was made to harm.
_SMALL, _RATIO = 32 << 20, 100
_FEW_CELLS = 1 << 20  # of a new agent whose file has no array that says how many it has now
_CELLS = ("work-q", "policy-q")  # arrays that do
# KeyError: no such member; RuntimeError: a compression that Python lacks; ValueError: JSON and UTF-8
_DAMAGE = (zipfile.BadZipFile, zlib.error, OSError, EOFError, KeyError, RuntimeError, ValueError)
_DATE = (1980, 1, 1, 0, 0, 0)  # so that equal agents make equal files


def save(agent: Agent, path: str | os.PathLike[str], *, policy_only: bool = False) -> Path:
    """Write an agent to a file, all of it or nothing; return the path, with a suffix where it had none.

    Raises
    ------
    OutputError
        Where it cannot be written, or could not be read again; a file that is there already then stays as it is.
    """
    target = _check_path(path, "save")
    target = target if target.suffix else target.with_suffix(SUFFIX)
    agent._require_saving("save")
    content = to_bytes(agent, policy_only)
    try:
        _read(io.BytesIO(content), len(content), None, f"save: {target} could not be read again")
    except SpaqlError as error:
        raise OutputError(f"{error}; nothing was written, and the agent is unchanged") from error
    atomic_io.write_file(target, content)
    return target


def to_bytes(agent: Agent, policy_only: bool = False) -> bytes:
    """Return the content of an agent's file."""
    alone = agent.learns and (policy_only or agent.policy_only)
    state = agent._policy_state() if alone else agent._state()
    arrays = {name: _to_npy(array) for name, array in state.items()}
    head = {
        "format": FORMAT,
        "spaql": __version__,
        "content": _POLICY if alone else _WHOLE,
        "algorithm": name_of(agent),
        "seed": agent.seed,
        "parameters": agent.get_params(),
        "problem": describe(agent.problem),
        "numbers": {"prediction": agent._prediction.bit_generator.state},
        "evaluation": agent.recorded_evaluation,
        "arrays": {
            name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in arrays.items()
        },
    }
    members = {_HEAD: json.dumps(head, indent=1, allow_nan=False).encode()}
    members |= {f"{name}.npy": array for name, array in arrays.items()}
    packed = _pack(members, zipfile.ZIP_DEFLATED)
    if _is_bomb(sum(map(len, members.values())), len(packed)):  # equal numbers that a reader would not unpack
        packed = _pack(members, zipfile.ZIP_STORED)
    return packed


def _pack(members: Mapping[str, bytes], method: int) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name, _DATE), content, method, 1)
    return data.getvalue()


def _is_bomb(unpacked: int, packed: int) -> bool:
    """Whether a file would unpack to more than the agents of its size do."""
    return unpacked > max(_SMALL, _RATIO * packed)


def from_bytes(content: bytes) -> Agent:
    """Read an agent from the content of its file, as `load` does: what a pickle of an agent calls."""
    return _read(io.BytesIO(content), len(content), None, "pickled agent")


def load(path: str | os.PathLike[str], env: Any = None) -> Agent:
    """Read an agent from a file, or from a folder that `spaql train` wrote.

    Parameters
    ----------
    path
        The file, with or without the suffix .spaql, or the folder.
    env
        What it learned on: a problem or environment as agents take it.  Needed where the file cannot name it: a
        compiled problem of your own, or an environment without an id or with wrappers that only your code can make.

    Returns
    -------
    Agent
        An agent of the class that was saved.

    Raises
    ------
    AgentFileError
        Where it is not an agent file, or a damaged or newer one.

    Examples
    --------
    >>> import tempfile, spaql
    >>> agent = spaql.AQL("oil", rollouts=0, seed=0).learn(iterations=20)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = spaql.load(agent.save(f"{folder}/oil"))
    >>> agent.learn(iterations=20).evaluate(10).mean == again.learn(iterations=20).evaluate(10).mean
    True
    """
    source = _check_path(path, "load")
    if not source.suffix and source.name and os.path.isfile(named := source.with_suffix(SUFFIX)):
        source = named  # as `save` has named it
    elif os.path.isdir(source):
        source = source / AGENT
    elif not source.suffix and not os.path.exists(source):
        source = source.with_suffix(SUFFIX)
    if os.path.exists(source) and not os.path.isfile(source):  # a device, or a pipe that nobody writes to
        raise AgentFileError(f"{source}: not a regular file; agent.save writes one")
    try:
        file = source.open("rb")
    except FileNotFoundError as error:
        how = "agent.save writes one, and so does spaql train --out"
        if os.path.exists(source.with_name(CHECKPOINT)):
            how = "a run was begun there: spaql train --resume goes on with it"
        elif source.name == AGENT and os.path.exists(source.with_name(SUMMARY)):
            how = "the run there has no saved agent, as spaql cannot save its algorithm; save it by its own means"
        raise AgentFileError(f"{source}: there is no such file; {how}") from error
    except OSError as error:
        raise AgentFileError(f"{source}: cannot be read ({_one_line(error)})") from error
    with file:
        return _read(file, os.fstat(file.fileno()).st_size, env, str(source))


def _read(file: IO[bytes], size: int, env: Any, where: str) -> Agent:
    """Read an agent from an open file of so many bytes; `where` names it in errors."""
    try:
        with zipfile.ZipFile(file) as archive:
            _check_sizes(archive, size)
            head = _read_head(archive)
            if sorted(archive.namelist()) != sorted([_HEAD, *(f"{name}.npy" for name in head["arrays"])]):
                raise AgentFileError(f"its arrays are not the ones that {_HEAD} lists")
            arrays = {name: _read_array(archive, name, entry) for name, entry in head["arrays"].items()}
    except AgentFileError as error:
        raise AgentFileError(f"{where}: {error}") from error.__cause__
    except _DAMAGE as error:
        raise AgentFileError(f"{where}: not an agent file, or damaged ({_one_line(error)})") from error
    problem = restore_problem(head["problem"], env, head["seed"], where)
    try:
        return _make_agent(algorithms()[head["algorithm"]], head, arrays, problem)
    except (LookupError, MemoryError, SpaqlError, ValueError) as error:
        raise AgentFileError(f"{where}: its parts do not fit together ({_one_line(error)})") from error


def _check_path(path: Any, what: str) -> Path:
    if isinstance(path, str | os.PathLike) and os.fspath(path) and "\0" not in str(path):
        return Path(path)
    raise ParameterError(f"{what}: expected the path of a file, got {show(path)}")


def _check_sizes(archive: zipfile.ZipFile, packed: int) -> None:
    """Refuse a small file that would fill the memory."""
    members = archive.infolist()
    methods = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    if any(member.compress_type not in methods or member.flag_bits & 1 for member in members):
        raise AgentFileError("packed or encrypted in another way than agent files are")
    unpacked, count = sum(member.file_size for member in members), len(members)
    if count > _MOST_MEMBERS or _is_bomb(unpacked, packed):
        raise AgentFileError(f"it would unpack to {unpacked:,} bytes in {count:,} parts, as no agent of its size does")


def _read_head(archive: zipfile.ZipFile) -> dict[str, Any]:
    info = archive.getinfo(_HEAD)
    if info.file_size > _LARGEST_HEAD:
        raise AgentFileError(f"its {_HEAD} is too large to be one")
    head = parse_json(_read_member(archive, info))
    version = head.get("format") if isinstance(head, dict) else None
    if type(version) is not int or version < 1:
        raise AgentFileError("not an agent file of spaql")
    if version > FORMAT:
        writer = f"it has format {version} of spaql {head.get('spaql')!s:.20}"
        raise AgentFileError(f"{writer}, and this spaql {__version__} reads up to {FORMAT}; install a newer one")
    if version < FORMAT:
        writer = f"it has format {version} of spaql {head.get('spaql')!s:.20}"
        raise AgentFileError(f"{writer}, which this spaql {__version__} does not read; read it with that one")
    wrong = [name for name, kind in _HEAD_KINDS.items() if type(head.get(name)) is not kind]
    wrong += [] if wrong or head["parameters"].get("seed") == head["seed"] else ["seed"]
    wrong += [] if wrong or head["content"] in (_WHOLE, _POLICY) else ["content"]
    if wrong:
        raise AgentFileError(f"its {_HEAD} is damaged: {wrong[0]}")
    entry = algorithms().get(head["algorithm"])
    if entry is None or entry.foreign:  # agents of foreign classes are never saved
        raise AgentFileError(f"this spaql does not know its algorithm {show(head['algorithm'])}")
    return head


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """Read a member, but never more than it declares; zipfile checks its checksum at the end."""
    with archive.open(info) as member:
        data = member.read(info.file_size)
        if len(data) != info.file_size or member.read(1):
            raise zipfile.BadZipFile("a part is not as long as it says")
    return data


def _read_array(archive: zipfile.ZipFile, name: str, entry: Any) -> NDArray[Any]:
    info = archive.getinfo(f"{name}.npy")
    if not isinstance(entry, dict) or info.file_size != entry.get("bytes"):
        raise AgentFileError(f"its array {name!r} is not as long as it says")
    data = _read_member(archive, info)
    if hashlib.sha256(data).hexdigest() != entry.get("sha256"):
        raise AgentFileError(f"its array {name!r} is damaged")
    try:
        array = parse_npy(data)
    except ValueError as error:
        raise AgentFileError(f"its array {name!r} cannot be read ({_one_line(error)})") from error
    if not array.ndim:
        raise AgentFileError(f"its array {name!r} is a single number")
    return array


def _to_npy(array: NDArray[Any]) -> bytes:
    data = io.BytesIO()
    np.save(data, np.ascontiguousarray(array).view(np.ndarray), allow_pickle=False)
    return data.getvalue()


def _make_agent(entry: Entry, head: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], problem: Playable) -> Agent:
    parameters, record = head["parameters"], head.get("evaluation")
    for name in parameters:
        if name != "seed" and name not in entry.parameters:
            raise ValueError(f"{entry.name} has no parameter {show(name)}")
    for name in entry.required:
        if name not in parameters:
            raise ValueError(f"{entry.name} needs the parameter {name!r}")
    # Checked before the agent is made, as it may be large.
    counts = [len(arrays[name]) for name in _CELLS if name in arrays]
    if entry.cls.count_first_cells(problem, parameters) > max(counts, default=_FEW_CELLS):
        raise ValueError("fewer cells than it began with")
    agent = entry.make(problem, **parameters)
    agent.policy_only = head["content"] == _POLICY
    if agent.policy_only:
        agent._restore_policy_state(arrays)
    else:
        agent._restore(arrays)
    restore_generator(agent._prediction, head["numbers"]["prediction"])
    agent._evaluation = None if record is None else check_record(record)
    return agent


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
