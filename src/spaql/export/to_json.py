"""A policy as JSON, for readers in other languages; docs/reference/policy.schema.json is its schema."""

import json
from typing import Any

from spaql._version import __version__
from spaql.export.policy import Policy


def make_document(policy: Policy) -> str:
    """Return the text of a .json file, a line for each part."""
    lines = [f"  {json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in to_dict(policy).items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def to_dict(policy: Policy) -> dict[str, Any]:
    """Return the contents of the file."""
    return {
        "format": "spaql-policy",
        "version": 1,
        "spaql": __version__,
        "algorithm": policy.algorithm,
        "problem": policy.problem.name,
        "learned": policy.origin,
        "observation": policy.observation,
        "action": {"type": policy.tree.actions.dtype.name, "shape": list(policy.shape), "names": policy.action_names},
        "timed": policy.time_variant,
        "roots": policy.roots,
        "nodes": policy.nodes,
        "actions": policy.tree.actions.tolist(),
    }
