"""Messages between processes and machines: frames of bytes, each a JSON object and arrays; no pickle.

A frame of a stream is its length in eight bytes and its body.  A body is the length of its JSON in eight bytes, the
JSON, and the arrays as .npy one after the other; JSON keeps every digit of a number.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from spaql.runner.record import Failure, Record

_LENGTH = 8


def write_frame(stream: IO[bytes], body: bytes) -> None:
    """Write a frame and flush."""
    stream.write(len(body).to_bytes(_LENGTH, "big") + body)
    stream.flush()


def read_frame(stream: IO[bytes]) -> bytes | None:
    """Return the body of the next frame, or None at the end of the stream."""
    head = stream.read(_LENGTH)
    if len(head) < _LENGTH:
        return None
    length = int.from_bytes(head, "big")
    body = stream.read(length)
    return body if len(body) == length else None


def encode(content: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]] | None = None) -> bytes:
    """Return a JSON object and arrays as a body."""
    parts = []
    for array in (arrays or {}).values():
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=False)
        parts.append(buffer.getvalue())
    head = json.dumps({"content": dict(content), "arrays": list(arrays or {})}, allow_nan=False).encode()
    return b"".join([len(head).to_bytes(_LENGTH, "big"), head, *parts])


def decode(body: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the JSON object and the arrays of a body."""
    length = int.from_bytes(body[:_LENGTH], "big")
    head = json.loads(body[_LENGTH : _LENGTH + length])
    rest = io.BytesIO(body[_LENGTH + length :])
    return head["content"], {name: np.load(rest, allow_pickle=False) for name in head["arrays"]}


def encode_result(result: Record | Failure) -> bytes:
    """Return the result of a run as a body."""
    if isinstance(result, Failure):
        return encode({"kind": result.kind, "message": result.message})
    return encode({"scalars": dict(result.scalars), "seconds": result.seconds}, result.arrays)


def decode_result(body: bytes) -> Record | Failure:
    """Return the result of a run from a body."""
    content, arrays = decode(body)
    return Failure(**content) if "kind" in content else Record(content["scalars"], arrays, content["seconds"])
