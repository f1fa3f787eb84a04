"""Kernels of the OpenCL backend, one file per family; importing them fills the table."""

from afterglow.backends.opencl.kernels import (
    conv,
    gather,
    lines,
    matmul,
    movement,
    pooling,
    reduction,
)

_FAMILIES = (conv, gather, lines, matmul, movement, pooling, reduction)
