"""Importers of ops on quantized integers, to the bit as TFLite's reference kernels have them."""

from afterglow.frontends.tflite.importers.quantized import (
    arithmetic,
    conversion,
    hybrid,
    image,
    linear,
    movement,
    normalization,
    pooling,
    recurrent,
    softmax,
    tables,
)

__all__ = [
    "arithmetic",
    "conversion",
    "hybrid",
    "image",
    "linear",
    "movement",
    "normalization",
    "pooling",
    "recurrent",
    "softmax",
    "tables",
]
