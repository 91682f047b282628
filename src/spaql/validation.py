"""Checks of what users give: each returns the value, converted, or raises an error in one sentence."""

import ast
import importlib
import json
import math
import re
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spaql.errors import ParameterError

_MAGIC = b"\x93NUMPY\x01\x00"
_NUMBER = rb"'(?:<f[248]|<[iu][248]|\|[iub]1)'"  # the types that NumPy has
_KIND = rb"%b|\[(?:\('\w+', %b\)(?:, )?)+\]" % (_NUMBER, _NUMBER)  # of an array, or of records
_NPY = re.compile(  # as `numpy.save` writes the header
    rb"\{'descr': (%b), 'fortran_order': False, 'shape': \(([\d, ]*)\), \} *\n" % _KIND
)
LARGEST_NUMBER = 1e150  # of what was learned, in a file: squares of larger ones would overflow
MOST_COUNTED = 2**60  # steps, episodes or visits in a file: sums of a few such counts fit 64 bits
MOST_NESTED = 32  # lists and mappings within each other in JSON
LARGEST_INTEGER = 2**128  # in JSON; the states of NumPy's generators are below it
_LARGEST = 2**64 - 1  # of a whole number without another bound: that of seeds


def show(value: Any) -> str:
    """Return a representation on one short line, also of what Python cannot print: many digits, or deep nesting."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:
        text = f"a very large {type(value).__name__}"
    except RecursionError:
        text = f"a deeply nested {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."


def check_flag(value: Any, name: str) -> bool:
    """Return whether a value is true; a `ParameterError` if it is neither, as an array of several is."""
    try:
        return bool(value)
    except (TypeError, ValueError):
        raise ParameterError(f"{name}: expected True or False, got {show(value)}") from None


def check_whole(value: Any, name: str, least: int, most: int | None = None) -> int:
    """Return a whole number from `least` to `most`; a `ParameterError` if it is not one."""
    whole, limit = (
        isinstance(value, int | np.integer) and not isinstance(value, bool),
        _LARGEST if most is None else most,
    )
    if not whole or not least <= value <= limit:
        upper = "" if most is None and not (whole and value > limit) else f" and at most {limit}"
        raise ParameterError(f"{name}: expected a whole number of at least {least}{upper}, got {show(value)}")
    return int(value)


def check_count(value: Any, name: str, least: int, most: int | None = None) -> int:
    """Return a whole number as `check_whole` does; counts of steps or episodes may be floats such as 1e4."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        value = int(value)
    return check_whole(value, name, least, most)


def check_number(value: Any, name: str, *, least: float = -np.inf, most: float = np.inf, above: bool = False) -> float:
    """Return a finite number within bounds, the lower excluded by `above`; a `ParameterError` if it is not one."""
    try:
        number = np.nan if isinstance(value, str | bytes) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = np.nan
    fits = np.isfinite(number) and (number > least if above else number >= least) and number <= most
    if isinstance(value, bool) or not fits:
        lower = f" {'above' if above else 'of at least'} {least:.10g}" if np.isfinite(least) else ""
        upper = f" of at most {most:.10g}" if np.isfinite(most) else ""
        both = " and" if lower and upper else ""
        raise ParameterError(f"{name}: expected a finite number{lower}{both}{upper}, got {show(value)}")
    return number


def check_choice(value: Any, name: str, choices: Sequence[str]) -> str:
    """Return one of a few words; a `ParameterError` if it is not among them."""
    if not isinstance(value, str) or value not in choices:
        raise ParameterError(f"{name}: {show(value)} is not one of {', '.join(choices)}")
    return value


def import_module(name: str, what: str) -> ModuleType:
    """Import a user's module by its dotted name, or say in one sentence why that is impossible."""
    missing: str | None = name
    if all(part.isidentifier() for part in name.split(".")):  # else a path, or a relative name
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            missing = error.name
    raise ParameterError(
        f"{what}: there is no module {missing!r} here; start in its folder, put that on PYTHONPATH, or install it"
    )


def restore_generator(random: np.random.Generator, state: Any) -> None:
    """Set a generator to a state from a file; a ValueError where that is invalid."""
    try:
        random.bit_generator.state = state
    except (LookupError, OverflowError, TypeError, ValueError) as error:
        raise ValueError(f"invalid state of a random generator: {error}") from error


def parse_json(text: str | bytes) -> Any:
    """Return the value of JSON from a file; a ValueError where it is invalid, or cannot be written and read again.

    NaN and infinities are invalid, and so are integers, nesting or text beyond what files of spaql contain.
    """
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    check_plain(value)
    return value


def check_plain(value: Any, depth: int = 0) -> None:
    """Raise a ValueError where a value of JSON is nested too deeply, or has a number or text that no file holds."""
    if isinstance(value, dict | list):
        if depth == MOST_NESTED:
            raise ValueError("nested too deeply")
        parts = value if isinstance(value, list) else [*value.keys(), *value.values()]
        for part in parts:
            check_plain(part, depth + 1)
    elif isinstance(value, str):
        value.encode()  # half of a surrogate pair is a UnicodeEncodeError, which is a ValueError
    elif isinstance(value, int):
        if abs(value) > LARGEST_INTEGER:
            raise ValueError("an integer of too many digits")
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a number that is not finite")


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def check_array(array: Any) -> NDArray[Any]:
    """Return an array in the order in which `parse_npy` reads it again; a ValueError where it would refuse it."""
    if not isinstance(array, np.ndarray):
        raise ValueError("not an array")
    kind = repr(array.dtype.descr if array.dtype.names else array.dtype.str)
    if re.fullmatch(_KIND, kind.encode()) is None:
        raise ValueError(f"an array of {show(array.dtype.name)}, not of plain numbers")
    return np.asarray(array, order="C")


def parse_npy(data: bytes) -> NDArray[Any]:
    """Return the array of a `.npy` file, read-only; a ValueError where it is none, or of anything but numbers."""
    start = len(_MAGIC) + 2
    end = start + int.from_bytes(data[start - 2 : start], "little")
    header = _NPY.fullmatch(data[start:end])
    if not data.startswith(_MAGIC) or header is None:
        raise ValueError("not an array of plain numbers")
    kind = np.dtype(ast.literal_eval(header[1].decode()))
    shape = tuple(int(size) for size in re.findall(rb"\d+", header[2]))
    if math.prod(shape) * kind.itemsize != len(data) - end:
        raise ValueError("it is not as long as its shape says")
    return np.frombuffer(data, kind, offset=end).reshape(shape)
