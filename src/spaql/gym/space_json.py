"""Spaces as JSON and back, so that an agent file can be used without its environment.

    {"kind": "Box", "dtype": "float32", "shape": [2], "low": [-1.0, "-inf"], "high": [1.0, "inf"]}
    {"kind": "Discrete", "n": 5, "start": 0}
    {"kind": "MultiDiscrete", "dtype": "int64", "shape": [2], "nvec": [3, 2], "start": [0, 0]}
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

from spaql.partition.spaces import Actions, Discrete

MOST_NUMBERS = 1024
_DEEPEST = 16
_TYPES = frozenset(f"{kind}{bits}" for kind in ("int", "uint", "float") for bits in (8, 16, 32, 64)) | {"bool"}


def bounds_to_json(space: Actions) -> dict[str, Any]:
    """Return a space of a partition for JSON."""
    if isinstance(space, Discrete):
        return {"count": space.count}
    return {"low": space.low.tolist(), "high": space.high.tolist()}


def space_to_json(space: Any) -> dict[str, Any]:
    """Return a space of Gymnasium for JSON; a TypeError where it is of another kind."""
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
        low, high = (
            [end if math.isfinite(end) else str(end) for end in ends.reshape(-1).tolist()]
            for ends in (space.low, space.high)
        )
        return {"kind": "Box", "dtype": str(space.dtype), "shape": list(space.shape), "low": low, "high": high}
    raise TypeError(f"a space of the kind {type(space).__name__}")


def space_from_json(data: Any, depth: int = 0) -> Any:
    """Return the space that `space_to_json` described; an exception, such as a ValueError, where it is invalid."""
    if depth > _DEEPEST:
        raise ValueError("spaces within spaces without end")
    kind = data["kind"]
    space: Any = None
    if kind == "Dict":
        space = spaces.Dict([(str(name), space_from_json(part, depth + 1)) for name, part in data["spaces"]])
    elif kind == "Tuple":
        space = spaces.Tuple([space_from_json(part, depth + 1) for part in data["spaces"]])
    elif kind == "Discrete":
        space = spaces.Discrete(data["n"], start=data["start"])
    elif kind in ("MultiBinary", "MultiDiscrete", "Box"):
        shape = tuple(data["shape"])
        if len(shape) > _DEEPEST or math.prod(shape) > MOST_NUMBERS or data.get("dtype", "int8") not in _TYPES:
            raise ValueError(f"a space of shape {shape!r:.80} and type {data.get('dtype')!r:.80}")
        if kind == "MultiBinary":
            space = spaces.MultiBinary(list(shape) if len(shape) != 1 else shape[0])
        else:
            names = ("nvec", "start") if kind == "MultiDiscrete" else ("low", "high")
            first, second = (np.array(data[name]).astype(data["dtype"]).reshape(shape) for name in names)
            if kind == "MultiDiscrete":
                space = spaces.MultiDiscrete(first, dtype=data["dtype"], start=second)
            else:
                space = spaces.Box(first, second, shape, data["dtype"])
    if space is None or space_to_json(space) != data:  # such as one whose numbers its type cannot hold
        raise ValueError(f"a space of the kind {kind!r:.80}")
    return space
