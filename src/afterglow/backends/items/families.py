"""All kernels that serve every backend; importing their modules fills the list."""

from __future__ import annotations

from afterglow.backends.items import (
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

_FAMILIES = (
    *(conv, conv_transpose, gather, lines, matmul, movement, pooling),
    *(quantized, reduction, running, scatter, search),
)

__all__ = ["SHARED"]
