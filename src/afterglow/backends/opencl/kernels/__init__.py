"""Kernels of the OpenCL backend, one file per family; importing them fills the table."""

from afterglow.backends.opencl.kernels import conv, matmul, movement, reduction

_FAMILIES = (conv, matmul, movement, reduction)
