"""Trained policies as files that run without spaql: C, plain Python, JSON or ONNX, by the suffix of the file.

All targets hold the same decision tree (`spaql.partition.tree`) with exact thresholds, so each decides as `predict`,
to the last bit, at borders too; docs/how-to/export.md says what inputs that `predict` refuses are taken for.  The
same agent gives the same bytes.  A new target is a module with a function of a `Policy` and an entry in `_TARGETS`.
"""

import os
from collections.abc import Callable
from pathlib import Path

from spaql import atomic_io
from spaql.errors import ParameterError
from spaql.export import to_c, to_json, to_onnx, to_python
from spaql.export.policy import Policy

__all__ = ["SUFFIXES", "Policy", "export", "make_content"]

_TARGETS: dict[str, Callable[[Policy, str], str | bytes]] = {
    ".c": lambda policy, name: to_c.make_source(policy, name, header=False),
    ".h": lambda policy, name: to_c.make_source(policy, name, header=True),
    ".py": lambda policy, _: to_python.make_source(policy),
    ".json": lambda policy, _: to_json.make_document(policy),
    ".onnx": lambda policy, _: to_onnx.make_model(policy),
}
SUFFIXES = tuple(_TARGETS)


def export(policy: Policy, path: str | os.PathLike[str], *, name: str | None = None) -> Path:
    """Write a policy to a file; `Agent.to_policy` makes one, `Agent.export` describes the parameters."""
    target = _check_target(path)
    if name is not None and target.suffix.lower() not in (".c", ".h"):
        raise ParameterError(f"name: only C has function names to choose, not {target.name!r}; leave it out")
    atomic_io.write_file(target, make_content(policy, target, name))
    return target


def make_content(policy: Policy, target: Path, name: str | None = None) -> str | bytes:
    """Return what `export` writes into a file of this name."""
    return _TARGETS[target.suffix.lower()](policy, to_c.make_identifier(target.stem) if name is None else name)


def _check_target(path: object) -> Path:
    try:
        target = Path(os.fspath(path))  # type: ignore[call-overload]
        if "\0" in str(target):
            raise TypeError("not a file name")
    except TypeError:
        raise ParameterError(f"export: expected the path of a file, got {path!r:.80}") from None
    if target.suffix.lower() not in SUFFIXES:
        suffix = f"the suffix {target.suffix!r}" if target.suffix else "no suffix"
        raise ParameterError(f"export: {str(target)!r} has {suffix}; supported are {', '.join(SUFFIXES)}")
    return target
