"""Running ops and functions by their NumPy meaning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from afterglow.graph.function import Function
from afterglow.graph.op import Op
from afterglow.graph.value import Constant, Placeholder, Value
from afterglow.types import Array, TensorType


def run_op(
    op: Op, operands: Sequence[Array | None], types: Sequence[TensorType]
) -> tuple[Array, ...]:
    """Evaluate an op and give each result its inferred element type.

    Floats narrower than 32 bits are computed in float32 and rounded once, at the end.
    """
    with np.errstate(all="ignore"):
        return evaluate_op(op, operands, types)


def evaluate_op(
    op: Op, operands: Sequence[Array | None], types: Sequence[TensorType]
) -> tuple[Array, ...]:
    """The same where NumPy's warnings are off already."""
    if not op.moves_only:
        operands = [None if x is None else _widened(x) for x in operands]
    results = op.evaluate(*operands)
    if not isinstance(results, tuple):
        results = (results,)
    return tuple(_narrowed(result, type) for result, type in zip(results, types, strict=True))


def _widened(x: Array) -> Array:
    narrow = x.dtype.itemsize <= 2 and (
        x.dtype.kind == "f" or x.dtype.name.startswith(("bf", "fl"))
    )
    return x.astype(np.float32) if narrow else x


def _narrowed(result: Any, type: TensorType) -> Array:
    array = np.asarray(result)
    if array.shape != type.shape:
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
        results = run_op(node.op, operands, [r.type for r in node.results])
        environment.update(zip(node.results, results, strict=True))
    outputs = tuple(look_up(output.value) for output in function.outputs)
    for update in function.updates:
        states[update.state.name][...] = look_up(update.value)
    return outputs
