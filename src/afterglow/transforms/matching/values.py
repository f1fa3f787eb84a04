"""Predicates on values that rewrite rules share, and constants derived from others."""

from __future__ import annotations

import numpy as np

from afterglow.graph import Builder, Constant, Op, Value, run_op
from afterglow.graph.builder import infer_types
from afterglow.types import Array, TensorType
from afterglow.types.dtype import boolean
from afterglow.types.later import LaterArray


def has_one_use(value: Value) -> bool:
    """Whether it has exactly one use, as an operand; it is not returned or stored."""
    return value.use_count == 1 and not escapes(value)


def escapes(value: Value) -> bool:
    """Whether a function returns it or stores it in state."""
    function = value.producer.function if value.producer is not None else None
    return function is not None and any(value is other for other in function.escaping())


def is_filled(value: Value, number: float) -> bool:
    """Whether it is a constant all of whose elements equal `number`; of booleans, 1 is true."""
    if not isinstance(value, Constant) or not value.type.size:
        return False
    if value.type.dtype is boolean:
        return bool(np.all(value.data == number))
    return value.is_all(number)


def uniform(value: Value) -> float | None:
    """The number that every element of a constant equals, if it is one for all and exact."""
    if not isinstance(value, Constant) or not value.type.size:
        return None
    dtype, data = value.type.dtype, value.data
    first, last = data[(0,) * data.ndim], data[(-1,) * data.ndim]
    if not (dtype.is_float or dtype.is_integer) or first != last or not value.is_all(first):
        return None
    number = float(first)
    return number if np.asarray(number).astype(dtype.numpy) == first else None


def constant_result(op: Op, *operands: Constant) -> Array | None:
    """What the op gives for constants; None if it is larger than each of them, or not finite."""
    (type,) = infer_types(op, operands)
    if type.size > max(operand.type.size for operand in operands):
        return None
    (result,) = run_op(op, [operand.data for operand in operands], [type])
    return result if bool(np.isfinite(result).all()) else None


def constant_like(
    b: Builder, source: Constant, data: Array | LaterArray, type: TensorType
) -> Constant:
    """Add `data`, derived from `source`, as a constant with a similar name."""
    return b.function.module.constant(source.name, data, type)
