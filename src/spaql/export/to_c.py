"""A policy as C99: constant tables and one loop.

docs/how-to/export.md describes the properties of the code.  References are those of `spaql.partition.tree`.  Many nodes
compare the same number with the same threshold; where it makes the tables smaller, nodes hold the index of such a pair.
"""

import re
import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from spaql.errors import ParameterError
from spaql.export.policy import Policy, describe, render

_INTEGERS = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "int64", "uint64")  # the first that fits is taken


class Table(NamedTuple):
    """A constant array of C."""

    name: str
    kind: str  # type of a number
    bytes: int
    shape: str
    entries: str


def make_source(policy: Policy, name: str, *, header: bool) -> str:
    """Return the text of a .c or .h file whose function is `name`_act."""
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name, flags=re.ASCII):
        raise ParameterError(f"name: expected letters, digits and underscores, a letter first, got {name!r:.80}")
    tables, (kind, size), last = _make_tables(policy), find_action_type(policy), len(policy.roots) - 1
    seen = [f"observation[{place}]" for place in range(len(policy.observation))]
    for place, low, width in policy.wrapped:
        base = f"({_to_hexadecimal(low)})" if low < 0.0 else _to_hexadecimal(low)
        seen[place] = f"({seen[place]} - {base}) / {_to_hexadecimal(width)}"
    step = f", {'int' if len(policy.roots) < 2**15 else 'int32_t'} step" if policy.time_variant else ""
    arguments = f"const double observation[{len(seen)}]{step}"
    declaration = f"{kind} {name}_act({arguments})"
    if size > 1:
        declaration = f"void {name}_act({arguments}, {kind} action[{size}])"
    lines = describe(policy)
    lines += ["", f"{declaration};  ({'static: include' if header else 'declare'} it where it is called)", ""]
    taken = sum(table.bytes for table in tables)
    lines += [f"Its tables take {taken:,} bytes. A node compares a number with a threshold and goes to another,"]
    lines += ["one for below and one for the threshold and above; a `next` less than 0 ends with the action -1 - next."]
    return render(
        "policy.c.jinja",
        policy=policy,
        name=name,
        header=header,
        declaration=declaration,
        comment=[part for line in lines for part in textwrap.wrap(line, 110, subsequent_indent="    ") or [""]],
        tables={table.name: table for table in tables},
        seen=seen,
        at="int" if max(len(policy.tree.dims), len(policy.tree.actions)) < 2**15 else "int32_t",
        start=f"{name}_root[step < 0 ? 0 : step > {last} ? {last} : step]" if last else policy.roots[0],
        size=size,
    )


def make_identifier(stem: str) -> str:
    """Return a C identifier for the functions of a file of this name, one that no header has reserved."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", stem, flags=re.ASCII).strip("_")
    return name if name[:1].isalpha() else f"policy_{name}".rstrip("_")


def count_bytes(policy: Policy) -> int:
    """Return the memory that the tables take."""
    return sum(table.bytes for table in _make_tables(policy))


def find_action_type(policy: Policy) -> tuple[str, int]:
    """Return C's type of the numbers of an action, and how many there are."""
    actions, size = policy.tree.actions, int(np.prod(policy.shape))
    if actions.dtype.kind == "f":
        return ("double" if actions.dtype.itemsize > 4 else "float"), size
    least, most = int(actions.min()), int(actions.max())
    if max(-least, most) < 2**15:  # an `int` may have 16 bits
        return "int", size
    return _find_integer(least, most, ("int32", "int64", "uint64")).name + "_t", size


def _find_integer(least: int, most: int, kinds: Sequence[str] = _INTEGERS) -> np.dtype[Any]:
    """Return the first integer type that holds a range."""
    return next(np.dtype(kind) for kind in kinds if np.iinfo(kind).min <= least and most <= np.iinfo(kind).max)


def _make_tables(policy: Policy) -> list[Table]:
    """Return all tables that are not empty."""
    tables = []
    pairs = list(zip(policy.nodes["number"], policy.nodes["threshold"], strict=True))
    if pairs:
        distinct = sorted(set(pairs))
        place = {pair: at for at, pair in enumerate(distinct)}
        shared = [_make_table("pair", [place[pair] for pair in pairs]), *_make_pairs(policy, distinct)]
        tables += min(_make_pairs(policy, pairs), shared, key=lambda parts: sum(table.bytes for table in parts))
        tables.append(_make_table("next", policy.tree.children.ravel().tolist(), 2))
    if len(policy.roots) > 1:
        tables.append(_make_table("root", policy.roots))
    kind, size = find_action_type(policy)
    tables.append(_make_table("action", policy.tree.actions.ravel().tolist(), size, single=kind == "float"))
    return tables


def _make_pairs(policy: Policy, pairs: Sequence[tuple[int, float]]) -> list[Table]:
    numbers, thresholds = zip(*pairs, strict=True)
    table = _make_table("threshold", thresholds)
    return [_make_table("number", numbers), table] if len(policy.observation) > 1 else [table]


def _make_table(name: str, values: Sequence[Any], row: int = 1, single: bool = False) -> Table:
    """Return a table of integers or floats, so many to a row."""
    if isinstance(values[0], float):
        kind, size = ("float", 4) if single else ("double", 8)
        entries = [_to_hexadecimal(value) + ("f" if single else "") for value in values]
    else:
        dtype = _find_integer(min(values), max(values))
        kind, size, entries = f"{dtype.name}_t", dtype.itemsize, list(map(_to_integer, values))
    shape = f"[{len(values) // row}]"
    if row > 1:
        shape += f"[{row}]"
        entries = ["{" + ", ".join(entries[k : k + row]).replace(" ", "\0") + "}" for k in range(0, len(entries), row)]
    lines = textwrap.fill(", ".join(entries), 96, break_long_words=False, break_on_hyphens=False)
    text = textwrap.indent(lines, "    ").replace("\0", " ")  # rows are not broken
    return Table(name, kind, size * len(values), shape, text)


def _to_integer(value: int) -> str:
    if value > 2**63 - 1:
        return f"{value}u"
    return str(int(value)) if value > -(2**63) else f"({value + 1} - 1)"


def _to_hexadecimal(value: float) -> str:
    """Return a literal of exactly this number."""
    return re.sub(r"\.?0*p", "p", value.hex()) if "." in value.hex() else value.hex()
