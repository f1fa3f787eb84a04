"""Fewer conversions between element types."""

from __future__ import annotations

from afterglow.graph import Builder, Node, Value
from afterglow.ops.conversion import Cast
from afterglow.passes import RewritePass, rewrite
from afterglow.types import DType
from afterglow.types import dtype as d
from afterglow.types.dtype import Kind

EXACT_INTEGER_BITS: dict[DType, int] = {d.f64: 53, d.f32: 24, d.f16: 11, d.bf16: 8}
"""For each float type, the bits of the integers that it represents exactly, sign excluded."""


def loses_nothing(source: DType, target: DType) -> bool:
    """Whether every number of `source` is one of `target`."""
    match source.kind, target.kind:
        case Kind.BOOL, kind:
            return kind is not Kind.STRING
        case Kind.INT | Kind.UINT, Kind.INT | Kind.UINT:
            fits = _magnitude_bits(source) <= _magnitude_bits(target)
            return fits and (target.is_signed or not source.is_signed)
        case Kind.INT | Kind.UINT, Kind.FLOAT:
            return _magnitude_bits(source) <= EXACT_INTEGER_BITS.get(target, 0)
        case Kind.FLOAT, Kind.FLOAT:
            return source is target or (target in (d.f32, d.f64) and source.bits < target.bits)
    return False


def _magnitude_bits(dtype: DType) -> int:
    return dtype.bits - (dtype.kind is Kind.INT)


@rewrite(Cast)
def drop_idle_cast(node: Node, b: Builder) -> Value | None:
    """cast(x, t)  ->  x,  if x has type t."""
    match node.operands:
        case [Value() as x] if x.type == node.result.type:
            return x
    return None


@rewrite(Cast)
def cast_at_once(node: Node, b: Builder) -> Value | None:
    """cast(cast(x, t), u)  ->  cast(x, u),  if every number that x may hold is one of t."""
    match node:
        case Node(Cast(dtype=target), [Value(Node(Cast(dtype=middle), [Value() as x]))]):
            exact = target is not d.string and loses_nothing(x.type.dtype, middle)
            return b.emit(node.op, x) if exact else None
    return None


SIMPLIFY_CASTS = RewritePass("simplify-casts", (drop_idle_cast, cast_at_once))
