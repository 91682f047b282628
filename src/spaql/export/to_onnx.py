"""A policy as an ONNX model: a tree ensemble of one tree that tells the number of a choice, and a table of actions.

    observation  double [batch, numbers]         -> Sub, Div, Floor, Sub, Where: only if some number comes round
    step         int64 [batch], of policies that change with it: one more number for the tree to compare
    TreeEnsembleRegressor (ai.onnx.ml 3)         -> the choice, a small whole number, exact in any floating-point type
    Gather                                       -> action, in the environment's own type and shape, [batch, ...]

That operator, whose thresholds can be doubles from version 3 of its domain on, was chosen over its successor
`TreeEnsemble` (version 5) because runtimes of all ages have it: ONNX Runtime since 1.11, against 1.21.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spaql.errors import ParameterError
from spaql.export.policy import Policy, about
from spaql.partition.tree import Tree

_OPSET, _ML_OPSET, _IR = 13, 3, 8


def model(policy: Policy) -> bytes:
    """The bytes of an .onnx file."""
    try:  # not before it is asked for: it is an extra
        import onnx
        from onnx import TensorProto, helper, numpy_helper
    except ImportError:
        raise ParameterError("export: onnx is missing; install it with: pip install 'spaql[onnx]'") from None
    tree = policy.tree
    size = tree.states.dimensions
    kind = helper.np_dtype_to_tensor_dtype(tree.actions.dtype)
    inputs = [helper.make_tensor_value_info("observation", TensorProto.DOUBLE, ["batch", size])]
    if policy.timed:
        inputs.append(helper.make_tensor_value_info("step", TensorProto.INT64, ["batch"]))
    output = helper.make_tensor_value_info("action", kind, ["batch", *policy.shape])
    constants = {"actions": np.ascontiguousarray(tree.actions), "line": np.array([-1], np.int64)}
    nodes, seen = [], "observation"
    if policy.rounds:
        rounds = np.isin(np.arange(size), policy.rounds)
        constants |= {
            "low": np.where(rounds, tree.states.low, 0.0),
            "width": np.where(rounds, policy.widths(), 1.0),
            "rounds": rounds[None],
        }
        nodes += [
            helper.make_node("Sub", [seen, "low"], ["above_low"]),
            helper.make_node("Div", ["above_low", "width"], ["turns"]),
            helper.make_node("Floor", ["turns"], ["whole"]),
            helper.make_node("Sub", ["turns", "whole"], ["turned"]),
            helper.make_node("Where", ["rounds", "turned", seen], ["seen"]),
        ]
        seen = "seen"
    if policy.timed:
        constants["column"] = np.array([-1, 1], np.int64)
        nodes += [
            helper.make_node("Cast", ["step"], ["time"], to=TensorProto.DOUBLE),
            helper.make_node("Reshape", ["time", "column"], ["times"]),
            helper.make_node("Concat", [seen, "times"], ["timed"], axis=1),
        ]
        seen = "timed"
    nodes += [
        helper.make_node(
            "TreeEnsembleRegressor", [seen], ["choices"], domain="ai.onnx.ml", n_targets=1, **_ensemble(policy)
        ),
        helper.make_node("Cast", ["choices"], ["numbers"], to=TensorProto.INT64),
        helper.make_node("Reshape", ["numbers", "line"], ["choice"]),
        helper.make_node("Gather", ["actions", "choice"], ["action"], axis=0),
    ]
    tensors = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    told = "\n".join(about(policy))
    graph = helper.make_graph(nodes, "policy", inputs, [output], tensors, doc_string=told)
    made = helper.make_model(
        graph,
        producer_name="spaql",
        producer_version=policy.version,
        ir_version=_IR,
        opset_imports=[helper.make_opsetid("", _OPSET), helper.make_opsetid("ai.onnx.ml", _ML_OPSET)],
    )
    onnx.checker.check_model(made)
    return bytes(made.SerializeToString(deterministic=True))


def _ensemble(policy: Policy) -> dict[str, Any]:
    """The attributes of the operator; a leaf for each reference to a choice."""
    from onnx import numpy_helper

    numbers, thresholds, below, above, choices = zip(*_walk(policy.tree), strict=True)
    leaves = [at for at, choice in enumerate(choices) if choice is not None]
    weights = np.array([choices[at] for at in leaves], np.float64)
    return {
        "nodes_treeids": [0] * len(numbers),
        "nodes_nodeids": list(range(len(numbers))),
        "nodes_featureids": numbers,
        "nodes_modes": ["BRANCH_GTE" if choice is None else "LEAF" for choice in choices],
        "nodes_values_as_tensor": numpy_helper.from_array(np.array(thresholds, np.float64)),
        "nodes_truenodeids": above,
        "nodes_falsenodeids": below,
        "nodes_missing_value_tracks_true": [0] * len(numbers),
        "target_treeids": [0] * len(leaves),
        "target_nodeids": leaves,
        "target_ids": [0] * len(leaves),
        "target_weights_as_tensor": numpy_helper.from_array(weights),
    }


def _walk(tree: Tree) -> list[list[Any]]:
    """Nodes and leaves, a parent before its children: number, threshold, below, above, and of leaves the choice.

    Where there are time steps, these are compared first, halving them each time.
    """
    rows: list[list[Any]] = []
    # What is to come: a reference, or the first and the last of some time steps; its parent, and on which side of it.
    waiting: list[tuple[Any, list[Any] | None, int]] = [((0, len(tree.roots) - 1), None, 0)]
    while waiting:
        part, parent, side = waiting.pop()
        if parent is not None:
            parent[side] = len(rows)
        if isinstance(part, tuple) and part[0] == part[1]:
            part = int(tree.roots[part[0]])
        row: list[Any] = [0, 0.0, 0, 0, None]
        rows.append(row)
        if isinstance(part, tuple):
            middle = (part[0] + part[1] + 1) // 2
            row[:2] = tree.states.dimensions, float(middle)
            waiting += [((middle, part[1]), row, 3), ((part[0], middle - 1), row, 2)]
        elif part >= 0:
            row[:2] = int(tree.dims[part]), float(tree.thresholds[part])
            waiting += [(int(tree.children[part, 1]), row, 3), (int(tree.children[part, 0]), row, 2)]
        else:
            row[4] = -1 - part
    return rows
