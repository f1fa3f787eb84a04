"""Importers of TFLite's builtin ops: one file for each family."""

from afterglow.frontends.tflite.importers import (
    activation,
    conversion,
    convolution,
    elementwise,
    linear,
    movement,
    quantized,
)
from afterglow.frontends.tflite.registry import TFLITE

__all__ = [
    "TFLITE",
    "activation",
    "conversion",
    "convolution",
    "elementwise",
    "linear",
    "movement",
    "quantized",
]
