"""Softmax and attention between bytes in integers.

Exponentials are powers of two of distances from the largest number, in fixed point. Attention
stores them as bytes, of which the largest is 255, multiplies them by the values, and divides the
sums by the sum of the same bytes: weights always add up to one.
"""

from __future__ import annotations

import math

import numpy as np

from afterglow.graph import Builder, Constant, Node, Value
from afterglow.ops.attention import Attention
from afterglow.ops.attention_scores import emit_causal
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Add, And, Max, Sub, Where, scalar
from afterglow.ops.fixed_point import Requantize
from afterglow.ops.movement import Reshape
from afterglow.ops.quantization import QuantizeLinear
from afterglow.ops.quantized import QuantizedMatMul
from afterglow.ops.reduction import ReduceMax, ReduceSum
from afterglow.ops.softmax import Softmax
from afterglow.passes import rewrite
from afterglow.transforms.fixed_point import (
    EXPONENT_BITS,
    emit_negative_powers,
    emit_quotient,
    emit_stored,
    fits,
    quotient_shift,
    ratio_constants,
)
from afterglow.transforms.integer_terms import computed_integers
from afterglow.transforms.matching.quantized import BYTES, Quantized, Storing
from afterglow.types.dtype import boolean, i16, i32, i64, u8
from afterglow.types.extent import largest

LARGEST_WEIGHT = 255
MOST_KEYS = 1 << 15
"""Bytes whose products with others add up to less than 2^31."""
MASK_BITS = 10
"""Bits below one of a mask that is added to scores: it reaches from -32 to 32."""
HIDDEN = -(1 << 30)
"""The score of a key that a mask hides: lower than any sum of products of bytes."""


@rewrite(QuantizeLinear)
def softmax_in_integers(node: Node, b: Builder) -> Value | None:
    """quantize(softmax(dequantize(x)))  ->  powers(max(x) - x) / their sum,  of integers."""
    storing = Storing.of(node)
    match storing and storing.value.producer:
        case Node(Softmax(axis), [Value() as x]):
            pass
        case _:
            return None
    assert storing is not None
    source, one = computed_integers(x), 1 << EXPONENT_BITS
    shift = quotient_shift(1 / storing.step, one)
    if source is None or shift is None or not 0 < largest(x.type.shape[axis]) < MOST_KEYS:
        return None
    along = (axis % x.type.rank,)
    wide = b.emit(Cast(i32), source.stored)
    distance = b.emit(Sub(), b.emit(ReduceMax(along), wide), wide)
    ratio = float(source.scale.data) * math.log2(math.e)
    if not ratio > 0 or not fits(ratio * one):
        return None
    powers = emit_negative_powers(b, distance, ratio, one)
    total = b.emit(Cast(i64), b.emit(ReduceSum(along), powers))
    return emit_stored(b, powers, emit_quotient(b, 1 / storing.step, total, shift), shift, storing)


@rewrite(QuantizeLinear)
def attend_in_integers(node: Node, b: Builder) -> Value | None:
    """quantize(attention(q, k, v))  ->  byte(powers(max(q kᵀ) - q kᵀ)) v / their sum."""
    storing = Storing.of(node)
    match storing and storing.value.producer:
        case Node(Attention() as op, [Value() as q, Value() as k, Value() as v, *rest]):
            pass
        case _:
            return None
    assert storing is not None
    heads = _Heads.of(op, q, k, v)
    if heads is None:
        return None
    steps = float(heads.v.scale.data) / storing.step
    shift = quotient_shift(steps, LARGEST_WEIGHT)
    if shift is None:
        return None
    weights = heads.weights(b, rest[0] if rest else None)
    total = b.emit(ReduceSum((3,)), b.emit(Cast(i32), weights))
    total = b.emit(Cast(i64), b.emit(Max(), total, scalar(b, 1, total)))
    quotient = emit_quotient(b, steps, total, shift)
    return emit_stored(b, heads.mixed(b, weights), quotient, shift, storing)


class _Heads:
    """The operands of attention as bytes, and what a score of one is."""

    def __init__(self, op: Attention, q: Quantized, k: Quantized, v: Quantized) -> None:
        self.op, self.q, self.k, self.v = op, q, k, v
        self.score = op.scale * float(q.scale.data) * float(k.scale.data)
        batch, self.heads, self.queries, width = q.stored.type.shape
        self.shared, self.keys = k.stored.type.shape[1:3]
        self.folded = (batch, self.shared, self.heads // self.shared * self.queries)
        self.apart = (batch, self.heads, self.queries)
        self.width = width

    @staticmethod
    def of(op: Attention, *operands: Value) -> _Heads | None:
        """The heads, if all operands are bytes, and sums of their products are never too large."""
        sources = [computed_integers(operand, BYTES) for operand in operands]
        q, k, v = sources
        if q is None or k is None or v is None:
            return None
        heads = _Heads(op, q, k, v)
        if not 0 < largest(heads.keys) < MOST_KEYS or heads.width > MOST_KEYS // 2:
            return None
        ratio = heads.score * math.log2(math.e) * 2.0**EXPONENT_BITS
        return heads if ratio > 0 and fits(ratio) and fits(2.0**-MASK_BITS / heads.score) else None

    def weights(self, b: Builder, mask: Value | None) -> Value:
        """For each query and key a byte."""
        scores = self._scores(b)
        shown = None
        if mask is not None and mask.type.dtype is not boolean:
            scores = b.emit(Add(), scores, self._added(b, mask))
        elif mask is not None:
            shown = mask
        if self.op.causal:
            causal = emit_causal(b, self.queries, self.keys, self.keys - self.queries)
            shown = causal if shown is None else b.emit(And(), shown, causal)
        if shown is not None:
            scores = b.emit(Where(), shown, scores, scalar(b, HIDDEN, scores))
        distance = b.emit(Sub(), b.emit(ReduceMax((3,)), scores), scores)
        ratio = self.score * math.log2(math.e)
        powers = emit_negative_powers(b, distance, ratio, LARGEST_WEIGHT)
        if shown is not None:
            powers = b.emit(Where(), shown, powers, scalar(b, 0, powers))
        return b.emit(Cast(u8), powers)

    def mixed(self, b: Builder, weights: Value) -> Value:
        """Sums of values times weights, in 32 bits."""
        product = QuantizedMatMul(False, False, 0, self.v.zero_point)
        if self.shared == self.heads:
            return b.emit(product, weights, self.v.stored)
        folded = b.emit(Reshape((*self.folded, self.keys)), weights)
        mixed = b.emit(product, folded, self.v.stored)
        return b.emit(Reshape((*self.apart, self.v.stored.type.shape[3])), mixed)

    def _scores(self, b: Builder) -> Value:
        """Sums of queries times keys, in 32 bits."""
        product = QuantizedMatMul(False, True, self.q.zero_point, self.k.zero_point)
        if self.shared == self.heads:
            return b.emit(product, self.q.stored, self.k.stored)
        folded = b.emit(Reshape((*self.folded, self.width)), self.q.stored)
        scores = b.emit(product, folded, self.k.stored)
        return b.emit(Reshape((*self.apart, self.keys)), scores)

    def _added(self, b: Builder, mask: Value) -> Value:
        """A mask of floats in units of scores."""
        if isinstance(mask, Constant):
            units = np.rint(np.clip(mask.data.astype(np.float64) / self.score, HIDDEN, -HIDDEN))
            return b.constant(units.astype(np.int32), f"{b.name}.mask")
        step = b.constant(np.array(2.0**-MASK_BITS, np.float32), "step")
        stored = b.emit(Cast(i32), b.emit(QuantizeLinear(0, i16), mask, step))
        ratio = np.array(2.0**-MASK_BITS / self.score)
        return b.emit(Requantize(-1, 0, i32), stored, *ratio_constants(b, ratio))
