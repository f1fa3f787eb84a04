"""TFLite's conversions between element types."""

from __future__ import annotations

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.tflite.node import TfliteNode
from afterglow.frontends.tflite.registry import tflite_op
from afterglow.graph import Value


@tflite_op("CAST", moves=True)
def cast(n: TfliteNode) -> Value:
    """To the type that the result is declared to have; numbers that do not fit wrap around."""
    return as_dtype(n, n[0], n.result_type())


@tflite_op("DEQUANTIZE")
def dequantize(n: TfliteNode) -> Value:
    """Of half-precision floats: a conversion."""
    return as_dtype(n, n[0], n.result_type())


@tflite_op("DENSIFY", moves=True)
def densify(n: TfliteNode) -> Value:
    """Nothing: sparse tensors are read with their zeros."""
    return n[0]
