"""Kernels of the OpenCL backend alone, one file per family; importing them fills the table."""

from afterglow.backends.opencl.kernels import attention, conv, matmul, quantized

_FAMILIES = (attention, conv, matmul, quantized)
