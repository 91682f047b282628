"""What becomes of a run: a `Record` of its numbers, or a `Failure`, and either as bytes.

These are the length of a JSON object in eight bytes, the JSON, and the arrays as .npy one after the other; no pickle.
"""

import io
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spaql.validation import check_array, check_plain, show

ERROR, NAN, TIME, MEMORY, KILLED = "error", "nan", "time-out", "memory", "killed"
LARGEST_ARRAY = 1 << 28  # bytes of an array that is stored
_HEADER = 1 << 16  # most bytes of what describes it
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


def check_record(record: Record) -> Record:
    """Return a record as it is stored and read again; a ValueError where that is impossible."""
    scalars: dict[str, float | int | None] = {}
    arrays: dict[str, NDArray[Any]] = {}
    for name in [*record.scalars, *record.arrays]:
        if not isinstance(name, str):
            raise ValueError(f"a number or array is named {show(name)}, which is no text")
        check_plain(name)
    for name, value in record.scalars.items():
        number: Any = value.item() if isinstance(value, np.generic) else value
        if not isinstance(number, int | float | None):
            raise ValueError(f"its {name!r} is {show(number)}, which is no number")
        try:
            check_plain(number)
        except ValueError as error:
            raise ValueError(f"its {name!r} is {show(number)}, {error}") from None
        scalars[name] = number
    for name, array in record.arrays.items():
        try:
            arrays[name] = check_array(array)
        except ValueError as error:
            raise ValueError(f"its array {name!r} is {error}; only arrays of numbers can be stored") from None
        if arrays[name].nbytes > LARGEST_ARRAY - _HEADER:
            raise ValueError(f"its array {name!r} has {arrays[name].nbytes:,} bytes, too many to be stored")
    return replace(record, scalars=scalars, arrays=arrays)


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
    """Return an array as the bytes of a .npy file; a ValueError where it is not one of plain numbers."""
    buffer = io.BytesIO()
    np.save(buffer, check_array(array), allow_pickle=False)
    return buffer.getvalue()
