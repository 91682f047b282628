"""What travels between processes and machines: frames of bytes, each a JSON object and arrays; no pickle.

A frame of a stream is its length in eight bytes and its body.  A body is the length of its JSON in eight bytes, the
JSON, and the arrays as .npy one behind the other; JSON keeps every digit of a number.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from spaql.runner.store import Failure, Record

_LENGTH = 8


def write(stream: IO[bytes], body: bytes) -> None:
    """Send a frame."""
    stream.write(len(body).to_bytes(_LENGTH, "big") + body)
    stream.flush()


def read(stream: IO[bytes]) -> bytes | None:
    """The next frame, or None at the end of the stream."""
    head = stream.read(_LENGTH)
    if len(head) < _LENGTH:
        return None
    length = int.from_bytes(head, "big")
    body = stream.read(length)
    return body if len(body) == length else None


def message(said: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]] | None = None) -> bytes:
    """A JSON object and arrays as bytes."""
    parts = []
    for array in (arrays or {}).values():
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=False)
        parts.append(buffer.getvalue())
    head = json.dumps({"said": dict(said), "arrays": list(arrays or {})}, allow_nan=False).encode()
    return b"".join([len(head).to_bytes(_LENGTH, "big"), head, *parts])


def parsed(body: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """What `message` made the bytes from."""
    length = int.from_bytes(body[:_LENGTH], "big")
    head = json.loads(body[_LENGTH : _LENGTH + length])
    rest = io.BytesIO(body[_LENGTH + length :])
    return head["said"], {name: np.load(rest, allow_pickle=False) for name in head["arrays"]}


def packed(result: Record | Failure) -> bytes:
    """What became of a run as bytes."""
    if isinstance(result, Failure):
        return message({"kind": result.kind, "message": result.message})
    return message({"scalars": dict(result.scalars), "seconds": result.seconds}, result.arrays)


def unpacked(body: bytes) -> Record | Failure:
    """What `packed` made the bytes from."""
    said, arrays = parsed(body)
    return Failure(**said) if "kind" in said else Record(said["scalars"], arrays, said["seconds"])
