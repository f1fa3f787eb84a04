"""Running ops and functions by their NumPy meaning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from afterglow.graph.function import Function
from afterglow.graph.index_check import in_range
from afterglow.graph.op import Op
from afterglow.graph.own import own_results
from afterglow.graph.subgraph import Subgraph
from afterglow.graph.value import Constant, Node, Placeholder, Value
from afterglow.support.errors import EvaluationError, IndexRangeError
from afterglow.types import Array, TensorType
from afterglow.types.extent import undecided


def run_node(node: Node, operands: Sequence[Array | None], **how: bool) -> tuple[Array, ...]:
    """Evaluate the op of a node; errors about what the operands hold name the model's own node."""
    types = [result.type for result in node.results]
    return run_op(node.op, operands, types, origin=node.origin or node.name, **how)


def run_op(
    op: Op,
    operands: Sequence[Array | None],
    types: Sequence[TensorType],
    *,
    origin: str = "",
    unchecked: bool = False,
) -> tuple[Array, ...]:
    """Evaluate an op and give each result its inferred element type.

    Floats narrower than 32 bits are computed in float32 and rounded once, at the end. An index out
    of range is an error about the node `origin`, or `unchecked` the nearest that is in range. As in
    machine code, nothing is computed where no result has elements, and no index is looked at.
    """
    with np.errstate(all="ignore"):
        return evaluate_op(op, operands, types, origin=origin, unchecked=unchecked)


def evaluate_op(
    op: Op,
    operands: Sequence[Array | None],
    types: Sequence[TensorType],
    *,
    origin: str = "",
    unchecked: bool = False,
) -> tuple[Array, ...]:
    """As `run_op`, for callers that have NumPy's warnings off."""
    if all(0 in type.shape for type in types) and not _has_body(op):
        return tuple(np.empty(type.shape, type.dtype.numpy) for type in types)
    try:
        return _evaluated(op, in_range(op, operands, unchecked=unchecked), types)
    except IndexRangeError as error:  # of this op, or of one in a body that it runs
        raise error.at_node(origin) from None
    except EvaluationError as error:
        raise error.at_node(origin) from error.__cause__


def _has_body(op: Op) -> bool:
    return any(isinstance(attribute, Subgraph) for attribute in vars(op).values())


def _evaluated(
    op: Op, operands: Sequence[Array | None], types: Sequence[TensorType]
) -> tuple[Array, ...]:
    if not op.moves_only:
        operands = [None if x is None else _widened(x) for x in operands]
    results = own_results(op, operands, types) if op.own else op.evaluate(*operands)
    if not isinstance(results, tuple):
        results = (results,)
    return tuple(_narrowed(result, type) for result, type in zip(results, types, strict=True))


def _widened(x: Array) -> Array:
    if isinstance(x, str):  # NumPy unwraps the element of a string tensor without axes
        return np.asarray(x, object)
    narrow = x.dtype.itemsize <= 2 and (
        x.dtype.kind == "f" or x.dtype.name.startswith(("bf", "fl"))
    )
    return x.astype(np.float32) if narrow else x


def _narrowed(result: Any, type: TensorType) -> Array:
    array = np.asarray(result)
    if array.shape != type.shape:
        if type.is_ranged:
            raise undecided(f"the value of {type}", *type.shape)
        raise AssertionError(f"evaluate gave shape {array.shape}, infer {type.shape}")
    return array if array.dtype == type.dtype.numpy else array.astype(type.dtype.numpy)


def run_function(
    function: Function, inputs: Sequence[Array], states: Mapping[str, Array] | None = None
) -> tuple[Array, ...]:
    """Run a whole function by the definition of its ops, and return its outputs.

    New values of state are stored into the arrays of `states`, at the end.
    """
    environment: dict[Value, Array] = dict(zip(function.inputs, inputs, strict=True))
    states = states or {}

    def look_up(value: Value) -> Array:
        if isinstance(value, Constant):
            return value.data
        if isinstance(value, Placeholder) and value not in environment:
            return states[value.name]
        return environment[value]

    for node in function.nodes:
        operands = [None if v is None else look_up(v) for v in node.operands]
        results = run_node(node, operands)
        environment.update(zip(node.results, results, strict=True))
    outputs = tuple(look_up(output.value) for output in function.outputs)
    for update in function.updates:
        states[update.state.name][...] = look_up(update.value)
    return outputs
