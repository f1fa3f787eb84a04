"""Arguments as operands: numbers made tensors, element types promoted as PyTorch does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.torch.node import TorchNode
from afterglow.graph import Value
from afterglow.support.errors import ModelError
from afterglow.types import DType
from afterglow.types.dtype import DTYPES, Kind, boolean, c64, f32, i16, i64

_RANKS = {Kind.BOOL: 0, Kind.UINT: 1, Kind.INT: 1, Kind.FLOAT: 2, Kind.COMPLEX: 3}


def number(n: TorchNode, value: Any, dtype: DType) -> Value:
    """A number as a constant without axes; what an integer type cannot hold wraps around."""
    if dtype.is_integer and isinstance(value, int):
        value = (value - dtype.limits[0]) % (1 << dtype.bits) + dtype.limits[0]
    with np.errstate(over="ignore"):
        return n.constant(np.array(value).astype(dtype.numpy))


def operand(n: TorchNode, name: str, dtype: DType) -> Value:
    """A tensor or number argument as elements of a type."""
    given = n.argument(name)
    return (
        as_dtype(n, given, dtype) if isinstance(given, Value) else number(n, n.scalar(name), dtype)
    )


def as_result(n: TorchNode, *names: str) -> list[Value]:
    """Arguments in the element type of the result."""
    return [operand(n, name, n.result_type()) for name in names]


def in_common(n: TorchNode, *names: str) -> list[Value]:
    """Arguments in the element type that PyTorch computes in."""
    dtype = common_type(n.argument(name) for name in names)
    return [operand(n, name, dtype) for name in names]


def common_type(given: Iterable[Any]) -> DType:
    """What tensors and numbers are converted to: those without axes count by their kind alone."""
    wide, narrow, plain = [], [], []
    for each in given:
        if not isinstance(each, Value):
            plain.append(_number_type(each))
        elif each.type.rank:
            wide.append(each.type.dtype)
        else:
            narrow.append(each.type.dtype)
    found = _joined(_promoted(wide), _joined(_promoted(narrow), _promoted(plain)))
    if found is None:
        raise ModelError("there are no operands whose type could be told")
    return found


def _number_type(number: Any) -> DType:
    match number:
        case bool():
            return boolean
        case int():
            return i64
        case complex():
            return c64
    return f32


def _joined(higher: DType | None, lower: DType | None) -> DType | None:
    """The type of the higher one, unless the lower one is of a wider kind."""
    if higher is None or lower is None:
        return higher or lower
    return higher if _RANKS[higher.kind] >= _RANKS[lower.kind] else promoted(higher, lower)


def _promoted(dtypes: Sequence[DType]) -> DType | None:
    found = None
    for dtype in dtypes:
        found = dtype if found is None else promoted(found, dtype)
    return found


def promoted(first: DType, second: DType) -> DType:
    """The type that PyTorch takes for both."""
    if first is second:
        return first
    low, high = sorted((first, second), key=lambda each: (_RANKS[each.kind], each.bits))
    if low.kind is not high.kind and {low.kind, high.kind} != {Kind.INT, Kind.UINT}:
        return high
    if low.kind is high.kind and low.bits < high.bits:
        return high
    if high.is_float:
        return f32  # two of 16 bits that hold different numbers
    signed, unsigned = sorted((first, second), key=lambda each: each.kind is Kind.UINT)
    if signed.bits > unsigned.bits:
        return signed
    return i16 if unsigned.bits == i16.bits // 2 else DTYPES[f"i{min(64, 2 * unsigned.bits)}"]


def axis_of(n: TorchNode, name: str, rank: int) -> int:
    """An axis argument, counted from the front; a tensor without axes counts as having one."""
    return _axis(n.size(name), rank)


def axes_of(n: TorchNode, name: str, rank: int) -> tuple[int, ...]:
    """Axes to reduce: all of them if none are given."""
    if n.argument(name) in (None, ()):
        return tuple(range(rank))
    axes = tuple(_axis(axis, rank) for axis in n.sizes(name))
    return axes if rank else ()


def _axis(axis: int, rank: int) -> int:
    axes = max(rank, 1)
    if not -axes <= axis < axes:
        raise ModelError(f"there is no axis {axis} among {rank}")
    return axis % axes
