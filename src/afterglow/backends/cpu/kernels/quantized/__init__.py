"""Convolutions and matrix products of bytes, in integers."""

from __future__ import annotations

from afterglow.backends.cpu.kernel import Kernel
from afterglow.backends.cpu.kernels.quantized.depthwise import is_depthwise, write_depthwise
from afterglow.backends.cpu.kernels.quantized.problem import operands, problem_of
from afterglow.backends.cpu.kernels.quantized.product import write_product
from afterglow.backends.cpu.table import kernel
from afterglow.instr import OpInstr
from afterglow.ops.quantized import QuantizedConv, QuantizedMatMul


def _name_of_conv(step: OpInstr) -> str:
    """The extents of the windows: `quantized_conv_3x3`."""
    _, weight = operands(step)
    kind = "depthwise" if is_depthwise(step) else "conv"
    return f"quantized_{kind}_{'x'.join(map(str, weight.type.shape[1:-1]))}"


def _name_of_matmul(step: OpInstr) -> str:
    """The extents of the result: `quantized_matmul_128x768`."""
    return f"quantized_matmul_{'x'.join(map(str, step.outs[0].type.shape[-2:]))}"


@kernel(QuantizedConv, name=_name_of_conv)
def write_conv(k: Kernel) -> None:
    """Write the kernel of a convolution."""
    if is_depthwise(k.step):
        write_depthwise(k)
        return
    write_product(k, problem_of(k.step, k.target))


@kernel(QuantizedMatMul, name=_name_of_matmul)
def write_matmul(k: Kernel) -> None:
    """Write the kernel of a matrix product."""
    write_product(k, problem_of(k.step, k.target))
