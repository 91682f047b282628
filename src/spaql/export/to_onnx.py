"""A policy as an ONNX model: a tree ensemble of one tree that returns the number of a choice, and a table of actions.

    observation  double [batch, numbers]         -> Sub, Div, Floor, Sub, Where: only if some number is periodic
    step         int64 [batch], of time-variant policies: one more number for the tree to compare
    TreeEnsembleRegressor (ai.onnx.ml 3)         -> the choice, a small integer, exact in any floating-point type
    Gather                                       -> action, in the environment's own type and shape, [batch, ...]

This operator, whose thresholds may be doubles from version 3 of its domain on, was chosen over its successor
`TreeEnsemble` (version 5) for older runtimes: ONNX Runtime has it since 1.11, the successor since 1.21.
"""

from typing import Any

import numpy as np

from spaql._version import __version__
from spaql.errors import ParameterError
from spaql.export.policy import Policy, describe

_OPSET, _ML_OPSET, _IR = 13, 3, 8


def make_model(policy: Policy) -> bytes:
    """Return the bytes of an .onnx file."""
    try:
        import onnx
        from onnx import TensorProto, helper, numpy_helper
    except ImportError:
        raise ParameterError("export: onnx is missing; install it with: pip install 'spaql[onnx]'") from None
    size, make = len(policy.observation), helper.make_node
    kind = helper.np_dtype_to_tensor_dtype(policy.tree.actions.dtype)
    inputs = [helper.make_tensor_value_info("observation", TensorProto.DOUBLE, ["batch", size])]
    output = helper.make_tensor_value_info("action", kind, ["batch", *policy.shape])
    constants = {"actions": np.ascontiguousarray(policy.tree.actions), "line": np.array([-1], np.int64)}
    nodes, seen = [], "observation"
    if policy.wrapped:
        low, width, wraps = np.zeros(size), np.ones(size), np.zeros((1, size), np.bool_)
        for place, start, length in policy.wrapped:
            low[place], width[place], wraps[0, place] = start, length, True
        constants |= {"low": low, "width": width, "wraps": wraps}
        nodes += [
            make("Sub", [seen, "low"], ["above_low"]),
            make("Div", ["above_low", "width"], ["turns"]),
            make("Floor", ["turns"], ["whole"]),
            make("Sub", ["turns", "whole"], ["wrapped"]),
            make("Where", ["wraps", "wrapped", seen], ["seen"]),
        ]
        seen = "seen"
    if policy.time_variant:
        inputs.append(helper.make_tensor_value_info("step", TensorProto.INT64, ["batch"]))
        constants["column"] = np.array([-1, 1], np.int64)
        nodes += [
            make("Cast", ["step"], ["time"], to=TensorProto.DOUBLE),
            make("Reshape", ["time", "column"], ["times"]),
            make("Concat", [seen, "times"], ["timed"], axis=1),
        ]
        seen = "timed"
    nodes += [
        make("TreeEnsembleRegressor", [seen], ["choices"], domain="ai.onnx.ml", n_targets=1, **_make_tree(policy)),
        make("Cast", ["choices"], ["numbers"], to=TensorProto.INT64),
        make("Reshape", ["numbers", "line"], ["choice"]),
        make("Gather", ["actions", "choice"], ["action"], axis=0),
    ]
    tensors = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "policy", inputs, [output], tensors, doc_string="\n".join(describe(policy)))
    opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid("ai.onnx.ml", _ML_OPSET)]
    producer = {"producer_name": "spaql", "producer_version": __version__}
    model = helper.make_model(graph, ir_version=_IR, opset_imports=opsets, **producer)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString(deterministic=True))


def _make_tree(policy: Policy) -> dict[str, Any]:
    """Return the attributes of the operator; every reference to a choice becomes a leaf."""
    from onnx import numpy_helper

    numbers, thresholds, below, above, choices = zip(*_flatten(policy), strict=True)
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


def _flatten(policy: Policy) -> list[list[Any]]:
    """Return nodes and leaves, parents first: number, threshold, below, above, and of leaves the choice."""
    rows: list[list[Any]] = []

    def add(part: range | int) -> int:
        """Add the tree of some time steps, or at a reference, and return the place of its root."""
        place, row = len(rows), [0, 0.0, 0, 0, None]
        rows.append(row)
        if isinstance(part, range) and len(part) > 1:
            middle = len(part) // 2  # time steps are compared first
            row[:4] = len(policy.observation), float(part[middle]), add(part[:middle]), add(part[middle:])
            return place
        at = policy.roots[part[0]] if isinstance(part, range) else part
        if at >= 0:
            number, threshold, below, above = (column[at] for column in policy.nodes.values())
            row[:4] = number, threshold, add(below), add(above)
        else:
            row[4] = ~at
        return place

    add(range(len(policy.roots)))
    return rows
