"""Compute in integers alone: no float is left between what is quantized and dequantized.

A sum of terms, each integers times a scale, is quantized: every term is requantized to a step that
is a power of two finer than that of the result, the terms are added, and the sum is shifted.
"""

from __future__ import annotations

import math

import numpy as np

from afterglow.graph import Builder, Constant, Node, Value
from afterglow.ops.activation import Clip, Relu
from afterglow.ops.elementwise import Add
from afterglow.ops.fixed_point import Requantize
from afterglow.ops.indexing import Gather
from afterglow.ops.quantization import QuantizeLinear
from afterglow.passes import RewritePass, rewrite
from afterglow.transforms.fixed_point import ratio_constants
from afterglow.transforms.integer_norms import layer_norm_in_integers, rms_norm_in_integers
from afterglow.transforms.integer_softmax import attend_in_integers, softmax_in_integers
from afterglow.transforms.integer_terms import ConstantTerm, Term, terms_of
from afterglow.transforms.matching.quantized import Storing
from afterglow.transforms.matching.values import has_one_use

MOST_FRACTION_BITS = 16
"""Bits below a step of the result that terms are rounded to."""


@rewrite(QuantizeLinear)
def rescale_in_integers(node: Node, b: Builder) -> Value | None:
    """quantize(x s + y t, r, z)  ->  requantize(x, s / r) + requantize(y, t / r), of integers."""
    storing = Storing.of(node)
    if storing is None:
        return None
    inner, bounds = _unclipped(storing.value)
    terms = terms_of(inner)
    if terms is None or not all(term.fits(storing.step) for term in terms):
        return None
    stored = _sum_of(b, terms, storing)
    return stored if stored is None else _clipped(b, stored, bounds, storing)


@rewrite(QuantizeLinear)
def look_up_stored(node: Node, b: Builder) -> Value | None:
    """quantize(gather(table, i))  ->  gather(quantize(table), i),  the table a constant."""
    storing = Storing.of(node)
    match storing and storing.value.producer:
        case Node(Gather() as gather, [Constant(table), Value() as places]):
            assert storing is not None
            steps = np.rint(table / np.float32(storing.step)) + storing.zero_point
            stored = np.clip(steps, *storing.dtype.limits).astype(storing.dtype.numpy)
            return b.emit(gather, b.constant(stored, f"{b.name}.table"), places)
    return None


def _sum_of(b: Builder, terms: list[Term | ConstantTerm], storing: Storing) -> Value | None:
    """The sum of terms in steps, as bytes."""
    whole, step = Requantize(-1, storing.zero_point, storing.dtype), storing.step
    match terms:
        case [Term() as term]:
            ratio = term.scale.astype(np.float64) / step
            return b.emit(whole, term.emit(b), *ratio_constants(b, ratio))
    bits = _fraction_bits(terms, step)
    if bits < 1:
        return None
    total, *parts = [term.emit_steps(b, step / 2.0**bits) for term in terms]
    for part in parts:
        total = b.emit(Add(), total, part)
    one, shift = (
        b.constant(np.array(n, np.int32), name) for n, name in ((1, "one"), (bits, "bits"))
    )
    return b.emit(whole, total, one, shift)


def _fraction_bits(terms: list[Term | ConstantTerm], step: float) -> int:
    """How many bits below a step the sum of all terms has room for in 32 bits."""
    largest = sum(term.reach(step) + 1 for term in terms)
    return min(MOST_FRACTION_BITS, 30 - math.ceil(math.log2(largest)))


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


def _clipped(b: Builder, stored: Value, bounds: tuple[float, float], storing: Storing) -> Value:
    """Integers between the integers of two bounds."""
    least, most = storing.dtype.limits
    steps = (np.rint(np.float32(bound) / np.float32(storing.step)) for bound in bounds)
    low, high = (float(np.clip(number + storing.zero_point, least, most)) for number in steps)
    return stored if (low, high) == (least, most) else b.emit(Clip(low, high), stored)


INTEGER_ONLY = RewritePass(
    "integer-only",
    (
        rescale_in_integers,
        look_up_stored,
        softmax_in_integers,
        attend_in_integers,
        layer_norm_in_integers,
        rms_norm_in_integers,
    ),
)
