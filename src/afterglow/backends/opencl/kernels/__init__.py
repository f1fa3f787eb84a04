"""Kernels of the OpenCL backend, one file per family; importing them fills the table."""

from afterglow.backends.opencl.kernels import (
    attention,
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

_FAMILIES = (
    *(attention, conv, conv_transpose, gather, lines, matmul, movement, pooling),
    *(quantized, reduction, running, scatter, search),
)
