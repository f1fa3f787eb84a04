"""Importers of ops on quantized integers, to the bit as TFLite's reference kernels have them."""

from afterglow.frontends.tflite.importers.quantized import (
    arithmetic,
    conversion,
    linear,
    movement,
    pooling,
    tables,
)

__all__ = ["arithmetic", "conversion", "linear", "movement", "pooling", "tables"]
