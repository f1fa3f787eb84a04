"""All kernels of the backend; importing their modules fills the table."""

from __future__ import annotations

from afterglow.backends.cuda.kernels import (
    attention,
    conv,
    depthwise,
    matmul,
    norms,
    reduction,
    softmax,
)
from afterglow.backends.cuda.kernels.table import ANCHORS, write_elementwise

_FAMILIES = (attention, conv, depthwise, matmul, norms, reduction, softmax)

__all__ = ["ANCHORS", "write_elementwise"]
