"""Rescale integers in integers: no float is left between what is quantized and dequantized.

A sum of terms, each integers times a scale, is quantized: every term is requantized to a step that
is a power of two finer than that of the result, the terms are added, and the sum is shifted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from afterglow.graph import Builder, Constant, Node, Value
from afterglow.ops.activation import Clip, Relu
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Add, Mul, Sub, scalar
from afterglow.ops.fixed_point import Requantize
from afterglow.ops.pooling import AvgPool
from afterglow.ops.quantization import QuantizeLinear
from afterglow.ops.quantized import QuantizedConv, QuantizedMatMul
from afterglow.ops.reduction import ReduceMean, ReduceSum
from afterglow.passes import RewritePass, rewrite
from afterglow.transforms.matching.quantized import Quantized, zero_point_of
from afterglow.transforms.matching.values import has_one_use
from afterglow.types import Array, DType
from afterglow.types.dtype import f32, i8, i32, u8

MOST_FRACTION_BITS = 16
"""Bits below a step of the result that terms are rounded to."""
MULTIPLIER_BITS = 31
MOST_SHIFT = 62
LARGEST_BYTE = 255


@rewrite(QuantizeLinear)
def rescale_in_integers(node: Node, b: Builder) -> Value | None:
    """quantize(x s + y t, r, z)  ->  requantize(x, s / r) + requantize(y, t / r), of integers."""
    match node:
        case Node(
            QuantizeLinear(dtype=dtype, block_size=0), [Value() as x, Constant() as scale, *rest]
        ) if dtype in (i8, u8) and scale.type.rank == 0 and scale.type.dtype is f32:
            zero_point = zero_point_of(rest[0] if rest else None)
            inner, bounds = _unclipped(x)
            terms = _terms(inner)
            step = float(scale.data)
            if zero_point is None or terms is None or not all(t.fits(step) for t in terms):
                return None
            stored = _sum_of(b, terms, step, zero_point, dtype)
            return stored if stored is None else _clipped(b, stored, bounds, step, zero_point)
    return None


@dataclass(frozen=True)
class _Term:
    """Integers of 32 bits times a scale, one number or one for each column."""

    node: Node
    scale: Array
    largest: Array
    """What no integer, of all or of each column, is further from zero than."""

    def fits(self, step: float) -> bool:
        """Whether a multiplier and a shift say how many steps one integer is."""
        ratios = self.scale.astype(np.float64) / step
        return bool(np.all((ratios > 0) & (ratios < 2.0 ** (MULTIPLIER_BITS - 2))))

    def emit(self, b: Builder) -> Value:
        """The integers."""
        match self.node:
            case Node(QuantizedConv() | QuantizedMatMul() as op, [x, weight, _, *bias]):
                return b.emit(op, x, weight, None, *bias)
            case Node(ReduceMean() as op, [Value() as x]):
                return b.emit(ReduceSum(op.axes, op.keepdims), _emit_difference(b, x))
            case Node(AvgPool() as op, [Value() as x]):
                return _emit_window_sums(b, op, x)
            case Node(Mul(), [Value() as x, Value() as y]):
                return b.emit(Mul(), _emit_difference(b, x), _emit_difference(b, y))
        return _emit_difference(b, self.node.results[0])


def _terms(value: Value) -> list[_Term] | None:
    """The terms that a value is the sum of, if all are integers times a scale."""
    node = value.producer
    match node:
        case Node(Add(), [Value() as x, Value() as y]) if has_one_use(value):
            first, second = _terms(x), _terms(y)
            return None if first is None or second is None else [*first, *second]
        case Node():
            term = _term(node)
            return None if term is None else [term]
    return None


def _term(node: Node) -> _Term | None:
    match node:
        case Node(
            QuantizedConv() | QuantizedMatMul() as op,
            [_, Constant(weight), Constant(scale), *rest],
        ) if has_one_use(node.results[0]):
            match rest:
                case [] | [None]:
                    return _Term(node, scale, _largest_sums(op, weight, None))
                case [Constant(bias)]:
                    return _Term(node, scale, _largest_sums(op, weight, bias))
            return None
        case Node(ReduceMean() as op, [Value() as x]) if (source := _bytes(x)) is not None:
            return _mean(node, source, math.prod(x.type.shape[axis] for axis in op.axes))
        case Node(AvgPool() as op, [Value() as x]) if (source := _bytes(x)) is not None:
            return _mean(node, source, _common_count(op, x)) if not x.type.is_ranged else None
        case Node(Mul(), [Value() as x, Value() as y]):
            left, right = _bytes(x), _bytes(y)
            if left is None or right is None:
                return None
            return _Term(node, left.scale.data * right.scale.data, np.array(LARGEST_BYTE**2.0))
    source = _bytes(node.results[0])
    return None if source is None else _Term(node, source.scale.data, np.array(float(LARGEST_BYTE)))


def _bytes(value: Value) -> Quantized | None:
    """What a value is dequantized from, if it is computed and has one scale."""
    source = Quantized.of(value)
    if source is None or not source.has_one_scale or isinstance(source.stored, Constant):
        return None
    return source


def _mean(node: Node, source: Quantized, count: int) -> _Term | None:
    largest = LARGEST_BYTE * count
    if not 0 < largest < 2**31:
        return None
    return _Term(node, source.scale.data / np.float64(count), np.array(float(largest)))


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


def _sum_of(
    b: Builder, terms: list[_Term], step: float, zero_point: int, dtype: DType
) -> Value | None:
    """The sum of terms in steps, as bytes."""
    axis = -1
    if len(terms) == 1:
        (term,) = terms
        whole = Requantize(axis, zero_point, dtype)
        return b.emit(whole, term.emit(b), *_ratio(b, term.scale, step))
    bits = _fraction_bits(terms, step)
    if bits < 1:
        return None
    fine = Requantize(axis, 0, i32)
    parts = [b.emit(fine, term.emit(b), *_ratio(b, term.scale, step / 2.0**bits)) for term in terms]
    total = parts[0]
    for part in parts[1:]:
        total = b.emit(Add(), total, part)
    one, shift = (
        b.constant(np.array(n, np.int32), name) for n, name in ((1, "one"), (bits, "bits"))
    )
    return b.emit(Requantize(axis, zero_point, dtype), total, one, shift)


def _fraction_bits(terms: list[_Term], step: float) -> int:
    """How many bits below a step the sum of all terms has room for in 32 bits."""
    largest = sum(float(np.max(term.largest * term.scale)) / step + 1 for term in terms)
    return min(MOST_FRACTION_BITS, 30 - math.ceil(math.log2(largest)))


def _ratio(b: Builder, scale: Array, step: float) -> tuple[Value, Value]:
    """The multiplier and the shift that scale / step is, to 31 bits."""
    mantissa, exponent = np.frexp(scale.astype(np.float64) / step)
    multiplier = np.rint(mantissa * 2.0**MULTIPLIER_BITS).astype(np.int64)
    shift = MULTIPLIER_BITS - exponent
    rounded_up = multiplier == 2**MULTIPLIER_BITS
    multiplier, shift = np.where(rounded_up, multiplier >> 1, multiplier), shift - rounded_up
    far = np.maximum(shift - MOST_SHIFT, 0)
    multiplier, shift = multiplier >> np.minimum(far, MULTIPLIER_BITS), shift - far
    return (
        b.constant(np.asarray(multiplier, np.int32), f"{b.name}.multiplier"),
        b.constant(np.asarray(shift, np.int32), f"{b.name}.shift"),
    )


def _emit_difference(b: Builder, value: Value) -> Value:
    """Bytes less their zero point, in 32 bits."""
    source = Quantized.of(value)
    assert source is not None
    wide = b.emit(Cast(i32), source.stored)
    return b.emit(Sub(), wide, scalar(b, source.zero_point, wide)) if source.zero_point else wide


def _emit_window_sums(b: Builder, pool: AvgPool, x: Value) -> Value:
    """Sums of windows by a product with ones, as if equally many elements counted in all."""
    source = Quantized.of(x)
    assert source is not None
    channels, extents = x.type.shape[-1], x.type.shape[1:-1]
    ones = b.constant(np.ones((channels, *pool.kernel, 1), np.int8), "ones")
    pads = (*pool.windows.begins, *pool.windows.needed_ends(extents))
    sums = QuantizedConv(pool.strides, pads, pool.dilations, channels, source.zero_point)
    total = b.emit(sums, source.stored, ones)
    shares = _common_count(pool, x) // pool.divisors(extents)
    if np.all(shares == 1):
        return total
    return b.emit(Mul(), total, b.constant(shares.astype(np.int32), "shares"))


def _unclipped(value: Value) -> tuple[Value, tuple[float, float]]:
    """What a value is clipped from, and between which numbers."""
    low, high = -math.inf, math.inf
    while has_one_use(value):
        match value:
            case Value(Node(Relu(), [Value() as inner])):
                low, high = max(low, 0.0), max(high, 0.0)
            case Value(Node(Clip() as clip, [Value() as inner])):
                least = -math.inf if clip.low is None else clip.low
                most = math.inf if clip.high is None else clip.high
                low, high = (min(max(bound, least), most) for bound in (low, high))
            case _:
                break
        value = inner
    return value, (low, high)


def _clipped(
    b: Builder, stored: Value, bounds: tuple[float, float], step: float, zero_point: int
) -> Value:
    """Bytes between the bytes of two bounds."""
    least = 0 if stored.type.dtype is u8 else -128
    inside = [
        float(
            np.clip(np.rint(np.float32(bound) / np.float32(step)) + zero_point, least, least + 255)
        )
        for bound in bounds
    ]
    if inside == [least, least + 255]:
        return stored
    return b.emit(Clip(inside[0], inside[1]), stored)


INTEGER_ONLY = RewritePass("integer-only", (rescale_in_integers,))
