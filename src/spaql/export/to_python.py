"""A policy as a file of plain Python: no imports, one function `act(observation)` or `act(observation, step)`."""

from __future__ import annotations

from typing import Any

from spaql.export.policy import Policy, about

_TURN = """
    seen = [float(number) for number in observation]
    for number, low, width in ROUND:
        turns = (seen[number] - low) / width
        seen[number] = turns - turns // 1.0  # not a number, and so below every threshold, where it is infinite
"""


def source(policy: Policy) -> str:
    """The text of a .py file."""
    tree = policy.tree
    low, width = tree.states.low.tolist(), policy.widths()
    nodes = zip(tree.dims.tolist(), tree.thresholds.tolist(), *tree.children.T.tolist(), strict=True)
    lines = [f"# {line}".rstrip() for line in about(policy)]
    lines += ["", f"OBSERVATION = {_listed(ascii(word) for word in policy.words.states)}"]
    lines += ["# number of the observation, threshold, what follows below it, what follows from it on;"]
    lines += ["# what follows is another of these, or below zero an action: -1 is the first"]
    lines += [f"NODES = {_listed(nodes)}"]
    if policy.rounds:
        rounds = [(place, low[place], width[place]) for place in policy.rounds]
        lines += [f"ROUND = {_listed(rounds)}  # numbers that come round: where from, and how far"]
    if policy.timed:
        lines += [f"ROOTS = {_listed(tree.roots.tolist())}  # where to begin at each time step"]
    lines += [f"ACTIONS = {_listed(_frozen(action) for action in tree.actions.tolist())}"]
    return "\n".join(lines) + "\n\n\n" + _function(policy)


def _function(policy: Policy) -> str:
    start = "ROOTS[min(max(step, 0), len(ROOTS) - 1)]" if policy.timed else str(int(policy.tree.roots[0]))
    look = "seen[number]" if policy.rounds else "float(observation[number])"
    return (
        f"def act(observation{', step' if policy.timed else ''}):\n"
        '    """The action for an observation, a sequence of numbers in the order told above."""'
        f"{_TURN if policy.rounds else chr(10)}"
        f"    at = {start}\n"
        "    while at >= 0:\n"
        "        number, threshold, below, above = NODES[at]\n"
        f"        at = above if {look} >= threshold else below\n"
        "    return ACTIONS[-1 - at]\n"
    )


def _listed(entries: Any) -> str:
    """A tuple, with one entry on a line."""
    rows = [entry if isinstance(entry, str) else repr(entry) for entry in entries]
    return "(\n" + "".join(f"    {row},\n" for row in rows) + ")"


def _frozen(action: Any) -> Any:
    """Lists as tuples, whatever is in them."""
    return tuple(_frozen(part) for part in action) if isinstance(action, list) else action
