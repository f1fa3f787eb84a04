"""Fake quantizations of a function that has learnt become quantizations, with integers between."""

from __future__ import annotations

from afterglow.graph import Builder, Node, Value
from afterglow.ops.fake_quantize import FakeQuantize
from afterglow.ops.quantization import DequantizeLinear, QuantizeLinear
from afterglow.passes import RewritePass, rewrite


@rewrite(FakeQuantize)
def store_integers(node: Node, b: Builder) -> Value | None:
    """fake_quantize(x)  ->  dequantize_linear(quantize_linear(x)), unless the function learns."""
    op = node.op
    assert isinstance(op, FakeQuantize)
    if b.function.updates:
        return None
    x, scale, *zero = node.given
    stored = b.emit(QuantizeLinear(op.axis, op.dtype), x, scale, *zero)
    return b.emit(DequantizeLinear(op.axis, x.type.dtype), stored, scale, *zero)


STORE_FAKES = RewritePass("store-fakes", (store_integers,))
