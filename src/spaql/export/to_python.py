"""A policy as a file of plain Python: no imports, one function `act(observation)` or `act(observation, step)`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from spaql.export.policy import Policy, describe

_WRAP = """
    seen = [float(number) for number in observation]
    for number, low, width in PERIODIC:
        turns = (seen[number] - low) / width
        seen[number] = turns - turns // 1.0  # NaN, and so below every threshold, where it is infinite
"""


def make_source(policy: Policy) -> str:
    """Return the text of a .py file."""
    lines = [f"# {line}".rstrip() for line in describe(policy)]
    lines += ["", f"OBSERVATION = {_format(map(ascii, policy.labels.states))}"]
    lines += ["# number of the observation, threshold, next node below it, next node from it on;"]
    lines += ["# a next node less than zero ends with an action: -1 is the first"]
    lines += [f"NODES = {_format(map(repr, zip(*policy.nodes.values(), strict=True)))}"]
    if policy.wrapped:
        lines += [f"PERIODIC = {_format(map(repr, policy.wrapped))}  # place, low end and width"]
    if policy.time_variant:
        lines += [f"ROOTS = {_format(map(repr, policy.roots))}  # first node of each time step"]
    lines += [f"ACTIONS = {_format(repr(_to_tuple(action)) for action in policy.tree.actions.tolist())}"]
    return "\n".join(lines) + "\n\n\n" + _make_function(policy)


def _make_function(policy: Policy) -> str:
    start = "ROOTS[min(max(step, 0), len(ROOTS) - 1)]" if policy.time_variant else str(policy.roots[0])
    value = "seen[number]" if policy.wrapped else "float(observation[number])"
    return (
        f"def act(observation{', step' if policy.time_variant else ''}):\n"
        '    """Return the action for an observation, a sequence of numbers in the order above."""'
        f"{_WRAP if policy.wrapped else chr(10)}"
        f"    at = {start}\n"
        "    while at >= 0:\n"
        "        number, threshold, below, above = NODES[at]\n"
        f"        at = above if {value} >= threshold else below\n"
        "    return ACTIONS[-1 - at]\n"
    )


def _format(entries: Iterable[str]) -> str:
    """Return a tuple with one entry on each line."""
    return "(\n" + "".join(f"    {entry},\n" for entry in entries) + ")"


def _to_tuple(action: Any) -> Any:
    return tuple(map(_to_tuple, action)) if isinstance(action, list) else action
