"""Numbers as sums of terms, each integers of 32 bits times a scale."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from afterglow.graph import Builder, Constant, Node, Value
from afterglow.ops.elementwise import Add, Mul, Sub
from afterglow.ops.fixed_point import Requantize
from afterglow.ops.movement import Slice
from afterglow.ops.pooling import AvgPool
from afterglow.ops.quantized import QuantizedConv, QuantizedMatMul
from afterglow.ops.reduction import ReduceMean, ReduceSum
from afterglow.support.lazy_dataclass import dataclass
from afterglow.transforms.fixed_point import emit_difference, fits, ratio_constants
from afterglow.transforms.matching.quantized import (
    STORED_TYPES,
    Quantized,
    emit_high_bytes,
    emit_low_bytes,
)
from afterglow.transforms.matching.values import has_one_use
from afterglow.types import Array, DType
from afterglow.types.dtype import f32, i16, i32

LARGEST_BYTE = 255


@dataclass(frozen=True)
class Term:
    """Integers of 32 bits times a scale, one number or one for each column."""

    scale: Array
    largest: Array
    """What no integer, of all or of each column, is further from zero than."""
    emit: Callable[[Builder], Value]
    """Emits the integers."""

    def fits(self, step: float) -> bool:
        """Whether a multiplier and a shift say how many steps one integer is."""
        return fits(self.scale.astype(np.float64) / step)

    def reach(self, step: float) -> float:
        """What none of the numbers is further from zero than, in steps."""
        return float(np.max(np.abs(self.largest * self.scale))) / step

    def emit_steps(self, b: Builder, step: float) -> Value:
        """The numbers in steps, rounded, in 32 bits."""
        ratio = self.scale.astype(np.float64) / step
        return b.emit(Requantize(-1, 0, i32), self.emit(b), *ratio_constants(b, ratio))


@dataclass(frozen=True)
class ConstantTerm:
    """Numbers that are known."""

    data: Array

    def fits(self, step: float) -> bool:
        """Whether it can be said in steps."""
        return bool(np.isfinite(self.data).all())

    def reach(self, step: float) -> float:
        """What none of the numbers is further from zero than, in steps."""
        return float(np.max(np.abs(self.data), initial=0.0)) / step

    def emit_steps(self, b: Builder, step: float) -> Value:
        """The numbers in steps, rounded, in 32 bits."""
        steps = np.rint(self.data.astype(np.float64) / step)
        return b.constant(steps.astype(np.int32), f"{b.name}.steps")


def terms_of(value: Value) -> list[Term | ConstantTerm] | None:
    """The terms that a value is the sum of, if all are known or integers times a scale."""
    match value:
        case Constant(data) if value.type.dtype is f32:
            return [ConstantTerm(data)]
        case Value(Node(Add(), [Value() as x, Value() as y])) if has_one_use(value):
            first, second = terms_of(x), terms_of(y)
            return None if first is None or second is None else [*first, *second]
        case Value(Node(Sub(), [Value() as x, Value() as y])) if has_one_use(value):
            first, second = terms_of(x), terms_of(y)
            if first is None or second is None:
                return None
            return [*first, *map(_negated, second)]
    found = None if value.producer is None else _terms(value.producer)
    return None if found is None else [*found]


def _negated(term: Term | ConstantTerm) -> Term | ConstantTerm:
    if isinstance(term, ConstantTerm):
        return ConstantTerm(-term.data)
    return replace(term, scale=-term.scale)


def _terms(node: Node) -> list[Term] | None:
    """The terms that a node which is no sum computes."""
    match node:
        case Node(QuantizedConv() | QuantizedMatMul()):
            return _list(_product(node) if has_one_use(node.results[0]) else None)
        case Node(Slice() as part, [Value() as whole]):
            return _parts(whole, part)
        case Node(ReduceMean() as op, [Value() as x]):
            return _list(_mean_of_axes(op, x))
        case Node(AvgPool() as op, [Value() as x]):
            return _means_of_windows(op, x)
        case Node(Mul(), [Value() as x, Value() as y]):
            return _list(_scaled(x, y) if isinstance(y, Constant) else _product_of_two(x, y))
    found = computed_integers(node.results[0])
    return None if found is None else [_difference(found, found.scale.data)]


def _list(term: Term | None) -> list[Term] | None:
    return None if term is None else [term]


def computed_integers(value: Value, types: Sequence[DType] = STORED_TYPES) -> Quantized | None:
    """What a value is dequantized from, if it is computed and has one scale."""
    source = Quantized.of(value, types)
    if source is None or not source.has_one_scale or isinstance(source.stored, Constant):
        return None
    return source


def largest_difference(source: Quantized) -> int:
    """What no integer less the zero point is further from zero than."""
    least, most = source.stored.type.dtype.limits
    return max(source.zero_point - least, most - source.zero_point)


def _difference(source: Quantized, scale: Array) -> Term:
    largest = np.array(float(largest_difference(source)))
    return Term(scale, largest, lambda b: emit_difference(b, source))


def _product(node: Node) -> Term | None:
    match node:
        case Node(
            QuantizedConv() | QuantizedMatMul() as op,
            [Value() as x, Constant() as weight, Constant(scale), *rest],
        ) if all(part is None or isinstance(part, Constant) for part in rest):
            bias = rest[0] if rest else None
            data = bias.data if isinstance(bias, Constant) else None
            largest = _largest_sums(op, weight.data, data)
            return Term(scale, largest, lambda b: b.emit(op, x, weight, None, *rest))
    return None


def _parts(whole: Value, part: Slice) -> list[Term] | None:
    """Some columns of a product, or of a sum of products."""
    match whole:
        case Value(Node(Add(), [Value() as x, Value() as y])):
            first, second = _parts(x, part), _parts(y, part)
            return None if first is None or second is None else [*first, *second]
        case Value(Node(QuantizedMatMul()) as product):
            return _list(_part_of_product(product, part))
    return None


def _part_of_product(node: Node, part: Slice) -> Term | None:
    """Some columns of a product, by those of the weight."""
    columns = part.columns(node.results[0].type)
    match node:
        case Node(
            QuantizedMatMul() as op,
            [Value() as x, Constant() as weight, Constant() as scale, *rest],
        ) if columns is not None and weight.type.rank == 2:
            bias = rest[0] if rest else None
            if bias is not None and not isinstance(bias, Constant):
                return None
            taken = weight.data[columns] if op.transpose_rhs else weight.data[:, columns]
            added = None if bias is None else bias.data[columns]

            def emit(b: Builder) -> Value:
                """Emit the product with that part."""
                stored = b.constant(np.ascontiguousarray(taken), f"{weight.name}.part")
                more = () if added is None else (b.constant(added, f"{weight.name}.bias"),)
                return b.emit(op, x, stored, None, *more)

            scales = scale.data[columns] if scale.type.rank else scale.data
            return Term(scales, _largest_sums(op, taken, added), emit)
    return None


def _scaled(x: Value, factor: Constant) -> Term | None:
    """Integers times a constant, one number or one for each column."""
    source, columns = computed_integers(x), factor.type.shape
    if source is None or (columns and columns != x.type.shape[-1:]):
        return None
    return _difference(source, source.scale.data * factor.data)


def _product_of_two(x: Value, y: Value) -> Term | None:
    left, right = computed_integers(x), computed_integers(y)
    if left is None or right is None:
        return None
    largest = largest_difference(left) * largest_difference(right)
    return Term(
        left.scale.data * right.scale.data,
        np.array(float(largest)),
        lambda b: b.emit(Mul(), emit_difference(b, left), emit_difference(b, right)),
    )


def _mean_of_axes(op: ReduceMean, x: Value) -> Term | None:
    source, total = computed_integers(x), ReduceSum(op.axes, op.keepdims)
    if source is None:
        return None
    count = math.prod(x.type.shape[axis] for axis in op.axes)
    return _mean(source, count, lambda b: b.emit(total, emit_difference(b, source)))


def _means_of_windows(op: AvgPool, x: Value) -> list[Term] | None:
    """Of 16 bits, those of high bytes and those of low bytes."""
    source = computed_integers(x)
    if source is None or x.type.is_ranged:
        return None
    count = _common_count(op, x)
    if source.stored.type.dtype is not i16:
        return _list(
            _mean(source, count, lambda b: _window_sums(b, op, source.stored, source.zero_point))
        )
    if source.zero_point or LARGEST_BYTE * count >= 2**31:
        return None
    largest, scale = np.array(float(LARGEST_BYTE * count)), source.scale.data / np.float64(count)
    return [
        Term(
            256 * scale, largest, lambda b: _window_sums(b, op, emit_high_bytes(b, source.stored))
        ),
        Term(scale, largest, lambda b: _window_sums(b, op, emit_low_bytes(b, source.stored))),
    ]


def _mean(source: Quantized, count: int, emit: Callable[[Builder], Value]) -> Term | None:
    largest = largest_difference(source) * count
    if not 0 < largest < 2**31:
        return None
    return Term(source.scale.data / np.float64(count), np.array(float(largest)), emit)


def _common_count(pool: AvgPool, x: Value) -> int:
    """The least multiple of how many elements count in each window."""
    counts = np.unique(pool.divisors(x.type.shape[1:-1]))
    return math.lcm(*(int(count) for count in counts))


def _largest_sums(op: QuantizedConv | QuantizedMatMul, weight: Array, bias: Array | None) -> Array:
    """Bounds of the sums of each column of a product with a weight, whatever bytes it meets."""
    if isinstance(op, QuantizedConv):
        axes: tuple[int, ...] = tuple(range(1, weight.ndim))
        zero_point = op.weight_zero_point
    else:
        axes = (-1 if op.transpose_rhs else -2,)
        zero_point = op.rhs_zero_point
    sums = np.abs(weight.astype(np.float64) - zero_point).sum(axes) * LARGEST_BYTE
    return np.asarray(sums if bias is None else sums + np.abs(bias.astype(np.float64)))


def _window_sums(b: Builder, pool: AvgPool, x: Value, zero_point: int = 0) -> Value:
    """Sums of windows by a product with ones, as if equally many elements counted in all."""
    channels, extents = x.type.shape[-1], x.type.shape[1:-1]
    ones = b.constant(np.ones((channels, *pool.kernel, 1), np.int8), "ones")
    pads = (*pool.windows.begins, *pool.windows.needed_ends(extents))
    sums = QuantizedConv(pool.strides, pads, pool.dilations, channels, zero_point)
    total = b.emit(sums, x, ones)
    shares = _common_count(pool, x) // pool.divisors(extents)
    if np.all(shares == 1):
        return total
    return b.emit(Mul(), total, b.constant(shares.astype(np.int32), "shares"))
