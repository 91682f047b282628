"""What becomes of a run: a `Record` of its numbers, or a `Failure`, and either as bytes.

These are the length of a JSON object in eight bytes, the JSON, and the arrays as .npy one after the other; no pickle.
"""

import io
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

ERROR, NAN, TIME, MEMORY, KILLED = "error", "nan", "time-out", "memory", "killed"
_LENGTH = 8


@dataclass(frozen=True, eq=False)
class Record:
    """Numbers of a finished run by name, its arrays by name, and the seconds it took."""

    scalars: Mapping[str, float | int | None]
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True)
class Failure:
    """Why a run failed."""

    kind: str  # one of the five above
    message: str  # what happened, in one line
    attempts: int = 1  # how often it was tried in the last call that asked for it
    traceback: str = ""  # of an exception that is not one of spaql's own, from the run on


def encode_result(result: Record | Failure) -> bytes:
    """Return the result of a run as bytes."""
    if isinstance(result, Failure):
        content, arrays = asdict(result), b""
    else:
        content = {"scalars": dict(result.scalars), "seconds": result.seconds, "arrays": list(result.arrays)}
        arrays = b"".join(map(encode_array, result.arrays.values()))
    head = json.dumps(content, allow_nan=False).encode()
    return len(head).to_bytes(_LENGTH, "big") + head + arrays


def decode_result(body: bytes) -> Record | Failure:
    """Return the result of a run from its bytes."""
    stream = io.BytesIO(body)
    content = json.loads(stream.read(int.from_bytes(stream.read(_LENGTH), "big")))
    if "kind" in content:
        return Failure(**content)
    arrays = {name: np.load(stream, allow_pickle=False) for name in content["arrays"]}
    return Record(content["scalars"], arrays, content["seconds"])


def encode_array(array: NDArray[Any]) -> bytes:
    """Return an array as the bytes of a .npy file."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()
