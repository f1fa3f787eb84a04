"""All kernels of the backend; importing their modules fills the table."""

from __future__ import annotations

from afterglow.backends.cuda.kernels import (  # noqa: F401  importing them fills the table
    attention,
    cached_attention,
    conv,
    conv_transpose,
    depthwise,
    matmul,
    norms,
    quantized,
    reduction,
    rotary,
    search,
    softmax,
    stored,
    stored_gather,
    write_rows,
)
from afterglow.backends.cuda.kernels.table import ANCHORS, write_elementwise

__all__ = ["ANCHORS", "write_elementwise"]
