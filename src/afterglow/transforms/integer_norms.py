"""Layer norms and RMS norms between bytes in integers: the root is one of integers."""

from __future__ import annotations

import math

import numpy as np

from afterglow.graph import Builder, Constant, Node, Value
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Add, Max, Mul, ShiftLeft, ShiftRight, Sub, scalar
from afterglow.ops.fixed_point import IntegerSqrt
from afterglow.ops.normalization import LayerNorm, RMSNorm
from afterglow.ops.quantization import QuantizeLinear
from afterglow.ops.reduction import ReduceSum
from afterglow.passes import rewrite
from afterglow.support.lazy_dataclass import dataclass
from afterglow.transforms.fixed_point import MOST_SHIFT, emit_difference, emit_quotient, emit_stored
from afterglow.transforms.integer_terms import largest_difference
from afterglow.transforms.matching.quantized import STORED_TYPES, Quantized, Storing
from afterglow.types import Array, DType
from afterglow.types.dtype import i32, i64

MOST_TERMS = 1 << 15
"""Squares of bytes that add up to less than 2^31."""
ROOT_BITS = 31
"""Bits of a root, at most: of its square twice as many."""
MEAN_FREE_BITS = 20
"""Bits below one of what has mean 0 and variance 1; of so many terms none is above 2^8."""
UNIT_BITS = 28
"""Bits below one of what has length 1."""


@rewrite(QuantizeLinear)
def layer_norm_in_integers(node: Node, b: Builder) -> Value | None:
    """quantize(layer_norm(dequantize(x)))  ->  (n x - sum(x)) / sqrt(n sum(x²) - sum(x)² + e)."""
    storing = Storing.of(node)
    match storing and storing.value.producer:
        case Node(LayerNorm() as op, [Value() as x, *parameters]):
            norm = _Norm.of(op, x, parameters)
        case _:
            return None
    if norm is None or storing is None:
        return None
    count = norm.count
    spread = 2**norm.bits - 1
    bound = _Bound(
        spread * count, (spread * count) ** 2 // 4, op.epsilon * (count / norm.step) ** 2
    )
    factors = norm.factors(storing, MEAN_FREE_BITS)
    if bound.shift < 0 or factors is None:
        return None
    wide = b.emit(Cast(norm.sum_type), norm.source.stored)
    total = b.emit(ReduceSum(norm.axes), wide)
    centred = b.emit(Sub(), b.emit(Mul(), wide, scalar(b, count, wide)), total)
    squares = b.emit(Cast(i64), b.emit(ReduceSum(norm.axes), b.emit(Mul(), wide, wide)))
    total = b.emit(Cast(i64), total)
    scaled = b.emit(Mul(), squares, scalar(b, count, squares))
    variance = b.emit(Sub(), scaled, b.emit(Mul(), total, total))
    unit = _emit_unit(b, centred, variance, bound, MEAN_FREE_BITS)
    return factors.emit(b, unit, storing)


@rewrite(QuantizeLinear)
def rms_norm_in_integers(node: Node, b: Builder) -> Value | None:
    """quantize(rms_norm(dequantize(x)))  ->  (x - z) sqrt(n) / sqrt(sum((x - z)²) + e)."""
    storing = Storing.of(node)
    match storing and storing.value.producer:
        case Node(RMSNorm() as op, [Value() as x, *parameters]):
            norm = _Norm.of(op, x, parameters)
        case _:
            return None
    if norm is None or storing is None:
        return None
    most = largest_difference(norm.source)
    bound = _Bound(most, most**2 * norm.count, op.epsilon * norm.count / norm.step**2)
    factors = norm.factors(storing, UNIT_BITS, math.sqrt(norm.count))
    if bound.shift < 0 or factors is None:
        return None
    wide = b.emit(Cast(norm.sum_type), emit_difference(b, norm.source))
    squares = b.emit(Cast(i64), b.emit(ReduceSum(norm.axes), b.emit(Mul(), wide, wide)))
    unit = _emit_unit(b, wide, squares, bound, UNIT_BITS)
    return factors.emit(b, unit, storing)


@dataclass(frozen=True)
class _Factors:
    """What each channel is multiplied by, 2^shift times as large, and what is added then."""

    multipliers: Array
    shift: int
    bias: Array | None

    def emit(self, b: Builder, unit: Value, storing: Storing) -> Value:
        """Normalized numbers, scaled and stored."""
        factor = b.constant(self.multipliers, f"{b.name}.factor")
        return emit_stored(b, unit, factor, self.shift, storing, self.bias)


@dataclass(frozen=True)
class _Bound:
    """The largest number, the largest square of a length, and what is added to that."""

    number: int
    square: int
    epsilon: float

    @property
    def shift(self) -> int:
        """By how many bits a root can be longer; negative if it is too long as it is."""
        return (2 * ROOT_BITS - (self.square + math.ceil(self.epsilon)).bit_length()) // 2

    @property
    def quotient_bits(self) -> int:
        """How long a quotient may be whose product with a number has 62 bits."""
        return min(MOST_SHIFT - 1 - self.number.bit_length(), MOST_SHIFT - self.shift)


@dataclass(frozen=True)
class _Norm:
    """What is normalized, along which axes, and with which constants."""

    source: Quantized
    axes: tuple[int, ...]
    count: int
    scale: Array
    bias: Array | None

    @staticmethod
    def of(op: LayerNorm | RMSNorm, x: Value, parameters: list[Value | None]) -> _Norm | None:
        """A norm of bytes of one scale, if its parameters are known."""
        source = Quantized.of(x, STORED_TYPES)
        axes = tuple(range(op.axis % x.type.rank, x.type.rank))
        extents = [x.type.shape[axis] for axis in axes]
        count = math.prod(extents)
        if source is None or not source.has_one_scale or x.type.is_ranged:
            return None
        if not 0 < count < MOST_TERMS or isinstance(source.stored, Constant):
            return None
        known = [p.data if isinstance(p, Constant) else None for p in parameters]
        if any(p is not None and data is None for p, data in zip(parameters, known, strict=True)):
            return None
        scale, bias = (*known, None, None)[:2]
        return _Norm(source, axes, count, np.ones(()) if scale is None else scale, bias)

    @property
    def bits(self) -> int:
        """Bits of each integer."""
        return self.source.stored.type.dtype.bits

    @property
    def sum_type(self) -> DType:
        """In which type sums of squares have room."""
        return i32 if self.bits == 8 else i64

    @property
    def step(self) -> float:
        """What one integer stands for."""
        return float(self.source.scale.data)

    def factors(self, storing: Storing, bits: int, more: float = 1.0) -> _Factors | None:
        """The factors of what has bits below one, with a common shift; None if they do not fit."""
        ratios = self.scale.astype(np.float64) * more / storing.step / 2.0**bits
        shift = ROOT_BITS - 1 - math.frexp(float(np.max(np.abs(ratios), initial=2.0**-40)))[1]
        bias = None if self.bias is None else self.bias.astype(np.float64) / storing.step
        reach = 0.0 if bias is None else float(np.max(np.abs(bias), initial=0.0))
        if not 1 <= shift <= MOST_SHIFT or not reach * 2.0**shift < 2.0**61:
            return None
        return _Factors(np.rint(ratios * 2.0**shift).astype(np.int64), shift, bias)


def _emit_unit(b: Builder, x: Value, square: Value, bound: _Bound, fraction_bits: int) -> Value:
    """2^bits x / sqrt(square + epsilon), rounded.

    The square is shifted before epsilon is added, so that the root has up to 31 bits. Where it is
    0, so is x.
    """
    more = bound.shift
    shifted = b.emit(ShiftLeft(), square, scalar(b, 2 * more, square))
    epsilon = scalar(b, round(bound.epsilon * 4.0**more), square)
    positive = b.emit(Max(), b.emit(Add(), shifted, epsilon), scalar(b, 1, square))
    root = b.emit(IntegerSqrt(), positive)
    quotient = emit_quotient(b, 1.0, root, bound.quotient_bits + more)
    shift = bound.quotient_bits - fraction_bits
    product = b.emit(Mul(), b.emit(Cast(i64), x), quotient)
    total = b.emit(Add(), product, scalar(b, 1 << (shift - 1), product))
    return b.emit(ShiftRight(), total, scalar(b, shift, total))
