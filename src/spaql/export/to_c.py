"""A policy as C99: constant tables and one loop.

    .c    self-contained: `type NAME_act(const double observation[n])`, with external linkage
    .h    the same function as `static inline`, tables and all: include it where it is called; also valid C++17

It takes nothing but float.h and stdint.h, which compilers have without a library: no heap, no libm.  An action of one
number is returned; of several numbers it is written to an array, the last argument.  Discrete actions are whole numbers
(`int` where that is wide enough on every machine), others `float` or `double`, as the environment takes them.

Thresholds and actions are written as hexadecimal floating-point numbers, so that no compiler rounds them.  A reference
is the number of a node, or below zero that of an action, as in `spaql.partition.tree`.  Many nodes compare the same number with
the same threshold; where it makes the tables smaller, nodes hold the number of such a pair.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from spaql.export.policy import Policy, about, check_identifier

_INTEGERS = (
    ("uint8_t", 1, 0, 2**8 - 1),
    ("int8_t", 1, -(2**7), 2**7 - 1),
    ("uint16_t", 2, 0, 2**16 - 1),
    ("int16_t", 2, -(2**15), 2**15 - 1),
    ("uint32_t", 4, 0, 2**32 - 1),
    ("int32_t", 4, -(2**31), 2**31 - 1),
    ("int64_t", 8, -(2**63), 2**63 - 1),
    ("uint64_t", 8, 0, 2**64 - 1),
)
_WHOLE = 2.0**52  # from here on every double is a whole number


@dataclass(frozen=True)
class Table:
    """A constant array: its name, type, bytes of one entry, the entries as C has them, and how many are a row."""

    name: str
    kind: str
    size: int
    entries: list[str]
    row: int = 1

    @property
    def bytes(self) -> int:
        """That it takes in memory."""
        return self.size * len(self.entries)

    def definition(self, prefix: str) -> str:
        """As C has it."""
        rows = f"[{len(self.entries) // self.row}]" + (f"[{self.row}]" if self.row > 1 else "")
        words = self.entries
        if self.row > 1:
            groups = zip(*[iter(self.entries)] * self.row, strict=True)
            words = ["{" + ", ".join(group) + "}" for group in groups]
        lines = _filled(words)
        return f"static const {self.kind} {prefix}_{self.name}{rows} = {{\n{lines}\n}};"


def source(policy: Policy, name: str, *, header: bool) -> str:
    """The text of a .c or .h file, whose function is called `name`_act."""
    name = check_identifier(name)
    guard = f"{name.upper()}_ACT_H"
    tables = _tables(policy)
    body = _body(policy, name, {table.name for table in tables})
    comment = "\n".join(f" * {line}".rstrip() for line in _comment(policy, name, header, _bytes(tables)))
    parts = [
        f"/*\n{comment}\n */",
        *([f"#ifndef {guard}\n#define {guard}"] if header else []),
        "#include <float.h>\n#include <stdint.h>",
        '#if DBL_MANT_DIG < 53\n#error "the thresholds are exact for a double of 53 bits"\n#endif',
        *(table.definition(name) for table in tables),
        *([] if header else [f"{signature(policy, name)};"]),
        f"{'static inline ' if header else ''}{signature(policy, name)}\n{{\n{body}\n}}",
        *(["#endif"] if header else []),
    ]
    return "\n\n".join(parts) + "\n"


def table_bytes(policy: Policy) -> int:
    """Memory that the tables take."""
    return _bytes(_tables(policy))


def _bytes(tables: Iterable[Table]) -> int:
    return sum(table.bytes for table in tables)


def signature(policy: Policy, name: str) -> str:
    """The function's declaration, without what follows it."""
    step = f", {_step_kind(policy)} step" if policy.timed else ""
    numbers = policy.tree.states.dimensions
    kind, size = action_kind(policy)
    if size == 1:
        return f"{kind} {name}_act(const double observation[{numbers}]{step})"
    return f"void {name}_act(const double observation[{numbers}]{step}, {kind} action[{size}])"


def action_kind(policy: Policy) -> tuple[str, int]:
    """C's type of the numbers of an action, and how many there are."""
    actions = policy.tree.actions
    size = int(np.prod(policy.shape))
    if actions.dtype.kind == "f":
        return ("double" if actions.dtype.itemsize > 4 else "float"), size
    least, most = int(actions.min()), int(actions.max())
    if max(-least, most) < 2**15:  # an `int` may have 16 bits
        return "int", size
    if max(-least, most) < 2**31:
        return "int32_t", size
    return next(kind for kind, _, low, high in _INTEGERS[-2:] if low <= least and most <= high), size


def _comment(policy: Policy, name: str, header: bool, size: int) -> list[str]:
    kind = "static, to be included where it is called" if header else "declare it where it is called"
    lines = about(policy)
    lines += ["", f"{signature(policy, name)};  ({kind})"]
    lines += ["", f"Its tables take {size:,} bytes. A node compares a number with a threshold and goes on below it, or"]
    lines += ["from it on, at another node, or where `next` is less than 0 ends with the action -1 - next."]
    return [part for line in lines for part in (textwrap.wrap(line, 110, subsequent_indent="    ") or [""])]


def _tables(policy: Policy) -> list[Table]:
    """All of them; those that would be empty or have one entry are left out."""
    tree = policy.tree
    tables = []
    pairs = list(zip(tree.dims.tolist(), tree.thresholds.tolist(), strict=True))
    if pairs:
        distinct = sorted(set(pairs))
        place = {pair: at for at, pair in enumerate(distinct)}
        index = _whole("pair", [place[pair] for pair in pairs])
        several = tree.states.dimensions > 1

        def told(rows: list[tuple[int, float]]) -> list[Table]:
            numbers = [_whole("number", [row[0] for row in rows])] if several else []
            return [*numbers, Table("threshold", "double", 8, [_hexadecimal(row[1]) for row in rows])]

        shared, single = [index, *told(distinct)], told(pairs)
        tables += min(single, shared, key=_bytes)
        tables.append(_whole("next", tree.children.reshape(-1).tolist(), 2))
    if len(tree.roots) > 1:
        tables.append(_whole("root", tree.roots.tolist()))
    row = action_kind(policy)[1]
    tables.append(_told("action", tree.actions.reshape(-1), row))
    return tables


def _body(policy: Policy, name: str, tables: set[str]) -> str:
    """Of the function that reads these tables."""
    tree = policy.tree
    size = action_kind(policy)[1]
    lines = []
    seen = "observation"
    if policy.rounds:
        seen = "seen"
        lines += _rounds(policy)
    at = "int" if max(len(tree.dims), len(tree.actions)) < 2**15 else "int32_t"
    start = str(int(tree.roots[0]))
    if len(tree.roots) > 1:
        last = len(tree.roots) - 1
        start = f"{name}_root[step < 0 ? 0 : step > {last} ? {last} : step]"
    elif policy.timed:
        lines += ["(void)step;"]
    lines += [f"{at} at = {start};"]
    if "next" in tables:
        pair = f"{name}_pair[at]" if "pair" in tables else "at"
        number = f"{name}_number[pair]" if "number" in tables else "0"
        lines += [
            "while (at >= 0) {",
            f"    const {at} pair = {pair};",
            f"    at = {name}_next[at][{seen}[{number}] >= {name}_threshold[pair]];",
            "}",
        ]
    else:
        lines += ["(void)observation;"]
    if size == 1:
        lines += [f"return {name}_action[-1 - at];"]
    else:
        lines += [f"for (int i = 0; i < {size}; i++)", f"    action[i] = {name}_action[-1 - at][i];"]
    return "\n".join(f"    {line}" for line in lines)


def _rounds(policy: Policy) -> list[str]:
    """The observation with numbers that come round brought into the unit interval."""
    low, width = policy.tree.states.low.tolist(), policy.widths()
    seen = [f"observation[{place}]" for place in range(len(low))]
    for place in policy.rounds:
        seen[place] = f"({seen[place]} - {_bracketed(low[place])}) / {_hexadecimal(width[place])}"
    lines = [f"double seen[{len(seen)}] = {{", *(f"    {part}," for part in seen), "};"]
    for place in policy.rounds:
        number = f"seen[{place}]"
        lines += [
            f"if ({number} > {-_WHOLE:.1f} && {number} < {_WHOLE:.1f}) {{ /* less its floor */",
            f"    double whole = (double)(int64_t){number};",
            f"    {number} -= whole > {number} ? whole - 1.0 : whole;",
            "} else {",
            f"    {number} = 0.0;",
            "}",
        ]
    return lines


def _step_kind(policy: Policy) -> str:
    return "int" if len(policy.tree.roots) < 2**15 else "int32_t"


def _whole(name: str, values: list[int], row: int = 1) -> Table:
    """A table of whole numbers, in the smallest type that holds them."""
    least, most = min(values), max(values)
    kind, size = next((kind, size) for kind, size, low, high in _INTEGERS if low <= least and most <= high)
    return Table(name, kind, size, [_integer(value) for value in values], row)


def _told(name: str, values: Any, row: int) -> Table:
    """A table of numbers of an action."""
    if values.dtype.kind != "f":
        return _whole(name, [int(value) for value in values], row)
    double = values.dtype.itemsize > 4
    suffix = "" if double else "f"
    entries = [_hexadecimal(float(value)) + suffix for value in values]
    return Table(name, "double" if double else "float", 8 if double else 4, entries, row)


def _integer(value: int) -> str:
    if value > 2**63 - 1:
        return f"{value}u"
    return str(value) if value > -(2**63) else f"({value + 1} - 1)"


def _hexadecimal(value: float) -> str:
    """Exactly this number."""
    return re.sub(r"\.?0*p", "p", value.hex()) if "." in value.hex() else value.hex()


def _bracketed(value: float) -> str:
    return f"({_hexadecimal(value)})" if value < 0.0 else _hexadecimal(value)


def _filled(words: list[str]) -> str:
    """Entries of a table, as many on a line as fit."""
    return textwrap.fill(
        ", ".join(word.replace(" ", "\0") for word in words),
        100,
        initial_indent="    ",
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    ).replace("\0", " ")
