"""The ONNX front end."""

from afterglow.frontends.onnx import (
    activation,
    contrib,
    control,
    conversion,
    elementwise,
    generators,
    image,
    indexing,
    linear,
    movement,
    normalization,
    pooling,
    quantization,
    recurrent,
    reduction,
    sequences,
    signal,
)
from afterglow.frontends.onnx.context import NeedsValuesError
from afterglow.frontends.onnx.importer import Binding, ModelImporter

__all__ = [
    "Binding",
    "ModelImporter",
    "NeedsValuesError",
    "activation",
    "contrib",
    "control",
    "conversion",
    "elementwise",
    "generators",
    "image",
    "indexing",
    "linear",
    "movement",
    "normalization",
    "pooling",
    "quantization",
    "recurrent",
    "reduction",
    "sequences",
    "signal",
]
