"""All kernels that serve every backend; importing their modules fills the list."""

from __future__ import annotations

from afterglow.backends.items import (  # noqa: F401  importing them fills the list
    conv,
    conv_transpose,
    gather,
    lines,
    matmul,
    movement,
    pooling,
    quantized,
    reduction,
    running,
    scatter,
    search,
)
from afterglow.backends.items.anchors import SHARED

__all__ = ["SHARED"]
