"""The importers of Caffe2's operators, one file a family."""

from afterglow.frontends.caffe2.importers import (
    activation,
    convolution,
    elementwise,
    fill,
    image,
    indexing,
    linear,
    movement,
    normalization,
    pooling,
    quantized,
    reduction,
    sparse,
)
from afterglow.frontends.caffe2.registry import CAFFE2

__all__ = [
    "CAFFE2",
    "activation",
    "convolution",
    "elementwise",
    "fill",
    "image",
    "indexing",
    "linear",
    "movement",
    "normalization",
    "pooling",
    "quantized",
    "reduction",
    "sparse",
]
