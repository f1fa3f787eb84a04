"""The catalogue of ops: one file a family, each op with every fact about it."""

from afterglow.ops import (
    activation,
    attention,
    control,
    conversion,
    elementwise,
    functions,
    image,
    indexing,
    linear,
    movement,
    normalization,
    pooling,
    quantization,
    recurrent,
    reduction,
    signal,
)

__all__ = [
    "activation",
    "attention",
    "control",
    "conversion",
    "elementwise",
    "functions",
    "image",
    "indexing",
    "linear",
    "movement",
    "normalization",
    "pooling",
    "quantization",
    "recurrent",
    "reduction",
    "signal",
]
