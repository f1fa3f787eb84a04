"""Importers of PyTorch's ops, a file for each family."""

from afterglow.frontends.torch.importers import (
    activation,
    attention,
    convolution,
    detection,
    distance,
    embedding,
    linalg,
    linear,
    loss,
    normalization,
    pooling,
    recurrent,
    resampling,
)

__all__ = [
    "activation",
    "attention",
    "convolution",
    "detection",
    "distance",
    "embedding",
    "linalg",
    "linear",
    "loss",
    "normalization",
    "pooling",
    "recurrent",
    "resampling",
]
