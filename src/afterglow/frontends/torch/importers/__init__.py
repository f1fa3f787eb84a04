"""Importers of PyTorch's ops, a file for each family."""

from afterglow.frontends.torch.importers import (
    comparison,
    conversion,
    creation,
    elementwise,
    indexing,
    movement,
    random,
    reduction,
    running,
    scatter,
    sizes,
    slicing,
    sort,
)

__all__ = [
    "comparison",
    "conversion",
    "creation",
    "elementwise",
    "indexing",
    "movement",
    "random",
    "reduction",
    "running",
    "scatter",
    "sizes",
    "slicing",
    "sort",
]
