"""The com.microsoft domain: fused ops that ONNX Runtime's exporters write."""

from afterglow.frontends.onnx.contrib import (
    attention,
    cached_attention,
    fused,
    packed_weights,
    quantized,
    quantized_lstm,
    standard,
    text,
)

__all__ = [
    "attention",
    "cached_attention",
    "fused",
    "packed_weights",
    "quantized",
    "quantized_lstm",
    "standard",
    "text",
]
