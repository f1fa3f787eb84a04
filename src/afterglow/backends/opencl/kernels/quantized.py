"""Products and convolutions of bytes, whose sums are exact in 32 bits."""

from __future__ import annotations

import math
from collections.abc import Callable

from afterglow.backends.items import quantized as items
from afterglow.backends.items.quantized_parts import is_depthwise, is_known
from afterglow.backends.job import Job
from afterglow.backends.opencl.kernels.kernel import Kernel, KernelSource
from afterglow.backends.opencl.kernels.quantized_tiles import Tiles
from afterglow.backends.opencl.kernels.quantized_words import write_words
from afterglow.backends.opencl.kernels.table import ANCHORS
from afterglow.backends.opencl.limits import Limits
from afterglow.ops.quantized import QuantizedConv, QuantizedMatMul
from afterglow.types import Array


@ANCHORS.declare(QuantizedMatMul)
def write_quantized_matmul(job: Job, limits: Limits) -> KernelSource:
    """In tiles where the right matrix is known, else one result an item."""
    step = job.anchor
    assert step is not None
    assert isinstance(step.op, QuantizedMatMul)
    lhs, rhs = step.operand(0), step.operand(1)
    kernel = Kernel(job, limits)
    is_matrix = is_known(rhs) and math.prod(rhs.type.shape[:-2]) == 1
    if not is_matrix or step.op.transpose_lhs or lhs.strides[-1] != 1:
        items.write_quantized_matmul(kernel)
        return kernel.finish()
    return _write_known(kernel, _transposed if step.op.transpose_rhs else _straight)


def _write_known(kernel: Kernel, arrange: Callable[[Array], Array]) -> KernelSource:
    """A product with a known weight: of floats on processors, of words of four bytes on others."""
    if kernel.limits.is_processor:
        return Tiles(kernel, arrange).write()
    return write_words(kernel, arrange)


def _straight(data: Array) -> Array:
    """A matrix [terms, columns] as tiles take it."""
    return data.reshape(1, *data.shape[-2:])


def _transposed(data: Array) -> Array:
    """A matrix [columns, terms] as tiles take it."""
    return _straight(data).transpose(0, 2, 1)


@ANCHORS.declare(QuantizedConv)
def write_quantized_conv(job: Job, limits: Limits) -> KernelSource:
    """By tiles, or by vectors of channels where each is by itself, else one result an item."""
    step = job.anchor
    assert step is not None
    x, weight = step.operand(0), step.operand(1)
    kernel = Kernel(job, limits)
    if is_depthwise(step):
        items.write_quantized_depthwise(kernel)
        return kernel.finish()
    if not is_known(weight) or x.strides[-1] != 1:
        items.write_quantized_conv(kernel)
        return kernel.finish()
    assert isinstance(step.op, QuantizedConv)
    groups, columns = step.op.groups, weight.type.shape[0] // step.op.groups

    def arrange(data: Array) -> Array:
        return data.reshape(groups, columns, -1).transpose(0, 2, 1)

    return _write_known(kernel, arrange)
