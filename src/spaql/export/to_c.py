"""A policy as C99: constant tables and one loop.

    .c    self-contained: `type NAME_act(const double observation[n])`, with external linkage
    .h    the same function as `static inline`, with its tables: include it where it is called; also valid C++17

The code includes only float.h and stdint.h, which exist without a C library: no heap, no libm.  An action of one number
is returned; one of several numbers is written to an array, the last argument.  Discrete actions are integers (`int`
where that is wide enough on every machine), others `float` or `double`, as the environment takes them.

Thresholds and actions are hexadecimal floating-point numbers, so that no compiler rounds them.  References are those of
`spaql.partition.tree`.  Many nodes compare the same number with the same threshold; where it makes the tables smaller,
nodes hold the index of such a pair.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spaql.export.policy import Policy, check_identifier, describe

_INTEGERS = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "int64", "uint64")  # the first that fits is taken
_EXACT = 2.0**52  # from here on every double is an integer


@dataclass(frozen=True)
class Table:
    """A constant array: its name, C type, bytes of one entry, the entries in C, and how many make a row."""

    name: str
    kind: str
    size: int
    entries: list[str]
    row: int = 1

    @property
    def bytes(self) -> int:
        """Memory it takes."""
        return self.size * len(self.entries)

    def define(self, prefix: str) -> str:
        """Return its definition in C."""
        shape, entries = f"[{len(self.entries) // self.row}]", self.entries
        if self.row > 1:
            shape += f"[{self.row}]"
            groups = zip(*[iter(self.entries)] * self.row, strict=True)
            entries = ["{" + ", ".join(group) + "}" for group in groups]
        return f"static const {self.kind} {prefix}_{self.name}{shape} = {{\n{_fill(entries)}\n}};"


def make_source(policy: Policy, name: str, *, header: bool) -> str:
    """Return the text of a .c or .h file whose function is `name`_act."""
    name = check_identifier(name)
    guard = f"{name.upper()}_ACT_H"
    tables = _make_tables(policy)
    declaration = _declare(policy, name)
    comment = "\n".join(f" * {line}".rstrip() for line in _comment(policy, declaration, header, _sum_bytes(tables)))
    parts = [
        f"/*\n{comment}\n */",
        *([f"#ifndef {guard}\n#define {guard}"] if header else []),
        "#include <float.h>\n#include <stdint.h>",
        '#if DBL_MANT_DIG < 53\n#error "the thresholds are exact for a double of 53 bits"\n#endif',
        *(table.define(name) for table in tables),
        *([] if header else [f"{declaration};"]),
        f"{'static inline ' if header else ''}{declaration}\n{{\n{_make_body(policy, name, tables)}\n}}",
        *(["#endif"] if header else []),
    ]
    return "\n\n".join(parts) + "\n"


def count_bytes(policy: Policy) -> int:
    """Return the memory that the tables take."""
    return _sum_bytes(_make_tables(policy))


def _sum_bytes(tables: Iterable[Table]) -> int:
    return sum(table.bytes for table in tables)


def find_action_type(policy: Policy) -> tuple[str, int]:
    """Return C's type of the numbers of an action, and how many there are."""
    actions = policy.tree.actions
    size = int(np.prod(policy.shape))
    if actions.dtype.kind == "f":
        return ("double" if actions.dtype.itemsize > 4 else "float"), size
    least, most = int(actions.min()), int(actions.max())
    if max(-least, most) < 2**15:  # an `int` may have 16 bits
        return "int", size
    return ("int32_t" if max(-least, most) < 2**31 else _find_integer(least, most, _INTEGERS[-2:])[0]), size


def _find_integer(least: int, most: int, kinds: Sequence[str] = _INTEGERS) -> tuple[str, int]:
    """Return the first integer type that holds a range, and its bytes."""
    types = (np.iinfo(kind) for kind in kinds)
    fitting = next(each for each in types if each.min <= least and most <= each.max)
    return f"{fitting.dtype.name}_t", fitting.dtype.itemsize


def _declare(policy: Policy, name: str) -> str:
    step = f", {'int' if len(policy.roots) < 2**15 else 'int32_t'} step" if policy.time_variant else ""
    kind, size = find_action_type(policy)
    arguments = f"const double observation[{len(policy.observation)}]{step}"
    return f"{kind} {name}_act({arguments})" if size == 1 else f"void {name}_act({arguments}, {kind} action[{size}])"


def _comment(policy: Policy, declaration: str, header: bool, size: int) -> list[str]:
    lines = describe(policy)
    lines += ["", f"{declaration};  ({'static: include' if header else 'declare'} it where it is called)"]
    lines += ["", f"Its tables take {size:,} bytes. A node compares a number with a threshold and goes to another,"]
    lines += ["one for below and one for the threshold and above; a `next` less than 0 ends with the action -1 - next."]
    return [part for line in lines for part in (textwrap.wrap(line, 110, subsequent_indent="    ") or [""])]


def _make_tables(policy: Policy) -> list[Table]:
    """Return all tables that are not empty."""
    tables = []
    pairs = [(node.number, node.threshold) for node in policy.nodes]
    if pairs:
        distinct = sorted(set(pairs))
        place = {pair: at for at, pair in enumerate(distinct)}
        shared = [_make_integers("pair", [place[pair] for pair in pairs]), *_make_pairs(policy, distinct)]
        tables += min(_make_pairs(policy, pairs), shared, key=_sum_bytes)
        tables.append(_make_integers("next", [end for node in policy.nodes for end in (node.below, node.above)], 2))
    if len(policy.roots) > 1:
        tables.append(_make_integers("root", policy.roots))
    tables.append(_make_actions(policy.tree.actions.reshape(-1), find_action_type(policy)[1]))
    return tables


def _make_pairs(policy: Policy, pairs: Sequence[tuple[int, float]]) -> list[Table]:
    numbers, thresholds = zip(*pairs, strict=True)
    table = Table("threshold", "double", 8, [_to_hexadecimal(value) for value in thresholds])
    return [_make_integers("number", numbers), table] if len(policy.observation) > 1 else [table]


def _make_integers(name: str, values: Sequence[int], row: int = 1) -> Table:
    kind, size = _find_integer(min(values), max(values))
    return Table(name, kind, size, [_to_integer(value) for value in values], row)


def _make_actions(values: Any, row: int) -> Table:
    if values.dtype.kind != "f":
        return _make_integers("action", [int(value) for value in values], row)
    kind, size, suffix = ("double", 8, "") if values.dtype.itemsize > 4 else ("float", 4, "f")
    return Table("action", kind, size, [_to_hexadecimal(float(value)) + suffix for value in values], row)


def _make_body(policy: Policy, name: str, tables: Sequence[Table]) -> str:
    """Return the body of the function that reads these tables."""
    present = {table.name for table in tables}
    lines = _wrap(policy)
    seen = "seen" if lines else "observation"
    at = "int" if max(len(policy.nodes), len(policy.tree.actions)) < 2**15 else "int32_t"
    start, last = str(policy.roots[0]), len(policy.roots) - 1
    if "root" in present:
        start = f"{name}_root[step < 0 ? 0 : step > {last} ? {last} : step]"
    elif policy.time_variant:
        lines += ["(void)step;"]
    lines += [f"{at} at = {start};"]
    if "next" in present:
        number = f"{name}_number[pair]" if "number" in present else "0"
        lines += [
            "while (at >= 0) {",
            f"    const {at} pair = {f'{name}_pair[at]' if 'pair' in present else 'at'};",
            f"    at = {name}_next[at][{seen}[{number}] >= {name}_threshold[pair]];",
            "}",
        ]
    else:
        lines += ["(void)observation;"]
    size = find_action_type(policy)[1]
    if size == 1:
        lines += [f"return {name}_action[-1 - at];"]
    else:
        lines += [f"for (int i = 0; i < {size}; i++)", f"    action[i] = {name}_action[-1 - at][i];"]
    return "\n".join(f"    {line}" for line in lines)


def _wrap(policy: Policy) -> list[str]:
    """Return lines that bring periodic numbers into the unit interval; none where there are none."""
    if not policy.wrapped:
        return []
    seen = [f"observation[{place}]" for place in range(len(policy.observation))]
    lines = []
    for place, low, width in policy.wrapped:
        base = f"({_to_hexadecimal(low)})" if low < 0.0 else _to_hexadecimal(low)
        seen[place], number = f"({seen[place]} - {base}) / {_to_hexadecimal(width)}", f"seen[{place}]"
        lines += [
            f"if ({number} > {-_EXACT:.1f} && {number} < {_EXACT:.1f}) {{ /* less its floor */",
            f"    double whole = (double)(int64_t){number};",
            f"    {number} -= whole > {number} ? whole - 1.0 : whole;",
            "} else {",
            f"    {number} = 0.0;",
            "}",
        ]
    return [f"double seen[{len(seen)}] = {{", *(f"    {part}," for part in seen), "};", *lines]


def _to_integer(value: int) -> str:
    if value > 2**63 - 1:
        return f"{value}u"
    return str(value) if value > -(2**63) else f"({value + 1} - 1)"


def _to_hexadecimal(value: float) -> str:
    """Return a literal of exactly this number."""
    return re.sub(r"\.?0*p", "p", value.hex()) if "." in value.hex() else value.hex()


def _fill(entries: list[str]) -> str:
    """Return entries of a table, as many on a line as fit."""
    text = ", ".join(entry.replace(" ", "\0") for entry in entries)
    lines = textwrap.fill(text, 96, break_long_words=False, break_on_hyphens=False)
    return textwrap.indent(lines, "    ").replace("\0", " ")
