"""A trained policy as a file that runs without spaql: C, plain Python, JSON or ONNX, by the suffix of its name.

All of them are the same decision tree (`spaql.partition.tree`): what `predict` does, and nothing else.  Thresholds are exact, so
that every target decides as `predict` does, to the last bit, at the borders too.  What `predict` refuses is defined
here: a number that is NaN counts as below every threshold, an infinite one as the border of its range (as the low end,
where the number comes round), and a time step outside the episode as the nearest one.

The same agent makes the same bytes.

    policy      what is shipped, and how it is told to people
    to_c        .c and .h
    to_python   .py
    to_json     .json; its schema is docs/policy.schema.json
    to_onnx     .onnx; needs the extra spaql[onnx]
    compiled    an exported C file, compiled and called from here: to check it, and to time it
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spaql import atomic_io
from spaql.errors import ParameterError
from spaql.export import to_c, to_json, to_onnx, to_python
from spaql.export.compiled import nanoseconds
from spaql.export.policy import Policy, identifier

_C: dict[str, bool] = {".c": False, ".h": True}  # whether it is a header
_OTHERS: dict[str, Callable[[Policy], str | bytes]] = {
    ".py": to_python.source,
    ".json": to_json.document,
    ".onnx": to_onnx.model,
}
SUFFIXES = (*_C, *_OTHERS)


@dataclass(frozen=True, eq=False)
class Exported:
    """What was written.

    Attributes
    ----------
    path, bytes
        The file and its size.
    policy
        What it decides.
    table_bytes
        Memory that its constant tables take, of C; None for others.
    """

    path: Path
    bytes: int
    policy: Policy
    table_bytes: int | None

    def figures(self) -> dict[str, Any]:
        """Sizes, and for C the time per decision on this machine; None for others, or where it cannot be compiled."""
        return {
            "file": str(self.path),
            "bytes": self.bytes,
            "table_bytes": self.table_bytes,
            "nodes": len(self.policy.tree.dims),
            "depth": self.policy.tree.depth,
            "nanoseconds": None if self.table_bytes is None else nanoseconds(self.policy),
        }


def export(policy: Policy, path: str | os.PathLike[str], *, name: str | None = None) -> Exported:
    """Write a policy to a file; `Agent.to_policy` makes one, and `Agent.export` describes the parameters."""
    target = _target(path)
    suffix = target.suffix.lower()
    if name is not None and suffix not in _C:
        raise ParameterError(f"name: only C has names of functions to choose, not {target.name!r}; leave it out")
    if suffix in _C:
        chosen = identifier(target.stem) if name is None else name
        content: str | bytes = to_c.source(policy, chosen, header=_C[suffix])
    else:
        content = _OTHERS[suffix](policy)
    data = content.encode("ascii") if isinstance(content, str) else content
    atomic_io.write_file(target, data)
    return Exported(target, len(data), policy, to_c.table_bytes(policy) if suffix in _C else None)


def _target(path: object) -> Path:
    try:
        target = Path(os.fspath(path))  # type: ignore[call-overload]
        if "\0" in str(target):
            raise TypeError("no name of a file")
    except TypeError:
        raise ParameterError(f"export: expected the path of a file, got {path!r:.80}") from None
    if target.suffix.lower() not in SUFFIXES:
        has = f"the suffix {target.suffix!r}" if target.suffix else "no suffix"
        raise ParameterError(f"export: {str(target)!r} has {has}; those that can be written are {', '.join(SUFFIXES)}")
    return target
