"""The exporters, one file a family of ops, as the importers of the front end."""

from afterglow.exporters.onnx.ops import (
    activation,
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
    quantization,
    random,
    recurrent,
    reduction,
    search,
)

__all__ = [
    "activation",
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
    "quantization",
    "random",
    "recurrent",
    "reduction",
    "search",
]
