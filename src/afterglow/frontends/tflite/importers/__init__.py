"""Importers of TFLite's builtin ops: one file for each family."""

from afterglow.frontends.tflite.importers import (
    activation,
    blocks,
    control,
    conversion,
    convolution,
    elementwise,
    image,
    indexing,
    linear,
    movement,
    normalization,
    pooling,
    quantized,
    reduction,
    slicing,
    state,
)
from afterglow.frontends.tflite.registry import TFLITE

__all__ = [
    "TFLITE",
    "activation",
    "blocks",
    "control",
    "conversion",
    "convolution",
    "elementwise",
    "image",
    "indexing",
    "linear",
    "movement",
    "normalization",
    "pooling",
    "quantized",
    "reduction",
    "slicing",
    "state",
]
