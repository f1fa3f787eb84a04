"""Range checks of operands that index memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from afterglow.graph.function import Function
from afterglow.graph.op import Op
from afterglow.graph.value import Constant, Node
from afterglow.support.errors import IndexRangeError
from afterglow.types import Array, IndexRange, IndexRanges, TensorType

_LEAST = -(2**63)
"""The integer that NaN converts to, as in machine code."""


def in_range(
    op: Op, operands: Sequence[Array | None], *, unchecked: bool = False
) -> Sequence[Array | None]:
    """The operands, with indices in the ranges that the op requires; otherwise `IndexRangeError`.

    `unchecked`, numbers out of range become the nearest that are not.
    """
    if type(op).index_ranges is Op.index_ranges:
        return operands
    types = [None if x is None else TensorType.of(x) for x in operands]
    ranges = op.index_ranges(types)
    return [
        _checked(op, name, x, ranges[name], unchecked) if x is not None and name in ranges else x
        for name, x in zip(op.operand_names, operands, strict=False)
    ]


def has_outside(indices: Array, ranges: IndexRanges) -> bool:
    """Whether some number of an operand is out of its range."""
    return any(
        allowed is not None and _outside(_part(indices, ranges, place), allowed) is not None
        for place, allowed in enumerate(ranges)
    )


def _part(indices: Array, ranges: IndexRanges, place: int) -> Array:
    return indices if len(ranges) == 1 else indices[..., place]


def check_constants(function: Function) -> None:
    """Raise `IndexRangeError` if a node of a function takes constants out of range as indices.

    That is for functions of which all nodes run; a body may never run, and tells when it does.
    """
    escaping = {id(value) for value in function.escaping()}
    for node in function.nodes:
        if any(result.use_count or id(result) in escaping for result in node.results):
            _check_node(node)


def _check_node(node: Node) -> None:
    if type(node.op).index_ranges is Op.index_ranges or node.predicate is not None:
        return
    ranges = node.op.index_ranges([None if v is None else v.type for v in node.operands])
    for name, operand in zip(node.op.operand_names, node.operands, strict=False):
        if isinstance(operand, Constant) and name in ranges:
            try:
                _checked(node.op, name, operand.data, ranges[name], unchecked=False)
            except IndexRangeError as error:
                raise error.at_node(node.origin or node.name) from None


def _checked(op: Op, name: str, indices: Array, ranges: IndexRanges, unchecked: bool) -> Array:
    parts = len(ranges)
    for place, allowed in enumerate(ranges):
        part = _part(indices, ranges, place)
        outside = None if allowed is None else _outside(part, allowed)
        if allowed is None or outside is None:
            continue
        low, high = allowed.low, allowed.high
        if not unchecked or low > high:
            value = _shown(part[outside].reshape(-1)[0])
            raise IndexRangeError.of(op.mnemonic, name, value, (low, high))
        near = np.where(outside, np.clip(np.nan_to_num(_whole(part)), low, high), part)
        indices = indices.copy()
        indices[... if parts == 1 else (..., place)] = near.astype(indices.dtype)
    return indices


def _outside(part: Array, allowed: IndexRange) -> Array | None:
    """A mask of the numbers that are out of range; None if all are in range."""
    whole = _whole(part)
    outside = ~np.asarray((whole >= allowed.low) & (whole <= allowed.high))
    return outside if outside.any() else None


def _whole(part: Array) -> Array:
    """Numbers without their fractions, in a type that NumPy compares."""
    if part.dtype.kind in "iu" and part.dtype.itemsize == np.dtype(np.int64).itemsize:
        return part
    if TensorType.of(part).dtype.is_float:
        return np.trunc(part.astype(np.float64))
    return part.astype(np.int64)


def _shown(number: Any) -> int:
    """A number as messages show it: without its fraction, and the least of all for NaN."""
    if isinstance(number, np.integer):
        return int(number)
    value = float(number)
    if np.isnan(value):
        return _LEAST
    return -_LEAST - 1 if value >= -_LEAST else int(max(value, _LEAST))
