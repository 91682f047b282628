"""A policy as JSON, for whoever writes a reader in another language; docs/policy.schema.json says what is in it.

Numbers are written with as many digits as bring back the same double.
"""

from __future__ import annotations

import json
from typing import Any

from spaql.export.policy import Policy

FORMAT = "spaql-policy"
VERSION = 1


def document(policy: Policy) -> str:
    """The text of a .json file."""
    parts = contents(policy)
    lines = [f"  {json.dumps(key)}: {_told(value)}" for key, value in parts.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def contents(policy: Policy) -> dict[str, Any]:
    """What it holds."""
    tree = policy.tree
    ends = zip(policy.words.states, tree.states.low.tolist(), tree.states.high.tolist(), policy.widths(), strict=True)
    below, above = tree.children.T.tolist()
    return {
        "format": FORMAT,
        "version": VERSION,
        "spaql": policy.version,
        "agent": policy.agent,
        "problem": policy.problem,
        "learned": policy.origin,
        "observation": [
            {"name": word, "low": low, "high": high, "width": width, "periodic": place in tree.periodic}
            for place, (word, low, high, width) in enumerate(ends)
        ],
        "action": {"type": tree.actions.dtype.name, "shape": list(policy.shape), "names": _names(policy)},
        "timed": policy.timed,
        "roots": tree.roots.tolist(),
        "nodes": {
            "number": tree.dims.tolist(),
            "threshold": tree.thresholds.tolist(),
            "below": below,
            "above": above,
        },
        "actions": tree.actions.tolist(),
    }


def _names(policy: Policy) -> list[str]:
    """Of the actions, one for each that is ever taken; of the numbers of an action where there is no end of them."""
    if policy.numbers is None:
        return policy.words.actions
    return [policy.words.actions[number] for number in policy.numbers]


def _told(value: Any) -> str:
    """On one line, or with one part on each."""
    if isinstance(value, dict):
        rows = [f"    {json.dumps(key)}: {json.dumps(part, allow_nan=False)}" for key, part in value.items()]
        return "{\n" + ",\n".join(rows) + "\n  }"
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n" + ",\n".join(f"    {json.dumps(part, allow_nan=False)}" for part in value) + "\n  ]"
    return json.dumps(value, allow_nan=False)
