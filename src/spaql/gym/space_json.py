"""Gymnasium's spaces as JSON and back, so that an agent file can be used without its environment.

    {"kind": "Box", "dtype": "float32", "shape": [2], "low": [-1.0, "-inf"], "high": [1.0, "inf"]}
    {"kind": "Discrete", "n": 5, "start": 0}
    {"kind": "MultiDiscrete", "dtype": "int64", "nvec": [3, 2], "start": [0, 0]}
    {"kind": "MultiBinary", "shape": [4]}
    {"kind": "Tuple", "spaces": [...]}
    {"kind": "Dict", "spaces": [["name", ...], ...]}

Arrays are flat, in C order; infinities are strings.  Only these spaces can be read, of at most `MOST_NUMBERS` numbers,
so that a file cannot ask for large arrays.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium import spaces

MOST_NUMBERS = 1024
_DEEPEST = 16
_TYPES = frozenset(f"{kind}{bits}" for kind in ("int", "uint", "float") for bits in (8, 16, 32, 64)) | {"bool"}


def space_to_json(space: Any) -> dict[str, Any]:
    """Return a space for JSON; a TypeError where it is of another kind."""
    if isinstance(space, spaces.Dict):
        return {"kind": "Dict", "spaces": [[str(name), space_to_json(part)] for name, part in space.spaces.items()]}
    if isinstance(space, spaces.Tuple):
        return {"kind": "Tuple", "spaces": [space_to_json(part) for part in space.spaces]}
    if isinstance(space, spaces.Discrete):
        return {"kind": "Discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, spaces.MultiDiscrete):
        start = np.broadcast_to(space.start, space.shape)
        numbers = {"nvec": space.nvec.reshape(-1).tolist(), "start": start.reshape(-1).tolist()}
        return {"kind": "MultiDiscrete", "dtype": str(space.dtype), "shape": list(space.shape), **numbers}
    if isinstance(space, spaces.MultiBinary):
        return {"kind": "MultiBinary", "shape": list(space.shape)}
    if isinstance(space, spaces.Box):
        ends = {"low": _to_json(space.low), "high": _to_json(space.high)}
        return {"kind": "Box", "dtype": str(space.dtype), "shape": list(space.shape), **ends}
    raise TypeError(f"a space of the kind {type(space).__name__}")


def space_from_json(data: Any, depth: int = 0) -> Any:
    """Return the space that `space_to_json` described; a ValueError, TypeError or LookupError where it is invalid."""
    if depth > _DEEPEST:
        raise ValueError("spaces within spaces without end")
    kind = data["kind"]
    if kind == "Dict":
        parts = {_word(name): space_from_json(part, depth + 1) for name, part in data["spaces"]}
        if len(parts) != len(data["spaces"]):
            raise ValueError("two parts of one name")
        return spaces.Dict(parts)
    if kind == "Tuple":
        return spaces.Tuple([space_from_json(part, depth + 1) for part in data["spaces"]])
    if kind == "Discrete":
        return spaces.Discrete(_whole(data["n"], 1), start=_whole(data["start"], -(2**62)))
    shape = tuple(_whole(size, 0) for size in data["shape"])
    if len(shape) > _DEEPEST or math.prod(shape) > MOST_NUMBERS:
        raise ValueError(f"a space of shape {shape!r:.80}")
    if kind == "MultiBinary":
        return spaces.MultiBinary(list(shape) if len(shape) != 1 else shape[0])
    if kind not in ("MultiDiscrete", "Box") or data["dtype"] not in _TYPES:
        raise ValueError(f"a space of the kind {kind!r:.80}")
    dtype = np.dtype(data["dtype"])
    if kind == "MultiDiscrete":
        sizes, start = (
            np.array([_whole(each, least) for each in data[name]], dtype).reshape(shape)
            for name, least in (("nvec", 1), ("start", -(2**62)))
        )
        return spaces.MultiDiscrete(sizes, dtype=dtype, start=start)
    low, high = (np.array([_number(each, dtype) for each in data[name]], dtype) for name in ("low", "high"))
    return spaces.Box(low.reshape(shape), high.reshape(shape), shape, dtype)


def _to_json(numbers: Any) -> list[Any]:
    """Numbers as JSON has them, flat."""
    flat = np.asarray(numbers).reshape(-1).tolist()
    return [each if isinstance(each, bool) or math.isfinite(each) else str(each) for each in flat]


def _number(value: Any, dtype: np.dtype[Any]) -> Any:
    if isinstance(value, str) and value in ("inf", "-inf") and dtype.kind == "f":
        return float(value)
    if isinstance(value, bool) != (dtype.kind == "b") or not isinstance(value, bool | int | float):
        raise TypeError(f"{value!r:.80} in a space")
    if dtype.kind in "iu" and not np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
        raise ValueError(f"{value!r:.80} in a space")
    return value


def _whole(value: Any, least: int) -> int:
    if type(value) is not int or not least <= value < 2**62:
        raise ValueError(f"{value!r:.80} in a space")
    return value


def _word(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"{name!r:.80} for the name of a space")
    return name
