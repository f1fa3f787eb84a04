"""Importers of PyTorch's ops, a file for each family."""

from afterglow.frontends.torch.importers import (
    activation,
    convolution,
    linear,
    normalization,
    pooling,
)

__all__ = [
    "activation",
    "convolution",
    "linear",
    "normalization",
    "pooling",
]
