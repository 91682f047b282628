"""A policy as a file of plain Python: no imports, one function `act(observation)` or `act(observation, step)`."""

from typing import Any

from spaql.export.policy import Policy, describe, render


def make_source(policy: Policy) -> str:
    """Return the text of a .py file."""
    return render(
        "policy.py.jinja",
        policy=policy,
        comment=describe(policy),
        names=map(ascii, policy.labels.states),
        nodes=zip(*policy.nodes.values(), strict=True),
        actions=map(_to_tuple, policy.tree.actions.tolist()),
    )


def _to_tuple(action: Any) -> Any:
    return tuple(map(_to_tuple, action)) if isinstance(action, list) else action
